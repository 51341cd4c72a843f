//! A chain of records: each hash covers the record and the hash before it.

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::{Clock, SystemClock};
use uuid::Uuid;

use super::super::error::{Result, corrupt};
use super::body::RecordBody;

/// A hash, as it is stored.
pub(super) type RecordHash = [u8; 32];
/// What the first record of a chain follows.
pub(super) const CHAIN_START: RecordHash = [0; 32];

/// The hash of a record that follows another.
pub(super) fn record_hash(before: &RecordHash, body: &str) -> RecordHash {
    *blake3::Hasher::new().update(before).update(body.as_bytes()).finalize().as_bytes()
}

/// How far an instance's chain has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Chain {
    pub(super) uuid: Uuid,
    /// Its row, from the first record on.
    pub(super) row_id: Option<i64>,
    pub(super) seq: i64,
    pub(super) hash: RecordHash,
    /// How many records of its spool are in.
    pub(in super::super) spooled: i64,
}

impl Chain {
    /// One without a record.
    pub(super) fn new(uuid: Uuid) -> Self {
        Chain { uuid, row_id: None, seq: 0, hash: CHAIN_START, spooled: 0 }
    }

    /// As it lies in the database.
    pub(super) fn load(conn: &Connection, uuid: Uuid) -> Result<Self> {
        let found = conn
            .prepare_cached("SELECT id, seq, hash, spooled FROM audit_instance WHERE uuid = ?1")?
            .query_row([uuid.to_string()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?, row.get(3)?))
            })
            .optional()?;
        let Some((row, saved, hash, spooled)) = found else { return Ok(Chain::new(uuid)) };
        // A change adds to the chain without touching the row. The newest is near the end: whoever asks does so soon.
        let newest = conn
            .prepare_cached("SELECT seq, hash FROM audit WHERE instance = ?1 ORDER BY id DESC LIMIT 1")?
            .query_row([row], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (seq, hash): (i64, Vec<u8>) = newest.filter(|(seq, _)| *seq > saved).unwrap_or((saved, hash));
        let hash = hash.try_into().map_err(|_| corrupt("the audit has a hash of a wrong length"))?;
        Ok(Chain { uuid, row_id: Some(row), seq, hash, spooled })
    }

    /// Makes the row say how far it has come: with its spool, and when it is signed.
    pub(in super::super) fn save(&self, conn: &Connection) -> Result<()> {
        conn.prepare_cached("UPDATE audit_instance SET seq = ?2, hash = ?3, spooled = ?4 WHERE id = ?1")?
            .execute(params![self.row_id, self.seq, self.hash, self.spooled])?;
        Ok(())
    }

    /// Its row, made if there is none.
    pub(super) fn ensure_row(&mut self, conn: &Connection) -> Result<i64> {
        if let Some(row) = self.row_id {
            return Ok(row);
        }
        let row = conn
            .prepare_cached("INSERT INTO audit_instance(uuid, seq, hash, spooled) VALUES (?1, 0, ?2, 0)")?
            .insert(params![self.uuid.to_string(), CHAIN_START])?;
        self.row_id = Some(row);
        Ok(row)
    }
}

/// Adding to chains, in one write transaction.
#[derive(Debug, Default)]
pub(in super::super) struct ChainAppender {
    /// The newest record of the database, once it was asked for.
    newest_id: Option<i64>,
    /// Where a record's text is put together.
    body: String,
}

impl ChainAppender {
    /// Puts a record at the end of a chain.
    pub(in super::super) fn append(
        &mut self,
        conn: &Connection,
        chain: &mut Chain,
        facts: &RecordBody,
    ) -> Result<()> {
        let newest = match self.newest_id {
            Some(newest) => newest,
            None => conn
                .prepare_cached("SELECT id FROM audit ORDER BY id DESC LIMIT 1")?
                .query_row([], |row| row.get(0))
                .optional()?
                .unwrap_or(0),
        };
        // By time, so that what is asked for by time lies together; and always after all that is there.
        let id = (newest + 1).max(SystemClock.now().0 / 1_000);
        let row = chain.ensure_row(conn)?;
        let seq = chain.seq + 1;
        facts.write_at(&chain.uuid, seq, &mut self.body);
        let (body, hash) = (&self.body, record_hash(&chain.hash, &self.body));
        conn.prepare_cached("INSERT INTO audit(id, instance, seq, hash, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![id, row, seq, hash, body])?;
        self.newest_id = Some(id);
        (chain.seq, chain.hash) = (seq, hash);
        Ok(())
    }

    /// What was added is void: it is asked for anew what the newest is.
    pub(in super::super) fn forget_newest(&mut self) {
        self.newest_id = None;
    }
}
