//! Calls that a person has to agree to.

use std::sync::Arc;

use serde_json::{Value, json};
use stead::{AccessScope, Ask, MemoryStore, Mount, Stead, VfsPath, Workspace};
use stead_server::{Limits, Served};

use crate::client::{Client, modern};

fn guarded() -> Stead {
    let mount = Mount::new(Arc::new(MemoryStore::new()));
    let workspace = Workspace::new(VfsPath::parse("/n").unwrap(), AccessScope::ReadWrite, mount);
    Stead::builder("a").mount(workspace.with_ask(Ask::Changes)).build().unwrap()
}

fn write() -> Value {
    json!({ "name": "write_file", "arguments": { "path": "/n/x", "content": "1" } })
}

fn answered(action: &str) -> (Stead, Value) {
    let stead = guarded();
    let mut client = Client::with(&stead, json!({ "elicitation": {} }));
    let id = client.ask("tools/call", write());
    let asked = client.notified("elicitation/create");
    assert_eq!(asked["params"]["message"], "May the agent use `write_file` on `/n/x`?");
    assert!(!stead.agreed().vfs().exists("/n/x").unwrap(), "nothing happens before the answer");
    client
        .say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": action, "content": {} } }));
    let answer = client.answer(id);
    (stead, answer)
}

#[test]
fn what_the_person_agrees_to_happens() {
    let (stead, answer) = answered("accept");
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(stead.agreed().vfs().exists("/n/x").unwrap());
}

#[test]
fn what_the_person_refuses_does_not() {
    for action in ["decline", "cancel"] {
        let (stead, answer) = answered(action);
        let words = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(words.contains("did not agree"), "{words}");
        assert!(!stead.agreed().vfs().exists("/n/x").unwrap());
    }
}

#[test]
fn where_nobody_can_be_asked_it_is_denied() {
    for capabilities in [json!({}), json!({ "elicitation": { "url": {} } })] {
        let stead = guarded();
        let answer = Client::with(&stead, capabilities).call("write_file", write()["arguments"].clone());
        assert_eq!(answer["structuredContent"]["error"]["code"], "denied");
        assert!(answer["content"][0]["text"].as_str().unwrap().contains("no way to ask"), "{answer}");
        assert!(!stead.agreed().vfs().exists("/n/x").unwrap());
    }
}

#[test]
fn newer_clients_are_asked_between_two_calls() {
    let stead = guarded();
    let mut client = Client::silent(Arc::new(Served::new(&stead, Limits::default())));
    let can_ask = json!({ "elicitation": {} });
    let asked = client.request("tools/call", modern(write(), can_ask.clone()));
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (name, request) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    let again = |mut call: Value, action: &str| {
        call["inputResponses"] = json!({ name: { "action": action, "content": {} } });
        modern(call, can_ask.clone())
    };
    // The answer to one question is none to another.
    let mut other = write();
    other["arguments"]["path"] = "/n/other".into();
    let asked = client.request("tools/call", again(other, "accept"));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let refused = client.request("tools/call", again(write(), "decline"));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(!stead.agreed().vfs().exists("/n/x").unwrap());
    let done = client.request("tools/call", again(write(), "accept"));
    assert_eq!(done["result"]["isError"], false, "{done}");
    assert!(stead.agreed().vfs().exists("/n/x").unwrap());
}
