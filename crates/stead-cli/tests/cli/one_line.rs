//! `stead mcp DIR...`: what an agent does there, a person sees and undoes with the same commands.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::common::{TestDir, output_text};
use crate::serving::Launched;

/// Serves the directories to a client that writes `text` to `path`, and returns what the server said on stderr.
fn serve_and_write(dir: &TestDir, args: &[&str], path: &str, text: &str) -> String {
    let mut server = Launched::new(dir.command([&["mcp"], args].concat()));
    server.initialize();
    let result = server.call("write_file", json!({ "path": path, "content": text }));
    assert_eq!(result["isError"], false, "{result}");
    server.stop_and_read_stderr()
}

/// Runs the binary in a directory below.
fn run_in(dir: &TestDir, directory: &str, args: &[&str]) -> String {
    let mut command = dir.command(args.iter().copied());
    text_of(command.current_dir(dir.path(directory)))
}

fn text_of(command: &mut Command) -> String {
    // With another directory than the test's, so that paths of the host may appear.
    output_text(&command.output().unwrap(), "no such path".as_ref())
}

#[test]
fn a_person_undoes_what_an_agent_did_in_a_directory() {
    let dir = TestDir::empty();
    dir.file("code/project/a.txt", "old\n");
    dir.file("code/project/src/deep/x", "");
    let stderr = serve_and_write(&dir, &["code/project:rw"], "/project/a.txt", "new\n");
    assert_eq!(
        stderr,
        "stead: to undo what the agent changes: `stead -C ~/dir/code/project undo` (`log`, `diff` and `audit` show it)\n"
    );
    // From anywhere with `-C`, and from inside without it; no agent has to be named.
    let log = dir.run(["-C", "code/project", "log"]);
    assert!(log.contains("write_file") && log.contains("M /project/a.txt"), "{log}");
    assert_eq!(run_in(&dir, "code/project/src/deep", &["log"]), log);
    assert!(dir.run(["audit", "-C", "code/project"]).contains("write_file"));
    let difference = run_in(&dir, "code/project", &["diff", "/project", "1h"]);
    assert!(difference.contains("-old\n+new"), "{difference}");
    assert!(dir.run(["-C", "code/project", "undo"]).contains("reverted   /project/a.txt"));
    assert_eq!(fs::read_to_string(dir.path("code/project/a.txt")).unwrap(), "old\n");
    // Nothing of Stead's is in the directory.
    assert_eq!(fs::read_dir(dir.path("code/project")).unwrap().count(), 2);
    // Outside, there is no stead.
    assert!(run_in(&dir, "code", &["log"]).contains("there is no configuration here"));
}

#[test]
fn a_server_offers_no_undo_where_there_is_none() {
    let dir = TestDir::empty();
    dir.file("drop/a.txt", "old\n");
    let mut server = Launched::new(dir.command(["mcp", "drop"]));
    server.initialize();
    let stderr = server.stop_and_read_stderr();
    assert_eq!(stderr, "stead: to see what the agent does: `stead -C ~/dir/drop audit`\n");
    // What an agent may not read itself, the person can undo all the same.
    let stderr = serve_and_write(&dir, &["drop:wo"], "/drop/b.txt", "new\n");
    assert!(
        stderr.starts_with("stead: to undo what the agent changes: `stead -C ~/dir/drop undo`"),
        "{stderr}"
    );
    assert!(dir.run(["-C", "drop", "audit"]).contains("write_file"));
    assert!(dir.run(["-C", "drop", "log"]).contains("A /drop/b.txt"));
    assert!(dir.run(["-C", "drop", "diff", "/drop", "1h"]).contains("+new"));
    assert!(dir.run(["-C", "drop", "undo"]).contains("removed    /drop/b.txt"));
}

#[test]
fn the_history_tools_are_offered_to_the_agent() {
    let dir = TestDir::empty();
    dir.file("app/a", "1");
    let mut server = Launched::new(dir.command(["mcp", "app:rw"]));
    server.initialize();
    server.call("write_file", json!({ "path": "/app/a", "content": "2" }));
    assert_eq!(server.call("undo", json!({}))["isError"], false);
    assert_eq!(fs::read(dir.path("app/a")).unwrap(), b"1");
    let tools = server.request("tools/list", json!({}))["result"]["tools"].take();
    for name in ["undo", "list_versions"] {
        assert!(tools.as_array().unwrap().iter().any(|tool| tool["name"] == name), "{name}");
    }
    server.stop();
}

#[test]
fn the_same_directories_have_the_same_state_and_the_newest_scopes() {
    let dir = TestDir::empty();
    dir.file("app/a", "1");
    dir.file("notes/n", "1");
    serve_and_write(&dir, &["app:rw", "notes"], "/app/a", "2");
    // Another order and another scope.
    serve_and_write(&dir, &["notes:rw", "app"], "/notes/n", "2");
    let states = fs::read_dir(dir.path("../.local/state/stead")).unwrap();
    assert_eq!(states.count(), 1);
    let log = dir.run(["-C", "notes", "log"]);
    assert!(log.contains("/app/a") && log.contains("/notes/n"), "the history stays: {log}");
    let denied = dir.run(["-C", "app", "write", "/app/a", "3"]);
    assert!(denied.contains("READ_ONLY"), "{denied}");
    assert_eq!(dir.run(["-C", "app", "write", "/notes/n", "3"]), "! Wrote /notes/n");
}

#[test]
fn a_person_undoes_what_an_agent_did_before_a_server_with_a_narrower_scope() {
    let dir = TestDir::empty();
    dir.file("app/a", "1");
    dir.file("app/b", "1");
    let write = ("write_file", json!({ "path": "/app/b", "content": "2" }));
    for (scope, (tool, arguments)) in
        [("app:ro", write), ("app:wo", ("read_file", json!({ "path": "/app/b" })))]
    {
        serve_and_write(&dir, &["app:rw"], "/app/a", "2");
        let mut server = Launched::new(dir.command(["mcp", scope]));
        server.initialize();
        assert!(dir.run(["-C", "app", "undo"]).contains("reverted   /app/a"), "{scope}");
        assert_eq!(fs::read_to_string(dir.path("app/a")).unwrap(), "1");
        // The agent itself still has the scope that it was given.
        assert_eq!(server.call(tool, arguments)["isError"], true, "{scope}");
        server.stop();
        assert!(dir.run(["-C", "app", "call", "undo", "{}"]).contains("denied"), "{scope}");
    }
    serve_and_write(&dir, &["app:rw"], "/app/b", "2");
    serve_and_write(&dir, &["app:wo"], "/app/c", "3");
    assert!(dir.run(["-C", "app", "restore", "/app/b", "1h"]).contains("reverted   /app/b"));
}

#[test]
fn a_running_server_keeps_its_scopes_when_another_one_is_started() {
    let dir = TestDir::empty();
    dir.file("app/a", "1");
    let mut reader = Launched::new(dir.command(["mcp", "app"]));
    reader.initialize();
    let mut writer = Launched::new(dir.command(["mcp", "app:rw"]));
    writer.initialize();
    assert_eq!(writer.call("write_file", json!({ "path": "/app/a", "content": "2" }))["isError"], false);
    // Longer than a server needs to notice a changed configuration.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(reader.call("read_file", json!({ "path": "/app/a" }))["content"][0]["text"], "2");
    assert_eq!(reader.call("write_file", json!({ "path": "/app/a", "content": "3" }))["isError"], true);
    assert!(!reader.stop_and_read_stderr().contains("configuration"));
    writer.stop();
}

#[test]
fn each_agent_has_its_own_scopes_and_then_a_command_names_one() {
    let dir = TestDir::empty();
    dir.file("app/a", "1");
    serve_and_write(&dir, &["app:rw"], "/app/a", "2");
    let stderr = {
        let mut server = Launched::new(dir.command(["mcp", "--agent", "reviewer", "app"]));
        server.initialize();
        server.stop_and_read_stderr()
    };
    assert!(stderr.contains(" audit --agent reviewer`"), "{stderr}");
    let message = dir.run(["-C", "app", "undo"]);
    assert!(message.contains("choose one with --agent: `agent`, `reviewer`"), "{message}");
    assert!(dir.run(["-C", "app", "undo", "--agent", "agent"]).contains("reverted   /app/a"));
    assert!(dir.run(["-C", "app", "write", "--agent", "reviewer", "/app/a", "x"]).contains("READ_ONLY"));
}

#[test]
fn where_several_steads_have_a_directory_they_are_listed() {
    let dir = TestDir::empty();
    for name in ["app", "docs", "notes"] {
        dir.file(&format!("{name}/a"), "1");
    }
    serve_and_write(&dir, &["app:rw", "docs"], "/app/a", "2");
    let stderr = serve_and_write(&dir, &["app:rw", "notes"], "/app/a", "3");
    // `-C app` would mean either, so the line names the other directory.
    assert!(stderr.contains("/notes undo`"), "{stderr}");
    let message = run_in(&dir, "app", &["undo"]);
    assert!(
        message.starts_with("! stead: several steads have this directory; choose one of them:"),
        "{message}"
    );
    assert!(message.ends_with("exit 2"), "{message}");
    // Each line is a command, and works.
    let files: Vec<_> = message.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    let files: Vec<_> = files.into_iter().filter(|file| file.ends_with("stead.toml")).collect();
    assert_eq!(files.len(), 2, "{message}");
    for file in files {
        assert!(run_in(&dir, "app", &["--config", file, "log"]).contains("/app/a"));
    }
    assert!(dir.run(["-C", "docs", "log"]).contains("/app/a"));
}

#[test]
fn a_stead_toml_in_the_directory_wins_and_the_server_says_the_command_that_works() {
    let dir = TestDir::empty();
    dir.file("app/a", "1");
    assert!(dir.command(["-C", "app", "init"]).output().unwrap().status.success());
    let stderr = serve_and_write(&dir, &["app:rw"], "/app/a", "2");
    let file = stderr.split("stead --config ").nth(1).unwrap().split(' ').next().unwrap();
    let file = file.replace("~/", dir.path("../").to_str().unwrap());
    assert!(run_in(&dir, "app", &["ls"]).contains("project/"));
    assert!(run_in(&dir, "app", &["--config", &file, "undo"]).contains("reverted   /app/a"));
}

#[test]
fn a_directory_that_is_gone_is_explained() {
    let dir = TestDir::empty();
    dir.file("app/a", "1");
    serve_and_write(&dir, &["app:rw"], "/app/a", "2");
    fs::rename(dir.path("app"), dir.path("moved")).unwrap();
    let gone = dir.run(["-C", "app", "log"]);
    assert!(gone.contains("`app` doesn't exist any more. Stead still has its history"), "{gone}");
    assert!(gone.ends_with("exit 2"), "{gone}");
    let served = dir.run(["mcp", "app:rw"]);
    assert!(served.contains("`app` can't be used any more (if it was moved: move it back"), "{served}");
    let never = dir.run(["-C", "never", "log"]);
    assert_eq!(never, "! stead: can't change to the directory `never`: it doesn't exist\nexit 2");
    fs::rename(dir.path("moved"), dir.path("app")).unwrap();
    assert!(dir.run(["-C", "app", "undo"]).contains("reverted   /app/a"));
}

#[test]
fn a_directory_that_is_hidden_by_default_is_served_with_a_warning() {
    let dir = TestDir::empty();
    dir.file(".ssh/config", "");
    let mut server = Launched::new(dir.command(["mcp", "--quiet", ".ssh"]));
    server.initialize();
    let stderr = server.stop_and_read_stderr();
    assert!(
        stderr.contains("stead: warning: `") && stderr.contains("/.ssh` is served, although"),
        "{stderr}"
    );
    let refused = dir.run(["mcp", ".ssh:rx"]);
    assert!(refused.contains("`.ssh:rx` doesn't exist; to serve `.ssh`, write `.ssh:ro`"), "{refused}");
}

#[test]
fn a_damaged_database_of_a_stead_that_was_found_names_its_configuration() {
    let dir = TestDir::empty();
    dir.file("app/a", "1");
    serve_and_write(&dir, &["app:rw"], "/app/a", "2");
    let states = dir.path("../.local/state/stead").canonicalize().unwrap();
    let state = fs::read_dir(states).unwrap().next().unwrap().unwrap().path();
    fs::write(state.join(".stead/stead.db"), "no database at all".repeat(1_000)).unwrap();
    let failed = run_in(&dir, "app", &["log"]);
    let line = format!("stead: the configuration in use is `{}`", state.join("stead.toml").display());
    assert!(failed.contains(&line), "{failed}");
    // Where the user has named the file, it isn't repeated.
    let file = state.join("stead.toml");
    let named = text_of(&mut dir.command(["--config", file.to_str().unwrap(), "log"]));
    assert!(!named.contains("the configuration in use"), "{named}");
}

#[test]
fn a_thread_and_a_directory_can_be_given_to_every_command() {
    let dir = TestDir::new();
    dir.file("sub/x", "");
    assert_eq!(dir.run(["write", "/notes/a", "1", "--thread", "t5"]), "! Created /notes/a");
    assert!(dir.run(["--thread", "t5", "log"]).contains("coder/t5"));
    assert_eq!(dir.run(["audit", "--thread", "t6"]), "! No records match.");
    assert!(dir.run(["audit", "--thread", "t5"]).contains("coder/t5"));
    // Upward from below; and `-C` of `grep` is the number of lines, as in grep.
    assert_eq!(dir.run(["-C", "sub", "cat", "/notes/a"]), "1");
    assert_eq!(dir.run(["cat", "/notes/a", "-C", "sub"]), "1");
    assert_eq!(dir.run(["-C", "sub", "grep", "-C", "0", "1", "/notes"]), "/notes/a:1:1");
    assert_eq!(dir.run(["grep", "1", "/notes", "--directory", "sub"]), "/notes/a:1:1");
}
