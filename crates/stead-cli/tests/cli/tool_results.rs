//! What a host passes on to its model: the answers of the real binary, as they are on the wire.

use serde_json::{Value, json};

use crate::common::{TestDir, error_code};
use crate::serving::Launched;

fn start_server(dir: &TestDir, args: &[&str]) -> Launched {
    let mut command = dir.command(args.iter().copied());
    command.env("XDG_STATE_HOME", dir.path("state"));
    let mut server = Launched::new(command);
    server.initialize();
    server
}

fn prepared_dir() -> TestDir {
    let dir = TestDir::empty();
    dir.file("app/readme.md", "# Hello\nThe quick brown fox.\n");
    dir.file("app/long.txt", &"a line of text\n".repeat(1_000));
    dir.file("handbook/style.md", "Write small functions.\n");
    dir
}

/// The only text of an answer. Fails if the answer has anything else.
fn text(result: &Value) -> &str {
    let keys: Vec<_> = result.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["content", "isError"], "{result}");
    let content = result["content"].as_array().unwrap();
    assert_eq!(content.len(), 1, "{result}");
    content[0]["text"].as_str().unwrap()
}

#[test]
fn answers_are_text_whatever_the_tool_did() {
    let dir = prepared_dir();
    let mut server = start_server(&dir, &["mcp", "app:rw", "handbook"]);
    let listed = server.call("list_directory", json!({ "path": "/app" }));
    assert!(text(&listed).starts_with("long.txt\t15000\t20"), "{listed}");
    assert!(text(&listed).lines().all(|line| line.split('\t').count() == 3 && line.len() < 40), "{listed}");
    let read = server.call("read_file", json!({ "path": "/app/long.txt" }));
    assert!(text(&read).contains("\n[more: offset 801; version_tag "), "{read}");
    let style = server.call("read_file", json!({ "path": "/handbook/style.md" }));
    assert_eq!(text(&style), "Write small functions.\n");
    let edit = json!({ "path": "/app/readme.md", "old_string": "quick", "new_string": "slow" });
    let edited = server.call("edit_file", edit);
    let (message, tag) = text(&edited).split_once("[version_tag ").unwrap();
    assert_eq!(message, "Made 1 replacement in /app/readme.md:\n1\t# Hello\n2\tThe slow brown fox.\n");
    let write = |tag: &str| json!({ "path": "/app/readme.md", "content": "none", "if_match": tag });
    assert_eq!(error_code(&server.call("write_file", write("0123456789ab"))), "conflict");
    assert_eq!(server.call("write_file", write(tag.trim_end_matches(']')))["isError"], false);
    assert_eq!(
        error_code(&server.call("write_file", json!({ "path": "/handbook/x", "content": "" }))),
        "denied"
    );
    assert_eq!(error_code(&server.call("read_file", json!({ "path": "/app/none" }))), "not_found");
    assert_eq!(
        error_code(&server.call("read_file", json!({ "path": "/app/readme.md", "colour": 1 }))),
        "invalid"
    );
    server.stop();
}

#[test]
fn a_file_of_another_encoding_is_read_and_edited_like_any_other() {
    let dir = prepared_dir();
    std::fs::write(dir.path("app/latin.txt"), b"gr\xfcn\r\nrot\r\n").unwrap();
    let mut server = start_server(&dir, &["mcp", "app:rw"]);
    let missing = server.call("read_file", json!({ "path": "/app/latn.txt" }));
    assert_eq!(text(&missing), "`/app/latn.txt` does not exist; did you mean `/app/latin.txt`? [not_found]");
    let read = server.call("read_file", json!({ "path": "/app/latin.txt", "line_numbers": "true" }));
    assert!(text(&read).starts_with("1\tgrün\r\n2\trot\r\n[encoding windows-1252; version_tag "), "{read}");
    let more_edits = json!([{ "old_string": "grün", "new_string": "grau" }]);
    let edit = json!({
        "path": "/app/latin.txt", "old_string": "rot", "new_string": "weiß", "more_edits": more_edits,
    });
    let edited = server.call("edit_file", edit.clone());
    assert!(text(&edited).contains(":\n1\tgrau\n2\tweiß\n[version_tag "), "{edited}");
    assert_eq!(std::fs::read(dir.path("app/latin.txt")).unwrap(), b"grau\r\nwei\xdf\r\n");
    assert_eq!(error_code(&server.call("edit_file", edit)), "invalid");
    server.stop();
}

#[test]
fn programs_can_request_structured_results() {
    let dir = prepared_dir();
    let mut server = start_server(&dir, &["mcp", "--structured", "app:rw"]);
    let read = server.call("read_file", json!({ "path": "/app/readme.md" }));
    assert_eq!(read["content"][0]["text"], "# Hello\nThe quick brown fox.\n");
    let tag = read["structuredContent"]["version_tag"].as_str().unwrap();
    let write = json!({ "path": "/app/readme.md", "content": "none", "if_match": tag });
    assert_eq!(server.call("write_file", write)["isError"], false);
    let missing = server.call("read_file", json!({ "path": "/app/none" }));
    assert_eq!(missing["structuredContent"]["error"]["code"], "not_found");
    server.stop();
}

/// Every conversation pays for these in each of its turns.
#[test]
fn tools_and_map_cost_at_most_3500_tokens() {
    let dir = prepared_dir();
    dir.file(
        "stead.toml",
        "[stores.app]\nkind = \"physical\"\npath = \"app\"\n[agents.coder]\nhistory = true\n\
         workspaces = [{ prefix = \"/app\", store = \"app\", scope = \"rw\" }]\n",
    );
    let mut server = Launched::new(dir.command(["mcp", "--agent", "coder"]));
    let map = server.initialize()["result"]["instructions"].as_str().unwrap().to_owned();
    let tools = server.request("tools/list", json!({}))["result"]["tools"].take();
    assert!(
        tools.as_array().unwrap().iter().any(|tool| tool["name"] == "undo"),
        "the history tools have to be counted, too"
    );
    server.stop();
    let o200k = tiktoken_rs::o200k_base().unwrap();
    let tokens = |text: &str| o200k.encode_ordinary(text).len();
    let (tools, map) = (tokens(&tools.to_string()), tokens(&map));
    assert!(tools + map <= 3_500, "{tools} for the tools and {map} for the map");
}
