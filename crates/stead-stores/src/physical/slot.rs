//! Resolves a `NodePath` to a slot: an open host directory and a name in it.

use std::os::fd::AsFd;

use stead_core::Name;
use stead_core::store::{LinkHit, NodeId, NodeKind, NodePath, Parents, StoreError, StoreResult};

use super::PhysicalStore;
use super::host::{self, Errno, HostStat, NameAt, OpenMode, errno_to_store_error};
use super::lock::Stripe;
use super::mask::{join, split};
use super::root::{self, Dir, Root, WalkedPath};
use crate::reserved_names::reserved_name_error;

/// What a path is looked up for. A masked path is `NotFound` for `Find`, and a reserved name for `Create`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookupPurpose {
    Find,
    Create,
}

/// A path relative to an open directory. The host has not been asked yet what is there.
#[derive(Debug)]
pub(super) struct LocatedPath {
    /// The directory that the path starts at: the root, or the directory of a node.
    pub(super) base: Dir,
    /// The path from the root.
    pub(super) full_path: Vec<u8>,
    /// The offset in `full_path` at which the path from `base` starts.
    start: usize,
    /// The inode that must be found at the path, if the `NodePath` is a node itself.
    node: Option<u64>,
    /// How many names the path of the `NodePath` has.
    depth: usize,
}

impl LocatedPath {
    /// The path from `base`.
    pub(super) fn path(&self) -> &[u8] {
        &self.full_path[self.start..]
    }

    pub(super) fn is_root(&self) -> bool {
        self.full_path.is_empty()
    }

    /// If a node was asked for and something else is in its place, the node is not found.
    fn missing_node_error(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Link(_) | StoreError::NotADirectory if self.node.is_some() => StoreError::NotFound,
            error => error,
        }
    }

    pub(super) fn check_node(&self, stat: &HostStat) -> StoreResult<()> {
        if self.node.is_none_or(|node| node == stat.ino) { Ok(()) } else { Err(StoreError::NotFound) }
    }

    /// The error for a call that would have to follow the symlink at this path.
    pub(super) fn symlink_error(&self, at: NameAt<'_>) -> StoreError {
        match host::read_link(at.0, at.1) {
            Ok(target) => LinkHit::error_at(self.depth, target),
            Err(Errno::INVAL) => errno_to_store_error(Errno::LOOP),
            Err(error) => errno_to_store_error(error),
        }
    }
}

/// A name in an open directory, which may or may not exist.
#[derive(Debug)]
pub(super) struct HostSlot {
    pub(super) located: LocatedPath,
    /// The deepest directory on the way that exists.
    pub(super) dir: Dir,
    pub(super) dir_stat: HostStat,
    /// The offset in `full_path` of the first name below `dir`. That is the last name of the path, unless parents are
    /// missing.
    first_name_start: usize,
    purpose: LookupPurpose,
}

impl HostSlot {
    /// The path from the root.
    pub(super) fn path(&self) -> &[u8] {
        &self.located.full_path
    }

    /// The last name of the path.
    pub(super) fn name(&self) -> &[u8] {
        split(&self.located.full_path).1
    }

    /// The names below `dir`: the missing parents, then the last name.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.located.full_path[self.first_name_start..].split(|&byte| byte == b'/')
    }

    pub(super) fn has_parent(&self) -> bool {
        self.names().nth(1).is_none()
    }

    /// The first name below `dir`, which is what a step creates or replaces.
    pub(super) fn first_name(&self) -> &[u8] {
        self.names().next().expect("a path has a name")
    }

    /// The path from the root to [`HostSlot::first_name`].
    pub(super) fn first_path(&self) -> &[u8] {
        &self.located.full_path[..self.first_name_start + self.first_name().len()]
    }

    pub(super) fn at(&self) -> NameAt<'_> {
        (self.dir.as_fd(), self.first_name())
    }

    /// Whether `dir` is still at the path where it was found.
    pub(super) fn is_in_place(&self, root: &Root) -> bool {
        let path = self.located.full_path[..self.first_name_start].strip_suffix(b"/").unwrap_or_default();
        let found = root::enter(&root.dir, path, OpenMode::Traverse)
            .and_then(|dir| host::stat(&dir).map_err(errno_to_store_error));
        found.is_ok_and(|found| found.ino == self.dir_stat.ino)
    }

    pub(super) fn stripe(&self) -> Stripe {
        Stripe::of(self.dir_stat.ino, self.first_name())
    }

    /// The error for a step that would have to follow the symlink at this slot.
    pub(super) fn symlink_error(&self) -> StoreError {
        self.located.symlink_error(self.at())
    }
}

impl PhysicalStore {
    /// Turns a `NodePath` into a path from an open directory.
    pub(super) fn locate(&self, at: &NodePath, purpose: LookupPurpose) -> StoreResult<LocatedPath> {
        let path = at.path.as_bytes();
        // The port promises canonical paths. A `..` would be the one way past a call that takes a single name.
        if !path.is_empty() && !path.split(|&byte| byte == b'/').all(is_valid_name) {
            return Err(StoreError::Invalid("the path is not canonical".to_owned()));
        }
        let depth = at.path.depth();
        let located = if at.base == NodeId::ROOT {
            LocatedPath { base: self.root.dir.clone(), full_path: path.to_vec(), start: 0, node: None, depth }
        } else {
            let node = self.node_path_table.path(at.base.0).ok_or(StoreError::NotFound)?;
            if path.is_empty() {
                let full_path = node.to_vec();
                LocatedPath { base: self.root.dir.clone(), full_path, start: 0, node: Some(at.base.0), depth }
            } else {
                let base = match root::enter(&self.root.dir, &node, OpenMode::Traverse) {
                    // The node itself may be no directory. Otherwise something else is in its place, and the node is
                    // gone.
                    Err(StoreError::Link(_) | StoreError::NotADirectory) => {
                        let found = self
                            .stat_located(&self.locate(&NodePath::of_node(at.base), LookupPurpose::Find)?)?;
                        let is_replaced = found.is_dir();
                        return Err(if is_replaced {
                            StoreError::NotFound
                        } else {
                            StoreError::NotADirectory
                        });
                    }
                    entered => entered?,
                };
                if host::stat(&base).map_err(errno_to_store_error)?.ino != at.base.0 {
                    return Err(StoreError::NotFound);
                }
                let full_path = join(&node, path);
                LocatedPath { base, start: full_path.len() - path.len(), full_path, node: None, depth }
            }
        };
        match purpose {
            _ if !self.mask.hides(&located.full_path) => Ok(located),
            LookupPurpose::Find => Err(StoreError::NotFound),
            LookupPurpose::Create => Err(reserved_name_error()),
        }
    }

    /// Opens the parent directory of a path, and returns it with the last name.
    pub(super) fn open_parent<'l>(&self, located: &'l LocatedPath) -> StoreResult<(Dir, &'l [u8])> {
        let (parent, name) = split(located.path());
        let dir = root::enter(&located.base, parent, OpenMode::Traverse)
            .map_err(|error| located.missing_node_error(error))?;
        Ok((dir, name))
    }

    /// Finds the slot that a step acts on. `Invalid` for the root, which has no slot.
    pub(super) fn slot(
        &self,
        at: &NodePath,
        purpose: LookupPurpose,
        parents: Parents,
    ) -> StoreResult<HostSlot> {
        let located = self.locate(at, purpose)?;
        if located.is_root() {
            return Err(StoreError::Invalid("the root directory of a Store can't be changed".to_owned()));
        }
        let (parent, name) = split(located.path());
        let last = located.full_path.len() - name.len();
        let (dir, first_name_start) = match root::enter(&located.base, parent, OpenMode::Directory) {
            Ok(dir) => (dir, last),
            Err(StoreError::NotFound) if parents == Parents::Create && located.node.is_none() => {
                match root::follow(&located.base, parent, OpenMode::Directory)? {
                    WalkedPath::Reached(dir) => (dir, last),
                    WalkedPath::Missing(dir, start) => (dir, located.start + start),
                }
            }
            Err(error) => return Err(located.missing_node_error(error)),
        };
        let dir_stat = host::stat(&dir).map_err(errno_to_store_error)?;
        Ok(HostSlot { located, dir, dir_stat, first_name_start, purpose })
    }

    /// Returns the attributes of what is at a slot; `None` if nothing is there.
    pub(super) fn stat_slot(&self, slot: &HostSlot) -> StoreResult<Option<HostStat>> {
        if !slot.has_parent() {
            return Ok(None);
        }
        match slot.dir.stat_at(slot.name()) {
            Ok(stat) => {
                self.root.check_mount(&stat)?;
                slot.located.check_node(&stat)?;
                Ok(Some(stat))
            }
            Err(Errno::NOENT) if slot.located.node.is_some() => Err(StoreError::NotFound),
            // A second name of one of Stead's own files doesn't exist for a lookup, but its name is taken.
            Err(Errno::NOENT) if slot.purpose == LookupPurpose::Create => {
                match host::stat_at(slot.dir.as_fd(), slot.name()) {
                    Ok(stat) if slot.dir.hides(&stat) => Err(reserved_name_error()),
                    _ => Ok(None),
                }
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(errno_to_store_error(error)),
        }
    }

    /// Returns the attributes of what is at a path, without following a symlink.
    pub(super) fn stat_located(&self, located: &LocatedPath) -> StoreResult<HostStat> {
        let path = located.path();
        let stat = if path.is_empty() {
            host::stat(&located.base).map_err(errno_to_store_error)?
        } else if path.contains(&b'/') {
            match located.base.open(path, OpenMode::Handle) {
                Ok(fd) => {
                    let stat = host::stat(fd).map_err(errno_to_store_error)?;
                    if located.base.hides(&stat) {
                        return Err(StoreError::NotFound);
                    }
                    stat
                }
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    let (dir, name) = self.open_parent(located)?;
                    dir.stat_at(name).map_err(errno_to_store_error)?
                }
                Err(error) => return Err(errno_to_store_error(error)),
            }
        } else {
            located.base.stat_at(path).map_err(errno_to_store_error)?
        };
        self.root.check_mount(&stat)?;
        located.check_node(&stat)?;
        Ok(stat)
    }

    /// Opens the directory at a path.
    pub(super) fn open_directory(&self, located: &LocatedPath) -> StoreResult<Dir> {
        match root::enter(&located.base, located.path(), OpenMode::Directory) {
            // If the node itself is a symlink, the depth in the caller's path is 0.
            Err(StoreError::Link(hit)) if located.node.is_some() => {
                let (dir, name) = self.open_parent(located)?;
                let stat = dir.stat_at(name).map_err(errno_to_store_error)?;
                located.check_node(&stat)?;
                Err(LinkHit::error_at(0, hit.target))
            }
            Err(StoreError::NotADirectory) if located.node.is_some() => {
                self.stat_located(located)?;
                Err(StoreError::NotADirectory)
            }
            Err(error) => Err(error),
            Ok(dir) => {
                if located.node.is_some() {
                    located.check_node(&host::stat(&dir).map_err(errno_to_store_error)?)?;
                }
                Ok(dir)
            }
        }
    }

    /// Opens the regular file at a path for reading. Anything else is refused before it is opened.
    pub(super) fn open_file(&self, located: &LocatedPath) -> StoreResult<(std::fs::File, HostStat)> {
        if located.is_root() {
            return Err(StoreError::IsADirectory);
        }
        let (dir, name) = self.open_parent(located)?;
        open_file_in(&dir, name, located)
    }
}

/// The same in the directory of the path, which is open.
pub(super) fn open_file_in(
    dir: &Dir,
    name: &[u8],
    located: &LocatedPath,
) -> StoreResult<(std::fs::File, HostStat)> {
    let before = dir.stat_at(name).map_err(errno_to_store_error)?;
    located.check_node(&before)?;
    match before.kind {
        NodeKind::File => {}
        NodeKind::Directory => return Err(StoreError::IsADirectory),
        NodeKind::Symlink => return Err(located.symlink_error((dir.as_fd(), name))),
        NodeKind::Special(_) => return Err(StoreError::Special(before.kind)),
    }
    let (file, stat) = open_regular(dir, name, OpenMode::Read)?;
    // Another file may have got the name since the check.
    located.check_node(&stat)?;
    Ok((file, stat))
}

/// Opens a name that was just seen to be a regular file, and checks that it still is one.
pub(super) fn open_regular(
    dir: &Dir,
    name: &[u8],
    open_mode: OpenMode,
) -> StoreResult<(std::fs::File, HostStat)> {
    let fd = dir.open(name, open_mode).map_err(errno_to_store_error)?;
    let stat = host::stat(&fd).map_err(errno_to_store_error)?;
    match stat.kind {
        _ if dir.hides(&stat) => Err(StoreError::NotFound),
        NodeKind::File => Ok((fd.into(), stat)),
        NodeKind::Directory => Err(StoreError::IsADirectory),
        NodeKind::Symlink | NodeKind::Special(_) => Err(StoreError::Special(stat.kind)),
    }
}

/// Whether an entry can have this name.
fn is_valid_name(name: &[u8]) -> bool {
    Name::new(name).is_some()
}
