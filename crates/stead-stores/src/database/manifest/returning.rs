//! The rows that return with their files: to a path that an undo or a restore brings back, or that a change empties and fills again.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, Row, params};
use stead_core::OperationId;
use stead_core::store::{CompanionRecord, ReturningRows};

use crate::database::error::Result;
use crate::database::manifest::SUBTREE;
use crate::database::manifest::rows::add_tags;

/// Which earlier rows a change may bring back.
#[derive(Debug, Default)]
pub(super) struct EarlierRows {
    /// The revisions that the change undoes.
    undone: BTreeSet<i64>,
    /// The revision to which the change restores files.
    restored: Option<i64>,
    /// The revision of the change itself, once it has removed rows.
    own: Option<i64>,
}

/// A row of `workspace_file_history` that may return to its path.
#[derive(Debug)]
pub(super) struct EarlierRow {
    pub(super) id: i64,
    pub(super) workspace: String,
    pub(super) path: String,
    pub(super) until: i64,
    /// Whether the change itself has removed it.
    pub(super) is_replaced: bool,
}

impl EarlierRows {
    /// Those that a change with these records may bring back.
    pub(super) fn of(conn: &Connection, records: &[CompanionRecord]) -> Result<Self> {
        let mut earlier = EarlierRows::default();
        for record in records {
            match record {
                CompanionRecord::Returning(ReturningRows::EndedBy(operations)) => {
                    earlier.undone.append(&mut revisions_of(conn, operations)?);
                }
                CompanionRecord::Returning(ReturningRows::AsOf(revision)) => {
                    earlier.restored = Some(revision.0);
                }
                _ => {}
            }
        }
        Ok(earlier)
    }

    /// Notes that the change has removed rows.
    pub(super) fn note_removed(&mut self, revision: Option<i64>) {
        self.own = revision;
    }

    /// The row that returns if a file comes to a path.
    pub(super) fn row_of(
        &self,
        conn: &Connection,
        workspace: &str,
        path: &str,
    ) -> Result<Option<EarlierRow>> {
        // No path lies between them.
        let end = format!("{path}\0");
        if let Some(row) = self.rows_within(conn, workspace, (path, &end))?.pop() {
            return Ok(Some(row));
        }
        let Some(own) = self.own else { return Ok(None) };
        let found = conn
            .prepare_cached(
                "SELECT id, path, until FROM workspace_file_history WHERE workspace = ?1 AND path = ?2 AND until = ?3",
            )?
            .query_row(params![workspace, path, own], |row| earlier_row(row, workspace))
            .optional()?;
        Ok(found.map(|row| EarlierRow { is_replaced: true, ..row }))
    }

    /// The rows that an undo or a restore brings back to the paths from `low` to before `high`.
    ///
    /// Those of an undo are as they were before the first of the undone revisions that changed them.
    pub(super) fn rows_within(
        &self,
        conn: &Connection,
        workspace: &str,
        (low, high): (&str, &str),
    ) -> Result<Vec<EarlierRow>> {
        let (since, until) = match (self.restored, self.undone.first()) {
            (Some(restored), _) => (restored, restored.saturating_add(1)),
            (None, Some(&first)) => (i64::MAX, first),
            (None, None) => return Ok(Vec::new()),
        };
        let mut statement = conn.prepare_cached(
            "SELECT id, path, until FROM workspace_file_history
             WHERE workspace = ?1 AND path >= ?2 AND path < ?3 AND since <= ?4 AND until >= ?5 ORDER BY path, until",
        )?;
        let mut by_path = BTreeMap::new();
        let rows = statement
            .query_map(params![workspace, low, high, since, until], |row| earlier_row(row, workspace))?;
        for row in rows {
            let row = row?;
            if self.restored.is_some() || self.undone.contains(&row.until) {
                by_path.entry(row.path.clone()).or_insert(row);
            }
        }
        Ok(by_path.into_values().collect())
    }
}

/// The revisions of operations.
pub(super) fn revisions_of(conn: &Connection, operations: &[OperationId]) -> Result<BTreeSet<i64>> {
    let mut statement = conn.prepare_cached("SELECT id FROM revision WHERE operation = ?1")?;
    let mut found = BTreeSet::new();
    for operation in operations {
        for revision in statement.query_map([operation.as_bytes()], |row| row.get(0))? {
            found.insert(revision?);
        }
    }
    Ok(found)
}

fn earlier_row(row: &Row<'_>, workspace: &str) -> rusqlite::Result<EarlierRow> {
    let workspace = workspace.to_owned();
    Ok(EarlierRow { id: row.get(0)?, workspace, path: row.get(1)?, until: row.get(2)?, is_replaced: false })
}

impl EarlierRow {
    /// Puts the row back to its path, as it is since a revision. Returns whether it did: a row whose file lives on elsewhere stays
    /// there, and a path that has a row keeps it.
    pub(super) fn bring_back(&self, conn: &Connection, since: i64) -> Result<bool> {
        self.bring_back_to(conn, &self.path, since)
    }

    /// Puts the row back to another path.
    pub(super) fn bring_back_to(&self, conn: &Connection, to: &str, since: i64) -> Result<bool> {
        let EarlierRow { id, workspace, path, until, .. } = self;
        let inserted = conn
            .prepare_cached(
                "INSERT OR IGNORE INTO workspace_files(id, workspace, path, category, original_name, size_bytes, source_tool, tags,
                   created_at, modified_at, accessed_at, session_key, since)
                 SELECT id, workspace, ?6, category, original_name, size_bytes, source_tool, tags,
                   created_at, modified_at, accessed_at, session_key, ?5
                 FROM workspace_file_history WHERE workspace = ?1 AND path = ?2 AND until = ?3 AND id = ?4",
            )?
            .execute(params![workspace, path, until, id, since, to])?;
        if inserted > 0 {
            add_tags(conn, SUBTREE[0], workspace, (to, "", ""))?;
        }
        Ok(inserted > 0)
    }
}
