//! Whatever an agent asks, by whatever surface, it is told nothing of what is withheld from it.
//!
//! Canaries lie in every kind of withheld place: a content, a name and a size that are nowhere else. Every tool of the
//! registry, every command of the binary, a mount and the server's resources are asked about every kind of path, now and
//! in the past; a new tool, argument or command without a row here makes a test fail.

#![allow(clippy::unwrap_used)]

mod commands;
mod mounts;
mod resources;
mod tools;
mod twins;
mod world;

/// Whether all combinations are tried, or a sample of them.
fn is_long() -> bool {
    std::env::var_os("STEAD_TEST_LONG").is_some()
}
