//! Which nodes of the two sides are one node, beside those with the same id.

use std::collections::{BTreeMap, HashMap};

use crate::history::tree_merge::{Location, MergeSide, NodeSides, location};
use crate::store::{NodeId, NodeState};

/// Nodes of one side that stand for nodes with other ids.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    /// The node that a node of this side stands for.
    stands_for: HashMap<NodeId, NodeId>,
    /// The node of this side that stands for a node.
    real: HashMap<NodeId, NodeId>,
}

impl Aliases {
    fn insert(&mut self, real: NodeId, node: NodeId) {
        self.stands_for.insert(real, node);
        self.real.insert(node, real);
    }

    /// The node that a node of this side stands for: mostly itself.
    pub(super) fn canonical(&self, real: NodeId) -> NodeId {
        self.stands_for.get(&real).copied().unwrap_or(real)
    }

    /// The node of this side that stands for a node: mostly itself.
    pub(super) fn real(&self, node: NodeId) -> NodeId {
        self.real.get(&node).copied().unwrap_or(node)
    }
}

/// Finds the nodes that stand for others, on our side and on theirs, and makes each pair one node.
pub(super) fn pair(nodes: &mut BTreeMap<NodeId, NodeSides>) -> (Aliases, Aliases) {
    let mut our_aliases = pair_replacements(nodes, MergeSide::Ours);
    let mut their_aliases = pair_replacements(nodes, MergeSide::Theirs);
    pair_additions(nodes, &mut their_aliases);
    translate_parents(nodes, MergeSide::Ours, &mut our_aliases);
    translate_parents(nodes, MergeSide::Theirs, &mut their_aliases);
    (our_aliases, their_aliases)
}

fn state(sides: &NodeSides, side: MergeSide) -> &Option<NodeState> {
    match side {
        MergeSide::Ours => &sides.ours,
        MergeSide::Theirs => &sides.theirs,
    }
}

fn state_mut(sides: &mut NodeSides, side: MergeSide) -> &mut Option<NodeState> {
    match side {
        MergeSide::Ours => &mut sides.ours,
        MergeSide::Theirs => &mut sides.theirs,
    }
}

/// The nodes that only one side has, each directory before what is in it.
fn additions(nodes: &BTreeMap<NodeId, NodeSides>, side: MergeSide) -> Vec<NodeId> {
    let mut added: Vec<(usize, NodeId)> = Vec::new();
    for (&node, sides) in nodes {
        let existing = usize::from(sides.ours.is_some()) + usize::from(sides.theirs.is_some());
        if let (None, 1, Some(state)) = (&sides.base, existing, state(sides, side)) {
            added.push((state.path.depth(), node));
        }
    }
    added.sort_unstable();
    added.into_iter().map(|(_, node)| node).collect()
}

/// A node that one side removed, and another one of the same kind that it put in its place, are one changed node.
fn pair_replacements(nodes: &mut BTreeMap<NodeId, NodeSides>, side: MergeSide) -> Aliases {
    let mut aliases = Aliases::default();
    let mut gone: HashMap<Location, NodeId> = HashMap::new();
    for (&node, sides) in &*nodes {
        if let (Some(base), None) = (&sides.base, state(sides, side)) {
            gone.insert(location(base), node);
        }
    }
    if gone.is_empty() {
        return aliases;
    }
    for added in additions(nodes, side) {
        let Some(state) = state(&nodes[&added], side) else { continue };
        let place = (aliases.canonical(state.parent), state.name.clone());
        let Some(&node) = gone.get(&place) else { continue };
        if nodes[&node].base.as_ref().is_none_or(|base| base.kind != state.kind) {
            continue;
        }
        let state = nodes.remove(&added).and_then(|mut sides| state_mut(&mut sides, side).take());
        if let Some(sides) = nodes.get_mut(&node) {
            *state_mut(sides, side) = state;
            aliases.insert(added, node);
        }
    }
    aliases
}

/// Two nodes of the same kind that the sides added under one name are one node.
fn pair_additions(nodes: &mut BTreeMap<NodeId, NodeSides>, their_aliases: &mut Aliases) {
    let ours: HashMap<Location, NodeId> = additions(nodes, MergeSide::Ours)
        .into_iter()
        .filter_map(|node| Some((location(nodes[&node].ours.as_ref()?), node)))
        .collect();
    if ours.is_empty() {
        return;
    }
    for added in additions(nodes, MergeSide::Theirs) {
        let Some(state) = &nodes[&added].theirs else { continue };
        let place = (their_aliases.canonical(state.parent), state.name.clone());
        let Some(&node) = ours.get(&place) else { continue };
        if nodes[&node].ours.as_ref().is_none_or(|ours| ours.kind != state.kind) {
            continue;
        }
        let state = nodes.remove(&added).and_then(|sides| sides.theirs);
        if let Some(sides) = nodes.get_mut(&node) {
            sides.theirs = state;
            their_aliases.insert(added, node);
        }
    }
}

fn translate_parents(nodes: &mut BTreeMap<NodeId, NodeSides>, side: MergeSide, aliases: &mut Aliases) {
    if aliases.stands_for.is_empty() {
        return;
    }
    for sides in nodes.values_mut() {
        if let Some(state) = state_mut(sides, side) {
            let parent = aliases.canonical(state.parent);
            if parent != state.parent {
                state.parent = parent;
            }
        }
    }
}
