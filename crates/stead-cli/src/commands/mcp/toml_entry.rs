//! Edits an entry of `[mcp_servers]` in a TOML file. Comments, order and layout stay.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::host::{EditError, EntryKeys};

const SERVERS: &str = "mcp_servers";

/// Sets these keys of an entry. Other keys of the entry stay.
pub(super) fn set(text: &str, name: &str, keys: &EntryKeys) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let servers = document.entry(SERVERS).or_insert_with(|| {
        // Written only as part of `[mcp_servers.NAME]`.
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers.as_table_like_mut().ok_or_else(|| EditError::WrongType(SERVERS.to_owned()))?;
    let is_command =
        servers.get(name).and_then(Item::as_table_like).is_some_and(|entry| entry.contains_key("command"));
    if !is_command {
        servers.insert(name, Item::Table(Table::new()));
    }
    let entry = servers.get_mut(name).and_then(Item::as_table_like_mut);
    let entry = entry.ok_or_else(|| EditError::WrongType(format!("{SERVERS}.{name}")))?;
    for (key, new) in keys {
        set_key(entry, key, new);
    }
    Ok(document.to_string())
}

/// Removes an entry.
pub(super) fn remove(text: &str, name: &str) -> Result<String, EditError> {
    let mut document = parse(text)?;
    if let Some(servers) = document.get_mut(SERVERS) {
        let servers = servers.as_table_like_mut().ok_or_else(|| EditError::WrongType(SERVERS.to_owned()))?;
        servers.remove(name);
    }
    Ok(document.to_string())
}

fn parse(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Invalid(error.message().replace('\n', " ")))
}

/// Sets a key, and leaves it alone if it has the value already, so that its layout stays.
fn set_key(entry: &mut dyn TableLike, key: &str, new: &Value) {
    let texts = |item: &Item| -> Option<Vec<String>> {
        item.as_array()?.iter().map(|element| element.as_str().map(str::to_owned)).collect()
    };
    match new {
        Value::Array(elements) => {
            let elements: Vec<_> =
                elements.iter().map(|element| element.as_str().unwrap_or_default().to_owned()).collect();
            if entry.get(key).and_then(texts).as_ref() != Some(&elements) {
                entry.insert(key, value(Array::from_iter(elements)));
            }
        }
        new => {
            let new = new.as_str().unwrap_or_default();
            if entry.get(key).and_then(Item::as_str) != Some(new) {
                entry.insert(key, value(new));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    fn keys(argument: &str) -> EntryKeys {
        vec![("command", json!("stead")), ("args", json!(["mcp", argument]))]
    }

    #[test]
    fn an_entry_is_added_and_everything_else_stays() {
        let text = "# mine\nmodel = \"x\"   # the good one\n\n[mcp_servers.docs]\ncommand = \"docs\"\n";
        let written = set(text, "stead", &keys("/a:rw")).unwrap();
        assert_snapshot!(written, @r#"
        # mine
        model = "x"   # the good one

        [mcp_servers.docs]
        command = "docs"

        [mcp_servers.stead]
        command = "stead"
        args = ["mcp", "/a:rw"]
        "#);
        assert_eq!(set(&written, "stead", &keys("/a:rw")).unwrap(), written, "a second run changes nothing");
        assert_eq!(remove(&written, "stead").unwrap().trim_end(), text.trim_end());
        assert_eq!(remove(text, "stead").unwrap(), text);
        assert_eq!(remove("", "stead").unwrap(), "");
    }

    #[test]
    fn an_entry_is_changed_in_place_with_its_other_keys() {
        let text = "[mcp_servers.stead]\n# started by hand\ncommand = \"stead\"\nargs = [\n  \"mcp\", \"/old\",\n]\nstartup_timeout_sec = 20\n\n[tui]\ntheme = \"dark\"\n";
        assert_snapshot!(set(text, "stead", &keys("/new")).unwrap(), @r#"
        [mcp_servers.stead]
        # started by hand
        command = "stead"
        args = ["mcp", "/new"]
        startup_timeout_sec = 20

        [tui]
        theme = "dark"
        "#);
        assert_eq!(set(text, "stead", &keys("/old")).unwrap(), text, "the layout of equal values stays");
    }

    #[test]
    fn an_entry_for_a_remote_server_is_replaced() {
        let written = set("[mcp_servers.stead]\nurl = \"http://localhost\"\n", "stead", &keys("/a")).unwrap();
        assert!(!written.contains("url") && written.contains("command = \"stead\""), "{written}");
    }

    #[test]
    fn an_inline_table_stays_one() {
        let text = "mcp_servers = { docs = { command = \"docs\" } }\n";
        let written = set(text, "stead", &keys("/a")).unwrap();
        assert_eq!(written.lines().count(), 1, "{written}");
        assert_eq!(set(&written, "stead", &keys("/a")).unwrap(), written);
    }

    #[test]
    fn a_file_that_is_broken_or_has_another_type_there_is_refused() {
        assert!(matches!(set("a = [", "stead", &keys("/a")), Err(EditError::Invalid(_))));
        for text in ["mcp_servers = 1", "mcp_servers = [1]"] {
            assert!(matches!(set(text, "stead", &keys("/a")), Err(EditError::WrongType(_))), "{text}");
            assert!(matches!(remove(text, "stead"), Err(EditError::WrongType(_))), "{text}");
        }
    }
}
