//! Retention: forgets revisions beyond an age, and the oldest contents of files with very many versions.
//!
//! A revision that a snapshot or a fork refers to stays readable whatever its age.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::RevisionNumber;
use stead_core::{AuditOutcome, AuditRecord, Identity, StoreResult, Timestamp};

use crate::database::Database;
use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::database::schema::{FORGOTTEN_UNRECORDED, HISTORY_FROM};
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

/// Selects the revisions that are kept whatever their age: those of snapshots, and those that forks are based on.
pub(crate) const PINNED_REVISIONS: &str =
    "SELECT revision FROM snapshot UNION SELECT base_revision AS revision FROM volume WHERE base IS NOT NULL";

/// Whether a revision can still be read.
pub(crate) fn is_readable(conn: &Connection, version: i64) -> Result<bool> {
    let from: i64 = conn
        .prepare_cached("SELECT value FROM meta WHERE id = ?1")?
        .query_row([HISTORY_FROM], |row| row.get(0))?;
    if version >= from {
        return Ok(true);
    }
    Ok(conn
        .prepare_cached(&format!("SELECT 1 FROM ({PINNED_REVISIONS}) WHERE revision = ?1"))?
        .exists([version])?)
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
            self.0.write_reserved(CommitSync::AsConfigured, move |writing| {
                raise_horizon(writing, horizon, now)
            })?;
            let mut steps = |forget: fn(&mut WriteTransaction<'_>, i64) -> Result<u64>| -> StoreResult<u64> {
                let mut all = 0;
                loop {
                    let count = self
                        .0
                        .write_reserved(CommitSync::Deferred, move |writing| forget(writing, horizon))?;
                    all += count;
                    progress(all);
                    if count == 0 {
                        return Ok(all);
                    }
                }
            };
            self.0.write_reserved(CommitSync::Deferred, forget_unreadable_captures)?;
            forgotten.states = steps(forget_states)?;
            forgotten.changes = steps(forget_changes)?;
            steps(forget_unchanged)?;
            steps(forget_revisions)?;
        }
        forgotten.states += self.revert_unfinished_captures(now)?;
        forgotten.contents = self.drop_excess_contents(retention.versions, progress)?;
        Ok(forgotten)
    }

    /// Removes what capture volumes have of snapshots that are gone, or that were never finished.
    fn revert_unfinished_captures(&self, now: Timestamp) -> StoreResult<u64> {
        let shadows = || -> Result<Vec<i64>> {
            let reader = self.0.reader()?;
            let mut statement = reader.prepare("SELECT volume FROM capture_volume")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        let (mut all, idle_since) = (0, now.0.saturating_sub(UNFINISHED_TIMEOUT));
        for vol in shadows()? {
            all += self.0.write_reserved(CommitSync::Deferred, move |writing| {
                revert_unfinished_capture(writing, vol, idle_since)
            })?;
        }
        Ok(all)
    }

    /// The newest revision that is older than a time: the oldest one that has to stay readable.
    fn horizon(&self, moment: i64) -> StoreResult<Option<i64>> {
        let find = || -> Result<Option<i64>> {
            let reader = self.0.reader()?;
            let horizon = reader
                .prepare_cached("SELECT id FROM revision WHERE at < ?1 ORDER BY id DESC LIMIT 1")?
                .query_row([moment], |row| row.get(0))
                .optional()?;
            Ok(horizon)
        };
        Ok(find()?)
    }

    /// Removes the oldest contents of files that have more than `most` of them.
    fn drop_excess_contents(&self, most: u64, progress: &mut dyn FnMut(u64)) -> StoreResult<u64> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let crowded = || -> Result<Vec<(i64, i64)>> {
            let reader = self.0.reader()?;
            let mut statement = reader.prepare(
                "SELECT volume, node FROM entry_history WHERE content IS NOT NULL
                 GROUP BY volume, node HAVING count(*) > ?1",
            )?;
            let rows = statement.query_map([most], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        let mut all = 0;
        for (vol, node) in crowded()? {
            loop {
                let count = self.0.write_reserved(CommitSync::Deferred, move |writing| {
                    drop_contents_beyond(writing, vol, node, most)
                })?;
                all += count;
                progress(all);
                if count == 0 {
                    break;
                }
            }
        }
        Ok(all)
    }
}

/// Raises the oldest readable revision, and records that in the audit: what is older may be removed from then on.
fn raise_horizon(writing: &mut WriteTransaction<'_>, horizon: i64, now: Timestamp) -> Result<()> {
    let raise = "UPDATE meta SET value = ?2 WHERE id = ?1 AND value < ?2";
    if writing.conn.prepare_cached(raise)?.execute([HISTORY_FROM, horizon])? == 0 {
        return Ok(());
    }
    if writing.chain().is_none() {
        writing.conn.prepare_cached(raise)?.execute([FORGOTTEN_UNRECORDED, horizon])?;
        return Ok(());
    }
    let operator = Arc::new(Identity::agent("(operator)"));
    let mut record = AuditRecord::new(now, operator, "gc", AuditOutcome::Begun);
    record.revision = Some(RevisionNumber(horizon));
    writing.append_record(&record)
}

/// Deletes old states. A state is needed if it is part of a readable revision: one from the horizon on, or a pinned
/// one.
fn forget_states(writing: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = format!(
        "DELETE FROM entry_history WHERE (volume, parent, name, since) IN (
           SELECT volume, parent, name, since FROM entry_history h
           WHERE until <= ?1 AND NOT EXISTS (SELECT 1 FROM ({PINNED_REVISIONS}) p WHERE p.revision >= h.since AND p.revision < h.until)
           LIMIT ?2)"
    );
    Ok(writing.conn.prepare_cached(&sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

/// Deletes old rows of the change log. It is needed from the oldest readable revision on, to tell what has changed
/// since.
fn forget_changes(writing: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = format!(
        "DELETE FROM node_change WHERE (volume, revision, seq) IN (
           SELECT volume, revision, seq FROM node_change WHERE revision <= min(?1, ifnull((SELECT min(revision) FROM ({PINNED_REVISIONS})), ?1)) LIMIT ?2)"
    );
    Ok(writing.conn.prepare_cached(&sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

/// Deletes old revisions that changed nothing, except those of ledgers, which keep all their revisions.
fn forget_unchanged(writing: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = format!(
        "DELETE FROM empty_revision WHERE (volume, revision) IN (
           SELECT volume, revision FROM empty_revision WHERE revision <= min(?1, ifnull((SELECT min(revision) FROM ({PINNED_REVISIONS})), ?1))
             AND volume IN (SELECT id FROM volume WHERE namespace NOT LIKE '{{_directory_:%') LIMIT ?2)"
    );
    Ok(writing.conn.prepare_cached(&sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

fn forget_revisions(writing: &mut WriteTransaction<'_>, horizon: i64) -> Result<u64> {
    let sql = format!(
        "DELETE FROM revision WHERE id IN (
           SELECT id FROM revision WHERE id < (SELECT max(id) FROM revision) AND id NOT IN (SELECT revision FROM ledger_event)
             AND id NOT IN (SELECT revision FROM empty_revision)
             AND id < min(?1, ifnull((SELECT min(revision) FROM ({PINNED_REVISIONS})), ?1)) LIMIT ?2)"
    );
    Ok(writing.conn.prepare_cached(&sql)?.execute([horizon, ROWS_PER_TRANSACTION])? as u64)
}

/// Removes the oldest contents of a node. Their states stay, without content.
fn drop_contents_beyond(writing: &mut WriteTransaction<'_>, vol: i64, node: i64, most: i64) -> Result<u64> {
    let sql = format!(
        "UPDATE entry_history SET content = NULL WHERE (volume, parent, name, since) IN (
           SELECT volume, parent, name, since FROM entry_history h
           WHERE volume = ?1 AND node = ?2 AND content IS NOT NULL
             AND since < (SELECT since FROM entry_history WHERE volume = ?1 AND node = ?2 AND content IS NOT NULL
                          ORDER BY since DESC LIMIT 1 OFFSET ?3 - 1)
             AND NOT EXISTS (SELECT 1 FROM ({PINNED_REVISIONS}) p WHERE p.revision >= h.since AND p.revision < h.until)
           LIMIT ?4)"
    );
    Ok(writing.conn.prepare_cached(&sql)?.execute(params![vol, node, most, ROWS_PER_TRANSACTION])? as u64)
}
