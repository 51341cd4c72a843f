//! Generated pairs: a small tree, and two sides with random changes.

use stead::Stead;

use super::side::{File, Side, Step, Tree};
use super::{Merger, Pair};

/// What the changes of a pair are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Files with nothing in common; only files are renamed and deleted.
    Files,
    /// Directories are renamed and deleted too.
    Directories,
    /// Files are similar to each other, so that git may take one for the other.
    SimilarFiles,
}

const DIRECTORIES: [&str; 5] = ["", "a/", "b/", "a/c/", "d/"];
const NAMES: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

pub(super) fn pairs(count: u64) -> Vec<Pair> {
    let mut merger = Merger::new();
    (0..count)
        .map(|seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            let kind = [Kind::Files, Kind::Files, Kind::Directories, Kind::SimilarFiles][random.usize(..4)];
            let base = random_tree(&mut random, kind);
            merger.merge(base, |side, stead| {
                for _ in 0..random.usize(1..6) {
                    random_change(side, stead, &mut random, kind);
                }
            })
        })
        .collect()
}

fn random_tree(random: &mut fastrand::Rng, kind: Kind) -> Tree {
    let mut tree = Tree::new();
    for _ in 0..random.usize(6..16) {
        let (path, is_executable) = (random_path(random), random.usize(..5) == 0);
        // A path can't be a file and a directory.
        let is_free = |other: &String| !other.starts_with(&format!("{path}/"));
        if tree.keys().all(is_free) {
            tree.insert(path, File { is_executable, content: random_content(random, kind) });
        }
    }
    tree
}

fn random_path(random: &mut fastrand::Rng) -> String {
    format!("{}{}", random.choice(DIRECTORIES).unwrap(), random.choice(NAMES).unwrap())
}

fn random_line(random: &mut fastrand::Rng, kind: Kind) -> String {
    match kind {
        Kind::SimilarFiles => format!("line {}\n", random.usize(..30)),
        _ => format!("line {:08x}\n", random.u32(..)),
    }
}

fn random_content(random: &mut fastrand::Rng, kind: Kind) -> Vec<u8> {
    match random.usize(..20) {
        0 => Vec::new(),
        1 => (0..200).map(|_| random.u8(..)).chain([0]).collect(),
        _ => {
            let mut text: String = (0..random.usize(4..40)).map(|_| random_line(random, kind)).collect();
            if random.usize(..8) == 0 {
                text.pop();
            }
            text.into_bytes()
        }
    }
}

/// Changes some lines; now and then everything.
fn edited(random: &mut fastrand::Rng, content: &[u8], kind: Kind) -> Vec<u8> {
    if content.contains(&0) || random.usize(..10) == 0 {
        return random_content(random, kind);
    }
    let mut lines: Vec<Vec<u8>> =
        content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..random.usize(1..3) {
        let at = random.usize(..=lines.len());
        let removed = random.usize(..3).min(lines.len() - at);
        let added: Vec<Vec<u8>> =
            (0..random.usize(..3)).map(|_| random_line(random, kind).into_bytes()).collect();
        lines.splice(at..at + removed, added);
    }
    lines.concat()
}

fn random_change(side: &mut Side, stead: &Stead, random: &mut fastrand::Rng, kind: Kind) {
    let paths: Vec<&String> = side.tree.keys().collect();
    let Some(path) = random.choice(&paths).map(|path| (*path).clone()) else { return };
    let new_path = random_path(random);
    let directory = random.choice(side.directories());
    let step = match (random.usize(..12), directory) {
        (0, Some(from)) if kind == Kind::Directories => {
            let to = ["a", "b", "d", "e", "b/c", "e/f"][random.usize(..6)].to_owned();
            Step::RenameDirectory { from, to }
        }
        (1, Some(path)) if kind == Kind::Directories => Step::RemoveDirectory { path },
        (2, _) => Step::Remove { path },
        (3 | 4, _) => Step::Rename { from: path, to: new_path },
        (5 | 6, _) => Step::Write { path: new_path, content: random_content(random, kind) },
        (7, _) => Step::SetExecutable { is_executable: !side.tree[&path].is_executable, path },
        _ => Step::Write { content: edited(random, &side.tree[&path].content, kind), path },
    };
    side.apply(stead, step);
}
