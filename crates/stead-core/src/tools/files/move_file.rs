//! `move_file`: another name, another place.

use super::{CARRIED, DESTINATION, IF_MATCH, OVERWRITE, SOURCE, carried, overwrite};
use crate::scope::Access;
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "move_file",
    title: "Move a file or directory",
    description: "Moves or renames a file, symlink or whole directory, also between Workspaces. A file at the destination \
                  is replaced only with overwrite, a directory never.",
    needs: &[Access::Write],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::REPLACES.once(),
    input: &[SOURCE, DESTINATION, OVERWRITE, IF_MATCH],
    output: &CARRIED,
    longest: None,
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (source, destination) = (arguments.text("source"), arguments.text("destination"));
    let moved = match arguments.tag("if_match") {
        Some(tag) => desk.vfs.rename_if(source, destination, overwrite(arguments), tag)?,
        None => desk.vfs.rename(source, destination, overwrite(arguments))?,
    };
    Ok(carried("Moved", &moved))
}
