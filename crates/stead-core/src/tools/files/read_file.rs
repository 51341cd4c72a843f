//! `read_file`: lines of a text, a picture, a sound, or bytes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

use super::{OUT_PATH, OUT_SIZE, OUT_TRUNCATED, PATH};
use crate::error::{Error, ErrorKind};
use crate::scope::Access;
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Block, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::{LineRange, Range, Rest, Vfs};

/// How much of a file that is no text goes out whole.
const MOST_BINARY: u64 = 1 << 20;
/// The largest picture or sound that is handed out.
const MOST_MEDIA: u64 = 8 << 20;
/// How many bytes one call returns at the most.
const MOST_BYTES: u64 = 256 << 10;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "read_file",
    title: "Read a file",
    description: "Reads a file. Of a text it returns the lines as they are, at most 2,000 of them or 256 KiB; \
                  if there is more, next_offset says where to go on: pass it as offset. A picture or a sound comes \
                  back as such, other binary files as an attachment, or piece by piece with encoding base64. \
                  version_tag names the state that was read; pass it as if_match when you change the file.",
    needs: &[Access::Read],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::LOOKS,
    input: &[
        PATH,
        Field::optional("offset", Takes::from(1), "The first line, counted from 1."),
        Field::optional("limit", Takes::Integer { least: 1, most: 100_000 }, "At most so many lines."),
        Field::optional(
            "byte_offset",
            Takes::from(0),
            "The first byte, counted from 0, instead of a line: for a line too long for one call, or for base64.",
        ),
        Field::optional(
            "byte_limit",
            Takes::Integer { least: 1, most: MOST_BYTES },
            "At most so many bytes.",
        ),
        Field::optional(
            "encoding",
            Takes::OneOf(&["utf-8", "base64"]),
            "How the bytes are returned: as text (the default) or as base64.",
        ),
    ],
    output: &[
        OUT_PATH,
        Field::needed(
            "version_tag",
            Takes::Tag,
            "The state that was read; pass it as if_match to change just that.",
        ),
        OUT_SIZE,
        OUT_TRUNCATED,
        Field::optional("first_line", Takes::from(1), "The number of the first line returned."),
        Field::optional("lines", Takes::from(0), "How many lines were returned."),
        Field::optional(
            "total_lines",
            Takes::from(0),
            "How many lines the file has, where its end was reached.",
        ),
        Field::optional("next_offset", Takes::from(1), "The offset to go on with."),
        Field::optional("next_byte_offset", Takes::from(0), "The byte_offset to go on with."),
        Field::optional("encoding", Takes::OneOf(&["utf-8", "base64"]), "How the text block is encoded."),
        Field::optional("mime", Takes::Text, "The media type of what is no text."),
    ],
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let path = arguments.text("path");
    let encoding = if arguments.optional_text("encoding") == Some("base64") { "base64" } else { "utf-8" };
    let by_bytes = arguments.has("byte_offset") || arguments.has("byte_limit");
    if by_bytes && (arguments.has("offset") || arguments.has("limit")) {
        return Err(Failure::invalid(
            "`offset` and `limit` count lines, `byte_offset` and `byte_limit` bytes; pass one pair of them",
        ));
    }
    if encoding == "base64" || by_bytes {
        if arguments.has("offset") || arguments.has("limit") {
            return Err(Failure::invalid(
                "with the encoding base64, pass `byte_offset` and `byte_limit`: `offset` and `limit` count lines",
            ));
        }
        let range = Range {
            offset: arguments.number("byte_offset").unwrap_or(0),
            length: arguments.number("byte_limit").unwrap_or(MOST_BYTES),
        };
        return piece(desk.vfs, path, range, encoding);
    }
    let lines = LineRange {
        offset: arguments.number("offset").unwrap_or(1),
        limit: arguments.number("limit").unwrap_or(LineRange::default().limit),
        ..LineRange::default()
    };
    match desk.vfs.read_lines(path, lines) {
        Err(Error::Binary { .. }) => no_text(desk.vfs, path),
        read => Ok(as_lines(read?)),
    }
}

/// Lines of a text, and what a program has to know to go on.
pub(in crate::tools) fn as_lines(read: crate::vfs::TextRead) -> Reply {
    let more = read.more();
    let reply = Reply::text(read.text)
        .fact("path", read.path.to_string())
        .fact("version_tag", String::from(read.tag))
        .fact("size", read.size)
        .fact("first_line", read.first)
        .fact("lines", read.count);
    let mut reply = match read.rest {
        Rest::End { lines } => reply.fact("truncated", false).fact("total_lines", lines),
        Rest::More { next } => reply.fact("truncated", true).fact("next_offset", next),
        Rest::Cut { at } => reply.fact("truncated", true).fact("next_byte_offset", at),
    };
    // A block of its own: the text is the file's, to the byte.
    reply.blocks.extend(more.map(|more| Block::Text(format!("[{more}]"))));
    reply
}

fn piece(vfs: &Vfs, path: &str, range: Range, encoding: &'static str) -> Result<Reply, Failure> {
    let mut read = vfs.read_range(path, range)?;
    let size = read.size;
    let text = match encoding {
        "base64" => BASE64.encode(&read.bytes),
        _ => {
            let end = range.offset + read.bytes.len() as u64;
            cut_at_a_character(&mut read.bytes, end < size);
            std::str::from_utf8(&read.bytes).map(str::to_owned).map_err(|_| {
                Failure::new(
                    ErrorKind::Unsupported,
                    format!("these bytes of `{}` are no text; pass the encoding base64", read.path),
                )
            })?
        }
    };
    let next = range.offset + read.bytes.len() as u64;
    let truncated = next < size;
    Ok(Reply::text(text)
        .fact("path", read.path.to_string())
        .fact("version_tag", String::from(read.tag))
        .fact("size", size)
        .fact("truncated", truncated)
        .fact("encoding", encoding)
        .maybe("next_byte_offset", truncated.then_some(next)))
}

/// Leaves a character that the range has cut in two to the next call.
fn cut_at_a_character(bytes: &mut Vec<u8>, more: bool) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
        && more
        && error.valid_up_to() > 0
    {
        bytes.truncate(error.valid_up_to());
    }
}

/// A file that is no text: as a picture, a sound or an attachment, if it is small enough for one call.
fn no_text(vfs: &Vfs, path: &str) -> Result<Reply, Failure> {
    let read = vfs.read_range(path, Range { offset: 0, length: MOST_MEDIA })?;
    let (size, shown) = (read.size, read.path.to_string());
    let mime = crate::vfs::media_type(&read.path);
    let media = mime.filter(|mime| mime.starts_with("image/") || mime.starts_with("audio/"));
    let most = if media.is_some() { MOST_MEDIA } else { MOST_BINARY };
    if size > most {
        return Err(Failure::new(
            ErrorKind::TooLarge,
            format!(
                "`{shown}` is binary and has {size} bytes; at most {most} go out whole: read it piece by piece with \
                 the encoding base64, byte_offset and byte_limit"
            ),
        ));
    }
    let (bytes, tag) = (read.bytes, String::from(read.tag));
    let block = match media {
        Some(mime) if mime.starts_with("image/") => Block::Image { bytes, mime },
        Some(mime) => Block::Audio { bytes, mime },
        None => Block::File { path: shown.clone(), bytes, mime },
    };
    let reply = Reply { blocks: vec![block], ..Reply::default() };
    Ok(reply
        .fact("path", shown)
        .fact("version_tag", tag)
        .fact("size", size)
        .fact("truncated", false)
        .maybe("mime", mime))
}
