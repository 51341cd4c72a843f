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

/// A table on fork and merge, one on forks among more and more files, one on space, and one on forks of forks.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let parts: [fn(&Path, Effort) -> Result<Table>; 4] = [merging::run, sizes::run, space::run, depth::run];
    let mut tables = Vec::new();
    for part in parts {
        // Each part has a directory of its own, which is gone before the next one begins.
        let directory = tempfile::tempdir_in(data)?;
        tables.push(part(directory.path(), effort)?);
    }
    Ok(tables)
}
