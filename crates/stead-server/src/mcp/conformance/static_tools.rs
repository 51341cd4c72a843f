//! The suite's tools, and the results of those that always return the same.

use rmcp::model::Tool;
use serde_json::{Value, json};

use super::from_json;

/// A picture: one red pixel.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A sound without any samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// The tools, with their arguments. All arguments are strings, and required.
const TOOLS: [(&str, &[&str]); 24] = [
    ("test_simple_text", &[]),
    ("test_image_content", &[]),
    ("test_audio_content", &[]),
    ("test_embedded_resource", &[]),
    ("test_multiple_content_types", &[]),
    ("test_error_handling", &[]),
    ("test_tool_with_logging", &[]),
    ("test_logging_tool", &[]),
    ("test_tool_with_progress", &[]),
    ("test_sampling", &["prompt"]),
    ("test_elicitation", &["message"]),
    ("test_elicitation_sep1034_defaults", &[]),
    ("test_elicitation_sep1330_enums", &[]),
    ("test_missing_capability", &[]),
    ("test_trigger_tool_change", &[]),
    ("test_streaming_elicitation", &[]),
    ("test_input_required_result_elicitation", &[]),
    ("test_input_required_result_sampling", &[]),
    ("test_input_required_result_list_roots", &[]),
    ("test_input_required_result_request_state", &[]),
    ("test_input_required_result_multiple_inputs", &[]),
    ("test_input_required_result_multi_round", &[]),
    ("test_input_required_result_tampered_state", &[]),
    ("test_input_required_result_capabilities", &[]),
];

/// The tools, as a client lists them.
pub(super) fn tools() -> impl Iterator<Item = Tool> {
    TOOLS.iter().map(|(name, arguments)| {
        let properties: serde_json::Map<_, _> =
            arguments.iter().map(|argument| ((*argument).to_owned(), json!({ "type": "string" }))).collect();
        from_json(json!({
            "name": name,
            "description": "A fixture of the conformance suite.",
            "inputSchema": { "type": "object", "properties": properties, "required": arguments },
        }))
    })
}

/// A result that consists of one text.
pub(super) fn text_result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// The result of a tool that always returns the same; `None` for other tools.
pub(super) fn static_result(tool: &str) -> Option<Value> {
    let image = json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    Some(match tool {
        "test_simple_text" => text_result("This is a simple text response for testing."),
        "test_image_content" => json!({ "content": [image] }),
        "test_audio_content" => {
            json!({ "content": [{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }] })
        }
        "test_embedded_resource" => json!({ "content": [{ "type": "resource", "resource": {
            "uri": "test://embedded-resource",
            "mimeType": "text/plain",
            "text": "This is an embedded resource content.",
        }}]}),
        "test_multiple_content_types" => json!({ "content": [
            { "type": "text", "text": "Multiple content types test:" },
            image,
            { "type": "resource", "resource": {
                "uri": "test://mixed-content-resource",
                "mimeType": "application/json",
                "text": json!({ "test": "data", "value": 123 }).to_string(),
            }},
        ]}),
        "test_error_handling" => {
            let mut result = text_result("This tool intentionally returns an error for testing");
            result["isError"] = true.into();
            result
        }
        _ => return None,
    })
}
