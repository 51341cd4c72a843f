//! Listening, and one connection after the other.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use stead::Tokens;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::connection_limiter::{ConnectionLimiter, ConnectionSlot};
use super::host_policy::PublicUrl;
use super::routes::Routes;
use crate::config_watcher::keep_current;
use crate::in_place::in_place;
use crate::stead_registry::SteadRegistry;

/// How many connections there are at a time. Further ones take the place of those that nobody was let in by, or wait.
const MAX_CONNECTIONS: usize = 1_024;
/// How long the head of a request may take.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long requests that are under way have time to end when the server does.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// How often is written down when tokens were last used.
const TOKEN_USE_INTERVAL: Duration = Duration::from_secs(60);

/// How a server is reached.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// The agent that this machine's own clients are, for as long as there are no tokens; otherwise the only one.
    pub agent: Option<String>,
    /// The URL by which it is known outside.
    pub public_url: Option<PublicUrl>,
}

/// Serves clients that come over HTTP, until `over` is cancelled.
///
/// It has to run inside a multi-threaded runtime: calls are made on its workers.
pub async fn serve(
    listener: std::net::TcpListener,
    steads: Arc<SteadRegistry>,
    options: HttpOptions,
    over: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let tokens = Arc::new(Tokens::of(&steads.config()));
    // Requests that are under way when it is over get their answers; what has no end is cut after that.
    let cut = CancellationToken::new();
    let _cut = cut.clone().drop_guard();
    let routes = Arc::new(Routes::new(steads.clone(), tokens.clone(), options, cut));
    let current = tokio::spawn(keep_current(steads));
    let uses = tokio::spawn(save_token_uses(tokens.clone()));
    let guests = ConnectionLimiter::new(MAX_CONNECTIONS);
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let guest = guests.admit().await;
                    tokio::spawn(serve_connection(stream, from, Arc::clone(&routes), over.clone(), guest));
                }
                // The host is short of something; it may have it again in a moment.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    over.run_until_cancelled(accept).await;
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, guests.wait_until_empty(MAX_CONNECTIONS)).await;
    current.abort();
    uses.abort();
    // What was used in the last minute is worth a try.
    let _ = tokio::task::block_in_place(|| tokens.save_last_used());
    Ok(())
}

async fn serve_connection(
    stream: TcpStream,
    from: SocketAddr,
    routes: Arc<Routes>,
    over: CancellationToken,
    guest: ConnectionSlot,
) {
    // Otherwise an answer in pieces waits for the client's acknowledgement: 44 ms for nothing.
    let _ = stream.set_nodelay(true);
    // Nobody has come if that can't be told.
    let Ok(at) = stream.local_addr() else { return };
    let metrics = routes.metrics();
    metrics.connection_opened();
    let service = service_fn(|request| {
        let (routes, guest) = (Arc::clone(&routes), &guest);
        async move {
            let ends = (from.ip(), at.ip());
            Ok::<_, std::convert::Infallible>(routes.answer(request, ends, guest).await)
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = std::pin::pin!(served);
    tokio::select! {
        // A connection that breaks is the client's trouble, and it knows.
        _ = served.as_mut() => {}
        () = guest.evicted() => {}
        () = over.cancelled() => {
            served.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, served).await;
        }
    }
    metrics.connection_closed();
}

async fn save_token_uses(tokens: Arc<Tokens>) {
    loop {
        tokio::time::sleep(TOKEN_USE_INTERVAL).await;
        // What can't be written down now is lost: it is for people to look at, and nothing depends on it.
        let _ = in_place(|| tokens.save_last_used()).await;
    }
}
