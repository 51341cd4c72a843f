//! The fields of a tool's input and output, and the JSON Schema made from them.
//!
//! The schemas use only what every provider's tool calling accepts: plain types, `enum`, `minimum` and `maximum`,
//! `items`, `required`, and `additionalProperties: false`.

use serde_json::{Map, Value, json};

use crate::organization::FolderScope;

/// One parameter of a tool, or one fact of its reply.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// The type of its value.
    pub field_type: FieldType,
    /// Whether the field is always present.
    pub required: bool,
    /// The description in the schema; empty if the name says enough.
    pub description: &'static str,
}

/// The type of a field's value.
#[derive(Debug, Clone, Copy)]
pub enum FieldType {
    /// Any text.
    Text,
    /// A path.
    Path,
    /// A version tag, as a read returned it.
    Tag,
    /// A list of texts with at least one element.
    TextList {
        /// The most elements.
        max: usize,
    },
    /// A non-negative whole number.
    Integer {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// True or false.
    Flag,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// The name of a scope in which folders are discovered. It is refused in the words of the scope's own error.
    FolderScope,
    /// An object with these fields.
    Object(&'static [Field]),
    /// A list of objects with these fields.
    ObjectList(&'static [Field]),
}

/// The largest integer that JSON readers of every language represent exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

impl FieldType {
    /// A whole number of at least `min`.
    pub(super) const fn integer_from(min: u64) -> FieldType {
        FieldType::Integer { min, max: MAX_SAFE_INTEGER }
    }

    /// The type in words, for an error: "`limit` takes …".
    pub fn describe(&self) -> String {
        match self {
            FieldType::Text => "a string".to_owned(),
            FieldType::Path => "a path, such as \"/notes/plan.md\"".to_owned(),
            FieldType::Tag => "a version tag, as a read returned it".to_owned(),
            FieldType::TextList { max } => format!("a list of 1 to {max} strings"),
            FieldType::Integer { min, max: MAX_SAFE_INTEGER } => {
                format!("a whole number of at least {min}")
            }
            FieldType::Integer { min, max } => format!("a whole number from {min} to {max}"),
            FieldType::Flag => "true or false".to_owned(),
            FieldType::OneOf(texts) => one_of(texts),
            FieldType::FolderScope => one_of(&FolderScope::NAMES),
            FieldType::Object(fields) => format!("an object with {}", field_names(fields)),
            FieldType::ObjectList(fields) => format!("a list of objects with {}", field_names(fields)),
        }
    }

    fn schema(&self) -> Map<String, Value> {
        let schema = match self {
            FieldType::Text | FieldType::Path | FieldType::Tag => json!({ "type": "string" }),
            FieldType::TextList { .. } => json!({ "type": "array", "items": { "type": "string" } }),
            FieldType::Integer { min, max: MAX_SAFE_INTEGER } => {
                json!({ "type": "integer", "minimum": min })
            }
            FieldType::Integer { min, max } => {
                json!({ "type": "integer", "minimum": min, "maximum": max })
            }
            FieldType::Flag => json!({ "type": "boolean" }),
            FieldType::OneOf(texts) => json!({ "type": "string", "enum": texts }),
            FieldType::FolderScope => json!({ "type": "string", "enum": FolderScope::NAMES }),
            FieldType::Object(fields) => object_schema(fields).into(),
            FieldType::ObjectList(fields) => json!({ "type": "array", "items": object_schema(fields) }),
        };
        match schema {
            Value::Object(schema) => schema,
            _ => unreachable!("every schema is an object"),
        }
    }
}

impl Field {
    /// A field that is always present.
    pub(super) const fn required(
        name: &'static str,
        field_type: FieldType,
        description: &'static str,
    ) -> Field {
        Field { name, field_type, required: true, description }
    }

    /// A field that may be absent.
    pub(super) const fn optional(
        name: &'static str,
        field_type: FieldType,
        description: &'static str,
    ) -> Field {
        Field { name, field_type, required: false, description }
    }
}

fn one_of(texts: &[&str]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    format!("one of {}", texts.join(", "))
}

fn field_names(fields: &[Field]) -> String {
    let names: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name)).collect();
    names.join(", ")
}

/// The JSON Schema of an object with exactly these fields.
pub(super) fn object_schema(fields: &[Field]) -> Map<String, Value> {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = field.field_type.schema();
        if !field.description.is_empty() {
            schema.insert("description".to_owned(), field.description.into());
        }
        properties.insert(field.name.to_owned(), schema.into());
    }
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("required".to_owned(), required.into());
    schema.insert("additionalProperties".to_owned(), false.into());
    schema
}
