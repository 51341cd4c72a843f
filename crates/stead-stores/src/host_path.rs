//! Where a path of the host leads, also if nothing is there yet.

use std::path::{Path, PathBuf};

/// The path with its symlinks resolved, also where the end of it doesn't exist.
pub fn resolve_existing_prefix(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for (index, ancestor) in path.ancestors().enumerate() {
        if let Ok(resolved) = std::fs::canonicalize(ancestor) {
            let rest = path.components().rev().take(index).collect::<Vec<_>>();
            return rest.into_iter().rev().fold(resolved, |path, name| path.join(name));
        }
    }
    path
}

/// The path of a file after following symlinks in its last component; the file need not exist.
pub fn resolve_symlinks(file: &Path) -> PathBuf {
    // 40 is the most that Linux follows.
    let mut resolved = file.to_owned();
    for _ in 0..40 {
        match (resolved.read_link(), resolved.parent()) {
            (Ok(target), Some(parent)) => resolved = parent.join(target),
            _ => break,
        }
    }
    resolved
}

/// A file that belongs to `file` and lies beside it, also if `file` is a symlink: every path to one file gives the same.
pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = resolve_symlinks(file).into_os_string();
    name.push(suffix);
    name.into()
}

/// The bytes that identify the place where a path leads. They are the same before and after something is created there.
pub(crate) fn location(path: &Path) -> Vec<u8> {
    resolve_existing_prefix(&resolve_symlinks(path)).into_os_string().into_encoded_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_location_is_the_same_by_every_path_and_before_anything_exists_there() {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(host.path().join("data/deep")).unwrap();
        symlink("data/second", host.path().join("first")).unwrap();
        symlink("deep/real", host.path().join("data/second")).unwrap();
        let paths = ["first", "data/second", "data/deep/real", "data/deep/../deep/real"];
        let locations = || paths.map(|path| location(&host.path().join(path)));
        let before = locations();
        std::fs::write(host.path().join("data/deep/real"), "x").unwrap();
        assert_eq!(locations(), before);
        assert!(before.iter().all(|bytes| *bytes == before[0]), "{before:?}");
        assert_ne!(location(&host.path().join("data/deep/other")), before[0]);
    }
}
