//! Whole trees merged by Stead beside `git merge`: the same result, or a named reason why not.
//!
//! Git gets three trees and guesses from them what was renamed. Stead has seen the renames. So where the two differ, git's
//! guess and what really happened are compared, and a difference without a reason fails the test.

mod generated;
mod reasons;
mod registry;
mod repository;
mod side;

use std::collections::BTreeMap;
use std::fmt::Write;

use super::*;
use reasons::Reason;
use repository::{GitMerge, Repository};
use side::{Side, Tree};

/// Three trees, the way from the base to each side, and what Stead made of them.
struct Pair {
    base: Tree,
    target: Side,
    fork: Side,
    stead: SteadMerge,
}

/// What Stead made of a pair.
struct SteadMerge {
    /// The path and the kind of each conflict.
    conflicts: Vec<(String, &'static str)>,
    /// The merged tree. With conflicts, the target as it was.
    tree: Tree,
}

/// How the two merges of a pair compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Comparison {
    /// Both are clean, and the trees are the same.
    SameTree,
    /// Both have conflicts.
    BothInConflict,
    /// One of them has conflicts, or the trees differ.
    Different(Reason),
}

/// Compares all pairs with git, prints how many of each comparison there are, and fails if one has no reason.
#[track_caller]
fn compare_all(what: &str, pairs: &[Pair]) -> BTreeMap<Comparison, usize> {
    let repository =
        Repository::with_commits(pairs.iter().map(|pair| [&pair.base, &pair.target.tree, &pair.fork.tree]));
    let mut counts: BTreeMap<Comparison, usize> = BTreeMap::new();
    let mut unexplained = String::new();
    for (number, pair) in pairs.iter().enumerate() {
        let git = repository.merge(number);
        // The merge without a work tree is what `git merge` makes, so a few of these are enough.
        if number % 50 == 0 {
            repository.check_with_git_merge(number, &git);
        }
        match compare(&repository, number, pair, &git) {
            Some(comparison) => *counts.entry(comparison).or_default() += 1,
            None => drop(write!(unexplained, "\n\n{}", describe(number, pair, &git))),
        }
    }
    println!("{what}: {} pairs", pairs.len());
    for (comparison, count) in &counts {
        println!("{count:6} {comparison:?}");
    }
    assert!(unexplained.is_empty(), "no reason for a difference:{unexplained}");
    counts
}

/// `None` if the merges differ and there is no reason for it.
fn compare(repository: &Repository, number: usize, pair: &Pair, git: &GitMerge) -> Option<Comparison> {
    if let Some(same) = compare_results(&pair.stead, git) {
        return Some(same);
    }
    Reason::find(repository, number, pair, git).map(Comparison::Different)
}

/// `None` if the results differ.
fn compare_results(stead: &SteadMerge, git: &GitMerge) -> Option<Comparison> {
    match (stead.conflicts.is_empty(), git.is_clean) {
        (false, false) => Some(Comparison::BothInConflict),
        (true, true) if stead.tree == git.tree => Some(Comparison::SameTree),
        _ => None,
    }
}

fn describe(number: usize, pair: &Pair, git: &GitMerge) -> String {
    let differing: Vec<_> = reasons::differing_paths(&pair.stead.tree, &git.tree).collect();
    format!(
        "pair {number}\nbase: {:?}\ntarget: {:#?}\nfork: {:#?}\nStead: {:?}\ngit: clean {} {:?} {:#?}\ndiffering: {differing:?}",
        pair.base.keys().collect::<Vec<_>>(),
        pair.target.steps,
        pair.fork.steps,
        pair.stead.conflicts,
        git.is_clean,
        git.conflicted,
        git.messages,
    )
}

/// A stead in which each pair has a directory of its own.
struct Merger {
    _project: Project,
    stead: Stead,
    next: usize,
}

impl Merger {
    fn new() -> Self {
        let text =
            format!("hide = []\n{CONFIG}\n[database]\ndurability = \"fast\"\n[audit]\nenabled = false\n");
        let project = Project::with_config(TargetStore::Virtual, &text);
        let stead = project.open("coder");
        Merger { _project: project, stead, next: 0 }
    }

    /// Writes a base, lets both sides be changed, and merges. `change` makes the changes of a side below a prefix.
    fn merge(&mut self, base: Tree, mut change: impl FnMut(&mut Side, &Stead)) -> Pair {
        let number = self.next;
        self.next += 1;
        let (name, directory) = (format!("pair-{number}"), format!("/code/{number}"));
        write_tree(&self.stead, &directory, &base);
        let stead = self.stead.fork("/code", &name).unwrap();
        let mut target = Side::new(&base, directory.clone());
        let mut fork = Side::new(&base, format!("/forks/{name}/{number}"));
        change(&mut target, &stead);
        change(&mut fork, &stead);
        let result = merge(&stead, &name);
        assert!(result.refused.is_empty(), "{:?}", result.refused);
        let prefix = format!("{directory}/");
        let relative = |path: String| path.strip_prefix(&prefix).map_or(path.clone(), str::to_owned);
        let conflicts = kinds(&result).into_iter().map(|(path, kind)| (relative(path), kind)).collect();
        let tree = read_tree(&stead, &directory);
        self.stead = stead.discard(&name).unwrap();
        Pair { base, target, fork, stead: SteadMerge { conflicts, tree } }
    }
}

fn write_tree(stead: &Stead, directory: &str, tree: &Tree) {
    stead.vfs().mkdir(directory, stead_core::store::Parents::Create).unwrap();
    let mut batch = stead.vfs().batch();
    for (path, file) in tree {
        let options = stead_core::vfs::WriteOptions::new().mode(file.mode());
        batch.write(&*format!("{directory}/{path}"), file.content.clone(), &options).unwrap();
    }
    batch.apply().unwrap();
}

fn read_tree(stead: &Stead, directory: &str) -> Tree {
    let found = files(stead, directory).into_iter().filter(|(path, _)| !path.ends_with('/'));
    found
        .map(|(path, (mode, content))| {
            (path[1..].to_owned(), side::File { is_executable: mode & 0o100 != 0, content })
        })
        .collect()
}

fn is_long() -> bool {
    std::env::var_os("STEAD_TEST_LONG").is_some()
}

#[test]
fn g8_g14_generated_trees_merge_as_git_merges_them() {
    let pairs = generated::pairs(if is_long() { 4_000 } else { 400 });
    let counts = compare_all("generated", &pairs);
    let same = counts.get(&Comparison::SameTree).copied().unwrap_or_default();
    let both_in_conflict = counts.get(&Comparison::BothInConflict).copied().unwrap_or_default();
    assert!(same > pairs.len() / 4 && both_in_conflict > pairs.len() / 20, "{counts:?}");
}

#[test]
fn g8_versions_of_crates_merge_as_git_merges_them() {
    let pairs = registry::pairs(if is_long() { 400 } else { 12 });
    if pairs.is_empty() {
        eprintln!("SKIPPED: cargo has not unpacked two versions of a crate on this machine");
        return;
    }
    compare_all("versions of crates", &pairs);
}
