//! The core's words in the words of MCP.

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

/// How a tool tells Claude Code of its longest answer, which is cut otherwise.
const MAX_RESULT_SIZE_KEY: &str = "anthropic/maxResultSizeChars";

/// A tool as clients list it.
pub(super) fn tool(toolbox: &Toolbox, tool: &stead_core::Tool, results: ResultFormat) -> Tool {
    let mut listed = Tool::new(tool.name, toolbox.description(tool), Arc::new(tool.input_schema()))
        .with_title(tool.title)
        .with_annotations(annotations(tool.hints));
    if results == ResultFormat::Structured {
        listed = listed.with_raw_output_schema(Arc::new(output_schema(tool.output_schema())));
    }
    if let Some(longest) = tool.max_characters {
        let meta = JsonObject::from_iter([(MAX_RESULT_SIZE_KEY.to_owned(), longest.into())]);
        listed = listed.with_meta(MetaObject(meta));
    }
    listed
}

/// The hints that differ from what the protocol says of a tool without them: each costs tokens.
fn annotations(hints: Hints) -> ToolAnnotations {
    let said = |hint: bool, otherwise: bool| (hint != otherwise).then_some(hint);
    ToolAnnotations::from_raw(
        None,
        said(hints.read_only, false),
        // Whether it destroys something, and does so once more, is asked only of a tool that changes something.
        said(hints.destructive, true).filter(|_| !hints.read_only),
        said(hints.idempotent, false).filter(|_| !hints.read_only),
        said(hints.open_world, true),
    )
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

/// An answer: text and pictures, and its facts beside them where they are asked for.
pub(super) fn result(reply: Reply, results: ResultFormat) -> CallToolResult {
    let failed = reply.is_failure();
    let (blocks, facts) = match results {
        ResultFormat::Text => (reply.for_model(), None),
        ResultFormat::Structured => {
            let facts = Value::Object(reply.structured());
            (reply.for_program(), Some(facts))
        }
    };
    let mut result = CallToolResult::success(blocks.into_iter().map(block).collect());
    result.structured_content = facts;
    result.is_error = Some(failed);
    result
}

fn block(block: Block) -> ContentBlock {
    match block {
        Block::Text(text) => ContentBlock::text(text),
        Block::Image { bytes, mime } => ContentBlock::image(BASE64.encode(bytes), mime),
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
