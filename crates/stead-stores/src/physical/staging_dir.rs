//! The staging directory of one process, and the spare one for a full disk.
//!
//! On a full disk, files can still be removed and moved, and changes undone, although each process needs a staging
//! directory for that. So the staging area has a spare one, whose lock file, notes about revisions and intent log have
//! their blocks allocated. A process that can't make a staging directory takes the spare one, and puts it back when it
//! ends: its blocks are never given back to the host, where another program could take them.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use stead_core::store::{StoreError, StoreResult};

use super::host::{self, Errno, LockMode, OpenMode, errno_to_store_error, io_to_store_error};
use super::intent_log;
use super::lock::Locks;
use super::recover::RevisionNotes;
use super::root::Dir;
use super::tree;
use crate::boot;

/// The name of the spare staging directory, in the staging area.
const SPARE_NAME: &str = "spare";
/// The name of the spare staging directory while it is being made.
const UNFINISHED_SPARE_NAME: &str = "spare-new";
/// The name of the intent log in a spare staging directory.
const SPARE_INTENT_LOG: &str = "j-spare";

/// A staging directory that this process has locked.
pub(super) struct StagingDir {
    pub(super) dir: Dir,
    pub(super) lock: File,
    pub(super) revision_notes: RevisionNotes,
    /// Whether it is the spare one, which is put back at the end.
    pub(super) is_spare: bool,
}

/// Makes a staging directory with this name, or takes the spare one if the disk is full. The caller must hold the
/// `opening` lock.
pub(super) fn make_or_take_spare(
    top: &Dir,
    rooms: &Dir,
    name: &str,
    locks: &Locks,
) -> StoreResult<StagingDir> {
    // Its name is synced by the first change, so that a process that only reads need not wait for the disk.
    let made = host::make_dir(rooms.as_fd(), name.as_bytes()).map_err(errno_to_store_error);
    match made.and_then(|()| open(rooms, name, locks)) {
        Ok(room) => {
            make_spare(top);
            Ok(room)
        }
        Err(StoreError::NoSpace) => {
            let _ = tree::remove(rooms, name.as_bytes());
            let spare = (top.as_fd(), SPARE_NAME.as_bytes());
            match host::rename_new(spare, (rooms.as_fd(), name.as_bytes())) {
                Err(Errno::NOENT) => return Err(StoreError::NoSpace),
                taken => taken.map_err(errno_to_store_error)?,
            }
            Ok(StagingDir { is_spare: true, ..open(rooms, name, locks)? })
        }
        Err(error) => Err(error),
    }
}

fn open(rooms: &Dir, name: &str, locks: &Locks) -> StoreResult<StagingDir> {
    let dir = rooms.enter(name.as_bytes(), OpenMode::Directory).map_err(errno_to_store_error)?;
    let lock = host::open_or_create(dir.as_fd(), "lock").map_err(errno_to_store_error)?;
    host::lock(&lock, LockMode::Exclusive, locks.wait_deadline()).map_err(errno_to_store_error)?;
    if let Some(boot) = boot::id() {
        lock.write_all_at(&boot, 0).map_err(io_to_store_error)?;
    }
    let noted = RevisionNotes::new(dir.as_fd())?;
    Ok(StagingDir { dir, lock, revision_notes: noted, is_spare: false })
}

/// Makes the spare staging directory, unless there is one. A failure, such as a full disk, is ignored.
fn make_spare(top: &Dir) {
    if host::stat_at(top.as_fd(), SPARE_NAME.as_bytes()).is_ok() {
        return;
    }
    let make = || -> StoreResult<()> {
        tree::remove(top, UNFINISHED_SPARE_NAME.as_bytes()).map_err(errno_to_store_error)?;
        host::make_dir(top.as_fd(), UNFINISHED_SPARE_NAME.as_bytes()).map_err(errno_to_store_error)?;
        let room =
            top.enter(UNFINISHED_SPARE_NAME.as_bytes(), OpenMode::Directory).map_err(errno_to_store_error)?;
        let lock = host::create(room.as_fd(), b"lock").map_err(errno_to_store_error)?;
        lock.write_all_at(&[0; 64], 0).map_err(io_to_store_error)?;
        RevisionNotes::new(room.as_fd())?;
        intent_log::make_spare_intent_log(room.as_fd(), SPARE_INTENT_LOG.as_bytes())?;
        let (from, to) =
            ((top.as_fd(), UNFINISHED_SPARE_NAME.as_bytes()), (top.as_fd(), SPARE_NAME.as_bytes()));
        host::rename_new(from, to).map_err(errno_to_store_error)
    };
    if make().is_err() {
        let _ = tree::remove(top, UNFINISHED_SPARE_NAME.as_bytes());
    }
}

/// Takes a spare intent log and gives it this name in `room`: the log of `room` itself if that was the spare directory,
/// otherwise that of the spare directory.
pub(super) fn take_spare_intent_log(top: &Dir, room: &Dir, name: &str) -> StoreResult<File> {
    let own = host::rename_new((room.as_fd(), SPARE_INTENT_LOG.as_bytes()), (room.as_fd(), name.as_bytes()));
    let taken = own.or_else(|_| {
        let spare = top.enter(SPARE_NAME.as_bytes(), OpenMode::Traverse)?;
        host::rename_new((spare.as_fd(), SPARE_INTENT_LOG.as_bytes()), (room.as_fd(), name.as_bytes()))
    });
    taken.map_err(|_| StoreError::NoSpace)?;
    Ok(room.open(name.as_bytes(), OpenMode::ReadWrite).map_err(errno_to_store_error)?.into())
}

/// Clears the spare staging directory, but keeps its files with their blocks, and puts it back for the next process.
pub(super) fn return_spare(top: &Dir, rooms: &Dir, name: &str) -> StoreResult<()> {
    let room = rooms.enter(name.as_bytes(), OpenMode::Directory).map_err(errno_to_store_error)?;
    let names = tree::names(&room).map_err(errno_to_store_error)?;
    for (name, _) in names {
        match &*name {
            b"lock" => {}
            b"acted" => RevisionNotes::new(room.as_fd())?.clear()?,
            log if log.starts_with(b"j") => {
                // Its change has ended: the next process must not read the records as its own.
                let file = File::from(room.open(log, OpenMode::ReadWrite).map_err(errno_to_store_error)?);
                file.write_all_at(&[0; 32], 0).map_err(io_to_store_error)?;
                let named =
                    host::rename_new((room.as_fd(), log), (room.as_fd(), SPARE_INTENT_LOG.as_bytes()));
                if named.is_err() && log != SPARE_INTENT_LOG.as_bytes() {
                    tree::remove(&room, log).map_err(errno_to_store_error)?;
                }
            }
            other => tree::remove(&room, other).map_err(errno_to_store_error)?,
        }
    }
    let (from, to) = ((rooms.as_fd(), name.as_bytes()), (top.as_fd(), SPARE_NAME.as_bytes()));
    host::rename_new(from, to).map_err(errno_to_store_error)
}
