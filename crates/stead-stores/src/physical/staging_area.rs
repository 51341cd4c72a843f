//! The staging area: a directory of Stead's own on the root's mount, where changes are prepared and displaced files
//! wait.
//!
//! Every open Store has a staging directory in it (`staging/<id>`), which it holds locked for as long as it is open. A
//! staging directory that no process has locked belonged to a process that died: its unfinished changes are undone, and
//! the rest is removed (`recover`).
//!
//! ```text
//! locks/           lock files, and `acting`: which staging directory holds which lock
//! opening          locked while a Store opens, or recovers the changes of a dead process
//! snapshot         locked while a snapshot of the directory is taken
//! staging/<id>/    a staging directory: lock, acted (notes), intent logs (j…), content on its way in or out (t…); with `-ended`
//!                  behind the id while its process removes it
//! spare/           a staging directory in reserve, for a full disk
//! recovered/       rescued content (it lost against another program's, or recovery undid it), and reports
//! displaced/       displaced content as <revision>-<number>, if it is kept
//! displaced-2/     the same, where a full disk has no block for one more name in `displaced/`
//! ```

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use stead_core::store::{StoreError, StoreResult};
use stead_core::{Clock, SystemClock, Timestamp};

use super::fault_point::FaultPoint;
use super::history::{DISPLACED_DIR_NAMES, DisplacedDirs, PhysicalHistory, directory_id};
use super::host::{self, Errno, HostResult, LockMode, OpenMode, errno_to_store_error};
use super::intent_log::IntentLog;
use super::lock::Locks;
use super::options::{Confinement, PhysicalOptions};
use super::owner_access;
use super::recover::{self, Recovery, RevisionNotes, StagingLockCache, abandoned_staging_dirs};
use super::recovery_report;
use super::root::{Dir, Root};
use super::staging_dir::{self, StagingDir};
use super::tree;
use crate::Durability;
use crate::reserved_names::STATE_DIR_NAME;
use crate::sync::{self, SyncPoint};

/// How long rescued content and reports are kept.
const RESCUED_FOR_SECONDS: i64 = 14 * 24 * 3600;
/// How many unused intent logs stay open for later changes.
const MAX_IDLE_INTENT_LOGS: usize = 8;

/// The staging area as one open Store uses it, with the Store's staging directory.
#[derive(Debug)]
pub(super) struct StagingArea {
    pub(super) locks: Locks,
    pub(super) fault_point: Arc<FaultPoint>,
    /// The user id that this process creates files with.
    pub(super) uid: u32,
    top: Dir,
    staging_dirs: Dir,
    staging_dir: Dir,
    staging_dir_name: String,
    /// Notes of how far the revisions of this process came.
    pub(super) revision_notes: RevisionNotes,
    lock_cache: StagingLockCache,
    rescued: Dir,
    pub(super) history: Arc<PhysicalHistory>,
    next_name: AtomicU64,
    idle_intent_logs: Mutex<Vec<IntentLog>>,
    /// Whether this process has made changes since the last sync whose sync was deferred.
    pub(super) has_deferred_changes: AtomicBool,
    /// Whether the name of the staging directory is on the disk.
    is_name_synced: AtomicBool,
    /// Whether the staging directory is the spare one, which is put back at the end.
    is_spare: bool,
    _lock: File,
}

impl StagingArea {
    /// Opens the staging area, and recovers the changes of processes that died.
    pub(super) fn open(
        root: &Root,
        state: &Path,
        options: &PhysicalOptions,
        fault_point: Arc<FaultPoint>,
        history: Arc<PhysicalHistory>,
    ) -> StoreResult<Arc<Self>> {
        let top = find_location(root, state, options.confinement)?;
        let locks = private_dir(&top, "locks")
            .and_then(|dir| dir.open(b"", OpenMode::Directory))
            .map_err(errno_to_store_error)?;
        let number = fastrand::u64(1..);
        let locks = Locks::new(locks, options.wait_timeout, number, fault_point.clone())
            .map_err(errno_to_store_error)?;
        let staging_dirs = private_dir(&top, "staging").map_err(errno_to_store_error)?;
        let rescued = private_dir(&top, "recovered").map_err(errno_to_store_error)?;
        let [primary, overflow] =
            DISPLACED_DIR_NAMES.map(|name| private_dir(&top, name).map_err(errno_to_store_error));
        history.set_displaced_dirs(DisplacedDirs { primary: primary?, overflow: Some(overflow?) });

        // One process at a time: a staging directory without a lock counts as dead, so no other process may see ours
        // before it is locked.
        let opening = host::open_or_create(top.as_fd(), "opening").map_err(errno_to_store_error)?;
        host::lock(&opening, LockMode::Exclusive, locks.wait_deadline()).map_err(errno_to_store_error)?;
        let dead = abandoned_staging_dirs(&staging_dirs).map_err(errno_to_store_error)?;
        if !dead.is_empty() {
            Recovery {
                root,
                locks: &locks,
                staging_dirs: &staging_dirs,
                rescued: &rescued,
                history: &history,
            }
            .run(dead)?;
        }
        recover::remove_ended(&staging_dirs).map_err(errno_to_store_error)?;
        let name = staging_dir_name(number);
        let StagingDir { dir: staging_dir, lock, revision_notes, is_spare } =
            staging_dir::make_or_take_spare(&top, &staging_dirs, &name, &locks)?;
        let uid = host::stat(&lock).map_err(errno_to_store_error)?.uid;
        drop(opening);
        prune_rescued(&rescued);
        Ok(Arc::new(StagingArea {
            locks,
            fault_point,
            uid,
            top,
            staging_dirs,
            staging_dir,
            staging_dir_name: name,
            revision_notes,
            lock_cache: StagingLockCache::default(),
            rescued,
            history,
            next_name: AtomicU64::new(0),
            idle_intent_logs: Mutex::new(Vec::new()),
            has_deferred_changes: AtomicBool::new(false),
            is_name_synced: AtomicBool::new(false),
            is_spare,
            _lock: lock,
        }))
    }

    /// Recovers the changes of processes that died, so that the names they held can be used again.
    pub(super) fn recover(&self, root: &Root) -> StoreResult<()> {
        self.fault_point.check()?;
        let opening = host::open_or_create(self.top.as_fd(), "opening").map_err(errno_to_store_error)?;
        host::lock(&opening, LockMode::Exclusive, self.locks.wait_deadline())
            .map_err(errno_to_store_error)?;
        let history = &self.history;
        let dead = abandoned_staging_dirs(&self.staging_dirs).map_err(errno_to_store_error)?;
        Recovery {
            root,
            locks: &self.locks,
            staging_dirs: &self.staging_dirs,
            rescued: &self.rescued,
            history,
        }
        .run(dead)
    }

    /// Recovers if a process died in the middle of a change. Called before a change looks at anything. A process that
    /// dies right after this check is found when its names are locked.
    pub(super) fn recover_if_needed(&self, root: &Root) -> StoreResult<()> {
        let acting = self.locks.acting_numbers()?;
        if acting.into_iter().any(|number| self.lock_cache.is_dead(&self.staging_dirs, number)) {
            self.recover(root)?;
        }
        Ok(())
    }

    /// Syncs the name of the staging directory before the first change, because recovery has to find what a change
    /// leaves in it.
    pub(super) fn sync_name(&self) -> StoreResult<()> {
        if !self.is_name_synced.load(Ordering::Acquire) {
            reopen_dir(&self.staging_dirs)
                .and_then(|staging_dirs| sync::sync_all(SyncPoint::StagingDirectory, staging_dirs))
                .map_err(errno_to_store_error)?;
            self.is_name_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The name of the staging directory.
    pub(super) fn staging_dir_name(&self) -> &str {
        &self.staging_dir_name
    }

    pub(super) fn staging_dir_fd(&self) -> BorrowedFd<'_> {
        self.staging_dir.as_fd()
    }

    pub(super) fn staging_dir(&self) -> &Dir {
        &self.staging_dir
    }

    pub(super) fn rescued(&self) -> &Dir {
        &self.rescued
    }

    /// Waits until no other process takes a snapshot of the directory. The lock is held until the file is dropped.
    pub(super) fn lock_snapshots(&self) -> StoreResult<File> {
        let lock = host::open_or_create(self.top.as_fd(), "snapshot").map_err(errno_to_store_error)?;
        host::lock(&lock, LockMode::Exclusive, self.locks.wait_deadline()).map_err(errno_to_store_error)?;
        Ok(lock)
    }

    /// Returns a name in the staging directory that was never used before.
    pub(super) fn fresh_name(&self) -> String {
        format!("t{}", self.next_name.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates an empty file in the staging directory.
    pub(super) fn new_temp_file(self: &Arc<Self>) -> StoreResult<TempFile> {
        let name = self.fresh_name();
        let file = host::create(self.staging_dir_fd(), name.as_bytes()).map_err(errno_to_store_error)?;
        Ok(TempFile { file, entry: TempEntry::new(self, name) })
    }

    /// Opens a file in the staging directory again.
    pub(super) fn reopen_temp_file(&self, entry: TempEntry) -> StoreResult<TempFile> {
        let file = host::open_name(self.staging_dir_fd(), entry.name().as_bytes(), OpenMode::ReadWrite);
        Ok(TempFile { file: file.map_err(errno_to_store_error)?.into(), entry })
    }

    /// Returns an empty intent log: an unused one, a new one, or the spare one if the disk is full.
    pub(super) fn take_intent_log(&self, durability: Durability) -> StoreResult<IntentLog> {
        if let Some(intent_log) = self.idle_intent_logs.lock().pop() {
            return Ok(intent_log);
        }
        let name = format!("j{}", self.next_name.fetch_add(1, Ordering::Relaxed));
        match IntentLog::create(self.staging_dir_fd(), name.clone(), durability) {
            Err(StoreError::NoSpace) => {
                let _ = host::unlink(self.staging_dir_fd(), name.as_bytes());
                Ok(IntentLog::new(
                    staging_dir::take_spare_intent_log(&self.top, &self.staging_dir, &name)?,
                    name,
                ))
            }
            created => created,
        }
    }

    /// Accepts a cleared intent log for later use, or removes it if there are enough.
    pub(super) fn return_intent_log(&self, intent_log: IntentLog) {
        let mut intent_logs = self.idle_intent_logs.lock();
        if intent_logs.len() < MAX_IDLE_INTENT_LOGS {
            intent_logs.push(intent_log);
        } else {
            let _ = host::unlink(self.staging_dir_fd(), intent_log.name().as_bytes());
        }
    }

    /// Removes an entry of the staging directory. If that fails, recovery removes it later.
    pub(super) fn discard(&self, name: &str) {
        if self.fault_point.is_stopped() {
            return;
        }
        if let Err(Errno::ISDIR | Errno::PERM) = host::unlink(self.staging_dir_fd(), name.as_bytes()) {
            let _ = tree::remove(&self.staging_dir, name.as_bytes());
        }
    }

    /// Counts the dead staging directories that hold an unfinished change, for [`stead_core::Store::verify`].
    pub(super) fn count_unfinished(&self) -> HostResult<usize> {
        let dead = abandoned_staging_dirs(&self.staging_dirs)?;
        Ok(dead
            .iter()
            .filter(|staging_dir| super::intent_log::has_unfinished_change(&staging_dir.dir))
            .count())
    }

    /// The reports about what recovery could not decide, as far as they have not been removed.
    pub(super) fn recovery_reports(&self) -> StoreResult<Vec<String>> {
        recovery_report::all(&self.rescued)
    }

    /// The size of the rescued content in bytes.
    pub(super) fn rescued_bytes(&self) -> u64 {
        tree::size(&self.rescued)
    }
}

impl Drop for StagingArea {
    fn drop(&mut self) {
        if self.fault_point.is_stopped() {
            return;
        }
        // If the ledger could not be completed, recovery needs the content of the staging directory, so the directory
        // stays.
        if self.history.close().is_ok() {
            let is_back = self.is_spare
                && staging_dir::return_spare(&self.top, &self.staging_dirs, &self.staging_dir_name).is_ok();
            if !is_back {
                let _ = recover::remove_own(&self.staging_dirs, &self.staging_dir_name);
            }
        }
    }
}

/// The name of the staging directory with this number.
pub(super) fn staging_dir_name(number: u64) -> String {
    format!("{number:016x}")
}

/// Moves an entry of a staging directory to `recovered/`, where its owner can find it, and returns its new name; `None` if
/// the entry is missing.
pub(super) fn rescue(staging_dir: BorrowedFd<'_>, name: &str, rescued: &Dir) -> HostResult<Option<String>> {
    let now = SystemClock.now().as_millis();
    let to = format!("{now}-{:08x}", fastrand::u32(..));
    match owner_access::rename_new((staging_dir, name.as_bytes()), (rescued.as_fd(), to.as_bytes())) {
        Err(Errno::NOENT) => Ok(None),
        result => result.map(|()| Some(to)),
    }
}

/// An entry of the staging directory, which is removed when this is dropped, unless it was moved elsewhere.
#[derive(Debug)]
pub(super) struct TempEntry {
    staging: Arc<StagingArea>,
    name: String,
    is_placed: bool,
}

impl TempEntry {
    pub(super) fn new(staging: &Arc<StagingArea>, name: String) -> Self {
        TempEntry { staging: staging.clone(), name, is_placed: false }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Leaves the name alone when this is dropped: the entry was moved elsewhere, or something else has the name now.
    pub(super) fn mark_placed(&mut self) {
        self.is_placed = true;
    }
}

impl Drop for TempEntry {
    fn drop(&mut self) {
        if !self.is_placed {
            self.staging.discard(&self.name);
        }
    }
}

/// A file in the staging directory, which callers don't see yet.
#[derive(Debug)]
pub(super) struct TempFile {
    pub(super) file: File,
    pub(super) entry: TempEntry,
}

/// Opens or makes the staging area of a root: in the state directory if a rename can lead from there to the root,
/// otherwise in `.stead` in the root, which is masked.
fn find_location(root: &Root, state: &Path, confinement: Confinement) -> StoreResult<Dir> {
    let state = sync::make_private_dir(SyncPoint::StateDirectory, state)
        .ok()
        .and_then(|()| Dir::open_ambient(state, confinement).ok())
        .filter(|dir| can_rename_between(root, dir));
    let state = match state {
        Some(dir) => dir,
        None => private_dir(&root.dir, STATE_DIR_NAME).map_err(errno_to_store_error)?,
    };
    let areas = private_dir(&state, "physical").map_err(errno_to_store_error)?;
    private_dir(&areas, &directory_id(&root.stat)).map_err(errno_to_store_error)
}

/// Opens a directory with mode 0700, and makes it if it is missing.
fn private_dir(parent: &Dir, name: &str) -> HostResult<Dir> {
    match host::make_dir(parent.as_fd(), name.as_bytes()) {
        Ok(()) => sync::sync_all(SyncPoint::StagingArea, reopen_dir(parent)?)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    parent.enter(name.as_bytes(), OpenMode::Directory)
}

/// Returns a new handle to the directory, with its own reading position.
pub(super) fn reopen_dir(dir: &Dir) -> HostResult<OwnedFd> {
    dir.open(b"", OpenMode::Directory)
}

/// Removes rescued content and reports that have been kept long enough.
fn prune_rescued(rescued: &Dir) {
    let oldest = SystemClock.now().as_secs() - RESCUED_FOR_SECONDS;
    let mut expired = Vec::new();
    let Ok(view) = reopen_dir(rescued) else { return };
    let listed = host::entries(view, |name, _| {
        let rescued_at =
            std::str::from_utf8(name).ok().and_then(|name| name.split('-').next()?.parse::<i64>().ok());
        if rescued_at.is_some_and(|millis| Timestamp(millis * 1_000_000).as_secs() < oldest) {
            expired.push(name.to_vec());
        }
    });
    if listed.is_ok() {
        for name in expired {
            let _ = tree::remove(rescued, &name);
        }
    }
}

/// Finds the directories with displaced content. `None` if there is no staging area: nothing is created.
pub(super) fn find_displaced_dirs(
    root: &Root,
    state: &Path,
    confinement: Confinement,
) -> Option<DisplacedDirs> {
    let state = Dir::open_ambient(state, confinement).ok().filter(|dir| can_rename_between(root, dir));
    let state = state.or_else(|| root.dir.enter(STATE_DIR_NAME.as_bytes(), OpenMode::Traverse).ok())?;
    let open = |name: &str| {
        let path = format!("physical/{}/{name}", directory_id(&root.stat));
        state.enter(path.as_bytes(), OpenMode::Directory).ok()
    };
    let [primary, overflow] = DISPLACED_DIR_NAMES.map(open);
    Some(DisplacedDirs { primary: primary?, overflow })
}

/// Whether a rename between the two is possible: that needs the same mount, and on some file systems the same
/// subvolume, which has its own device number.
fn can_rename_between(root: &Root, dir: &Dir) -> bool {
    host::stat(dir).is_ok_and(|stat| (stat.mount, stat.dev) == (root.stat.mount, root.stat.dev))
}
