//! The routes: `/mcp`, `/healthz`, `/metrics`, and the OAuth metadata that clients read before they have a token.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use parking_lot::Mutex;
use serde_json::Value;
use stead::{Clock, Identity, SystemClock, Tokens};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::authenticate::{AuthError, Caller, authenticate};
use super::conditional_body::ConditionalBody;
use super::connection_limiter::ConnectionSlot;
use super::host_policy::HostPolicy;
use super::listen::HttpOptions;
use super::responses::{self, HttpResponse};
use super::session_threads::SessionThreads;
use crate::in_place::in_place;
use crate::limits::MAX_MESSAGE_BYTES;
use crate::mcp::{Endpoint, EndpointOutcome, MessageHead, RequestKind, SESSION_HEADER};
use crate::metrics::Metrics;
use crate::stead_registry::SteadRegistry;

/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// How many steads are opened at a time, at most one per identity. Each holds a thread.
const MAX_OPENING_STEADS: usize = 8;
/// How many bytes of messages all identities together may have in flight, and how many one of them. Messages up to
/// [`SMALL_MESSAGE`] bytes are not counted.
const MAX_BYTES_IN_FLIGHT: usize = 128 << 20;
const MAX_BYTES_IN_FLIGHT_PER_IDENTITY: usize = 48 << 20;
pub(super) const SMALL_MESSAGE: usize = 64 << 10;

/// The endpoint of one identity. Requests that come while it is opened wait for it without a thread.
pub(super) struct EndpointSlot {
    pub(super) endpoint: OnceCell<Arc<Endpoint>>,
    last_used: Mutex<Instant>,
}

impl Default for EndpointSlot {
    fn default() -> Self {
        EndpointSlot { endpoint: OnceCell::new(), last_used: Mutex::new(Instant::now()) }
    }
}

/// Everything that is needed to answer requests.
pub(super) struct Routes {
    host_policy: HostPolicy,
    pub(super) registry: Arc<SteadRegistry>,
    tokens: Arc<Tokens>,
    local_agent: Option<String>,
    local_thread: Option<String>,
    pub(super) endpoints: Mutex<HashMap<Identity, Arc<EndpointSlot>>>,
    pub(super) session_threads: Arc<SessionThreads>,
    open_limit: Semaphore,
    /// The free part of [`MAX_BYTES_IN_FLIGHT`], in KiB.
    message_budget: Semaphore,
    shutdown: CancellationToken,
}

impl Routes {
    pub(super) fn new(
        registry: Arc<SteadRegistry>,
        tokens: Arc<Tokens>,
        options: HttpOptions,
        shutdown: CancellationToken,
    ) -> Self {
        let host_policy = HostPolicy::new(options.public_url);
        Routes {
            host_policy,
            registry,
            tokens,
            local_agent: options.agent,
            local_thread: options.thread,
            endpoints: Mutex::default(),
            session_threads: Arc::default(),
            open_limit: Semaphore::new(MAX_OPENING_STEADS),
            message_budget: Semaphore::new(MAX_BYTES_IN_FLIGHT >> 10),
            shutdown,
        }
    }

    pub(super) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(self.registry.metrics())
    }

    /// Answers a request. `client_address` is the client's address, and `local_address` is the address that it
    /// connected to.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        (client_address, local_address): (IpAddr, IpAddr),
        slot: &ConnectionSlot,
    ) -> HttpResponse {
        let reply = match self.host_policy.check(request.headers(), request.uri(), local_address) {
            Ok(base_url) => self.route(request, client_address, &base_url, slot).await,
            Err(rejection) => responses::host_rejected(rejection),
        };
        self.registry.metrics().count_reply(reply.status().as_u16());
        reply
    }

    async fn route(
        &self,
        request: Request<Incoming>,
        client_address: IpAddr,
        base_url: &str,
        slot: &ConnectionSlot,
    ) -> HttpResponse {
        match (request.uri().path(), request.method()) {
            ("/mcp", _) => match self.authenticate(&request, client_address) {
                Ok(caller) => {
                    slot.mark_authenticated();
                    self.handle_mcp(request, caller).await
                }
                Err(error) => responses::auth_rejected(&error, base_url),
            },
            (
                "/.well-known/oauth-protected-resource" | "/.well-known/oauth-protected-resource/mcp",
                &Method::GET,
            ) => responses::metadata(base_url),
            ("/healthz", &Method::GET | &Method::HEAD) => responses::text("ok\n"),
            ("/metrics", &Method::GET) => match self.authorize_metrics(&request, client_address) {
                Ok(()) => responses::text(self.registry.metrics().to_prometheus(self.session_count().await)),
                Err(error) => responses::auth_rejected(&error, base_url),
            },
            ("/healthz" | "/metrics", _) => {
                let sentence = "only GET is allowed here";
                let mut reply =
                    responses::refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", sentence);
                reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
                reply
            }
            _ => responses::refusal(
                StatusCode::NOT_FOUND,
                "not_found",
                "there is nothing here; MCP is at /mcp",
            ),
        }
    }

    fn authenticate(&self, request: &Request<Incoming>, client_address: IpAddr) -> Result<Caller, AuthError> {
        let config = self.registry.config();
        let agent = self.local_agent.as_deref();
        let mut caller = authenticate(request.headers(), client_address, &self.tokens, &config, agent)?;
        if caller.token.is_none() {
            caller.identity.thread = self.local_thread.clone();
        }
        Ok(caller)
    }

    /// Metrics are for callers on this machine, and for callers with a valid token.
    fn authorize_metrics(
        &self,
        request: &Request<Incoming>,
        client_address: IpAddr,
    ) -> Result<(), AuthError> {
        match self.authenticate(request, client_address) {
            Err(AuthError::MissingToken | AuthError::AmbiguousAgent(_) | AuthError::NoAgent)
                if super::authenticate::is_local(request.headers(), client_address) =>
            {
                Ok(())
            }
            result => result.map(|_| ()),
        }
    }

    async fn session_count(&self) -> usize {
        let slots: Vec<_> = self.endpoints.lock().values().cloned().collect();
        let mut sessions = 0;
        for endpoint in slots.iter().filter_map(|slot| slot.endpoint.get()) {
            sessions += endpoint.session_count().await;
        }
        sessions
    }

    /// Drops endpoints without sessions that no request has used for so long. The registry then evicts their steads.
    pub(super) async fn evict_idle(&self, timeout: Duration) {
        let idle = |slot: &EndpointSlot| slot.last_used.lock().elapsed() >= timeout;
        let slots: Vec<_> = {
            let endpoints = self.endpoints.lock();
            let idle = endpoints.iter().filter(|(_, slot)| idle(slot));
            idle.map(|(identity, slot)| (identity.clone(), Arc::clone(slot))).collect()
        };
        for (identity, slot) in slots {
            let Some(endpoint) = slot.endpoint.get() else { continue };
            if endpoint.session_count().await > 0 {
                continue;
            }
            let mut endpoints = self.endpoints.lock();
            // Only the map and this function have it, so no request uses it, and none can begin to.
            if idle(&slot) && Arc::strong_count(&slot) == 2 && Arc::strong_count(endpoint) == 1 {
                endpoints.remove(&identity);
            }
        }
    }

    async fn handle_mcp(&self, request: Request<Incoming>, caller: Caller) -> HttpResponse {
        if self.sessions_are_threads(&caller.identity) {
            return self.handle_in_session(request, caller).await;
        }
        let in_session = match request.headers().contains_key(SESSION_HEADER) {
            true => InSession::Yes,
            false => InSession::No,
        };
        match self.endpoint(&caller.identity, in_session).await {
            Ok(endpoint) => self.handle_at(&endpoint, request, caller).await,
            Err(error) => responses::endpoint_unavailable(&error),
        }
    }

    /// Answers a request at the endpoint of its identity.
    pub(super) async fn handle_at(
        &self,
        endpoint: &Endpoint,
        request: Request<Incoming>,
        caller: Caller,
    ) -> HttpResponse {
        let reserved =
            tokio::time::timeout(BODY_TIMEOUT, self.reserve_message_budget(endpoint, request.body())).await;
        let Ok(_reserved) = reserved else {
            return responses::service_unavailable(
                "too many large messages are being received; send this one again later",
            );
        };
        match read_request(request, MAX_MESSAGE_BYTES).await {
            Ok((request, info)) => self.answer_at(endpoint, request, info, caller).await,
            Err(reply) => *reply,
        }
    }

    /// Answers a request that was read.
    pub(super) async fn answer_at(
        &self,
        endpoint: &Endpoint,
        mut request: Request<Full<Bytes>>,
        info: RequestInfo,
        caller: Caller,
    ) -> HttpResponse {
        if let Some(token) = &caller.token {
            request.extensions_mut().insert(token.results);
        }
        match endpoint.handle(request, info.kind).await {
            // JSON that isn't an MCP message has the right media type: the answer must say what is wrong with the
            // message.
            EndpointOutcome::Answered(reply)
                if info.is_json && reply.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE =>
            {
                info.rejection
            }
            EndpointOutcome::Answered(reply) => self.end_when_access_is_lost(reply, info.id, caller),
            EndpointOutcome::UnknownSession => responses::unknown_session(),
            EndpointOutcome::TooManySessions => responses::too_many_sessions(),
        }
    }

    /// Waits until there is room for a message: first in the budget of its identity, then in that of all identities.
    async fn reserve_message_budget<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        body: &Incoming,
    ) -> [Option<SemaphorePermit<'a>>; 2] {
        // A body without a length may be as long as the limit.
        let length = body.size_hint().exact().unwrap_or(MAX_MESSAGE_BYTES as u64);
        let length = usize::try_from(length).unwrap_or(MAX_MESSAGE_BYTES).min(MAX_MESSAGE_BYTES);
        if length <= SMALL_MESSAGE {
            return [None, None];
        }
        let kib = u32::try_from(length.div_ceil(1 << 10)).expect("a message's length fits into 32 bits");
        let identity_permit = endpoint.message_budget().acquire_many(kib).await.ok();
        [identity_permit, self.message_budget.acquire_many(kib).await.ok()]
    }

    /// The endpoint of an identity. Opens it if needed.
    pub(super) async fn endpoint(
        &self,
        identity: &Identity,
        in_session: InSession,
    ) -> stead::Result<Arc<Endpoint>> {
        let (slot, _ended) = {
            let mut endpoints = self.endpoints.lock();
            let known = endpoints.get(identity).and_then(|slot| slot.endpoint.get());
            // One request is told that the thread has ended. After that, the thread is a new one. A request without a session has
            // nothing that could have ended, unless it was on its way meanwhile.
            let is_over = known.is_some_and(|endpoint| {
                endpoint.end_was_reported() || in_session == InSession::No && endpoint.was_ended_here()
            });
            let ended = if is_over { endpoints.remove(identity) } else { None };
            (Arc::clone(endpoints.entry(identity.clone()).or_default()), ended)
        };
        *slot.last_used.lock() = Instant::now();
        let open = async || {
            let _opening = self.open_limit.acquire().await;
            let live_stead = in_place(|| {
                if in_session == InSession::No {
                    self.registry.drop_ended(identity);
                }
                self.registry.get(identity)
            });
            let live_stead = live_stead.await?;
            let (shutdown, lifetime) = (self.shutdown.child_token(), self.session_lifetime(identity));
            Ok(Arc::new(Endpoint::new(live_stead, MAX_BYTES_IN_FLIGHT_PER_IDENTITY, lifetime, shutdown)))
        };
        let opened = slot.endpoint.get_or_try_init(open).await.cloned();
        if opened.is_err() {
            // Names of threads are free, so failures must not pile up.
            let mut endpoints = self.endpoints.lock();
            if endpoints.get(identity).is_some_and(|known| known.endpoint.get().is_none()) {
                endpoints.remove(identity);
            }
        }
        opened
    }

    /// Makes a stream end when its caller would be refused: its agent has lost access, its token isn't valid any more, or
    /// it has no token and tokens are needed now. The request with this id still gets an answer.
    fn end_when_access_is_lost(
        &self,
        reply: HttpResponse,
        id: Option<Value>,
        caller: Caller,
    ) -> HttpResponse {
        let is_stream = reply.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
        if !is_stream {
            return reply;
        }
        let (registry, tokens) = (Arc::clone(&self.registry), Arc::clone(&self.tokens));
        let has_access = move || {
            registry.has_access(&caller.identity.agent)
                && match &caller.token {
                    Some(token) => tokens.is_still_valid(token, SystemClock.now()),
                    None => tokens.was_any_created().is_ok_and(|was_any_created| !was_any_created),
                }
        };
        let refusal = id.map(|id| responses::access_lost_event(&id));
        reply.map(|body| ConditionalBody::new(body, refusal, has_access).boxed())
    }
}

/// Whether a request belongs to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InSession {
    Yes,
    No,
}

/// What has to be known of a request before the MCP library gets it.
pub(super) struct RequestInfo {
    pub(super) kind: RequestKind,
    is_json: bool,
    /// The id of a request.
    pub(super) id: Option<Value>,
    /// The response if the body is JSON, but not a message.
    rejection: HttpResponse,
}

/// Reads the body of a request. Refuses it if it is larger than `max_bytes`, incomplete, too slow or, in a POST, not JSON.
pub(super) async fn read_request(
    request: Request<Incoming>,
    max_bytes: usize,
) -> Result<(Request<Full<Bytes>>, RequestInfo), Box<HttpResponse>> {
    let (parts, body) = request.into_parts();
    let too_large = || {
        let sentence = format!(
            "a message can have at most {} MiB; write a larger file in parts with append_file",
            MAX_MESSAGE_BYTES >> 20
        );
        Box::new(responses::refusal(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &sentence))
    };
    let body = match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, max_bytes).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large()),
        Ok(Err(_)) => {
            return Err(Box::new(responses::refusal(
                StatusCode::BAD_REQUEST,
                "invalid",
                "the message is incomplete",
            )));
        }
        Err(_) => {
            let sentence = "the message took too long to arrive";
            return Err(Box::new(responses::refusal(StatusCode::REQUEST_TIMEOUT, "timeout", sentence)));
        }
    };
    let head = match parts.method {
        Method::POST => {
            MessageHead::parse(&body).map_err(|error| Box::new(responses::invalid_message(&error, None)))?
        }
        _ => MessageHead::default(),
    };
    let id = head.id.as_ref().map(|id| id.clone().into_json_value());
    let info = RequestInfo {
        kind: if head.is_initialize() { RequestKind::Initialize } else { RequestKind::Other },
        rejection: responses::invalid_message(&head.error(), id.clone()),
        id,
        is_json: parts
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")),
    };
    Ok((Request::from_parts(parts, Full::new(body)), info))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stead::Config;

    use super::*;
    use crate::limits::ServerLimits;

    const CONFIG: &str = "[stores.notes]\nkind = \"memory\"\n\
        [[agents.ann.workspaces]]\nprefix = \"/notes\"\nscope = \"rw\"\nstore = \"notes\"\n";

    #[tokio::test(flavor = "multi_thread")]
    async fn many_idle_identities_are_evicted_and_those_in_use_stay() {
        let host = tempfile::tempdir().unwrap();
        let config = Config::parse(CONFIG, &host.path().join("stead.toml")).unwrap();
        let registry = Arc::new(SteadRegistry::of(&config, ServerLimits::default()));
        let tokens = Arc::new(Tokens::of(&config));
        let routes = Routes::new(registry, tokens, HttpOptions::default(), CancellationToken::new());
        let identity = |number: usize| Identity::agent("ann").with_thread(number.to_string());
        let used = routes.endpoint(&identity(0), InSession::No).await.unwrap();
        for number in 1..200 {
            routes.endpoint(&identity(number), InSession::No).await.unwrap();
        }
        routes.evict_idle(Duration::from_secs(60)).await;
        assert_eq!(routes.endpoints.lock().len(), 200, "they were used a moment ago");
        routes.evict_idle(Duration::ZERO).await;
        assert_eq!(routes.endpoints.lock().keys().collect::<Vec<_>>(), [&identity(0)]);
        assert!(Arc::ptr_eq(&used, &routes.endpoint(&identity(0), InSession::No).await.unwrap()));
        assert!(routes.endpoint(&Identity::agent("eve"), InSession::No).await.is_err());
        assert_eq!(routes.endpoints.lock().len(), 1, "an endpoint that could not be opened leaves nothing");
        routes.endpoint(&identity(7), InSession::No).await.unwrap();
    }
}
