//! Turns a plan (of a revert or a merge) into steps, in an order in which a Store can apply them.
//!
//! The order: unlock directories that even their owner can't use; remove files; move nodes aside that could be in the
//! way; remove directories; create directories and move nodes to their new paths, from the top down; write content and
//! attributes; lock the directories again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::history::undo::{DesiredState, NodeConflict, PlannedContent, PlannedNode, RevertPlan};
use crate::identity::OperationId;
use crate::store::{
    Attr, Content, ContentRef, CurrentNode, DisplacedContent, IfMissing, NodeId, NodeKind, NodePath, Parents,
    Precondition, PutOptions, Replace, Step, StorePath, StoreResult, Subtree,
};

/// The permission bits that the owner of a directory needs to reach and change its entries. A host enforces them
/// against the owner too.
const OWNER_ACCESS: u32 = 0o700;

/// What planning needs to see of a Store as it is now.
pub(crate) trait StoreView {
    /// The attributes of what is at a path; `None` if nothing is.
    fn stat(&mut self, path: &StorePath) -> StoreResult<Option<Attr>>;
    /// The names of a directory's entries.
    fn child_names(&mut self, path: &StorePath) -> StoreResult<Vec<Vec<u8>>>;
    /// Reads the whole content that a reference names.
    fn read(&mut self, content: &ContentRef) -> StoreResult<Vec<u8>>;
}

/// What a revert does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RevertAction {
    /// It exists again.
    Restored,
    /// It gets its former content back.
    Reverted,
    /// Its former content is merged with what has been changed since.
    Merged,
    /// It is renamed.
    Moved,
    /// Its attributes are set.
    Attributes,
    /// It is removed.
    Removed,
}

/// One path that a revert changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RevertChange {
    pub(crate) node: NodeId,
    pub(crate) path: StorePath,
    pub(crate) from: Option<StorePath>,
    pub(crate) action: RevertAction,
}

/// A revert plan as steps, with what it changes and what it can't.
#[derive(Debug, Default)]
pub(crate) struct RevertSteps {
    pub(crate) steps: Vec<Step>,
    /// Which step, by its index, brings which node back.
    pub(crate) revive: BTreeMap<usize, NodeId>,
    pub(crate) changes: Vec<RevertChange>,
    pub(crate) conflicts: Vec<NodeConflict>,
    /// The operations of which these steps undo something.
    pub(crate) effective_operations: BTreeSet<OperationId>,
    /// Directories that the first steps unlock.
    unlocked_directories: BTreeSet<NodeId>,
    /// Directories that the last steps lock again, and their final modes.
    mode_resets: Vec<(NodePath, u32)>,
    /// Directories that were to be removed but stay because they hold something else, with the operations that created
    /// them.
    pub(crate) kept_directories: Vec<(NodeConflict, BTreeSet<OperationId>)>,
}

/// Why a directory stays that was to be removed.
const DIRECTORY_NOT_EMPTY: &str =
    "the directory isn't empty, so it is kept; to undo an earlier operation, pass its id";

/// Orders a plan into steps, and turns what can't be done into conflicts. `current` has every node that the plan names, as
/// a node or as a directory, if the Store has it now. `temp_directory` is an existing
/// directory where nodes may lie for a while during the change.
pub(crate) fn order_steps(
    plan: RevertPlan,
    current: &HashMap<NodeId, CurrentNode>,
    temp_directory: &StorePath,
    view: &mut dyn StoreView,
) -> StoreResult<RevertSteps> {
    let RevertPlan { targets, conflicts, mut operations_by_node } = plan;
    let (replacements, moved_directories, kept_directories) = (HashMap::new(), Vec::new(), Vec::new());
    let mut planner =
        StepPlanner { targets, conflicts, current, replacements, moved_directories, kept_directories };
    while planner.drop_impossible(view)? {}
    for conflict in &planner.conflicts {
        operations_by_node.remove(&conflict.node);
    }
    let mut kept_directories = Vec::new();
    for &node in &planner.kept_directories {
        if let (Some(operations), Some(current)) = (operations_by_node.remove(&node), planner.current(node)) {
            let (path, why) = (Some(current.path.as_bytes().to_vec()), DIRECTORY_NOT_EMPTY.to_owned());
            kept_directories.push((NodeConflict { node, path, why }, operations));
        }
    }
    let effective_operations = operations_by_node.into_values().flatten().collect();
    Ok(RevertSteps { effective_operations, kept_directories, ..planner.build_steps(temp_directory, view)? })
}

struct StepPlanner<'d> {
    targets: BTreeMap<NodeId, PlannedNode>,
    conflicts: Vec<NodeConflict>,
    /// The nodes that exist now.
    current: &'d HashMap<NodeId, CurrentNode>,
    /// Directories to be revived whose path is taken by another directory, which replaces them.
    replacements: HashMap<NodeId, StorePath>,
    /// Directories to be moved, with their current paths.
    moved_directories: Vec<(StorePath, NodeId)>,
    /// Directories that were to be removed but stay because they hold something else.
    kept_directories: Vec<NodeId>,
}

impl StepPlanner<'_> {
    fn current(&self, node: NodeId) -> Option<&CurrentNode> {
        self.current.get(&node)
    }

    /// The path that a node will have; `None` if a directory above it won't exist.
    fn path(&self, node: NodeId) -> Option<StorePath> {
        self.path_within(node, 0)
    }

    fn path_within(&self, node: NodeId, depth: usize) -> Option<StorePath> {
        if let Some(path) = self.replacements.get(&node) {
            return Some(path.clone());
        }
        match self.targets.get(&node) {
            // A cycle: the planned parents lie inside each other, so there is no path.
            Some(_) if depth > crate::path::MAX_DEPTH => None,
            Some(PlannedNode { desired: None, .. }) => None,
            Some(PlannedNode { desired: Some(desired), .. })
                if self.is_revived(node) || self.is_moved(node) =>
            {
                Some(self.path_within(desired.parent, depth + 1)?.child(&desired.name))
            }
            // The node's directory may be one that none of the revisions names, because another agent put the node
            // there. So the path follows from the moved directories above it, not from its parent.
            Some(_) | None => self.path_below_moved(node, depth),
        }
    }

    /// The path that an unmoved node will have: it moves along with the directories above it.
    fn path_below_moved(&self, node: NodeId, depth: usize) -> Option<StorePath> {
        let current = self.current(node)?;
        if depth > crate::path::MAX_DEPTH {
            return None;
        }
        match self.nearest_moved_directory(&current.path) {
            None => Some(current.path.clone()),
            Some((path, moved_directory)) => {
                let rest = StorePath::from_checked(current.path.strip_prefix(path)?);
                Some(self.path_within(*moved_directory, depth + 1)?.join(&rest))
            }
        }
    }

    /// The directory nearest above a path that is to be moved, with its current path.
    fn nearest_moved_directory(&self, path: &StorePath) -> Option<&(StorePath, NodeId)> {
        let above = self.moved_directories.iter().filter(|(top, _)| top != path && path.is_at_or_below(top));
        above.max_by_key(|(top, _)| top.depth())
    }

    fn is_removed(&self, node: NodeId) -> bool {
        self.current(node).is_some() && self.targets.get(&node).is_some_and(|target| target.desired.is_none())
    }

    fn is_moved(&self, node: NodeId) -> bool {
        match (self.current(node).and_then(|current| current.state.as_ref()), self.targets.get(&node)) {
            (Some(state), Some(PlannedNode { desired: Some(desired), .. })) => {
                (state.parent, &state.name) != (desired.parent, &desired.name)
            }
            _ => false,
        }
    }

    fn is_revived(&self, node: NodeId) -> bool {
        self.current(node).is_none() && self.targets.get(&node).is_some_and(|target| target.desired.is_some())
    }

    fn add_conflict(&mut self, node: NodeId, why: &str) {
        let path = match (self.current(node), self.targets.get(&node)) {
            (Some(current), _) => Some(current.path.clone()),
            (None, Some(PlannedNode { desired: Some(desired), .. })) => {
                self.path(desired.parent).map(|parent| parent.child(&desired.name))
            }
            (None, _) => None,
        };
        self.add_conflict_at(node, path, why);
    }

    /// The same, where another path than the node's own is in the way.
    fn add_conflict_at(&mut self, node: NodeId, path: Option<StorePath>, why: &str) {
        self.targets.remove(&node);
        let path = path.map(|path| path.as_bytes().to_vec());
        self.conflicts.push(NodeConflict { node, path, why: why.to_owned() });
    }

    /// Removes from the plan what can't be done. Returns whether it removed something; then other targets may have
    /// become impossible too.
    fn drop_impossible(&mut self, view: &mut dyn StoreView) -> StoreResult<bool> {
        let nodes: Vec<NodeId> = self.targets.keys().copied().collect();
        self.moved_directories.clear();
        // The paths that become free.
        let mut freed_paths: HashMap<StorePath, NodeId> = HashMap::new();
        for &node in &nodes {
            if (self.is_removed(node) || self.is_moved(node))
                && let Some(current) = self.current(node)
            {
                let path = current.path.clone();
                if self.is_moved(node) && self.is_directory_now(node) {
                    self.moved_directories.push((path.clone(), node));
                }
                freed_paths.insert(path, node);
            }
        }
        let mut unchanged = true;
        for &node in &nodes {
            if self.is_removed(node)
                && self.is_directory_now(node)
                && self.has_other_entries(node, &freed_paths, view)?
            {
                // The directory holds entries that the plan doesn't remove, so it stays.
                self.targets.remove(&node);
                self.kept_directories.push(node);
                unchanged = false;
            }
        }
        // No two nodes may get the same path.
        let mut target_paths: HashMap<StorePath, NodeId> = HashMap::new();
        for &node in &nodes {
            if !(self.is_revived(node) || self.is_moved(node)) || self.replacements.contains_key(&node) {
                continue;
            }
            match self.path(node) {
                None => {
                    self.add_conflict(node, "its former directory no longer exists");
                    unchanged = false;
                }
                Some(path) if target_paths.contains_key(&path) => {
                    self.add_conflict(node, "another entry is restored under its name");
                    unchanged = false;
                }
                Some(path) => {
                    if let Some(path_now) = self.target_path_now(node) {
                        unchanged &= self.check_target_path(
                            node,
                            &path_now,
                            freed_paths.get(&path_now).copied(),
                            view,
                        )?;
                    }
                    target_paths.insert(path, node);
                }
            }
        }
        if unchanged {
            // An unmoved node has no path only if a directory above it has none.
            for &node in &nodes {
                let is_kept = self.targets.get(&node).is_some_and(|target| target.desired.is_some());
                if is_kept && self.path(node).is_none() {
                    self.add_conflict(node, "its directory no longer exists");
                    unchanged = false;
                }
            }
        }
        Ok(!unchanged)
    }

    /// The path, in the current tree, of the name that a node is to get; `None` if its directory has yet to be created.
    fn target_path_now(&self, node: NodeId) -> Option<StorePath> {
        let desired = self.targets.get(&node)?.desired.as_ref()?;
        let directory = match self.replacements.get(&desired.parent) {
            Some(path) => path,
            None => &self.current(desired.parent)?.path,
        };
        Some(directory.child(&desired.name))
    }

    /// Checks whether a node can be put at a path. `leaving_node` is the node that the plan takes away from there.
    /// Returns whether the plan is unchanged.
    fn check_target_path(
        &mut self,
        node: NodeId,
        path: &StorePath,
        leaving_node: Option<NodeId>,
        view: &mut dyn StoreView,
    ) -> StoreResult<bool> {
        let Some(existing) = view.stat(path)? else { return Ok(true) };
        let new_kind =
            self.targets.get(&node).and_then(|target| target.desired.as_ref()).map(|desired| desired.kind);
        let both_directories = new_kind == Some(NodeKind::Directory) && existing.kind == NodeKind::Directory;
        match leaving_node {
            Some(_) => Ok(true),
            // Another directory has the name by now, and replaces the one to be revived.
            None if both_directories && self.is_revived(node) => {
                self.replacements.insert(node, path.clone());
                Ok(false)
            }
            None => {
                self.add_conflict_at(node, Some(path.clone()), "another entry has its name now");
                Ok(false)
            }
        }
    }

    fn is_directory_now(&self, node: NodeId) -> bool {
        self.current(node)
            .and_then(|current| current.state.as_ref())
            .is_some_and(|state| state.kind == NodeKind::Directory)
    }

    fn has_other_entries(
        &self,
        directory: NodeId,
        freed_paths: &HashMap<StorePath, NodeId>,
        view: &mut dyn StoreView,
    ) -> StoreResult<bool> {
        let Some(current) = self.current(directory) else { return Ok(false) };
        let receives_nodes = self.targets.keys().any(|&node| {
            (self.is_revived(node) || self.is_moved(node))
                && self.targets[&node].desired.as_ref().is_some_and(|desired| desired.parent == directory)
        });
        let names = view.child_names(&current.path)?;
        Ok(receives_nodes || names.iter().any(|name| !freed_paths.contains_key(&current.path.child(name))))
    }

    fn build_steps(self, temp_directory: &StorePath, view: &mut dyn StoreView) -> StoreResult<RevertSteps> {
        let mut steps = RevertSteps { conflicts: self.conflicts.clone(), ..RevertSteps::default() };
        let nodes: Vec<NodeId> = self.targets.keys().copied().collect();
        let depth_now = |node: &NodeId| self.current(*node).map_or(0, |current| current.path.depth());

        let mut locked: Vec<NodeId> =
            nodes.iter().copied().filter(|&node| self.lacks_owner_access(node)).collect();
        locked.sort_by_key(depth_now);
        // If only one node changes, nothing inside a locked directory does.
        for node in locked.into_iter().filter(|_| nodes.len() > 1) {
            let current = &self.current[&node];
            let mode = current.state.as_ref().map(|state| state.mode | OWNER_ACCESS);
            steps.steps.push(Step::SetAttr {
                at: NodePath::from_root(current.path.clone()),
                mode,
                modified: None,
            });
            steps.unlocked_directories.insert(node);
        }

        let (mut directories, files): (Vec<NodeId>, Vec<NodeId>) = nodes
            .iter()
            .copied()
            .filter(|&node| self.is_removed(node))
            .partition(|&node| self.is_directory_now(node));
        for node in files {
            let current = &self.current[&node];
            steps.steps.push(remove_step(&current.path, Subtree::File, Precondition::Tag(current.tag)));
            steps.changes.push(RevertChange {
                node,
                path: current.path.clone(),
                from: None,
                action: RevertAction::Removed,
            });
        }

        let mut moved_nodes: Vec<NodeId> =
            nodes.iter().copied().filter(|&node| self.is_moved(node)).collect();
        moved_nodes.sort_by_key(|node| std::cmp::Reverse(depth_now(node)));
        // A single move goes straight to its new path if no directory is removed and no node is revived: then it is in
        // the way of nothing.
        let is_recreated = |node: &&NodeId| self.is_revived(**node) && !self.replacements.contains_key(*node);
        let moves_directly =
            moved_nodes.len() < 2 && directories.is_empty() && !nodes.iter().any(|node| is_recreated(&node));
        let mut temp_paths: HashMap<NodeId, StorePath> = HashMap::new();
        for (number, &node) in moved_nodes.iter().enumerate().filter(|_| !moves_directly) {
            let current = &self.current[&node];
            let temp_path =
                temp_directory.child(format!(".stead-aside-{number}-{:x}", current.tag.0 as u64).as_bytes());
            steps.steps.push(rename_step(&current.path, &temp_path, self.precondition(node)));
            temp_paths.insert(node, temp_path);
        }

        directories.sort_by_key(|node| std::cmp::Reverse(depth_now(node)));
        for node in directories {
            let current = &self.current[&node];
            // If a directory above it lies aside, so does this one.
            let path = self.nearest_moved_directory(&current.path).and_then(|(moved_path, moved)| {
                let rest = StorePath::from_checked(current.path.strip_prefix(moved_path)?);
                Some(temp_paths.get(moved)?.join(&rest))
            });
            let path = path.as_ref().unwrap_or(&current.path);
            steps.steps.push(remove_step(path, Subtree::EmptyDirectory, Precondition::Any));
            steps.changes.push(RevertChange {
                node,
                path: current.path.clone(),
                from: None,
                action: RevertAction::Removed,
            });
        }

        let arrival = |node: NodeId| {
            let desired = self.targets.get(&node)?.desired.as_ref()?;
            let is_created = self.is_revived(node)
                && desired.kind == NodeKind::Directory
                && !self.replacements.contains_key(&node);
            (is_created || self.is_moved(node)).then_some(desired)
        };
        let mut arrivals: Vec<(StorePath, NodeId, &DesiredState)> = Vec::new();
        for &node in &nodes {
            if let Some(desired) = arrival(node)
                && let Some(path) = self.path(node)
            {
                arrivals.push((path, node, desired));
            }
        }
        arrivals.sort_by_key(|(path, ..)| path.depth());
        for (path, node, desired) in arrivals {
            if self.is_moved(node) {
                let current = &self.current[&node];
                let (from, expect) = match temp_paths.get(&node) {
                    Some(temp_path) => (temp_path.clone(), Precondition::Any),
                    None => (current.path.clone(), self.precondition(node)),
                };
                steps.steps.push(rename_step(&from, &path, expect));
                steps.changes.push(RevertChange {
                    node,
                    path,
                    from: Some(current.path.clone()),
                    action: RevertAction::Moved,
                });
            } else {
                let at = NodePath::from_root(path.clone());
                steps.revive.insert(steps.steps.len(), node);
                let mode = Some(desired.mode | OWNER_ACCESS);
                steps.steps.push(Step::Mkdir { at: at.clone(), parents: Parents::Required, mode });
                if desired.mode & OWNER_ACCESS != OWNER_ACCESS {
                    steps.mode_resets.push((at, desired.mode));
                }
                steps.changes.push(RevertChange { node, path, from: None, action: RevertAction::Restored });
            }
        }

        for &node in &nodes {
            if let (Some(PlannedNode { desired: Some(desired), rewrites_content }), Some(path)) =
                (self.targets.get(&node), self.path(node))
            {
                self.add_content_steps(node, desired, *rewrites_content, path, &mut steps, view)?;
            }
        }
        if steps.changes.is_empty() {
            // Nothing changes, so no directory has to be unlocked either.
            return Ok(RevertSteps { conflicts: steps.conflicts, ..RevertSteps::default() });
        }
        steps.mode_resets.sort_by_key(|(at, _)| std::cmp::Reverse(at.path.depth()));
        for (at, mode) in std::mem::take(&mut steps.mode_resets) {
            steps.steps.push(Step::SetAttr { at, mode: Some(mode), modified: None });
        }
        Ok(steps)
    }

    /// Whether a node is a directory whose mode denies its owner access.
    fn lacks_owner_access(&self, node: NodeId) -> bool {
        let state = self.current(node).and_then(|current| current.state.as_ref());
        state.is_some_and(|state| {
            state.kind == NodeKind::Directory && state.mode & OWNER_ACCESS != OWNER_ACCESS
        })
    }

    /// If the node is to be revived, records that the next step to be added revives it.
    fn mark_revived(&self, node: NodeId, steps: &mut RevertSteps) {
        if self.is_revived(node) {
            steps.revive.insert(steps.steps.len(), node);
        }
    }

    /// The precondition on a node's state. A directory has none: on some Stores its tag changes with its entries.
    fn precondition(&self, node: NodeId) -> Precondition {
        match self.current(node) {
            Some(current) if !self.is_directory_now(node) => Precondition::Tag(current.tag),
            _ => Precondition::Any,
        }
    }

    /// Adds the steps for the content and attributes of a node that is at its new path by then.
    fn add_content_steps(
        &self,
        node: NodeId,
        desired: &DesiredState,
        rewrites_content: bool,
        path: StorePath,
        steps: &mut RevertSteps,
        view: &mut dyn StoreView,
    ) -> StoreResult<()> {
        let at = NodePath::from_root(path.clone());
        let current = self.current(node);
        let expect = match current {
            None => Precondition::Absent,
            Some(current) if !self.is_moved(node) => Precondition::Tag(current.tag),
            // The rename, earlier in the same change, has checked it.
            Some(_) => Precondition::Any,
        };
        let mode_before = current.and_then(|current| current.state.as_ref()).map(|state| state.mode);
        let action = match (&desired.content, current) {
            (_, None) => RevertAction::Restored,
            (PlannedContent::Merged(_) | PlannedContent::Drafted(_), _) => RevertAction::Merged,
            (_, Some(_)) => RevertAction::Reverted,
        };
        match (desired.kind, &desired.content) {
            (NodeKind::Directory, _) => {
                let mode_changes = mode_before.is_some_and(|mode| mode != desired.mode);
                if mode_changes {
                    steps.changes.push(RevertChange {
                        node,
                        path,
                        from: None,
                        action: RevertAction::Attributes,
                    });
                }
                if (mode_changes || steps.unlocked_directories.contains(&node))
                    && desired.mode & OWNER_ACCESS != OWNER_ACCESS
                {
                    steps.mode_resets.push((at, desired.mode));
                } else if mode_changes {
                    steps.steps.push(Step::SetAttr { at, mode: Some(desired.mode), modified: None });
                }
                return Ok(());
            }
            _ if !rewrites_content => {
                let state = current.and_then(|current| current.state.as_ref());
                let mode = state.is_some_and(|state| state.mode != desired.mode).then_some(desired.mode);
                let differs = |modified| state.is_some_and(|state| state.modified != modified);
                let modified =
                    desired.modified.filter(|modified| desired.kind == NodeKind::File && differs(*modified));
                if mode.is_some() || modified.is_some() {
                    steps.steps.push(Step::SetAttr { at, mode, modified });
                    steps.changes.push(RevertChange {
                        node,
                        path,
                        from: None,
                        action: RevertAction::Attributes,
                    });
                }
                return Ok(());
            }
            (NodeKind::Symlink, PlannedContent::Stored(stored)) => {
                let target = view.read(stored)?;
                self.mark_revived(node, steps);
                steps.steps.push(Step::Symlink { at, target, parents: Parents::Required, expect });
            }
            (_, content) => {
                let content = match content {
                    PlannedContent::Stored(stored) => Content::Stored(stored.clone()),
                    PlannedContent::Merged(bytes) => Content::Bytes(bytes.to_vec()),
                    // The steps of a dry run are never applied.
                    PlannedContent::Drafted(text) => text
                        .content()
                        .map_or(Content::Bytes(Vec::new()), |text| Content::Stored(text.clone())),
                    PlannedContent::None => Content::Bytes(Vec::new()),
                };
                let options = PutOptions {
                    expect,
                    parents: Parents::Required,
                    mode: Some(desired.mode),
                    modified: desired.modified,
                    displaced: DisplacedContent::Keep,
                    max_size: None,
                };
                self.mark_revived(node, steps);
                steps.steps.push(Step::Write { at, content, options });
            }
        }
        steps.changes.push(RevertChange { node, path, from: None, action });
        Ok(())
    }
}

fn remove_step(path: &StorePath, subtree: Subtree, expect: Precondition) -> Step {
    Step::Remove {
        at: NodePath::from_root(path.clone()),
        subtree,
        expect,
        if_missing: IfMissing::Fail,
        protected: None,
        displaced: DisplacedContent::Keep,
    }
}

fn rename_step(from: &StorePath, to: &StorePath, expect: Precondition) -> Step {
    Step::Rename {
        from: NodePath::from_root(from.clone()),
        to: NodePath::from_root(to.clone()),
        replace: Replace::Refuse,
        parents: Parents::Required,
        expect,
        protected: [None, None],
    }
}
