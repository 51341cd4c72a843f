//! The ledger's side of a change: each action is recorded before it happens, and at the end whether the change was
//! made.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::Arc;

use stead_core::store::{
    Change, CompanionRecord, Content, DisplacedContent, NodeId, NodeKind, QuotaRoot, Step, StoreError,
    StorePath, StoreResult, SyncPolicy, Usage,
};
use stead_core::{AuditOutcome, Operation};

use super::super::change::PhysicalChange;
use super::super::staging_area::StagingArea;
use super::super::undo::UndoRecord;
use super::PhysicalHistory;
use super::ledger_event::{LedgerEvent, LedgerEventKind};
use super::usage::{UsageChange, check_file_sizes, usage_deltas};
use crate::Durability;
use crate::ledger::{
    FilledSteps, Ledger, LedgerIntent, LedgerRow, PlannedChange, RolledBackChange, UsageDelta,
};

/// What a change writes to the ledger. A change of one action writes before the action; a change of several actions
/// writes once, after them and before it is done.
pub(in super::super) struct LedgerTransaction {
    pub(super) ledger: Arc<dyn Ledger>,
    operation: Operation,
    pub(super) quotas: Vec<QuotaRoot>,
    /// There may be one for each step.
    records: Arc<Vec<CompanionRecord>>,
    /// What companion rows are filled from.
    pub(in super::super) filled: FilledSteps,
    sync_policy: SyncPolicy,
    /// The path of a change whose caller must not learn whether it changed anything; see `Change::blind_at`. Such a
    /// change makes a revision even if it changes nothing.
    blind_at: Option<StorePath>,
    /// Whether the companion records are written.
    records_written: bool,
    /// Whether the current step keeps the content that it displaces.
    displaced_policy: DisplacedContent,
    /// The steps that restore kept content.
    restoring_steps: HashSet<usize>,
    /// Whether the current step is one of them.
    is_restoring: bool,
    /// The removed nodes that are revived, by step.
    revived_by_step: BTreeMap<usize, NodeId>,
    /// The node that the current step revives.
    revived_node: Option<NodeId>,
    revision: Option<i64>,
    next_seq: i64,
    /// What is not written to the ledger yet.
    unwritten: UnwrittenEvents,
    /// The usage deltas of what is written.
    written_deltas: Vec<UsageDelta>,
    /// The displaced entries, by their names in the staging directory.
    displaced_rows: HashMap<String, DisplacedRow>,
    /// Usage counters that start with this change, and their first values.
    pub(super) new_counters: Vec<(Vec<u8>, Usage)>,
    /// The paths that have a usage counter; `None` until `counted_roots` is called.
    counted_roots: Option<Vec<Vec<u8>>>,
}

/// What the ledger says of a displaced entry.
#[derive(Debug, Clone, Copy)]
struct DisplacedRow {
    seq: i64,
    is_kept: bool,
    /// How many files of it are too large to be kept, as far as that is known before the entry is displaced.
    too_large: u64,
}

/// A change that was made.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct FinishedChange {
    /// The revision, if it made one.
    pub(in super::super) revision: Option<i64>,
    /// How many files it displaced that are too large to be kept.
    pub(in super::super) not_kept: u64,
}

#[derive(Default)]
struct UnwrittenEvents {
    rows: Vec<LedgerRow>,
    intents: Vec<LedgerIntent>,
    usage_changes: Vec<UsageChange>,
}

/// A position in the unwritten events, to truncate them to: the numbers of rows, intents and usage changes.
#[derive(Clone, Copy)]
pub(in super::super) struct UnwrittenPosition(usize, usize, usize);

impl LedgerTransaction {
    /// Starts the ledger's side of a change. Creates the ledger if there is none, but writes nothing of the change yet.
    pub(in super::super) fn begin(staging: &StagingArea, change: &mut Change) -> StoreResult<Self> {
        let records = std::mem::take(&mut change.records);
        Ok(LedgerTransaction {
            ledger: staging.history.ledger_or_create()?,
            operation: change.operation.clone(),
            quotas: change.quotas.clone(),
            filled: FilledSteps::of(&records, change.steps.len())?,
            records: Arc::new(records),
            sync_policy: change.sync,
            blind_at: change.blind_at.clone(),
            records_written: false,
            displaced_policy: DisplacedContent::Keep,
            restoring_steps: restoring_steps(change),
            is_restoring: false,
            revived_by_step: std::mem::take(&mut change.revive),
            revived_node: None,
            revision: None,
            next_seq: 0,
            unwritten: UnwrittenEvents::default(),
            written_deltas: Vec::new(),
            displaced_rows: HashMap::new(),
            new_counters: Vec::new(),
            counted_roots: None,
        })
    }

    /// The paths that have a usage counter. A change that starts a counter locks the whole tree, so the result holds
    /// for as long as this change has its names locked.
    pub(super) fn counted_roots(&mut self) -> StoreResult<&[Vec<u8>]> {
        if self.counted_roots.is_none() {
            let counters = self.ledger.counters()?.into_iter().map(|(path, _)| path);
            let new_roots = self.new_counters.iter().map(|(path, _)| path.clone());
            let mut roots: Vec<_> = counters.chain(new_roots).collect();
            roots.sort();
            roots.dedup();
            self.counted_roots = Some(roots);
        }
        Ok(self.counted_roots.as_deref().unwrap_or_default())
    }

    /// Adds usage changes to the unwritten ones.
    pub(super) fn add_usage_changes(&mut self, usage_changes: Vec<UsageChange>) {
        self.unwritten.usage_changes.extend(usage_changes);
    }

    /// Starts a step; `displaced` says whether what it displaces is kept.
    pub(in super::super) fn begin_step(&mut self, index: usize, displaced: DisplacedContent) {
        self.displaced_policy = displaced;
        self.is_restoring = self.restoring_steps.contains(&index);
        self.revived_node = self.revived_by_step.get(&index).copied();
    }

    /// Makes room for about as many actions as a change has steps.
    pub(in super::super) fn expect_actions(&mut self, steps: usize) {
        self.unwritten.rows.reserve_exact(steps);
        self.unwritten.intents.reserve_exact(steps);
    }

    /// Adds an action and its events to the unwritten ones. The first event is of what the action displaces, of which `too_large` files
    /// are too large to be kept.
    fn add_action(
        &mut self,
        undo_record: &UndoRecord,
        intent_log_epoch: Option<u64>,
        events: &[LedgerEvent],
        too_large: u64,
    ) {
        let summary = intent_log_epoch.map(|_| undo_record.ledger_summary());
        let undo_json = serde_json::to_string(summary.as_ref().unwrap_or(undo_record));
        let mut undo_json = undo_json.expect("actions hold numbers, text and bytes");
        undo_json.shrink_to_fit();
        self.unwritten.intents.push(LedgerIntent { seq: self.next_seq, intent_log_epoch, undo_json });
        if let Some(staged_name) = undo_record.displaced_name() {
            let row = DisplacedRow { seq: self.next_seq, is_kept: events[0].displaced_kept, too_large };
            self.displaced_rows.insert(staged_name.to_owned(), row);
        }
        for event in events {
            self.unwritten.rows.push(event.to_row(self.next_seq));
            self.next_seq += 1;
        }
    }

    /// The revision that the change makes, once that is in the ledger.
    pub(in super::super) fn revision(&self) -> Option<i64> {
        self.revision
    }

    /// Whether the change carries companion rows.
    pub(in super::super) fn has_rows(&self) -> bool {
        self.records.iter().any(|record| matches!(record, CompanionRecord::Row(_)))
    }

    /// Fails if the change is made under a lease that is gone or has expired.
    pub(in super::super) fn check_lease(&self) -> StoreResult<()> {
        for record in &*self.records {
            if let CompanionRecord::Lease(lease) = record {
                self.ledger.check_lease(*lease)?;
            }
        }
        Ok(())
    }

    /// Whether the current step restores kept content.
    pub(super) fn is_restoring(&self) -> bool {
        self.is_restoring
    }

    /// The node that the current step revives.
    pub(super) fn revived_node(&self) -> Option<NodeId> {
        self.revived_node
    }

    /// Whether content of this size is kept if the current step displaces it.
    pub(super) fn keeps_displaced(&self, history: &PhysicalHistory, size: u64) -> bool {
        self.displaced_policy == DisplacedContent::Keep
            && history.keeps_displaced()
            && size <= history.max_file_bytes()
    }

    /// Writes what is unwritten to the ledger, in one transaction. Fails if the change exceeds a quota.
    fn write(&mut self, staging: &StagingArea) -> StoreResult<()> {
        let UnwrittenEvents { rows, intents, usage_changes } = &mut self.unwritten;
        let records = if self.records_written { Arc::default() } else { Arc::clone(&self.records) };
        let unchanged_at = self.blind_at.clone().filter(|_| rows.is_empty() && self.revision.is_none());
        // Which directories are managed, and which rows return, is only of interest together with something else.
        let counts = |record: &CompanionRecord| {
            !matches!(record, CompanionRecord::Managed(_) | CompanionRecord::Returning(_))
        };
        let has_records = records.iter().any(counts);
        if rows.is_empty() && !has_records && self.new_counters.is_empty() && unchanged_at.is_none() {
            return Ok(());
        }
        check_file_sizes(&self.quotas, usage_changes)?;
        let roots = self.counted_roots.as_deref().unwrap_or_default();
        let deltas = usage_deltas(roots, usage_changes);
        staging.fault_point.pass("entry")?;
        let entry = PlannedChange {
            operation: self.operation.clone(),
            revision: self.revision,
            unchanged_at,
            staging_dir: staging.staging_dir_name().to_owned(),
            rows: std::mem::take(rows),
            intents: std::mem::take(intents),
            new_counters: std::mem::take(&mut self.new_counters),
            deltas: deltas.clone(),
            quotas: self.quotas.clone(),
            records,
            // A change with rows has several actions, so this is written once.
            filled: std::mem::take(&mut self.filled),
            sync_policy: self.sync_policy,
        };
        usage_changes.clear();
        self.revision = self.ledger.begin_change(entry)?;
        self.records_written = true;
        self.written_deltas.extend(deltas);
        Ok(())
    }

    /// Rolls back what was written. If the change tries again, it gets another revision: other changes may have been
    /// made in between.
    fn roll_back(&mut self, reason: &StoreError) -> StoreResult<()> {
        let Some(revision) = self.revision.take() else { return Ok(()) };
        let records = if self.records_written { Arc::clone(&self.records) } else { Arc::default() };
        self.records_written = false;
        self.counted_roots = None;
        let outcome = AuditOutcome::from_error_kind(reason.kind());
        let deltas = std::mem::take(&mut self.written_deltas);
        let operation = self.operation.id;
        self.ledger.roll_back_change(RolledBackChange { revision, operation, deltas, records, outcome })
    }
}

impl PhysicalChange<'_> {
    /// Records an action in the ledger before it happens. Returns the position for `withdraw_action`, in case the
    /// action fails.
    pub(in super::super) fn log_action(
        &mut self,
        undo_record: &UndoRecord,
    ) -> StoreResult<UnwrittenPosition> {
        let UnwrittenEvents { rows, intents, usage_changes } = &self.ledger.unwritten;
        let mark = UnwrittenPosition(rows.len(), intents.len(), usage_changes.len());
        let events = self.ledger_events(undo_record)?;
        self.count_action(&events)?;
        let intent_log_epoch = self.intent_log_epoch();
        let is_keeping =
            self.ledger.displaced_policy == DisplacedContent::Keep && self.staging.history.keeps_displaced();
        let is_lost = |event: &&LedgerEvent| {
            // Of a file that was written into, the bytes before that are displaced.
            let kinds = [LedgerEventKind::Replaced, LedgerEventKind::Removed, LedgerEventKind::Patched];
            kinds.contains(&event.kind)
                && !event.displaced_kept
                && event.detail.before.is_some_and(|before| before.kind == NodeKind::File)
        };
        let too_large = if is_keeping { events.iter().filter(is_lost).count() as u64 } else { 0 };
        self.ledger.add_action(undo_record, intent_log_epoch, &events, too_large);
        // For a change of several actions, recovery uses the intent log. The ledger is written once, before the log's
        // `done` record.
        if self.is_multi_action() {
            return Ok(mark);
        }
        self.ledger.write(self.staging)?;
        Ok(mark)
    }

    /// Removes an action from the ledger that did not happen, for this reason. The change may go on.
    pub(in super::super) fn withdraw_action(
        &mut self,
        mark: UnwrittenPosition,
        reason: &StoreError,
    ) -> StoreResult<()> {
        if !self.is_multi_action() {
            return self.ledger.roll_back(reason);
        }
        let (UnwrittenEvents { rows, intents, usage_changes }, UnwrittenPosition(row, intent, usage_change)) =
            (&mut self.ledger.unwritten, mark);
        rows.truncate(row);
        intents.truncate(intent);
        usage_changes.truncate(usage_change);
        Ok(())
    }

    /// Writes what is left to the ledger, before the change is done.
    pub(in super::super) fn write_ledger(&mut self) -> StoreResult<()> {
        self.ledger.write(self.staging)
    }

    /// Rolls back what the ledger has of a change that failed for this reason.
    pub(in super::super) fn roll_back_ledger(&mut self, reason: &StoreError) -> StoreResult<()> {
        self.ledger.roll_back(reason)
    }

    /// Keeps or discards what the change displaced, by names in the staging directory.
    pub(in super::super) fn keep_or_discard_displaced(&mut self, displaced: Vec<String>) -> FinishedChange {
        let durability = self.durability();
        let (transaction, history) = (&mut self.ledger, &self.staging.history);
        let Some(revision) = transaction.revision else {
            displaced.iter().for_each(|staged_name| self.staging.discard(staged_name));
            return FinishedChange::default();
        };
        let (mut kept_bytes, mut moved, mut not_kept, mut lost) = (0, false, 0, Vec::new());
        for staged_name in displaced {
            let row = transaction.displaced_rows.remove(&staged_name);
            not_kept += row.map_or(0, |row| row.too_large);
            match row {
                Some(DisplacedRow { seq, is_kept: true, .. }) => {
                    match history.keep_displaced(
                        self.staging,
                        &staged_name,
                        (revision, seq),
                        &*transaction.ledger,
                    ) {
                        Ok((bytes, dropped)) => {
                            (kept_bytes, not_kept, moved) = (kept_bytes + bytes, not_kept + dropped, true);
                        }
                        Err(_) => {
                            self.staging.discard(&staged_name);
                            lost.push((revision, seq));
                        }
                    }
                }
                _ => self.staging.discard(&staged_name),
            }
        }
        // Where the host can't exchange names, what the change replaced is gone.
        lost.extend(
            transaction.displaced_rows.values().filter(|row| row.is_kept).map(|row| (revision, row.seq)),
        );
        if !lost.is_empty() {
            let _ = transaction.ledger.mark_content_dropped(lost);
        }
        let displaced_dir = (moved && durability == Durability::Full)
            .then(|| history.own_displaced_dirs().next()?.as_fd().try_clone_to_owned().ok())
            .flatten();
        transaction.ledger.finish_change(revision, displaced_dir);
        if self.staging.revision_notes.note_done(revision).is_err() {
            // Then the ledger is written at once. If that fails too, the next change writes it.
            let _ = transaction.ledger.write_finished();
        }
        history.prune_if_needed(kept_bytes, &*transaction.ledger);
        FinishedChange { revision: Some(revision), not_kept }
    }
}

/// The steps of a change that write kept content.
fn restoring_steps(change: &Change) -> HashSet<usize> {
    let restores = |step: &Step| matches!(step, Step::Write { content: Content::Stored(_), .. });
    change.steps.iter().enumerate().filter(|(_, step)| restores(step)).map(|(index, _)| index).collect()
}
