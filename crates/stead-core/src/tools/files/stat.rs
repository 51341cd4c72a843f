//! `stat`: returns a path's kind, size, times and version tag.

use super::{OUT_PATH, PATH};
use crate::scope::Access;
use crate::store::NodeKind;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "stat",
    title: "Show a path's attributes",
    description: "Shows a path's kind, size, times, media type, version_tag and Access Scope, without reading it.",
    required_access: &[Access::Read],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[PATH],
    output: &[
        OUT_PATH,
        Field::required(
            "kind",
            FieldType::Text,
            "file, directory, symlink, or another kind that can't be read.",
        ),
        Field::required("size", FieldType::integer_from(0), "The size in bytes; 0 for a directory."),
        Field::required("mode", FieldType::Text, "Permission bits, octal."),
        Field::optional("created", FieldType::Text, "When it was created, if known."),
        Field::optional("modified", FieldType::Text, "When it was last changed, if known."),
        Field::optional("version_tag", FieldType::Tag, "Its version tag."),
        Field::optional("mime", FieldType::Text, "A file's media type, guessed from its name."),
        Field::optional("scope", FieldType::Text, "The Access Scope of the Workspace that it is in."),
    ],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let stat = context.vfs.stat(arguments.text("path"))?;
    let mut text = format!("{}: {}, {} bytes", stat.path, stat.kind.as_str(), stat.size);
    if let Some(modified) = stat.modified {
        text.push_str(&format!(", modified {modified}"));
    }
    if let Some(scope) = stat.scope {
        text.push_str(&format!(", in a {scope} Workspace"));
    }
    if let Some(mime) = stat.mime {
        text.push_str(&format!(", {mime}"));
    }
    let tag = stat.tag.filter(|_| stat.kind == NodeKind::File);
    let tag = tag.and_then(|tag| context.tag_note(&stat.path, tag));
    Ok(Reply::text(text)
        .note(tag)
        .fact("path", stat.path.to_string())
        .fact("kind", stat.kind.as_str())
        .fact("size", stat.size)
        .fact("mode", format!("{:04o}", stat.mode))
        .optional_fact("created", stat.created.map(|time| time.to_string()))
        .optional_fact("modified", stat.modified.map(|time| time.to_string()))
        .optional_fact("version_tag", stat.tag.map(String::from))
        .optional_fact("mime", stat.mime)
        .optional_fact("scope", stat.scope.map(|scope| scope.name())))
}
