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
    /// Restores everything at and below a path to its state at a point in time, or only the paths that `what` lists. Those
    /// must lie below the path or in the same Workspace.
    ///
    /// The path may be a Workspace, something in one, or a level above several, such as `/`. Workspaces nested below it
    /// are restored too, each under its own scope. What the caller may not change, and Workspaces whose Store doesn't
    /// have this point in time, stay as they are and are listed in [`RevertResult::left_out`].
    pub fn restore(
        &self,
        prefix: impl IntoPath,
        point: impl Into<PointInTime>,
        what: &RestoreOptions,
    ) -> Result<RevertResult> {
        let point = point.into();
        self.call("restore", [prefix.into_path()], |call, [prefix]| call.restore(prefix, point, what))
    }
}

impl Call<'_> {
    fn restore(&self, prefix: &VfsPath, point: PointInTime, what: &RestoreOptions) -> Result<RevertResult> {
        self.set_dry_run(what.dry_run);
        let mut targets = self.history_targets(prefix, Access::Restore)?;
        let point = self.resolve_point(point)?;
        if !what.paths.is_empty() {
            let main = targets.main;
            (targets.targets, targets.refused) = (Vec::new(), Vec::new());
            for path in &what.paths {
                let inside = path.strip_prefix(prefix).is_some()
                    || main.is_some_and(|workspace| path.strip_prefix(workspace.prefix()).is_some());
                if !inside {
                    return Err(Error::Invalid(format!("`{path}` is not in the Workspace of `{prefix}`")));
                }
                let more = self.history_targets(path, Access::Restore)?;
                targets.targets.extend(more.targets);
                targets.refused.extend(more.refused);
            }
        }
        let mut parts: Vec<(StoreGroup<'_>, RevisionNumber, Vec<StorePath>)> = Vec::new();
        for (workspace, below, [number]) in targets.take_at([&point])? {
            let store = workspace.mount().store();
            match parts.iter_mut().find(|(group, ..)| same_store(&**group.store, &**store)) {
                Some((group, _, paths)) => {
                    if !group.workspaces.iter().any(|known| known.prefix() == workspace.prefix()) {
                        group.workspaces.push(workspace);
                    }
                    paths.push(below);
                }
                None => parts.push((StoreGroup { store, workspaces: vec![workspace] }, number, vec![below])),
            }
        }
        let refused = targets.refused.into_iter();
        let left_out = refused.map(|(path, error)| PathConflict { path, why: error.to_string() }).collect();
        let mut planned = Vec::new();
        for (group, number, below) in parts {
            let failed =
                |cause| Error::Store { path: prefix.clone(), visibility: Visibility::Visible, cause };
            let latest = || group.store.require_history().and_then(|history| history.latest_revision());
            if number != RevisionNumber::NOW && number > latest().map_err(failed)? {
                return Err(not_in_history(format!("version {number}")));
            }
            check_retained(&**group.store, number).map_err(failed)?;
            let revisions = revisions_since(&group, number, &below).map_err(failed)?;
            let source = RevertSource::Since(number, below);
            let (mode, withheld) = (RevertMode::Exact, BTreeSet::new());
            planned.push(self.plan_with_retries(StoreRevert { group, revisions, mode, source, withheld })?);
        }
        let options = UndoOptions { dry_run: what.dry_run, on_conflict: OnConflict::Refuse };
        self.execute_reverts(planned, RevertSummary::restore(left_out), options)
    }
}

/// The revisions after a given one, at or below these paths and without scratch files.
pub(super) fn revisions_since(
    ground: &StoreGroup<'_>,
    version: RevisionNumber,
    below: &[StorePath],
) -> StoreResult<RevisionSet> {
    let mut deeds = ground.store.require_history()?.changes_between(version, RevisionNumber::NOW, below)?;
    retain_below(&mut deeds, below);
    remove_scratch(&mut deeds, &ground.workspaces);
    Ok(deeds)
}

/// Fails if the Store no longer retains a revision. Any other error of [`Store::as_of`] passes: the revisions that the
/// Store has are used.
pub(super) fn check_retained(store: &dyn Store, version: RevisionNumber) -> StoreResult<()> {
    match store.require_history().and_then(|history| history.as_of(version)) {
        Err(cause @ StoreError::Expired(_)) => Err(cause),
        // For example a revision from before a fork was made: then the fork's revisions are all that it did.
        _ => Ok(()),
    }
}

/// Keeps only changes to nodes that are or were at or below one of these paths, and to missing directories that those
/// nodes need.
fn retain_below(deeds: &mut RevisionSet, below: &[StorePath]) {
    let inside = |path: &StorePath| below.iter().any(|top| path.is_at_or_below(top));
    let leads = |state: &NodeState| {
        state.kind == NodeKind::Directory && below.iter().any(|top| top.is_at_or_below(&state.path))
    };
    let now = &deeds.current;
    let mut wanted = HashSet::new();
    for line in deeds.revisions.iter().flat_map(|deed| &deed.changes) {
        let states = [&line.before, &line.after];
        let is_inside = states.into_iter().flatten().any(|state| inside(&state.path))
            || now.get(&line.node).is_some_and(|now| inside(&now.path));
        let is_missing = !now.contains_key(&line.node) && line.before.as_ref().is_some_and(leads);
        if is_inside || is_missing {
            wanted.insert(line.node);
        }
    }
    let keep = |line: &NodeChange| wanted.contains(&line.node);
    for deed in &mut deeds.revisions {
        deed.changes.retain(keep);
    }
}

/// Removes changes to scratch files, which have no history and stay as they are.
fn remove_scratch(deeds: &mut RevisionSet, workspaces: &[&Workspace]) {
    let is_scratch = |state: &NodeState| {
        workspaces.iter().any(|workspace| {
            let below = state.path.strip_prefix(workspace.mount().path());
            below.is_some_and(|below| workspace.scratch().matches_bytes(below))
        })
    };
    if workspaces.iter().all(|workspace| workspace.scratch().is_empty()) {
        return;
    }
    for deed in &mut deeds.revisions {
        deed.changes
            .retain(|line| [&line.before, &line.after].into_iter().flatten().any(|state| !is_scratch(state)));
    }
}
