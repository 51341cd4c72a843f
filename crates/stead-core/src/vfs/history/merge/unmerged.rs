//! What a part of a fork has changed that can't be merged, because the caller may not write what the part was made from.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{NodeState, SidesQuery};
use crate::vfs::Vfs;
use crate::vfs::call::Call;
use crate::vfs::history::merge::manifest::RowEdits;
use crate::vfs::history::merge::plan::{Direction, side_changes};
use crate::vfs::history::merge::progress::MergeProgress;
use crate::vfs::history::merge::{ForkHandle, MergeChoice, MergeOptions, store_error};

/// Changes of a part of a fork that no one may merge for the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmergedChanges {
    /// The changed paths that the caller may see.
    pub paths: Vec<VfsPath>,
    /// Whether there are changes of which the caller may see no path.
    pub has_unseen: bool,
    /// The changed paths that a rule leaves out.
    pub left_out: Vec<VfsPath>,
    /// Whether a rule leaves out changes of which the caller may see no path.
    pub left_out_unseen: bool,
}

impl Vfs {
    /// The changes of a part of a fork, without those that the rules leave out. `prefix` is the Workspace whose paths the result has;
    /// without one, the caller may see none.
    pub fn unmerged_changes(
        &self,
        prefix: Option<&VfsPath>,
        fork: ForkHandle<'_>,
        options: &MergeOptions,
    ) -> Result<UnmergedChanges> {
        let paths: Vec<VfsPath> = prefix.into_iter().cloned().collect();
        self.call("merge", [], |call, []| {
            call.set_paths(paths);
            call.unmerged_changes(prefix, fork, options)
        })
    }
}

impl Vfs {
    /// Whether a fork, or a part of one, has changed anything since it took in its target's changes the last time. Needs no access to
    /// either, and says nothing about what was changed.
    pub fn has_fork_changes(&self, fork: ForkHandle<'_>) -> Result<bool> {
        self.unaudited_call("compare", [], |call, []| {
            let failed = |cause| store_error(&fork.fork.base_prefix, cause);
            let sides = call
                .fork_sides(fork, SidesQuery::BaseAndFork, &BTreeSet::new(), &MergeProgress::of(call))
                .map_err(failed)?;
            let has_rows = || RowEdits::plan(fork, Direction::IntoTarget).map(|edits| edits.are_needed());
            Ok(!side_changes(&sides, &sides.in_fork, &BTreeSet::new()).is_empty()
                || has_rows().map_err(failed)?)
        })
    }

    /// Whether the target of a fork, or of a part of one, has changed anything that the fork hasn't taken in. Like
    /// [`Vfs::has_fork_changes`].
    pub fn has_target_changes(&self, fork: ForkHandle<'_>) -> Result<bool> {
        self.unaudited_call("compare", [], |call, []| {
            let failed = |cause| store_error(&fork.fork.base_prefix, cause);
            let sides = call
                .fork_sides(fork, SidesQuery::SinceSync, &BTreeSet::new(), &MergeProgress::of(call))
                .map_err(failed)?;
            let has_rows = || RowEdits::plan(fork, Direction::IntoFork).map(|edits| edits.are_needed());
            Ok(!side_changes(&sides, &sides.in_target, &BTreeSet::new()).is_empty()
                || has_rows().map_err(failed)?)
        })
    }
}

impl Call<'_> {
    fn unmerged_changes(
        &self,
        prefix: Option<&VfsPath>,
        fork: ForkHandle<'_>,
        options: &MergeOptions,
    ) -> Result<UnmergedChanges> {
        let group = prefix.map(|prefix| self.merge_group(prefix, Access::History)).transpose()?;
        let base_prefix = &fork.fork.base_prefix;
        let failed = |cause| store_error(prefix.unwrap_or(base_prefix), cause);
        let sides = self
            .fork_sides(fork, SidesQuery::BaseAndFork, &BTreeSet::new(), &MergeProgress::of(self))
            .map_err(failed)?;
        let visible = |state: &NodeState| {
            let group = group.as_ref()?;
            self.logical_path(group, &state.path)
        };
        let rule_path = |path: &VfsPath| {
            let relative_path = path.strip_prefix(prefix?)?.to_owned();
            Some(options.path_for_rules(relative_path))
        };
        let mut found = UnmergedChanges::default();
        for (base, in_fork) in side_changes(&sides, &sides.in_fork, &BTreeSet::new()) {
            let states = [in_fork.as_ref(), base.as_ref()].into_iter().flatten();
            let paths: Vec<VfsPath> = states.filter_map(visible).collect();
            let rule_paths: Vec<String> = paths.iter().filter_map(rule_path).collect();
            let is_left_out = options.choice_for(&rule_paths) == Some(&MergeChoice::LeaveOut);
            match (paths.into_iter().next(), is_left_out) {
                (Some(path), true) => found.left_out.push(path),
                (Some(path), false) => found.paths.push(path),
                (None, true) => found.left_out_unseen = true,
                (None, false) => found.has_unseen = true,
            }
        }
        Ok(found)
    }
}
