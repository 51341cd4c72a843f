//! What a damaged database answers: the bytes that were written, or that they are damaged. Never other bytes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use stead_core::glob::PathGlobs;
use stead_core::search::{Grep, GrepQuery};
use stead_core::store::{
    Change, Content, History, NodePath, OpenPurpose, PutOptions, RevisionNumber, Step, StorePath,
};
use stead_core::{ErrorKind, Identity, Operation, OperationId, Store, StoreError, Timestamp};
use stead_stores::{Database, DatabaseOptions, VirtualStore};

/// How many bytes of the file are damaged, one at a time.
const FLIPS: usize = 100;

fn at(path: &str) -> NodePath {
    NodePath::from_root(StorePath::from_checked(path))
}

/// Content of this size that differs for every seed.
fn pattern(seed: u64, size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..size).map(|index| if index % 60 == 59 { b'\n' } else { random.u8(b'a'..=b'z') }).collect()
}

fn write(store: &VirtualStore, path: &str, bytes: &[u8]) -> RevisionNumber {
    let operation = Operation {
        id: OperationId::fresh(Timestamp(1)),
        identity: Identity::agent("tester").into(),
        tool: "test".into(),
        at: Timestamp(1),
    };
    let content = Content::Bytes(bytes.to_vec());
    let step = Step::Write { at: at(path), content, options: PutOptions::default() };
    store.apply(Change::new(operation, vec![step])).unwrap().revision.unwrap()
}

struct Written {
    path: &'static str,
    bytes: Vec<u8>,
    /// Its earlier content, and the revision that had it.
    before: (RevisionNumber, Vec<u8>),
}

/// A database in one file, and what was written into it.
fn write_files(file: &Path) -> Vec<Written> {
    let database = Database::open(file, DatabaseOptions::default()).unwrap();
    let store = database.store(["files"]).unwrap();
    let sizes = [("a", 30), ("d/b", 3_000), ("d/c", 9_001), ("d/e/large", 600_000)];
    let mut written = Vec::new();
    for (seed, (path, size)) in sizes.into_iter().enumerate() {
        let before = pattern(100 + seed as u64, size / 2 + 7);
        let revision = write(&store, path, &before);
        written.push(Written { path, bytes: pattern(seed as u64, size), before: (revision, before) });
    }
    for Written { path, bytes, .. } in &written {
        write(&store, path, bytes);
    }
    written
}

/// Checks that an answer is what was written, or an error. Returns whether it says that the database is damaged.
#[track_caller]
fn check_answer(answer: Result<Vec<u8>, StoreError>, expected: &[u8], path: &str) -> bool {
    match answer {
        Ok(bytes) => {
            assert!(bytes == expected, "{path}: the bytes read differ from the bytes written");
            false
        }
        // The damage may be in a name, or in the structure as a whole.
        Err(error) => {
            let kind = error.kind();
            assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::NotFound), "{path}: {error:?}");
            kind == ErrorKind::Corrupt
        }
    }
}

/// Reads an open file in pieces of this length.
fn read_in_pieces(store: &dyn Store, path: &str, length: usize) -> Result<Vec<u8>, StoreError> {
    let content = store.open(&at(path), OpenPurpose::Read)?;
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; length]);
    loop {
        match content.read_at(bytes.len() as u64, &mut buffer)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Reads everything in every way. Returns how often the answer was that it is damaged.
fn read_all(database: &Database, written: &[Written]) -> usize {
    let Ok(store) = database.store(["files"]) else { return 1 };
    let mut damaged = 0;
    for Written { path, bytes, before } in written {
        let answer = store.read(&at(path), u64::MAX).map(|content| content.bytes);
        damaged += usize::from(check_answer(answer, bytes, path));
        let from_many = store.read_many(&[at(path)], u64::MAX).remove(0).map(|content| content.bytes);
        check_answer(from_many, bytes, path);
        for length in [262_144, 1_000_000, 10_007] {
            check_answer(read_in_pieces(&store, path, length), bytes, path);
        }
        let earlier = store.as_of(before.0).and_then(|store_then| store_then.read(&at(path), u64::MAX));
        damaged += usize::from(check_answer(earlier.map(|content| content.bytes), &before.1, path));
    }
    let query = GrepQuery { max_results: 500, ..GrepQuery::new(".") };
    let grep = Grep::new(&query, None, PathGlobs::none()).unwrap();
    let mut lines = Vec::new();
    let searched = store.grep(&NodePath::root(), &grep, &mut |hits| {
        lines.extend(hits.hits.lines.into_iter().map(|line| (hits.path.clone(), line)));
        ControlFlow::Continue(())
    });
    let _ = searched;
    for (path, line) in lines {
        if let Some(file) = written.iter().find(|file| file.path.as_bytes() == path.as_bytes()) {
            let expected_line = file.bytes.split(|&byte| byte == b'\n').nth(line.number as usize - 1);
            assert!(
                expected_line == Some(line.text.as_bytes()),
                "{path:?}: grep shows a line that was never written"
            );
        }
    }
    damaged
}

#[test]
fn a_read_from_a_damaged_database_gives_what_was_written_or_is_corrupt() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("db");
    let written = write_files(&file);
    let intact = fs::read(&file).unwrap();
    let database = Database::open(&file, DatabaseOptions::default()).unwrap();
    assert_eq!(read_all(&database, &written), 0);
    drop(database);
    let mut random = fastrand::Rng::with_seed(11);
    let mut noticed = 0;
    for _ in 0..FLIPS {
        let (offset, bit) = (random.usize(100..intact.len()), 1 << random.u8(..8));
        let mut damaged = intact.clone();
        damaged[offset] ^= bit;
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(directory.path().join(format!("db{suffix}")));
        }
        fs::write(&file, damaged).unwrap();
        match Database::open(&file, DatabaseOptions::default()) {
            Ok(database) => noticed += usize::from(read_all(&database, &written) > 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{offset}"),
        }
    }
    assert!(noticed > FLIPS / 2, "most of a database is content, and {noticed} of {FLIPS} were noticed");
}

/// Copies what a killed process would leave: the files as they are while it runs.
fn copy_of_killed(directory: &Path, to: &Path) -> RevisionNumber {
    let database = Database::open(directory.join("db"), DatabaseOptions::default()).unwrap();
    let store = database.store(["files"]).unwrap();
    let mut last = RevisionNumber(0);
    for number in 0..20 {
        last = write(&store, "a", &pattern(number, 3_000));
    }
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    last
}

#[test]
fn a_truncated_log_after_a_kill_is_reported_until_a_backup_is_restored() {
    for remaining_part in [0.0, 0.6, 0.99] {
        let [directory, copy] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let backup = directory.path().join("backup");
        {
            let database = Database::open(directory.path().join("db"), DatabaseOptions::default()).unwrap();
            write(&database.store(["files"]).unwrap(), "a", b"kept");
            database.backup(&backup, &mut |_| ()).unwrap();
        }
        let last = copy_of_killed(directory.path(), copy.path());
        let log = copy.path().join("db-wal");
        let length = (fs::metadata(&log).unwrap().len() as f64 * remaining_part) as u64;
        fs::File::options().write(true).open(&log).unwrap().set_len(length).unwrap();
        fs::remove_file(copy.path().join("db-shm")).unwrap();

        let open = || Database::open(copy.path().join("db"), DatabaseOptions::default()).unwrap();
        let problems = |database: &Database| database.verify(&mut |_| ()).unwrap().problems.join("\n");
        let lost = format!("to {} were acknowledged and are lost", last.0);
        assert!(problems(&open()).contains(&lost), "{remaining_part}: {}", problems(&open()));
        // A writer doesn't reuse a version that was already given out, and doesn't hide the problem.
        let database = open();
        let next = write(&database.store(["files"]).unwrap(), "a", b"next");
        assert!(next > last, "{remaining_part}: {next} after {last}");
        assert!(problems(&database).contains(&lost), "{remaining_part}: {}", problems(&database));
        drop(database);
        assert!(problems(&open()).contains(&lost), "{remaining_part}");
        let database = open();
        let restored = database.restore_backup(&backup, &mut |_| ()).unwrap();
        assert!(restored > next);
        assert_eq!(problems(&database), "", "{remaining_part}");
    }
}

#[test]
fn a_database_whose_only_content_was_in_a_lost_log_is_not_started_empty() {
    let [directory, copy] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    copy_of_killed(directory.path(), copy.path());
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(copy.path().join(format!("db{suffix}"))).unwrap();
    }
    let opened = Database::open(copy.path().join("db"), DatabaseOptions::default());
    let error = opened.expect_err("opening has to be refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn every_database_that_a_backup_replaced_is_retained() {
    let directory = tempfile::tempdir().unwrap();
    let (file, backup) = (directory.path().join("db"), directory.path().join("backup"));
    write_files(&file);
    Database::open(&file, DatabaseOptions::default()).unwrap().backup(&backup, &mut |_| ()).unwrap();
    for damage in ["first damage", "second damage"] {
        fs::write(&file, damage).unwrap();
        Database::restore_lost(&file, &backup, DatabaseOptions::default()).unwrap();
        Database::open(&file, DatabaseOptions::default()).unwrap();
    }
    let mut retained = Vec::new();
    let mut directories = vec![directory.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                directories.push(entry);
            } else if let Ok(text) = fs::read_to_string(&entry)
                && text.ends_with(" damage")
            {
                retained.push(text);
            }
        }
    }
    retained.sort();
    assert_eq!(retained, ["first damage", "second damage"]);
}
