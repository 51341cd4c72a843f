//! The ledger of a Physical Store, in tables of a database: its events, its pending intents and its usage counters.
//!
//! An action is recorded before it happens, in one transaction with everything that belongs to it. That it happened is
//! written with the next transaction, whatever that is for. Until then the intent is pending: after a crash, recovery
//! compares it with what is on disk.

mod attach;
mod read;
mod usage;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{OptionalExtension, params};
use stead_core::store::{CompanionRecord, QuotaRoot, RevisionSequence, StorePath, SyncPolicy, Usage};
use stead_core::{
    AuditLogId, AuditOutcome, Clock, Operation, OperationId, StoreResult, SystemClock, Timestamp,
};

use crate::database::batch::WriteTransaction;
use crate::database::companion::{ChangeRecords, FilledSteps};
use crate::database::error::{Result, from_io};
use crate::database::group_commit::CommitSync;
use crate::database::{DatabaseInner, remove_volume};
use crate::sync::{self, SyncPoint};
use crate::virtual_store::unchanged;
use usage::{add_to_counter, check_quota};

pub(crate) use attach::LedgerDirectory;

/// How many rows are read at once.
pub(crate) const ROWS_PER_PAGE: usize = 256;

/// The ledger of one directory.
#[derive(Debug)]
pub(crate) struct Ledger {
    database: Arc<DatabaseInner>,
    vol: i64,
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

/// What a revision did to one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LedgerRow {
    pub(crate) seq: i64,
    pub(crate) kind: i64,
    pub(crate) path: Vec<u8>,
    pub(crate) other_path: Option<Vec<u8>>,
    pub(crate) detail_json: String,
    /// Whether what it displaced is kept.
    pub(crate) displaced_kept: bool,
}

/// A row that is in the database.
#[derive(Debug, Clone)]
pub(crate) struct StoredLedgerRow {
    pub(crate) revision: i64,
    pub(crate) row: LedgerRow,
    pub(crate) content_hash: Option<[u8; 32]>,
}

/// An action that is about to happen, or may have happened.
#[derive(Debug, Clone)]
pub(crate) struct LedgerIntent {
    pub(crate) seq: i64,
    /// The epoch of the intent log that has the outcome, if one has.
    pub(crate) intent_log_epoch: Option<u64>,
    pub(crate) undo_json: String,
}

/// An intent whose outcome the ledger doesn't have.
#[derive(Debug, Clone)]
pub(crate) struct PendingIntent {
    pub(crate) revision: i64,
    pub(crate) staging_dir: String,
    pub(crate) intent: LedgerIntent,
}

/// How much a usage counter changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsageDelta {
    pub(crate) path: Vec<u8>,
    pub(crate) bytes: i64,
    pub(crate) files: i64,
}

/// Everything that is written before an action.
#[derive(Debug, Clone)]
pub(crate) struct PlannedChange {
    pub(crate) operation: Operation,
    /// The change's revision, if it has one already.
    pub(crate) revision: Option<i64>,
    /// The path of a change that makes a revision although it changes nothing.
    pub(crate) unchanged_at: Option<StorePath>,
    pub(crate) staging_dir: String,
    pub(crate) rows: Vec<LedgerRow>,
    pub(crate) intents: Vec<LedgerIntent>,
    /// Usage counters that start or start again with this change, and their first values.
    pub(crate) new_counters: Vec<(Vec<u8>, Usage)>,
    pub(crate) deltas: Vec<UsageDelta>,
    pub(crate) quotas: Vec<QuotaRoot>,
    pub(crate) records: Vec<CompanionRecord>,
    pub(crate) filled: FilledSteps,
    pub(crate) sync_policy: SyncPolicy,
}

/// A change to be removed from the ledger.
#[derive(Debug, Clone)]
pub(crate) struct RolledBackChange {
    pub(crate) revision: i64,
    pub(crate) operation: OperationId,
    pub(crate) deltas: Vec<UsageDelta>,
    /// The companion records that were written with it. They are compensated, with this outcome.
    pub(crate) records: Vec<CompanionRecord>,
    pub(crate) outcome: AuditOutcome,
}

/// The state of a usage counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsageCounter {
    pub(crate) usage: Usage,
    /// When the directory was last scanned.
    pub(crate) counted_at: Timestamp,
    pub(crate) is_stale: bool,
}

impl Ledger {
    fn new(shared: &Arc<DatabaseInner>, vol: i64) -> Self {
        Ledger { database: Arc::clone(shared), vol, finished: Mutex::default() }
    }

    pub(crate) fn database(&self) -> &Arc<DatabaseInner> {
        &self.database
    }

    /// The volume that the ledger's rows belong to.
    pub(crate) fn volume(&self) -> i64 {
        self.vol
    }

    /// The sequence that its revisions are numbers of.
    pub(crate) fn revision_sequence(&self) -> RevisionSequence {
        RevisionSequence::shared_by(&self.database)
    }

    /// The audit log that its records go to.
    pub(crate) fn audit_log(&self) -> Option<AuditLogId> {
        self.database.audit_log()
    }

    /// Records a change before it happens. Returns the revision that it makes, or `None` if it changes nothing. Fails
    /// if the change exceeds a quota.
    pub(crate) fn begin_change(&self, entry: PlannedChange) -> StoreResult<Option<i64>> {
        self.write_with_finished(CommitSync::of(entry.sync_policy), move |writing, vol| {
            insert_change(writing, vol, &entry)
        })
    }

    /// Writes finished changes, and syncs what was deferred.
    pub(crate) fn sync(&self) -> StoreResult<()> {
        self.write_finished()?;
        self.database.sync()
    }

    /// Notes that a change is done. That is written with the next transaction, after `displaced`, the directory with
    /// what it displaced, is synced: until then only the change's intents tell where else the displaced content could
    /// be.
    pub(crate) fn finish_change(&self, version: i64, displaced: Option<OwnedFd>) {
        let mut settled = self.finished.lock();
        settled.applied.push(version);
        if let Some(displaced) = displaced {
            settled.displaced_dir = Some(Arc::new(displaced));
        }
    }

    /// Removes a change from the ledger. If the database fails, the next transaction does it.
    pub(crate) fn roll_back_change(&self, withdrawal: RolledBackChange) -> StoreResult<()> {
        self.finished.lock().rolled_back.push(withdrawal);
        self.write_with_finished(CommitSync::AsConfigured, |_, _| Ok(()))
    }

    /// Writes finished changes that are not written yet.
    pub(crate) fn write_finished(&self) -> StoreResult<()> {
        let settled = self.finished.lock();
        if settled.applied.is_empty() && settled.rolled_back.is_empty() {
            return Ok(());
        }
        drop(settled);
        self.write_with_finished(CommitSync::Deferred, |_, _| Ok(()))
    }

    /// Runs `work` in a transaction that also writes the finished changes.
    fn write_with_finished<T: Send + 'static>(
        &self,
        weight: CommitSync,
        work: impl FnOnce(&mut WriteTransaction<'_>, i64) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let settled = std::mem::take(&mut *self.finished.lock());
        let (vol, settles) = (self.vol, settled.clone());
        let synced = settled.displaced_dir.as_ref().map_or(Ok(()), |displaced| {
            let synced = sync::sync_all(SyncPoint::DisplacedContent, displaced);
            synced.map_err(|error| from_io(&error.into()))
        });
        let done = synced.and_then(|()| {
            self.database.write_reserved(weight, move |writing| {
                settles.write(writing, vol)?;
                work(writing, vol)
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

    /// Adds rows to a revision, for what was found out about it later.
    pub(crate) fn add_rows(&self, version: i64, rows: Vec<LedgerRow>) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |writing, vol| {
            insert_rows(writing, vol, version, &rows)
        })
    }

    /// Resolves pending intents of dead processes: the changes in `made` happened, those in `undone` didn't. The latter
    /// are removed, and the usage counters become stale. An audit record that says that such a change happened gets a
    /// compensating record.
    pub(crate) fn reconcile(&self, made: Vec<i64>, undone: Vec<i64>) -> StoreResult<()> {
        self.write_with_finished(CommitSync::AsConfigured, move |writing, vol| {
            for revision in &made {
                forget_intents(writing, vol, *revision)?;
                writing.settle_records(vol, *revision)?;
            }
            for revision in &undone {
                forget_intents(writing, vol, *revision)?;
                forget_rows(writing, vol, *revision)?;
                writing.discard_records(vol, *revision)?;
            }
            if !undone.is_empty() {
                writing.conn.execute("UPDATE ledger_usage SET dirty = 1 WHERE volume = ?1", [vol])?;
            }
            Ok(())
        })
    }

    /// Notes that what these rows displaced isn't kept any more.
    pub(crate) fn mark_content_dropped(&self, rows: Vec<(i64, i64)>) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |writing, vol| {
            let mut statement = writing.conn.prepare_cached(
                "UPDATE ledger_event SET displaced = 0, hash = NULL WHERE volume = ?1 AND revision = ?2 AND seq = ?3",
            )?;
            for (version, seq) in rows {
                statement.execute([vol, version, seq])?;
            }
            Ok(())
        })
    }

    /// Saves the hash of what a row displaced.
    pub(crate) fn set_content_hash(&self, version: i64, seq: i64, hash: [u8; 32]) -> StoreResult<()> {
        self.write_with_finished(CommitSync::Deferred, move |writing, vol| {
            writing
                .conn
                .prepare_cached(
                    "UPDATE ledger_event SET hash = ?4 WHERE volume = ?1 AND revision = ?2 AND seq = ?3",
                )?
                .execute(params![vol, version, seq, hash])?;
            Ok(())
        })
    }

    /// Removes the ledger with everything in it, and the capture volume.
    pub(crate) fn destroy(&self) -> StoreResult<()> {
        *self.finished.lock() = FinishedChanges::default();
        self.database.write_reserved(CommitSync::AsConfigured, {
            let vol = self.vol;
            move |writing| {
                for table in
                    ["ledger_event", "intent", "ledger_usage", "undone", "empty_revision", "companion_record"]
                {
                    writing.conn.execute(&format!("DELETE FROM {table} WHERE volume = ?1"), [vol])?;
                }
                let shadow = writing
                    .conn
                    .prepare_cached("DELETE FROM capture_volume WHERE ledger = ?1 RETURNING volume")?
                    .query_row([vol], |row| row.get(0))
                    .optional()?;
                if let Some(shadow) = shadow {
                    remove_volume(writing.conn, shadow)?;
                    writing.invalidate_directories()?;
                }
                writing.conn.execute("DELETE FROM ledger_directory WHERE volume = ?1", [vol])?;
                writing.conn.execute("DELETE FROM volume WHERE id = ?1", [vol])?;
                Ok(())
            }
        })?;
        // A volume with the same name may be created later.
        self.database.forget_volumes();
        Ok(())
    }
}

impl FinishedChanges {
    fn write(&self, writing: &mut WriteTransaction<'_>, vol: i64) -> Result<()> {
        for &revision in &self.applied {
            forget_intents(writing, vol, revision)?;
            writing.settle_records(vol, revision)?;
        }
        for RolledBackChange { revision, operation, deltas, records, outcome } in &self.rolled_back {
            forget_intents(writing, vol, *revision)?;
            forget_rows(writing, vol, *revision)?;
            for delta in deltas {
                add_to_counter(writing, vol, &delta.path, -delta.bytes, -delta.files)?;
            }
            writing.roll_back_records((vol, *revision), operation, records, *outcome)?;
        }
        Ok(())
    }
}

fn insert_change(writing: &mut WriteTransaction<'_>, vol: i64, entry: &PlannedChange) -> Result<Option<i64>> {
    let version = match entry.revision {
        None if !entry.rows.is_empty() || entry.unchanged_at.is_some() => {
            Some(writing.new_revision(&entry.operation)?)
        }
        version => version,
    };
    if let (Some(version), Some(path)) = (version, &entry.unchanged_at) {
        unchanged::note(writing.conn, vol, version, path)?;
    }
    if let Some(version) = version {
        insert_rows(writing, vol, version, &entry.rows)?;
    }
    let mut statement = writing.conn.prepare_cached(
        "INSERT INTO intent(volume, revision, seq, staging_dir, intent_log, undo) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for LedgerIntent { seq, intent_log_epoch: journal, undo_json: undo } in &entry.intents {
        let journal = journal.map(u64::cast_signed);
        statement.execute(params![vol, version, seq, entry.staging_dir, journal, undo])?;
    }
    drop(statement);
    for (path, found) in &entry.new_counters {
        writing
            .conn
            .prepare_cached("INSERT OR REPLACE INTO ledger_usage(volume, path, bytes, files, at, dirty) VALUES (?1, ?2, ?3, ?4, ?5, 0)")?
            .execute(params![
                vol,
                path,
                found.bytes.cast_signed(),
                found.files.cast_signed(),
                SystemClock.now().0
            ])?;
    }
    for delta in &entry.deltas {
        add_to_counter(writing, vol, &delta.path, delta.bytes, delta.files)?;
    }
    for quota in &entry.quotas {
        check_quota(writing, vol, quota, &entry.deltas)?;
    }
    writing.write_records(&ChangeRecords {
        volume: vol,
        operation: &entry.operation,
        revision: version,
        is_new_revision: entry.revision.is_none(),
        is_pending: !entry.intents.is_empty(),
        records: &entry.records,
        filled: &entry.filled,
    })?;
    Ok(version)
}

fn insert_rows(writing: &mut WriteTransaction<'_>, vol: i64, version: i64, rows: &[LedgerRow]) -> Result<()> {
    let mut statement = writing.conn.prepare_cached(
        "INSERT INTO ledger_event(volume, revision, seq, kind, path, other_path, detail, displaced) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for row in rows {
        statement.execute(params![
            vol,
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

fn forget_intents(writing: &mut WriteTransaction<'_>, vol: i64, version: i64) -> Result<()> {
    writing
        .conn
        .prepare_cached("DELETE FROM intent WHERE volume = ?1 AND revision = ?2")?
        .execute([vol, version])?;
    Ok(())
}

fn forget_rows(writing: &mut WriteTransaction<'_>, vol: i64, version: i64) -> Result<()> {
    writing
        .conn
        .prepare_cached("DELETE FROM ledger_event WHERE volume = ?1 AND revision = ?2")?
        .execute([vol, version])?;
    unchanged::forget(writing.conn, vol, version)
}
