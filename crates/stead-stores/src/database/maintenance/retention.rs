//! Retention: forgets revisions beyond an age, and the oldest contents of files with very many versions.
//!
//! A revision that a snapshot or a fork refers to stays readable whatever its age.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::RevisionNumber;
use stead_core::{AuditOutcome, AuditRecord, Identity, StoreError, StoreResult, Timestamp};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::database::schema::{FORGOTTEN_UNRECORDED, HISTORY_FROM};
use crate::database::{Database, RECOVERY_TOOL, RESTORE_TOOL};
use crate::virtual_store::capture::{forget_unreadable_captures, revert_unfinished_capture};

/// How many rows one transaction removes, so that other writers don't wait long.
const ROWS_PER_TRANSACTION: i64 = 500;

/// How long a capture may be inactive before it counts as abandoned: an hour, in nanoseconds.
const UNFINISHED_TIMEOUT: i64 = 3_600 * 1_000_000_000;

/// How long history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Older revisions may be forgotten.
    pub age: Duration,
    /// How many old contents of one file are kept at least; older ones may be forgotten.
    pub versions: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { age: Duration::from_secs(30 * 24 * 3600), versions: 10_000 }
    }
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ForgottenHistory {
    /// States of files, directories and symlinks.
    pub states: u64,
    /// Rows of the change log.
    pub changes: u64,
    /// Contents of files with too many versions.
    pub contents: u64,
}

/// Selects the revisions that are kept whatever their age: those of snapshots, those that forks are based on, and those that
/// forks have taken in.
pub(crate) const PINNED_REVISIONS: &str =
    "SELECT revision FROM snapshot UNION SELECT base_revision AS revision FROM volume WHERE base IS NOT NULL
     UNION SELECT pinned AS revision FROM overlay WHERE pinned IS NOT NULL
     UNION SELECT target_revision AS revision FROM fork_sync
     UNION SELECT before_merge AS revision FROM fork_sync WHERE before_merge IS NOT NULL
     UNION SELECT base_revision AS revision FROM fork_sync_node WHERE base_revision IS NOT NULL";

/// Whether a revision can still be read.
pub(crate) fn is_readable(conn: &Connection, revision: i64) -> Result<bool> {
    let history_from: i64 = conn
        .prepare_cached("SELECT value FROM meta WHERE id = ?1")?
        .query_row([HISTORY_FROM], |row| row.get(0))?;
    if revision >= history_from {
        return Ok(true);
    }
    Ok(conn
        .prepare_cached(&format!("SELECT 1 FROM ({PINNED_REVISIONS}) WHERE revision = ?1"))?
        .exists([revision])?)
}

/// Fails as `Expired` if a revision can't be read: it is forgotten, or it was lost.
pub(crate) fn check_readable(conn: &Connection, revision: i64) -> Result<()> {
    if !is_readable(conn, revision)? {
        return Err(StoreError::Expired(format!("version {revision} is no longer kept")).into());
    }
    match find_loss(conn, revision)?.as_deref() {
        None => Ok(()),
        Some(RESTORE_TOOL) => {
            let message = format!("version {revision} was lost when a backup was restored");
            Err(StoreError::Expired(message).into())
        }
        Some(_) => {
            let message = format!(
                "version {revision} was lost: the end of the database was missing when it was opened"
            );
            Err(StoreError::Expired(message).into())
        }
    }
}

/// Fails as `Expired` if the revisions right after this one were lost: then it isn't known which one was the newest at a
/// time between this one and the next one that exists.
pub(crate) fn check_none_lost_after(conn: &Connection, revision: i64) -> Result<()> {
    let reason = match find_loss(conn, revision + 1)?.as_deref() {
        None => return Ok(()),
        Some(RESTORE_TOOL) => "a backup was restored",
        Some(_) => "the end of the database was missing",
    };
    let message =
        format!("the versions of that time were lost when {reason}; the last one before them is {revision}");
    Err(StoreError::Expired(message).into())
}

/// The tool of the revision that replaced a lost one; `None` if the revision isn't lost.
///
/// Revisions have consecutive numbers. Only a restored backup, or a database whose end is missing, leaves numbers out, and
/// makes a revision beyond them. Between the first missing number and that revision, only revisions of ledgers can be left,
/// and at none of them is the state of a volume known.
fn find_loss(conn: &Connection, revision: i64) -> Result<Option<String>> {
    let next = conn
        .prepare_cached(
            "SELECT tool FROM revision WHERE agent = 'operator' AND id > ?1 AND tool IN (?2, ?3) ORDER BY id LIMIT 1",
        )?
        .query_row(params![revision, RESTORE_TOOL, RECOVERY_TOOL], |row| row.get(0))
        .optional()?;
    let Some(next) = next else { return Ok(None) };
    // Older rows than the oldest readable revision may have been deleted.
    let first: i64 = conn
        .prepare_cached(
            "SELECT max(1, (SELECT value FROM meta WHERE id = ?1), ifnull((SELECT max(id) FROM revision
               WHERE agent = 'operator' AND id <= ?2 AND tool IN (?3, ?4)), 0))",
        )?
        .query_row(params![HISTORY_FROM, revision, RESTORE_TOOL, RECOVERY_TOOL], |row| row.get(0))?;
    let count: i64 = conn
        .prepare_cached("SELECT count(*) FROM revision WHERE id BETWEEN ?1 AND ?2")?
        .query_row([first, revision], |row| row.get(0))?;
    Ok((count < revision - first + 1).then_some(next))
}

impl Database {
    /// Forgets what the retention doesn't keep, in small transactions, while other callers go on. `progress` gets the
    /// number of rows so far, for each kind of row from 0 on.
    pub fn forget(
        &self,
        retention: Retention,
        now: Timestamp,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<ForgottenHistory> {
        let age = i64::try_from(retention.age.as_nanos()).unwrap_or(i64::MAX);
        let horizon = self.horizon(now.0.saturating_sub(age))?;
        let mut forgotten = ForgottenHistory::default();
        if let Some(horizon) = horizon {
            // First it can't be read any more, then it is removed.
            self.0.write_reserved(CommitSync::AsConfigured, move |transaction| {
                raise_horizon(transaction, horizon, now)
            })?;
            let mut in_batches =
                |forget: fn(&mut WriteTransaction<'_>, i64) -> Result<u64>| -> StoreResult<u64> {
                    let mut total = 0;
                    loop {
                        let count = self.0.write_reserved(CommitSync::Deferred, move |transaction| {
                            forget(transaction, horizon)
                        })?;
                        total += count;
                        progress(total);
                        if count == 0 {
                            return Ok(total);
                        }
                    }
                };
            self.0.write_reserved(CommitSync::Deferred, forget_unreadable_captures)?;
            forgotten.states = in_batches(forget_states)?;
            in_batches(forget_manifest_rows)?;
            in_batches(forget_missing_rows)?;
            forgotten.changes = in_batches(forget_changes)?;
            in_batches(forget_unchanged)?;
            in_batches(forget_revisions)?;
        }
        forgotten.states += self.revert_unfinished_captures(now)?;
        forgotten.contents = self.drop_excess_contents(retention.versions, progress)?;
        Ok(forgotten)
    }

    /// Removes what capture volumes have of snapshots that are gone, or that were never finished.
    fn revert_unfinished_captures(&self, now: Timestamp) -> StoreResult<u64> {
        let capture_volumes = || -> Result<Vec<i64>> {
            let reader = self.0.reader()?;
            let mut statement = reader.prepare("SELECT volume FROM capture_volume")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        let (mut total, idle_since) = (0, now.0.saturating_sub(UNFINISHED_TIMEOUT));
        for volume in capture_volumes()? {
            total += self.0.write_reserved(CommitSync::Deferred, move |transaction| {
                revert_unfinished_capture(transaction, volume, idle_since)
            })?;
        }
        Ok(total)
    }

    /// The newest revision that is older than a time: the oldest one that has to stay readable.
    fn horizon(&self, before: i64) -> StoreResult<Option<i64>> {
        let find = || -> Result<Option<i64>> {
            let reader = self.0.reader()?;
            let horizon = reader
                .prepare_cached("SELECT id FROM revision WHERE at < ?1 ORDER BY id DESC LIMIT 1")?
                .query_row([before], |row| row.get(0))
                .optional()?;
            Ok(horizon)
        };
        Ok(find()?)
    }

    /// Removes the oldest contents of files that have more than `max_count` of them.
    fn drop_excess_contents(&self, max_count: u64, progress: &mut dyn FnMut(u64)) -> StoreResult<u64> {
        let max_count = i64::try_from(max_count).unwrap_or(i64::MAX);
        let nodes_beyond_max = || -> Result<Vec<(i64, i64)>> {
            let reader = self.0.reader()?;
            let mut statement = reader.prepare(
                "SELECT volume, node FROM entry_history WHERE content IS NOT NULL
                 GROUP BY volume, node HAVING count(*) > ?1",
            )?;
            let rows = statement.query_map([max_count], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        let mut total = 0;
        for (volume, node) in nodes_beyond_max()? {
            loop {
                let count = self.0.write_reserved(CommitSync::Deferred, move |transaction| {
                    drop_contents_beyond(transaction, volume, node, max_count)
                })?;
                total += count;
                progress(total);
                if count == 0 {
                    break;
                }
            }
        }
        Ok(total)
    }
}

/// Raises the oldest readable revision, and records that in the audit: what is older may be removed from then on.
fn raise_horizon(transaction: &mut WriteTransaction<'_>, horizon: i64, now: Timestamp) -> Result<()> {
    let raise_sql = "UPDATE meta SET value = ?2 WHERE id = ?1 AND value < ?2";
    if transaction.conn.prepare_cached(raise_sql)?.execute([HISTORY_FROM, horizon])? == 0 {
        return Ok(());
    }
    if transaction.chain().is_none() {
        transaction.conn.prepare_cached(raise_sql)?.execute([FORGOTTEN_UNRECORDED, horizon])?;
        return Ok(());
    }
    let operator = Arc::new(Identity::agent("(operator)"));
    let mut record = AuditRecord::new(now, operator, "gc", AuditOutcome::Begun);
    record.revision = Some(RevisionNumber(horizon));
    transaction.append_record(&record)
}

/// Deletes old states. A state is needed if it is part of a readable revision: one from the horizon on, or a pinned
/// one.
fn forget_states(transaction: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = format!(
        "DELETE FROM entry_history WHERE (volume, parent, name, since) IN (
           SELECT volume, parent, name, since FROM entry_history h
           WHERE until <= ?1 AND NOT EXISTS (SELECT 1 FROM ({PINNED_REVISIONS}) p WHERE p.revision >= h.since AND p.revision < h.until)
           LIMIT ?2)"
    );
    Ok(transaction.conn.prepare_cached(&sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

/// Deletes old states of manifest rows.
fn forget_manifest_rows(transaction: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = format!(
        "DELETE FROM workspace_file_history WHERE (workspace, path, until) IN (
           SELECT workspace, path, until FROM workspace_file_history h
           WHERE until <= ?1 AND NOT EXISTS (SELECT 1 FROM ({PINNED_REVISIONS}) p WHERE p.revision >= h.since AND p.revision < h.until)
           LIMIT ?2)"
    );
    Ok(transaction.conn.prepare_cached(&sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

/// Deletes rows of managed files that have been missing for long.
fn forget_missing_rows(transaction: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = "DELETE FROM workspace_file_missing WHERE (workspace, path) IN (
           SELECT workspace, path FROM workspace_file_missing WHERE until < ?1 LIMIT ?2)";
    Ok(transaction.conn.prepare_cached(sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

/// Deletes old rows of the change log. It is needed from the oldest readable revision on, to tell what has changed
/// since.
fn forget_changes(transaction: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = format!(
        "DELETE FROM node_change WHERE (volume, revision, seq) IN (
           SELECT volume, revision, seq FROM node_change WHERE revision <= min(?1, ifnull((SELECT min(revision) FROM ({PINNED_REVISIONS})), ?1)) LIMIT ?2)"
    );
    Ok(transaction.conn.prepare_cached(&sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

/// Deletes old revisions that changed nothing, except those of ledgers, which keep all their revisions.
fn forget_unchanged(transaction: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = format!(
        "DELETE FROM empty_revision WHERE (volume, revision) IN (
           SELECT volume, revision FROM empty_revision WHERE revision <= min(?1, ifnull((SELECT min(revision) FROM ({PINNED_REVISIONS})), ?1))
             AND volume IN (SELECT id FROM volume WHERE namespace NOT LIKE '{{_directory_:%') LIMIT ?2)"
    );
    Ok(transaction.conn.prepare_cached(&sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

fn forget_revisions(transaction: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = format!(
        "DELETE FROM revision WHERE id IN (
           SELECT id FROM revision WHERE id < (SELECT max(id) FROM revision) AND id NOT IN (SELECT revision FROM ledger_event)
             AND id NOT IN (SELECT revision FROM empty_revision)
             AND id < min(?1, ifnull((SELECT min(revision) FROM ({PINNED_REVISIONS})), ?1)) LIMIT ?2)"
    );
    Ok(transaction.conn.prepare_cached(&sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

/// Removes the oldest contents of a node. Their states stay, without content.
fn drop_contents_beyond(
    transaction: &mut WriteTransaction<'_>,
    volume: i64,
    node: i64,
    max_count: i64,
) -> Result<u64> {
    let sql = format!(
        "UPDATE entry_history SET content = NULL WHERE (volume, parent, name, since) IN (
           SELECT volume, parent, name, since FROM entry_history h
           WHERE volume = ?1 AND node = ?2 AND content IS NOT NULL
             AND since < (SELECT since FROM entry_history WHERE volume = ?1 AND node = ?2 AND content IS NOT NULL
                          ORDER BY since DESC LIMIT 1 OFFSET ?3 - 1)
             AND NOT EXISTS (SELECT 1 FROM ({PINNED_REVISIONS}) p WHERE p.revision >= h.since AND p.revision < h.until)
           LIMIT ?4)"
    );
    Ok(transaction.conn.prepare_cached(&sql)?.execute(params![
        volume,
        node,
        max_count,
        ROWS_PER_TRANSACTION
    ])? as u64)
}
