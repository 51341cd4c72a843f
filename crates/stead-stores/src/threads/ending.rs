//! Ending a thread: whether it may end, and that it is being removed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use stead_core::{StoreError, StoreResult};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::threads::{LeaseHolder, ThreadKey, rows};

/// When a thread may be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndWhen {
    /// Now, if no one uses it.
    Now,
    /// If no one uses it and its idle time-out has passed.
    Idle,
    /// Now, if no one uses it and no process has taken a lease on it after the one with this epoch.
    LastLeaseWas {
        /// The epoch of the lease, [`stead_core::store::LeaseId::epoch`].
        epoch: i64,
    },
}

/// What [`LeaseHolder::begin_ending`] found.
#[derive(Debug)]
pub enum Ending {
    /// The thread is marked, and its leases are gone. The caller removes what isn't in the database, and then calls
    /// [`LeaseHolder::finish_ending`].
    Begun(EndingThread),
    /// There is no such thread. That is how it is after it was removed, too.
    Missing,
    /// A call runs in it in this process, another process has a lease on it or had one after
    /// [`EndWhen::LastLeaseWas`], or another caller is removing it.
    InUse,
    /// Its idle time-out has not passed.
    NotIdle,
}

/// A thread that this process is removing. If it is dropped unfinished, any process can take the removal over.
#[derive(Debug)]
pub struct EndingThread {
    pub(super) id: i64,
    pub(super) key: ThreadKey,
    /// Whether another caller had begun the removal.
    is_taken_over: bool,
    holder: Arc<LeaseHolder>,
}

impl EndingThread {
    /// The thread's number.
    pub fn thread(&self) -> i64 {
        self.id
    }

    /// The thread.
    pub fn key(&self) -> &ThreadKey {
        &self.key
    }

    /// Whether another caller had begun the removal, and died or failed.
    pub fn is_taken_over(&self) -> bool {
        self.is_taken_over
    }

    /// Fails with [`StoreError::LeaseExpired`] if another process has taken the removal over. Call it before each part of
    /// the removal that isn't in the database: once another process has finished, a new thread of this name may exist.
    pub fn check(&self) -> StoreResult<()> {
        let reader = self.holder.database().0.reader()?;
        Ok(check_ending(&reader, self.id, self.holder.id.load(Ordering::Acquire))?)
    }
}

impl Drop for EndingThread {
    fn drop(&mut self) {
        self.holder.being_removed.lock().remove(&self.id);
    }
}

/// What the transaction found.
enum Decision {
    Begun { id: i64, is_taken_over: bool },
    Missing,
    InUse,
    NotIdle,
}

impl LeaseHolder {
    /// Begins to remove a thread. From then on no one can enter it, and no change is made in it.
    ///
    /// A thread that is being removed already is taken over if its remover has died, whatever `when` says.
    pub fn begin_ending(self: &Arc<Self>, key: &ThreadKey, when: EndWhen) -> StoreResult<Ending> {
        let held = self.held(key);
        // Locked after `held`, which may wait for it.
        let _deciding = self.ending.lock();
        if let Some(held) = &held
            && !held.try_begin_ending()
        {
            return Ok(Ending::InUse);
        }
        let (thread_key, unused_for) = (key.clone(), held.as_ref().map(|held| held.unused_for()));
        let being_removed = self.being_removed.lock().clone();
        let decided = self.write_registered(CommitSync::AsConfigured, move |transaction, holder, now| {
            let is_removed_here = |id| being_removed.contains(&id);
            decide(transaction, (holder, now), &thread_key, when, unused_for, is_removed_here)
        });
        if let Some(held) = &held {
            match decided {
                Ok(Decision::Begun { is_taken_over: false, .. }) => held.set_ended_here(),
                Ok(Decision::Begun { .. } | Decision::Missing) => held.set_ended(),
                _ => held.stop_ending(),
            }
        }
        Ok(match decided? {
            Decision::Begun { id, is_taken_over } => {
                self.being_removed.lock().insert(id);
                Ending::Begun(EndingThread { id, key: key.clone(), is_taken_over, holder: Arc::clone(self) })
            }
            Decision::Missing => Ending::Missing,
            Decision::InUse => Ending::InUse,
            Decision::NotIdle => Ending::NotIdle,
        })
    }
}

fn decide(
    transaction: &mut WriteTransaction<'_>,
    (holder, now): (i64, i64),
    key: &ThreadKey,
    when: EndWhen,
    unused_for: Option<i64>,
    is_removed_here: impl Fn(i64) -> bool,
) -> Result<Decision> {
    let conn = transaction.conn;
    let Some(row) = rows::find(conn, key)? else { return Ok(Decision::Missing) };
    if let Some(remover) = row.ending {
        let is_running =
            if remover == holder { is_removed_here(row.id) } else { rows::is_alive(conn, remover, now)? };
        if is_running {
            return Ok(Decision::InUse);
        }
    } else {
        if rows::is_leased_elsewhere(conn, row.id, holder, now)? {
            return Ok(Decision::InUse);
        }
        let last_used = row.last_used.max(unused_for.map_or(i64::MIN, |unused_for| now - unused_for));
        let is_idle = row.idle_timeout.is_some_and(|timeout| last_used.saturating_add(timeout) <= now);
        match when {
            EndWhen::Idle if !is_idle => return Ok(Decision::NotIdle),
            EndWhen::LastLeaseWas { epoch } if row.epoch != epoch => return Ok(Decision::InUse),
            _ => {}
        }
    }
    rows::set_ending(conn, row.id, holder)?;
    Ok(Decision::Begun { id: row.id, is_taken_over: row.ending.is_some() })
}

/// Fails unless the holder is removing the thread, and has not expired.
pub(super) fn check_ending(conn: &rusqlite::Connection, thread: i64, holder: i64) -> Result<()> {
    let now = rows::now(conn)?;
    let is_ours = conn
        .prepare_cached(
            "SELECT 1 FROM thread t JOIN lease_holder h ON h.id = t.ending WHERE t.id = ?1 AND t.ending = ?2 AND h.expires > ?3",
        )?
        .exists([thread, holder, now])?;
    if is_ours { Ok(()) } else { Err(StoreError::LeaseExpired.into()) }
}
