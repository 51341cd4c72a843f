//! MCP over HTTP: listening, the checks of host and token, and the routes. The MCP protocol itself is in `mcp`.

mod authenticate;
mod conditional_body;
mod connection_limiter;
mod host_policy;
mod listen;
mod responses;
mod routes;
mod session_requests;
mod session_threads;

pub use host_policy::PublicUrl;
pub use listen::{HttpOptions, serve};
