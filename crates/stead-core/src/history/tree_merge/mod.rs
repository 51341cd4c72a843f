//! Three-way merge of trees: what each node has to become so that one side gets the other side's changes.
//!
//! The input is the nodes that at least one side has changed since the base, with their three states. So the cost grows with
//! the changes, never with the trees. *Ours* is the side that gets changed, *theirs* is where the changes come from: a merge
//! of a fork changes its target, an update changes the fork. Nodes are matched by their ids. A node that was replaced by
//! another one of the same kind under the same name counts as changed, and two nodes of one kind that were added under one
//! name count as one node (`pairing`).
//!
//! Each node is decided by itself (`decide`); then the decisions are checked against each other and against the names that
//! are taken (`structure`). What can't be decided is a conflict. A choice for a conflict rewrites the node's base: to take
//! our side, the base becomes what they have, and so they have changed nothing; to take their side, the base becomes what we
//! have. Then everything is decided again, because other nodes may depend on it.

mod decide;
mod pairing;
mod structure;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::history::undo::{DesiredState, PlannedContent, PlannedNode};
use crate::store::{ContentRef, NodeId, NodeState, StoreResult};
use pairing::Aliases;

/// The three states of a node; `None` where it doesn't exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSides {
    /// The state that both sides began with.
    pub base: Option<NodeState>,
    /// The state on the side that gets changed.
    pub ours: Option<NodeState>,
    /// The state on the side whose changes are taken.
    pub theirs: Option<NodeState>,
}

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MergeSide {
    /// The side that gets changed.
    Ours,
    /// The side whose changes are taken.
    Theirs,
}

/// Why two changes can't be combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeConflictKind {
    /// Both changed the same lines, or both changed content that can't be merged by line.
    Content,
    /// One side deleted what the other one changed, or what it put something into.
    Deleted {
        /// The side that deleted.
        by: MergeSide,
    },
    /// Both added something else under one name.
    AddedAdded,
    /// Both renamed it, each to another place.
    RenamedRenamed,
    /// The name that it would get is taken.
    NameTaken,
    /// One side made it another kind of node (file, directory or symlink), and the other one changed it.
    Kind,
    /// Both moved directories, so that one would lie inside the other.
    Cycle,
}

/// A node that could not be merged.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TreeConflict {
    /// The node.
    pub node: NodeId,
    /// Why.
    pub kind: TreeConflictKind,
    /// The node's three states.
    pub sides: NodeSides,
    /// Other nodes that a choice for this one is about.
    pub related: Vec<NodeId>,
    /// The ids that this node and the related ones have on either side, if these are others.
    pub aliases: Vec<NodeId>,
}

/// How a conflict is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConflictChoice {
    /// It stays as our side has it.
    Ours,
    /// It becomes what their side has.
    Theirs,
    /// Their change of it is left out, to be merged later.
    LeaveOut,
    /// The file gets this content.
    Content(Arc<Vec<u8>>),
    /// The file gets both sides' lines between markers. Where that isn't possible, the conflict stays.
    Markers,
}

/// What is decided about a changed node before it is merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePreset {
    /// Their change of it is left out, to be merged later.
    LeaveOut,
    /// Their change of it is left out for good.
    Drop,
    /// The file gets this content, whether or not there is a conflict.
    Content(Arc<Vec<u8>>),
    /// The same, and the rest of their change is left out, to be merged later.
    Part(Arc<Vec<u8>>),
}

/// The outcome of merging two contents.
#[derive(Debug, Clone)]
pub enum MergedText {
    /// Both sides' changes are combined.
    Clean(PlannedContent),
    /// Our content has both sides' changes already.
    Ours,
    /// There are conflicts, and the content has them between markers.
    Marked(PlannedContent),
    /// There are conflicts, or the contents can't be merged by line.
    Conflict,
}

/// What planning a merge needs to see of our side, beside the changed nodes.
pub trait MergeView {
    /// The node that has a name in a directory of ours.
    fn child(&mut self, directory: NodeId, name: &[u8]) -> StoreResult<Option<NodeId>>;
    /// The nodes in a directory of ours.
    fn children(&mut self, directory: NodeId) -> StoreResult<Vec<NodeId>>;
    /// The directory that a node of ours is in; `None` for the root.
    fn parent(&mut self, node: NodeId) -> StoreResult<Option<NodeId>>;
    /// Called for each node that is decided. An error ends the merge.
    fn decided(&mut self) -> StoreResult<()>;
    /// Merges two contents of a file by line. `base` is `None` if both sides added the file. With `markers`, conflicts are
    /// written between markers.
    fn merge_text(
        &mut self,
        base: Option<&ContentRef>,
        ours: &ContentRef,
        theirs: &ContentRef,
        markers: bool,
    ) -> StoreResult<MergedText>;
}

/// What the caller of a merge decides.
pub trait MergeChoices {
    /// How to resolve a conflict; `None` leaves it.
    fn resolve(&mut self, conflict: &TreeConflict) -> Option<ConflictChoice>;
    /// What is decided about a node that they have changed, before it is merged.
    fn preset(&mut self, node: NodeId, sides: &NodeSides) -> Option<NodePreset>;
}

/// The result of a merge.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct TreeMergePlan {
    /// What our nodes have to become. New nodes have the ids that they have on their side.
    pub targets: BTreeMap<NodeId, PlannedNode>,
    /// What could not be merged.
    pub conflicts: Vec<TreeConflict>,
    /// Nodes that stay as they are on our side because a choice or a preset leaves them out, or because they depend on a
    /// node that does.
    pub left_out: BTreeSet<NodeId>,
    /// Nodes of whose change a part is left out.
    pub in_part: BTreeSet<NodeId>,
    /// Nodes whose content has markers.
    pub marked: BTreeSet<NodeId>,
}

/// Plans a merge of these nodes.
pub fn plan_merge(
    nodes: BTreeMap<NodeId, NodeSides>,
    choices: &mut dyn MergeChoices,
    view: &mut dyn MergeView,
) -> StoreResult<TreeMergePlan> {
    let mut merge = TreeMerge::new(nodes);
    merge.apply_presets(choices);
    loop {
        let evaluated = merge.evaluate(view)?;
        if !merge.resolve_conflicts(&evaluated.conflicts, choices) {
            return Ok(merge.into_plan(evaluated));
        }
    }
}

/// What is to become of a node.
#[derive(Debug, Clone)]
enum Decision {
    /// It stays as our side has it.
    Keep,
    /// It is removed.
    Remove,
    /// It gets this state. The parent is not translated to our side's ids yet.
    Put(Box<DesiredState>, RewritesContent),
    /// It is in conflict.
    Conflict(TreeConflictKind),
    /// It stays as our side has it, because something that it depends on is in conflict.
    Blocked,
}

/// Whether a decision writes content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RewritesContent {
    Yes,
    No,
}

/// A directory and a name in it.
type Location = (NodeId, Vec<u8>);

fn location(state: &NodeState) -> Location {
    (state.parent, state.name.clone())
}

struct TreeMerge {
    nodes: BTreeMap<NodeId, NodeSides>,
    /// Nodes of our side that stand for another node.
    our_aliases: Aliases,
    /// The same of their side.
    their_aliases: Aliases,
    left_out: BTreeSet<NodeId>,
    given: HashMap<NodeId, Arc<Vec<u8>>>,
    /// Nodes of whose change a part is left out.
    in_part: BTreeSet<NodeId>,
    marked: BTreeSet<NodeId>,
    /// The conflicts that choices were made for, with their related nodes, so that none is made twice.
    resolved: HashSet<(NodeId, TreeConflictKind, Vec<NodeId>)>,
    /// Text merges that were made already.
    merged: HashMap<NodeId, MergedText>,
}

struct Evaluated {
    decisions: BTreeMap<NodeId, Decision>,
    conflicts: Vec<TreeConflict>,
}

impl TreeMerge {
    fn new(mut nodes: BTreeMap<NodeId, NodeSides>) -> Self {
        let (our_aliases, their_aliases) = pairing::pair(&mut nodes);
        TreeMerge {
            nodes,
            our_aliases,
            their_aliases,
            left_out: BTreeSet::new(),
            given: HashMap::new(),
            in_part: BTreeSet::new(),
            marked: BTreeSet::new(),
            resolved: HashSet::new(),
            merged: HashMap::new(),
        }
    }

    fn apply_presets(&mut self, choices: &mut dyn MergeChoices) {
        for (&node, sides) in &mut self.nodes {
            if decide::is_same(sides.base.as_ref(), sides.theirs.as_ref()) {
                continue;
            }
            match choices.preset(node, sides) {
                None => {}
                Some(NodePreset::LeaveOut) => {
                    sides.base.clone_from(&sides.theirs);
                    self.left_out.insert(node);
                }
                Some(NodePreset::Drop) => sides.base.clone_from(&sides.theirs),
                Some(NodePreset::Content(content)) => drop(self.given.insert(node, content)),
                Some(NodePreset::Part(content)) => {
                    self.given.insert(node, content);
                    self.in_part.insert(node);
                }
            }
        }
    }

    fn evaluate(&mut self, view: &mut dyn MergeView) -> StoreResult<Evaluated> {
        let mut decisions = BTreeMap::new();
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for node in ids {
            decisions.insert(node, self.decide(node, view)?);
            view.decided()?;
        }
        let mut conflicts = self.conflicts_of(&decisions);
        for conflict in conflicts.iter().filter(|conflict| conflict.kind == TreeConflictKind::Kind) {
            // What they put in the place of a node that stays can't get there.
            for node in &conflict.related {
                if self.nodes.get(node).is_some_and(|sides| sides.ours.is_none()) {
                    decisions.insert(*node, Decision::Blocked);
                }
            }
        }
        self.check_structure(&mut decisions, &mut conflicts, view)?;
        Ok(Evaluated { decisions, conflicts })
    }

    /// Makes the choices that the caller has for conflicts. Returns whether there was one.
    fn resolve_conflicts(&mut self, conflicts: &[TreeConflict], choices: &mut dyn MergeChoices) -> bool {
        let mut is_resolved = false;
        for conflict in conflicts {
            let is_left_out = self.left_out.contains(&conflict.node);
            let choice = if is_left_out { Some(ConflictChoice::LeaveOut) } else { choices.resolve(conflict) };
            if let Some(choice) = choice
                && self.resolved.insert((conflict.node, conflict.kind, conflict.related.clone()))
            {
                self.resolve(conflict, choice);
                is_resolved = true;
            }
        }
        is_resolved
    }

    fn resolve(&mut self, conflict: &TreeConflict, choice: ConflictChoice) {
        let side = match choice {
            ConflictChoice::Ours => MergeSide::Ours,
            ConflictChoice::Theirs => MergeSide::Theirs,
            ConflictChoice::LeaveOut => {
                self.left_out.insert(conflict.node);
                self.left_out.extend(&conflict.related);
                MergeSide::Ours
            }
            ConflictChoice::Content(content) => {
                self.given.insert(conflict.node, content);
                return;
            }
            ConflictChoice::Markers => {
                self.marked.insert(conflict.node);
                return;
            }
        };
        for node in std::iter::once(&conflict.node).chain(&conflict.related) {
            let Some(sides) = self.nodes.get_mut(node) else { continue };
            self.merged.remove(node);
            // The other side's state as the base: then that side has changed nothing.
            let other = match side {
                MergeSide::Ours => sides.theirs.clone(),
                MergeSide::Theirs => sides.ours.clone(),
            };
            let is_existing = sides.ours.is_some();
            match (conflict.kind, &mut sides.base, other) {
                (TreeConflictKind::Content, Some(base), Some(other)) => {
                    base.content.clone_from(&other.content)
                }
                (TreeConflictKind::RenamedRenamed | TreeConflictKind::Cycle, Some(base), Some(other)) => {
                    (base.parent, base.name) = location(&other);
                }
                (TreeConflictKind::NameTaken, Some(base), Some(other))
                    if side == MergeSide::Ours && is_existing && *node == conflict.node =>
                {
                    (base.parent, base.name) = location(&other);
                }
                (TreeConflictKind::NameTaken, ..) if side == MergeSide::Theirs && *node == conflict.node => {}
                (TreeConflictKind::NameTaken, ..) if side == MergeSide::Ours && *node != conflict.node => {}
                (_, base, other) => *base = other,
            }
        }
    }

    /// The ids of a node on our side and on theirs.
    fn real_ids(&self, node: NodeId) -> [NodeId; 2] {
        [self.our_aliases.real(node), self.their_aliases.real(node)]
    }

    /// A node's id on our side; for a node that we don't have, on theirs.
    fn output_id(&self, node: NodeId) -> NodeId {
        let is_ours = self.nodes.get(&node).is_none_or(|sides| sides.ours.is_some());
        let aliases = if is_ours { &self.our_aliases } else { &self.their_aliases };
        aliases.real(node)
    }

    fn into_plan(self, evaluated: Evaluated) -> TreeMergePlan {
        let mut targets = BTreeMap::new();
        let mut left_out = self.left_out.clone();
        for (node, decision) in evaluated.decisions {
            let (desired, rewrites) = match decision {
                Decision::Keep | Decision::Conflict(_) => continue,
                Decision::Blocked => {
                    left_out.insert(node);
                    continue;
                }
                Decision::Remove => (None, RewritesContent::Yes),
                Decision::Put(desired, rewrites) => {
                    let parent = self.output_id(desired.parent);
                    (Some(DesiredState { parent, ..*desired }), rewrites)
                }
            };
            let rewrites_content = rewrites == RewritesContent::Yes;
            targets.insert(self.output_id(node), PlannedNode { desired, rewrites_content });
        }
        let aliases: Vec<NodeId> = left_out.iter().flat_map(|&node| self.real_ids(node)).collect();
        left_out.extend(aliases);
        let in_part = self.in_part.iter().flat_map(|&node| self.real_ids(node)).collect();
        let is_marked = |node: &NodeId| matches!(self.merged.get(node), Some(MergedText::Marked(_)));
        let marked = self.marked.iter().copied().filter(is_marked).collect();
        TreeMergePlan { targets, conflicts: evaluated.conflicts, left_out, in_part, marked }
    }
}

#[cfg(test)]
mod tests;
