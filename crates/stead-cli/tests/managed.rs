//! Managed Workspaces end to end: the real MCP server writes, plain SQL reads the manifest, and the commands show it.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

const CONFIG: &str = r#"
[stores.notes]
kind = "virtual"

[stores.disk]
kind = "physical"
path = "files"

[agents.coder]
history = true

[[agents.coder.workspaces]]
prefix = "/notes"
scope = "rw"
store = "notes"
managed = true

[[agents.coder.workspaces]]
prefix = "/disk"
scope = "rw"
store = "disk"
managed = true
"#;

struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("files")).unwrap();
        std::fs::write(directory.path().join("stead.toml"), CONFIG).unwrap();
        Host(directory)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
        command.args(arguments).current_dir(&self.0).env("HOME", self.0.path().join("no-home"));
        for variable in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The first column of a query on the database file, as text.
    fn query(&self, sql: &str) -> Vec<String> {
        let conn = rusqlite::Connection::open(self.0.path().join(".stead/stead.db")).unwrap();
        let mut statement = conn.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }
}

/// A client of the server that a host would start.
struct Client {
    server: Child,
    answers: BufReader<ChildStdout>,
    next_id: u64,
}

impl Client {
    fn connect(host: &Host) -> Self {
        let mut command = host.command(&["mcp", "--agent", "coder"]);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(server.stdout.take().unwrap());
        let mut client = Client { server, answers, next_id: 0 };
        let about = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about });
        client.request("initialize", params);
        client
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params });
        writeln!(self.server.stdin.as_mut().unwrap(), "{message}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].clone()
    }

    /// Calls a tool that has to succeed, and returns its text.
    fn call(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn end(mut self) {
        drop(self.server.stdin.take());
        assert!(self.server.wait().unwrap().success());
    }
}

#[test]
fn w28_to_w32_what_the_real_server_writes_is_in_the_manifest_for_plain_sql() {
    let host = Host::new();
    let mut client = Client::connect(&host);
    for prefix in ["/notes", "/disk"] {
        let written = client
            .call("write_file", json!({ "path": format!("{prefix}/scraper.py"), "content": "print(1)" }));
        assert!(written.starts_with(&format!("Created {prefix}/code/20")), "{written}");
        client.call(
            "write_file",
            json!({ "path": format!("{prefix}/raw.txt"), "content": "x", "category": "data" }),
        );
        let read = client.call("read_file", json!({ "path": format!("{prefix}/scraper.py") }));
        assert!(read.starts_with("print(1)"), "{read}");
        let listed = client.call("workspace", json!({ "action": "list", "workspace": prefix }));
        assert!(listed.contains("scraper.py") && listed.contains("[1 to 2 of 2]"), "{listed}");
    }
    client.end();
    let rows = host.query(
        "SELECT category || '|' || original_name || '|' || size_bytes || '|' || source_tool || '|' || session_key
         FROM workspace_files ORDER BY id",
    );
    let expected = ["code|scraper.py|8|write_file|coder", "data|raw.txt|1|write_file|coder"];
    assert_eq!(rows, [expected, expected].concat());
    assert_eq!(
        host.query("SELECT DISTINCT path FROM workspace_files WHERE path NOT LIKE '%/20__-__-__/%'").len(),
        0
    );
    let accessed = host.query("SELECT accessed_at FROM workspace_files WHERE accessed_at IS NOT NULL");
    assert_eq!(accessed.len(), 2, "the reads were written with the audit");
}

#[test]
fn w91_the_commands_list_tag_and_clean_up_the_same_files() {
    let host = Host::new();
    let agent = ["--agent", "coder"];
    let files = |arguments: &[&str]| {
        host.stdout(&[&["files"], arguments, &["--workspace", "/disk"], &agent].concat())
    };
    let written = host.run(&["write", "/disk/plan.md", "text", "--agent", "coder"]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let listed: Value = serde_json::from_str(&files(&["list", "--json"])).unwrap();
    let path = listed["files"][0]["path"].as_str().unwrap().to_owned();
    assert!(path.starts_with("/disk/documents/"), "{listed}");
    assert!(files(&["list"]).contains("plan.md"));
    files(&["tag", &path, "pin", "draft"]);
    let found: Value = serde_json::from_str(&files(&["search", "draft", "--json"])).unwrap();
    assert_eq!(found["files"][0]["tags"], json!(["pin", "draft"]));
    assert!(files(&["info", &path]).contains("plan.md"));
    assert!(files(&["tree"]).contains("documents/"));
    assert_eq!(files(&["cleanup", "--status", "--json"]).trim(), "null");
    let cleaned: Value = serde_json::from_str(&files(&["cleanup", "--json"])).unwrap();
    assert_eq!(cleaned["removed"], 0);
    let status: Value = serde_json::from_str(&files(&["cleanup", "--status", "--json"])).unwrap();
    assert_eq!(status["at"], cleaned["at"]);
    std::fs::remove_file(host.0.path().join("files").join(path.strip_prefix("/disk/").unwrap())).unwrap();
    let synced: Value = serde_json::from_str(&files(&["sync", "--json"])).unwrap();
    assert_eq!(synced, json!({ "added": 0, "removed": 1, "resized": 0 }));
    let missing = host.run(&["files", "info", &path, "--agent", "coder"]);
    assert_eq!(missing.status.code(), Some(1));
}
