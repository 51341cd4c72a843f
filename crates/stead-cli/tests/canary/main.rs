//! Whatever an agent asks through any surface, it learns nothing of what is withheld from it.
//!
//! Every kind of withheld place contains canaries: a content, a name and a size that are nowhere else. Every tool of
//! the registry, every command of the binary, a mount and the server's resources are asked about every kind of path,
//! now and in the past. A new tool, argument or command without a row here makes a test fail.

#![allow(clippy::unwrap_used)]

mod commands;
mod fixture;
mod hidden_names;
#[path = "../shared/mounted.rs"]
mod mounted;
mod mounts;
mod resources;
mod tools;

/// Whether all combinations are tried, or only a sample of them.
fn is_long() -> bool {
    std::env::var_os("STEAD_TEST_LONG").is_some()
}
