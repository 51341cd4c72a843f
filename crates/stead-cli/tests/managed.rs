//! Managed Workspaces end to end: the real MCP server writes, plain SQL reads the manifest, and the commands show it.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

#[path = "managed/commands.rs"]
mod commands;
#[cfg(target_os = "linux")]
#[path = "shared/mounted.rs"]
mod mounted;
#[path = "shared/program.rs"]
mod program;

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
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes all rows old, and with them these files of the Physical Store: a file that is newer than its row was written since.
    fn age(&self, files: &[&str]) {
        let conn = rusqlite::Connection::open(self.0.path().join(".stead/stead.db")).unwrap();
        conn.execute("UPDATE workspace_files SET modified_at = '2020-01-01T00:00:00.000Z'", []).unwrap();
        files.iter().for_each(|file| assert!(self.age_on_disk(file), "{file}"));
    }

    /// Makes a file of the host directory old, if it is there. Otherwise it would count as written after its row.
    fn age_on_disk(&self, file: &str) -> bool {
        let file = std::fs::File::options().write(true).open(self.0.path().join("files").join(file));
        file.is_ok_and(|file| file.set_modified(std::time::SystemTime::UNIX_EPOCH).is_ok())
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
fn w44a_and_w91_the_commands_list_tag_sync_and_clean_up_the_same_files() {
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
    assert_eq!(synced, json!({ "workspace": "/disk", "added": 0, "removed": 1, "resized": 0, "unread": [] }));
    let missing = host.run(&["files", "info", &path, "--agent", "coder"]);
    assert_eq!(missing.status.code(), Some(1));
}

/// A server that listens on a free port, until it is dropped.
struct Serving(Child);

impl Serving {
    fn start(host: &Host) -> Self {
        let mut command = host.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut server =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("127.0.0.1"), "{line}");
        Serving(server)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the manifest has exactly these paths with these sizes. Nothing in the test calls for a sync.
fn wait_for_rows(host: &Host, expected: &[&str]) {
    let started = std::time::Instant::now();
    loop {
        let rows = host.query("SELECT path || ' ' || size_bytes FROM workspace_files ORDER BY path");
        if rows == expected {
            return;
        }
        assert!(started.elapsed().as_secs() < 50, "{rows:?} instead of {expected:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Waits until there is a value.
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(started.elapsed().as_secs() < 50, "it did not happen");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn w40_to_w44a_a_server_registers_what_other_programs_do() {
    let host = Host::new();
    host.stdout(&["write", "/disk/code/first.py", "one", "--agent", "coder"]);
    let files = host.0.path().join("files");
    std::fs::write(files.join("code/before.py"), "1").unwrap();
    let _serving = Serving::start(&host);
    // What was there before: sync runs after the start.
    wait_for_rows(&host, &["code/before.py 1", "code/first.py 3"]);
    // A new file, a new size, and a file that is gone.
    std::fs::write(files.join("code/new.py"), "22").unwrap();
    wait_for_rows(&host, &["code/before.py 1", "code/first.py 3", "code/new.py 2"]);
    std::fs::write(files.join("code/first.py"), "longer").unwrap();
    std::fs::remove_file(files.join("code/before.py")).unwrap();
    wait_for_rows(&host, &["code/first.py 6", "code/new.py 2"]);
    // The directory of a category that wasn't there before, with a directory in it, and a directory that moves.
    std::fs::create_dir_all(files.join("data/2026-01-01")).unwrap();
    std::fs::write(files.join("data/2026-01-01/x.csv"), "x").unwrap();
    wait_for_rows(&host, &["code/first.py 6", "code/new.py 2", "data/2026-01-01/x.csv 1"]);
    std::fs::write(files.join("data/2026-01-01/y.csv"), "yy").unwrap();
    std::fs::rename(files.join("data/2026-01-01"), files.join("data/moved")).unwrap();
    wait_for_rows(&host, &["code/first.py 6", "code/new.py 2", "data/moved/x.csv 1", "data/moved/y.csv 2"]);
    std::fs::remove_dir_all(files.join("data/moved")).unwrap();
    // What isn't in the directory of a category isn't tracked.
    std::fs::write(files.join("root.py"), "x").unwrap();
    wait_for_rows(&host, &["code/first.py 6", "code/new.py 2"]);
}

#[test]
fn w44a_a_workspace_that_becomes_managed_while_a_server_runs_is_synced() {
    let host = Host::new();
    let file = host.0.path().join("stead.toml");
    std::fs::write(&file, CONFIG.replace("managed = true", "managed = false")).unwrap();
    std::fs::create_dir(host.0.path().join("files/code")).unwrap();
    std::fs::write(host.0.path().join("files/code/x.py"), "x").unwrap();
    host.stdout(&["write", "/disk/notes.md", "not routed", "--agent", "coder"]);
    let _serving = Serving::start(&host);
    assert!(host.query("SELECT path FROM workspace_files").is_empty());
    std::fs::write(&file, CONFIG).unwrap();
    wait_for_rows(&host, &["code/x.py 1"]);
}

#[test]
fn w86_a_server_cleans_up_at_its_start() {
    let host = Host::new();
    for prefix in ["/notes", "/disk"] {
        for path in ["temp/old.bin", "temp/young.bin", "code/old.py"] {
            host.stdout(&["write", &format!("{prefix}/{path}"), "x", "--agent", "coder"]);
        }
    }
    let conn = rusqlite::Connection::open(host.0.path().join(".stead/stead.db")).unwrap();
    let age = "UPDATE workspace_files SET modified_at = '2020-01-01T00:00:00.000Z' WHERE path LIKE '%/old.%'";
    assert_eq!(conn.execute(age, []).unwrap(), 4);
    drop(conn);
    assert!(host.age_on_disk("temp/old.bin") && host.age_on_disk("code/old.py"));
    let _serving = Serving::start(&host);
    wait_for_rows(&host, &["code/old.py 1", "code/old.py 1", "temp/young.bin 1", "temp/young.bin 1"]);
    for prefix in ["/notes", "/disk"] {
        let status = ["files", "cleanup", "--status", "--json", "--workspace", prefix, "--agent", "coder"];
        let status = wait_for(|| {
            let status: Value = serde_json::from_str(&host.stdout(&status)).unwrap();
            (!status.is_null()).then_some(status)
        });
        assert_eq!((&status["removed"], &status["paths"]), (&json!(1), &json!(["temp/old.bin"])));
        let listed = host.stdout(&["ls", &format!("{prefix}/temp"), "--agent", "coder"]);
        assert!(listed.contains("young.bin") && !listed.contains("old.bin"), "{listed}");
    }
    assert!(!host.0.path().join("files/temp/old.bin").exists());
}

#[test]
fn w12_the_day_of_a_routed_file_is_that_of_utc_in_every_time_zone() {
    let host = Host::new();
    // SQLite's `now` is in UTC.
    let today = || host.query("SELECT date('now')").remove(0);
    // At any moment, it is another day than in UTC in one of the first two. The last two need no database of time zones.
    let zones = ["Pacific/Kiritimati", "Pacific/Pago_Pago", "<+14>-14", "<-11>11"];
    host.stdout(&["ls", "/notes", "--agent", "coder"]);
    for (number, zone) in zones.into_iter().enumerate() {
        let (before, path) = (today(), format!("/notes/{number}.py"));
        let mut command = host.command(&["write", &path, "x", "--json", "--agent", "coder"]);
        let output = command.env("TZ", zone).stdin(Stdio::null()).output().unwrap();
        let written: Value = serde_json::from_slice(&output.stdout).unwrap();
        let allowed = [before, today()].map(|day| format!("/notes/code/{day}/{number}.py"));
        assert!(allowed.iter().any(|path| written["path"] == **path), "{zone}: {written}");
    }
}

#[test]
fn w85_and_w91_a_file_that_cant_be_removed_is_reported_and_the_others_are_removed() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let host = Host::new();
    for name in ["gone", "locked", "old"] {
        let path = format!("/disk/temp/{name}/{name}");
        host.stdout(&["write", &path, "x", "--agent", "coder"]);
    }
    host.age(&["temp/gone/gone", "temp/locked/locked", "temp/old/old"]);
    let locked = host.0.path().join("files/temp/locked");
    std::fs::remove_file(host.0.path().join("files/temp/gone/gone")).unwrap();
    // An administrator may remove everything, so another user runs the commands.
    let is_superuser = rustix::process::geteuid().is_root();
    if is_superuser {
        let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(host.0.path()).status().unwrap();
        assert!(owned.success());
    }
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
    let program = host.0.path().join("stead-program");
    program::copy_program(&program);
    let run = |arguments: &[&str], input: &str| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&host.0).env("HOME", host.0.path().join("no-home"));
        command.env_remove("STEAD_CONFIG").env_remove("STEAD_AGENT").env_remove("XDG_STATE_HOME");
        if is_superuser {
            command.uid(65_534).gid(65_534);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let files = ["--workspace", "/disk", "--agent", "coder"];
    let cleaned: Value =
        serde_json::from_str(&run(&[&["files", "cleanup", "--json"][..], &files].concat(), "")).unwrap();
    assert_eq!(cleaned["removed"], 1, "{cleaned}");
    assert_eq!(cleaned["paths"], json!(["/disk/temp/old/old"]));
    assert_eq!(cleaned["errors"].as_array().unwrap().len(), 1);
    assert_eq!(host.query("SELECT path FROM workspace_files"), ["temp/locked/locked"], "the row stays");
    assert!(locked.join("locked").exists() && !host.0.path().join("files/temp/old/old").exists());
    // When, what, how many and what went wrong, for people, for programs and in the tool.
    let status = run(&[&["files", "cleanup", "--status"][..], &files].concat(), "");
    let at = cleaned["at"].as_str().unwrap();
    for part in [at, "removed 1 file", "removed temp/old/old", "could not remove /disk/temp/locked/locked"] {
        assert!(status.contains(part), "{part} in {status}");
    }
    let json: Value =
        serde_json::from_str(&run(&[&["files", "cleanup", "--status", "--json"][..], &files].concat(), ""))
            .unwrap();
    assert_eq!(
        (&json["at"], &json["removed"], &json["errors"]),
        (&cleaned["at"], &json!(1), &cleaned["errors"])
    );
    assert_eq!(json["paths"], json!(["temp/old/old"]));
    let about = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about });
    let first = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let arguments = json!({ "action": "cleanup", "dry_run": true, "workspace": "/disk" });
    let params = json!({ "name": "workspace", "arguments": arguments });
    let second = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    let reply = run(&["mcp", "--agent", "coder"], &format!("{first}\n{second}\n"));
    for part in [at, "removed 1 file: temp/old/old", "could not remove /disk/temp/locked/locked"] {
        assert!(reply.contains(part), "{part} in {reply}");
    }
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn w85_a_directory_that_cant_be_read_is_reported_and_everything_else_goes_on() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let host = Host::new();
    let forks = CONFIG.replace("history = true", "history = true\nforks = true");
    std::fs::write(host.0.path().join("stead.toml"), forks).unwrap();
    host.stdout(&["write", "/disk/temp/old", "x", "--agent", "coder"]);
    for path in ["/disk/data/kept.csv", "/disk/code/deep/kept.py", "/disk/code/seen.py"] {
        host.stdout(&["write", path, "x", "--agent", "coder"]);
    }
    host.stdout(&["fork", "/disk", "w", "--agent", "coder"]);
    host.age(&["temp/old", "data/kept.csv", "code/deep/kept.py", "code/seen.py"]);
    // An administrator may read everything, so another user runs the commands.
    let is_superuser = rustix::process::geteuid().is_root();
    if is_superuser {
        let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(host.0.path()).status().unwrap();
        assert!(owned.success());
    }
    let program = host.0.path().join("stead-program");
    program::copy_program(&program);
    let closed = ["files/data", "files/code/deep"].map(|path| host.0.path().join(path));
    let set_mode = |mode| {
        let mode = || std::fs::Permissions::from_mode(mode);
        closed.iter().for_each(|path| std::fs::set_permissions(path, mode()).unwrap());
    };
    set_mode(0o000);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("files").args(arguments).args(["--agent", "coder"]).current_dir(&host.0);
        command.env("HOME", host.0.path().join("no-home"));
        command.env_remove("STEAD_CONFIG").env_remove("STEAD_AGENT").env_remove("XDG_STATE_HOME");
        if is_superuser {
            command.uid(65_534).gid(65_534);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        (stdout, stderr)
    };
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&run(&[arguments, &["--json"]].concat()).0).unwrap()
    };
    let names_both = |text: &str, prefix: &str| {
        for path in ["code/deep", "data"] {
            let line = format!("{prefix}/{path}: the host doesn't allow this");
            assert!(text.contains(&line), "{line} in {text}");
        }
    };
    let rows = || host.query("SELECT path FROM workspace_files WHERE workspace LIKE '%/' ORDER BY path");
    let before = rows();
    names_both(&run(&["sync", "--workspace", "/disk"]).1, "/disk");
    let synced = json(&["sync", "--workspace", "/disk"]);
    assert_eq!((&synced["removed"], synced["unread"].as_array().unwrap().len()), (&json!(0), 2));
    assert_eq!(rows(), before, "what can't be looked at keeps its rows");
    let (tree, warned) = run(&["tree", "--workspace", "/disk"]);
    assert!(tree.contains("temp/  1 file") && tree.contains("data/  0 files"), "{tree}");
    names_both(&warned, "/disk");
    let tree = json(&["tree", "--workspace", "/disk"]);
    assert_eq!(tree["unread"].as_array().unwrap().len(), 2, "{tree}");
    // A fork of the directory lists what can be read, and its files can be tagged.
    let (listed, warned) = run(&["list", "--workspace", "/forks/w"]);
    assert!(listed.contains("/forks/w/code/seen.py") && !listed.contains("kept"), "{listed}");
    names_both(&warned, "/forks/w");
    let tagged = json(&["tag", "/forks/w/code/seen.py", "mine"]);
    assert_eq!(tagged["tags"], json!(["mine"]));
    let cleaned = json(&["cleanup", "--workspace", "/disk"]);
    assert_eq!((&cleaned["removed"], &cleaned["paths"]), (&json!(1), &json!(["/disk/temp/old"])));
    let status = run(&["cleanup", "--workspace", "/disk", "--status"]).0;
    for text in [status, cleaned["unread"].to_string()] {
        names_both(&text, "/disk");
    }
    // A list of the directory itself shows the entries of what can't be looked at.
    let (listed, _) = run(&["list", "--workspace", "/disk"]);
    assert!(listed.contains("/disk/data/kept.csv") && listed.contains("/disk/code/deep/kept.py"), "{listed}");
    set_mode(0o755);
    assert_eq!(json(&["sync", "--workspace", "/disk"])["removed"], 0);
    let (listed, warned) = run(&["list", "--workspace", "/forks/w"]);
    assert!(listed.contains("/forks/w/data/kept.csv"), "{listed} {warned}");
}

#[test]
#[cfg(target_os = "linux")]
fn w34_to_w39_a_mount_registers_and_does_not_route() {
    let host = Host::new();
    let mount = host.0.path().join("mnt");
    std::fs::create_dir(&mount).unwrap();
    let mounted = mounted::Mounted::start(host.command(&["mount", "mnt", "--agent", "coder"]));
    let rows = || {
        host.query(
            "SELECT path || ' ' || category || ' ' || size_bytes || ' ' || session_key FROM workspace_files
             ORDER BY workspace, path",
        )
    };
    for prefix in ["notes", "disk"] {
        let at = |path: &str| mount.join(prefix).join(path);
        // A shell names its paths itself.
        std::fs::write(at("bare.py"), "x").unwrap();
        assert_eq!(std::fs::read_to_string(at("bare.py")).unwrap(), "x");
        assert!(!at("code").exists());
        std::fs::create_dir_all(at("code/mine")).unwrap();
        std::fs::write(at("code/mine/x.py"), "four").unwrap();
        std::fs::write(at("code/mine/gone.py"), "x").unwrap();
        std::fs::remove_file(at("code/mine/gone.py")).unwrap();
    }
    assert_eq!(rows(), ["code/mine/x.py code 4 coder", "code/mine/x.py code 4 coder"]);
    assert_eq!(host.query("SELECT path FROM workspace_files WHERE accessed_at IS NOT NULL"), [""; 0]);
    let ids = host.query("SELECT CAST(id AS TEXT) FROM workspace_files ORDER BY id");
    for prefix in ["notes", "disk"] {
        let at = |path: &str| mount.join(prefix).join(path);
        std::fs::create_dir(at("data")).unwrap();
        std::fs::rename(at("code/mine"), at("data/mine")).unwrap();
        std::fs::write(at("data/mine/x.py"), "longer").unwrap();
        assert_eq!(std::fs::read_to_string(at("data/mine/x.py")).unwrap(), "longer");
    }
    drop(mounted);
    assert_eq!(rows(), ["data/mine/x.py data 6 coder", "data/mine/x.py data 6 coder"]);
    assert_eq!(
        host.query("SELECT CAST(id AS TEXT) FROM workspace_files ORDER BY id"),
        ids,
        "the rows moved along"
    );
    assert_eq!(host.query("SELECT path FROM workspace_files WHERE accessed_at IS NOT NULL").len(), 2);
    for prefix in ["/notes", "/disk"] {
        let synced = host.stdout(&["files", "sync", "--json", "--workspace", prefix, "--agent", "coder"]);
        let synced: Value = serde_json::from_str(&synced).unwrap();
        assert_eq!(
            synced,
            json!({ "workspace": prefix, "added": 0, "removed": 0, "resized": 0, "unread": [] })
        );
    }
}

#[test]
fn w74_and_w90_the_commands_say_which_tags_a_merge_changes() {
    let host = Host::new();
    let text = |arguments: &[&str]| {
        let output = host.run(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for base in ["/notes", "/disk"] {
        let fork = base.replace('/', "");
        text(&["write", &format!("{base}/temp/x"), "x"]);
        text(&["files", "tag", &format!("{base}/temp/x"), "pin"]);
        text(&["fork", base, &fork]);
        text(&["files", "tag", "--remove", &format!("/forks/{fork}/temp/x"), "pin"]);
        let line = format!("tags       {base}/temp/x: -pin\n");
        assert_eq!(
            text(&["merge", &fork, "--dry-run"]),
            format!("{line}This would be the tags of 1 file.\n")
        );
        assert_eq!(text(&["merge", &fork]), format!("{line}Merged the fork {fork}: the tags of 1 file.\n"));
        assert_eq!(text(&["merge", &fork]), "Nothing to merge.\n");
        text(&["files", "tag", &format!("{base}/temp/x"), "pin"]);
        let line = format!("tags       /forks/{fork}/temp/x: +pin\n");
        assert_eq!(text(&["update", &fork]), format!("{line}Updated the fork {fork}: the tags of 1 file.\n"));
    }
}

#[test]
fn w20_cat_and_stat_find_the_newest_file_with_a_bare_name() {
    let host = Host::new();
    for prefix in ["/notes", "/disk"] {
        let path = format!("{prefix}/one.py");
        host.stdout(&["write", &path, "print(1)", "--agent", "coder"]);
        assert_eq!(host.stdout(&["cat", &path, "--agent", "coder"]).trim_end(), "print(1)");
        let stat = host.stdout(&["stat", &path, "--agent", "coder"]);
        assert!(stat.contains(&format!("{prefix}/code/20")), "{stat}");
    }
}

#[test]
fn w49_an_earlier_list_is_that_of_the_workspace_that_is_shown() {
    let host = Host::new();
    let agent = ["--agent", "coder"];
    host.stdout(&["write", "/notes/early.py", "x", "--agent", "coder"]);
    host.stdout(&["snapshot", "/notes", "--label", "s", "--agent", "coder"]);
    host.stdout(&["write", "/notes/late.py", "x", "--agent", "coder"]);
    for at in ["s", "#1"] {
        for command in [&["list"][..], &["search", "py"], &["tree"]] {
            let arguments = [&["files"], command, &["--workspace", "/notes", "--at", at], &agent].concat();
            let shown = host.stdout(&arguments);
            let is_early = shown.contains("early.py") || shown.contains("1 file");
            assert!(is_early && !shown.contains("late.py"), "{arguments:?}: {shown}");
        }
    }
    // The command of a Workspace that has no such version says why, as `stead ls` does.
    let refused = |command: &[&str]| {
        let output = host.run(&[command, &["--at", "s"], &agent].concat());
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(refused(&["files", "list", "--workspace", "/disk"]), refused(&["ls", "/disk"]));
}

#[test]
fn w64_a_command_without_the_workspace_names_what_to_choose() {
    let host = Host::new();
    let output = host.run(&["files", "list", "--agent", "coder"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("choose one with --workspace: `/disk`, `/notes`"), "{error}");
}

#[test]
fn w92_cleanup_promises_to_bring_back_only_what_is_kept() {
    let host = Host::new();
    let file = host.0.path().join("stead.toml");
    let config = CONFIG.replace("path = \"files\"", "path = \"files\"\nkeep = false");
    std::fs::write(&file, config).unwrap();
    let cleanup = |prefix: &str, rest: &[&str]| {
        let command = [&["files", "cleanup", "--workspace", prefix, "--agent", "coder"], rest].concat();
        let output = host.run(&command);
        assert!(output.status.success());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for (prefix, comes_back) in [("/notes", true), ("/disk", false)] {
        host.stdout(&["write", &format!("{prefix}/temp/one"), "x", "--agent", "coder"]);
        host.age(if comes_back { &[] } else { &["temp/one"] });
        for (rest, is_done) in [(&["--dry-run"][..], false), (&[], true), (&["--status"], true)] {
            let said = cleanup(prefix, rest);
            assert_eq!(said.contains("can't be brought back"), !comes_back, "{rest:?}: {said}");
            assert_eq!(said.contains("brings them back"), comes_back && is_done, "{rest:?}: {said}");
        }
        // A cleanup that removes nothing keeps the operation known.
        cleanup(prefix, &[]);
        let status: Value = serde_json::from_str(&cleanup(prefix, &["--status", "--json"])).unwrap();
        assert_eq!((&status["removed"], &status["last_removal"]["removed"]), (&json!(0), &json!(1)));
        assert!(cleanup(prefix, &["--status"]).contains(", operation "));
    }
}
