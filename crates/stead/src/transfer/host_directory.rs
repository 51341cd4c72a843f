//! Open host directories: every access is relative to an open handle, one component at a time, and follows no symlink.
//!
//! So a tree that another process changes at the same time can't lead an import or export elsewhere.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use stead_core::Timestamp;

/// The permission bits that are transferred. Setuid, setgid and sticky bits are not.
pub(super) const MODE_BITS: u32 = 0o777;

/// The kind of a host file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostKind {
    File,
    Directory,
    Symlink,
    Special,
}

/// The attributes of a host file.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostAttr {
    pub(super) kind: HostKind,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: Timestamp,
}

/// An open directory.
#[derive(Debug)]
pub(super) struct HostDir(OwnedFd);

impl HostDir {
    /// Opens a directory by a user's path; symlinks in that path are followed.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let fd = fs::openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(HostDir(fd))
    }

    /// Opens a directory in this one.
    pub(super) fn enter(&self, name: &CStr) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(HostDir(fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// The names in the directory, sorted by their bytes.
    pub(super) fn names(&self) -> io::Result<Vec<Box<CStr>>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                names.push(name.into());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether the directory is empty.
    pub(super) fn is_empty(&self) -> io::Result<bool> {
        Ok(self.names()?.is_empty())
    }

    /// The directory's own attributes.
    pub(super) fn attr(&self) -> io::Result<HostAttr> {
        Ok(attr_of(&fs::fstat(&self.0)?))
    }

    /// The attributes of the entry of this name; `None` if there is none. Doesn't follow a symlink.
    pub(super) fn stat(&self, name: &CStr) -> io::Result<Option<HostAttr>> {
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(attr_of(&stat))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file for reading. Fails if the entry isn't a regular file, without blocking (as opening a named pipe
    /// would).
    pub(super) fn open_file(&self, name: &CStr) -> io::Result<(File, HostAttr)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(fs::openat(&self.0, name, flags, Mode::empty())?);
        let attr = attr_of(&fs::fstat(&file)?);
        if attr.kind != HostKind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it isn't a regular file any more"));
        }
        Ok((file, attr))
    }

    /// The target of a symlink.
    pub(super) fn read_link(&self, name: &CStr) -> io::Result<Vec<u8>> {
        Ok(fs::readlinkat(&self.0, name, Vec::new())?.into_bytes())
    }

    /// Opens a directory, and creates it if there is no entry of this name.
    pub(super) fn open_or_create(&self, name: &CStr) -> io::Result<Self> {
        match fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => self.enter(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file. Fails if there is an entry of this name.
    pub(super) fn create(&self, name: &CStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?.into())
    }

    /// Creates a symlink. Fails if there is an entry of this name.
    pub(super) fn symlink(&self, name: &CStr, target: &[u8]) -> io::Result<()> {
        Ok(fs::symlinkat(OsStr::from_bytes(target), &self.0, name)?)
    }

    /// Renames an entry, replacing one of the new name.
    pub(super) fn rename(&self, from: &CStr, to: &CStr) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file or a symlink.
    pub(super) fn remove(&self, name: &CStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Sets the directory's own attributes.
    pub(super) fn set_attr(&self, mode: u32, modified: Option<Timestamp>) -> io::Result<()> {
        fs::fchmod(&self.0, Mode::from_raw_mode(mode & MODE_BITS))?;
        modified.map_or(Ok(()), |modified| Ok(fs::futimens(&self.0, &times(modified))?))
    }

    /// Sets a symlink's own time.
    pub(super) fn set_link_time(&self, name: &CStr, modified: Timestamp) -> io::Result<()> {
        Ok(fs::utimensat(&self.0, name, &times(modified), AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Sets a file's attributes.
pub(super) fn set_file_attr(file: &File, mode: u32, modified: Option<Timestamp>) -> io::Result<()> {
    fs::fchmod(file, Mode::from_raw_mode(mode & MODE_BITS))?;
    modified.map_or(Ok(()), |modified| Ok(fs::futimens(file, &times(modified))?))
}

fn attr_of(stat: &fs::Stat) -> HostAttr {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => HostKind::File,
        FileType::Directory => HostKind::Directory,
        FileType::Symlink => HostKind::Symlink,
        _ => HostKind::Special,
    };
    let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let modified = Timestamp(Timestamp::from_secs(stat.st_mtime).0.saturating_add(nanos));
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    HostAttr { kind, size, mode: stat.st_mode & MODE_BITS, modified }
}

fn times(modified: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.as_secs(), tv_nsec: modified.subsec_nanos().into() },
    }
}
