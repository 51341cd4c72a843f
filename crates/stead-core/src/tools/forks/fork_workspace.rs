//! `fork_workspace`: makes a copy-on-write copy of a Workspace.

use crate::scope::Access;
use crate::store::ForkPart;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "fork_workspace",
    title: "Fork a Workspace",
    description: "Makes a fork of a Workspace: a copy at /forks/NAME that you can change freely. The Workspace stays as it \
                  is until merge_fork.",
    required_access: &[Access::History],
    offered: OfferedWhen::WithForks,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::ADDITIVE,
    input: &[
        Field::required("path", FieldType::Path, "The Workspace."),
        Field::required("name", FieldType::Text, "The fork's name."),
    ],
    output: &[Field::required("path", FieldType::Path, "Where the fork is.")],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let fork = context.require_forks()?.fork(context.vfs, arguments.text("path"), arguments.text("name"))?;
    let path = format!("/forks/{}", fork.name);
    let mut text =
        format!("{} is forked. Work in {path}; merge_fork brings your changes back.", fork.base_prefix);
    let part = |part: &ForkPart| format!("{path}{} ({})", part.place, part.scope);
    let parts: Vec<String> = fork.parts.iter().map(part).collect();
    if !parts.is_empty() {
        text += &format!(" It has the nested Workspaces {}.", parts.join(", "));
    }
    Ok(Reply::text(text).fact("path", path))
}
