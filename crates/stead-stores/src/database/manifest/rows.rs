//! Writes the rows of a manifest, and takes them back.

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use stead_core::managed::{Category, ManifestEdit, TagMode, Tags};
use stead_core::store::{CompanionRecord, StorePath};
use stead_core::{Identity, Operation, StoreError};

use crate::database::batch::WriteTransaction;
use crate::database::error::{DatabaseError, Result};
use crate::database::manifest::forked::ForkBase;
use crate::database::manifest::returning::{EarlierRow, EarlierRows};
use crate::database::manifest::roots::{ManagedRoot, Overlap, workspace_name};
use crate::database::manifest::{COLUMNS, FileEffect, ManagedRoots, SUBTREE};
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

/// A row whose file a step has moved out of the tracked directories. A later step of the same change may move it back: merges and
/// undos move files aside first.
struct AsideRow {
    /// The path in the Store where the file lies.
    at: String,
    /// The row as it was before the change.
    row: EarlierRow,
}

/// What a change has done to rows so far, and what it may bring back.
struct ChangedRows {
    aside: Vec<AsideRow>,
    earlier: EarlierRows,
    /// Whether the change takes in what the target of a fork has.
    takes_in: bool,
}

/// Copies the rows that an effect is about into the manifest of a fork that has not been completed yet.
fn inherit_rows(
    transaction: &mut WriteTransaction<'_>,
    roots: &ManagedRoots,
    effect: &FileEffect,
) -> Result<()> {
    if roots.iter().all(|root| root.base.is_none()) {
        return Ok(());
    }
    let paths = match effect {
        FileEffect::Put { path, .. } | FileEffect::Remove { path } => [Some(path), None],
        FileEffect::Move { from, to, .. } => [Some(from), Some(to)],
        FileEffect::Exchange { first, second } => [Some(first), Some(second)],
    };
    for path in paths.into_iter().flatten().filter_map(|path| std::str::from_utf8(path).ok()) {
        for root in roots.iter() {
            if let (Some(base), Overlap::Inside(relative_path)) = (&root.base, root.overlap(path)) {
                base.inherit(transaction, &root.workspace, relative_path)?;
            }
        }
    }
    Ok(())
}

/// The session that an identity works in: `AGENT`, or `AGENT/THREAD`.
fn session_key(identity: &Identity) -> String {
    match &identity.thread {
        Some(thread) => format!("{}/{thread}", identity.agent),
        None => identity.agent.clone(),
    }
}

impl ChangedRows {
    /// Whether the file of a row lies outside the tracked directories, and may yet move back.
    fn is_aside(&self, id: i64) -> bool {
        self.aside.iter().any(|aside| aside.row.id == id)
    }
}

impl ManifestChange<'_> {
    /// Makes the rows agree with what the change did.
    pub(crate) fn write(
        &self,
        transaction: &mut WriteTransaction<'_>,
        roots: &ManagedRoots,
        effects: &[FileEffect],
    ) -> Result<()> {
        let takes_in = self.records.iter().any(|record| matches!(record, CompanionRecord::ForkSync(_)));
        let earlier = EarlierRows::of(transaction.conn, self.records)?;
        let mut changed = ChangedRows { aside: Vec::new(), earlier, takes_in };
        for effect in effects {
            match self.write_effect(transaction, roots, effect, &mut changed) {
                Err(error) if is_about_rows(&error) => {
                    tracing::warn!(
                        "a row of a manifest could not be written, so that sync has to do it: {error:?}"
                    );
                    for root in roots.iter() {
                        transaction
                            .conn
                            .prepare_cached("UPDATE managed_workspace SET unsynced = 1 WHERE workspace = ?1")?
                            .execute([&root.workspace])?;
                    }
                }
                result => result?,
            }
        }
        Ok(())
    }

    fn write_effect(
        &self,
        transaction: &mut WriteTransaction<'_>,
        roots: &ManagedRoots,
        effect: &FileEffect,
        changed: &mut ChangedRows,
    ) -> Result<()> {
        inherit_rows(transaction, roots, effect)?;
        let conn = transaction.conn;
        match effect {
            FileEffect::Put { path, size, is_new } => {
                if let Ok(path) = std::str::from_utf8(path) {
                    self.put(transaction, roots, path, (*size, *is_new), changed)?;
                }
            }
            FileEffect::Remove { path } => {
                if self.remove(conn, roots, path)? {
                    changed.earlier.note_removed(self.revision);
                }
            }
            FileEffect::Move { from, to, size } => {
                self.rename(transaction, roots, (from, to), *size, changed)?;
            }
            FileEffect::Exchange { first, second } => {
                let aside = &mut changed.aside;
                let mut rows = self.take(conn, roots, (first, second), aside)?;
                rows.extend(self.take(conn, roots, (second, first), aside)?);
                self.put_back(conn, roots, &rows, aside)?;
                mark_unsynced(conn, roots, first)?;
                mark_unsynced(conn, roots, second)?;
            }
        }
        Ok(())
    }

    /// Makes a change of rows alone.
    pub(crate) fn edit(&self, conn: &Connection, edit: &ManifestEdit) -> Result<()> {
        let (ManifestEdit::SetTags { root, path, .. }
        | ManifestEdit::Forget { root, path }
        | ManifestEdit::Adopt { root, path, .. }) = edit;
        let workspace = workspace_name(self.volume, root.as_str().unwrap_or_default());
        let found: Option<(i64, String)> = conn
            .prepare_cached("SELECT id, tags FROM workspace_files WHERE workspace = ?1 AND path = ?2")?
            .query_row([&workspace, path], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (id, tags) = match (found, edit) {
            (Some(found), _) => found,
            // The merge has left the file out.
            (None, ManifestEdit::Adopt { .. }) => return Ok(()),
            (None, _) => return Err(StoreError::NotFound.into()),
        };
        let since = self.since(conn)?;
        keep_history(conn, &workspace, path, since)?;
        match edit {
            ManifestEdit::SetTags { before, .. } if Tags::from_stored(&tags) != *before => {
                return Err(StoreError::Conflict.into());
            }
            ManifestEdit::SetTags { after, .. } => {
                conn.prepare_cached("UPDATE workspace_files SET tags = ?2, since = ?3 WHERE id = ?1")?
                    .execute(params![id, after.to_string(), since])?;
            }
            ManifestEdit::Adopt { added, removed, origin, .. } => {
                let kept = Tags::from_stored(&tags).without(removed);
                // Tags beyond the most that a file can have are left out.
                let tags = kept.changed(TagMode::Add, added).unwrap_or(kept);
                conn.prepare_cached("UPDATE workspace_files SET tags = ?2, since = ?3 WHERE id = ?1")?
                    .execute(params![id, tags.to_string(), since])?;
                if let Some(origin) = origin {
                    // Only of a row that this change has made.
                    conn.prepare_cached(
                        "UPDATE workspace_files SET original_name = ?2, source_tool = ?3, created_at = ?4, session_key = ?5
                         WHERE id = ?1 AND created_at = ?6 AND modified_at = ?6",
                    )?
                    .execute(params![
                        id,
                        origin.original_name,
                        origin.source_tool,
                        origin.created_at.to_string(),
                        origin.session_key,
                        self.operation.at.to_string()
                    ])?;
                }
            }
            ManifestEdit::Forget { .. } => {
                conn.prepare_cached("DELETE FROM workspace_files WHERE id = ?1")?.execute([id])?;
            }
        }
        Ok(())
    }

    /// The revision from which a row that the change writes is as it is.
    pub(super) fn since(&self, conn: &Connection) -> Result<i64> {
        match self.revision {
            Some(revision) => Ok(revision),
            None => newest_revision(conn),
        }
    }

    /// Makes the row of a file, or updates the one that it has.
    fn put(
        &self,
        transaction: &mut WriteTransaction<'_>,
        roots: &ManagedRoots,
        path: &str,
        (size, is_new): (u64, bool),
        changed: &ChangedRows,
    ) -> Result<()> {
        let Some((root, relative_path, category)) = roots.locate(path) else { return Ok(()) };
        let conn = transaction.conn;
        let since = self.since(conn)?;
        let at = self.operation.at.to_string();
        let insert = |transaction: &mut WriteTransaction<'_>| -> Result<bool> {
            let id = transaction.fresh_node()?;
            let name = relative_path.rsplit('/').next().unwrap_or(relative_path);
            let inserted = conn
                .prepare_cached(
                    "INSERT INTO workspace_files(id, workspace, path, category, original_name, size_bytes, source_tool,
                                                 created_at, modified_at, session_key, since)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10) ON CONFLICT(workspace, path) DO NOTHING",
                )?
                .execute(params![
                    id,
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
            // This is another file than one that was here before.
            conn.prepare_cached("DELETE FROM workspace_file_missing WHERE workspace = ?1 AND path = ?2")?
                .execute([&*root.workspace, relative_path])?;
            Ok(inserted > 0)
        };
        let is_returning = match changed.earlier.row_of(conn, &root.workspace, relative_path)? {
            Some(row) if !changed.is_aside(row.id) => row.bring_back(conn, since)?,
            _ => false,
        };
        if is_new && !is_returning && insert(transaction)? {
            if changed.takes_in {
                self.copy_of_target(conn, root, relative_path)?;
            }
            return Ok(());
        }
        let is_tagged: Option<bool> = conn
            .prepare_cached("SELECT tags <> '' FROM workspace_files WHERE workspace = ?1 AND path = ?2")?
            .query_row([&*root.workspace, relative_path], |row| row.get(0))
            .optional()?;
        let Some(is_tagged) = is_tagged else { return insert(transaction).map(drop) };
        keep_history(conn, &root.workspace, relative_path, since)?;
        self.mark_written(conn, (&root.workspace, relative_path), size, is_tagged)
    }

    /// Gives the row of a file that a fork takes in from its target what the target's row says of it. A file that comes back to the
    /// fork would otherwise count as one whose tags the fork has removed.
    fn copy_of_target(&self, conn: &Connection, root: &ManagedRoot, path: &str) -> Result<()> {
        let Some(base) = ForkBase::find(conn, self.volume, &root.path)? else { return Ok(()) };
        conn.prepare_cached(
            "UPDATE workspace_files
             SET (original_name, source_tool, tags, created_at, session_key) =
               (SELECT original_name, source_tool, tags, created_at, session_key FROM workspace_files b
                WHERE b.workspace = ?3 AND b.path = ?2)
             WHERE workspace = ?1 AND path = ?2
               AND EXISTS (SELECT 1 FROM workspace_files b WHERE b.workspace = ?3 AND b.path = ?2)",
        )?
        .execute(params![root.workspace, path, base.workspace])?;
        Ok(())
    }

    /// Sets what a write of a file changes in its row.
    fn mark_written(
        &self,
        conn: &Connection,
        (workspace, path): (&str, &str),
        size: u64,
        is_tagged: bool,
    ) -> Result<()> {
        // The index of tags follows where a statement sets them.
        let tags = if is_tagged { ", tags = tags" } else { "" };
        conn.prepare_cached(&format!(
            "UPDATE workspace_files SET size_bytes = ?3, source_tool = ?4, modified_at = ?5, since = ?6{tags}
             WHERE workspace = ?1 AND path = ?2"
        ))?
        .execute(params![
            workspace,
            path,
            size.cast_signed(),
            self.operation.tool,
            self.operation.at.to_string(),
            self.since(conn)?
        ])?;
        Ok(())
    }

    /// Removes the rows at a path and below it. Returns whether there were any.
    fn remove(&self, conn: &Connection, roots: &ManagedRoots, path: &[u8]) -> Result<bool> {
        let Ok(path) = std::str::from_utf8(path) else { return Ok(false) };
        let since = self.since(conn)?;
        let mut has_removed = false;
        for root in roots.iter() {
            has_removed |= match root.overlap(path) {
                Overlap::Inside(relative_path) => {
                    remove_subtree(conn, &root.workspace, relative_path, since)?
                }
                Overlap::Contains => remove_all(conn, &root.workspace, since)?,
                Overlap::None => false,
            };
        }
        Ok(has_removed)
    }

    fn rename(
        &self,
        transaction: &mut WriteTransaction<'_>,
        roots: &ManagedRoots,
        (from, to): (&[u8], &[u8]),
        size: Option<u64>,
        changed: &mut ChangedRows,
    ) -> Result<()> {
        let conn = transaction.conn;
        let rows = self.take(conn, roots, (from, to), &mut changed.aside)?;
        if self.remove(conn, roots, to)? {
            changed.earlier.note_removed(self.revision);
        }
        let Some(size) = size else {
            self.put_back(conn, roots, &rows, &mut changed.aside)?;
            if let Ok(to) = std::str::from_utf8(to) {
                self.bring_back_below(conn, roots, to, &changed.earlier)?;
            }
            // Files that had no rows may be in the directory.
            return mark_unsynced(conn, roots, to);
        };
        if rows.is_empty() {
            // A file that wasn't tracked before is new here.
            return match std::str::from_utf8(to) {
                Ok(to) => self.put(transaction, roots, to, (size, true), changed),
                Err(_) => Ok(()),
            };
        }
        let mut moving = Vec::new();
        for row in rows {
            if !self.replace_moved(conn, roots, &row, size, changed)? {
                moving.push(row);
            }
        }
        self.put_back(conn, roots, &moving, &mut changed.aside)
    }

    /// Puts an earlier row of the new path into the place of the row of a moved file: that of the file that was replaced, or the one
    /// that an undo or a restore brings back. Returns whether there is one.
    fn replace_moved(
        &self,
        conn: &Connection,
        roots: &ManagedRoots,
        moved: &MovedRow,
        size: u64,
        changed: &ChangedRows,
    ) -> Result<bool> {
        let Some((root, path, _)) = roots.locate(&moved.to) else { return Ok(false) };
        let Some(row) = changed.earlier.row_of(conn, &root.workspace, path)? else { return Ok(false) };
        if row.id == moved.id || changed.is_aside(row.id) || !row.bring_back(conn, self.since(conn)?)? {
            return Ok(false);
        }
        if row.is_replaced {
            // No tag is lost, so that a file which is pinned stays pinned.
            let tags_of = |id: i64| -> Result<Tags> {
                let mut statement = conn.prepare_cached("SELECT tags FROM workspace_files WHERE id = ?1")?;
                Ok(Tags::from_stored(&statement.query_row([id], |row| row.get::<_, String>(0))?))
            };
            let own = tags_of(row.id)?;
            if let Ok(tags) = own.changed(TagMode::Add, &tags_of(moved.id)?) {
                conn.prepare_cached("UPDATE workspace_files SET tags = ?2 WHERE id = ?1")?
                    .execute(params![row.id, tags.to_string()])?;
            }
        }
        conn.prepare_cached("DELETE FROM workspace_files WHERE id = ?1")?.execute([moved.id])?;
        self.mark_written(conn, (&root.workspace, path), size, true)?;
        Ok(true)
    }

    /// Brings back the rows below a directory that an undo or a restore moves back.
    fn bring_back_below(
        &self,
        conn: &Connection,
        roots: &ManagedRoots,
        path: &str,
        earlier: &EarlierRows,
    ) -> Result<()> {
        let since = self.since(conn)?;
        for root in roots.iter() {
            let (low, high) = match root.overlap(path) {
                Overlap::Inside(inside) => (format!("{inside}/"), format!("{inside}0")),
                Overlap::Contains => (String::new(), "\u{10ffff}".to_owned()),
                Overlap::None => continue,
            };
            for row in earlier.rows_within(conn, &root.workspace, (&low, &high))? {
                row.bring_back(conn, since)?;
            }
        }
        Ok(())
    }

    /// Takes the rows at `from` and below it out of the table. Each gets the path that follows from `to`.
    fn take(
        &self,
        conn: &Connection,
        roots: &ManagedRoots,
        (from, to): (&[u8], &[u8]),
        aside: &mut Vec<AsideRow>,
    ) -> Result<Vec<MovedRow>> {
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
            let [exactly, below] = SUBTREE;
            let mut statement = conn.prepare_cached(&format!(
                "SELECT id, path FROM workspace_files WHERE workspace = ?1 AND {exactly}
                 UNION SELECT id, path FROM workspace_files WHERE workspace = ?1 AND {below}"
            ))?;
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
            keep_history(conn, &row.workspace, &row.path, since)?;
            // Out of the way of other rows that move; the number is free again at once.
            conn.prepare_cached("UPDATE workspace_files SET path = '/' || id WHERE id = ?1")?
                .execute([row.id])?;
        }
        let is_below = |row: &mut AsideRow| {
            row.at.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        for AsideRow { at, row } in aside.extract_if(.., is_below) {
            // Another file may have its path by now.
            if row.bring_back_to(conn, &format!("/{}", row.id), since)? {
                let (EarlierRow { id, workspace, path, .. }, to) =
                    (row, format!("{to}{}", &at[from.len()..]));
                moved.push(MovedRow { id, workspace, path, to });
            }
        }
        Ok(moved)
    }

    /// Puts taken rows to their new paths. A row whose new path isn't tracked is removed.
    fn put_back(
        &self,
        conn: &Connection,
        roots: &ManagedRoots,
        rows: &[MovedRow],
        aside: &mut Vec<AsideRow>,
    ) -> Result<()> {
        let since = self.since(conn)?;
        for row in rows {
            match roots.locate(&row.to) {
                Some((root, path, category)) => {
                    place(conn, row.id, (&root.workspace, path, category), since)?
                }
                None => {
                    conn.prepare_cached("DELETE FROM workspace_files WHERE id = ?1")?.execute([row.id])?;
                    let (id, workspace, path) = (row.id, row.workspace.clone(), row.path.clone());
                    let ended = EarlierRow { id, workspace, path, until: since, is_replaced: true };
                    aside.push(AsideRow { at: row.to.clone(), row: ended });
                }
            }
        }
        Ok(())
    }
}

/// Copies the row of a path, if it has one, to the history, where it ends with revision `since`. A state that the change of this
/// revision has made itself was never visible.
pub(super) fn keep_history(conn: &Connection, workspace: &str, path: &str, since: i64) -> Result<()> {
    conn.prepare_cached(&format!(
        "INSERT OR REPLACE INTO workspace_file_history
         SELECT {COLUMNS}, ?3 FROM workspace_files WHERE workspace = ?1 AND path = ?2 AND since < ?3"
    ))?
    .execute(params![workspace, path, since])?;
    Ok(())
}

/// Whether an error is about the rows alone: the transaction can still be made, without them.
fn is_about_rows(error: &DatabaseError) -> bool {
    match error {
        DatabaseError::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation),
        DatabaseError::Store(error) => matches!(error, StoreError::Corrupt(_)),
        DatabaseError::NotTakenOver(_) => false,
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

/// Removes the rows at a path and below it, and keeps them as history. Returns whether there were any.
fn remove_subtree(conn: &Connection, workspace: &str, relative_path: &str, since: i64) -> Result<bool> {
    let mut removed = 0;
    let (low, high) = (format!("{relative_path}/"), format!("{relative_path}0"));
    for part in SUBTREE {
        let values = params![workspace, relative_path, low, high, since];
        conn.prepare_cached(&format!(
            "INSERT OR REPLACE INTO workspace_file_history SELECT {COLUMNS}, ?5 FROM workspace_files
             WHERE workspace = ?1 AND {part} AND since < ?5"
        ))?
        .execute(values)?;
        removed += conn
            .prepare_cached(&format!(
                "DELETE FROM workspace_files WHERE workspace = ?1 AND {part} AND since <= ?5"
            ))?
            .execute(values)?;
        // A file that is made there later is another one.
        conn.prepare_cached(&format!(
            "DELETE FROM workspace_file_missing WHERE workspace = ?1 AND {part} AND since <= ?5"
        ))?
        .execute(values)?;
    }
    Ok(removed > 0)
}

fn remove_all(conn: &Connection, workspace: &str, since: i64) -> Result<bool> {
    conn.prepare_cached(&format!(
        "INSERT OR REPLACE INTO workspace_file_history
         SELECT {COLUMNS}, ?2 FROM workspace_files WHERE workspace = ?1 AND since < ?2"
    ))?
    .execute(params![workspace, since])?;
    let removed =
        conn.prepare_cached("DELETE FROM workspace_files WHERE workspace = ?1")?.execute([workspace])?;
    conn.prepare_cached("DELETE FROM workspace_file_missing WHERE workspace = ?1")?.execute([workspace])?;
    Ok(removed > 0)
}

/// Adds the tags of rows that were inserted with tags, in one of the parts of a subtree.
pub(super) fn add_tags(
    conn: &Connection,
    part: &str,
    workspace: &str,
    (path, low, high): (&str, &str, &str),
) -> Result<()> {
    conn.prepare_cached(&format!(
        "INSERT OR IGNORE INTO workspace_file_tag(workspace, tag, written, file)
         SELECT ?1, j.value, f.modified_at, f.id
         FROM (SELECT id, modified_at, tags FROM workspace_files WHERE workspace = ?1 AND tags <> '' AND {part} AND ?3 <= ?4) f,
           json_each('[' || replace(json_quote(f.tags), ',', '\",\"') || ']') j"
    ))?
    // Both parts have as many parameters.
    .execute([workspace, path, low, high])?;
    Ok(())
}

/// Notes that there may be files without rows at a path, in every managed directory that it lies in or contains.
fn mark_unsynced(conn: &Connection, roots: &ManagedRoots, path: &[u8]) -> Result<()> {
    let Ok(path) = std::str::from_utf8(path) else { return Ok(()) };
    for root in roots.iter() {
        if root.may_track_below(path) {
            conn.prepare_cached("UPDATE managed_workspace SET unsynced = 1 WHERE workspace = ?1")?
                .execute([&root.workspace])?;
        }
    }
    Ok(())
}

/// Which rows a change that is rolled back may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RolledBackRows {
    /// Those at the paths of its ledger rows.
    OfFiles,
    /// Any: it may have carried edits of rows alone.
    Any,
}

impl RolledBackRows {
    /// What a change with these records may have changed.
    pub(crate) fn of(records: &[CompanionRecord]) -> Self {
        // An undo takes tags back, too.
        let edits_rows =
            |record| matches!(record, &CompanionRecord::Manifest(_) | &CompanionRecord::Undoes(_));
        match records.iter().any(edits_rows) {
            true => RolledBackRows::Any,
            false => RolledBackRows::OfFiles,
        }
    }
}

/// Takes back what a change of a Physical Store did to rows. Its ledger rows must still be there: they have its paths.
pub(crate) fn roll_back_rows(
    conn: &Connection,
    volume: i64,
    revision: i64,
    which: RolledBackRows,
) -> Result<()> {
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
    if which == RolledBackRows::Any {
        // The path of the Store's root contains every managed directory.
        paths.push(String::new());
    }
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
        for part in SUBTREE {
            conn.prepare_cached(&format!(
                "DELETE FROM workspace_files WHERE workspace = ?1 AND since = ?5 AND {part}"
            ))?
            .execute(params![workspace, exact, low, high, revision])?;
        }
    }
    for (workspace, exact, low, high) in &ranges {
        for part in SUBTREE {
            let values = params![workspace, exact, low, high, revision];
            // A later change may have made rows of its own there; those stay.
            conn.prepare_cached(&format!(
                "INSERT OR IGNORE INTO workspace_files({COLUMNS}) SELECT {COLUMNS} FROM workspace_file_history
                 WHERE workspace = ?1 AND until = ?5 AND {part}"
            ))?
            .execute(values)?;
            add_tags(conn, part, workspace, (exact, low, high))?;
            conn.prepare_cached(&format!(
                "DELETE FROM workspace_file_history WHERE workspace = ?1 AND until = ?5 AND {part}"
            ))?
            .execute(values)?;
        }
    }
    Ok(())
}

/// The path of a managed directory as text; `None` if it can't be one.
pub(super) fn root_text(root: &StorePath) -> Option<&str> {
    root.as_str()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::database::Database;

    #[test]
    fn a_change_that_is_rolled_back_gives_rows_and_their_tags_back() {
        let database = Database::in_memory();
        let reader = database.0.reader().unwrap();
        let conn = &*reader;
        conn.execute_batch(
            "INSERT INTO managed_workspace(workspace, volume, path, unsynced) VALUES ('3:/', 3, '', 0);
             INSERT INTO workspace_files(id, workspace, path, category, size_bytes, tags, created_at, modified_at, since)
             VALUES (1, '3:/', 'code/a.py', 'code', 1, 'one,two', '', '2026', 5), (2, '3:/', 'code/b.py', 'code', 1, '', '', '2026', 5);
             INSERT INTO ledger_event(volume, revision, seq, kind, path, detail, displaced)
             VALUES (3, 9, 0, 3, CAST('code' AS BLOB), '{}', 0);",
        )
        .unwrap();
        add_tags(conn, SUBTREE[1], "3:/", ("", "code/", "code0")).unwrap();
        let tagged = || -> Vec<String> {
            let sql = "SELECT tag || ' ' || written || ' ' || file FROM workspace_file_tag ORDER BY tag";
            let mut statement = conn.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get(0)).unwrap();
            rows.map(rusqlite::Result::unwrap).collect()
        };
        let before = ["one 2026 1", "two 2026 1"];
        assert_eq!(tagged(), before);
        remove_subtree(conn, "3:/", "code", 9).unwrap();
        assert_eq!(tagged(), [""; 0]);
        for _ in 0..2 {
            roll_back_rows(conn, 3, 9, RolledBackRows::OfFiles).unwrap();
            assert_eq!(tagged(), before);
            let rows: i64 =
                conn.query_row("SELECT count(*) FROM workspace_files", [], |row| row.get(0)).unwrap();
            assert_eq!(rows, 2);
        }
    }
}
