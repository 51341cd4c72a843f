//! The ledger of a Physical Store: its events, its pending intents and its usage counters.
//!
//! An action is recorded before it happens, together with everything that belongs to it. That it happened is written with
//! whatever is written next. Until then the intent is pending: after a crash, recovery compares it with what is on disk.
//!
//! [`Ledger`] is the port that a Physical Store uses; [`SqliteLedger`] is behind it, in tables of a database.

mod attach;
mod forget;
mod manifest;
mod read;
mod sqlite;
mod usage;

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use stead_core::managed::Manifest;
use stead_core::store::{
    CompanionRecord, CompanionRecords, LeaseId, QuotaRoot, Revision, RevisionNumber, RevisionQuery,
    StorePath, SyncPolicy, Usage,
};
use stead_core::{AuditOutcome, Operation, OperationId, StoreResult, Timestamp};

use crate::virtual_store::capture::CaptureVolumes;

pub(crate) use crate::database::companion::FilledSteps;
pub(crate) use attach::LedgerDirectory;
pub(crate) use sqlite::SqliteLedger;

/// How many rows are read at once.
pub(crate) const ROWS_PER_PAGE: usize = 256;

/// Reads the ledger of one directory.
pub(crate) trait LedgerReader: Debug + Send + Sync {
    /// Whether an audit log is open that its records go to.
    fn has_audit_log(&self) -> bool;

    /// Fails with [`StoreError::LeaseExpired`] if a lease is gone or has expired.
    ///
    /// [`StoreError::LeaseExpired`]: stead_core::StoreError::LeaseExpired
    fn check_lease(&self, lease: LeaseId) -> StoreResult<()>;

    /// The ids of the directories that have had this ledger.
    fn directories(&self) -> StoreResult<Vec<String>>;

    /// The next rows before `(revision, seq)`, newest first.
    fn rows(&self, before: (i64, i64), limit: usize) -> StoreResult<Vec<StoredLedgerRow>>;

    /// The rows whose displaced content is kept, newest first, with the times of their revisions. The time is 0 if the
    /// revision itself is forgotten.
    fn rows_with_content(&self) -> StoreResult<Vec<((i64, i64), Timestamp)>>;

    /// The newest revision of the database.
    fn latest_revision(&self) -> StoreResult<RevisionNumber>;

    /// The revision that was the newest at a time.
    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber>;

    /// The operation that made a revision.
    fn operation(&self, revision: i64) -> StoreResult<Option<Operation>>;

    /// The oldest revision that a query can match; `None` if there is none.
    fn oldest_revision(&self, query: &RevisionQuery) -> StoreResult<Option<i64>>;

    /// The agent's operations that made revisions of the directory and are not undone, newest first.
    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>>;

    /// Adds the revisions that changed nothing to those that a query found.
    fn add_unchanged(&self, query: &RevisionQuery, found: &mut Vec<Revision>) -> StoreResult<()>;

    /// The operations that an operation undid, and whether it was undone itself.
    fn undo_links(&self, operation: &Operation) -> StoreResult<(Vec<OperationId>, bool)>;

    /// The pending intents of all staging directories.
    fn pending_intents(&self) -> StoreResult<Vec<PendingIntent>>;

    /// The usage counters, with their paths.
    fn counters(&self) -> StoreResult<Vec<(Vec<u8>, UsageCounter)>>;
}

/// The ledger of one directory. Each call is made completely or not at all, and any number of processes may use it at once.
pub(crate) trait Ledger: LedgerReader + CompanionRecords + CaptureVolumes {
    /// Records a change before it happens. Returns the revision that it makes, or `None` if it changes nothing. Fails
    /// if the change exceeds a quota.
    fn begin_change(&self, change: PlannedChange) -> StoreResult<Option<i64>>;

    /// Writes finished changes, and syncs what was deferred.
    fn sync(&self) -> StoreResult<()>;

    /// Notes that a change is done. That is written with the next transaction, after `displaced_dir`, the directory
    /// with what it displaced, is synced: until then only the change's intents tell where else the displaced content
    /// could be.
    fn finish_change(&self, revision: i64, displaced_dir: Option<OwnedFd>);

    /// Removes a change from the ledger. If the database fails, the next transaction does it.
    fn roll_back_change(&self, change: RolledBackChange) -> StoreResult<()>;

    /// Writes finished changes that are not written yet.
    fn write_finished(&self) -> StoreResult<()>;

    /// Adds rows to a revision, for what was found out about it later.
    fn add_rows(&self, revision: i64, rows: Vec<LedgerRow>) -> StoreResult<()>;

    /// Resolves pending intents of dead processes: the changes in `applied` happened, those in `not_applied` didn't.
    /// The latter are removed, and the usage counters become stale. An audit record that says that such a change
    /// happened gets a compensating record.
    fn reconcile(&self, applied: Vec<i64>, not_applied: Vec<i64>) -> StoreResult<()>;

    /// Notes that what these rows displaced isn't kept any more.
    fn mark_content_dropped(&self, rows: Vec<(i64, i64)>) -> StoreResult<()>;

    /// Removes the rows of a path and of everything below it, its usage counters, and what snapshots have captured of it.
    /// Returns the rows whose displaced content was kept.
    fn forget_below(&self, path: Vec<u8>) -> StoreResult<Vec<(i64, i64)>>;

    /// Saves the hash of what a row displaced.
    fn set_content_hash(&self, revision: i64, seq: i64, hash: [u8; 32]) -> StoreResult<()>;

    /// The manifests of the directory, as they are or as they were at a revision.
    fn manifest(&self, as_of: Option<RevisionNumber>) -> Arc<dyn Manifest>;

    /// Removes the ledger with everything in it, and the capture volume.
    fn destroy(&self) -> StoreResult<()>;

    /// Corrects a counter after a scan, unless it has changed during the scan.
    fn correct_counter(
        &self,
        path: Vec<u8>,
        previous: Usage,
        counted: Usage,
        at: Timestamp,
    ) -> StoreResult<()>;
}

impl dyn Ledger + '_ {
    /// The rows of one revision.
    pub(crate) fn rows_of(&self, revision: i64) -> StoreResult<Vec<StoredLedgerRow>> {
        let mut rows = Vec::new();
        let mut before = (revision, i64::MAX);
        loop {
            let page = self.rows(before, ROWS_PER_PAGE)?;
            let Some(last) = page.last() else { return Ok(rows) };
            before = (last.revision, last.row.seq);
            let more = before.0 == revision;
            rows.extend(page.into_iter().filter(|row| row.revision == revision));
            if !more {
                return Ok(rows);
            }
        }
    }

    /// The newest revision that changed the directory; 0 if there is none.
    pub(crate) fn last_revision(&self) -> StoreResult<i64> {
        Ok(self.rows((i64::MAX, i64::MAX), 1)?.first().map_or(0, |row| row.revision))
    }
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
#[derive(Debug)]
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
    pub(crate) records: Arc<Vec<CompanionRecord>>,
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
    pub(crate) records: Arc<Vec<CompanionRecord>>,
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
