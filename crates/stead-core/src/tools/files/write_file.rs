//! `write_file`: creates or replaces a whole file.

use super::{
    CONTENT, ENCODING_IN, IF_MATCH, PATH, WRITE_OUTPUT, decode_content, format_bytes, write_options,
    write_reply,
};
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "write_file",
    title: "Write a file",
    description: "Writes a whole file: creates it, with missing directories, or replaces it. If it changed since you read \
                  it, that is a conflict: read it again. For a part of a file use edit_file.",
    required_access: &[Access::Write],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[
        PATH,
        CONTENT,
        ENCODING_IN,
        IF_MATCH,
        Field::optional("create_only", FieldType::Flag, "Fail if it exists."),
    ],
    output: &WRITE_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (content, options) = (decode_content(arguments)?, write_options(arguments)?);
    let size = content.len() as u64;
    let written = context.vfs.write_with(arguments.text("path"), content, &options)?;
    let verb = if written.created == Some(true) { "Created" } else { "Wrote" };
    Ok(write_reply(format!("{verb} {} ({}).", written.path, format_bytes(size)), &written))
}
