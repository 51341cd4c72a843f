//! Calls with a monitor, and files that are followed.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::monitor::{CallMonitor, StopReason};
use crate::testkit::MemoryAuditLog;
use crate::vfs::FileWaker;

/// A monitor that stops a call after so many checks.
#[derive(Debug)]
struct StoppingMonitor {
    remaining_checks: AtomicU64,
    progress: Mutex<Vec<(u64, Option<u64>)>>,
}

impl StoppingMonitor {
    fn stop_after(checks: u64) -> Arc<Self> {
        Arc::new(StoppingMonitor { remaining_checks: AtomicU64::new(checks), progress: Mutex::default() })
    }
}

impl CallMonitor for StoppingMonitor {
    fn progress(&self, done: u64, total: Option<u64>) {
        self.progress.lock().push((done, total));
    }

    fn stop_reason(&self) -> Option<StopReason> {
        let remaining =
            self.remaining_checks
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |remaining| remaining.checked_sub(1));
        remaining.is_err().then_some(StopReason::Cancelled)
    }
}

fn vfs_with_two_stores() -> Vfs {
    let source = store_with(&[("/t/1", "one"), ("/t/2", "two"), ("/t/d/3", "three")]);
    vfs_with([workspace("/a", ReadWrite, &source), workspace("/b", ReadWrite, &store_with(&[]))])
}

#[test]
fn a_copy_reports_its_progress() {
    let monitor = StoppingMonitor::stop_after(u64::MAX);
    vfs_with_two_stores().with_monitor(monitor.clone()).copy("/a/t", "/b/t", Overwrite::Refuse).unwrap();
    let progress = monitor.progress.lock();
    assert_eq!(*progress, [0, 1, 2, 3, 4].map(|done| (done, Some(4))));
}

/// Wherever it is stopped, either all of it is there or none.
#[test]
fn a_call_that_is_stopped_leaves_everything_as_it_was() {
    let mut stopped = 0;
    for steps in 0..64 {
        let vfs = vfs_with_two_stores();
        let monitored = vfs.with_monitor(StoppingMonitor::stop_after(steps));
        match monitored.rename("/a/t", "/b/t", Overwrite::Refuse) {
            Err(error) => {
                assert_eq!(error.to_string(), "the call was cancelled, and nothing has changed");
                assert_eq!(names(&vfs, "/b"), "");
                assert_eq!(text(&vfs, "/a/t/d/3"), "three");
                stopped += 1;
            }
            Ok(_) => {
                assert_eq!(text(&vfs, "/b/t/d/3"), "three");
                assert_eq!(names(&vfs, "/a"), "");
            }
        }
    }
    assert!((4..64).contains(&stopped), "{stopped}");
}

#[test]
fn walks_and_searches_can_be_stopped() {
    let query = GrepQuery { output: GrepOutput::Files, ..GrepQuery::new("o") };
    let vfs = vfs_with_two_stores().with_monitor(StoppingMonitor::stop_after(0));
    assert!(matches!(vfs.walk("/", &WalkQuery::default()), Err(Error::Stopped(StopReason::Cancelled))));
    assert!(matches!(vfs.glob(&GlobQuery::new("**"), "/"), Err(Error::Stopped(StopReason::Cancelled))));
    assert!(matches!(vfs.grep(&query, "/"), Err(Error::Stopped(StopReason::Cancelled))));
}

/// A waker that does nothing, for a test that checks the file itself.
fn silent() -> FileWaker {
    Arc::new(|| ())
}

#[test]
fn a_followed_file_wakes_its_follower_after_changes_in_every_store_on_the_way() {
    let (near, far, other) = (store_with(&[]), store_with(&[("/x", "1")]), store_with(&[("/x", "1")]));
    let vfs = vfs_with([
        workspace("/near", ReadWrite, &near),
        workspace("/far", ReadWrite, &far),
        workspace("/other", ReadWrite, &other),
    ]);
    vfs.symlink("/near/link", "/far").unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let waker: FileWaker = Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let calls = || calls.swap(0, Ordering::SeqCst);
    let mut followed = vfs.follow("/near/link/x", waker).unwrap();
    assert_eq!((calls(), followed.needs_polling()), (1, false), "it is called when it begins");
    vfs.write("/far/x", "2").unwrap();
    assert_eq!((calls(), followed.has_changed()), (1, true));
    // Twice, so that the tags of the two files differ.
    vfs.write("/other/x", "2").unwrap();
    vfs.write("/other/x", "3").unwrap();
    assert_eq!((calls(), followed.has_changed()), (0, false), "the path doesn't lead there");
    vfs.remove_file("/near/link", RemoveOptions::default()).unwrap();
    vfs.symlink("/near/link", "/other").unwrap();
    assert!(calls() > 0 && followed.has_changed());
    calls();
    vfs.write("/other/x", "4").unwrap();
    assert_eq!((calls(), followed.has_changed()), (1, true), "now it does");
    vfs.write("/far/x", "3").unwrap();
    assert_eq!((calls(), followed.has_changed()), (0, false));
}

#[test]
fn a_followed_file_reports_when_it_changes() {
    let store = store_with(&[("/x", "1")]);
    let (reader, writer) =
        (vfs_with([workspace("/r", ReadOnly, &store)]), vfs_with([workspace("/w", WriteOnly, &store)]));
    let mut existing = reader.follow("/r/x", silent()).unwrap();
    let mut missing = reader.follow("/r/y", silent()).unwrap();
    assert!(!existing.has_changed() && !missing.has_changed());
    writer.write("/w/x", "2").unwrap();
    writer.write("/w/y", "1").unwrap();
    assert!(existing.has_changed() && missing.has_changed());
    assert!(!existing.has_changed() && !missing.has_changed());
    writer.remove_file("/w/x", RemoveOptions::default()).unwrap();
    assert!(existing.has_changed());
    assert_eq!(kind(writer.follow("/w/x", silent())), ErrorKind::Denied);
    assert_eq!(kind(reader.follow("/elsewhere", silent())), ErrorKind::Denied);
}

#[test]
fn following_a_file_makes_one_audit_record() {
    let (log, store) = (Arc::new(MemoryAuditLog::new()), store_with(&[("/x", "1")]));
    let builder = Vfs::builder(Identity::agent("tester")).audit(log.clone());
    let vfs = builder.workspace(workspace("/", ReadWrite, &store)).build().unwrap();
    let mut followed = vfs.follow("/x", silent()).unwrap();
    for _ in 0..5 {
        followed.has_changed();
    }
    assert_eq!(log.take().len(), 1);
}
