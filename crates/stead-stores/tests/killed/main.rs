//! A process is killed at any of its system calls, in the middle of a change. Then another process that has the
//! directory open, or a program of the host, acts on the same names and is acknowledged. Then a third process opens the
//! directory. Everything that was acknowledged is there, once, and the change of the killed process is complete or
//! absent.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a process has to be killed")]

mod operations;
mod tracer;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use operations::{FOLLOW_UP_LINE, FOLLOW_UPS, Files, FollowUp, KILLED_OPERATIONS, KilledOperation};
use stead_core::store::{CompanionRecords, History, Maintenance, RevisionNumber, RevisionQuery};
use stead_core::vfs::{LostUpdates, RevertResult, UndoOptions, UndoTarget};
use stead_core::{AccessScope, Identity, Mount, Store, Vfs, VfsPath, Workspace};
use stead_stores::{DisplacedRetention, Durability, PhysicalOptions, PhysicalStore};
use tracer::{Calls, Killed};

const TASK: &str = "STEAD_KILLED_TASK";

/// How a Store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StoreSettings {
    /// Whether displaced content is retained.
    retains_content: bool,
    durability: Durability,
}

fn open(temp: &Path, settings: StoreSettings) -> Arc<PhysicalStore> {
    let options = PhysicalOptions {
        durability: settings.durability,
        displaced_retention: settings.retains_content.then(DisplacedRetention::default),
        ..PhysicalOptions::new(temp.join("state"))
    };
    Arc::new(PhysicalStore::open(temp.join("root"), options).unwrap())
}

fn vfs_for(store: &Arc<PhysicalStore>, agent: &str) -> Vfs {
    let mount = Mount::new(Arc::clone(store) as Arc<dyn Store>);
    let workspace = Workspace::new(VfsPath::parse("/w").unwrap(), AccessScope::ReadWrite, mount);
    let builder = Vfs::builder(Identity::agent(agent)).lost_updates(LostUpdates::Allow);
    builder.workspace(workspace).build().unwrap()
}

/// The files in a directory of the host.
fn files(root: &Path) -> Files {
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let file = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

/// The process that is killed.
#[test]
#[ignore = "a child process: the tests start it"]
fn the_process_that_is_killed() {
    let task = std::env::var(TASK).expect("one of the tests starts this process");
    let mut parts = task.splitn(5, ',');
    let mut next_part = || parts.next().unwrap();
    let (operation, retains_content, durability) =
        (KilledOperation::named(next_part()), next_part() == "true", next_part().to_owned());
    let (first, temp) = (RevisionNumber(next_part().parse().unwrap()), Path::new(next_part()));
    let durability = if durability == "Full" { Durability::Full } else { Durability::Fast };
    let store = open(temp, StoreSettings { retains_content, durability });
    let vfs = vfs_for(&store, "dies");
    tracer::begin();
    operation.perform(&*store, &vfs, first).unwrap();
    tracer::end();
}

/// The result of one round: where the process was killed, and what is wrong afterwards.
struct Round {
    killed: Killed,
    problem: Option<String>,
}

fn kill_and_check(
    operation: KilledOperation,
    follow_up: FollowUp,
    settings: StoreSettings,
    calls: Calls,
    call_index: usize,
) -> Round {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let store = open(temp.path(), settings);
    let (before, first) = operations::set_up(&vfs_for(&store, "dies"), || store.latest_revision().unwrap());
    operations::put_row(&*store, &Identity::agent("dies"), Vec::new(), "1");
    let set_up = store.latest_revision().unwrap();

    let mut command = Command::new(std::env::current_exe().unwrap());
    let StoreSettings { retains_content, durability } = settings;
    let task =
        format!("{operation:?},{retains_content},{durability:?},{},{}", first.0, temp.path().display());
    command.args(["--ignored", "--exact", "the_process_that_is_killed", "--nocapture"]);
    let killed = tracer::kill(command.env(TASK, task).stdout(Stdio::null()), calls, call_index);

    let check = || {
        let acknowledged = follow_up.perform(&vfs_for(&store, "lives"), &root);
        let reopened = open(temp.path(), settings);
        let state = RoundState { before: &before, operation, follow_up, killed, acknowledged, set_up };
        state.check(&reopened, &store, temp.path(), settings);
    };
    let problem = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).err().map(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
    });
    Round { killed, problem }
}

/// What is known of a round when the third process has opened the directory.
struct RoundState<'a> {
    before: &'a Files,
    operation: KilledOperation,
    follow_up: FollowUp,
    killed: Killed,
    acknowledged: bool,
    set_up: RevisionNumber,
}

impl RoundState<'_> {
    fn check(
        &self,
        reopened: &Arc<PhysicalStore>,
        survivor: &Arc<PhysicalStore>,
        temp: &Path,
        settings: StoreSettings,
    ) {
        let root = temp.join("root");
        let current = files(&root);
        let problems = reopened.verify(&mut |_| ()).unwrap().problems;
        let follow_up = if self.acknowledged { self.follow_up } else { FollowUp::Nothing };
        let mut absent = follow_up.model(self.before);
        let complete = follow_up.model(&self.operation.model(self.before));
        if (self.operation, follow_up) == (KilledOperation::MoveOver, FollowUp::HostAtTarget)
            && current != complete
            && current != absent
        {
            // The host's line went into the file that had the name then, and moves back with it.
            absent = FollowUp::Host.model(self.before);
        }
        if !problems.is_empty() && self.follow_up.is_by_the_host() {
            return self.check_reported(&current, &problems, temp);
        }
        assert!(problems.is_empty(), "verify: {problems:?}");
        assert!(
            current == absent || current == complete,
            "the change is neither complete nor absent: {}",
            describe(&current)
        );
        if matches!(self.killed, Killed::AtTheEnd(_)) {
            assert!(current == complete, "the change was acknowledged, but is lost: {}", describe(&current));
        }
        let store_state =
            std::fs::read_dir(temp.join("state/physical")).unwrap().next().unwrap().unwrap().path();
        assert_eq!(
            std::fs::read_dir(store_state.join("staging")).unwrap().count(),
            2,
            "the number of staging directories"
        );
        self.check_history(reopened, &root, settings, current == complete, absent == complete);
        // The process that was there all the time can still make changes.
        vfs_for(survivor, "lives").write("/w/afterwards", "fine").unwrap();
    }

    /// Recovery couldn't decide. The host program's line is there, once; what was there before the killed process is
    /// there or stored elsewhere, and the report says where.
    fn check_reported(&self, found: &Files, problems: &[String], temp: &Path) {
        let name = if self.follow_up == FollowUp::Host { "log" } else { "target" };
        let count = found.get(name).map_or(0, |content| {
            content.windows(FOLLOW_UP_LINE.len()).filter(|window| *window == FOLLOW_UP_LINE).count()
        });
        assert_eq!(count, 1, "how often the host's line is in `{name}`: {}", describe(found));
        let names_it = |problem: &String| ["`log`", "`target`"].iter().any(|name| problem.starts_with(name));
        assert!(problems.iter().all(names_it), "{problems:?}");
        let state = temp.join("state");
        for problem in problems.iter().filter(|problem| problem.contains("kept as")) {
            let path = problem.split('`').find(|part| part.contains("/recovered/")).unwrap();
            assert!(state.join(path).exists(), "{problem}");
        }
    }

    fn check_history(
        &self,
        store: &Arc<PhysicalStore>,
        root: &Path,
        settings: StoreSettings,
        is_complete: bool,
        is_no_change: bool,
    ) {
        let revision_count = |agent: &str| {
            let query =
                RevisionQuery { after: self.set_up, agent: Some(agent.to_owned()), ..RevisionQuery::all() };
            store.revisions(&query).unwrap().revisions.len()
        };
        let dead_revisions = revision_count("dies");
        assert!(
            is_no_change || dead_revisions == usize::from(is_complete),
            "the killed process has {dead_revisions} revisions"
        );
        let row = store.record(&operations::row_kind(), "log").unwrap().expect("there is always a row");
        let wrote_row = self.operation == KilledOperation::WriteWithRow && dead_revisions == 1;
        let expected = if wrote_row { ("2", Some(operations::LINE.len() as u64)) } else { ("1", None) };
        assert_eq!((&*row.data, row.size), expected, "the companion row");
        let survivor_revisions = usize::from(self.acknowledged && !self.follow_up.is_by_the_host());
        assert_eq!(revision_count("lives"), survivor_revisions, "the revisions of the surviving process");
        if survivor_revisions == 1 {
            let current = files(root);
            let undone = vfs_for(store, "lives").undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
            if !undone.done && !settings.retains_content {
                return assert_refused(&undone, &current, root);
            }
            assert!(
                undone.done,
                "the change of the surviving process can't be undone: {:?}",
                undone.conflicts
            );
            let expected =
                if dead_revisions == 1 { self.operation.model(self.before) } else { self.before.clone() };
            assert_eq!(
                describe(&files(root)),
                describe(&expected),
                "the files after undoing the change of the surviving process"
            );
        }
        let unchanged = files(root);
        let undone = vfs_for(store, "dies").undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        let current = files(root);
        if self.follow_up.is_by_the_host() {
            let lines: usize = current
                .values()
                .map(|content| {
                    content.windows(FOLLOW_UP_LINE.len()).filter(|line| *line == FOLLOW_UP_LINE).count()
                })
                .sum();
            assert_eq!(lines, 1, "how often the host's line is there after an undo: {}", describe(&current));
            return;
        }
        if !undone.done && !settings.retains_content {
            return assert_refused(&undone, &unchanged, root);
        }
        assert!(undone.done, "the change of the killed process can't be undone: {:?}", undone.conflicts);
        let expected = if dead_revisions == 1 && self.operation != KilledOperation::Undo {
            self.before.clone()
        } else if dead_revisions == 1 {
            // The undo was the killed process's last operation but one that isn't undone.
            return;
        } else {
            KilledOperation::Undo.model(self.before)
        };
        assert_eq!(
            describe(&current),
            describe(&expected),
            "the files after undoing the change of the killed process"
        );
    }
}

/// Checks that undo is refused because displaced content wasn't retained, and that nothing was changed.
fn assert_refused(undone: &RevertResult, before: &Files, root: &Path) {
    let is_not_retained = |conflict: &stead_core::vfs::PathConflict| conflict.why.contains("was not kept");
    assert!(undone.conflicts.iter().any(is_not_retained), "{:?}", undone.conflicts);
    assert_eq!(describe(&files(root)), describe(before), "the files after an undo that was refused");
}

fn describe(files: &Files) -> String {
    let file = |(name, content): (&String, &Vec<u8>)| match content.len() {
        ..=120 => format!("{name}: {:?}", String::from_utf8_lossy(content)),
        length => format!("{name}: {length} bytes ending in {:?}", tail(content)),
    };
    files.iter().map(file).collect::<Vec<_>>().join(", ")
}

fn tail(content: &[u8]) -> String {
    String::from_utf8_lossy(&content[content.len() - 40..]).into_owned()
}

fn is_long_run() -> bool {
    std::env::var_os("STEAD_TEST_LONG").is_some()
}

/// Kills the operation at each of its system calls, or at some of them, and does something else after each.
fn kill_at_every_call(operation: KilledOperation, settings: StoreSettings) {
    if operation.needs_content() && !settings.retains_content {
        return;
    }
    let calls = if is_long_run() { Calls::All } else { Calls::Changing };
    let (mut total, mut problems) = (0, Vec::new());
    let mut run_round = |follow_up: FollowUp, call_index: usize| {
        let Round { killed, problem } = kill_and_check(operation, follow_up, settings, calls, call_index);
        total += 1;
        problems.extend(
            problem.map(|problem| format!("call {call_index} ({killed:?}), then {follow_up:?}: {problem}")),
        );
        killed
    };
    let Killed::AtTheEnd(points) = run_round(FollowUp::Append, usize::MAX) else {
        unreachable!("no process makes so many calls")
    };
    // Alternates what is done afterwards from call to call. With full durability, only every second call.
    let step = if settings.durability == Durability::Full { 2 } else { 1 };
    for call_index in 0..=points {
        for (index, follow_up) in FOLLOW_UPS.into_iter().enumerate() {
            if is_long_run() || call_index % step == 0 && index == call_index / step % FOLLOW_UPS.len() {
                run_round(follow_up, call_index);
            }
        }
    }
    println!("{operation:?} with {settings:?}: {} wrong of {total}, at {points} calls", problems.len());
    assert!(
        problems.is_empty(),
        "{operation:?} with {settings:?}: {} wrong of {total}:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

macro_rules! killed_operations {
    ($($name:ident: $operation:ident,)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn retaining_content() {
                let settings = StoreSettings { retains_content: true, durability: Durability::Fast };
                kill_at_every_call(KilledOperation::$operation, settings);
            }

            #[test]
            fn retaining_content_with_full_durability() {
                let settings = StoreSettings { retains_content: true, durability: Durability::Full };
                kill_at_every_call(KilledOperation::$operation, settings);
            }

            #[test]
            fn without_retained_content() {
                let settings = StoreSettings { retains_content: false, durability: Durability::Fast };
                kill_at_every_call(KilledOperation::$operation, settings);
            }
        })*

        #[test]
        fn every_operation_is_killed() {
            assert_eq!([$(KilledOperation::$operation),*], KILLED_OPERATIONS);
        }
    };
}

killed_operations! {
    append: Append,
    append_much: AppendMuch,
    edit: Edit,
    write: Write,
    write_with_row: WriteWithRow,
    patch: Patch,
    rename: Move,
    rename_over: MoveOver,
    delete: Delete,
    undo: Undo,
    restore: Restore,
}
