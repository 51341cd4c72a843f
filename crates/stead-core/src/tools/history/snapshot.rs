//! `snapshot`: names the current version of a Workspace, or of all.

use crate::path::VfsPath;
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "snapshot",
    title: "Take a snapshot",
    description: "Saves the present state of a Workspace, or of all, for restore and read_version. Take one before \
                  large changes.",
    required_access: &[Access::History],
    offered: OfferedWhen::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::ADDITIVE,
    input: &[
        Field::optional("path", FieldType::Path, "The Workspace; all if absent."),
        Field::optional("label", FieldType::Text, "The name; a number if absent."),
    ],
    output: &[
        Field::required("snapshot", FieldType::Text, "The name to pass to restore and read_version."),
        Field::required("version", FieldType::integer_from(0), "The version that it names."),
    ],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (path, label) = (arguments.optional_text("path"), arguments.optional_text("label"));
    match path {
        Some(path) => context.authorize(path, Access::History)?,
        None => context.vfs.authorize(None, Access::History)?,
    }
    let snapshot = context.require_snapshots()?.create_snapshot(context.vfs, path, label)?;
    let mut text =
        format!("The state at {} is saved as the snapshot {}.", snapshot.at, snapshot.name.escape_debug());
    if !snapshot.left_out.is_empty() {
        let left_out: Vec<&str> = snapshot.left_out.iter().map(VfsPath::as_str).collect();
        text.push_str(&format!(" It doesn't include {}.", left_out.join(", ")));
    }
    Ok(Reply::text(text).fact("snapshot", snapshot.name).fact("version", snapshot.revision.0))
}
