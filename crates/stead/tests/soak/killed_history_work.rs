//! A process killed during an undo, a restore, a gc, a snapshot, or the making or restoring of a backup: each happens
//! completely or not at all.

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

use crate::child::{Task, lines_of, send_line};
use crate::test_stores::{Kind, assert_verified, is_long_run, vfs_for};

const FILES: usize = 60;

/// What is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupted {
    Undo = 1,
    Restore = 2,
    Gc = 3,
    Backup = 4,
    RestoreBackup = 5,
    Snapshot = 6,
}

impl Interrupted {
    const ALL: [Interrupted; 6] = [
        Interrupted::Undo,
        Interrupted::Restore,
        Interrupted::Gc,
        Interrupted::Backup,
        Interrupted::RestoreBackup,
        Interrupted::Snapshot,
    ];
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
    let scope = CaptureScope::new(StorePath::empty(), StorePath::empty(), PathGlobs::none());
    let captured = store
        .require_history()
        .unwrap()
        .capture(&[scope].into_iter().collect(), &operation, &mut |_| Ok(()))
        .unwrap();
    let new = NewSnapshot { agent: "worker".into(), prefix: None, label: None, at, lease: None };
    database.snapshot_with_captures(new, captured.into_iter().collect()).unwrap().revision
}

/// Makes a tree, and then one operation that changes all of it.
fn prepare(kind: Kind, directory: &Path, round: u64) -> (Arc<dyn Store>, TreeSnapshot, TreeSnapshot) {
    let store = kind.open(directory);
    let vfs = vfs_for(Arc::clone(&store), "worker");
    let mut batch = vfs.batch();
    for file in 0..FILES {
        let content = format!("{round} {file}\n").repeat(1 + file * 40);
        batch.write(format!("/{}/f{file}", file % 5), content, &WriteOptions::new()).unwrap();
    }
    batch.apply().unwrap();
    let first = snapshot_of(&*store);
    let revision = snapshot(&*store, &database(directory));
    std::fs::write(directory.join("version"), revision.to_string()).unwrap();
    let operation = vfs.operation("upheaval");
    let mut batch = operation.batch();
    for file in 0..FILES / 2 {
        batch.write(format!("/{}/f{file}", file % 5), format!("new {file}"), &WriteOptions::new()).unwrap();
    }
    batch.apply().unwrap();
    operation.rename("/1", "/9", Overwrite::Refuse).unwrap();
    operation.remove_directory("/2", RemoveOptions { recursive: true, ..RemoveOptions::default() }).unwrap();
    operation.write("/2", "a file where a directory was").unwrap();
    let last = snapshot_of(&*store);
    (store, first, last)
}

pub(crate) fn child(task: &Task) {
    let directory = &task.directory;
    let interrupted =
        Interrupted::ALL.into_iter().find(|interrupted| *interrupted as u64 == task.number).unwrap();
    let store = task.kind.open(directory);
    let vfs = vfs_for(Arc::clone(&store), "worker");
    let database = database(directory);
    send_line("begins");
    match interrupted {
        Interrupted::Undo => assert!(vfs.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap().done),
        Interrupted::Restore => {
            let revision: i64 = std::fs::read_to_string(directory.join("version")).unwrap().parse().unwrap();
            assert!(
                vfs.restore("/", store.revision(RevisionNumber(revision)), &RestoreOptions::default())
                    .unwrap()
                    .done
            );
        }
        Interrupted::Gc => {
            let retention = Retention { age: Duration::ZERO, ..Retention::default() };
            let options = GcOptions { grace: Duration::ZERO, vacuum: true };
            database.forget(retention, SystemClock.now(), &mut |_| ()).unwrap();
            database.gc(options, SystemClock.now(), &mut |_| ()).unwrap();
        }
        Interrupted::Snapshot => drop(snapshot(&*store, &database)),
        Interrupted::Backup => {
            database.backup(&directory.join("copy.db"), &mut |_| ()).unwrap();
        }
        Interrupted::RestoreBackup => {
            database.restore_backup(&directory.join("before.db"), &mut |_| ()).unwrap();
        }
    }
    send_line("done");
}

fn interrupt_repeatedly(kind: Kind, interrupted: Interrupted) {
    let rounds = if is_long_run() { 500 } else { 25 };
    let mut random = fastrand::Rng::with_seed(interrupted as u64);
    let (mut completed, mut cut_short) = (0, 0);
    // The longest time that it has taken without an interruption so far.
    let mut longest = Duration::from_millis(250);
    for round in 0..rounds {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path();
        let (store, first, last) = prepare(kind, directory, round);
        let backed_up = match interrupted {
            Interrupted::RestoreBackup => {
                database(directory).backup(&directory.join("before.db"), &mut |_| ()).unwrap();
                let backed_up = snapshot_of(&*store);
                vfs_for(Arc::clone(&store), "worker").write("/since", "the backup").unwrap();
                backed_up
            }
            _ => last.clone(),
        };
        let before = snapshot_of(&*store);
        drop(store);
        let (mut child, output) =
            Task::new("killed_history_work", kind, directory, interrupted as u64).start();
        let mut lines = lines_of(output);
        assert_eq!(lines.next().as_deref(), Some("begins"));
        let start = Instant::now();
        let delay = longest.mul_f64(random.f64() * 1.1);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(delay);
            let _ = child.kill();
            child.wait().unwrap();
        });
        let done = lines.next().as_deref() == Some("done");
        if done {
            longest = start.elapsed().max(Duration::from_millis(2));
        }
        killer.join().unwrap();
        let store = kind.open(directory);
        assert_verified(&*store);
        let tree_now = snapshot_of(&*store);
        let (after, effect) = match interrupted {
            Interrupted::Undo | Interrupted::Restore => (&first, "undone"),
            Interrupted::Gc | Interrupted::Backup | Interrupted::Snapshot => (&before, "unchanged"),
            Interrupted::RestoreBackup if kind == Kind::Virtual => (&backed_up, "restored"),
            Interrupted::RestoreBackup => (&before, "untouched: the directory is not in the database"),
        };
        assert!(
            tree_now == before || tree_now == *after,
            "{interrupted:?} of round {round}: neither complete nor absent"
        );
        if done {
            assert_eq!(tree_now, *after, "{interrupted:?} of round {round} was acknowledged: {effect}");
        }
        if interrupted == Interrupted::Snapshot {
            let database = database(directory);
            assert_eq!(database.verify(&mut |_| ()).unwrap().problems, [""; 0]);
            // The snapshot from before still has the old tree, and one that was made by the child, or is made now, has
            // the current tree.
            let snapshots = database.snapshots("worker").unwrap();
            assert!(!done || snapshots.len() == 2, "an acknowledged snapshot is missing");
            let revisions = snapshots
                .iter()
                .rev()
                .map(|snapshot| snapshot.revision)
                .chain([snapshot(&*store, &database)]);
            let trees: Vec<_> = revisions
                .map(|revision| snapshot_of(&*store.require_history().unwrap().as_of(revision).unwrap()))
                .collect();
            assert_eq!((&trees[0], &trees[1], trees.last()), (&first, &tree_now, Some(&tree_now)));
        }
        if interrupted == Interrupted::Backup && directory.join("copy.db").exists() {
            let copy = Database::open(directory.join("copy.db"), DatabaseOptions::default()).unwrap();
            assert_eq!(copy.verify(&mut |_| ()).unwrap().problems, [""; 0]);
        }
        if tree_now == *after && done {
            completed += 1
        } else {
            cut_short += 1
        }
        // The Store can still be used.
        vfs_for(store, "worker").write("/afterwards", "x").unwrap();
    }
    println!(
        "{interrupted:?} on a {} Store, killed {rounds} times: {completed} done, {cut_short} cut short",
        kind.name()
    );
    assert!(cut_short > 0, "no kill interrupted anything");
}

#[test]
fn a_killed_undo_happens_completely_or_not_at_all() {
    interrupt_repeatedly(Kind::Virtual, Interrupted::Undo);
    interrupt_repeatedly(Kind::PhysicalRetaining, Interrupted::Undo);
}

#[test]
fn a_killed_restore_happens_completely_or_not_at_all() {
    interrupt_repeatedly(Kind::Virtual, Interrupted::Restore);
    interrupt_repeatedly(Kind::PhysicalRetaining, Interrupted::Restore);
}

#[test]
fn a_killed_snapshot_is_complete_or_absent() {
    interrupt_repeatedly(Kind::PhysicalRetaining, Interrupted::Snapshot);
}

#[test]
fn a_killed_gc_loses_nothing() {
    interrupt_repeatedly(Kind::Virtual, Interrupted::Gc);
}

#[test]
fn a_killed_backup_is_complete_or_absent() {
    interrupt_repeatedly(Kind::Virtual, Interrupted::Backup);
    interrupt_repeatedly(Kind::Virtual, Interrupted::RestoreBackup);
}
