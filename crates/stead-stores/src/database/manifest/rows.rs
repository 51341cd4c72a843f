//! Writes the rows of a manifest, and takes them back.

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::managed::{Category, ManifestEdit, Tags};
use stead_core::store::{CompanionRecord, StorePath};
use stead_core::{Identity, Operation, StoreError};

use crate::database::error::Result;
use crate::database::manifest::roots::{ManagedRoot, Overlap, workspace_name};
use crate::database::manifest::{COLUMNS, FileEffect, ManagedRoots};
use crate::database::newest_revision;

/// The change that rows belong to.
pub(crate) struct ManifestChange<'a> {
    pub(crate) volume: i64,
    pub(crate) operation: &'a Operation,
    /// The revision that the change made, if it made one.
    pub(crate) revision: Option<i64>,
    pub(crate) records: &'a [CompanionRecord],
}

/// A row that a change takes from one path to another.
struct MovedRow {
    id: i64,
    workspace: String,
    path: String,
    /// The path in the Store that it gets.
    to: String,
}

/// The session that an identity works in: `AGENT`, or `AGENT/THREAD`.
fn session_key(identity: &Identity) -> String {
    match &identity.thread {
        Some(thread) => format!("{}/{thread}", identity.agent),
        None => identity.agent.clone(),
    }
}

impl ManifestChange<'_> {
    /// Makes the rows agree with what the change did.
    pub(crate) fn write(
        &self,
        conn: &Connection,
        roots: &ManagedRoots,
        effects: &[FileEffect],
    ) -> Result<()> {
        for effect in effects {
            match effect {
                FileEffect::Put { path, size } => {
                    if let Ok(path) = std::str::from_utf8(path) {
                        self.put(conn, roots, path, *size)?;
                    }
                }
                FileEffect::Remove { path } => self.remove(conn, roots, path)?,
                FileEffect::Move { from, to, size } => self.rename(conn, roots, (from, to), *size)?,
                FileEffect::Exchange { first, second } => {
                    let mut rows = self.take(conn, roots, first, second)?;
                    rows.extend(self.take(conn, roots, second, first)?);
                    self.put_back(conn, roots, &rows)?;
                    mark_unsynced(conn, roots, first)?;
                    mark_unsynced(conn, roots, second)?;
                }
                FileEffect::Unknown { path } => mark_unsynced(conn, roots, path)?,
            }
        }
        Ok(())
    }

    /// Makes a change of rows alone.
    pub(crate) fn edit(&self, conn: &Connection, edit: &ManifestEdit) -> Result<()> {
        let (ManifestEdit::SetTags { root, path, .. } | ManifestEdit::Forget { root, path }) = edit;
        let workspace = workspace_name(self.volume, root.as_str().unwrap_or_default());
        let found: Option<(i64, String)> = conn
            .prepare_cached("SELECT id, tags FROM workspace_files WHERE workspace = ?1 AND path = ?2")?
            .query_row([&workspace, path], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (id, tags) = found.ok_or(StoreError::NotFound)?;
        let since = self.since(conn)?;
        self.keep_history(conn, &workspace, path, since)?;
        match edit {
            ManifestEdit::SetTags { before, .. } if Tags::from_stored(&tags) != *before => {
                return Err(StoreError::Conflict.into());
            }
            ManifestEdit::SetTags { after, .. } => {
                conn.prepare_cached("UPDATE workspace_files SET tags = ?2, since = ?3 WHERE id = ?1")?
                    .execute(params![id, after.to_string(), since])?;
            }
            ManifestEdit::Forget { .. } => {
                conn.prepare_cached("DELETE FROM workspace_files WHERE id = ?1")?.execute([id])?;
            }
        }
        Ok(())
    }

    /// The revision from which a row that the change writes is as it is.
    fn since(&self, conn: &Connection) -> Result<i64> {
        match self.revision {
            Some(revision) => Ok(revision),
            None => newest_revision(conn),
        }
    }

    fn is_undo(&self) -> bool {
        self.records.iter().any(|record| matches!(record, CompanionRecord::Undoes(_)))
    }

    fn put(&self, conn: &Connection, roots: &ManagedRoots, path: &str, size: u64) -> Result<()> {
        let Some((root, relative_path, category)) = roots.locate(path) else { return Ok(()) };
        let since = self.since(conn)?;
        let existed = self.keep_history(conn, &root.workspace, relative_path, since)?;
        if !existed && self.is_undo() {
            revive(conn, &root.workspace, relative_path)?;
        }
        let name = relative_path.rsplit('/').next().unwrap_or(relative_path);
        let at = self.operation.at.to_string();
        conn.prepare_cached(
            "INSERT INTO workspace_files(workspace, path, category, original_name, size_bytes, source_tool, created_at,
                                         modified_at, session_key, since)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9)
             ON CONFLICT(workspace, path) DO UPDATE SET size_bytes = excluded.size_bytes,
               source_tool = excluded.source_tool, modified_at = excluded.modified_at, since = excluded.since",
        )?
        .execute(params![
            root.workspace,
            relative_path,
            category.as_str(),
            name,
            size.cast_signed(),
            self.operation.tool,
            at,
            session_key(&self.operation.identity),
            since
        ])?;
        Ok(())
    }

    /// Removes the rows at a path and below it.
    fn remove(&self, conn: &Connection, roots: &ManagedRoots, path: &[u8]) -> Result<()> {
        let Ok(path) = std::str::from_utf8(path) else { return Ok(()) };
        let since = self.since(conn)?;
        for root in roots.iter() {
            match root.overlap(path) {
                Overlap::Inside(relative_path) => {
                    remove_subtree(conn, &root.workspace, relative_path, since)?;
                }
                Overlap::Contains => remove_all(conn, &root.workspace, since)?,
                Overlap::None => {}
            }
        }
        Ok(())
    }

    fn rename(
        &self,
        conn: &Connection,
        roots: &ManagedRoots,
        (from, to): (&[u8], &[u8]),
        size: Option<u64>,
    ) -> Result<()> {
        let rows = self.take(conn, roots, from, to)?;
        self.put_back(conn, roots, &rows)?;
        match size {
            // A file that wasn't tracked before is new here.
            Some(size) if rows.is_empty() => match std::str::from_utf8(to) {
                Ok(to) => self.put(conn, roots, to, size),
                Err(_) => Ok(()),
            },
            Some(_) => Ok(()),
            // Files that had no rows may be in the directory.
            None => mark_unsynced(conn, roots, to),
        }
    }

    /// Takes the rows at `from` and below it out of the table. Each gets the path that follows from `to`.
    fn take(&self, conn: &Connection, roots: &ManagedRoots, from: &[u8], to: &[u8]) -> Result<Vec<MovedRow>> {
        let (Ok(from), Ok(to)) = (std::str::from_utf8(from), std::str::from_utf8(to)) else {
            return Ok(Vec::new());
        };
        let mut moved = Vec::new();
        for root in roots.iter() {
            let (exact, low, high) = match root.overlap(from) {
                Overlap::Inside(inside) => (inside.to_owned(), format!("{inside}/"), format!("{inside}0")),
                Overlap::Contains => (String::new(), String::new(), "\u{10ffff}".to_owned()),
                Overlap::None => continue,
            };
            let mut statement = conn.prepare_cached(
                "SELECT id, path FROM workspace_files
                 WHERE workspace = ?1 AND (path = ?2 OR (path >= ?3 AND path < ?4))",
            )?;
            let rows = statement.query_map(params![root.workspace, exact, low, high], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
            })?;
            for row in rows {
                let (id, path) = row?;
                let in_store = path_in_store(root, &path);
                let Some(rest) = in_store.strip_prefix(from) else { continue };
                moved.push(MovedRow {
                    id,
                    workspace: root.workspace.clone(),
                    to: format!("{to}{rest}"),
                    path,
                });
            }
        }
        let since = self.since(conn)?;
        for row in &moved {
            self.keep_history(conn, &row.workspace, &row.path, since)?;
            // Out of the way of other rows that move; the number is free again at once.
            conn.prepare_cached("UPDATE workspace_files SET path = '/' || id WHERE id = ?1")?
                .execute([row.id])?;
        }
        Ok(moved)
    }

    /// Puts taken rows to their new paths. A row whose new path isn't tracked is removed.
    fn put_back(&self, conn: &Connection, roots: &ManagedRoots, rows: &[MovedRow]) -> Result<()> {
        let since = self.since(conn)?;
        for row in rows {
            match roots.locate(&row.to) {
                Some((root, path, category)) => {
                    place(conn, row.id, (&root.workspace, path, category), since)?
                }
                None => {
                    conn.prepare_cached("DELETE FROM workspace_files WHERE id = ?1")?.execute([row.id])?;
                }
            }
        }
        Ok(())
    }

    /// Copies a row to the history, where it ends with this change. Returns whether there is a row.
    fn keep_history(&self, conn: &Connection, workspace: &str, path: &str, since: i64) -> Result<bool> {
        let found: Option<i64> = conn
            .prepare_cached("SELECT since FROM workspace_files WHERE workspace = ?1 AND path = ?2")?
            .query_row([workspace, path], |row| row.get(0))
            .optional()?;
        // A state that the change itself has made was never visible.
        if found.is_some_and(|before| before < since) {
            conn.prepare_cached(&format!(
                "INSERT OR REPLACE INTO workspace_file_history
                 SELECT {COLUMNS}, ?3 FROM workspace_files WHERE workspace = ?1 AND path = ?2"
            ))?
            .execute(params![workspace, path, since])?;
        }
        Ok(found.is_some())
    }
}

fn path_in_store(root: &ManagedRoot, path: &str) -> String {
    if root.path.is_empty() { path.to_owned() } else { format!("{}/{path}", root.path) }
}

fn place(
    conn: &Connection,
    id: i64,
    (workspace, path, category): (&str, &str, Category),
    since: i64,
) -> Result<()> {
    conn.prepare_cached(
        "UPDATE workspace_files SET workspace = ?2, path = ?3, category = ?4, since = ?5 WHERE id = ?1",
    )?
    .execute(params![id, workspace, path, category.as_str(), since])?;
    Ok(())
}

/// Removes the rows at a path and below it, and keeps them as history.
fn remove_subtree(conn: &Connection, workspace: &str, relative_path: &str, since: i64) -> Result<()> {
    let (low, high) = (format!("{relative_path}/"), format!("{relative_path}0"));
    conn.prepare_cached(&format!(
        "INSERT OR REPLACE INTO workspace_file_history SELECT {COLUMNS}, ?5 FROM workspace_files
         WHERE workspace = ?1 AND (path = ?2 OR (path >= ?3 AND path < ?4)) AND since < ?5"
    ))?
    .execute(params![workspace, relative_path, low, high, since])?;
    conn.prepare_cached(
        "DELETE FROM workspace_files WHERE workspace = ?1 AND (path = ?2 OR (path >= ?3 AND path < ?4))",
    )?
    .execute(params![workspace, relative_path, low, high])?;
    Ok(())
}

fn remove_all(conn: &Connection, workspace: &str, since: i64) -> Result<()> {
    conn.prepare_cached(&format!(
        "INSERT OR REPLACE INTO workspace_file_history
         SELECT {COLUMNS}, ?2 FROM workspace_files WHERE workspace = ?1 AND since < ?2"
    ))?
    .execute(params![workspace, since])?;
    conn.prepare_cached("DELETE FROM workspace_files WHERE workspace = ?1")?.execute([workspace])?;
    Ok(())
}

/// Brings back the newest row that a path had, for an undo that restores the file.
fn revive(conn: &Connection, workspace: &str, path: &str) -> Result<()> {
    conn.prepare_cached(&format!(
        "INSERT INTO workspace_files({COLUMNS}) SELECT {COLUMNS} FROM workspace_file_history h
         WHERE workspace = ?1 AND path = ?2 AND NOT EXISTS (SELECT 1 FROM workspace_files f WHERE f.id = h.id)
         ORDER BY until DESC LIMIT 1"
    ))?
    .execute([workspace, path])?;
    Ok(())
}

/// Notes that there may be files without rows at a path, in every managed directory that it lies in or contains.
fn mark_unsynced(conn: &Connection, roots: &ManagedRoots, path: &[u8]) -> Result<()> {
    let Ok(path) = std::str::from_utf8(path) else { return Ok(()) };
    for root in roots.iter() {
        let may_track = match root.overlap(path) {
            // A directory with another name can't hold tracked files.
            Overlap::Inside(inside) => {
                let first = inside.split('/').next().unwrap_or(inside);
                first.parse::<Category>().is_ok()
            }
            Overlap::Contains => true,
            Overlap::None => false,
        };
        if may_track {
            conn.prepare_cached("UPDATE managed_workspace SET unsynced = 1 WHERE workspace = ?1")?
                .execute([&root.workspace])?;
        }
    }
    Ok(())
}

/// Takes back what a change of a Physical Store did to rows. Its ledger rows must still be there: they have its paths.
pub(crate) fn roll_back_rows(conn: &Connection, volume: i64, revision: i64) -> Result<()> {
    let roots = ManagedRoots::load(conn, volume)?;
    if roots.is_empty() {
        return Ok(());
    }
    let mut statement =
        conn.prepare_cached("SELECT path, other_path FROM ledger_event WHERE volume = ?1 AND revision = ?2")?;
    let rows = statement.query_map([volume, revision], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
    })?;
    let mut paths = Vec::new();
    for row in rows {
        let (path, other_path) = row?;
        paths.extend(
            [Some(path), other_path].into_iter().flatten().filter_map(|path| String::from_utf8(path).ok()),
        );
    }
    let ranges: Vec<_> = paths
        .iter()
        .flat_map(|path| {
            roots.iter().filter_map(move |root| match root.overlap(path) {
                Overlap::Inside(inside) => {
                    Some((&root.workspace, inside.to_owned(), format!("{inside}/"), format!("{inside}0")))
                }
                Overlap::Contains => {
                    Some((&root.workspace, String::new(), String::new(), "\u{10ffff}".to_owned()))
                }
                Overlap::None => None,
            })
        })
        .collect();
    for (workspace, exact, low, high) in &ranges {
        conn.prepare_cached(
            "DELETE FROM workspace_files
             WHERE workspace = ?1 AND since = ?5 AND (path = ?2 OR (path >= ?3 AND path < ?4))",
        )?
        .execute(params![workspace, exact, low, high, revision])?;
    }
    for (workspace, exact, low, high) in &ranges {
        // A later change may have made rows of its own there; those stay.
        conn.prepare_cached(&format!(
            "INSERT OR IGNORE INTO workspace_files({COLUMNS}) SELECT {COLUMNS} FROM workspace_file_history
             WHERE workspace = ?1 AND until = ?5 AND (path = ?2 OR (path >= ?3 AND path < ?4))"
        ))?
        .execute(params![workspace, exact, low, high, revision])?;
        conn.prepare_cached(
            "DELETE FROM workspace_file_history
             WHERE workspace = ?1 AND until = ?5 AND (path = ?2 OR (path >= ?3 AND path < ?4))",
        )?
        .execute(params![workspace, exact, low, high, revision])?;
    }
    Ok(())
}

/// The path of a managed directory as text; `None` if it can't be one.
pub(super) fn root_text(root: &StorePath) -> Option<&str> {
    root.as_str()
}
