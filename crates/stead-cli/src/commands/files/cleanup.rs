use stead::Access;
use stead::managed::CleanupRun;
use stead::name::escape_name;
use stead::vfs::ManagedFiles;
use stead::vfs::managed::CleanupOptions;

use super::WorkspacesArg;
use crate::command_error::{CommandError, CommandResult};
use crate::session::Session;
use crate::{human, json};

/// Remove the files whose time to live is over; `stead undo --operation` brings back those whose content is kept
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only list what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Only show how the last cleanup went
    #[arg(long, conflicts_with = "dry_run")]
    status: bool,
    #[command(flatten)]
    workspaces: WorkspacesArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let access = if args.status { Access::Read } else { Access::Write };
    args.workspaces.each(("cleanup", access), session, |files, session| clean(&args, files, session))
}

fn clean(args: &Args, files: &ManagedFiles, session: &mut Session) -> Result<(), CommandError> {
    if args.status {
        let last = files.last_cleanup()?;
        if session.wants_json() {
            return session.print_json(&json::cleanup_status(files.prefix(), last.as_ref()));
        }
        let Some(run) = last else {
            session.say("There was no cleanup yet.");
            return Ok(());
        };
        session.print_line(format_args!(
            "{}: removed {} ({})",
            run.at,
            human::count(run.removed, "file", "files"),
            human::size(run.bytes)
        ))?;
        for path in &run.paths {
            session.print_line(format_args!("removed {}", human::escape_text(path)))?;
        }
        if run.removed > run.paths.len() as u64 {
            session.print_line(format_args!("and {} more", run.removed - run.paths.len() as u64))?;
        }
        say_how_to_undo(&run, session);
        if let Some(last) = &run.last_removal {
            let count = human::count(last.removed, "file", "files");
            session.print_line(format_args!(
                "{}: removed {count}, operation {}",
                last.at,
                human::escape_text(&last.operation)
            ))?;
        }
        for error in &run.errors {
            session.print_line(format_args!("could not remove {}", human::escape_text(error)))?;
        }
        for error in &run.unread {
            session.print_line(format_args!("could not read {}", human::escape_text(error)))?;
        }
        return Ok(());
    }
    let options = CleanupOptions { dry_run: args.dry_run };
    let report = files.cleanup(&options)?;
    if session.wants_json() {
        return session.print_json(&json::cleanup(files.prefix(), &report, args.dry_run));
    }
    for path in &report.paths {
        session.print_line(escape_name(path.as_str().as_bytes()))?;
    }
    let (count, size) = (human::count(report.run.removed, "file", "files"), human::size(report.run.bytes));
    match args.dry_run {
        true => session.say(format_args!("{count} ({size}) would be removed.")),
        false => session.say(format_args!("Removed {count} ({size}).")),
    }
    for error in &report.run.errors {
        session.warn(format_args!("could not remove {}", human::escape_text(error)));
    }
    for error in &report.run.unread {
        session.warn(format_args!("could not read {}", human::escape_text(error)));
    }
    say_how_to_undo(&report.run, session);
    Ok(())
}

/// Says how the removed files are brought back, and how many of them can't be.
fn say_how_to_undo(run: &CleanupRun, session: &mut Session) {
    if run.not_kept > 0 {
        let count = human::count(run.not_kept, "file", "files");
        session.say(format_args!("{count} can't be brought back, because the content isn't kept."));
    }
    if let Some(operation) = run.operation.as_ref().filter(|_| run.not_kept < run.removed) {
        let rest = if run.not_kept > 0 { "the others" } else { "them" };
        session.say(format_args!("`stead undo --operation {operation}` brings {rest} back."));
    }
}
