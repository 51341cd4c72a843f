//! Applies a change inside a write transaction: its steps one after the other, in one revision.
//!
//! This file has what all steps need: finding the slot, keeping what is displaced, writing rows and the change log.
//! `write_steps` has the steps that write at one path, `name_steps` those that move, copy and remove, `subtree` what
//! they do to whole directories. `fork_rows` is about forks, `live_rows` about forks of host directories, `quota` about
//! usage.

mod fork_rows;
mod live_rows;
mod name_steps;
pub(crate) mod quota;
mod subtree;
mod write_steps;

pub(crate) use subtree::SUBTREE_TABLE;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, params};
use stead_core::monitor::{CallMonitor, check_not_stopped, report_step};
use stead_core::name::escape_name;
use stead_core::store::{
    Applied, Change, ChangeKind, CompanionRecord, Content, DisplacedContent, NodeId, NodeKind, NodePath,
    Parents, QuotaRoot, RevisionNumber, SealedContent, Side, Step, StepOutcome, StorePath,
    check_symlink_target,
};
use stead_core::{Operation, StoreError, StoreResult};

use crate::database::Volume;
use crate::database::batch::{DirPaths, WriteTransaction};
use crate::database::companion::{ChangeRecords, FilledSteps};
use crate::database::error::{DatabaseError, Result};
use crate::database::group_commit::CommitSync;
use crate::database::manifest::{ManagedRoots, ManifestChange, StepEffect};
use crate::overlay::{LiveFacts, NotTakenOver};
use crate::virtual_store::VirtualStore;
use crate::virtual_store::content::{CHUNK_SIZE, PreparedContent};
use crate::virtual_store::dir_cache::DirCache;
use crate::virtual_store::draft::SealedDraft;
use crate::virtual_store::entry_row::{DIRECTORY_MODE, EntryKind, EntryRow};
use crate::virtual_store::feed;
use crate::virtual_store::history::{VirtualContentRef, path_of};
use crate::virtual_store::tree::{DirLookup, VolumeTree};
use crate::virtual_store::unchanged;
use quota::{UsageAmount, UsageTally};

impl VirtualStore {
    pub(crate) fn apply_change(&self, change: Change) -> StoreResult<Applied> {
        self.apply_with(CommitSync::of(change.sync), change, |_| Ok(()), |_, _| Ok(()))
    }

    /// Applies a change, and runs `before` and `after` in the same transaction.
    pub(crate) fn apply_with(
        &self,
        commit_sync: CommitSync,
        change: Change,
        before: impl FnOnce(&mut WriteTransaction<'_>) -> Result<()> + Send + 'static,
        after: impl FnOnce(&mut WriteTransaction<'_>, &Applied) -> Result<()> + Send + 'static,
    ) -> StoreResult<Applied> {
        let prepared = self.prepare_change(change)?;
        self.commit(commit_sync, &prepared, move |transaction, volume, prepared| {
            before(transaction)?;
            let applied = prepared.apply(transaction, volume, &LiveFacts::default())?;
            after(transaction, &applied)?;
            Ok(applied)
        })
    }

    /// Applies a change whose steps, by their indexes, get contents that are prepared already. Runs `after` in the same
    /// transaction.
    pub(crate) fn apply_with_contents(
        &self,
        commit_sync: CommitSync,
        change: Change,
        contents: Vec<(usize, PreparedContent)>,
        after: impl FnOnce(&mut WriteTransaction<'_>, &Applied) -> Result<()> + Send + 'static,
    ) -> StoreResult<Applied> {
        let prepared = self.prepare_change(change)?;
        let mut steps = prepared.steps.lock();
        for (index, content) in contents {
            if let Some(prepared_content) = steps.contents.get_mut(index) {
                *prepared_content = content;
            }
        }
        drop(steps);
        self.commit(commit_sync, &prepared, move |transaction, volume, prepared| {
            let applied = prepared.apply(transaction, volume, &LiveFacts::default())?;
            after(transaction, &applied)?;
            Ok(applied)
        })
    }

    /// Applies a prepared change of a fork of a host directory. If the fork has to take something over first, nothing is
    /// applied, and the answer says what.
    pub(crate) fn apply_over_directory(
        &self,
        prepared: &Arc<PreparedChange>,
        live_facts: Arc<LiveFacts>,
    ) -> StoreResult<std::result::Result<Applied, NotTakenOver>> {
        let missing = Arc::new(Mutex::new(None));
        let found = Arc::clone(&missing);
        let result = self.commit(prepared.sync, prepared, move |transaction, volume, prepared| {
            let applied = prepared.apply(transaction, volume, &live_facts);
            if let Err(DatabaseError::NotTakenOver(missing)) = &applied {
                *found.lock() = Some(missing.clone());
            }
            applied
        });
        match missing.lock().take() {
            Some(missing) => Ok(Err(missing)),
            None => result.map(Ok),
        }
    }

    /// Prepares a change: content is hashed, and staged if it is large, on the caller's own thread.
    pub(crate) fn prepare_change(&self, change: Change) -> StoreResult<Arc<PreparedChange>> {
        let Change {
            operation,
            steps,
            quotas,
            records,
            revive,
            expect_nodes,
            expect_free,
            blind_at,
            sync,
            monitor,
        } = change;
        let filled = FilledSteps::of(&records, steps.len())?;
        let mut steps = PreparedSteps { contents: Vec::with_capacity(steps.len()), steps };
        for step in &mut steps.steps {
            steps.contents.push(self.prepare_step(step)?);
        }
        Ok(Arc::new(PreparedChange {
            operation,
            steps: Mutex::new(steps),
            filled: Mutex::new(filled),
            quotas,
            records,
            revive,
            expect_nodes,
            expect_free,
            blind_at,
            sync: CommitSync::of(sync),
            monitor,
        }))
    }

    /// Runs `apply` as one job of the group commit.
    fn commit(
        &self,
        commit_sync: CommitSync,
        prepared: &Arc<PreparedChange>,
        apply: impl FnOnce(&mut WriteTransaction<'_>, &Arc<Volume>, &PreparedChange) -> Result<Applied>
        + Send
        + 'static,
    ) -> StoreResult<Applied> {
        let only_removes = prepared.steps.lock().steps.iter().all(|step| matches!(step, Step::Remove { .. }));
        let (volume, prepared) = (Arc::clone(&self.volume), Arc::clone(prepared));
        let job = move |transaction: &mut WriteTransaction<'_>| {
            transaction.check_leases(&prepared.records)?;
            volume.check_exists(transaction.conn)?;
            apply(transaction, &volume, &prepared)
        };
        if only_removes {
            self.database_inner().write_reserved(commit_sync, job)
        } else {
            self.database_inner().write(commit_sync, job)
        }
    }

    /// Takes the content out of a step, and prepares it to be stored.
    fn prepare_step(&self, step: &mut Step) -> StoreResult<PreparedContent> {
        Ok(match step {
            Step::Write { content, .. } | Step::Append { content, .. } => {
                self.prepare_content(std::mem::replace(content, Content::Bytes(Vec::new())))?
            }
            Step::Symlink { target, .. } => {
                check_symlink_target(target)?;
                if target.len() > CHUNK_SIZE {
                    return Err(StoreError::Invalid(
                        "a symlink's target can't be longer than 256 KiB".into(),
                    ));
                }
                PreparedContent::single(std::mem::take(target))
            }
            _ => PreparedContent::Empty,
        })
    }

    /// The content of a sealed draft of this database.
    pub(crate) fn prepared_draft(&self, sealed: SealedContent) -> StoreResult<PreparedContent> {
        self.prepare_content(Content::Sealed(sealed))
    }

    fn prepare_content(&self, content: Content) -> StoreResult<PreparedContent> {
        match content {
            Content::Bytes(bytes) => self.prepare_bytes(bytes),
            Content::Sealed(sealed) => match sealed.into_inner::<SealedDraft>() {
                Some(draft) if draft.database.id == self.database.id() => Ok(draft.prepared),
                _ => Err(StoreError::Invalid("the draft belongs to another Store".into())),
            },
            Content::Stored(content_ref) => match VirtualContentRef::of(&content_ref) {
                Some(stored) if stored.database.id == self.database.id() => {
                    Ok(PreparedContent::Stored { id: stored.content, size: stored.size })
                }
                _ => Err(StoreError::Invalid("the content belongs to another Store".into())),
            },
        }
    }
}

/// A change whose content is ready to be stored. It can be applied again if it was refused.
pub(crate) struct PreparedChange {
    operation: Operation,
    /// The steps, whose contents were taken out of them. The lock is there because the port lets a step be sent to another thread,
    /// but not be used by two at once.
    pub(crate) steps: Mutex<PreparedSteps>,
    /// What each attempt fills anew.
    filled: Mutex<FilledSteps>,
    quotas: Vec<QuotaRoot>,
    records: Vec<CompanionRecord>,
    revive: BTreeMap<usize, NodeId>,
    pub(crate) expect_nodes: Vec<(StorePath, NodeId)>,
    pub(crate) expect_free: Vec<StorePath>,
    blind_at: Option<StorePath>,
    sync: CommitSync,
    pub(crate) monitor: Option<Arc<dyn CallMonitor>>,
}

/// Steps, and the content of each of them.
pub(crate) struct PreparedSteps {
    pub(crate) steps: Vec<Step>,
    contents: Vec<PreparedContent>,
}

impl PreparedChange {
    fn apply(
        &self,
        transaction: &mut WriteTransaction<'_>,
        volume: &Arc<Volume>,
        live_facts: &LiveFacts,
    ) -> Result<Applied> {
        let mut change =
            VirtualChange::new(transaction, volume, &self.operation, self.monitor.as_ref(), live_facts);
        change.check_expected_nodes(&self.expect_nodes)?;
        change.check_absent(&self.expect_free)?;
        change.begin_counting(&self.quotas)?;
        let steps = self.steps.lock();
        let PreparedSteps { steps, contents } = &*steps;
        if self.blind_at.is_some() {
            change.transaction.begin_lease_apart(steps.len())?;
        }
        let mut filled = self.filled.lock();
        let roots = ManagedRoots::for_change(change.conn(), volume.id, &self.records)?;
        let mut file_effects = Vec::new();
        let mut outcomes = Vec::with_capacity(steps.len());
        for (index, (step, content)) in steps.iter().zip(contents).enumerate() {
            change.check_cancelled()?;
            report_step(self.monitor.as_ref(), index, steps.len());
            change.step = index;
            change.reviving = self.revive.get(&index).map(|node| node.0.cast_signed());
            filled.begin(index, step.path(), |node| change.path_of_node(node))?;
            // A node that is gone makes the step itself fail.
            let effect = (!roots.is_empty())
                .then(|| StepEffect::of(step, |node| change.path_of_node(node)).unwrap_or(StepEffect::None));
            let outcome = change.apply_step(step, content)?;
            filled.finish(index, outcome.attr);
            match (effect, outcome.attr) {
                (Some(StepEffect::Copy(to)), Some(attr)) if attr.kind == NodeKind::Directory => {
                    change.add_copied_files(attr.node, &to, &roots, &mut file_effects)?;
                }
                (Some(effect), _) => effect.finish(&outcome, &mut file_effects),
                (None, _) => {}
            }
            outcomes.push(outcome);
        }
        change.finish_counting(&self.quotas)?;
        if let Some(path) = &self.blind_at {
            change.ensure_revision(path)?;
        }
        if !file_effects.is_empty() {
            let (revision, operation, records) = (change.revision, &self.operation, &self.records);
            let manifest = ManifestChange { volume: volume.id, operation, revision, records };
            manifest.write(change.transaction, &roots, &file_effects)?;
        }
        if self.blind_at.is_some() {
            change.transaction.end_lease_apart();
        }
        change.transaction.write_records(&ChangeRecords {
            volume: volume.id,
            operation: &self.operation,
            revision: change.revision,
            is_new_revision: true,
            is_pending: false,
            records: &self.records,
            filled: &filled,
        })?;
        // The rows of many steps take their time. This is the last moment at which the change can be stopped.
        change.check_cancelled()?;
        Ok(change.finish(outcomes))
    }
}

/// A change that is being applied.
struct VirtualChange<'a, 'c> {
    transaction: &'a mut WriteTransaction<'c>,
    volume: &'a Arc<Volume>,
    operation: &'a Operation,
    /// Tells whether the change has to stop.
    cancel_watch: Option<&'a Arc<dyn CallMonitor>>,
    /// The index of the current step.
    step: usize,
    /// The revision that the change makes, once something has changed.
    revision: Option<i64>,
    /// How many rows the change has in the change log.
    log_rows: i64,
    learned_dirs: DirPaths,
    /// Directories whose times this change has set already.
    touched_dirs: HashSet<i64>,
    usage_tally: UsageTally,
    /// The removed node that the current step revives.
    reviving: Option<i64>,
    /// The fork or the target that the last node was taken over from.
    relative: Option<i64>,
    /// The revision that the newest fork is based on, once it was looked up; -1 if there is no fork.
    newest_fork_revision: Option<i64>,
    /// What is known of the part of a host directory that the fork has not taken over.
    live_facts: &'a LiveFacts,
}

/// A name in a directory, and its row if there is one.
struct CatalogSlot<'p> {
    parent: i64,
    name: Cow<'p, [u8]>,
    row: Option<EntryRow>,
    /// How many components of the path lead here.
    depth: usize,
}

/// The shared cache of directories, as far as it is valid inside the transaction, and what this change adds to it.
struct TransactionDirCache<'a> {
    dirs: &'a DirCache,
    epoch: Option<i64>,
    learned: &'a mut DirPaths,
}

impl DirLookup for TransactionDirCache<'_> {
    fn node_at(&self, path: &[u8]) -> Option<i64> {
        self.learned.get(path).copied().or_else(|| self.dirs.get_at(self.epoch?, path))
    }

    fn remember(&mut self, path: &[u8], node: i64) {
        self.learned.insert(path.into(), node);
    }
}

impl<'a, 'c> VirtualChange<'a, 'c> {
    fn new(
        transaction: &'a mut WriteTransaction<'c>,
        volume: &'a Arc<Volume>,
        operation: &'a Operation,
        cancel_watch: Option<&'a Arc<dyn CallMonitor>>,
        live_facts: &'a LiveFacts,
    ) -> Self {
        let (learned_dirs, touched_dirs) = (DirPaths::default(), HashSet::new());
        let usage_tally = UsageTally::default();
        VirtualChange {
            transaction,
            volume,
            operation,
            cancel_watch,
            step: 0,
            revision: None,
            log_rows: 0,
            learned_dirs,
            touched_dirs,
            usage_tally,
            reviving: None,
            relative: None,
            newest_fork_revision: None,
            live_facts,
        }
    }

    /// Fails if the change has to stop.
    fn check_cancelled(&self) -> Result<()> {
        Ok(check_not_stopped(self.cancel_watch)?)
    }

    /// The path of a node from the root of the volume.
    fn path_of_node(&self, node: NodeId) -> Result<StorePath> {
        let tree = self.tree();
        Ok(path_of(&tree, tree.node_number(node))?.ok_or(StoreError::NotFound)?)
    }

    /// Makes a revision even if nothing has changed.
    fn ensure_revision(&mut self, path: &StorePath) -> Result<()> {
        if self.revision.is_none() {
            let revision = self.revision()?;
            unchanged::insert(self.conn(), self.volume.id, revision, path)?;
        }
        Ok(())
    }

    fn finish(self, outcomes: Vec<StepOutcome>) -> Applied {
        self.transaction.share_directories(self.volume, self.learned_dirs);
        Applied { revision: self.revision.map(RevisionNumber), outcomes, not_kept: 0 }
    }

    fn apply_step(&mut self, step: &Step, content: &PreparedContent) -> Result<StepOutcome> {
        match step {
            Step::Write { at, options, .. } => self.write(at, content, options),
            Step::Edit { at, edit, expect, displaced } => self.edit(at, edit, *expect, *displaced),
            Step::Append { at, options, .. } => self.append(at, content, options),
            Step::Mkdir { at, parents, mode } => self.mkdir(at, *parents, *mode),
            Step::Symlink { at, parents, expect, .. } => self.symlink(at, content, *parents, *expect),
            Step::SetAttr { at, mode, modified } => self.set_attr(at, *mode, *modified),
            Step::Remove { at, subtree, expect, if_missing, protected, displaced } => {
                self.remove(at, *subtree, *expect, *if_missing, protected.as_ref(), *displaced)
            }
            Step::Rename { from, to, replace, parents, expect, protected } => {
                self.rename(from, to, *replace, *parents, *expect, protected)
            }
            Step::Copy { from, to, replace, parents, protected, displaced } => {
                self.copy(from, to, *replace, *parents, protected.as_ref(), *displaced)
            }
        }
    }

    fn conn(&self) -> &'c Connection {
        self.transaction.conn
    }

    fn tree(&self) -> VolumeTree<'a> {
        let overlay = self.volume.overlay;
        VolumeTree { overlay, ..VolumeTree::new(self.conn(), self.volume, None) }
    }

    fn now(&self) -> i64 {
        self.operation.at.0
    }

    /// The revision that this change makes. The first call makes it.
    fn revision(&mut self) -> Result<i64> {
        if let Some(revision) = self.revision {
            return Ok(revision);
        }
        let revision = self.transaction.new_revision(self.operation)?;
        self.revision = Some(revision);
        Ok(revision)
    }

    /// Finds the slot of a path. A `Link` error says in which step and on which side the symlink is.
    fn slot<'p>(&mut self, at: &'p NodePath, parents: Parents, side: Side) -> Result<CatalogSlot<'p>> {
        self.find_slot(at, parents).map_err(|error| self.with_step(error, side))
    }

    /// Adds the current step to an error.
    fn with_step(&self, error: DatabaseError, side: Side) -> DatabaseError {
        match error {
            DatabaseError::Store(error) => DatabaseError::Store(error.in_step(self.step, side)),
            error => error,
        }
    }

    /// The error that tells the caller to follow the symlink at a slot.
    fn symlink_hit<T>(&self, link: &EntryRow, slot: &CatalogSlot<'_>) -> Result<T> {
        self.tree().symlink_hit(link, slot.depth).map_err(|error| self.with_step(error, Side::From))
    }

    fn find_slot<'p>(&mut self, at: &'p NodePath, parents: Parents) -> Result<CatalogSlot<'p>> {
        let tree = self.tree();
        let Some((directory, name)) = at.path.parent_and_name() else {
            let node = tree.node_number(at.base);
            let row = tree.node(node)?.ok_or(StoreError::NotFound)?;
            return Ok(CatalogSlot {
                parent: row.parent,
                name: tree.name_of(node)?.into(),
                row: Some(row),
                depth: 0,
            });
        };
        let start = tree.start_node(at.base)?;
        let mut cache = TransactionDirCache {
            dirs: &self.volume.dirs,
            epoch: self.transaction.epoch(),
            learned: &mut self.learned_dirs,
        };
        let reached = tree.follow(&mut cache, start, directory)?;
        let parent = match parents {
            _ if reached.path_length == directory.len() => reached.node,
            Parents::Required => return Err(StoreError::NotFound.into()),
            Parents::Create => self.make_directories(start, reached.node, directory, reached.path_length)?,
        };
        let row = tree.child(parent, name)?;
        Ok(CatalogSlot { parent, name: name.into(), row, depth: at.path.depth() })
    }

    /// Checks that these directories are still these nodes; `Conflict` if one isn't.
    fn check_expected_nodes(&mut self, expected: &[(StorePath, NodeId)]) -> Result<()> {
        for (path, node) in expected {
            let tree = self.tree();
            let mut cache = TransactionDirCache {
                dirs: &self.volume.dirs,
                epoch: self.transaction.epoch(),
                learned: &mut self.learned_dirs,
            };
            match tree.follow(&mut cache, tree.root, path.as_bytes()) {
                Ok(reached)
                    if reached.path_length == path.as_bytes().len()
                        && reached.node == tree.node_number(*node) => {}
                Ok(_) | Err(DatabaseError::Store(_)) => return Err(StoreError::Conflict.into()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Checks that these names are free; `NameTaken` if one isn't.
    fn check_absent(&mut self, paths: &[StorePath]) -> Result<()> {
        for path in paths {
            let Some((directory, name)) = path.parent_and_name() else { continue };
            let tree = self.tree();
            let mut cache = TransactionDirCache {
                dirs: &self.volume.dirs,
                epoch: self.transaction.epoch(),
                learned: &mut self.learned_dirs,
            };
            let parent = match tree.follow(&mut cache, tree.root, directory) {
                Ok(reached) if reached.path_length == directory.len() => reached.node,
                Ok(_) | Err(DatabaseError::Store(_)) => continue,
                Err(error) => return Err(error),
            };
            if tree.child(parent, name)?.is_some() {
                return Err(StoreError::NameTaken { path: escape_name(path.as_bytes()).to_string() }.into());
            }
        }
        Ok(())
    }

    /// Creates the directories of `path` that are missing after the first `done` bytes, the first of them in `parent`.
    /// Returns the last one.
    fn make_directories(&mut self, start: i64, mut parent: i64, path: &[u8], mut done: usize) -> Result<i64> {
        while done < path.len() {
            let begin = if done == 0 { 0 } else { done + 1 };
            done = path[begin..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(path.len(), |length| begin + length);
            let row = self.new_row(EntryKind::Directory, DIRECTORY_MODE)?;
            parent = self.create(parent, &path[begin..done], row)?.node;
            if start == self.volume.root {
                self.learned_dirs.insert(path[..done].into(), parent);
            }
        }
        Ok(parent)
    }

    /// The node that the current step revives, if it existed before and doesn't exist now.
    fn revived_node(&mut self) -> Result<Option<i64>> {
        let Some(node) = self.reviving.take() else { return Ok(None) };
        let existed = self
            .conn()
            .prepare_cached("SELECT 1 FROM entry_history WHERE volume = ?1 AND node = ?2")?
            .exists([self.volume.id, node])?
            || self.tree().base().map(|base| base.node(node)).transpose()?.flatten().is_some()
            || self.exists_in_relative(node)?;
        Ok((existed && self.tree().node(node)?.is_none()).then_some(node))
    }

    /// A row for a new node without content, with the change's time.
    fn new_row(&mut self, kind: EntryKind, mode: u32) -> Result<EntryRow> {
        let node = match self.revived_node()? {
            Some(node) => node,
            None => self.transaction.fresh_node()?,
        };
        let (now, since) = (self.now(), self.revision()?);
        let (created, modified, changed) = (now, now, now);
        Ok(EntryRow {
            node,
            parent: 0,
            kind,
            mode,
            size: 0,
            created,
            modified,
            changed,
            content: None,
            since,
        })
    }

    /// Puts a new node into a directory.
    fn create(&mut self, parent: i64, name: &[u8], row: EntryRow) -> Result<EntryRow> {
        let row = EntryRow { parent, ..row };
        self.remove_whiteout(parent, name)?;
        self.insert(&row, name)?;
        self.log_change(ChangeKind::Created, row.node, parent, name)?;
        self.touch_directory(parent)?;
        self.add_usage(parent, UsageAmount::of(&row))?;
        Ok(row)
    }

    /// Writes a new row.
    fn insert(&self, row: &EntryRow, name: &[u8]) -> Result<()> {
        row.insert(self.conn(), self.volume.id, name)
    }

    /// Changes a node's attributes or content. Its name stays.
    fn update(
        &mut self,
        old: &EntryRow,
        new: EntryRow,
        kind: ChangeKind,
        name: &[u8],
        displaced: DisplacedContent,
    ) -> Result<EntryRow> {
        self.move_to_history(old, name, displaced)?;
        self.copy_up(old, name)?;
        self.touched_dirs.remove(&old.node);
        let new = EntryRow { since: self.revision()?, changed: self.now(), ..new };
        self.conn()
            .prepare_cached(
                "UPDATE entry SET mode = ?4, size = ?5, modified = ?6, changed = ?7, content = ?8, since = ?9
                 WHERE volume = ?1 AND parent = ?2 AND name = ?3",
            )?
            .execute(params![
                self.volume.id,
                old.parent,
                name,
                new.mode,
                new.size,
                new.modified,
                new.changed,
                new.content,
                new.since
            ])?;
        self.log_change(kind, new.node, new.parent, name)?;
        if old.size != new.size {
            self.subtract_usage(old.parent, UsageAmount::of(old))?;
            self.add_usage(new.parent, UsageAmount::of(&new))?;
        }
        Ok(new)
    }

    /// Removes a node. A directory has to be empty.
    fn delete(&mut self, row: &EntryRow, name: &[u8], displaced: DisplacedContent) -> Result<()> {
        self.move_to_history(row, name, displaced)?;
        self.subtract_usage(row.parent, UsageAmount::of(row))?;
        if row.is_directory() {
            self.invalidate_directories()?;
            self.forget_root(row.node)?;
        }
        self.remove_or_hide(row.parent, name)?;
        self.log_change(ChangeKind::Removed, row.node, row.parent, name)?;
        self.touch_directory(row.parent)
    }

    /// Copies a row to history, where it ends with this change's revision. A state that this change itself made was
    /// never visible, so it isn't kept.
    fn move_to_history(&mut self, row: &EntryRow, name: &[u8], displaced: DisplacedContent) -> Result<()> {
        let revision = self.revision()?;
        if row.since == revision {
            return Ok(());
        }
        if row.since > self.history_limit(displaced)? {
            return self.write_history_whiteout(row, name);
        }
        self.conn()
            .prepare_cached(
                "INSERT INTO entry_history
                 SELECT volume, parent, name, node, kind, mode, size, created, modified, changed, content, since, ?4
                 FROM entry WHERE volume = ?1 AND parent = ?2 AND name = ?3",
            )?
            .execute(params![self.volume.id, row.parent, name, revision])?;
        Ok(())
    }

    /// Adds a row to the change log.
    fn log_change(&mut self, kind: ChangeKind, node: i64, parent: i64, name: &[u8]) -> Result<()> {
        let revision = self.revision()?;
        self.conn()
            .prepare_cached(
                "INSERT INTO node_change(volume, revision, seq, kind, node, parent, name) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![self.volume.id, revision, self.log_rows, feed::kind_code(kind), node, parent, name])?;
        self.log_rows += 1;
        Ok(())
    }

    /// Sets a directory's times after its names have changed. That makes no new state, in history or in its tag.
    fn touch_directory(&mut self, directory: i64) -> Result<()> {
        if !self.touched_dirs.insert(directory) {
            return Ok(());
        }
        if self.is_fork()
            && let Some((row, name)) = self.tree().node_with_name(directory)?
        {
            self.copy_up(&row, &name)?;
        }
        self.keep_directory_times(directory)?;
        self.conn()
            .prepare_cached("UPDATE entry SET modified = ?3, changed = ?3 WHERE volume = ?1 AND node = ?2")?
            .execute([self.volume.id, directory, self.now()])?;
        Ok(())
    }

    /// Invalidates cached paths of directories, in this change and everywhere.
    fn invalidate_directories(&mut self) -> Result<()> {
        self.learned_dirs.clear();
        self.forget_roots_above();
        self.transaction.invalidate_directories()
    }
}

/// The outcome of a step that left this row.
fn outcome_of(row: &EntryRow, created: bool) -> StepOutcome {
    StepOutcome { attr: Some(row.attr()), created, ..StepOutcome::default() }
}
