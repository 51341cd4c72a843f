//! Requests of agents for which each session is a thread (`thread = "session"`).

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use hyper::body::{Body, Incoming};
use stead::config::ThreadSource;
use stead::{Identity, generate_thread_name};

use super::authenticate::Caller;
use super::responses::{self, HttpResponse};
use super::routes::{InSession, Routes, SMALL_MESSAGE, read_request};
use crate::in_place::in_place;
use crate::mcp::{Endpoint, RequestKind, SESSION_HEADER, SESSION_IDLE_TIMEOUT, session_needed};

impl Routes {
    /// Whether each session of this caller is a thread of its own: its agent's configuration says so, and its token has no
    /// thread.
    pub(super) fn sessions_are_threads(&self, caller: &Identity) -> bool {
        // Agents of organizations have no threads of their own.
        caller.thread.is_none()
            && self.registry.config().agents.get(&caller.agent).is_some_and(|agent| {
                agent.scope.has_threads() && agent.thread_source == ThreadSource::Session
            })
    }

    /// How long a session without any traffic stays open. A session of a thread ends with the thread, not before it.
    pub(super) fn session_lifetime(&self, identity: &Identity) -> Duration {
        let config = self.registry.config();
        let agent = config.agents.get(&identity.agent).filter(|agent| agent.scope.has_threads());
        SESSION_IDLE_TIMEOUT + agent.map_or(Duration::ZERO, |agent| agent.idle_timeout)
    }

    /// Answers a request of a session in the session's thread. `initialize` begins a session, and makes its thread.
    pub(super) async fn handle_in_session(&self, request: Request<Incoming>, caller: Caller) -> HttpResponse {
        let Some(session) = request.headers().get(SESSION_HEADER) else {
            return self.begin_session(request, caller).await;
        };
        let session = session.to_str().unwrap_or_default();
        let Some(identity) = self.session_threads.find(&caller.identity, session) else {
            return responses::unknown_session();
        };
        let endpoint = match self.session_endpoint(&identity) {
            Some(endpoint) if !endpoint.has_ended() => endpoint,
            // Its idle time-out has passed.
            _ => {
                self.session_threads.mark_ending(&identity);
                return responses::unknown_session();
            }
        };
        let is_delete = *request.method() == Method::DELETE;
        let reply = self.handle_at(&endpoint, request, caller).await;
        drop(endpoint);
        if is_delete && reply.status().is_success() {
            self.session_threads.mark_ending(&identity);
            self.end_session_thread(&identity).await;
        }
        reply
    }

    /// Begins a session, with a thread of its own. Refuses every other request.
    async fn begin_session(&self, request: Request<Incoming>, caller: Caller) -> HttpResponse {
        let needed = session_needed(&caller.identity.agent, request.headers());
        // `initialize` is a small message, and no other is of use here.
        if request.body().size_hint().lower() > SMALL_MESSAGE as u64 {
            return responses::request_refused(&needed, None);
        }
        let (request, info) = match read_request(request, SMALL_MESSAGE).await {
            Ok(read) => read,
            Err(reply) => return *reply,
        };
        if info.kind != RequestKind::Initialize {
            return responses::request_refused(&needed, info.id);
        }
        let name = match generate_thread_name("session") {
            Ok(name) => name,
            Err(error) => return responses::service_unavailable(&error.to_string()),
        };
        let limit = self.registry.limits().sessions_per_identity;
        let identity = caller.identity.clone().with_thread(name);
        // If the client goes away before it has its session, the thread has to end.
        let Some(session) = self.session_threads.begin(&caller.identity, identity, limit) else {
            return responses::too_many_sessions();
        };
        let endpoint = match self.endpoint(&session.identity, InSession::Yes).await {
            Ok(endpoint) => endpoint,
            Err(error) => return responses::endpoint_unavailable(&error),
        };
        let reply = self.answer_at(&endpoint, request, info, caller).await;
        if let Some(id) = reply.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok()) {
            session.begun(id);
        }
        reply
    }

    /// The endpoint of a session's thread. It isn't opened again: the thread would be a new one.
    fn session_endpoint(&self, identity: &Identity) -> Option<Arc<Endpoint>> {
        self.endpoints.lock().get(identity)?.endpoint.get().cloned()
    }

    /// Ends the threads whose sessions have ended, and forgets those that have ended by themselves.
    pub(super) async fn end_session_threads(&self) {
        for (identity, is_ending) in self.session_threads.all() {
            let has_ended = match self.session_endpoint(&identity) {
                Some(endpoint) => endpoint.has_ended() || endpoint.session_count().await == 0,
                None => true,
            };
            if is_ending || has_ended {
                self.session_threads.mark_ending(&identity);
                self.end_session_thread(&identity).await;
            }
        }
    }

    /// Ends the thread of a session. If it can't end now, because a call still runs in it, the next check tries again.
    async fn end_session_thread(&self, identity: &Identity) {
        let slot = self.endpoints.lock().remove(identity);
        drop(slot);
        if in_place(|| self.registry.end_thread(identity)).await.is_ok() {
            self.session_threads.remove(identity);
        }
    }
}
