use stead::vfs::MergeOptions;
use stead::{Fork, Stead};

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
    #[arg(value_name = "FORK")]
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
    args.choices.check_content(&options.rules, || {
        let mut plan = options.clone();
        plan.dry_run = true;
        stead.update_fork(&args.fork, &plan)
    })?;
    let result = follow_merge(session, &stead, "Updating", |stead| stead.update_fork(&args.fork, &options))?;
    let is_pinned = stead.find_fork(&args.fork).is_ok_and(|fork| is_pinned_directory(&stead, fork));
    report(&result, &args.fork, args.dry_run, MergeKind::Update { is_pinned }, session)
}

/// Whether a fork shows a snapshot of a host directory.
fn is_pinned_directory(stead: &Stead, fork: &Fork) -> bool {
    let mut workspaces = stead.vfs().workspaces();
    let base = workspaces.find(|workspace| *workspace.prefix() == fork.base_prefix);
    let has_live_forks = |forks: &dyn stead::store::Forks| forks.shows_later_changes();
    fork.pinned_at.is_some()
        && base.is_some_and(|base| base.mount().store().forks().is_some_and(has_live_forks))
}
