//! Files that are replaced: the name exists all the time, and a node stays the same file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use stead_core::store::{DraftBase, NodePath, OpenPurpose, Replace, Step, StoreError, Subtree};

use super::*;

/// A move over a file, and then the mode of the replaced file: what a tool's move does.
fn move_over() -> Vec<Step> {
    let mode = Step::SetAttr { at: at("target"), mode: Some(0o755), modified: None };
    vec![rename_step("source", "target", Replace::Overwrite), mode]
}

/// What a program of the host reads under the name before each action of a change.
fn read_before_each_action(durability: Durability) -> Vec<Option<String>> {
    let target = Arc::new(Mutex::new(PathBuf::new()));
    let reads = Arc::new(Mutex::new(Vec::new()));
    let (target_in_hook, reads_in_hook) = (Arc::clone(&target), Arc::clone(&reads));
    let bench = Bench::with(|options| {
        options.durability = durability;
        options.faults = Some(Arc::new(move |_| {
            reads_in_hook
                .lock()
                .unwrap()
                .push(std::fs::read_to_string(&*target_in_hook.lock().unwrap()).ok());
            false
        }));
    });
    write(&bench.store, "target", "old");
    write(&bench.store, "source", "new");
    *target.lock().unwrap() = bench.host_path("target");
    reads.lock().unwrap().clear();
    bench.store.apply(change(move_over())).unwrap();
    assert_eq!(read(&bench.store, "target"), "new");
    assert_eq!(bench.store.stat(&at("target")).unwrap().mode, 0o755);
    let reads = std::mem::take(&mut *reads.lock().unwrap());
    assert!(reads.len() > 2, "{reads:?}");
    reads
}

#[test]
fn a_step_that_moves_a_file_over_another_replaces_it_atomically() {
    for durability in [Durability::Fast, Durability::Full] {
        let reads = read_before_each_action(durability);
        let is_complete = |read: &Option<String>| matches!(read.as_deref(), Some("old" | "new"));
        assert!(reads.iter().all(is_complete), "{durability:?}: {reads:?}");
    }
}

#[test]
fn the_name_exists_all_the_time_while_a_move_over_a_file_is_rolled_back() {
    const ROUNDS: usize = 300;
    let bench = Bench::new();
    write(&bench.store, "target", "old");
    write(&bench.store, "source", "new");
    let (done, missing) = (AtomicBool::new(false), AtomicUsize::new(0));
    let target = bench.host_path("target");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                missing.fetch_add(usize::from(!target.exists()), Ordering::Relaxed);
            }
        });
        for _ in 0..ROUNDS {
            let mut steps = move_over();
            steps.push(remove_step("nothing", Subtree::File));
            assert!(bench.store.apply(change(steps)).is_err());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!((read(&bench.store, "target"), read(&bench.store, "source")), ("old".into(), "new".into()));
    assert_eq!(missing.into_inner(), 0, "how often the name was missing in {ROUNDS} rounds");
    assert_eq!(staging_counts(bench.temp.path()), (1, 0));
}

#[test]
fn a_node_is_itself_or_not_found_while_the_host_swaps_its_name() {
    const ROUNDS: usize = 20_000;
    let bench = Bench::new();
    let node = write(&bench.store, "one", "one").node;
    write(&bench.store, "other", "the other");
    let (done, found) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (one, other) = (bench.host_path("one"), bench.host_path("other"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let check = || {
            for round in 0..ROUNDS {
                let node_path = NodePath::of_node(node);
                let size = match round % 3 {
                    0 => bench.store.open(&node_path, OpenPurpose::Read).map(|content| content.attr().size),
                    1 => bench.store.draft(DraftBase::File(&node_path)).map(|draft| draft.size()),
                    _ => bench.store.read(&node_path, 100).map(|read| read.attr.size),
                };
                match size {
                    Ok(size) => assert_eq!(size, 3, "round {round} found the other file"),
                    Err(StoreError::NotFound) => continue,
                    Err(error) => panic!("{error}"),
                }
                found.fetch_add(1, Ordering::Relaxed);
            }
        };
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        done.store(true, Ordering::Relaxed);
        assert!(checked.is_ok(), "a node id led to another file");
    });
    assert!(found.into_inner() > 0, "the file was never found");
}
