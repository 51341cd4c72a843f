//! The inode numbers that the kernel knows: the node and the path of each.
//!
//! Where possible, a number is made from the node id, so that it stays the same as long as the node exists, also from
//! one mount to the next: programs like git compare it. The path is stored as a name in a parent directory, so renaming
//! a directory moves everything below it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stead_core::path::VfsPath;
use stead_core::store::{NodeId, NodeKind, VersionTag};
use stead_core::vfs::node_api::{DirectoryRef, Lookup};
use stead_core::{Name, Timestamp};

use crate::linux::page_cache::PageCache;

/// The inode number of the mount's top directory.
pub(crate) const ROOT_INO: u64 = 1;

/// How many bits of an inode number hold the node id. The bits above hold the Workspace.
const NODE_BITS: u32 = 48;
/// Set in numbers that are assigned in sequence, for nodes whose id doesn't fit or must not be used.
const SEQUENTIAL_BIT: u64 = 1 << 63;

/// How long a file counts as changed elsewhere after a change by others or a direct write.
pub(crate) const SHARED_WINDOW: Duration = Duration::from_secs(2);

/// What is known about a file when a mount opens it for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstSight {
    /// No program of the host is changing it.
    Settled,
    /// A program of the host may be changing it.
    Unsettled,
}

/// What an inode number stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum InodeKey {
    /// A directory that exists because of the Workspaces: a Workspace's own directory, or one above it. It never moves.
    Synthetic(VfsPath),
    /// A node in a Workspace.
    Node(usize, NodeId),
}

#[derive(Debug)]
struct Inode {
    key: InodeKey,
    /// The Workspace that it is in; `None` above all of them.
    workspace: Option<usize>,
    /// Its node; a synthetic directory has one only if it exists in the Store as well.
    node: Option<NodeId>,
    is_directory: bool,
    /// The inode number of its parent, and its name there; `None` once that name was removed or leads to something
    /// else.
    location: Option<(u64, Name)>,
    /// Whether others have moved it, and the kernel hasn't looked it up at its new place yet.
    is_moved: bool,
    /// Whether it was removed. The host may then reuse its node id for another file, while the kernel may still know
    /// this one.
    is_removed: bool,
    /// When it was created, if known. It tells this file from another one that has reused its node id.
    created: Option<Timestamp>,
    /// The smallest depth below the top that it has had since it is in the table.
    min_depth: usize,
    /// The kernel's lookup count: how often a reply has made it known, minus what the kernel has forgotten.
    lookups: u64,
    /// How many inodes have their name in this one.
    child_count: usize,
    /// The version whose content the kernel may have cached.
    cached_tag: Option<VersionTag>,
    /// What the kernel may have cached of its content.
    pages: Arc<PageCache>,
    /// When it was last changed by others, or by a direct write.
    changed_elsewhere_at: Option<Instant>,
    /// Whether the kernel may have read content while others were changing it.
    is_unsettled: bool,
    /// The state of a directory when the kernel last got its listing, and when that was.
    listed: Option<(DirectoryState, Instant)>,
}

impl Inode {
    /// An inode that the kernel doesn't know yet.
    fn new(key: &InodeKey, lookup: &Lookup) -> Self {
        Inode {
            key: key.clone(),
            workspace: lookup.workspace,
            node: lookup.node,
            is_directory: lookup.attr.kind == NodeKind::Directory,
            location: None,
            is_moved: false,
            is_removed: false,
            created: lookup.attr.created,
            min_depth: lookup.path.depth(),
            lookups: 0,
            child_count: 0,
            cached_tag: None,
            pages: Arc::default(),
            changed_elsewhere_at: None,
            is_unsettled: false,
            listed: None,
        }
    }
}

impl Inode {
    fn note_changed_elsewhere(&mut self) {
        self.changed_elsewhere_at = Some(Instant::now());
        self.is_unsettled = true;
    }

    fn was_changed_elsewhere(&self) -> bool {
        self.changed_elsewhere_at.is_some_and(|changed_at| changed_at.elapsed() < SHARED_WINDOW)
    }

    fn must_settle(&self) -> bool {
        self.is_unsettled && !self.was_changed_elsewhere()
    }
}

/// The state of a directory: equal states have the same listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryState {
    pub(crate) node: NodeId,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
}

/// All inodes that the kernel knows.
#[derive(Debug)]
pub(crate) struct Inodes(Mutex<InodeTable>);

#[derive(Debug)]
struct InodeTable {
    inodes: HashMap<u64, Inode>,
    by_key: HashMap<InodeKey, u64>,
    /// The inode number of each name, by parent.
    names: HashMap<(u64, Name), u64>,
    last_sequential: u64,
    /// The inode numbers of all synthetic directories.
    synthetic_inos: Vec<u64>,
    /// The nodes of inodes that were removed, until [`Inodes::forget`] returns them.
    forgotten: Vec<ForgottenNode>,
}

/// The Workspace and id of a node that the kernel doesn't know any more.
pub(crate) type ForgottenNode = (usize, NodeId);

impl Inodes {
    /// A table with only the top directory.
    pub(crate) fn new(top: &Lookup) -> Self {
        let mut table = InodeTable {
            inodes: HashMap::new(),
            by_key: HashMap::new(),
            names: HashMap::new(),
            last_sequential: 0,
            synthetic_inos: vec![ROOT_INO],
            forgotten: Vec::new(),
        };
        let key = InodeKey::Synthetic(top.path.clone());
        let inode = Inode { lookups: 1, ..Inode::new(&key, top) };
        table.inodes.insert(ROOT_INO, inode);
        table.by_key.insert(key, ROOT_INO);
        Inodes(Mutex::new(table))
    }

    /// The inode number of a node that was found at a name. With `is_reply`, the kernel gets to know the node, so its
    /// lookup count grows.
    pub(crate) fn record_found(&self, parent: u64, name: &Name, lookup: &Lookup, is_reply: bool) -> u64 {
        let mut table = self.0.lock();
        let table = &mut *table;
        let key = match (lookup.is_synthetic, lookup.workspace, lookup.node) {
            (false, Some(workspace), Some(node)) => InodeKey::Node(workspace, node),
            _ => InodeKey::Synthetic(lookup.path.clone()),
        };
        let known = table.by_key.get(&key).copied();
        if let Some(ino) = known.filter(|_| is_reply) {
            table.retire_if_reused(ino, lookup.attr.created);
        }
        let was_removed =
            known.is_some_and(|ino| table.inodes.get(&ino).is_some_and(|inode| inode.is_removed));
        let ino = match known {
            // A listing may be older than what is known about the inode.
            Some(ino) if !is_reply => return ino,
            Some(ino) if !was_removed => ino,
            _ => {
                if !is_reply && let InodeKey::Node(..) = key {
                    return table.new_ino(&key);
                }
                // In a WRITE_ONLY Workspace, a number made from the node id would reveal whether a file is new or was
                // there before.
                let is_hidden = lookup.is_hidden && matches!(key, InodeKey::Node(..));
                let mut ino =
                    if was_removed || is_hidden { table.next_sequential() } else { table.new_ino(&key) };
                if table.inodes.contains_key(&ino) {
                    // Several files have had this node id one after the other, and the kernel still knows the first
                    // one.
                    ino = table.next_sequential();
                }
                table.inodes.insert(ino, Inode::new(&key, lookup));
                table.by_key.insert(key, ino);
                ino
            }
        };
        table.attach(ino, parent, name);
        let inode = table.inodes.get_mut(&ino).expect("it was found or created above");
        inode.lookups += u64::from(is_reply);
        inode.node = lookup.node;
        ino
    }

    /// Lowers an inode's lookup count, as the kernel says. Returns the nodes that were removed from the table with it
    /// or since the last call, and that are not in it again.
    pub(crate) fn forget(&self, ino: u64, times: u64) -> Vec<ForgottenNode> {
        let mut table = self.0.lock();
        if let Some(inode) = table.inodes.get_mut(&ino) {
            inode.lookups = inode.lookups.saturating_sub(times);
            table.drop_unused(ino);
        }
        let mut forgotten = std::mem::take(&mut table.forgotten);
        forgotten.retain(|&(workspace, node)| !table.by_key.contains_key(&InodeKey::Node(workspace, node)));
        forgotten
    }

    /// The path and node of an inode, whether a directory or not; `None` if it has no path.
    pub(crate) fn node_ref(&self, ino: u64) -> Option<DirectoryRef> {
        let table = self.0.lock();
        let node = table.inodes.get(&ino)?.node;
        Some(DirectoryRef { path: table.path(ino)?, node })
    }

    /// Sets the node of a synthetic directory that exists in the Store by now.
    pub(crate) fn set_node(&self, ino: u64, node: NodeId) {
        if let Some(inode) = self.0.lock().inodes.get_mut(&ino) {
            inode.node = Some(node);
        }
    }

    /// The Workspace and node id of an inode; `None` for a synthetic directory.
    pub(crate) fn node(&self, ino: u64) -> Option<(usize, NodeId)> {
        match self.0.lock().inodes.get(&ino)?.key {
            InodeKey::Node(workspace, node) => Some((workspace, node)),
            InodeKey::Synthetic(_) => None,
        }
    }

    /// The inode number of a node, if the kernel knows it.
    pub(crate) fn ino_of(&self, workspace: usize, node: NodeId) -> Option<u64> {
        let table = self.0.lock();
        let is_match = |ino: &&u64| {
            let found = table.inodes.get(ino).map(|inode| (inode.workspace, inode.node));
            // The Workspace is compared as well, since every Store counts its nodes from one.
            found == Some((Some(workspace), Some(node)))
        };
        let synthetic = || table.synthetic_inos.iter().find(is_match).copied();
        table.by_key.get(&InodeKey::Node(workspace, node)).copied().or_else(synthetic)
    }

    /// The parent of an inode. The top directory is its own parent, and that of an inode without a location.
    pub(crate) fn parent(&self, ino: u64) -> u64 {
        let table = self.0.lock();
        table
            .inodes
            .get(&ino)
            .and_then(|inode| inode.location.as_ref())
            .map_or(ROOT_INO, |(parent, _)| *parent)
    }

    /// Whether the kernel should look up an inode without a path again: others have moved it, or its name leads to
    /// something else by now. A directory that was removed is gone for good.
    pub(crate) fn should_look_up_again(&self, ino: u64) -> bool {
        self.0.lock().inodes.get(&ino).is_none_or(|inode| inode.is_moved || !inode.is_directory)
    }

    /// Whether it was removed through this mount, or its node id was reused for another file.
    pub(crate) fn is_removed(&self, ino: u64) -> bool {
        self.0.lock().inodes.get(&ino).is_some_and(|inode| inode.is_removed)
    }

    /// How many `..` from its directory surely stay inside the mount, wherever the kernel takes the inode to be.
    ///
    /// When a node is moved deeper, the door knows the new place before the kernel does. As many `..` as the new place
    /// allows would lead out of the mount from the old place.
    pub(crate) fn max_climb(&self, ino: u64) -> usize {
        let table = self.0.lock();
        let (mut min_depth, mut levels_below, mut current) = (usize::MAX, 0, ino);
        while let Some(inode) = table.inodes.get(&current) {
            min_depth = min_depth.min(inode.min_depth + levels_below);
            let Some((parent, _)) = &inode.location else { break };
            (current, levels_below) = (*parent, levels_below + 1);
        }
        // The depth counts the inode's own name as well.
        if min_depth == usize::MAX { 0 } else { min_depth.saturating_sub(1) }
    }

    /// The inode number of a name in a directory.
    pub(crate) fn ino_named(&self, parent: u64, name: &Name) -> Option<u64> {
        self.0.lock().names.get(&(parent, name.clone())).copied()
    }

    /// Removes a name, and marks what had it as removed: it was removed through this mount.
    pub(crate) fn remove(&self, parent: u64, name: &Name) {
        self.0.lock().retire_name(parent, name);
    }

    /// Removes a name that others have removed or moved. Synthetic directories stay.
    pub(crate) fn remove_foreign(&self, parent: u64, name: &Name) {
        let mut table = self.0.lock();
        let named = table.names.get(&(parent, name.clone())).and_then(|ino| table.inodes.get(ino));
        if named.is_some_and(|inode| matches!(inode.key, InodeKey::Node(..))) {
            table.detach(parent, name);
        }
    }

    /// Moves an inode to another name. An inode that had that name before is marked as removed.
    pub(crate) fn rename(&self, from: (u64, &Name), to: (u64, &Name)) {
        let mut table = self.0.lock();
        let moved_ino = table.detach(from.0, from.1);
        table.retire_name(to.0, to.1);
        if let Some(ino) = moved_ino {
            table.attach(ino, to.0, to.1);
        }
    }

    /// Marks an inode as moved by others, and removes its location.
    pub(crate) fn mark_moved(&self, ino: u64) {
        let mut table = self.0.lock();
        if let Some(inode) = table.inodes.get_mut(&ino) {
            inode.is_moved = true;
        }
        if let Some((parent, name)) = table.inodes.get(&ino).and_then(|inode| inode.location.clone()) {
            table.detach(parent, &name);
        }
    }

    /// Exchanges the names of two inodes.
    pub(crate) fn exchange(&self, one: (u64, &Name), other: (u64, &Name)) {
        let mut table = self.0.lock();
        let (first, second) = (table.detach(one.0, one.1), table.detach(other.0, other.1));
        for (ino, (parent, name)) in [(first, other), (second, one)] {
            if let Some(ino) = ino {
                table.attach(ino, parent, name);
            }
        }
    }

    /// Whether the kernel may have content of another version than this one, or may lack a direct write in progress.
    pub(crate) fn is_stale(&self, ino: u64, tag: VersionTag) -> bool {
        let table = self.0.lock();
        table.inodes.get(&ino).is_some_and(|inode| {
            inode.cached_tag.is_some_and(|cached| cached != tag) || inode.pages.lacks_direct_writes()
        })
    }

    /// Whether others have changed a file, but not within `SHARED_WINDOW`, and the kernel may still have content that it
    /// read meanwhile.
    ///
    /// The version doesn't tell whether that content is current. A host sets the times of a file before it copies what a
    /// program writes, so a read in between returns the old content with the new version. And a write to the file by a
    /// program of the host can fall into the same instant as a commit of this mount, and have the same version.
    pub(crate) fn must_settle(&self, ino: u64) -> bool {
        self.0.lock().inodes.get(&ino).is_some_and(Inode::must_settle)
    }

    /// Records that the kernel has dropped its content of a file; the file's version is `tag`. If the kernel had content
    /// of another version, the file was changed elsewhere.
    pub(crate) fn note_dropped(&self, ino: u64, tag: VersionTag) {
        if let Some(inode) = self.0.lock().inodes.get_mut(&ino) {
            if inode.cached_tag.replace(tag) != Some(tag) {
                inode.note_changed_elsewhere();
            } else if inode.must_settle() {
                inode.is_unsettled = false;
            }
        }
    }

    /// Records a direct write.
    pub(crate) fn note_direct_write(&self, ino: u64) {
        if let Some(inode) = self.0.lock().inodes.get_mut(&ino) {
            inode.changed_elsewhere_at = Some(Instant::now());
        }
    }

    /// Whether a file was changed by others, or by a direct write, within `SHARED_WINDOW`.
    pub(crate) fn was_changed_elsewhere(&self, ino: u64) -> bool {
        let table = self.0.lock();
        table.inodes.get(&ino).is_some_and(Inode::was_changed_elsewhere)
    }

    /// What the kernel may have cached of a file's content.
    pub(crate) fn pages(&self, ino: u64) -> Option<Arc<PageCache>> {
        Some(Arc::clone(&self.0.lock().inodes.get(&ino)?.pages))
    }

    /// Records that a change through this mount made version `to` from version `from`. If the kernel had the content of
    /// `from`, it now has the content of `to`.
    pub(crate) fn advance_cached_tag(&self, ino: u64, from: Option<VersionTag>, to: VersionTag) {
        if let Some(inode) = self.0.lock().inodes.get_mut(&ino)
            && inode.cached_tag.is_none_or(|cached| Some(cached) == from)
        {
            inode.cached_tag = Some(to);
        }
    }

    /// Records that the kernel is about to get a directory's listing, with the directory in this state; `None` if the
    /// kernel may not cache it.
    pub(crate) fn set_listed(&self, ino: u64, state: Option<DirectoryState>) {
        if let Some(inode) = self.0.lock().inodes.get_mut(&ino) {
            inode.listed = state.map(|state| (state, Instant::now()));
        }
    }

    /// The state of a directory when the kernel last got its listing, and when that was.
    pub(crate) fn listed(&self, ino: u64) -> Option<(DirectoryState, Instant)> {
        self.0.lock().inodes.get(&ino)?.listed
    }

    /// Sets the version whose content the kernel may cache from now on; call it only if the kernel has no content of
    /// the file yet. `first_sight` counts if this mount has not opened the file before. Returns whether the version was
    /// the same before.
    pub(crate) fn set_cached_tag(&self, ino: u64, tag: VersionTag, first_sight: FirstSight) -> bool {
        let mut table = self.0.lock();
        let Some(inode) = table.inodes.get_mut(&ino) else { return false };
        let before = inode.cached_tag.replace(tag);
        if before.map_or(first_sight == FirstSight::Unsettled, |before| before != tag) {
            inode.note_changed_elsewhere();
        }
        before == Some(tag)
    }
}

impl InodeTable {
    /// A number for something that isn't in the table yet.
    fn new_ino(&mut self, key: &InodeKey) -> u64 {
        match *key {
            InodeKey::Synthetic(_) => {
                let ino = ROOT_INO + self.synthetic_inos.len() as u64;
                self.synthetic_inos.push(ino);
                ino
            }
            InodeKey::Node(workspace, node) => {
                let fits = node.0 >> NODE_BITS == 0 && (workspace as u64) < (1 << (62 - NODE_BITS));
                if fits {
                    return (workspace as u64 + 1) << NODE_BITS | node.0;
                }
                self.next_sequential()
            }
        }
    }

    fn next_sequential(&mut self) -> u64 {
        self.last_sequential += 1;
        SEQUENTIAL_BIT | self.last_sequential
    }

    /// Sets the location of an inode, and removes its name from an inode that had it.
    fn attach(&mut self, ino: u64, parent: u64, name: &Name) {
        if ino == ROOT_INO {
            return;
        }
        let location = Some((parent, name.clone()));
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        if inode.location == location {
            return;
        }
        inode.is_moved = parent == ino;
        if inode.is_moved {
            // A directory can't be in itself: the lookup combined two points in time.
            if let Some((parent, name)) = inode.location.clone() {
                self.detach(parent, &name);
            }
            return;
        }
        self.break_cycle(parent, ino);
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let before = std::mem::replace(&mut inode.location, location);
        let depth = self.depth(parent) + 1;
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.min_depth = inode.min_depth.min(depth);
        }
        if let Some((parent, name)) = before {
            self.names.remove(&(parent, name));
            self.release_child(parent);
        }
        if let Some(inode) = self.inodes.get_mut(&parent) {
            inode.child_count += 1;
        }
        if let Some(other) = self.names.insert((parent, name.clone()), ino) {
            if let Some(other) = self.inodes.get_mut(&other) {
                other.location = None;
            }
            self.release_child(parent);
        }
    }

    /// Prepares to put `from` into `directory`. If the table has `directory` below `from`, others have moved a
    /// directory in between: that one loses its location.
    fn break_cycle(&mut self, directory: u64, from: u64) {
        let mut current = directory;
        while let Some((parent, name)) = self.inodes.get(&current).and_then(|inode| inode.location.clone()) {
            if parent == from {
                if let Some(inode) = self.inodes.get_mut(&current) {
                    inode.is_moved = true;
                }
                self.detach(parent, &name);
                return;
            }
            current = parent;
        }
    }

    /// Removes a name. Returns the inode that had it.
    fn detach(&mut self, parent: u64, name: &Name) -> Option<u64> {
        let ino = self.names.remove(&(parent, name.clone()))?;
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.location = None;
        }
        self.release_child(parent);
        Some(ino)
    }

    /// Marks an inode as removed if its node id now belongs to a file that was created at another time: another program
    /// has removed the first one.
    fn retire_if_reused(&mut self, ino: u64, created: Option<Timestamp>) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let is_reused = inode.created.zip(created).is_some_and(|(known, new)| known != new);
        if !is_reused || matches!(inode.key, InodeKey::Synthetic(_)) {
            return;
        }
        inode.is_removed = true;
        if let Some((parent, name)) = inode.location.clone() {
            self.detach(parent, &name);
        }
    }

    /// Removes a name, and marks the inode that had it as removed.
    fn retire_name(&mut self, parent: u64, name: &Name) {
        if let Some(ino) = self.detach(parent, name)
            && let Some(inode) = self.inodes.get_mut(&ino)
        {
            inode.is_removed = true;
        }
    }

    /// Lowers the child count of a directory.
    fn release_child(&mut self, parent: u64) {
        if let Some(inode) = self.inodes.get_mut(&parent) {
            inode.child_count -= 1;
            self.drop_unused(parent);
        }
    }

    /// Removes an inode from the table if neither the kernel nor another inode in it needs it.
    fn drop_unused(&mut self, ino: u64) {
        let Some(inode) = self.inodes.get(&ino) else { return };
        if inode.lookups > 0
            || inode.child_count > 0
            || ino == ROOT_INO
            || matches!(inode.key, InodeKey::Synthetic(_))
        {
            return;
        }
        let inode = self.inodes.remove(&ino).expect("found above");
        let has_node = self.by_key.get(&inode.key) == Some(&ino);
        if has_node {
            self.by_key.remove(&inode.key);
        }
        if let Some((parent, name)) = inode.location {
            self.names.remove(&(parent, name));
            self.release_child(parent);
        }
        if let InodeKey::Node(workspace, node) = inode.key
            && has_node
        {
            self.forgotten.push((workspace, node));
        }
    }

    /// The depth of a directory below the top; 0 if it has no path.
    fn depth(&self, ino: u64) -> usize {
        self.path(ino).map_or(0, |path| path.depth())
    }

    fn path(&self, ino: u64) -> Option<VfsPath> {
        let mut names = Vec::new();
        let mut inode = self.inodes.get(&ino)?;
        let base = loop {
            match &inode.key {
                InodeKey::Synthetic(path) => break path,
                InodeKey::Node(..) => {
                    let (parent, name) = inode.location.as_ref()?;
                    names.push(name.as_path_component()?);
                    inode = self.inodes.get(parent)?;
                }
            }
        };
        if names.is_empty() {
            return Some(base.clone());
        }
        names.reverse();
        base.join(&names.join("/")).ok()
    }
}

#[cfg(test)]
mod tests {
    use stead_core::store::{Attr, NodeKind};

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    fn node(path: &str, id: u64) -> Lookup {
        let attr = Attr {
            node: NodeId(id),
            kind: NodeKind::Directory,
            size: 0,
            mode: 0o755,
            created: None,
            modified: Default::default(),
            changed: Default::default(),
            tag: VersionTag(id.into()),
        };
        let path = VfsPath::parse(path).unwrap();
        Lookup {
            path,
            workspace: Some(0),
            is_synthetic: false,
            is_hidden: false,
            node: Some(NodeId(id)),
            attr,
        }
    }

    fn top() -> Inodes {
        Inodes::new(&Lookup { is_synthetic: true, node: None, ..node("/", 0) })
    }

    fn path(inodes: &Inodes, ino: u64) -> Option<String> {
        inodes.node_ref(ino).map(|node_ref| node_ref.path.to_string())
    }

    #[test]
    fn a_renamed_directory_takes_everything_below_it_along() {
        let inodes = top();
        let a = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        let b = inodes.record_found(a, &name("b"), &node("/a/b", 11), true);
        let c = inodes.record_found(b, &name("c"), &node("/a/b/c", 12), true);
        let overwritten = inodes.record_found(ROOT_INO, &name("d"), &node("/d", 13), true);
        inodes.rename((a, &name("b")), (ROOT_INO, &name("d")));
        assert_eq!(path(&inodes, c).as_deref(), Some("/d/c"));
        assert_eq!(path(&inodes, overwritten), None);
        inodes.exchange((ROOT_INO, &name("d")), (ROOT_INO, &name("a")));
        assert_eq!(path(&inodes, c).as_deref(), Some("/a/c"));
        assert_eq!(path(&inodes, a).as_deref(), Some("/d"));
        assert_eq!(inodes.parent(c), b);
        inodes.remove_foreign(b, &name("c"));
        assert_eq!(path(&inodes, c), None);
        assert_eq!(inodes.node(c), Some((0, NodeId(12))));
    }

    #[test]
    fn a_node_gets_the_same_number_again_and_forgotten_inodes_are_dropped() {
        let inodes = top();
        let a = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        let b = inodes.record_found(a, &name("b"), &node("/a/b", 11), true);
        assert_eq!(inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true), a);
        assert_eq!(inodes.forget(a, 2), [], "the kernel still knows an entry in it");
        assert_eq!(path(&inodes, b).as_deref(), Some("/a/b"));
        assert_eq!(
            inodes.forget(b, 1),
            [(0, NodeId(10)), (0, NodeId(11))],
            "its parent has to be forgotten, too"
        );
        assert_eq!(inodes.0.lock().inodes.len(), 1);
        assert_eq!(inodes.0.lock().names.len(), 0);
        assert_eq!(inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true), a);
        let large = inodes.record_found(ROOT_INO, &name("l"), &node("/l", u64::MAX), true);
        assert_eq!(large, SEQUENTIAL_BIT | 1);
    }

    #[test]
    fn a_symlink_climbs_no_further_than_from_where_the_kernel_may_take_it_to_be() {
        let inodes = top();
        let a = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        let b = inodes.record_found(a, &name("b"), &node("/a/b", 11), true);
        let c = inodes.record_found(b, &name("c"), &node("/a/b/c", 12), true);
        let d = inodes.record_found(ROOT_INO, &name("d"), &node("/d", 13), true);
        let link = inodes.record_found(d, &name("l"), &node("/d/l", 14), true);
        assert_eq!((inodes.max_climb(link), inodes.max_climb(c)), (1, 2));
        inodes.rename((ROOT_INO, &name("d")), (c, &name("d")));
        assert_eq!(path(&inodes, link).as_deref(), Some("/a/b/c/d/l"));
        assert_eq!(inodes.max_climb(link), 1);
        inodes.rename((c, &name("d")), (b, &name("e")));
        assert_eq!(inodes.max_climb(link), 1);
        inodes.rename((ROOT_INO, &name("a")), (ROOT_INO, &name("z")));
        inodes.rename((b, &name("c")), (ROOT_INO, &name("c")));
        assert_eq!(inodes.max_climb(c), 0);
        let new = inodes.record_found(b, &name("m"), &node("/z/b/m", 15), true);
        assert_eq!(inodes.max_climb(new), 2);
        inodes.mark_moved(b);
        assert_eq!(inodes.max_climb(new), 2);
    }

    #[test]
    fn a_file_that_reuses_the_node_id_of_a_removed_file_gets_another_number() {
        let inodes = top();
        let first = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        inodes.remove(ROOT_INO, &name("a"));
        let second = inodes.record_found(ROOT_INO, &name("b"), &node("/b", 10), true);
        assert_ne!(first, second);
        assert_eq!((path(&inodes, first), path(&inodes, second)), (None, Some("/b".to_owned())));
        assert_eq!(inodes.forget(first, 1), [], "the node belongs to the second");
        assert_eq!(inodes.ino_of(0, NodeId(10)), Some(second));
        inodes.remove_foreign(ROOT_INO, &name("b"));
        assert_eq!(
            inodes.record_found(ROOT_INO, &name("c"), &node("/c", 10), true),
            second,
            "the node was only moved, so it keeps its inode"
        );
        assert_eq!(inodes.forget(second, 2), [(0, NodeId(10))]);
    }

    /// A file that was created at `at`. All of them have the same node id.
    fn file_created_at(path: &str, created_at: i64) -> Lookup {
        let lookup = node(path, 10);
        let attr = Attr { kind: NodeKind::File, created: Some(Timestamp(created_at)), ..lookup.attr };
        Lookup { attr, ..lookup }
    }

    #[test]
    fn a_file_that_reuses_the_node_id_of_a_file_removed_on_the_host_gets_another_number() {
        let inodes = top();
        let first = inodes.record_found(ROOT_INO, &name("f"), &file_created_at("/f", 1), true);
        assert_eq!(inodes.record_found(ROOT_INO, &name("f"), &file_created_at("/f", 1), true), first);
        let second = inodes.record_found(ROOT_INO, &name("new"), &file_created_at("/new", 2), true);
        assert_ne!(first, second);
        assert_eq!((path(&inodes, first), path(&inodes, second)), (None, Some("/new".to_owned())));
        assert!(
            inodes.should_look_up_again(first),
            "a program that uses the old name has to look it up again"
        );
    }

    #[test]
    fn a_number_that_the_kernel_still_knows_is_not_reused() {
        let inodes = top();
        let first = inodes.record_found(ROOT_INO, &name("f"), &file_created_at("/f", 1), true);
        assert!(!inodes.set_cached_tag(first, VersionTag(1), FirstSight::Settled));
        let second = inodes.record_found(ROOT_INO, &name("f"), &file_created_at("/f", 2), true);
        assert_eq!(inodes.forget(second, 1), [(0, NodeId(10))]);
        // A program still has the first one open, and the kernel has its content.
        let third = inodes.record_found(ROOT_INO, &name("f"), &file_created_at("/f", 3), true);
        assert!(third != first && third != second);
        assert!(
            inodes.is_stale(first, VersionTag(3)),
            "what the kernel knows of the first inode has to stay"
        );
        assert_eq!(inodes.forget(first, 1), [], "the node belongs to the third");
        assert_eq!(inodes.ino_of(0, NodeId(10)), Some(third));
    }

    #[test]
    fn a_workspace_directory_is_found_by_its_own_node_not_by_another_stores_node() {
        let inodes = top();
        let workspace_directory = |path: &str, workspace| Lookup {
            is_synthetic: true,
            workspace: Some(workspace),
            ..node(path, 3)
        };
        let first = inodes.record_found(ROOT_INO, &name("one"), &workspace_directory("/one", 0), true);
        let second = inodes.record_found(ROOT_INO, &name("other"), &workspace_directory("/other", 1), true);
        assert_eq!(inodes.ino_of(0, NodeId(3)), Some(first));
        assert_eq!(inodes.ino_of(1, NodeId(3)), Some(second));
        assert_eq!(inodes.ino_of(2, NodeId(3)), None, "the node of a third Store has no inode yet");
        inodes.remove_foreign(ROOT_INO, &name("one"));
        assert_eq!(
            inodes.ino_named(ROOT_INO, &name("one")),
            Some(first),
            "the inode of a Workspace has to stay"
        );
    }

    #[test]
    fn no_directory_is_below_itself() {
        let inodes = top();
        let a = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        let b = inodes.record_found(a, &name("b"), &node("/a/b", 11), true);
        let c = inodes.record_found(b, &name("c"), &node("/a/b/c", 12), true);
        // Others have moved the first directory below the last one.
        assert_eq!(inodes.record_found(c, &name("d"), &node("/a/b/c/d", 10), true), a);
        assert_eq!(path(&inodes, a), None);
        assert!(inodes.should_look_up_again(b));
        assert_eq!(inodes.max_climb(c), 2);
        assert_eq!(inodes.record_found(ROOT_INO, &name("b"), &node("/b", 11), true), b);
        assert_eq!(path(&inodes, a).as_deref(), Some("/b/c/d"));
        // The lookup makes it its own child.
        inodes.record_found(a, &name("a"), &node("/b/c/d/a", 10), true);
        assert_eq!(path(&inodes, a), None);
        for (ino, times) in [(a, 3), (c, 1), (b, 2)] {
            inodes.forget(ino, times);
        }
        assert_eq!(inodes.ino_of(0, NodeId(11)), None, "a forgotten node must not stay in the table");
    }

    #[test]
    fn a_listing_moves_nothing() {
        let inodes = top();
        let ino = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        inodes.rename((ROOT_INO, &name("a")), (ROOT_INO, &name("b")));
        assert_eq!(inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), false), ino);
        assert_eq!(path(&inodes, ino).as_deref(), Some("/b"));
    }

    #[test]
    fn content_of_another_version_than_the_kernel_has_is_stale() {
        let inodes = top();
        let a = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        assert!(!inodes.set_cached_tag(a, VersionTag(1), FirstSight::Settled));
        assert!(inodes.set_cached_tag(a, VersionTag(1), FirstSight::Settled));
        assert!(!inodes.is_stale(a, VersionTag(1)) && inodes.is_stale(a, VersionTag(2)));
        assert!(!inodes.set_cached_tag(a, VersionTag(2), FirstSight::Settled));
        assert!(!inodes.is_stale(a, VersionTag(2)));
        inodes.advance_cached_tag(a, Some(VersionTag(2)), VersionTag(3));
        assert!(!inodes.is_stale(a, VersionTag(3)));
        inodes.advance_cached_tag(a, Some(VersionTag(7)), VersionTag(8));
        assert!(inodes.is_stale(a, VersionTag(8)), "the kernel never had the changed content");
    }

    #[test]
    fn content_is_dropped_once_more_some_time_after_others_changed_the_file() {
        let inodes = top();
        let a = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        let let_time_pass = || {
            let mut table = inodes.0.lock();
            let inode = table.inodes.get_mut(&a).unwrap();
            inode.changed_elsewhere_at = inode.changed_elsewhere_at.map(|at| at - SHARED_WINDOW);
        };
        inodes.set_cached_tag(a, VersionTag(1), FirstSight::Settled);
        assert!(!inodes.must_settle(a), "only this mount has used it");
        inodes.note_dropped(a, VersionTag(2));
        assert!(
            inodes.was_changed_elsewhere(a) && !inodes.must_settle(a),
            "readers bypass the kernel's pages"
        );
        inodes.note_dropped(a, VersionTag(2));
        let_time_pass();
        assert!(!inodes.was_changed_elsewhere(a) && inodes.must_settle(a));
        inodes.advance_cached_tag(a, Some(VersionTag(2)), VersionTag(3));
        assert!(inodes.must_settle(a), "a commit drops nothing");
        inodes.note_dropped(a, VersionTag(3));
        assert!(!inodes.must_settle(a) && !inodes.was_changed_elsewhere(a), "once is enough");
        inodes.note_direct_write(a);
        let_time_pass();
        assert!(
            !inodes.must_settle(a),
            "the kernel has dropped its pages before each direct write was answered"
        );
    }

    #[test]
    fn a_file_that_is_new_to_the_mount_may_be_in_use_by_others() {
        let inodes = top();
        let a = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        let b = inodes.record_found(ROOT_INO, &name("b"), &node("/b", 11), true);
        inodes.set_cached_tag(a, VersionTag(1), FirstSight::Unsettled);
        inodes.set_cached_tag(b, VersionTag(1), FirstSight::Settled);
        assert!(inodes.was_changed_elsewhere(a) && !inodes.was_changed_elsewhere(b));
        inodes.set_cached_tag(b, VersionTag(1), FirstSight::Unsettled);
        assert!(!inodes.was_changed_elsewhere(b), "the mount has made that version");
    }

    #[test]
    fn a_file_counts_as_changed_elsewhere_for_a_while_after_a_direct_write() {
        let inodes = top();
        let a = inodes.record_found(ROOT_INO, &name("a"), &node("/a", 10), true);
        let b = inodes.record_found(ROOT_INO, &name("b"), &node("/b", 11), true);
        inodes.set_cached_tag(a, VersionTag(1), FirstSight::Settled);
        assert!(!inodes.was_changed_elsewhere(a));
        inodes.note_direct_write(a);
        assert!(inodes.was_changed_elsewhere(a) && !inodes.was_changed_elsewhere(b));
    }
}
