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
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        for entry in fs::read_dir(top.join(&below)).unwrap() {
            let path = below.join(entry.unwrap().file_name());
            let at = top.join(&path);
            let about = fs::symlink_metadata(&at).unwrap();
            let mode = about.permissions().mode() & 0o7777;
            let entry = if about.is_dir() {
                waiting.push(path.clone());
                Entry::Directory { mode }
            } else if about.is_symlink() {
                Entry::Symlink { target: fs::read_link(&at).unwrap() }
            } else {
                let content = fs::read(&at).unwrap();
                assert_eq!(
                    content.len() as u64,
                    about.len(),
                    "{}: its size is not its length",
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
pub(crate) fn assert_same(one: &Tree, other: &Tree, what: &str) {
    let differs = |path: &&PathBuf| one.get(*path) != other.get(*path);
    let mut paths: Vec<_> = one.keys().chain(other.keys()).filter(differs).collect();
    paths.sort();
    paths.dedup();
    let told =
        paths.iter().map(|path| format!("{}: {:?} / {:?}", path.display(), one.get(*path), other.get(*path)));
    let told: Vec<_> = told.collect();
    assert!(told.is_empty(), "{what}:\n{}", told.join("\n"));
}
