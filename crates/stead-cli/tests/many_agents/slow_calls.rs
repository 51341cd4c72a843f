//! Forty agents whose calls don't end: no other agent notices.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use crate::connection::{Connection, Era};
use crate::server::Server;

const AGENTS: usize = 40;
/// As many calls as one identity may run at a time.
const CALLS: usize = 8;

/// A directory that all of the agents write to, and notes of one more agent.
fn config() -> String {
    let mut text = String::from(
        r#"
        [stores.shared]
        kind = "physical"
        path = "shared"
        keep = false
        [stores.notes]
        kind = "virtual"
        [[agents.reader.workspaces]]
        prefix = "/notes"
        scope = "rw"
        store = "notes"
        "#,
    );
    for number in 0..AGENTS {
        text += &format!(
            "[[agents.slow{number}.workspaces]]\nprefix = \"/w\"\nscope = \"rw\"\nstore = \"shared\"\n"
        );
    }
    text
}

#[test]
fn many_slow_calls_of_many_agents_stall_neither_health_nor_cancellation_nor_another_agent() {
    let server =
        Server::launch_with(&config(), |directory| std::fs::create_dir(directory.join("shared")).unwrap());
    let tokens = server.tokens((0..AGENTS).map(|number| format!("slow{number}")));
    let reader = server.tokens(["reader".to_owned()]).remove(0);
    let mut reader = Connection::open(server.address, &reader, Era::NoSessions);
    reader.call("write_file", json!({ "path": "/notes/a", "content": "hello\n" }));
    let mut first = Connection::open(server.address, &tokens[0], Era::Sessions);
    first.call("write_file", json!({ "path": "/w/a", "content": "" }));

    // While the test holds this lock, no change of the directory can end.
    let lock_path = find(&server.path(".stead/physical"), "tree").unwrap();
    let lock = File::open(lock_path).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let mut connections = Vec::new();
    for token in &tokens {
        for call in 0..CALLS {
            let mut connection = Connection::open(server.address, token, Era::NoSessions);
            let arguments = json!({ "path": format!("/w/f{call}"), "content": "x" });
            connection.start_call("append_file", arguments);
            connections.push(connection);
        }
    }
    // One more call of the first agent, which has to wait behind its other calls.
    let waiting_id = first.start_call("append_file", json!({ "path": "/w/late", "content": "x" }));

    // Until no further call starts. All the while the health check answers.
    let (mut threads, mut unchanged) = (0, 0);
    while unchanged < 10 {
        assert_eq!(server.get("/healthz").0, 200);
        let count = server.threads();
        unchanged = if count == threads { unchanged + 1 } else { 0 };
        threads = count;
    }
    // The connections of the health checks may take a moment to close.
    server.wait_for_metric(&format!("stead_http_connections {}", AGENTS * CALLS + 3));
    for _ in 0..20 {
        let read = reader.call("read_file", json!({ "path": "/notes/a" }));
        assert_eq!(read["content"][0]["text"], "hello\n");
        reader.call("append_file", json!({ "path": "/notes/b", "content": "x" }));
    }
    let mut other = first.open_second();
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": waiting_id } });
    assert_eq!(other.notify(&cancelled), 202);
    server.wait_for_metric("stead_calls_total{tool=\"append_file\",outcome=\"cancelled\"} 1");

    // Once the lock is released, all of the calls end.
    drop(lock);
    for connection in &mut connections {
        connection.finish_call();
    }
    let file_count = std::fs::read_dir(server.path("shared")).unwrap().count();
    assert_eq!(file_count, 1 + CALLS, "the cancelled call must not create a file");
}

/// A file of that name, somewhere below a directory.
fn find(directory: &std::path::Path, name: &str) -> Option<std::path::PathBuf> {
    for entry in std::fs::read_dir(directory).ok()? {
        let path = entry.ok()?.path();
        if path.file_name().is_some_and(|found| found == name) {
            return Some(path);
        }
        if let Some(found) = find(&path, name) {
            return Some(found);
        }
    }
    None
}
