//! What a `Vfs` promises, tested over the model Store: no disk, no database.

mod audit;
mod copying;
mod draft_quotas;
mod forking;
mod hiding;
mod ignoring;
mod leases;
mod open_files;
mod protection;
mod quotas;
mod reading;
mod redirects;
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

fn vfs_with(workspaces: impl IntoIterator<Item = Workspace>) -> Vfs {
    let builder = Vfs::builder(Identity::agent("tester"));
    workspaces.into_iter().fold(builder, VfsBuilder::workspace).build().unwrap()
}

/// A `Vfs` with a READ_WRITE Workspace at `/`, on a new Store.
fn read_write_vfs() -> (Vfs, Arc<ModelStore>) {
    let store = Arc::new(ModelStore::new());
    (vfs_with([workspace("/", ReadWrite, &store)]), store)
}

/// A Store with files in it.
fn store_with(files: &[(&str, &str)]) -> Arc<ModelStore> {
    let (vfs, store) = read_write_vfs();
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
    let listing = vfs.list(path, &ListPage::all()).unwrap();
    assert_eq!(listing.total, listing.entries.len() as u64);
    listing.entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>().join(" ")
}

/// Makes a symlink directly in a Store.
fn store_link(store: &Arc<ModelStore>, path: &str, target: &str) {
    vfs_with([workspace("/", ReadWrite, store)]).symlink(path, target).unwrap();
}

#[test]
fn one_operation_covers_all_changes_made_through_it() {
    let (vfs, _) = read_write_vfs();
    let operation = vfs.operation("refactor");
    let (first, second) = (operation.write("/a", "1").unwrap(), operation.write("/b", "2").unwrap());
    assert_eq!(first.operation, second.operation);
    assert_ne!(vfs.write("/c", "3").unwrap().operation, vfs.write("/d", "4").unwrap().operation);
}
