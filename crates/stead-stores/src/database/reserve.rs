//! Disk space set aside beside the database, so that a full disk can still be read and freed.
//!
//! The file `-reserve` holds no data. Jobs that must work on a full disk (reads, removals, gc, and their records)
//! return its blocks to the host, do their work, and then set aside what is left. Jobs that add content never use it.
//! While the blocks are in use, the file is locked, so that no other process allocates them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstatvfs, statvfs};
use rustix::io::Errno;

use crate::database::wal_file;
use crate::host_path::beside;

/// The suffix of the file's name, after the database's name.
const SUFFIX: &str = "-reserve";
/// How much is set aside if the disk has it: enough for about ten thousand records or removals.
const RESERVE_SIZE: u64 = 4 << 20;
/// At most one part in this many of the free space is set aside.
const MAX_SHARE_OF_FREE: u64 = 8;
/// With less free space than this, the reserve is used. It is more than one small transaction needs.
pub(crate) const LOW_SPACE: u64 = 2 << 20;
/// Blocks are allocated in multiples of this.
const STEP_SIZE: u64 = 16 << 10;

/// The reserve of one database.
#[derive(Debug)]
pub(crate) struct DiskReserve {
    path: PathBuf,
    wal: PathBuf,
    loan: Mutex<ReserveLoan>,
    /// Whether the host reported that there is no space. A disk quota doesn't show in the free space.
    no_space_reported: AtomicBool,
}

/// What is lent to the host at the moment.
#[derive(Debug, Default)]
struct ReserveLoan {
    /// How many callers use it now.
    users: usize,
    /// How much was set aside before: no more than this is set aside again.
    bytes: u64,
    /// The file, locked, while it is in use.
    file: Option<File>,
}

impl DiskReserve {
    /// The reserve of the database at that path.
    pub(crate) fn of(database: &Path) -> Self {
        DiskReserve {
            path: beside(database, SUFFIX),
            wal: wal_file::path_of(database),
            loan: Mutex::default(),
            no_space_reported: AtomicBool::new(false),
        }
    }

    /// Sets space aside, unless it was done before. A disk without enough space isn't an error: nothing depends on the
    /// reserve before the disk is full.
    pub(crate) fn fill(&self) {
        let Some(file) = self.open() else { return };
        let free = fstatvfs(&file).map_or(0, |disk| free_bytes_of(&disk));
        self.set_aside(RESERVE_SIZE.min((free + allocated_bytes(&file)) / MAX_SHARE_OF_FREE));
    }

    /// Whether the disk is so full that the reserve is needed.
    pub(crate) fn is_needed(&self) -> bool {
        self.no_space_reported.load(Ordering::Relaxed) || self.free_bytes() < LOW_SPACE
    }

    /// Remembers that the host reported no space.
    pub(crate) fn note_no_space(&self) {
        self.no_space_reported.store(true, Ordering::Relaxed);
    }

    /// Remembers that the host had space without the reserve.
    pub(crate) fn note_space(&self) {
        self.no_space_reported.store(false, Ordering::Relaxed);
    }

    /// Whether the disk has room for everything in the write-ahead log, and for `more` bytes. A checkpoint copies the
    /// log into the database before it truncates it: if it runs out of space half way, it has used space and freed
    /// none.
    pub(crate) fn has_room_for_log(&self, more: u64) -> bool {
        self.free_bytes() >= wal_file::length(&self.wal).saturating_add(more)
    }

    fn free_bytes(&self) -> u64 {
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        statvfs(directory.unwrap_or(Path::new("."))).map_or(u64::MAX, |disk| free_bytes_of(&disk))
    }

    /// Returns the blocks to the host until [`DiskReserve::reclaim`]. Returns `false` if there were none; then
    /// `reclaim` must not be called.
    pub(crate) fn release_to_host(&self) -> bool {
        let mut loan = self.loan.lock();
        if loan.users == 0 {
            let Ok(file) = OpenOptions::new().write(true).open(&self.path) else { return false };
            let is_alone = flock(&file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK);
            // If the host has no file locks, other processes may interfere.
            let _ = flock(&file, FlockOperation::LockShared);
            let allocated = allocated_bytes(&file);
            // Another process has returned the blocks already. Both use the space, and the last of them sets it aside
            // again.
            let is_shared = allocated == 0 && !is_alone;
            if !is_shared && (allocated == 0 || file.set_len(0).is_err()) {
                return false;
            }
            loan.bytes = loan.bytes.max(if is_shared { RESERVE_SIZE } else { allocated });
            loan.file = Some(file);
        }
        loan.users += 1;
        true
    }

    /// Sets aside again what is left of the space, once no caller uses it any more.
    pub(crate) fn reclaim(&self) {
        let mut loan = self.loan.lock();
        loan.users -= 1;
        if loan.users > 0 {
            return;
        }
        loan.file = None;
        self.set_aside(loan.bytes);
        if self.free_bytes() > LOW_SPACE {
            self.no_space_reported.store(false, Ordering::Relaxed);
        }
    }

    /// Sets aside that much, or as much of it as there is. If another process uses the space, that process does it.
    fn set_aside(&self, bytes: u64) {
        let Some(file) = self.open() else { return };
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return;
        }
        let allocated = allocated_bytes(&file);
        let free = fstatvfs(&file).map_or(0, |disk| free_bytes_of(&disk));
        let mut additional = bytes.saturating_sub(allocated).min(free) / STEP_SIZE * STEP_SIZE;
        // Another process may be faster: then a part of what is left will do.
        while additional >= STEP_SIZE
            && fallocate(&file, FallocateFlags::empty(), 0, allocated + additional).is_err()
        {
            let _ = file.set_len(allocated);
            additional = additional / 2 / STEP_SIZE * STEP_SIZE;
        }
    }

    fn open(&self) -> Option<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.open(&self.path).ok()
    }
}

impl Drop for DiskReserve {
    fn drop(&mut self) {
        // By now, files that this process made meanwhile may be gone: sets aside again what `reclaim` had no space for.
        let bytes = self.loan.get_mut().bytes;
        if bytes > 0 {
            self.set_aside(bytes);
        }
    }
}

/// How many bytes this process can still write.
fn free_bytes_of(disk: &rustix::fs::StatVfs) -> u64 {
    let blocks = if is_root() { disk.f_bfree } else { disk.f_bavail };
    blocks.saturating_mul(disk.f_frsize)
}

/// Whether this process may use the blocks that a file system reserves for root.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    static IS_ROOT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *IS_ROOT.get_or_init(|| std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0))
}

/// How many bytes of a file have blocks on the disk.
fn allocated_bytes(file: &File) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map_or(0, |file| file.len().min(file.blocks() * 512))
}
