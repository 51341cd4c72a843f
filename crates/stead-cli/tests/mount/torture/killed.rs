//! A mount that is killed again and again while programs write: what they synced is there on the next mount.
//!
//! Each thread of the child follows a script that depends on its seed alone, in a directory of its own, and reports
//! each step that was synced. The parent kills the mount, follows the scripts up to the reported steps, and compares:
//! each directory is as its script left it, or one step further.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::child::{Task, received_lines, send_line};
use crate::common::{TestDir, long_or};

const THREADS: u64 = 3;

type Files = BTreeMap<String, Vec<u8>>;

#[test]
fn synced_data_survives_kills_of_the_mount_in_a_database() {
    check_kills("v");
}

#[test]
fn synced_data_survives_kills_of_the_mount_in_a_directory() {
    check_kills("p");
}

fn check_kills(workspace: &str) {
    let dir = TestDir::new();
    let rounds = long_or(500, 25);
    let (mut random, mut steps) = (fastrand::Rng::with_seed(7), 0);
    let mut before: Option<([u64; THREADS as usize], PathBuf)> = None;
    for round in 0..rounds {
        let mount = dir.mount();
        let top = mount.mount_point.join(workspace);
        if let Some((synced, directory)) = before.take() {
            check(&directory, round - 1, &synced);
        }
        let directory = top.join(round.to_string());
        for thread in 0..THREADS {
            fs::create_dir_all(directory.join(thread.to_string())).unwrap();
        }
        File::open(&directory).unwrap().sync_all().unwrap();
        let mut child = Task::new("killed", round, &directory).start();
        let output = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut synced = [0; THREADS as usize];
            for line in received_lines(output) {
                let (thread, step) = line.split_once(' ').unwrap();
                synced[thread.parse::<usize>().unwrap()] = step.parse().unwrap();
            }
            synced
        });
        std::thread::sleep(Duration::from_millis(random.u64(60..500)));
        mount.kill();
        // The child can't go on without the mount, so its failure says nothing.
        child.wait().unwrap();
        let synced = reader.join().unwrap();
        steps += synced.iter().sum::<u64>();
        before = Some((synced, directory));
    }
    let mount = dir.mount();
    let (synced, directory) = before.unwrap();
    check(&directory, rounds - 1, &synced);
    mount.end_cleanly();
    dir.stead(["verify"]);
    println!("{steps} steps were synced in {rounds} rounds");
    assert!(steps > rounds, "the mounts were killed before anything was written");
}

/// The child process: follows a script in each thread until the mount is gone.
pub(crate) fn child(task: &Task) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let directory = task.directory.join(thread.to_string());
                let mut script = Script::new(task.number, thread);
                for step in 1.. {
                    if script.next().perform(&directory).is_err() {
                        return;
                    }
                    send_line(&format!("{thread} {step}"));
                }
            });
        }
    });
}

/// How a file gets its next content.
#[derive(Debug, Clone, Copy)]
enum Manner {
    /// Truncated and written again.
    InPlace,
    /// Written to a second file, which is renamed over it.
    Renamed,
    /// Appended.
    Appended,
}

#[derive(Debug)]
struct Step {
    name: String,
    manner: Manner,
    added: Vec<u8>,
}

impl Step {
    /// Does the step, and returns when it is synced.
    fn perform(&self, directory: &Path) -> Result<()> {
        let path = directory.join(&self.name);
        let mut options = OpenOptions::new();
        let mut file = match self.manner {
            Manner::InPlace => options.write(true).create(true).truncate(true).open(&path)?,
            Manner::Renamed => options.write(true).create(true).truncate(true).open(temporary_path(&path))?,
            Manner::Appended => options.append(true).create(true).open(&path)?,
        };
        // In pieces, so that a kill can leave a part.
        for piece in self.added.chunks(64 << 10) {
            file.write_all(piece)?;
        }
        file.sync_all()?;
        if let Manner::Renamed = self.manner {
            fs::rename(temporary_path(&path), &path)?;
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }
}

fn temporary_path(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// A sequence of steps, and the files that they leave.
struct Script {
    random: fastrand::Rng,
    files: Files,
}

impl Script {
    fn new(round: u64, thread: u64) -> Self {
        Script { random: fastrand::Rng::with_seed(round * 1_000 + thread), files: Files::new() }
    }

    /// The next step. Also applies it to `files`.
    fn next(&mut self) -> Step {
        let manner = match self.random.u8(..3) {
            0 => Manner::InPlace,
            1 => Manner::Renamed,
            _ => Manner::Appended,
        };
        let size = match self.random.u8(..8) {
            0 => self.random.usize(200_000..700_000),
            _ => self.random.usize(1..6_000),
        };
        let piece = self.random.u64(..).to_le_bytes();
        let added: Vec<u8> = piece.into_iter().cycle().take(size).collect();
        let name = format!("f{}", self.random.u8(..5));
        let file = self.files.entry(name.clone()).or_default();
        if !matches!(manner, Manner::Appended) {
            file.clear();
        }
        file.extend(&added);
        Step { name, manner, added }
    }
}

/// Compares the files with those that the scripts of a round have left.
fn check(directory: &Path, round: u64, synced: &[u64]) {
    for (thread, &steps) in (0..).zip(synced) {
        let mut script = Script::new(round, thread);
        for _ in 0..steps {
            script.next();
        }
        let before = script.files.clone();
        let step = script.next();
        let mut found = files(&directory.join(thread.to_string()));
        // A second file that wasn't renamed yet.
        let temporary = found.remove(&format!("{}.new", step.name));
        if let (Some(content), Manner::Renamed) = (&temporary, step.manner) {
            assert!(content.is_empty() || *content == step.added, "a torn file next to {}", step.name);
        }
        let context = format!("round {round}, thread {thread}, after {steps} steps and before {step:?}");
        let context = context.get(..200).unwrap_or(&context);
        for name in before.keys().chain(found.keys()) {
            let content = found.get(name);
            let is_new_and_empty =
                content.is_some_and(Vec::is_empty) && !before.contains_key(name) && *name == step.name;
            let fits = content == before.get(name) || content == script.files.get(name) || is_new_and_empty;
            let size = |files: &Files| files.get(name).map(Vec::len);
            assert!(
                fits,
                "{name} has {:?} bytes, not {:?} or {:?}: {context}",
                size(&found),
                size(&before),
                size(&script.files)
            );
        }
    }
}

fn files(directory: &Path) -> Files {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}
