//! MCP over HTTP: who is let in, and where they come to.

mod doors;
mod guests;
mod listen;
mod replies;
mod routes;
mod until;
mod who;

pub use doors::PublicUrl;
pub use listen::{HttpOptions, serve};
