//! The lease holder: this process as a user of threads, in one database.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use stead_core::store::LeaseId;
use stead_core::{AuditRecord, Identity, StoreError, StoreResult, Timestamp};

use crate::database::Database;
use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::threads::process_clock::{self, nanos};
use crate::threads::{HeldThread, ThreadKey, rows};

/// How many threads can be entered at the same time: two that share a lock wait for each other.
const ENTRY_LOCKS: usize = 16;
/// How often a holder registers again before a call gives up, if its row expires each time.
const MAX_ATTEMPTS: usize = 3;

/// This process as a user of threads, in one database. See [`Database::lease_holder`].
///
/// It starts no OS thread: the caller calls [`LeaseHolder::renew_all`] every [`LeaseHolder::heartbeat_interval`] while
/// [`LeaseHolder::has_work`]. A call that begins when that was not done in time renews by itself.
pub struct LeaseHolder {
    database: Database,
    pub(super) ttl: Duration,
    /// The number of the holder's row; 0 while it has none.
    pub(super) id: AtomicI64,
    /// Until when the leases hold for sure, by the clock of the process; 0 if that isn't known.
    pub(super) safe_until: AtomicI64,
    pub(super) threads: Mutex<HashMap<Arc<ThreadKey>, Weak<HeldThread>>>,
    /// Leases to be given back with the next write.
    pub(super) released: Mutex<Vec<ReleasedLease>>,
    /// Held while a thread is entered, so that it is entered once.
    entry_locks: [Mutex<()>; ENTRY_LOCKS],
    entry_hasher: RandomState,
    /// Held while the holder's row is made, renewed or removed.
    pub(super) renewing: Mutex<()>,
    /// Held while it is decided whether a thread may be ended.
    pub(super) ending: Mutex<()>,
    /// The threads that this process is removing.
    pub(super) being_removed: Mutex<HashSet<i64>>,
}

/// A lease that no one in this process needs any more.
pub(super) struct ReleasedLease {
    pub(super) lease: LeaseId,
    /// When the thread was last used, by the clock of the process, if the database doesn't know that.
    pub(super) last_used: Option<i64>,
    pub(super) identity: Arc<Identity>,
    pub(super) stead: Option<Arc<str>>,
}

/// A thread that was entered.
#[derive(Debug)]
pub struct Entered {
    /// The thread, which is this process's as long as this exists.
    pub thread: Arc<HeldThread>,
    /// Whether the thread is new.
    pub how: EnteredAs,
}

/// What [`LeaseHolder::enter`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnteredAs {
    /// No thread: it was made. The audit has a record `thread.create`.
    Created,
    /// A thread that this process didn't use: it has taken a lease. The audit has a record `thread.resume`.
    Resumed,
    /// A thread that this process uses already. Nothing was written.
    Held,
}

impl Database {
    /// This process's lease holder. All clones of this `Database` have the same one, with the `ttl` of the first call.
    ///
    /// Nothing is written before a thread is entered.
    pub fn lease_holder(&self, ttl: Duration) -> Arc<LeaseHolder> {
        let mut current = self.0.lease_holder.lock();
        if let Some(holder) = current.upgrade() {
            return holder;
        }
        let holder = Arc::new(LeaseHolder::new(self.clone(), ttl));
        *current = Arc::downgrade(&holder);
        holder
    }
}

impl LeaseHolder {
    /// How long a lease holds without being renewed, unless there is a reason for another time.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

    fn new(database: Database, ttl: Duration) -> Self {
        LeaseHolder {
            database,
            ttl,
            id: AtomicI64::new(0),
            safe_until: AtomicI64::new(0),
            threads: Mutex::default(),
            released: Mutex::default(),
            entry_locks: Default::default(),
            entry_hasher: RandomState::new(),
            renewing: Mutex::default(),
            ending: Mutex::default(),
            being_removed: Mutex::default(),
        }
    }

    /// The database that has the leases.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// How often [`LeaseHolder::renew_all`] is to be called: three times within the life of a lease.
    pub fn heartbeat_interval(&self) -> Duration {
        self.ttl / 3
    }

    /// Whether a heartbeat is needed: a thread is in use or is being removed, or a lease has to be given back.
    pub fn has_work(&self) -> bool {
        !self.threads.lock().is_empty()
            || !self.released.lock().is_empty()
            || !self.being_removed.lock().is_empty()
    }

    /// Enters a thread: finds it in this process, joins it, or makes it, with a lease of this process.
    ///
    /// A thread is made once, however many processes enter it at the same time. Making or joining it is one transaction, with
    /// an audit record if an audit is open: `record` with its call set to `thread.create` or `thread.resume`. The identity and
    /// the stead of `record` are kept for the record `thread.idle` of when this process releases the thread.
    ///
    /// A thread that is being removed is [`StoreError::Unavailable`]. If the process that was removing it has died,
    /// [`LeaseHolder::begin_ending`] takes the removal over.
    pub fn enter(
        self: &Arc<Self>,
        key: &ThreadKey,
        idle_timeout: Option<Duration>,
        record: &AuditRecord,
    ) -> StoreResult<Entered> {
        if let Some(thread) = self.held(key) {
            return Ok(Entered { thread, how: EnteredAs::Held });
        }
        let lock = self.entry_hasher.hash_one(key) % ENTRY_LOCKS as u64;
        let _entering = self.entry_locks[lock as usize].lock();
        if let Some(thread) = self.held(key) {
            return Ok(Entered { thread, how: EnteredAs::Held });
        }
        let (entry_key, entry_record) = (key.clone(), record.clone());
        let (lease, created, how) =
            self.write_registered(CommitSync::Deferred, move |transaction, holder, now| {
                let timeout = idle_timeout.map(nanos);
                let (lease, how) =
                    enter_thread(transaction, (holder, now), &entry_key, timeout, &entry_record)?;
                let created = "SELECT created FROM thread WHERE id = ?1";
                let created =
                    transaction.conn.prepare_cached(created)?.query_row([lease.thread], |row| row.get(0))?;
                Ok((lease, Timestamp(created), how))
            })?;
        let key = Arc::new(key.clone());
        let origin = (Arc::clone(&record.identity), record.stead.clone());
        let thread = Arc::new(HeldThread::new(Arc::clone(&key), Arc::clone(self), (lease, created), origin));
        self.threads.lock().insert(key, Arc::downgrade(&thread));
        Ok(Entered { thread, how })
    }

    /// The thread, if this process uses it.
    pub fn held(&self, key: &ThreadKey) -> Option<Arc<HeldThread>> {
        let held = || {
            // Dropping a thread locks the map, so that happens after it is unlocked.
            let found = self.threads.lock().get(key).and_then(Weak::upgrade);
            found.filter(|thread| !thread.has_ended())
        };
        let thread = held()?;
        if !thread.is_ending() {
            return Some(thread);
        }
        self.wait_for_ending();
        held()
    }

    /// Gives up a use of a thread. If it was the last one in this process, the lease is given back at once, with an audit
    /// record `thread.idle`, and this returns `true`. Dropping it instead gives the lease back with the next heartbeat.
    pub fn release(&self, thread: Arc<HeldThread>) -> StoreResult<bool> {
        let Some(thread) = Arc::into_inner(thread) else { return Ok(false) };
        drop(thread);
        let _renewing = self.renewing.lock();
        self.write_released()?;
        Ok(true)
    }

    /// The threads that this process uses.
    pub fn held_threads(&self) -> Vec<Arc<HeldThread>> {
        let mut threads: Vec<_> = self.threads.lock().values().filter_map(Weak::upgrade).collect();
        threads.retain(|thread| !thread.has_ended());
        threads
    }

    /// Removes a dropped thread from those in use, and gives its lease back with the next write.
    pub(super) fn forget(&self, key: &ThreadKey, released: Option<ReleasedLease>) {
        let mut threads = self.threads.lock();
        // Another one may have been entered meanwhile.
        if threads.get(key).is_some_and(|thread| thread.strong_count() == 0) {
            threads.remove(key);
        }
        drop(threads);
        self.released.lock().extend(released);
    }

    /// Waits until it is decided whether the thread that this process tries to end has ended.
    pub(super) fn wait_for_ending(&self) {
        drop(self.ending.lock());
    }

    /// Runs `work` in a write transaction with the number of this holder, which is registered and has not expired, and the
    /// database's time. Also gives released leases back.
    pub(super) fn write_registered<T: Send + 'static>(
        &self,
        sync: CommitSync,
        work: impl Fn(&mut WriteTransaction<'_>, i64, i64) -> Result<T> + Clone + Send + 'static,
    ) -> StoreResult<T> {
        for _ in 0..MAX_ATTEMPTS {
            let mut registering = None;
            if self.id.load(Ordering::Acquire) == 0 {
                let lock = self.renewing.lock();
                // Another caller may have registered it meanwhile.
                registering = (self.id.load(Ordering::Acquire) == 0).then_some(lock);
            }
            let holder = self.id.load(Ordering::Acquire);
            let (began, ttl, work) = (process_clock::now(), nanos(self.ttl), work.clone());
            let done = self.write_with_released(sync, move |transaction, now| {
                let holder = match holder {
                    0 => rows::insert_holder(transaction, now.saturating_add(ttl))?,
                    holder if rows::is_alive(transaction.conn, holder, now)? => holder,
                    _ => return Ok(None),
                };
                Ok(Some((holder, work(transaction, holder, now)?)))
            })?;
            match done {
                Some((id, value)) => {
                    if registering.is_some() {
                        self.set_renewed(id, began);
                    }
                    return Ok(value);
                }
                None => self.renew_all()?,
            }
        }
        Err(StoreError::LeaseExpired)
    }

    /// Notes that the holder's row was made or renewed in a transaction that began at a time of the process's clock.
    pub(super) fn set_renewed(&self, id: i64, began: i64) {
        self.id.store(id, Ordering::Release);
        // Earlier than the database's clock says, which was read after `began`.
        self.safe_until.store(began.saturating_add(nanos(self.ttl) / 4 * 3), Ordering::Release);
    }
}

/// Joins a thread, or makes it.
fn enter_thread(
    transaction: &mut WriteTransaction<'_>,
    (holder, now): (i64, i64),
    key: &ThreadKey,
    idle_timeout: Option<i64>,
    record: &AuditRecord,
) -> Result<(LeaseId, EnteredAs)> {
    let (thread, how) = match rows::find(transaction.conn, key)? {
        Some(row) => {
            transaction
                .conn
                .prepare_cached(
                    "UPDATE thread SET last_used = max(last_used, ?2), idle_timeout = ?3 WHERE id = ?1",
                )?
                .execute(rusqlite::params![row.id, now, idle_timeout])?;
            (row.id, EnteredAs::Resumed)
        }
        None => (rows::insert(transaction, key, now, idle_timeout)?, EnteredAs::Created),
    };
    let Some(lease) = rows::take_lease(transaction.conn, thread, holder)? else {
        return Err(StoreError::unavailable("the thread is being removed").into());
    };
    if transaction.chain().is_some() {
        let call = if how == EnteredAs::Created { "thread.create" } else { "thread.resume" };
        let mut record = record.clone();
        record.call = call.into();
        transaction.append_record(&record)?;
    }
    Ok((lease, how))
}

impl fmt::Debug for LeaseHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseHolder").field("id", &self.id).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

impl Drop for LeaseHolder {
    fn drop(&mut self) {
        // Otherwise the holder expires later.
        let _ = self.close();
    }
}
