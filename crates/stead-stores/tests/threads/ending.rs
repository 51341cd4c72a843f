//! When a thread may end, and who finishes that.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use stead_core::StoreError;
use stead_core::vfs::ThreadLease;
use stead_stores::{EndWhen, Ending, EnteredAs};

use crate::{Bench, assert_sound, begun, enter, key, record, virtual_vfs};

/// Has so many seconds pass for what the database knows of threads.
fn pass(bench: &Bench, seconds: i64) {
    bench.sql(&format!("UPDATE thread SET last_used = last_used - {seconds} * 1000000000"));
}

#[test]
fn an_idle_thread_is_due_after_its_time_out() {
    let bench = Bench::new();
    let (holder, sweeper) = (bench.holder(), bench.holder());
    drop(enter(&holder, &key()));
    holder.close().unwrap();
    assert!(sweeper.sweepable().unwrap().is_empty());
    assert!(matches!(sweeper.begin_ending(&key(), EndWhen::Idle).unwrap(), Ending::NotIdle));
    pass(&bench, 1_799);
    assert!(sweeper.sweepable().unwrap().is_empty());
    pass(&bench, 2);
    assert_eq!(sweeper.sweepable().unwrap(), [key()]);
    let Ending::Begun(ending) = sweeper.begin_ending(&key(), EndWhen::Idle).unwrap() else {
        panic!("it is due")
    };
    sweeper.finish_ending(ending, record(&key())).unwrap();
    assert_eq!(bench.database().thread(&key()).unwrap(), None);
    assert!(sweeper.sweepable().unwrap().is_empty());
    assert_sound(&bench.database());
}

#[test]
fn an_unexpired_lease_keeps_a_thread_and_an_expired_one_does_not() {
    let bench = Bench::new();
    let (holder, sweeper) = (bench.holder(), bench.holder());
    let _thread = enter(&holder, &key());
    pass(&bench, 10_000);
    assert!(sweeper.sweepable().unwrap().is_empty());
    for when in [EndWhen::Now, EndWhen::Idle] {
        assert!(matches!(sweeper.begin_ending(&key(), when).unwrap(), Ending::InUse));
    }
    assert_eq!(bench.count("SELECT count(*) FROM thread_lease"), 1, "an unexpired holder is never touched");
    bench.sql("UPDATE lease_holder SET expires = 1 WHERE id IN (SELECT holder FROM thread_lease)");
    assert_eq!(sweeper.sweepable().unwrap(), [key()]);
    assert_eq!(bench.count("SELECT count(*) FROM thread_lease"), 0);
    assert!(matches!(sweeper.begin_ending(&key(), EndWhen::Idle).unwrap(), Ending::Begun(_)));
}

#[test]
fn no_time_out_fires_while_a_call_runs() {
    let bench = Bench::new();
    let holder = bench.holder();
    let thread = enter(&holder, &key()).thread;
    let call = Arc::clone(&thread).begin().unwrap();
    pass(&bench, 10_000);
    assert!(holder.sweepable().unwrap().is_empty());
    for when in [EndWhen::Now, EndWhen::Idle] {
        assert!(matches!(holder.begin_ending(&key(), when).unwrap(), Ending::InUse));
    }
    drop(call);
    // It was used just now, which the database doesn't know yet.
    assert!(matches!(holder.begin_ending(&key(), EndWhen::Idle).unwrap(), Ending::NotIdle));
    drop(Arc::clone(&thread).begin().unwrap());
    holder.renew_all().unwrap();
    assert!(bench.database().thread(&key()).unwrap().unwrap().idle_for < Duration::from_secs(60));
    assert!(matches!(holder.begin_ending(&key(), EndWhen::Now).unwrap(), Ending::Begun(_)));
    assert!(thread.has_ended());
    assert!(Arc::clone(&thread).begin().is_err());
}

#[test]
fn a_long_call_keeps_the_thread_in_use_at_every_heartbeat() {
    let bench = Bench::new();
    let holder = bench.holder();
    let thread = enter(&holder, &key()).thread;
    let _call = Arc::clone(&thread).begin().unwrap();
    for _ in 0..3 {
        pass(&bench, 10_000);
        holder.renew_all().unwrap();
        assert!(bench.database().thread(&key()).unwrap().unwrap().idle_for < Duration::from_secs(60));
    }
}

#[test]
fn an_ending_that_was_not_finished_is_finished_by_the_next() {
    let bench = Bench::new();
    let (first, second) = (bench.holder(), bench.holder());
    let vfs = virtual_vfs(&enter(&first, &key()).thread);
    vfs.write("/w/a", "1").unwrap();
    let ending = begun(&first, &key());
    // It is being removed: no one enters it, and no one else removes it.
    let entered = second.enter(&key(), None, &record(&key()));
    assert!(matches!(entered, Err(StoreError::Unavailable { .. })), "{entered:?}");
    assert!(second.sweepable().unwrap().is_empty());
    assert!(matches!(second.begin_ending(&key(), EndWhen::Now).unwrap(), Ending::InUse));
    assert!(matches!(first.begin_ending(&key(), EndWhen::Now).unwrap(), Ending::InUse));
    ending.check().unwrap();
    bench.expire_holders();
    assert_eq!(second.sweepable().unwrap(), [key()]);
    let taken_over = match second.begin_ending(&key(), EndWhen::Idle).unwrap() {
        Ending::Begun(ending) => ending,
        other => panic!("{other:?}"),
    };
    assert!(taken_over.is_taken_over());
    assert!(matches!(ending.check(), Err(StoreError::LeaseExpired)));
    assert!(matches!(first.finish_ending(ending, record(&key())), Err(StoreError::LeaseExpired)));
    let removed = second.finish_ending(taken_over, record(&key())).unwrap();
    assert_eq!((removed.volumes, removed.files, removed.bytes), (1, 1, 1));
    assert!(matches!(second.begin_ending(&key(), EndWhen::Now).unwrap(), Ending::Missing));
    assert_eq!(enter(&second, &key()).how, EnteredAs::Created);
    assert_sound(&bench.database());
}

#[test]
fn an_ending_goes_on_after_its_holder_has_expired_if_no_one_took_it_over() {
    let bench = Bench::new();
    let holder = bench.holder();
    drop(enter(&holder, &key()));
    let ending = begun(&holder, &key());
    bench.expire_holders();
    holder.finish_ending(ending, record(&key())).unwrap();
    // One that failed in this process is taken up again by it.
    drop(enter(&holder, &key()));
    drop(begun(&holder, &key()));
    assert_eq!(holder.sweepable().unwrap(), [key()]);
    assert!(begun(&holder, &key()).is_taken_over());
}

#[test]
fn calls_and_an_ending_that_race_never_overlap() {
    for _ in 0..20 {
        let bench = Bench::new();
        let holder = bench.holder();
        let held = enter(&holder, &key()).thread;
        let vfs = virtual_vfs(&held);
        thread::scope(|scope| {
            let writer = scope.spawn(|| (0..).take_while(|_| vfs.write("/w/a", "1").is_ok()).count());
            let removed = loop {
                if let Ending::Begun(ending) = holder.begin_ending(&key(), EndWhen::Now).unwrap() {
                    break holder.finish_ending(ending, record(&key())).unwrap();
                }
                thread::yield_now();
            };
            assert_eq!(removed.volumes, 1);
            writer.join().unwrap();
        });
        assert_eq!(bench.count("SELECT count(*) FROM entry"), 0);
    }
}
