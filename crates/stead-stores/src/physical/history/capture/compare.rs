//! Compares a directory with a snapshot of it. The result is one revision by an unknown agent.
//!
//! Both sides are listed side by side. An entry is the same node on both sides if it has the same name and kind. Files
//! that may differ are reported; the caller compares their contents to find out whether they do.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use stead_core::store::{
    Attr, Coverage, CurrentNode, NodeChange, NodeId, NodeKind, NodePath, NodeState, Page, Revision,
    RevisionNumber, RevisionSet, Store, StoreError, StorePath, StoreResult,
};
use stead_core::{Identity, Operation, OperationId, Timestamp};

use super::super::super::PhysicalStore;
use super::super::ledger_event::Fingerprint;
use super::super::old_content::ContentSource;
use super::super::replay::FIRST_REMOVED_NODE;
use super::{coverage_of, pair_by_name};
use crate::virtual_store::capture::{CaptureVolume, CapturedEntry, CapturedParts};

pub(super) struct CaptureComparison<'a> {
    store: &'a PhysicalStore,
    /// The capture volume as of the snapshot.
    capture: &'a CaptureVolume,
    parts: &'a CapturedParts,
    changes: Vec<NodeChange>,
    current: HashMap<NodeId, CurrentNode>,
    /// Nodes that exist now, with their paths. A file with two paths counts as two nodes.
    present_nodes: HashMap<NodeId, StorePath>,
}

/// A directory in the snapshot and now.
struct DirectoryPair<'l> {
    path: StorePath,
    /// Its node id, which is the current one if it still exists, and where it is in the capture volume.
    captured: Option<(NodeId, NodePath)>,
    /// Its node id and attributes now.
    current: Option<(NodeId, Attr)>,
    parent: Option<&'l DirectoryPair<'l>>,
}

impl<'a> CaptureComparison<'a> {
    pub(super) fn new(
        store: &'a PhysicalStore,
        capture: &'a CaptureVolume,
        parts: &'a CapturedParts,
    ) -> Self {
        let (changes, current, present_nodes) = (Vec::new(), HashMap::new(), HashMap::new());
        CaptureComparison { store, capture, parts, changes, current, present_nodes }
    }

    /// The node changes at these paths and below, as one revision.
    pub(super) fn revisions(
        mut self,
        version: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        let attr = self.store.stat(&NodePath::root())?;
        let then = Some((NodeId::ROOT, NodePath::root()));
        let now = Some((NodeId::ROOT, attr));
        let root = DirectoryPair { path: StorePath::empty(), captured: then, current: now, parent: None };
        let inside = |path: &StorePath, index: usize| {
            let others = below.iter().enumerate().filter(|(other, _)| *other != index);
            others.into_iter().any(|(other, top)| path.is_at_or_below(top) && (path != top || other < index))
        };
        for (_, top) in below.iter().enumerate().filter(|(index, top)| !inside(top, *index)) {
            let way: Vec<&[u8]> = top.components().collect();
            self.compare_directory(&root, &way)?;
        }
        if self.changes.is_empty() {
            return Ok(RevisionSet::default());
        }
        let operation = Operation {
            id: OperationId::from_bytes([0; 16]),
            identity: Arc::new(Identity::agent("(anyone)")),
            tool: Cow::Borrowed("changes since the snapshot"),
            at: Timestamp(0),
        };
        let (lines, blind_at, undoes, undone) = (self.changes, None, Vec::new(), false);
        let deed = Revision { number: version, operation, changes: lines, blind_at, undoes, undone };
        Ok(RevisionSet { revisions: vec![deed], current: self.current })
    }

    /// Compares the entries of a directory; only the first name of `way`, if there is one.
    fn compare_directory(&mut self, level: &DirectoryPair<'_>, way: &[&[u8]]) -> StoreResult<()> {
        let there = match &level.current {
            Some(_) => match self.store.list(&NodePath::from_root(level.path.clone()), &Page::ALL) {
                Ok(listing) => listing.entries,
                Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Vec::new(),
                Err(error @ StoreError::Unavailable { .. }) => return Err(error),
                // What can't be read can't be compared.
                Err(_) => return Ok(()),
            },
            None => Vec::new(),
        };
        let known = match &level.captured {
            Some((_, place)) => self.capture.children(place)?,
            None => Vec::new(),
        };
        for (name, known, there) in pair_by_name(known, there) {
            if way.first().is_some_and(|wanted| **wanted != *name) {
                continue;
            }
            let path = level.path.child(&name);
            let covers = |kind| coverage_of(self.parts, &path, kind);
            let on_the_way = way.len() > 1;
            let known = known.filter(|known| on_the_way || covers(known.kind) != Coverage::Excluded);
            let there = there.filter(|attr| {
                !matches!(attr.kind, NodeKind::Special(_))
                    && (on_the_way || covers(attr.kind) != Coverage::Excluded)
            });
            self.compare_entry(level, path, known, there, way.get(1..).unwrap_or_default())?;
        }
        Ok(())
    }

    fn compare_entry(
        &mut self,
        level: &DirectoryPair<'_>,
        path: StorePath,
        known: Option<CapturedEntry>,
        there: Option<Attr>,
        way: &[&[u8]],
    ) -> StoreResult<()> {
        match (known, there) {
            (Some(known), Some(attr)) if known.kind == attr.kind => {
                let node = self.present_node(&attr, &path);
                if !is_same(&known, &attr) {
                    let before = self.captured_state(level, &path, &known);
                    let after = self.current_state(level, &path, &attr, node);
                    self.changes.push(NodeChange { node, before: Some(before), after: Some(after) });
                }
                let then = Some((node, NodePath::of_node(known.node)));
                self.compare_below(level, path, attr.kind, then, Some((node, attr)), way)
            }
            (known, there) => {
                if let Some(attr) = there {
                    let node = self.present_node(&attr, &path);
                    let after = self.current_state(level, &path, &attr, node);
                    self.changes.push(NodeChange { node, before: None, after: Some(after) });
                    self.compare_below(level, path.clone(), attr.kind, None, Some((node, attr)), way)?;
                }
                if let Some(known) = known {
                    let node = removed_node_id(&known);
                    let before = self.captured_state(level, &path, &known);
                    self.changes.push(NodeChange { node, before: Some(before), after: None });
                    let then = Some((node, NodePath::of_node(known.node)));
                    self.compare_below(level, path, known.kind, then, None, way)?;
                }
                Ok(())
            }
        }
    }

    fn compare_below(
        &mut self,
        level: &DirectoryPair<'_>,
        path: StorePath,
        kind: NodeKind,
        then: Option<(NodeId, NodePath)>,
        now: Option<(NodeId, Attr)>,
        way: &[&[u8]],
    ) -> StoreResult<()> {
        let covered = coverage_of(self.parts, &path, kind);
        if kind != NodeKind::Directory || covered != Coverage::Included && way.is_empty() {
            return Ok(());
        }
        self.compare_directory(
            &DirectoryPair { path, captured: then, current: now, parent: Some(level) },
            way,
        )
    }

    /// The id of a node that exists: its inode, unless that inode was found at another path before.
    fn present_node(&mut self, attr: &Attr, path: &StorePath) -> NodeId {
        let known = self.present_nodes.entry(attr.node).or_insert_with(|| path.clone());
        if known == path {
            return attr.node;
        }
        NodeId(FIRST_REMOVED_NODE | first_u64(blake3::Hasher::new().update(b"there").update(path.as_bytes())))
    }

    /// The state of an entry in the snapshot.
    fn captured_state(
        &mut self,
        level: &DirectoryPair<'_>,
        path: &StorePath,
        known: &CapturedEntry,
    ) -> NodeState {
        self.note_directory_now(level);
        NodeState {
            parent: level.captured.as_ref().map_or(NodeId::ROOT, |(node, _)| *node),
            name: known.name.clone(),
            path: path.clone(),
            kind: known.kind,
            mode: known.mode,
            modified: known.modified,
            size: known.size,
            content: if known.kind == NodeKind::Directory { None } else { self.capture.content_ref(known) },
        }
    }

    /// The state of an entry now, which is also added to `current`.
    fn current_state(
        &mut self,
        level: &DirectoryPair<'_>,
        path: &StorePath,
        attr: &Attr,
        node: NodeId,
    ) -> NodeState {
        self.note_directory_now(level);
        let parent = level.current.as_ref().map_or(NodeId::ROOT, |(node, _)| *node);
        let state = self.state_of(path, attr, parent);
        let now = CurrentNode { path: path.clone(), state: Some(state.clone()), tag: attr.tag };
        self.current.insert(node, now);
        state
    }

    /// Adds the current state of a directory that has a changed entry.
    fn note_directory_now(&mut self, level: &DirectoryPair<'_>) {
        let Some((node, attr)) = level.current else { return };
        if self.current.contains_key(&node) {
            return;
        }
        let state = level.parent.map(|above| {
            let parent = above.current.as_ref().map_or(NodeId::ROOT, |(node, _)| *node);
            self.state_of(&level.path, &attr, parent)
        });
        self.current.insert(node, CurrentNode { path: level.path.clone(), state, tag: attr.tag });
    }

    fn state_of(&self, path: &StorePath, attr: &Attr, parent: NodeId) -> NodeState {
        let content = match attr.kind {
            NodeKind::File | NodeKind::Symlink => {
                let Attr { kind, size, mode, modified, .. } = *attr;
                let face = Fingerprint { kind, ino: attr.node.0, size, mode, modified };
                ContentSource::in_tree(path.as_bytes().to_vec(), face)
                    .content_ref_beside_capture(self.store, size)
            }
            NodeKind::Directory | NodeKind::Special(_) => None,
        };
        NodeState {
            parent,
            name: path.parent_and_name().map(|(_, name)| name.to_vec()).unwrap_or_default(),
            path: path.clone(),
            kind: attr.kind,
            mode: attr.mode,
            modified: attr.modified,
            size: attr.size,
            content,
        }
    }
}

/// Whether an entry is certainly unchanged.
fn is_same(known: &CapturedEntry, attr: &Attr) -> bool {
    match known.kind {
        NodeKind::Directory => known.mode == attr.mode,
        _ if known.host_tag == Some(attr.tag) => true,
        // Content that wasn't captured can't be compared.
        _ if !known.has_content() => {
            (known.size, known.mode, known.modified) == (attr.size, attr.mode, attr.modified)
        }
        _ => false,
    }
}

/// The id of a node that was removed.
fn removed_node_id(known: &CapturedEntry) -> NodeId {
    NodeId(
        FIRST_REMOVED_NODE
            | first_u64(blake3::Hasher::new().update(b"held").update(&known.node.0.to_le_bytes())),
    )
}

fn first_u64(hasher: &blake3::Hasher) -> u64 {
    u64::from_le_bytes(*hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes"))
}
