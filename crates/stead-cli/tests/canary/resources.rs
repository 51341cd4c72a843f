//! The canaries through the server: files as resources, and the server's own texts.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::fixture::{Caller, Fixture, PATHS, canary_paths, check};

struct Client {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

impl Client {
    fn request(&mut self, method: &str, params: Value) -> String {
        self.last_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        writeln!(self.stdin, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the server has ended");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.last_id {
                return line;
            }
        }
    }
}

#[test]
fn no_resource_reveals_what_is_withheld() {
    let fixture = Fixture::new(Caller::Agent);
    let mut child = fixture.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut client = Client { stdin, stdout, last_id: 0 };
    let reply = client.request(
        "initialize",
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }),
    );
    check("initialize", reply.as_bytes());
    writeln!(client.stdin, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
    for method in ["resources/list", "resources/templates/list", "tools/list", "prompts/list"] {
        check(method, client.request(method, json!({})).as_bytes());
    }
    let map = client.request("resources/read", json!({ "uri": "stead://map" }));
    check("map", map.as_bytes());
    for path in PATHS.iter().map(ToString::to_string).chain(canary_paths()) {
        for method in ["resources/read", "resources/subscribe"] {
            let reply = client.request(method, json!({ "uri": format!("stead://{path}") }));
            check(&format!("{method} {path}"), reply.as_bytes());
        }
    }
    drop(client);
    child.wait().unwrap();
}
