//! `restore`: things as they were.

use super::{DRY_RUN, REVERT_OUTPUT, paths, taken_back};
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::RestoreOptions;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "restore",
    title: "Restore a snapshot",
    description: "Puts a Workspace, or some paths in it, back to a snapshot, version or time, whoever changed it since. \
                  undo takes it back. For your own changes use undo.",
    needs: &[Access::Restore],
    offered: OfferedWhen::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.once(),
    input: &[
        Field::needed("path", FieldType::Path, "The Workspace."),
        Field::needed("snapshot", FieldType::Text, "A snapshot's name, a version number, or a time."),
        Field::optional("paths", FieldType::Texts { most: 1_000 }, "Only these, with all below them."),
        DRY_RUN,
    ],
    output: &REVERT_OUTPUT,
    longest: None,
    run,
};

fn run(desk: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (path, snapshot) = (arguments.text("path"), arguments.text("snapshot"));
    let what = RestoreOptions { paths: paths(arguments.texts("paths"))?, dry_run: arguments.flag("dry_run") };
    desk.judge(path, Access::Restore)?;
    let undone = desk.vfs.restore(path, desk.version(path, snapshot)?, &what)?;
    Ok(taken_back(&undone, "Restored"))
}
