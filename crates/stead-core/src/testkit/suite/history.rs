//! Deeds: what every Store with history tells of its changes.

use super::subject::{
    Subject, append, at, change, chmod, copy, edit, mkdir, remove, rename, symlink, whole, write, write_with,
};
use crate::identity::OperationId;
use crate::store::{
    Change, Content, ContentRef, DraftBase, NodeChange, NodeId, NodeKind, NodeState, PutOptions, Replace,
    Revision, RevisionNumber, RevisionQuery, RevisionSet, Step, StorePath, Subtree,
};

/// Whether there is anything to test.
fn without(t: &Subject) -> bool {
    let without = !t.store.about().history;
    if without {
        assert!(t.store.deeds(&RevisionQuery::all()).is_err());
        assert!(t.store.version().is_err());
    }
    without
}

/// Whether what a change displaces can't be read again, so that there is nothing to test.
fn without_content(t: &Subject) -> bool {
    without(t) || !t.store.about().keeps_content
}

/// What the test has done so far.
fn since(t: &Subject) -> RevisionQuery {
    RevisionQuery { after: t.begun, ..RevisionQuery::all() }
}

fn deeds(t: &Subject) -> RevisionSet {
    t.store.deeds(&since(t)).unwrap()
}

/// Makes a change, and returns what it is said to have done.
#[track_caller]
fn deed(t: &Subject, steps: Vec<Step>) -> Revision {
    let change = change(steps);
    let id = change.operation.id;
    let version = t.store.apply(change).unwrap().version.expect("a change makes a version");
    assert!(version <= t.store.version().unwrap());
    let found = deeds(t);
    let deed = found.deeds.into_iter().next().expect("the change is told");
    assert_eq!(deed.version, version);
    assert_eq!(deed.operation.id, id);
    assert_eq!((&*deed.operation.identity.agent, &*deed.operation.tool), ("suite", "suite"));
    deed
}

#[track_caller]
fn only(deed: &Revision) -> &NodeChange {
    assert_eq!(deed.lines.len(), 1, "{deed:?}");
    &deed.lines[0]
}

#[track_caller]
fn past(state: Option<&NodeState>) -> &ContentRef {
    state.expect("it was there").content.as_ref().expect("its content is known")
}

#[track_caller]
fn content(t: &Subject, state: Option<&NodeState>) -> Vec<u8> {
    let past = past(state);
    let bytes = whole(&*t.store.open_past(past).unwrap());
    assert_eq!(past.size(), bytes.len() as u64);
    assert_eq!(state.unwrap().size, bytes.len() as u64);
    bytes
}

#[track_caller]
fn says(t: &Subject, line: &NodeChange, before: Option<&str>, after: Option<&str>) {
    for (state, wanted) in [(&line.before, before), (&line.after, after)] {
        match wanted {
            // What is not kept is known by its size.
            Some(wanted) if unread(t, state) => {
                assert_eq!(state.as_ref().unwrap().size, wanted.len() as u64, "{line:?}");
            }
            Some(wanted) => {
                assert_eq!(String::from_utf8_lossy(&content(t, state.as_ref())), wanted, "{line:?}")
            }
            None => assert_eq!(*state, None, "{line:?}"),
        }
    }
}

/// Whether a state's content was not kept, which is only told by a Store that keeps none.
fn unread(t: &Subject, state: &Option<NodeState>) -> bool {
    !t.store.about().keeps_content && state.as_ref().is_some_and(|state| state.content.is_none())
}

#[track_caller]
fn named<'d>(deed: &'d Revision, name: &str) -> &'d NodeChange {
    let is = |state: &Option<NodeState>| state.as_ref().is_some_and(|state| state.name == name.as_bytes());
    let mut found = deed.lines.iter().filter(|line| is(&line.before) || is(&line.after));
    let line = found.next().unwrap_or_else(|| panic!("nothing is said of `{name}`: {deed:?}"));
    assert!(found.next().is_none(), "more than one line is about `{name}`");
    line
}

/// Where a node is said to be now.
fn now(t: &Subject, node: NodeId) -> Option<String> {
    deeds(t).now.get(&node).map(|now| now.path.to_string())
}

pub fn a_new_file_is_told(t: &Subject) {
    if without(t) {
        return;
    }
    let made = deed(t, vec![write("a", "one")]);
    says(t, only(&made), None, Some("one"));
    let after = only(&made).after.as_ref().unwrap();
    assert_eq!((after.kind, &*after.name, after.mode), (NodeKind::File, &b"a"[..], 0o644));
    assert_eq!(after.path, StorePath::from_checked("a"));
    let node = only(&made).node;
    let found = deeds(t);
    assert_eq!(found.now[&node].path, StorePath::from_checked("a"));
    assert_eq!(found.now[&node].tag, t.stat("a").tag);
    assert_eq!(found.now[&node].state.as_ref(), Some(after));
    assert_eq!(node, t.node("a"));
    let root = &found.now[&after.parent];
    assert!(root.path.is_here() && root.state.is_none());
}

pub fn the_parents_of_a_new_file_are_told(t: &Subject) {
    if without(t) {
        return;
    }
    let made = deed(t, vec![write("x/y/z", "deep")]);
    assert_eq!(made.lines.len(), 3);
    says(t, named(&made, "z"), None, Some("deep"));
    let (x, y) = (named(&made, "x"), named(&made, "y"));
    assert_eq!(named(&made, "z").after.as_ref().unwrap().parent, y.node);
    assert_eq!(y.after.as_ref().unwrap().parent, x.node);
    assert_eq!(x.after.as_ref().unwrap().kind, NodeKind::Directory);
    assert_eq!(now(t, y.node).as_deref(), Some("x/y"));
}

pub fn an_overwrite_tells_both_contents(t: &Subject) {
    if without(t) {
        return;
    }
    let made = deed(t, vec![write("a", "one")]);
    let changed = deed(t, vec![write("a", "two and more")]);
    says(t, only(&changed), Some("one"), Some("two and more"));
    let third = deed(t, vec![write("a", "")]);
    says(t, only(&third), Some("two and more"), Some(""));
    // The same, looked at later; and it is one node all along, whatever the Store calls it.
    let found = deeds(t).deeds;
    assert_eq!(found.len(), 3);
    says(t, only(&found[1]), Some("one"), Some("two and more"));
    says(t, only(&found[2]), None, Some("one"));
    assert!(found.iter().all(|deed| only(deed).node == t.node("a")));
    assert_eq!(found.iter().map(|deed| deed.version).min(), Some(made.version));
    if without_content(t) {
        return;
    }
    assert_eq!(past(only(&found[1]).after.as_ref()), past(only(&found[0]).before.as_ref()));
    assert_ne!(past(only(&found[1]).before.as_ref()), past(only(&found[1]).after.as_ref()));
}

pub fn an_edit_and_an_append_are_told(t: &Subject) {
    if without(t) {
        return;
    }
    t.write("a", "one two");
    let edited = deed(t, vec![edit("a", "two", "2")]);
    says(t, only(&edited), Some("one two"), Some("one 2"));
    let appended = deed(t, vec![append("a", " three")]);
    says(t, only(&appended), Some("one 2"), Some("one 2 three"));
    assert_eq!(content(t, only(&appended).before.as_ref()), b"one 2", "what was there still is");
    if without_content(t) {
        return;
    }
    deed(t, vec![append("a", " four")]);
    let found = deeds(t).deeds;
    let told: Vec<_> = found.iter().map(|deed| content(t, only(deed).after.as_ref())).collect();
    let expected = ["one 2 three four", "one 2 three", "one 2", "one two"];
    assert_eq!(told, expected.map(|text| text.as_bytes().to_vec()));
}

pub fn writing_into_a_file_is_told(t: &Subject) {
    if without_content(t) {
        return;
    }
    let large = "0123456789".repeat(60_000);
    t.write("a", &large);
    let patched = |change: &dyn Fn(&mut dyn crate::store::Draft)| {
        let mut draft = t.store.draft(DraftBase::File(&at("a"))).unwrap();
        change(&mut *draft);
        deed(t, vec![write_with(at("a"), Content::Sealed(draft.seal().unwrap()), PutOptions::default())])
    };
    patched(&|draft| {
        draft.write_at(3, b"THREE").unwrap();
        draft.write_at(500_000, &[b'x'; 200_000]).unwrap();
    });
    patched(&|draft| {
        draft.set_size(10).unwrap();
        draft.write_at(20, b"behind").unwrap();
    });
    patched(&|draft| draft.write_at(4, b"and back").unwrap());
    let found = deeds(t).deeds;
    let told: Vec<_> = found.iter().map(|deed| content(t, only(deed).after.as_ref())).collect();
    let mut expected = large.clone().into_bytes();
    assert_eq!(told[3], expected);
    expected[3..8].copy_from_slice(b"THREE");
    expected.resize(700_000, 0);
    expected[500_000..].fill(b'x');
    assert!(told[2] == expected);
    expected.truncate(10);
    expected.resize(20, 0);
    expected.extend_from_slice(b"behind");
    assert_eq!(told[1], expected);
    expected[4..12].copy_from_slice(b"and back");
    assert_eq!(told[0], expected);
    assert!(past(only(&found[1]).before.as_ref()) == past(only(&found[2]).after.as_ref()));
}

pub fn moves_are_told(t: &Subject) {
    if without(t) {
        return;
    }
    t.write("d/a", "one");
    let moved = deed(t, vec![rename("d/a", "b", Replace::Refuse)]);
    let line = only(&moved);
    says(t, line, Some("one"), Some("one"));
    assert_eq!(line.before.as_ref().unwrap().name, b"a");
    assert_eq!(line.before.as_ref().unwrap().parent, t.node("d"));
    assert_eq!(line.after.as_ref().unwrap().name, b"b");
    assert_eq!(now(t, line.node).as_deref(), Some("b"));
    // What was written under the old name belongs to it as well.
    t.write("b", "two");
    let found = deeds(t).deeds;
    assert!(found.iter().all(|deed| deed.lines.iter().any(|line| line.node == t.node("b"))));
    says(t, named(&found[2], "a"), None, Some("one"));
}

pub fn a_moved_directory_takes_its_past_along(t: &Subject) {
    if without(t) {
        return;
    }
    t.write("d/a", "one");
    t.write("d/a", "two");
    let moved = deed(t, vec![rename("d", "e", Replace::Refuse)]);
    assert_eq!(only(&moved).node, t.node("e"));
    assert_eq!(only(&moved).before.as_ref().unwrap().name, b"d");
    t.write("e/a", "three");
    let found = deeds(t);
    let line = only(&found.deeds[2]);
    says(t, line, Some("one"), Some("two"));
    assert_eq!((line.node, line.after.as_ref().unwrap().parent), (t.node("e/a"), t.node("e")));
    assert_eq!(line.after.as_ref().unwrap().path, StorePath::from_checked("d/a"), "as it was then");
    assert_eq!(found.now[&line.node].path, StorePath::from_checked("e/a"));
}

pub fn what_is_moved_over_is_told(t: &Subject) {
    if without(t) {
        return;
    }
    t.write("a", "one");
    t.write("b", "two");
    let moved = deed(t, vec![rename("a", "b", Replace::Over)]);
    assert_eq!(moved.lines.len(), 2);
    let [gone, came] = [true, false].map(|gone| {
        moved.lines.iter().find(|line| line.after.is_none() == gone).expect("one goes, one comes")
    });
    says(t, gone, Some("two"), None);
    says(t, came, Some("one"), Some("one"));
    assert_eq!((now(t, gone.node), now(t, came.node).as_deref()), (None, Some("b")));
    let crossed = {
        t.write("c/x", "three");
        deed(t, vec![rename("b", "c", Replace::Exchange)])
    };
    assert_eq!(crossed.lines.len(), 2);
    assert_eq!(now(t, came.node).as_deref(), Some("c"));
    says(t, crossed.lines.iter().find(|line| line.node == came.node).unwrap(), Some("one"), Some("one"));
}

pub fn a_removed_file_is_told(t: &Subject) {
    if without(t) {
        return;
    }
    t.write("a", "one");
    let removed = deed(t, vec![remove("a", Subtree::File)]);
    says(t, only(&removed), Some("one"), None);
    assert_eq!(now(t, only(&removed).node), None);
    t.write("a", "another");
    let found = deeds(t).deeds;
    assert_eq!(only(&found[1]).node, only(&found[2]).node, "what was removed is what was made");
    assert_ne!(only(&found[0]).node, only(&found[1]).node, "and what came later is not");
    says(t, only(&found[2]), None, Some("one"));
    says(t, only(&found[0]), None, Some("another"));
}

pub fn a_removed_tree_is_told_entry_by_entry(t: &Subject) {
    if without(t) {
        return;
    }
    t.write("d/a", "one");
    t.write("d/a", "two");
    t.write("d/in/b", "three");
    t.link("d/link", "a");
    let removed = deed(t, vec![remove("d", Subtree::Any)]);
    assert_eq!(removed.lines.len(), 5);
    assert!(removed.lines.iter().all(|line| line.after.is_none()));
    says(t, named(&removed, "a"), Some("two"), None);
    says(t, named(&removed, "b"), Some("three"), None);
    says(t, named(&removed, "link"), Some("a"), None);
    assert_eq!(named(&removed, "link").before.as_ref().unwrap().kind, NodeKind::Symlink);
    let (top, inner) = (named(&removed, "d"), named(&removed, "in"));
    assert_eq!(named(&removed, "b").before.as_ref().unwrap().parent, inner.node);
    assert_eq!(inner.before.as_ref().unwrap().parent, top.node);
    let found = deeds(t).deeds;
    let written = found.iter().find(|deed| deed.lines.len() == 1 && deed.lines[0].before.is_some()).unwrap();
    says(t, only(written), Some("one"), Some("two"));
    assert_eq!(only(written).node, named(&removed, "a").node);
}

pub fn directories_links_and_attributes_are_told(t: &Subject) {
    if without(t) {
        return;
    }
    let made = deed(t, vec![mkdir("d")]);
    assert_eq!(only(&made).after.as_ref().unwrap().kind, NodeKind::Directory);
    assert_eq!(only(&made).after.as_ref().unwrap().content, None);
    let linked = deed(t, vec![symlink("l", "d/one")]);
    says(t, only(&linked), None, Some("d/one"));
    let linked = deed(t, vec![symlink("l", "d/two")]);
    says(t, only(&linked), Some("d/one"), Some("d/two"));
    t.write("a", "one");
    let changed = deed(t, vec![chmod(at("a"), 0o600)]);
    says(t, only(&changed), Some("one"), Some("one"));
    let modes = [&only(&changed).before, &only(&changed).after].map(|state| state.as_ref().unwrap().mode);
    assert_eq!(modes, [0o644, 0o600]);
}

pub fn a_copy_is_told_entry_by_entry(t: &Subject) {
    if without(t) {
        return;
    }
    t.write("d/a", "one");
    t.write("d/in/b", "two");
    let copied = deed(t, vec![copy("d", "e", Replace::Refuse)]);
    assert_eq!(copied.lines.len(), 4);
    says(t, named(&copied, "a"), None, Some("one"));
    says(t, named(&copied, "b"), None, Some("two"));
    t.write("f", "three");
    let copied = deed(t, vec![copy("d/a", "f", Replace::Over)]);
    says(t, only(&copied), Some("three"), Some("one"));
    // What gives way to something of another kind is another thing.
    t.link("l", "there");
    let copied = deed(t, vec![copy("l", "f", Replace::Over)]);
    assert_eq!(copied.lines.len(), 2, "{copied:?}");
    let gone = copied.lines.iter().find(|line| line.after.is_none()).expect("the file goes");
    let came = copied.lines.iter().find(|line| line.before.is_none()).expect("the symlink comes");
    says(t, gone, Some("one"), None);
    says(t, came, None, Some("there"));
}

pub fn many_steps_are_one_deed(t: &Subject) {
    if without(t) {
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
    let done = deed(t, steps);
    says(t, named(&done, "z"), Some("one"), Some("2"));
    assert_eq!(named(&done, "z").before.as_ref().unwrap().name, b"a");
    says(t, named(&done, "b"), Some("two"), None);
    says(t, named(&done, "c"), Some("three"), Some("three and four"));
    assert_eq!(named(&done, "e").before.as_ref().unwrap().name, b"d");
    let net = |line: &&NodeChange| line.before.is_some() || line.after.is_some();
    assert_eq!(done.lines.iter().filter(net).count(), 4, "{done:?}");
}

pub fn a_refused_change_is_no_deed(t: &Subject) {
    if without(t) {
        return;
    }
    t.write("a", "one");
    let before = deeds(t).deeds.len();
    t.leaves_all(|| t.apply(vec![remove("nothing", Subtree::Any)])).unwrap_err();
    t.leaves_all(|| t.apply(vec![write("a", "two"), remove("nothing", Subtree::Any)])).unwrap_err();
    t.leaves_all(|| t.apply(vec![rename("a", "a/b", Replace::Refuse)])).unwrap_err();
    let found = deeds(t).deeds;
    assert_eq!(found.len(), before);
    says(t, only(&found[0]), None, Some("one"));
    says(t, only(&deed(t, vec![write("a", "two")])), Some("one"), Some("two"));
}

pub fn the_past_is_put_back(t: &Subject) {
    if without_content(t) {
        return;
    }
    t.write("a", "one");
    t.write("b", "two");
    t.write("a", "three");
    t.remove("b");
    let found = deeds(t).deeds;
    let put = |state: Option<&NodeState>, path: &str| {
        write_with(at(path), Content::Past(past(state).clone()), PutOptions::default())
    };
    let removed = only(&found[0]).before.as_ref();
    let replaced = only(&found[1]).before.as_ref();
    let present = only(&found[1]).after.as_ref();
    t.apply(vec![put(removed, "b"), put(replaced, "a"), put(present, "c")]).unwrap();
    assert_eq!((t.read("a"), t.read("b"), t.read("c")), (b"one".into(), b"two".into(), b"three".into()));
    // Putting it back is a deed like any other, and the past stays readable.
    let found = deeds(t).deeds;
    says(t, named(&found[0], "a"), Some("three"), Some("one"));
    says(t, only(&found[2]), Some("one"), Some("three"));
    says(t, only(&found[1]), Some("two"), None);
    t.one(Step::Append {
        at: at("a"),
        content: Content::Past(past(only(&found[1]).before.as_ref()).clone()),
        put: PutOptions::default(),
    });
    assert_eq!(t.read("a"), b"onetwo");
}

pub fn deeds_are_asked_for_by_time_and_by_whom(t: &Subject) {
    if without(t) {
        return;
    }
    let by = |agent: &str, path: &str| {
        let mut change = change(vec![write(path, agent)]);
        change.operation.identity = std::sync::Arc::new(crate::Identity::agent(agent));
        let (id, at) = (change.operation.id, change.operation.at);
        (t.store.apply(change).unwrap().version.unwrap(), id, at)
    };
    let made: Vec<(RevisionNumber, OperationId, crate::Timestamp)> =
        [("ann", "a"), ("bob", "b"), ("ann", "c"), ("bob", "a")].map(|(agent, path)| by(agent, path)).into();
    let versions = |query: RevisionQuery| {
        t.store.deeds(&query).unwrap().deeds.iter().map(|deed| deed.version).collect::<Vec<_>>()
    };
    assert_eq!(versions(since(t)), [made[3].0, made[2].0, made[1].0, made[0].0]);
    assert_eq!(versions(RevisionQuery { limit: 2, ..since(t) }), [made[3].0, made[2].0]);
    assert_eq!(versions(RevisionQuery::between(made[0].0, made[2].0)), [made[2].0, made[1].0]);
    assert_eq!(versions(RevisionQuery { agent: Some("ann".into()), ..since(t) }), [made[2].0, made[0].0]);
    assert_eq!(versions(RevisionQuery { operations: Some(vec![made[1].1]), ..since(t) }), [made[1].0]);
    assert_eq!(versions(RevisionQuery { since: Some(made[2].2), ..since(t) }), [made[3].0, made[2].0]);
    // What came later is known, also where it is not asked for.
    let query = RevisionQuery { operations: Some(vec![made[0].1]), ..since(t) };
    says(t, only(&t.store.deeds(&query).unwrap().deeds[0]), None, Some("ann"));
    assert_eq!(t.store.version_at(made[3].2).unwrap(), made[3].0);
    assert!(t.store.version_at(crate::Timestamp(made[0].2.0 - 1)).unwrap() < made[0].0);
}

pub fn operations_stand_until_they_are_taken_back(t: &Subject) {
    if without(t) {
        return;
    }
    let began = crate::Clock::now(&crate::SystemClock);
    let by = |agent: &str, paths: [&str; 2], undoes: &[OperationId]| {
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
    let one = by("standing", ["a", "b"], &[]);
    by("other", ["a", "c"], &[]);
    let two = by("standing", ["c", "d"], &[]);
    let standing = |since, limit| {
        let found = t.store.standing("standing", since, limit).unwrap();
        found.into_iter().map(|(_, operation)| operation.id).collect::<Vec<_>>()
    };
    assert_eq!(standing(began, 9), [two.id, one.id], "each once, however many changes it made");
    assert_eq!(standing(began, 1), [two.id]);
    assert_eq!(standing(two.at, 9), [two.id]);
    let undo = by("standing", ["x", "y"], &[two.id]);
    assert_eq!(standing(began, 9), [one.id], "neither what was taken back nor what took it back");
    by("standing", ["x", "z"], &[undo.id]);
    assert_eq!(standing(began, 9), [two.id, one.id]);
    assert!(t.store.standing("nobody", began, 9).unwrap().is_empty());
}

pub fn deeds_are_asked_for_by_path(t: &Subject) {
    if without(t) {
        return;
    }
    t.write("d/in/a", "1");
    t.write("other", "2");
    t.write("d/out", "3");
    t.rename("other", "d/in/moved", Replace::Refuse);
    t.write("elsewhere", "4");
    t.remove("d/in/a");
    let told = |below: &[&str]| {
        let below = below.iter().map(|path| StorePath::from_checked(*path)).collect();
        let found = t.store.deeds(&RevisionQuery { below, ..since(t) }).unwrap().deeds;
        let path = |state: &Option<NodeState>| state.as_ref().map(|state| state.path.to_string());
        let lines = found.iter().flat_map(|deed| &deed.lines);
        let mut told: Vec<_> = lines.map(|line| (path(&line.before), path(&line.after))).collect();
        told.sort();
        told
    };
    let some = |text: &str| Some(text.to_owned());
    let of_in = [
        (None, some("d/in")),
        (None, some("d/in/a")),
        (None, some("other")),
        (some("d/in/a"), None),
        (some("other"), some("d/in/moved")),
    ];
    assert_eq!(told(&["d/in"]), of_in, "with where it came from");
    assert_eq!(told(&["elsewhere", "d/out"]), [(None, some("d/out")), (None, some("elsewhere"))]);
    t.remove("d");
    let of_out = told(&["d/out"]);
    assert!(of_out.contains(&(some("d"), None)), "what it needs to come back: {of_out:?}");
    assert!(!of_out.contains(&(some("d/in"), None)), "{of_out:?}");
}

pub fn deeds_are_asked_for_by_place(t: &Subject) {
    if without_content(t) {
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
    let about = |path: &str| {
        let query = RevisionQuery { at: Some(at(path)), ..since(t) };
        t.store.deeds(&query).map(|found| found.deeds)
    };
    let contents = |deeds: Vec<Revision>| {
        let text = |state: &Option<NodeState>| {
            let state = state.as_ref()?;
            let bytes = state.content.as_ref().map(|past| whole(&*t.store.open_past(past).unwrap()));
            Some(bytes.map_or("-".into(), |bytes| String::from_utf8(bytes).unwrap()))
        };
        let lines = deeds.iter().flat_map(|deed| &deed.lines);
        lines.map(|line| (text(&line.before), text(&line.after))).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    let of_a = [(some("4"), some("5")), (some("1"), some("4")), (None, some("1"))];
    assert_eq!(contents(about("e/a").unwrap()), of_a);
    assert_eq!(contents(about("d/a").unwrap()), of_a, "by a name that it had");
    assert_eq!(contents(about("e/b").unwrap()), [(some("2"), None), (None, some("2"))]);
    assert_eq!(contents(about("x").unwrap()), [(some("3"), None), (None, some("3"))]);
    assert_eq!(about("e").unwrap().len(), 6);
    assert_eq!(about("").unwrap().len(), 8);
    assert!(about("never").is_err());
    t.write("x", "again");
    assert_eq!(contents(about("x").unwrap()), [(None, some("again"))], "what is there now is something else");
}

pub fn what_needs_no_history_is_told_without_its_content(t: &Subject) {
    if without(t) {
        return;
    }
    let scratch = || PutOptions { keep: crate::store::DisplacedContent::Scratch, ..PutOptions::default() };
    t.write("a", "one");
    let changed = deed(t, vec![write_with(at("a"), b"two".to_vec(), scratch())]);
    let before = only(&changed).before.as_ref().expect("it was there");
    assert_eq!(before.content, None);
    assert_eq!(content(t, only(&changed).after.as_ref()), b"two");
}

pub fn content_that_is_not_kept_is_known_by_its_size(t: &Subject) {
    if without(t) || t.store.about().keeps_content {
        return;
    }
    t.write("d/a", "one");
    let written = deed(t, vec![write("d/a", "four")]);
    let removed = deed(t, vec![remove("d", Subtree::Any)]);
    assert_eq!(removed.lines.len(), 2, "each thing is told: {removed:?}");
    for (line, size) in [(only(&written), 3), (named(&removed, "a"), 4)] {
        let before = line.before.as_ref().expect("it was there");
        assert_eq!((before.size, &before.content), (size, &None));
    }
    assert_eq!(named(&removed, "a").before.as_ref().unwrap().parent, named(&removed, "d").node);
}

pub fn a_change_that_changes_nothing_makes_no_deed(t: &Subject) {
    if without(t) {
        return;
    }
    t.mkdir("d");
    let (before, version) = (deeds(t).deeds.len(), t.store.version().unwrap());
    let change = Change::new(change(Vec::new()).operation, vec![mkdir("d")]);
    assert_eq!(t.store.apply(change).unwrap().version, None);
    assert_eq!((deeds(t).deeds.len(), t.store.version().unwrap()), (before, version));
}

pub fn what_was_gone_comes_back_as_what_it_was(t: &Subject) {
    if without_content(t) {
        return;
    }
    t.write("d/a", "one");
    t.write("d/a", "two");
    t.remove("d");
    let gone = deeds(t).deeds;
    let [directory, file] = ["d", "a"].map(|name| named(&gone[0], name).node);
    let content = past(named(&gone[0], "a").before.as_ref()).clone();
    let steps = vec![mkdir("d"), write_with(at("d/a"), Content::Past(content), PutOptions::default())];
    let back = Change { returning: [(0, directory), (1, file)].into(), ..change(steps) };
    t.store.apply(back).unwrap();
    let found = deeds(t);
    let [directory, file] = ["d", "d/a"].map(|path| t.node(path));
    assert_eq!(found.now[&file].path, StorePath::from_checked("d/a"));
    for deed in &found.deeds {
        assert!(deed.lines.iter().all(|line| [directory, file].contains(&line.node)), "{deed:?}");
    }
    says(t, only(&found.deeds[2]), Some("one"), Some("two"));
    assert_eq!(found.deeds.len(), 4);
}

pub fn what_was_taken_back_is_told(t: &Subject) {
    if without(t) {
        return;
    }
    let one = deed(t, vec![write("a", "one")]).operation.id;
    let undoing = |operation| Change {
        records: vec![crate::store::CompanionRecord::Undoes(vec![operation])],
        ..change(vec![write("a", "another")])
    };
    let taking_back = undoing(one);
    let second = taking_back.operation.id;
    t.store.apply(taking_back).unwrap();
    let told = |t: &Subject| {
        deeds(t).deeds.iter().map(|deed| (deed.undoes.clone(), deed.undone)).collect::<Vec<_>>()
    };
    assert_eq!(told(t), [(vec![one], false), (Vec::new(), true)]);
    t.store.apply(undoing(second)).unwrap();
    assert_eq!(told(t), [(vec![second], false), (vec![one], true), (Vec::new(), false)]);
}
