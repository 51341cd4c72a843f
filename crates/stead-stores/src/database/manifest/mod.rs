//! The manifests of managed directories: rows about files, written with the changes of the files.
//!
//! A Store says what a change does to files as [`FileEffect`]s, and this module makes them rows of `workspace_files`, in the
//! change's own transaction. What a row was before goes to `workspace_file_history`. Earlier versions and undo read it there, and
//! a change of a Physical Store that is rolled back gets it back.

mod base_moves;
mod effect;
mod forked;
mod query;
mod returning;
mod roots;
mod rows;
mod scan;
mod touches;
mod undone_tags;

pub(crate) use effect::{FileEffect, StepEffect};
pub(crate) use query::SqlManifest;
pub(crate) use roots::{ManagedRoots, forget_roots_below, remove_rows_of};
pub(crate) use rows::{ManifestChange, RolledBackRows, roll_back_rows};
pub(crate) use touches::PendingTouches;

/// The two parts of a subtree: the path itself (`?2`), and what is below it (from `?3` to before `?4`). A statement for each of them
/// uses the index; SQLite reads all rows of a Workspace for a DELETE with both.
const SUBTREE: [&str; 2] = ["path = ?2", "path >= ?3 AND path < ?4"];

/// The columns that a row and its history share, in the order of both tables.
const COLUMNS: &str = "id, workspace, path, category, original_name, size_bytes, source_tool, tags, created_at, modified_at, \
                       accessed_at, session_key, since";
