//! Eight processes of eight threads on one Store at once: nothing is lost, nobody is stuck, no caller sees a lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stead_core::store::Parents;
use stead_core::vfs::{ListPage, Overwrite, RemoveOptions, WriteOptions};
use stead_core::{Occurrences, Vfs};

use crate::child::{Task, tell, told};
use crate::places::{Kind, door, long, verified};

const PROCESSES: u64 = 8;
const THREADS: u64 = 8;

fn rounds() -> u64 {
    if long() { 400 } else { 30 }
}

/// Times one call.
fn timed<T>(worst: &mut Duration, call: impl FnOnce() -> stead_core::Result<T>) -> T {
    let start = Instant::now();
    let value = call().unwrap();
    *worst = start.elapsed().max(*worst);
    value
}

fn line(process: u64, thread: u64, count: u64) -> String {
    format!("[p{process}t{thread}={count}]\n")
}

/// One thread's work: everything it does can be told from everything the others do.
fn work(vfs: &Vfs, process: u64, thread: u64) -> Duration {
    let mut worst = Duration::ZERO;
    let me = format!("p{process}t{thread}");
    for round in 0..rounds() {
        let (old, new) = (line(process, thread, round), line(process, thread, round + 1));
        timed(&mut worst, || vfs.edit("/counters", &old, &new, Occurrences::One));
        timed(&mut worst, || vfs.append("/log", format!("{me} {round} {}\n", "x".repeat(80))));
        let (from, to) = (format!("/from/{me}-{round}"), format!("/to/{me}-{round}"));
        timed(&mut worst, || vfs.write_with(&from, me.clone(), &WriteOptions::new().create_only()));
        timed(&mut worst, || vfs.rename(&from, &to, Overwrite::Refuse));
        if round % 2 == 1 {
            timed(&mut worst, || vfs.remove_file(&to, RemoveOptions::default()));
        }
        // All of them want this one directory's name now and then.
        if round % 10 == 0 {
            let mine = format!("/dirs/{me}");
            timed(&mut worst, || vfs.mkdir(format!("{mine}/a/b"), Parents::Create));
            timed(&mut worst, || vfs.rename(&mine, format!("/dirs/{me}-moved-{round}"), Overwrite::Refuse));
        }
        timed(&mut worst, || vfs.list("/to", &ListPage { cursor: None, limit: 50 }));
    }
    worst
}

pub(crate) fn child(task: &Task) {
    let store = task.kind.open(&task.directory);
    let worst = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let vfs = door(Arc::clone(&store), &format!("p{}t{thread}", task.number));
                scope.spawn(move || work(&vfs, task.number, thread))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    });
    tell(&worst.as_micros().to_string());
}

fn shared_by_many(kind: Kind) {
    let directory = tempfile::tempdir().unwrap();
    let store = kind.open(directory.path());
    let vfs = door(Arc::clone(&store), "checker");
    let all = || (0..PROCESSES).flat_map(|process| (0..THREADS).map(move |thread| (process, thread)));
    let counters: String = all().map(|(process, thread)| line(process, thread, 0)).collect();
    vfs.write("/counters", counters).unwrap();
    for name in ["/from", "/to", "/dirs"] {
        vfs.mkdir(name, Parents::Create).unwrap();
    }
    let start = Instant::now();
    let children: Vec<_> =
        (0..PROCESSES).map(|process| Task::new("crowd", kind, directory.path(), process).start()).collect();
    let mut worst = 0_u64;
    for (mut child, output) in children {
        worst = told(output).map(|line| line.parse().unwrap()).fold(worst, u64::max);
        assert!(child.wait().unwrap().success(), "a process of the crowd failed");
    }
    let elapsed = start.elapsed();

    let counters = String::from_utf8(vfs.read("/counters").unwrap().bytes).unwrap();
    let log = String::from_utf8(vfs.read("/log").unwrap().bytes).unwrap();
    let logged: BTreeSet<&str> = log.lines().collect();
    assert_eq!(logged.len(), log.lines().count(), "a line was appended twice");
    assert_eq!(logged.len() as u64, PROCESSES * THREADS * rounds());
    let mut kept = BTreeSet::new();
    for (process, thread) in all() {
        assert!(
            counters.contains(&line(process, thread, rounds())),
            "an edit of p{process}t{thread} is lost"
        );
        for round in 0..rounds() {
            let logged_line = format!("p{process}t{thread} {round} {}", "x".repeat(80));
            assert!(logged.contains(&*logged_line), "torn or lost: {logged_line}");
            if round % 2 == 0 {
                kept.insert(format!("p{process}t{thread}-{round}"));
            }
        }
    }
    let names = |at: &str| {
        let listed = vfs.list(at, &ListPage::all()).unwrap().entries;
        listed.into_iter().map(|entry| entry.name.to_string()).collect::<BTreeSet<_>>()
    };
    assert_eq!(names("/to"), kept);
    assert_eq!(names("/from"), BTreeSet::new());
    assert_eq!(names("/dirs").len() as u64, PROCESSES * THREADS * rounds().div_ceil(10));
    verified(&*store);
    println!("64 callers on a {} Store: {elapsed:.1?}, worst wait {} ms", kind.name(), worst / 1_000);
}

#[test]
fn eight_processes_share_a_directory() {
    shared_by_many(Kind::Physical);
}

#[test]
fn eight_processes_share_a_database() {
    shared_by_many(Kind::Virtual);
}
