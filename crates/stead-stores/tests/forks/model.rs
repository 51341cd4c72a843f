//! Random runs that go on in fork after fork, while the bases change independently.

use std::sync::Arc;

use stead_core::Store;
use stead_core::store::{Change, History, QuotaLimits, QuotaRoot, RevisionNumber, StorePath};
use stead_core::testkit::{TreeSnapshot, model_run_over, snapshot_of};
use stead_stores::VirtualStore;

use crate::{change, clear, database, fork, names, rename, sound, write};

/// How many runs there are, and how many steps each has between two forks.
fn effort() -> (u64, usize) {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { (40, 300) } else { (4, 60) }
}

/// Turns counting on, so that `verify` can compare.
fn count(store: &dyn Store) {
    let limits = QuotaLimits { bytes: Some(1 << 40), ..QuotaLimits::default() };
    let all = QuotaRoot::new(StorePath::empty(), limits);
    store.apply(Change { quotas: vec![all], ..change(Vec::new()) }).unwrap();
}

/// Changes a base after it was forked, in every possible way.
fn go_on(base: &VirtualStore, round: usize) {
    for name in names(base, "") {
        rename(base, &name, &format!("moved/{name}"));
    }
    if round.is_multiple_of(2) {
        clear(base);
    }
    for name in ["a", "b", "c", "d"] {
        write(base, &format!("{name}/{name}"), "the base's own");
    }
}

/// A Store that was forked: its content and its revision at that time, and its content now.
struct Base {
    store: VirtualStore,
    version: RevisionNumber,
    held: TreeSnapshot,
    holds: TreeSnapshot,
}

#[test]
fn forks_agree_with_the_model_and_bases_stay_as_they_are() {
    let (runs, between) = effort();
    for seed in 300..300 + runs {
        let (database, _directory) = database();
        let mut store = database.store(["base"]).unwrap();
        count(&store);
        let mut bases: Vec<Base> = Vec::new();
        let mut earlier: Vec<(RevisionNumber, TreeSnapshot)> = Vec::new();
        let mut step = 0_usize;
        model_run_over(Arc::new(store.clone()), seed, between * 8, |now| {
            step += 1;
            earlier.push((store.latest_revision().unwrap(), now.clone()));
            let (version, then) = &earlier[earlier.len() * 7 % 11 % earlier.len()];
            assert_eq!(snapshot_of(&store.at(*version)), *then, "version {version} of the run {seed}");
            if !step.is_multiple_of(between) {
                return None;
            }
            let version = store.latest_revision().unwrap();
            let next = fork(&store, &step.to_string());
            if !(step / between).is_multiple_of(3) {
                go_on(&store, step / between);
            }
            let holds = snapshot_of(&store);
            bases.push(Base { store: store.clone(), version, held: now.clone(), holds });
            store = next;
            earlier.clear();
            Some(Arc::new(store.clone()))
        });
        for (version, then) in &earlier {
            assert_eq!(snapshot_of(&store.at(*version)), *then, "version {version} of the run {seed}");
        }
        for base in &bases {
            assert_eq!(snapshot_of(&base.store), base.holds, "seed {seed}: a base now");
            assert_eq!(snapshot_of(&base.store.at(base.version)), base.held, "seed {seed}: a base then");
        }
        sound(&store);
    }
}
