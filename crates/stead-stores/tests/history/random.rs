//! Random histories: undone as a whole, and redone.

use std::sync::Arc;

use stead_core::store::Parents;
use stead_core::testkit::snapshot_of;
use stead_core::vfs::{ListPage, Overwrite, RemoveOptions, RestoreOptions, UndoOptions, UndoTarget};
use stead_core::{Identity, Occurrences, OperationId, Store, Vfs, VfsPath};

use crate::{undo, vfs_for};

crate::on_every_store! {
    all_operations_are_undone_one_by_one_and_redone
    all_operations_are_undone_at_once_and_redone
    undoing_one_agents_operations_leaves_those_of_others
    every_version_can_be_restored
    every_version_of_a_path_can_be_restored
}

fn rounds() -> u64 {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { 200 } else { 12 }
}

/// Makes a random change as an agent; it may fail. Returns its operation if it changed something.
fn random_change(vfs: &Vfs, random: &mut fastrand::Rng, top: &str) -> Option<OperationId> {
    let name = |random: &mut fastrand::Rng| {
        let names = ["a", "b", "c", "d/a", "d/b", "d/e/a", "d/e", "d", "e/f/g"];
        format!("{top}/{}", names[random.usize(..names.len())])
    };
    let (path, other_path) = (name(random), name(random));
    let line = |random: &mut fastrand::Rng| format!("{}\n", random.u8(..20));
    let content =
        |random: &mut fastrand::Rng| (0..random.usize(..8)).map(|_| line(random)).collect::<String>();
    let overwrite = if random.bool() { Overwrite::Replace } else { Overwrite::Refuse };
    let before =
        vfs.workspaces().next()?.mount().store().require_history().unwrap().latest_revision().unwrap();
    let operation = match random.u8(..10) {
        0..=2 => vfs.write(&*path, content(random)).ok()?.operation,
        3 => vfs.append(&*path, line(random)).ok()?.operation,
        4 => {
            let (old, new) = (line(random), line(random));
            vfs.edit(&*path, &old, &new, Occurrences::All).ok()?.written.operation
        }
        5 => vfs.rename(&*path, &*other_path, overwrite).ok()?.operation,
        6 => vfs.copy(&*path, &*other_path, overwrite).ok()?.operation,
        7 => {
            let removal = RemoveOptions { recursive: true, ..RemoveOptions::default() };
            match vfs.remove_file(&*path, removal) {
                Ok(removed) => removed.operation,
                Err(_) => vfs.remove_directory(&*path, removal).ok()?.operation,
            }
        }
        8 => vfs.mkdir(&*path, Parents::Create).ok()?.operation,
        _ if random.bool() => vfs.symlink(&*path, "a").ok()?.operation,
        _ => vfs.set_attributes(&*path, Some(0o600 + random.u32(..0o100)), None).ok()?.operation,
    };
    let after =
        vfs.workspaces().next()?.mount().store().require_history().unwrap().latest_revision().unwrap();
    (after > before).then_some(operation)
}

fn random_history(
    store: &Arc<dyn Store>,
    seed: u64,
    changes: usize,
) -> (Vec<Vfs>, Vec<(usize, OperationId)>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let agents: Vec<Vfs> = ["a", "b", "c"].iter().map(|agent| vfs_for(store, agent)).collect();
    let mut operations = Vec::new();
    for _ in 0..changes {
        let index = random.usize(..agents.len());
        operations
            .extend(random_change(&agents[index], &mut random, "/w").map(|operation| (index, operation)));
    }
    (agents, operations)
}

fn clear(store: &Arc<dyn Store>) {
    let vfs = vfs_for(store, "broom");
    for entry in vfs.list("/w", &ListPage::default()).unwrap().entries {
        let path = format!("/w/{}", entry.name);
        let removal = RemoveOptions { recursive: true, ..RemoveOptions::default() };
        if vfs.remove_file(&*path, removal).is_err() {
            vfs.remove_directory(&*path, removal).unwrap();
        }
    }
}

/// Undoes an operation, unless it changed nothing, for example by writing content that was already there.
#[track_caller]
fn undo_if_effective(vfs: &Vfs, operation: OperationId) -> Option<OperationId> {
    let undone = vfs.undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
    assert!(undone.conflicts.is_empty(), "{:?}", undone.conflicts);
    undone.operation
}

fn all_operations_are_undone_one_by_one_and_redone(store: &Arc<dyn Store>) {
    for seed in 0..rounds() {
        clear(store);
        random_history(store, seed + 1_000, 10);
        let first = snapshot_of(&**store);
        let (agents, operations) = random_history(store, seed, 40);
        let last = snapshot_of(&**store);
        let mut undos = Vec::new();
        for (index, operation) in operations.iter().rev() {
            undos.push((*index, undo_if_effective(&agents[*index], *operation)));
        }
        assert_eq!(snapshot_of(&**store), first, "seed {seed}: after undoing everything");
        for (index, operation) in undos.iter().rev() {
            // There is nothing to redo for an operation that changed nothing.
            if let Some(operation) = operation {
                undo(&agents[*index], UndoTarget::Operation(*operation));
            }
        }
        assert_eq!(snapshot_of(&**store), last, "seed {seed}: after redoing everything");
        assert_eq!(
            store.require_maintenance().unwrap().verify(&mut |_| ()).unwrap().problems,
            Vec::<String>::new()
        );
    }
}

fn all_operations_are_undone_at_once_and_redone(store: &Arc<dyn Store>) {
    for seed in 0..rounds() {
        clear(store);
        let first = snapshot_of(&**store);
        let vfs = vfs_for(store, &format!("alone {seed}"));
        let mut random = fastrand::Rng::with_seed(seed);
        let count = (0..40).filter(|_| random_change(&vfs, &mut random, "/w").is_some()).count();
        let last = snapshot_of(&**store);
        let undone = undo(&vfs, UndoTarget::Last(usize::MAX / 8));
        assert!(undone.undone.len() <= count, "seed {seed}");
        // The operations that weren't undone had no effect.
        let second_undo = vfs.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(
            second_undo.undone.is_empty() && second_undo.conflicts.is_empty(),
            "seed {seed}: {second_undo:?}"
        );
        assert_eq!(snapshot_of(&**store), first, "seed {seed}: after undoing everything");
        if let Some(operation) = undone.operation {
            undo(&vfs, UndoTarget::Operation(operation));
        }
        assert_eq!(snapshot_of(&**store), last, "seed {seed}: after redoing everything");
    }
}

fn undoing_one_agents_operations_leaves_those_of_others(store: &Arc<dyn Store>) {
    for seed in 0..rounds() {
        clear(store);
        let (a, b) = (vfs_for(store, &format!("a {seed}")), vfs_for(store, "b"));
        a.mkdir("/w/a", Parents::Create).unwrap();
        b.mkdir("/w/b", Parents::Create).unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..40 {
            let (vfs, top) = if random.bool() { (&a, "/w/a") } else { (&b, "/w/b") };
            random_change(vfs, &mut random, top);
        }
        let of_b = |snapshot: stead_core::testkit::TreeSnapshot| {
            snapshot.into_iter().filter(|(path, _)| path.starts_with(b"b")).collect::<Vec<_>>()
        };
        let before = of_b(snapshot_of(&**store));
        undo(&a, UndoTarget::Last(usize::MAX / 8));
        let after = snapshot_of(&**store);
        assert!(after.keys().all(|path| path.starts_with(b"b")), "seed {seed}");
        assert_eq!(of_b(after), before, "seed {seed}");
    }
}

fn every_version_can_be_restored(store: &Arc<dyn Store>) {
    for seed in 0..rounds() {
        clear(store);
        let mut random = fastrand::Rng::with_seed(seed);
        let agents: Vec<Vfs> = ["a", "b"].iter().map(|agent| vfs_for(store, agent)).collect();
        let mut earlier = vec![(crate::newest(store), snapshot_of(&**store))];
        for _ in 0..30 {
            random_change(&agents[random.usize(..2)], &mut random, "/w");
            earlier.push((crate::newest(store), snapshot_of(&**store)));
        }
        for _ in 0..5 {
            let (revision, expected) = &earlier[random.usize(..earlier.len())];
            let restored = agents[0].restore("/w", *revision, &RestoreOptions::default());
            let restored =
                restored.unwrap_or_else(|error| panic!("seed {seed}, version {revision:?}: {error:?}"));
            assert!(restored.done, "seed {seed}: {:?}", restored.conflicts);
            assert_eq!(snapshot_of(&**store), *expected, "seed {seed}, version {revision:?}");
        }
    }
}

fn every_version_of_a_path_can_be_restored(store: &Arc<dyn Store>) {
    let mut restored_count = 0;
    for seed in 0..rounds() {
        clear(store);
        let mut random = fastrand::Rng::with_seed(seed);
        let a = vfs_for(store, "a");
        let mut earlier = vec![(crate::newest(store), snapshot_of(&**store))];
        for _ in 0..30 {
            random_change(&a, &mut random, "/w");
            earlier.push((crate::newest(store), snapshot_of(&**store)));
        }
        for _ in 0..10 {
            let (revision, expected) = &earlier[random.usize(..earlier.len())];
            let top = ["a", "d", "d/a", "d/e", "e/f"][random.usize(..5)];
            let below = |snapshot: &stead_core::testkit::TreeSnapshot| {
                let is_below = |path: &[u8]| {
                    path.strip_prefix(top.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
                };
                snapshot
                    .iter()
                    .filter(|(path, _)| is_below(path))
                    .map(|found| format!("{found:?}"))
                    .collect::<Vec<_>>()
            };
            let paths = vec![VfsPath::parse(&format!("/w/{top}")).unwrap()];
            let restored =
                a.restore("/w", *revision, &RestoreOptions { paths, ..RestoreOptions::default() }).unwrap();
            // What lies outside the path may be in the way.
            if restored.done {
                restored_count += 1;
                let after = snapshot_of(&**store);
                assert_eq!(
                    below(&after),
                    below(expected),
                    "seed {seed}, version {revision:?}, {top}: {restored:?}"
                );
            }
        }
    }
    assert!(restored_count > rounds() * 5, "only {restored_count} restores succeeded");
}

#[test]
fn an_agent_undoes_what_it_did_in_a_thread() {
    let store: Arc<dyn Store> = Arc::new(stead_stores::MemoryStore::new());
    let in_thread = Vfs::builder(Identity::agent("a").with_thread("t"));
    let workspace = vfs_for(&store, "a").workspaces().next().unwrap().clone();
    let in_thread = in_thread.workspace(workspace).build().unwrap();
    in_thread.write("/w/f", "x").unwrap();
    let undone = vfs_for(&store, "a").undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(undone.done && !in_thread.exists("/w/f").unwrap());
}

/// The changes of a fork are undone independently of its base: afterwards the fork looks like its base again.
#[test]
fn undoing_all_changes_of_a_fork_gives_its_base_again() {
    for seed in 0..rounds() {
        let base = stead_stores::MemoryStore::new();
        let base_store: Arc<dyn Store> = Arc::new(base.clone());
        random_history(&base_store, seed + 2_000, 40);
        let first = snapshot_of(&base);
        let fork: Arc<dyn Store> = Arc::new(base.fork_as(["fork"]).unwrap());
        let (agents, operations) = random_history(&fork, seed, 40);
        random_history(&base_store, seed + 3_000, 20);
        let (last, base_tree) = (snapshot_of(&*fork), snapshot_of(&base));
        let mut undos = Vec::new();
        for (index, operation) in operations.iter().rev() {
            undos.push((*index, undo_if_effective(&agents[*index], *operation)));
        }
        assert_eq!(snapshot_of(&*fork), first, "seed {seed}: after undoing everything");
        for (index, operation) in undos.iter().rev() {
            if let Some(operation) = operation {
                undo(&agents[*index], UndoTarget::Operation(*operation));
            }
        }
        assert_eq!(snapshot_of(&*fork), last, "seed {seed}: after redoing everything");
        assert_eq!(snapshot_of(&base), base_tree, "seed {seed}: the base");
        assert_eq!(
            fork.require_maintenance().unwrap().verify(&mut |_| ()).unwrap().problems,
            Vec::<String>::new()
        );
    }
}
