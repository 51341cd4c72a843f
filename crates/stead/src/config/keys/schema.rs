use serde_json::{Map, Value, json};
use stead_core::managed::MAX_TTL_DAYS;

use super::{DefaultValue, Key, ROOT, TableKeys, ValueKind};

const SIZE_PATTERN: &str = "^[0-9]+ *(B|KiB|MiB|GiB|TiB)$";
const DURATION_PATTERN: &str = "^[0-9]+ *(s|m|h|d|w)$";

/// The JSON Schema of `stead.toml`, for editors.
pub fn json_schema() -> Value {
    let mut schema = table(&ROOT);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("stead.toml");
    schema
}

fn table(table: &TableKeys) -> Value {
    let properties: Map<String, Value> =
        table.keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<&str> =
        table.keys.iter().filter(|key| key.default == DefaultValue::Required).map(|key| key.name).collect();
    json!({
        "type": "object",
        "description": table.description,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property(key: &Key) -> Value {
    let mut property = value(key.value);
    property["description"] = json!(match key.default {
        DefaultValue::Required => format!("{}.", key.description),
        DefaultValue::Is(default) => format!("{}. DefaultValue: {default}.", key.description),
        DefaultValue::NoEffect => "Reserved: has no effect in this version.".to_owned(),
    });
    // A value that has an example is written in TOML as in JSON.
    if let Ok(example) = serde_json::from_str::<Value>(key.example) {
        property["examples"] = json!([example]);
    }
    property
}

fn value(kind: ValueKind) -> Value {
    match kind {
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Number => json!({ "type": "integer", "minimum": 0 }),
        ValueKind::Boolean => json!({ "type": "boolean" }),
        ValueKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        ValueKind::OneOf(choices) => json!({ "enum": choices }),
        ValueKind::Size => json!({ "type": "string", "pattern": SIZE_PATTERN }),
        ValueKind::Duration => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        ValueKind::Days => {
            json!({ "anyOf": [{ "type": "integer", "minimum": 1, "maximum": MAX_TTL_DAYS }, { "const": "never" }] })
        }
        ValueKind::Table(keys) => table(keys),
        ValueKind::BooleanOrTable(keys) => json!({ "anyOf": [{ "type": "boolean" }, table(keys)] }),
        ValueKind::NamedTables([only]) => json!({ "type": "object", "additionalProperties": table(only) }),
        ValueKind::NamedTables(kinds) => {
            let kinds: Vec<Value> = kinds.iter().map(|keys| table(keys)).collect();
            json!({ "type": "object", "additionalProperties": { "oneOf": kinds } })
        }
        ValueKind::TableList(keys) => json!({ "type": "array", "items": table(keys) }),
        ValueKind::Anything => json!({}),
    }
}
