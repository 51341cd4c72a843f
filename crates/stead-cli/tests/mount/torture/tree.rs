//! Whole trees, for comparison.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What is at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Directory { mode: u32 },
    File { mode: u32, content: blake3::Hash, size: usize },
    Symlink { target: PathBuf },
}

pub(crate) type Tree = BTreeMap<PathBuf, Entry>;

/// Everything below a directory.
pub(crate) fn tree(top: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        for entry in fs::read_dir(top.join(&relative)).unwrap() {
            let path = relative.join(entry.unwrap().file_name());
            let full_path = top.join(&path);
            let metadata = fs::symlink_metadata(&full_path).unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let entry = if metadata.is_dir() {
                pending.push(path.clone());
                Entry::Directory { mode }
            } else if metadata.is_symlink() {
                Entry::Symlink { target: fs::read_link(&full_path).unwrap() }
            } else {
                let content = fs::read(&full_path).unwrap();
                assert_eq!(
                    content.len() as u64,
                    metadata.len(),
                    "{}: the size that stat reports differs from the length of the content",
                    path.display()
                );
                Entry::File { mode, content: blake3::hash(&content), size: content.len() }
            };
            assert!(tree.insert(path.clone(), entry).is_none(), "{} is listed twice", path.display());
        }
    }
    tree
}

/// Fails with the paths where two trees differ.
pub(crate) fn assert_same(first: &Tree, second: &Tree, message: &str) {
    let differs = |path: &&PathBuf| first.get(*path) != second.get(*path);
    let mut paths: Vec<_> = first.keys().chain(second.keys()).filter(differs).collect();
    paths.sort();
    paths.dedup();
    let differences = paths
        .iter()
        .map(|path| format!("{}: {:?} / {:?}", path.display(), first.get(*path), second.get(*path)));
    let differences: Vec<_> = differences.collect();
    assert!(differences.is_empty(), "{message}:\n{}", differences.join("\n"));
}
