//! The compensating record of a change that was recorded and then not made: its process died in between, and recovery
//! undid the change.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use stead_core::{AuditOutcome, AuditRecord, ErrorKind, Identity, VfsPath};

use crate::audit::body::{AuditEntry, RecordBody};
use crate::database::error::Result;

/// How much earlier than its revision's time a record may have been added to the database, in microseconds. A day, to
/// allow for clocks that were set.
const MAX_CLOCK_STEP_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Returns the compensating record for the change that was to make this revision. It has the same identity, call and
/// paths, the outcome `failed unavailable`, and no revision. `None` if the change has no record, because the audit was
/// off.
pub(crate) fn compensating(conn: &Connection, revision: i64) -> Result<Option<RecordBody>> {
    let at: Option<i64> = conn
        .prepare_cached("SELECT at FROM revision WHERE id = ?1")?
        .query_row([revision], |row| row.get(0))
        .optional()?;
    // Quotes in texts are escaped, so neither pattern can match anywhere else in a record.
    let (inner_member, last_member) =
        (format!(",\"version\":{revision},"), format!(",\"version\":{revision}}}"));
    let found = conn
        .prepare_cached(
            "SELECT id, body FROM audit WHERE id >= ?1 AND (instr(body, ?2) OR instr(body, ?3))
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row((at.unwrap_or(0) / 1_000 - MAX_CLOCK_STEP_MICROS, inner_member, last_member), |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?))
        })
        .optional()?;
    // A text that isn't a valid record is reported by `stead audit verify`.
    let entry = found.and_then(|(id, body)| AuditEntry::parse(id, &body).ok());
    Ok(entry.and_then(|entry| Some(RecordBody::of(&compensating_record(entry)?))))
}

fn compensating_record(entry: AuditEntry) -> Option<AuditRecord> {
    let paths: Vec<_> = entry.paths.iter().filter_map(|path| VfsPath::from_record(path).ok()).collect();
    let identity = Identity {
        thread: entry.thread.clone(),
        organization: entry.organization.clone(),
        team: entry.team.clone(),
        ..Identity::agent(&*entry.agent)
    };
    let outcome = AuditOutcome::from_error_kind(ErrorKind::Unavailable);
    let mut record = AuditRecord::new(entry.at()?, Arc::new(identity), entry.call, outcome);
    record.stead = entry.stead.as_deref().map(Into::into);
    record.paths = paths;
    record.scope = entry.scope.as_deref().and_then(|scope| scope.parse().ok());
    record.dry_run = entry.dry_run;
    record.bytes = entry.bytes;
    record.file_count = entry.files;
    record.duration = Duration::from_micros(entry.took_us);
    record.operation = entry.operation;
    record.facts = entry.facts;
    Some(record)
}
