//! The MCP server: agents reach their steads over stdio or Streamable HTTP.
//!
//! The connection alone decides the caller's identity, and the identity decides which stead a call uses. Nothing that a
//! client sends can change that, and this crate makes no access decision. The tools live in the core and know nothing
//! of MCP; the types of the MCP library stay inside the module `mcp`.
//!
//! ```no_run
//! use std::sync::Arc;
//! use stead::{Config, Identity};
//! use stead_server::{ServerLimits, SteadRegistry, run_stdio};
//!
//! let config = Config::discover(None)?;
//! let steads = Arc::new(SteadRegistry::of(&config, ServerLimits::default()));
//! // Serves the agent's stead on standard input and output until the client goes away.
//! run_stdio(&steads, &Identity::agent("coder"))?;
//! # Ok::<(), stead::Error>(())
//! ```

// These panic if the output is closed; `print_to_stderr` doesn't.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod call_scheduler;
mod config_watcher;
mod http;
mod hygiene;
mod in_place;
mod limits;
mod live_stead;
mod managed_watcher;
mod mcp;
mod metrics;
mod pending_approvals;
mod run;
mod signals;
mod stderr;
mod stdio;
mod stead_registry;

pub use http::{HttpOptions, PublicUrl, serve};
pub use limits::ServerLimits;
pub use live_stead::LiveStead;
pub use run::{run_http, run_stdio};
pub use signals::ShutdownSignals;
pub use stderr::print_to_stderr;
pub use stdio::{serve_stdio, serve_stream};
pub use stead_registry::SteadRegistry;
