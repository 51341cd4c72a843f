//! A Store never follows a symlink: it reports where on the path it found one, and its target.

use std::ops::ControlFlow;

use super::searching::grep;
use super::subject::*;
use crate::store::{
    DraftBase, LinkHit, NodeKind, NodePath, OpenPurpose, Page, Parents, Precondition, PutOptions, Replace,
    Side, Step, StoreError, Subtree,
};

#[track_caller]
fn expect_link_hit<T>(result: Result<T, StoreError>) -> LinkHit {
    match result {
        Err(StoreError::Link(hit)) => hit,
        Err(other) => panic!("{other:?} instead of a link hit"),
        Ok(_) => panic!("a symlink was followed"),
    }
}

fn link_hit(step: usize, side: Side, depth: usize, target: &str) -> LinkHit {
    LinkHit { step, side, depth, target: target.into() }
}

fn link_hit_in_first_step(depth: usize, target: &str) -> LinkHit {
    link_hit(0, Side::From, depth, target)
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
        assert!(
            matches!(t.assert_step_refused(symlink("link", target)), StoreError::Invalid(_)),
            "{target:?}"
        );
    }
}

pub fn mkdir_with_parents_reports_a_last_symlink(t: &Subject) {
    t.mkdir("dir");
    t.link("link", "dir");
    t.link("dangling", "nowhere");
    for (path, target) in [("link", "dir"), ("dangling", "nowhere")] {
        assert_eq!(
            expect_link_hit(t.assert_unchanged(|| t.try_apply_one(mkdir(path)))),
            link_hit_in_first_step(1, target)
        );
        let without_parents = t.assert_step_refused(mkdir_with(at(path), Parents::Required));
        assert!(matches!(without_parents, StoreError::AlreadyExists), "{path}");
    }
}

pub fn a_symlink_replaces_a_symlink_only(t: &Subject) {
    assert!(t.apply_one(symlink("link", "one")).created);
    assert!(!t.apply_one(symlink("link", "two")).created);
    assert_eq!(t.store.read_link(&at("link")).unwrap(), b"two");
    let tag = t.stat("link").tag;
    let symlink_step = |path, expect| symlink_with(at(path), "three", Parents::Create, expect);
    assert!(matches!(
        t.assert_step_refused(symlink_step("link", Precondition::Absent)),
        StoreError::AlreadyExists
    ));
    t.apply_one(symlink_step("link", Precondition::Tag(tag)));
    assert!(matches!(
        t.assert_step_refused(symlink_step("link", Precondition::Tag(tag))),
        StoreError::Conflict
    ));
    t.apply_one(symlink_step("new", Precondition::Absent));
    t.write("file", "1");
    t.mkdir("dir");
    for path in ["file", "dir"] {
        assert!(matches!(t.assert_step_refused(symlink(path, "x")), StoreError::AlreadyExists), "{path}");
    }
}

pub fn a_symlink_in_the_middle_of_a_path_is_reported(t: &Subject) {
    t.write("real/dir/file", "1");
    t.link("top", "real");
    t.link("real/middle", "dir");
    for (path, depth, target) in
        [("top/dir/file", 1, "real"), ("real/middle/file", 2, "dir"), ("top/middle/file", 1, "real")]
    {
        let node_path = at(path);
        let proceed = ControlFlow::Continue(());
        let expected = link_hit_in_first_step(depth, target);
        assert_eq!(expect_link_hit(t.store.stat(&node_path)), expected);
        assert_eq!(expect_link_hit(t.store.read(&node_path, 99)), expected);
        assert_eq!(expect_link_hit(t.store.open(&node_path, OpenPurpose::Read)), expected);
        assert_eq!(expect_link_hit(t.store.read_link(&node_path)), expected);
        assert_eq!(expect_link_hit(t.store.list(&node_path, &Page::ALL)), expected);
        assert_eq!(
            expect_link_hit(t.store.walk(&node_path, &Default::default(), &mut |_| proceed)),
            expected
        );
        assert_eq!(expect_link_hit(t.store.grep(&node_path, &grep("x", |_| ()), &mut |_| proceed)), expected);
        assert_eq!(expect_link_hit(t.store.draft(DraftBase::File(&node_path))), expected);
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
            assert_eq!(expect_link_hit(t.assert_unchanged(|| t.try_apply_one(step))), expected);
        }
    }
}

pub fn a_symlink_before_a_missing_name_is_reported(t: &Subject) {
    t.link("dir/link", "nowhere");
    for path in ["dir/link/x", "dir/link/x/y"] {
        assert_eq!(expect_link_hit(t.store.stat(&at(path))), link_hit_in_first_step(2, "nowhere"));
        assert_eq!(
            expect_link_hit(t.assert_unchanged(|| t.try_apply_one(write(path, "1")))),
            link_hit_in_first_step(2, "nowhere")
        );
        assert_eq!(
            expect_link_hit(t.assert_unchanged(|| t.try_apply_one(mkdir(path)))),
            link_hit_in_first_step(2, "nowhere")
        );
    }
}

pub fn content_is_not_reached_through_a_symlink_at_the_end(t: &Subject) {
    t.write("dir/file", "1");
    t.mkdir("dir/sub");
    t.link("dir/to-file", "file");
    t.link("dir/to-dir", "sub");
    t.link("dir/dangling", "nowhere");
    for (path, target) in [("dir/to-file", "file"), ("dir/to-dir", "sub"), ("dir/dangling", "nowhere")] {
        let node_path = at(path);
        let proceed = ControlFlow::Continue(());
        let expected = link_hit_in_first_step(2, target);
        assert_eq!(expect_link_hit(t.store.read(&node_path, 99)), expected);
        assert_eq!(expect_link_hit(t.store.open(&node_path, OpenPurpose::Read)), expected);
        assert_eq!(expect_link_hit(t.store.list(&node_path, &Page::ALL)), expected);
        assert_eq!(
            expect_link_hit(t.store.walk(&node_path, &Default::default(), &mut |_| proceed)),
            expected
        );
        assert_eq!(expect_link_hit(t.store.grep(&node_path, &grep("x", |_| ()), &mut |_| proceed)), expected);
        assert_eq!(expect_link_hit(t.store.draft(DraftBase::File(&node_path))), expected);
        for step in [write(path, "2"), append(path, "2"), edit(path, "1", "2")] {
            assert_eq!(expect_link_hit(t.assert_unchanged(|| t.try_apply_one(step))), expected);
        }
        let options = PutOptions { expect: Precondition::Absent, ..PutOptions::default() };
        let step = write_with(at(path), b"2".to_vec(), options);
        assert_eq!(expect_link_hit(t.assert_unchanged(|| t.try_apply_one(step))), expected);
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

pub fn a_link_hit_names_its_step_and_side(t: &Subject) {
    t.write("file", "1");
    t.mkdir("dir");
    t.link("dir/link", "target");
    let result = t.assert_unchanged(|| t.apply(vec![write("a", "1"), mkdir("b"), write("dir/link/x", "1")]));
    assert_eq!(expect_link_hit(result), link_hit(2, Side::From, 2, "target"));
    let sides: [(Step, Side); 4] = [
        (rename("dir/link/x", "y", Replace::Overwrite), Side::From),
        (rename("file", "dir/link/x", Replace::Overwrite), Side::To),
        (copy("dir/link/x", "y", Replace::Overwrite), Side::From),
        (copy("file", "dir/link/x", Replace::Overwrite), Side::To),
    ];
    for (step, side) in sides {
        let result = t.assert_unchanged(|| t.apply(vec![append("log", "1"), step]));
        assert_eq!(expect_link_hit(result), link_hit(1, side, 2, "target"));
    }
    let result = t.apply(vec![symlink("new", "made here"), write("new/x", "1")]);
    assert_eq!(
        expect_link_hit(result),
        link_hit(1, Side::From, 1, "made here"),
        "a step has to see the effects of the steps before it"
    );
}

pub fn the_depth_of_a_link_hit_counts_from_the_base_node(t: &Subject) {
    t.write("a/b/file", "1");
    t.link("a/b/link", "file");
    let start = t.node("a");
    let path_from_start =
        |path: &str| NodePath { base: start, path: crate::store::StorePath::from_checked(path) };
    assert_eq!(
        expect_link_hit(t.store.read(&path_from_start("b/link"), 99)),
        link_hit_in_first_step(2, "file")
    );
    assert_eq!(
        expect_link_hit(t.store.stat(&path_from_start("b/link/x"))),
        link_hit_in_first_step(2, "file")
    );
    let link = t.node("a/b/link");
    assert_eq!(t.store.stat(&NodePath::of_node(link)).unwrap().kind, NodeKind::Symlink);
    assert_eq!(
        expect_link_hit(t.store.read(&NodePath::of_node(link), 99)),
        link_hit_in_first_step(0, "file")
    );
}
