//! Invalid messages, and unusual ones that are valid.

use std::io::Write;
use std::sync::Arc;

use serde_json::json;
use stead_server::{LiveStead, ServerLimits};

use crate::client::Client;
use crate::eras::notes;

#[test]
fn invalid_messages_are_answered_with_an_error_and_do_no_harm() {
    let mut client = Client::new(&notes());
    let deeply_nested = [b"[".repeat(100_000), b"\n".to_vec()].concat();
    for (line, code) in [
        (&b"garbage\n"[..], -32700),
        (b"{\"jsonrpc\":\"2.0\",\n", -32700),
        (b"\xff\xfe\x00\x01\n", -32700),
        (&deeply_nested, -32700),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n", -32600),
        (b"{\"id\":{}}\n", -32600),
        (b"42\n", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}\n", -32700),
    ] {
        client.raw(line);
        let answer = client.receive();
        let line_start = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
        assert_eq!(answer["error"]["code"], code, "{line_start}: {answer}");
        assert!(answer["id"].is_null());
    }
    client.raw(b"\n\r\n   \n");
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_line_that_is_too_long_is_refused_while_it_is_read() {
    let mut client = Client::new(&notes());
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        client.raw(&piece);
    }
    client.raw(b"\n");
    let answer = client.receive();
    assert_eq!(answer["error"]["code"], -32600);
    assert!(answer["error"]["message"].as_str().unwrap().contains("16 MiB"), "{answer}");
    // A request that is too long is answered, even if its id comes last.
    client
        .raw(b"{\"method\":\"tools/call\",\"params\":{\"name\":\"write_file\",\"arguments\":{\"content\":\"");
    for _ in 0..17 {
        client.raw(&piece);
    }
    client.raw(b"\"}},\"jsonrpc\":\"2.0\",\"id\":77}\n");
    assert_eq!(client.answer(77)["error"]["code"], -32600);
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn wrong_parameters_are_answered_with_an_error() {
    let mut client = Client::new(&notes());
    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!({ "name": 1 })),
        ("tools/call", json!({ "name": "no tool", "arguments": [] })),
        ("resources/read", json!({ "path": "x" })),
        ("prompts/get", json!([])),
    ] {
        let answer = client.request(method, params.clone());
        assert_eq!(answer["error"]["code"], -32602, "{method} {params}: {answer}");
    }
}

#[test]
fn messages_before_the_first_request_are_ignored() {
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&notes(), ServerLimits::default())));
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    client.send(&json!({ "jsonrpc": "2.0", "id": 7, "result": {} }));
    assert!(client.initialize(json!({}))["result"].is_object());
}

#[test]
fn the_server_stops_reading_from_a_client_that_does_not_read_and_still_sends_all_answers() {
    let stead = notes();
    stead.vfs().write("/notes/large.txt", "line of some length\n".repeat(5_000)).unwrap();
    let mut client = Client::new(&stead);
    let mut writer = client.write.try_clone().unwrap();
    writer.set_write_timeout(None).unwrap();
    const REQUESTS: i64 = 2_000;
    let sender = std::thread::spawn(move || {
        for id in 0..REQUESTS {
            let request = json!({
                "jsonrpc": "2.0", "id": 10_000 + id, "method": "tools/call",
                "params": { "name": "read_file", "arguments": { "path": "/notes/large.txt" } },
            });
            writer.write_all(format!("{request}\n").as_bytes()).unwrap();
        }
    });
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert!(!sender.is_finished(), "the server must not read more requests than it can answer");
    let mut answered_ids = std::collections::BTreeSet::new();
    while answered_ids.len() < REQUESTS as usize {
        let answer = client.receive();
        assert_eq!(answer["result"]["isError"], false);
        assert!(answered_ids.insert(answer["id"].as_i64().unwrap()));
    }
    sender.join().unwrap();
}

#[test]
fn clients_that_disconnect_do_not_affect_others() {
    let live_stead = Arc::new(LiveStead::new(&notes(), ServerLimits::default()));
    let mut steady_client = Client::uninitialized(Arc::clone(&live_stead));
    steady_client.initialize(json!({}));
    for _ in 0..50 {
        let mut leaving_client = Client::uninitialized(Arc::clone(&live_stead));
        leaving_client.initialize(json!({}));
        for _ in 0..10 {
            leaving_client.send_request(
                "tools/call",
                json!({ "name": "read_file", "arguments": { "path": "/notes/plan.md" } }),
            );
        }
        leaving_client.raw(b"{\"jsonrpc\":\"2.0\",\"id\":");
    }
    assert_eq!(steady_client.call("read_file", json!({ "path": "/notes/plan.md" }))["isError"], false);
}

#[test]
fn a_request_with_the_id_of_a_running_request_does_not_run() {
    let stead = notes();
    let mut client = Client::new(&stead);
    let append = |id: i64| {
        let params = json!({ "name": "append_file", "arguments": { "path": "/notes/log", "content": "x" } });
        format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    };
    client.raw([append(77), append(77), append(77), append(78)].concat().as_bytes());
    let answers: Vec<_> = (0..4).map(|_| client.receive()).collect();
    let applied = answers.iter().filter(|answer| answer["result"]["isError"] == false).count();
    let refused =
        answers.iter().filter(|answer| answer["id"] == 77 && answer["error"]["code"] == -32600).count();
    assert!(applied >= 2 && applied + refused == 4, "{answers:?}");
    // A request with the same id that came after the first was answered is a new request.
    assert_eq!(stead.vfs().read("/notes/log").unwrap().bytes.len(), applied);
}

#[test]
fn a_message_without_the_right_jsonrpc_version_is_refused() {
    let mut client = Client::new(&notes());
    for version in [json!(null), json!("1.0")] {
        client.send(&json!({ "jsonrpc": version, "id": 5, "method": "tools/list" }));
        let answer = client.answer(5);
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("jsonrpc"), "{answer}");
    }
}
