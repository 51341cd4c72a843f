//! History through the `Vfs`: log, undo, restore, diff and blame, on all Stores with a history.

#![allow(clippy::unwrap_used)]

mod access_scopes;
mod cancellation;
mod comparing;
mod concurrent_undo;
mod external_changes;
mod modes;
mod moved_directories;
mod operation_order;
mod random;
mod several_stores;
mod undoing;

use std::sync::Arc;

use stead_core::store::RevisionId;
use stead_core::vfs::{LostUpdates, RemoveOptions, RevertResult, UndoOptions, UndoTarget};
use stead_core::{AccessScope, Identity, Mount, Store, Vfs, VfsPath, Workspace};
#[cfg(target_os = "linux")]
use stead_stores::{Database, Durability, PhysicalOptions, PhysicalStore};

/// A `Vfs` for an agent, with the whole Store at `/w`.
fn vfs_for(store: &Arc<dyn Store>, agent: &str) -> Vfs {
    let prefix = VfsPath::parse("/w").unwrap();
    let workspace = Workspace::new(prefix, AccessScope::ReadWrite, Mount::from(store));
    let builder = Vfs::builder(Identity::agent(agent)).lost_updates(LostUpdates::Allow);
    builder.workspace(workspace).build().unwrap()
}

/// A Physical Store that retains displaced content.
#[cfg(target_os = "linux")]
fn in_a_directory() -> (Arc<dyn Store>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let options = PhysicalOptions {
        durability: Durability::Fast,
        ledger: Database::in_memory().into(),
        ..PhysicalOptions::new(directory.path().join("state"))
    };
    (Arc::new(PhysicalStore::open(&root, options).unwrap()), directory)
}

/// The newest revision of a Store.
fn newest(store: &Arc<dyn Store>) -> RevisionId {
    store.revision(store.require_history().unwrap().latest_revision().unwrap())
}

/// Undoes, without any conflict.
#[track_caller]
fn undo(vfs: &Vfs, target: UndoTarget) -> RevertResult {
    let undone = vfs.undo(target, UndoOptions::default()).unwrap();
    assert!(undone.done, "{:?}", undone.conflicts);
    undone
}

#[track_caller]
fn text(vfs: &Vfs, path: &str) -> String {
    String::from_utf8(vfs.read(path).unwrap().bytes).unwrap()
}

/// A fork that has already changed everything in its base, so that all it shows is its own.
fn fork() -> Arc<dyn Store> {
    let base = stead_stores::MemoryStore::new();
    let names = ["a", "b", "c", "f", "d/a", "d/e/a", "dir/f", "text"];
    let (of_base, recursive) = (
        vfs_for(&(Arc::new(base.clone()) as _), "base"),
        RemoveOptions { recursive: true, ..RemoveOptions::default() },
    );
    for name in names {
        of_base.write(&*format!("/w/{name}"), "the base's\n").unwrap();
    }
    let fork: Arc<dyn Store> = Arc::new(base.fork_as(["fork"]).unwrap());
    let of_fork = vfs_for(&fork, "fork");
    for name in ["a", "b", "c", "f", "text"] {
        of_fork.remove_file(&*format!("/w/{name}"), recursive).unwrap();
    }
    for name in ["d", "dir"] {
        of_fork.remove_directory(&*format!("/w/{name}"), recursive).unwrap();
    }
    fork
}

/// Runs the tests on each Store with a history.
#[macro_export]
macro_rules! on_every_store {
    ($($test:ident)*) => {
        mod in_memory {
            $(#[test]
            fn $test() {
                super::$test(&(std::sync::Arc::new(stead_stores::MemoryStore::new()) as _));
            })*
        }

        #[cfg(target_os = "linux")]
        mod in_a_directory {
            $(#[test]
            fn $test() {
                let (store, _directory) = $crate::in_a_directory();
                super::$test(&store);
            })*
        }

        mod on_a_fork {
            $(#[test]
            fn $test() {
                super::$test(&$crate::fork());
            })*
        }
    };
}
