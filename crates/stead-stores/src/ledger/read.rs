//! Reads the ledger.

use rusqlite::params;
use stead_core::store::{
    CompanionRecords, LeaseId, RecordKind, RecordQuery, Revision, RevisionNumber, RevisionQuery, StoredRecord,
};
use stead_core::{Operation, OperationId, StoreResult, Timestamp};

use crate::database::companion;
use crate::database::error::Result;
use crate::database::newest_revision;
use crate::ledger::usage::usage_of;
use crate::ledger::{
    LedgerIntent, LedgerReader, LedgerRow, PendingIntent, SqliteLedger, StoredLedgerRow, UsageCounter,
};
use crate::threads::rows;
use crate::virtual_store::history::{
    newest_revision_at, operation_of, revision_numbers_of, undo_links, undoable_operations,
};
use crate::virtual_store::unchanged;

impl LedgerReader for SqliteLedger {
    fn has_audit_log(&self) -> bool {
        self.database.has_audit_log()
    }

    fn check_lease(&self, lease: LeaseId) -> StoreResult<()> {
        Ok(rows::check_lease(&*self.database.reader()?, lease)?)
    }

    fn directories(&self) -> StoreResult<Vec<String>> {
        let list = || -> Result<Vec<String>> {
            let reader = self.database.reader()?;
            let mut statement =
                reader.prepare_cached("SELECT DISTINCT identity FROM ledger_directory WHERE volume = ?1")?;
            let rows = statement.query_map([self.volume], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        Ok(list()?)
    }

    fn rows(&self, before: (i64, i64), limit: usize) -> StoreResult<Vec<StoredLedgerRow>> {
        Ok(self.read_rows(before, limit)?)
    }

    fn rows_with_content(&self) -> StoreResult<Vec<((i64, i64), Timestamp)>> {
        Ok(self.read_rows_with_content()?)
    }

    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        Ok(RevisionNumber(newest_revision(&*self.database.reader()?)?))
    }

    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        Ok(newest_revision_at(&*self.database.reader()?, time)?)
    }

    fn operation(&self, revision: i64) -> StoreResult<Option<Operation>> {
        Ok(operation_of(&*self.database.reader()?, revision)?)
    }

    fn oldest_revision(&self, query: &RevisionQuery) -> StoreResult<Option<i64>> {
        Ok(self.read_oldest_revision(query)?)
    }

    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        let has_event_sql = "SELECT 1 FROM ledger_event WHERE volume = ?1 AND revision = ?2 LIMIT 1";
        let reader = self.database.reader()?;
        let found = undoable_operations(&reader, self.volume, agent, since, limit, |conn, revision| {
            Ok(conn.prepare_cached(has_event_sql)?.exists([self.volume, revision])?
                || unchanged::is_unchanged_revision(conn, self.volume, revision)?)
        });
        Ok(found?)
    }

    fn add_unchanged(&self, query: &RevisionQuery, found: &mut Vec<Revision>) -> StoreResult<()> {
        Ok(unchanged::add_unchanged_revisions(&*self.database.reader()?, self.volume, query, found)?)
    }

    fn undo_links(&self, operation: &Operation) -> StoreResult<(Vec<OperationId>, bool)> {
        Ok(undo_links(&*self.database.reader()?, self.volume, operation)?)
    }

    fn pending_intents(&self) -> StoreResult<Vec<PendingIntent>> {
        Ok(self.read_pending_intents()?)
    }

    fn counters(&self) -> StoreResult<Vec<(Vec<u8>, UsageCounter)>> {
        Ok(self.read_counters()?)
    }
}

impl CompanionRecords for SqliteLedger {
    fn record(&self, kind: &RecordKind, key: &str) -> StoreResult<Option<StoredRecord>> {
        Ok(companion::find_record(&*self.database.reader()?, self.volume, kind, key)?)
    }

    fn records(&self, kind: &RecordKind, query: &RecordQuery) -> StoreResult<Vec<StoredRecord>> {
        Ok(companion::list_records(&*self.database.reader()?, self.volume, kind, query)?)
    }
}

impl SqliteLedger {
    fn read_rows(&self, before: (i64, i64), limit: usize) -> Result<Vec<StoredLedgerRow>> {
        let reader = self.database.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT revision, seq, kind, path, other_path, detail, displaced, hash FROM ledger_event
             WHERE volume = ?1 AND (revision, seq) < (?2, ?3) ORDER BY revision DESC, seq DESC LIMIT ?4",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![self.volume, before.0, before.1, limit], |row| {
            let event = LedgerRow {
                seq: row.get(1)?,
                kind: row.get(2)?,
                path: row.get(3)?,
                other_path: row.get(4)?,
                detail_json: row.get(5)?,
                displaced_kept: row.get(6)?,
            };
            Ok(StoredLedgerRow { revision: row.get(0)?, row: event, content_hash: row.get(7)? })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn read_rows_with_content(&self) -> Result<Vec<((i64, i64), Timestamp)>> {
        let reader = self.database.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT k.revision, k.seq, ifnull(v.at, 0) FROM ledger_event k LEFT JOIN revision v ON v.id = k.revision
             WHERE k.volume = ?1 AND k.displaced = 1 ORDER BY k.revision DESC, k.seq DESC",
        )?;
        let rows = statement
            .query_map([self.volume], |row| Ok(((row.get(0)?, row.get(1)?), Timestamp(row.get(2)?))))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn read_oldest_revision(&self, query: &RevisionQuery) -> Result<Option<i64>> {
        let reader = self.database.reader()?;
        if let Some(operations) = &query.operations {
            let revisions = revision_numbers_of(&reader, operations)?;
            let is_in_range = |revision: &i64| *revision > query.after.0 && *revision <= query.up_to.0;
            return Ok(revisions.into_iter().filter(is_in_range).min());
        }
        let mut statement = reader.prepare_cached(
            "SELECT min(id) FROM revision WHERE id > ?1 AND id <= ?2 AND (?3 IS NULL OR agent = ?3)
               AND (?4 IS NULL OR at >= ?4)",
        )?;
        let since = query.since.map(|time| time.0);
        let bounds = params![query.after.0, query.up_to.0, query.agent, since];
        Ok(statement.query_row(bounds, |row| row.get(0))?)
    }

    fn read_pending_intents(&self) -> Result<Vec<PendingIntent>> {
        let reader = self.database.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT revision, seq, staging_dir, intent_log, undo FROM intent WHERE volume = ?1 ORDER BY revision, seq",
        )?;
        let rows = statement.query_map([self.volume], |row| {
            let intent_log_epoch = row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned);
            let intent = LedgerIntent { seq: row.get(1)?, intent_log_epoch, undo_json: row.get(4)? };
            Ok(PendingIntent { revision: row.get(0)?, staging_dir: row.get(2)?, intent })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn read_counters(&self) -> Result<Vec<(Vec<u8>, UsageCounter)>> {
        let reader = self.database.reader()?;
        let mut statement = reader
            .prepare_cached("SELECT path, bytes, files, at, dirty FROM ledger_usage WHERE volume = ?1")?;
        let rows = statement.query_map([self.volume], |row| {
            let usage = usage_of(row.get(1)?, row.get(2)?);
            Ok((
                row.get(0)?,
                UsageCounter { usage, counted_at: Timestamp(row.get(3)?), is_stale: row.get(4)? },
            ))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
