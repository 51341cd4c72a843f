//! Attacks on the audit after a server has ended, in whatever way: `stead audit verify` reports all of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{Place, Running};

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
pub(crate) fn fresh() -> Place {
    let place = Place::empty();
    place.file("stead.toml", CONFIG);
    place.file("disk/a", "1");
    place
}

/// A directory in which two commands and a server were run; the server has ended like `end`. `older.db` is the database
/// as it was after the first command.
fn used(end: End) -> Place {
    let place = fresh();
    assert!(place.stead(["write", "/notes/first", "1"]).status.success());
    std::fs::copy(place.path(".stead/stead.db"), place.path("older.db")).unwrap();
    assert!(place.stead(["write", "/notes/second", "1"]).status.success());
    let mut command = place.command(["mcp", "--thread", "t1"]);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap());
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    ask(&mut server, 0, "initialize", hello);
    answer(&mut answers);
    for number in 1..=5 {
        let path = format!("/notes/{number}");
        call(&mut server, number, "write_file", json!({ "path": path, "content": "text" }));
        assert_eq!(answer(&mut answers)["result"]["isError"], false);
        call(&mut server, number, "read_file", json!({ "path": path }));
        assert_eq!(answer(&mut answers)["result"]["isError"], false);
    }
    match end {
        End::Clean => drop(server.stdin.take()),
        End::Signal(signal) => send(&server, signal),
        End::KilledInCalls => {
            for number in 10..60 {
                let (tool, path) = if number % 3 == 0 {
                    ("read_file", "/notes/1".to_owned())
                } else {
                    ("write_file", format!("/{}/{number}", if number % 2 == 0 { "disk" } else { "notes" }))
                };
                call(&mut server, number, tool, json!({ "path": path, "content": "text" }));
            }
            (0..12).for_each(|_| drop(answer(&mut answers)));
            send(&server, Signal::KILL);
        }
    }
    drop(answers);
    server.wait().unwrap();
    place
}

fn send(server: &Child, signal: Signal) {
    kill_process(Pid::from_child(server), signal).unwrap();
}

fn ask(server: &mut Child, id: u64, method: &str, params: Value) {
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    writeln!(server.stdin.as_mut().unwrap(), "{message}").unwrap();
}

fn call(server: &mut Child, id: u64, tool: &str, mut arguments: Value) {
    if tool == "read_file" {
        arguments.as_object_mut().unwrap().remove("content");
    }
    ask(server, id, "tools/call", json!({ "name": tool, "arguments": arguments }));
}

fn answer(answers: &mut impl BufRead) -> Value {
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
}

/// A copy of the directory, for one attack.
fn copy_of(place: &Place) -> Place {
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
    let another = Place::empty();
    copy(&place.path(""), &another.path(""));
    another
}

fn running(place: &Place) -> Vec<PathBuf> {
    let running = std::fs::read_dir(place.path(".stead/audit/running"));
    running.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Whether there was something to attack. After a clean end there is no write-ahead log of the database, for example.
#[derive(Debug, PartialEq, Eq)]
enum Attacked {
    Yes,
    NothingThere,
}

type Attack = (&'static str, fn(&Place) -> Attacked);

/// Attacks that need access to the database alone.
const ON_THE_DATABASE: [Attack; 18] = [
    ("cuts the newest records off", |place| cut(place, "/notes/5")),
    ("cuts a few more records off", |place| cut(place, "/notes/4")),
    ("cuts all of the newest chain off but its first record", |place| cut(place, "/notes/2")),
    ("cuts a record out of the middle", |place| {
        sql(place, "DELETE FROM audit WHERE instance = (SELECT max(id) FROM audit_instance) AND seq = 2")
    }),
    ("removes the newest instance with all of its records", |place| {
        sql(
            place,
            "DELETE FROM audit WHERE instance = (SELECT max(id) FROM audit_instance);
             DELETE FROM audit_head WHERE instance = (SELECT max(id) FROM audit_instance);
             DELETE FROM audit_instance WHERE id = (SELECT max(id) FROM audit_instance);",
        )
    }),
    ("removes an earlier instance with all of its records", |place| {
        sql(
            place,
            "DELETE FROM audit WHERE instance = 1; DELETE FROM audit_head WHERE instance = 1;
             DELETE FROM audit_instance WHERE id = 1;",
        )
    }),
    ("removes everything", |place| {
        sql(place, "DELETE FROM audit; DELETE FROM audit_head; DELETE FROM audit_instance;")
    }),
    ("removes the database's log", |place| {
        let log = place.path(".stead/stead.db-wal");
        if std::fs::metadata(&log).map_or(0, |log| log.len()) == 0 {
            return Attacked::NothingThere;
        }
        std::fs::remove_file(log).unwrap();
        Attacked::Yes
    }),
    ("puts an older copy in place of the database", |place| {
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(place.path(&format!(".stead/stead.db{suffix}")));
        }
        std::fs::copy(place.path("older.db"), place.path(".stead/stead.db")).unwrap();
        Attacked::Yes
    }),
    ("changes who made a version", |place| {
        let newest = "(SELECT max(CAST(body ->> '$.version' AS INTEGER)) FROM audit)";
        sql(place, &format!("UPDATE revision SET agent = 'mallory' WHERE id = {newest}"))
    }),
    ("changes the thread of the oldest version", |place| {
        sql(place, "UPDATE revision SET thread = 't2' WHERE id = (SELECT min(id) FROM revision)")
    }),
    ("changes the tool of a version", |place| sql(place, "UPDATE revision SET tool = 'sync' WHERE id = 3")),
    ("gives a version to another operation", |place| {
        sql(place, "UPDATE revision SET operation = x'00112233445566778899aabbccddeeff' WHERE id = 2")
    }),
    ("removes a version", |place| sql(place, "DELETE FROM revision WHERE id = 2")),
    ("removes a version and says that a backup was restored", |place| {
        sql(
            place,
            "DELETE FROM revision WHERE id = 2;
             INSERT INTO revision(operation, agent, tool, at) VALUES (x'00', 'operator', 'restore-backup', 0)",
        )
    }),
    ("makes the newest record anew", |place| {
        let conn = open(place);
        let (id, instance, body, before) = newest(&conn);
        let body = body.replace("\"agent\":\"coder\"", "\"agent\":\"mallory\"");
        let hash = hash(&before, &body);
        conn.execute("UPDATE audit SET body = ?2, hash = ?3 WHERE id = ?1", (id, &body, hash)).unwrap();
        conn.execute("UPDATE audit_instance SET hash = ?2 WHERE id = ?1", (instance, hash)).unwrap();
        conn.execute("DELETE FROM audit_head WHERE instance = ?1", [instance]).unwrap();
        Attacked::Yes
    }),
    ("adds a record behind the newest one", |place| {
        let conn = open(place);
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
        let told = "UPDATE audit_instance SET seq = ?2, hash = ?3 WHERE id = ?1";
        conn.execute(told, (instance, seq + 1, hash)).unwrap();
        Attacked::Yes
    }),
    ("adds an instance that never ran", |place| {
        let conn = open(place);
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
const ON_THE_STATE_DIRECTORY: [Attack; 6] = [
    ("removes the heads", |place| removed(&place.path(".stead/audit/heads"))),
    ("removes the key", |place| removed(&place.path(".stead/audit/key"))),
    ("removes the whole directory of the audit", |place| removed(&place.path(".stead/audit"))),
    ("removes what a killed server has left", |place| {
        running(place).iter().fold(Attacked::NothingThere, |_, left| removed(left))
    }),
    ("removes the spool of a killed server", |place| {
        running(place).iter().fold(Attacked::NothingThere, |_, left| removed(&left.join("spool-0")))
    }),
    ("removes the database", |place| {
        for suffix in ["-wal", "-shm", "-turn", "-next"] {
            let _ = std::fs::remove_file(place.path(&format!(".stead/stead.db{suffix}")));
        }
        removed(&place.path(".stead/stead.db"))
    }),
];

fn open(place: &Place) -> Connection {
    let conn = Connection::open(place.path(".stead/stead.db")).unwrap();
    conn.execute_batch("DROP TRIGGER IF EXISTS audit_no_update; DROP TRIGGER IF EXISTS audit_no_delete;")
        .unwrap();
    conn
}

fn sql(place: &Place, statements: &str) -> Attacked {
    open(place).execute_batch(statements).unwrap();
    Attacked::Yes
}

/// Cuts records off the end of the newest chain, beginning with the record of writing the file `from`, and everything
/// in the database that refers to them. That call had been answered.
fn cut(place: &Place, from: &str) -> Attacked {
    sql(
        place,
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

fn removed(path: &Path) -> Attacked {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path).unwrap(),
        Ok(_) => std::fs::remove_file(path).unwrap(),
        Err(_) => return Attacked::NothingThere,
    }
    Attacked::Yes
}

/// The problems that `stead audit verify` reports.
fn problems(place: &Place) -> Vec<String> {
    let output = place.stead(["audit", "verify", "--json"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let found: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    // Without a database, the files outside it can't be compared with anything: the problem is that the database is
    // gone.
    if found["error"]["code"] == "corrupt" {
        assert_eq!(output.status.code(), Some(70), "{said}");
        return vec![found["error"]["message"].as_str().unwrap().to_owned()];
    }
    let problems = found["problems"].as_array().unwrap_or_else(|| panic!("{said}"));
    let problems: Vec<_> = problems.iter().map(|problem| problem.as_str().unwrap().to_owned()).collect();
    assert_eq!(output.status.code(), Some(if problems.is_empty() { 0 } else { 70 }), "{said}");
    problems
}

/// Every attack after this end. Each must be reported at once, and also after another command has run recovery.
fn every_attack_is_told_after(end: End) {
    let place = used(end);
    let mut untold = Vec::new();
    for (name, attack) in ON_THE_DATABASE.into_iter().chain(ON_THE_STATE_DIRECTORY) {
        let attacked = copy_of(&place);
        if attack(&attacked) == Attacked::NothingThere {
            assert!(!end.is_kill(), "{name}: after a kill there is something to attack");
            continue;
        }
        let later = copy_of(&attacked);
        if problems(&attacked).is_empty() {
            untold.push(format!("{name}: seen at once"));
        }
        later.stead(["ls", "/notes"]);
        if problems(&later).is_empty() {
            untold.push(format!("{name}: seen after another command"));
        }
    }
    assert_eq!(untold, [""; 0], "after {end:?}");
    assert_eq!(problems(&place), [""; 0], "after {end:?}, without an attack");
}

#[test]
fn every_attack_after_a_clean_end_is_told() {
    every_attack_is_told_after(End::Clean);
}

#[test]
fn every_attack_after_a_sigterm_is_told() {
    every_attack_is_told_after(End::Signal(Signal::TERM));
}

#[test]
fn every_attack_after_a_sigint_is_told() {
    every_attack_is_told_after(End::Signal(Signal::INT));
}

#[test]
fn every_attack_after_a_sighup_is_told() {
    every_attack_is_told_after(End::Signal(Signal::HUP));
}

#[test]
fn every_attack_after_a_kill_is_told() {
    every_attack_is_told_after(End::Signal(Signal::KILL));
}

#[test]
fn every_attack_after_a_kill_in_the_middle_of_calls_is_told() {
    every_attack_is_told_after(End::KilledInCalls);
}

#[test]
fn nothing_that_stead_does_itself_is_taken_for_an_attack() {
    for end in [End::Clean, End::Signal(Signal::TERM), End::Signal(Signal::KILL), End::KilledInCalls] {
        let place = used(end);
        let fine = |place: &Place, after: &str| assert_eq!(problems(place), [""; 0], "{end:?}, {after}");
        fine(&place, "at once");
        let done = |place: &Place, args: &[&str]| {
            let told = place.run(args.iter().copied());
            assert!(!told.contains("exit "), "{args:?}: {told}");
            fine(place, args[0]);
        };
        done(&place, &["ls", "/notes"]);
        done(&place, &["backup", "a.db"]);
        done(&place, &["write", "/notes/later", "2"]);
        done(&place, &["write", "/disk/later", "2"]);
        done(&place, &["undo"]);
        done(&place, &["gc"]);
        // A new machine that has only the backup.
        let another = fresh();
        std::fs::copy(place.path("a.db"), another.path("a.db")).unwrap();
        done(&another, &["restore-backup", "a.db", "--yes"]);
        done(&another, &["write", "/notes/there", "2"]);
        done(&place, &["restore-backup", "a.db", "--yes"]);
        done(&place, &["write", "/notes/last", "2"]);
        done(&place, &["audit", "archive", "--before", "2100-01-01"]);
        done(&place, &["write", "/notes/last", "3"]);
        done(&place, &["restore-backup", "a.db", "--yes"]);
        done(&place, &["audit", "archive", "--before", "2100-01-01"]);
    }
}

/// A server that was killed right after its start has signed nothing yet.
#[test]
fn a_key_that_is_removed_before_anything_was_signed_is_missed() {
    let place = fresh();
    let mut command = place.command(["mcp"]);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap());
    let client = json!({ "name": "test", "version": "1" });
    ask(
        &mut server,
        0,
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
    );
    answer(&mut answers);
    call(&mut server, 1, "write_file", json!({ "path": "/notes/1", "content": "text" }));
    assert_eq!(answer(&mut answers)["result"]["isError"], false);
    send(&server, Signal::KILL);
    server.wait().unwrap();
    assert_eq!(problems(&copy_of(&place)), [""; 0]);
    removed(&place.path(".stead/audit/key"));
    assert!(!problems(&place).is_empty(), "the key is gone");
}

/// A process that runs recovery for a killed process may be killed too, or fail, for example after it has put the
/// records into the database.
#[test]
fn what_was_put_in_order_halfway_is_put_in_order_once() {
    for end in [End::Signal(Signal::KILL), End::KilledInCalls] {
        let place = used(end);
        let count = |place: &Place| place.run(["audit", "export"]).lines().count();
        let expected = count(&copy_of(&place));
        let (heads, aside) = (place.path(".stead/audit/heads"), place.path("heads"));
        std::fs::rename(&heads, &aside).unwrap();
        std::fs::create_dir(&heads).unwrap();
        assert!(!place.stead(["audit"]).status.success(), "the heads can't be kept");
        std::fs::remove_dir(&heads).unwrap();
        std::fs::rename(&aside, &heads).unwrap();
        assert_eq!(running(&place).len(), 1, "it is left for the next one");
        assert_eq!(problems(&place), [""; 0], "{end:?}");
        assert_eq!(count(&place), expected, "{end:?}");
    }
}

/// Archived records aren't in the database any more, so the database is compared with the place of the archive.
#[test]
fn an_archive_that_the_database_no_longer_tells_of_is_told() {
    for attack in [
        (|place| sql(place, "DELETE FROM audit_archive")) as fn(&Place) -> Attacked,
        |place| sql(place, "UPDATE audit_archive SET hash = x''"),
        |place| {
            std::fs::copy(place.path("older.db"), place.path(".stead/stead.db")).unwrap();
            Attacked::Yes
        },
    ] {
        let place = used(End::Clean);
        place.run(["audit", "archive", "--before", "2100-01-01"]);
        assert_eq!(problems(&place), [""; 0]);
        attack(&place);
        assert_ne!(problems(&place), [""; 0]);
    }
}

#[test]
fn what_is_missing_after_a_kill_is_said_once_and_named_from_then_on() {
    let place = used(End::Signal(Signal::KILL));
    cut(&place, "/notes/4");
    let said = place.run(["ls", "/notes"]);
    assert!(said.contains("! stead: the audit is damaged or incomplete: records "), "{said}");
    assert!(said.contains("`stead audit verify`"), "{said}");
    let again = place.run(["ls", "/notes"]);
    assert!(!again.contains("audit"), "{again}");
    let named = problems(&place);
    assert!(named.iter().any(|problem| problem.contains("missing")), "{named:?}");
    assert_eq!(problems(&place), named);
}

/// A signal is an ordinary end: it leaves nothing for the next process to recover.
#[test]
fn a_server_that_gets_a_signal_ends_its_chain() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let place = used(End::Signal(signal));
        assert_eq!(running(&place), [""; 0].map(PathBuf::from), "mcp, {signal:?}");

        let mut command = place.command(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut server = Running::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut line = String::new();
        let mut answers = BufReader::new(server.stdout.take().unwrap());
        answers.read_line(&mut line).unwrap();
        let url = serde_json::from_str::<Value>(&line).unwrap()["listening"].as_str().unwrap().to_owned();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
        let about = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": "list_directory", "arguments": { "path": "/notes" }, "_meta": about });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = posted(&address, &call.to_string());
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(running(&place).len(), 1, "the server has begun a chain");
        send(&server, signal);
        assert_eq!(server.wait().unwrap().code(), Some(0), "{signal:?}");
        assert_eq!(running(&place), [""; 0].map(PathBuf::from), "serve, {signal:?}");
        assert_eq!(problems(&place), [""; 0]);
    }
}

fn posted(address: &str, body: &str) -> String {
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
