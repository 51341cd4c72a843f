//! `merge_fork`: merges a fork into the Workspace that it was made from.

use super::{
    DRY_RUN, FORK, LEAVE_OUT, LEAVE_OUT_HIDDEN, MERGE_OUTPUT, TAKE, TAKE_FORK, TAKE_TARGET, merge_options,
    merge_reply,
};
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::{MergeOptions, MergeResult};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "merge_fork",
    title: "Merge a fork",
    description: "Merges a fork into the Workspace that it was made from, by line within text files. If there is a conflict, \
                  nothing is changed and the conflicts are listed. A merge can be undone.",
    required_access: &[Access::Restore],
    offered: OfferedWhen::WithForks,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE,
    input: &[
        FORK,
        TAKE,
        TAKE_TARGET,
        TAKE_FORK,
        LEAVE_OUT,
        LEAVE_OUT_HIDDEN,
        Field::optional("discard", FieldType::Flag, "Discard the fork after it was merged."),
        DRY_RUN,
    ],
    output: &MERGE_OUTPUT,
    max_characters: None,
    run,
};

/// What the call would do, with contents.
pub(in crate::tools) fn plan(
    context: &ToolContext<'_>,
    arguments: &Arguments,
) -> Result<MergeResult, Failure> {
    let (forks, fork) = (context.require_forks()?, arguments.text("fork"));
    let options = merge_options(forks, fork, arguments)?;
    forks.merge(context.vfs, fork, &MergeOptions { dry_run: true, with_contents: true, ..options })
}

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let forks = context.require_forks()?;
    let fork = arguments.text("fork");
    let options =
        MergeOptions { fork_state: context.approved_fork, ..merge_options(forks, fork, arguments)? };
    let result = forks.merge(context.vfs, fork, &options)?;
    let discards = arguments.flag("discard") && result.took_everything();
    if discards {
        forks.discard(context.vfs, fork)?;
    }
    let summary = if discards { "The fork is merged and discarded." } else { "The fork is merged." };
    Ok(merge_reply(&result, summary, false))
}
