//! Clients of both protocol eras, with and without sessions, on one server.

use std::sync::Arc;

use serde_json::json;
use stead::{AccessScope, MemoryStore, Stead};
use stead_server::{LiveStead, ServerLimits};

use crate::client::{Client, initialize_params, modern};

pub(crate) fn notes() -> Stead {
    let store = Arc::new(MemoryStore::new());
    let stead = Stead::builder("coder").workspace("/notes", AccessScope::ReadWrite, &store).build().unwrap();
    stead.vfs().write("/notes/plan.md", "1. read\n").unwrap();
    stead
}

fn uninitialized() -> Client {
    Client::uninitialized(Arc::new(LiveStead::new(&notes(), ServerLimits::default())))
}

#[test]
fn initialize_returns_the_instructions_and_capabilities() {
    let mut client = uninitialized();
    let answer = client.initialize(json!({}));
    let result = &answer["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert!(result["instructions"].as_str().unwrap().contains("/notes: READ_WRITE"));
    let capabilities = result["capabilities"].as_object().unwrap();
    let declared: Vec<_> = capabilities.keys().map(String::as_str).collect();
    assert_eq!(declared, ["prompts", "resources", "tools"]);
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    let listed = client.request("tools/list", json!({}));
    assert_eq!(
        listed["result"].get("resultType"),
        None,
        "an older client must not get a field that it doesn't know"
    );
}

#[test]
fn initialize_answers_in_the_protocol_version_of_an_older_client() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut params = initialize_params(json!({}));
        params["protocolVersion"] = version.into();
        assert_eq!(uninitialized().request("initialize", params)["result"]["protocolVersion"], version);
    }
}

#[test]
fn a_client_without_a_handshake_is_answered_request_by_request() {
    let mut client = uninitialized();
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
fn an_unknown_protocol_version_is_refused() {
    let mut params = modern(json!({}), json!({}));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let answer = uninitialized().request("tools/list", params);
    assert!(answer["error"]["data"]["supported"].is_array(), "{answer}");
}

#[test]
fn methods_of_undeclared_capabilities_are_not_found() {
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
fn the_filesystem_map_is_a_prompt_too() {
    let mut client = Client::new(&notes());
    let listed = client.request("prompts/list", json!({}));
    assert_eq!(listed["result"]["prompts"][0]["name"], "filesystem_map");
    let prompt = client.request("prompts/get", json!({ "name": "filesystem_map" }));
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("# Filesystem Map"), "{text}");
    assert_eq!(client.request("prompts/get", json!({ "name": "other" }))["error"]["code"], -32602);
}

#[test]
fn a_subscription_sends_updates_until_it_is_cancelled() {
    let stead = notes();
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
    let params = json!({ "notifications": {
        "toolsListChanged": true,
        "resourceSubscriptions": ["stead:///notes/plan.md", "stead:///elsewhere/x"],
    }});
    let id = client.send_request("subscriptions/listen", modern(params, json!({})));
    let acknowledged = client.wait_for("notifications/subscriptions/acknowledged");
    assert_eq!(
        acknowledged["params"]["notifications"]["resourceSubscriptions"],
        json!(["stead:///notes/plan.md"]),
        "{acknowledged}"
    );
    // The server starts to follow the file shortly after the acknowledgement.
    std::thread::sleep(std::time::Duration::from_secs(2));
    stead.vfs().write("/notes/plan.md", "2. write\n").unwrap();
    let updated = client.wait_for("notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "stead:///notes/plan.md");
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
    );
    let listed = client.request("tools/list", modern(json!({}), json!({})));
    assert!(listed["result"]["tools"].is_array());
}

#[test]
fn subscriptions_are_limited_and_block_no_other_request() {
    let mut client = uninitialized();
    let listen_params = || modern(json!({ "notifications": { "toolsListChanged": true } }), json!({}));
    for _ in 0..ServerLimits::default().listeners_per_identity {
        client.send_request("subscriptions/listen", listen_params());
        client.wait_for("notifications/subscriptions/acknowledged");
    }
    // The library acknowledges a subscription shortly before the server hears of it.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let id = client.send_request("subscriptions/listen", listen_params());
    assert_eq!(client.answer(id)["error"]["code"], -32600);
    assert!(client.request("tools/list", modern(json!({}), json!({})))["result"]["tools"].is_array());
}
