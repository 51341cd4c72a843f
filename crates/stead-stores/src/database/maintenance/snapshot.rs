//! Snapshots: named revisions. Making one writes one row, whatever the number of files.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Row, params};
use stead_core::store::{Captured, LeaseId, RevisionNumber};
use stead_core::{StoreError, StoreResult, Timestamp};

use crate::database::Database;
use crate::database::error::{DatabaseError, Result};
use crate::database::group_commit::CommitSync;
use crate::database::newest_revision;
use crate::database::schema::NEXT_SNAPSHOT;
use crate::threads::rows;
use crate::virtual_store::capture::{FinishedCapture, record_capture};

/// A named revision, which is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its number.
    pub id: i64,
    /// The agent that it belongs to.
    pub agent: String,
    /// The Workspace it was made of; `None` is the whole stead.
    pub prefix: Option<String>,
    /// Its name, if it has one.
    pub label: Option<String>,
    /// The revision, which covers all volumes of the database.
    pub revision: RevisionNumber,
    /// When it was made.
    pub at: Timestamp,
}

/// A snapshot to be made.
#[derive(Debug, Clone)]
pub struct NewSnapshot {
    /// The agent that it will belong to.
    pub agent: String,
    /// The Workspace it is made of; `None` is the whole stead.
    pub prefix: Option<String>,
    /// Its name, which is unique among the snapshots of one agent and Workspace.
    pub label: Option<String>,
    /// When it is made.
    pub at: Timestamp,
    /// The lease of the thread that the snapshot belongs to. It is checked when the snapshot is made.
    pub lease: Option<LeaseId>,
}

const SELECT_SNAPSHOT: &str = "SELECT id, agent, prefix, label, revision, at FROM snapshot";

fn snapshot_from_row(row: &Row<'_>) -> rusqlite::Result<Snapshot> {
    Ok(Snapshot {
        id: row.get(0)?,
        agent: row.get(1)?,
        prefix: row.get(2)?,
        label: row.get(3)?,
        revision: RevisionNumber(row.get(4)?),
        at: Timestamp(row.get(5)?),
    })
}

impl Database {
    /// Makes a snapshot of the newest revision. `AlreadyExists` if the name is taken.
    pub fn snapshot(&self, new: NewSnapshot) -> StoreResult<Snapshot> {
        self.snapshot_with_captures(new, Vec::new())
    }

    /// Makes a snapshot that includes what Stores captured for it. [`StoreError::Conflict`] if another capture of the
    /// same directory has started since; then capture again.
    pub fn snapshot_with_captures(&self, new: NewSnapshot, captures: Vec<Captured>) -> StoreResult<Snapshot> {
        let foreign =
            || StoreError::Invalid("the capture was made by a Store that doesn't use this database".into());
        let captures =
            captures.into_iter().map(|capture| capture.into_inner::<FinishedCapture>().ok_or_else(foreign));
        let captures = captures.collect::<StoreResult<Vec<_>>>()?;
        let database = Arc::clone(&self.0);
        self.0.write(CommitSync::AsConfigured, move |transaction| {
            let NewSnapshot { agent, prefix, label, at, lease } = new;
            if let Some(lease) = lease {
                rows::check_lease(transaction.conn, lease)?;
            }
            let revision = newest_revision(transaction.conn)?;
            for capture in &captures {
                record_capture(transaction, capture, &database, revision)?;
            }
            let id: i64 = transaction
                .conn
                .prepare_cached("UPDATE meta SET value = value + 1 WHERE id = ?1 RETURNING value - 1")?
                .query_row([NEXT_SNAPSHOT], |row| row.get(0))?;
            let inserted = transaction
                .conn
                .prepare_cached(
                    "INSERT INTO snapshot(id, agent, prefix, label, revision, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![id, agent, prefix, label, revision, at.0]);
            inserted.map_err(|error| match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::ConstraintViolation) => DatabaseError::from(StoreError::AlreadyExists),
                _ => error.into(),
            })?;
            Ok(Snapshot { id, agent, prefix, label, revision: RevisionNumber(revision), at })
        })
    }

    /// The snapshots of an agent, newest first.
    pub fn snapshots(&self, agent: &str) -> StoreResult<Vec<Snapshot>> {
        let list = || -> Result<Vec<Snapshot>> {
            let reader = self.0.reader()?;
            let mut statement =
                reader.prepare_cached(&format!("{SELECT_SNAPSHOT} WHERE agent = ?1 ORDER BY id DESC"))?;
            let rows = statement.query_map([agent], snapshot_from_row)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        Ok(list()?)
    }

    /// A snapshot of an agent, by its number.
    pub fn snapshot_by_id(&self, agent: &str, id: i64) -> StoreResult<Option<Snapshot>> {
        let find = || -> Result<Option<Snapshot>> {
            let reader = self.0.reader()?;
            let mut statement =
                reader.prepare_cached(&format!("{SELECT_SNAPSHOT} WHERE agent = ?1 AND id = ?2"))?;
            Ok(statement.query_row(params![agent, id], snapshot_from_row).optional()?)
        };
        Ok(find()?)
    }

    /// Deletes a snapshot. Its revision is then kept no longer than others. `NotFound` if there is none.
    pub fn forget_snapshot(&self, agent: &str, id: i64) -> StoreResult<()> {
        let agent = agent.to_owned();
        self.0.write_reserved(CommitSync::AsConfigured, move |transaction| {
            let removed = transaction
                .conn
                .prepare_cached("DELETE FROM snapshot WHERE agent = ?1 AND id = ?2")?
                .execute(params![agent, id])?;
            if removed == 0 { Err(StoreError::NotFound.into()) } else { Ok(()) }
        })
    }
}
