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
    let mut found = Vec::new();
    let visit = &mut |it| {
        found.push(it);
        ControlFlow::Continue(())
    };
    store.walk(&NodePath::root(), &WalkOptions::default(), visit).expect("a Store can be walked");
    let thing = |it: crate::store::WalkEntry| {
        let at = NodePath::from_root(it.path.clone());
        let holds = match it.attr.kind {
            NodeKind::File => {
                Some(store.read(&at, u64::MAX).expect("a file that was found can be read").bytes)
            }
            NodeKind::Symlink => Some(store.read_link(&at).expect("a symlink that was found can be read")),
            NodeKind::Directory | NodeKind::Special(_) => None,
        };
        let holds = holds.map(|bytes| blake3::hash(&bytes));
        let mode = if it.attr.kind == NodeKind::Symlink { 0 } else { it.attr.mode };
        (
            it.path.as_bytes().to_vec(),
            SnapshotEntry { kind: it.attr.kind, mode, size: it.attr.size, content_hash: holds },
        )
    };
    found.into_iter().map(thing).collect()
}

impl ModelTree {
    /// The whole content of the model.
    pub(crate) fn snapshot(&self) -> TreeSnapshot {
        let thing = |(path, id): (crate::store::StorePath, _)| {
            let attr = self.attr(id);
            let holds = match &self.node(id).body {
                ModelBody::File(bytes) => Some(blake3::hash(bytes)),
                ModelBody::Symlink(target) => Some(blake3::hash(target)),
                ModelBody::Directory(_) => None,
            };
            let mode = if attr.kind == NodeKind::Symlink { 0 } else { attr.mode };
            (
                path.as_bytes().to_vec(),
                SnapshotEntry { kind: attr.kind, mode, size: attr.size, content_hash: holds },
            )
        };
        self.below(ROOT).into_iter().map(thing).collect()
    }
}
