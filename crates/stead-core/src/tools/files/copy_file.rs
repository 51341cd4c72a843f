//! `copy_file`: copies a file, a symlink or a directory.

use super::{DESTINATION, OVERWRITE, SOURCE, TRANSFER_OUTPUT, overwrite_option, transfer_reply};
use crate::scope::Access;
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "copy_file",
    title: "Copy a file or directory",
    description: "Copies a file, symlink or whole directory, also between Workspaces. A file at the destination is \
                  replaced only with overwrite, a directory never.",
    required_access: &[Access::Read, Access::Write],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[SOURCE, DESTINATION, OVERWRITE],
    output: &TRANSFER_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (source, destination) = (arguments.text("source"), arguments.text("destination"));
    let copied = context.vfs.copy(source, destination, overwrite_option(arguments))?;
    Ok(transfer_reply("Copied", &copied))
}
