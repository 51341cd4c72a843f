//! Plans and applies an undo or a restore: one plan per Store, all of them checked before the first change is applied.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::history::{
    NodeConflict, RevertAction, RevertChange, RevertMode, RevertPlan, RevertSteps, StoreView, order_steps,
    plan_revert,
};
use crate::identity::{Operation, OperationId};
use crate::monitor::check_not_stopped;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::search::WalkOptions;
use crate::store::{
    Attr, CompanionRecord, ContentRef, NodeChange, NodeId, NodeKind, NodePath, Page, ProtectedNames,
    ReturningRows, Revision, RevisionNumber, RevisionQuery, RevisionSet, Side, Step, Store, StoreError,
    StorePath, StoreResult,
};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::hiding::hidden_stay_untouched;
use crate::vfs::history::undo::{
    IncompleteUndo, OnConflict, PathChange, PathConflict, RevertResult, UndoOptions, report_kept_directories,
};
use crate::vfs::history::{StoreGroup, read_content};
use crate::vfs::state::is_state_directory;
use crate::vfs::write::same_store;
use crate::workspace::Workspace;

/// How often a plan is made again because something changed in the meantime.
const MAX_ATTEMPTS: usize = 8;
/// How many operations a query names by id. With more, it names the range of revisions instead.
const MAX_OPERATIONS_BY_ID: usize = 1_000;

/// Why the caller may not change a path that it can't see.
pub(super) const NOT_SHOWN: &str = "it is not in this Workspace, or has a hidden name";

/// What an undo or a restore reverts on one Store.
pub(super) struct StoreRevert<'a> {
    pub(super) group: StoreGroup<'a>,
    pub(super) revisions: RevisionSet,
    pub(super) mode: RevertMode,
    pub(super) source: RevertSource,
    /// The operations that touched something which the caller may not restore.
    pub(super) withheld: BTreeSet<OperationId>,
    /// One of the paths that they touched there which the caller may still read.
    pub(super) withheld_path: Option<VfsPath>,
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
    /// Whether what no Workspace shows is reverted too, without a word. The Store of a fork is nobody else's, and there only a merge
    /// or an update has such changes: they came along from the Store that the fork was made from.
    fn reverts_unseen(&self) -> bool {
        let is_fork = |workspace: &&Workspace| workspace.fork_origin().is_some();
        self.mode == RevertMode::Merge && self.group.workspaces.iter().all(is_fork)
    }

    /// The rows of manifests that come back with the files. `operations` has the operations that are undone.
    fn returning_rows(&self, operations: &[Operation]) -> ReturningRows {
        match &self.source {
            RevertSource::Revisions => {
                ReturningRows::EndedBy(operations.iter().map(|operation| operation.id).collect())
            }
            RevertSource::Since(revision, _) => ReturningRows::AsOf(*revision),
        }
    }

    /// The revision to which this restores files of a fork.
    fn restored_fork(&self) -> Option<RevisionNumber> {
        let is_fork = || self.group.store.require_forks().is_ok_and(|forks| forks.target().is_ok());
        match (self.mode, &self.source) {
            (RevertMode::Exact, RevertSource::Since(revision, _)) => Some(*revision).filter(|_| is_fork()),
            _ => None,
        }
    }

    /// Queries the same revisions again, with the current state of their nodes.
    fn reload(&mut self, call: &Call<'_>) -> Result<()> {
        let revisions = match &self.source {
            RevertSource::Since(revision, paths) => {
                call.revisions_since(&self.group, *revision, paths).and_then(|since| {
                    // A directory was moved after this was planned.
                    if since.has_moved_root() { Err(StoreError::Conflict) } else { Ok(since.revisions) }
                })
            }
            RevertSource::Revisions => self.reload_revisions(),
        };
        self.revisions = match revisions {
            Err(cause) if is_race(&cause) => return Err(self.group.store_error(StoreError::Conflict)),
            revisions => revisions.map_err(|cause| self.group.store_error(cause))?,
        };
        // Another caller has undone one of them in the meantime; it must not be undone twice.
        if self.mode == RevertMode::Merge && self.revisions.revisions.iter().any(|revision| revision.undone) {
            return Err(self.group.store_error(StoreError::Conflict));
        }
        Ok(())
    }

    /// Queries exactly these revisions again, with as few others as possible.
    fn reload_revisions(&self) -> StoreResult<RevisionSet> {
        let numbers: HashSet<RevisionNumber> =
            self.revisions.revisions.iter().map(|revision| revision.number).collect();
        let (Some(first), Some(last)) = (numbers.iter().min(), numbers.iter().max()) else {
            return Ok(RevisionSet::default());
        };
        let operations: HashSet<OperationId> =
            self.revisions.revisions.iter().map(|revision| revision.operation.id).collect();
        let is_few = operations.len() <= MAX_OPERATIONS_BY_ID;
        let mut revisions = self.group.store.require_history()?.revisions(&RevisionQuery {
            operations: is_few.then(|| operations.into_iter().collect()),
            ..RevisionQuery::between(RevisionNumber(first.0 - 1), *last)
        })?;
        revisions.revisions.retain(|revision| numbers.contains(&revision.number));
        Ok(revisions)
    }

    /// Whether an operation made changes that the caller may see; those that it may not see have been dropped.
    fn has_visible_changes(&self, operation: OperationId) -> bool {
        let mut revisions = self.revisions.revisions.iter();
        revisions.any(|revision| revision.operation.id == operation && !revision.changes.is_empty())
    }

    /// The paths of a node in the Store, newest first: the current one, then the former ones.
    fn paths_of(&self, node: NodeId) -> impl Iterator<Item = &StorePath> {
        let current = self.revisions.current.get(&node).map(|current| &current.path);
        let changes = self
            .revisions
            .revisions
            .iter()
            .flat_map(|revision| &revision.changes)
            .filter(move |change| change.node == node);
        let former =
            changes.flat_map(|change| [&change.after, &change.before]).flatten().map(|state| &state.path);
        current.into_iter().chain(former)
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
        let is_left_as_is = |node: &NodeId| {
            self.refused.contains_key(node)
                || self.steps.conflicts.iter().any(|conflict| conflict.node == *node)
        };
        let withheld = self.revert.withheld.iter().copied();
        if self.refused.is_empty() && self.steps.conflicts.is_empty() {
            return withheld.collect();
        }
        let touches =
            |revision: &&Revision| revision.changes.iter().any(|change| is_left_as_is(&change.node));
        let touching =
            self.revert.revisions.revisions.iter().filter(touches).map(|revision| revision.operation.id);
        withheld.chain(touching).collect()
    }
}

impl Call<'_> {
    /// Applies the plans with one change per Store, unless it is a dry run or conflicts forbid it.
    pub(super) fn execute_reverts(
        &self,
        planned: Vec<PlannedRevert<'_>>,
        summary: RevertSummary,
        options: UndoOptions,
    ) -> Result<RevertResult> {
        let mut result = self.describe_reverts(&planned, &summary);
        result.not_kept = planned.iter().flat_map(|plan| self.not_kept(plan)).collect();
        let operations = summary.undone.as_deref();
        if operations.is_some_and(<[Operation]>::is_empty) && result.conflicts.is_empty() {
            return Ok(result);
        }
        if self.vfs.approval.is_strict() && result.changes.is_empty() {
            // The Stores record the undo even if no file changes. So in strict mode a person has to have approved the
            // Workspaces themselves.
            for workspace in planned.iter().flat_map(|plan| &plan.revert.group.workspaces) {
                self.authorize_logged(workspace.prefix(), Access::Restore)?;
            }
        }
        let refused = !result.conflicts.is_empty() && options.on_conflict == OnConflict::Refuse;
        let conflict_paths = result.conflicts.iter().map(|conflict| conflict.path.clone());
        self.set_paths(
            result.changes.iter().map(|change| change.path.clone()).chain(conflict_paths).collect(),
        );
        if refused {
            self.set_refused(ErrorKind::Conflict);
        }
        if options.dry_run || refused {
            return Ok(result);
        }
        // Something may change meanwhile, so the answer is about the plans that were applied in the end.
        let applied = self.apply_plans(planned, operations.unwrap_or_default(), options)?;
        let mut result =
            RevertResult { not_kept: result.not_kept, ..self.describe_reverts(&applied, &summary) };
        if applied.iter().any(|plan| plan.changed) {
            result.operation = Some(self.operation());
        }
        for change in &result.changes {
            self.shared().read_set.forget(&change.path);
        }
        result.done = true;
        Ok(result)
    }

    /// The files whose present content a plan removes or replaces and the Store doesn't keep.
    fn not_kept(&self, planned: &PlannedRevert<'_>) -> Vec<VfsPath> {
        let group = &planned.revert.group;
        let Ok(history) = group.store.require_history() else { return Vec::new() };
        if history.retains_file(u64::MAX) {
            return Vec::new();
        }
        let is_lost = |change: &&RevertChange| {
            let loses = matches!(
                change.action,
                RevertAction::Removed | RevertAction::Reverted | RevertAction::Merged
            );
            let size = || group.store.stat(&NodePath::from_root(change.path.clone()));
            loses && size().is_ok_and(|attr| attr.kind == NodeKind::File && !history.retains_file(attr.size))
        };
        let lost = planned.steps.changes.iter().filter(is_lost);
        lost.filter_map(|change| self.logical_path(group, &change.path)).collect()
    }

    /// What these plans do, and what they leave as it is.
    fn describe_reverts(&self, planned: &[PlannedRevert<'_>], summary: &RevertSummary) -> RevertResult {
        let mut result = RevertResult {
            operation: None,
            undone: Vec::new(),
            incomplete: Vec::new(),
            changes: Vec::new(),
            conflicts: Vec::new(),
            left_out: summary.left_out.clone(),
            not_kept: Vec::new(),
            done: false,
        };
        for plan in planned {
            result.changes.extend(plan.changes.iter().cloned());
            let refused = self.refused_paths(plan);
            if summary.undone.is_none() {
                result.left_out.extend(refused)
            } else {
                result.conflicts.extend(refused)
            }
            result.conflicts.extend(self.conflicting_paths(plan));
        }
        let incomplete: HashSet<OperationId> =
            planned.iter().flat_map(PlannedRevert::incomplete_operations).collect();
        for operation in summary.undone.iter().flatten().cloned() {
            if incomplete.contains(&operation.id) {
                // The log doesn't show an operation of which the caller may not see anything. One conflict stands for all.
                if !planned.iter().any(|plan| plan.revert.has_visible_changes(operation.id)) {
                    continue;
                }
                let is_partial =
                    planned.iter().any(|plan| plan.steps.effective_operations.contains(&operation.id));
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
        let mut incomplete: HashSet<OperationId> =
            planned.iter().flat_map(PlannedRevert::incomplete_operations).collect();
        let effective: Vec<_> = planned.iter().map(|plan| plan.steps.effective_operations.clone()).collect();
        // A change without steps is needed too, to record what was undone.
        let records = undo_record(operations, &incomplete).is_some();
        let last = planned.iter().rposition(|plan| !plan.steps.steps.is_empty() || records);
        let (mut applied, mut done) = (Vec::with_capacity(planned.len()), None);
        for (index, plan) in planned.into_iter().enumerate() {
            let prefix = plan.revert.group.workspaces[0].prefix().clone();
            let stage = if Some(index) == last { ChangeStage::Final } else { ChangeStage::Intermediate };
            let elsewhere = effective.iter().enumerate().filter(|(other, _)| *other != index);
            let elsewhere = elsewhere.flat_map(|(_, operations)| operations).copied().collect();
            match (self.apply_plan(plan, operations, (&mut incomplete, elsewhere), options, stage), &done) {
                (Err(cause), Some(done)) => {
                    let (done, cause) = (VfsPath::clone(done), Box::new(cause));
                    return Err(Error::PartiallyApplied { done, left: prefix, cause });
                }
                (plan, _) => {
                    let plan = plan?;
                    if plan.applied {
                        done = done.or(Some(prefix));
                    }
                    applied.push(plan);
                }
            }
        }
        Ok(applied)
    }

    /// Plans the revert of one Store, and plans it again if what the plan looked at has changed.
    pub(super) fn plan_with_retries<'a>(&self, mut revert: StoreRevert<'a>) -> Result<PlannedRevert<'a>> {
        for _ in 0..MAX_ATTEMPTS {
            check_not_stopped(self.cancellation_monitor().as_ref())
                .map_err(|cause| revert.group.store_error(cause))?;
            self.drop_invisible_nodes(&mut revert);
            match self.plan_once(&revert) {
                Err(Error::Store { cause, .. }) if is_race(&cause) => revert.reload(self)?,
                Err(error) => return Err(error),
                Ok((steps, changes, refused)) => {
                    return Ok(PlannedRevert { steps, changes, refused, ..PlannedRevert::empty(revert) });
                }
            }
        }
        Err(revert.group.store_error(StoreError::Conflict))
    }

    /// Treats nodes outside the Workspaces that the caller may restore as gone, so that the answer doesn't depend on
    /// what other agents do to them there. Leaves out the directories that an operation made on the way to a Workspace: they stay.
    fn drop_invisible_nodes(&self, revert: &mut StoreRevert<'_>) {
        let reverts_unseen = revert.reverts_unseen();
        let StoreRevert { group, revisions, mode, withheld, withheld_path, .. } = revert;
        let mut readable = None;
        let is_visible = |path: &StorePath| reverts_unseen || self.logical_path(group, path).is_some();
        revisions.current.retain(|_, current| is_visible(&current.path));
        if *mode == RevertMode::Exact {
            return;
        }
        if !reverts_unseen {
            for revision in &mut revisions.revisions {
                revision.changes.retain(|change| !self.leads_to_workspace(group, change));
            }
        }
        // Nor may it depend on what an operation did there, or how much: that is one conflict for the whole Store.
        for revision in &mut revisions.revisions {
            let states = |change: &NodeChange| {
                [&change.before, &change.after].map(|state| Some(is_visible(&state.as_ref()?.path)))
            };
            let is_target_visible = revision.blind_at.as_ref().map(&is_visible);
            if is_target_visible == Some(false)
                || revision.changes.iter().flat_map(states).any(|visible| visible == Some(false))
            {
                withheld.insert(revision.operation.id);
                let readable = readable.get_or_insert_with(|| self.readable_group(group.store));
                let states = revision.changes.iter().flat_map(|change| [&change.after, &change.before]);
                let paths = states.flatten().map(|state| &state.path).filter(|path| !is_visible(path));
                if let (None, Some(readable)) = (&withheld_path, readable) {
                    let shown = paths.filter_map(|path| self.logical_path(readable, path));
                    *withheld_path = shown.max_by_key(VfsPath::depth);
                }
            }
            revision.changes.retain(|change| states(change).contains(&Some(true)));
        }
    }

    /// Whether a change made the directory of a Workspace or one above it, and no Workspace shows that directory as a part of itself.
    /// The first change in a Workspace makes such directories if they are missing.
    fn leads_to_workspace(&self, group: &StoreGroup<'_>, change: &NodeChange) -> bool {
        let (None, Some(made)) = (&change.before, &change.after) else { return false };
        let mut mounts = group.workspaces.iter().map(|workspace| workspace.mount().path());
        if made.kind != NodeKind::Directory || !mounts.any(|mount| mount.is_at_or_below(&made.path)) {
            return false;
        }
        let is_other = |workspace: &&Workspace| *workspace.mount().path() != made.path;
        let workspaces = group.workspaces.iter().copied().filter(is_other).collect();
        self.logical_path(&StoreGroup { store: group.store, workspaces }, &made.path).is_none()
    }

    /// The steps of a revert, their changes in logical paths, and the nodes that the plan leaves out because the caller
    /// may not change them.
    fn plan_once(
        &self,
        revert: &StoreRevert<'_>,
    ) -> Result<(RevertSteps, Vec<PathChange>, BTreeMap<NodeId, String>)> {
        let StoreRevert { group, revisions, mode, .. } = revert;
        let store = &**group.store;
        let failed = |cause| group.store_error(cause);
        // A merge holds three sides and a result, so four times the size of the first content is reserved, once. Later
        // contents are mostly no larger.
        let mut memory = None;
        let mut read = |content: &ContentRef| {
            check_not_stopped(self.cancellation_monitor().as_ref())?;
            if memory.is_none() {
                memory = Some(self.reserve(content.size().saturating_mul(4))?);
            }
            read_content(store, content)
        };
        let mut plan = plan_revert(revisions, *mode, &mut read).map_err(failed)?;
        let mut refused = self.unauthorized_nodes(revert, &plan)?;
        loop {
            for node in refused.keys() {
                plan.targets.remove(node);
                plan.operations_by_node.remove(node);
            }
            plan.conflicts.retain(|conflict| !refused.contains_key(&conflict.node));
            // The directory that a Workspace shows may not exist yet.
            let is_directory = |path: &&StorePath| {
                let stat = store.stat(&NodePath::from_root((*path).clone()));
                stat.is_ok_and(|attr| attr.kind == NodeKind::Directory)
            };
            let mut mount_paths = group.workspaces.iter().map(|workspace| workspace.mount().path());
            let temp_directory =
                mount_paths.find(is_directory).unwrap_or_else(|| group.workspaces[0].mount().path());
            let mut steps =
                order_steps(plan.clone(), &revisions.current, temp_directory, &mut LiveStoreView(store))
                    .map_err(failed)?;
            let (changes, mut newly_refused) = self.authorize_changes(group, &steps)?;
            if revert.reverts_unseen() {
                let is_seen = |path: &StorePath| self.logical_path(group, path).is_some();
                let is_allowed = |path: &StorePath| self.authorize_restore(group, path, &mut None).is_ok();
                let comes_along = |node: &NodeId| {
                    let changes = steps.changes.iter().filter(|change| change.node == *node);
                    let paths = changes.flat_map(|change| [Some(&change.path), change.from.as_ref()]);
                    let (seen, unseen): (Vec<_>, Vec<_>) = paths.flatten().partition(|path| is_seen(path));
                    !unseen.is_empty() && seen.into_iter().all(is_allowed)
                };
                newly_refused.retain(|node, _| !comes_along(node));
            }
            if newly_refused.is_empty() {
                self.guard_subtrees(group, &mut steps);
                return Ok((steps, changes, refused));
            }
            refused.extend(newly_refused);
        }
    }

    /// The nodes that the caller may not change, judged by the paths that the operations touched and by the current
    /// path if the caller may see it. So the answer doesn't reveal what has become of a file where the caller may not
    /// look.
    fn unauthorized_nodes(
        &self,
        revert: &StoreRevert<'_>,
        plan: &RevertPlan,
    ) -> Result<BTreeMap<NodeId, String>> {
        let (mut refused, mut approval_error) = (BTreeMap::new(), None);
        let reverts_unseen = revert.reverts_unseen();
        let mut refuse = |node: NodeId, path: &StorePath| {
            if reverts_unseen && self.logical_path(&revert.group, path).is_none() {
                return;
            }
            if let Err(reason) = self.authorize_restore(&revert.group, path, &mut approval_error) {
                refused.entry(node).or_insert(reason);
            }
        };
        // Revisions come newest first, so the last state inserted is the one that a restore goes back to.
        let mut restored = BTreeMap::new();
        for change in revert.revisions.revisions.iter().flat_map(|revision| &revision.changes) {
            match revert.mode {
                RevertMode::Merge => {
                    if let Some(touched) = change.after.as_ref().or(change.before.as_ref()) {
                        refuse(change.node, &touched.path);
                    }
                }
                RevertMode::Exact => drop(restored.insert(change.node, change.before.as_ref())),
            }
        }
        for (node, before) in restored {
            if let (Some(before), true) = (before, plan.targets.contains_key(&node)) {
                refuse(node, &before.path);
            }
        }
        for &node in plan.targets.keys() {
            if let Some(current) = revert.revisions.current.get(&node) {
                refuse(node, &current.path);
            }
        }
        approval_error.map_or(Ok(refused), Err)
    }

    /// The changes in logical paths, and the nodes that the caller may not change, with the reason.
    pub(super) fn authorize_changes(
        &self,
        group: &StoreGroup<'_>,
        steps: &RevertSteps,
    ) -> Result<(Vec<PathChange>, BTreeMap<NodeId, String>)> {
        let (mut changes, mut refused) = (Vec::with_capacity(steps.changes.len()), BTreeMap::new());
        let mut approval_error = None;
        for change in &steps.changes {
            let is_made = |step: &Step| matches!(step, Step::Mkdir { at, .. } if at.path == change.path);
            if self.is_above_a_mount(group, &change.path) && steps.steps.iter().any(is_made) {
                continue;
            }
            let path = self.authorize_restore(group, &change.path, &mut approval_error);
            let from = change
                .from
                .as_ref()
                .map(|from| self.authorize_restore(group, from, &mut approval_error))
                .transpose();
            match (path, from, self.check_moved_subtree(group, change)) {
                // The directories of the State are no keys.
                (Ok(path), Ok(_), Ok(())) if is_state_directory(&path) => {}
                (Ok(path), Ok(from), Ok(())) => {
                    changes.push(PathChange { path, from, action: change.action });
                }
                (Err(reason), ..) | (_, Err(reason), _) | (.., Err(reason)) => {
                    refused.insert(change.node, reason);
                }
            }
        }
        if let Some(error) = approval_error {
            return Err(error);
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok((changes, refused))
    }

    /// Refuses to move or remove a directory along with hidden or protected names, as a move and a removal do.
    fn check_moved_subtree(&self, group: &StoreGroup<'_>, change: &RevertChange) -> Result<(), String> {
        let (source, target) = match (change.action, &change.from) {
            (_, Some(from)) => (from, Some(&change.path)),
            (RevertAction::Removed, None) => (&change.path, None),
            _ => return Ok(()),
        };
        let at = NodePath::from_root(source.clone());
        if !group.store.stat(&at).is_ok_and(|attr| attr.kind == NodeKind::Directory) {
            return Ok(());
        }
        let leaving = self.untouchable_names(group, source, Side::From);
        let arriving = target.and_then(|target| self.untouchable_names(group, target, Side::To));
        let checks: Vec<_> = leaving.into_iter().chain(arriving).collect();
        if checks.is_empty() {
            return Ok(());
        }
        let mut outcome = Ok(());
        // What this walk can't read is checked by the Store, when the step is made.
        let _ = group.store.walk(&at, &WalkOptions::default(), &mut |entry| {
            let (path, kind) = (entry.path.as_bytes(), entry.attr.kind);
            outcome = checks.iter().try_for_each(|names| names.check(path, kind));
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        match outcome {
            Ok(()) => Ok(()),
            Err(StoreError::Protected { .. }) => {
                Err("it contains names that agents may not change".to_owned())
            }
            Err(_) => {
                Err("it contains names that are hidden from agents, here or where it would go".to_owned())
            }
        }
    }

    /// The names that a step on the subtree at a path in the Store must not touch; `None` if there are none, or no
    /// Workspace shows the path.
    fn untouchable_names(
        &self,
        group: &StoreGroup<'_>,
        path: &StorePath,
        side: Side,
    ) -> Option<ProtectedNames> {
        // Nothing in the State is protected or hidden.
        let logical = self.logical_path(group, path).filter(|logical| !logical.is_state())?;
        let resolved = self.authorize(&logical, Access::Restore).ok()?;
        resolved.protected_names(side, hidden_stay_untouched([&resolved]))
    }

    /// Makes the steps fail if hidden or protected names have come into what they move or remove since it was checked.
    pub(super) fn guard_subtrees(&self, group: &StoreGroup<'_>, steps: &mut RevertSteps) {
        let names = |at: &NodePath, side| self.untouchable_names(group, &at.path, side);
        for step in &mut steps.steps {
            match step {
                Step::Rename { from, to, protected, .. } => {
                    *protected = [names(from, Side::From), names(to, Side::To)];
                }
                Step::Remove { at, protected, .. } => *protected = names(at, Side::From),
                _ => {}
            }
        }
    }

    /// The logical path of a path in a Store, if the caller may restore it; otherwise the reason. If a person has to
    /// approve it first, that isn't a refusal: the error goes into `approval_error`, so that one request covers all
    /// paths.
    pub(super) fn authorize_restore(
        &self,
        group: &StoreGroup<'_>,
        path: &StorePath,
        approval_error: &mut Option<Error>,
    ) -> Result<VfsPath, String> {
        let Some(logical) = self.logical_path(group, path) else {
            return Err(NOT_SHOWN.to_owned());
        };
        match self.authorize_logged(&logical, Access::Restore) {
            Ok(()) => Ok(logical),
            Err(error @ Error::ApprovalRequired { .. }) => {
                approval_error.get_or_insert(error);
                Ok(logical)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The refused nodes, by paths that the caller may see. A restore omits a node that never had such a path. An undo,
    /// which is about the caller's own operations, names the Workspace instead.
    fn refused_paths(&self, planned: &PlannedRevert<'_>) -> Vec<PathConflict> {
        let refused = planned.refused.iter();
        let conflicts =
            refused.filter_map(|(&node, reason)| self.path_conflict(&planned.revert, node, None, reason));
        let withheld = (!planned.revert.withheld.is_empty()).then(|| withheld_conflict(&planned.revert));
        dedup_by_path(withheld.into_iter().chain(conflicts))
    }

    /// The nodes in conflict with later changes, by paths that the caller may see.
    fn conflicting_paths(&self, planned: &PlannedRevert<'_>) -> Vec<PathConflict> {
        let conflicts = planned.steps.conflicts.iter().filter_map(|NodeConflict { node, path, why }| {
            let path = path.clone().map(StorePath::from_checked);
            self.path_conflict(&planned.revert, *node, path.as_ref(), why)
        });
        dedup_by_path(conflicts)
    }

    /// The Workspaces of a Store whose history the caller may read.
    fn readable_group<'c>(&'c self, store: &Arc<dyn Store>) -> Option<StoreGroup<'c>> {
        let mut groups = self.store_groups(Access::History).into_iter();
        groups.find(|group| same_store(&**group.store, &**store))
    }

    fn path_conflict(
        &self,
        revert: &StoreRevert<'_>,
        node: NodeId,
        path: Option<&StorePath>,
        reason: &str,
    ) -> Option<PathConflict> {
        let visible = path
            .into_iter()
            .chain(revert.paths_of(node))
            .find_map(|path| self.logical_path(&revert.group, path));
        let path = match (visible, revert.mode) {
            (Some(path), _) => path,
            (None, RevertMode::Exact) => return None,
            (None, RevertMode::Merge) => return Some(withheld_conflict(revert)),
        };
        Some(PathConflict { path, why: reason.to_owned() })
    }

    /// Applies a plan as one change, and returns the plan. If something has changed since it was planned, plans it
    /// again.
    ///
    /// `incomplete` has the operations of which something stays as it is, on any Store; a new plan adds to it.
    /// `elsewhere` has the operations of which something can be undone on another Store.
    fn apply_plan<'a>(
        &self,
        mut planned: PlannedRevert<'a>,
        operations: &[Operation],
        (incomplete, elsewhere): (&mut HashSet<OperationId>, HashSet<OperationId>),
        options: UndoOptions,
        stage: ChangeStage,
    ) -> Result<PlannedRevert<'a>> {
        for _ in 0..MAX_ATTEMPTS {
            let record = undo_record(operations, incomplete);
            let steps = std::mem::take(&mut planned.steps.steps);
            if steps.is_empty() && record.is_none() {
                return Ok(planned);
            }
            let (changed, revive) = (!steps.is_empty(), std::mem::take(&mut planned.steps.revive));
            let returning = changed.then(|| planned.revert.returning_rows(operations));
            let restored_fork = planned.revert.restored_fork().map(CompanionRecord::RestoresFork);
            let applied = self.apply_with(&**planned.revert.group.store, steps, stage, |change| {
                change.records.extend(record);
                change.records.extend(returning.map(CompanionRecord::Returning));
                change.records.extend(restored_fork);
                change.revive = revive;
            });
            match applied {
                Err(cause) if is_race(&cause) => {}
                Err(cause) => return Err(planned.revert.group.store_error(cause)),
                Ok(_) => return Ok(PlannedRevert { applied: true, changed, ..planned }),
            }
            let mut revert = planned.revert;
            revert.reload(self)?;
            if revert.revisions.revisions.is_empty() {
                return Ok(PlannedRevert::empty(revert));
            }
            planned = self.plan_with_retries(revert)?;
            let is_undo = planned.revert.mode == RevertMode::Merge;
            if is_undo {
                report_kept_directories(operations, std::slice::from_mut(&mut planned), elsewhere.clone());
                incomplete.extend(planned.incomplete_operations());
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
fn undo_record(operations: &[Operation], incomplete: &HashSet<OperationId>) -> Option<CompanionRecord> {
    let complete = operations.iter().map(|operation| operation.id).filter(|id| !incomplete.contains(id));
    let complete: Vec<OperationId> = complete.collect();
    (!complete.is_empty()).then_some(CompanionRecord::Undoes(complete))
}

/// The conflict for the part of an undo that lies outside what the caller may restore. It names a path that the caller may still
/// read, or else the directory above all Workspaces.
fn withheld_conflict(revert: &StoreRevert<'_>) -> PathConflict {
    let why = match &revert.withheld_path {
        Some(_) => "it is not in a Workspace that you may change",
        None => "a part of the operation is not in a Workspace that you may change, or has a hidden name",
    };
    let path = revert.withheld_path.clone().unwrap_or_else(VfsPath::root);
    PathConflict { path, why: why.to_owned() }
}

/// One entry per path, sorted.
fn dedup_by_path(conflicts: impl Iterator<Item = PathConflict>) -> Vec<PathConflict> {
    let by_path: BTreeMap<VfsPath, String> =
        conflicts.map(|conflict| (conflict.path, conflict.why)).collect();
    by_path.into_iter().map(|(path, why)| PathConflict { path, why }).collect()
}

/// Whether a Store failed because something changed between planning and applying.
pub(super) fn is_race(cause: &StoreError) -> bool {
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
pub(super) struct LiveStoreView<'s>(pub(super) &'s dyn Store);

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

    fn read(&mut self, content: &ContentRef) -> StoreResult<Vec<u8>> {
        read_content(self.0, content)
    }
}
