//! `state_set`: sets a key, also by compare-and-set.

use super::{IF_MATCH, KEY, NAMESPACE, OUT_EXPIRES_AT, OUT_KEY, OUT_NAMESPACE, OUT_OPERATION, OUT_TAG};
use crate::path::VfsPath;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::state::{SetOptions, parse_expires_in};

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "state_set",
    title: "Set a key of the State",
    description: "Sets a key of your State to a JSON value. With if_match it is set only if nobody has changed it since \
                  you read that version_tag; a conflict says the present one.",
    required_access: &[],
    offered: OfferedWhen::WithState,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE.idempotent(),
    input: &[
        KEY,
        Field::required("value", FieldType::Text, "JSON as text: {\"n\": 1}, or a string with its quotes."),
        NAMESPACE,
        IF_MATCH,
        Field::optional("create_only", FieldType::Flag, "Fail if the key exists."),
        Field::optional("expires_in", FieldType::Text, "The key is gone after 90s, 30m, 2h or 7d."),
    ],
    output: &[
        OUT_KEY,
        OUT_NAMESPACE,
        Field::required("created", FieldType::Flag, "Whether the key is new."),
        OUT_TAG,
        OUT_EXPIRES_AT,
        OUT_OPERATION,
    ],
    max_characters: None,
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let state = context.state(arguments)?;
    let mut options = SetOptions::new();
    if let Some(tag) = arguments.tag("if_match") {
        options = options.if_match(tag);
    }
    if arguments.flag("create_only") {
        options = options.create_only();
    }
    if let Some(text) = arguments.optional_text("expires_in") {
        let time = parse_expires_in(text);
        options =
            options.expires_in(time.map_err(|error| Failure::invalid(format!("`expires_in`: {error}")))?);
    }
    let value = arguments.take_text("value");
    let key = arguments.text("key");
    let written = state.set(key, &value, &options)?;
    let path = VfsPath::of_state_key(state.namespace(), key);
    let verb = if written.created { "Created" } else { "Set" };
    Ok(Reply::text(format!("{verb} {path}."))
        .note(context.state_tag_note(written.version_tag))
        .note(written.expires_at.map(Note::Expires))
        .fact("key", key)
        .fact("namespace", state.namespace())
        .fact("created", written.created)
        .fact("version_tag", String::from(written.version_tag))
        .optional_fact("expires_at", written.expires_at.map(|time| time.to_string()))
        .fact("operation", written.operation.to_string()))
}
