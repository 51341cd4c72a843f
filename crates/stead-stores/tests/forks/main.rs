//! Forks of a Virtual Store: the behaviour suite, comparison with the model, and what forks promise beyond that.

#![allow(clippy::unwrap_used)]

mod history;
mod layers;
mod model;
mod parts;
mod sharing;
mod suite;

use std::sync::Arc;

use stead_core::store::{
    Change, Content, DisplacedContent, IfMissing, NodePath, Page, Parents, Precondition, PutOptions, Replace,
    RevisionNumber, Step, StorePath, Subtree,
};
use stead_core::{Clock, Identity, Operation, OperationId, Store, StoreResult, SystemClock};
use stead_stores::{Database, DatabaseOptions, Durability, VirtualStore};
use tempfile::TempDir;

/// An empty database on disk.
fn database() -> (Database, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    // Durability matters for power cuts only, and no test here has one.
    let options = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    (Database::open(directory.path().join("stead.db"), options).unwrap(), directory)
}

fn fork(base: &VirtualStore, name: &str) -> VirtualStore {
    base.fork_as(["forks", name]).unwrap()
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

fn write_step(path: &str, bytes: &str, displaced: DisplacedContent) -> Step {
    let content = Content::Bytes(bytes.as_bytes().to_vec());
    Step::Write { at: node_path(path), content, options: PutOptions { displaced, ..PutOptions::default() } }
}

#[track_caller]
fn write(store: &dyn Store, path: &str, bytes: &str) -> RevisionNumber {
    apply(store, write_step(path, bytes, DisplacedContent::Keep))
}

#[track_caller]
fn remove(store: &dyn Store, path: &str) -> RevisionNumber {
    let step = Step::Remove {
        at: node_path(path),
        subtree: Subtree::Any,
        expect: Precondition::Any,
        if_missing: IfMissing::Fail,
        protected: None,
        displaced: DisplacedContent::Keep,
    };
    apply(store, step)
}

#[track_caller]
fn rename(store: &dyn Store, from: &str, to: &str) -> RevisionNumber {
    let step = Step::Rename {
        from: node_path(from),
        to: node_path(to),
        replace: Replace::Overwrite,
        parents: Parents::Create,
        expect: Precondition::Any,
        protected: [None, None],
    };
    apply(store, step)
}

fn read(store: &dyn Store, path: &str) -> StoreResult<String> {
    store.read(&node_path(path), u64::MAX).map(|content| String::from_utf8(content.bytes).unwrap())
}

fn names(store: &dyn Store, path: &str) -> Vec<String> {
    let listed = store.list(&node_path(path), &Page::ALL).unwrap();
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
