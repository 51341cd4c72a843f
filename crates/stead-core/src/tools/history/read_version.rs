//! `read_version`: reads a text file as of an earlier version.

use crate::scope::Access;
use crate::tools::files::read_file::{line_range, lines_reply};
use crate::tools::page::MAX_REPLY_CHARACTERS;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "read_version",
    title: "Read an earlier version",
    description: "Reads a text file as it was at a version, a snapshot or a time such as 2026-11-15T08:30:00Z, in pages \
                  like read_file.",
    required_access: &[Access::History],
    offered: OfferedWhen::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::required("path", FieldType::Path, "Its path at that time."),
        Field::required("version", FieldType::Text, "A version number, a snapshot's name, or a time."),
        Field::optional("offset", FieldType::integer_from(1), "The first line, from 1."),
        Field::optional(
            "limit",
            FieldType::Integer { min: 1, max: 100_000 },
            "At most this many lines; 800 if absent.",
        ),
    ],
    output: &[
        Field::required("path", FieldType::Path, "The path."),
        Field::required("version_tag", FieldType::Tag, "The version tag of what was read."),
        Field::required("size", FieldType::integer_from(0), "The size in bytes at that version."),
        Field::required("truncated", FieldType::Flag, "Whether there is more than was returned."),
        Field::optional("first_line", FieldType::integer_from(1), "The number of the first line returned."),
        Field::optional("lines", FieldType::integer_from(0), "How many lines were returned."),
        Field::optional(
            "total_lines",
            FieldType::integer_from(0),
            "How many lines the file had, if its end was reached.",
        ),
        Field::optional("next_offset", FieldType::integer_from(1), "The offset to continue with."),
        Field::optional(
            "next_byte_offset",
            FieldType::integer_from(0),
            "Where a line too long for one call was cut.",
        ),
        Field::optional("file_encoding", FieldType::Text, "The encoding of the file, if it isn't UTF-8."),
        Field::required("version", FieldType::integer_from(0), "The version that was read."),
    ],
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let path = arguments.text("path");
    context.authorize(path, Access::Read)?;
    let point = context.resolve_point(path, arguments.text("version"))?;
    let revision = context.vfs.revision_at(path, point)?;
    let read = context.vfs.as_of(revision)?.read_lines(path, line_range(arguments))?;
    Ok(lines_reply(read).fact("version", revision.number.0))
}
