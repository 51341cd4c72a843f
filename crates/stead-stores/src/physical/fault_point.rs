//! Fault injection: tests stop a Store right before any of its actions, as if the process had been killed there.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stead_core::store::{StoreError, StoreResult};

/// Called before every action that other processes could see, with the action's name. `true` stops the Store there.
pub type Faults = Arc<dyn Fn(&'static str) -> bool + Send + Sync>;

/// Whether a test has stopped this Store, and the function that decides it. Without `faults`, the Store never stops.
#[derive(Default)]
pub(super) struct FaultPoint {
    is_stopped: AtomicBool,
    faults: Option<Faults>,
}

impl FaultPoint {
    pub(super) fn new(faults: Option<Faults>) -> Self {
        FaultPoint { is_stopped: AtomicBool::new(false), faults }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Fails if the Store was stopped.
    pub(super) fn check(&self) -> StoreResult<()> {
        if self.is_stopped() { Err(stopped_error()) } else { Ok(()) }
    }

    /// Asks `faults` whether the Store stops before this action. Fails then, and in every later call.
    pub(super) fn pass(&self, action: &'static str) -> StoreResult<()> {
        if let Some(faults) = &self.faults
            && (self.is_stopped() || faults(action))
        {
            self.is_stopped.store(true, Ordering::Relaxed);
            return Err(stopped_error());
        }
        Ok(())
    }
}

fn stopped_error() -> StoreError {
    StoreError::unavailable("the Store was stopped; open the Store again")
}

impl fmt::Debug for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultPoint").field("is_stopped", &self.is_stopped()).finish_non_exhaustive()
    }
}
