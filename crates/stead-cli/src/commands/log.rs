use stead::OperationId;
use stead::vfs::{IntoPath, LogAction, LogEntry, LogQuery};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// List the changes to a path or to all Workspaces, newest first
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only changes to this path or below it; the path may be deleted
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Only changes by this agent
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only changes of this operation
    #[arg(long, value_name = "ID")]
    operation: Option<OperationId>,
    /// Only changes since this time: 2026-11-15, 2026-11-15T08:30:00Z, or 2h, 30m, 7d ago
    #[arg(long, value_name = "TIME", value_parser = super::parse_time)]
    since: Option<stead::Timestamp>,
    /// Show at most this many changes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// How many paths of one change are shown.
const MAX_SHOWN_PATHS: usize = 10;

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("log")?;
    let path = args.path.as_deref().map(IntoPath::into_path).transpose().map_err(stead::Error::from)?;
    let query =
        LogQuery { path, agent: args.by, operation: args.operation, since: args.since, limit: args.limit };
    let entries = vfs.log(&query)?;
    if entries.is_empty() {
        session.say("The history has no such changes.");
    }
    for entry in &entries {
        if session.wants_json() {
            session.print_json(&json::log_entry(entry))?;
        } else {
            print_entry(entry, session)?;
        }
    }
    Ok(Exit::OK)
}

fn print_entry(entry: &LogEntry, session: &mut Session) -> Result<(), CommandError> {
    let operation = &entry.operation;
    let undo_note = match (entry.undone, entry.undoes.len()) {
        (true, _) => " (undone)".to_owned(),
        (false, 0) => String::new(),
        (false, count) => format!(" (undid {})", human::count(count as u64, "operation", "operations")),
    };
    let author = match &operation.identity.thread {
        Some(thread) => format!("{}/{thread}", operation.identity.agent),
        None => operation.identity.agent.clone(),
    };
    session.print_line(format_args!(
        "{}  {}  {}  {}{undo_note}  {}",
        session.paint(Colour::Yellow, format_args!("v{}", entry.revision.number)),
        human::time(Some(operation.at)),
        session.paint(Colour::Cyan, human::escape_text(&author)),
        human::escape_text(&operation.tool),
        session.paint(Colour::Dim, operation.id),
    ))?;
    for change in entry.changes.iter().take(MAX_SHOWN_PATHS) {
        let (letter, colour) = match change.action {
            LogAction::Created => ('A', Colour::Green),
            LogAction::Written => ('M', Colour::Blue),
            LogAction::Moved => ('R', Colour::Magenta),
            LogAction::Attributes => ('T', Colour::Blue),
            LogAction::Removed => ('D', Colour::Red),
        };
        let from = change.from.as_ref().map_or(String::new(), |from| format!("{from} -> "));
        let suffix = human::kind_suffix(change.kind);
        session.print_line(format_args!(
            "  {} {from}{}{suffix}",
            session.paint(colour, letter),
            change.path
        ))?;
    }
    if entry.changes.len() > MAX_SHOWN_PATHS {
        session.print_line(format_args!("  and {} more", entry.changes.len() - MAX_SHOWN_PATHS))?;
    }
    Ok(())
}
