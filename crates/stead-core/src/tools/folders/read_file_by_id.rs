//! `read_file_by_id`: reads a file of a folder.

use super::read_content::{ContentPage, PageRange, Position};
use super::{FILE_NAME, FOLDER_ID};
use crate::scope::Access;
use crate::tools::page::{MAX_REPLY_CHARACTERS, PAGE_LINES, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "read_file_by_id",
    title: "Read a file of a folder",
    description: "Reads a file of a folder that list_folders found. Text comes as lines, anything else as base64. A page \
                  has at most 800 lines and 20,000 characters; the last line in brackets is not in the file.",
    required_access: &[Access::Read],
    offered: OfferedWhen::InOrganization,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        FOLDER_ID,
        FILE_NAME,
        Field::optional("offset", FieldType::integer_from(1), "The first line, from 1."),
        Field::optional(
            "limit",
            FieldType::Integer { min: 1, max: 100_000 },
            "At most this many lines; 800 if absent. More lines make a longer page.",
        ),
        Field::optional("byteOffset", FieldType::integer_from(0), "The first byte, instead of a line."),
    ],
    output: &[
        Field::required("content", FieldType::Text, "The content of the page."),
        Field::required("encoding", FieldType::OneOf(&["utf-8", "base64"]), "How content is encoded."),
        Field::required("size", FieldType::integer_from(0), "The file's size in bytes."),
        Field::required("truncated", FieldType::Flag, "Whether there is more than was returned."),
        Field::optional("nextOffset", FieldType::integer_from(1), "The offset to continue with."),
        Field::optional("nextByteOffset", FieldType::integer_from(0), "The byteOffset to continue with."),
    ],
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let folder = context.folder(arguments, "folderId")?;
    let file = folder.file(arguments.text("filename"))?;
    let from = match (arguments.number("offset"), arguments.number("byteOffset")) {
        (Some(_), Some(_)) => return Err(Failure::invalid("pass `offset` or `byteOffset`, not both")),
        (_, Some(byte)) => Position::Byte(byte),
        (line, None) => Position::Line(line.unwrap_or(1)),
    };
    let limit = arguments.number("limit");
    let bounds = ReplyBounds::for_limit(limit, PAGE_LINES as u64);
    let range = PageRange { from, lines: limit.unwrap_or(PAGE_LINES as u64), bytes: bounds.bytes };
    let ContentPage { content, encoding, size, next } = file.page(&file.read()?, range)?;
    let more = next.map(|next| match next {
        Position::Line(line) => Note::More(format!("offset {line}")),
        Position::Byte(byte) => Note::More(format!("byteOffset {byte}")),
    });
    let reply = Reply::content(content.clone())
        .note(more)
        .note(Some(Note::Content { encoding, size }))
        .fact("content", content)
        .fact("encoding", encoding)
        .fact("size", size)
        .fact("truncated", next.is_some());
    Ok(match next {
        Some(Position::Line(line)) => reply.fact("nextOffset", line),
        Some(Position::Byte(byte)) => reply.fact("nextByteOffset", byte),
        None => reply,
    })
}
