//! Makes a merge or an update: plans it, checks the caller's rights, and applies it. If something has changed meanwhile, it is
//! planned again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::error::{ErrorKind, Result};
use crate::history::text_merge::{MergeLabels, has_markers};
use crate::history::tree_merge::{TreeConflict, TreeConflictKind, TreeMergePlan, plan_merge};
use crate::history::{RevertPlan, RevertSteps};
use crate::monitor::check_not_stopped;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    CompanionRecord, CurrentNode, ForkSides, NewForkSync, NodeId, RevisionNumber, SidesQuery, Store,
    StoreError, StorePath, StoreResult,
};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::history::execute::is_race;
use crate::vfs::history::merge::choices::RuleChoices;
use crate::vfs::history::merge::describe::MergeConflictKind;
use crate::vfs::history::merge::plan::{
    Direction, SideView, expected_directories, free_paths, node_sides, nodes_by_path, order, side_changes,
};
use crate::vfs::history::merge::records::{CommittedMerge, last_merge, merge_records};
use crate::vfs::history::merge::{ForkHandle, MergeChange, MergeOptions, MergeResult, authors, store_error};
use crate::vfs::history::undo::PathConflict;
use crate::vfs::history::{StoreGroup, read_content};

/// How often a merge is planned again because something changed in the meantime.
const MAX_ATTEMPTS: usize = 8;

/// A planned merge: what happens to nodes, and what the caller's rules decided.
struct Planned {
    plan: TreeMergePlan,
    /// For an update: the conflicts that it reports although it goes on.
    reported: Vec<TreeConflict>,
    /// Whether rules decided conflicts.
    has_decided: bool,
}

impl Call<'_> {
    pub(super) fn merge_fork(
        &self,
        prefix: &VfsPath,
        fork: ForkHandle<'_>,
        options: &MergeOptions,
    ) -> Result<MergeResult> {
        self.set_dry_run(options.dry_run);
        let group = self.merge_group(prefix, Access::Restore)?;
        for _ in 0..MAX_ATTEMPTS {
            match self.merge_once(prefix, &group, fork, options)? {
                Some(result) => return Ok(result),
                None => check_not_stopped(self.cancellation_monitor().as_ref())
                    .map_err(|cause| store_error(prefix, cause))?,
            }
        }
        Err(store_error(prefix, StoreError::Conflict))
    }

    /// One attempt to merge; `None` if something has changed since it was planned.
    fn merge_once(
        &self,
        prefix: &VfsPath,
        group: &StoreGroup<'_>,
        fork: ForkHandle<'_>,
        options: &MergeOptions,
    ) -> Result<Option<MergeResult>> {
        let failed = |cause| store_error(prefix, cause);
        let target = &**group.store;
        if !options.dry_run {
            self.finish_merge(target, fork).map_err(failed)?;
        }
        let sides = self.fork_sides(fork, SidesQuery::SinceSync).map_err(failed)?;
        check_target(&sides, target).map_err(failed)?;
        let mut result = MergeResult::default();
        let top = group.workspaces[0].mount().path();
        let unresolved = self.unresolved_markers(&sides, target).map_err(failed)?;
        let planned = self.plan_sides(&sides, Direction::IntoTarget, target, top, options).map_err(failed)?;
        for conflict in &planned.plan.conflicts {
            let described = self.describe_conflict(group, conflict, Direction::IntoTarget, options);
            result.conflicts.push(described.map_err(failed)?);
        }
        for conflict in &unresolved {
            let kind = MergeConflictKind::Unresolved;
            let described = self.describe_sides(group, conflict, kind, Direction::IntoTarget, options);
            result.conflicts.push(described.map_err(failed)?);
        }
        let left_out = planned.plan.left_out.clone();
        result.left_out = self.left_out_paths(group, &sides, &left_out);
        let free = free_paths(&sides, Direction::IntoTarget);
        let mut steps =
            order(group, revert_plan(planned.plan.targets), &sides.in_target, free).map_err(failed)?;
        for conflict in &steps.conflicts {
            let sides = node_sides(&sides, Direction::IntoTarget).remove(&conflict.node).unwrap_or_default();
            let (node, kind, related) = (conflict.node, TreeConflictKind::NameTaken, Vec::new());
            let conflict = TreeConflict { node, kind, sides, related, aliases: Vec::new() };
            let described = self.describe_conflict(group, &conflict, Direction::IntoTarget, options);
            result.conflicts.push(described.map_err(failed)?);
        }
        result.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        let (changes, refused) = self.authorize_changes(group, &steps)?;
        result.changes = changes
            .into_iter()
            .map(|change| MergeChange { path: change.path, from: change.from, action: change.action.into() })
            .collect();
        result.refused = self.refused_merge_paths(group, &steps, &sides, refused);
        if !result.refused.is_empty() {
            self.set_refused(ErrorKind::Denied);
        } else if !result.conflicts.is_empty() {
            self.set_refused(ErrorKind::Conflict);
        }
        if options.dry_run || !result.refused.is_empty() || !result.conflicts.is_empty() {
            return Ok(Some(result));
        }
        let has_fork_changes = !side_changes(&sides, &sides.in_fork, &left_out).is_empty();
        if steps.steps.is_empty() && !planned.has_decided && !has_fork_changes {
            result.done = true;
            return Ok(Some(result));
        }
        self.guard_subtrees(group, &mut steps);
        let operation = self.operation();
        let committed = if steps.steps.is_empty() {
            // The target has all of it already, or the rules leave it as it is: only the fork's base changes.
            let (fork_revision, target_revision) = (sides.revision, sides.target_revision);
            CommittedMerge { operation, fork_revision, target_revision, left_out }
        } else {
            let own_ids = sides.target_ids.as_ref();
            let expected = expected_directories(&steps, &sides.in_target, own_ids);
            let mut records = merge_records(fork.fork, fork.store.id(), operation, sides.revision, &left_out)
                .map_err(failed)?;
            records.extend(
                authors::line_author_records(self, &steps, fork.store, own_ids.is_some()).map_err(failed)?,
            );
            // A Store with ids of its own gives what is new an id of its own.
            let revive = if own_ids.is_some() { BTreeMap::new() } else { std::mem::take(&mut steps.revive) };
            let steps = std::mem::take(&mut steps.steps);
            let applied = self.apply_with(target, steps, ChangeStage::Intermediate, |change| {
                change.records.extend(records);
                change.revive = revive;
                change.expect_nodes.extend(expected);
            });
            let applied = match applied {
                Err(cause) if is_race(&cause) => return Ok(None),
                applied => applied.map_err(failed)?,
            };
            result.operation = Some(operation);
            for change in &result.changes {
                self.shared().read_set.forget(&change.path);
            }
            let Some(target_revision) = applied.revision else {
                result.done = true;
                return Ok(Some(result));
            };
            CommittedMerge { operation, fork_revision: sides.revision, target_revision, left_out }
        };
        // The merge is made. If the fork can't take in the result now, its next merge, update or diff does it.
        let _ = self.take_in_merge(target, fork, &committed);
        result.done = true;
        Ok(Some(result))
    }

    pub(super) fn update_fork(
        &self,
        prefix: &VfsPath,
        fork: ForkHandle<'_>,
        options: &MergeOptions,
    ) -> Result<MergeResult> {
        self.set_dry_run(options.dry_run);
        let group = self.merge_group(prefix, Access::Restore)?;
        let failed = |cause| store_error(prefix, cause);
        // Says so if the fork can only be compared with its base.
        fork.store.require_forks().and_then(|forks| forks.target()).map_err(failed)?;
        for _ in 0..MAX_ATTEMPTS {
            check_not_stopped(self.cancellation_monitor().as_ref()).map_err(failed)?;
            if !options.dry_run {
                // An update has no target Workspace: the record of a merge is read through the fork's own Store, which knows
                // its target.
                self.finish_merge_of(fork).map_err(failed)?;
            }
            let sides = self.fork_sides(fork, SidesQuery::SinceSync).map_err(failed)?;
            let top = group.workspaces[0].mount().path();
            let store = &**group.store;
            let planned =
                self.plan_sides(&sides, Direction::IntoFork, store, top, options).map_err(failed)?;
            let mut result = MergeResult::default();
            for conflict in &planned.reported {
                let described = self.describe_conflict(&group, conflict, Direction::IntoFork, options);
                result.conflicts.push(described.map_err(failed)?);
            }
            result.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
            let free = free_paths(&sides, Direction::IntoFork);
            let steps = order(&group, revert_plan(planned.plan.targets.clone()), &sides.in_fork, free)
                .map_err(failed)?;
            result.changes = self.visible_changes(&group, &steps);
            result.left_out = self.left_out_paths(&group, &sides, &planned.plan.left_out);
            if options.dry_run {
                return Ok(result);
            }
            let sync = new_sync(&sides, &planned, &steps, sides.target_revision, None, &BTreeSet::new());
            let has_target_changes =
                !side_changes(&sides, &sides.in_target, &planned.plan.left_out).is_empty();
            let is_needed = !steps.steps.is_empty()
                || sync.behind != sides.sync.behind
                || planned.has_decided
                || has_target_changes && planned.reported.is_empty();
            if !is_needed {
                result.done = true;
                return Ok(result);
            }
            match self.apply_to_fork(store, steps, &sides.in_fork, sync) {
                Err(cause) if is_race(&cause) => continue,
                applied => applied.map_err(failed)?,
            }
            for change in &result.changes {
                self.shared().read_set.forget(&change.path);
            }
            result.operation = Some(self.operation());
            result.done = true;
            return Ok(result);
        }
        Err(failed(StoreError::Conflict))
    }

    pub(super) fn fork_sides(&self, fork: ForkHandle<'_>, query: SidesQuery) -> StoreResult<ForkSides> {
        fork.store.require_forks()?.sides(query)
    }

    /// Plans a merge in one direction. An update writes conflicts between markers, and leaves the others.
    fn plan_sides(
        &self,
        sides: &ForkSides,
        direction: Direction,
        ours: &dyn Store,
        top: &StorePath,
        options: &MergeOptions,
    ) -> StoreResult<Planned> {
        let current = match direction {
            Direction::IntoTarget => &sides.in_target,
            Direction::IntoFork => &sides.in_fork,
        };
        let monitor = self.cancellation_monitor();
        let by_path = nodes_by_path(sides, direction);
        let free = free_paths(sides, direction);
        let mut view = SideView { ours, current, by_path, free, direction, monitor, merged_bytes: 0 };
        let mut choices = RuleChoices {
            rules: &options.rules,
            direction,
            top,
            writes_markers: direction == Direction::IntoFork,
            unresolved: Vec::new(),
            has_decided: false,
        };
        let plan = plan_merge(node_sides(sides, direction), &mut choices, &mut view)?;
        let RuleChoices { unresolved, has_decided, .. } = choices;
        let mut seen = BTreeSet::new();
        let reported = unresolved.into_iter().filter(|conflict| seen.insert(conflict.node)).collect();
        Ok(Planned { plan, reported, has_decided })
    }

    /// The files of the fork that an update wrote with markers and that still have them.
    fn unresolved_markers(&self, sides: &ForkSides, store: &dyn Store) -> StoreResult<Vec<TreeConflict>> {
        let mut found = Vec::new();
        for node in &sides.sync.marked {
            let Some(state) = sides.in_fork.get(node).and_then(|current| current.state.as_ref()) else {
                continue;
            };
            let Some(content) = &state.content else { continue };
            if has_markers(&read_content(store, content)?, &MergeLabels::FORK) {
                let all = crate::history::tree_merge::NodeSides {
                    base: sides.nodes.get(node).cloned().flatten(),
                    ours: sides.in_target.get(node).and_then(|current| current.state.clone()),
                    theirs: Some(state.clone()),
                };
                let (kind, related) = (TreeConflictKind::Content, Vec::new());
                found.push(TreeConflict { node: *node, kind, sides: all, related, aliases: Vec::new() });
            }
        }
        Ok(found)
    }

    /// Lets the fork take in a merge that was committed before, if it has not.
    fn finish_merge(&self, target: &dyn Store, fork: ForkHandle<'_>) -> StoreResult<()> {
        let Some(committed) = last_merge(target, fork.store.id())? else { return Ok(()) };
        let sides = self.fork_sides(fork, SidesQuery::BaseAndFork)?;
        // A merge that is older than the fork was one of another fork of the same name.
        let is_taken_in = sides.sync.merges.contains(&committed.operation)
            || sides.sync.target_revision >= committed.target_revision;
        if is_taken_in {
            return Ok(());
        }
        self.take_in_merge(target, fork, &committed)
    }

    /// The same where only the fork is known: its target is one of the caller's Stores, or the record can't be read.
    pub(super) fn finish_merge_of(&self, fork: ForkHandle<'_>) -> StoreResult<()> {
        let sides = self.fork_sides(fork, SidesQuery::BaseAndFork)?;
        let target = self.vfs.workspaces().map(|workspace| workspace.mount().store());
        match target.into_iter().find(|store| store.id() == sides.target) {
            Some(target) => self.finish_merge(&**target, fork),
            None => Ok(()),
        }
    }

    /// The fork takes in what its merge made of the target: then its base is the target as of that revision.
    fn take_in_merge(
        &self,
        target: &dyn Store,
        fork: ForkHandle<'_>,
        merge: &CommittedMerge,
    ) -> StoreResult<()> {
        let store = &**fork.store;
        for _ in 0..MAX_ATTEMPTS {
            let since_sync = self.fork_sides(fork, SidesQuery::BaseAndFork)?;
            check_target(&since_sync, target)?;
            if since_sync.sync.merges.contains(&merge.operation) {
                return Ok(());
            }
            let query = SidesQuery::AfterMerge {
                fork_revision: merge.fork_revision,
                target_revision: merge.target_revision,
            };
            let mut sides = self.fork_sides(fork, query)?;
            let left_out = &merge.left_out;
            sides.nodes.retain(|node, _| !left_out.contains(node));
            let options = MergeOptions::default();
            let top = StorePath::empty();
            let planned = self.plan_sides(&sides, Direction::IntoFork, store, &top, &options)?;
            let group = StoreGroup { store: fork.store, workspaces: Vec::new() };
            let free = free_paths(&sides, Direction::IntoFork);
            let steps = order(&group, revert_plan(planned.plan.targets.clone()), &sides.in_fork, free)?;
            let operation = Some(merge.operation);
            let target_revision = sides.target_revision;
            let mut sync = new_sync(&sides, &planned, &steps, target_revision, operation, left_out);
            sync.after = since_sync.sync.number;
            match self.apply_to_fork(store, steps, &sides.in_fork, sync) {
                Err(cause) if is_race(&cause) => {}
                applied => return applied,
            }
        }
        Err(StoreError::Conflict)
    }

    fn apply_to_fork(
        &self,
        store: &dyn Store,
        mut steps: RevertSteps,
        current: &HashMap<NodeId, CurrentNode>,
        sync: NewForkSync,
    ) -> StoreResult<()> {
        let expected = expected_directories(&steps, current, None);
        let revive = std::mem::take(&mut steps.revive);
        let takes_in_merge = sync.merge.is_some();
        self.apply_with(store, steps.steps, ChangeStage::Final, |change| {
            change.records.push(CompanionRecord::ForkSync(Box::new(sync)));
            change.revive = revive;
            change.expect_nodes.extend(expected);
            if takes_in_merge {
                // The result of a merge has to fit into the target's quota, not into the fork's.
                change.quotas.clear();
            }
        })?;
        Ok(())
    }

    /// What steps change, in the paths that the caller may see.
    fn visible_changes(&self, group: &StoreGroup<'_>, steps: &RevertSteps) -> Vec<MergeChange> {
        let mut changes: Vec<MergeChange> = steps
            .changes
            .iter()
            .filter_map(|change| {
                let from = change.from.as_ref().and_then(|from| self.logical_path(group, from));
                Some(MergeChange {
                    path: self.logical_path(group, &change.path)?,
                    from,
                    action: change.action.into(),
                })
            })
            .collect();
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes
    }

    fn left_out_paths(
        &self,
        group: &StoreGroup<'_>,
        sides: &ForkSides,
        left_out: &BTreeSet<NodeId>,
    ) -> Vec<VfsPath> {
        let mut paths: Vec<VfsPath> = left_out
            .iter()
            .filter_map(|node| {
                let states =
                    [&sides.in_fork, &sides.in_target].map(|side| side.get(node).map(|node| &node.path));
                let base = sides.nodes.get(node).and_then(|base| base.as_ref()).map(|base| &base.path);
                states.into_iter().flatten().chain(base).find_map(|path| self.logical_path(group, path))
            })
            .collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// The refused nodes by paths that the caller may see. Those that it may not see are one entry.
    fn refused_merge_paths(
        &self,
        group: &StoreGroup<'_>,
        steps: &RevertSteps,
        sides: &ForkSides,
        refused: BTreeMap<NodeId, String>,
    ) -> Vec<PathConflict> {
        let mut paths: BTreeMap<VfsPath, String> = BTreeMap::new();
        for (node, why) in refused {
            let changed = steps.changes.iter().filter(|change| change.node == node);
            let mut candidates =
                changed.flat_map(|change| [Some(&change.path), change.from.as_ref()]).flatten();
            let visible = candidates.find_map(|path| self.logical_path(group, path)).or_else(|| {
                let current = sides.in_target.get(&node)?;
                self.logical_path(group, &current.path)
            });
            let path = visible.unwrap_or_else(|| group.workspaces[0].prefix().clone());
            paths.entry(path).or_insert(why);
        }
        paths.into_iter().map(|(path, why)| PathConflict { path, why }).collect()
    }
}

/// The record of a sync: what the fork has of its target after a change.
fn new_sync(
    sides: &ForkSides,
    planned: &Planned,
    steps: &RevertSteps,
    target_revision: RevisionNumber,
    merge: Option<crate::identity::OperationId>,
    left_out: &BTreeSet<NodeId>,
) -> NewForkSync {
    let marked = planned.plan.marked.clone();
    let in_conflict =
        planned.reported.iter().filter(|conflict| !marked.contains(&conflict.node)).flat_map(|conflict| {
            std::iter::once(conflict.node)
                .chain(conflict.related.iter().copied())
                .chain(conflict.aliases.iter().copied())
        });
    let mut behind: BTreeSet<NodeId> = in_conflict.collect();
    behind.extend(&planned.plan.left_out);
    behind.extend(left_out);
    behind.extend(planned.plan.conflicts.iter().map(|conflict| conflict.node));
    behind.extend(steps.conflicts.iter().map(|conflict| conflict.node));
    let base_of = |node: NodeId| {
        let revision = sides.sync.behind.get(&node).copied().unwrap_or(sides.sync.target_revision);
        (node, revision)
    };
    let behind = behind.into_iter().map(base_of).collect();
    let (after, based_on) = (sides.sync.number, sides.sync.counting);
    NewForkSync { after, based_on, target_revision, merge, behind, marked }
}

fn revert_plan(targets: BTreeMap<NodeId, crate::history::PlannedNode>) -> RevertPlan {
    RevertPlan { targets, ..RevertPlan::default() }
}

/// Fails if a fork was made from another Store.
fn check_target(sides: &ForkSides, target: &dyn Store) -> StoreResult<()> {
    if sides.target == target.id() {
        return Ok(());
    }
    Err(StoreError::Invalid(
        "the fork wasn't made from this Workspace; name the Workspace that it was made from".into(),
    ))
}
