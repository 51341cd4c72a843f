//! The host's file system calls. Each is relative to a directory handle, and none follows a symlink, except the few
//! whose name says `ambient` and those that go through `/proc/self/fd`.
//!
//! This file and `confine` are the only ones that know Linux. `confine` opens paths of more than one component; the
//! calls here take one name and act on the name itself.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, RawDir, RenameFlags, StatxFlags, Timespec,
    Timestamps, Uid,
};
pub(super) use rustix::io::Errno;
use stead_core::Timestamp;
use stead_core::store::{Attr, NodeId, NodeKind, SpecialKind, StoreError, VersionTag};

/// The result of a host call.
pub(super) type HostResult<T> = Result<T, Errno>;

const NO_FOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);
/// How often a call is repeated that lost a race inside the kernel (`EAGAIN`).
const MAX_RACE_RETRIES: usize = 128;
/// How often, and how long each time, a call waits for a free file descriptor.
const DESCRIPTOR_WAIT: (usize, Duration) = (400, Duration::from_millis(5));

/// The permission bits that agents can set: all but set-user-id and set-group-id.
pub(super) const GRANTABLE_MODE_BITS: u32 = 0o1777;
/// The set-group-id bit: new entries of such a directory inherit its group.
pub(super) const SETGID: u32 = 0o2000;

/// How a file is opened. Descriptors are closed at the end of a call, except where a caller holds content open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenMode {
    /// Any kind of node, also a symlink itself, for its attributes (`O_PATH`).
    Handle,
    /// A directory, to reach its entries (`O_PATH`).
    Traverse,
    /// A directory, to list it, change its entries and sync it.
    Directory,
    /// A file, to read its content.
    Read,
    /// A file, to write to it without reading.
    Write,
    /// A file, to read and change its content.
    ReadWrite,
}

impl OpenMode {
    pub(super) fn flags(self) -> OFlags {
        // Non-blocking: if a named pipe has taken the file's name meanwhile, opening it returns at once.
        let file = OFlags::NONBLOCK | OFlags::NOCTTY;
        OFlags::CLOEXEC
            | OFlags::NOFOLLOW
            | match self {
                OpenMode::Handle => OFlags::PATH,
                OpenMode::Traverse => OFlags::PATH | OFlags::DIRECTORY,
                OpenMode::Directory => OFlags::RDONLY | OFlags::DIRECTORY,
                OpenMode::Read => OFlags::RDONLY | file,
                OpenMode::Write => OFlags::WRONLY | file,
                OpenMode::ReadWrite => OFlags::RDWR | file,
            }
    }
}

/// Opens the host directory at a path, following symlinks. Not confined: only for the root and for the state directory.
pub(super) fn open_ambient(path: &std::path::Path) -> HostResult<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Opens a name in a directory, without following a symlink.
pub(super) fn open_name(dir: BorrowedFd<'_>, name: &[u8], open_mode: OpenMode) -> HostResult<OwnedFd> {
    retry_transient(|| rustix::fs::openat(dir, name, open_mode.flags(), Mode::empty()))
}

/// Creates a file for reading and writing; `EXIST` if the name is taken. Only for Stead's own directories, which no
/// other user can enter: so the file may have the mode 0644 from the start, which most files end up with.
pub(super) fn create(dir: BorrowedFd<'_>, name: &[u8]) -> HostResult<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    retry_transient(|| rustix::fs::openat(dir, name, flags, mode)).map(File::from)
}

/// Opens one of Stead's own files for reading and writing, and creates it if it is missing.
pub(super) fn open_or_create(dir: BorrowedFd<'_>, name: &str) -> HostResult<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    retry_transient(|| rustix::fs::openat(dir, name, flags, mode)).map(File::from)
}

/// Sets `O_APPEND`: from now on every write to this handle goes to the end of the file.
pub(super) fn set_appending(file: &File) -> HostResult<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::APPEND)
}

/// Repeats a call that lost a race or was interrupted, and waits if the process has no free descriptor: other calls
/// hold theirs only briefly.
pub(super) fn retry_transient<T>(mut call: impl FnMut() -> HostResult<T>) -> HostResult<T> {
    let (mut races, mut waits) = (0, 0);
    loop {
        match call() {
            Err(Errno::AGAIN) if races < MAX_RACE_RETRIES => races += 1,
            Err(Errno::INTR) => {}
            Err(Errno::MFILE | Errno::NFILE) if waits < DESCRIPTOR_WAIT.0 => {
                waits += 1;
                std::thread::sleep(DESCRIPTOR_WAIT.1);
            }
            result => return result,
        }
    }
}

/// The attributes of a file, as `statx` reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostStat {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) mount: u64,
    pub(super) kind: NodeKind,
    /// The number of hard links.
    pub(super) links: u32,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
    pub(super) created: Option<Timestamp>,
}

impl HostStat {
    /// The version tag: a hash of identity, size and times, so it changes with every write.
    pub(super) fn tag(&self) -> VersionTag {
        let mut fields = [0; 40];
        let values = [self.dev, self.ino, self.size, self.modified.0 as u64, self.changed.0 as u64];
        for (field, value) in fields.chunks_exact_mut(8).zip(values) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        let hash = blake3::hash(&fields);
        VersionTag(u128::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes")))
    }

    /// The attributes as the Store port shows them.
    pub(super) fn attr(&self) -> Attr {
        Attr {
            node: NodeId(self.ino),
            kind: self.kind,
            size: match self.kind {
                NodeKind::File | NodeKind::Symlink => self.size,
                NodeKind::Directory | NodeKind::Special(_) => 0,
            },
            mode: self.mode & 0o7777,
            created: self.created,
            modified: self.modified,
            changed: self.changed,
            tag: self.tag(),
        }
    }

    /// Whether both are the same file with, as far as the attributes tell, the same content. The change time (ctime)
    /// isn't compared, because the rename that displaces a file sets it.
    pub(super) fn has_same_content(&self, other: &HostStat) -> bool {
        let content_key = |stat: &HostStat| (stat.dev, stat.ino, stat.kind, stat.size, stat.modified);
        content_key(self) == content_key(other)
    }

    pub(super) fn is_dir(&self) -> bool {
        self.kind == NodeKind::Directory
    }
}

/// Returns the attributes of what a host path leads to, following symlinks.
pub(super) fn stat_ambient(path: &std::path::Path) -> HostResult<HostStat> {
    use std::os::unix::ffi::OsStrExt;
    statx(CWD, path.as_os_str().as_bytes(), AtFlags::NO_AUTOMOUNT)
}

/// Returns the attributes of a name in a directory, without following a symlink.
pub(super) fn stat_at(dir: BorrowedFd<'_>, name: &[u8]) -> HostResult<HostStat> {
    statx(dir, name, NO_FOLLOW)
}

/// Returns the attributes of an open file or directory.
pub(super) fn stat(fd: impl AsFd) -> HostResult<HostStat> {
    statx(fd.as_fd(), b"", AtFlags::EMPTY_PATH)
}

fn statx(dir: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> HostResult<HostStat> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    let stat = rustix::fs::statx(dir, name, flags, mask)?;
    let time = |time: rustix::fs::StatxTimestamp| {
        Timestamp(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.tv_nsec)))
    };
    let dev = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
    Ok(HostStat {
        dev,
        ino: stat.stx_ino,
        // Before Linux 5.8 `statx` reports no mount id. Then the device stands in, and two mounts of one file system
        // look the same.
        mount: if stat.stx_mask & StatxFlags::MNT_ID.bits() != 0 { stat.stx_mnt_id } else { dev },
        kind: kind_of(FileType::from_raw_mode(stat.stx_mode.into()))
            .unwrap_or(NodeKind::Special(SpecialKind::Device)),
        links: stat.stx_nlink,
        mode: u32::from(stat.stx_mode) & 0o7777,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
        modified: time(stat.stx_mtime),
        changed: time(stat.stx_ctime),
        created: (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| time(stat.stx_btime)),
    })
}

/// Converts the host's file type; `None` if the host doesn't know it.
fn kind_of(file_type: FileType) -> Option<NodeKind> {
    Some(match file_type {
        FileType::RegularFile => NodeKind::File,
        FileType::Directory => NodeKind::Directory,
        FileType::Symlink => NodeKind::Symlink,
        FileType::Fifo => NodeKind::Special(SpecialKind::Fifo),
        FileType::Socket => NodeKind::Special(SpecialKind::Socket),
        FileType::CharacterDevice | FileType::BlockDevice => NodeKind::Special(SpecialKind::Device),
        FileType::Unknown => return None,
    })
}

/// Calls `visit` with the name of every entry of an open directory, and with its kind if the host reports it.
pub(super) fn entries(dir: impl AsFd, mut visit: impl FnMut(&[u8], Option<NodeKind>)) -> HostResult<()> {
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    let mut raw_dir = RawDir::new(dir, &mut buffer);
    while let Some(entry) = raw_dir.next() {
        // A directory that may be entered but not listed was opened as a mere handle (`O_PATH`).
        let entry = entry.map_err(|error| if error == Errno::BADF { Errno::ACCESS } else { error })?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            visit(name, kind_of(entry.file_type()));
        }
    }
    Ok(())
}

/// Returns the target of a symlink, as written.
pub(super) fn read_link(dir: BorrowedFd<'_>, name: &[u8]) -> HostResult<Vec<u8>> {
    rustix::fs::readlinkat(dir, name, Vec::with_capacity(256)).map(|target| target.into_bytes())
}

/// A name in an open directory.
pub(super) type NameAt<'a> = (BorrowedFd<'a>, &'a [u8]);

/// Renames to a free name; `EXIST` if the name is taken.
pub(super) fn rename_new(from: NameAt<'_>, to: NameAt<'_>) -> HostResult<()> {
    rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE)
}

/// Renames, and replaces what has the name.
pub(super) fn rename_over(from: NameAt<'_>, to: NameAt<'_>) -> HostResult<()> {
    rustix::fs::renameat(from.0, from.1, to.0, to.1)
}

/// Exchanges two names atomically.
pub(super) fn exchange(first: NameAt<'_>, second: NameAt<'_>) -> HostResult<()> {
    rustix::fs::renameat_with(first.0, first.1, second.0, second.1, RenameFlags::EXCHANGE)
}

/// Creates a hard link to a file, or to a symlink itself; `EXIST` if the new name is taken.
pub(super) fn link(existing: NameAt<'_>, to: NameAt<'_>) -> HostResult<()> {
    rustix::fs::linkat(existing.0, existing.1, to.0, to.1, AtFlags::empty())
}

/// Makes a directory with mode 0700.
pub(super) fn make_dir(dir: BorrowedFd<'_>, name: &[u8]) -> HostResult<()> {
    rustix::fs::mkdirat(dir, name, Mode::RWXU)
}

/// Makes a symlink.
pub(super) fn make_symlink(dir: BorrowedFd<'_>, name: &[u8], target: &[u8]) -> HostResult<()> {
    rustix::fs::symlinkat(target, dir, name)
}

/// Makes the next listing of an open directory start at the first entry again.
pub(super) fn rewind(dir: impl AsFd) -> HostResult<()> {
    rustix::fs::seek(dir, rustix::fs::SeekFrom::Start(0)).map(drop)
}

/// Whether an open directory has been removed.
pub(super) fn is_removed(dir: impl AsFd) -> bool {
    rustix::fs::fstat(dir).is_ok_and(|stat| stat.st_nlink == 0)
}

/// Removes a name that isn't a directory.
pub(super) fn unlink(dir: BorrowedFd<'_>, name: &[u8]) -> HostResult<()> {
    rustix::fs::unlinkat(dir, name, AtFlags::empty())
}

/// Removes an empty directory.
pub(super) fn remove_dir(dir: BorrowedFd<'_>, name: &[u8]) -> HostResult<()> {
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
}

/// Sets the permission bits of an open file or directory, which may be a mere handle (`O_PATH`).
pub(super) fn set_mode(fd: impl AsFd, mode: u32) -> HostResult<()> {
    let mode = Mode::from_raw_mode(mode);
    match rustix::fs::fchmod(&fd, mode) {
        Err(Errno::BADF) => {
            map_missing_proc(rustix::fs::chmodat(CWD, proc_path(fd.as_fd()), mode, AtFlags::empty()))
        }
        result => result,
    }
}

/// Opens what a handle refers to in another mode, whatever its name is now. Its permission bits are checked again.
pub(super) fn reopen(handle: BorrowedFd<'_>, open_mode: OpenMode) -> HostResult<OwnedFd> {
    // The path is itself a symlink to what the handle refers to, so it has to be followed.
    let flags = open_mode.flags() - OFlags::NOFOLLOW;
    map_missing_proc(retry_transient(|| rustix::fs::open(proc_path(handle), flags, Mode::empty())))
}

/// The path by which the kernel finds what a handle refers to.
fn proc_path(handle: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Turns `NOENT` into `ACCESS`: without `/proc`, a mere handle (`O_PATH`) can't be opened or changed.
fn map_missing_proc<T>(answer: HostResult<T>) -> HostResult<T> {
    answer.map_err(|error| if error == Errno::NOENT { Errno::ACCESS } else { error })
}

/// Sets the owner and group of an open file. If the host doesn't allow that, the call succeeds: the content matters
/// more.
pub(super) fn set_owner(fd: impl AsFd, uid: Option<u32>, gid: Option<u32>) -> HostResult<()> {
    match rustix::fs::fchown(fd, uid.map(Uid::from_raw), gid.map(Gid::from_raw)) {
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        result => result,
    }
}

/// Like [`set_owner`], for a symlink itself.
pub(super) fn set_link_owner(dir: BorrowedFd<'_>, name: &[u8], uid: u32, gid: u32) -> HostResult<()> {
    match rustix::fs::chownat(
        dir,
        name,
        Some(Uid::from_raw(uid)),
        Some(Gid::from_raw(gid)),
        NO_FOLLOW & AtFlags::SYMLINK_NOFOLLOW,
    ) {
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        result => result,
    }
}

fn timestamps(modified: Timestamp) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let modified = Timespec { tv_sec: modified.as_secs(), tv_nsec: modified.subsec_nanos().into() };
    Timestamps { last_access: omit, last_modification: modified }
}

/// Sets the modification time of an open file or directory, which may be a mere handle (`O_PATH`).
pub(super) fn set_modified(fd: impl AsFd, modified: Timestamp) -> HostResult<()> {
    match rustix::fs::futimens(&fd, &timestamps(modified)) {
        Err(Errno::BADF) => {
            let path = proc_path(fd.as_fd());
            map_missing_proc(rustix::fs::utimensat(CWD, path, &timestamps(modified), AtFlags::empty()))
        }
        result => result,
    }
}

/// Sets the modification time of a name, without following a symlink.
pub(super) fn set_modified_at(dir: BorrowedFd<'_>, name: &[u8], modified: Timestamp) -> HostResult<()> {
    rustix::fs::utimensat(dir, name, &timestamps(modified), AtFlags::SYMLINK_NOFOLLOW)
}

/// How a file is locked between processes (`flock`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockMode {
    Shared,
    Exclusive,
}

/// The pauses between two attempts to get a lock; each is twice as long as the one before.
const FIRST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_micros(150);

/// Waits for a lock until the deadline; then [`Errno::TIMEDOUT`].
pub(super) fn lock(fd: impl AsFd, mode: LockMode, deadline: Instant) -> HostResult<()> {
    let operation = match mode {
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    let mut nap = FIRST_NAP;
    loop {
        match rustix::io::retry_on_intr(|| rustix::fs::flock(fd.as_fd(), operation)) {
            Err(Errno::WOULDBLOCK) => {}
            result => return result,
        }
        if Instant::now() > deadline {
            return Err(Errno::TIMEDOUT);
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(LONGEST_NAP);
    }
}

/// Releases a lock.
pub(super) fn unlock(fd: impl AsFd) -> HostResult<()> {
    rustix::io::retry_on_intr(|| rustix::fs::flock(fd.as_fd(), FlockOperation::Unlock))
}

/// Takes an exclusive lock without waiting. `false` if another handle holds it.
pub(super) fn try_lock(fd: impl AsFd) -> HostResult<bool> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Copies a range of one file to another, inside the kernel if possible. Returns how many bytes were copied: fewer than
/// `length` if the source ends earlier.
pub(super) fn copy_range(from: &File, start: u64, to: &File, to_start: u64, length: u64) -> io::Result<u64> {
    let mut done = 0;
    while done < length {
        let (mut source, mut destination) = (start + done, to_start + done);
        let chunk = usize::try_from((length - done).min(64 << 20)).expect("at most 64 MiB");
        match rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut destination), chunk) {
            Ok(0) => break,
            Ok(count) => done += count as u64,
            Err(Errno::INTR) => {}
            Err(Errno::INVAL | Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF) => {
                return copy_range_by_reading(from, start, to, to_start, length, done);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

fn copy_range_by_reading(
    from: &File,
    start: u64,
    to: &File,
    to_start: u64,
    length: u64,
    mut done: u64,
) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut buffer = vec![0; 256 << 10];
    while done < length {
        let chunk = usize::try_from((length - done).min(buffer.len() as u64)).expect("at most a buffer");
        match from.read_at(&mut buffer[..chunk], start + done) {
            Ok(0) => break,
            Ok(count) => {
                to.write_all_at(&buffer[..count], to_start + done)?;
                done += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Converts the error of a failed host call to the error that the caller of a Store gets.
pub(super) fn errno_to_store_error(errno: Errno) -> StoreError {
    match errno {
        Errno::NOENT => StoreError::NotFound,
        Errno::NOTDIR => StoreError::NotADirectory,
        Errno::ISDIR => StoreError::IsADirectory,
        Errno::EXIST => StoreError::AlreadyExists,
        Errno::NOTEMPTY => StoreError::NotEmpty,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => StoreError::HostDenied,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => StoreError::NoSpace,
        Errno::NAMETOOLONG => StoreError::invalid_name("it is too long for the host"),
        Errno::ILSEQ => StoreError::invalid_name("the host's file system can't store it"),
        Errno::XDEV => StoreError::unsupported(
            "it is on another file system of the host; configure that directory as a Store of its own",
        ),
        Errno::NOSYS => StoreError::unsupported("the host's kernel is too old for a Physical Store"),
        Errno::MFILE | Errno::NFILE => StoreError::unavailable("the host has too many open files"),
        Errno::TIMEDOUT => {
            StoreError::unavailable("another change did not finish in time; its process may be suspended")
        }
        Errno::BUSY | Errno::TXTBSY => StoreError::unavailable("the host is using it"),
        Errno::LOOP | Errno::AGAIN => StoreError::unavailable("its path keeps changing"),
        other => StoreError::Unavailable {
            what: "the host reported an error".to_owned(),
            source: Some(Box::new(io::Error::from(other))),
        },
    }
}

/// Like [`errno_to_store_error`], for errors of the standard library.
pub(super) fn io_to_store_error(error: io::Error) -> StoreError {
    match Errno::from_io_error(&error) {
        Some(errno) => errno_to_store_error(errno),
        None => StoreError::Unavailable {
            what: "the host reported an error".to_owned(),
            source: Some(Box::new(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_never_contains_a_host_path() {
        for code in 1..134 {
            let error = errno_to_store_error(Errno::from_raw_os_error(code));
            assert!(!error.to_string().contains('/'), "{error}");
        }
    }
}
