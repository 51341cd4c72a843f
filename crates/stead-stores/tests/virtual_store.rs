//! What the Virtual Store promises beyond what every Store does: versions, namespaces, deduplicated content, several
//! processes on one file.

#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use stead_core::store::{
    Applied, Change, ChangeFeed, ChangeKind, Content, DisplacedContent, DraftBase, History, IfMissing,
    Maintenance, NodePath, OpenPurpose, Page, Parents, Precondition, PutOptions, Replace, RevisionNumber,
    Step, StepOutcome, StorePath, Subtree,
};
use stead_core::testkit::{model_run, snapshot_of};
use stead_core::{Clock, Identity, Operation, OperationId, Store, StoreError, StoreResult, SystemClock};
use stead_stores::{Database, DatabaseOptions, Durability, MemoryStore, VirtualStore};

const CHUNK: usize = 256 * 1024;

fn node_path(path: &str) -> NodePath {
    NodePath::from_root(StorePath::from_checked(path))
}

fn apply(store: &dyn Store, steps: Vec<Step>) -> StoreResult<Applied> {
    let at = SystemClock.now();
    let identity = Arc::new(Identity::agent("coder").with_thread("t1"));
    let operation = Operation { id: OperationId::fresh(at), identity, tool: Cow::Borrowed("test"), at };
    store.apply(Change::new(operation, steps))
}

fn apply_one(store: &dyn Store, step: Step) -> StepOutcome {
    apply(store, vec![step]).unwrap().outcomes[0]
}

fn write_step(path: &str, content: impl Into<Content>, displaced: DisplacedContent) -> Step {
    Step::Write {
        at: node_path(path),
        content: content.into(),
        options: PutOptions { displaced, ..PutOptions::default() },
    }
}

/// Writes a file, and returns the revision.
fn write(store: &dyn Store, path: &str, bytes: impl AsRef<[u8]>) -> RevisionNumber {
    let step = write_step(path, bytes.as_ref().to_vec(), DisplacedContent::Keep);
    apply(store, vec![step]).unwrap().revision.unwrap()
}

fn rename_step(from: &str, to: &str) -> Step {
    Step::Rename {
        from: node_path(from),
        to: node_path(to),
        replace: Replace::Overwrite,
        parents: Parents::Create,
        expect: Precondition::Any,
        protected: [None, None],
    }
}

fn remove_step(path: &str) -> Step {
    Step::Remove {
        at: node_path(path),
        subtree: Subtree::Any,
        expect: Precondition::Any,
        if_missing: IfMissing::Fail,
        protected: None,
        displaced: DisplacedContent::Keep,
    }
}

fn read(store: &dyn Store, path: &str) -> StoreResult<Vec<u8>> {
    store.read(&node_path(path), u64::MAX).map(|content| content.bytes)
}

fn names(store: &dyn Store, path: &str) -> Vec<String> {
    let listed = store.list(&node_path(path), &Page::ALL).unwrap();
    listed.entries.iter().map(|entry| entry.name.to_string()).collect()
}

fn open(path: &Path) -> Database {
    Database::open(path, DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() })
        .unwrap()
}

/// A number from the database, as an SQL shell would show it.
fn query_number(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn every_version_can_be_read_again() {
    let store = MemoryStore::new();
    let empty = store.latest_revision().unwrap();
    let first = write(&*store, "a/file", "one");
    let second = write(&*store, "a/file", "two");
    let moved = apply(&*store, vec![rename_step("a", "b/deep")]).unwrap().revision.unwrap();
    let removed = apply(&*store, vec![remove_step("b")]).unwrap().revision.unwrap();
    let rewritten = write(&*store, "a", "a file now");

    assert_eq!(names(&store.at(empty), ""), Vec::<String>::new());
    assert_eq!(read(&store.at(first), "a/file").unwrap(), b"one");
    assert_eq!(read(&store.at(second), "a/file").unwrap(), b"two");
    assert!(matches!(read(&store.at(second), "b/deep/file"), Err(StoreError::NotFound)));
    assert_eq!(read(&store.at(moved), "b/deep/file").unwrap(), b"two");
    assert!(matches!(read(&store.at(moved), "a/file"), Err(StoreError::NotFound)));
    assert_eq!(names(&store.at(removed), ""), Vec::<String>::new());
    assert_eq!(read(&store.at(rewritten), "a").unwrap(), b"a file now");

    // Also by node, wherever it was then.
    let node = store.at(first).stat(&node_path("a/file")).unwrap().node;
    assert_eq!(store.at(moved).read(&NodePath::of_node(node), 9).unwrap().bytes, b"two");
    assert!(matches!(store.at(removed).stat(&NodePath::of_node(node)), Err(StoreError::NotFound)));
}

#[test]
fn a_view_of_an_earlier_version_can_not_be_changed_and_does_not_change() {
    let store = MemoryStore::new();
    let revision = write(&*store, "d/f", "then");
    let view = store.at(revision);
    assert_eq!(read(&view, "d/f").unwrap(), b"then");
    let refused = apply(&view, vec![write_step("d/f", b"x".to_vec(), DisplacedContent::Keep)]);
    assert!(matches!(refused, Err(StoreError::Unsupported(_))));
    assert!(matches!(view.draft(DraftBase::Empty), Err(StoreError::Unsupported(_))));
    apply_one(&*store, rename_step("d", "e"));
    assert_eq!(read(&view, "d/f").unwrap(), b"then");
    assert_eq!(view.changes_since(Some(RevisionNumber(0)), 10).unwrap().cursor, revision);
}

#[test]
fn a_change_makes_one_version_and_a_change_without_effect_makes_none() {
    let store = MemoryStore::new();
    let step = |path| write_step(path, b"x".to_vec(), DisplacedContent::Keep);
    let revision = apply(&*store, vec![step("a/b"), step("a/c"), step("a/b"), remove_step("a/c")])
        .unwrap()
        .revision
        .unwrap();
    assert_eq!(revision, store.latest_revision().unwrap());
    let mkdir = Step::Mkdir { at: node_path("a"), parents: Parents::Create, mode: None };
    let attr = store.stat(&node_path("a/b")).unwrap();
    let same_mode = Step::SetAttr { at: node_path("a/b"), mode: Some(attr.mode), modified: None };
    assert_eq!(apply(&*store, vec![mkdir, same_mode]).unwrap().revision, None);
    assert_eq!(store.latest_revision().unwrap(), revision);
    // What came and went inside one change was never there.
    assert_eq!(names(&store.at(revision), "a"), ["b"]);
    assert_eq!(names(&store.at(RevisionNumber(revision.0 - 1)), ""), Vec::<String>::new());
}

#[test]
fn scratch_leaves_no_history() {
    let store = MemoryStore::new();
    let old = write(&*store, "target/out", "old");
    apply_one(&*store, write_step("target/out", b"new".to_vec(), DisplacedContent::Discard));
    assert!(matches!(read(&store.at(old), "target/out"), Err(StoreError::NotFound)));
    assert_eq!(read(&*store, "target/out").unwrap(), b"new");
}

#[test]
fn namespaces_never_see_each_other() {
    let database = Database::in_memory();
    let stores = [vec!["a"], vec!["a", "b"], vec!["a/b"]].map(|namespace| database.store(namespace).unwrap());
    for (index, store) in stores.iter().enumerate() {
        write(store, "b/f", index.to_string());
    }
    let node = stores[0].stat(&node_path("b/f")).unwrap().node;
    for (index, store) in stores.iter().enumerate() {
        assert_eq!(read(store, "b/f").unwrap(), index.to_string().as_bytes());
        assert_eq!(store.changes_since(Some(RevisionNumber(0)), 100).unwrap().changes.len(), 2);
        assert_eq!(store.stat(&NodePath::of_node(node)).is_ok(), index == 0);
    }
    assert!(matches!(database.store::<&str>([]), Err(StoreError::Invalid(_))));
    assert!(matches!(database.store(["a", ""]), Err(StoreError::Invalid(_))));
    assert_eq!(read(&database.store(["a"]).unwrap(), "b/f").unwrap(), b"0");
}

#[test]
fn people_can_query_files_by_namespace_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let database = open(&path);
    write(&database.store(["workspaces", "coder"]).unwrap(), "project/docs/api.md", "hello");
    write(&database.store(["workspaces"]).unwrap(), "x", "");
    let conn = Connection::open(&path).unwrap();
    let mut rows = conn.prepare("SELECT namespace, key, size FROM file ORDER BY key").unwrap();
    let rows: Vec<(String, String, i64)> = rows
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let expected = [(r#"["workspaces","coder"]"#, "project/docs/api.md", 5), (r#"["workspaces"]"#, "x", 0)];
    assert_eq!(rows, expected.map(|(namespace, key, size)| (namespace.to_owned(), key.to_owned(), size)));
}

#[test]
fn the_queries_in_the_documentation_work() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    drop(open(&path));
    let page = include_str!("../../../docs/format.md");
    let (_, queries) = page.split_once("```sql\n").unwrap();
    let (queries, _) = queries.split_once("```").unwrap();
    let conn = Connection::open(&path).unwrap();
    assert_eq!(queries.matches("\n\n").count(), 7);
    for query in queries.split("\n\n") {
        conn.prepare(query).unwrap();
    }
}

#[test]
fn equal_content_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let database = open(&path);
    let (first_store, second_store) = (database.store(["a"]).unwrap(), database.store(["b"]).unwrap());
    let large: Vec<u8> = (0..3 * CHUNK + 5).map(|index| (index / 1_000) as u8).collect();
    for name in ["x", "y"] {
        for store in [&first_store, &second_store] {
            write(store, name, "the same");
            write(store, &format!("{name}-large"), &large);
        }
    }
    let copy = Step::Copy {
        from: node_path("x-large"),
        to: node_path("z"),
        replace: Replace::Refuse,
        parents: Parents::Create,
        protected: None,
        displaced: DisplacedContent::Keep,
    };
    apply_one(&first_store, copy);
    assert_eq!(read(&first_store, "z").unwrap(), large);
    // The small file, and four chunks with their list.
    assert_eq!(query_number(&path, "SELECT count(*) FROM content"), 6);
    assert_eq!(database.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
}

#[test]
fn only_the_changed_chunks_of_a_large_file_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let store = open(&path).store(["a"]).unwrap();
    let mut large = vec![0; 5 * CHUNK + 100];
    fastrand::Rng::with_seed(3).fill(&mut large);
    write(&store, "f", &large);
    let chunks = || query_number(&path, "SELECT count(*) FROM content WHERE data IS NOT NULL");
    let before = chunks();

    let append = Step::Append {
        at: node_path("f"),
        content: Content::Bytes(b"tail".to_vec()),
        options: PutOptions::default(),
    };
    let appended = apply_one(&store, append).attr.unwrap();
    large.extend_from_slice(b"tail");
    assert_eq!(chunks(), before + 1);

    let by_node = NodePath::of_node(appended.node);
    let mut draft = store.draft(DraftBase::File(&by_node)).unwrap();
    draft.write_at(2 * CHUNK as u64 + 7, b"patch").unwrap();
    large[2 * CHUNK + 7..][..5].copy_from_slice(b"patch");
    let content = Content::Sealed(draft.seal().unwrap());
    let outcome = apply_one(&store, Step::Write { at: by_node, content, options: PutOptions::default() });
    assert_eq!((outcome.attr.unwrap().node, outcome.created), (appended.node, false));
    assert_eq!(chunks(), before + 2);
    assert_eq!(read(&store, "f").unwrap(), large);
}

#[test]
fn the_content_of_a_draft_is_pinned_while_the_draft_exists_and_not_after() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let store = open(&path).store(["a"]).unwrap();
    let pins = || query_number(&path, "SELECT count(*) FROM pin");
    let mut dropped = store.draft(DraftBase::Empty).unwrap();
    let mut used = store.draft(DraftBase::Empty).unwrap();
    for index in 0..6 {
        dropped.write_at(index * CHUNK as u64, &[index as u8; CHUNK]).unwrap();
        used.write_at(index * CHUNK as u64, &[index as u8 + 10; CHUNK]).unwrap();
    }
    assert!(pins() >= 8);
    drop(dropped);
    apply_one(&store, write_step("f", Content::Sealed(used.seal().unwrap()), DisplacedContent::Keep));
    drop(used);
    // The next change removes the pins of both.
    write(&store, "g", "");
    assert_eq!(pins(), 0);
    let unused = store.verify(&mut |_| ()).unwrap().unreferenced;
    assert!(unused >= 4 * CHUNK as u64, "{unused}");
}

#[test]
fn zeros_take_no_space() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let store = open(&path).store(["a"]).unwrap();
    let mut draft = store.draft(DraftBase::Empty).unwrap();
    draft.set_size(1 << 30).unwrap();
    draft.write_at((1 << 29) + 1, b"middle").unwrap();
    apply_one(&store, write_step("sparse", Content::Sealed(draft.seal().unwrap()), DisplacedContent::Keep));
    assert_eq!(query_number(&path, "SELECT count(*) FROM content WHERE data IS NOT NULL"), 2);
    let file = store.open(&node_path("sparse"), OpenPurpose::Read).unwrap();
    let mut buffer = [9; 8];
    assert_eq!(file.read_at(1 << 29, &mut buffer).unwrap(), 8);
    assert_eq!(&buffer, b"\0middle\0");
    assert!(matches!(store.read(&node_path("sparse"), 1 << 20), Err(StoreError::TooLarge { .. })));
    let mut endless = store.draft(DraftBase::Empty).unwrap();
    assert!(matches!(endless.set_size(u64::MAX), Err(StoreError::TooLarge { .. })));
}

/// Two databases on one file share nothing but the file, like two processes.
#[test]
fn another_process_sees_directories_move() {
    let dir = tempfile::tempdir().unwrap();
    let [first_store, second_store] = [(); 2].map(|()| open(&dir.path().join("db")).store(["a"]).unwrap());
    write(&first_store, "a/b/f", "first");
    assert_eq!(read(&second_store, "a/b/f").unwrap(), b"first");
    for round in 0..20 {
        let (mover, reader) =
            if round % 2 == 0 { (&first_store, &second_store) } else { (&second_store, &first_store) };
        apply_one(mover, rename_step("a/b", "a/c"));
        write(mover, "a/b/f", format!("new {round}"));
        assert_eq!(read(reader, "a/b/f").unwrap(), format!("new {round}").as_bytes());
        assert!(reader.stat(&node_path("a/c/f")).is_ok());
        // A writer with an outdated cache writes to where the path leads now.
        write(reader, "a/b/g", "beside");
        assert_eq!(names(mover, "a/b"), ["f", "g"]);
        apply_one(mover, remove_step("a/c"));
        assert!(matches!(reader.stat(&node_path("a/c/f")), Err(StoreError::NotFound)));
    }
    assert_eq!(first_store.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
}

/// Like two processes, each with a volume of its own.
#[test]
fn concurrent_random_runs_agree_with_the_model_at_every_version() {
    let dir = tempfile::tempdir().unwrap();
    let run = |seed: u64| {
        let store = Arc::new(open(&dir.path().join("db")).store([seed.to_string()]).unwrap());
        let mut trees = BTreeMap::new();
        model_run(Arc::clone(&store) as Arc<dyn Store>, seed, 150, |model| {
            trees.insert(store.latest_revision().unwrap(), model.clone());
        });
        for (revision, model) in trees {
            assert_eq!(snapshot_of(&store.at(revision)), model, "seed {seed}, version {revision}");
        }
    };
    thread::scope(|scope| {
        for seed in [7, 8] {
            let run = &run;
            scope.spawn(move || run(seed));
        }
    });
}

#[test]
fn a_cached_directory_is_not_used_after_a_change_was_rolled_back() {
    let store = MemoryStore::new();
    write(&*store, "d/f", "x");
    // Creates `new/dir`, then fails: the directory that would have been cached never existed.
    let failing =
        vec![write_step("new/dir/f", b"x".to_vec(), DisplacedContent::Keep), remove_step("missing")];
    assert!(matches!(apply(&*store, failing), Err(StoreError::NotFound)));
    assert!(matches!(store.stat(&node_path("new/dir")), Err(StoreError::NotFound)));
    write(&*store, "new/dir/g", "y");
    assert_eq!(names(&*store, "new/dir"), ["g"]);
    // Moves `d` away, then fails: it is still there.
    assert!(apply(&*store, vec![rename_step("d", "e"), remove_step("missing")]).is_err());
    assert_eq!(read(&*store, "d/f").unwrap(), b"x");
}

#[test]
fn many_changes_are_committed_together_and_a_failure_affects_only_its_own_change() {
    let dir = tempfile::tempdir().unwrap();
    let databases = [(); 2].map(|()| open(&dir.path().join("db")));
    let stores = databases.each_ref().map(|database| database.store(["a"]).unwrap());
    write(&stores[0], "taken", "");
    let threads = 64;
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (store, barrier) = (&stores[thread % 2], &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..20 {
                    write(store, &format!("d{}/t{thread}-{round}", round % 3), thread.to_string());
                    let exclusive = PutOptions { expect: Precondition::Absent, ..PutOptions::default() };
                    let content = Content::Bytes(Vec::new());
                    let refused = apply(
                        store,
                        vec![Step::Write { at: node_path("taken"), content, options: exclusive }],
                    );
                    assert!(matches!(refused, Err(StoreError::AlreadyExists)));
                }
            });
        }
    });
    let total: usize = (0..3).map(|index| names(&stores[0], &format!("d{index}")).len()).sum();
    assert_eq!(total, threads * 20);
    let feed = stores[1].changes_since(Some(RevisionNumber(0)), usize::MAX).unwrap();
    // Each change is a revision of its own, although they were committed together.
    let revisions: HashSet<_> = feed.changes.iter().map(|change| change.revision).collect();
    assert_eq!(revisions.len(), threads * 20 + 1);
    assert_eq!(databases[0].verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_database_is_created_once_however_many_threads_open_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let barrier = Barrier::new(16);
    thread::scope(|scope| {
        for index in 0..16 {
            let (path, barrier) = (&path, &barrier);
            scope.spawn(move || {
                barrier.wait();
                write(&open(path).store(["shared"]).unwrap(), &format!("f{index}"), "x");
            });
        }
    });
    assert_eq!(names(&open(&path).store(["shared"]).unwrap(), "").len(), 16);
    assert_eq!(query_number(&path, "SELECT count(*) FROM volume"), 1);
}

#[test]
fn acknowledged_changes_are_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let open = || Database::open(&path, DatabaseOptions::default()).unwrap().store(["a"]).unwrap();
    let revision = write(&open(), "d/f", "kept");
    let store = open();
    assert_eq!(read(&store, "d/f").unwrap(), b"kept");
    assert_eq!(store.latest_revision().unwrap(), revision);
    assert!(write(&store, "d/g", "new") > revision);
    let recorded = query_number(
        &path,
        "SELECT count(*) FROM revision WHERE agent = 'coder' AND thread = 't1' AND tool = 'test'",
    );
    assert_eq!(recorded, 2);
}

#[test]
fn a_newer_or_foreign_database_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret-name.db");
    write(&open(&path).store(["a"]).unwrap(), "f", "x");
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let refused = Database::open(&path, DatabaseOptions::default()).unwrap_err();
    assert!(matches!(&refused, StoreError::Unsupported(reason) if reason.contains("newer")), "{refused:?}");

    let foreign = dir.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    assert!(matches!(Database::open(&foreign, DatabaseOptions::default()), Err(StoreError::Invalid(_))));
    assert_eq!(query_number(&foreign, "SELECT count(*) FROM sqlite_schema"), 1);

    let text = dir.path().join("text");
    std::fs::write(&text, "no database at all, but long enough to have a header ".repeat(100)).unwrap();
    assert!(matches!(Database::open(&text, DatabaseOptions::default()), Err(StoreError::Corrupt(_))));

    let missing = dir.path().join("missing/secret-name.db");
    let refused = Database::open(missing, DatabaseOptions::default()).unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains("secret-name"), "{refused:?}");
}

#[test]
fn a_lock_of_another_program_is_the_error_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let options = DatabaseOptions { wait_timeout: Duration::from_millis(50), ..DatabaseOptions::default() };
    let store = Database::open(&path, options).unwrap().store(["a"]).unwrap();
    let other_connection = Connection::open(&path).unwrap();
    other_connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = apply(&store, vec![write_step("f", b"x".to_vec(), DisplacedContent::Keep)]).unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable { .. }));
    assert!(!refused.to_string().contains("locked"), "{refused}");
    other_connection.execute_batch("ROLLBACK").unwrap();
    write(&store, "f", "x");
}

#[test]
fn the_feed_returns_complete_versions() {
    let store = MemoryStore::new();
    let start = store.changes_since(None, 10).unwrap().cursor;
    let step = |path| write_step(path, b"x".to_vec(), DisplacedContent::Keep);
    let first = apply(&*store, vec![step("a"), step("b")]).unwrap().revision.unwrap();
    let second = apply(&*store, vec![step("c"), step("d"), step("e")]).unwrap().revision.unwrap();
    let read_feed = |cursor, limit| {
        let feed = store.changes_since(Some(cursor), limit).unwrap();
        (feed.changes.len(), feed.cursor, feed.more)
    };
    assert_eq!(read_feed(start, 2), (2, first, true));
    assert_eq!(read_feed(start, 4), (2, first, true));
    assert_eq!(read_feed(start, 1), (2, first, true));
    assert_eq!(read_feed(first, 1), (3, second, false));
    assert_eq!(read_feed(start, 5), (5, second, false));
    assert_eq!(read_feed(second, 5), (0, second, false));

    apply_one(&*store, remove_step("a"));
    apply(&*store, vec![step("d1/d2/f")]).unwrap();
    let before = store.latest_revision().unwrap();
    apply_one(&*store, remove_step("d1"));
    let kinds: Vec<_> = store.changes_since(Some(before), 10).unwrap().changes;
    let kinds: Vec<_> = kinds.iter().map(|change| (change.kind, &*change.name)).collect();
    let removed = ChangeKind::Removed;
    assert_eq!(kinds, [(removed, &b"f"[..]), (removed, b"d2"), (removed, b"d1")]);
}

#[test]
fn verify_finds_what_is_wrong() {
    let damage = |sql: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let store = open(&path).store(["a"]).unwrap();
        write(&store, "d/small", "small");
        write(&store, "d/small", "smaller");
        write(&store, "d/large", vec![7; 2 * CHUNK + 1]);
        assert_eq!(store.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
        assert!(Connection::open(&path).unwrap().execute(sql, []).unwrap() > 0, "{sql}");
        let problems = store.verify(&mut |_| ()).unwrap().problems;
        assert!(!problems.is_empty(), "{sql}");
    };
    damage("UPDATE content SET data = x'0000000000' WHERE size = 5");
    damage("UPDATE content SET key = key + 1 WHERE size = 7");
    damage("DELETE FROM content WHERE size = 7");
    damage("DELETE FROM content WHERE size = 5");
    damage("DELETE FROM content WHERE size = 1");
    damage("UPDATE content SET parts = '[1,1,1]' WHERE parts IS NOT NULL");
    damage("DELETE FROM entry WHERE name = CAST('d' AS BLOB)");
    damage("DELETE FROM entry WHERE parent = 0");
    damage("UPDATE entry SET size = size + 1 WHERE name = CAST('small' AS BLOB)");
    damage("UPDATE entry_history SET until = until + 1");
    damage("UPDATE entry SET since = 1000 WHERE name = CAST('d' AS BLOB)");
    damage("UPDATE meta SET value = 1 WHERE name = 'next_node'");
}

#[test]
fn a_visitor_may_call_the_store() {
    for store in [(*MemoryStore::new()).clone(), Database::in_memory().store(["x"]).unwrap()] {
        check_visitors(&store);
    }
}

fn check_visitors(store: &VirtualStore) {
    use std::ops::ControlFlow;
    use stead_core::glob::PathGlobs;
    use stead_core::search::{Grep, GrepQuery, WalkOptions};

    for index in 0..10 {
        write(store, &format!("d/f{index}"), format!("needle {index}"));
    }
    let mut visited = 0;
    store
        .walk(&NodePath::root(), &WalkOptions::default(), &mut |entry| {
            visited += 1;
            assert_eq!(store.stat(&NodePath::from_root(entry.path)).unwrap().node, entry.attr.node);
            write(store, &format!("seen/{visited}"), "x");
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(visited, 11);
    let grep = Grep::new(&GrepQuery::new("needle"), None, PathGlobs::none()).unwrap();
    let mut hits = 0;
    store
        .grep(&NodePath::root(), &grep, &mut |entry| {
            hits += 1;
            apply_one(store, remove_step(entry.path.as_str().unwrap()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((hits, names(store, "d").len()), (10, 0));
}

#[test]
fn destroying_a_volume_removes_its_history_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("db"), DatabaseOptions::default()).unwrap();
    let (destroyed, remaining) = (database.store(["gone"]).unwrap(), database.store(["kept"]).unwrap());
    let revision = write(&destroyed, "dir/file", "1");
    write(&destroyed, "dir/file", "2");
    write(&remaining, "dir/file", "1");
    let still_open = destroyed.clone();
    destroyed.destroy().unwrap();
    assert!(matches!(still_open.read(&node_path("dir/file"), 9), Err(StoreError::NotFound)));
    assert!(matches!(still_open.at(revision).read(&node_path("dir/file"), 9), Err(StoreError::NotFound)));
    assert_eq!(remaining.read(&node_path("dir/file"), 9).unwrap().bytes, b"1");
    assert_eq!(remaining.verify(&mut |_| ()).unwrap().problems, [""; 0]);
    let new_store = database.store(["gone"]).unwrap();
    assert!(snapshot_of(&new_store).is_empty());
    write(&new_store, "dir/file", "3");
    assert_eq!(new_store.read(&node_path("dir/file"), 9).unwrap().bytes, b"3");
}

#[test]
fn an_earlier_version_is_a_read_only_store() {
    let store = MemoryStore::new();
    let revision = write(&store, "file", "1");
    write(&store, "file", "2");
    let store_then = store.as_of(revision).unwrap();
    assert_eq!(store_then.read(&node_path("file"), 9).unwrap().bytes, b"1");
    assert!(matches!(apply(&*store_then, vec![remove_step("file")]), Err(StoreError::Unsupported(_))));
    assert!(matches!(store.as_of(RevisionNumber(99)), Err(StoreError::NotFound)));
    assert!(matches!(store.as_of(RevisionNumber(-1)), Err(StoreError::NotFound)));
}

#[test]
fn a_database_behind_a_symlink_has_its_files_beside_the_database_only() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (directory.path().join("real/db"), directory.path().join("link"));
    std::fs::create_dir(real.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("real/db", &link).unwrap();
    let by_link = Database::open(&link, DatabaseOptions::default()).unwrap();
    let by_name = Database::open(&real, DatabaseOptions::default()).unwrap();
    for database in [&by_link, &by_name] {
        let write = write_step("x", b"1".to_vec(), DisplacedContent::Keep);
        apply(&database.store(["a"]).unwrap(), vec![write]).unwrap();
    }
    let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["link", "real"]);
}
