//! The power is cut at every sync and between them: what was acknowledged is there afterwards, and nothing is torn.
//!
//! A program works on a disk while strace records its system calls ([`recording`]). The record determines what may be
//! left after a power cut ([`disk`]). That is rebuilt ([`tmpfs`]), opened by the real code, and compared with what had
//! been acknowledged to the program by then ([`judge`]).
//!
//! Each sync that Stead makes is also left out once, by its name: then the same cuts have to do harm.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod cuts;
mod disk;
mod judge;
mod plan;
mod recording;
mod sites;
mod steps;
mod tmpfs;
mod trace;

use plan::Plan;
use recording::Teller;
use stead::{Identity, Stead, Stores};
use tmpfs::Tmpfs;

fn is_long() -> bool {
    std::env::var_os("STEAD_TEST_LONG").is_some()
}

#[test]
#[ignore = "the recorded program of the tests here, which start it as a process of its own"]
fn the_recorded_program() {
    let mut teller = Teller::new();
    let config = judge::config(&teller.top);
    let stores = Stores::of(&config);
    let stead = Stead::open_in(&stores, &Identity::agent("a")).unwrap();
    let run: usize = std::env::var(plan::RUN).unwrap().parse().unwrap();
    let steps = &Plan::given().runs()[run];
    for (step, number) in steps.iter().zip(1..) {
        step.take(&stead, &stores, &config);
        teller.sure(number);
    }
    drop((stead, stores));
    teller.sure(steps.len() as u64 + 1);
}

fn survives(plan: Plan) {
    if !Tmpfs::is_possible() {
        return;
    }
    let recording = plan.recorded(&[]);
    let seeds = match plan {
        Plan::Virtual | Plan::Physical if !is_long() => 200,
        _ if !is_long() => 50,
        _ => 2_000,
    };
    let steps = plan.runs().pop().unwrap();
    let judged = cuts::cut(&recording, 0..seeds, |sure, image| judge::judge(plan, &steps, sure, image));
    match judged {
        Ok(cuts) => println!("{plan:?}: {} syncs, {cuts} power cuts", recording.disk.syncs().len()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_power_cut_takes_nothing_acknowledged_from_a_virtual_store() {
    survives(Plan::Virtual);
}

#[test]
fn a_power_cut_takes_nothing_acknowledged_from_a_physical_store() {
    survives(Plan::Physical);
}

#[test]
fn a_power_cut_takes_nothing_that_was_waited_for_later() {
    survives(Plan::Deferred);
}

#[test]
fn a_power_cut_leaves_the_audit_in_its_archive_or_in_the_database() {
    survives(Plan::Archived);
}

#[test]
fn a_power_cut_during_recovery_takes_nothing_acknowledged() {
    survives(Plan::RecoveredBatch);
    survives(Plan::RecoveredAppend);
}
