//! Accepts connections and serves HTTP/1 on each of them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use stead::Tokens;
use stead::live_steads::IDLE_TIMEOUT;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::connection_limiter::{ConnectionLimiter, ConnectionSlot};
use super::host_policy::PublicUrl;
use super::routes::Routes;
use crate::config_watcher::watch_config;
use crate::in_place::in_place;
use crate::stead_registry::SteadRegistry;

/// How many connections are open at a time. A further one replaces the oldest unauthenticated one, or waits.
const MAX_CONNECTIONS: usize = 1_024;
/// How long a client may take to send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long running requests may take to end when the server shuts down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the last use of each token is saved.
const TOKEN_USE_INTERVAL: Duration = Duration::from_secs(60);
/// How often endpoints are looked for that nobody has used for [`IDLE_TIMEOUT`].
const EVICTION_INTERVAL: Duration = Duration::from_secs(60);
/// How often sessions are looked for that have ended and whose threads have to end with them.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Options of the HTTP server.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// The agent that clients on this machine are, while no tokens exist. `None`: the only configured agent.
    pub agent: Option<String>,
    /// The thread in which these clients work.
    pub thread: Option<String>,
    /// The URL at which the server is reached from outside.
    pub public_url: Option<PublicUrl>,
}

/// Serves clients over HTTP, until `shutdown` is cancelled.
///
/// Must run inside a multi-threaded runtime: calls run on its workers.
pub async fn serve(
    listener: std::net::TcpListener,
    steads: Arc<SteadRegistry>,
    options: HttpOptions,
    shutdown: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let tokens = Arc::new(Tokens::of(&steads.config()));
    // When `shutdown` is cancelled, running requests still get their answers; endless streams are cut after that.
    let stream_shutdown = CancellationToken::new();
    let _stream_shutdown = stream_shutdown.clone().drop_guard();
    let routes = Arc::new(Routes::new(steads.clone(), tokens.clone(), options, stream_shutdown));
    let config_watch = tokio::spawn(watch_config(steads));
    let token_saver = tokio::spawn(save_token_uses(tokens.clone()));
    let evictions = tokio::spawn(evict_idle_endpoints(Arc::clone(&routes)));
    let session_ends = tokio::spawn(end_session_threads(Arc::clone(&routes)));
    let limiter = ConnectionLimiter::new(MAX_CONNECTIONS);
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, client_address)) => {
                    let slot = limiter.admit().await;
                    tokio::spawn(serve_connection(
                        stream,
                        client_address,
                        Arc::clone(&routes),
                        shutdown.clone(),
                        slot,
                    ));
                }
                // The host is out of something, such as file descriptors, and may have it again in a moment.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    shutdown.run_until_cancelled(accept).await;
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, limiter.wait_until_empty(MAX_CONNECTIONS)).await;
    config_watch.abort();
    token_saver.abort();
    evictions.abort();
    session_ends.abort();
    // Saves the uses of the last minute. A failure is ignored.
    let _ = tokio::task::block_in_place(|| tokens.save_last_used());
    Ok(())
}

/// Drops endpoints that nobody has used for a while. Never returns.
async fn evict_idle_endpoints(routes: Arc<Routes>) {
    loop {
        tokio::time::sleep(EVICTION_INTERVAL).await;
        routes.evict_idle(IDLE_TIMEOUT).await;
    }
}

/// Ends the threads whose sessions have ended. Never returns.
async fn end_session_threads(routes: Arc<Routes>) {
    loop {
        tokio::time::sleep(SESSION_CHECK_INTERVAL).await;
        routes.end_session_threads().await;
    }
}

async fn serve_connection(
    stream: TcpStream,
    client_address: SocketAddr,
    routes: Arc<Routes>,
    shutdown: CancellationToken,
    slot: ConnectionSlot,
) {
    // With Nagle's algorithm, an answer in pieces waits for the client's acknowledgement: 44 ms for nothing.
    let _ = stream.set_nodelay(true);
    // Without its local address, the connection is broken already.
    let Ok(local_address) = stream.local_addr() else { return };
    let metrics = routes.metrics();
    metrics.connection_opened();
    let service = service_fn(|request| {
        let (routes, slot) = (Arc::clone(&routes), &slot);
        async move {
            let addresses = (client_address.ip(), local_address.ip());
            Ok::<_, std::convert::Infallible>(routes.answer(request, addresses, slot).await)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // An error of the connection is ignored: the client sees it too.
        _ = connection.as_mut() => {}
        () = slot.evicted() => {}
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, connection).await;
        }
    }
    metrics.connection_closed();
}

async fn save_token_uses(tokens: Arc<Tokens>) {
    loop {
        tokio::time::sleep(TOKEN_USE_INTERVAL).await;
        // What can't be saved now is tried again next time. The uses are shown to people only; nothing depends on them.
        let _ = in_place(|| tokens.save_last_used()).await;
    }
}
