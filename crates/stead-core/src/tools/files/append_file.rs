//! `append_file`: appends to the end of a file.

use super::{
    CONTENT, ENCODING_IN, IF_MATCH, PATH, WRITE_OUTPUT, decode_content, format_bytes, write_options,
    write_reply,
};
use crate::scope::Access;
use crate::text_encoding::TextEncoding;
use crate::tools::{Arguments, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext};

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
    let options = write_options(arguments)?;
    let (written, size, encoding) = match arguments.optional_text("encoding") {
        Some("base64") => {
            let content = decode_content(arguments)?;
            let size = content.len() as u64;
            let written = context.vfs.append_with(arguments.text("path"), content, &options)?;
            (written, size, TextEncoding::Utf8)
        }
        _ => {
            let (path, text) = (arguments.text("path"), arguments.text("content"));
            let appended = context.vfs.append_text(path, text, &options)?;
            (appended.written, appended.bytes, appended.encoding)
        }
    };
    let text = format!("Appended {} to {}.", format_bytes(size), written.path);
    Ok(write_reply(text, &written).note(Note::of_encoding(encoding)))
}
