//! Every call has exactly one audit record, whatever its outcome: every command and every tool, with names that exist
//! and names that don't.

use serde_json::{Value, json};

use crate::common::TestDir;

const CONFIG: &str = r#"
    [stores.disk]
    kind = "physical"
    path = "disk"
    [stores.notes]
    kind = "virtual"
    [agents.coder]
    history = true
    [[agents.coder.workspaces]]
    prefix = "/disk"
    scope = "rw"
    store = "disk"
    [[agents.coder.workspaces]]
    prefix = "/notes"
    scope = "rw"
    store = "notes"
"#;

fn prepared_dir() -> TestDir {
    let dir = TestDir::empty();
    dir.file("stead.toml", CONFIG);
    dir.file("disk/a", "1");
    dir.file("from/a", "1");
    for number in ["1", "2"] {
        assert!(dir.stead(["write", "/notes/a", number]).status.success());
    }
    assert!(dir.stead(["snapshot", "/notes", "--label", "kept"]).status.success());
    assert!(dir.stead(["fork", "/notes", "draft"]).status.success());
    dir
}

/// The records that have an outcome, oldest first.
fn records(dir: &TestDir) -> Vec<Value> {
    let exported = dir.run(["audit", "export"]);
    let records = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["outcome"] != "begun").collect()
}

fn summary(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
    let paths: Vec<_> = record["paths"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    format!("{} {} {}", text("call"), paths.join(","), text("outcome"))
}

/// Runs the commands one after the other, and returns those that don't leave exactly one new record of that call and
/// outcome.
fn without_exactly_one_record(dir: &TestDir, commands: &[(&str, &str, &[&str])]) -> Vec<String> {
    let mut mismatches = Vec::new();
    let mut before = records(dir).len();
    for (call, outcome, arguments) in commands {
        dir.stead(arguments.iter().copied());
        let all = records(dir);
        let new: Vec<_> = all[before..].iter().map(summary).collect();
        before = all.len();
        let is_single_record = match &*new {
            [record] => record.starts_with(&format!("{call} ")) && record.ends_with(&format!(" {outcome}")),
            _ => false,
        };
        if !is_single_record {
            mismatches.push(format!("{}: {new:?}", arguments.join(" ")));
        }
    }
    mismatches
}

#[test]
fn every_command_is_on_record_once_even_with_names_that_do_not_exist() {
    let dir = prepared_dir();
    let commands: &[(&str, &str, &[&str])] = &[
        // Names that don't exist.
        ("append", "denied", &["append", "/none/x", "1"]),
        ("blame", "failed", &["blame", "/notes/none"]),
        ("cat", "failed", &["cat", "/notes/none"]),
        ("cat", "failed", &["cat", "--at", "none", "/notes/a"]),
        ("cp", "failed", &["cp", "/notes/none", "/notes/b"]),
        ("diff", "failed", &["diff", "/notes", "none"]),
        ("diff", "failed", &["diff", "/notes", "1", "none"]),
        ("diff", "failed", &["diff", "/notes", "99999"]),
        ("diff", "failed", &["diff", "--fork", "none"]),
        ("discard", "failed", &["discard", "none"]),
        ("edit", "failed", &["edit", "/notes/none", "1", "2"]),
        ("export", "failed", &["export", "/notes/none", "out"]),
        ("export", "failed", &["export", "--at", "none", "/notes", "out"]),
        ("fork", "denied", &["fork", "/none", "other"]),
        ("fork", "failed", &["fork", "/notes", "draft"]),
        ("fork", "failed", &["fork", "/notes", "no/name"]),
        ("fork", "failed", &["fork", "/notes", "other", "--to", "nobody"]),
        ("glob", "failed", &["glob", "*", "/notes/none"]),
        ("glob", "failed", &["glob", "*", "--at", "none", "/notes"]),
        ("grep", "failed", &["grep", "x", "/notes/none"]),
        ("grep", "failed", &["grep", "x", "--at", "none", "/notes"]),
        ("import", "failed", &["import", "none", "/notes/in"]),
        ("import", "denied", &["import", "from", "/none/in"]),
        ("log", "denied", &["log", "/none"]),
        ("ls", "failed", &["ls", "/notes/none"]),
        ("ls", "failed", &["ls", "--at", "none", "/notes"]),
        ("mkdir", "denied", &["mkdir", "/none"]),
        ("mv", "failed", &["mv", "/notes/none", "/notes/b"]),
        ("restore", "failed", &["restore", "/notes", "none"]),
        ("restore", "failed", &["restore", "/notes", "99999"]),
        ("restore", "failed", &["restore", "/none", "1"]),
        ("restore", "failed", &["restore", "/notes", "kept", "/../x"]),
        ("rm", "failed", &["rm", "/notes/none"]),
        ("snapshot", "denied", &["snapshot", "/none"]),
        ("snapshot", "failed", &["snapshot", "/notes", "--label", "kept"]),
        ("snapshot", "failed", &["snapshot", "/notes", "--label", "now"]),
        ("forget_snapshot", "failed", &["snapshots", "--forget", "none"]),
        ("forget_snapshot", "failed", &["snapshots", "/notes", "--forget", "none"]),
        ("stat", "failed", &["stat", "/notes/none"]),
        ("stat", "failed", &["stat", "--at", "none", "/notes"]),
        ("tree", "failed", &["tree", "/notes/none"]),
        ("tree", "failed", &["tree", "--at", "none", "/notes"]),
        ("undo", "failed", &["undo", "--operation", "00000000-0000-7000-8000-000000000000"]),
        ("write", "denied", &["write", "/none/x", "1"]),
        ("gc", "ok", &["gc"]),
        ("restore_backup", "failed", &["restore-backup", "none.db", "--yes"]),
        ("none", "denied", &["call", "none"]),
        // Names that exist.
        ("blame", "ok", &["blame", "/notes/a"]),
        ("cat", "ok", &["cat", "--at", "kept", "/notes/a"]),
        ("diff", "ok", &["diff", "/notes", "1"]),
        ("diff", "ok", &["diff", "--fork", "draft"]),
        ("log", "ok", &["log"]),
        ("snapshots", "ok", &["snapshots"]),
        ("forks", "ok", &["forks"]),
        ("snapshot", "ok", &["snapshot", "/notes", "--label", "other"]),
        ("snapshot", "ok", &["snapshot", "--label", "all"]),
        ("forget_snapshot", "ok", &["snapshots", "/notes", "--forget", "other"]),
        ("restore", "ok", &["restore", "/notes", "1"]),
        ("undo", "ok", &["undo"]),
        ("export", "ok", &["export", "/notes", "out"]),
        ("fork", "ok", &["fork", "/notes", "other"]),
        ("discard", "ok", &["discard", "other"]),
        ("backup", "ok", &["backup", "b.db"]),
    ];
    assert_eq!(without_exactly_one_record(&dir, commands), [""; 0]);
}

/// Wrong arguments for every tool: with a name that doesn't exist, and with a path that isn't valid.
fn invalid_arguments(tool: &str) -> Vec<Value> {
    let missing = "/notes/none/none";
    let arguments_with = |path: &str| match tool {
        "append_file" | "write_file" => json!({ "path": path, "content": "1" }),
        "copy_file" | "move_file" => json!({ "source": path, "destination": "/notes/b" }),
        "edit_file" => json!({ "path": path, "old_string": "1", "new_string": "2" }),
        "glob" => json!({ "pattern": "*", "path": path }),
        "grep" => json!({ "pattern": "x", "path": path }),
        "read_many" => json!({ "paths": [path] }),
        "read_version" => json!({ "path": path, "version": "1" }),
        "restore" => json!({ "path": path, "snapshot": "1" }),
        "undo" => json!({ "operation": "00000000-0000-7000-8000-000000000000" }),
        _ => json!({ "path": path }),
    };
    let mut arguments = vec![
        arguments_with("/none/x"),
        arguments_with("/../x"),
        arguments_with(""),
        json!({}),
        json!({ "surprise": 1 }),
    ];
    if !matches!(tool, "append_file" | "write_file" | "create_directory") {
        arguments.push(arguments_with(missing));
    }
    match tool {
        "read_version" => {
            arguments.extend(
                ["none", "99999", "-1"].map(|version| json!({ "path": "/notes/a", "version": version })),
            );
        }
        "restore" => {
            let paths = json!(["/../x"]);
            arguments
                .extend(["none", "99999"].map(|snapshot| json!({ "path": "/notes", "snapshot": snapshot })));
            arguments.push(json!({ "path": "/notes", "snapshot": "1", "paths": paths }));
        }
        "snapshot" => arguments.push(json!({ "path": "/notes", "label": "now" })),
        "undo" => arguments.extend([json!({ "operation": "none" }), json!({ "operation": "x", "last": 1 })]),
        _ => {}
    }
    arguments
}

#[test]
fn every_tool_is_on_record_once_even_with_names_that_do_not_exist() {
    let dir = prepared_dir();
    let offered = dir.run(["tools", "--json"]);
    let tools: Vec<Value> = serde_json::from_str(&offered).unwrap();
    let names: Vec<String> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 19, "{offered}");
    let calls: Vec<(String, Value)> = names
        .iter()
        .flat_map(|name| invalid_arguments(name).into_iter().map(|arguments| (name.clone(), arguments)))
        .collect();
    // One process makes the calls one after the other, so the records have the order of the calls.
    let before = records(&dir).len();
    let lines: String = calls
        .iter()
        .map(|(tool, arguments)| format!("{}\n", json!({ "tool": tool, "arguments": arguments })))
        .collect();
    let output = dir.run_with_input(["call", "--lines"], lines.as_bytes());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), calls.len());
    let mut new_records: Vec<Value> = records(&dir)[before..].to_vec();
    new_records.sort_by_key(|record| record["at"].as_str().unwrap().to_owned());
    let mut new_records = new_records.into_iter().peekable();
    let mut mismatches = Vec::new();
    for (tool, arguments) in &calls {
        let mut matching = Vec::new();
        // As many records as calls, and none is left over.
        if new_records.peek().is_some_and(|record| record["call"] == **tool) {
            matching.extend(new_records.next());
        }
        if matching.is_empty() {
            mismatches.push(format!("{tool} {arguments}"));
        }
    }
    mismatches.extend(new_records.map(|record| format!("unexpected record: {record}")));
    assert_eq!(mismatches, [""; 0]);
}

#[test]
fn a_dry_run_is_marked_in_its_record() {
    let dir = prepared_dir();
    dir.stead(["undo", "--dry-run"]);
    dir.stead(["restore", "/notes", "1", "--dry-run"]);
    let all = records(&dir);
    for (record, call) in all[all.len() - 2..].iter().zip(["undo", "restore"]) {
        assert_eq!(
            (record["call"].as_str(), record["dry_run"].as_bool()),
            (Some(call), Some(true)),
            "{record}"
        );
        assert_eq!(record["outcome"], "ok", "{record}");
    }
    let output = dir.run(["audit", "--limit", "2"]);
    assert_eq!(output.lines().filter(|line| line.contains(" ok (dry run) ")).count(), 2, "{output}");
}

#[test]
fn two_paths_that_were_touched_are_not_shown_as_a_move() {
    let dir = prepared_dir();
    dir.file("two/x", "1");
    dir.file("two/y", "1");
    dir.stead(["import", "two", "/notes/two"]);
    dir.stead(["mv", "/notes/two/x", "/notes/two/z"]);
    dir.stead(["rm", "/notes/two/y", "/notes/two/z"]);
    dir.stead(["undo", "--last", "2"]);
    let shown_paths = |call: &str| {
        let output = dir.run(["audit", "--call", call, "--limit", "1"]);
        output.split_whitespace().skip_while(|word| !word.starts_with('/')).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown_paths("undo"), "/notes/two/x, /notes/two/y");
    assert_eq!(shown_paths("mv"), "/notes/two/x -> /notes/two/z");
}

/// The record of a read waits for other records before it goes into the database; the record of a change doesn't.
#[test]
fn records_are_paged_newest_first_by_time() {
    let dir = prepared_dir();
    let lines: String = (0..40)
        .map(|number| match number % 2 {
            0 => format!("{}\n", json!({ "tool": "stat", "arguments": { "path": "/notes/a" } })),
            _ => {
                let arguments = json!({ "path": format!("/notes/{number}"), "content": "1" });
                format!("{}\n", json!({ "tool": "write_file", "arguments": arguments }))
            }
        })
        .collect();
    dir.run_with_input(["call", "--lines"], lines.as_bytes());
    let mut times = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = match &cursor {
            None => dir.run(["audit", "--json", "--limit", "7"]),
            Some(cursor) => dir.run(["audit", "--json", "--limit", "7", "--cursor", cursor.as_str()]),
        };
        let lines: Vec<Value> = page.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        times.extend(lines.iter().filter_map(|line| Some(line["at"].as_str()?.to_owned())));
        cursor = lines.iter().find_map(|line| Some(line["cursor"].as_str()?.to_owned()));
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(times.len(), dir.run(["audit", "export"]).lines().count());
    assert!(times.is_sorted_by(|newer, older| newer >= older), "{times:#?}");
}

#[test]
fn output_that_cannot_be_written_is_not_recorded_as_a_quota_error() {
    let dir = prepared_dir();
    for arguments in [&["cat", "/notes/a"][..], &["export", "/notes", "-"]] {
        let full_device = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = dir.command(arguments.iter().copied()).stdout(full_device).output().unwrap();
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        let all = records(&dir);
        let last = all.last().unwrap();
        assert_eq!(last["call"], arguments[0], "{last}");
        assert_ne!(last["code"], "quota", "{last}");
    }
}
