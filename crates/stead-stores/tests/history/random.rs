//! Random histories: undone as a whole, and redone.

use std::sync::Arc;

use stead_core::store::Parents;
use stead_core::testkit::snapshot_of;
use stead_core::vfs::{ListPage, Overwrite, RemoveOptions, RestoreOptions, UndoOptions, UndoTarget};
use stead_core::{Identity, Occurrences, OperationId, Store, Vfs};

use crate::{door, undo};

crate::on_every_store! {
    everything_is_taken_back_one_by_one_and_brought_back
    everything_is_taken_back_at_once_and_brought_back
    taking_back_one_agents_doings_leaves_the_others
    every_version_can_be_restored
}

fn rounds() -> u64 {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { 200 } else { 12 }
}

/// A random act of an agent, which may fail. Returns its operation if it changed something.
fn act(door: &Vfs, random: &mut fastrand::Rng, top: &str) -> Option<OperationId> {
    let name = |random: &mut fastrand::Rng| {
        let names = ["a", "b", "c", "d/a", "d/b", "d/e/a", "d/e", "d", "e/f/g"];
        format!("{top}/{}", names[random.usize(..names.len())])
    };
    let (one, other) = (name(random), name(random));
    let line = |random: &mut fastrand::Rng| format!("{}\n", random.u8(..20));
    let content =
        |random: &mut fastrand::Rng| (0..random.usize(..8)).map(|_| line(random)).collect::<String>();
    let overwrite = if random.bool() { Overwrite::Replace } else { Overwrite::Refuse };
    let before =
        door.workspaces().next()?.mount().store().require_history().unwrap().latest_revision().unwrap();
    let operation = match random.u8(..10) {
        0..=2 => door.write(&*one, content(random)).ok()?.operation,
        3 => door.append(&*one, line(random)).ok()?.operation,
        4 => {
            let (old, new) = (line(random), line(random));
            door.edit(&*one, &old, &new, Occurrences::All).ok()?.written.operation
        }
        5 => door.rename(&*one, &*other, overwrite).ok()?.operation,
        6 => door.copy(&*one, &*other, overwrite).ok()?.operation,
        7 => {
            let removal = RemoveOptions { recursive: true, ..RemoveOptions::default() };
            match door.remove_file(&*one, removal) {
                Ok(removed) => removed.operation,
                Err(_) => door.remove_directory(&*one, removal).ok()?.operation,
            }
        }
        8 => door.mkdir(&*one, Parents::Create).ok()?.operation,
        _ if random.bool() => door.symlink(&*one, "a").ok()?.operation,
        _ => door.set_attributes(&*one, Some(0o600 + random.u32(..0o100)), None).ok()?.operation,
    };
    let after =
        door.workspaces().next()?.mount().store().require_history().unwrap().latest_revision().unwrap();
    (after > before).then_some(operation)
}

fn history(store: &Arc<dyn Store>, seed: u64, acts: usize) -> (Vec<Vfs>, Vec<(usize, OperationId)>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let doors: Vec<Vfs> = ["a", "b", "c"].iter().map(|agent| door(store, agent)).collect();
    let mut operations = Vec::new();
    for _ in 0..acts {
        let who = random.usize(..doors.len());
        operations.extend(act(&doors[who], &mut random, "/w").map(|operation| (who, operation)));
    }
    (doors, operations)
}

fn clear(store: &Arc<dyn Store>) {
    let door = door(store, "broom");
    for name in door.list("/w", &ListPage::default()).unwrap().entries {
        let path = format!("/w/{}", name.name);
        let removal = RemoveOptions { recursive: true, ..RemoveOptions::default() };
        if door.remove_file(&*path, removal).is_err() {
            door.remove_directory(&*path, removal).unwrap();
        }
    }
}

/// Undoes an operation, unless it changed nothing, for example by writing content that was already there.
#[track_caller]
fn undo_if_effective(door: &Vfs, operation: OperationId) -> Option<OperationId> {
    let undone = door.undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
    assert!(undone.conflicts.is_empty(), "{:?}", undone.conflicts);
    undone.operation
}

fn everything_is_taken_back_one_by_one_and_brought_back(store: &Arc<dyn Store>) {
    for seed in 0..rounds() {
        clear(store);
        history(store, seed + 1_000, 10);
        let first = snapshot_of(&**store);
        let (doors, operations) = history(store, seed, 40);
        let last = snapshot_of(&**store);
        let mut undos = Vec::new();
        for (who, operation) in operations.iter().rev() {
            undos.push((*who, undo_if_effective(&doors[*who], *operation)));
        }
        assert_eq!(snapshot_of(&**store), first, "seed {seed}: taken back");
        for (who, operation) in undos.iter().rev() {
            // There is nothing to redo for an operation that changed nothing.
            if let Some(operation) = operation {
                undo(&doors[*who], UndoTarget::Operation(*operation));
            }
        }
        assert_eq!(snapshot_of(&**store), last, "seed {seed}: brought back");
        assert_eq!(
            store.require_maintenance().unwrap().verify(&mut |_| ()).unwrap().problems,
            Vec::<String>::new()
        );
    }
}

fn everything_is_taken_back_at_once_and_brought_back(store: &Arc<dyn Store>) {
    for seed in 0..rounds() {
        clear(store);
        let first = snapshot_of(&**store);
        let one = door(store, &format!("alone {seed}"));
        let mut random = fastrand::Rng::with_seed(seed);
        let count = (0..40).filter(|_| act(&one, &mut random, "/w").is_some()).count();
        let last = snapshot_of(&**store);
        let undone = undo(&one, UndoTarget::Last(usize::MAX / 8));
        assert!(undone.undone.len() <= count, "seed {seed}");
        // The operations that weren't undone had no effect.
        let more = one.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(more.undone.is_empty() && more.conflicts.is_empty(), "seed {seed}: {more:?}");
        assert_eq!(snapshot_of(&**store), first, "seed {seed}: taken back");
        if let Some(operation) = undone.operation {
            undo(&one, UndoTarget::Operation(operation));
        }
        assert_eq!(snapshot_of(&**store), last, "seed {seed}: brought back");
    }
}

fn taking_back_one_agents_doings_leaves_the_others(store: &Arc<dyn Store>) {
    for seed in 0..rounds() {
        clear(store);
        let (a, b) = (door(store, &format!("a {seed}")), door(store, "b"));
        a.mkdir("/w/a", Parents::Create).unwrap();
        b.mkdir("/w/b", Parents::Create).unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..40 {
            let (who, top) = if random.bool() { (&a, "/w/a") } else { (&b, "/w/b") };
            act(who, &mut random, top);
        }
        let of_b = |snapshot: stead_core::testkit::TreeSnapshot| {
            snapshot.into_iter().filter(|(path, _)| path.starts_with(b"b")).collect::<Vec<_>>()
        };
        let kept = of_b(snapshot_of(&**store));
        undo(&a, UndoTarget::Last(usize::MAX / 8));
        let left = snapshot_of(&**store);
        assert!(left.keys().all(|path| path.starts_with(b"b")), "seed {seed}");
        assert_eq!(of_b(left), kept, "seed {seed}");
    }
}

fn every_version_can_be_restored(store: &Arc<dyn Store>) {
    for seed in 0..rounds() {
        clear(store);
        let mut random = fastrand::Rng::with_seed(seed);
        let doors: Vec<Vfs> = ["a", "b"].iter().map(|agent| door(store, agent)).collect();
        let mut earlier = vec![(crate::newest(store), snapshot_of(&**store))];
        for _ in 0..30 {
            act(&doors[random.usize(..2)], &mut random, "/w");
            earlier.push((crate::newest(store), snapshot_of(&**store)));
        }
        for _ in 0..5 {
            let (version, then) = &earlier[random.usize(..earlier.len())];
            let restored = doors[0].restore("/w", *version, &RestoreOptions::default());
            let restored =
                restored.unwrap_or_else(|error| panic!("seed {seed}, version {version:?}: {error:?}"));
            assert!(restored.done, "seed {seed}: {:?}", restored.conflicts);
            assert_eq!(snapshot_of(&**store), *then, "seed {seed}, version {version:?}");
        }
    }
}

#[test]
fn an_undo_with_a_thread_is_the_agents() {
    let store: Arc<dyn Store> = Arc::new(stead_stores::MemoryStore::new());
    let in_thread = Vfs::builder(Identity::agent("a").with_thread("t"));
    let workspace = door(&store, "a").workspaces().next().unwrap().clone();
    let in_thread = in_thread.workspace(workspace).build().unwrap();
    in_thread.write("/w/f", "x").unwrap();
    let undone = door(&store, "a").undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
    assert!(undone.done && !in_thread.exists("/w/f").unwrap());
}

/// The changes of a fork are undone independently of its base: afterwards the fork looks like its base again.
#[test]
fn a_fork_is_taken_back_to_what_it_was_made_of() {
    for seed in 0..rounds() {
        let base = stead_stores::MemoryStore::new();
        let as_store: Arc<dyn Store> = Arc::new(base.clone());
        history(&as_store, seed + 2_000, 40);
        let first = snapshot_of(&base);
        let fork: Arc<dyn Store> = Arc::new(base.fork_as(["fork"]).unwrap());
        let (doors, operations) = history(&fork, seed, 40);
        history(&as_store, seed + 3_000, 20);
        let (last, other) = (snapshot_of(&*fork), snapshot_of(&base));
        let mut undos = Vec::new();
        for (who, operation) in operations.iter().rev() {
            undos.push((*who, undo_if_effective(&doors[*who], *operation)));
        }
        assert_eq!(snapshot_of(&*fork), first, "seed {seed}: taken back");
        for (who, operation) in undos.iter().rev() {
            if let Some(operation) = operation {
                undo(&doors[*who], UndoTarget::Operation(*operation));
            }
        }
        assert_eq!(snapshot_of(&*fork), last, "seed {seed}: brought back");
        assert_eq!(snapshot_of(&base), other, "seed {seed}: the base");
        assert_eq!(
            fork.require_maintenance().unwrap().verify(&mut |_| ()).unwrap().problems,
            Vec::<String>::new()
        );
    }
}
