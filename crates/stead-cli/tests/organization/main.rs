//! Organizations end to end: through the real binary, the MCP server and the mount, and in one process where many
//! combinations are tried.
//!
//! The names of tests begin with the numbers of the lines of the specification that they prove.
#![allow(clippy::unwrap_used)]

mod changing_records;
/// The client of another test, which uses more of it.
#[path = "../many_agents/connection.rs"]
#[allow(dead_code)]
mod connection;
mod matrix;
/// Shared with another test.
#[path = "../shared/mounted.rs"]
mod mounted;
mod mounts;
mod office;
mod properties;
mod scenarios;
mod two_organizations;
mod unreadable;
mod whitelists;
