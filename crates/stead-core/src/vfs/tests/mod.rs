//! What a `Vfs` promises, tested over the model Store: no disk, no database.

mod audit;
mod copying;
mod draft_quotas;
mod forking;
mod open_files;
mod protection;
mod quotas;
mod reading;
mod routing;
mod scopes;
mod symlinks;
mod watching;
mod writing;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use super::*;
use crate::edit::Occurrences;
use crate::error::{Error, ErrorKind};
use crate::path::VfsPath;
use crate::scope::AccessScope::{self, ReadOnly, ReadWrite, WriteOnly};
use crate::search::{GrepOutput, GrepQuery};
use crate::store::{NodeKind, Parents, Store};
use crate::testkit::{Fault, FaultyStore, InterferingStore, ModelStore, PanickingStore};
use crate::workspace::Mount;

fn path(text: &str) -> VfsPath {
    VfsPath::parse(text).unwrap()
}

fn workspace(prefix: &str, scope: AccessScope, store: &Arc<ModelStore>) -> Workspace {
    Workspace::new(path(prefix), scope, Mount::new(store.clone()))
}

fn door(workspaces: impl IntoIterator<Item = Workspace>) -> Vfs {
    let builder = Vfs::builder(Identity::agent("tester"));
    workspaces.into_iter().fold(builder, VfsBuilder::workspace).build().unwrap()
}

/// A `Vfs` with a READ_WRITE Workspace at `/`, on a new Store.
fn open_door() -> (Vfs, Arc<ModelStore>) {
    let store = Arc::new(ModelStore::new());
    (door([workspace("/", ReadWrite, &store)]), store)
}

/// A Store with files in it.
fn store_with(files: &[(&str, &str)]) -> Arc<ModelStore> {
    let (vfs, store) = open_door();
    for (path, content) in files {
        vfs.write(*path, *content).unwrap();
    }
    store
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn text(vfs: &Vfs, path: &str) -> String {
    String::from_utf8(vfs.read(path).unwrap().bytes).unwrap()
}

fn names(vfs: &Vfs, path: &str) -> String {
    let directory = vfs.list(path, &ListPage::all()).unwrap();
    assert_eq!(directory.total, directory.entries.len() as u64);
    directory.entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>().join(" ")
}

/// Makes a symlink directly in a Store.
fn store_link(store: &Arc<ModelStore>, at: &str, target: &str) {
    door([workspace("/", ReadWrite, store)]).symlink(at, target).unwrap();
}

#[test]
fn one_operation_spans_all_that_is_changed_through_it() {
    let (vfs, _) = open_door();
    let act = vfs.operation("refactor");
    let (one, two) = (act.write("/a", "1").unwrap(), act.write("/b", "2").unwrap());
    assert_eq!(one.operation, two.operation);
    assert_ne!(vfs.write("/c", "3").unwrap().operation, vfs.write("/d", "4").unwrap().operation);
}
