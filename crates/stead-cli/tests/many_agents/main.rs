//! Two agents with different Workspaces on one server at once: 64 connections, both protocol eras, mixed reads and
//! writes.
//!
//! Both agents have the same paths with different files behind them. No call sees the other agent's files, tools or
//! handles, no call fails that shouldn't, and the server's memory doesn't grow.
#![allow(clippy::unwrap_used)]

mod connection;
mod forked_work;
mod large_edits;
mod server;
mod slow_calls;

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
const FILE_LENGTH: usize = 2048;
/// How much the server's memory may grow once everything has been used.
const MAX_GROWTH: u64 = 16 << 20;

fn duration() -> Duration {
    Duration::from_secs(if std::env::var_os("STEAD_TEST_LONG").is_some() { 60 } else { 10 })
}

/// One agent, and the handles that it got.
struct Agent {
    name: &'static str,
    token: String,
    tools: BTreeSet<String>,
    session: String,
    operation: String,
}

impl Agent {
    /// Writes all files of an agent, and stores the handles that it gets.
    fn new(server: &Server, name: &'static str) -> Self {
        let token = server.token(name);
        let mut connection = Connection::open(server.address, &token, Era::Sessions);
        let mut operation = String::new();
        for file in 0..FILES {
            let result = connection.call("write_file", write_arguments(name, file));
            operation = result["structuredContent"]["operation"].as_str().unwrap().to_owned();
        }
        let tools = tool_names(&connection.request("tools/list", json!({})));
        Agent { name, token, tools, session: connection.session().unwrap().to_owned(), operation }
    }
}

#[test]
fn two_agents_on_one_server_see_nothing_of_each_other() {
    let server = Server::launch();
    let agents = ["ann", "bob"].map(|name| Agent::new(&server, name));
    assert_ne!(
        agents[0].tools, agents[1].tools,
        "the agents need different tools, or a mix-up would not be noticed"
    );

    let (start, calls) = (Instant::now(), AtomicU64::new(0));
    let memory_halfway = std::thread::scope(|scope| {
        for number in 0..2 * CONNECTIONS {
            let (agent, other) = (&agents[number % 2], &agents[(number + 1) % 2]);
            let (calls, address) = (&calls, server.address);
            scope.spawn(move || {
                let era = if number % 4 < 2 { Era::Sessions } else { Era::NoSessions };
                let mut connection = Connection::open(address, &agent.token, era);
                let mut random = Random(number as u64 + 1);
                while start.elapsed() < duration() {
                    random_call(&mut connection, agent, other, &mut random);
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(duration() / 2);
        server.memory()
    });
    let (memory_at_end, calls) = (server.memory(), calls.into_inner());
    println!("{calls} calls; {} KiB half way, {} KiB at the end", memory_halfway >> 10, memory_at_end >> 10);
    assert!(calls > 100, "only {calls} calls were made");
    assert!(
        memory_at_end < memory_halfway + MAX_GROWTH,
        "memory went from {memory_halfway} to {memory_at_end} bytes"
    );
}

/// Does one random thing, and checks the result.
fn random_call(connection: &mut Connection, agent: &Agent, other: &Agent, random: &mut Random) {
    let file = random.below(FILES);
    let path = path(file);
    match random.below(12) {
        0..=2 => write(connection, agent, file),
        3 => {
            let line = format!("{}\n", agent.name);
            drop(connection.call("append_file", json!({ "path": path, "content": line })));
        }
        4..=6 => {
            let read = connection.call("read_file", json!({ "path": path }));
            assert_own_content(read["content"][0]["text"].as_str().unwrap(), agent);
        }
        7 => {
            let read = connection.request("resources/read", json!({ "uri": format!("stead://{path}") }));
            assert_own_content(read["contents"][0]["text"].as_str().unwrap(), agent);
        }
        8 => {
            let result = connection.call("list_directory", json!({ "path": "/mine", "limit": 7 }));
            assert_eq!(result["structuredContent"]["total"], FILES, "{result}");
        }
        9 => {
            let result = connection.call("grep", json!({ "pattern": other.name, "path": "/mine" }));
            assert_eq!(result["structuredContent"]["matches"], 0, "{result}");
        }
        10 => assert_eq!(tool_names(&connection.request("tools/list", json!({}))), agent.tools),
        _ => check_handles_of(other, connection),
    }
}

/// Writes a file as an agent does. All connections of an agent are one caller: if one of them has written since another
/// has read, the write is refused until the file is read again, so that no change is lost.
fn write(connection: &mut Connection, agent: &Agent, file: u64) {
    for _ in 0..100 {
        let result = connection.try_call("write_file", write_arguments(agent.name, file));
        if result["isError"] == false {
            return;
        }
        assert_eq!(result["structuredContent"]["error"]["code"], "conflict", "{result}");
        let read = connection.call("read_file", json!({ "path": path(file) }));
        assert_own_content(read["content"][0]["text"].as_str().unwrap(), agent);
    }
    panic!("writing a file that was just read failed too often");
}

/// Checks that the handles of another agent are refused.
fn check_handles_of(other: &Agent, connection: &mut Connection) {
    let result = connection.try_call("undo", json!({ "operation": other.operation }));
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["structuredContent"]["error"]["code"], "not_found", "{result}");
    assert!(!result.to_string().contains(other.name), "{result}");
    assert_eq!(connection.status_in(&other.session), 404);
}

fn path(file: u64) -> String {
    format!("/mine/{file:02}.txt")
}

fn write_arguments(name: &str, file: u64) -> Value {
    let line = format!("{name}\n");
    json!({ "path": path(file), "content": line.repeat(FILE_LENGTH / line.len()) })
}

fn assert_own_content(text: &str, agent: &Agent) {
    assert!(text.len() > FILE_LENGTH / 2, "the file is half written: {} bytes", text.len());
    assert!(text.lines().all(|line| line == agent.name), "{} reads {text:?}", agent.name);
}

fn tool_names(tool_list: &Value) -> BTreeSet<String> {
    tool_list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Pseudo-random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
