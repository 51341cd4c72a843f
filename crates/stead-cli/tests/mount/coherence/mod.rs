//! Compares what a program reads with what had been acknowledged when it began to read.
//!
//! Two actors change one file at the same time, next to programs that load the disk. The actors are programs on one
//! mount or on a second mount, an agent's tools, and programs of the host in a Physical Store's directory. No read may
//! show less than what had been acknowledged before it began, bytes that no actor wrote, or a part of one write in the
//! middle of another. In the end nothing is lost, torn or there twice.
//!
//! ```text
//! actor      who acts: files below a directory, or tools
//! lines      appends
//! slots      overwrites, by system calls and through memory mappings
//! versions   a whole file replaced: renamed over, or truncated and written again
//! ```

mod actor;
mod lines;
mod slots;
mod versions;

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::actor::Actor;
use crate::common::{OnMount, TestDir, long_or};

/// How long a pair acts in CI, if it was wrong once.
const SHORT: Duration = Duration::from_secs(6);
/// How long each pair acts in a long run. All of them take an hour, two at a time.
const LONG: Duration = Duration::from_secs(200);

/// The second actor, next to a program on a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecondActor {
    /// Another program on the same mount.
    Program,
    /// A program on another mount of the same stead.
    OtherMount,
    /// An agent's tools.
    Tool,
    /// A program of the host, in the directory of a Physical Store.
    Host,
}

/// What both actors do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Append,
    Overwrite,
    Map,
    Truncate,
    Replace,
}

const DATABASE: (&str, &[SecondActor]) =
    ("v", &[SecondActor::Program, SecondActor::OtherMount, SecondActor::Tool]);
const DIRECTORY: (&str, &[SecondActor]) =
    ("p", &[SecondActor::Program, SecondActor::OtherMount, SecondActor::Tool, SecondActor::Host]);

/// The pairs that were wrong once, and are tested in every run.
const IN_CI: [(Operation, &str, SecondActor); 14] = [
    (Operation::Append, "v", SecondActor::Program),
    (Operation::Append, "v", SecondActor::OtherMount),
    (Operation::Append, "p", SecondActor::Program),
    (Operation::Append, "p", SecondActor::OtherMount),
    (Operation::Append, "p", SecondActor::Host),
    (Operation::Overwrite, "v", SecondActor::OtherMount),
    (Operation::Overwrite, "p", SecondActor::Program),
    (Operation::Map, "p", SecondActor::Host),
    (Operation::Truncate, "v", SecondActor::Program),
    (Operation::Truncate, "p", SecondActor::Program),
    (Operation::Replace, "v", SecondActor::Tool),
    (Operation::Replace, "p", SecondActor::OtherMount),
    (Operation::Replace, "p", SecondActor::Tool),
    (Operation::Replace, "p", SecondActor::Host),
];

#[test]
fn appends_in_a_database() {
    all_pairs(Operation::Append, DATABASE);
}

#[test]
fn appends_in_a_directory() {
    all_pairs(Operation::Append, DIRECTORY);
}

#[test]
fn overwrites_in_a_database() {
    all_pairs(Operation::Overwrite, DATABASE);
}

#[test]
fn overwrites_in_a_directory() {
    all_pairs(Operation::Overwrite, DIRECTORY);
}

#[test]
fn mapped_writes_in_a_database() {
    all_pairs(Operation::Map, DATABASE);
}

#[test]
fn mapped_writes_in_a_directory() {
    all_pairs(Operation::Map, DIRECTORY);
}

#[test]
fn truncations_in_a_database() {
    all_pairs(Operation::Truncate, DATABASE);
}

#[test]
fn truncations_in_a_directory() {
    all_pairs(Operation::Truncate, DIRECTORY);
}

#[test]
fn replacements_in_a_database() {
    all_pairs(Operation::Replace, DATABASE);
}

#[test]
fn replacements_in_a_directory() {
    all_pairs(Operation::Replace, DIRECTORY);
}

/// Tests every pair that has its time, even after a failure, so that one run reports all failures.
fn all_pairs(operation: Operation, (workspace, pairs): (&'static str, &[SecondActor])) {
    let mut failed = Vec::new();
    for &second_actor in pairs {
        let duration = duration(operation, workspace, second_actor);
        if duration.is_zero() {
            continue;
        }
        if std::panic::catch_unwind(|| run_pair(operation, workspace, second_actor, duration)).is_err() {
            failed.push(second_actor);
        }
    }
    assert!(failed.is_empty(), "{operation:?}, /{workspace}: wrong results together with {failed:?}");
}

/// How long a pair acts. `STEAD_TEST_PAIR_SECONDS=20` gives every pair this many seconds; with `STEAD_TEST_BESIDE=Host`
/// only the pairs with that second actor act.
fn duration(operation: Operation, workspace: &str, second_actor: SecondActor) -> Duration {
    if let Ok(seconds) = std::env::var("STEAD_TEST_PAIR_SECONDS") {
        let is_selected =
            std::env::var("STEAD_TEST_BESIDE").map_or(true, |name| name == format!("{second_actor:?}"));
        return Duration::from_secs(if is_selected {
            seconds.parse().expect("a number of seconds")
        } else {
            0
        });
    }
    let short = if IN_CI.contains(&(operation, workspace, second_actor)) { SHORT } else { Duration::ZERO };
    long_or(LONG, short)
}

/// Makes one pair act on one file after the other for this long.
fn run_pair(operation: Operation, workspace: &'static str, second_actor: SecondActor, duration: Duration) {
    let dir = TestDir::new();
    let pair = ActorPair::new(&dir, workspace, second_actor);
    let (deadline, mut tally) = (Instant::now() + duration, Tally::default());
    pair.under_load(|| {
        for round in 0.. {
            if Instant::now() >= deadline {
                break;
            }
            let name = format!("{operation:?}{round}");
            match operation {
                Operation::Append => lines::round(&pair, &name, &mut tally),
                Operation::Overwrite => slots::round(&pair, &name, slots::Way::Written, &mut tally),
                Operation::Map => slots::round(&pair, &name, slots::Way::Mapped, &mut tally),
                Operation::Truncate => versions::round(&pair, &name, versions::Way::Truncated, &mut tally),
                Operation::Replace => versions::round(&pair, &name, versions::Way::Renamed, &mut tally),
            }
            if let Some(error) = &tally.first_error {
                panic!("{operation:?}, /{workspace}, together with {second_actor:?}, round {round}: {error}");
            }
        }
    });
    let Tally { writes, reads, mixed, .. } = tally;
    println!(
        "{operation:?}, /{workspace}, together with {second_actor:?}: {writes} writes, {reads} reads, {mixed} mixed"
    );
    assert!(writes > 0 && reads > 0, "nothing was compared");
}

/// The counts of one test.
#[derive(Debug, Default)]
struct Tally {
    writes: u64,
    reads: u64,
    /// Reads that took one piece from before another actor's change and one from after it.
    mixed: u64,
    first_error: Option<String>,
}

/// A mounted stead with both actors.
struct ActorPair {
    /// Whether both actors are programs on one mount, which see each other's writes at once.
    is_one_mount: bool,
    /// Whether a process other than the first mount's truncates files too.
    is_truncated_elsewhere: bool,
    first: Actor,
    second: Actor,
    load: std::path::PathBuf,
    _mounts: Vec<OnMount>,
}

impl ActorPair {
    fn new(dir: &TestDir, workspace: &str, second_actor: SecondActor) -> Self {
        let mut mounts = vec![dir.mount()];
        let first = Actor::Program(mounts[0].path(workspace));
        let second = match second_actor {
            SecondActor::Program => Actor::Program(mounts[0].path(workspace)),
            SecondActor::OtherMount => {
                mounts.push(dir.mount_at("mnt2", &[]));
                Actor::Program(mounts[1].path(workspace))
            }
            SecondActor::Tool => Actor::tool(&dir.path("stead.toml"), workspace),
            SecondActor::Host => Actor::Program(dir.path("project")),
        };
        let is_one_mount = second_actor == SecondActor::Program;
        let is_truncated_elsewhere = !is_one_mount;
        ActorPair {
            is_one_mount,
            is_truncated_elsewhere,
            first,
            second,
            load: dir.path("load"),
            _mounts: mounts,
        }
    }

    /// Runs `action` while the disk has other work too.
    fn under_load(&self, action: impl FnOnce()) {
        let done = Done::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let block = vec![0x5a; 4 << 20];
                while !done.is_set() {
                    let mut file = File::create(&self.load).unwrap();
                    file.write_all(&block).unwrap();
                    file.sync_all().unwrap();
                }
            });
            let _end = done.set_on_drop();
            action();
        });
    }
}

/// A flag that tells other threads to end.
#[derive(Debug, Default)]
struct Done(AtomicBool);

impl Done {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Sets the flag when the value is dropped, even by a panic.
    fn set_on_drop(&self) -> impl Drop {
        struct SetOnDrop<'a>(&'a Done);
        impl Drop for SetOnDrop<'_> {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        SetOnDrop(self)
    }
}

/// How far each writer has come.
#[derive(Debug)]
struct Progress {
    /// The last write that was begun.
    begun: Vec<AtomicU64>,
    /// The last write that was acknowledged.
    acknowledged: Vec<AtomicU64>,
}

impl Progress {
    fn new(writers: usize) -> Self {
        let none = || (0..writers).map(|_| AtomicU64::new(0)).collect();
        Progress { begun: none(), acknowledged: none() }
    }

    fn begin(&self, writer: usize, number: u64) {
        self.begun[writer].store(number, Ordering::SeqCst);
    }

    fn acknowledge(&self, writer: usize, number: u64) {
        self.acknowledged[writer].store(number, Ordering::SeqCst);
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.acknowledged.iter().map(|number| number.load(Ordering::SeqCst)).collect()
    }

    fn begun(&self) -> Vec<u64> {
        self.begun.iter().map(|number| number.load(Ordering::SeqCst)).collect()
    }
}
