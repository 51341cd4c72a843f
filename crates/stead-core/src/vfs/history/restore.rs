//! Restore: puts files back to their state at a revision.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::error::{Error, Result, Visibility};
use crate::history::RevertMode;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    CurrentNode, NodeChange, NodeId, NodeKind, NodeState, RevisionNumber, RevisionSet, Store, StoreError,
    StorePath, StoreResult,
};
use crate::vfs::call::Call;
use crate::vfs::history::execute::{RevertSource, RevertSummary, StoreRevert};
use crate::vfs::history::undo::{OnConflict, PathConflict, RevertResult, UndoOptions};
use crate::vfs::history::{StoreGroup, not_in_history};
use crate::vfs::write::same_store;
use crate::vfs::{IntoPath, PointInTime, Vfs};
use crate::workspace::Workspace;

/// What a restore covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Only these paths and what lies below them; empty means everything.
    pub paths: Vec<VfsPath>,
    /// Only report what would be done.
    pub dry_run: bool,
}

impl Vfs {
    /// Restores everything at and below a path to its state at a point in time, or only the paths that `options`
    /// lists. Those must lie below the path or in the same Workspace.
    ///
    /// The path may be a Workspace, something in one, or a level above several, such as `/`. A restore of `/` without
    /// `paths` includes the State. Workspaces nested below it
    /// are restored too, each under its own scope. What the caller may not change, and Workspaces whose Store doesn't
    /// have this point in time, stay as they are and are listed in [`RevertResult::left_out`].
    pub fn restore(
        &self,
        prefix: impl IntoPath,
        point: impl Into<PointInTime>,
        options: &RestoreOptions,
    ) -> Result<RevertResult> {
        let point = point.into();
        self.call("restore", [prefix.into_path()], |call, [prefix]| call.restore(prefix, point, options))
    }
}

impl Call<'_> {
    fn restore(
        &self,
        prefix: &VfsPath,
        point: PointInTime,
        options: &RestoreOptions,
    ) -> Result<RevertResult> {
        self.set_dry_run(options.dry_run);
        // The State has no path, so only a restore of everything includes it.
        let is_everything = prefix.is_root() && options.paths.is_empty();
        let state = self.state_with_history(Access::Restore).filter(|_| is_everything);
        let mut targets = self.history_targets_and_state(prefix, Access::Restore, state)?;
        let point = self.resolve_point(point)?;
        if !options.paths.is_empty() {
            let main = targets.main;
            (targets.targets, targets.refused) = (Vec::new(), Vec::new());
            for path in &options.paths {
                let is_inside = path.strip_prefix(prefix).is_some()
                    || main.is_some_and(|workspace| path.strip_prefix(workspace.prefix()).is_some());
                if !is_inside {
                    return Err(Error::Invalid(format!("`{path}` is not in the Workspace of `{prefix}`")));
                }
                let path_targets = self.history_targets(path, Access::Restore)?;
                targets.targets.extend(path_targets.targets);
                targets.refused.extend(path_targets.refused);
            }
        }
        let mut parts: Vec<(StoreGroup<'_>, RevisionNumber, Vec<StorePath>)> = Vec::new();
        for (workspace, store_path, [number]) in targets.take_at([&point])? {
            let store = workspace.mount().store();
            match parts.iter_mut().find(|(group, ..)| same_store(&**group.store, &**store)) {
                Some((group, _, paths)) => {
                    if !group.workspaces.iter().any(|known| known.prefix() == workspace.prefix()) {
                        group.workspaces.push(workspace);
                    }
                    paths.push(store_path);
                }
                None => {
                    parts.push((StoreGroup { store, workspaces: vec![workspace] }, number, vec![store_path]))
                }
            }
        }
        let refused = targets.refused.into_iter();
        let left_out = refused.map(|(path, error)| PathConflict { path, why: error.to_string() }).collect();
        let mut planned = Vec::new();
        for (group, number, paths) in parts {
            let failed =
                |cause| Error::Store { path: prefix.clone(), visibility: Visibility::Visible, cause };
            let latest = || group.store.require_history().and_then(|history| history.latest_revision());
            if number != RevisionNumber::NOW && number > latest().map_err(failed)? {
                return Err(not_in_history(format!("version {number}")));
            }
            check_retained(&**group.store, number).map_err(failed)?;
            let revisions = self.revisions_since(&group, number, &paths).map_err(failed)?;
            let source = RevertSource::Since(number, paths);
            let (mode, withheld) = (RevertMode::Exact, BTreeSet::new());
            planned.push(self.plan_with_retries(StoreRevert { group, revisions, mode, source, withheld })?);
        }
        let undo_options = UndoOptions { dry_run: options.dry_run, on_conflict: OnConflict::Refuse };
        self.execute_reverts(planned, RevertSummary::restore(left_out), undo_options)
    }
}

impl Call<'_> {
    /// The revisions after a given one, at or below these paths and without scratch files.
    ///
    /// A directory that was moved out of the paths returns with everything that is in it now, so what has changed in it
    /// at its present path is included.
    pub(super) fn revisions_since(
        &self,
        group: &StoreGroup<'_>,
        since: RevisionNumber,
        paths: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        let hidden_paths = group.workspaces.iter().flat_map(|workspace| self.hidden_paths(workspace));
        let hidden_paths: Vec<StorePath> = hidden_paths.filter(|path| is_inside(path, paths)).collect();
        let mut scope = paths.to_vec();
        loop {
            let query_paths = [&*scope, &*hidden_paths].concat();
            let history = group.store.require_history()?;
            let mut revisions = history.changes_between(since, RevisionNumber::NOW, &query_paths)?;
            group.remove_before_own(&mut revisions);
            let mut returning = returning_directories(&revisions, paths);
            returning.retain(|path| !is_inside(path, &scope) && self.logical_path(group, path).is_some());
            if returning.is_empty() {
                retain_below(&mut revisions, paths, &scope);
                remove_scratch(&mut revisions, &group.workspaces);
                keep_roots(&mut revisions, &group.workspaces);
                return Ok(revisions);
            }
            scope.extend(returning);
        }
    }
}

/// The state of each node before its oldest change; `None` if it didn't exist.
fn oldest_states(revisions: &RevisionSet) -> HashMap<NodeId, Option<&NodeState>> {
    // Revisions come newest first, so the oldest change is inserted last.
    let changes = revisions.revisions.iter().flat_map(|revision| &revision.changes);
    changes.map(|change| (change.node, change.before.as_ref())).collect()
}

/// Whether a path is at or below one of these.
fn is_inside(path: &StorePath, paths: &[StorePath]) -> bool {
    paths.iter().any(|top| path.is_at_or_below(top))
}

/// Whether a node has been renamed or moved itself, not only a directory above it.
fn is_moved(before: &NodeState, current: &CurrentNode) -> bool {
    let state = current.state.as_ref();
    state.is_some_and(|state| (state.parent, &state.name) != (before.parent, &before.name))
}

/// The present paths of directories that were at or below these paths and have been moved.
fn returning_directories(revisions: &RevisionSet, paths: &[StorePath]) -> Vec<StorePath> {
    let moved = oldest_states(revisions).into_iter().filter_map(|(node, before)| {
        let (before, current) = (before?, revisions.current.get(&node)?);
        let returns =
            before.kind == NodeKind::Directory && is_inside(&before.path, paths) && is_moved(before, current);
        returns.then(|| current.path.clone())
    });
    moved.collect()
}

/// Fails if the Store no longer retains a revision. Any other error of [`Store::as_of`] passes: the revisions that the
/// Store has are used.
pub(super) fn check_retained(store: &dyn Store, revision: RevisionNumber) -> StoreResult<()> {
    match store.require_history().and_then(|history| history.as_of(revision)) {
        Err(cause @ StoreError::Expired(_)) => Err(cause),
        // For example a revision from before a fork was made: then the fork's revisions are all that it did.
        _ => Ok(()),
    }
}

/// Keeps only changes to nodes that were at or below one of these paths or are in `scope` now, and to missing
/// directories that those nodes need. `scope` is the paths, and the directories that return to them.
///
/// A node that left the paths only because a directory above them was moved counts as gone, and so does that directory:
/// both are created again, and what is elsewhere stays there. A node that came into the paths only because a directory
/// above them was moved counts as created since, and is removed.
fn retain_below(revisions: &mut RevisionSet, paths: &[StorePath], scope: &[StorePath]) {
    let leads_to_path = |state: &NodeState| {
        state.kind == NodeKind::Directory && paths.iter().any(|top| top.is_at_or_below(&state.path))
    };
    let current = &revisions.current;
    let (mut gone_nodes, mut new_nodes) = (Vec::new(), HashSet::new());
    let oldest_states = oldest_states(revisions);
    // What is in a directory that leaves the paths again leaves with it.
    let leaving: Vec<&StorePath> = oldest_states
        .iter()
        .filter_map(|(node, before)| Some(((*before)?, current.get(node)?)))
        .filter(|(before, current)| is_inside(&current.path, paths) && is_moved(before, current))
        .map(|(_, current)| &current.path)
        .collect();
    for (node, before) in oldest_states {
        let Some(before) = before else { continue };
        let Some(current) = current.get(&node) else {
            // It was removed after it came into the paths.
            if !is_inside(&before.path, paths) && !leads_to_path(before) {
                new_nodes.insert(node);
            }
            continue;
        };
        let is_left_behind = match is_inside(&before.path, paths) {
            true => !is_inside(&current.path, scope) && !is_moved(before, current),
            false => leads_to_path(before) && current.path != before.path,
        };
        if is_left_behind {
            gone_nodes.push(node);
        }
        let is_brought_in = !is_inside(&before.path, scope)
            && is_inside(&current.path, paths)
            && !leaving.iter().any(|top| current.path.is_at_or_below(top));
        if is_brought_in {
            new_nodes.insert(node);
        }
    }
    for node in gone_nodes {
        revisions.current.remove(&node);
    }
    // The oldest change of a node comes last.
    for change in revisions.revisions.iter_mut().rev().flat_map(|revision| &mut revision.changes) {
        if new_nodes.remove(&change.node) {
            change.before = None;
        }
    }
    let current = &revisions.current;
    let mut kept_nodes = HashSet::new();
    for change in revisions.revisions.iter().flat_map(|revision| &revision.changes) {
        let states = [&change.before, &change.after];
        let was_inside = states.into_iter().flatten().any(|state| is_inside(&state.path, paths))
            || current.get(&change.node).is_some_and(|current| is_inside(&current.path, scope));
        let is_missing =
            !current.contains_key(&change.node) && change.before.as_ref().is_some_and(leads_to_path);
        if was_inside || is_missing {
            kept_nodes.insert(change.node);
        }
    }
    let is_kept = |change: &NodeChange| kept_nodes.contains(&change.node);
    for revision in &mut revisions.revisions {
        revision.changes.retain(is_kept);
    }
}

/// Removes the changes that created the root directories of Workspaces: a Workspace can't be removed, only its content can.
fn keep_roots(revisions: &mut RevisionSet, workspaces: &[&Workspace]) {
    let is_root = |path: &StorePath| workspaces.iter().any(|workspace| workspace.mount().path() == path);
    let created = oldest_states(revisions).into_iter().filter(|(_, before)| before.is_none());
    let is_current_root = |node: &NodeId| revisions.current.get(node).is_some_and(|node| is_root(&node.path));
    let roots: HashSet<NodeId> = created.map(|(node, _)| node).filter(is_current_root).collect();
    for revision in &mut revisions.revisions {
        revision.changes.retain(|change| !roots.contains(&change.node));
    }
}

/// Removes changes to scratch files, which have no history and stay as they are.
fn remove_scratch(revisions: &mut RevisionSet, workspaces: &[&Workspace]) {
    let is_scratch = |state: &NodeState| {
        workspaces.iter().any(|workspace| {
            let relative_path = state.path.strip_prefix(workspace.mount().path());
            relative_path.is_some_and(|relative_path| workspace.scratch().matches_bytes(relative_path))
        })
    };
    if workspaces.iter().all(|workspace| workspace.scratch().is_empty()) {
        return;
    }
    for revision in &mut revisions.revisions {
        revision.changes.retain(|change| {
            [&change.before, &change.after].into_iter().flatten().any(|state| !is_scratch(state))
        });
    }
}
