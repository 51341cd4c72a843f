//! Undo and restore over several Stores.

use std::sync::Arc;

use stead_core::testkit::{Fault, FaultyStore, InterferingStore};
use stead_core::vfs::{
    DiffOptions, LostUpdates, OnConflict, PointInTime, RestoreOptions, RevertResult, UndoOptions, UndoTarget,
};
use stead_core::{AccessScope, Error, ErrorKind, Identity, Mount, Operation, Store, Vfs, VfsPath, Workspace};
use stead_stores::Database;

use crate::{newest, text, undo};

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

    let second_undo = undo(&a, UndoTarget::Last(1));
    assert_eq!((second_undo.undone.len(), second_undo.changes.len()), (1, 1), "{second_undo:?}");
    assert!(!a.exists("/two/f").unwrap());
    assert!(!a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap().done);
}

/// Undoes an operation on two Stores, skipping conflicts. After the first Store is changed, `meanwhile` is called with
/// a `Vfs` of another agent.
fn undo_with_interference(
    stores: &[Arc<dyn Store>; 2],
    meanwhile: impl Fn(&Vfs) + Send + Sync + 'static,
) -> RevertResult {
    let [one, two] = stores;
    let other = crate::vfs_for(two, "b");
    let interfering: Arc<dyn Store> =
        Arc::new(InterferingStore { store: Arc::clone(one), interfere: Box::new(move || meanwhile(&other)) });
    let skip = UndoOptions { on_conflict: OnConflict::Skip, ..UndoOptions::default() };
    agent([("/one", &interfering), ("/two", two)]).undo(UndoTarget::Last(1), skip).unwrap()
}

#[test]
fn an_operation_that_comes_into_conflict_during_its_undo_does_not_count_as_undone() {
    let stores = two_stores();
    let a = agent([("/one", &stores[0]), ("/two", &stores[1])]);
    a.write("/two/kept", "before").unwrap();
    let both = a.operation("both");
    both.write("/one/f", "1").unwrap();
    both.write("/two/f", "2").unwrap();
    both.write("/two/kept", "after").unwrap();

    let undone = undo_with_interference(&stores, |other| drop(other.write("/w/kept", "another's").unwrap()));
    assert!(undone.done && undone.undone.is_empty(), "{undone:?}");
    assert_eq!(undone.incomplete.len(), 1, "{undone:?}");
    assert!(undone.incomplete[0].is_partial);
    assert_eq!(undone.conflicts.len(), 1, "{undone:?}");
    assert_eq!(undone.conflicts[0].path.as_str(), "/two/kept");
    let changed: Vec<_> = undone.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(changed, ["/one/f", "/two/f"]);
    assert_eq!(text(&a, "/two/kept"), "another's");

    let target = UndoTarget::Operation(undone.incomplete[0].operation.id);
    let second_undo = a.undo(target, UndoOptions::default()).unwrap();
    assert_eq!(second_undo.conflicts.len(), 1, "the rest has to be still undoable: {second_undo:?}");
}

#[test]
fn an_operation_whose_directory_gets_an_entry_during_its_undo_does_not_count_as_undone() {
    let stores = two_stores();
    let a = agent([("/one", &stores[0]), ("/two", &stores[1])]);
    a.write("/one/f", "before").unwrap();
    a.mkdir("/two/d", stead_core::store::Parents::Create).unwrap();
    let write = a.operation("write");
    write.write("/one/f", "after").unwrap();
    let skip = UndoOptions { on_conflict: OnConflict::Skip, ..UndoOptions::default() };
    let interfering: Arc<dyn Store> = Arc::new(InterferingStore {
        store: Arc::clone(&stores[0]),
        interfere: Box::new({
            let other = crate::vfs_for(&stores[1], "b");
            move || drop(other.write("/w/d/theirs", "x").unwrap())
        }),
    });
    let undone =
        agent([("/one", &interfering), ("/two", &stores[1])]).undo(UndoTarget::Last(2), skip).unwrap();
    let tools = |operations: &[Operation]| {
        operations.iter().map(|operation| operation.tool.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(tools(&undone.undone), ["write"], "{undone:?}");
    assert_eq!((undone.incomplete.len(), undone.conflicts.len()), (1, 1), "{undone:?}");
    assert_eq!(undone.incomplete[0].operation.tool, "mkdir");
    assert!(!undone.incomplete[0].is_partial);
    assert!(a.exists("/two/d/theirs").unwrap());
    let target = UndoTarget::Operation(undone.incomplete[0].operation.id);
    let second_undo = a.undo(target, UndoOptions::default()).unwrap();
    assert_eq!(second_undo.conflicts.len(), 1, "the rest has to be still undoable: {second_undo:?}");
}

#[test]
fn a_level_above_several_workspaces_is_restored_as_a_whole() {
    let [one, two] = two_stores();
    let a = agent([("/one", &one), ("/two", &two)]);
    a.write("/one/f", "1").unwrap();
    a.write("/two/f", "1").unwrap();
    let revision = newest(&one);
    a.write("/one/f", "2").unwrap();
    a.write("/two/g", "2").unwrap();
    let restored = a.restore("/", revision, &RestoreOptions::default()).unwrap();
    assert!(restored.done && restored.left_out.is_empty(), "{restored:?}");
    assert_eq!(text(&a, "/one/f"), "1");
    assert!(!a.exists("/two/g").unwrap());
    let only_two =
        RestoreOptions { paths: vec![VfsPath::parse("/two").unwrap()], ..RestoreOptions::default() };
    undo(&a, UndoTarget::Operation(restored.operation.unwrap()));
    a.restore("/", revision, &only_two).unwrap();
    assert_eq!(text(&a, "/one/f"), "2");
    assert!(!a.exists("/two/g").unwrap());
}

#[test]
fn a_level_above_several_workspaces_is_compared_as_a_whole() {
    let [one, two] = two_stores();
    let a = agent([("/one", &one), ("/one/two", &two)]);
    a.write("/one/f", "1\n").unwrap();
    let revision = newest(&one);
    a.write("/one/f", "2\n").unwrap();
    a.write("/one/two/g", "2\n").unwrap();
    let differences_in = |prefix: &str| -> Vec<String> {
        let differences = a.diff(prefix, revision, PointInTime::Now, DiffOptions::default()).unwrap();
        differences
            .iter()
            .map(|difference| format!("{} {}", difference.difference.as_str(), difference.path))
            .collect()
    };
    assert_eq!(differences_in("/"), ["changed /one/f", "added /one/two/g"]);
    assert_eq!(differences_in("/one"), ["changed /one/f", "added /one/two/g"]);
    assert_eq!(differences_in("/one/two"), ["added /one/two/g"]);
}

/// A revision number means nothing in a Store with a counter of its own.
#[test]
fn a_store_with_its_own_version_counter_is_left_out() {
    let one: Arc<dyn Store> = Arc::new(Database::in_memory().store(["one"]).unwrap());
    let two: Arc<dyn Store> = Arc::new(Database::in_memory().store(["two"]).unwrap());
    let a = agent([("/one", &one), ("/two", &two)]);
    a.write("/one/f", "1").unwrap();
    a.write("/two/f", "1").unwrap();
    let revision = newest(&one);
    a.write("/one/f", "2").unwrap();
    a.write("/two/f", "2").unwrap();
    let restored = a.restore("/", revision, &RestoreOptions::default()).unwrap();
    let left_out: Vec<_> =
        restored.left_out.iter().map(|left_out_path| left_out_path.path.as_str()).collect();
    assert_eq!(left_out, ["/two"], "{restored:?}");
    assert_eq!((text(&a, "/one/f"), text(&a, "/two/f")), ("1".to_owned(), "2".to_owned()));
    let differences = a.diff("/", revision, PointInTime::Now, DiffOptions::default()).unwrap();
    assert!(
        differences.iter().all(|difference| difference.path.as_str().starts_with("/one")),
        "{differences:?}"
    );
}
