//! Plans a revert: for each node, inverts the changes of the given revisions and merges the result three-way with the
//! node's current state.
//!
//! Nodes are followed through renames, so a file that was moved since is reverted at its current path. Later changes
//! stay. A node whose later changes conflict with the revert stays as it is and is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    /// None: the node is a directory.
    None,
}

/// The state that a node is to get.
#[derive(Debug, Clone)]
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
pub struct PlannedNode {
    /// The state that the node is to get; `None` removes it.
    pub desired: Option<DesiredState>,
    /// Whether its content is written.
    pub rewrites_content: bool,
}

/// A node that stays as it is, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConflict {
    /// The node's id.
    pub node: NodeId,
    /// The node's path in the Store, as far as it is known.
    pub path: Vec<u8>,
    /// The reason, as a sentence.
    pub why: String,
}

/// What a revert does to each node, and which nodes it can't revert.
#[derive(Debug, Clone, Default)]
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
    deeds: &RevisionSet,
    how: RevertMode,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<RevertPlan> {
    let mut arrangement = RevertPlan::default();
    // Newest first: each inverse applies to the result of the ones before it.
    let mut lines: BTreeMap<NodeId, Vec<(OperationId, &NodeChange)>> = BTreeMap::new();
    for deed in &deeds.revisions {
        for line in &deed.changes {
            lines.entry(line.node).or_default().push((deed.operation.id, line));
        }
    }
    for (node, lines) in lines {
        let now = deeds.current.get(&node).and_then(|now| now.state.as_ref());
        let mut effects = BTreeSet::new();
        let taken = match how {
            RevertMode::Merge => invert_changes(now, &lines, &mut effects, read)?,
            RevertMode::Exact => {
                state_before(lines.last().expect("a node is listed with at least one change").1)
            }
        };
        if !effects.is_empty() {
            arrangement.operations_by_node.insert(node, effects);
        }
        match taken {
            Err(why) => {
                let path = deeds.current.get(&node).map(|now| now.path.as_bytes().to_vec());
                let path = path.unwrap_or_else(|| last_known_path(deeds, &lines));
                arrangement.conflicts.push(NodeConflict { node, path, why });
            }
            Ok(to) => {
                let target = difference_to_current(now, to, how, read)?;
                if let Some(target) = target {
                    arrangement.targets.insert(node, target);
                }
            }
        }
    }
    Ok(arrangement)
}

/// The last known path of a node that no longer exists.
fn last_known_path(deeds: &RevisionSet, lines: &[(OperationId, &NodeChange)]) -> Vec<u8> {
    let Some(state) = lines.iter().find_map(|(_, line)| line.after.as_ref().or(line.before.as_ref())) else {
        return Vec::new();
    };
    let mut path =
        deeds.current.get(&state.parent).map(|now| now.path.as_bytes().to_vec()).unwrap_or_default();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(&state.name);
    path
}

/// What has to change to get from the node's current state to the desired one; `None` if nothing has to.
fn difference_to_current(
    now: Option<&NodeState>,
    to: Option<DesiredState>,
    how: RevertMode,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<Option<PlannedNode>> {
    let (Some(state), Some(wanted)) = (now, &to) else {
        return Ok(
            (now.is_some() || to.is_some()).then_some(PlannedNode { desired: to, rewrites_content: true })
        );
    };
    let rewrites = match (&wanted.content, &state.content) {
        (PlannedContent::None, _) => false,
        (PlannedContent::Stored(past), Some(held)) => past != held,
        (PlannedContent::Merged(bytes), Some(held)) => {
            held.size() != bytes.len() as u64 || read(held)? != **bytes
        }
        (PlannedContent::Stored(_) | PlannedContent::Merged(_), None) => true,
    };
    // An exact revert also resets the time of a file that was only touched since. A directory's time follows the
    // changes to its entries.
    let keeps_time = how == RevertMode::Merge
        || wanted.kind != NodeKind::File
        || wanted.modified.is_none_or(|modified| modified == state.modified);
    let same = !rewrites
        && keeps_time
        && (wanted.parent, &wanted.name, wanted.mode) == (state.parent, &state.name, state.mode)
        && wanted.kind == state.kind;
    Ok((!same).then_some(PlannedNode { desired: to, rewrites_content: rewrites }))
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
        (Some(past), _) => PlannedContent::Stored(past.clone()),
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

/// Inverts the changes of one node, newest first, starting from its current state. Adds to `effects` the operations
/// whose inverse changed something. The inner error says why the node is a conflict.
fn invert_changes(
    now: Option<&NodeState>,
    lines: &[(OperationId, &NodeChange)],
    effects: &mut BTreeSet<OperationId>,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<Result<Option<DesiredState>, String>> {
    // Without a reference to the current content, nothing can be merged with it.
    let mut current = match now {
        Some(state) => match desired_state(state) {
            Some(desired) => Some(desired),
            None => return Ok(Err(content_not_kept())),
        },
        None => None,
    };
    for (operation, line) in lines {
        let next = match invert_change(current.clone(), line, read)? {
            Ok(next) => next,
            Err(why) => return Ok(Err(why)),
        };
        if !effects.contains(operation) && differs(current.as_ref(), next.as_ref(), read)? {
            effects.insert(*operation);
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
        (content, PlannedContent::Stored(past)) | (PlannedContent::Stored(past), content) => {
            is_same_content(content, Some(past), read)? != Some(true)
        }
        (PlannedContent::None, PlannedContent::Merged(_))
        | (PlannedContent::Merged(_), PlannedContent::None) => true,
    })
}

/// Inverts one change and merges the result with the state that the node has at that point. The inner error says why
/// the node is a conflict.
fn invert_change(
    current: Option<DesiredState>,
    line: &NodeChange,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<Result<Option<DesiredState>, String>> {
    let conflict = |why: &str| Ok(Err(why.to_owned()));
    if let (Some(after), Some(current)) = (&line.after, &current)
        && after.kind != current.kind
    {
        return conflict("an entry of another kind (file, directory or symlink) is at this path now");
    }
    match (&line.before, &line.after, current) {
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
    let place = |state: &NodeState| (state.parent, state.name.clone());
    let here = (current.parent, current.name.clone());
    let Some((parent, name)) = pick(&place(after), &here, &place(before)).cloned() else {
        return conflict("it has been moved since");
    };
    let Some(&mode) = pick(&after.mode, &current.mode, &before.mode) else {
        return conflict("its mode has been changed since");
    };
    let mut changed = DesiredState { parent, name, mode, ..current };
    if changed.kind == NodeKind::Directory || before.content.is_some() && before.content == after.content {
        return Ok(Ok(Some(changed)));
    }
    let Some(wanted) = &before.content else {
        // If the content after the change is unknown as well, a later change displaced it and it wasn't kept.
        return Ok(Err(if after.content.is_none() { changed_externally() } else { content_not_kept() }));
    };
    if is_same_content(&changed.content, Some(wanted), read)? == Some(true) {
        return Ok(Ok(Some(changed)));
    }
    match is_same_content(&changed.content, after.content.as_ref(), read)? {
        None => {
            return conflict("it has been changed by another program, and its earlier content is not known");
        }
        Some(true) => {
            changed.content = PlannedContent::Stored(wanted.clone());
            changed.modified = Some(before.modified);
        }
        Some(false) if changed.kind != NodeKind::File => return conflict("it has been changed since"),
        Some(false) => {
            let base = read(after.content.as_ref().expect("an unknown content can't be compared"))?;
            let ours = match &changed.content {
                PlannedContent::Stored(past) => read(past)?,
                PlannedContent::Merged(bytes) => bytes.to_vec(),
                PlannedContent::None => Vec::new(),
            };
            let Some(merged) = merge(&base, &ours, &read(wanted)?) else {
                return conflict("the same lines have been changed since");
            };
            changed.content = PlannedContent::Merged(Arc::new(merged));
            changed.modified = None;
        }
    }
    Ok(Ok(Some(changed)))
}

/// Whether two contents are the same; `None` if `other` is unknown.
fn is_same_content(
    content: &PlannedContent,
    other: Option<&ContentRef>,
    read: &mut dyn FnMut(&ContentRef) -> StoreResult<Vec<u8>>,
) -> StoreResult<Option<bool>> {
    Ok(match (content, other) {
        (_, None) => None,
        (PlannedContent::None, Some(_)) => Some(false),
        (PlannedContent::Stored(past), Some(other)) => Some(past == other),
        (PlannedContent::Merged(bytes), Some(other)) => {
            Some(other.size() == bytes.len() as u64 && read(other)? == **bytes)
        }
    })
}
