//! What an agent is told and offered, and its tools used from the command line.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::common::TestDir;

fn call_all(dir: &TestDir, calls: &[Value]) -> Vec<Value> {
    let input: String = calls.iter().map(|call| format!("{call}\n")).collect();
    let output = dir.run_with_input(["call", "--lines"], input.as_bytes());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_line_of_call_has_the_forks_of_that_time() {
    for kind in ["virtual", "physical"] {
        let path = if kind == "physical" { "path = \"host\"\n" } else { "" };
        let workspace = "[[agents.a.workspaces]]\nprefix = \"/w\"\nstore = \"s\"\nscope = \"rw\"\n";
        let config = format!("[stores.s]\nkind = \"{kind}\"\n{path}[agents.a]\nforks = true\n{workspace}");
        let dir = TestDir::empty();
        dir.file("host/kept", "");
        dir.file("stead.toml", &config);
        let call = |tool: &str, arguments: Value| json!({ "tool": tool, "arguments": arguments });
        let replies = call_all(
            &dir,
            &[
                call("write_file", json!({ "path": "/w/n", "content": "1" })),
                call("fork_workspace", json!({ "path": "/w", "name": "k1" })),
                call("read_file", json!({ "path": "/forks/k1/n" })),
                call("discard_fork", json!({ "fork": "k1" })),
                call("read_file", json!({ "path": "/forks/k1/n" })),
            ],
        );
        let failed: Vec<_> = replies.iter().map(|reply| reply["isError"] == true).collect();
        assert_eq!(failed, [false, false, false, false, true], "{kind}: {replies:?}");
    }
}

#[test]
fn the_map_lists_the_workspaces() {
    let dir = TestDir::new();
    assert_snapshot!(dir.run(["map"]), @r##"
    # Filesystem Map

    Your files are in these Workspaces. Paths are absolute; a path outside them is denied. The longest prefix decides.

    - /notes: READ_WRITE (RW). notes and drafts. Some names are hidden. Read-only: .git/hooks/**, .git/config and 8 more
    - /project: READ_ONLY (RO). the project, to read. Some names are hidden
    "##);
    let json: Value = serde_json::from_slice(&dir.stead(["map", "--json"]).stdout).unwrap();
    assert!(json["map"].as_str().unwrap().starts_with("# Filesystem Map\n"));
}

#[test]
fn the_tools_have_stable_schemas() {
    let dir = TestDir::new();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    let config = config.replacen("[agents.coder]\n", "[agents.coder]\nhistory = true\n", 1);
    dir.file("stead.toml", &config);
    let output = dir.stead(["tools", "--json"]);
    let tools: Value = serde_json::from_slice(&output.stdout).unwrap();
    // A change here changes what every agent is told: review it carefully.
    assert_snapshot!("schemas", serde_json::to_string_pretty(&tools).unwrap());
    assert_snapshot!(dir.run(["tools", "delete_file"]), @r##"
    delete_file
      Deletes a file or a symlink; for a directory use delete_directory.
        path (a path, such as "/notes/plan.md"): The path.
        force (true or false, optional): No error if it is missing.
        if_match (a version tag, as a read returned it, optional): Only if the file still has this version_tag.
    "##);
    assert_snapshot!(dir.run(["tools", "execute"]), @r##"
    ! stead: the agent has no tool `execute`; `stead tools` lists its tools
    exit 1
    "##);
}

#[test]
fn a_tool_can_be_called_from_the_command_line() {
    let dir = TestDir::new();
    assert_snapshot!(dir.run(["call", "read_file", r#"{"path": "/project/README.md"}"#]), @r##"
    # Hello
    The quick brown fox.
    "##);
    assert_snapshot!(dir.run(["call", "write_file", r#"{"path": "/project/x", "content": ""}"#]), @r##"
    ! denied: `/project/x` is in the Workspace `/project`, which is READ_ONLY: writing is not allowed there; you may write in `/notes`
    exit 1
    "##);
    assert_snapshot!(dir.run(["call", "write_file", r#"{"path": "/notes/x", "content": "1"}"#]), @"Created /notes/x (1 byte). [version_tag 686a5ce65cf9]");
    assert_snapshot!(dir.run(["call", "write_file", r#"{"path": "/notes/x"}"#]), @r##"
    ! invalid: `write_file` needs the parameter `content`: a string
    exit 1
    "##);
    assert_snapshot!(dir.run(["call", "execute_command"]), @r##"
    ! denied: you have no tool `execute_command`; your tools are `append_file`, `copy_file`, `create_directory`, `delete_directory`, `delete_file`, `edit_file`, `glob`, `grep`, `list_directory`, `move_file`, `read_file`, `read_many`, `stat`, `write_file`
    exit 1
    "##);
    assert_snapshot!(dir.run(["call", "read_file", "[1]"]), @r##"
    ! stead: the arguments aren't a JSON object such as {"path": "/"}: invalid type: sequence, expected a map at line 1 column 0
    exit 2
    "##);
    let output = dir
        .run_with_input(["call", "append_file", "-", "--json"], br#"{"path": "/notes/x", "content": "2"}"#);
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reply["content"], json!([{ "type": "text", "text": "Appended 1 byte to /notes/x." }]));
    assert_eq!(reply["isError"], false);
    assert_eq!(reply["structuredContent"]["path"], "/notes/x");
    let output = dir.stead(["call", "stat", r#"{"path": "/notes/none"}"#, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reply["isError"], true);
    assert_eq!(reply["structuredContent"]["error"]["code"], "not_found");
}

#[test]
fn many_calls_in_one_process_are_answered_line_by_line() {
    let dir = TestDir::new();
    let write = json!({ "tool": "write_file", "arguments": { "path": "/notes/a", "content": "one" } });
    let edit = json!({
        "tool": "edit_file",
        "arguments": { "path": "/notes/a", "old_string": "one", "new_string": "two" },
    });
    let nonsense = json!({ "tool": "stat", "argument": {} });
    let read = json!({ "tool": "read_file", "arguments": { "path": "/notes/a" } });
    let replies = call_all(&dir, &[write, edit, nonsense, read]);
    let texts: Vec<_> = replies.iter().map(|reply| reply["content"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts[..2], ["Created /notes/a (3 bytes).", "Made 1 replacement in /notes/a:\n1\ttwo\n"]);
    assert!(texts[2].contains("unknown field `argument`"), "{}", texts[2]);
    assert_eq!(texts[3], "two");
    // Each call is on record as a call of that tool, in the thread that was named.
    let call = [r#"{"path": "/notes/a"}"#, "--thread", "t7"];
    assert!(dir.stead(["call", "read_file"].into_iter().chain(call)).status.success());
    let audit = String::from_utf8(dir.stead(["audit", "--json"]).stdout).unwrap();
    let records: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<_> = records.iter().map(|record| record["call"].as_str().unwrap_or_default()).collect();
    assert!(calls.contains(&"write_file") && calls.contains(&"edit_file"), "{calls:?}");
    assert!(records.iter().any(|record| record["thread"] == "t7" && record["call"] == "read_file"));
}

#[test]
fn a_line_that_is_too_long_is_answered_once() {
    let dir = TestDir::new();
    let stat = r#"{"tool":"stat","arguments":{"path":"/notes"}}"#;
    let input = [stat, &"x".repeat(65 << 20), stat, ""].join("\n");
    let output = dir.run_with_input(["call", "--lines"], input.as_bytes());
    let text = String::from_utf8(output.stdout).unwrap();
    let replies: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let failed: Vec<_> = replies.iter().map(|reply| reply["isError"].clone()).collect();
    assert_eq!(failed, [false, true, false], "{text}");
}

#[test]
fn an_agent_undoes_and_restores_its_own_changes() {
    let dir = TestDir::new();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    dir.file("stead.toml", &config.replacen("[agents.coder]\n", "[agents.coder]\nhistory = true\n", 1));
    let write = |content: &str| json!({ "tool": "write_file", "arguments": { "path": "/notes/a", "content": content } });
    let replies = call_all(
        &dir,
        &[
            write("one"),
            json!({ "tool": "snapshot", "arguments": { "label": "first" } }),
            write("two"),
            json!({ "tool": "list_versions", "arguments": { "path": "/notes/a" } }),
            json!({ "tool": "undo" }),
            json!({ "tool": "read_file", "arguments": { "path": "/notes/a" } }),
            write("three"),
            json!({ "tool": "read_version", "arguments": { "path": "/notes/a", "version": "first" } }),
            json!({ "tool": "restore", "arguments": { "path": "/notes", "snapshot": "first", "dry_run": true } }),
            json!({ "tool": "restore", "arguments": { "path": "/notes", "snapshot": "first" } }),
            json!({ "tool": "read_file", "arguments": { "path": "/notes/a" } }),
            json!({ "tool": "read_version", "arguments": { "path": "/notes/a", "version": "none" } }),
            json!({ "tool": "snapshot", "arguments": { "label": "first" } }),
        ],
    );
    let text = |index: usize| replies[index]["content"][0]["text"].as_str().unwrap();
    assert!(text(1).ends_with("is saved as the snapshot first."), "{}", text(1));
    assert_eq!(replies[3]["structuredContent"]["count"], 2);
    assert!(text(4).starts_with("Undone.\noperation "), "{}", text(4));
    assert!(text(4).ends_with("reverted /notes/a"), "{}", text(4));
    assert_eq!((text(5), text(7)), ("one", "one"));
    assert!(text(8).starts_with("This is what would be done:"), "{}", text(8));
    assert_eq!(replies[8]["structuredContent"]["done"], false);
    assert_eq!(replies[9]["structuredContent"]["done"], true);
    assert_eq!(text(10), "one");
    assert_eq!(replies[11]["structuredContent"]["error"]["code"], "not_found");
    assert_eq!(replies[12]["structuredContent"]["error"]["code"], "already_exists");
}

#[test]
fn errors_in_the_choice_of_tools_are_reported_with_their_lines() {
    let dir = TestDir::new();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    let invalid =
        "[agents.coder]\ntools = [\"read_file\", \"wrte_file\"]\nask = [\"rm\"]\nhistory = \"yes\"\n";
    dir.file("stead.toml", &config.replacen("[agents.coder]\n", invalid, 1));
    assert_snapshot!(dir.run(["config", "check"]), @r##"
    stead.toml:20:23: there is no tool `wrte_file`; did you mean `write_file`?
    stead.toml:21:8: there is no tool `rm`; there are `append_file`, `copy_file`, `create_directory`, `delete_directory`, `delete_file`, `diff_fork`, `discard_fork`, `edit_file`, `fork_workspace`, `glob`, `grep`, `list_directory`, `list_versions`, `merge_fork`, `move_file`, `read_file`, `read_many`, `read_version`, `restore`, `snapshot`, `stat`, `state_delete`, `state_get`, `state_list`, `state_set`, `undo`, `update_fork`, `workspace` and `write_file`
    stead.toml:22:11: `history` has to be true or false, not text
    exit 2
    "##);
}
