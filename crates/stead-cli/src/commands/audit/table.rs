//! Audit records as lines in columns.

use stead::{AuditEntry, FactName, FactValue};

use crate::human;
use crate::session::{Colour, Session};

/// The widths of the columns.
pub(super) struct AuditTable {
    actor: usize,
    call: usize,
    outcome: usize,
}

/// The widest that a column may be, so that one long name doesn't push all others to the edge.
const MAX_COLUMN_WIDTH: usize = 24;

impl AuditTable {
    /// Columns that fit these entries, with a minimum width for entries that come later.
    pub(super) fn fitting(entries: &[AuditEntry]) -> Self {
        let widest = |minimum: usize, text: fn(&AuditEntry) -> String| {
            let widths = entries.iter().map(|entry| text(entry).chars().count());
            widths.chain([minimum]).max().unwrap_or(minimum).min(MAX_COLUMN_WIDTH)
        };
        AuditTable { actor: widest(5, actor), call: widest(6, call), outcome: widest(6, outcome) }
    }

    /// One entry as a line: `2026-11-15 06:21:48.123  coder  write  ok      12 B   34 µs  /notes/a.md`
    pub(super) fn line(&self, entry: &AuditEntry, session: &Session) -> String {
        // A text that isn't a time was not written by Stead, and is shown as it is.
        let time = match entry.at.parse() {
            Ok(time) => stead::time_text::format_millisecond(time),
            Err(_) => human::escape_text(&entry.at),
        };
        let colour = match &*entry.outcome {
            "ok" => Colour::Green,
            "denied" => Colour::Red,
            "failed" => Colour::Yellow,
            _ => Colour::Dim,
        };
        let (actor, call, outcome) = (
            padded(&actor(entry), self.actor),
            padded(&call(entry), self.call),
            padded(&outcome(entry), self.outcome),
        );
        let bytes = entry.bytes.map_or(String::new(), human::size);
        let duration = human::duration(entry.took_us);
        let paths: Vec<_> = entry.paths.iter().map(|path| human::escape_text(path)).collect();
        let paths = paths.join(if has_source_and_target(entry) { " -> " } else { ", " });
        let fact = |(name, value): (&FactName, &FactValue)| human::escape_text(&format!("{name}={value}"));
        let facts: Vec<_> = entry.facts.iter().map(fact).collect();
        let line = format!(
            "{}  {actor}  {call}  {}  {bytes:>10}  {duration:>7}  {paths}  {}",
            session.paint(Colour::Dim, time),
            session.paint(colour, outcome),
            facts.join(" "),
        );
        line.trim_end().to_owned()
    }
}

fn padded(text: &str, width: usize) -> String {
    format!("{text:width$}")
}

fn actor(entry: &AuditEntry) -> String {
    let agent = human::escape_text(&entry.agent);
    match &entry.thread {
        Some(thread) => format!("{agent}/{}", human::escape_text(thread)),
        None => agent,
    }
}

fn call(entry: &AuditEntry) -> String {
    human::escape_text(&entry.call)
}

/// The outcome, with the error's code if it says more, and a mark for a dry run.
fn outcome(entry: &AuditEntry) -> String {
    let outcome = match &entry.code {
        Some(code) if *code != entry.outcome => format!("{} {}", entry.outcome, human::escape_text(code)),
        _ => human::escape_text(&entry.outcome),
    };
    if entry.dry_run { format!("{outcome} (dry run)") } else { outcome }
}

/// Whether the entry's two paths are a source and a target. For all other calls they are the paths that were touched,
/// or a path and its path after following symlinks.
fn has_source_and_target(entry: &AuditEntry) -> bool {
    matches!(&*entry.call, "cp" | "copy" | "copy_file" | "mv" | "move" | "move_file" | "rename")
}
