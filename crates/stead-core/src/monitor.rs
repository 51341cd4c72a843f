//! How a caller follows a running call: it gets the progress, and can ask the call to stop.
//!
//! ```
//! use stead_core::monitor::{CallMonitor, StopReason};
//!
//! /// Stops every call.
//! #[derive(Debug)]
//! struct Stopped;
//!
//! impl CallMonitor for Stopped {
//!     fn progress(&self, _done: u64, _total: Option<u64>) {}
//!     fn stop_reason(&self) -> Option<StopReason> {
//!         Some(StopReason::Cancelled)
//!     }
//! }
//! # use stead_core::{AccessScope, ErrorKind, Identity, Mount, Vfs, VfsPath, Workspace};
//! # use std::sync::Arc;
//! # use stead_core::testkit::ModelStore;
//! # let store = Arc::new(ModelStore::default());
//! # let notes = Workspace::new(VfsPath::parse("/notes")?, AccessScope::ReadWrite, Mount::new(store));
//! # let vfs = Vfs::builder(Identity::agent("coder")).workspace(notes).build()?;
//!
//! let error = vfs.with_monitor(Arc::new(Stopped)).write("/notes/a", "1").unwrap_err();
//! assert!(error.to_string().contains("nothing has changed"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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

/// Reports to the monitor of a change that so many of its steps are done.
pub fn report_step(monitor: Option<&Arc<dyn CallMonitor>>, done: usize, steps: usize) {
    if let Some(monitor) = monitor {
        monitor.progress(done as u64, Some(steps as u64));
    }
}

/// Why a call was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The caller no longer wants the result.
    Cancelled,
    /// The call exceeded its time limit.
    TimedOut,
}

impl StopReason {
    /// The reason as the audit has it.
    pub fn as_str(self) -> &'static str {
        match self {
            StopReason::Cancelled => "cancelled",
            StopReason::TimedOut => "timed_out",
        }
    }
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
