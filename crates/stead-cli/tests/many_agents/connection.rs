//! A persistent connection: enough HTTP to make one MCP request after the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// A connection that was idle for this long isn't used again: the server closes it soon.
const MAX_IDLE: Duration = Duration::from_secs(8);

/// The protocol era of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// Up to 2025-11-25, with sessions.
    Sessions,
    /// From 2026-07-28 on, without sessions.
    NoSessions,
}

/// One client on one connection.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    host: SocketAddr,
    token: String,
    session: Option<String>,
    last_id: u64,
    last_used: Instant,
}

/// The server's reply.
struct Answer {
    status: u16,
    session: Option<String>,
    body: String,
}

impl Connection {
    pub(crate) fn open(host: SocketAddr, token: &str, era: Era) -> Self {
        let (stream, token) = (connect(host), token.to_owned());
        let last_used = Instant::now();
        let mut connection = Connection { stream, host, token, session: None, last_id: 0, last_used };
        if era == Era::Sessions {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "crowd", "version": "1" },
            });
            let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            let answer = connection.post(&message, &[]);
            assert_eq!(answer.status, 200, "{}", answer.body);
            connection.session = Some(answer.session.unwrap());
            let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            assert_eq!(connection.post_in_session(&initialized).status, 202);
        }
        connection
    }

    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Another connection of the same client, in the same session.
    pub(crate) fn open_second(&self) -> Self {
        let mut other = Connection::open(self.host, &self.token, Era::NoSessions);
        other.session.clone_from(&self.session);
        other
    }

    /// Makes a request that has to succeed, and returns its result.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let name = params.get("name").and_then(Value::as_str).map(str::to_owned);
        let mut message = self.answer(method, params);
        assert!(message.get("error").is_none(), "{method} {name:?}: {message}");
        message["result"].take()
    }

    /// Makes a request, and returns the whole answer: a result, or an error of the protocol.
    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Value {
        let name = params.get("name").and_then(Value::as_str).map(str::to_owned);
        self.send(method, params);
        let answer = self.read_answer();
        assert_eq!(answer.status, 200, "{method} {name:?}: {}", answer.body);
        let message = message_in(&answer.body);
        assert_eq!(message["id"], self.last_id, "the answer is for another request: {message}");
        message
    }

    /// Makes a request that may fail, and returns the whole body of the reply.
    #[allow(dead_code, reason = "not every test that has this client uses it")]
    pub(crate) fn raw_request(&mut self, method: &str, params: Value) -> String {
        self.send(method, params);
        self.read_answer().body
    }

    /// Starts a call without waiting for its answer, and returns the id of the request.
    pub(crate) fn start_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send("tools/call", json!({ "name": tool, "arguments": arguments }));
        self.last_id
    }

    /// Waits for the answer to the call that was started, which has to succeed.
    pub(crate) fn finish_call(&mut self) {
        let answer = self.read_answer();
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(message_in(&answer.body)["result"]["isError"], false, "{}", answer.body);
    }

    /// Sends a notification, and returns the status of the reply.
    pub(crate) fn notify(&mut self, message: &Value) -> u16 {
        self.post_in_session(message).status
    }

    fn send(&mut self, method: &str, mut params: Value) {
        self.last_id += 1;
        let name = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
        if self.session.is_none() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "crowd", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let message = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        match self.session.clone() {
            Some(session) => self.write(&message, &session_headers(&session)),
            None => {
                let mut headers = vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
                headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
                self.write(&message, &headers);
            }
        }
    }

    /// Calls a tool, which has to succeed.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.try_call(tool, arguments);
        assert_eq!(result["isError"], false, "{tool}: {result}");
        result
    }

    /// Calls a tool.
    pub(crate) fn try_call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// The status of the reply to a request in this session.
    pub(crate) fn status_in(&mut self, session: &str) -> u16 {
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": {} });
        self.post(&message, &session_headers(session)).status
    }

    /// Sends a message in this connection's session.
    fn post_in_session(&mut self, message: &Value) -> Answer {
        let session = self.session.clone().unwrap();
        self.post(message, &session_headers(&session))
    }

    fn post(&mut self, message: &Value, headers: &[(&str, &str)]) -> Answer {
        self.write(message, headers);
        self.read_answer()
    }

    fn write(&mut self, message: &Value, headers: &[(&str, &str)]) {
        let body = message.to_string();
        let mut text = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.host,
            self.token,
            body.len()
        );
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if self.last_used.elapsed() > MAX_IDLE {
            self.stream = connect(self.host);
        }
        self.stream.get_mut().write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
    }

    fn read_answer(&mut self) -> Answer {
        let status = self.read_line().split(' ').nth(1).unwrap().parse().unwrap();
        let (mut session, mut length, mut is_chunked) = (None, 0, false);
        loop {
            let line = self.read_line();
            let Some((name, value)) = line.split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "mcp-session-id" => session = Some(value.to_owned()),
                "content-length" => length = value.parse().unwrap(),
                "transfer-encoding" => is_chunked = value == "chunked",
                _ => {}
            }
        }
        let mut body = Vec::new();
        if is_chunked {
            loop {
                let size = usize::from_str_radix(&self.read_line(), 16).unwrap();
                self.read_body(size, &mut body);
                self.read_line();
                if size == 0 {
                    break;
                }
            }
        } else {
            self.read_body(length, &mut body);
        }
        self.last_used = Instant::now();
        Answer { status, session, body: String::from_utf8(body).unwrap() }
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the server closed the connection");
        line.trim_end().to_owned()
    }

    fn read_body(&mut self, size: usize, body: &mut Vec<u8>) {
        let start = body.len();
        body.resize(start + size, 0);
        self.stream.read_exact(&mut body[start..]).unwrap();
    }
}

fn connect(host: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    BufReader::new(stream)
}

/// The headers of a request in a session.
fn session_headers(session: &str) -> [(&str, &str); 2] {
    [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")]
}

/// The message in a body, alone or as an event.
fn message_in(body: &str) -> Value {
    let event =
        body.lines().rev().find_map(|line| line.strip_prefix("data: ").filter(|data| data.starts_with('{')));
    serde_json::from_str(event.unwrap_or(body)).unwrap_or_else(|_| panic!("not a JSON message: {body}"))
}
