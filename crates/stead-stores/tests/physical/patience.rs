//! Locks that another process never releases: a change waits for a while, fails, and has changed nothing.

use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use stead_core::store::{Parents, Precondition, Replace, Step, StoreError, Subtree};
use stead_core::{Edit, Occurrences};

use super::*;

const PATIENCE: Duration = Duration::from_millis(150);

/// Holds lock files as a stopped process would: a lock belongs to an open file, not to a process.
fn held(bench: &Bench, names: impl Iterator<Item = String>) -> Vec<File> {
    let physical = bench.temp.path().join("state/physical");
    let shop = std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path();
    let hold = |name: String| {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(shop.join("locks").join(name))
            .unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    };
    names.map(hold).collect()
}

fn every_change() -> Vec<Change> {
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

fn refused_while(names: impl Iterator<Item = String>, changes: Vec<Change>) {
    let bench = Bench::with(|options| {
        (options.wait_timeout, options.durability) = (PATIENCE, Durability::Full);
    });
    write(&bench.store, "file", "old");
    write(&bench.store, "dir/file", "old");
    let before = tree(&bench.store);
    let locks = held(&bench, names);
    for change in changes {
        let (what, begin) = (format!("{:?}", change.steps), Instant::now());
        let result = bench.store.apply(change);
        assert!(matches!(result, Err(StoreError::Unavailable { .. })), "{what}: {result:?}");
        let waited = begin.elapsed();
        assert!((PATIENCE..PATIENCE * 20).contains(&waited), "{what} waited for {waited:?}");
    }
    // Reads don't wait for locks.
    assert_eq!(tree(&bench.store), before);
    drop(locks);
    write(&bench.store, "file", "new");
    assert_eq!(read(&bench.store, "file"), "new");
    assert_eq!(workshop(bench.temp.path()), (1, 0));
}

#[test]
fn a_name_that_is_never_given_back_is_not_waited_for_for_ever() {
    refused_while((0..64).map(|stripe| format!("{stripe:02}")), every_change());
}

#[test]
fn nor_is_a_place_in_the_line_for_a_name() {
    refused_while((0..64).map(|stripe| format!("{stripe:02}-next")), every_change());
}

#[test]
fn nor_is_the_whole_tree() {
    for name in ["tree", "turn"] {
        let changes = every_change().into_iter().chain(whole_tree_changes()).collect();
        refused_while([name.to_owned()].into_iter(), changes);
    }
}

#[test]
fn threads_that_wait_for_one_name_wait_at_the_same_time() {
    let bench = Bench::with(|options| options.wait_timeout = PATIENCE);
    write(&bench.store, "file", "old");
    let _locks = held(&bench, (0..64).map(|stripe| format!("{stripe:02}")));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| apply(&bench.store, append_step("file", b"x")).unwrap_err());
        }
    });
    let waited = begin.elapsed();
    assert!(waited < PATIENCE * 6, "one after the other they would take twice as long: {waited:?}");
    assert_eq!(read(&bench.store, "file"), "old");
}
