//! The whole content of a Store at one time, small enough to save for every revision.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{ModelBody, ModelTree, ROOT};
use crate::search::WalkOptions;
use crate::store::{NodeKind, NodePath, Store};

/// What is at each path, by the path's bytes.
pub type TreeSnapshot = BTreeMap<Vec<u8>, SnapshotEntry>;

/// What a snapshot records about one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// The kind of node.
    pub kind: NodeKind,
    /// The permission bits; 0 for a symlink, whose bits have no effect.
    pub mode: u32,
    /// The size in bytes.
    pub size: u64,
    /// BLAKE3 of a file's bytes or of a symlink's target; `None` for other kinds.
    pub content_hash: Option<blake3::Hash>,
}

/// The whole content of a Store.
///
/// # Panics
///
/// If the Store returns an error.
pub fn snapshot_of(store: &dyn Store) -> TreeSnapshot {
    let mut entries = Vec::new();
    let visit = &mut |entry| {
        entries.push(entry);
        ControlFlow::Continue(())
    };
    store.walk(&NodePath::root(), &WalkOptions::default(), visit).expect("a Store can be walked");
    let snapshot_entry = |entry: crate::store::WalkEntry| {
        let at = NodePath::from_root(entry.path.clone());
        let content = match entry.attr.kind {
            NodeKind::File => {
                Some(store.read(&at, u64::MAX).expect("a file that was found can be read").bytes)
            }
            NodeKind::Symlink => Some(store.read_link(&at).expect("a symlink that was found can be read")),
            NodeKind::Directory | NodeKind::Special(_) => None,
        };
        let content_hash = content.map(|bytes| blake3::hash(&bytes));
        let mode = if entry.attr.kind == NodeKind::Symlink { 0 } else { entry.attr.mode };
        (
            entry.path.as_bytes().to_vec(),
            SnapshotEntry { kind: entry.attr.kind, mode, size: entry.attr.size, content_hash },
        )
    };
    entries.into_iter().map(snapshot_entry).collect()
}

impl ModelTree {
    /// The whole content of the model.
    pub(crate) fn snapshot(&self) -> TreeSnapshot {
        let snapshot_entry = |(path, id): (crate::store::StorePath, _)| {
            let attr = self.attr(id);
            let content_hash = match &self.node(id).body {
                ModelBody::File(bytes) => Some(blake3::hash(bytes)),
                ModelBody::Symlink(target) => Some(blake3::hash(target)),
                ModelBody::Directory(_) => None,
            };
            let mode = if attr.kind == NodeKind::Symlink { 0 } else { attr.mode };
            (path.as_bytes().to_vec(), SnapshotEntry { kind: attr.kind, mode, size: attr.size, content_hash })
        };
        self.descendants(ROOT).into_iter().map(snapshot_entry).collect()
    }
}
