//! Undo: what comes back, what stays, and what is a conflict.

use std::sync::Arc;

use stead_core::history::RevertAction;
use stead_core::vfs::{
    LogQuery, OnConflict, Overwrite, RemoveOptions, RestoreOptions, UndoOptions, UndoTarget,
};
use stead_core::{ErrorKind, Occurrences, Store, VfsPath};

use crate::{text, undo, vfs_for};

crate::on_every_store! {
    the_last_operation_is_undone
    an_operation_of_many_changes_is_undone_completely
    undoing_twice_goes_further_back_and_an_undo_can_be_undone
    undo_restores_a_removed_tree
    changes_of_other_agents_stay
    different_lines_are_merged_and_the_same_line_is_a_conflict
    a_conflict_changes_nothing_unless_conflicts_are_skipped
    a_change_of_a_renamed_file_is_undone_under_its_new_name
    a_change_of_a_file_that_moved_to_another_directory_is_undone_there
    an_undo_that_changes_nothing_does_not_use_its_operation_up
    operations_that_cancel_each_other_out_are_undone_together
    a_directory_that_other_agents_use_stays
    swapped_names_are_swapped_back
    a_name_that_is_taken_is_a_conflict
    a_conflict_names_the_path_of_a_file_whose_directories_are_gone
    a_dry_run_changes_nothing
    an_agent_can_undo_only_its_own_operations
    a_version_is_restored
    some_paths_are_restored
    some_paths_are_restored_and_no_others_while_another_agent_writes
    an_operation_is_undone_once_by_however_many_threads
    an_undone_operation_can_not_be_undone_again
    the_log_shows_which_agent_made_which_change
}

type Subject = Arc<dyn Store>;

fn recursive() -> RemoveOptions {
    RemoveOptions { recursive: true, ..RemoveOptions::default() }
}

fn the_last_operation_is_undone(store: &Subject) {
    let a = vfs_for(store, "a");
    a.write("/w/f", "one").unwrap();
    a.write("/w/f", "two").unwrap();
    let undone = undo(&a, UndoTarget::Last(1));
    assert_eq!(text(&a, "/w/f"), "one");
    assert_eq!(undone.changes.len(), 1);
    assert_eq!(undone.changes[0].action, RevertAction::Reverted);
    assert_eq!(undone.undone[0].tool, "write");
}

fn an_operation_of_many_changes_is_undone_completely(store: &Subject) {
    let a = vfs_for(store, "a");
    a.write("/w/before", "stays").unwrap();
    let before = stead_core::testkit::snapshot_of(&**store);
    let operation = a.operation("many");
    for number in 0..90 {
        operation.write(format!("/w/{number}"), "x").unwrap();
    }
    undo(&a, UndoTarget::Last(1));
    assert_eq!(stead_core::testkit::snapshot_of(&**store), before);
}

fn undoing_twice_goes_further_back_and_an_undo_can_be_undone(store: &Subject) {
    let a = vfs_for(store, "a");
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
    let empty_undo = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(empty_undo.undone.is_empty() && empty_undo.operation.is_none());
}

fn undo_restores_a_removed_tree(store: &Subject) {
    let a = vfs_for(store, "a");
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

fn changes_of_other_agents_stay(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
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
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
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

fn a_conflict_changes_nothing_unless_conflicts_are_skipped(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    let operation = a.operation("refactor");
    operation.write("/w/mine", "a").unwrap();
    operation.write("/w/ours", "a").unwrap();
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

fn a_change_of_a_renamed_file_is_undone_under_its_new_name(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    b.write("/w/dir/f", "before").unwrap();
    a.write("/w/dir/f", "after").unwrap();
    b.rename("/w/dir", "/w/moved", Overwrite::Refuse).unwrap();
    b.rename("/w/moved/f", "/w/moved/g", Overwrite::Refuse).unwrap();
    undo(&a, UndoTarget::Last(1));
    assert_eq!(text(&a, "/w/moved/g"), "before");
}

/// None of the undone operations names the directory that the file moved to.
fn a_change_of_a_file_that_moved_to_another_directory_is_undone_there(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    b.write("/w/elsewhere/other", "").unwrap();
    for (number, change) in ["edit", "append", "write"].into_iter().enumerate() {
        let (old_path, new_path) = (format!("/w/{number}"), format!("/w/elsewhere/{number}"));
        b.write(&*old_path, "first\n").unwrap();
        match change {
            "edit" => drop(a.edit(&*old_path, "first", "second", Occurrences::One).unwrap()),
            "append" => drop(a.append(&*old_path, "second\n").unwrap()),
            _ => drop(a.write(&*old_path, "second\n").unwrap()),
        }
        b.rename(&*old_path, &*new_path, Overwrite::Refuse).unwrap();
        let undone = undo(&a, UndoTarget::Last(1));
        assert_eq!(text(&a, &new_path), "first\n", "{change}");
        let changed: Vec<_> = undone.changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(changed, [&*new_path], "{change}");
    }
}

/// An operation may have no effect any more, because another agent has put back what was there before.
fn an_undo_that_changes_nothing_does_not_use_its_operation_up(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    a.write("/w/first", "1").unwrap();
    b.write("/w/f", "old").unwrap();
    let idle = a.write("/w/f", "new").unwrap().operation;
    b.write("/w/f", "old").unwrap();
    let empty_undo = a.undo(UndoTarget::Operation(idle), UndoOptions::default()).unwrap();
    assert!(
        !empty_undo.done && empty_undo.undone.is_empty() && empty_undo.operation.is_none(),
        "{empty_undo:?}"
    );
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
    let a = vfs_for(store, "a");
    a.write("/w/before", "1").unwrap();
    a.write("/w/f", "1").unwrap();
    a.remove_file("/w/f", RemoveOptions::default()).unwrap();
    let both = undo(&a, UndoTarget::Last(2));
    assert_eq!((both.undone.len(), both.changes.len()), (2, 0));
    undo(&a, UndoTarget::Last(1));
    assert!(!a.exists("/w/before").unwrap() && !a.exists("/w/f").unwrap());
}

fn a_directory_that_other_agents_use_stays(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    a.write("/w/dir/a", "a").unwrap();
    b.write("/w/dir/b", "b").unwrap();
    undo(&a, UndoTarget::Last(1));
    assert!(!a.exists("/w/dir/a").unwrap());
    assert_eq!(text(&b, "/w/dir/b"), "b");
}

fn swapped_names_are_swapped_back(store: &Subject) {
    let a = vfs_for(store, "a");
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
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    b.write("/w/f", "old").unwrap();
    a.remove_file("/w/f", RemoveOptions::default()).unwrap();
    b.write("/w/f", "new").unwrap();
    let refused = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert_eq!(refused.conflicts[0].why, "another entry has its name now");
    assert_eq!(text(&a, "/w/f"), "new");
}

// The conflict was reported at `/w/f`, which has never been there.
fn a_conflict_names_the_path_of_a_file_whose_directories_are_gone(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    a.write("/w/sub/dir/f", "x").unwrap();
    let removed = a.remove_file("/w/sub/dir/f", RemoveOptions::default()).unwrap().operation;
    b.remove_directory("/w/sub", recursive()).unwrap();
    let undone = a.undo(UndoTarget::Operation(removed), UndoOptions::default()).unwrap();
    let conflicts: Vec<_> = undone.conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
    assert_eq!((undone.done, conflicts), (false, vec!["/w/sub/dir/f"]), "{undone:?}");
}

fn a_dry_run_changes_nothing(store: &Subject) {
    let a = vfs_for(store, "a");
    a.write("/w/f", "one").unwrap();
    a.write("/w/f", "two").unwrap();
    let before = stead_core::testkit::snapshot_of(&**store);
    let planned =
        a.undo(UndoTarget::Last(2), UndoOptions { dry_run: true, ..UndoOptions::default() }).unwrap();
    assert_eq!(planned.undone.len(), 2);
    assert_eq!(planned.changes.len(), 1);
    assert_eq!(planned.changes[0].action, RevertAction::Removed);
    assert!(!planned.done);
    assert_eq!(stead_core::testkit::snapshot_of(&**store), before);
}

fn an_agent_can_undo_only_its_own_operations(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    let written = b.write("/w/f", "b").unwrap();
    let refused = a.undo(UndoTarget::Operation(written.operation), UndoOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(a.undo(UndoTarget::Last(5), UndoOptions::default()).unwrap().undone.is_empty());
}

fn a_version_is_restored(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    a.write("/w/d/f", "one").unwrap();
    a.write("/w/keep", "kept").unwrap();
    let revision = crate::newest(store);
    let before = stead_core::testkit::snapshot_of(&**store);
    b.write("/w/d/f", "two").unwrap();
    b.rename("/w/d", "/w/e", Overwrite::Refuse).unwrap();
    a.write("/w/new", "new").unwrap();
    b.remove_directory("/w/e", recursive()).unwrap();
    let restored = a.restore("/w", revision, &RestoreOptions::default()).unwrap();
    assert!(restored.done, "{restored:?}");
    assert_eq!(stead_core::testkit::snapshot_of(&**store), before);
    // A restore is a change like any other.
    undo(&a, UndoTarget::Operation(restored.operation.unwrap()));
    assert_eq!(text(&a, "/w/new"), "new");
    assert!(!a.exists("/w/d").unwrap());
}

fn some_paths_are_restored(store: &Subject) {
    let a = vfs_for(store, "a");
    a.write("/w/d/one", "1").unwrap();
    a.write("/w/d/two", "2").unwrap();
    let revision = crate::newest(store);
    a.write("/w/other", "stays").unwrap();
    a.remove_directory("/w/d", recursive()).unwrap();
    let options =
        RestoreOptions { paths: vec![VfsPath::parse("/w/d/two").unwrap()], ..RestoreOptions::default() };
    assert!(a.restore("/w", revision, &options).unwrap().done);
    assert_eq!(text(&a, "/w/d/two"), "2");
    assert!(!a.exists("/w/d/one").unwrap());
    assert_eq!(text(&a, "/w/other"), "stays");
}

/// A plan that has to be made again covers the same paths.
fn some_paths_are_restored_and_no_others_while_another_agent_writes(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    a.write("/w/one", "as it was").unwrap();
    a.write("/w/other", "as it was").unwrap();
    let revision = crate::newest(store);
    a.write("/w/other", "as it is").unwrap();
    std::thread::scope(|scope| {
        let writer =
            scope.spawn(|| (0..300).for_each(|number| drop(b.write("/w/one", number.to_string()).unwrap())));
        let options =
            RestoreOptions { paths: vec![VfsPath::parse("/w/one").unwrap()], ..RestoreOptions::default() };
        while !writer.is_finished() {
            // That it was overtaken again and again is a valid answer too.
            if let Err(error) = a.restore("/w", revision, &options) {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            }
            assert_eq!(text(&a, "/w/other"), "as it is");
        }
    });
}

fn an_operation_is_undone_once_by_however_many_threads(store: &Subject) {
    let a = vfs_for(store, "a");
    a.write("/w/f", "0").unwrap();
    for number in 1..=20 {
        a.write("/w/f", number.to_string()).unwrap();
    }
    let undone_ids = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..5)
            .map(|_| {
                scope.spawn(|| {
                    let mut undone_ids = Vec::new();
                    while undone_ids.len() < 4 {
                        match a.undo(UndoTarget::Last(1), UndoOptions::default()) {
                            Ok(undone) if undone.done => {
                                undone_ids.extend(undone.undone.iter().map(|operation| operation.id))
                            }
                            Ok(_) => {}
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                        }
                    }
                    undone_ids
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let different: std::collections::BTreeSet<_> = undone_ids.iter().collect();
    assert_eq!((undone_ids.len(), different.len()), (20, 20), "no operation may be undone by two callers");
    assert_eq!(text(&a, "/w/f"), "0");
}

fn an_undone_operation_can_not_be_undone_again(store: &Subject) {
    let a = vfs_for(store, "a");
    let written = a.write("/w/f", "x").unwrap();
    let undone = undo(&a, UndoTarget::Operation(written.operation));
    let error = a.undo(UndoTarget::Operation(written.operation), UndoOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    // After the undo is undone, it can be.
    undo(&a, UndoTarget::Operation(undone.operation.unwrap()));
    undo(&a, UndoTarget::Operation(written.operation));
    assert!(!a.exists("/w/f").unwrap());
}

fn the_log_shows_which_agent_made_which_change(store: &Subject) {
    let (a, b) = (vfs_for(store, "a"), vfs_for(store, "b"));
    a.write("/w/d/f", "one").unwrap();
    b.edit("/w/d/f", "one", "two", Occurrences::One).unwrap();
    a.rename("/w/d/f", "/w/d/g", Overwrite::Refuse).unwrap();
    b.write("/w/other", "").unwrap();
    a.remove_file("/w/d/g", RemoveOptions::default()).unwrap();
    let log_lines = |query: &LogQuery| -> Vec<String> {
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
    assert_eq!(log_lines(&LogQuery { path: path("/w/d/g"), ..LogQuery::default() }), of_file);
    let of_b = LogQuery { agent: Some("b".into()), ..LogQuery::default() };
    assert_eq!(log_lines(&of_b), ["b write: created /w/other", "b edit: written /w/d/f"]);
    let of_directory = log_lines(&LogQuery { path: path("/w/d"), ..LogQuery::default() });
    assert_eq!(of_directory[..3], of_file[..3]);
    assert_eq!(of_directory[3], "a write: created /w/d, created /w/d/f");
}
