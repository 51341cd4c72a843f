//! Whitelists: which tools an agent is offered, and that no other one runs.

use std::fs;

use serde_json::json;

use crate::office::{Office, wait_until};

const ALL_TOOLS: [&str; 5] =
    ["delete_file_by_id", "get_file_info_by_id", "list_folders", "read_file_by_id", "write_file_by_id"];

/// The four organizations of the specification in one: the tools of the organization, of the team and of the agent.
fn office(org: &str, team: &str, agent: &str) -> Office {
    let office = Office::example();
    let list = |tools: &str| match tools {
        "" => String::new(),
        tools => format!(r#", "toolWhitelist": [{tools}]"#),
    };
    office.replace("acme/org.json", &format!(r#"{{ "id": "acme"{} }}"#, list(org)));
    office.replace("acme/teams.json", &format!(r#"[{{ "id": "team", "name": "Team"{} }}]"#, list(team)));
    let agent = format!(r#"[{{ "id": "alice", "name": "Alice", "teamId": "team"{} }}]"#, list(agent));
    office.replace("acme/agents.json", &agent);
    office
}

fn quoted(tools: &[&str]) -> String {
    tools.iter().map(|tool| format!("\"{tool}\"")).collect::<Vec<_>>().join(", ")
}

fn without<'a>(tools: &[&str]) -> Vec<&'a str> {
    ALL_TOOLS.into_iter().filter(|tool| !tools.contains(tool)).collect()
}

#[test]
fn f134_f139_f140_an_agent_is_offered_the_tools_that_all_three_levels_allow_and_can_run_no_other() {
    let reading = without(&["write_file_by_id", "delete_file_by_id"]);
    let no_delete = without(&["delete_file_by_id"]);
    let contractor = ["list_folders", "read_file_by_id"];
    let four = without(&["get_file_info_by_id"]);
    for (who, org, team, agent, expected) in [
        ("a developer", &ALL_TOOLS[..], &[][..], &[][..], &ALL_TOOLS[..]),
        ("an intern", &ALL_TOOLS, &[], &reading, &reading),
        ("HR", &ALL_TOOLS, &no_delete, &[], &no_delete),
        ("a contractor", &four, &contractor, &four, &contractor),
    ] {
        let office = office(&quoted(org), &quoted(team), &quoted(agent));
        let server = office.serve();
        let mut alice = server.connect("acme/alice");
        assert_eq!(alice.tools(), expected, "{who}");
        let id = alice.id("my_private", "alice/private");
        let arguments = json!({ "folderId": id, "filename": "a.md", "content": "x" });
        let mut refused = Vec::new();
        for tool in ALL_TOOLS.into_iter().chain(["read_file", "write_file", "undo"]) {
            if expected.contains(&tool) {
                continue;
            }
            let error = alice.error(tool, arguments.clone());
            let start =
                format!("`{tool}` is not enabled for your organization, team or role; your tools are ");
            assert!(error.starts_with(&start) && error.ends_with(" [denied]"), "{who}: {error}");
            refused.push(tool);
        }
        // An agent that may write can, and a refused call has changed nothing.
        let may_write = expected.contains(&"write_file_by_id");
        assert_eq!(alice.write(&id, "a.md", "x").is_ok(), may_write, "{who}");
        assert_eq!(office.host_path("alice/private", "a.md").exists(), may_write, "{who}");
        server.stop();
        for tool in refused {
            assert_eq!(office.audit(tool)[0]["outcome"], "denied", "{who}: {tool}");
        }
    }
}

#[test]
fn f135_and_f136_an_organization_without_a_list_and_an_empty_list_at_any_level_offer_nothing() {
    let all = quoted(&ALL_TOOLS);
    let empty = " ";
    for (org, team, agent) in [
        ("", "", ""),
        ("", "", &*all),
        (empty, "", ""),
        (&*all, empty, ""),
        (&*all, "", empty),
        (&*all, empty, &*all),
    ] {
        let office = office(org, team, agent);
        let server = office.serve();
        let mut alice = server.connect("acme/alice");
        assert!(alice.tools().is_empty(), "{org:?} {team:?} {agent:?}");
        let error = alice.error("list_folders", json!({ "scope": "my_private" }));
        assert!(error.ends_with("no tools are offered to you [denied]"), "{error}");
    }
}

#[test]
fn f137_f138_f141_f142_an_unknown_name_is_skipped_and_a_changed_list_holds_for_those_connected() {
    let office = office(&quoted(&["list_folders", "read_file_by_id", "make_coffee"]), "", "");
    let server = office.serve();
    let mut alice = server.connect("acme/alice");
    assert_eq!(alice.tools(), ["list_folders", "read_file_by_id"]);
    assert!(office.stead(["org", "check"]).contains("`make_coffee`"));
    office.change_records("org.json", "\"make_coffee\"", "\"write_file_by_id\"");
    wait_until("the list has one more tool", || alice.tools().len() == 3);
    let id = alice.id("my_private", "alice/private");
    alice.write(&id, "a.md", "x").unwrap();
    // The older form of a rule takes the tool away again.
    let agents = fs::read_to_string(office.path("acme/agents.json")).unwrap();
    let with_blacklist =
        agents.replace("\"teamId\"", "\"toolBlacklist\": [\"write_file_by_id\"], \"teamId\"");
    office.replace("acme/agents.json", &with_blacklist);
    wait_until("the tool is taken away", || alice.tools().len() == 2);
    let error = alice.write(&id, "a.md", "y").unwrap_err();
    assert!(error.starts_with("`write_file_by_id` is not enabled"), "{error}");
    assert_eq!(fs::read(office.host_path("alice/private", "a.md")).unwrap(), b"x");
}

#[test]
fn f139_resources_are_read_only_where_the_whitelist_has_read_file() {
    let office = office(&quoted(&["list_folders", "read_file_by_id"]), "", "");
    office.stead(["write", "/workspaces/alice/private/a.md", "content", "--agent", "alice"]);
    let server = office.serve();
    let mut alice = server.connect("acme/alice");
    let read = |alice: &mut crate::office::Client| alice.resource("stead:///workspaces/alice/private/a.md");
    let refusal = read(&mut alice).unwrap_err();
    assert!(refusal.contains("reading is not enabled for your organization, team or role"), "{refusal}");
    office.change_records("org.json", "\"list_folders\"", "\"list_folders\", \"read_file\"");
    wait_until("the resource can be read", || read(&mut alice).is_ok_and(|text| text == "content"));
}

#[test]
fn f154_f166_the_audit_is_found_by_an_agents_bare_id() {
    let office = office(&quoted(&ALL_TOOLS), "", "");
    office.stead(["write", "/workspaces/alice/private/a.md", "content", "--agent", "alice"]);
    let records = |agent: &str| office.stead(["audit", "--json", "--agent", agent, "--call", "write"]);
    let record: serde_json::Value = serde_json::from_str(records("alice").trim()).unwrap();
    assert_eq!(
        (&record["agent"], &record["organization"]),
        (&json!("acme/alice"), &json!("acme")),
        "{record}"
    );
    assert_eq!(records("alice"), records("acme/alice"));
    assert_eq!(records("nobody"), "");
}
