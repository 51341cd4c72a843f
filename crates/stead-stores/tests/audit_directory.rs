//! An audit directory belongs to one database.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_core::{AuditLog, AuditOutcome, AuditRecord, Clock, ErrorKind, Identity, StoreResult, SystemClock};
use stead_stores::{ArchiveLookup, Audit, AuditAccess, Database, DatabaseOptions};

struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Fixture { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn database(&self, name: &str) -> Database {
        Database::open(self.path(name), DatabaseOptions::default()).unwrap()
    }

    /// Adds a record to a database, with the audit directory of this name.
    fn record(&self, database: &Database, directory: &str) -> StoreResult<()> {
        let audit = Audit::open(database, &self.path(directory))?;
        let identity = Arc::new(Identity::agent("coder"));
        audit.append(&AuditRecord::new(SystemClock.now(), identity, "ls", AuditOutcome::Ok))
    }

    fn problems(&self, database: &Database, directory: &str) -> Vec<String> {
        let access = AuditAccess::open(database, &self.path(directory)).unwrap();
        access.verify(&ArchiveLookup::default(), &mut |_| ()).unwrap().problems
    }

    fn backup(&self, database: &Database, name: &str) -> PathBuf {
        let to = self.path(name);
        database.backup(&to, &mut |_| ()).unwrap();
        to
    }
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy_directory(&from, &to),
            false => drop(fs::copy(from, to).unwrap()),
        }
    }
}

fn remove_database(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-version"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(name);
    }
}

#[test]
fn a_second_database_is_refused_and_the_first_one_stays_intact() {
    let fixture = Fixture::new();
    let [first, second] = ["first", "second"].map(|name| fixture.database(name));
    fixture.record(&first, "audit").unwrap();
    for _ in 0..2 {
        let error = fixture.record(&second, "audit").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("the audit of another database"), "{error}");
        let problems = fixture.problems(&second, "audit");
        assert!(problems[0].contains("the audit of another database"), "{problems:?}");
        fixture.record(&first, "audit").unwrap();
        assert_eq!(fixture.problems(&first, "audit"), [""; 0]);
    }
    fixture.record(&second, "another").unwrap();
    assert_eq!(fixture.problems(&second, "another"), [""; 0]);
}

#[test]
fn what_a_killed_process_left_is_not_moved_into_another_database() {
    let fixture = Fixture::new();
    let [first, second] = ["first", "second"].map(|name| fixture.database(name));
    fixture.record(&first, "audit").unwrap();
    let killed = Audit::open(&first, &fixture.path("audit")).unwrap();
    let identity = Arc::new(Identity::agent("coder"));
    killed.append(&AuditRecord::new(SystemClock.now(), identity, "ls", AuditOutcome::Ok)).unwrap();
    let copy = Fixture::new();
    copy_directory(&fixture.path("audit"), &copy.path("audit"));
    let access = AuditAccess::open(&second, &copy.path("audit")).unwrap();
    assert_eq!(access.problems_at_open().len(), 1);
    assert_eq!(fs::read_dir(copy.path("audit/running")).unwrap().count(), 1, "it stays for its own database");
}

#[test]
fn a_restored_backup_has_the_identity_of_the_database_that_it_replaces() {
    let fixture = Fixture::new();
    let [first, second] = ["first", "second"].map(|name| fixture.database(name));
    fixture.record(&first, "audit").unwrap();
    let backup = fixture.backup(&second, "backup");
    first.restore_backup(&backup, &mut |_| ()).unwrap();
    fixture.record(&first, "audit").unwrap();
    assert!(fixture.record(&second, "audit").is_err());
}

#[test]
fn a_database_in_place_of_a_lost_one_can_adopt_its_audit() {
    let fixture = Fixture::new();
    let first = fixture.database("first");
    fixture.record(&first, "audit").unwrap();
    let backup = fixture.backup(&fixture.database("second"), "backup");
    drop(first);
    remove_database(&fixture.path("first"));
    Database::restore_lost(&fixture.path("first"), &backup, DatabaseOptions::default()).unwrap();
    let restored = fixture.database("first");
    assert!(fixture.record(&restored, "audit").is_err());
    Audit::adopt_directory(&restored, &fixture.path("audit")).unwrap();
    fixture.record(&restored, "audit").unwrap();
    assert!(
        !fixture.problems(&restored, "audit").is_empty(),
        "the backup lacks the records of the lost database"
    );
}

#[test]
fn a_file_that_a_power_cut_has_torn_is_written_again() {
    let fixture = Fixture::new();
    let first = fixture.database("first");
    fixture.record(&first, "audit").unwrap();
    let file = fixture.path("audit/database");
    let intact = fs::read(&file).unwrap();
    for torn in [&b""[..], b"12", &[0; 8]] {
        fs::write(&file, torn).unwrap();
        fixture.record(&first, "audit").unwrap();
        assert_eq!(fs::read(&file).unwrap(), intact);
    }
}
