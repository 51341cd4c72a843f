//! The audit in a database: what it contains, how tampering is found, and what remains of it outside the database.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use stead_core::store::StoreInfo;
use stead_core::vfs::{Overwrite, RemoveOptions, UndoOptions, UndoTarget};
use stead_core::{
    AccessScope, AuditFacts, AuditLog, Clock, FactName, Identity, Mount, Store, SystemClock, Timestamp, Vfs,
    VfsPath, Workspace,
};
use stead_stores::{
    ArchiveLookup, Audit, AuditAccess, AuditEntry, AuditQuery, AuditVerified, Database, DatabaseOptions,
    MemoryStore, verify_archive,
};

/// A database with its audit, in a directory of its own.
struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Fixture { directory: tempfile::tempdir().unwrap() }
    }

    fn database_file(&self) -> PathBuf {
        self.directory.path().join("db")
    }

    fn audit_directory(&self) -> PathBuf {
        self.directory.path().join("audit")
    }

    fn database(&self) -> Database {
        Database::open(self.database_file(), DatabaseOptions::default()).unwrap()
    }

    /// A `Vfs` with `/notes` in the database, `/memory` elsewhere, and `/read`, which may only be read.
    fn vfs(&self) -> Vfs {
        self.vfs_as(Identity::agent("coder").with_thread("t1"))
    }

    fn vfs_as(&self, identity: Identity) -> Vfs {
        let database = self.database();
        let audit = Audit::open(&database, &self.audit_directory()).unwrap();
        let notes: Arc<dyn Store> = Arc::new(database.store(["notes"]).unwrap());
        let workspace = |prefix: &str, scope, store: &Arc<dyn Store>| {
            Workspace::new(VfsPath::parse(prefix).unwrap(), scope, Mount::new(Arc::clone(store)))
        };
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Vfs::builder(identity)
            .workspace(workspace("/notes", AccessScope::ReadWrite, &notes))
            .workspace(workspace("/read", AccessScope::ReadOnly, &notes))
            .workspace(workspace("/memory", AccessScope::ReadWrite, &memory))
            .audit(audit)
            .build()
            .unwrap()
    }

    /// Makes a few calls of each kind, and ends the instance that made them.
    fn fill(&self) {
        let vfs = self.vfs();
        for number in 0..5 {
            vfs.write(&*format!("/notes/{number}"), "text").unwrap();
            vfs.read(&*format!("/read/{number}")).unwrap();
        }
        vfs.write("/read/0", "no").unwrap_err();
    }

    fn access(&self) -> AuditAccess {
        AuditAccess::open(&self.database(), &self.audit_directory()).unwrap()
    }

    fn verify(&self) -> AuditVerified {
        self.access().verify(&ArchiveLookup::default(), &mut |_| ()).unwrap()
    }

    /// The only problem. Fails if there are more or none.
    fn problem(&self) -> String {
        let problems = self.verify().problems;
        assert_eq!(problems.len(), 1, "{problems:#?}");
        problems[0].clone()
    }

    /// Does what an intruder can do who can write the database and nothing else.
    fn tamper(&self, sql: &str) {
        let conn = Connection::open(self.database_file()).unwrap();
        let drop_triggers = "DROP TRIGGER IF EXISTS audit_no_update; DROP TRIGGER IF EXISTS audit_no_delete;";
        conn.execute_batch(drop_triggers).unwrap();
        conn.execute_batch(sql).unwrap();
    }

    /// Replaces the byte `offset` bytes after the start of `text` in the record at this position, in the database's file.
    fn damage_record(&self, seq: i64, text: &str, offset: usize, byte: u8) {
        let conn = Connection::open(self.database_file()).unwrap();
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        drop(conn);
        let mut bytes = std::fs::read(self.database_file()).unwrap();
        let find = |bytes: &[u8], text: &str, start: usize| {
            let found = bytes[start..].windows(text.len()).position(|window| window == text.as_bytes());
            found.map(|found| start + found)
        };
        let mut start = 0;
        while let Some(record) = find(&bytes, &format!("\"seq\":{seq},\"at\""), start) {
            let place = find(&bytes, text, record).unwrap();
            bytes[place + offset] = byte;
            start = place;
        }
        assert!(start > 0, "there is no such record");
        std::fs::write(self.database_file(), bytes).unwrap();
    }

    fn entries(&self) -> Vec<AuditEntry> {
        entries_matching(&self.access(), &AuditQuery::default())
    }
}

/// All entries that a query finds, oldest first.
fn entries_matching(access: &AuditAccess, query: &AuditQuery) -> Vec<AuditEntry> {
    let mut entries = Vec::new();
    let visit = &mut |entry: &AuditEntry| {
        entries.push(entry.clone());
        ControlFlow::Continue(())
    };
    assert_eq!(access.each(query, visit).unwrap(), [""; 0]);
    entries
}

/// All entries that a query finds, newest first by when each call began.
fn entries_newest_first(access: &AuditAccess, query: &AuditQuery) -> Vec<AuditEntry> {
    let mut entries = entries_matching(access, query);
    entries.sort_by(|left, right| (&right.at, right.id).cmp(&(&left.at, left.id)));
    entries
}

fn call_texts(entries: &[AuditEntry]) -> Vec<String> {
    entries
        .iter()
        .map(|entry| format!("{} {} {}", entry.call, entry.paths.join(","), entry.outcome))
        .collect()
}

#[test]
fn calls_through_a_vfs_are_recorded_in_the_database() {
    let fixture = Fixture::new();
    let vfs = fixture.vfs();
    let written = vfs.operation("write_file").write("/notes/a", "secret text").unwrap();
    vfs.read("/read/a").unwrap();
    vfs.write("/memory/b", "1").unwrap();
    vfs.rename("/notes/a", "/memory/c", Overwrite::Refuse).unwrap();
    vfs.remove_file("/notes/none", RemoveOptions::default()).unwrap_err();
    drop(vfs);
    let entries = fixture.entries();
    let mut recorded = call_texts(&entries);
    // A Memory Store is gone with its process, so the record that a change began there is stored only until it has
    // ended.
    recorded.retain(|call| call != "write /memory/b begun");
    recorded.sort();
    let mut expected = [
        "write_file /notes/a ok",
        "read /read/a ok",
        "write /memory/b ok",
        "move /notes/a,/memory/c begun",
        "move /notes/a,/memory/c ok",
        "remove /notes/none failed",
    ];
    expected.sort_unstable();
    assert_eq!(recorded, expected);
    let write = entries.iter().find(|entry| entry.call == "write_file").unwrap();
    assert_eq!(write.version, written.revision.map(|revision| revision.number.0));
    assert_eq!(write.operation, Some(written.operation));
    assert_eq!((&*write.agent, write.thread.as_deref(), write.bytes), ("coder", Some("t1"), Some(11)));
    for entry in &entries {
        assert!(!entry.body.contains("secret"), "{}", entry.body);
        assert!(!entry.body.contains(fixture.directory.path().to_str().unwrap()), "{}", entry.body);
    }
    let verified = fixture.verify();
    assert_eq!(verified.problems, [""; 0]);
    assert_eq!((verified.records, verified.instances, verified.unsigned), (entries.len() as u64, 1, 0));
}

#[test]
fn a_change_that_fails_leaves_no_gap_in_the_chain() {
    let fixture = Fixture::new();
    let vfs = fixture.vfs();
    let barrier = std::sync::Barrier::new(8);
    thread::scope(|scope| {
        for caller in 0..8 {
            let (vfs, barrier) = (&vfs, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..50 {
                    // Half of them fail, in batches with others that succeed.
                    let path = format!("/notes/{caller}/{round}");
                    let below_file = format!("/notes/{caller}/{round}/below");
                    vfs.write(&*path, "1").unwrap();
                    vfs.write(&*below_file, "1").unwrap_err();
                }
            });
        }
    });
    drop(vfs);
    let verified = fixture.verify();
    assert_eq!(verified.problems, [""; 0]);
    assert_eq!(verified.records, 8 * 50 * 2);
}

#[test]
fn facts_are_found_archived_and_verified() {
    let fixture = Fixture::new();
    let vfs = fixture.vfs();
    let fact = |name: &str| name.parse::<FactName>().unwrap();
    let facts = AuditFacts::default().with(fact("folder.id"), "f-1 \"x\"").unwrap();
    let facts = facts.with(fact("exit"), 7).unwrap().with(fact("ask"), true).unwrap();
    let inside = vfs.with_facts(facts.clone());
    inside.write("/notes/a", "1").unwrap();
    inside.read("/read/a").unwrap();
    vfs.with_facts(AuditFacts::default().with(fact("exit"), "70").unwrap()).read("/read/a").unwrap();
    vfs.read("/read/a").unwrap();
    drop((vfs, inside));
    let found = |name: &str, value: &str| {
        let query = AuditQuery { facts: vec![(fact(name), value.to_owned())], ..AuditQuery::default() };
        entries_matching(&fixture.access(), &query).into_iter().filter(|entry| entry.facts == facts).count()
    };
    let counts = [("folder.id", "f-1 \"x\""), ("exit", "7"), ("ask", "true"), ("exit", "70"), ("other", "7")];
    assert_eq!(counts.map(|(name, value)| found(name, value)), [2, 2, 2, 0, 0]);
    let to = fixture.directory.path().join("archive");
    let archived = fixture.access().archive(Timestamp(i64::MAX), &to).unwrap();
    let file = to.join(archived.file.unwrap());
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("\\\"exit\\\":7,").count() + text.matches("\"exit\":7,").count(), 2);
    assert_eq!(verify_archive(&file).unwrap().0.problems, [""; 0]);
    let fixture = Fixture::new();
    fixture.vfs().with_facts(facts).write("/notes/a", "1").unwrap();
    assert_eq!(fixture.verify().problems, [""; 0]);
    fixture.tamper("UPDATE audit SET body = replace(body, '\"exit\":7', '\"exit\":8')");
    fixture.problem();
}

#[test]
fn one_changed_byte_is_found() {
    let fixture = Fixture::new();
    fixture.fill();
    assert_eq!(fixture.verify().problems, [""; 0]);
    let entry = fixture.entries().into_iter().find(|entry| entry.seq == 4).unwrap();
    fixture.tamper(
        "UPDATE audit SET body = replace(body, '\"agent\":\"coder\"', '\"agent\":\"codes\"') WHERE seq = 4",
    );
    let problem = fixture.problem();
    let name = format!("record 4 of instance {} ({}, {})", entry.instance, entry.at, entry.call);
    assert_eq!(problem, format!("{name}, or the record before it, was changed"));
}

#[test]
fn a_record_that_is_no_longer_valid_json_is_found_and_hides_no_other() {
    for (text, offset, byte) in [
        ("\"operation\"", 0, b'x'),
        ("\"agent\"", 7, b'"'),
        ("\"at\"", 1, b'b'),
        ("\"coder\"", 3, 0xff),
        ("\"outcome\"", 0, 0),
    ] {
        let fixture = Fixture::new();
        fixture.fill();
        let mut entries = fixture.entries();
        let index = entries.iter().position(|entry| entry.seq == 4).unwrap();
        let damaged = entries.remove(index);
        let name = format!("record 4 of instance {}", damaged.instance);
        fixture.damage_record(4, text, offset, byte);

        let problem = fixture.problem();
        assert!(problem.starts_with(&name) && problem.ends_with("was changed"), "{text}: {problem}");
        let access = fixture.access();
        let problems = [format!("{name} is damaged; run `stead audit verify`")];
        let mut visited = Vec::new();
        let visit = &mut |entry: &AuditEntry| {
            visited.push(entry.clone());
            ControlFlow::Continue(())
        };
        assert_eq!(access.each(&AuditQuery::default(), visit).unwrap(), problems);
        assert_eq!(visited, entries);
        let of_agent = AuditQuery { agent: Some("coder".into()), ..AuditQuery::default() };
        assert_eq!(access.page(&of_agent, None, 100).unwrap().entries.len(), entries.len());
        let (mut cursor, mut paged, mut paged_problems) = (None, Vec::new(), Vec::new());
        loop {
            let page = access.page(&AuditQuery::default(), cursor, 2).unwrap();
            paged.extend(page.entries);
            paged_problems.extend(page.problems);
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        paged.sort_by_key(|entry: &AuditEntry| entry.id);
        assert_eq!((paged, paged_problems), (entries.clone(), problems.to_vec()));
        let mut follower = access.follow(AuditQuery::default(), Some(0)).unwrap();
        assert_eq!(follower.wait_for_entries().unwrap(), entries);
        assert_eq!(follower.take_problems(), problems);
        let archive = fixture.directory.path().join("archive");
        let error = access.archive(Timestamp(i64::MAX), &archive).unwrap_err();
        assert!(error.to_string().contains("run `stead audit verify`"), "{error}");
        let report = fixture.database().verify(&mut |_| ()).unwrap();
        assert!(report.entries > 0, "the rest of the database is checked");
        for problem in report.problems {
            assert_eq!(problem, "a record of the audit is damaged; run `stead audit verify`");
        }
    }
}

#[test]
fn a_record_that_was_forged_with_all_records_after_it_is_found() {
    let fixture = Fixture::new();
    fixture.fill();
    // The intruder knows how the hashes are made, but has no key.
    let conn = Connection::open(fixture.database_file()).unwrap();
    conn.execute_batch("DROP TRIGGER audit_no_update").unwrap();
    let rows: Vec<(i64, String)> = conn
        .prepare("SELECT id, body FROM audit ORDER BY seq")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut previous_hash = [0; 32];
    for (id, body) in rows {
        let body = body.replace("/notes/2", "/notes/9");
        let hash =
            *blake3::Hasher::new().update(&previous_hash).update(body.as_bytes()).finalize().as_bytes();
        conn.execute("UPDATE audit SET body = ?2, hash = ?3 WHERE id = ?1", (id, &body, hash)).unwrap();
        conn.execute("UPDATE audit_instance SET hash = ?1", [hash]).unwrap();
        previous_hash = hash;
    }
    let problems = fixture.verify().problems;
    assert!(
        problems[0].contains("record 11 of") && problems[0].contains("differs from what was signed"),
        "{problems:?}"
    );
}

#[test]
fn a_removed_record_is_found() {
    let fixture = Fixture::new();
    fixture.fill();
    let instance = fixture.entries()[0].instance;
    fixture.tamper("DELETE FROM audit WHERE seq = 3");
    assert_eq!(fixture.problem(), format!("record 3 of instance {instance} is missing"));
    fixture.tamper("DELETE FROM audit WHERE seq IN (4, 5)");
    assert_eq!(fixture.problem(), format!("records 3 to 5 of instance {instance} are missing"));
}

#[test]
fn a_removed_end_is_found_by_the_head_outside_the_database() {
    let fixture = Fixture::new();
    fixture.fill();
    let instance = fixture.entries()[0].instance;
    // The intruder also removes everything in the database that refers to them.
    fixture.tamper(
        "DELETE FROM audit WHERE seq > 8; DELETE FROM audit_head;
         UPDATE audit_instance SET seq = 8, hash = (SELECT hash FROM audit WHERE seq = 8)",
    );
    let problem = fixture.problem();
    let expected = format!(
        "records 9 to 11 of instance {instance} are missing: record 11 was signed as the last one at "
    );
    assert!(problem.starts_with(&expected), "{problem}");
    fixture.tamper("DELETE FROM audit; DELETE FROM audit_instance");
    assert!(fixture.problem().starts_with(&format!("records 1 to 11 of instance {instance} are missing")));
}

#[test]
fn two_swapped_records_are_found() {
    let by_id = Fixture::new();
    by_id.fill();
    let entry = by_id.entries().into_iter().find(|entry| entry.seq == 5).unwrap();
    let name = format!("record 5 of instance {} ({}, {})", entry.instance, entry.at, entry.call);
    by_id.tamper(
        "CREATE TEMP TABLE two AS SELECT seq, id FROM audit WHERE seq IN (5, 6);
         UPDATE audit SET id = -seq WHERE seq IN (5, 6);
         UPDATE audit SET id = (SELECT id FROM two WHERE two.seq = 11 - audit.seq) WHERE seq IN (5, 6);",
    );
    // If the two were stored at different times, the other one is filed too early as well.
    let expected = format!("{name} was moved: it comes after record 6");
    assert!(by_id.verify().problems.contains(&expected), "{:?}", by_id.verify().problems);

    let by_content = Fixture::new();
    by_content.fill();
    by_content.tamper(
        "CREATE TEMP TABLE two AS SELECT seq, body FROM audit WHERE seq IN (5, 6);
         UPDATE audit SET body = (SELECT body FROM two WHERE two.seq = 11 - audit.seq) WHERE seq IN (5, 6);",
    );
    let problems = by_content.verify().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("record 5 of") && problems[0].ends_with("was replaced by record 6"));
    assert!(problems[1].starts_with("record 6 of") && problems[1].ends_with("was replaced by record 5"));
}

/// Queries by time would not find it any more.
#[test]
fn a_record_that_is_filed_under_another_time_is_found() {
    let fixture = Fixture::new();
    fixture.fill();
    fixture.tamper("UPDATE audit SET id = id - 864000000000");
    let problems = fixture.verify().problems;
    assert!(
        !problems.is_empty() && problems[0].ends_with("has an id that is earlier than its time"),
        "{problems:?}"
    );
}

#[test]
fn a_record_that_was_added_to_an_ended_instance_is_found() {
    let fixture = Fixture::new();
    fixture.fill();
    let body = fixture.entries()[10].body.replace("\"seq\":11,", "\"seq\":12,");
    let conn = Connection::open(fixture.database_file()).unwrap();
    let previous_hash: Vec<u8> =
        conn.query_row("SELECT hash FROM audit WHERE seq = 11", [], |row| row.get(0)).unwrap();
    let hash = *blake3::Hasher::new().update(&previous_hash).update(body.as_bytes()).finalize().as_bytes();
    let sql = "INSERT INTO audit(id, instance, seq, hash, body) SELECT max(id) + 1, instance, 12, ?1, ?2 FROM audit";
    conn.execute(sql, (hash, &body)).unwrap();
    assert!(fixture.problem().ends_with("was added after its instance had ended"));
}

#[test]
fn records_can_be_neither_updated_nor_deleted() {
    let fixture = Fixture::new();
    fixture.fill();
    let conn = Connection::open(fixture.database_file()).unwrap();
    for sql in ["UPDATE audit SET seq = 100 WHERE seq = 1", "DELETE FROM audit WHERE seq = 1"] {
        let refused = conn.execute(sql, []).unwrap_err().to_string();
        assert!(refused.contains("can only be added"), "{refused}");
    }
}

#[test]
fn records_are_found_by_their_fields() {
    let fixture = Fixture::new();
    let start = SystemClock.now();
    let vfs = fixture.vfs();
    for path in ["/notes/a", "/notes/a/b", "/notes/a-b", "/notes/ab", "/memory/c"] {
        vfs.exists(path).unwrap();
    }
    vfs.mkdir("/notes/dir", stead_core::store::Parents::Create).unwrap();
    vfs.write("/notes/dir/x", "1").unwrap();
    let copied = vfs.copy("/notes/dir/x", "/notes/copied", Overwrite::Refuse).unwrap();
    vfs.read("/elsewhere").unwrap_err();
    drop(vfs);
    drop(fixture.vfs_as(Identity::agent("other")).exists("/notes/a"));
    let access = fixture.access();
    let query = AuditQuery::default;
    let path = |text: &str| Some(VfsPath::parse(text).unwrap());
    let paths_found = |query: AuditQuery| {
        let page = access.page(&query, None, 100).unwrap();
        assert_eq!(page.cursor, None);
        assert_eq!(page.entries, entries_newest_first(&access, &query));
        let mut paths: Vec<_> = page.entries.iter().map(|entry| entry.paths.join(",")).collect();
        paths.sort();
        paths.join(" ")
    };
    assert_eq!(paths_found(AuditQuery { path: path("/notes/a"), ..query() }), "/notes/a /notes/a /notes/a/b");
    let copy = "/notes/dir/x,/notes/copied";
    assert_eq!(paths_found(AuditQuery { path: path("/notes/copied"), ..query() }), copy);
    // However few are asked for, they are the newest of all.
    let under_notes = AuditQuery { path: path("/notes"), ..query() };
    let all_under_notes = access.page(&under_notes, None, 100).unwrap().entries;
    for limit in 1..all_under_notes.len() {
        assert_eq!(access.page(&under_notes, None, limit).unwrap().entries, all_under_notes[..limit]);
    }
    assert_eq!(paths_found(AuditQuery { agent: Some("other".into()), ..query() }), "/notes/a");
    assert_eq!(paths_found(AuditQuery { thread: Some("t2".into()), ..query() }), "");
    assert_eq!(paths_found(AuditQuery { outcome: Some("denied".into()), ..query() }), "/elsewhere");
    assert_eq!(paths_found(AuditQuery { call: Some("write".into()), ..query() }), "/notes/dir/x");
    let operation = Some(copied.operation);
    assert_eq!(paths_found(AuditQuery { operation, ..query() }), copy);
    let total = entries_matching(&access, &query()).len();
    assert_eq!(paths_found(AuditQuery { since: Some(start), ..query() }).split(' ').count(), total);
    assert_eq!(paths_found(AuditQuery { until: Some(start), ..query() }), "");
    let later = Timestamp(SystemClock.now().0 + 1_000_000_000);
    assert_eq!(paths_found(AuditQuery { since: Some(later), ..query() }), "");
    assert_eq!(
        paths_found(AuditQuery { until: Some(later), path: path("/notes/ab"), ..query() }),
        "/notes/ab"
    );

    // A record that was stored long after its call began is found by when the call began.
    let sql = "INSERT INTO audit(id, instance, seq, hash, body)
        SELECT max(id) + 3600000000, instance, seq, hash, body FROM audit WHERE path = '/notes/ab'";
    Connection::open(fixture.database_file()).unwrap().execute(sql, []).unwrap();
    let page = access.page(&AuditQuery { until: Some(later), ..query() }, None, 100).unwrap();
    assert_eq!(page.entries.len(), total + 1);
    assert_eq!(page.entries.iter().filter(|entry| entry.paths == ["/notes/ab"]).count(), 2);

    // Page by page, newest first, no entry twice and none missing.
    let (mut cursor, mut pages) = (None, Vec::new());
    loop {
        let page = access.page(&query(), cursor, 3).unwrap();
        pages.extend(page.entries);
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, entries_newest_first(&access, &query()));
}

#[test]
fn a_follower_gets_new_entries() {
    let fixture = Fixture::new();
    let vfs = fixture.vfs();
    vfs.exists("/notes/before").unwrap();
    let access = fixture.access();
    let query = AuditQuery { call: Some("list".into()), ..AuditQuery::default() };
    let mut follower = access.follow(query, None).unwrap();
    thread::scope(|scope| {
        let follower = scope.spawn(move || follower.wait_for_entries().unwrap());
        thread::sleep(std::time::Duration::from_millis(300));
        vfs.exists("/notes/after").unwrap();
        vfs.list("/notes", &stead_core::vfs::ListPage::all()).unwrap();
        assert_eq!(call_texts(&follower.join().unwrap()), ["list /notes ok"]);
    });
}

#[test]
fn a_follower_beside_writers_gets_every_entry_once() {
    const WRITERS: usize = 2;
    const WRITES: usize = 400;
    let fixture = Fixture::new();
    let vfs = fixture.vfs();
    let access = fixture.access();
    let mut follower = access.follow(AuditQuery::default(), None).unwrap();
    let mut ids = Vec::new();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let vfs = &vfs;
            scope.spawn(move || {
                for number in 0..WRITES {
                    vfs.write(&*format!("/notes/{writer}-{number}"), "text").unwrap();
                }
            });
        }
        while ids.len() < WRITERS * WRITES {
            ids.extend(follower.wait_for_entries().unwrap().iter().map(|entry| entry.id));
        }
    });
    assert!(ids.is_sorted_by(|earlier, later| earlier < later), "an entry came twice or too late");
    assert_eq!(ids, fixture.entries().iter().map(|entry| entry.id).collect::<Vec<_>>());
}

#[test]
fn an_archive_can_be_verified_alone_and_the_remaining_records_verify_too() {
    let fixture = Fixture::new();
    fixture.fill();
    fixture.fill();
    let cutoff = Timestamp(SystemClock.now().0 + 1);
    fixture.fill();
    let archive_directory = fixture.directory.path().join("archive");
    let archived = fixture.access().archive(cutoff, &archive_directory).unwrap();
    assert_eq!(archived.records, 22);
    let verified = fixture.verify();
    assert_eq!(verified.problems, [""; 0]);
    // An instance that has ended and is in archives as a whole is known to the archives only.
    assert_eq!((verified.records, verified.archived, verified.instances), (11, 22, 1));
    assert_eq!((verified.archives, verified.heads), (1, 1));
    let archive_file = archive_directory.join(archived.file.unwrap());
    let (verified_alone, keys) = verify_archive(&archive_file).unwrap();
    assert_eq!(verified_alone.problems, [""; 0]);
    assert_eq!(
        (verified_alone.records, verified_alone.instances, verified_alone.heads, keys.len()),
        (22, 2, 2, 1)
    );
    // Nothing is left to archive, so no file is written.
    assert_eq!(fixture.access().archive(cutoff, &archive_directory).unwrap().file, None);
    assert_every_change_of_an_archive_is_found(&archive_file);
    // The records that remain are still checked against the signed end.
    assert_eq!(fixture.verify().problems, [""; 0]);
    fixture.tamper("DELETE FROM audit WHERE seq = 11");
    assert!(fixture.problem().starts_with("record 11 of instance"));
}

/// A byte, a line, the end, the order: every change in the file is found.
fn assert_every_change_of_an_archive_is_found(archive_file: &Path) {
    let text = std::fs::read_to_string(archive_file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let problems = |lines: &[&str]| {
        std::fs::write(archive_file, lines.join("\n") + "\n").unwrap();
        verify_archive(archive_file).unwrap().0.problems
    };
    assert_eq!(problems(&lines), [""; 0]);
    let changed = lines[5].replace("coder", "codes");
    assert_eq!(problems(&[&lines[..5], &[&*changed], &lines[6..]].concat()).len(), 1);
    assert!(problems(&[&lines[..5], &lines[6..]].concat())[0].ends_with("is missing"));
    assert!(problems(&lines[..lines.len() - 2])[0].contains("are missing: record 11 was signed"));
    assert!(!problems(&[&lines[..5], &[lines[6], lines[5]], &lines[7..]].concat()).is_empty());
    assert_eq!(problems(&lines), [""; 0]);
}

#[test]
fn a_chain_continues_after_a_part_of_it_was_archived() {
    let fixture = Fixture::new();
    let vfs = fixture.vfs();
    vfs.write("/notes/a", "1").unwrap();
    // A head is signed about once a second.
    thread::sleep(std::time::Duration::from_millis(2_300));
    let archived = fixture.access().archive(SystemClock.now(), &fixture.directory.path().join("to")).unwrap();
    assert_eq!(archived.records, 1);
    vfs.write("/notes/b", "1").unwrap();
    assert_eq!(fixture.verify().problems, [""; 0]);
    drop(vfs);
    let archived = fixture.access().archive(SystemClock.now(), &fixture.directory.path().join("to")).unwrap();
    assert_eq!(archived.records, 1);
    let verified = fixture.verify();
    assert_eq!(verified.problems, [""; 0]);
    assert_eq!((verified.records, verified.archived), (0, 2));
}

#[test]
fn a_log_is_open_once_and_a_store_of_another_database_is_not_part_of_it() {
    let fixture = Fixture::new();
    let database = fixture.database();
    let audit = Audit::open(&database, &fixture.audit_directory()).unwrap();
    assert!(Audit::open(&database, &fixture.audit_directory()).is_err());
    let (store, again) = (database.store(["a"]).unwrap(), fixture.database().store(["a"]).unwrap());
    assert_eq!((store.info().database, store.info().commits_audit), (Some(audit.database()), true));
    assert_eq!(again.info(), StoreInfo { commits_audit: false, ..store.info() }, "it has no log open");
    assert_ne!(Database::in_memory().store(["a"]).unwrap().info().database, store.info().database);
    drop(audit);
    assert!(!store.info().commits_audit);
    // An instance in which nothing happened leaves nothing behind.
    assert_eq!(std::fs::read_dir(fixture.audit_directory().join("running")).unwrap().count(), 0);
    assert_eq!(fixture.verify().instances, 0);
}

#[test]
fn only_its_owner_can_read_the_key() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    fixture.fill();
    let mode =
        |name: &str| fixture.audit_directory().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("key"), mode("heads"), mode("running")), (0o600, 0o600, 0o700));
    let key = std::fs::read_to_string(fixture.audit_directory().join("key")).unwrap();
    let database = std::fs::read(fixture.database_file()).unwrap();
    assert!(!database.windows(16).any(|window| key.as_bytes().starts_with(window)));
    // A head that another key has signed counts for nothing, and the missing key is reported.
    let public = fixture.access().key().unwrap().unwrap();
    std::fs::remove_file(fixture.audit_directory().join("key")).unwrap();
    fixture.fill();
    let verified = fixture.verify();
    let missing_key = format!("the key {public}, which signed a chain here, isn't in the audit's directory");
    assert_eq!((verified.foreign, verified.problems), (1, vec![missing_key.clone()]));
    let archived = fixture.access().archive(SystemClock.now(), &fixture.directory.path().join("to")).unwrap();
    let verified = fixture.verify();
    assert_eq!((archived.records, verified.records, verified.problems), (11, 11, vec![missing_key]));
}

#[test]
fn several_instances_write_at_once_and_all_records_are_stored() {
    let fixture = Fixture::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let vfs = fixture.vfs();
                for number in 0..100 {
                    vfs.write(&*format!("/notes/{}", number % 7), "1").ok();
                    vfs.exists("/notes").unwrap();
                }
            });
        }
    });
    let verified = fixture.verify();
    assert_eq!(verified.problems, [""; 0]);
    assert_eq!((verified.records, verified.instances), (800, 4));
}

#[test]
fn a_missing_or_replaced_archive_is_found() {
    let fixture = Fixture::new();
    fixture.fill();
    let archive_directory = fixture.directory.path().join("to");
    let archive_name = fixture.access().archive(SystemClock.now(), &archive_directory).unwrap().file.unwrap();
    fixture.fill();
    assert_eq!(fixture.verify().problems, [""; 0]);

    let moved_to = fixture.directory.path().join("elsewhere");
    std::fs::create_dir(&moved_to).unwrap();
    std::fs::rename(archive_directory.join(&archive_name), moved_to.join(&archive_name)).unwrap();
    let problem = fixture.problem();
    let expected = format!("the archive {archive_name} with 11 records, written at ");
    assert!(
        problem.starts_with(&expected) && problem.contains("isn't in the directory that it was written to"),
        "{problem}"
    );
    let verify_with = |archives: ArchiveLookup| fixture.access().verify(&archives, &mut |_| ()).unwrap();
    let verified = verify_with(ArchiveLookup::In(vec![moved_to.clone()]));
    assert_eq!((verified.problems.len(), verified.archives), (0, 1), "{verified:?}");
    let trusted = verify_with(ArchiveLookup::Skip);
    assert_eq!((trusted.problems.len(), trusted.archives, trusted.archived), (0, 0, 11));

    // Another complete archive under its name: the hash shows it.
    let other_fixture = Fixture::new();
    other_fixture.fill();
    let other_file =
        other_fixture.access().archive(SystemClock.now(), &archive_directory).unwrap().file.unwrap();
    std::fs::rename(archive_directory.join(other_file), archive_directory.join(&archive_name)).unwrap();
    assert_eq!(fixture.problem(), format!("{archive_name}: it differs from the file that was written"));
}

#[test]
fn a_damaged_line_of_the_heads_stays_when_heads_are_removed() {
    let fixture = Fixture::new();
    fixture.fill();
    let heads = fixture.audit_directory().join("heads");
    let damaged = std::fs::read_to_string(&heads).unwrap().trim().replace("\"seq\":", "\"seg\":");
    std::fs::write(&heads, format!("{damaged}\n")).unwrap();
    fixture.fill();
    let access = fixture.access();
    assert_eq!(access.archive(SystemClock.now(), &fixture.directory.path().join("to")).unwrap().records, 22);
    let remaining = std::fs::read_to_string(&heads).unwrap();
    assert!(
        remaining.lines().any(|line| line == damaged),
        "the damaged head has to stay as evidence: {remaining}"
    );
}

#[test]
fn an_archive_that_was_interrupted_before_its_line_in_heads_gets_that_line_later() {
    let fixture = Fixture::new();
    fixture.fill();
    let archive_directory = fixture.directory.path().join("to");
    let archive_name = fixture.access().archive(SystemClock.now(), &archive_directory).unwrap().file.unwrap();
    let heads = fixture.audit_directory().join("heads");
    let mentions = |text: &str| text.lines().filter(|line| line.contains(&archive_name)).count();
    let text = std::fs::read_to_string(&heads).unwrap();
    assert_eq!(mentions(&text), 1);
    // As after a power cut between the commit and the line in `heads`.
    let without_archive: String =
        text.lines().filter(|line| !line.contains(&archive_name)).map(|line| format!("{line}\n")).collect();
    std::fs::write(&heads, without_archive).unwrap();
    assert_eq!(fixture.access().archive(SystemClock.now(), &archive_directory).unwrap().file, None);
    assert_eq!(mentions(&std::fs::read_to_string(&heads).unwrap()), 1);
    assert_eq!(fixture.access().archive(SystemClock.now(), &archive_directory).unwrap().file, None);
    assert_eq!(
        mentions(&std::fs::read_to_string(&heads).unwrap()),
        1,
        "the heads have to mention the archive once"
    );
    fixture.tamper("DELETE FROM audit_archive");
    let problem = fixture.verify().problems[0].clone();
    assert!(
        problem.contains(&archive_name) && problem.contains("missing or different in the database"),
        "{problem}"
    );
}

#[test]
fn records_that_are_wrongly_marked_as_archived_are_found() {
    let fixture = Fixture::new();
    fixture.fill();
    let instance = fixture.entries()[0].instance;
    fixture.tamper(
        "INSERT INTO audit_segment SELECT id, 1, 11, 'nowhere.jsonl' FROM audit_instance; DELETE FROM audit;",
    );
    let expected = format!(
        "the database says that records 1 to 11 of instance {instance} are in the archive nowhere.jsonl, but they aren't"
    );
    assert_eq!(fixture.problem(), expected);
}

#[test]
fn a_missing_table_is_reported() {
    for table in ["audit", "audit_instance", "audit_head", "audit_segment", "audit_archive", "audit_filter"] {
        let fixture = Fixture::new();
        fixture.fill();
        fixture.tamper(&format!("DROP TABLE {table}"));
        let problems = fixture.verify().problems;
        assert_eq!(problems[0], format!("the table {table} is missing, with its rows"));
    }
}

/// Writes enough records for a few path filters, of two agents.
fn write_filtered_records(fixture: &Fixture) {
    for agent in ["one", "two"] {
        let vfs = fixture.vfs_as(Identity::agent(agent));
        for number in 0..2_500 {
            vfs.exists(&*format!("/notes/{agent}/{}/x", number / 100)).unwrap();
        }
        vfs.read(&*format!("/{agent}")).unwrap_err();
    }
}

fn filter_count(fixture: &Fixture) -> i64 {
    let conn = Connection::open(fixture.database_file()).unwrap();
    conn.query_row("SELECT count(*) FROM audit_filter", [], |row| row.get(0)).unwrap()
}

#[test]
fn queries_find_the_same_with_and_without_path_filters() {
    let fixture = Fixture::new();
    write_filtered_records(&fixture);
    // The newest filter isn't made if the log last looked before there were enough records for it.
    let count = filter_count(&fixture);
    assert!((3..=4).contains(&count), "{count}");
    assert_eq!(fixture.verify().problems, [""; 0]);
    let access = fixture.access();
    let all_entries = entries_matching(&access, &AuditQuery::default());
    let middle = all_entries[3_000].at().unwrap();
    let query = AuditQuery::default;
    let path = |text: &str| Some(VfsPath::parse(text).unwrap());
    let queries = [
        AuditQuery { agent: Some("one".into()), ..query() },
        AuditQuery { agent: Some("none".into()), ..query() },
        AuditQuery { path: path("/notes/two/7"), ..query() },
        AuditQuery { path: path("/notes/two"), until: Some(middle), ..query() },
        AuditQuery { path: path("/notes/one/3"), since: Some(middle), ..query() },
        AuditQuery { outcome: Some("denied".into()), ..query() },
        AuditQuery { call: Some("exists".into()), since: Some(middle), ..query() },
        AuditQuery { until: Some(middle), ..query() },
    ];
    let entries_found = |query: &AuditQuery| {
        let newest_first = access.page(query, None, 10_000).unwrap().entries;
        let (mut cursor, mut pages) = (None, Vec::new());
        loop {
            let page = access.page(query, cursor, 700).unwrap();
            pages.extend(page.entries);
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(pages, newest_first);
        assert_eq!(newest_first, entries_newest_first(&access, query));
        newest_first
    };
    let with_filters: Vec<_> = queries.iter().map(entries_found).collect();
    let counts: Vec<_> = with_filters.iter().map(Vec::len).collect();
    assert_eq!(counts[..3], [2_501, 0, 100]);
    assert_eq!(counts[4..6], [0, 2]);
    fixture.tamper("DELETE FROM audit_filter WHERE rowid IN (SELECT first FROM audit_filter ORDER BY first LIMIT 1 OFFSET 1)");
    assert_eq!(queries.iter().map(entries_found).collect::<Vec<_>>(), with_filters);
    fixture.tamper("DELETE FROM audit_filter");
    assert_eq!(queries.iter().map(entries_found).collect::<Vec<_>>(), with_filters);
}

/// Otherwise an intruder who can write the database could hide records from queries without changing them.
#[test]
fn a_path_filter_that_hides_a_record_is_found() {
    let fixture = Fixture::new();
    write_filtered_records(&fixture);
    fixture.tamper("UPDATE audit_filter SET bits = zeroblob(length(bits)) WHERE first = (SELECT min(first) FROM audit_filter)");
    let problems = fixture.verify().problems;
    assert!(problems[0].ends_with("is hidden from queries by a wrong search filter"), "{problems:?}");
    fixture.tamper("DELETE FROM audit_filter WHERE first = (SELECT min(first) FROM audit_filter)");
    assert_eq!(fixture.verify().problems, [""; 0]);
    fixture.tamper("UPDATE audit_filter SET oldest = 9223372036854775807");
    assert!(!fixture.verify().problems.is_empty());
}

#[test]
fn archiving_removes_the_path_filters() {
    let fixture = Fixture::new();
    write_filtered_records(&fixture);
    fixture.access().archive(SystemClock.now(), &fixture.directory.path().join("to")).unwrap();
    assert_eq!(filter_count(&fixture), 0);
    fixture.fill();
    assert_eq!(fixture.verify().problems, [""; 0]);
    assert_eq!(fixture.entries().len(), 11);
    let heads = std::fs::read_to_string(fixture.audit_directory().join("heads")).unwrap();
    assert_eq!(heads.lines().filter(|line| line.contains("signature")).count(), 1);
    assert_eq!(heads.lines().filter(|line| line.contains("\"archive\"")).count(), 1);
}

#[test]
fn an_undo_with_a_conflict_is_recorded_as_failed_and_so_is_its_dry_run() {
    let fixture = Fixture::new();
    let vfs = fixture.vfs();
    let operation = vfs.write("/notes/a", "mine").unwrap().operation;
    fixture.vfs_as(Identity::agent("other")).write("/notes/a", "theirs").unwrap();
    let undo = |options| vfs.undo(UndoTarget::Operation(operation), options).unwrap();
    assert!(!undo(UndoOptions::default()).done);
    assert!(!undo(UndoOptions { dry_run: true, ..UndoOptions::default() }).done);
    drop(vfs);
    let query = AuditQuery { call: Some("undo".to_owned()), ..AuditQuery::default() };
    let entries = entries_matching(&fixture.access(), &query);
    assert_eq!(call_texts(&entries), ["undo /notes/a failed", "undo /notes/a failed"]);
    assert_eq!(entries.iter().map(|entry| entry.dry_run).collect::<Vec<_>>(), [false, true]);
    for entry in entries {
        assert_eq!(entry.code.as_deref(), Some("conflict"), "{}", entry.body);
    }
}

/// A running process has recorded outside the database how far its chain has come: no signature is needed.
#[test]
fn removing_the_end_of_a_chain_that_still_grows_is_found() {
    let fixture = Fixture::new();
    let vfs = fixture.vfs();
    (0..5).for_each(|number| drop(vfs.write(&*format!("/notes/{number}"), "1").unwrap()));
    fixture.tamper(
        "DELETE FROM audit WHERE seq > 3; DELETE FROM audit_head WHERE seq > 3;
         UPDATE audit_instance SET seq = 3, hash = (SELECT hash FROM audit WHERE seq = 3)",
    );
    assert!(fixture.problem().starts_with("records 4 to 5 of instance "), "{}", fixture.problem());
    vfs.write("/notes/more", "1").unwrap();
    assert!(fixture.problem().starts_with("records 4 to 5 of instance "), "{}", fixture.problem());
    drop(vfs);
    assert!(fixture.problem().starts_with("records 4 to 5 of instance "), "{}", fixture.problem());
}

#[test]
fn a_version_is_compared_with_its_record_even_if_the_record_is_archived() {
    let fixture = Fixture::new();
    fixture.fill();
    let archive_directory = fixture.directory.path().join("to");
    fixture.access().archive(SystemClock.now(), &archive_directory).unwrap();
    assert_eq!(fixture.verify().problems, [""; 0]);
    fixture.tamper("UPDATE revision SET agent = 'mallory', team = 'red' WHERE id = 3");
    let problem = fixture.problem();
    let expected_end = "its version 3 has other values in the database: agent, team";
    assert!(problem.starts_with("audit-") && problem.ends_with(expected_end), "{problem}");
}

#[test]
fn a_record_is_found_by_the_path_after_symlinks() {
    let fixture = Fixture::new();
    let vfs = fixture.vfs();
    vfs.symlink("/notes/link", "/memory").unwrap();
    vfs.write("/notes/link/x", "1").unwrap();
    drop(vfs);
    let path = Some(VfsPath::parse("/memory/x").unwrap());
    let query = AuditQuery { path, outcome: Some("ok".to_owned()), ..AuditQuery::default() };
    assert_eq!(
        call_texts(&entries_matching(&fixture.access(), &query)),
        ["write /notes/link/x,/memory/x ok"]
    );
}
