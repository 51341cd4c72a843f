//! Undo: which operations are undone, and what they did on each Store.

use std::collections::{BTreeSet, HashSet};

use crate::clock::Timestamp;
use crate::error::Result;
use crate::history::{RevertAction, RevertMode, RevertSteps};
use crate::identity::{Operation, OperationId};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{RevisionQuery, RevisionSet, StoreError};
use crate::vfs::Vfs;
use crate::vfs::call::Call;
use crate::vfs::history::execute::{PlannedRevert, RevertSource, RevertSummary, StoreRevert};
use crate::vfs::history::order::newest_first;
use crate::vfs::history::{StoreGroup, not_in_history, require_groups};

/// How often operations are chosen anew because someone else undid some of them meanwhile.
const MAX_ATTEMPTS: usize = 8;
/// How often operations are chosen anew because some of those chosen have no effect any more.
const MAX_PASSES: usize = 64;

/// Which operations are taken back: the caller's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoTarget {
    /// So many, the newest ones that have an effect and have not been undone yet.
    Last(usize),
    /// All since then.
    Since(Timestamp),
    /// This one, which may be an undo itself.
    Operation(OperationId),
}

/// What happens where others have changed the same thing since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Nothing is changed at all.
    #[default]
    Refuse,
    /// What is in conflict stays as it is; the rest is taken back.
    Skip,
}

/// How operations are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UndoOptions {
    /// Only says what would be done.
    pub dry_run: bool,
    /// What happens to conflicts.
    pub on_conflict: OnConflict,
}

/// What an undo or a restore did, or would do.
#[derive(Debug, Clone)]
pub struct RevertResult {
    /// The operation that did it; `None` where nothing was changed.
    pub operation: Option<OperationId>,
    /// The operations that were undone, newest first. Operations that have no effect any more are not among them.
    pub undone: Vec<Operation>,
    /// What became of which path.
    pub changes: Vec<PathChange>,
    /// What stayed as it is because it was changed since, or because the caller may not undo it.
    pub conflicts: Vec<PathConflict>,
    /// What a restore left as it is because the caller may not change it.
    pub left_out: Vec<PathConflict>,
    /// Whether it was really done.
    pub done: bool,
}

/// What became of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The path.
    pub path: VfsPath,
    /// Where it was, if it was moved.
    pub from: Option<VfsPath>,
    /// What became of it.
    pub action: RevertAction,
}

/// Why a path stayed as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathConflict {
    /// The path.
    pub path: VfsPath,
    /// Why, in a sentence.
    pub why: String,
}

impl Vfs {
    /// Undoes operations of this identity's agent. What others have changed since stays.
    ///
    /// An operation whose undo would change nothing, because what it did is gone already, is not marked as undone.
    pub fn undo(&self, what: UndoTarget, options: UndoOptions) -> Result<RevertResult> {
        self.call("undo", [], |call, []| call.undo(what, options))
    }
}

/// Makes a conflict of each directory that stays because something else is in it, where nothing else of its operation
/// can be undone: such an operation has an effect, and must not be passed over.
fn report_kept_directories(chosen: &[Operation], planned: &mut [PlannedRevert<'_>]) {
    let effective: HashSet<OperationId> = planned
        .iter()
        .flat_map(|part| part.steps.effective_operations.iter().copied().chain(part.incomplete_operations()))
        .collect();
    let held = |id: &OperationId| !effective.contains(id) && chosen.iter().any(|one| one.id == *id);
    for part in planned {
        let RevertSteps { kept_directories: staying, conflicts, .. } = &mut part.steps;
        let stuck = staying.extract_if(.., |(_, operations)| operations.iter().any(held));
        conflicts.extend(stuck.map(|(conflict, _)| conflict));
    }
}

impl Call<'_> {
    fn undo(&self, what: UndoTarget, options: UndoOptions) -> Result<RevertResult> {
        self.set_dry_run(options.dry_run);
        let grounds = require_groups(self.store_groups(Access::Restore), Access::Restore)?;
        let mut idle = HashSet::new();
        for _ in 0..MAX_PASSES {
            let (mut chosen, all) = self.choose_revisions(&grounds, what, &mut idle)?;
            let mut planned = Vec::new();
            for (ground, deeds) in grounds.iter().zip(all) {
                if !deeds.revisions.is_empty() {
                    let (ground, how, withheld) = (ground.clone(), RevertMode::Merge, BTreeSet::new());
                    let part = StoreRevert {
                        group: ground,
                        revisions: deeds,
                        mode: how,
                        source: RevertSource::Revisions,
                        withheld,
                    };
                    planned.push(self.plan_with_retries(part)?);
                }
            }
            report_kept_directories(&chosen, &mut planned);
            let mut wanted: HashSet<OperationId> =
                planned.iter().flat_map(PlannedRevert::incomplete_operations).collect();
            wanted.extend(planned.iter().flat_map(|part| &part.steps.effective_operations));
            let without_effect: Vec<_> =
                chosen.iter().map(|one| one.id).filter(|id| !wanted.contains(id)).collect();
            if without_effect.is_empty() || !matches!(what, UndoTarget::Last(_)) {
                chosen.retain(|operation| wanted.contains(&operation.id));
                return self.execute_reverts(planned, RevertSummary::undo(chosen), options);
            }
            // The last operations are the last ones that have an effect: nobody is stuck at one that has none.
            idle.extend(without_effect);
        }
        Err(grounds[0].store_error(StoreError::Conflict))
    }

    /// The operations that are to be undone, and what they did on each Store.
    ///
    /// Operations are chosen without what they did, which may be much.
    fn choose_revisions(
        &self,
        grounds: &[StoreGroup<'_>],
        what: UndoTarget,
        idle: &mut HashSet<OperationId>,
    ) -> Result<(Vec<Operation>, Vec<RevisionSet>)> {
        for _ in 0..MAX_ATTEMPTS {
            let mut chosen = self.choose_operations(grounds, what, idle)?;
            let mut all = self.revisions_of(grounds, &chosen)?;
            let ids = |all: &[RevisionSet]| -> HashSet<OperationId> {
                all.iter().flat_map(|deeds| &deeds.revisions).map(|deed| deed.operation.id).collect()
            };
            let did = ids(&all);
            all.iter_mut().for_each(|deeds| deeds.revisions.retain(|deed| !deed.undone));
            if ids(&all) != did {
                // Someone else has taken something back since it was chosen.
                continue;
            }
            let nothing: Vec<_> = chosen.iter().map(|one| one.id).filter(|id| !did.contains(id)).collect();
            if nothing.is_empty() || !matches!(what, UndoTarget::Last(_)) {
                chosen.retain(|operation| did.contains(&operation.id));
                return Ok((chosen, all));
            }
            // What came to nothing is none of the last ones.
            idle.extend(nothing);
        }
        Err(grounds[0].store_error(StoreError::Conflict))
    }

    /// The operations that are to be undone, newest first; those that are known to be `idle` are passed over.
    fn choose_operations(
        &self,
        grounds: &[StoreGroup<'_>],
        what: UndoTarget,
        idle: &HashSet<OperationId>,
    ) -> Result<Vec<Operation>> {
        let (since, count) = match what {
            UndoTarget::Operation(id) => {
                return self.own_operation(grounds, id).map(|operation| vec![operation]);
            }
            UndoTarget::Since(since) => (since, usize::MAX),
            UndoTarget::Last(count) => (Timestamp(i64::MIN), count),
        };
        let mut told = Vec::with_capacity(grounds.len());
        for ground in grounds {
            let limit = count.saturating_add(idle.len());
            let standing = ground.store.undoable_operations(&self.shared().identity.agent, since, limit);
            told.push((&**ground.store, standing.map_err(|cause| ground.store_error(cause))?));
        }
        let ordered = newest_first(told, |(version, operation)| (*version, operation.at));
        let mut operations: Vec<Operation> = ordered.into_iter().map(|(_, operation)| operation).collect();
        let mut seen = HashSet::new();
        operations.retain(|operation| !idle.contains(&operation.id) && seen.insert(operation.id));
        operations.truncate(count);
        Ok(operations)
    }

    /// An operation of the caller's that has not been undone on every Store.
    fn own_operation(&self, grounds: &[StoreGroup<'_>], id: OperationId) -> Result<Operation> {
        let agent = Some(self.shared().identity.agent.clone());
        let query = RevisionQuery { agent, operations: Some(vec![id]), limit: 1, ..RevisionQuery::all() };
        let mut known = false;
        for ground in grounds {
            let found = ground.store.revisions(&query).map_err(|cause| ground.store_error(cause))?;
            if let Some(deed) = found.revisions.into_iter().next() {
                known = true;
                if !deed.undone {
                    return Ok(deed.operation);
                }
            }
        }
        Err(not_in_history(match known {
            true => format!("operation {id} of yours that has not been taken back already"),
            false => format!("operation {id} of yours"),
        }))
    }

    /// What these operations did, on one Store after the other.
    fn revisions_of(&self, grounds: &[StoreGroup<'_>], operations: &[Operation]) -> Result<Vec<RevisionSet>> {
        let ids = operations.iter().map(|operation| operation.id).collect();
        let agent = Some(self.shared().identity.agent.clone());
        let query = RevisionQuery { agent, operations: Some(ids), ..RevisionQuery::all() };
        grounds
            .iter()
            .map(|ground| ground.store.revisions(&query).map_err(|cause| ground.store_error(cause)))
            .collect()
    }
}
