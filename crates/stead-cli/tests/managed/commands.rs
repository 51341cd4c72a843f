//! `stead files`: every option does what it says.

use serde_json::{Value, json};

use crate::{CONFIG, Host};

/// Another agent of the Virtual Store's Workspace.
const HELPER: &str = r#"
[[agents.helper.workspaces]]
prefix = "/notes"
scope = "rw"
store = "notes"
managed = true
"#;

/// Runs `stead files` in a Workspace, and returns its document.
fn files(host: &Host, workspace: &str, arguments: &[&str]) -> Value {
    let common = ["--workspace", workspace, "--agent", "coder", "--json"];
    serde_json::from_str(&host.stdout(&[&["files"], arguments, &common].concat())).unwrap()
}

/// What `stead files` says when it refuses, and its exit code.
fn refusal(host: &Host, arguments: &[&str]) -> (String, Option<i32>) {
    let common = ["--workspace", "/notes", "--agent", "coder"];
    let output = host.run(&[&["files"], arguments, &common].concat());
    assert!(output.stdout.is_empty(), "{arguments:?}");
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

fn write(host: &Host, path: &str, agent: &str) {
    host.stdout(&["write", path, "x", "--agent", agent]);
}

fn paths(document: &Value) -> Vec<&str> {
    document["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect()
}

/// Says when a file was last written, for every Workspace that has it.
fn set_written(host: &Host, path: &str, day: &str) {
    let conn = rusqlite::Connection::open(host.0.path().join(".stead/stead.db")).unwrap();
    let time = format!("{day}T12:00:00.000Z");
    let sql = "UPDATE workspace_files SET modified_at = ?2 WHERE path = ?1";
    assert!(conn.execute(sql, [path, &time]).unwrap() > 0);
    host.age_on_disk(path);
}

#[test]
fn w50_to_w54_and_w56_and_w58_and_w93_every_filter_of_the_commands_is_applied() {
    let host = Host::new();
    std::fs::write(host.0.path().join("stead.toml"), format!("{CONFIG}{HELPER}")).unwrap();
    let [a, b, c, d] = ["/notes/code/a.py", "/notes/documents/b.md", "/notes/data/c.csv", "/notes/code/d.py"];
    for (path, agent, day, tags) in [
        (a, "coder", "2026-02-27", "important,draft"),
        (b, "coder", "2026-02-28", "port"),
        (c, "helper", "2026-03-01", "draft"),
        (d, "coder", "2026-03-02", "draft,port"),
    ] {
        write(&host, path, agent);
        set_written(&host, path.strip_prefix("/notes/").unwrap(), day);
        files(&host, "/notes", &["tag", path, tags]);
    }
    let filters: [(&[&str], &[&str]); 13] = [
        (&[], &[d, c, b, a]),
        (&["--category", "code"], &[d, a]),
        (&["--category", "images"], &[]),
        (&["--date", "2026-02-28"], &[b]),
        (&["--date", "2026-02"], &[b, a]),
        (&["--from", "2026-02-28"], &[d, c, b]),
        (&["--to", "2026-02-28"], &[b, a]),
        (&["--from", "2026-02-28", "--to", "2026-03-01"], &[c, b]),
        (&["--tag", "port"], &[d, b]),
        (&["--tag", "port", "--tag", "draft"], &[d]),
        (&["--tag", " draft , port "], &[d]),
        (&["--session", "helper"], &[c]),
        (&["--category", "code", "--tag", "draft", "--session", "coder", "--to", "2026-03-01"], &[a]),
    ];
    for (filter, expected) in filters {
        assert_eq!(paths(&files(&host, "/notes", &[&["list"], filter].concat())), expected, "{filter:?}");
        // Every path has this part.
        let found = files(&host, "/notes", &[&["search", "/"], filter].concat());
        assert_eq!(paths(&found), expected, "{filter:?}");
    }
    assert_eq!(paths(&files(&host, "/notes", &["search", "*.py"])), [d, a]);
    assert_eq!(paths(&files(&host, "/notes", &["search", "import"])), [a], "by tag");
    let nothing = files(&host, "/notes", &["search", "no such file"]);
    assert_eq!(
        nothing,
        json!({ "files": [], "offset": 0, "total": 0, "total_is_more": false, "unread": [] })
    );
    for command in [&["list"][..], &["search", "/"]] {
        let page = files(&host, "/notes", &[command, &["--limit", "2", "--offset", "1"]].concat());
        assert_eq!((paths(&page), &page["offset"], &page["total"]), (vec![c, b], &json!(1), &json!(4)));
        for limit in ["0", "201"] {
            let (text, code) = refusal(&host, &[command, &["--limit", limit]].concat());
            assert!(text.contains("1..=200") && code == Some(2), "{code:?}: {text}");
        }
        let (text, _) = refusal(&host, &[command, &["--category", "x"]].concat());
        assert!(text.contains("unknown file category: x"), "{text}");
        for name in ["--date", "--from", "--to"] {
            let (text, _) = refusal(&host, &[command, &[name, "soon"]].concat());
            assert!(text.contains("`soon` isn't a day"), "{name}: {text}");
        }
    }
    let (text, _) = refusal(&host, &["move", a, "x"]);
    assert!(text.contains("unknown file category: x"), "{text}");
}

#[test]
fn w74_the_tag_command_adds_removes_and_sets_tags() {
    let host = Host::new();
    for workspace in ["/notes", "/disk"] {
        let path = format!("{workspace}/code/a.py");
        write(&host, &path, "coder");
        let changes: [(&[&str], &[&str]); 5] = [
            (&["a", "b"], &["a", "b"]),
            (&["b", "c"], &["a", "b", "c"]),
            (&["--remove", "a", "c"], &["b"]),
            (&["--set", "d", "e"], &["d", "e"]),
            (&["--set"], &[]),
        ];
        for (arguments, expected) in changes {
            let tagged = files(&host, workspace, &[&["tag", &path], arguments].concat());
            assert_eq!(tagged["tags"], json!(expected), "{arguments:?}");
            assert_eq!(files(&host, workspace, &["info", &path])["tags"], json!(expected), "{arguments:?}");
        }
    }
}

#[test]
fn w68_and_w94_the_move_command_takes_a_category_and_a_new_name() {
    let host = Host::new();
    for workspace in ["/notes", "/disk"] {
        let mut path = format!("{workspace}/code/2026-02-27/a.py");
        write(&host, &path, "coder");
        for (target, expected) in [
            (&["--new-name", "b.py"][..], "code/2026-02-27/b.py"),
            (&["data"], "data/2026-02-27/b.py"),
            (&["temp", "--new-name", "c.txt"], "temp/2026-02-27/c.txt"),
        ] {
            let expected = format!("{workspace}/{expected}");
            let moved = files(&host, workspace, &[&["move", &path], target].concat());
            assert_eq!(moved["path"], json!(expected), "{target:?}");
            assert_eq!(host.stdout(&["cat", &expected, "--agent", "coder"]), "x");
            assert_eq!(paths(&files(&host, workspace, &["list"])), [&expected]);
            path = expected;
        }
        let moved = files(&host, workspace, &["info", &path]);
        assert_eq!((&moved["category"], &moved["original_name"]), (&json!("temp"), &json!("a.py")));
    }
}

#[test]
fn w79_and_w92_a_dry_run_names_what_a_cleanup_removes_and_an_undo_brings_back() {
    let host = Host::new();
    for workspace in ["/notes", "/disk"] {
        let old = ["one", "two"].map(|name| format!("{workspace}/temp/{name}"));
        for path in old.iter().chain([&format!("{workspace}/temp/young")]) {
            write(&host, path, "coder");
        }
        for name in ["temp/one", "temp/two"] {
            set_written(&host, name, "2020-01-01");
        }
        let contents = || {
            let read = |path| host.run(&["cat", path, "--agent", "coder"]).stdout;
            old.each_ref().map(|path| String::from_utf8(read(path)).unwrap())
        };
        let rows = "SELECT workspace || path || modified_at FROM workspace_files ORDER BY id";
        let before = host.query(rows);
        let dry = files(&host, workspace, &["cleanup", "--dry-run"]);
        let mut named: Vec<_> = dry["paths"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        named.sort_unstable();
        assert_eq!(named, old);
        let numbers = ["dry_run", "removed", "bytes", "operation"].map(|name| &dry[name]);
        assert_eq!(numbers, [&json!(true), &json!(2), &json!(2), &Value::Null]);
        let arguments = ["files", "cleanup", "--dry-run", "--workspace", workspace, "--agent", "coder"];
        let text = host.run(&arguments);
        let stdout = String::from_utf8(text.stdout).unwrap();
        let mut named: Vec<_> = stdout.lines().collect();
        named.sort_unstable();
        assert_eq!(named, old);
        let stderr = String::from_utf8(text.stderr).unwrap();
        assert!(stderr.contains("2 files") && stderr.contains("would be removed"), "{stderr}");
        assert_eq!((host.query(rows), contents()), (before, ["x", "x"].map(str::to_owned)));
        assert_eq!(files(&host, workspace, &["cleanup", "--status"]), Value::Null);

        let cleaned = files(&host, workspace, &["cleanup"]);
        assert_eq!((&cleaned["removed"], &cleaned["paths"]), (&json!(2), &dry["paths"]));
        assert_eq!(contents(), [""; 2].map(str::to_owned));
        let operation = cleaned["operation"].as_str().unwrap();
        host.stdout(&["undo", "--operation", operation, "--agent", "coder"]);
        assert_eq!(contents(), ["x", "x"].map(str::to_owned));
        assert_eq!(paths(&files(&host, workspace, &["list"])).len(), 3);
    }
}

#[test]
fn w44a_and_w78_sync_and_cleanup_go_through_all_workspaces_when_asked_to() {
    let host = Host::new();
    for path in ["/notes/temp/a", "/disk/temp/b"] {
        write(&host, path, "coder");
    }
    let refused = host.run(&["files", "cleanup", "--agent", "coder"]);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text.contains("choose one with --workspace: `/disk`, `/notes`"), "{text}");
    std::fs::write(host.0.path().join("files/temp/new"), "x").unwrap();
    let output = host.run(&["files", "sync", "--all", "--agent", "coder"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("/disk:\n") && text.contains("Added 1 entry") && text.contains("/notes:\n"),
        "{text}"
    );
    host.age(&["temp/b", "temp/new"]);
    // Of another agent's Workspaces, one may only be read. It is synced, and left out of the cleanup.
    let reader = CONFIG.replace("coder", "reader").replacen("scope = \"rw\"", "scope = \"ro\"", 1);
    let agents = reader.split_once("[agents.reader]").unwrap().1;
    std::fs::write(host.0.path().join("stead.toml"), format!("{CONFIG}[agents.reader]{agents}")).unwrap();
    let documents = host.stdout(&["files", "cleanup", "--all", "-n", "--json", "--agent", "reader"]);
    let documents: Vec<Value> = documents.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(documents.len(), 1);
    assert_eq!((&documents[0]["workspace"], &documents[0]["removed"]), (&json!("/disk"), &json!(2)));
    assert_eq!(host.stdout(&["files", "sync", "--all", "--json", "--agent", "reader"]).lines().count(), 2);
    assert_eq!(
        host.stdout(&["files", "cleanup", "--all", "--agent", "coder"]),
        "/disk/temp/b\n/disk/temp/new\n/notes/temp/a\n"
    );
}

#[test]
fn w20_a_bare_name_that_a_restore_or_a_diff_does_not_know_is_said() {
    let host = Host::new();
    write(&host, "/notes/r.md", "coder");
    host.stdout(&["snapshot", "/notes", "--label", "one", "--agent", "coder"]);
    host.stdout(&["write", "/notes/r.md", "two", "--agent", "coder"]);
    let refusal = |arguments: &[&str]| {
        let output = host.run(&[arguments, &["--agent", "coder"]].concat());
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let text = refusal(&["restore", "/notes", "one", "/notes/r.md"]);
    assert!(text.contains("`/notes/r.md` leads to `/notes/documents/"), "{text}");
    for arguments in
        [&["restore", "/notes", "one", "/notes/typo.md"][..], &["diff", "/notes/typo.md", "one", "now"]]
    {
        let text = refusal(arguments);
        assert!(text.contains("`/notes/typo.md` does not exist"), "{text}");
    }
    // What is in that state already is no error.
    let path = host.query("SELECT path FROM workspace_files").remove(0);
    let path = format!("/notes/{path}");
    host.stdout(&["restore", "/notes", "now", &path, "--agent", "coder"]);
}

#[test]
fn s19_the_audit_tells_what_was_done_to_managed_files() {
    let host = Host::new();
    for path in ["/notes/code/a.py", "/notes/code/b.py"] {
        write(&host, path, "coder");
    }
    files(&host, "/notes", &["tag", "/notes/code/a.py", "pin"]);
    files(&host, "/notes", &["delete", "/notes/code/b.py"]);
    let call = [
        "call",
        "workspace",
        "{\"action\":\"delete\",\"workspace\":\"/notes\",\"path\":\"/notes/code/a.py\"}",
    ];
    host.stdout(&[&call[..], &["--agent", "coder"]].concat());
    let calls = |action: &str| {
        let records = host.stdout(&["audit", "--json", "--fact", &format!("action={action}")]);
        let records = records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut calls: Vec<_> = records
            .filter(|record| !record["paths"].to_string().contains("\"/notes\""))
            .map(|record| {
                format!("{} {}", record["call"].as_str().unwrap(), record["outcome"].as_str().unwrap())
            })
            .collect();
        calls.dedup();
        calls
    };
    assert_eq!(calls("tag"), ["files ok"]);
    assert_eq!(calls("delete"), ["workspace ok", "files ok"]);
}
