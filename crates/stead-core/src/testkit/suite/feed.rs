//! The feed of changes, for Stores that have one.

use std::sync::Arc;
use std::time::Duration;

use super::subject::*;
use crate::store::{
    ChangeKind, ChangeSignal, FeedEntry, NodeId, Replace, RevisionNumber, StoreError, Subtree,
};

/// All changes after a cursor, in pages of `limit`.
fn changes_after(t: &Subject, mut cursor: RevisionNumber, limit: usize) -> Vec<FeedEntry> {
    let mut all = Vec::new();
    loop {
        let feed = t.feed().changes_since(Some(cursor), limit).unwrap();
        assert!(feed.cursor >= cursor);
        assert!(feed.changes.iter().all(|change| change.revision > cursor && change.revision <= feed.cursor));
        all.extend(feed.changes);
        assert!(!feed.more || feed.cursor > cursor, "a feed with more advances its cursor");
        cursor = feed.cursor;
        if !feed.more {
            return all;
        }
    }
}

fn current_cursor(t: &Subject) -> RevisionNumber {
    let feed = t.feed().changes_since(None, 100).unwrap();
    assert!(feed.changes.is_empty() && !feed.more);
    feed.cursor
}

fn contains_change(
    changes: &[FeedEntry],
    kind: ChangeKind,
    node: NodeId,
    parent: NodeId,
    name: &str,
) -> bool {
    let is_match = |change: &&FeedEntry| change.kind == kind && change.node == node;
    changes.iter().filter(is_match).any(|change| change.parent == parent && change.name == name.as_bytes())
}

pub fn a_store_reports_whether_it_has_a_feed(t: &Subject) {
    if t.store.feed().is_some() {
        let cursor = current_cursor(t);
        assert!(changes_after(t, cursor, 10).is_empty());
    } else {
        assert_refused!(t.store.require_feed(), StoreError::Unsupported(_));
    }
}

pub fn a_feed_reports_every_kind_of_change(t: &Subject) {
    if t.store.feed().is_none() {
        return;
    }
    let root = t.node("");
    let mut cursor = current_cursor(t);
    let mut next_changes = |t: &Subject| {
        let changes = changes_after(t, cursor, 100);
        cursor = current_cursor(t);
        changes
    };

    t.write("dir/file", "1");
    let (dir, file) = (t.node("dir"), t.node("dir/file"));
    let changes = next_changes(t);
    assert!(contains_change(&changes, ChangeKind::Created, dir, root, "dir"), "{changes:?}");
    assert!(contains_change(&changes, ChangeKind::Created, file, dir, "file"), "{changes:?}");

    t.apply_one(append("dir/file", "2"));
    let changes = next_changes(t);
    assert!(contains_change(&changes, ChangeKind::Written, t.node("dir/file"), dir, "file"), "{changes:?}");

    t.apply_one(chmod(at("dir/file"), 0o600));
    let changes = next_changes(t);
    assert!(
        contains_change(&changes, ChangeKind::Attributes, t.node("dir/file"), dir, "file"),
        "{changes:?}"
    );

    let file = t.node("dir/file");
    t.rename("dir/file", "moved", Replace::Refuse);
    let changes = next_changes(t);
    assert!(contains_change(&changes, ChangeKind::MovedFrom, file, dir, "file"), "{changes:?}");
    assert!(contains_change(&changes, ChangeKind::MovedTo, file, root, "moved"), "{changes:?}");

    t.apply_one(copy("moved", "copied", Replace::Refuse));
    let changes = next_changes(t);
    assert!(contains_change(&changes, ChangeKind::Created, t.node("copied"), root, "copied"), "{changes:?}");

    t.link("link", "x");
    let changes = next_changes(t);
    assert!(contains_change(&changes, ChangeKind::Created, t.node("link"), root, "link"), "{changes:?}");

    t.apply_one(remove("moved", Subtree::File));
    t.apply_one(remove("dir", Subtree::Directory));
    let changes = next_changes(t);
    assert!(contains_change(&changes, ChangeKind::Removed, file, root, "moved"), "{changes:?}");
    assert!(contains_change(&changes, ChangeKind::Removed, dir, root, "dir"), "{changes:?}");
}

pub fn a_feed_is_ordered_and_paged(t: &Subject) {
    if t.store.feed().is_none() {
        return;
    }
    let cursor = current_cursor(t);
    for number in 0..10 {
        t.apply(vec![write(&format!("{number}a"), "1"), write(&format!("{number}b"), "1")]).unwrap();
    }
    let all_changes = changes_after(t, cursor, 1_000);
    let names: Vec<_> =
        all_changes.iter().map(|change| String::from_utf8(change.name.clone()).unwrap()).collect();
    let expected: Vec<_> = (0..10).flat_map(|number| [format!("{number}a"), format!("{number}b")]).collect();
    assert_eq!(names, expected);
    assert!(all_changes.is_sorted_by_key(|change| change.revision));
    for pair in all_changes.chunks(2) {
        assert_eq!(pair[0].revision, pair[1].revision, "the events of one change have to have one revision");
    }
    for limit in [1, 2, 3, 7] {
        assert_eq!(changes_after(t, cursor, limit), all_changes, "in pieces of {limit}");
    }
    assert!(t.feed().changes_since(Some(cursor), 4).unwrap().more);
}

pub fn a_refused_change_is_not_in_the_feed(t: &Subject) {
    if t.store.feed().is_none() {
        return;
    }
    t.write("file", "1");
    let cursor = current_cursor(t);
    t.assert_step_refused(edit("file", "no such text", "x"));
    assert_refused!(t.apply(vec![write("a", "1"), remove("missing", Subtree::Any)]), StoreError::NotFound);
    t.read("file");
    assert!(changes_after(t, cursor, 100).is_empty());
}

/// Longer than any Store takes to call a listener.
const LONG: Duration = Duration::from_secs(20);

/// Waits until the feed shows a change after the cursor; every wait for the signal has to end.
fn wait_for_change(t: &Subject, signal: &ChangeSignal, cursor: RevisionNumber) {
    while changes_after(t, cursor, 100).is_empty() {
        assert!(signal.wait(Some(LONG)), "no call came after the change");
    }
}

pub fn a_subscriber_is_called_after_every_change(t: &Subject) {
    let Some(feed) = t.store.feed() else { return };
    let signal = Arc::new(ChangeSignal::default());
    let _subscription = feed.subscribe(signal.listener()).unwrap();
    for number in 0..5 {
        let cursor = current_cursor(t);
        std::thread::scope(|scope| {
            scope.spawn(|| t.write(&format!("file{number}"), "1"));
            wait_for_change(t, &signal, cursor);
        });
    }
}

pub fn a_change_between_subscribing_and_waiting_is_not_missed(t: &Subject) {
    let Some(feed) = t.store.feed() else { return };
    let [one, other] = [(); 2].map(|()| Arc::new(ChangeSignal::default()));
    let _one = feed.subscribe(one.listener()).unwrap();
    t.write("file", "1");
    assert!(one.wait(Some(LONG)), "the call comes though nobody waited when the change was made");
    let _other = feed.subscribe(other.listener()).unwrap();
    t.write("file", "2");
    assert!(one.wait(Some(LONG)) && other.wait(Some(LONG)), "every subscriber is called");
}

pub fn a_dropped_subscription_is_not_called(t: &Subject) {
    let Some(feed) = t.store.feed() else { return };
    let [dropped, kept] = [(); 2].map(|()| Arc::new(ChangeSignal::default()));
    let subscription = feed.subscribe(dropped.listener()).unwrap();
    let _kept = feed.subscribe(kept.listener()).unwrap();
    drop(subscription);
    dropped.wait(Some(Duration::ZERO));
    t.write("file", "1");
    assert!(kept.wait(Some(LONG)));
    assert!(!dropped.wait(Some(Duration::ZERO)));
    assert_eq!(Arc::strong_count(&dropped), 1, "the listener is gone with its subscription");
}
