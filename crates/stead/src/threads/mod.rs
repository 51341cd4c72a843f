//! The threads of a configuration: entering one, keeping its lease, and ending it with its files.
//!
//! An agent of scope `thread` or `hybrid` works in threads. Opening its stead enters a thread: the thread is made at its first
//! use, and found at every later one. While a stead of it is open, this process has a lease of it. A thread ends by
//! [`Threads::destroy`], or by [`Threads::sweep`] after its idle time-out.

mod archive;
mod ending;
mod generated_name;
mod heartbeat;
mod report;
mod stead_lease;

pub use archive::{ArchiveDestination, ArchivedThread};
pub use ending::{DestroyedThread, Swept};
pub use generated_name::generate_thread_name;
pub use report::{ThreadDetails, ThreadWorkspace};
pub(crate) use stead_lease::SteadLease;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stead_core::{AuditOutcome, AuditRecord, Clock, Identity, StoreError, SystemClock, parse_thread_name};
use stead_stores::{HeldThread, LeaseHolder, ThreadKey, ThreadRecord};

use crate::config::AgentConfig;
use crate::error::{Error, Result};
use crate::stores::{StoreOpener, Stores};
use crate::threads::heartbeat::Heartbeat;

/// How long a lease holds without being renewed. A test sets `STEAD_TEST_LEASE_TTL_MS` to a shorter time, for processes that it
/// starts; a release build doesn't look at it.
pub(crate) fn lease_ttl() -> Duration {
    #[cfg(debug_assertions)]
    if let Some(millis) = std::env::var("STEAD_TEST_LEASE_TTL_MS").ok().and_then(|text| text.parse().ok()) {
        return Duration::from_millis(millis);
    }
    LeaseHolder::DEFAULT_TTL
}

/// What all steads of one database share of threads.
#[derive(Debug)]
pub(crate) struct ThreadRegistry {
    opener: Arc<StoreOpener>,
    lease_ttl: Duration,
    /// `None` before a thread was first used.
    holder: Mutex<Option<Arc<LeaseHolder>>>,
    heartbeat: Arc<Heartbeat>,
    /// The threads that may have volumes in Memory Stores, by number.
    in_memory: Mutex<HashMap<i64, ThreadKey>>,
    /// When `in_memory` was last compared with the threads that exist.
    memory_checked: Mutex<Option<Instant>>,
}

impl ThreadRegistry {
    pub(crate) fn new(opener: Arc<StoreOpener>, lease_ttl: Duration) -> Self {
        ThreadRegistry {
            opener,
            lease_ttl,
            holder: Mutex::default(),
            heartbeat: Arc::default(),
            in_memory: Mutex::default(),
            memory_checked: Mutex::default(),
        }
    }

    /// This process as a user of threads. Opens the database if needed.
    fn holder(&self) -> Result<Arc<LeaseHolder>> {
        let mut holder = self.holder.lock();
        if let Some(holder) = &*holder {
            return Ok(Arc::clone(holder));
        }
        Ok(Arc::clone(holder.insert(self.opener.database()?.lease_holder(self.lease_ttl))))
    }

    /// Notes that a thread may have volumes in Memory Stores.
    pub(crate) fn note_memory_volume(&self, thread: &HeldThread) {
        self.in_memory.lock().insert(thread.thread(), thread.key().clone());
    }
}

/// The threads of a configuration. See [`Stores::threads`].
#[derive(Debug, Clone, Copy)]
pub struct Threads<'s> {
    stores: &'s Stores,
}

impl Stores {
    /// The threads of the configuration's agents.
    pub fn threads(&self) -> Threads<'_> {
        Threads { stores: self }
    }
}

impl Threads<'_> {
    /// The threads of an agent, or of all agents, sorted by agent and name.
    pub fn list(&self, agent: Option<&str>) -> Result<Vec<ThreadRecord>> {
        match self.stores.database_source().existing_database()? {
            Some(database) => Ok(database.threads(agent)?),
            None => Ok(Vec::new()),
        }
    }

    /// A thread; fails if there is none.
    fn record(&self, key: &ThreadKey) -> Result<ThreadRecord> {
        let database = self.stores.database_source().existing_database()?;
        let record = database.map(|database| database.thread(key)).transpose()?.flatten();
        record.ok_or_else(|| Error::UnknownThread { agent: key.agent.clone(), thread: key.thread.clone() })
    }

    /// Renews no lease any more, as if the process were stopped.
    #[doc(hidden)]
    pub fn stop_heartbeat_for_test(&self) {
        self.registry().heartbeat.stop();
    }

    fn registry(&self) -> &Arc<ThreadRegistry> {
        self.stores.thread_registry()
    }

    /// Enters the thread of an identity, whose agent works in threads.
    pub(crate) fn enter(&self, identity: &Identity, agent: &AgentConfig) -> Result<Arc<SteadLease>> {
        let thread = identity.thread.as_deref();
        let thread = thread.ok_or_else(|| Error::ThreadNeeded { agent: identity.agent.clone() })?;
        let thread = parse_thread_name(thread).map_err(|error| Error::Invalid(error.to_string()))?;
        let key = ThreadKey::new(&identity.agent, thread);
        let registry = self.registry();
        // The thread's making has an audit record, unless the audit is turned off.
        registry.opener.audit()?;
        let holder = registry.holder()?;
        let record = thread_record(&key, "thread.create");
        let enter = || holder.enter(&key, Some(agent.idle_timeout), &record);
        let entered = match enter() {
            // Its remover may have died.
            Err(error @ StoreError::Unavailable { .. }) => {
                if !self.record(&key).is_ok_and(|record| record.is_ending) {
                    return Err(error.into());
                }
                self.end(&key, stead_stores::EndWhen::Idle, "thread.sweep")?;
                enter()?
            }
            entered => entered?,
        };
        registry.heartbeat.ensure_running(&holder);
        Ok(Arc::new(SteadLease::new(entered.thread, holder, Arc::clone(&registry.heartbeat))))
    }
}

/// The record of a step in a thread's life.
fn thread_record(key: &ThreadKey, call: &'static str) -> AuditRecord {
    let identity = Identity::agent(&key.agent).with_thread(&key.thread);
    let mut record = AuditRecord::new(SystemClock.now(), Arc::new(identity), call, AuditOutcome::Ok);
    record.stead = Some(key.to_string().into());
    record
}

/// How long Memory Stores may have files of threads that another process has removed.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_secs(30);
