//! The core's words in the words of MCP.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, JsonObject, ResourceContents, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use stead_core::ErrorKind;
use stead_core::tools::{Block, Failure, Reply};

use super::uri;

/// A tool as clients list it.
pub(super) fn tool(tool: &stead_core::Tool) -> Tool {
    let hints = tool.hints;
    let annotations = ToolAnnotations::from_raw(
        Some(tool.title.to_owned()),
        Some(hints.read_only),
        Some(hints.destructive),
        Some(hints.idempotent),
        Some(hints.open_world),
    );
    Tool::new(tool.name, tool.description, Arc::new(tool.input_schema()))
        .with_title(tool.title)
        .with_raw_output_schema(Arc::new(output_schema(tool.output_schema())))
        .with_annotations(annotations)
}

/// What an answer may hold: the facts of a success, or the error of a failure.
///
/// Some clients hold failures to the schema, too, so no fact is required on the wire.
fn output_schema(mut schema: JsonObject) -> JsonObject {
    schema.remove("required");
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let error = json!({
            "type": "object",
            "description": "Why it did not happen, if it did not. Nothing else is there then.",
            "properties": {
                "code": { "type": "string", "description": "A stable code, such as not_found." },
                "message": { "type": "string", "description": "The same in a sentence." },
            },
            "required": ["code", "message"],
            "additionalProperties": false,
        });
        properties.insert("error".to_owned(), error);
    }
    schema
}

/// An answer: its words and media as content, once, and its facts beside them.
pub(super) fn result(reply: Reply) -> CallToolResult {
    let facts = Value::Object(reply.structured());
    let failed = reply.is_failure();
    let mut result = CallToolResult::success(reply.blocks.into_iter().map(block).collect());
    result.structured_content = Some(facts);
    result.is_error = Some(failed);
    result
}

fn block(block: Block) -> ContentBlock {
    match block {
        Block::Text(text) => ContentBlock::text(text),
        Block::Image { bytes, mime } => ContentBlock::image(BASE64.encode(bytes), mime),
        Block::Audio { bytes, mime } => ContentBlock::audio(BASE64.encode(bytes), mime),
        Block::File { path, bytes, mime } => ContentBlock::resource(blob(&path, &bytes, mime)),
    }
}

/// A file's bytes as they are.
pub(super) fn blob(path: &str, bytes: &[u8], mime: Option<&str>) -> ResourceContents {
    let contents = ResourceContents::blob(BASE64.encode(bytes), uri::of_path(path));
    contents.with_mime_type(mime.unwrap_or("application/octet-stream"))
}

/// A failure where MCP has no room for an answer that is one.
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

/// The same, about a resource: clients look for its URI beside the error.
pub(super) fn resource_error(failure: &Failure, uri: &str) -> ErrorData {
    let mut error = error(failure);
    if let Some(Value::Object(data)) = &mut error.data {
        data.insert("uri".to_owned(), uri.into());
    }
    error
}
