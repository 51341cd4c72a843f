//! Compares a directory with a snapshot of it. The result is one revision by an unknown agent.
//!
//! Both sides are listed side by side. An entry is the same node on both sides if it has the same name and kind. Files
//! that may differ are reported; the caller compares their contents to find out whether they do.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use stead_core::store::{
    Attr, Coverage, CurrentNode, NodeChange, NodeId, NodeKind, NodePath, NodeState, NodeStateFields, Page,
    Revision, RevisionNumber, RevisionSet, Store, StoreError, StorePath, StoreResult,
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
        number: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        let attr = self.store.stat(&NodePath::root())?;
        let captured = Some((NodeId::ROOT, NodePath::root()));
        let current = Some((NodeId::ROOT, attr));
        let root = DirectoryPair { path: StorePath::empty(), captured, current, parent: None };
        let is_inside_another = |path: &StorePath, index: usize| {
            let others = below.iter().enumerate().filter(|(other, _)| *other != index);
            others.into_iter().any(|(other, top)| path.is_at_or_below(top) && (path != top || other < index))
        };
        for (_, top) in below.iter().enumerate().filter(|(index, top)| !is_inside_another(top, *index)) {
            let components: Vec<&[u8]> = top.components().collect();
            self.compare_directory(&root, &components)?;
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
        let (changes, blind_at, undoes, undone) = (self.changes, None, Vec::new(), false);
        let revision = Revision { number, operation, changes, blind_at, undoes, undone };
        Ok(RevisionSet { revisions: vec![revision], current: self.current })
    }

    /// Compares the entries of a directory; only the first name of `components`, if there is one.
    fn compare_directory(&mut self, level: &DirectoryPair<'_>, components: &[&[u8]]) -> StoreResult<()> {
        let present = match &level.current {
            Some(_) => match self.store.list(&NodePath::from_root(level.path.clone()), &Page::ALL) {
                Ok(listing) => listing.entries,
                Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Vec::new(),
                Err(error @ StoreError::Unavailable { .. }) => return Err(error),
                // What can't be read can't be compared.
                Err(_) => return Ok(()),
            },
            None => Vec::new(),
        };
        let captured = match &level.captured {
            Some((_, at)) => self.capture.children(at)?,
            None => Vec::new(),
        };
        for (name, captured, present) in pair_by_name(captured, present) {
            if components.first().is_some_and(|component| **component != *name) {
                continue;
            }
            let path = level.path.child(&name);
            let covers = |kind| coverage_of(self.parts, &path, kind);
            let on_the_way = components.len() > 1;
            let captured =
                captured.filter(|captured| on_the_way || covers(captured.kind) != Coverage::Excluded);
            let present = present.filter(|attr| {
                !matches!(attr.kind, NodeKind::Special(_))
                    && (on_the_way || covers(attr.kind) != Coverage::Excluded)
            });
            self.compare_entry(level, path, captured, present, components.get(1..).unwrap_or_default())?;
        }
        Ok(())
    }

    fn compare_entry(
        &mut self,
        level: &DirectoryPair<'_>,
        path: StorePath,
        captured: Option<CapturedEntry>,
        present: Option<Attr>,
        components: &[&[u8]],
    ) -> StoreResult<()> {
        match (captured, present) {
            (Some(captured), Some(attr)) if captured.kind == attr.kind => {
                let node = self.present_node(&attr, &path);
                if !is_same(&captured, &attr) {
                    let before = self.captured_state(level, &path, &captured);
                    let after = self.current_state(level, &path, &attr, node);
                    self.changes.push(NodeChange { node, before: Some(before), after: Some(after) });
                }
                let captured_dir = Some((node, NodePath::of_node(captured.node)));
                self.compare_below(level, path, attr.kind, captured_dir, Some((node, attr)), components)
            }
            (captured, present) => {
                if let Some(attr) = present {
                    let node = self.present_node(&attr, &path);
                    let after = self.current_state(level, &path, &attr, node);
                    self.changes.push(NodeChange { node, before: None, after: Some(after) });
                    self.compare_below(level, path.clone(), attr.kind, None, Some((node, attr)), components)?;
                }
                if let Some(captured) = captured {
                    let node = removed_node_id(&captured);
                    let before = self.captured_state(level, &path, &captured);
                    self.changes.push(NodeChange { node, before: Some(before), after: None });
                    let captured_dir = Some((node, NodePath::of_node(captured.node)));
                    self.compare_below(level, path, captured.kind, captured_dir, None, components)?;
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
        captured: Option<(NodeId, NodePath)>,
        current: Option<(NodeId, Attr)>,
        components: &[&[u8]],
    ) -> StoreResult<()> {
        let covered = coverage_of(self.parts, &path, kind);
        if kind != NodeKind::Directory || covered != Coverage::Included && components.is_empty() {
            return Ok(());
        }
        self.compare_directory(&DirectoryPair { path, captured, current, parent: Some(level) }, components)
    }

    /// The id of a node that exists: its inode, unless that inode was found at another path before.
    fn present_node(&mut self, attr: &Attr, path: &StorePath) -> NodeId {
        let known_path = self.present_nodes.entry(attr.node).or_insert_with(|| path.clone());
        if known_path == path {
            return attr.node;
        }
        NodeId(FIRST_REMOVED_NODE | first_u64(blake3::Hasher::new().update(b"there").update(path.as_bytes())))
    }

    /// The state of an entry in the snapshot.
    fn captured_state(
        &mut self,
        level: &DirectoryPair<'_>,
        path: &StorePath,
        captured: &CapturedEntry,
    ) -> NodeState {
        self.note_directory_now(level);
        let fields = NodeStateFields {
            parent: level.captured.as_ref().map_or(NodeId::ROOT, |(node, _)| *node),
            name: captured.name.clone(),
            path: path.clone(),
            kind: captured.kind,
            mode: captured.mode,
            modified: captured.modified,
            size: captured.size,
            content: if captured.kind == NodeKind::Directory {
                None
            } else {
                self.capture.content_ref(captured)
            },
        };
        fields.into()
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
        let current = CurrentNode { path: path.clone(), state: Some(state.clone()), tag: attr.tag };
        self.current.insert(node, current);
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
                let fingerprint = Fingerprint { kind, ino: attr.node.0, size, mode, modified };
                ContentSource::in_tree(path.as_bytes().to_vec(), fingerprint)
                    .content_ref_beside_capture(self.store, size)
            }
            NodeKind::Directory | NodeKind::Special(_) => None,
        };
        let fields = NodeStateFields {
            parent,
            name: path.parent_and_name().map(|(_, name)| name.to_vec()).unwrap_or_default(),
            path: path.clone(),
            kind: attr.kind,
            mode: attr.mode,
            modified: attr.modified,
            size: attr.size,
            content,
        };
        fields.into()
    }
}

/// Whether an entry is certainly unchanged.
fn is_same(captured: &CapturedEntry, attr: &Attr) -> bool {
    match captured.kind {
        NodeKind::Directory => captured.mode == attr.mode,
        _ if captured.host_tag == Some(attr.tag) => true,
        // Content that wasn't captured can't be compared.
        _ if !captured.has_content() => {
            (captured.size, captured.mode, captured.modified) == (attr.size, attr.mode, attr.modified)
        }
        _ => false,
    }
}

/// The id of a node that was removed.
fn removed_node_id(captured: &CapturedEntry) -> NodeId {
    NodeId(
        FIRST_REMOVED_NODE
            | first_u64(blake3::Hasher::new().update(b"held").update(&captured.node.0.to_le_bytes())),
    )
}

fn first_u64(hasher: &blake3::Hasher) -> u64 {
    u64::from_le_bytes(*hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes"))
}
