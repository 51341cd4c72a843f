//! Old records, moved into a file: JSON Lines that can be checked without the database.
//!
//! The file begins with one line for each chain that has a segment in it: the position of the segment's first record,
//! the hash before it, and the signed head at its end. The records follow, each with its hash, in the order of their
//! ids.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stead_core::{Clock, StoreError, StoreResult, SystemClock, Timestamp};
use uuid::Uuid;

use crate::audit::archive_index::{ArchiveRow, forget_archived_instances};
use crate::audit::body::{AuditEntry, time_text};
use crate::audit::chain::{CHAIN_START, RecordHash};
use crate::audit::directory::{AuditDirectory, HeadsLine, RememberedArchive};
use crate::audit::head::{AuditKey, SignedHead, hex};
use crate::audit::revision_check::RevisionCheck;
use crate::audit::spool::unwritable_error;
use crate::audit::verify::{AuditVerified, ChainCheck, describe_record};
use crate::database::DatabaseInner;
use crate::database::error::{DatabaseError, Result, corrupt};
use crate::database::group_commit::CommitSync;
use crate::sync::{self, SyncPoint};

/// How many records one transaction deletes. Other callers write between two of these transactions.
const RECORDS_PER_TRANSACTION: usize = 2_000;

/// What was archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// How many records the file holds.
    pub records: u64,
    /// The file's name in the directory; `None` if there was nothing to archive.
    pub file: Option<String>,
}

/// A contiguous part of one chain.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ChainSegment {
    first: i64,
    /// The hash before the first record.
    #[serde(with = "hex")]
    before: RecordHash,
    /// The last record of the segment, signed.
    head: SignedHead,
}

#[derive(Serialize, Deserialize)]
struct SegmentLine {
    segment: ChainSegment,
}

#[derive(Serialize, Deserialize)]
struct RecordLine<'a> {
    #[serde(with = "hex")]
    hash: RecordHash,
    #[serde(borrow)]
    record: &'a RawValue,
}

pub(crate) fn archive(
    database: &Arc<DatabaseInner>,
    audit_directory: &AuditDirectory,
    key: &AuditKey,
    before: Timestamp,
    directory: &Path,
) -> StoreResult<Archived> {
    let reader = database.reader()?;
    let transaction = reader.unchecked_transaction().map_err(DatabaseError::from)?;
    let segments = archivable_segments(&transaction, key, before)?;
    let archived_up_to = archived_positions(&transaction)?;
    let now = SystemClock.now();
    let unique = &Uuid::now_v7().simple().to_string()[20..];
    let name = format!("audit-{}-{unique}.jsonl", &now.to_string()[..10]);
    let partial = directory.join(format!("{name}.partial"));
    let (records, ids, file_hash) = match segments.is_empty() {
        true => (0, archived_record_ids(&transaction, &archived_up_to)?, CHAIN_START),
        false => {
            let created = sync::make_private_dir(SyncPoint::AuditArchiveName, directory);
            created.map_err(|error| unwritable_error(&error))?;
            let written = write_archive(&transaction, &segments, &archived_up_to, &partial);
            if written.is_err() {
                let _ = fs::remove_file(&partial);
            }
            written?
        }
    };
    drop(transaction);
    drop(reader);
    if !segments.is_empty() {
        let finish = || {
            fs::rename(&partial, directory.join(&name))?;
            sync::sync_directory(SyncPoint::AuditArchiveName, directory)
        };
        finish().map_err(|error| unwritable_error(&error))?;
        let (segments, file) = (segments.clone(), name.clone());
        let archive = ArchiveRow {
            file: name.clone(),
            directory: audit_directory.archive_directory_key(directory)?,
            at: time_text(now).to_string(),
            records,
            hash: file_hash.to_vec(),
        };
        // Synced: the records must not be deleted while a power cut could still lose the row that says where they are.
        database.write_reserved(CommitSync::Always, move |transaction| {
            archive.insert(transaction.conn)?;
            for (row, segment) in &segments {
                let ChainSegment { first, head, .. } = segment;
                transaction
                    .conn
                    .prepare_cached(
                        "INSERT INTO audit_segment(instance, first, last, file) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![row, first, head.seq, file])?;
                transaction
                    .conn
                    .prepare_cached("DELETE FROM audit_head WHERE instance = ?1 AND seq < ?2")?
                    .execute(params![row, head.seq])?;
            }
            Ok(())
        })?;
    }
    remember_archives(database, audit_directory)?;
    for batch in ids.chunks(RECORDS_PER_TRANSACTION) {
        let batch = batch.to_vec();
        database.write_reserved(CommitSync::Deferred, move |transaction| {
            let mut delete = transaction.conn.prepare_cached("DELETE FROM audit WHERE id = ?1")?;
            for id in batch {
                delete.execute([id])?;
            }
            Ok(())
        })?;
    }
    forget_archived_instances(database, audit_directory)?;
    Ok(Archived { records, file: (!segments.is_empty()).then_some(name) })
}

/// Adds the archives to the file `heads` that it doesn't have: the new one, and one whose archiving was interrupted
/// after its commit.
fn remember_archives(database: &Arc<DatabaseInner>, audit_directory: &AuditDirectory) -> StoreResult<()> {
    let lines = audit_directory.lines()?;
    let is_known = |file: &str| {
        lines.iter().any(|line| matches!(line, HeadsLine::Archive(remembered) if remembered.archive == file))
    };
    let heads_line = |row: ArchiveRow| {
        let ArchiveRow { file, at, records, hash, .. } = row;
        let hash = hash.try_into().ok()?;
        Some(HeadsLine::Archive(RememberedArchive { archive: file, at, records, hash }))
    };
    let rows = ArchiveRow::all(&*database.reader()?)?.into_iter().filter(|row| !is_known(&row.file));
    audit_directory.append_lines(&rows.filter_map(heads_line).collect::<Vec<_>>())
}

/// The last archived position of each instance, by the instance's row id.
fn archived_positions(conn: &Connection) -> Result<HashMap<i64, i64>> {
    let mut statement = conn.prepare("SELECT instance, max(last) FROM audit_segment GROUP BY instance")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// What can be archived of each chain: the records after the last archived one, up to the last head that was signed
/// before `before`. Every record that such a head covers was in the database when it was signed. Chains whose head
/// another key signed are left out.
fn archivable_segments(
    conn: &Connection,
    key: &AuditKey,
    before: Timestamp,
) -> Result<Vec<(i64, ChainSegment)>> {
    let mut statement = conn.prepare(
        "SELECT h.seq, h.hash, h.at, h.key, h.signature, i.id, i.uuid, s.last, b.hash
         FROM audit_instance i
         JOIN audit_head h ON h.instance = i.id
           AND h.seq = (SELECT max(seq) FROM audit_head WHERE instance = i.id AND at < ?1)
         LEFT JOIN (SELECT instance, max(last) AS last FROM audit_segment GROUP BY instance) s ON s.instance = i.id
         LEFT JOIN audit_head b ON b.instance = i.id AND b.seq = s.last
         WHERE h.seq > ifnull(s.last, 0)",
    )?;
    let mut rows = statement.query([time_text(before).to_string()])?;
    let mut segments = Vec::new();
    while let Some(row) = rows.next()? {
        let uuid = Uuid::parse_str(&row.get::<_, String>(6)?).map_err(|_| broken_chain_error())?;
        let head = SignedHead::from_row(uuid, row)?;
        if head.key != key.public() {
            continue;
        }
        let last: Option<i64> = row.get(7)?;
        let before = match last {
            None => CHAIN_START,
            Some(_) => row.get::<_, Vec<u8>>(8)?.try_into().map_err(|_| broken_chain_error())?,
        };
        if !head.is_signed() {
            return Err(broken_chain_error());
        }
        segments.push((row.get(5)?, ChainSegment { first: last.unwrap_or(0) + 1, before, head }));
    }
    Ok(segments)
}

fn broken_chain_error() -> DatabaseError {
    corrupt("the audit was changed after it was written; run `stead audit verify`")
}

/// Writes the archive, and returns how many records it holds, the ids of all records that may be deleted, and the hash
/// of the file. A record that isn't as its chain says is an error.
fn write_archive(
    conn: &Connection,
    segments: &[(i64, ChainSegment)],
    archived_up_to: &HashMap<i64, i64>,
    path: &Path,
) -> StoreResult<(u64, Vec<i64>, RecordHash)> {
    let failed = |error: io::Error| unwritable_error(&error);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let mut out = BufWriter::with_capacity(256 << 10, HashingFile { file, hasher: blake3::Hasher::new() });
    for (_, segment) in segments {
        write_line(&mut out, &SegmentLine { segment: segment.clone() }).map_err(failed)?;
    }
    let mut chain_checks: HashMap<i64, (ChainCheck, i64)> = HashMap::new();
    for (row, segment) in segments {
        chain_checks.insert(*row, (segment.chain_check(), segment.head.seq));
    }
    let (mut count, mut ids) = (0, Vec::new());
    each_record(conn, |id, row, seq, hash, body| {
        if archived_up_to.get(&row).is_some_and(|last| seq <= *last) {
            ids.push(id);
            return Ok(());
        }
        let Some((chain_check, _)) = chain_checks.get_mut(&row).filter(|(_, last)| seq <= *last) else {
            return Ok(());
        };
        if !chain_check.check_record(seq, &hash, body).is_empty() {
            return Err(broken_chain_error().into());
        }
        let record: &RawValue =
            serde_json::from_str(body).map_err(|_| StoreError::from(broken_chain_error()))?;
        write_line(&mut out, &RecordLine { hash, record }).map_err(failed)?;
        ids.push(id);
        count += 1;
        Ok(())
    })?;
    if chain_checks.into_values().any(|(chain_check, _)| !chain_check.finish(0).is_empty()) {
        return Err(broken_chain_error().into());
    }
    let HashingFile { file, hasher } = out.into_inner().map_err(|error| failed(error.into_error()))?;
    sync::sync_all(SyncPoint::AuditArchive, &file).map_err(|error| failed(error.into()))?;
    Ok((count, ids, *hasher.finalize().as_bytes()))
}

/// The ids of records that are in an archive and that an interrupted archiving has not deleted.
fn archived_record_ids(conn: &Connection, archived_up_to: &HashMap<i64, i64>) -> StoreResult<Vec<i64>> {
    let mut ids = Vec::new();
    each_record(conn, |id, row, seq, _, _| {
        if archived_up_to.get(&row).is_some_and(|last| seq <= *last) {
            ids.push(id);
        }
        Ok(())
    })?;
    Ok(ids)
}

/// Visits every record in the order of ids: id, instance, position, hash, body.
fn each_record(
    conn: &Connection,
    mut visit: impl FnMut(i64, i64, i64, RecordHash, &str) -> StoreResult<()>,
) -> StoreResult<()> {
    let mut visit_rows = || -> Result<()> {
        let mut statement = conn.prepare("SELECT id, instance, seq, hash, body FROM audit ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let hash = row.get_ref(3)?.as_blob().ok().and_then(|hash| hash.try_into().ok());
            let body = row.get_ref(4)?.as_str().ok();
            let (hash, body) = hash.zip(body).ok_or_else(broken_chain_error)?;
            visit(row.get(0)?, row.get(1)?, row.get(2)?, hash, body)?;
        }
        Ok(())
    };
    Ok(visit_rows()?)
}

/// A file that is hashed while it is written.
struct HashingFile {
    file: File,
    hasher: blake3::Hasher,
}

impl Write for HashingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

impl ChainSegment {
    fn chain_check(&self) -> ChainCheck {
        let heads = BTreeMap::from([(self.head.seq, vec![self.head.clone()])]);
        ChainCheck::new(self.head.instance, self.first, self.before, heads)
    }
}

/// Checks a file of archived records without the database. Returns what it found, and the public keys that signed the
/// file's segments, in hexadecimal.
pub fn verify_archive(file: &Path) -> io::Result<(AuditVerified, Vec<String>)> {
    let CheckedArchive { verified, keys, .. } = check_archive(file, None)?;
    Ok((verified, keys))
}

/// What a check of an archive found.
pub(crate) struct CheckedArchive {
    pub(crate) verified: AuditVerified,
    pub(crate) keys: Vec<String>,
    /// The segments in the file: the position of the first record, and the head at the end.
    pub(crate) segments: Vec<(i64, SignedHead)>,
}

/// Checks a file of archived records and, with `revision_check`, compares the revisions in the database with them.
pub(crate) fn check_archive(
    file: &Path,
    revision_check: Option<&RevisionCheck<'_>>,
) -> io::Result<CheckedArchive> {
    let mut segments = Vec::new();
    let mut verified = AuditVerified::default();
    let mut keys = Vec::new();
    let mut chain_checks: BTreeMap<Uuid, ChainCheck> = BTreeMap::new();
    let mut line = String::new();
    let mut input = BufReader::with_capacity(256 << 10, File::open(file)?);
    for number in 1_u64.. {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            break;
        }
        if let Ok(SegmentLine { segment }) = serde_json::from_str(&line) {
            let SignedHead { instance, seq, key, .. } = &segment.head;
            let key = hex::text(key);
            if !segment.head.is_signed() {
                verified
                    .add_problem(format!("the signature of record {seq} of instance {instance} is wrong"));
            } else {
                verified.heads += 1;
            }
            if segment.first == 1 && segment.before != CHAIN_START {
                verified.add_problem(format!(
                    "the chain of instance {instance} doesn't start with its first record"
                ));
            }
            if !keys.contains(&key) {
                keys.push(key);
            }
            verified.instances += 1;
            chain_checks.insert(*instance, segment.chain_check());
            segments.push((segment.first, segment.head));
            continue;
        }
        let record = serde_json::from_str::<RecordLine<'_>>(&line).ok();
        let entry = record.as_ref().and_then(|line| AuditEntry::parse(0, line.record.get()).ok());
        let (Some(record), Some(entry)) = (record, entry) else {
            verified.add_problem(format!("line {number} isn't a valid record"));
            continue;
        };
        let Some(chain_check) = chain_checks.get_mut(&entry.instance) else {
            verified
                .add_problem(format!("line {number} is a record of an instance that the file doesn't list"));
            continue;
        };
        verified.records += 1;
        let body = record.record.get();
        let problems = chain_check.check_record(entry.seq, &record.hash, body);
        let difference = match revision_check.filter(|_| problems.is_empty()) {
            Some(revision_check) => revision_check
                .compare_record(body)
                .map_err(|error| io::Error::other(StoreError::from(error)))?,
            None => None,
        };
        let difference = difference
            .map(|difference| format!("{}: {difference}", describe_record(entry.instance, entry.seq, body)));
        problems.into_iter().chain(difference).for_each(|problem| verified.add_problem(problem));
    }
    for chain_check in chain_checks.into_values() {
        for problem in chain_check.finish(0) {
            verified.add_problem(problem);
        }
    }
    if verified.instances == 0 {
        verified.add_problem("the file has no archived records".into());
    }
    Ok(CheckedArchive { verified, keys, segments })
}
