//! Snapshots of a directory contain everything in it, also what other programs put there.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use stead_core::glob::{Anchor, PathGlobs};
use stead_core::search::{Grep, GrepQuery};
use stead_core::store::{
    CaptureScope, CaptureScopes, History, Maintenance, OpenPurpose, RevisionId, RevisionNumber, StoreError,
};
use stead_core::vfs::{DiffOptions, PointInTime, RestoreOptions, UndoOptions, UndoTarget};
use stead_core::{AccessScope, Clock, Mount, SystemClock, Vfs, VfsPath, Workspace};
use stead_stores::database::{GcOptions, NewSnapshot, Retention, Snapshot};

use super::*;

/// A directory with a Store on it, and the database with its ledger.
struct Site {
    temp: TempDir,
    root: PathBuf,
    store: Arc<PhysicalStore>,
    database: Database,
}

impl Site {
    fn new() -> Self {
        Site::with(|_| ())
    }

    fn with(change: impl Fn(&mut PhysicalOptions)) -> Self {
        let temp = TempDir::new().unwrap();
        let root = temp.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let (store, database) = open_with_ledger(temp.path(), change);
        Site { temp, root, store, database }
    }

    fn host_path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn put(&self, path: &str, content: &str) {
        std::fs::create_dir_all(self.host_path(path).parent().unwrap()).unwrap();
        std::fs::write(self.host_path(path), content).unwrap();
    }

    fn vfs(&self, scratch: &[&str]) -> Vfs {
        let mount = Mount::new(Arc::clone(&self.store) as Arc<dyn Store>);
        let workspace = Workspace::new(VfsPath::root(), AccessScope::ReadWrite, mount);
        let workspace = workspace.with_scratch(scratch).unwrap();
        Vfs::builder(Identity::agent("tester")).workspace(workspace).build().unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshot_of(&[""], &[])
    }

    fn snapshot_of(&self, tops: &[&str], scratch: &[&str]) -> Snapshot {
        snapshot(&self.store, &self.database, tops, scratch)
    }

    fn revision(&self, number: RevisionNumber) -> PointInTime {
        RevisionId { store: self.store.id(), number }.into()
    }

    fn restore(&self, revision: RevisionNumber, paths: &[&str]) -> stead_core::vfs::RevertResult {
        let paths = paths.iter().map(|path| VfsPath::parse(path).unwrap()).collect();
        self.vfs(&[])
            .restore("/", self.revision(revision), &RestoreOptions { paths, dry_run: false })
            .unwrap()
    }

    fn assert_verified(&self) {
        assert_eq!(self.database.verify(&mut |_| ()).unwrap().problems, [""; 0]);
        assert_eq!(self.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
    }
}

fn open_with_ledger(temp: &Path, change: impl Fn(&mut PhysicalOptions)) -> (Arc<PhysicalStore>, Database) {
    let fast = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    let database = Database::open(temp.join("stead.db"), fast).unwrap();
    let store = open(temp, |options| {
        options.ledger = database.clone().into();
        change(options);
    });
    (Arc::new(store), database)
}

fn capture_scopes(tops: &[&str], scratch: &[&str]) -> CaptureScopes {
    let globs = || PathGlobs::new(scratch, Anchor::AnyDirectory).unwrap();
    let to_scope = |top: &&str| CaptureScope::new(StorePath::from_checked(*top), StorePath::empty(), globs());
    tops.iter().map(to_scope).collect()
}

fn snapshot(store: &PhysicalStore, database: &Database, tops: &[&str], scratch: &[&str]) -> Snapshot {
    let at = SystemClock.now();
    let operation = change(Vec::new()).operation;
    let captured =
        store.capture(&capture_scopes(tops, scratch), &operation, &mut |_| Ok(())).unwrap().unwrap();
    let new = NewSnapshot { agent: "tester".into(), prefix: None, label: None, at, lease: None };
    database.snapshot_with_captures(new, vec![captured]).unwrap()
}

/// What a Store contains, without special files, which a snapshot doesn't capture.
fn tree_without_special_files(store: &dyn Store) -> Tree {
    let mut tree = tree(store);
    tree.retain(|_, (kind, ..)| !matches!(kind, NodeKind::Special(_)));
    tree
}

#[test]
fn a_snapshot_contains_what_any_program_has_written() {
    let site = Site::new();
    site.put("theirs/a", "one");
    site.put("large", &"0123456789".repeat(100_000));
    site.put("empty", "");
    symlink("theirs/a", site.host_path("link")).unwrap();
    std::fs::set_permissions(site.host_path("large"), std::fs::Permissions::from_mode(0o600)).unwrap();
    write(&*site.store, "ours/b", "two");
    let before = tree_without_special_files(&*site.store);
    let modified = std::fs::metadata(site.host_path("large")).unwrap().mtime_nsec();
    let first = site.snapshot();
    assert_eq!(tree_without_special_files(&*site.store.as_of(first.revision).unwrap()), before);
    let stat = site.store.as_of(first.revision).unwrap().stat(&at("large")).unwrap();
    assert_eq!(i64::from(stat.modified.subsec_nanos()), modified);

    // Other programs and Stead change everything.
    site.put("theirs/a", "another");
    std::fs::remove_file(site.host_path("large")).unwrap();
    std::fs::create_dir(site.host_path("large")).unwrap();
    site.put("large/inside", "x");
    std::fs::remove_file(site.host_path("link")).unwrap();
    site.put("link", "a file where a symlink was");
    std::fs::rename(site.host_path("ours"), site.host_path("moved")).unwrap();
    site.put("new/deep/file", "new");
    write(&*site.store, "empty", "no more");
    let after_changes = tree_without_special_files(&*site.store);
    let second = site.snapshot();
    assert_eq!(tree_without_special_files(&*site.store.as_of(second.revision).unwrap()), after_changes);
    assert_eq!(
        tree_without_special_files(&*site.store.as_of(first.revision).unwrap()),
        before,
        "the first snapshot must not change"
    );

    let restored = site.restore(first.revision, &[]);
    assert!(restored.done && restored.conflicts.is_empty(), "{restored:?}");
    assert_eq!(tree_without_special_files(&*site.store), before);
    assert_eq!(std::fs::metadata(site.host_path("large")).unwrap().mtime_nsec(), modified);
    site.restore(second.revision, &[]);
    assert_eq!(tree_without_special_files(&*site.store), after_changes);
    // A restore is a change like any other.
    site.vfs(&[]).undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert_eq!(tree_without_special_files(&*site.store), before);
    assert!(site.restore(first.revision, &[]).changes.is_empty());
    site.assert_verified();
}

#[test]
fn a_snapshot_copies_only_what_has_changed_since_the_last_one() {
    let site = Site::new();
    for file in 0..700 {
        site.put(&format!("{}/{file}", file % 7), &format!("content {}", file % 50));
    }
    let first = site.snapshot();
    let contents = site.database.verify(&mut |_| ()).unwrap().contents;
    assert_eq!(contents, 50, "equal content has to be stored once");
    assert_eq!(site.snapshot().revision, first.revision, "without a change there is no new revision");
    // A different change time and inode: the file is read, and its content is still the same.
    let modified = std::fs::metadata(site.host_path("1/1")).unwrap().modified().unwrap();
    std::fs::copy(site.host_path("1/1"), site.host_path("aside")).unwrap();
    std::fs::rename(site.host_path("aside"), site.host_path("1/1")).unwrap();
    std::fs::File::options().write(true).open(site.host_path("1/1")).unwrap().set_modified(modified).unwrap();
    let mut attr = site.store.as_of(site.snapshot().revision).unwrap().stat(&at("1/1")).unwrap();
    assert_eq!(attr.tag, site.store.as_of(first.revision).unwrap().stat(&at("1/1")).unwrap().tag);
    site.put("1/1", "something new");
    attr = site.store.as_of(site.snapshot().revision).unwrap().stat(&at("1/1")).unwrap();
    assert_ne!(attr.tag, site.store.as_of(first.revision).unwrap().stat(&at("1/1")).unwrap().tag);
    assert_eq!(site.database.verify(&mut |_| ()).unwrap().contents, contents + 1);
    site.assert_verified();
}

#[test]
fn scratch_files_are_not_captured_and_a_restore_leaves_them_alone() {
    let site = Site::new();
    site.put("a", "1");
    site.put("target/debug/x", "built");
    site.put("in/notes.log", "logged");
    let scratch = ["target/**", "*.log"];
    let snapshot = site.snapshot_of(&[""], &scratch);
    let captured = tree_without_special_files(&*site.store.as_of(snapshot.revision).unwrap());
    assert_eq!(captured.keys().collect::<Vec<_>>(), ["a", "in", "target"]);
    site.put("a", "2");
    site.put("target/debug/x", "built again");
    site.put("target/release/y", "built");
    site.put("in/other.log", "logged");
    let restored = site
        .vfs(&scratch)
        .restore("/", site.revision(snapshot.revision), &RestoreOptions::default())
        .unwrap();
    assert_eq!(restored.changes.len(), 1, "{restored:?}");
    // Also in a Workspace without scratch: the snapshot doesn't say that the files weren't there.
    site.put("a", "3");
    assert_eq!(site.restore(snapshot.revision, &[]).changes.len(), 1);
    assert_eq!(read(&*site.store, "target/debug/x"), "built again");
    assert!(site.host_path("target/release/y").exists() && site.host_path("in/other.log").exists());
    // A snapshot without scratch globs captures them.
    let full_snapshot = site.snapshot();
    assert_eq!(read(&*site.store.as_of(full_snapshot.revision).unwrap(), "target/release/y"), "built");
    assert_eq!(
        tree_without_special_files(&*site.store.as_of(site.snapshot_of(&[""], &scratch).revision).unwrap())
            .len(),
        3
    );
    site.assert_verified();
}

#[test]
fn only_the_size_of_a_file_that_is_too_large_is_captured_and_errors_say_so() {
    let site = Site::with(|options| options.displaced_retention.as_mut().unwrap().file_bytes = 10);
    site.put("large", "more than ten bytes");
    site.put("small", "small");
    let first = site.snapshot();
    let store_then = site.store.as_of(first.revision).unwrap();
    assert_eq!(store_then.stat(&at("large")).unwrap().size, 19);
    let error = store_then.read(&at("large"), 100).unwrap_err();
    assert!(matches!(&error, StoreError::Expired(reason) if reason.contains("keep.file_bytes")), "{error}");
    assert!(matches!(store_then.open(&at("large"), OpenPurpose::Read), Err(StoreError::Expired(_))));
    let grep = Grep::new(&GrepQuery::new("e"), None, PathGlobs::none()).unwrap();
    store_then.grep(&NodePath::root(), &grep, &mut |_| ControlFlow::Continue(())).unwrap();
    let unreadable = grep.unreadable.take();
    let [(path, error)] = &unreadable[..] else { panic!("expected one unreadable file: {unreadable:?}") };
    assert_eq!(path.as_bytes(), b"large");
    assert!(matches!(error, StoreError::Expired(reason) if reason.contains("keep.file_bytes")), "{error}");
    site.assert_verified();

    site.put("small", "other");
    assert_eq!(
        site.restore(first.revision, &[]).changes.len(),
        1,
        "an unchanged file must not block the restore"
    );
    site.put("large", "another thing of ten bytes");
    site.put("small", "other");
    let refused = site.restore(first.revision, &[]);
    assert!(!refused.done && refused.conflicts[0].why.contains("not kept"), "{refused:?}");
    assert_eq!(read(&*site.store, "small"), "other");
    assert!(site.restore(first.revision, &["/small"]).done);
    assert_eq!((read(&*site.store, "small"), read(&*site.store, "large").len()), ("small".into(), 26));

    // With a higher limit its content is captured from the next snapshot on.
    let (store, database) = open_with_ledger(site.temp.path(), |_| ());
    let second = snapshot(&store, &database, &[""], &[]);
    assert_eq!(read(&*store.as_of(second.revision).unwrap(), "large").len(), 26);
}

#[test]
fn a_snapshot_of_a_part_contains_only_that_part() {
    let site = Site::new();
    site.put("a/in/x", "1");
    site.put("b/y", "1");
    let full_snapshot = site.snapshot();
    site.put("a/in/x", "2");
    site.put("b/y", "2");
    let part = site.snapshot_of(&["a/in"], &[]);
    let store_then = site.store.as_of(part.revision).unwrap();
    assert_eq!(read(&*store_then, "a/in/x"), "2");
    for outside in ["", "a", "b", "b/y"] {
        assert!(matches!(store_then.stat(&at(outside)), Err(StoreError::Unsupported(_))), "{outside}");
    }
    site.put("a/in/x", "3");
    assert!(site.restore(part.revision, &["/a/in"]).done);
    assert_eq!((read(&*site.store, "a/in/x"), read(&*site.store, "b/y")), ("2".into(), "2".into()));
    // A single file, one that doesn't exist, and one whose directory is removed afterwards.
    let file = site.snapshot_of(&["b/y", "nowhere/z"], &[]);
    std::fs::remove_dir_all(site.host_path("b")).unwrap();
    site.put("nowhere/z", "new");
    assert!(site.restore(file.revision, &["/b/y", "/nowhere/z"]).done);
    assert_eq!(read(&*site.store, "b/y"), "2");
    assert!(!site.host_path("nowhere/z").exists());
    assert!(site.restore(full_snapshot.revision, &[]).done);
    assert_eq!((read(&*site.store, "a/in/x"), read(&*site.store, "b/y")), ("1".into(), "1".into()));
    site.assert_verified();
}

#[test]
fn diff_shows_the_changes_of_all_programs() {
    let site = Site::new();
    site.put("a", "1\n");
    site.put("gone", "x");
    let first = site.snapshot();
    let diff = |from: RevisionNumber, to: RevisionNumber| {
        let [from, to] = [from, to].map(|number| match number {
            RevisionNumber::NOW => PointInTime::Now,
            number => site.revision(number),
        });
        let differences = site.vfs(&[]).diff("/", from, to, DiffOptions::default()).unwrap();
        differences
            .iter()
            .map(|first| format!("{} {}", first.difference.as_str(), first.path))
            .collect::<Vec<_>>()
    };
    assert_eq!(diff(first.revision, RevisionNumber::NOW), [""; 0]);
    site.put("a", "2\n");
    site.put("new", "x");
    std::fs::remove_file(site.host_path("gone")).unwrap();
    let changed = ["changed /a", "removed /gone", "added /new"];
    assert_eq!(diff(first.revision, RevisionNumber::NOW), changed);
    let second = site.snapshot();
    site.put("a", "1\n");
    assert_eq!(diff(first.revision, second.revision), changed);
    assert_eq!(diff(second.revision, first.revision), ["changed /a", "added /gone", "removed /new"]);
    assert_eq!(diff(second.revision, RevisionNumber::NOW), ["changed /a"]);
    assert_eq!(diff(first.revision, RevisionNumber::NOW), ["removed /gone", "added /new"]);
}

#[test]
fn gc_removes_captures_that_no_snapshot_needs() {
    let site = Site::new();
    let day = 24 * 3_600 * 1_000_000_000;
    let collect = |days: i64| {
        let now = Timestamp(SystemClock.now().0 + days * day);
        let retention = Retention { age: std::time::Duration::from_secs(3_600), ..Retention::default() };
        let options = GcOptions { grace: std::time::Duration::ZERO, ..GcOptions::default() };
        site.database.forget(retention, now, &mut |_| ()).unwrap();
        site.database.gc(options, now, &mut |_| ()).unwrap();
        site.database.gc(options, now, &mut |_| ()).unwrap();
        site.assert_verified();
        site.database.verify(&mut |_| ()).unwrap().contents
    };
    site.put("dir/a", "first");
    site.put("dir/b", "stays");
    let first = site.snapshot();
    let before = tree_without_special_files(&*site.store);
    std::fs::set_permissions(site.host_path("dir"), std::fs::Permissions::from_mode(0o700)).unwrap();
    site.put("dir/a", "second");
    site.put("dir/c", "third");
    let second = site.snapshot();
    assert_eq!(collect(2), 4, "both snapshots still exist");
    assert_eq!(tree_without_special_files(&*site.store.as_of(first.revision).unwrap()), before);
    site.database.forget_snapshot("tester", second.id).unwrap();
    // A newer change: otherwise the version would be the newest one, and stay readable.
    write(&*site.store, "later", "x");
    assert_eq!(collect(2), 2, "gc has to remove the captures of the second snapshot");
    assert!(matches!(site.store.as_of(second.revision), Err(StoreError::Unsupported(_))));
    assert_eq!(tree_without_special_files(&*site.store.as_of(first.revision).unwrap()), before);
    // The next snapshot is complete again.
    let third = site.snapshot();
    assert_eq!(
        tree_without_special_files(&*site.store.as_of(third.revision).unwrap()),
        tree_without_special_files(&*site.store)
    );
    assert!(site.restore(first.revision, &[]).done);
    assert_eq!(tree_without_special_files(&*site.store), before);
    for snapshot in [first, third] {
        site.database.forget_snapshot("tester", snapshot.id).unwrap();
    }
    write(&*site.store, "later", "x");
    assert_eq!(collect(4), 0);
    let last = site.snapshot();
    assert_eq!(
        tree_without_special_files(&*site.store.as_of(last.revision).unwrap()),
        tree_without_special_files(&*site.store)
    );
    site.store.destroy().unwrap();
    site.assert_verified();
    let after_destroy = site.snapshot();
    assert_eq!(
        tree_without_special_files(&*site.store.as_of(after_destroy.revision).unwrap()),
        tree_without_special_files(&*site.store)
    );
}

#[test]
fn a_capture_that_another_snapshot_overtakes_is_a_conflict() {
    let site = Site::new();
    site.put("a", "1");
    let capture = || {
        let operation = change(Vec::new()).operation;
        site.store.capture(&capture_scopes(&[""], &[]), &operation, &mut |_| Ok(())).unwrap().unwrap()
    };
    let new_snapshot = || NewSnapshot {
        agent: "tester".into(),
        prefix: None,
        label: None,
        at: SystemClock.now(),
        lease: None,
    };
    let (slow, quick) = (capture(), capture());
    site.database.snapshot_with_captures(new_snapshot(), vec![quick]).unwrap();
    let overtaken = site.database.snapshot_with_captures(new_snapshot(), vec![slow]);
    assert!(matches!(overtaken, Err(StoreError::Conflict)), "{overtaken:?}");
    // A capture that was dropped overtakes nothing.
    drop(capture());
    site.put("a", "2");
    let snapshot = site.snapshot();
    assert_eq!(read(&*site.store.as_of(snapshot.revision).unwrap(), "a"), "2");
    let in_other_database = Database::in_memory().snapshot_with_captures(new_snapshot(), vec![capture()]);
    assert!(matches!(in_other_database, Err(StoreError::Invalid(_))), "{in_other_database:?}");
}

#[test]
fn a_file_with_several_names_is_restored_name_by_name() {
    let site = Site::new();
    site.put("a", "same");
    std::fs::hard_link(site.host_path("a"), site.host_path("b")).unwrap();
    std::fs::hard_link(site.host_path("a"), site.host_path("c")).unwrap();
    let snapshot = site.snapshot();
    let before = tree_without_special_files(&*site.store);
    std::fs::remove_file(site.host_path("b")).unwrap();
    assert_eq!(
        site.restore(snapshot.revision, &[]).changes.len(),
        1,
        "only the removed name has to be restored"
    );
    assert_eq!(tree_without_special_files(&*site.store), before);
    site.put("a", "both of them");
    assert_eq!(read(&*site.store, "c"), "both of them");
    for path in ["/a", "/b", "/c"] {
        assert!(site.restore(snapshot.revision, &[path]).done);
    }
    assert_eq!(tree_without_special_files(&*site.store), before);
}

#[test]
fn every_snapshot_can_be_restored_whichever_program_changes_what() {
    let seeds = if std::env::var_os("STEAD_TEST_LONG").is_some() { 200 } else { 12 };
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let site = Site::with(|options| options.displaced_retention.as_mut().unwrap().bytes = 1 << 40);
        let mut snapshots: Vec<(RevisionNumber, Tree)> = Vec::new();
        for _ in 0..60 {
            let names = ["a", "b", "a/x", "a/y", "b/x", "b/x/deep", "c/d/e", "c"];
            let (path, other_path) = (random.choice(names).unwrap(), random.choice(names).unwrap());
            let content = format!("{} ", random.u8(..20)).repeat(random.usize(..40_000));
            match random.u8(..12) {
                // Each of these may find something in its way, and then nothing happens.
                0..2 => drop(apply(&*site.store, write_step(path, &content))),
                2 => drop(apply(&*site.store, remove_step(path, Subtree::Any))),
                3 => drop(apply(&*site.store, rename_step(path, other_path, Replace::Refuse))),
                4..6 => {
                    let _ = std::fs::create_dir_all(site.host_path(path).parent().unwrap());
                    let _ = std::fs::write(site.host_path(path), &content);
                }
                6 => {
                    let _ = std::fs::remove_file(site.host_path(path));
                    let _ = std::fs::remove_dir_all(site.host_path(path));
                }
                7 => drop(std::fs::rename(site.host_path(path), site.host_path(other_path))),
                8 => drop(symlink(other_path, site.host_path(path))),
                9 => {
                    let mode = if site.host_path(path).is_dir() { 0o711 } else { 0o640 };
                    let _ =
                        std::fs::set_permissions(site.host_path(path), std::fs::Permissions::from_mode(mode));
                }
                10 => snapshots.push((site.snapshot().revision, tree_without_special_files(&*site.store))),
                _ => {
                    if let Some((revision, expected)) = random.choice(&snapshots) {
                        let restored = site.restore(*revision, &[]);
                        assert!(restored.done, "seed {seed}: {restored:?}");
                        assert_eq!(tree_without_special_files(&*site.store), *expected, "seed {seed}");
                    }
                }
            }
        }
        for (revision, expected) in &snapshots {
            assert_eq!(
                tree_without_special_files(&*site.store.as_of(*revision).unwrap()),
                *expected,
                "seed {seed}"
            );
            assert!(site.restore(*revision, &[]).done, "seed {seed}");
            assert_eq!(tree_without_special_files(&*site.store), *expected, "seed {seed}");
            let differences = site
                .vfs(&[])
                .diff("/", site.revision(*revision), PointInTime::Now, DiffOptions::default())
                .unwrap();
            assert_eq!(differences, [], "seed {seed}");
        }
        site.assert_verified();
    }
}

#[test]
fn a_backup_contains_what_its_snapshots_captured() {
    let site = Site::new();
    site.put("a", "one");
    write(&*site.store, "ours", "1");
    let first = site.snapshot();
    let before = tree_without_special_files(&*site.store);
    let copy = site.temp.path().join("copy.db");
    site.database.backup(&copy, &mut |_| ()).unwrap();
    site.put("a", "two");
    write(&*site.store, "ours", "2");
    let second = site.snapshot();
    site.database.restore_backup(&copy, &mut |_| ()).unwrap();
    site.assert_verified();
    assert_eq!(tree_without_special_files(&*site.store.as_of(first.revision).unwrap()), before);
    assert!(site.store.as_of(second.revision).is_err());
    let third = site.snapshot();
    assert_eq!(
        tree_without_special_files(&*site.store.as_of(third.revision).unwrap()),
        tree_without_special_files(&*site.store)
    );
    assert!(site.restore(first.revision, &[]).done);
    assert_eq!(tree_without_special_files(&*site.store), before);
    site.assert_verified();
}

#[test]
fn a_file_that_is_being_replaced_is_captured_in_one_consistent_state() {
    let site = Site::new();
    let large = |letter: char| letter.to_string().repeat(3 << 20);
    site.put("busy", &large('a'));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for letter in "bcdefghijklmnopqrstuvwxyz".chars().cycle() {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                std::fs::write(site.host_path("next"), large(letter)).unwrap();
                std::fs::rename(site.host_path("next"), site.host_path("busy")).unwrap();
                write(&*site.store, "ours", &letter.to_string());
            }
        });
        for _ in 0..10 {
            let snapshot = site.snapshot();
            let captured = read(&*site.store.as_of(snapshot.revision).unwrap(), "busy");
            assert!(captured.bytes().all(|byte| byte == captured.as_bytes()[0]) && captured.len() == 3 << 20);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    site.assert_verified();
}

#[test]
fn a_restore_brings_back_the_time_of_a_file_that_the_host_only_touched() {
    let site = Site::new();
    site.put("f", "1");
    let modified = std::fs::metadata(site.host_path("f")).unwrap().modified().unwrap();
    let snapshot = site.snapshot();
    let later = modified + std::time::Duration::from_secs(3_600);
    std::fs::File::options().write(true).open(site.host_path("f")).unwrap().set_modified(later).unwrap();
    let restored = site.restore(snapshot.revision, &[]);
    assert_eq!(restored.changes.len(), 1, "{restored:?}");
    assert_eq!(std::fs::metadata(site.host_path("f")).unwrap().modified().unwrap(), modified);
    assert!(site.restore(snapshot.revision, &[]).changes.is_empty());
}

#[test]
fn blame_shows_the_present_lines_and_which_of_them_another_program_wrote() {
    let site = Site::new();
    let vfs = site.vfs(&[]);
    let blame = || -> Vec<String> {
        let lines = vfs.blame("/f").unwrap().into_iter().map(|line| {
            let writer = match (&line.operation, line.by_another_program) {
                (Some(operation), false) => &operation.identity.agent,
                (None, true) => "(other program)",
                (None, false) => "(before)",
                (Some(_), true) => unreachable!(),
            };
            format!("{writer} {}", String::from_utf8_lossy(&line.line).trim_end())
        });
        lines.collect()
    };
    site.put("f", "before\n");
    assert_eq!(blame(), ["(before) before"]);
    vfs.read("/f").unwrap();
    vfs.write("/f", "before\nmine\n").unwrap();
    assert_eq!(blame(), ["(before) before", "tester mine"]);
    site.put("f", "before\nhost\n");
    assert_eq!(blame(), ["(before) before", "(other program) host"]);
    // Content that another program wrote between two revisions isn't the second one's.
    vfs.append("/f", "more\n").unwrap();
    assert_eq!(blame(), ["(before) before", "(other program) host", "tester more"]);
    // A program that replaces the file.
    site.put("g", "host\nnew\n");
    std::fs::rename(site.host_path("g"), site.host_path("f")).unwrap();
    let lines: Vec<_> = vfs.blame("/f").unwrap().into_iter().map(|line| line.line).collect();
    assert_eq!(lines, [b"host\n", &b"new\n"[..]]);
}
