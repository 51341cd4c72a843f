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
mod manifest;
mod plan;
mod progress;
mod records;
mod texts;
mod unmerged;
mod withheld;

pub use choices::{MergeChoice, MergeRule, RestOfPart, RulePaths};
pub use describe::{MergeConflict, MergeConflictKind, MergeHunk, SideState};
pub use manifest::RetaggedFile;
pub use unmerged::UnmergedChanges;

pub(super) use authors::stored_line_authors;
pub(super) use records::merged_fork;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result, Visibility};
use crate::history::RevertAction;
use crate::identity::OperationId;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Fork, NodeKind, NodeState, SidesQuery, Store, StoreError};
use crate::vfs::call::Call;
use crate::vfs::history::StoreGroup;
use crate::vfs::history::compare::{DiffOptions, Difference};
use crate::vfs::history::merge::progress::MergeProgress;
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
    /// With `dry_run`: the plan will be carried out. So the fork first takes in a merge that was committed and then interrupted.
    pub finish_earlier: bool,
    /// What to do about paths. For each path, the last rule that matches it counts.
    pub rules: Vec<MergeRule>,
    /// Where the merged part is in the whole fork: the paths of rules are relative to the whole. `None` for the fork itself.
    pub place: Option<VfsPath>,
    /// Whether each content conflict is described with the merged file, which has markers around the conflicts.
    pub with_markers: bool,
    /// Whether each change is described with the contents before and after it.
    pub with_contents: bool,
    /// The changes of the fork that were shown ([`MergeResult::fork_state`]). If the fork has others by now, the merge fails.
    pub fork_state: Option<ForkState>,
}

/// Tells apart what a fork has changed at two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ForkState([u8; 32]);

impl MergeOptions {
    /// What the rules say about something with these paths, as rules know them. None of them if the caller may not see it.
    pub fn choice_for(&self, paths: &[String]) -> Option<&MergeChoice> {
        choices::choice_for(&self.rules, paths)
    }

    /// The path by which rules know a path of the merged part.
    fn path_for_rules(&self, path: String) -> String {
        match self.place.as_ref().map(|place| &place.as_str()[1..]) {
            None | Some("") => path,
            Some(place) if path.is_empty() => place.to_owned(),
            Some(place) => format!("{place}/{path}"),
        }
    }
}

impl ForkState {
    /// Of a fork with several parts.
    pub fn combined(parts: &[ForkState]) -> Self {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.0).collect();
        ForkState(*blake3::hash(&bytes).as_bytes())
    }

    /// Of what a fork has changed: each node before and after, and the tags of managed files.
    fn of(changes: &[(Option<NodeState>, Option<NodeState>)], tags: &[String]) -> Self {
        let mut lines: Vec<String> = changes
            .iter()
            .map(|(before, after)| {
                let from = before.as_ref().map(|state| state.path.as_bytes());
                let to = after.as_ref().map(|state| {
                    let content = state.content.as_ref().map(|content| (content.size(), content.id()));
                    (state.path.as_bytes(), state.kind, state.mode, content)
                });
                format!("{from:?} {to:?}")
            })
            .collect();
        lines.extend_from_slice(tags);
        lines.sort();
        ForkState(*blake3::hash(lines.join("\n").as_bytes()).as_bytes())
    }
}

/// What a merge or an update did, or would do.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MergeResult {
    /// The operation that did it; `None` if nothing was changed.
    pub operation: Option<OperationId>,
    /// What it does to each path: of the target for a merge, of the fork for an update.
    pub changes: Vec<MergeChange>,
    /// The managed files whose tags it changes. They need not have any other change.
    pub retagged: Vec<RetaggedFile>,
    /// What could not be merged. A merge with conflicts changes nothing. An update writes the ones of kind `content` and
    /// `added/added` into the files, between markers, if these are text.
    pub conflicts: Vec<MergeConflict>,
    /// The paths that the caller may not change, and why. With one of them, a merge changes nothing.
    pub refused: Vec<PathConflict>,
    /// The changed paths that were left out, by a rule.
    pub left_out: Vec<VfsPath>,
    /// Whether a rule left out changes of which the caller may see no path.
    pub left_out_unseen: bool,
    /// The files that get the content of a rule ([`MergeChoice::Content`]): the paths that they have on any side, as rules know them.
    pub given: BTreeSet<String>,
    /// The changes of the fork that the merge was planned with, if [`MergeOptions::with_contents`] asks for them.
    pub fork_state: Option<ForkState>,
    /// Whether rules decided something, so that a sync was made although nothing may have changed.
    pub decided: bool,
    /// Whether rules made the fork give up its side of something, so that it changed although the target may not have.
    pub fork_gave_up: bool,
    /// Whether the changes were made.
    pub done: bool,
    /// If `done` doesn't hold: the Workspaces that were merged nevertheless, before another part of the fork could not be merged any
    /// more. `changes` are those that were made there. To merge again goes on with the rest.
    pub merged: Vec<VfsPath>,
}

impl MergeResult {
    /// Adds the result of another part of the same fork.
    pub fn add_part(&mut self, part: MergeResult) {
        self.operation = self.operation.or(part.operation);
        self.changes.extend(part.changes);
        self.retagged.extend(part.retagged);
        self.conflicts.extend(part.conflicts);
        self.refused.extend(part.refused);
        self.left_out.extend(part.left_out);
        self.left_out_unseen |= part.left_out_unseen;
        self.given.extend(part.given);
        self.fork_gave_up |= part.fork_gave_up;
        self.decided |= part.decided;
        self.merged.extend(part.merged);
        self.changes.sort_by(|one, other| one.path.cmp(&other.path));
        self.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        self.refused.sort_by(|one, other| one.path.cmp(&other.path));
        self.retagged.sort_by(|one, other| one.path.cmp(&other.path));
        self.left_out.sort();
    }

    /// Whether it changes nothing on the side that takes in the other one's changes.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty() && self.retagged.is_empty()
    }

    /// Whether a conflict or a refusal stands in the way.
    pub fn is_stopped(&self) -> bool {
        !self.conflicts.is_empty() || !self.refused.is_empty()
    }

    /// Whether nothing of the fork was left out, so that it can be discarded without losing a change.
    pub fn took_everything(&self) -> bool {
        self.done && self.left_out.is_empty() && !self.left_out_unseen
    }

    /// Whether all that stands in the way are files of the fork that still have the markers of an update.
    pub fn has_only_markers(&self) -> bool {
        self.refused.is_empty()
            && !self.conflicts.is_empty()
            && self.conflicts.iter().all(|conflict| conflict.kind == MergeConflictKind::Unresolved)
    }
}

/// The contents of a path before and after a change; for a symlink, where it leads. Content that is too large to be shown is
/// `None`, as is that of a directory and of a path that doesn't exist.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedContent {
    /// What the path is: after the change or, if it is removed, before it.
    pub kind: NodeKind,
    /// The content before.
    pub before: Option<Arc<Vec<u8>>>,
    /// The content after.
    pub after: Option<Arc<Vec<u8>>>,
    /// The permission bits before; `None` if the path doesn't exist.
    pub mode_before: Option<u32>,
    /// The permission bits after; `None` if the path is removed.
    pub mode_after: Option<u32>,
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
    /// The contents, if [`MergeOptions::with_contents`] asks for them.
    pub content: Option<ChangedContent>,
}

/// What a merge can do to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
            match self.finish_merge_of(fork, &MergeProgress::of(self)) {
                // Without the target, the fork can still be compared with what it knows of it.
                Err(StoreError::Unavailable { .. } | StoreError::Expired(_)) => {}
                finished => finished.map_err(failed)?,
            }
        }
        let progress = MergeProgress::of(self);
        let sides =
            self.fork_sides(fork, SidesQuery::BaseAndFork, &BTreeSet::new(), &progress).map_err(failed)?;
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
