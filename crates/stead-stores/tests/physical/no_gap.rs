//! A name that gets other content is there all the time: a change moves a file over it by one rename.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use stead_core::store::{Replace, Step, Subtree};

use super::*;

/// A move over a file, and then the mode of the file that was there: what a tool's move does.
fn move_over() -> Vec<Step> {
    let mode = Step::SetAttr { at: at("target"), mode: Some(0o755), modified: None };
    vec![rename_step("source", "target", Replace::Over), mode]
}

/// What a program of the host reads under the name before each action of a change.
fn read_before_each_action(durability: Durability) -> Vec<Option<String>> {
    let target = Arc::new(Mutex::new(PathBuf::new()));
    let reads = Arc::new(Mutex::new(Vec::new()));
    let (watched, noted) = (Arc::clone(&target), Arc::clone(&reads));
    let bench = Bench::with(|options| {
        options.durability = durability;
        options.faults = Some(Arc::new(move |_| {
            noted.lock().unwrap().push(std::fs::read_to_string(&*watched.lock().unwrap()).ok());
            false
        }));
    });
    write(&bench.store, "target", "old");
    write(&bench.store, "source", "new");
    *target.lock().unwrap() = bench.host("target");
    reads.lock().unwrap().clear();
    bench.store.apply(change(move_over())).unwrap();
    assert_eq!(read(&bench.store, "target"), "new");
    assert_eq!(bench.store.stat(&at("target")).unwrap().mode, 0o755);
    let reads = std::mem::take(&mut *reads.lock().unwrap());
    assert!(reads.len() > 2, "{reads:?}");
    reads
}

#[test]
fn a_file_that_is_moved_over_another_by_one_of_several_steps_takes_its_name_at_once() {
    for durability in [Durability::Fast, Durability::Full] {
        let reads = read_before_each_action(durability);
        let is_whole = |read: &Option<String>| matches!(read.as_deref(), Some("old" | "new"));
        assert!(reads.iter().all(is_whole), "{durability:?}: {reads:?}");
    }
}

#[test]
fn a_move_over_a_file_that_is_rolled_back_leaves_the_name_at_no_moment() {
    const ROUNDS: usize = 300;
    let bench = Bench::new();
    write(&bench.store, "target", "old");
    write(&bench.store, "source", "new");
    let (done, missing) = (AtomicBool::new(false), AtomicUsize::new(0));
    let target = bench.host("target");
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
    assert_eq!(missing.into_inner(), 0, "in {ROUNDS} rounds");
    assert_eq!(workshop(bench.temp.path()), (1, 0));
}
