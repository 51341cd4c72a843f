//! Documents about managed files.

use serde::Serialize;
use serde_json::Value;
use stead::managed::{CleanupRun, RepairCounts, Tags};
use stead::vfs::managed::{CategoryTree, CleanupReport, ListedFile, ListedFiles, SyncReport};
use stead::{OperationId, VfsPath};

use super::files::{Unread, unread};
use super::{time, to_value};

/// A managed file: `files info`, and each of `files list` and `files search`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManagedFile<'a> {
    path: &'a str,
    category: &'static str,
    /// The name that it was first written with.
    original_name: Option<&'a str>,
    /// Bytes.
    size: u64,
    /// The tool that wrote it last.
    source_tool: Option<&'a str>,
    tags: Vec<&'a str>,
    created_at: String,
    /// When it was last written; its time to live counts from here.
    modified_at: String,
    /// When it was last read; null if it never was.
    accessed_at: Option<String>,
    /// The session that created it: `AGENT` or `AGENT/THREAD`.
    session: Option<&'a str>,
}

/// A page of managed files: `files list` and `files search`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManagedFiles<'a> {
    files: Vec<ManagedFile<'a>>,
    offset: u64,
    /// How many files there are, as far as they were counted.
    total: u64,
    /// Whether there are more than `total`.
    total_is_more: bool,
    /// What could not be read, if the list needed a sync: files that have no entry yet may be there.
    unread: Vec<Unread<'a>>,
}

/// A change of a managed file: `files move`, `files delete` and `files tag`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManagedChange<'a> {
    path: &'a str,
    /// The operation of the change; null if no file was changed.
    operation: Option<String>,
    /// The tags that the file has now; null unless they were changed.
    tags: Option<Vec<&'a str>>,
}

/// A directory with managed files: `files tree`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManagedDirectory<'a> {
    name: &'a str,
    files: u64,
    bytes: u64,
    directories: Vec<ManagedDirectory<'a>>,
}

/// The directories of a managed Workspace: `files tree`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManagedTree<'a> {
    workspace: &'a str,
    categories: Vec<ManagedDirectory<'a>>,
    /// What could not be read, so that files may be missing from the numbers.
    unread: Vec<Unread<'a>>,
}

/// What sync changed: `files sync`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManagedSync<'a> {
    workspace: &'a str,
    added: u64,
    removed: u64,
    resized: u64,
    /// What could not be read. The entries of files there stay as they are.
    unread: Vec<Unread<'a>>,
}

/// A cleanup: `files cleanup`, and `files cleanup --status`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Cleanup<'a> {
    workspace: &'a str,
    /// When it began.
    at: &'a str,
    /// Whether it only says what would be removed.
    dry_run: bool,
    removed: u64,
    bytes: u64,
    /// How many entries were removed whose files were gone already.
    stale: u64,
    errors: &'a [String],
    /// What could not be read, and why.
    unread: &'a [String],
    /// The operation that removed the files; null if none was removed.
    operation: Option<&'a str>,
    /// How many of the removed files can't be brought back, because their content isn't kept.
    not_kept: u64,
    /// For the status, if that run has removed no file: the last one that has. Otherwise null.
    last_removal: Option<CleanupRemoval<'a>>,
    /// The paths of the removed files: the first 1,000 of them, or for the status the first ten, relative to the Workspace.
    paths: Vec<&'a str>,
}

/// A cleanup that has removed files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CleanupRemoval<'a> {
    /// When it began.
    at: &'a str,
    removed: u64,
    /// The operation that removed the files.
    operation: &'a str,
}

fn file(ListedFile { path, file, .. }: &ListedFile) -> ManagedFile<'_> {
    ManagedFile {
        path: path.as_str(),
        category: file.category.as_str(),
        original_name: file.original_name.as_deref(),
        size: file.size,
        source_tool: file.source_tool.as_deref(),
        tags: file.tags.iter().collect(),
        created_at: file.created_at.to_string(),
        modified_at: file.modified_at.to_string(),
        accessed_at: time(file.accessed_at),
        session: file.session_key.as_deref(),
    }
}

/// One managed file.
pub(crate) fn managed_file(listed: &ListedFile) -> Value {
    to_value(&file(listed))
}

/// A page of managed files.
pub(crate) fn managed_files(listed: &ListedFiles) -> Value {
    to_value(&ManagedFiles {
        files: listed.files.iter().map(file).collect(),
        offset: listed.offset,
        total: listed.total.count,
        total_is_more: listed.total.is_more,
        unread: unread(&listed.unreadable),
    })
}

/// A change of a managed file.
pub(crate) fn managed_change(path: &VfsPath, operation: Option<OperationId>, tags: Option<&Tags>) -> Value {
    let operation = operation.map(|operation| operation.to_string());
    to_value(&ManagedChange { path: path.as_str(), operation, tags: tags.map(|tags| tags.iter().collect()) })
}

/// The directories of a managed Workspace.
pub(crate) fn managed_tree(workspace: &VfsPath, tree: &[CategoryTree]) -> Value {
    let categories = tree.iter().map(|category| ManagedDirectory {
        name: category.category.as_str(),
        files: category.files,
        bytes: category.bytes,
        directories: category
            .directories
            .iter()
            .map(|day| ManagedDirectory {
                name: &day.name,
                files: day.files,
                bytes: day.bytes,
                directories: Vec::new(),
            })
            .collect(),
    });
    let unread = tree.iter().flat_map(|category| unread(&category.unreadable)).collect();
    to_value(&ManagedTree { workspace: workspace.as_str(), categories: categories.collect(), unread })
}

/// What sync changed.
pub(crate) fn managed_sync(workspace: &VfsPath, report: &SyncReport) -> Value {
    let (RepairCounts { added, removed, resized }, workspace) = (report.counts, workspace.as_str());
    to_value(&ManagedSync { workspace, added, removed, resized, unread: unread(&report.unreadable) })
}

/// What a cleanup did, or would do.
pub(crate) fn cleanup(workspace: &VfsPath, report: &CleanupReport, dry_run: bool) -> Value {
    let paths = report.paths.iter().map(VfsPath::as_str).collect();
    to_value(&cleanup_document(workspace, &report.run, dry_run, paths))
}

/// How the last cleanup went; null if there was none.
pub(crate) fn cleanup_status(workspace: &VfsPath, run: Option<&CleanupRun>) -> Value {
    run.map_or(Value::Null, |run| {
        to_value(&cleanup_document(workspace, run, false, run.paths.iter().map(String::as_str).collect()))
    })
}

fn cleanup_document<'a>(
    workspace: &'a VfsPath,
    run: &'a CleanupRun,
    dry_run: bool,
    paths: Vec<&'a str>,
) -> Cleanup<'a> {
    Cleanup {
        workspace: workspace.as_str(),
        at: &run.at,
        dry_run,
        removed: run.removed,
        bytes: run.bytes,
        stale: run.stale,
        errors: &run.errors,
        unread: &run.unread,
        operation: run.operation.as_deref(),
        not_kept: run.not_kept,
        last_removal: run.last_removal.as_ref().map(|last| CleanupRemoval {
            at: &last.at,
            removed: last.removed,
            operation: &last.operation,
        }),
        paths,
    }
}
