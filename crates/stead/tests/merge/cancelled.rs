//! A merge or an update that is cancelled before its commit leaves no trace: both sides stay as they are, no draft stays, and the
//! audit says that the call was stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stead::monitor::{CallMonitor, StopReason};
use stead::{AuditQuery, Error, GcOptions, Identity, Retention, Stores, VfsError};
use stead_core::{Clock, SystemClock};

use super::*;

/// How many files each side has changed. Two thirds of them are changed by both sides, on other lines.
const FILES: usize = 9;

/// Cancels a call after it has asked so many times whether to stop.
#[derive(Debug)]
struct StopAfter(AtomicU64);

impl StopAfter {
    fn new(checks: u64) -> Arc<Self> {
        Arc::new(StopAfter(AtomicU64::new(checks)))
    }
}

impl CallMonitor for StopAfter {
    fn progress(&self, _: u64, _: Option<u64>) {}

    fn stop_reason(&self) -> Option<StopReason> {
        let decrement = |remaining: u64| remaining.checked_sub(1);
        let is_used_up = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_err();
        is_used_up.then_some(StopReason::Cancelled)
    }
}

/// Keeps all progress that is reported.
#[derive(Debug, Default)]
struct Reported(std::sync::Mutex<Vec<(u64, Option<u64>)>>);

impl CallMonitor for Reported {
    fn progress(&self, done: u64, total: Option<u64>) {
        self.0.lock().unwrap().push((done, total));
    }

    fn stop_reason(&self) -> Option<StopReason> {
        None
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Merge,
    Update,
}

impl Direction {
    const ALL: [Direction; 2] = [Direction::Merge, Direction::Update];

    fn run(self, stead: &Stead) -> Result<MergeResult, Error> {
        match self {
            Direction::Merge => stead.merge_fork("draft", &MergeOptions::default()),
            Direction::Update => stead.update_fork("draft", &MergeOptions::default()),
        }
    }
}

/// A text whose merge doesn't fit into one row of the database.
fn large(first: &str, last: &str) -> String {
    let lines: String = (0..9_000).map(|line| format!("line {line} of a text in chunks\n")).collect();
    format!("{first}\n{lines}{last}\n")
}

/// A fork and its Workspace, which have both changed the same files, and moved and added others.
fn changed_on_both_sides(project: &Project) -> (Stores, Stead) {
    let stores = Stores::of(&project.config);
    stores.open_audit().unwrap();
    let stead = Stead::open_in(&stores, &Identity::agent("coder")).unwrap();
    for file in 0..FILES {
        write(&stead, &format!("/code/d/f{file}"), &format!("1\n2\n{file}\n4\n5\n"));
    }
    write(&stead, "/code/large", &large("first", "last"));
    let stead = stead.fork("/code", "draft").unwrap();
    for file in 0..FILES {
        write(&stead, &format!("/forks/draft/d/f{file}"), &format!("fork\n2\n{file}\n4\n5\n"));
        write(&stead, &format!("/forks/draft/new/f{file}"), "new\n");
        if file % 3 > 0 {
            write(&stead, &format!("/code/d/f{file}"), &format!("1\n2\n{file}\n4\ntarget\n"));
        }
        write(&stead, &format!("/code/other/f{file}"), "other\n");
    }
    write(&stead, "/forks/draft/large", &large("fork", "last"));
    write(&stead, "/code/large", &large("first", "target"));
    (stores, stead)
}

fn both_sides(stead: &Stead) -> [BTreeMap<String, (u32, Vec<u8>)>; 2] {
    [files(stead, "/code"), files(stead, "/forks/draft")]
}

/// What is left of drafts: contents that the database holds for them, and files in staging directories.
fn drafts(project: &Project) -> (i64, Vec<String>) {
    let state = project.directory.path().join(".stead");
    let database = rusqlite::Connection::open(state.join("stead.db")).unwrap();
    let pinned = database.query_row("SELECT count(*) FROM pin", [], |row| row.get(0)).unwrap();
    let mut staged = Vec::new();
    for area in std::fs::read_dir(state.join("physical")).into_iter().flatten() {
        for directory in std::fs::read_dir(area.unwrap().path().join("staging")).unwrap() {
            let names = std::fs::read_dir(directory.unwrap().path()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            staged.extend(names.filter(|name| name.starts_with('t')));
        }
    }
    (pinned, staged)
}

/// How many contents the database holds once gc has removed those that nothing refers to.
fn contents(project: &Project, stores: &Stores) -> i64 {
    let options = GcOptions { grace: Duration::ZERO, ..GcOptions::default() };
    stores.gc(Retention::default(), options, SystemClock.now(), &mut |_, _| ()).unwrap();
    let database = rusqlite::Connection::open(project.directory.path().join(".stead/stead.db")).unwrap();
    database.query_row("SELECT count(*) FROM content", [], |row| row.get(0)).unwrap()
}

fn is_cancelled(error: &Error) -> bool {
    matches!(error, Error::Vfs(VfsError::Stopped(StopReason::Cancelled)))
}

for_each_store! {
    fn g29_a_call_that_is_cancelled_at_any_time_before_its_commit_leaves_no_trace(store) {
        for direction in Direction::ALL {
            let project = Project::new(store);
            let (stores, stead) = changed_on_both_sides(&project);
            let before = both_sides(&stead);
            let mut cancelled = 0;
            let done = loop {
                match direction.run(&stead.watched(StopAfter::new(cancelled))) {
                    Ok(result) => break result,
                    Err(error) => assert!(is_cancelled(&error), "{direction:?} {cancelled}: {error}"),
                }
                assert!(both_sides(&stead) == before, "{direction:?} {cancelled}: something has changed");
                assert_eq!(drafts(&project).1, [""; 0], "{direction:?} {cancelled}");
                cancelled += 1;
            };
            // It asks for each file when the file is looked at, planned and put in place.
            assert!(cancelled >= 3 * FILES as u64, "{direction:?}: {cancelled}");
            assert!(done.done && done.conflicts.is_empty(), "{direction:?}");
            let side = if direction == Direction::Merge { "/code" } else { "/forks/draft" };
            assert_eq!(read(&stead, &format!("{side}/d/f1")), "fork\n2\n1\n4\ntarget\n");
            assert!(read(&stead, &format!("{side}/large")) == large("fork", "target"));
            // The next change of the database lets go of the last drafts.
            write(&stead, "/forks/draft/later", "");
            assert_eq!(drafts(&project), (0, Vec::new()), "{direction:?}");
            drop((stead, stores));
        }
    }
}

for_each_store! {
    fn g29_the_contents_of_a_cancelled_merge_are_garbage(store) {
        for direction in Direction::ALL {
            let project = Project::new(store);
            let (stores, stead) = changed_on_both_sides(&project);
            // The first one finds out what the host has.
            let mut dry_run = MergeOptions::default();
            dry_run.dry_run = true;
            stead.merge_fork("draft", &dry_run).unwrap();
            let before = contents(&project, &stores);
            let mut most = 0;
            for checks in 0.. {
                if direction.run(&stead.watched(StopAfter::new(checks))).is_ok() {
                    break;
                }
                most = most.max(drafts(&project).0);
                if checks % 16 == 0 {
                    // A change of the database lets go of the drafts.
                    stores.gc(Retention::default(), GcOptions::default(), SystemClock.now(), &mut |_, _| ()).unwrap();
                    assert_eq!(contents(&project, &stores), before, "{direction:?} {checks}");
                }
            }
            assert!(most >= FILES as i64 / 2, "{direction:?}: merged texts have to be drafts, and {most} were");
        }
    }
}

for_each_store! {
    fn g29_the_audit_says_that_a_merge_was_stopped(store) {
        for direction in Direction::ALL {
            let project = Project::new(store);
            let (stores, stead) = changed_on_both_sides(&project);
            for checks in [0, 30] {
                let stopped = direction.run(&stead.watched(StopAfter::new(checks)));
                assert!(is_cancelled(&stopped.unwrap_err()));
            }
            direction.run(&stead).unwrap();
            drop((stead, stores));
            let access = Stores::of(&project.config).audit_access().unwrap().unwrap();
            let call = if direction == Direction::Merge { "merge" } else { "update" };
            let query = AuditQuery { call: Some(call.to_owned()), ..AuditQuery::default() };
            let entries = access.page(&query, None, 100).unwrap().entries;
            let records: Vec<String> = entries
                .iter()
                .map(|entry| {
                    let stopped = entry.facts.get("stopped").map(ToString::to_string);
                    format!("{} {}", entry.outcome, stopped.unwrap_or_default())
                })
                .collect();
            let count = |wanted: &str| records.iter().filter(|record| *record == wanted).count();
            assert_eq!((count("failed cancelled"), count("ok ")), (2, 1), "{records:?}");
        }
    }
}

for_each_store! {
    fn g29_progress_grows_to_a_total_that_is_known_once_the_files_are_counted(store) {
        for direction in Direction::ALL {
            let project = Project::new(store);
            let (_stores, stead) = changed_on_both_sides(&project);
            let monitor = Arc::new(Reported::default());
            direction.run(&stead.watched(Arc::clone(&monitor) as Arc<dyn CallMonitor>)).unwrap();
            let reported = monitor.0.lock().unwrap().clone();
            assert!(reported.len() > 3 * FILES, "{direction:?}: {reported:?}");
            assert!(reported.is_sorted_by_key(|(done, _)| *done), "{direction:?}: {reported:?}");
            assert!(reported[0].1.is_none());
            let (done, total) = *reported.last().unwrap();
            assert!(total.is_some_and(|total| done <= total && done * 10 >= total * 8), "{direction:?}: {done} of {total:?}");
        }
    }
}
