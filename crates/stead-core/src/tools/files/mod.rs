//! The tools for files and directories, and the fields and replies that they share.

pub(super) mod append_file;
pub(super) mod copy_file;
pub(super) mod create_directory;
pub(super) mod delete_directory;
pub(super) mod delete_file;
pub(super) mod edit_file;
pub(super) mod glob;
pub(super) mod grep;
pub(super) mod list_directory;
pub(super) mod move_file;
pub(super) mod read_file;
pub(super) mod read_many;
pub(super) mod stat;
pub(super) mod write_file;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

use crate::identity::OperationId;
use crate::path::VfsPath;
use crate::search::{IgnoreFiles, LeftOut};
use crate::store::{RevisionId, VersionTag};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Failure, Note, Reply};
use crate::vfs::{CopyResult, Overwrite, RemoveResult, Unreadable, WriteOptions, WriteResult};

const PATH: Field = Field::required("path", FieldType::Path, "The path.");
const IF_MATCH: Field =
    Field::optional("if_match", FieldType::Tag, "Only if the file still has this version_tag.");
const SOURCE: Field = Field::required("source", FieldType::Path, "The old path.");
const DESTINATION: Field = Field::required("destination", FieldType::Path, "The new path.");
const OVERWRITE: Field = Field::optional("overwrite", FieldType::Flag, "Replace a file at the destination.");

const OUT_PATH: Field = Field::required("path", FieldType::Path, "The path, symlinks resolved.");
const OUT_TAG: Field = Field::optional(
    "version_tag",
    FieldType::Tag,
    "The file's version tag; pass it as if_match to change only this version.",
);
const OUT_SIZE: Field = Field::required("size", FieldType::integer_from(0), "The file's size in bytes.");
const OUT_VERSION: Field = Field::optional(
    "version",
    FieldType::integer_from(0),
    "The version that the change made, if the Store keeps history.",
);
const OUT_OPERATION: Field =
    Field::required("operation", FieldType::Text, "The operation of the change; pass it to undo.");
const OUT_CREATED: Field =
    Field::optional("created", FieldType::Flag, "Whether it is new; absent in a WRITE_ONLY Workspace.");
const OUT_TRUNCATED: Field =
    Field::required("truncated", FieldType::Flag, "Whether there is more than was returned.");

const OUT_NOT_KEPT: Field = Field::optional(
    "not_kept",
    FieldType::integer_from(1),
    "How many old files were too large to be kept: undo can't bring them back.",
);

/// The output fields of a write to one file.
const WRITE_OUTPUT: [Field; 6] = [OUT_PATH, OUT_CREATED, OUT_TAG, OUT_VERSION, OUT_OPERATION, OUT_NOT_KEPT];
/// The output fields of a removal.
const REMOVE_OUTPUT: [Field; 4] = [OUT_PATH, OUT_VERSION, OUT_OPERATION, OUT_NOT_KEPT];
/// The output fields of a copy or a move.
const TRANSFER_OUTPUT: [Field; 6] = [
    Field::required("source", FieldType::Path, "Where it came from, symlinks resolved."),
    Field::required("destination", FieldType::Path, "Where it is now."),
    OUT_TAG,
    OUT_VERSION,
    OUT_OPERATION,
    OUT_NOT_KEPT,
];

fn write_reply(text: String, written: &WriteResult) -> Reply {
    let reply = change_reply(text, written.path.to_string(), written.revision, written.operation);
    with_not_kept(with_tag(reply.optional_fact("created", written.created), written.tag), written.not_kept)
}

fn remove_reply(removed: &RemoveResult, target: &str) -> Reply {
    let path = removed.path.to_string();
    let text = match removed.is_disclosed {
        true => format!("Deleted {path}."),
        // In a WRITE_ONLY Workspace, the same words whatever was there, and true in each case.
        false => format!("Done: if {path} was {target} that you may delete, it is deleted now."),
    };
    with_not_kept(change_reply(text, path, removed.revision, removed.operation), removed.not_kept)
}

/// The same reply with the file's version tag, if the caller may have it.
fn with_tag(reply: Reply, tag: Option<VersionTag>) -> Reply {
    reply.optional_fact("version_tag", tag.map(String::from)).note(tag.map(|tag| Note::Tag(tag.short())))
}

/// The same reply with how many files the change replaced or removed whose content isn't kept.
fn with_not_kept(reply: Reply, not_kept: u64) -> Reply {
    let not_kept = (not_kept > 0).then_some(not_kept);
    reply.optional_fact("not_kept", not_kept).note(not_kept.map(Note::NotKept))
}

fn change_reply(text: String, path: String, revision: Option<RevisionId>, operation: OperationId) -> Reply {
    Reply::text(text)
        .fact("path", path)
        .optional_fact("version", revision.map(|revision| revision.number.0))
        .fact("operation", operation.to_string())
}

fn transfer_reply(verb: &str, copied: &CopyResult) -> Reply {
    let CopyResult { from, to, hidden, tag, revision, operation, not_kept, .. } = copied;
    let left_out = match hidden {
        0 => String::new(),
        1 => " 1 hidden name was left out.".to_owned(),
        hidden => format!(" {hidden} hidden names were left out."),
    };
    let reply = with_tag(Reply::text(format!("{verb} {from} to {to}.{left_out}")), *tag)
        .fact("source", from.to_string())
        .fact("destination", to.to_string())
        .optional_fact("version", revision.map(|revision| revision.number.0))
        .fact("operation", operation.to_string());
    with_not_kept(reply, *not_kept)
}

fn overwrite_option(arguments: &Arguments) -> Overwrite {
    if arguments.flag("overwrite") { Overwrite::Replace } else { Overwrite::Refuse }
}

fn write_options(arguments: &Arguments) -> Result<WriteOptions, Failure> {
    let options = WriteOptions::new();
    match (arguments.tag("if_match"), arguments.flag("create_only")) {
        (Some(_), true) => Err(Failure::invalid("pass `if_match` or `create_only`, not both")),
        (Some(tag), false) => Ok(options.if_match(tag)),
        (None, true) => Ok(options.create_only()),
        (None, false) => Ok(options),
    }
}

/// The decoded content to write. It is moved out of the arguments, not copied.
pub(super) fn decode_content(arguments: &mut Arguments) -> Result<Vec<u8>, Failure> {
    let text = arguments.take_text("content");
    match arguments.optional_text("encoding") {
        Some("base64") => BASE64
            .decode(text)
            .map_err(|_| Failure::invalid("`content` isn't valid base64, but `encoding` is base64")),
        _ => Ok(text.into_bytes()),
    }
}

const NO_IGNORE: Field =
    Field::optional("no_ignore", FieldType::Flag, "Also what .gitignore leaves out, and .git.");
const OUT_LEFT_OUT: Field =
    Field::optional("left_out", FieldType::Text, "What was left out because it is ignored.");

pub(super) const CONTENT: Field = Field::required("content", FieldType::Text, "The text.");
pub(super) const ENCODING_IN: Field = Field::optional(
    "encoding",
    FieldType::OneOf(&["utf-8", "base64"]),
    "Encoding of content; utf-8 if absent.",
);

/// Appends a line for each of the first few paths that couldn't be read, and one that counts the rest.
pub(in crate::tools) fn append_unreadable(lines: &mut String, unreadable: &[Unreadable]) {
    const MAX_SHOWN: usize = 5;
    for Unreadable { path, reason } in unreadable.iter().take(MAX_SHOWN) {
        lines.push_str(&format!("(could not read {path}: {reason})\n"));
    }
    if unreadable.len() > MAX_SHOWN {
        lines.push_str(&format!("(could not read {} more)\n", unreadable.len() - MAX_SHOWN));
    }
}

/// Appends a line that says what a search left out, if it left out something.
fn append_left_out(lines: &mut String, left_out: LeftOut) {
    if !left_out.is_empty() {
        lines.push_str(&format!("[left out: {left_out}; no_ignore shows all]\n"));
    }
}

/// What a search left out, as a fact.
fn left_out_fact(left_out: LeftOut) -> Option<String> {
    (!left_out.is_empty()).then(|| left_out.to_string())
}

fn ignore_files(arguments: &Arguments) -> IgnoreFiles {
    if arguments.flag("no_ignore") { IgnoreFiles::Disregarded } else { IgnoreFiles::Respected }
}

/// Appends a last line to a list that is cut: a `hint` how to get more.
fn append_more(lines: &mut String, hint: &str) {
    lines.push_str(&format!("[{}]\n", Note::More(hint.to_owned())));
}

/// The text, or `placeholder` if it is empty.
fn text_or(text: String, placeholder: &str) -> String {
    if text.is_empty() { placeholder.to_owned() } else { text }
}

fn format_bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}

/// The path to start at; `/`, which covers all Workspaces, if absent.
fn start_path(arguments: &Arguments) -> String {
    arguments.optional_text("path").map_or_else(|| VfsPath::root().to_string(), str::to_owned)
}
