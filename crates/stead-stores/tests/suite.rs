//! Every Store under the one behaviour suite, and in random runs beside the model.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use stead_core::store::{Change, QuotaLimits, QuotaRoot, StorePath, Usage, Version};
use stead_core::testkit::{Snapshot, model_run, snapshot_of};
use stead_core::{Identity, Operation, OperationId, Store, Timestamp, store_suite};
use stead_stores::{
    Database, DatabaseOptions, Durability, MemoryStore, PhysicalOptions, PhysicalStore, VirtualStore,
};
use tempfile::TempDir;

fn virtual_store() -> (Arc<VirtualStore>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    // Durability is for power cuts, which no test here has; the kill tests run with all of it.
    let options = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    let database = Database::open(directory.path().join("stead.db"), options).unwrap();
    (Arc::new(database.store(["suite"]).unwrap()), directory)
}

fn physical_store() -> (Arc<PhysicalStore>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let options = PhysicalOptions {
        durability: Durability::Fast,
        ..PhysicalOptions::new(directory.path().join("state"))
    };
    (Arc::new(PhysicalStore::open(&root, options).unwrap()), directory)
}

fn physical_store_with_history() -> (Arc<PhysicalStore>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let options = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    let database = Database::open(directory.path().join("stead.db"), options).unwrap();
    let options = PhysicalOptions {
        durability: Durability::Fast,
        ledger: Some(database.into()),
        ..PhysicalOptions::new(directory.path().join("state"))
    };
    (Arc::new(PhysicalStore::open(&root, options).unwrap()), directory)
}

store_suite!(memory, || Arc::new(MemoryStore::new()));
store_suite!(on_sqlite, virtual_store);
store_suite!(on_disk, physical_store);
store_suite!(on_disk_with_history, physical_store_with_history);

/// Has everything counted from now on, so that `verify` can compare.
fn count(store: &dyn Store) {
    let operation = Operation {
        id: OperationId::fresh(Timestamp(0)),
        identity: Arc::new(Identity::agent("suite")),
        tool: "count".into(),
        at: Timestamp(0),
    };
    let all = QuotaRoot {
        at: StorePath::here(),
        limits: QuotaLimits { bytes: Some(1 << 40), ..QuotaLimits::default() },
        elsewhere: Usage::default(),
    };
    store.apply(Change { quotas: vec![all], ..Change::new(operation, Vec::new()) }).unwrap();
}

/// How many runs there are, and how many steps each has.
fn effort() -> (u64, usize) {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { (40, 3_000) } else { (3, 400) }
}

#[test]
fn memory_agrees_with_the_model() {
    let (runs, steps) = effort();
    for seed in 0..runs {
        model_run(Arc::new(MemoryStore::new()), seed, steps, |_| ());
    }
}

#[test]
fn a_directory_agrees_with_the_model() {
    let (runs, steps) = effort();
    for seed in 200..200 + runs {
        let (store, _directory) = physical_store();
        model_run(store, seed, steps, |_| ());
    }
}

#[test]
fn sqlite_agrees_with_the_model_and_every_earlier_version_reads_as_it_was() {
    let (runs, steps) = effort();
    for seed in 100..100 + runs {
        let (store, _directory) = virtual_store();
        count(&*store);
        let mut earlier: Vec<(Version, Snapshot)> = Vec::new();
        model_run(Arc::clone(&store) as Arc<dyn Store>, seed, steps, |now| {
            earlier.push((store.version().unwrap(), now.clone()));
            // One of the earlier versions each time, and all of them at the end.
            let (version, then) = &earlier[earlier.len() * 7 % 11 % earlier.len()];
            assert_eq!(snapshot_of(&store.at(*version)), *then, "version {version} of the run {seed}");
        });
        assert_eq!(store.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
        for (version, then) in &earlier {
            assert_eq!(snapshot_of(&store.at(*version)), *then, "version {version} of the run {seed}");
        }
    }
}
