//! `state_delete`: deletes a key.

use super::{IF_MATCH, KEY, NAMESPACE, OUT_KEY, OUT_NAMESPACE, OUT_OPERATION};
use crate::path::VfsPath;
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "state_delete",
    title: "Delete a key of the State",
    description: "Deletes a key of your State. With if_match it is deleted only if nobody has changed it since you read \
                  that version_tag.",
    required_access: &[],
    offered: OfferedWhen::WithState,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[KEY, NAMESPACE, IF_MATCH],
    output: &[OUT_KEY, OUT_NAMESPACE, OUT_OPERATION],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let (state, key) = (context.state(arguments)?, arguments.text("key"));
    let operation = state.delete(key, arguments.tag("if_match"))?;
    let path = VfsPath::of_state_key(state.namespace(), key);
    Ok(Reply::text(format!("Deleted {path}."))
        .fact("key", key)
        .fact("namespace", state.namespace())
        .fact("operation", operation.to_string()))
}
