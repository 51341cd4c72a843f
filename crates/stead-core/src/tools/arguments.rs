//! A call's arguments, checked against the tool's fields before the tool runs.

use serde_json::{Map, Value};

use crate::name::escape_text;
use crate::organization::FolderScope;
use crate::store::TagRef;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Failure, Tool};

/// Arguments that were checked against their tool's fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Checks arguments as they came in. Unknown, missing or wrongly typed parameters are refused by name.
    pub(super) fn check(tool: &Tool, given: Map<String, Value>) -> Result<Arguments, Failure> {
        FieldChecker { tool, fields: tool.input, prefix: "" }.check(given).map(Arguments)
    }

    /// A required text.
    pub(super) fn text(&self, name: &str) -> &str {
        self.optional_text(name).expect("required parameters were checked")
    }

    pub(super) fn optional_text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A required text, moved out of the arguments because it may be large.
    pub(super) fn take_text(&mut self, name: &str) -> String {
        match self.0.get_mut(name).map(Value::take) {
            Some(Value::String(text)) => text,
            _ => unreachable!("required parameters were checked"),
        }
    }

    pub(super) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The objects of a list.
    pub(super) fn objects(&self, name: &str) -> impl Iterator<Item = &Map<String, Value>> {
        self.0.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
    }

    /// An object as arguments of their own; without any if it is absent.
    pub(super) fn object(&self, name: &str) -> Arguments {
        Arguments(self.0.get(name).and_then(Value::as_object).cloned().unwrap_or_default())
    }

    /// The objects of a list as arguments of their own, moved because they may be large.
    pub(super) fn take_objects(&mut self, name: &str) -> Vec<Arguments> {
        let list = match self.0.remove(name) {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        let objects = list.into_iter().filter_map(|value| match value {
            Value::Object(object) => Some(Arguments(object)),
            _ => None,
        });
        objects.collect()
    }

    /// A required scope.
    pub(super) fn folder_scope(&self, name: &str) -> FolderScope {
        self.text(name).parse().expect("scopes were checked")
    }

    /// A value as it was checked.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn tag(&self, name: &str) -> Option<TagRef> {
        let text = self.optional_text(name)?;
        Some(text.parse().expect("version tags were checked"))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// Whether a value counts as absent for an optional parameter. So no optional parameter can give one of these values a
/// meaning other than its default.
fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

/// Checks an object's values against the fields that it may have.
struct FieldChecker<'a> {
    tool: &'a Tool,
    fields: &'static [Field],
    /// What is before a field's name in an error, for the fields of an object in a list.
    prefix: &'a str,
}

impl FieldChecker<'_> {
    fn check(&self, given: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
        for name in given.keys() {
            if !self.fields.iter().any(|field| field.name == name) {
                return Err(self.unknown_parameter(name));
            }
        }
        let mut checked = Map::new();
        for (name, value) in given {
            let field = self.fields.iter().find(|field| field.name == name).expect("all names were checked");
            let value = accept_other_form(&field.field_type, value);
            // Some hosts make every parameter required, so a model has to fill in the ones it doesn't want to set.
            if !field.required && is_empty_value(&value) {
                continue;
            }
            checked.insert(name, self.check_value(field, value)?);
        }
        let missing = self.fields.iter().find(|field| field.required && !checked.contains_key(field.name));
        match missing {
            None => Ok(checked),
            Some(field) => Err(Failure::invalid(format!(
                "`{}` needs the parameter `{}{}`: {}",
                self.tool.name,
                self.prefix,
                field.name,
                field.field_type.describe()
            ))),
        }
    }

    fn unknown_parameter(&self, name: &str) -> Failure {
        let short_name: String = name.chars().take(64).collect();
        let known: Vec<_> = self.fields.iter().map(|field| format!("`{}`", field.name)).collect();
        let accepted = match known.as_slice() {
            [] => "it takes none".to_owned(),
            known => format!("it takes {}", known.join(", ")),
        };
        Failure::invalid(format!(
            "`{}` has no parameter `{}{}`; {accepted}",
            self.tool.name,
            self.prefix,
            escape_text(&short_name)
        ))
    }

    /// The value as the tool reads it, if its type fits the field.
    fn check_value(&self, field: &Field, value: Value) -> Result<Value, Failure> {
        let fits = match (&field.field_type, &value) {
            (FieldType::Text | FieldType::Path, Value::String(_)) | (FieldType::Flag, Value::Bool(_)) => true,
            (FieldType::Tag, Value::String(text)) => text.parse::<TagRef>().is_ok(),
            (FieldType::OneOf(texts), Value::String(text)) => texts.contains(&text.as_str()),
            (FieldType::FolderScope, Value::String(text)) => match text.parse::<FolderScope>() {
                Ok(_) => true,
                Err(invalid) => return Err(Failure::invalid(invalid.to_string())),
            },
            (FieldType::Object(_), Value::Object(_)) => true,
            (FieldType::TextList { max }, Value::Array(texts)) => {
                (1..=*max).contains(&texts.len()) && texts.iter().all(Value::is_string)
            }
            (FieldType::Integer { min, max }, Value::Number(_)) => {
                // Some models write whole numbers with a decimal point.
                let number = value.as_u64().or_else(|| as_whole_number(value.as_f64()?));
                if let Some(number) = number.filter(|number| (*min..=*max).contains(number)) {
                    return Ok(number.into());
                }
                false
            }
            (FieldType::ObjectList(_), Value::Array(objects)) => objects.iter().all(Value::is_object),
            _ => false,
        };
        match (&field.field_type, value) {
            (FieldType::ObjectList(fields), Value::Array(objects)) if fits => {
                self.check_objects(field, fields, objects)
            }
            (FieldType::Object(fields), Value::Object(object)) => {
                let prefix = format!("{}{}.", self.prefix, field.name);
                FieldChecker { fields, prefix: &prefix, ..*self }.check(object).map(Value::Object)
            }
            (_, value) if fits => Ok(value),
            (field_type, value) => Err(Failure::invalid(format!(
                "`{}` takes {} as its parameter `{}{}`, not {}",
                self.tool.name,
                field_type.describe(),
                self.prefix,
                field.name,
                describe_value(&value)
            ))),
        }
    }

    fn check_objects(
        &self,
        field: &Field,
        fields: &'static [Field],
        objects: Vec<Value>,
    ) -> Result<Value, Failure> {
        let objects = objects.into_iter().enumerate().map(|(index, object)| match object {
            Value::Object(object) => {
                let prefix = format!("{}{}[{index}].", self.prefix, field.name);
                let checker = FieldChecker { fields, prefix: &prefix, ..*self };
                checker.check(object).map(Value::Object)
            }
            other => unreachable!("{other} isn't an object"),
        });
        objects.collect::<Result<Vec<_>, _>>().map(Value::Array)
    }
}

/// The value that is meant, where a model or a host has written it in another form: a number, a flag or a list as text,
/// or one element where a list is expected.
fn accept_other_form(field_type: &FieldType, value: Value) -> Value {
    let text = match value {
        Value::String(text) => text,
        Value::Object(object) if matches!(field_type, FieldType::ObjectList(_)) => {
            return Value::Array(vec![object.into()]);
        }
        other => return other,
    };
    let other_form = match field_type {
        FieldType::Integer { .. } => text.trim().parse().ok().map(Value::Number),
        FieldType::Flag => text.trim().to_ascii_lowercase().parse().ok().map(Value::Bool),
        FieldType::Object(_) => serde_json::from_str(&text).ok().filter(Value::is_object),
        FieldType::TextList { .. } | FieldType::ObjectList(_) => {
            let list = serde_json::from_str(&text).ok().filter(Value::is_array);
            let element = || match field_type {
                FieldType::TextList { .. } if !text.is_empty() => Some(vec![text.clone()].into()),
                _ => None,
            };
            list.or_else(element)
        }
        FieldType::Text | FieldType::Path | FieldType::Tag | FieldType::OneOf(_) | FieldType::FolderScope => {
            None
        }
    };
    other_form.unwrap_or(Value::String(text))
}

fn as_whole_number(number: f64) -> Option<u64> {
    let is_exact = (0.0..9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
    is_exact.then_some(number as u64)
}

/// A short description of the wrong value, for an error.
fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.chars().count() <= 40 => format!("\"{}\"", escape_text(text)),
        Value::String(_) => "this string".to_owned(),
        Value::Array(values) => format!("a list of {}", values.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}
