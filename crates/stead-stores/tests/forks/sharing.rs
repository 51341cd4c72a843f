//! What a fork shares with its base, what it doesn't share, and how it ends.

use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use stead_core::store::{Fork, Forks, History, Maintenance, Page, QuotaLimits, StorePath, Usage};
use stead_core::{ApprovalPolicy, Name, Store, StoreError, StoreResult, Timestamp, VfsPath};
use stead_stores::{Database, DatabaseOptions, VirtualStore};

use crate::{assert_sound, database, fork, names, node_path, read, remove, rename, write};

/// The record of an agent's fork.
pub(crate) fn fork_record(owner: &str, name: &str) -> Fork {
    Fork {
        owner: owner.into(),
        name: name.parse().unwrap(),
        created_by: "coder".into(),
        base_prefix: VfsPath::parse("/notes").unwrap(),
        path: VfsPath::parse("/").unwrap(),
        protect: vec!["*.lock".into()],
        hide: vec!["*.key".into(), "!a.key".into()],
        scratch: Vec::new(),
        quota: QuotaLimits { bytes: Some(10), files: None, file_bytes: Some(5) },
        approval_policy: ApprovalPolicy::Changes,
        excluded: vec![VfsPath::parse("/a/inner").unwrap()],
        created: Timestamp(7),
        pinned_at: None,
        lease: None,
        place: VfsPath::root(),
        scope: stead_core::AccessScope::ReadWrite,
        parts: Vec::new(),
        made_by: None,
    }
}

pub(crate) fn fork_for(base: &VirtualStore, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
    Forks::fork(base, Arc::new(base.clone()), fork)
}

#[test]
fn a_fork_shares_all_content_and_costs_one_row() {
    let (database, directory) = database();
    let base = database.store(["base"]).unwrap();
    for number in 0..100 {
        write(&base, &format!("d{}/{number}", number % 7), &number.to_string());
    }
    let count = |table: &str| -> i64 {
        let conn = Connection::open(directory.path().join("stead.db")).unwrap();
        conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let tables = ["volume", "entry", "entry_history", "revision", "node_change", "content"];
    let before = tables.map(count);
    let fork = fork(&base, "one");
    let after = tables.map(count);
    assert_eq!(after[0], before[0] + 1);
    assert_eq!(after[1..], before[1..]);
    // A written file needs one row. Its removal needs another one, for the directory, whose times change.
    write(&fork, "d0/0", "other");
    assert_eq!(count("entry"), before[1] + 1);
    remove(&fork, "d0/0");
    assert_eq!(count("entry"), before[1] + 2);
    assert_eq!(read(&base, "d0/0").unwrap(), "0");
}

#[test]
fn a_fork_and_its_base_do_not_see_each_others_changes() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "d/f", "1");
    write(&base, "d/e/g", "1");
    let fork = fork(&base, "one");
    let before: Vec<_> = ["", "d", "d/e", "d/f"].map(|path| fork.stat(&node_path(path)).unwrap()).into();
    write(&base, "d/new", "of the base");
    write(&base, "top", "of the base");
    write(&base, "d/e/h", "of the base");
    rename(&base, "d/e", "e");
    remove(&base, "d/f");
    // Not even the times of a directory reveal it.
    let after: Vec<_> = ["", "d", "d/e", "d/f"].map(|path| fork.stat(&node_path(path)).unwrap()).into();
    assert_eq!(after, before);
    let listed = fork.list(&node_path("d"), &Page::ALL).unwrap();
    assert_eq!(listed.entries[0].attr, before[2]);
    rename(&fork, "d", "moved");
    write(&fork, "moved/own", "of the fork");
    assert_eq!(names(&base, "d"), ["new"]);
    assert_eq!(
        (names(&fork, ""), names(&fork, "moved")),
        (vec!["moved".into()], vec!["e".into(), "f".into(), "own".to_owned()])
    );
    assert_sound(&base);
}

/// Also if the fork in between gets its row of the directory only then.
#[test]
fn a_fork_of_a_fork_keeps_the_times_of_directories() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "d/f", "1");
    let first = fork(&base, "one");
    write(&first, "own", "1");
    let second = fork(&first, "two");
    write(&second, "own", "2");
    let third = fork(&second, "three");
    let [of_second, of_third] = [&second, &third].map(|store| store.stat(&node_path("d")).unwrap());
    write(&base, "d/g", "1");
    write(&first, "d/h", "1");
    write(&first, "d/i", "1");
    assert_eq!(second.stat(&node_path("d")).unwrap(), of_second);
    write(&second, "d/j", "1");
    assert_eq!(third.stat(&node_path("d")).unwrap(), of_third);
    assert_eq!(names(&third, "d"), ["f"]);
}

#[test]
fn a_page_of_a_directory_counts_what_the_fork_shows() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    for name in ["a", "b", "c", "d"] {
        write(&base, name, "1");
    }
    let fork = fork(&base, "one");
    remove(&fork, "b");
    rename(&fork, "d", "b2");
    write(&fork, "e", "1");
    let page = Page { after: Name::new(*b"a"), limit: 2, ..Page::ALL };
    let listed = fork.list(&node_path(""), &page).unwrap();
    let names_found: Vec<_> = listed.entries.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!((names_found, listed.total, listed.more), (vec!["b2".into(), "c".to_owned()], 4, true));
}

#[test]
fn usage_counts_what_the_fork_shows() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "d/f", "12345");
    write(&base, "d/g", "123");
    let fork = fork(&base, "one");
    assert_eq!(fork.usage(&StorePath::empty()).unwrap(), Usage { bytes: 8, files: 2 });
    remove(&fork, "d/f");
    write(&fork, "d/h", "1");
    assert_eq!(fork.usage(&StorePath::from_checked("d")).unwrap(), Usage { bytes: 4, files: 2 });
    assert_eq!(base.usage(&StorePath::empty()).unwrap(), Usage { bytes: 8, files: 2 });
}

#[test]
fn a_fork_name_is_unique_and_the_forks_of_an_agent_are_listed() {
    let (database, directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "f", "1");
    let draft = fork_record("coder", "draft");
    fork_for(&base, &draft).unwrap();
    assert!(matches!(fork_for(&base, &draft), Err(StoreError::AlreadyExists)));
    let reviewers_draft = fork_record("reviewer", "draft");
    fork_for(&base, &reviewers_draft).unwrap();
    // Another process finds it.
    let reopened = Database::open(directory.path().join("stead.db"), DatabaseOptions::default()).unwrap();
    assert_eq!(reopened.forks("coder").unwrap(), std::slice::from_ref(&draft));
    assert_eq!(reopened.forks("nobody").unwrap(), []);
    let store = reopened.fork_store("coder", &draft.name).unwrap();
    write(&store, "f", "2");
    assert_eq!(read(&database.fork_store("coder", &draft.name).unwrap(), "f").unwrap(), "2");
    assert_eq!(read(&database.fork_store("reviewer", &draft.name).unwrap(), "f").unwrap(), "1");
    store.destroy().unwrap();
    assert_eq!(database.forks("coder").unwrap(), []);
    assert!(matches!(database.fork_store("coder", &draft.name), Err(StoreError::NotFound)));
    // The name is free again.
    fork_for(&base, &draft).unwrap();
}

#[test]
fn a_fork_knows_where_it_comes_from_and_is_not_mistaken_for_another_of_its_name() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "f", "1");
    let first = fork_for(&base, &fork_record("coder", "draft")).unwrap();
    let of_the_fork = Fork { created_by: "reviewer".into(), ..fork_record("coder", "second") };
    first.forks().unwrap().fork(Arc::clone(&first), &of_the_fork).unwrap();
    let records = database.fork_records("coder").unwrap();
    for record in &records {
        assert_eq!((record.origin.as_str(), &*record.namespace), ("coder", &["base".to_owned()][..]));
    }
    assert_eq!(read(&database.open_fork(&records[0]).unwrap(), "f").unwrap(), "1");
    first.maintenance().unwrap().destroy().unwrap();
    fork_for(&base, &fork_record("coder", "draft")).unwrap();
    assert!(matches!(database.open_fork(&records[0]), Err(StoreError::NotFound)));
    assert_eq!(database.fork_records("coder").unwrap()[1].origin, "coder");
}

#[test]
fn a_base_stays_while_there_are_forks_of_it() {
    for content in ["1", "2"] {
        let (database, _directory) = database();
        let base = database.store(["base"]).unwrap();
        write(&base, "f", "1");
        let first = fork(&base, "one");
        if content != "1" {
            write(&first, "f", content);
        }
        let second = fork(&first, "two");
        for store in [&base, &first] {
            let refused = store.destroy().unwrap_err();
            assert_eq!(refused.to_string(), "it has forks; discard them first");
        }
        assert_eq!(read(&second, "f").unwrap(), content);
        second.destroy().unwrap();
        first.destroy().unwrap();
        assert_eq!(read(&base, "f").unwrap(), "1");
        base.destroy().unwrap();
        assert!(matches!(base.fork_as(["three"]), Err(StoreError::NotFound)));
    }
}

/// A handle of a fork that is gone shows neither its base nor what has been made since.
#[test]
fn a_discarded_fork_shows_nothing() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "f", "1");
    let discarded = fork(&base, "one");
    let old_version = discarded.at(discarded.latest_revision().unwrap());
    database.store(["forks", "one"]).unwrap().destroy().unwrap();
    let next = fork(&base, "one");
    write(&next, "secret", "1");
    // `NotFound` would look like an empty directory to the door.
    let is_discarded = |result: Result<(), StoreError>| match result {
        Err(StoreError::Expired(text)) => text.starts_with("the fork has been discarded"),
        _ => false,
    };
    for store in [&discarded, &old_version] {
        for path in ["", "f", "secret"] {
            assert!(is_discarded(store.stat(&node_path(path)).map(drop)), "{path}");
        }
    }
    let refused = discarded.apply(crate::change(vec![crate::write_step(
        "f",
        "2",
        stead_core::store::DisplacedContent::Keep,
    )]));
    assert!(is_discarded(refused.map(drop)));
    assert_eq!(read(&base, "f").unwrap(), "1");
    assert_sound(&base);
}

#[test]
fn verify_finds_what_is_wrong_with_a_fork() {
    let damages = [
        "UPDATE entry SET parent = 999 WHERE CAST(name AS TEXT) = 'own'",
        "UPDATE entry SET name = CAST('other' AS BLOB) WHERE kind = 0",
        "UPDATE volume SET base = 999 WHERE base IS NOT NULL",
        "INSERT INTO usage SELECT id, root, 2, 2 FROM volume WHERE base IS NOT NULL",
        "INSERT INTO entry SELECT v.id, e.parent, CAST('x' AS BLOB), -77, 0, 0, 0, 0, 0, 0, NULL, e.since
         FROM entry e JOIN volume v ON v.id = e.volume AND v.base IS NULL WHERE CAST(name AS TEXT) = 'f'",
    ];
    for damage in damages {
        let (database, directory) = database();
        let base = database.store(["base"]).unwrap();
        write(&base, "f", "1");
        let fork = fork(&base, "one");
        write(&fork, "own", "1");
        remove(&fork, "f");
        assert_sound(&fork);
        Connection::open(directory.path().join("stead.db")).unwrap().execute_batch(damage).unwrap();
        assert!(!fork.verify(&mut |_| ()).unwrap().problems.is_empty(), "{damage}");
    }
}

#[test]
fn one_of_many_concurrent_forks_with_one_name_succeeds() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "f", "1");
    let results = thread::scope(|scope| {
        let forkers: Vec<_> = (0..8).map(|_| scope.spawn(|| base.fork_as(["wanted"]))).collect();
        forkers.into_iter().map(|forker| forker.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let refused = results.into_iter().filter_map(Result::err);
    assert!(refused.into_iter().all(|error| matches!(error, StoreError::AlreadyExists)));
}

/// Content that only the fork had is unreferenced afterwards; what it shared still belongs to the base.
#[test]
fn discarding_a_fork_frees_its_space() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "shared", &"s".repeat(1_000));
    let fork = fork(&base, "one");
    write(&fork, "own", &"o".repeat(500));
    write(&fork, "own", &"p".repeat(300));
    rename(&fork, "shared", "moved");
    let unreferenced = || base.verify(&mut |_| ()).unwrap().unreferenced;
    assert_eq!(unreferenced(), 0);
    fork.destroy().unwrap();
    assert_eq!(unreferenced(), 800);
    assert_eq!(read(&base, "shared").unwrap(), "s".repeat(1_000));
}
