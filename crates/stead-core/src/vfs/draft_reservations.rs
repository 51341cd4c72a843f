//! Quotas of open files: what a draft adds is reserved before it is written, so that it fits when the draft is
//! committed.
//!
//! A `Vfs` counts what its own open files have reserved. Reservations are in memory: they end when the file is closed
//! or the process ends. What other processes use is asked of the Stores, and a Store still checks the quotas of every
//! change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::store::{Content, QuotaLimits, QuotaResource, Step, Store, StoreError, StorePath, StoreResult};
use crate::vfs::VfsShared;
use crate::vfs::quota::QuotaIndex;

/// How long a Store's answer about its usage is reused, as long as the quota has enough room by it (`MARGIN_DIVISOR`).
const USAGE_CACHE_TIME: Duration = Duration::from_millis(100);
/// The part of a quota that has to stay free for that: one in so many. Closer to the limit, every growing write asks
/// the Store.
const MARGIN_DIVISOR: u64 = 4;

/// What the open files of a `Vfs` have reserved, for each of its quotas.
#[derive(Debug, Default)]
pub(super) struct DraftReservations {
    tables: Mutex<QuotaTables>,
    /// Held shared by each call that makes a change. Held exclusively by a call that adds reservations up: a draft that
    /// is committed at that moment would be counted twice, or not at all.
    change_lock: RwLock<()>,
}

#[derive(Debug, Default)]
struct QuotaTables {
    reserved: Vec<u64>,
    used: Vec<Option<CachedUsage>>,
}

/// What a Store said about its usage.
#[derive(Debug, Clone, Copy)]
struct CachedUsage {
    bytes: u64,
    expires: Instant,
}

/// What a draft has reserved. Dropping it releases the reservation.
#[derive(Debug)]
pub(super) struct Reservation {
    reservations: Arc<DraftReservations>,
    quotas: Vec<(QuotaIndex, QuotaLimits)>,
    /// The size of the file that the draft was begun from: the Store counts that much already.
    base_size: u64,
    bytes: u64,
}

/// Held while a change is made.
#[derive(Debug)]
pub(super) enum QuotaGuard<'a> {
    /// No call adds reservations up meanwhile.
    Shared { _guard: RwLockReadGuard<'a, ()> },
    /// No other call makes a change meanwhile.
    Exclusive { _guard: RwLockWriteGuard<'a, ()> },
}

impl DraftReservations {
    /// How many bytes of a quota are reserved.
    pub(super) fn reserved(&self, quota: QuotaIndex) -> u64 {
        self.tables.lock().reserved.get(quota).copied().unwrap_or(0)
    }

    /// The guard to hold from before a change's quotas are looked up until it is applied. It is exclusive for a change
    /// that may add content while drafts have reservations, since these count against it.
    pub(super) fn change_guard(&self, steps: &[Step]) -> QuotaGuard<'_> {
        let is_reserved = || self.tables.lock().reserved.iter().any(|bytes| *bytes > 0);
        if steps.iter().any(may_grow) && is_reserved() {
            return QuotaGuard::Exclusive { _guard: self.change_lock.write() };
        }
        QuotaGuard::Shared { _guard: self.change_lock.read() }
    }

    /// The guard to hold while a draft is committed, until its reservation is released.
    pub(super) fn commit_guard(&self) -> QuotaGuard<'_> {
        QuotaGuard::Shared { _guard: self.change_lock.read() }
    }

    /// Forgets what the Stores said about their usage: something has changed.
    pub(super) fn invalidate_usage(&self) {
        self.tables.lock().used.clear();
    }
}

/// Whether a step may add bytes.
fn may_grow(step: &Step) -> bool {
    match step {
        Step::Write { content: Content::Bytes(bytes), .. } => !bytes.is_empty(),
        Step::Write { .. } | Step::Append { .. } | Step::Edit { .. } | Step::Copy { .. } => true,
        _ => false,
    }
}

impl Reservation {
    /// An empty reservation for a file at a path in a Store.
    pub(super) fn new(shared: &VfsShared, store: &dyn Store, path: &StorePath) -> Self {
        let quotas = shared.quotas.limits_at(store, path);
        Reservation { reservations: Arc::clone(&shared.draft_reservations), quotas, base_size: 0, bytes: 0 }
    }

    /// Starts over for a draft of a file of that size.
    pub(super) fn begin(&mut self, base_size: u64) {
        self.release();
        self.base_size = base_size;
    }

    /// Checks that the draft may have that size, and reserves what is missing for it.
    pub(super) fn grow(&mut self, shared: &VfsShared, size: u64) -> StoreResult<()> {
        for (_, limits) in &self.quotas {
            // A file that is over the limit already may be written to, as long as it doesn't grow.
            if size > self.base_size {
                limits.check_file_size(size)?;
            }
        }
        let total = size.saturating_sub(self.base_size);
        if total <= self.bytes || self.quotas.is_empty() {
            return Ok(());
        }
        if self.reserve(total, None).is_ok() {
            return Ok(());
        }
        // Before it refuses, it asks the Stores: cached usage may be out of date.
        let reservations = Arc::clone(&self.reservations);
        let _guard = reservations.change_lock.write();
        match self.reserve_fresh(shared, total) {
            Err(StoreError::OverQuota { .. })
                if shared.remove_expired_keys().is_ok_and(|removed| removed > 0) =>
            {
                self.reserve_fresh(shared, total)
            }
            reserved => reserved,
        }
    }

    /// Reserves `total` bytes by what the Stores say is used.
    fn reserve_fresh(&mut self, shared: &VfsShared, total: u64) -> StoreResult<()> {
        let mut used = Vec::with_capacity(self.quotas.len());
        for (quota, _) in &self.quotas {
            let started = Instant::now();
            let bytes = shared.quotas.usage(*quota)?.bytes;
            // A Store that is slow to count its usage is asked less often.
            let expires = Instant::now() + USAGE_CACHE_TIME.max(started.elapsed() * 10);
            used.push(CachedUsage { bytes, expires });
        }
        self.reserve(total, Some(&used))
    }

    /// Reserves for the largest size from `min_size` to `size` that the draft may have, and returns that size.
    pub(super) fn grow_up_to(&mut self, shared: &VfsShared, min_size: u64, size: u64) -> StoreResult<u64> {
        let Err(error) = self.grow(shared, size) else { return Ok(size) };
        let StoreError::OverQuota { on, wanted, allowed, .. } = &error else { return Err(error) };
        let largest = match on {
            QuotaResource::FileBytes => *allowed,
            _ => size.saturating_sub(wanted.saturating_sub(*allowed)),
        };
        // Another limit may be tighter than the one that refused: then the reservation for `largest` fails, and so does
        // this.
        if largest < min_size || self.grow(shared, largest).is_err() { Err(error) } else { Ok(largest) }
    }

    /// Reserves `total` bytes, with what is reserved already, if they fit into each quota. Without `fresh`, uses cached
    /// usage, and fails unless it is recent and leaves enough room.
    fn reserve(&mut self, total: u64, fresh: Option<&[CachedUsage]>) -> StoreResult<()> {
        let added = total - self.bytes;
        let mut tables = self.reservations.tables.lock();
        for (index, (quota, limits)) in self.quotas.iter().enumerate() {
            let Some(allowed) = limits.bytes else { continue };
            if let Some(fresh) = fresh {
                let length = tables.used.len().max(quota + 1);
                tables.used.resize(length, None);
                tables.used[*quota] = Some(fresh[index]);
            }
            let cached = tables.used.get(*quota).copied().flatten();
            let reserved = tables.reserved.get(*quota).copied().unwrap_or(0);
            let used = cached.map_or(allowed, |used| used.bytes).saturating_add(reserved);
            let wanted = used.saturating_add(added);
            let is_cache_sufficient = || {
                let is_recent = cached.is_some_and(|used| Instant::now() < used.expires);
                is_recent && wanted < allowed - allowed / MARGIN_DIVISOR
            };
            if wanted > allowed || !(fresh.is_some() || is_cache_sufficient()) {
                return Err(StoreError::OverQuota { on: QuotaResource::Bytes, used, wanted, allowed });
            }
        }
        for (quota, _) in &self.quotas {
            let count = tables.reserved.len().max(quota + 1);
            tables.reserved.resize(count, 0);
            tables.reserved[*quota] += added;
        }
        self.bytes = total;
        Ok(())
    }

    /// Releases what a draft of this size doesn't need.
    pub(super) fn shrink_to(&mut self, size: u64) {
        let needed = size.saturating_sub(self.base_size);
        let excess = self.bytes.saturating_sub(needed);
        if excess > 0 {
            let mut tables = self.reservations.tables.lock();
            for (quota, _) in &self.quotas {
                tables.reserved[*quota] -= excess;
            }
            self.bytes -= excess;
        }
    }

    /// Releases everything: there is no draft any more.
    pub(super) fn release(&mut self) {
        self.base_size = 0;
        self.shrink_to(0);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}
