//! A process killed while it makes, merges or discards a fork with several parts. The fork is there as a whole or not at all, each
//! Store has the whole merge or nothing of it, and the next attempt completes what was interrupted.

use std::time::Duration;

use crate::killed::{TASK, killed_child, rounds, say};

use super::*;

/// How many files each merged part has changed.
const FILES: usize = 12;
/// The parts that are merged.
const MERGED: [&str; 3] = ["", "/lib", "/same"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupted {
    Fork,
    Merge,
    Discard,
}

impl Interrupted {
    const ALL: [Interrupted; 3] = [Interrupted::Fork, Interrupted::Merge, Interrupted::Discard];
}

/// What the child process does. As a test of its own it has nothing to do.
#[test]
fn the_child_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let mut parts = task.splitn(3, ',');
    let mut number = || parts.next().unwrap().parse::<usize>().unwrap();
    let (interrupted, store) = (Interrupted::ALL[number()], TargetStore::ALL[number()]);
    let config = config_in(Path::new(parts.next().unwrap()), store);
    let stead = Stead::open(&config, "coder").unwrap().with_approval();
    say("begins");
    match interrupted {
        Interrupted::Fork => drop(stead.fork("/code", "new").unwrap()),
        Interrupted::Merge => drop(merge_clean(&stead, "draft")),
        Interrupted::Discard => drop(stead.discard("draft").unwrap()),
    }
    say("done");
}

/// A project with a fork that has changed three parts.
fn prepared(store: TargetStore) -> Project {
    let project = project(store);
    let stead = project.open("coder").fork("/code", "draft").unwrap();
    for part in MERGED {
        let mut batch = stead.vfs().batch();
        for file in 0..FILES {
            let path = format!("/forks/draft{part}/new{file}");
            batch.write(path, "from the fork\n", &stead_core::vfs::WriteOptions::new()).unwrap();
        }
        batch.apply().unwrap();
    }
    project
}

/// How many rows the database has for forks and their parts.
fn fork_rows(project: &Project) -> [i64; 3] {
    let database = rusqlite::Connection::open(project.directory.path().join(".stead/stead.db")).unwrap();
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        database.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    ["fork", "fork_part", "volume"].map(count)
}

/// Which of the merged parts the Workspaces have. A part that is there in part is an error.
fn merged_parts(stead: &Stead) -> Vec<&'static str> {
    let is_merged = |part: &&str| {
        let found = (0..FILES).filter(|file| exists(stead, &format!("/code{part}/new{file}"))).count();
        assert!(found == 0 || found == FILES, "{found} files of {part} are merged");
        found == FILES
    };
    MERGED.into_iter().filter(is_merged).collect()
}

fn interrupt_repeatedly(store: TargetStore, interrupted: Interrupted) {
    let mut random = fastrand::Rng::with_seed(interrupted as u64);
    let mut longest = Duration::from_millis(250);
    let (mut completed, mut absent) = (0, 0);
    for round in 0..rounds() {
        let project = prepared(store);
        let stead = project.open("coder");
        let (live, fork) = (contents(&stead, "/code"), contents(&stead, "/forks/draft"));
        let rows = fork_rows(&project);
        drop(stead);
        let directory = project.directory.path().display();
        let task = format!("{},{},{directory}", interrupted as usize, store as usize);
        let done = killed_child("nested::killed::the_child_process", task, &mut longest, &mut random);
        let stead = project.open("coder").with_approval();
        let has_fork = |name: &str| stead.find_fork(name).is_ok();
        let is_made = match interrupted {
            Interrupted::Fork => {
                let is_made = has_fork("new");
                if is_made {
                    assert_eq!(contents(&stead, "/forks/new"), live, "round {round}");
                    assert_eq!(parts(&stead, "new").len(), 5, "round {round}");
                } else {
                    assert!(!exists(&stead, "/forks/new"), "round {round}");
                    // What was left of parts is removed by the next fork of the name.
                    let stead = stead.fork("/code", "new").unwrap();
                    assert_eq!(contents(&stead, "/forks/new"), live, "round {round}");
                }
                project.open("coder").with_approval().discard("new").unwrap();
                assert_eq!(fork_rows(&project), rows, "round {round}");
                is_made
            }
            Interrupted::Discard => {
                let [forks, parts, volumes] = fork_rows(&project);
                match has_fork("draft") {
                    true => assert_eq!(contents(&stead, "/forks/draft"), fork, "round {round}"),
                    false => assert_eq!((forks, parts, volumes < rows[2]), (0, 0, true), "round {round}"),
                }
                assert_eq!(contents(&stead, "/code"), live, "round {round}");
                !has_fork("draft")
            }
            Interrupted::Merge => {
                let before = merged_parts(&stead);
                assert_eq!(contents(&stead, "/forks/draft"), fork, "round {round}");
                // A merge now goes on with the rest, and then there is nothing left to do.
                let result = merge_clean(&stead, "draft");
                assert_eq!(result.changes.len(), (MERGED.len() - before.len()) * FILES, "round {round}");
                assert_eq!(merged_parts(&stead), MERGED, "round {round}");
                assert_eq!(contents(&stead, "/code"), contents(&stead, "/forks/draft"), "round {round}");
                assert!(merge_clean(&stead, "draft").operation.is_none(), "round {round}");
                before.len() == MERGED.len()
            }
        };
        assert!(is_made || !done, "{interrupted:?} of round {round} was acknowledged and isn't there");
        completed += usize::from(is_made);
        absent += usize::from(!is_made);
    }
    assert!(completed > 0 && absent > 0, "{completed} completed, {absent} absent: the times don't fit");
}

for_each_store! {
    fn g1_a_fork_with_parts_that_is_killed_while_it_is_made_happens_completely_or_not_at_all(store) {
        interrupt_repeatedly(store, Interrupted::Fork);
    }
}

for_each_store! {
    fn g1_a_merge_of_several_parts_that_is_killed_is_completed_by_the_next_one(store) {
        interrupt_repeatedly(store, Interrupted::Merge);
    }
}

for_each_store! {
    fn g1_a_discard_of_a_fork_with_parts_that_is_killed_happens_completely_or_not_at_all(store) {
        interrupt_repeatedly(store, Interrupted::Discard);
    }
}
