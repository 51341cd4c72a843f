//! Where a Workspace's files are. Used only to check whether they lie inside those of another Workspace.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stead_core::VfsPath;
use stead_core::name::unescape_octal;

use super::{FilesPer, StoreConfig, WorkspaceConfig};

/// Where a Workspace's files are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum WorkspaceLocation {
    /// A host directory.
    Host(HostDirectory),
    /// A path in the namespace of a database.
    Virtual(Vec<String>, VfsPath),
    /// A path in a Memory Store of this name.
    Memory(String, VfsPath),
}

/// A host directory, identified in ways that symlinks and bind mounts can't hide.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HostDirectory {
    /// Its path without symlinks.
    path: PathBuf,
    /// The existing directories on its path, from itself up: device, inode, and the path from there to it.
    ancestors: Vec<(u64, u64, PathBuf)>,
    /// Its file system's device and its path in that file system, which is the same for every bind mount of it.
    in_file_system: Option<(String, PathBuf)>,
}

/// A name of a location. A location lies inside another one only if one of its
/// [`WorkspaceLocation::keys_of_containing`] is one of the other's [`WorkspaceLocation::keys`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum LocationKey {
    Virtual(Vec<String>, VfsPath),
    Memory(String, VfsPath),
    InFileSystem(String, PathBuf),
    Inode(u64, u64),
    Path(PathBuf),
}

impl WorkspaceLocation {
    /// The location of each Workspace whose Store is known. Where a Workspace's files are a thread's own, that is the
    /// directory with those of all threads.
    pub(super) fn of_each<'c>(
        workspaces: &'c [WorkspaceConfig],
        stores: &BTreeMap<String, StoreConfig>,
    ) -> Vec<(&'c WorkspaceConfig, WorkspaceLocation)> {
        let mut mounts = None;
        let mut location = |workspace: &WorkspaceConfig| {
            let mut path = workspace.path.clone();
            if let (FilesPer::Thread, Some(StoreConfig::Physical { .. })) =
                (workspace.per, stores.get(&workspace.store))
            {
                path = threads_directory(&path)?;
            }
            Some(match stores.get(&workspace.store)? {
                StoreConfig::Physical { path: root, .. } => {
                    let mounts = mounts.get_or_insert_with(read_mounts);
                    WorkspaceLocation::Host(HostDirectory::at(&root.join(&path.as_str()[1..]), mounts))
                }
                StoreConfig::Virtual { namespace } => WorkspaceLocation::Virtual(namespace.clone(), path),
                StoreConfig::Memory => WorkspaceLocation::Memory(workspace.store.clone(), path),
            })
        };
        workspaces.iter().filter_map(|workspace| Some((workspace, location(workspace)?))).collect()
    }

    /// The keys that this location is found by.
    pub(super) fn keys(&self) -> Vec<LocationKey> {
        match self {
            WorkspaceLocation::Virtual(namespace, path) => {
                vec![LocationKey::Virtual(namespace.clone(), path.clone())]
            }
            WorkspaceLocation::Memory(name, path) => vec![LocationKey::Memory(name.clone(), path.clone())],
            WorkspaceLocation::Host(directory) => directory.keys(),
        }
    }

    /// The keys of every location that may contain this one, its own among them.
    pub(super) fn keys_of_containing(&self) -> Vec<LocationKey> {
        match self {
            WorkspaceLocation::Virtual(namespace, path) => {
                path.ancestors().map(|path| LocationKey::Virtual(namespace.clone(), path)).collect()
            }
            WorkspaceLocation::Memory(name, path) => {
                path.ancestors().map(|path| LocationKey::Memory(name.clone(), path)).collect()
            }
            WorkspaceLocation::Host(directory) => directory.keys_of_containing(),
        }
    }

    /// The path of this location below `outer`: `Some(Some(""))` if they are the same, `Some(None)` if it lies inside at a
    /// path that isn't UTF-8, and `None` if it doesn't lie inside.
    pub(super) fn below(&self, outer: &WorkspaceLocation) -> Option<Option<String>> {
        let strip =
            |path: &VfsPath, outer: &VfsPath| path.strip_prefix(outer).map(|rest| Some(rest.to_owned()));
        match (self, outer) {
            (WorkspaceLocation::Host(inner), WorkspaceLocation::Host(outer)) => {
                inner.below(outer).map(|rest| rest.to_str().map(str::to_owned))
            }
            (WorkspaceLocation::Virtual(a, inner), WorkspaceLocation::Virtual(b, outer)) if a == b => {
                strip(inner, outer)
            }
            (WorkspaceLocation::Memory(a, inner), WorkspaceLocation::Memory(b, outer)) if a == b => {
                strip(inner, outer)
            }
            _ => None,
        }
    }
}

/// The directory of a Physical Store that has the files of all threads, for a Workspace with this `path`. It is
/// `None` if the path would be too long.
pub(crate) fn threads_directory(path: &VfsPath) -> Option<VfsPath> {
    path.join("threads").ok()
}

impl HostDirectory {
    fn at(path: &Path, mounts: &[MountEntry]) -> Self {
        let path = stead_stores::resolve_existing_prefix(path);
        let identity = |ancestor: &Path| {
            let metadata = fs::metadata(ancestor).ok()?;
            Some((metadata.dev(), metadata.ino(), path.strip_prefix(ancestor).ok()?.to_owned()))
        };
        let ancestors = path.ancestors().filter_map(identity).collect();
        let mount = mounts.iter().filter(|entry| path.starts_with(&entry.mount_point));
        // The deepest mount point counts. Of several mounts at one point the last one is on top, and `max_by_key`
        // returns it.
        let mount = mount.max_by_key(|entry| entry.mount_point.components().count());
        let in_file_system = mount.and_then(|entry| {
            Some((entry.device.clone(), entry.root.join(path.strip_prefix(&entry.mount_point).ok()?)))
        });
        HostDirectory { path, ancestors, in_file_system }
    }

    /// The device and inode of this directory, if it exists.
    fn inode(&self) -> Option<(u64, u64)> {
        let (device, inode, rest) = self.ancestors.first()?;
        rest.as_os_str().is_empty().then_some((*device, *inode))
    }

    fn keys(&self) -> Vec<LocationKey> {
        let in_file_system = self.in_file_system.clone();
        let mut keys: Vec<_> = in_file_system
            .map(|(device, path)| LocationKey::InFileSystem(device, path))
            .into_iter()
            .collect();
        keys.push(match self.inode() {
            Some((device, inode)) => LocationKey::Inode(device, inode),
            None => LocationKey::Path(self.path.clone()),
        });
        keys
    }

    fn keys_of_containing(&self) -> Vec<LocationKey> {
        let in_file_system = self.in_file_system.iter().flat_map(|(device, path)| {
            path.ancestors().map(|path| LocationKey::InFileSystem(device.clone(), path.to_owned()))
        });
        let inodes = self.ancestors.iter().map(|(device, inode, _)| LocationKey::Inode(*device, *inode));
        let paths = self.path.ancestors().map(|path| LocationKey::Path(path.to_owned()));
        in_file_system.chain(inodes).chain(paths).collect()
    }

    /// The path from `outer` to this directory, if a Physical Store on `outer` shows it. Such a Store doesn't cross
    /// mount points, so it doesn't show directories of another file system.
    fn below(&self, outer: &HostDirectory) -> Option<PathBuf> {
        if let (Some((device, path)), Some((outer_device, outer_path))) =
            (&self.in_file_system, &outer.in_file_system)
            && device == outer_device
            && let Ok(rest) = path.strip_prefix(outer_path)
        {
            return Some(rest.to_owned());
        }
        let Some((device, inode)) = outer.inode() else {
            // `outer` doesn't exist yet, so only its path can be compared.
            return self.path.strip_prefix(&outer.path).ok().map(Path::to_owned);
        };
        if self.ancestors.first().is_some_and(|(own_device, ..)| *own_device != device) {
            return None;
        }
        let is_outer = |ancestor: &&(u64, u64, PathBuf)| (ancestor.0, ancestor.1) == (device, inode);
        self.ancestors.iter().find(is_outer).map(|(.., rest)| rest.clone())
    }
}

/// The keys of each of these host directories. Two that have a key in common are the same directory.
pub(super) fn keys_of_directories<'p>(directories: impl Iterator<Item = &'p Path>) -> Vec<Vec<LocationKey>> {
    let mounts = read_mounts();
    directories.map(|directory| HostDirectory::at(directory, &mounts).keys()).collect()
}

/// One line of the kernel's mount table.
#[derive(Debug)]
struct MountEntry {
    /// The device, `major:minor`.
    device: String,
    /// The directory inside the file system that is mounted.
    root: PathBuf,
    mount_point: PathBuf,
    /// Whether this is a stead that `stead mount` has mounted.
    is_stead: bool,
}

/// Whether a path without symlinks lies inside a stead that `stead mount` has mounted.
pub(super) fn is_in_mounted_stead(path: &Path) -> bool {
    let containing = read_mounts().into_iter().filter(|mount| path.starts_with(&mount.mount_point));
    // Of several mounts at one point, the last one is on top.
    containing.max_by_key(|mount| mount.mount_point.components().count()).is_some_and(|mount| mount.is_stead)
}

fn read_mounts() -> Vec<MountEntry> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape_octal(field)));
    let parse_line = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let device = String::from_utf8_lossy(fields.next()?).into_owned();
        let (root, mount_point) = (path(fields.next()?), path(fields.next()?));
        // After a varying number of options, a hyphen, the type of the file system and its source.
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let (fs_type, source) = (fields.next()?, fields.next()?);
        let is_stead = fs_type.starts_with(b"fuse") && source.starts_with(b"stead:");
        Some(MountEntry { device, root, mount_point, is_stead })
    };
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}
