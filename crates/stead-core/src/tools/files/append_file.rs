//! `append_file`: appends to the end of a file.

use super::{
    CONTENT, ENCODING_IN, IF_MATCH, PATH, WRITE_OUTPUT, decode_content, format_bytes, write_options,
    write_reply,
};
use crate::scope::Access;
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "append_file",
    title: "Append to a file",
    description: "Appends to the end of a file, exactly as given; a missing file is created. Begin with a newline to \
                  start a new line.",
    required_access: &[Access::Write],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::ADDITIVE,
    input: &[PATH, CONTENT, ENCODING_IN, IF_MATCH],
    output: &WRITE_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (content, options) = (decode_content(arguments)?, write_options(arguments)?);
    let size = content.len() as u64;
    let written = context.vfs.append_with(arguments.text("path"), content, &options)?;
    Ok(write_reply(format!("Appended {} to {}.", format_bytes(size), written.path), &written))
}
