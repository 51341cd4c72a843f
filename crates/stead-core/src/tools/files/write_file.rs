//! `write_file`: creates or replaces a whole file.

use super::{
    CONTENT, ENCODING_IN, IF_MATCH, PATH, WRITE_OUTPUT, decode_content, format_bytes, write_options,
    write_reply,
};
use crate::managed::Category;
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

/// The output fields: those of every write, and what is known about a file of a managed Workspace.
const OUTPUT: [Field; 8] = {
    let [path, created, tag, version, operation, not_kept] = WRITE_OUTPUT;
    [
        path,
        created,
        tag,
        version,
        operation,
        not_kept,
        Field::optional("category", FieldType::Text, "The category, in a managed Workspace."),
        Field::optional("overwritten", FieldType::Flag, "Whether a managed file was there before."),
    ]
};

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
        Field::optional(
            "category",
            FieldType::Text,
            "For a file directly below a managed Workspace: code, documents, data, images, downloads or temp.",
        ),
    ],
    output: &OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (content, mut options) = (decode_content(arguments)?, write_options(arguments)?);
    if let Some(category) = arguments.optional_text("category") {
        let category: Category = category.parse().map_err(|error| Failure::invalid(format!("{error}")))?;
        options = options.category(category);
    }
    let size = content.len() as u64;
    let written = context.vfs.write_with(arguments.text("path"), content, &options)?;
    let verb = if written.created == Some(true) { "Created" } else { "Wrote" };
    let category = written.category.map(|category| format!(", category {category}")).unwrap_or_default();
    let text = format!("{verb} {} ({}{category}).", written.path, format_bytes(size));
    let overwritten = written.category.and(written.created).map(|created| !created);
    let reply = write_reply(text, &written).optional_fact("category", written.category.map(Category::as_str));
    Ok(reply.optional_fact("overwritten", overwritten))
}
