//! Undo and restore over several Stores.

use std::sync::Arc;

use stead_core::store::RevisionNumber;
use stead_core::testkit::{Fault, FaultyStore};
use stead_core::vfs::{DiffOptions, LostUpdates, RestoreOptions, UndoOptions, UndoTarget};
use stead_core::{AccessScope, Error, ErrorKind, Identity, Mount, Store, Vfs, VfsPath, Workspace};
use stead_stores::Database;

use crate::{text, undo};

fn agent(stores: [(&str, &Arc<dyn Store>); 2]) -> Vfs {
    let mut builder = Vfs::builder(Identity::agent("a")).lost_updates(LostUpdates::Allow);
    for (prefix, store) in stores {
        let prefix = VfsPath::parse(prefix).unwrap();
        builder = builder.workspace(Workspace::new(prefix, AccessScope::ReadWrite, Mount::from(store)));
    }
    builder.build().unwrap()
}

fn two_stores() -> [Arc<dyn Store>; 2] {
    let database = Database::in_memory();
    [Arc::new(database.store(["one"]).unwrap()), Arc::new(database.store(["two"]).unwrap())]
}

#[test]
fn an_undo_that_fails_in_the_second_store_is_finished_by_the_next_one() {
    let [one, two] = two_stores();
    let a = agent([("/one", &one), ("/two", &two)]);
    let both = a.operation("both");
    both.write("/one/f", "1").unwrap();
    both.write("/two/f", "2").unwrap();

    let dry = UndoOptions { dry_run: true, ..UndoOptions::default() };
    let counted = Arc::new(FaultyStore::new(Arc::clone(&two), Fault::Never));
    agent([("/one", &one), ("/two", &(Arc::clone(&counted) as _))]).undo(UndoTarget::Last(1), dry).unwrap();
    // The call after all of the planning is the change itself.
    let broken: Arc<dyn Store> =
        Arc::new(FaultyStore::new(Arc::clone(&two), Fault::Before(counted.calls() + 1)));
    let error = agent([("/one", &one), ("/two", &broken)]).undo(UndoTarget::Last(1), UndoOptions::default());
    let error = error.unwrap_err();
    assert!(matches!(error, Error::PartiallyApplied { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().starts_with("completed in `/one`, but failed in `/two`: "), "{error}");
    assert!(!a.exists("/one/f").unwrap());
    assert_eq!(text(&a, "/two/f"), "2");

    let rest = undo(&a, UndoTarget::Last(1));
    assert_eq!((rest.undone.len(), rest.changes.len()), (1, 1), "{rest:?}");
    assert!(!a.exists("/two/f").unwrap());
    assert!(!a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap().done);
}

#[test]
fn a_level_above_several_workspaces_is_restored_as_a_whole() {
    let [one, two] = two_stores();
    let a = agent([("/one", &one), ("/two", &two)]);
    a.write("/one/f", "1").unwrap();
    a.write("/two/f", "1").unwrap();
    let version = one.require_history().unwrap().latest_revision().unwrap();
    a.write("/one/f", "2").unwrap();
    a.write("/two/g", "2").unwrap();
    let restored = a.restore("/", version, &RestoreOptions::default()).unwrap();
    assert!(restored.done && restored.left_out.is_empty(), "{restored:?}");
    assert_eq!(text(&a, "/one/f"), "1");
    assert!(!a.exists("/two/g").unwrap());
    let only = RestoreOptions { paths: vec![VfsPath::parse("/two").unwrap()], ..RestoreOptions::default() };
    undo(&a, UndoTarget::Operation(restored.operation.unwrap()));
    a.restore("/", version, &only).unwrap();
    assert_eq!(text(&a, "/one/f"), "2");
    assert!(!a.exists("/two/g").unwrap());
}

#[test]
fn a_level_above_several_workspaces_is_compared_as_a_whole() {
    let [one, two] = two_stores();
    let a = agent([("/one", &one), ("/one/two", &two)]);
    a.write("/one/f", "1\n").unwrap();
    let version = one.require_history().unwrap().latest_revision().unwrap();
    a.write("/one/f", "2\n").unwrap();
    a.write("/one/two/g", "2\n").unwrap();
    let differing = |prefix: &str| -> Vec<String> {
        let found = a.diff(prefix, version, RevisionNumber::NOW, DiffOptions::default()).unwrap();
        found.iter().map(|one| format!("{} {}", one.difference.as_str(), one.path)).collect()
    };
    assert_eq!(differing("/"), ["changed /one/f", "added /one/two/g"]);
    assert_eq!(differing("/one"), ["changed /one/f", "added /one/two/g"]);
    assert_eq!(differing("/one/two"), ["added /one/two/g"]);
}

/// A revision number means nothing in a Store with a counter of its own.
#[test]
fn a_store_that_counts_its_versions_apart_is_left_out() {
    let one: Arc<dyn Store> = Arc::new(Database::in_memory().store(["one"]).unwrap());
    let two: Arc<dyn Store> = Arc::new(Database::in_memory().store(["two"]).unwrap());
    let a = agent([("/one", &one), ("/two", &two)]);
    a.write("/one/f", "1").unwrap();
    a.write("/two/f", "1").unwrap();
    let version = one.require_history().unwrap().latest_revision().unwrap();
    a.write("/one/f", "2").unwrap();
    a.write("/two/f", "2").unwrap();
    let restored = a.restore("/", version, &RestoreOptions::default()).unwrap();
    let left_out: Vec<_> = restored.left_out.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(left_out, ["/two"], "{restored:?}");
    assert_eq!((text(&a, "/one/f"), text(&a, "/two/f")), ("1".to_owned(), "2".to_owned()));
    let differing = a.diff("/", version, RevisionNumber::NOW, DiffOptions::default()).unwrap();
    assert!(differing.iter().all(|one| one.path.as_str().starts_with("/one")), "{differing:?}");
}
