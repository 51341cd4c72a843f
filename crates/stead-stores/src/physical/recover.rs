//! Recovery: completes or undoes the changes of processes that died in the middle, and removes their staging
//! directories.
//!
//! A process recovers when it opens the directory, and, if it has the directory open already, before it uses a name
//! that a dead process held.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stead_core::store::StoreResult;

use super::history::{DeadProcessState, PhysicalHistory};
use super::host::{self, Errno, HostResult, LockMode, OpenMode, errno_to_store_error};
use super::intent_log::{outcomes, undo_unfinished};
use super::lock::Locks;
use super::root::{Dir, Root};
use super::shared_cells::SharedCells;
use super::staging_area::{reopen_dir, staging_dir_name};
use super::tree;

/// How long to wait for a process to exit that has already lost a lock.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(5);
/// How many notes about revisions a staging directory has room for. The ledger is updated long before they are used up.
const REVISION_NOTES: usize = 512;
/// Set in a note if the revision is done. No revision number is so large.
const DONE_FLAG: u64 = 1 << 63;
/// The end of a staging directory's name while the process that used it removes it.
const ENDED_SUFFIX: &str = "-ended";
/// How many lock files of other staging directories stay open.
const MAX_OPEN_LOCKS: usize = 64;

/// What recovery works on. The caller holds the `opening` lock, so that only one process recovers at a time.
pub(super) struct Recovery<'a> {
    pub(super) root: &'a Root,
    pub(super) locks: &'a Locks,
    pub(super) staging_dirs: &'a Dir,
    pub(super) rescued: &'a Dir,
    pub(super) history: &'a PhysicalHistory,
}

impl Recovery<'_> {
    /// Recovers the given staging directories and those of all dead processes that held a lock, and clears the lock
    /// cells.
    pub(super) fn run(&self, mut dead: Vec<AbandonedStagingDir>) -> StoreResult<()> {
        let tree_lock = self.locks.lock_tree_for_recovery()?;
        for number in self.locks.acting_numbers()? {
            let name = staging_dir_name(number);
            if dead.iter().all(|staging_dir| staging_dir.name != name) {
                dead.extend(self.wait_for_exit(name).map_err(errno_to_store_error)?);
            }
        }
        // The intent logs and notes are read before they are cleared and the directories removed.
        let found = dead
            .iter()
            .map(|staging_dir| Ok((outcomes(&staging_dir.dir)?, RevisionNotes::read(&staging_dir.dir)?)));
        let found = found.collect::<StoreResult<Vec<_>>>()?;
        let dead_states = dead.iter().zip(&found).map(|(staging_dir, (outcomes, noted_revisions))| {
            DeadProcessState { name: &staging_dir.name, dir: &staging_dir.dir, outcomes, noted_revisions }
        });
        let dead_states: Vec<_> = dead_states.collect();
        let live = live_staging_dirs(self.staging_dirs, &dead).map_err(errno_to_store_error)?;
        self.history.reconcile(self.root, self.rescued, &dead_states, &live)?;
        for staging_dir in &dead {
            undo_unfinished(self.root, &staging_dir.dir, self.rescued)?;
        }
        self.locks.clear_acting()?;
        drop(tree_lock);
        for staging_dir in &dead {
            // Nothing in it matters any more. If it can't be removed now, the next process that opens the Store tries
            // again.
            let _ = tree::remove(self.staging_dirs, staging_dir.name.as_bytes());
        }
        Ok(())
    }

    /// Waits until a process is gone that has lost a lock: the host frees its locks one after the other. `None` if it
    /// stays alive: then it only failed to clear its cell, and has no unfinished change.
    fn wait_for_exit(&self, name: String) -> HostResult<Option<AbandonedStagingDir>> {
        let Some((dir, lock)) = open_staging_dir(self.staging_dirs, &name)? else { return Ok(None) };
        match lock
            .as_ref()
            .map_or(Ok(()), |lock| host::lock(lock, LockMode::Exclusive, Instant::now() + MAX_EXIT_WAIT))
        {
            Err(Errno::TIMEDOUT) => Ok(None),
            Ok(()) if !is_in_place(self.staging_dirs, &name, &dir)? => Ok(None),
            result => result.map(|()| Some(AbandonedStagingDir { name, dir, _lock: lock })),
        }
    }
}

/// Whether the directory still has its name. A process that ends takes its staging directory away before it releases the lock, so
/// the answer stays the same once the lock is held.
fn is_in_place(staging_dirs: &Dir, name: &str, dir: &Dir) -> HostResult<bool> {
    match host::stat_at(staging_dirs.as_fd(), name.as_bytes()) {
        Ok(named) => host::stat(dir).map(|opened| (named.dev, named.ino) == (opened.dev, opened.ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a staging directory and its lock file, which may be missing. `None` if the directory is missing.
fn open_staging_dir(staging_dirs: &Dir, name: &str) -> HostResult<Option<(Dir, Option<File>)>> {
    let dir = match staging_dirs.enter(name.as_bytes(), OpenMode::Directory) {
        Err(Errno::NOENT) => return Ok(None),
        entered => entered?,
    };
    match dir.open(b"lock", OpenMode::ReadWrite) {
        Ok(fd) => Ok(Some((dir, Some(File::from(fd))))),
        Err(Errno::NOENT) => Ok(Some((dir, None))),
        Err(error) => Err(error),
    }
}

/// Open lock files of other staging directories, so that checking one takes a single system call.
#[derive(Debug, Default)]
pub(super) struct StagingLockCache(Mutex<HashMap<u64, File>>);

impl StagingLockCache {
    /// Whether the process with this staging directory is gone.
    pub(super) fn is_dead(&self, staging_dirs: &Dir, number: u64) -> bool {
        let mut locks = self.0.lock();
        if !locks.contains_key(&number) {
            match open_staging_dir(staging_dirs, &staging_dir_name(number)) {
                Ok(Some((_, Some(lock)))) => {
                    if locks.len() >= MAX_OPEN_LOCKS {
                        locks.clear();
                    }
                    locks.insert(number, lock);
                }
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
        let is_dead = host::try_lock(&locks[&number]).unwrap_or(false);
        if is_dead {
            // Closing the file releases the lock, which recovery needs.
            locks.remove(&number);
        }
        is_dead
    }
}

/// The staging directory of a process that died.
pub(super) struct AbandonedStagingDir {
    name: String,
    pub(super) dir: Dir,
    /// Locked, so that no other process recovers this directory as well.
    _lock: Option<File>,
}

/// The names of all staging directories that are not in `dead`.
fn live_staging_dirs(staging_dirs: &Dir, dead: &[AbandonedStagingDir]) -> HostResult<HashSet<String>> {
    let names = names_of_staging_dirs(staging_dirs)?.into_iter();
    Ok(names.filter(|name| dead.iter().all(|staging_dir| staging_dir.name != *name)).collect())
}

/// The staging directories that no process has locked. They are locked now.
pub(super) fn abandoned_staging_dirs(staging_dirs: &Dir) -> HostResult<Vec<AbandonedStagingDir>> {
    let mut dead = Vec::new();
    for name in names_of_staging_dirs(staging_dirs)? {
        if name.ends_with(ENDED_SUFFIX) {
            continue;
        }
        let Ok(Some((dir, lock))) = open_staging_dir(staging_dirs, &name) else { continue };
        let is_free = lock.as_ref().is_none_or(|lock| host::try_lock(lock).unwrap_or(false));
        if is_free && is_in_place(staging_dirs, &name, &dir)? {
            dead.push(AbandonedStagingDir { name, dir, _lock: lock });
        }
    }
    Ok(dead)
}

/// Removes the staging directory of this process. Before it is incomplete, it gets a name that says so: a directory without a
/// lock file would count as that of a dead process. The caller still holds the lock.
pub(super) fn remove_own(staging_dirs: &Dir, name: &str) -> HostResult<()> {
    let ended = format!("{name}{ENDED_SUFFIX}");
    let (from, to) = ((staging_dirs.as_fd(), name.as_bytes()), (staging_dirs.as_fd(), ended.as_bytes()));
    host::rename_new(from, to)?;
    tree::remove(staging_dirs, ended.as_bytes())
}

/// Removes what is left of staging directories whose processes ended while they removed them. It may also meet one that a process
/// is removing now: each of the two then removes a part. What can't be removed is left to the next process that opens the Store.
pub(super) fn remove_ended(staging_dirs: &Dir) -> HostResult<()> {
    for name in names_of_staging_dirs(staging_dirs)? {
        if name.ends_with(ENDED_SUFFIX) {
            let _ = tree::remove(staging_dirs, name.as_bytes());
        }
    }
    Ok(())
}

fn names_of_staging_dirs(staging_dirs: &Dir) -> HostResult<Vec<String>> {
    let mut names = Vec::new();
    host::entries(reopen_dir(staging_dirs)?, |name, _| names.extend(String::from_utf8(name.to_vec())))?;
    Ok(names)
}

/// Notes of how far the revisions of this process came, in a file of its staging directory. The ledger learns that only
/// with the next change, and by then other changes may have built on them.
#[derive(Debug)]
pub(super) struct RevisionNotes {
    cells: SharedCells<REVISION_NOTES>,
    next: AtomicUsize,
}

/// The revisions that are noted in a staging directory.
#[derive(Debug, Default)]
pub(super) struct NotedRevisions {
    /// Revisions whose action has happened. After a power cut, its effect may be lost.
    pub(super) performed: HashSet<i64>,
    /// Revisions that were acknowledged, or were about to be.
    pub(super) done: HashSet<i64>,
}

impl RevisionNotes {
    pub(super) fn new(staging_dir: BorrowedFd<'_>) -> StoreResult<Self> {
        let file = host::open_or_create(staging_dir, "acted").map_err(errno_to_store_error)?;
        Ok(RevisionNotes { cells: SharedCells::new(file), next: AtomicUsize::new(0) })
    }

    /// Notes that the action of a revision has happened. If the note can't be written, recovery decides by the state of
    /// the files.
    pub(super) fn note_performed(&self, revision: i64) {
        let _ = self.write_note(revision.cast_unsigned());
    }

    /// Notes that a revision is done, with everything in its place: recovery doesn't have to check its files.
    pub(super) fn note_done(&self, revision: i64) -> StoreResult<()> {
        self.write_note(revision.cast_unsigned() | DONE_FLAG)
    }

    /// Clears all notes, for the next process that uses the staging directory.
    pub(super) fn clear(&self) -> StoreResult<()> {
        (0..REVISION_NOTES).try_for_each(|index| self.cells.set(index, 0))
    }

    fn write_note(&self, value: u64) -> StoreResult<()> {
        self.cells.set(self.next.fetch_add(1, Ordering::Relaxed) % REVISION_NOTES, value)
    }

    /// Reads the notes of a dead process.
    fn read(staging_dir: &Dir) -> StoreResult<NotedRevisions> {
        let file = match staging_dir.open(b"acted", OpenMode::Read) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(NotedRevisions::default()),
            Err(error) => return Err(errno_to_store_error(error)),
        };
        let mut noted_revisions = NotedRevisions::default();
        for cell in SharedCells::<REVISION_NOTES>::read_only(file).all()? {
            let revision = (cell & !DONE_FLAG).cast_signed();
            if cell & DONE_FLAG == 0 {
                noted_revisions.performed.insert(revision)
            } else {
                noted_revisions.done.insert(revision)
            };
        }
        Ok(noted_revisions)
    }
}
