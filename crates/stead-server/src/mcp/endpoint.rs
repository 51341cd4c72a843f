//! Streamable HTTP for one identity.
//!
//! Each identity has an endpoint with sessions of its own, so a session id is worth nothing to another identity. From
//! 2026-07-28 on there are no sessions. Before that, they carry the messages that the server sends on its own
//! initiative.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{ActiveHandler, priming};
use crate::limits::MAX_MESSAGE_BYTES;
use crate::live_stead::LiveStead;

/// How long a session without any traffic stays open.
pub(crate) const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The header with the id of a session.
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";

/// The outcome of a request.
pub(crate) enum EndpointOutcome {
    /// The request was answered.
    Answered(Response<BoxBody<Bytes, Infallible>>),
    /// This identity has no such session.
    UnknownSession,
    /// The identity has as many sessions as it may have.
    TooManySessions,
}

/// Whether a request is `initialize`: that one counts against the limit of sessions, and its answer gets no priming event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// It is.
    Initialize,
    /// It is anything else.
    Other,
}

/// The MCP endpoint of one identity.
pub(crate) struct Endpoint {
    live_stead: Arc<LiveStead>,
    sessions: Arc<LocalSessionManager>,
    service: StreamableHttpService<ActiveHandler, LocalSessionManager>,
    message_budget: Semaphore,
}

impl Endpoint {
    /// Creates an endpoint. `max_message_bytes` is how many bytes of large messages may be in flight, and `session_lifetime`
    /// how long a session without any traffic stays open. Cancelling `shutdown` ends its sessions and streams.
    pub(crate) fn new(
        live_stead: Arc<LiveStead>,
        max_message_bytes: usize,
        session_lifetime: Duration,
        shutdown: CancellationToken,
    ) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(session_lifetime);
        let sessions = Arc::new(sessions);
        // Host and Origin were checked before, for every route.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
            .with_cancellation_token(shutdown);
        let handler_stead = Arc::clone(&live_stead);
        let new_handler = move || Ok(ActiveHandler::new(Arc::clone(&handler_stead)));
        Endpoint {
            live_stead,
            service: StreamableHttpService::new(new_handler, Arc::clone(&sessions), config),
            sessions,
            message_budget: Semaphore::new(max_message_bytes >> 10),
        }
    }

    /// The budget for this identity's messages, in KiB.
    pub(crate) fn message_budget(&self) -> &Semaphore {
        &self.message_budget
    }

    /// Whether the thread that its stead is of has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.live_stead.thread_has_ended()
    }

    /// Whether this process has ended that thread.
    pub(crate) fn was_ended_here(&self) -> bool {
        self.live_stead.thread_was_ended_here()
    }

    /// Whether a call has failed because that thread has ended.
    pub(crate) fn end_was_reported(&self) -> bool {
        self.live_stead.thread_end_was_reported()
    }

    /// How many sessions are open.
    pub(crate) async fn session_count(&self) -> usize {
        self.sessions.sessions.read().await.len()
    }

    /// Answers a request.
    pub(crate) async fn handle(&self, request: Request<Full<Bytes>>, kind: RequestKind) -> EndpointOutcome {
        let session = request.headers().get(SESSION_HEADER).map(|id| id.to_str().unwrap_or_default());
        if let Some(id) = session
            && request.method() == Method::DELETE
            && !self.sessions.has_session(&id.into()).await.unwrap_or(false)
        {
            return EndpointOutcome::UnknownSession;
        }
        if kind == RequestKind::Initialize
            && self.session_count().await >= self.live_stead.limits().sessions_per_identity
        {
            return EndpointOutcome::TooManySessions;
        }
        let is_delete = request.method() == Method::DELETE;
        // `initialize` has no header with the protocol version, and its answer is never resumed.
        let without_priming =
            kind == RequestKind::Initialize || priming::is_unsupported_by(request.headers());
        let mut response = self.service.handle(request).await;
        if without_priming {
            response = priming::remove_priming(response);
        }
        if is_delete && response.status() == StatusCode::ACCEPTED {
            // The session has ended already. Clients take any status but 204 for a failure to end it.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        EndpointOutcome::Answered(response)
    }
}
