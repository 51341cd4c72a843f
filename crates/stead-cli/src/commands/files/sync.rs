use stead::Access;
use stead::vfs::ManagedFiles;

use super::WorkspacesArg;
use crate::command_error::{CommandError, CommandResult};
use crate::session::Session;
use crate::{human, json};

/// Make the manifest agree with the files that are there
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    workspaces: WorkspacesArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    args.workspaces.each(("sync", Access::Read), session, sync)
}

fn sync(files: &ManagedFiles, session: &mut Session) -> Result<(), CommandError> {
    let report = files.sync()?;
    if session.wants_json() {
        return session.print_json(&json::managed_sync(files.prefix(), &report));
    }
    session.warn_unreadable(&report.unreadable);
    let counts = report.counts;
    let entries = |count| human::count(count, "entry", "entries");
    session.say(match counts.is_empty() {
        true if report.unreadable.is_empty() => "The manifest agrees with the files.".to_owned(),
        true => "The manifest agrees with the files that could be read.".to_owned(),
        false => format!(
            "Added {}, removed {}, corrected {}.",
            entries(counts.added),
            entries(counts.removed),
            entries(counts.resized)
        ),
    });
    Ok(())
}
