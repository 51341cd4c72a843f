//! From a place to a directory handle and a name, without ever leaving the root.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use stead_core::store::{Kind, LinkHit, StoreError, StoreResult};

use super::confine::Opener;
use super::host::{self, Errno, Host, How, Stat, refused};
use super::options::Confinement;

/// How often a path is walked again that changed under our feet.
const TRIES: usize = 64;

/// An open directory.
#[derive(Debug, Clone)]
pub(super) struct Dir {
    fd: Arc<OwnedFd>,
    opener: Opener,
}

impl Dir {
    /// Opens a directory of the host, wherever it is.
    pub(super) fn open_ambient(path: &Path, confinement: Confinement) -> Host<Self> {
        let fd = host::open_ambient(path)?;
        let opener = Opener::choose(fd.as_fd(), confinement)?;
        Ok(Dir { fd: Arc::new(fd), opener })
    }

    pub(super) fn stat_at(&self, name: &[u8]) -> Host<Stat> {
        host::stat_at(self.as_fd(), name)
    }

    pub(super) fn open(&self, path: &[u8], how: How) -> Host<OwnedFd> {
        self.opener.open(self.as_fd(), path, how)
    }

    /// [`Dir::open`] for a directory.
    pub(super) fn enter(&self, path: &[u8], how: How) -> Host<Dir> {
        Ok(Dir { fd: Arc::new(self.open(path, how)?), opener: self.opener })
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The host directory that a Store is rooted at.
#[derive(Debug, Clone)]
pub(super) struct Root {
    pub(super) dir: Dir,
    pub(super) stat: Stat,
}

impl Root {
    pub(super) fn open(path: &Path, confinement: Confinement) -> StoreResult<Self> {
        let dir = Dir::open_ambient(path, confinement).map_err(refused)?;
        let stat = host::stat(&dir).map_err(refused)?;
        Ok(Root { dir, stat })
    }

    /// Whether something seen by its name lies on this Store's mount.
    pub(super) fn owns(&self, stat: &Stat) -> StoreResult<()> {
        if stat.mount == self.stat.mount { Ok(()) } else { Err(refused(Errno::XDEV)) }
    }
}

/// What a walk along a path came to.
pub(super) enum Way {
    /// Its end, a directory.
    Reached(Dir),
    /// The last directory that is there, and where in the path the first missing name begins.
    Missing(Dir, usize),
}

/// Opens the directory at `path` below `base`. A symlink on the way is [`StoreError::Link`], counted from `base`.
pub(super) fn enter(base: &Dir, path: &[u8], how: How) -> StoreResult<Dir> {
    if path.is_empty() && how == How::Base {
        return Ok(base.clone());
    }
    match base.enter(path, how) {
        Ok(dir) => Ok(dir),
        // What can't be listed can still be entered.
        Err(Errno::ACCESS) if how == How::Directory => enter(base, path, How::Base),
        Err(Errno::LOOP | Errno::NOTDIR) => match follow(base, path, how)? {
            Way::Reached(dir) => Ok(dir),
            Way::Missing(..) => Err(StoreError::NotFound),
        },
        Err(error) => Err(refused(error)),
    }
}

/// Walks to the directory at `path` name by name, to see what is in the way.
pub(super) fn follow(base: &Dir, path: &[u8], how: How) -> StoreResult<Way> {
    for _ in 0..TRIES {
        if let Some(way) = follow_once(base, path, how)? {
            return Ok(way);
        }
    }
    Err(refused(Errno::LOOP))
}

/// `None` if what was looked at changed before it could be opened.
fn follow_once(base: &Dir, path: &[u8], how: How) -> StoreResult<Option<Way>> {
    let mut here = base.clone();
    let mut start = 0;
    for (index, name) in path.split(|&byte| byte == b'/').enumerate() {
        if name.is_empty() {
            break;
        }
        match here.stat_at(name) {
            Err(Errno::NOENT) => {
                let dir = if how == How::Base { here } else { enter(&here, b"", how)? };
                return Ok(Some(Way::Missing(dir, start)));
            }
            Err(error) => return Err(refused(error)),
            Ok(stat) => match stat.kind {
                Kind::Directory => {}
                Kind::Symlink => match host::read_link(here.as_fd(), name) {
                    Ok(target) => return Err(LinkHit::at(index + 1, target)),
                    Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
                    Err(error) => return Err(refused(error)),
                },
                Kind::File | Kind::Special(_) => return Err(StoreError::NotADirectory),
            },
        }
        match here.enter(name, How::Base) {
            Ok(dir) => here = dir,
            Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(refused(error)),
        }
        start += name.len() + 1;
    }
    Ok(Some(Way::Reached(if how == How::Base { here } else { enter(&here, b"", how)? })))
}
