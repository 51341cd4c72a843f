//! Everything that knows the MCP library: what it asks for is answered here, out of a [`crate::Served`].

mod call;
#[cfg(feature = "conformance")]
mod conformance;
mod convert;
mod endpoint;
mod handler;
mod head;
mod id_of;
mod lines;
mod message;
mod methods;
mod notify;
mod priming;
mod question;
mod resources;
mod uri;

#[cfg(feature = "conformance")]
pub(crate) use conformance::ConformanceHandler as ActiveHandler;
pub(crate) use endpoint::{Endpoint, EndpointOutcome, RequestKind};
#[cfg(not(feature = "conformance"))]
pub(crate) use handler::McpHandler as ActiveHandler;
pub(crate) use head::{MessageError, MessageHead};
pub(crate) use lines::serve_lines;
