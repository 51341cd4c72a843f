//! Errors for missing parents and for nodes of the wrong kind.

use std::ops::ControlFlow;

use super::searching::grep;
use super::subject::*;
use crate::store::Replace::{Exchange, Overwrite, Refuse};
use crate::store::{
    DraftBase, NodeKind, NodePath, OpenPurpose, Page, Parents, Precondition, PutOptions, StoreError,
    StoreResult, Subtree,
};

pub fn missing_parents_are_created(t: &Subject) {
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
    let missing_path = || at("missing/name");
    let required = || PutOptions { parents: Parents::Required, ..PutOptions::default() };
    let steps = [
        write_with(missing_path(), b"1".to_vec(), required()),
        append_with(missing_path(), b"1".to_vec(), required()),
        mkdir_with(missing_path(), Parents::Required),
        symlink_with(missing_path(), "x", Parents::Required, Precondition::Any),
        rename_with(at("there"), missing_path(), Refuse, Parents::Required, Precondition::Any),
        copy_with(at("there"), missing_path(), Refuse, Parents::Required),
    ];
    for step in steps {
        assert!(matches!(t.assert_step_refused(step), StoreError::NotFound));
    }
    t.mkdir("missing");
    t.apply_one(write_with(missing_path(), b"1".to_vec(), required()));
    assert_eq!(t.read("missing/name"), b"1");
}

pub fn a_file_in_the_middle_of_a_path_is_an_error(t: &Subject) {
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
            let description = format!("{step:?}");
            let error = t.assert_step_refused(step);
            assert!(matches!(error, StoreError::NotADirectory), "{description}: {error:?}");
        }
    }
    assert_refused!(t.store.list(&at("file"), &Page::ALL), StoreError::NotADirectory);
    let walk = t.store.walk(&at("file"), &Default::default(), &mut |_| ControlFlow::Continue(()));
    assert_refused!(walk, StoreError::NotADirectory);
}

pub fn a_directory_is_not_read_or_written_as_a_file(t: &Subject) {
    t.write("dir/file", "1");
    for path in [at("dir"), NodePath::root()] {
        assert_refused!(t.store.read(&path, u64::MAX), StoreError::IsADirectory);
        assert_refused!(t.store.open(&path, OpenPurpose::Read), StoreError::IsADirectory);
        assert_refused!(t.store.draft(DraftBase::File(&path)), StoreError::IsADirectory);
        let default_options = PutOptions::default;
        let error = t.assert_step_refused(write_with(path.clone(), b"1".to_vec(), default_options()));
        assert!(matches!(error, StoreError::IsADirectory), "{error:?}");
        let error = t.assert_step_refused(append_with(path.clone(), b"1".to_vec(), default_options()));
        assert!(matches!(error, StoreError::IsADirectory), "{error:?}");
    }
    assert!(t.store.read_link(&at("dir")).is_err());
    assert!(t.store.read_link(&at("dir/file")).is_err());
}

pub fn a_missing_path_is_not_found(t: &Subject) {
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
            let description = format!("{step:?}");
            let error = t.assert_step_refused(step);
            assert!(matches!(error, StoreError::NotFound), "{description}: {error:?}");
        }
    }
}

/// Every call that reads, with its result for a path.
fn every_read(t: &Subject, path: &NodePath) -> Vec<(&'static str, StoreResult<()>)> {
    let proceed = ControlFlow::Continue(());
    let grep = grep("x", |_| ());
    vec![
        ("stat", t.store.stat(path).map(drop)),
        ("read", t.store.read(path, u64::MAX).map(drop)),
        ("open", t.store.open(path, OpenPurpose::Read).map(drop)),
        ("read_link", t.store.read_link(path).map(drop)),
        ("list", t.store.list(path, &Page::ALL).map(drop)),
        ("walk", t.store.walk(path, &Default::default(), &mut |_| proceed)),
        ("grep", t.store.grep(path, &grep, &mut |_| proceed)),
        ("draft", t.store.draft(DraftBase::File(path)).map(drop)),
    ]
}
