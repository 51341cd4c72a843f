use stead::vfs::managed::CleanupOptions;

use super::WorkspaceArg;
use crate::command_error::{CommandResult, Exit};
use crate::session::Session;
use crate::{human, json};

/// Remove the files whose time to live is over; `stead undo --operation` brings them back
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only list what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Only show how the last cleanup went
    #[arg(long, conflicts_with = "dry_run")]
    status: bool,
    #[command(flatten)]
    workspace: WorkspaceArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let files = args.workspace.files_of(&stead, None)?;
    if args.status {
        let last = files.last_cleanup()?;
        if session.wants_json() {
            session.print_json(&json::cleanup_status(last.as_ref()))?;
            return Ok(Exit::OK);
        }
        let Some(run) = last else {
            session.say("There was no cleanup yet.");
            return Ok(Exit::OK);
        };
        session.print_line(format_args!(
            "{}: removed {} ({})",
            run.at,
            human::count(run.removed, "file", "files"),
            human::size(run.bytes)
        ))?;
        for error in &run.errors {
            session.print_line(format_args!("could not remove {}", human::escape_text(error)))?;
        }
        return Ok(Exit::OK);
    }
    let options = CleanupOptions { dry_run: args.dry_run, ..CleanupOptions::default() };
    let report = files.cleanup(&options)?;
    if session.wants_json() {
        session.print_json(&json::cleanup(&report, args.dry_run))?;
        return Ok(Exit::OK);
    }
    for path in &report.paths {
        session.print_line(human::escape_text(path.as_str()))?;
    }
    let (count, size) = (human::count(report.run.removed, "file", "files"), human::size(report.run.bytes));
    match args.dry_run {
        true => session.say(format_args!("{count} ({size}) would be removed.")),
        false => session.say(format_args!("Removed {count} ({size}).")),
    }
    for error in &report.run.errors {
        session.warn(format_args!("could not remove {}", human::escape_text(error)));
    }
    if let Some(operation) = report.run.operation.filter(|_| !args.dry_run) {
        session.say(format_args!("`stead undo --operation {operation}` brings them back."));
    }
    Ok(Exit::OK)
}
