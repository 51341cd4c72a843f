//! An MCP client over standard input and output, for tasks that look at answers as they are on the wire.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::Result;

/// The environment variables that would change what `stead` does.
pub(crate) const STEAD_VARIABLES: [&str; 3] = ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN"];

/// A running server and the connection to it. Dropping it ends the server.
#[derive(Debug)]
pub(crate) struct StdioClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl StdioClient {
    /// Starts the server.
    pub(crate) fn start(server: &mut Command) -> Result<Self> {
        for name in STEAD_VARIABLES {
            server.env_remove(name);
        }
        let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let input = child.stdin.take().expect("stdin is piped");
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Ok(StdioClient { child, input, output, next: 1 })
    }

    /// Introduces the client, and returns the server's answer.
    pub(crate) fn initialize(&mut self) -> Result<Value> {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "xtask", "version": "1" },
        });
        let answer = self.request("initialize", &params)?;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(answer)
    }

    /// Sends a request and returns its result.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(format!("the server has ended instead of answering {method}").into());
            }
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message["result"].take());
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result {
        Ok(writeln!(self.input, "{message}")?)
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
