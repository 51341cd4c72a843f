//! The documents of merges and updates of forks.

use serde::Serialize;
use serde_json::Value;
use stead::vfs;

use super::{base64, texts, to_value};

/// The result of `merge` and `update`, or of their dry run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MergeResult<'a> {
    fork: &'a str,
    /// Whether it was really done.
    done: bool,
    dry_run: bool,
    /// The operation that did it; null if nothing was changed.
    operation: Option<String>,
    changes: Vec<MergeChange>,
    /// The managed files whose tags were changed, or would be.
    retagged: Vec<String>,
    conflicts: Vec<MergeConflict<'a>>,
    /// The paths that the agent may not change.
    refused: Vec<RefusedPath<'a>>,
    /// The changed paths that were left out.
    omitted: Vec<String>,
    /// If it wasn't done: the Workspaces that were merged nevertheless, before another part of the fork could not be merged any
    /// more.
    merged: Vec<String>,
    /// Whether the fork was discarded afterwards.
    discarded: bool,
}

/// What a merge does to a path.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MergeChange {
    path: String,
    /// The path before, if it is moved.
    from: Option<String>,
    /// `added`, `changed`, `merged`, `moved`, `attributes` or `removed`.
    action: &'static str,
}

/// A path that could not be merged.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MergeConflict<'a> {
    path: String,
    /// `content`, `deleted/changed`, `added/added`, `renamed/renamed`, `name taken`, `kind`, `cycle` or `unresolved`.
    kind: &'static str,
    /// What happened.
    why: &'static str,
    base: Option<MergeSide<'a>>,
    target: Option<MergeSide<'a>>,
    fork: Option<MergeSide<'a>>,
    /// The lines in conflict.
    hunks: Vec<MergeHunk>,
    /// The merged text with markers, if it was asked for, as base64.
    marked: Option<String>,
}

/// One side of a conflict.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MergeSide<'a> {
    /// The path, relative to the Workspace.
    path: &'a str,
    kind: &'static str,
    mode: String,
    size: u64,
    /// The BLAKE3 hash of the content.
    hash: Option<&'a str>,
}

/// Lines that are in conflict, counted from 1: the first one, and the one after the last.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MergeHunk {
    base: [usize; 2],
    target: [usize; 2],
    fork: [usize; 2],
}

/// A path that the agent may not change.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RefusedPath<'a> {
    path: String,
    /// The reason, as a sentence.
    why: &'a str,
}

fn side(side: &vfs::SideState) -> MergeSide<'_> {
    MergeSide {
        path: &side.path,
        kind: side.kind.as_str(),
        mode: super::mode(side.mode),
        size: side.size,
        hash: side.hash.as_deref(),
    }
}

fn conflict(conflict: &vfs::MergeConflict) -> MergeConflict<'_> {
    let lines = |range: &std::ops::Range<usize>| [range.start, range.end];
    let hunks = conflict.hunks.iter().map(|hunk| MergeHunk {
        base: lines(&hunk.base),
        target: lines(&hunk.target),
        fork: lines(&hunk.fork),
    });
    MergeConflict {
        path: conflict.path.to_string(),
        kind: conflict.kind.as_str(),
        why: conflict.kind.explanation(),
        base: conflict.base.as_ref().map(side),
        target: conflict.target.as_ref().map(side),
        fork: conflict.fork.as_ref().map(side),
        hunks: hunks.collect(),
        marked: conflict.marked.as_deref().map(base64),
    }
}

/// The result of a merge or an update.
pub(crate) fn merge_result(result: &vfs::MergeResult, fork: &str, dry_run: bool, discarded: bool) -> Value {
    let change = |change: &vfs::MergeChange| MergeChange {
        path: change.path.to_string(),
        from: change.from.as_ref().map(ToString::to_string),
        action: change.action.as_str(),
    };
    let refused = result
        .refused
        .iter()
        .map(|refused| RefusedPath { path: refused.path.to_string(), why: &refused.why });
    to_value(&MergeResult {
        fork,
        done: result.done,
        dry_run,
        operation: result.operation.map(|id| id.to_string()),
        changes: result.changes.iter().map(change).collect(),
        retagged: result.retagged.iter().map(|file| file.path.to_string()).collect(),
        conflicts: result.conflicts.iter().map(conflict).collect(),
        refused: refused.collect(),
        omitted: texts(&result.left_out),
        merged: texts(&result.merged),
        discarded,
    })
}
