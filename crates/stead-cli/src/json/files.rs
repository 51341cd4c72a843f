//! Documents about files and directories.

use serde::Serialize;
use serde_json::Value;
use stead::edit;
use stead::search;
use stead::transfer;
use stead::vfs;

use super::{base64, mode, time, to_value, version, version_tag};

/// An entry of a directory.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Entry {
    name: String,
    /// `file`, `directory`, `symlink`, `fifo`, `socket` or `device`.
    kind: &'static str,
    /// Bytes of a file; 0 for anything else.
    size: u64,
    /// Permission bits in octal.
    mode: String,
    modified: Option<String>,
    version_tag: Option<String>,
    /// The Access Scope, if the entry is a Workspace.
    workspace: Option<&'static str>,
}

/// A directory: `ls`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Listing {
    path: String,
    entries: Vec<Entry>,
    /// How many entries the directory has.
    total: u64,
    /// What to pass as --cursor for the next page; null after the last one.
    cursor: Option<String>,
}

/// A node found by a walk or a glob.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PathEntry<'a> {
    path: &'a str,
    kind: &'static str,
    size: u64,
    mode: String,
    modified: Option<String>,
    version_tag: Option<String>,
}

/// Everything below a directory, or what matches a pattern: `ls -R`, `glob` and `tree`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Walk<'a> {
    /// The top directory; only of `tree`.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    entries: Vec<PathEntry<'a>>,
    /// Whether there are more entries than the limit.
    truncated: bool,
    /// What could not be read.
    unread: Vec<Unread<'a>>,
    left_out: LeftOut,
}

/// What was left out because of ignore files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LeftOut {
    /// Whether something that an ignore file names was left out.
    ignored: bool,
    /// Whether a `.git` was left out.
    git: bool,
}

/// A place that could not be read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Unread<'a> {
    path: &'a str,
    reason: &'a str,
}

/// The metadata of a path: `stat`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Stat {
    /// With symlinks resolved.
    path: String,
    kind: &'static str,
    size: u64,
    mode: String,
    created: Option<String>,
    modified: Option<String>,
    version_tag: Option<String>,
    /// The media type, guessed from the name.
    mime: Option<&'static str>,
    /// The Access Scope of the Workspace that the path is in.
    scope: Option<&'static str>,
}

/// The content of a file: `cat`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Content {
    path: String,
    content: String,
    /// `utf-8`, or `base64` if the content isn't text.
    encoding: &'static str,
    /// The size of the whole file in bytes.
    size: u64,
    version_tag: String,
    /// Where lines were asked for: which were returned.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    lines: Option<LinePage>,
}

/// Which lines of a file were returned.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LinePage {
    /// The number of the first line returned.
    first_line: u64,
    /// How many lines were returned.
    lines: u64,
    /// How many lines the file has; null if its end was not reached.
    total_lines: Option<u64>,
    /// The line to continue with; null at the end.
    next_offset: Option<u64>,
    /// The byte to continue with, if a line was too long to be returned whole.
    next_byte_offset: Option<u64>,
}

/// The result of a write: `write`, `append`, `edit` and `mkdir`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WriteResult {
    path: String,
    /// Whether it is new; null where that isn't disclosed.
    created: Option<bool>,
    version_tag: Option<String>,
    version: Option<i64>,
    operation: String,
    /// How many old files were too large to be kept, so that this can't be undone for them; left out if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_kept: Option<u64>,
    /// How many replacements `edit` made.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<usize>,
    /// The lines that `edit` changed, where the caller may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    excerpt: Option<Excerpt>,
}

/// Lines of a file after an edit: the changed ones and two around them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Excerpt {
    lines: Vec<ExcerptLine>,
    /// Whether every changed place is among them.
    complete: bool,
}

/// One line of a file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ExcerptLine {
    number: u64,
    /// The text without its line ending; a long one is cut.
    text: String,
}

/// The result of a copy or a move: `cp` and `mv`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CopyResult {
    from: String,
    to: String,
    /// How many hidden names were left out.
    hidden: u64,
    version_tag: Option<String>,
    version: Option<i64>,
    operation: String,
    /// How many old files were too large to be kept, so that this can't be undone for them; left out if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_kept: Option<u64>,
}

/// The result of `rm`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RemoveResult {
    path: String,
    version: Option<i64>,
    operation: String,
    /// How many old files were too large to be kept, so that this can't be undone for them; left out if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_kept: Option<u64>,
}

/// What `import` and `export` did.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TransferTotals {
    /// Files that were written.
    files: u64,
    /// Bytes that were written.
    bytes: u64,
    directories: u64,
    symlinks: u64,
    /// Files and symlinks that were there already.
    unchanged: u64,
    /// What can't be transferred, such as sockets.
    skipped: u64,
    /// What agents may not change.
    protected: u64,
    /// What is hidden from the agent.
    hidden: u64,
    /// What should have been transferred and could not be.
    refused: u64,
}

/// An entry of a directory.
fn entry(entry: &vfs::DirEntry) -> Entry {
    Entry {
        name: entry.name.to_string(),
        kind: entry.kind.as_str(),
        size: entry.size,
        mode: mode(entry.mode),
        modified: time(entry.modified),
        version_tag: version_tag(entry.tag),
        workspace: entry.workspace.map(|scope| scope.name()),
    }
}

/// A directory.
pub(crate) fn listing(listing: &vfs::DirectoryListing) -> Value {
    to_value(&Listing {
        path: listing.path.to_string(),
        entries: listing.entries.iter().map(entry).collect(),
        total: listing.total,
        cursor: listing.cursor.clone(),
    })
}

fn walk_entry(entry: &vfs::PathEntry) -> PathEntry<'_> {
    PathEntry {
        path: &entry.path,
        kind: entry.kind.as_str(),
        size: entry.size,
        mode: mode(entry.mode),
        modified: time(entry.modified),
        version_tag: version_tag(entry.tag),
    }
}

pub(super) fn unread(unreadable: &[vfs::Unreadable]) -> Vec<Unread<'_>> {
    unreadable.iter().map(|vfs::Unreadable { path, reason }| Unread { path, reason }).collect()
}

/// The places that could not be read.
pub(crate) fn unreadable(unreadable: &[vfs::Unreadable]) -> Value {
    to_value(&unread(unreadable))
}

/// What a walk found; `path` is its top directory.
pub(crate) fn walk(
    path: Option<&str>,
    entries: &[vfs::PathEntry],
    truncated: bool,
    unreadable: &[vfs::Unreadable],
    left_out: search::LeftOut,
) -> Value {
    let entries = entries.iter().map(walk_entry).collect();
    let left_out = LeftOut { ignored: left_out.ignored, git: left_out.git };
    to_value(&Walk { path, entries, truncated, unread: unread(unreadable), left_out })
}

/// What a walk or a search left out because it is ignored.
pub(crate) fn left_out(left_out: search::LeftOut) -> Value {
    to_value(&LeftOut { ignored: left_out.ignored, git: left_out.git })
}

/// The metadata of a path.
pub(crate) fn stat(stat: &vfs::Stat) -> Value {
    to_value(&Stat {
        path: stat.path.to_string(),
        kind: stat.kind.as_str(),
        size: stat.size,
        mode: mode(stat.mode),
        created: time(stat.created),
        modified: time(stat.modified),
        version_tag: version_tag(stat.tag),
        mime: stat.mime,
        scope: stat.scope.map(|scope| scope.name()),
    })
}

/// A file, or a range of its bytes.
pub(crate) fn content(read: vfs::BytesRead) -> Value {
    let (encoding, content) = match String::from_utf8(read.bytes) {
        Ok(text) => ("utf-8", text),
        Err(binary) => ("base64", base64(binary.as_bytes())),
    };
    to_value(&Content {
        path: read.path.to_string(),
        content,
        encoding,
        size: read.size,
        version_tag: read.tag.to_string(),
        lines: None,
    })
}

/// Lines of a file.
pub(crate) fn lines(read: vfs::TextRead) -> Value {
    let (total_lines, next_offset, next_byte_offset) = match read.continuation {
        vfs::Continuation::End { lines } => (Some(lines), None, None),
        vfs::Continuation::More { next } => (None, Some(next), None),
        vfs::Continuation::Cut { at } => (None, None, Some(at)),
    };
    let page =
        LinePage { first_line: read.first, lines: read.count, total_lines, next_offset, next_byte_offset };
    to_value(&Content {
        path: read.path.to_string(),
        content: read.text,
        encoding: "utf-8",
        size: read.size,
        version_tag: read.tag.to_string(),
        lines: Some(page),
    })
}

fn write_document(result: &vfs::WriteResult) -> WriteResult {
    WriteResult {
        path: result.path.to_string(),
        created: result.created,
        version_tag: version_tag(result.tag),
        version: version(result.revision),
        operation: result.operation.to_string(),
        not_kept: not_kept(result.not_kept),
        replaced: None,
        excerpt: None,
    }
}

/// The result of a write.
pub(crate) fn write_result(result: &vfs::WriteResult) -> Value {
    to_value(&write_document(result))
}

/// The result of an edit.
pub(crate) fn edit_result(result: &vfs::EditResult) -> Value {
    let excerpt = result.excerpt.as_ref().map(|excerpt| {
        let line = |line: &edit::ExcerptLine| ExcerptLine { number: line.number, text: line.text.clone() };
        Excerpt { lines: excerpt.lines.iter().map(line).collect(), complete: excerpt.is_complete }
    });
    to_value(&WriteResult { replaced: Some(result.replaced), excerpt, ..write_document(&result.written) })
}

/// The result of a copy or a move.
pub(crate) fn copy_result(result: &vfs::CopyResult) -> Value {
    to_value(&CopyResult {
        from: result.from.to_string(),
        to: result.to.to_string(),
        hidden: result.hidden,
        version_tag: version_tag(result.tag),
        version: version(result.revision),
        operation: result.operation.to_string(),
        not_kept: not_kept(result.not_kept),
    })
}

/// The result of a removal.
pub(crate) fn remove_result(result: &vfs::RemoveResult) -> Value {
    to_value(&RemoveResult {
        path: result.path.to_string(),
        version: version(result.revision),
        operation: result.operation.to_string(),
        not_kept: not_kept(result.not_kept),
    })
}

fn not_kept(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

impl TransferTotals {
    pub(super) fn of(totals: &transfer::TransferTotals) -> Self {
        TransferTotals {
            files: totals.files,
            bytes: totals.bytes,
            directories: totals.directories,
            symlinks: totals.symlinks,
            unchanged: totals.unchanged,
            skipped: totals.skipped,
            protected: totals.protected,
            hidden: totals.hidden,
            refused: totals.refused,
        }
    }
}

/// What an import or an export did.
pub(crate) fn transfer_totals(totals: &transfer::TransferTotals) -> Value {
    to_value(&TransferTotals::of(totals))
}
