//! Whoever waits for a call: they are told how far it has come, and may ask it to stop.

use std::fmt;
use std::sync::Arc;

use crate::store::{StoreError, StoreResult};

/// One who waits for a call.
///
/// Both methods are called often, from the thread that makes the call, and have to return at once.
pub trait CallMonitor: fmt::Debug + Send + Sync {
    /// So much is done, of so much where that is known.
    fn progress(&self, done: u64, total: Option<u64>);

    /// Whether the call is to stop. It does so where nothing of it has happened yet.
    fn stop_reason(&self) -> Option<StopReason>;
}

/// Fails if someone waits for the call and wants it to stop.
pub fn check_not_stopped(watch: Option<&Arc<dyn CallMonitor>>) -> StoreResult<()> {
    watch.and_then(|watch| watch.stop_reason()).map_or(Ok(()), |stop| Err(StoreError::Stopped(stop)))
}

/// Why a call stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Nobody wants its result any more.
    Cancelled,
    /// It takes longer than it may.
    TimedOut,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopReason::Cancelled => "the call was cancelled, and nothing has changed",
            StopReason::TimedOut => {
                "the call took too long and was stopped; nothing has changed: ask for less at once"
            }
        })
    }
}
