//! Eight processes of eight threads on one Store at once: nothing is lost, no process is stuck, no caller sees a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stead_core::store::Parents;
use stead_core::vfs::{ListPage, Overwrite, RemoveOptions, WriteOptions};
use stead_core::{Occurrences, Vfs};

use crate::child::{Task, lines_of, send_line};
use crate::test_stores::{Kind, assert_verified, is_long_run, vfs_for};

const PROCESSES: u64 = 8;
const THREADS: u64 = 8;

fn rounds() -> u64 {
    if is_long_run() { 400 } else { 30 }
}

/// The longest wait of each kind of call.
type Waits = BTreeMap<&'static str, Duration>;

/// Times one call.
fn timed<T>(waits: &mut Waits, kind: &'static str, call: impl FnOnce() -> stead_core::Result<T>) -> T {
    let start = Instant::now();
    let value = call().unwrap();
    let longest = waits.entry(kind).or_default();
    *longest = start.elapsed().max(*longest);
    value
}

fn line(process: u64, thread: u64, count: u64) -> String {
    format!("[p{process}t{thread}={count}]\n")
}

/// One thread's work. Everything that it writes names the thread.
fn work(vfs: &Vfs, process: u64, thread: u64) -> Waits {
    let mut waits = Waits::new();
    let caller = format!("p{process}t{thread}");
    for round in 0..rounds() {
        let (old, new) = (line(process, thread, round), line(process, thread, round + 1));
        timed(&mut waits, "edit", || vfs.edit("/counters", &old, &new, Occurrences::One));
        timed(&mut waits, "append", || vfs.append("/log", format!("{caller} {round} {}\n", "x".repeat(80))));
        let (from, to) = (format!("/from/{caller}-{round}"), format!("/to/{caller}-{round}"));
        timed(&mut waits, "create", || {
            vfs.write_with(&from, caller.clone(), &WriteOptions::new().create_only())
        });
        timed(&mut waits, "rename", || vfs.rename(&from, &to, Overwrite::Refuse));
        if round % 2 == 1 {
            timed(&mut waits, "remove", || vfs.remove_file(&to, RemoveOptions::default()));
        }
        // All threads change entries of this one directory now and then.
        if round % 10 == 0 {
            let directory = format!("/dirs/{caller}");
            timed(&mut waits, "mkdir", || vfs.mkdir(format!("{directory}/a/b"), Parents::Create));
            timed(&mut waits, "rename a directory", || {
                vfs.rename(&directory, format!("/dirs/{caller}-moved-{round}"), Overwrite::Refuse)
            });
        }
        timed(&mut waits, "list", || vfs.list("/to", &ListPage { cursor: None, limit: 50 }));
    }
    waits
}

pub(crate) fn child(task: &Task) {
    let store = task.kind.open(&task.directory);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let vfs = vfs_for(Arc::clone(&store), &format!("p{}t{thread}", task.number));
                scope.spawn(move || work(&vfs, task.number, thread))
            })
            .collect();
        for (kind, wait) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
            send_line(&format!("{} {kind}", wait.as_millis()));
        }
    });
}

fn share_among_processes(kind: Kind) {
    let directory = tempfile::tempdir().unwrap();
    let store = kind.open(directory.path());
    let vfs = vfs_for(Arc::clone(&store), "checker");
    let all_threads = || (0..PROCESSES).flat_map(|process| (0..THREADS).map(move |thread| (process, thread)));
    let counters: String = all_threads().map(|(process, thread)| line(process, thread, 0)).collect();
    vfs.write("/counters", counters).unwrap();
    for name in ["/from", "/to", "/dirs"] {
        vfs.mkdir(name, Parents::Create).unwrap();
    }
    let start = Instant::now();
    let children: Vec<_> = (0..PROCESSES)
        .map(|process| Task::new("many_processes", kind, directory.path(), process).start())
        .collect();
    let mut waits = BTreeMap::<String, u64>::new();
    for (mut child, output) in children {
        for line in lines_of(output) {
            let (millis, call) = line.split_once(' ').unwrap();
            let longest = waits.entry(call.to_owned()).or_default();
            *longest = millis.parse::<u64>().unwrap().max(*longest);
        }
        assert!(child.wait().unwrap().success(), "one of the processes failed");
    }
    let elapsed = start.elapsed();

    let counters = String::from_utf8(vfs.read("/counters").unwrap().bytes).unwrap();
    let log = String::from_utf8(vfs.read("/log").unwrap().bytes).unwrap();
    let logged: BTreeSet<&str> = log.lines().collect();
    assert_eq!(logged.len(), log.lines().count(), "a line was appended twice");
    assert_eq!(logged.len() as u64, PROCESSES * THREADS * rounds());
    let mut expected = BTreeSet::new();
    for (process, thread) in all_threads() {
        assert!(
            counters.contains(&line(process, thread, rounds())),
            "an edit of p{process}t{thread} is lost"
        );
        for round in 0..rounds() {
            let logged_line = format!("p{process}t{thread} {round} {}", "x".repeat(80));
            assert!(logged.contains(&*logged_line), "the line is torn or lost: {logged_line}");
            if round % 2 == 0 {
                expected.insert(format!("p{process}t{thread}-{round}"));
            }
        }
    }
    let names = |directory: &str| {
        let listed = vfs.list(directory, &ListPage::all()).unwrap().entries;
        listed.into_iter().map(|entry| entry.name.to_string()).collect::<BTreeSet<_>>()
    };
    assert_eq!(names("/to"), expected);
    assert_eq!(names("/from"), BTreeSet::new());
    assert_eq!(names("/dirs").len() as u64, PROCESSES * THREADS * rounds().div_ceil(10));
    assert_verified(&*store);
    let longest = waits.values().max().unwrap();
    println!("64 callers on a {} Store: {elapsed:.1?}, worst wait {longest} ms: {waits:?}", kind.name());
}

#[test]
fn eight_processes_share_a_directory() {
    share_among_processes(Kind::Physical);
}

#[test]
fn eight_processes_share_a_directory_that_retains_content() {
    share_among_processes(Kind::PhysicalRetaining);
}

#[test]
fn eight_processes_share_a_database() {
    share_among_processes(Kind::Virtual);
}
