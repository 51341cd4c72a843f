//! What is withheld now is also withheld in the past, in forks and in copies: a nested Workspace is a barrier
//! everywhere.

#![allow(clippy::unwrap_used)]

mod common;
mod earlier_versions;
mod forks;
mod write_only;
