//! Real pairs: versions of crates that cargo has unpacked on this machine. Without them there are no pairs.
//!
//! The base is a version. One side is the next version. The other side has random hunks of the way from the base to the version
//! after the next, or to the next if there are only two.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stead::Stead;
use stead_core::history::hunks::{HunkDecision, TextChange};

use super::side::{File, Side, Step, Tree};
use super::{Merger, Pair};

/// Larger crates are left out.
const MAX_FILES: usize = 150;
const MAX_SIZE: u64 = 200 << 10;

pub(super) fn pairs(count: usize) -> Vec<Pair> {
    let versions: Vec<Vec<PathBuf>> = versions().into_values().filter(|paths| paths.len() > 1).collect();
    let mut merger = Merger::new();
    let mut pairs = Vec::new();
    for (seed, paths) in (0..count as u64).zip(versions.iter().cycle()) {
        let mut random = fastrand::Rng::with_seed(seed);
        let [base, next] = [&paths[0], &paths[1]].map(|path| read(path));
        let later = paths.get(2).map_or_else(|| next.clone(), |path| read(path));
        if [&base, &next, &later].iter().any(|tree| tree.len() > MAX_FILES || tree.is_empty()) {
            continue;
        }
        let mut is_first = true;
        pairs.push(merger.merge(base.clone(), |side, stead| match std::mem::take(&mut is_first) {
            true => become_tree(side, stead, &next, |_, new| Some(new.to_vec())),
            false => become_tree(side, stead, &later, |old, new| random_part(&mut random, old, new)),
        }));
    }
    pairs
}

/// The unpacked versions of each crate, the oldest first.
fn versions() -> BTreeMap<String, Vec<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok());
    let mut found: BTreeMap<String, Vec<(Vec<u64>, PathBuf)>> = BTreeMap::new();
    for registry in registries.into_iter().flatten().flatten() {
        for directory in std::fs::read_dir(registry.path()).unwrap().flatten() {
            let Ok(package) = directory.file_name().into_string() else { continue };
            let Some(at) = package
                .match_indices('-')
                .map(|(at, _)| at)
                .find(|at| package[at + 1..].starts_with(|digit: char| digit.is_ascii_digit()))
            else {
                continue;
            };
            let numbers = package[at + 1..].split(|character: char| !character.is_ascii_digit());
            let version = numbers.map_while(|number| number.parse().ok()).take(3).collect();
            found.entry(package[..at].to_owned()).or_default().push((version, directory.path()));
        }
    }
    let sorted = |mut versions: Vec<(Vec<u64>, PathBuf)>| {
        versions.sort();
        versions.into_iter().map(|(_, path)| path).collect()
    };
    found.into_iter().map(|(name, versions)| (name, sorted(versions))).collect()
}

/// The files of a crate, without those that cargo or git put there.
fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().flatten() {
            let (path, metadata) = (entry.path(), entry.metadata().unwrap());
            let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) else { continue };
            if entry.file_name().to_string_lossy().starts_with('.') || name == "Cargo.lock" {
                continue;
            } else if metadata.is_dir() {
                directories.push(path);
            } else if metadata.is_file() && metadata.len() <= MAX_SIZE {
                let content = std::fs::read(&path).unwrap();
                tree.insert(name.to_owned(), File { is_executable: false, content });
            }
        }
    }
    tree
}

/// Makes a side the tree, file by file. `part` decides what a file gets, from its old and its new content; `None` leaves it as it
/// is.
fn become_tree(
    side: &mut Side,
    stead: &Stead,
    tree: &Tree,
    mut part: impl FnMut(Option<&[u8]>, &[u8]) -> Option<Vec<u8>>,
) {
    let gone: Vec<String> = side.tree.keys().filter(|path| !tree.contains_key(*path)).cloned().collect();
    for path in gone {
        let old = side.tree[&path].content.clone();
        if part(Some(&old), &[]).is_some_and(|content| content.is_empty()) {
            side.apply(stead, Step::Remove { path });
        }
    }
    for (path, file) in tree {
        let old = side.tree.get(path).map(|file| file.content.clone());
        if old.as_ref() == Some(&file.content) {
            continue;
        }
        if let Some(content) = part(old.as_deref(), &file.content) {
            side.apply(stead, Step::Write { path: path.clone(), content });
        }
    }
}

/// Some hunks of a change; a file that can't be taken in parts is taken whole or not at all.
fn random_part(random: &mut fastrand::Rng, old: Option<&[u8]>, new: &[u8]) -> Option<Vec<u8>> {
    let change = old.filter(|_| !new.is_empty()).and_then(|old| TextChange::new(old, new));
    let Some(change) = change else { return random.bool().then(|| new.to_vec()) };
    let decisions = change.hunks().into_iter().map(|hunk| {
        let decision = if random.bool() { HunkDecision::Take } else { HunkDecision::Refuse };
        (hunk, decision)
    });
    Some(change.with(decisions.collect::<Vec<_>>()))
}
