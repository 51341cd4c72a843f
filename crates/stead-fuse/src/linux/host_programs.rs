//! Host programs that a symlink on the mount may lead to.
//!
//! `python3 -m venv` creates a symlink to the interpreter, and works only if the kernel can follow it. So an absolute
//! target outside the mount is shown if it is a program that every user may read and run: such a file isn't secret, and
//! a process on the host can run it without the symlink as well. Everything else outside stays hidden: a user's program
//! that follows symlinks must not copy that user's files into a Workspace.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};

use crate::linux::mount_table;

/// The most symlinks that are followed for one path.
const MAX_LINKS: usize = 40;
/// Permission for others to read and execute.
const OTHERS_READ_EXECUTE: u32 = 0o005;

// The values in <sys/stat.h>, which are the same on every Linux.
const FILE_TYPE_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// Whether an absolute target is a host program that every user may read and run.
///
/// It walks the path name by name and never enters a FUSE mount: that may be this very mount, which would wait for this
/// reply.
pub(crate) fn is_program(target: &[u8]) -> bool {
    target.starts_with(b"/") && leads_to_program(target).unwrap_or(false)
}

fn leads_to_program(target: &[u8]) -> rustix::io::Result<bool> {
    let fuse_devices = mount_table::fuse_devices();
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |path: &Path| rustix::fs::open(path, flags, Mode::empty());
    let mut names = VecDeque::from(path_components(target));
    // The directories on the path so far, for `..`.
    let mut directories: Vec<OwnedFd> = vec![open(Path::new("/"))?];
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        if name == ".." {
            directories.truncate(directories.len().saturating_sub(1).max(1));
            continue;
        }
        let directory = directories.last().expect("the top directory is never left");
        let found = rustix::fs::openat(directory, &name, flags, Mode::empty())?;
        let mask = StatxFlags::TYPE | StatxFlags::MODE;
        let stat = rustix::fs::statx(&found, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, mask)?;
        let device = format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor);
        if fuse_devices.contains(&device) {
            return Ok(false);
        }
        let mode = u32::from(stat.stx_mode);
        match mode & FILE_TYPE_MASK {
            SYMLINK => {
                links += 1;
                if links > MAX_LINKS {
                    return Ok(false);
                }
                let next = rustix::fs::readlinkat(&found, "", Vec::new())?.into_bytes();
                if next.starts_with(b"/") {
                    directories.truncate(1);
                }
                for name in self::path_components(&next).into_iter().rev() {
                    names.push_front(name);
                }
            }
            REGULAR => return Ok(names.is_empty() && mode & OTHERS_READ_EXECUTE == OTHERS_READ_EXECUTE),
            _ => directories.push(found),
        }
    }
    Ok(false)
}

/// The components of a path, without `.` and empty ones.
fn path_components(path: &[u8]) -> Vec<OsString> {
    let path = OsString::from_vec(path.to_vec());
    let names = Path::new(&path).components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_program_is_a_file_that_everybody_may_read_and_run() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("bin")).unwrap();
        for (name, mode) in [("tool", 0o755), ("secret", 0o600), ("mine", 0o700), ("data", 0o644)] {
            fs::write(root.join("bin").join(name), "").unwrap();
            fs::set_permissions(root.join("bin").join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("../bin/./tool", root.join("bin/relative")).unwrap();
        symlink(root.join("bin/relative"), root.join("absolute")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("bin/secret", root.join("hidden")).unwrap();
        let is_program_at = |name: &str| is_program(root.join(name).as_os_str().as_bytes());
        for program in ["bin/tool", "bin/relative", "absolute", "bin/../absolute"] {
            assert!(is_program_at(program), "{program}");
        }
        for other in ["bin/secret", "bin/mine", "bin/data", "bin", "none", "loop", "hidden", "bin/tool/x"] {
            assert!(!is_program_at(other), "{other}");
        }
        assert!(!is_program(b"bin/tool"), "a relative target depends on where the mount is");
        assert!(!is_program(b"/") && !is_program(b""));
    }
}
