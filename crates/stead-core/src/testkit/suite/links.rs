//! A Store never follows a symlink: it reports where on the path it found one, and its target.

use std::ops::ControlFlow;

use super::searching::grep;
use super::subject::*;
use crate::store::{
    DraftBase, LinkHit, NodeKind, NodePath, OpenPurpose, Page, Parents, Precondition, PutOptions, Replace,
    Side, Step, StoreError, Subtree,
};

#[track_caller]
fn hit<T>(result: Result<T, StoreError>) -> LinkHit {
    match result {
        Err(StoreError::Link(hit)) => hit,
        Err(other) => panic!("{other:?} instead of a link hit"),
        Ok(_) => panic!("a symlink was followed"),
    }
}

fn on(step: usize, side: Side, depth: usize, target: &str) -> LinkHit {
    LinkHit { step, side, depth, target: target.into() }
}

fn first(depth: usize, target: &str) -> LinkHit {
    on(0, Side::From, depth, target)
}

pub fn a_target_is_kept_as_written(t: &Subject) {
    let long = "x/".repeat(500);
    for target in ["plain", "../up/./and//over/", "/absolute", "caf\u{e9}", "to itself", &long] {
        let outcome = t.apply_one(symlink("link", target));
        let attr = outcome.attr.unwrap();
        assert_eq!((attr.kind, attr.size), (NodeKind::Symlink, target.len() as u64));
        assert_eq!(t.stat("link"), attr);
        assert_eq!(t.store.read_link(&at("link")).unwrap(), target.as_bytes());
    }
}

pub fn a_target_is_not_empty_and_has_no_nul(t: &Subject) {
    for target in ["", "a\0b"] {
        assert!(matches!(t.refused(symlink("link", target)), StoreError::Invalid(_)), "{target:?}");
    }
}

pub fn mkdir_with_parents_reports_a_last_symlink(t: &Subject) {
    t.mkdir("dir");
    t.link("link", "dir");
    t.link("dangling", "nowhere");
    for (path, target) in [("link", "dir"), ("dangling", "nowhere")] {
        assert_eq!(hit(t.assert_unchanged(|| t.try_apply_one(mkdir(path)))), first(1, target));
        let without_parents = t.refused(mkdir_with(at(path), Parents::Required));
        assert!(matches!(without_parents, StoreError::AlreadyExists), "{path}");
    }
}

pub fn a_symlink_replaces_a_symlink_only(t: &Subject) {
    assert!(t.apply_one(symlink("link", "one")).created);
    assert!(!t.apply_one(symlink("link", "two")).created);
    assert_eq!(t.store.read_link(&at("link")).unwrap(), b"two");
    let tag = t.stat("link").tag;
    let with = |path, expect| symlink_with(at(path), "three", Parents::Create, expect);
    assert!(matches!(t.refused(with("link", Precondition::Absent)), StoreError::AlreadyExists));
    t.apply_one(with("link", Precondition::Tag(tag)));
    assert!(matches!(t.refused(with("link", Precondition::Tag(tag))), StoreError::Conflict));
    t.apply_one(with("new", Precondition::Absent));
    t.write("file", "1");
    t.mkdir("dir");
    for path in ["file", "dir"] {
        assert!(matches!(t.refused(symlink(path, "x")), StoreError::AlreadyExists), "{path}");
    }
}

pub fn a_symlink_on_the_way_is_reported(t: &Subject) {
    t.write("real/dir/file", "1");
    t.link("top", "real");
    t.link("real/middle", "dir");
    for (path, depth, target) in
        [("top/dir/file", 1, "real"), ("real/middle/file", 2, "dir"), ("top/middle/file", 1, "real")]
    {
        let place = at(path);
        let go_on = ControlFlow::Continue(());
        let expected = first(depth, target);
        assert_eq!(hit(t.store.stat(&place)), expected);
        assert_eq!(hit(t.store.read(&place, 99)), expected);
        assert_eq!(hit(t.store.open(&place, OpenPurpose::Read)), expected);
        assert_eq!(hit(t.store.read_link(&place)), expected);
        assert_eq!(hit(t.store.list(&place, &Page::ALL)), expected);
        assert_eq!(hit(t.store.walk(&place, &Default::default(), &mut |_| go_on)), expected);
        assert_eq!(hit(t.store.grep(&place, &grep("x", |_| ()), &mut |_| go_on)), expected);
        assert_eq!(hit(t.store.draft(DraftBase::File(&place))), expected);
        let steps = [
            write(path, "2"),
            append(path, "2"),
            edit(path, "1", "2"),
            mkdir(path),
            mkdir_with(at(path), Parents::Required),
            symlink(path, "x"),
            remove(path, Subtree::Any),
            rename(path, "elsewhere", Replace::Overwrite),
            copy(path, "elsewhere", Replace::Overwrite),
            chmod(at(path), 0o600),
        ];
        for step in steps {
            assert_eq!(hit(t.assert_unchanged(|| t.try_apply_one(step))), expected);
        }
    }
}

pub fn a_symlink_before_something_missing_is_reported(t: &Subject) {
    t.link("dir/link", "nowhere");
    for path in ["dir/link/x", "dir/link/x/y"] {
        assert_eq!(hit(t.store.stat(&at(path))), first(2, "nowhere"));
        assert_eq!(hit(t.assert_unchanged(|| t.try_apply_one(write(path, "1")))), first(2, "nowhere"));
        assert_eq!(hit(t.assert_unchanged(|| t.try_apply_one(mkdir(path)))), first(2, "nowhere"));
    }
}

pub fn content_is_not_reached_through_a_last_symlink(t: &Subject) {
    t.write("dir/file", "1");
    t.mkdir("dir/sub");
    t.link("dir/to-file", "file");
    t.link("dir/to-dir", "sub");
    t.link("dir/dangling", "nowhere");
    for (path, target) in [("dir/to-file", "file"), ("dir/to-dir", "sub"), ("dir/dangling", "nowhere")] {
        let place = at(path);
        let go_on = ControlFlow::Continue(());
        let expected = first(2, target);
        assert_eq!(hit(t.store.read(&place, 99)), expected);
        assert_eq!(hit(t.store.open(&place, OpenPurpose::Read)), expected);
        assert_eq!(hit(t.store.list(&place, &Page::ALL)), expected);
        assert_eq!(hit(t.store.walk(&place, &Default::default(), &mut |_| go_on)), expected);
        assert_eq!(hit(t.store.grep(&place, &grep("x", |_| ()), &mut |_| go_on)), expected);
        assert_eq!(hit(t.store.draft(DraftBase::File(&place))), expected);
        for step in [write(path, "2"), append(path, "2"), edit(path, "1", "2")] {
            assert_eq!(hit(t.assert_unchanged(|| t.try_apply_one(step))), expected);
        }
        let create = PutOptions { expect: Precondition::Absent, ..PutOptions::default() };
        let step = write_with(at(path), b"2".to_vec(), create);
        assert_eq!(hit(t.assert_unchanged(|| t.try_apply_one(step))), expected);
    }
}

pub fn a_symlink_itself_is_seen_moved_copied_and_removed(t: &Subject) {
    t.write("file", "1");
    t.link("link", "file");
    assert_eq!(t.stat("link").kind, NodeKind::Symlink);
    t.apply_one(copy("link", "copy", Replace::Refuse));
    t.rename("link", "dir/moved", Replace::Refuse);
    for path in ["copy", "dir/moved"] {
        assert_eq!(t.store.read_link(&at(path)).unwrap(), b"file");
        t.apply_one(remove(path, Subtree::File));
    }
    assert_eq!(t.read("file"), b"1");
    assert_eq!(t.names(""), ["dir", "file"]);
}

pub fn a_hit_names_its_step_and_side(t: &Subject) {
    t.write("file", "1");
    t.mkdir("dir");
    t.link("dir/link", "target");
    let result = t.assert_unchanged(|| t.apply(vec![write("a", "1"), mkdir("b"), write("dir/link/x", "1")]));
    assert_eq!(hit(result), on(2, Side::From, 2, "target"));
    let sides: [(Step, Side); 4] = [
        (rename("dir/link/x", "y", Replace::Overwrite), Side::From),
        (rename("file", "dir/link/x", Replace::Overwrite), Side::To),
        (copy("dir/link/x", "y", Replace::Overwrite), Side::From),
        (copy("file", "dir/link/x", Replace::Overwrite), Side::To),
    ];
    for (step, side) in sides {
        let result = t.assert_unchanged(|| t.apply(vec![append("log", "1"), step]));
        assert_eq!(hit(result), on(1, side, 2, "target"));
    }
    let result = t.apply(vec![symlink("new", "made here"), write("new/x", "1")]);
    assert_eq!(hit(result), on(1, Side::From, 1, "made here"), "a step sees what those before it did");
}

pub fn depth_counts_from_where_the_place_starts(t: &Subject) {
    t.write("a/b/file", "1");
    t.link("a/b/link", "file");
    let start = t.node("a");
    let below = |path: &str| NodePath { base: start, path: crate::store::StorePath::from_checked(path) };
    assert_eq!(hit(t.store.read(&below("b/link"), 99)), first(2, "file"));
    assert_eq!(hit(t.store.stat(&below("b/link/x"))), first(2, "file"));
    let link = t.node("a/b/link");
    assert_eq!(t.store.stat(&NodePath::of_node(link)).unwrap().kind, NodeKind::Symlink);
    assert_eq!(hit(t.store.read(&NodePath::of_node(link), 99)), first(0, "file"));
}
