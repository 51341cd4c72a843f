//! Organizations behind the facade: what an agent reaches by its records, on Physical and Virtual Stores.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use stead::{Config, ErrorKind, Stead};
use stead_core::VfsPath;
use stead_core::vfs::{ListPage, LogAction, LogQuery, Overwrite, PointInTime, UndoOptions, UndoTarget};
use tempfile::TempDir;

const ORG: &str = r#"{ "id": "acme", "name": "Acme", "toolWhitelist": ["read_file", "write_file"] }"#;
const TEAMS: &str = r#"[
    { "id": "team-hr", "name": "HR" },
    { "id": "team-fin", "name": "Finance" },
    { "id": "team-lead", "name": "Leadership", "leadership": true }
]"#;
const AGENTS: &str = r#"{
    "marcus": { "name": "Marcus", "teamId": "team-hr" },
    "catalyst": { "name": "Catalyst", "teamId": "team-hr" },
    "fiona": { "name": "Fiona", "teamId": "team-fin" },
    "elena": { "name": "Elena", "teamId": "team-lead" },
    "solo": { "name": "Solo" }
}"#;

/// An organization on a Store of this kind, with its records in files.
struct Host {
    directory: TempDir,
}

impl Host {
    fn new(kind: &str) -> Host {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("data")).unwrap();
        fs::create_dir_all(directory.path().join("acme")).unwrap();
        let store = match kind {
            "physical" => "kind = \"physical\"\npath = \"data\"",
            kind => &format!("kind = \"{kind}\""),
        };
        let host = Host { directory };
        host.write(
            "stead.toml",
            &format!("[stores.s]\n{store}\n[[organization]]\npath = \"acme\"\nstore = \"s\"\n"),
        );
        host.write("acme/org.json", ORG);
        host.write("acme/teams.json", TEAMS);
        host.write("acme/agents.json", AGENTS);
        host
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces a file as a whole, as a careful editor does.
    fn write(&self, name: &str, text: &str) {
        let temporary = self.path("new");
        fs::write(&temporary, text).unwrap();
        fs::rename(temporary, self.path(name)).unwrap();
    }

    fn config(&self) -> Config {
        Config::load(&self.path("stead.toml")).unwrap()
    }

    fn stead(&self, agent: &str) -> Stead {
        Stead::open(&self.config(), &format!("acme/{agent}")).unwrap()
    }
}

fn on_both_stores(test: impl Fn(&Host)) {
    for kind in ["physical", "virtual"] {
        test(&Host::new(kind));
    }
}

fn log_of(path: &str) -> LogQuery {
    LogQuery { path: Some(VfsPath::parse(path).unwrap()), ..LogQuery::default() }
}

fn denied(result: Result<impl std::fmt::Debug, stead::VfsError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    error.to_string()
}

#[test]
fn f151_path_calls_have_the_rights_of_the_records() {
    on_both_stores(|host| {
        let [marcus, catalyst, fiona, elena] =
            ["marcus", "catalyst", "fiona", "elena"].map(|agent| host.stead(agent));
        for path in [
            "/workspaces/marcus/private/a",
            "/workspaces/marcus/shared/a",
            "/workspaces/team-hr/private/a",
            "/workspaces/team-hr/shared/a",
        ] {
            marcus.vfs().write(path, "1").unwrap();
            assert_eq!(marcus.vfs().read(path).unwrap().bytes, b"1");
        }
        assert!(catalyst.vfs().read("/workspaces/marcus/shared/a").is_ok());
        assert!(elena.vfs().read("/workspaces/marcus/shared/a").is_ok());
        assert!(fiona.vfs().read("/workspaces/team-hr/shared/a").is_ok());
        for (stead, path) in [
            (&catalyst, "/workspaces/marcus/private/a"),
            (&elena, "/workspaces/marcus/private/a"),
            (&elena, "/workspaces/team-hr/private/a"),
            (&fiona, "/workspaces/marcus/shared/a"),
            (&marcus, "/workspaces/marcus/private/../../fiona/private/x"),
        ] {
            let text = denied(stead.vfs().read(path));
            let (asked, rest) = text.split_once("` is in none").unwrap_or(("", &text));
            let other = asked.trim_start_matches('`').trim_end_matches("/a");
            assert!(!rest.contains(other), "a refusal names only what the caller can discover: {text}");
        }
    });
}

#[test]
fn s25_who_moved_a_file_out_of_a_shared_folder_is_in_the_folder_s_log() {
    on_both_stores(|host| {
        let marcus = host.stead("marcus");
        marcus.vfs().write("/workspaces/team-hr/shared/gone.md", "1").unwrap();
        let (from, to) = ("/workspaces/team-hr/shared/gone.md", "/workspaces/marcus/private/taken.md");
        marcus.vfs().rename(from, to, Overwrite::Refuse).unwrap();
        // Fiona can't discover Marcus.
        for (agent, shown, author) in [
            ("marcus", to, "acme/marcus"),
            ("catalyst", from, "acme/marcus"),
            ("fiona", from, "another agent"),
        ] {
            for asked in ["/workspaces/team-hr/shared", from] {
                let log = host.stead(agent).vfs().log(&log_of(asked)).unwrap();
                let newest = &log[0];
                assert_eq!((&*newest.operation.identity.agent, &*newest.operation.tool), (author, "move"));
                assert_eq!(newest.changes.len(), 1, "{newest:?}");
                assert_eq!(newest.changes[0].path.as_str(), shown, "{agent}");
                assert_eq!(agent == "marcus", newest.changes[0].action == LogAction::Moved);
                assert_eq!(agent == "marcus", format!("{log:?}").contains("private"), "{agent}: {log:?}");
            }
        }
    });
}

#[test]
fn f86_f87_f92_a_refusal_names_the_folder_the_team_and_where_writing_is_allowed() {
    on_both_stores(|host| {
        let text = denied(host.stead("marcus").vfs().write("/workspaces/team-fin/shared/x", "1"));
        let expected = "You don't have permission to write to folder 'Finance Team - Shared'. Your team: HR. Scopes you \
                        can write to: my_private, my_shared, team_private, team_shared";
        assert_eq!(text, expected);
        let text = denied(host.stead("solo").vfs().write("/workspaces/team-fin/shared/x", "1"));
        assert!(text.contains("Your team: none. Scopes you can write to: my_private, my_shared"), "{text}");
    });
}

#[test]
fn f145_an_agents_folder_does_not_include_that_of_one_whose_id_begins_alike() {
    on_both_stores(|host| {
        host.write("acme/agents.json", r#"[{ "id": "agent-1" }, { "id": "agent-10" }]"#);
        let ten = host.stead("agent-10");
        ten.vfs().write("/workspaces/agent-10/private/x", "1").unwrap();
        denied(host.stead("agent-1").vfs().read("/workspaces/agent-10/private/x"));
    });
}

#[test]
fn f143_the_first_use_creates_the_agents_and_its_teams_folders_and_nothing_else() {
    let host = Host::new("physical");
    let stead = host.stead("marcus");
    assert!(!host.path("data/organizations").exists(), "opening alone creates nothing");
    for _ in 0..2 {
        stead.folders().unwrap().prepare();
        let workspaces = host.path("data/organizations/acme/workspaces");
        let names = |directory: &Path| -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(directory)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&workspaces), ["marcus", "team-hr"]);
        for owner in ["marcus", "team-hr"] {
            assert_eq!(names(&workspaces.join(owner)), ["private", "shared"]);
        }
    }
}

#[test]
fn f112_and_f113_both_folders_of_an_owner_share_its_quota() {
    on_both_stores(|host| {
        let config = fs::read_to_string(host.path("stead.toml")).unwrap();
        host.write(
            "stead.toml",
            &format!("{config}agent_quota = {{ files = 2 }}\nteam_quota = {{ bytes = \"10B\" }}\n"),
        );
        let stead = host.stead("marcus");
        stead.vfs().write("/workspaces/marcus/private/1", "").unwrap();
        stead.vfs().write("/workspaces/marcus/shared/2", "").unwrap();
        let error = stead.vfs().write("/workspaces/marcus/shared/3", "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Quota, "{error}");
        assert!(error.to_string().contains("only 2 are allowed"), "{error}");
        assert!(!stead.vfs().exists("/workspaces/marcus/shared/3").unwrap());
        stead.vfs().write("/workspaces/team-hr/private/a", "12345678").unwrap();
        let over = host.stead("catalyst").vfs().write("/workspaces/team-hr/shared/b", "123").unwrap_err();
        assert_eq!(over.kind(), ErrorKind::Quota, "the quota is the team's, not the agent's");
    });
}

#[test]
fn s25_a_conflict_of_an_undo_names_what_it_is_about_if_the_caller_may_still_see_it_and_no_other_folder() {
    on_both_stores(|host| {
        let marcus = host.stead("marcus");
        for (half, expected) in [("shared", "/workspaces/team-hr/shared/a"), ("private", "/")] {
            host.write("acme/agents.json", AGENTS);
            std::thread::sleep(Duration::from_millis(40));
            marcus.vfs().write(&*format!("/workspaces/team-hr/{half}/a"), "1").unwrap();
            // Of the other team, he may read what is shared.
            host.write("acme/agents.json", &AGENTS.replacen("team-hr", "team-fin", 1));
            let undone =
                host.stead("marcus").vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
            let paths: Vec<_> = undone.conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
            assert_eq!(paths, [expected], "{undone:?}");
            assert!(undone.conflicts[0].why.contains("not in a Workspace that you may change"), "{undone:?}");
        }
    });
}

#[test]
fn f150_an_agent_sees_the_history_of_its_folders_and_undoes_its_own_changes_there() {
    on_both_stores(|host| {
        let (marcus, catalyst) = (host.stead("marcus"), host.stead("catalyst"));
        marcus.vfs().write("/workspaces/marcus/shared/a", "1").unwrap();
        marcus.vfs().write("/workspaces/marcus/shared/a", "2").unwrap();
        let log = catalyst.vfs().log(&log_of("/workspaces/marcus/shared/a")).unwrap();
        assert_eq!(log.len(), 2, "a team mate reads the history of what it may read");
        let fiona = host.stead("fiona");
        assert_eq!(
            fiona.vfs().log(&log_of("/workspaces/marcus/shared/a")).unwrap_err().kind(),
            ErrorKind::Denied
        );
        let nothing = catalyst.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(nothing.undone.is_empty(), "it undoes only what it did itself");
        marcus.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert_eq!(marcus.vfs().read("/workspaces/marcus/shared/a").unwrap().bytes, b"1");
    });
}

#[test]
fn f69_and_f91_what_the_records_take_away_is_gone_at_the_next_call_now_and_in_the_past() {
    on_both_stores(|host| {
        let (marcus, catalyst) = (host.stead("marcus"), host.stead("catalyst"));
        let file = "/workspaces/team-hr/private/plan";
        catalyst.vfs().write(file, "1").unwrap();
        catalyst.vfs().write("/workspaces/catalyst/shared/c", "1").unwrap();
        let past = marcus.as_of(PointInTime::Now).unwrap();
        assert!(marcus.vfs().read(file).is_ok() && past.vfs().read(file).is_ok());
        host.write(
            "acme/agents.json",
            &AGENTS.replace(r#""name": "Marcus", "teamId": "team-hr""#, r#""name": "Marcus""#),
        );
        let is_gone = |result: Result<(), stead::VfsError>| {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        };
        wait_until(|| marcus.vfs().read(file).is_err());
        is_gone(marcus.vfs().read(file).map(drop));
        is_gone(past.vfs().read(file).map(drop));
        is_gone(marcus.vfs().write(file, "2").map(drop));
        is_gone(marcus.vfs().log(&log_of(file)).map(drop));
        is_gone(marcus.vfs().read("/workspaces/catalyst/shared/c").map(drop));
        is_gone(marcus.vfs().list("/workspaces/team-hr/private", &ListPage::default()).map(drop));
        assert!(marcus.vfs().read("/workspaces/team-hr/shared").is_err());
        marcus.vfs().write("/workspaces/marcus/private/mine", "1").unwrap();
        assert!(catalyst.vfs().read(file).is_ok(), "others keep what they have");
        // A record that is gone, and a file that is gone.
        host.write("acme/agents.json", &AGENTS.replace("\"catalyst\"", "\"someone\""));
        wait_until(|| catalyst.vfs().read(file).is_err());
        is_gone(catalyst.vfs().write("/workspaces/catalyst/private/x", "1").map(drop));
        host.write("acme/agents.json", AGENTS);
        wait_until(|| catalyst.vfs().read(file).is_ok());
        fs::remove_file(host.path("acme/teams.json")).unwrap();
        wait_until(|| catalyst.vfs().read(file).is_err());
        is_gone(marcus.vfs().read("/workspaces/marcus/private/mine").map(drop));
    });
}

#[test]
fn f69_f89_f91_folder_tools_name_nothing_of_a_folder_that_the_records_take_away() {
    on_both_stores(|host| {
        host.write("acme/org.json", &ORG.replace("\"read_file\"", "\"list_folders\", \"read_file_by_id\""));
        let (marcus, catalyst) = (host.stead("marcus"), host.stead("catalyst"));
        catalyst.vfs().write("/workspaces/team-hr/private/plan", "1").unwrap();
        let folders = |scope: &str| {
            let reply = marcus.call("list_folders", json!({ "scope": scope }));
            reply.structured().get("folders").cloned().ok_or_else(|| reply.failure.clone().unwrap().message)
        };
        let id = folders("team_private").unwrap()[0]["folderId"].clone();
        let read = || marcus.call("read_file_by_id", json!({ "folderId": id, "filename": "plan" }));
        assert_eq!(read().failure, None);
        assert!(folders("org_shared").unwrap().to_string().contains("Catalyst"));
        host.write(
            "acme/agents.json",
            &AGENTS.replace(r#""name": "Marcus", "teamId": "team-hr""#, r#""name": "Marcus""#),
        );
        wait_until(|| read().is_failure());
        let expected =
            "You no longer have access to this folder. Use list_folders() to discover current folders.";
        assert_eq!(read().failure.unwrap().message, expected);
        assert_eq!(folders("team_private"), Ok(json!([])));
        let shared = folders("org_shared").unwrap();
        assert_eq!(shared.as_array().unwrap().len(), 3, "the shared folders of teams are left: {shared}");
        // Without a record, an agent isn't told that there are no folders.
        host.write("acme/agents.json", &AGENTS.replace("\"marcus\"", "\"someone\""));
        wait_until(|| folders("my_private").is_err());
        for scope in ["my_private", "team_shared", "org_shared"] {
            assert_eq!(
                folders(scope).unwrap_err(),
                "You have no folders any more: your rights have changed.",
                "{scope}"
            );
        }
    });
}

#[test]
fn f125_permissions_are_those_of_the_records_as_they_are_now() {
    on_both_stores(|host| {
        let tools = "\"list_folders\", \"get_file_info_by_id\"";
        host.write("acme/org.json", &ORG.replace("\"read_file\"", tools));
        let (marcus, catalyst) = (host.stead("marcus"), host.stead("catalyst"));
        catalyst.vfs().write("/workspaces/team-hr/shared/plan", "1").unwrap();
        let found = marcus.call("list_folders", json!({ "scope": "team_shared" })).structured();
        let id = found["folders"][0]["folderId"].clone();
        let permissions = || {
            let file = json!({ "folderId": id, "filename": "plan" });
            marcus.call("get_file_info_by_id", file).structured().get("permissions").cloned()
        };
        assert_eq!(permissions(), Some(json!({ "read": true, "write": true, "delete": true })));
        // In another team, the folder is one that the agent may only read.
        let moved = r#""name": "Marcus", "teamId": "team-fin""#;
        host.write("acme/agents.json", &AGENTS.replace(r#""name": "Marcus", "teamId": "team-hr""#, moved));
        wait_until(|| marcus.vfs().write("/workspaces/team-hr/shared/plan", "2").is_err());
        assert_eq!(permissions(), Some(json!({ "read": true, "write": false, "delete": false })));
    });
}

#[test]
fn f69_a_fork_shows_nothing_once_its_maker_may_not_read_what_it_was_made_from() {
    let host = Host::new("virtual");
    let catalyst = host.stead("catalyst");
    catalyst.vfs().write("/workspaces/team-hr/private/plan", "1").unwrap();
    let marcus = host.stead("marcus");
    marcus.fork_to("/workspaces/team-hr/private", "gift", "acme/fiona").unwrap();
    let marcus = marcus.fork("/workspaces/team-hr/private", "draft").unwrap();
    let marcus = marcus.fork("/forks/draft", "second").unwrap();
    // A fork that a stead has made itself, and forks that it finds when it is opened.
    let readers = [
        (marcus, &["/forks/draft/plan", "/forks/second/plan"][..]),
        (host.stead("marcus"), &["/forks/draft/plan", "/forks/second/plan"]),
        (host.stead("fiona"), &["/forks/gift/plan"]),
    ];
    let files = std::cell::Cell::new(0);
    let check_all = |expected: bool| {
        for (stead, paths) in &readers {
            for path in *paths {
                // Each stead checks the files on its own.
                wait_until(|| stead.vfs().read(*path).is_ok() == expected);
                files.set(files.get() + 1);
                let new = format!("{path}-{}", files.get());
                assert_eq!(stead.vfs().write(new, "x").is_ok(), expected, "{path}");
                assert_eq!(stead.vfs().log(&log_of(path)).is_ok(), expected, "{path}");
            }
        }
    };
    check_all(true);
    host.write(
        "acme/agents.json",
        &AGENTS.replace(r#""name": "Marcus", "teamId": "team-hr""#, r#""name": "Marcus""#),
    );
    check_all(false);
    host.write("acme/agents.json", AGENTS);
    check_all(true);
    // A fork by an agent that has no record any more.
    host.write("acme/agents.json", &AGENTS.replace("\"marcus\"", "\"someone\""));
    check_all(false);
}

/// Waits for what the next check of the files brings.
fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "it doesn't happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn records_that_are_not_valid_leave_the_last_valid_ones_in_use() {
    let host = Host::new("virtual");
    let marcus = host.stead("marcus");
    marcus.vfs().write("/workspaces/marcus/private/a", "1").unwrap();
    host.write("acme/agents.json", "{");
    std::thread::sleep(Duration::from_millis(60));
    assert!(marcus.vfs().read("/workspaces/marcus/private/a").is_ok());
    let error = Config::load(&host.path("stead.toml")).unwrap_err().to_string();
    assert!(error.contains("agents.json:1:"), "{error}");
}

impl Host {
    /// Adds a second organization, with the same teams and agents.
    fn add_globex(&self) {
        fs::create_dir_all(self.path("globex")).unwrap();
        self.write("globex/org.json", &ORG.replace("acme", "globex"));
        self.write("globex/teams.json", TEAMS);
        self.write("globex/agents.json", AGENTS);
        let text = fs::read_to_string(self.path("stead.toml")).unwrap();
        self.write("stead.toml", &format!("{text}[[organization]]\npath = \"globex\"\nstore = \"s\"\n"));
    }
}

/// Marcus in another team.
fn agents_with_marcus_in(team: &str) -> String {
    AGENTS.replacen("team-hr", team, 1)
}

const HR: &str = "/workspaces/team-hr/private/a";

#[test]
fn f79_what_the_records_take_away_is_gone_whatever_is_wrong_with_another_organization_or_the_configuration() {
    let stead_toml = |host: &Host, change: &dyn Fn(&str) -> String| {
        let text = fs::read_to_string(host.path("stead.toml")).unwrap();
        host.write("stead.toml", &change(&text));
    };
    type Mistake<'m> = (&'m str, &'m dyn Fn(&Host));
    let mistakes: [Mistake<'_>; 8] = [
        ("records that aren't JSON", &|host| host.write("acme/agents.json", "[{\"id\":")),
        ("a record without an id", &|host| host.write("acme/teams.json", "[{}]")),
        ("a missing file", &|host| fs::remove_file(host.path("acme/org.json")).unwrap()),
        ("the other's id", &|host| host.write("acme/org.json", &ORG.replace("acme", "globex"))),
        ("an unknown key", &|host| stead_toml(host, &|text| format!("{text}nonsense = 1\n"))),
        ("no TOML", &|host| stead_toml(host, &|text| format!("{text}[["))),
        ("an empty file", &|host| host.write("stead.toml", "")),
        ("no file", &|host| fs::remove_file(host.path("stead.toml")).unwrap()),
    ];
    for (mistake, make) in mistakes {
        let host = Host::new("virtual");
        host.add_globex();
        let marcus = Stead::open(&host.config(), "globex/marcus").unwrap();
        marcus.vfs().write(HR, "1").unwrap();
        make(&host);
        std::thread::sleep(Duration::from_millis(40));
        assert!(marcus.vfs().read(HR).is_ok(), "{mistake}");
        host.write("globex/agents.json", &agents_with_marcus_in("team-fin"));
        std::thread::sleep(Duration::from_millis(40));
        denied(marcus.vfs().read(HR));
        denied(marcus.vfs().write(HR, "2"));
        // What they give again is there again.
        host.write("globex/agents.json", AGENTS);
        std::thread::sleep(Duration::from_millis(40));
        assert!(marcus.vfs().read(HR).is_ok(), "{mistake}");
    }
}

#[test]
fn f79_valid_records_in_the_configuration_file_are_followed_though_something_else_in_it_is_wrong() {
    let text = |team: &str, rest: &str| {
        let organization = |id: &str, agents: &str| {
            format!(
                "[[organization]]\nid = \"{id}\"\nstore = \"s\"\ntoolWhitelist = []\nteams = [{{ id = \"hr\" }}, {{ id = \"it\" }}]\nagents = [{agents}]\n"
            )
        };
        let acme = organization("acme", &format!("{{ id = \"bob\" {rest} }}"));
        let globex = organization("globex", &format!("{{ id = \"ann\", teamId = \"{team}\" }}"));
        format!("[stores.s]\nkind = \"virtual\"\n{acme}{globex}")
    };
    for mistake in [", nonsense = 1", ", id = 3"] {
        let host = Host::new("virtual");
        host.write("stead.toml", &text("hr", ""));
        let (ann, bob) = ("globex/ann", "acme/bob");
        let [ann, bob] = [ann, bob].map(|agent| Stead::open(&host.config(), agent).unwrap());
        ann.vfs().write("/workspaces/hr/private/a", "1").unwrap();
        bob.vfs().write("/workspaces/bob/private/a", "1").unwrap();
        host.write("stead.toml", &text("it", mistake));
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(ann.vfs().read("/workspaces/hr/private/a").is_err(), mistake.contains("nonsense"));
        assert!(bob.vfs().read("/workspaces/bob/private/a").is_ok(), "its last valid records stay in use");
    }
}

#[test]
fn f166_a_missing_file_of_records_takes_rights_from_its_own_organization_alone() {
    for file in ["org.json", "teams.json", "agents.json"] {
        let host = Host::new("virtual");
        host.add_globex();
        let config = host.config();
        let [acme, globex] =
            ["acme/marcus", "globex/marcus"].map(|agent| Stead::open(&config, agent).unwrap());
        for stead in [&acme, &globex] {
            stead.vfs().write(HR, "1").unwrap();
        }
        fs::rename(host.path("acme").join(file), host.path("away")).unwrap();
        std::thread::sleep(Duration::from_millis(40));
        denied(acme.vfs().read(HR));
        assert_eq!(globex.vfs().read(HR).unwrap().bytes, b"1", "{file}");
        // What is wrong with a file that comes back doesn't bring back rights that are gone.
        fs::write(host.path("acme").join(file), "{").unwrap();
        std::thread::sleep(Duration::from_millis(40));
        denied(acme.vfs().read(HR));
        fs::rename(host.path("away"), host.path("acme").join(file)).unwrap();
        std::thread::sleep(Duration::from_millis(40));
        assert!(acme.vfs().read(HR).is_ok());
    }
}

#[test]
fn the_files_of_the_records_cannot_be_reached_through_a_folder() {
    let host = Host::new("physical");
    // The records lie in the directory of the Store.
    let workspace = host.path("data/organizations/acme/workspaces/marcus/private");
    fs::create_dir_all(&workspace).unwrap();
    for name in ["org.json", "teams.json", "agents.json"] {
        fs::rename(host.path("acme").join(name), workspace.join(name)).unwrap();
    }
    let text = fs::read_to_string(host.path("stead.toml")).unwrap();
    let inside = "path = \"data/organizations/acme/workspaces/marcus/private\"";
    host.write("stead.toml", &text.replace("path = \"acme\"", inside));
    let marcus = host.stead("marcus");
    assert!(marcus.vfs().write("/workspaces/marcus/private/agents.json", "{}").is_err());
    assert!(marcus.vfs().read("/workspaces/marcus/private/agents.json").is_err());
    assert_eq!(fs::read_to_string(workspace.join("agents.json")).unwrap(), AGENTS);
}

#[test]
fn f83_and_f166_two_organizations_on_one_store_never_meet() {
    on_both_stores(|host| {
        fs::create_dir_all(host.path("globex")).unwrap();
        host.write("globex/org.json", &ORG.replace("acme", "globex"));
        host.write("globex/teams.json", TEAMS);
        host.write("globex/agents.json", AGENTS);
        let text = fs::read_to_string(host.path("stead.toml")).unwrap();
        host.write("stead.toml", &format!("{text}[[organization]]\npath = \"globex\"\nstore = \"s\"\n"));
        let config = host.config();
        let other = Stead::open(&config, "globex/marcus").unwrap();
        host.stead("marcus").vfs().write("/workspaces/marcus/shared/a", "acme").unwrap();
        assert_eq!(other.vfs().read("/workspaces/marcus/shared/a").unwrap_err().kind(), ErrorKind::NotFound);
        let leader = Stead::open(&config, "globex/elena").unwrap();
        assert!(leader.vfs().read("/workspaces/marcus/shared/a").is_err());
        let ambiguous = config.full_agent_name("marcus").unwrap_err().to_string();
        assert!(ambiguous.contains("acme/marcus, globex/marcus"), "{ambiguous}");
        assert_eq!(other.vfs().identity().organization.as_deref(), Some("globex"));
        assert_eq!(other.vfs().identity().team.as_deref(), Some("team-hr"));
        // What one has changed, the other can't undo.
        let nothing = other.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(nothing.undone.is_empty());
    });
}

#[test]
fn f90_an_agent_without_a_record_has_no_stead() {
    let host = Host::new("virtual");
    let error = Stead::open(&host.config(), "acme/stranger").unwrap_err();
    assert!(error.to_string().contains("there is no agent `acme/stranger`"), "{error}");
}

mod migration {
    use stead::{AccessScope, Mount, Stores, Vfs, VfsPath, Workspace};
    use stead_core::Identity;

    use super::*;

    /// The whole Store, to write what an older program left there.
    fn whole_store(host: &Host) -> Vfs {
        let store = Stores::of(&host.config()).get("s").unwrap();
        let workspace = Workspace::new(VfsPath::root(), AccessScope::ReadWrite, Mount::new(store));
        Vfs::builder(Identity::agent("earlier")).workspace(workspace).build().unwrap()
    }

    fn migrate(host: &Host, dry_run: bool) -> stead::MigrationReport {
        Stores::of(&host.config()).migrate_organization("acme", dry_run, &mut |_| ()).unwrap()
    }

    #[test]
    fn f146_f147_f149_f158_the_older_layout_works_until_it_is_migrated_with_contents_intact() {
        on_both_stores(|host| {
            let store = whole_store(host);
            store.write("/organizations/acme/agents/marcus/private/notes/a.md", "mine").unwrap();
            store.write("/organizations/acme/teams/team-hr/shared/b.md", "ours").unwrap();
            drop(store);
            let marcus = host.stead("marcus");
            marcus.folders().unwrap().prepare();
            for path in ["/agents/marcus/private/notes/a.md", "/workspaces/marcus/private/notes/a.md"] {
                assert_eq!(marcus.vfs().read(path).unwrap().bytes, b"mine", "{path}");
            }
            assert_eq!(host.stead("fiona").vfs().read("/teams/team-hr/shared/b.md").unwrap().bytes, b"ours");
            denied(host.stead("fiona").vfs().write("/teams/team-hr/shared/b.md", "x"));
            denied(host.stead("fiona").vfs().read("/agents/fiona/private/../../marcus/private/notes/a.md"));

            let planned = migrate(host, true);
            assert!(
                marcus.vfs().exists("/agents/marcus/private/notes/a.md").unwrap(),
                "a dry run changes nothing"
            );
            let done = migrate(host, false);
            assert_eq!(planned, done);
            let moved: Vec<_> =
                done.moved.iter().map(|moved| (moved.to.to_string(), moved.files, moved.bytes)).collect();
            assert_eq!(
                moved,
                [
                    ("/organizations/acme/workspaces/marcus".to_owned(), 1, 4),
                    ("/organizations/acme/workspaces/team-hr".to_owned(), 1, 4),
                ]
            );
            assert_eq!((done.clashes.len(), done.removed.len()), (0, 2));
            let marcus = host.stead("marcus");
            assert_eq!(marcus.vfs().read("/workspaces/marcus/private/notes/a.md").unwrap().bytes, b"mine");
            denied(marcus.vfs().read("/agents/marcus/private/notes/a.md"));
            assert_eq!(migrate(host, false), stead::MigrationReport::default(), "again, it changes nothing");
        });
    }

    #[test]
    fn f148_f149_a_clash_is_reported_neither_side_is_lost_and_old_paths_still_resolve() {
        on_both_stores(|host| {
            let store = whole_store(host);
            for path in [
                "agents/marcus/private/a",
                "workspaces/marcus/private/a",
                "agents/x/a",
                "teams/x/a",
                "agents/solo/private/a",
            ] {
                store.write(format!("/organizations/acme/{path}").as_str(), path).unwrap();
            }
            let report = migrate(host, false);
            let clashes: Vec<_> = report.clashes.iter().map(|clash| clash.directory.as_str()).collect();
            assert_eq!(
                clashes,
                [
                    "/organizations/acme/agents/marcus",
                    "/organizations/acme/agents/x",
                    "/organizations/acme/teams/x",
                ]
            );
            assert!(report.removed.is_empty() && report.moved.len() == 1);
            for path in ["agents/marcus/private/a", "workspaces/marcus/private/a", "agents/x/a", "teams/x/a"]
            {
                let content = store.read(format!("/organizations/acme/{path}").as_str()).unwrap().bytes;
                assert_eq!(content, path.as_bytes());
            }
            // What could not be moved is still at its old path. What was moved is at its new one, and its old path leads there
            // until the migration has finished.
            let marcus = host.stead("marcus");
            for path in ["agents/marcus/private/a", "workspaces/marcus/private/a"] {
                assert_eq!(marcus.vfs().read(format!("/{path}").as_str()).unwrap().bytes, path.as_bytes());
            }
            marcus.vfs().write("/agents/marcus/private/b", "late").unwrap();
            let late = "/organizations/acme/agents/marcus/private/b";
            assert_eq!(whole_store(host).read(late).unwrap().bytes, b"late");
            let solo = host.stead("solo");
            assert_eq!(
                solo.vfs().read("/workspaces/solo/private/a").unwrap().bytes,
                b"agents/solo/private/a"
            );
            assert_eq!(solo.vfs().read("/agents/solo/private/a").unwrap().bytes, b"agents/solo/private/a");
            solo.vfs().write("/agents/solo/private/b", "late").unwrap();
            let late = "/organizations/acme/workspaces/solo/private/b";
            assert_eq!(whole_store(host).read(late).unwrap().bytes, b"late");
            denied(marcus.vfs().read("/agents/solo/private/a"));
            // The clashes are resolved.
            for directory in ["agents/marcus", "agents/x", "teams/x"] {
                let path = VfsPath::parse(&format!("/organizations/acme/{directory}")).unwrap();
                let recursive = stead_core::vfs::RemoveOptions { recursive: true, ..Default::default() };
                store.remove_directory(&path, recursive).unwrap();
            }
            let solo = host.stead("solo");
            assert!(
                solo.vfs().read("/agents/solo/private/a").is_ok(),
                "the emptied directories are still there"
            );
            assert!(migrate(host, false).clashes.is_empty());
            denied(host.stead("solo").vfs().read("/agents/solo/private/a"));
            assert!(host.stead("solo").vfs().read("/workspaces/solo/private/a").is_ok());
        });
    }

    #[test]
    fn f149_s27_a_fork_from_before_the_migration_is_shown_before_and_after_it() {
        on_both_stores(|host| {
            let store = whole_store(host);
            store.write("/organizations/acme/agents/marcus/shared/a", "one").unwrap();
            let marcus = host.stead("marcus");
            let _ = marcus.fork("/workspaces/marcus/shared", "draft").unwrap();
            let forks = || {
                let stead = host.stead("marcus");
                let withheld: Vec<_> =
                    stead.withheld_forks().unwrap().map(|fork| fork.name.to_string()).collect();
                assert!(withheld.is_empty(), "{withheld:?}");
                stead
            };
            assert_eq!(forks().vfs().read("/forks/draft/a").unwrap().bytes, b"one");
            forks().vfs().write("/forks/draft/b", "two").unwrap();
            assert!(migrate(host, false).clashes.is_empty());
            assert_eq!(forks().vfs().read("/forks/draft/b").unwrap().bytes, b"two");
            let refused = forks()
                .merge_fork("draft", &stead_core::vfs::MergeOptions::default())
                .unwrap_err()
                .to_string();
            assert!(refused.contains("was moved since the fork `draft` was made"), "{refused}");
            // Its maker loses what it was made from.
            host.write("acme/agents.json", &AGENTS.replacen("\"marcus\"", "\"other\"", 1));
            assert!(Stead::open(&host.config(), "acme/marcus").is_err());
        });
    }
}

#[test]
fn f141_the_tools_of_an_agent_follow_the_whitelists_of_all_three_levels() {
    let host = Host::new("virtual");
    let tools = || host.stead("marcus").tools().into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    assert_eq!(tools(), ["read_file", "write_file"]);
    host.write("acme/org.json", &ORG.replace("\"write_file\"", "\"list_folders\", \"write_file\""));
    assert_eq!(tools(), ["list_folders", "read_file", "write_file"]);
    host.write(
        "acme/teams.json",
        &TEAMS.replace("\"HR\"", "\"HR\", \"toolWhitelist\": [\"list_folders\", \"write_file\"]"),
    );
    assert_eq!(tools(), ["list_folders", "write_file"]);
    host.write(
        "acme/agents.json",
        &AGENTS.replace("\"Marcus\"", "\"Marcus\", \"toolWhitelist\": [\"write_file\"]"),
    );
    assert_eq!(tools(), ["write_file"]);
}

#[test]
fn f154_and_f155_no_record_of_concurrent_calls_is_lost_and_records_are_found_by_agent_folder_call_and_time() {
    on_both_stores(|host| {
        let all = ORG.replace("\"write_file\"", "\"list_folders\", \"write_file_by_id\"");
        host.write("acme/org.json", &all);
        let config = host.config();
        let stores = stead::Stores::of(&config);
        stores.open_audit().unwrap();
        let start = stead_core::Timestamp::from(std::time::SystemTime::now());
        std::thread::scope(|scope| {
            for agent in ["marcus", "catalyst", "fiona", "elena"] {
                let stead = Stead::open_in(&stores, &config.identity(format!("acme/{agent}"))).unwrap();
                scope.spawn(move || {
                    for number in 0..10 {
                        let listed = stead.call("list_folders", serde_json::json!({ "scope": "my_private" }));
                        let id = listed.facts["folders"][0]["folderId"].clone();
                        let file = serde_json::json!({ "folderId": id, "filename": format!("{number}.md"), "content": "x" });
                        assert!(!stead.call("write_file_by_id", file).is_failure());
                    }
                });
            }
        });
        let audit = stores.audit_access().unwrap().unwrap();
        let count = |query: stead::AuditQuery| audit.page(&query, None, 1_000).unwrap().entries.len();
        let query = || stead::AuditQuery { since: Some(start), ..stead::AuditQuery::default() };
        let owner = |id: &str| vec![("folder.owner".parse().unwrap(), id.to_owned())];
        let writes = || stead::AuditQuery {
            call: Some("write_file_by_id".into()),
            outcome: Some("ok".into()),
            ..query()
        };
        assert_eq!(count(writes()), 40);
        // Records of reads come a little later.
        wait_until(|| count(stead::AuditQuery { call: Some("list_folders".into()), ..query() }) == 40);
        assert_eq!(count(stead::AuditQuery { agent: Some("acme/fiona".into()), ..writes() }), 10);
        assert_eq!(count(stead::AuditQuery { facts: owner("marcus"), ..writes() }), 10);
        assert_eq!(count(stead::AuditQuery { until: Some(start), since: None, ..writes() }), 0);
    });
}

/// The tools of an agent that may use all of them, and the id of its private folder.
fn private_folder(host: &Host, agent: &str) -> (Stead, String) {
    let names: Vec<_> = stead::tools::TOOLS.iter().map(|tool| tool.name).collect();
    host.write("acme/org.json", &serde_json::json!({ "id": "acme", "toolWhitelist": names }).to_string());
    let stead = host.stead(agent);
    let listed = stead.call("list_folders", serde_json::json!({ "scope": "my_private" }));
    let id = listed.facts["folders"][0]["folderId"].as_str().unwrap().to_owned();
    (stead, id)
}

#[test]
fn f115_a_reader_sees_the_old_file_or_the_new_one_and_a_failed_write_leaves_the_old_one() {
    on_both_stores(|host| {
        let (stead, id) = private_folder(host, "marcus");
        let write = |content: &str| {
            stead.call(
                "write_file_by_id",
                serde_json::json!({ "folderId": id, "filename": "a", "content": content }),
            )
        };
        let (old, new) = ("o".repeat(300_000), "n".repeat(300_000));
        assert!(!write(&old).is_failure());
        std::thread::scope(|scope| {
            let writer = scope
                .spawn(|| (0..20).for_each(|round| drop(write(if round % 2 == 0 { &new } else { &old }))));
            while !writer.is_finished() {
                let read = stead.vfs().read("/workspaces/marcus/private/a").unwrap().bytes;
                assert!(
                    read == old.as_bytes() || read == new.as_bytes(),
                    "neither the old file nor the new one"
                );
            }
        });
        let last = stead.vfs().read("/workspaces/marcus/private/a").unwrap().bytes;
        assert!(write(&"x".repeat((5 << 20) + 1)).is_failure(), "it is too large");
        assert!(stead.vfs().read("/workspaces/marcus/private/a").unwrap().bytes == last);
        // The database refuses the change after all of its content was written.
        let execute = |statement: &str| {
            let conn = rusqlite::Connection::open(host.path(".stead/stead.db")).unwrap();
            conn.execute_batch(statement).unwrap();
        };
        let own_table = if host.path("data/organizations").exists() { "ledger_event" } else { "node_change" };
        for table in ["revision", "audit", own_table] {
            execute(&format!(
                "CREATE TRIGGER refused BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'refused'); END"
            ));
            assert!(write("failed").is_failure(), "{table}");
            execute("DROP TRIGGER refused");
            assert!(stead.vfs().read("/workspaces/marcus/private/a").unwrap().bytes == last, "{table}");
            let listed = stead.vfs().list("/workspaces/marcus/private", &ListPage::all()).unwrap();
            assert_eq!(listed.entries.len(), 1, "{table}");
        }
        assert!(!write("new").is_failure());
        assert_eq!(stead.vfs().read("/workspaces/marcus/private/a").unwrap().bytes, b"new");
    });
}

#[test]
fn f100_a_pipe_in_a_folder_is_refused_as_what_it_is_and_isnt_waited_for() {
    let host = Host::new("physical");
    let (stead, id) = private_folder(&host, "marcus");
    let file = |name: &str| json!({ "folderId": id, "filename": name });
    let content = |name: &str| json!({ "folderId": id, "filename": name, "content": "x" });
    assert!(!stead.call("write_file_by_id", content("a.md")).is_failure());
    let pipe = host.path("data/organizations/acme/workspaces/marcus/private/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    for (tool, arguments) in [
        ("read_file_by_id", file("pipe")),
        ("get_file_info_by_id", file("pipe")),
        ("write_file_by_id", content("pipe")),
    ] {
        let refused = stead.call(tool, arguments);
        assert!(refused.is_failure() && refused.joined_text().contains("fifo"), "{tool}: {refused:?}");
    }
}

#[test]
fn f168_what_a_folder_tool_deletes_the_operator_can_bring_back() {
    on_both_stores(|host| {
        let (stead, id) = private_folder(host, "marcus");
        let file = serde_json::json!({ "folderId": id, "filename": "a.md", "content": "kept" });
        assert!(!stead.call("write_file_by_id", file).is_failure());
        let file = serde_json::json!({ "folderId": id, "filename": "a.md" });
        assert_eq!(stead.call("delete_file_by_id", file).facts["existed"], true);
        assert!(!stead.vfs().exists("/workspaces/marcus/private/a.md").unwrap());
        let undone = stead.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert_eq!(undone.undone.len(), 1);
        assert_eq!(stead.vfs().read("/workspaces/marcus/private/a.md").unwrap().bytes, b"kept");
    });
}

#[test]
fn f69_a_file_that_is_open_is_closed_to_an_agent_that_has_lost_its_folder() {
    on_both_stores(|host| {
        let (marcus, catalyst) = (host.stead("marcus"), host.stead("catalyst"));
        let path = "/workspaces/team-hr/private/plan";
        catalyst.vfs().write(path, "secret").unwrap();
        let file = marcus.vfs().open(path, stead_core::vfs::OpenOptions::read_write()).unwrap();
        file.write_at(0, b"S").unwrap();
        host.write(
            "acme/agents.json",
            &AGENTS.replace(r#""name": "Marcus", "teamId": "team-hr""#, r#""name": "Marcus""#),
        );
        wait_until(|| marcus.vfs().read(path).is_err());
        let mut buffer = [0; 6];
        for refused in [
            file.read_at(0, &mut buffer).map(drop),
            file.write_at(0, b"x"),
            file.append(b"x").map(drop),
            file.set_size(0),
            file.sync(),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied);
        }
        assert_eq!(catalyst.vfs().read(path).unwrap().bytes, b"secret");
    });
}

#[test]
fn f139_a_tool_that_a_whitelist_no_longer_has_is_refused_at_the_call() {
    let host = Host::new("virtual");
    let marcus = host.stead("marcus");
    let write = || {
        let arguments = serde_json::json!({ "path": "/workspaces/marcus/private/a", "content": "1" });
        marcus.call("write_file", arguments)
    };
    assert!(!write().is_failure());
    host.write("acme/org.json", &ORG.replace(", \"write_file\"", ""));
    wait_until(|| write().is_failure());
    assert!(
        write().joined_text().contains("`write_file` is not enabled for your organization, team or role")
    );
}

#[test]
fn records_that_are_no_regular_files_are_an_error_and_give_no_rights() {
    let host = Host::new("virtual");
    let marcus = host.stead("marcus");
    marcus.vfs().write("/workspaces/marcus/private/a", "1").unwrap();
    fs::remove_file(host.path("acme/agents.json")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", host.path("acme/agents.json")).unwrap();
    let error = Config::load(&host.path("stead.toml")).unwrap_err().to_string();
    assert!(error.contains("isn't a regular file"), "{error}");
    wait_until(|| marcus.vfs().read("/workspaces/marcus/private/a").is_err());
}

#[test]
fn a_migration_into_a_symlink_is_refused_and_what_exists_in_both_layouts_is_seen_in_both() {
    let host = Host::new("physical");
    let old = host.path("data/organizations/acme/agents/marcus/private");
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join("a"), "old").unwrap();
    fs::create_dir(host.path("data/elsewhere")).unwrap();
    let workspaces = host.path("data/organizations/acme/workspaces");
    std::os::unix::fs::symlink("../../elsewhere", &workspaces).unwrap();
    let migrated = stead::Stores::of(&host.config()).migrate_organization("acme", false, &mut |_| ());
    assert!(migrated.is_err() || !migrated.unwrap().clashes.is_empty());
    assert_eq!(fs::read_to_string(old.join("a")).unwrap(), "old");
    fs::remove_file(&workspaces).unwrap();
    fs::create_dir_all(workspaces.join("marcus/private")).unwrap();
    fs::write(workspaces.join("marcus/private/b"), "new").unwrap();
    let marcus = host.stead("marcus");
    assert_eq!(marcus.vfs().read("/workspaces/marcus/private/b").unwrap().bytes, b"new");
    assert_eq!(marcus.vfs().read("/agents/marcus/private/a").unwrap().bytes, b"old");
}

#[test]
fn two_organizations_whose_ids_differ_only_in_case_are_refused() {
    let host = Host::new("virtual");
    let text = fs::read_to_string(host.path("stead.toml")).unwrap();
    host.write("stead.toml", &format!("{text}[[organization]]\nid = \"ACME\"\nstore = \"s\"\n"));
    let error = Config::load(&host.path("stead.toml")).unwrap_err().to_string();
    assert!(error.contains("two organizations have the id"), "{error}");
}
