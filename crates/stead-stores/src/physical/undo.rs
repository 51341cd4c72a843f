//! How each action of a change is taken back: at once when a later step fails, or at the next open after a crash.
//!
//! An action may have happened or not, and other programs may have been at work since. So each case looks first, acts
//! only on what the action itself has left, and never lets content go: what can't go back is kept.

use std::os::fd::{AsFd, BorrowedFd};

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use stead_core::store::{Kind, StoreError, StoreResult};

use super::host::{self, At, Errno, Host, How, Stat, refused};
use super::mask::split;
use super::patch::{self, Fate, Looks, Patch};
use super::root::{self, Dir, Root};
use super::workshop::keep;

/// An action, and what it takes to undo it. Paths start at the root; a `stash` is a name in the room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Undo {
    /// What was in the stash was put where nothing was.
    Placed { at: Vec<u8>, stash: String, ino: u64 },
    /// What was in the stash and what was there changed places.
    Swapped { at: Vec<u8>, stash: String, ours: u64, theirs: u64 },
    /// What was there went into the stash.
    Taken { at: Vec<u8>, stash: String },
    /// Something got another name, which nothing had.
    Moved { from: Vec<u8>, to: Vec<u8>, ino: u64 },
    /// Something got another name. What had it before is in the stash as well, unless it was an empty directory.
    Over { from: Vec<u8>, to: Vec<u8>, ino: u64, stash: Option<String> },
    /// Two names changed places.
    Crossed { from: Vec<u8>, to: Vec<u8>, from_ino: u64, to_ino: u64 },
    /// A file was written into.
    Patched { at: Vec<u8>, patch: Patch },
    /// Mode and time were set.
    Dressed { at: Vec<u8>, ino: u64, before: Looks, after: Looks, alone: bool },
}

/// When an action is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// By the change that did it.
    Now,
    /// By whoever opens the Store after a crash. People may have gone on working with what was there.
    Later {
        /// When the last record was written.
        written: Timestamp,
    },
}

/// Where actions are undone.
pub(super) struct Site<'a> {
    pub(super) root: &'a Root,
    pub(super) room: BorrowedFd<'a>,
    pub(super) kept: &'a Dir,
    pub(super) moment: Moment,
}

/// A path's parent, open, and its last name.
struct Spot<'a> {
    dir: Dir,
    name: &'a [u8],
}

impl Spot<'_> {
    fn at(&self) -> At<'_> {
        (self.dir.as_fd(), self.name)
    }

    fn has(&self, ino: u64) -> StoreResult<bool> {
        Ok(seen(self.dir.stat_at(self.name))?.is_some_and(|stat| stat.ino == ino))
    }
}

fn seen(stat: Host<Stat>) -> StoreResult<Option<Stat>> {
    match stat {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

impl Site<'_> {
    /// `None` if the directory is not there any more.
    fn spot<'p>(&self, path: &'p [u8]) -> StoreResult<Option<Spot<'p>>> {
        let (parent, name) = split(path);
        match root::enter(&self.root.dir, parent, How::Base) {
            Ok(dir) => Ok(Some(Spot { dir, name })),
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn stash<'p>(&'p self, name: &'p str) -> At<'p> {
        (self.room, name.as_bytes())
    }

    fn stashed(&self, name: &str) -> StoreResult<Option<Stat>> {
        seen(host::stat_at(self.room, name.as_bytes()))
    }

    fn keep(&self, stash: &str) -> StoreResult<()> {
        keep(self.room, stash, self.kept).map_err(refused)
    }
}

/// Takes one action back, if it happened.
pub(super) fn undo(site: &Site<'_>, action: &Undo) -> StoreResult<()> {
    match action {
        Undo::Placed { at, stash, ino } => {
            let Some(spot) = site.spot(at)? else { return Ok(()) };
            if site.stashed(stash)?.is_some() || !spot.has(*ino)? {
                return Ok(());
            }
            host::rename_new(spot.at(), site.stash(stash)).map_err(refused)?;
            // Later, someone may have written into it: it is taken back, but not thrown away.
            if site.moment == Moment::Now { Ok(()) } else { site.keep(stash) }
        }
        Undo::Swapped { at, stash, ours, theirs } => {
            if site.stashed(stash)?.is_none_or(|stat| stat.ino != *theirs) {
                return Ok(());
            }
            match site.spot(at)? {
                Some(spot) if spot.has(*ours)? => {
                    host::exchange(site.stash(stash), spot.at()).map_err(refused)?;
                    if site.moment == Moment::Now { Ok(()) } else { site.keep(stash) }
                }
                _ => site.keep(stash),
            }
        }
        Undo::Taken { at, stash } => {
            if site.stashed(stash)?.is_none() {
                return Ok(());
            }
            let Some(spot) = site.spot(at)? else { return site.keep(stash) };
            match host::rename_new(site.stash(stash), spot.at()) {
                Err(Errno::EXIST | Errno::NOENT) => site.keep(stash),
                result => result.map_err(refused),
            }
        }
        Undo::Moved { from, to, ino } => {
            let (Some(from), Some(to)) = (site.spot(from)?, site.spot(to)?) else { return Ok(()) };
            if !to.has(*ino)? {
                return Ok(());
            }
            match host::rename_new(to.at(), from.at()) {
                // Someone has taken the old name: it stays where it is.
                Err(Errno::EXIST) => Ok(()),
                result => result.map_err(refused),
            }
        }
        Undo::Over { from, to, ino, stash } => {
            let (Some(from), Some(to)) = (site.spot(from)?, site.spot(to)?) else { return Ok(()) };
            if !to.has(*ino)? {
                return Ok(());
            }
            match host::rename_new(to.at(), from.at()) {
                // Someone has taken the old name: it stays where it is.
                Err(Errno::EXIST) => return Ok(()),
                result => result.map_err(refused)?,
            }
            let Some(stash) = stash else { return Ok(()) };
            match host::rename_new(site.stash(stash), to.at()) {
                Err(Errno::EXIST) => site.keep(stash),
                Err(Errno::NOENT) => Ok(()),
                result => result.map_err(refused),
            }
        }
        Undo::Crossed { from, to, from_ino, to_ino } => {
            let (Some(from), Some(to)) = (site.spot(from)?, site.spot(to)?) else { return Ok(()) };
            if from.has(*to_ino)? && to.has(*from_ino)? {
                host::exchange(from.at(), to.at()).map_err(refused)?;
            }
            Ok(())
        }
        Undo::Patched { at, patch } => {
            let Some(spot) = site.spot(at)? else { return Ok(()) };
            let there = seen(spot.dir.stat_at(spot.name))?;
            if there.is_some_and(|stat| stat.ino == patch.ino && stat.kind == Kind::File) {
                let file = spot.dir.open(spot.name, How::Change).map_err(refused)?;
                patch::revert(&file.into(), patch, site.room, site.moment)?;
            }
            Ok(())
        }
        Undo::Dressed { at, ino, before, after, alone } => {
            let Some(spot) = site.spot(at)? else { return Ok(()) };
            let Some(stat) = seen(spot.dir.stat_at(spot.name))?.filter(|stat| stat.ino == *ino) else {
                return Ok(());
            };
            let complete = (stat.mode, stat.modified) == (after.mode, after.modified);
            if site.moment != Moment::Now && *alone && complete {
                return Ok(());
            }
            host::set_modified_at(spot.dir.as_fd(), spot.name, before.modified).map_err(refused)?;
            let how = match stat.kind {
                Kind::Directory => How::Directory,
                Kind::File => How::Read,
                Kind::Symlink | Kind::Special(_) => return Ok(()),
            };
            let fd = spot.dir.open(spot.name, how).map_err(refused)?;
            host::set_mode(fd, before.mode).map_err(refused)
        }
    }
}

/// Whether an action happened that was the only one of its change, by what it has left in the room or on the way.
///
/// What is at its place now tells little: others may have gone on from there.
pub(super) fn happened(site: &Site<'_>, action: &Undo) -> StoreResult<bool> {
    Ok(match action {
        Undo::Placed { stash, .. } => site.stashed(stash)?.is_none(),
        Undo::Swapped { stash, ours, .. } => site.stashed(stash)?.is_none_or(|stat| stat.ino != *ours),
        Undo::Taken { stash, .. } => site.stashed(stash)?.is_some(),
        Undo::Moved { from, ino, .. }
        | Undo::Over { from, ino, .. }
        | Undo::Crossed { from, from_ino: ino, .. } => match site.spot(from)? {
            Some(from) => !from.has(*ino)?,
            None => true,
        },
        Undo::Patched { at, patch } => {
            let Some(spot) = site.spot(at)? else { return Ok(true) };
            match seen(spot.dir.stat_at(spot.name))? {
                Some(stat) if stat.ino == patch.ino && stat.kind == Kind::File => {
                    let file = spot.dir.open(spot.name, How::Read).map_err(refused)?;
                    patch::fate(&file.into(), &stat, patch, site.moment)? != Fate::Open
                }
                _ => true,
            }
        }
        Undo::Dressed { at, ino, after, .. } => match site.spot(at)? {
            Some(spot) => seen(spot.dir.stat_at(spot.name))?.is_none_or(|stat| {
                stat.ino != *ino || (stat.mode, stat.modified) == (after.mode, after.modified)
            }),
            None => true,
        },
    })
}

impl Undo {
    /// The name in the room that holds, or will hold, what the action displaces.
    pub(super) fn displaces(&self) -> Option<&str> {
        match self {
            Undo::Swapped { stash, .. } | Undo::Taken { stash, .. } => Some(stash),
            Undo::Over { stash, .. } => stash.as_deref(),
            Undo::Patched { patch, .. } => patch.stash.as_deref(),
            Undo::Placed { .. } | Undo::Moved { .. } | Undo::Crossed { .. } | Undo::Dressed { .. } => None,
        }
    }
}
