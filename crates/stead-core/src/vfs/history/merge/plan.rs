//! Plans a merge or an update from the three sides of a fork.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use crate::history::merge::{MAX_MERGE_SIZE, merge};
use crate::history::text_merge::{MergeLabels, TextMerge, is_binary};
use crate::history::tree_merge::{MergeView, MergedText, NodeSides};
use crate::history::{RevertPlan, RevertSteps, StoreView, order_steps};
use crate::monitor::{CallMonitor, check_not_stopped};
use crate::store::{
    Attr, ContentRef, CurrentNode, Entry, ForkSides, NodeId, NodeKind, NodePath, NodeState, Page, Store,
    StoreError, StorePath, StoreResult,
};
use crate::vfs::history::execute::LiveStoreView;
use crate::vfs::history::merge::progress::MergeProgress;
use crate::vfs::history::merge::texts::MergedTexts;
use crate::vfs::history::{StoreGroup, read_content};

/// Which side gets changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The target gets the fork's changes.
    IntoTarget,
    /// The fork gets the target's changes.
    IntoFork,
}

/// The nodes of a fork's sides, with the side that gets changed as ours.
pub(super) fn node_sides(sides: &ForkSides, direction: Direction) -> BTreeMap<NodeId, NodeSides> {
    sides.nodes.keys().map(|&node| (node, sides_of(sides, direction, node))).collect()
}

/// The same for one node.
pub(super) fn sides_of(sides: &ForkSides, direction: Direction, node: NodeId) -> NodeSides {
    let (ours, theirs) = match direction {
        Direction::IntoTarget => (&sides.in_target, &sides.in_fork),
        Direction::IntoFork => (&sides.in_fork, &sides.in_target),
    };
    let state =
        |side: &HashMap<NodeId, CurrentNode>| side.get(&node).and_then(|current| current.state.clone());
    NodeSides { base: sides.nodes.get(&node).cloned().flatten(), ours: state(ours), theirs: state(theirs) }
}

/// What one side has changed since the last sync: each node before and after. A node that was replaced by another one of its
/// kind at the same path counts as changed; so does one that both sides have added, each with a node of its own.
pub(super) fn side_changes(
    sides: &ForkSides,
    side: &HashMap<NodeId, CurrentNode>,
    left_out: &BTreeSet<NodeId>,
) -> Vec<(Option<NodeState>, Option<NodeState>)> {
    let (mut changes, mut added, mut removed) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (node, base) in sides.nodes.iter().filter(|(node, _)| !left_out.contains(node)) {
        let state = side.get(node).and_then(|current| current.state.as_ref());
        match (base.as_ref(), state) {
            (Some(base), Some(state)) => changes.push((Some(base.clone()), Some(state.clone()))),
            (Some(base), None) => {
                removed.insert(&base.path, base);
            }
            (None, Some(state)) => added.push(state),
            (None, None) => {}
        }
    }
    for state in added {
        let is_replaced = removed.get(&state.path).is_some_and(|base| base.kind == state.kind);
        let base = if is_replaced { removed.remove(&state.path) } else { None };
        let replaced = base.map(|base| {
            let mut replaced = base.clone();
            (replaced.parent, replaced.name) = (state.parent, state.name.clone());
            replaced
        });
        changes.push((replaced, Some(state.clone())));
    }
    changes.extend(removed.into_values().map(|base| (Some(base.clone()), None)));
    changes.retain(|(before, after)| match (before, after) {
        (Some(before), Some(after)) => {
            (before.parent, &before.name, before.kind, &before.content, before.mode)
                != (after.parent, &after.name, after.kind, &after.content, after.mode)
        }
        _ => true,
    });
    changes
}

/// What planning sees of the side that gets changed, and how it merges text.
pub(super) struct SideView<'a> {
    /// The Store that gets changed.
    pub(super) ours: &'a dyn Store,
    pub(super) current: &'a HashMap<NodeId, CurrentNode>,
    /// The nodes by path, if the Store itself has other ids for them.
    pub(super) by_path: Option<HashMap<&'a StorePath, NodeId>>,
    /// The paths that count as free.
    pub(super) free: &'a HashSet<StorePath>,
    /// Whether the caller can't see what has a path there. Then nothing has it.
    pub(super) is_unseen: &'a dyn Fn(&StorePath) -> bool,
    pub(super) direction: Direction,
    pub(super) monitor: Option<Arc<dyn CallMonitor>>,
    pub(super) progress: &'a MergeProgress,
    pub(super) texts: MergedTexts<'a>,
}

/// Marks the id of a node of which only the target's own id is known. No id of a fork's Store has it.
const FOREIGN_ID: u64 = 1 << 63;

/// The nodes of the side that gets changed, by path, if its Store itself has other ids for them.
pub(super) fn nodes_by_path(sides: &ForkSides, direction: Direction) -> Option<HashMap<&StorePath, NodeId>> {
    let has_other_ids = direction == Direction::IntoTarget && sides.target_ids.is_some();
    has_other_ids.then(|| sides.in_target.iter().map(|(&node, current)| (&current.path, node)).collect())
}

impl SideView<'_> {
    /// The id under which the merge knows a node of the Store at a path.
    fn known_id(&self, path: &StorePath, id: NodeId) -> NodeId {
        match &self.by_path {
            None => id,
            Some(by_path) => by_path.get(path).copied().unwrap_or(NodeId(id.0 | FOREIGN_ID)),
        }
    }
}

impl MergeView for SideView<'_> {
    fn child(&mut self, directory: NodeId, name: &[u8]) -> StoreResult<Option<NodeId>> {
        let Some(directory) = self.current.get(&directory) else { return Ok(None) };
        let path = directory.path.child(name);
        if self.free.contains(&path) || (self.is_unseen)(&path) {
            return Ok(None);
        }
        match self.ours.stat(&NodePath::from_root(path.clone())) {
            Ok(attr) => Ok(Some(self.known_id(&path, attr.node))),
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    fn children(&mut self, directory: NodeId) -> StoreResult<Vec<NodeId>> {
        let Some(directory) = self.current.get(&directory) else { return Ok(Vec::new()) };
        let listing = self.ours.list(&NodePath::from_root(directory.path.clone()), &Page::ALL)?;
        let id = |entry: &Entry| {
            let path = directory.path.child(entry.name.as_bytes());
            (!self.free.contains(&path)).then(|| self.known_id(&path, entry.attr.node))
        };
        Ok(listing.entries.iter().filter_map(id).collect())
    }

    fn parent(&mut self, node: NodeId) -> StoreResult<Option<NodeId>> {
        let Some(current) = self.current.get(&node) else { return Ok(None) };
        if let Some(state) = &current.state {
            return Ok(Some(state.parent));
        }
        Ok(None)
    }

    fn decided(&mut self) -> StoreResult<()> {
        self.progress.advance_or_stop(self.monitor.as_ref())
    }

    fn merge_text(
        &mut self,
        base: Option<&ContentRef>,
        ours: &ContentRef,
        theirs: &ContentRef,
        markers: bool,
    ) -> StoreResult<MergedText> {
        check_not_stopped(self.monitor.as_ref())?;
        let is_large = |content: &ContentRef| content.size() > MAX_MERGE_SIZE as u64;
        if base.is_some_and(is_large) || is_large(ours) || is_large(theirs) {
            return Ok(MergedText::Conflict);
        }
        let (target, fork) = match self.direction {
            Direction::IntoTarget => (ours, theirs),
            Direction::IntoFork => (theirs, ours),
        };
        let base = base.map(|base| read_content(self.ours, base)).transpose()?.unwrap_or_default();
        let (target, fork) = (read_content(self.ours, target)?, read_content(self.ours, fork)?);
        let our_text = match self.direction {
            Direction::IntoTarget => &target,
            Direction::IntoFork => &fork,
        };
        Ok(match merge(&base, &target, &fork) {
            Some(merged) if merged == *our_text => MergedText::Ours,
            Some(merged) => MergedText::Clean(self.texts.add(merged)?),
            None if markers && ![&base, &target, &fork].into_iter().any(|side| is_binary(side)) => {
                let marked = TextMerge::new(&base, &target, &fork).to_bytes(&MergeLabels::FORK);
                MergedText::Marked(self.texts.add(marked)?)
            }
            None => MergedText::Conflict,
        })
    }
}

/// The paths that count as free on the side that gets changed.
pub(super) fn free_paths(sides: &ForkSides, direction: Direction) -> &HashSet<StorePath> {
    static NONE: LazyLock<HashSet<StorePath>> = LazyLock::new(HashSet::new);
    match direction {
        Direction::IntoTarget => &NONE,
        Direction::IntoFork => &sides.shown_twice,
    }
}

/// The side that gets changed, with paths that count as free.
struct WithFreePaths<'a> {
    live: LiveStoreView<'a>,
    free: &'a HashSet<StorePath>,
    monitor: Option<&'a Arc<dyn CallMonitor>>,
}

impl StoreView for WithFreePaths<'_> {
    fn stat(&mut self, path: &StorePath) -> StoreResult<Option<Attr>> {
        check_not_stopped(self.monitor)?;
        if self.free.contains(path) { Ok(None) } else { self.live.stat(path) }
    }

    fn child_names(&mut self, path: &StorePath) -> StoreResult<Vec<Vec<u8>>> {
        let mut names = self.live.child_names(path)?;
        names.retain(|name| !self.free.contains(&path.child(name)));
        Ok(names)
    }

    fn read(&mut self, content: &ContentRef) -> StoreResult<Vec<u8>> {
        self.live.read(content)
    }
}

/// Orders planned nodes into steps on a Store.
pub(super) fn order(
    group: &StoreGroup<'_>,
    plan: RevertPlan,
    current: &HashMap<NodeId, CurrentNode>,
    free: &HashSet<StorePath>,
    monitor: Option<&Arc<dyn CallMonitor>>,
) -> StoreResult<RevertSteps> {
    let store = &**group.store;
    let is_directory = |path: &&StorePath| {
        let stat = store.stat(&NodePath::from_root((*path).clone()));
        stat.is_ok_and(|attr| attr.kind == NodeKind::Directory)
    };
    let root = StorePath::empty();
    let mut mount_paths = group.workspaces.iter().map(|workspace| workspace.mount().path());
    let temp_directory = mount_paths.find(is_directory).unwrap_or(&root);
    order_steps(
        plan,
        current,
        temp_directory,
        &mut WithFreePaths { live: LiveStoreView(store), free, monitor },
    )
}

/// The directories that steps rely on by path, with their nodes: another directory at one of these paths is a race. `own_ids`
/// has the ids of the Store that is changed, if these are others.
pub(super) fn expected_directories(
    steps: &RevertSteps,
    current: &HashMap<NodeId, CurrentNode>,
    own_ids: Option<&HashMap<NodeId, NodeId>>,
) -> Vec<(StorePath, NodeId)> {
    let by_path: HashMap<&StorePath, NodeId> = current
        .iter()
        .filter(|(_, node)| node.state.as_ref().is_none_or(|state| state.kind == NodeKind::Directory))
        .map(|(&node, current)| (&current.path, node))
        .collect();
    let mut expected = BTreeMap::new();
    let paths = steps.changes.iter().flat_map(|change| [Some(&change.path), change.from.as_ref()]).flatten();
    for path in paths {
        if let Some((directory, _)) = path.parent_and_name() {
            let directory = StorePath::from_checked(directory);
            let own_id = |node: &NodeId| own_ids.map_or(Some(*node), |own_ids| own_ids.get(node).copied());
            if let Some(node) = by_path.get(&directory).and_then(own_id) {
                expected.insert(directory, node);
            }
        }
    }
    expected.into_iter().collect()
}
