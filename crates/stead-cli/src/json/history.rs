//! Documents about history, snapshots and forks.

use serde::Serialize;
use serde_json::Value;
use stead::history::diff::ContentDiff;
use stead::vfs;

use super::{mode, texts, time, to_value, version};
use crate::commands::difference::line_counts;

/// A change and its operation: a line of `log`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LogEntry<'a> {
    version: i64,
    operation: Operation<'a>,
    changes: Vec<LogChange>,
    /// The operations that the change undid.
    undoes: Vec<String>,
    /// Whether the operation has been undone.
    undone: bool,
    /// The fork that the operation merged: OWNER/FORK.
    #[serde(skip_serializing_if = "Option::is_none")]
    merged_fork: Option<&'a str>,
    /// What the change did to the contents; only with --patch and --stat.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<Difference<'a>>>,
}

/// Who did something, with which tool and when.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Operation<'a> {
    id: String,
    agent: &'a str,
    thread: Option<&'a str>,
    tool: &'a str,
    at: String,
}

/// What a change did to one path.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LogChange {
    path: String,
    /// The path before, if it was moved.
    from: Option<String>,
    /// `created`, `written`, `moved`, `attributes` or `removed`.
    action: &'static str,
    kind: &'static str,
    size: u64,
}

/// One path that differs between two versions: a line of `diff`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Difference<'a> {
    path: String,
    /// The path before, if it was moved.
    from: Option<String>,
    /// `added`, `changed`, `moved` or `removed`.
    difference: &'static str,
    kind: &'static str,
    /// The modes before and after in octal, if they differ.
    modes: Option<[String; 2]>,
    /// The sizes before and after in bytes.
    sizes: [u64; 2],
    /// Whether the contents were compared and aren't text.
    binary: bool,
    /// How many lines were added; null if contents weren't compared by line.
    insertions: Option<u64>,
    /// How many lines were removed; null if contents weren't compared by line.
    deletions: Option<u64>,
    /// The hunks, as `diff -u` writes them.
    diff: Option<&'a str>,
}

/// A snapshot: `snapshot`, and a line of `snapshots`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Snapshot<'a> {
    id: i64,
    label: Option<&'a str>,
    /// The Workspace; null for all Workspaces.
    prefix: Option<&'a str>,
    version: i64,
    at: String,
    /// The Workspaces that it doesn't include; only of `snapshot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<Vec<String>>,
}

/// What `undo` or `restore` did, or would do.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RevertResult<'a> {
    /// Whether the changes were made.
    done: bool,
    dry_run: bool,
    /// The operation that made them; null if nothing was changed.
    operation: Option<String>,
    /// The operations that were undone as a whole.
    undone: Vec<Operation<'a>>,
    /// The operations of which something stays as it is.
    incomplete: Vec<IncompleteUndo<'a>>,
    changes: Vec<PathChange>,
    /// Paths that stay as they are because they have been changed since.
    conflicts: Vec<PathConflict<'a>>,
    /// Paths that a restore leaves as they are.
    omitted: Vec<PathConflict<'a>>,
}

/// An operation of which an undo leaves something as it is.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct IncompleteUndo<'a> {
    operation: Operation<'a>,
    /// Whether the undo changes something of it all the same.
    partial: bool,
}

/// What an undo or a restore does to one path.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PathChange {
    path: String,
    /// The path before, if it is moved.
    from: Option<String>,
    /// `restored`, `reverted`, `merged`, `moved`, `attributes` or `removed`.
    action: String,
}

/// A path that stays as it is.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PathConflict<'a> {
    path: String,
    /// The reason, as a sentence.
    why: &'a str,
}

/// A line of a file, and who wrote it: a line of `blame`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct BlameLine<'a> {
    line: usize,
    text: String,
    version: Option<i64>,
    operation: Option<Operation<'a>>,
    by_another_program: bool,
}

/// A fork: `fork`, and a line of `forks`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Fork<'a> {
    fork: &'a str,
    /// Where its owner sees it.
    path: String,
    owner: &'a str,
    created_by: &'a str,
    created: Option<String>,
    /// The Workspace that it was made from.
    base: String,
    /// The nested Workspaces that were forked with it.
    parts: Vec<ForkPart>,
    /// Paths in it that were separate Workspaces, and aren't part of it.
    omitted: Vec<String>,
    /// Whether its owner doesn't see it, because its maker can't read the base any more.
    withheld: bool,
}

/// A nested Workspace that was forked with the Workspace around it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ForkPart {
    /// Where it is in the fork.
    path: String,
    /// `READ_ONLY` or `READ_WRITE`.
    scope: &'static str,
    /// The Workspace that it was made from.
    base: String,
}

/// The result of `discard`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Discarded<'a> {
    discarded: &'a str,
}

/// Whether the hunks of a difference are part of its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hunks {
    Included,
    LeftOut,
}

fn operation_document(operation: &stead::Operation) -> Operation<'_> {
    Operation {
        id: operation.id.to_string(),
        agent: &operation.identity.agent,
        thread: operation.identity.thread.as_deref(),
        tool: &operation.tool,
        at: operation.at.to_string(),
    }
}

/// A change and its operation, and what it changed in the contents if that was asked for.
pub(crate) fn log_entry(entry: &vfs::LogEntry, differences: Option<Hunks>) -> Value {
    let change = |change: &vfs::LogChange| LogChange {
        path: change.path.to_string(),
        from: change.from.as_ref().map(ToString::to_string),
        action: change.action.as_str(),
        kind: change.kind.as_str(),
        size: change.size,
    };
    let differences = differences.map(|hunks| {
        entry.differences.iter().map(|difference| difference_document(difference, hunks)).collect()
    });
    to_value(&LogEntry {
        version: entry.revision.number.0,
        operation: operation_document(&entry.operation),
        changes: entry.changes.iter().map(change).collect(),
        undoes: texts(&entry.undoes),
        undone: entry.undone,
        merged_fork: entry.merged_fork.as_deref(),
        differences,
    })
}

fn difference_document(difference: &vfs::Difference, hunks: Hunks) -> Difference<'_> {
    let counts = line_counts(difference);
    let diff = match &difference.content {
        Some(ContentDiff::Text(text)) if hunks == Hunks::Included => Some(text.as_str()),
        _ => None,
    };
    Difference {
        path: difference.path.to_string(),
        from: difference.from.as_ref().map(ToString::to_string),
        difference: difference.difference.as_str(),
        kind: difference.kind.as_str(),
        modes: difference.modes.map(|(before, after)| [mode(before), mode(after)]),
        sizes: [difference.sizes.0, difference.sizes.1],
        binary: difference.content == Some(ContentDiff::Binary),
        insertions: counts.map(|counts| counts.0),
        deletions: counts.map(|counts| counts.1),
        diff,
    }
}

/// One difference between two versions.
pub(crate) fn difference(difference: &vfs::Difference, hunks: Hunks) -> Value {
    to_value(&difference_document(difference, hunks))
}

fn snapshot_document(snapshot: &stead::Snapshot, omitted: Option<Vec<String>>) -> Value {
    to_value(&Snapshot {
        id: snapshot.id,
        label: snapshot.label.as_deref(),
        prefix: snapshot.prefix.as_deref(),
        version: snapshot.revision.0,
        at: snapshot.at.to_string(),
        omitted,
    })
}

/// A snapshot.
pub(crate) fn snapshot(snapshot: &stead::Snapshot) -> Value {
    snapshot_document(snapshot, None)
}

/// A snapshot that was just made, and the Workspaces that it doesn't include.
pub(crate) fn new_snapshot(snapshot: &stead::Snapshot, omitted: &[stead::VfsPath]) -> Value {
    snapshot_document(snapshot, Some(texts(omitted)))
}

/// The result of an undo or a restore, or of its dry run.
pub(crate) fn revert_result(result: &vfs::RevertResult, dry_run: bool) -> Value {
    let change = |change: &vfs::PathChange| PathChange {
        path: change.path.to_string(),
        from: change.from.as_ref().map(ToString::to_string),
        action: format!("{:?}", change.action).to_lowercase(),
    };
    to_value(&RevertResult {
        done: result.done,
        dry_run,
        operation: result.operation.map(|id| id.to_string()),
        undone: result.undone.iter().map(operation_document).collect(),
        incomplete: result.incomplete.iter().map(incomplete_undo).collect(),
        changes: result.changes.iter().map(change).collect(),
        conflicts: conflicts(&result.conflicts),
        omitted: conflicts(&result.left_out),
    })
}

fn incomplete_undo(undo: &vfs::IncompleteUndo) -> IncompleteUndo<'_> {
    IncompleteUndo { operation: operation_document(&undo.operation), partial: undo.is_partial }
}

fn conflicts(conflicts: &[vfs::PathConflict]) -> Vec<PathConflict<'_>> {
    conflicts
        .iter()
        .map(|conflict| PathConflict { path: conflict.path.to_string(), why: &conflict.why })
        .collect()
}

/// A line of a file, and the operation that wrote it.
pub(crate) fn blame_line(number: usize, line: &vfs::BlameLine) -> Value {
    to_value(&BlameLine {
        line: number,
        text: String::from_utf8_lossy(&line.line).into_owned(),
        version: version(line.revision),
        operation: line.operation.as_ref().map(operation_document),
        by_another_program: line.by_another_program,
    })
}

/// A fork.
pub(crate) fn fork(fork: &stead::Fork, withheld: bool) -> Value {
    to_value(&Fork {
        fork: fork.name.as_str(),
        path: format!("/forks/{}", fork.name),
        owner: &fork.owner,
        created_by: &fork.created_by,
        created: time(Some(fork.created)),
        base: fork.base_prefix.to_string(),
        parts: fork.parts.iter().map(fork_part).collect(),
        omitted: texts(&fork.excluded),
        withheld,
    })
}

fn fork_part(part: &stead::ForkPart) -> ForkPart {
    ForkPart { path: part.place.to_string(), scope: part.scope.name(), base: part.base_prefix.to_string() }
}

/// A fork that was discarded.
pub(crate) fn discarded(fork: &str) -> Value {
    to_value(&Discarded { discarded: fork })
}
