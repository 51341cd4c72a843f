//! Threads: which threads of agents have files of their own in a database, and which processes use them.
//!
//! A process has one [`LeaseHolder`] per database. [`LeaseHolder::enter`] makes a thread, or joins it, and takes a lease on it. A
//! lease holds until the holder's row expires by the database's clock; [`LeaseHolder::renew_all`] renews all of a process's
//! leases with one row. The Stores check a change's lease in the transaction that commits the change
//! ([`stead_core::store::CompanionRecord::Lease`]), so a process that was stopped past its leases writes nothing until it has
//! renewed them.
//!
//! A thread is removed in two steps: [`LeaseHolder::begin_ending`] marks it, and [`LeaseHolder::finish_ending`] removes all that
//! the database has of it. In between the caller removes what is elsewhere. If it is killed there, the next process that sweeps
//! finishes the removal.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use stead_core::{AuditOutcome, AuditRecord, Clock, Identity, SystemClock};
//! use stead_stores::{Database, EndWhen, Ending, EnteredAs, LeaseHolder, ThreadKey};
//!
//! let holder = Database::in_memory().lease_holder(LeaseHolder::DEFAULT_TTL);
//! let key = ThreadKey::new("coder", "review-12");
//! let identity = Arc::new(Identity::agent("coder").with_thread("review-12"));
//! let record = AuditRecord::new(SystemClock.now(), identity, "thread", AuditOutcome::Ok);
//! let entered = holder.enter(&key, Some(Duration::from_secs(1_800)), &record)?;
//! assert_eq!(entered.how, EnteredAs::Created);
//! let files = entered.thread.volume(["workspaces", "coder"])?;
//!
//! let Ending::Begun(ending) = holder.begin_ending(&key, EndWhen::Now)? else { panic!("no call runs in it") };
//! assert_eq!(holder.finish_ending(ending, record)?.volumes, 1);
//! # Ok::<(), stead_core::StoreError>(())
//! ```

mod contents;
mod ending;
mod held_thread;
mod holder;
mod process_clock;
mod removal;
mod renewal;
pub(crate) mod rows;
mod sweep;
mod volumes;

pub use ending::{EndWhen, Ending, EndingThread};
pub use held_thread::HeldThread;
pub use holder::{Entered, EnteredAs, LeaseHolder};
pub use removal::RemovedThread;
pub(crate) use removal::{remove_thread, threads_with_volumes};
pub(crate) use volumes::{ThreadVolumes, configured_namespace, thread_namespace};

use std::fmt;
use std::time::Duration;

use stead_core::{Identity, StoreResult, Timestamp};

use crate::database::Database;

/// A thread of an agent. Both names have been checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey {
    /// The agent.
    pub agent: String,
    /// The thread's name.
    pub thread: String,
}

impl ThreadKey {
    /// The thread of an agent.
    pub fn new(agent: impl Into<String>, thread: impl Into<String>) -> Self {
        ThreadKey { agent: agent.into(), thread: thread.into() }
    }

    /// The thread that an identity acts in, if any.
    pub fn of(identity: &Identity) -> Option<Self> {
        Some(ThreadKey::new(&identity.agent, identity.thread.as_deref()?))
    }
}

impl fmt::Display for ThreadKey {
    /// The id of the thread's stead, `AGENT/THREAD`. It owns the thread's forks and snapshots.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.agent, self.thread)
    }
}

/// What the database knows of a thread. All times are those of its clock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadRecord {
    /// The thread's number. It is never used again.
    pub id: i64,
    /// The thread.
    pub key: ThreadKey,
    /// When it was made.
    pub created: Timestamp,
    /// When its last call ended. Up to one heartbeat old, if the thread is in use.
    pub last_used: Timestamp,
    /// For how long it has not been used.
    pub idle_for: Duration,
    /// After which time without use it ends; `None` if it never does by itself.
    pub idle_timeout: Option<Duration>,
    /// How many processes use it now.
    pub leases: u64,
    /// Until when the longest of their leases holds.
    pub leased_until: Option<Timestamp>,
    /// Whether it is being removed.
    pub is_ending: bool,
}

impl Database {
    /// The threads of an agent, or of all agents, sorted by agent and name. Those that are being removed are among them.
    pub fn threads(&self, agent: Option<&str>) -> StoreResult<Vec<ThreadRecord>> {
        Ok(rows::list(&*self.0.reader()?, agent, None)?)
    }

    /// A thread; `None` if there is none.
    pub fn thread(&self, key: &ThreadKey) -> StoreResult<Option<ThreadRecord>> {
        Ok(rows::list(&*self.0.reader()?, Some(&key.agent), Some(&key.thread))?.pop())
    }
}
