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
struct Patience(AtomicU64);

impl CallMonitor for Patience {
    fn progress(&self, _: u64, _: Option<u64>) {}

    fn stop_reason(&self) -> Option<StopReason> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.is_err().then_some(StopReason::Cancelled)
    }
}

/// Cancels a call after its tree has been loaded and it has asked this many more times.
#[derive(Debug)]
struct AfterLoading {
    loaded: AtomicU64,
    more: AtomicU64,
}

impl CallMonitor for AfterLoading {
    fn progress(&self, done: u64, total: Option<u64>) {
        self.loaded.store(u64::from(Some(done) == total), Ordering::Relaxed);
    }

    fn stop_reason(&self) -> Option<StopReason> {
        let lets = |left: u64| left.checked_sub(1);
        let is_over = || self.more.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lets).is_err();
        (self.loaded.load(Ordering::Relaxed) == 1 && is_over()).then_some(StopReason::Cancelled)
    }
}

/// Two Stores of different kinds, and an agent that has both.
struct World {
    stores: [Arc<dyn Store>; 2],
    vfs: Vfs,
    #[cfg(target_os = "linux")]
    _directory: tempfile::TempDir,
}

impl World {
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
            let many = vfs.operation("fill");
            for number in 0..FILES {
                many.write(format!("{prefix}/tree/{}/{number}", number % 3), "text").unwrap();
            }
        }
        World {
            stores: [memory, other],
            vfs,
            #[cfg(target_os = "linux")]
            _directory,
        }
    }

    fn shows(&self) -> Vec<String> {
        self.stores.iter().map(|store| format!("{:?}", snapshot_of(&**store))).collect()
    }
}

/// Cancels a call each time it asks whether to stop, until it succeeds. Returns how often it was cancelled.
#[track_caller]
fn cancelled_everywhere(prepare: impl Fn(&World), act: impl Fn(&Vfs) -> Result<(), Error>) -> u64 {
    for patience in 0.. {
        let world = World::new();
        prepare(&world);
        let before = world.shows();
        match act(&world.vfs.with_monitor(Arc::new(Patience(AtomicU64::new(patience))))) {
            Ok(()) => {
                assert!(world.shows() != before);
                return patience;
            }
            Err(Error::Stopped(StopReason::Cancelled)) => {
                assert!(world.shows() == before, "something has changed at {patience}");
            }
            Err(error) => panic!("at {patience}: {error}"),
        }
    }
    unreachable!()
}

#[test]
fn a_copy_to_another_store_is_cancelled_while_its_files_are_put_into_place() {
    for (from, to) in [("/v/tree", "/p/copy"), ("/p/tree", "/v/copy")] {
        for more in [1, 2, FILES as u64 / 2, FILES as u64] {
            let world = World::new();
            let before = world.shows();
            let watch = AfterLoading { loaded: AtomicU64::new(0), more: AtomicU64::new(more) };
            let copied = world.vfs.with_monitor(Arc::new(watch)).copy(from, to, Overwrite::Refuse);
            assert!(
                matches!(copied, Err(Error::Stopped(StopReason::Cancelled))),
                "{from} {more}: {copied:?}"
            );
            assert!(world.shows() == before, "{from} {more}: something has changed");
        }
    }
}

#[test]
fn a_move_to_another_store_is_cancelled_at_any_moment() {
    for (from, to) in [("/v/tree", "/p/moved"), ("/p/tree", "/v/moved")] {
        let times = cancelled_everywhere(|_| (), |vfs| vfs.rename(from, to, Overwrite::Refuse).map(drop));
        // The call asks for each file when it is loaded, put into place, compared and removed.
        assert!(times >= 4 * FILES as u64, "{from}: {times}");
    }
}

#[test]
fn a_copy_within_a_store_is_cancelled_at_any_moment() {
    for (from, to, least) in [("/v/tree", "/v/copy", 2), ("/p/tree", "/p/copy", FILES as u64)] {
        let times = cancelled_everywhere(|_| (), |vfs| vfs.copy(from, to, Overwrite::Refuse).map(drop));
        assert!(times >= least, "{from}: {times}");
    }
}

#[test]
fn a_delete_of_a_tree_is_cancelled_before_it_happens() {
    let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
    for tree in ["/v/tree", "/p/tree"] {
        let times = cancelled_everywhere(|_| (), |vfs| vfs.remove_directory(tree, recursive).map(drop));
        assert!(times >= 1, "{tree}: {times}");
    }
}

#[test]
fn an_undo_is_cancelled_at_any_moment() {
    let undo =
        |vfs: &Vfs| vfs.undo(UndoTarget::Last(1), UndoOptions::default()).map(|undone| assert!(undone.done));
    for (from, to) in [("/v/tree", "/p/copy"), ("/p/tree", "/v/copy")] {
        let copy = |world: &World| drop(world.vfs.copy(from, to, Overwrite::Refuse).unwrap());
        let times = cancelled_everywhere(copy, undo);
        assert!(times >= FILES as u64, "{from}: {times}");
    }
}

#[test]
fn a_restore_is_cancelled_at_any_moment() {
    for (index, prefix) in ["/v", "/p"].into_iter().enumerate() {
        let change = |world: &World| {
            for number in 0..FILES {
                world.vfs.write(format!("{prefix}/tree/{}/{number}", number % 3), "other").unwrap();
            }
        };
        let restore = |vfs: &Vfs| {
            let version = vfs.log(&Default::default()).unwrap();
            let made = version.iter().filter(|entry| entry.changes[0].path.as_str().starts_with(prefix));
            let filled = made.filter(|entry| entry.operation.tool == "fill").map(|entry| entry.revision);
            vfs.restore(prefix, filled.max().unwrap(), &RestoreOptions::default()).map(drop)
        };
        let times = cancelled_everywhere(change, restore);
        assert!(times >= FILES as u64, "{index}: {times}");
    }
}
