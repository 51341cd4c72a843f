//! Random organizations: what an agent discovers is exactly what it can read, and no answer contains a word of what it
//! can't discover.
//!
//! Every id, name, file name and content occurs once, so that a word in an answer tells whose it is.

use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};
use stead::tools::TOOLS;
use stead::vfs::LogQuery;
use stead::{Config, ErrorKind, Identity, Stead, Stores};

use crate::office::Office;

const SCOPES: [&str; 5] = ["my_private", "my_shared", "team_private", "team_shared", "org_shared"];
const HALVES: [&str; 2] = ["private", "shared"];

/// The agents and teams of an organization.
#[derive(Debug, Clone)]
struct RandomOrganization {
    id: &'static str,
    /// Whether each team is a leadership team.
    teams: Vec<bool>,
    /// The team of each agent. One past the last team is a team that doesn't exist.
    agents: Vec<Option<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Team(usize),
    Agent(usize),
}

/// A folder: whose it is, and which half.
type Folder = (Owner, &'static str);

impl RandomOrganization {
    fn owners(&self) -> impl Iterator<Item = Owner> {
        let teams = (0..self.teams.len()).map(Owner::Team);
        teams.chain((0..self.agents.len()).map(Owner::Agent))
    }

    fn folders(&self) -> impl Iterator<Item = Folder> {
        self.owners().flat_map(|owner| HALVES.map(|half| (owner, half)))
    }

    fn team_of(&self, agent: usize) -> Option<usize> {
        self.agents[agent].filter(|team| *team < self.teams.len())
    }

    /// The rule of the specification, written a second time.
    fn may_read(&self, caller: usize, (owner, half): Folder) -> bool {
        let team = self.team_of(caller);
        match owner {
            Owner::Agent(agent) if agent == caller => true,
            Owner::Team(owner) => half == "shared" || team == Some(owner),
            Owner::Agent(agent) => {
                let is_mate = team.is_some() && self.team_of(agent) == team;
                half == "shared" && (is_mate || team.is_some_and(|team| self.teams[team]))
            }
        }
    }

    fn owner_id(&self, owner: Owner) -> String {
        match owner {
            Owner::Team(number) => format!("{}teamid{number}x", self.id),
            Owner::Agent(number) => format!("{}agentid{number}x", self.id),
        }
    }

    fn owner_name(&self, owner: Owner) -> String {
        match owner {
            Owner::Team(number) => format!("{}Teamname{number}x", self.id),
            Owner::Agent(number) => format!("{}Agentname{number}x", self.id),
        }
    }

    fn agent(&self, number: usize) -> String {
        format!("{}/{}", self.id, self.owner_id(Owner::Agent(number)))
    }

    fn folder_path(&self, (owner, half): Folder) -> String {
        format!("/workspaces/{}/{half}", self.owner_id(owner))
    }

    /// A word that is in the name of the only file of a folder.
    fn file_word(&self, (owner, half): Folder) -> String {
        format!("{}file{owner:?}{half}", self.id).replace(['(', ')'], "n")
    }

    fn file_name(&self, folder: Folder) -> String {
        format!("{}.md", self.file_word(folder))
    }

    /// A word that is in the content of that file.
    fn content_word(&self, folder: Folder) -> String {
        self.file_word(folder).replace("file", "content")
    }

    fn toml(&self) -> String {
        let tools: Vec<_> = TOOLS.iter().map(|tool| format!("{:?}", tool.name)).collect();
        let record =
            |owner: Owner| format!("id = {:?}, name = {:?}", self.owner_id(owner), self.owner_name(owner));
        let teams = self.teams.iter().enumerate().map(|(number, leadership)| {
            format!("{{ {}, leadership = {leadership} }}", record(Owner::Team(number)))
        });
        let agents = self.agents.iter().enumerate().map(|(number, team)| {
            let team = team.map(|team| format!(", teamId = {:?}", self.owner_id(Owner::Team(team))));
            format!("{{ {}{} }}", record(Owner::Agent(number)), team.unwrap_or_default())
        });
        let list = |records: Vec<String>| records.join(", ");
        format!(
            "[[organization]]\nid = {:?}\nstore = \"shared\"\ntoolWhitelist = [{}]\nteams = [{}]\nagents = [{}]\n",
            self.id,
            tools.join(", "),
            list(teams.collect()),
            list(agents.collect())
        )
    }

    /// The words that an agent of this organization can't learn of an organization.
    fn secret_words(&self, caller: Option<usize>) -> Vec<String> {
        let may_read = |folder| caller.is_some_and(|caller| self.may_read(caller, folder));
        let mut words = Vec::new();
        for owner in self.owners() {
            if !HALVES.iter().any(|half| may_read((owner, half))) {
                words.extend([self.owner_id(owner), self.owner_name(owner)]);
            }
        }
        for folder in self.folders().filter(|folder| !may_read(*folder)) {
            words.extend([self.file_word(folder), self.content_word(folder)]);
        }
        words
    }
}

fn organization(id: &'static str) -> impl Strategy<Value = RandomOrganization> {
    proptest::collection::vec(any::<bool>(), 1..4).prop_flat_map(move |teams| {
        let agents = proptest::collection::vec(proptest::option::weighted(0.8, 0..=teams.len()), 1..6);
        agents.prop_map(move |agents| RandomOrganization { id, teams: teams.clone(), agents })
    })
}

/// Two organizations on one Store, with a file in each folder.
struct World {
    office: Office,
    organizations: [RandomOrganization; 2],
}

impl World {
    fn new(organizations: [RandomOrganization; 2], is_physical: bool) -> Self {
        let office = Office::empty();
        fs::create_dir(office.path("files")).unwrap();
        let store = if is_physical { "kind = \"physical\"\npath = \"files\"" } else { "kind = \"virtual\"" };
        let records = organizations.each_ref().map(RandomOrganization::toml).concat();
        office.replace("stead.toml", &format!("[stores.shared]\n{store}\n{records}"));
        World { office, organizations }
    }

    fn stores(&self) -> Stores {
        Stores::of(&Config::load(&self.office.path("stead.toml")).unwrap())
    }

    /// Every agent that may write to a folder writes the folder's file, so that all have a history in it.
    fn fill(&self, stores: &Stores) {
        for organization in &self.organizations {
            for agent in 0..organization.agents.len() {
                let stead = open(stores, organization, agent);
                for folder in organization.folders() {
                    let path =
                        format!("{}/{}", organization.folder_path(folder), organization.file_name(folder));
                    // Fails where the agent may not write. A team without members has no files.
                    let _ = stead.vfs().write(&*path, organization.content_word(folder));
                }
            }
        }
    }
}

fn open(stores: &Stores, organization: &RandomOrganization, agent: usize) -> Stead {
    Stead::open_in(stores, &Identity::agent(organization.agent(agent))).unwrap()
}

/// All folders that an agent discovers: path, id and files.
fn discover(stead: &Stead) -> Vec<(String, String, Vec<String>)> {
    let mut found = Vec::new();
    for scope in SCOPES {
        let reply = stead.call("list_folders", json!({ "scope": scope }));
        assert_eq!(reply.failure, None);
        for folder in reply.structured()["folders"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let files =
                folder["files"].as_array().unwrap().iter().map(|file| text(&file["filename"])).collect();
            let path = text(&folder["path"]).trim_end_matches('/').to_owned();
            found.push((path, text(&folder["folderId"]), files));
        }
    }
    found
}

/// What is discovered is what both kinds of tools read, and nothing else is.
fn check_discovery(
    stores: &Stores,
    organization: &RandomOrganization,
    caller: usize,
    foreign_ids: &[(String, String)],
) {
    let stead = open(stores, organization, caller);
    let found = discover(&stead);
    let paths: BTreeSet<_> = found.iter().map(|(path, ..)| path.clone()).collect();
    let readable = organization.folders().filter(|folder| organization.may_read(caller, *folder));
    let expected: BTreeSet<_> = readable.map(|folder| organization.folder_path(folder)).collect();
    assert_eq!(paths, expected, "{} of {organization:?}", organization.agent(caller));
    for (path, id, files) in &found {
        for name in files {
            let by_id = stead.call("read_file_by_id", json!({ "folderId": id, "filename": name }));
            let by_path = stead.call("read_file", json!({ "path": format!("{path}/{name}") }));
            assert!(by_id.failure.is_none() && by_path.failure.is_none(), "{path}: {by_id:?} {by_path:?}");
        }
    }
    for folder in organization.folders().filter(|folder| !organization.may_read(caller, *folder)) {
        let path = format!("{}/{}", organization.folder_path(folder), organization.file_name(folder));
        let reply = stead.call("read_file", json!({ "path": path }));
        assert_eq!(reply.failure.unwrap().kind, ErrorKind::Denied, "{path}");
    }
    for (id, name) in foreign_ids {
        let reply = stead.call("read_file_by_id", json!({ "folderId": id, "filename": name }));
        assert_eq!(reply.failure.unwrap().kind, ErrorKind::NotFound, "{id}");
    }
}

/// Calls of every tool about these paths and ids.
fn calls(paths: &[String], ids: &[String], own_id: &str, own_path: &str) -> Vec<(&'static str, Value)> {
    let mut calls: Vec<(&str, Value)> =
        SCOPES.iter().map(|scope| ("list_folders", json!({ "scope": scope }))).collect();
    calls.extend([
        ("list_folders", json!({ "scope": "nothing" })),
        ("create_folder", json!({ "scope": "my_private", "folderName": "made" })),
        ("create_folder", json!({ "scope": "org_shared", "folderName": "made" })),
    ]);
    for path in paths {
        let new = format!("{path}/new");
        calls.extend([
            ("list_directory", json!({ "path": path, "depth": 5 })),
            ("read_file", json!({ "path": path })),
            ("read_file", json!({ "path": new })),
            ("read_many", json!({ "paths": [path, new] })),
            ("stat", json!({ "path": path })),
            ("glob", json!({ "path": path, "pattern": "**" })),
            ("grep", json!({ "path": path, "pattern": "." })),
            ("list_versions", json!({ "path": path })),
            ("read_version", json!({ "path": path, "version": "1" })),
            ("snapshot", json!({ "path": path })),
            ("copy_file", json!({ "source": path, "destination": format!("{own_path}/copied") })),
            ("copy_file", json!({ "source": format!("{own_path}/copied"), "destination": new })),
            ("create_directory", json!({ "path": format!("{new}-directory") })),
            ("write_file", json!({ "path": new, "content": "x" })),
            ("append_file", json!({ "path": new, "content": "x" })),
            ("edit_file", json!({ "path": new, "old_string": "x", "new_string": "y" })),
            ("move_file", json!({ "source": new, "destination": format!("{new}-moved") })),
            ("restore", json!({ "path": path, "snapshot": "1", "dry_run": true })),
            ("undo", json!({ "last": 1 })),
            ("delete_file", json!({ "path": new })),
            ("delete_directory", json!({ "path": format!("{new}-directory") })),
            ("fork_workspace", json!({ "path": path, "name": "draft" })),
            ("diff_fork", json!({ "fork": "draft" })),
            ("diff_fork", json!({ "fork": format!("{}/draft", path.trim_start_matches("/workspaces/")) })),
            ("update_fork", json!({ "fork": "draft" })),
            ("merge_fork", json!({ "fork": "draft" })),
            ("discard_fork", json!({ "fork": "draft" })),
        ]);
        for action in ["list", "search", "info", "tree", "move", "delete", "tag", "cleanup"] {
            calls.push((
                "workspace",
                json!({ "action": action, "workspace": path, "path": new, "query": "*" }),
            ));
        }
    }
    for id in ids {
        let file = |name: &str| json!({ "folderId": id, "filename": name });
        let with_content = json!({ "folderId": id, "filename": "new.md", "content": "x" });
        let transfer = |from: &str, to: &str| json!({ "sourceFolderId": from, "sourceFilename": "new.md", "destFolderId": to, "destFilename": "newer.md" });
        calls.extend([
            ("read_file_by_id", file("missing.md")),
            ("get_file_info_by_id", file("missing.md")),
            ("read_multiple_files_by_id", json!({ "operations": [file("missing.md"), file("a/b")] })),
            ("write_file_by_id", with_content.clone()),
            ("append_to_file_by_id", with_content.clone()),
            ("write_multiple_files_by_id", json!({ "operations": [with_content] })),
            ("copy_file_by_id", transfer(id, own_id)),
            ("move_file_by_id", transfer(own_id, id)),
            ("rename_folder_by_id", json!({ "folderId": id, "newName": "renamed" })),
            ("delete_folder_by_id", json!({ "folderId": id, "recursive": true })),
            ("delete_file_by_id", file("new.md")),
        ]);
    }
    calls
}

/// Fails if an answer contains a secret word that the question doesn't contain.
fn check_answer(secrets: &[String], question: &str, answer: &str) {
    for word in secrets.iter().filter(|word| !question.contains(&**word)) {
        assert!(!answer.contains(&**word), "{question}\nreveals {word}: {answer}");
    }
}

/// Asks every tool, about what the agent knows and then about paths that it can only guess.
fn check_answers(
    world: &World,
    stores: &Stores,
    organization: &RandomOrganization,
    caller: usize,
    foreign_ids: &[(String, String)],
) {
    let stead = open(stores, organization, caller);
    let mut secrets = secret_words(world, organization, caller);
    secrets.extend(foreign_ids.iter().map(|(id, _)| id.clone()));
    check_answer(&secrets, "map", &stead.map());
    let toolbox = stead.toolbox();
    for tool in toolbox.offered() {
        check_answer(&secrets, tool.name, &toolbox.description(tool));
    }
    let found = discover(&stead);
    let own = organization.folder_path((Owner::Agent(caller), "private"));
    let id_of =
        |path: &str| found.iter().find(|(other, ..)| other == path).map(|(_, id, _)| id.clone()).unwrap();
    let known: Vec<_> = ["/".to_owned(), "/workspaces".to_owned()]
        .into_iter()
        .chain(found.iter().rev().take(2).map(|(path, ..)| path.clone()))
        .collect();
    let ids: Vec<_> = found.iter().rev().take(2).map(|(_, id, _)| id.clone()).collect();
    let guessed = world.organizations.iter().flat_map(|other| {
        let is_secret = |folder: &Folder| other.id != organization.id || !other.may_read(caller, *folder);
        other.folders().filter(is_secret).map(|folder| other.folder_path(folder)).take(2).collect::<Vec<_>>()
    });
    let guessed: Vec<_> = guessed.collect();
    let foreign: Vec<_> = foreign_ids.iter().map(|(id, _)| id.clone()).take(2).collect();
    let own_id = id_of(&own);
    let mut used = BTreeSet::new();
    for (tool, arguments) in
        calls(&known, &ids, &own_id, &own).into_iter().chain(calls(&guessed, &foreign, &own_id, &own))
    {
        used.insert(tool);
        let question = format!("{tool} {arguments}");
        let reply = stead.call(tool, arguments);
        let answer =
            format!("{} {} {:?}", reply.joined_text(), Value::Object(reply.structured()), reply.failure);
        check_answer(&secrets, &question, &answer);
    }
    // Agents of organizations have no State.
    let usable = TOOLS.iter().map(|tool| tool.name).filter(|name| !name.starts_with("state_"));
    assert_eq!(used.into_iter().collect::<Vec<_>>(), usable.collect::<Vec<_>>(), "every tool is asked");
    let log = format!("{:?}", stead.vfs().log(&LogQuery::default()).unwrap());
    check_answer(&secrets, "log", &log);
}

/// All words that an agent can't learn.
fn secret_words(world: &World, organization: &RandomOrganization, caller: usize) -> Vec<String> {
    let words = world.organizations.iter().map(|other| {
        let is_own = other.id == organization.id;
        other.secret_words(is_own.then_some(caller))
    });
    words.collect::<Vec<_>>().concat()
}

/// An id of each agent's private folder, and the name of a file in it.
fn private_ids(stores: &Stores, organization: &RandomOrganization) -> Vec<(usize, String, String)> {
    let of_agent = |agent| {
        let found = discover(&open(stores, organization, agent)).swap_remove(0);
        (agent, found.1, found.2[0].clone())
    };
    (0..organization.agents.len()).map(of_agent).collect()
}

/// The ids that only other agents have got.
fn foreign_ids(ids: &[Vec<(usize, String, String)>; 2], own: usize, caller: usize) -> Vec<(String, String)> {
    let all = ids.iter().enumerate().flat_map(|(number, ids)| ids.iter().map(move |id| (number, id)));
    let others = all.filter(|(number, (agent, ..))| (*number, *agent) != (own, caller));
    others.map(|(_, (_, id, name))| (id.clone(), name.clone())).collect()
}

fn cases() -> u32 {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { 64 } else { 4 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn f29_f89_an_agent_reads_what_it_discovers_and_learns_nothing_of_the_rest(
        organizations in (organization("acme"), organization("globex")),
        is_physical: bool,
    ) {
        let world = World::new(organizations.into(), is_physical);
        let stores = world.stores();
        world.fill(&stores);
        let ids = world.organizations.each_ref().map(|organization| private_ids(&stores, organization));
        let callers = |number: usize| 0..world.organizations[number].agents.len();
        let all: Vec<_> = (0..2).flat_map(|number| callers(number).map(move |caller| (number, caller))).collect();
        for (number, caller) in &all {
            let foreign = foreign_ids(&ids, *number, *caller);
            check_discovery(&stores, &world.organizations[*number], *caller, &foreign);
        }
        for (number, caller) in &all {
            let foreign = foreign_ids(&ids, *number, *caller);
            check_answers(&world, &stores, &world.organizations[*number], *caller, &foreign);
        }
    }
}

#[test]
fn f89_f153_the_audit_records_of_an_agent_name_only_what_it_can_discover() {
    let teams = vec![false, true];
    let acme = RandomOrganization {
        id: "acme",
        teams: teams.clone(),
        agents: vec![Some(0), Some(0), Some(1), None],
    };
    let globex = RandomOrganization { id: "globex", teams, agents: vec![Some(0)] };
    for is_physical in [false, true] {
        let world = World::new([acme.clone(), globex.clone()], is_physical);
        let stores = world.stores();
        // Only what an agent may do is in its records here: it names no secret itself.
        for caller in 0..acme.agents.len() {
            let stead = open(&stores, &acme, caller);
            for (path, id, _) in discover(&stead) {
                let _ = stead.vfs().write(format!("{path}/by{caller}.md"), "x");
                stead.call("read_file_by_id", json!({ "folderId": id, "filename": "none" }));
                stead.call("read_file", json!({ "path": path }));
            }
            for (tool, arguments) in calls(
                &["/".to_owned(), "/workspaces".to_owned()],
                &[],
                "none",
                &acme.folder_path((Owner::Agent(caller), "private")),
            ) {
                stead.call(tool, arguments);
            }
        }
        drop(stores);
        for caller in 0..acme.agents.len() {
            let agent = acme.agent(caller);
            let audit = world.office.stead(["audit", "--json", "--limit", "1000", "--agent", &agent]);
            assert!(audit.lines().count() > 20, "{audit}");
            check_answer(&secret_words(&world, &acme, caller), "audit", &audit);
        }
    }
}
