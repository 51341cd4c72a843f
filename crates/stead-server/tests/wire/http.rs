//! The server over HTTP, with a client that knows only TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use stead::{Clock, Config, Identity, SystemClock, Timestamp, Tokens};
use stead_server::{HttpOptions, ServerLimits, SteadRegistry};
use tokio_util::sync::CancellationToken;

use crate::client::{RUNTIME, TIMEOUT, code, initialize_params, modern};

/// A server with two agents: `ann` may write where `bob` may read.
pub(crate) struct Server {
    address: SocketAddr,
    pub(crate) host: tempfile::TempDir,
    shutdown: CancellationToken,
}

const CONFIG: &str = r#"
    [stores.notes]
    kind = "virtual"
    [[agents.ann.workspaces]]
    prefix = "/notes"
    scope = "rw"
    store = "notes"
    [[agents.bob.workspaces]]
    prefix = "/shared"
    scope = "ro"
    store = "notes"
"#;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The last message in the body, alone or as an event.
    pub(crate) fn message(&self) -> Value {
        let event = self.body.lines().rev().find_map(|line| line.strip_prefix("data: {"));
        let text = event.map_or_else(|| self.body.clone(), |rest| format!("{{{rest}"));
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("not a JSON message: {}", self.body))
    }
}

impl Server {
    pub(crate) fn with(text: &str, options: HttpOptions, limits: ServerLimits) -> Self {
        let host = tempfile::tempdir().unwrap();
        let file = host.path().join("stead.toml");
        std::fs::write(&file, text).unwrap();
        let steads = Arc::new(SteadRegistry::of(&Config::load(&file).unwrap(), limits));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        RUNTIME.spawn(stead_server::serve(listener, steads, options, shutdown.clone()));
        Server { address, host, shutdown }
    }

    fn new() -> Self {
        Server::with(CONFIG, HttpOptions::default(), ServerLimits::default())
    }

    pub(crate) fn tokens(&self) -> Tokens {
        Tokens::of(&Config::load(&self.host.path().join("stead.toml")).unwrap())
    }

    fn token(&self, agent: &str, expires: Option<Timestamp>) -> (String, String) {
        let (token, secret) =
            self.tokens().create(Identity::agent(agent), expires, SystemClock.now()).unwrap();
        (token.id, secret)
    }

    /// Sends a request and returns the connection.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut request_head =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        let default_headers = [
            ("Host", self.address.to_string()),
            ("Content-Type", "application/json".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
        ];
        for (name, value) in &default_headers {
            if !headers.iter().any(|(present, _)| present.eq_ignore_ascii_case(name)) {
                request_head += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in headers {
            request_head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{request_head}\r\n").as_bytes()).unwrap();
        // A server that has refused the headers may have closed the connection before it reads the body.
        let _ = stream.write_all(body);
        stream
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        read_answer(self.send(method, path, headers, body))
    }

    /// Posts a message to `/mcp`.
    pub(crate) fn post(&self, headers: &[(&str, &str)], message: &Value) -> Answer {
        self.request("POST", "/mcp", headers, message.to_string().as_bytes())
    }

    /// Sends a request in the form of clients from 2026-07-28 on.
    pub(crate) fn modern(&self, token: Option<&str>, method: &str, params: Value) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let name = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
        let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": modern(params, json!({})) });
        self.post(&headers, &message)
    }

    /// Opens a stream of notifications, and waits until it has begun.
    pub(crate) fn listen(&self, token: Option<&str>) -> BufReader<TcpStream> {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let params = json!({ "notifications": { "toolsListChanged": true } });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": modern(params, json!({})) });
        let mut headers =
            vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "subscriptions/listen")];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        let mut stream = BufReader::new(self.send("POST", "/mcp", &headers, message.to_string().as_bytes()));
        assert_eq!(read_head(&mut stream).status, 200);
        let acknowledged = |line: &String| line.contains("notifications/subscriptions/acknowledged");
        assert!(stream.by_ref().lines().map(|line| line.unwrap()).any(|line| acknowledged(&line)));
        stream
    }

    /// Starts a session and returns its id.
    pub(crate) fn session(&self, token: Option<&str>, capabilities: Value) -> String {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.as_deref().map(|bearer| ("Authorization", bearer)).into_iter().collect();
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params(capabilities) });
        let answer = self.post(&headers, &message);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.header("mcp-session-id").unwrap().to_owned()
    }
}

/// Waits until a stream ends, but not as long as keep-alive comments would keep it open.
pub(crate) fn assert_ends(mut stream: BufReader<TcpStream>) {
    let deadline = Instant::now() + TIMEOUT;
    while stream.read_line(&mut String::new()).expect("the stream ends in time") > 0 {
        assert!(Instant::now() < deadline, "the stream is still open");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn read_head(reader: &mut impl BufRead) -> Answer {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {line:?}")).parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => return Answer { status, headers, body: String::new() },
        }
    }
}

fn read_answer(stream: TcpStream) -> Answer {
    let mut reader = BufReader::new(stream);
    let mut answer = read_head(&mut reader);
    // A chunked body contains the sizes of its chunks, which no test here minds.
    let mut body = Vec::new();
    reader.read_to_end(&mut body).unwrap();
    answer.body = String::from_utf8(body).unwrap();
    answer
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

#[test]
fn a_local_request_acts_as_the_agent_named_in_the_options() {
    let options = HttpOptions { agent: Some("ann".into()), ..HttpOptions::default() };
    let server = Server::with(CONFIG, options, ServerLimits::default());
    let wrote =
        server.modern(None, "tools/call", call("write_file", json!({ "path": "/notes/a", "content": "1" })));
    assert_eq!(wrote.message()["result"]["isError"], false, "{}", wrote.body);
    let proxied = server.request("POST", "/mcp", &[("X-Forwarded-For", "10.0.0.1")], b"{}");
    assert_eq!(proxied.status, 403);
    assert!(proxied.body.contains("stead token create"), "{}", proxied.body);
}

#[test]
fn with_several_agents_a_request_without_a_token_is_refused() {
    let answer = Server::new().modern(None, "tools/list", json!({}));
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("several agents are configured"), "{}", answer.body);
}

#[test]
fn only_the_token_decides_which_agent_calls() {
    let server = Server::new();
    let (ann, bob) = (server.token("ann", None).1, server.token("bob", None).1);
    let write_call = call("write_file", json!({ "path": "/notes/a", "content": "1" }));
    assert_eq!(
        server.modern(Some(&ann), "tools/call", write_call.clone()).message()["result"]["isError"],
        false
    );
    let mut forged_call = write_call;
    forged_call["_meta"] = json!({ "agent": "ann" });
    let denied = server.modern(Some(&bob), "tools/call", forged_call);
    assert_eq!(code(&denied.message()["result"]), "denied", "{}", denied.body);
    let read = server.modern(Some(&bob), "tools/call", call("read_file", json!({ "path": "/shared/a" })));
    assert_eq!(read.message()["result"]["content"][0]["text"], "1");
    let tools = |token: &str| server.modern(Some(token), "tools/list", json!({})).message()["result"].clone();
    assert_ne!(tools(&ann), tools(&bob));
    assert_eq!(tools(&bob)["cacheScope"], "private");
}

#[test]
fn a_request_without_a_valid_token_gets_an_authentication_challenge() {
    let server = Server::new();
    let (id, valid) = server.token("ann", None);
    let expired = server.token("ann", Some(Timestamp::from_secs(1))).1;
    let of_unknown_agent = server.token("nobody", None).1;
    let status = |token: Option<&str>| server.modern(token, "tools/list", json!({})).status;
    assert_eq!(status(Some(&valid)), 200);
    let unauthenticated = server.modern(None, "tools/list", json!({}));
    assert_eq!(unauthenticated.status, 401);
    let challenge = unauthenticated.header("www-authenticate").unwrap();
    let url = challenge.split('"').nth(1).unwrap();
    assert!(challenge.starts_with("Bearer resource_metadata="), "{challenge}");
    let path = url.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let metadata = server.request("GET", path, &[], b"");
    assert_eq!(metadata.message()["resource"], format!("http://{}/mcp", server.address));
    for invalid_token in ["stead_wrong", &expired, ""] {
        let answer = server.modern(Some(invalid_token), "tools/list", json!({}));
        assert_eq!(answer.status, 401, "{invalid_token}");
        assert!(answer.header("www-authenticate").unwrap().contains("invalid_token"));
        assert!(
            invalid_token.is_empty() || !answer.body.contains(invalid_token),
            "an answer must not repeat a credential"
        );
    }
    let forbidden = server.modern(Some(&of_unknown_agent), "tools/list", json!({}));
    assert_eq!(forbidden.status, 403);
    assert!(forbidden.header("www-authenticate").unwrap().contains("scope=\"agent:nobody\""));
    // Revoking takes effect at once. That no token is left doesn't let callers in without one.
    server.tokens().revoke(&id).unwrap();
    assert_eq!(status(Some(&valid)), 401);
    assert_eq!(status(None), 401);
}

#[test]
fn a_session_can_not_be_used_by_another_agent() {
    let server = Server::new();
    let (ann, bob) = (server.token("ann", None).1, server.token("bob", None).1);
    let session = server.session(Some(&ann), json!({}));
    let list_message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let request_in_session = |token: &str, method: &str, body: &Value| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", &session)];
        server.request(method, "/mcp", &headers, body.to_string().as_bytes())
    };
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(request_in_session(&bob, method, &list_message).status, 404, "{method}");
    }
    assert!(request_in_session(&ann, "POST", &list_message).message()["result"]["tools"].is_array());
    assert_eq!(request_in_session(&ann, "DELETE", &list_message).status, 204);
    assert_eq!(request_in_session(&ann, "POST", &list_message).status, 404);
}

#[test]
fn sessions_are_limited() {
    let options = HttpOptions { agent: Some("ann".into()), ..HttpOptions::default() };
    let server =
        Server::with(CONFIG, options, ServerLimits { sessions_per_identity: 2, ..ServerLimits::default() });
    let first = server.session(None, json!({}));
    server.session(None, json!({}));
    let message =
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize_params(json!({})) });
    let over_limit = server.post(&[], &message);
    assert_eq!(over_limit.status, 503, "{}", over_limit.body);
    assert_eq!(
        server.modern(None, "tools/list", json!({})).status,
        200,
        "clients without sessions must not be affected"
    );
    assert_eq!(server.request("DELETE", "/mcp", &[("Mcp-Session-Id", &first)], b"").status, 204);
    assert_eq!(server.post(&[], &message).status, 200);
}

#[test]
fn a_session_can_ask_a_person() {
    let text = CONFIG.replace("scope = \"rw\"", "scope = \"rw\"\n    ask = \"changes\"");
    let options = HttpOptions { agent: Some("ann".into()), ..HttpOptions::default() };
    let server = Server::with(&text, options, ServerLimits::default());
    let session = server.session(None, json!({ "elicitation": {} }));
    let headers = [("Mcp-Session-Id", session.as_str())];
    server.post(&headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let params = call("write_file", json!({ "path": "/notes/a", "content": "1" }));
    let message = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
    let stream = server.send("POST", "/mcp", &headers, message.to_string().as_bytes());
    let mut lines = BufReader::new(stream).lines();
    let mut next_event = |fragment: &str| -> Value {
        let line = lines.find_map(|line| {
            line.unwrap().strip_prefix("data: ").map(str::to_owned).filter(|line| line.contains(fragment))
        });
        serde_json::from_str(&line.unwrap()).unwrap()
    };
    let question = next_event("elicitation/create");
    let approval =
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": {} } });
    assert_eq!(server.post(&headers, &approval).status, 202);
    assert_eq!(next_event("\"id\":5")["result"]["isError"], false);
}

#[test]
fn a_stream_ends_when_its_token_is_revoked() {
    let server = Server::new();
    let (id, ann) = server.token("ann", None);
    let stream = server.listen(Some(&ann));
    server.tokens().revoke(&id).unwrap();
    assert_ends(stream);
}

#[test]
fn a_stream_without_a_token_ends_when_tokens_are_needed() {
    let options = HttpOptions { agent: Some("ann".into()), ..HttpOptions::default() };
    let server = Server::with(CONFIG, options, ServerLimits::default());
    let stream = server.listen(None);
    server.token("bob", None);
    assert_ends(stream);
}

#[test]
fn requests_for_another_host_or_from_another_origin_are_refused() {
    let server = Server::new();
    for (headers, status) in [
        (vec![("Host", "evil.example")], 403),
        (vec![("Host", "")], 403),
        (vec![("Host", " \t")], 403),
        (vec![("Host", ":80")], 403),
        (vec![("Host", "127.0.0.1:99999")], 403),
        (vec![("Host", ""), ("Host", "localhost")], 400),
        (vec![("Origin", "http://evil.example")], 403),
        (vec![("Origin", "null")], 403),
        (vec![("Host", "localhost"), ("Host", "evil.example")], 400),
    ] {
        for path in ["/mcp", "/healthz", "/metrics", "/"] {
            assert_eq!(server.request("GET", path, &headers, b"").status, status, "{path} {headers:?}");
        }
    }
    assert_eq!(server.request("GET", "http://evil.example/healthz", &[], b"").status, 400);
    // A valid token doesn't help either.
    let (_, secret) = server.token("ann", None);
    let bearer = format!("Bearer {secret}");
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize_params(json!({})) });
    assert_eq!(server.post(&[("Authorization", &bearer)], &message).status, 200);
    for host in ["", " ", ":80", "[]", "evil.example"] {
        assert_eq!(
            server.post(&[("Authorization", &bearer), ("Host", host)], &message).status,
            403,
            "{host:?}"
        );
    }
    assert_eq!(server.request("GET", "/healthz", &[], b"").body, "ok\n");
    assert_eq!(server.request("POST", "/healthz", &[], b"").status, 405);
    assert_eq!(server.request("GET", "/nothing", &[], b"").status, 404);
}

#[test]
fn bad_messages_are_refused_and_do_no_harm() {
    let options = HttpOptions { agent: Some("ann".into()), ..HttpOptions::default() };
    let server = Server::with(CONFIG, options, ServerLimits::default());
    let deeply_nested = b"[".repeat(100_000);
    for body in [&b"garbage"[..], b"", b"{\"jsonrpc\":", b"\xff\xfe", &deeply_nested, b"[]", b"42"] {
        let answer = server.request("POST", "/mcp", &[], body);
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(answer.message()["error"]["code"].is_i64());
    }
    let large = vec![b' '; (16 << 20) + 1];
    assert_eq!(server.request("POST", "/mcp", &[], &large).status, 413);
    // Clients that disconnect in the middle of a request.
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(b"POST /mcp HTTP/1.1\r\nContent-Length: 100\r\n\r\n{\"json").unwrap();
    }
    // The method in the header and the one in the message have to be the same.
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": modern(json!({}), json!({})) });
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call")];
    assert_eq!(server.post(&headers, &message).status, 400);
    assert_eq!(server.modern(None, "tools/list", json!({})).status, 200);
}

#[test]
fn metrics_name_no_agent_and_no_path() {
    let server = Server::new();
    let (_, ann) = server.token("ann", None);
    server.modern(Some(&ann), "tools/call", call("stat", json!({ "path": "/notes" })));
    server.modern(Some(&ann), "tools/call", call("made\"up", json!({})));
    let metrics = server.request("GET", "/metrics", &[], b"").body;
    assert!(metrics.contains("stead_calls_total{tool=\"stat\",outcome=\"ok\"} 1"), "{metrics}");
    assert!(metrics.contains("stead_calls_total{tool=\"unknown\",outcome=\"denied\"} 1"), "{metrics}");
    assert!(!metrics.contains("ann") && !metrics.contains("notes"), "{metrics}");
    let proxied = server.request("GET", "/metrics", &[("X-Forwarded-For", "10.0.0.1")], b"");
    assert_eq!(proxied.status, 401);
}
