//! A ledger in a database: its tables, and the one transaction that each call is.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{OptionalExtension, params};
use stead_core::managed::Manifest;
use stead_core::store::{RevisionNumber, Usage};
use stead_core::{Clock, StoreResult, SystemClock, Timestamp};

use crate::database::batch::WriteTransaction;
use crate::database::companion::ChangeRecords;
use crate::database::error::{Result, from_io};
use crate::database::group_commit::CommitSync;
use crate::database::manifest::{
    ManagedRoots, ManifestChange, RolledBackRows, SqlManifest, remove_rows_of, roll_back_rows,
};
use crate::database::{DatabaseInner, remove_volume};
use crate::ledger::forget::forget_below;
use crate::ledger::manifest::file_effects;
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
    pub(crate) fn new(database: &Arc<DatabaseInner>, volume: i64) -> Self {
        SqliteLedger { database: Arc::clone(database), volume, finished: Mutex::default() }
    }

    /// Runs `work` in a transaction that also writes the finished changes.
    fn write_with_finished<T: Send + 'static>(
        &self,
        commit_sync: CommitSync,
        work: impl FnOnce(&mut WriteTransaction<'_>, i64) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let finished = std::mem::take(&mut *self.finished.lock());
        let (volume, to_write) = (self.volume, finished.clone());
        let synced = finished.displaced_dir.as_ref().map_or(Ok(()), |displaced_dir| {
            let synced = sync::sync_all(SyncPoint::DisplacedContent, displaced_dir);
            synced.map_err(|error| from_io(&error.into()))
        });
        let result = synced.and_then(|()| {
            self.database.write_reserved(commit_sync, move |transaction| {
                to_write.write(transaction, volume)?;
                work(transaction, volume)
            })
        });
        if result.is_err() {
            let mut unwritten = self.finished.lock();
            unwritten.applied.extend(finished.applied);
            unwritten.rolled_back.extend(finished.rolled_back);
            if unwritten.displaced_dir.is_none() {
                unwritten.displaced_dir = finished.displaced_dir;
            }
        }
        result
    }
}

impl Ledger for SqliteLedger {
    fn begin_change(&self, change: PlannedChange) -> StoreResult<Option<i64>> {
        self.write_with_finished(CommitSync::of(change.sync_policy), move |transaction, volume| {
            insert_change(transaction, volume, &change)
        })
    }

    fn sync(&self) -> StoreResult<()> {
        self.write_finished()?;
        self.database.sync()
    }

    fn finish_change(&self, revision: i64, displaced_dir: Option<OwnedFd>) {
        let mut finished = self.finished.lock();
        finished.applied.push(revision);
        if let Some(displaced_dir) = displaced_dir {
            finished.displaced_dir = Some(Arc::new(displaced_dir));
        }
    }

    fn roll_back_change(&self, change: RolledBackChange) -> StoreResult<()> {
        self.finished.lock().rolled_back.push(change);
        self.write_with_finished(CommitSync::AsConfigured, |_, _| Ok(()))
    }

    fn write_finished(&self) -> StoreResult<()> {
        let finished = self.finished.lock();
        if finished.applied.is_empty() && finished.rolled_back.is_empty() {
            return Ok(());
        }
        drop(finished);
        self.write_with_finished(CommitSync::Deferred, |_, _| Ok(()))
    }

    fn add_rows(&self, revision: i64, rows: Vec<LedgerRow>) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |transaction, volume| {
            insert_rows(transaction, volume, revision, &rows)
        })
    }

    fn reconcile(&self, applied: Vec<i64>, not_applied: Vec<i64>) -> StoreResult<()> {
        self.write_with_finished(CommitSync::AsConfigured, move |transaction, volume| {
            for revision in &applied {
                forget_intents(transaction, volume, *revision)?;
                transaction.settle_records(volume, *revision)?;
            }
            for revision in &not_applied {
                forget_intents(transaction, volume, *revision)?;
                // The records of the process that died aren't known.
                roll_back_rows(transaction.conn, volume, *revision, RolledBackRows::Any)?;
                forget_rows(transaction, volume, *revision)?;
                transaction.discard_records(volume, *revision)?;
            }
            if !not_applied.is_empty() {
                transaction.conn.execute("UPDATE ledger_usage SET dirty = 1 WHERE volume = ?1", [volume])?;
            }
            Ok(())
        })
    }

    fn mark_content_dropped(&self, rows: Vec<(i64, i64)>) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |transaction, volume| {
            let mut statement = transaction.conn.prepare_cached(
                "UPDATE ledger_event SET displaced = 0, hash = NULL WHERE volume = ?1 AND revision = ?2 AND seq = ?3",
            )?;
            for (revision, seq) in rows {
                statement.execute([volume, revision, seq])?;
            }
            Ok(())
        })
    }

    fn forget_below(&self, path: Vec<u8>) -> StoreResult<Vec<(i64, i64)>> {
        self.write_with_finished(CommitSync::AsConfigured, move |transaction, volume| {
            forget_below(transaction, volume, &path)
        })
    }

    fn set_content_hash(&self, revision: i64, seq: i64, hash: [u8; 32]) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |transaction, volume| {
            transaction
                .conn
                .prepare_cached(
                    "UPDATE ledger_event SET hash = ?4 WHERE volume = ?1 AND revision = ?2 AND seq = ?3",
                )?
                .execute(params![volume, revision, seq, hash])?;
            Ok(())
        })
    }

    fn manifest(&self, as_of: Option<RevisionNumber>) -> Arc<dyn Manifest> {
        let as_of = as_of.map(|revision| revision.0);
        Arc::new(SqlManifest::new(Arc::clone(&self.database), self.volume, as_of))
    }

    fn destroy(&self) -> StoreResult<()> {
        *self.finished.lock() = FinishedChanges::default();
        self.database.write_reserved(CommitSync::AsConfigured, {
            let volume = self.volume;
            move |transaction| {
                for table in [
                    "ledger_event",
                    "forgotten_event",
                    "intent",
                    "ledger_usage",
                    "undone",
                    "empty_revision",
                    "companion_record",
                ] {
                    transaction.conn.execute(&format!("DELETE FROM {table} WHERE volume = ?1"), [volume])?;
                }
                remove_rows_of(transaction.conn, volume)?;
                let capture_volume = transaction
                    .conn
                    .prepare_cached("DELETE FROM capture_volume WHERE ledger = ?1 RETURNING volume")?
                    .query_row([volume], |row| row.get(0))
                    .optional()?;
                if let Some(capture_volume) = capture_volume {
                    remove_volume(transaction.conn, capture_volume)?;
                    transaction.invalidate_directories()?;
                }
                transaction.conn.execute("DELETE FROM ledger_directory WHERE volume = ?1", [volume])?;
                transaction.conn.execute("DELETE FROM volume WHERE id = ?1", [volume])?;
                Ok(())
            }
        })?;
        // A volume with the same name may be created later.
        self.database.forget_volumes();
        Ok(())
    }

    fn correct_counter(
        &self,
        path: Vec<u8>,
        previous: Usage,
        counted: Usage,
        at: Timestamp,
    ) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |transaction, volume| {
            transaction
                .conn
                .prepare_cached(
                    "UPDATE ledger_usage SET bytes = ?5, files = ?6, at = ?7, dirty = 0
                     WHERE volume = ?1 AND path = ?2 AND bytes = ?3 AND files = ?4",
                )?
                .execute(params![
                    volume,
                    path,
                    previous.bytes.cast_signed(),
                    previous.files.cast_signed(),
                    counted.bytes.cast_signed(),
                    counted.files.cast_signed(),
                    at.0
                ])?;
            Ok(())
        })
    }
}

impl FinishedChanges {
    fn write(&self, transaction: &mut WriteTransaction<'_>, volume: i64) -> Result<()> {
        for &revision in &self.applied {
            forget_intents(transaction, volume, revision)?;
            transaction.settle_records(volume, revision)?;
        }
        for RolledBackChange { revision, operation, deltas, records, outcome } in &self.rolled_back {
            forget_intents(transaction, volume, *revision)?;
            roll_back_rows(transaction.conn, volume, *revision, RolledBackRows::of(records))?;
            forget_rows(transaction, volume, *revision)?;
            for delta in deltas {
                add_to_counter(transaction, volume, &delta.path, -delta.bytes, -delta.files)?;
            }
            transaction.roll_back_records((volume, *revision), operation, records, *outcome)?;
        }
        Ok(())
    }
}

fn insert_change(
    transaction: &mut WriteTransaction<'_>,
    volume: i64,
    change: &PlannedChange,
) -> Result<Option<i64>> {
    transaction.check_leases(&change.records)?;
    let revision = match change.revision {
        None if !change.rows.is_empty() || change.unchanged_at.is_some() => {
            Some(transaction.new_revision(&change.operation)?)
        }
        revision => revision,
    };
    if let (Some(revision), Some(path)) = (revision, &change.unchanged_at) {
        unchanged::insert(transaction.conn, volume, revision, path)?;
    }
    if let Some(revision) = revision {
        insert_rows(transaction, volume, revision, &change.rows)?;
    }
    let mut statement = transaction.conn.prepare_cached(
        "INSERT INTO intent(volume, revision, seq, staging_dir, intent_log, undo) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for LedgerIntent { seq, intent_log_epoch, undo_json } in &change.intents {
        let intent_log_epoch = intent_log_epoch.map(u64::cast_signed);
        statement.execute(params![volume, revision, seq, change.staging_dir, intent_log_epoch, undo_json])?;
    }
    drop(statement);
    for (path, usage) in &change.new_counters {
        transaction
            .conn
            .prepare_cached("INSERT OR REPLACE INTO ledger_usage(volume, path, bytes, files, at, dirty) VALUES (?1, ?2, ?3, ?4, ?5, 0)")?
            .execute(params![
                volume,
                path,
                usage.bytes.cast_signed(),
                usage.files.cast_signed(),
                SystemClock.now().0
            ])?;
    }
    for delta in &change.deltas {
        add_to_counter(transaction, volume, &delta.path, delta.bytes, delta.files)?;
    }
    for quota in &change.quotas {
        check_quota(transaction, volume, quota, &change.deltas)?;
    }
    let roots = ManagedRoots::for_change(transaction.conn, volume, &change.records)?;
    if !roots.is_empty() {
        let effects = file_effects(&change.rows);
        let (operation, records) = (&change.operation, &*change.records);
        ManifestChange { volume, operation, revision, records }.write(transaction, &roots, &effects)?;
    }
    transaction.write_records(&ChangeRecords {
        volume,
        operation: &change.operation,
        revision,
        is_new_revision: change.revision.is_none(),
        is_pending: !change.intents.is_empty(),
        records: &change.records,
        filled: &change.filled,
    })?;
    Ok(revision)
}

fn insert_rows(
    transaction: &mut WriteTransaction<'_>,
    volume: i64,
    revision: i64,
    rows: &[LedgerRow],
) -> Result<()> {
    let mut statement = transaction.conn.prepare_cached(
        "INSERT INTO ledger_event(volume, revision, seq, kind, path, other_path, detail, displaced) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for row in rows {
        statement.execute(params![
            volume,
            revision,
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

fn forget_intents(transaction: &mut WriteTransaction<'_>, volume: i64, revision: i64) -> Result<()> {
    transaction
        .conn
        .prepare_cached("DELETE FROM intent WHERE volume = ?1 AND revision = ?2")?
        .execute([volume, revision])?;
    Ok(())
}

fn forget_rows(transaction: &mut WriteTransaction<'_>, volume: i64, revision: i64) -> Result<()> {
    transaction
        .conn
        .prepare_cached("DELETE FROM ledger_event WHERE volume = ?1 AND revision = ?2")?
        .execute([volume, revision])?;
    unchanged::delete(transaction.conn, volume, revision)
}
