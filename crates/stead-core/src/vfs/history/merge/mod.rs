//! Merging a fork into the Workspace that it was made from, and bringing that Workspace's changes into the fork.
//!
//! A merge is planned from the three sides of the fork (`plan`), checked against the caller's rights, and made with one
//! change of the target (`apply`). That change is the commit point. It carries a record of which revision of the fork was
//! merged. Then the fork takes in the result, with a change of its own. If the process dies in between, the next merge,
//! update or diff of the fork reads the record and takes the result in.

mod apply;
mod authors;
mod choices;
mod describe;
mod plan;
mod records;

pub use choices::{MergeChoice, MergeRule, RulePaths};
pub use describe::{MergeConflict, MergeConflictKind, MergeHunk, SideState};

pub(super) use authors::stored_line_authors;
pub(super) use records::merged_fork;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result, Visibility};
use crate::history::RevertAction;
use crate::identity::OperationId;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Fork, NodeState, SidesQuery, Store, StoreError};
use crate::vfs::call::Call;
use crate::vfs::history::StoreGroup;
use crate::vfs::history::compare::{DiffOptions, Difference};
use crate::vfs::history::undo::PathConflict;
use crate::vfs::{IntoPath, Vfs};

/// A fork, and the Store that holds it.
#[derive(Debug, Clone, Copy)]
pub struct ForkHandle<'a> {
    /// The fork.
    pub fork: &'a Fork,
    /// Its Store.
    pub store: &'a Arc<dyn Store>,
}

/// How a fork is merged or updated.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// Only report what would be done.
    pub dry_run: bool,
    /// What to do about paths. For each path, the last rule that matches it counts.
    pub rules: Vec<MergeRule>,
    /// Whether each content conflict is described with the merged file, which has markers around the conflicts.
    pub with_markers: bool,
}

/// What a merge or an update did, or would do.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MergeResult {
    /// The operation that did it; `None` if nothing was changed.
    pub operation: Option<OperationId>,
    /// What it does to each path: of the target for a merge, of the fork for an update.
    pub changes: Vec<MergeChange>,
    /// What could not be merged. A merge with conflicts changes nothing. An update writes the ones of kind `content` and
    /// `added/added` into the files, between markers, if these are text.
    pub conflicts: Vec<MergeConflict>,
    /// The paths that the caller may not change, and why. With one of them, a merge changes nothing.
    pub refused: Vec<PathConflict>,
    /// The changed paths that were left out, by a rule.
    pub left_out: Vec<VfsPath>,
    /// Whether the changes were made.
    pub done: bool,
}

/// What a merge does to one path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeChange {
    /// The path after the change; before it, if the node is removed.
    pub path: VfsPath,
    /// The path before, if the node is moved.
    pub from: Option<VfsPath>,
    /// What is done.
    pub action: MergeAction,
}

/// What a merge can do to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MergeAction {
    /// It is added.
    Added,
    /// It gets the other side's content.
    Changed,
    /// Both sides' lines are combined.
    Merged,
    /// It is renamed.
    Moved,
    /// Its attributes are set.
    Attributes,
    /// It is removed.
    Removed,
}

impl MergeAction {
    /// The action as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            MergeAction::Added => "added",
            MergeAction::Changed => "changed",
            MergeAction::Merged => "merged",
            MergeAction::Moved => "moved",
            MergeAction::Attributes => "attributes",
            MergeAction::Removed => "removed",
        }
    }
}

impl From<RevertAction> for MergeAction {
    fn from(action: RevertAction) -> Self {
        match action {
            RevertAction::Restored => MergeAction::Added,
            RevertAction::Reverted => MergeAction::Changed,
            RevertAction::Merged => MergeAction::Merged,
            RevertAction::Moved => MergeAction::Moved,
            RevertAction::Attributes => MergeAction::Attributes,
            RevertAction::Removed => MergeAction::Removed,
        }
    }
}

impl Vfs {
    /// Merges a fork into the Workspace at `prefix`, which has to be over the Store that the fork was made from.
    ///
    /// It needs the access that a restore needs, at each path that changes. A merge with a conflict, or with a path that
    /// the caller may not change, changes nothing; the result says why.
    pub fn merge_fork(
        &self,
        prefix: impl IntoPath,
        fork: ForkHandle<'_>,
        options: &MergeOptions,
    ) -> Result<MergeResult> {
        self.call("merge", [prefix.into_path()], |call, [prefix]| call.merge_fork(prefix, fork, options))
    }

    /// How a fork differs from its base: from the target as it was when the fork took in its changes the last time.
    ///
    /// `prefix` is the Workspace whose paths the result has: the fork itself, or the Workspace that it was made from.
    pub fn diff_fork(
        &self,
        prefix: impl IntoPath,
        fork: ForkHandle<'_>,
        options: DiffOptions,
    ) -> Result<Vec<Difference>> {
        self.call("diff", [prefix.into_path()], |call, [prefix]| call.diff_fork(prefix, fork, options))
    }

    /// Brings the changes of the Store that a fork was made from into the fork, which is the Workspace at `prefix`.
    ///
    /// Conflicts in text are written into the fork's files, between markers. Other conflicts leave the fork's side as it is.
    /// All of them are part of the result.
    pub fn update_fork(
        &self,
        prefix: impl IntoPath,
        fork: ForkHandle<'_>,
        options: &MergeOptions,
    ) -> Result<MergeResult> {
        self.call("update", [prefix.into_path()], |call, [prefix]| call.update_fork(prefix, fork, options))
    }
}

impl Call<'_> {
    fn diff_fork(
        &self,
        prefix: &VfsPath,
        fork: ForkHandle<'_>,
        options: DiffOptions,
    ) -> Result<Vec<Difference>> {
        let group = self.merge_group(prefix, Access::History)?;
        let failed = |cause| store_error(prefix, cause);
        if group.workspaces[0].scope().allows(Access::Restore) {
            // Until the fork has taken in its last merge, what it merged would count as different.
            match self.finish_merge_of(fork) {
                // Without the target, the fork can still be compared with what it knows of it.
                Err(StoreError::Unavailable { .. }) => {}
                finished => finished.map_err(failed)?,
            }
        }
        let sides = self.fork_sides(fork, SidesQuery::BaseAndFork).map_err(failed)?;
        let mut differences = Vec::new();
        for (base, in_fork) in plan::side_changes(&sides, &sides.in_fork, &BTreeSet::new()) {
            let is_visible = |state: &&NodeState| self.logical_path(&group, &state.path).is_some();
            let (old, new) = (base.as_ref().filter(is_visible), in_fork.as_ref().filter(is_visible));
            differences.extend(self.difference(&group, old, new, options).map_err(failed)?);
        }
        differences.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(differences)
    }

    /// The Workspace at a prefix, alone, if the caller has this access there.
    fn merge_group(&self, prefix: &VfsPath, access: Access) -> Result<StoreGroup<'_>> {
        let resolved = self.authorize(prefix, access)?;
        if !resolved.is_workspace() {
            let workspace = resolved.workspace.prefix();
            return Err(Error::Invalid(format!(
                "`{prefix}` isn't a Workspace; name the whole Workspace `{workspace}` instead"
            )));
        }
        let workspace = self
            .vfs
            .workspaces()
            .find(|workspace| workspace.prefix() == prefix)
            .ok_or_else(|| Error::Invalid(format!("`{prefix}` isn't a Workspace")))?;
        Ok(StoreGroup { store: workspace.mount().store(), workspaces: vec![workspace] })
    }
}

/// A Store's error for the Workspace at a prefix.
fn store_error(prefix: &VfsPath, cause: StoreError) -> Error {
    Error::Store { path: prefix.clone(), visibility: Visibility::Visible, cause }
}
