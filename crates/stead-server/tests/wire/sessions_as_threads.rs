//! Agents for which each session over HTTP is a thread (`thread = "session"`), and agents that need a token with a thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead::{Clock, Config, Identity, Stores, SystemClock};
use stead_server::{HttpOptions, ServerLimits};

use crate::client::initialize_params;
use crate::http::{Answer, Server};

const CONFIG: &str = r#"
    [stores.files]
    kind = "KIND"
    [agents.ann]
    scope = "thread"
    thread = "session"
    [[agents.ann.workspaces]]
    prefix = "/w"
    scope = "rw"
    store = "files"
    [agents.bob]
    scope = "thread"
    [[agents.bob.workspaces]]
    prefix = "/w"
    scope = "rw"
    store = "files"
"#;

fn server(kind: &str, agent: Option<&str>, limits: ServerLimits) -> Server {
    let options = HttpOptions { agent: agent.map(str::to_owned), ..HttpOptions::default() };
    Server::with(&CONFIG.replace("KIND", kind), options, limits)
}

/// Calls a tool in a session. Each request has an id of its own.
fn in_session(server: &Server, session: &str, tool: &str, arguments: Value) -> Value {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let params = json!({ "name": tool, "arguments": arguments });
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    let answer = server.post(&[("Mcp-Session-Id", session)], &message);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.message()["result"].take()
}

fn delete(server: &Server, session: &str) -> Answer {
    server.request("DELETE", "/mcp", &[("Mcp-Session-Id", session)], b"")
}

/// The names of all threads, as another process sees them.
fn threads(server: &Server) -> Vec<String> {
    let config = Config::load(&server.host.path().join("stead.toml")).unwrap();
    let threads = Stores::of(&config).threads().list(None).unwrap();
    threads.into_iter().map(|thread| thread.key.thread).collect()
}

#[test]
fn s14_each_session_is_a_thread_that_ends_with_it() {
    for kind in ["virtual", "memory"] {
        let server = server(kind, Some("ann"), ServerLimits::default());
        let (one, two) = (server.session(None, json!({})), server.session(None, json!({})));
        in_session(&server, &one, "write_file", json!({ "path": "/w/a", "content": "one" }));
        in_session(&server, &two, "write_file", json!({ "path": "/w/b", "content": "two" }));
        let listing = |session: &str| {
            in_session(&server, session, "list_directory", json!({ "path": "/w" }))["content"][0]["text"]
                .to_string()
        };
        assert!(listing(&one).contains('a') && !listing(&one).contains("b\\n"), "{}", listing(&one));
        let read = in_session(&server, &two, "read_file", json!({ "path": "/w/a" }));
        assert_eq!(read["isError"], true, "{kind}: {read}");
        assert_eq!(threads(&server).len(), 2, "{kind}");
        assert!(threads(&server).iter().all(|name| name.starts_with("session-")), "{:?}", threads(&server));

        assert_eq!(delete(&server, &one).status, 204);
        assert_eq!(threads(&server).len(), 1, "{kind}");
        assert_eq!(delete(&server, &one).status, 404);
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        assert_eq!(server.post(&[("Mcp-Session-Id", &one)], &message).status, 404);
        let read = in_session(&server, &two, "read_file", json!({ "path": "/w/b" }));
        let text = read["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("two"), "{kind}: the other session's thread stays: {text}");
    }
}

#[test]
fn s14_requests_of_one_session_share_its_thread() {
    let server = server("virtual", Some("ann"), ServerLimits::default());
    let session = server.session(None, json!({}));
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (server, session) = (&server, &session);
            scope.spawn(move || {
                let arguments = json!({ "path": format!("/w/{number}"), "content": "x" });
                assert_eq!(in_session(server, session, "write_file", arguments)["isError"], false);
            });
        }
    });
    let listing = in_session(&server, &session, "list_directory", json!({ "path": "/w" })).to_string();
    assert!((0..8).all(|number| listing.contains(&number.to_string())), "{listing}");
    assert_eq!(threads(&server).len(), 1);
}

#[test]
fn s14_a_client_without_sessions_is_told_to_use_a_token_with_a_thread() {
    let server = server("virtual", Some("ann"), ServerLimits::default());
    let answer = server.modern(None, "tools/list", json!({}));
    assert_eq!(answer.status, 400);
    let error = &answer.message()["error"];
    let text = error["message"].as_str().unwrap();
    assert!(text.contains("`stead token create --agent ann --thread NAME`"), "{text}");
    assert!(text.contains("has no sessions"), "{text}");
    assert_eq!((&answer.message()["id"], &error["code"]), (&json!(1), &json!(-32022)), "{}", answer.body);
    assert!(error["data"]["supported"].as_array().unwrap().contains(&json!("2025-11-25")), "{error}");
    assert!(!error["data"]["supported"].to_string().contains("2026"), "{error}");
    // A client with sessions that hasn't begun one.
    let early = server.post(&[], &json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list" }));
    assert_eq!(early.status, 400);
    assert!(early.message()["error"]["message"].as_str().unwrap().contains("send `initialize` first"));
    // A large message isn't read.
    let large = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": "x".repeat(100_000) });
    assert_eq!(server.post(&[], &large).status, 400);
    assert_eq!(threads(&server), Vec::<String>::new(), "none of these makes a thread");

    let identity = Identity::agent("ann").with_thread("mine");
    let (_, secret) = server.tokens().create(identity, None, SystemClock.now()).unwrap();
    let params = json!({ "name": "write_file", "arguments": { "path": "/w/a", "content": "1" } });
    let written = server.modern(Some(&secret), "tools/call", params);
    assert_eq!(written.message()["result"]["isError"], false, "{}", written.body);
    assert_eq!(threads(&server), ["mine"]);
}

#[test]
fn s14_without_sessions_as_threads_a_caller_needs_a_thread() {
    let server = server("virtual", Some("bob"), ServerLimits::default());
    let initialize =
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params(json!({})) });
    for answer in [server.modern(None, "tools/list", json!({})), server.post(&[], &initialize)] {
        assert_eq!(answer.status, 403);
        assert!(answer.body.contains("the agent `bob` works in threads"), "{}", answer.body);
    }
    assert_eq!(threads(&server), Vec::<String>::new());
}

#[test]
fn s14_sessions_that_are_threads_are_limited_and_belong_to_their_agent() {
    let limits = ServerLimits { sessions_per_identity: 2, ..ServerLimits::default() };
    let server = server("virtual", Some("ann"), limits);
    let first = server.session(None, json!({}));
    server.session(None, json!({}));
    let message =
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params(json!({})) });
    assert_eq!(server.post(&[], &message).status, 503);
    assert_eq!(threads(&server).len(), 2);
    assert_eq!(delete(&server, &first).status, 204);
    let third = server.session(None, json!({}));
    // An `initialize` that fails leaves no thread.
    delete(&server, &third);
    let broken = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} });
    let refused = server.post(&[], &broken);
    assert!(refused.status >= 400 || refused.body.contains("error"), "{}", refused.body);
    let deadline = Instant::now() + Duration::from_secs(20);
    while threads(&server).len() != 1 {
        assert!(Instant::now() < deadline, "{:?}", threads(&server));
        std::thread::sleep(Duration::from_millis(100));
    }
    // Another agent's token can't use the session of this one.
    let session = server.session(None, json!({}));
    let identity = Identity::agent("bob").with_thread("t");
    let (_, secret) = server.tokens().create(identity, None, SystemClock.now()).unwrap();
    let bearer = format!("Bearer {secret}");
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let stolen = server.post(&[("Mcp-Session-Id", &session), ("Authorization", &bearer)], &list);
    assert_eq!(stolen.status, 404, "{}", stolen.body);
}
