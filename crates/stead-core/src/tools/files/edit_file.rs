//! `edit_file`: replaces text inside a file.

use super::{IF_MATCH, OUT_OPERATION, OUT_PATH, OUT_TAG, OUT_VERSION, PATH, with_tag};
use crate::edit::Occurrences;
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "edit_file",
    title: "Edit a file",
    description: "Replaces old_string with new_string in a file. old_string must occur exactly once, whitespace and line \
                  breaks included: give enough text around it, or set replace_all.",
    required_access: &[Access::Write],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE,
    input: &[
        PATH,
        Field::required("old_string", FieldType::Text, "The text as it is in the file."),
        Field::required("new_string", FieldType::Text, "The new text."),
        Field::optional("replace_all", FieldType::Flag, "Replace every occurrence."),
        IF_MATCH,
    ],
    output: &[
        OUT_PATH,
        Field::required("replaced", FieldType::integer_from(0), "How many replacements were made."),
        OUT_TAG,
        OUT_VERSION,
        OUT_OPERATION,
    ],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let occurrences = if arguments.flag("replace_all") { Occurrences::All } else { Occurrences::One };
    let (old, new) = (arguments.text("old_string"), arguments.text("new_string"));
    let edited =
        context.vfs.edit_with(arguments.text("path"), old, new, occurrences, arguments.tag("if_match"))?;
    let (written, replaced) = (edited.written, edited.replaced);
    let times = if replaced == 1 { "1 replacement".to_owned() } else { format!("{replaced} replacements") };
    Ok(with_tag(Reply::text(format!("Made {times} in {}.", written.path)), written.tag)
        .fact("path", written.path.to_string())
        .fact("replaced", replaced)
        .optional_fact("version", written.revision.map(|revision| revision.number.0))
        .fact("operation", written.operation.to_string()))
}
