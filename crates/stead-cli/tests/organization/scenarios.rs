//! The example organization, with one MCP connection per agent.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::office::{Client, Office, file, wait_until};

const UNKNOWN_ID: &str = "11111111-2222-4333-8444-555555555555";

fn not_found(id: &str) -> String {
    format!(
        "Folder ID '{id}' not found. It may have expired or been deleted. Use list_folders() to discover current \
         folders. [not_found]"
    )
}

/// Reads every file that a scope lists, and returns the contents.
fn read_all(client: &mut Client, scope: &str) -> Vec<String> {
    let mut contents = Vec::new();
    for folder in client.folders(scope) {
        let id = folder["folderId"].as_str().unwrap();
        assert_eq!(folder["fileCount"], folder["files"].as_array().unwrap().len());
        for listed in folder["files"].as_array().unwrap() {
            let content = client.read(id, listed["filename"].as_str().unwrap()).unwrap();
            assert_eq!(listed["size"], content.len());
            contents.push(content);
        }
    }
    contents
}

#[test]
fn f17_f18_f23_f29_an_agent_discovers_the_library_in_org_shared_and_reads_what_it_lists() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let names = [
        "Development Team - Shared",
        "External Contractors Team - Shared",
        "HR Team - Shared",
        "Leadership Team - Shared",
        "Library Team - Shared",
        "Catalyst (HR) - Shared",
    ];
    assert_eq!(marcus.folder_names("org_shared"), names, "its own shared folder is in my_shared");
    let library = marcus.id("org_shared", "team-library/shared");
    let handbook = fs::read_to_string(office.host_path("team-library/shared", "handbook.md")).unwrap();
    assert_eq!(marcus.read(&library, "handbook.md"), Ok(handbook.clone()));
    assert!(read_all(&mut marcus, "org_shared").contains(&handbook));
    // A scope of its own for it doesn't exist.
    let error = marcus.error("list_folders", json!({ "scope": "team_library" }));
    let expected = "Invalid scope 'team_library'. Available scopes: my_private, my_shared, team_private, team_shared, \
                    org_shared";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn f13_to_f16_every_scope_has_its_folder_for_every_agent() {
    let office = Office::example();
    let server = office.serve();
    for (agent, name, team) in [
        ("marcus", "Marcus (HR)", Some("HR")),
        ("elena", "Elena (Leadership)", Some("Leadership")),
        ("quinn", "Quinn (External Contractors)", Some("External Contractors")),
        ("nomad", "Nomad", None),
    ] {
        let mut client = server.connect(&format!("acme/agent-{agent}"));
        assert_eq!(client.folder_names("my_private"), [format!("{name} - Private")]);
        assert_eq!(client.folder_names("my_shared"), [format!("{name} - Shared")]);
        for (scope, half) in [("team_private", "Private"), ("team_shared", "Shared")] {
            let expected: Vec<_> = team.iter().map(|team| format!("{team} Team - {half}")).collect();
            assert_eq!(client.folder_names(scope), expected, "{agent}");
        }
        for folder in client.folders("org_shared") {
            assert_eq!(
                (&folder["folderType"], &folder["visibility"]),
                (&json!("org_shared"), &json!("shared"))
            );
        }
    }
}

#[test]
fn f21_f22_f76_leadership_finds_and_reads_every_members_shared_folder_and_changes_none() {
    let office = Office::example();
    let server = office.serve();
    let mut elena = server.connect("acme/agent-elena");
    let names: BTreeSet<_> = elena.folder_names("org_shared").into_iter().collect();
    for member in ["Catalyst (HR)", "Dana (Development)", "Iris (Library)", "Marcus (HR)", "Nomad"] {
        assert!(names.contains(&format!("{member} - Shared")), "{names:?}");
    }
    assert!(!names.contains("Elena (Leadership) - Shared") && names.len() == 5 + 7, "{names:?}");
    assert!(names.iter().all(|name| name.ends_with(" - Shared")), "{names:?}");
    let notes = elena.id("org_shared", "agent-catalyst/shared");
    let content =
        fs::read_to_string(office.host_path("agent-catalyst/shared", "interview-notes.md")).unwrap();
    assert_eq!(elena.read(&notes, "interview-notes.md"), Ok(content.clone()));
    let refusal =
        "You don't have permission to write to folder 'Catalyst (HR) - Shared'. Your team: Leadership";
    let writing = elena.write(&notes, "interview-notes.md", "x").unwrap_err();
    assert!(writing.starts_with(refusal), "{writing}");
    for name in ["interview-notes.md", "not-there.md"] {
        let deleting = elena.error("delete_file_by_id", file(&notes, name));
        assert_eq!(deleting, writing, "a refusal doesn't say whether the file exists");
    }
    let info = elena.json("get_file_info_by_id", file(&notes, "interview-notes.md"));
    assert_eq!(info["permissions"], json!({ "read": true, "write": false, "delete": false }));
    assert_eq!(
        fs::read_to_string(office.host_path("agent-catalyst/shared", "interview-notes.md")).unwrap(),
        content
    );
}

#[test]
fn f88_f89_a_path_that_may_not_be_read_is_refused_as_one_that_does_not_exist() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let mut refusal = |path: &str| {
        let error = marcus.error("read_file", json!({ "path": path }));
        error.replace(path, "PATH")
    };
    let expected = refusal("/workspaces/nobody/shared/nothing.md");
    assert!(expected.ends_with(" [denied]"), "{expected}");
    for path in [
        "/workspaces/agent-dana/shared/design.md",
        "/workspaces/agent-dana/shared/nothing.md",
        "/workspaces/agent-dana/private/nothing.md",
        "/workspaces/team-leadership/private/strategy.md",
        "/workspaces/agent-elena/shared/agenda.md",
    ] {
        assert_eq!(refusal(path), expected, "{path}");
    }
    // In a folder that it may read, the answer is what there is.
    let catalyst = marcus.id("org_shared", "agent-catalyst/shared");
    assert_eq!(
        marcus.read(&catalyst, "notes.md").unwrap_err(),
        "File 'notes.md' not found in folder 'Catalyst (HR) - Shared'. Available files: [interview-notes.md] [not_found]"
    );
}

#[test]
fn f103_f104_f118_f119_f123_marcus_writes_reads_and_deletes_by_the_id_of_a_folder() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let shared = marcus.id("my_shared", "agent-marcus/shared");
    let path = "/workspaces/agent-marcus/shared/reports/meeting.md";
    let written = |text: Result<String, String>| serde_json::from_str::<Value>(&text.unwrap()).unwrap();
    let created = written(marcus.write(&shared, "reports/meeting.md", "# Notes\n"));
    assert_eq!(created, json!({ "success": true, "bytesWritten": 8, "created": true, "path": path }));
    let replaced = written(marcus.write(&shared, "reports/meeting.md", "# Grüße\n"));
    assert_eq!((&replaced["created"], &replaced["bytesWritten"]), (&json!(false), &json!(10)));
    let host_path = office.host_path("agent-marcus/shared", "reports/meeting.md");
    assert_eq!(fs::read_to_string(&host_path).unwrap(), "# Grüße\n");
    assert_eq!(marcus.read(&shared, "reports/meeting.md"), Ok("# Grüße\n".to_owned()));
    let listed = &marcus.folders("my_shared")[0];
    assert_eq!(
        (&listed["files"][0]["filename"], &listed["fileCount"]),
        (&json!("reports/meeting.md"), &json!(2))
    );
    // A team mate reads it through an id of its own.
    let mut catalyst = server.connect("acme/agent-catalyst");
    let found = catalyst.id("org_shared", "agent-marcus/shared");
    assert_eq!(catalyst.read(&found, "reports/meeting.md"), Ok("# Grüße\n".to_owned()));

    let deleted = marcus.json("delete_file_by_id", file(&shared, "reports/meeting.md"));
    assert_eq!(deleted, json!({ "success": true, "existed": true, "freedBytes": 10, "path": path }));
    assert!(!host_path.exists());
    let again = marcus.json("delete_file_by_id", file(&shared, "reports/meeting.md"));
    assert_eq!((&again["existed"], &again["freedBytes"]), (&json!(false), &json!(0)));
    assert!(again["warning"].is_string(), "{again}");
    for tool in ["read_file_by_id", "get_file_info_by_id"] {
        let error = marcus.error(tool, file(&shared, "reports/meeting.md"));
        assert!(error.ends_with("Available files: [review.md] [not_found]"), "{tool}: {error}");
    }
    // Catalyst has seen it when it looked for folders.
    let gone = catalyst.read(&found, "reports/meeting.md").unwrap_err();
    assert!(
        gone.starts_with("File 'reports/meeting.md' no longer exists in folder 'Marcus (HR) - Shared'."),
        "{gone}"
    );
}

#[test]
fn f12_f26_f61_f101_errors_are_results_that_help_and_the_connection_goes_on() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let id = marcus.id("my_private", "agent-marcus/private");
    assert_eq!(marcus.read(UNKNOWN_ID, "a.md"), Err(not_found(UNKNOWN_ID)));
    for (tool, arguments, expected) in [
        ("list_folders", json!({ "scope": "My_Private" }), "Invalid scope 'My_Private'. Available scopes: "),
        ("list_folders", json!({}), "scope"),
        ("list_folders", json!({ "scope": "my_private", "agentId": "agent-dana" }), "agentId"),
        ("list_folders", json!({ "scope": "team_private", "teamId": "team-leadership" }), "teamId"),
        ("read_file_by_id", json!({ "folderId": id }), "filename"),
        ("read_file_by_id", json!({ "folderId": 7, "filename": "a" }), "folderId"),
        ("read_file_by_id", file(&id, "../../team-hr/private/salaries.md"), ".."),
        ("read_file_by_id", file(&id, "/etc/passwd"), "/etc/passwd"),
        ("write_file_by_id", json!({ "folderId": id, "filename": "a/b/c/d.md", "content": "" }), "3"),
        (
            "write_file_by_id",
            json!({ "folderId": id, "filename": "a", "content": "%", "encoding": "base64" }),
            "base64",
        ),
    ] {
        let error = marcus.error(tool, arguments.clone());
        assert!(error.contains(expected), "{tool} {arguments}: {error}");
        assert!(!error.contains(office.path("").to_str().unwrap()), "{error}");
    }
    assert_eq!(marcus.folder_names("my_private"), ["Marcus (HR) - Private"]);
    assert!(!office.host_path("agent-marcus/private", "a").exists());
}

#[test]
fn f66_after_a_restart_earlier_ids_are_not_found_and_discovery_recovers() {
    let office = Office::example();
    let (id, content) = {
        let server = office.serve();
        let mut marcus = server.connect("acme/agent-marcus");
        let id = marcus.id("my_private", "agent-marcus/private");
        let content = marcus.read(&id, "todo.md").unwrap();
        (id, content)
    };
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    assert_eq!(marcus.read(&id, "todo.md"), Err(not_found(&id)));
    let id = marcus.id("my_private", "agent-marcus/private");
    assert_eq!(marcus.read(&id, "todo.md"), Ok(content));
}

#[test]
fn f67_f68_f166_an_id_of_another_agent_or_organization_is_not_found() {
    let office = Office::example();
    let config = fs::read_to_string(office.path("stead.toml")).unwrap();
    let globex = r#"
[[organization]]
id = "globex"
store = "shared"
toolWhitelist = ["list_folders", "read_file_by_id", "write_file_by_id", "read_file", "list_directory"]
teams = [{ id = "team-hr", name = "HR" }, { id = "globex-lead", name = "Leads", leadership = true }]
agents = [{ id = "agent-marcus", name = "Marcus", teamId = "team-hr" }, { id = "hank", teamId = "globex-lead" }]
"#;
    office.replace("stead.toml", &format!("{config}{globex}"));
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let ids = [
        ("holidays.md", marcus.id("org_shared", "team-hr/shared")),
        ("todo.md", marcus.id("my_private", "agent-marcus/private")),
    ];
    // Catalyst may read the first folder itself; both Marcuses have folders of the same names.
    for other in
        ["acme/agent-catalyst", "acme/agent-elena", "acme/agent-nomad", "globex/agent-marcus", "globex/hank"]
    {
        let mut client = server.connect(other);
        for (name, id) in &ids {
            assert_eq!(client.read(id, name), Err(not_found(id)), "{other}");
            assert_eq!(client.write(id, name, "x"), Err(not_found(id)), "{other}");
        }
        if other.starts_with("globex") {
            assert!(read_all(&mut client, "org_shared").is_empty(), "{other}");
            assert!(client.folder_names("org_shared").iter().all(|name| !name.contains("Library")));
            let error =
                client.error("read_file", json!({ "path": "/workspaces/team-library/shared/handbook.md" }));
            assert!(error.ends_with(" [denied]"), "{error}");
        }
    }
    for (name, id) in &ids {
        marcus.read(id, name).unwrap();
    }
}

#[test]
fn f69_f141_what_a_removed_member_had_is_refused_at_its_next_call_and_found_no_more() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let private = marcus.id("team_private", "team-hr/private");
    let catalyst = marcus.id("org_shared", "agent-catalyst/shared");
    let hr = marcus.id("team_shared", "team-hr/shared");
    marcus.read(&private, "salaries.md").unwrap();
    let tools = marcus.tools();
    // It moves to the contractors, whose whitelist has two tools.
    office.change_records(
        "agents.json",
        r#""Marcus", "teamId": "team-hr""#,
        r#""Marcus", "teamId": "team-contractors""#,
    );
    // Longer than what is known of the records counts as current, and shorter than a reload takes.
    std::thread::sleep(Duration::from_millis(50));
    for (id, name) in [(&private, "salaries.md"), (&catalyst, "interview-notes.md")] {
        assert_eq!(
            marcus.read(id, name).unwrap_err(),
            "You no longer have access to this folder. Use list_folders() to discover current folders. [denied]"
        );
    }
    assert!(!marcus.folder_names("org_shared").contains(&"Catalyst (HR) - Shared".to_owned()));
    assert!(!marcus.folder_names("team_private").contains(&"HR Team - Private".to_owned()));
    let error = marcus.write(&hr, "late.md", "x").unwrap_err();
    assert!(error.ends_with(" [denied]"), "{error}");
    assert!(!office.host_path("team-hr/shared", "late.md").exists());
    wait_until("the tools are those of its new team", || {
        marcus.tools() == ["list_folders", "read_file_by_id"]
    });
    assert_ne!(marcus.tools(), tools);
    assert_eq!(marcus.folder_names("team_private"), ["External Contractors Team - Private"]);
    assert!(marcus.read(&private, "salaries.md").unwrap_err().ends_with(" [denied]"));
    assert!(marcus.read(&hr, "holidays.md").is_ok(), "a team's shared folder is for all agents");
    // Without a record it is nobody.
    office.change_records("agents.json", "agent-marcus", "agent-other");
    wait_until("it is unknown", || marcus.status() == 403);
}

#[test]
fn f69_a_process_that_makes_one_call_per_line_has_the_rights_of_that_time() {
    let office = Office::example();
    let mut command = office.command(["--agent", "agent-marcus", "call", "--lines"]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    let mut answers = BufReader::new(process.stdout.take().unwrap());
    let mut team_folders = || {
        let call = json!({ "tool": "list_folders", "arguments": { "scope": "team_private" } });
        writeln!(input, "{call}").unwrap();
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        line
    };
    assert!(team_folders().contains("HR Team - Private"));
    office.change_records(
        "agents.json",
        r#""Marcus", "teamId": "team-hr""#,
        r#""Marcus", "teamId": "team-contractors""#,
    );
    std::thread::sleep(Duration::from_millis(50));
    let folders = team_folders();
    assert!(folders.contains("External Contractors Team - Private"), "{folders}");
    assert!(!folders.contains("HR Team - Private"), "{folders}");
    drop(input);
    assert!(process.wait().unwrap().success());
}

#[test]
fn f24_f25_f92_an_agent_without_a_team_has_its_own_folders_and_reads_those_of_teams() {
    let office = Office::example();
    let server = office.serve();
    let mut nomad = server.connect("acme/agent-nomad");
    for scope in ["team_private", "team_shared"] {
        assert!(nomad.folders(scope).is_empty(), "{scope}");
    }
    assert_eq!(nomad.folder_names("org_shared").len(), 5);
    let hr = nomad.id("org_shared", "team-hr/shared");
    nomad.read(&hr, "holidays.md").unwrap();
    assert_eq!(
        nomad.write(&hr, "holidays.md", "x").unwrap_err(),
        "You don't have permission to write to folder 'HR Team - Shared'. Your team: none. Scopes you can write to: \
         my_private, my_shared [denied]"
    );
    let own = nomad.id("my_private", "agent-nomad/private");
    nomad.write(&own, "a.md", "mine").unwrap();
    assert_eq!(fs::read(office.host_path("agent-nomad/private", "a.md")).unwrap(), b"mine");
}

#[test]
fn f150_path_tools_and_folder_tools_work_on_the_same_file() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let team = marcus.id("team_shared", "team-hr/shared");
    let path = "/workspaces/team-hr/shared/plan.md";
    marcus.write(&team, "plan.md", "one\n").unwrap();
    let read = marcus.call("read_file", json!({ "path": path })).unwrap();
    assert!(read.contains("one"), "{read}");
    let edit = json!({ "path": path, "old_string": "one", "new_string": "two" });
    marcus.call("edit_file", edit).unwrap();
    assert_eq!(marcus.read(&team, "plan.md"), Ok("two\n".to_owned()));
    let list = marcus.call("list_directory", json!({ "path": "/workspaces/team-hr/shared" })).unwrap();
    assert!(list.contains("plan.md") && list.contains("holidays.md"), "{list}");
    marcus.json("delete_file_by_id", file(&team, "plan.md"));
    let error = marcus.error("read_file", json!({ "path": path }));
    assert!(error.ends_with(" [not_found]"), "{error}");
    // The same right is missing in both.
    let library = marcus.id("org_shared", "team-library/shared");
    let by_path = json!({ "path": "/workspaces/team-library/shared/x.md", "content": "x" });
    assert_eq!(marcus.error("write_file", by_path), marcus.write(&library, "x.md", "x").unwrap_err());
    // Path tools go deeper than folder tools create, and folder tools read what is there.
    let deep = json!({ "path": "/workspaces/team-hr/shared/a/b/c/d.md", "content": "deep" });
    marcus.call("write_file", deep).unwrap();
    assert_eq!(marcus.read(&team, "a/b/c/d.md"), Ok("deep".to_owned()));
}

#[test]
fn f152_f153_every_call_has_one_audit_record_with_the_facts_of_its_folder() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let private = marcus.id("team_private", "team-hr/private");
    let library = marcus.id("org_shared", "team-library/shared");
    marcus.read(&private, "salaries.md").unwrap();
    marcus.read(UNKNOWN_ID, "x.md").unwrap_err();
    marcus.write(&private, "new.md", "secret content").unwrap();
    marcus.write(&library, "new.md", "secret content").unwrap_err();
    marcus.json("get_file_info_by_id", file(&private, "new.md"));
    marcus.json("delete_file_by_id", file(&private, "new.md"));
    marcus.error("list_folders", json!({ "scope": "my_private", "agentId": "agent-dana" }));
    server.stop();
    let fact = |record: &Value, name: &str| record["facts"][format!("folder.{name}")].clone();
    let of_hr = |record: &Value| {
        ["owner", "owner_type", "visibility", "scope"].map(|name| fact(record, name))
            == ["team-hr", "team", "private", "team_private"].map(Value::from)
    };
    let records = office.audit("list_folders");
    assert_eq!(records.len(), 3);
    assert_eq!(fact(&records[0], "scope"), "team_private");
    assert_eq!(records[2]["facts"]["security.claimed_agent"], "agent-dana");
    for (tool, outcomes) in [
        ("read_file_by_id", &[("ok", "hit", "salaries.md"), ("failed", "unknown", "x.md")][..]),
        ("write_file_by_id", &[("ok", "hit", "new.md"), ("denied", "hit", "new.md")]),
        ("get_file_info_by_id", &[("ok", "hit", "new.md")]),
        ("delete_file_by_id", &[("ok", "hit", "new.md")]),
    ] {
        let mut records = office.audit(tool);
        records.retain(|record| record["outcome"] != "begun");
        let expected: Vec<_> =
            outcomes.iter().map(|&(outcome, id, file)| [outcome, id, file].map(Value::from)).collect();
        let found: Vec<_> = records
            .iter()
            .map(|record| [record["outcome"].clone(), fact(record, "id"), fact(record, "file")])
            .collect();
        assert_eq!(found, expected, "{tool}");
        assert!(of_hr(&records[0]), "{tool}: {}", records[0]);
    }
    let all = office.stead(["audit", "--json", "--limit", "1000"]);
    assert!(!all.contains("secret content") && !all.contains(office.path("").to_str().unwrap()));
    for line in all.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&record["agent"], &record["organization"]),
            (&json!("acme/agent-marcus"), &json!("acme")),
            "{record}"
        );
    }
    let of_library = office.stead(["audit", "--json", "--fact", "folder.owner=team-library"]);
    assert_eq!(of_library.lines().count(), 1, "{of_library}");
}

#[test]
fn f168_a_deleted_file_is_in_the_history_and_the_operator_brings_it_back() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let private = marcus.id("team_private", "team-hr/private");
    let host_path = office.host_path("team-hr/private", "salaries.md");
    let content = fs::read(&host_path).unwrap();
    marcus.json("delete_file_by_id", file(&private, "salaries.md"));
    assert!(!host_path.exists());
    assert!(
        marcus.error("undo", json!({ "last": 1 })).starts_with("`undo` is not enabled"),
        "it is final for the agent"
    );
    let path = "/workspaces/team-hr/private/salaries.md";
    let log = office.stead(["log", path, "--agent", "agent-marcus", "--json"]);
    let change: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert!(change.to_string().contains("agent-marcus"), "{change}");
    // Who may not read the folder doesn't see its history either.
    assert!(!office.run(["log", path, "--agent", "agent-elena"]).status.success());
    let everything = office.stead(["log", "--agent", "agent-elena", "--json"]);
    assert!(!everything.contains("salaries"), "{everything}");
    office.stead(["undo", "--agent", "agent-marcus"]);
    assert_eq!(fs::read(&host_path).unwrap(), content);
    assert_eq!(marcus.read(&private, "salaries.md").unwrap().into_bytes(), content);
}

#[test]
fn f71_a_folder_that_is_deleted_on_the_host_is_empty_and_writing_makes_it_again() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let shared = marcus.id("my_shared", "agent-marcus/shared");
    fs::remove_dir_all(office.host_path("agent-marcus", "")).unwrap();
    let error = marcus.read(&shared, "review.md").unwrap_err();
    assert!(error.starts_with("File 'review.md' no longer exists in folder"), "{error}");
    let error = marcus.read(&shared, "other.md").unwrap_err();
    assert!(error.contains("Available files: []"), "{error}");
    marcus.write(&shared, "sub/new.md", "x").unwrap();
    assert_eq!(fs::read(office.host_path("agent-marcus/shared", "sub/new.md")).unwrap(), b"x");
    assert_eq!(marcus.folders("my_shared")[0]["fileCount"], 1);
}

#[test]
fn f155_processes_that_write_audit_records_at_once_lose_none() {
    const CALLS: usize = 25;
    let agents = ["agent-marcus", "agent-catalyst", "agent-dana", "agent-nomad"];
    let office = Office::example();
    office.stead(["ls", "/", "--agent", agents[0]]);
    let start = |agent: &str| {
        let mut command = office.command(["call", "--lines", "--agent", agent]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        for number in 0..CALLS {
            let path = format!("/workspaces/{agent}/private/{number}.md");
            let write = json!({ "tool": "write_file", "arguments": { "path": path, "content": "x" } });
            let read = json!({ "tool": "read_file", "arguments": { "path": path } });
            let denied = json!({ "path": "/workspaces/agent-iris/private/x", "content": "x" });
            let denied = json!({ "tool": "write_file", "arguments": denied });
            writeln!(input, "{write}\n{read}\n{denied}").unwrap();
        }
        child
    };
    for child in agents.map(start) {
        let output = child.wait_with_output().unwrap();
        let answers = String::from_utf8(output.stdout).unwrap();
        assert_eq!(answers.lines().count(), 3 * CALLS, "{answers}");
    }
    let count = |agent: &str, tool: &str, outcome: &str| {
        let query =
            ["audit", "--json", "--call", tool, "--agent", agent, "--outcome", outcome, "--limit", "1000"];
        office.stead(query).lines().count()
    };
    for agent in agents {
        for (tool, outcome) in [("write_file", "ok"), ("read_file", "ok"), ("write_file", "denied")] {
            assert_eq!(count(&format!("acme/{agent}"), tool, outcome), CALLS, "{agent}: {tool} {outcome}");
        }
    }
    let verified = office.stead(["audit", "verify"]);
    assert!(verified.contains("nothing is wrong"), "{verified}");
}

#[test]
fn f115_a_reader_sees_the_old_file_or_the_new_one_never_a_half() {
    let office = Office::example();
    let server = office.serve();
    let mut marcus = server.connect("acme/agent-marcus");
    let mut catalyst = server.connect("acme/agent-catalyst");
    let shared = marcus.id("my_shared", "agent-marcus/shared");
    let contents = ["a", "b"].map(|letter| letter.repeat(30_000));
    marcus.write(&shared, "big.md", &contents[0]).unwrap();
    let found = catalyst.id("org_shared", "agent-marcus/shared");
    let host_path = office.host_path("agent-marcus/shared", "big.md");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for turn in 0..40 {
                marcus.write(&shared, "big.md", &contents[(turn + 1) % 2]).unwrap();
            }
        });
        while !writer.is_finished() {
            let on_host = fs::read_to_string(&host_path).unwrap();
            assert!(contents.contains(&on_host), "{} bytes", on_host.len());
            let info = catalyst.json("get_file_info_by_id", file(&found, "big.md"));
            assert_eq!(info["size"], 30_000);
            let text = catalyst.call("read_file_by_id", file(&found, "big.md")).unwrap();
            let letters: BTreeSet<_> = text.chars().take(10_000).collect();
            assert_eq!(letters.len(), 1, "{letters:?}");
        }
    });
}
