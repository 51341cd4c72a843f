//! Two agents with different Workspaces on one server at once: 64 connections, both protocol eras, mixed reads and
//! writes.
//!
//! Both agents have the same paths with different files behind them. No call sees the other agent's files, tools or
//! handles, no call fails that shouldn't, and the server's memory doesn't grow.
#![allow(clippy::unwrap_used)]

mod connection;
mod large;
mod server;
mod slow;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use connection::{Connection, Era};
use serde_json::{Value, json};
use server::Server;

/// Connections of each agent.
const CONNECTIONS: usize = 32;
/// Files of each agent.
const FILES: u64 = 40;
/// The length of a file. Appending makes it longer until it is written again.
const LENGTH: usize = 2048;
/// How much the server's memory may grow once everything has been used.
const GROWTH: u64 = 16 << 20;

fn length() -> Duration {
    Duration::from_secs(if std::env::var_os("STEAD_TEST_LONG").is_some() { 60 } else { 10 })
}

/// One agent, and the handles that it got.
struct Side {
    agent: &'static str,
    token: String,
    tools: BTreeSet<String>,
    session: String,
    operation: String,
}

impl Side {
    /// Writes all files of an agent, and stores the handles that it gets.
    fn begin(server: &Server, agent: &'static str) -> Self {
        let token = server.token(agent);
        let mut connection = Connection::open(server.address, &token, Era::Sessions);
        let mut operation = String::new();
        for file in 0..FILES {
            let wrote = connection.call("write_file", written(agent, file));
            operation = wrote["structuredContent"]["operation"].as_str().unwrap().to_owned();
        }
        let tools = names(&connection.request("tools/list", json!({})));
        Side { agent, token, tools, session: connection.session().unwrap().to_owned(), operation }
    }
}

#[test]
fn two_agents_on_one_server_see_nothing_of_each_other() {
    let server = Server::launch();
    let sides = ["ann", "bob"].map(|agent| Side::begin(&server, agent));
    assert_ne!(sides[0].tools, sides[1].tools, "one that sees the other's tools has to be found out");

    let (begun, calls) = (Instant::now(), AtomicU64::new(0));
    let settled = std::thread::scope(|scope| {
        for number in 0..2 * CONNECTIONS {
            let (side, other) = (&sides[number % 2], &sides[(number + 1) % 2]);
            let (calls, address) = (&calls, server.address);
            scope.spawn(move || {
                let era = if number % 4 < 2 { Era::Sessions } else { Era::NoSessions };
                let mut connection = Connection::open(address, &side.token, era);
                let mut dice = Dice(number as u64 + 1);
                while begun.elapsed() < length() {
                    act(&mut connection, side, other, &mut dice);
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(length() / 2);
        server.memory()
    });
    let (after, calls) = (server.memory(), calls.into_inner());
    println!("{calls} calls; {} KiB half way, {} KiB at the end", settled >> 10, after >> 10);
    assert!(calls > 1_000, "only {calls} calls were made");
    assert!(after < settled + GROWTH, "memory went from {settled} to {after} bytes");
}

/// Does one random thing, and checks the result.
fn act(connection: &mut Connection, side: &Side, other: &Side, dice: &mut Dice) {
    let file = dice.throw(FILES);
    let path = path(file);
    match dice.throw(12) {
        0..=2 => write(connection, side, file),
        3 => {
            let line = format!("{}\n", side.agent);
            drop(connection.call("append_file", json!({ "path": path, "content": line })));
        }
        4..=6 => {
            let read = connection.call("read_file", json!({ "path": path }));
            is_own(read["content"][0]["text"].as_str().unwrap(), side);
        }
        7 => {
            let read = connection.request("resources/read", json!({ "uri": format!("stead://{path}") }));
            is_own(read["contents"][0]["text"].as_str().unwrap(), side);
        }
        8 => {
            let listed = connection.call("list_directory", json!({ "path": "/mine", "limit": 7 }));
            assert_eq!(listed["structuredContent"]["total"], FILES, "{listed}");
        }
        9 => {
            let found = connection.call("grep", json!({ "pattern": other.agent, "path": "/mine" }));
            assert_eq!(found["structuredContent"]["matches"], 0, "{found}");
        }
        10 => assert_eq!(names(&connection.request("tools/list", json!({}))), side.tools),
        _ => use_handles_of(other, connection),
    }
}

/// Writes a file as an agent does. All connections of an agent are one caller: if one of them has written since another
/// has read, the write is refused until the file is read again, so that no change is lost.
fn write(connection: &mut Connection, side: &Side, file: u64) {
    for _ in 0..100 {
        let wrote = connection.try_call("write_file", written(side.agent, file));
        if wrote["isError"] == false {
            return;
        }
        assert_eq!(wrote["structuredContent"]["error"]["code"], "conflict", "{wrote}");
        let read = connection.call("read_file", json!({ "path": path(file) }));
        is_own(read["content"][0]["text"].as_str().unwrap(), side);
    }
    panic!("a file that was just read can't be written");
}

/// Checks that the handles of another agent are worth nothing here.
fn use_handles_of(other: &Side, connection: &mut Connection) {
    let undone = connection.try_call("undo", json!({ "operation": other.operation }));
    assert_eq!(undone["isError"], true, "{undone}");
    assert_eq!(undone["structuredContent"]["error"]["code"], "not_found", "{undone}");
    assert!(!undone.to_string().contains(other.agent), "{undone}");
    assert_eq!(connection.status_in(&other.session), 404);
}

fn path(file: u64) -> String {
    format!("/mine/{file:02}.txt")
}

fn written(agent: &str, file: u64) -> Value {
    let line = format!("{agent}\n");
    json!({ "path": path(file), "content": line.repeat(LENGTH / line.len()) })
}

fn is_own(text: &str, side: &Side) {
    assert!(text.len() > LENGTH / 2, "a file is never half written: {} bytes", text.len());
    assert!(text.lines().all(|line| line == side.agent), "{} reads {text:?}", side.agent);
}

fn names(listed: &Value) -> BTreeSet<String> {
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Pseudo-random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
