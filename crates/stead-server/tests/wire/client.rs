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

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One client of a server.
pub(crate) struct Client {
    pub(crate) write: UnixStream,
    read: BufReader<UnixStream>,
    next: i64,
    /// Messages that the server sent on its own initiative.
    pub(crate) heard: VecDeque<Value>,
}

impl Client {
    /// A client that hasn't sent anything yet.
    pub(crate) fn silent(served: Arc<LiveStead>) -> Self {
        let (here, there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        here.set_read_timeout(Some(PATIENCE)).unwrap();
        here.set_write_timeout(Some(PATIENCE)).unwrap();
        RUNTIME.spawn(async move {
            let (read, write) = tokio::net::UnixStream::from_std(there).unwrap().into_split();
            stead_server::serve_stream(served, read, write).await;
        });
        let read = BufReader::new(here.try_clone().unwrap());
        Client { write: here, read, next: 1, heard: VecDeque::new() }
    }

    /// A client that has initialized its session, with these capabilities.
    pub(crate) fn with(stead: &Stead, capabilities: Value) -> Self {
        let mut client = Client::silent(Arc::new(LiveStead::new(stead, ServerLimits::default())));
        client.initialize(capabilities);
        client
    }

    pub(crate) fn new(stead: &Stead) -> Self {
        Client::with(stead, json!({}))
    }

    /// A client whose results have structured content.
    pub(crate) fn structured(stead: &Stead) -> Self {
        let served = LiveStead::new(stead, ServerLimits::default()).with_results(ResultFormat::Structured);
        let mut client = Client::silent(Arc::new(served));
        client.initialize(json!({}));
        client
    }

    pub(crate) fn initialize(&mut self, capabilities: Value) -> Value {
        let answer = self.request("initialize", introduction(capabilities));
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    /// Sends a message.
    pub(crate) fn say(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).unwrap();
    }

    /// The next message from the server.
    pub(crate) fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).expect("the server says something in time");
        assert!(!line.is_empty(), "the server has hung up");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request, and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for the answer to a request. Other messages are stored in `heard`.
    pub(crate) fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.hear();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.heard.push_back(message);
        }
    }

    /// Makes a request, and returns its answer.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Calls a tool and returns its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].take()
    }

    /// Waits for a notification from the server.
    pub(crate) fn notified(&mut self, method: &str) -> Value {
        if let Some(at) = self.heard.iter().position(|message| message["method"] == method) {
            return self.heard.remove(at).unwrap();
        }
        loop {
            let message = self.hear();
            if message["method"] == method {
                return message;
            }
            self.heard.push_back(message);
        }
    }
}

pub(crate) fn introduction(capabilities: Value) -> Value {
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
