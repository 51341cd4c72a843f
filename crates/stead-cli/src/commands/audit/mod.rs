//! `stead audit`: shows, exports, archives and verifies the audit records.

mod archive;
mod export;
mod filter;
mod table;
mod verify;

use stead::{AuditAccess, AuditCursor, AuditEntry, AuditQuery, Stores};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::session::Session;
use filter::AuditFilter;
use table::AuditTable;

/// Show the audit records: agent, call, outcome, paths
///
/// The newest records come first; with `--follow`, new records come as they are written. `--agent` and `--thread` show only
/// the records of that agent or thread.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    #[command(flatten)]
    filter: AuditFilter,
    /// Show at most this many records
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Continue a listing at this cursor
    #[arg(long, value_name = "CURSOR", conflicts_with = "follow")]
    cursor: Option<AuditCursor>,
    /// Keep running, and show new records as they are written
    #[arg(short, long)]
    follow: bool,
}

#[derive(Debug, clap::Subcommand)]
enum AuditCommand {
    Verify(verify::Args),
    Export(export::Args),
    Archive(archive::Args),
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    match args.command {
        Some(AuditCommand::Verify(args)) => verify::run(args, session),
        Some(AuditCommand::Export(args)) => export::run(args, session),
        Some(AuditCommand::Archive(args)) => archive::run(args, session),
        None => list(args, session),
    }
}

/// The audit records, or `None` if none was ever written.
fn open_access(session: &Session) -> Result<Option<AuditAccess>, CommandError> {
    let config = session.config_without_records()?;
    Ok(Stores::of(&config).audit_access()?)
}

fn list(args: Args, session: &mut Session) -> CommandResult {
    let access = open_access(session)?;
    let query = args.filter.query(access.as_ref(), session)?;
    let Some(access) = access else {
        if args.follow {
            return Err(CommandError::invalid(
                "there are no audit records yet, so there is nothing to follow",
            ));
        }
        session.say("There are no audit records yet.");
        return Ok(Exit::OK);
    };
    if !args.follow {
        session.use_pager();
    }
    let page = access.page(&query, args.cursor, args.limit.max(1)).map_err(stead::Error::from)?;
    if args.follow {
        let mut entries = page.entries;
        entries.reverse();
        report_damaged(&page.problems, session)?;
        return follow(&access, query, entries, session);
    }
    show(&page.entries, &AuditTable::fitting(&page.entries), session)?;
    report_damaged(&page.problems, session)?;
    match page.cursor {
        Some(cursor) if session.wants_json() => session.print_json(&json::audit_cursor(cursor))?,
        Some(cursor) => session.say(format_args!("There are more records; continue with --cursor {cursor}")),
        None if page.entries.is_empty() && page.problems.is_empty() => session.say("No records match."),
        None => {}
    }
    Ok(Exit::OK)
}

/// Shows the existing records and then new ones as they come, until the reader closes the output.
fn follow(
    access: &AuditAccess,
    query: AuditQuery,
    first: Vec<AuditEntry>,
    session: &mut Session,
) -> CommandResult {
    let table = AuditTable::fitting(&first);
    show(&first, &table, session)?;
    // If no record matched, every one that matches from the first id on is new, also one that was added meanwhile.
    let after = first.iter().map(|entry| entry.id).max().unwrap_or(0);
    let mut follower = access.follow(query, Some(after)).map_err(stead::Error::from)?;
    loop {
        session.flush()?;
        let entries = follower.wait_for_entries().map_err(stead::Error::from)?;
        show(&entries, &table, session)?;
        report_damaged(&follower.take_problems(), session)?;
    }
}

/// Reports damaged records, so that the user doesn't take the listing for complete.
fn report_damaged(problems: &[String], session: &mut Session) -> Result<(), CommandError> {
    for problem in problems {
        if session.wants_json() {
            session.print_json(&json::audit_problem(problem))?;
        } else {
            session.warn(problem);
        }
    }
    Ok(())
}

fn show(entries: &[AuditEntry], table: &AuditTable, session: &mut Session) -> Result<(), CommandError> {
    for entry in entries {
        if session.wants_json() {
            session.print_line(&entry.body)?;
        } else {
            let line = table.line(entry, session);
            session.print_line(line)?;
        }
    }
    Ok(())
}
