//! The suite's prompts and resources.

use rmcp::model::{GetPromptResult, JsonObject, Prompt, ReadResourceResult, Resource, ResourceTemplate};
use serde_json::{Value, json};

use super::static_tools::PNG;
use super::{complete_result, from_json};

/// The prompts, with their arguments. All arguments are required.
const PROMPTS: [(&str, &[&str]); 5] = [
    ("test_simple_prompt", &[]),
    ("test_prompt_with_arguments", &["arg1", "arg2"]),
    ("test_prompt_with_embedded_resource", &["resourceUri"]),
    ("test_prompt_with_image", &[]),
    ("test_input_required_result_prompt", &[]),
];

const RESOURCES: [(&str, &str); 3] = [
    ("test://static-text", "text/plain"),
    ("test://static-binary", "image/png"),
    ("test://watched-resource", "text/plain"),
];

/// The prompts, as a client lists them.
pub(super) fn prompts() -> impl Iterator<Item = Prompt> {
    PROMPTS.iter().map(|(name, arguments)| {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|name| json!({ "name": name, "description": "An argument.", "required": true }))
            .collect();
        let description = "A fixture of the conformance suite.";
        from_json(json!({ "name": name, "description": description, "arguments": arguments }))
    })
}

/// The result of a prompt; `None` if it isn't one of the suite's.
pub(super) fn prompt(name: &str, arguments: &JsonObject) -> Option<GetPromptResult> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let text = |text: &str| json!({ "type": "text", "text": text });
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => vec![
            json!({ "type": "resource", "resource": {
                "uri": argument("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            json!({ "type": "image", "data": PNG, "mimeType": "image/png" }),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => vec![text("The context is known.")],
        _ => return None,
    };
    let messages: Vec<_> =
        contents.into_iter().map(|content| json!({ "role": "user", "content": content })).collect();
    Some(complete_result(json!({ "messages": messages })))
}

/// The resources, as a client lists them.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    RESOURCES.iter().map(|(uri, mime)| {
        let description = "A fixture of the conformance suite.";
        from_json(json!({ "uri": uri, "name": uri, "description": description, "mimeType": mime }))
    })
}

/// The template of the suite's resources.
pub(super) fn resource_template() -> ResourceTemplate {
    from_json(json!({
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "A fixture of the conformance suite.",
        "mimeType": "application/json",
    }))
}

/// The contents of a resource; `None` if it isn't one of the suite's.
pub(super) fn read_resource(uri: &str) -> Option<ReadResourceResult> {
    let contents = match uri {
        "test://static-text" | "test://watched-resource" => json!({
            "uri": uri,
            "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }),
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": PNG }),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() })
        }
    };
    Some(complete_result(json!({ "contents": [contents] })))
}
