//! `restore`: puts a Workspace, or paths in it, back to an earlier version.

use super::{DRY_RUN, REVERT_OUTPUT, parse_paths, revert_reply};
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::{OnConflict, RestoreOptions};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "restore",
    title: "Restore a snapshot",
    description: "Restores a Workspace, or some paths in it, to a snapshot, version or time, whoever changed it \
                  since. undo reverts this. For your own changes use undo.",
    required_access: &[Access::Restore],
    offered: OfferedWhen::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[
        Field::required("path", FieldType::Path, "The Workspace."),
        Field::required("snapshot", FieldType::Text, "A snapshot's name, a version number, or a time."),
        Field::optional("paths", FieldType::TextList { max: 1_000 }, "Only these, and all below them."),
        DRY_RUN,
    ],
    output: &REVERT_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (path, snapshot) = (arguments.text("path"), arguments.text("snapshot"));
    let options =
        RestoreOptions { paths: parse_paths(arguments.texts("paths"))?, dry_run: arguments.flag("dry_run") };
    context.authorize(path, Access::Restore)?;
    let result = context.vfs.restore(path, context.resolve_point(path, snapshot)?, &options)?;
    result.check_found(context.vfs, &options)?;
    Ok(revert_reply(&result, ("restore", "Restored"), OnConflict::Refuse))
}
