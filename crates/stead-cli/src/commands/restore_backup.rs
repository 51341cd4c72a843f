use std::path::PathBuf;

use stead::Stores;

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::progress::Progress;
use crate::session::Session;

/// Replace the database with a backup; changes since the backup are lost
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Confirm that changes since the backup may be lost
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    if !args.yes {
        return Err(CommandError::invalid(
            "changes in the database since the backup will be lost, history included; \
             save them with `stead backup`, or confirm with --yes that they may be lost",
        ));
    }
    let config = session.config()?;
    let progress = Progress::new(session);
    progress.show(|| "restoring".to_owned());
    let revision = Stores::of(&config).restore_backup(&args.file, &mut |_| ())?;
    drop(progress);
    if session.wants_json() {
        session.print_json(&json::restored_backup(revision.0))?;
    } else {
        session.print_line(format_args!("Restored the backup as version {revision}."))?;
    }
    Ok(Exit::OK)
}
