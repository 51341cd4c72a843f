//! Converts the core's tools, replies and errors into the types of the MCP library.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, JsonObject, MetaObject, ResourceContents, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use stead_core::ErrorKind;
use stead_core::tools::{Block, Failure, Hints, Reply, ResultFormat, Toolbox};

use super::uri;

/// The metadata key for the longest result of a tool. Without it, Claude Code cuts long results.
const MAX_RESULT_SIZE_KEY: &str = "anthropic/maxResultSizeChars";

/// A tool in the form that clients list.
pub(super) fn tool(toolbox: &Toolbox, tool: &stead_core::Tool, result_format: ResultFormat) -> Tool {
    let mut converted = Tool::new(tool.name, toolbox.description(tool), Arc::new(tool.input_schema()))
        .with_title(tool.title)
        .with_annotations(annotations(tool.hints));
    if result_format == ResultFormat::Structured {
        converted = converted.with_raw_output_schema(Arc::new(output_schema(tool.output_schema())));
    }
    if let Some(max_characters) = tool.max_characters {
        let meta = JsonObject::from_iter([(MAX_RESULT_SIZE_KEY.to_owned(), max_characters.into())]);
        converted = converted.with_meta(MetaObject(meta));
    }
    converted
}

/// Only the hints that differ from the protocol's defaults: each one costs tokens.
fn annotations(hints: Hints) -> ToolAnnotations {
    let unless_default = |hint: bool, default: bool| (hint != default).then_some(hint);
    ToolAnnotations::from_raw(
        None,
        unless_default(hints.read_only, false),
        // The protocol defines these two only for tools that change something.
        unless_default(hints.destructive, true).filter(|_| !hints.read_only),
        unless_default(hints.idempotent, false).filter(|_| !hints.read_only),
        unless_default(hints.open_world, true),
    )
}

/// The schema of a structured result: the facts of a success, or the error of a failure.
///
/// Some clients check failures against the schema too, so no fact is required.
fn output_schema(mut schema: JsonObject) -> JsonObject {
    schema.remove("required");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let error = json!({
            "type": "object",
            "description": "The error, if the call failed. Then all other fields are absent.",
            "properties": {
                "code": { "type": "string", "description": "A stable code, such as not_found." },
                "message": { "type": "string", "description": "The error in words." },
            },
            "required": ["code", "message"],
            "additionalProperties": false,
        });
        properties.insert("error".to_owned(), error);
    }
    schema
}

/// A result: text and images, and the structured facts if `result_format` asks for them.
pub(super) fn result(reply: Reply, result_format: ResultFormat) -> CallToolResult {
    let is_error = reply.is_failure();
    let (blocks, facts) = match result_format {
        ResultFormat::Text => (reply.for_model(), None),
        ResultFormat::Structured => {
            let facts = Value::Object(reply.structured());
            (reply.for_program(), Some(facts))
        }
    };
    let mut result = CallToolResult::success(blocks.into_iter().map(block).collect());
    result.structured_content = facts;
    result.is_error = Some(is_error);
    result
}

fn block(block: Block) -> ContentBlock {
    match block {
        Block::Text(text) => ContentBlock::text(text),
        Block::Image { bytes, mime } => ContentBlock::image(BASE64.encode(bytes), mime),
    }
}

/// A file's bytes, as the contents of its resource.
pub(super) fn blob(path: &str, bytes: &[u8], mime: Option<&str>) -> ResourceContents {
    let contents = ResourceContents::blob(BASE64.encode(bytes), uri::of_path(path));
    contents.with_mime_type(mime.unwrap_or("application/octet-stream"))
}

/// A failure as a JSON-RPC error, for requests whose results can't hold one.
pub(super) fn error(failure: &Failure) -> ErrorData {
    let data = Some(json!({ "code": failure.kind.code() }));
    let message = failure.message.clone();
    match failure.kind {
        ErrorKind::NotFound | ErrorKind::Expired => ErrorData::resource_not_found(message, data),
        ErrorKind::Denied
        | ErrorKind::Invalid
        | ErrorKind::Unsupported
        | ErrorKind::TooLarge
        | ErrorKind::AlreadyExists
        | ErrorKind::Conflict
        | ErrorKind::Quota => ErrorData::invalid_params(message, data),
        ErrorKind::Unavailable | ErrorKind::Corrupt => ErrorData::internal_error(message, data),
    }
}

/// A failure as a JSON-RPC error about a resource. Clients look for the URI in its data.
pub(super) fn resource_error(failure: &Failure, uri: &str) -> ErrorData {
    let mut error = error(failure);
    if let Some(Value::Object(data)) = &mut error.data {
        data.insert("uri".to_owned(), uri.into());
    }
    error
}
