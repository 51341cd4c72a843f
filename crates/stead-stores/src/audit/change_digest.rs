//! A digest of the rows that a revision wrote, from which log and blame are read. The record of the change holds it.

use std::collections::HashMap;
use std::fmt::Write as _;

use blake3::Hasher;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::database::error::Result;
use crate::database::schema::UNRECORDED;

/// What the record of a change holds besides the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangeDigest {
    /// The digest of the revision's rows, in hexadecimal.
    pub(crate) digest: String,
    /// How many revisions before it have no record, because the audit was off.
    pub(crate) unrecorded: i64,
}

/// The rows of one revision in the order in which they were written: the changes of a Virtual Store, the ledger events
/// of a Physical Store, and the row of a revision that changed nothing. Ledger events with a negative `seq` are
/// not hashed: they were added later, for files that were too large to be kept as displaced content.
const ROWS_OF_REVISION: [&str; 3] = [
    "SELECT revision, kind, node, parent, name FROM node_change WHERE volume = ?1 AND revision = ?2 ORDER BY seq",
    "SELECT revision, kind, path, other_path FROM ledger_event WHERE volume = ?1 AND revision = ?2 AND seq >= 0 ORDER BY seq",
    "SELECT revision, path FROM empty_revision WHERE volume = ?1 AND revision = ?2",
];
/// The same for all revisions, in the order of the tables' keys. A revision has rows in one volume only. Events of ended threads
/// count as if they were still in the ledger.
const ROWS_OF_ALL_REVISIONS: [&str; 3] = [
    "SELECT revision, kind, node, parent, name FROM node_change ORDER BY volume, revision, seq",
    "SELECT revision, kind, path, other_path FROM (
       SELECT volume, revision, seq, kind, path, other_path FROM ledger_event WHERE seq >= 0
       UNION ALL SELECT volume, revision, seq, kind, path, other_path FROM forgotten_event)
     ORDER BY volume, revision, seq",
    "SELECT revision, path FROM empty_revision ORDER BY volume, revision",
];

impl ChangeDigest {
    /// Reads what a revision of a volume did, at the end of its transaction.
    pub(crate) fn of(conn: &Connection, volume: i64, revision: i64) -> Result<Self> {
        let mut hasher = Hasher::new();
        for sql in ROWS_OF_REVISION {
            let mut statement = conn.prepare_cached(sql)?;
            let mut rows = statement.query([volume, revision])?;
            while let Some(row) = rows.next()? {
                hash_row(&mut hasher, row)?;
            }
        }
        let unrecorded = conn
            .prepare_cached("SELECT value FROM meta WHERE id = ?1")?
            .query_row([UNRECORDED], |row| row.get(0))?;
        Ok(ChangeDigest { digest: hex_digest(&hasher), unrecorded })
    }
}

/// The digests of all revisions that have rows, by revision.
pub(crate) fn all_digests(conn: &Connection) -> Result<HashMap<i64, String>> {
    let mut hashers: HashMap<i64, Hasher> = HashMap::new();
    for sql in ROWS_OF_ALL_REVISIONS {
        let mut statement = conn.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            hash_row(hashers.entry(row.get(0)?).or_default(), row)?;
        }
    }
    Ok(hashers.into_iter().map(|(revision, hasher)| (revision, hex_digest(&hasher))).collect())
}

/// Hashes every column of a row but the first (the revision), each with its type and length.
fn hash_row(hasher: &mut Hasher, row: &Row<'_>) -> Result<()> {
    for column in 1..row.as_ref().column_count() {
        match row.get_ref(column)? {
            ValueRef::Integer(number) => hasher.update(b"i").update(&number.to_le_bytes()),
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => {
                hasher.update(b"b").update(&(bytes.len() as u64).to_le_bytes()).update(bytes)
            }
            ValueRef::Null | ValueRef::Real(_) => hasher.update(b"n"),
        };
    }
    hasher.update(b".");
    Ok(())
}

/// Uses half of the hash: finding other rows with the same digest still takes at least 2^64 attempts.
fn hex_digest(hasher: &Hasher) -> String {
    let mut text = String::with_capacity(32);
    for byte in &hasher.finalize().as_bytes()[..16] {
        write!(text, "{byte:02x}").expect("writing to a String can't fail");
    }
    text
}
