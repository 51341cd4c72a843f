//! Makes a merge or an update: plans it, checks the caller's rights, and applies it. If something has changed meanwhile, it is
//! planned again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::history::diff::MAX_DIFF_SIZE;
use crate::history::text_merge::{MergeLabels, has_markers};
use crate::history::tree_merge::{TreeConflict, TreeConflictKind, TreeMergePlan, plan_merge};
use crate::history::{PlannedContent, PlannedNode, RevertPlan, RevertSteps};
use crate::monitor::check_not_stopped;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    CompanionRecord, ContentRef, Fork, ForkSides, MergeDrafts, NewForkSync, NodeId, NodePath, NodeState,
    RevisionNumber, SidesQuery, Store, StoreError, StorePath, StoreResult,
};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::history::execute::{NOT_SHOWN, is_race};
use crate::vfs::history::merge::choices::RuleChoices;
use crate::vfs::history::merge::describe::{MergeConflict, MergeConflictKind};
use crate::vfs::history::merge::manifest::{RetaggedFile, RowEdits};
use crate::vfs::history::merge::plan::{
    Direction, SideView, expected_directories, free_paths, node_sides, nodes_by_path, order, side_changes,
    sides_of,
};
use crate::vfs::history::merge::progress::MergeProgress;
use crate::vfs::history::merge::records::{CommittedMerge, last_merge, merge_records};
use crate::vfs::history::merge::texts::{MergedTexts, TextsNeeded};
use crate::vfs::history::merge::withheld::Withheld;
use crate::vfs::history::merge::{
    ChangedContent, ForkHandle, ForkState, MergeAction, MergeChange, MergeChoice, MergeOptions, MergeResult,
    authors, store_error,
};
use crate::vfs::history::undo::{PathChange, PathConflict};
use crate::vfs::history::{StoreGroup, read_content};
use crate::workspace::Workspace;

/// How often a merge is planned again because something changed in the meantime.
const MAX_ATTEMPTS: usize = 8;

/// A planned merge: what happens to nodes, and what the caller's rules decided.
struct Planned {
    plan: TreeMergePlan,
    /// For an update: the conflicts that it reports although it goes on.
    reported: Vec<TreeConflict>,
    /// Whether rules decided conflicts.
    has_decided: bool,
    /// Whether rules have taken the target's side.
    gives_up_fork: bool,
    /// The files that get the content of a rule.
    given: BTreeSet<String>,
    /// The files of which a part is taken, and what they are expected to have.
    parts: Vec<(Option<NodeState>, Arc<Vec<u8>>)>,
    /// The merged texts, which are drafts until a change has used them. They are held, and not read.
    _drafts: Option<Box<dyn MergeDrafts>>,
}

/// What a plan of sides needs beside them.
struct SidesPlanner<'a, 'w> {
    /// The files that one side has pinned, and the other one has removed.
    pinned: &'a BTreeSet<NodeId>,
    fork: ForkHandle<'a>,
    direction: Direction,
    group: &'a StoreGroup<'w>,
    options: &'a MergeOptions,
    progress: &'a MergeProgress,
}

/// Beside looking at the nodes: for each node, that it is decided, its step, its line authors, and that the fork takes it in.
const UNITS_PER_NODE: usize = 4;

impl Call<'_> {
    pub(super) fn merge_fork(
        &self,
        prefix: &VfsPath,
        fork: ForkHandle<'_>,
        options: &MergeOptions,
    ) -> Result<MergeResult> {
        self.set_dry_run(options.dry_run);
        let group = self.merge_group(prefix, Access::Restore)?;
        let progress = MergeProgress::of(self);
        for _ in 0..MAX_ATTEMPTS {
            match self.merge_once(prefix, &group, fork, options, &progress)? {
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
        progress: &MergeProgress,
    ) -> Result<Option<MergeResult>> {
        let failed = |cause| store_error(prefix, cause);
        let target = &**group.store;
        if !options.dry_run || options.finish_earlier {
            self.finish_merge(target, fork, progress).map_err(failed)?;
        }
        let mut sides =
            self.fork_sides(fork, SidesQuery::SinceSync, &BTreeSet::new(), progress).map_err(failed)?;
        progress.expect(sides.nodes.len() * UNITS_PER_NODE);
        check_target(&sides, target).map_err(failed)?;
        check_not_moved(prefix, fork, &sides, target)?;
        let withheld = self.withhold_from_merge(&mut sides, group);
        let row_edits = RowEdits::plan(fork, Direction::IntoTarget).map_err(failed)?;
        let has_to_compare = options.with_contents || options.fork_state.is_some();
        let fork_state = has_to_compare.then(|| {
            ForkState::of(&side_changes(&sides, &sides.in_fork, &BTreeSet::new()), row_edits.fork_changes())
        });
        if options.fork_state.is_some_and(|shown| Some(shown) != fork_state) {
            return Err(Error::ReviewOutdated { path: prefix.clone() });
        }
        let mut result = MergeResult { fork_state, ..MergeResult::default() };
        let unresolved = self.unresolved_markers(&sides, target).map_err(failed)?;
        let pinned = &row_edits.pinned_and_removed(&sides, &withheld);
        let planner =
            SidesPlanner { pinned, fork, direction: Direction::IntoTarget, group, options, progress };
        let mut planned = self.plan_sides(&sides, &planner).map_err(failed)?;
        result.given = std::mem::take(&mut planned.given);
        for (state, expected) in &planned.parts {
            if !has_content(target, state.as_ref(), expected).map_err(failed)? {
                let path = state.as_ref().and_then(|state| self.logical_path(group, &state.path));
                return Err(Error::ReviewOutdated { path: path.unwrap_or_else(|| prefix.clone()) });
            }
        }
        let unseen = self.unseen_fork_changes(group, &sides, &planned.plan.left_out, options);
        let is_seen = |node: NodeId| !unseen.contains_key(&node);
        for conflict in planned.plan.conflicts.iter().filter(|conflict| is_seen(conflict.node)) {
            let described = self.describe_conflict(group, conflict, Direction::IntoTarget, options);
            result.conflicts.push(described.map_err(failed)?);
        }
        let unresolved = self.describe_unresolved(group, &unresolved, options);
        result.conflicts.extend(unresolved.map_err(failed)?);
        let (left_out, in_part) = (planned.plan.left_out.clone(), planned.plan.in_part.clone());
        self.set_left_out(&mut result, group, &sides, &left_out);
        let contents = match options.with_contents {
            true => changed_contents(target, &planned.plan.targets, &sides).map_err(failed)?,
            false => HashMap::new(),
        };
        let free = free_paths(&sides, Direction::IntoTarget);
        let plan = revert_plan(std::mem::take(&mut planned.plan.targets));
        let monitor = self.cancellation_monitor();
        let mut steps = order(group, plan, &sides.in_target, free, monitor.as_ref()).map_err(failed)?;
        // A node that the target has elsewhere keeps its id there.
        steps.revive.retain(|_, node| !withheld.used_ids.contains(node));
        for conflict in steps.conflicts.iter().filter(|conflict| is_seen(conflict.node)) {
            let sides = sides_of(&sides, Direction::IntoTarget, conflict.node);
            let (node, kind, related) = (conflict.node, TreeConflictKind::NameTaken, Vec::new());
            let conflict = TreeConflict { node, kind, sides, related, aliases: Vec::new() };
            let described = self.describe_conflict(group, &conflict, Direction::IntoTarget, options);
            result.conflicts.push(described.map_err(failed)?);
        }
        result.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        let (changes, mut refused) = self.authorize_changes(group, &steps)?;
        refused.extend(unseen);
        // Something that takes the place of something else is a change of its own at the same path.
        let contents: HashMap<(VfsPath, MergeAction), ChangedContent> = steps
            .changes
            .iter()
            .filter_map(|change| {
                let content = contents.get(&change.node)?.clone();
                Some(((self.logical_path(group, &change.path)?, change.action.into()), content))
            })
            .collect();
        result.changes = changes
            .into_iter()
            .map(|PathChange { path, from, action }| {
                let key = (path, MergeAction::from(action));
                let content = contents.get(&key).cloned();
                let (path, action) = key;
                MergeChange { path, from, action, content }
            })
            .collect();
        result.refused = self.refused_merge_paths(group, &steps, &sides, refused);
        let row_edits = row_edits.leave_out(&sides, &left_out);
        let row_edits = self.apply_rules_to_tags(group, options, row_edits, &mut result);
        result.refused.extend(self.refused_tags(group, &steps, &row_edits)?);
        result.retagged = self.visible_retagged(group, &row_edits);
        if !result.refused.is_empty() {
            self.set_refused(ErrorKind::Denied);
        } else if !result.conflicts.is_empty() {
            self.set_refused(ErrorKind::Conflict);
        }
        if options.dry_run || !result.refused.is_empty() || !result.conflicts.is_empty() {
            return Ok(Some(result));
        }
        let has_fork_changes = !side_changes(&sides, &sides.in_fork, &left_out).is_empty();
        let (has_tags, dropped_tags) = (row_edits.are_needed(), row_edits.dropped().to_vec());
        let has_decided = planned.has_decided || !dropped_tags.is_empty();
        if steps.steps.is_empty() && !has_decided && !has_fork_changes && !has_tags {
            result.done = true;
            return Ok(Some(result));
        }
        self.guard_subtrees(group, &mut steps);
        result.fork_gave_up = planned.gives_up_fork || !dropped_tags.is_empty();
        let operation = self.operation();
        let committed = if steps.steps.is_empty() && !has_tags {
            // The target has all of it already, or the rules leave it as it is: only the fork's base changes.
            let (fork_revision, target_revision) = (sides.revision, sides.target_revision);
            CommittedMerge { operation, fork_revision, target_revision, left_out, in_part, dropped_tags }
        } else {
            let expected = expected_directories(&steps, &sides.in_target, sides.target_ids.as_ref());
            let (fork_revision, has_own_ids) = (sides.revision, sides.target_ids.is_some());
            let node_count = sides.nodes.len();
            // From here on the steps say everything, and each of them takes memory in the Store.
            drop(sides);
            let target_revision = RevisionNumber::NOW;
            let mut committed =
                CommittedMerge { operation, fork_revision, target_revision, left_out, in_part, dropped_tags };
            let mut records = merge_records(fork.fork, fork.store.id(), &committed).map_err(failed)?;
            authors::add_line_authors(self, &steps, fork.store, has_own_ids, progress, &mut records)
                .map_err(failed)?;
            // A Store with ids of its own gives what is new an id of its own.
            let revive = if has_own_ids { BTreeMap::new() } else { std::mem::take(&mut steps.revive) };
            let RevertSteps { steps, .. } = steps;
            records.extend(row_edits.into_records());
            let monitor = progress.of_change(self.cancellation_monitor(), node_count);
            let applied = self.apply_with(target, steps, ChangeStage::Intermediate, |change| {
                if change.steps.is_empty() {
                    // Tags alone make a revision, so that the merge has a place in the history.
                    change.blind_at = Some(group.workspaces[0].mount().path().clone());
                    change.quotas.clear();
                }
                // The only list of them: there may be one for each file.
                records.append(&mut change.records);
                change.records = records;
                change.revive = revive;
                change.expect_nodes.extend(expected);
                change.monitor = monitor.or(change.monitor.take());
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
            committed.target_revision = target_revision;
            committed
        };
        // The merge is made. If the fork can't take in the result now, its next merge, update or diff does it.
        drop(planned);
        let _ = self.take_in_merge(target, fork, &committed, progress);
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
        let target = fork.store.require_forks().and_then(|forks| forks.target()).map_err(failed)?;
        let view = self.view_for_update(&group, fork, target)?;
        let progress = &MergeProgress::of(self);
        for _ in 0..MAX_ATTEMPTS {
            check_not_stopped(self.cancellation_monitor().as_ref()).map_err(failed)?;
            if !options.dry_run {
                // An update has no target Workspace: the record of a merge is read through the fork's own Store, which knows
                // its target.
                self.finish_merge_of(fork, progress).map_err(failed)?;
            }
            let (sides, withheld) = self
                .sides_into_fork(fork, SidesQuery::SinceSync, &view, &|_| false, progress)
                .map_err(failed)?;
            progress.expect(sides.nodes.len() * 2);
            let store = &**group.store;
            let row_edits = RowEdits::plan(fork, Direction::IntoFork).map_err(failed)?;
            let pinned = &row_edits.pinned_and_removed(&sides, &withheld);
            let planner = SidesPlanner {
                pinned,
                fork,
                direction: Direction::IntoFork,
                group: &group,
                options,
                progress,
            };
            let mut planned = self.plan_sides(&sides, &planner).map_err(failed)?;
            let given = std::mem::take(&mut planned.given);
            let mut result = MergeResult { given, decided: planned.has_decided, ..MergeResult::default() };
            for conflict in &planned.reported {
                let described = self.describe_conflict(&group, conflict, Direction::IntoFork, options);
                result.conflicts.push(described.map_err(failed)?);
            }
            // A merge by another agent may have written markers into the fork; its result went to that agent.
            let mut earlier = self.unresolved_markers(&sides, store).map_err(failed)?;
            earlier.retain(|one| planned.reported.iter().all(|conflict| conflict.node != one.node));
            let earlier = self.describe_unresolved(&group, &earlier, options);
            result.conflicts.extend(earlier.map_err(failed)?);
            result.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
            let free = free_paths(&sides, Direction::IntoFork);
            let plan = revert_plan(std::mem::take(&mut planned.plan.targets));
            let monitor = self.cancellation_monitor();
            let steps = order(&group, plan, &sides.in_fork, free, monitor.as_ref()).map_err(failed)?;
            result.changes = self.visible_changes(&group, &steps);
            self.set_left_out(&mut result, &group, &sides, &planned.plan.left_out);
            let row_edits = row_edits.without(&withheld.paths);
            result.retagged = self.visible_retagged(&group, &row_edits);
            if options.dry_run {
                return Ok(result);
            }
            let target_revision = sides.target_revision;
            let sync = new_sync(&sides, &planned, &steps, target_revision, None, &BTreeSet::new(), &withheld);
            let has_target_changes =
                !side_changes(&sides, &sides.in_target, &planned.plan.left_out).is_empty();
            let is_needed = !steps.steps.is_empty()
                || row_edits.are_needed()
                || sync.behind != sides.sync.behind
                || sync.absent != sides.sync.absent
                || sync.out_of_sight != sides.sync.out_of_sight
                || planned.has_decided
                || has_target_changes && planned.reported.is_empty();
            if !is_needed {
                result.done = true;
                return Ok(result);
            }
            match self.apply_to_fork(store, steps, sides, sync, row_edits, progress) {
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

    pub(super) fn fork_sides(
        &self,
        fork: ForkHandle<'_>,
        query: SidesQuery,
        also: &BTreeSet<NodeId>,
        progress: &MergeProgress,
    ) -> StoreResult<ForkSides> {
        let monitor = self.cancellation_monitor();
        fork.store.require_forks()?.sides(query, also, &mut || progress.advance_or_stop(monitor.as_ref()))
    }

    /// Plans a merge in one direction. An update writes conflicts between markers, and leaves the others.
    fn plan_sides(&self, sides: &ForkSides, planner: &SidesPlanner<'_, '_>) -> StoreResult<Planned> {
        let SidesPlanner { pinned, fork, direction, group, options, progress } = *planner;
        let ours = &**group.store;
        let current = match direction {
            Direction::IntoTarget => &sides.in_target,
            Direction::IntoFork => &sides.in_fork,
        };
        let monitor = self.cancellation_monitor();
        let by_path = nodes_by_path(sides, direction);
        let free = free_paths(sides, direction);
        let is_shown_or_made = !options.dry_run || options.with_contents;
        let needed = if is_shown_or_made { TextsNeeded::Yes } else { TextsNeeded::No };
        let texts = MergedTexts::new(&**fork.store, needed);
        let is_unseen = |path: &StorePath| {
            direction == Direction::IntoTarget
                && self.logical_path(group, path).is_none()
                && !self.is_above_a_mount(group, path)
        };
        let is_unseen = &is_unseen;
        let mut view =
            SideView { ours, current, by_path, free, is_unseen, direction, monitor, progress, texts };
        let mut choices = RuleChoices {
            rules: &options.rules,
            direction,
            visible_path: &|path| Some(options.path_for_rules(self.path_for_rules(group, path)?)),
            has_no_rules: &|state| self.is_directory_above(group, state),
            writes_markers: direction == Direction::IntoFork,
            unresolved: Vec::new(),
            has_decided: false,
            gives_up_fork: false,
            given: BTreeSet::new(),
            parts: Vec::new(),
        };
        let mut nodes = node_sides(sides, direction);
        for node in pinned {
            // Content that isn't known equals nothing, so the side that has pinned the file has changed it.
            if let Some(base) = nodes.get_mut(node).and_then(|sides| sides.base.as_mut()) {
                base.content = None;
            }
        }
        let mut plan = plan_merge(nodes, &mut choices, &mut view)?;
        let drafts = view.texts.finish()?;
        let RuleChoices { mut unresolved, has_decided, gives_up_fork, given, parts, .. } = choices;
        for conflict in plan.conflicts.iter_mut().chain(&mut unresolved) {
            if pinned.contains(&conflict.node) {
                conflict.sides.base = sides.nodes.get(&conflict.node).cloned().flatten();
            }
        }
        let mut seen = BTreeSet::new();
        let reported = unresolved.into_iter().filter(|conflict| seen.insert(conflict.node)).collect();
        Ok(Planned { plan, reported, has_decided, gives_up_fork, given, parts, _drafts: drafts })
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

    /// Describes files of the fork that still have markers, without those that the rules leave out or replace.
    fn describe_unresolved(
        &self,
        group: &StoreGroup<'_>,
        unresolved: &[TreeConflict],
        options: &MergeOptions,
    ) -> StoreResult<Vec<MergeConflict>> {
        let mut described = Vec::new();
        for conflict in unresolved {
            let sides = &conflict.sides;
            let states = [sides.base.as_ref(), sides.ours.as_ref(), sides.theirs.as_ref()];
            match self.choice_for(group, options, &states) {
                Some(MergeChoice::LeaveOut | MergeChoice::Drop | MergeChoice::Content(_)) => {}
                _ => {
                    let kind = MergeConflictKind::Unresolved;
                    described.push(self.describe_sides(
                        group,
                        conflict,
                        kind,
                        Direction::IntoTarget,
                        options,
                    )?);
                }
            }
        }
        Ok(described)
    }

    /// Lets the fork take in a merge that was committed before, if it has not.
    fn finish_merge(
        &self,
        target: &dyn Store,
        fork: ForkHandle<'_>,
        progress: &MergeProgress,
    ) -> StoreResult<()> {
        let Some(committed) = last_merge(target, fork.store.id())? else { return Ok(()) };
        let ForkSides { sync, .. } =
            self.fork_sides(fork, SidesQuery::BaseAndFork, &BTreeSet::new(), progress)?;
        // A merge that is older than the fork was one of another fork of the same name.
        let is_taken_in =
            sync.merges.contains(&committed.operation) || sync.target_revision >= committed.target_revision;
        if is_taken_in {
            return Ok(());
        }
        match self.take_in_merge(target, fork, &committed, progress) {
            // The fork was restored to a state from before the merge. What the target has of it counts as changed by both then.
            Err(StoreError::Expired(_)) => Ok(()),
            taken_in => taken_in,
        }
    }

    /// The same where only the fork is known: its target is one of the caller's Stores, or the record can't be read.
    pub(super) fn finish_merge_of(&self, fork: ForkHandle<'_>, progress: &MergeProgress) -> StoreResult<()> {
        let target_id = fork.store.require_forks()?.target()?;
        let mut stores = self.vfs.workspaces().map(|workspace| workspace.mount().store());
        match stores.find(|store| store.id() == target_id) {
            Some(target) => self.finish_merge(&**target, fork, progress),
            None => Ok(()),
        }
    }

    /// The fork takes in what its merge made of the target: then its base is the target as of that revision.
    fn take_in_merge(
        &self,
        target: &dyn Store,
        fork: ForkHandle<'_>,
        merge: &CommittedMerge,
        progress: &MergeProgress,
    ) -> StoreResult<()> {
        let store = &**fork.store;
        let Some(mut view) = self.view_after_merge(fork, target.id()) else { return Ok(()) };
        for _ in 0..MAX_ATTEMPTS {
            let since_sync = {
                let sides = self.fork_sides(fork, SidesQuery::BaseAndFork, &BTreeSet::new(), progress)?;
                check_target(&sides, target)?;
                view.set_own_changes(&sides);
                sides.sync
            };
            if since_sync.merges.contains(&merge.operation) {
                return Ok(());
            }
            let query = SidesQuery::AfterMerge {
                fork_revision: merge.fork_revision,
                target_revision: merge.target_revision,
            };
            let left_out = &merge.left_out;
            let stays = |node: NodeId| left_out.contains(&node) || merge.in_part.contains(&node);
            let (sides, withheld) = self.sides_into_fork(fork, query, &view, &stays, progress)?;
            let options = MergeOptions::default();
            let group = StoreGroup { store: fork.store, workspaces: Vec::new() };
            let planner = SidesPlanner {
                // What the merge has removed was decided.
                pinned: &BTreeSet::new(),
                fork,
                direction: Direction::IntoFork,
                group: &group,
                options: &options,
                progress,
            };
            let mut planned = self.plan_sides(&sides, &planner)?;
            let free = free_paths(&sides, Direction::IntoFork);
            let plan = revert_plan(std::mem::take(&mut planned.plan.targets));
            let steps = order(&group, plan, &sides.in_fork, free, None)?;
            let operation = Some(merge.operation);
            let target_revision = sides.target_revision;
            let mut sync =
                new_sync(&sides, &planned, &steps, target_revision, operation, left_out, &withheld);
            sync.after = since_sync.number;
            sync.keeps_manifest = view.is_own_only();
            let row_edits = match view.is_own_only() {
                true => RowEdits::default(),
                false => RowEdits::plan(fork, Direction::IntoFork)?.without(&withheld.paths),
            };
            let row_edits = row_edits.giving_up(fork, &merge.dropped_tags);
            match self.apply_to_fork(store, steps, sides, sync, row_edits, progress) {
                Err(cause) if is_race(&cause) => {}
                applied => return applied,
            }
        }
        Err(StoreError::Conflict)
    }

    fn apply_to_fork(
        &self,
        store: &dyn Store,
        steps: RevertSteps,
        sides: ForkSides,
        sync: NewForkSync,
        row_edits: RowEdits,
        progress: &MergeProgress,
    ) -> StoreResult<()> {
        let expected = expected_directories(&steps, &sides.in_fork, None);
        let RevertSteps { steps, revive, .. } = steps;
        let takes_in_merge = sync.merge.is_some();
        let monitor = progress.of_change(self.cancellation_monitor(), sides.nodes.len());
        drop(sides);
        self.apply_with(store, steps, ChangeStage::Final, |change| {
            change.monitor = monitor.or(change.monitor.take());
            let manifest_revision = row_edits.as_of();
            let sync = NewForkSync { manifest_revision, ..sync };
            change.records.push(CompanionRecord::ForkSync(Box::new(sync)));
            change.records.extend(row_edits.into_records());
            change.revive = revive;
            change.expect_nodes.extend(expected);
            if takes_in_merge {
                // The result of a merge has to fit into the target's quota, not into the fork's.
                change.quotas.clear();
            }
        })?;
        Ok(())
    }

    /// The files that get other tags, by the paths that the caller may see.
    fn visible_retagged(&self, group: &StoreGroup<'_>, edits: &RowEdits) -> Vec<RetaggedFile> {
        let visible = edits.retagged().filter_map(|(path, added, removed)| {
            let path = self.logical_path(group, &path)?;
            Some(RetaggedFile { path, added: added.clone(), removed: removed.clone() })
        });
        let mut files: Vec<_> = visible.collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files
    }

    /// What steps change, in the paths that the caller may see.
    fn visible_changes(&self, group: &StoreGroup<'_>, steps: &RevertSteps) -> Vec<MergeChange> {
        let mut changes: Vec<MergeChange> = steps
            .changes
            .iter()
            .filter_map(|change| {
                let path = self.logical_path(group, &change.path);
                let from = change.from.as_ref().map(|from| self.logical_path(group, from));
                // What comes into sight or leaves it counts as added or removed.
                let (path, from, action) = match (path, from) {
                    (Some(path), Some(None)) => (path, None, MergeAction::Added),
                    (Some(path), from) => (path, from.flatten(), change.action.into()),
                    (None, from) => (from.flatten()?, None, MergeAction::Removed),
                };
                Some(MergeChange { path, from, action, content: None })
            })
            .collect();
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes
    }

    /// Notes in a result what the rules left out.
    fn set_left_out(
        &self,
        result: &mut MergeResult,
        group: &StoreGroup<'_>,
        sides: &ForkSides,
        left_out: &BTreeSet<NodeId>,
    ) {
        for node in left_out {
            let states = [&sides.in_fork, &sides.in_target].map(|side| side.get(node).map(|node| &node.path));
            let base = sides.nodes.get(node).and_then(|base| base.as_ref()).map(|base| &base.path);
            let mut paths = states.into_iter().flatten().chain(base);
            match paths.find_map(|path| self.logical_path(group, path)) {
                Some(path) => result.left_out.push(path),
                None => result.left_out_unseen = true,
            }
        }
        result.left_out.sort();
        result.left_out.dedup();
    }

    /// What the rules say about a node with these states.
    fn choice_for<'o>(
        &self,
        group: &StoreGroup<'_>,
        options: &'o MergeOptions,
        states: &[Option<&NodeState>],
    ) -> Option<&'o MergeChoice> {
        let paths = states
            .iter()
            .flatten()
            .filter_map(|state| Some(options.path_for_rules(self.path_for_rules(group, &state.path)?)));
        options.choice_for(&paths.collect::<Vec<_>>())
    }

    /// The nodes that the fork has changed where the caller can't look in the target, and why that is refused. It doesn't depend on
    /// what is there.
    fn unseen_fork_changes(
        &self,
        group: &StoreGroup<'_>,
        sides: &ForkSides,
        left_out: &BTreeSet<NodeId>,
        options: &MergeOptions,
    ) -> BTreeMap<NodeId, String> {
        let place = |state: &NodeState| (state.parent, state.name.clone(), state.kind, state.mode);
        let mut unseen = BTreeMap::new();
        for (&node, base) in sides.nodes.iter().filter(|(node, _)| !left_out.contains(node)) {
            let base = base.as_ref();
            let in_fork = sides.in_fork.get(&node).and_then(|current| current.state.as_ref());
            let is_changed = base.map(place) != in_fork.map(place)
                || base.map(|state| &state.content) != in_fork.map(|state| &state.content);
            let mut states = [base, in_fork].into_iter().flatten();
            let is_seen = |state: &NodeState| {
                self.logical_path(group, &state.path).is_some() || self.is_directory_above(group, state)
            };
            if !is_changed || states.all(is_seen) {
                continue;
            }
            let in_target = sides.in_target.get(&node).and_then(|current| current.state.as_ref());
            let choice = self.choice_for(group, options, &[base, in_fork, in_target]);
            if !matches!(choice, Some(MergeChoice::LeaveOut | MergeChoice::Drop)) {
                unseen.insert(node, NOT_SHOWN.to_owned());
            }
        }
        unseen
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
            let seen = |path: &StorePath| {
                self.logical_path(group, path).or_else(|| self.path_in_nested(group.workspaces[0], path))
            };
            let base = sides.nodes.get(&node).and_then(Option::as_ref);
            let visible = candidates
                .find_map(seen)
                .or_else(|| seen(&sides.in_target.get(&node)?.path))
                .or_else(|| seen(&sides.in_fork.get(&node)?.path))
                .or_else(|| seen(&base?.path));
            let path = visible.unwrap_or_else(|| group.workspaces[0].prefix().clone());
            paths.entry(path).or_insert(why);
        }
        paths.into_iter().map(|(path, why)| PathConflict { path, why }).collect()
    }
}

impl Call<'_> {
    /// A path of the Store as rules name it, relative to the Workspace; `None` if the caller may not see it.
    pub(super) fn path_for_rules(&self, group: &StoreGroup<'_>, path: &StorePath) -> Option<String> {
        let workspace = *group.workspaces.first()?;
        let visible = self.logical_path(group, path).or_else(|| self.path_in_nested(workspace, path))?;
        Some(visible.strip_prefix(workspace.prefix())?.to_owned())
    }

    /// Where a path in a Workspace's Store would be, if a nested Workspace that the caller may read is there instead: the path
    /// itself if that Workspace shows it, otherwise the prefix of that Workspace.
    fn path_in_nested(&self, workspace: &Workspace, path: &StorePath) -> Option<VfsPath> {
        let relative_path = path.strip_prefix(workspace.mount().path())?;
        let logical = workspace.prefix().join(std::str::from_utf8(relative_path).ok()?).ok()?;
        let route = self.shared().router.route(&logical)?;
        let nested = route.workspace;
        let is_hidden = workspace.hide().hides(logical.strip_prefix(workspace.prefix())?);
        let is_usable = nested.barrier().is_none() && self.shared().allows(nested, Access::Read);
        if is_hidden || !is_usable || nested.prefix() == workspace.prefix() {
            return None;
        }
        let shows_it = nested.mount().store().id() == workspace.mount().store().id()
            && path.strip_prefix(nested.mount().path()) == Some(route.relative_path.as_bytes())
            && !nested.hide().hides(route.relative_path);
        Some(if shows_it { logical.clone() } else { nested.prefix().clone() })
    }
}

/// Whether a file has this content.
fn has_content(store: &dyn Store, state: Option<&NodeState>, expected: &[u8]) -> StoreResult<bool> {
    match state.and_then(|state| state.content.as_ref()) {
        Some(content) if content.size() == expected.len() as u64 => {
            Ok(read_content(store, content)? == expected)
        }
        Some(_) => Ok(false),
        None => Ok(expected.is_empty()),
    }
}

/// The contents of planned nodes before and after.
fn changed_contents(
    store: &dyn Store,
    targets: &BTreeMap<NodeId, PlannedNode>,
    sides: &ForkSides,
) -> StoreResult<HashMap<NodeId, ChangedContent>> {
    let read = |content: &ContentRef| -> StoreResult<Option<Arc<Vec<u8>>>> {
        let is_shown = content.size() <= MAX_DIFF_SIZE;
        is_shown.then(|| read_content(store, content).map(Arc::new)).transpose()
    };
    let mut contents = HashMap::new();
    for (&node, planned) in targets {
        let before = sides.in_target.get(&node).and_then(|current| current.state.as_ref());
        let kind = planned.desired.as_ref().map(|desired| desired.kind).or(before.map(|state| state.kind));
        let Some(kind) = kind else { continue };
        let mode_before = before.map(|state| state.mode);
        let mode_after = planned.desired.as_ref().map(|desired| desired.mode);
        let before = before.and_then(|state| state.content.as_ref()).map(&read).transpose()?.flatten();
        let after = match planned.desired.as_ref().map(|desired| &desired.content) {
            Some(PlannedContent::Stored(content)) => read(content)?,
            Some(PlannedContent::Merged(bytes)) => Some(Arc::clone(bytes)),
            Some(PlannedContent::Drafted(text)) => text.content().map(&read).transpose()?.flatten(),
            Some(PlannedContent::None) | None => None,
        };
        contents.insert(node, ChangedContent { kind, before, after, mode_before, mode_after });
    }
    Ok(contents)
}

/// The record of a sync: what the fork has of its target after a change.
fn new_sync(
    sides: &ForkSides,
    planned: &Planned,
    steps: &RevertSteps,
    target_revision: RevisionNumber,
    merge: Option<crate::identity::OperationId>,
    left_out: &BTreeSet<NodeId>,
    withheld: &Withheld,
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
    let is_absent = |node: &NodeId| {
        let is_gone = withheld.gone.contains(node) && !behind.contains(node);
        is_gone || sides.sync.absent.contains(node) && withheld.is_withheld(*node)
    };
    let withheld_nodes = || withheld.gone.iter().chain(&withheld.unknown).copied();
    let absent: BTreeSet<NodeId> = withheld_nodes().filter(is_absent).collect();
    behind.extend(withheld_nodes());
    behind.retain(|node| !absent.contains(node));
    let base_of = |node: NodeId| {
        let revision = sides.sync.behind.get(&node).copied().unwrap_or(sides.sync.target_revision);
        (node, revision)
    };
    let out_of_sight = withheld.gone.iter().copied().filter(|node| behind.contains(node)).collect();
    let behind = behind.into_iter().map(base_of).collect();
    let (after, based_on) = (sides.sync.number, sides.sync.counting);
    NewForkSync {
        after,
        based_on,
        target_revision,
        manifest_revision: None,
        keeps_manifest: false,
        merge,
        behind,
        absent,
        out_of_sight,
        marked,
    }
}

fn revert_plan(targets: BTreeMap<NodeId, crate::history::PlannedNode>) -> RevertPlan {
    RevertPlan { targets, ..RevertPlan::default() }
}

/// Fails if the directory that a fork shows was moved in the target since: the fork would lose what it shows.
fn check_not_moved(
    prefix: &VfsPath,
    fork: ForkHandle<'_>,
    sides: &ForkSides,
    target: &dyn Store,
) -> Result<()> {
    let top = StorePath::from_checked(&fork.fork.path.as_str()[1..]);
    if top.is_empty() {
        return Ok(());
    }
    let Ok(in_fork) = fork.store.stat(&NodePath::from_root(top.clone())) else { return Ok(()) };
    let own_id = match &sides.target_ids {
        Some(ids) => ids.get(&in_fork.node).copied(),
        None => Some(in_fork.node),
    };
    let is_elsewhere = sides.in_target.get(&in_fork.node).is_some_and(|current| current.path != top);
    let is_there = || {
        let found = target.stat(&NodePath::from_root(top)).ok().map(|attr| attr.node);
        own_id.is_none_or(|id| found == Some(id) || target.stat(&NodePath::of_node(id)).is_err())
    };
    if !is_elsewhere && is_there() {
        return Ok(());
    }
    Err(moved_since(prefix, fork.fork))
}

/// The error that a fork can't be merged or updated because the directory that it was made from is at another path.
pub(super) fn moved_since(prefix: &VfsPath, fork: &Fork) -> Error {
    Error::Invalid(format!(
        "the directory of `{prefix}` was moved since the fork `{}` was made, so the fork can't be merged or updated; copy what you \
         need from it",
        fork.name
    ))
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
