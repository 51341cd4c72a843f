//! The authors that the log and blame show are checked against the audit's records.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use stead_core::vfs::Overwrite;
use stead_core::{
    AccessScope, Clock, Identity, Mount, Store, SystemClock, Timestamp, Vfs, VfsPath, Workspace,
};
use stead_stores::database::{GcOptions, Retention};
use stead_stores::{
    ArchiveLookup, Audit, AuditAccess, Database, DatabaseOptions, PhysicalOptions, PhysicalStore,
};

/// A database with its audit, and a directory whose ledger is in it.
struct Fixture {
    directory: tempfile::TempDir,
}

/// Whether what is done is recorded in the audit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recorded {
    Yes,
    No,
}

impl Fixture {
    /// Two agents have written into both Stores in turn. Each makes three versions, and version 4 is `bob`'s.
    fn new() -> Self {
        let fixture = Fixture { directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(fixture.path("site")).unwrap();
        for round in 0..2 {
            for agent in ["ann", "bob"] {
                fixture.write(agent, &format!("{agent}{round}"), Recorded::Yes);
            }
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn database(&self) -> Database {
        Database::open(self.path("db"), DatabaseOptions::default()).unwrap()
    }

    /// Writes a file into each Store.
    fn write(&self, agent: &str, name: &str, recorded: Recorded) {
        let database = self.database();
        let audit = (recorded == Recorded::Yes).then(|| Audit::open(&database, &self.path("audit")).unwrap());
        let notes: Arc<dyn Store> = Arc::new(database.store(["notes"]).unwrap());
        let options = PhysicalOptions { ledger: database.into(), ..PhysicalOptions::new(self.path("state")) };
        let site: Arc<dyn Store> = Arc::new(PhysicalStore::open(self.path("site"), options).unwrap());
        let workspace = |prefix: &str, store: &Arc<dyn Store>| {
            let prefix = VfsPath::parse(prefix).unwrap();
            Workspace::new(prefix, AccessScope::ReadWrite, Mount::new(Arc::clone(store)))
        };
        let vfs = Vfs::builder(Identity::agent(agent))
            .workspace(workspace("/notes", &notes))
            .workspace(workspace("/site", &site));
        let vfs = match audit {
            Some(audit) => vfs.audit(audit),
            None => vfs,
        };
        let vfs = vfs.build().unwrap();
        vfs.write(&*format!("/notes/{name}"), name).unwrap();
        vfs.write(&*format!("/site/{name}"), name).unwrap();
        vfs.rename(&*format!("/notes/{name}"), &*format!("/notes/{name}-moved"), Overwrite::Refuse).unwrap();
    }

    fn problems(&self) -> Vec<String> {
        let access = AuditAccess::open(&self.database(), &self.path("audit")).unwrap();
        access.verify(&ArchiveLookup::In(Vec::new()), &mut |_| {}).unwrap().problems
    }

    fn tamper(&self, sql: &str) {
        let conn = Connection::open(self.path("db")).unwrap();
        conn.execute_batch(sql).unwrap();
    }

    fn query_number(&self, sql: &str) -> i64 {
        Connection::open(self.path("db")).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn forget_history(&self, recorded: Recorded) {
        let database = self.database();
        let _audit =
            (recorded == Recorded::Yes).then(|| Audit::open(&database, &self.path("audit")).unwrap());
        let (now, retention) = (SystemClock.now(), Retention { age: Duration::ZERO, ..Retention::default() });
        let now = Timestamp(now.0 + 1);
        database.forget(retention, now, &mut |_| {}).unwrap();
        database.gc(GcOptions { grace: Duration::ZERO, vacuum: false }, now, &mut |_| {}).unwrap();
    }
}

#[track_caller]
fn assert_problem(fixture: &Fixture, expected: &str) {
    let problems = fixture.problems();
    assert!(problems.iter().any(|problem| problem.contains(expected)), "{problems:?}");
}

#[test]
fn a_version_without_a_record_is_found() {
    let fixture = Fixture::new();
    assert_eq!(fixture.problems(), [""; 0]);
    fixture.tamper(
        "INSERT INTO revision SELECT 200, randomblob(16), 'ann', NULL, NULL, NULL, 'append', at FROM revision WHERE id = 4;
         UPDATE node_change SET revision = 200 WHERE revision = 4;
         UPDATE entry SET since = 200 WHERE since = 4;",
    );
    assert_problem(&fixture, "version 200 (agent `ann`, tool `append`) has no record");
    // What comes after it doesn't cover it up.
    fixture.write("ann", "later", Recorded::Yes);
    assert_problem(&fixture, "version 200 (agent `ann`, tool `append`) has no record");
}

#[test]
fn a_version_inserted_between_others_is_found_even_if_the_count_is_changed_with_it() {
    let fixture = Fixture::new();
    fixture.tamper("DELETE FROM revision WHERE id = 4; DELETE FROM node_change WHERE revision = 4;");
    fixture.tamper(
        "INSERT INTO revision SELECT 4, randomblob(16), 'ann', NULL, NULL, NULL, 'write', at FROM revision WHERE id = 1;
         INSERT INTO node_change SELECT volume, 4, seq, kind, node, parent, name FROM node_change WHERE revision = 1;
         UPDATE meta SET value = value + 1 WHERE name = 'unaudited';",
    );
    assert_ne!(fixture.problems(), [""; 0]);
}

#[test]
fn changes_moved_to_the_version_of_another_agent_are_found() {
    for table in ["node_change", "ledger_event"] {
        let fixture = Fixture::new();
        let first_revision_of = |agent: &str| {
            fixture.query_number(&format!(
                "SELECT min(id) FROM revision WHERE agent = '{agent}' AND id IN (SELECT revision FROM {table})"
            ))
        };
        let (ann, bob) = (first_revision_of("ann"), first_revision_of("bob"));
        fixture
            .tamper(&format!("UPDATE {table} SET revision = {bob}, seq = seq + 100 WHERE revision = {ann}"));
        assert_problem(&fixture, &format!("the changes of its version {bob} differ from the record"));
    }
}

#[test]
fn history_that_was_removed_without_a_gc_is_found() {
    let fixture = Fixture::new();
    fixture.tamper(
        "UPDATE meta SET value = 4 WHERE name = 'history_from';
         DELETE FROM revision WHERE id < 4; DELETE FROM node_change WHERE revision < 4;",
    );
    assert_problem(&fixture, "history up to version 4 was removed, but there is no record of such a gc");
}

#[test]
fn regular_changes_gc_and_backups_are_no_problem() {
    let fixture = Fixture::new();
    let assert_no_problems = |context: &str| assert_eq!(fixture.problems(), [""; 0], "{context}");
    fixture.write("ann", "quiet", Recorded::No);
    assert_no_problems("a change while the audit was off");
    fixture.write("bob", "loud", Recorded::Yes);
    assert_no_problems("a change after that");
    fixture.forget_history(Recorded::Yes);
    assert_no_problems("gc");
    fixture.write("ann", "new", Recorded::Yes);
    fixture.forget_history(Recorded::No);
    assert_no_problems("gc while the audit was off");
    let backup = fixture.path("backup");
    fixture.database().backup(&backup, &mut |_| {}).unwrap();
    fixture.write("ann", "lost", Recorded::Yes);
    {
        let database = fixture.database();
        let audit = Audit::open(&database, &fixture.path("audit")).unwrap();
        database.restore_backup(&backup, &mut |_| {}).unwrap();
        audit.sign_restored_chains().unwrap();
    }
    let without_restores: Vec<_> =
        fixture.problems().into_iter().filter(|problem| !problem.contains("restored backup")).collect();
    assert_eq!(without_restores, [""; 0], "a restored backup");
    fixture.write("bob", "after", Recorded::Yes);
    fixture.write("bob", "after-quiet", Recorded::No);
    fixture.forget_history(Recorded::Yes);
    let without_restores: Vec<_> =
        fixture.problems().into_iter().filter(|problem| !problem.contains("restored backup")).collect();
    assert_eq!(without_restores, [""; 0], "after a restored backup");
}

#[test]
fn archived_records_account_for_their_versions_and_skipped_archives_are_not_checked() {
    let fixture = Fixture::new();
    let access = AuditAccess::open(&fixture.database(), &fixture.path("audit")).unwrap();
    access.archive(SystemClock.now(), &fixture.path("archive")).unwrap();
    assert_eq!(fixture.problems(), [""; 0], "an archive");
    fixture.write("ann", "later", Recorded::Yes);
    assert_eq!(fixture.problems(), [""; 0], "after an archive");
    std::fs::remove_dir_all(fixture.path("archive")).unwrap();
    let verified = access.verify(&ArchiveLookup::Skip, &mut |_| {}).unwrap();
    assert_eq!(verified.problems, [""; 0], "archives that are kept elsewhere");
}
