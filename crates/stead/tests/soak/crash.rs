//! SIGKILL at random points under load: what was acknowledged is there afterwards, and nothing is torn.
//!
//! Each thread of the child follows a script that depends on its seed alone, in a directory of its own, and reports
//! each step that was acknowledged. The parent kills the child, follows the scripts up to the reported steps, and
//! compares: each directory must be as its script left it, or one step further.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stead_core::store::{NodeKind as FileKind, NodePath, NodeState, Parents, RevisionQuery};
use stead_core::vfs::{ListPage, OpenOptions, Overwrite, RemoveOptions, WriteOptions};
use stead_core::{Occurrences, Store, Vfs};

use crate::child::{Task, lines_of, send_line};
use crate::test_stores::{Kind, assert_verified, is_long_run, vfs_for};

const THREADS: u64 = 4;

type Files = BTreeMap<String, Vec<u8>>;

/// One step of a script.
enum Act {
    Write(String, Vec<u8>),
    Stream(String, Vec<u8>),
    Append(String, Vec<u8>),
    Edit(String, String, String),
    Patch(String, u64, Vec<u8>),
    Rename(String, String),
    Copy(String, String),
    Remove(String),
    Batch(Vec<(String, Vec<u8>)>),
}

/// A sequence of steps, and the files that they leave.
struct Script {
    random: fastrand::Rng,
    files: Files,
    steps: u64,
}

impl Script {
    fn new(round: u64, thread: u64) -> Self {
        Script { random: fastrand::Rng::with_seed(round * 1_000 + thread), files: Files::new(), steps: 0 }
    }

    fn name(&mut self) -> String {
        format!("f{}", self.random.u8(..6))
    }

    fn content(&mut self) -> Vec<u8> {
        let size = match self.random.u8(..12) {
            0 => self.random.usize(250_000..900_000),
            1 => 0,
            _ => self.random.usize(1..6_000),
        };
        let mut content = format!("step {} ", self.steps).into_bytes();
        // Text, so that it can be edited.
        let filler = format!("{:016x}", self.random.u64(..));
        content.extend(filler.as_bytes().iter().cycle().take(size.saturating_sub(content.len())));
        content.truncate(size);
        content
    }

    fn next(&mut self) -> Act {
        self.steps += 1;
        let name = self.name();
        let existing = self.files.get(&name).cloned();
        match (self.random.u8(..10), existing) {
            (0, Some(mut content)) => {
                let more = self.content();
                content.extend_from_slice(&more);
                self.files.insert(name.clone(), content);
                Act::Append(name, more)
            }
            (1, Some(content)) if content.starts_with(b"step ") && content.len() > 30 => {
                let old = format!(
                    "step {} ",
                    String::from_utf8_lossy(&content[5..]).split(' ').next().unwrap_or_default()
                );
                if content.windows(old.len()).filter(|window| *window == old.as_bytes()).count() != 1 {
                    return self.next();
                }
                let new = format!("step {} ", self.steps);
                let edited = [new.as_bytes(), &content[old.len()..]].concat();
                if old == new {
                    return self.next();
                }
                self.files.insert(name.clone(), edited);
                Act::Edit(name, old, new)
            }
            (2, Some(mut content)) if !content.is_empty() => {
                let offset = self.random.usize(..content.len());
                let patch = self.content();
                let end = (offset + patch.len()).max(content.len());
                content.resize(end, 0);
                content[offset..offset + patch.len()].copy_from_slice(&patch);
                self.files.insert(name.clone(), content);
                Act::Patch(name, offset as u64, patch)
            }
            (3, Some(content)) => {
                let to = self.name();
                if to == name {
                    return self.next();
                }
                self.files.remove(&name);
                self.files.insert(to.clone(), content);
                Act::Rename(name, to)
            }
            (4, Some(content)) => {
                let to = self.name();
                if to == name {
                    return self.next();
                }
                self.files.insert(to.clone(), content);
                Act::Copy(name, to)
            }
            (5, Some(_)) => {
                self.files.remove(&name);
                Act::Remove(name)
            }
            (6, _) => {
                let files: Vec<_> = (0..3).map(|_| (self.name(), self.content())).collect();
                self.files.extend(files.iter().cloned());
                Act::Batch(files)
            }
            (7, _) => {
                let content = self.content();
                self.files.insert(name.clone(), content.clone());
                Act::Stream(name, content)
            }
            _ => {
                let content = self.content();
                self.files.insert(name.clone(), content.clone());
                Act::Write(name, content)
            }
        }
    }
}

fn perform(vfs: &Vfs, directory: &str, act: Act) -> stead_core::Result<()> {
    let path = |name: &str| format!("{directory}/{name}");
    match act {
        Act::Write(name, content) => vfs.write(path(&name), content).map(drop),
        Act::Stream(name, content) => {
            vfs.write_from(path(&name), &mut &content[..], &WriteOptions::new()).map(drop)
        }
        Act::Append(name, content) => vfs.append(path(&name), content).map(drop),
        Act::Edit(name, old, new) => vfs.edit(path(&name), &old, &new, Occurrences::One).map(drop),
        Act::Patch(name, offset, content) => {
            let file = vfs.open(path(&name), OpenOptions::write())?;
            file.write_at(offset, &content)?;
            file.close()
        }
        Act::Rename(from, to) => vfs.rename(path(&from), path(&to), Overwrite::Replace).map(drop),
        Act::Copy(from, to) => vfs.copy(path(&from), path(&to), Overwrite::Replace).map(drop),
        Act::Remove(name) => vfs.remove_file(path(&name), RemoveOptions::default()).map(drop),
        Act::Batch(files) => {
            let mut batch = vfs.batch();
            for (name, content) in files {
                batch.write(path(&name), content, &WriteOptions::new())?;
            }
            batch.apply().map(drop)
        }
    }
}

fn thread_directory(round: u64, thread: u64) -> String {
    format!("/r{round}/t{thread}")
}

/// Follows the scripts until it is killed.
pub(crate) fn child(task: &Task) {
    let store = task.kind.open(&task.directory);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let vfs = vfs_for(Arc::clone(&store), "worker");
            let directory = thread_directory(task.number, thread);
            scope.spawn(move || {
                let mut script = Script::new(task.number, thread);
                for step in 1.. {
                    match perform(&vfs, &directory, script.next()) {
                        Ok(()) => send_line(&format!("{thread} {step}")),
                        Err(error) => {
                            send_line(&format!("failed at step {step} of thread {thread}: {error}"))
                        }
                    }
                }
            });
        }
    });
}

/// The files in a directory.
fn files_in(vfs: &Vfs, directory: &str) -> Files {
    let Ok(listed) = vfs.list(directory, &ListPage::all()) else { return Files::new() };
    let names = listed.entries.into_iter().map(|entry| entry.name.to_string());
    names.map(|name| (name.clone(), vfs.read(format!("{directory}/{name}")).unwrap().bytes)).collect()
}

fn difference(found: &Files, expected: &Files) -> Option<String> {
    let names = found.keys().chain(expected.keys());
    let differences = names.filter(|name| found.get(*name) != expected.get(*name)).map(|name| {
        let size = |files: &Files| files.get(name).map(Vec::len);
        format!("{name}: {:?} bytes, wanted {:?}", size(found), size(expected))
    });
    let differences: Vec<_> = differences.collect();
    (!differences.is_empty()).then(|| differences.join("; "))
}

fn check(store: &Arc<dyn Store>, round: u64, acknowledged: &[u64]) {
    let vfs = vfs_for(Arc::clone(store), "checker");
    for (thread, &steps) in (0..).zip(acknowledged) {
        let files = files_in(&vfs, &thread_directory(round, thread));
        let mut script = Script::new(round, thread);
        for _ in 0..steps {
            script.next();
        }
        if let Some(difference_now) = difference(&files, &script.files) {
            script.next();
            if let Some(difference_after_next) = difference(&files, &script.files) {
                panic!(
                    "round {round}, thread {thread}, after {steps} acknowledged steps: {difference_now}; with the step after: {difference_after_next}"
                );
            }
        }
        if store.history().is_some_and(|history| history.retains_content()) && !files.is_empty() {
            assert_undo_gives_earlier_states(&**store, round, thread, script.steps, files);
        }
    }
    assert_verified(&**store);
}

/// Undoes one revision after the other: this leads through every state that the script went through.
fn assert_undo_gives_earlier_states(
    store: &dyn Store,
    round: u64,
    thread: u64,
    steps: u64,
    last_files: Files,
) {
    let mut states = vec![Files::new()];
    let mut script = Script::new(round, thread);
    while script.steps < steps {
        script.next();
        states.push(script.files.clone());
    }
    states.dedup();
    let path = stead_core::store::StorePath::from_checked(&thread_directory(round, thread)[1..]);
    let query = RevisionQuery { at: Some(NodePath::from_root(path)), ..RevisionQuery::all() };
    let mut files = last_files;
    let content = |state: &NodeState| {
        let content_ref = state.content.as_ref().expect("all displaced content is retained");
        let mut bytes = vec![0; usize::try_from(content_ref.size()).unwrap()];
        let count = store
            .require_history()
            .unwrap()
            .open_content(content_ref)
            .unwrap()
            .read_at(0, &mut bytes)
            .unwrap();
        assert_eq!(count, bytes.len());
        bytes
    };
    let name = |state: &NodeState| String::from_utf8(state.name.clone()).unwrap();
    for revision in store.require_history().unwrap().revisions(&query).unwrap().revisions {
        let is_file = |state: &&NodeState| state.kind == FileKind::File;
        for after in revision.changes.iter().filter_map(|change| change.after.as_ref()).filter(is_file) {
            files.remove(&name(after));
        }
        for before in revision.changes.iter().filter_map(|change| change.before.as_ref()).filter(is_file) {
            files.insert(name(before), content(before));
        }
        if states.last() != Some(&files) {
            states.pop();
        }
        let expected = states.last().unwrap_or_else(|| panic!("round {round}: more revisions than steps"));
        let difference = difference(&files, expected);
        assert_eq!(difference, None, "round {round}, thread {thread}, before version {}", revision.number);
    }
    assert_eq!(states.len(), 1, "round {round}, thread {thread}: steps without a revision");
}

fn kill_repeatedly(kind: Kind) {
    let rounds = if is_long_run() { 5_000 } else { 100 };
    let mut random = fastrand::Rng::with_seed(7);
    let mut total = 0;
    let mut directory = tempfile::tempdir().unwrap();
    for round in 0..rounds {
        if round % 100 == 99 {
            directory = tempfile::tempdir().unwrap();
        }
        let task = Task::new("crash", kind, directory.path(), round);
        let (mut child, output) = task.start();
        let delay = Duration::from_micros(random.u64(1_000..120_000));
        let mut acknowledged = vec![0; THREADS as usize];
        let has_reported = std::thread::scope(|scope| {
            let (started, started_receiver) = std::sync::mpsc::channel();
            let killer = scope.spawn(move || {
                // A child that reports nothing within 20 s is stuck, which is a failure too.
                let has_reported = started_receiver.recv_timeout(Duration::from_secs(20)).is_ok();
                std::thread::sleep(delay);
                child.kill().unwrap();
                child.wait().unwrap();
                has_reported
            });
            for line in lines_of(output) {
                let _ = started.send(());
                assert!(!line.starts_with("failed"), "round {round} {line}");
                let (thread, step) = line.split_once(' ').unwrap();
                acknowledged[thread.parse::<usize>().unwrap()] = step.parse().unwrap();
            }
            killer.join().unwrap()
        });
        assert!(has_reported, "the child of round {round} never acknowledged anything");
        total += acknowledged.iter().sum::<u64>();
        check(&kind.open(directory.path()), round, &acknowledged);
    }
    println!("{} kills of a {} Store: {total} acknowledged changes, none lost", rounds, kind.name());
}

#[test]
fn a_killed_process_loses_nothing_acknowledged_on_a_physical_store() {
    kill_repeatedly(Kind::Physical);
}

#[test]
fn a_killed_process_loses_nothing_acknowledged_and_nothing_displaced() {
    kill_repeatedly(Kind::PhysicalRetaining);
}

#[test]
fn a_killed_process_loses_nothing_acknowledged_on_a_virtual_store() {
    kill_repeatedly(Kind::Virtual);
}

#[test]
fn a_script_is_the_same_every_time() {
    let run = || {
        let mut script = Script::new(3, 1);
        (0..200).for_each(|_| drop(script.next()));
        script.files
    };
    let files = run();
    assert!(!files.is_empty() && files == run());
    let vfs = vfs_for(Kind::Virtual.open(tempfile::tempdir().unwrap().path()), "checker");
    vfs.mkdir("/r3/t1", Parents::Create).unwrap();
    let mut script = Script::new(3, 1);
    for _ in 0..200 {
        let act = script.next();
        perform(&vfs, "/r3/t1", act).unwrap();
        assert_eq!(difference(&files_in(&vfs, "/r3/t1"), &script.files), None);
    }
}
