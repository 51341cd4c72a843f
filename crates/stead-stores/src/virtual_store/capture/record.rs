//! Records which revisions of a capture volume snapshots captured, and removes what none of them needs.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};
use stead_core::glob::{Anchor, PathGlobs};
use stead_core::store::{
    CaptureScope, CaptureScopes, Captured, RevisionNumber, StoreError, StorePath, StoreResult,
};

use crate::database::DatabaseInner;
use crate::database::batch::WriteTransaction;
use crate::database::error::{Result, corrupt};
use crate::database::maintenance::{PINNED_REVISIONS, is_readable};
use crate::database::schema::HISTORY_FROM;
use crate::virtual_store::capture::{CaptureTurn, CaptureVolume};

/// Which parts of a directory were captured.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapturedParts {
    pub(crate) extents: CaptureScopes,
    /// Directories that could not be read.
    pub(crate) unread: Vec<StorePath>,
}

/// `CapturedParts` as JSON in the database.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredParts {
    extents: Vec<StoredScope>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unread: Vec<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredScope {
    at: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    from: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    without: Vec<String>,
}

impl From<&CapturedParts> for StoredParts {
    fn from(parts: &CapturedParts) -> Self {
        // The paths are those of Workspaces, which are text.
        let text = |path: &StorePath| String::from_utf8_lossy(path.as_bytes()).into_owned();
        let to_stored = |scope: &CaptureScope| StoredScope {
            at: text(scope.root()),
            from: text(scope.globs_base()),
            without: scope.excluded().patterns().to_vec(),
        };
        let unread = parts.unread.iter().map(|path| path.as_bytes().to_vec()).collect();
        StoredParts { extents: parts.extents.into_iter().map(to_stored).collect(), unread }
    }
}

impl StoredParts {
    fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|_| damaged_parts_error())
    }

    /// Both together, without duplicates.
    fn merged_with(mut self, other: StoredParts) -> Self {
        self.extents.extend(other.extents);
        self.unread.extend(other.unread);
        self.unread.sort();
        self.unread.dedup();
        let mut distinct = Vec::with_capacity(self.extents.len());
        for scope in self.extents {
            if !distinct.contains(&scope) {
                distinct.push(scope);
            }
        }
        StoredParts { extents: distinct, unread: self.unread }
    }

    fn into_parts(self) -> Result<CapturedParts> {
        let to_scope = |stored: StoredScope| {
            let excluded =
                PathGlobs::new(&stored.without, Anchor::AnyDirectory).map_err(|_| damaged_parts_error())?;
            let path = |text: String| StorePath::from_checked(text);
            Ok(CaptureScope::new(path(stored.at), path(stored.from), excluded))
        };
        let extents = self.extents.into_iter().map(to_scope).collect::<Result<CaptureScopes>>()?;
        Ok(CapturedParts { extents, unread: self.unread.into_iter().map(StorePath::from_checked).collect() })
    }
}

fn damaged_parts_error() -> crate::database::error::DatabaseError {
    corrupt("the list of what a snapshot includes of a directory can't be read")
}

/// A capture that is complete, for the snapshot to record.
pub(crate) struct FinishedCapture {
    database: Arc<DatabaseInner>,
    vol: i64,
    turn: CaptureTurn,
    parts: CapturedParts,
}

impl CaptureVolume {
    /// Ends a capture. The snapshot gets the result, and records it.
    pub(crate) fn finish_capture(&self, turn: CaptureTurn, parts: CapturedParts) -> Captured {
        Captured::new(FinishedCapture { database: Arc::clone(self.database()), vol: self.vol, turn, parts })
    }

    /// Which parts of the directory the volume has at a revision; `None` if no snapshot captured it, or if it can't be
    /// read any more.
    pub(crate) fn parts_at(&self, revision: RevisionNumber) -> StoreResult<Option<CapturedParts>> {
        let find = || -> Result<Option<CapturedParts>> {
            let reader = self.database().reader()?;
            let found: Option<String> = reader
                .prepare_cached("SELECT parts FROM capture WHERE volume = ?1 AND revision = ?2")?
                .query_row([self.vol, revision.0], |row| row.get(0))
                .optional()?;
            match found {
                Some(text) if is_readable(&reader, revision.0)? => {
                    StoredParts::parse(&text)?.into_parts().map(Some)
                }
                _ => Ok(None),
            }
        };
        Ok(find()?)
    }
}

/// Records, in a snapshot's transaction, what was captured at its revision. `Conflict` if another capture of the
/// directory has started meanwhile.
pub(crate) fn record_capture(
    transaction: &mut WriteTransaction<'_>,
    capture: &FinishedCapture,
    database: &DatabaseInner,
    revision: i64,
) -> Result<()> {
    if capture.database.id != database.id {
        let message = "a Workspace has its history in another database, so this snapshot can't include it";
        return Err(StoreError::Invalid(message.into()).into());
    }
    let FinishedCapture { vol, turn, parts, .. } = capture;
    let conn = transaction.conn;
    if !conn
        .prepare_cached("SELECT 1 FROM capture_volume WHERE volume = ?1 AND turn = ?2")?
        .exists([vol, &turn.0])?
    {
        return Err(StoreError::Conflict.into());
    }
    let before: Option<String> = conn
        .prepare_cached("SELECT parts FROM capture WHERE volume = ?1 AND revision = ?2")?
        .query_row([*vol, revision], |row| row.get(0))
        .optional()?;
    // Two snapshots of the same revision may have captured different parts.
    let before = before.map(|text| StoredParts::parse(&text)).transpose()?.unwrap_or_default();
    let merged = before.merged_with(StoredParts::from(parts));
    let text = serde_json::to_string(&merged).expect("texts and numbers can be written as JSON");
    conn.prepare_cached("INSERT OR REPLACE INTO capture(volume, revision, parts) VALUES (?1, ?2, ?3)")?
        .execute(params![vol, revision, text])?;
    Ok(())
}

/// Deletes the records of captures whose revisions can't be read any more.
pub(crate) fn forget_unreadable_captures(transaction: &mut WriteTransaction<'_>) -> Result<()> {
    let sql = format!(
        "DELETE FROM capture WHERE revision < (SELECT value FROM meta WHERE id = ?1) AND revision NOT IN (SELECT revision FROM ({PINNED_REVISIONS}))"
    );
    transaction.conn.prepare_cached(&sql)?.execute([HISTORY_FROM])?;
    Ok(())
}

/// Reverts a capture volume to the newest revision that a snapshot captured: later ones belong to no snapshot. Does
/// nothing if a capture was active after `idle_since`; an older one is ended, if it wrote anything. Returns how many
/// states were removed.
pub(crate) fn revert_unfinished_capture(
    transaction: &mut WriteTransaction<'_>,
    vol: i64,
    idle_since: i64,
) -> Result<u64> {
    let conn = transaction.conn;
    let mut statement = conn.prepare_cached("SELECT 1 FROM capture_volume WHERE volume = ?1 AND at <= ?2")?;
    if !statement.exists([vol, idle_since])? {
        return Ok(0);
    }
    let newest: i64 = conn
        .prepare_cached("SELECT ifnull(max(revision), 0) FROM capture WHERE volume = ?1")?
        .query_row([vol], |row| row.get(0))?;
    let deleted =
        conn.prepare_cached("DELETE FROM entry WHERE volume = ?1 AND since > ?2")?.execute([vol, newest])?;
    let restored = conn
        .prepare_cached(
            "INSERT INTO entry(volume, parent, name, node, kind, mode, size, created, modified, changed, content, since)
             SELECT volume, parent, name, node, kind, mode, size, created, modified, changed, content, since
             FROM entry_history WHERE volume = ?1 AND since <= ?2 AND until > ?2",
        )?
        .execute([vol, newest])?;
    let deleted_from_history = conn
        .prepare_cached("DELETE FROM entry_history WHERE volume = ?1 AND until > ?2")?
        .execute([vol, newest])?;
    if deleted + restored + deleted_from_history == 0 {
        return Ok(0);
    }
    conn.prepare_cached("UPDATE capture_volume SET turn = turn + 1 WHERE volume = ?1")?.execute([vol])?;
    conn.prepare_cached("DELETE FROM node_change WHERE volume = ?1 AND revision > ?2")?
        .execute([vol, newest])?;
    conn.prepare_cached(
        "DELETE FROM fingerprint WHERE volume = ?1 AND NOT EXISTS (
           SELECT 1 FROM entry e WHERE e.volume = ?1 AND e.node = fingerprint.node AND e.since = fingerprint.since)",
    )?
    .execute([vol])?;
    transaction.invalidate_directories()?;
    Ok((deleted + deleted_from_history - restored) as u64)
}
