//! The canaries through the server: files as resources, and the server's own texts.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::world::{Asked, PATHS, World, check, named};

struct Client {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
}

impl Client {
    fn request(&mut self, method: &str, params: Value) -> String {
        self.last += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        writeln!(self.to, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the server has ended");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == self.last {
                return line;
            }
        }
    }
}

#[test]
fn no_resource_tells_of_what_is_withheld() {
    let world = World::new(Asked::ByAgent);
    let mut child = world.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut client = Client { to, from, last: 0 };
    let began = client.request(
        "initialize",
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }),
    );
    check("initialize", began.as_bytes());
    writeln!(client.to, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
    for method in ["resources/list", "resources/templates/list", "tools/list", "prompts/list"] {
        check(method, client.request(method, json!({})).as_bytes());
    }
    let map = client.request("resources/read", json!({ "uri": "stead://map" }));
    check("map", map.as_bytes());
    for path in PATHS.iter().map(ToString::to_string).chain(named()) {
        for method in ["resources/read", "resources/subscribe"] {
            let told = client.request(method, json!({ "uri": format!("stead://{path}") }));
            check(&format!("{method} {path}"), told.as_bytes());
        }
    }
    drop(client);
    child.wait().unwrap();
}
