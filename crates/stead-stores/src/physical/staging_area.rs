//! Where changes are prepared and displaced files wait: a directory of Stead's own on the root's mount.
//!
//! Every open Store has a room in it, which it holds locked for as long as it lives. A room that nobody has locked
//! belonged to a process that died: what it left half done is undone, and the rest is thrown away (`recover`).
//!
//! ```text
//! locks/           lock files, and who acts under them
//! opening          held while a Store opens, or recovers what a dead one has left
//! rooms/<id>/      lock, acted, journals (j…), content on its way in or out (t…)
//! spare/           a room that nobody uses, for a full disk
//! kept/            content that lost against another program's, or was taken back after a crash, and reports
//! past/, more/     what changes have displaced, as <version>-<number>, where that is kept
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
use super::mask::STATE_DIR_NAME;
use super::options::{Confinement, PhysicalOptions};
use super::owner_access;
use super::recover::{Recovery, RevisionNotes, StagingLockCache, abandoned_staging_dirs};
use super::recovery_report;
use super::root::{Dir, Root};
use super::staging_dir::{self, StagingDir};
use super::tree;
use crate::Durability;
use crate::sync::{self, SyncPoint};

/// How long content is kept that lost against another program's.
const RESCUED_FOR_SECONDS: i64 = 14 * 24 * 3600;
/// How many journals stay open for the next change.
const MAX_IDLE_INTENT_LOGS: usize = 8;

/// One Store's part of the workshop.
#[derive(Debug)]
pub(super) struct StagingArea {
    pub(super) locks: Locks,
    pub(super) fault_point: Arc<FaultPoint>,
    /// Who this process is to the host.
    pub(super) uid: u32,
    top: Dir,
    staging_dirs: Dir,
    staging_dir: Dir,
    staging_dir_name: String,
    /// What has become of the versions that this process makes.
    pub(super) revision_notes: RevisionNotes,
    lock_cache: StagingLockCache,
    rescued: Dir,
    pub(super) history: Arc<PhysicalHistory>,
    next_name: AtomicU64,
    idle_intent_logs: Mutex<Vec<IntentLog>>,
    /// Whether changes were made that need not be on the disk yet, since it was last synced.
    pub(super) has_deferred_changes: AtomicBool,
    /// Whether the room's name is on the disk.
    is_name_synced: AtomicBool,
    /// Whether the room is the spare one, which is put back at the end.
    is_spare: bool,
    _lock: File,
}

impl StagingArea {
    /// Opens the workshop, and repairs what others have left behind.
    pub(super) fn open(
        root: &Root,
        state: &Path,
        options: &PhysicalOptions,
        life: Arc<FaultPoint>,
        keeping: Arc<PhysicalHistory>,
    ) -> StoreResult<Arc<Self>> {
        let top = find_location(root, state, options.confinement)?;
        let locks = private_dir(&top, "locks")
            .and_then(|dir| dir.open(b"", OpenMode::Directory))
            .map_err(errno_to_store_error)?;
        let number = fastrand::u64(1..);
        let locks =
            Locks::new(locks, options.wait_timeout, number, life.clone()).map_err(errno_to_store_error)?;
        let rooms = private_dir(&top, "staging").map_err(errno_to_store_error)?;
        let kept = private_dir(&top, "recovered").map_err(errno_to_store_error)?;
        let [past, more] =
            DISPLACED_DIR_NAMES.map(|name| private_dir(&top, name).map_err(errno_to_store_error));
        keeping.set_displaced_dirs(DisplacedDirs { primary: past?, overflow: Some(more?) });

        // One at a time: a room without a lock is a dead one, and nobody may see ours before it is locked.
        let opening = host::open_or_create(top.as_fd(), "opening").map_err(errno_to_store_error)?;
        host::lock(&opening, LockMode::Exclusive, locks.wait_deadline()).map_err(errno_to_store_error)?;
        let dead = abandoned_staging_dirs(&rooms).map_err(errno_to_store_error)?;
        if !dead.is_empty() {
            Recovery { root, locks: &locks, staging_dirs: &rooms, rescued: &kept, history: &keeping }
                .run(dead)?;
        }
        let name = staging_dir_name(number);
        let StagingDir { dir: room, lock, revision_notes: noted, is_spare } =
            staging_dir::make_or_take_spare(&top, &rooms, &name, &locks)?;
        let uid = host::stat(&lock).map_err(errno_to_store_error)?.uid;
        drop(opening);
        prune_rescued(&kept);
        Ok(Arc::new(StagingArea {
            locks,
            fault_point: life,
            uid,
            top,
            staging_dirs: rooms,
            staging_dir: room,
            staging_dir_name: name,
            revision_notes: noted,
            lock_cache: StagingLockCache::default(),
            rescued: kept,
            history: keeping,
            next_name: AtomicU64::new(0),
            idle_intent_logs: Mutex::new(Vec::new()),
            has_deferred_changes: AtomicBool::new(false),
            is_name_synced: AtomicBool::new(false),
            is_spare,
            _lock: lock,
        }))
    }

    /// Recovers what processes that died have left, so that their names can be used again.
    pub(super) fn recover(&self, root: &Root) -> StoreResult<()> {
        self.fault_point.check()?;
        let opening = host::open_or_create(self.top.as_fd(), "opening").map_err(errno_to_store_error)?;
        host::lock(&opening, LockMode::Exclusive, self.locks.wait_deadline())
            .map_err(errno_to_store_error)?;
        let keeping = &self.history;
        let dead = abandoned_staging_dirs(&self.staging_dirs).map_err(errno_to_store_error)?;
        Recovery {
            root,
            locks: &self.locks,
            staging_dirs: &self.staging_dirs,
            rescued: &self.rescued,
            history: keeping,
        }
        .run(dead)
    }

    /// Recovers what a process has left that died in the middle of a change: best before anything is looked at. One that
    /// dies right after is found when its names are taken.
    pub(super) fn recover_if_needed(&self, root: &Root) -> StoreResult<()> {
        let acting = self.locks.abandoned()?;
        if acting.into_iter().any(|number| self.lock_cache.is_dead(&self.staging_dirs, number)) {
            self.recover(root)?;
        }
        Ok(())
    }

    /// Has the room's name reach the disk before the first change: recovery has to find what a change leaves in it.
    pub(super) fn sync_name(&self) -> StoreResult<()> {
        if !self.is_name_synced.load(Ordering::Acquire) {
            reopen_dir(&self.staging_dirs)
                .and_then(|rooms| sync::sync_all(SyncPoint::StagingDirectory, rooms))
                .map_err(errno_to_store_error)?;
            self.is_name_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// What the room is called.
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

    /// Waits until nobody else takes a snapshot of the directory.
    pub(super) fn lock_snapshots(&self) -> StoreResult<File> {
        let lock = host::open_or_create(self.top.as_fd(), "snapshot").map_err(errno_to_store_error)?;
        host::lock(&lock, LockMode::Exclusive, self.locks.wait_deadline()).map_err(errno_to_store_error)?;
        Ok(lock)
    }

    /// A name in the room that nothing had before.
    pub(super) fn fresh_name(&self) -> String {
        format!("t{}", self.next_name.fetch_add(1, Ordering::Relaxed))
    }

    /// An empty file that nobody sees.
    pub(super) fn new_temp_file(self: &Arc<Self>) -> StoreResult<TempFile> {
        let name = self.fresh_name();
        let file = host::create(self.staging_dir_fd(), name.as_bytes()).map_err(errno_to_store_error)?;
        Ok(TempFile { file, entry: TempEntry::new(self, name) })
    }

    /// A journal to write to.
    pub(super) fn take_intent_log(&self, durability: Durability) -> StoreResult<IntentLog> {
        if let Some(journal) = self.idle_intent_logs.lock().pop() {
            return Ok(journal);
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
            made => made,
        }
    }

    /// Takes back a journal that has been cleared.
    pub(super) fn return_intent_log(&self, journal: IntentLog) {
        let mut journals = self.idle_intent_logs.lock();
        if journals.len() < MAX_IDLE_INTENT_LOGS {
            journals.push(journal);
        } else {
            let _ = host::unlink(self.staging_dir_fd(), journal.name().as_bytes());
        }
    }

    /// Throws something in the room away. A failure leaves it to whoever opens next.
    pub(super) fn discard(&self, name: &str) {
        if self.fault_point.is_stopped() {
            return;
        }
        if let Err(Errno::ISDIR | Errno::PERM) = host::unlink(self.staging_dir_fd(), name.as_bytes()) {
            let _ = tree::remove(&self.staging_dir, name.as_bytes());
        }
    }

    /// Dead rooms that hold an unfinished change, for [`stead_core::Store::verify`].
    pub(super) fn count_unfinished(&self) -> HostResult<usize> {
        let dead = abandoned_staging_dirs(&self.staging_dirs)?;
        Ok(dead.iter().filter(|room| super::intent_log::has_unfinished_change(&room.dir)).count())
    }

    /// What recovery could not decide, and nobody has looked at yet.
    pub(super) fn recovery_reports(&self) -> StoreResult<Vec<String>> {
        recovery_report::all(&self.rescued)
    }

    /// How many bytes are kept of content that lost.
    pub(super) fn rescued_bytes(&self) -> u64 {
        tree::size(&self.rescued)
    }
}

impl Drop for StagingArea {
    fn drop(&mut self) {
        if self.fault_point.is_stopped() {
            return;
        }
        // What the ledger could not be told is found out by what is in the room, so then it stays.
        if self.history.close().is_ok() {
            let is_back = self.is_spare
                && staging_dir::return_spare(&self.top, &self.staging_dirs, &self.staging_dir_name).is_ok();
            if !is_back {
                let _ = tree::remove(&self.staging_dirs, self.staging_dir_name.as_bytes());
            }
        }
    }
}

/// What the room with this number is called.
pub(super) fn staging_dir_name(number: u64) -> String {
    format!("{number:016x}")
}

/// Moves what a room holds to where it is kept for its owner to find, under a new name; `None` if it is not there.
pub(super) fn rescue(room: BorrowedFd<'_>, name: &str, kept: &Dir) -> HostResult<Option<String>> {
    let now = SystemClock.now().as_millis();
    let to = format!("{now}-{:08x}", fastrand::u32(..));
    match owner_access::rename_new((room, name.as_bytes()), (kept.as_fd(), to.as_bytes())) {
        Err(Errno::NOENT) => Ok(None),
        result => result.map(|()| Some(to)),
    }
}

/// Something in the room that is thrown away unless it is put somewhere.
#[derive(Debug)]
pub(super) struct TempEntry {
    staging: Arc<StagingArea>,
    name: String,
    is_placed: bool,
}

impl TempEntry {
    pub(super) fn new(shop: &Arc<StagingArea>, name: String) -> Self {
        TempEntry { staging: shop.clone(), name, is_placed: false }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whatever has this name from now on is someone else's to throw away.
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

/// A file that nobody sees yet.
#[derive(Debug)]
pub(super) struct TempFile {
    pub(super) file: File,
    pub(super) entry: TempEntry,
}

/// The workshop for a root: in the state directory if that is on the same mount, else in the root itself, masked.
fn find_location(root: &Root, state: &Path, confinement: Confinement) -> StoreResult<Dir> {
    let state = sync::make_private_dir(SyncPoint::StateDirectory, state)
        .ok()
        .and_then(|()| Dir::open_ambient(state, confinement).ok())
        .filter(|dir| can_rename_between(root, dir));
    let state = match state {
        Some(dir) => dir,
        None => private_dir(&root.dir, STATE_DIR_NAME).map_err(errno_to_store_error)?,
    };
    let all = private_dir(&state, "physical").map_err(errno_to_store_error)?;
    private_dir(&all, &directory_id(&root.stat)).map_err(errno_to_store_error)
}

/// A directory for this user alone, which may have to be made.
fn private_dir(parent: &Dir, name: &str) -> HostResult<Dir> {
    match host::make_dir(parent.as_fd(), name.as_bytes()) {
        Ok(()) => sync::sync_all(SyncPoint::StagingArea, reopen_dir(parent)?)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    parent.enter(name.as_bytes(), OpenMode::Directory)
}

/// A handle with a reading position of its own.
pub(super) fn reopen_dir(dir: &Dir) -> HostResult<OwnedFd> {
    dir.open(b"", OpenMode::Directory)
}

/// Drops what has been kept for long enough.
fn prune_rescued(kept: &Dir) {
    let oldest = SystemClock.now().as_secs() - RESCUED_FOR_SECONDS;
    let mut old = Vec::new();
    let Ok(view) = reopen_dir(kept) else { return };
    let listed = host::entries(view, |name, _| {
        let since =
            std::str::from_utf8(name).ok().and_then(|name| name.split('-').next()?.parse::<i64>().ok());
        if since.is_some_and(|millis| Timestamp(millis * 1_000_000).as_secs() < oldest) {
            old.push(name.to_vec());
        }
    });
    if listed.is_ok() {
        for name in old {
            let _ = tree::remove(kept, &name);
        }
    }
}

/// Where the displaced things of a directory lie, if it has a staging area: nothing is made to find that out.
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
    let [past, more] = DISPLACED_DIR_NAMES.map(open);
    Some(DisplacedDirs { primary: past?, overflow: more })
}

/// Whether a rename leads from one to the other: that needs the same mount, and on some file systems the same volume.
fn can_rename_between(root: &Root, dir: &Dir) -> bool {
    host::stat(dir).is_ok_and(|stat| (stat.mount, stat.dev) == (root.stat.mount, root.stat.dev))
}
