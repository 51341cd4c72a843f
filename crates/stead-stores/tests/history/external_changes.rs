//! Files that a program of the host touched or changed without Stead.

#![cfg(target_os = "linux")]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use stead_core::vfs::{Overwrite, RestoreOptions, UndoOptions, UndoTarget};
use stead_core::{Store, Timestamp};

use crate::{in_a_directory, vfs_for};

fn append_as_host(path: &Path) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(b"the host's\n").unwrap();
}

crate::on_every_store! {
    a_restore_brings_back_the_time_of_a_file_that_was_only_touched
}

fn a_restore_brings_back_the_time_of_a_file_that_was_only_touched(store: &Arc<dyn Store>) {
    let a = vfs_for(store, "a");
    a.write("/w/f", "1").unwrap();
    let (revision, time) = (crate::newest(store), a.stat("/w/f").unwrap().modified.unwrap());
    a.set_attributes("/w/f", None, Some(Timestamp(time.0 + 1_000_000_000))).unwrap();
    let restored = a.restore("/w", revision, &RestoreOptions::default()).unwrap();
    assert_eq!(restored.changes.len(), 1, "{restored:?}");
    assert_eq!(a.stat("/w/f").unwrap().modified.unwrap(), time);
    let second_restore = a.restore("/w", revision, &RestoreOptions::default()).unwrap();
    assert!(second_restore.changes.is_empty(), "{second_restore:?}");
}

#[test]
fn an_undo_says_that_another_program_has_changed_the_file() {
    for moves in [false, true] {
        let (store, directory) = in_a_directory();
        let a = vfs_for(&store, "a");
        a.write("/w/f", "one\n").unwrap();
        if moves {
            a.rename("/w/f", "/w/g", Overwrite::Refuse).unwrap();
            append_as_host(&directory.path().join("root/g"));
        } else {
            a.append("/w/f", "two\n").unwrap();
            append_as_host(&directory.path().join("root/f"));
        }
        let undone = a.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(!undone.done);
        assert_eq!(
            undone.conflicts[0].why,
            "it has been changed since by another program, or by a change whose earlier content was not kept"
        );
    }
}
