//! An MCP client made of JSON and lines, without an MCP library.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::{Value, json};
use stead::Stead;
use stead::tools::ResultFormat;
use stead_server::{LiveStead, ServerLimits};
use tokio::runtime::{Builder, Runtime};

/// The runtime of all servers of these tests.
pub(crate) static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap());

pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// One client of a server.
pub(crate) struct Client {
    pub(crate) write: UnixStream,
    read: BufReader<UnixStream>,
    next: i64,
    /// Messages that the server sent on its own initiative.
    pub(crate) queued: VecDeque<Value>,
}

impl Client {
    /// A client that hasn't sent anything yet.
    pub(crate) fn uninitialized(live_stead: Arc<LiveStead>) -> Self {
        let (client_end, server_end) = UnixStream::pair().unwrap();
        server_end.set_nonblocking(true).unwrap();
        client_end.set_read_timeout(Some(TIMEOUT)).unwrap();
        client_end.set_write_timeout(Some(TIMEOUT)).unwrap();
        RUNTIME.spawn(async move {
            let (read, write) = tokio::net::UnixStream::from_std(server_end).unwrap().into_split();
            stead_server::serve_stream(live_stead, read, write).await;
        });
        let read = BufReader::new(client_end.try_clone().unwrap());
        Client { write: client_end, read, next: 1, queued: VecDeque::new() }
    }

    /// A client that has initialized its session, with these capabilities.
    pub(crate) fn with(stead: &Stead, capabilities: Value) -> Self {
        let mut client = Client::uninitialized(Arc::new(LiveStead::new(stead, ServerLimits::default())));
        client.initialize(capabilities);
        client
    }

    pub(crate) fn new(stead: &Stead) -> Self {
        Client::with(stead, json!({}))
    }

    /// A client whose results have structured content.
    pub(crate) fn structured(stead: &Stead) -> Self {
        let live_stead =
            LiveStead::new(stead, ServerLimits::default()).with_results(ResultFormat::Structured);
        let mut client = Client::uninitialized(Arc::new(live_stead));
        client.initialize(json!({}));
        client
    }

    pub(crate) fn initialize(&mut self, capabilities: Value) -> Value {
        let answer = self.request("initialize", initialize_params(capabilities));
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).unwrap();
    }

    /// The next message from the server.
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).expect("the server sends a line in time");
        assert!(!line.is_empty(), "the server closed the connection");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request, and returns its id.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for the answer to a request. Other messages are stored in `queued`.
    pub(crate) fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.receive();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.queued.push_back(message);
        }
    }

    /// Makes a request, and returns its answer.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        self.answer(id)
    }

    /// Calls a tool and returns its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].take()
    }

    /// Waits for a notification from the server.
    pub(crate) fn wait_for(&mut self, method: &str) -> Value {
        if let Some(index) = self.queued.iter().position(|message| message["method"] == method) {
            return self.queued.remove(index).unwrap();
        }
        loop {
            let message = self.receive();
            if message["method"] == method {
                return message;
            }
            self.queued.push_back(message);
        }
    }
}

pub(crate) fn initialize_params(capabilities: Value) -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": { "name": "test", "version": "1" },
    })
}

/// The error code at the end of a failure's text, as a model reads it.
pub(crate) fn code(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    text.strip_suffix(']').and_then(|text| text.rsplit_once(" [")).unwrap_or_else(|| panic!("{text}")).1
}

/// Parameters in the form of clients from 2026-07-28 on.
pub(crate) fn modern(mut params: Value, capabilities: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params
}
