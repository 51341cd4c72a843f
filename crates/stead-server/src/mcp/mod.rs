//! Everything that uses the MCP library. It answers requests with the [`crate::LiveStead`] of the caller's identity.

mod call;
mod client_subscriptions;
#[cfg(feature = "conformance")]
mod conformance;
mod convert;
mod elicitation;
mod endpoint;
mod handler;
mod line_transport;
mod message;
mod message_head;
mod methods;
mod priming;
mod request_id_scanner;
mod resources;
mod session_needed;
mod uri;

#[cfg(feature = "conformance")]
pub(crate) use conformance::ConformanceHandler as ActiveHandler;
pub(crate) use endpoint::{Endpoint, EndpointOutcome, RequestKind, SESSION_HEADER, SESSION_IDLE_TIMEOUT};
#[cfg(not(feature = "conformance"))]
pub(crate) use handler::McpHandler as ActiveHandler;
pub(crate) use line_transport::serve_lines;
pub(crate) use message_head::{MessageError, MessageHead};
pub(crate) use session_needed::{RequestRefusal, session_needed};
