//! `mcp`, `serve` and `token`, as hosts start them and people use them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{TestDir, error_code};

/// A server that was started, with its pipes.
pub(crate) struct Launched {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Launched {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Launched { child, stdout }
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
        self.read_message()
    }

    fn read_message(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut stderr = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("not a JSON message: {line:?}; {stderr}")
        })
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        self.request(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
        )
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].take()
    }

    /// Closes the server's input, and waits for its end.
    pub(crate) fn stop(self) {
        self.stop_and_read_stderr();
    }

    /// Ends the server by a signal, with its input still open.
    pub(crate) fn end(mut self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the server's input, waits for its end, and returns its stderr.
    pub(crate) fn stop_and_read_stderr(mut self) -> String {
        drop(self.child.stdin.take());
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(self.child.wait().unwrap().success());
        stderr
    }
}

#[test]
fn directories_can_be_served_without_any_configuration() {
    let dir = TestDir::empty();
    dir.file("one/a.txt", "hello\n");
    dir.file("two/b.txt", "");
    let mut command = dir.command(["mcp", "one", "two:rw"]);
    command.env("XDG_STATE_HOME", dir.path("state"));
    let mut server = Launched::new(command);
    let map = server.initialize()["result"]["instructions"].as_str().unwrap().to_owned();
    assert!(
        map.contains("- /one: READ_ONLY (RO). Some names are hidden\n- /two: READ_WRITE (RW). "),
        "{map}"
    );
    assert!(!map.contains(dir.path("").to_str().unwrap()), "{map}");
    let read = server.call("read_file", json!({ "path": "/one/a.txt" }));
    assert_eq!(read["content"][0]["text"], "hello\n");
    let denied = server.call("write_file", json!({ "path": "/one/x", "content": "" }));
    assert_eq!(error_code(&denied), "denied");
    assert_eq!(server.call("write_file", json!({ "path": "/two/x", "content": "1" }))["isError"], false);
    server.stop();
    assert_eq!(std::fs::read(dir.path("two/x")).unwrap(), b"1");
    // Stead leaves nothing of its own in the directories.
    for (directory, files) in [("one", 1), ("two", 2)] {
        assert_eq!(std::fs::read_dir(dir.path(directory)).unwrap().count(), files, "{directory}");
    }
    assert!(dir.path("state/stead").is_dir());
}

/// Waits for a process to end on its own, and returns its exit code.
fn wait_for_exit(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the process does not end");
}

#[test]
fn a_server_ends_when_its_output_is_closed_though_its_input_is_open() {
    let dir = TestDir::new();
    // It ends at once if there is nothing to answer, and also if there is.
    for sends_request in [false, true] {
        let mut server = Launched::new(dir.command(["mcp", "--agent", "coder"]));
        server.initialize();
        assert_eq!(server.call("stat", json!({ "path": "/notes" }))["isError"], false);
        let Launched { mut child, stdout } = server;
        drop(stdout);
        if sends_request {
            let message = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
            // Fails if the server has noticed before.
            let _ = writeln!(child.stdin.as_mut().unwrap(), "{message}");
        }
        assert_eq!(wait_for_exit(&mut child), Some(0), "asks: {sends_request}");
        let running = std::fs::read_dir(dir.path(".stead/audit/running")).unwrap();
        assert_eq!(running.count(), 0, "the server has to end its audit instance");
    }
}

#[test]
fn a_server_whose_stderr_is_closed_still_uses_each_changed_configuration() {
    let dir = TestDir::new();
    let mut server = Launched::new(dir.command(["mcp", "--agent", "coder"]));
    server.initialize();
    drop(server.child.stderr.take());
    let mut config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    // The server prints a message after each change.
    for name in ["first", "second"] {
        config += &format!(
            "\n[stores.{name}]\nkind = \"memory\"\n\
             [[agents.coder.workspaces]]\nprefix = \"/{name}\"\nscope = \"rw\"\nstore = \"{name}\"\n"
        );
        std::fs::write(dir.path("stead.toml"), &config).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while server.call("stat", json!({ "path": format!("/{name}") }))["isError"] == true {
            assert!(
                Instant::now() < deadline,
                "the {name} change of the configuration was not loaded in time"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    drop(server.child.stdin.take());
    assert_eq!(wait_for_exit(&mut server.child), Some(0));
}

#[test]
fn a_server_on_sockets_ends_when_its_output_is_closed() {
    let dir = TestDir::new();
    let (mut input, server_input) = UnixStream::pair().unwrap();
    let (output, server_output) = UnixStream::pair().unwrap();
    let mut command = dir.command(["mcp", "--agent", "coder"]);
    command.stdin(OwnedFd::from(server_input)).stdout(OwnedFd::from(server_output));
    let mut child = command.spawn().unwrap();
    // Only the child has its ends of the sockets from now on.
    drop(command);
    writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).unwrap();
    let mut line = String::new();
    BufReader::new(&output).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    drop(output);
    assert_eq!(wait_for_exit(&mut child), Some(0));
}

#[test]
fn a_directory_that_would_reveal_a_write_only_one_is_refused() {
    let dir = TestDir::empty();
    dir.file("code/secret/s.txt", "");
    let mut command = dir.command(["mcp", "code:rw", "code/secret:wo"]);
    command.env("XDG_STATE_HOME", dir.path("state"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        stderr,
        "stead: `code/secret` is WRITE_ONLY, but its files can also be reached as `/code/secret` through `code`, which is \
         READ_WRITE; make it a nested Workspace (in stead.toml: prefix = \"/code/secret\", store = \"code\", path = \"/secret\")\n"
    );
}

#[test]
fn a_missing_directory_is_reported() {
    let dir = TestDir::empty();
    let mut command = dir.command(["mcp", "none"]);
    command.env("XDG_STATE_HOME", dir.path("state"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "stead: `none` can't be used: there is no such file or directory\n");
}

#[test]
fn a_server_that_ends_leaves_nothing_to_recover() {
    let dir = TestDir::new();
    for _ in 0..3 {
        let mut server = Launched::new(dir.command(["mcp", "--agent", "coder"]));
        server.initialize();
        assert_eq!(server.call("stat", json!({ "path": "/notes" }))["isError"], false);
        server.stop();
        let running = std::fs::read_dir(dir.path(".stead/audit/running")).unwrap();
        assert_eq!(running.count(), 0);
    }
}

#[test]
fn a_configured_agent_is_served_in_its_thread() {
    let dir = TestDir::new();
    let mut server = Launched::new(dir.command(["mcp", "--agent", "coder", "--thread", "t7"]));
    server.initialize();
    assert_eq!(server.call("write_file", json!({ "path": "/notes/a", "content": "1" }))["isError"], false);
    server.stop();
    let audit = dir.run(["audit", "--json"]);
    let record = audit.lines().find(|line| line.contains("write_file")).unwrap();
    let record: Value = serde_json::from_str(record).unwrap();
    assert!(record.to_string().contains("t7"), "{record}");
    assert_eq!(dir.stead(["mcp", "--agent", "nobody"]).status.code(), Some(2));
}

#[test]
fn a_servers_log_contains_no_paths_and_no_content() {
    for how_much in ["info", "trace", "rmcp=trace"] {
        let dir = TestDir::new();
        let mut command = dir.command(["mcp", "--agent", "coder"]);
        command.env("STEAD_LOG", how_much);
        let mut server = Launched::new(command);
        server.initialize();
        server.call("write_file", json!({ "path": "/notes/private", "content": "secret" }));
        server.request("resources/read", json!({ "uri": "stead:///notes/private" }));
        let stop_and_read_stderr = server.stop_and_read_stderr();
        assert_eq!(
            stop_and_read_stderr.contains("tool call"),
            how_much != "rmcp=trace",
            "{stop_and_read_stderr}"
        );
        assert!(
            !stop_and_read_stderr.contains("private") && !stop_and_read_stderr.contains("secret"),
            "{how_much}: {stop_and_read_stderr}"
        );
    }
}

#[test]
fn invalid_threads_and_durations_are_refused() {
    let dir = TestDir::new();
    for thread in ["", "..", "../../x", "a\nb", "a\u{1b}[31m", &"x".repeat(129)] {
        for command in [&["token", "create"][..], &["mcp"], &["call", "stat"]] {
            let args = [command, &["--agent", "coder", "--thread", thread]].concat();
            let output = dir.stead(args.iter().copied());
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
            assert!(message.contains("isn't a valid thread name"), "{args:?}: {message}");
        }
    }
    let message = dir.run(["token", "create", "--agent", "coder", "--expires", "0s"]);
    assert!(message.contains("the duration has to be longer than 0"), "{message}");
    assert_eq!(dir.run(["token", "list"]), "! There are no tokens.");
}

#[test]
fn a_token_is_shown_once_listed_and_revoked() {
    let dir = TestDir::new();
    let created = dir.stead(["token", "create", "--agent", "coder", "--thread", "t1", "--expires", "30d"]);
    let secret = String::from_utf8(created.stdout).unwrap();
    assert!(secret.trim_end().starts_with("stead_") && secret.len() == 50, "{secret}");
    let list = dir.run(["token", "list", "--json"]);
    let token: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(token["agent"], "coder");
    assert_eq!(token["thread"], "t1");
    assert!(token["expires"].is_string() && token["last_used"].is_null(), "{token}");
    assert!(!list.contains(secret.trim_end()));
    assert!(dir.run(["token", "list"]).contains("coder in t1"));
    let id = token["id"].as_str().unwrap();
    assert_eq!(dir.run(["token", "revoke", id]), format!("Revoked {id}."));
    assert_eq!(
        dir.run(["token", "revoke", id]),
        format!("! stead: there is no token `{id}`; `stead token list` shows all tokens\nexit 1")
    );
    assert_eq!(dir.run(["token", "list"]), "! There are no tokens.");
    let output = dir.run(["token", "create", "--agent", "nobody"]);
    assert!(output.contains("there is no agent `nobody`") && output.ends_with("exit 2"), "{output}");
}

#[test]
fn a_token_selects_the_agent_over_stdio_and_is_removed_from_the_environment() {
    let dir = TestDir::new();
    let created = dir.stead(["token", "create", "--agent", "coder", "--thread", "t9", "--json"]);
    let token: Value = serde_json::from_slice(&created.stdout).unwrap();
    let secret = token["token"].as_str().unwrap();
    let mut command = dir.command(["mcp"]);
    command.env("STEAD_TOKEN", secret);
    let mut server = Launched::new(command);
    server.initialize();
    assert_eq!(server.call("write_file", json!({ "path": "/notes/a", "content": "1" }))["isError"], false);
    server.stop();
    assert!(dir.run(["audit", "--json"]).contains("t9"));
    let mut other_thread = dir.command(["mcp", "--thread", "t1"]);
    assert_eq!(other_thread.env("STEAD_TOKEN", secret).output().unwrap().status.code(), Some(2));
    let mut wrong_token = dir.command(["mcp"]);
    let refused = wrong_token.env("STEAD_TOKEN", "stead_wrong").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(!String::from_utf8(refused.stderr).unwrap().contains("stead_wrong"));
}

#[test]
fn a_token_made_for_structured_results_gets_them_over_stdio() {
    let dir = TestDir::new();
    for (arguments, is_structured) in [(&["--structured"][..], true), (&[], false)] {
        let created = dir.stead([&["token", "create", "--agent", "coder"], arguments].concat());
        let mut command = dir.command(["mcp"]);
        command.env("STEAD_TOKEN", String::from_utf8(created.stdout).unwrap().trim_end());
        let mut server = Launched::new(command);
        server.initialize();
        let written = server.call("write_file", json!({ "path": "/notes/a", "content": "1" }));
        assert_eq!(written["structuredContent"]["version_tag"].is_string(), is_structured, "{written}");
        server.stop();
    }
}

#[test]
fn a_server_prints_its_address_and_ends_on_sigterm() {
    let dir = TestDir::new();
    let mut server = Launched::new(dir.command(["serve", "--listen", "127.0.0.1:0", "--json"]));
    let url = server.read_message()["listening"].as_str().unwrap().to_owned();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "{answer}");
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_server_says_that_its_configuration_file_is_gone_and_goes_on() {
    let dir = TestDir::new();
    let mut server = Launched::new(dir.command(["mcp"]));
    server.initialize();
    let mut stderr = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let saved = std::fs::read(dir.path("stead.toml")).unwrap();
    std::fs::remove_file(dir.path("stead.toml")).unwrap();
    let message = stderr.next().unwrap().unwrap();
    assert!(message.starts_with("stead: the configuration file is gone"), "{message}");
    assert_eq!(server.call("list_directory", json!({ "path": "/" }))["isError"], false);
    std::fs::write(dir.path("stead.toml"), saved).unwrap();
    assert_eq!(stderr.next().unwrap().unwrap(), "stead: the changed configuration is now in use");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
}
