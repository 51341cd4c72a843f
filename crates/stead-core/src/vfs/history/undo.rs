//! Undo: chooses the operations to undo, and collects what they did on each Store.

use std::collections::{BTreeSet, HashSet};

use crate::clock::Timestamp;
use crate::error::Result;
use crate::history::{RevertAction, RevertMode, RevertSteps};
use crate::identity::{Operation, OperationId, SYSTEM_AGENT};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{RevisionQuery, RevisionSet, StoreError};
use crate::vfs::Vfs;
use crate::vfs::call::Call;
use crate::vfs::history::execute::{PlannedRevert, RevertSource, RevertSummary, StoreRevert};
use crate::vfs::history::order::newest_first;
use crate::vfs::history::{StoreGroup, not_in_history, require_groups};
use crate::vfs::managed::CleanupTool;

/// How often operations are chosen again because another caller undid some of them in the meantime.
const MAX_ATTEMPTS: usize = 8;
/// How often operations are chosen again because some of them have no effect any more.
const MAX_PASSES: usize = 64;

/// Which operations are undone: the caller's own, unless a person asks for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoTarget {
    /// The newest ones, this many, that have an effect and haven't been undone yet.
    Last(usize),
    /// All that began at this time or later.
    Since(Timestamp),
    /// This one, which may be an undo itself.
    Operation(OperationId),
    /// This one, of any agent, thread or the system. It is for a person who works in the caller's
    /// Workspaces; no tool of an agent may offer it.
    OperationOfAnyone(OperationId),
}

/// Whose operation may be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MadeBy {
    Caller,
    Anyone,
}

/// What happens if later changes conflict with the undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Nothing is changed at all.
    #[default]
    Refuse,
    /// The conflicting paths stay as they are; the rest is undone.
    Skip,
}

/// How operations are undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UndoOptions {
    /// Only report what would be done.
    pub dry_run: bool,
    /// What happens if there are conflicts.
    pub on_conflict: OnConflict,
}

/// What an undo or a restore did, or would do.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RevertResult {
    /// The operation that did it; `None` if nothing was changed.
    pub operation: Option<OperationId>,
    /// The operations that were undone as a whole, newest first, without those that have no effect any more.
    pub undone: Vec<Operation>,
    /// The operations of which something stays as it is, newest first. They don't count as undone. An operation of which
    /// the caller may not see anything isn't listed; it is a conflict.
    pub incomplete: Vec<IncompleteUndo>,
    /// What it does to each path.
    pub changes: Vec<PathChange>,
    /// Paths that stay as they are because they were changed since, or because the caller may not undo the change.
    pub conflicts: Vec<PathConflict>,
    /// Paths that a restore leaves as they are because the caller may not change them.
    pub left_out: Vec<PathConflict>,
    /// Files whose present content is removed or replaced and isn't kept, because it is too large: this can't be undone.
    pub not_kept: Vec<VfsPath>,
    /// Whether the changes were applied.
    pub done: bool,
}

/// An operation of which an undo leaves something as it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IncompleteUndo {
    /// The operation.
    pub operation: Operation,
    /// Whether the undo changes something of it all the same.
    pub is_partial: bool,
}

/// What an undo or a restore does to one path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathChange {
    /// The path after the change; before it, if the node is removed.
    pub path: VfsPath,
    /// The path before, if the node is moved.
    pub from: Option<VfsPath>,
    /// What is done.
    pub action: RevertAction,
}

/// A path that stays as it is, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathConflict {
    /// The path.
    pub path: VfsPath,
    /// The reason, as a sentence.
    pub why: String,
}

impl PathConflict {
    /// Says why a path can't be changed.
    pub fn new(path: VfsPath, why: impl Into<String>) -> Self {
        PathConflict { path, why: why.into() }
    }
}

impl Vfs {
    /// Undoes operations of this identity's agent. Later changes stay.
    ///
    /// An operation whose undo would change nothing, because what it did is gone already, isn't marked as undone.
    pub fn undo(&self, target: UndoTarget, options: UndoOptions) -> Result<RevertResult> {
        self.call("undo", [], |call, []| call.undo(target, options))
    }
}

/// Turns a directory that stays because it holds something else into a conflict, if nothing else of its operation can
/// be undone. Such an operation still has an effect, so it must not be skipped.
///
/// `effective` has the operations of which something can be undone on Stores that aren't in `planned`.
pub(super) fn report_kept_directories(
    chosen: &[Operation],
    planned: &mut [PlannedRevert<'_>],
    mut effective: HashSet<OperationId>,
) {
    for plan in &*planned {
        effective.extend(&plan.steps.effective_operations);
        effective.extend(plan.incomplete_operations());
    }
    let is_without_effect =
        |id: &OperationId| !effective.contains(id) && chosen.iter().any(|operation| operation.id == *id);
    for plan in planned {
        let RevertSteps { kept_directories, conflicts, .. } = &mut plan.steps;
        let blocking =
            kept_directories.extract_if(.., |(_, operations)| operations.iter().any(is_without_effect));
        conflicts.extend(blocking.map(|(conflict, _)| conflict));
    }
}

impl Call<'_> {
    fn undo(&self, target: UndoTarget, options: UndoOptions) -> Result<RevertResult> {
        self.set_dry_run(options.dry_run);
        let groups = require_groups(self.store_groups(Access::Restore), Access::Restore)?;
        let mut ineffective = HashSet::new();
        for _ in 0..MAX_PASSES {
            let (mut chosen, revision_sets) = self.choose_revisions(&groups, target, &mut ineffective)?;
            let mut planned = Vec::new();
            for (group, revisions) in groups.iter().zip(revision_sets) {
                if !revisions.revisions.is_empty() {
                    let (group, mode, withheld) = (group.clone(), RevertMode::Merge, BTreeSet::new());
                    let (source, withheld_path) = (RevertSource::Revisions, None);
                    let revert = StoreRevert { group, revisions, mode, source, withheld, withheld_path };
                    planned.push(self.plan_with_retries(revert)?);
                }
            }
            report_kept_directories(&chosen, &mut planned, HashSet::new());
            let mut effective: HashSet<OperationId> =
                planned.iter().flat_map(PlannedRevert::incomplete_operations).collect();
            effective.extend(planned.iter().flat_map(|plan| &plan.steps.effective_operations));
            let without_effect: Vec<_> =
                chosen.iter().map(|operation| operation.id).filter(|id| !effective.contains(id)).collect();
            if without_effect.is_empty() || !matches!(target, UndoTarget::Last(_)) {
                chosen.retain(|operation| effective.contains(&operation.id));
                return self.execute_reverts(planned, RevertSummary::undo(chosen), options);
            }
            // `Last` counts only operations with an effect, so that repeated calls don't get stuck at one without.
            ineffective.extend(without_effect);
        }
        Err(groups[0].store_error(StoreError::Conflict))
    }

    /// The operations to undo, and what they did on each Store.
    ///
    /// The operations are chosen before their node changes are loaded, since there may be many.
    fn choose_revisions(
        &self,
        groups: &[StoreGroup<'_>],
        target: UndoTarget,
        ineffective: &mut HashSet<OperationId>,
    ) -> Result<(Vec<Operation>, Vec<RevisionSet>)> {
        for _ in 0..MAX_ATTEMPTS {
            let mut chosen = self.choose_operations(groups, target, ineffective)?;
            let mut revision_sets = self.revisions_of(groups, &chosen)?;
            let ids = |revision_sets: &[RevisionSet]| -> HashSet<OperationId> {
                revision_sets
                    .iter()
                    .flat_map(|set| &set.revisions)
                    .map(|revision| revision.operation.id)
                    .collect()
            };
            let changing = ids(&revision_sets);
            revision_sets.iter_mut().for_each(|set| set.revisions.retain(|revision| !revision.undone));
            if ids(&revision_sets) != changing {
                // Another caller has undone one of them since it was chosen.
                continue;
            }
            let unchanging: Vec<_> =
                chosen.iter().map(|operation| operation.id).filter(|id| !changing.contains(id)).collect();
            if unchanging.is_empty() || !matches!(target, UndoTarget::Last(_)) {
                chosen.retain(|operation| changing.contains(&operation.id));
                return Ok((chosen, revision_sets));
            }
            // `Last` doesn't count operations that changed nothing in the end.
            ineffective.extend(unchanging);
        }
        Err(groups[0].store_error(StoreError::Conflict))
    }

    /// The operations to undo, newest first, without those in `ineffective`, which are known to have no effect.
    fn choose_operations(
        &self,
        groups: &[StoreGroup<'_>],
        target: UndoTarget,
        ineffective: &HashSet<OperationId>,
    ) -> Result<Vec<Operation>> {
        let (since, count) = match target {
            UndoTarget::Operation(id) => {
                return self.find_undoable(groups, id, MadeBy::Caller).map(|operation| vec![operation]);
            }
            UndoTarget::OperationOfAnyone(id) => {
                return self.find_undoable(groups, id, MadeBy::Anyone).map(|operation| vec![operation]);
            }
            UndoTarget::Since(since) => (since, usize::MAX),
            UndoTarget::Last(count) => (Timestamp(i64::MIN), count),
        };
        let mut undoable_by_store = Vec::with_capacity(groups.len());
        for group in groups {
            let wanted = count.saturating_add(ineffective.len());
            let mut limit = wanted;
            let undoable = loop {
                let found = group.store.require_history().and_then(|history| {
                    history.undoable_operations(&self.shared().identity.agent, since, limit)
                });
                let mut found = found.map_err(|cause| group.store_error(cause))?;
                let is_all = found.len() < limit;
                found.retain(|(_, operation)| self.is_own_thread(operation));
                if is_all || found.len() >= wanted {
                    break found;
                }
                // The newest ones are other threads'.
                limit = limit.saturating_mul(4);
            };
            undoable_by_store.push((&**group.store, undoable));
        }
        let ordered = newest_first(undoable_by_store, |(revision, operation)| (*revision, operation.at));
        let mut operations: Vec<Operation> = ordered.into_iter().map(|(_, operation)| operation).collect();
        let mut seen = HashSet::new();
        operations.retain(|operation| !ineffective.contains(&operation.id) && seen.insert(operation.id));
        operations.truncate(count);
        Ok(operations)
    }

    /// Whether the caller may undo this operation of its agent: in a thread, only those of the thread.
    fn is_own_thread(&self, operation: &Operation) -> bool {
        let Some(lease) = &self.shared().lease else { return true };
        operation.identity.thread == self.shared().identity.thread && operation.at >= lease.created()
    }

    /// The operation with this id, if it is one that the caller may undo: its own, or a cleanup by the system; or any, for a person.
    /// Fails if there is none in the Workspaces that the caller may restore, or if it has been undone on every Store.
    fn find_undoable(
        &self,
        groups: &[StoreGroup<'_>],
        id: OperationId,
        made_by: MadeBy,
    ) -> Result<Operation> {
        let query = RevisionQuery { operations: Some(vec![id]), limit: 1, ..RevisionQuery::all() };
        let is_own = |operation: &Operation| {
            let Operation { identity, tool, .. } = operation;
            let is_cleanup = identity.agent == SYSTEM_AGENT && tool == CleanupTool::NAME;
            is_cleanup || (identity.agent == self.shared().identity.agent && self.is_own_thread(operation))
        };
        let mut exists = false;
        for group in groups {
            let found = group
                .store
                .require_history()
                .and_then(|history| history.revisions(&query))
                .map_err(|cause| group.store_error(cause))?;
            let newest = found.revisions.into_iter().next();
            if let Some(revision) =
                newest.filter(|revision| made_by == MadeBy::Anyone || is_own(&revision.operation))
            {
                exists = true;
                if !revision.undone {
                    return Ok(revision.operation);
                }
            }
        }
        let owner = if made_by == MadeBy::Caller { " of yours" } else { "" };
        Err(not_in_history(match exists {
            true => format!("operation {id}{owner} that isn't undone yet"),
            false => format!("operation {id}{owner}"),
        }))
    }

    /// The revisions of these operations, one set per Store.
    fn revisions_of(&self, groups: &[StoreGroup<'_>], operations: &[Operation]) -> Result<Vec<RevisionSet>> {
        // They were chosen among those that the caller may undo.
        let ids = operations.iter().map(|operation| operation.id).collect();
        let query = RevisionQuery { operations: Some(ids), ..RevisionQuery::all() };
        groups
            .iter()
            .map(|group| {
                group
                    .store
                    .require_history()
                    .and_then(|history| history.revisions(&query))
                    .map_err(|cause| group.store_error(cause))
            })
            .collect()
    }
}
