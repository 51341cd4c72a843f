//! Forks and merges of a code base, beside `git worktree add` and `git merge` of the same changes.
//!
//! Forks are made through a `Stead`, as an agent makes them: with the checks of its Workspaces, and with an audit record.

mod code_base;
mod depth;
mod forkable;
mod git;
mod merging;
mod sizes;
mod space;
mod stead_side;

use std::path::Path;

use crate::Result;
use crate::case::Effort;
use crate::table::Table;

/// A row per step of fork and merge.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![merging::run(data, effort)?])
}

/// Making a fork among more and more files.
pub fn run_sizes(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![sizes::run(data, effort)?])
}

/// The space of many forks.
pub fn run_space(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![space::run(data, effort)?])
}

/// Reading in forks of forks.
pub fn run_depth(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![depth::run(data, effort)?])
}
