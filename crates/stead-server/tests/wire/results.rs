//! The content of results: text alone, unless the server, the agent or the token asks for structured content.

use std::sync::Arc;

use serde_json::{Value, json};
use stead::tools::ResultFormat;
use stead::{Clock, Config, Identity, SystemClock};
use stead_server::{HttpOptions, ServerLimits, SteadRegistry};

use crate::client::Client;
use crate::eras::notes;
use crate::http::Server;

const CONFIG: &str = r#"
    [stores.notes]
    kind = "virtual"
    [[agents.ann.workspaces]]
    prefix = "/notes"
    scope = "rw"
    store = "notes"
    [agents.program]
    structured = true
    workspaces = [{ prefix = "/notes", scope = "rw", store = "notes" }]
"#;

/// Calls with every kind of result: text, a picture, bytes, a change and an error.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("write_file", json!({ "path": "/notes/a", "content": "one\n" })),
        (
            "write_file",
            json!({ "path": "/notes/a.png", "content": "iVBORw0KGgoAAA==", "encoding": "base64" }),
        ),
        ("write_file", json!({ "path": "/notes/a.zip", "content": "AP8=", "encoding": "base64" })),
        ("edit_file", json!({ "path": "/notes/a", "old_string": "one", "new_string": "two" })),
        ("read_file", json!({ "path": "/notes/a" })),
        ("read_file", json!({ "path": "/notes/a.png" })),
        ("read_file", json!({ "path": "/notes/a.zip" })),
        ("read_many", json!({ "paths": ["/notes/a", "/notes/none"] })),
        ("list_directory", json!({ "path": "/notes" })),
        ("glob", json!({ "pattern": "**" })),
        ("grep", json!({ "pattern": "two" })),
        ("stat", json!({ "path": "/notes/a" })),
        ("read_file", json!({ "path": "/notes/none" })),
        ("read_file", json!({ "path": 7 })),
        ("delete_file", json!({ "path": "/notes/a" })),
    ]
}

/// Whether a result has only text and pictures. Fails if it has anything that a host could misread.
fn is_text_only(result: &Value) -> bool {
    let content = result["content"].as_array().unwrap();
    assert!(!content[0]["text"].as_str().unwrap().is_empty(), "the first block is never empty: {result}");
    for block in &content[1..] {
        assert_eq!(block["type"], "image", "{result}");
        assert_eq!(block.get("_meta"), None);
    }
    let structured = result.get("structuredContent").is_some();
    assert_eq!(result.get("_meta"), None);
    !structured
}

#[test]
fn results_are_text_and_pictures_and_nothing_else() {
    let mut client = Client::new(&notes());
    for tool in client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap() {
        assert_eq!(tool.get("outputSchema"), None, "{tool}");
        let max_size = &tool["_meta"]["anthropic/maxResultSizeChars"];
        let has_limit = ["limit", "max_results", "byte_limit"]
            .iter()
            .any(|name| tool["inputSchema"]["properties"].get(name).is_some());
        assert_eq!(max_size.is_u64(), has_limit, "{tool}");
    }
    for (tool, arguments) in calls() {
        let result = client.call(tool, arguments);
        assert!(is_text_only(&result), "{tool}: {result}");
    }
}

#[test]
fn an_agent_whose_configuration_says_so_gets_structured_content() {
    let host = tempfile::tempdir().unwrap();
    let config = Config::parse(CONFIG, &host.path().join("stead.toml")).unwrap();
    let steads = Arc::new(SteadRegistry::of(&config, ServerLimits::default()));
    for (agent, structured) in [("ann", false), ("program", true)] {
        let mut client = Client::uninitialized(steads.get(&Identity::agent(agent)).unwrap());
        client.initialize(json!({}));
        let tools = client.request("tools/list", json!({}))["result"]["tools"].take();
        assert!(
            tools.as_array().unwrap().iter().all(|tool| tool.get("outputSchema").is_some() == structured)
        );
        let result = client.call("list_directory", json!({ "path": "/notes" }));
        assert_eq!(result.get("structuredContent").is_some(), structured, "{agent}: {result}");
    }
    let structured_for_all =
        SteadRegistry::of(&config, ServerLimits::default()).with_results(ResultFormat::Structured);
    let mut client = Client::uninitialized(structured_for_all.get(&Identity::agent("ann")).unwrap());
    client.initialize(json!({}));
    let result = client.call("read_file", json!({ "path": "/notes/none" }));
    assert_eq!(result["structuredContent"]["error"]["code"], "not_found");
}

#[test]
fn a_token_created_for_structured_results_gets_them_in_both_eras() {
    let server = Server::with(CONFIG, HttpOptions::default(), ServerLimits::default());
    let token = |results| {
        let created =
            server.tokens().create_with_results(Identity::agent("ann"), None, results, SystemClock.now());
        created.unwrap().1
    };
    let (plain, structured) = (token(ResultFormat::Text), token(ResultFormat::Structured));
    let call = json!({ "name": "list_directory", "arguments": { "path": "/notes" } });
    for (token, expected) in [(&plain, false), (&structured, true), (&plain, false)] {
        let bearer = format!("Bearer {token}");
        let is_structured = |result: &Value| result.get("structuredContent").is_some();
        let schema_count = |result: &Value| {
            let tools = result["tools"].as_array().unwrap();
            tools.iter().filter(|tool| tool.get("outputSchema").is_some()).count()
        };
        let answer = server.modern(Some(token), "tools/call", call.clone()).message();
        assert_eq!(is_structured(&answer["result"]), expected, "{answer}");
        let listed = server.modern(Some(token), "tools/list", json!({})).message();
        assert_eq!(schema_count(&listed["result"]) > 0, expected);

        let session = server.session(Some(token), json!({}));
        let headers = [("Authorization", &*bearer), ("Mcp-Session-Id", &*session)];
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
        let answer = server.post(&headers, &message).message();
        assert_eq!(is_structured(&answer["result"]), expected, "{answer}");
    }
}
