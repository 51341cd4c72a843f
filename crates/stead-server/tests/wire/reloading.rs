//! Changes of the configuration while clients are connected.

use std::fs;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stead::{Clock, Config, Identity, SystemClock};
use stead_server::{HttpOptions, ServerLimits, SteadRegistry};

use crate::client::Client;
use crate::http::{Server, assert_ends};

const ONE_WORKSPACE: &str = r#"
    [stores.notes]
    kind = "memory"
    [[agents.ann.workspaces]]
    prefix = "/notes"
    scope = "rw"
    store = "notes"
"#;

fn two_workspaces() -> String {
    format!(
        "{ONE_WORKSPACE}\n[[agents.ann.workspaces]]\nprefix = \"/more\"\nscope = \"rw\"\nstore = \"notes\"\n"
    )
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !condition() {
        assert!(Instant::now() < deadline, "the new configuration was not loaded in time");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_server_reloads_its_configuration_and_keeps_the_old_one_if_the_new_one_is_invalid() {
    let server = Server::with(ONE_WORKSPACE, HttpOptions::default(), ServerLimits::default());
    let file = server.host.path().join("stead.toml");
    let map = || {
        let answer = server.modern(None, "resources/read", json!({ "uri": "stead://map" }));
        answer.message()["result"]["contents"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    assert!(map().contains("/notes"));
    fs::write(&file, two_workspaces()).unwrap();
    wait_until(|| map().contains("/more"));
    let missing_directory =
        ONE_WORKSPACE.replace("kind = \"memory\"", "kind = \"physical\"\npath = \"nowhere\"");
    for invalid in ["[agents.ann]\nnonsense = 1\n", "", &missing_directory] {
        fs::write(&file, invalid).unwrap();
        std::thread::sleep(Duration::from_millis(2_500));
        assert!(map().contains("/more"), "{invalid}");
    }
    // A file that replaces the configuration is noticed as well.
    let new_file = server.host.path().join("new.toml");
    fs::write(&new_file, ONE_WORKSPACE).unwrap();
    fs::rename(&new_file, &file).unwrap();
    wait_until(|| !map().contains("/more"));
}

#[test]
fn an_agent_that_is_removed_loses_access_though_the_host_does_not_answer() {
    let text = format!("{ONE_WORKSPACE}\n{}", ONE_WORKSPACE.split("kind = \"memory\"").nth(1).unwrap());
    let server = Server::with(
        &text.replacen("agents.ann", "agents.bob", 1),
        HttpOptions::default(),
        ServerLimits::default(),
    );
    let file = server.host.path().join("stead.toml");
    let secret =
        |agent: &str| server.tokens().create(Identity::agent(agent), None, SystemClock.now()).unwrap().1;
    let (ann, bob) = (secret("ann"), secret("bob"));
    let has_tools = |secret: &str| {
        let answer = server.modern(Some(secret), "tools/list", json!({}));
        answer.message()["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    };
    assert!(has_tools(&ann) && has_tools(&bob));
    let stream = server.listen(Some(&bob));
    // Opening a named pipe waits until the other end is opened.
    let pipe = server.host.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(&file, format!("[database]\nurl = \"sqlite:pipe\"\n{ONE_WORKSPACE}")).unwrap();
    wait_until(|| !has_tools(&bob));
    assert_ends(stream);
    assert!(has_tools(&ann), "nothing was taken away from this agent");
    // The host answers, and the new configuration turns out to be invalid, so the old one stays in use.
    fs::write(&pipe, "this isn't an SQLite database").unwrap();
    wait_until(|| has_tools(&bob));
}

#[test]
fn the_streams_of_an_agent_end_when_it_is_removed() {
    let options = HttpOptions { agent: Some("ann".into()), ..HttpOptions::default() };
    let with_token = Server::with(ONE_WORKSPACE, HttpOptions::default(), ServerLimits::default());
    let without_tokens = Server::with(ONE_WORKSPACE, options, ServerLimits::default());
    let (_, secret) = with_token.tokens().create(Identity::agent("ann"), None, SystemClock.now()).unwrap();
    for (server, token) in [(&with_token, Some(secret.as_str())), (&without_tokens, None)] {
        let stream = server.listen(token);
        fs::write(server.host.path().join("stead.toml"), ONE_WORKSPACE.replace("ann", "bob")).unwrap();
        assert_ends(stream);
    }
}

#[test]
fn f12_a_request_that_runs_while_its_agent_is_removed_gets_an_answer() {
    let text = ONE_WORKSPACE.replace("scope = \"rw\"", "scope = \"rw\"\nask = \"changes\"");
    let server = Server::with(&text, HttpOptions::default(), ServerLimits::default());
    let (_, secret) = server.tokens().create(Identity::agent("ann"), None, SystemClock.now()).unwrap();
    let session = server.session(Some(&secret), json!({ "elicitation": {} }));
    let bearer = format!("Bearer {secret}");
    let headers = [("Mcp-Session-Id", session.as_str()), ("Authorization", &bearer)];
    server.post(&headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let arguments = json!({ "path": "/notes/a", "content": "1" });
    let message = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call",
        "params": { "name": "write_file", "arguments": arguments } });
    let mut stream = BufReader::new(server.send("POST", "/mcp", &headers, message.to_string().as_bytes()));
    let mut lines = String::new();
    while !lines.contains("elicitation/create") {
        assert!(stream.read_line(&mut lines).unwrap() > 0, "{lines}");
    }
    fs::write(server.host.path().join("stead.toml"), text.replace("ann", "bob")).unwrap();
    lines.clear();
    while stream.read_line(&mut lines).unwrap() > 0 {}
    assert!(lines.contains("\"id\":5") && lines.contains("you have lost access"), "{lines}");
}

#[test]
fn clients_are_notified_that_lists_have_changed() {
    let host = tempfile::tempdir().unwrap();
    let file = host.path().join("stead.toml");
    let config = |text: &str| Config::parse(text, &file).unwrap();
    let steads = SteadRegistry::of(&config(ONE_WORKSPACE), ServerLimits::default());
    let mut client = Client::uninitialized(steads.get(&Identity::agent("ann")).unwrap());
    client.initialize(json!({}));
    client.request("ping", json!({}));
    // The server starts to listen for changes shortly after the client has initialized.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(client.call("write_file", json!({ "path": "/notes/a", "content": "1" }))["isError"], false);
    steads.replace(&config(&two_workspaces())).unwrap();
    client.wait_for("notifications/tools/list_changed");
    client.wait_for("notifications/resources/list_changed");
    let read = client.call("read_file", json!({ "path": "/more/a" }));
    let text = read["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("1\n[no newline at end; "), "the content of a Memory Store has to stay: {text}");
    // An agent that isn't configured any more has no tools.
    steads.replace(&config(&ONE_WORKSPACE.replace("ann", "bob"))).unwrap();
    client.wait_for("notifications/tools/list_changed");
    assert_eq!(client.request("tools/list", json!({}))["result"]["tools"], json!([]));
    assert!(steads.get(&Identity::agent("ann")).is_err());
}

#[test]
fn a_fork_that_another_process_creates_appears() {
    let host = tempfile::tempdir().unwrap();
    let file = host.path().join("stead.toml");
    let config = Config::parse(&ONE_WORKSPACE.replace("memory", "virtual"), &file).unwrap();
    let steads = Arc::new(SteadRegistry::of(&config, ServerLimits::default()));
    let mut client = Client::uninitialized(steads.get(&Identity::agent("ann")).unwrap());
    client.initialize(json!({}));
    client.call("write_file", json!({ "path": "/notes/a", "content": "1" }));
    std::thread::sleep(Duration::from_secs(2));
    let other_stead = stead::Stead::open(&config, "ann").unwrap();
    other_stead.fork("/notes", "draft").unwrap();
    steads.refresh();
    client.wait_for("notifications/tools/list_changed");
    let read = client.call("read_file", json!({ "path": "/forks/draft/a" }));
    assert!(read["content"][0]["text"].as_str().unwrap().starts_with("1\n[no newline at end; "), "{read}");
}

#[test]
fn a_fork_that_a_tool_makes_or_discards_is_there_or_gone_at_the_next_call() {
    let text =
        ONE_WORKSPACE.replace("kind = \"memory\"", "kind = \"virtual\"\n    [agents.ann]\n    forks = true");
    let server = Server::with(&text, HttpOptions::default(), ServerLimits::default());
    let call = |tool: &str, arguments: serde_json::Value| {
        let answer = server.modern(None, "tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = answer.message()["result"].clone();
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    call("write_file", json!({ "path": "/notes/a", "content": "one\n" }));
    for round in 0..5 {
        call("fork_workspace", json!({ "path": "/notes", "name": "draft" }));
        let content = format!("round {round}\n");
        call("write_file", json!({ "path": format!("/forks/draft/{round}"), "content": content }));
        call("merge_fork", json!({ "fork": "draft", "discard": true }));
        let read = call("read_file", json!({ "path": format!("/notes/{round}") }));
        assert!(read.starts_with(&content), "{read}");
        // A search through everything doesn't meet a fork that is gone.
        assert!(!call("grep", json!({ "path": "/", "pattern": "round" })).contains("/forks"));
    }
}

#[test]
fn f69_what_changed_records_give_a_connected_agent_is_there_at_its_next_call() {
    let host = tempfile::tempdir().unwrap();
    let organization =
        "[stores.shared]\nkind = \"memory\"\n[[organization]]\npath = \".\"\nstore = \"shared\"\n";
    let put = |name: &str, text: &str| {
        fs::write(host.path().join("new"), text).unwrap();
        fs::rename(host.path().join("new"), host.path().join(name)).unwrap();
    };
    put("stead.toml", organization);
    put("org.json", r#"{ "id": "acme", "toolWhitelist": ["write_file", "list_folders"] }"#);
    put("teams.json", r#"[{ "id": "hr" }, { "id": "it" }]"#);
    put("agents.json", r#"[{ "id": "ann", "teamId": "hr" }]"#);
    let config = Config::read(&host.path().join("stead.toml")).unwrap();
    let steads = SteadRegistry::of(&config, ServerLimits::default());
    let mut client = Client::uninitialized(steads.get(&Identity::agent("acme/ann")).unwrap());
    client.initialize(json!({}));
    let mut may_write = |team: &str| {
        let path = format!("/workspaces/{team}/private/a");
        client.call("write_file", json!({ "path": path, "content": "1" }))["isError"] == false
    };
    assert_eq!(["hr", "it"].map(&mut may_write), [true, false]);
    // Nobody calls `refresh`.
    for (team, allowed) in [("it", [false, true]), ("hr", [true, false])] {
        put("agents.json", &format!(r#"[{{ "id": "ann", "teamId": "{team}" }}]"#));
        // For so long, what was read of the files counts as current.
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(["hr", "it"].map(&mut may_write), allowed, "{team}");
    }
}
