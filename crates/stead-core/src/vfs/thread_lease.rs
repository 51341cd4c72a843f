//! The port by which a `Vfs` of a thread knows that the thread still exists and that this process may change its files.

use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::Result;
use crate::store::{DatabaseId, LeaseId};

/// This process's lease of a thread.
///
/// Every call of a `Vfs` that has a lease calls [`ThreadLease::begin`] first. Every change that it makes in a Store of the
/// lease's database carries [`ThreadLease::id`], and the Store refuses the change if the lease is gone or has expired. A
/// Store of another database, such as a Memory Store, can't check that: there the `Vfs` calls
/// [`ThreadLease::check`] just before the change.
pub trait ThreadLease: Debug + Send + Sync {
    /// Notes that a call begins, until the guard is dropped. While a guard exists, no idle time-out ends the thread.
    ///
    /// If the lease could have expired, it is renewed first. The time is taken from a clock that also runs while the
    /// process is stopped or the machine is suspended. Fails with [`crate::Error::ThreadEnded`] if the thread is gone, and
    /// with [`crate::Error::LeaseUnavailable`] if the lease can't be renewed.
    fn begin(self: Arc<Self>) -> Result<InUse>;

    /// Notes that a call has ended. Only [`InUse`] calls this, once for each [`ThreadLease::begin`].
    fn end(&self);

    /// Renews the lease if it could have expired, and fails like [`ThreadLease::begin`]. For a change that no Store checks.
    fn check(&self) -> Result<()>;

    /// Notes that a Store refused a change because the lease is gone or has expired: the next call renews it, whatever the
    /// clock of this process says.
    fn note_expired(&self);

    /// Whether the thread has ended, as far as this process knows.
    fn has_ended(&self) -> bool;

    /// Whether this process has ended the thread, when no call ran in it. Then no request was on its way to the thread: what a client
    /// without a session asks for after that begins a new thread. Where another process has ended it, a client has to be told.
    fn was_ended_here(&self) -> bool;

    /// Whether a call has failed because the thread has ended, so that its caller knows.
    fn end_was_reported(&self) -> bool;

    /// When the thread was made, by the clock of its database. What a thread of the same name did before then isn't its own.
    fn created(&self) -> Timestamp;

    /// The lease as it is now. It changes when the lease is renewed after it has expired.
    fn id(&self) -> LeaseId;

    /// The database that has the lease.
    fn database(&self) -> DatabaseId;
}

/// A call of a thread that runs now. Dropping it ends the call.
#[must_use = "the call counts as running only while this exists"]
pub struct InUse(Arc<dyn ThreadLease>);

impl InUse {
    /// A call that has begun. Only an implementation of [`ThreadLease::begin`] makes one, after it has counted the call.
    pub fn counted(lease: Arc<dyn ThreadLease>) -> Self {
        InUse(lease)
    }

    /// The lease that the call runs under.
    pub(crate) fn lease(&self) -> &dyn ThreadLease {
        &*self.0
    }
}

impl Debug for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InUse").field(&self.0.id()).finish()
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.end();
    }
}
