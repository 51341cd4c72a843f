use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use stead::{AuditAccess, AuditEntry, AuditQuery, ErrorKind};
use stead_server::print_to_stderr;

use super::filter::AuditFilter;
use super::open_access;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::human;
use crate::session::Session;

/// Write records as JSON Lines or CSV, oldest first
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The format
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    format: ExportFormat,
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    filter: AuditFilter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// One JSON document per line, exactly as it was hashed
    Jsonl,
    /// A table; the first line has the names of the columns
    Csv,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let access = open_access(session)?;
    let query = args.filter.query(access.as_ref(), session)?;
    let Some(path) = args.output else {
        let mut problems = Vec::new();
        session.write_output(|out| {
            problems = write_records(access.as_ref(), &query, args.format, out)?.problems;
            out.flush()
        })?;
        report_damaged(&problems);
        return Ok(Exit::OK);
    };
    let shown_path = path.display().to_string();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => CommandError::Message(
            ErrorKind::AlreadyExists,
            format!("`{shown_path}` exists already; choose another name"),
        ),
        _ => CommandError::host(format!("`{shown_path}` can't be written"), error),
    };
    let mut out = BufWriter::new(File::create_new(&path).map_err(failed)?);
    let Written { count, problems } =
        write_records(access.as_ref(), &query, args.format, &mut out).map_err(failed)?;
    out.flush().map_err(failed)?;
    report_damaged(&problems);
    session.say(format_args!("Wrote {} to {shown_path}", human::count(count, "record", "records")));
    Ok(Exit::OK)
}

/// Reports damaged records on standard error, also with `--json`: the output is the export itself.
fn report_damaged(problems: &[String]) {
    problems.iter().for_each(print_to_stderr);
}

/// What an export wrote.
#[derive(Default)]
struct Written {
    count: u64,
    /// The records that are damaged and not in the export, one sentence each.
    problems: Vec<String>,
}

fn write_records(
    access: Option<&AuditAccess>,
    query: &AuditQuery,
    format: ExportFormat,
    out: &mut impl Write,
) -> io::Result<Written> {
    if format == ExportFormat::Csv {
        writeln!(out, "{}", COLUMNS.join(","))?;
    }
    let Some(access) = access else { return Ok(Written::default()) };
    let (mut count, mut write_error) = (0, None);
    let visited = access.each(query, &mut |entry| {
        let written = match format {
            ExportFormat::Jsonl => writeln!(out, "{}", entry.body),
            ExportFormat::Csv => writeln!(out, "{}", csv_row(entry)),
        };
        match written {
            Ok(()) => {
                count += 1;
                ControlFlow::Continue(())
            }
            Err(error) => {
                write_error = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    match write_error {
        Some(error) => Err(error),
        None => visited.map(|problems| Written { count, problems }).map_err(io::Error::other),
    }
}

const COLUMNS: [&str; 21] = [
    "at",
    "stead",
    "agent",
    "thread",
    "organization",
    "team",
    "call",
    "path",
    "path2",
    "scope",
    "outcome",
    "code",
    "dry_run",
    "bytes",
    "files",
    "took_us",
    "operation",
    "version",
    "instance",
    "seq",
    "facts",
];

fn csv_row(entry: &AuditEntry) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let number = |value: Option<String>| value.unwrap_or_default();
    let path = |index: usize| entry.paths.get(index).cloned().unwrap_or_default();
    let facts = match entry.facts.is_empty() {
        true => String::new(),
        false => serde_json::to_string(&entry.facts).expect("facts can be written as JSON"),
    };
    let cells: [String; COLUMNS.len()] = [
        entry.at.clone(),
        text(&entry.stead),
        entry.agent.clone(),
        text(&entry.thread),
        text(&entry.organization),
        text(&entry.team),
        entry.call.clone(),
        path(0),
        path(1),
        text(&entry.scope),
        entry.outcome.clone(),
        text(&entry.code),
        if entry.dry_run { "true".to_owned() } else { String::new() },
        number(entry.bytes.map(|bytes| bytes.to_string())),
        number(entry.files.map(|files| files.to_string())),
        entry.took_us.to_string(),
        number(entry.operation.map(|operation| operation.to_string())),
        number(entry.version.map(|version| version.to_string())),
        entry.instance.to_string(),
        entry.seq.to_string(),
        facts,
    ];
    cells.map(|cell| csv_cell(&cell)).join(",")
}

/// A cell of CSV (RFC 4180): quoted if it contains a separator, a quote, a line break or outer whitespace.
fn csv_cell(cell: &str) -> String {
    let is_plain = !cell.contains([',', '"', '\n', '\r']) && cell.trim() == cell;
    if is_plain { cell.to_owned() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_where_it_has_to_be() {
        assert_eq!(csv_cell("plain"), "plain");
        assert_eq!(csv_cell("a,b"), "\"a,b\"");
        assert_eq!(csv_cell("say \"no\""), "\"say \"\"no\"\"\"");
        assert_eq!(csv_cell("two\nlines"), "\"two\nlines\"");
        assert_eq!(csv_cell(" wide "), "\" wide \"");
    }
}
