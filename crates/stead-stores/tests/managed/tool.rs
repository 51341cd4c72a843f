//! The tool `workspace`, and `category` of `write_file`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use stead_core::managed::{TagMode, Tags};
use stead_core::tools::{ApprovalAnswer, Capability, Reply, Tool, Toolbox};
use stead_core::vfs::managed::MoveTarget;
use stead_core::{AccessScope, ErrorKind, Mount, VfsPath, Workspace};

use crate::host::{DAY, Host, Kind};

fn toolbox(host: &Host, scope: AccessScope) -> Toolbox {
    Toolbox::new(host.vfs_with(host.workspace("/notes", scope)))
}

fn call(toolbox: &Toolbox, name: &str, arguments: Value) -> Reply {
    let arguments: Map<String, Value> = arguments.as_object().unwrap().clone();
    toolbox.call(name, arguments, ApprovalAnswer::NobodyToAsk).unwrap()
}

fn workspace(host: &Host, arguments: Value) -> Reply {
    call(&toolbox(host, AccessScope::ReadWrite), "workspace", arguments)
}

/// The form of the tool that a caller has.
fn offered(toolbox: &Toolbox) -> &'static Tool {
    toolbox.offered().find(|tool| tool.name == "workspace").unwrap()
}

fn actions(toolbox: &Toolbox) -> Vec<String> {
    let schema = Value::Object(offered(toolbox).input_schema());
    let values = schema["properties"]["action"]["enum"].as_array().unwrap();
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

/// The kind of a failure.
fn code(reply: &Reply) -> String {
    reply.structured()["error"]["code"].as_str().unwrap().to_owned()
}

/// The paths of the files in a reply.
fn paths(reply: &Reply) -> Vec<&str> {
    assert!(!reply.is_failure(), "{}", reply.joined_text());
    let files = reply.facts["files"].as_array().unwrap();
    files.iter().map(|file| file["path"].as_str().unwrap()).collect()
}

const ALL_ACTIONS: [&str; 8] = ["list", "search", "info", "move", "delete", "tag", "cleanup", "tree"];

#[test]
fn w11_write_file_takes_a_category_and_temp_marks_a_temporary_file() {
    Host::each(|host| {
        let tools = toolbox(host, AccessScope::ReadWrite);
        let arguments = json!({ "path": "/notes/notes.md", "content": "x", "category": "temp" });
        let reply = call(&tools, "write_file", arguments);
        assert_eq!(reply.facts["path"], format!("/notes/temp/{DAY}/notes.md"));
        assert_eq!((&reply.facts["category"], &reply.facts["overwritten"]), (&json!("temp"), &json!(false)));
        assert!(reply.joined_text().contains("category temp"), "{}", reply.joined_text());
        let refused =
            call(&tools, "write_file", json!({ "path": "/notes/a", "content": "x", "category": "x" }));
        assert!(refused.is_failure() && refused.joined_text().contains("unknown file category: x"));
    });
}

#[test]
fn w59_and_w60_the_tool_has_eight_actions_in_its_schema_and_each_of_them_runs() {
    Host::each(|host| {
        assert_eq!(actions(&toolbox(host, AccessScope::ReadWrite)), ALL_ACTIONS);
        let path = host.vfs().write("/notes/a.md", "x").unwrap().path.to_string();
        for arguments in [
            json!({ "action": "list" }),
            json!({ "action": "search", "query": "a" }),
            json!({ "action": "info", "path": path }),
            json!({ "action": "tree" }),
            json!({ "action": "tag", "path": path, "tags": "one, two" }),
            json!({ "action": "cleanup", "dry_run": true }),
            json!({ "action": "move", "path": path, "category": "data" }),
            json!({ "action": "delete", "path": format!("/notes/data/{DAY}/a.md") }),
        ] {
            let reply = workspace(host, arguments.clone());
            assert!(!reply.is_failure(), "{arguments}: {}", reply.joined_text());
            assert_eq!(reply.facts["action"], arguments["action"]);
        }
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w60_the_schema_names_the_same_actions_as_the_description() {
    let host = Host::new(Kind::Virtual);
    for (scope, count) in [(AccessScope::ReadWrite, 8), (AccessScope::ReadOnly, 4)] {
        let tools = toolbox(&host, scope);
        let description = offered(&tools).description;
        let named = description.split_once("Actions: ").unwrap().1;
        // What is in parentheses is about the action before it.
        let outside: String = named.split('(').map(|part| part.rsplit(')').next().unwrap()).collect();
        let named: Vec<_> = outside.trim_end_matches('.').split(',').map(str::trim).collect();
        let in_schema = actions(&tools);
        assert_eq!(named.len(), count, "{named:?}");
        assert_eq!(
            named.into_iter().collect::<BTreeSet<_>>(),
            in_schema.iter().map(String::as_str).collect(),
            "{description}"
        );
    }
}

#[test]
fn w61_the_tool_is_built_in_reaches_no_network_and_gives_subagents_read_only_access() {
    let host = Host::new(Kind::Virtual);
    let names = |toolbox: &Toolbox| {
        offered(toolbox).capabilities.iter().map(|capability| capability.name()).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&toolbox(&host, AccessScope::ReadWrite)),
        ["built_in"],
        "not network_outbound, no other agents"
    );
    // A subagent is an agent that has the same Mount, read-only. It has the tool in the form that changes nothing, whatever its
    // parent has, and what it sees is what the parent sees.
    let path = host.vfs().write("/notes/a.md", "x").unwrap().path.to_string();
    let subagent = host.builder("coder-helper").workspace(host.workspace("/notes", AccessScope::ReadOnly));
    let subagent = Toolbox::new(subagent.build().unwrap());
    assert_eq!(
        (names(&subagent), actions(&subagent)),
        (vec!["built_in"], vec!["list".into(), "search".into(), "info".into(), "tree".into()])
    );
    assert!(!call(&subagent, "workspace", json!({ "action": "info", "path": path })).is_failure());
    assert!(call(&subagent, "workspace", json!({ "action": "delete", "path": path })).is_failure());
    assert!(host.vfs().exists(&*path).unwrap());
    for scope in [AccessScope::ReadWrite, AccessScope::ReadOnly] {
        let tools = toolbox(&host, scope);
        let tool = offered(&tools);
        assert_eq!(tool.capabilities, [Capability::BuiltIn]);
        assert!(!tool.hints.open_world);
        assert_eq!(tool.hints.read_only, scope == AccessScope::ReadOnly);
    }
    let plain = host.workspace("/notes", AccessScope::WriteOnly);
    let blind = Toolbox::new(host.vfs_with(plain));
    assert!(
        blind.offered().all(|tool| tool.name != "workspace"),
        "a caller that may not read has no such tool"
    );
}

#[test]
fn w62_a_caller_with_read_only_access_sees_only_the_actions_that_change_nothing() {
    Host::each(|host| {
        assert_eq!(actions(&toolbox(host, AccessScope::ReadOnly)), ["list", "search", "info", "tree"]);
    });
}

#[test]
fn w63_a_caller_with_read_only_access_is_refused_at_run_time() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.md", "x").unwrap().path.to_string();
        let tools = toolbox(host, AccessScope::ReadOnly);
        // A caller that may write in another managed Workspace has the form with all actions.
        let other = Mount::at(Arc::clone(&host.store), &VfsPath::parse("/drafts").unwrap());
        let other = Workspace::new(VfsPath::parse("/drafts").unwrap(), AccessScope::ReadWrite, other);
        let both = host.builder("coder").workspace(host.workspace("/notes", AccessScope::ReadOnly));
        let both = both.workspace(other.with_managed(Default::default())).build().unwrap();
        let files = both.managed(Some("/notes")).unwrap();
        let both = Toolbox::new(both);
        assert_eq!(actions(&both), ALL_ACTIONS);
        for action in ["move", "delete", "tag", "cleanup"] {
            let mut arguments = json!({ "action": action, "workspace": "/notes" });
            if action != "cleanup" {
                arguments["path"] = json!(path);
            }
            match action {
                "move" => arguments["category"] = json!("data"),
                "tag" => arguments["tags"] = json!(["x"]),
                _ => {}
            }
            let unknown = call(&tools, "workspace", arguments.clone());
            assert!(unknown.is_failure(), "{action}");
            assert_eq!(code(&unknown), "invalid", "{action}");
            let text = unknown.joined_text();
            assert!(text.contains(&format!("not \"{action}\"")), "{text}");
            let denied = call(&both, "workspace", arguments);
            assert!(denied.is_failure(), "{action}");
            assert_eq!(code(&denied), "denied", "{action}: {}", denied.joined_text());
            assert!(denied.joined_text().contains("READ_ONLY"), "{action}: {}", denied.joined_text());
        }
        let target = MoveTarget { category: Some("data".parse().unwrap()), name: None };
        for refused in [
            files.move_file(&*path, target).map(drop),
            files.delete(&*path).map(drop),
            files.tag(&*path, TagMode::Add, &Tags::parse(["x"]).unwrap()).map(drop),
            files.cleanup(&Default::default()).map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(error.to_string().contains("READ_ONLY"), "{error}");
        }
        assert_eq!(host.vfs().read(&*path).unwrap().bytes, b"x");
        assert_eq!(host.query("SELECT tags FROM workspace_files"), [""]);
    });
}

#[test]
fn w64_a_missing_or_unknown_action_and_a_missing_parameter_are_named() {
    let host = Host::new(Kind::Virtual);
    for (arguments, named) in [
        (json!({}), "action"),
        (json!({ "action": "explode" }), "explode"),
        (json!({ "action": "search" }), "query"),
        (json!({ "action": "info" }), "path"),
        (json!({ "action": "delete" }), "path"),
        (json!({ "action": "move", "category": "data" }), "path"),
        (json!({ "action": "tag", "tags": ["x"] }), "path"),
        (json!({ "action": "move", "path": "/notes/code/x" }), "category"),
        (json!({ "action": "tag", "path": "/notes/code/x" }), "tags"),
    ] {
        let reply = workspace(&host, arguments.clone());
        let text = reply.joined_text();
        let names_it = [format!("`{named}`"), format!("\"{named}\"")].iter().any(|name| text.contains(name));
        assert!(reply.is_failure() && names_it, "{arguments}: {text}");
    }
}

#[test]
fn w65_info_shows_everything_that_is_known() {
    Host::each(|host| {
        let tools = toolbox(host, AccessScope::ReadWrite);
        call(&tools, "write_file", json!({ "path": "/notes/a.md", "content": "four" }));
        let path = format!("/notes/documents/{DAY}/a.md");
        call(&tools, "workspace", json!({ "action": "tag", "path": path, "tags": ["x"] }));
        call(&tools, "read_file", json!({ "path": path }));
        let text = call(&tools, "workspace", json!({ "action": "info", "path": path })).joined_text();
        for part in [
            &*format!("path: {path}"),
            "category: documents",
            "original name: a.md",
            "size: 4 bytes",
            "tool: write_file",
            "tags: x",
            &*format!("created: {DAY}T12:00:00.000Z"),
            &*format!("accessed: {DAY}"),
            "session: coder",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    });
}

#[test]
fn w67_not_found_from_info_is_flagged_as_an_error() {
    Host::each(|host| {
        let reply = workspace(host, json!({ "action": "info", "path": "/notes/code/no-such.py" }));
        assert!(reply.is_failure());
    });
}

#[test]
fn w54_a_page_of_the_tool_says_which_of_how_many() {
    let host = Host::new(Kind::Virtual);
    for number in 0..3 {
        host.vfs().write(format!("/notes/{number}.py"), "x").unwrap();
    }
    let text = |arguments| workspace(&host, arguments).joined_text();
    assert!(text(json!({ "action": "list", "limit": 2 })).contains("[1 to 2 of 3; more with offset 2]"));
    assert!(text(json!({ "action": "list", "offset": 2 })).contains("[3 to 3 of 3]"));
    let past = text(json!({ "action": "list", "offset": 9 }));
    assert!(past.contains("nothing at offset 9: there are 3 files"), "{past}");
    for limit in [json!(201), json!(-1), json!(1.5)] {
        let refused = workspace(&host, json!({ "action": "list", "limit": limit }));
        assert!(refused.is_failure() && refused.joined_text().contains("1 to 200"), "{limit}");
    }
    // Hosts that fill in every parameter send 0 for one that isn't set.
    for number in 3..51 {
        host.vfs().write(format!("/notes/{number}.py"), "x").unwrap();
    }
    for arguments in [json!({ "action": "list" }), json!({ "action": "list", "limit": 0, "offset": 0 })] {
        let reply = workspace(&host, arguments);
        assert_eq!(paths(&reply).len(), 50);
        assert!(reply.joined_text().contains("[1 to 50 of 51; more with offset 50]"));
    }
    assert_eq!(paths(&workspace(&host, json!({ "action": "list", "limit": 200 }))).len(), 51);
    assert_eq!(paths(&workspace(&host, json!({ "action": "list", "limit": 1 }))).len(), 1);
}

/// Writes a file on each of four days, from the first test day on, and tags them. One of them is of another session.
fn write_on_four_days(host: &Host) {
    let other = host.builder("other").workspace(host.workspace("/notes", AccessScope::ReadWrite));
    let (coder, other) = (host.vfs(), other.build().unwrap());
    for (vfs, name, tags) in [
        (&coder, "a.py", "important,draft"),
        (&coder, "b.md", "port"),
        (&other, "c.csv", "draft"),
        (&coder, "d.py", "draft,port"),
    ] {
        let path = vfs.write(format!("/notes/{name}"), "x").unwrap().path;
        host.files().tag(&path, TagMode::Add, &Tags::parse([tags]).unwrap()).unwrap();
        host.advance_days(1);
    }
}

#[test]
fn w50_to_w53_and_w56_and_w93_every_filter_of_the_tool_is_applied() {
    Host::each(|host| {
        write_on_four_days(host);
        let [a, b, c, d] = [
            "/notes/code/2026-02-27/a.py",
            "/notes/documents/2026-02-28/b.md",
            "/notes/data/2026-03-01/c.csv",
            "/notes/code/2026-03-02/d.py",
        ];
        for (filter, expected) in [
            (json!({}), vec![d, c, b, a]),
            (json!({ "category": "code" }), vec![d, a]),
            (json!({ "category": "images" }), vec![]),
            (json!({ "date": "2026-02-28" }), vec![b]),
            (json!({ "date": "2026-02" }), vec![b, a]),
            (json!({ "from": "2026-02-28" }), vec![d, c, b]),
            (json!({ "to": "2026-02-28" }), vec![b, a]),
            (json!({ "from": "2026-02-28", "to": "2026-03-01" }), vec![c, b]),
            (json!({ "date": "2026-02", "from": "2026-02-28" }), vec![b]),
            (json!({ "tags": ["port"] }), vec![d, b]),
            (json!({ "tags": ["port", "draft"] }), vec![d]),
            (json!({ "tags": " draft , port " }), vec![d]),
            (json!({ "session": "other" }), vec![c]),
            (
                json!({ "session": "coder", "category": "code", "tags": ["draft"], "to": "2026-03-01" }),
                vec![a],
            ),
        ] {
            let with = |action: &str, query: Option<&str>| {
                let mut arguments = filter.clone();
                arguments["action"] = json!(action);
                if let Some(query) = query {
                    arguments["query"] = json!(query);
                }
                workspace(host, arguments)
            };
            assert_eq!(paths(&with("list", None)), expected, "{filter}");
            // Every path has this part.
            assert_eq!(paths(&with("search", Some("/2026-"))), expected, "{filter}");
            let only_code: Vec<_> = expected.iter().copied().filter(|path| path.ends_with(".py")).collect();
            assert_eq!(paths(&with("search", Some("*.py"))), only_code, "{filter}");
        }
        assert_eq!(paths(&workspace(host, json!({ "action": "search", "query": "import" }))), [a], "by tag");
        let nothing = workspace(host, json!({ "action": "search", "query": "no such file" }));
        assert!(paths(&nothing).is_empty());
        assert!(nothing.joined_text().contains("No files match"), "{}", nothing.joined_text());
        for action in ["list", "search", "move"] {
            let arguments = json!({ "action": action, "query": "a", "path": a, "category": "x" });
            let refused = workspace(host, arguments);
            assert!(refused.is_failure(), "{action}");
            assert!(
                refused.joined_text().contains("unknown file category: x"),
                "{action}: {}",
                refused.joined_text()
            );
        }
        for name in ["date", "from", "to"] {
            let refused = workspace(host, json!({ "action": "list", name: "soon" }));
            assert!(refused.is_failure() && refused.joined_text().contains("`soon` isn't a day"), "{name}");
        }
    });
}

#[test]
fn w74_the_tool_adds_removes_and_sets_tags() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.py", "x").unwrap().path.to_string();
        for (mode, tags, expected) in [
            (None, json!(["a", "b"]), "a,b"),
            (Some("add"), json!(["b", "c"]), "a,b,c"),
            (Some("remove"), json!("a, c"), "b"),
            (Some("set"), json!(["d", "e"]), "d,e"),
            (Some("set"), json!([]), ""),
        ] {
            let mut arguments = json!({ "action": "tag", "path": path, "tags": tags });
            if let Some(mode) = mode {
                arguments["mode"] = json!(mode);
            }
            let reply = workspace(host, arguments);
            assert!(!reply.is_failure(), "{mode:?}: {}", reply.joined_text());
            let expected_list: Vec<_> = expected.split(',').filter(|tag| !tag.is_empty()).collect();
            assert_eq!(reply.facts["tags"], json!(expected_list), "{mode:?}");
            assert_eq!(host.query("SELECT tags FROM workspace_files"), [expected], "{mode:?}");
        }
    });
}

#[test]
fn w94_the_tool_moves_a_file_to_a_new_name_and_to_another_category() {
    Host::each(|host| {
        let mut path = host.vfs().write("/notes/a.py", "x").unwrap().path.to_string();
        for (target, expected) in [
            (json!({ "new_name": "b.py" }), format!("code/{DAY}/b.py")),
            (json!({ "category": "data" }), format!("data/{DAY}/b.py")),
            (json!({ "category": "temp", "new_name": "c.txt" }), format!("temp/{DAY}/c.txt")),
        ] {
            let mut arguments = target.clone();
            arguments["action"] = json!("move");
            arguments["path"] = json!(path);
            let reply = workspace(host, arguments);
            assert!(!reply.is_failure(), "{target}: {}", reply.joined_text());
            path = format!("/notes/{expected}");
            assert_eq!(reply.facts["path"], json!(path));
            assert_eq!(host.rows(), [expected]);
            assert_eq!(host.vfs().read(&*path).unwrap().bytes, b"x");
        }
        assert_eq!(host.query("SELECT category || ' ' || original_name FROM workspace_files"), ["temp a.py"]);
    });
}

#[test]
fn w46_the_file_tools_of_a_workspace_that_is_not_managed_write_and_read_plainly() {
    Host::each(|host| {
        let mount = Mount::new(Arc::clone(&host.store));
        let plain = Workspace::new(VfsPath::parse("/notes").unwrap(), AccessScope::ReadWrite, mount);
        let tools = Toolbox::new(host.vfs_with(plain));
        let arguments = json!({ "path": "/notes/a.py", "content": "print(1)" });
        let written = call(&tools, "write_file", arguments);
        assert!(!written.is_failure(), "{}", written.joined_text());
        assert_eq!(written.facts["path"], "/notes/a.py");
        assert_eq!(written.facts.get("category"), None);
        let read = call(&tools, "read_file", json!({ "path": "/notes/a.py" }));
        assert!(read.joined_text().starts_with("print(1)"), "{}", read.joined_text());
        assert!(tools.offered().all(|tool| tool.name != "workspace"));
        let refused = call(&tools, "workspace", json!({ "action": "list" }));
        assert!(refused.is_failure() && refused.joined_text().contains("workspace"));
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w79_a_dry_run_of_the_tool_names_the_files_and_changes_nothing() {
    Host::each(|host| {
        let old = ["/notes/old", "/notes/older"].map(|path| host.vfs().write(path, "x").unwrap().path);
        host.advance_days(7);
        let young = host.vfs().write("/notes/young", "x").unwrap().path;
        let rows = host.rows();
        for _ in 0..2 {
            let reply = workspace(host, json!({ "action": "cleanup", "dry_run": true }));
            let text = reply.joined_text();
            assert!(!reply.is_failure(), "{text}");
            let named: BTreeSet<_> = text.lines().filter(|line| line.starts_with('/')).collect();
            assert_eq!(named, old.iter().map(VfsPath::as_str).collect(), "{text}");
            assert_eq!((&reply.facts["removed"], reply.facts.get("operation")), (&json!(2), None));
            assert_eq!(host.rows(), rows);
        }
        for path in old.iter().chain([&young]) {
            assert_eq!(host.vfs().read(path).unwrap().bytes, b"x", "{path}");
        }
        assert_eq!(host.files().last_cleanup().unwrap(), None);
        let removed = workspace(host, json!({ "action": "cleanup" })).joined_text();
        assert!(old.iter().all(|path| removed.contains(path.as_str())), "{removed}");
        assert_eq!(host.rows().len(), 1);
    });
}

#[test]
fn w78_cleanup_reports_how_many_files_it_removed() {
    Host::each(|host| {
        host.vfs().write("/notes/old", "x").unwrap();
        host.advance_days(8);
        let dry = workspace(host, json!({ "action": "cleanup", "dry_run": true }));
        assert!(dry.joined_text().contains("1 file would be removed") && dry.facts["removed"] == 1);
        let reply = workspace(host, json!({ "action": "cleanup" }));
        assert!(reply.joined_text().contains("Removed 1 file"), "{}", reply.joined_text());
        let again = workspace(host, json!({ "action": "cleanup" })).joined_text();
        assert!(again.contains("the last cleanup") && again.contains("removed 1 file"), "{again}");
    });
}
