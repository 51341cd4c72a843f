use stead::vfs::MergeOptions;

use super::merge::{ChoiceArgs, MergeKind, report};
use crate::command_error::CommandResult;
use crate::progress::follow_merge;
use crate::session::Session;

/// Bring the changes of the Workspace that a fork was made from into the fork
///
/// Conflicts in text are written into the fork's files, between the lines `<<<<<<< target`, `|||||||`, `=======` and
/// `>>>>>>> fork`, and listed. The fork can't be merged while one of these files still has such lines.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fork
    #[arg(value_name = "FORK", value_parser = crate::commands::parse_fork)]
    fork: String,
    #[command(flatten)]
    choices: ChoiceArgs,
    /// Only show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead_of_owner()?;
    let mut options = MergeOptions::default();
    options.dry_run = args.dry_run;
    options.rules = args.choices.rules(&stead, &args.fork)?;
    args.choices.check_used(&stead, &args.fork, &options.rules, |rules| {
        let mut plan = options.clone();
        (plan.dry_run, plan.rules) = (true, rules.to_vec());
        stead.update_fork(&args.fork, &plan)
    })?;
    let result = follow_merge(session, &stead, "Updating", |stead| stead.update_fork(&args.fork, &options))?;
    report(&result, &args.fork, args.dry_run, MergeKind::Update, session)
}
