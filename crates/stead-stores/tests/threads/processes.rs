//! Real processes: several that make one thread, one that is killed, and one that is stopped past its lease.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "processes have to be started and killed"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use stead_core::vfs::WriteOptions;
use stead_core::{Error, StoreError};
use stead_stores::{EndWhen, Ending, EnteredAs};

use crate::{Bench, assert_sound, begun, enter, key, record, virtual_vfs};

const TASK: &str = "STEAD_THREADS_TASK";

/// A process that works on a bench, with a lease of two seconds.
#[test]
#[ignore = "a child process: the tests start it"]
fn the_process() {
    let task = std::env::var(TASK).expect("one of the tests starts this process");
    let (task, file) = task.split_once(',').unwrap();
    let holder = crate::open(Path::new(file)).lease_holder(Duration::from_secs(2));
    let entered = enter(&holder, &key());
    let say = |text: &str| {
        println!("\n>{text}");
        std::io::stdout().flush().unwrap();
    };
    match task {
        "enter" => {
            say(if entered.how == EnteredAs::Created { "created" } else { "joined" });
            std::thread::sleep(Duration::from_secs(60));
        }
        "end" => {
            virtual_vfs(&entered.thread).write("/w/a", "1").unwrap();
            let _ending = begun(&holder, &key());
            say("begun");
            std::thread::sleep(Duration::from_secs(60));
        }
        "stop in a call" => {
            let vfs = virtual_vfs(&entered.thread);
            vfs.write("/w/a", "1").unwrap();
            let mut content = AnnouncedInput(|| say("reading"));
            let refused = vfs.write_from("/w/a", &mut content, &WriteOptions::new()).unwrap_err();
            let is_refused = matches!(refused.store_error(), Some(StoreError::LeaseExpired));
            say(&if is_refused { "refused".to_owned() } else { refused.to_string() });
            let ended = vfs.write("/w/a", "3");
            say(if matches!(ended, Err(Error::ThreadEnded)) { "ended" } else { "went on" });
        }
        other => panic!("{other}"),
    }
}

/// The standard input, announced before it is read. The process is stopped while it waits for it: inside a call, and outside
/// any transaction, where it would keep others from writing.
struct AnnouncedInput<F>(F);

impl<F: Fn()> Read for AnnouncedInput<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        (self.0)();
        std::io::stdin().read(buffer)
    }
}

struct Process {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(bench: &Bench, task: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "processes::the_process", "--nocapture"]);
        command
            .env(TASK, format!("{task},{}", bench.file().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Process { child, lines }
    }

    fn next(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the process has ended");
            if let Some(said) = line.trim_end().strip_prefix('>') {
                return said.to_owned();
            }
        }
    }

    fn is_stopped(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        status.lines().any(|line| line.starts_with("State:\tT"))
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn eight_processes_that_race_make_one_thread() {
    let bench = Bench::new();
    let mut processes: Vec<_> = (0..8).map(|_| Process::start(&bench, "enter")).collect();
    let said: Vec<_> = processes.iter_mut().map(Process::next).collect();
    assert_eq!(said.iter().filter(|said| *said == "created").count(), 1, "{said:?}");
    assert_eq!(bench.count("SELECT count(*) FROM thread_lease"), 8);
    // Killed, they leave leases that expire.
    drop(processes);
    let holder = bench.holder();
    wait_until(|| {
        holder.sweepable().unwrap();
        bench.count("SELECT count(*) FROM lease_holder") == 0
    });
    assert_eq!(bench.database().thread(&key()).unwrap().unwrap().leases, 0);
    assert_sound(&bench.database());
}

#[test]
fn an_ending_whose_process_is_killed_is_finished_by_the_next() {
    let bench = Bench::new();
    let mut process = Process::start(&bench, "end");
    assert_eq!(process.next(), "begun");
    drop(process);
    let holder = bench.holder();
    let mut ending = None;
    wait_until(|| {
        if holder.sweepable().unwrap() == [key()]
            && let Ending::Begun(begun) = holder.begin_ending(&key(), EndWhen::Idle).unwrap()
        {
            ending = Some(begun);
        }
        ending.is_some()
    });
    let removed = holder.finish_ending(ending.unwrap(), record(&key())).unwrap();
    assert_eq!((removed.volumes, removed.files), (1, 1));
    assert_eq!(bench.count("SELECT (SELECT count(*) FROM thread) + (SELECT count(*) FROM volume)"), 0);
    assert_sound(&bench.database());
}

#[test]
fn a_process_that_is_stopped_past_its_lease_writes_nothing_into_the_next_thread() {
    let bench = Bench::new();
    let mut process = Process::start(&bench, "stop in a call");
    assert_eq!(process.next(), "reading");
    process.signal(Signal::STOP);
    wait_until(|| process.is_stopped());
    let holder = bench.holder();
    let mut ending = None;
    wait_until(|| {
        if let Ending::Begun(begun) = holder.begin_ending(&key(), EndWhen::Now).unwrap() {
            ending = Some(begun);
        }
        ending.is_some()
    });
    assert!(process.is_stopped());
    holder.finish_ending(ending.unwrap(), record(&key())).unwrap();
    let next = enter(&holder, &key()).thread;
    virtual_vfs(&next).write("/w/own", "1").unwrap();
    process.signal(Signal::CONT);
    drop(process.child.stdin.take());
    assert_eq!([process.next(), process.next()], ["refused", "ended"]);
    assert!(!virtual_vfs(&next).exists("/w/a").unwrap());
    assert_sound(&bench.database());
}
