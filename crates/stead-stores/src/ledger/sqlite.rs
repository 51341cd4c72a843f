//! A ledger in a database: its tables, and the one transaction that each call is.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{OptionalExtension, params};
use stead_core::store::Usage;
use stead_core::{Clock, StoreResult, SystemClock, Timestamp};

use crate::database::batch::WriteTransaction;
use crate::database::companion::ChangeRecords;
use crate::database::error::{Result, from_io};
use crate::database::group_commit::CommitSync;
use crate::database::{DatabaseInner, remove_volume};
use crate::ledger::usage::{add_to_counter, check_quota};
use crate::ledger::{Ledger, LedgerIntent, LedgerRow, PlannedChange, RolledBackChange};
use crate::sync::{self, SyncPoint};
use crate::virtual_store::unchanged;

/// The ledger of one directory in a database, as the rows of one volume.
#[derive(Debug)]
pub(crate) struct SqliteLedger {
    pub(crate) database: Arc<DatabaseInner>,
    /// The volume that its rows belong to.
    pub(crate) volume: i64,
    finished: Mutex<FinishedChanges>,
}

/// Changes that finished since the last transaction.
#[derive(Debug, Clone, Default)]
struct FinishedChanges {
    applied: Vec<i64>,
    rolled_back: Vec<RolledBackChange>,
    /// The directory that has what they displaced, if it isn't synced yet.
    displaced_dir: Option<Arc<OwnedFd>>,
}

impl SqliteLedger {
    pub(crate) fn new(shared: &Arc<DatabaseInner>, volume: i64) -> Self {
        SqliteLedger { database: Arc::clone(shared), volume, finished: Mutex::default() }
    }

    /// Runs `work` in a transaction that also writes the finished changes.
    fn write_with_finished<T: Send + 'static>(
        &self,
        weight: CommitSync,
        work: impl FnOnce(&mut WriteTransaction<'_>, i64) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let settled = std::mem::take(&mut *self.finished.lock());
        let (volume, settles) = (self.volume, settled.clone());
        let synced = settled.displaced_dir.as_ref().map_or(Ok(()), |displaced| {
            let synced = sync::sync_all(SyncPoint::DisplacedContent, displaced);
            synced.map_err(|error| from_io(&error.into()))
        });
        let done = synced.and_then(|()| {
            self.database.write_reserved(weight, move |writing| {
                settles.write(writing, volume)?;
                work(writing, volume)
            })
        });
        if done.is_err() {
            let mut unsettled = self.finished.lock();
            unsettled.applied.extend(settled.applied);
            unsettled.rolled_back.extend(settled.rolled_back);
            if unsettled.displaced_dir.is_none() {
                unsettled.displaced_dir = settled.displaced_dir;
            }
        }
        done
    }
}

impl Ledger for SqliteLedger {
    fn begin_change(&self, change: PlannedChange) -> StoreResult<Option<i64>> {
        self.write_with_finished(CommitSync::of(change.sync_policy), move |writing, volume| {
            insert_change(writing, volume, &change)
        })
    }

    fn sync(&self) -> StoreResult<()> {
        self.write_finished()?;
        self.database.sync()
    }

    fn finish_change(&self, version: i64, displaced: Option<OwnedFd>) {
        let mut settled = self.finished.lock();
        settled.applied.push(version);
        if let Some(displaced) = displaced {
            settled.displaced_dir = Some(Arc::new(displaced));
        }
    }

    fn roll_back_change(&self, change: RolledBackChange) -> StoreResult<()> {
        self.finished.lock().rolled_back.push(change);
        self.write_with_finished(CommitSync::AsConfigured, |_, _| Ok(()))
    }

    fn write_finished(&self) -> StoreResult<()> {
        let settled = self.finished.lock();
        if settled.applied.is_empty() && settled.rolled_back.is_empty() {
            return Ok(());
        }
        drop(settled);
        self.write_with_finished(CommitSync::Deferred, |_, _| Ok(()))
    }

    fn add_rows(&self, version: i64, rows: Vec<LedgerRow>) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |writing, volume| {
            insert_rows(writing, volume, version, &rows)
        })
    }

    fn reconcile(&self, made: Vec<i64>, undone: Vec<i64>) -> StoreResult<()> {
        self.write_with_finished(CommitSync::AsConfigured, move |writing, volume| {
            for revision in &made {
                forget_intents(writing, volume, *revision)?;
                writing.settle_records(volume, *revision)?;
            }
            for revision in &undone {
                forget_intents(writing, volume, *revision)?;
                forget_rows(writing, volume, *revision)?;
                writing.discard_records(volume, *revision)?;
            }
            if !undone.is_empty() {
                writing.conn.execute("UPDATE ledger_usage SET dirty = 1 WHERE volume = ?1", [volume])?;
            }
            Ok(())
        })
    }

    fn mark_content_dropped(&self, rows: Vec<(i64, i64)>) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |writing, volume| {
            let mut statement = writing.conn.prepare_cached(
                "UPDATE ledger_event SET displaced = 0, hash = NULL WHERE volume = ?1 AND revision = ?2 AND seq = ?3",
            )?;
            for (version, seq) in rows {
                statement.execute([volume, version, seq])?;
            }
            Ok(())
        })
    }

    fn set_content_hash(&self, version: i64, seq: i64, hash: [u8; 32]) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |writing, volume| {
            writing
                .conn
                .prepare_cached(
                    "UPDATE ledger_event SET hash = ?4 WHERE volume = ?1 AND revision = ?2 AND seq = ?3",
                )?
                .execute(params![volume, version, seq, hash])?;
            Ok(())
        })
    }

    fn destroy(&self) -> StoreResult<()> {
        *self.finished.lock() = FinishedChanges::default();
        self.database.write_reserved(CommitSync::AsConfigured, {
            let volume = self.volume;
            move |writing| {
                for table in
                    ["ledger_event", "intent", "ledger_usage", "undone", "empty_revision", "companion_record"]
                {
                    writing.conn.execute(&format!("DELETE FROM {table} WHERE volume = ?1"), [volume])?;
                }
                let shadow = writing
                    .conn
                    .prepare_cached("DELETE FROM capture_volume WHERE ledger = ?1 RETURNING volume")?
                    .query_row([volume], |row| row.get(0))
                    .optional()?;
                if let Some(shadow) = shadow {
                    remove_volume(writing.conn, shadow)?;
                    writing.invalidate_directories()?;
                }
                writing.conn.execute("DELETE FROM ledger_directory WHERE volume = ?1", [volume])?;
                writing.conn.execute("DELETE FROM volume WHERE id = ?1", [volume])?;
                Ok(())
            }
        })?;
        // A volume with the same name may be created later.
        self.database.forget_volumes();
        Ok(())
    }

    fn correct_counter(&self, path: Vec<u8>, was: Usage, found: Usage, at: Timestamp) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |writing, volume| {
            writing
                .conn
                .prepare_cached(
                    "UPDATE ledger_usage SET bytes = ?5, files = ?6, at = ?7, dirty = 0
                     WHERE volume = ?1 AND path = ?2 AND bytes = ?3 AND files = ?4",
                )?
                .execute(params![
                    volume,
                    path,
                    was.bytes.cast_signed(),
                    was.files.cast_signed(),
                    found.bytes.cast_signed(),
                    found.files.cast_signed(),
                    at.0
                ])?;
            Ok(())
        })
    }
}

impl FinishedChanges {
    fn write(&self, writing: &mut WriteTransaction<'_>, volume: i64) -> Result<()> {
        for &revision in &self.applied {
            forget_intents(writing, volume, revision)?;
            writing.settle_records(volume, revision)?;
        }
        for RolledBackChange { revision, operation, deltas, records, outcome } in &self.rolled_back {
            forget_intents(writing, volume, *revision)?;
            forget_rows(writing, volume, *revision)?;
            for delta in deltas {
                add_to_counter(writing, volume, &delta.path, -delta.bytes, -delta.files)?;
            }
            writing.roll_back_records((volume, *revision), operation, records, *outcome)?;
        }
        Ok(())
    }
}

fn insert_change(
    writing: &mut WriteTransaction<'_>,
    volume: i64,
    change: &PlannedChange,
) -> Result<Option<i64>> {
    let version = match change.revision {
        None if !change.rows.is_empty() || change.unchanged_at.is_some() => {
            Some(writing.new_revision(&change.operation)?)
        }
        version => version,
    };
    if let (Some(version), Some(path)) = (version, &change.unchanged_at) {
        unchanged::note(writing.conn, volume, version, path)?;
    }
    if let Some(version) = version {
        insert_rows(writing, volume, version, &change.rows)?;
    }
    let mut statement = writing.conn.prepare_cached(
        "INSERT INTO intent(volume, revision, seq, staging_dir, intent_log, undo) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for LedgerIntent { seq, intent_log_epoch: journal, undo_json: undo } in &change.intents {
        let journal = journal.map(u64::cast_signed);
        statement.execute(params![volume, version, seq, change.staging_dir, journal, undo])?;
    }
    drop(statement);
    for (path, found) in &change.new_counters {
        writing
            .conn
            .prepare_cached("INSERT OR REPLACE INTO ledger_usage(volume, path, bytes, files, at, dirty) VALUES (?1, ?2, ?3, ?4, ?5, 0)")?
            .execute(params![
                volume,
                path,
                found.bytes.cast_signed(),
                found.files.cast_signed(),
                SystemClock.now().0
            ])?;
    }
    for delta in &change.deltas {
        add_to_counter(writing, volume, &delta.path, delta.bytes, delta.files)?;
    }
    for quota in &change.quotas {
        check_quota(writing, volume, quota, &change.deltas)?;
    }
    writing.write_records(&ChangeRecords {
        volume,
        operation: &change.operation,
        revision: version,
        is_new_revision: change.revision.is_none(),
        is_pending: !change.intents.is_empty(),
        records: &change.records,
        filled: &change.filled,
    })?;
    Ok(version)
}

fn insert_rows(
    writing: &mut WriteTransaction<'_>,
    volume: i64,
    version: i64,
    rows: &[LedgerRow],
) -> Result<()> {
    let mut statement = writing.conn.prepare_cached(
        "INSERT INTO ledger_event(volume, revision, seq, kind, path, other_path, detail, displaced) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for row in rows {
        statement.execute(params![
            volume,
            version,
            row.seq,
            row.kind,
            row.path,
            row.other_path,
            row.detail_json,
            row.displaced_kept
        ])?;
    }
    Ok(())
}

fn forget_intents(writing: &mut WriteTransaction<'_>, volume: i64, version: i64) -> Result<()> {
    writing
        .conn
        .prepare_cached("DELETE FROM intent WHERE volume = ?1 AND revision = ?2")?
        .execute([volume, version])?;
    Ok(())
}

fn forget_rows(writing: &mut WriteTransaction<'_>, volume: i64, version: i64) -> Result<()> {
    writing
        .conn
        .prepare_cached("DELETE FROM ledger_event WHERE volume = ?1 AND revision = ?2")?
        .execute([volume, version])?;
    unchanged::forget(writing.conn, volume, version)
}
