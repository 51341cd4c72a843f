//! `edit_file`: replaces text inside a file.

use serde_json::{Map, Value};

use super::{
    IF_MATCH, OUT_NOT_KEPT, OUT_OPERATION, OUT_PATH, OUT_TAG, OUT_VERSION, PATH, with_not_kept, with_tag,
};
use crate::edit::Occurrences;
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::Replacement;

/// The most edits in one call.
const MAX_EDITS: usize = 100;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "edit_file",
    title: "Edit a file",
    description: "Replaces old_string with new_string in a file. old_string must occur exactly once, whitespace and line \
                  breaks included: give enough text around it, or set replace_all. Returns the changed lines, numbered.",
    required_access: &[Access::Write],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE,
    input: &[
        PATH,
        Field::required("old_string", FieldType::Text, "The text as it is in the file."),
        Field::required("new_string", FieldType::Text, "The new text."),
        Field::optional("replace_all", FieldType::Flag, "Replace every occurrence."),
        Field::optional(
            "more_edits",
            FieldType::ObjectList(&[
                Field::required("old_string", FieldType::Text, ""),
                Field::required("new_string", FieldType::Text, ""),
                Field::optional("replace_all", FieldType::Flag, ""),
            ]),
            "Further edits, made in order: all or none.",
        ),
        IF_MATCH,
    ],
    output: &[
        OUT_PATH,
        Field::required("replaced", FieldType::integer_from(0), "How many replacements were made."),
        OUT_TAG,
        OUT_VERSION,
        OUT_OPERATION,
        OUT_NOT_KEPT,
    ],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let first = Replacement {
        old: arguments.text("old_string"),
        new: arguments.text("new_string"),
        occurrences: occurrences(arguments.flag("replace_all")),
    };
    let mut replacements = vec![first];
    replacements.extend(arguments.objects("more_edits").map(replacement));
    if replacements.len() > MAX_EDITS {
        return Err(Failure::invalid(format!(
            "one call makes at most {MAX_EDITS} edits, not {}; use several calls",
            replacements.len()
        )));
    }
    let edited = context.vfs.edit_all(arguments.text("path"), &replacements, arguments.tag("if_match"))?;
    let (written, replaced) = (edited.written, edited.replaced);
    let times = if replaced == 1 { "1 replacement".to_owned() } else { format!("{replaced} replacements") };
    let excerpt = edited.excerpt.filter(|excerpt| !excerpt.lines.is_empty());
    let text = match excerpt {
        Some(excerpt) => format!("Made {times} in {}:\n{excerpt}", written.path),
        None => format!("Made {times} in {}.", written.path),
    };
    let reply = with_tag(Reply::text(text), written.tag)
        .fact("path", written.path.to_string())
        .fact("replaced", replaced)
        .optional_fact("version", written.revision.map(|revision| revision.number.0))
        .fact("operation", written.operation.to_string());
    Ok(with_not_kept(reply, written.not_kept))
}

/// One of the further edits. Its fields were checked.
fn replacement(edit: &Map<String, Value>) -> Replacement<'_> {
    let text = |name| edit.get(name).and_then(Value::as_str).unwrap_or_default();
    let replaces_all = edit.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
    Replacement { old: text("old_string"), new: text("new_string"), occurrences: occurrences(replaces_all) }
}

fn occurrences(replaces_all: bool) -> Occurrences {
    if replaces_all { Occurrences::All } else { Occurrences::One }
}
