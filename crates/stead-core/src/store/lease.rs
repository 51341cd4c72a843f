//! Leases: that a process uses a thread.

/// One process's lease of one thread. A Store that knows the lease's database checks it in the transaction of a change.
///
/// The three numbers are never used again together: once a lease is gone or has expired, no later lease has its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// The thread. A thread of the same name that is made after this one has ended has another number.
    pub thread: i64,
    /// The process that holds the lease.
    pub holder: i64,
    /// Grows with every lease that is taken on the thread.
    pub epoch: i64,
}
