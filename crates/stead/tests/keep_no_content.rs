//! A directory with `keep = false`: every change is in the history, a change that needs no earlier content can be
//! undone, and an undo that needs it is refused with the reason.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use stead::store::Parents;
use stead::vfs::{LogQuery, Overwrite, RemoveOptions, RestoreOptions, UndoOptions, UndoTarget};
use stead::{Clock, Config, ErrorKind, GcOptions, Occurrences, Retention, Stead, Stores, SystemClock};
use tempfile::TempDir;

const CONFIG: &str = r#"
    [database]
    durability = "fast"
    [stores.code]
    kind = "physical"
    path = "code"
    keep = false
    [[agents.coder.workspaces]]
    prefix = "/code"
    scope = "rw"
    store = "code"
    quota = { bytes = "100B" }
"#;

fn new_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("code")).unwrap();
    directory
}

fn config(directory: &TempDir, text: &str) -> Config {
    Config::parse(text, &directory.path().join("stead.toml")).unwrap()
}

fn open(directory: &TempDir) -> Stead {
    Stead::open(&config(directory, CONFIG), "coder").unwrap()
}

fn text(stead: &Stead, path: &str) -> String {
    String::from_utf8(stead.vfs().read(path).unwrap().bytes).unwrap()
}

/// How many pieces of displaced content are in the state directory.
fn displaced_count(directory: &TempDir) -> usize {
    let staging = std::fs::read_dir(directory.path().join(".stead/physical")).unwrap();
    let displaced = staging.map(|entry| entry.unwrap().path().join("displaced"));
    displaced.map(|displaced| std::fs::read_dir(displaced).unwrap().count()).sum()
}

#[test]
fn the_log_shows_all_changes_and_no_content_is_retained() {
    let directory = new_directory();
    let stead = open(&directory);
    let vfs = stead.vfs();
    vfs.write("/code/d/a", "one").unwrap();
    vfs.write("/code/d/a", "two").unwrap();
    vfs.edit("/code/d/a", "two", "2", Occurrences::One).unwrap();
    vfs.rename("/code/d/a", "/code/d/b", Overwrite::Refuse).unwrap();
    vfs.remove_directory("/code/d", RemoveOptions { recursive: true, ..RemoveOptions::default() }).unwrap();
    let log = vfs.log(&LogQuery::default()).unwrap();
    let logged: Vec<_> = log.iter().map(|entry| (&*entry.operation.tool, entry.changes.len())).collect();
    assert_eq!(logged, [("remove", 2), ("move", 1), ("edit", 1), ("write", 1), ("write", 2)]);
    assert!(log.iter().all(|entry| &*entry.operation.identity.agent == "coder"));
    assert_eq!(displaced_count(&directory), 0);
}

#[test]
fn a_change_that_needs_no_earlier_content_is_undone() {
    let directory = new_directory();
    let stead = open(&directory);
    let vfs = stead.vfs();
    let undo = || {
        let undone = vfs.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(undone.done, "{:?}", undone.conflicts);
    };
    vfs.write("/code/a", "one").unwrap();
    vfs.rename("/code/a", "/code/b", Overwrite::Refuse).unwrap();
    undo();
    assert_eq!(text(&stead, "/code/a"), "one");
    vfs.append("/code/a", " more").unwrap();
    undo();
    assert_eq!(text(&stead, "/code/a"), "one");
    vfs.mkdir("/code/d", Parents::Required).unwrap();
    vfs.remove_directory("/code/d", RemoveOptions { recursive: true, ..RemoveOptions::default() }).unwrap();
    undo();
    assert!(vfs.exists("/code/d").unwrap());
    vfs.write("/code/new", "new").unwrap();
    undo();
    assert!(!vfs.exists("/code/new").unwrap());
    undo();
    assert!(!vfs.exists("/code/d").unwrap());
}

#[test]
fn an_undo_that_needs_content_that_was_not_retained_is_refused_with_the_reason() {
    let directory = new_directory();
    let stead = open(&directory);
    let vfs = stead.vfs();
    let assert_refused = |expected_files: &[(&str, Option<&str>)]| {
        let undone = vfs.undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(!undone.done);
        assert_eq!(undone.conflicts.len(), 1, "{:?}", undone.conflicts);
        assert_eq!(undone.conflicts[0].why, "the earlier content was not kept");
        for (path, content) in expected_files {
            let found_content = vfs.read(*path).ok().map(|read| String::from_utf8(read.bytes).unwrap());
            assert_eq!(found_content.as_deref(), *content, "{path}");
        }
    };
    vfs.write("/code/a", "one").unwrap();
    vfs.write("/code/a", "two").unwrap();
    assert_refused(&[("/code/a", Some("two"))]);
    vfs.write("/code/d/b", "new").unwrap();
    vfs.rename("/code/d/b", "/code/a", Overwrite::Replace).unwrap();
    assert_refused(&[("/code/a", Some("new")), ("/code/d/b", None)]);
    vfs.remove_file("/code/a", RemoveOptions::default()).unwrap();
    assert_refused(&[("/code/a", None)]);
}

#[test]
fn a_quota_counts_the_current_content() {
    let directory = new_directory();
    let stead = open(&directory);
    let vfs = stead.vfs();
    vfs.write("/code/d/a", "x".repeat(60)).unwrap();
    vfs.write("/code/d/b", "x".repeat(40)).unwrap();
    assert_eq!(vfs.write("/code/c", "x").unwrap_err().kind(), ErrorKind::Quota);
    vfs.remove_directory("/code/d", RemoveOptions { recursive: true, ..RemoveOptions::default() }).unwrap();
    vfs.write("/code/c", "x".repeat(100)).unwrap();
    // Another process continues with the same usage.
    assert_eq!(open(&directory).vfs().append("/code/c", "x").unwrap_err().kind(), ErrorKind::Quota);
}

#[test]
fn a_snapshot_captures_content_even_without_retention() {
    let directory = new_directory();
    let stead = open(&directory);
    let vfs = stead.vfs();
    vfs.write("/code/a", "one").unwrap();
    let snapshot = stead.snapshot(Some("/code"), Some("before")).unwrap();
    vfs.write("/code/a", "two").unwrap();
    let revisions = stead.snapshot_revisions(&snapshot).unwrap();
    let restored = vfs.restore("/code", revisions, &RestoreOptions::default()).unwrap();
    assert!(restored.done, "{:?}", restored.conflicts);
    assert_eq!(text(&stead, "/code/a"), "one");
}

#[test]
fn gc_removes_content_that_was_retained_before_retention_was_turned_off() {
    let directory = new_directory();
    let retaining = config(&directory, &CONFIG.replace("keep = false", "keep = true"));
    let stead = Stead::open(&retaining, "coder").unwrap();
    for content in ["one", "two", "three"] {
        stead.vfs().write("/code/a", content).unwrap();
    }
    drop(stead);
    assert_eq!(displaced_count(&directory), 2);
    let stores = Stores::of(&config(&directory, CONFIG));
    stores.gc(Retention::default(), GcOptions::default(), SystemClock.now(), &mut |_, _| ()).unwrap();
    assert_eq!(displaced_count(&directory), 0);
    let log = open(&directory).vfs().log(&LogQuery::default()).unwrap();
    assert_eq!(log.len(), 3, "the log has to keep all operations");
}
