//! Calls that need the approval of a person.

use std::sync::Arc;

use serde_json::{Value, json};
use stead::{AccessScope, ApprovalPolicy, Config, MemoryStore, Mount, Stead, VfsPath, Workspace};
use stead_core::vfs::Overwrite;
use stead_server::{LiveStead, ServerLimits};

use crate::client::{Client, code, modern};

fn stead_with_approval() -> Stead {
    let mount = Mount::new(Arc::new(MemoryStore::new()));
    let workspace = Workspace::new(VfsPath::parse("/n").unwrap(), AccessScope::ReadWrite, mount);
    Stead::builder("a")
        .add_workspace(workspace.with_approval_policy(ApprovalPolicy::Changes))
        .build()
        .unwrap()
}

fn write_call() -> Value {
    json!({ "name": "write_file", "arguments": { "path": "/n/x", "content": "1" } })
}

fn write_and_answer(action: &str) -> (Stead, Value) {
    let stead = stead_with_approval();
    let mut client = Client::with(&stead, json!({ "elicitation": {} }));
    let id = client.send_request("tools/call", write_call());
    let question = client.wait_for("elicitation/create");
    assert_eq!(question["params"]["message"], "May the agent `a` use `write_file` on `/n/x`?\n+1");
    assert!(!stead.with_approval().vfs().exists("/n/x").unwrap(), "nothing happens before the answer");
    client.send(
        &json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": action, "content": {} } }),
    );
    let answer = client.answer(id);
    (stead, answer)
}

#[test]
fn a_call_that_the_person_approves_is_made() {
    let (stead, answer) = write_and_answer("accept");
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(stead.with_approval().vfs().exists("/n/x").unwrap());
}

#[test]
fn a_call_that_the_person_refuses_is_not_made() {
    for action in ["decline", "cancel"] {
        let (stead, answer) = write_and_answer(action);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("did not approve"), "{text}");
        assert!(!stead.with_approval().vfs().exists("/n/x").unwrap());
    }
}

#[test]
fn a_call_that_needs_approval_is_denied_if_the_client_can_not_ask() {
    for capabilities in [json!({}), json!({ "elicitation": { "url": {} } })] {
        let stead = stead_with_approval();
        let answer = Client::with(&stead, capabilities).call("write_file", write_call()["arguments"].clone());
        assert_eq!(code(&answer), "denied");
        assert!(
            answer["content"][0]["text"].as_str().unwrap().contains("your host can't ask one"),
            "{answer}"
        );
        assert!(!stead.with_approval().vfs().exists("/n/x").unwrap());
    }
}

#[test]
fn a_newer_client_gets_the_question_as_a_result_and_answers_in_its_next_call() {
    let stead = stead_with_approval();
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
    let capabilities = json!({ "elicitation": {} });
    let response = client.request("tools/call", modern(write_call(), capabilities.clone()));
    let result = &response["result"];
    assert_eq!(result["resultType"], "input_required", "{response}");
    let (name, request) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    let call_with_answer = |mut call: Value, action: &str| {
        call["inputResponses"] = json!({ name: { "action": action, "content": {} } });
        modern(call, capabilities.clone())
    };
    // The answer to one question isn't an answer to another.
    let mut other_call = write_call();
    other_call["arguments"]["path"] = "/n/other".into();
    let response = client.request("tools/call", call_with_answer(other_call, "accept"));
    assert_eq!(response["result"]["resultType"], "input_required", "{response}");
    let done = client.request("tools/call", call_with_answer(write_call(), "accept"));
    assert_eq!(done["result"]["isError"], false, "{done}");
    assert!(stead.with_approval().vfs().exists("/n/x").unwrap());
    // An approval is good for one call.
    stead.with_approval().vfs().write("/n/x", "2").unwrap();
    let response = client.request("tools/call", call_with_answer(write_call(), "accept"));
    assert_eq!(response["result"]["resultType"], "input_required", "{response}");
    assert_eq!(stead.with_approval().vfs().read("/n/x").unwrap().bytes, b"2");
}

#[test]
fn a_refusal_that_a_newer_client_reports_is_final() {
    let stead = stead_with_approval();
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
    let capabilities = json!({ "elicitation": {} });
    let response = client.request("tools/call", modern(write_call(), capabilities.clone()));
    let name = response["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let call_with_answer = |action: &str| {
        let mut call = write_call();
        call["inputResponses"] = json!({ &name: { "action": action, "content": {} } });
        modern(call, capabilities.clone())
    };
    let refused = client.request("tools/call", call_with_answer("decline"));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let response = client.request("tools/call", call_with_answer("accept"));
    assert_eq!(
        response["result"]["resultType"], "input_required",
        "a refusal must not be turned into an approval: {response}"
    );
    assert!(!stead.with_approval().vfs().exists("/n/x").unwrap());
}

/// `/free` needs no approval, `/prod` needs it for changes, `/vault` for everything.
fn stead_with_approval_policies() -> Stead {
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

fn redirect_link(stead: &Stead) {
    stead.vfs().symlink("/free/new", "/vault/v").unwrap();
    stead.vfs().rename("/free/new", "/free/link", Overwrite::Replace).unwrap();
}

fn edit_call() -> Value {
    let arguments = json!({ "path": "/free/link", "old_string": "text", "new_string": "gone" });
    json!({ "name": "edit_file", "arguments": arguments })
}

#[test]
fn an_approval_does_not_cover_where_a_symlink_points_later() {
    let stead = stead_with_approval_policies();
    stead.vfs().symlink("/free/link", "/prod/p").unwrap();
    let mut client = Client::with(&stead, json!({ "elicitation": {} }));
    let id = client.send_request("tools/call", edit_call());
    let question = client.wait_for("elicitation/create");
    assert_eq!(
        question["params"]["message"],
        "May the agent `a` use `edit_file` on `/free/link`, `/prod/p`?\n-text\n+gone"
    );
    redirect_link(&stead);
    let accept = |question: &Value| json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": {} } });
    client.send(&accept(&question));
    let second_question = client.wait_for("elicitation/create");
    assert_eq!(
        second_question["params"]["message"],
        "May the agent `a` use `edit_file` on `/free/link`, `/vault/v`?\n-text\n+gone"
    );
    assert_eq!(stead.with_approval().vfs().read("/vault/v").unwrap().bytes, b"text");
    client.send(&accept(&second_question));
    assert_eq!(client.answer(id)["result"]["isError"], false);
    assert_eq!(stead.with_approval().vfs().read("/prod/p").unwrap().bytes, b"text");
}

#[test]
fn an_approval_of_a_newer_client_does_not_cover_where_a_symlink_points_later() {
    let stead = stead_with_approval_policies();
    stead.vfs().symlink("/free/link", "/prod/p").unwrap();
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
    let capabilities = json!({ "elicitation": {} });
    let response = client.request("tools/call", modern(edit_call(), capabilities.clone()));
    let name = response["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    redirect_link(&stead);
    let mut call = edit_call();
    call["inputResponses"] = json!({ name: { "action": "accept", "content": {} } });
    let second_response = client.request("tools/call", modern(call, capabilities));
    assert_eq!(second_response["result"]["resultType"], "input_required", "{second_response}");
    assert_eq!(stead.with_approval().vfs().read("/vault/v").unwrap().bytes, b"text");
}

#[test]
fn open_questions_block_no_other_call() {
    let stead = stead_with_approval_policies();
    let mut client = Client::with(&stead, json!({ "elicitation": {} }));
    let read_call = json!({ "name": "read_file", "arguments": { "path": "/vault/v" } });
    for _ in 0..40 {
        client.send_request("tools/call", read_call.clone());
    }
    // As many questions are asked as a person could look at; further calls are refused.
    let messages: Vec<_> = (0..40).map(|_| client.receive()).collect();
    let (questions, refusals): (Vec<_>, Vec<_>) =
        messages.iter().partition(|message| message["method"] == "elicitation/create");
    assert_eq!(questions.len(), 32);
    for refusal in refusals {
        assert_eq!(code(&refusal["result"]), "unavailable", "{refusal}");
    }
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    assert_eq!(client.call("list_directory", json!({ "path": "/free" }))["isError"], false);
    // The end of the input ends all open questions.
    client.write.shutdown(std::net::Shutdown::Write).unwrap();
    let start = std::time::Instant::now();
    for _ in questions {
        assert_eq!(client.receive()["result"]["isError"], true);
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn a_call_that_is_cancelled_withdraws_its_question() {
    let stead = stead_with_approval();
    let mut client = Client::with(&stead, json!({ "elicitation": {} }));
    let id = client.send_request("tools/call", write_call());
    let question = client.wait_for("elicitation/create");
    let params = json!({ "requestId": id });
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    assert_eq!(client.wait_for("notifications/cancelled")["params"]["requestId"], question["id"]);
    assert!(!stead.with_approval().vfs().exists("/n/x").unwrap());
}

/// A fork of a Workspace that asks about changes. The fork and the Workspace have changed one text at different lines.
fn stead_with_a_changed_fork(directory: &std::path::Path) -> Stead {
    let text = "[stores.n]\nkind = \"virtual\"\n[agents.a]\nforks = true\n[[agents.a.workspaces]]\nprefix = \"/n\"\n\
                scope = \"rw\"\nstore = \"n\"\nask = \"changes\"\n";
    let config = Config::parse(text, &directory.join("stead.toml")).unwrap();
    let stead = Stead::open(&config, "a").unwrap().with_approval();
    stead.vfs().write("/n/plan", "1\n2\n3\n4\n5\n").unwrap();
    stead.vfs().write("/n/old", "x\n").unwrap();
    let stead = stead.fork("/n", "draft").unwrap();
    stead.vfs().write("/n/plan", "1\n2\n3\n4\nfive\n").unwrap();
    stead.vfs().write("/forks/draft/plan", "one\n2\n3\n4\n5\n").unwrap();
    stead.vfs().rename("/forks/draft/old", "/forks/draft/new", Overwrite::Refuse).unwrap();
    Stead::open(&config, "a").unwrap()
}

#[test]
fn g27_a_merge_asks_once_with_its_diff_and_merges_what_was_shown() {
    let directory = tempfile::tempdir().unwrap();
    let stead = stead_with_a_changed_fork(directory.path());
    let merge = json!({ "name": "merge_fork", "arguments": { "fork": "draft" } });
    let read = |path: &str| String::from_utf8(stead.with_approval().vfs().read(path).unwrap().bytes).unwrap();
    let mut client = Client::with(&stead, json!({ "elicitation": {} }));
    let mut answered = |changes_meanwhile: &dyn Fn(), action: &str| {
        let id = client.send_request("tools/call", merge.clone());
        let question = client.wait_for("elicitation/create");
        changes_meanwhile();
        client.send(
            &json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": action, "content": {} } }),
        );
        let answer = client.answer(id)["result"].take();
        assert!(client.queued.iter().all(|message| message["method"] != "elicitation/create"), "asked twice");
        (question["params"]["message"].as_str().unwrap().to_owned(), answer)
    };
    let expected = "May the agent `a` use `merge_fork` on `/n`?\nfork: \"draft\"\nmoved /n/old to /n/new\nmerged /n/plan\n@@ -1,2 +1,2 @@\n\
                    -1\n+one\n 2";
    let (question, answer) = answered(&|| (), "decline");
    assert_eq!(question, expected);
    assert_eq!(answer["isError"], true, "{answer}");
    assert_eq!(read("/n/plan"), "1\n2\n3\n4\nfive\n");

    // What the fork changes after the question was not shown, so it is not merged.
    let write_to_fork = || drop(stead.with_approval().vfs().write("/forks/draft/secret", "later\n").unwrap());
    let (_, answer) = answered(&write_to_fork, "accept");
    assert_eq!((&answer["isError"], code(&answer)), (&json!(true), "conflict"), "{answer}");
    assert_eq!(read("/n/plan"), "1\n2\n3\n4\nfive\n");

    let (question, answer) = answered(&|| (), "accept");
    assert!(question.contains("added /n/secret\n@@ -0,0 +1 @@\n+later"), "{question}");
    assert_eq!(answer["isError"], false, "{answer}");
    assert_eq!((&*read("/n/plan"), &*read("/n/secret")), ("one\n2\n3\n4\nfive\n", "later\n"));
}
