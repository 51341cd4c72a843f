//! Forgetting the history of a directory inside a Physical Store, because the directory is gone for good.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, ToSql, params};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::manifest::forget_roots_below;
use crate::database::schema::FORGOTTEN_UNRECORDED;

/// That an event is about a path or something below it alone.
const IS_BELOW: &str = "((path = ?2 OR (path >= ?3 AND path < ?4))
  AND (other_path IS NULL OR other_path = ?2 OR (other_path >= ?3 AND other_path < ?4)))";

/// Removes what a ledger has of a path and everything below it: events, usage counters, and what snapshots have captured. An
/// event that moved something out of there or into there stays. Returns the events whose displaced content was kept.
///
/// Where other events of a revision stay, the check of the audit needs the removed ones, too: they go to `forgotten_event`.
pub(super) fn forget_below(
    transaction: &mut WriteTransaction<'_>,
    volume: i64,
    path: &[u8],
) -> Result<Vec<(i64, i64)>> {
    let conn = transaction.conn;
    // In byte order, everything below `a` lies from `a/` up to `a0`, `0` being the byte after `/`.
    let (low, high) = ([path, b"/"].concat(), [path, b"0"].concat());
    let paths = params![volume, path, low, high];
    move_forgotten(transaction, paths)?;
    let mut statement = conn.prepare_cached(&format!(
        "DELETE FROM ledger_event WHERE volume = ?1 AND {IS_BELOW} RETURNING revision, seq, displaced"
    ))?;
    let mut with_content = Vec::new();
    let mut rows = statement.query(paths)?;
    while let Some(row) = rows.next()? {
        if row.get(2)? {
            with_content.push((row.get(0)?, row.get(1)?));
        }
    }
    // The last events of a revision may have gone now.
    conn.prepare_cached(
        "DELETE FROM forgotten_event AS f WHERE volume = ?1
           AND NOT EXISTS (SELECT 1 FROM ledger_event WHERE volume = ?1 AND revision = f.revision)",
    )?
    .execute([volume])?;
    for table in ["ledger_usage", "empty_revision"] {
        let sql =
            format!("DELETE FROM {table} WHERE volume = ?1 AND (path = ?2 OR (path >= ?3 AND path < ?4))");
        conn.execute(&sql, params![volume, path, low, high])?;
    }
    forget_roots_below(conn, volume, path)?;
    let capture_volume: Option<i64> = conn
        .prepare_cached("SELECT volume FROM capture_volume WHERE ledger = ?1")?
        .query_row([volume], |row| row.get(0))
        .optional()?;
    if let Some(capture_volume) = capture_volume {
        forget_captured(conn, capture_volume, path)?;
        transaction.invalidate_directories()?;
    }
    Ok(with_content)
}

/// Copies to `forgotten_event` the events that are to be removed from revisions of which other events stay.
fn move_forgotten(transaction: &mut WriteTransaction<'_>, paths: &[&dyn ToSql]) -> Result<()> {
    let conn = transaction.conn;
    let mut statement = conn.prepare_cached(&format!(
        "INSERT INTO forgotten_event(volume, revision, seq, kind, path, other_path)
         SELECT volume, revision, seq, kind, path, other_path FROM ledger_event e WHERE volume = ?1 AND seq >= 0 AND {IS_BELOW}
           AND EXISTS (SELECT 1 FROM ledger_event WHERE volume = ?1 AND revision = e.revision AND seq >= 0 AND NOT {IS_BELOW})
         RETURNING revision"
    ))?;
    let revisions = statement.query_map(paths, |row| row.get::<_, i64>(0))?;
    let newest = revisions.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().max();
    if let (Some(newest), None) = (newest, transaction.chain()) {
        // Nothing will say in the audit that the thread has ended.
        conn.prepare_cached("UPDATE meta SET value = max(value, ?2) WHERE id = ?1")?
            .execute([FORGOTTEN_UNRECORDED, newest])?;
    }
    Ok(())
}

/// Removes what a capture volume has, or had at any revision, at a path and below it.
fn forget_captured(conn: &Connection, volume: i64, path: &[u8]) -> Result<()> {
    let root: i64 = conn
        .prepare_cached("SELECT root FROM volume WHERE id = ?1")?
        .query_row([volume], |row| row.get(0))?;
    let names: Vec<_> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let Some((last, parents)) = names.split_last() else { return Ok(()) };
    let mut level = BTreeSet::from([root]);
    for name in parents {
        level = nodes_with_name(conn, volume, &level, name)?;
    }
    let mut pending: Vec<i64> = nodes_with_name(conn, volume, &level, last)?.into_iter().collect();
    let mut gone: BTreeSet<i64> = pending.iter().copied().collect();
    while let Some(node) = pending.pop() {
        let mut statement = conn.prepare_cached(
            "SELECT node FROM entry WHERE volume = ?1 AND parent = ?2
             UNION SELECT node FROM entry_history WHERE volume = ?1 AND parent = ?2",
        )?;
        let children = statement.query_map([volume, node], |row| row.get(0))?;
        for child in children {
            let child = child?;
            if gone.insert(child) {
                pending.push(child);
            }
        }
    }
    for node in gone {
        for table in ["entry", "entry_history", "node_change", "directory_time", "usage", "fingerprint"] {
            conn.prepare_cached(&format!("DELETE FROM {table} WHERE volume = ?1 AND node = ?2"))?
                .execute([volume, node])?;
        }
    }
    Ok(())
}

/// The nodes that have, or had at any revision, this name in one of these directories.
fn nodes_with_name(
    conn: &Connection,
    volume: i64,
    parents: &BTreeSet<i64>,
    name: &[u8],
) -> Result<BTreeSet<i64>> {
    let mut nodes = BTreeSet::new();
    let mut statement = conn.prepare_cached(
        "SELECT node FROM entry WHERE volume = ?1 AND parent = ?2 AND name = ?3
         UNION SELECT node FROM entry_history WHERE volume = ?1 AND parent = ?2 AND name = ?3",
    )?;
    for parent in parents {
        let found = statement.query_map(params![volume, parent, name], |row| row.get::<_, i64>(0))?;
        for node in found {
            nodes.insert(node?);
        }
    }
    Ok(nodes)
}
