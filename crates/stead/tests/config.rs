//! What a person is told about a `stead.toml`. Each test compares the whole output.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use stead::config::{Config, StoreConfig};

fn check(text: &str) -> String {
    match Config::parse(text, Path::new("stead.toml")) {
        Ok(config) => {
            let notes: Vec<_> = config.warnings().iter().map(|note| format!("note: {note}")).collect();
            format!("fine\n{}", notes.join("\n"))
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn all_errors_are_reported_at_once_with_their_lines() {
    let text = r#"
[database]
url = "postgres://localhost/stead"
durability = "fsat"

[stores.code]
kind = "physical"

[stores.bucket]
kind = "s3"
bucket = "x"

[stores.notes]
kind = "virtul"

[stores.more]
kind = "virtual"
namespace = ["a", ""]
path = "x"

[agents.coder]
scope = "agents"
color = "green"

[[agents.coder.workspaces]]
prefx = "/project"
scope = "RO"
store = "cod"

[[agents.coder.workspaces]]
prefix = "/a/../.."
scope = "rw"
store = "elsewhere"
managed = "yes"
protect = ["[a"]
hide = ["!a", "!b{"]

[[agents.coder.workspaces]]
prefix = "/notes"
scope = "rw"
store = "notes"

[[agents.coder.workspaces]]
prefix = "notes/"
scope = "ro"
store = 7

[agents.idle]
description = "does nothing"

[stors.x]
kind = "memory"
"#;
    insta::assert_snapshot!(check(text), @r##"
    stead.toml:3:7: PostgreSQL is not supported in this version; use a file: "sqlite:stead.db"
    stead.toml:4:14: `fsat` isn't a valid durability; use `full` or `fast`
    stead.toml:6:9: `stores.code` needs `path`: the directory, relative to this file
    stead.toml:10:8: `kind` can't be `s3`; it takes `physical`, `virtual` and `memory`
    stead.toml:14:8: `kind` can't be `virtul`; did you mean `virtual`?
    stead.toml:18:19: a part of `namespace` is empty
    stead.toml:19:1: `path` isn't a known key of `stores.more`; it takes `kind` and `namespace`
    stead.toml:22:9: `scope` can't be `agents`; did you mean `agent`?
    stead.toml:23:1: `color` isn't a known key of `agents.coder`; it takes `description`, `workspaces`, `quota`, `tools`, `history`, `forks`, `ask`, `structured`, `scope`, `idle_timeout`, `thread` and `state`
    stead.toml:26:1: `prefx` isn't a known key of `agents.coder.workspaces`; did you mean `prefix`?
    stead.toml:27:9: `RO` isn't a valid Access Scope; use READ_ONLY (ro), READ_WRITE (rw) or WRITE_ONLY (wo)
    stead.toml:28:9: there is no Store `cod`; did you mean `code`?
    stead.toml:31:10: `/a/../..` goes above `/`; paths start at `/` and can't leave it
    stead.toml:33:9: there is no Store `elsewhere`; there are `code`, `bucket`, `notes` and `more`
    stead.toml:34:11: `managed` has to be true or false, not text
    stead.toml:35:12: `[a` isn't a valid glob: unclosed character class; missing ']'
    stead.toml:36:15: `b{` isn't a valid glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
    stead.toml:44:10: two Workspaces have the prefix `/notes`, here and in line 39; give each its own prefix
    stead.toml:46:9: `store` has to be text, not a number
    stead.toml:48:9: the agent `idle` has neither a Workspace nor an Executor, so it can do nothing; add [[agents.idle.workspaces]]
    stead.toml:51:2: `stors` isn't a known key of the file; did you mean `stores`?
    "##);
}

#[test]
fn a_toml_syntax_error_is_reported_alone() {
    insta::assert_snapshot!(check("[stores.code\nkind = \"physical\"\n\n[agents.coder]\nx = = 1\n"), @r#"
    stead.toml:1:13: unclosed table, expected `]`
    stead.toml:5:5: extra `=`, expected nothing
    stead.toml:5:7: unexpected key or value, expected newline, `#`
    "#);
}

#[test]
fn the_hidden_globs_of_a_workspace_count_instead_of_those_of_the_file() {
    let text = |top: &str| {
        format!(
            r#"
            {top}
            [stores.m]
            kind = "memory"
            [agents.coder]
            workspaces = [
              {{ prefix = "/none", scope = "ro", store = "m", hide = [] }},
              {{ prefix = "/own", scope = "ro", store = "m", hide = ["a", "!b"] }},
              {{ prefix = "/other", scope = "ro", store = "m" }},
            ]"#
        )
    };
    let hidden = |top: &str| -> Vec<Option<Vec<String>>> {
        let config = Config::parse(&text(top), Path::new("conf/stead.toml")).unwrap();
        config.agents["coder"].workspaces.iter().map(|workspace| workspace.hide.clone()).collect()
    };
    let globs = |globs: &[&str]| Some(globs.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(hidden(""), [globs(&[]), globs(&["a", "!b"]), None]);
    assert_eq!(hidden("hide = [\"*.key\"]"), [globs(&[]), globs(&["a", "!b"]), globs(&["*.key"])]);
}

#[test]
fn keys_without_effect_are_noted() {
    let text = r#"
[stores.code]
kind = "memory"

[agents.coder]
scope = "hybrid"
tools = ["read_file"]
idle_timeout = "30m"

[[agents.coder.workspaces]]
prefix = "/project"
scope = "rw"
store = "code"
quota = { bytes = "1GiB", files = 10000, file_bytes = "64MiB" }

[agents.coder.state]
enabled = true

[agents.coder.executor]
kind = "local"
network = "none"
limits = { memory = "1GiB" }

[audit]
enabled = true
"#;
    insta::assert_snapshot!(check(text), @r##"
    fine
    note: 19:15: `agents.coder.executor` has no effect in this version
    "##);
}

#[test]
fn missing_keys_get_their_defaults() {
    let text = r#"
[stores.notes]
kind = "virtual"

[stores.code]
kind = "physical"
path = "srv/code"

[agents.coder]

[[agents.coder.workspaces]]
prefix = "notes"
scope = "WRITE_ONLY"
store = "notes"
"#;
    let config = Config::parse(text, Path::new("conf/stead.toml")).unwrap();
    insta::assert_debug_snapshot!((&config.database, &config.stores, &config.agents), @r##"
    (
        DatabaseConfig {
            path: "conf/.stead/stead.db",
            durability: Full,
        },
        {
            "code": Physical {
                path: "conf/srv/code",
                displaced_retention: Some(
                    DisplacedRetention {
                        age: 1209600s,
                        bytes: 1073741824,
                        file_bytes: 67108864,
                    },
                ),
            },
            "notes": Virtual {
                namespace: [
                    "notes",
                ],
            },
        },
        {
            "coder": AgentConfig {
                description: None,
                workspaces: [
                    WorkspaceConfig {
                        prefix: /notes,
                        scope: WriteOnly,
                        per: Agent,
                        fork: None,
                        store: "notes",
                        path: /,
                        description: None,
                        protect: None,
                        hide: None,
                        scratch: [],
                        quota: QuotaLimits {
                            bytes: None,
                            files: None,
                            file_bytes: None,
                        },
                        quota_root: None,
                        ask: Never,
                        title: None,
                        root_mode: Changeable,
                        managed: None,
                    },
                ],
                quota: QuotaLimits {
                    bytes: None,
                    files: None,
                    file_bytes: None,
                },
                tools: ToolChoice {
                    only: None,
                    history: false,
                    forks: false,
                    ask: {},
                    results: Text,
                },
                state: false,
                membership: None,
                scope: Agent,
                idle_timeout: 1800s,
                thread_source: Caller,
            },
        },
    )
    "##);
    assert_eq!(config.state_directory(), Path::new("conf/.stead"));
}

#[test]
fn displaced_content_is_retained_as_long_as_the_file_says() {
    let retention_of = |text: &str| -> Result<_, String> {
        let text = format!("[stores.code]\nkind = \"physical\"\npath = \"code\"\nkeep = {text}\n");
        let config = Config::parse(&text, Path::new("stead.toml")).map_err(|error| error.to_string())?;
        match &config.stores["code"] {
            StoreConfig::Physical { displaced_retention: retention, .. } => Ok(*retention),
            other => panic!("{other:?}"),
        }
    };
    let written = retention_of("{ age = \"2h\", bytes = \"3MiB\", file_bytes = \"4KiB\" }").unwrap().unwrap();
    assert_eq!((written.age.as_secs(), written.bytes, written.file_bytes), (7_200, 3 << 20, 4 << 10));
    assert_eq!(retention_of("{ age = \"1d\" }").unwrap().unwrap().bytes, 1 << 30);
    assert_eq!(retention_of("false"), Ok(None));
    assert_eq!(retention_of("true"), retention_of("{}"));
    for (invalid, expected) in [
        ("{ age = \"fortnight\" }", "`fortnight` isn't a valid duration"),
        ("{ bytes = \"1 gigabyte\" }", "isn't a valid size"),
        ("{ years = \"1\" }", "`years` isn't a known key of `stores.code.keep`"),
        ("7", "`keep` has to be a table"),
    ] {
        let error = retention_of(invalid).unwrap_err();
        assert!(error.contains(expected), "{invalid}: {error}");
    }
}

#[test]
fn quotas_and_retention_are_read() {
    let text = r#"
        [history]
        age = "7d"
        versions = 50
        [stores.notes]
        kind = "virtual"
        [agents.a]
        quota = { bytes = "1GiB" }
        [[agents.a.workspaces]]
        prefix = "/notes"
        scope = "rw"
        store = "notes"
        quota = { bytes = "1MiB", files = 10, file_bytes = "64KiB" }
    "#;
    let config = Config::parse(text, Path::new("stead.toml")).unwrap();
    assert_eq!((config.history.age.as_secs(), config.history.versions), (7 * 86_400, 50));
    let agent = &config.agents["a"];
    assert_eq!((agent.quota.bytes, agent.quota.files), (Some(1 << 30), None));
    let quota = agent.workspaces[0].quota;
    assert_eq!((quota.bytes, quota.files, quota.file_bytes), (Some(1 << 20), Some(10), Some(64 << 10)));
    for (invalid, expected) in [
        ("quota = { files = \"ten\" }", "`files` has to be a number of at least 0"),
        ("quota = { files = -1 }", "`files` has to be a number of at least 0"),
        ("quota = { bytes = \"much\" }", "isn't a valid size"),
        ("quota = { byte = \"1B\" }", "`byte` isn't a known key"),
    ] {
        let text = text.replace("quota = { bytes = \"1GiB\" }", invalid);
        let error = Config::parse(&text, Path::new("stead.toml")).unwrap_err().to_string();
        assert!(error.contains(expected), "{invalid}: {error}");
    }
}

#[test]
fn an_empty_file_is_a_configuration_without_agents() {
    for text in ["", "# later\n"] {
        assert!(check(text).starts_with("fine\nnote: 1:1: the file is empty"), "{text:?}");
    }
}

#[test]
fn a_database_is_named_by_its_file() {
    let directory = tempfile::tempdir().unwrap();
    for url in ["sqlite://x.db", "sqlite:file:x.db", "sqlite:x.db?mode=memory", "sqlite:.", "sqlite:", "x.db"]
    {
        let file = directory.path().join("stead.toml");
        std::fs::write(&file, format!("[database]\nurl = \"{url}\"\n")).unwrap();
        let error = stead::Config::load(&file).unwrap_err().to_string();
        assert!(error.contains("2:7") && error.contains("sqlite:"), "{url}: {error}");
    }
}
