//! Records in columns.

use stead::AuditEntry;

use crate::human;
use crate::session::{Colour, Session};

/// How wide the columns are.
pub(super) struct AuditTable {
    who: usize,
    call: usize,
    outcome: usize,
}

/// No column is wider, whatever is in it: one long name must not push all others to the edge.
const MAX_COLUMN_WIDTH: usize = 24;

impl AuditTable {
    /// Wide enough for these, and not too narrow for others.
    pub(super) fn fitting(entries: &[AuditEntry]) -> Self {
        let widest = |least: usize, text: fn(&AuditEntry) -> String| {
            let widths = entries.iter().map(|entry| text(entry).chars().count());
            widths.chain([least]).max().unwrap_or(least).min(MAX_COLUMN_WIDTH)
        };
        AuditTable { who: widest(5, who), call: widest(6, call), outcome: widest(6, outcome) }
    }

    /// `2026-11-15 06:21:48.123  coder  write  ok      12 B   34 µs  /notes/a.md`
    pub(super) fn line(&self, entry: &AuditEntry, session: &Session) -> String {
        // To the millisecond; a text of another shape is no time of ours, and is shown as it is.
        let time = human::escape_text(entry.at.get(..23).unwrap_or(&entry.at)).replace('T', " ");
        let colour = match &*entry.outcome {
            "ok" => Colour::Green,
            "denied" => Colour::Red,
            "failed" => Colour::Yellow,
            _ => Colour::Dim,
        };
        let (who, call, outcome) = (
            padded(&who(entry), self.who),
            padded(&call(entry), self.call),
            padded(&outcome(entry), self.outcome),
        );
        let bytes = entry.bytes.map_or(String::new(), human::size);
        let took = human::duration(entry.took_us);
        let paths: Vec<_> = entry.paths.iter().map(|path| human::escape_text(path)).collect();
        let line = format!(
            "{}  {who}  {call}  {}  {bytes:>10}  {took:>7}  {}",
            session.paint(Colour::Dim, time),
            session.paint(colour, outcome),
            paths.join(if has_source_and_target(entry) { " -> " } else { ", " })
        );
        line.trim_end().to_owned()
    }
}

fn padded(text: &str, width: usize) -> String {
    format!("{text:width$}")
}

fn who(entry: &AuditEntry) -> String {
    let agent = human::escape_text(&entry.agent);
    match &entry.thread {
        Some(thread) => format!("{agent}/{}", human::escape_text(thread)),
        None => agent,
    }
}

fn call(entry: &AuditEntry) -> String {
    human::escape_text(&entry.call)
}

/// The outcome, and the error's code where it says more; and whether it was a dry run.
fn outcome(entry: &AuditEntry) -> String {
    let outcome = match &entry.code {
        Some(code) if *code != entry.outcome => format!("{} {}", entry.outcome, human::escape_text(code)),
        _ => human::escape_text(&entry.outcome),
    };
    if entry.dry_run { format!("{outcome} (dry run)") } else { outcome }
}

/// Whether its two paths are what it went from and what it went to. Of all other calls they are what was touched, or a
/// path and where symlinks led from there.
fn has_source_and_target(entry: &AuditEntry) -> bool {
    matches!(&*entry.call, "cp" | "copy" | "copy_file" | "mv" | "move" | "move_file" | "rename")
}
