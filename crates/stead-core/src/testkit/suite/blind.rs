//! Blind changes, whose caller must not learn whether they did anything: a Store with history makes a revision for
//! each.

use super::subject::{Subject, at, change, mkdir, remove, remove_with, write};
use crate::store::{Change, IfMissing, Precondition, Revision, RevisionQuery, Step, StorePath, Subtree};
use crate::{Operation, Timestamp};

fn blind_change(steps: Vec<Step>) -> Change {
    Change { blind_at: Some(StorePath::from_checked("box/name")), ..change(steps) }
}

fn revisions_of(t: &Subject, operation: &Operation) -> Vec<Revision> {
    let operations = Some(vec![operation.id]);
    t.history().revisions(&RevisionQuery { operations, ..RevisionQuery::all() }).unwrap().revisions
}

/// Steps that change nothing if `box/made` exists.
fn no_op_steps() -> Vec<Vec<Step>> {
    let remove = remove_with(at("box/none"), Subtree::Any, Precondition::Any, IfMissing::Ignore);
    vec![Vec::new(), vec![mkdir("box/made")], vec![remove]]
}

pub fn a_blind_change_always_makes_a_revision(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    for steps in [vec![mkdir("box/made")]].into_iter().chain(no_op_steps()) {
        let before = t.history().latest_revision().unwrap();
        let applied = t.store.apply(blind_change(steps)).unwrap();
        assert_eq!(applied.revision.unwrap().0, before.0 + 1);
        assert_eq!(t.history().latest_revision().unwrap().0, before.0 + 1);
    }
    let before = t.history().latest_revision().unwrap();
    assert!(t.store.apply(blind_change(vec![remove("box/none", Subtree::Any)])).is_err());
    t.store.apply(change(Vec::new())).unwrap();
    assert_eq!(
        t.history().latest_revision().unwrap(),
        before,
        "a failed change, and an empty one that isn't blind, make no revision"
    );
}

pub fn a_blind_change_that_did_nothing_is_undoable_and_found_only_by_its_operation(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    t.store.apply(blind_change(vec![mkdir("box/made")])).unwrap();
    let revision_before = t.history().latest_revision().unwrap();
    for steps in no_op_steps() {
        let change = blind_change(steps);
        let operation = change.operation.clone();
        let revision = t.store.apply(change).unwrap().revision.unwrap();
        let revisions = revisions_of(t, &operation);
        assert_eq!(revisions.len(), 1);
        assert!(revisions[0].changes.is_empty() && revisions[0].number == revision && !revisions[0].undone);
        assert_eq!(revisions[0].blind_at, Some(StorePath::from_checked("box/name")));
        let undoable = t.history().undoable_operations("suite", Timestamp(i64::MIN), 1).unwrap();
        assert_eq!((undoable[0].0, undoable[0].1.id), (revision, operation.id));
        let after =
            RevisionQuery { after: revision, operations: Some(vec![operation.id]), ..RevisionQuery::all() };
        assert!(t.history().revisions(&after).unwrap().revisions.is_empty());
    }
    let all =
        t.history().revisions(&RevisionQuery { after: revision_before, ..RevisionQuery::all() }).unwrap();
    assert!(all.revisions.is_empty(), "{:?}", all.revisions);
}

pub fn the_changes_of_a_blind_change_are_reported_as_usual(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    let change = blind_change(vec![write("box/file", "1")]);
    let operation = change.operation.clone();
    t.store.apply(change).unwrap();
    let revisions = revisions_of(t, &operation);
    assert_eq!(revisions.len(), 1);
    assert!(!revisions[0].changes.is_empty() && revisions[0].blind_at.is_none(), "{revisions:?}");
}
