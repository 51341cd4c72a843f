//! A process killed during a fork, a merge, an update or a discard: each happens completely or not at all, and a merge that was
//! committed is taken in by the fork later.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

pub(super) const TASK: &str = "STEAD_MERGE_TASK";
const FILES: usize = 40;

/// What the process that is killed was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupted {
    Fork,
    Merge,
    Update,
    Discard,
}

impl Interrupted {
    pub(super) const ALL: [Interrupted; 4] =
        [Interrupted::Fork, Interrupted::Merge, Interrupted::Update, Interrupted::Discard];

    /// Does it, to a project as [`prepare`] leaves it.
    pub(super) fn perform(self, stead: &Stead) {
        match self {
            Interrupted::Fork => drop(stead.fork("/code", "new").unwrap()),
            Interrupted::Merge => drop(merge_clean(stead, "draft")),
            Interrupted::Update => assert!(update(stead, "draft").done),
            Interrupted::Discard => drop(stead.discard("draft").unwrap()),
        }
    }
}

pub(super) fn open(store: TargetStore, directory: &Path) -> Stead {
    let text = store.configure(CONFIG, directory);
    let config = Config::parse(&text, &directory.join("stead.toml")).unwrap();
    Stead::open(&config, "coder").unwrap()
}

/// A project with `count` files and a fork, which have both changed.
pub(super) fn prepare(store: TargetStore, directory: &Path, count: usize) -> Stead {
    let stead = open(store, directory);
    for file in 0..count {
        write(&stead, &format!("/code/{}/f{file}", file % 4), "1\n2\n3\n4\n5\n");
    }
    let stead = stead.fork("/code", "draft").unwrap();
    let mut batch = stead.vfs().batch();
    for file in 0..count / 2 {
        let path = format!("/forks/draft/{}/f{file}", file % 4);
        batch.write(path, "fork\n2\n3\n4\n5\n", &stead_core::vfs::WriteOptions::new()).unwrap();
    }
    batch.apply().unwrap();
    stead.vfs().rename("/forks/draft/3", "/forks/draft/moved", stead_core::vfs::Overwrite::Refuse).unwrap();
    let mut batch = stead.vfs().batch();
    for file in count / 4..count {
        let path = format!("/code/{}/f{file}", file % 4);
        batch.write(path, "1\n2\n3\n4\ntarget\n", &stead_core::vfs::WriteOptions::new()).unwrap();
    }
    batch.apply().unwrap();
    stead
}

/// What the child process does. As a test of its own it has nothing to do.
#[test]
fn the_child_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let mut parts = task.splitn(3, ',');
    let mut number = || parts.next().unwrap().parse::<usize>().unwrap();
    let (interrupted, store) = (Interrupted::ALL[number()], TargetStore::ALL[number()]);
    let stead = open(store, Path::new(parts.next().unwrap()));
    say("begins");
    interrupted.perform(&stead);
    say("done");
}

/// Runs a test of this program in a process of its own, with a task, and kills the process after a random time. Returns whether it
/// said that it was done. `longest` adapts to the machine, so that some rounds end before the kill and some don't.
pub(super) fn killed_child(
    test: &str,
    task: String,
    longest: &mut Duration,
    random: &mut fastrand::Rng,
) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(TASK, task)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines =
        output.lines().map_while(Result::ok).filter_map(|line| line.strip_prefix('>').map(str::to_owned));
    assert_eq!(lines.next().as_deref(), Some("begins"));
    let (start, delay) = (Instant::now(), longest.mul_f64(random.f64() * 1.1));
    let killer = std::thread::spawn(move || {
        std::thread::sleep(delay);
        let _ = child.kill();
        child.wait().unwrap();
    });
    let done = lines.next().as_deref() == Some("done");
    *longest = match done {
        true => start.elapsed().max(Duration::from_millis(2)),
        false => longest.mul_f64(1.2).min(Duration::from_secs(5)),
    };
    killer.join().unwrap();
    done
}

/// What the process says to the one that kills it.
pub(super) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n>{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// How often each act is interrupted.
pub(super) fn rounds() -> usize {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { 120 } else { 25 }
}

/// Checks that each file of a project that [`prepare`] has made has the lines of both sides, at its name in the fork.
pub(super) fn assert_merged(found: &BTreeMap<String, (u32, Vec<u8>)>, count: usize) {
    for file in 0..count {
        let directory = if file % 4 == 3 { "moved".to_owned() } else { (file % 4).to_string() };
        let first = if file < count / 2 { "fork" } else { "1" };
        let last = if file < count / 4 { "5" } else { "target" };
        let expected = format!("{first}\n2\n3\n4\n{last}\n");
        let content = String::from_utf8_lossy(&found[&format!("/{directory}/f{file}")].1);
        assert_eq!(content, expected, "file {file}");
    }
}

fn interrupt_repeatedly(store: TargetStore, interrupted: Interrupted) {
    let mut random = fastrand::Rng::with_seed(interrupted as u64);
    let mut longest = Duration::from_millis(250);
    let (mut completed, mut absent) = (0, 0);
    for round in 0..rounds() {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path();
        let stead = prepare(store, directory, FILES);
        let before = (files(&stead, "/code"), files(&stead, "/forks/draft"));
        drop(stead);
        let task = format!("{},{},{}", interrupted as usize, store as usize, directory.display());
        let done = killed_child("killed::the_child_process", task, &mut longest, &mut random);
        let stead = open(store, directory);
        let has_fork = |name: &str| stead.find_fork(name).is_ok();
        let is_made = match interrupted {
            Interrupted::Fork => {
                if has_fork("new") {
                    assert_eq!(files(&stead, "/forks/new"), before.0, "round {round}");
                }
                has_fork("new")
            }
            Interrupted::Discard => {
                assert!(!has_fork("draft") || files(&stead, "/forks/draft") == before.1, "round {round}");
                !has_fork("draft")
            }
            Interrupted::Merge => files(&stead, "/code") != before.0,
            Interrupted::Update => files(&stead, "/forks/draft") != before.1,
        };
        assert!(is_made || !done, "{interrupted:?} of round {round} was acknowledged and isn't there");
        completed += usize::from(is_made);
        absent += usize::from(!is_made);
        if interrupted == Interrupted::Discard {
            assert_eq!(files(&stead, "/code"), before.0, "round {round}");
            continue;
        }
        // A merge now leads to the same result, wherever the kill came, and then there is nothing left to do.
        if interrupted == Interrupted::Merge && is_made {
            // The whole merge is there: nothing is left to be merged into the target.
            let target = files(&stead, "/code");
            assert!(merge_clean(&stead, "draft").operation.is_none(), "round {round}");
            assert_eq!(files(&stead, "/code"), target, "round {round}");
        } else {
            merge_clean(&stead, "draft");
        }
        let merged = files(&stead, "/code");
        assert_merged(&merged, FILES);
        assert_eq!(files(&stead, "/forks/draft"), merged, "round {round}");
        assert!(merge_clean(&stead, "draft").operation.is_none(), "round {round}");
    }
    assert!(completed > 0 && absent > 0, "{completed} completed, {absent} absent: the times don't fit");
}

for_each_store! {
    fn g23_g28_a_merge_that_is_killed_happens_completely_or_not_at_all(store) {
        interrupt_repeatedly(store, Interrupted::Merge);
    }
}

for_each_store! {
    fn g25_an_update_that_is_killed_happens_completely_or_not_at_all(store) {
        interrupt_repeatedly(store, Interrupted::Update);
    }
}

for_each_store! {
    fn g2_a_fork_that_is_killed_happens_completely_or_not_at_all(store) {
        interrupt_repeatedly(store, Interrupted::Fork);
    }
}

for_each_store! {
    fn g5_a_discard_that_is_killed_happens_completely_or_not_at_all(store) {
        interrupt_repeatedly(store, Interrupted::Discard);
    }
}
