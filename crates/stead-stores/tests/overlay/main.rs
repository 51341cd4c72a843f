//! Forks of a host directory: the behaviour suite, random runs, and what such forks promise beyond that.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod bases;
mod changes;
mod killed;
mod lifetime;
mod random;
mod suite;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use stead_core::glob::PathGlobs;
use stead_core::search::{Grep, GrepQuery, WalkOptions};
use stead_core::store::{
    Change, Content, DisplacedContent, Fork, IfMissing, NodeKind, NodePath, Page, Parents, Precondition,
    PutOptions, QuotaLimits, Replace, RevisionNumber, Step, StorePath, Subtree,
};
use stead_core::{
    ApprovalPolicy, Clock, Identity, Operation, OperationId, Store, StoreResult, SystemClock, VfsPath,
};
use stead_stores::{Database, DatabaseOptions, Durability, OverlayStore, PhysicalOptions, PhysicalStore};
use tempfile::TempDir;

/// A host directory with its Store and the database of its forks.
struct Site {
    temp: TempDir,
    database: Database,
    store: Arc<PhysicalStore>,
}

impl Site {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("root")).unwrap();
        let database = open_database(temp.path());
        let store = Arc::new(open_directory(temp.path(), &database));
        Site { temp, database, store }
    }

    fn host_path(&self, path: &str) -> PathBuf {
        self.temp.path().join("root").join(path)
    }

    /// Writes a file as another program would.
    fn put(&self, path: &str, content: &str) {
        let path = self.host_path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn fork(&self, name: &str) -> Arc<dyn Store> {
        fork_of(&(Arc::clone(&self.store) as Arc<dyn Store>), name)
    }

    /// A fork as another process opens it.
    fn open_fork(&self, name: &str) -> OverlayStore {
        let database = open_database(self.temp.path());
        let lower = Arc::new(open_directory(self.temp.path(), &database));
        OverlayStore::open(database.fork_store("coder", &name.parse().unwrap()).unwrap(), lower).unwrap()
    }

    fn count(&self, table: &str) -> i64 {
        let conn = Connection::open(self.temp.path().join("stead.db")).unwrap();
        conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    /// Every file of the directory with its content and times, as the host has it.
    fn host_tree(&self) -> Vec<(PathBuf, Vec<u8>, std::fs::Metadata)> {
        let mut found = Vec::new();
        let mut waiting = vec![self.host_path("")];
        while let Some(directory) = waiting.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                let metadata = std::fs::symlink_metadata(&path).unwrap();
                let content = match metadata.file_type() {
                    kind if kind.is_dir() => {
                        waiting.push(path.clone());
                        Vec::new()
                    }
                    kind if kind.is_symlink() => {
                        std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                    }
                    kind if kind.is_file() => std::fs::read(&path).unwrap(),
                    _ => Vec::new(),
                };
                found.push((path, content, metadata));
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }
}

/// What must not change in a base: names, contents, modes and times.
fn essence(tree: &[(PathBuf, Vec<u8>, std::fs::Metadata)]) -> Vec<(&Path, &[u8], u32, i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    tree.iter()
        .map(|(path, content, metadata)| {
            (path.as_path(), content.as_slice(), metadata.mode(), metadata.mtime(), metadata.mtime_nsec())
        })
        .collect()
}

fn open_database(temp: &Path) -> Database {
    let options = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    Database::open(temp.join("stead.db"), options).unwrap()
}

fn open_directory(temp: &Path, database: &Database) -> PhysicalStore {
    let options = PhysicalOptions {
        durability: Durability::Fast,
        ledger: database.clone().into(),
        ..PhysicalOptions::new(temp.join("state"))
    };
    PhysicalStore::open(temp.join("root"), options).unwrap()
}

fn fork_record(name: &str) -> Fork {
    Fork {
        owner: "coder".into(),
        name: name.parse().unwrap(),
        created_by: "coder".into(),
        base_prefix: VfsPath::parse("/code").unwrap(),
        path: VfsPath::root(),
        protect: Vec::new(),
        hide: Vec::new(),
        scratch: Vec::new(),
        quota: QuotaLimits::default(),
        approval_policy: ApprovalPolicy::default(),
        excluded: Vec::new(),
        created: SystemClock.now(),
        pinned_at: None,
        lease: None,
        place: VfsPath::root(),
        scope: stead_core::AccessScope::ReadWrite,
        parts: Vec::new(),
        made_by: None,
    }
}

fn fork_of(base: &Arc<dyn Store>, name: &str) -> Arc<dyn Store> {
    base.forks().unwrap().fork(Arc::clone(base), &fork_record(name)).unwrap()
}

fn node_path(path: &str) -> NodePath {
    NodePath::from_root(StorePath::from_checked(path))
}

fn change(steps: Vec<Step>) -> Change {
    let at = SystemClock.now();
    let identity = Arc::new(Identity::agent("coder"));
    Change::new(Operation { id: OperationId::fresh(at), identity, tool: "test".into(), at }, steps)
}

#[track_caller]
fn apply(store: &dyn Store, step: Step) -> RevisionNumber {
    store.apply(change(vec![step])).unwrap().revision.unwrap()
}

fn write_step(path: &str, bytes: &str, expect: Precondition) -> Step {
    let content = Content::Bytes(bytes.as_bytes().to_vec());
    Step::Write { at: node_path(path), content, options: PutOptions { expect, ..PutOptions::default() } }
}

#[track_caller]
fn write(store: &dyn Store, path: &str, bytes: &str) -> RevisionNumber {
    apply(store, write_step(path, bytes, Precondition::Any))
}

fn remove_step(path: &str, subtree: Subtree) -> Step {
    Step::Remove {
        at: node_path(path),
        subtree,
        expect: Precondition::Any,
        if_missing: IfMissing::Fail,
        protected: None,
        displaced: DisplacedContent::Keep,
    }
}

#[track_caller]
fn remove(store: &dyn Store, path: &str) -> RevisionNumber {
    apply(store, remove_step(path, Subtree::Any))
}

fn rename_step(from: &str, to: &str, replace: Replace) -> Step {
    Step::Rename {
        from: node_path(from),
        to: node_path(to),
        replace,
        parents: Parents::Create,
        expect: Precondition::Any,
        protected: [None, None],
    }
}

#[track_caller]
fn rename(store: &dyn Store, from: &str, to: &str) -> RevisionNumber {
    apply(store, rename_step(from, to, Replace::Overwrite))
}

fn read(store: &dyn Store, path: &str) -> StoreResult<String> {
    store.read(&node_path(path), u64::MAX).map(|content| String::from_utf8(content.bytes).unwrap())
}

fn names(store: &dyn Store, path: &str) -> Vec<String> {
    let listed = store.list(&node_path(path), &Page::ALL).unwrap();
    assert_eq!(listed.total, listed.entries.len() as u64);
    listed.entries.iter().map(|entry| entry.name.to_string()).collect()
}

/// Removes everything.
fn clear(store: &dyn Store) {
    for name in names(store, "") {
        remove(store, &name);
    }
}

#[track_caller]
fn assert_sound(store: &dyn Store) {
    assert_eq!(
        store.require_maintenance().unwrap().verify(&mut |_| ()).unwrap().problems,
        Vec::<String>::new()
    );
}

/// The paths of the files in which a search finds the pattern, sorted.
fn found_in(store: &dyn Store, grep: &Grep) -> Vec<String> {
    let mut paths = Vec::new();
    let found = store.grep(&NodePath::root(), grep, &mut |hits| {
        paths.push(hits.path.to_string());
        ControlFlow::Continue(())
    });
    found.unwrap();
    paths.sort();
    paths
}

/// Checks that a search finds every file that has content, once.
#[track_caller]
fn assert_searches_what_it_shows(store: &dyn Store) {
    let mut shown = Vec::new();
    let walked = store.walk(&NodePath::root(), &WalkOptions::default(), &mut |entry| {
        if entry.attr.kind == NodeKind::File && entry.attr.size > 0 {
            shown.push(entry.path.to_string());
        }
        ControlFlow::Continue(())
    });
    walked.unwrap();
    shown.sort();
    let grep = Grep::new(&GrepQuery::new("."), None, PathGlobs::none()).unwrap();
    assert_eq!(found_in(store, &grep), shown);
    assert!(grep.unreadable.take().is_empty());
}
