//! Clients of both protocol eras, with and without sessions, on one server.

use std::sync::Arc;

use serde_json::json;
use stead::{AccessScope, MemoryStore, Stead};
use stead_server::{LiveStead, ServerLimits};

use crate::client::{Client, introduction, modern};

pub(crate) fn notes() -> Stead {
    let store = Arc::new(MemoryStore::new());
    let stead = Stead::builder("coder").workspace("/notes", AccessScope::ReadWrite, &store).build().unwrap();
    stead.vfs().write("/notes/plan.md", "1. read\n").unwrap();
    stead
}

fn silent() -> Client {
    Client::silent(Arc::new(LiveStead::new(&notes(), ServerLimits::default())))
}

#[test]
fn a_client_that_initializes_is_told_what_it_has() {
    let mut client = silent();
    let answer = client.initialize(json!({}));
    let result = &answer["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert!(result["instructions"].as_str().unwrap().contains("/notes: READ_WRITE"));
    let capabilities = result["capabilities"].as_object().unwrap();
    let declared: Vec<_> = capabilities.keys().map(String::as_str).collect();
    assert_eq!(declared, ["prompts", "resources", "tools"]);
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    let listed = client.request("tools/list", json!({}));
    assert_eq!(listed["result"].get("resultType"), None, "older clients do not know it");
}

#[test]
fn older_revisions_are_answered_in_their_own() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut params = introduction(json!({}));
        params["protocolVersion"] = version.into();
        assert_eq!(silent().request("initialize", params)["result"]["protocolVersion"], version);
    }
}

#[test]
fn a_client_without_a_handshake_is_answered_request_by_request() {
    let mut client = silent();
    let answer = client.request("server/discover", modern(json!({}), json!({})));
    let result = &answer["result"];
    let versions = result["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")));
    assert_eq!(result["cacheScope"], "private");
    assert!(result["instructions"].as_str().unwrap().contains("/notes"));

    let listed = client.request("tools/list", modern(json!({}), json!({})));
    assert_eq!(listed["result"]["cacheScope"], "private");
    assert_eq!(listed["result"]["resultType"], "complete");
    let call = json!({ "name": "read_file", "arguments": { "path": "/notes/plan.md" } });
    let read = client.request("tools/call", modern(call, json!({})));
    assert!(read["result"]["content"][0]["text"].as_str().unwrap().starts_with("1. read\n[version_tag "));
    // The new protocol version doesn't have this method.
    assert_eq!(client.request("ping", modern(json!({}), json!({})))["error"]["code"], -32601);
}

#[test]
fn a_revision_that_nobody_knows_is_refused() {
    let mut params = modern(json!({}), json!({}));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let answer = silent().request("tools/list", params);
    assert!(answer["error"]["data"]["supported"].is_array(), "{answer}");
}

#[test]
fn what_is_not_declared_is_not_there() {
    let mut client = Client::new(&notes());
    let complete =
        json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "a", "value": "" } });
    for (method, params) in [
        ("completion/complete", complete),
        ("logging/setLevel", json!({ "level": "debug" })),
        ("tasks/get", json!({ "taskId": "1" })),
        ("sampling/createMessage", json!({})),
        ("no/such/thing", json!({})),
    ] {
        assert_eq!(client.request(method, params)["error"]["code"], -32601, "{method}");
    }
}

#[test]
fn the_map_is_a_prompt_too() {
    let mut client = Client::new(&notes());
    let listed = client.request("prompts/list", json!({}));
    assert_eq!(listed["result"]["prompts"][0]["name"], "filesystem_map");
    let got = client.request("prompts/get", json!({ "name": "filesystem_map" }));
    let text = got["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("# Filesystem Map"), "{text}");
    assert_eq!(client.request("prompts/get", json!({ "name": "other" }))["error"]["code"], -32602);
}

#[test]
fn a_listener_is_told_until_it_has_enough() {
    let stead = notes();
    let mut client = Client::silent(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
    let wish = json!({ "notifications": {
        "toolsListChanged": true,
        "resourceSubscriptions": ["stead:///notes/plan.md", "stead:///elsewhere/x"],
    }});
    let id = client.ask("subscriptions/listen", modern(wish, json!({})));
    let granted = client.notified("notifications/subscriptions/acknowledged");
    assert_eq!(
        granted["params"]["notifications"]["resourceSubscriptions"],
        json!(["stead:///notes/plan.md"]),
        "{granted}"
    );
    // The server starts to follow the file shortly after the acknowledgement.
    std::thread::sleep(std::time::Duration::from_millis(300));
    stead.vfs().write("/notes/plan.md", "2. write\n").unwrap();
    let told = client.notified("notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "stead:///notes/plan.md");
    client.say(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
    );
    let listed = client.request("tools/list", modern(json!({}), json!({})));
    assert!(listed["result"]["tools"].is_array());
}

#[test]
fn listeners_are_limited_and_in_nobodys_way() {
    let mut client = silent();
    let wish = || modern(json!({ "notifications": { "toolsListChanged": true } }), json!({}));
    for _ in 0..ServerLimits::default().listeners_per_identity {
        client.ask("subscriptions/listen", wish());
        client.notified("notifications/subscriptions/acknowledged");
    }
    // The library acknowledges a subscription shortly before the server hears of it.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let id = client.ask("subscriptions/listen", wish());
    assert_eq!(client.answer(id)["error"]["code"], -32600);
    assert!(client.request("tools/list", modern(json!({}), json!({})))["result"]["tools"].is_array());
}
