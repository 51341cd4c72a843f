//! The history of a fork, and what it retains of its base's history.

use stead_core::store::{
    DisplacedContent, History, NodeChange, NodeKind, RevisionNumber, RevisionQuery, Step, Subtree,
};
use stead_core::store::{IfMissing, Precondition};
use stead_core::{Store, StoreError};

use crate::{apply, assert_sound, database, fork, names, node_path, read, remove, rename, write, write_step};

fn scratch_step(path: &str, bytes: &str) -> Step {
    write_step(path, bytes, DisplacedContent::Discard)
}

fn remove_scratch_step(path: &str) -> Step {
    Step::Remove {
        at: node_path(path),
        subtree: Subtree::Any,
        expect: Precondition::Any,
        if_missing: IfMissing::Fail,
        protected: None,
        displaced: DisplacedContent::Discard,
    }
}

#[test]
fn a_fork_keeps_nodes_and_tags_until_it_changes_them() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "d/f", "1");
    write(&base, "d/g", "1");
    let fork = fork(&base, "one");
    for path in ["", "d", "d/f"] {
        assert_eq!(fork.stat(&node_path(path)).unwrap(), base.stat(&node_path(path)).unwrap(), "{path}");
    }
    // The state of a directory is its own, not that of its names: it is the same after one of them was removed.
    let before = base.stat(&node_path("d")).unwrap();
    remove(&fork, "d/g");
    let after = fork.stat(&node_path("d")).unwrap();
    assert_eq!((after.node, after.tag, after.kind), (before.node, before.tag, NodeKind::Directory));
    assert_ne!(after.modified, before.modified);
    assert_eq!(base.stat(&node_path("d")).unwrap(), before);
    // A file written in both is one node in two states.
    write(&fork, "d/f", "2");
    write(&base, "d/f", "3");
    let [ours, theirs] = [&fork, &base].map(|store| store.stat(&node_path("d/f")).unwrap());
    assert_eq!(ours.node, theirs.node);
    assert_ne!(ours.tag, theirs.tag);
}

#[test]
fn the_revisions_of_a_fork_are_what_differs_from_its_base() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "d/f", "1");
    write(&base, "d/gone", "1");
    let node = base.stat(&node_path("d/f")).unwrap().node;
    let fork = fork(&base, "one");
    let forked_at = fork.latest_revision().unwrap();
    assert!(fork.revisions(&RevisionQuery::all()).unwrap().revisions.is_empty());
    write(&base, "d/f", "of the base");
    rename(&fork, "d/f", "e/f");
    remove(&fork, "d/gone");
    let page = fork.revisions(&RevisionQuery::all()).unwrap();
    assert_eq!(page.revisions.len(), 2);
    assert!(page.revisions.iter().all(|revision| revision.number > forked_at));
    let moved: Vec<&NodeChange> = page
        .revisions
        .iter()
        .flat_map(|revision| &revision.changes)
        .filter(|change| change.node == node)
        .collect();
    let path = |state: &Option<stead_core::store::NodeState>| state.as_ref().unwrap().path.to_string();
    assert_eq!((path(&moved[0].before), path(&moved[0].after)), ("d/f".into(), "e/f".into()));
    // A removed node is found by its former name.
    let query = RevisionQuery { at: Some(node_path("d/gone")), ..RevisionQuery::all() };
    assert_eq!(fork.revisions(&query).unwrap().revisions.len(), 1);
}

#[test]
fn the_history_of_a_fork_begins_with_it() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    let early = write(&base, "f", "1");
    write(&base, "f", "2");
    let fork = fork(&base, "one");
    let forked_at = fork.latest_revision().unwrap();
    write(&fork, "f", "3");
    assert!(matches!(fork.as_of(early), Err(StoreError::NotFound)));
    assert!(matches!(fork.as_of(RevisionNumber(0)), Err(StoreError::NotFound)));
    assert_eq!(read(&*fork.as_of(forked_at).unwrap(), "f").unwrap(), "2");
    assert_eq!(read(&fork, "f").unwrap(), "3");
    assert_eq!(read(&*base.as_of(early).unwrap(), "f").unwrap(), "1");
}

#[test]
fn an_earlier_version_can_be_forked() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    let early = write(&base, "d/f", "1");
    write(&base, "d/f", "2");
    let fork = base.at(early).fork_as(["early"]).unwrap();
    assert_eq!(read(&fork, "d/f").unwrap(), "1");
    write(&fork, "d/g", "3");
    assert_eq!((names(&fork, "d"), names(&base, "d")), (vec!["f".into(), "g".into()], vec!["f".to_owned()]));
    assert_sound(&base);
}

/// Scratch files have no history, but their content isn't removed while a fork refers to it.
#[test]
fn scratch_of_a_base_stays_in_its_forks() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    for path in ["f", "gone", "d/f", "d/e/f"] {
        apply(&base, scratch_step(path, "as forked"));
    }
    let fork = fork(&base, "one");
    apply(&base, scratch_step("f", "later"));
    apply(&base, remove_scratch_step("gone"));
    apply(&base, remove_scratch_step("d"));
    for path in ["f", "gone", "d/f", "d/e/f"] {
        assert_eq!(read(&fork, path).unwrap(), "as forked", "{path}");
    }
    // From then on no fork refers to it.
    let revision = database.latest_revision().unwrap();
    apply(&base, scratch_step("f", "still later"));
    assert!(matches!(read(&base.at(revision), "f"), Err(StoreError::NotFound)));
    assert_sound(&base);
}

/// Where nothing is stored of what a fork had, its past shows nothing there, rather than what its base has.
#[test]
fn the_base_does_not_show_through_where_scratch_was() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "f", "base");
    write(&base, "g", "base");
    let fork = fork(&base, "one");
    let first = apply(&fork, scratch_step("f", "1"));
    apply(&fork, scratch_step("g", "1"));
    apply(&fork, scratch_step("f", "2"));
    let before = database.latest_revision().unwrap();
    apply(&fork, remove_scratch_step("g"));
    assert_eq!(read(&fork.at(RevisionNumber(first.0 - 1)), "f").unwrap(), "base");
    assert!(matches!(read(&fork.at(first), "f"), Err(StoreError::NotFound)));
    assert!(matches!(read(&fork.at(before), "g"), Err(StoreError::NotFound)));
    assert_eq!(names(&fork, ""), ["f"]);
    assert_sound(&fork);
}
