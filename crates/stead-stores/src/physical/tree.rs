//! Lists, removes, inspects and copies whole trees, with few file descriptors however deep they are.

use std::fs::File;
use std::os::fd::AsFd;

use stead_core::store::{NodeKind, ProtectedNames, StoreError, StoreResult};

use super::host::{
    self, Errno, GRANTABLE_MODE_BITS, HostResult, HostStat, OpenMode, errno_to_store_error, io_to_store_error,
};
use super::mask::{Mask, hidden_path_error, join};
use super::owner_access;
use super::root::Dir;

/// Returns the names in a directory with their kinds, in no particular order.
pub(super) fn names(dir: &Dir) -> HostResult<Vec<(Box<[u8]>, NodeKind)>> {
    names_where(dir, |_| true)
}

/// Like [`names`], without the files whose names aren't wanted.
pub(super) fn names_where(
    dir: &Dir,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> HostResult<Vec<(Box<[u8]>, NodeKind)>> {
    let mut names = Vec::new();
    host::entries(dir, |name, kind| {
        if kind != Some(NodeKind::File) || is_wanted(name) {
            names.push((name.into(), kind));
        }
    })?;
    let with_kind = |(name, kind): (Box<[u8]>, Option<NodeKind>)| {
        let kind = kind.or_else(|| dir.stat_at(&name).ok().map(|stat| stat.kind))?;
        Some((name, kind))
    };
    Ok(names.into_iter().filter_map(with_kind).collect())
}

/// Removes a name in one of Stead's own directories and, if it is a directory, everything below it. A missing name is
/// no error.
pub(super) fn remove(dir: &Dir, name: &[u8]) -> HostResult<()> {
    match host::unlink(dir.as_fd(), name) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    // Files are removed from the top down, then the directories from the bottom up. Each directory is open only while
    // its entries are removed.
    let top = dir.enter(name, OpenMode::Traverse)?;
    let mut found: Vec<Vec<u8>> = vec![Vec::new()];
    let mut next = 0;
    while next < found.len() {
        let path = found[next].clone();
        next += 1;
        let current = owner_access::enter(&top, &path)?;
        for (name, kind) in names(&current)? {
            if kind == NodeKind::Directory {
                found.push(join(&path, &name));
            } else {
                host::unlink(current.as_fd(), &name)?;
            }
        }
        current.keep_lifted();
    }
    for path in found.iter().skip(1).rev() {
        let (parent, name) = super::mask::split(path);
        host::remove_dir(top.open(parent, OpenMode::Traverse)?.as_fd(), name)?;
    }
    host::remove_dir(dir.as_fd(), name)
}

/// The size in bytes of everything in and below one of Stead's own directories, without what can't be read.
pub(super) fn size(dir: &Dir) -> u64 {
    let (mut size, mut pending) = (0_u64, vec![Vec::new()]);
    while let Some(path) = pending.pop() {
        let Ok(current) = owner_access::enter(dir, &path) else { continue };
        for (name, _) in names(&current).unwrap_or_default() {
            let Ok(stat) = current.stat_at(&name) else { continue };
            size = size.saturating_add(stat.size);
            if stat.is_dir() {
                pending.push(join(&path, &name));
            }
        }
    }
    size
}

/// What a directory and everything below it is checked for before a step moves, removes or copies it.
pub(super) struct SubtreeCheck<'a> {
    /// What belongs to Stead itself.
    pub(super) mask: &'a Mask,
    /// The directory's path below the root.
    pub(super) at: &'a [u8],
    /// The names that must not be touched: at the source and, for a rename or copy, at the destination.
    pub(super) protected: [Option<&'a ProtectedNames>; 2],
    pub(super) purpose: SubtreeUse,
}

/// What the step does with the directory, which decides what it may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubtreeUse {
    /// The directory is removed or renamed, so it may contain nothing that is masked: the stead whose state that is
    /// would not find it any more.
    MoveOrRemove,
    /// The directory is copied. This stead's own files are left out; another stead's state and special files can't be
    /// copied, so they are refused.
    Copy,
}

/// Refuses a directory that contains something which the step must not touch.
pub(super) fn check_subtree(top: &Dir, check: &SubtreeCheck<'_>) -> StoreResult<()> {
    if check.purpose != SubtreeUse::Copy {
        check.mask.check_nothing_below(check.at)?;
    }
    // If no file of Stead's own has a second name, the files need no check by inode.
    let may_have_hard_links = top.may_contain_hard_links();
    let mut pending = vec![Vec::new()];
    while let Some(path) = pending.pop() {
        // A directory that is moved as a whole need not be readable; one that is copied has to be.
        let current = match check.purpose {
            SubtreeUse::MoveOrRemove => owner_access::enter(top, &path),
            SubtreeUse::Copy => owner_access::enter_as_allowed(top, &path),
        };
        let current = match current {
            Ok(current) => current,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(errno_to_store_error(error)),
        };
        for (name, kind) in names(&current).map_err(errno_to_store_error)? {
            let directory = join(check.at, &path);
            let path = join(&path, &name);
            let is_hard_link = may_have_hard_links && kind == NodeKind::File && current.hides_entry(&name);
            if is_hard_link || check.mask.hides_entry(&directory, &name) {
                if check.purpose == SubtreeUse::MoveOrRemove
                    || check.mask.is_other_steads_state(&directory, &name)
                {
                    return Err(hidden_path_error(&path));
                }
                continue;
            }
            check.protected.iter().flatten().try_for_each(|protected| protected.check(&path, kind))?;
            match kind {
                NodeKind::Directory => pending.push(path),
                NodeKind::Special(_) if check.purpose == SubtreeUse::Copy => {
                    return Err(StoreError::Special(kind));
                }
                NodeKind::File | NodeKind::Symlink | NodeKind::Special(_) => {}
            }
        }
    }
    Ok(())
}

/// Copies what a directory contains into an empty directory in the staging area. Masked entries are left out. Nothing
/// is synced. `check` is called before each entry; its error stops the copy.
pub(super) fn copy(
    from: &Dir,
    at: &[u8],
    mask: &Mask,
    to: &Dir,
    check: impl Fn() -> StoreResult<()>,
) -> StoreResult<()> {
    let mut pending = vec![Vec::new()];
    // Times are set from the bottom up at the end, because adding an entry changes a directory's time.
    let mut directories = Vec::new();
    while let Some(path) = pending.pop() {
        let source = from.enter(&path, OpenMode::Directory).map_err(errno_to_store_error)?;
        let destination = to.enter(&path, OpenMode::Directory).map_err(errno_to_store_error)?;
        directories.push((path.clone(), host::stat(&source).map_err(errno_to_store_error)?));
        for (name, kind) in names(&source).map_err(errno_to_store_error)? {
            check()?;
            if mask.hides_entry(&join(at, &path), &name) {
                continue;
            }
            match kind {
                NodeKind::Directory => {
                    host::make_dir(destination.as_fd(), &name).map_err(errno_to_store_error)?;
                    pending.push(join(&path, &name));
                }
                NodeKind::Symlink => {
                    let stat = source.stat_at(&name).map_err(errno_to_store_error)?;
                    let target = host::read_link(source.as_fd(), &name).map_err(errno_to_store_error)?;
                    host::make_symlink(destination.as_fd(), &name, &target).map_err(errno_to_store_error)?;
                    host::set_modified_at(destination.as_fd(), &name, stat.modified)
                        .map_err(errno_to_store_error)?;
                    host::set_link_owner(destination.as_fd(), &name, stat.uid, stat.gid)
                        .map_err(errno_to_store_error)?;
                }
                NodeKind::File => {
                    let from = match source.open(&name, OpenMode::Read) {
                        Ok(fd) => File::from(fd),
                        // The file vanished meanwhile, or is masked.
                        Err(Errno::NOENT) => continue,
                        Err(error) => return Err(errno_to_store_error(error)),
                    };
                    if source.hides(&host::stat(&from).map_err(errno_to_store_error)?) {
                        continue;
                    }
                    let destination =
                        host::create(destination.as_fd(), &name).map_err(errno_to_store_error)?;
                    copy_file(&from, &destination)?;
                }
                NodeKind::Special(_) => return Err(StoreError::Special(kind)),
            }
        }
    }
    for (path, stat) in directories.iter().rev() {
        let dir = to.open(path, OpenMode::Directory).map_err(errno_to_store_error)?;
        copy_attributes(&dir, stat)?;
    }
    Ok(())
}

/// Copies a file's content, owner, mode and modification time, and returns the attributes of the source.
pub(super) fn copy_file(from: &File, to: &File) -> StoreResult<HostStat> {
    let stat = host::stat(from).map_err(errno_to_store_error)?;
    if stat.kind != NodeKind::File {
        return Err(StoreError::Special(stat.kind));
    }
    // Only as many bytes as the file had at the start: copying a file that keeps growing would never end.
    host::copy_range(from, 0, to, 0, stat.size).map_err(io_to_store_error)?;
    copy_attributes(to, &stat)?;
    Ok(stat)
}

/// Sets owner, mode and modification time of a copy to those of the original.
fn copy_attributes(fd: impl AsFd, stat: &HostStat) -> StoreResult<()> {
    // As far as the host allows it.
    host::set_owner(fd.as_fd(), Some(stat.uid), Some(stat.gid)).map_err(errno_to_store_error)?;
    host::set_mode(fd.as_fd(), stat.mode & GRANTABLE_MODE_BITS).map_err(errno_to_store_error)?;
    host::set_modified(fd, stat.modified).map_err(errno_to_store_error)
}
