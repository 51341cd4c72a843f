//! How the records of organizations are read, and what a person is told about them. Messages are compared as a whole.
#![allow(clippy::unwrap_used)]

use std::fs;

use stead::AccessScope;
use stead::config::{Config, RecordKind};
use stead::organization::{Folder, Organization, Visibility};

const STORE: &str = "[stores.shared]\nkind = \"memory\"\n";
const ORGANIZATION: &str = "[[organization]]\npath = \"acme\"\nstore = \"shared\"\n";
const ORG: &str = r#"{"id": "acme", "name": "Acme", "toolWhitelist": ["read_file", "write_file"]}"#;
const TEAMS: &str = r#"[{"id": "team-hr", "name": "HR"}]"#;
const AGENTS: &str = r#"[{"id": "agent-marcus", "name": "Marcus", "teamId": "team-hr"}]"#;

/// A directory with a configuration and records.
struct Records(tempfile::TempDir);

impl Records {
    fn new(organization: &str, teams: &str, agents: &str) -> Self {
        let records = Records(tempfile::tempdir().unwrap());
        records.write("stead.toml", &format!("{STORE}{ORGANIZATION}"));
        records.write_organization("acme", organization, teams, agents);
        records
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn write_organization(&self, directory: &str, organization: &str, teams: &str, agents: &str) {
        fs::create_dir(self.0.path().join(directory)).unwrap();
        for (name, text) in [("org", organization), ("teams", teams), ("agents", agents)] {
            self.write(&format!("{directory}/{name}.json"), text);
        }
    }

    fn config(&self) -> Config {
        Config::load(&self.0.path().join("stead.toml")).unwrap()
    }

    fn organization(&self) -> Organization {
        Organization::clone(&self.config().organizations[0].organization)
    }

    /// The mistakes, or else the warnings, without the temporary directory.
    fn messages(&self) -> String {
        let text = match Config::load(&self.0.path().join("stead.toml")) {
            Ok(config) => {
                let warning = |warning: &stead::config::ConfigDiagnostic| {
                    let file = warning.file.as_deref().unwrap_or(config.file()).display();
                    format!("{file}:{warning}")
                };
                config.warnings().iter().map(warning).collect::<Vec<_>>().join("\n")
            }
            Err(error) => error.to_string(),
        };
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

#[test]
fn teams_and_agents_are_lists_or_objects_with_ids_as_keys() {
    let lists = Records::new(ORG, TEAMS, AGENTS);
    let objects = Records::new(
        ORG,
        r#"{"team-hr": {"name": "HR"}}"#,
        r#"{"agent-marcus": {"id": "agent-marcus", "name": "Marcus", "teamId": "team-hr"}}"#,
    );
    assert_eq!(lists.organization(), objects.organization());
    assert_eq!((lists.messages(), objects.messages()), (String::new(), String::new()));
    let acme = lists.organization();
    let (marcus, hr) = (acme.agent_index("agent-marcus").unwrap(), acme.team_index("team-hr").unwrap());
    let folder = Folder::of_team(hr, Visibility::Private);
    assert_eq!(acme.access(marcus, folder), Some(AccessScope::ReadWrite));
    let config = lists.config();
    let file = config.organizations[0].record_file(RecordKind::Agents).unwrap();
    assert!(file.ends_with("acme/agents.json"));
}

#[test]
fn a_key_that_differs_from_the_id_of_its_record_is_an_error() {
    let records = Records::new(ORG, r#"{"team-hr": {"id": "team-dev"}}"#, "[]");
    insta::assert_snapshot!(records.messages(), @"acme/teams.json:1:13: the `id` of this record is `team-dev`, but its key is `team-hr`");
}

#[test]
fn the_teams_of_the_organization_limit_the_teams_that_count() {
    let teams = r#"[{"id": "team-hr"}, {"id": "team-dev"}]"#;
    let agents = r#"[{"id": "a", "teamId": "team-hr"},
 {"id": "b", "teamId": "team-dev"}]"#;
    for listed in [r#"["team-hr", "gone"]"#, r#"[{"id": "team-hr"}, {"id": "gone", "name": "Gone"}]"#] {
        let organization =
            format!("{{\"id\": \"acme\", \"toolWhitelist\": [\"read_file\"],\n\"teams\": {listed}}}");
        let records = Records::new(&organization, teams, agents);
        insta::allow_duplicates! {
            insta::assert_snapshot!(records.messages(), @r"
            acme/agents.json:2:24: there is no team `team-dev`, so the agent counts as one without a team
            acme/org.json:2:10: there is no team `gone`
            ");
        }
        let acme = records.organization();
        assert_eq!(acme.teams().map(|(_, team)| &*team.id).collect::<Vec<_>>(), ["team-hr"]);
        assert!(acme.team_of(acme.agent_index("b").unwrap()).is_none());
    }
}

#[test]
fn unknown_fields_and_fields_that_are_null_are_ignored() {
    let organization = r#"{"id": "acme", "name": "Acme", "toolWhitelist": ["read_file", "write_file"], "plan": {"seats": 3}}"#;
    let teams = r#"[{"id": "team-hr", "name": "HR", "colour": "red", "leadership": null}]"#;
    let agents = r#"[{"id": "agent-marcus", "name": "Marcus", "teamId": "team-hr", "toolWhitelist": null}]"#;
    let records = Records::new(organization, teams, agents);
    assert_eq!(records.messages(), "");
    assert_eq!(records.organization(), Records::new(ORG, TEAMS, AGENTS).organization());
}

#[test]
fn a_wrong_type_and_a_missing_id_are_errors_with_file_line_and_field() {
    let organization = r#"{
  "name": 7,
  "toolWhitelist": "read_file",
  "teams": [1]
}"#;
    let teams = r#"[
  {"name": "HR"},
  "team-dev",
  {"id": "x", "leadership": "yes"}
]"#;
    let agents = r#"[
  {"id": 5},
  {"id": "a", "teamId": ["x"]},
  {"id": "b", "toolWhitelist": ["read_file", null]}
]"#;
    insta::assert_snapshot!(Records::new(organization, teams, agents).messages(), @r"
    acme/agents.json:2:10: `id` has to be text
    acme/agents.json:3:25: `teamId` has to be text
    acme/agents.json:4:46: `toolWhitelist` has to be a list of texts
    acme/org.json:1:1: the field `id` is missing
    acme/org.json:2:11: `name` has to be text
    acme/org.json:3:20: `toolWhitelist` has to be a list of texts
    acme/org.json:4:13: `teams` has to be a list of texts
    acme/teams.json:2:3: the field `id` is missing
    acme/teams.json:3:3: entry 1 of `teams` has to be an object
    acme/teams.json:4:29: `leadership` has to be true or false
    ");
    insta::assert_snapshot!(Records::new("[]", "7", "").messages(), @r"
    acme/agents.json:1:1: the file is empty
    acme/org.json:1:1: `org.json` has to be an object
    acme/teams.json:1:1: `teams.json` has to be a list, or an object with the ids as its keys
    ");
}

#[test]
fn text_that_is_not_json_is_an_error_with_its_place() {
    let records = Records::new("{\"id\": \"acme\",}", "[{\"id\": \"a\"}\n {\"id\": \"b\"}]", "// none\n[]");
    insta::assert_snapshot!(records.messages(), @r"
    acme/agents.json:1:1: this isn't valid JSON: Comments are not allowed
    acme/org.json:1:14: this isn't valid JSON: Trailing commas are not allowed
    acme/teams.json:1:13: this isn't valid JSON: Expected comma
    ");
}

#[test]
fn a_file_that_is_missing_is_an_error_without_its_directory() {
    let records = Records::new(ORG, TEAMS, AGENTS);
    fs::remove_file(records.0.path().join("acme/teams.json")).unwrap();
    insta::assert_snapshot!(records.messages(), @"stead.toml:3:1: the records `teams.json` of the organization can't be read: there is no such file or directory");
}

#[test]
fn an_id_belongs_to_one_agent_or_one_team_across_the_files() {
    let agents = r#"[{"id": "agent-marcus"}, {"id": "agent-marcus"},
 {"id": "team-hr"}, {"id": "TEAM-HR"}, {"id": "a/b"},
 {"id": "Stead.toml"}]"#;
    insta::assert_snapshot!(Records::new(ORG, TEAMS, agents).messages(), @r"
    acme/agents.json:1:33: two records have the id `agent-marcus`; an id belongs to one agent or one team
    acme/agents.json:2:9: two records have the id `team-hr`; an id belongs to one agent or one team
    acme/agents.json:2:28: the ids `team-hr` and `TEAM-HR` differ only in case; choose others
    acme/agents.json:2:47: `a/b` can't be used as an id, because an id is also the name of a directory; use 1 to 128 bytes without `/`, `\` or invisible characters, and not `.`, `..`, `.stead` or `stead.toml`
    acme/agents.json:3:9: `Stead.toml` can't be used as an id, because an id is also the name of a directory; use 1 to 128 bytes without `/`, `\` or invisible characters, and not `.`, `..`, `.stead` or `stead.toml`
    ");
}

#[test]
fn f138_an_unknown_tool_is_warned_of_at_its_level_and_the_others_work() {
    let organization = r#"{"id": "acme",
 "toolWhitelist": ["read_file", "write_fil", "fly"]}"#;
    let agents = r#"[{"id": "a",
  "toolWhitelist": ["read_file", "swim"]}]"#;
    let records = Records::new(organization, "[]", agents);
    insta::assert_snapshot!(records.messages(), @r"
    acme/agents.json:2:20: there is no tool `swim`, so its name has no effect
    acme/org.json:2:19: there is no tool `fly`, so its name has no effect
    acme/org.json:2:19: there is no tool `write_fil`, so its name has no effect; did you mean `write_file`?
    ");
    let acme = records.organization();
    let tools = acme.allowed_tools(acme.agent_index("a").unwrap());
    assert_eq!(tools.into_iter().collect::<Vec<_>>(), ["read_file"]);
}

#[test]
fn f142_the_older_tools_and_blacklists_count_and_are_warned_of() {
    let organization = r#"{"id": "acme",
 "tools": ["read_file", {"name": "write_file", "config": {}}, {"name": "delete_file"}, "glob"]}"#;
    let teams = r#"[{"id": "team-hr",
  "toolBlacklist": ["delete_file"]}]"#;
    let agents = r#"{"a": {"teamId": "team-hr",
  "toolBlacklist": ["write_file"]}}"#;
    let records = Records::new(organization, teams, agents);
    insta::assert_snapshot!(records.messages(), @r"
    acme/agents.json:2:3: `toolBlacklist` is deprecated; list the tools that are allowed as `toolWhitelist`
    acme/org.json:2:2: `tools` is deprecated; list the tools that are allowed as `toolWhitelist`
    acme/teams.json:2:3: `toolBlacklist` is deprecated; list the tools that are allowed as `toolWhitelist`
    ");
    let acme = records.organization();
    let tools = acme.allowed_tools(acme.agent_index("a").unwrap());
    assert_eq!(tools.into_iter().collect::<Vec<_>>(), ["glob", "read_file"]);
}

#[test]
fn f142_a_whitelist_counts_instead_of_the_older_tools() {
    let organization = r#"{"id": "acme", "tools": ["glob"], "toolWhitelist": ["read_file"]}"#;
    let records = Records::new(organization, "[]", r#"[{"id": "a"}]"#);
    let acme = records.organization();
    let tools = acme.allowed_tools(acme.agent_index("a").unwrap());
    assert_eq!(tools.into_iter().collect::<Vec<_>>(), ["read_file"]);
}

#[test]
fn a_record_that_leaves_no_tools_is_warned_of_once() {
    let teams = r#"[{"id": "contractors", "toolWhitelist": []}]"#;
    let agents = r#"[{"id": "a", "teamId": "contractors"}, {"id": "b",
  "toolWhitelist": ["glob"]}]"#;
    insta::assert_snapshot!(Records::new(ORG, teams, agents).messages(), @r"
    acme/agents.json:2:20: no tool is left for the agent: its rule allows none that its team and the organization allow
    acme/teams.json:1:41: the team allows none of the organization's tools, so its members have none
    ");
    let no_list = Records::new(r#"{"id": "acme"}"#, teams, agents);
    insta::assert_snapshot!(no_list.messages(), @"acme/org.json:1:1: the organization allows no tools, so its agents have none; list some in `toolWhitelist`");
}

#[test]
fn f166_an_agent_is_named_by_its_id_where_that_is_unique_and_by_organization_and_id_always() {
    let records = Records::new(ORG, TEAMS, r#"[{"id": "marcus"}, {"id": "elena"}, {"id": "coder"}]"#);
    let organization = ORG.replace("acme", "globex");
    records.write_organization("globex", &organization, "[]", r#"[{"id": "marcus"}, {"id": "hank"}]"#);
    let globex = ORGANIZATION.replace("acme", "globex");
    let coder = "[[agents.coder.workspaces]]\nprefix = \"/notes\"\nscope = \"rw\"\nstore = \"shared\"\n";
    records.write("stead.toml", &format!("{STORE}{ORGANIZATION}{globex}{coder}"));
    let config = records.config();
    let full = |name: &str| config.full_agent_name(name).map_err(|error| error.to_string());
    assert_eq!(full("elena").unwrap(), "acme/elena");
    assert_eq!(full("hank").unwrap(), "globex/hank");
    assert_eq!(full("globex/marcus").unwrap(), "globex/marcus");
    assert_eq!(full("coder").unwrap(), "coder", "an agent of `agents` comes first");
    assert_eq!(full("acme/coder").unwrap(), "acme/coder");
    assert_eq!(full("nobody").unwrap(), "nobody");
    assert_eq!(
        full("marcus").unwrap_err(),
        "several organizations have the agent `marcus`; write one of acme/marcus, globex/marcus"
    );
    // Nothing crosses from one organization to the other.
    let prefixes = |name: &str| -> Vec<String> {
        let agent = config.agent(name).unwrap().into_owned();
        agent.workspaces.iter().map(|workspace| format!("{} {}", workspace.prefix, workspace.path)).collect()
    };
    let of_globex = prefixes("globex/marcus");
    assert!(of_globex.iter().all(|text| text.contains("/organizations/globex/")), "{of_globex:?}");
    assert!(config.member("acme/hank").is_none() && !config.has_agent("globex/elena"));
    assert_eq!(config.identity("acme/elena").organization.as_deref(), Some("acme"));
    assert_eq!(config.identity("coder").organization, None);
}

#[test]
fn f166_two_organizations_with_one_id_and_an_agent_named_like_an_organization_are_errors() {
    let records = Records::new(ORG, TEAMS, AGENTS);
    let agents = ["acme", "\"acme/x\""].map(|name| {
        format!("[[agents.{name}.workspaces]]\nprefix = \"/a\"\nscope = \"ro\"\nstore = \"shared\"\n")
    });
    records.write("stead.toml", &format!("{STORE}{ORGANIZATION}{}", agents[0]));
    insta::assert_snapshot!(records.messages(), @"stead.toml:3:1: an agent's name begins with the organization's id `acme`; choose another name for the agent");
    records.write("stead.toml", &format!("{STORE}{ORGANIZATION}{}", agents[1]));
    insta::assert_snapshot!(records.messages(), @"stead.toml:3:1: an agent's name begins with the organization's id `acme`; choose another name for the agent");
    records.write("stead.toml", &format!("{STORE}{ORGANIZATION}{ORGANIZATION}"));
    insta::assert_snapshot!(records.messages(), @"stead.toml:6:1: two organizations have the id `acme`; give each its own");
}

#[test]
fn records_in_the_configuration_file_are_those_of_the_json_files() {
    let inline = |rest: &str| {
        format!(
            "{STORE}[[organization]]
store = \"shared\"
id = \"acme\"
name = \"Acme\"
toolWhitelist = [\"read_file\", \"write_file\"]
[[organization.teams]]
id = \"team-hr\"
name = \"HR\"
[[organization.agents]]
id = \"agent-marcus\"
name = \"Marcus\"
teamId = \"team-hr\"
{rest}"
        )
    };
    let records = Records::new(ORG, TEAMS, AGENTS);
    let from_files = records.organization();
    records.write("stead.toml", &inline(""));
    assert_eq!(records.organization(), from_files);
    assert_eq!(records.config().organizations[0].record_file(RecordKind::Agents), None);
    let mistakes = "toolWhitelist = [\"fly\"]
[[organization.agents]]
id = \"b\"
teamId = \"gone\"
";
    records.write("stead.toml", &inline(mistakes));
    insta::assert_snapshot!(records.messages(), @r"
    stead.toml:15:17: no tool is left for the agent: its rule allows none that its team and the organization allow
    stead.toml:15:17: there is no tool `fly`, so its name has no effect
    stead.toml:18:10: there is no team `gone`, so the agent counts as one without a team
    ");
    records.write("stead.toml", &inline("colour = \"red\"\n[[organization.agents]]\nname = \"No id\"\n"));
    insta::assert_snapshot!(records.messages(), @r"
    stead.toml:15:1: `colour` isn't a known key of `organization.agents`; it takes `id`, `name`, `teamId` and `toolWhitelist`
    stead.toml:16:1: `organization.agents` needs `id`: its id
    ");
}

#[test]
fn an_unknown_agent_is_answered_with_the_one_that_was_probably_meant() {
    let config = Records::new(ORG, TEAMS, AGENTS).config();
    let message = |name: &str| stead::Error::unknown_agent(&config, name).to_string();
    for name in ["agent-markus", "acme/agent-marcu", "marcus", "Marcos"] {
        assert!(message(name).ends_with("; did you mean `acme/agent-marcus`?"), "{}", message(name));
    }
    assert_eq!(message("nobody"), "there is no agent `nobody`; there are `acme/agent-marcus`");
}
