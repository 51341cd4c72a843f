//! `stead org` on the organization in `examples/organization`, and on others with mistakes.

use std::path::Path;

use serde_json::Value;

use crate::common::TestDir;

/// A copy of the example.
fn example() -> TestDir {
    let dir = TestDir::empty();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/organization"), &dir.path(""));
    dir
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            // The state of somebody who has tried the example in its place.
            true if entry.file_name() == ".stead" => {}
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// The folders of `org show`, without the tools, which depend on the build.
fn folders(dir: &TestDir, agent: &str) -> String {
    let output = dir.run(["org", "show", "--agent", agent]);
    output.split_once("\n\nTools: ").unwrap().0.to_owned()
}

fn json_lines(dir: &TestDir, args: &[&str]) -> Vec<Value> {
    let output = dir.stead(["--json"].into_iter().chain(args.iter().copied()));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_example_has_no_mistakes() {
    let dir = example();
    let report = &json_lines(&dir, &["org", "check"])[0];
    let notes = report["notes"].as_array().unwrap();
    assert!(notes.is_empty() && report["ok"] == true, "{report:#}");
    let text = dir.run(["org", "check"]);
    assert!(text.ends_with("Acme (acme): 5 teams, 8 agents (1 without a team), 10 allowed tools."), "{text}");
}

#[test]
fn show_says_what_an_agent_reaches_and_which_record_grants_it() {
    let dir = example();
    insta::assert_snapshot!(folders(&dir, "agent-marcus"), @r"
    Marcus (acme/agent-marcus) is in the team HR of Acme.

    READ_WRITE  /workspaces/agent-marcus/private     Marcus (HR) - Private               its own folder (agents.json)
    READ_WRITE  /workspaces/agent-marcus/shared      Marcus (HR) - Shared                its own folder (agents.json)
    READ_WRITE  /workspaces/team-hr/private          HR Team - Private                   member of HR (agents.json)
    READ_WRITE  /workspaces/team-hr/shared           HR Team - Shared                    member of HR (agents.json)
    READ_ONLY   /workspaces/team-development/shared  Development Team - Shared           shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-contractors/shared  External Contractors Team - Shared  shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-leadership/shared   Leadership Team - Shared            shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-library/shared      Library Team - Shared               shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/agent-catalyst/shared    Catalyst (HR) - Shared              team mate in HR (agents.json)
    ");
    insta::assert_snapshot!(folders(&dir, "acme/agent-elena"), @r"
    Elena (acme/agent-elena) is in the team Leadership of Acme, which is leadership.

    READ_WRITE  /workspaces/agent-elena/private      Elena (Leadership) - Private           its own folder (agents.json)
    READ_WRITE  /workspaces/agent-elena/shared       Elena (Leadership) - Shared            its own folder (agents.json)
    READ_WRITE  /workspaces/team-leadership/private  Leadership Team - Private              member of Leadership (agents.json)
    READ_WRITE  /workspaces/team-leadership/shared   Leadership Team - Shared               member of Leadership (agents.json)
    READ_ONLY   /workspaces/team-development/shared  Development Team - Shared              shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-contractors/shared  External Contractors Team - Shared     shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-hr/shared           HR Team - Shared                       shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-library/shared      Library Team - Shared                  shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/agent-catalyst/shared    Catalyst (HR) - Shared                 in the leadership team Leadership (teams.json)
    READ_ONLY   /workspaces/agent-dana/shared        Dana (Development) - Shared            in the leadership team Leadership (teams.json)
    READ_ONLY   /workspaces/agent-iris/shared        Iris (Library) - Shared                in the leadership team Leadership (teams.json)
    READ_ONLY   /workspaces/agent-ivy/shared         Ivy (Development) - Shared             in the leadership team Leadership (teams.json)
    READ_ONLY   /workspaces/agent-marcus/shared      Marcus (HR) - Shared                   in the leadership team Leadership (teams.json)
    READ_ONLY   /workspaces/agent-nomad/shared       Nomad - Shared                         in the leadership team Leadership (teams.json)
    READ_ONLY   /workspaces/agent-quinn/shared       Quinn (External Contractors) - Shared  in the leadership team Leadership (teams.json)
    ");
    insta::assert_snapshot!(folders(&dir, "agent-nomad"), @r"
    Nomad (acme/agent-nomad) is in no team of Acme.

    READ_WRITE  /workspaces/agent-nomad/private      Nomad - Private                     its own folder (agents.json)
    READ_WRITE  /workspaces/agent-nomad/shared       Nomad - Shared                      its own folder (agents.json)
    READ_ONLY   /workspaces/team-development/shared  Development Team - Shared           shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-contractors/shared  External Contractors Team - Shared  shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-hr/shared           HR Team - Shared                    shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-leadership/shared   Leadership Team - Shared            shared with all of Acme (teams.json)
    READ_ONLY   /workspaces/team-library/shared      Library Team - Shared               shared with all of Acme (teams.json)
    ");
}

#[test]
fn show_says_which_level_takes_a_tool_away() {
    let dir = example();
    let shown = &json_lines(&dir, &["org", "show", "--agent", "agent-ivy"])[0];
    let level = |shown: &Value, tool: &str| {
        let withheld = shown["withheld"].as_array().unwrap().iter().find(|entry| entry["tool"] == tool);
        withheld.map(|entry| (entry["level"].to_string(), entry["record"].to_string()))
    };
    let of = |level: &str, record: &str| Some((format!("{level:?}"), format!("{record:?}")));
    assert_eq!(level(shown, "read_file"), None);
    assert_eq!(level(shown, "write_file"), of("agent", "agents.json"));
    assert_eq!(level(shown, "delete_directory"), of("organization", "org.json"));
    let quinn = &json_lines(&dir, &["org", "show", "--agent", "agent-quinn"])[0];
    assert_eq!(level(quinn, "read_file"), of("team", "teams.json"));
    let text = dir.run(["org", "show", "--agent", "agent-ivy"]);
    assert!(text.contains("\nTaken away by its own record (agents.json): "), "{text}");
    assert!(text.contains("\nNot allowed in Acme (org.json): "), "{text}");
}

#[test]
fn what_show_says_is_what_the_agent_can_do() {
    let dir = example();
    for agent in ["agent-marcus", "agent-elena", "agent-ivy", "agent-quinn", "agent-nomad"] {
        let shown = &json_lines(&dir, &["org", "show", "--agent", agent])[0];
        for folder in shown["folders"].as_array().unwrap() {
            let path = format!("{}/new.md", folder["path"].as_str().unwrap());
            let written = dir.stead(["write", &path, "x", "--agent", agent]).status.success();
            assert_eq!(written, folder["scope"] == "READ_WRITE", "{agent} {path}");
        }
        let offered: Vec<_> = json_lines(&dir, &["tools", "--agent", agent])[0]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].clone())
            .collect();
        assert_eq!(shown["tools"], Value::Array(offered), "{agent}");
    }
}

#[test]
fn who_lists_those_that_can_write_first_and_says_why() {
    let dir = example();
    insta::assert_snapshot!(dir.run(["org", "who", "/workspaces/team-hr/shared/holidays.md"]), @r"
    HR Team - Shared: 8 agents

    READ_WRITE  acme/agent-catalyst  Catalyst  member of HR (agents.json)
    READ_WRITE  acme/agent-marcus    Marcus    member of HR (agents.json)
    READ_ONLY   acme/agent-dana      Dana      shared with all of Acme (teams.json)
    READ_ONLY   acme/agent-elena     Elena     shared with all of Acme (teams.json)
    READ_ONLY   acme/agent-iris      Iris      shared with all of Acme (teams.json)
    READ_ONLY   acme/agent-ivy       Ivy       shared with all of Acme (teams.json)
    READ_ONLY   acme/agent-nomad     Nomad     shared with all of Acme (teams.json)
    READ_ONLY   acme/agent-quinn     Quinn     shared with all of Acme (teams.json)
    ");
    insta::assert_snapshot!(dir.run(["org", "who", "/workspaces/agent-catalyst/shared"]), @r"
    Catalyst (HR) - Shared: 3 agents

    READ_WRITE  acme/agent-catalyst  Catalyst  its own folder (agents.json)
    READ_ONLY   acme/agent-elena     Elena     in the leadership team Leadership (teams.json)
    READ_ONLY   acme/agent-marcus    Marcus    team mate in HR (agents.json)
    ");
    insta::assert_snapshot!(dir.run(["org", "who", "/workspaces/team-hr/private/"]), @r"
    HR Team - Private: 2 agents

    READ_WRITE  acme/agent-catalyst  Catalyst  member of HR (agents.json)
    READ_WRITE  acme/agent-marcus    Marcus    member of HR (agents.json)
    ");
}

#[test]
fn who_also_lists_agents_outside_the_organization_whose_workspaces_show_the_path() {
    let dir = example();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    let agents = r#"
[[agents.auditor.workspaces]]
prefix = "/all"
scope = "ro"
store = "shared"
[[agents.auditor.workspaces]]
prefix = "/all/organizations/acme/workspaces/team-hr"
scope = "wo"
store = "shared"
path = "/organizations/acme/workspaces/team-hr"
[[agents.clerk.workspaces]]
prefix = "/reports"
scope = "rw"
store = "shared"
path = "/organizations/acme/workspaces/agent-marcus/private/reports"
[agents.worker]
scope = "thread"
[[agents.worker.workspaces]]
prefix = "/all"
scope = "rw"
store = "shared"
"#;
    dir.file("stead.toml", &format!("{config}{agents}"));
    insta::assert_snapshot!(dir.run(["org", "who", "/workspaces/agent-marcus/private"]), @r"
    Marcus (HR) - Private: 3 agents

    READ_WRITE  acme/agent-marcus  Marcus   its own folder (agents.json)
    READ_WRITE  clerk              clerk    a part of it, Workspace /reports (stead.toml)
    READ_ONLY   auditor            auditor  Workspace /all (stead.toml)
    ");
    insta::assert_snapshot!(dir.run(["org", "who", "/workspaces/team-hr/private"]), @r"
    HR Team - Private: 3 agents

    READ_WRITE  acme/agent-catalyst  Catalyst  member of HR (agents.json)
    READ_WRITE  acme/agent-marcus    Marcus    member of HR (agents.json)
    WRITE_ONLY  auditor              auditor   Workspace /all/organizations/acme/workspaces/team-hr (stead.toml)
    ");
    let seen = &json_lines(&dir, &["org", "who", "/workspaces/agent-marcus/private/todo.md"])[1];
    assert_eq!(seen["path"], "/all/organizations/acme/workspaces/agent-marcus/private/todo.md");
    assert_eq!(seen["agent"], "auditor");
}

#[test]
fn who_lists_no_agent_that_a_name_is_hidden_from() {
    let dir = example();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    let outsider =
        "[[agents.auditor.workspaces]]\nprefix = \"/all\"\nscope = \"ro\"\nstore = \"shared\"\nhide = []\n";
    dir.file("stead.toml", &format!("{config}{outsider}"));
    let text = dir.run(["org", "who", "/workspaces/team-hr/shared/.env"]);
    insta::assert_snapshot!(text, @r"
    HR Team - Shared: 1 agent

    `/workspaces/team-hr/shared/.env` is hidden from the organization's agents by `hide`.
    READ_ONLY   auditor  auditor  Workspace /all (stead.toml)
    ");
    assert_eq!(json_lines(&dir, &["org", "who", "/workspaces/team-hr/shared/sub/.env"]).len(), 1);
}

#[test]
fn a_restore_keeps_the_folder_itself_and_a_conflict_names_the_path_that_is_taken() {
    let dir = example();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    dir.file("stead.toml", &config.replace("kind = \"physical\"\npath = \"files\"", "kind = \"virtual\""));
    let run = |args: &[&str], agent: &str| dir.run(args.iter().copied().chain(["--agent", agent]));
    let folder = "/workspaces/team-hr/shared";
    let [one, two, a] = ["one", "two", "one/a.md"].map(|name| format!("{folder}/{name}"));
    run(&["write", &a, "a"], "agent-marcus");
    run(&["mv", &one, &two], "agent-marcus");
    run(&["write", &one, "taken"], "agent-catalyst");
    let undo = run(&["undo"], "agent-marcus");
    assert!(undo.contains(&format!("{one}: another entry has its name now")), "{undo}");
    // Before the folder was made.
    let restored = run(&["restore", folder, "v1"], "agent-marcus");
    assert!(restored.contains(&format!("removed    {two}\n")), "{restored}");
    assert!(!restored.contains(&format!("removed    {folder}\n")), "{restored}");
    assert_eq!(run(&["ls", folder], "agent-marcus"), "");
}

#[test]
fn notes_are_listed_beside_errors() {
    let dir = example();
    let agents = std::fs::read_to_string(dir.path("acme/agents.json")).unwrap();
    let agents = agents.replacen("\"team-hr\"", "\"team-nobody\"", 1).replacen("\"Marcus\"", "7", 1);
    std::fs::write(dir.path("acme/agents.json"), agents).unwrap();
    std::fs::write(dir.path("acme/teams.json"), r#"[{"id": "team-hr", "toolBlacklist": ["grep"]}]"#).unwrap();
    for command in ["org", "config"] {
        let report = &json_lines(&dir, &[command, "check"])[0];
        assert_eq!(report["ok"], false, "{report:#}");
        assert!(report["notes"].to_string().contains("`toolBlacklist` is deprecated"), "{report:#}");
        assert!(report["problems"].to_string().contains("`name` has to be text"), "{report:#}");
        let text = dir.run([command, "check"]);
        assert!(
            text.contains("note: `toolBlacklist` is deprecated") && text.contains("`name` has to be text"),
            "{text}"
        );
    }
}

#[test]
fn a_key_that_a_record_has_twice_is_an_error_with_its_line() {
    let dir = example();
    let records =
        "{\n  \"a\": { \"id\": \"a\",\n    \"leadership\": false, \"leadership\": true },\n  \"a\": {}\n}";
    std::fs::write(dir.path("acme/teams.json"), records).unwrap();
    insta::assert_snapshot!(dir.run(["org", "check"]), @r"
    acme/teams.json:3:26: the key `leadership` occurs twice here; keep one of them
    acme/teams.json:4:3: the key `a` occurs twice here; keep one of them
    exit 2
    ");
}

#[test]
fn errors_say_what_to_write() {
    let dir = example();
    insta::assert_snapshot!(dir.run(["org", "show", "--agent", "marcus"]), @r"
    ! stead: there is no agent `marcus`; did you mean `acme/agent-marcus`?
    exit 2
    ");
    insta::assert_snapshot!(dir.run(["org", "who", "/workspaces/agent-katalyst/shared"]), @r"
    ! stead: Acme has no agent and no team `agent-katalyst`; did you mean `agent-catalyst`?
    exit 1
    ");
    insta::assert_snapshot!(dir.run(["org", "who", "/workspaces/agent-catalyst"]), @r"
    ! stead: `/workspaces/agent-catalyst` isn't in a folder; write /workspaces/agent-catalyst/shared or /workspaces/agent-catalyst/private
    exit 2
    ");
    // A path of the older layout, as an agent of it writes it.
    insta::assert_snapshot!(dir.run(["org", "who", "/agents/agent-catalyst/shared"]), @r"
    ! stead: `/agents/agent-catalyst/shared` isn't in a folder; write /workspaces/agent-catalyst/shared or /workspaces/agent-catalyst/private
    exit 2
    ");
    insta::assert_snapshot!(dir.run(["org", "who", "/workspaces/team-hr/../.."]), @r"
    ! stead: `/` isn't in a folder; write /workspaces/ID/shared or /workspaces/ID/private, where ID is an agent or a team
    exit 2
    ");
    insta::assert_snapshot!(dir.run(["org", "graph", "--team", "Leadership"]), @r"
    ! stead: there is no team `Leadership`; did you mean `team-leadership`?
    exit 1
    ");
    insta::assert_snapshot!(dir.run(["org", "graph", "--organization", "acne"]), @r"
    ! stead: there is no organization `acne`; did you mean `acme`?
    exit 2
    ");
    let without = TestDir::new();
    insta::assert_snapshot!(without.run(["org", "check"]), @r"
    ! stead: no organization is configured; add [[organization]] to the configuration, with `store` and with `path`: the directory of org.json, teams.json and agents.json
    exit 2
    ");
    assert_eq!(without.run(["org", "show"]), without.run(["org", "check"]));
    assert_eq!(without.run(["org", "who", "/workspaces/a/shared"]), without.run(["org", "check"]));
}

#[test]
fn with_several_organizations_one_has_to_be_named() {
    let dir = example();
    let config = std::fs::read_to_string(dir.path("stead.toml")).unwrap();
    let globex = r#"
[[organization]]
id = "globex"
store = "shared"
toolWhitelist = ["read_file"]
agents = [{ id = "agent-marcus" }, { id = "hank" }]
[[agents.coder.workspaces]]
prefix = "/notes"
scope = "rw"
store = "shared"
path = "/notes"
"#;
    dir.file("stead.toml", &format!("{config}{globex}"));
    let path = "/workspaces/agent-marcus/shared";
    insta::assert_snapshot!(dir.run(["org", "who", path]), @r"
    ! stead: there are several organizations; choose one with --organization: `acme`, `globex`
    exit 2
    ");
    insta::assert_snapshot!(dir.run(["org", "who", path, "--organization", "globex"]), @r"
    agent-marcus - Shared: 1 agent

    READ_WRITE  globex/agent-marcus  agent-marcus  its own folder (stead.toml)
    ");
    assert_eq!(
        dir.run(["org", "who", path, "--organization", "globex"]),
        dir.run(["org", "who", path, "--agent", "hank"])
    );
    insta::assert_snapshot!(dir.run(["org", "show", "--agent", "agent-marcus"]), @r"
    ! stead: several organizations have the agent `agent-marcus`; write one of acme/agent-marcus, globex/agent-marcus
    exit 2
    ");
    insta::assert_snapshot!(dir.run(["org", "show", "--agent", "coder"]), @r"
    ! stead: the agent `coder` is in no organization; `stead map --agent coder` shows what it can reach
    exit 2
    ");
}

#[test]
fn check_names_the_file_of_each_mistake() {
    let dir = example();
    dir.file("acme/agents.json", "[{\"id\": \"a\", \"teamId\": \"gone\"},\n {\"name\": 7}]");
    insta::assert_snapshot!(dir.run(["org", "check"]), @r"
    acme/agents.json:2:2: the field `id` is missing
    exit 2
    ");
    assert_eq!(dir.run(["config", "check"]), dir.run(["org", "check"]));
    let report = &json_lines(&dir, &["config", "check"])[0];
    assert_eq!(report["problems"][0]["file"], "acme/agents.json");
    dir.file("acme/agents.json", "[{\"id\": \"a\", \"teamId\": \"gone\"}]");
    let text = dir.run(["config", "check"]);
    assert!(text.contains("acme/agents.json:1:24: note: there is no team `gone`"), "{text}");
}

#[test]
fn a_large_organization_is_cut_with_a_count_unless_all_is_asked_for() {
    let dir = example();
    let agents: Vec<_> = (0..120)
        .map(|number| format!("{{\"id\": \"a{number}\", \"teamId\": \"team-leadership\"}}"))
        .collect();
    dir.file("acme/agents.json", &format!("[{}]", agents.join(",")));
    let lines = |args: &[&str]| dir.run(args.iter().copied()).lines().count();
    let who = dir.run(["org", "who", "/workspaces/team-hr/shared"]);
    assert!(
        who.starts_with("HR Team - Shared: 120 agents\n") && who.ends_with("and 70 more; --all shows them")
    );
    assert_eq!(lines(&["org", "who", "/workspaces/team-hr/shared", "--all"]), 2 + 120);
    let show = dir.run(["org", "show", "--agent", "a7"]);
    assert!(show.contains("\nand 77 more; --all shows them\n"), "{show}");
    assert!(dir.run(["org", "show", "--agent", "a7", "--all"]).contains("/workspaces/a119/shared"));
    assert_eq!(json_lines(&dir, &["org", "who", "/workspaces/team-hr/shared"]).len(), 120);
    assert!(dir.run(["org", "graph"]).lines().count() > 240);
}

/// Checks text against the part of Mermaid's grammar that `org graph` uses, and returns the ids of the nodes and frames.
fn check_mermaid(text: &str) -> Vec<String> {
    let node = regex::Regex::new(
        r#"^ +([a-z0-9_]+)(\(\["([^"\[\]{}<>|;&`\\]|#\d+;)+"\]\)|\[\("([^"\[\]{}<>|;&`\\]|#\d+;)+"\)\])$"#,
    )
    .unwrap();
    let frame = regex::Regex::new(r#"^ +subgraph ([a-z0-9_]+)\["([^"\[\]{}<>|;&`\\]|#\d+;)+"\]$"#).unwrap();
    let arrow = regex::Regex::new(r"^    ([a-z0-9_]+) (-->\|RW\||-\.->\|RO\|) ([a-z0-9_]+)$").unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("flowchart LR"));
    let (mut ids, mut open) = (Vec::new(), 0);
    for line in lines {
        if line.trim() == "end" {
            open -= 1;
        } else if let Some(found) = frame.captures(line) {
            ids.push(found[1].to_owned());
            open += 1;
        } else if let Some(found) = node.captures(line) {
            ids.push(found[1].to_owned());
        } else {
            let found = arrow.captures(line).unwrap_or_else(|| panic!("{line}"));
            for end in [&found[1], &found[3]] {
                assert!(ids.iter().any(|id| id == end), "`{end}` isn't drawn: {line}");
            }
        }
        assert!(open >= 0, "{line}");
    }
    assert_eq!(open, 0, "a frame isn't closed");
    let mut once = ids.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "an id is used twice");
    ids
}

#[test]
fn a_graph_is_valid_mermaid_whatever_the_names_are() {
    let dir = example();
    check_mermaid(&dir.run(["org", "graph"]));
    let names =
        ["a\"]", "x\\ny", "1. one", "- two", "end", "<b>", "`*#35;", "😀 %% {}", "| --> ;", "\u{1b}[31m"];
    let name = |name: &str| serde_json::to_string(name).unwrap();
    let team = |(index, text): (usize, &&str)| format!("{{\"id\": \"t{index}\", \"name\": {}}}", name(text));
    let agent = |(index, text): (usize, &&str)| {
        format!("{{\"id\": \"a{index}\", \"name\": {}, \"teamId\": \"t{}\"}}", name(text), index / 2)
    };
    let teams: Vec<_> = names.iter().enumerate().map(team).collect();
    let agents: Vec<_> = names.iter().enumerate().map(agent).collect();
    dir.file("acme/teams.json", &format!("[{}]", teams.join(",")));
    dir.file("acme/agents.json", &format!("[{}]", agents.join(",")));
    // The frames of the organization and of folders; 5 teams with 2 members each, 5 without; 40 folders.
    assert_eq!(check_mermaid(&dir.run(["org", "graph"])).len(), 4 + 10 + 10 + 40);
    for part in [["--team", "t0"], ["--team", "t9"], ["--agent", "a3"]] {
        check_mermaid(&dir.run(["org", "graph"].into_iter().chain(part)));
    }
}

#[test]
fn a_graph_of_an_agent_or_a_team_has_only_what_it_reaches() {
    let dir = example();
    insta::assert_snapshot!(dir.run(["org", "graph", "--agent", "agent-catalyst"]), @r#"
    flowchart LR
        subgraph team2["HR"]
            agent0(["Catalyst"])
        end
        subgraph private_folders["Private folders"]
            agent0_private[("Catalyst (HR) - Private")]
            team2_private[("HR Team - Private")]
        end
        subgraph team_folders["Shared folders of teams"]
            team0_shared[("Development Team - Shared")]
            team1_shared[("External Contractors Team - Shared")]
            team2_shared[("HR Team - Shared")]
            team3_shared[("Leadership Team - Shared")]
            team4_shared[("Library Team - Shared")]
        end
        subgraph agent_folders["Shared folders of agents"]
            agent0_shared[("Catalyst (HR) - Shared")]
            agent5_shared[("Marcus (HR) - Shared")]
        end
        agent0 -->|RW| agent0_private
        agent0 -->|RW| agent0_shared
        agent0 -->|RW| team2_private
        agent0 -.->|RO| team0_shared
        agent0 -.->|RO| team1_shared
        agent0 -->|RW| team2_shared
        agent0 -.->|RO| team3_shared
        agent0 -.->|RO| team4_shared
        agent0 -.->|RO| agent5_shared
    "#);
    insta::assert_snapshot!(dir.run(["org", "graph", "--team", "team-leadership"]), @r#"
    flowchart LR
        subgraph team3["Leadership"]
            agent2(["Elena"])
        end
        subgraph private_folders["Private folders"]
            team3_private[("Leadership Team - Private")]
            agent2_private[("Elena (Leadership) - Private")]
        end
        subgraph team_folders["Shared folders of teams"]
            team0_shared[("Development Team - Shared")]
            team1_shared[("External Contractors Team - Shared")]
            team2_shared[("HR Team - Shared")]
            team3_shared[("Leadership Team - Shared")]
            team4_shared[("Library Team - Shared")]
        end
        subgraph agent_folders["Shared folders of agents"]
            agent0_shared[("Catalyst (HR) - Shared")]
            agent1_shared[("Dana (Development) - Shared")]
            agent2_shared[("Elena (Leadership) - Shared")]
            agent3_shared[("Iris (Library) - Shared")]
            agent4_shared[("Ivy (Development) - Shared")]
            agent5_shared[("Marcus (HR) - Shared")]
            agent6_shared[("Nomad - Shared")]
            agent7_shared[("Quinn (External Contractors) - Shared")]
        end
        team3 -.->|RO| team_folders
        team3 -->|RW| team3_private
        team3 -->|RW| team3_shared
        team3 -.->|RO| agent_folders
        agent2 -->|RW| agent2_private
        agent2 -->|RW| agent2_shared
    "#);
}

#[test]
fn f146_and_f148_org_migrate_moves_the_older_layout_and_reports_what_it_cannot_move() {
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        "[stores.s]\nkind = \"physical\"\npath = \"data\"\n[[organization]]\nid = \"acme\"\nstore = \"s\"\n\
         agents = [{ id = \"ann\" }, { id = \"ben\" }]\n",
    );
    dir.file("data/organizations/acme/agents/ann/private/a.md", "ann's");
    dir.file("data/organizations/acme/agents/ben/private/b.md", "old");
    dir.file("data/organizations/acme/workspaces/ben/private/b.md", "new");
    let planned = dir.stead(["org", "migrate", "--dry-run"]);
    let text = String::from_utf8(planned.stdout).unwrap();
    assert!(text.starts_with("Would move /organizations/acme/agents/ann to "), "{text}");
    assert!(dir.path("data/organizations/acme/agents/ann").exists());
    let done = dir.stead(["org", "migrate"]);
    assert_eq!(done.status.code(), Some(1), "something could not be moved");
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("Not moved: /organizations/acme/agents/ben: "), "{text}");
    let read =
        |path: &str| std::fs::read_to_string(dir.path(&format!("data/organizations/acme/{path}"))).unwrap();
    assert_eq!(read("workspaces/ann/private/a.md"), "ann's");
    assert_eq!(
        (read("agents/ben/private/b.md"), read("workspaces/ben/private/b.md")),
        ("old".into(), "new".into())
    );
}

/// An organization in the older layout, with a file of the agent `ann`, and an operator that reaches all of the Store.
fn older_layout(store: &str) -> TestDir {
    let dir = TestDir::empty();
    dir.file("files/.keep", "");
    dir.file(
        "stead.toml",
        &format!(
            "[stores.s]\n{store}\n[agents.op]\nhistory = true\n\
             workspaces = [{{ prefix = \"/w\", store = \"s\", scope = \"rw\" }}]\n\
             [[organization]]\nid = \"acme\"\nstore = \"s\"\n\
             toolWhitelist = [\"read_file\", \"write_file\", \"undo\", \"restore\"]\n\
             teams = [{{ id = \"hr\" }}, {{ id = \"lib\" }}]\n\
             agents = [{{ id = \"ann\", teamId = \"hr\" }}, {{ id = \"bob\" }}]\n"
        ),
    );
    for args in [
        &["mkdir", "-p", "/w/organizations/acme/agents/ann/private", "--agent", "op"][..],
        &["write", "/workspaces/ann/private/a.md", "one", "--agent", "ann"],
    ] {
        assert!(dir.stead(args.iter().copied()).status.success(), "{args:?}");
    }
    dir
}

const STORES: [&str; 2] = ["kind = \"virtual\"", "kind = \"physical\"\npath = \"files\""];

#[test]
fn f146_s24_a_restore_to_before_the_migration_removes_nothing() {
    for store in STORES {
        let dir = older_layout(store);
        dir.run(["snapshot", "--label", "before", "--agent", "ann"]);
        assert!(dir.stead(["org", "migrate"]).status.success());
        let read = || dir.run(["cat", "/workspaces/ann/private/a.md", "--agent", "ann"]);
        assert_eq!(read(), "one");
        let all = dir.run(["restore", "/", "before", "--agent", "ann"]);
        assert!(!all.contains("removed"), "{all}");
        assert!(
            all.contains(
                "left out   /workspaces/ann/private: the directory of this Workspace was at another place"
            ),
            "{all}"
        );
        for path in ["/workspaces/ann/private", "/workspaces/ann/private/a.md"] {
            let refused = dir.run(["restore", path, "before", "--agent", "ann"]);
            assert!(
                refused
                    .contains("`/workspaces/ann/private` can't be restored: the directory of this Workspace"),
                "{refused}"
            );
            assert!(!refused.contains("organizations"), "no path of the Store: {refused}");
        }
        assert_eq!(read(), "one");
        // What has happened since can be restored.
        dir.run(["snapshot", "--label", "after", "--agent", "ann"]);
        dir.run(["write", "/workspaces/ann/private/a.md", "two", "--agent", "ann"]);
        dir.run(["restore", "/", "after", "--agent", "ann"]);
        assert_eq!(read(), "one");
    }
}

/// An agent with the Workspaces `/x` and `/y`, whose directories in one Store don't exist yet.
fn two_workspaces(store: &str) -> TestDir {
    let dir = TestDir::empty();
    dir.file("files/.keep", "");
    let workspace =
        |name: &str| format!("{{ prefix = \"/{name}\", store = \"s\", path = \"/{name}\", scope = \"rw\" }}");
    let workspaces = [workspace("x"), workspace("y")].join(", ");
    dir.file("stead.toml", &format!("[stores.s]\n{store}\n[agents.a]\nworkspaces = [{workspaces}]\n"));
    dir
}

#[test]
fn s24_a_restore_of_everything_empties_no_workspace_whose_directory_did_not_exist_then() {
    for store in STORES {
        let dir = two_workspaces(store);
        dir.run(["write", "/x/a", "1"]);
        dir.run(["snapshot", "--label", "before"]);
        dir.run(["write", "/x/b", "1"]);
        dir.run(["write", "/y/a", "1"]);
        let all = dir.run(["restore", "/", "before"]);
        assert!(all.contains("removed    /x/b"), "{all}");
        assert!(
            all.contains("left out   /y: the directory of this Workspace didn't exist at that time"),
            "{all}"
        );
        assert_eq!(dir.run(["cat", "/y/a"]), "1");
        // A caller that names the Workspace means it.
        let named = dir.run(["restore", "/y", "before"]);
        assert!(named.contains("removed    /y/a"), "{named}");
    }
}

#[test]
fn f138_check_counts_only_tools_that_exist() {
    let dir = TestDir::empty();
    dir.file(
        "stead.toml",
        "[stores.s]\nkind = \"virtual\"\n[[organization]]\nid = \"acme\"\nstore = \"s\"\n\
         toolWhitelist = [\"read_file\", \"raed_file\", \"teleport\"]\nteams = []\nagents = [{ id = \"ann\" }]\n",
    );
    let text = dir.run(["org", "check"]);
    assert!(text.contains("1 allowed tool."), "{text}");
}

#[test]
fn s26_a_restore_says_what_of_it_cannot_be_undone() {
    let dir = TestDir::empty();
    dir.file("files/.keep", "");
    dir.file(
        "stead.toml",
        "[stores.s]\nkind = \"physical\"\npath = \"files\"\nkeep = { file_bytes = \"10B\" }\n\
         [agents.a]\nworkspaces = [{ prefix = \"/w\", store = \"s\", scope = \"rw\" }]\n",
    );
    dir.run(["snapshot", "--label", "before"]);
    dir.run(["write", "/w/large", "more than ten bytes"]);
    dir.run(["write", "/w/small", "few"]);
    let lost = "not kept   /w/large: its present content is too large to be kept, so this can't be undone";
    let planned = dir.run(["restore", "/", "before", "--dry-run"]);
    assert!(planned.contains(lost) && !planned.contains("/w/small:"), "{planned}");
    let done = dir.run(["restore", "/", "before"]);
    assert!(done.contains(lost), "{done}");
    assert!(done.contains("`stead undo` undoes the restore, except for what isn't kept."), "{done}");
}

#[test]
fn s26_a_change_says_that_it_cannot_be_undone() {
    let dir = TestDir::empty();
    dir.file("files/.keep", "");
    dir.file(
        "stead.toml",
        "[stores.s]\nkind = \"physical\"\npath = \"files\"\nkeep = { file_bytes = \"10B\" }\n\
         [agents.a]\nworkspaces = [{ prefix = \"/w\", store = \"s\", scope = \"rw\" }]\n\
         [agents.b]\nworkspaces = [{ prefix = \"/w\", store = \"s\", scope = \"wo\" }]\n",
    );
    let large = "more than ten bytes";
    let lost = "This can't be undone: the old content is too large to be kept.";
    let is_said =
        |arguments: &[&str]| dir.run(["--agent", "a"].iter().chain(arguments).copied()).contains(lost);
    let fill =
        || ["/w/large", "/w/t/one", "/w/t/two"].map(|path| dir.run(["--agent", "a", "write", path, large]));
    fill();
    assert!(is_said(&["write", "/w/large", "few"]));
    assert!(!is_said(&["write", "/w/large", large]));
    assert!(is_said(&["edit", "/w/large", "more", "fewer"]));
    assert!(is_said(&["rm", "/w/large"]));
    let removed = dir.run(["--agent", "a", "rm", "-r", "/w/t"]);
    assert!(removed.contains("This can't be undone whole: 2 files were too large to be kept."), "{removed}");
    fill();
    assert!(is_said(&["cp", "--overwrite", "/w/large", "/w/t/one"]));
    assert!(is_said(&["mv", "--overwrite", "/w/large", "/w/t/two"]));
    fill();
    for (arguments, not_kept) in [
        (&["write", "/w/large", "few"][..], Some(1)),
        (&["write", "/w/large", "fewer"], None),
        (&["rm", "-r", "/w/t"], Some(2)),
    ] {
        let printed = dir.run(["--agent", "a", "--json"].iter().chain(arguments).copied());
        let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(printed["not_kept"].as_u64(), not_kept, "{printed}");
    }
    fill();
    let call = |agent, tool, arguments: &str| dir.run(["--agent", agent, "call", tool, arguments]);
    let deleted = call("a", "delete_file", r#"{"path": "/w/large"}"#);
    assert!(deleted.contains("can't be undone: the old content is too large to be kept"), "{deleted}");
    // Where the caller may not read, the answer doesn't depend on what was there.
    fill();
    let replaced = call("b", "write_file", r#"{"path": "/w/large", "content": "few"}"#);
    assert!(!replaced.contains("undone"), "{replaced}");
    let removed = dir.run(["--agent", "b", "rm", "-r", "/w/t"]);
    assert!(!removed.contains("undone"), "{removed}");
}

#[test]
fn s25_a_list_of_workspaces_that_cannot_be_shown_says_why() {
    let dir = two_workspaces(STORES[1]);
    let written = dir.run(["write", "/x/a", "1"]);
    assert!(written.contains("Created"), "{written}");
    for path in ["/", "/x"] {
        let refused = dir.run(["ls", path, "--at", "1"]);
        assert!(refused.contains("can only be read as of a snapshot"), "{path}: {refused}");
    }
}

#[test]
fn s26_an_earlier_version_is_read_though_another_workspace_has_a_newer_fork() {
    for store in STORES {
        let dir = two_workspaces(store);
        dir.run(["write", "/x/a", "1"]);
        dir.run(["write", "/y/a", "1"]);
        dir.run(["snapshot", "--label", "early"]);
        let before = ["cat", "ls"].map(|command| dir.run([command, "/x/a", "--at", "1"]));
        dir.run(["fork", "/y", "yf"]);
        let after = ["cat", "ls"].map(|command| dir.run([command, "/x/a", "--at", "1"]));
        assert_eq!(before, after);
        assert!(!after.concat().contains("forks"), "{after:?}");
    }
}
