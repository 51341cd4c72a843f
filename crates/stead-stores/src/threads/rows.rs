//! The rows of threads, lease holders and leases. Every time here is the database's own.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::LeaseId;
use stead_core::{StoreError, Timestamp};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::threads::{ThreadKey, ThreadRecord};

/// The time of the database's clock, in nanoseconds since 1970. It counts whole milliseconds.
pub(crate) fn now(conn: &Connection) -> Result<i64> {
    let sql = "SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000000";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Refuses what is about to be written unless the lease still holds.
pub(crate) fn check_lease(conn: &Connection, lease: LeaseId) -> Result<()> {
    let now = now(conn)?;
    let holds = conn
        .prepare_cached(
            "SELECT 1 FROM thread_lease l JOIN lease_holder h ON h.id = l.holder
             WHERE l.thread = ?1 AND l.holder = ?2 AND l.epoch = ?3 AND h.expires > ?4",
        )?
        .exists([lease.thread, lease.holder, lease.epoch, now])?;
    if holds { Ok(()) } else { Err(StoreError::LeaseExpired.into()) }
}

/// Registers a holder, and returns its number.
pub(super) fn insert_holder(transaction: &mut WriteTransaction<'_>, expires: i64) -> Result<i64> {
    let id = transaction.fresh_node()?;
    transaction
        .conn
        .prepare_cached("INSERT INTO lease_holder(id, expires) VALUES (?1, ?2)")?
        .execute([id, expires])?;
    Ok(id)
}

/// Whether a holder is registered and has not expired.
pub(super) fn is_alive(conn: &Connection, holder: i64, now: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM lease_holder WHERE id = ?1 AND expires > ?2";
    Ok(conn.prepare_cached(sql)?.exists([holder, now])?)
}

/// Renews a holder. `false` if it has expired or is gone.
pub(super) fn renew_holder(conn: &Connection, holder: i64, now: i64, expires: i64) -> Result<bool> {
    let sql = "UPDATE lease_holder SET expires = ?3 WHERE id = ?1 AND expires > ?2";
    Ok(conn.prepare_cached(sql)?.execute([holder, now, expires])? == 1)
}

/// Removes a holder and its leases.
pub(super) fn remove_holder(conn: &Connection, holder: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM thread_lease WHERE holder = ?1")?.execute([holder])?;
    conn.prepare_cached("DELETE FROM lease_holder WHERE id = ?1")?.execute([holder])?;
    Ok(())
}

/// Removes every holder that has expired, with its leases. Returns how many there were.
pub(super) fn remove_expired_holders(conn: &Connection) -> Result<usize> {
    let now = now(conn)?;
    conn.prepare_cached(
        "DELETE FROM thread_lease WHERE holder IN (SELECT id FROM lease_holder WHERE expires <= ?1)",
    )?
    .execute([now])?;
    Ok(conn.prepare_cached("DELETE FROM lease_holder WHERE expires <= ?1")?.execute([now])?)
}

/// Whether a holder has expired, so that there is something to remove.
pub(super) fn has_expired_holders(conn: &Connection) -> Result<bool> {
    let now = now(conn)?;
    Ok(conn.prepare_cached("SELECT 1 FROM lease_holder WHERE expires <= ?1")?.exists([now])?)
}

/// A thread, as far as its life is concerned.
pub(super) struct ThreadRow {
    pub(super) id: i64,
    pub(super) last_used: i64,
    pub(super) idle_timeout: Option<i64>,
    pub(super) ending: Option<i64>,
    pub(super) epoch: i64,
}

pub(super) fn find(conn: &Connection, key: &ThreadKey) -> Result<Option<ThreadRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, last_used, idle_timeout, ending, epoch FROM thread WHERE agent = ?1 AND name = ?2",
    )?;
    let row = statement.query_row([&key.agent, &key.thread], |row| {
        Ok(ThreadRow {
            id: row.get(0)?,
            last_used: row.get(1)?,
            idle_timeout: row.get(2)?,
            ending: row.get(3)?,
            epoch: row.get(4)?,
        })
    });
    Ok(row.optional()?)
}

/// Makes a thread without a lease.
pub(super) fn insert(
    transaction: &mut WriteTransaction<'_>,
    key: &ThreadKey,
    now: i64,
    idle_timeout: Option<i64>,
) -> Result<i64> {
    let id = transaction.fresh_node()?;
    transaction
        .conn
        .prepare_cached(
            "INSERT INTO thread(id, agent, name, created, last_used, idle_timeout, epoch) VALUES (?1, ?2, ?3, ?4, ?4, ?5, 0)",
        )?
        .execute(params![id, key.agent, key.thread, now, idle_timeout])?;
    Ok(id)
}

/// Takes a lease on a thread, in place of the one that the holder may have. `None` if the thread is gone or is being
/// removed.
pub(super) fn take_lease(conn: &Connection, thread: i64, holder: i64) -> Result<Option<LeaseId>> {
    let epoch: Option<i64> = conn
        .prepare_cached(
            "UPDATE thread SET epoch = epoch + 1 WHERE id = ?1 AND ending IS NULL RETURNING epoch",
        )?
        .query_row([thread], |row| row.get(0))
        .optional()?;
    let Some(epoch) = epoch else { return Ok(None) };
    conn.prepare_cached("INSERT OR REPLACE INTO thread_lease(thread, holder, epoch) VALUES (?1, ?2, ?3)")?
        .execute([thread, holder, epoch])?;
    Ok(Some(LeaseId { thread, holder, epoch }))
}

/// Gives a lease back. A later one of the same holder stays.
pub(super) fn remove_lease(conn: &Connection, lease: LeaseId) -> Result<()> {
    conn.prepare_cached("DELETE FROM thread_lease WHERE thread = ?1 AND holder = ?2 AND epoch = ?3")?
        .execute([lease.thread, lease.holder, lease.epoch])?;
    Ok(())
}

/// Notes that a thread was used at a time, or later.
pub(super) fn set_last_used(conn: &Connection, thread: i64, at: i64) -> Result<()> {
    conn.prepare_cached("UPDATE thread SET last_used = ?2 WHERE id = ?1 AND last_used < ?2")?
        .execute([thread, at])?;
    Ok(())
}

/// Whether another holder than this one has an unexpired lease on the thread.
pub(super) fn is_leased_elsewhere(conn: &Connection, thread: i64, holder: i64, now: i64) -> Result<bool> {
    Ok(conn
        .prepare_cached(
            "SELECT 1 FROM thread_lease l JOIN lease_holder h ON h.id = l.holder
             WHERE l.thread = ?1 AND l.holder <> ?2 AND h.expires > ?3",
        )?
        .exists([thread, holder, now])?)
}

/// Marks a thread as being removed by a holder, and removes all leases on it.
pub(super) fn set_ending(conn: &Connection, thread: i64, holder: i64) -> Result<()> {
    conn.prepare_cached("UPDATE thread SET ending = ?2 WHERE id = ?1")?.execute([thread, holder])?;
    conn.prepare_cached("DELETE FROM thread_lease WHERE thread = ?1")?.execute([thread])?;
    Ok(())
}

/// The threads of an agent, or of all; or the one thread of this name.
pub(super) fn list(conn: &Connection, agent: Option<&str>, name: Option<&str>) -> Result<Vec<ThreadRecord>> {
    let now = now(conn)?;
    let mut statement = conn.prepare_cached(
        "SELECT t.id, t.agent, t.name, t.created, t.last_used, t.idle_timeout, t.ending IS NOT NULL, count(h.id), max(h.expires)
         FROM thread t LEFT JOIN thread_lease l ON l.thread = t.id LEFT JOIN lease_holder h ON h.id = l.holder AND h.expires > ?3
         WHERE (?1 IS NULL OR t.agent = ?1) AND (?2 IS NULL OR t.name = ?2)
         GROUP BY t.id ORDER BY t.agent, t.name",
    )?;
    let duration = |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    let rows = statement.query_map(params![agent, name, now], |row| {
        let last_used: i64 = row.get(4)?;
        Ok(ThreadRecord {
            id: row.get(0)?,
            key: ThreadKey { agent: row.get(1)?, thread: row.get(2)? },
            created: Timestamp(row.get(3)?),
            last_used: Timestamp(last_used),
            idle_for: duration(now - last_used),
            idle_timeout: row.get::<_, Option<i64>>(5)?.map(duration),
            is_ending: row.get(6)?,
            leases: row.get::<_, i64>(7)?.cast_unsigned(),
            leased_until: row.get::<_, Option<i64>>(8)?.map(Timestamp),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
