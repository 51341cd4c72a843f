//! Blind changes, whose caller must not learn whether they did anything: a Store with history makes a revision for
//! each.

use super::subject::{Subject, at, change, mkdir, remove, remove_with, write};
use crate::store::{Change, IfMissing, Precondition, Revision, RevisionQuery, Step, StorePath, Subtree};
use crate::{Operation, Timestamp};

fn blind(steps: Vec<Step>) -> Change {
    Change { blind_at: Some(StorePath::from_checked("box/name")), ..change(steps) }
}

fn told_of(t: &Subject, operation: &Operation) -> Vec<Revision> {
    let operations = Some(vec![operation.id]);
    t.history().revisions(&RevisionQuery { operations, ..RevisionQuery::all() }).unwrap().revisions
}

/// Steps that change nothing if `box/made` exists.
fn idle() -> Vec<Vec<Step>> {
    let remove = remove_with(at("box/none"), Subtree::Any, Precondition::Any, IfMissing::Ignore);
    vec![Vec::new(), vec![mkdir("box/made")], vec![remove]]
}

pub fn a_blind_change_makes_a_version_whatever_it_finds(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    for steps in [vec![mkdir("box/made")]].into_iter().chain(idle()) {
        let before = t.history().latest_revision().unwrap();
        let applied = t.store.apply(blind(steps)).unwrap();
        assert_eq!(applied.revision.unwrap().0, before.0 + 1);
        assert_eq!(t.history().latest_revision().unwrap().0, before.0 + 1);
    }
    let before = t.history().latest_revision().unwrap();
    assert!(t.store.apply(blind(vec![remove("box/none", Subtree::Any)])).is_err());
    t.store.apply(change(Vec::new())).unwrap();
    assert_eq!(
        t.history().latest_revision().unwrap(),
        before,
        "a failed change, and an empty one that isn't blind, make no revision"
    );
}

pub fn a_blind_change_that_did_nothing_stands_and_is_told_by_its_operation_alone(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    t.store.apply(blind(vec![mkdir("box/made")])).unwrap();
    let made = t.history().latest_revision().unwrap();
    for steps in idle() {
        let change = blind(steps);
        let operation = change.operation.clone();
        let version = t.store.apply(change).unwrap().revision.unwrap();
        let told = told_of(t, &operation);
        assert_eq!(told.len(), 1);
        assert!(told[0].changes.is_empty() && told[0].number == version && !told[0].undone);
        assert_eq!(told[0].blind_at, Some(StorePath::from_checked("box/name")));
        let standing = t.history().undoable_operations("suite", Timestamp(i64::MIN), 1).unwrap();
        assert_eq!((standing[0].0, standing[0].1.id), (version, operation.id));
        let after =
            RevisionQuery { after: version, operations: Some(vec![operation.id]), ..RevisionQuery::all() };
        assert!(t.history().revisions(&after).unwrap().revisions.is_empty());
    }
    let all = t.history().revisions(&RevisionQuery { after: made, ..RevisionQuery::all() }).unwrap();
    assert!(all.revisions.is_empty(), "{:?}", all.revisions);
}

pub fn what_a_blind_change_did_is_told_as_ever(t: &Subject) {
    if t.store.history().is_none() {
        return;
    }
    let change = blind(vec![write("box/file", "1")]);
    let operation = change.operation.clone();
    t.store.apply(change).unwrap();
    let told = told_of(t, &operation);
    assert_eq!(told.len(), 1);
    assert!(!told[0].changes.is_empty() && told[0].blind_at.is_none(), "{told:?}");
}
