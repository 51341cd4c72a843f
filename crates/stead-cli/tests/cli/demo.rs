//! The demo as a new user sees it: one command, and an MCP client that reads, is denied, edits, undoes and looks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::common::{Running, TestDir, error_code};

struct Demo {
    child: Running,
    startup_info: Value,
}

impl Demo {
    fn new(dir: &TestDir) -> Self {
        Demo::start(dir, &["--demo"])
    }

    fn start(dir: &TestDir, demo: &[&str]) -> Self {
        let options = ["--listen", "127.0.0.1:0", "--json"];
        let mut command = dir.command(["serve"].into_iter().chain(demo.iter().copied()).chain(options));
        let mut child = Running::spawn(command.env("TMPDIR", dir.path("")).stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Demo { child, startup_info: serde_json::from_str(&line).unwrap() }
    }

    fn address(&self) -> &str {
        let url = self.startup_info["listening"].as_str().unwrap();
        url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap()
    }

    /// Makes a request without a session, and returns the status and the message.
    fn request(&self, agent: &str, method: &str, name: Option<&str>, mut params: Value) -> (u16, Value) {
        let token = self.startup_info["tokens"][agent].as_str().unwrap_or("stead_wrong");
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "demo", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let mut stream = TcpStream::connect(self.address()).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n{body}",
            self.address(),
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let message = answer.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let message =
            message.filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(Value::is_object);
        (status, message.unwrap_or_default())
    }

    fn call(&self, agent: &str, tool: &str, arguments: Value) -> Value {
        let (status, message) =
            self.request(agent, "tools/call", Some(tool), json!({ "name": tool, "arguments": arguments }));
        assert_eq!(status, 200, "{message}");
        message["result"].clone()
    }
}

#[test]
fn a_client_of_the_demo_reads_is_denied_edits_undoes_and_is_on_record() {
    let dir = TestDir::empty();
    let mut demo = Demo::new(&dir);
    assert!(demo.startup_info["map"].as_str().unwrap().contains("- /handbook: READ_ONLY (RO)"));
    let (status, _) = demo.request("nobody", "tools/list", None, json!({}));
    assert_eq!(status, 401);

    let greet = json!({ "path": "/project/src/greet.py" });
    let text = |result: &Value| result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let before = text(&demo.call("writer", "read_file", greet.clone()));
    assert!(before.contains("Hello!"), "{before}");
    let denied = demo.call("writer", "write_file", json!({ "path": "/handbook/style.md", "content": "" }));
    assert_eq!(error_code(&denied), "denied");
    let edit = json!({ "path": "/project/src/greet.py", "old_string": "Hello!", "new_string": "Goodbye!" });
    assert_eq!(demo.call("writer", "edit_file", edit)["isError"], false);
    assert!(text(&demo.call("reviewer", "read_file", greet.clone())).contains("Goodbye!"));
    assert_eq!(demo.call("writer", "undo", json!({}))["isError"], false);
    // Only its version tag differs.
    let untagged = |text: &str| text.split("[version_tag ").next().map(str::to_owned);
    let after = text(&demo.call("writer", "read_file", greet));
    assert!(after != before && untagged(&after) == untagged(&before), "{after}");
    let (_, tools) = demo.request("reviewer", "tools/list", None, json!({}));
    assert!(!tools.to_string().contains("\"undo\""), "{tools}");

    let config = demo.startup_info["config"].as_str().unwrap().to_owned();
    let audit = || String::from_utf8(dir.stead(["--config", &config, "audit", "--json"]).stdout).unwrap();
    // The records of reads are written a moment later.
    let mut audit_records = audit();
    for _ in 0..50 {
        if audit_records.contains("\"read_file\"") && audit_records.contains("\"denied\"") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        audit_records = audit();
    }
    let records: Vec<Value> = audit_records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (call, outcome) in
        [("read_file", "ok"), ("write_file", "denied"), ("edit_file", "ok"), ("undo", "ok")]
    {
        let on_record = |record: &&Value| record["call"] == call && record["outcome"] == outcome;
        let count = records.iter().filter(on_record).count();
        assert!(count > 0, "the audit has no record of {call} {outcome}: {audit_records}");
    }

    let pid = rustix::process::Pid::from_child(&demo.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(demo.child.wait().unwrap().success());
    let remaining = std::fs::read_dir(dir.path("")).unwrap().count();
    assert_eq!(remaining, 0, "the demo has to remove all its files");
}

#[test]
fn the_demo_prints_what_to_paste_into_a_client() {
    let dir = TestDir::empty();
    let mut command = dir.command(["serve", "--demo", "--listen", "127.0.0.1:0"]);
    let mut child = Running::spawn(command.env("TMPDIR", dir.path("")).stdout(Stdio::piped()));
    let mut output = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !output.contains("audit\n") {
        output.push_str(&lines.next().unwrap().unwrap());
        output.push('\n');
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    for part in [
        "    # Filesystem Map",
        "Serving MCP at http://127.0.0.1:",
        "claude mcp add --transport http stead http://127.0.0.1:",
        "--header \"Authorization: Bearer stead_",
        "{\"mcpServers\":{\"stead\":{",
        "/stead.toml audit",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
}

#[test]
fn the_demo_of_an_organization_serves_each_agent_what_its_records_grant() {
    let dir = TestDir::empty();
    let demo = Demo::start(&dir, &["--demo", "org"]);
    assert_eq!(demo.startup_info["tokens"].as_object().unwrap().len(), 8);
    let notes = json!({ "path": "/workspaces/agent-catalyst/shared/interview-notes.md" });
    let read = |agent: &str| demo.call(agent, "read_file", notes.clone());
    assert_eq!(read("acme/agent-marcus")["isError"], false, "a team mate reads it");
    assert_eq!(read("acme/agent-elena")["isError"], false, "leadership reads it");
    assert_eq!(error_code(&read("acme/agent-dana")), "denied");
    let write = json!({ "path": "/workspaces/team-library/shared/handbook.md", "content": "" });
    assert_eq!(error_code(&demo.call("acme/agent-marcus", "write_file", write.clone())), "denied");
    let (_, tools) = demo.request("acme/agent-ivy", "tools/list", None, json!({}));
    assert!(!tools.to_string().contains("\"write_file\""), "{tools}");
    let config = demo.startup_info["config"].as_str().unwrap();
    let shown = dir.stead(["--config", config, "org", "show", "--agent", "agent-marcus"]);
    assert!(String::from_utf8(shown.stdout).unwrap().contains("member of HR (agents.json)"));
}
