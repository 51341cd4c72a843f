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
use crate::vfs::{IntoPath, LogQuery, PointInTime, Vfs};
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

/// Fails if nothing is at a path and its history knows of nothing there, for a comparison or a restore that has found nothing to do:
/// probably the path is a typing error, or a name that leads elsewhere in a managed Workspace.
pub fn check_exists(vfs: &Vfs, path: &VfsPath) -> Result<()> {
    let Err(missing) = vfs.stat_link(path) else { return Ok(()) };
    let query = LogQuery { path: Some(path.clone()), limit: 1, ..LogQuery::default() };
    if vfs.log(&query).is_ok_and(|entries| !entries.is_empty()) {
        return Ok(());
    }
    Err(match vfs.stat(path) {
        Ok(found) => Error::Invalid(format!("`{path}` leads to `{}`; name that path instead", found.path)),
        Err(_) => missing,
    })
}

impl RevertResult {
    /// Fails like [`check_exists`] if a restore of these paths has found nothing to do.
    pub fn check_found(&self, vfs: &Vfs, options: &RestoreOptions) -> Result<()> {
        if !self.changes.is_empty() || !self.conflicts.is_empty() || !self.left_out.is_empty() {
            return Ok(());
        }
        options.paths.iter().try_for_each(|path| check_exists(vfs, path))
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
        let is_named = |workspace: &Workspace| {
            let main = targets.main.map(Workspace::prefix);
            main == Some(workspace.prefix())
                || options.paths.iter().any(|path| path.strip_prefix(workspace.prefix()).is_some())
        };
        let named: Vec<VfsPath> = targets
            .targets
            .iter()
            .map(|(workspace, _)| *workspace)
            .filter(|workspace| is_named(workspace))
            .map(|workspace| workspace.prefix().clone())
            .collect();
        let mut parts: Vec<RestoredPart<'_>> = Vec::new();
        for (workspace, store_path, [number]) in targets.take_at([&point])? {
            let store = workspace.mount().store();
            let target = (workspace.prefix().clone(), store_path);
            match parts.iter_mut().find(|part| same_store(&**part.group.store, &**store)) {
                Some(RestoredPart { group, targets, .. }) => {
                    if !group.workspaces.iter().any(|known| known.prefix() == workspace.prefix()) {
                        group.workspaces.push(workspace);
                    }
                    targets.push(target);
                }
                None => {
                    let group = StoreGroup { store, workspaces: vec![workspace] };
                    parts.push(RestoredPart { group, number, targets: vec![target] });
                }
            }
        }
        let refused = targets.refused.into_iter();
        let mut left_out: Vec<_> =
            refused.map(|(path, error)| PathConflict { path, why: error.to_string() }).collect();
        let mut planned = Vec::new();
        for mut part in parts {
            let failed =
                |cause| Error::Store { path: prefix.clone(), visibility: Visibility::Visible, cause };
            let number = part.number;
            let history = part.group.store.require_history().map_err(failed)?;
            if number != RevisionNumber::NOW && number > history.latest_revision().map_err(failed)? {
                return Err(not_in_history(format!("version {number}")));
            }
            check_retained(&**part.group.store, number).map_err(failed)?;
            let planned_changes = loop {
                if part.targets.is_empty() {
                    break None;
                }
                let paths: Vec<StorePath> = part.targets.iter().map(|(_, path)| path.clone()).collect();
                let since = self.revisions_since(&part.group, number, &paths).map_err(failed)?;
                if !part.leave_out_unknown(&since.earlier_roots, &named, &mut left_out)? {
                    break Some((paths, since.revisions));
                }
            };
            let Some((paths, revisions)) = planned_changes else { continue };
            let (group, source) = (part.group, RevertSource::Since(number, paths));
            let (mode, withheld) = (RevertMode::Exact, BTreeSet::new());
            planned.push(self.plan_with_retries(StoreRevert {
                group,
                revisions,
                mode,
                source,
                withheld,
                withheld_path: None,
            })?);
        }
        let undo_options = UndoOptions { dry_run: options.dry_run, on_conflict: OnConflict::Refuse };
        self.execute_reverts(planned, RevertSummary::restore(left_out), undo_options)
    }
}

/// What is restored in one Store.
struct RestoredPart<'a> {
    group: StoreGroup<'a>,
    number: RevisionNumber,
    /// The paths, each with the prefix of its Workspace.
    targets: Vec<(VfsPath, StorePath)>,
}

/// What a revision says about the directory that a Workspace shows now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlierRoot {
    /// It was at another place, so the revision says nothing about files at its present one.
    Elsewhere,
    /// It didn't exist.
    Absent,
}

impl RestoredPart<'_> {
    /// Removes the targets about which the revision says nothing: to restore them would only delete their files. `named` are the
    /// Workspaces that the caller has named itself. A directory that was created since is emptied only if its Workspace is
    /// one of them. Returns whether anything was removed.
    fn leave_out_unknown(
        &mut self,
        roots: &[(VfsPath, EarlierRoot)],
        named: &[VfsPath],
        left_out: &mut Vec<PathConflict>,
    ) -> Result<bool> {
        let before = self.targets.len();
        for (prefix, root) in roots {
            let is_named = named.contains(prefix);
            let why = match root {
                EarlierRoot::Elsewhere => {
                    "the directory of this Workspace was at another place at that time, so that version says nothing \
                     about its files; choose a later one"
                }
                EarlierRoot::Absent if is_named => continue,
                EarlierRoot::Absent => {
                    "the directory of this Workspace didn't exist at that time; name this path to remove what is in it"
                }
            };
            if is_named && named.len() == 1 {
                return Err(Error::Invalid(format!("`{prefix}` can't be restored: {why}")));
            }
            left_out.push(PathConflict { path: prefix.clone(), why: why.to_owned() });
            self.targets.retain(|(target, _)| target != prefix);
            self.group.workspaces.retain(|workspace| workspace.prefix() != prefix);
        }
        Ok(self.targets.len() < before)
    }
}

/// What has changed since a revision.
pub(super) struct ChangesSince {
    pub(super) revisions: RevisionSet,
    /// The Workspaces whose directory wasn't at its present place at that revision.
    earlier_roots: Vec<(VfsPath, EarlierRoot)>,
}

impl ChangesSince {
    /// Whether a Workspace's directory was at another place. Then nothing can be restored there.
    pub(super) fn has_moved_root(&self) -> bool {
        self.earlier_roots.iter().any(|(_, root)| *root == EarlierRoot::Elsewhere)
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
    ) -> StoreResult<ChangesSince> {
        let hidden_paths = group.workspaces.iter().flat_map(|workspace| self.hidden_paths(workspace));
        let hidden_paths: Vec<StorePath> = hidden_paths.filter(|path| is_inside(path, paths)).collect();
        let mut scope = paths.to_vec();
        loop {
            let query_paths = [&*scope, &*hidden_paths].concat();
            let history = group.store.require_history()?;
            let mut revisions = history.changes_between(since, RevisionNumber::NOW, &query_paths)?;
            let earlier_roots = earlier_roots(&revisions, &group.workspaces);
            group.remove_before_own(&mut revisions);
            let mut returning = returning_directories(&revisions, paths);
            returning.retain(|path| !is_inside(path, &scope) && self.logical_path(group, path).is_some());
            if returning.is_empty() {
                retain_below(&mut revisions, paths, &scope);
                remove_scratch(&mut revisions, &group.workspaces);
                keep_roots(&mut revisions, &group.workspaces);
                return Ok(ChangesSince { revisions, earlier_roots });
            }
            scope.extend(returning);
        }
    }
}

/// The Workspaces whose directory wasn't at its present place before these revisions.
///
/// A directory is at another place because it was moved itself or because one above it was. Then what is in it came along
/// without having been moved.
fn earlier_roots(revisions: &RevisionSet, workspaces: &[&Workspace]) -> Vec<(VfsPath, EarlierRoot)> {
    let oldest_states = oldest_states(revisions);
    let nodes =
        || oldest_states.iter().filter_map(|(node, before)| Some((*before, revisions.current.get(node)?)));
    let root_of = |workspace: &Workspace| {
        let mount = workspace.mount().path();
        if mount.depth() == 0 {
            return None;
        }
        let is_below = |path: &StorePath| path.is_at_or_below(mount) && path != mount;
        let moved_in: Vec<&StorePath> = nodes()
            .filter(|(before, current)| {
                is_below(&current.path) && before.is_some_and(|before| is_moved(before, current))
            })
            .map(|(_, current)| &current.path)
            .collect();
        let came_along = |(before, current): (Option<&NodeState>, &CurrentNode)| {
            let is_moved_in = moved_in.iter().any(|top| current.path.is_at_or_below(top));
            before.is_some_and(|before| {
                current.path.is_at_or_below(mount) && !before.path.is_at_or_below(mount) && !is_moved_in
            })
        };
        let is_new_root = |(before, current): (Option<&NodeState>, &CurrentNode)| {
            before.is_none() && current.path == *mount
        };
        match (nodes().any(came_along), nodes().any(is_new_root)) {
            (true, _) => Some(EarlierRoot::Elsewhere),
            (false, true) => Some(EarlierRoot::Absent),
            (false, false) => None,
        }
    };
    let found =
        workspaces.iter().filter_map(|workspace| Some((workspace.prefix().clone(), root_of(workspace)?)));
    found.collect()
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
