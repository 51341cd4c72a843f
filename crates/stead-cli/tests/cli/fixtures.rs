//! The fixtures of the conformance suite are in its build, and in no other.

use serde_json::{Value, json};

use crate::common::TestDir;
use crate::serving::Launched;

#[test]
fn only_the_build_for_the_conformance_suite_has_its_fixtures() {
    let dir = TestDir::new();
    let mut server = Launched::new(dir.command(["mcp"]));
    let info = server.initialize()["result"].take();
    let has_fixtures = cfg!(feature = "conformance");
    for (method, list, key) in [
        ("tools/list", "tools", "name"),
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ] {
        let answer = server.request(method, json!({}));
        let entries = answer["result"][list].as_array().unwrap();
        assert!(!entries.is_empty(), "{method}");
        let is_fixture = |entry: &Value| entry[key].as_str().unwrap().starts_with("test");
        assert_eq!(entries.iter().any(is_fixture), has_fixtures, "{method}");
    }
    for capability in ["logging", "completions"] {
        assert_eq!(info["capabilities"].get(capability).is_some(), has_fixtures, "{capability}");
    }
    let reply = server.request("tools/call", json!({ "name": "test_simple_text", "arguments": {} }));
    assert_eq!(reply.get("error").is_none(), has_fixtures, "{reply}");
    let read = server.request("resources/read", json!({ "uri": "test://static-text" }));
    assert_eq!(read.get("error").is_none(), has_fixtures, "{read}");
    server.stop();
}
