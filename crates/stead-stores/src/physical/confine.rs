//! Opens a path below a directory so that nothing on the way leads out of that directory.
//!
//! If the kernel has `openat2`, one call resolves the whole path confined. Otherwise (Linux before 5.6, some sandboxes)
//! the path is walked: each name is opened from its directory's handle, without following symlinks. Both ways refuse
//! symlinks, `..` and other mounts. No race can defeat them, because neither checks first and opens later.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::ResolveFlags;

use super::host::{self, Errno, HostResult, HostStat, OpenMode};
use super::options::Confinement;

const CONFINED_FLAGS: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
/// The kernel accepts paths shorter than 4,096 bytes; longer ones are resolved in pieces.
const MAX_PATH_PIECE: usize = 3_800;

/// How often a path that seemed to lead out is resolved again before the error is returned.
const MAX_ESCAPE_RETRIES: usize = 16;

/// Which side enforces that a path stays below its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathOpener {
    /// The kernel, with `openat2`.
    Kernel,
    /// This process, by opening each name separately.
    Walk,
}

impl PathOpener {
    /// Tries `openat2` once, and chooses the walk if the kernel or a sandbox doesn't offer it.
    pub(super) fn choose(root: BorrowedFd<'_>, confinement: Confinement) -> HostResult<Self> {
        if confinement == Confinement::Walk {
            return Ok(PathOpener::Walk);
        }
        match resolve(root, b".", OpenMode::Traverse) {
            Ok(_) => Ok(PathOpener::Kernel),
            // A sandbox that doesn't know `openat2` answers with one of these.
            Err(Errno::NOSYS | Errno::PERM) => Ok(PathOpener::Walk),
            Err(error) => Err(error),
        }
    }

    /// Opens a path below a directory. The result lies below the directory, on the same mount, with no symlink on the
    /// way.
    ///
    /// [`PathOpener::Walk`] also calls `hidden` for everything on the way, and fails with `NOENT` where it returns
    /// true. [`PathOpener::Kernel`] ignores `hidden`.
    pub(super) fn open(
        self,
        below: BorrowedFd<'_>,
        path: &[u8],
        open_mode: OpenMode,
        hidden: &dyn Fn(&HostStat) -> bool,
    ) -> HostResult<OwnedFd> {
        match self {
            PathOpener::Kernel => resolve_in_pieces(below, path, open_mode),
            PathOpener::Walk => walk(below, path, open_mode, hidden),
        }
    }
}

fn resolve_in_pieces(below: BorrowedFd<'_>, path: &[u8], open_mode: OpenMode) -> HostResult<OwnedFd> {
    let mut at: Option<OwnedFd> = None;
    let mut rest = path;
    while rest.len() > MAX_PATH_PIECE {
        let slash =
            rest[..MAX_PATH_PIECE].iter().rposition(|&byte| byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        let current = at.as_ref().map_or(below, |fd| fd.as_fd());
        at = Some(resolve(current, &rest[..slash], OpenMode::Traverse)?);
        rest = &rest[slash + 1..];
    }
    resolve(at.as_ref().map_or(below, |fd| fd.as_fd()), rest, open_mode)
}

fn resolve(below: BorrowedFd<'_>, path: &[u8], open_mode: OpenMode) -> HostResult<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let (flags, mode) = (open_mode.flags(), rustix::fs::Mode::empty());
    let mut tries = 0;
    loop {
        match host::retry_transient(|| rustix::fs::openat2(below, path, flags, mode, CONFINED_FLAGS)) {
            // The kernel checks again at the end. If a rename displaced the file in between, the file now lies
            // elsewhere and another file has its name.
            Err(Errno::XDEV) if tries < MAX_ESCAPE_RETRIES => tries += 1,
            result => return result,
        }
    }
}

fn walk(
    below: BorrowedFd<'_>,
    path: &[u8],
    open_mode: OpenMode,
    hidden: &dyn Fn(&HostStat) -> bool,
) -> HostResult<OwnedFd> {
    if path.is_empty() || path == b"." {
        return host::open_name(below, b".", open_mode);
    }
    let mount = host::stat(below)?.mount;
    let mut at: Option<OwnedFd> = None;
    let mut names = path.split(|&byte| byte == b'/').peekable();
    while let Some(name) = names.next() {
        // An absolute path begins with an empty name. `..` is refused even where it would stay below the directory.
        if name.is_empty() || name == b"." || name == b".." {
            return Err(Errno::XDEV);
        }
        let current = at.as_ref().map_or(below, |fd| fd.as_fd());
        let open_mode = if names.peek().is_some() { OpenMode::Traverse } else { open_mode };
        let opened = host::open_name(current, name, open_mode)?;
        let stat = host::stat(&opened)?;
        if stat.mount != mount {
            return Err(Errno::XDEV);
        }
        if hidden(&stat) {
            return Err(Errno::NOENT);
        }
        at = Some(opened);
    }
    Ok(at.expect("a path has a name"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const BOTH: [Confinement; 2] = [Confinement::Automatic, Confinement::Walk];

    #[test]
    fn nothing_above_a_directory_can_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("in/deep")).unwrap();
        std::fs::write(dir.path().join("in/file"), "").unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("out")).unwrap();
        std::os::unix::fs::symlink("deep", dir.path().join("in/link")).unwrap();
        let root = host::open_ambient(dir.path()).unwrap();
        for confinement in BOTH {
            let opener = PathOpener::choose(root.as_fd(), confinement).unwrap();
            let open = |path: &[u8], open_mode| opener.open(root.as_fd(), path, open_mode, &|_| false);
            for path in [&b""[..], b"in", b"in/deep"] {
                assert!(open(path, OpenMode::Directory).is_ok(), "{}", path.escape_ascii());
            }
            for path in [&b".."[..], b"in/../..", b"/", b"/etc", b"out", b"out/etc", b"in/link", b"in/file/x"]
            {
                for open_mode in [
                    OpenMode::Traverse,
                    OpenMode::Directory,
                    OpenMode::Read,
                    OpenMode::Write,
                    OpenMode::ReadWrite,
                ] {
                    assert!(
                        open(path, open_mode).is_err(),
                        "{} {open_mode:?} {opener:?}",
                        path.escape_ascii()
                    );
                }
            }
            assert!(open(b"out", OpenMode::Handle).is_ok(), "a symlink itself");
        }
    }

    #[test]
    fn other_mounts_are_not_entered() {
        // Most hosts have one of these mounted.
        let mounted = |path: &Path| {
            let mount = |path: &Path| Some(host::stat(host::open_ambient(path).ok()?).ok()?.mount);
            mount(path).is_some() && mount(path) != mount(path.parent().unwrap())
        };
        let candidates = ["/dev/shm", "/dev/pts", "/sys/fs/cgroup", "/proc", "/sys", "/dev", "/tmp"];
        let Some(path) = candidates.map(Path::new).into_iter().find(|path| mounted(path)) else {
            return; // Nothing is mounted here.
        };
        let parent = host::open_ambient(path.parent().unwrap()).unwrap();
        let name = path.file_name().unwrap().as_encoded_bytes();
        for confinement in BOTH {
            let opener = PathOpener::choose(parent.as_fd(), confinement).unwrap();
            let entered = opener.open(parent.as_fd(), name, OpenMode::Traverse, &|_| false);
            assert_eq!(entered.map(drop), Err(Errno::XDEV), "{opener:?}");
        }
    }
}
