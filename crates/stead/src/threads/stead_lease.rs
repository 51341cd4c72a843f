//! The lease that a stead of a thread has for as long as it is open.

use std::sync::Arc;

use stead_core::store::{DatabaseId, LeaseId};
use stead_core::vfs::{InUse, ThreadLease};
use stead_core::{Result, Timestamp};
use stead_stores::{HeldThread, LeaseHolder};

use crate::threads::heartbeat::Heartbeat;

/// A stead's use of a thread. When the last one in this process is dropped, the process's lease is given back.
#[derive(Debug)]
pub(crate) struct SteadLease {
    /// `Some` until this is dropped.
    thread: Option<Arc<HeldThread>>,
    holder: Arc<LeaseHolder>,
    heartbeat: Arc<Heartbeat>,
}

impl SteadLease {
    pub(super) fn new(thread: Arc<HeldThread>, holder: Arc<LeaseHolder>, heartbeat: Arc<Heartbeat>) -> Self {
        SteadLease { thread: Some(thread), holder, heartbeat }
    }

    /// The thread.
    pub(crate) fn thread(&self) -> &Arc<HeldThread> {
        self.thread.as_ref().expect("it is there until this is dropped")
    }
}

impl ThreadLease for SteadLease {
    fn begin(self: Arc<Self>) -> Result<InUse> {
        Arc::clone(self.thread()).begin()
    }

    fn end(&self) {
        self.thread().end();
    }

    fn check(&self) -> Result<()> {
        self.thread().check()
    }

    fn note_expired(&self) {
        self.thread().note_expired();
    }

    fn has_ended(&self) -> bool {
        self.thread().has_ended()
    }

    fn was_ended_here(&self) -> bool {
        self.thread().was_ended_here()
    }

    fn end_was_reported(&self) -> bool {
        self.thread().end_was_reported()
    }

    fn created(&self) -> Timestamp {
        self.thread().created()
    }

    fn id(&self) -> LeaseId {
        self.thread().id()
    }

    fn database(&self) -> DatabaseId {
        self.thread().database()
    }
}

impl Drop for SteadLease {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // What can't be written now is written by the heartbeat.
            let _ = self.holder.release(thread);
            self.heartbeat.end_if_done(&self.holder);
        }
    }
}
