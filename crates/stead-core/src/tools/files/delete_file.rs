//! `delete_file`: a file or a symlink goes.

use super::{IF_MATCH, PATH, REMOVED, removed};
use crate::scope::Access;
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::RemoveOptions;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "delete_file",
    title: "Delete a file",
    description: "Deletes a file or a symlink; for a directory use delete_directory.",
    needs: &[Access::Write],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::REPLACES.once(),
    input: &[PATH, Field::optional("force", Takes::Flag, "No error if it is missing."), IF_MATCH],
    output: &REMOVED,
    longest: None,
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let options = RemoveOptions {
        recursive: false,
        force: arguments.flag("force"),
        if_match: arguments.tag("if_match"),
    };
    Ok(removed(&desk.vfs.remove_file(arguments.text("path"), options)?, "a file"))
}
