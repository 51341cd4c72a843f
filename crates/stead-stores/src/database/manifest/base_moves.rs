//! Rows of a fork that shows a host directory as it is: a row follows its file when the directory moves the file.
//!
//! The fork has not changed such a file, so it shows the file where the directory has it now. A sync finds only that one path has no
//! file any more and another one has a file without a row.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::managed::{ManifestRow, TagMode, Tags, category_of};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::manifest::forked::{ForkBase, shown_directory};
use crate::database::manifest::rows::{add_tags, keep_history};
use crate::database::manifest::{COLUMNS, SUBTREE};

/// Where the host directory of a fork has moved files since the fork took in the directory's rows the last time.
#[derive(Debug, Default)]
pub(super) struct BaseMoves {
    /// By the path then: the path now, and the revision that moved the file there.
    to: HashMap<String, (String, i64)>,
    /// By the path now: the path then.
    from: HashMap<String, String>,
    /// Where the files of the fork's rows were then, if the rows have changed since, by the number of the row.
    origins: HashMap<i64, String>,
}

impl BaseMoves {
    /// The moves in the directory that a fork shows; none for any other volume.
    pub(super) fn load(
        conn: &Connection,
        (volume, root): (i64, &str),
        base: &ForkBase,
        fork: &str,
    ) -> Result<BaseMoves> {
        let mut moves = BaseMoves::default();
        if shown_directory(conn, volume, root)?.is_none() {
            return Ok(moves);
        }
        let mut statement = conn.prepare_cached(
            "SELECT h.path, f.path, f.id FROM workspace_file_history h
             JOIN workspace_files f ON f.id = h.id AND f.workspace = h.workspace
             WHERE h.workspace = ?1 AND h.since <= ?2 AND h.until > ?2 AND f.path <> h.path",
        )?;
        let rows = statement.query_map(params![base.workspace, base.revision], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
        })?;
        let mut moved_since = conn.prepare_cached(
            "SELECT min(since) FROM (SELECT since FROM workspace_files WHERE id = ?3 UNION ALL
               SELECT since FROM workspace_file_history WHERE workspace = ?1 AND path = ?2 AND id = ?3)",
        )?;
        for row in rows {
            let (then, now, id) = row?;
            let since = moved_since.query_row(params![base.workspace, now, id], |row| row.get(0))?;
            moves.from.insert(now.clone(), then.clone());
            moves.to.insert(then, (now, since));
        }
        if moves.to.is_empty() {
            return Ok(moves);
        }
        let mut statement = conn.prepare_cached(
            "SELECT id, path FROM workspace_file_history WHERE workspace = ?1 AND since <= ?2 AND until > ?2",
        )?;
        let rows = statement.query_map(params![fork, base.revision], |row| Ok((row.get(0)?, row.get(1)?)))?;
        moves.origins = rows.collect::<rusqlite::Result<_>>()?;
        Ok(moves)
    }

    /// Takes a row whose path has no file any more to where the directory has moved the file. Returns whether it did. If the fork has
    /// written the file there before, its row there gets the tags, and this row is still to be removed.
    pub(super) fn follow(
        &self,
        conn: &Connection,
        fork: &str,
        row: &ManifestRow,
        since: i64,
    ) -> Result<bool> {
        let origin = self.origins.get(&row.id).unwrap_or(&row.path);
        let Some((to, moved_since)) = self.to.get(origin).filter(|(to, _)| *to != row.path) else {
            return Ok(false);
        };
        let first_row: Option<i64> = conn
            .prepare_cached(
                "SELECT min(since) FROM (SELECT since FROM workspace_files WHERE workspace = ?1 AND path = ?2 UNION ALL
                   SELECT since FROM workspace_file_history WHERE workspace = ?1 AND path = ?2)",
            )?
            .query_row([fork, to], |row| row.get(0))?;
        match first_row {
            // A file of the fork's own is there.
            Some(first_row) if first_row < *moved_since => Ok(false),
            Some(_) => {
                add_tags_of(conn, fork, to, row.id, since)?;
                Ok(false)
            }
            None => move_row(conn, fork, (row.id, &row.path), to, since),
        }
    }

    /// Gives a path that has a file without a row the row of the file that the directory has moved there. Returns whether it did.
    pub(super) fn take_along(
        &self,
        transaction: &mut WriteTransaction<'_>,
        base: &ForkBase,
        (fork, path): (&str, &str),
        since: i64,
    ) -> Result<bool> {
        let Some(origin) = self.from.get(path) else { return Ok(false) };
        let conn = transaction.conn;
        let row_at = |path: &str| -> Result<Option<i64>> {
            let mut statement =
                conn.prepare_cached("SELECT id FROM workspace_files WHERE workspace = ?1 AND path = ?2")?;
            Ok(statement.query_row([fork, path], |row| row.get(0)).optional()?)
        };
        if row_at(origin)?.is_none() {
            base.inherit(transaction, fork, origin)?;
            if let Some(id) = row_at(origin)? {
                return move_row(conn, fork, (id, origin), path, since);
            }
        }
        // The fork has changed the file, so it shows it in both places.
        let changed = self.origins.iter().find(|(_, path)| *path == origin).map(|(id, _)| *id);
        let Some(id) = row_at(origin)?.or(changed) else { return Ok(false) };
        let (copy, category) = (transaction.fresh_node()?, category_of(path));
        let copied = conn
            .prepare_cached(&format!(
                "INSERT OR IGNORE INTO workspace_files({COLUMNS})
                 SELECT ?3, workspace, ?4, ?5, original_name, size_bytes, source_tool, tags, created_at, modified_at, NULL,
                   session_key, ?6 FROM workspace_files WHERE id = ?2 AND workspace = ?1"
            ))?
            .execute(params![fork, id, copy, path, category.map(|category| category.as_str()), since])?;
        if copied > 0 {
            add_tags(conn, SUBTREE[0], fork, (path, "", ""))?;
        }
        Ok(copied > 0)
    }
}

/// Moves a row to another path. Returns whether it was there.
fn move_row(
    conn: &Connection,
    workspace: &str,
    (id, from): (i64, &str),
    to: &str,
    since: i64,
) -> Result<bool> {
    let Some(category) = category_of(to) else { return Ok(false) };
    keep_history(conn, workspace, from, since)?;
    let moved = conn
        .prepare_cached(
            "UPDATE workspace_files SET path = ?3, category = ?4, since = ?5 WHERE id = ?1 AND path = ?2",
        )?
        .execute(params![id, from, to, category.as_str(), since])?;
    Ok(moved > 0)
}

/// Adds the tags of a row to those of the row at a path.
fn add_tags_of(conn: &Connection, workspace: &str, path: &str, id: i64, since: i64) -> Result<()> {
    let tags_of = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> Result<Tags> {
        let tags = conn.prepare_cached(sql)?.query_row(values, |row| row.get::<_, String>(0)).optional()?;
        Ok(Tags::from_stored(&tags.unwrap_or_default()))
    };
    let added = tags_of("SELECT tags FROM workspace_files WHERE id = ?1", &[&id])?;
    let own =
        tags_of("SELECT tags FROM workspace_files WHERE workspace = ?1 AND path = ?2", &[&workspace, &path])?;
    // Tags beyond the most that a file can have are left out.
    let Ok(tags) = own.changed(TagMode::Add, &added) else { return Ok(()) };
    if tags != own {
        keep_history(conn, workspace, path, since)?;
        conn.prepare_cached(
            "UPDATE workspace_files SET tags = ?3, since = ?4 WHERE workspace = ?1 AND path = ?2",
        )?
        .execute(params![workspace, path, tags.to_string(), since])?;
    }
    Ok(())
}
