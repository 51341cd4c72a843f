//! What is withheld now is also withheld in the past, in forks and in copies: a nested Workspace is a barrier
//! everywhere, and so is a hidden name.

#![allow(clippy::unwrap_used)]

mod common;
mod earlier_versions;
mod forks;
mod hidden;
mod write_only;
