//! History through the door: log, undo, restore, diff and blame, on the Stores that keep one.

#![allow(clippy::unwrap_used)]

mod comparing;
mod random;
mod undoing;

use std::sync::Arc;

use stead_core::vfs::{LostUpdates, Undo, UndoOptions, Undone};
use stead_core::{AccessScope, Identity, Mount, Store, Vfs, VfsPath, Workspace};
#[cfg(target_os = "linux")]
use stead_stores::{Database, Durability, PhysicalOptions, PhysicalStore};

/// A door for an agent, with the whole Store at `/w`.
fn door(store: &Arc<dyn Store>, agent: &str) -> Vfs {
    let prefix = VfsPath::parse("/w").unwrap();
    let workspace = Workspace::new(prefix, AccessScope::ReadWrite, Mount::from(store));
    let builder = Vfs::builder(Identity::agent(agent)).lost_updates(LostUpdates::Allow);
    builder.workspace(workspace).build().unwrap()
}

/// A directory that keeps what is displaced in it.
#[cfg(target_os = "linux")]
fn in_a_directory() -> (Arc<dyn Store>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let options = PhysicalOptions {
        durability: Durability::Fast,
        ledger: Some(Database::in_memory().into()),
        ..PhysicalOptions::new(directory.path().join("state"))
    };
    (Arc::new(PhysicalStore::open(&root, options).unwrap()), directory)
}

/// Takes back, and has to find nothing in its way.
#[track_caller]
fn undo(door: &Vfs, what: Undo) -> Undone {
    let undone = door.undo(what, UndoOptions::default()).unwrap();
    assert!(undone.done, "{:?}", undone.conflicts);
    undone
}

#[track_caller]
fn text(door: &Vfs, path: &str) -> String {
    String::from_utf8(door.read(path).unwrap().bytes).unwrap()
}

/// The Stores that keep a history, one test each.
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
    };
}
