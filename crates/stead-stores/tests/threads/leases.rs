//! A change is made only under a lease that holds, by the database's clock.

use std::sync::Arc;
use std::time::Duration;

use stead_core::store::{
    Change, CompanionRecord, Content, History, LeaseId, NodePath, Parents, PutOptions, Step, StorePath,
};
use stead_core::vfs::{Overwrite, RemoveOptions, ThreadLease, Vfs, WriteOptions};
use stead_core::{
    AccessScope, Clock, Error, ErrorKind, FixedClock, Identity, Mount, Operation, OperationId, Store,
    StoreError, SystemClock, Timestamp, VfsPath, Workspace,
};
use stead_stores::database::NewSnapshot;
use stead_stores::{EndWhen, Ending, ThreadKey};

use crate::{Bench, IDLE_TIMEOUT, assert_sound, begun, enter, key, physical, record, vfs, virtual_vfs};

fn is_lease_error<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().ends_with("nothing was written; try again"), "{error}");
    matches!(error.store_error(), Some(StoreError::LeaseExpired))
}

#[test]
fn a_change_with_an_expired_lease_is_refused_on_a_virtual_store_and_the_next_call_renews() {
    let bench = Bench::new();
    let (database, holder) = (bench.database(), bench.holder());
    let thread = enter(&holder, &key()).thread;
    let vfs = virtual_vfs(&thread);
    vfs.write("/w/a", "1").unwrap();
    let (lease, revision) = (thread.id(), database.latest_revision().unwrap());
    bench.expire_holders();
    assert!(is_lease_error(vfs.write("/w/a", "2")));
    assert_eq!(database.latest_revision().unwrap(), revision);
    assert_eq!(vfs.read("/w/a").unwrap().bytes, b"1");
    vfs.write("/w/a", "3").unwrap();
    assert!(thread.id().epoch > lease.epoch && thread.id().holder != lease.holder);
    assert_sound(&database);
}

type ChangeOfVfs<'a> = Box<dyn Fn() -> Result<(), Error> + 'a>;

fn every_kind_of_change(vfs: &Vfs) -> Vec<ChangeOfVfs<'_>> {
    vec![
        Box::new(|| vfs.write("/w/new", "2").map(|_| ())),
        Box::new(|| vfs.write("/w/a", "2").map(|_| ())),
        Box::new(|| vfs.mkdir("/w/d", Parents::Create).map(|_| ())),
        Box::new(|| vfs.rename("/w/a", "/w/b", Overwrite::Refuse).map(|_| ())),
        Box::new(|| vfs.remove_file("/w/a", RemoveOptions::default()).map(|_| ())),
        Box::new(|| {
            let mut batch = vfs.batch();
            batch.write("/w/x", "1", &WriteOptions::default())?;
            batch.write("/w/y", "1", &WriteOptions::default())?;
            batch.apply().map(|_| ())
        }),
    ]
}

#[test]
fn a_change_with_an_expired_lease_is_refused_on_a_physical_store() {
    let bench = Bench::new();
    let (database, holder) = (bench.database(), bench.holder());
    let thread = enter(&holder, &key()).thread;
    let store = physical(bench.directory.path(), &database);
    let vfs = vfs(&thread, Arc::clone(&store) as _);
    vfs.write("/w/a", "1").unwrap();
    let revision = store.latest_revision().unwrap();
    for change in every_kind_of_change(&vfs) {
        // A call renews the lease, and then the process is stopped.
        assert!(vfs.exists("/w/a").unwrap());
        bench.expire_holders();
        assert!(is_lease_error(change()));
        let names: Vec<_> = std::fs::read_dir(bench.directory.path().join("root")).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(std::fs::read(bench.directory.path().join("root/a")).unwrap(), b"1");
        assert_eq!(store.latest_revision().unwrap(), revision);
    }
    vfs.write("/w/a", "2").unwrap();
    assert_eq!(std::fs::read(bench.directory.path().join("root/a")).unwrap(), b"2");
    assert_sound(&database);
}

#[test]
fn forks_snapshots_and_volumes_are_made_only_under_a_lease_that_holds() {
    let bench = Bench::new();
    let (database, holder) = (bench.database(), bench.holder());
    let thread = enter(&holder, &key()).thread;
    let vfs = virtual_vfs(&thread);
    vfs.write("/w/a", "1").unwrap();
    bench.expire_holders();
    assert!(is_lease_error(vfs.fork("/w", "draft".parse().unwrap(), key().to_string())));
    let snapshot = NewSnapshot {
        agent: key().to_string(),
        prefix: None,
        label: None,
        at: SystemClock.now(),
        lease: Some(thread.id()),
    };
    assert!(matches!(database.snapshot(snapshot), Err(StoreError::LeaseExpired)));
    assert!(matches!(thread.volume(["other"]), Err(StoreError::LeaseExpired)));
    assert!(vfs.exists("/w/a").unwrap());
    let (fork, _) = vfs.fork("/w", "draft".parse().unwrap(), key().to_string()).unwrap();
    assert_eq!(fork.owner, "coder/t1");
    let record = database.fork_records("coder/t1").unwrap().remove(0);
    assert_eq!((record.thread, record.namespace), (Some(thread.thread()), vec!["files".to_owned()]));
    thread.volume(["other"]).unwrap();
}

#[test]
fn a_holder_that_was_stopped_past_its_lease_renews_at_the_next_call() {
    let bench = Bench::new();
    let holder = bench.database().lease_holder(Duration::from_secs(2));
    let thread = enter(&holder, &key()).thread;
    let vfs = virtual_vfs(&thread);
    let before = thread.id();
    std::thread::sleep(Duration::from_millis(2_100));
    // Its own clock says that the lease can't be trusted, so no change is refused.
    vfs.write("/w/a", "1").unwrap();
    assert!(thread.id().epoch > before.epoch);
    // A heartbeat in time keeps the epoch, for longer than a lease.
    let kept = thread.id();
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(300));
        holder.renew_all().unwrap();
    }
    assert_eq!(thread.id(), kept);
}

#[test]
fn a_thread_that_another_process_has_ended_refuses_every_call() {
    let bench = Bench::new();
    let (holder, other) = (bench.holder(), bench.holder());
    let thread = enter(&holder, &key()).thread;
    let vfs = virtual_vfs(&thread);
    vfs.write("/w/a", "old").unwrap();
    assert!(matches!(other.begin_ending(&key(), EndWhen::Now).unwrap(), Ending::InUse));
    bench.expire_holders();
    other.finish_ending(begun(&other, &key()), record(&key())).unwrap();
    // A new thread of the same name.
    let new = enter(&other, &key()).thread;
    let new_vfs = virtual_vfs(&new);
    assert!(!new_vfs.exists("/w/a").unwrap());
    // The first write is refused by the database, and then the lease is found to be gone.
    assert!(is_lease_error(vfs.write("/w/a", "late")));
    let refused = vfs.write("/w/a", "late").unwrap_err();
    assert!(matches!(refused, Error::ThreadEnded), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Expired);
    assert!(refused.to_string().starts_with("the thread has ended"), "{refused}");
    assert!(matches!(vfs.read("/w/a"), Err(Error::ThreadEnded)));
    assert!(!new_vfs.exists("/w/a").unwrap());
    // The process enters the new thread like any other.
    assert_eq!(enter(&holder, &key()).thread.thread(), new.thread());
    assert_sound(&bench.database());
}

#[test]
fn the_clock_of_the_caller_makes_no_difference() {
    let bench = Bench::new();
    let holder = bench.holder();
    let thread = enter(&holder, &key()).thread;
    let store: Arc<dyn Store> = Arc::new(thread.volume(["files"]).unwrap());
    let far = Arc::new(FixedClock::at(Timestamp::from_secs(40_000_000_000 / 10)));
    let workspace = Workspace::new(VfsPath::parse("/w").unwrap(), AccessScope::ReadWrite, Mount::new(store));
    let builder = Vfs::builder(Identity::agent("coder")).workspace(workspace).clock(far);
    let vfs = builder.lease(Arc::clone(&thread) as Arc<dyn ThreadLease>).build().unwrap();
    vfs.write("/w/a", "1").unwrap();
    let mut late = record(&key());
    late.at = Timestamp::from_secs(4_000_000_000);
    let second = holder.enter(&ThreadKey::new("coder", "t2"), Some(IDLE_TIMEOUT), &late).unwrap();
    let found = bench.database().thread(second.thread.key()).unwrap().unwrap();
    let now = SystemClock.now();
    assert!(now.duration_since(found.created) < Duration::from_secs(60) && found.created <= now);
    assert!(holder.sweepable().unwrap().is_empty());
}

#[test]
fn a_lease_of_another_thread_does_not_count() {
    let bench = Bench::new();
    let holder = bench.holder();
    let (thread, other) =
        (enter(&holder, &key()).thread, enter(&holder, &ThreadKey::new("coder", "t2")).thread);
    let store = thread.volume(["files"]).unwrap();
    let at = NodePath::from_root(StorePath::from_checked("a"));
    let change = |lease| {
        let identity = Arc::new(Identity::agent("coder"));
        let now = SystemClock.now();
        let operation = Operation { id: OperationId::fresh(now), identity, tool: "write".into(), at: now };
        let (content, options) = (Content::Bytes(b"1".to_vec()), PutOptions::default());
        let step = Step::Write { at: at.clone(), content, options };
        Change { records: vec![CompanionRecord::Lease(lease)], ..Change::new(operation, vec![step]) }
    };
    let lease = thread.id();
    for wrong in [
        LeaseId { epoch: lease.epoch + 1, ..lease },
        LeaseId { epoch: lease.epoch - 1, ..lease },
        LeaseId { holder: lease.holder + 1, ..lease },
        LeaseId { thread: other.thread() + 1, ..lease },
    ] {
        assert!(matches!(store.apply(change(wrong)), Err(StoreError::LeaseExpired)), "{wrong:?}");
    }
    store.apply(change(lease)).unwrap();
}
