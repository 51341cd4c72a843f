use std::path::PathBuf;

use serde_json::json;
use stead::Stores;

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::progress::Progress;
use crate::session::Session;

/// Make the database what a backup holds; what has changed since the backup is gone
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Yes, what has changed since the backup may go
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    if !args.yes {
        return Err(CommandError::invalid(
            "what has changed in the database since the backup will be gone, history included; \
             `stead backup` keeps it; say --yes if that is wanted",
        ));
    }
    let config = session.config()?;
    let progress = Progress::new(session);
    progress.show(|| "restoring".to_owned());
    let version = Stores::of(&config).restore_backup(&args.file, &mut |_| ())?;
    drop(progress);
    if session.wants_json() {
        session.print_json(&json!({ "version": version.0 }))?;
    } else {
        session.print_line(format_args!("The database is what the backup holds, as version {version}."))?;
    }
    Ok(Exit::OK)
}
