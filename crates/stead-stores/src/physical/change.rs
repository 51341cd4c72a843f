//! Applies one change: its actions, how they are undone, and how the change ends.
//!
//! Most changes come down to one action, usually a rename, which the host makes atomically. The ledger gets the intent
//! before the action happens. A change with several actions writes each action into the intent log before it happens.
//! In both cases the undo records are also held in memory, and a failure undoes the actions, the last one first. What
//! an action displaces stays in the staging area until the change is done.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stead_core::monitor::{CallMonitor, check_not_stopped, report_step};
use stead_core::name::escape_name;
use stead_core::store::{
    Applied, Change, DisplacedContent, LinkHit, NodeId, NodePath, RevisionNumber, Step, StepOutcome,
    StoreError, StorePath, StoreResult, SyncPolicy,
};
use stead_core::{Clock, SystemClock, Timestamp};

use super::PhysicalStore;
use super::announce::AnnouncedActions;
use super::history::{FinishedChange, LedgerTransaction, TreeFingerprint};
use super::host::{self, Errno, HostResult, HostStat, NameAt, errno_to_store_error};
use super::intent_log::IntentLog;
use super::lock::{NameLocks, TreeLock};
use super::owner_access;
use super::root::Dir;
use super::slot::{HostSlot, LookupPurpose};
use super::staging_area::{StagingArea, TempEntry, rescue};
use super::undo::{UndoContext, UndoRecord, UndoTime, undo};
use crate::Durability;
use crate::sync;

/// With more steps than this, their memory is freed while they are applied.
const MANY_STEPS: usize = 1_024;
/// How often a name is exchanged again while another program keeps replacing the file.
const MAX_EXCHANGE_TRIES: usize = 16;

/// A change that is being applied.
pub(super) struct PhysicalChange<'s> {
    pub(super) store: &'s PhysicalStore,
    pub(super) staging: &'s Arc<StagingArea>,
    /// Which durability applies to this change: `Fast` if its sync is deferred.
    durability: Durability,
    /// Whether the sync of this change is left to a later one.
    is_deferred: bool,
    /// Whether the change may have more than one action. Then each action goes through the intent log.
    is_multi_action: bool,
    tree_lock: Option<TreeLock<'s>>,
    /// The names that this change has locked, unless it holds `tree_lock`.
    name_locks: Option<NameLocks<'s>>,
    /// How to undo the actions so far. Those of a change with several actions are only in its intent log: there may be very
    /// many.
    undo_records: Vec<UndoRecord>,
    /// How many actions the intent log has.
    logged_actions: usize,
    pub(super) announced: AnnouncedActions,
    intent_log: Option<IntentLog>,
    /// The rows that this change writes to the ledger.
    pub(super) ledger: LedgerTransaction,
    /// Tells whether the caller wants the change to stop.
    cancel_watch: Option<Arc<dyn CallMonitor>>,
    displaced: Vec<String>,
    node_path_changes: Vec<NodePathChange>,
    unsynced: Vec<Unsynced>,
}

/// A directory or file that has to reach the disk before the change is acknowledged.
enum Unsynced {
    Dir(Dir),
    File(File),
}

/// A change to the node path table, which is undone if the change fails.
enum NodePathChange {
    /// A directory was renamed, with everything below it.
    Renamed(Vec<u8>, Vec<u8>),
    /// Two names were exchanged, with everything below them.
    Exchanged(Vec<u8>, Vec<u8>),
    /// The node (inode) had this path before.
    PreviousPath(u64, Vec<u8>),
}

impl PhysicalStore {
    pub(super) fn apply_change(&self, mut change: Change) -> StoreResult<Applied> {
        let staging = self.staging()?;
        let mut running = PhysicalChange::new(self, staging, LedgerTransaction::begin(staging, &mut change)?);
        running.cancel_watch = change.monitor;
        if change.sync == SyncPolicy::Deferred && running.durability == Durability::Full {
            running.durability = Durability::Fast;
            running.is_deferred = true;
        }
        if running.durability == Durability::Full {
            staging.sync_name()?;
        }
        let step_count = change.steps.len();
        let steps = self.stage_restored_content(staging, change.steps, running.cancel_watch.as_ref())?;
        let _permit = staging.locks.admit_change()?;
        staging.recover_if_needed(&self.root)?;
        self.check_expected_nodes(&change.expect_nodes)?;
        let fills_records = !steps.is_empty() && running.ledger.has_rows();
        // Rows are filled from what the actions left, and the ledger of several actions is written after them.
        if steps.len() > 1 || !change.expect_free.is_empty() || fills_records {
            running.make_multi_action()?;
            self.check_absent(&change.expect_free)?;
        }
        running.begin_usage_counters()?;
        let mut outcomes = Vec::with_capacity(steps.len());
        running.ledger.expect_actions(step_count);
        let mut waiting = VecDeque::from(steps);
        while !waiting.is_empty() {
            if let Err(error) = running.announce_run(&mut waiting) {
                return Err(running.roll_back(error));
            }
            let Some(step) = waiting.pop_front() else { break };
            let index = step_count - waiting.len() - 1;
            // What is known about the steps that are done takes memory in place of them.
            if waiting.capacity() > MANY_STEPS && waiting.len() < waiting.capacity() / 2 {
                waiting.shrink_to_fit();
            }
            running.ledger.begin_step(index, displaced_policy_of(&step));
            report_step(running.cancel_watch.as_ref(), step_count + index, step_count * 2);
            match running.check_cancelled().and_then(|()| running.apply_recorded_step(index, step)) {
                Ok(outcome) => outcomes.push(outcome),
                Err(StoreError::Link(hit)) => {
                    return Err(running.roll_back(StoreError::Link(LinkHit { step: index, ..hit })));
                }
                Err(error) => return Err(running.roll_back(error)),
            }
        }
        let FinishedChange { revision, not_kept } = running.finish()?;
        Ok(Applied { revision: revision.map(RevisionNumber), outcomes, not_kept })
    }

    /// Fails with `Conflict` unless each path is a directory with the expected node id.
    ///
    /// A program of the host can still move the directory away right after this check. That is harmless: what lies
    /// below the root stays below it.
    fn check_expected_nodes(&self, expect_nodes: &[(StorePath, NodeId)]) -> StoreResult<()> {
        // The root can't be replaced, so it needs no check.
        let movable = |(path, node): &&(StorePath, NodeId)| !(path.is_empty() && *node == NodeId::ROOT);
        for (path, node) in expect_nodes.iter().filter(movable) {
            let found = self
                .locate(&NodePath::from_root(path.clone()), LookupPurpose::Find)
                .and_then(|located| self.stat_located(&located));
            if found.map_or(true, |found| found.ino != node.0 || !found.is_dir()) {
                return Err(StoreError::Conflict);
            }
        }
        Ok(())
    }

    /// Fails with `NameTaken` if one of these names exists. The caller holds the tree lock, so no other Stead process
    /// can create one afterwards.
    fn check_absent(&self, names: &[StorePath]) -> StoreResult<()> {
        for path in names {
            let found = self
                .locate(&NodePath::from_root(path.clone()), LookupPurpose::Find)
                .and_then(|located| self.stat_located(&located));
            match found {
                Ok(_) | Err(StoreError::Link(_)) => {
                    return Err(StoreError::NameTaken { path: escape_name(path.as_bytes()).to_string() });
                }
                Err(StoreError::NotFound | StoreError::NotADirectory) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<'s> PhysicalChange<'s> {
    fn new(store: &'s PhysicalStore, staging: &'s Arc<StagingArea>, ledger: LedgerTransaction) -> Self {
        PhysicalChange {
            store,
            staging,
            durability: store.durability,
            is_deferred: false,
            is_multi_action: false,
            tree_lock: None,
            name_locks: None,
            undo_records: Vec::new(),
            logged_actions: 0,
            announced: AnnouncedActions::default(),
            intent_log: None,
            ledger,
            cancel_watch: None,
            displaced: Vec::new(),
            node_path_changes: Vec::new(),
            unsynced: Vec::new(),
        }
    }

    /// Applies a step, and keeps its outcome for the companion records that are filled from it.
    fn apply_recorded_step(&mut self, index: usize, step: Step) -> StoreResult<StepOutcome> {
        let table = &self.store.node_path_table;
        self.ledger.filled.begin(index, step.path(), |base| {
            let path = table.path(base.0).ok_or(StoreError::NotFound)?;
            StoreResult::Ok(StorePath::from_checked(path.to_vec()))
        })?;
        let outcome = self.apply_step(step)?;
        self.ledger.filled.finish(index, outcome.attr);
        Ok(outcome)
    }

    fn apply_step(&mut self, step: Step) -> StoreResult<StepOutcome> {
        match step {
            Step::Write { at, content, options } => self.write(&at, content, &options),
            Step::Edit { at, edit, expect, displaced: _ } => self.edit(&at, &edit, expect),
            Step::Append { at, content, options } => self.append(&at, content, &options),
            Step::Mkdir { at, parents, mode } => self.mkdir(&at, parents, mode),
            Step::Symlink { at, target, parents, expect } => self.symlink(&at, &target, parents, expect),
            Step::Remove { at, subtree, expect, if_missing, protected, displaced: _ } => {
                self.remove(&at, subtree, expect, if_missing, protected.as_ref())
            }
            Step::Rename { from, to, replace, parents, expect, protected } => {
                self.rename(&from, &to, replace, parents, expect, &protected)
            }
            Step::Copy { from, to, replace, parents, protected, displaced: _ } => {
                self.copy(&from, &to, replace, parents, protected.as_ref())
            }
            Step::SetAttr { at, mode, modified } => self.set_attr(&at, mode, modified),
        }
    }

    /// Fails if the caller wants the change to stop.
    pub(super) fn check_cancelled(&self) -> StoreResult<()> {
        check_not_stopped(self.cancel_watch.as_ref())
    }

    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    pub(super) fn is_multi_action(&self) -> bool {
        self.is_multi_action
    }

    /// Prepares this change for more than one action: locks the tree, and from now on writes each action to the intent
    /// log. Fails if the change's lease has expired: the ledger, which checks that again, is written after the actions.
    pub(super) fn make_multi_action(&mut self) -> StoreResult<()> {
        self.ledger.check_lease()?;
        self.is_multi_action = true;
        self.open_intent_log()?;
        self.lock_tree()
    }

    /// Locks the names of these slots until the change is committed or rolled back, or until `lock_names` or
    /// `lock_tree` is called again. Does nothing if the tree is locked.
    ///
    /// If a dead process held one of the names, its changes are recovered first. `Conflict` if that moved one of the
    /// directories.
    pub(super) fn lock_names(&mut self, slots: &[&HostSlot]) -> StoreResult<()> {
        self.unlock_names();
        if self.tree_lock.is_some() {
            return Ok(());
        }
        let mut stripes: Vec<_> = slots.iter().map(|slot| slot.stripe()).collect();
        let mut is_recovered = false;
        loop {
            match self.staging.locks.lock_names(&mut stripes) {
                Ok(Some(locks)) => {
                    self.name_locks = Some(locks);
                    break;
                }
                Ok(None) => {}
                // On a full disk a name's lock file can't be created. The lock file of the tree always exists.
                Err(StoreError::NoSpace) => return self.lock_tree(),
                Err(error) => return Err(error),
            }
            self.staging.recover(&self.store.root)?;
            is_recovered = true;
        }
        // Recovery may have undone the change that made, or moved, a directory on the way.
        if is_recovered && !slots.iter().all(|slot| slot.is_in_place(&self.store.root)) {
            return Err(StoreError::Conflict);
        }
        Ok(())
    }

    /// Unlocks the names. Called while nothing has been changed under them yet, or when the change's only action is
    /// done.
    pub(super) fn unlock_names(&mut self) {
        self.name_locks = None;
    }

    /// Locks the whole tree, so that no other change runs. Recovers the changes of dead processes first.
    pub(super) fn lock_tree(&mut self) -> StoreResult<()> {
        self.unlock_names();
        while self.tree_lock.is_none() {
            self.tree_lock = self.staging.locks.lock_tree()?;
            if self.tree_lock.is_none() {
                self.staging.recover(&self.store.root)?;
            }
        }
        Ok(())
    }

    /// Performs one action that other processes can see, after its undo record has been logged.
    pub(super) fn perform(
        &mut self,
        name: &'static str,
        undo_record: UndoRecord,
        action: impl FnOnce() -> HostResult<()>,
    ) -> StoreResult<()> {
        let undo_record = self.log_intent(undo_record)?;
        let mark = self.log_action(&undo_record)?;
        self.staging.fault_point.pass(name)?;
        if let Err(error) = action().map_err(errno_to_store_error) {
            self.withdraw_action(mark, &error)?;
            return Err(error);
        }
        self.keep_undo_record(undo_record);
        self.note_performed();
        Ok(())
    }

    fn keep_undo_record(&mut self, undo_record: UndoRecord) {
        match self.is_multi_action {
            true => self.logged_actions += 1,
            false => self.undo_records.push(undo_record),
        }
    }

    /// Whether an action has happened, at least in part.
    fn has_acted(&self) -> bool {
        self.logged_actions > 0 || !self.undo_records.is_empty()
    }

    /// How to undo all actions so far, in their order. One that failed may be among them; its undo finds nothing to do.
    fn all_undo_records(&mut self) -> StoreResult<Vec<UndoRecord>> {
        let mut all = std::mem::take(&mut self.undo_records);
        if self.logged_actions > 0
            && let Some(intent_log) = &self.intent_log
        {
            all.extend(intent_log.undo_records()?);
        }
        Ok(all)
    }

    /// Notes that the only action of this change has happened, before the names are unlocked and other changes can
    /// build on it.
    fn note_performed(&self) {
        if let Some(revision) = self.ledger.revision().filter(|_| !self.is_multi_action) {
            self.staging.revision_notes.note_performed(revision);
        }
    }

    /// The epoch of the intent log, if this change has written to one.
    pub(super) fn intent_log_epoch(&self) -> Option<u64> {
        self.intent_log.as_ref().and_then(IntentLog::epoch)
    }

    /// Writes the undo record of the next action to the intent log. For a change with one action, the ledger holds the
    /// undo record instead.
    fn log_intent(&mut self, undo_record: UndoRecord) -> StoreResult<UndoRecord> {
        if !self.is_multi_action {
            return Ok(undo_record);
        }
        if let Some(announced) = self.announced.take(&undo_record) {
            return Ok(announced);
        }
        self.open_intent_log()?;
        let durability = self.durability();
        self.intent_log.as_mut().expect("opened above").append_intent(undo_record, durability)
    }

    /// Writes the undo records of several actions to the intent log, with one sync.
    pub(super) fn log_intents<'u>(
        &mut self,
        undo_records: impl Iterator<Item = &'u UndoRecord>,
    ) -> StoreResult<()> {
        self.open_intent_log()?;
        let durability = self.durability();
        self.intent_log.as_mut().expect("opened above").append_intents(undo_records, durability)
    }

    fn open_intent_log(&mut self) -> StoreResult<()> {
        if self.intent_log.is_none() {
            self.staging.fault_point.pass("journal")?;
            self.intent_log = Some(self.staging.take_intent_log(self.durability())?);
        }
        Ok(())
    }

    /// Like `perform`, for an action that is more than one system call. A failed action may have happened in part, so
    /// the rollback undoes it too.
    pub(super) fn perform_non_atomic(
        &mut self,
        undo_record: UndoRecord,
        action: impl FnOnce(&Self) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let undo_record = self.log_intent(undo_record)?;
        self.log_action(&undo_record)?;
        self.keep_undo_record(undo_record);
        action(self)?;
        self.note_performed();
        Ok(())
    }

    /// Renames an entry of the staging area to a slot where nothing is.
    pub(super) fn move_into_place(
        &mut self,
        entry: &mut TempEntry,
        ino: u64,
        slot: &HostSlot,
    ) -> StoreResult<()> {
        let (at, staged_name) = (slot.first_path().to_vec(), entry.name().to_owned());
        let undo_record = UndoRecord::Placed {
            at,
            fingerprint: Some(self.tree_fingerprint(&staged_name)?),
            staged_name,
            ino,
        };
        let staging_dir = self.staging.staging_dir_fd();
        self.perform("place", undo_record, || {
            owner_access::rename_new((staging_dir, entry.name().as_bytes()), slot.at())
        })?;
        entry.mark_placed();
        self.schedule_dir_sync(&slot.dir)
    }

    /// The fingerprint of an entry in the staging directory. By it, recovery and a rollback see whether a program has
    /// changed the entry since it got its place.
    fn tree_fingerprint(&self, staged_name: &str) -> StoreResult<TreeFingerprint> {
        TreeFingerprint::of(self.staging.staging_dir(), staged_name.as_bytes())
    }

    /// Refuses to move or remove a path that is masked or pinned, or a directory that contains one.
    pub(super) fn check_not_protected(&self, slot: &HostSlot) -> StoreResult<()> {
        self.store.mask.check_nothing_below(slot.path())
    }

    /// Exchanges an entry of the staging area with the content at a slot. `Conflict` if another program has changed
    /// that content since it was `seen`: then the other program's content stays in place, and ours is kept in
    /// `recovered/`.
    pub(super) fn replace_in_place(
        &mut self,
        entry: &mut TempEntry,
        our_ino: u64,
        slot: &HostSlot,
        seen: &HostStat,
    ) -> StoreResult<()> {
        self.check_not_protected(slot)?;
        let staged_name = entry.name().to_owned();
        let (at, fingerprint) = (slot.path().to_vec(), Some(self.tree_fingerprint(&staged_name)?));
        let undo_record = UndoRecord::Replaced {
            at,
            staged_name: staged_name.clone(),
            our_ino,
            their_ino: seen.ino,
            fingerprint,
        };
        let staging_dir = self.staging.staging_dir_fd();
        let staged: NameAt<'_> = (staging_dir, staged_name.as_bytes());
        let mut exchanged = true;
        self.perform("swap", undo_record, || match host::exchange(staged, slot.at()) {
            // Some file systems can't exchange names. Then the displaced content is gone and can't be checked.
            Err(Errno::INVAL) => {
                exchanged = false;
                host::rename_over(staged, slot.at())
            }
            result => result,
        })?;
        entry.mark_placed();
        if exchanged {
            let displaced =
                host::stat_at(staging_dir, staged_name.as_bytes()).map_err(errno_to_store_error)?;
            if !displaced.has_same_content(seen) {
                self.restore_foreign_content(&staged_name, our_ino, slot)?;
                self.undo_records.pop();
                return Err(StoreError::Conflict);
            }
            self.add_displaced(staged_name);
        }
        self.schedule_dir_sync(&slot.dir)
    }

    /// Gives another program's content its name back, and moves ours to `recovered/`.
    fn restore_foreign_content(&self, staged_name: &str, our_ino: u64, slot: &HostSlot) -> StoreResult<()> {
        let staging_dir = self.staging.staging_dir_fd();
        for _ in 0..MAX_EXCHANGE_TRIES {
            self.staging.fault_point.pass("give way")?;
            host::exchange((staging_dir, staged_name.as_bytes()), slot.at()).map_err(errno_to_store_error)?;
            if host::stat_at(staging_dir, staged_name.as_bytes()).map_err(errno_to_store_error)?.ino
                == our_ino
            {
                break;
            }
        }
        rescue(staging_dir, staged_name, self.staging.rescued()).map(drop).map_err(errno_to_store_error)
    }

    /// Moves what is at a slot to the staging area. `Conflict` if another program has changed it since it was `seen`.
    pub(super) fn move_to_staging(&mut self, slot: &HostSlot, seen: &HostStat) -> StoreResult<()> {
        let announced = self.announced.name_for_removed(slot.path(), seen);
        let staged_name = announced.unwrap_or_else(|| self.staging.fresh_name());
        let (at, ino, changed) = (slot.path().to_vec(), seen.ino, seen.changed);
        let undo_record = UndoRecord::Removed { at, staged_name: staged_name.clone(), ino, changed };
        let staging_dir = self.staging.staging_dir_fd();
        self.perform("take", undo_record, || {
            owner_access::rename_new(slot.at(), (staging_dir, staged_name.as_bytes()))
        })?;
        let moved = host::stat_at(staging_dir, staged_name.as_bytes()).map_err(errno_to_store_error)?;
        // The content of a directory changes all the time; a file must be unchanged.
        let is_same = if seen.is_dir() { moved.ino == seen.ino } else { moved.has_same_content(seen) };
        if !is_same {
            return Err(StoreError::Conflict);
        }
        self.add_displaced(staged_name);
        self.schedule_dir_sync(&slot.dir)
    }

    /// Adds displaced content, by its name in the staging directory. When the change is done, the content is kept or
    /// discarded.
    pub(super) fn add_displaced(&mut self, staged_name: String) {
        self.displaced.push(staged_name);
    }

    /// Schedules a directory to be synced before the change is acknowledged.
    pub(super) fn schedule_dir_sync(&mut self, dir: &Dir) -> StoreResult<()> {
        if self.durability() == Durability::Fast {
            return Ok(());
        }
        if !self.is_multi_action {
            // Synced in `commit`, after the names are unlocked.
            self.unsynced.push(Unsynced::Dir(dir.clone()));
        }
        Ok(())
    }

    /// Schedules a file that was written into to be synced before the change is acknowledged.
    pub(super) fn schedule_file_sync(&mut self, file: File) -> StoreResult<()> {
        if self.durability() == Durability::Full && !self.is_multi_action {
            self.unsynced.push(Unsynced::File(file));
        }
        Ok(())
    }

    /// Syncs new content before it gets its name.
    ///
    /// A change with several actions skips this: if it is cut short, the intent log undoes all of it. Its `commit`
    /// syncs everything at once, before the change is marked as done.
    pub(super) fn sync_new(&self, file: &File) -> StoreResult<()> {
        match self.durability() {
            Durability::Full if !self.is_multi_action => {
                sync::sync_all(sync::SyncPoint::NewContent, file).map_err(errno_to_store_error)
            }
            Durability::Full | Durability::Fast => Ok(()),
        }
    }

    /// Like `sync_new`, for a directory with everything in it: one wait, however many files there are.
    pub(super) fn sync_new_tree(&self) -> StoreResult<()> {
        match self.durability() {
            Durability::Full if !self.is_multi_action => {
                sync::sync_file_system(sync::SyncPoint::NewTree, &self.store.root.dir)
                    .map_err(errno_to_store_error)
            }
            Durability::Full | Durability::Fast => Ok(()),
        }
    }

    fn sync_dir(&self, dir: &Dir) -> StoreResult<()> {
        match sync::sync_all(sync::SyncPoint::ChangedDirectory, dir) {
            // A directory that may be entered but not listed has a handle that can't be synced.
            Err(Errno::BADF) => {
                sync::sync_file_system(sync::SyncPoint::ChangedDirectory, &self.store.root.dir)
                    .map_err(errno_to_store_error)
            }
            result => result.map_err(errno_to_store_error),
        }
    }

    /// Updates the node path table after a directory was renamed, so that the nodes below it are still found.
    pub(super) fn track_rename(&mut self, from: &[u8], to: &[u8]) {
        self.store.node_path_table.rename(from, to);
        self.node_path_changes.push(NodePathChange::Renamed(from.to_vec(), to.to_vec()));
    }

    /// Remembers the path of a node, which the table gets back if the change is rolled back.
    pub(super) fn track_previous_path(&mut self, ino: u64, path: &[u8]) {
        self.node_path_changes.push(NodePathChange::PreviousPath(ino, path.to_vec()));
    }

    pub(super) fn track_exchange(&mut self, first: &[u8], second: &[u8]) {
        self.store.node_path_table.exchange(first, second);
        self.node_path_changes.push(NodePathChange::Exchanged(first.to_vec(), second.to_vec()));
    }

    /// The current time, to the nanosecond. The host's own timestamps may repeat within some milliseconds, and inode
    /// numbers are reused at once, so two states of a file could look the same.
    pub(super) fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Commits the change and returns the revision that it made, if the ledger has one.
    fn finish(mut self) -> StoreResult<FinishedChange> {
        let unsynced = std::mem::take(&mut self.unsynced);
        if self.is_deferred {
            // After the actions: a sync that was made before them does not cover them. And before the names are
            // unlocked, so that a change that builds on this one finds it.
            self.staging.has_deferred_changes.store(true, Ordering::Release);
        }
        if !self.is_multi_action {
            // A single action is atomic, so other changes may go on while this caller waits for the disk.
            self.tree_lock = None;
            self.unlock_names();
        }
        if let Err(error) = self.commit(&unsynced) {
            return Err(self.roll_back(error));
        }
        self.tree_lock = None;
        // From here on the change is made. If the cleanup fails, the next process that opens the Store does it.
        if self.staging.fault_point.pass("clean").is_ok() {
            let displaced = std::mem::take(&mut self.displaced);
            let finished = self.keep_or_discard_displaced(displaced);
            self.close_intent_log();
            Ok(finished)
        } else {
            self.staging.fault_point.check().map(|()| FinishedChange::default())
        }
    }

    /// Syncs the deferred changes of this process: the file that this change writes to may have got its name in one of
    /// them.
    fn sync_deferred(&self) -> StoreResult<()> {
        if !self.staging.has_deferred_changes.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        sync::sync_file_system(sync::SyncPoint::DeferredChanges, &self.store.root.dir).map_err(|error| {
            self.staging.has_deferred_changes.store(true, Ordering::Release);
            errno_to_store_error(error)
        })
    }

    fn commit(&mut self, unsynced: &[Unsynced]) -> StoreResult<()> {
        // Without an action there is nothing that recovery could roll back, so the ledger is written last.
        let has_acted = self.has_acted();
        if has_acted {
            self.write_ledger()?;
        }
        if self.durability == Durability::Full {
            self.sync_deferred()?;
        }
        for item in unsynced {
            match item {
                Unsynced::Dir(dir) => self.sync_dir(dir)?,
                Unsynced::File(file) => match sync::sync_all(sync::SyncPoint::WrittenFile, file) {
                    // A file that may not be read was opened as a mere handle (O_PATH), which can't be synced.
                    Err(Errno::BADF) => {
                        sync::sync_file_system(sync::SyncPoint::WrittenFile, &self.store.root.dir)
                            .map_err(errno_to_store_error)?;
                    }
                    result => result.map_err(errno_to_store_error)?,
                },
            }
        }
        if self.is_multi_action
            && let Some(intent_log) = &mut self.intent_log
        {
            if self.durability == Durability::Full {
                sync::sync_file_system(sync::SyncPoint::MultipleActions, &self.store.root.dir)
                    .map_err(errno_to_store_error)?;
            }
            // The sync may have taken long. This is the last point at which the whole change can be rolled back.
            check_not_stopped(self.cancel_watch.as_ref())?;
            self.staging.fault_point.pass("commit")?;
            intent_log.append_done(self.durability)?;
        }
        if has_acted { Ok(()) } else { self.write_ledger() }
    }

    fn close_intent_log(&mut self) {
        if let Some(mut intent_log) = self.intent_log.take()
            && intent_log.clear().is_ok()
        {
            self.staging.return_intent_log(intent_log);
        }
    }

    /// Undoes all actions of the change, and returns `reason`, or another error if an action could not be undone.
    fn roll_back(mut self, reason: StoreError) -> StoreError {
        if self.staging.fault_point.is_stopped() {
            return reason;
        }
        // With several actions, recovery asks the intent log how the change ended, so the ledger has to be rolled back
        // before the log is cleared. With one action, recovery looks at what the action left in the staging directory,
        // so the ledger is rolled back after the undo.
        //
        // If the database fails here, the ledger is rolled back together with the next change.
        if self.is_multi_action {
            let _ = self.roll_back_ledger(&reason);
        }
        if self.name_locks.is_none() && self.has_acted() {
            // The names were unlocked before the sync failed, so another change may have built on this one. If the tree
            // can't be locked now, the undo goes on without a lock: it compares inodes and fingerprints before it acts
            // on a name.
            let _ = self.lock_tree();
        }
        // If this fails, the intents stay as they are: the next process that opens the Store tries again.
        let not_rolled_back = |error| StoreError::Unavailable {
            what: "the change failed halfway and isn't rolled back yet; open the Store again to roll it back"
                .into(),
            source: Some(Box::new(error)),
        };
        let undo_records = match self.all_undo_records() {
            Ok(undo_records) => undo_records,
            Err(error) => return not_rolled_back(error),
        };
        let context = UndoContext {
            root: &self.store.root,
            staging_dir: self.staging.staging_dir_fd(),
            rescued: self.staging.rescued(),
            when: UndoTime::DuringChange,
            is_performed: false,
        };
        for action in undo_records.iter().rev() {
            if let Err(error) = undo(&context, action) {
                return not_rolled_back(error);
            }
        }
        for step in self.node_path_changes.iter().rev() {
            match step {
                NodePathChange::Renamed(from, to) => self.store.node_path_table.rename(to, from),
                NodePathChange::Exchanged(first, second) => {
                    self.store.node_path_table.exchange(first, second)
                }
                NodePathChange::PreviousPath(ino, path) => self.store.node_path_table.remember(*ino, path),
            }
        }
        if !self.is_multi_action {
            let _ = self.roll_back_ledger(&reason);
        }
        for action in &undo_records {
            match action {
                UndoRecord::Placed { staged_name, .. } | UndoRecord::Replaced { staged_name, .. } => {
                    self.staging.discard(staged_name)
                }
                _ => {}
            }
        }
        // Moved content is back in its place. What is left are copies of old bytes, which have been written back.
        for staged_name in &self.displaced {
            self.staging.discard(staged_name);
        }
        self.close_intent_log();
        reason
    }
}

/// Whether the content that a step displaces is kept.
fn displaced_policy_of(step: &Step) -> DisplacedContent {
    match step {
        Step::Write { options, .. } | Step::Append { options, .. } => options.displaced,
        Step::Edit { displaced, .. } | Step::Remove { displaced, .. } | Step::Copy { displaced, .. } => {
            *displaced
        }
        Step::Mkdir { .. } | Step::Symlink { .. } | Step::Rename { .. } | Step::SetAttr { .. } => {
            DisplacedContent::Keep
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use stead_core::monitor::StopReason;
    use stead_core::store::{Content, PutOptions};
    use stead_core::{Identity, Operation, OperationId, Store};

    use super::super::PhysicalOptions;
    use super::*;

    fn change(step: Step, sync: SyncPolicy) -> Change {
        let now = SystemClock.now();
        let identity = Identity::agent("tester").into();
        let operation = Operation { id: OperationId::fresh(now), identity, tool: "test".into(), at: now };
        Change { sync, ..Change::new(operation, vec![step]) }
    }

    fn at(path: &str) -> NodePath {
        NodePath::from_root(StorePath::from_checked(path))
    }

    fn write_step(path: &str, text: &str) -> Step {
        Step::Write { at: at(path), content: Content::Bytes(text.into()), options: PutOptions::default() }
    }

    fn open(temp: &std::path::Path) -> PhysicalStore {
        std::fs::create_dir(temp.join("root")).unwrap();
        PhysicalStore::open(temp.join("root"), PhysicalOptions::new(temp.join("state"))).unwrap()
    }

    /// Makes a change with full durability when a deferred change has begun and nothing of it has happened.
    #[derive(Debug)]
    struct SyncMeanwhile(Arc<PhysicalStore>, AtomicBool);

    impl CallMonitor for SyncMeanwhile {
        fn progress(&self, _: u64, _: Option<u64>) {}

        fn stop_reason(&self) -> Option<StopReason> {
            if !self.1.swap(true, Ordering::Relaxed) {
                self.0.apply(change(write_step("synced", ""), SyncPolicy::Now)).unwrap();
            }
            None
        }
    }

    #[test]
    fn a_deferred_change_that_a_sync_overtakes_still_waits_for_the_next_sync() {
        let temp = tempfile::tempdir().unwrap();
        let store = Arc::new(open(temp.path()));
        let has_deferred = || store.staging().unwrap().has_deferred_changes.load(Ordering::Acquire);
        let mut deferred = change(write_step("deferred", ""), SyncPolicy::Deferred);
        deferred.monitor = Some(Arc::new(SyncMeanwhile(Arc::clone(&store), AtomicBool::default())));
        store.apply(deferred).unwrap();
        assert!(temp.path().join("root/synced").exists());
        assert!(has_deferred(), "the name of the deferred file is not on the disk yet");
        store.apply(change(write_step("later", ""), SyncPolicy::Now)).unwrap();
        assert!(!has_deferred());
    }

    #[test]
    fn rolling_back_a_change_whose_sync_failed_keeps_the_content_of_a_later_change() {
        for begins_empty in [true, false] {
            let temp = tempfile::tempdir().unwrap();
            let store = open(temp.path());
            if !begins_empty {
                store.apply(change(write_step("f", "before"), SyncPolicy::Now)).unwrap();
            }
            let mut failing = change(write_step("f", "first "), SyncPolicy::Now);
            let staging = store.staging().unwrap();
            let ledger = LedgerTransaction::begin(staging, &mut failing).unwrap();
            let mut running = PhysicalChange::new(&store, staging, ledger);
            running.ledger.begin_step(0, DisplacedContent::Keep);
            running.apply_step(write_step("f", "first ")).unwrap();
            // From here on it waits for the disk, and other changes go on.
            running.unlock_names();
            let options = PutOptions::default();
            let append = Step::Append { at: at("f"), content: Content::Bytes(b"second".into()), options };
            store.apply(change(append, SyncPolicy::Now)).unwrap();
            running.roll_back(StoreError::unavailable("the disk failed"));
            assert_eq!(std::fs::read(temp.path().join("root/f")).unwrap(), b"first second");
            // If nobody has built on it, the change is rolled back.
            let mut failing = change(write_step("g", "x"), SyncPolicy::Now);
            let ledger = LedgerTransaction::begin(staging, &mut failing).unwrap();
            let mut running = PhysicalChange::new(&store, staging, ledger);
            running.ledger.begin_step(0, DisplacedContent::Keep);
            running.apply_step(write_step("g", "x")).unwrap();
            running.unlock_names();
            running.roll_back(StoreError::unavailable("the disk failed"));
            assert!(!temp.path().join("root/g").exists());
        }
    }
}
