//! Renewing leases, and giving them back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use stead_core::store::LeaseId;
use stead_core::{AuditOutcome, AuditRecord, Clock, StoreResult, SystemClock};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::threads::holder::ReleasedLease;
use crate::threads::process_clock::{self, nanos};
use crate::threads::{HeldThread, LeaseHolder, rows};

/// What a renewal did.
struct Renewed {
    holder: i64,
    /// The leases that were taken anew, by the thread's place in the list; `None` for a thread that has ended.
    taken: Vec<(usize, Option<LeaseId>)>,
}

impl LeaseHolder {
    /// Renews all leases of this process, writes when its threads were last used, and gives released leases back: one
    /// transaction. Does nothing if there is nothing to renew.
    ///
    /// If the holder has expired, it takes a new lease, with a new epoch, on each thread that still exists. The others have
    /// ended: their next call fails with [`stead_core::Error::ThreadEnded`].
    pub fn renew_all(&self) -> StoreResult<()> {
        let _renewing = self.renewing.lock();
        self.renew()
    }

    /// Renews if the leases could have expired, or if this thread's lease isn't good.
    pub(super) fn renew_if_needed(&self, thread: &HeldThread) -> StoreResult<()> {
        let is_needed = || {
            process_clock::now() >= self.safe_until.load(Ordering::Acquire)
                || thread.needs_lease_of(self.id.load(Ordering::Acquire))
        };
        if thread.has_ended() || !is_needed() {
            return Ok(());
        }
        let _renewing = self.renewing.lock();
        // Another call may have renewed them meanwhile.
        if is_needed() { self.renew() } else { Ok(()) }
    }

    /// Gives back all leases and removes the holder's row, with an audit record `thread.idle` for each thread. If a thread
    /// is used again later, the holder registers again.
    pub fn close(&self) -> StoreResult<()> {
        let _renewing = self.renewing.lock();
        let holder = self.id.load(Ordering::Acquire);
        if holder == 0 {
            return Ok(());
        }
        let threads = self.held_threads();
        let idle: Vec<_> = threads.iter().map(|thread| released_of(thread)).collect();
        self.write_with_released(CommitSync::Deferred, move |transaction, now| {
            give_back(transaction, now, &idle)?;
            rows::remove_holder(transaction.conn, holder)
        })?;
        self.id.store(0, Ordering::Release);
        self.safe_until.store(0, Ordering::Release);
        Ok(())
    }

    /// Gives the released leases back, if there are any.
    pub(super) fn write_released(&self) -> StoreResult<()> {
        if self.released.lock().is_empty() {
            return Ok(());
        }
        self.write_with_released(CommitSync::Deferred, |_, _| Ok(()))
    }

    /// Runs `work` in a write transaction that also gives the released leases back, with the database's time.
    pub(super) fn write_with_released<T: Send + 'static>(
        &self,
        sync: CommitSync,
        work: impl FnOnce(&mut WriteTransaction<'_>, i64) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let released = Arc::new(std::mem::take(&mut *self.released.lock()));
        let to_write = Arc::clone(&released);
        // It may use the reserve of a full disk, because reading and removing files needs a lease, too.
        let result = self.database().0.write_reserved(sync, move |transaction| {
            let now = rows::now(transaction.conn)?;
            give_back(transaction, now, &to_write)?;
            work(transaction, now)
        });
        if result.is_err() {
            self.released.lock().extend(released.iter().map(ReleasedLease::copy));
        }
        result
    }

    /// Renews; the caller holds the lock `renewing`.
    fn renew(&self) -> StoreResult<()> {
        let threads = self.held_threads();
        let (holder, began, ttl) = (self.id.load(Ordering::Acquire), process_clock::now(), nanos(self.ttl));
        if holder == 0 && threads.is_empty() {
            return self.write_released();
        }
        let used: Vec<_> =
            threads.iter().filter_map(|thread| Some((thread, thread.take_unwritten_use()?))).collect();
        let uses: Vec<_> = used.iter().map(|(thread, unused_for)| (thread.thread(), *unused_for)).collect();
        let all: Vec<_> =
            threads.iter().map(|thread| (thread.thread(), thread.needs_lease_of(holder))).collect();
        let renewed = self.write_with_released(CommitSync::Deferred, move |transaction, now| {
            let expires = now.saturating_add(ttl);
            let is_alive = holder != 0 && rows::renew_holder(transaction.conn, holder, now, expires)?;
            let new_holder = if is_alive { holder } else { replace_holder(transaction, holder, expires)? };
            let mut taken = Vec::new();
            for (place, (thread, needs_lease)) in all.into_iter().enumerate() {
                if needs_lease || !is_alive {
                    taken.push((place, rows::take_lease(transaction.conn, thread, new_holder)?));
                }
            }
            for (thread, unused_for) in uses {
                rows::set_last_used(transaction.conn, thread, now - unused_for)?;
            }
            Ok(Renewed { holder: new_holder, taken })
        });
        let renewed = match renewed {
            Ok(renewed) => renewed,
            Err(error) => {
                used.iter().for_each(|(thread, _)| thread.restore_unwritten_use());
                return Err(error);
            }
        };
        for (place, lease) in renewed.taken {
            threads[place].set_lease(lease);
        }
        self.set_renewed(renewed.holder, began);
        Ok(())
    }
}

/// Registers a holder in place of one that has expired. The removals that the old one began go on, unless another holder has
/// taken them over.
fn replace_holder(transaction: &mut WriteTransaction<'_>, old: i64, expires: i64) -> Result<i64> {
    let new = rows::insert_holder(transaction, expires)?;
    if old != 0 {
        rows::remove_holder(transaction.conn, old)?;
        transaction
            .conn
            .prepare_cached("UPDATE thread SET ending = ?2 WHERE ending IS NOT NULL AND ending = ?1")?
            .execute([old, new])?;
    }
    Ok(new)
}

/// Gives leases back, and records that their threads are idle.
fn give_back(transaction: &mut WriteTransaction<'_>, now: i64, released: &[ReleasedLease]) -> Result<()> {
    for ReleasedLease { lease, last_used, identity, stead } in released {
        rows::remove_lease(transaction.conn, *lease)?;
        if let Some(last_used) = last_used {
            let unused_for = (process_clock::now() - last_used).max(0);
            rows::set_last_used(transaction.conn, lease.thread, now - unused_for)?;
        }
        if transaction.chain().is_some() {
            let (at, identity) = (SystemClock.now(), Arc::clone(identity));
            let mut record = AuditRecord::new(at, identity, "thread.idle", AuditOutcome::Ok);
            record.stead.clone_from(stead);
            transaction.append_record(&record)?;
        }
    }
    Ok(())
}

/// What is written when a thread that is still held is given up.
fn released_of(thread: &HeldThread) -> ReleasedLease {
    ReleasedLease {
        lease: stead_core::vfs::ThreadLease::id(thread),
        last_used: thread.take_unwritten_use().map(|unused_for| process_clock::now() - unused_for),
        identity: Arc::clone(&thread.identity),
        stead: thread.stead.clone(),
    }
}

impl ReleasedLease {
    fn copy(&self) -> Self {
        ReleasedLease { identity: Arc::clone(&self.identity), stead: self.stead.clone(), ..*self }
    }
}
