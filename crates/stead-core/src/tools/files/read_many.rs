//! `read_many`: reads several text files in one call.

use serde_json::json;

use crate::error::Error;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::text_encoding::TextEncoding;
use crate::tools::page::{MAX_REPLY_BYTES, MAX_REPLY_CHARACTERS, PAGE_BYTES, ReplyBounds};
use crate::tools::reply::bracketed;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{
    Arguments, Block, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext,
};
use crate::vfs::{Continuation, LineRange};

/// The most files that one call reads.
const MAX_FILES: usize = 100;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "read_many",
    title: "Read several files",
    description: "Reads several text files in one call. Each begins with a line ==> path <==; all share 20,000 \
                  characters, and a cut file says how to continue with read_file.",
    required_access: &[Access::Read],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::required("paths", FieldType::TextList { max: MAX_FILES }, "The paths, at most 100."),
        Field::optional(
            "byte_limit",
            FieldType::Integer { min: 1, max: MAX_REPLY_BYTES as u64 },
            "At most this many bytes together.",
        ),
    ],
    output: &[Field::required(
        "files",
        FieldType::ObjectList(&[
            Field::required("path", FieldType::Path, "The path as requested."),
            Field::optional("version_tag", FieldType::Tag, "The version tag of what was read."),
            Field::optional("size", FieldType::integer_from(0), "The file's size in bytes."),
            Field::optional("truncated", FieldType::Flag, "Whether there is more than was returned."),
            Field::optional(
                "next_offset",
                FieldType::integer_from(1),
                "The offset to continue with in read_file.",
            ),
            Field::optional(
                "next_byte_offset",
                FieldType::integer_from(0),
                "The byte_offset to continue with in read_file, in a line too long for one call.",
            ),
            Field::optional(
                "file_encoding",
                FieldType::Text,
                "The encoding of a text file, if it isn't UTF-8.",
            ),
            Field::optional("error", FieldType::Text, "Why it can't be read."),
            Field::optional("code", FieldType::Text, "The error's code."),
        ]),
        "The result for each file, in the order of paths.",
    )],
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    if context.vfs.will_ask_approval() {
        // A person is asked about all files at once, before any is read. Other errors are reported file by file.
        let paths: Vec<_> = arguments.texts("paths").filter_map(|path| VfsPath::parse(path).ok()).collect();
        if let Err(error @ Error::ApprovalRequired { .. }) =
            context.vfs.request_approval(&paths, Access::Read)
        {
            return Err(error.into());
        }
    }
    let limit = arguments.number("byte_limit");
    let mut bytes_left = limit.map_or(PAGE_BYTES, |limit| limit as usize);
    let mut lines_left = ReplyBounds::for_limit(limit, PAGE_BYTES as u64).lines;
    let (mut blocks, mut files) = (Vec::new(), Vec::new());
    // About what the headings of the files that follow take.
    let mut heading_bytes_left: usize = arguments.texts("paths").map(heading_size).sum();
    for path in arguments.texts("paths") {
        heading_bytes_left -= heading_size(path);
        // With no room left, one line is still read: it shows whether the file exists and is readable.
        let range = LineRange { offset: 1, limit: lines_left.max(1) as u64, max_bytes: bytes_left.max(1) };
        match context.vfs.read_lines(path, range) {
            Ok(read) => {
                let has_room = bytes_left > 0 && lines_left > 0;
                let truncated =
                    !matches!(read.continuation, Continuation::End { .. }) || !has_room && read.size > 0;
                let text = if has_room { read.text.as_str() } else { "" };
                // A line that is too long continues at a byte offset: an offset in lines would start at its beginning
                // again.
                let (next_line, next_byte) = match read.continuation {
                    _ if !has_room => (Some(1), None),
                    Continuation::More { next: next_line } => (Some(next_line), None),
                    Continuation::Cut { at } => (None, Some(at)),
                    Continuation::End { .. } => (None, None),
                };
                let more = match (truncated, next_line, next_byte) {
                    (true, Some(next_line), _) => Some(Note::More(format!("offset {next_line}"))),
                    (true, None, Some(next_byte)) => Some(Note::More(format!("byte_offset {next_byte}"))),
                    _ => None,
                };
                let heading = format!("==> {} <==\n", read.path);
                let notes: Vec<_> = more.into_iter().chain(Note::of_encoding(read.encoding)).collect();
                blocks.push(Block::Text(format!("{heading}{}", format_file(text, &notes))));
                bytes_left = bytes_left.saturating_sub(heading.len() + text.len());
                lines_left = lines_left.saturating_sub(1 + read.count as usize);
                let mut file = json!({
                    "path": path,
                    "version_tag": String::from(read.tag),
                    "size": read.size,
                    "truncated": truncated,
                });
                if read.encoding != TextEncoding::Utf8 {
                    file["file_encoding"] = read.encoding.to_string().into();
                }
                if let (true, Some(next_line)) = (truncated, next_line) {
                    file["next_offset"] = next_line.into();
                }
                if let (true, Some(next_byte)) = (truncated, next_byte) {
                    file["next_byte_offset"] = next_byte.into();
                }
                files.push(file);
            }
            // A symlink led to a path that needs approval.
            Err(error @ Error::ApprovalRequired { .. }) if context.vfs.will_ask_approval() => {
                return Err(error.into());
            }
            Err(error) => {
                let failure = Failure::from(error);
                let (message, code) = (&failure.message, failure.kind.code());
                let heading = format!("==> {} <==\n", path.escape_debug());
                // Without room for the headings of the other files, only the code says what went wrong.
                let error_text =
                    match bytes_left > heading_bytes_left + heading.len() + message.len() && lines_left > 0 {
                        true => format!("{message} [{code}]\n"),
                        false => format!("[{code}]\n"),
                    };
                bytes_left = bytes_left.saturating_sub(heading.len() + error_text.len());
                lines_left = lines_left.saturating_sub(2);
                blocks.push(Block::Text(format!("{heading}{error_text}")));
                files.push(json!({ "path": path, "error": failure.message, "code": failure.kind.code() }));
            }
        }
    }
    Ok(Reply { blocks, ..Reply::default() }.fact("files", files))
}

/// About how many bytes a file takes in the reply besides its text.
fn heading_size(path: &str) -> usize {
    path.len() + 32
}

/// A file's text and what there is to say about it, such as how to continue.
fn format_file(text: &str, notes: &[Note]) -> String {
    let mut formatted = match (text.is_empty(), notes) {
        (true, []) => "(empty file)".to_owned(),
        _ => text.to_owned(),
    };
    if !formatted.is_empty() && !formatted.ends_with('\n') {
        formatted.push('\n');
    }
    if !notes.is_empty() {
        formatted.push_str(&format!("{}\n", bracketed(notes.iter())));
    }
    formatted
}
