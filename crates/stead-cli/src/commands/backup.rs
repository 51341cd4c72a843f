use std::path::PathBuf;

use stead::Stores;

use crate::command_error::{CommandResult, Exit};
use crate::progress::Progress;
use crate::session::Session;
use crate::{human, json};

/// Back up the database into a new file; agents can keep working meanwhile
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to create; it must not exist yet
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config_without_records()?;
    let progress = Progress::new(session);
    let report = Stores::of(&config).backup(&args.file, &mut |bytes| progress.show(|| human::size(bytes)))?;
    drop(progress);
    if session.wants_json() {
        session.print_json(&json::backup(report.revision.0, report.bytes))?;
    } else {
        let size = human::size(report.bytes);
        session.print_line(format_args!("Copied version {} of the database: {size}.", report.revision))?;
    }
    Ok(Exit::OK)
}
