//! What is to become of one node, from its three states alone.

use std::sync::Arc;

use crate::history::merge::pick;
use crate::history::tree_merge::{
    Decision, Location, MergeSide, MergeView, MergedText, RewritesContent, TreeConflictKind, TreeMerge,
    location,
};
use crate::history::undo::{DesiredState, PlannedContent};
use crate::store::{ContentRef, NodeId, NodeKind, NodeState, StoreResult};

/// Whether two states are the same, except for the time of the last modification.
pub(super) fn is_same(one: Option<&NodeState>, other: Option<&NodeState>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            (one.parent, &one.name, one.kind, one.mode) == (other.parent, &other.name, other.kind, other.mode)
                && has_same_content(one, other)
        }
        _ => false,
    }
}

/// Whether two states have the same content. Unknown content equals nothing.
fn has_same_content(one: &NodeState, other: &NodeState) -> bool {
    one.kind == NodeKind::Directory || one.content.is_some() && one.content == other.content
}

const EXECUTE: u32 = 0o111;

/// The mode of what both sides have. If both changed who may read or write, only what both allow. Each execute bit is from the side
/// that changed it, but not for those who may not read. So a merge allows nothing that neither side wanted.
fn merge_modes(base: u32, ours: u32, theirs: u32) -> u32 {
    if let Some(mode) = pick(&base, &ours, &theirs) {
        return *mode;
    }
    let others = [base, ours, theirs].map(|mode| mode & !EXECUTE);
    let others = *pick(&others[0], &others[1], &others[2]).unwrap_or(&(ours & theirs & !EXECUTE));
    let same = !(ours ^ theirs);
    let execute = (ours & same | !base & !same) & EXECUTE;
    others | execute & (others >> 2)
}

/// The mode of what both sides added: executable if one of them made it so, otherwise only what both allow.
fn added_mode(ours: u32, theirs: u32) -> u32 {
    ours & theirs | (ours | theirs) & EXECUTE
}

/// The content that a node gets.
enum ContentDecision {
    Ours,
    Theirs,
    Merged(PlannedContent),
    Conflict,
}

impl TreeMerge {
    pub(super) fn decide(&mut self, node: NodeId, view: &mut dyn MergeView) -> StoreResult<Decision> {
        let sides = &self.nodes[&node];
        let (base, ours, theirs) = (sides.base.as_ref(), sides.ours.as_ref(), sides.theirs.as_ref());
        if let Some(content) = self.given.get(&node) {
            return Ok(with_given_content(base, ours, theirs, content));
        }
        if is_same(base, theirs) || is_same(ours, theirs) {
            return Ok(Decision::Keep);
        }
        match (base, ours, theirs) {
            (_, None, None) => Ok(Decision::Keep),
            (None, None, Some(theirs)) => Ok(put(theirs, location(theirs), theirs.mode, theirs)),
            (Some(_), None, Some(_)) => {
                Ok(Decision::Conflict(TreeConflictKind::Deleted { by: MergeSide::Ours }))
            }
            (base, Some(ours), None) => Ok(if is_same(base, Some(ours)) {
                Decision::Remove
            } else {
                Decision::Conflict(TreeConflictKind::Deleted { by: MergeSide::Theirs })
            }),
            (base, Some(ours), Some(theirs)) => {
                let place = match base {
                    Some(base) => pick(&location(base), &location(ours), &location(theirs)).cloned(),
                    None => (location(ours) == location(theirs)).then(|| location(ours)),
                };
                let Some(place) = place else {
                    return Ok(Decision::Conflict(TreeConflictKind::RenamedRenamed));
                };
                let (base, ours, theirs) = (base.cloned(), ours.clone(), theirs.clone());
                self.decide_existing(node, base.as_ref(), &ours, &theirs, place, view)
            }
        }
    }

    fn decide_existing(
        &mut self,
        node: NodeId,
        base: Option<&NodeState>,
        ours: &NodeState,
        theirs: &NodeState,
        place: Location,
        view: &mut dyn MergeView,
    ) -> StoreResult<Decision> {
        let mode = match base {
            Some(base) => merge_modes(base.mode, ours.mode, theirs.mode),
            None => added_mode(ours.mode, theirs.mode),
        };
        Ok(match self.decide_content(node, base, ours, theirs, view)? {
            ContentDecision::Conflict if base.is_none() => Decision::Conflict(TreeConflictKind::AddedAdded),
            ContentDecision::Conflict => Decision::Conflict(TreeConflictKind::Content),
            ContentDecision::Ours if place == location(ours) && mode == ours.mode => Decision::Keep,
            ContentDecision::Ours => match put(ours, place, mode, ours) {
                Decision::Put(desired, _) => Decision::Put(desired, RewritesContent::No),
                decision => decision,
            },
            ContentDecision::Theirs => put(ours, place, mode, theirs),
            ContentDecision::Merged(content) => {
                let desired = DesiredState {
                    parent: place.0,
                    name: place.1,
                    kind: ours.kind,
                    mode,
                    modified: None,
                    content,
                };
                Decision::Put(Box::new(desired), RewritesContent::Yes)
            }
        })
    }

    fn decide_content(
        &mut self,
        node: NodeId,
        base: Option<&NodeState>,
        ours: &NodeState,
        theirs: &NodeState,
        view: &mut dyn MergeView,
    ) -> StoreResult<ContentDecision> {
        if has_same_content(ours, theirs) || base.is_some_and(|base| has_same_content(base, theirs)) {
            return Ok(ContentDecision::Ours);
        }
        if base.is_some_and(|base| has_same_content(base, ours)) {
            return Ok(ContentDecision::Theirs);
        }
        let base_content = base.map(|base| base.content.as_ref());
        let (NodeKind::File, Some(our_content), Some(their_content)) =
            (ours.kind, &ours.content, &theirs.content)
        else {
            return Ok(ContentDecision::Conflict);
        };
        let markers = self.marked.contains(&node);
        let base_content: Option<&ContentRef> = match base_content {
            // The base isn't known any more.
            Some(None) => return Ok(ContentDecision::Conflict),
            Some(Some(content)) => Some(content),
            None if markers => None,
            // Two files that were added have nothing in common that lines could be merged by.
            None => return Ok(ContentDecision::Conflict),
        };
        let known = self.merged.get(&node).cloned();
        let merged = match known {
            Some(MergedText::Conflict) if markers => None,
            known => known,
        };
        let merged = match merged {
            Some(merged) => merged,
            None => {
                let merged = view.merge_text(base_content, our_content, their_content, markers)?;
                self.merged.insert(node, merged.clone());
                merged
            }
        };
        Ok(match merged {
            MergedText::Clean(content) | MergedText::Marked(content) => ContentDecision::Merged(content),
            MergedText::Ours => ContentDecision::Ours,
            MergedText::Conflict => ContentDecision::Conflict,
        })
    }
}

/// A node at a place, with the kind of one state and the content of another.
fn put(kind: &NodeState, (parent, name): Location, mode: u32, content: &NodeState) -> Decision {
    let modified = Some(content.modified);
    let content = match (&content.content, kind.kind) {
        (_, NodeKind::Directory) => PlannedContent::None,
        (Some(stored), _) => PlannedContent::Stored(stored.clone()),
        (None, _) => return Decision::Conflict(TreeConflictKind::Content),
    };
    let rewrites = if kind.kind == NodeKind::Directory { RewritesContent::No } else { RewritesContent::Yes };
    Decision::Put(Box::new(DesiredState { parent, name, kind: kind.kind, mode, modified, content }), rewrites)
}

/// A file with the given content: where a merge puts it or, if the sides have renamed it differently, where our side has it.
fn with_given_content(
    base: Option<&NodeState>,
    ours: Option<&NodeState>,
    theirs: Option<&NodeState>,
    content: &Arc<Vec<u8>>,
) -> Decision {
    let Some(state) = ours.or(theirs).filter(|state| state.kind == NodeKind::File) else {
        return Decision::Conflict(TreeConflictKind::Kind);
    };
    let all_sides = base.zip(ours).zip(theirs).map(|((base, ours), theirs)| (base, ours, theirs));
    let place = all_sides
        .and_then(|(base, ours, theirs)| pick(&location(base), &location(ours), &location(theirs)).cloned());
    let (parent, name) = place.unwrap_or_else(|| location(state));
    let mode = all_sides.and_then(|(base, ours, theirs)| pick(&base.mode, &ours.mode, &theirs.mode).copied());
    let desired = DesiredState {
        parent,
        name,
        kind: state.kind,
        mode: mode.unwrap_or(theirs.unwrap_or(state).mode),
        modified: None,
        content: PlannedContent::Merged(Arc::clone(content)),
    };
    Decision::Put(Box::new(desired), RewritesContent::Yes)
}
