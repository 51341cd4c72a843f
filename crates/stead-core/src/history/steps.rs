//! Turns a revert plan into steps, in an order in which a Store can apply them.
//!
//! The order: unlock directories that even their owner can't use; remove files; move nodes aside that could be in the
//! way; remove directories; create directories and move nodes to their new paths, from the top down; write content and
//! attributes; lock the directories again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::history::undo::{DesiredState, NodeConflict, PlannedContent, PlannedNode, RevertPlan};
use crate::identity::OperationId;
use crate::store::{
    Attr, Content, ContentRef, CurrentNode, DisplacedContent, IfMissing, NodeId, NodeKind, NodePath, Parents,
    Precondition, PutOptions, Replace, RevisionSet, Step, StorePath, StoreResult, Subtree,
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
    fn read(&mut self, past: &ContentRef) -> StoreResult<Vec<u8>>;
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

/// Orders a revert plan into steps, and turns what can't be done into conflicts. `aside` is an existing directory where
/// nodes may lie for a while during the change.
pub(crate) fn order_steps(
    arrangement: RevertPlan,
    deeds: &RevisionSet,
    aside: &StorePath,
    sight: &mut dyn StoreView,
) -> StoreResult<RevertSteps> {
    let RevertPlan { targets, conflicts, operations_by_node: mut effects } = arrangement;
    let (stand_ins, movers, staying) = (HashMap::new(), Vec::new(), Vec::new());
    let mut ordering = StepPlanner {
        targets,
        conflicts,
        revisions: deeds,
        replacements: stand_ins,
        moved_directories: movers,
        kept_directories: staying,
    };
    while ordering.drop_impossible(sight)? {}
    for conflict in &ordering.conflicts {
        effects.remove(&conflict.node);
    }
    let mut staying = Vec::new();
    for &node in &ordering.kept_directories {
        if let (Some(operations), Some(now)) = (effects.remove(&node), ordering.current(node)) {
            let (path, why) = (now.path.as_bytes().to_vec(), DIRECTORY_NOT_EMPTY.to_owned());
            staying.push((NodeConflict { node, path, why }, operations));
        }
    }
    let effective = effects.into_values().flatten().collect();
    Ok(RevertSteps {
        effective_operations: effective,
        kept_directories: staying,
        ..ordering.build_steps(aside, sight)?
    })
}

struct StepPlanner<'d> {
    targets: BTreeMap<NodeId, PlannedNode>,
    conflicts: Vec<NodeConflict>,
    revisions: &'d RevisionSet,
    /// Directories to be revived whose path is taken by another directory, which replaces them.
    replacements: HashMap<NodeId, StorePath>,
    /// Directories to be moved, with their current paths.
    moved_directories: Vec<(StorePath, NodeId)>,
    /// Directories that were to be removed but stay because they hold something else.
    kept_directories: Vec<NodeId>,
}

impl StepPlanner<'_> {
    fn current(&self, node: NodeId) -> Option<&CurrentNode> {
        self.revisions.current.get(&node)
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
            Some(PlannedNode { desired: Some(to), .. }) if self.is_revived(node) || self.is_moved(node) => {
                Some(self.path_within(to.parent, depth + 1)?.child(&to.name))
            }
            // The node's directory may be one that none of the revisions names, because another agent put the node
            // there. So the path follows from the moved directories above it, not from its parent.
            Some(_) | None => self.path_below_moved(node, depth),
        }
    }

    /// The path that an unmoved node will have: it moves along with the directories above it.
    fn path_below_moved(&self, node: NodeId, depth: usize) -> Option<StorePath> {
        let now = self.current(node)?;
        if depth > crate::path::MAX_DEPTH {
            return None;
        }
        let above = |(path, _): &&(StorePath, NodeId)| *path != now.path && now.path.is_at_or_below(path);
        match self.moved_directories.iter().filter(above).max_by_key(|(path, _)| path.depth()) {
            None => Some(now.path.clone()),
            Some((path, mover)) => {
                let rest = StorePath::from_checked(now.path.strip_prefix(path)?);
                Some(self.path_within(*mover, depth + 1)?.join(&rest))
            }
        }
    }

    fn is_removed(&self, node: NodeId) -> bool {
        self.current(node).is_some() && self.targets.get(&node).is_some_and(|target| target.desired.is_none())
    }

    fn is_moved(&self, node: NodeId) -> bool {
        match (self.current(node).and_then(|now| now.state.as_ref()), self.targets.get(&node)) {
            (Some(state), Some(PlannedNode { desired: Some(to), .. })) => {
                (state.parent, &state.name) != (to.parent, &to.name)
            }
            _ => false,
        }
    }

    fn is_revived(&self, node: NodeId) -> bool {
        self.current(node).is_none() && self.targets.get(&node).is_some_and(|target| target.desired.is_some())
    }

    fn add_conflict(&mut self, node: NodeId, why: &str) {
        let path = match (self.current(node), self.targets.get(&node)) {
            (Some(now), _) => now.path.as_bytes().to_vec(),
            (None, Some(PlannedNode { desired: Some(to), .. })) => match self.path(to.parent) {
                Some(parent) => parent.child(&to.name).as_bytes().to_vec(),
                None => to.name.clone(),
            },
            (None, _) => Vec::new(),
        };
        self.targets.remove(&node);
        self.conflicts.push(NodeConflict { node, path, why: why.to_owned() });
    }

    /// Removes from the plan what can't be done. Returns whether it removed something; then other targets may have
    /// become impossible too.
    fn drop_impossible(&mut self, sight: &mut dyn StoreView) -> StoreResult<bool> {
        let nodes: Vec<NodeId> = self.targets.keys().copied().collect();
        self.moved_directories.clear();
        // The paths that become free.
        let mut leaving: HashMap<StorePath, NodeId> = HashMap::new();
        for &node in &nodes {
            if (self.is_removed(node) || self.is_moved(node))
                && let Some(now) = self.current(node)
            {
                let path = now.path.clone();
                if self.is_moved(node) && self.is_directory_now(node) {
                    self.moved_directories.push((path.clone(), node));
                }
                leaving.insert(path, node);
            }
        }
        let mut settled = true;
        for &node in &nodes {
            if self.is_removed(node)
                && self.is_directory_now(node)
                && self.has_other_entries(node, &leaving, sight)?
            {
                // The directory holds entries that the plan doesn't remove, so it stays.
                self.targets.remove(&node);
                self.kept_directories.push(node);
                settled = false;
            }
        }
        // No two nodes may get the same path.
        let mut taken: HashMap<StorePath, NodeId> = HashMap::new();
        for &node in &nodes {
            if !(self.is_revived(node) || self.is_moved(node)) || self.replacements.contains_key(&node) {
                continue;
            }
            match self.path(node) {
                None => {
                    self.add_conflict(node, "its former directory no longer exists");
                    settled = false;
                }
                Some(path) if taken.contains_key(&path) => {
                    self.add_conflict(node, "another entry is restored under its name");
                    settled = false;
                }
                Some(path) => {
                    if let Some(spot) = self.target_path_now(node) {
                        settled &= self.check_target_path(node, &spot, leaving.get(&spot).copied(), sight)?;
                    }
                    taken.insert(path, node);
                }
            }
        }
        if settled {
            // An unmoved node has no path only if a directory above it has none.
            for &node in &nodes {
                let stays = self.targets.get(&node).is_some_and(|target| target.desired.is_some());
                if stays && self.path(node).is_none() {
                    self.add_conflict(node, "its directory no longer exists");
                    settled = false;
                }
            }
        }
        Ok(!settled)
    }

    /// The path, in the current tree, of the name that a node is to get; `None` if its directory has yet to be created.
    fn target_path_now(&self, node: NodeId) -> Option<StorePath> {
        let to = self.targets.get(&node)?.desired.as_ref()?;
        let directory = match self.replacements.get(&to.parent) {
            Some(path) => path,
            None => &self.current(to.parent)?.path,
        };
        Some(directory.child(&to.name))
    }

    /// Checks whether a node can be put at a path. `leaves` is the node that the plan takes away from there. Returns
    /// whether the plan is unchanged.
    fn check_target_path(
        &mut self,
        node: NodeId,
        path: &StorePath,
        leaves: Option<NodeId>,
        sight: &mut dyn StoreView,
    ) -> StoreResult<bool> {
        let Some(there) = sight.stat(path)? else { return Ok(true) };
        let comes = self.targets.get(&node).and_then(|target| target.desired.as_ref()).map(|to| to.kind);
        let directories = comes == Some(NodeKind::Directory) && there.kind == NodeKind::Directory;
        match leaves {
            Some(_) => Ok(true),
            // Another directory has the name by now, and replaces the one to be revived.
            None if directories && self.is_revived(node) => {
                self.replacements.insert(node, path.clone());
                Ok(false)
            }
            None => {
                self.add_conflict(node, "another entry has its name now");
                Ok(false)
            }
        }
    }

    fn is_directory_now(&self, node: NodeId) -> bool {
        self.current(node)
            .and_then(|now| now.state.as_ref())
            .is_some_and(|state| state.kind == NodeKind::Directory)
    }

    fn has_other_entries(
        &self,
        directory: NodeId,
        leaving: &HashMap<StorePath, NodeId>,
        sight: &mut dyn StoreView,
    ) -> StoreResult<bool> {
        let Some(now) = self.current(directory) else { return Ok(false) };
        let arrives = self.targets.keys().any(|&node| {
            (self.is_revived(node) || self.is_moved(node))
                && self.targets[&node].desired.as_ref().is_some_and(|to| to.parent == directory)
        });
        let names = sight.child_names(&now.path)?;
        Ok(arrives || names.iter().any(|name| !leaving.contains_key(&now.path.child(name))))
    }

    fn build_steps(self, aside: &StorePath, sight: &mut dyn StoreView) -> StoreResult<RevertSteps> {
        let mut steps = RevertSteps { conflicts: self.conflicts.clone(), ..RevertSteps::default() };
        let nodes: Vec<NodeId> = self.targets.keys().copied().collect();
        let depth_now = |node: &NodeId| self.current(*node).map_or(0, |now| now.path.depth());

        let mut closed: Vec<NodeId> =
            nodes.iter().copied().filter(|&node| self.lacks_owner_access(node)).collect();
        closed.sort_by_key(depth_now);
        // If only one node changes, nothing inside a locked directory does.
        for node in closed.into_iter().filter(|_| nodes.len() > 1) {
            let now = &self.revisions.current[&node];
            let mode = now.state.as_ref().map(|state| state.mode | OWNER_ACCESS);
            steps.steps.push(Step::SetAttr {
                at: NodePath::from_root(now.path.clone()),
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
            let now = &self.revisions.current[&node];
            steps.steps.push(remove_step(&now.path, Subtree::File, Precondition::Tag(now.tag)));
            steps.changes.push(RevertChange {
                node,
                path: now.path.clone(),
                from: None,
                action: RevertAction::Removed,
            });
        }

        let mut moving: Vec<NodeId> = nodes.iter().copied().filter(|&node| self.is_moved(node)).collect();
        moving.sort_by_key(|node| std::cmp::Reverse(depth_now(node)));
        // A single move goes straight to its new path if no directory is removed and no node is revived: then it is in
        // the way of nothing.
        let comes_back = |node: &&NodeId| self.is_revived(**node) && !self.replacements.contains_key(*node);
        let direct =
            moving.len() < 2 && directories.is_empty() && !nodes.iter().any(|node| comes_back(&node));
        let mut waits: HashMap<NodeId, StorePath> = HashMap::new();
        for (number, &node) in moving.iter().enumerate().filter(|_| !direct) {
            let now = &self.revisions.current[&node];
            let place = aside.child(format!(".stead-aside-{number}-{:x}", now.tag.0 as u64).as_bytes());
            steps.steps.push(rename_step(&now.path, &place, self.precondition(node)));
            waits.insert(node, place);
        }

        directories.sort_by_key(|node| std::cmp::Reverse(depth_now(node)));
        for node in directories {
            let now = &self.revisions.current[&node];
            steps.steps.push(remove_step(&now.path, Subtree::EmptyDirectory, Precondition::Any));
            steps.changes.push(RevertChange {
                node,
                path: now.path.clone(),
                from: None,
                action: RevertAction::Removed,
            });
        }

        let arriving = |node: NodeId| {
            let to = self.targets.get(&node)?.desired.as_ref()?;
            let made = self.is_revived(node)
                && to.kind == NodeKind::Directory
                && !self.replacements.contains_key(&node);
            (made || self.is_moved(node)).then_some(to)
        };
        let mut arrivals: Vec<(StorePath, NodeId, &DesiredState)> = Vec::new();
        for &node in &nodes {
            if let Some(to) = arriving(node)
                && let Some(path) = self.path(node)
            {
                arrivals.push((path, node, to));
            }
        }
        arrivals.sort_by_key(|(path, ..)| path.depth());
        for (path, node, to) in arrivals {
            if self.is_moved(node) {
                let now = &self.revisions.current[&node];
                let (from, expect) = match waits.get(&node) {
                    Some(place) => (place.clone(), Precondition::Any),
                    None => (now.path.clone(), self.precondition(node)),
                };
                steps.steps.push(rename_step(&from, &path, expect));
                steps.changes.push(RevertChange {
                    node,
                    path,
                    from: Some(now.path.clone()),
                    action: RevertAction::Moved,
                });
            } else {
                let at = NodePath::from_root(path.clone());
                steps.revive.insert(steps.steps.len(), node);
                let mode = Some(to.mode | OWNER_ACCESS);
                steps.steps.push(Step::Mkdir { at: at.clone(), parents: Parents::Required, mode });
                if to.mode & OWNER_ACCESS != OWNER_ACCESS {
                    steps.mode_resets.push((at, to.mode));
                }
                steps.changes.push(RevertChange { node, path, from: None, action: RevertAction::Restored });
            }
        }

        for &node in &nodes {
            if let (Some(PlannedNode { desired: Some(to), rewrites_content: rewrites }), Some(path)) =
                (self.targets.get(&node), self.path(node))
            {
                self.add_content_steps(node, to, *rewrites, path, &mut steps, sight)?;
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
        let state = self.current(node).and_then(|now| now.state.as_ref());
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
            Some(now) if !self.is_directory_now(node) => Precondition::Tag(now.tag),
            _ => Precondition::Any,
        }
    }

    /// Adds the steps for the content and attributes of a node that is at its new path by then.
    fn add_content_steps(
        &self,
        node: NodeId,
        to: &DesiredState,
        rewrites: bool,
        path: StorePath,
        steps: &mut RevertSteps,
        sight: &mut dyn StoreView,
    ) -> StoreResult<()> {
        let at = NodePath::from_root(path.clone());
        let now = self.current(node);
        let expect = match now {
            None => Precondition::Absent,
            Some(now) if !self.is_moved(node) => Precondition::Tag(now.tag),
            // The rename, earlier in the same change, has checked it.
            Some(_) => Precondition::Any,
        };
        let mode_before = now.and_then(|now| now.state.as_ref()).map(|state| state.mode);
        let fate = match (&to.content, now) {
            (_, None) => RevertAction::Restored,
            (PlannedContent::Merged(_), _) => RevertAction::Merged,
            (_, Some(_)) => RevertAction::Reverted,
        };
        match (to.kind, &to.content) {
            (NodeKind::Directory, _) => {
                let changes = mode_before.is_some_and(|mode| mode != to.mode);
                if changes {
                    steps.changes.push(RevertChange {
                        node,
                        path,
                        from: None,
                        action: RevertAction::Attributes,
                    });
                }
                if (changes || steps.unlocked_directories.contains(&node))
                    && to.mode & OWNER_ACCESS != OWNER_ACCESS
                {
                    steps.mode_resets.push((at, to.mode));
                } else if changes {
                    steps.steps.push(Step::SetAttr { at, mode: Some(to.mode), modified: None });
                }
                return Ok(());
            }
            _ if !rewrites => {
                let state = now.and_then(|now| now.state.as_ref());
                let mode = state.is_some_and(|state| state.mode != to.mode).then_some(to.mode);
                let is_touched = |modified| state.is_some_and(|state| state.modified != modified);
                let modified =
                    to.modified.filter(|modified| to.kind == NodeKind::File && is_touched(*modified));
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
            (NodeKind::Symlink, PlannedContent::Stored(past)) => {
                let target = sight.read(past)?;
                self.mark_revived(node, steps);
                steps.steps.push(Step::Symlink { at, target, parents: Parents::Required, expect });
            }
            (_, content) => {
                let content = match content {
                    PlannedContent::Stored(past) => Content::Stored(past.clone()),
                    PlannedContent::Merged(bytes) => Content::Bytes(bytes.to_vec()),
                    PlannedContent::None => Content::Bytes(Vec::new()),
                };
                let put = PutOptions {
                    expect,
                    parents: Parents::Required,
                    mode: Some(to.mode),
                    modified: to.modified,
                    displaced: DisplacedContent::Keep,
                    max_size: None,
                };
                self.mark_revived(node, steps);
                steps.steps.push(Step::Write { at, content, options: put });
            }
        }
        steps.changes.push(RevertChange { node, path, from: None, action: fate });
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
