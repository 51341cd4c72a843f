//! What a mode forbids, and what it doesn't: removing, moving, replacing and undoing depend on the directory's mode.
//!
//! Modes don't bind root. `cargo xtask test` also runs these as another user.

use std::sync::Arc;

use stead_core::store::Parents;
use stead_core::testkit::snapshot_of;
use stead_core::vfs::{Overwrite, RemoveOptions, RestoreOptions, UndoTarget};
use stead_core::{Store, Vfs};

use crate::{text, undo, vfs_for};

crate::on_every_store! {
    a_file_is_removed_moved_and_replaced_whatever_its_mode
    an_append_is_undone_whatever_the_mode_of_the_file
    attributes_are_set_and_undone_whatever_the_mode
    a_closed_directory_is_removed_and_restored
    a_directory_is_created_and_copied_with_any_mode
    all_changes_below_a_directory_are_undone_after_it_was_closed
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
fn write_with_mode(vfs: &Vfs, path: &str, mode: u32) {
    vfs.write(path, "one\n").unwrap();
    vfs.set_attributes(path, Some(mode), None).unwrap();
}

/// Makes a file readable, and checks its content.
#[track_caller]
fn assert_mode_and_content(vfs: &Vfs, path: &str, mode: u32, content: &str) {
    assert_eq!(vfs.stat(path).unwrap().mode, mode);
    vfs.set_attributes(path, Some(0o600), None).unwrap();
    assert_eq!(text(vfs, path), content);
}

fn a_file_is_removed_moved_and_replaced_whatever_its_mode(store: &Subject) {
    for mode in FILE_MODES {
        let a = vfs_for(store, "a");
        write_with_mode(&a, "/w/f", mode);
        a.remove_file("/w/f", RemoveOptions::default()).unwrap();
        undo(&a, UndoTarget::Last(1));
        assert_mode_and_content(&a, "/w/f", mode, "one\n");

        write_with_mode(&a, "/w/f", mode);
        a.rename("/w/f", "/w/g", Overwrite::Refuse).unwrap();
        assert_eq!(a.stat("/w/g").unwrap().mode, mode);
        undo(&a, UndoTarget::Last(1));
        assert_mode_and_content(&a, "/w/f", mode, "one\n");

        write_with_mode(&a, "/w/f", mode);
        a.write("/w/f", "two\n").unwrap();
        undo(&a, UndoTarget::Last(1));
        assert_mode_and_content(&a, "/w/f", mode, "one\n");

        write_with_mode(&a, "/w/f", mode);
        a.write("/w/g", "two\n").unwrap();
        a.rename("/w/g", "/w/f", Overwrite::Replace).unwrap();
        assert_eq!(a.stat("/w/f").unwrap().size, 4);
        undo(&a, UndoTarget::Last(1));
        assert_eq!(text(&a, "/w/g"), "two\n");
        assert_mode_and_content(&a, "/w/f", mode, "one\n");
        a.remove_file("/w/g", RemoveOptions::default()).unwrap();
    }
}

fn an_append_is_undone_whatever_the_mode_of_the_file(store: &Subject) {
    for mode in FILE_MODES {
        let a = vfs_for(store, "a");
        write_with_mode(&a, "/w/f", mode);
        a.append("/w/f", "two\n").unwrap();
        assert_eq!(a.stat("/w/f").unwrap().mode, mode);
        undo(&a, UndoTarget::Last(1));
        assert_mode_and_content(&a, "/w/f", mode, "one\n");
        write_with_mode(&a, "/w/f", mode);
        a.append("/w/f", "two\n").unwrap();
        assert_mode_and_content(&a, "/w/f", mode, "one\ntwo\n");
    }
}

fn attributes_are_set_and_undone_whatever_the_mode(store: &Subject) {
    let a = vfs_for(store, "a");
    let time = stead_core::Timestamp::from_secs(1_000_000_000);
    a.write("/w/f", "one\n").unwrap();
    a.mkdir("/w/d", Parents::Create).unwrap();
    for mode in [0o000, 0o777, 0o200] {
        for path in ["/w/f", "/w/d"] {
            let before = a.stat(path).unwrap().mode;
            a.set_attributes(path, Some(mode), Some(time)).unwrap();
            let attr = a.stat(path).unwrap();
            assert_eq!((attr.mode, attr.modified), (mode, Some(time)), "{path}");
            undo(&a, UndoTarget::Last(1));
            assert_eq!(a.stat(path).unwrap().mode, before, "{path}");
            a.set_attributes(path, Some(mode), None).unwrap();
        }
    }
}

fn a_closed_directory_is_removed_and_restored(store: &Subject) {
    for mode in DIRECTORY_MODES {
        let a = vfs_for(store, "a");
        a.write("/w/d/e/f", "one\n").unwrap();
        a.set_attributes("/w/d/e", Some(mode), None).unwrap();
        a.set_attributes("/w/d", Some(mode), None).unwrap();
        for round in 0..2 {
            a.remove_directory("/w/d", recursive()).unwrap();
            assert!(!a.exists("/w/d").unwrap());
            undo(&a, UndoTarget::Last(1));
            assert_eq!(a.stat("/w/d").unwrap().mode, mode, "{mode:o}, {round}");
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

fn a_directory_is_created_and_copied_with_any_mode(store: &Subject) {
    let a = vfs_for(store, "a");
    a.write("/w/d/f", "one\n").unwrap();
    a.set_attributes("/w/d/f", Some(0o444), None).unwrap();
    a.set_attributes("/w/d", Some(0o555), None).unwrap();
    a.copy("/w/d", "/w/copy", Overwrite::Refuse).unwrap();
    assert_eq!((a.stat("/w/copy").unwrap().mode, &*text(&a, "/w/copy/f")), (0o555, "one\n"));
    undo(&a, UndoTarget::Last(1));
    assert!(!a.exists("/w/copy").unwrap());
}

fn all_changes_below_a_directory_are_undone_after_it_was_closed(store: &Subject) {
    for mode in DIRECTORY_MODES {
        vfs_for(store, "before").write("/w/d/kept", "kept\n").unwrap();
        let before = snapshot_of(&**store);
        let a = vfs_for(store, &format!("a {mode:o}"));
        a.write("/w/d/f", "one\n").unwrap();
        a.write("/w/d/kept", "other\n").unwrap();
        a.write("/w/d/e/g", "two\n").unwrap();
        a.rename("/w/d/f", "/w/d/e/f", Overwrite::Refuse).unwrap();
        a.set_attributes("/w/d/e", Some(mode), None).unwrap();
        a.set_attributes("/w/d", Some(mode), None).unwrap();
        let undone = undo(&a, UndoTarget::Last(usize::MAX / 8));
        assert_eq!(snapshot_of(&**store), before, "{mode:o}");
        undo(&a, UndoTarget::Operation(undone.operation.unwrap()));
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
        let a = vfs_for(store, "a");
        a.write("/w/d/f", "one\n").unwrap();
        a.set_attributes("/w/d", Some(mode), None).unwrap();
        let closed_revision = crate::newest(store);
        a.set_attributes("/w/d", Some(0o755), None).unwrap();
        a.write("/w/d/f", "two\n").unwrap();
        a.write("/w/d/g", "three\n").unwrap();
        let open_revision = crate::newest(store);
        for (revision, mode, content, exists) in [
            (closed_revision, mode, "one\n", false),
            (open_revision, 0o755, "two\n", true),
            (closed_revision, mode, "one\n", false),
        ] {
            assert!(a.restore("/w", revision, &RestoreOptions::default()).unwrap().done);
            assert_eq!(a.stat("/w/d").unwrap().mode, mode);
            a.set_attributes("/w/d", Some(0o755), None).unwrap();
            assert_eq!((text(&a, "/w/d/f"), a.exists("/w/d/g").unwrap()), (content.to_owned(), exists));
        }
        a.remove_directory("/w/d", recursive()).unwrap();
    }
}
