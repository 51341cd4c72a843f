//! Calls that need the approval of a person.

use std::sync::Arc;

use serde_json::{Value, json};
use stead::{AccessScope, ApprovalPolicy, MemoryStore, Mount, Stead, VfsPath, Workspace};
use stead_core::vfs::Overwrite;
use stead_server::{LiveStead, ServerLimits};

use crate::client::{Client, code, modern};

fn guarded() -> Stead {
    let mount = Mount::new(Arc::new(MemoryStore::new()));
    let workspace = Workspace::new(VfsPath::parse("/n").unwrap(), AccessScope::ReadWrite, mount);
    Stead::builder("a")
        .add_workspace(workspace.with_approval_policy(ApprovalPolicy::Changes))
        .build()
        .unwrap()
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
    assert!(!stead.with_approval().vfs().exists("/n/x").unwrap(), "nothing happens before the answer");
    client
        .say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": action, "content": {} } }));
    let answer = client.answer(id);
    (stead, answer)
}

#[test]
fn what_the_person_agrees_to_happens() {
    let (stead, answer) = answered("accept");
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(stead.with_approval().vfs().exists("/n/x").unwrap());
}

#[test]
fn what_the_person_refuses_does_not() {
    for action in ["decline", "cancel"] {
        let (stead, answer) = answered(action);
        let words = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(words.contains("did not approve"), "{words}");
        assert!(!stead.with_approval().vfs().exists("/n/x").unwrap());
    }
}

#[test]
fn where_nobody_can_be_asked_it_is_denied() {
    for capabilities in [json!({}), json!({ "elicitation": { "url": {} } })] {
        let stead = guarded();
        let answer = Client::with(&stead, capabilities).call("write_file", write()["arguments"].clone());
        assert_eq!(code(&answer), "denied");
        assert!(
            answer["content"][0]["text"].as_str().unwrap().contains("your host can't ask one"),
            "{answer}"
        );
        assert!(!stead.with_approval().vfs().exists("/n/x").unwrap());
    }
}

#[test]
fn newer_clients_are_asked_between_two_calls() {
    let stead = guarded();
    let mut client = Client::silent(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
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
    // The answer to one question isn't an answer to another.
    let mut other = write();
    other["arguments"]["path"] = "/n/other".into();
    let asked = client.request("tools/call", again(other, "accept"));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let done = client.request("tools/call", again(write(), "accept"));
    assert_eq!(done["result"]["isError"], false, "{done}");
    assert!(stead.with_approval().vfs().exists("/n/x").unwrap());
    // An approval is good for one call.
    stead.with_approval().vfs().write("/n/x", "2").unwrap();
    let asked = client.request("tools/call", again(write(), "accept"));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!(stead.with_approval().vfs().read("/n/x").unwrap().bytes, b"2");
}

#[test]
fn a_newer_client_says_that_the_person_refuses() {
    let stead = guarded();
    let mut client = Client::silent(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
    let can_ask = json!({ "elicitation": {} });
    let asked = client.request("tools/call", modern(write(), can_ask.clone()));
    let name = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answered = |action: &str| {
        let mut call = write();
        call["inputResponses"] = json!({ &name: { "action": action, "content": {} } });
        modern(call, can_ask.clone())
    };
    let refused = client.request("tools/call", answered("decline"));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let asked = client.request("tools/call", answered("accept"));
    assert_eq!(asked["result"]["resultType"], "input_required", "a no can't be made a yes: {asked}");
    assert!(!stead.with_approval().vfs().exists("/n/x").unwrap());
}

/// `/free` needs no approval, `/prod` needs it for changes, `/vault` for everything.
fn town() -> Stead {
    let workspace = |prefix: &str| {
        let mount = Mount::new(Arc::new(MemoryStore::new()));
        Workspace::new(VfsPath::parse(prefix).unwrap(), AccessScope::ReadWrite, mount)
    };
    let stead = Stead::builder("a")
        .add_workspace(workspace("/free"))
        .add_workspace(workspace("/prod").with_approval_policy(ApprovalPolicy::Changes))
        .add_workspace(workspace("/vault").with_approval_policy(ApprovalPolicy::Everything))
        .build()
        .unwrap();
    stead.with_approval().vfs().write("/prod/p", "text").unwrap();
    stead.with_approval().vfs().write("/vault/v", "text").unwrap();
    stead
}

fn lead_elsewhere(stead: &Stead) {
    stead.vfs().symlink("/free/new", "/vault/v").unwrap();
    stead.vfs().rename("/free/new", "/free/link", Overwrite::Replace).unwrap();
}

fn edit() -> Value {
    let arguments = json!({ "path": "/free/link", "old_string": "text", "new_string": "gone" });
    json!({ "name": "edit_file", "arguments": arguments })
}

#[test]
fn an_agreement_is_not_spent_where_a_symlink_leads_meanwhile() {
    let stead = town();
    stead.vfs().symlink("/free/link", "/prod/p").unwrap();
    let mut client = Client::with(&stead, json!({ "elicitation": {} }));
    let id = client.ask("tools/call", edit());
    let asked = client.notified("elicitation/create");
    assert_eq!(asked["params"]["message"], "May the agent use `edit_file` on `/free/link`, `/prod/p`?");
    lead_elsewhere(&stead);
    let accept = |asked: &Value| json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": {} } });
    client.say(&accept(&asked));
    let again = client.notified("elicitation/create");
    assert_eq!(again["params"]["message"], "May the agent use `edit_file` on `/free/link`, `/vault/v`?");
    assert_eq!(stead.with_approval().vfs().read("/vault/v").unwrap().bytes, b"text");
    client.say(&accept(&again));
    assert_eq!(client.answer(id)["result"]["isError"], false);
    assert_eq!(stead.with_approval().vfs().read("/prod/p").unwrap().bytes, b"text");
}

#[test]
fn a_newer_client_does_not_spend_it_there_either() {
    let stead = town();
    stead.vfs().symlink("/free/link", "/prod/p").unwrap();
    let mut client = Client::silent(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
    let can_ask = json!({ "elicitation": {} });
    let asked = client.request("tools/call", modern(edit(), can_ask.clone()));
    let name = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    lead_elsewhere(&stead);
    let mut call = edit();
    call["inputResponses"] = json!({ name: { "action": "accept", "content": {} } });
    let again = client.request("tools/call", modern(call, can_ask));
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    assert_eq!(stead.with_approval().vfs().read("/vault/v").unwrap().bytes, b"text");
}

#[test]
fn open_questions_are_in_nobodys_way() {
    let stead = town();
    let mut client = Client::with(&stead, json!({ "elicitation": {} }));
    let read = json!({ "name": "read_file", "arguments": { "path": "/vault/v" } });
    for _ in 0..40 {
        client.ask("tools/call", read.clone());
    }
    // As many questions are asked as a person could look at; further calls are refused.
    let said: Vec<_> = (0..40).map(|_| client.hear()).collect();
    let (asked, told): (Vec<_>, Vec<_>) =
        said.iter().partition(|message| message["method"] == "elicitation/create");
    assert_eq!(asked.len(), 32);
    for told in told {
        assert_eq!(code(&told["result"]), "unavailable", "{told}");
    }
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    assert_eq!(client.call("list_directory", json!({ "path": "/free" }))["isError"], false);
    // The end of the input ends all open questions.
    client.write.shutdown(std::net::Shutdown::Write).unwrap();
    let began = std::time::Instant::now();
    for _ in asked {
        assert_eq!(client.hear()["result"]["isError"], true);
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn a_call_that_is_cancelled_withdraws_its_question() {
    let stead = guarded();
    let mut client = Client::with(&stead, json!({ "elicitation": {} }));
    let id = client.ask("tools/call", write());
    let asked = client.notified("elicitation/create");
    let params = json!({ "requestId": id });
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    assert_eq!(client.notified("notifications/cancelled")["params"]["requestId"], asked["id"]);
    assert!(!stead.with_approval().vfs().exists("/n/x").unwrap());
}
