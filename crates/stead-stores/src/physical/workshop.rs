//! Where changes are prepared and displaced files wait: a directory of Stead's own on the root's mount.
//!
//! Every open Store has a room in it, which it holds locked for as long as it lives. A room that nobody has locked
//! belonged to a process that died: what it left half done is undone, and the rest is thrown away.
//!
//! ```text
//! locks/           lock files
//! opening          held while a Store opens
//! rooms/<id>/      lock, journals (j…), content on its way in or out (t…)
//! kept/            content that lost against another program's, or was taken back after a crash
//! past/            what changes have displaced, as <version>-<number>, where there is a ledger
//! ```

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use stead_core::store::{StoreError, StoreResult};
use stead_core::{Clock, Edit, SystemClock, Timestamp};

use super::host::{self, Errno, Host, How, Lock, refused};
use super::journal::{Journal, repair};
use super::keep::{Fates, Home, Keeping, Remains, fates, id};
use super::life::Life;
use super::lock::Locks;
use super::mask::STATE;
use super::options::{Confinement, PhysicalOptions};
use super::root::{Dir, Root};
use super::together::Together;
use super::tree;
use crate::Durability;
use crate::sync::{self, Site};

/// How long content is kept that lost against another program's.
const KEPT_FOR_SECONDS: i64 = 14 * 24 * 3600;
/// How many journals stay open for the next change.
const SPARE_JOURNALS: usize = 8;

/// One Store's part of the workshop.
#[derive(Debug)]
pub(super) struct Workshop {
    pub(super) locks: Locks,
    pub(super) edits: Together<Edit>,
    pub(super) appends: Together<Vec<u8>>,
    pub(super) life: Arc<Life>,
    /// Who this process is to the host.
    pub(super) uid: u32,
    rooms: Dir,
    room: Dir,
    name: String,
    kept: Dir,
    /// `None` without a ledger.
    pub(super) keeping: Option<Keeping>,
    next: AtomicU64,
    journals: Mutex<Vec<Journal>>,
    /// Whether the room's name is on the disk.
    is_named: AtomicBool,
    _lock: File,
}

impl Workshop {
    /// Opens the workshop, and repairs what others have left behind.
    pub(super) fn open(
        root: &Root,
        path: &Path,
        state: &Path,
        options: &PhysicalOptions,
        life: Arc<Life>,
    ) -> StoreResult<Arc<Self>> {
        let top = find(root, state, options.confinement)?;
        let locks = own_dir(&top, "locks").and_then(|dir| dir.open(b"", How::Directory)).map_err(refused)?;
        let locks = Locks::new(locks, options.patience).map_err(refused)?;
        let rooms = own_dir(&top, "rooms").map_err(refused)?;
        let kept = own_dir(&top, "kept").map_err(refused)?;
        let keeping = match &options.ledger {
            Some(ledger) => {
                let past = own_dir(&top, "past").map_err(refused)?;
                let home = Home::new(root, path, state, &options.hold);
                Some(Keeping::new(ledger.clone(), home, options.keep, top.clone(), past))
            }
            None => None,
        };

        // One at a time: a room without a lock is a dead one, and nobody may see ours before it is locked.
        let opening = host::open_or_create(top.as_fd(), "opening").map_err(refused)?;
        host::lock(&opening, Lock::Exclusive, locks.until()).map_err(refused)?;
        let dead = dead_rooms(&rooms).map_err(refused)?;
        if !dead.is_empty() {
            let _alone = locks.alone()?;
            // What the journals tell is asked for before they are cleared, and what the rooms hold before they are.
            let fates = dead.iter().map(|room| fates(root, &room.dir, &kept));
            let fates = fates.collect::<StoreResult<Vec<_>>>()?;
            if let Some(keeping) = &keeping {
                let remains: Vec<_> =
                    dead.iter().zip(&fates).map(|(room, fates)| room.remains(fates)).collect();
                keeping.reconcile(root, &kept, &remains, &living(&rooms, &dead).map_err(refused)?)?;
            }
            for room in &dead {
                repair(root, &room.dir, &kept)?;
            }
        }
        let name = format!("{:016x}", fastrand::u64(..));
        // Synced by the first change: whoever only reads need not wait for the disk.
        host::make_dir(rooms.as_fd(), name.as_bytes()).map_err(refused)?;
        let room = rooms.enter(name.as_bytes(), How::Directory).map_err(refused)?;
        let lock = host::open_or_create(room.as_fd(), "lock").map_err(refused)?;
        host::lock(&lock, Lock::Exclusive, locks.until()).map_err(refused)?;
        let uid = host::stat(&lock).map_err(refused)?.uid;
        drop(opening);

        for room in &dead {
            // Nothing in it matters any more; what can't be removed now is tried again by the next one.
            let _ = tree::remove(&rooms, room.name.as_bytes());
        }
        drop(dead);
        prune(&kept);
        Ok(Arc::new(Workshop {
            locks,
            edits: Together::default(),
            appends: Together::default(),
            life,
            uid,
            rooms,
            room,
            name,
            kept,
            keeping,
            next: AtomicU64::new(0),
            journals: Mutex::new(Vec::new()),
            is_named: AtomicBool::new(false),
            _lock: lock,
        }))
    }

    /// Has the room's name reach the disk before the first change: recovery has to find what a change leaves in it.
    pub(super) fn sync_name(&self) -> StoreResult<()> {
        if !self.is_named.load(Ordering::Acquire) {
            own_view(&self.rooms).and_then(|rooms| sync::all(Site::StagingRoom, rooms)).map_err(refused)?;
            self.is_named.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// What the room is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn room(&self) -> BorrowedFd<'_> {
        self.room.as_fd()
    }

    pub(super) fn room_dir(&self) -> &Dir {
        &self.room
    }

    pub(super) fn kept(&self) -> &Dir {
        &self.kept
    }

    /// A name in the room that nothing had before.
    pub(super) fn fresh(&self) -> String {
        format!("t{}", self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// An empty file that nobody sees.
    pub(super) fn temp(self: &Arc<Self>) -> StoreResult<Temp> {
        let name = self.fresh();
        let file = host::create(self.room(), name.as_bytes()).map_err(refused)?;
        Ok(Temp { file, spot: Scrap::new(self, name) })
    }

    /// A journal to write to.
    pub(super) fn journal(&self, durability: Durability) -> StoreResult<Journal> {
        if let Some(journal) = self.journals.lock().pop() {
            return Ok(journal);
        }
        let name = format!("j{}", self.next.fetch_add(1, Ordering::Relaxed));
        Journal::create(self.room(), name, durability)
    }

    /// Takes back a journal that has been cleared.
    pub(super) fn give_back(&self, journal: Journal) {
        let mut journals = self.journals.lock();
        if journals.len() < SPARE_JOURNALS {
            journals.push(journal);
        } else {
            let _ = host::unlink(self.room(), journal.name().as_bytes());
        }
    }

    /// Throws something in the room away. A failure leaves it to whoever opens next.
    pub(super) fn discard(&self, name: &str) {
        if self.life.is_over() {
            return;
        }
        if let Err(Errno::ISDIR | Errno::PERM) = host::unlink(self.room(), name.as_bytes()) {
            let _ = tree::remove(&self.room, name.as_bytes());
        }
    }

    /// Dead rooms that hold an unfinished change, for [`stead_core::Store::verify`].
    pub(super) fn unfinished(&self) -> Host<usize> {
        let dead = dead_rooms(&self.rooms)?;
        Ok(dead.iter().filter(|room| super::journal::is_open(&room.dir)).count())
    }

    /// How many bytes are kept of content that lost.
    pub(super) fn kept_bytes(&self) -> u64 {
        tree::size(&self.kept)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if self.life.is_over() {
            return;
        }
        // What the ledger could not be told is found out by what is in the room, so then it stays.
        if self.keeping.as_ref().is_none_or(|keeping| keeping.close().is_ok()) {
            let _ = tree::remove(&self.rooms, self.name.as_bytes());
        }
    }
}

/// Moves what a room holds to where it is kept for its owner to find.
pub(super) fn keep(room: BorrowedFd<'_>, name: &str, kept: &Dir) -> Host<()> {
    let now = SystemClock.now().as_millis();
    let to = format!("{now}-{:08x}", fastrand::u32(..));
    match host::rename_new((room, name.as_bytes()), (kept.as_fd(), to.as_bytes())) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

/// Something in the room that is thrown away unless it is put somewhere.
#[derive(Debug)]
pub(super) struct Scrap {
    shop: Arc<Workshop>,
    name: String,
    used: bool,
}

impl Scrap {
    pub(super) fn new(shop: &Arc<Workshop>, name: String) -> Self {
        Scrap { shop: shop.clone(), name, used: false }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whatever has this name from now on is someone else's to throw away.
    pub(super) fn used(&mut self) {
        self.used = true;
    }
}

impl Drop for Scrap {
    fn drop(&mut self) {
        if !self.used {
            self.shop.discard(&self.name);
        }
    }
}

/// A file that nobody sees yet.
#[derive(Debug)]
pub(super) struct Temp {
    pub(super) file: File,
    pub(super) spot: Scrap,
}

/// The workshop for a root: in the state directory if that is on the same mount, else in the root itself, masked.
fn find(root: &Root, state: &Path, confinement: Confinement) -> StoreResult<Dir> {
    let state = sync::make_private(Site::StateDirectory, state)
        .ok()
        .and_then(|()| Dir::open_ambient(state, confinement).ok())
        .filter(|dir| {
            // A rename needs the same mount, and on some file systems the same volume as well.
            host::stat(dir).is_ok_and(|stat| (stat.mount, stat.dev) == (root.stat.mount, root.stat.dev))
        });
    let state = match state {
        Some(dir) => dir,
        None => own_dir(&root.dir, STATE).map_err(refused)?,
    };
    let all = own_dir(&state, "physical").map_err(refused)?;
    own_dir(&all, &id(&root.stat)).map_err(refused)
}

/// A directory for this user alone, which may have to be made.
fn own_dir(parent: &Dir, name: &str) -> Host<Dir> {
    match host::make_dir(parent.as_fd(), name.as_bytes()) {
        Ok(()) => sync::all(Site::StagingArea, own_view(parent)?)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    parent.enter(name.as_bytes(), How::Directory)
}

struct DeadRoom {
    name: String,
    dir: Dir,
    /// Held, so that nobody else takes it for dead, too.
    _lock: Option<File>,
}

impl DeadRoom {
    fn remains<'a>(&'a self, fates: &'a Fates) -> Remains<'a> {
        Remains { name: &self.name, dir: &self.dir, fates }
    }
}

/// The rooms that someone has locked.
fn living(rooms: &Dir, dead: &[DeadRoom]) -> Host<HashSet<String>> {
    let mut names = HashSet::new();
    host::entries(own_view(rooms)?, |name, _| names.extend(String::from_utf8(name.to_vec())))?;
    names.retain(|name| dead.iter().all(|room| room.name != *name));
    Ok(names)
}

fn dead_rooms(rooms: &Dir) -> Host<Vec<DeadRoom>> {
    let mut names = Vec::new();
    host::entries(own_view(rooms)?, |name, _| names.extend(String::from_utf8(name.to_vec())))?;
    let mut dead = Vec::new();
    for name in names {
        let Ok(dir) = rooms.enter(name.as_bytes(), How::Directory) else { continue };
        let lock = match dir.open(b"lock", How::Change) {
            Ok(fd) => Some(File::from(fd)),
            Err(Errno::NOENT) => None,
            Err(_) => continue,
        };
        if lock.as_ref().is_none_or(|lock| host::try_lock(lock).unwrap_or(false)) {
            dead.push(DeadRoom { name, dir, _lock: lock });
        }
    }
    Ok(dead)
}

/// A handle with a reading position of its own.
fn own_view(dir: &Dir) -> Host<OwnedFd> {
    dir.open(b"", How::Directory)
}

/// Drops what has been kept for long enough.
fn prune(kept: &Dir) {
    let oldest = SystemClock.now().as_secs() - KEPT_FOR_SECONDS;
    let mut old = Vec::new();
    let Ok(view) = own_view(kept) else { return };
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

/// What a Store without a workshop answers to a change.
pub(super) fn missing() -> StoreError {
    StoreError::HostDenied
}
