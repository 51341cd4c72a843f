//! Threads on a Memory Store: volumes of its own database, whose changes only the process can check.

use std::sync::Arc;

use stead_core::{Error, Store, StoreError};
use stead_stores::MemoryStore;

use crate::{Bench, ThreadKey, begun, enter, key, record, vfs};

#[test]
fn each_thread_has_a_volume_of_its_own_in_one_database() {
    let bench = Bench::new();
    let (holder, store, other) = (bench.holder(), MemoryStore::new(), ThreadKey::new("coder", "t2"));
    let [one, two] = [&key(), &other].map(|key| enter(&holder, key).thread);
    let of =
        |thread: &Arc<stead_stores::HeldThread>| store.thread_volume(thread.thread(), thread.key()).unwrap();
    let vfs_one = vfs(&one, Arc::new(of(&one)));
    vfs_one.write("/w/a", "1").unwrap();
    assert!(!vfs(&two, Arc::new(of(&two))).exists("/w/a").unwrap());
    assert_eq!(of(&one).id(), of(&one).id());
    assert_ne!(of(&one).id(), of(&two).id());
    assert_eq!(of(&one).info().database, store.info().database);
    assert_eq!(store.threads().unwrap(), [one.thread(), two.thread()]);
    assert!(store.maintenance().unwrap().verify(&mut |_| ()).unwrap().problems.is_empty());
    let removed = store.remove_thread(one.thread(), one.key()).unwrap();
    assert_eq!((removed.volumes, removed.files, removed.bytes), (1, 1, 1));
    assert_eq!(store.threads().unwrap(), [two.thread()]);
    assert_eq!(store.remove_thread(one.thread(), one.key()).unwrap().volumes, 0);
    assert!(!vfs(&one, Arc::new(of(&one))).exists("/w/a").unwrap(), "it is made anew");
}

#[test]
fn the_process_refuses_a_change_once_the_thread_has_ended() {
    let bench = Bench::new();
    let (holder, other, store) = (bench.holder(), bench.holder(), MemoryStore::new());
    let thread = enter(&holder, &key()).thread;
    let vfs = vfs(&thread, Arc::new(store.thread_volume(thread.thread(), &key()).unwrap()));
    vfs.write("/w/a", "1").unwrap();
    bench.expire_holders();
    other.finish_ending(begun(&other, &key()), record(&key())).unwrap();
    // No Store tells this process that its lease is gone; its own clock or a heartbeat does.
    holder.renew_all().unwrap();
    assert!(matches!(vfs.write("/w/a", "2"), Err(Error::ThreadEnded)));
    assert!(matches!(vfs.read("/w/a"), Err(Error::ThreadEnded)));
    let refused = vfs.write("/w/a", "2").unwrap_err();
    assert!(!matches!(refused.store_error(), Some(StoreError::Unsupported(_))), "{refused}");
}
