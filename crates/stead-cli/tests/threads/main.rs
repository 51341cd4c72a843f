//! Threads end to end: through the real binary, real servers and mounts.
//!
//! The names of tests begin with the numbers of the lines of the specification that they prove. The loops are short here and
//! long with `cargo xtask test --long`.
#![allow(clippy::unwrap_used)]

mod attempts;
/// The client of another test, which uses more of it.
#[path = "../many_agents/connection.rs"]
#[allow(dead_code)]
mod connection;
mod crowd;
mod host;
mod isolation;
mod leases;
mod sharing;

/// Whether the long form of the tests is wanted.
fn is_long() -> bool {
    std::env::var_os("STEAD_TEST_LONG").is_some()
}
