//! A plain model of a Store's content and changes, made of maps in memory.
//!
//! [`model_run`] compares a Store with it, and [`super::ModelStore`] makes it a Store itself.

mod handles;
mod rename_copy;
mod run;
mod script;
mod snapshot;
mod steps;

pub use run::{model_run, model_run_over};
pub use snapshot::{SnapshotEntry, TreeSnapshot, snapshot_of};
pub(crate) use steps::DraftBytes;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::store::{
    Attr, LinkHit, NodeId, NodeKind, NodePath, StoreError, StorePath, StoreResult, VersionTag,
};

/// The root's own id. It differs from [`NodeId::ROOT`], so that no code relies on the two being equal.
const ROOT: NodeId = NodeId(1);

/// The mode of a new file, as with a umask of 022.
const FILE_MODE: u32 = 0o644;
/// The mode of a new directory.
const DIRECTORY_MODE: u32 = 0o755;
/// The mode of a symlink, which has no effect.
const SYMLINK_MODE: u32 = 0o777;

/// A tree of files, directories and symlinks.
#[derive(Debug, Clone)]
pub(crate) struct ModelTree {
    nodes: BTreeMap<NodeId, ModelNode>,
    next_node: u64,
    next_tag: u128,
}

/// A file, a directory or a symlink.
#[derive(Debug, Clone)]
pub(crate) struct ModelNode {
    parent: NodeId,
    name: Vec<u8>,
    body: ModelBody,
    mode: u32,
    created: Timestamp,
    modified: Timestamp,
    changed: Timestamp,
    tag: VersionTag,
}

/// A node's content.
#[derive(Debug, Clone)]
pub(crate) enum ModelBody {
    File(Arc<Vec<u8>>),
    Directory(BTreeMap<Vec<u8>, NodeId>),
    Symlink(Vec<u8>),
}

impl ModelBody {
    pub(crate) fn kind(&self) -> NodeKind {
        match self {
            ModelBody::File(_) => NodeKind::File,
            ModelBody::Directory(_) => NodeKind::Directory,
            ModelBody::Symlink(_) => NodeKind::Symlink,
        }
    }
}

/// What a path leads to.
enum ModelSlot {
    /// An existing node.
    Occupied(NodeId),
    /// Nothing: `names` are missing, the first of them in the directory `ancestor`.
    Missing { ancestor: NodeId, names: Vec<Vec<u8>> },
}

impl ModelTree {
    /// A tree with an empty root.
    pub(crate) fn new() -> Self {
        let mut tree = ModelTree { nodes: BTreeMap::new(), next_node: ROOT.0, next_tag: 1 };
        tree.add(
            ROOT,
            Vec::new(),
            ModelBody::Directory(BTreeMap::new()),
            DIRECTORY_MODE,
            Timestamp::default(),
        );
        tree
    }

    /// The node at a path. A symlink at the end isn't followed.
    pub(crate) fn find(&self, at: &NodePath) -> StoreResult<NodeId> {
        match self.slot(at)? {
            ModelSlot::Occupied(node) => Ok(node),
            ModelSlot::Missing { .. } => Err(StoreError::NotFound),
        }
    }

    /// The file at a path, and its bytes.
    pub(crate) fn file(&self, at: &NodePath) -> StoreResult<(NodeId, &Arc<Vec<u8>>)> {
        let id = self.find(at)?;
        match &self.node(id).body {
            ModelBody::File(bytes) => Ok((id, bytes)),
            ModelBody::Directory(_) => Err(StoreError::IsADirectory),
            ModelBody::Symlink(target) => Err(LinkHit::error_at(at.path.depth(), target.clone())),
        }
    }

    /// The directory at a path, and its entries.
    pub(crate) fn directory(&self, at: &NodePath) -> StoreResult<(NodeId, &BTreeMap<Vec<u8>, NodeId>)> {
        let id = self.find(at)?;
        match &self.node(id).body {
            ModelBody::Directory(names) => Ok((id, names)),
            ModelBody::File(_) => Err(StoreError::NotADirectory),
            ModelBody::Symlink(target) => Err(LinkHit::error_at(at.path.depth(), target.clone())),
        }
    }

    /// The target of the symlink at a path.
    pub(crate) fn link(&self, at: &NodePath) -> StoreResult<&[u8]> {
        match &self.node(self.find(at)?).body {
            ModelBody::Symlink(target) => Ok(target),
            ModelBody::File(_) | ModelBody::Directory(_) => {
                Err(StoreError::Invalid("it isn't a symlink".to_owned()))
            }
        }
    }

    /// The attributes of a node.
    pub(crate) fn attr(&self, id: NodeId) -> Attr {
        let node = self.node(id);
        let size = match &node.body {
            ModelBody::File(bytes) => bytes.len(),
            ModelBody::Symlink(target) => target.len(),
            ModelBody::Directory(_) => 0,
        };
        Attr {
            node: id,
            kind: node.body.kind(),
            size: size as u64,
            mode: node.mode,
            created: Some(node.created),
            modified: node.modified,
            changed: node.changed,
            tag: node.tag,
        }
    }

    /// A node's content; `None` if the node doesn't exist.
    pub(crate) fn body(&self, id: NodeId) -> Option<&ModelBody> {
        self.nodes.get(&id).map(|node| &node.body)
    }

    /// All nodes below `top` with their paths relative to it, sorted component by component.
    pub(crate) fn descendants(&self, top: NodeId) -> Vec<(StorePath, NodeId)> {
        let mut found = Vec::new();
        self.collect(top, &StorePath::empty(), &mut found);
        found
    }

    fn collect(&self, id: NodeId, path: &StorePath, found: &mut Vec<(StorePath, NodeId)>) {
        if let ModelBody::Directory(names) = &self.node(id).body {
            for (name, &child) in names {
                let path = path.child(name);
                found.push((path.clone(), child));
                self.collect(child, &path, found);
            }
        }
    }

    /// The inconsistencies in the tree.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let reached = self.descendants(ROOT);
        for (path, id) in &reached {
            let node = self.node(*id);
            let name_matches = path.parent_and_name().is_some_and(|(_, name)| name == node.name);
            let is_listed = matches!(self.body(node.parent), Some(ModelBody::Directory(names)) if names.get(&node.name) == Some(id));
            if !name_matches || !is_listed {
                problems.push(format!("`{path}` and its directory disagree"));
            }
        }
        if reached.len() + 1 != self.nodes.len() {
            problems.push(format!("{} nodes, but {} names", self.nodes.len() - 1, reached.len()));
        }
        problems
    }

    fn node(&self, id: NodeId) -> &ModelNode {
        self.nodes.get(&id).expect("every name has a node")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut ModelNode {
        self.nodes.get_mut(&id).expect("every name has a node")
    }

    fn slot(&self, at: &NodePath) -> StoreResult<ModelSlot> {
        let mut current = if at.base == NodeId::ROOT { ROOT } else { at.base };
        if !self.nodes.contains_key(&current) {
            return Err(StoreError::NotFound);
        }
        for (depth, name) in at.path.components().enumerate() {
            match &self.node(current).body {
                ModelBody::Directory(names) => match names.get(name) {
                    Some(&id) => current = id,
                    None => {
                        let names = at.path.components().skip(depth).map(<[u8]>::to_vec).collect();
                        return Ok(ModelSlot::Missing { ancestor: current, names });
                    }
                },
                ModelBody::File(_) => return Err(StoreError::NotADirectory),
                // If the base node is a symlink, it isn't a directory to start from.
                ModelBody::Symlink(_) if depth == 0 => return Err(StoreError::NotADirectory),
                ModelBody::Symlink(target) => return Err(LinkHit::error_at(depth, target.clone())),
            }
        }
        Ok(ModelSlot::Occupied(current))
    }

    fn is_at_or_below(&self, id: NodeId, top: NodeId) -> bool {
        let mut current = id;
        while current != top && current != ROOT {
            current = self.node(current).parent;
        }
        current == top
    }

    fn add(&mut self, parent: NodeId, name: Vec<u8>, body: ModelBody, mode: u32, at: Timestamp) -> NodeId {
        let id = NodeId(self.next_node);
        self.next_node += 1;
        let tag = self.fresh_tag();
        let node = ModelNode { parent, name, body, mode, created: at, modified: at, changed: at, tag };
        self.nodes.insert(id, node);
        id
    }

    fn fresh_tag(&mut self) -> VersionTag {
        self.next_tag += 1;
        VersionTag(self.next_tag)
    }
}
