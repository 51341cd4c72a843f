//! Reads and repairs manifests: the port [`Manifest`] over a database.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use stead_core::managed::{
    Category, CleanupRun, FileFilter, ForkedRows, ManagedFile, Manifest, ManifestRepair, ManifestRow,
    RepairCounts, ScannedRow, Tags, category_of,
};
use stead_core::store::StorePath;
use stead_core::{StoreError, StoreResult, Timestamp};

use crate::database::DatabaseInner;
use crate::database::batch::WriteTransaction;
use crate::database::error::{DatabaseError, Result};
use crate::database::group_commit::CommitSync;
use crate::database::manifest::base_moves::BaseMoves;
use crate::database::manifest::forked::{ForkBase, forked_rows, shown_directory, unmerged_base};
use crate::database::manifest::roots::{ManagedRoots, add_root, workspace_name};
use crate::database::manifest::rows::{add_tags, root_text};
use crate::database::manifest::scan::Scan;
use crate::database::manifest::{COLUMNS, PendingTouches, SUBTREE};
use crate::database::newest_revision;
use crate::threads::rows::now;

/// How many files with one name are looked at.
const MAX_NAMED: usize = 16;

/// The manifests of a volume, as they are or as they were at a revision.
#[derive(Debug)]
pub(crate) struct SqlManifest {
    database: Arc<DatabaseInner>,
    volume: i64,
    as_of: Option<i64>,
}

impl SqlManifest {
    pub(crate) fn new(database: Arc<DatabaseInner>, volume: i64, as_of: Option<i64>) -> Self {
        SqlManifest { database, volume, as_of }
    }

    /// What the column `workspace` has for a managed directory.
    fn workspace(&self, root: &StorePath) -> StoreResult<String> {
        let root =
            root_text(root).ok_or_else(|| StoreError::Invalid("a managed path has to be UTF-8".into()))?;
        Ok(workspace_name(self.volume, root))
    }

    /// What queries read from: the table or, for an earlier revision, the rows of that revision.
    fn source(&self) -> String {
        match self.as_of {
            None => "workspace_files".to_owned(),
            Some(revision) => format!(
                "(SELECT {COLUMNS} FROM workspace_files WHERE since <= {revision}
                  UNION ALL SELECT {COLUMNS} FROM workspace_file_history
                  WHERE since <= {revision} AND until > {revision})"
            ),
        }
    }

    fn flush_touches(&self) -> StoreResult<()> {
        if self.as_of.is_some() || self.database.touches.is_empty() {
            return Ok(());
        }
        let touches = self.database.touches.take();
        self.database.write_reserved(CommitSync::Deferred, move |transaction| {
            PendingTouches::write(transaction.conn, &touches)
        })
    }

    fn query(
        &self,
        condition: &str,
        values: Vec<Value>,
        visit: &mut dyn FnMut(ManagedFile) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.flush_touches()?;
        let reader = self.database.reader()?;
        let sql = format!("SELECT {COLUMNS} FROM {} WHERE {condition}", self.source());
        let mut statement = reader.prepare_cached(&sql).map_err(DatabaseError::from)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(DatabaseError::from)?;
        while let Some(row) = rows.next().map_err(DatabaseError::from)? {
            if visit(managed_file(row)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        if self.as_of.is_some() {
            return Err(StoreError::unsupported("this is an earlier version, which can't be changed"));
        }
        self.database.write_reserved(CommitSync::Deferred, work)
    }
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

impl Manifest for SqlManifest {
    fn scan(
        &self,
        root: &StorePath,
        filter: &FileFilter,
        visit: &mut dyn FnMut(&dyn ScannedRow) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let workspace = self.workspace(root)?;
        self.flush_touches()?;
        let reader = self.database.reader()?;
        let (source, as_of) = (self.source(), self.as_of.map(|_| self.source()));
        let Scan { sql, values } = Scan::plan(&reader, workspace.clone(), filter, as_of)?;
        let whole = format!("SELECT {COLUMNS} FROM {source} WHERE workspace = ?1 AND path = ?2");
        let mut statement = reader.prepare_cached(&sql).map_err(DatabaseError::from)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(DatabaseError::from)?;
        while let Some(row) = rows.next().map_err(DatabaseError::from)? {
            if visit(&VisitedRow { row, conn: &reader, whole: &whole, workspace: &workspace }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn file(&self, root: &StorePath, path: &str) -> StoreResult<Option<ManagedFile>> {
        let mut found = None;
        let values = vec![text(self.workspace(root)?), text(path)];
        self.query("workspace = ?1 AND path = ?2", values, &mut |file| {
            found = Some(file);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    fn named(&self, root: &StorePath, original_name: &str) -> StoreResult<Vec<ManagedFile>> {
        let mut found = Vec::new();
        let workspace = self.workspace(root)?;
        let shown = match (root_text(root), self.as_of) {
            (Some(root), None) => shown_directory(&*self.database.reader()?, self.volume, root)?,
            _ => None,
        };
        let mut values = vec![text(&*workspace), text(original_name)];
        let mut condition = "workspace = ?1 AND original_name = ?2".to_owned();
        if let Some(directory) = shown {
            values.push(text(directory));
            condition.push_str(
                " OR workspace = ?3 AND original_name = ?2 AND NOT EXISTS
                   (SELECT 1 FROM workspace_files own WHERE own.workspace = ?1 AND own.path = workspace_files.path)",
            );
        }
        condition.push_str(&format!(" ORDER BY modified_at DESC, id DESC LIMIT {MAX_NAMED}"));
        self.query(&condition, values, &mut |file| {
            found.push(file);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    fn written_until(
        &self,
        root: &StorePath,
        category: Category,
        cutoff: Timestamp,
        after: Option<(Timestamp, i64)>,
        limit: usize,
    ) -> StoreResult<Vec<ManagedFile>> {
        let mut found = Vec::new();
        let (after_time, after_id) = match after {
            Some((time, id)) => (time.to_string(), id),
            None => (String::new(), i64::MIN),
        };
        let values = vec![
            text(self.workspace(root)?),
            text(category.as_str()),
            text(cutoff.to_string()),
            text(after_time),
            Value::Integer(after_id),
            Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)),
        ];
        let condition = "workspace = ?1 AND category = ?2 AND modified_at <= ?3 AND modified_at >= ?4
                         AND (modified_at > ?4 OR id > ?5) ORDER BY modified_at, id LIMIT ?6";
        self.query(condition, values, &mut |file| {
            found.push(file);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    fn has_rows_below(&self, root: &StorePath, path: &str) -> StoreResult<bool> {
        let mut found = false;
        let values = vec![text(self.workspace(root)?), text(format!("{path}/")), text(format!("{path}0"))];
        self.query("workspace = ?1 AND path >= ?2 AND path < ?3 LIMIT 1", values, &mut |_| {
            found = true;
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    fn rows(&self, root: &StorePath) -> StoreResult<Vec<ManifestRow>> {
        let workspace = self.workspace(root)?;
        let reader = self.database.reader()?;
        let read = || -> Result<Vec<ManifestRow>> {
            let sql = format!(
                "SELECT id, path, size_bytes, modified_at FROM {} WHERE workspace = ?1 ORDER BY path",
                self.source()
            );
            let mut statement = reader.prepare_cached(&sql)?;
            let mut rows = statement.query([workspace])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let (id, path, size) = (row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?.cast_unsigned());
                found.push(ManifestRow { id, path, size, modified_at: time(row, 3)? });
            }
            Ok(found)
        };
        Ok(read()?)
    }

    fn nested(&self, root: &StorePath) -> StoreResult<Vec<String>> {
        let Some(root) = root_text(root) else { return Ok(Vec::new()) };
        let reader = self.database.reader()?;
        let roots = ManagedRoots::load(&reader, self.volume)?;
        Ok(roots.inside(root).map(str::to_owned).collect())
    }

    fn is_past(&self) -> bool {
        self.as_of.is_some()
    }

    fn manage(&self, root: &StorePath) -> StoreResult<bool> {
        let workspace = self.workspace(root)?;
        let reader = self.database.reader()?;
        let found: Option<i64> = reader
            .prepare_cached("SELECT unsynced FROM managed_workspace WHERE workspace = ?1")
            .and_then(|mut statement| statement.query_row([&workspace], |row| row.get(0)).optional())
            .map_err(DatabaseError::from)?;
        drop(reader);
        match (found, self.as_of) {
            (_, Some(_)) => Ok(false),
            (Some(unsynced), None) => Ok(unsynced != 0),
            (None, None) => {
                let (volume, path) = (self.volume, root_text(root).unwrap_or_default().to_owned());
                self.write(move |transaction| add_root(transaction.conn, volume, &path))?;
                Ok(true)
            }
        }
    }

    fn repair(
        &self,
        root: &StorePath,
        repairs: Vec<ManifestRepair>,
        at: Timestamp,
        is_complete: bool,
    ) -> StoreResult<RepairCounts> {
        let workspace = self.workspace(root)?;
        let (volume, root) = (self.volume, root_text(root).unwrap_or_default().to_owned());
        if repairs.is_empty() && is_complete && !self.is_unsynced(&workspace)? {
            return Ok(RepairCounts::default());
        }
        self.write(move |transaction| {
            let conn = transaction.conn;
            let mut counts = RepairCounts::default();
            if !repairs.is_empty() {
                let mut context = RepairContext {
                    conn,
                    transaction,
                    roots: ManagedRoots::load(conn, volume)?,
                    workspace: &workspace,
                    root: &root,
                    volume,
                    base: match ForkBase::find(conn, volume, &root)? {
                        Some(base) => Some(base),
                        None => unmerged_base(conn, volume, &root)?,
                    },
                    moves: None,
                    at: at.to_string(),
                    since: newest_revision(conn)?,
                };
                for repair in &repairs {
                    context.make(repair, &mut counts)?;
                }
            }
            if is_complete {
                conn.prepare_cached("UPDATE managed_workspace SET unsynced = 0 WHERE workspace = ?1")?
                    .execute([&workspace])?;
            }
            Ok(counts)
        })
    }

    fn touch(&self, root: &StorePath, path: &str, at: Timestamp) {
        if let (None, Ok(workspace)) = (self.as_of, self.workspace(root)) {
            self.database.touches.add(workspace, path, at);
        }
    }

    fn active_sessions(&self) -> StoreResult<HashSet<String>> {
        let reader = self.database.reader()?;
        let read = || -> Result<HashSet<String>> {
            let mut statement = reader.prepare_cached(
                "SELECT DISTINCT t.agent || '/' || t.name FROM thread t
                 JOIN thread_lease l ON l.thread = t.id JOIN lease_holder h ON h.id = l.holder WHERE h.expires > ?1",
            )?;
            let rows = statement.query_map([now(&reader)?], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        Ok(read()?)
    }

    fn is_of_active_thread(&self) -> StoreResult<bool> {
        let reader = self.database.reader()?;
        let read = || -> Result<bool> {
            let mut statement = reader.prepare_cached(
                "SELECT 1 FROM volume v JOIN thread_lease l ON l.thread = v.thread
                 JOIN lease_holder h ON h.id = l.holder WHERE v.id = ?1 AND h.expires > ?2",
            )?;
            Ok(statement.exists([self.volume, now(&reader)?])?)
        };
        Ok(read()?)
    }

    fn last_cleanup(&self, root: &StorePath) -> StoreResult<Option<CleanupRun>> {
        let (workspace, reader) = (self.workspace(root)?, self.database.reader()?);
        let found: Option<Option<String>> = reader
            .prepare_cached("SELECT last_cleanup FROM managed_workspace WHERE workspace = ?1")
            .and_then(|mut statement| statement.query_row([&workspace], |row| row.get(0)).optional())
            .map_err(DatabaseError::from)?;
        let parse = |json: String| {
            serde_json::from_str(&json)
                .map_err(|_| StoreError::Corrupt("the last cleanup can't be read".into()))
        };
        found.flatten().map(parse).transpose()
    }

    fn forked_rows(&self, root: &StorePath) -> StoreResult<Option<ForkedRows>> {
        let Some(root) = root_text(root).filter(|_| self.as_of.is_none()) else { return Ok(None) };
        let reader = self.database.reader()?;
        Ok(forked_rows(&reader, self.volume, root)?)
    }

    fn record_cleanup(&self, root: &StorePath, run: &CleanupRun) -> StoreResult<()> {
        let workspace = self.workspace(root)?;
        let json = serde_json::to_string(run).expect("numbers and texts can be written as JSON");
        self.write(move |transaction| {
            let statement = "UPDATE managed_workspace SET last_cleanup = ?2 WHERE workspace = ?1";
            transaction.conn.prepare_cached(statement)?.execute([workspace, json])?;
            Ok(())
        })
    }
}

impl SqlManifest {
    fn is_unsynced(&self, workspace: &str) -> StoreResult<bool> {
        let reader = self.database.reader()?;
        let found = reader
            .prepare_cached("SELECT 1 FROM managed_workspace WHERE workspace = ?1 AND unsynced = 1")
            .and_then(|mut statement| statement.exists([workspace]))
            .map_err(DatabaseError::from)?;
        Ok(found)
    }
}

/// What the repairs of one transaction share.
struct RepairContext<'a, 'c> {
    conn: &'c Connection,
    transaction: &'a mut WriteTransaction<'c>,
    roots: ManagedRoots,
    workspace: &'a str,
    root: &'a str,
    volume: i64,
    /// The manifest that a fork's files come from.
    base: Option<ForkBase>,
    /// What the host directory of a fork has moved, once it is needed.
    moves: Option<BaseMoves>,
    at: String,
    since: i64,
}

impl RepairContext<'_, '_> {
    fn make(&mut self, repair: &ManifestRepair, counts: &mut RepairCounts) -> Result<()> {
        match repair {
            ManifestRepair::Add { path, size } => counts.added += self.add(path, *size)?,
            ManifestRepair::Remove { row } if self.is_in_progress(row)? => {}
            ManifestRepair::Resize { row, .. } if self.is_in_progress(row)? => {}
            // Its path is counted as one that has no row any more, and the new one as one that has.
            ManifestRepair::Remove { row } if self.follow_base(row)? => counts.removed += 1,
            ManifestRepair::Remove { row } => {
                self.keep_history(row)?;
                self.keep_missing(row)?;
                counts.removed += self
                    .conn
                    .prepare_cached(
                        "DELETE FROM workspace_files WHERE id = ?1 AND path = ?2 AND modified_at = ?3",
                    )?
                    .execute(params![row.id, row.path, row.modified_at.to_string()])?
                    as u64;
            }
            ManifestRepair::Resize { row, size } => {
                self.keep_history(row)?;
                counts.resized += self
                    .conn
                    .prepare_cached(
                        "UPDATE workspace_files SET size_bytes = ?4, modified_at = ?5, since = ?6, tags = tags
                         WHERE id = ?1 AND path = ?2 AND modified_at = ?3",
                    )?
                    .execute(params![
                        row.id,
                        row.path,
                        row.modified_at.to_string(),
                        size.cast_signed(),
                        self.at,
                        self.since
                    ])? as u64;
            }
        }
        Ok(())
    }

    /// Whether the change that a row belongs to may still be rolled back, or its file isn't in place yet.
    fn is_in_progress(&self, row: &ManifestRow) -> Result<bool> {
        let mut statement = self.conn.prepare_cached(
            "SELECT 1 FROM workspace_files f JOIN intent i ON i.volume = ?2 AND i.revision = f.since WHERE f.id = ?1",
        )?;
        Ok(statement.exists([row.id, self.volume])?)
    }

    /// Whether a change that is being made is about a file at this path of the Store: it may be about to be removed or moved.
    fn is_changing(&self, in_store: &str) -> Result<bool> {
        let mut statement = self.conn.prepare_cached(
            "SELECT 1 FROM intent i JOIN ledger_event e ON e.volume = i.volume AND e.revision = i.revision
             WHERE i.volume = ?1 AND (e.path = ?2 OR e.other_path = ?2)",
        )?;
        Ok(statement.exists(params![self.volume, in_store.as_bytes()])?)
    }

    fn keep_history(&self, row: &ManifestRow) -> Result<()> {
        self.conn
            .prepare_cached(&format!(
                "INSERT OR IGNORE INTO workspace_file_history
                 SELECT {COLUMNS}, ?2 FROM workspace_files WHERE id = ?1 AND since < ?2"
            ))?
            .execute([row.id, self.since])?;
        Ok(())
    }

    /// Keeps the row of a file that is gone, for when it comes back.
    fn keep_missing(&self, row: &ManifestRow) -> Result<()> {
        self.conn
            .prepare_cached(&format!(
                "INSERT OR REPLACE INTO workspace_file_missing
                 SELECT {COLUMNS}, ?4 FROM workspace_files WHERE id = ?1 AND path = ?2 AND modified_at = ?3"
            ))?
            .execute(params![row.id, row.path, row.modified_at.to_string(), self.since])?;
        Ok(())
    }

    /// Gives a file that was gone its row back, with its tags and where it came from; it counts as written now. Returns whether there
    /// was one.
    fn bring_back_missing(&self, path: &str, size: u64) -> Result<bool> {
        let brought_back = self
            .conn
            .prepare_cached(
                "INSERT OR IGNORE INTO workspace_files(id, workspace, path, category, original_name, size_bytes, source_tool,
                   tags, created_at, modified_at, accessed_at, session_key, since)
                 SELECT id, workspace, path, category, original_name, ?3, source_tool, tags, created_at, ?4, accessed_at,
                   session_key, ?5 FROM workspace_file_missing WHERE workspace = ?1 AND path = ?2",
            )?
            .execute(params![self.workspace, path, size.cast_signed(), self.at, self.since])?;
        if brought_back > 0 {
            add_tags(self.conn, SUBTREE[0], self.workspace, (path, "", ""))?;
        }
        self.conn
            .prepare_cached("DELETE FROM workspace_file_missing WHERE workspace = ?1 AND path = ?2")?
            .execute([self.workspace, path])?;
        Ok(brought_back > 0)
    }

    /// Loads what the host directory of the fork has moved.
    fn base_moves(&mut self) -> Result<Option<(&BaseMoves, &ForkBase)>> {
        let Some(base) = &self.base else { return Ok(None) };
        if self.moves.is_none() {
            let place = (self.volume, self.root);
            self.moves = Some(BaseMoves::load(self.conn, place, base, self.workspace)?);
        }
        Ok(self.moves.as_ref().map(|moves| (moves, base)))
    }

    /// Takes a row to where the host directory of the fork has moved its file. Returns whether it did.
    fn follow_base(&mut self, row: &ManifestRow) -> Result<bool> {
        let (conn, workspace, since) = (self.conn, self.workspace, self.since);
        match self.base_moves()? {
            Some((moves, _)) => moves.follow(conn, workspace, row, since),
            None => Ok(false),
        }
    }

    fn add(&mut self, path: &str, size: u64) -> Result<u64> {
        let in_store = if self.root.is_empty() { path.to_owned() } else { format!("{}/{path}", self.root) };
        let is_own = self.roots.locate(&in_store).is_some_and(|(root, ..)| root.workspace == self.workspace);
        let Some(category) = category_of(path).filter(|_| is_own) else { return Ok(0) };
        if self.is_changing(&in_store)? {
            return Ok(0);
        }
        if self.bring_back_missing(path, size)? {
            return Ok(1);
        }
        if let Some(base) = &self.base {
            // A fork's file has the tags and the age of the file that it is a copy of.
            base.inherit(self.transaction, self.workspace, path)?;
            let mut copied = self.set_size(path, size)?;
            if copied == 0 && self.take_along(path)? {
                copied = self.set_size(path, size)?;
            }
            if copied > 0 {
                return Ok(copied);
            }
        }
        let (name, id) = (path.rsplit('/').next().unwrap_or(path), self.transaction.fresh_node()?);
        let added = self
            .conn
            .prepare_cached(
                "INSERT OR IGNORE INTO workspace_files(id, workspace, path, category, original_name, size_bytes, created_at,
                   modified_at, since) VALUES (?8, ?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)",
            )?
            .execute(params![
                self.workspace,
                path,
                category.as_str(),
                name,
                size.cast_signed(),
                self.at,
                self.since,
                id
            ])?;
        Ok(added as u64)
    }
}

impl RepairContext<'_, '_> {
    /// Gives a path the row of the file that the host directory of the fork has moved there. Returns whether it did.
    fn take_along(&mut self, path: &str) -> Result<bool> {
        let (workspace, since) = (self.workspace, self.since);
        self.base_moves()?;
        match (&self.moves, &self.base) {
            (Some(moves), Some(base)) => moves.take_along(self.transaction, base, (workspace, path), since),
            _ => Ok(false),
        }
    }

    /// Sets the size of a row. Returns how many rows the path has.
    fn set_size(&self, path: &str, size: u64) -> Result<u64> {
        let set = self
            .conn
            .prepare_cached("UPDATE workspace_files SET size_bytes = ?3 WHERE workspace = ?1 AND path = ?2")?
            .execute(params![self.workspace, path, size.cast_signed()])?;
        Ok(set as u64)
    }
}

/// A row of a scan, of which the statement has only the path.
struct VisitedRow<'r> {
    row: &'r Row<'r>,
    /// The connection, which has one view of the rows for as long as the scan's statement runs.
    conn: &'r Connection,
    /// The statement for the rest of a row, by Workspace and path.
    whole: &'r str,
    workspace: &'r str,
}

impl ScannedRow for VisitedRow<'_> {
    fn path(&self) -> StoreResult<&str> {
        let path = self.row.get_ref(0).map_err(DatabaseError::from)?;
        path.as_str().map_err(|_| StoreError::Corrupt("a path in the manifest can't be read".into()))
    }

    fn file(&self) -> StoreResult<ManagedFile> {
        let path = self.path()?;
        let read = || -> Result<ManagedFile> {
            let mut statement = self.conn.prepare_cached(self.whole)?;
            let mut rows = statement.query([self.workspace, path])?;
            let damaged = || StoreError::Corrupt("a row of the manifest can't be read".into());
            managed_file(rows.next()?.ok_or_else(damaged)?)
        };
        Ok(read()?)
    }
}

fn managed_file(row: &Row<'_>) -> Result<ManagedFile> {
    let category: String = row.get(3)?;
    let damaged = || StoreError::Corrupt("a row of the manifest can't be read".into());
    let category = category.parse::<Category>().map_err(|_| damaged())?;
    let size = row.get::<_, i64>(5)?.cast_unsigned();
    let mut file = ManagedFile::new(row.get(0)?, row.get::<_, String>(2)?, category, size, time(row, 8)?);
    file.original_name = row.get(4)?;
    file.source_tool = row.get(6)?;
    file.tags = Tags::from_stored(&row.get::<_, String>(7)?);
    file.modified_at = time(row, 9)?;
    file.accessed_at = match row.get::<_, Option<String>>(10)? {
        Some(text) => Some(text.parse().map_err(|_| damaged())?),
        None => None,
    };
    file.session_key = row.get(11)?;
    Ok(file)
}

fn time(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    let text: String = row.get(column)?;
    let damaged = |_| StoreError::Corrupt("a time in the manifest can't be read".into());
    Ok(text.parse().map_err(damaged)?)
}
