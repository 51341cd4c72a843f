//! The server as a client sees it: only through messages on the wire.
#![allow(clippy::unwrap_used)]

mod approvals;
mod bad_input;
mod client;
mod eras;
mod http;
mod long_work;
mod older_clients;
mod protocol_errors;
mod reloading;
mod resources;
mod results;
mod sessions_as_threads;
mod tools;
