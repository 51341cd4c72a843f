//! Merging and updating forks through the facade: what each line of the specification promises.

#![allow(clippy::unwrap_used)]

mod cancelled;
mod conflicts;
mod discarding;
mod git_text;
mod git_trees;
mod history;
mod host_programs;
mod killed;
mod killed_at_calls;
mod merging;
mod nested;
mod other_owners;
mod out_of_sight;
mod properties;
mod review;
mod rights;
mod updating;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stead::vfs::{MergeChoice, MergeOptions, MergeResult, MergeRule, RulePaths};
use stead::{Config, Stead};
use stead_core::vfs::{UndoOptions, UndoTarget};
use tempfile::TempDir;

const CONFIG: &str = r#"
    [stores.code]
    kind = "virtual"
    [[agents.coder.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    [[agents.reviewer.workspaces]]
    prefix = "/project"
    scope = "rw"
    store = "code"
    [[agents.reader.workspaces]]
    prefix = "/code"
    scope = "ro"
    store = "code"
"#;

/// What the forked Workspace is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetStore {
    Virtual,
    /// A host directory.
    Physical,
}

impl TargetStore {
    const ALL: [TargetStore; 2] = [TargetStore::Virtual, TargetStore::Physical];

    /// A configuration that is written for a Virtual Store, with this Store in its place.
    fn configure(self, text: &str, directory: &Path) -> String {
        match self {
            TargetStore::Virtual => text.to_owned(),
            TargetStore::Physical => {
                std::fs::create_dir_all(directory.join(HOST_DIRECTORY)).unwrap();
                let path = format!("kind = \"physical\"\n    path = \"{HOST_DIRECTORY}\"");
                text.replace("kind = \"virtual\"", &path)
            }
        }
    }
}

/// The host directory of a project, beside its configuration.
const HOST_DIRECTORY: &str = "host-code";

/// Makes two tests of each function: over a Virtual Store, and over a host directory.
macro_rules! for_each_store {
    (fn $name:ident($store:ident) $body:block) => {
        mod $name {
            use super::*;

            fn check($store: TargetStore) $body

            #[test]
            fn over_a_virtual_store() {
                check(TargetStore::Virtual);
            }

            #[test]
            fn over_a_host_directory() {
                check(TargetStore::Physical);
            }
        }
    };
}
use for_each_store;

/// A configured stead in a directory of its own.
struct Project {
    directory: TempDir,
    config: Config,
}

impl Project {
    fn new(store: TargetStore) -> Self {
        Project::with_config(store, CONFIG)
    }

    fn with_config(store: TargetStore, text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let text = store.configure(text, directory.path());
        let config = Config::parse(&text, &directory.path().join("stead.toml")).unwrap();
        Project { directory, config }
    }

    /// A path in the host directory.
    fn host(&self, path: &str) -> PathBuf {
        self.directory.path().join(HOST_DIRECTORY).join(path)
    }

    fn open(&self, agent: &str) -> Stead {
        Stead::open(&self.config, agent).unwrap()
    }
}

fn write(stead: &Stead, path: &str, text: &str) {
    stead.vfs().write(path, text).unwrap();
}

fn read(stead: &Stead, path: &str) -> String {
    String::from_utf8(stead.vfs().read(path).unwrap().bytes).unwrap()
}

fn rename(stead: &Stead, from: &str, to: &str) {
    stead.vfs().rename(from, to, stead_core::vfs::Overwrite::Refuse).unwrap();
}

/// Removes a file, or a directory with everything in it. What isn't there stays away.
fn remove(stead: &Stead, path: &str) {
    let options = stead_core::vfs::RemoveOptions { recursive: true, force: true, if_match: None };
    let is_directory =
        stead.vfs().stat(path).is_ok_and(|stat| stat.kind == stead_core::store::NodeKind::Directory);
    let removed = match is_directory {
        true => stead.vfs().remove_directory(path, options),
        false => stead.vfs().remove_file(path, options),
    };
    removed.unwrap();
}

fn exists(stead: &Stead, path: &str) -> bool {
    stead.vfs().stat(path).is_ok()
}

/// Every file below a prefix with its mode and content.
fn files(stead: &Stead, prefix: &str) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        let listing =
            stead.vfs().list(&*format!("{prefix}{directory}"), &stead_core::vfs::ListPage::all()).unwrap();
        for entry in listing.entries {
            let path = format!("{directory}/{}", entry.name);
            if entry.kind == stead_core::store::NodeKind::Directory {
                found.insert(format!("{path}/"), (entry.mode, Vec::new()));
                directories.push(path);
            } else {
                let bytes = stead.vfs().read(&*format!("{prefix}{path}")).unwrap().bytes;
                found.insert(path, (entry.mode, bytes));
            }
        }
    }
    found
}

fn merge(stead: &Stead, fork: &str) -> MergeResult {
    stead.merge_fork(fork, &MergeOptions::default()).unwrap()
}

fn update(stead: &Stead, fork: &str) -> MergeResult {
    stead.update_fork(fork, &MergeOptions::default()).unwrap()
}

/// A merge that succeeds.
#[track_caller]
fn merge_clean(stead: &Stead, fork: &str) -> MergeResult {
    let result = merge(stead, fork);
    assert!(result.done, "{:#?} {:#?}", result.conflicts, result.refused);
    result
}

fn undo(stead: &Stead, result: &MergeResult) {
    let operation = UndoTarget::Operation(result.operation.unwrap());
    stead.vfs().undo(operation, UndoOptions::default()).unwrap();
}

/// Undoes the newest operations of an agent.
fn undo_last(stead: &Stead, count: usize) {
    stead.vfs().undo(UndoTarget::Last(count), UndoOptions::default()).unwrap();
}

/// What a fork has changed, as its paths.
fn changed(stead: &Stead, fork: &str) -> Vec<String> {
    let differences = stead.diff_fork(fork, stead::vfs::DiffOptions::default()).unwrap();
    differences.into_iter().map(|difference| difference.path.to_string()).collect()
}

fn options(rules: Vec<MergeRule>) -> MergeOptions {
    let mut options = MergeOptions::default();
    options.rules = rules;
    options
}

fn rule(glob: &str, choice: MergeChoice) -> MergeRule {
    let paths = match glob {
        "" => RulePaths::All,
        glob => RulePaths::parse(glob, &[]).unwrap(),
    };
    MergeRule { paths, choice }
}

/// The conflicts of a result: path and kind.
fn kinds(result: &MergeResult) -> Vec<(String, &'static str)> {
    result.conflicts.iter().map(|conflict| (conflict.path.to_string(), conflict.kind.as_str())).collect()
}

/// A project with a directory and some files, and a fork of it.
fn forked(project: &Project) -> Stead {
    let coder = project.open("coder");
    write(&coder, "/code/src/main.rs", "1\n2\n3\n4\n5\n6\n7\n");
    write(&coder, "/code/src/lib.rs", "a\nb\nc\n");
    write(&coder, "/code/README.md", "read me\n");
    coder.fork("/code", "draft").unwrap()
}
