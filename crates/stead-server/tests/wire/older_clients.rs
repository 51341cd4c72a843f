//! Clients of older protocol versions over HTTP.

use serde_json::{Value, json};
use stead_server::{HttpOptions, ServerLimits};

use crate::http::{Answer, Server};

const CONFIG: &str = r#"
    [stores.notes]
    kind = "virtual"
    [[agents.ann.workspaces]]
    prefix = "/notes"
    scope = "rw"
    store = "notes"
"#;

/// Starts a session of a protocol version, makes one request in it, and returns both answers.
fn session(protocol_version: &str) -> [Answer; 2] {
    let server = Server::with(CONFIG, HttpOptions::default(), ServerLimits::default());
    let post = |headers: &[(&str, &str)], message: Value| {
        server.request("POST", "/mcp", headers, message.to_string().as_bytes())
    };
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": protocol_version, "capabilities": {}, "clientInfo": client });
    let initialized =
        post(&[], json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
    let id = initialized.headers.iter().find(|(name, _)| name == "mcp-session-id").unwrap().1.clone();
    let headers = [("mcp-session-id", &*id), ("MCP-Protocol-Version", protocol_version)];
    let ready = post(&headers, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    assert_eq!(ready.status, 202);
    let listed = post(&headers, json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    [initialized, listed]
}

/// The contents of the `data` fields of a stream.
fn data(answer: &Answer) -> Vec<&str> {
    answer.body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect()
}

#[test]
fn an_older_client_gets_no_event_without_a_message() {
    for protocol_version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        for answer in session(protocol_version) {
            let data = data(&answer);
            assert_eq!(data.len(), 1, "{protocol_version}: {}", answer.body);
            assert!(serde_json::from_str::<Value>(data[0]).is_ok(), "{protocol_version}: {}", answer.body);
        }
    }
}

#[test]
fn a_client_of_2025_11_25_gets_an_id_to_resume_from_before_the_answer() {
    let [_, listed] = session("2025-11-25");
    let data = data(&listed);
    assert_eq!(data.len(), 2, "{}", listed.body);
    assert_eq!(data[0], "");
    assert!(listed.body.find("id: ").unwrap() < listed.body.find("\"result\"").unwrap(), "{}", listed.body);
}
