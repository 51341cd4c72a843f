//! `restore`: things as they were.

use super::{DRY_RUN, TAKEN_BACK, paths, taken_back};
use crate::scope::Access;
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::Restore;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "restore",
    title: "Restore a snapshot",
    description: "Puts a Workspace, or some paths in it, back to a snapshot, version or time, whoever changed it since. \
                  undo takes it back. For your own changes use undo.",
    needs: &[Access::Restore],
    offered: Offered::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::REPLACES.once(),
    input: &[
        Field::needed("path", Takes::Path, "The Workspace."),
        Field::needed("snapshot", Takes::Text, "A snapshot's name, a version number, or a time."),
        Field::optional("paths", Takes::Texts { most: 1_000 }, "Only these, with all below them."),
        DRY_RUN,
    ],
    output: &TAKEN_BACK,
    longest: None,
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (path, snapshot) = (arguments.text("path"), arguments.text("snapshot"));
    let what = Restore { paths: paths(arguments.texts("paths"))?, dry_run: arguments.flag("dry_run") };
    desk.judge(path, Access::Restore)?;
    let undone = desk.vfs.restore(path, desk.version(path, snapshot)?, &what)?;
    Ok(taken_back(&undone, "Restored"))
}
