//! What a thread asks in order to learn something of another: calls of every tool, resources, and commands.

use serde_json::{Map, Value, json};

use crate::isolation::{Marked, Observer};

/// One request to a server.
pub(crate) struct Attempt {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
}

impl Attempt {
    pub(crate) fn call(tool: &str, arguments: Value) -> Self {
        Attempt { method: "tools/call", params: json!({ "name": tool, "arguments": arguments }) }
    }
}

/// The paths to ask about: what may be seen, where another thread's files would be, and names that are almost those of
/// another thread's files, so that a suggestion would reveal them.
fn paths(observer: &Observer, marked: &[Marked]) -> Vec<String> {
    let mut paths: Vec<String> =
        ["/", observer.home, "/shared", "/drop", "/forks", "/app", "/threads"].map(str::to_owned).into();
    for other in marked.iter().filter(|other| other.thread() != observer.thread) {
        let (thread, name, home) = (other.thread(), other.name(), observer.home);
        let Marked { agent, store_path, .. } = other;
        paths.push(format!("{home}/{name}.txt"));
        paths.push(format!("{home}/{}.txt", &name[..name.len() - 1]));
        paths.push(format!("/forks/fork-{}", &name[..name.len() - 1]));
        paths.push(format!("/forks/{}/{name}.txt", other.fork()));
        paths.push(format!("{home}/threads/{agent}"));
        paths.push(format!("{home}{store_path}/threads/{agent}/{thread}/{name}.txt"));
        paths.push(format!("{home}{store_path}/threads/{agent}/{}", &thread[..thread.len() - 1]));
        paths.push(format!("/shared/../book/threads/{agent}/{thread}"));
    }
    paths
}

/// Calls of all tools that read, or of all that change things, and reads of resources.
pub(crate) fn attempts(
    observer: &Observer,
    tools: &[Value],
    marked: &[Marked],
    mutating: bool,
) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    let is_reading = |tool: &Value| tool["annotations"]["readOnlyHint"] == true;
    let paths = paths(observer, marked);
    for tool in tools.iter().filter(|tool| is_reading(tool) != mutating) {
        for path in &paths {
            // What the thread loses here could not be asked for later.
            if mutating && *path == observer.home {
                continue;
            }
            attempts.extend(calls(tool, path, observer, marked));
        }
    }
    if !mutating {
        let request = |method, params| Attempt { method, params };
        for method in ["resources/list", "resources/templates/list", "prompts/list"] {
            attempts.push(request(method, json!({})));
        }
        for uri in paths.iter().map(|path| format!("stead://{path}")).chain(["stead://map".to_owned()]) {
            attempts.push(request("resources/read", json!({ "uri": uri })));
        }
    }
    attempts
}

/// The calls of a tool about a path: with the required arguments, and with each of the others added in turn.
fn calls(tool: &Value, path: &str, observer: &Observer, marked: &[Marked]) -> Vec<Attempt> {
    let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let base: Map<String, Value> = properties
        .iter()
        .filter(|(property, _)| required.contains(&property.as_str()) || *property == "path")
        .map(|(property, schema)| (property.clone(), value(name, property, schema, path, observer)))
        .collect();
    let mut calls = vec![Attempt::call(name, base.clone().into())];
    for (property, schema) in properties.iter().filter(|(property, _)| !base.contains_key(*property)) {
        let mut call = base.clone();
        call.insert(property.clone(), value(name, property, schema, path, observer));
        calls.push(Attempt::call(name, call.into()));
    }
    // Their keys, which every thread can have, too.
    if properties.contains_key("key") {
        for other in marked.iter().filter(|other| other.thread() != observer.thread) {
            let mut call = base.clone();
            call.insert("key".to_owned(), json!(other.name()));
            calls.insert(0, Attempt::call(name, call.into()));
        }
    }
    // Versions and labels of others, as far as the tool takes them.
    for property in
        ["version", "snapshot", "at"].into_iter().filter(|property| properties.contains_key(*property))
    {
        for other in marked {
            let mut call = base.clone();
            call.insert(property.to_owned(), json!(other.label()));
            calls.push(Attempt::call(name, call.into()));
        }
    }
    if crate::is_long() { calls } else { calls.into_iter().take(6).collect() }
}

fn value(tool: &str, property: &str, schema: &Value, path: &str, observer: &Observer) -> Value {
    match property {
        "path" | "source" => json!(path),
        "paths" => json!([path]),
        "destination" => json!(format!("{}/taken", observer.home)),
        "pattern" if tool == "glob" => json!("**"),
        "pattern" => json!("."),
        "version" | "snapshot" | "at" => json!(observer.label),
        "old_string" => json!("ct"),
        "name" => json!("again"),
        "key" => json!("k"),
        "value" => json!("1"),
        "since" => json!("1h"),
        "more_edits" => json!([{ "old_string": "ct", "new_string": "x" }]),
        _ => match (schema["enum"].as_array(), schema["type"].as_str()) {
            (Some(values), _) => values[0].clone(),
            (_, Some("boolean")) => json!(true),
            (_, Some("integer" | "number")) => json!(1),
            (_, Some("array")) => json!([]),
            (_, Some("object")) => json!({}),
            _ => json!("x"),
        },
    }
}

/// Commands, each with its arguments.
pub(crate) fn commands(observer: &Observer, marked: &[Marked]) -> Vec<Vec<String>> {
    let home = observer.home;
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut add = |args: &[&str]| commands.push(args.iter().map(|arg| (*arg).to_owned()).collect());
    for args in [
        &["map"][..],
        &["tools"],
        &["forks"],
        &["forks", "--all"],
        &["snapshots"],
        &["state", "list"],
        &["log"],
        &["log", "-p"],
        &["log", "--oneline"],
        &["undo", "--dry-run", "--last", "100"],
        &["doctor"],
        &["ls", "-lR", "/"],
        &["tree", "/"],
        &["glob", "**", "/"],
        &["grep", ".", "/"],
        &["grep", "-c", ".", "/"],
        &["stat", home],
        &["export", "/", "-"],
        &["diff", home, "1"],
        &["diff", home, &observer.label],
        &["restore", "--dry-run", home, "1"],
        &["import", "imported", home],
        &["call", "list_directory", "{\"path\": \"/\"}"],
    ] {
        add(args);
    }
    for at in ["1", &observer.label, "1h", "yesterday"] {
        for args in [&["ls", "-lR", "/"][..], &["grep", ".", "/"], &["tree", "/"]] {
            add(&[args, &["--at", at]].concat());
        }
    }
    let mut writes = Vec::new();
    let other =
        marked.iter().find(|other| other.agent == observer.agent && other.thread() != observer.thread);
    for other in other.into_iter().chain(marked.last()).filter(|other| other.thread() != observer.thread) {
        let (thread, name) = (other.thread(), other.name());
        let almost = format!("{home}/{}.txt", &name[..name.len() - 1]);
        let inside = format!("{home}{}/threads/{}/{thread}", other.store_path, other.agent);
        let fork = other.fork();
        let almost_fork = &fork[..fork.len() - 1];
        for args in [
            &["state", "get", &name][..],
            &["state", "get", &name[..name.len() - 1]],
            &["state", "delete", &name],
            &["cat", &almost],
            &["cat", &format!("{home}/{name}.txt")],
            &["stat", &inside],
            &["ls", "-l", &inside],
            &["cat", &format!("{inside}/{name}.txt")],
            &["log", &format!("{home}/{name}.txt")],
            &["log", "-p", &format!("{inside}/{name}.txt")],
            &["blame", &format!("{home}/{name}.txt")],
            &["ls", "/", "--at", &other.label()],
            &["ls", "/", "--at", &other.label()[..other.label().len() - 1]],
            &["diff", "--fork", almost_fork],
            &["discard", almost_fork],
            &["ls", &format!("/forks/{almost_fork}")],
            &["restore", &format!("{home}/{name}.txt"), &other.label()],
            &["mv", &format!("{inside}/{name}.txt"), &format!("{home}/taken")],
            &["cp", &inside, &format!("{home}/taken")],
            &["rm", "-r", &inside],
        ] {
            add(args);
        }
        writes.push([inside.clone(), name]);
    }
    // Last, because what these make is the observer's own, and may appear in its later answers.
    for [inside, name] in writes {
        add(&["write", &format!("{inside}/{name}.txt"), "x"]);
    }
    commands
}
