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

fn assert_portable(schema: &Value, location: &str) {
    let schema = schema.as_object().unwrap_or_else(|| panic!("{location}: not an object"));
    for key in schema.keys() {
        assert!(KEYWORDS.contains(&key.as_str()), "{location}: not every provider accepts `{key}`");
    }
    let kind = schema["type"].as_str().unwrap_or_else(|| panic!("{location}: `type` has to be one string"));
    match kind {
        "object" => {
            assert_eq!(schema["additionalProperties"], false, "{location}");
            let properties = schema["properties"].as_object().unwrap();
            for name in schema["required"].as_array().unwrap() {
                assert!(
                    properties.contains_key(name.as_str().unwrap()),
                    "{location}: {name} is required, but isn't a property"
                );
            }
            properties
                .iter()
                .for_each(|(name, schema)| assert_portable(schema, &format!("{location}.{name}")));
        }
        "array" => assert_portable(&schema["items"], &format!("{location}[]")),
        "string" | "integer" | "boolean" => {}
        other => panic!("{location}: `{other}`"),
    }
}

#[test]
fn schemas_use_only_keywords_that_every_provider_accepts() {
    for tool in TOOLS {
        assert_portable(&tool.input_schema().into(), tool.name);
        assert_portable(&tool.output_schema().into(), tool.name);
        let input = tool.input_schema();
        for (name, schema) in input["properties"].as_object().unwrap() {
            let description = schema["description"].as_str().unwrap();
            assert!(
                description.ends_with('.') && description.len() > 8,
                "{}.{name}: {description}",
                tool.name
            );
        }
        assert!((40..=700).contains(&tool.description.len()), "{}: {}", tool.name, tool.description.len());
        let fits = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(fits(tool.name) && tool.name.len() <= 64);
    }
}

/// Asserts that a value matches a schema.
pub(super) fn assert_matches_schema(value: &Value, schema: &Value, location: &str) {
    match schema["type"].as_str().unwrap() {
        "object" => {
            let value = value.as_object().unwrap_or_else(|| panic!("{location}: {value}"));
            for (name, value) in value {
                let schema = schema["properties"]
                    .get(name)
                    .unwrap_or_else(|| panic!("{location}.{name} is not in the schema"));
                assert_matches_schema(value, schema, &format!("{location}.{name}"));
            }
            for name in schema["required"].as_array().unwrap() {
                assert!(value.contains_key(name.as_str().unwrap()), "{location}: {name} is missing");
            }
        }
        "array" => {
            value
                .as_array()
                .unwrap()
                .iter()
                .for_each(|value| assert_matches_schema(value, &schema["items"], &format!("{location}[]")));
        }
        "string" => {
            let text = value.as_str().unwrap_or_else(|| panic!("{location}: {value}"));
            assert!(schema.get("enum").is_none_or(|texts| texts.as_array().unwrap().contains(&text.into())));
        }
        "integer" => {
            let number = value.as_u64().unwrap_or_else(|| panic!("{location}: {value}"));
            assert!(number >= schema["minimum"].as_u64().unwrap());
        }
        "boolean" => assert!(value.is_boolean(), "{location}: {value}"),
        other => panic!("{location}: `{other}`"),
    }
}
