//! Companion records: the one place that writes them for every kind of Store, takes them back, and reads them.
//!
//! A row of a change that may still be rolled back is pending: it stands above the row that it replaces, which stays until the
//! change is known to be made. The newest row of a key counts. On a Virtual Store no row is ever pending.

use rusqlite::{Connection, OptionalExtension, Row, params};
use stead_core::store::{
    Attr, CompanionRecord, CompanionRow, NodeId, NodePath, RecordKind, RecordQuery, RevisionNumber,
    RowAction, StorePath, StoredRecord, VersionTag,
};
use stead_core::{AuditOutcome, Operation, OperationId, StoreError, StoreResult};

use crate::audit::{ChangeDigest, RecordBody, compensating};
use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::manifest::ManifestChange;
use crate::database::schema::UNRECORDED;
use crate::threads::rows;
use crate::virtual_store::fork_sync;

/// The steps that rows are filled from: by their indexes, with what the rows get once a step is applied. A change may have one
/// for each of its steps.
#[derive(Debug, Default)]
pub(crate) struct FilledSteps(Vec<(usize, FilledStep)>);

#[derive(Debug, Default)]
struct FilledStep {
    path: StorePath,
    outcome: Option<FilledOutcome>,
}

/// What a step left.
#[derive(Debug, Clone, Copy)]
struct FilledOutcome {
    node: NodeId,
    size: u64,
    tag: VersionTag,
}

impl FilledSteps {
    /// The steps that the rows among the records name, of a change with this many steps.
    pub(crate) fn of(records: &[CompanionRecord], step_count: usize) -> StoreResult<Self> {
        let step_of = |record: &CompanionRecord| match record {
            CompanionRecord::Row(row) => row.step(),
            _ => None,
        };
        let mut filled = Vec::with_capacity(records.iter().filter_map(step_of).count());
        for index in records.iter().filter_map(step_of) {
            if index >= step_count {
                return Err(StoreError::Invalid(
                    "a companion record names a step that the change doesn't have".into(),
                ));
            }
            filled.push((index, FilledStep::default()));
        }
        filled.sort_unstable_by_key(|(index, _)| *index);
        filled.dedup_by_key(|(index, _)| *index);
        Ok(FilledSteps(filled))
    }

    fn position(&self, step: usize) -> Option<usize> {
        self.0.binary_search_by_key(&step, |(index, _)| *index).ok()
    }

    /// Finds the step's path from the root, before the step is applied. `path_of_node` is asked if the path starts at
    /// another node.
    pub(crate) fn begin<E>(
        &mut self,
        step: usize,
        at: &NodePath,
        path_of_node: impl FnOnce(NodeId) -> std::result::Result<StorePath, E>,
    ) -> std::result::Result<(), E> {
        if let Some(position) = self.position(step) {
            let path =
                if at.base == NodeId::ROOT { at.path.clone() } else { path_of_node(at.base)?.join(&at.path) };
            self.0[position].1 = FilledStep { path, outcome: None };
        }
        Ok(())
    }

    /// Takes the attributes that the step left.
    pub(crate) fn finish(&mut self, step: usize, attr: Option<Attr>) {
        if let Some(position) = self.position(step) {
            let outcome = |Attr { node, size, tag, .. }| FilledOutcome { node, size, tag };
            self.0[position].1.outcome = attr.map(outcome);
        }
    }

    fn get(&self, step: Option<usize>) -> (Option<&StorePath>, Option<FilledOutcome>) {
        match step.and_then(|step| self.position(step)) {
            Some(position) => {
                let FilledStep { path, outcome } = &self.0[position].1;
                (Some(path), *outcome)
            }
            None => (None, None),
        }
    }
}

/// The records of one change.
pub(crate) struct ChangeRecords<'a> {
    pub(crate) volume: i64,
    pub(crate) operation: &'a Operation,
    /// The revision that the change made, if it made one.
    pub(crate) revision: Option<i64>,
    /// Whether this transaction made the revision.
    pub(crate) is_new_revision: bool,
    /// Whether the change may still be rolled back after this transaction.
    pub(crate) is_pending: bool,
    pub(crate) records: &'a [CompanionRecord],
    pub(crate) filled: &'a FilledSteps,
}

impl WriteTransaction<'_> {
    /// Refuses a change whose lease is gone or has expired. It comes before everything else that the change does: in a thread
    /// that has ended, its other errors would say only that nothing is there.
    pub(crate) fn check_leases(&self, records: &[CompanionRecord]) -> Result<()> {
        for record in records {
            if let CompanionRecord::Lease(lease) = record {
                rows::check_lease(self.conn, *lease)?;
            }
        }
        Ok(())
    }

    /// Writes the companion records of a change. The caller has called `check_leases` in the same transaction.
    pub(crate) fn write_records(&mut self, change: &ChangeRecords<'_>) -> Result<()> {
        let ChangeRecords { volume, operation, revision, records, .. } = *change;
        let is_audited = records.iter().any(|record| matches!(record, CompanionRecord::Audit { .. }));
        let digest = match revision.filter(|_| is_audited) {
            Some(revision) => Some(ChangeDigest::of(self.conn, volume, revision)?),
            None => None,
        };
        if !is_audited && change.is_new_revision && revision.is_some() {
            self.count_unrecorded(volume)?;
        }
        for record in records {
            match record {
                CompanionRecord::Audit { record, began } => {
                    let revision = revision.map(RevisionNumber);
                    self.append_body(&RecordBody::of_change(
                        record,
                        revision,
                        began.elapsed(),
                        digest.as_ref(),
                    ))?;
                }
                CompanionRecord::Undoes(operations) => {
                    for undone in operations {
                        self.conn
                            .prepare_cached(
                                "INSERT OR IGNORE INTO undone(volume, operation, undone_by) VALUES (?1, ?2, ?3)",
                            )?
                            .execute(params![volume, undone.as_bytes(), operation.id.as_bytes()])?;
                    }
                    ManifestChange { volume, operation, revision, records }
                        .take_back_tags(self.conn, operations)?;
                    if fork_sync::has_syncs(self.conn)? {
                        // The undo of a sync, or of its undo, may change what a fork of a host directory shows.
                        self.invalidate_directories()?;
                    }
                }
                CompanionRecord::Row(row) => write_row(self.conn, row, change)?,
                CompanionRecord::ForkSync(sync) => {
                    self.write_fork_sync(volume, operation, revision.is_some(), sync)?;
                }
                CompanionRecord::RestoresFork(restored) => {
                    if let Some(made) = revision {
                        self.restore_fork_bases(volume, operation, made, *restored)?;
                    }
                }
                CompanionRecord::Manifest(edit) => {
                    ManifestChange { volume, operation, revision, records }.edit(self.conn, edit)?;
                }
                // `check_leases` has checked the lease in this transaction, and the Store has written the manifest's rows.
                CompanionRecord::Lease(_) | CompanionRecord::Managed(_) | CompanionRecord::Returning(_) => {}
            }
        }
        Ok(())
    }

    /// Counts a revision that was just made and has no audit record. Revisions of captures and of mirrors of host directories
    /// don't count: the audit doesn't cover them.
    fn count_unrecorded(&mut self, volume: i64) -> Result<()> {
        self.conn
            .prepare_cached(
                "UPDATE meta SET value = value + 1
                 WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM capture_volume WHERE volume = ?2)
                   AND NOT EXISTS (SELECT 1 FROM volume WHERE id = ?2 AND substr(namespace, 1, 10) = '{\"mirror\":')",
            )?
            .execute([UNRECORDED, volume])?;
        Ok(())
    }

    /// Makes the rows of a change final: the rows that they replaced go.
    pub(crate) fn settle_records(&mut self, volume: i64, revision: i64) -> Result<()> {
        // Read first: few changes have rows, and an UPDATE that returns rows makes a table of its own for them.
        let mut statement = self.conn.prepare_cached(
            "SELECT id, kind, key FROM companion_record WHERE volume = ?1 AND revision = ?2 AND pending = 1",
        )?;
        let rows = statement.query_map([volume, revision], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })?;
        for row in rows.collect::<rusqlite::Result<Vec<_>>>()? {
            let (id, kind, key) = row;
            self.conn
                .prepare_cached("UPDATE companion_record SET pending = 0 WHERE id = ?1")?
                .execute([id])?;
            self.conn
                .prepare_cached(
                    "DELETE FROM companion_record
                     WHERE volume = ?1 AND kind = ?2 AND key = ?3 AND (id < ?4 OR (id = ?4 AND data IS NULL))",
                )?
                .execute(params![volume, kind, key, id])?;
        }
        Ok(())
    }

    /// Takes back the records of a change that failed with this outcome. What its rows replaced counts again.
    pub(crate) fn roll_back_records(
        &mut self,
        (volume, revision): (i64, i64),
        operation: &OperationId,
        records: &[CompanionRecord],
        outcome: AuditOutcome,
    ) -> Result<()> {
        for record in records {
            match record {
                CompanionRecord::Audit { record, began } => {
                    let mut record = (**record).clone();
                    (record.outcome, record.revision, record.duration) = (outcome, None, began.elapsed());
                    self.append_record(&record)?;
                }
                CompanionRecord::Undoes(operations) => {
                    for undone in operations {
                        self.conn
                            .prepare_cached(
                                "DELETE FROM undone WHERE volume = ?1 AND operation = ?2 AND undone_by = ?3",
                            )?
                            .execute(params![volume, undone.as_bytes(), operation.as_bytes()])?;
                    }
                }
                // Nothing was written for the lease. A fork's changes are never rolled back after their transaction. The rows of
                // manifests are taken back with the ledger's rows.
                CompanionRecord::Lease(_)
                | CompanionRecord::ForkSync(_)
                | CompanionRecord::RestoresFork(_)
                | CompanionRecord::Managed(_)
                | CompanionRecord::Returning(_)
                | CompanionRecord::Manifest(_) => {}
                CompanionRecord::Row(_) => remove_pending_rows(self.conn, volume, revision)?,
            }
        }
        Ok(())
    }

    /// Takes back the records of a change that recovery found not made. An audit record that says that it was made gets a
    /// compensating record, unless the audit is off now.
    pub(crate) fn discard_records(&mut self, volume: i64, revision: i64) -> Result<()> {
        if self.chain().is_some()
            && let Some(record) = compensating(self.conn, revision)?
        {
            self.append_body(&record)?;
        }
        // The operations that the change was to undo are not undone here. What the same undo did in other Stores stays
        // undone there.
        self.conn
            .prepare_cached(
                "DELETE FROM undone WHERE volume = ?1
                   AND undone_by IN (SELECT operation FROM revision WHERE id = ?2)",
            )?
            .execute([volume, revision])?;
        remove_pending_rows(self.conn, volume, revision)
    }
}

fn write_row(conn: &Connection, row: &CompanionRow, change: &ChangeRecords<'_>) -> Result<()> {
    let (kind, key) = (row.kind().as_str(), row.key());
    if !change.is_pending {
        conn.prepare_cached("DELETE FROM companion_record WHERE volume = ?1 AND kind = ?2 AND key = ?3")?
            .execute(params![change.volume, kind, key])?;
    }
    let data = match row.action() {
        RowAction::Put { data, .. } => Some(data),
        RowAction::Remove if change.is_pending => None,
        RowAction::Remove => return Ok(()),
    };
    let (path, outcome) = change.filled.get(row.step());
    conn.prepare_cached(
        "INSERT INTO companion_record(volume, kind, key, revision, path, node, size, tag, data, pending)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        change.volume,
        kind,
        key,
        change.revision,
        path.map(StorePath::as_bytes),
        outcome.map(|outcome| outcome.node.0.cast_signed()),
        outcome.map(|outcome| outcome.size.cast_signed()),
        outcome.map(|outcome| outcome.tag.0.to_be_bytes()),
        data,
        change.is_pending
    ])?;
    Ok(())
}

fn remove_pending_rows(conn: &Connection, volume: i64, revision: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM companion_record WHERE volume = ?1 AND revision = ?2 AND pending = 1")?
        .execute([volume, revision])?;
    Ok(())
}

/// The row of a volume with this kind and key.
pub(crate) fn find_record(
    conn: &Connection,
    volume: i64,
    kind: &RecordKind,
    key: &str,
) -> Result<Option<StoredRecord>> {
    let found = conn
        .prepare_cached(
            "SELECT key, data, path, node, size, tag, revision FROM companion_record
             WHERE volume = ?1 AND kind = ?2 AND key = ?3 ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![volume, kind.as_str(), key], stored_record)
        .optional()?;
    Ok(found.flatten())
}

/// The rows of a volume and a kind, sorted by key.
pub(crate) fn list_records(
    conn: &Connection,
    volume: i64,
    kind: &RecordKind,
    query: &RecordQuery,
) -> Result<Vec<StoredRecord>> {
    let mut statement = conn.prepare_cached(
        "SELECT key, data, path, node, size, tag, revision FROM companion_record c
         WHERE volume = ?1 AND kind = ?2 AND key > ?3 AND data IS NOT NULL
           AND (?4 IS NULL OR path = ?4 OR (path >= ?5 AND path < ?6) OR (length(?4) = 0 AND path IS NOT NULL))
           AND NOT EXISTS (SELECT 1 FROM companion_record n
                           WHERE n.volume = ?1 AND n.kind = ?2 AND n.key = c.key AND n.id > c.id)
         ORDER BY key LIMIT ?7",
    )?;
    let after = query.after.as_deref().unwrap_or_default();
    let below = query.below.as_ref().map(StorePath::as_bytes);
    // Everything below a directory begins with its path and `/`, which `0` follows.
    let child = |suffix: &[u8]| below.map(|below| [below, suffix].concat());
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(
        params![volume, kind.as_str(), after, below, child(b"/"), child(b"0"), limit],
        stored_record,
    )?;
    Ok(rows.filter_map(rusqlite::Result::transpose).collect::<rusqlite::Result<_>>()?)
}

/// A row as callers get it; `None` if it says that the record is removed.
fn stored_record(row: &Row<'_>) -> rusqlite::Result<Option<StoredRecord>> {
    let Some(data) = row.get(1)? else { return Ok(None) };
    let mut record = StoredRecord::new(row.get(0)?, data);
    record.path = row.get::<_, Option<Vec<u8>>>(2)?.map(StorePath::from_checked);
    record.node = row.get::<_, Option<i64>>(3)?.map(|node| NodeId(node.cast_unsigned()));
    record.size = row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned);
    record.tag = row.get::<_, Option<[u8; 16]>>(5)?.map(|tag| VersionTag(u128::from_be_bytes(tag)));
    record.revision = row.get::<_, Option<i64>>(6)?.map(RevisionNumber);
    Ok(Some(record))
}
