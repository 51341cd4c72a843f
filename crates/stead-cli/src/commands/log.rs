use stead::vfs::{DiffOptions, IntoPath, LogAction, LogEntry, LogQuery};
use stead::{Config, OperationIdPrefix};

use super::difference::{DiffStyle, print_differences};
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// List the changes to a path or to all Workspaces, newest first
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only changes to this path or below it, even if it was deleted
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// Only changes by this agent
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only changes of this operation; the beginning of its id is enough
    #[arg(long, value_name = "ID")]
    operation: Option<OperationIdPrefix>,
    /// Only changes since this time: 2h, yesterday, 10:30, 2026-11-15, 2026-11-15 08:30
    #[arg(long, value_name = "TIME", value_parser = super::parse_time)]
    since: Option<stead::Timestamp>,
    /// Show at most this many changes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, visible_alias = "max-count")]
    limit: usize,
    /// Also show the changed lines
    #[arg(short, long)]
    patch: bool,
    /// Also show how many lines were added and removed in each file
    #[arg(long, conflicts_with = "patch")]
    stat: bool,
    /// Show each change on one line
    #[arg(long)]
    oneline: bool,
}

/// What is shown of each change.
#[derive(Debug, Clone, Copy)]
struct LogStyle {
    /// Whether the operation is shown on one line with the first path, instead of a line and one for each path.
    is_oneline: bool,
    /// How the differences are shown, if they are.
    differences: Option<DiffStyle>,
}

/// How many digits of an operation's id a line shows. They hold its time to the millisecond.
const SHORT_ID_LENGTH: usize = 13;

/// How many paths of one change are shown.
const MAX_SHOWN_PATHS: usize = 10;

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead_of_owner()?;
    session.use_pager();
    let differences = match (args.patch, args.stat) {
        (true, _) => Some(DiffStyle::Patch),
        (false, true) => Some(DiffStyle::Stat),
        (false, false) => None,
    };
    let style = LogStyle { is_oneline: args.oneline, differences };
    // An agent that isn't configured any more is found by its whole name.
    let config = session.config_file().ok().and_then(|file| Config::load_usable(&file).ok());
    let full_name = |by: &String| config.as_ref()?.full_agent_name(by).ok();
    let by = args.by.as_ref().map(|by| full_name(by).unwrap_or_else(|| by.clone()));
    let entries = stead.single_record("log", args.path.as_deref(), CommandError::kind, |stead| {
        let find = |prefix| stead.find_operation(prefix);
        let query = LogQuery {
            path: args.path.as_deref().map(IntoPath::into_path).transpose().map_err(stead::Error::from)?,
            agent: by,
            operation: args.operation.as_ref().map(find).transpose()?,
            since: args.since,
            limit: args.limit,
            diff: differences.map(|_| DiffOptions::default()),
        };
        Ok::<_, CommandError>(stead.vfs().log(&query)?)
    })?;
    if entries.is_empty() {
        session.say("The history has no such changes.");
    }
    for entry in &entries {
        if session.wants_json() {
            session.print_json(&json::log_entry(entry, differences.map(DiffStyle::hunks)))?;
        } else {
            print_entry(entry, style, session)?;
        }
    }
    Ok(Exit::OK)
}

fn print_entry(entry: &LogEntry, style: LogStyle, session: &mut Session) -> Result<(), CommandError> {
    if style.is_oneline {
        print_line(entry, session)?;
    } else {
        print_heading(entry, session)?;
    }
    match style.differences {
        Some(differences) => print_differences(&entry.differences, differences, session)?,
        None if style.is_oneline => return Ok(()),
        None => return print_paths(entry, session),
    }
    // A log with differences is long, so its entries are set apart.
    if style.is_oneline { Ok(()) } else { session.print_line("") }
}

/// Prints the operation of an entry.
fn print_heading(entry: &LogEntry, session: &mut Session) -> Result<(), CommandError> {
    let operation = &entry.operation;
    let undo_note = match (entry.undone, entry.undoes.len()) {
        (true, _) => " (undone)".to_owned(),
        (false, 0) => String::new(),
        (false, count) => format!(" (undid {})", human::count(count as u64, "operation", "operations")),
    };
    let merge_note = match &entry.merged_fork {
        Some(fork) => format!(" (merged the fork {})", human::escape_text(fork)),
        None => String::new(),
    };
    let author = match &operation.identity.thread {
        Some(thread) => format!("{}/{thread}", operation.identity.agent),
        None => operation.identity.agent.clone(),
    };
    session.print_line(format_args!(
        "{}  {}  {}  {}{merge_note}{undo_note}  {}",
        session.paint(Colour::Yellow, format_args!("v{}", entry.revision.number)),
        human::time(Some(operation.at)),
        session.paint(Colour::Cyan, human::escape_text(&author)),
        human::escape_text(&operation.tool),
        session.paint(Colour::Dim, operation.id),
    ))
}

/// Prints what happened to the paths of an entry.
fn print_paths(entry: &LogEntry, session: &mut Session) -> Result<(), CommandError> {
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

/// Prints an entry on one line: `019a8c3e-5f00 v3 ann write /notes/plan.md and 2 more`.
fn print_line(entry: &LogEntry, session: &mut Session) -> Result<(), CommandError> {
    let operation = &entry.operation;
    let id = operation.id.to_string();
    let path = entry.changes.first().map_or(String::new(), |change| change.path.to_string());
    let more = match entry.changes.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let undone = if entry.undone { " (undone)" } else { "" };
    session.print_line(format_args!(
        "{} {} {} {} {path}{more}{undone}",
        session.paint(Colour::Dim, &id[..SHORT_ID_LENGTH]),
        session.paint(Colour::Yellow, format_args!("v{}", entry.revision.number)),
        session.paint(Colour::Cyan, human::escape_text(&operation.identity.agent)),
        human::escape_text(&operation.tool),
    ))
}
