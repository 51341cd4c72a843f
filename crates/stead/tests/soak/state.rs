//! Compare-and-set on a State: by many threads at once, and by processes that are killed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stead_core::vfs::State;
use stead_core::vfs::state::SetOptions;
use stead_core::{Error, Identity, Vfs};
use stead_stores::StateOwner;

use crate::child::{Task, lines_of, send_line};
use crate::test_stores::{Kind, assert_verified, database, is_long_run};

const THREADS: u64 = 64;
/// How many threads of a process that is killed increment its counters.
const KILLED_THREADS: u64 = 4;

fn state_in(directory: &Path) -> State {
    let owner = StateOwner::agent("soak");
    let store = Arc::new(database(directory).state_store(&owner).unwrap());
    Vfs::builder(Identity::agent("soak")).state(store).build().unwrap().state().unwrap()
}

/// Adds one to a counter by compare-and-set. Returns the new count, and how often another caller was first.
fn increment(state: &State, key: &str) -> (u64, u64) {
    let mut conflicts = 0;
    loop {
        let found = state.get(key).unwrap();
        let count = 1 + found.as_ref().map_or(0, |found| found.value.parse::<u64>().unwrap());
        let options = match &found {
            Some(found) => SetOptions::new().if_match(found.version_tag),
            None => SetOptions::new().create_only(),
        };
        match state.set(key, &count.to_string(), &options) {
            Ok(_) => return (count, conflicts),
            Err(Error::StateConflict { .. } | Error::StateKeyExists { .. }) => conflicts += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn s18_compare_and_set_by_64_threads_loses_no_increment() {
    let increments = if is_long_run() { 10_000 } else { 640 };
    let directory = tempfile::tempdir().unwrap();
    let state = state_in(directory.path());
    let (started, conflicts) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while started.fetch_add(1, Ordering::Relaxed) < increments {
                    conflicts.fetch_add(increment(&state, "count").1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(state.get("count").unwrap().unwrap().value, increments.to_string());
    println!("{increments} increments by {THREADS} threads, {} conflicts", conflicts.into_inner());
}

pub(crate) fn child(task: &Task) {
    let state = state_in(&task.directory);
    std::thread::scope(|scope| {
        for thread in 0..KILLED_THREADS {
            let state = &state;
            // Two threads share one counter.
            scope.spawn(move || {
                loop {
                    let key = format!("count/{}", thread % 2);
                    let (count, _) = increment(state, &key);
                    send_line(&format!("{key} {count}"));
                }
            });
        }
    });
}

#[test]
fn s18_a_process_that_is_killed_during_compare_and_set_loses_nothing_acknowledged() {
    let rounds = if is_long_run() { 1_000 } else { 100 };
    let mut random = fastrand::Rng::with_seed(11);
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = [0_u64; 2];
    for round in 0..rounds {
        let (mut child, output) = Task::new("state", Kind::Virtual, directory.path(), round).start();
        let delay = Duration::from_micros(random.u64(500..40_000));
        let mut reported = acknowledged;
        let has_reported = std::thread::scope(|scope| {
            let (started, started_receiver) = std::sync::mpsc::channel();
            let killer = scope.spawn(move || {
                let has_reported = started_receiver.recv_timeout(Duration::from_secs(20)).is_ok();
                std::thread::sleep(delay);
                child.kill().unwrap();
                child.wait().unwrap();
                has_reported
            });
            for line in lines_of(output) {
                let _ = started.send(());
                let (key, count) = line.split_once(' ').unwrap();
                let counter = usize::from(key == "count/1");
                reported[counter] = reported[counter].max(count.parse().unwrap());
            }
            killer.join().unwrap()
        });
        assert!(has_reported, "the child of round {round} never acknowledged anything");
        let state = state_in(directory.path());
        for (counter, reported) in reported.into_iter().enumerate() {
            let found = state.get(&format!("count/{counter}")).unwrap().unwrap();
            let count: u64 = found.value.parse().unwrap();
            // Each of the two threads of a counter may have made one more increment that it could not report.
            assert!(
                (reported..=reported + 2).contains(&count),
                "round {round}: {count} after {reported} were reported"
            );
            acknowledged[counter] = count;
        }
    }
    let owner = StateOwner::agent("soak");
    assert_verified(&database(directory.path()).state_store(&owner).unwrap());
    println!("{rounds} kills during compare-and-set: {acknowledged:?} increments, none lost");
}
