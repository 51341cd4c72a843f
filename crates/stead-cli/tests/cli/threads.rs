//! Threads, as people and hosts use them: `stead threads`, `--thread`, and servers that name threads themselves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{Running, TestDir};
use crate::exit_codes::{Needs, commands};
use crate::serving::Launched;

/// An agent whose files are the thread's at `/project` and its own at `/shared`.
const HYBRID: &str = r#"
[stores.files]
kind = "virtual"
[stores.common]
kind = "virtual"
[agents.coder]
scope = "hybrid"
history = true
KEYS
[[agents.coder.workspaces]]
prefix = "/project"
store = "files"
scope = "rw"
[[agents.coder.workspaces]]
prefix = "/shared"
store = "common"
scope = "rw"
"#;

/// An agent with several Workspaces whose files are the thread's own, on several Stores.
const SEVERAL_WORKSPACES: &str = r#"
[stores.files]
kind = "virtual"
[stores.host]
kind = "physical"
path = "host"
[agents.coder]
scope = "hybrid"
history = true
workspaces = [
  { prefix = "/project", store = "files", path = "/p", scope = "rw" },
  { prefix = "/data/in", store = "host", scope = "rw", per = "thread" },
  { prefix = "/drop", store = "files", path = "/d", scope = "wo", per = "thread" },
  { prefix = "/shared", store = "files", path = "/s", scope = "rw" },
]
"#;

fn hybrid(keys: &str) -> TestDir {
    let dir = TestDir::empty();
    dir.file("stead.toml", &HYBRID.replace("KEYS", keys));
    dir
}

/// The names in a tar archive, in their order.
fn names_in(archive: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(archive);
    archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
}

/// Runs a command that has to succeed, and returns what it prints.
fn ok(dir: &TestDir, args: &[&str]) -> String {
    let output = dir.stead(args.iter().copied());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The documents that a command prints with `--json`.
fn documents(dir: &TestDir, args: &[&str]) -> Vec<Value> {
    let text = ok(dir, &[args, &["--json"]].concat());
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The names of all threads.
fn thread_names(dir: &TestDir) -> Vec<String> {
    let threads = documents(dir, &["threads", "list"]);
    threads.iter().map(|thread| thread["thread"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the threads are these.
fn wait_for_threads(dir: &TestDir, names: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while thread_names(dir) != names {
        assert!(Instant::now() < deadline, "{:?} instead of {names:?}", thread_names(dir));
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The calls of threads' lives that the audit has, oldest first.
fn steps(dir: &TestDir) -> Vec<String> {
    let mut steps: Vec<_> = documents(dir, &["audit", "--limit", "1000"])
        .iter()
        .filter_map(|record| {
            let call = record["call"].as_str().filter(|call| call.starts_with("thread."))?;
            Some(format!("{call} {}", record["thread"].as_str().unwrap()))
        })
        .collect();
    steps.reverse();
    steps
}

#[test]
fn s13_a_thread_has_files_of_its_own_beside_those_of_the_agent() {
    let dir = hybrid("");
    ok(&dir, &["--thread", "one", "write", "/project/a", "1"]);
    ok(&dir, &["--thread", "one", "write", "/shared/b", "2"]);
    assert_eq!(ok(&dir, &["--thread", "two", "ls", "-R", "/project"]), "");
    assert_eq!(ok(&dir, &["--thread", "two", "cat", "/shared/b"]), "2");
    assert_eq!(ok(&dir, &["--thread", "one", "cat", "/project/a"]), "1");
    // History, forks and snapshots are those of the thread.
    ok(&dir, &["--thread", "one", "snapshot", "--label", "mine"]);
    ok(&dir, &["--thread", "one", "fork", "/project", "draft"]);
    assert!(ok(&dir, &["--thread", "one", "log", "/project"]).contains("/project/a"));
    assert!(!ok(&dir, &["--thread", "two", "log"]).contains("/project"));
    assert_eq!(ok(&dir, &["--thread", "two", "forks"]), "");
    assert!(!ok(&dir, &["--thread", "two", "snapshots"]).contains("mine"));
    assert!(!dir.run(["--thread", "two", "undo", "--last", "9"]).contains("/project"));
    assert_eq!(ok(&dir, &["--thread", "one", "cat", "/project/a"]), "1");
}

#[test]
fn s14_every_command_of_an_agent_with_threads_asks_for_the_thread() {
    let dir = hybrid("");
    dir.file("src/x", "1");
    dir.file("mnt/.keep", "");
    // These serve, or don't act for the agent in a thread.
    let others = ["mcp", "review", "serve", "threads", "token"];
    for (command, args, needs) in commands() {
        if needs != Needs::Agent || others.contains(&command) {
            continue;
        }
        let args: Vec<_> =
            args.iter().map(|arg| arg.replace("{}", "/project/x").replace("/notes", "/project")).collect();
        let output = dir.stead([command].into_iter().chain(args.iter().map(String::as_str)));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {text}");
        assert!(
            text.contains("the agent `coder` works in threads, so a thread has to be named"),
            "{command}: {text}"
        );
        if command != "mount" {
            let all = ["--thread", "t", command].into_iter().chain(args.iter().map(String::as_str));
            let text = String::from_utf8(dir.stead(all).stderr).unwrap();
            assert!(!text.contains("works in threads"), "{command}: {text}");
        }
    }
    assert_eq!(thread_names(&dir), ["t"], "a command without a thread makes none");
}

#[test]
fn s12_threads_are_listed_shown_and_destroyed() {
    let dir = hybrid("");
    assert_eq!(dir.run(["threads", "list"]), "! There are no threads.");
    ok(&dir, &["--thread", "one", "write", "/project/a.txt", "hello"]);
    ok(&dir, &["--thread", "one", "fork", "/project", "draft"]);
    ok(&dir, &["--thread", "two", "write", "/project/b.txt", "b"]);
    ok(&dir, &["--thread", "two", "write", "/shared/stays", "s"]);
    let listed = ok(&dir, &["threads", "list", "--agent", "coder"]);
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    assert_eq!(lines[0], "AGENT  THREAD  CREATED           UNUSED FOR  PROCESSES  STATE");
    assert!(lines[1].starts_with("coder  one     20"), "{listed}");
    assert!(lines[1].ends_with("0          idle, ends in 29m"), "{listed}");
    let shown = ok(&dir, &["threads", "show", "one"]);
    for line in [
        "Workspace             /project  1 file, 5 B",
        "forks                 1",
        "used by               0 processes",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line}\n{shown}");
    }
    // To look isn't to use.
    assert_eq!(
        steps(&dir).iter().filter(|step| step.starts_with("thread.resume")).count(),
        2,
        "{:?}",
        steps(&dir)
    );

    let dry_run = ok(&dir, &["threads", "destroy", "one", "--dry-run"]);
    assert_eq!(
        dry_run,
        "Would destroy the thread `one` of the agent `coder`:\n  Workspace  /project  1 file, 5 B\n  forks      1\n  \
         snapshots  0\n"
    );
    assert_eq!(thread_names(&dir), ["one", "two"]);
    let destroyed = ok(&dir, &["threads", "destroy", "one"]);
    assert!(destroyed.starts_with("Destroyed the thread `one` of the agent `coder`: "), "{destroyed}");
    assert!(destroyed.contains("1 fork"), "{destroyed}");
    assert_eq!(thread_names(&dir), ["two"]);
    let missing = "! stead: the agent `coder` has no thread `one`\nexit 1";
    for args in [&["destroy", "-n", "one"][..], &["show", "one"], &["archive", "one", "x.tar"]] {
        assert_eq!(dir.run(["threads"].into_iter().chain(args.iter().copied())), missing, "{args:?}");
    }
    assert!(!dir.path("x.tar").exists());
    // Destroying a thread twice is as good as once.
    assert_eq!(ok(&dir, &["threads", "destroy", "one"]), "");
    ok(&dir, &["threads", "destroy", "two"]);
    assert_eq!(ok(&dir, &["--thread", "two", "cat", "/shared/stays"]), "s");
    assert_eq!(ok(&dir, &["--thread", "two", "ls", "/project"]), "");
    let unknown = dir.run(["threads", "list", "--agent", "codr"]);
    assert_eq!(unknown, "! stead: there is no agent `codr`; did you mean `coder`?\nexit 2");
    ok(&dir, &["verify"]);
}

#[test]
fn s18_the_keys_of_a_thread_s_state_are_shown_and_go_with_it() {
    let dir = hybrid("state = { enabled = true }");
    ok(&dir, &["--thread", "one", "write", "/project/a.txt", "hello"]);
    let keys = |shown: &str| shown.lines().find(|line| line.starts_with("State ")).map(str::to_owned);
    assert_eq!(keys(&ok(&dir, &["threads", "show", "one"])), None, "it has set none");
    ok(&dir, &["--thread", "one", "state", "set", "next", "1"]);
    ok(&dir, &["--thread", "one", "state", "set", "next", "22"]);
    ok(&dir, &["--thread", "one", "state", "set", "other", "3", "--namespace", "jobs"]);
    ok(&dir, &["--thread", "two", "state", "set", "next", "4"]);
    let shown = ok(&dir, &["threads", "show", "one"]);
    assert_eq!(keys(&shown).as_deref(), Some("State                 2 keys, 3 B"), "{shown}");
    let dry_run = ok(&dir, &["threads", "destroy", "one", "-n"]);
    assert!(dry_run.ends_with("  snapshots  0\n  State      2 keys, 3 B\n"), "{dry_run}");
    let dry_run = documents(&dir, &["threads", "destroy", "one", "-n"]).remove(0);
    let removed = documents(&dir, &["threads", "destroy", "one"]).remove(0);
    for document in [&dry_run, &removed] {
        let counts = ["files", "bytes", "keys"].map(|name| document[name].as_u64().unwrap());
        assert_eq!(counts, [1, 5, 2], "a key isn't a file: {document}");
    }
    let record = documents(&dir, &["audit", "--limit", "1000"]);
    let record = record.iter().find(|record| record["call"] == "thread.destroy").unwrap();
    assert!(record.to_string().contains("\"keys\":2"), "{record}");
    assert_eq!(ok(&dir, &["--thread", "two", "state", "get", "next"]).trim(), "4");
    assert_eq!(ok(&dir, &["--thread", "one", "state", "list"]), "");
    assert!(ok(&dir, &["threads", "destroy", "two"]).contains("1 key removed"));
}

#[test]
fn s14_a_thread_in_use_is_not_destroyed() {
    let dir = hybrid("");
    let mut server = Launched::new(dir.command(["--thread", "busy", "mcp"]));
    server.initialize();
    server.call("write_file", json!({ "path": "/project/a", "content": "1" }));
    let thread = documents(&dir, &["threads", "show", "busy"]).remove(0);
    assert_eq!((&thread["processes"], &thread["state"]), (&json!(1), &json!("in_use")), "{thread}");
    for args in
        [&["destroy", "busy"][..], &["destroy", "busy", "-n"], &["archive", "busy", "a.tar", "--and-destroy"]]
    {
        let refused = dir.stead(["threads"].into_iter().chain(args.iter().copied()));
        let text = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {text}");
        assert!(
            text.contains("the thread `busy` of the agent `coder`") && text.contains("try again"),
            "{text}"
        );
    }
    assert!(!dir.path("a.tar").exists());
    // Another process shares its files meanwhile.
    assert_eq!(ok(&dir, &["--thread", "busy", "cat", "/project/a"]), "1");
    server.stop();
    // It was named by the caller, so it stays.
    assert_eq!(ok(&dir, &["--thread", "busy", "cat", "/project/a"]), "1");
    assert_eq!(documents(&dir, &["threads", "list"])[0]["processes"], 0);
    ok(&dir, &["threads", "destroy", "busy"]);
}

#[test]
fn s12_an_archive_has_the_files_of_a_thread_and_can_be_imported() {
    let dir = hybrid("");
    ok(&dir, &["--thread", "old", "write", "/project/d/a.txt", "hello"]);
    ok(&dir, &["--thread", "old", "write", "/shared/s.txt", "shared"]);
    let output = dir.stead(["threads", "archive", "old", "old.tar"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("Archived the thread `old` of the agent `coder`: "), "{text}");
    assert_eq!(thread_names(&dir), ["old"]);
    assert!(dir.run(["threads", "archive", "old", "old.tar"]).contains("exists already; use --force"));
    assert!(dir.run(["threads", "archive", "old", "old.zip"]).contains("has to end in .tar"));
    let streamed = dir.stead(["threads", "archive", "old", "-"]).stdout;
    let archive = std::fs::read(dir.path("old.tar")).unwrap();
    assert_eq!(names_in(&streamed), names_in(&archive));
    let found = names_in(&archive);
    assert!(found.iter().any(|name| name == "project/d/a.txt"), "{found:?}");
    assert!(!found.iter().any(|name| name.contains("s.txt")), "the agent's own files stay: {found:?}");
    assert_eq!(found[0], ".stead-archive/log.jsonl");

    let archived =
        documents(&dir, &["threads", "archive", "old", "old.tar", "--force", "--and-destroy"]).remove(0);
    assert_eq!(archived["destroyed"]["thread"], "old", "{archived}");
    assert_eq!(thread_names(&dir), Vec::<String>::new());
    ok(&dir, &["--thread", "new", "import", "old.tar", "/project"]);
    assert_eq!(ok(&dir, &["--thread", "new", "cat", "/project/project/d/a.txt"]), "hello");
    assert!(!ok(&dir, &["--thread", "new", "ls", "-Ra", "/"]).contains("log.jsonl"));
    let steps = steps(&dir);
    assert!(steps.contains(&"thread.archive old".to_owned()), "{steps:?}");
    assert!(steps.contains(&"thread.destroy old".to_owned()), "{steps:?}");
}

#[test]
fn s12_a_thread_that_an_archive_does_not_have_whole_is_not_destroyed() {
    let dir = TestDir::empty();
    dir.file("stead.toml", SEVERAL_WORKSPACES);
    std::fs::create_dir(dir.path("host")).unwrap();
    ok(&dir, &["write", "/data/in/file", "x", "--thread", "one"]);
    // A program of the host has made something in the thread's directory that no archive can have.
    let found = Command::new("find").arg(dir.path("host")).args(["-name", "file"]).output().unwrap();
    let file = std::path::PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
    let fifo = file.with_file_name("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let output = dir.run(["threads", "archive", "one", "one.tar", "--and-destroy"]);
    assert!(output.contains("Kept the thread `one`") && output.ends_with("exit 1"), "{output}");
    assert_eq!(thread_names(&dir), ["one"]);
    assert_eq!(ok(&dir, &["cat", "/data/in/file", "--thread", "one"]), "x");
    std::fs::remove_file(fifo).unwrap();
    let output = dir.run(["threads", "archive", "one", "one.tar", "--force", "--and-destroy"]);
    assert!(output.contains("Destroyed the thread `one`"), "{output}");
    assert_eq!(thread_names(&dir), Vec::<String>::new());
}

#[test]
fn s12_an_archive_is_imported_at_the_root_into_the_workspaces_it_came_from() {
    let dir = TestDir::empty();
    dir.file("host/.keep", "");
    dir.file("stead.toml", SEVERAL_WORKSPACES);
    ok(&dir, &["--thread", "old", "write", "/project/d/a.txt", "hello"]);
    ok(&dir, &["--thread", "old", "write", "/data/in/b.txt", "data"]);
    ok(&dir, &["--thread", "old", "write", "/drop/c.txt", "dropped"]);
    ok(&dir, &["--thread", "old", "fork", "/project", "draft"]);
    ok(&dir, &["threads", "archive", "old", "old.tar"]);
    // The new thread has no fork of that name, so the files of the fork are left out, and the exit code says so.
    let imported = dir.stead(["--thread", "new", "import", "old.tar", "/"]);
    let text = String::from_utf8(imported.stderr).unwrap();
    assert_eq!(imported.status.code(), Some(1), "{text}");
    assert!(
        text.contains("/forks/draft/d/a.txt") && text.contains("it is in none of the Workspaces"),
        "{text}"
    );
    assert!(text.contains("3 files"), "{text}");
    assert_eq!(ok(&dir, &["--thread", "new", "cat", "/project/d/a.txt"]), "hello");
    assert_eq!(ok(&dir, &["--thread", "new", "cat", "/data/in/b.txt"]), "data");
    assert!(dir.path("host/threads/coder/new/b.txt").exists());
    ok(&dir, &["--thread", "new", "fork", "/project", "draft"]);
    ok(&dir, &["--thread", "new", "import", "old.tar", "/"]);
    assert_eq!(ok(&dir, &["--thread", "new", "cat", "/forks/draft/d/a.txt"]), "hello");
    // `/drop` can only be written. What is there is in the archive, which is the operator's.
    ok(&dir, &["threads", "archive", "new", "new.tar"]);
    let archive = std::fs::read(dir.path("new.tar")).unwrap();
    let names = names_in(&archive);
    assert!(names.iter().any(|name| name == "drop/c.txt"), "{names:?}");
    // A directory that contains a Workspace's own directory isn't imported into it.
    let refused = dir.run(["--thread", "new", "import", ".", "/"]);
    assert!(refused.contains("a directory can't be imported into itself"), "{refused}");
}

#[test]
fn s12_a_thread_past_its_time_out_is_gone_without_a_server() {
    let dir = hybrid("idle_timeout = \"5s\"");
    ok(&dir, &["--thread", "t", "write", "/project/a", "1"]);
    assert_eq!(ok(&dir, &["--thread", "t", "cat", "/project/a"]), "1");
    std::thread::sleep(Duration::from_millis(5_200));
    assert_eq!(ok(&dir, &["--thread", "t", "ls", "/project"]), "");
    assert!(steps(&dir).contains(&"thread.sweep t".to_owned()), "{:?}", steps(&dir));
}

#[test]
fn s14_a_server_over_stdio_has_a_thread_for_its_life() {
    let dir = hybrid("idle_timeout = \"1s\"");
    let serve = || {
        let mut server = Launched::new(dir.command(["mcp"]));
        let instructions = server.initialize()["result"]["instructions"].as_str().unwrap().to_owned();
        let written = server.call("write_file", json!({ "path": "/project/a", "content": "1" }));
        assert_eq!(written["isError"], false, "{written}");
        let names = thread_names(&dir);
        assert_eq!(names.len(), 1);
        assert!(names[0].starts_with("mcp-20"), "{names:?}");
        assert!(!instructions.contains(&names[0]), "{instructions}");
        (server, names)
    };
    // The client closes its end.
    let (mut server, names) = serve();
    // Its idle time-out never passes while the server lives.
    std::thread::sleep(Duration::from_millis(7_500));
    let read = server.call("read_file", json!({ "path": "/project/a" }));
    assert!(read["content"][0]["text"].as_str().unwrap().starts_with('1'), "{read}");
    let stderr = server.stop_and_read_stderr();
    assert_eq!(stderr, format!("Working in the thread {}, which ends with this server.\n", names[0]));
    assert_eq!(thread_names(&dir), Vec::<String>::new());
    // A signal.
    let (server, second) = serve();
    assert_ne!(names, second);
    server.end(Signal::TERM);
    assert_eq!(thread_names(&dir), Vec::<String>::new());
    let steps = steps(&dir);
    for name in [&names[0], &second[0]] {
        assert!(steps.contains(&format!("thread.create {name}")), "{steps:?}");
        assert!(steps.contains(&format!("thread.destroy {name}")), "{steps:?}");
    }
    ok(&dir, &["verify"]);
}

#[test]
fn s14_the_thread_of_a_killed_server_is_swept_after_its_lease() {
    let dir = hybrid("idle_timeout = \"1s\"");
    let mut command = dir.command(["mcp"]);
    command.env("STEAD_TEST_LEASE_TTL_MS", "3000");
    let mut server = Launched::new(command);
    server.initialize();
    let name = thread_names(&dir).remove(0);
    server.end(Signal::KILL);
    let refused = dir.run(["threads", "destroy", &name]);
    assert!(refused.contains("whose lease holds until"), "{refused}");
    assert_eq!(thread_names(&dir), [name.as_str()]);
    std::thread::sleep(Duration::from_millis(3_500));
    ok(&dir, &["--thread", "other", "ls", "/"]);
    assert_eq!(thread_names(&dir), ["other"]);
    assert!(steps(&dir).contains(&format!("thread.sweep {name}")), "{:?}", steps(&dir));
}

/// `stead serve` on a port of its own.
struct HttpServer {
    child: Running,
    address: String,
}

impl HttpServer {
    fn start(dir: &TestDir, args: &[&str]) -> Self {
        let all = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let mut command: Command = dir.command(all.into_iter().chain(args.iter().copied()));
        let mut child = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = serde_json::from_str::<Value>(&line).unwrap()["listening"].as_str().unwrap().to_owned();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
        HttpServer { child, address }
    }

    /// Sends a request, and returns the whole answer.
    fn request(&self, method: &str, headers: &[(&str, &str)], body: &Value) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let body = body.to_string();
        let mut head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: \
             application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.address,
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Begins a session and returns its id.
    fn session(&self) -> String {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let answer = self.request(
            "POST",
            &[],
            &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
        );
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        id.unwrap_or_else(|| panic!("{answer}")).trim().to_owned()
    }

    fn call(&self, session: &str, tool: &str, arguments: Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        self.request("POST", &[("Mcp-Session-Id", session)], &message)
    }

    /// Asks the server to end, and waits for it.
    fn end(mut self) {
        send(&self.child, Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn s14_a_session_over_http_is_a_thread_and_a_server_that_ends_releases_it() {
    let dir = hybrid("thread = \"session\"");
    let server = HttpServer::start(&dir, &[]);
    let (first, second) = (server.session(), server.session());
    assert!(
        server
            .call(&first, "write_file", json!({ "path": "/project/a", "content": "1" }))
            .contains("\"isError\":false")
    );
    assert!(server.call(&second, "read_file", json!({ "path": "/project/a" })).contains("[not_found]"));
    let threads = documents(&dir, &["threads", "list"]);
    assert_eq!(threads.len(), 2);
    assert!(threads.iter().all(|thread| thread["processes"] == 1), "{threads:?}");
    assert!(threads[0]["thread"].as_str().unwrap().starts_with("session-20"), "{threads:?}");
    assert!(server.request("DELETE", &[("Mcp-Session-Id", &second)], &json!({})).contains(" 204 "));
    assert_eq!(thread_names(&dir).len(), 1);
    server.end();
    let left = documents(&dir, &["threads", "list"]);
    assert_eq!((left.len(), &left[0]["processes"]), (1, &json!(0)), "{left:?}");
    ok(&dir, &["threads", "destroy", left[0]["thread"].as_str().unwrap()]);
}

#[test]
fn s15_a_session_ends_with_the_idle_time_out_of_its_thread() {
    let dir = hybrid("thread = \"session\"\nidle_timeout = \"1s\"");
    let server = HttpServer::start(&dir, &[]);
    let session = server.session();
    server.call(&session, "write_file", json!({ "path": "/project/a", "content": "1" }));
    wait_for_threads(&dir, &[]);
    let gone = server.call(&session, "read_file", json!({ "path": "/project/a" }));
    assert!(gone.contains(" 404 ") && gone.contains("send `initialize` again"), "{gone}");
    // The client begins again, in a new thread.
    let again = server.session();
    assert!(server.call(&again, "read_file", json!({ "path": "/project/a" })).contains("[not_found]"));
    server.end();
}

#[test]
fn s14_a_server_can_serve_callers_of_this_machine_in_one_thread() {
    let dir = hybrid("");
    let server = HttpServer::start(&dir, &["--thread", "desk"]);
    let session = server.session();
    server.call(&session, "write_file", json!({ "path": "/project/a", "content": "1" }));
    assert_eq!(thread_names(&dir), ["desk"]);
    assert_eq!(ok(&dir, &["--thread", "desk", "cat", "/project/a"]), "1");
    server.end();
}

#[test]
fn s12_an_archive_says_that_what_another_process_has_in_memory_is_left_out() {
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        "[stores.m]\nkind = \"memory\"\n[agents.a]\nscope = \"thread\"\n\
         workspaces = [{ prefix = \"/m\", store = \"m\", scope = \"rw\", per = \"thread\" }]\n",
    );
    let mut server = crate::serving::Launched::new(dir.command(["mcp", "--thread", "one"]));
    server.initialize();
    let arguments = serde_json::json!({ "path": "/m/a", "content": "x" });
    server.request("tools/call", serde_json::json!({ "name": "write_file", "arguments": arguments }));
    let output = dir.run(["threads", "archive", "one", "one.tar"]);
    assert!(output.contains("left out `/m`: another process uses the thread"), "{output}");
    server.stop();
}

#[test]
fn s15_a_thread_that_has_only_a_state_is_archived_and_the_only_agent_with_threads_needs_no_name() {
    let dir = TestDir::empty();
    let config = "[stores.v]\nkind = \"virtual\"\n[agents.other]\nworkspaces = [{ prefix = \"/v\", store = \"v\", scope = \"rw\" }]\n\
                  [agents.worker]\nscope = \"thread\"\nworkspaces = [{ prefix = \"/v\", store = \"v\", scope = \"rw\", per = \"agent\" }]\n\
                  [agents.worker.state]\n";
    dir.file("stead.toml", config);
    ok(&dir, &["--thread", "t", "state", "set", "x", "1"]);
    assert_eq!(ok(&dir, &["--thread", "t", "state", "get", "x"]).trim_end(), "1");
    // Without a thread, two agents are still two.
    assert!(dir.run(["ls", "/"]).contains("choose one with --agent"));
    ok(&dir, &["threads", "archive", "t", "t.tar", "--and-destroy"]);
    let archive = std::fs::read(dir.path("t.tar")).unwrap();
    let names = names_in(&archive);
    assert_eq!(names, [".stead-archive/log.jsonl"]);
    assert_eq!(ok(&dir, &["threads", "list"]), "");
}

#[test]
fn s18_s21_what_the_history_and_the_audit_say_of_a_key_is_its_value_alone() {
    let dir = TestDir::empty();
    let config = "[stores.v]\nkind = \"virtual\"\n[agents.a]\nworkspaces = [{ prefix = \"/v\", store = \"v\", scope = \"rw\" }]\n\
                  [agents.a.state]\n";
    dir.file("stead.toml", config);
    ok(&dir, &["state", "set", "k", "1"]);
    ok(&dir, &["snapshot", "--label", "before"]);
    ok(&dir, &["state", "set", "k", "2", "--expires-in", "1h"]);
    for shown in [ok(&dir, &["diff", "/", "before", "now"]), ok(&dir, &["log", "-p", "-n", "1"])] {
        assert!(
            shown.contains("state:default/k") && shown.contains("-1\n") && shown.contains("+2"),
            "{shown}"
        );
        assert!(!shown.contains("+@") && !shown.contains("mode"), "{shown}");
    }
    assert_eq!(ok(&dir, &["diff", "/v", "before", "now"]), "");
    let records = ok(&dir, &["audit", "--path", "state:default/k"]);
    assert_eq!(records.lines().filter(|line| line.contains("state:default/k")).count(), 2, "{records}");
    assert_eq!(ok(&dir, &["audit", "--path", "state:default/other"]), "");
}
