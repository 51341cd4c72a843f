//! The canaries through every tool, with arguments made from its schema.

use serde_json::{Map, Value, json};
use stead::Stead;
use stead::search::GrepQuery;
use stead::tools::{Block, TOOLS, Tool};
use stead::transfer::{CompareBy, ExportDestination, NoObserver, OnExisting};
use stead::vfs::{LogQuery, WalkQuery};

use crate::fixture::{Caller, Fixture, NAME, PATHS, canary_paths, check};
use crate::is_long;

/// The id of no folder.
const FOLDER_ID: &str = "11111111-2222-4333-8444-555555555555";

/// The values that an argument is tried with. An argument that isn't listed here fails the test.
fn values(tool: &Tool, argument: &str, path: &str, fixture: &Fixture) -> Vec<Value> {
    match argument {
        "path" | "source" => vec![json!(path)],
        "destination" => vec![json!("/yard/taken"), json!("/home/wo/taken")],
        "paths" => vec![json!([path])],
        // More than the quota of that Workspace has left.
        "content" if path.starts_with("/drop") => vec![json!("x"), json!("x".repeat(2_500_000))],
        "content" | "new_string" => vec![json!("x")],
        // A model could guess content letter by letter with this.
        "old_string" => vec![json!("C"), json!("§")],
        "more_edits" => {
            let edit = |old: &str| json!({ "old_string": old, "new_string": "x" });
            vec![json!([edit("C")]), json!([edit("§"), edit("C")])]
        }
        "pattern" if tool.name == "glob" => vec![json!("**")],
        "pattern" => vec![json!(".")],
        "version" | "snapshot" => vec![json!(fixture.version), json!("before"), json!("now")],
        // A key that the agent sets itself is in its log.
        "key" if tool.name == "state_set" => vec![json!("mine")],
        "key" => vec![json!(path), json!(NAME)],
        "value" => vec![json!("1")],
        "namespace" => vec![json!("default"), json!("../other")],
        "prefix" | "expires_in" => Vec::new(),
        "label" | "if_match" | "cursor" | "offset" | "limit" | "depth" | "include" | "exclude"
        | "extensions" | "byteOffset" | "byte_offset" | "byte_limit" | "operation" | "since" | "last"
        | "count" => Vec::new(),
        "context" | "before" | "after" => vec![json!(1)],
        // The agent's own forks, and names that no fork has.
        "fork" => ["one", "two", NAME, "coder/one", "other/one"].map(|fork| json!(fork)).into(),
        "name" => vec![json!("again")],
        "take_target" | "take_fork" | "leave_out" => vec![json!(["**"])],
        // No Workspace of the agent is managed. For one that is, see the test target `managed`.
        "workspace" => vec![json!(path)],
        "query" => vec![json!("*"), json!(NAME)],
        "category" => vec![json!("data")],
        "tags" => vec![json!(["a"])],
        "session" => vec![json!("coder"), json!("other")],
        "date" | "from" | "to" => vec![json!("2026")],
        "new_name" => vec![json!("renamed")],
        "max_results" => vec![json!(1_000)],
        "type" => vec![json!("txt"), json!("md")],
        // The agent is in no organization. For agents that are, see the test target `organization`.
        "folderId" | "sourceFolderId" | "destFolderId" => vec![json!(FOLDER_ID)],
        "filename" | "sourceFilename" | "destFilename" | "folderName" | "newName" => {
            vec![json!(path.trim_start_matches('/'))]
        }
        "operations" => vec![json!([{ "folderId": FOLDER_ID, "filename": path }])],
        "filter" => vec![json!({ "filePattern": "**" })],
        other => {
            let schema = tool.input_schema();
            let property = &schema["properties"][other];
            if let Some(values) = property.get("enum").and_then(Value::as_array) {
                return values.clone();
            }
            assert_eq!(
                property["type"], "boolean",
                "`{}` takes `{other}`, which has no values here",
                tool.name
            );
            vec![json!(true)]
        }
    }
}

/// The calls of a tool about a path: with the required arguments alone, and with each of the others added.
fn calls(tool: &Tool, path: &str, fixture: &Fixture) -> Vec<Value> {
    let schema = tool.input_schema();
    let properties = schema["properties"].as_object().unwrap();
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut calls = vec![Map::new()];
    for name in properties.keys().filter(|name| required.contains(&name.as_str()) || *name == "path") {
        let values = values(tool, name, path, fixture);
        let extended = |call: &Map<String, Value>| {
            let call = call.clone();
            values.clone().into_iter().map(move |value| {
                let mut call = call.clone();
                call.insert(name.clone(), value);
                call
            })
        };
        calls = calls.iter().flat_map(extended).collect();
    }
    let mut with_optional = Vec::new();
    for name in properties.keys().filter(|name| !required.contains(&name.as_str()) && *name != "path") {
        for value in values(tool, name, path, fixture) {
            let max_calls = if is_long() { usize::MAX } else { 1 };
            with_optional.extend(calls.iter().take(max_calls).cloned().map(|mut call| {
                call.insert(name.clone(), value.clone());
                call
            }));
        }
    }
    calls.into_iter().chain(with_optional).map(Value::Object).collect()
}

fn call_and_check(stead: &Stead, tool: &Tool, arguments: Value) {
    let question = format!("{} {arguments}", tool.name);
    let reply = stead.call(tool.name, arguments);
    let structured = Value::from(reply.structured());
    check(&question, format!("{} {structured} {:?}", reply.joined_text(), reply.failure).as_bytes());
    // A model gets the same text with more around it, and a picture as bytes.
    for block in reply.for_model() {
        match block {
            Block::Text(text) => check(&question, text.as_bytes()),
            Block::Image { bytes, .. } => check(&question, &bytes),
        }
    }
}

/// Calls a tool with every path.
fn call_with_every_path(stead: &Stead, tool: &Tool, fixture: &Fixture) {
    // What the tool makes under that name, where everything may be seen, isn't a canary.
    let open = ["/home/beside", "/forks/two/self/beside"];
    let is_open = |path: &String| tool.is_mutating() && open.iter().any(|open| path.starts_with(open));
    for path in PATHS.iter().map(ToString::to_string).chain(canary_paths()).filter(|path| !is_open(path)) {
        for arguments in calls(tool, &path, fixture) {
            call_and_check(stead, tool, arguments);
        }
    }
}

/// Checks everything that the agent can see: nothing withheld may have been copied there.
fn check_everything_visible(stead: &Stead) {
    let vfs = stead.vfs();
    check("walk", format!("{:?}", vfs.walk("/", &WalkQuery::default()).unwrap()).as_bytes());
    let matches = vfs.grep(&GrepQuery { max_results: 100_000, ..GrepQuery::new(".") }, "/").unwrap();
    check("grep", format!("{matches:?}").as_bytes());
    check("log", format!("{:?}", vfs.log(&LogQuery::default()).unwrap()).as_bytes());
    let mut archive = Vec::new();
    let destination = ExportDestination::Stream(Box::new(&mut archive));
    stead.export("/", destination, OnExisting::Refuse, CompareBy::default(), &mut NoObserver).unwrap();
    check("export", &archive);
}

#[test]
fn no_reading_tool_reveals_what_is_withheld() {
    let fixture = Fixture::new(Caller::Agent);
    let stead = fixture.stead();
    check_everything_visible(&stead);
    for tool in TOOLS.into_iter().filter(|tool| !tool.is_mutating()) {
        call_with_every_path(&stead, tool, &fixture);
    }
}

#[test]
fn no_changing_tool_reveals_or_copies_what_is_withheld() {
    // Tools that destroy things come last, so that the others have something to reveal.
    let destroys =
        |tool: &&&Tool| ["delete", "discard", "write"].iter().any(|start| tool.name.starts_with(start));
    let (last, first): (Vec<&Tool>, Vec<&Tool>) =
        TOOLS.iter().copied().filter(|tool| tool.is_mutating()).partition(|tool| destroys(&tool));
    for tools in [first, last] {
        let fixture = Fixture::new(Caller::Agent);
        let stead = fixture.stead();
        for tool in tools {
            call_with_every_path(&stead, tool, &fixture);
            // Opened again, as a server does when a fork was made or discarded.
            check_everything_visible(&fixture.stead());
        }
        let workspaces = format!("{:?}", stead.vfs().workspaces().collect::<Vec<_>>());
        let offset = workspaces.find(NAME);
        assert!(
            offset.is_none(),
            "{}",
            offset.map_or("", |offset| &workspaces[offset.saturating_sub(300)..offset + 100])
        );
    }
}

#[test]
fn a_copy_of_a_whole_workspace_and_the_map_reveal_nothing() {
    let fixture = Fixture::new(Caller::Agent);
    let stead = fixture.stead();
    check("map", stead.map().as_bytes());
    let toolbox = stead.toolbox();
    for tool in toolbox.offered() {
        check(tool.name, toolbox.description(tool).as_bytes());
    }
    for from in PATHS {
        let tool = TOOLS.into_iter().find(|tool| tool.name == "copy_file").unwrap();
        call_and_check(
            &stead,
            tool,
            json!({ "source": from, "destination": format!("/yard/copy{}", from.replace('/', "-")) }),
        );
    }
    check_everything_visible(&stead);
}
