//! `discard_fork`: removes a fork with all changes in it.

use super::FORK;
use crate::scope::Access;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "discard_fork",
    title: "Discard a fork",
    description: "Removes a fork with all changes in it that were not merged. This can't be undone.",
    required_access: &[Access::History],
    offered: OfferedWhen::WithForks,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE,
    input: &[FORK],
    output: &[Field::required("discarded", FieldType::Text, "The fork.")],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let fork = arguments.text("fork");
    context.require_forks()?.discard(context.vfs, fork)?;
    Ok(Reply::text(format!("The fork {} is discarded.", fork.escape_debug())).fact("discarded", fork))
}
