//! The schemas use only what every provider's tool calling accepts, and replies match them.

use super::*;

/// The keywords allowed in a schema: those that OpenAI's strict mode, Anthropic's and Gemini's tool calling all
/// support.
const KEYWORDS: [&str; 9] = [
    "type",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "minimum",
    "maximum",
];

fn portable(schema: &Value, at: &str) {
    let schema = schema.as_object().unwrap_or_else(|| panic!("{at}: no object"));
    for key in schema.keys() {
        assert!(KEYWORDS.contains(&key.as_str()), "{at}: `{key}` is not taken everywhere");
    }
    let kind = schema["type"].as_str().unwrap_or_else(|| panic!("{at}: one type, as a text"));
    match kind {
        "object" => {
            assert_eq!(schema["additionalProperties"], false, "{at}");
            let properties = schema["properties"].as_object().unwrap();
            for name in schema["required"].as_array().unwrap() {
                assert!(
                    properties.contains_key(name.as_str().unwrap()),
                    "{at}: {name} is required, but unknown"
                );
            }
            properties.iter().for_each(|(name, schema)| portable(schema, &format!("{at}.{name}")));
        }
        "array" => portable(&schema["items"], &format!("{at}[]")),
        "string" | "integer" | "boolean" => {}
        other => panic!("{at}: `{other}`"),
    }
}

#[test]
fn schemas_hold_only_what_every_provider_takes() {
    for tool in TOOLS {
        portable(&tool.input_schema().into(), tool.name);
        portable(&tool.output_schema().into(), tool.name);
        let input = tool.input_schema();
        for (name, schema) in input["properties"].as_object().unwrap() {
            let about = schema["description"].as_str().unwrap();
            assert!(about.ends_with('.') && about.len() > 8, "{}.{name}: {about}", tool.name);
        }
        assert!((40..=700).contains(&tool.description.len()), "{}: {}", tool.name, tool.description.len());
        let fits = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(fits(tool.name) && tool.name.len() <= 64);
    }
}

/// Asserts that a value matches a schema.
pub(super) fn keeps_to(value: &Value, schema: &Value, at: &str) {
    match schema["type"].as_str().unwrap() {
        "object" => {
            let value = value.as_object().unwrap_or_else(|| panic!("{at}: {value}"));
            for (name, value) in value {
                let schema = schema["properties"]
                    .get(name)
                    .unwrap_or_else(|| panic!("{at}.{name} is not in the schema"));
                keeps_to(value, schema, &format!("{at}.{name}"));
            }
            for name in schema["required"].as_array().unwrap() {
                assert!(value.contains_key(name.as_str().unwrap()), "{at}: {name} is missing");
            }
        }
        "array" => {
            value
                .as_array()
                .unwrap()
                .iter()
                .for_each(|value| keeps_to(value, &schema["items"], &format!("{at}[]")));
        }
        "string" => {
            let text = value.as_str().unwrap_or_else(|| panic!("{at}: {value}"));
            assert!(schema.get("enum").is_none_or(|texts| texts.as_array().unwrap().contains(&text.into())));
        }
        "integer" => {
            let number = value.as_u64().unwrap_or_else(|| panic!("{at}: {value}"));
            assert!(number >= schema["minimum"].as_u64().unwrap());
        }
        "boolean" => assert!(value.is_boolean(), "{at}: {value}"),
        other => panic!("{at}: `{other}`"),
    }
}
