//! The server as a client sees it: only through messages on the wire.
#![allow(clippy::unwrap_used)]

mod asking;
mod bad_input;
mod client;
mod eras;
mod http;
mod long_work;
mod mistakes;
mod older_clients;
mod reloading;
mod resources;
mod results;
mod tools;
