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
    staging_dirs: &Dir,
    name: &str,
    locks: &Locks,
) -> StoreResult<StagingDir> {
    // Its name is synced by the first change, so that a process that only reads need not wait for the disk.
    let created = host::make_dir(staging_dirs.as_fd(), name.as_bytes()).map_err(errno_to_store_error);
    match created.and_then(|()| open(staging_dirs, name, locks)) {
        Ok(staging_dir) => {
            make_spare(top);
            Ok(staging_dir)
        }
        Err(StoreError::NoSpace) => {
            let _ = tree::remove(staging_dirs, name.as_bytes());
            let spare = (top.as_fd(), SPARE_NAME.as_bytes());
            match host::rename_new(spare, (staging_dirs.as_fd(), name.as_bytes())) {
                Err(Errno::NOENT) => return Err(StoreError::NoSpace),
                renamed => renamed.map_err(errno_to_store_error)?,
            }
            Ok(StagingDir { is_spare: true, ..open(staging_dirs, name, locks)? })
        }
        Err(error) => Err(error),
    }
}

fn open(staging_dirs: &Dir, name: &str, locks: &Locks) -> StoreResult<StagingDir> {
    let dir = staging_dirs.enter(name.as_bytes(), OpenMode::Directory).map_err(errno_to_store_error)?;
    let lock = host::open_or_create(dir.as_fd(), "lock").map_err(errno_to_store_error)?;
    host::lock(&lock, LockMode::Exclusive, locks.wait_deadline()).map_err(errno_to_store_error)?;
    if let Some(boot) = boot::id() {
        lock.write_all_at(&boot, 0).map_err(io_to_store_error)?;
    }
    let revision_notes = RevisionNotes::new(dir.as_fd())?;
    Ok(StagingDir { dir, lock, revision_notes, is_spare: false })
}

/// Makes the spare staging directory, unless there is one. A failure, such as a full disk, is ignored.
fn make_spare(top: &Dir) {
    if host::stat_at(top.as_fd(), SPARE_NAME.as_bytes()).is_ok() {
        return;
    }
    let make = || -> StoreResult<()> {
        tree::remove(top, UNFINISHED_SPARE_NAME.as_bytes()).map_err(errno_to_store_error)?;
        host::make_dir(top.as_fd(), UNFINISHED_SPARE_NAME.as_bytes()).map_err(errno_to_store_error)?;
        let staging_dir =
            top.enter(UNFINISHED_SPARE_NAME.as_bytes(), OpenMode::Directory).map_err(errno_to_store_error)?;
        let lock = host::create(staging_dir.as_fd(), b"lock").map_err(errno_to_store_error)?;
        lock.write_all_at(&[0; 64], 0).map_err(io_to_store_error)?;
        RevisionNotes::new(staging_dir.as_fd())?;
        intent_log::make_spare_intent_log(staging_dir.as_fd(), SPARE_INTENT_LOG.as_bytes())?;
        let (from, to) =
            ((top.as_fd(), UNFINISHED_SPARE_NAME.as_bytes()), (top.as_fd(), SPARE_NAME.as_bytes()));
        host::rename_new(from, to).map_err(errno_to_store_error)
    };
    if make().is_err() {
        let _ = tree::remove(top, UNFINISHED_SPARE_NAME.as_bytes());
    }
}

/// Takes a spare intent log and gives it this name in `staging_dir`: the log of `staging_dir` itself if that was the
/// spare directory, otherwise that of the spare directory.
pub(super) fn take_spare_intent_log(top: &Dir, staging_dir: &Dir, name: &str) -> StoreResult<File> {
    let own_spare = host::rename_new(
        (staging_dir.as_fd(), SPARE_INTENT_LOG.as_bytes()),
        (staging_dir.as_fd(), name.as_bytes()),
    );
    let renamed = own_spare.or_else(|_| {
        let spare = top.enter(SPARE_NAME.as_bytes(), OpenMode::Traverse)?;
        host::rename_new((spare.as_fd(), SPARE_INTENT_LOG.as_bytes()), (staging_dir.as_fd(), name.as_bytes()))
    });
    renamed.map_err(|_| StoreError::NoSpace)?;
    Ok(staging_dir.open(name.as_bytes(), OpenMode::ReadWrite).map_err(errno_to_store_error)?.into())
}

/// Clears the spare staging directory, but keeps its files with their blocks, and puts it back for the next process.
pub(super) fn return_spare(top: &Dir, staging_dirs: &Dir, name: &str) -> StoreResult<()> {
    let staging_dir =
        staging_dirs.enter(name.as_bytes(), OpenMode::Directory).map_err(errno_to_store_error)?;
    let names = tree::names(&staging_dir).map_err(errno_to_store_error)?;
    for (name, _) in names {
        match &*name {
            b"lock" => {}
            b"acted" => RevisionNotes::new(staging_dir.as_fd())?.clear()?,
            log if log.starts_with(b"j") => {
                // Its change has ended: the next process must not read the records as its own.
                let file =
                    File::from(staging_dir.open(log, OpenMode::ReadWrite).map_err(errno_to_store_error)?);
                file.write_all_at(&[0; 32], 0).map_err(io_to_store_error)?;
                let renamed = host::rename_new(
                    (staging_dir.as_fd(), log),
                    (staging_dir.as_fd(), SPARE_INTENT_LOG.as_bytes()),
                );
                if renamed.is_err() && log != SPARE_INTENT_LOG.as_bytes() {
                    tree::remove(&staging_dir, log).map_err(errno_to_store_error)?;
                }
            }
            other => tree::remove(&staging_dir, other).map_err(errno_to_store_error)?,
        }
    }
    let (from, to) = ((staging_dirs.as_fd(), name.as_bytes()), (top.as_fd(), SPARE_NAME.as_bytes()));
    host::rename_new(from, to).map_err(errno_to_store_error)
}
