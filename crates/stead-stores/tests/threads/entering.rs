//! A thread is made once, and entered any number of times.

use std::sync::Barrier;
use std::thread;

use stead_core::vfs::ThreadLease;
use stead_stores::EnteredAs;

use crate::{Bench, ThreadKey, assert_sound, enter, key};

#[test]
fn eight_connections_that_race_make_one_thread() {
    let bench = Bench::new();
    let start = Barrier::new(8);
    let entered: Vec<_> = thread::scope(|scope| {
        let enter_one = || {
            let holder = bench.holder();
            start.wait();
            enter(&holder, &key())
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(enter_one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(entered.iter().filter(|entered| entered.how == EnteredAs::Created).count(), 1);
    assert_eq!(entered.iter().filter(|entered| entered.how == EnteredAs::Resumed).count(), 7);
    let first = entered[0].thread.thread();
    assert!(entered.iter().all(|entered| entered.thread.thread() == first));
    let mut epochs: Vec<_> = entered.iter().map(|entered| entered.thread.id().epoch).collect();
    epochs.sort_unstable();
    assert_eq!(epochs, [1, 2, 3, 4, 5, 6, 7, 8]);
    let found = bench.database().thread(&key()).unwrap().unwrap();
    assert_eq!((found.leases, found.is_ending), (8, false));
    assert_sound(&bench.database());
}

#[test]
fn eight_callers_of_one_process_that_race_share_one_lease() {
    let bench = Bench::new();
    let (holder, start) = (bench.holder(), Barrier::new(8));
    let entered: Vec<_> = thread::scope(|scope| {
        let enter_one = || {
            start.wait();
            enter(&holder, &key())
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(enter_one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(entered.iter().filter(|entered| entered.how == EnteredAs::Created).count(), 1);
    assert_eq!(entered.iter().filter(|entered| entered.how == EnteredAs::Held).count(), 7);
    assert!(entered.iter().all(|other| other.thread.id() == entered[0].thread.id()));
    assert_eq!(bench.database().thread(&key()).unwrap().unwrap().leases, 1);
}

#[test]
fn entering_a_thread_that_the_process_uses_writes_nothing() {
    let bench = Bench::new();
    let holder = bench.holder();
    let first = enter(&holder, &key());
    let conn = rusqlite::Connection::open(bench.file()).unwrap();
    let data_version = || -> i64 { conn.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
    let before = data_version();
    for _ in 0..100 {
        assert_eq!(enter(&holder, &key()).how, EnteredAs::Held);
    }
    assert_eq!(data_version(), before);
    assert_eq!(first.thread.id().epoch, 1);
}

#[test]
fn the_epoch_grows_when_a_thread_is_entered_again() {
    let bench = Bench::new();
    let holder = bench.holder();
    let first = enter(&holder, &key()).thread;
    let (number, epoch) = (first.thread(), first.id().epoch);
    assert!(holder.release(first).unwrap());
    assert_eq!(bench.database().thread(&key()).unwrap().unwrap().leases, 0);
    let again = enter(&holder, &key());
    assert_eq!(again.how, EnteredAs::Resumed);
    assert_eq!(again.thread.thread(), number);
    assert!(again.thread.id().epoch > epoch);
}

#[test]
fn a_dropped_thread_is_given_back_with_the_next_heartbeat() {
    let bench = Bench::new();
    let holder = bench.holder();
    let other = enter(&holder, &ThreadKey::new("coder", "t2"));
    drop(enter(&holder, &key()));
    assert_eq!(bench.database().thread(&key()).unwrap().unwrap().leases, 1);
    holder.renew_all().unwrap();
    assert_eq!(bench.database().thread(&key()).unwrap().unwrap().leases, 0);
    // One that was entered again before the heartbeat stays.
    drop(enter(&holder, &key()));
    let again = enter(&holder, &key());
    holder.renew_all().unwrap();
    assert_eq!(bench.database().thread(&key()).unwrap().unwrap().leases, 1);
    drop((again, other));
    assert!(holder.has_work());
    holder.close().unwrap();
    assert!(!holder.has_work());
    assert_eq!(
        bench.count("SELECT (SELECT count(*) FROM lease_holder) + (SELECT count(*) FROM thread_lease)"),
        0
    );
}

#[test]
fn threads_are_listed_by_agent() {
    let bench = Bench::new();
    let holder = bench.holder();
    let _entered = [("b", "1"), ("a", "2"), ("a", "1")]
        .map(|(agent, name)| enter(&holder, &ThreadKey::new(agent, name)));
    let names = |agent| -> Vec<String> {
        bench.database().threads(agent).unwrap().into_iter().map(|thread| thread.key.to_string()).collect()
    };
    assert_eq!(names(None), ["a/1", "a/2", "b/1"]);
    assert_eq!(names(Some("a")), ["a/1", "a/2"]);
    assert_eq!(bench.database().thread(&ThreadKey::new("b", "2")).unwrap(), None);
}
