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
        let (store, database) = opened(temp.path(), change);
        Site { temp, root, store, database }
    }

    fn host(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn put(&self, path: &str, content: &str) {
        std::fs::create_dir_all(self.host(path).parent().unwrap()).unwrap();
        std::fs::write(self.host(path), content).unwrap();
    }

    fn door(&self, scratch: &[&str]) -> Vfs {
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

    fn restore(&self, to: RevisionNumber, paths: &[&str]) -> stead_core::vfs::RevertResult {
        let paths = paths.iter().map(|path| VfsPath::parse(path).unwrap()).collect();
        self.door(&[]).restore("/", self.revision(to), &RestoreOptions { paths, dry_run: false }).unwrap()
    }

    fn verified(&self) {
        assert_eq!(self.database.verify(&mut |_| ()).unwrap().problems, [""; 0]);
        assert_eq!(self.store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
    }
}

fn opened(temp: &Path, change: impl Fn(&mut PhysicalOptions)) -> (Arc<PhysicalStore>, Database) {
    let fast = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    let database = Database::open(temp.join("stead.db"), fast).unwrap();
    let store = open(temp, |options| {
        options.ledger = database.clone().into();
        change(options);
    });
    (Arc::new(store), database)
}

fn extents(tops: &[&str], scratch: &[&str]) -> CaptureScopes {
    let globs = || PathGlobs::new(scratch, Anchor::AnyDirectory).unwrap();
    let extent = |top: &&str| CaptureScope::new(StorePath::from_checked(*top), StorePath::empty(), globs());
    tops.iter().map(extent).collect()
}

fn snapshot(store: &PhysicalStore, database: &Database, tops: &[&str], scratch: &[&str]) -> Snapshot {
    let at = SystemClock.now();
    let operation = change(Vec::new()).operation;
    let taken = store.capture(&extents(tops, scratch), &operation, &mut |_| Ok(())).unwrap().unwrap();
    let new = NewSnapshot { agent: "tester".into(), prefix: None, label: None, at };
    database.snapshot_with_captures(new, vec![taken]).unwrap()
}

/// What a Store contains, without special files, which a snapshot doesn't capture.
fn held(store: &dyn Store) -> Tree {
    let mut tree = tree(store);
    tree.retain(|_, (kind, ..)| !matches!(kind, NodeKind::Special(_)));
    tree
}

#[test]
fn a_snapshot_holds_what_anyone_has_put_there() {
    let site = Site::new();
    site.put("theirs/a", "one");
    site.put("large", &"0123456789".repeat(100_000));
    site.put("empty", "");
    symlink("theirs/a", site.host("link")).unwrap();
    std::fs::set_permissions(site.host("large"), std::fs::Permissions::from_mode(0o600)).unwrap();
    write(&*site.store, "ours/b", "two");
    let before = held(&*site.store);
    let modified = std::fs::metadata(site.host("large")).unwrap().mtime_nsec();
    let first = site.snapshot();
    assert_eq!(held(&*site.store.as_of(first.revision).unwrap()), before);
    let stat = site.store.as_of(first.revision).unwrap().stat(&at("large")).unwrap();
    assert_eq!(i64::from(stat.modified.subsec_nanos()), modified);

    // Other programs and Stead change everything.
    site.put("theirs/a", "another");
    std::fs::remove_file(site.host("large")).unwrap();
    std::fs::create_dir(site.host("large")).unwrap();
    site.put("large/inside", "x");
    std::fs::remove_file(site.host("link")).unwrap();
    site.put("link", "a file where a symlink was");
    std::fs::rename(site.host("ours"), site.host("moved")).unwrap();
    site.put("new/deep/file", "new");
    write(&*site.store, "empty", "no more");
    let upheaval = held(&*site.store);
    let second = site.snapshot();
    assert_eq!(held(&*site.store.as_of(second.revision).unwrap()), upheaval);
    assert_eq!(held(&*site.store.as_of(first.revision).unwrap()), before, "the first holds what it held");

    let done = site.restore(first.revision, &[]);
    assert!(done.done && done.conflicts.is_empty(), "{done:?}");
    assert_eq!(held(&*site.store), before);
    assert_eq!(std::fs::metadata(site.host("large")).unwrap().mtime_nsec(), modified);
    site.restore(second.revision, &[]);
    assert_eq!(held(&*site.store), upheaval);
    // A restore is a change like any other.
    site.door(&[]).undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert_eq!(held(&*site.store), before);
    assert!(site.restore(first.revision, &[]).changes.is_empty());
    site.verified();
}

#[test]
fn a_snapshot_copies_only_what_has_changed_since_the_last_one() {
    let site = Site::new();
    for file in 0..700 {
        site.put(&format!("{}/{file}", file % 7), &format!("content {}", file % 50));
    }
    let first = site.snapshot();
    let contents = site.database.verify(&mut |_| ()).unwrap().contents;
    assert_eq!(contents, 50, "what is the same is stored once");
    assert_eq!(site.snapshot().revision, first.revision, "nothing was written");
    // A different change time and inode: the file is read, and its content is still the same.
    let modified = std::fs::metadata(site.host("1/1")).unwrap().modified().unwrap();
    std::fs::copy(site.host("1/1"), site.host("aside")).unwrap();
    std::fs::rename(site.host("aside"), site.host("1/1")).unwrap();
    std::fs::File::options().write(true).open(site.host("1/1")).unwrap().set_modified(modified).unwrap();
    let mut looked = site.store.as_of(site.snapshot().revision).unwrap().stat(&at("1/1")).unwrap();
    assert_eq!(looked.tag, site.store.as_of(first.revision).unwrap().stat(&at("1/1")).unwrap().tag);
    site.put("1/1", "something new");
    looked = site.store.as_of(site.snapshot().revision).unwrap().stat(&at("1/1")).unwrap();
    assert_ne!(looked.tag, site.store.as_of(first.revision).unwrap().stat(&at("1/1")).unwrap().tag);
    assert_eq!(site.database.verify(&mut |_| ()).unwrap().contents, contents + 1);
    site.verified();
}

#[test]
fn what_has_no_history_is_left_out_and_left_alone() {
    let site = Site::new();
    site.put("a", "1");
    site.put("target/debug/x", "built");
    site.put("in/notes.log", "logged");
    let scratch = ["target/**", "*.log"];
    let made = site.snapshot_of(&[""], &scratch);
    let past = held(&*site.store.as_of(made.revision).unwrap());
    assert_eq!(past.keys().collect::<Vec<_>>(), ["a", "in", "target"]);
    site.put("a", "2");
    site.put("target/debug/x", "built again");
    site.put("target/release/y", "built");
    site.put("in/other.log", "logged");
    let done =
        site.door(&scratch).restore("/", site.revision(made.revision), &RestoreOptions::default()).unwrap();
    assert_eq!(done.changes.len(), 1, "{done:?}");
    // Also in a Workspace without scratch: the snapshot doesn't say that the files weren't there.
    site.put("a", "3");
    assert_eq!(site.restore(made.revision, &[]).changes.len(), 1);
    assert_eq!(read(&*site.store, "target/debug/x"), "built again");
    assert!(site.host("target/release/y").exists() && site.host("in/other.log").exists());
    // A snapshot without scratch globs captures them.
    let all = site.snapshot();
    assert_eq!(read(&*site.store.as_of(all.revision).unwrap(), "target/release/y"), "built");
    assert_eq!(held(&*site.store.as_of(site.snapshot_of(&[""], &scratch).revision).unwrap()).len(), 3);
    site.verified();
}

#[test]
fn of_a_file_that_is_too_large_only_its_size_is_held_and_everyone_says_so() {
    let site = Site::with(|options| options.displaced_retention.as_mut().unwrap().file_bytes = 10);
    site.put("large", "more than ten bytes");
    site.put("small", "small");
    let made = site.snapshot();
    let past = site.store.as_of(made.revision).unwrap();
    assert_eq!(past.stat(&at("large")).unwrap().size, 19);
    let told = past.read(&at("large"), 100).unwrap_err();
    assert!(matches!(&told, StoreError::Expired(what) if what.contains("keep.file_bytes")), "{told}");
    assert!(matches!(past.open(&at("large"), OpenPurpose::Read), Err(StoreError::Expired(_))));
    let grep = Grep::new(&GrepQuery::new("e"), None, PathGlobs::none()).unwrap();
    past.grep(&NodePath::root(), &grep, &mut |_| ControlFlow::Continue(())).unwrap();
    let unread = grep.unreadable.take();
    let [(path, told)] = &unread[..] else { panic!("one file: {unread:?}") };
    assert_eq!(path.as_bytes(), b"large");
    assert!(matches!(told, StoreError::Expired(what) if what.contains("keep.file_bytes")), "{told}");
    site.verified();

    site.put("small", "other");
    assert_eq!(site.restore(made.revision, &[]).changes.len(), 1, "what has not changed is in nobody's way");
    site.put("large", "another thing of ten bytes");
    site.put("small", "other");
    let refused = site.restore(made.revision, &[]);
    assert!(!refused.done && refused.conflicts[0].why.contains("not kept"), "{refused:?}");
    assert_eq!(read(&*site.store, "small"), "other");
    assert!(site.restore(made.revision, &["/small"]).done);
    assert_eq!((read(&*site.store, "small"), read(&*site.store, "large").len()), ("small".into(), 26));

    // With a higher limit its content is captured from the next snapshot on.
    let (store, database) = opened(site.temp.path(), |_| ());
    let made = snapshot(&store, &database, &[""], &[]);
    assert_eq!(read(&*store.as_of(made.revision).unwrap(), "large").len(), 26);
}

#[test]
fn a_snapshot_holds_the_part_that_it_was_made_of() {
    let site = Site::new();
    site.put("a/in/x", "1");
    site.put("b/y", "1");
    let all = site.snapshot();
    site.put("a/in/x", "2");
    site.put("b/y", "2");
    let part = site.snapshot_of(&["a/in"], &[]);
    let past = site.store.as_of(part.revision).unwrap();
    assert_eq!(read(&*past, "a/in/x"), "2");
    for beside in ["", "a", "b", "b/y"] {
        assert!(matches!(past.stat(&at(beside)), Err(StoreError::Unsupported(_))), "{beside}");
    }
    site.put("a/in/x", "3");
    assert!(site.restore(part.revision, &["/a/in"]).done);
    assert_eq!((read(&*site.store, "a/in/x"), read(&*site.store, "b/y")), ("2".into(), "2".into()));
    // A single file, one that doesn't exist, and one whose directory is removed afterwards.
    let file = site.snapshot_of(&["b/y", "nowhere/z"], &[]);
    std::fs::remove_dir_all(site.host("b")).unwrap();
    site.put("nowhere/z", "new");
    assert!(site.restore(file.revision, &["/b/y", "/nowhere/z"]).done);
    assert_eq!(read(&*site.store, "b/y"), "2");
    assert!(!site.host("nowhere/z").exists());
    assert!(site.restore(all.revision, &[]).done);
    assert_eq!((read(&*site.store, "a/in/x"), read(&*site.store, "b/y")), ("1".into(), "1".into()));
    site.verified();
}

#[test]
fn what_differs_is_told_whoever_made_it_so() {
    let site = Site::new();
    site.put("a", "1\n");
    site.put("gone", "x");
    let one = site.snapshot();
    let diff = |from: RevisionNumber, to: RevisionNumber| {
        let [from, to] = [from, to].map(|number| match number {
            RevisionNumber::NOW => PointInTime::Now,
            number => site.revision(number),
        });
        let found = site.door(&[]).diff("/", from, to, DiffOptions::default()).unwrap();
        found.iter().map(|one| format!("{} {}", one.difference.as_str(), one.path)).collect::<Vec<_>>()
    };
    assert_eq!(diff(one.revision, RevisionNumber::NOW), [""; 0]);
    site.put("a", "2\n");
    site.put("new", "x");
    std::fs::remove_file(site.host("gone")).unwrap();
    let changed = ["changed /a", "removed /gone", "added /new"];
    assert_eq!(diff(one.revision, RevisionNumber::NOW), changed);
    let two = site.snapshot();
    site.put("a", "1\n");
    assert_eq!(diff(one.revision, two.revision), changed);
    assert_eq!(diff(two.revision, one.revision), ["changed /a", "added /gone", "removed /new"]);
    assert_eq!(diff(two.revision, RevisionNumber::NOW), ["changed /a"]);
    assert_eq!(diff(one.revision, RevisionNumber::NOW), ["removed /gone", "added /new"]);
}

#[test]
fn what_no_snapshot_needs_is_given_back() {
    let site = Site::new();
    let day = 24 * 3_600 * 1_000_000_000;
    let collect = |days: i64| {
        let now = Timestamp(SystemClock.now().0 + days * day);
        let retention = Retention { age: std::time::Duration::from_secs(3_600), ..Retention::default() };
        let options = GcOptions { grace: std::time::Duration::ZERO, ..GcOptions::default() };
        site.database.forget(retention, now, &mut |_| ()).unwrap();
        site.database.gc(options, now, &mut |_| ()).unwrap();
        site.database.gc(options, now, &mut |_| ()).unwrap();
        site.verified();
        site.database.verify(&mut |_| ()).unwrap().contents
    };
    site.put("dir/a", "first");
    site.put("dir/b", "stays");
    let first = site.snapshot();
    let before = held(&*site.store);
    std::fs::set_permissions(site.host("dir"), std::fs::Permissions::from_mode(0o700)).unwrap();
    site.put("dir/a", "second");
    site.put("dir/c", "third");
    let second = site.snapshot();
    assert_eq!(collect(2), 4, "both snapshots are there");
    assert_eq!(held(&*site.store.as_of(first.revision).unwrap()), before);
    site.database.forget_snapshot("tester", second.id).unwrap();
    // A newer change: otherwise the version would be the newest one, and stay readable.
    write(&*site.store, "later", "x");
    assert_eq!(collect(2), 2, "what only the second one held is gone");
    assert!(matches!(site.store.as_of(second.revision), Err(StoreError::Unsupported(_))));
    assert_eq!(held(&*site.store.as_of(first.revision).unwrap()), before);
    // The next snapshot is complete again.
    let third = site.snapshot();
    assert_eq!(held(&*site.store.as_of(third.revision).unwrap()), held(&*site.store));
    assert!(site.restore(first.revision, &[]).done);
    assert_eq!(held(&*site.store), before);
    for snapshot in [first, third] {
        site.database.forget_snapshot("tester", snapshot.id).unwrap();
    }
    write(&*site.store, "later", "x");
    assert_eq!(collect(4), 0);
    let last = site.snapshot();
    assert_eq!(held(&*site.store.as_of(last.revision).unwrap()), held(&*site.store));
    site.store.destroy().unwrap();
    site.verified();
    let again = site.snapshot();
    assert_eq!(held(&*site.store.as_of(again.revision).unwrap()), held(&*site.store));
}

#[test]
fn a_snapshot_that_another_one_overtakes_is_made_again() {
    let site = Site::new();
    site.put("a", "1");
    let take = || {
        let operation = change(Vec::new()).operation;
        site.store.capture(&extents(&[""], &[]), &operation, &mut |_| Ok(())).unwrap().unwrap()
    };
    let new = || NewSnapshot { agent: "tester".into(), prefix: None, label: None, at: SystemClock.now() };
    let (slow, quick) = (take(), take());
    site.database.snapshot_with_captures(new(), vec![quick]).unwrap();
    let overtaken = site.database.snapshot_with_captures(new(), vec![slow]);
    assert!(matches!(overtaken, Err(StoreError::Conflict)), "{overtaken:?}");
    // A capture that was dropped overtakes nothing.
    drop(take());
    site.put("a", "2");
    let made = site.snapshot();
    assert_eq!(read(&*site.store.as_of(made.revision).unwrap(), "a"), "2");
    let elsewhere = Database::in_memory().snapshot_with_captures(new(), vec![take()]);
    assert!(matches!(elsewhere, Err(StoreError::Invalid(_))), "{elsewhere:?}");
}

#[test]
fn a_file_with_several_names_is_restored_name_by_name() {
    let site = Site::new();
    site.put("a", "same");
    std::fs::hard_link(site.host("a"), site.host("b")).unwrap();
    std::fs::hard_link(site.host("a"), site.host("c")).unwrap();
    let made = site.snapshot();
    let before = held(&*site.store);
    std::fs::remove_file(site.host("b")).unwrap();
    assert_eq!(site.restore(made.revision, &[]).changes.len(), 1, "the others hold what they held");
    assert_eq!(held(&*site.store), before);
    site.put("a", "both of them");
    assert_eq!(read(&*site.store, "c"), "both of them");
    for path in ["/a", "/b", "/c"] {
        assert!(site.restore(made.revision, &[path]).done);
    }
    assert_eq!(held(&*site.store), before);
}

#[test]
fn every_snapshot_can_be_gone_back_to_whoever_changes_what() {
    let seeds = if std::env::var_os("STEAD_TEST_LONG").is_some() { 200 } else { 12 };
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let site = Site::with(|options| options.displaced_retention.as_mut().unwrap().bytes = 1 << 40);
        let mut made: Vec<(RevisionNumber, Tree)> = Vec::new();
        for _ in 0..60 {
            let names = ["a", "b", "a/x", "a/y", "b/x", "b/x/deep", "c/d/e", "c"];
            let (one, other) = (random.choice(names).unwrap(), random.choice(names).unwrap());
            let content = format!("{} ", random.u8(..20)).repeat(random.usize(..40_000));
            match random.u8(..12) {
                // Each of these may find something in its way, and then nothing happens.
                0..2 => drop(apply(&*site.store, write_step(one, &content))),
                2 => drop(apply(&*site.store, remove_step(one, Subtree::Any))),
                3 => drop(apply(&*site.store, rename_step(one, other, Replace::Refuse))),
                4..6 => {
                    let _ = std::fs::create_dir_all(site.host(one).parent().unwrap());
                    let _ = std::fs::write(site.host(one), &content);
                }
                6 => {
                    let _ = std::fs::remove_file(site.host(one));
                    let _ = std::fs::remove_dir_all(site.host(one));
                }
                7 => drop(std::fs::rename(site.host(one), site.host(other))),
                8 => drop(symlink(other, site.host(one))),
                9 => {
                    let mode = if site.host(one).is_dir() { 0o711 } else { 0o640 };
                    let _ = std::fs::set_permissions(site.host(one), std::fs::Permissions::from_mode(mode));
                }
                10 => made.push((site.snapshot().revision, held(&*site.store))),
                _ => {
                    if let Some((version, was)) = random.choice(&made) {
                        let done = site.restore(*version, &[]);
                        assert!(done.done, "seed {seed}: {done:?}");
                        assert_eq!(held(&*site.store), *was, "seed {seed}");
                    }
                }
            }
        }
        for (version, was) in &made {
            assert_eq!(held(&*site.store.as_of(*version).unwrap()), *was, "seed {seed}");
            assert!(site.restore(*version, &[]).done, "seed {seed}");
            assert_eq!(held(&*site.store), *was, "seed {seed}");
            let differs = site
                .door(&[])
                .diff("/", site.revision(*version), PointInTime::Now, DiffOptions::default())
                .unwrap();
            assert_eq!(differs, [], "seed {seed}");
        }
        site.verified();
    }
}

#[test]
fn a_backup_has_what_its_snapshots_hold() {
    let site = Site::new();
    site.put("a", "one");
    write(&*site.store, "ours", "1");
    let first = site.snapshot();
    let before = held(&*site.store);
    let copy = site.temp.path().join("copy.db");
    site.database.backup(&copy, &mut |_| ()).unwrap();
    site.put("a", "two");
    write(&*site.store, "ours", "2");
    let second = site.snapshot();
    site.database.restore_backup(&copy, &mut |_| ()).unwrap();
    site.verified();
    assert_eq!(held(&*site.store.as_of(first.revision).unwrap()), before);
    assert!(site.store.as_of(second.revision).is_err());
    let third = site.snapshot();
    assert_eq!(held(&*site.store.as_of(third.revision).unwrap()), held(&*site.store));
    assert!(site.restore(first.revision, &[]).done);
    assert_eq!(held(&*site.store), before);
    site.verified();
}

#[test]
fn a_file_that_others_write_to_is_held_as_it_was_at_one_moment() {
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
                std::fs::write(site.host("next"), large(letter)).unwrap();
                std::fs::rename(site.host("next"), site.host("busy")).unwrap();
                write(&*site.store, "ours", &letter.to_string());
            }
        });
        for _ in 0..10 {
            let made = site.snapshot();
            let held = read(&*site.store.as_of(made.revision).unwrap(), "busy");
            assert!(held.bytes().all(|byte| byte == held.as_bytes()[0]) && held.len() == 3 << 20);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    site.verified();
}

#[test]
fn a_file_that_the_host_only_touched_gets_its_time_back() {
    let site = Site::new();
    site.put("f", "1");
    let modified = std::fs::metadata(site.host("f")).unwrap().modified().unwrap();
    let made = site.snapshot();
    let later = modified + std::time::Duration::from_secs(3_600);
    std::fs::File::options().write(true).open(site.host("f")).unwrap().set_modified(later).unwrap();
    let restored = site.restore(made.revision, &[]);
    assert_eq!(restored.changes.len(), 1, "{restored:?}");
    assert_eq!(std::fs::metadata(site.host("f")).unwrap().modified().unwrap(), modified);
    assert!(site.restore(made.revision, &[]).changes.is_empty());
}
