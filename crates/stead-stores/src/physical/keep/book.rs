//! What a change tells the ledger: each action before it happens, and how it ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::Arc;

use stead_core::store::{
    Change, CompanionRecord, Content, DisplacedContent, NodeId, QuotaRoot, Step, StoreError, StorePath,
    StoreResult, SyncPolicy, Usage,
};
use stead_core::{AuditOutcome, Operation};

use super::super::act::PhysicalChange;
use super::super::undo::UndoRecord;
use super::super::workshop::StagingArea;
use super::PhysicalHistory;
use super::count::{UsageChange, check_file_sizes, usage_deltas};
use super::face::LedgerEvent;
use crate::Durability;
use crate::virtual_store::books::{
    Ledger, LedgerIntent, LedgerRow, PlannedChange, RolledBackChange, UsageDelta,
};

/// The part of a change that concerns the ledger.
pub(in super::super) struct LedgerTransaction {
    pub(super) books: Arc<Ledger>,
    operation: Operation,
    pub(super) quotas: Vec<QuotaRoot>,
    records: Vec<CompanionRecord>,
    lasts: SyncPolicy,
    /// The path that it is about, where it makes a version also if it changes nothing.
    blind_at: Option<StorePath>,
    /// Whether the records have been written.
    recorded: bool,
    /// Whether what the present step displaces is kept.
    keep: DisplacedContent,
    /// The steps that put back what was kept, and whether the present one does.
    past: HashSet<usize>,
    puts_back: bool,
    /// What comes back, by step, and with the present one.
    returning: BTreeMap<usize, NodeId>,
    returns: Option<NodeId>,
    version: Option<i64>,
    next: i64,
    /// What the entry will say, as far as it is not written yet.
    unwritten: UnwrittenEvents,
    /// What has been counted for what is written.
    counted: Vec<UsageDelta>,
    /// The displaced things, by their names in the room, with their rows and whether they are kept.
    stashes: HashMap<String, (i64, bool)>,
    /// Counters that begin with this change.
    pub(super) begun: Vec<(Vec<u8>, Usage)>,
    /// The paths that something is counted below, once that was looked up.
    roots: Option<Vec<Vec<u8>>>,
}

#[derive(Default)]
struct UnwrittenEvents {
    rows: Vec<LedgerRow>,
    intents: Vec<LedgerIntent>,
    leaves: Vec<UsageChange>,
}

/// How far the unwritten part had come.
#[derive(Clone, Copy)]
pub(in super::super) struct UnwrittenPosition(usize, usize, usize);

impl LedgerTransaction {
    /// Opens the book of a change.
    pub(in super::super) fn begin(shop: &StagingArea, change: &Change) -> StoreResult<Self> {
        Ok(LedgerTransaction {
            books: shop.keeping.ledger_or_begin()?,
            operation: change.operation.clone(),
            quotas: change.quotas.clone(),
            records: change.records.clone(),
            lasts: change.lasts,
            blind_at: change.blind_at.clone(),
            recorded: false,
            keep: DisplacedContent::History,
            past: restoring_steps(change),
            puts_back: false,
            returning: change.returning.clone(),
            returns: None,
            version: None,
            next: 0,
            unwritten: UnwrittenEvents::default(),
            counted: Vec::new(),
            stashes: HashMap::new(),
            begun: Vec::new(),
            roots: None,
        })
    }

    /// The paths that something is counted below. A change that begins a counter holds the tree alone, so these stay the same
    /// for as long as the names are held.
    pub(super) fn counted_roots(&mut self) -> StoreResult<&[Vec<u8>]> {
        if self.roots.is_none() {
            let counters = self.books.counters()?.into_iter().map(|(path, _)| path);
            let begun = self.begun.iter().map(|(path, _)| path.clone());
            let mut roots: Vec<_> = counters.chain(begun).collect();
            roots.sort();
            roots.dedup();
            self.roots = Some(roots);
        }
        Ok(self.roots.as_deref().unwrap_or_default())
    }

    /// Adds to what is counted.
    pub(super) fn add_usage_changes(&mut self, leaves: Vec<UsageChange>) {
        self.unwritten.leaves.extend(leaves);
    }

    /// Begins a step, and says whether what it displaces is kept.
    pub(in super::super) fn begin_step(&mut self, index: usize, keep: DisplacedContent) {
        self.keep = keep;
        self.puts_back = self.past.contains(&index);
        self.returns = self.returning.get(&index).copied();
    }

    /// Adds an action, as the ledger will have it. The first row is of what it displaces.
    fn add_action(&mut self, how: &UndoRecord, journal: Option<u64>, said: &[LedgerEvent]) {
        let outline = journal.map(|_| how.ledger_summary());
        let undo = serde_json::to_string(outline.as_ref().unwrap_or(how));
        let undo = undo.expect("actions hold numbers, text and bytes");
        self.unwritten.intents.push(LedgerIntent { seq: self.next, journal, undo });
        if let Some(stash) = how.displaced_name() {
            self.stashes.insert(stash.to_owned(), (self.next, said[0].stashed));
        }
        for said in said {
            self.unwritten.rows.push(said.to_row(self.next));
            self.next += 1;
        }
    }

    /// The version that the change makes, once the ledger has been told of it.
    pub(in super::super) fn revision(&self) -> Option<i64> {
        self.version
    }

    /// Whether the present step puts back what was kept.
    pub(super) fn is_restoring(&self) -> bool {
        self.puts_back
    }

    /// The node that comes back with the present step.
    pub(super) fn revived_node(&self) -> Option<NodeId> {
        self.returns
    }

    /// Whether something of that size is kept if the present step displaces it.
    pub(super) fn keeps_displaced(&self, keeping: &PhysicalHistory, size: u64) -> bool {
        self.keep == DisplacedContent::History
            && keeping.keeps_displaced()
            && size <= keeping.max_file_bytes()
    }

    /// Writes what is not written yet.
    fn write(&mut self, shop: &StagingArea) -> StoreResult<()> {
        let UnwrittenEvents { rows, intents, leaves } = &mut self.unwritten;
        let records = if self.recorded { Vec::new() } else { self.records.clone() };
        let unchanged_at = self.blind_at.clone().filter(|_| rows.is_empty() && self.version.is_none());
        if rows.is_empty() && records.is_empty() && self.begun.is_empty() && unchanged_at.is_none() {
            return Ok(());
        }
        check_file_sizes(&self.quotas, leaves)?;
        let roots = self.roots.as_deref().unwrap_or_default();
        let counted = usage_deltas(roots, leaves);
        shop.life.pass("entry")?;
        let entry = PlannedChange {
            operation: self.operation.clone(),
            version: self.version,
            unchanged_at,
            room: shop.staging_dir_name().to_owned(),
            rows: std::mem::take(rows),
            intents: std::mem::take(intents),
            begun: std::mem::take(&mut self.begun),
            deltas: counted.clone(),
            quotas: self.quotas.clone(),
            records,
            lasts: self.lasts,
        };
        leaves.clear();
        self.version = self.books.begin_change(entry)?;
        self.recorded = true;
        self.counted.extend(counted);
        Ok(())
    }

    /// Takes back what was written. Should the change try again, that is another version: others may have come between.
    fn roll_back(&mut self, reason: &StoreError) -> StoreResult<()> {
        let Some(version) = self.version.take() else { return Ok(()) };
        let records = if self.recorded { self.records.clone() } else { Vec::new() };
        self.recorded = false;
        self.roots = None;
        let outcome = AuditOutcome::from_error_kind(reason.kind());
        let deltas = std::mem::take(&mut self.counted);
        let operation = self.operation.id;
        self.books.roll_back_change(RolledBackChange { version, operation, deltas, records, outcome })
    }
}

impl PhysicalChange<'_> {
    /// Has the ledger know of an action before it happens.
    pub(in super::super) fn log_action(&mut self, how: &UndoRecord) -> StoreResult<UnwrittenPosition> {
        let UnwrittenEvents { rows, intents, leaves } = &self.book.unwritten;
        let mark = UnwrittenPosition(rows.len(), intents.len(), leaves.len());
        let said = self.ledger_events(how)?;
        self.count_action(&said)?;
        let journal = self.intent_log_epoch();
        self.book.add_action(how, journal, &said);
        // Of several actions the journal is the intent; the ledger is told before the journal's last word.
        if self.is_multi_action() {
            return Ok(mark);
        }
        self.book.write(self.shop)?;
        Ok(mark)
    }

    /// Takes an entry back whose action did not happen, for this reason; the change may go on.
    pub(in super::super) fn withdraw_action(
        &mut self,
        mark: UnwrittenPosition,
        reason: &StoreError,
    ) -> StoreResult<()> {
        if !self.is_multi_action() {
            return self.book.roll_back(reason);
        }
        let (UnwrittenEvents { rows, intents, leaves }, UnwrittenPosition(row, intent, leaf)) =
            (&mut self.book.unwritten, mark);
        rows.truncate(row);
        intents.truncate(intent);
        leaves.truncate(leaf);
        Ok(())
    }

    /// Writes what is left to write, before the change is done.
    pub(in super::super) fn write_ledger(&mut self) -> StoreResult<()> {
        self.book.write(self.shop)
    }

    /// Takes back what the ledger was told of a change that failed.
    pub(in super::super) fn roll_back_ledger(&mut self, reason: &StoreError) -> StoreResult<()> {
        self.book.roll_back(reason)
    }

    /// Keeps what the change has displaced, or throws it away, and says which version it made.
    pub(in super::super) fn keep_or_discard_displaced(&mut self, trash: Vec<String>) -> Option<i64> {
        let durability = self.durability();
        let (book, keeping) = (&mut self.book, &self.shop.keeping);
        let Some(version) = book.version else {
            trash.iter().for_each(|stash| self.shop.discard(stash));
            return None;
        };
        let (mut kept, mut moved, mut lost) = (0, false, Vec::new());
        for stash in trash {
            match book.stashes.remove(&stash) {
                Some((seq, true)) => {
                    match keeping.keep_displaced(self.shop, &stash, (version, seq), &book.books) {
                        Ok(bytes) => (kept, moved) = (kept + bytes, true),
                        Err(_) => {
                            self.shop.discard(&stash);
                            lost.push((version, seq));
                        }
                    }
                }
                _ => self.shop.discard(&stash),
            }
        }
        // Where the host can't exchange names, what was there is gone.
        lost.extend(book.stashes.values().filter(|(_, kept)| *kept).map(|(seq, _)| (version, *seq)));
        if !lost.is_empty() {
            let _ = book.books.mark_content_dropped(lost);
        }
        let displaced = (moved && durability == Durability::Full)
            .then(|| keeping.own_displaced_dirs().next()?.as_fd().try_clone_to_owned().ok())
            .flatten();
        book.books.finish_change(version, displaced);
        if self.shop.noted.note_done(version).is_err() {
            // Then the ledger is told at once; where that fails too, with the next change.
            let _ = book.books.write_finished();
        }
        keeping.prune_if_needed(kept, &book.books);
        Some(version)
    }
}

/// Which steps of a change write what was kept.
fn restoring_steps(change: &Change) -> HashSet<usize> {
    let past = |step: &Step| matches!(step, Step::Write { content: Content::Past(_), .. });
    change.steps.iter().enumerate().filter(|(_, step)| past(step)).map(|(index, _)| index).collect()
}
