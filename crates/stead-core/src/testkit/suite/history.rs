//! Revisions: what every Store with history reports about its changes.

use super::subject::{
    Subject, append, at, change, chmod, copy, edit, mkdir, read_all, remove, rename, symlink, write,
    write_with,
};
use crate::identity::OperationId;
use crate::store::{
    Change, Content, ContentRef, DraftBase, NodeChange, NodeId, NodeKind, NodeState, PutOptions, Replace,
    Revision, RevisionNumber, RevisionQuery, RevisionSet, Step, StorePath, Subtree,
};

/// Whether the Store has no history, so that there is nothing to test.
fn has_no_history(t: &Subject) -> bool {
    t.store.history().is_none()
}

/// Whether displaced content can't be read again, so that there is nothing to test.
fn retains_no_content(t: &Subject) -> bool {
    has_no_history(t) || !t.history().retains_content()
}

/// A query for the revisions that this test has made.
fn query_since_start(t: &Subject) -> RevisionQuery {
    RevisionQuery { after: t.start_revision, ..RevisionQuery::all() }
}

fn all_revisions(t: &Subject) -> RevisionSet {
    t.history().revisions(&query_since_start(t)).unwrap()
}

/// Applies a change, and returns the revision that the Store reports for it.
#[track_caller]
fn apply_and_get_revision(t: &Subject, steps: Vec<Step>) -> Revision {
    let change = change(steps);
    let id = change.operation.id;
    let number = t.store.apply(change).unwrap().revision.expect("a change makes a version");
    assert!(number <= t.history().latest_revision().unwrap());
    let found = all_revisions(t);
    let revision = found.revisions.into_iter().next().expect("the change is reported");
    assert_eq!(revision.number, number);
    assert_eq!(revision.operation.id, id);
    assert_eq!((&*revision.operation.identity.agent, &*revision.operation.tool), ("suite", "suite"));
    revision
}

#[track_caller]
fn only_change(revision: &Revision) -> &NodeChange {
    assert_eq!(revision.changes.len(), 1, "{revision:?}");
    &revision.changes[0]
}

#[track_caller]
fn content_ref(state: Option<&NodeState>) -> &ContentRef {
    state.expect("the node exists in this state").content.as_ref().expect("the history has the content")
}

#[track_caller]
fn read_content(t: &Subject, state: Option<&NodeState>) -> Vec<u8> {
    let content = content_ref(state);
    let bytes = read_all(&*t.history().open_content(content).unwrap());
    assert_eq!(content.size(), bytes.len() as u64);
    assert_eq!(state.unwrap().size, bytes.len() as u64);
    bytes
}

#[track_caller]
fn assert_contents(t: &Subject, node_change: &NodeChange, before: Option<&str>, after: Option<&str>) {
    for (state, expected) in [(&node_change.before, before), (&node_change.after, after)] {
        match expected {
            // For content that wasn't retained, only the size is known.
            Some(expected) if is_content_unknown(t, state) => {
                assert_eq!(state.as_ref().unwrap().size, expected.len() as u64, "{node_change:?}");
            }
            Some(expected) => {
                assert_eq!(
                    String::from_utf8_lossy(&read_content(t, state.as_ref())),
                    expected,
                    "{node_change:?}"
                )
            }
            None => assert_eq!(*state, None, "{node_change:?}"),
        }
    }
}

/// Whether a state's content is unknown, which is allowed only for a Store that doesn't retain content.
fn is_content_unknown(t: &Subject, state: &Option<NodeState>) -> bool {
    !t.history().retains_content() && state.as_ref().is_some_and(|state| state.content.is_none())
}

#[track_caller]
fn change_named<'d>(revision: &'d Revision, name: &str) -> &'d NodeChange {
    let has_name =
        |state: &Option<NodeState>| state.as_ref().is_some_and(|state| state.name == name.as_bytes());
    let mut found = revision
        .changes
        .iter()
        .filter(|node_change| has_name(&node_change.before) || has_name(&node_change.after));
    let node_change = found.next().unwrap_or_else(|| panic!("no change of `{name}`: {revision:?}"));
    assert!(found.next().is_none(), "more than one change of `{name}`");
    node_change
}

/// The node's current path, as the Store reports it; `None` if it was removed.
fn current_path(t: &Subject, node: NodeId) -> Option<String> {
    all_revisions(t).current.get(&node).map(|current| current.path.to_string())
}

pub fn a_new_file_is_reported(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    let created = apply_and_get_revision(t, vec![write("a", "one")]);
    assert_contents(t, only_change(&created), None, Some("one"));
    let after = only_change(&created).after.as_ref().unwrap();
    assert_eq!((after.kind, &*after.name, after.mode), (NodeKind::File, &b"a"[..], 0o644));
    assert_eq!(after.path, StorePath::from_checked("a"));
    let node = only_change(&created).node;
    let found = all_revisions(t);
    assert_eq!(found.current[&node].path, StorePath::from_checked("a"));
    assert_eq!(found.current[&node].tag, t.stat("a").tag);
    assert_eq!(found.current[&node].state.as_ref(), Some(after));
    assert_eq!(node, t.node("a"));
    let root = &found.current[&after.parent];
    assert!(root.path.is_empty() && root.state.is_none());
}

pub fn the_parents_of_a_new_file_are_reported(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    let created = apply_and_get_revision(t, vec![write("x/y/z", "deep")]);
    assert_eq!(created.changes.len(), 3);
    assert_contents(t, change_named(&created, "z"), None, Some("deep"));
    let (x, y) = (change_named(&created, "x"), change_named(&created, "y"));
    assert_eq!(change_named(&created, "z").after.as_ref().unwrap().parent, y.node);
    assert_eq!(y.after.as_ref().unwrap().parent, x.node);
    assert_eq!(x.after.as_ref().unwrap().kind, NodeKind::Directory);
    assert_eq!(current_path(t, y.node).as_deref(), Some("x/y"));
}

pub fn an_overwrite_reports_both_contents(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    let created = apply_and_get_revision(t, vec![write("a", "one")]);
    let changed = apply_and_get_revision(t, vec![write("a", "two and more")]);
    assert_contents(t, only_change(&changed), Some("one"), Some("two and more"));
    let third = apply_and_get_revision(t, vec![write("a", "")]);
    assert_contents(t, only_change(&third), Some("two and more"), Some(""));
    // Later queries return the same, with the same node id in every revision.
    let found = all_revisions(t).revisions;
    assert_eq!(found.len(), 3);
    assert_contents(t, only_change(&found[1]), Some("one"), Some("two and more"));
    assert_contents(t, only_change(&found[2]), None, Some("one"));
    assert!(found.iter().all(|revision| only_change(revision).node == t.node("a")));
    assert_eq!(found.iter().map(|revision| revision.number).min(), Some(created.number));
    if retains_no_content(t) {
        return;
    }
    assert_eq!(
        content_ref(only_change(&found[1]).after.as_ref()),
        content_ref(only_change(&found[0]).before.as_ref())
    );
    assert_ne!(
        content_ref(only_change(&found[1]).before.as_ref()),
        content_ref(only_change(&found[1]).after.as_ref())
    );
}

pub fn an_edit_and_an_append_are_reported(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("a", "one two");
    let edited = apply_and_get_revision(t, vec![edit("a", "two", "2")]);
    assert_contents(t, only_change(&edited), Some("one two"), Some("one 2"));
    let appended = apply_and_get_revision(t, vec![append("a", " three")]);
    assert_contents(t, only_change(&appended), Some("one 2"), Some("one 2 three"));
    assert_eq!(
        read_content(t, only_change(&appended).before.as_ref()),
        b"one 2",
        "the earlier content is still \
                                                                                   readable"
    );
    if retains_no_content(t) {
        return;
    }
    apply_and_get_revision(t, vec![append("a", " four")]);
    let found = all_revisions(t).revisions;
    let contents: Vec<_> =
        found.iter().map(|revision| read_content(t, only_change(revision).after.as_ref())).collect();
    let expected = ["one 2 three four", "one 2 three", "one 2", "one two"];
    assert_eq!(contents, expected.map(|text| text.as_bytes().to_vec()));
}

pub fn writes_into_a_file_are_reported(t: &Subject) {
    if retains_no_content(t) {
        return;
    }
    let large = "0123456789".repeat(60_000);
    t.write("a", &large);
    let change_by_draft = |change: &dyn Fn(&mut dyn crate::store::Draft)| {
        let mut draft = t.store.draft(DraftBase::File(&at("a"))).unwrap();
        change(&mut *draft);
        apply_and_get_revision(
            t,
            vec![write_with(at("a"), Content::Sealed(draft.seal().unwrap()), PutOptions::default())],
        )
    };
    change_by_draft(&|draft| {
        draft.write_at(3, b"THREE").unwrap();
        draft.write_at(500_000, &[b'x'; 200_000]).unwrap();
    });
    change_by_draft(&|draft| {
        draft.set_size(10).unwrap();
        draft.write_at(20, b"behind").unwrap();
    });
    change_by_draft(&|draft| draft.write_at(4, b"and back").unwrap());
    let found = all_revisions(t).revisions;
    let contents: Vec<_> =
        found.iter().map(|revision| read_content(t, only_change(revision).after.as_ref())).collect();
    let mut expected = large.clone().into_bytes();
    assert_eq!(contents[3], expected);
    expected[3..8].copy_from_slice(b"THREE");
    expected.resize(700_000, 0);
    expected[500_000..].fill(b'x');
    assert!(contents[2] == expected);
    expected.truncate(10);
    expected.resize(20, 0);
    expected.extend_from_slice(b"behind");
    assert_eq!(contents[1], expected);
    expected[4..12].copy_from_slice(b"and back");
    assert_eq!(contents[0], expected);
    assert!(
        content_ref(only_change(&found[1]).before.as_ref())
            == content_ref(only_change(&found[2]).after.as_ref())
    );
}

pub fn moves_are_reported(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("d/a", "one");
    let moved = apply_and_get_revision(t, vec![rename("d/a", "b", Replace::Refuse)]);
    let node_change = only_change(&moved);
    assert_contents(t, node_change, Some("one"), Some("one"));
    assert_eq!(node_change.before.as_ref().unwrap().name, b"a");
    assert_eq!(node_change.before.as_ref().unwrap().parent, t.node("d"));
    assert_eq!(node_change.after.as_ref().unwrap().name, b"b");
    assert_eq!(current_path(t, node_change.node).as_deref(), Some("b"));
    // Revisions from before the rename belong to the same node.
    t.write("b", "two");
    let found = all_revisions(t).revisions;
    assert!(
        found
            .iter()
            .all(|revision| revision.changes.iter().any(|node_change| node_change.node == t.node("b")))
    );
    assert_contents(t, change_named(&found[2], "a"), None, Some("one"));
}

pub fn a_moved_directory_keeps_its_history(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("d/a", "one");
    t.write("d/a", "two");
    let moved = apply_and_get_revision(t, vec![rename("d", "e", Replace::Refuse)]);
    assert_eq!(only_change(&moved).node, t.node("e"));
    assert_eq!(only_change(&moved).before.as_ref().unwrap().name, b"d");
    t.write("e/a", "three");
    let found = all_revisions(t);
    let node_change = only_change(&found.revisions[2]);
    assert_contents(t, node_change, Some("one"), Some("two"));
    assert_eq!((node_change.node, node_change.after.as_ref().unwrap().parent), (t.node("e/a"), t.node("e")));
    assert_eq!(
        node_change.after.as_ref().unwrap().path,
        StorePath::from_checked("d/a"),
        "the path has to be the one at that revision"
    );
    assert_eq!(found.current[&node_change.node].path, StorePath::from_checked("e/a"));
}

pub fn a_node_replaced_by_a_move_is_reported(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("a", "one");
    t.write("b", "two");
    let moved = apply_and_get_revision(t, vec![rename("a", "b", Replace::Overwrite)]);
    assert_eq!(moved.changes.len(), 2);
    let [removed_node, moved_node] = [true, false].map(|is_removed| {
        moved
            .changes
            .iter()
            .find(|node_change| node_change.after.is_none() == is_removed)
            .expect("one node is removed and one is moved")
    });
    assert_contents(t, removed_node, Some("two"), None);
    assert_contents(t, moved_node, Some("one"), Some("one"));
    assert_eq!(
        (current_path(t, removed_node.node), current_path(t, moved_node.node).as_deref()),
        (None, Some("b"))
    );
    let exchanged = {
        t.write("c/x", "three");
        apply_and_get_revision(t, vec![rename("b", "c", Replace::Exchange)])
    };
    assert_eq!(exchanged.changes.len(), 2);
    assert_eq!(current_path(t, moved_node.node).as_deref(), Some("c"));
    assert_contents(
        t,
        exchanged.changes.iter().find(|node_change| node_change.node == moved_node.node).unwrap(),
        Some("one"),
        Some("one"),
    );
}

pub fn a_removed_file_is_reported(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("a", "one");
    let removed = apply_and_get_revision(t, vec![remove("a", Subtree::File)]);
    assert_contents(t, only_change(&removed), Some("one"), None);
    assert_eq!(current_path(t, only_change(&removed).node), None);
    t.write("a", "another");
    let found = all_revisions(t).revisions;
    assert_eq!(
        only_change(&found[1]).node,
        only_change(&found[2]).node,
        "the removed node is the created one"
    );
    assert_ne!(only_change(&found[0]).node, only_change(&found[1]).node, "a later node is a different one");
    assert_contents(t, only_change(&found[2]), None, Some("one"));
    assert_contents(t, only_change(&found[0]), None, Some("another"));
}

pub fn a_removed_tree_is_reported_entry_by_entry(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("d/a", "one");
    t.write("d/a", "two");
    t.write("d/in/b", "three");
    t.link("d/link", "a");
    let removed = apply_and_get_revision(t, vec![remove("d", Subtree::Any)]);
    assert_eq!(removed.changes.len(), 5);
    assert!(removed.changes.iter().all(|node_change| node_change.after.is_none()));
    assert_contents(t, change_named(&removed, "a"), Some("two"), None);
    assert_contents(t, change_named(&removed, "b"), Some("three"), None);
    assert_contents(t, change_named(&removed, "link"), Some("a"), None);
    assert_eq!(change_named(&removed, "link").before.as_ref().unwrap().kind, NodeKind::Symlink);
    let (top, inner) = (change_named(&removed, "d"), change_named(&removed, "in"));
    assert_eq!(change_named(&removed, "b").before.as_ref().unwrap().parent, inner.node);
    assert_eq!(inner.before.as_ref().unwrap().parent, top.node);
    let found = all_revisions(t).revisions;
    let written = found
        .iter()
        .find(|revision| revision.changes.len() == 1 && revision.changes[0].before.is_some())
        .unwrap();
    assert_contents(t, only_change(written), Some("one"), Some("two"));
    assert_eq!(only_change(written).node, change_named(&removed, "a").node);
}

pub fn directories_links_and_attributes_are_reported(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    let created = apply_and_get_revision(t, vec![mkdir("d")]);
    assert_eq!(only_change(&created).after.as_ref().unwrap().kind, NodeKind::Directory);
    assert_eq!(only_change(&created).after.as_ref().unwrap().content, None);
    let linked = apply_and_get_revision(t, vec![symlink("l", "d/one")]);
    assert_contents(t, only_change(&linked), None, Some("d/one"));
    let linked = apply_and_get_revision(t, vec![symlink("l", "d/two")]);
    assert_contents(t, only_change(&linked), Some("d/one"), Some("d/two"));
    t.write("a", "one");
    let changed = apply_and_get_revision(t, vec![chmod(at("a"), 0o600)]);
    assert_contents(t, only_change(&changed), Some("one"), Some("one"));
    let modes = [&only_change(&changed).before, &only_change(&changed).after]
        .map(|state| state.as_ref().unwrap().mode);
    assert_eq!(modes, [0o644, 0o600]);
}

pub fn a_copy_is_reported_entry_by_entry(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("d/a", "one");
    t.write("d/in/b", "two");
    let copied = apply_and_get_revision(t, vec![copy("d", "e", Replace::Refuse)]);
    assert_eq!(copied.changes.len(), 4);
    assert_contents(t, change_named(&copied, "a"), None, Some("one"));
    assert_contents(t, change_named(&copied, "b"), None, Some("two"));
    t.write("f", "three");
    let copied = apply_and_get_revision(t, vec![copy("d/a", "f", Replace::Overwrite)]);
    assert_contents(t, only_change(&copied), Some("three"), Some("one"));
    // Replacing a node by one of another kind removes the old node and creates a new one.
    t.link("l", "there");
    let copied = apply_and_get_revision(t, vec![copy("l", "f", Replace::Overwrite)]);
    assert_eq!(copied.changes.len(), 2, "{copied:?}");
    let removed =
        copied.changes.iter().find(|node_change| node_change.after.is_none()).expect("the file is removed");
    let created = copied
        .changes
        .iter()
        .find(|node_change| node_change.before.is_none())
        .expect("the symlink is created");
    assert_contents(t, removed, Some("one"), None);
    assert_contents(t, created, None, Some("there"));
}

pub fn many_steps_are_one_revision(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("a", "one");
    t.write("b", "two");
    t.write("d/c", "three");
    let steps = vec![
        write("a", "1"),
        write("a", "2"),
        rename("a", "z", Replace::Refuse),
        remove("b", Subtree::File),
        rename("d", "e", Replace::Refuse),
        append("e/c", " and four"),
        write("fleeting", "x"),
        remove("fleeting", Subtree::File),
    ];
    let revision = apply_and_get_revision(t, steps);
    assert_contents(t, change_named(&revision, "z"), Some("one"), Some("2"));
    assert_eq!(change_named(&revision, "z").before.as_ref().unwrap().name, b"a");
    assert_contents(t, change_named(&revision, "b"), Some("two"), None);
    assert_contents(t, change_named(&revision, "c"), Some("three"), Some("three and four"));
    assert_eq!(change_named(&revision, "e").before.as_ref().unwrap().name, b"d");
    let has_net_effect =
        |node_change: &&NodeChange| node_change.before.is_some() || node_change.after.is_some();
    assert_eq!(revision.changes.iter().filter(has_net_effect).count(), 4, "{revision:?}");
}

pub fn a_refused_change_makes_no_revision(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("a", "one");
    let before = all_revisions(t).revisions.len();
    t.assert_unchanged(|| t.apply(vec![remove("nothing", Subtree::Any)])).unwrap_err();
    t.assert_unchanged(|| t.apply(vec![write("a", "two"), remove("nothing", Subtree::Any)])).unwrap_err();
    t.assert_unchanged(|| t.apply(vec![rename("a", "a/b", Replace::Refuse)])).unwrap_err();
    let found = all_revisions(t).revisions;
    assert_eq!(found.len(), before);
    assert_contents(t, only_change(&found[0]), None, Some("one"));
    assert_contents(
        t,
        only_change(&apply_and_get_revision(t, vec![write("a", "two")])),
        Some("one"),
        Some("two"),
    );
}

pub fn stored_content_is_put_back(t: &Subject) {
    if retains_no_content(t) {
        return;
    }
    t.write("a", "one");
    t.write("b", "two");
    t.write("a", "three");
    t.remove("b");
    let found = all_revisions(t).revisions;
    let restore_step = |state: Option<&NodeState>, path: &str| {
        write_with(at(path), Content::Stored(content_ref(state).clone()), PutOptions::default())
    };
    let removed = only_change(&found[0]).before.as_ref();
    let replaced = only_change(&found[1]).before.as_ref();
    let present = only_change(&found[1]).after.as_ref();
    t.apply(vec![restore_step(removed, "b"), restore_step(replaced, "a"), restore_step(present, "c")])
        .unwrap();
    assert_eq!((t.read("a"), t.read("b"), t.read("c")), (b"one".into(), b"two".into(), b"three".into()));
    // Putting content back makes a revision like any other change, and the old content stays readable.
    let found = all_revisions(t).revisions;
    assert_contents(t, change_named(&found[0], "a"), Some("three"), Some("one"));
    assert_contents(t, only_change(&found[2]), Some("one"), Some("three"));
    assert_contents(t, only_change(&found[1]), Some("two"), None);
    t.apply_one(Step::Append {
        at: at("a"),
        content: Content::Stored(content_ref(only_change(&found[1]).before.as_ref()).clone()),
        options: PutOptions::default(),
    });
    assert_eq!(t.read("a"), b"onetwo");
}

pub fn revisions_are_queried_by_time_and_agent(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    let apply_as = |agent: &str, path: &str| {
        let mut change = change(vec![write(path, agent)]);
        change.operation.identity = std::sync::Arc::new(crate::Identity::agent(agent));
        let (id, at) = (change.operation.id, change.operation.at);
        (t.store.apply(change).unwrap().revision.unwrap(), id, at)
    };
    let applied: Vec<(RevisionNumber, OperationId, crate::Timestamp)> =
        [("ann", "a"), ("bob", "b"), ("ann", "c"), ("bob", "a")]
            .map(|(agent, path)| apply_as(agent, path))
            .into();
    let numbers = |query: RevisionQuery| {
        t.history()
            .revisions(&query)
            .unwrap()
            .revisions
            .iter()
            .map(|revision| revision.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(query_since_start(t)), [applied[3].0, applied[2].0, applied[1].0, applied[0].0]);
    assert_eq!(numbers(RevisionQuery { limit: 2, ..query_since_start(t) }), [applied[3].0, applied[2].0]);
    assert_eq!(numbers(RevisionQuery::between(applied[0].0, applied[2].0)), [applied[2].0, applied[1].0]);
    assert_eq!(
        numbers(RevisionQuery { agent: Some("ann".into()), ..query_since_start(t) }),
        [applied[2].0, applied[0].0]
    );
    assert_eq!(
        numbers(RevisionQuery { operations: Some(vec![applied[1].1]), ..query_since_start(t) }),
        [applied[1].0]
    );
    assert_eq!(
        numbers(RevisionQuery { since: Some(applied[2].2), ..query_since_start(t) }),
        [applied[3].0, applied[2].0]
    );
    // A revision's content is right even if the query leaves out later revisions of the same file.
    let query = RevisionQuery { operations: Some(vec![applied[0].1]), ..query_since_start(t) };
    assert_contents(t, only_change(&t.history().revisions(&query).unwrap().revisions[0]), None, Some("ann"));
    assert_eq!(t.history().revision_at(applied[3].2).unwrap(), applied[3].0);
    assert!(t.history().revision_at(crate::Timestamp(applied[0].2.0 - 1)).unwrap() < applied[0].0);
}

pub fn operations_are_undoable_until_they_are_undone(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    let start = crate::Clock::now(&crate::SystemClock);
    let apply_as = |agent: &str, paths: [&str; 2], undoes: &[OperationId]| {
        let mut first = change(vec![write(paths[0], agent)]);
        first.operation.identity = std::sync::Arc::new(crate::Identity::agent(agent));
        let mut second =
            Change { operation: first.operation.clone(), ..change(vec![write(paths[1], agent)]) };
        if !undoes.is_empty() {
            second.records = vec![crate::store::CompanionRecord::Undoes(undoes.to_vec())];
        }
        let operation = first.operation.clone();
        t.store.apply(first).unwrap();
        t.store.apply(second).unwrap();
        operation
    };
    let first_operation = apply_as("standing", ["a", "b"], &[]);
    apply_as("other", ["a", "c"], &[]);
    let second_operation = apply_as("standing", ["c", "d"], &[]);
    let undoable = |since, limit| {
        let found = t.history().undoable_operations("standing", since, limit).unwrap();
        found.into_iter().map(|(_, operation)| operation.id).collect::<Vec<_>>()
    };
    assert_eq!(
        undoable(start, 9),
        [second_operation.id, first_operation.id],
        "each operation is listed once, however many changes it made"
    );
    assert_eq!(undoable(start, 1), [second_operation.id]);
    assert_eq!(undoable(second_operation.at, 9), [second_operation.id]);
    let undo = apply_as("standing", ["x", "y"], &[second_operation.id]);
    assert_eq!(
        undoable(start, 9),
        [first_operation.id],
        "neither the undone operation nor the undo may be listed"
    );
    apply_as("standing", ["x", "z"], &[undo.id]);
    assert_eq!(undoable(start, 9), [second_operation.id, first_operation.id]);
    assert!(t.history().undoable_operations("nobody", start, 9).unwrap().is_empty());
}

pub fn revisions_are_queried_by_path(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("d/in/a", "1");
    t.write("other", "2");
    t.write("d/out", "3");
    t.rename("other", "d/in/moved", Replace::Refuse);
    t.write("elsewhere", "4");
    t.remove("d/in/a");
    let changed_paths = |paths: &[&str]| {
        let paths = paths.iter().map(|path| StorePath::from_checked(*path)).collect();
        let found =
            t.history().revisions(&RevisionQuery { paths, ..query_since_start(t) }).unwrap().revisions;
        let path = |state: &Option<NodeState>| state.as_ref().map(|state| state.path.to_string());
        let node_changes = found.iter().flat_map(|revision| &revision.changes);
        let mut pairs: Vec<_> =
            node_changes.map(|node_change| (path(&node_change.before), path(&node_change.after))).collect();
        pairs.sort();
        pairs
    };
    let some = |text: &str| Some(text.to_owned());
    let of_in = [
        (None, some("d/in")),
        (None, some("d/in/a")),
        (None, some("other")),
        (some("d/in/a"), None),
        (some("other"), some("d/in/moved")),
    ];
    assert_eq!(changed_paths(&["d/in"]), of_in, "the path that it was moved from has to be included");
    assert_eq!(changed_paths(&["elsewhere", "d/out"]), [(None, some("d/out")), (None, some("elsewhere"))]);
    t.remove("d");
    let of_out = changed_paths(&["d/out"]);
    assert!(of_out.contains(&(some("d"), None)), "the removal of its parent has to be included: {of_out:?}");
    assert!(!of_out.contains(&(some("d/in"), None)), "{of_out:?}");
}

pub fn what_a_moved_directory_takes_into_a_path_or_out_of_it_is_reported(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.write("x/dd/k", "1");
    t.write("x/dd/sub/same", "2");
    t.write("y/z", "3");
    let start = t.history().latest_revision().unwrap();
    t.rename("x/dd", "y/dd", Replace::Refuse);
    t.write("y/dd/k", "changed");
    t.write("y/dd/new", "4");
    let paths_at_move = |path: &str| {
        let paths = [StorePath::from_checked(path)];
        let found = t.history().changes_between(start, RevisionNumber::NOW, &paths).unwrap();
        let path = |state: &Option<NodeState>| state.as_ref().map(|state| state.path.to_string()).unwrap();
        let oldest = found.revisions.last().expect("the move is reported");
        let moved =
            oldest.changes.iter().map(|moved| format!("{} {}", path(&moved.before), path(&moved.after)));
        let mut moved: Vec<String> = moved.collect();
        moved.sort();
        moved
    };
    let all = ["x/dd y/dd", "x/dd/k y/dd/k", "x/dd/sub y/dd/sub", "x/dd/sub/same y/dd/sub/same"];
    assert_eq!(paths_at_move("x"), all);
    assert_eq!(paths_at_move("y"), all);
    assert_eq!(paths_at_move("x/dd/k"), ["x/dd y/dd", "x/dd/k y/dd/k"]);
    assert_eq!(paths_at_move(""), ["x/dd y/dd"], "nothing entered or left the path");
}

pub fn revisions_are_queried_by_node(t: &Subject) {
    if retains_no_content(t) {
        return;
    }
    t.write("d/a", "1");
    t.write("d/b", "2");
    t.write("x", "3");
    t.write("d/a", "4");
    t.rename("d", "e", Replace::Refuse);
    t.write("e/a", "5");
    t.remove("e/b");
    t.remove("x");
    let revisions_at = |path: &str| {
        let query = RevisionQuery { at: Some(at(path)), ..query_since_start(t) };
        t.history().revisions(&query).map(|found| found.revisions)
    };
    let contents = |revisions: Vec<Revision>| {
        let text = |state: &Option<NodeState>| {
            let state = state.as_ref()?;
            let bytes =
                state.content.as_ref().map(|content| read_all(&*t.history().open_content(content).unwrap()));
            Some(bytes.map_or("-".into(), |bytes| String::from_utf8(bytes).unwrap()))
        };
        let node_changes = revisions.iter().flat_map(|revision| &revision.changes);
        node_changes
            .map(|node_change| (text(&node_change.before), text(&node_change.after)))
            .collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    let of_a = [(some("4"), some("5")), (some("1"), some("4")), (None, some("1"))];
    assert_eq!(contents(revisions_at("e/a").unwrap()), of_a);
    assert_eq!(contents(revisions_at("d/a").unwrap()), of_a, "the file has to be found by an earlier name");
    assert_eq!(contents(revisions_at("e/b").unwrap()), [(some("2"), None), (None, some("2"))]);
    assert_eq!(contents(revisions_at("x").unwrap()), [(some("3"), None), (None, some("3"))]);
    assert_eq!(revisions_at("e").unwrap().len(), 6);
    assert_eq!(revisions_at("").unwrap().len(), 8);
    assert!(revisions_at("never").is_err());
    t.write("x", "again");
    assert_eq!(
        contents(revisions_at("x").unwrap()),
        [(None, some("again"))],
        "the present node is a different one"
    );
}

pub fn a_change_without_history_is_reported_without_its_content(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    let scratch =
        || PutOptions { displaced: crate::store::DisplacedContent::Discard, ..PutOptions::default() };
    t.write("a", "one");
    let changed = apply_and_get_revision(t, vec![write_with(at("a"), b"two".to_vec(), scratch())]);
    let before = only_change(&changed).before.as_ref().expect("the node existed before");
    assert_eq!(before.content, None);
    assert_eq!(read_content(t, only_change(&changed).after.as_ref()), b"two");
}

pub fn content_that_is_not_retained_is_known_by_its_size(t: &Subject) {
    if has_no_history(t) || t.history().retains_content() {
        return;
    }
    t.write("d/a", "one");
    let written = apply_and_get_revision(t, vec![write("d/a", "four")]);
    let removed = apply_and_get_revision(t, vec![remove("d", Subtree::Any)]);
    assert_eq!(removed.changes.len(), 2, "each removed node is reported: {removed:?}");
    for (node_change, size) in [(only_change(&written), 3), (change_named(&removed, "a"), 4)] {
        let before = node_change.before.as_ref().expect("the node existed before");
        assert_eq!((before.size, &before.content), (size, &None));
    }
    assert_eq!(change_named(&removed, "a").before.as_ref().unwrap().parent, change_named(&removed, "d").node);
}

pub fn a_change_that_changes_nothing_makes_no_revision(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    t.mkdir("d");
    let (before, latest) = (all_revisions(t).revisions.len(), t.history().latest_revision().unwrap());
    let change = Change::new(change(Vec::new()).operation, vec![mkdir("d")]);
    assert_eq!(t.store.apply(change).unwrap().revision, None);
    assert_eq!((all_revisions(t).revisions.len(), t.history().latest_revision().unwrap()), (before, latest));
}

pub fn a_removed_node_is_revived_with_its_history(t: &Subject) {
    if retains_no_content(t) {
        return;
    }
    t.write("d/a", "one");
    t.write("d/a", "two");
    t.remove("d");
    let revisions = all_revisions(t).revisions;
    let [directory, file] = ["d", "a"].map(|name| change_named(&revisions[0], name).node);
    let content = content_ref(change_named(&revisions[0], "a").before.as_ref()).clone();
    let steps = vec![mkdir("d"), write_with(at("d/a"), Content::Stored(content), PutOptions::default())];
    let revival = Change { revive: [(0, directory), (1, file)].into(), ..change(steps) };
    t.store.apply(revival).unwrap();
    let found = all_revisions(t);
    let [directory, file] = ["d", "d/a"].map(|path| t.node(path));
    assert_eq!(found.current[&file].path, StorePath::from_checked("d/a"));
    for revision in &found.revisions {
        assert!(
            revision.changes.iter().all(|node_change| [directory, file].contains(&node_change.node)),
            "{revision:?}"
        );
    }
    assert_contents(t, only_change(&found.revisions[2]), Some("one"), Some("two"));
    assert_eq!(found.revisions.len(), 4);
}

pub fn undone_operations_are_reported(t: &Subject) {
    if has_no_history(t) {
        return;
    }
    let first = apply_and_get_revision(t, vec![write("a", "one")]).operation.id;
    let undo_change = |operation| Change {
        records: vec![crate::store::CompanionRecord::Undoes(vec![operation])],
        ..change(vec![write("a", "another")])
    };
    let undo = undo_change(first);
    let second = undo.operation.id;
    t.store.apply(undo).unwrap();
    let undo_states = |t: &Subject| {
        all_revisions(t)
            .revisions
            .iter()
            .map(|revision| (revision.undoes.clone(), revision.undone))
            .collect::<Vec<_>>()
    };
    assert_eq!(undo_states(t), [(vec![first], false), (Vec::new(), true)]);
    t.store.apply(undo_change(second)).unwrap();
    assert_eq!(undo_states(t), [(vec![second], false), (vec![first], true), (Vec::new(), false)]);
}
