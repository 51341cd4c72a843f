//! What a mode forbids, and what it doesn't: removing, moving, replacing and undoing depend on the directory's mode.
//!
//! Modes don't bind root. `cargo xtask test` also runs these as another user.

use std::sync::Arc;

use stead_core::store::Parents;
use stead_core::testkit::snapshot_of;
use stead_core::vfs::{Overwrite, RemoveOptions, RestoreOptions, UndoTarget};
use stead_core::{Store, Vfs};

use crate::{door, text, undo};

crate::on_every_store! {
    a_file_is_removed_moved_and_replaced_whatever_its_mode
    what_was_added_to_a_file_is_taken_back_whatever_its_mode
    attributes_are_set_and_taken_back_whatever_the_mode
    a_closed_directory_goes_and_comes_back
    a_directory_is_made_and_copied_with_any_mode
    all_that_was_done_below_a_directory_is_taken_back_after_it_was_closed
    a_version_with_a_closed_directory_is_restored
}

type Subject = Arc<dyn Store>;

/// Modes with which a file's owner can't read it or can't write it.
const FILE_MODES: [u32; 4] = [0o444, 0o000, 0o200, 0o040];
/// Modes with which a directory's owner can't list, enter or change it.
const DIRECTORY_MODES: [u32; 5] = [0o555, 0o600, 0o000, 0o300, 0o100];

fn recursive() -> RemoveOptions {
    RemoveOptions { recursive: true, ..RemoveOptions::default() }
}

/// Makes a file whose content can be read only after its mode has been set again.
fn made(door: &Vfs, path: &str, mode: u32) {
    door.write(path, "one\n").unwrap();
    door.set_attributes(path, Some(mode), None).unwrap();
}

/// Makes a file readable, and checks its content.
#[track_caller]
fn has(door: &Vfs, path: &str, mode: u32, content: &str) {
    assert_eq!(door.stat(path).unwrap().mode, mode);
    door.set_attributes(path, Some(0o600), None).unwrap();
    assert_eq!(text(door, path), content);
}

fn a_file_is_removed_moved_and_replaced_whatever_its_mode(store: &Subject) {
    for mode in FILE_MODES {
        let a = door(store, "a");
        made(&a, "/w/f", mode);
        a.remove_file("/w/f", RemoveOptions::default()).unwrap();
        undo(&a, UndoTarget::Last(1));
        has(&a, "/w/f", mode, "one\n");

        made(&a, "/w/f", mode);
        a.rename("/w/f", "/w/g", Overwrite::Refuse).unwrap();
        assert_eq!(a.stat("/w/g").unwrap().mode, mode);
        undo(&a, UndoTarget::Last(1));
        has(&a, "/w/f", mode, "one\n");

        made(&a, "/w/f", mode);
        a.write("/w/f", "two\n").unwrap();
        undo(&a, UndoTarget::Last(1));
        has(&a, "/w/f", mode, "one\n");

        made(&a, "/w/f", mode);
        a.write("/w/g", "two\n").unwrap();
        a.rename("/w/g", "/w/f", Overwrite::Replace).unwrap();
        assert_eq!(a.stat("/w/f").unwrap().size, 4);
        undo(&a, UndoTarget::Last(1));
        assert_eq!(text(&a, "/w/g"), "two\n");
        has(&a, "/w/f", mode, "one\n");
        a.remove_file("/w/g", RemoveOptions::default()).unwrap();
    }
}

fn what_was_added_to_a_file_is_taken_back_whatever_its_mode(store: &Subject) {
    for mode in FILE_MODES {
        let a = door(store, "a");
        made(&a, "/w/f", mode);
        a.append("/w/f", "two\n").unwrap();
        assert_eq!(a.stat("/w/f").unwrap().mode, mode);
        undo(&a, UndoTarget::Last(1));
        has(&a, "/w/f", mode, "one\n");
        made(&a, "/w/f", mode);
        a.append("/w/f", "two\n").unwrap();
        has(&a, "/w/f", mode, "one\ntwo\n");
    }
}

fn attributes_are_set_and_taken_back_whatever_the_mode(store: &Subject) {
    let a = door(store, "a");
    let then = stead_core::Timestamp::from_secs(1_000_000_000);
    a.write("/w/f", "one\n").unwrap();
    a.mkdir("/w/d", Parents::Create).unwrap();
    for mode in [0o000, 0o777, 0o200] {
        for path in ["/w/f", "/w/d"] {
            let before = a.stat(path).unwrap().mode;
            a.set_attributes(path, Some(mode), Some(then)).unwrap();
            let now = a.stat(path).unwrap();
            assert_eq!((now.mode, now.modified), (mode, Some(then)), "{path}");
            undo(&a, UndoTarget::Last(1));
            assert_eq!(a.stat(path).unwrap().mode, before, "{path}");
            a.set_attributes(path, Some(mode), None).unwrap();
        }
    }
}

fn a_closed_directory_goes_and_comes_back(store: &Subject) {
    for mode in DIRECTORY_MODES {
        let a = door(store, "a");
        a.write("/w/d/e/f", "one\n").unwrap();
        a.set_attributes("/w/d/e", Some(mode), None).unwrap();
        a.set_attributes("/w/d", Some(mode), None).unwrap();
        for again in 0..2 {
            a.remove_directory("/w/d", recursive()).unwrap();
            assert!(!a.exists("/w/d").unwrap());
            undo(&a, UndoTarget::Last(1));
            assert_eq!(a.stat("/w/d").unwrap().mode, mode, "{mode:o}, {again}");
        }
        a.rename("/w/d", "/w/other", Overwrite::Refuse).unwrap();
        undo(&a, UndoTarget::Last(1));
        a.set_attributes("/w/d", Some(0o755), None).unwrap();
        assert_eq!(a.stat("/w/d/e").unwrap().mode, mode);
        a.set_attributes("/w/d/e", Some(0o755), None).unwrap();
        assert_eq!(text(&a, "/w/d/e/f"), "one\n");
        a.remove_directory("/w/d", recursive()).unwrap();

        a.mkdir("/w/empty", Parents::Create).unwrap();
        a.set_attributes("/w/empty", Some(mode), None).unwrap();
        a.remove_directory("/w/empty", RemoveOptions::default()).unwrap();
        undo(&a, UndoTarget::Last(1));
        assert_eq!(a.stat("/w/empty").unwrap().mode, mode);
        a.remove_directory("/w/empty", RemoveOptions::default()).unwrap();
    }
    assert_eq!(
        store.require_maintenance().unwrap().verify(&mut |_| ()).unwrap().problems,
        Vec::<String>::new()
    );
}

fn a_directory_is_made_and_copied_with_any_mode(store: &Subject) {
    let a = door(store, "a");
    a.write("/w/d/f", "one\n").unwrap();
    a.set_attributes("/w/d/f", Some(0o444), None).unwrap();
    a.set_attributes("/w/d", Some(0o555), None).unwrap();
    a.copy("/w/d", "/w/copy", Overwrite::Refuse).unwrap();
    assert_eq!((a.stat("/w/copy").unwrap().mode, &*text(&a, "/w/copy/f")), (0o555, "one\n"));
    undo(&a, UndoTarget::Last(1));
    assert!(!a.exists("/w/copy").unwrap());
}

fn all_that_was_done_below_a_directory_is_taken_back_after_it_was_closed(store: &Subject) {
    for mode in DIRECTORY_MODES {
        door(store, "before").write("/w/d/kept", "kept\n").unwrap();
        let before = snapshot_of(&**store);
        let a = door(store, &format!("a {mode:o}"));
        a.write("/w/d/f", "one\n").unwrap();
        a.write("/w/d/kept", "other\n").unwrap();
        a.write("/w/d/e/g", "two\n").unwrap();
        a.rename("/w/d/f", "/w/d/e/f", Overwrite::Refuse).unwrap();
        a.set_attributes("/w/d/e", Some(mode), None).unwrap();
        a.set_attributes("/w/d", Some(mode), None).unwrap();
        let taken_back = undo(&a, UndoTarget::Last(usize::MAX / 8));
        assert_eq!(snapshot_of(&**store), before, "{mode:o}");
        undo(&a, UndoTarget::Operation(taken_back.operation.unwrap()));
        assert_eq!(a.stat("/w/d").unwrap().mode, mode);
        a.set_attributes("/w/d", Some(0o700), None).unwrap();
        assert_eq!((a.stat("/w/d/e").unwrap().mode, &*text(&a, "/w/d/kept")), (mode, "other\n"));
        a.set_attributes("/w/d/e", Some(0o700), None).unwrap();
        assert_eq!((&*text(&a, "/w/d/e/f"), &*text(&a, "/w/d/e/g")), ("one\n", "two\n"));
        a.remove_directory("/w/d", recursive()).unwrap();
    }
}

fn a_version_with_a_closed_directory_is_restored(store: &Subject) {
    for mode in DIRECTORY_MODES {
        let a = door(store, "a");
        a.write("/w/d/f", "one\n").unwrap();
        a.set_attributes("/w/d", Some(mode), None).unwrap();
        let closed = crate::newest(store);
        a.set_attributes("/w/d", Some(0o755), None).unwrap();
        a.write("/w/d/f", "two\n").unwrap();
        a.write("/w/d/g", "three\n").unwrap();
        let open = crate::newest(store);
        for (version, mode, content, is_there) in
            [(closed, mode, "one\n", false), (open, 0o755, "two\n", true), (closed, mode, "one\n", false)]
        {
            assert!(a.restore("/w", version, &RestoreOptions::default()).unwrap().done);
            assert_eq!(a.stat("/w/d").unwrap().mode, mode);
            a.set_attributes("/w/d", Some(0o755), None).unwrap();
            assert_eq!((text(&a, "/w/d/f"), a.exists("/w/d/g").unwrap()), (content.to_owned(), is_there));
        }
        a.remove_directory("/w/d", recursive()).unwrap();
    }
}
