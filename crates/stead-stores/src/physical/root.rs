//! Directory handles that can't be left, and walking a path from them without ever leaving the root.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_core::store::{LinkHit, NodeKind, StoreError, StoreResult};

use super::confine::PathOpener;
use super::host::{self, Errno, HostResult, HostStat, OpenMode, errno_to_store_error};
use super::mask::{Mask, split};
use super::options::Confinement;
use super::own_files::OwnFiles;

/// How often a path is walked again if it changed meanwhile.
const MAX_TRIES: usize = 64;

/// An open directory. What is opened from it stays below it, and masked entries can't be reached from it.
#[derive(Debug, Clone)]
pub(super) struct Dir {
    fd: Arc<OwnedFd>,
    opener: PathOpener,
    masked: Arc<MaskedEntries>,
}

/// The files and directories that can't be reached, whatever name leads to them.
#[derive(Debug, Default)]
struct MaskedEntries {
    /// Masked directories, by device and inode.
    directories: Vec<(u64, u64)>,
    files: OwnFiles,
    /// Whether a masked entry can also be reached by its name in another case.
    name_case: NameCase,
}

impl Dir {
    /// Opens a directory at a host path, following symlinks. Not confined.
    pub(super) fn open_ambient(path: &Path, confinement: Confinement) -> HostResult<Self> {
        let fd = host::open_ambient(path)?;
        let opener = PathOpener::choose(fd.as_fd(), confinement)?;
        Ok(Dir { fd: Arc::new(fd), opener, masked: Arc::default() })
    }

    /// The same directory, from which these files and directories can't be reached by any name.
    ///
    /// If names ignore case, a masked directory could be entered by another spelling of its name on the way to
    /// something else. Then each name on the way is opened and checked separately.
    fn with_masked(self, masked: MaskedEntries) -> Self {
        let opener = if masked.name_case == NameCase::Insensitive { PathOpener::Walk } else { self.opener };
        Dir { opener, masked: Arc::new(masked), ..self }
    }

    /// Whether the file or directory with these attributes is masked.
    pub(super) fn hides(&self, stat: &HostStat) -> bool {
        let MaskedEntries { directories, files, name_case } = &*self.masked;
        match stat.kind {
            NodeKind::Directory => directories.contains(&(stat.dev, stat.ino)),
            NodeKind::File => (stat.links > 1 || *name_case == NameCase::Insensitive) && files.contains(stat),
            NodeKind::Symlink | NodeKind::Special(_) => false,
        }
    }

    /// Whether the entry with this name is masked.
    pub(super) fn hides_entry(&self, name: &[u8]) -> bool {
        host::stat_at(self.as_fd(), name).is_ok_and(|stat| self.hides(&stat))
    }

    /// Whether one of Stead's own files has a second name, which may be anywhere.
    pub(super) fn may_contain_hard_links(&self) -> bool {
        self.masked.files.have_hard_links()
    }

    pub(super) fn stat_at(&self, name: &[u8]) -> HostResult<HostStat> {
        let stat = host::stat_at(self.as_fd(), name)?;
        if self.hides(&stat) { Err(Errno::NOENT) } else { Ok(stat) }
    }

    pub(super) fn open(&self, path: &[u8], open_mode: OpenMode) -> HostResult<OwnedFd> {
        self.opener.open(self.as_fd(), path, open_mode, &|stat| self.hides(stat))
    }

    /// Like [`Dir::open`], for a directory.
    pub(super) fn enter(&self, path: &[u8], open_mode: OpenMode) -> HostResult<Dir> {
        Ok(self.with_fd(self.open(path, open_mode)?))
    }

    /// A directory below this one, from a handle that is already open.
    pub(super) fn with_fd(&self, fd: OwnedFd) -> Dir {
        Dir { fd: Arc::new(fd), opener: self.opener, masked: self.masked.clone() }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The host directory that a Store is rooted at.
#[derive(Debug, Clone)]
pub(super) struct Root {
    pub(super) dir: Dir,
    pub(super) stat: HostStat,
}

impl Root {
    pub(super) fn open(path: &Path, confinement: Confinement) -> StoreResult<Self> {
        let dir = Dir::open_ambient(path, confinement).map_err(errno_to_store_error)?;
        let stat = host::stat(&dir).map_err(errno_to_store_error)?;
        Ok(Root { dir, stat })
    }

    /// Masks entries by device and inode as well: those in `mask`, and the files in `own_files` (host paths of files or
    /// directories), so that no other name below the root leads to them.
    pub(super) fn with_masked(self, mask: &Mask, own_files: Vec<PathBuf>) -> Self {
        let mut masked = MaskedEntries { files: OwnFiles::new(own_files), ..MaskedEntries::default() };
        for path in mask.paths() {
            let (parent, name) = split(path);
            let Ok(dir) = self.dir.enter(parent, OpenMode::Traverse) else { continue };
            let Ok(stat) = dir.stat_at(name) else { continue };
            let other_case = name.iter().map(|byte| byte ^ if byte.is_ascii_alphabetic() { 0x20 } else { 0 });
            let other_case: Vec<u8> = other_case.collect();
            if other_case != name && dir.stat_at(&other_case).is_ok_and(|other| other.ino == stat.ino) {
                masked.name_case = NameCase::Insensitive;
            }
            if stat.is_dir() {
                masked.directories.push((stat.dev, stat.ino));
            }
        }
        Root { dir: self.dir.with_masked(masked), ..self }
    }

    /// Fails unless the node is on this Store's mount.
    pub(super) fn check_mount(&self, stat: &HostStat) -> StoreResult<()> {
        if stat.mount == self.stat.mount { Ok(()) } else { Err(errno_to_store_error(Errno::XDEV)) }
    }
}

/// Whether names in a directory are the same if they differ only in case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum NameCase {
    #[default]
    Sensitive,
    Insensitive,
}

/// Where a walk along a path ended.
pub(super) enum WalkedPath {
    /// At the end of the path, a directory.
    Reached(Dir),
    /// At the last directory that exists, with the offset in the path at which the first missing name begins.
    Missing(Dir, usize),
}

/// Opens the directory at `path` below `base`. A symlink on the way is [`StoreError::Link`], with its depth counted
/// from `base`.
pub(super) fn enter(base: &Dir, path: &[u8], open_mode: OpenMode) -> StoreResult<Dir> {
    if path.is_empty() && open_mode == OpenMode::Traverse {
        return Ok(base.clone());
    }
    match base.enter(path, open_mode) {
        Ok(dir) => Ok(dir),
        // A directory that can't be listed can still be entered.
        Err(Errno::ACCESS) if open_mode == OpenMode::Directory => enter(base, path, OpenMode::Traverse),
        Err(Errno::LOOP | Errno::NOTDIR) => match follow(base, path, open_mode)? {
            WalkedPath::Reached(dir) => Ok(dir),
            WalkedPath::Missing(..) => Err(StoreError::NotFound),
        },
        Err(error) => Err(errno_to_store_error(error)),
    }
}

/// Walks to the directory at `path` name by name, to find out what is in the way.
pub(super) fn follow(base: &Dir, path: &[u8], open_mode: OpenMode) -> StoreResult<WalkedPath> {
    for _ in 0..MAX_TRIES {
        if let Some(walked) = follow_once(base, path, open_mode)? {
            return Ok(walked);
        }
    }
    Err(errno_to_store_error(Errno::LOOP))
}

/// Walks once. `None` if a name changed between the check and the opening.
fn follow_once(base: &Dir, path: &[u8], open_mode: OpenMode) -> StoreResult<Option<WalkedPath>> {
    let mut current = base.clone();
    let mut start = 0;
    for (index, name) in path.split(|&byte| byte == b'/').enumerate() {
        if name.is_empty() {
            break;
        }
        match current.stat_at(name) {
            Err(Errno::NOENT) => {
                let dir =
                    if open_mode == OpenMode::Traverse { current } else { enter(&current, b"", open_mode)? };
                return Ok(Some(WalkedPath::Missing(dir, start)));
            }
            Err(error) => return Err(errno_to_store_error(error)),
            Ok(stat) => match stat.kind {
                NodeKind::Directory => {}
                NodeKind::Symlink => match host::read_link(current.as_fd(), name) {
                    Ok(target) => return Err(LinkHit::error_at(index + 1, target)),
                    Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
                    Err(error) => return Err(errno_to_store_error(error)),
                },
                NodeKind::File | NodeKind::Special(_) => return Err(StoreError::NotADirectory),
            },
        }
        match current.enter(name, OpenMode::Traverse) {
            Ok(dir) => current = dir,
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(errno_to_store_error(error)),
        }
        start += name.len() + 1;
    }
    Ok(Some(WalkedPath::Reached(if open_mode == OpenMode::Traverse {
        current
    } else {
        enter(&current, b"", open_mode)?
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_directory_is_not_entered_under_another_name() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("other")).unwrap();
        std::fs::write(temp.path().join("other/file"), "").unwrap();
        let dir = Dir::open_ambient(temp.path(), Confinement::Automatic).unwrap();
        let stat = dir.stat_at(b"other").unwrap();
        // As on a file system where `other` is one of several names of the masked directory.
        let masked = MaskedEntries {
            directories: vec![(stat.dev, stat.ino)],
            name_case: NameCase::Insensitive,
            ..MaskedEntries::default()
        };
        let dir = dir.with_masked(masked);
        assert_eq!(dir.stat_at(b"other"), Err(Errno::NOENT));
        for path in [&b"other"[..], b"other/file"] {
            assert_eq!(dir.open(path, OpenMode::Handle).map(drop), Err(Errno::NOENT));
        }
        assert!(matches!(enter(&dir, b"other", OpenMode::Directory), Err(StoreError::NotFound)));
    }
}
