//! Who is called after a commit to a database, and the thread that waits for commits of any process.
//!
//! Every process writes a byte to the lock file `-turn` after each commit, when readers can see the commit. One thread per
//! database waits for that with inotify and calls all listeners; it runs while there are any. The write-ahead log would
//! not do: it is written before readers can see the commit.

use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify;
use stead_core::StoreResult;
use stead_core::store::{ChangeListener, ChangeListeners, ListenerGuard, Subscription};

use crate::database::error::from_io;
use crate::database::{wal_file, writer_lock};

/// How often the files are looked at in case a commit was not announced.
const SAFETY_INTERVAL: Duration = Duration::from_secs(1);
/// How often listeners are called where the host has no inotify, or no more of it.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the thread rests after it has called the listeners, so that many commits in a row cost little.
const PAUSE: Duration = Duration::from_millis(5);

/// The listeners of a database.
#[derive(Debug)]
pub(crate) struct CommitFollower {
    /// `None` for a database in memory, which no other process can change.
    database: Option<PathBuf>,
    shared: Arc<SharedFollower>,
}

#[derive(Debug, Default)]
struct SharedFollower {
    listeners: Arc<ChangeListeners>,
    /// Runs while there are listeners.
    thread: Mutex<Option<FollowerThread>>,
}

impl CommitFollower {
    pub(crate) fn new(database: Option<PathBuf>) -> Self {
        CommitFollower { database, shared: Arc::default() }
    }

    /// Calls the listener after every commit by any process, until the subscription is dropped.
    pub(crate) fn subscribe(&self, listener: ChangeListener) -> StoreResult<Subscription> {
        let mut thread = self.shared.thread.lock();
        let guard = FollowerGuard {
            listener: Some(self.shared.listeners.add(listener)),
            shared: Arc::clone(&self.shared),
        };
        if let (Some(database), None) = (&self.database, &*thread) {
            match FollowerThread::start(database, &self.shared.listeners) {
                Ok(started) => *thread = Some(started),
                Err(error) => {
                    drop(thread);
                    return Err(from_io(&error));
                }
            }
        }
        Ok(Subscription::new(guard))
    }

    /// Calls the listeners after a commit of this process, unless the thread does.
    pub(crate) fn note_own_commit(&self) {
        let is_seen = self.shared.thread.lock().as_ref().is_some_and(|thread| thread.has_inotify);
        if !is_seen {
            self.shared.listeners.notify();
        }
    }
}

impl Drop for CommitFollower {
    fn drop(&mut self) {
        *self.shared.thread.lock() = None;
    }
}

/// A listener of the database. The last one to be dropped ends the thread.
struct FollowerGuard {
    listener: Option<ListenerGuard>,
    shared: Arc<SharedFollower>,
}

impl Drop for FollowerGuard {
    fn drop(&mut self) {
        drop(self.listener.take());
        let mut thread = self.shared.thread.lock();
        if self.shared.listeners.is_empty() {
            *thread = None;
        }
    }
}

/// The running thread. Dropping it tells the thread to end.
#[derive(Debug)]
struct FollowerThread {
    stop: Arc<OwnedFd>,
    /// Whether it watches the file, and so sees the commits of this process as well.
    has_inotify: bool,
}

impl FollowerThread {
    fn start(database: &Path, listeners: &Arc<ChangeListeners>) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let watch = CommitWatch::new(database);
        let has_inotify = watch.inotify.is_some();
        let (stop_event, listeners) = (Arc::clone(&stop), Arc::clone(listeners));
        thread::Builder::new()
            .name("stead-follow".into())
            .spawn(move || watch.run(&stop_event, &listeners))?;
        Ok(FollowerThread { stop, has_inotify })
    }
}

impl Drop for FollowerThread {
    fn drop(&mut self) {
        // Adding 1 to a counter of 64 bits doesn't fail.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
    }
}

/// What the thread waits for.
struct CommitWatch {
    /// The file that a process writes to after a commit.
    commit_mark: PathBuf,
    log: PathBuf,
    /// `None` if commits can't be waited for.
    inotify: Option<OwnedFd>,
    /// The files when the listeners were last called.
    last_stamps: FileStamps,
}

/// Modification time and length of the mark and of the log.
type FileStamps = [Option<(i64, i64, u64)>; 2];

/// Why the thread woke up.
#[derive(PartialEq, Eq)]
enum Wake {
    Stop,
    Commit,
    Timeout,
}

impl CommitWatch {
    fn new(database: &Path) -> Self {
        let (commit_mark, log) = (writer_lock::commit_mark(database), wal_file::path_of(database));
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let last_stamps = stamps(&commit_mark, &log);
        let inotify = inotify::init(flags).ok().filter(|inotify| watch_file(inotify, &commit_mark));
        CommitWatch { commit_mark, log, inotify, last_stamps }
    }

    /// Calls the listeners after every commit, until `stop` is signalled.
    fn run(mut self, stop: &OwnedFd, listeners: &ChangeListeners) {
        let interval = if self.inotify.is_some() { SAFETY_INTERVAL } else { POLL_INTERVAL };
        loop {
            let wake = wait(stop, self.inotify.as_ref(), interval);
            let is_due = match (&wake, &self.inotify) {
                (Wake::Stop, _) => return,
                (Wake::Commit, Some(inotify)) => {
                    drain(inotify);
                    true
                }
                (Wake::Timeout, Some(inotify)) => {
                    // The file may have been replaced, and watching the same file twice does nothing.
                    watch_file(inotify, &self.commit_mark);
                    stamps(&self.commit_mark, &self.log) != self.last_stamps
                }
                (_, None) => true,
            };
            if is_due {
                self.last_stamps = stamps(&self.commit_mark, &self.log);
                listeners.notify();
                if wait(stop, None, PAUSE) == Wake::Stop {
                    return;
                }
            }
        }
    }
}

fn stamps(commit_mark: &Path, log: &Path) -> FileStamps {
    let stamp = |file: Metadata| (file.mtime(), file.mtime_nsec(), file.len());
    [commit_mark, log].map(|file| file.metadata().ok().map(stamp))
}

fn watch_file(inotify: &OwnedFd, file: &Path) -> bool {
    inotify::add_watch(inotify, file, inotify::WatchFlags::MODIFY).is_ok()
}

/// Reads the events away. Which ones they were doesn't matter.
fn drain(inotify: &OwnedFd) {
    let mut events = [0_u8; 4_096];
    while rustix::io::read(inotify, &mut events).is_ok_and(|count| count > 0) {}
}

fn wait(stop: &OwnedFd, inotify: Option<&OwnedFd>, timeout: Duration) -> Wake {
    let mut poll_fds = vec![PollFd::new(stop, PollFlags::IN)];
    poll_fds.extend(inotify.map(|inotify| PollFd::new(inotify, PollFlags::IN)));
    let timeout = Timespec::try_from(timeout).ok();
    if poll(&mut poll_fds, timeout.as_ref()).is_err() {
        // Interrupted by a signal: a call without a commit is allowed.
        return if inotify.is_some() { Wake::Commit } else { Wake::Timeout };
    }
    match poll_fds.iter().position(|poll_fd| !poll_fd.revents().is_empty()) {
        Some(0) => Wake::Stop,
        Some(_) => Wake::Commit,
        None => Wake::Timeout,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Instant;

    use stead_core::store::ChangeSignal;

    use super::*;
    use crate::database::group_commit::CommitSync;
    use crate::database::{Database, DatabaseOptions};

    const LONG: Duration = Duration::from_secs(20);

    fn open(directory: &tempfile::TempDir) -> Database {
        Database::open(directory.path().join("db"), DatabaseOptions::default()).unwrap()
    }

    fn commit(database: &Database) {
        database.0.write(CommitSync::AsConfigured, |_| Ok(())).unwrap();
    }

    fn subscribe(database: &Database) -> (Arc<ChangeSignal>, Subscription) {
        let signal = Arc::new(ChangeSignal::default());
        let subscription = database.subscribe(signal.listener()).unwrap();
        (signal, subscription)
    }

    #[test]
    fn a_commit_through_another_handle_wakes_listeners_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| open(&directory));
        let (signal, _subscription) = subscribe(&one);
        // The fastest of several: the machine may be busy, but the safety interval is a second.
        let fastest = (0..5).map(|_| {
            let began = Instant::now();
            commit(&other);
            assert!(signal.wait(Some(LONG)));
            began.elapsed()
        });
        assert!(fastest.min().unwrap() < SAFETY_INTERVAL / 2);
    }

    #[test]
    fn an_idle_database_calls_no_listener() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(&directory);
        commit(&database);
        let (signal, _subscription) = subscribe(&database);
        assert!(!signal.wait(Some(SAFETY_INTERVAL + SAFETY_INTERVAL / 2)));
    }

    #[test]
    fn a_commit_mark_that_was_replaced_is_watched_again() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(&directory);
        let (signal, _subscription) = subscribe(&database);
        std::fs::remove_file(directory.path().join("db-turn")).unwrap();
        let other = open(&directory);
        commit(&other);
        assert!(signal.wait(Some(LONG)), "by the safety interval");
        thread::sleep(SAFETY_INTERVAL + SAFETY_INTERVAL / 2);
        signal.wait(Some(Duration::ZERO));
        // The fastest of several, without the first, which may come shortly before the safety interval is over.
        let fastest = (0..6).map(|_| {
            let began = Instant::now();
            commit(&other);
            assert!(signal.wait(Some(LONG)));
            began.elapsed()
        });
        assert!(fastest.skip(1).min().unwrap() < SAFETY_INTERVAL / 2, "the new file is watched");
    }

    #[test]
    fn without_inotify_the_listeners_are_called_often() {
        let directory = tempfile::tempdir().unwrap();
        let (database, signal) = (open(&directory), Arc::new(ChangeSignal::default()));
        let listeners = Arc::new(ChangeListeners::default());
        let _listener = listeners.add(signal.listener());
        let watch = CommitWatch { inotify: None, ..CommitWatch::new(&database.0.file().unwrap()) };
        let stop = eventfd(0, EventfdFlags::empty()).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| watch.run(&stop, &listeners));
            for _ in 0..3 {
                assert!(signal.wait(Some(LONG)));
            }
            rustix::io::write(&stop, &1_u64.to_ne_bytes()).unwrap();
        });
    }

    #[test]
    fn the_thread_runs_while_the_database_has_subscribers() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(&directory);
        // The thread has the listeners, and nothing of the database.
        let listeners = Arc::clone(&database.0.commit_follower.shared.listeners);
        let wait_for_reference_count = |expected: usize| {
            let deadline = Instant::now() + LONG;
            while Arc::strong_count(&listeners) != expected {
                assert!(Instant::now() < deadline, "the thread doesn't end");
                thread::sleep(Duration::from_millis(1));
            }
        };
        let (_, first) = subscribe(&database);
        let (_, second) = subscribe(&database);
        drop(first);
        assert!(database.0.commit_follower.shared.thread.lock().is_some());
        drop(second);
        assert!(database.0.commit_follower.shared.thread.lock().is_none());
        wait_for_reference_count(2);
        let (signal, third) = subscribe(&database);
        commit(&database);
        assert!(signal.wait(Some(LONG)), "a later subscriber starts it again");
        drop(database);
        // Left: this test, the subscription's state, and the place of the listener in it.
        wait_for_reference_count(3);
        drop(third);
        wait_for_reference_count(1);
    }

    #[test]
    fn a_database_in_memory_calls_listeners_from_the_commit_itself() {
        let database = Database::in_memory();
        let (signal, _subscription) = subscribe(&database);
        commit(&database);
        assert!(signal.wait(Some(Duration::ZERO)));
        assert!(database.0.commit_follower.shared.thread.lock().is_none());
    }
}
