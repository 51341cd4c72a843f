//! Finding what is to be swept: expired holders, idle threads, and threads whose removal was not finished.

use std::sync::atomic::Ordering;

use rusqlite::Connection;
use stead_core::StoreResult;

use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::threads::{LeaseHolder, ThreadKey, rows};

impl LeaseHolder {
    /// Removes expired holders with their leases, and returns the threads that may be due: their idle time-out has passed and
    /// no other process uses them, or their removal was begun and not finished. [`LeaseHolder::begin_ending`] with
    /// [`crate::EndWhen::Idle`] decides about each.
    ///
    /// Writes nothing unless a holder has expired. An unexpired holder is never touched.
    pub fn sweepable(&self) -> StoreResult<Vec<ThreadKey>> {
        let database = &self.database().0;
        let has_expired = rows::has_expired_holders(&*database.reader()?)?;
        if has_expired {
            database.write_reserved(CommitSync::Deferred, |transaction| {
                rows::remove_expired_holders(transaction.conn).map(|_| ())
            })?;
        }
        let mut due = due_threads(&*database.reader()?, self.id.load(Ordering::Acquire))?;
        due.retain(|key| self.held(key).is_none_or(|thread| !thread.has_unwritten_use()));
        Ok(due)
    }
}

fn due_threads(conn: &Connection, holder: i64) -> Result<Vec<ThreadKey>> {
    let now = rows::now(conn)?;
    let mut statement = conn.prepare_cached(
        "SELECT agent, name FROM thread t WHERE ending IS NOT NULL
           AND (ending = ?1 OR NOT EXISTS (SELECT 1 FROM lease_holder h WHERE h.id = t.ending AND h.expires > ?2))
         UNION ALL
         SELECT agent, name FROM thread t WHERE idle_timeout IS NOT NULL AND last_used + idle_timeout <= ?2 AND ending IS NULL
           AND NOT EXISTS (SELECT 1 FROM thread_lease l JOIN lease_holder h ON h.id = l.holder
                           WHERE l.thread = t.id AND l.holder <> ?1 AND h.expires > ?2)",
    )?;
    let rows = statement
        .query_map([holder, now], |row| Ok(ThreadKey { agent: row.get(0)?, thread: row.get(1)? }))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
