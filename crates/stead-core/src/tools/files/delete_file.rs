//! `delete_file`: deletes a file or a symlink.

use super::{IF_MATCH, PATH, REMOVE_OUTPUT, remove_reply};
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::RemoveOptions;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "delete_file",
    title: "Delete a file",
    description: "Deletes a file or a symlink; for a directory use delete_directory.",
    required_access: &[Access::Write],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[PATH, Field::optional("force", FieldType::Flag, "No error if it is missing."), IF_MATCH],
    output: &REMOVE_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let options = RemoveOptions {
        recursive: false,
        force: arguments.flag("force"),
        if_match: arguments.tag("if_match"),
    };
    Ok(remove_reply(&context.vfs.remove_file(arguments.text("path"), options)?, "a file"))
}
