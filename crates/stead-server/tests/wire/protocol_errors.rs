//! Mistakes of clients, and the protocol errors that answer them.

use std::sync::Arc;

use serde_json::json;
use stead_server::{LiveStead, ServerLimits};

use crate::client::{Client, modern};
use crate::eras::notes;

const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;

#[test]
fn an_unknown_tool_is_a_protocol_error() {
    let answer = Client::new(&notes()).request("tools/call", json!({ "name": "fly", "arguments": {} }));
    assert_eq!(answer["error"]["code"], INVALID_PARAMS, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("`read_file`"), "{answer}");
}

#[test]
fn wrong_arguments_are_a_tool_error_that_the_model_can_read() {
    let stead = notes();
    let mut client = Client::new(&stead);
    let mut modern_client = Client::uninitialized(Arc::new(LiveStead::new(&stead, ServerLimits::default())));
    for arguments in [
        json!({ "path": 7 }),
        json!({ "path": "/notes/plan.md", "colour": "red" }),
        json!({}),
        json!({ "path": ["/notes"] }),
        json!([]),
        json!("/notes/plan.md"),
        json!(7),
    ] {
        let params = json!({ "name": "read_file", "arguments": arguments });
        for answer in [
            client.request("tools/call", params.clone()),
            modern_client.request("tools/call", modern(params, json!({}))),
        ] {
            assert_eq!(answer["result"]["isError"], true, "{arguments}: {answer}");
            let text = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.ends_with(" [invalid]"), "{text}");
            assert_eq!(answer["result"]["content"].as_array().unwrap().len(), 1);
        }
    }
}

#[test]
fn an_error_about_a_resource_names_it() {
    let mut client = Client::new(&notes());
    for method in ["resources/read", "resources/subscribe"] {
        for uri in ["stead:///elsewhere/a", "test://nothing"] {
            let error = client.request(method, json!({ "uri": uri }))["error"].take();
            assert_eq!(error["data"]["uri"], uri, "{method}: {error}");
        }
    }
}

#[test]
fn methods_that_the_newer_protocol_lacks_are_not_found_whatever_their_parameters() {
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&notes(), ServerLimits::default())));
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        for params in [json!({}), json!({ "uri": "stead:///notes/plan.md" })] {
            let answer = client.request(method, modern(params, json!({})));
            assert_eq!(answer["error"]["code"], METHOD_NOT_FOUND, "{method}: {answer}");
        }
    }
}
