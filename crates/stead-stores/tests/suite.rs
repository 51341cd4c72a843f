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

fn store_confined_by_walking() -> (Arc<PhysicalStore>, TempDir) {
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
store_suite!(on_disk_by_walking, store_confined_by_walking);

/// Turns counting on, so that `verify` can compare.
fn enable_counting(store: &dyn Store) {
    let operation = Operation {
        id: OperationId::fresh(Timestamp(0)),
        identity: Arc::new(Identity::agent("suite")),
        tool: "count".into(),
        at: Timestamp(0),
    };
    let limits = QuotaLimits { bytes: Some(1 << 40), ..QuotaLimits::default() };
    let quota_root = QuotaRoot::new(StorePath::empty(), limits);
    store.apply(Change { quotas: vec![quota_root], ..Change::new(operation, Vec::new()) }).unwrap();
}

/// How many runs there are, and how many steps each has.
fn runs_and_steps() -> (u64, usize) {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { (40, 3_000) } else { (3, 400) }
}

#[test]
fn memory_agrees_with_the_model() {
    let (runs, steps) = runs_and_steps();
    for seed in 0..runs {
        model_run(Arc::new(MemoryStore::new()), seed, steps, |_| ());
    }
}

/// For each node: its parent, its name and what it is.
type KnownNodes = HashMap<NodeId, (NodeId, Vec<u8>, SnapshotEntry)>;

fn known_nodes(store: &dyn Store) -> KnownNodes {
    let root = store.stat(&NodePath::root()).unwrap().node;
    let mut nodes: BTreeMap<Vec<u8>, NodeId> = [(Vec::new(), root)].into();
    let mut entries = Vec::new();
    let visit = &mut |entry: stead_core::store::WalkEntry| {
        nodes.insert(entry.path.as_bytes().to_vec(), entry.attr.node);
        entries.push(entry);
        ControlFlow::Continue(())
    };
    store.walk(&NodePath::root(), &WalkOptions::default(), visit).unwrap();
    let snapshot = snapshot_of(store);
    let to_node = |found_entry: stead_core::store::WalkEntry| {
        let (parent, name) = found_entry.path.parent_and_name().unwrap();
        (found_entry.attr.node, (nodes[parent], name.to_vec(), snapshot[found_entry.path.as_bytes()].clone()))
    };
    entries.into_iter().map(to_node).collect()
}

fn tree_of(nodes: &KnownNodes) -> TreeSnapshot {
    let path = |node: &NodeId| {
        let (mut names, mut current) = (Vec::new(), *node);
        while let Some((parent, name, _)) = nodes.get(&current) {
            names.push(name.clone());
            current = *parent;
        }
        names.reverse();
        names.join(&b'/')
    };
    nodes.iter().map(|(node, (_, _, entry))| (path(node), entry.clone())).collect()
}

/// Undoes one revision after the other, newest first, and checks that everything is as it was before it.
fn assert_undoing_revisions_gives_earlier_trees(
    store: &dyn Store,
    earlier: &[(RevisionNumber, TreeSnapshot)],
) {
    let revisions = store.require_history().unwrap().revisions(&RevisionQuery::all()).unwrap().revisions;
    let mut nodes = known_nodes(store);
    assert!(revisions.is_sorted_by(|left, right| left.number > right.number));
    for revision in revisions {
        for change in &revision.changes {
            let Some(before) = &change.before else {
                assert!(nodes.remove(&change.node).is_some(), "version {}: {change:?}", revision.number);
                continue;
            };
            let content_hash = before.content.as_ref().map(|content_ref| {
                let content = store.require_history().unwrap().open_content(content_ref).unwrap();
                let mut bytes = vec![0; usize::try_from(content_ref.size()).unwrap()];
                assert_eq!(content.read_at(0, &mut bytes).unwrap(), bytes.len());
                blake3::hash(&bytes)
            });
            let mode = if before.kind == NodeKind::Symlink { 0 } else { before.mode };
            // Content that wasn't retained is known by its size alone.
            let is_unknown = before.content.is_none() && before.kind != NodeKind::Directory;
            assert!(
                !is_unknown || !store.history().unwrap().retains_content(),
                "version {}: {change:?}",
                revision.number
            );
            let entry = SnapshotEntry { kind: before.kind, mode, size: before.size, content_hash };
            nodes.insert(change.node, (before.parent, before.name.clone(), entry));
        }
        let previous = earlier.iter().rev().find(|(revision_number, _)| *revision_number < revision.number);
        let mut expected = previous.map(|(_, tree)| tree.clone()).unwrap_or_default();
        let actual = tree_of(&nodes);
        for (path, entry) in &mut expected {
            entry.content_hash = entry
                .content_hash
                .filter(|_| actual.get(path).is_none_or(|found| found.content_hash.is_some()));
        }
        assert_eq!(actual, expected, "before version {}", revision.number);
    }
    assert!(nodes.is_empty());
}

#[test]
fn a_directory_agrees_with_the_model_and_its_revisions_can_be_undone() {
    assert_directory_agrees(physical_store);
}

#[test]
fn a_directory_that_retains_no_content_agrees_with_the_model_and_its_revisions_can_be_undone() {
    assert_directory_agrees(physical_store_without_content);
}

fn assert_directory_agrees(make: fn() -> (Arc<PhysicalStore>, TempDir)) {
    let (runs, steps) = runs_and_steps();
    for seed in 200..200 + runs {
        let (store, _directory) = make();
        enable_counting(&*store);
        let mut earlier: Vec<(RevisionNumber, TreeSnapshot)> = Vec::new();
        model_run(Arc::clone(&store) as Arc<dyn Store>, seed, steps, |now| {
            earlier.push((store.latest_revision().unwrap(), now.clone()));
        });
        assert_undoing_revisions_gives_earlier_trees(&*store, &earlier);
        let mut usage = Usage::default();
        for entry in snapshot_of(&*store).values().filter(|entry| entry.kind != NodeKind::Directory) {
            usage.files += 1;
            usage.bytes += if entry.kind == NodeKind::File { entry.size } else { 0 };
        }
        assert_eq!(store.usage(&StorePath::empty()).unwrap(), usage, "the usage after run {seed}");
    }
}

#[test]
fn sqlite_agrees_with_the_model_and_every_earlier_version_reads_as_it_was() {
    let (runs, steps) = runs_and_steps();
    for seed in 100..100 + runs {
        let (store, _directory) = virtual_store();
        enable_counting(&*store);
        let mut earlier: Vec<(RevisionNumber, TreeSnapshot)> = Vec::new();
        model_run(Arc::clone(&store) as Arc<dyn Store>, seed, steps, |now| {
            earlier.push((store.latest_revision().unwrap(), now.clone()));
            // One of the earlier versions each time, and all of them at the end.
            let (revision, expected) = &earlier[earlier.len() * 7 % 11 % earlier.len()];
            assert_eq!(snapshot_of(&store.at(*revision)), *expected, "version {revision} of the run {seed}");
        });
        assert_eq!(store.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
        for (revision, expected) in &earlier {
            assert_eq!(snapshot_of(&store.at(*revision)), *expected, "version {revision} of the run {seed}");
        }
        assert_undoing_revisions_gives_earlier_trees(&*store, &earlier);
    }
}
