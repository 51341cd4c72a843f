//! Room that is set aside beside the database, so that a full disk can be read and made less full.
//!
//! The file `-reserve` holds nothing. What has to work on a full disk (reading, deleting, `gc`, and the records of them)
//! gives its blocks back to the host for a moment, works, and sets aside again what is left. What adds content never
//! touches it. For that moment the file is locked, so that no other process sets the room aside under the one that uses it.

use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, fstatvfs, statvfs};
use rustix::io::Errno;

/// What its name ends with, after that of the database.
const SUFFIX: &str = "-reserve";
/// How much is set aside, where the disk has it: some ten thousand records, or as many deletions.
const RESERVE_SIZE: u64 = 4 << 20;
/// Of what is free, at most this part.
const MAX_SHARE_OF_FREE: u64 = 8;
/// With less than this free, the reserve is used: more than one small transaction takes.
pub(super) const LOW_SPACE: u64 = 2 << 20;
/// Blocks are set aside in steps of this.
const STEP_SIZE: u64 = 16 << 10;

/// The room beside one database.
#[derive(Debug)]
pub(super) struct DiskReserve {
    path: PathBuf,
    loan: Mutex<ReserveLoan>,
    /// Whether the host said that there is no room, whatever it says is free: its quotas don't show there.
    no_space_reported: AtomicBool,
}

/// What was given back to the host for a while.
#[derive(Debug, Default)]
struct ReserveLoan {
    /// How many use it now.
    users: usize,
    /// How much there was before: no more is taken back.
    bytes: u64,
    /// The file, locked, while someone uses it.
    file: Option<File>,
}

impl DiskReserve {
    /// The reserve of the database at that path.
    pub(super) fn of(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push(SUFFIX);
        DiskReserve { path: path.into(), loan: Mutex::default(), no_space_reported: AtomicBool::new(false) }
    }

    /// Sets room aside, unless it is already. What the host does not have is not set aside: nothing depends on it before
    /// the disk is full.
    pub(super) fn fill(&self) {
        let Some(file) = self.open() else { return };
        let free = fstatvfs(&file).map_or(0, |disk| free_bytes_of(&disk));
        self.set_aside(RESERVE_SIZE.min((free + allocated_bytes(&file)) / MAX_SHARE_OF_FREE));
    }

    /// Whether the disk is so full that the reserve is needed.
    pub(super) fn is_needed(&self) -> bool {
        self.no_space_reported.load(Ordering::Relaxed) || self.free_bytes() < LOW_SPACE
    }

    /// The host said that there is no room.
    pub(super) fn note_no_space(&self) {
        self.no_space_reported.store(true, Ordering::Relaxed);
    }

    /// The host had room without the reserve.
    pub(super) fn note_space(&self) {
        self.no_space_reported.store(false, Ordering::Relaxed);
    }

    /// Whether the disk has room for all that the log holds, and for that much more. The log is written back to the
    /// database before it is cut: where that ends half way for want of room, it has taken some and given back none.
    pub(super) fn has_room_for_log(&self, more: u64) -> bool {
        let mut log = self.path.as_os_str().as_encoded_bytes().to_vec();
        log.truncate(log.len() - SUFFIX.len());
        log.extend_from_slice(b"-wal");
        let log = PathBuf::from(std::ffi::OsString::from_vec(log));
        let length = log.metadata().map_or(0, |log| log.len());
        self.free_bytes() >= length.saturating_add(more)
    }

    fn free_bytes(&self) -> u64 {
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        statvfs(directory.unwrap_or(Path::new("."))).map_or(u64::MAX, |disk| free_bytes_of(&disk))
    }

    /// Gives the room back to the host until [`Reserve::take_back`]. Without any, it says so, and nothing is to be taken
    /// back.
    pub(super) fn release_to_host(&self) -> bool {
        let mut lent = self.loan.lock();
        if lent.users == 0 {
            let Ok(file) = OpenOptions::new().write(true).open(&self.path) else { return false };
            let is_alone = flock(&file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK);
            // Where the host has no locks, other processes may come between.
            let _ = flock(&file, FlockOperation::LockShared);
            let held = allocated_bytes(&file);
            // Another process has given the room back already. Both use it, and the last of them sets it aside again.
            let is_shared = held == 0 && !is_alone;
            if !is_shared && (held == 0 || file.set_len(0).is_err()) {
                return false;
            }
            lent.bytes = lent.bytes.max(if is_shared { RESERVE_SIZE } else { held });
            lent.file = Some(file);
        }
        lent.users += 1;
        true
    }

    /// Sets aside again what is left of it, once nobody uses it any more.
    pub(super) fn reclaim(&self) {
        let mut lent = self.loan.lock();
        lent.users -= 1;
        if lent.users > 0 {
            return;
        }
        lent.file = None;
        self.set_aside(lent.bytes);
        if self.free_bytes() > LOW_SPACE {
            self.no_space_reported.store(false, Ordering::Relaxed);
        }
    }

    /// Sets aside that much, or what there is of it. While another process uses the room, that one does it.
    fn set_aside(&self, bytes: u64) {
        let Some(file) = self.open() else { return };
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return;
        }
        let held = allocated_bytes(&file);
        let free = fstatvfs(&file).map_or(0, |disk| free_bytes_of(&disk));
        let mut more = bytes.saturating_sub(held).min(free) / STEP_SIZE * STEP_SIZE;
        // Where another process is faster, it is a part of what is left.
        while more >= STEP_SIZE && fallocate(&file, FallocateFlags::empty(), 0, held + more).is_err() {
            let _ = file.set_len(held);
            more = more / 2 / STEP_SIZE * STEP_SIZE;
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
        // What this process took on the way, for a file that is gone by now, is set aside again.
        let bytes = self.loan.get_mut().bytes;
        if bytes > 0 {
            self.set_aside(bytes);
        }
    }
}

/// How many bytes this process may still write.
fn free_bytes_of(disk: &rustix::fs::StatVfs) -> u64 {
    let blocks = if is_root() { disk.f_bfree } else { disk.f_bavail };
    blocks.saturating_mul(disk.f_frsize)
}

/// Whether this process may use what a file system sets aside for root.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    static IS_ROOT: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *IS_ROOT.get_or_init(|| std::fs::metadata("/proc/self").is_ok_and(|itself| itself.uid() == 0))
}

/// How many bytes a file has a place for.
fn allocated_bytes(file: &File) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map_or(0, |file| file.len().min(file.blocks() * 512))
}
