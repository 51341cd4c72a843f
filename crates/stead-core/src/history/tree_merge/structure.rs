//! Checks the decisions about single nodes against each other and against the names that are taken on our side.

use std::collections::{BTreeMap, HashMap};

use crate::history::tree_merge::{
    Decision, Location, MergeSide, MergeView, NodeSides, TreeConflict, TreeConflictKind, TreeMerge, location,
};
use crate::history::undo::DesiredState;
use crate::store::{NodeId, NodeKind, NodeState, StoreResult};

type Decisions = BTreeMap<NodeId, Decision>;

/// Whether a directory will exist.
enum ParentStatus {
    Exists,
    /// It is gone, or will be.
    Gone,
    /// It would exist if it weren't in conflict.
    InConflict,
}

impl TreeMerge {
    /// The conflicts among the decisions. A deletion by a side that put another kind of node in the same place is a
    /// conflict of kinds.
    pub(super) fn conflicts_of(&self, decisions: &Decisions) -> Vec<TreeConflict> {
        let mut conflicts = Vec::new();
        let mut added: Option<[HashMap<Location, NodeId>; 2]> = None;
        for (&node, decision) in decisions {
            let Decision::Conflict(kind) = *decision else { continue };
            let mut conflict = self.conflict(node, kind, Vec::new());
            if let (TreeConflictKind::Deleted { by }, Some(base)) = (kind, &conflict.sides.base) {
                let added = added.get_or_insert_with(|| self.added_places());
                let added = &added[usize::from(by == MergeSide::Theirs)];
                if let Some(&replacement) = added.get(&location(base)) {
                    conflict.kind = TreeConflictKind::Kind;
                    conflict.related = self.added_below(replacement, by);
                    self.add_aliases(&mut conflict);
                }
            }
            conflicts.push(conflict);
        }
        conflicts
    }

    fn conflict(&self, node: NodeId, kind: TreeConflictKind, related: Vec<NodeId>) -> TreeConflict {
        let sides = self.nodes.get(&node).cloned().unwrap_or_default();
        let mut conflict = TreeConflict { node, kind, sides, related, aliases: Vec::new() };
        self.add_aliases(&mut conflict);
        conflict
    }

    fn add_aliases(&self, conflict: &mut TreeConflict) {
        let nodes = std::iter::once(conflict.node).chain(conflict.related.iter().copied());
        let is_other = |id: &NodeId| *id != conflict.node && !conflict.related.contains(id);
        conflict.aliases = nodes.flat_map(|node| self.real_ids(node)).filter(is_other).collect();
    }

    /// Where our side and their side have added nodes.
    fn added_places(&self) -> [HashMap<Location, NodeId>; 2] {
        [MergeSide::Ours, MergeSide::Theirs].map(|side| {
            let added = self.nodes.iter().filter(|(_, sides)| sides.base.is_none());
            added.filter_map(|(&node, sides)| Some((location(state(sides, side)?), node))).collect()
        })
    }

    /// A node that a side has added, and what it has added below it.
    fn added_below(&self, top: NodeId, side: MergeSide) -> Vec<NodeId> {
        let Some(top_state) = self.nodes.get(&top).and_then(|sides| state(sides, side)) else {
            return vec![top];
        };
        let is_below = |sides: &NodeSides| {
            sides.base.is_none()
                && state(sides, side).is_some_and(|state| state.path.is_at_or_below(&top_state.path))
        };
        self.nodes.iter().filter(|(_, sides)| is_below(sides)).map(|(&node, _)| node).collect()
    }

    /// Turns decisions that can't be made together into conflicts.
    pub(super) fn check_structure(
        &self,
        decisions: &mut Decisions,
        conflicts: &mut Vec<TreeConflict>,
        view: &mut dyn MergeView,
    ) -> StoreResult<()> {
        loop {
            let mut found: Vec<TreeConflict> = Vec::new();
            let mut blocked: Vec<NodeId> = Vec::new();
            let mut taken: HashMap<Location, NodeId> = HashMap::new();
            for (&node, decision) in &*decisions {
                match decision {
                    Decision::Put(desired, _) if self.changes_place(node, desired) => {
                        match self.parent_status(desired.parent, decisions) {
                            ParentStatus::InConflict => blocked.push(node),
                            ParentStatus::Gone => found.push(self.gone_parent(node, desired, decisions)),
                            ParentStatus::Exists => {
                                let place = (desired.parent, desired.name.clone());
                                let in_the_way = match taken.insert(place, node) {
                                    Some(other) => Some(other),
                                    None => self.occupant(node, desired, decisions, view)?,
                                };
                                if let Some(other) = in_the_way {
                                    found.push(self.name_taken(node, other));
                                } else if let Some(cycle) = self.cycle(node, desired, decisions, view)? {
                                    found.push(cycle);
                                }
                            }
                        }
                    }
                    Decision::Remove if self.is_our_directory(node) => {
                        self.check_removal(node, decisions, view, &mut found, &mut blocked)?;
                    }
                    _ => {}
                }
            }
            if found.is_empty() && blocked.is_empty() {
                return Ok(());
            }
            for node in blocked {
                decisions.insert(node, Decision::Blocked);
            }
            for conflict in found {
                // Two checks may find the same node.
                if !conflicts.iter().any(|known| known.node == conflict.node) {
                    decisions.insert(conflict.node, Decision::Conflict(conflict.kind));
                    conflicts.push(conflict);
                }
            }
        }
    }

    fn is_our_directory(&self, node: NodeId) -> bool {
        let ours = self.nodes.get(&node).and_then(|sides| sides.ours.as_ref());
        ours.is_some_and(|ours| ours.kind == NodeKind::Directory)
    }

    /// Whether a decision puts a node where our side doesn't have it.
    fn changes_place(&self, node: NodeId, desired: &DesiredState) -> bool {
        let ours = self.nodes.get(&node).and_then(|sides| sides.ours.as_ref());
        ours.is_none_or(|ours| (ours.parent, &ours.name) != (desired.parent, &desired.name))
    }

    fn parent_status(&self, directory: NodeId, decisions: &Decisions) -> ParentStatus {
        let Some(sides) = self.nodes.get(&directory) else { return ParentStatus::Exists };
        match decisions.get(&directory) {
            Some(Decision::Remove) => ParentStatus::Gone,
            Some(Decision::Put(..)) => ParentStatus::Exists,
            _ if sides.ours.is_some() => ParentStatus::Exists,
            Some(Decision::Conflict(_) | Decision::Blocked) => ParentStatus::InConflict,
            Some(Decision::Keep) | None => ParentStatus::Gone,
        }
    }

    /// The conflict for a node whose directory one side has deleted.
    fn gone_parent(&self, node: NodeId, desired: &DesiredState, decisions: &Decisions) -> TreeConflict {
        let mut related = Vec::new();
        let mut by = MergeSide::Ours;
        let mut directory = desired.parent;
        while let (Some(sides), ParentStatus::Gone) =
            (self.nodes.get(&directory), self.parent_status(directory, decisions))
            && !related.contains(&directory)
        {
            related.push(directory);
            if sides.ours.is_some() {
                by = MergeSide::Theirs;
            }
            let Some(state) = sides.theirs.as_ref().or(sides.ours.as_ref()) else { break };
            directory = state.parent;
        }
        self.conflict(node, TreeConflictKind::Deleted { by }, related)
    }

    /// The node that has the name which a node is to get, and keeps it.
    fn occupant(
        &self,
        node: NodeId,
        desired: &DesiredState,
        decisions: &Decisions,
        view: &mut dyn MergeView,
    ) -> StoreResult<Option<NodeId>> {
        let is_new_directory = self.nodes.get(&desired.parent).is_some_and(|sides| sides.ours.is_none());
        if is_new_directory {
            return Ok(None);
        }
        let found = view.child(self.our_aliases.real(desired.parent), &desired.name)?;
        let Some(other) = found.map(|other| self.our_aliases.canonical(other)) else { return Ok(None) };
        let leaves = match decisions.get(&other) {
            Some(Decision::Remove) => true,
            Some(Decision::Put(desired, _)) => self.changes_place(other, desired),
            _ => false,
        };
        Ok((other != node && !leaves).then_some(other))
    }

    fn name_taken(&self, node: NodeId, other: NodeId) -> TreeConflict {
        let is_added_by = |node, side| {
            self.nodes
                .get(&node)
                .is_some_and(|sides: &NodeSides| sides.base.is_none() && state(sides, side).is_some())
        };
        let both_added = is_added_by(node, MergeSide::Theirs) && is_added_by(other, MergeSide::Ours);
        if both_added {
            let mut related = self.added_below(node, MergeSide::Theirs);
            related.retain(|below| *below != node);
            related.extend(self.added_below(other, MergeSide::Ours));
            return self.conflict(node, TreeConflictKind::AddedAdded, related);
        }
        self.conflict(node, TreeConflictKind::NameTaken, vec![other])
    }

    /// Whether a move puts a directory into itself.
    fn cycle(
        &self,
        node: NodeId,
        desired: &DesiredState,
        decisions: &Decisions,
        view: &mut dyn MergeView,
    ) -> StoreResult<Option<TreeConflict>> {
        if !self.is_our_directory(node) {
            return Ok(None);
        }
        let mut above = Vec::new();
        let mut directory = Some(desired.parent);
        while let Some(current) = directory {
            if current == node {
                // A choice for the conflict is about every directory that one of the sides has moved.
                above.retain(|moved| self.nodes.contains_key(moved));
                return Ok(Some(self.conflict(node, TreeConflictKind::Cycle, above)));
            }
            if above.contains(&current) {
                // A cycle that this node only hangs on.
                return Ok(None);
            }
            above.push(current);
            directory = match decisions.get(&current) {
                Some(Decision::Put(desired, _)) => Some(desired.parent),
                _ => match self.nodes.get(&current).and_then(|sides| sides.ours.as_ref()) {
                    Some(ours) => Some(ours.parent),
                    None => view
                        .parent(self.our_aliases.real(current))?
                        .map(|parent| self.our_aliases.canonical(parent)),
                },
            };
        }
        Ok(None)
    }

    /// A directory that is to be removed has to be empty by then. What we put into it is in conflict; what is in conflict
    /// anyway keeps the directory.
    fn check_removal(
        &self,
        directory: NodeId,
        decisions: &Decisions,
        view: &mut dyn MergeView,
        found: &mut Vec<TreeConflict>,
        blocked: &mut Vec<NodeId>,
    ) -> StoreResult<()> {
        for child in view.children(self.our_aliases.real(directory))? {
            let child = self.our_aliases.canonical(child);
            match decisions.get(&child) {
                Some(Decision::Remove) => {}
                Some(Decision::Put(desired, _)) if desired.parent != directory => {}
                Some(Decision::Conflict(_) | Decision::Blocked) => blocked.push(directory),
                _ => {
                    let related = self.removed_above(directory, decisions);
                    found.push(self.conflict(
                        child,
                        TreeConflictKind::Deleted { by: MergeSide::Theirs },
                        related,
                    ));
                }
            }
        }
        Ok(())
    }

    /// A directory that is to be removed, and those above it.
    fn removed_above(&self, directory: NodeId, decisions: &Decisions) -> Vec<NodeId> {
        let mut removed = Vec::new();
        let mut next = Some(directory);
        while let Some(current) = next
            && matches!(decisions.get(&current), Some(Decision::Remove))
            && !removed.contains(&current)
        {
            removed.push(current);
            next = self.nodes.get(&current).and_then(|sides| Some(sides.ours.as_ref()?.parent));
        }
        removed
    }
}

fn state(sides: &NodeSides, side: MergeSide) -> Option<&NodeState> {
    match side {
        MergeSide::Ours => sides.ours.as_ref(),
        MergeSide::Theirs => sides.theirs.as_ref(),
    }
}
