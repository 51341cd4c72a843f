//! An MCP client over pipes that writes and reads lines of JSON itself, so that no library is part of what is measured.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;

/// One use of a tool.
#[derive(Debug)]
pub struct Call {
    pub tool: &'static str,
    pub arguments: Value,
}

/// A server that was started and has answered `initialize`.
#[derive(Debug)]
pub struct Client {
    child: Child,
    /// `None` once the server has to end.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    line: String,
    call_count: u64,
}

impl Client {
    /// Starts a server. Also returns how long it took until the server answered.
    pub fn start(mut command: Command) -> Result<(Client, Duration)> {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "stead-bench", "version": "0.1.0" },
        });
        let start = Instant::now();
        // Stderr is needed only if the server doesn't start: then it says why.
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let stdout = BufReader::with_capacity(64 << 10, child.stdout.take().expect("stdout is piped"));
        let mut client = Client { child, stdin, stdout, line: String::new(), call_count: 0 };
        let result = client.request("initialize", &params).and_then(|()| client.read_answer());
        if let Err(error) = result {
            return Err(format!("{command:?} does not answer: {error}; {}", client.error_output()).into());
        }
        let duration = start.elapsed();
        client.discard_stderr();
        client.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok((client, duration))
    }

    /// Calls a tool. Returns its text, also if the call is refused, and how long it took.
    pub fn call(&mut self, call: &Call) -> Result<(String, Duration)> {
        let line = self.line_for(call);
        let start = Instant::now();
        self.send(&line)?;
        self.read_answer()?;
        let duration = start.elapsed();
        let answer: Value = serde_json::from_str(&self.line)?;
        let text = answer["result"]["content"][0]["text"].as_str().or(answer["error"]["message"].as_str());
        Ok((
            text.ok_or_else(|| format!("`{}` answers without text: {answer}", call.tool))?.to_owned(),
            duration,
        ))
    }

    /// Makes all of these calls, `width` of them at a time, and returns how long that took. Fails if a call fails.
    pub fn call_concurrently(&mut self, width: usize, calls: &[Call]) -> Result<Duration> {
        let lines: Vec<String> = calls.iter().map(|call| self.line_for(call)).collect();
        let (first, rest) = lines.split_at(width.min(lines.len()));
        let mut rest = rest.iter();
        let start = Instant::now();
        first.iter().try_for_each(|line| self.send(line))?;
        for _ in &lines {
            self.read_answer()?;
            if self.line.contains("\"isError\":true") || !self.line.contains("\"result\":") {
                return Err(format!("a call failed: {}", self.line).into());
            }
            if let Some(line) = rest.next() {
                self.send(line)?;
            }
        }
        Ok(start.elapsed())
    }

    /// How many calls were made.
    pub fn calls(&self) -> u64 {
        self.call_count
    }

    /// The most memory that the server has used so far, in bytes.
    pub fn peak_memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib =
            line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("the kernel reports no `VmHWM`")?;
        Ok(kib.trim().parse::<f64>()? * 1024.0)
    }

    fn line_for(&mut self, Call { tool, arguments }: &Call) -> String {
        self.call_count += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        let id = self.call_count;
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    }

    fn request(&mut self, method: &str, params: &Value) -> Result {
        self.send(&format!("{}\n", json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params })))
    }

    fn send(&mut self, line: &str) -> Result {
        Ok(self.stdin.as_mut().ok_or("the server was asked to end")?.write_all(line.as_bytes())?)
    }

    /// Reads until there is an answer, and leaves it in `self.line`. Skips messages that the server sends by itself.
    fn read_answer(&mut self) -> Result {
        loop {
            self.line.clear();
            if self.stdout.read_line(&mut self.line)? == 0 {
                return Err("the server closed the connection".into());
            }
            // Quotes inside texts are escaped, so a match is always a key of the message.
            if self.line.contains("\"result\":") || self.line.contains("\"error\":") {
                return Ok(());
            }
        }
    }

    /// The stderr of a server that did not start.
    fn error_output(&mut self) -> String {
        let _ = self.child.kill();
        let stderr = self.child.stderr.take().map(std::io::read_to_string);
        stderr.and_then(std::io::Result::ok).unwrap_or_default()
    }

    /// Reads and drops the rest of stderr, so that the server never waits for a reader of its log.
    fn discard_stderr(&mut self) {
        if let Some(mut stderr) = self.child.stderr.take() {
            std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A server that ends when its input is closed gets 10 seconds for it, which is enough on a busy machine too.
        drop(self.stdin.take());
        for _ in 0..1_000 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
