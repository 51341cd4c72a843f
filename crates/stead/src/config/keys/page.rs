//! Writes docs/reference/stead.toml.md from the table of keys.

use std::fmt::Write as _;
use std::path::Path;

use super::{DefaultValue, Key, ROOT, TableKeys, ValueKind};
use crate::Config;

const INTRODUCTION: &str = "# stead.toml

Every table and key of the configuration file. `stead config check` reports everything that is wrong with a file, with line
numbers. This page is made from the table of keys that the reader of the file uses.

Editors complete and check the file with its JSON Schema. Write it with `stead config schema > stead.schema.json`, and make
this the first line of `stead.toml` (for the editors that use Taplo):

```toml
#:schema ./stead.schema.json
```

Sizes have a unit: `B`, `KiB`, `MiB`, `GiB` or `TiB`. So have lengths of time: `s`, `m`, `h`, `d` or `w`.
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    write_table(&mut page, &ROOT);
    page
}

fn write_table(page: &mut String, table: &TableKeys) {
    let (used, reserved): (Vec<_>, Vec<_>) =
        table.keys.iter().partition(|key| key.default != DefaultValue::NoEffect);
    if used.is_empty() || page.contains(&format!("## {}\n", title(table))) {
        return;
    }
    write!(page, "\n## {}\n\n{}\n\n", title(table), table.description).unwrap();
    page.push_str("| key | type | default | meaning | example |\n|---|---|---|---|---|\n");
    for key in &used {
        let default = match key.default {
            DefaultValue::Required => "required",
            DefaultValue::Is(default) => default,
            DefaultValue::NoEffect => unreachable!("these are listed below the table"),
        };
        let default = if default.starts_with(['"', '[']) || default.parse::<f64>().is_ok() {
            format!("`{default}`")
        } else {
            default.to_owned()
        };
        let example =
            if key.example.is_empty() { String::new() } else { format!("`{} = {}`", key.name, key.example) };
        let kind = type_name(key.value);
        writeln!(page, "| `{}` | {kind} | {default} | {} | {example} |", key.name, key.description).unwrap();
    }
    if !reserved.is_empty() {
        let names: Vec<_> = reserved.iter().map(|key| format!("`{}`", key.name)).collect();
        write!(page, "\nReserved, without effect in this version: {}.\n", names.join(", ")).unwrap();
    }
    for key in used {
        match key.value {
            ValueKind::Table(inner) | ValueKind::BooleanOrTable(inner) | ValueKind::TableList(inner) => {
                write_table(page, inner);
            }
            ValueKind::NamedTables(kinds) => kinds.iter().for_each(|inner| write_table(page, inner)),
            _ => {}
        }
    }
}

fn title(table: &TableKeys) -> String {
    match table.header.split_once(" with ") {
        _ if table.header.is_empty() => "The file".to_owned(),
        Some((header, condition)) => format!("`{header}` with `{condition}`"),
        None => format!("`{}`", table.header),
    }
}

fn type_name(kind: ValueKind) -> String {
    match kind {
        ValueKind::Text => "text".to_owned(),
        ValueKind::Number => "number".to_owned(),
        ValueKind::Boolean => "true or false".to_owned(),
        ValueKind::Texts => "list of texts".to_owned(),
        ValueKind::OneOf(choices) => {
            choices.iter().map(|choice| format!("`\"{choice}\"`")).collect::<Vec<_>>().join(", ")
        }
        ValueKind::Size => "size".to_owned(),
        ValueKind::Duration => "length of time".to_owned(),
        ValueKind::Days => "number of days or \"never\"".to_owned(),
        ValueKind::Table(_) => "table".to_owned(),
        ValueKind::BooleanOrTable(_) => "true, false or table".to_owned(),
        ValueKind::NamedTables(_) => "tables with names".to_owned(),
        ValueKind::TableList(_) => "list of tables".to_owned(),
        ValueKind::Anything => "table".to_owned(),
    }
}

/// Everything that the file may contain, each key with its example.
fn file_of_examples(kind: &str) -> String {
    let mut file = String::new();
    write_examples(&mut file, "", &ROOT, kind);
    file
}

fn write_examples(file: &mut String, path: &str, table: &TableKeys, kind: &str) {
    // An organization has its records in files or here, and a Workspace a thread's own files or a review, so not both are in
    // the file.
    let is_alternative = |key: &&Key| {
        table.header == "[[organization]]" && key.name == "path"
            || table.header.ends_with("workspaces]]") && key.name == "fork"
    };
    let examples = table.keys.iter().filter(|key| !key.example.is_empty());
    for key in examples.filter(|key| !is_alternative(key)) {
        writeln!(file, "{} = {}", key.name, key.example).unwrap();
    }
    for key in table.keys {
        let inner = format!("{path}{}", key.name);
        match key.value {
            // An example gives `keep` as a boolean.
            ValueKind::Table(table) => {
                writeln!(file, "[{inner}]").unwrap();
                write_examples(file, &format!("{inner}."), table, kind);
            }
            ValueKind::TableList(table) => {
                writeln!(file, "[[{inner}]]").unwrap();
                write_examples(file, &format!("{inner}."), table, kind);
            }
            ValueKind::NamedTables(kinds) => {
                let table = kinds.iter().find(|table| table.header.contains(kind)).unwrap_or(&kinds[0]);
                writeln!(file, "[{inner}.code]").unwrap();
                write_examples(file, &format!("{inner}.code."), table, kind);
            }
            _ => {}
        }
    }
}

#[test]
fn the_examples_of_all_keys_are_a_valid_file() {
    for kind in ["physical", "virtual", "memory"] {
        // The example has the records of an organization in the file itself.
        let file = file_of_examples(kind).replace("path = \"organizations/acme\"\n", "");
        let parsed = Config::parse(&file, Path::new("/srv/stead.toml"));
        assert!(parsed.is_ok(), "{file}\n{}", parsed.unwrap_err());
    }
}

#[test]
fn the_reference_page_is_what_the_code_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/stead.toml.md");
    if std::env::var_os("STEAD_WRITE_REFERENCE").is_some() {
        std::fs::write(&file, page()).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page(), "docs/reference/stead.toml.md is out of date: run `cargo xtask reference`");
}

#[test]
fn the_page_has_every_key_that_has_an_effect() {
    let page = page();
    for name in
        ["url", "durability", "keep", "namespace", "prefix", "protect", "scratch", "file_bytes", "structured"]
    {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    assert!(!page.contains("| `executor` |"), "a key without effect is only named");
}
