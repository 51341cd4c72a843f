//! A call that is cancelled while a Store makes its change: nothing of it has happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stead_core::monitor::{CallMonitor, StopReason};
use stead_core::testkit::snapshot_of;
use stead_core::vfs::{LostUpdates, Overwrite, RemoveOptions, RestoreOptions, UndoOptions, UndoTarget};
use stead_core::{AccessScope, Error, Identity, Mount, Store, Vfs, VfsPath, Workspace};
use stead_stores::MemoryStore;

/// How many files the tree has.
const FILES: usize = 12;

/// Cancels a call after it has asked this many times whether to stop.
#[derive(Debug)]
struct StopAfter(AtomicU64);

impl CallMonitor for StopAfter {
    fn progress(&self, _: u64, _: Option<u64>) {}

    fn stop_reason(&self) -> Option<StopReason> {
        let remaining =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |remaining| remaining.checked_sub(1));
        remaining.is_err().then_some(StopReason::Cancelled)
    }
}

/// Cancels a call after its tree has been loaded and it has asked this many more times.
#[derive(Debug)]
struct AfterLoading {
    loaded: AtomicU64,
    remaining: AtomicU64,
}

impl CallMonitor for AfterLoading {
    fn progress(&self, done: u64, total: Option<u64>) {
        self.loaded.store(u64::from(Some(done) == total), Ordering::Relaxed);
    }

    fn stop_reason(&self) -> Option<StopReason> {
        let decrement = |count: u64| count.checked_sub(1);
        let is_used_up =
            || self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_err();
        (self.loaded.load(Ordering::Relaxed) == 1 && is_used_up()).then_some(StopReason::Cancelled)
    }
}

/// Two Stores of different kinds, and an agent that has both.
struct Fixture {
    stores: [Arc<dyn Store>; 2],
    vfs: Vfs,
    #[cfg(target_os = "linux")]
    _directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
        #[cfg(target_os = "linux")]
        let (other, _directory) = crate::in_a_directory();
        #[cfg(not(target_os = "linux"))]
        let other: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut builder = Vfs::builder(Identity::agent("a")).lost_updates(LostUpdates::Allow);
        for (prefix, store) in [("/v", &memory), ("/p", &other)] {
            let prefix = VfsPath::parse(prefix).unwrap();
            builder = builder.workspace(Workspace::new(prefix, AccessScope::ReadWrite, Mount::from(store)));
        }
        let vfs = builder.build().unwrap();
        for prefix in ["/v", "/p"] {
            let operation = vfs.operation("fill");
            for number in 0..FILES {
                operation.write(format!("{prefix}/tree/{}/{number}", number % 3), "text").unwrap();
            }
        }
        Fixture {
            stores: [memory, other],
            vfs,
            #[cfg(target_os = "linux")]
            _directory,
        }
    }

    fn trees(&self) -> Vec<String> {
        self.stores.iter().map(|store| format!("{:?}", snapshot_of(&**store))).collect()
    }
}

/// Cancels a call each time it asks whether to stop, until it succeeds. Returns how often it was cancelled.
#[track_caller]
fn cancel_at_every_check(prepare: impl Fn(&Fixture), call: impl Fn(&Vfs) -> Result<(), Error>) -> u64 {
    for checks in 0.. {
        let fixture = Fixture::new();
        prepare(&fixture);
        let before = fixture.trees();
        match call(&fixture.vfs.with_monitor(Arc::new(StopAfter(AtomicU64::new(checks))))) {
            Ok(()) => {
                assert!(fixture.trees() != before);
                return checks;
            }
            Err(Error::Stopped(StopReason::Cancelled)) => {
                assert!(
                    fixture.trees() == before,
                    "something has changed after a cancellation at check {checks}"
                );
            }
            Err(error) => panic!("at {checks}: {error}"),
        }
    }
    unreachable!()
}

#[test]
fn a_copy_to_another_store_can_be_cancelled_while_its_files_are_put_into_place() {
    for (from, to) in [("/v/tree", "/p/copy"), ("/p/tree", "/v/copy")] {
        for remaining in [1, 2, FILES as u64 / 2, FILES as u64] {
            let fixture = Fixture::new();
            let before = fixture.trees();
            let monitor = AfterLoading { loaded: AtomicU64::new(0), remaining: AtomicU64::new(remaining) };
            let copied = fixture.vfs.with_monitor(Arc::new(monitor)).copy(from, to, Overwrite::Refuse);
            assert!(
                matches!(copied, Err(Error::Stopped(StopReason::Cancelled))),
                "{from} {remaining}: {copied:?}"
            );
            assert!(fixture.trees() == before, "{from} {remaining}: something has changed");
        }
    }
}

#[test]
fn a_move_to_another_store_can_be_cancelled_at_any_time() {
    for (from, to) in [("/v/tree", "/p/moved"), ("/p/tree", "/v/moved")] {
        let times = cancel_at_every_check(|_| (), |vfs| vfs.rename(from, to, Overwrite::Refuse).map(drop));
        // The call asks for each file when it is loaded, put into place, compared and removed.
        assert!(times >= 4 * FILES as u64, "{from}: {times}");
    }
}

#[test]
fn a_copy_within_a_store_can_be_cancelled_at_any_time() {
    for (from, to, minimum) in [("/v/tree", "/v/copy", 2), ("/p/tree", "/p/copy", FILES as u64)] {
        let times = cancel_at_every_check(|_| (), |vfs| vfs.copy(from, to, Overwrite::Refuse).map(drop));
        assert!(times >= minimum, "{from}: {times}");
    }
}

#[test]
fn a_delete_of_a_tree_can_be_cancelled_before_it_happens() {
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    for tree in ["/v/tree", "/p/tree"] {
        let times = cancel_at_every_check(|_| (), |vfs| vfs.remove_directory(tree, recursive).map(drop));
        assert!(times >= 1, "{tree}: {times}");
    }
}

#[test]
fn an_undo_can_be_cancelled_at_any_time() {
    let undo =
        |vfs: &Vfs| vfs.undo(UndoTarget::Last(1), UndoOptions::default()).map(|undone| assert!(undone.done));
    for (from, to) in [("/v/tree", "/p/copy"), ("/p/tree", "/v/copy")] {
        let copy = |fixture: &Fixture| drop(fixture.vfs.copy(from, to, Overwrite::Refuse).unwrap());
        let times = cancel_at_every_check(copy, undo);
        assert!(times >= FILES as u64, "{from}: {times}");
    }
}

#[test]
fn a_restore_can_be_cancelled_at_any_time() {
    for (index, prefix) in ["/v", "/p"].into_iter().enumerate() {
        let change = |fixture: &Fixture| {
            for number in 0..FILES {
                fixture.vfs.write(format!("{prefix}/tree/{}/{number}", number % 3), "other").unwrap();
            }
        };
        let restore = |vfs: &Vfs| {
            let log = vfs.log(&Default::default()).unwrap();
            let entries = log.iter().filter(|entry| entry.changes[0].path.as_str().starts_with(prefix));
            let revisions =
                entries.filter(|entry| entry.operation.tool == "fill").map(|entry| entry.revision);
            vfs.restore(prefix, revisions.max().unwrap(), &RestoreOptions::default()).map(drop)
        };
        let times = cancel_at_every_check(change, restore);
        assert!(times >= FILES as u64, "{index}: {times}");
    }
}
