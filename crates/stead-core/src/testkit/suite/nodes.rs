//! Paths that start at a node, as the handles of a mounted file system do.

use std::ops::ControlFlow;

use super::searching::grep;
use super::subject::*;
use crate::edit::Occurrences;
use crate::name::Name;
use crate::store::{
    Change, Content, DraftBase, IfMissing, NodeKind, NodePath, OpenPurpose, Page, Parents, Precondition,
    PutOptions, Replace, Step, StoreError, StorePath, Subtree,
};

fn child(t: &Subject, parent: &str, name: &str) -> NodePath {
    NodePath::child(t.node(parent), &Name::new(name.as_bytes()).unwrap())
}

pub fn a_node_is_the_same_by_path_and_by_id(t: &Subject) {
    t.write("a/b/file", "1");
    let by_path = t.stat("a/b/file");
    assert_eq!(t.store.stat(&NodePath::of_node(by_path.node)).unwrap(), by_path);
    assert_eq!(t.store.stat(&child(t, "a/b", "file")).unwrap(), by_path);
    let from_a = NodePath { base: t.node("a"), path: StorePath::from_checked("b/file") };
    assert_eq!(t.store.stat(&from_a).unwrap(), by_path);
    assert_eq!(t.store.list(&at("a/b"), &Page::ALL).unwrap().entries[0].attr, by_path);
    let root = t.store.stat(&NodePath::root()).unwrap();
    assert_eq!(t.store.stat(&NodePath::of_node(root.node)).unwrap(), root);
    let from_root = NodePath { base: root.node, path: StorePath::from_checked("a/b/file") };
    assert_eq!(t.store.stat(&from_root).unwrap(), by_path);
}

pub fn a_change_is_refused_if_its_directories_have_moved(t: &Subject) {
    t.write("a/b/file", "1");
    t.mkdir("other");
    let (b, root) = (t.node("a/b"), t.store.stat(&NodePath::root()).unwrap().node);
    let path = StorePath::from_checked;
    let write_change = |expect_nodes| Change { expect_nodes, ..change(vec![write("a/b/new", "2")]) };
    t.store.apply(write_change(vec![(path("a/b"), b), (StorePath::empty(), root)])).unwrap();
    let wrong = [
        (path("a/b"), t.node("other")),
        (path("a/none"), b),
        (path("a/b/file"), t.node("a/b/file")),
        (StorePath::empty(), b),
    ];
    for expected_node in wrong {
        let before = t.store.list(&at("a/b"), &Page::ALL).unwrap();
        let result = t
            .store
            .apply(Change { expect_nodes: vec![expected_node], ..change(vec![write("a/b/more", "3")]) });
        assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
        assert_eq!(t.store.list(&at("a/b"), &Page::ALL).unwrap(), before);
    }
    t.rename("a/b", "a/c", Replace::Refuse);
    t.mkdir("a/b");
    assert!(matches!(t.store.apply(write_change(vec![(path("a/b"), b)])), Err(StoreError::Conflict)));
    assert!(t.store.stat(&at("a/b/new")).is_err());
}

pub fn a_change_is_refused_if_a_name_expected_free_is_taken(t: &Subject) {
    t.write("a/there", "1");
    t.link("a/link", "nowhere");
    let paths = |names: &[&str]| names.iter().map(|name| StorePath::from_checked(*name)).collect();
    let write_change =
        |names: &[&str], to: &str| Change { expect_free: paths(names), ..change(vec![write(to, "2")]) };
    t.store.apply(write_change(&["a/free", "none/free"], "a/new")).unwrap();
    t.store.apply(write_change(&["a/own"], "a/own")).unwrap();
    for taken in ["a/there", "a/link", "a/own"] {
        let result = t.store.apply(write_change(&["a/free", taken], "a/more/x"));
        assert!(matches!(&result, Err(StoreError::NameTaken { path }) if path == taken), "{result:?}");
        assert!(t.store.stat(&at("a/more")).is_err(), "{taken}");
    }
}

pub fn different_entries_are_different_nodes(t: &Subject) {
    t.write("a", "1");
    t.write("b", "1");
    t.mkdir("c");
    t.link("d", "a");
    let mut nodes = vec![t.store.stat(&NodePath::root()).unwrap().node];
    nodes.extend(["a", "b", "c", "d"].map(|path| t.node(path)));
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 5);
}

pub fn every_read_works_from_a_directory_node(t: &Subject) {
    t.write("dir/file", "needle");
    t.write("dir/sub/inner", "needle");
    t.link("dir/link", "target");
    assert_eq!(t.read_at(&child(t, "dir", "file")), b"needle");
    assert_eq!(read_all(&*t.store.open(&child(t, "dir", "file"), OpenPurpose::Read).unwrap()), b"needle");
    assert_eq!(t.store.read_link(&child(t, "dir", "link")).unwrap(), b"target");
    assert_eq!(t.store.list(&child(t, "dir", "sub"), &Page::ALL).unwrap().total, 1);
    assert_eq!(t.walk_paths(&child(t, "dir", "sub"), &Default::default()), ["inner"]);
    assert_eq!(t.draft_of(&child(t, "dir", "file")).size(), 6);
    let mut hits = 0;
    let count = &mut |_| {
        hits += 1;
        ControlFlow::Continue(())
    };
    t.store.grep(&child(t, "dir", "sub"), &grep("needle", |_| ()), count).unwrap();
    assert_eq!(hits, 1);
    assert_refused!(t.store.stat(&child(t, "dir", "missing")), StoreError::NotFound);
    assert_refused!(t.store.stat(&child(t, "dir/file", "x")), StoreError::NotADirectory);
}

pub fn every_change_works_from_a_directory_node(t: &Subject) {
    t.mkdir("dir");
    t.mkdir("other");
    let options = || PutOptions { parents: Parents::Required, ..PutOptions::default() };
    t.apply_one(write_with(child(t, "dir", "file"), b"one".to_vec(), options()));
    t.apply_one(append_with(child(t, "dir", "file"), b" two".to_vec(), options()));
    t.apply_one(edit_with(child(t, "dir", "file"), "one", "1", Occurrences::One, Precondition::Any));
    t.apply_one(chmod(child(t, "dir", "file"), 0o600));
    assert_eq!((t.read("dir/file"), t.stat("dir/file").mode), (b"1 two".to_vec(), 0o600));
    t.apply_one(mkdir_with(child(t, "dir", "sub"), Parents::Required));
    t.apply_one(symlink_with(child(t, "dir", "link"), "file", Parents::Required, Precondition::Absent));
    let copy_step =
        copy_with(child(t, "dir", "file"), child(t, "other", "copy"), Replace::Refuse, Parents::Required);
    t.apply_one(copy_step);
    let rename_step = |t: &Subject, replace| {
        let (from, to) = (child(t, "dir", "file"), child(t, "other", "moved"));
        rename_with(from, to, replace, Parents::Required, Precondition::Any)
    };
    t.apply_one(rename_step(t, Replace::Refuse));
    t.write("dir/file", "again");
    assert!(matches!(t.assert_step_refused(rename_step(t, Replace::Refuse)), StoreError::AlreadyExists));
    t.apply_one(rename_step(t, Replace::Overwrite));
    assert_eq!((t.read("other/moved"), t.read("other/copy")), (b"again".to_vec(), b"1 two".to_vec()));
    let remove_step = |t: &Subject, name, subtree| {
        remove_with(child(t, "dir", name), subtree, Precondition::Any, IfMissing::Fail)
    };
    t.apply_one(remove_step(t, "link", Subtree::File));
    t.apply_one(remove_step(t, "sub", Subtree::EmptyDirectory));
    assert!(t.names("dir").is_empty());
    let deeper = NodePath { base: t.node("dir"), path: StorePath::from_checked("x/y/z") };
    t.apply_one(write_with(deeper, b"deep".to_vec(), PutOptions::default()));
    assert_eq!(t.read("dir/x/y/z"), b"deep");
}

pub fn a_node_itself_is_read_and_changed(t: &Subject) {
    t.write("dir/file", "one");
    let node = |path: &str| NodePath::of_node(t.node(path));
    assert_eq!(t.read_at(&node("dir/file")), b"one");
    assert_eq!(read_all(&*t.store.open(&node("dir/file"), OpenPurpose::Read).unwrap()), b"one");
    assert_eq!(t.store.list(&node("dir"), &Page::ALL).unwrap().total, 1);
    assert_eq!(t.walk_paths(&node("dir"), &Default::default()), ["file"]);
    t.apply_one(append_with(node("dir/file"), b" two".to_vec(), PutOptions::default()));
    t.apply_one(edit_with(node("dir/file"), "two", "2", Occurrences::One, Precondition::Any));
    assert_eq!(t.read("dir/file"), b"one 2");
    t.apply_one(write_with(node("dir/file"), b"whole".to_vec(), PutOptions::default()));
    assert_eq!(t.read("dir/file"), b"whole");
    t.apply_one(Step::SetAttr { at: node("dir"), mode: Some(0o700), modified: None });
    assert_eq!(t.stat("dir").mode, 0o700);
    t.apply_one(copy_with(node("dir/file"), at("copy"), Replace::Refuse, Parents::Create));
    t.apply_one(rename_with(
        node("dir/file"),
        at("moved"),
        Replace::Refuse,
        Parents::Create,
        Precondition::Any,
    ));
    assert_eq!((t.read("copy"), t.read("moved")), (b"whole".to_vec(), b"whole".to_vec()));
    t.apply_one(remove_with(node("moved"), Subtree::File, Precondition::Any, IfMissing::Fail));
    t.apply_one(remove_with(node("dir"), Subtree::Directory, Precondition::Any, IfMissing::Fail));
    assert_eq!(t.names(""), ["copy"]);
}

pub fn a_node_keeps_its_id_through_renames(t: &Subject) {
    t.write("a/b/file", "1");
    t.link("a/link", "x");
    let (directory, file, link) = (t.node("a"), t.node("a/b/file"), t.node("a/link"));
    t.rename("a", "moved", Replace::Refuse);
    t.rename("moved/b", "elsewhere", Replace::Refuse);
    t.rename("moved/link", "link", Replace::Refuse);
    assert_eq!((t.node("moved"), t.node("elsewhere/file"), t.node("link")), (directory, file, link));
    assert_eq!(t.read_at(&NodePath::of_node(file)), b"1");
    assert_eq!(t.store.read_link(&NodePath::of_node(link)).unwrap(), b"x");
    t.apply_one(write_with(
        NodePath::child(directory, &Name::new(*b"new").unwrap()),
        b"2".to_vec(),
        PutOptions::default(),
    ));
    assert_eq!(t.read("moved/new"), b"2");
}

pub fn a_node_keeps_its_id_through_drafts_and_attributes(t: &Subject) {
    t.write("file", "1");
    let node = t.node("file");
    for round in 0..5_u64 {
        let mut draft = t.store.draft(DraftBase::File(&NodePath::of_node(node))).unwrap();
        draft.write_at(round * 100_000, b"written").unwrap();
        let content = Content::Sealed(draft.seal().unwrap());
        t.apply_one(write_with(NodePath::of_node(node), content, PutOptions::default()));
        t.apply_one(chmod(NodePath::of_node(node), 0o600 + u32::try_from(round).unwrap()));
        assert_eq!(t.node("file"), node);
    }
    assert_eq!(t.stat("file").size, 400_007);
}

pub fn a_removed_node_is_not_found(t: &Subject) {
    t.write("dir/file", "1");
    t.write("file", "1");
    t.write("over", "1");
    t.write("new", "1");
    let nodes = ["dir", "dir/file", "file", "over"].map(|path| t.node(path));
    t.remove("dir");
    t.remove("file");
    t.rename("new", "over", Replace::Overwrite);
    for node in nodes {
        let path = NodePath::of_node(node);
        assert_refused!(t.store.stat(&path), StoreError::NotFound);
        assert_refused!(t.store.read(&path, 9), StoreError::NotFound);
        assert_refused!(t.store.list(&path, &Page::ALL), StoreError::NotFound);
        assert_refused!(t.store.draft(DraftBase::File(&path)), StoreError::NotFound);
        let write = write_with(path.join(b"x"), b"1".to_vec(), PutOptions::default());
        assert!(matches!(t.assert_step_refused(write), StoreError::NotFound));
        let write = write_with(path, b"1".to_vec(), PutOptions::default());
        assert!(matches!(t.assert_step_refused(write), StoreError::NotFound));
    }
}

pub fn a_forgotten_node_still_exists(t: &Subject) {
    t.write("dir/file", "1");
    t.store.forget_node(t.node("dir/file"));
    t.store.forget_node(t.node("dir"));
    assert_eq!(t.read("dir/file"), b"1");
    let attr = t.stat("dir/file");
    assert_eq!(attr.kind, NodeKind::File);
    assert_eq!(t.store.stat(&NodePath::of_node(attr.node)).unwrap(), attr);
}
