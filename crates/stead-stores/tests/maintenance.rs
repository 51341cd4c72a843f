//! Snapshots, retention, gc and backups of a database.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stead_core::store::{
    Change, CompanionRecord, CompanionRow, History, Maintenance, NodePath, Parents, RecordKind, RecordQuery,
    RevisionId, RevisionNumber, Step, StorePath,
};
use stead_core::testkit::{TreeSnapshot as Tree, snapshot_of};
use stead_core::vfs::{LostUpdates, Overwrite, RemoveOptions, RestoreOptions};
use stead_core::{
    AccessScope, Clock, FixedClock, Identity, Mount, Operation, OperationId, Store, StoreError, SystemClock,
    Timestamp, Vfs, VfsPath, Workspace,
};
use stead_stores::database::{GcOptions, NewSnapshot, Retention};
use stead_stores::{Database, DatabaseOptions, Durability, VirtualStore};

const DAY: u64 = 24 * 3600;

fn open(path: &Path) -> Database {
    let options = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    Database::open(path, options).unwrap()
}

fn vfs_for(store: &VirtualStore, clock: Arc<dyn Clock>) -> Vfs {
    let mount = Mount::new(Arc::new(store.clone()));
    let workspace = Workspace::new(VfsPath::parse("/w").unwrap(), AccessScope::ReadWrite, mount);
    let builder = Vfs::builder(Identity::agent("a")).lost_updates(LostUpdates::Allow).clock(clock);
    builder.workspace(workspace).build().unwrap()
}

fn new_snapshot(label: &str) -> NewSnapshot {
    NewSnapshot { agent: "a".into(), prefix: None, label: Some(label.into()), at: Timestamp(0), lease: None }
}

fn without_grace() -> GcOptions {
    GcOptions { grace: Duration::ZERO, vacuum: false }
}

#[track_caller]
fn assert_sound(database: &Database) {
    assert_eq!(database.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_snapshot_is_a_version_with_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    let vfs = vfs_for(&store, Arc::new(SystemClock));
    vfs.write("/w/f", "one").unwrap();
    let snapshot = database.snapshot(new_snapshot("first")).unwrap();
    assert_eq!(snapshot.revision, store.latest_revision().unwrap());
    assert!(matches!(database.snapshot(new_snapshot("first")), Err(StoreError::AlreadyExists)));
    database.snapshot(NewSnapshot { prefix: Some("/w".into()), ..new_snapshot("first") }).unwrap();
    database.snapshot(NewSnapshot { agent: "b".into(), ..new_snapshot("first") }).unwrap();
    for _ in 0..2 {
        database.snapshot(NewSnapshot { label: None, ..new_snapshot("") }).unwrap();
    }
    assert_eq!(database.snapshots("a").unwrap().len(), 4);
    assert_eq!(database.snapshot_by_id("a", snapshot.id).unwrap(), Some(snapshot.clone()));
    assert_eq!(database.snapshot_by_id("b", snapshot.id).unwrap(), None);
    database.forget_snapshot("a", snapshot.id).unwrap();
    assert!(matches!(database.forget_snapshot("a", snapshot.id), Err(StoreError::NotFound)));
}

/// What a version within retention or a snapshot can reach stays; what nothing reaches is removed.
#[test]
fn content_that_can_be_reached_is_never_collected() {
    let rounds = if std::env::var_os("STEAD_TEST_LONG").is_some() { 60 } else { 6 };
    for seed in 0..rounds {
        let dir = tempfile::tempdir().unwrap();
        let database = open(&dir.path().join("db"));
        let store = database.store(["a"]).unwrap();
        let clock = Arc::new(FixedClock::at(Timestamp::from_secs(1_000_000)));
        let vfs = vfs_for(&store, clock.clone());
        let mut random = fastrand::Rng::with_seed(seed);
        let mut states: Vec<(RevisionNumber, Timestamp, Tree)> = Vec::new();
        let mut snapshot_revisions: Vec<RevisionNumber> = Vec::new();
        for round in 0..80 {
            clock.advance(Duration::from_secs(random.u64(..DAY)));
            let path = format!("/w/{}/{}", random.u8(..3), random.u8(..4));
            let other_path = format!("/w/{}/{}", random.u8(..3), random.u8(..4));
            let content = vec![random.u8(..); random.usize(..3) * 200_000 + 1 + random.usize(..9)];
            match random.u8(..6) {
                0..=2 => drop(vfs.write(&*path, content)),
                3 => drop(vfs.rename(&*path, &*other_path, Overwrite::Replace)),
                4 => drop(vfs.remove_file(&*path, RemoveOptions::default())),
                _ => drop(vfs.append(&*path, content)),
            }
            states.push((store.latest_revision().unwrap(), clock.now(), snapshot_of(&store)));
            if random.u8(..10) == 0 {
                snapshot_revisions
                    .push(database.snapshot(new_snapshot(&round.to_string())).unwrap().revision);
            }
        }
        let retention = Retention { age: Duration::from_secs(10 * DAY), ..Retention::default() };
        database.forget(retention, clock.now(), &mut |_| ()).unwrap();
        let collected = database.gc(without_grace(), clock.now(), &mut |_| ()).unwrap();
        assert!(collected.bytes > 0, "seed {seed}: gc has to free content that no remaining version has");
        assert_sound(&database);
        assert_eq!(database.verify(&mut |_| ()).unwrap().unreferenced, 0, "seed {seed}");
        let horizon = Timestamp(clock.now().0 - (10 * DAY * 1_000_000_000) as i64);
        for (revision, time, tree) in &states {
            match store.as_of(*revision) {
                Ok(old_tree) => assert_eq!(snapshot_of(&*old_tree), *tree, "seed {seed}, version {revision}"),
                Err(StoreError::Expired(_)) => {
                    assert!(
                        *time < horizon && !snapshot_revisions.contains(revision),
                        "seed {seed}, version {revision}"
                    );
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        let in_store = |number| RevisionId { store: store.id(), number };
        for revision in &snapshot_revisions {
            let restored = vfs.restore("/w", in_store(*revision), &RestoreOptions::default()).unwrap();
            assert!(restored.done, "{:?}", restored.conflicts);
            let expected = &states.iter().find(|(candidate, ..)| candidate == revision).unwrap().2;
            assert_eq!(snapshot_of(&store), *expected, "seed {seed}, snapshot {revision}");
        }
    }
}

#[test]
fn content_that_a_fork_refers_to_is_retained() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    let base = vfs_for(&store, Arc::new(SystemClock));
    base.write("/w/d/f", "as it was").unwrap();
    let forked_tree = snapshot_of(&store);
    let fork = store.fork_as(["a", "fork"]).unwrap();
    base.write("/w/d/f", "something else").unwrap();
    base.remove_directory("/w/d", RemoveOptions { recursive: true, ..RemoveOptions::default() }).unwrap();
    let retention = Retention { age: Duration::ZERO, ..Retention::default() };
    database.forget(retention, SystemClock.now(), &mut |_| ()).unwrap();
    database.gc(without_grace(), SystemClock.now(), &mut |_| ()).unwrap();
    assert_eq!(snapshot_of(&fork), forked_tree);
    assert_sound(&database);
    // After it is discarded, its space is free again.
    fork.destroy().unwrap();
    database.forget(retention, SystemClock.now(), &mut |_| ()).unwrap();
    database.gc(without_grace(), SystemClock.now(), &mut |_| ()).unwrap();
    assert_eq!(database.verify(&mut |_| ()).unwrap().contents, 0);
}

#[test]
fn the_oldest_contents_of_a_file_with_many_versions_are_collected() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    let vfs = vfs_for(&store, Arc::new(SystemClock));
    let mut revisions = Vec::new();
    for n in 0..20 {
        vfs.write("/w/f", format!("content {n}")).unwrap();
        revisions.push(RevisionId { store: store.id(), number: store.latest_revision().unwrap() });
        if n == 3 {
            database.snapshot(new_snapshot("kept")).unwrap();
        }
    }
    let retention = Retention { versions: 5, ..Retention::default() };
    let forgotten = database.forget(retention, SystemClock.now(), &mut |_| ()).unwrap();
    assert_eq!(forgotten.contents, 13);
    database.gc(without_grace(), SystemClock.now(), &mut |_| ()).unwrap();
    let read = |n: usize| vfs.as_of(revisions[n]).unwrap().read("/w/f").map(|read| read.bytes);
    assert_eq!(read(19).unwrap(), b"content 19");
    assert_eq!(read(14).unwrap(), b"content 14");
    assert_eq!(read(3).unwrap(), b"content 3");
    let error = read(8).unwrap_err();
    assert_eq!(error.kind(), stead_core::ErrorKind::Expired, "{error}");
    // The file was there and isn't treated as removed: nothing is removed because its content is missing.
    let restored = vfs.restore("/w", revisions[8], &RestoreOptions::default()).unwrap();
    assert!(!restored.done && restored.conflicts[0].why.contains("not kept"));
    assert_sound(&database);
}

#[test]
fn condemned_content_is_kept_for_the_grace_period_and_if_it_is_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    let other = database.store(["b"]).unwrap();
    vfs_for(&other, Arc::new(SystemClock)).write("/w/f", "used again").unwrap();
    vfs_for(&other, Arc::new(SystemClock)).write("/w/g", "not used").unwrap();
    other.destroy().unwrap();
    let now = SystemClock.now();
    let later = Timestamp(now.0 + (2 * DAY * 1_000_000_000) as i64);
    let first = database.gc(GcOptions::default(), now, &mut |_| ()).unwrap();
    assert_eq!((first.contents, first.condemned), (0, 18));
    vfs_for(&store, Arc::new(SystemClock)).write("/w/f", "used again").unwrap();
    let second = database.gc(GcOptions::default(), later, &mut |_| ()).unwrap();
    assert_eq!((second.contents, second.bytes, second.condemned), (1, 8, 0));
    assert_sound(&database);
}

#[test]
fn gc_runs_while_other_threads_write() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let vfs = vfs_for(store, Arc::new(SystemClock));
                let mut random = fastrand::Rng::with_seed(writer);
                while !stop.load(Ordering::Relaxed) {
                    // The same few contents come and go.
                    let content = vec![random.u8(..3); random.usize(..600_000)];
                    let path = format!("/w/{writer}/{}", random.u8(..3));
                    vfs.write(&*path, content.clone()).unwrap();
                    assert_eq!(vfs.read(&*path).unwrap().bytes, content);
                    vfs.remove_file(&*path, RemoveOptions::default()).unwrap();
                }
            });
        }
        let retention = Retention { age: Duration::ZERO, ..Retention::default() };
        for _ in 0..15 {
            database.forget(retention, SystemClock.now(), &mut |_| ()).unwrap();
            database.gc(without_grace(), SystemClock.now(), &mut |_| ()).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_sound(&database);
}

#[test]
fn a_vacuum_shrinks_the_database_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let database = open(&path);
    let store = database.store(["a"]).unwrap();
    let mut content = vec![0; 8 << 20];
    fastrand::Rng::with_seed(1).fill(&mut content);
    vfs_for(&store, Arc::new(SystemClock)).write("/w/f", content).unwrap();
    store.destroy().unwrap();
    let size = || std::fs::metadata(&path).unwrap().len();
    database.gc(GcOptions { vacuum: true, ..without_grace() }, SystemClock.now(), &mut |_| ()).unwrap();
    assert!(size() < 1 << 20, "{}", size());
    assert_sound(&database);
}

#[test]
fn a_backup_is_consistent_and_can_be_restored() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    let vfs = vfs_for(&store, Arc::new(SystemClock));
    vfs.write("/w/d/f", "before").unwrap();
    let before = snapshot_of(&store);
    let tag = vfs.stat("/w/d/f").unwrap().tag;
    let backup = dir.path().join("copy.db");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (writer, stop) = (database.store(["busy"]).unwrap(), &stop);
        scope.spawn(move || {
            let vfs = self::vfs_for(&writer, Arc::new(SystemClock));
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                // Two files that always change together.
                let operation = vfs.operation("both");
                let mut batch = operation.batch();
                batch.write("/w/one", n.to_string(), &Default::default()).unwrap();
                batch.write("/w/two", n.to_string(), &Default::default()).unwrap();
                batch.apply().unwrap();
                n += 1;
            }
        });
        let report = database.backup(&backup, &mut |_| ()).unwrap();
        assert!(report.bytes > 0);
        stop.store(true, Ordering::Relaxed);
    });
    assert!(matches!(database.backup(&backup, &mut |_| ()), Err(StoreError::AlreadyExists)));
    {
        let restored_copy = open(&backup);
        assert_sound(&restored_copy);
        let busy = restored_copy.store(["busy"]).unwrap();
        let tree = snapshot_of(&busy);
        assert_eq!(tree.get(&b"one"[..]), tree.get(&b"two"[..]));
        drop(busy);
    }
    for suffix in ["-wal", "-shm", "-turn", "-next"] {
        let _ = std::fs::remove_file(dir.path().join(format!("copy.db{suffix}")));
    }

    vfs.write("/w/d/f", "after").unwrap();
    vfs.rename("/w/d", "/w/e", Overwrite::Refuse).unwrap();
    let newest = store.latest_revision().unwrap();
    let restored = database.restore_backup(&backup, &mut |_| ()).unwrap();
    assert!(restored > newest, "no version number may be used twice");
    assert_eq!(snapshot_of(&store), before);
    assert_eq!(vfs.read("/w/d/f").unwrap().bytes, b"before");
    assert_eq!(vfs.stat("/w/d/f").unwrap().tag, tag);
    vfs.write("/w/new", "goes on").unwrap();
    assert_sound(&database);
    assert!(
        std::fs::read_dir(dir.path())
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with("restoring") })
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_restored_backup_has_its_own_companion_rows_and_the_present_ones_of_host_directories() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("root")).unwrap();
    let database = open(&dir.path().join("db"));
    let inside = database.store(["a"]).unwrap();
    let mut options = stead_stores::PhysicalOptions::new(dir.path().join("state"));
    (options.durability, options.ledger) = (Durability::Fast, database.clone().into());
    let host = stead_stores::PhysicalStore::open(dir.path().join("root"), options).unwrap();
    let kind = RecordKind::new("manifest").unwrap();
    let put = |store: &dyn Store, keys: &[&str], data: &str| {
        let at = NodePath::from_root(StorePath::from_checked("f"));
        let step = Step::Write { at, content: data.as_bytes().to_vec().into(), options: Default::default() };
        let now = SystemClock.now();
        let identity = Arc::new(Identity::agent("a"));
        let operation = Operation { id: OperationId::fresh(now), identity, tool: "test".into(), at: now };
        let row = |key: &&str| CompanionRecord::Row(CompanionRow::put(kind.clone(), *key, data).unwrap());
        let records = keys.iter().map(row).collect();
        store.apply(Change { records, ..Change::new(operation, vec![step]) }).unwrap();
    };
    let rows = |store: &dyn Store| {
        let rows = store.companion_records().unwrap().records(&kind, &RecordQuery::first(9)).unwrap();
        rows.into_iter().map(|row| format!("{}={}", row.key, row.data)).collect::<Vec<_>>().join(" ")
    };
    for store in [&inside as &dyn Store, &host] {
        put(store, &["k"], "1");
    }
    let copy = dir.path().join("copy.db");
    database.backup(&copy, &mut |_| ()).unwrap();
    for store in [&inside as &dyn Store, &host] {
        put(store, &["k", "new"], "2");
    }
    database.restore_backup(&copy, &mut |_| ()).unwrap();
    assert_eq!((&*rows(&inside), &*rows(&host)), ("k=1", "k=2 new=2"));
    put(&host, &["k"], "3");
    assert_eq!((&*rows(&inside), &*rows(&host)), ("k=1", "k=3 new=2"));
    database.gc(without_grace(), SystemClock.now(), &mut |_| ()).unwrap();
    assert_eq!((&*rows(&inside), &*rows(&host)), ("k=1", "k=3 new=2"));
    assert_sound(&database);
}

#[test]
fn a_file_that_is_no_backup_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    vfs_for(&store, Arc::new(SystemClock)).write("/w/f", "stays").unwrap();
    let before = snapshot_of(&store);
    let text = dir.path().join("text");
    std::fs::write(&text, "no database ".repeat(1_000)).unwrap();
    let foreign = dir.path().join("foreign");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    let torn = dir.path().join("torn");
    database.backup(&torn, &mut |_| ()).unwrap();
    let length = std::fs::metadata(&torn).unwrap().len();
    std::fs::File::options().write(true).open(&torn).unwrap().set_len(length / 2).unwrap();
    for path in [&text, &foreign, &torn, &dir.path().join("missing")] {
        assert!(database.restore_backup(path, &mut |_| ()).is_err(), "{path:?}");
        assert_eq!(snapshot_of(&store), before);
    }
    assert_sound(&database);
}

/// Why those of these versions can't be read that can't.
fn losses(store: &VirtualStore, versions: std::ops::RangeInclusive<i64>) -> Vec<String> {
    let as_of = |version| store.as_of(RevisionNumber(version));
    versions.filter_map(|version| as_of(version).err().map(|error| error.to_string())).collect()
}

#[test]
fn a_version_that_a_restored_backup_replaced_is_lost_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    let vfs = vfs_for(&store, Arc::new(SystemClock));
    let backup = dir.path().join("copy.db");
    let latest = || store.latest_revision().unwrap().0;
    vfs.write("/w/f", "zero").unwrap();
    let before = SystemClock.now();
    vfs.write("/w/f", "one").unwrap();
    let kept = latest();
    database.backup(&backup, &mut |_| ()).unwrap();
    vfs.write("/w/f", "two").unwrap();
    let between = SystemClock.now();
    vfs.write("/w/f", "three").unwrap();
    let lost = latest();
    database.restore_backup(&backup, &mut |_| ()).unwrap();
    assert_eq!(store.revision_at(SystemClock.now()).unwrap().0, latest());
    vfs.write("/w/f", "four").unwrap();
    // A time is answered like a number.
    assert_eq!(store.revision_at(before).unwrap().0, kept - 1);
    let message = format!(
        "the versions of that time were lost when a backup was restored; the last one before them is {kept}"
    );
    assert_eq!(store.revision_at(between).unwrap_err().to_string(), StoreError::Expired(message).to_string());
    let expected: Vec<String> = (kept + 1..=lost)
        .map(|version| {
            StoreError::Expired(format!("version {version} was lost when a backup was restored")).to_string()
        })
        .collect();
    assert_eq!(losses(&store, 0..=latest()), expected);
    let point = |number| RevisionId { store: Store::id(&store), number: RevisionNumber(number) };
    for (from, to) in [(kept, lost), (lost, latest())] {
        let error = vfs.diff("/w", point(from), point(to), Default::default()).unwrap_err().to_string();
        assert!(error.contains(&expected[1]), "{error}");
    }
    // The restore before is lost too.
    let lost = latest();
    database.restore_backup(&backup, &mut |_| ()).unwrap();
    assert_eq!(losses(&store, 0..=latest()).len() as i64, lost - kept);
    // A backup with a gap keeps it.
    let with_gap = dir.path().join("gap.db");
    vfs.write("/w/f", "five").unwrap();
    database.backup(&with_gap, &mut |_| ()).unwrap();
    vfs.write("/w/f", "six").unwrap();
    database.restore_backup(&with_gap, &mut |_| ()).unwrap();
    assert_eq!(losses(&store, 0..=latest()).len() as i64, lost - kept + 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_version_of_a_host_directory_that_outlives_a_restore_is_lost_for_the_files_in_the_database() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("root")).unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    let mut options = stead_stores::PhysicalOptions::new(dir.path().join("state"));
    (options.durability, options.ledger) = (Durability::Fast, database.clone().into());
    let host = stead_stores::PhysicalStore::open(dir.path().join("root"), options).unwrap();
    let host =
        Workspace::new(VfsPath::parse("/h").unwrap(), AccessScope::ReadWrite, Mount::new(Arc::new(host)));
    let host = Vfs::builder(Identity::agent("a")).workspace(host).build().unwrap();
    let vfs = vfs_for(&store, Arc::new(SystemClock));
    vfs.write("/w/f", "one").unwrap();
    let backup = dir.path().join("copy.db");
    database.backup(&backup, &mut |_| ()).unwrap();
    host.write("/h/f", "before the loss").unwrap();
    let kept = store.latest_revision().unwrap().0;
    vfs.write("/w/f", "two").unwrap();
    host.write("/h/f", "after the loss").unwrap();
    let lost = store.latest_revision().unwrap().0;
    database.restore_backup(&backup, &mut |_| ()).unwrap();
    assert_eq!(losses(&store, 0..=kept), [""; 0]);
    assert_eq!(losses(&store, kept + 1..=lost).len() as i64, lost - kept);
}

/// A `Vfs` with a WRITE_ONLY Workspace, in which every change makes a version.
fn write_only_vfs(mount: Mount, clock: Arc<dyn Clock>) -> Vfs {
    let workspace = Workspace::new(VfsPath::parse("/w").unwrap(), AccessScope::WriteOnly, mount);
    Vfs::builder(Identity::agent("a")).clock(clock).workspace(workspace).build().unwrap()
}

#[test]
fn versions_that_changed_nothing_are_forgotten_with_those_that_did() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db"));
    let store = database.store(["a"]).unwrap();
    let clock = Arc::new(FixedClock::at(Timestamp::from_secs(1_000_000)));
    let vfs = write_only_vfs(Mount::new(Arc::new(store.clone())), clock.clone());
    for _ in 0..3 {
        vfs.mkdir("/w/made", Parents::Create).unwrap();
        vfs.remove_file("/w/none", RemoveOptions::default()).unwrap();
    }
    assert_eq!(store.latest_revision().unwrap(), RevisionNumber(6));
    let undoable_count = || store.undoable_operations("a", Timestamp(i64::MIN), 100).unwrap().len();
    assert_eq!(undoable_count(), 6);
    assert!(store.as_of(RevisionNumber(4)).is_ok());
    assert_sound(&database);
    clock.advance(Duration::from_secs(40 * DAY));
    vfs.mkdir("/w/later", Parents::Create).unwrap();
    let retention = Retention { age: Duration::from_secs(30 * DAY), ..Retention::default() };
    database.forget(retention, clock.now(), &mut |_| ()).unwrap();
    assert_eq!(undoable_count(), 1, "only the operation after the retention limit may be undoable");
    assert_sound(&database);
}

#[test]
fn a_later_node_does_not_reveal_how_many_nodes_a_write_only_change_created() {
    let tag_after = |exists: bool| {
        let database = Database::in_memory();
        let store = database.store(["a"]).unwrap();
        let owner = vfs_for(&store, Arc::new(SystemClock));
        owner.write(if exists { "/w/x/y" } else { "/w/a/b" }, "1").unwrap();
        let write_only = write_only_vfs(Mount::new(Arc::new(store.clone())), Arc::new(SystemClock));
        for path in ["/w/x/y", "/w/x/z"] {
            write_only.write(path, "2").unwrap();
            write_only.mkdir("/w/x", Parents::Create).unwrap();
        }
        owner.write("/w/after", "3").unwrap().tag.unwrap()
    };
    assert_eq!(tag_after(true), tag_after(false));
}
