//! A stead over several databases: no Store is ever shown, compared, restored or ordered by another one's numbers.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use stead::store::{RevisionId, StoreRevisions};
use stead::vfs::{DiffOptions, LogQuery, PointInTime, RestoreOptions};
use stead::{
    AccessScope, Clock, Database, DatabaseOptions, ErrorKind, MemoryStore, PhysicalOptions, PhysicalStore,
    Stead, SystemClock,
};

const PREFIXES: [&str; 4] = ["/notes", "/more", "/second", "/memory"];

struct World {
    _host: tempfile::TempDir,
    stead: Stead,
}

fn database(host: &Path, name: &str) -> Database {
    Database::open(host.join(name), DatabaseOptions::default()).unwrap()
}

/// `/notes` and `/more` in the stead's database, `/second` in another one, `/memory`, and `/disk` with a ledger of its
/// own. Every Store has had enough changes that a number of any Store exists in every other one.
fn world() -> World {
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir(host.path().join("disk")).unwrap();
    let (first, second) = (database(host.path(), "first.db"), database(host.path(), "second.db"));
    let disk = PhysicalStore::open(host.path().join("disk"), PhysicalOptions::new(host.path().join("state")));
    let stead = Stead::builder("coder")
        .database(&first)
        .workspace("/notes", AccessScope::ReadWrite, Arc::new(first.store(["notes"]).unwrap()))
        .workspace("/more", AccessScope::ReadWrite, Arc::new(first.store(["more"]).unwrap()))
        .workspace("/second", AccessScope::ReadWrite, Arc::new(second.store(["notes"]).unwrap()))
        .workspace("/memory", AccessScope::ReadWrite, Arc::new(MemoryStore::new()))
        .workspace("/disk", AccessScope::ReadWrite, Arc::new(disk.unwrap()))
        .build()
        .unwrap();
    for _ in 0..8 {
        write(&stead, "before");
    }
    World { _host: host, stead }
}

/// Writes `a` everywhere, and returns the revision in `/notes`.
fn write(stead: &Stead, content: &str) -> RevisionId {
    for prefix in PREFIXES.into_iter().skip(1).chain(["/disk"]) {
        stead.vfs().write(format!("{prefix}/a"), content).unwrap();
    }
    stead.vfs().write("/notes/a", content).unwrap().revision.unwrap()
}

fn read(stead: &Stead, prefix: &str) -> Result<String, String> {
    let read = stead.vfs().read(format!("{prefix}/a"));
    read.map(|read| String::from_utf8(read.bytes).unwrap()).map_err(|error| error.to_string())
}

#[test]
fn a_revision_shows_the_stores_of_its_database_and_no_other() {
    let World { stead, .. } = &world();
    let then = write(stead, "then");
    write(stead, "now");
    let set: StoreRevisions = stead.vfs().store_revisions(then);
    assert_eq!(set.iter().count(), 2);
    assert!(set.iter().all(|one| one.number == then.number));
    for past in [stead.as_of(then), stead.as_of(set), stead.as_of_text("/more", &then.number.to_string())] {
        let past = past.unwrap();
        for prefix in ["/notes", "/more"] {
            assert_eq!(read(&past, prefix).unwrap(), "then", "{prefix}");
        }
        for prefix in ["/second", "/memory", "/disk"] {
            let refused = read(&past, prefix).unwrap_err();
            assert!(refused.contains("its own version numbers"), "{prefix}: {refused}");
        }
    }
    // A set may name a revision of each Store, whatever the databases are.
    let all: StoreRevisions = PREFIXES
        .map(|prefix| stead.vfs().revision_at(prefix, PointInTime::Now).unwrap())
        .into_iter()
        .collect();
    write(stead, "later");
    let past = stead.as_of(all).unwrap();
    for prefix in PREFIXES {
        assert_eq!(read(&past, prefix).unwrap(), "now", "{prefix}");
    }
}

#[test]
fn a_revision_of_a_store_that_no_workspace_is_on_is_not_in_the_history() {
    let World { stead, .. } = &world();
    let foreign = world().stead.vfs().revision_at("/notes", PointInTime::Now).unwrap();
    let vfs = stead.vfs();
    for error in [
        vfs.as_of(foreign).map(drop).unwrap_err(),
        vfs.diff("/", foreign, PointInTime::Now, DiffOptions::default()).map(drop).unwrap_err(),
        vfs.restore("/", foreign, &RestoreOptions::default()).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

#[test]
fn diff_and_restore_leave_stores_of_other_databases_alone() {
    let World { stead, .. } = &world();
    let then = write(stead, "then\n");
    write(stead, "now\n");
    let vfs = stead.vfs();
    let differing = vfs.diff("/", then, PointInTime::Now, DiffOptions::default()).unwrap();
    let paths: Vec<_> = differing.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["/more/a", "/notes/a"]);
    for prefix in ["/second", "/memory", "/disk"] {
        let refused = vfs.diff(prefix, then, PointInTime::Now, DiffOptions::default()).unwrap_err();
        assert!(refused.to_string().contains("its own version numbers"), "{refused}");
        let refused = vfs.restore(prefix, then, &RestoreOptions::default()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    let restored = vfs.restore("/", then, &RestoreOptions::default()).unwrap();
    let left_out: Vec<_> = restored.left_out.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(left_out, ["/disk", "/memory", "/second"]);
    for prefix in PREFIXES {
        let expected = if ["/notes", "/more"].contains(&prefix) { "then\n" } else { "now\n" };
        assert_eq!(read(stead, prefix).unwrap(), expected, "{prefix}");
    }
}

#[test]
fn a_time_is_the_same_in_every_store() {
    let World { stead, .. } = &world();
    write(stead, "then\n");
    let between = SystemClock.now();
    while SystemClock.now() == between {
        std::hint::spin_loop();
    }
    write(stead, "now\n");
    let vfs = stead.vfs();
    let differing = vfs.diff("/", between, PointInTime::Now, DiffOptions::default()).unwrap();
    assert_eq!(differing.len(), 5, "{differing:?}");
    assert!(vfs.restore("/", between, &RestoreOptions::default()).unwrap().left_out.is_empty());
    for prefix in PREFIXES.into_iter().chain(["/disk"]) {
        assert_eq!(read(stead, prefix).unwrap(), "then\n", "{prefix}");
    }
}

#[test]
fn a_log_entry_names_the_store_of_its_revision() {
    let World { stead, .. } = &world();
    write(stead, "now");
    let vfs = stead.vfs();
    for entry in vfs.log(&LogQuery::default()).unwrap() {
        let workspace = vfs.router().route(&entry.changes[0].path).unwrap().workspace;
        assert_eq!(entry.revision.store, workspace.mount().store().id(), "{entry:?}");
    }
}

#[test]
fn a_snapshot_is_a_set_of_the_stores_of_its_database() {
    let World { stead, .. } = &world();
    write(stead, "then");
    // What it would have to copy into another database can't be part of it.
    let refused = stead.snapshot(None, Some("draft")).unwrap_err();
    assert!(refused.to_string().contains("in another database"), "{refused}");
    let snapshot = stead.snapshot(Some("/notes"), Some("draft")).unwrap();
    write(stead, "now");
    let included = stead.snapshot_revisions(&snapshot).unwrap();
    assert_eq!(included.iter().count(), 2);
    let past = stead.as_of_text("/notes", "draft").unwrap();
    for prefix in ["/notes", "/more"] {
        assert_eq!(read(&past, prefix).unwrap(), "then", "{prefix}");
    }
    for prefix in ["/second", "/memory", "/disk"] {
        let refused = read(&past, prefix).unwrap_err();
        assert!(refused.contains("its own version numbers"), "{prefix}: {refused}");
        let refused = stead.vfs().restore(prefix, included.clone(), &RestoreOptions::default()).unwrap_err();
        assert!(refused.to_string().contains("its own version numbers"), "{refused}");
    }
}
