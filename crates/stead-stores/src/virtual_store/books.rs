//! The books of a Physical Store: its intents, its deeds and what it counts, in tables of a database.
//!
//! An entry is made before its action, in one transaction with all that belongs to it. That the action has happened is
//! written along with whatever is written next: until then the entry is an intent, which the next one to open the
//! directory compares with what is there.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{OptionalExtension, params};
use stead_core::store::{DeedQuery, QuotaRoot, Record, Usage, Version};
use stead_core::{
    AuditOutcome, AuditRecord, Clock, LogId, Operation, OperationId, StoreError, StoreResult, SystemClock,
    Timestamp,
};

use super::Database;
use super::batch::Writing;
use super::database::{Shared, newest};
use super::fault::{Fault, Result};
use super::history::{operation_of, taken_back, version_before};
use super::queue::Weight;

/// How many rows are read at once.
pub(crate) const PAGE: usize = 256;

/// The books of one directory.
#[derive(Debug)]
pub(crate) struct Books {
    shared: Arc<Shared>,
    vol: i64,
    settled: Mutex<Settled>,
}

/// What has come to its end since the last transaction.
#[derive(Debug, Clone, Default)]
struct Settled {
    made: Vec<i64>,
    withdrawn: Vec<Withdrawal>,
}

/// What a version did to one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) seq: i64,
    pub(crate) what: i64,
    pub(crate) path: Vec<u8>,
    pub(crate) other: Option<Vec<u8>>,
    pub(crate) detail: String,
    /// Whether what it displaced is kept.
    pub(crate) stashed: bool,
}

/// A row that was written earlier.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) version: i64,
    pub(crate) row: Row,
    pub(crate) hash: Option<[u8; 32]>,
}

/// An action that is about to happen, or may have.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    pub(crate) seq: i64,
    /// The use of a journal that tells how it went.
    pub(crate) journal: Option<u64>,
    pub(crate) undo: String,
}

/// An intent of some room, found again.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) version: i64,
    pub(crate) room: String,
    pub(crate) intent: Intent,
}

/// How much a counter changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) path: Vec<u8>,
    pub(crate) bytes: i64,
    pub(crate) files: i64,
}

/// All that is written before an action.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) operation: Operation,
    /// The change's version, if it has one already.
    pub(crate) version: Option<i64>,
    pub(crate) room: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) intents: Vec<Intent>,
    /// Counters that begin with this change, or begin again, and what they start with.
    pub(crate) begun: Vec<(Vec<u8>, Usage)>,
    pub(crate) deltas: Vec<Delta>,
    pub(crate) quotas: Vec<QuotaRoot>,
    pub(crate) records: Vec<Record>,
}

/// An entry to be taken back.
#[derive(Debug, Clone)]
pub(crate) struct Withdrawal {
    pub(crate) version: i64,
    pub(crate) operation: OperationId,
    pub(crate) deltas: Vec<Delta>,
    /// What was written down along with it, and why it is not so.
    pub(crate) records: Vec<Record>,
    pub(crate) outcome: AuditOutcome,
}

/// What a counter says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) usage: Usage,
    /// When everything was last looked at.
    pub(crate) at: Timestamp,
    pub(crate) dirty: bool,
}

impl Database {
    /// The books of a directory; `None` where it has none yet and none are to be begun.
    pub(crate) fn books(&self, directory: &str, begin: bool) -> StoreResult<Option<Books>> {
        let namespace = format!("{{\"directory\":\"{directory}\"}}");
        let find = |conn: &rusqlite::Connection| -> Result<Option<i64>> {
            let found = conn
                .prepare_cached("SELECT id FROM volume WHERE namespace = ?1")?
                .query_row([&namespace], |row| row.get(0));
            Ok(found.optional()?)
        };
        let found = find(&*self.0.reader()?)?;
        let vol = match found {
            Some(vol) => vol,
            None if !begin => return Ok(None),
            None => self.0.write(Weight::Staging, {
                let namespace = namespace.clone();
                move |writing| {
                    writing
                        .conn
                        .prepare_cached("INSERT OR IGNORE INTO volume(namespace, root) VALUES (?1, 0)")?
                        .execute([&namespace])?;
                    let id = writing
                        .conn
                        .prepare_cached("SELECT id FROM volume WHERE namespace = ?1")?
                        .query_row([&namespace], |row| row.get(0))?;
                    Ok(id)
                }
            })?,
        };
        Ok(Some(Books { shared: Arc::clone(&self.0), vol, settled: Mutex::default() }))
    }
}

impl Books {
    /// The log that records go to.
    pub(crate) fn log(&self) -> Option<LogId> {
        self.shared.log()
    }

    /// Writes down what is about to happen, and returns the version that it makes, if it changes anything.
    pub(crate) fn enter(&self, entry: Entry) -> StoreResult<Option<i64>> {
        self.settling(Weight::Change, move |writing, vol| enter(writing, vol, &entry))
    }

    /// Says that a change was made. That is written along with the next entry.
    pub(crate) fn made(&self, version: i64) {
        self.settled.lock().made.push(version);
    }

    /// Takes an entry back. Where the database fails, it is tried again with the next entry.
    pub(crate) fn withdraw(&self, withdrawal: Withdrawal) -> StoreResult<()> {
        self.settled.lock().withdrawn.push(withdrawal);
        self.settling(Weight::Change, |_, _| Ok(()))
    }

    /// Writes what is left to be written.
    pub(crate) fn flush(&self) -> StoreResult<()> {
        let settled = self.settled.lock();
        if settled.made.is_empty() && settled.withdrawn.is_empty() {
            return Ok(());
        }
        drop(settled);
        self.settling(Weight::Staging, |_, _| Ok(()))
    }

    /// Has `work` done in a transaction, along with what has come to its end.
    fn settling<T: Send + 'static>(
        &self,
        weight: Weight,
        work: impl FnOnce(&mut Writing<'_>, i64) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let settled = std::mem::take(&mut *self.settled.lock());
        let (vol, settles) = (self.vol, settled.clone());
        let done = self.shared.write(weight, move |writing| {
            settles.write(writing, vol)?;
            work(writing, vol)
        });
        if done.is_err() {
            let mut unsettled = self.settled.lock();
            unsettled.made.extend(settled.made);
            unsettled.withdrawn.extend(settled.withdrawn);
        }
        done
    }

    /// More rows of a version, for what was found out about it later.
    pub(crate) fn add(&self, version: i64, rows: Vec<Row>) -> StoreResult<()> {
        self.settling(Weight::Staging, move |writing, vol| insert(writing, vol, version, &rows))
    }

    /// The next rows, newest first, after `(version, seq)`.
    pub(crate) fn rows(&self, before: (i64, i64), limit: usize) -> StoreResult<Vec<Told>> {
        Ok(self.read_rows(before, limit)?)
    }

    fn read_rows(&self, before: (i64, i64), limit: usize) -> Result<Vec<Told>> {
        let reader = self.shared.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT ver, seq, what, path, other, detail, stashed, hash FROM kept
             WHERE vol = ?1 AND (ver, seq) < (?2, ?3) ORDER BY ver DESC, seq DESC LIMIT ?4",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![self.vol, before.0, before.1, limit], |row| {
            let told = Row {
                seq: row.get(1)?,
                what: row.get(2)?,
                path: row.get(3)?,
                other: row.get(4)?,
                detail: row.get(5)?,
                stashed: row.get(6)?,
            };
            Ok(Told { version: row.get(0)?, row: told, hash: row.get(7)? })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The rows that have displaced something which is kept, newest first, and when that was.
    pub(crate) fn stashed(&self) -> StoreResult<Vec<((i64, i64), Timestamp)>> {
        Ok(self.read_stashed()?)
    }

    fn read_stashed(&self) -> Result<Vec<((i64, i64), Timestamp)>> {
        let reader = self.shared.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT k.ver, k.seq, v.at FROM kept k JOIN version v ON v.id = k.ver
             WHERE k.vol = ?1 AND k.stashed = 1 ORDER BY k.ver DESC, k.seq DESC",
        )?;
        let rows = statement
            .query_map([self.vol], |row| Ok(((row.get(0)?, row.get(1)?), Timestamp(row.get(2)?))))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The rows of one version.
    pub(crate) fn rows_of(&self, version: i64) -> StoreResult<Vec<Told>> {
        let mut rows = Vec::new();
        let mut before = (version, i64::MAX);
        loop {
            let page = self.rows(before, PAGE)?;
            let Some(last) = page.last() else { return Ok(rows) };
            before = (last.version, last.row.seq);
            let more = before.0 == version;
            rows.extend(page.into_iter().filter(|told| told.version == version));
            if !more {
                return Ok(rows);
            }
        }
    }

    /// The newest version that did something to the directory.
    pub(crate) fn last(&self) -> StoreResult<i64> {
        Ok(self.rows((i64::MAX, i64::MAX), 1)?.first().map_or(0, |told| told.version))
    }

    /// The newest version of the database.
    pub(crate) fn version(&self) -> StoreResult<Version> {
        Ok(Version(newest(&*self.shared.reader()?)?))
    }

    /// The version that was the newest at that time.
    pub(crate) fn version_at(&self, time: Timestamp) -> StoreResult<Version> {
        Ok(version_before(&*self.shared.reader()?, time)?)
    }

    /// The operation that made a version.
    pub(crate) fn operation(&self, version: i64) -> StoreResult<Option<Operation>> {
        Ok(operation_of(&*self.shared.reader()?, version)?)
    }

    /// The oldest version of the operations that a query asks for.
    pub(crate) fn oldest(&self, query: &DeedQuery) -> StoreResult<Option<i64>> {
        Ok(self.read_oldest(query)?)
    }

    fn read_oldest(&self, query: &DeedQuery) -> Result<Option<i64>> {
        let reader = self.shared.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT min(id) FROM version WHERE id > ?1 AND id <= ?2 AND (?3 IS NULL OR agent = ?3)
               AND (?4 IS NULL OR operation = ?4) AND (?5 IS NULL OR at >= ?5)",
        )?;
        let (after, upto) = (query.after.0, query.upto.0);
        let (operation, since) = (query.operation.as_ref().map(OperationId::as_bytes), query.since);
        let oldest = statement
            .query_row(params![after, upto, query.agent, operation, since.map(|at| at.0)], |row| {
                row.get(0)
            })?;
        Ok(oldest)
    }

    /// What an operation took back, and whether it has been taken back itself.
    pub(crate) fn taken_back(&self, operation: &Operation) -> StoreResult<(Vec<OperationId>, bool)> {
        Ok(taken_back(&*self.shared.reader()?, operation)?)
    }

    /// All intents, of whatever room.
    pub(crate) fn pending(&self) -> StoreResult<Vec<Pending>> {
        Ok(self.read_pending()?)
    }

    fn read_pending(&self) -> Result<Vec<Pending>> {
        let reader = self.shared.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT ver, seq, room, journal, undo FROM intent WHERE vol = ?1 ORDER BY ver, seq",
        )?;
        let rows = statement.query_map([self.vol], |row| {
            let journal = row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned);
            let intent = Intent { seq: row.get(1)?, journal, undo: row.get(4)? };
            Ok(Pending { version: row.get(0)?, room: row.get(2)?, intent })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Ends the intents of dead rooms: those that were made, and those that were not. What was counted for the latter
    /// has to be counted again.
    pub(crate) fn reconcile(&self, made: Vec<i64>, undone: Vec<i64>) -> StoreResult<()> {
        self.settling(Weight::Change, move |writing, vol| {
            for version in made.iter().chain(&undone) {
                forget_intents(writing, vol, *version)?;
            }
            for version in &undone {
                forget_rows(writing, vol, *version)?;
            }
            if !undone.is_empty() {
                writing.conn.execute("UPDATE counted SET dirty = 1 WHERE vol = ?1", [vol])?;
            }
            Ok(())
        })
    }

    /// Says that what these rows displaced is not kept any more.
    pub(crate) fn dropped(&self, rows: Vec<(i64, i64)>) -> StoreResult<()> {
        self.settling(Weight::Staging, move |writing, vol| {
            let mut statement = writing.conn.prepare_cached(
                "UPDATE kept SET stashed = 0, hash = NULL WHERE vol = ?1 AND ver = ?2 AND seq = ?3",
            )?;
            for (version, seq) in rows {
                statement.execute([vol, version, seq])?;
            }
            Ok(())
        })
    }

    /// Remembers the hash of what a row displaced.
    pub(crate) fn hashed(&self, version: i64, seq: i64, hash: [u8; 32]) -> StoreResult<()> {
        self.settling(Weight::Staging, move |writing, vol| {
            writing
                .conn
                .prepare_cached("UPDATE kept SET hash = ?4 WHERE vol = ?1 AND ver = ?2 AND seq = ?3")?
                .execute(params![vol, version, seq, hash])?;
            Ok(())
        })
    }

    /// What is counted, and where.
    pub(crate) fn counters(&self) -> StoreResult<Vec<(Vec<u8>, Counter)>> {
        Ok(self.read_counters()?)
    }

    fn read_counters(&self) -> Result<Vec<(Vec<u8>, Counter)>> {
        let reader = self.shared.reader()?;
        let mut statement =
            reader.prepare_cached("SELECT path, bytes, files, at, dirty FROM counted WHERE vol = ?1")?;
        let rows = statement.query_map([self.vol], |row| {
            let usage = usage(row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, Counter { usage, at: Timestamp(row.get(3)?), dirty: row.get(4)? }))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Corrects a counter by what was found, unless it has changed while that was counted.
    pub(crate) fn recounted(
        &self,
        path: Vec<u8>,
        was: Usage,
        found: Usage,
        at: Timestamp,
    ) -> StoreResult<()> {
        self.settling(Weight::Staging, move |writing, vol| {
            writing
                .conn
                .prepare_cached(
                    "UPDATE counted SET bytes = ?5, files = ?6, at = ?7, dirty = 0
                     WHERE vol = ?1 AND path = ?2 AND bytes = ?3 AND files = ?4",
                )?
                .execute(params![
                    vol,
                    path,
                    was.bytes.cast_signed(),
                    was.files.cast_signed(),
                    found.bytes.cast_signed(),
                    found.files.cast_signed(),
                    at.0
                ])?;
            Ok(())
        })
    }

    /// Closes the books: nothing in them is known any more.
    pub(crate) fn destroy(&self) -> StoreResult<()> {
        *self.settled.lock() = Settled::default();
        self.shared.write(Weight::Change, {
            let vol = self.vol;
            move |writing| {
                for table in ["kept", "intent", "counted"] {
                    writing.conn.execute(&format!("DELETE FROM {table} WHERE vol = ?1"), [vol])?;
                }
                writing.conn.execute("DELETE FROM volume WHERE id = ?1", [vol])?;
                Ok(())
            }
        })
    }
}

impl Settled {
    fn write(&self, writing: &mut Writing<'_>, vol: i64) -> Result<()> {
        for &version in &self.made {
            forget_intents(writing, vol, version)?;
        }
        for Withdrawal { version, operation, deltas, records, outcome } in &self.withdrawn {
            forget_intents(writing, vol, *version)?;
            forget_rows(writing, vol, *version)?;
            for delta in deltas {
                count(writing, vol, &delta.path, -delta.bytes, -delta.files)?;
            }
            for record in records {
                take_back(writing, record, operation, *outcome)?;
            }
        }
        Ok(())
    }
}

fn enter(writing: &mut Writing<'_>, vol: i64, entry: &Entry) -> Result<Option<i64>> {
    let version = match entry.version {
        None if !entry.rows.is_empty() => Some(writing.new_version(&entry.operation)?),
        version => version,
    };
    if let Some(version) = version {
        insert(writing, vol, version, &entry.rows)?;
    }
    let mut statement = writing.conn.prepare_cached(
        "INSERT INTO intent(vol, ver, seq, room, journal, undo) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for Intent { seq, journal, undo } in &entry.intents {
        let journal = journal.map(u64::cast_signed);
        statement.execute(params![vol, version, seq, entry.room, journal, undo])?;
    }
    drop(statement);
    for (path, found) in &entry.begun {
        writing
            .conn
            .prepare_cached("INSERT OR REPLACE INTO counted(vol, path, bytes, files, at, dirty) VALUES (?1, ?2, ?3, ?4, ?5, 0)")?
            .execute(params![
                vol,
                path,
                found.bytes.cast_signed(),
                found.files.cast_signed(),
                SystemClock.now().0
            ])?;
    }
    for delta in &entry.deltas {
        count(writing, vol, &delta.path, delta.bytes, delta.files)?;
    }
    for quota in &entry.quotas {
        judge(writing, vol, quota, &entry.deltas)?;
    }
    writing.write_down(&entry.records, &entry.operation, version)?;
    Ok(version)
}

/// Writes down that what was written down has not happened.
fn take_back(
    writing: &mut Writing<'_>,
    record: &Record,
    operation: &OperationId,
    outcome: AuditOutcome,
) -> Result<()> {
    match record {
        Record::Audit { record, began } => {
            let took = began.elapsed();
            writing.record(&AuditRecord { outcome, version: None, took, ..(**record).clone() })?;
        }
        Record::Undoes(operations) => {
            for undone in operations {
                writing
                    .conn
                    .prepare_cached("DELETE FROM undone WHERE operation = ?1 AND by = ?2")?
                    .execute([undone.as_bytes(), operation.as_bytes()])?;
            }
        }
    }
    Ok(())
}

fn insert(writing: &mut Writing<'_>, vol: i64, version: i64, rows: &[Row]) -> Result<()> {
    let mut statement = writing.conn.prepare_cached(
        "INSERT INTO kept(vol, ver, seq, what, path, other, detail, stashed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for row in rows {
        statement.execute(params![
            vol,
            version,
            row.seq,
            row.what,
            row.path,
            row.other,
            row.detail,
            row.stashed
        ])?;
    }
    Ok(())
}

fn count(writing: &mut Writing<'_>, vol: i64, path: &[u8], bytes: i64, files: i64) -> Result<()> {
    writing
        .conn
        .prepare_cached(
            "UPDATE counted SET bytes = max(0, bytes + ?3), files = max(0, files + ?4) WHERE vol = ?1 AND path = ?2",
        )?
        .execute(params![vol, path, bytes, files])?;
    Ok(())
}

fn judge(writing: &mut Writing<'_>, vol: i64, quota: &QuotaRoot, deltas: &[Delta]) -> Result<()> {
    let path = quota.at.as_bytes();
    let after = writing
        .conn
        .prepare_cached("SELECT bytes, files FROM counted WHERE vol = ?1 AND path = ?2")?
        .query_row(params![vol, path], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?
        .ok_or_else(|| {
            Fault::Store(StoreError::unavailable("what a quota counts was given up; try again"))
        })?;
    let delta = deltas.iter().find(|delta| delta.path == path);
    let (bytes, files) = delta.map_or((0, 0), |delta| (delta.bytes, delta.files));
    quota.check(usage(after.0 - bytes, after.1 - files), usage(after.0, after.1))?;
    Ok(())
}

fn usage(bytes: i64, files: i64) -> Usage {
    let positive = |count: i64| u64::try_from(count).unwrap_or(0);
    Usage { bytes: positive(bytes), files: positive(files) }
}

fn forget_intents(writing: &mut Writing<'_>, vol: i64, version: i64) -> Result<()> {
    writing.conn.prepare_cached("DELETE FROM intent WHERE vol = ?1 AND ver = ?2")?.execute([vol, version])?;
    Ok(())
}

fn forget_rows(writing: &mut Writing<'_>, vol: i64, version: i64) -> Result<()> {
    writing.conn.prepare_cached("DELETE FROM kept WHERE vol = ?1 AND ver = ?2")?.execute([vol, version])?;
    Ok(())
}
