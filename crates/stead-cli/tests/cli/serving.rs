//! `mcp`, `serve` and `token`, as hosts start them and people use them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Place, code};

/// A server that was started, with its pipes.
pub(crate) struct Launched {
    child: Child,
    read: BufReader<std::process::ChildStdout>,
}

impl Launched {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let read = BufReader::new(child.stdout.take().unwrap());
        Launched { child, read }
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
        self.line()
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut said = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("no message: {line:?}; {said}")
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
    pub(crate) fn ends(self) {
        self.said();
    }

    /// Closes the server's input, waits for its end, and returns its stderr.
    fn said(mut self) -> String {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success());
        said
    }
}

#[test]
fn directories_can_be_served_without_any_configuration() {
    let place = Place::empty();
    place.file("one/a.txt", "hello\n");
    place.file("two/b.txt", "");
    let mut command = place.command(["mcp", "one", "two:rw"]);
    command.env("XDG_STATE_HOME", place.path("state"));
    let mut server = Launched::new(command);
    let map = server.initialize()["result"]["instructions"].as_str().unwrap().to_owned();
    assert!(map.contains("- /one: READ_ONLY (RO)\n- /two: READ_WRITE (RW)\n"), "{map}");
    assert!(!map.contains(place.path("").to_str().unwrap()), "{map}");
    let read = server.call("read_file", json!({ "path": "/one/a.txt" }));
    assert_eq!(read["content"][0]["text"], "hello\n");
    let denied = server.call("write_file", json!({ "path": "/one/x", "content": "" }));
    assert_eq!(code(&denied), "denied");
    assert_eq!(server.call("write_file", json!({ "path": "/two/x", "content": "1" }))["isError"], false);
    server.ends();
    assert_eq!(std::fs::read(place.path("two/x")).unwrap(), b"1");
    // Stead leaves nothing of its own in the directories.
    for (directory, files) in [("one", 1), ("two", 2)] {
        assert_eq!(std::fs::read_dir(place.path(directory)).unwrap().count(), files, "{directory}");
    }
    assert!(place.path("state/stead").is_dir());
}

/// Waits for a process to end on its own, and returns its exit code.
fn ends_by_itself(child: &mut Child) -> Option<i32> {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it goes on");
}

#[test]
fn a_server_whose_answers_nobody_reads_ends_though_its_input_is_open() {
    let place = Place::new();
    // It ends at once if there is nothing to answer, and also if there is.
    for asks in [false, true] {
        let mut server = Launched::new(place.command(["mcp", "--agent", "coder"]));
        server.initialize();
        assert_eq!(server.call("stat", json!({ "path": "/notes" }))["isError"], false);
        let Launched { mut child, read } = server;
        drop(read);
        if asks {
            let message = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
            // Fails if the server has noticed before.
            let _ = writeln!(child.stdin.as_mut().unwrap(), "{message}");
        }
        assert_eq!(ends_by_itself(&mut child), Some(0), "asks: {asks}");
        let running = std::fs::read_dir(place.path(".stead/audit/running")).unwrap();
        assert_eq!(running.count(), 0, "it has ended in good order");
    }
}

#[test]
fn a_server_whose_messages_nobody_reads_still_uses_each_changed_configuration() {
    let place = Place::new();
    let mut server = Launched::new(place.command(["mcp", "--agent", "coder"]));
    server.initialize();
    drop(server.child.stderr.take());
    let mut config = std::fs::read_to_string(place.path("stead.toml")).unwrap();
    // The server prints a message after each change.
    for name in ["first", "second"] {
        config += &format!(
            "\n[stores.{name}]\nkind = \"memory\"\n\
             [[agents.coder.workspaces]]\nprefix = \"/{name}\"\nscope = \"rw\"\nstore = \"{name}\"\n"
        );
        std::fs::write(place.path("stead.toml"), &config).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while server.call("stat", json!({ "path": format!("/{name}") }))["isError"] == true {
            assert!(Instant::now() < until, "the {name} change is never used");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    drop(server.child.stdin.take());
    assert_eq!(ends_by_itself(&mut server.child), Some(0));
}

#[test]
fn a_server_at_sockets_ends_when_its_output_is_closed() {
    let place = Place::new();
    let (mut input, its_input) = UnixStream::pair().unwrap();
    let (output, its_output) = UnixStream::pair().unwrap();
    let mut command = place.command(["mcp", "--agent", "coder"]);
    command.stdin(OwnedFd::from(its_input)).stdout(OwnedFd::from(its_output));
    let mut child = command.spawn().unwrap();
    // Only the child has its ends of the sockets from now on.
    drop(command);
    writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).unwrap();
    let mut line = String::new();
    BufReader::new(&output).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    drop(output);
    assert_eq!(ends_by_itself(&mut child), Some(0));
}

#[test]
fn a_directory_that_would_give_another_away_is_told_as_it_was_written() {
    let place = Place::empty();
    place.file("code/secret/s.txt", "");
    let mut command = place.command(["mcp", "code:rw", "code/secret:wo"]);
    command.env("XDG_STATE_HOME", place.path("state"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "stead: `code/secret` is WRITE_ONLY, but its files can also be reached as `/code/secret` through `code`, which is \
         READ_WRITE; make it a nested Workspace (in stead.toml: prefix = \"/code/secret\", store = \"code\", path = \"/secret\")\n"
    );
}

#[test]
fn a_directory_that_is_not_there_is_told() {
    let place = Place::empty();
    let mut command = place.command(["mcp", "none"]);
    command.env("XDG_STATE_HOME", place.path("state"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "stead: `none` can't be used: there is no such file or directory\n");
}

#[test]
fn a_server_that_ends_leaves_nothing_for_the_next_one_to_put_in_order() {
    let place = Place::new();
    for _ in 0..3 {
        let mut server = Launched::new(place.command(["mcp", "--agent", "coder"]));
        server.initialize();
        assert_eq!(server.call("stat", json!({ "path": "/notes" }))["isError"], false);
        server.ends();
        let running = std::fs::read_dir(place.path(".stead/audit/running")).unwrap();
        assert_eq!(running.count(), 0);
    }
}

#[test]
fn a_configured_agent_is_served_in_its_thread() {
    let place = Place::new();
    let mut server = Launched::new(place.command(["mcp", "--agent", "coder", "--thread", "t7"]));
    server.initialize();
    assert_eq!(server.call("write_file", json!({ "path": "/notes/a", "content": "1" }))["isError"], false);
    server.ends();
    let audit = place.run(["audit", "--json"]);
    let record = audit.lines().find(|line| line.contains("write_file")).unwrap();
    let record: Value = serde_json::from_str(record).unwrap();
    assert!(record.to_string().contains("t7"), "{record}");
    assert_eq!(place.stead(["mcp", "--agent", "nobody"]).status.code(), Some(2));
}

#[test]
fn what_a_server_tells_of_its_work_holds_no_paths_and_no_content() {
    for how_much in ["info", "trace", "rmcp=trace"] {
        let place = Place::new();
        let mut command = place.command(["mcp", "--agent", "coder"]);
        command.env("STEAD_LOG", how_much);
        let mut server = Launched::new(command);
        server.initialize();
        server.call("write_file", json!({ "path": "/notes/private", "content": "secret" }));
        server.request("resources/read", json!({ "uri": "stead:///notes/private" }));
        let said = server.said();
        assert_eq!(said.contains("tool call"), how_much != "rmcp=trace", "{said}");
        assert!(!said.contains("private") && !said.contains("secret"), "{how_much}: {said}");
    }
}

#[test]
fn threads_and_times_that_make_no_sense_are_refused() {
    let place = Place::new();
    for thread in ["", "..", "../../x", "a\nb", "a\u{1b}[31m", &"x".repeat(129)] {
        for command in [&["token", "create"][..], &["mcp"], &["call", "stat"]] {
            let args = [command, &["--agent", "coder", "--thread", thread]].concat();
            let output = place.stead(args.iter().copied());
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.contains("isn't a valid thread name"), "{args:?}: {said}");
        }
    }
    let said = place.run(["token", "create", "--agent", "coder", "--expires", "0s"]);
    assert!(said.contains("the duration has to be longer than 0"), "{said}");
    assert_eq!(place.run(["token", "list"]), "! There are no tokens.");
}

#[test]
fn a_token_is_shown_once_listed_and_revoked() {
    let place = Place::new();
    let made = place.stead(["token", "create", "--agent", "coder", "--thread", "t1", "--expires", "30d"]);
    let secret = String::from_utf8(made.stdout).unwrap();
    assert!(secret.trim_end().starts_with("stead_") && secret.len() == 50, "{secret}");
    let listed = place.run(["token", "list", "--json"]);
    let token: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(token["agent"], "coder");
    assert_eq!(token["thread"], "t1");
    assert!(token["expires"].is_string() && token["lastUsed"].is_null(), "{token}");
    assert!(!listed.contains(secret.trim_end()));
    assert!(place.run(["token", "list"]).contains("coder in t1"));
    let id = token["id"].as_str().unwrap();
    assert_eq!(place.run(["token", "revoke", id]), format!("Revoked {id}."));
    assert_eq!(
        place.run(["token", "revoke", id]),
        format!("! stead: there is no token `{id}`; `stead token list` shows all tokens\nexit 1")
    );
    assert_eq!(place.run(["token", "list"]), "! There are no tokens.");
    let unknown = place.run(["token", "create", "--agent", "nobody"]);
    assert!(unknown.contains("there is no agent `nobody`") && unknown.ends_with("exit 2"), "{unknown}");
}

#[test]
fn a_token_says_who_is_served_over_stdio_and_leaves_the_environment() {
    let place = Place::new();
    let made = place.stead(["token", "create", "--agent", "coder", "--thread", "t9", "--json"]);
    let token: Value = serde_json::from_slice(&made.stdout).unwrap();
    let secret = token["token"].as_str().unwrap();
    let mut command = place.command(["mcp"]);
    command.env("STEAD_TOKEN", secret);
    let mut server = Launched::new(command);
    server.initialize();
    assert_eq!(server.call("write_file", json!({ "path": "/notes/a", "content": "1" }))["isError"], false);
    server.ends();
    assert!(place.run(["audit", "--json"]).contains("t9"));
    let mut other = place.command(["mcp", "--thread", "t1"]);
    assert_eq!(other.env("STEAD_TOKEN", secret).output().unwrap().status.code(), Some(2));
    let mut wrong = place.command(["mcp"]);
    let refused = wrong.env("STEAD_TOKEN", "stead_wrong").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(!String::from_utf8(refused.stderr).unwrap().contains("stead_wrong"));
}

#[test]
fn a_token_made_for_structured_results_gets_them_over_stdio() {
    let place = Place::new();
    for (arguments, is_structured) in [(&["--structured"][..], true), (&[], false)] {
        let made = place.stead([&["token", "create", "--agent", "coder"], arguments].concat());
        let mut command = place.command(["mcp"]);
        command.env("STEAD_TOKEN", String::from_utf8(made.stdout).unwrap().trim_end());
        let mut server = Launched::new(command);
        server.initialize();
        let written = server.call("write_file", json!({ "path": "/notes/a", "content": "1" }));
        assert_eq!(written["structuredContent"]["version_tag"].is_string(), is_structured, "{written}");
        server.ends();
    }
}

#[test]
fn a_server_says_where_it_listens_and_ends_when_it_is_asked_to() {
    let place = Place::new();
    let mut server = Launched::new(place.command(["serve", "--listen", "127.0.0.1:0", "--json"]));
    let url = server.line()["listening"].as_str().unwrap().to_owned();
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
