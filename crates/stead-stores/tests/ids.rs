//! The ids of databases and Stores: which Stores share a database, and what stays the same after reopening.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use stead_core::Store;
use stead_core::testkit::{Fault, FaultyStore, InterferingStore};
use stead_stores::{Database, DatabaseOptions, MemoryStore, VirtualStore};

fn open(path: &Path) -> Database {
    Database::open(path, DatabaseOptions::default()).unwrap()
}

#[test]
fn a_virtual_store_has_the_same_id_after_reopening_and_a_copy_has_another() {
    let host = tempfile::tempdir().unwrap();
    let path = host.path().join("stead.db");
    let before = (Database::id_at(&path), VirtualStore::id_in(Database::id_at(&path), ["a", "b"]).unwrap());
    let first = open(&path);
    let (notes, code) = (first.store(["a", "b"]).unwrap(), first.store(["a/b"]).unwrap());
    assert_eq!((first.id(), notes.id()), before, "the ids are known before there is a database");
    assert_ne!(notes.id(), code.id());
    assert!((&notes as &dyn Store).shares_revisions_with(&code));
    drop((first, code));

    let again = open(&path).store(["a", "b"]).unwrap();
    assert_eq!((again.id(), again.info().database), (notes.id(), notes.info().database));
    drop((again, notes));
    std::fs::copy(&path, host.path().join("copy.db")).unwrap();
    let copy = open(&host.path().join("copy.db")).store(["a", "b"]).unwrap();
    assert_ne!((copy.id(), copy.info().database), (before.1, Some(before.0)));
}

#[test]
fn two_memory_stores_share_nothing() {
    let (one, other) = (MemoryStore::new(), MemoryStore::new());
    assert_ne!(one.id(), other.id());
    assert_ne!(one.info().database, other.info().database);
    assert!(!(&one as &dyn Store).shares_revisions_with(&other));
    assert_eq!(one.clone().id(), one.id(), "clones are the same Store");
}

#[test]
fn a_wrapper_has_the_id_of_the_store_that_it_wraps() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let faulty = FaultyStore::new(Arc::clone(&store), Fault::Never);
    let interfering = InterferingStore { store: Arc::clone(&store), interfere: Box::new(|| ()) };
    for wrapper in [&faulty as &dyn Store, &interfering] {
        assert_eq!((wrapper.id(), wrapper.info()), (store.id(), store.info()));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_has_one_id_per_database_by_whatever_path_it_is_opened() {
    use stead_stores::{PhysicalOptions, PhysicalStore};
    let host = tempfile::tempdir().unwrap();
    let (root, link) = (host.path().join("root"), host.path().join("link"));
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink("root", &link).unwrap();
    let database = open(&host.path().join("stead.db"));
    let with = |path: &Path, state: &str, database: Option<&Database>| {
        let mut options = PhysicalOptions::new(host.path().join(state));
        options.ledger = database.map_or_else(Default::default, |database| database.clone().into());
        PhysicalStore::open(path, options).unwrap()
    };
    let first = with(&root, "state", Some(&database));
    assert_eq!(first.id(), PhysicalStore::id_in(database.id(), &link));
    assert_eq!(first.info().database, Some(database.id()), "also before there is a ledger");
    assert!((&first as &dyn Store).shares_revisions_with(&database.store(["notes"]).unwrap()));
    let id = first.id();
    drop(first);
    assert_eq!(with(&link, "state", Some(&database)).id(), id);
    // With a ledger of its own the directory has other revisions, so it is another Store.
    let alone = with(&root, "other", None);
    assert_ne!((alone.id(), alone.info().database), (id, Some(database.id())));
    assert_eq!(alone.info().database, Some(Database::id_at(&host.path().join("other/stead.db"))));
}
