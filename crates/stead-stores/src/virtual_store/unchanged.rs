//! Revisions that changed nothing. A Store makes one if the caller must not learn whether its change found something to
//! do.

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::{Revision, RevisionNumber, RevisionQuery, StorePath};

use crate::database::error::Result;
use crate::virtual_store::history::{operation_of, revision_numbers_of, undo_links};

/// Adds the row of a revision that changed nothing. `path` is the path that the change was about.
pub(crate) fn insert(conn: &Connection, volume: i64, revision: i64, path: &StorePath) -> Result<()> {
    conn.prepare_cached("INSERT INTO empty_revision(volume, revision, path) VALUES (?1, ?2, ?3)")?
        .execute(params![volume, revision, path.as_bytes()])?;
    Ok(())
}

/// Removes the row of a revision that changed nothing.
pub(crate) fn delete(conn: &Connection, volume: i64, revision: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM empty_revision WHERE volume = ?1 AND revision = ?2")?
        .execute([volume, revision])?;
    Ok(())
}

/// Whether a revision of a volume changed nothing.
pub(crate) fn is_unchanged_revision(conn: &Connection, volume: i64, revision: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM empty_revision WHERE volume = ?1 AND revision = ?2";
    Ok(conn.prepare_cached(sql)?.exists([volume, revision])?)
}

/// Adds revisions that changed nothing to the result of a query, if it asks for operations.
pub(crate) fn add_unchanged_revisions(
    conn: &Connection,
    volume: i64,
    query: &RevisionQuery,
    found: &mut Vec<Revision>,
) -> Result<()> {
    let Some(operations) = &query.operations else { return Ok(()) };
    let count_before = found.len();
    for revision in revision_numbers_of(conn, operations)? {
        if revision <= query.after.0 || revision > query.up_to.0 {
            continue;
        }
        let path: Option<Vec<u8>> = conn
            .prepare_cached("SELECT path FROM empty_revision WHERE volume = ?1 AND revision = ?2")?
            .query_row([volume, revision], |row| row.get(0))
            .optional()?;
        let (Some(path), Some(operation)) = (path, operation_of(conn, revision)?) else { continue };
        if query.matches(&operation) {
            let (undoes, undone) = undo_links(conn, volume, &operation)?;
            let (revision, blind_at) = (RevisionNumber(revision), Some(StorePath::from_checked(path)));
            found.push(Revision {
                number: revision,
                operation,
                changes: Vec::new(),
                blind_at,
                undoes,
                undone,
            });
        }
    }
    if found.len() > count_before {
        found.sort_by_key(|revision| std::cmp::Reverse(revision.number));
        found.truncate(query.limit);
    }
    Ok(())
}
