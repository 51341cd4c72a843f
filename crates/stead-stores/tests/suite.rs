//! Every Store under the behaviour suite, and in random runs compared with the model.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use stead_core::search::WalkOptions;
use stead_core::store::{
    Change, History, Maintenance, NodeId, NodeKind, NodePath, QuotaLimits, QuotaRoot, RevisionNumber,
    RevisionQuery, StorePath, Usage,
};
use stead_core::testkit::{SnapshotEntry, TreeSnapshot, model_run, snapshot_of};
use stead_core::{Identity, Operation, OperationId, Store, Timestamp, store_suite};
use stead_stores::{
    Confinement, Database, DatabaseOptions, Durability, MemoryStore, PhysicalOptions, PhysicalStore,
    VirtualStore,
};
use tempfile::TempDir;

fn virtual_store() -> (Arc<VirtualStore>, TempDir) {
    virtual_store_with(Durability::Fast)
}

fn durable_virtual_store() -> (Arc<VirtualStore>, TempDir) {
    virtual_store_with(Durability::Full)
}

fn virtual_store_with(durability: Durability) -> (Arc<VirtualStore>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { durability, ..DatabaseOptions::default() };
    let database = Database::open(directory.path().join("stead.db"), options).unwrap();
    (Arc::new(database.store(["suite"]).unwrap()), directory)
}

fn physical_store() -> (Arc<PhysicalStore>, TempDir) {
    physical_store_with(|_| ())
}

fn durable_physical_store() -> (Arc<PhysicalStore>, TempDir) {
    physical_store_with(|options| options.durability = Durability::Full)
}

fn walked_store() -> (Arc<PhysicalStore>, TempDir) {
    physical_store_with(|options| options.confinement = Confinement::Walk)
}

/// A Store whose ledger records what was displaced, without its content.
fn physical_store_without_content() -> (Arc<PhysicalStore>, TempDir) {
    physical_store_with(|options| options.displaced_retention = None)
}

fn physical_store_with(change: impl FnOnce(&mut PhysicalOptions)) -> (Arc<PhysicalStore>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let state = directory.path().join("state");
    let mut options = PhysicalOptions { durability: Durability::Fast, ..PhysicalOptions::new(state) };
    change(&mut options);
    (Arc::new(PhysicalStore::open(&root, options).unwrap()), directory)
}

store_suite!(memory, || Arc::new(MemoryStore::new()));
store_suite!(on_sqlite, virtual_store);
store_suite!(on_sqlite_durably, durable_virtual_store);
store_suite!(on_disk, physical_store);
store_suite!(on_disk_durably, durable_physical_store);
store_suite!(on_disk_without_content, physical_store_without_content);
store_suite!(on_disk_by_walking, walked_store);

/// Turns counting on, so that `verify` can compare.
fn count(store: &dyn Store) {
    let operation = Operation {
        id: OperationId::fresh(Timestamp(0)),
        identity: Arc::new(Identity::agent("suite")),
        tool: "count".into(),
        at: Timestamp(0),
    };
    let limits = QuotaLimits { bytes: Some(1 << 40), ..QuotaLimits::default() };
    let all = QuotaRoot::new(StorePath::empty(), limits);
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

/// For each node: its parent, its name and what it is.
type Known = HashMap<NodeId, (NodeId, Vec<u8>, SnapshotEntry)>;

fn known(store: &dyn Store) -> Known {
    let root = store.stat(&NodePath::root()).unwrap().node;
    let mut nodes: BTreeMap<Vec<u8>, NodeId> = [(Vec::new(), root)].into();
    let mut found = Vec::new();
    let visit = &mut |it: stead_core::store::WalkEntry| {
        nodes.insert(it.path.as_bytes().to_vec(), it.attr.node);
        found.push(it);
        ControlFlow::Continue(())
    };
    store.walk(&NodePath::root(), &WalkOptions::default(), visit).unwrap();
    let snapshot = snapshot_of(store);
    let entry = |it: stead_core::store::WalkEntry| {
        let (parent, name) = it.path.parent_and_name().unwrap();
        (it.attr.node, (nodes[parent], name.to_vec(), snapshot[it.path.as_bytes()].clone()))
    };
    found.into_iter().map(entry).collect()
}

fn paths(known: &Known) -> TreeSnapshot {
    let path = |node: &NodeId| {
        let (mut names, mut at) = (Vec::new(), *node);
        while let Some((parent, name, _)) = known.get(&at) {
            names.push(name.clone());
            at = *parent;
        }
        names.reverse();
        names.join(&b'/')
    };
    known.iter().map(|(node, (_, _, thing))| (path(node), thing.clone())).collect()
}

/// Undoes one revision after the other, newest first, and checks that everything is as it was before it.
fn deeds_lead_back(store: &dyn Store, earlier: &[(RevisionNumber, TreeSnapshot)]) {
    let deeds = store.require_history().unwrap().revisions(&RevisionQuery::all()).unwrap().revisions;
    let mut known = known(store);
    assert!(deeds.is_sorted_by(|one, other| one.number > other.number));
    for deed in deeds {
        for line in &deed.changes {
            let Some(before) = &line.before else {
                assert!(known.remove(&line.node).is_some(), "version {}: {line:?}", deed.number);
                continue;
            };
            let holds = before.content.as_ref().map(|past| {
                let open = store.require_history().unwrap().open_content(past).unwrap();
                let mut bytes = vec![0; usize::try_from(past.size()).unwrap()];
                assert_eq!(open.read_at(0, &mut bytes).unwrap(), bytes.len());
                blake3::hash(&bytes)
            });
            let mode = if before.kind == NodeKind::Symlink { 0 } else { before.mode };
            // Content that wasn't retained is known by its size alone.
            let is_unknown = before.content.is_none() && before.kind != NodeKind::Directory;
            assert!(
                !is_unknown || !store.history().unwrap().retains_content(),
                "version {}: {line:?}",
                deed.number
            );
            let thing = SnapshotEntry { kind: before.kind, mode, size: before.size, content_hash: holds };
            known.insert(line.node, (before.parent, before.name.clone(), thing));
        }
        let last = earlier.iter().rev().find(|(version, _)| *version < deed.number);
        let mut then = last.map(|(_, then)| then.clone()).unwrap_or_default();
        let told = paths(&known);
        for (path, thing) in &mut then {
            thing.content_hash =
                thing.content_hash.filter(|_| told.get(path).is_none_or(|told| told.content_hash.is_some()));
        }
        assert_eq!(told, then, "before version {}", deed.number);
    }
    assert!(known.is_empty());
}

#[test]
fn a_directory_agrees_with_the_model_and_its_deeds_lead_back() {
    a_directory_leads_back(physical_store);
}

#[test]
fn a_directory_that_keeps_no_content_agrees_with_the_model_and_its_deeds_lead_back() {
    a_directory_leads_back(physical_store_without_content);
}

fn a_directory_leads_back(make: fn() -> (Arc<PhysicalStore>, TempDir)) {
    let (runs, steps) = effort();
    for seed in 200..200 + runs {
        let (store, _directory) = make();
        count(&*store);
        let mut earlier: Vec<(RevisionNumber, TreeSnapshot)> = Vec::new();
        model_run(Arc::clone(&store) as Arc<dyn Store>, seed, steps, |now| {
            earlier.push((store.latest_revision().unwrap(), now.clone()));
        });
        deeds_lead_back(&*store, &earlier);
        let mut usage = Usage::default();
        for thing in snapshot_of(&*store).values().filter(|thing| thing.kind != NodeKind::Directory) {
            usage.files += 1;
            usage.bytes += if thing.kind == NodeKind::File { thing.size } else { 0 };
        }
        assert_eq!(store.usage(&StorePath::empty()).unwrap(), usage, "run {seed} counted something else");
    }
}

#[test]
fn sqlite_agrees_with_the_model_and_every_earlier_version_reads_as_it_was() {
    let (runs, steps) = effort();
    for seed in 100..100 + runs {
        let (store, _directory) = virtual_store();
        count(&*store);
        let mut earlier: Vec<(RevisionNumber, TreeSnapshot)> = Vec::new();
        model_run(Arc::clone(&store) as Arc<dyn Store>, seed, steps, |now| {
            earlier.push((store.latest_revision().unwrap(), now.clone()));
            // One of the earlier versions each time, and all of them at the end.
            let (version, then) = &earlier[earlier.len() * 7 % 11 % earlier.len()];
            assert_eq!(snapshot_of(&store.at(*version)), *then, "version {version} of the run {seed}");
        });
        assert_eq!(store.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
        for (version, then) in &earlier {
            assert_eq!(snapshot_of(&store.at(*version)), *then, "version {version} of the run {seed}");
        }
        deeds_lead_back(&*store, &earlier);
    }
}
