//! `delete_directory`: a directory goes, empty or with all that it holds.

use super::{PATH, REMOVED, removed};
use crate::scope::Access;
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::RemoveOptions;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "delete_directory",
    title: "Delete a directory",
    description: "Deletes an empty directory, or with recursive all that is in it. A Workspace, or a directory that \
                  holds one, is never deleted.",
    needs: &[Access::Write],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::REPLACES.once(),
    input: &[
        PATH,
        Field::optional("recursive", Takes::Flag, "With all that is in it."),
        Field::optional("force", Takes::Flag, "No error if it is missing."),
    ],
    output: &REMOVED,
    longest: None,
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let options = RemoveOptions {
        recursive: arguments.flag("recursive"),
        force: arguments.flag("force"),
        if_match: None,
    };
    let what = if options.recursive { "a directory" } else { "an empty directory" };
    Ok(removed(&desk.vfs.remove_directory(arguments.text("path"), options)?, what))
}
