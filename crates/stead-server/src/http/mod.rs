//! MCP over HTTP: who is let in, and where they come to.

mod authenticate;
mod conditional_body;
mod connection_limiter;
mod host_policy;
mod listen;
mod responses;
mod routes;

pub use host_policy::PublicUrl;
pub use listen::{HttpOptions, serve};
