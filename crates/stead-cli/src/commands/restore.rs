use stead::vfs::{IntoPath, RestoreOptions};

use crate::command_error::{CommandError, CommandResult};
use crate::commands::undo::{Reverted, report_revert};
use crate::session::Session;

/// Restore a Workspace, or some paths in it, to an earlier version
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Workspace, or a path in one
    #[arg(value_name = "PREFIX")]
    prefix: String,
    /// A snapshot's label or #number, a version's number, or a time (2h, yesterday, 2026-11-15 08:30)
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
    /// Only these paths
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// Only show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead_of_owner()?;
    let result = stead.single_record("restore", Some(&args.prefix), CommandError::kind, |stead| {
        let point = stead.resolve_point(&*args.prefix, &args.snapshot)?;
        let paths: Result<_, _> = args.paths.iter().map(|path| path.as_str().into_path()).collect();
        let options = RestoreOptions { paths: paths.map_err(stead::Error::from)?, dry_run: args.dry_run };
        let result = stead.vfs().restore(&*args.prefix, point, &options)?;
        result.check_found(stead.vfs(), &options)?;
        Ok::<_, CommandError>(result)
    })?;
    report_revert(&result, Reverted::Paths, args.dry_run, session)
}
