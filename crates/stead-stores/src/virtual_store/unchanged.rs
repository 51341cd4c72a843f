//! Revisions that changed nothing. A Store makes one if the caller must not learn whether its change found something to
//! do.

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::{Revision, RevisionNumber, RevisionQuery, StorePath};

use crate::database::error::Result;
use crate::virtual_store::history::{operation_of, revision_numbers_of, undo_links};

/// Adds the row of a revision that changed nothing. `path` is the path that the change was about.
pub(crate) fn note(conn: &Connection, volume: i64, version: i64, path: &StorePath) -> Result<()> {
    conn.prepare_cached("INSERT INTO empty_revision(volume, revision, path) VALUES (?1, ?2, ?3)")?
        .execute(params![volume, version, path.as_bytes()])?;
    Ok(())
}

/// Removes the row of a revision that changed nothing.
pub(crate) fn forget(conn: &Connection, volume: i64, version: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM empty_revision WHERE volume = ?1 AND revision = ?2")?
        .execute([volume, version])?;
    Ok(())
}

/// Whether a revision of a volume changed nothing.
pub(crate) fn is_one(conn: &Connection, volume: i64, version: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM empty_revision WHERE volume = ?1 AND revision = ?2";
    Ok(conn.prepare_cached(sql)?.exists([volume, version])?)
}

/// Adds revisions that changed nothing to the result of a query, if it asks for operations.
pub(crate) fn add_to(
    conn: &Connection,
    volume: i64,
    query: &RevisionQuery,
    found: &mut Vec<Revision>,
) -> Result<()> {
    let Some(operations) = &query.operations else { return Ok(()) };
    let before = found.len();
    for version in revision_numbers_of(conn, operations)? {
        if version <= query.after.0 || version > query.up_to.0 {
            continue;
        }
        let path: Option<Vec<u8>> = conn
            .prepare_cached("SELECT path FROM empty_revision WHERE volume = ?1 AND revision = ?2")?
            .query_row([volume, version], |row| row.get(0))
            .optional()?;
        let (Some(path), Some(operation)) = (path, operation_of(conn, version)?) else { continue };
        if query.matches(&operation) {
            let (undoes, undone) = undo_links(conn, volume, &operation)?;
            let (version, blind_at) = (RevisionNumber(version), Some(StorePath::from_checked(path)));
            found.push(Revision {
                number: version,
                operation,
                changes: Vec::new(),
                blind_at,
                undoes,
                undone,
            });
        }
    }
    if found.len() > before {
        found.sort_by_key(|deed| std::cmp::Reverse(deed.number));
        found.truncate(query.limit);
    }
    Ok(())
}
