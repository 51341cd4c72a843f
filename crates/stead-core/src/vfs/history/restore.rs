//! Restore: puts files back to their state at a revision.

use std::collections::{BTreeSet, HashSet};

use crate::error::{Error, Result, Visibility};
use crate::history::RevertMode;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    NodeChange, NodeKind, NodeState, RevisionNumber, RevisionSet, Store, StoreError, StorePath, StoreResult,
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
    /// The path may be a Workspace, something in one, or a level above several, such as `/`. Workspaces nested below it
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
        let mut targets = self.history_targets(prefix, Access::Restore)?;
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
            let revisions = revisions_since(&group, number, &paths).map_err(failed)?;
            let source = RevertSource::Since(number, paths);
            let (mode, withheld) = (RevertMode::Exact, BTreeSet::new());
            planned.push(self.plan_with_retries(StoreRevert { group, revisions, mode, source, withheld })?);
        }
        let undo_options = UndoOptions { dry_run: options.dry_run, on_conflict: OnConflict::Refuse };
        self.execute_reverts(planned, RevertSummary::restore(left_out), undo_options)
    }
}

/// The revisions after a given one, at or below these paths and without scratch files.
pub(super) fn revisions_since(
    group: &StoreGroup<'_>,
    since: RevisionNumber,
    paths: &[StorePath],
) -> StoreResult<RevisionSet> {
    let mut revisions = group.store.require_history()?.changes_between(since, RevisionNumber::NOW, paths)?;
    retain_below(&mut revisions, paths);
    remove_scratch(&mut revisions, &group.workspaces);
    Ok(revisions)
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

/// Keeps only changes to nodes that are or were at or below one of these paths, and to missing directories that those
/// nodes need.
fn retain_below(revisions: &mut RevisionSet, paths: &[StorePath]) {
    let is_below_root = |path: &StorePath| paths.iter().any(|root| path.is_at_or_below(root));
    let leads_to_root = |state: &NodeState| {
        state.kind == NodeKind::Directory && paths.iter().any(|root| root.is_at_or_below(&state.path))
    };
    let current = &revisions.current;
    let mut kept_nodes = HashSet::new();
    for change in revisions.revisions.iter().flat_map(|revision| &revision.changes) {
        let states = [&change.before, &change.after];
        let is_inside = states.into_iter().flatten().any(|state| is_below_root(&state.path))
            || current.get(&change.node).is_some_and(|current| is_below_root(&current.path));
        let is_missing =
            !current.contains_key(&change.node) && change.before.as_ref().is_some_and(leads_to_root);
        if is_inside || is_missing {
            kept_nodes.insert(change.node);
        }
    }
    let is_kept = |change: &NodeChange| kept_nodes.contains(&change.node);
    for revision in &mut revisions.revisions {
        revision.changes.retain(is_kept);
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
