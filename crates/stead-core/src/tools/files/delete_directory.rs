//! `delete_directory`: deletes a directory, empty or with everything in it.

use super::{PATH, REMOVE_OUTPUT, remove_reply};
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::RemoveOptions;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "delete_directory",
    title: "Delete a directory",
    description: "Deletes an empty directory, or with recursive also its content. A Workspace, or a directory with \
                  one in it, is never deleted.",
    required_access: &[Access::Write],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[
        PATH,
        Field::optional("recursive", FieldType::Flag, "Delete its content too."),
        Field::optional("force", FieldType::Flag, "No error if it is missing."),
    ],
    output: &REMOVE_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let options = RemoveOptions {
        recursive: arguments.flag("recursive"),
        force: arguments.flag("force"),
        if_match: None,
    };
    let target = if options.recursive { "a directory" } else { "an empty directory" };
    Ok(remove_reply(&context.vfs.remove_directory(arguments.text("path"), options)?, target))
}
