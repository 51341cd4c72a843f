//! Errors for missing parents and for nodes of the wrong kind.

use std::ops::ControlFlow;

use super::searching::grep;
use super::subject::*;
use crate::store::Replace::{Exchange, Overwrite, Refuse};
use crate::store::{
    DraftBase, NodeKind, NodePath, OpenPurpose, Page, Parents, Precondition, PutOptions, StoreError,
    StoreResult, Subtree,
};

pub fn missing_parents_are_made(t: &Subject) {
    t.write("a/b/c/file", "1");
    t.apply_one(append("d/e/log", "1"));
    t.link("f/g/link", "anywhere");
    t.mkdir("h/i/j");
    t.apply_one(rename("a/b/c/file", "k/l/file", Refuse));
    t.apply_one(copy("k/l/file", "m/n/file", Refuse));
    for directory in ["a", "a/b", "a/b/c", "d/e", "f/g", "h/i", "h/i/j", "k", "k/l", "m", "m/n"] {
        let attr = t.stat(directory);
        assert_eq!((attr.kind, attr.mode, attr.size), (NodeKind::Directory, 0o755, 0), "{directory}");
    }
    assert_eq!(t.read("m/n/file"), b"1");
}

pub fn a_required_parent_that_is_missing_is_not_found(t: &Subject) {
    t.write("there", "1");
    let below = || at("missing/name");
    let required = || PutOptions { parents: Parents::Required, ..PutOptions::default() };
    let steps = [
        write_with(below(), b"1".to_vec(), required()),
        append_with(below(), b"1".to_vec(), required()),
        mkdir_with(below(), Parents::Required),
        symlink_with(below(), "x", Parents::Required, Precondition::Any),
        rename_with(at("there"), below(), Refuse, Parents::Required, Precondition::Any),
        copy_with(at("there"), below(), Refuse, Parents::Required),
    ];
    for step in steps {
        assert!(matches!(t.refused(step), StoreError::NotFound));
    }
    t.mkdir("missing");
    t.apply_one(write_with(below(), b"1".to_vec(), required()));
    assert_eq!(t.read("missing/name"), b"1");
}

pub fn a_file_is_no_directory_on_the_way(t: &Subject) {
    t.write("file", "1");
    t.write("other", "2");
    for path in ["file/x", "file/x/y"] {
        for (call, result) in every_read(t, &at(path)) {
            assert!(matches!(result, Err(StoreError::NotADirectory)), "{call} {path}: {result:?}");
        }
        let steps = [
            write(path, "1"),
            append(path, "1"),
            edit(path, "1", "2"),
            mkdir(path),
            mkdir_with(at(path), Parents::Required),
            symlink(path, "x"),
            remove(path, Subtree::Any),
            rename(path, "elsewhere", Overwrite),
            rename("other", path, Overwrite),
            copy(path, "elsewhere", Overwrite),
            copy("other", path, Overwrite),
            chmod(at(path), 0o600),
        ];
        for step in steps {
            let shown = format!("{step:?}");
            let error = t.refused(step);
            assert!(matches!(error, StoreError::NotADirectory), "{shown}: {error:?}");
        }
    }
    assert_refused!(t.store.list(&at("file"), &Page::ALL), StoreError::NotADirectory);
    let walk = t.store.walk(&at("file"), &Default::default(), &mut |_| ControlFlow::Continue(()));
    assert_refused!(walk, StoreError::NotADirectory);
}

pub fn a_directory_is_no_file(t: &Subject) {
    t.write("dir/file", "1");
    for place in [at("dir"), NodePath::root()] {
        assert_refused!(t.store.read(&place, u64::MAX), StoreError::IsADirectory);
        assert_refused!(t.store.open(&place, OpenPurpose::Read), StoreError::IsADirectory);
        assert_refused!(t.store.draft(DraftBase::File(&place)), StoreError::IsADirectory);
        let put = PutOptions::default;
        let error = t.refused(write_with(place.clone(), b"1".to_vec(), put()));
        assert!(matches!(error, StoreError::IsADirectory), "{error:?}");
        let error = t.refused(append_with(place.clone(), b"1".to_vec(), put()));
        assert!(matches!(error, StoreError::IsADirectory), "{error:?}");
    }
    assert!(t.store.read_link(&at("dir")).is_err());
    assert!(t.store.read_link(&at("dir/file")).is_err());
}

pub fn nothing_is_not_found(t: &Subject) {
    for path in ["missing", "missing/deeper"] {
        for (call, result) in every_read(t, &at(path)) {
            assert!(matches!(result, Err(StoreError::NotFound)), "{call} {path}: {result:?}");
        }
        let steps = [
            edit(path, "1", "2"),
            remove(path, Subtree::Any),
            remove(path, Subtree::File),
            remove(path, Subtree::Directory),
            rename(path, "elsewhere", Overwrite),
            rename(path, "elsewhere", Exchange),
            copy(path, "elsewhere", Overwrite),
            chmod(at(path), 0o600),
        ];
        for step in steps {
            let shown = format!("{step:?}");
            let error = t.refused(step);
            assert!(matches!(error, StoreError::NotFound), "{shown}: {error:?}");
        }
    }
}

/// Every call that reads, with its result for a path.
fn every_read(t: &Subject, place: &NodePath) -> Vec<(&'static str, StoreResult<()>)> {
    let go_on = ControlFlow::Continue(());
    let grep = grep("x", |_| ());
    vec![
        ("stat", t.store.stat(place).map(drop)),
        ("read", t.store.read(place, u64::MAX).map(drop)),
        ("open", t.store.open(place, OpenPurpose::Read).map(drop)),
        ("read_link", t.store.read_link(place).map(drop)),
        ("list", t.store.list(place, &Page::ALL).map(drop)),
        ("walk", t.store.walk(place, &Default::default(), &mut |_| go_on)),
        ("grep", t.store.grep(place, &grep, &mut |_| go_on)),
        ("draft", t.store.draft(DraftBase::File(place)).map(drop)),
    ]
}
