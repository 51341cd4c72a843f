//! A thread that this process uses, and its lease.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use stead_core::store::{DatabaseId, LeaseId};
use stead_core::vfs::{InUse, ThreadLease};
use stead_core::{Error, Identity, Result, Timestamp};

use crate::threads::holder::{LeaseHolder, ReleasedLease};
use crate::threads::{ThreadKey, ThreadVolumes, process_clock};

/// The bit of `calls` that is set while this process tries to end the thread, and once it has ended.
const ENDING: u64 = 1 << 63;

/// A thread that this process uses. All users in the process share it. When the last of them drops it, the lease is given back
/// with the holder's next write.
///
/// It is the lease of a `Vfs`: see [`stead_core::vfs::VfsBuilder::lease`].
pub struct HeldThread {
    pub(super) key: Arc<ThreadKey>,
    pub(super) holder: Arc<LeaseHolder>,
    created: Timestamp,
    lease: Mutex<LeaseId>,
    /// Whether the lease must be taken anew, because a Store has refused it.
    is_refused: AtomicBool,
    has_ended: AtomicBool,
    /// Whether this process has ended it.
    was_ended_here: AtomicBool,
    /// Whether a call has failed because the thread has ended.
    end_was_reported: AtomicBool,
    /// How many calls run, and the bit `ENDING`.
    calls: AtomicU64,
    /// When the last call ended, by the clock of the process.
    last_used: AtomicI64,
    /// Whether `last_used` is newer than what the database has.
    is_used: AtomicBool,
    /// The identity and the stead that entered the thread, for the record that it was released.
    pub(super) identity: Arc<Identity>,
    pub(super) stead: Option<Arc<str>>,
    pub(super) volumes: ThreadVolumes,
}

impl HeldThread {
    pub(super) fn new(
        key: Arc<ThreadKey>,
        holder: Arc<LeaseHolder>,
        (lease, created): (LeaseId, Timestamp),
        (identity, stead): (Arc<Identity>, Option<Arc<str>>),
    ) -> Self {
        HeldThread {
            key,
            holder,
            created,
            lease: Mutex::new(lease),
            is_refused: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            was_ended_here: AtomicBool::new(false),
            end_was_reported: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            last_used: AtomicI64::new(process_clock::now()),
            is_used: AtomicBool::new(false),
            identity,
            stead,
            volumes: ThreadVolumes::default(),
        }
    }

    /// The thread.
    pub fn key(&self) -> &ThreadKey {
        &self.key
    }

    /// The thread's number. It is never used again.
    pub fn thread(&self) -> i64 {
        self.lease.lock().thread
    }

    /// Whether the thread has ended, as far as this process knows.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// How many calls run in it in this process.
    pub fn running_calls(&self) -> u64 {
        self.calls.load(Ordering::Acquire) & !ENDING
    }

    /// The lease, if it must be taken anew by this holder.
    pub(super) fn needs_lease_of(&self, holder: i64) -> bool {
        !self.has_ended() && (self.is_refused.load(Ordering::Acquire) || self.lease.lock().holder != holder)
    }

    /// Puts a new lease in place; without one, the thread has ended.
    pub(super) fn set_lease(&self, lease: Option<LeaseId>) {
        match lease {
            Some(lease) => {
                *self.lease.lock() = lease;
                self.is_refused.store(false, Ordering::Release);
            }
            None => self.set_ended(),
        }
    }

    /// How long ago it was used, in nanoseconds, if the database doesn't know that yet. From then on it counts as known.
    pub(super) fn take_unwritten_use(&self) -> Option<i64> {
        let is_used = self.is_used.swap(false, Ordering::AcqRel);
        (is_used || self.running_calls() > 0).then(|| self.unused_for())
    }

    /// Whether the database doesn't know yet when it was last used.
    pub(super) fn has_unwritten_use(&self) -> bool {
        self.is_used.load(Ordering::Acquire) || self.running_calls() > 0
    }

    /// The use that was taken could not be written.
    pub(super) fn restore_unwritten_use(&self) {
        self.is_used.store(true, Ordering::Release);
    }

    /// For how long no call has run, in nanoseconds.
    pub(super) fn unused_for(&self) -> i64 {
        if self.running_calls() > 0 {
            return 0;
        }
        (process_clock::now() - self.last_used.load(Ordering::Acquire)).max(0)
    }

    /// Keeps calls from beginning until `stop_ending` or `set_ended`. `false` if a call runs.
    pub(super) fn try_begin_ending(&self) -> bool {
        self.calls.compare_exchange(0, ENDING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(super) fn stop_ending(&self) {
        self.calls.fetch_and(!ENDING, Ordering::AcqRel);
    }

    pub(super) fn set_ended(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// This process has ended it, while no call ran.
    pub(super) fn set_ended_here(&self) {
        self.was_ended_here.store(true, Ordering::Release);
        self.set_ended();
    }

    /// Whether this process is trying to end it.
    pub(super) fn is_ending(&self) -> bool {
        self.calls.load(Ordering::Acquire) & ENDING != 0
    }

    /// The error of a call after the thread has ended.
    fn report_end(&self) -> Error {
        self.end_was_reported.store(true, Ordering::Release);
        Error::ThreadEnded
    }

    /// Counts a call, unless the thread has ended. Waits while this process tries to end it.
    fn count_call(&self) -> Result<()> {
        loop {
            if self.has_ended() {
                return Err(self.report_end());
            }
            if self.calls.fetch_add(1, Ordering::AcqRel) & ENDING == 0 {
                return Ok(());
            }
            self.calls.fetch_sub(1, Ordering::AcqRel);
            self.holder.wait_for_ending();
        }
    }
}

impl ThreadLease for HeldThread {
    fn begin(self: Arc<Self>) -> Result<InUse> {
        self.count_call()?;
        let in_use = InUse::counted(Arc::clone(&self) as Arc<dyn ThreadLease>);
        self.check()?;
        Ok(in_use)
    }

    fn end(&self) {
        self.last_used.store(process_clock::now(), Ordering::Release);
        self.is_used.store(true, Ordering::Release);
        self.calls.fetch_sub(1, Ordering::AcqRel);
    }

    fn check(&self) -> Result<()> {
        self.holder.renew_if_needed(self).map_err(Error::LeaseUnavailable)?;
        if self.has_ended() { Err(self.report_end()) } else { Ok(()) }
    }

    fn note_expired(&self) {
        self.is_refused.store(true, Ordering::Release);
    }

    fn has_ended(&self) -> bool {
        HeldThread::has_ended(self)
    }

    fn was_ended_here(&self) -> bool {
        self.was_ended_here.load(Ordering::Acquire)
    }

    fn end_was_reported(&self) -> bool {
        self.end_was_reported.load(Ordering::Acquire)
    }

    fn created(&self) -> Timestamp {
        self.created
    }

    fn id(&self) -> LeaseId {
        *self.lease.lock()
    }

    fn database(&self) -> DatabaseId {
        self.holder.database().id()
    }
}

impl fmt::Debug for HeldThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldThread")
            .field("key", &self.key)
            .field("lease", &*self.lease.lock())
            .field("calls", &self.running_calls())
            .finish_non_exhaustive()
    }
}

impl Drop for HeldThread {
    fn drop(&mut self) {
        let lease = *self.lease.get_mut();
        let released = (!self.has_ended()).then(|| ReleasedLease {
            lease,
            last_used: self.take_unwritten_use().map(|_| self.last_used.load(Ordering::Acquire)),
            identity: Arc::clone(&self.identity),
            stead: self.stead.clone(),
        });
        self.holder.forget(&self.key, released);
    }
}
