//! The power is cut at every sync and between them: what was acknowledged is there afterwards, and nothing is torn.
//!
//! A program works on a disk while strace records its system calls ([`recording`]). The record determines what may be
//! left after a power cut ([`disk`]). That is rebuilt ([`tmpfs`]), opened by the real code, and compared with what had
//! been acknowledged to the program by then ([`image_check`]).
//!
//! Each sync that Stead makes is also left out once, by its name: then the same cuts have to do harm.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod cuts;
mod disk;
mod image_check;
mod needed_syncs;
mod plan;
mod recording;
mod steps;
mod tmpfs;
mod trace;

use plan::Plan;
use recording::Reporter;
use stead::{Identity, Stead, Stores};
use tmpfs::Tmpfs;

fn is_long_run() -> bool {
    std::env::var_os("STEAD_TEST_LONG").is_some()
}

#[test]
#[ignore = "a child process: the tests start it and record it"]
fn the_recorded_program() {
    let mut reporter = Reporter::new();
    let config = image_check::config(&reporter.top);
    let stores = Stores::of(&config);
    let stead = Stead::open_in(&stores, &Identity::agent("a")).unwrap();
    let run: usize = std::env::var(plan::RUN).unwrap().parse().unwrap();
    let steps = &Plan::from_environment().runs()[run];
    for (step, number) in steps.iter().zip(1..) {
        step.run(&stead, &stores, &config);
        reporter.report_step(number);
    }
    drop((stead, stores));
    reporter.report_step(steps.len() as u64 + 1);
}

fn assert_survives(plan: Plan) {
    if !Tmpfs::is_possible() {
        eprintln!("SKIPPED: this host lets this user mount no tmpfs");
        return;
    }
    let recording = plan.record_last_run(&[]);
    let seeds = match plan {
        Plan::Virtual | Plan::Physical if !is_long_run() => 200,
        _ if !is_long_run() => 50,
        _ => 2_000,
    };
    let steps = plan.runs().pop().unwrap();
    let result = cuts::cut(&recording, 0..seeds, |acknowledged, image| {
        image_check::check_image(plan, &steps, acknowledged, image)
    });
    match result {
        Ok(cuts) => println!("{plan:?}: {} syncs, {cuts} power cuts", recording.disk.syncs().len()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_power_cut_loses_nothing_acknowledged_in_a_virtual_store() {
    assert_survives(Plan::Virtual);
}

#[test]
fn a_power_cut_loses_nothing_acknowledged_in_a_physical_store() {
    assert_survives(Plan::Physical);
}

#[test]
fn a_power_cut_loses_no_deferred_change_that_was_synced_later() {
    assert_survives(Plan::Deferred);
}

#[test]
fn a_power_cut_leaves_the_audit_in_its_archive_or_in_the_database() {
    assert_survives(Plan::Archived);
}

#[test]
fn a_power_cut_during_recovery_loses_nothing_acknowledged() {
    assert_survives(Plan::RecoveredBatch);
    assert_survives(Plan::RecoveredAppend);
}
