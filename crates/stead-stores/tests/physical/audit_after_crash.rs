//! The audit after a process died in the middle of a change: the last record says `ok` if the change was made, and only
//! then.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use stead_core::store::CompanionRecord;
use stead_core::{AccessScope, AuditOutcome, AuditRecord, Clock, SystemClock, VfsPath};
use stead_stores::{ArchiveLookup, Audit, AuditAccess, AuditEntry, AuditQuery};

use super::*;

fn database(temp: &Path) -> Database {
    let fast = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    Database::open(temp.join("stead.db"), fast).unwrap()
}

/// Like one process: a Store, with its ledger and the audit in one database.
fn process(temp: &Path, change: impl FnOnce(&mut PhysicalOptions)) -> (PhysicalStore, Arc<Audit>) {
    let database = database(temp);
    let audit = Audit::open(&database, &temp.join("audit")).unwrap();
    let store = open(temp, |options| {
        options.ledger = database.into();
        change(options);
    });
    (store, audit)
}

/// A change with its audit record, as a call of an agent makes it.
fn change_with_record(path: &str, steps: Vec<Step>) -> Change {
    let mut change = change(steps);
    let record = AuditRecord {
        at: SystemClock.now(),
        stead: Some("tester".into()),
        identity: Arc::clone(&change.operation.identity),
        call: "test".into(),
        paths: vec![VfsPath::parse(path).unwrap()],
        scope: Some(AccessScope::ReadWrite),
        outcome: AuditOutcome::Ok,
        dry_run: false,
        bytes: Some(3),
        file_count: None,
        duration: Duration::ZERO,
        operation: Some(change.operation.id),
        revision: None,
    };
    change.records = vec![CompanionRecord::Audit { record: Box::new(record), began: Instant::now() }];
    change
}

/// The records of an operation, oldest first.
fn audit_records(temp: &Path, operation: OperationId) -> Vec<AuditEntry> {
    let access = AuditAccess::open(&database(temp), &temp.join("audit")).unwrap();
    let mut entries = Vec::new();
    access
        .each(&AuditQuery::default(), &mut |entry| {
            entries.extend((entry.operation == Some(operation)).then(|| entry.clone()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(access.verify(&ArchiveLookup::default(), &mut |_| ()).unwrap().problems, Vec::<String>::new());
    entries
}

/// Dies before each action of a change in turn. Returns how often the change was on record and then rolled back.
fn die_before_every_action(name: &str, steps: &dyn Fn() -> Vec<Step>) -> usize {
    let mut rolled_back = 0;
    for death_index in 0.. {
        let temp = TempDir::new().unwrap();
        std::fs::create_dir(temp.path().join("root")).unwrap();
        let (store, audit) = process(temp.path(), |_| ());
        write(&store, "file", "old");
        write(&store, "dir/a", "a");
        drop((store, audit));

        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let (doomed, audit) = process(temp.path(), |options| {
            options.faults = Some(Arc::new(move |_| counter.fetch_add(1, Ordering::SeqCst) == death_index));
        });
        let before = tree(&doomed);
        let change = change_with_record("/file", steps());
        let operation = change.operation.id;
        let died = doomed.apply(change).is_err();
        drop((doomed, audit));

        let (store, audit) = process(temp.path(), |_| ());
        let is_changed = tree(&store) != before;
        drop((store, audit));
        let entries = audit_records(temp.path(), operation);
        let outcomes: Vec<_> = entries.iter().map(|entry| (&*entry.outcome, entry.code.as_deref())).collect();
        match (is_changed, &outcomes[..]) {
            (true, [("ok", None)]) | (false, []) => {}
            (false, [("ok", None), ("failed", Some("unavailable"))]) => {
                rolled_back += 1;
                let [ok, failed] = &entries[..] else { unreachable!() };
                assert!(ok.version.is_some() && failed.version.is_none());
                assert_eq!(
                    (&failed.at, &failed.paths, &failed.agent, &failed.thread, &failed.stead, &failed.scope),
                    (&ok.at, &ok.paths, &ok.agent, &ok.thread, &ok.stead, &ok.scope)
                );
            }
            _ => {
                panic!("{name}, crash {death_index}: changed: {is_changed}, recorded outcomes: {outcomes:?}")
            }
        }
        if !died {
            return rolled_back;
        }
    }
    rolled_back
}

#[test]
fn a_change_that_recovery_finds_not_made_is_not_ok_in_the_audit() {
    let cases: [(&str, &dyn Fn() -> Vec<Step>); 6] = [
        ("write", &|| vec![write_step("file", "new")]),
        ("write a new file", &|| vec![write_step("new", "new")]),
        ("append", &|| vec![append_step("file", b"more")]),
        ("remove", &|| vec![remove_step("dir", Subtree::Directory)]),
        ("rename", &|| vec![rename_step("file", "dir/b", Replace::Refuse)]),
        ("several", &|| vec![write_step("x", "1"), write_step("y", "2"), append_step("file", b"3")]),
    ];
    for (name, steps) in cases {
        assert!(
            die_before_every_action(name, steps) > 0,
            "{name}: no crash happened between the record and the change"
        );
    }
}
