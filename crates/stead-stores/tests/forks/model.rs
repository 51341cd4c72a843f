//! Random runs that go on in fork after fork, while the bases change independently.

use std::sync::Arc;

use stead_core::Store;
use stead_core::store::{Change, History, QuotaLimits, QuotaRoot, RevisionNumber, StorePath};
use stead_core::testkit::{TreeSnapshot, model_run_over, snapshot_of};
use stead_stores::VirtualStore;

use crate::{assert_sound, change, clear, database, fork, names, rename, write};

/// How many runs there are, and how many steps each has between two forks.
fn runs_and_steps() -> (u64, usize) {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { (40, 300) } else { (4, 60) }
}

/// Turns counting on, so that `verify` can compare.
fn enable_counting(store: &dyn Store) {
    let limits = QuotaLimits { bytes: Some(1 << 40), ..QuotaLimits::default() };
    let quota_root = QuotaRoot::new(StorePath::empty(), limits);
    store.apply(Change { quotas: vec![quota_root], ..change(Vec::new()) }).unwrap();
}

/// Changes a base after it was forked, in every possible way.
fn change_base(base: &VirtualStore, round: usize) {
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
    revision: RevisionNumber,
    tree_when_forked: TreeSnapshot,
    tree_now: TreeSnapshot,
}

#[test]
fn forks_agree_with_the_model_and_bases_stay_as_they_are() {
    let (runs, between) = runs_and_steps();
    for seed in 300..300 + runs {
        let (database, _directory) = database();
        let mut store = database.store(["base"]).unwrap();
        enable_counting(&store);
        let mut bases: Vec<Base> = Vec::new();
        let mut earlier: Vec<(RevisionNumber, TreeSnapshot)> = Vec::new();
        let mut step = 0_usize;
        model_run_over(Arc::new(store.clone()), seed, between * 8, |now| {
            step += 1;
            earlier.push((store.latest_revision().unwrap(), now.clone()));
            let (revision, expected) = &earlier[earlier.len() * 7 % 11 % earlier.len()];
            assert_eq!(snapshot_of(&store.at(*revision)), *expected, "version {revision} of the run {seed}");
            if !step.is_multiple_of(between) {
                return None;
            }
            let revision = store.latest_revision().unwrap();
            let next = fork(&store, &step.to_string());
            if !(step / between).is_multiple_of(3) {
                change_base(&store, step / between);
            }
            let tree_now = snapshot_of(&store);
            bases.push(Base { store: store.clone(), revision, tree_when_forked: now.clone(), tree_now });
            store = next;
            earlier.clear();
            Some(Arc::new(store.clone()))
        });
        for (revision, expected) in &earlier {
            assert_eq!(snapshot_of(&store.at(*revision)), *expected, "version {revision} of the run {seed}");
        }
        for base in &bases {
            assert_eq!(snapshot_of(&base.store), base.tree_now, "seed {seed}: the current tree of a base");
            assert_eq!(
                snapshot_of(&base.store.at(base.revision)),
                base.tree_when_forked,
                "seed {seed}: an earlier tree of a base"
            );
        }
        assert_sound(&store);
    }
}
