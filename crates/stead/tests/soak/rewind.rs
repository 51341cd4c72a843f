//! Killed during an undo, a restore, a gc, a snapshot, or the making or restoring of a backup: each happens as a whole
//! or not at all.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stead_core::glob::PathGlobs;
use stead_core::store::{CaptureScope, RevisionNumber, StorePath};
use stead_core::testkit::{TreeSnapshot, snapshot_of};
use stead_core::vfs::{Overwrite, RemoveOptions, RestoreOptions, UndoOptions, UndoTarget, WriteOptions};
use stead_core::{Clock, Identity, Operation, OperationId, Store, SystemClock};
use stead_stores::database::{GcOptions, NewSnapshot, Retention};
use stead_stores::{Database, DatabaseOptions};

use crate::child::{Task, tell, told};
use crate::places::{Kind, door, long, verified};

const FILES: usize = 60;

/// What is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Undo = 1,
    Restore = 2,
    Gc = 3,
    Backup = 4,
    RestoreBackup = 5,
    Snapshot = 6,
}

impl Deed {
    const ALL: [Deed; 6] =
        [Deed::Undo, Deed::Restore, Deed::Gc, Deed::Backup, Deed::RestoreBackup, Deed::Snapshot];
}

/// The database in a directory, whatever kind of Store is in it.
fn database(directory: &Path) -> Database {
    Database::open(directory.join("stead.db"), DatabaseOptions::default()).unwrap()
}

/// Makes a snapshot, and returns its revision.
fn snapshot(store: &dyn Store, database: &Database) -> RevisionNumber {
    let at = SystemClock.now();
    let identity = Arc::new(Identity::agent("worker"));
    let operation = Operation { id: OperationId::fresh(at), identity, tool: "snapshot".into(), at };
    let all = CaptureScope::new(StorePath::empty(), StorePath::empty(), PathGlobs::none());
    let taken = store
        .require_history()
        .unwrap()
        .capture(&[all].into_iter().collect(), &operation, &mut |_| Ok(()))
        .unwrap();
    let new = NewSnapshot { agent: "worker".into(), prefix: None, label: None, at };
    database.snapshot_with_captures(new, taken.into_iter().collect()).unwrap().revision
}

/// Makes a tree, and then one operation that changes all of it.
fn prepare(kind: Kind, directory: &Path, round: u64) -> (Arc<dyn Store>, TreeSnapshot, TreeSnapshot) {
    let store = kind.open(directory);
    let door = door(Arc::clone(&store), "worker");
    let mut batch = door.batch();
    for file in 0..FILES {
        let content = format!("{round} {file}\n").repeat(1 + file * 40);
        batch.write(format!("/{}/f{file}", file % 5), content, &WriteOptions::new()).unwrap();
    }
    batch.apply().unwrap();
    let first = snapshot_of(&*store);
    let version = snapshot(&*store, &database(directory));
    std::fs::write(directory.join("version"), version.to_string()).unwrap();
    let act = door.operation("upheaval");
    let mut batch = act.batch();
    for file in 0..FILES / 2 {
        batch.write(format!("/{}/f{file}", file % 5), format!("new {file}"), &WriteOptions::new()).unwrap();
    }
    batch.apply().unwrap();
    act.rename("/1", "/9", Overwrite::Refuse).unwrap();
    act.remove_directory("/2", RemoveOptions { recursive: true, ..RemoveOptions::default() }).unwrap();
    act.write("/2", "a file where a directory was").unwrap();
    let last = snapshot_of(&*store);
    (store, first, last)
}

pub(crate) fn child(task: &Task) {
    let directory = &task.directory;
    let deed = Deed::ALL.into_iter().find(|deed| *deed as u64 == task.number).unwrap();
    let store = task.kind.open(directory);
    let door = door(Arc::clone(&store), "worker");
    let database = database(directory);
    tell("begins");
    match deed {
        Deed::Undo => assert!(door.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap().done),
        Deed::Restore => {
            let version: i64 = std::fs::read_to_string(directory.join("version")).unwrap().parse().unwrap();
            assert!(
                door.restore("/", store.revision(RevisionNumber(version)), &RestoreOptions::default())
                    .unwrap()
                    .done
            );
        }
        Deed::Gc => {
            let retention = Retention { age: Duration::ZERO, ..Retention::default() };
            let gc = GcOptions { grace: Duration::ZERO, vacuum: true };
            database.forget(retention, SystemClock.now(), &mut |_| ()).unwrap();
            database.gc(gc, SystemClock.now(), &mut |_| ()).unwrap();
        }
        Deed::Snapshot => drop(snapshot(&*store, &database)),
        Deed::Backup => {
            database.backup(&directory.join("copy.db"), &mut |_| ()).unwrap();
        }
        Deed::RestoreBackup => {
            database.restore_backup(&directory.join("before.db"), &mut |_| ()).unwrap();
        }
    }
    tell("done");
}

fn interrupted(kind: Kind, deed: Deed) {
    let rounds = if long() { 500 } else { 25 };
    let mut random = fastrand::Rng::with_seed(deed as u64);
    let (mut whole, mut cut) = (0, 0);
    // The longest time that it has taken without an interruption so far.
    let mut longest = Duration::from_millis(250);
    for round in 0..rounds {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path();
        let (store, first, last) = prepare(kind, directory, round);
        let backed_up = match deed {
            Deed::RestoreBackup => {
                database(directory).backup(&directory.join("before.db"), &mut |_| ()).unwrap();
                let backed_up = snapshot_of(&*store);
                door(Arc::clone(&store), "worker").write("/since", "the backup").unwrap();
                backed_up
            }
            _ => last.clone(),
        };
        let before = snapshot_of(&*store);
        drop(store);
        let (mut child, output) = Task::new("rewind", kind, directory, deed as u64).start();
        let mut lines = told(output);
        assert_eq!(lines.next().as_deref(), Some("begins"));
        let began = Instant::now();
        let patience = longest.mul_f64(random.f64() * 1.1);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(patience);
            let _ = child.kill();
            child.wait().unwrap();
        });
        let done = lines.next().as_deref() == Some("done");
        if done {
            longest = began.elapsed().max(Duration::from_millis(2));
        }
        killer.join().unwrap();
        let store = kind.open(directory);
        verified(&*store);
        let now = snapshot_of(&*store);
        let (after, what) = match deed {
            Deed::Undo | Deed::Restore => (&first, "taken back"),
            Deed::Gc | Deed::Backup | Deed::Snapshot => (&before, "unchanged"),
            Deed::RestoreBackup if kind == Kind::Virtual => (&backed_up, "restored"),
            Deed::RestoreBackup => (&before, "untouched: the directory is not in the database"),
        };
        assert!(now == before || now == *after, "{deed:?} of round {round}: neither whole nor not at all");
        if done {
            assert_eq!(now, *after, "{deed:?} of round {round} was acknowledged: {what}");
        }
        if deed == Deed::Snapshot {
            let database = database(directory);
            assert_eq!(database.verify(&mut |_| ()).unwrap().problems, [""; 0]);
            // The snapshot from before still has the old tree, and one that was made by the child, or is made now, has
            // the current tree.
            let made = database.snapshots("worker").unwrap();
            assert!(!done || made.len() == 2, "an acknowledged snapshot is there");
            let versions = made.iter().rev().map(|made| made.revision).chain([snapshot(&*store, &database)]);
            let held: Vec<_> = versions
                .map(|version| snapshot_of(&*store.require_history().unwrap().as_of(version).unwrap()))
                .collect();
            assert_eq!((&held[0], &held[1], held.last()), (&first, &now, Some(&now)));
        }
        if deed == Deed::Backup && directory.join("copy.db").exists() {
            let copy = Database::open(directory.join("copy.db"), DatabaseOptions::default()).unwrap();
            assert_eq!(copy.verify(&mut |_| ()).unwrap().problems, [""; 0]);
        }
        if now == *after && done {
            whole += 1
        } else {
            cut += 1
        }
        // The Store can still be used.
        door(store, "worker").write("/afterwards", "x").unwrap();
    }
    println!("{deed:?} on a {} Store, killed {rounds} times: {whole} done, {cut} cut short", kind.name());
    assert!(cut > 0, "no kill came in time");
}

#[test]
fn a_killed_undo_happens_whole_or_not_at_all() {
    interrupted(Kind::Virtual, Deed::Undo);
    interrupted(Kind::Kept, Deed::Undo);
}

#[test]
fn a_killed_restore_happens_whole_or_not_at_all() {
    interrupted(Kind::Virtual, Deed::Restore);
    interrupted(Kind::Kept, Deed::Restore);
}

#[test]
fn a_killed_snapshot_is_whole_or_not_there() {
    interrupted(Kind::Kept, Deed::Snapshot);
}

#[test]
fn a_killed_gc_loses_nothing() {
    interrupted(Kind::Virtual, Deed::Gc);
}

#[test]
fn a_killed_backup_is_whole_or_not_there() {
    interrupted(Kind::Virtual, Deed::Backup);
    interrupted(Kind::Virtual, Deed::RestoreBackup);
}
