//! The manifest of a fork and the one that its files come from: rows that a fork inherits, and rows that both sides have changed.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};
use stead_core::StoreError;
use stead_core::managed::{FileOrigin, ForkedRow, ForkedRows, PIN_TAG, RowState, Tags};
use stead_core::store::RevisionNumber;

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::manifest::SUBTREE;
use crate::database::manifest::roots::workspace_name;
use crate::database::manifest::rows::add_tags;
use crate::database::newest_revision;
use crate::virtual_store::fork_sync;

/// The manifest that the files of a fork come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForkBase {
    /// What its rows have in the column `workspace`.
    pub(super) workspace: String,
    /// The fork has the changes up to this revision.
    pub(super) revision: i64,
}

impl ForkBase {
    /// The base of the manifest of a directory of a volume; `None` if the volume isn't a fork.
    pub(super) fn find(conn: &Connection, volume: i64, root: &str) -> Result<Option<ForkBase>> {
        let is_fork = conn.prepare_cached("SELECT 1 FROM fork_sync WHERE volume = ?1")?.exists([volume])?;
        if !is_fork {
            return Ok(None);
        }
        let loaded = fork_sync::load(conn, volume)?;
        let volumes = base_volumes(conn, loaded.target)?;
        let mut names = volumes.into_iter().map(|volume| workspace_name(volume, root));
        // Without one that is managed already, it is the first: a directory's ledger comes before its mirror.
        let mut workspace = names.next().unwrap_or_default();
        for other in names {
            if is_managed(conn, &other)? && !is_managed(conn, &workspace)? {
                workspace = other;
            }
        }
        Ok(Some(ForkBase { workspace, revision: loaded.manifest_revision }))
    }

    /// Copies the rows at a path and below it into the manifest of the fork, except those that it has or has had.
    pub(super) fn inherit(
        &self,
        transaction: &mut WriteTransaction<'_>,
        fork: &str,
        path: &str,
    ) -> Result<()> {
        let conn = transaction.conn;
        let (low, high) = (format!("{path}/"), format!("{path}0"));
        for (table, ends_later) in [("workspace_files", ""), ("workspace_file_history", "AND b.until > ?5")] {
            for part in SUBTREE {
                let inherited = format!(
                    "FROM {table} b WHERE workspace = ?1 AND {part} AND since <= ?5 {ends_later}
                       AND NOT EXISTS (SELECT 1 FROM workspace_file_history h WHERE h.workspace = ?6 AND h.path = b.path)"
                );
                let values = params![self.workspace, path, low, high, self.revision, fork];
                let count: i64 = conn
                    .prepare_cached(&format!("SELECT count(*) {inherited}"))?
                    .query_row(values, |row| row.get(0))?;
                if count == 0 {
                    continue;
                }
                let ids = transaction.fresh_nodes(count)?;
                conn.prepare_cached(&format!(
                    "INSERT OR IGNORE INTO workspace_files(id, workspace, path, category, original_name, size_bytes,
                       source_tool, tags, created_at, modified_at, session_key, since)
                     SELECT ?7 - 1 + row_number() OVER (), ?6, path, category, original_name, size_bytes, source_tool, tags,
                       created_at, modified_at, session_key, ?5 {inherited}"
                ))?
                .execute(params![self.workspace, path, low, high, self.revision, fork, ids.start])?;
                add_tags(conn, part, fork, (path, &low, &high))?;
            }
        }
        Ok(())
    }

    /// The row that a path had at the base's revision, and whether it is still like that.
    fn row_at(&self, conn: &Connection, path: &str) -> Result<Option<BaseRow>> {
        let mut statement = conn.prepare_cached(&format!(
            "SELECT {STATE}, 1 FROM workspace_files WHERE workspace = ?1 AND path = ?2 AND since <= ?3
             UNION ALL SELECT {STATE}, 0 FROM workspace_file_history
             WHERE workspace = ?1 AND path = ?2 AND since <= ?3 AND until > ?3 LIMIT 1"
        ))?;
        let mut rows = statement.query(params![self.workspace, path, self.revision])?;
        match rows.next()? {
            Some(row) => {
                let (id, state) = row_state(row)?;
                Ok(Some(BaseRow { id, state, is_current: row.get(7)? }))
            }
            None => Ok(None),
        }
    }
}

/// The volumes that may have the manifest of what a fork was made from: of a host directory, its ledgers.
fn base_volumes(conn: &Connection, target: i64) -> Result<Vec<i64>> {
    let mut statement = conn.prepare_cached(
        "SELECT d.volume FROM overlay o JOIN ledger_directory d ON d.location = o.location WHERE o.volume = ?1",
    )?;
    let ledgers = statement.query_map([target], |row| row.get(0))?;
    let mut volumes: Vec<i64> = ledgers.collect::<rusqlite::Result<_>>()?;
    volumes.extend(fork_sync::merged_volumes(conn, target)?);
    Ok(volumes)
}

fn is_managed(conn: &Connection, workspace: &str) -> Result<bool> {
    let mut statement = conn.prepare_cached("SELECT 1 FROM managed_workspace WHERE workspace = ?1")?;
    Ok(statement.exists([workspace])?)
}

/// What the rows of the host directory that a fork shows as it is have in the column `workspace`; `None` for another volume, and for
/// a pinned fork.
pub(super) fn shown_directory(conn: &Connection, volume: i64, root: &str) -> Result<Option<String>> {
    let mut statement = conn.prepare_cached(
        "SELECT 1 FROM volume v JOIN overlay o ON o.volume = v.base WHERE v.id = ?1 AND o.pinned IS NULL",
    )?;
    if !statement.exists([volume])? {
        return Ok(None);
    }
    Ok(ForkBase::find(conn, volume, root)?.map(|base| base.workspace))
}

struct BaseRow {
    id: i64,
    state: RowState,
    is_current: bool,
}

/// The columns of a [`RowState`], with the number of the row.
const STATE: &str = "id, path, tags, original_name, source_tool, created_at, session_key";

fn row_state(row: &Row<'_>) -> Result<(i64, RowState)> {
    let created_at: String = row.get(5)?;
    let damaged = |_| StoreError::Corrupt("a time in the manifest can't be read".into());
    let mut origin = FileOrigin::new(row.get(3)?, created_at.parse().map_err(damaged)?);
    (origin.source_tool, origin.session_key) = (row.get(4)?, row.get(6)?);
    let tags = Tags::from_stored(&row.get::<_, String>(2)?);
    Ok((row.get(0)?, RowState { path: row.get(1)?, tags, origin }))
}

fn states(conn: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<Vec<(i64, RowState)>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(row_state(row)?);
    }
    Ok(found)
}

/// The rows that a fork or its target has changed since the fork's last sync; `None` if the volume isn't a fork.
pub(super) fn forked_rows(conn: &Connection, volume: i64, root: &str) -> Result<Option<ForkedRows>> {
    // One view of the tables for all queries.
    let snapshot = conn.unchecked_transaction()?;
    let as_of = RevisionNumber(newest_revision(&snapshot)?);
    let Some(base) = ForkBase::find(&snapshot, volume, root)? else { return Ok(None) };
    let fork = workspace_name(volume, root);
    Ok(Some(ForkedRows {
        rows: rows_since(&snapshot, &base, &fork)?,
        pinned_in_fork: pinned_alone(&snapshot, &fork, &base.workspace)?,
        pinned_in_target: pinned_alone(&snapshot, &base.workspace, &fork)?,
        as_of,
    }))
}

/// The paths of pinned files that the other side doesn't have, and that it never had pinned.
fn pinned_alone(conn: &Connection, workspace: &str, other: &str) -> Result<Vec<String>> {
    let mut statement = conn.prepare_cached(
        "SELECT f.path FROM workspace_file_tag t JOIN workspace_files f ON f.id = t.file
         WHERE t.workspace = ?1 AND t.tag = ?3
           AND NOT EXISTS (SELECT 1 FROM workspace_files o WHERE o.workspace = ?2 AND o.path = f.path)
           AND NOT EXISTS (SELECT 1 FROM workspace_file_history h WHERE h.workspace = ?2 AND h.path = f.path
             AND instr(',' || h.tags || ',', ',' || ?3 || ',') > 0)",
    )?;
    let paths = statement.query_map(params![workspace, other, PIN_TAG], |row| row.get(0))?;
    Ok(paths.collect::<rusqlite::Result<_>>()?)
}

fn rows_since(conn: &Connection, base: &ForkBase, fork: &str) -> Result<Vec<ForkedRow>> {
    let in_target = states(
        conn,
        &format!("SELECT {STATE} FROM workspace_files WHERE workspace = ?1 AND since > ?2"),
        params![base.workspace, base.revision],
    )?;
    let as_it_was = format!(
        "SELECT {STATE} FROM workspace_file_history WHERE workspace = ?1 AND since <= ?2 AND until > ?2"
    );
    // What the target has changed, as it was; and where the fork's files were.
    let mut bases: HashMap<i64, RowState> =
        states(conn, &as_it_was, params![base.workspace, base.revision])?.into_iter().collect();
    let earlier: HashMap<i64, RowState> =
        states(conn, &as_it_was, params![fork, base.revision])?.into_iter().collect();
    let in_fork = states(
        conn,
        &format!(
            "SELECT {STATE} FROM workspace_files f WHERE workspace = ?1 AND NOT EXISTS
               (SELECT 1 FROM workspace_files b
                WHERE b.workspace = ?2 AND b.path = f.path AND b.since <= ?3 AND b.tags = f.tags)"
        ),
        params![fork, base.workspace, base.revision],
    )?;

    // By the number of the base's row or, where both sides have made a file, by the path.
    let (mut by_id, mut by_path) = (HashMap::<i64, ForkedRow>::new(), HashMap::<String, ForkedRow>::new());
    for (id, state) in in_target {
        match bases.remove(&id) {
            Some(before) => {
                by_id.insert(id, ForkedRow { base: Some(before), in_fork: None, in_target: Some(state) });
            }
            None => {
                let path = state.path.clone();
                by_path.entry(path).or_default().in_target = Some(state);
            }
        }
    }
    for (id, state) in in_fork {
        let mut found = match earlier.get(&id) {
            Some(before) => base.row_at(conn, &before.path)?,
            None => None,
        };
        if found.is_none() {
            found = base.row_at(conn, &state.path)?;
        }
        match found {
            Some(before) => {
                let row = by_id.entry(before.id).or_insert_with(|| ForkedRow {
                    in_target: before.is_current.then(|| before.state.clone()),
                    base: Some(before.state),
                    in_fork: None,
                });
                row.in_fork = Some(state);
            }
            None => {
                let path = state.path.clone();
                by_path.entry(path).or_default().in_fork = Some(state);
            }
        }
    }
    Ok(by_id.into_values().chain(by_path.into_values()).collect())
}

/// The manifest that the files of a fork come from that can't be merged: the newest rows of its base count.
pub(super) fn unmerged_base(conn: &Connection, volume: i64, root: &str) -> Result<Option<ForkBase>> {
    let base: Option<Option<i64>> = conn
        .prepare_cached(
            "SELECT coalesce((SELECT max(d.volume) FROM overlay o JOIN ledger_directory d ON d.location = o.location
               WHERE o.volume = v.base), v.base) FROM volume v WHERE v.id = ?1",
        )?
        .query_row([volume], |row| row.get(0))
        .optional()?;
    let revision = newest_revision(conn)?;
    Ok(base.flatten().map(|base| ForkBase { workspace: workspace_name(base, root), revision }))
}
