//! What a thread costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stead_core::vfs::ThreadLease;

use crate::{Bench, IDLE_TIMEOUT, ThreadKey, enter, key, record};

/// The CPU time of this OS thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
}

/// Prints what making, entering and using threads costs: `cargo nextest run --release --run-ignored all --no-capture`.
#[test]
#[ignore = "it measures times, prints them and asserts nothing"]
fn measure_making_and_entering_threads() {
    const COUNT: u32 = 10_000;
    let bench = Bench::new();
    let holder = bench.holder();
    let keys: Vec<_> = (0..COUNT).map(|number| ThreadKey::new("coder", format!("thread-{number}"))).collect();
    let record = record(&key());
    let resident = || -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
    };
    let (cpu, began, memory) = (cpu_time(), Instant::now(), resident());
    let held: Vec<_> =
        keys.iter().map(|key| holder.enter(key, Some(IDLE_TIMEOUT), &record).unwrap().thread).collect();
    println!(
        "making: {:?} CPU with the write, {:?} in all, {} bytes each",
        (cpu_time() - cpu) / COUNT,
        began.elapsed() / COUNT,
        (resident() - memory) / u64::from(COUNT)
    );
    let cpu = cpu_time();
    for key in &keys {
        drop(holder.enter(key, Some(IDLE_TIMEOUT), &record).unwrap());
    }
    println!("entering again: {:?} CPU", (cpu_time() - cpu) / COUNT);
    let (cpu, memory) = (cpu_time(), resident());
    for thread in &held {
        thread.volume(["workspaces", "coder"]).unwrap();
    }
    let (cpu, memory) = ((cpu_time() - cpu) / COUNT, (resident() - memory) / u64::from(COUNT));
    println!("making its volume: {cpu:?} CPU with the write, {memory} bytes each");
    let cpu = cpu_time();
    for thread in &held {
        drop(Arc::clone(thread).begin().unwrap());
    }
    println!("beginning and ending a call: {:?} CPU", (cpu_time() - cpu) / COUNT);
    let began = Instant::now();
    holder.renew_all().unwrap();
    println!("a heartbeat after all of them were used: {:?}", began.elapsed());
    let began = Instant::now();
    holder.renew_all().unwrap();
    println!("a heartbeat after none was used: {:?}", began.elapsed());
    let began = Instant::now();
    assert!(holder.sweepable().unwrap().is_empty());
    println!("looking for what is due: {:?}", began.elapsed());
    bench.expire_holders();
    let began = Instant::now();
    holder.renew_all().unwrap();
    println!("taking all leases anew after they have expired: {:?}", began.elapsed());
}

#[test]
fn a_heartbeat_writes_only_what_was_used() {
    let bench = Bench::new();
    let holder = bench.holder();
    let held = ["a", "b"].map(|name| enter(&holder, &ThreadKey::new("coder", name)).thread);
    bench.sql("UPDATE thread SET last_used = 1");
    drop(Arc::clone(&held[0]).begin().unwrap());
    holder.renew_all().unwrap();
    assert_eq!(bench.count("SELECT count(*) FROM thread WHERE last_used = 1"), 1);
    // To the millisecond, and by the database's clock.
    let began = Instant::now();
    drop(Arc::clone(&held[0]).begin().unwrap());
    std::thread::sleep(Duration::from_millis(50));
    holder.renew_all().unwrap();
    let idle = bench.database().thread(held[0].key()).unwrap().unwrap().idle_for;
    assert!(
        idle >= Duration::from_millis(48) && idle <= began.elapsed() + Duration::from_millis(2),
        "{idle:?}"
    );
}
