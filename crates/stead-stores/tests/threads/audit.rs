//! Every step in the life of a thread has a record in the audit.

use std::sync::Arc;

use stead_stores::{ArchiveLookup, Audit, AuditAccess, Database, EndWhen, Ending, LeaseHolder};

use crate::{Bench, assert_sound, begun, enter, key, record, virtual_vfs};

fn calls(bench: &Bench) -> Vec<String> {
    let conn = rusqlite::Connection::open(bench.file()).unwrap();
    let sql =
        "SELECT call || ' ' || agent || '/' || thread FROM audit WHERE call LIKE 'thread.%' ORDER BY id";
    let mut statement = conn.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn with_audit(bench: &Bench) -> (Database, Arc<Audit>, Arc<LeaseHolder>) {
    let database = bench.database();
    let audit = Audit::open(&database, &bench.directory.path().join("audit")).unwrap();
    let holder = database.lease_holder(LeaseHolder::DEFAULT_TTL);
    (database, audit, holder)
}

#[test]
fn each_step_is_recorded_in_its_own_transaction() {
    let bench = Bench::new();
    let (database, audit, holder) = with_audit(&bench);
    let thread = enter(&holder, &key()).thread;
    virtual_vfs(&thread).write("/w/a", "123").unwrap();
    assert_eq!(calls(&bench), ["thread.create coder/t1"]);
    let _same = enter(&holder, &key());
    drop((thread, _same));
    holder.renew_all().unwrap();
    drop(enter(&holder, &key()));
    holder.close().unwrap();
    assert_eq!(
        calls(&bench)[1..],
        ["thread.idle coder/t1", "thread.resume coder/t1", "thread.idle coder/t1"].map(str::to_owned)
    );
    let removed = holder.finish_ending(begun(&holder, &key()), record(&key())).unwrap();
    assert_eq!(removed.files, 1);
    assert_eq!(calls(&bench)[4..], ["thread.destroy coder/t1".to_owned()]);
    let body = "SELECT body ->> '$.files' || ' ' || (body ->> '$.bytes') || ' ' || (body ->> '$.facts.volumes') FROM audit
                WHERE call = 'thread.destroy'";
    let conn = rusqlite::Connection::open(bench.file()).unwrap();
    assert_eq!(conn.query_row(body, [], |row| row.get::<_, String>(0)).unwrap(), "1 3 1");
    assert!(matches!(holder.begin_ending(&key(), EndWhen::Now).unwrap(), Ending::Missing));
    assert_eq!(calls(&bench).len(), 5, "what has ended is not ended again");
    drop((holder, audit));
    assert_sound(&database);
    let access = AuditAccess::open(&database, &bench.directory.path().join("audit")).unwrap();
    assert!(access.verify(&ArchiveLookup::default(), &mut |_| ()).unwrap().problems.is_empty());
}
