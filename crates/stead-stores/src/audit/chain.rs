//! A chain of records: each hash covers the record and the hash before it.

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::{Clock, SystemClock};
use uuid::Uuid;

use crate::audit::body::RecordBody;
use crate::database::error::{Result, corrupt};

/// A BLAKE3 hash, as stored.
pub(crate) type RecordHash = [u8; 32];
/// The hash that the first record of a chain follows.
pub(crate) const CHAIN_START: RecordHash = [0; 32];

/// The hash of a record whose predecessor has the hash `before`.
pub(crate) fn record_hash(before: &RecordHash, body: &str) -> RecordHash {
    *blake3::Hasher::new().update(before).update(body.as_bytes()).finalize().as_bytes()
}

/// The state of an instance's chain: its last position and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) uuid: Uuid,
    /// Its row in `audit_instance`; `None` before the first record.
    pub(crate) row_id: Option<i64>,
    pub(crate) seq: i64,
    pub(crate) hash: RecordHash,
    /// How many entries of the instance's spool are in the chain.
    pub(crate) spooled: i64,
}

impl Chain {
    /// A chain without records.
    pub(crate) fn new(uuid: Uuid) -> Self {
        Chain { uuid, row_id: None, seq: 0, hash: CHAIN_START, spooled: 0 }
    }

    /// Loads the chain as the database holds it; an empty chain if the database has no row for it.
    pub(crate) fn load(conn: &Connection, uuid: Uuid) -> Result<Self> {
        let found = conn
            .prepare_cached("SELECT id, seq, hash, spooled FROM audit_instance WHERE uuid = ?1")?
            .query_row([uuid.to_string()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?, row.get(3)?))
            })
            .optional()?;
        let Some((row, saved_seq, hash, spooled)) = found else { return Ok(Chain::new(uuid)) };
        // A change adds a record without updating the instance's row. There is no index by instance: the search goes
        // back from the newest record, and is short because a chain is usually loaded soon after its last record.
        let newest = conn
            .prepare_cached("SELECT seq, hash FROM audit WHERE instance = ?1 ORDER BY id DESC LIMIT 1")?
            .query_row([row], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (seq, hash): (i64, Vec<u8>) =
            newest.filter(|(seq, _)| *seq > saved_seq).unwrap_or((saved_seq, hash));
        let hash = hash.try_into().map_err(|_| corrupt("a hash in the audit has the wrong length"))?;
        Ok(Chain { uuid, row_id: Some(row), seq, hash, spooled })
    }

    /// Updates the instance's row. This happens only with spooled records and when the chain is signed, not with every
    /// change.
    pub(crate) fn save(&self, conn: &Connection) -> Result<()> {
        conn.prepare_cached("UPDATE audit_instance SET seq = ?2, hash = ?3, spooled = ?4 WHERE id = ?1")?
            .execute(params![self.row_id, self.seq, self.hash, self.spooled])?;
        Ok(())
    }

    /// Returns the id of its row, which is inserted if there is none.
    pub(crate) fn ensure_row(&mut self, conn: &Connection) -> Result<i64> {
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

/// Appends records to chains in one write transaction.
#[derive(Debug, Default)]
pub(crate) struct ChainAppender {
    /// The id of the newest record in the database, once it was looked up.
    newest_id: Option<i64>,
    /// A buffer in which a record's text is put together.
    body: String,
}

impl ChainAppender {
    /// Appends a record to a chain, and advances the chain in memory.
    pub(crate) fn append(
        &mut self,
        conn: &Connection,
        chain: &mut Chain,
        record_body: &RecordBody,
    ) -> Result<()> {
        let newest = match self.newest_id {
            Some(newest) => newest,
            None => conn
                .prepare_cached("SELECT id FROM audit ORDER BY id DESC LIMIT 1")?
                .query_row([], |row| row.get(0))
                .optional()?
                .unwrap_or(0),
        };
        // The id is the time in microseconds, so that records of one time lie together; and always greater than every
        // other id.
        let id = (newest + 1).max(SystemClock.now().0 / 1_000);
        let row = chain.ensure_row(conn)?;
        let seq = chain.seq + 1;
        record_body.write_at(&chain.uuid, seq, &mut self.body);
        let (body, hash) = (&self.body, record_hash(&chain.hash, &self.body));
        conn.prepare_cached("INSERT INTO audit(id, instance, seq, hash, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![id, row, seq, hash, body])?;
        self.newest_id = Some(id);
        (chain.seq, chain.hash) = (seq, hash);
        Ok(())
    }

    /// Has the newest id looked up again, after a savepoint with appended records was rolled back.
    pub(crate) fn reset_newest_id(&mut self) {
        self.newest_id = None;
    }
}
