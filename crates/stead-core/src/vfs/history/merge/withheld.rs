//! What a merge or an update must not know of the target, because the caller can't see it there now.
//!
//! A fork has what its maker saw when it was made, and its Store has all of the target's changes since. Neither says what the caller
//! may see of the target. So before anything is planned, the target's states are replaced by what the caller can know of them: what
//! was moved to where it can't see it is deleted, and what it could not see at all has not changed. Then no result, conflict or
//! refusal depends on what is there.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::error::{Error, Result};
use crate::hide::HideGlobs;
use crate::scope::Access;
use crate::search::WalkOptions;
use crate::store::{
    CurrentNode, Fork, ForkSides, NodeId, NodeKind, NodePath, NodeState, SidesQuery, StoreId, StorePath,
    StoreResult, VersionTag,
};
use crate::vfs::Vfs;
use crate::vfs::call::Call;
use crate::vfs::history::StoreGroup;
use crate::vfs::history::merge::apply::moved_since;
use crate::vfs::history::merge::progress::MergeProgress;
use crate::vfs::history::merge::{ForkHandle, store_error};

/// The nodes of which the caller can't see what the target has.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    /// The caller saw them, and the target has moved them out of its sight: they count as deleted.
    pub(super) gone: BTreeSet<NodeId>,
    /// The caller could not see them in the target: they count as unchanged.
    pub(super) unknown: BTreeSet<NodeId>,
    /// Where the target has them.
    pub(super) paths: BTreeSet<StorePath>,
    /// The nodes that the target has and that count as missing. Their ids are taken there.
    pub(super) used_ids: BTreeSet<NodeId>,
}

impl Withheld {
    pub(super) fn is_withheld(&self, node: NodeId) -> bool {
        self.gone.contains(&node) || self.unknown.contains(&node)
    }

    /// The caller doesn't see a node in the target any more.
    fn remove(&mut self, sides: &mut ForkSides, node: NodeId) {
        self.gone.insert(node);
        self.hide(sides, node);
    }

    /// For the caller, the target has of a node what the base has.
    fn leave_unchanged(&mut self, sides: &mut ForkSides, node: NodeId) {
        self.unknown.insert(node);
        self.hide(sides, node);
        if let Some(base) = sides.nodes.get(&node).cloned().flatten() {
            let tag = sides.in_fork.get(&node).map_or(VersionTag(0), |current| current.tag);
            self.used_ids.remove(&node);
            sides.in_target.insert(node, CurrentNode { path: base.path.clone(), state: Some(base), tag });
        }
    }

    fn hide(&mut self, sides: &mut ForkSides, node: NodeId) {
        if let Some(current) = sides.in_target.remove(&node) {
            self.paths.insert(current.path);
            self.used_ids.insert(node);
        }
    }
}

/// Which paths of a fork's Store its owner sees there.
enum ShownPaths<'a> {
    /// The fork is a Workspace of the caller.
    OfWorkspace(StoreGroup<'a>),
    /// It belongs to another agent.
    OfFork { fork: &'a Fork, hide: Box<HideGlobs> },
}

/// What a fork may get of its target.
pub(super) struct TargetView<'a> {
    shown: ShownPaths<'a>,
    readable: ReadableTarget<'a>,
}

/// What the owner of a fork may read of the fork's target.
enum ReadableTarget<'a> {
    /// The caller is the owner, and these are its Workspaces that show the target.
    Workspaces(StoreGroup<'a>),
    /// The fork belongs to its maker, who isn't the caller. What the maker can't see of the target by now is no part of what the fork
    /// shows, either.
    All,
    /// The fork was given to another agent than the caller, and nobody here knows what that agent may read. What the fork itself has
    /// changed it knows, and a merge brought it to the target.
    Own(BTreeSet<NodeId>),
}

impl TargetView<'_> {
    /// Whether the fork may get nothing of its target but what it has changed itself.
    pub(super) fn is_own_only(&self) -> bool {
        matches!(self.readable, ReadableTarget::Own(_))
    }

    /// Notes what the fork has changed, if that is all that it may get of its target.
    pub(super) fn set_own_changes(&mut self, sides: &ForkSides) {
        if let ReadableTarget::Own(own) = &mut self.readable {
            // What lies in a directory that was renamed has another path, and is no change.
            let has = |state: &NodeState| {
                (state.parent, state.name.clone(), state.kind, state.mode, state.content.clone())
            };
            let in_fork = |node| sides.in_fork.get(node).and_then(|current| current.state.as_ref());
            let changed =
                sides.nodes.iter().filter(|(node, base)| base.as_ref().map(has) != in_fork(node).map(has));
            *own = changed.map(|(node, _)| *node).collect();
        }
    }
}

impl Vfs {
    /// Whether an update of a fork has something to take in: the caller can read something of what the fork was made from.
    pub fn can_read_target(&self, fork: ForkHandle<'_>) -> Result<bool> {
        self.unaudited_call("compare", [], |call, []| {
            let failed = |cause| store_error(&fork.fork.base_prefix, cause);
            let target = fork.store.require_forks().and_then(|forks| forks.target()).map_err(failed)?;
            Ok(call.readable_target(fork, target).is_some())
        })
    }
}

impl<'c> Call<'c> {
    /// The caller's Workspaces that show something of what a fork was made from, for reading; `None` if there are none.
    fn readable_target<'a>(&'a self, fork: ForkHandle<'_>, target: StoreId) -> Option<StoreGroup<'a>> {
        let groups = self.store_groups(Access::History);
        let mut group = groups.into_iter().find(|group| group.store.id() == target)?;
        // What the fork shows without asking must not come from where a person is asked.
        let asks = fork.fork.approval_policy.requires_approval(Access::History);
        group.workspaces.retain(|workspace| {
            workspace.barrier().is_none()
                && (asks || !workspace.approval_policy().requires_approval(Access::History))
        });
        let top = StorePath::from_checked(&fork.fork.path.as_str()[1..]);
        let shows_some = group.workspaces.iter().any(|workspace| {
            let mount = workspace.mount().path();
            mount.is_at_or_below(&top) || top.is_at_or_below(mount)
        });
        shows_some.then_some(group)
    }

    /// What an update by the fork's owner may take in.
    pub(super) fn view_for_update<'a>(
        &'a self,
        fork_group: &StoreGroup<'a>,
        fork: ForkHandle<'_>,
        target: StoreId,
    ) -> Result<TargetView<'a>> {
        let Some(readable) = self.readable_target(fork, target) else {
            let is_base = |workspace: &crate::workspace::Workspace| {
                *workspace.prefix() == fork.fork.base_prefix && workspace.mount().store().id() == target
            };
            if self.vfs.workspaces().any(is_base) {
                return Err(moved_since(&fork.fork.base_prefix, fork.fork));
            }
            return Err(Error::Invalid(format!(
                "the fork `{}` was made from `{}`; to update it you need a Workspace there that you can read",
                fork.fork.name, fork.fork.base_prefix
            )));
        };
        let shown = ShownPaths::OfWorkspace(fork_group.clone());
        Ok(TargetView { shown, readable: ReadableTarget::Workspaces(readable) })
    }

    /// What a fork may get of its target after a merge. `None` if the caller owns the fork and can read nothing of the target.
    pub(super) fn view_after_merge<'a>(
        &'a self,
        fork: ForkHandle<'a>,
        target: StoreId,
    ) -> Option<TargetView<'a>> {
        let own = self.vfs.workspaces().find(|workspace| {
            workspace.barrier().is_none() && workspace.mount().store().id() == fork.store.id()
        });
        if let Some(workspace) = own {
            let group = StoreGroup { store: workspace.mount().store(), workspaces: vec![workspace] };
            let readable = self.readable_target(fork, target)?;
            let readable = ReadableTarget::Workspaces(readable);
            return Some(TargetView { shown: ShownPaths::OfWorkspace(group), readable });
        }
        let Fork { owner, created_by, hide, .. } = fork.fork;
        let owner = owner.strip_prefix("review:").unwrap_or(owner);
        let rest = owner.strip_prefix(created_by.as_str());
        // A thread of an agent is the agent.
        let is_of_maker = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let readable = if is_of_maker { ReadableTarget::All } else { ReadableTarget::Own(BTreeSet::new()) };
        let shown = ShownPaths::OfFork { fork: fork.fork, hide: Box::new(HideGlobs::new(hide).ok()?) };
        Some(TargetView { shown, readable })
    }

    fn is_shown(&self, view: &TargetView<'_>, path: &StorePath) -> bool {
        match &view.shown {
            ShownPaths::OfWorkspace(group) => self.logical_path(group, path).is_some(),
            ShownPaths::OfFork { fork, hide } => {
                let top = StorePath::from_checked(&fork.path.as_str()[1..]);
                let relative = path.strip_prefix(&top).and_then(|path| std::str::from_utf8(path).ok());
                let is_below = |place: &str, path: &str| {
                    let rest = path.strip_prefix(place.trim_start_matches('/'));
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let mut nested = fork.excluded.iter().chain(fork.parts.iter().map(|part| &part.place));
                relative.is_some_and(|path| {
                    !hide.hides(path) && !nested.any(|place| is_below(place.as_str(), path))
                })
            }
        }
    }

    fn is_readable(&self, view: &TargetView<'_>, node: NodeId, path: &StorePath) -> bool {
        match &view.readable {
            ReadableTarget::Workspaces(group) => self.logical_path(group, path).is_some(),
            ReadableTarget::All => true,
            ReadableTarget::Own(own) => own.contains(&node),
        }
    }

    /// The sides of a fork that is to take in changes of its target, without what its owner may not see there.
    pub(super) fn sides_into_fork(
        &self,
        fork: ForkHandle<'_>,
        query: SidesQuery,
        view: &TargetView<'_>,
        left_out: &dyn Fn(NodeId) -> bool,
        progress: &MergeProgress,
    ) -> StoreResult<(ForkSides, Withheld)> {
        let mut also = BTreeSet::new();
        loop {
            let mut sides = self.fork_sides(fork, query, &also, progress)?;
            sides.nodes.retain(|node, _| !left_out(*node));
            let withheld = self.withhold_from_fork(&mut sides, view);
            // What is in a directory that is gone is gone too, although it has not changed itself.
            let directories =
                withheld.gone.iter().filter_map(|node| sides.in_fork.get(node)).filter(|node| {
                    node.state.as_ref().is_some_and(|state| state.kind == NodeKind::Directory)
                });
            let mut has_more = false;
            for directory in directories {
                let at = NodePath::from_root(directory.path.clone());
                fork.store.walk(&at, &WalkOptions::default(), &mut |entry| {
                    let node = entry.attr.node;
                    has_more |= !left_out(node) && !sides.nodes.contains_key(&node) && also.insert(node);
                    ControlFlow::Continue(())
                })?;
            }
            if !has_more {
                return Ok((sides, withheld));
            }
        }
    }

    fn withhold_from_fork(&self, sides: &mut ForkSides, view: &TargetView<'_>) -> Withheld {
        let mut withheld = Withheld::default();
        let is_shown =
            |state: Option<&NodeState>| state.is_some_and(|state| self.is_shown(view, &state.path));
        // Nobody who uses the fork sees these, before and after: they come along, unless they lie in something that is gone.
        let mut unseen = Vec::new();
        let nodes: Vec<NodeId> = sides.nodes.keys().copied().collect();
        for node in nodes {
            let is_visible = |state: &NodeState| {
                self.is_readable(view, node, &state.path) && self.is_shown(view, &state.path)
            };
            let base = sides.nodes.get(&node).and_then(Option::as_ref);
            let in_target = sides.in_target.get(&node).and_then(|current| current.state.as_ref());
            let in_fork = sides.in_fork.get(&node).and_then(|current| current.state.as_ref());
            match (base, in_target) {
                (_, Some(state)) if is_visible(state) => {}
                (Some(base), Some(_)) if is_visible(base) => withheld.remove(sides, node),
                (Some(base), _) if is_shown(Some(base)) && !is_visible(base) => {
                    withheld.leave_unchanged(sides, node);
                }
                (Some(_), Some(_)) if is_shown(in_fork) => withheld.leave_unchanged(sides, node),
                (None, Some(_)) if is_shown(in_fork) => withheld.remove(sides, node),
                (None, Some(state)) if is_shown(Some(state)) => withheld.leave_unchanged(sides, node),
                (_, Some(_)) => unseen.push(node),
                (_, None) => {}
            }
        }
        let gone_paths = withheld.paths.clone();
        for node in unseen {
            let Some(path) = sides.in_target.get(&node).map(|current| &current.path) else { continue };
            let mut above = path.clone();
            while let Some((directory, _)) = above.parent_and_name() {
                above = StorePath::from_checked(directory);
                if gone_paths.contains(&above) {
                    withheld.leave_unchanged(sides, node);
                    break;
                }
            }
        }
        withheld
    }

    /// Whether this is a directory above the Mount of one of the Workspaces.
    pub(super) fn is_directory_above(&self, group: &StoreGroup<'_>, state: &NodeState) -> bool {
        state.kind == NodeKind::Directory && self.is_above_a_mount(group, &state.path)
    }

    /// The same for a merge into a Workspace: without what this Workspace doesn't show to the caller.
    pub(super) fn withhold_from_merge(&self, sides: &mut ForkSides, group: &StoreGroup<'_>) -> Withheld {
        let mut withheld = Withheld::default();
        let is_visible = |state: &NodeState| {
            self.logical_path(group, &state.path).is_some() || self.is_directory_above(group, state)
        };
        let nodes: Vec<NodeId> = sides.nodes.keys().copied().collect();
        for node in nodes {
            let base = sides.nodes.get(&node).and_then(Option::as_ref);
            let in_target = sides.in_target.get(&node).and_then(|current| current.state.as_ref());
            match (base, in_target) {
                (_, Some(state)) if is_visible(state) => {}
                (Some(base), Some(_)) if is_visible(base) => withheld.remove(sides, node),
                (Some(base), _) if !is_visible(base) => withheld.leave_unchanged(sides, node),
                (None, Some(_)) => withheld.remove(sides, node),
                (_, None) | (Some(_), Some(_)) => {}
            }
        }
        withheld
    }
}
