//! The server as a client meets it: messages over a wire, and nothing else.
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
