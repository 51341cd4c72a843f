//! Attacks on the audit after a server has ended, in whatever way: `stead audit verify` reports all of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{Running, TestDir};

const CONFIG: &str = r#"
    [stores.disk]
    kind = "physical"
    path = "disk"
    [stores.notes]
    kind = "virtual"
    [[agents.coder.workspaces]]
    prefix = "/disk"
    scope = "rw"
    store = "disk"
    [[agents.coder.workspaces]]
    prefix = "/notes"
    scope = "rw"
    store = "notes"
"#;

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its client closes its input.
    Clean,
    /// It gets a signal between two calls.
    Signal(Signal),
    /// It is killed while it runs calls.
    KilledInCalls,
}

impl End {
    fn is_kill(self) -> bool {
        matches!(self, End::Signal(Signal::KILL) | End::KilledInCalls)
    }
}

/// A directory with a configuration, in which nothing was done yet.
pub(crate) fn configured_dir() -> TestDir {
    let dir = TestDir::empty();
    dir.file("stead.toml", CONFIG);
    dir.file("disk/a", "1");
    dir
}

/// A directory in which two commands and a server were run; the server has ended like `end`. `older.db` is the database
/// as it was after the first command.
fn dir_after_server(end: End) -> TestDir {
    let dir = configured_dir();
    assert!(dir.stead(["write", "/notes/first", "1"]).status.success());
    std::fs::copy(dir.path(".stead/stead.db"), dir.path("older.db")).unwrap();
    assert!(dir.stead(["write", "/notes/second", "1"]).status.success());
    let mut command = dir.command(["mcp", "--thread", "t1"]);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap());
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    send_request(&mut server, 0, "initialize", params);
    read_answer(&mut answers);
    for number in 1..=5 {
        let path = format!("/notes/{number}");
        call_tool(&mut server, number, "write_file", json!({ "path": path, "content": "text" }));
        assert_eq!(read_answer(&mut answers)["result"]["isError"], false);
        call_tool(&mut server, number, "read_file", json!({ "path": path }));
        assert_eq!(read_answer(&mut answers)["result"]["isError"], false);
    }
    match end {
        End::Clean => drop(server.stdin.take()),
        End::Signal(signal) => send_signal(&server, signal),
        End::KilledInCalls => {
            for number in 10..60 {
                let (tool, path) = if number % 3 == 0 {
                    ("read_file", "/notes/1".to_owned())
                } else {
                    ("write_file", format!("/{}/{number}", if number % 2 == 0 { "disk" } else { "notes" }))
                };
                call_tool(&mut server, number, tool, json!({ "path": path, "content": "text" }));
            }
            (0..12).for_each(|_| drop(read_answer(&mut answers)));
            send_signal(&server, Signal::KILL);
        }
    }
    drop(answers);
    server.wait().unwrap();
    dir
}

fn send_signal(server: &Child, signal: Signal) {
    kill_process(Pid::from_child(server), signal).unwrap();
}

fn send_request(server: &mut Child, id: u64, method: &str, params: Value) {
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    writeln!(server.stdin.as_mut().unwrap(), "{message}").unwrap();
}

fn call_tool(server: &mut Child, id: u64, tool: &str, mut arguments: Value) {
    if tool == "read_file" {
        arguments.as_object_mut().unwrap().remove("content");
    }
    send_request(server, id, "tools/call", json!({ "name": tool, "arguments": arguments }));
}

fn read_answer(answers: &mut impl BufRead) -> Value {
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a JSON message: {line:?}"))
}

/// A copy of the directory, for one attack.
fn copy_of(dir: &TestDir) -> TestDir {
    fn copy(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                std::fs::create_dir(&to).unwrap();
                copy(&entry.path(), &to);
            } else {
                std::fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let copy_dir = TestDir::empty();
    copy(&dir.path(""), &copy_dir.path(""));
    copy_dir
}

fn running_instances(dir: &TestDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.path(".stead/audit/running"));
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Whether there was something to attack. After a clean end there is no write-ahead log of the database, for example.
#[derive(Debug, PartialEq, Eq)]
enum Attacked {
    Yes,
    NothingThere,
}

type Attack = (&'static str, fn(&TestDir) -> Attacked);

/// Attacks that need access to the database alone.
const DATABASE_ATTACKS: [Attack; 18] = [
    ("cuts the newest records off", |dir| cut_off_records(dir, "/notes/5")),
    ("cuts a few more records off", |dir| cut_off_records(dir, "/notes/4")),
    ("cuts all of the newest chain off but its first record", |dir| cut_off_records(dir, "/notes/2")),
    ("cuts a record out of the middle", |dir| {
        sql(dir, "DELETE FROM audit WHERE instance = (SELECT max(id) FROM audit_instance) AND seq = 2")
    }),
    ("removes the newest instance with all of its records", |dir| {
        sql(
            dir,
            "DELETE FROM audit WHERE instance = (SELECT max(id) FROM audit_instance);
             DELETE FROM audit_head WHERE instance = (SELECT max(id) FROM audit_instance);
             DELETE FROM audit_instance WHERE id = (SELECT max(id) FROM audit_instance);",
        )
    }),
    ("removes an earlier instance with all of its records", |dir| {
        sql(
            dir,
            "DELETE FROM audit WHERE instance = 1; DELETE FROM audit_head WHERE instance = 1;
             DELETE FROM audit_instance WHERE id = 1;",
        )
    }),
    ("removes everything", |dir| {
        sql(dir, "DELETE FROM audit; DELETE FROM audit_head; DELETE FROM audit_instance;")
    }),
    ("removes the database's log", |dir| {
        let log = dir.path(".stead/stead.db-wal");
        if std::fs::metadata(&log).map_or(0, |log| log.len()) == 0 {
            return Attacked::NothingThere;
        }
        std::fs::remove_file(log).unwrap();
        Attacked::Yes
    }),
    ("puts an older copy in place of the database", |dir| {
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(dir.path(&format!(".stead/stead.db{suffix}")));
        }
        std::fs::copy(dir.path("older.db"), dir.path(".stead/stead.db")).unwrap();
        Attacked::Yes
    }),
    ("changes who made a version", |dir| {
        let newest = "(SELECT max(CAST(body ->> '$.version' AS INTEGER)) FROM audit)";
        sql(dir, &format!("UPDATE revision SET agent = 'mallory' WHERE id = {newest}"))
    }),
    ("changes the thread of the oldest version", |dir| {
        sql(dir, "UPDATE revision SET thread = 't2' WHERE id = (SELECT min(id) FROM revision)")
    }),
    ("changes the tool of a version", |dir| sql(dir, "UPDATE revision SET tool = 'sync' WHERE id = 3")),
    ("gives a version to another operation", |dir| {
        sql(dir, "UPDATE revision SET operation = x'00112233445566778899aabbccddeeff' WHERE id = 2")
    }),
    ("removes a version", |dir| sql(dir, "DELETE FROM revision WHERE id = 2")),
    ("removes a version and says that a backup was restored", |dir| {
        sql(
            dir,
            "DELETE FROM revision WHERE id = 2;
             INSERT INTO revision(operation, agent, tool, at) VALUES (x'00', 'operator', 'restore-backup', 0)",
        )
    }),
    ("makes the newest record anew", |dir| {
        let conn = open(dir);
        let (id, instance, body, before) = newest(&conn);
        let body = body.replace("\"agent\":\"coder\"", "\"agent\":\"mallory\"");
        let hash = hash(&before, &body);
        conn.execute("UPDATE audit SET body = ?2, hash = ?3 WHERE id = ?1", (id, &body, hash)).unwrap();
        conn.execute("UPDATE audit_instance SET hash = ?2 WHERE id = ?1", (instance, hash)).unwrap();
        conn.execute("DELETE FROM audit_head WHERE instance = ?1", [instance]).unwrap();
        Attacked::Yes
    }),
    ("adds a record behind the newest one", |dir| {
        let conn = open(dir);
        let (id, instance, body, _) = newest(&conn);
        let (seq, before): (i64, Vec<u8>) = conn
            .query_row("SELECT seq, hash FROM audit WHERE id = ?1", [id], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        let body = body.replace(&format!("\"seq\":{seq},"), &format!("\"seq\":{},", seq + 1));
        let hash = hash(&before, &body);
        let insert = "INSERT INTO audit(id, instance, seq, hash, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        conn.execute(insert, (id + 1, instance, seq + 1, hash, &body)).unwrap();
        let update = "UPDATE audit_instance SET seq = ?2, hash = ?3 WHERE id = ?1";
        conn.execute(update, (instance, seq + 1, hash)).unwrap();
        Attacked::Yes
    }),
    ("adds an instance that never ran", |dir| {
        let conn = open(dir);
        let (id, _, body, _) = newest(&conn);
        let uuid = "0197c0de-0000-7000-8000-000000000000";
        let (_, rest) = body.split_once(",\"at\":").unwrap();
        let body = format!("{{\"instance\":\"{uuid}\",\"seq\":1,\"at\":{rest}");
        let hash = hash(&[0; 32], &body);
        let row = "INSERT INTO audit_instance(id, uuid, seq, hash, spooled) VALUES (99, ?1, 1, ?2, 0)";
        conn.execute(row, (uuid, hash)).unwrap();
        let insert = "INSERT INTO audit(id, instance, seq, hash, body) VALUES (?1, 99, 1, ?2, ?3)";
        conn.execute(insert, (id + 1, hash, &body)).unwrap();
        Attacked::Yes
    }),
];

/// Attacks that remove something from the state directory.
const STATE_DIRECTORY_ATTACKS: [Attack; 6] = [
    ("removes the heads", |dir| remove(&dir.path(".stead/audit/heads"))),
    ("removes the key", |dir| remove(&dir.path(".stead/audit/key"))),
    ("removes the whole directory of the audit", |dir| remove(&dir.path(".stead/audit"))),
    ("removes what a killed server has left", |dir| {
        running_instances(dir).iter().fold(Attacked::NothingThere, |_, instance| remove(instance))
    }),
    ("removes the spool of a killed server", |dir| {
        running_instances(dir)
            .iter()
            .fold(Attacked::NothingThere, |_, instance| remove(&instance.join("spool-0")))
    }),
    ("removes the database", |dir| {
        for suffix in ["-wal", "-shm", "-turn", "-next"] {
            let _ = std::fs::remove_file(dir.path(&format!(".stead/stead.db{suffix}")));
        }
        remove(&dir.path(".stead/stead.db"))
    }),
];

fn open(dir: &TestDir) -> Connection {
    let conn = Connection::open(dir.path(".stead/stead.db")).unwrap();
    conn.execute_batch("DROP TRIGGER IF EXISTS audit_no_update; DROP TRIGGER IF EXISTS audit_no_delete;")
        .unwrap();
    conn
}

fn sql(dir: &TestDir, statements: &str) -> Attacked {
    open(dir).execute_batch(statements).unwrap();
    Attacked::Yes
}

/// Cuts records off the end of the newest chain, beginning with the record of writing the file `from`, and everything
/// in the database that refers to them. That call had been answered.
fn cut_off_records(dir: &TestDir, from: &str) -> Attacked {
    sql(
        dir,
        &format!(
            "CREATE TEMP TABLE cut AS SELECT max(id) AS i FROM audit_instance;
             CREATE TEMP TABLE kept AS SELECT min(seq) - 1 AS s FROM audit, cut
                WHERE instance = i AND call = 'write_file' AND path = '{from}';
             DELETE FROM audit WHERE instance = (SELECT i FROM cut) AND seq > (SELECT s FROM kept);
             DELETE FROM audit_head WHERE instance = (SELECT i FROM cut) AND seq > (SELECT s FROM kept);
             UPDATE audit_instance SET seq = (SELECT s FROM kept), hash = (SELECT hash FROM audit
                WHERE instance = (SELECT i FROM cut) AND seq = (SELECT s FROM kept)) WHERE id = (SELECT i FROM cut);"
        ),
    )
}

/// The newest record: its id, its instance, its text, and the hash of the record before it.
fn newest(conn: &Connection) -> (i64, i64, String, Vec<u8>) {
    let sql = "SELECT a.id, a.instance, a.body, b.hash FROM audit a JOIN audit b ON b.instance = a.instance
        AND b.seq = a.seq - 1 WHERE a.instance = (SELECT max(id) FROM audit_instance) ORDER BY a.seq DESC LIMIT 1";
    conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap()
}

fn hash(before: &[u8], body: &str) -> [u8; 32] {
    *blake3::Hasher::new().update(before).update(body.as_bytes()).finalize().as_bytes()
}

fn remove(path: &Path) -> Attacked {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path).unwrap(),
        Ok(_) => std::fs::remove_file(path).unwrap(),
        Err(_) => return Attacked::NothingThere,
    }
    Attacked::Yes
}

/// The problems that `stead audit verify` reports.
fn problems(dir: &TestDir) -> Vec<String> {
    let output = dir.stead(["audit", "verify", "--json"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}"));
    // Without a database, the files outside it can't be compared with anything: the problem is that the database is
    // gone.
    if report["error"]["code"] == "corrupt" {
        assert_eq!(output.status.code(), Some(70), "{stdout}");
        return vec![report["error"]["message"].as_str().unwrap().to_owned()];
    }
    let problems = report["problems"].as_array().unwrap_or_else(|| panic!("{stdout}"));
    let problems: Vec<_> = problems.iter().map(|problem| problem.as_str().unwrap().to_owned()).collect();
    assert_eq!(output.status.code(), Some(if problems.is_empty() { 0 } else { 70 }), "{stdout}");
    problems
}

/// Every attack after this end. Each must be reported at once, and also after another command has run recovery.
fn check_every_attack_after(end: End) {
    let dir = dir_after_server(end);
    let mut unreported = Vec::new();
    for (name, attack) in DATABASE_ATTACKS.into_iter().chain(STATE_DIRECTORY_ATTACKS) {
        let attacked = copy_of(&dir);
        if attack(&attacked) == Attacked::NothingThere {
            assert!(!end.is_kill(), "{name}: there is nothing to attack after a kill");
            continue;
        }
        let later = copy_of(&attacked);
        if problems(&attacked).is_empty() {
            unreported.push(format!("{name}: checked at once"));
        }
        later.stead(["ls", "/notes"]);
        if problems(&later).is_empty() {
            unreported.push(format!("{name}: checked after another command"));
        }
    }
    assert_eq!(unreported, [""; 0], "after {end:?}");
    assert_eq!(problems(&dir), [""; 0], "after {end:?}, without an attack");
}

#[test]
fn every_attack_after_a_clean_end_is_reported() {
    check_every_attack_after(End::Clean);
}

#[test]
fn every_attack_after_a_sigterm_is_reported() {
    check_every_attack_after(End::Signal(Signal::TERM));
}

#[test]
fn every_attack_after_a_sigint_is_reported() {
    check_every_attack_after(End::Signal(Signal::INT));
}

#[test]
fn every_attack_after_a_sighup_is_reported() {
    check_every_attack_after(End::Signal(Signal::HUP));
}

#[test]
fn every_attack_after_a_kill_is_reported() {
    check_every_attack_after(End::Signal(Signal::KILL));
}

#[test]
fn every_attack_after_a_kill_during_calls_is_reported() {
    check_every_attack_after(End::KilledInCalls);
}

#[test]
fn a_record_that_is_no_longer_valid_json_is_named_and_all_others_are_shown() {
    let dir = configured_dir();
    for name in ["one", "two", "three"] {
        assert!(dir.stead(["write", &format!("/notes/{name}"), "1"]).status.success());
    }
    open(&dir).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let mut bytes = std::fs::read(dir.path(".stead/stead.db")).unwrap();
    let find = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).position(|window| window == text);
    let record = find(&bytes, b"\"paths\":[\"/notes/two\"]").unwrap();
    let quote = record + find(&bytes[record..], b"\"operation\"").unwrap();
    bytes[quote] = b'x';
    std::fs::write(dir.path(".stead/stead.db"), bytes).unwrap();

    let found = problems(&dir);
    assert!(matches!(&*found, [problem] if problem.ends_with("was changed")), "{found:?}");
    assert_eq!(dir.stead(["verify"]).status.code(), Some(70));
    for args in [&["audit", "--limit", "200"][..], &["audit", "export"], &["audit", "export", "--json"]] {
        let output = dir.stead(args.iter().copied());
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert!(stdout.contains("/notes/one") && stdout.contains("/notes/three"), "{args:?}: {stdout}");
        assert!(!stdout.contains("/notes/two"), "{args:?}: {stdout}");
        assert!(stderr.contains("is damaged; run `stead audit verify`"), "{args:?}: {stderr}");
    }
    let listed = dir.run(["audit", "--json"]);
    assert!(listed.contains("{\"problem\":\"record 1 of instance "), "{listed}");
    let archived = dir.stead(["audit", "archive", "--before", "2100-01-01"]);
    assert_eq!(archived.status.code(), Some(70));
    let stderr = String::from_utf8(archived.stderr).unwrap();
    assert!(stderr.contains("run `stead audit verify`"), "{stderr}");
    assert!(dir.stead(["write", "/notes/four", "1"]).status.success());
    // Neither the damaged record of the live database nor the one in the backup is in the way of a restore.
    for args in [&["backup", "damaged.db"][..], &["restore-backup", "damaged.db", "--yes"]] {
        let output = dir.stead(args.iter().copied());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let found = problems(&dir);
    assert!(matches!(&*found, [problem] if problem.ends_with("was changed")), "{found:?}");
}

#[test]
fn no_operation_of_stead_itself_is_reported_as_an_attack() {
    for end in [End::Clean, End::Signal(Signal::TERM), End::Signal(Signal::KILL), End::KilledInCalls] {
        let dir = dir_after_server(end);
        let assert_no_problems =
            |dir: &TestDir, after: &str| assert_eq!(problems(dir), [""; 0], "{end:?}, {after}");
        assert_no_problems(&dir, "at once");
        let run = |dir: &TestDir, args: &[&str]| {
            let output = dir.run(args.iter().copied());
            assert!(!output.contains("exit "), "{args:?}: {output}");
            assert_no_problems(dir, args[0]);
        };
        run(&dir, &["ls", "/notes"]);
        run(&dir, &["backup", "a.db"]);
        run(&dir, &["write", "/notes/later", "2"]);
        run(&dir, &["write", "/disk/later", "2"]);
        run(&dir, &["undo"]);
        run(&dir, &["gc"]);
        // A new machine that has only the backup.
        let other_machine = configured_dir();
        std::fs::copy(dir.path("a.db"), other_machine.path("a.db")).unwrap();
        run(&other_machine, &["restore-backup", "a.db", "--yes"]);
        run(&other_machine, &["write", "/notes/there", "2"]);
        run(&dir, &["restore-backup", "a.db", "--yes"]);
        run(&dir, &["write", "/notes/last", "2"]);
        run(&dir, &["audit", "archive", "--before", "2100-01-01"]);
        run(&dir, &["write", "/notes/last", "3"]);
        run(&dir, &["restore-backup", "a.db", "--yes"]);
        run(&dir, &["audit", "archive", "--before", "2100-01-01"]);
    }
}

/// A server that was killed right after its start has signed nothing yet.
#[test]
fn a_key_that_was_removed_before_the_first_signature_is_reported() {
    let dir = configured_dir();
    let mut command = dir.command(["mcp"]);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap());
    let client = json!({ "name": "test", "version": "1" });
    send_request(
        &mut server,
        0,
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
    );
    read_answer(&mut answers);
    call_tool(&mut server, 1, "write_file", json!({ "path": "/notes/1", "content": "text" }));
    assert_eq!(read_answer(&mut answers)["result"]["isError"], false);
    send_signal(&server, Signal::KILL);
    server.wait().unwrap();
    assert_eq!(problems(&copy_of(&dir)), [""; 0]);
    remove(&dir.path(".stead/audit/key"));
    assert!(!problems(&dir).is_empty(), "the missing key has to be reported");
}

/// A process that runs recovery for a killed process may be killed too, or fail, for example after it has put the
/// records into the database.
#[test]
fn an_interrupted_recovery_is_completed_without_duplicate_records() {
    for end in [End::Signal(Signal::KILL), End::KilledInCalls] {
        let dir = dir_after_server(end);
        let count = |dir: &TestDir| dir.run(["audit", "export"]).lines().count();
        let expected = count(&copy_of(&dir));
        let (heads, moved_heads) = (dir.path(".stead/audit/heads"), dir.path("heads"));
        std::fs::rename(&heads, &moved_heads).unwrap();
        std::fs::create_dir(&heads).unwrap();
        assert!(
            !dir.stead(["audit"]).status.success(),
            "the command has to fail if the heads can't be saved"
        );
        std::fs::remove_dir(&heads).unwrap();
        std::fs::rename(&moved_heads, &heads).unwrap();
        assert_eq!(running_instances(&dir).len(), 1, "the instance has to stay for the next process");
        assert_eq!(problems(&dir), [""; 0], "{end:?}");
        assert_eq!(count(&dir), expected, "{end:?}");
    }
}

/// Archived records aren't in the database any more, so the database is compared with the place of the archive.
#[test]
fn an_archive_that_the_database_no_longer_lists_is_reported() {
    for attack in [
        (|dir| sql(dir, "DELETE FROM audit_archive")) as fn(&TestDir) -> Attacked,
        |dir| sql(dir, "UPDATE audit_archive SET hash = x''"),
        |dir| {
            std::fs::copy(dir.path("older.db"), dir.path(".stead/stead.db")).unwrap();
            Attacked::Yes
        },
    ] {
        let dir = dir_after_server(End::Clean);
        dir.run(["audit", "archive", "--before", "2100-01-01"]);
        assert_eq!(problems(&dir), [""; 0]);
        attack(&dir);
        assert_ne!(problems(&dir), [""; 0]);
    }
}

#[test]
fn records_missing_after_a_kill_are_announced_once_and_always_listed_by_verify() {
    let dir = dir_after_server(End::Signal(Signal::KILL));
    cut_off_records(&dir, "/notes/4");
    let first_output = dir.run(["ls", "/notes"]);
    assert!(first_output.contains("! stead: the audit is damaged or incomplete: records "), "{first_output}");
    assert!(first_output.contains("`stead audit verify`"), "{first_output}");
    let second_output = dir.run(["ls", "/notes"]);
    assert!(!second_output.contains("audit"), "{second_output}");
    let reported = problems(&dir);
    assert!(reported.iter().any(|problem| problem.contains("missing")), "{reported:?}");
    assert_eq!(problems(&dir), reported);
}

/// A signal is an ordinary end: it leaves nothing for the next process to recover.
#[test]
fn a_server_that_gets_a_signal_ends_its_chain() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let dir = dir_after_server(End::Signal(signal));
        assert_eq!(running_instances(&dir), [""; 0].map(PathBuf::from), "mcp, {signal:?}");

        let mut command = dir.command(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut server = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut line = String::new();
        let mut answers = BufReader::new(server.stdout.take().unwrap());
        answers.read_line(&mut line).unwrap();
        let url = serde_json::from_str::<Value>(&line).unwrap()["listening"].as_str().unwrap().to_owned();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": "list_directory", "arguments": { "path": "/notes" }, "_meta": meta });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = post(&address, &call.to_string());
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(running_instances(&dir).len(), 1, "the server has to have started a chain");
        send_signal(&server, signal);
        assert_eq!(server.wait().unwrap().code(), Some(0), "{signal:?}");
        assert_eq!(running_instances(&dir), [""; 0].map(PathBuf::from), "serve, {signal:?}");
        assert_eq!(problems(&dir), [""; 0]);
    }
}

fn post(address: &str, body: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: list_directory\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
