//! Forgetting the history of a directory inside a Physical Store, because the directory is gone for good.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::manifest::forget_roots_below;

/// Removes what a ledger has of a path and everything below it: events, usage counters, and what snapshots have captured. An
/// event that moved something out of there or into there stays. Returns the events whose displaced content was kept.
pub(super) fn forget_below(
    transaction: &mut WriteTransaction<'_>,
    volume: i64,
    path: &[u8],
) -> Result<Vec<(i64, i64)>> {
    let conn = transaction.conn;
    // In byte order, everything below `a` lies from `a/` up to `a0`, `0` being the byte after `/`.
    let (low, high) = ([path, b"/"].concat(), [path, b"0"].concat());
    let mut statement = conn.prepare_cached(
        "DELETE FROM ledger_event WHERE volume = ?1 AND (path = ?2 OR (path >= ?3 AND path < ?4))
           AND (other_path IS NULL OR other_path = ?2 OR (other_path >= ?3 AND other_path < ?4))
         RETURNING revision, seq, displaced",
    )?;
    let mut with_content = Vec::new();
    let mut rows = statement.query(params![volume, path, low, high])?;
    while let Some(row) = rows.next()? {
        if row.get(2)? {
            with_content.push((row.get(0)?, row.get(1)?));
        }
    }
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
