use std::path::PathBuf;

use stead::{Archived, Timestamp};

use super::open_access;
use crate::command_error::{CommandResult, Exit};
use crate::commands::parse_time;
use crate::session::Session;
use crate::{human, json};

/// Move old records out of the database into a file that can be checked by itself
///
/// Only signed records are moved, so a few of the last records before that time may stay.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Records from before this time: 90d, 3 months ago, 2026-11-15
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    before: Timestamp,
    /// The directory for the file [default: .stead/audit/archive]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let directory = match args.to {
        Some(directory) => directory,
        None => session.config_without_records()?.audit_directory().join("archive"),
    };
    let archived = match open_access(session)? {
        Some(access) => access.archive(args.before, &directory).map_err(stead::Error::from)?,
        None => Archived { records: 0, file: None },
    };
    let directory = directory.strip_prefix(".").unwrap_or(&directory);
    let file = archived.file.map(|file| directory.join(file).display().to_string());
    if session.wants_json() {
        session.print_json(&json::archived(archived.records, file.as_deref()))?;
    }
    match file {
        Some(file) => {
            let records = human::count(archived.records, "record", "records");
            session.say(format_args!("Moved {records} to {file}"));
        }
        None => session.say("There are no records to move."),
    }
    Ok(Exit::OK)
}
