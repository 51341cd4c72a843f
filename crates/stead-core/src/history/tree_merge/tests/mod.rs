//! Merges of trees in memory: the table of cases in both directions, and properties of random changes.

#![allow(clippy::unwrap_used)]

mod properties;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::clock::Timestamp;
use crate::history::merge::merge;
use crate::history::text_merge::{MergeLabels, TextMerge, is_binary};
use crate::store::{ContentId, NodeKind, NodeStateFields, StorePath};

const ROOT: NodeId = NodeId(1);

fn content(bytes: &[u8]) -> ContentRef {
    let hash = *blake3::hash(bytes).as_bytes();
    ContentRef::new(ContentId::Hash(hash), bytes.len() as u64, bytes.to_vec())
}

fn bytes_of(content: &ContentRef) -> &[u8] {
    content.inner::<Vec<u8>>().unwrap()
}

/// A tree in memory. `next` numbers the nodes of both sides differently.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tree {
    nodes: BTreeMap<NodeId, NodeState>,
    next: u64,
}

impl Tree {
    fn new() -> Self {
        Tree { nodes: BTreeMap::new(), next: 10 }
    }

    /// The same tree, whose new nodes get numbers from here on.
    fn numbered_from(&self, next: u64) -> Self {
        Tree { next, ..self.clone() }
    }

    fn find(&self, path: &str) -> Option<NodeId> {
        let mut node = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let child =
                self.nodes.iter().find(|(_, state)| state.parent == node && state.name == name.as_bytes());
            node = *child?.0;
        }
        Some(node)
    }

    fn place(&self, path: &str) -> (NodeId, Vec<u8>) {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        (self.find(directory).unwrap(), name.as_bytes().to_vec())
    }

    fn insert(&mut self, path: &str, kind: NodeKind, bytes: Option<&[u8]>) {
        let (parent, name) = self.place(path);
        self.next += 1;
        let state = NodeStateFields {
            parent,
            name,
            path: StorePath::from_checked(path),
            kind,
            mode: 0o644,
            modified: Timestamp(0),
            size: bytes.map_or(0, |bytes| bytes.len() as u64),
            content: bytes.map(content),
        };
        self.nodes.insert(NodeId(self.next), state.into());
    }

    /// Writes a file. An existing one keeps its node.
    fn write(&mut self, path: &str, text: &str) -> &mut Self {
        match self.find(path) {
            Some(node) => self.nodes.get_mut(&node).unwrap().content = Some(content(text.as_bytes())),
            None => self.insert(path, NodeKind::File, Some(text.as_bytes())),
        }
        self
    }

    fn mkdir(&mut self, path: &str) -> &mut Self {
        self.insert(path, NodeKind::Directory, None);
        self
    }

    fn symlink(&mut self, path: &str, target: &str) -> &mut Self {
        self.insert(path, NodeKind::Symlink, Some(target.as_bytes()));
        self
    }

    fn chmod(&mut self, path: &str, mode: u32) -> &mut Self {
        let node = self.find(path).unwrap();
        self.nodes.get_mut(&node).unwrap().mode = mode;
        self
    }

    fn rename(&mut self, from: &str, to: &str) -> &mut Self {
        let (node, (parent, name)) = (self.find(from).unwrap(), self.place(to));
        let state = self.nodes.get_mut(&node).unwrap();
        (state.parent, state.name) = (parent, name);
        self.update_paths();
        self
    }

    fn remove(&mut self, path: &str) -> &mut Self {
        let node = self.find(path).unwrap();
        self.remove_node(node);
        self
    }

    fn remove_node(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        let below: Vec<_> =
            self.nodes.iter().filter(|(_, state)| state.parent == node).map(|(&id, _)| id).collect();
        below.into_iter().for_each(|node| self.remove_node(node));
    }

    fn path_of(&self, node: NodeId) -> Option<StorePath> {
        let (mut names, mut current) = (Vec::new(), node);
        while current != ROOT {
            let state = self.nodes.get(&current)?;
            names.push(state.name.clone());
            current = state.parent;
            assert!(names.len() < 100, "a directory contains itself");
        }
        names.reverse();
        Some(StorePath::from_checked(names.join(&b'/')))
    }

    fn update_paths(&mut self) {
        let paths: Vec<_> = self.nodes.keys().map(|&node| (node, self.path_of(node))).collect();
        for (node, path) in paths {
            self.nodes.get_mut(&node).unwrap().path = path.expect("every node has a directory");
        }
    }

    /// Every path with its kind, mode and content. Fails if two nodes have one path, or a node has none.
    fn listing(&self) -> BTreeMap<String, (NodeKind, u32, Vec<u8>)> {
        let mut listing = BTreeMap::new();
        for (&node, state) in &self.nodes {
            let path = self.path_of(node).expect("every node has a directory").to_string();
            let bytes = state.content.as_ref().map(|content| bytes_of(content).to_vec());
            let entry = (state.kind, state.mode, bytes.unwrap_or_default());
            assert!(listing.insert(path.clone(), entry).is_none(), "two nodes have the path {path}");
        }
        listing
    }

    fn text(&self, path: &str) -> Option<String> {
        let state = self.nodes.get(&self.find(path)?)?;
        Some(String::from_utf8(bytes_of(state.content.as_ref()?).to_vec()).unwrap())
    }

    /// This tree after a plan.
    fn apply(&self, plan: &TreeMergePlan) -> Tree {
        let mut result = self.clone();
        for (&node, planned) in &plan.targets {
            let Some(desired) = &planned.desired else {
                result.nodes.remove(&node);
                continue;
            };
            let content = match &desired.content {
                PlannedContent::Stored(stored) => Some(stored.clone()),
                PlannedContent::Merged(bytes) => Some(content(bytes)),
                PlannedContent::Drafted(_) => unreachable!("the view of these tests stores nothing"),
                PlannedContent::None => None,
            };
            let state = NodeStateFields {
                parent: desired.parent,
                name: desired.name.clone(),
                path: StorePath::empty(),
                kind: desired.kind,
                mode: desired.mode,
                modified: desired.modified.unwrap_or(Timestamp(0)),
                size: 0,
                content,
            };
            result.nodes.insert(node, state.into());
        }
        result.update_paths();
        result
    }
}

struct TreeView<'t>(&'t Tree);

impl MergeView for TreeView<'_> {
    fn child(&mut self, directory: NodeId, name: &[u8]) -> StoreResult<Option<NodeId>> {
        let mut nodes = self.0.nodes.iter();
        Ok(nodes.find(|(_, state)| state.parent == directory && state.name == name).map(|(&node, _)| node))
    }

    fn children(&mut self, directory: NodeId) -> StoreResult<Vec<NodeId>> {
        let nodes = self.0.nodes.iter().filter(|(_, state)| state.parent == directory);
        Ok(nodes.map(|(&node, _)| node).collect())
    }

    fn parent(&mut self, node: NodeId) -> StoreResult<Option<NodeId>> {
        Ok(self.0.nodes.get(&node).map(|state| state.parent))
    }

    fn decided(&mut self) -> StoreResult<()> {
        Ok(())
    }

    fn merge_text(
        &mut self,
        base: Option<&ContentRef>,
        ours: &ContentRef,
        theirs: &ContentRef,
        markers: bool,
    ) -> StoreResult<MergedText> {
        let base = base.map_or(&b""[..], bytes_of);
        let (ours, theirs) = (bytes_of(ours), bytes_of(theirs));
        let planned = |bytes| PlannedContent::Merged(Arc::new(bytes));
        Ok(match merge(base, ours, theirs) {
            Some(merged) if merged == ours => MergedText::Ours,
            Some(merged) => MergedText::Clean(planned(merged)),
            None if markers && ![base, ours, theirs].into_iter().any(is_binary) => {
                MergedText::Marked(planned(TextMerge::new(base, ours, theirs).to_bytes(&MergeLabels::FORK)))
            }
            None => MergedText::Conflict,
        })
    }
}

/// The choices of a test: one for every conflict.
#[derive(Debug, Default)]
struct TestChoices {
    for_all: Option<ConflictChoice>,
    left_out: Vec<&'static str>,
}

impl MergeChoices for TestChoices {
    fn resolve(&mut self, _: &TreeConflict) -> Option<ConflictChoice> {
        self.for_all.clone()
    }

    fn preset(&mut self, _: NodeId, sides: &NodeSides) -> Option<NodePreset> {
        let path = sides.theirs.as_ref().or(sides.base.as_ref())?.path.to_string();
        self.left_out.contains(&&*path).then_some(NodePreset::LeaveOut)
    }
}

/// The nodes that differ between the base and one of the sides.
fn sides_of(base: &Tree, ours: &Tree, theirs: &Tree) -> BTreeMap<NodeId, NodeSides> {
    let mut nodes = BTreeMap::new();
    for tree in [base, ours, theirs] {
        for &node in tree.nodes.keys() {
            let state = |tree: &Tree| tree.nodes.get(&node).cloned();
            let sides = NodeSides { base: state(base), ours: state(ours), theirs: state(theirs) };
            if sides.base != sides.ours || sides.base != sides.theirs {
                nodes.insert(node, sides);
            }
        }
    }
    nodes
}

fn plan_with(base: &Tree, ours: &Tree, theirs: &Tree, choices: &mut TestChoices) -> TreeMergePlan {
    plan_merge(sides_of(base, ours, theirs), choices, &mut TreeView(ours)).unwrap()
}

fn plan(base: &Tree, ours: &Tree, theirs: &Tree) -> TreeMergePlan {
    plan_with(base, ours, theirs, &mut TestChoices::default())
}
