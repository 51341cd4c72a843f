//! Access to files that Stead's user owns but whose mode forbids it.
//!
//! A mode decides what may be opened from now on. It doesn't bind open files, or the owner, who may change the mode. So
//! if a call needs more than the mode of such a file allows, the owner's bits are set, the call is made, and the old
//! mode is restored. Reading for an agent never does this: what the host doesn't let this user read stays unread.
//!
//! Everything here acts on a handle, never on a name that another program could have replaced meanwhile. A process that
//! is killed between the two system calls leaves the owner's bits set.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use stead_core::store::NodeKind;

use super::host::{self, Errno, HostResult, HostStat, NameAt, OpenMode};
use super::root::Dir;

/// The mode bits that the owner needs to read a file and to write to it.
const OWNER_FILE_BITS: u32 = 0o600;
/// The mode bits that the owner needs to list a directory, to reach its entries and to change them.
const OWNER_DIR_BITS: u32 = 0o700;

/// Opens a name even if its mode forbids it. Returns the attributes from before, unless another program changed the
/// file meanwhile.
pub(super) fn open(dir: &Dir, name: &[u8], open_mode: OpenMode) -> HostResult<(OwnedFd, HostStat)> {
    match dir.open(name, open_mode) {
        Err(Errno::ACCESS) => {}
        opened => {
            let opened = opened?;
            let stat = host::stat(&opened)?;
            return Ok((opened, stat));
        }
    }
    let lifted = LiftedMode::of(dir.open(name, OpenMode::Handle)?)?;
    let opened = lifted.open(open_mode)?;
    let before = lifted.restore()?;
    let after = host::stat(&opened)?;
    // Setting the mode has changed the ctime. If nothing else differs, the attributes from before are still right.
    let is_same = after.has_same_content(&before) && after.mode == before.mode;
    Ok((opened, if is_same { before } else { after }))
}

/// An open directory. Until this is dropped, its owner has access to it, and to the directories on the way to it.
pub(super) struct OwnerAccessDir {
    dir: Dir,
    lifted: Vec<LiftedMode>,
}

impl OwnerAccessDir {
    /// Returns the open directory, and restores all modes.
    pub(super) fn into_dir(self) -> Dir {
        self.dir
    }

    /// Keeps the owner's bits set: the directories are about to be removed.
    pub(super) fn keep_lifted(mut self) {
        self.lifted.drain(..).for_each(LiftedMode::keep_lifted);
    }
}

impl Deref for OwnerAccessDir {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        &self.dir
    }
}

/// Opens a directory below another one, to list it and to reach its entries, even if modes on the way forbid it.
pub(super) fn enter(dir: &Dir, path: &[u8]) -> HostResult<OwnerAccessDir> {
    let entered = dir.enter(path, OpenMode::Directory).and_then(|entered| {
        // A directory that may be listed need not let its entries be reached.
        host::stat_at(entered.as_fd(), b".")?;
        Ok(entered)
    });
    match entered {
        Err(Errno::ACCESS) => {}
        entered => return Ok(OwnerAccessDir { dir: entered?, lifted: Vec::new() }),
    }
    let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|_| Errno::MFILE);
    let mut current = dir.clone();
    let mut lifted = vec![LiftedMode::of(copy(dir.as_fd())?)?];
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        let handle = current.open(name, OpenMode::Handle)?;
        current = dir.with_fd(copy(handle.as_fd())?);
        lifted.push(LiftedMode::of(handle)?);
    }
    let last = lifted.last().expect("the directory itself is the first").open(OpenMode::Directory)?;
    Ok(OwnerAccessDir { dir: dir.with_fd(last), lifted })
}

/// Like [`enter`], but only as far as the modes allow it.
pub(super) fn enter_as_allowed(dir: &Dir, path: &[u8]) -> HostResult<OwnerAccessDir> {
    Ok(OwnerAccessDir { dir: dir.enter(path, OpenMode::Directory)?, lifted: Vec::new() })
}

/// Renames to a free name.
pub(super) fn rename_new(from: NameAt<'_>, to: NameAt<'_>) -> HostResult<()> {
    rename(from, || host::rename_new(from, to))
}

/// Renames, and replaces what has the name.
pub(super) fn rename_over(from: NameAt<'_>, to: NameAt<'_>) -> HostResult<()> {
    rename(from, || host::rename_over(from, to))
}

/// Renames even if the mode of a moved directory forbids it: to move a directory into another one, the host has to
/// write to the directory itself.
fn rename(from: NameAt<'_>, rename: impl Fn() -> HostResult<()>) -> HostResult<()> {
    match rename() {
        Err(Errno::ACCESS) => {}
        renamed => return renamed,
    }
    let handle = host::open_name(from.0, from.1, OpenMode::Handle)?;
    if !host::stat(&handle)?.is_dir() {
        return Err(Errno::ACCESS);
    }
    let lifted = LiftedMode::of(handle)?;
    rename()?;
    lifted.restore().map(drop)
}

/// A file or directory of this user whose owner bits are set until this is dropped.
struct LiftedMode {
    handle: OwnedFd,
    before: HostStat,
    is_lifted: bool,
}

impl LiftedMode {
    fn of(handle: OwnedFd) -> HostResult<Self> {
        let before = host::stat(&handle)?;
        let needed = match before.kind {
            NodeKind::File => OWNER_FILE_BITS,
            NodeKind::Directory => OWNER_DIR_BITS,
            NodeKind::Symlink | NodeKind::Special(_) => return Err(Errno::ACCESS),
        };
        // Only the owner may do this. If it fails, the call itself decides whether access is possible.
        let is_lifted =
            before.mode & needed != needed && host::set_mode(&handle, before.mode | needed).is_ok();
        Ok(LiftedMode { handle, before, is_lifted })
    }

    fn open(&self, open_mode: OpenMode) -> HostResult<OwnedFd> {
        host::reopen(self.handle.as_fd(), open_mode)
    }

    /// Restores the mode, and returns the attributes from before.
    fn restore(mut self) -> HostResult<HostStat> {
        if std::mem::take(&mut self.is_lifted) {
            host::set_mode(&self.handle, self.before.mode)?;
        }
        Ok(self.before)
    }

    fn keep_lifted(mut self) {
        self.is_lifted = false;
    }
}

impl Drop for LiftedMode {
    fn drop(&mut self) {
        if self.is_lifted {
            // A failure can't be reported from here. It leaves only bits of the owner set.
            let _ = host::set_mode(&self.handle, self.before.mode);
        }
    }
}
