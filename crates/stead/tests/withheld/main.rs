//! What the present withholds, the past, forks and copies withhold too: a nested Workspace is a barrier everywhere.

#![allow(clippy::unwrap_used)]

mod common;
mod forks;
mod past;
mod write_only;
