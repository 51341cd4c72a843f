//! `move_file`: moves or renames a file, a symlink or a directory.

use super::{DESTINATION, IF_MATCH, OVERWRITE, SOURCE, TRANSFER_OUTPUT, overwrite_option, transfer_reply};
use crate::scope::Access;
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "move_file",
    title: "Move a file or directory",
    description: "Moves or renames a file, symlink or whole directory, also between Workspaces. A file at the destination \
                  is replaced only with overwrite, a directory never.",
    required_access: &[Access::Write],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[SOURCE, DESTINATION, OVERWRITE, IF_MATCH],
    output: &TRANSFER_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (source, destination) = (arguments.text("source"), arguments.text("destination"));
    let moved = match arguments.tag("if_match") {
        Some(tag) => context.vfs.rename_if(source, destination, overwrite_option(arguments), tag)?,
        None => context.vfs.rename(source, destination, overwrite_option(arguments))?,
    };
    Ok(transfer_reply("Moved", &moved))
}
