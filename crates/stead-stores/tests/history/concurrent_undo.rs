//! Undo while other agents go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use stead_core::vfs::{Overwrite, UndoOptions, UndoTarget};
use stead_core::{ErrorKind, Occurrences, Store, Vfs};

use crate::{text, vfs_for};

crate::on_every_store! {
    undo_during_appends_and_moves_succeeds_or_is_a_conflict
}

/// How many changes each of the other agents makes.
const CHANGES: usize = 150;

type Subject = Arc<dyn Store>;

/// Undoes the last operation, and retries while there is a conflict. Any other failure fails the test.
fn undo_last_with_retry(vfs: &Vfs) {
    loop {
        match vfs.undo(UndoTarget::Last(1), UndoOptions::default()) {
            Ok(undone) if undone.done => return,
            Ok(undone) => assert!(!undone.conflicts.is_empty(), "{undone:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
}

fn undo_during_appends_and_moves_succeeds_or_is_a_conflict(store: &Subject) {
    let (a, b, c) = (vfs_for(store, "a"), vfs_for(store, "b"), vfs_for(store, "c"));
    // The changed and the added lines must not be adjacent: that would be a permanent conflict.
    b.write("/w/log", "head\n\n\n").unwrap();
    b.write("/w/there/file", "1\n2\n3\n").unwrap();
    let running = AtomicUsize::new(2);
    let repeat_change = |make_change: &dyn Fn(usize)| {
        for number in 0..CHANGES {
            make_change(number);
            thread::sleep(Duration::from_millis(1));
        }
        running.fetch_sub(1, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        scope
            .spawn(|| repeat_change(&|number| drop(b.append("/w/log", format!("line {number}\n")).unwrap())));
        scope.spawn(|| {
            repeat_change(&|number| {
                let mut names = ["/w/there", "/w/elsewhere"];
                names.rotate_left(number % 2);
                c.rename(names[0], names[1], Overwrite::Refuse).unwrap();
            });
        });
        while running.load(Ordering::Relaxed) > 0 {
            if a.edit("/w/log", "head", "neck", Occurrences::One).is_ok() {
                undo_last_with_retry(&a);
            }
            for path in ["/w/there/file", "/w/elsewhere/file"] {
                if a.edit(path, "2", "two", Occurrences::One).is_ok() {
                    undo_last_with_retry(&a);
                }
            }
        }
    });
    let lines: String = (0..CHANGES).map(|line| format!("line {line}\n")).collect();
    assert_eq!(text(&a, "/w/log"), format!("head\n\n\n{lines}"));
    assert_eq!(text(&a, "/w/there/file"), "1\n2\n3\n");
}
