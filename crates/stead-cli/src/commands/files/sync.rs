use super::WorkspaceArg;
use crate::command_error::{CommandResult, Exit};
use crate::session::Session;
use crate::{human, json};

/// Make the manifest agree with the files that are there
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    workspace: WorkspaceArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let report = args.workspace.files_of(&stead, None)?.sync()?;
    if session.wants_json() {
        session.print_json(&json::managed_sync(&report))?;
        return Ok(Exit::OK);
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
    Ok(Exit::OK)
}
