//! What the owner of a file may do whatever its mode says.
//!
//! A mode says what may be opened from now on. It does not bind what is open, or the owner, who may set another one. So
//! for files of the user that Stead runs as, a mode is lifted where a call needs more than it allows: the owner's bits are
//! set, the call is made, and the mode is what it was again. Reading for an agent is never such a call: what the host does
//! not let this user read stays unread.
//!
//! Everything here acts on a handle, never on a name that could lead elsewhere by now. A process that is killed between the
//! two system calls leaves the owner's bits set.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use stead_core::store::NodeKind;

use super::host::{self, Errno, HostResult, HostStat, NameAt, OpenMode};
use super::root::Dir;

/// What the owner needs to read a file and to write into it.
const OWNER_FILE_BITS: u32 = 0o600;
/// What the owner needs to list a directory, to reach what is in it and to change its entries.
const OWNER_DIR_BITS: u32 = 0o700;

/// Opens a name although its mode may not allow it. The attributes are those from before.
pub(super) fn open(dir: &Dir, name: &[u8], how: OpenMode) -> HostResult<(OwnedFd, HostStat)> {
    match dir.open(name, how) {
        Err(Errno::ACCESS) => {}
        opened => {
            let opened = opened?;
            let stat = host::stat(&opened)?;
            return Ok((opened, stat));
        }
    }
    let lifted = LiftedMode::of(dir.open(name, OpenMode::Handle)?)?;
    let opened = lifted.open(how)?;
    let before = lifted.restore()?;
    let now = host::stat(&opened)?;
    // The time of the last change says no more than that the mode was lifted, unless another program came in between.
    let is_same = now.has_same_content(&before) && now.mode == before.mode;
    Ok((opened, if is_same { before } else { now }))
}

/// A directory, open, that is within its owner's reach until this is dropped, and so are those on the way to it.
pub(super) struct OwnerAccessDir {
    dir: Dir,
    lifted: Vec<LiftedMode>,
}

impl OwnerAccessDir {
    /// The directory, open, with all modes as they were.
    pub(super) fn into_dir(self) -> Dir {
        self.dir
    }

    /// Leaves the directories open to their owner: they are about to be removed.
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

/// Opens a directory below another one although modes on the way may not allow it, to list it and to reach what is in it.
pub(super) fn enter(dir: &Dir, path: &[u8]) -> HostResult<OwnerAccessDir> {
    let entered = dir.enter(path, OpenMode::Directory).and_then(|entered| {
        // A directory may be open to be listed, and closed to those who ask about what is in it.
        host::stat_at(entered.as_fd(), b".")?;
        Ok(entered)
    });
    match entered {
        Err(Errno::ACCESS) => {}
        entered => return Ok(OwnerAccessDir { dir: entered?, lifted: Vec::new() }),
    }
    let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|_| Errno::MFILE);
    let mut here = dir.clone();
    let mut lifted = vec![LiftedMode::of(copy(dir.as_fd())?)?];
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        let handle = here.open(name, OpenMode::Handle)?;
        here = dir.with_fd(copy(handle.as_fd())?);
        lifted.push(LiftedMode::of(handle)?);
    }
    let last = lifted.last().expect("the directory itself is the first").open(OpenMode::Directory)?;
    Ok(OwnerAccessDir { dir: dir.with_fd(last), lifted })
}

/// [`enter`] as far as modes allow it.
pub(super) fn enter_as_allowed(dir: &Dir, path: &[u8]) -> HostResult<OwnerAccessDir> {
    Ok(OwnerAccessDir { dir: dir.enter(path, OpenMode::Directory)?, lifted: Vec::new() })
}

/// Renames to a name that nothing has.
pub(super) fn rename_new(from: NameAt<'_>, to: NameAt<'_>) -> HostResult<()> {
    rename(from, || host::rename_new(from, to))
}

/// Renames over whatever may have the name.
pub(super) fn rename_over(from: NameAt<'_>, to: NameAt<'_>) -> HostResult<()> {
    rename(from, || host::rename_over(from, to))
}

/// The host moves a directory into another one only if it may be written to itself.
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

/// A file or directory whose owner may do everything with it until this is dropped, if it is this user's.
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
        // Nobody but the owner may, and others may not have to.
        let is_lifted =
            before.mode & needed != needed && host::set_mode(&handle, before.mode | needed).is_ok();
        Ok(LiftedMode { handle, before, is_lifted })
    }

    fn open(&self, how: OpenMode) -> HostResult<OwnedFd> {
        host::reopen(self.handle.as_fd(), how)
    }

    /// Sets the mode that it had, and returns the attributes from before.
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
            // Nobody is left to be told, and what may be left are rights of the owner.
            let _ = host::set_mode(&self.handle, self.before.mode);
        }
    }
}
