//! The tools for forks, as an agent calls them.

use serde_json::{Value, json};

use crate::common::TestDir;

/// An agent with forks, one without, and one that has two of the tools.
fn agents() -> TestDir {
    let dir = TestDir::empty();
    let mut config = "[stores.code]\nkind = \"virtual\"\n".to_owned();
    for (agent, key) in
        [("coder", "forks = true"), ("plain", ""), ("picky", "tools = [\"read_file\", \"diff_fork\"]")]
    {
        config += &format!(
            "[agents.{agent}]\n{key}\n[[agents.{agent}.workspaces]]\nprefix = \"/code\"\nscope = \"rw\"\nstore = \"code\"\n"
        );
    }
    dir.file("stead.toml", &config);
    dir
}

fn call(dir: &TestDir, agent: &str, tool: &str, arguments: Value) -> String {
    dir.run(["--agent", agent, "call", tool, &arguments.to_string()])
}

#[track_caller]
fn assert_has(output: &str, parts: &[&str]) {
    for part in parts {
        assert!(output.contains(part), "no {part:?} in {output}");
    }
}

#[test]
fn the_tools_for_forks_are_offered_where_the_configuration_says_so() {
    let dir = agents();
    let offered = |agent| {
        let output = dir.run(["--agent", agent, "tools"]);
        ["fork_workspace", "diff_fork", "update_fork", "merge_fork", "discard_fork"]
            .into_iter()
            .filter(|name| output.lines().any(|line| line.split_whitespace().next() == Some(*name)))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        offered("coder"),
        ["fork_workspace", "diff_fork", "update_fork", "merge_fork", "discard_fork"]
    );
    assert_eq!(offered("plain"), Vec::<&str>::new());
    assert_eq!(offered("picky"), ["diff_fork"]);
    let refused = call(&dir, "plain", "fork_workspace", json!({ "path": "/code", "name": "draft" }));
    assert_has(&refused, &["exit"]);
    assert_eq!(dir.run(["--agent", "plain", "forks"]), "");
}

#[test]
fn g32_diff_fork_shows_names_with_status_counts_diffs_and_renames() {
    let dir = agents();
    let coder = |tool: &str, arguments: Value| call(&dir, "coder", tool, arguments);
    for (path, content) in [("/code/a.txt", "one\ntwo\n"), ("/code/old.txt", "old\n"), ("/code/gone", "x\n")]
    {
        coder("write_file", json!({ "path": path, "content": content }));
    }
    assert_has(
        &coder("fork_workspace", json!({ "path": "/code", "name": "draft" })),
        &["/forks/draft", "merge_fork"],
    );
    assert_has(&coder("diff_fork", json!({ "fork": "draft" })), &["There are no differences."]);
    coder("edit_file", json!({ "path": "/forks/draft/a.txt", "old_string": "two", "new_string": "2" }));
    coder("move_file", json!({ "source": "/forks/draft/old.txt", "destination": "/forks/draft/new.txt" }));
    coder("delete_file", json!({ "path": "/forks/draft/gone" }));
    coder("write_file", json!({ "path": "/forks/draft/added", "content": "a\n" }));
    for output in [
        coder("diff_fork", json!({ "fork": "draft" })),
        dir.run(["--agent", "coder", "diff", "--fork", "draft"]),
    ] {
        assert_has(&output, &["a.txt", "-two", "+2", "old.txt", "new.txt", "added", "gone"]);
        assert!(!output.contains("-old"), "a rename is no removal: {output}");
    }
    let output = coder("diff_fork", json!({ "fork": "draft", "names_only": true }));
    assert_has(
        &output,
        &["changed /forks/draft/a.txt (+1 -1)", "moved /forks/draft/old.txt to /forks/draft/new.txt"],
    );
    assert_has(&output, &["removed /forks/draft/gone", "added /forks/draft/added (+1 -0)"]);
    assert!(!output.contains("+2"), "{output}");
}

#[test]
fn an_agent_forks_updates_merges_and_discards_with_tools_alone() {
    let dir = agents();
    let coder = |tool: &str, arguments: Value| call(&dir, "coder", tool, arguments);
    let read = |path: &str| coder("read_file", json!({ "path": path }));
    let edit = |path: &str, old: &str, new: &str| {
        read(path);
        coder("edit_file", json!({ "path": path, "old_string": old, "new_string": new }));
    };
    let text: String = (1..=9).map(|line| format!("line {line}\n")).collect();
    coder("write_file", json!({ "path": "/code/a.txt", "content": text }));
    coder("fork_workspace", json!({ "path": "/code", "name": "draft" }));
    edit("/forks/draft/a.txt", "line 2\n", "fork 2\n");
    edit("/code/a.txt", "line 8\n", "code 8\n");
    assert_has(&coder("merge_fork", json!({ "fork": "draft", "dry_run": true })), &["/code/a.txt"]);
    assert_has(&read("/code/a.txt"), &["line 2", "code 8"]);
    assert_has(&coder("merge_fork", json!({ "fork": "draft" })), &["The fork is merged."]);
    assert_has(&read("/code/a.txt"), &["fork 2", "code 8"]);
    assert_has(&coder("merge_fork", json!({ "fork": "draft" })), &["There was nothing to do."]);

    // The same line on both sides: nothing changes, and the update shows both in the fork.
    edit("/forks/draft/a.txt", "line 5\n", "fork 5\n");
    edit("/code/a.txt", "line 5\n", "code 5\n");
    let conflict = coder("merge_fork", json!({ "fork": "draft" }));
    assert_has(&conflict, &["Nothing was changed", "/code/a.txt", "content", "update_fork", "exit"]);
    assert_has(&read("/code/a.txt"), &["code 5"]);
    assert_has(&coder("update_fork", json!({ "fork": "draft" })), &["a.txt", "<<<<<<< target"]);
    assert_has(&coder("merge_fork", json!({ "fork": "draft" })), &["exit"]);
    let marked = read("/forks/draft/a.txt");
    assert_has(&marked, &["<<<<<<< target", "code 5", "||||||| base", "line 5", "fork 5", ">>>>>>> fork"]);
    edit(
        "/forks/draft/a.txt",
        "<<<<<<< target\ncode 5\n||||||| base\nline 5\n=======\nfork 5\n>>>>>>> fork\n",
        "both 5\n",
    );
    let merged = coder("merge_fork", json!({ "fork": "draft", "discard": true }));
    assert_has(&merged, &["merged and discarded"]);
    assert_has(&read("/code/a.txt"), &["both 5"]);
    assert_eq!(dir.run(["--agent", "coder", "forks"]), "");

    coder("fork_workspace", json!({ "path": "/code", "name": "second" }));
    coder("write_file", json!({ "path": "/forks/second/b.txt", "content": "b\n" }));
    assert_has(&coder("discard_fork", json!({ "fork": "second" })), &["discarded"]);
    assert_has(&read("/code/b.txt"), &["exit"]);
    assert_has(&coder("diff_fork", json!({ "fork": "second" })), &["exit"]);
}
