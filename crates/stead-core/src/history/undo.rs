//! Plans a revert: for each node, inverts the changes of the given revisions and merges the result three-way with the
//! node's current state.
//!
//! Nodes are followed through renames, so a file that was moved since is reverted at its current path. Later changes
//! stay. A node whose later changes conflict with the revert stays as it is and is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::clock::Timestamp;
use crate::history::merge::{merge, pick};
use crate::identity::OperationId;
use crate::store::{ContentRef, NodeChange, NodeId, NodeKind, NodeState, RevisionSet, StoreResult};

/// How revisions are reverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevertMode {
    /// Inverts each revision and merges the result with later changes.
    Merge,
    /// Restores the state before the oldest of the revisions, discarding all later changes.
    Exact,
}

/// Content that a plan writes.
#[derive(Debug, Clone)]
pub enum PlannedContent {
    /// Content that the Store holds.
    Stored(ContentRef),
    /// The result of a merge.
    Merged(Arc<Vec<u8>>),
    /// The result of a merge, as a draft in the Store.
    Drafted(DraftedText),
    /// None: the node is a directory.
    None,
}

/// A merged text that is a draft in a Store, or is about to be: texts are stored some at a time while a merge is planned.
#[derive(Debug, Clone, Default)]
pub struct DraftedText(Arc<OnceLock<ContentRef>>);

impl DraftedText {
    /// Sets where the text lies.
    pub fn set(&self, content: ContentRef) {
        // It is set once.
        let _ = self.0.set(content);
    }

    /// Where the text lies; `None` if it isn't stored, because nobody needs it.
    pub fn content(&self) -> Option<&ContentRef> {
        self.0.get()
    }
}

/// The state that a node is to get.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DesiredState {
    /// The directory that the node is to be in.
    pub parent: NodeId,
    /// The node's name in that directory.
    pub name: Vec<u8>,
    /// The node's kind.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// The time of the last modification; `None` means now.
    pub modified: Option<Timestamp>,
    /// The node's content.
    pub content: PlannedContent,
}

/// What a plan does to a node.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PlannedNode {
    /// The state that the node is to get; `None` removes it.
    pub desired: Option<DesiredState>,
    /// Whether its content is written.
    pub rewrites_content: bool,
}

/// A node that stays as it is, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeConflict {
    /// The node's id.
    pub node: NodeId,
    /// The node's path in the Store, or the path that something else has taken. `None` if the node has none, because its directory
    /// is gone, too.
    pub path: Option<Vec<u8>>,
    /// The reason, as a sentence.
    pub why: String,
}

/// What a revert does to each node, and which nodes it can't revert.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RevertPlan {
    /// The nodes that change.
    pub targets: BTreeMap<NodeId, PlannedNode>,
    /// The nodes that should change but stay as they are.
    pub conflicts: Vec<NodeConflict>,
    /// For each node, the operations whose inverse changes it. An operation that appears at no node has no effect any
    /// more: what it did is gone already.
    pub operations_by_node: BTreeMap<NodeId, BTreeSet<OperationId>>,
}

/// Plans the revert of revisions. `read` reads the content that a reference names.
pub fn plan_revert(
    revisions: &RevisionSet,
    mode: RevertMode,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<RevertPlan> {
    let mut plan = RevertPlan::default();
    // Newest first: each inverse applies to the result of the ones before it.
    let mut changes_by_node: BTreeMap<NodeId, Vec<(OperationId, &NodeChange)>> = BTreeMap::new();
    for revision in &revisions.revisions {
        for change in &revision.changes {
            changes_by_node.entry(change.node).or_default().push((revision.operation.id, change));
        }
    }
    for (node, changes) in changes_by_node {
        let current_state = revisions.current.get(&node).and_then(|current| current.state.as_ref());
        let mut effective_operations = BTreeSet::new();
        let desired = match mode {
            RevertMode::Merge => invert_changes(current_state, &changes, &mut effective_operations, read)?,
            RevertMode::Exact => {
                state_before(changes.last().expect("a node is listed with at least one change").1)
            }
        };
        if !effective_operations.is_empty() {
            plan.operations_by_node.insert(node, effective_operations);
        }
        match desired {
            Err(why) => {
                let path = revisions.current.get(&node).map(|current| current.path.as_bytes().to_vec());
                let path = path.unwrap_or_else(|| last_known_path(revisions, &changes));
                plan.conflicts.push(NodeConflict { node, path: Some(path), why });
            }
            Ok(desired) => {
                let target = difference_to_current(current_state, desired, mode, read)?;
                if let Some(target) = target {
                    plan.targets.insert(node, target);
                }
            }
        }
    }
    Ok(plan)
}

/// The last known path of a node that no longer exists.
fn last_known_path(revisions: &RevisionSet, changes: &[(OperationId, &NodeChange)]) -> Vec<u8> {
    let Some(state) = changes.iter().find_map(|(_, change)| change.after.as_ref().or(change.before.as_ref()))
    else {
        return Vec::new();
    };
    match revisions.current.get(&state.parent) {
        Some(parent) => parent.path.child(&state.name).as_bytes().to_vec(),
        // Its directory is gone, too.
        None => state.path.as_bytes().to_vec(),
    }
}

/// What has to change to get from the node's current state to the desired one; `None` if nothing has to.
fn difference_to_current(
    current: Option<&NodeState>,
    desired: Option<DesiredState>,
    mode: RevertMode,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<Option<PlannedNode>> {
    let (Some(state), Some(target)) = (current, &desired) else {
        return Ok((current.is_some() || desired.is_some())
            .then_some(PlannedNode { desired, rewrites_content: true }));
    };
    let rewrites_content = match (&target.content, &state.content) {
        (PlannedContent::None, _) => false,
        (PlannedContent::Stored(stored), Some(current_content)) => stored != current_content,
        (PlannedContent::Merged(bytes), Some(current_content)) => {
            current_content.size() != bytes.len() as u64 || read(current_content)? != **bytes
        }
        (PlannedContent::Drafted(_), Some(_))
        | (PlannedContent::Stored(_) | PlannedContent::Merged(_) | PlannedContent::Drafted(_), None) => true,
    };
    // An exact revert also resets the time of a file that was only touched since. A directory's time follows the
    // changes to its entries.
    let keeps_time = mode == RevertMode::Merge
        || target.kind != NodeKind::File
        || target.modified.is_none_or(|modified| modified == state.modified);
    let same = !rewrites_content
        && keeps_time
        && (target.parent, &target.name, target.mode) == (state.parent, &state.name, state.mode)
        && target.kind == state.kind;
    Ok((!same).then_some(PlannedNode { desired, rewrites_content }))
}

/// The state before the oldest change.
fn state_before(first: &NodeChange) -> Result<Option<DesiredState>, String> {
    match &first.before {
        None => Ok(None),
        Some(state) => desired_state(state).map(Some).ok_or_else(content_not_kept),
    }
}

fn desired_state(state: &NodeState) -> Option<DesiredState> {
    let content = match (&state.content, state.kind) {
        (_, NodeKind::Directory) => PlannedContent::None,
        (Some(stored), _) => PlannedContent::Stored(stored.clone()),
        (None, _) => return None,
    };
    Some(DesiredState {
        parent: state.parent,
        name: state.name.clone(),
        kind: state.kind,
        mode: state.mode,
        modified: Some(state.modified),
        content,
    })
}

fn content_not_kept() -> String {
    "the earlier content was not kept".to_owned()
}

fn changed_externally() -> String {
    "it has been changed since by another program, or by a change whose earlier content was not kept"
        .to_owned()
}

/// Inverts the changes of one node, newest first, starting from its current state. Adds to `effective_operations` the
/// operations whose inverse changed something. The inner error says why the node is a conflict.
fn invert_changes(
    current_state: Option<&NodeState>,
    changes: &[(OperationId, &NodeChange)],
    effective_operations: &mut BTreeSet<OperationId>,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<Result<Option<DesiredState>, String>> {
    // Without a reference to the current content, nothing can be merged with it.
    let mut current = match current_state {
        Some(state) => match desired_state(state) {
            Some(desired) => Some(desired),
            None => return Ok(Err(content_not_kept())),
        },
        None => None,
    };
    for (operation, change) in changes {
        let next = match invert_change(current.clone(), change, read)? {
            Ok(next) => next,
            Err(why) => return Ok(Err(why)),
        };
        if !effective_operations.contains(operation) && differs(current.as_ref(), next.as_ref(), read)? {
            effective_operations.insert(*operation);
        }
        current = next;
    }
    Ok(Ok(current))
}

/// Whether a node differs between two points of a plan.
fn differs(
    one: Option<&DesiredState>,
    other: Option<&DesiredState>,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<bool> {
    let (Some(one), Some(other)) = (one, other) else { return Ok(one.is_some() != other.is_some()) };
    if (one.parent, &one.name, one.mode, one.kind) != (other.parent, &other.name, other.mode, other.kind) {
        return Ok(true);
    }
    Ok(match (&one.content, &other.content) {
        (PlannedContent::None, PlannedContent::None) => false,
        (PlannedContent::Merged(one), PlannedContent::Merged(other)) => one != other,
        (content, PlannedContent::Stored(stored)) | (PlannedContent::Stored(stored), content) => {
            is_same_content(content, Some(stored), read)? != Some(true)
        }
        (PlannedContent::None, PlannedContent::Merged(_))
        | (PlannedContent::Merged(_), PlannedContent::None)
        | (PlannedContent::Drafted(_), _)
        | (_, PlannedContent::Drafted(_)) => true,
    })
}

/// Inverts one change and merges the result with the state that the node has at that point. The inner error says why
/// the node is a conflict.
fn invert_change(
    current: Option<DesiredState>,
    change: &NodeChange,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<Result<Option<DesiredState>, String>> {
    let conflict = |why: &str| Ok(Err(why.to_owned()));
    if let (Some(after), Some(current)) = (&change.after, &current)
        && after.kind != current.kind
    {
        return conflict("an entry of another kind (file, directory or symlink) is at this path now");
    }
    match (&change.before, &change.after, current) {
        (None, None, current) => Ok(Ok(current)),
        // It was removed: it comes back.
        (Some(before), None, None) => Ok(desired_state(before).map(Some).ok_or_else(content_not_kept)),
        // It was removed, and exists again: it stays.
        (Some(_), None, Some(current)) => Ok(Ok(Some(current))),
        // It was created, and is gone already.
        (None, Some(_), None) => Ok(Ok(None)),
        // It was created: it is removed, unless it has been changed since.
        (None, Some(after), Some(current)) => {
            let untouched = current.parent == after.parent
                && current.name == after.name
                && is_same_content(&current.content, after.content.as_ref(), read)?.unwrap_or(false);
            if after.kind == NodeKind::Directory
                && current.parent == after.parent
                && current.name == after.name
            {
                return Ok(Ok(None));
            }
            if untouched { Ok(Ok(None)) } else { conflict("it has been changed since it was created") }
        }
        (Some(before), Some(after), None) => {
            if is_unchanged(before, after) {
                Ok(Ok(None))
            } else {
                conflict("it has been removed since, or moved to a place where you may not restore")
            }
        }
        (Some(before), Some(after), Some(current)) => invert_modification(current, before, after, read),
    }
}

/// Whether a change left its node as it was, except for the time of the last modification.
fn is_unchanged(before: &NodeState, after: &NodeState) -> bool {
    let parts = |state: &NodeState| (state.parent, state.name.clone(), state.kind, state.mode);
    parts(before) == parts(after)
        && before.content == after.content
        && (before.content.is_some() || before.kind == NodeKind::Directory)
}

fn invert_modification(
    current: DesiredState,
    before: &NodeState,
    after: &NodeState,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<Result<Option<DesiredState>, String>> {
    let conflict = |why: &str| Ok(Err(why.to_owned()));
    let location = |state: &NodeState| (state.parent, state.name.clone());
    let current_location = (current.parent, current.name.clone());
    let Some((parent, name)) = pick(&location(after), &current_location, &location(before)).cloned() else {
        return conflict("it has been moved since");
    };
    let Some(&mode) = pick(&after.mode, &current.mode, &before.mode) else {
        return conflict("its mode has been changed since");
    };
    let mut inverted = DesiredState { parent, name, mode, ..current };
    if inverted.kind == NodeKind::Directory || before.content.is_some() && before.content == after.content {
        return Ok(Ok(Some(inverted)));
    }
    let Some(earlier_content) = &before.content else {
        // If the content after the change is unknown as well, a later change displaced it and it wasn't kept.
        return Ok(Err(if after.content.is_none() { changed_externally() } else { content_not_kept() }));
    };
    if is_same_content(&inverted.content, Some(earlier_content), read)? == Some(true) {
        return Ok(Ok(Some(inverted)));
    }
    match is_same_content(&inverted.content, after.content.as_ref(), read)? {
        None => {
            return conflict("it has been changed by another program, and its earlier content is not known");
        }
        Some(true) => {
            inverted.content = PlannedContent::Stored(earlier_content.clone());
            inverted.modified = Some(before.modified);
        }
        Some(false) if inverted.kind != NodeKind::File => return conflict("it has been changed since"),
        Some(false) => {
            let base = read(after.content.as_ref().expect("an unknown content can't be compared"))?;
            let ours = match &inverted.content {
                PlannedContent::Stored(stored) => read(stored)?,
                PlannedContent::Merged(bytes) => bytes.to_vec(),
                // A revert stores no text while it is planned.
                PlannedContent::Drafted(_) | PlannedContent::None => Vec::new(),
            };
            let Some(merged) = merge(&base, &ours, &read(earlier_content)?) else {
                return conflict("the same lines have been changed since");
            };
            inverted.content = PlannedContent::Merged(Arc::new(merged));
            inverted.modified = None;
        }
    }
    Ok(Ok(Some(inverted)))
}

/// Whether two contents are the same; `None` if `other` is unknown.
fn is_same_content(
    content: &PlannedContent,
    other: Option<&ContentRef>,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<Option<bool>> {
    Ok(match (content, other) {
        (_, None) => None,
        (PlannedContent::None | PlannedContent::Drafted(_), Some(_)) => Some(false),
        (PlannedContent::Stored(stored), Some(other)) => Some(stored == other),
        (PlannedContent::Merged(bytes), Some(other)) => {
            Some(other.size() == bytes.len() as u64 && read(other)? == **bytes)
        }
    })
}
