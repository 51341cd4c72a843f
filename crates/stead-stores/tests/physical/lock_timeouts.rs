//! Locks that another process never releases: a change waits for a while, fails, and has changed nothing.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use stead_core::store::{Parents, Precondition, Replace, Step, StoreError, Subtree};
use stead_core::{Edit, Occurrences};

use super::*;

const TIMEOUT: Duration = Duration::from_millis(150);

/// Holds lock files as a stopped process would: a lock belongs to an open file, not to a process.
fn hold_locks(bench: &Bench, names: impl Iterator<Item = String>) -> Vec<File> {
    let physical = bench.temp.path().join("state/physical");
    let store_state = std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path();
    let hold = |name: String| {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(store_state.join("locks").join(name))
            .unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    };
    names.map(hold).collect()
}

fn changes_of_each_kind() -> Vec<Change> {
    let edit = Edit::new("old", "new", Occurrences::One).unwrap();
    let singles = [
        write_step("file", "new"),
        write_step("fresh/file", "new"),
        append_step("file", b"new"),
        Step::Edit { at: at("file"), edit, expect: Precondition::Any, displaced: DisplacedContent::Keep },
        Step::Mkdir { at: at("made"), parents: Parents::Create, mode: None },
        Step::SetAttr { at: at("file"), mode: Some(0o600), modified: None },
        remove_step("file", Subtree::File),
        rename_step("file", "renamed", Replace::Refuse),
        copy_step("file", "copied", Replace::Refuse),
        copy_step("dir", "copied", Replace::Refuse),
    ];
    singles.into_iter().map(|step| change(vec![step])).collect()
}

fn whole_tree_changes() -> Vec<Change> {
    vec![
        change(vec![remove_step("dir", Subtree::Directory)]),
        change(vec![rename_step("dir", "moved", Replace::Refuse)]),
        change(vec![write_step("file", "new"), write_step("fresh", "new")]),
    ]
}

fn assert_refused_while_locked(names: impl Iterator<Item = String>, changes: Vec<Change>) {
    let bench = Bench::with(|options| {
        (options.wait_timeout, options.durability) = (TIMEOUT, Durability::Full);
    });
    write(&bench.store, "file", "old");
    write(&bench.store, "dir/file", "old");
    let before = tree(&bench.store);
    let locks = hold_locks(&bench, names);
    for change in changes {
        let (steps, start) = (format!("{:?}", change.steps), Instant::now());
        let result = bench.store.apply(change);
        assert!(matches!(result, Err(StoreError::Unavailable { .. })), "{steps}: {result:?}");
        let waited = start.elapsed();
        // Less than a Store waits if no other time is set.
        assert!((TIMEOUT..Duration::from_secs(20)).contains(&waited), "{steps} waited for {waited:?}");
    }
    // Reads don't wait for locks.
    assert_eq!(tree(&bench.store), before);
    drop(locks);
    write(&bench.store, "file", "new");
    assert_eq!(read(&bench.store, "file"), "new");
    assert_eq!(staging_counts(bench.temp.path()), (1, 0));
}

#[test]
fn the_wait_for_the_lock_of_a_name_ends() {
    assert_refused_while_locked((0..64).map(|stripe| format!("{stripe:02}")), changes_of_each_kind());
}

#[test]
fn the_wait_for_the_queue_of_a_name_ends() {
    assert_refused_while_locked((0..64).map(|stripe| format!("{stripe:02}-next")), changes_of_each_kind());
}

#[test]
fn the_wait_for_the_lock_of_the_tree_ends() {
    for name in ["tree", "turn"] {
        let changes = changes_of_each_kind().into_iter().chain(whole_tree_changes()).collect();
        assert_refused_while_locked([name.to_owned()].into_iter(), changes);
    }
}

#[test]
fn threads_that_wait_for_one_name_wait_at_the_same_time() {
    let timeout = Duration::from_millis(500);
    let bench = Bench::with(|options| options.wait_timeout = timeout);
    write(&bench.store, "file", "old");
    let _locks = hold_locks(&bench, (0..64).map(|stripe| format!("{stripe:02}")));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| apply(&bench.store, append_step("file", b"x")).unwrap_err());
        }
    });
    let waited = start.elapsed();
    assert!(waited < timeout * 6, "the threads waited one after the other: {waited:?}");
    assert_eq!(read(&bench.store, "file"), "old");
}
