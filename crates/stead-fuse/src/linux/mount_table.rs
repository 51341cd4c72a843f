//! Reads the kernel's table of mounts. It accesses no mounted file system, except to resolve a path.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use stead_core::name::unescape_octal;

/// The prefix of a stead's source in the table.
pub(super) const SOURCE_PREFIX: &str = "stead:";
/// The most symlinks that are followed for one path.
const MAX_LINKS: usize = 40;

/// One line of the table.
struct MountEntry {
    /// The device, `major:minor`.
    device: String,
    mount_point: PathBuf,
    fs_type: String,
    source: String,
}

impl MountEntry {
    fn is_fuse(&self) -> bool {
        self.fs_type == "fuse" || self.fs_type.starts_with("fuse.")
    }

    fn is_stead(&self) -> bool {
        self.is_fuse() && self.source.starts_with(SOURCE_PREFIX)
    }
}

/// The device of the stead that is mounted at a path, if any. The path must have no symlinks.
pub(super) fn device_at(path: &Path) -> Option<String> {
    // Of several mounts at one point, the last one is on top.
    let entry = entries().into_iter().rev().find(|entry| entry.mount_point == path)?;
    entry.is_stead().then_some(entry.device)
}

/// The current mount point of the stead with this device.
pub(super) fn mount_point_of(device: &str) -> Option<PathBuf> {
    let matches_device = |entry: &MountEntry| entry.is_stead() && entry.device == device;
    entries().into_iter().find(matches_device).map(|entry| entry.mount_point)
}

/// Whether a path lies inside a mounted stead.
pub(super) fn is_inside(path: &Path) -> bool {
    let containing = entries().into_iter().filter(|entry| path.starts_with(&entry.mount_point));
    containing
        .max_by_key(|entry| entry.mount_point.components().count())
        .is_some_and(|entry| entry.is_stead())
}

/// The devices of all FUSE mounts. Accessing one may mean waiting for the process behind it.
pub(super) fn fuse_devices() -> Vec<String> {
    entries().into_iter().filter(MountEntry::is_fuse).map(|entry| entry.device).collect()
}

fn entries() -> Vec<MountEntry> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// Parses a line. Its paths need not be UTF-8.
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let mut fields = line.split(|byte| *byte == b' ');
    let (device, mount_point) = (fields.nth(2)?, fields.nth(1)?);
    // Optional fields end with `-`.
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (fs_type, source) = (fields.next()?, fields.next()?);
    Some(MountEntry {
        device: text(device),
        mount_point: PathBuf::from(OsString::from_vec(unescape_octal(mount_point))),
        fs_type: text(fs_type),
        source: text(source),
    })
}

/// A path without symlinks and `..`. Its last component may be the mount of a process that has ended, which can't be
/// accessed any more.
pub(super) fn resolve_path(path: &Path) -> Option<PathBuf> {
    let mut path = std::path::absolute(path).ok()?;
    for _ in 0..MAX_LINKS {
        if let Ok(resolved) = path.canonicalize() {
            return Some(resolved);
        }
        let Some(Component::Normal(name)) = path.components().next_back() else { return None };
        let parent = path.parent()?.canonicalize().ok()?;
        match fs::read_link(parent.join(name)) {
            Ok(target) => path = parent.join(target),
            Err(_) => return Some(parent.join(name)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_read() {
        let line = b"36 35 0:71 / /mnt/a\\040b rw,nosuid shared:9 - fuse.stead stead:coder rw,user_id=0";
        let entry = parse_line(line).unwrap();
        assert!(entry.is_stead() && entry.device == "0:71" && entry.mount_point == Path::new("/mnt/a b"));
        let not_utf8 = parse_line(b"36 35 0:71 / /mnt/\xff rw - fuse.stead stead:coder rw").unwrap();
        assert_eq!(not_utf8.mount_point.into_os_string().into_vec(), b"/mnt/\xff");
        assert!(!parse_line(b"22 1 8:1 / / rw - ext4 /dev/sda1 rw").unwrap().is_fuse());
    }

    #[test]
    fn a_path_whose_last_component_does_not_exist_is_resolved_up_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        fs::create_dir(real.join("d")).unwrap();
        std::os::unix::fs::symlink("d/../none", real.join("link")).unwrap();
        assert_eq!(resolve_path(&real.join("d/../link")), Some(real.join("none")));
        assert_eq!(resolve_path(&real.join("d/../d")), Some(real.join("d")));
        assert_eq!(resolve_path(&real.join("none/at/all")), None);
    }
}
