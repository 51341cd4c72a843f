//! The tool `workspace`, and `category` of `write_file`.

use serde_json::{Map, Value, json};
use stead_core::AccessScope;
use stead_core::tools::{ApprovalAnswer, Capability, Reply, Toolbox, tool};

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

fn actions(toolbox: &Toolbox) -> Vec<String> {
    let tool = toolbox.offered().find(|tool| tool.name == "workspace").unwrap();
    let schema = Value::Object(tool.input_schema());
    let values = schema["properties"]["action"]["enum"].as_array().unwrap();
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
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
    let description = tool("workspace").unwrap().description;
    assert!(ALL_ACTIONS.iter().all(|action| description.contains(action)), "{description}");
}

#[test]
fn w61_the_tool_is_built_in_reaches_no_network_and_has_a_read_only_form() {
    let host = Host::new(Kind::Virtual);
    for scope in [AccessScope::ReadWrite, AccessScope::ReadOnly] {
        let tools = toolbox(&host, scope);
        let tool = tools.offered().find(|tool| tool.name == "workspace").unwrap();
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
        for action in ["move", "delete", "tag", "cleanup"] {
            let arguments = json!({ "action": action, "path": path, "category": "data", "tags": ["x"] });
            assert!(call(&tools, "workspace", arguments).is_failure(), "{action}");
        }
        let files = host.vfs_with(host.workspace("/notes", AccessScope::ReadOnly)).managed(None).unwrap();
        assert!(files.delete(&*path).is_err() && files.cleanup(&Default::default()).is_err());
        assert!(
            files.tag(&*path, Default::default(), &stead_core::managed::Tags::parse(["x"]).unwrap()).is_err()
        );
        assert_eq!(host.vfs().read(&*path).unwrap().bytes, b"x");
        assert_eq!(host.query("SELECT tags FROM workspace_files"), [""]);
    });
}

#[test]
fn w64_a_missing_or_unknown_action_and_a_missing_parameter_are_named() {
    let host = Host::new(Kind::Virtual);
    for (arguments, named) in [
        (json!({}), "action"),
        (json!({ "action": "explode" }), "action"),
        (json!({ "action": "search" }), "query"),
        (json!({ "action": "info" }), "path"),
        (json!({ "action": "move", "path": "/notes/code/x" }), "category"),
        (json!({ "action": "tag", "path": "/notes/code/x" }), "tags"),
    ] {
        let reply = workspace(&host, arguments.clone());
        assert!(
            reply.is_failure() && reply.joined_text().contains(named),
            "{arguments}: {}",
            reply.joined_text()
        );
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
    for limit in [0, 201] {
        assert!(workspace(&host, json!({ "action": "list", "limit": limit })).is_failure());
    }
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
