//! Undo: what comes back, what stays, and what is a conflict.

use std::sync::Arc;

use stead_core::history::RevertAction;
use stead_core::vfs::{
    LogQuery, OnConflict, Overwrite, RemoveOptions, RestoreOptions, UndoOptions, UndoTarget,
};
use stead_core::{ErrorKind, Occurrences, Store, VfsPath};

use crate::{door, text, undo};

crate::on_every_store! {
    the_last_operation_is_taken_back
    an_operation_of_many_changes_is_taken_back_whole
    undoing_twice_goes_further_back_and_an_undo_can_be_undone
    a_removed_tree_comes_back
    what_others_did_stays
    different_lines_are_merged_and_the_same_line_is_a_conflict
    a_conflict_changes_nothing_unless_told_to_skip
    a_file_is_taken_back_where_it_is_now
    a_file_that_moved_to_another_directory_is_taken_back_there
    an_undo_that_changes_nothing_does_not_use_its_operation_up
    operations_that_cancel_each_other_out_are_undone_together
    a_directory_that_others_use_stays
    names_that_changed_places_change_back
    a_name_that_is_taken_is_a_conflict
    a_dry_run_changes_nothing
    an_agent_takes_back_only_its_own
    a_version_is_restored
    some_paths_are_restored
    some_paths_are_restored_and_no_others_while_someone_writes
    an_operation_is_taken_back_once_however_many_try
    what_has_been_taken_back_is_not_taken_back_again
    the_log_tells_who_did_what
}

type Subject = Arc<dyn Store>;

fn recursive() -> RemoveOptions {
    RemoveOptions { recursive: true, ..RemoveOptions::default() }
}

fn the_last_operation_is_taken_back(store: &Subject) {
    let a = door(store, "a");
    a.write("/w/f", "one").unwrap();
    a.write("/w/f", "two").unwrap();
    let undone = undo(&a, UndoTarget::Last(1));
    assert_eq!(text(&a, "/w/f"), "one");
    assert_eq!(undone.changes.len(), 1);
    assert_eq!(undone.changes[0].action, RevertAction::Reverted);
    assert_eq!(undone.undone[0].tool, "write");
}

fn an_operation_of_many_changes_is_taken_back_whole(store: &Subject) {
    let a = door(store, "a");
    a.write("/w/before", "stays").unwrap();
    let before = stead_core::testkit::snapshot_of(&**store);
    let many = a.operation("many");
    for number in 0..90 {
        many.write(format!("/w/{number}"), "x").unwrap();
    }
    undo(&a, UndoTarget::Last(1));
    assert_eq!(stead_core::testkit::snapshot_of(&**store), before);
}

fn undoing_twice_goes_further_back_and_an_undo_can_be_undone(store: &Subject) {
    let a = door(store, "a");
    for content in ["one", "two", "three"] {
        a.write("/w/f", content).unwrap();
    }
    undo(&a, UndoTarget::Last(1));
    let second = undo(&a, UndoTarget::Last(1));
    assert_eq!(text(&a, "/w/f"), "one");
    undo(&a, UndoTarget::Operation(second.operation.unwrap()));
    assert_eq!(text(&a, "/w/f"), "two");
    // With the undo undone, the write that it had undone is the last operation again.
    undo(&a, UndoTarget::Last(1));
    assert_eq!(text(&a, "/w/f"), "one");
    undo(&a, UndoTarget::Last(1));
    assert!(!a.exists("/w/f").unwrap());
    let nothing = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(nothing.undone.is_empty() && nothing.operation.is_none());
}

fn a_removed_tree_comes_back(store: &Subject) {
    let a = door(store, "a");
    a.write("/w/d/one", "1").unwrap();
    a.write("/w/d/deep/er/two", "2").unwrap();
    a.symlink("/w/d/link", "one").unwrap();
    a.set_attributes("/w/d/one", Some(0o755), None).unwrap();
    let before = stead_core::testkit::snapshot_of(&**store);
    a.remove_directory("/w/d", recursive()).unwrap();
    assert!(!a.exists("/w/d").unwrap());
    let undone = undo(&a, UndoTarget::Last(1));
    assert_eq!(stead_core::testkit::snapshot_of(&**store), before);
    assert!(undone.changes.iter().all(|change| change.action == RevertAction::Restored));
    undo(&a, UndoTarget::Operation(undone.operation.unwrap()));
    assert!(!a.exists("/w/d").unwrap());
}

fn what_others_did_stays(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    a.write("/w/shared/a", "a1").unwrap();
    b.write("/w/shared/b", "b1").unwrap();
    a.write("/w/shared/a", "a2").unwrap();
    b.write("/w/shared/b", "b2").unwrap();
    a.remove_file("/w/shared/a", RemoveOptions::default()).unwrap();
    undo(&a, UndoTarget::Last(3));
    assert!(!a.exists("/w/shared/a").unwrap());
    assert_eq!(text(&b, "/w/shared/b"), "b2");
}

fn different_lines_are_merged_and_the_same_line_is_a_conflict(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    b.write("/w/f", "1\n2\n3\n4\n5\n6\n7\n").unwrap();
    a.edit("/w/f", "2", "two", Occurrences::One).unwrap();
    b.edit("/w/f", "6", "six", Occurrences::One).unwrap();
    let undone = undo(&a, UndoTarget::Last(1));
    assert_eq!(text(&a, "/w/f"), "1\n2\n3\n4\n5\nsix\n7\n");
    assert_eq!(undone.changes[0].action, RevertAction::Merged);

    a.edit("/w/f", "4", "four", Occurrences::One).unwrap();
    b.edit("/w/f", "four", "vier", Occurrences::One).unwrap();
    let refused = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(!refused.done && refused.operation.is_none());
    assert_eq!(refused.conflicts[0].path.as_str(), "/w/f");
    assert_eq!(refused.conflicts[0].why, "the same lines have been changed since");
    assert_eq!(text(&a, "/w/f"), "1\n2\n3\nvier\n5\nsix\n7\n");
}

fn a_conflict_changes_nothing_unless_told_to_skip(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    let writes = a.operation("refactor");
    writes.write("/w/mine", "a").unwrap();
    writes.write("/w/ours", "a").unwrap();
    b.write("/w/ours", "b").unwrap();
    let refused = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(!refused.done && refused.conflicts.len() == 1);
    assert_eq!(text(&a, "/w/mine"), "a");
    let skip = UndoOptions { on_conflict: OnConflict::Skip, ..UndoOptions::default() };
    let skipped = a.undo(UndoTarget::Last(1), skip).unwrap();
    assert!(skipped.done && skipped.conflicts.len() == 1);
    assert!(!a.exists("/w/mine").unwrap());
    assert_eq!(text(&a, "/w/ours"), "b");
}

fn a_file_is_taken_back_where_it_is_now(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    b.write("/w/dir/f", "before").unwrap();
    a.write("/w/dir/f", "after").unwrap();
    b.rename("/w/dir", "/w/moved", Overwrite::Refuse).unwrap();
    b.rename("/w/moved/f", "/w/moved/g", Overwrite::Refuse).unwrap();
    undo(&a, UndoTarget::Last(1));
    assert_eq!(text(&a, "/w/moved/g"), "before");
}

/// None of the undone operations names the directory that the file moved to.
fn a_file_that_moved_to_another_directory_is_taken_back_there(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    b.write("/w/elsewhere/other", "").unwrap();
    for (number, change) in ["edit", "append", "write"].into_iter().enumerate() {
        let (here, there) = (format!("/w/{number}"), format!("/w/elsewhere/{number}"));
        b.write(&*here, "first\n").unwrap();
        match change {
            "edit" => drop(a.edit(&*here, "first", "second", Occurrences::One).unwrap()),
            "append" => drop(a.append(&*here, "second\n").unwrap()),
            _ => drop(a.write(&*here, "second\n").unwrap()),
        }
        b.rename(&*here, &*there, Overwrite::Refuse).unwrap();
        let undone = undo(&a, UndoTarget::Last(1));
        assert_eq!(text(&a, &there), "first\n", "{change}");
        let changed: Vec<_> = undone.changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(changed, [&*there], "{change}");
    }
}

/// An operation may have no effect any more, because another agent has put back what was there before.
fn an_undo_that_changes_nothing_does_not_use_its_operation_up(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    a.write("/w/first", "1").unwrap();
    b.write("/w/f", "old").unwrap();
    let idle = a.write("/w/f", "new").unwrap().operation;
    b.write("/w/f", "old").unwrap();
    let nothing = a.undo(UndoTarget::Operation(idle), UndoOptions::default()).unwrap();
    assert!(!nothing.done && nothing.undone.is_empty() && nothing.operation.is_none(), "{nothing:?}");
    // It can still be undone once there is something to undo.
    b.write("/w/f", "new").unwrap();
    undo(&a, UndoTarget::Operation(idle));
    assert_eq!(text(&a, "/w/f"), "old");

    let idle = a.write("/w/f", "newer").unwrap().operation;
    b.write("/w/f", "old").unwrap();
    // The last operation is the last one that has an effect: one without any effect doesn't block undo.
    let last = undo(&a, UndoTarget::Last(1));
    assert!(last.undone.iter().all(|operation| operation.id != idle), "{last:?}");
    assert!(!a.exists("/w/first").unwrap());
}

fn operations_that_cancel_each_other_out_are_undone_together(store: &Subject) {
    let a = door(store, "a");
    a.write("/w/before", "1").unwrap();
    a.write("/w/f", "1").unwrap();
    a.remove_file("/w/f", RemoveOptions::default()).unwrap();
    let both = undo(&a, UndoTarget::Last(2));
    assert_eq!((both.undone.len(), both.changes.len()), (2, 0));
    undo(&a, UndoTarget::Last(1));
    assert!(!a.exists("/w/before").unwrap() && !a.exists("/w/f").unwrap());
}

fn a_directory_that_others_use_stays(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    a.write("/w/dir/a", "a").unwrap();
    b.write("/w/dir/b", "b").unwrap();
    undo(&a, UndoTarget::Last(1));
    assert!(!a.exists("/w/dir/a").unwrap());
    assert_eq!(text(&b, "/w/dir/b"), "b");
}

fn names_that_changed_places_change_back(store: &Subject) {
    let a = door(store, "a");
    a.write("/w/one/f", "1").unwrap();
    a.write("/w/two/f", "2").unwrap();
    let before = stead_core::testkit::snapshot_of(&**store);
    let swap = a.operation("swap");
    swap.rename("/w/one", "/w/three", Overwrite::Refuse).unwrap();
    swap.rename("/w/two", "/w/one", Overwrite::Refuse).unwrap();
    swap.rename("/w/three", "/w/two", Overwrite::Refuse).unwrap();
    swap.rename("/w/one/f", "/w/two/g", Overwrite::Refuse).unwrap();
    undo(&a, UndoTarget::Last(1));
    assert_eq!(stead_core::testkit::snapshot_of(&**store), before);
}

fn a_name_that_is_taken_is_a_conflict(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    b.write("/w/f", "old").unwrap();
    a.remove_file("/w/f", RemoveOptions::default()).unwrap();
    b.write("/w/f", "new").unwrap();
    let refused = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert_eq!(refused.conflicts[0].why, "another entry has its name now");
    assert_eq!(text(&a, "/w/f"), "new");
}

fn a_dry_run_changes_nothing(store: &Subject) {
    let a = door(store, "a");
    a.write("/w/f", "one").unwrap();
    a.write("/w/f", "two").unwrap();
    let before = stead_core::testkit::snapshot_of(&**store);
    let dry = a.undo(UndoTarget::Last(2), UndoOptions { dry_run: true, ..UndoOptions::default() }).unwrap();
    assert_eq!(dry.undone.len(), 2);
    assert_eq!(dry.changes.len(), 1);
    assert_eq!(dry.changes[0].action, RevertAction::Removed);
    assert!(!dry.done);
    assert_eq!(stead_core::testkit::snapshot_of(&**store), before);
}

fn an_agent_takes_back_only_its_own(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    let written = b.write("/w/f", "b").unwrap();
    let refused = a.undo(UndoTarget::Operation(written.operation), UndoOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(a.undo(UndoTarget::Last(5), UndoOptions::default()).unwrap().undone.is_empty());
}

fn a_version_is_restored(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    a.write("/w/d/f", "one").unwrap();
    a.write("/w/keep", "kept").unwrap();
    let version = crate::newest(store);
    let before = stead_core::testkit::snapshot_of(&**store);
    b.write("/w/d/f", "two").unwrap();
    b.rename("/w/d", "/w/e", Overwrite::Refuse).unwrap();
    a.write("/w/new", "new").unwrap();
    b.remove_directory("/w/e", recursive()).unwrap();
    let restored = a.restore("/w", version, &RestoreOptions::default()).unwrap();
    assert!(restored.done, "{restored:?}");
    assert_eq!(stead_core::testkit::snapshot_of(&**store), before);
    // A restore is a change like any other.
    undo(&a, UndoTarget::Operation(restored.operation.unwrap()));
    assert_eq!(text(&a, "/w/new"), "new");
    assert!(!a.exists("/w/d").unwrap());
}

fn some_paths_are_restored(store: &Subject) {
    let a = door(store, "a");
    a.write("/w/d/one", "1").unwrap();
    a.write("/w/d/two", "2").unwrap();
    let version = crate::newest(store);
    a.write("/w/other", "stays").unwrap();
    a.remove_directory("/w/d", recursive()).unwrap();
    let only =
        RestoreOptions { paths: vec![VfsPath::parse("/w/d/two").unwrap()], ..RestoreOptions::default() };
    assert!(a.restore("/w", version, &only).unwrap().done);
    assert_eq!(text(&a, "/w/d/two"), "2");
    assert!(!a.exists("/w/d/one").unwrap());
    assert_eq!(text(&a, "/w/other"), "stays");
}

/// A plan that has to be made again covers the same paths.
fn some_paths_are_restored_and_no_others_while_someone_writes(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    a.write("/w/one", "as it was").unwrap();
    a.write("/w/other", "as it was").unwrap();
    let version = crate::newest(store);
    a.write("/w/other", "as it is").unwrap();
    std::thread::scope(|scope| {
        let writer =
            scope.spawn(|| (0..300).for_each(|number| drop(b.write("/w/one", number.to_string()).unwrap())));
        let only =
            RestoreOptions { paths: vec![VfsPath::parse("/w/one").unwrap()], ..RestoreOptions::default() };
        while !writer.is_finished() {
            // That it was overtaken again and again is a valid answer too.
            if let Err(error) = a.restore("/w", version, &only) {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            }
            assert_eq!(text(&a, "/w/other"), "as it is");
        }
    });
}

fn an_operation_is_taken_back_once_however_many_try(store: &Subject) {
    let a = door(store, "a");
    a.write("/w/f", "0").unwrap();
    for number in 1..=20 {
        a.write("/w/f", number.to_string()).unwrap();
    }
    let taken_back = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..5)
            .map(|_| {
                scope.spawn(|| {
                    let mut taken_back = Vec::new();
                    while taken_back.len() < 4 {
                        match a.undo(UndoTarget::Last(1), UndoOptions::default()) {
                            Ok(undone) if undone.done => {
                                taken_back.extend(undone.undone.iter().map(|one| one.id))
                            }
                            Ok(_) => {}
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                        }
                    }
                    taken_back
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let different: std::collections::BTreeSet<_> = taken_back.iter().collect();
    assert_eq!((taken_back.len(), different.len()), (20, 20), "none is claimed by two");
    assert_eq!(text(&a, "/w/f"), "0");
}

fn what_has_been_taken_back_is_not_taken_back_again(store: &Subject) {
    let a = door(store, "a");
    let written = a.write("/w/f", "x").unwrap();
    let undone = undo(&a, UndoTarget::Operation(written.operation));
    let again = a.undo(UndoTarget::Operation(written.operation), UndoOptions::default()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NotFound, "{again}");
    // After the undo is undone, it can be.
    undo(&a, UndoTarget::Operation(undone.operation.unwrap()));
    undo(&a, UndoTarget::Operation(written.operation));
    assert!(!a.exists("/w/f").unwrap());
}

fn the_log_tells_who_did_what(store: &Subject) {
    let (a, b) = (door(store, "a"), door(store, "b"));
    a.write("/w/d/f", "one").unwrap();
    b.edit("/w/d/f", "one", "two", Occurrences::One).unwrap();
    a.rename("/w/d/f", "/w/d/g", Overwrite::Refuse).unwrap();
    b.write("/w/other", "").unwrap();
    a.remove_file("/w/d/g", RemoveOptions::default()).unwrap();
    let shown = |query: &LogQuery| -> Vec<String> {
        let entry = |entry: stead_core::vfs::LogEntry| {
            let changes: Vec<_> = entry
                .changes
                .iter()
                .map(|change| match &change.from {
                    Some(from) => format!("{} {from} -> {}", change.action.as_str(), change.path),
                    None => format!("{} {}", change.action.as_str(), change.path),
                })
                .collect();
            format!("{} {}: {}", entry.operation.identity.agent, entry.operation.tool, changes.join(", "))
        };
        a.log(query).unwrap().into_iter().map(entry).collect()
    };
    let of_file = [
        "a remove: removed /w/d/g",
        "a move: moved /w/d/f -> /w/d/g",
        "b edit: written /w/d/f",
        "a write: created /w/d/f",
    ];
    let path = |path| Some(VfsPath::parse(path).unwrap());
    // Also by a former name.
    assert_eq!(shown(&LogQuery { path: path("/w/d/g"), ..LogQuery::default() }), of_file);
    let of_b = LogQuery { agent: Some("b".into()), ..LogQuery::default() };
    assert_eq!(shown(&of_b), ["b write: created /w/other", "b edit: written /w/d/f"]);
    let of_directory = shown(&LogQuery { path: path("/w/d"), ..LogQuery::default() });
    assert_eq!(of_directory[..3], of_file[..3]);
    assert_eq!(of_directory[3], "a write: created /w/d, created /w/d/f");
}
