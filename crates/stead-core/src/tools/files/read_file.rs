//! `read_file`: reads lines of a text, an image, or bytes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

use super::{OUT_PATH, OUT_SIZE, OUT_TRUNCATED, PATH, format_bytes};
use crate::error::{Error, ErrorKind};
use crate::scope::Access;
use crate::text_encoding::TextEncoding;
use crate::tools::page::{MAX_REPLY_BYTES, MAX_REPLY_CHARACTERS, PAGE_BYTES, PAGE_LINES, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{
    Arguments, Block, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext,
};
use crate::vfs::{ByteRange, BytesRead, Continuation, LineRange, TextRead};

/// The largest image that is returned, in bytes.
const MAX_IMAGE_BYTES: u64 = 8 << 20;
/// How many bytes of a file one page has when it is returned as base64.
const PAGE_BASE64_BYTES: u64 = PAGE_BYTES as u64 / 4 * 3;
/// How to read a binary file, for the model.
const BASE64_HINT: &str = "read it with encoding base64, byte_offset and byte_limit";

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "read_file",
    title: "Read a file",
    description: "Reads a file: lines of text, or an image. A page has at most 800 lines and 20,000 characters. A \
                  last line in brackets is not in the file: it says how to continue, and the version_tag. Read other \
                  binary files with encoding base64.",
    required_access: &[Access::Read],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        PATH,
        Field::optional("offset", FieldType::integer_from(1), "The first line, from 1."),
        Field::optional(
            "limit",
            FieldType::Integer { min: 1, max: 100_000 },
            "At most this many lines; 800 if absent. More lines make a longer page, up to 256 KiB.",
        ),
        Field::optional(
            "byte_offset",
            FieldType::integer_from(0),
            "The first byte, from 0, instead of a line.",
        ),
        Field::optional(
            "byte_limit",
            FieldType::Integer { min: 1, max: MAX_REPLY_BYTES as u64 },
            "At most this many bytes.",
        ),
        Field::optional(
            "encoding",
            FieldType::OneOf(&["utf-8", "base64"]),
            "How it is returned; utf-8 if absent.",
        ),
        Field::optional("line_numbers", FieldType::Flag, "Number the lines."),
    ],
    output: &[
        OUT_PATH,
        Field::required(
            "version_tag",
            FieldType::Tag,
            "The version tag of what was read; pass it as if_match to change only that.",
        ),
        OUT_SIZE,
        OUT_TRUNCATED,
        Field::optional("first_line", FieldType::integer_from(1), "The number of the first line returned."),
        Field::optional("lines", FieldType::integer_from(0), "How many lines were returned."),
        Field::optional(
            "total_lines",
            FieldType::integer_from(0),
            "How many lines the file has, if its end was reached.",
        ),
        Field::optional("next_offset", FieldType::integer_from(1), "The offset to continue with."),
        Field::optional("next_byte_offset", FieldType::integer_from(0), "The byte_offset to continue with."),
        Field::optional("encoding", FieldType::OneOf(&["utf-8", "base64"]), "How the text block is encoded."),
        Field::optional("file_encoding", FieldType::Text, "The encoding of a text file, if it isn't UTF-8."),
        Field::optional("mime", FieldType::Text, "The media type of a binary file."),
    ],
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let path = arguments.text("path");
    let encoding = if arguments.optional_text("encoding") == Some("base64") { "base64" } else { "utf-8" };
    let by_bytes = arguments.has("byte_offset") || arguments.has("byte_limit");
    if by_bytes && (arguments.has("offset") || arguments.has("limit")) {
        return Err(Failure::invalid(
            "`offset` and `limit` count lines, `byte_offset` and `byte_limit` count bytes; pass only one of these \
             pairs",
        ));
    }
    if arguments.flag("line_numbers") && (encoding == "base64" || by_bytes) {
        return Err(Failure::invalid(
            "`line_numbers` is for lines; leave out `byte_offset`, `byte_limit` and encoding base64",
        ));
    }
    if encoding == "base64" || by_bytes {
        if arguments.has("offset") || arguments.has("limit") {
            return Err(Failure::invalid(
                "with encoding base64, pass `byte_offset` and `byte_limit`: `offset` and `limit` count lines",
            ));
        }
        let page_size = if encoding == "base64" { PAGE_BASE64_BYTES } else { PAGE_BYTES as u64 };
        let range = ByteRange {
            offset: arguments.number("byte_offset").unwrap_or(0),
            length: arguments.number("byte_limit").unwrap_or(page_size),
        };
        return match encoding {
            "base64" => read_base64(context, path, range),
            _ => read_text_range(context, path, range),
        };
    }
    let lines = line_range(arguments);
    match context.vfs.read_lines(path, lines) {
        Err(Error::Binary { .. }) => read_binary(context, path),
        read => {
            let mut read = read?;
            if arguments.flag("line_numbers") {
                number_lines(&mut read, lines.max_bytes);
            }
            let tag = context.tag_note(&read.path, read.tag);
            Ok(lines_reply(read).note(tag))
        }
    }
}

/// The requested lines: one page, or more if `limit` asks for more.
pub(in crate::tools) fn line_range(arguments: &Arguments) -> LineRange {
    let limit = arguments.number("limit");
    let bounds = ReplyBounds::for_limit(limit, PAGE_LINES as u64);
    LineRange {
        offset: arguments.number("offset").unwrap_or(1),
        limit: limit.unwrap_or(PAGE_LINES as u64),
        max_bytes: bounds.bytes,
    }
}

/// The reply with lines of a text, and with how to continue.
pub(in crate::tools) fn lines_reply(read: TextRead) -> Reply {
    let more = continuation_note(&read);
    let ends_with_newline = read.text.ends_with('\n') || more.is_some();
    let reply = Reply::content(read.text)
        .fact("path", read.path.to_string())
        .fact("version_tag", String::from(read.tag))
        .fact("size", read.size)
        .fact("first_line", read.first)
        .fact("lines", read.count);
    let reply = match read.continuation {
        Continuation::End { lines } => reply.fact("truncated", false).fact("total_lines", lines),
        Continuation::More { next } => reply.fact("truncated", true).fact("next_offset", next),
        Continuation::Cut { at } => reply.fact("truncated", true).fact("next_byte_offset", at),
    };
    with_encoding(reply.note(more).note((!ends_with_newline).then_some(Note::NoNewline)), read.encoding)
}

/// The same reply, with the file's encoding if it isn't UTF-8.
fn with_encoding(reply: Reply, encoding: TextEncoding) -> Reply {
    let note = Note::of_encoding(encoding);
    reply.optional_fact("file_encoding", note.as_ref().map(|_| encoding.to_string())).note(note)
}

/// Numbers the lines, and drops the last ones if that makes them too long for one reply.
fn number_lines(read: &mut TextRead, max_bytes: usize) {
    let (mut numbered, mut number) = (String::new(), read.first);
    for line in read.text.split_inclusive('\n') {
        let prefix = format!("{number}\t");
        if number > read.first && numbered.len() + prefix.len() + line.len() > max_bytes {
            read.continuation = Continuation::More { next: number };
            break;
        }
        numbered.push_str(&prefix);
        numbered.push_str(line);
        number += 1;
    }
    read.text = numbered;
    read.count = number - read.first;
}

/// How to read on after these lines; `None` at the end of the text.
pub(super) fn continuation_note(read: &TextRead) -> Option<Note> {
    match read.continuation {
        Continuation::End { .. } => None,
        Continuation::More { next } => Some(Note::More(format!("offset {next}"))),
        Continuation::Cut { at } => {
            let line = read.first + read.count - 1;
            Some(Note::More(format!("byte_offset {at}, inside line {line}")))
        }
    }
}

/// The reply with the text in a range of bytes.
fn read_text_range(context: &ToolContext<'_>, path: &str, range: ByteRange) -> Result<Reply, Failure> {
    let read = context.vfs.read_text_range(path, range).map_err(|error| match error {
        Error::Binary { path } => Failure::new(
            ErrorKind::Unsupported,
            format!("these bytes of `{path}` aren't text; pass encoding base64"),
        ),
        error => error.into(),
    })?;
    let reply = Reply::content(read.text)
        .fact("path", read.path.to_string())
        .fact("version_tag", String::from(read.tag))
        .fact("encoding", "utf-8");
    let reply = with_encoding(with_continuation(reply, read.end, read.size), read.encoding);
    Ok(reply.note(context.tag_note(&read.path, read.tag)))
}

/// The reply with a range of bytes as base64.
fn read_base64(context: &ToolContext<'_>, path: &str, range: ByteRange) -> Result<Reply, Failure> {
    let read = context.vfs.read_range(path, range)?;
    let end = range.offset + read.bytes.len() as u64;
    let reply = Reply::content(BASE64.encode(&read.bytes))
        .fact("path", read.path.to_string())
        .fact("version_tag", String::from(read.tag))
        .fact("encoding", "base64");
    Ok(with_continuation(reply, end, read.size).note(context.tag_note(&read.path, read.tag)))
}

/// The same reply, with how to read on after the byte `end`.
fn with_continuation(reply: Reply, end: u64, size: u64) -> Reply {
    let more = end < size;
    reply
        .fact("size", size)
        .fact("truncated", more)
        .optional_fact("next_byte_offset", more.then_some(end))
        .note(more.then(|| Note::More(format!("byte_offset {end} of {size}"))))
}

/// The reply for a file that isn't text: an image, or a description with how to read its bytes.
fn read_binary(context: &ToolContext<'_>, path: &str) -> Result<Reply, Failure> {
    let read = context.vfs.read_range(path, ByteRange { offset: 0, length: MAX_IMAGE_BYTES })?;
    let mime = crate::vfs::media_type(&read.path);
    let image = mime.filter(|mime| mime.starts_with("image/"));
    let tag = context.tag_note(&read.path, read.tag);
    let reply = match image {
        Some(mime) if read.size <= MAX_IMAGE_BYTES => image_reply(read, mime),
        _ => binary_reply(read, mime),
    };
    Ok(reply.optional_fact("mime", mime).note(tag))
}

/// The reply for an image, after a line of text: some hosts show nothing at all if there is no text.
fn image_reply(read: BytesRead, mime: &'static str) -> Reply {
    let text = format!("{}: {mime}, {}", read.path, format_bytes(read.size));
    let mut reply = with_file_facts(Reply::text(text), &read, false);
    reply.blocks.push(Block::Image { bytes: read.bytes, mime: mime.into() });
    reply
}

/// The reply that describes a binary file. Its bytes are of no use to a model that didn't ask for them.
fn binary_reply(read: BytesRead, mime: Option<&'static str>) -> Reply {
    let kind = mime.unwrap_or("unknown type");
    let text = format!("{} is binary: {kind}, {}; {BASE64_HINT}", read.path, format_bytes(read.size));
    with_file_facts(Reply::text(text), &read, true)
}

fn with_file_facts(reply: Reply, read: &BytesRead, truncated: bool) -> Reply {
    reply
        .fact("path", read.path.to_string())
        .fact("version_tag", String::from(read.tag))
        .fact("size", read.size)
        .fact("truncated", truncated)
}
