//! Traces arrive at a collector: with the tool, the agent and the outcome, and without anything that was read.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

#[test]
fn a_tool_call_is_a_span_at_the_collector() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let received = std::thread::spawn(move || {
        let (mut stream, _) = collector.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut headers, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            headers.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        (headers, String::from_utf8_lossy(&body).into_owned())
    });

    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("docs")).unwrap();
    std::fs::write(directory.path().join("docs").join("a.md"), "a secret line\n").unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_stead"))
        .args(["mcp", "docs"])
        .current_dir(&directory)
        .env("XDG_STATE_HOME", directory.path().join("state"))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) =
        (server.stdin.take().unwrap(), BufReader::new(server.stdout.take().unwrap()));
    let mut request = |method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(input, "{message}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let client = json!({ "name": "test", "version": "1" });
    request(
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
    );
    let read = json!({ "name": "read_file", "arguments": { "path": "/docs/a.md" } });
    assert_eq!(request("tools/call", read)["result"]["isError"], false);
    drop(input);
    assert!(server.wait().unwrap().success());

    let (headers, body) = received.join().unwrap();
    assert!(headers.starts_with("POST /v1/traces "), "{headers}");
    for part in ["tool call", "read_file", "outcome", "ok"] {
        assert!(body.contains(part), "{part}: {body}");
    }
    for part in ["secret", "a.md"] {
        assert!(!body.contains(part), "{part}: {body}");
    }
}
