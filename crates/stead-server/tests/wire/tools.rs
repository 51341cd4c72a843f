//! Tools as clients list and call them.

use std::sync::Arc;

use serde_json::{Value, json};
use stead::{AccessScope, MemoryStore, Stead};
use stead_core::testkit::PanickingStore;
use stead_server::{LiveStead, ServerLimits};

use crate::client::{Client, code};
use crate::eras::notes;

#[test]
fn tools_are_sorted_stable_and_follow_from_the_scopes() {
    let store = Arc::new(MemoryStore::new());
    let reader = Stead::builder("reader").workspace("/n", AccessScope::ReadOnly, &store).build().unwrap();
    let names = |answer: &Value| -> Vec<String> {
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut client = Client::new(&reader);
    let first = client.request("tools/list", json!({}));
    assert_eq!(names(&first), ["glob", "grep", "list_directory", "read_file", "read_many", "stat"]);
    assert_eq!(first["result"], client.request("tools/list", json!({}))["result"]);
    assert!(
        names(&Client::new(&notes()).request("tools/list", json!({}))).contains(&"write_file".to_owned())
    );
    // A tool that isn't offered is denied, not missing: the model gets an answer that it can read.
    let denied = client.call("write_file", json!({ "path": "/n/x", "content": "" }));
    assert_eq!(denied["isError"], true);
    assert_eq!(code(&denied), "denied");
}

#[test]
fn a_structured_result_has_the_text_once_and_fields_beside_it() {
    let mut client = Client::structured(&notes());
    let read = client.call("read_file", json!({ "path": "/notes/plan.md" }));
    assert_eq!(read["content"], json!([{ "type": "text", "text": "1. read\n" }]));
    assert_eq!(read["structuredContent"]["size"], 8);
    assert!(!read["structuredContent"].to_string().contains("1. read"));
}

#[test]
fn a_picture_follows_a_text_and_other_bytes_are_described() {
    let stead = notes();
    let picture = b"\x89PNG\r\n\x1a\n\0\0\0\0".to_vec();
    stead.vfs().write("/notes/a.png", picture.clone()).unwrap();
    stead.vfs().write("/notes/a b.bin", vec![0, 159, 146, 150]).unwrap();
    let mut client = Client::new(&stead);
    let image = client.call("read_file", json!({ "path": "/notes/a.png" }));
    assert!(image["content"][0]["text"].as_str().unwrap().starts_with("/notes/a.png: image/png, 12 bytes ["));
    assert_eq!(image["content"][1]["type"], "image");
    assert_eq!(image["content"][1]["mimeType"], "image/png");
    let binary = client.call("read_file", json!({ "path": "/notes/a b.bin" }));
    let text = binary["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with(
            "/notes/a b.bin is binary: application/octet-stream, 4 bytes; read it with encoding"
        ),
        "{text}"
    );
    assert_eq!(binary["content"].as_array().unwrap().len(), 1);
    let bytes = client.call("read_file", json!({ "path": "/notes/a b.bin", "encoding": "base64" }));
    assert!(bytes["content"][0]["text"].as_str().unwrap().starts_with("AJ+Slg==\n["), "{bytes}");
}

/// Some clients check failures against the schema as well.
#[test]
fn every_answer_fits_the_schema_that_was_listed() {
    let mut client = Client::structured(&notes());
    let listed = client.request("tools/list", json!({}));
    let schema = |name: &str| {
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["outputSchema"].clone()
    };
    for (tool, arguments) in [
        ("read_file", json!({ "path": "/notes/plan.md" })),
        ("read_file", json!({ "path": "/notes/none" })),
        ("list_directory", json!({ "path": "/" })),
        ("write_file", json!({ "path": "/notes/new", "content": "x" })),
        ("write_file", json!({ "path": "/elsewhere", "content": "x" })),
        ("grep", json!({ "pattern": "read" })),
    ] {
        let answer = client.call(tool, arguments);
        let schema = schema(tool);
        assert_eq!(schema["type"], "object");
        assert_eq!(schema.get("required"), None);
        for field in answer["structuredContent"].as_object().unwrap().keys() {
            assert!(
                schema["properties"].get(field).is_some(),
                "the answer of {tool} has the field `{field}`, which the schema lacks: {answer}"
            );
        }
    }
}

#[test]
fn a_call_that_panics_is_answered_and_does_not_affect_others() {
    let notes = Arc::new(MemoryStore::new());
    let stead = Stead::builder("a")
        .workspace("/broken", AccessScope::ReadWrite, Arc::new(PanickingStore))
        .workspace("/notes", AccessScope::ReadWrite, &notes)
        .build()
        .unwrap();
    let mut client = Client::new(&stead);
    for _ in 0..40 {
        let params = json!({ "name": "read_file", "arguments": { "path": "/broken/x" } });
        let answer = client.request("tools/call", params);
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        let read = client.request("resources/read", json!({ "uri": "stead:///broken/x" }));
        assert_eq!(read["error"]["code"], -32603, "{read}");
    }
    assert_eq!(client.call("write_file", json!({ "path": "/notes/x", "content": "1" }))["isError"], false);
}

#[test]
fn nothing_that_a_client_sends_changes_its_identity() {
    let stead = notes();
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
    let mut initialize_params = crate::client::initialize_params(json!({ "roots": { "listChanged": true } }));
    initialize_params["clientInfo"]["name"] = "admin".into();
    initialize_params["_meta"] = json!({ "agent": "admin", "identity": { "agent": "admin" } });
    client.request("initialize", initialize_params);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }));
    let denied = client.request(
        "tools/call",
        json!({
            "name": "read_file",
            "arguments": { "path": "/etc/passwd" },
            "_meta": { "agent": "admin", "scope": "rw", "roots": ["file:///"] },
        }),
    );
    assert_eq!(code(&denied["result"]), "denied", "{denied}");
    let invalid = client.call("read_file", json!({ "path": "/notes/plan.md", "agent": "admin" }));
    assert_eq!(code(&invalid), "invalid");
}
