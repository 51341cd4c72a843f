//! Blocking entry points, for callers without a Tokio runtime: each builds a runtime and serves until the process ends.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use stead::Identity;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::http::{HttpOptions, serve};
use crate::signals::ShutdownSignals;
use crate::stdio;
use crate::stead_registry::SteadRegistry;

/// Threads beyond those that run calls and those that answer requests: for opening steads, reloading the configuration
/// and saving when tokens were last used.
const SPARE_THREADS: usize = 12;
/// How long running calls may take to end after the server has stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves one identity over standard input and output, until the client closes its end or a signal asks the process to
/// end. If the agent works in threads, no idle time-out ends its thread meanwhile.
pub fn run_stdio(steads: &Arc<SteadRegistry>, identity: &Identity) -> stead::Result<()> {
    let live_stead = steads.get(identity)?;
    let _in_use = live_stead.keep_in_use()?;
    let runtime = build_runtime(live_stead.limits().calls_per_identity).map_err(start_error)?;
    let steads = Arc::clone(steads);
    let result = runtime.block_on(async move {
        let mut signals = ShutdownSignals::new()?;
        let config_watch = tokio::spawn(crate::config_watcher::watch_config(steads));
        let result = tokio::select! {
            result = stdio::serve_stdio(live_stead) => result,
            () = signals.recv() => Ok(()),
        };
        config_watch.abort();
        result
    });
    // Calls that still run can't be answered any more. Everything else drops its Stores here, and the last one to drop
    // a Store syncs what the Store hasn't synced yet. If the process ends before that, the next process does it.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
        .map_err(|cause| stead::Error::Host { what: "standard input and output can't be used".into(), cause })
}

/// Serves over HTTP until a signal asks the process to end. Calls `ready` with the bound address once it listens.
pub fn run_http(
    listen: SocketAddr,
    steads: &Arc<SteadRegistry>,
    options: HttpOptions,
    ready: impl FnOnce(SocketAddr),
) -> stead::Result<()> {
    let listen_error = |cause| stead::Error::Host { what: format!("can't listen on `{listen}`"), cause };
    let listener = TcpListener::bind(listen).map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let runtime = build_runtime(steads.limits().running_calls).map_err(start_error)?;
    let steads = Arc::clone(steads);
    runtime.block_on(async move {
        let shutdown = CancellationToken::new();
        let (mut signals, on_signal) = (ShutdownSignals::new().map_err(listen_error)?, shutdown.clone());
        tokio::spawn(async move {
            signals.recv().await;
            on_signal.cancel();
        });
        ready(address);
        let hygiene = tokio::spawn(crate::hygiene::run_hygiene(Arc::clone(&steads)));
        let _hygiene = AbortOnDrop(hygiene);
        let watcher = tokio::spawn(crate::managed_watcher::watch_managed(Arc::clone(&steads)));
        let _watcher = AbortOnDrop(watcher);
        serve(listener, steads, options, shutdown).await.map_err(listen_error)
    })?;
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    Ok(())
}

/// Ends a task together with the server.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Builds a runtime that can run `calls` calls at a time.
fn build_runtime(calls: usize) -> io::Result<Runtime> {
    let workers = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    // `block_in_place` turns a worker into a blocking thread, and another thread has to take over as worker. So there
    // must be more threads than calls: otherwise no request would be answered until a call ends.
    Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(calls + workers + SPARE_THREADS)
        .enable_all()
        .thread_name("stead")
        .build()
}

fn start_error(cause: io::Error) -> stead::Error {
    stead::Error::Host { what: "the server can't be started".into(), cause }
}
