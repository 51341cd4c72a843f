//! `update_fork`: brings the changes of the Workspace that a fork was made from into the fork.

use super::{
    DRY_RUN, FORK, LEAVE_OUT, LEAVE_OUT_HIDDEN, MERGE_OUTPUT, TAKE, TAKE_FORK, TAKE_TARGET, merge_options,
    merge_reply,
};
use crate::scope::Access;
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "update_fork",
    title: "Update a fork",
    description: "Brings the changes of the Workspace that a fork was made from into the fork. Conflicts are written into \
                  the fork's files between <<<<<<< target and >>>>>>> fork; edit these files, then merge.",
    required_access: &[Access::Restore],
    offered: OfferedWhen::WithForks,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE,
    input: &[FORK, TAKE, TAKE_TARGET, TAKE_FORK, LEAVE_OUT, LEAVE_OUT_HIDDEN, DRY_RUN],
    output: &MERGE_OUTPUT,
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let forks = context.require_forks()?;
    let fork = arguments.text("fork");
    let result = forks.update(context.vfs, fork, &merge_options(forks, fork, arguments)?)?;
    Ok(merge_reply(&result, "The fork is updated.", true))
}
