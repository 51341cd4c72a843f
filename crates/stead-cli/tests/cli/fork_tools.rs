//! The tools for forks, as an agent calls them.

use serde_json::{Value, json};

use crate::common::TestDir;
use crate::forks::{contents, with_conflicts};

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

/// The results of calls in one process, which have to succeed.
fn call_all(dir: &TestDir, calls: &[Value]) -> Vec<Value> {
    let input: String = calls.iter().map(|call| format!("{call}\n")).collect();
    let output = dir.run_with_input(["call", "--lines"], input.as_bytes());
    let text = String::from_utf8(output.stdout).unwrap();
    let results: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (call, result) in calls.iter().zip(&results) {
        assert_ne!(result["isError"], true, "{call}: {result}");
    }
    assert_eq!(results.len(), calls.len());
    results
}

#[test]
fn g3_the_tools_do_in_a_fork_what_they_do_in_a_workspace() {
    for store in ["kind = \"virtual\"", "kind = \"physical\"\npath = \"files\""] {
        let dir = TestDir::empty();
        dir.file(
            "stead.toml",
            &format!(
                "[stores.code]\n{store}\n[agents.coder]\nforks = true\nhistory = true\n\
                 [[agents.coder.workspaces]]\nprefix = \"/code\"\nscope = \"rw\"\nstore = \"code\"\n"
            ),
        );
        std::fs::create_dir(dir.path("files")).unwrap();
        dir.run(["write", "/code/d/a.txt", "one\ntwo\n"]);
        dir.run(["write", "/code/d/b.txt", "two\n"]);
        dir.run(["write", "/code/old.txt", "old\n"]);
        dir.run(["fork", "/code", "draft"]);
        let shown = |top: &str| dir.run(["grep", "", top]).replace(top, "");
        let base = shown("/code");
        let work = |top: &str| {
            let path = |relative: &str| format!("{top}/{relative}");
            let label = &*format!("before{}", top.replace('/', "-"));
            let call = |tool: &str, arguments: Value| json!({ "tool": tool, "arguments": arguments });
            let calls = [
                call("append_file", json!({ "path": path("d/a.txt"), "content": "three\n" })),
                call("copy_file", json!({ "source": path("d"), "destination": path("copy") })),
                call("move_file", json!({ "source": path("old.txt"), "destination": path("new/name.txt") })),
                call("create_directory", json!({ "path": path("empty/deep") })),
                call("write_file", json!({ "path": path("w.txt"), "content": "written\n" })),
                call("glob", json!({ "path": top, "pattern": "**/*.txt" })),
                call("grep", json!({ "path": top, "pattern": "^t" })),
                call("list_directory", json!({ "path": path("copy") })),
                call("snapshot", json!({ "path": top, "label": label })),
                call("delete_directory", json!({ "path": path("copy"), "recursive": true })),
                call("delete_file", json!({ "path": path("new/name.txt") })),
                call("append_file", json!({ "path": path("d/a.txt"), "content": "four\n" })),
                call("read_file", json!({ "path": path("d/a.txt") })),
                call(
                    "restore",
                    json!({ "path": top, "snapshot": label, "paths": [path("copy"), path("d")] }),
                ),
                call("undo", json!({ "last": 1 })),
                call("undo", json!({ "last": 1 })),
                call("read_file", json!({ "path": path("d/a.txt") })),
            ];
            let results = call_all(&dir, &calls);
            let texts =
                results.iter().map(|result| result["content"][0]["text"].as_str().unwrap().trim_end());
            let text = texts.collect::<Vec<_>>().join("\n").replace(top, "").replace(label, "LABEL");
            without_times_and_ids(&format!("{text}\n\n{}", shown(top)))
        };
        insta::allow_duplicates! {
            for top in ["/forks/draft", "/code"] {
                insta::assert_snapshot!(work(top), @r"
                Appended 6 bytes to /d/a.txt.
                Copied /d to /copy.
                Moved /old.txt to /new/name.txt.
                Created /empty/deep.
                Created /w.txt (8 bytes).
                /copy/a.txt
                /copy/b.txt
                /d/a.txt
                /d/b.txt
                /new/name.txt
                /w.txt
                /copy/a.txt:2:two
                /copy/a.txt:3:three
                /copy/b.txt:1:two
                /d/a.txt:2:two
                /d/a.txt:3:three
                /d/b.txt:1:two
                a.txt	14	TIME
                b.txt	4	TIME
                The state at TIME is saved as the snapshot LABEL.
                Deleted /copy.
                Deleted /new/name.txt.
                Appended 5 bytes to /d/a.txt.
                one
                two
                three
                four
                Restored.
                restored /copy
                restored /copy/a.txt
                restored /copy/b.txt
                reverted /d/a.txt
                Undone.
                operation ID: restore at TIME
                removed /copy
                removed /copy/a.txt
                removed /copy/b.txt
                reverted /d/a.txt
                Undone.
                operation ID: append_file at TIME
                reverted /d/a.txt
                one
                two
                three

                /d/a.txt:1:one
                /d/a.txt:2:two
                /d/a.txt:3:three
                /d/b.txt:1:two
                /w.txt:1:written
                ");
                if top != "/code" {
                    assert_eq!(shown("/code"), base, "the base never changes");
                }
            }
        }
    }
}

/// The text without what differs from run to run.
fn without_times_and_ids(text: &str) -> String {
    let mask = |word: &str| {
        let end = word.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
        let masked = match end {
            _ if end.starts_with("20") && end.contains('T') => "TIME",
            _ if end.len() == 36 && end.matches('-').count() == 4 => "ID",
            _ => end,
        };
        format!("{masked}{}", &word[end.len()..])
    };
    text.split_inclusive(char::is_whitespace).map(mask).collect()
}

#[test]
fn g24_merge_fork_resolves_conflicts_with_a_side_for_all_or_for_globs_and_leaves_out() {
    let (target, fork) = ("target", "fork");
    for (choices, in_target, in_fork) in [
        (json!({ "take": "target" }), [target; 4], [target; 4]),
        (json!({ "take": "ours" }), [target; 4], [target; 4]),
        (json!({ "take": "fork" }), [fork; 4], [fork; 4]),
        (json!({ "take": "theirs" }), [fork; 4], [fork; 4]),
        (
            json!({ "take_fork": ["lib/**"], "take_target": ["/code/c", "d"] }),
            [fork, fork, target, target],
            [fork, fork, target, target],
        ),
        (
            json!({ "take": "theirs", "take_target": ["lib/b"], "leave_out": ["/forks/draft/c", "d"] }),
            [fork, target, target, target],
            [fork, target, fork, fork],
        ),
    ] {
        let dir = with_conflicts();
        let mut arguments = choices.clone();
        arguments["fork"] = json!("draft");
        let output = call(&dir, "coder", "merge_fork", arguments);
        assert!(!output.contains("exit "), "{choices}: {output}");
        assert_eq!(contents(&dir, "/code"), in_target, "{choices}");
        assert_eq!(contents(&dir, "/forks/draft"), in_fork, "{choices}");
        for (path, is_left_out) in [("/code/c", in_fork[2] != in_target[2]), ("/code/lib/a", false)] {
            assert_eq!(output.contains(&format!("left out {path}")), is_left_out, "{output}");
        }
    }
    let dir = with_conflicts();
    let some = call(&dir, "coder", "merge_fork", json!({ "fork": "draft", "take_fork": ["lib"] }));
    assert_has(&some, &["Nothing was changed", "conflict /code/c: content", "conflict /code/d", "exit"]);
    assert!(!some.contains("/code/lib"), "{some}");
    assert_eq!(contents(&dir, "/code"), [target; 4]);
    assert_eq!(contents(&dir, "/forks/draft"), [fork; 4]);
}

#[test]
fn g24_merge_fork_leaves_out_what_the_caller_may_not_see() {
    let dir = TestDir::empty();
    let mut config = "[stores.code]\nkind = \"virtual\"\n".to_owned();
    for (agent, hide) in [("coder", "[]"), ("lead", "[\"secret*\"]")] {
        config += &format!(
            "[agents.{agent}]\nforks = true\n[[agents.{agent}.workspaces]]\nprefix = \"/code\"\nscope = \"rw\"\n\
             store = \"code\"\nhide = {hide}\n"
        );
    }
    dir.file("stead.toml", &config);
    let write = |path: &str, content: &str| dir.run(["--agent", "coder", "write", path, content]);
    let shown =
        || ["open", "secret"].map(|name| dir.run(["--agent", "coder", "cat", &format!("/code/{name}")]));
    write("/code/open", "base\n");
    write("/code/secret", "base\n");
    dir.run(["--agent", "coder", "fork", "/code", "draft"]);
    write("/forks/draft/open", "fork\n");
    write("/forks/draft/secret", "fork\n");
    let lead = |choices: Value| {
        let mut arguments = json!({ "fork": "coder/draft" });
        arguments.as_object_mut().unwrap().extend(choices.as_object().unwrap().clone());
        call(&dir, "lead", "merge_fork", arguments)
    };
    for choices in [json!({}), json!({ "take": "fork" }), json!({ "leave_out": ["secret"] })] {
        let refused = lead(choices);
        assert_has(&refused, &["Nothing was changed", "refused /code:", "exit"]);
        assert!(!refused.contains("secret"), "{refused}");
        assert_eq!(shown(), ["base", "base"]);
    }
    let merged = lead(json!({ "leave_out_hidden": true, "discard": true }));
    assert_has(&merged, &["The fork is merged.", "left out what you may not see"]);
    assert!(!merged.contains("secret"), "{merged}");
    assert_eq!(shown(), ["fork", "base"]);
    // What was left out is in the fork, which is not discarded: neither by the tool nor by the command.
    assert_eq!(dir.run(["--agent", "coder", "cat", "/forks/draft/secret"]), "fork");
    let output = dir.run(["--agent", "lead", "merge", "coder/draft", "--leave-hidden", "--discard"]);
    assert_eq!(output, "left out   what the agent may not see\n! Nothing to merge.");
    assert_eq!(dir.run(["--agent", "coder", "cat", "/forks/draft/secret"]), "fork");
}

#[test]
fn g25_g28_an_agent_forks_updates_merges_and_discards_with_tools_alone() {
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
