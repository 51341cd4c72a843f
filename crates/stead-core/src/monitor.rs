//! How a caller follows a running call: it gets the progress, and can ask the call to stop.

use std::fmt;
use std::sync::Arc;

use crate::store::{StoreError, StoreResult};

/// The side that waits for a call.
///
/// Both methods are called often, from the thread that makes the call, and must return at once.
pub trait CallMonitor: fmt::Debug + Send + Sync {
    /// Reports that `done` units of `total` are done; `total` is `None` if it isn't known.
    fn progress(&self, done: u64, total: Option<u64>);

    /// Why the call should stop, or `None` to continue. A call stops only where it has changed nothing yet.
    fn stop_reason(&self) -> Option<StopReason>;
}

/// Fails with `StoreError::Stopped` if the monitor wants the call to stop. Succeeds if there is no monitor.
pub fn check_not_stopped(monitor: Option<&Arc<dyn CallMonitor>>) -> StoreResult<()> {
    monitor
        .and_then(|monitor| monitor.stop_reason())
        .map_or(Ok(()), |reason| Err(StoreError::Stopped(reason)))
}

/// Why a call was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The caller no longer wants the result.
    Cancelled,
    /// The call exceeded its time limit.
    TimedOut,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopReason::Cancelled => "the call was cancelled, and nothing has changed",
            StopReason::TimedOut => {
                "the call took too long and was stopped; nothing has changed: ask for less in one call"
            }
        })
    }
}
