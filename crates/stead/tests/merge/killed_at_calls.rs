//! A process is killed at any of its system calls while it makes, merges, updates or discards a fork. Another process that has the
//! project open goes on, and a third one opens it afterwards. What the second one did is there, and what the killed one did is
//! complete or absent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use stead::ErrorKind;

use super::killed::{Interrupted, TASK, assert_merged, open, prepare};
use super::*;

#[path = "../../../stead-stores/tests/killed/tracer.rs"]
#[allow(clippy::disallowed_types, clippy::disallowed_methods)]
mod tracer;

use tracer::{Calls, Killed};

const FILES: usize = 8;
/// How many calls are chosen of all, unless the long form is wanted.
const CHOSEN_CALLS: usize = 16;

type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// What the process that lives on does after the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FollowUp {
    /// It adds a file to the Workspace and one to the fork.
    Write,
    /// It does what the killed process was doing.
    Same,
}

impl FollowUp {
    fn perform(self, stead: &Stead, interrupted: Interrupted) {
        match (self, interrupted) {
            (FollowUp::Write, Interrupted::Discard) => {
                write(stead, "/code/neighbour", "lives\n");
                // The fork may be gone.
                let _ = stead.vfs().write("/forks/draft/own", "lives\n");
            }
            (FollowUp::Write, _) => {
                write(stead, "/code/neighbour", "lives\n");
                write(stead, "/forks/draft/own", "lives\n");
            }
            (FollowUp::Same, Interrupted::Fork) => {
                if let Err(error) = stead.fork("/code", "new") {
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
                }
            }
            (FollowUp::Same, Interrupted::Discard) => {
                if let Err(error) = stead.discard("draft") {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                }
            }
            (FollowUp::Same, _) => interrupted.perform(stead),
        }
    }
}

/// The process that is killed. As a test of its own it has nothing to do.
#[test]
fn the_process_that_is_killed() {
    let Ok(task) = std::env::var(TASK) else { return };
    let mut parts = task.splitn(3, ',');
    let mut number = || parts.next().unwrap().parse::<usize>().unwrap();
    let (interrupted, store) = (Interrupted::ALL[number()], TargetStore::ALL[number()]);
    let stead = open(store, Path::new(parts.next().unwrap()));
    tracer::begin();
    interrupted.perform(&stead);
    tracer::end();
}

/// A project before anything was interrupted, and what it has to be in the end.
struct Round {
    store: TargetStore,
    directory: TempDir,
    target: Files,
    fork: Files,
}

impl Round {
    /// Kills a process at one of its calls, and goes on in this process.
    fn run(
        store: TargetStore,
        interrupted: Interrupted,
        follow_up: FollowUp,
        call: usize,
        merged: &Files,
    ) -> Killed {
        let directory = tempfile::tempdir().unwrap();
        let neighbour = prepare(store, directory.path(), FILES);
        let (target, fork) = (files(&neighbour, "/code"), files(&neighbour, "/forks/draft"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        let task = format!("{},{},{}", interrupted as usize, store as usize, directory.path().display());
        command.args(["--exact", "killed_at_calls::the_process_that_is_killed", "--nocapture"]);
        let killed = tracer::kill(command.env(TASK, task).stdout(Stdio::null()), Calls::Changing, call);
        follow_up.perform(&neighbour, interrupted);
        let round = Round { store, directory, target, fork };
        round.check(interrupted, follow_up, killed, merged);
        // The process that was there all the time can still make changes.
        write(&neighbour, "/code/afterwards", "fine\n");
        killed
    }

    fn check(&self, interrupted: Interrupted, follow_up: FollowUp, killed: Killed, merged: &Files) {
        let stead = open(self.store, self.directory.path());
        let has_fork = |name: &str| stead.find_fork(name).is_ok();
        // Without what the other process has added.
        let files = |prefix: &str| {
            let mut found = files(&stead, prefix);
            found.retain(|path, _| !["/neighbour", "/own"].contains(&path.as_str()));
            found
        };
        let (found, before) = match interrupted {
            Interrupted::Update => (files("/forks/draft"), &self.fork),
            _ => (files("/code"), &self.target),
        };
        let is_complete = match interrupted {
            Interrupted::Fork => {
                assert!(!has_fork("new") || files("/forks/new") == self.target, "the fork isn't whole");
                has_fork("new")
            }
            Interrupted::Discard => {
                assert!(!has_fork("draft") || files("/forks/draft") == self.fork, "the fork isn't whole");
                !has_fork("draft")
            }
            Interrupted::Merge | Interrupted::Update => found == *merged,
        };
        assert!(is_complete || found == *before, "it is neither complete nor absent: {:?}", found.keys());
        let is_acknowledged = follow_up == FollowUp::Same || matches!(killed, Killed::AtTheEnd(_));
        assert!(is_complete || !is_acknowledged, "it was acknowledged and is lost");
        if follow_up == FollowUp::Write {
            assert_eq!(read(&stead, "/code/neighbour"), "lives\n");
        }
        if interrupted != Interrupted::Discard {
            merge_clean(&stead, "draft");
            assert_eq!(files("/code"), *merged, "the merge afterwards");
            assert_eq!(files("/forks/draft"), *merged, "the fork after that merge");
            assert_eq!(exists(&stead, "/code/own"), follow_up == FollowUp::Write);
            assert!(merge_clean(&stead, "draft").operation.is_none(), "a merge after that merge");
        }
        self.verify();
    }

    fn verify(&self) {
        let directory = self.directory.path();
        let text = self.store.configure(CONFIG, directory);
        let config = Config::parse(&text, &directory.join("stead.toml")).unwrap();
        for (name, report) in stead::Stores::of(&config).verify(&mut |_, _| ()).unwrap() {
            assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
        }
    }
}

/// What a merge without any interruption makes of the project.
fn merged_files(store: TargetStore) -> Files {
    let directory = tempfile::tempdir().unwrap();
    let stead = prepare(store, directory.path(), FILES);
    merge_clean(&stead, "draft");
    let merged = files(&stead, "/code");
    assert_merged(&merged, FILES);
    merged
}

/// Kills at each of the calls that change something, or at some of them.
fn kill_at_calls(store: TargetStore, interrupted: Interrupted) {
    let is_long = std::env::var_os("STEAD_TEST_LONG").is_some();
    let merged = merged_files(store);
    let (mut total, mut problems) = (0, Vec::new());
    let mut run = |follow_up: FollowUp, call: usize| {
        total += 1;
        let round = AssertUnwindSafe(|| Round::run(store, interrupted, follow_up, call, &merged));
        let killed = catch_unwind(round);
        if let Err(panic) = &killed {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            problems.push(format!("call {call}, then {follow_up:?}: {text}"));
        }
        killed.ok()
    };
    let Some(Killed::AtTheEnd(calls)) = run(FollowUp::Write, usize::MAX) else {
        panic!("without a kill: {problems:?}")
    };
    let step = if is_long { 1 } else { calls.div_ceil(CHOSEN_CALLS) };
    for (index, call) in (0..=calls).step_by(step).enumerate() {
        for (follow_up, turn) in [(FollowUp::Write, 0), (FollowUp::Same, 1)] {
            if is_long || index % 2 == turn {
                run(follow_up, call);
            }
        }
    }
    println!("{interrupted:?} over {store:?}: {} wrong of {total}, at {calls} calls", problems.len());
    assert!(
        problems.is_empty(),
        "{} wrong of {total}, at {calls} calls:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

for_each_store! {
    fn g2_g4_a_fork_killed_at_any_call_beside_another_process_is_made_completely_or_not_at_all(store) {
        kill_at_calls(store, Interrupted::Fork);
    }
}

for_each_store! {
    fn g23_g26_a_merge_killed_at_any_call_beside_another_process_happens_completely_or_not_at_all(store) {
        kill_at_calls(store, Interrupted::Merge);
    }
}

for_each_store! {
    fn g25_an_update_killed_at_any_call_beside_another_process_happens_completely_or_not_at_all(store) {
        kill_at_calls(store, Interrupted::Update);
    }
}

for_each_store! {
    fn g5_a_discard_killed_at_any_call_beside_another_process_happens_completely_or_not_at_all(store) {
        kill_at_calls(store, Interrupted::Discard);
    }
}
