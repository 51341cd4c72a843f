//! `create_directory`: creates a directory and its missing parents.

use super::{OUT_CREATED, OUT_OPERATION, OUT_PATH, OUT_VERSION, PATH, change_reply};
use crate::scope::Access;
use crate::store::Parents;
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "create_directory",
    title: "Create a directory",
    description: "Creates a directory and its missing parents; no error if it exists. Writing a file creates its \
                  directories too.",
    required_access: &[Access::Write],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::ADDITIVE.idempotent(),
    input: &[PATH],
    output: &[OUT_PATH, OUT_CREATED, OUT_VERSION, OUT_OPERATION],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let created = context.vfs.mkdir(arguments.text("path"), Parents::Create)?;
    let path = created.path.to_string();
    let text = match created.created {
        Some(true) => format!("Created {path}."),
        Some(false) => format!("{path} already exists."),
        None => format!("{path} is a directory now, unless another kind of entry has that name."),
    };
    Ok(change_reply(text, path, created.revision, created.operation)
        .optional_fact("created", created.created))
}
