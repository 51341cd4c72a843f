//! Companion records after a process died in the middle of a change: they are there if the change was made, and only then.
//! In the audit, the last record says `ok` then.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use stead_core::monitor::{CallMonitor, StopReason};
use stead_core::store::{CompanionRecord, CompanionRecords, CompanionRow, RecordKind};
use stead_core::{AccessScope, AuditFacts, AuditOutcome, AuditRecord, Clock, FactName, SystemClock, VfsPath};
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
    let identity = Arc::clone(&change.operation.identity);
    let mut record = AuditRecord::new(SystemClock.now(), identity, "test", AuditOutcome::Ok);
    record.stead = Some("tester".into());
    record.paths = vec![VfsPath::parse(path).unwrap()];
    record.scope = Some(AccessScope::ReadWrite);
    record.bytes = Some(3);
    record.operation = Some(change.operation.id);
    record.facts = AuditFacts::default().with(FactName::new("case").unwrap(), 7).unwrap();
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
                assert!(ok.facts.get("case").is_some());
                assert_eq!(failed.facts, ok.facts);
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

fn row_kind() -> RecordKind {
    RecordKind::new("manifest").unwrap()
}

/// A change with rows: one replaces `old`, one removes `gone`, and one is new.
fn with_rows(steps: Vec<Step>) -> Change {
    let put = |key: &str| CompanionRow::put(row_kind(), key, "2").unwrap().filled_from(0);
    let rows = [put("old"), CompanionRow::remove(row_kind(), "gone").unwrap(), put("new")];
    Change { records: rows.map(CompanionRecord::Row).into(), ..change(steps) }
}

/// The rows `old`, `gone` and `new`, as text.
fn rows(store: &PhysicalStore) -> [Option<String>; 3] {
    ["old", "gone", "new"].map(|key| store.record(&row_kind(), key).unwrap().map(|row| row.data))
}

const ROWS_BEFORE: [Option<&str>; 3] = [Some("1"), Some("1"), None];
const ROWS_AFTER: [Option<&str>; 3] = [Some("2"), None, Some("2")];

/// A directory with two files and two rows.
fn with_two_rows() -> (TempDir, PhysicalStore) {
    let temp = TempDir::new().unwrap();
    std::fs::create_dir(temp.path().join("root")).unwrap();
    let store = open(temp.path(), |_| ());
    write(&store, "dir/a", "a");
    let put = |key: &str| CompanionRecord::Row(CompanionRow::put(row_kind(), key, "1").unwrap());
    let records = vec![put("old"), put("gone")];
    store.apply(Change { records, ..change(vec![write_step("file", "old")]) }).unwrap();
    (temp, store)
}

fn row_cases() -> [(&'static str, Vec<Step>); 4] {
    [
        ("write", vec![write_step("file", "new")]),
        ("remove", vec![remove_step("dir", Subtree::Directory)]),
        ("rename", vec![rename_step("file", "dir/b", Replace::Refuse)]),
        ("several", vec![write_step("x", "1"), append_step("file", b"3")]),
    ]
}

#[test]
fn rows_of_a_change_that_recovery_finds_not_made_are_those_from_before() {
    for case in 0..row_cases().len() {
        let mut rolled_back = 0;
        for death in 0.. {
            let (name, steps) = row_cases().into_iter().nth(case).unwrap();
            let (temp, store) = with_two_rows();
            drop(store);
            let count = Arc::new(AtomicUsize::new(0));
            let doomed = open(temp.path(), |options| {
                options.faults = Some(Arc::new(move |_| count.fetch_add(1, Ordering::SeqCst) == death));
            });
            let before = tree(&doomed);
            let died = doomed.apply(with_rows(steps)).is_err();
            drop(doomed);
            let store = open(temp.path(), |_| ());
            let made = tree(&store) != before;
            let expected = if made { ROWS_AFTER } else { ROWS_BEFORE };
            assert_eq!(rows(&store).each_ref().map(Option::as_deref), expected, "{name}, death {death}");
            rolled_back += usize::from(!made);
            // The rows of a later change replace them all the same.
            store.apply(with_rows(vec![write_step("file", "later")])).unwrap();
            assert_eq!(rows(&store).each_ref().map(Option::as_deref), ROWS_AFTER, "{name}, death {death}");
            if !died {
                break;
            }
        }
        assert!(rolled_back > 0);
    }
}

/// Stops a change when it asks for the nth time.
#[derive(Debug)]
struct StopAt(AtomicUsize);

impl CallMonitor for StopAt {
    fn progress(&self, _: u64, _: Option<u64>) {}

    fn stop_reason(&self) -> Option<StopReason> {
        (self.0.fetch_sub(1, Ordering::SeqCst) == 0).then_some(StopReason::Cancelled)
    }
}

#[test]
fn rows_of_a_change_that_is_stopped_are_those_from_before() {
    for case in 0..row_cases().len() {
        for asked in 0.. {
            let (name, steps) = row_cases().into_iter().nth(case).unwrap();
            let (temp, store) = with_two_rows();
            let (before, count) = (tree(&store), steps.len());
            let stop = Arc::new(StopAt(AtomicUsize::new(asked)));
            if store.apply(Change { monitor: Some(stop), ..with_rows(steps) }).is_ok() {
                assert!(asked > count, "{name}: the last time is after the ledger was written");
                break;
            }
            assert!(tree(&store) == before, "{name}, {asked}");
            assert_eq!(rows(&store).each_ref().map(Option::as_deref), ROWS_BEFORE, "{name}, {asked}");
            drop(store);
            let store = open(temp.path(), |_| ());
            assert_eq!(
                rows(&store).each_ref().map(Option::as_deref),
                ROWS_BEFORE,
                "{name}, {asked}, reopened"
            );
        }
    }
}

#[test]
fn rows_survive_reopening_and_a_directory_without_a_ledger_has_none() {
    let (temp, store) = with_two_rows();
    store.apply(with_rows(vec![write_step("file", "new")])).unwrap();
    drop(store);
    assert_eq!(rows(&open(temp.path(), |_| ())).each_ref().map(Option::as_deref), ROWS_AFTER);
    let temp = TempDir::new().unwrap();
    std::fs::create_dir(temp.path().join("root")).unwrap();
    assert_eq!(rows(&open(temp.path(), |_| ())), [None, None, None]);
}
