//! One call into the core: it has a place, a time limit and somebody who waits for it, and it can't take the server
//! along when it breaks.

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

/// How often a client is told how far a call has come.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Why there is no answer of the core's.
pub(super) enum McpCallError {
    /// The call was not made, or not to its end.
    Refused(Failure),
    /// It broke.
    Panicked,
    /// Nobody waits for it any more.
    Cancelled,
}

impl From<McpCallError> for ErrorData {
    fn from(broken: McpCallError) -> Self {
        match broken {
            McpCallError::Refused(failure) => super::convert::error(&failure),
            McpCallError::Panicked => ErrorData::internal_error(
                "something inside the server broke during this call; it may be worth another try, and a report",
                None,
            ),
            McpCallError::Cancelled => ErrorData::internal_error("the call was cancelled", None),
        }
    }
}

/// Makes a call: on this thread, as the core is synchronous, among the calls that the identity may make at a time.
pub(super) async fn run_call<T>(
    served: &LiveStead,
    context: &RequestContext<RoleServer>,
    act: impl FnOnce(&SteadView, &Arc<dyn CallMonitor>) -> T,
) -> Result<T, McpCallError> {
    let _place = tokio::select! {
        place = served.acquire_call_slot() => place.map_err(McpCallError::Refused)?,
        () = context.ct.cancelled() => return Err(McpCallError::Cancelled),
    };
    let progress =
        context.meta.get_progress_token().map(|token| ProgressReporter::begin(token, &context.peer));
    let waiting: Arc<dyn CallMonitor> = Arc::new(RequestMonitor {
        cancelled: context.ct.clone(),
        deadline: Instant::now() + served.limits().call_timeout,
        progress: progress.as_ref().map(|progress| progress.progress.clone()),
    });
    let now = served.current();
    // The tool's world is the Stores behind the door, and they stay whole whatever happens to one who calls them.
    let act = AssertUnwindSafe(|| act(&now, &waiting));
    let made = tokio::task::block_in_place(|| catch_unwind(act));
    drop(waiting);
    if let Some(progress) = progress {
        progress.end().await;
    }
    made.map_err(|_| McpCallError::Panicked)
}

/// Who waits for a call.
#[derive(Debug)]
struct RequestMonitor {
    cancelled: CancellationToken,
    deadline: Instant,
    progress: Option<watch::Sender<(u64, Option<u64>)>>,
}

impl CallMonitor for RequestMonitor {
    fn progress(&self, done: u64, total: Option<u64>) {
        if let Some(come) = &self.progress {
            come.send_replace((done, total));
        }
    }

    fn stop_reason(&self) -> Option<StopReason> {
        if self.cancelled.is_cancelled() {
            return Some(StopReason::Cancelled);
        }
        (Instant::now() > self.deadline).then_some(StopReason::TimedOut)
    }
}

/// Tells a client how far a call has come, until it has come to its end.
struct ProgressReporter {
    progress: watch::Sender<(u64, Option<u64>)>,
    ended: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl ProgressReporter {
    fn begin(token: ProgressToken, peer: &Peer<RoleServer>) -> Self {
        let (progress, seen) = watch::channel((0, None));
        let ended = CancellationToken::new();
        let task = tokio::spawn(send_progress(seen, token, peer.clone(), ended.clone()));
        ProgressReporter { progress, ended, task }
    }

    /// Nothing is told after the answer.
    async fn end(self) {
        self.ended.cancel();
        let _ = self.task.await;
    }
}

async fn send_progress(
    mut seen: watch::Receiver<(u64, Option<u64>)>,
    token: ProgressToken,
    peer: Peer<RoleServer>,
    ended: CancellationToken,
) {
    // What is told always grows, as the protocol wants it.
    let mut last = 0;
    while ended.run_until_cancelled(seen.changed()).await.is_some_and(|changed| changed.is_ok()) {
        let (done, total) = *seen.borrow_and_update();
        if done <= last {
            continue;
        }
        last = done;
        let param = ProgressNotificationParam::new(token.clone(), done as f64);
        let param = match total {
            Some(total) => param.with_total(total as f64),
            None => param,
        };
        if peer.notify_progress(param).await.is_err() {
            return;
        }
        ended.run_until_cancelled(tokio::time::sleep(PROGRESS_INTERVAL)).await;
    }
}
