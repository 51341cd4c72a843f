//! Plans and applies an undo or a restore: one plan per Store, all of them checked before the first change is applied.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::error::{Error, ErrorKind, Result};
use crate::history::{
    NodeConflict, RevertMode, RevertPlan, RevertSteps, StoreView, order_steps, plan_revert,
};
use crate::identity::{Operation, OperationId};
use crate::monitor::check_not_stopped;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    Attr, CompanionRecord, ContentRef, NodeChange, NodeId, NodeKind, NodePath, Page, Revision,
    RevisionNumber, RevisionQuery, RevisionSet, Store, StoreError, StorePath, StoreResult,
};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::history::restore::revisions_since;
use crate::vfs::history::undo::{
    IncompleteUndo, OnConflict, PathChange, PathConflict, RevertResult, UndoOptions, report_kept_directories,
};
use crate::vfs::history::{StoreGroup, read_content};

/// How often a plan is made again because something changed in the meantime.
const MAX_ATTEMPTS: usize = 8;
/// How many operations a query names by id. With more, it names the range of revisions instead.
const MAX_OPERATIONS_BY_ID: usize = 1_000;

/// What an undo or a restore reverts on one Store.
pub(super) struct StoreRevert<'a> {
    pub(super) group: StoreGroup<'a>,
    pub(super) revisions: RevisionSet,
    pub(super) mode: RevertMode,
    pub(super) source: RevertSource,
    /// The operations that touched something which the caller may not restore.
    pub(super) withheld: BTreeSet<OperationId>,
}

/// How the revisions were found, to query them again if something has changed.
pub(super) enum RevertSource {
    /// They are exactly these revisions.
    Revisions,
    /// They are all revisions since this one that changed something at or below these paths.
    Since(RevisionNumber, Vec<StorePath>),
}

/// A `StoreRevert` and the steps for it.
pub(super) struct PlannedRevert<'a> {
    revert: StoreRevert<'a>,
    pub(super) steps: RevertSteps,
    changes: Vec<PathChange>,
    /// The nodes that the caller may not change, and why.
    refused: BTreeMap<NodeId, String>,
    /// Whether it has been applied.
    applied: bool,
    /// Whether it has changed a file.
    changed: bool,
}

/// What an undo or a restore reports, beside what it does on each Store.
pub(super) struct RevertSummary {
    /// The operations to undo; `None` for a restore.
    undone: Option<Vec<Operation>>,
    left_out: Vec<PathConflict>,
}

impl RevertSummary {
    /// An undo of these operations.
    pub(super) fn undo(operations: Vec<Operation>) -> Self {
        RevertSummary { undone: Some(operations), left_out: Vec::new() }
    }

    /// A restore that leaves these paths out.
    pub(super) fn restore(left_out: Vec<PathConflict>) -> Self {
        RevertSummary { undone: None, left_out }
    }
}

impl StoreRevert<'_> {
    /// Queries the same revisions again, with the current state of their nodes.
    fn reload(&mut self) -> Result<()> {
        let deeds = match &self.source {
            RevertSource::Since(version, below) => revisions_since(&self.group, *version, below),
            RevertSource::Revisions => self.reload_revisions(),
        };
        self.revisions = match deeds {
            Err(cause) if is_race(&cause) => return Err(self.group.store_error(StoreError::Conflict)),
            deeds => deeds.map_err(|cause| self.group.store_error(cause))?,
        };
        // Another caller has undone one of them in the meantime; it must not be undone twice.
        if self.mode == RevertMode::Merge && self.revisions.revisions.iter().any(|deed| deed.undone) {
            return Err(self.group.store_error(StoreError::Conflict));
        }
        Ok(())
    }

    /// Queries exactly these revisions again, with as few others as possible.
    fn reload_revisions(&self) -> StoreResult<RevisionSet> {
        let known: HashSet<RevisionNumber> =
            self.revisions.revisions.iter().map(|deed| deed.number).collect();
        let (Some(first), Some(last)) = (known.iter().min(), known.iter().max()) else {
            return Ok(RevisionSet::default());
        };
        let operations: HashSet<OperationId> =
            self.revisions.revisions.iter().map(|deed| deed.operation.id).collect();
        let few = operations.len() <= MAX_OPERATIONS_BY_ID;
        let mut deeds = self.group.store.require_history()?.revisions(&RevisionQuery {
            operations: few.then(|| operations.into_iter().collect()),
            ..RevisionQuery::between(RevisionNumber(first.0 - 1), *last)
        })?;
        deeds.revisions.retain(|deed| known.contains(&deed.number));
        Ok(deeds)
    }

    /// The paths of a node in the Store, newest first: the current one, then the former ones.
    fn paths_of(&self, node: NodeId) -> impl Iterator<Item = &StorePath> {
        let now = self.revisions.current.get(&node).map(|now| &now.path);
        let lines = self
            .revisions
            .revisions
            .iter()
            .flat_map(|deed| &deed.changes)
            .filter(move |line| line.node == node);
        let then = lines.flat_map(|line| [&line.after, &line.before]).flatten().map(|state| &state.path);
        now.into_iter().chain(then)
    }
}

impl<'a> PlannedRevert<'a> {
    /// A plan that does nothing.
    fn empty(revert: StoreRevert<'a>) -> Self {
        PlannedRevert {
            revert,
            steps: RevertSteps::default(),
            changes: Vec::new(),
            refused: BTreeMap::new(),
            applied: false,
            changed: false,
        }
    }

    /// The operations of which something can't be undone.
    pub(super) fn incomplete_operations(&self) -> Vec<OperationId> {
        let stays = |node: &NodeId| {
            self.refused.contains_key(node) || self.steps.conflicts.iter().any(|one| one.node == *node)
        };
        let withheld = self.revert.withheld.iter().copied();
        if self.refused.is_empty() && self.steps.conflicts.is_empty() {
            return withheld.collect();
        }
        let touches = |deed: &&Revision| deed.changes.iter().any(|line| stays(&line.node));
        let touching = self.revert.revisions.revisions.iter().filter(touches).map(|deed| deed.operation.id);
        withheld.chain(touching).collect()
    }
}

impl Call<'_> {
    /// Applies the plans with one change per Store, unless it is a dry run or conflicts forbid it.
    pub(super) fn execute_reverts(
        &self,
        planned: Vec<PlannedRevert<'_>>,
        outcome: RevertSummary,
        options: UndoOptions,
    ) -> Result<RevertResult> {
        let result = self.describe_reverts(&planned, &outcome);
        let operations = outcome.undone.as_deref();
        if operations.is_some_and(<[Operation]>::is_empty) && result.conflicts.is_empty() {
            return Ok(result);
        }
        if self.vfs.approval.is_strict() && result.changes.is_empty() {
            // The Stores record the undo even if no file changes. So in strict mode a person has to have approved the
            // Workspaces themselves.
            for workspace in planned.iter().flat_map(|part| &part.revert.group.workspaces) {
                self.authorize(workspace.prefix(), Access::Restore)?;
            }
        }
        let refused = !result.conflicts.is_empty() && options.on_conflict == OnConflict::Refuse;
        let stays = result.conflicts.iter().map(|conflict| conflict.path.clone());
        self.set_paths(result.changes.iter().map(|change| change.path.clone()).chain(stays).collect());
        if refused {
            self.set_refused(ErrorKind::Conflict);
        }
        if options.dry_run || refused {
            return Ok(result);
        }
        // Something may change meanwhile, so the answer is about the plans that were applied in the end.
        let applied = self.apply_plans(planned, operations.unwrap_or_default(), options)?;
        let mut result = self.describe_reverts(&applied, &outcome);
        if applied.iter().any(|part| part.changed) {
            result.operation = Some(self.operation());
        }
        for change in &result.changes {
            self.shared().read_set.forget(&change.path);
        }
        result.done = true;
        Ok(result)
    }

    /// What these plans do, and what they leave as it is.
    fn describe_reverts(&self, planned: &[PlannedRevert<'_>], outcome: &RevertSummary) -> RevertResult {
        let mut result = RevertResult {
            operation: None,
            undone: Vec::new(),
            incomplete: Vec::new(),
            changes: Vec::new(),
            conflicts: Vec::new(),
            left_out: outcome.left_out.clone(),
            done: false,
        };
        for part in planned {
            result.changes.extend(part.changes.iter().cloned());
            let refused = self.refused_paths(part);
            if outcome.undone.is_none() {
                result.left_out.extend(refused)
            } else {
                result.conflicts.extend(refused)
            }
            result.conflicts.extend(self.conflicting_paths(part));
        }
        let stays: HashSet<OperationId> =
            planned.iter().flat_map(PlannedRevert::incomplete_operations).collect();
        for operation in outcome.undone.iter().flatten().cloned() {
            if stays.contains(&operation.id) {
                let is_partial =
                    planned.iter().any(|part| part.steps.effective_operations.contains(&operation.id));
                result.incomplete.push(IncompleteUndo { operation, is_partial });
            } else {
                result.undone.push(operation);
            }
        }
        result
    }

    /// Applies one change per Store and returns the plans as they were applied. Each Store records by itself what was
    /// undone there, so if a later Store fails, repeating the call finishes the rest.
    fn apply_plans<'a>(
        &self,
        planned: Vec<PlannedRevert<'a>>,
        operations: &[Operation],
        options: UndoOptions,
    ) -> Result<Vec<PlannedRevert<'a>>> {
        // An operation of which something stays as it is doesn't count as undone.
        let mut stays: HashSet<OperationId> =
            planned.iter().flat_map(PlannedRevert::incomplete_operations).collect();
        let effective: Vec<_> = planned.iter().map(|part| part.steps.effective_operations.clone()).collect();
        // A change without steps is needed too, to record what was undone.
        let records = undo_record(operations, &stays).is_some();
        let last = planned.iter().rposition(|part| !part.steps.steps.is_empty() || records);
        let (mut applied, mut done) = (Vec::with_capacity(planned.len()), None);
        for (index, part) in planned.into_iter().enumerate() {
            let prefix = part.revert.group.workspaces[0].prefix().clone();
            let stage = if Some(index) == last { ChangeStage::Final } else { ChangeStage::Intermediate };
            let elsewhere = effective.iter().enumerate().filter(|(other, _)| *other != index);
            let elsewhere = elsewhere.flat_map(|(_, operations)| operations).copied().collect();
            match (self.apply_plan(part, operations, (&mut stays, elsewhere), options, stage), &done) {
                (Err(cause), Some(done)) => {
                    let (done, cause) = (VfsPath::clone(done), Box::new(cause));
                    return Err(Error::PartiallyApplied { done, left: prefix, cause });
                }
                (part, _) => {
                    let part = part?;
                    if part.applied {
                        done = done.or(Some(prefix));
                    }
                    applied.push(part);
                }
            }
        }
        Ok(applied)
    }

    /// Plans the revert of one Store, and plans it again if what the plan looked at has changed.
    pub(super) fn plan_with_retries<'a>(&self, mut part: StoreRevert<'a>) -> Result<PlannedRevert<'a>> {
        for _ in 0..MAX_ATTEMPTS {
            check_not_stopped(self.cancellation_monitor().as_ref())
                .map_err(|cause| part.group.store_error(cause))?;
            self.drop_invisible_nodes(&mut part);
            match self.plan_once(&part) {
                Err(Error::Store { cause, .. }) if is_race(&cause) => part.reload()?,
                Err(error) => return Err(error),
                Ok((steps, changes, refused)) => {
                    return Ok(PlannedRevert { steps, changes, refused, ..PlannedRevert::empty(part) });
                }
            }
        }
        Err(part.group.store_error(StoreError::Conflict))
    }

    /// Treats nodes outside the Workspaces that the caller may restore as gone, so that the answer doesn't depend on
    /// what other agents do to them there.
    fn drop_invisible_nodes(&self, part: &mut StoreRevert<'_>) {
        let StoreRevert { group: ground, revisions: deeds, mode: how, withheld, .. } = part;
        let is_seen = |path: &StorePath| self.logical_path(ground, path).is_some();
        deeds.current.retain(|_, now| is_seen(&now.path));
        if *how == RevertMode::Exact {
            return;
        }
        // Nor may it depend on what an operation did there, or how much: that is one conflict for the whole Store.
        for deed in &mut deeds.revisions {
            let states = |line: &NodeChange| {
                [&line.before, &line.after].map(|state| Some(is_seen(&state.as_ref()?.path)))
            };
            let tried = deed.blind_at.as_ref().map(&is_seen);
            if tried == Some(false) || deed.changes.iter().flat_map(states).any(|seen| seen == Some(false)) {
                withheld.insert(deed.operation.id);
            }
            deed.changes.retain(|line| states(line).contains(&Some(true)));
        }
    }

    /// The steps of a revert, their changes in logical paths, and the nodes that the plan leaves out because the caller
    /// may not change them.
    fn plan_once(
        &self,
        part: &StoreRevert<'_>,
    ) -> Result<(RevertSteps, Vec<PathChange>, BTreeMap<NodeId, String>)> {
        let StoreRevert { group: ground, revisions: deeds, mode: how, .. } = part;
        let store = &**ground.store;
        let failed = |cause| ground.store_error(cause);
        // A merge holds three sides and a result, so four times the size of the first content is reserved, once. Later
        // contents are mostly no larger.
        let mut memory = None;
        let mut read = |past: &ContentRef| {
            check_not_stopped(self.cancellation_monitor().as_ref())?;
            if memory.is_none() {
                memory = Some(self.reserve(past.size().saturating_mul(4))?);
            }
            read_content(store, past)
        };
        let mut arrangement = plan_revert(deeds, *how, &mut read).map_err(failed)?;
        let mut refused = self.unauthorized_nodes(part, &arrangement)?;
        loop {
            for node in refused.keys() {
                arrangement.targets.remove(node);
                arrangement.operations_by_node.remove(node);
            }
            arrangement.conflicts.retain(|conflict| !refused.contains_key(&conflict.node));
            // The directory that a Workspace shows may not exist yet.
            let is_there = |path: &&StorePath| {
                let there = store.stat(&NodePath::from_root((*path).clone()));
                there.is_ok_and(|attr| attr.kind == NodeKind::Directory)
            };
            let mut tops = ground.workspaces.iter().map(|workspace| workspace.mount().path());
            let aside = tops.find(is_there).unwrap_or_else(|| ground.workspaces[0].mount().path());
            let steps =
                order_steps(arrangement.clone(), deeds, aside, &mut LiveStoreView(store)).map_err(failed)?;
            let (changes, more) = self.authorize_changes(ground, &steps)?;
            if more.is_empty() {
                return Ok((steps, changes, refused));
            }
            refused.extend(more);
        }
    }

    /// The nodes that the caller may not change, judged by the paths that the operations touched and by the current
    /// path if the caller may see it. So the answer doesn't reveal what has become of a file where the caller may not
    /// look.
    fn unauthorized_nodes(
        &self,
        part: &StoreRevert<'_>,
        arrangement: &RevertPlan,
    ) -> Result<BTreeMap<NodeId, String>> {
        let (mut refused, mut asks) = (BTreeMap::new(), None);
        let mut refuse = |node: NodeId, path: &StorePath| {
            if let Err(why) = self.authorize_restore(&part.group, path, &mut asks) {
                refused.entry(node).or_insert(why);
            }
        };
        // Revisions come newest first, so the last state inserted is the one that a restore goes back to.
        let mut goes_back = BTreeMap::new();
        for line in part.revisions.revisions.iter().flat_map(|deed| &deed.changes) {
            match part.mode {
                RevertMode::Merge => {
                    if let Some(touched) = line.after.as_ref().or(line.before.as_ref()) {
                        refuse(line.node, &touched.path);
                    }
                }
                RevertMode::Exact => drop(goes_back.insert(line.node, line.before.as_ref())),
            }
        }
        for (node, before) in goes_back {
            if let (Some(before), true) = (before, arrangement.targets.contains_key(&node)) {
                refuse(node, &before.path);
            }
        }
        for &node in arrangement.targets.keys() {
            if let Some(now) = part.revisions.current.get(&node) {
                refuse(node, &now.path);
            }
        }
        asks.map_or(Ok(refused), Err)
    }

    /// The changes in logical paths, and the nodes that the caller may not change, with the reason.
    fn authorize_changes(
        &self,
        ground: &StoreGroup<'_>,
        steps: &RevertSteps,
    ) -> Result<(Vec<PathChange>, BTreeMap<NodeId, String>)> {
        let (mut changes, mut refused) = (Vec::with_capacity(steps.changes.len()), BTreeMap::new());
        let mut asks = None;
        for change in &steps.changes {
            let path = self.authorize_restore(ground, &change.path, &mut asks);
            let from =
                change.from.as_ref().map(|from| self.authorize_restore(ground, from, &mut asks)).transpose();
            match (path, from) {
                (Ok(path), Ok(from)) => changes.push(PathChange { path, from, action: change.action }),
                (Err(why), _) | (_, Err(why)) => drop(refused.insert(change.node, why)),
            }
        }
        if let Some(ask) = asks {
            return Err(ask);
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok((changes, refused))
    }

    /// The logical path of a path in a Store, if the caller may restore it; otherwise the reason. If a person has to
    /// approve it first, that isn't a refusal: the error goes into `asks`, so that one request covers all paths.
    fn authorize_restore(
        &self,
        ground: &StoreGroup<'_>,
        path: &StorePath,
        asks: &mut Option<Error>,
    ) -> Result<VfsPath, String> {
        let Some(logical) = self.logical_path(ground, path) else {
            return Err("it is not in a Workspace that you may restore".to_owned());
        };
        match self.authorize(&logical, Access::Restore) {
            Ok(_) => Ok(logical),
            Err(ask @ Error::ApprovalRequired { .. }) => {
                asks.get_or_insert(ask);
                Ok(logical)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The refused nodes, by paths that the caller may see. A restore omits a node that never had such a path. An undo,
    /// which is about the caller's own operations, names the Workspace instead.
    fn refused_paths(&self, planned: &PlannedRevert<'_>) -> Vec<PathConflict> {
        let refused = planned.refused.iter();
        let named = refused.filter_map(|(&node, why)| self.path_conflict(&planned.revert, node, None, why));
        let withheld = (!planned.revert.withheld.is_empty()).then(|| withheld(&planned.revert));
        one_per_path(withheld.into_iter().chain(named))
    }

    /// The nodes in conflict with later changes, by paths that the caller may see.
    fn conflicting_paths(&self, planned: &PlannedRevert<'_>) -> Vec<PathConflict> {
        let named = planned.steps.conflicts.iter().filter_map(|NodeConflict { node, path, why }| {
            let path = StorePath::from_checked(path.clone());
            self.path_conflict(&planned.revert, *node, Some(&path), why)
        });
        one_per_path(named)
    }

    fn path_conflict(
        &self,
        part: &StoreRevert<'_>,
        node: NodeId,
        path: Option<&StorePath>,
        why: &str,
    ) -> Option<PathConflict> {
        let visible =
            path.into_iter().chain(part.paths_of(node)).find_map(|path| self.logical_path(&part.group, path));
        let path = match (visible, part.mode) {
            (Some(path), _) => path,
            (None, RevertMode::Exact) => return None,
            (None, RevertMode::Merge) => return Some(withheld(part)),
        };
        Some(PathConflict { path, why: why.to_owned() })
    }

    /// Applies a plan as one change, and returns the plan. If something has changed since it was planned, plans it
    /// again.
    ///
    /// `stays` has the operations of which something stays as it is, on any Store; a new plan adds to it. `elsewhere`
    /// has the operations of which something can be undone on another Store.
    fn apply_plan<'a>(
        &self,
        mut planned: PlannedRevert<'a>,
        operations: &[Operation],
        (stays, elsewhere): (&mut HashSet<OperationId>, HashSet<OperationId>),
        options: UndoOptions,
        stage: ChangeStage,
    ) -> Result<PlannedRevert<'a>> {
        for _ in 0..MAX_ATTEMPTS {
            let record = undo_record(operations, stays);
            let steps = std::mem::take(&mut planned.steps.steps);
            if steps.is_empty() && record.is_none() {
                return Ok(planned);
            }
            let (changes, returning) = (!steps.is_empty(), std::mem::take(&mut planned.steps.revive));
            let applied = self.apply_with(&**planned.revert.group.store, steps, stage, |change| {
                change.records.extend(record);
                change.revive = returning;
            });
            match applied {
                Err(cause) if is_race(&cause) => {}
                Err(cause) => return Err(planned.revert.group.store_error(cause)),
                Ok(_) => return Ok(PlannedRevert { applied: true, changed: changes, ..planned }),
            }
            let mut part = planned.revert;
            part.reload()?;
            if part.revisions.revisions.is_empty() {
                return Ok(PlannedRevert::empty(part));
            }
            planned = self.plan_with_retries(part)?;
            let is_undo = planned.revert.mode == RevertMode::Merge;
            if is_undo {
                report_kept_directories(operations, std::slice::from_mut(&mut planned), elsewhere.clone());
                stays.extend(planned.incomplete_operations());
            }
            let is_in_conflict =
                !planned.steps.conflicts.is_empty() || is_undo && !planned.incomplete_operations().is_empty();
            if is_in_conflict && options.on_conflict == OnConflict::Refuse {
                return Err(planned.revert.group.store_error(StoreError::Conflict));
            }
        }
        Err(planned.revert.group.store_error(StoreError::Conflict))
    }
}

/// The record of which of these operations are undone: all but those of which something stays as it is.
fn undo_record(operations: &[Operation], stays: &HashSet<OperationId>) -> Option<CompanionRecord> {
    let complete = operations.iter().map(|operation| operation.id).filter(|id| !stays.contains(id));
    let complete: Vec<OperationId> = complete.collect();
    (!complete.is_empty()).then_some(CompanionRecord::Undoes(complete))
}

/// The conflict for the part of an undo that lies outside what the caller may restore.
fn withheld(part: &StoreRevert<'_>) -> PathConflict {
    let why = "a part of the operation is not in a Workspace that you may restore".to_owned();
    PathConflict { path: part.group.workspaces[0].prefix().clone(), why }
}

/// One entry per path, sorted.
fn one_per_path(conflicts: impl Iterator<Item = PathConflict>) -> Vec<PathConflict> {
    let by_path: BTreeMap<VfsPath, String> = conflicts.map(|one| (one.path, one.why)).collect();
    by_path.into_iter().map(|(path, why)| PathConflict { path, why }).collect()
}

/// Whether a Store failed because something changed between planning and applying.
fn is_race(cause: &StoreError) -> bool {
    matches!(
        cause,
        StoreError::Conflict
            | StoreError::NotFound
            | StoreError::AlreadyExists
            | StoreError::NotEmpty
            | StoreError::NotADirectory
            | StoreError::IsADirectory
    )
}

/// The view of the live Store that planning uses.
struct LiveStoreView<'s>(&'s dyn Store);

impl StoreView for LiveStoreView<'_> {
    fn stat(&mut self, path: &StorePath) -> StoreResult<Option<Attr>> {
        match self.0.stat(&NodePath::from_root(path.clone())) {
            Ok(attr) => Ok(Some(attr)),
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Ok(None),
            // The directory is locked on the host. The plan may unlock it, and then its steps fail if something is
            // there: none of them overwrites it.
            Err(StoreError::HostDenied) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    fn child_names(&mut self, path: &StorePath) -> StoreResult<Vec<Vec<u8>>> {
        let listing = match self.0.list(&NodePath::from_root(path.clone()), &Page::ALL) {
            // Locked as well. The step that removes the directory fails if it isn't empty.
            Err(StoreError::HostDenied) => return Ok(Vec::new()),
            listing => listing?,
        };
        Ok(listing.entries.into_iter().map(|entry| entry.name.as_bytes().to_vec()).collect())
    }

    fn read(&mut self, past: &ContentRef) -> StoreResult<Vec<u8>> {
        read_content(self.0, past)
    }
}
