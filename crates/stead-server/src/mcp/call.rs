//! Runs one call into the core, with a slot, a deadline, cancellation and progress. A panic in the core fails the call,
//! but not the server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use stead_core::monitor::{CallMonitor, StopReason};
use stead_core::tools::Failure;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::live_stead::{LiveStead, SteadView};

/// The shortest time between two progress notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Why a call has no answer from the core.
pub(super) enum McpCallError {
    /// The call was refused before it ran.
    Refused(Failure),
    /// The call panicked.
    Panicked,
    /// The client cancelled the call before it ran.
    Cancelled,
}

impl From<McpCallError> for ErrorData {
    fn from(error: McpCallError) -> Self {
        match error {
            McpCallError::Refused(failure) => super::convert::error(&failure),
            McpCallError::Panicked => ErrorData::internal_error(
                "the server failed unexpectedly during this call; try again, and report it if it happens again",
                None,
            ),
            McpCallError::Cancelled => ErrorData::internal_error("the call was cancelled", None),
        }
    }
}

/// Runs a call on this thread, since the core is synchronous. Waits for one of the identity's call slots first.
pub(super) async fn run_call<T>(
    live_stead: &LiveStead,
    context: &RequestContext<RoleServer>,
    run: impl FnOnce(&SteadView, &Arc<dyn CallMonitor>) -> T,
) -> Result<T, McpCallError> {
    let _slot = tokio::select! {
        slot = live_stead.acquire_call_slot() => slot.map_err(McpCallError::Refused)?,
        () = context.ct.cancelled() => return Err(McpCallError::Cancelled),
    };
    let progress =
        context.meta.get_progress_token().map(|token| ProgressReporter::begin(token, &context.peer));
    let monitor: Arc<dyn CallMonitor> = Arc::new(RequestMonitor {
        cancelled: context.ct.clone(),
        deadline: Instant::now() + live_stead.limits().call_timeout,
        progress: progress.as_ref().map(|progress| progress.progress.clone()),
    });
    // Unwind safe: the tool works on Stores behind the door, and these stay consistent whatever happens to a caller.
    let run = AssertUnwindSafe(|| run(&live_stead.renewed(), &monitor));
    let result = tokio::task::block_in_place(|| catch_unwind(run));
    drop(monitor);
    if let Some(progress) = progress {
        progress.end().await;
    }
    result.map_err(|_| McpCallError::Panicked)
}

/// Tells the core whether to stop, and receives its progress.
#[derive(Debug)]
struct RequestMonitor {
    cancelled: CancellationToken,
    deadline: Instant,
    progress: Option<watch::Sender<(u64, Option<u64>)>>,
}

impl CallMonitor for RequestMonitor {
    fn progress(&self, done: u64, total: Option<u64>) {
        if let Some(sender) = &self.progress {
            sender.send_replace((done, total));
        }
    }

    fn stop_reason(&self) -> Option<StopReason> {
        if self.cancelled.is_cancelled() {
            return Some(StopReason::Cancelled);
        }
        (Instant::now() > self.deadline).then_some(StopReason::TimedOut)
    }
}

/// Sends the progress of a call to the client, until the call ends.
struct ProgressReporter {
    progress: watch::Sender<(u64, Option<u64>)>,
    ended: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl ProgressReporter {
    fn begin(token: ProgressToken, peer: &Peer<RoleServer>) -> Self {
        let (progress, updates) = watch::channel((0, None));
        let ended = CancellationToken::new();
        let task = tokio::spawn(send_progress(updates, token, peer.clone(), ended.clone()));
        ProgressReporter { progress, ended, task }
    }

    /// Waits for the last notification, so that none is sent after the answer.
    async fn end(self) {
        self.ended.cancel();
        let _ = self.task.await;
    }
}

async fn send_progress(
    mut updates: watch::Receiver<(u64, Option<u64>)>,
    token: ProgressToken,
    peer: Peer<RoleServer>,
    ended: CancellationToken,
) {
    // The protocol requires that progress increases.
    let mut last = 0;
    loop {
        let is_running =
            ended.run_until_cancelled(updates.changed()).await.is_some_and(|changed| changed.is_ok());
        let (done, total) = *updates.borrow_and_update();
        if done > last {
            last = done;
            let param = ProgressNotificationParam::new(token.clone(), done as f64);
            let param = match total {
                Some(total) => param.with_total(total as f64),
                None => param,
            };
            if peer.notify_progress(param).await.is_err() {
                return;
            }
        }
        // The client has learned how far the call came, also if it ended soon after the notification before.
        if !is_running {
            return;
        }
        ended.run_until_cancelled(tokio::time::sleep(PROGRESS_INTERVAL)).await;
    }
}
