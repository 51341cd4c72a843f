//! Which operation is the last one: the newest revision decides, not the clock.

use std::sync::Arc;
use std::time::Duration;

use stead_core::store::Parents;
use stead_core::vfs::{LogQuery, LostUpdates, OnConflict, UndoOptions, UndoTarget};
use stead_core::{
    AccessScope, Clock, FixedClock, Identity, Mount, Store, Timestamp, Vfs, VfsPath, Workspace,
};
use stead_stores::{Database, MemoryStore};

use crate::{undo, vfs_for};

crate::on_every_store! {
    the_last_operation_is_the_newest_version_whatever_the_clock_says
    a_directory_with_a_file_of_another_agent_is_a_conflict_and_is_not_skipped
    an_operation_of_which_only_a_directory_with_a_file_of_another_agent_remains_is_a_conflict
    undo_removes_a_directory_that_is_empty_again
}

type Subject = Arc<dyn Store>;

/// An agent whose clock shows this many seconds after 2001-09-09.
fn at_second(stores: &[(&str, &Arc<dyn Store>)], second: u64) -> Vfs {
    let clock = FixedClock::at(Timestamp::from_secs(1_000_000_000));
    clock.advance(Duration::from_secs(second));
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let mut builder = Vfs::builder(Identity::agent("a")).lost_updates(LostUpdates::Allow).clock(clock);
    for (prefix, store) in stores {
        let prefix = VfsPath::parse(prefix).unwrap();
        builder = builder.workspace(Workspace::new(prefix, AccessScope::ReadWrite, Mount::from(*store)));
    }
    builder.build().unwrap()
}

fn the_last_operation_is_the_newest_version_whatever_the_clock_says(store: &Subject) {
    let (fast_clock, right_clock) = (at_second(&[("/w", store)], 60), at_second(&[("/w", store)], 0));
    fast_clock.write("/w/first", "1").unwrap();
    right_clock.write("/w/second", "2").unwrap();
    undo(&right_clock, UndoTarget::Last(1));
    assert!(right_clock.exists("/w/first").unwrap());
    assert!(!right_clock.exists("/w/second").unwrap());
    undo(&right_clock, UndoTarget::Last(1));
    assert!(!right_clock.exists("/w/first").unwrap());
}

#[test]
fn the_last_operation_is_the_newest_version_of_all_stores_in_a_database() {
    let database = Database::in_memory();
    let one: Arc<dyn Store> = Arc::new(database.store(["one"]).unwrap());
    let two: Arc<dyn Store> = Arc::new(database.store(["two"]).unwrap());
    let both = [("/one", &one), ("/two", &two)];
    at_second(&both, 60).write("/one/first", "1").unwrap();
    at_second(&both, 30).write("/two/second", "2").unwrap();
    let vfs = at_second(&both, 0);
    vfs.write("/one/third", "3").unwrap();
    let log = vfs.log(&LogQuery::default()).unwrap();
    let logged: Vec<_> = log.iter().map(|entry| entry.changes[0].path.as_str()).collect();
    assert_eq!(logged, ["/one/third", "/two/second", "/one/first"]);
    for last in ["/one/third", "/two/second", "/one/first"] {
        let undone = undo(&vfs, UndoTarget::Last(1));
        assert_eq!(undone.changes[0].path.as_str(), last);
    }
}

/// Two databases have separate revision counters: between them only the time decides, within each the counter does.
#[test]
fn operations_are_ordered_by_time_between_databases_and_by_version_within_each() {
    let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
    let both = [("/one", &stores[0]), ("/two", &stores[1])];
    for padding in 0..5 {
        // The first Store's numbers are larger, which means nothing in the second one.
        at_second(&both, 0).write(format!("/one/padding{padding}"), "").unwrap();
    }
    at_second(&both, 60).write("/one/first", "1").unwrap();
    at_second(&both, 20).write("/two/second", "2").unwrap();
    at_second(&both, 10).write("/one/third", "3").unwrap();
    let vfs = at_second(&both, 30);
    vfs.write("/two/fourth", "4").unwrap();
    let log = vfs.log(&LogQuery { limit: 4, ..LogQuery::default() }).unwrap();
    let logged: Vec<_> = log.iter().map(|entry| entry.changes[0].path.as_str()).collect();
    assert_eq!(logged, ["/two/fourth", "/two/second", "/one/third", "/one/first"]);
    for last in ["/two/fourth", "/two/second", "/one/third", "/one/first"] {
        let undone = undo(&vfs, UndoTarget::Last(1));
        assert_eq!(undone.changes[0].path.as_str(), last);
    }
}

fn a_directory_with_a_file_of_another_agent_is_a_conflict_and_is_not_skipped(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    let important = a.write("/w/important", "1").unwrap().operation;
    a.mkdir("/w/shared", Parents::Create).unwrap();
    b.write("/w/shared/x", "b's").unwrap();
    for on_conflict in [OnConflict::Refuse, OnConflict::Skip] {
        let undone =
            a.undo(UndoTarget::Last(1), UndoOptions { on_conflict, ..UndoOptions::default() }).unwrap();
        assert!(undone.changes.is_empty(), "{undone:?}");
        assert_eq!(undone.conflicts.len(), 1, "{undone:?}");
        assert_eq!(undone.conflicts[0].path.as_str(), "/w/shared");
        assert_eq!(
            undone.conflicts[0].why,
            "the directory isn't empty, so it is kept; to undo an earlier operation, pass its id"
        );
        assert!(a.exists("/w/important").unwrap());
        assert!(a.exists("/w/shared/x").unwrap());
    }
    undo(&a, UndoTarget::Operation(important));
    assert!(!a.exists("/w/important").unwrap());
}

fn an_operation_of_which_only_a_directory_with_a_file_of_another_agent_remains_is_a_conflict(
    store: &Subject,
) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    a.write("/w/important", "1").unwrap();
    a.write("/w/shared/y", "a's").unwrap();
    b.write("/w/shared/x", "b's").unwrap();
    b.remove_file("/w/shared/y", stead_core::vfs::RemoveOptions::default()).unwrap();
    let undone = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(!undone.done && undone.conflicts.len() == 1, "{undone:?}");
    assert!(a.exists("/w/important").unwrap());
}

fn undo_removes_a_directory_that_is_empty_again(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    a.mkdir("/w/shared", Parents::Create).unwrap();
    b.write("/w/shared/x", "b's").unwrap();
    assert!(!a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap().done);
    undo(&b, UndoTarget::Last(1));
    undo(&a, UndoTarget::Last(1));
    assert!(!a.exists("/w/shared").unwrap());
}
