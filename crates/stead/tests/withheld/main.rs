//! What is withheld now is also withheld in the past, in forks and in copies: a nested Workspace is a barrier
//! everywhere.

#![allow(clippy::unwrap_used)]

mod common;
mod forks;
mod past;
mod write_only;
