//! Edits an entry in a JSON file. Comments, order and layout stay.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::host::{EditError, EntryKeys};

/// Which JSON the host reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// Plain JSON.
    Strict,
    /// With comments and trailing commas.
    WithComments,
}

/// Sets these keys of the entry `name` in the object `servers`. Other keys of the entry stay.
pub(super) fn set(
    text: &str,
    syntax: Syntax,
    servers: &str,
    name: &str,
    keys: &EntryKeys,
) -> Result<String, EditError> {
    // A new file is laid out like one that a person writes.
    let is_empty = text.trim().is_empty();
    let root = parse(if is_empty { "{}\n" } else { text }, syntax)?;
    let file =
        root.object_value_or_create().ok_or_else(|| EditError::WrongType("the whole file".to_owned()))?;
    let wrong_type = |key: &str| EditError::WrongType(key.to_owned());
    check_keys_differ(&file, servers, name)?;
    let entries = file.object_value_or_create(servers).ok_or_else(|| wrong_type(servers))?;
    match entries.object_value(name).filter(|entry| entry.get("command").is_some()) {
        Some(entry) => set_keys(&entry, keys),
        None => {
            let new = keys.iter().map(|(key, value)| ((*key).to_owned(), input_value(value))).collect();
            match entries.get(name) {
                Some(entry) => entry.set_value(CstInputValue::Object(new)),
                None => {
                    entries.append(name, CstInputValue::Object(new));
                }
            }
        }
    }
    Ok(root.to_string())
}

/// Removes the entry `name` from the object `servers`.
pub(super) fn remove(text: &str, syntax: Syntax, servers: &str, name: &str) -> Result<String, EditError> {
    if text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let root = parse(text, syntax)?;
    let file = root.object_value().ok_or_else(|| EditError::WrongType("the whole file".to_owned()))?;
    check_keys_differ(&file, servers, name)?;
    if let Some(entries) = file.get(servers) {
        let entries = entries.object_value().ok_or_else(|| EditError::WrongType(servers.to_owned()))?;
        if let Some(entry) = entries.get(name) {
            entry.remove();
        }
    }
    Ok(root.to_string())
}

/// Refuses a file in which the entry, or what leads to it, exists twice: it is unknown which of them the host reads.
fn check_keys_differ(file: &CstObject, servers: &str, name: &str) -> Result<(), EditError> {
    let count = |object: &CstObject, key: &str| {
        let names =
            object.properties().into_iter().filter_map(|property| property.name()?.decoded_value().ok());
        names.filter(|name| name == key).count()
    };
    let check = |object: &CstObject, key: &str| match count(object, key) {
        0 | 1 => Ok(object.object_value(key)),
        _ => Err(EditError::Duplicate(key.to_owned())),
    };
    let Some(entries) = check(file, servers)? else { return Ok(()) };
    let Some(entry) = check(&entries, name)? else { return Ok(()) };
    let keys = entry.properties().into_iter().filter_map(|property| property.name()?.decoded_value().ok());
    keys.into_iter().try_for_each(|key| check(&entry, &key).map(drop))
}

fn parse(text: &str, syntax: Syntax) -> Result<CstRootNode, EditError> {
    if syntax == Syntax::Strict {
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| EditError::Invalid(error.to_string()))?;
    }
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| EditError::Invalid(error.to_string()))
}

/// Sets the keys, and leaves alone those that have the value already, so that their layout stays.
fn set_keys(entry: &CstObject, keys: &EntryKeys) {
    for (key, value) in keys {
        match entry.get(key) {
            Some(current) => {
                if current.to_serde_value().as_ref() != Some(value) {
                    current.set_value(input_value(value));
                }
            }
            None => {
                entry.append(key, input_value(value));
            }
        }
    }
}

/// A text or a list of texts, as the editor takes it.
fn input_value(value: &Value) -> CstInputValue {
    match value {
        Value::Array(elements) => CstInputValue::Array(elements.iter().map(input_value).collect()),
        Value::String(text) => CstInputValue::String(text.clone()),
        other => CstInputValue::String(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    fn keys(argument: &str) -> EntryKeys {
        vec![("type", json!("stdio")), ("command", json!("stead")), ("args", json!(["mcp", argument]))]
    }

    fn set(text: &str, argument: &str) -> Result<String, EditError> {
        super::set(text, Syntax::WithComments, "servers", "stead", &keys(argument))
    }

    fn remove(text: &str) -> Result<String, EditError> {
        super::remove(text, Syntax::WithComments, "servers", "stead")
    }

    #[test]
    fn a_file_with_a_key_twice_on_the_way_to_the_entry_is_refused() {
        for (text, key) in [
            (r#"{"servers": {}, "servers": {}}"#, "servers"),
            (r#"{"servers": {"stead": {}, "st\u0065ad": {}}}"#, "stead"),
            (r#"{"servers": {"stead": {"command": "a", "command": "b"}}}"#, "command"),
        ] {
            assert_eq!(set(text, "."), Err(EditError::Duplicate(key.to_owned())));
            assert_eq!(remove(text), Err(EditError::Duplicate(key.to_owned())));
        }
        assert!(set(r#"{"a": 1, "a": 2, "servers": {"other": {"a": 1, "a": 2}}}"#, ".").is_ok());
    }

    #[test]
    fn a_file_that_does_not_exist_yet_is_laid_out_for_people() {
        assert_snapshot!(set("", "/a:rw").unwrap(), @r#"
        {
          "servers": {
            "stead": {
              "type": "stdio",
              "command": "stead",
              "args": ["mcp", "/a:rw"]
            }
          }
        }
        "#);
    }

    #[test]
    fn an_entry_is_added_and_everything_else_stays() {
        let text = "{\n\t// mine\n\t\"inputs\": [],   /* none */\n\t\"servers\": {\n\t\t\"docs\": { \"command\": \"docs\" }, // keep\n\t},\n}\n";
        let written = set(text, "/a").unwrap();
        for line in text.lines().filter(|line| line.trim().len() > 3) {
            assert!(written.contains(line), "{line} in {written}");
        }
        assert!(written.contains("\n\t\t\"stead\": {\n"), "{written}");
        assert_eq!(set(&written, "/a").unwrap(), written, "a second run changes nothing");
        assert_eq!(remove(&written).unwrap(), text);
        assert_eq!(remove(text).unwrap(), text);
    }

    #[test]
    fn an_entry_is_changed_in_place_with_its_other_keys() {
        let text = r#"{"servers": {"stead": {"command": "stead", "args": ["mcp",  "/old"], "env": {"A": "1"}}}, "z": 1}"#;
        let written = set(text, "/new").unwrap();
        let value: Value = serde_json::from_str(&written).unwrap();
        let entry =
            json!({ "command": "stead", "args": ["mcp", "/new"], "env": { "A": "1" }, "type": "stdio" });
        assert_eq!(value, json!({ "servers": { "stead": entry }, "z": 1 }));
        let unchanged = set(text, "/old").unwrap();
        assert!(unchanged.contains(r#"["mcp",  "/old"]"#), "the layout of equal values stays: {unchanged}");
    }

    #[test]
    fn an_entry_for_a_remote_server_is_replaced() {
        let written =
            set(r#"{"servers": {"stead": {"type": "http", "url": "http://localhost"}}}"#, "/a").unwrap();
        let value: Value = serde_json::from_str(&written).unwrap();
        let entry = json!({ "type": "stdio", "command": "stead", "args": ["mcp", "/a"] });
        assert_eq!(value, json!({ "servers": { "stead": entry } }));
    }

    #[test]
    fn a_file_that_is_broken_or_has_another_type_there_is_refused() {
        for text in ["{", "{\"servers\": {}", "{'servers': {}}", "{\"a\": 1 \"b\": 2}", "nonsense"] {
            assert!(matches!(set(text, "/a"), Err(EditError::Invalid(_))), "{text}");
            assert!(matches!(remove(text), Err(EditError::Invalid(_))), "{text}");
        }
        for text in ["[]", "1", "{\"servers\": []}", "{\"servers\": null}"] {
            assert!(matches!(set(text, "/a"), Err(EditError::WrongType(_))), "{text}");
            assert!(matches!(remove(text), Err(EditError::WrongType(_))), "{text}");
        }
    }

    #[test]
    fn a_host_that_reads_plain_json_gets_no_file_with_comments() {
        let strict = |text: &str| super::set(text, Syntax::Strict, "mcpServers", "stead", &keys("/a"));
        assert!(strict("{\"a\": 1}").is_ok());
        assert!(matches!(strict("{} // mine"), Err(EditError::Invalid(_))));
        assert!(matches!(strict("{\"a\": 1,}"), Err(EditError::Invalid(_))));
    }
}
