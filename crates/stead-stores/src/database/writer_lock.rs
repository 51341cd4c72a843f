//! The lock for writing among the processes that share a database.
//!
//! SQLite's own waiting is a loop of sleeps, in which the process that just wrote tends to win again. Two locked files
//! make it a queue: a process that waits for the lock holds `-next`, so the process that releases the lock can't take
//! it again before the one that waits.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use stead_core::{StoreError, StoreResult};

use crate::database::error::from_io;
use crate::host_path::beside;

/// How long to sleep between two attempts at a lock that another process holds.
const FIRST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_micros(150);

/// The two lock files beside a database.
#[derive(Debug)]
pub(crate) struct WriterLock {
    queue: File,
    lock: File,
}

/// The writer lock, released when this is dropped.
#[derive(Debug)]
pub(crate) struct WriterLockGuard<'a>(&'a File);

/// The file to which every process that has committed to the database at `path` writes.
pub(crate) fn commit_mark(path: &Path) -> PathBuf {
    beside(path, "-turn")
}

impl WriterLock {
    /// Opens the lock files of the database at `path`.
    pub(crate) fn open(path: &Path) -> StoreResult<Self> {
        let open = |suffix: &str| {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(beside(path, suffix));
            file.map_err(|error| from_io(&error))
        };
        Ok(WriterLock { queue: open("-next")?, lock: open("-turn")? })
    }

    /// Writes a byte to the file `-turn`, which wakes every process that watches it. Call it after each commit.
    pub(crate) fn announce_commit(&self) {
        // On a full disk it may fail. Then the other processes find the commit a little later.
        let _ = self.lock.write_all_at(b"\n", 0);
    }

    /// Waits for the lock. Only one thread at a time may call this: a file lock belongs to the open file, so two
    /// threads would both get it.
    pub(crate) fn acquire(&self, timeout: Duration) -> StoreResult<WriterLockGuard<'_>> {
        let deadline = Instant::now() + timeout;
        lock_file(&self.queue, deadline)?;
        let locked = lock_file(&self.lock, deadline);
        // The file is open, so unlocking can't fail in a way that would leave it locked.
        let _ = self.queue.unlock();
        locked.map(|()| WriterLockGuard(&self.lock))
    }
}

impl Drop for WriterLockGuard<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Locks a file, and gives up after `deadline`: another process may have been stopped while it held the lock.
fn lock_file(file: &File, deadline: Instant) -> StoreResult<()> {
    let mut sleep = FIRST_SLEEP;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(sleep),
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::unavailable(
                    "another process is using the database and did not finish in time",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(from_io(&error)),
        }
        sleep = (sleep * 2).min(LONGEST_SLEEP);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_writer_waits_for_the_lock_but_not_forever() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| WriterLock::open(&directory.path().join("db")).unwrap());
        let guard = one.acquire(Duration::from_secs(5)).unwrap();
        assert!(matches!(other.acquire(Duration::from_millis(5)), Err(StoreError::Unavailable { .. })));
        drop(guard);
        drop(other.acquire(Duration::from_millis(5)).unwrap());
        one.acquire(Duration::from_millis(5)).unwrap();
    }
}
