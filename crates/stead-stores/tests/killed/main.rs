//! A process is killed at any of its system calls, in the middle of a change. Then another process that has the
//! directory open, or a program of the host, acts on the same names and is acknowledged. Then a third process opens the
//! directory. Everything that was acknowledged is there, once, and the change of the killed process is complete or
//! absent.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a process has to be killed")]

mod acts;
mod tracer;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use acts::{ACTS, Act, Files, OTHERS, OTHERS_LINE, Other};
use stead_core::store::{CompanionRecords, History, Maintenance, RevisionNumber, RevisionQuery};
use stead_core::vfs::{LostUpdates, RevertResult, UndoOptions, UndoTarget};
use stead_core::{AccessScope, Identity, Mount, Store, Vfs, VfsPath, Workspace};
use stead_stores::{DisplacedRetention, Durability, PhysicalOptions, PhysicalStore};
use tracer::{Calls, Killed};

const TASK: &str = "STEAD_KILLED_TASK";

/// How a Store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct How {
    /// Whether displaced content is retained.
    keep: bool,
    durability: Durability,
}

fn open(temp: &Path, how: How) -> Arc<PhysicalStore> {
    let options = PhysicalOptions {
        durability: how.durability,
        displaced_retention: how.keep.then(DisplacedRetention::default),
        ..PhysicalOptions::new(temp.join("state"))
    };
    Arc::new(PhysicalStore::open(temp.join("root"), options).unwrap())
}

fn door(store: &Arc<PhysicalStore>, agent: &str) -> Vfs {
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
#[ignore = "the other end of the tests here, which start it as a process of its own"]
fn the_process_that_is_killed() {
    let task = std::env::var(TASK).expect("started by one of the tests here");
    let mut parts = task.splitn(5, ',');
    let mut next = || parts.next().unwrap();
    let (act, keep, durability) = (Act::named(next()), next() == "true", next().to_owned());
    let (first, temp) = (RevisionNumber(next().parse().unwrap()), Path::new(next()));
    let durability = if durability == "Full" { Durability::Full } else { Durability::Fast };
    let store = open(temp, How { keep, durability });
    let door = door(&store, "dies");
    tracer::begin();
    act.perform(&*store, &door, first).unwrap();
    tracer::end();
}

/// The result of one round: where the process was killed, and what is wrong afterwards.
struct Round {
    killed: Killed,
    wrong: Option<String>,
}

fn round(act: Act, other: Other, how: How, calls: Calls, when: usize) -> Round {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let store = open(temp.path(), how);
    let (before, first) = acts::set_up(&door(&store, "dies"), || store.latest_revision().unwrap());
    acts::put_row(&*store, &Identity::agent("dies"), Vec::new(), "1");
    let set_up = store.latest_revision().unwrap();

    let mut command = Command::new(std::env::current_exe().unwrap());
    let How { keep, durability } = how;
    let task = format!("{act:?},{keep},{durability:?},{},{}", first.0, temp.path().display());
    command.args(["--ignored", "--exact", "the_process_that_is_killed", "--nocapture"]);
    let killed = tracer::kill(command.env(TASK, task).stdout(Stdio::null()), calls, when);

    let check = || {
        let acknowledged = other.perform(&door(&store, "lives"), &root);
        let third = open(temp.path(), how);
        let found = Found { before: &before, act, other, killed, acknowledged, set_up };
        found.check(&third, &store, temp.path(), how);
    };
    let wrong = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).err().map(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
    });
    Round { killed, wrong }
}

/// What is known of a round when the third process has opened the directory.
struct Found<'a> {
    before: &'a Files,
    act: Act,
    other: Other,
    killed: Killed,
    acknowledged: bool,
    set_up: RevisionNumber,
}

impl Found<'_> {
    fn check(&self, third: &Arc<PhysicalStore>, second: &Arc<PhysicalStore>, temp: &Path, how: How) {
        let root = temp.join("root");
        let found = files(&root);
        let problems = third.verify(&mut |_| ()).unwrap().problems;
        let other = if self.acknowledged { self.other } else { Other::Nothing };
        let mut absent = other.model(self.before);
        let whole = other.model(&self.act.model(self.before));
        if (self.act, other) == (Act::MoveOver, Other::HostAtTarget) && found != whole && found != absent {
            // The host's line went into the file that had the name then, and moves back with it.
            absent = Other::Host.model(self.before);
        }
        if !problems.is_empty() && self.other.is_of_the_host() {
            return self.check_reported(&found, &problems, temp);
        }
        assert!(problems.is_empty(), "verify: {problems:?}");
        assert!(found == absent || found == whole, "neither whole nor absent: {}", shown(&found));
        if matches!(self.killed, Killed::AtTheEnd(_)) {
            assert!(found == whole, "acknowledged and lost: {}", shown(&found));
        }
        let rooms = std::fs::read_dir(temp.join("state/physical")).unwrap().next().unwrap().unwrap().path();
        assert_eq!(std::fs::read_dir(rooms.join("staging")).unwrap().count(), 2, "rooms that are left");
        self.check_history(third, &root, how, found == whole, absent == whole);
        // The process that was there all the time can still make changes.
        door(second, "lives").write("/w/afterwards", "fine").unwrap();
    }

    /// Recovery couldn't decide. The host program's line is there, once; what was there before the killed process is
    /// there or stored elsewhere, and the report says where.
    fn check_reported(&self, found: &Files, problems: &[String], temp: &Path) {
        let name = if self.other == Other::Host { "log" } else { "target" };
        let count = found.get(name).map_or(0, |content| {
            content.windows(OTHERS_LINE.len()).filter(|window| *window == OTHERS_LINE).count()
        });
        assert_eq!(count, 1, "the host's line in `{name}`: {}", shown(found));
        let names_it = |problem: &String| ["`log`", "`target`"].iter().any(|name| problem.starts_with(name));
        assert!(problems.iter().all(names_it), "{problems:?}");
        let state = temp.join("state");
        for problem in problems.iter().filter(|problem| problem.contains("kept as")) {
            let path = problem.split('`').find(|part| part.contains("/recovered/")).unwrap();
            assert!(state.join(path).exists(), "{problem}");
        }
    }

    fn check_history(&self, store: &Arc<PhysicalStore>, root: &Path, how: How, is_whole: bool, same: bool) {
        let deeds = |agent: &str| {
            let query =
                RevisionQuery { after: self.set_up, agent: Some(agent.to_owned()), ..RevisionQuery::all() };
            store.revisions(&query).unwrap().revisions.len()
        };
        let by_the_dead = deeds("dies");
        assert!(same || by_the_dead == usize::from(is_whole), "{by_the_dead} deeds of the dead process");
        let row = store.record(&acts::row_kind(), "log").unwrap().expect("there is always a row");
        let wrote_row = self.act == Act::WriteWithRow && by_the_dead == 1;
        let wanted = if wrote_row { ("2", Some(acts::LINE.len() as u64)) } else { ("1", None) };
        assert_eq!((&*row.data, row.size), wanted, "the companion row");
        let by_the_living = usize::from(self.acknowledged && !self.other.is_of_the_host());
        assert_eq!(deeds("lives"), by_the_living, "deeds of the living process");
        if by_the_living == 1 {
            let found = files(root);
            let undone = door(store, "lives").undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
            if !undone.done && !how.keep {
                return is_refused(&undone, &found, root);
            }
            assert!(undone.done, "what lives can't be undone: {:?}", undone.conflicts);
            let wanted = if by_the_dead == 1 { self.act.model(self.before) } else { self.before.clone() };
            assert_eq!(shown(&files(root)), shown(&wanted), "after the living one's undo");
        }
        let unchanged = files(root);
        let undone = door(store, "dies").undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        let found = files(root);
        if self.other.is_of_the_host() {
            let lines: usize = found
                .values()
                .map(|content| content.windows(OTHERS_LINE.len()).filter(|line| *line == OTHERS_LINE).count())
                .sum();
            assert_eq!(lines, 1, "the host's lines after an undo: {}", shown(&found));
            return;
        }
        if !undone.done && !how.keep {
            return is_refused(&undone, &unchanged, root);
        }
        assert!(undone.done, "what stayed can't be undone: {:?}", undone.conflicts);
        let wanted = if by_the_dead == 1 && self.act != Act::Undo {
            self.before.clone()
        } else if by_the_dead == 1 {
            // The undo was the killed process's last operation but one that isn't undone.
            return;
        } else {
            Act::Undo.model(self.before)
        };
        assert_eq!(shown(&found), shown(&wanted), "after the dead one's undo");
    }
}

/// Checks that undo is refused because displaced content wasn't retained, and that nothing was changed.
fn is_refused(undone: &RevertResult, before: &Files, root: &Path) {
    let why = |conflict: &stead_core::vfs::PathConflict| conflict.why.contains("was not kept");
    assert!(undone.conflicts.iter().any(why), "{:?}", undone.conflicts);
    assert_eq!(shown(&files(root)), shown(before), "after an undo that was refused");
}

fn shown(files: &Files) -> String {
    let file = |(name, content): (&String, &Vec<u8>)| match content.len() {
        ..=120 => format!("{name}: {:?}", String::from_utf8_lossy(content)),
        length => format!("{name}: {length} bytes ending in {:?}", tail(content)),
    };
    files.iter().map(file).collect::<Vec<_>>().join(", ")
}

fn tail(content: &[u8]) -> String {
    String::from_utf8_lossy(&content[content.len() - 40..]).into_owned()
}

fn long() -> bool {
    std::env::var_os("STEAD_TEST_LONG").is_some()
}

/// Kills the act at each of its system calls, or at some of them, and does something else after each.
fn killed_everywhere(act: Act, how: How) {
    if act.needs_content() && !how.keep {
        return;
    }
    let calls = if long() { Calls::All } else { Calls::Changing };
    let (mut total, mut wrong) = (0, Vec::new());
    let mut go = |other: Other, when: usize| {
        let Round { killed, wrong: found } = round(act, other, how, calls, when);
        total += 1;
        wrong.extend(found.map(|found| format!("call {when} ({killed:?}), then {other:?}: {found}")));
        killed
    };
    let Killed::AtTheEnd(points) = go(Other::Append, usize::MAX) else { unreachable!("never so many calls") };
    // Alternates what is done afterwards from call to call. With full durability, only every second call.
    let step = if how.durability == Durability::Full { 2 } else { 1 };
    for when in 0..=points {
        for (index, other) in OTHERS.into_iter().enumerate() {
            if long() || when % step == 0 && index == when / step % OTHERS.len() {
                go(other, when);
            }
        }
    }
    println!("{act:?} with {how:?}: {} wrong of {total}, at {points} calls", wrong.len());
    assert!(
        wrong.is_empty(),
        "{act:?} with {how:?}: {} wrong of {total}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

macro_rules! acts {
    ($($name:ident: $act:ident,)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn keeping_content() {
                killed_everywhere(Act::$act, How { keep: true, durability: Durability::Fast });
            }

            #[test]
            fn keeping_content_on_the_disk() {
                killed_everywhere(Act::$act, How { keep: true, durability: Durability::Full });
            }

            #[test]
            fn keeping_no_content() {
                killed_everywhere(Act::$act, How { keep: false, durability: Durability::Fast });
            }
        })*

        #[test]
        fn every_act_is_killed() {
            assert_eq!([$(Act::$act),*], ACTS);
        }
    };
}

acts! {
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
