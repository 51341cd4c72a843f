//! The MCP server: how agents reach their steads, over stdio and Streamable HTTP.
//!
//! Who is calling follows from the connection alone. It decides which stead a call is made in, and a stead decides the
//! rest; nothing that a client sends can change that. The tools live in the core and know nothing of MCP, and
//! the types of the MCP library stay inside the module `mcp`.

mod http;
mod in_place;
mod limits;
mod mcp;
mod metrics;
mod questions;
mod run;
mod served;
mod signals;
mod stdio;
mod steads;
mod turns;
mod watching;

pub use http::{HttpOptions, PublicUrl, serve};
pub use limits::ServerLimits;
pub use run::{run_http, run_stdio};
pub use served::LiveStead;
pub use signals::ShutdownSignals;
pub use stdio::{serve_stdio, serve_stream};
pub use steads::SteadRegistry;
