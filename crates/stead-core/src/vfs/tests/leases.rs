//! A `Vfs` of a thread begins every call with the thread's lease.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::store::{DatabaseId, LeaseId};
use crate::testkit::MemoryAuditLog;

use super::*;
use crate::clock::Timestamp;

/// A lease in a database that no Store of these tests has.
#[derive(Debug)]
struct TestLease {
    database: DatabaseId,
    begun: AtomicUsize,
    running: AtomicUsize,
    checked: AtomicUsize,
    has_ended: AtomicBool,
}

impl TestLease {
    fn new() -> Arc<Self> {
        Arc::new(TestLease {
            database: DatabaseId::fresh(),
            begun: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            checked: AtomicUsize::new(0),
            has_ended: AtomicBool::new(false),
        })
    }
}

impl ThreadLease for TestLease {
    fn begin(self: Arc<Self>) -> Result<InUse> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        if self.has_ended.load(Ordering::Relaxed) {
            return Err(Error::ThreadEnded);
        }
        self.running.fetch_add(1, Ordering::Relaxed);
        Ok(InUse::counted(self))
    }

    fn end(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    fn check(&self) -> Result<()> {
        assert!(self.running.load(Ordering::Relaxed) > 0, "a change is part of a call");
        self.checked.fetch_add(1, Ordering::Relaxed);
        if self.has_ended.load(Ordering::Relaxed) { Err(Error::ThreadEnded) } else { Ok(()) }
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn was_ended_here(&self) -> bool {
        false
    }

    fn end_was_reported(&self) -> bool {
        false
    }

    fn note_expired(&self) {}

    fn created(&self) -> Timestamp {
        Timestamp(0)
    }

    fn id(&self) -> LeaseId {
        LeaseId { thread: 1, holder: 2, epoch: 3 }
    }

    fn database(&self) -> DatabaseId {
        self.database
    }
}

fn vfs_of(lease: &Arc<TestLease>, log: &Arc<MemoryAuditLog>) -> Vfs {
    let store = Arc::new(ModelStore::new());
    let builder = Vfs::builder(Identity::agent("tester")).workspace(workspace("/w", ReadWrite, &store));
    let builder = builder.audit(Arc::clone(log) as Arc<dyn AuditLog>);
    builder.lease(Arc::clone(lease) as Arc<dyn ThreadLease>).build().unwrap()
}

#[test]
fn every_call_begins_with_the_lease_and_ends_it() {
    let (lease, log) = (TestLease::new(), Arc::default());
    let vfs = vfs_of(&lease, &log);
    vfs.write("/w/a", "1").unwrap();
    vfs.read("/w/a").unwrap();
    vfs.read("/w/missing").unwrap_err();
    vfs.list("/w", &ListPage::all()).unwrap();
    assert!(lease.begun.load(Ordering::Relaxed) >= 4);
    assert_eq!(lease.running.load(Ordering::Relaxed), 0);
    assert_eq!(
        lease.checked.load(Ordering::Relaxed),
        1,
        "only the process can check it, so it does before a change"
    );
}

#[test]
fn nothing_is_done_in_a_thread_that_has_ended_and_the_audit_says_so() {
    let (lease, log) = (TestLease::new(), Arc::<MemoryAuditLog>::default());
    let vfs = vfs_of(&lease, &log);
    vfs.write("/w/a", "1").unwrap();
    lease.has_ended.store(true, Ordering::Relaxed);
    log.take();
    for refused in
        [vfs.write("/w/a", "2").map(|_| ()), vfs.read("/w/a").map(|_| ()), vfs.exists("/w/a").map(|_| ())]
    {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::ThreadEnded), "{refused}");
        assert_eq!(refused.kind(), ErrorKind::Expired);
    }
    let outcomes: Vec<_> = log.take().into_iter().map(|record| record.outcome.code()).collect();
    assert_eq!(outcomes, [Some(ErrorKind::Expired.code()); 3]);
    assert_eq!(lease.running.load(Ordering::Relaxed), 0);
}

#[test]
fn other_workspaces_and_the_past_have_the_same_lease() {
    let (lease, log) = (TestLease::new(), Arc::default());
    let vfs = vfs_of(&lease, &log);
    let store = Arc::new(ModelStore::new());
    let other = vfs.with_workspaces(vec![Arc::new(workspace("/x", ReadWrite, &store))]).unwrap();
    assert_eq!(other.lease().unwrap().id(), lease.id());
    lease.has_ended.store(true, Ordering::Relaxed);
    assert!(matches!(other.write("/x/a", "1"), Err(Error::ThreadEnded)));
    assert!(matches!(vfs.operation("tool").write("/w/a", "1"), Err(Error::ThreadEnded)));
}
