//! What is removed with a thread: all that is its own, and nothing else.

use std::sync::Arc;

use stead_core::store::Forks;
use stead_core::vfs::ThreadLease;
use stead_core::{Clock, Store, SystemClock};
use stead_stores::database::NewSnapshot;

use crate::{Bench, ThreadKey, assert_sound, begun, enter, key, record, vfs, virtual_vfs};

fn snapshot(owner: &str, thread: &Arc<stead_stores::HeldThread>) -> NewSnapshot {
    let (agent, lease) = (owner.to_owned(), Some(thread.id()));
    NewSnapshot { agent, prefix: None, label: Some("first".into()), at: SystemClock.now(), lease }
}

#[test]
fn a_thread_goes_with_its_volumes_forks_and_snapshots_and_nothing_else() {
    let bench = Bench::new();
    let (database, holder) =
        (bench.database(), bench.database().lease_holder(stead_stores::LeaseHolder::DEFAULT_TTL));
    let shared: Arc<dyn Store> = Arc::new(holder.database().store(["shared"]).unwrap());
    let keys = [key(), ThreadKey::new("coder", "t2"), ThreadKey::new("coder", "t")];
    let held = keys.each_ref().map(|key| enter(&holder, key).thread);
    for (key, thread) in keys.iter().zip(&held) {
        let own = virtual_vfs(thread);
        own.write("/w/a", "12345").unwrap();
        thread.volume(["state"]).unwrap();
        own.fork("/w", "draft".parse().unwrap(), key.to_string()).unwrap();
        let on_shared = vfs(thread, Arc::clone(&shared));
        on_shared.write("/w/common", "1").unwrap();
        on_shared.fork("/w", "common".parse().unwrap(), key.to_string()).unwrap();
        holder.database().snapshot(snapshot(&key.to_string(), thread)).unwrap();
    }
    let removed = holder.finish_ending(begun(&holder, &key()), record(&key())).unwrap();
    assert_eq!((removed.volumes, removed.forks, removed.snapshots), (2, 2, 1));
    assert_eq!((removed.files, removed.bytes), (1, 5));
    assert_sound(&database);
    assert!(database.fork_records("coder/t1").unwrap().is_empty());
    assert!(database.snapshots("coder/t1").unwrap().is_empty());
    for (key, thread) in keys.iter().zip(&held).skip(1) {
        assert_eq!(virtual_vfs(thread).read("/w/a").unwrap().bytes, b"12345");
        assert_eq!(database.fork_records(&key.to_string()).unwrap().len(), 2);
        assert_eq!(database.snapshots(&key.to_string()).unwrap().len(), 1);
        assert_eq!(vfs(thread, Arc::clone(&shared)).read("/w/common").unwrap().bytes, b"1");
    }
    // A new thread of the same name is empty, and its volume is another Store.
    let again = enter(&holder, &key()).thread;
    assert_ne!(again.volume_id(["files"]).unwrap(), held[0].volume_id(["files"]).unwrap());
    assert_eq!(again.volume_id(["files"]).unwrap(), again.volume(["files"]).unwrap().id());
    assert!(!virtual_vfs(&again).exists("/w/a").unwrap());
    virtual_vfs(&again).fork("/w", "draft".parse().unwrap(), key().to_string()).unwrap();
    assert_sound(&database);
}

#[test]
fn a_fork_that_another_owner_has_outlives_the_thread() {
    let bench = Bench::new();
    let holder = bench.holder();
    let thread = enter(&holder, &key()).thread;
    let own = virtual_vfs(&thread);
    own.write("/w/a", "1").unwrap();
    let (fork, _) = own.fork("/w", "draft".parse().unwrap(), key().to_string()).unwrap();
    let foreign = stead_core::store::Fork { owner: "reviewer".into(), lease: None, ..fork };
    let volume = thread.volume(["files"]).unwrap();
    let store = Forks::fork(&volume, std::sync::Arc::new(volume.clone()), &foreign).unwrap();
    holder.finish_ending(begun(&holder, &key()), record(&key())).unwrap();
    assert_sound(&bench.database());
    let at = stead_core::store::NodePath::from_root(stead_core::store::StorePath::from_checked("a"));
    assert_eq!(store.read(&at, 10).unwrap().bytes, b"1");
    store.maintenance().unwrap().destroy().unwrap();
    assert_eq!(bench.count("SELECT count(*) FROM volume"), 0);
    assert_sound(&bench.database());
}

#[test]
fn a_restored_backup_has_its_threads_and_no_leases() {
    let bench = Bench::new();
    let holder = bench.holder();
    let thread = enter(&holder, &key()).thread;
    let vfs = virtual_vfs(&thread);
    vfs.write("/w/a", "1").unwrap();
    let backup = bench.directory.path().join("backup");
    bench.database().backup(&backup, &mut |_| ()).unwrap();
    vfs.write("/w/a", "2").unwrap();
    let late = enter(&holder, &ThreadKey::new("coder", "late")).thread;
    bench.sql("UPDATE thread SET last_used = 1");
    bench.database().restore_backup(&backup, &mut |_| ()).unwrap();
    assert_sound(&bench.database());
    let found = bench.database().thread(&key()).unwrap().unwrap();
    assert_eq!((found.leases, found.id), (0, thread.thread()));
    assert!(
        found.idle_for < std::time::Duration::from_secs(60),
        "a sweep doesn't remove what was just restored"
    );
    // A running process goes on in a thread that the backup has.
    vfs.write("/w/b", "3").unwrap_err();
    vfs.write("/w/b", "3").unwrap();
    assert_eq!(vfs.read("/w/a").unwrap().bytes, b"1");
    assert!(matches!(Arc::clone(&late).begin(), Err(stead_core::Error::ThreadEnded)));
    // The copy can be used on its own, too.
    let alone = bench.directory.path().join("alone");
    std::fs::copy(&backup, &alone).unwrap();
    assert_sound(&crate::open(&alone));
}

#[test]
fn verify_finds_damaged_rows_of_threads() {
    let bench = Bench::new();
    let holder = bench.holder();
    let thread = enter(&holder, &key()).thread;
    thread.volume(["files"]).unwrap();
    bench.sql("INSERT INTO thread_lease VALUES (999, 999, 1); DELETE FROM thread");
    let problems = bench.database().verify(&mut |_| ()).unwrap().problems.join("\n");
    assert!(problems.contains("volume of a thread that doesn't exist"), "{problems}");
    assert!(problems.contains("lease whose thread or holder"), "{problems}");
}
