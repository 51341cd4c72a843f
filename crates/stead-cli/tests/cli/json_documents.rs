//! What `--json` prints is what `docs/reference/json.schema.json` describes: no field is missing, of another type, or
//! undocumented.

use std::collections::BTreeSet;

use crate::common::TestDir;
use serde_json::Value;

/// The part of JSON Schema that the schema uses.
struct Schema(Value);

impl Schema {
    fn load() -> Self {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/json.schema.json");
        Schema(serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap())
    }

    /// Checks a document that a command printed against the documents that it may print.
    fn check_document(&self, command: &str, document: &Value) {
        let allowed = self.0["x-commands"][command]
            .as_array()
            .unwrap_or_else(|| panic!("{command} isn't in the schema"));
        let errors: Vec<_> =
            allowed.iter().map_while(|schema| self.check(schema, document, "$").err()).collect();
        assert!(errors.len() < allowed.len(), "{command}: {document}\n{}", errors.join("\n"));
    }

    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix("#/$defs/").unwrap();
            return self.check(&self.0["$defs"][name], value, at);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            let errors: Vec<_> =
                choices.iter().map_while(|choice| self.check(choice, value, at).err()).collect();
            return if errors.len() < choices.len() { Ok(()) } else { Err(errors.join(" or ")) };
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => return Ok(()),
        };
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if !types.contains(&found) {
            return Err(format!("{at} is {found}, not {types:?}"));
        }
        for item in value.as_array().into_iter().flatten() {
            self.check(&schema["items"], item, &format!("{at}[]"))?;
        }
        let Some(fields) = value.as_object() else { return Ok(()) };
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(required) {
                return Err(format!("{at}.{required} is missing"));
            }
        }
        for (name, field) in fields {
            match (schema["properties"].get(name), schema.get("additionalProperties")) {
                (Some(schema), _) => self.check(schema, field, &format!("{at}.{name}"))?,
                (None, Some(_)) => {}
                (None, None) => return Err(format!("{at}.{name} is undocumented")),
            }
        }
        Ok(())
    }
}

const CONFIG: &str = r#"
[stores.site]
kind = "physical"
path = "site"
[stores.notes]
kind = "virtual"
[agents.ann.state]
enabled = true
[[agents.ann.workspaces]]
prefix = "/site"
scope = "rw"
store = "site"
[[agents.ann.workspaces]]
prefix = "/notes"
scope = "rw"
store = "notes"
"#;

const THREADS: &str = r#"
[stores.w]
kind = "virtual"
[agents.ann]
scope = "thread"
[[agents.ann.workspaces]]
prefix = "/w"
scope = "rw"
store = "w"
"#;

const MANAGED: &str = r#"
[stores.m]
kind = "virtual"
[[agents.ann.workspaces]]
prefix = "/m"
scope = "rw"
store = "m"
managed = true
"#;

const REVIEWED: &str = r#"
[stores.r]
kind = "virtual"
[[agents.ann.workspaces]]
prefix = "/r"
scope = "rw"
store = "r"
fork = "agent"
"#;

const ACME: &str = r#"
[stores.shared]
kind = "memory"
[[organization]]
id = "acme"
store = "shared"
toolWhitelist = ["read_file", "fly"]
[[organization.teams]]
id = "hr"
[[organization.agents]]
id = "eva"
teamId = "hr"
[[organization.agents]]
id = "bob"
"#;

#[test]
fn real_output_is_what_the_schema_describes() {
    let dir = TestDir::empty();
    dir.file("stead.toml", CONFIG);
    dir.file("site/index.html", "1\n2\n3\n");
    let schema = Schema::load();
    let mut checked = BTreeSet::new();
    let mut check = |command: &'static str, args: &[&str]| {
        let output = dir.stead(["--json"].into_iter().chain(args.iter().copied()));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.is_empty(), "{args:?} printed nothing: {}", String::from_utf8_lossy(&output.stderr));
        for line in text.lines() {
            schema.check_document(command, &serde_json::from_str(line).unwrap());
        }
        assert_eq!(output.status.success(), command != "(any)", "{args:?}: {text}");
        checked.insert(command);
        text
    };
    check("write", &["write", "/notes/a.md", "one\ntwo\n"]);
    check("append", &["append", "/notes/a.md", "three\n"]);
    let edited = check("edit", &["edit", "/notes/a.md", "two", "2"]);
    let excerpt = &serde_json::from_str::<serde_json::Value>(&edited).unwrap()["excerpt"];
    assert_eq!(excerpt["lines"][1], serde_json::json!({ "number": 2, "text": "2" }), "{edited}");
    assert_eq!(excerpt["complete"], true);
    check("mkdir", &["mkdir", "/notes/d"]);
    check("cp", &["cp", "/notes/a.md", "/notes/b.md"]);
    check("mv", &["mv", "/notes/b.md", "/notes/c.md"]);
    check("edit", &["edit", "/site/index.html", "2", "two"]);
    check("ls", &["ls", "/"]);
    check("ls", &["ls", "/notes"]);
    check("ls", &["ls", "-R", "/"]);
    check("tree", &["tree", "/"]);
    check("glob", &["glob", "**", "/"]);
    check("stat", &["stat", "/notes/a.md", "/", "/notes"]);
    check("cat", &["cat", "/notes/a.md"]);
    check("cat", &["cat", "--lines", "1:2", "/notes/a.md"]);
    check("cat", &["cat", "--bytes", "--limit", "2", "/notes/a.md"]);
    check("grep", &["grep", "-C", "1", "2", "/notes"]);
    check("state set", &["state", "set", "jobs/next", "1"]);
    check("state set", &["state", "set", "lock", "{}", "--expires-in", "2h", "--create-only"]);
    check("state get", &["state", "get", "lock"]);
    check("state list", &["state", "list", "--limit", "1"]);
    check("state delete", &["state", "delete", "lock"]);
    check("(any)", &["state", "get", "none"]);
    check("snapshot", &["snapshot", "--label", "first"]);
    check("snapshots", &["snapshots"]);
    check("rm", &["rm", "/notes/c.md"]);
    check("log", &["log"]);
    check("log", &["log", "-p"]);
    check("log", &["log", "--stat", "/site"]);
    check("diff", &["diff", "/", "first"]);
    check("diff", &["diff", "/notes", "1", "3", "--stat"]);
    check("diff", &["diff", "/notes", "1", "--name-only"]);
    check("blame", &["blame", "/notes/a.md"]);
    check("blame", &["blame", "/site/index.html"]);
    check("undo", &["undo", "-n"]);
    check("restore", &["restore", "/notes", "first"]);
    check("fork", &["fork", "/notes", "draft"]);
    check("forks", &["forks"]);
    check("forks", &["forks", "--all"]);
    check("edit", &["edit", "/forks/draft/a.md", "one", "1"]);
    check("merge", &["merge", "draft", "--dry-run"]);
    check("write", &["write", "/notes/new.md", "new\n"]);
    check("update", &["update", "draft"]);
    check("merge", &["merge", "draft"]);
    check("discard", &["discard", "draft"]);
    check("export", &["export", "/notes", "out"]);
    check("import", &["import", "out", "/notes/again"]);
    check("map", &["map"]);
    let token = check("token create", &["token", "create", "--expires", "1h"]);
    let id = serde_json::from_str::<Value>(&token).unwrap()["id"].as_str().unwrap().to_owned();
    check("token list", &["token", "list"]);
    check("token revoke", &["token", "revoke", &id]);
    dir.file("threads.toml", THREADS);
    let threads = ["--config", "threads.toml", "--thread", "t"];
    check("write", &[&threads[..], &["write", "/w/a", "1"]].concat());
    let threads = ["--config", "threads.toml", "threads"];
    check("threads list", &[&threads[..], &["list"]].concat());
    check("threads show", &[&threads[..], &["show", "t"]].concat());
    check("threads archive", &[&threads[..], &["archive", "t", "t.tar"]].concat());
    check("threads destroy", &[&threads[..], &["destroy", "-n", "t"]].concat());
    check("threads destroy", &[&threads[..], &["destroy", "t"]].concat());
    dir.file("managed.toml", MANAGED);
    let managed = ["--config", "managed.toml"];
    let written = check("write", &[&managed[..], &["write", "/m/plan.md", "1"]].concat());
    let written: Value = serde_json::from_str(&written).unwrap();
    let path = written["path"].as_str().unwrap().to_owned();
    let files = ["--config", "managed.toml", "files"];
    check("files list", &[&files[..], &["list"]].concat());
    check("files search", &[&files[..], &["search", "plan"]].concat());
    check("files info", &[&files[..], &["info", &path]].concat());
    check("files tag", &[&files[..], &["tag", &path, "pin"]].concat());
    check("files tree", &[&files[..], &["tree"]].concat());
    check("files cleanup", &[&files[..], &["cleanup", "--dry-run"]].concat());
    check("files sync", &[&files[..], &["sync"]].concat());
    let moved = check("files move", &[&files[..], &["move", &path, "data"]].concat());
    let moved: Value = serde_json::from_str(&moved).unwrap();
    check("files delete", &[&files[..], &["delete", moved["path"].as_str().unwrap()]].concat());
    dir.file("reviewed.toml", REVIEWED);
    let reviewed = ["--config", "reviewed.toml"];
    check("write", &[&reviewed[..], &["write", "/r/a", "1"]].concat());
    check("write", &[&reviewed[..], &["write", "/r/b", "2"]].concat());
    let reviews = ["--config", "reviewed.toml", "review"];
    check("review", &reviews);
    check("review", &[&reviews[..], &["ann/r", "--list"]].concat());
    check("review", &[&reviews[..], &["ann/r", "--take", "a"]].concat());
    check("audit", &["audit", "-n", "5"]);
    check("audit", &["audit", "--limit", "1000"]);
    check("audit verify", &["audit", "verify"]);
    check("audit archive", &["audit", "archive", "--before", "now"]);
    check("config check", &["config", "check"]);
    dir.file("acme.toml", ACME);
    check("org check", &["--config", "acme.toml", "org", "check"]);
    check("org show", &["--config", "acme.toml", "org", "show", "--agent", "eva"]);
    check("org who", &["--config", "acme.toml", "org", "who", "/workspaces/eva/shared"]);
    check("org graph", &["--config", "acme.toml", "org", "graph"]);
    check("org migrate", &["--config", "acme.toml", "org", "migrate", "--dry-run"]);
    check("verify", &["verify"]);
    check("gc", &["gc"]);
    check("backup", &["backup", "copy.db"]);
    check("restore-backup", &["restore-backup", "copy.db", "-y"]);
    check("doctor", &["doctor"]);
    check("init", &["init", "--dir", "site"]);
    check("man", &["man", "pages"]);
    check("(any)", &["cat", "/notes/none"]);
    check("(any)", &["ls", "--no-such-option"]);
    // `serve` and `mount` run until they are ended; their own tests read their first lines.
    checked.extend(["serve", "mount"]);
    let described: BTreeSet<&str> =
        schema.0["x-commands"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(checked, described);
}

#[test]
fn the_names_of_fields_are_in_snake_case() {
    let schema = Schema::load();
    for (document, definition) in schema.0["$defs"].as_object().unwrap() {
        for name in definition["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
            let is_snake_case = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(is_snake_case, "{document}.{name}");
        }
    }
}
