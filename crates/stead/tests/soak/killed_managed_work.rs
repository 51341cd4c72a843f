//! SIGKILL at random points of work in a managed Workspace: routed writes, overwrites, moves, deletions, tags, sync, cleanup, and on
//! a host directory changes by other programs. What was acknowledged is there afterwards, with its tags, and manifest and files
//! agree: at once or, after changes by other programs, after one sync.
//!
//! A round begins with the files that the last one left. What the child does then follows from these and from the number of the
//! round, so that the parent knows it as well. Each round is another day.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stead_core::clock::FixedClock;
use stead_core::managed::{Category, FileFilter, TagMode, Tags, Ttl, category_of};
use stead_core::vfs::managed::{CleanupOptions, FilePage, MoveTarget};
use stead_core::vfs::{LostUpdates, ManagedFiles, RemoveOptions};
use stead_core::{AccessScope, Clock, Identity, Mount, Store, Timestamp, Vfs, VfsPath, Workspace};

use crate::child::{Task, lines_of, send_line};
use crate::test_stores::{Kind, assert_verified, is_long_run};

/// What is known of a file: its content, its tags, and when it was last written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    content: Vec<u8>,
    tags: String,
    written: Timestamp,
}

type Files = BTreeMap<String, Known>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    Write {
        name: String,
        content: Vec<u8>,
    },
    Overwrite {
        path: String,
        content: Vec<u8>,
    },
    Move {
        path: String,
        to: Category,
    },
    Delete {
        path: String,
    },
    Tag {
        path: String,
        tag: &'static str,
    },
    Sync,
    Cleanup,
    /// Another program makes a file, and sync finds it.
    OutsideAdd {
        path: String,
        content: Vec<u8>,
    },
    /// Another program removes a file.
    OutsideRemove {
        path: String,
    },
}

/// The files of a round, and what happens to them.
struct Script {
    kind: Kind,
    random: fastrand::Rng,
    files: Files,
    now: Timestamp,
    round: u64,
    steps: u64,
    /// Whether another program has changed something since the last sync.
    is_unsynced: bool,
}

/// The day of a round. All days are after those of the host's own clock, which says when a file was written on its disk.
fn day_of(round: u64) -> Timestamp {
    Timestamp::from_secs(5_000_000_000 + i64::try_from(round).unwrap() * 86_400)
}

impl Script {
    fn new(kind: Kind, round: u64, files: Files) -> Self {
        let random = fastrand::Rng::with_seed(round);
        Script { kind, random, files, now: day_of(round), round, steps: 0, is_unsynced: false }
    }

    fn content(&mut self) -> Vec<u8> {
        let size = if self.random.u8(..10) == 0 { 300_000 } else { self.random.usize(1..3_000) };
        let mut content = format!("round {} step {} ", self.round, self.steps).into_bytes();
        content.resize(size, b'.');
        content
    }

    fn pick(&mut self) -> Option<String> {
        let count = self.files.len();
        (count > 0).then(|| self.files.keys().nth(self.random.usize(..count)).unwrap().clone())
    }

    fn put(&mut self, path: String, content: Vec<u8>) {
        let tags = self.files.get(&path).map(|known| known.tags.clone()).unwrap_or_default();
        self.files.insert(path, Known { content, tags, written: self.now });
    }

    /// The next step, which happens to `files`.
    fn next(&mut self) -> Act {
        self.steps += 1;
        let (number, picked) = (self.random.u8(..16), self.pick());
        match (number, picked) {
            (0..=2, Some(path)) => {
                let content = self.content();
                self.put(path.clone(), content.clone());
                Act::Overwrite { path, content }
            }
            (3 | 4, Some(path)) => {
                let to = Category::ALL[self.random.usize(..Category::ALL.len())];
                let target = format!("{to}/{}", path.split_once('/').unwrap().1);
                if self.files.contains_key(&target) {
                    return self.next();
                }
                let known = self.files.remove(&path).unwrap();
                self.files.insert(target, known);
                Act::Move { path, to }
            }
            (5, Some(path)) => {
                self.files.remove(&path);
                Act::Delete { path }
            }
            (6 | 7, Some(path)) => {
                let tag = ["pin", "draft", "done"][self.random.usize(..3)];
                let known = self.files.get_mut(&path).unwrap();
                let tags = Tags::from_stored(&known.tags);
                known.tags = tags.changed(TagMode::Add, &Tags::parse([tag]).unwrap()).unwrap().to_string();
                Act::Tag { path, tag }
            }
            (8, _) => {
                self.is_unsynced = false;
                Act::Sync
            }
            (9, _) => {
                let (ttl, now) = (Ttl::default(), self.now);
                self.is_unsynced = false;
                self.files.retain(|path, known| !is_expired(&ttl, path, known, now));
                Act::Cleanup
            }
            (10, _) if self.kind != Kind::Virtual => {
                let (path, content) =
                    (format!("data/outside/r{}-{}", self.round, self.steps), self.content());
                self.put(path.clone(), content.clone());
                self.is_unsynced = false;
                Act::OutsideAdd { path, content }
            }
            (11, Some(path)) if self.kind != Kind::Virtual => {
                self.files.remove(&path);
                self.is_unsynced = true;
                Act::OutsideRemove { path }
            }
            _ => {
                let extension = ["py", "md", "csv", "png", "zip", "bin"][self.random.usize(..6)];
                let name = format!("r{}-{}.{extension}", self.round, self.steps);
                let content = self.content();
                let path = stead_core::managed::routed_path(&name, None, self.now);
                self.put(path, content.clone());
                Act::Write { name, content }
            }
        }
    }
}

fn is_expired(ttl: &Ttl, path: &str, known: &Known, now: Timestamp) -> bool {
    let is_pinned = Tags::from_stored(&known.tags).contains("pin");
    !is_pinned && ttl.has_expired(category_of(path).unwrap(), known.written, now)
}

fn vfs_on(store: &Arc<dyn Store>, round: u64) -> Vfs {
    let mount = Mount::new(Arc::clone(store));
    let workspace = Workspace::new(VfsPath::parse("/w").unwrap(), AccessScope::ReadWrite, mount);
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::at(day_of(round)));
    let builder = Vfs::builder(Identity::agent("worker")).clock(clock).lost_updates(LostUpdates::Allow);
    builder.workspace(workspace.with_managed(Ttl::default())).build().unwrap()
}

fn perform(vfs: &Vfs, files: &ManagedFiles, root: &std::path::Path, act: &Act) -> stead_core::Result<()> {
    let at = |path: &str| format!("/w/{path}");
    match act {
        Act::Write { name, content } => vfs.write(at(name), content.clone()).map(drop),
        Act::Overwrite { path, content } => vfs.write(at(path), content.clone()).map(drop),
        Act::Move { path, to } => {
            files.move_file(at(path), MoveTarget { category: Some(*to), name: None }).map(drop)
        }
        Act::Delete { path } => vfs.remove_file(at(path), RemoveOptions::default()).map(drop),
        Act::Tag { path, tag } => files.tag(at(path), TagMode::Add, &Tags::parse([tag]).unwrap()).map(drop),
        Act::Sync => files.sync().map(drop),
        Act::Cleanup => {
            let report = files.cleanup(&CleanupOptions::default())?;
            assert!(report.run.errors.is_empty(), "{:?}", report.run.errors);
            Ok(())
        }
        Act::OutsideAdd { path, content } => {
            let target = root.join(path);
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::write(root.join("new"), content).unwrap();
            std::fs::rename(root.join("new"), target).unwrap();
            files.sync().map(drop)
        }
        Act::OutsideRemove { path } => {
            std::fs::remove_file(root.join(path)).unwrap();
            Ok(())
        }
    }
}

/// The files of the manifest, with their contents.
fn managed(vfs: &Vfs) -> Files {
    let files = vfs.managed(None).unwrap();
    let mut found = Files::new();
    for offset in (0..).step_by(200) {
        let page = files.list(&FileFilter::default(), FilePage { offset, limit: 200 }).unwrap();
        if page.files.is_empty() {
            return found;
        }
        for listed in page.files {
            let content = vfs.read(&listed.path).unwrap().bytes;
            let known =
                Known { content, tags: listed.file.tags.to_string(), written: listed.file.modified_at };
            found.insert(listed.file.path, known);
        }
    }
    found
}

/// The files that are there, whatever the manifest says.
fn on_store(vfs: &Vfs) -> BTreeMap<String, Vec<u8>> {
    use stead_core::store::NodeKind;
    use stead_core::vfs::WalkQuery;
    let mut found = BTreeMap::new();
    for category in Category::ALL {
        let query = WalkQuery { kind: Some(NodeKind::File), ..WalkQuery::default() };
        let Ok(walked) = vfs.walk(format!("/w/{category}"), &query) else { continue };
        for entry in walked.entries {
            let path = entry.path.strip_prefix("/w/").unwrap().to_owned();
            found.insert(path, vfs.read(&*entry.path).unwrap().bytes);
        }
    }
    found
}

/// Follows the script until it is killed.
pub(crate) fn child(task: &Task) {
    let store = task.kind.open(&task.directory);
    let vfs = vfs_on(&store, task.number);
    let files = vfs.managed(None).unwrap();
    let mut script = Script::new(task.kind, task.number, managed(&vfs));
    let root = task.directory.join("root");
    for step in 1.. {
        let act = script.next();
        match perform(&vfs, &files, &root, &act) {
            Ok(()) => send_line(&step.to_string()),
            Err(error) => send_line(&format!("failed at step {step}, {act:?}: {error}")),
        }
    }
}

/// Whether the Store has exactly these files, with these tags and times.
fn is_like(found: &Files, expected: &Files) -> bool {
    let without_times = |files: &Files| -> Vec<(String, Vec<u8>, String)> {
        let part =
            |(path, known): (&String, &Known)| (path.clone(), known.content.clone(), known.tags.clone());
        files.iter().map(part).collect()
    };
    without_times(found) == without_times(expected)
}

fn describe(files: &Files) -> String {
    let line = |(path, known): (&String, &Known)| format!("{path} {} [{}]", known.content.len(), known.tags);
    files.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Compares what is there with the script after the acknowledged steps, or one step further.
fn check(kind: Kind, store: &Arc<dyn Store>, round: u64, before: Files, acknowledged: u64) -> Files {
    let vfs = vfs_on(store, round);
    let mut script = Script::new(kind, round, before);
    for _ in 0..acknowledged {
        script.next();
    }
    let (now, was_unsynced) = (script.files.clone(), script.is_unsynced);
    let act = script.next();
    let is_outside = matches!(act, Act::OutsideAdd { .. } | Act::OutsideRemove { .. });
    let files = vfs.managed(None).unwrap();
    let counts = files.sync().unwrap().counts;
    if !was_unsynced && !is_outside {
        assert!(counts.is_empty(), "round {round}: the manifest needed {counts:?} after {act:?} was killed");
    }
    assert!(files.sync().unwrap().counts.is_empty(), "round {round}: one sync is enough");
    let found = managed(&vfs);
    let contents: BTreeMap<_, _> =
        found.iter().map(|(path, known)| (path.clone(), known.content.clone())).collect();
    assert_eq!(
        contents.keys().collect::<Vec<_>>(),
        on_store(&vfs).keys().collect::<Vec<_>>(),
        "round {round}: manifest and files agree"
    );
    // A cleanup removes in several changes.
    let is_partial = act == Act::Cleanup
        && found
            .iter()
            .all(|(path, known)| now.get(path).is_some_and(|before| before.content == known.content))
        && script.files.keys().all(|path| found.contains_key(path));
    assert!(
        is_like(&found, &now) || is_like(&found, &script.files) || is_partial,
        "round {round}, after {acknowledged} acknowledged steps and perhaps {act:?}:\n{}\nwanted\n{}",
        describe(&found),
        describe(&now)
    );
    assert_verified(&**store);
    found
}

fn kill_repeatedly(kind: Kind) {
    let rounds = if is_long_run() { 150 } else { 20 };
    let mut random = fastrand::Rng::with_seed(19);
    let directory = tempfile::tempdir().unwrap();
    let (mut files, mut total) = (Files::new(), 0);
    for round in 0..rounds {
        let task = Task::new("killed_managed_work", kind, directory.path(), round);
        let (mut child, output) = task.start();
        let delay = Duration::from_micros(random.u64(1_000..150_000));
        let acknowledged = std::thread::scope(|scope| {
            let (started, started_receiver) = std::sync::mpsc::channel();
            let killer = scope.spawn(move || {
                let has_reported = started_receiver.recv_timeout(Duration::from_secs(60)).is_ok();
                std::thread::sleep(delay);
                child.kill().unwrap();
                child.wait().unwrap();
                has_reported
            });
            let mut acknowledged = 0;
            for line in lines_of(output) {
                let _ = started.send(());
                assert!(!line.starts_with("failed"), "round {round} {line}");
                acknowledged = line.parse().unwrap();
            }
            assert!(killer.join().unwrap(), "the child of round {round} never acknowledged anything");
            acknowledged
        });
        total += acknowledged;
        files = check(kind, &kind.open(directory.path()), round, files, acknowledged);
    }
    println!("{rounds} kills on a {} Store: {total} acknowledged steps, none lost", kind.name());
}

#[test]
fn w35_and_w44_a_killed_process_leaves_files_and_manifest_in_agreement_on_a_virtual_store() {
    kill_repeatedly(Kind::Virtual);
}

#[test]
fn w35_and_w44_a_killed_process_leaves_files_and_manifest_in_agreement_on_a_physical_store() {
    kill_repeatedly(Kind::PhysicalRetaining);
}
