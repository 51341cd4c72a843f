//! `read_version`: a text as it was.

use crate::path::VfsPath;
use crate::scope::Access;
use crate::tools::files::read_file::{as_lines, lines};
use crate::tools::page::MAX_REPLY_CHARACTERS;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::PointInTime;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "read_version",
    title: "Read an earlier version",
    description: "Reads a text file as it was at a version, a snapshot or a time such as 2026-11-15T08:30:00Z, in pages \
                  like read_file.",
    needs: &[Access::History],
    offered: OfferedWhen::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::needed("path", FieldType::Path, "The path that it had then."),
        Field::needed("version", FieldType::Text, "A version number, a snapshot's name, or a time."),
        Field::optional("offset", FieldType::from(1), "The first line, from 1."),
        Field::optional(
            "limit",
            FieldType::Integer { least: 1, most: 100_000 },
            "At most so many lines; 800 if absent.",
        ),
    ],
    output: &[
        Field::needed("path", FieldType::Path, "The path."),
        Field::needed("version_tag", FieldType::Tag, "The state that was read."),
        Field::needed("size", FieldType::from(0), "The size in bytes, then."),
        Field::needed("truncated", FieldType::Flag, "Whether there is more than was returned."),
        Field::optional("first_line", FieldType::from(1), "The number of the first line returned."),
        Field::optional("lines", FieldType::from(0), "How many lines were returned."),
        Field::optional(
            "total_lines",
            FieldType::from(0),
            "How many lines the file had, where its end was reached.",
        ),
        Field::optional("next_offset", FieldType::from(1), "The offset to go on with."),
        Field::optional(
            "next_byte_offset",
            FieldType::from(0),
            "Where a line too long for one call was cut.",
        ),
        Field::needed("version", FieldType::from(0), "The version that was read."),
    ],
    longest: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(desk: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let path = arguments.text("path");
    desk.judge(path, Access::Read)?;
    let version = desk.version(path, arguments.text("version"))?;
    let at = VfsPath::parse(path).map_err(|error| Failure::invalid(error.to_string()))?;
    let read = desk.vfs.as_of(PointInTime::VersionAt(version, at))?.read_lines(path, lines(arguments))?;
    Ok(as_lines(read).fact("version", version.0))
}
