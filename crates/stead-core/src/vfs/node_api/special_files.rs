//! Named pipes and sockets of a mount. The kernel does all the work and needs only a name, so they are kept in memory
//! for as long as the mount lasts, and no Store holds them.
//!
//! Their directory is identified by its node, so they move along with it.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::name::Name;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    Attr, IfMissing, NodeId, NodeKind, NodePath, Parents, Precondition, QuotaResource, Replace, Side,
    SpecialKind, Step, StoreError, StoreId, StorePath, Subtree, VersionTag,
};
use crate::vfs::call::Call;
use crate::vfs::node_api::{DirectoryRef, Lookup, NodeApi, child_path, expected_nodes};
use crate::vfs::resolve::ResolvedPath;

/// How many special files a mount may have.
const MAX_SPECIAL_FILES: usize = 1 << 16;

/// The special files of a mount.
#[derive(Debug, Default)]
pub(super) struct SpecialFiles(Mutex<SpecialFileTable>);

#[derive(Debug, Default)]
struct SpecialFileTable {
    by_node: HashMap<NodeId, SpecialFile>,
    /// The special files by directory and name.
    by_name: HashMap<SpecialFileKey, NodeId>,
    last_id: u64,
}

/// The Store, the directory's node, and the name in it.
type SpecialFileKey = (StoreId, NodeId, Name);

#[derive(Debug, Clone)]
struct SpecialFile {
    key: SpecialFileKey,
    kind: SpecialKind,
    mode: u32,
    modified: Timestamp,
    changed: Timestamp,
}

impl SpecialFile {
    fn attr(&self, node: NodeId) -> Attr {
        Attr {
            node,
            kind: NodeKind::Special(self.kind),
            size: 0,
            mode: self.mode,
            created: None,
            modified: self.modified,
            changed: self.changed,
            tag: VersionTag(0),
        }
    }
}

/// The key of the name at a path. `parent` is the directory's node; `None`, for a directory that may not have existed
/// when it was looked up, is resolved through the Store.
fn key_of(parent: Option<NodeId>, resolved: &ResolvedPath<'_>) -> Option<SpecialFileKey> {
    let name = Name::new(resolved.path.name()?.as_bytes())?;
    let parent = match parent {
        Some(node) => node,
        None => resolved.store().stat(&parent_path(resolved)?).ok()?.node,
    };
    Some((resolved.store().id(), parent, name))
}

/// The path of the directory that holds a path.
fn parent_path(resolved: &ResolvedPath<'_>) -> Option<NodePath> {
    let (parent, _) = resolved.node_path.path.parent_and_name()?;
    Some(NodePath::from_root(StorePath::from_checked(parent)))
}

impl SpecialFiles {
    fn find(&self, parent: Option<NodeId>, resolved: &ResolvedPath<'_>) -> Option<(NodeId, SpecialFile)> {
        if self.0.lock().by_name.is_empty() {
            return None;
        }
        let key = key_of(parent, resolved)?;
        let table = self.0.lock();
        let node = *table.by_name.get(&key)?;
        Some((node, table.by_node.get(&node)?.clone()))
    }

    /// Fails if a special file has the name.
    pub(super) fn check_free(&self, parent: Option<NodeId>, resolved: &ResolvedPath<'_>) -> Result<()> {
        match self.find(parent, resolved) {
            Some(_) => Err(resolved.store_error(StoreError::AlreadyExists)),
            None => Ok(()),
        }
    }

    /// Removes the special file with this name, if there is one: another node has the name now.
    pub(super) fn release_name(&self, parent: Option<NodeId>, resolved: &ResolvedPath<'_>) {
        if let Some((node, _)) = self.find(parent, resolved) {
            self.remove(node);
        }
    }

    /// The names of the special files in a directory. `node` is its node, if it is known.
    pub(super) fn names_in(&self, directory: &ResolvedPath<'_>, node: Option<NodeId>) -> Vec<Name> {
        if self.0.lock().by_name.is_empty() {
            return Vec::new();
        }
        let stat_node = || Some(directory.store().stat(&directory.node_path).ok()?.node);
        let Some(node) = node.or_else(stat_node) else { return Vec::new() };
        // The nodes of two Stores can have the same id.
        let parent = (directory.store().id(), node);
        let table = self.0.lock();
        let keys = table.by_name.keys().filter(|(store, node, _)| (*store, *node) == parent);
        keys.map(|(_, _, name)| name.clone()).collect()
    }

    fn add(&self, file: SpecialFile) -> Result<NodeId, StoreError> {
        let mut table = self.0.lock();
        // Another call may have taken the name since it was found free.
        if table.by_name.contains_key(&file.key) {
            return Err(StoreError::AlreadyExists);
        }
        if table.by_node.len() == MAX_SPECIAL_FILES {
            let allowed = MAX_SPECIAL_FILES as u64;
            return Err(StoreError::OverQuotaUndisclosed { on: QuotaResource::Files, allowed });
        }
        table.last_id += 1;
        // Counts down from the top, so that the ids don't collide with those of Stores.
        let node = NodeId(u64::MAX - table.last_id);
        table.by_name.insert(file.key.clone(), node);
        table.by_node.insert(node, file);
        Ok(node)
    }

    fn remove(&self, node: NodeId) {
        let mut table = self.0.lock();
        if let Some(file) = table.by_node.remove(&node) {
            table.by_name.remove(&file.key);
        }
    }

    fn rename(&self, node: NodeId, key: SpecialFileKey, now: Timestamp) {
        let mut table = self.0.lock();
        let table = &mut *table;
        if let Some(file) = table.by_node.get_mut(&node) {
            table.by_name.remove(&file.key);
            file.key = key.clone();
            file.changed = now;
            table.by_name.insert(key, node);
        }
    }
}

impl NodeApi {
    /// Creates a named pipe or a socket.
    pub fn make_special(
        &self,
        directory: &DirectoryRef,
        name: &Name,
        kind: SpecialKind,
        mode: u32,
    ) -> Result<Lookup> {
        self.vfs.call("make_special", [child_path(directory, name)], |call, [path]| {
            let resolved = call.authorize(path, Access::Write)?;
            resolved.check_not_protected_ancestor()?;
            if resolved.visibility() == Visibility::Hidden || kind == SpecialKind::Device {
                return Err(Error::ToolNotOffered(
                    "only a pipe or a socket can be made, and not in a WRITE_ONLY Workspace".into(),
                ));
            }
            if call.shared().router.nested(path).next().is_some() {
                return Err(resolved.store_error(StoreError::AlreadyExists));
            }
            call.check_directory(directory)?;
            match resolved.store().stat(&resolved.node_path) {
                Ok(_) => return Err(resolved.store_error(StoreError::AlreadyExists)),
                Err(StoreError::NotFound) => {}
                Err(cause) => return Err(resolved.store_error(cause)),
            }
            let parent = match directory.node {
                Some(node) => node,
                None => call.ensure_parent(&resolved)?,
            };
            let key =
                key_of(Some(parent), &resolved).ok_or_else(|| resolved.store_error(StoreError::NotFound))?;
            self.special_files.check_free(Some(parent), &resolved)?;
            let now = call.shared().clock.now();
            let file = SpecialFile { key, kind, mode, modified: now, changed: now };
            let added = file.clone();
            let node = self.special_files.add(file).map_err(|cause| resolved.store_error(cause))?;
            Ok(self.visible_lookup(&resolved, added.attr(node), call.shared().open_nodes.commit_mark()))
        })
    }

    /// Looks up a special file by its node. `path` is the path that it has now.
    pub fn lookup_special(&self, path: &VfsPath, node: NodeId) -> Option<Lookup> {
        let file = self.special_files.0.lock().by_node.get(&node)?.clone();
        let workspace = self.vfs.shared.router.route(path).map(|route| self.workspace_index(route.workspace));
        let attr = file.attr(node);
        let node = Some(node);
        Some(Lookup { path: path.clone(), workspace, is_synthetic: false, is_hidden: false, node, attr })
    }

    /// Looks up a special file by its directory and path.
    pub(super) fn find_special(
        &self,
        call: &Call<'_>,
        directory: &DirectoryRef,
        path: &VfsPath,
    ) -> Option<Lookup> {
        let resolved = call.authorize(path, Access::Read).ok()?;
        let (node, _) = self.special_files.find(directory.node, &resolved)?;
        self.lookup_special(path, node)
    }

    /// Sets attributes of a special file; `None` if the node isn't one.
    pub(super) fn set_special_attributes(
        &self,
        path: &VfsPath,
        node: NodeId,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> Option<Lookup> {
        {
            let mut table = self.special_files.0.lock();
            let file = table.by_node.get_mut(&node)?;
            file.mode = mode.unwrap_or(file.mode);
            file.modified = modified.unwrap_or(file.modified);
            file.changed = self.vfs.shared.clock.now();
        }
        self.lookup_special(path, node)
    }

    /// Removes the special file at a path, and returns whether there was one. Fails if a directory is to be removed
    /// that holds special files: it isn't empty.
    pub(super) fn remove_special(
        &self,
        call: &Call<'_>,
        resolved: &ResolvedPath<'_>,
        directory: &DirectoryRef,
        subtree: Subtree,
    ) -> Result<bool> {
        if self.special_files.0.lock().by_node.is_empty() {
            return Ok(false);
        }
        let stat = resolved.store().stat(&resolved.node_path);
        if subtree == Subtree::EmptyDirectory
            && let Ok(attr) = &stat
            && !self.special_files.names_in(resolved, Some(attr.node)).is_empty()
        {
            return Err(resolved.store_error(StoreError::NotEmpty));
        }
        let Some((node, _)) = self.special_files.find(directory.node, resolved) else { return Ok(false) };
        call.check_directory(directory)?;
        if stat.is_ok() {
            return Ok(false);
        }
        if subtree == Subtree::EmptyDirectory {
            return Err(resolved.store_error(StoreError::NotADirectory));
        }
        self.special_files.remove(node);
        Ok(true)
    }

    /// Renames a special file, and returns whether `from` is one.
    pub(super) fn rename_special(
        &self,
        call: &Call<'_>,
        (from, from_directory): (&ResolvedPath<'_>, &DirectoryRef),
        (to, to_directory): (&ResolvedPath<'_>, &DirectoryRef),
        replace: Replace,
    ) -> Result<bool> {
        if self.special_files.0.lock().by_node.is_empty() {
            return Ok(false);
        }
        // A directory that holds special files isn't empty, so it can't be replaced.
        if replace == Replace::Overwrite
            && from.path != to.path
            && let Ok(attr) = to.store().stat(&to.node_path)
            && !self.special_files.names_in(to, Some(attr.node)).is_empty()
        {
            return Err(to.store_error(StoreError::NotEmpty));
        }
        let replaced = self.special_files.find(to_directory.node, to);
        if replaced.is_some() && replace == Replace::Refuse {
            return Err(to.store_error(StoreError::AlreadyExists));
        }
        let moved = self.special_files.find(from_directory.node, from);
        if (moved.is_some() || replaced.is_some()) && replace == Replace::Exchange {
            return Err(from.store_error(StoreError::unsupported(
                "a pipe or a socket can't be exchanged with another entry",
            )));
        }
        let Some((node, _)) = moved.filter(|_| from.store().stat(&from.node_path).is_err()) else {
            return Ok(false);
        };
        to.check_not_protected_ancestor()?;
        call.check_directory(from_directory)?;
        call.check_directory(to_directory)?;
        match to.store().stat(&to.node_path) {
            Ok(_) if replace == Replace::Refuse => return Err(to.store_error(StoreError::AlreadyExists)),
            Ok(_) => {
                let step = Step::Remove {
                    at: to.node_path.clone(),
                    subtree: Subtree::File,
                    expect: Precondition::Any,
                    if_missing: IfMissing::Fail,
                    protected: to.protected_names(Side::From, None),
                    displaced: to.displaced_content(),
                };
                call.apply_at(to, vec![step], expected_nodes(&[(to, to_directory)]))?;
            }
            Err(StoreError::NotFound) => {}
            Err(cause) => return Err(to.store_error(cause)),
        }
        let parent = match to_directory.node {
            Some(parent) => parent,
            None => call.ensure_parent(to)?,
        };
        self.special_files.release_name(Some(parent), to);
        if let Some(key) = key_of(Some(parent), to) {
            self.special_files.rename(node, key, call.shared().clock.now());
        }
        Ok(true)
    }
}

impl Call<'_> {
    /// The node of the directory that holds a path. Creates the directory if it was shown only because of the
    /// Workspaces.
    fn ensure_parent(&self, resolved: &ResolvedPath<'_>) -> Result<NodeId> {
        let parent = parent_path(resolved).ok_or_else(|| resolved.store_error(StoreError::NotFound))?;
        if let Err(StoreError::NotFound) = resolved.store().stat(&parent) {
            let step = Step::Mkdir { at: parent.clone(), parents: Parents::Create, mode: None };
            self.apply_at(resolved, vec![step], Vec::new())?;
        }
        resolved.store().stat(&parent).map(|attr| attr.node).map_err(|cause| resolved.store_error(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_of_two_calls_that_make_the_same_name_fails() {
        let files = SpecialFiles::default();
        let key = (StoreId::fresh(), NodeId(1), Name::new(*b"pipe").expect("a name"));
        let (mode, at) = (0o600, Timestamp(0));
        let file = SpecialFile { key, kind: SpecialKind::Fifo, mode, modified: at, changed: at };
        assert!(files.add(file.clone()).is_ok());
        assert!(matches!(files.add(file), Err(StoreError::AlreadyExists)));
    }
}
