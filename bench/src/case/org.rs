//! What an organization costs as it grows: reading its records, opening an agent's stead, and an agent's calls compared
//! with those of an agent without an organization.

use std::path::Path;

use serde_json::{Value, json};
use stead::{Config, Identity, Stead, Stores, filesystem_map};

use crate::Result;
use crate::case::Effort;
use crate::content::{SMALL, renumber, text};
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit, count};

/// The sizes of the organizations, in agents.
const SIZES: [usize; 4] = [100, 1_000, 5_000, 20_000];
const AGENTS_PER_TEAM: usize = 20;
/// Files of each agent that calls are made on.
const FILES: usize = 200;
/// Calls in a round.
const CALLS: usize = 500;

/// An agent in a team, one in a leadership team, and one without an organization.
const MEMBER: &str = "agent-30";
const LEADER: &str = "agent-0";
const PLAIN: &str = "plain";

/// A table of how the work for a whole organization grows, and one of calls.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let organizations =
        SIZES.iter().map(|&agents| OpenOrganization::new(data, agents)).collect::<Result<Vec<_>>>()?;
    Ok(vec![growth(&organizations, effort)?, calls(&organizations, effort)?])
}

/// An organization of one size, with the steads of three of its agents.
struct OpenOrganization {
    agents: usize,
    config: Config,
    stores: Stores,
    callers: [Caller; 3],
}

/// A stead, and the folder of it that calls are made in.
struct Caller {
    stead: Stead,
    folder: String,
}

impl OpenOrganization {
    fn new(data: &Path, agents: usize) -> Result<Self> {
        let directory = data.join(agents.to_string());
        std::fs::create_dir(&directory)?;
        let file = directory.join("stead.toml");
        std::fs::write(&file, CONFIG)?;
        write_records(&directory, agents)?;
        let config = Config::read(&file)?;
        let stores = Stores::of(&config);
        stores.open_audit()?;
        let caller = |agent: &str, owner: &str| -> Result<Caller> {
            let stead = Stead::open_in(&stores, &config.identity(agent))?;
            let folder = format!("/workspaces/{owner}/private");
            for number in 0..FILES {
                stead.vfs().write(&*format!("{folder}/{number}.md"), text(number, SMALL))?;
            }
            Ok(Caller { stead, folder })
        };
        let callers = [
            caller(PLAIN, PLAIN)?,
            caller(&format!("acme/{MEMBER}"), MEMBER)?,
            caller(&format!("acme/{LEADER}"), LEADER)?,
        ];
        Ok(OpenOrganization { agents, config, stores, callers })
    }

    fn open(&self, agent: &str) -> Result<Stead> {
        Ok(Stead::open_in(&self.stores, &Identity::agent(format!("acme/{agent}")))?)
    }
}

/// The agent without an organization has two folders, with the quotas that an organization's agent has by default.
const CONFIG: &str = r#"
[database]
durability = "fast"

[stores.files]
kind = "virtual"

[[organization]]
path = "."
store = "files"

[[agents.plain.workspaces]]
prefix = "/workspaces/plain/private"
scope = "rw"
store = "files"
path = "/organizations/other/workspaces/plain/private"
quota = { files = 1000, bytes = "100 MiB" }

[[agents.plain.workspaces]]
prefix = "/workspaces/plain/shared"
scope = "rw"
store = "files"
path = "/organizations/other/workspaces/plain/shared"
quota = { files = 1000, bytes = "100 MiB" }
"#;

/// Writes the three files of records. The first team is a leadership team.
fn write_records(directory: &Path, agents: usize) -> Result {
    let tools = json!(["read_file", "write_file", "list_directory"]);
    let organization = json!({ "id": "acme", "name": "Acme", "toolWhitelist": tools });
    let team = |index: usize| json!({ "id": format!("team-{index}"), "name": format!("Team number {index}"), "leadership": index == 0 });
    let agent = |index: usize| {
        let team = format!("team-{}", index / AGENTS_PER_TEAM);
        json!({ "id": format!("agent-{index}"), "name": format!("Agent number {index}"), "teamId": team })
    };
    let teams = (0..agents / AGENTS_PER_TEAM).map(team).collect::<Vec<Value>>();
    let agents = (0..agents).map(agent).collect::<Vec<Value>>();
    for (name, value) in
        [("org.json", organization), ("teams.json", teams.into()), ("agents.json", agents.into())]
    {
        std::fs::write(directory.join(name), value.to_string())?;
    }
    Ok(())
}

fn growth(organizations: &[OpenOrganization], effort: Effort) -> Result<Table> {
    let columns: Vec<_> = SIZES.iter().map(|agents| format!("{} agents", count(*agents))).collect();
    let labels: Vec<_> = columns.iter().map(String::as_str).collect();
    let title = format!("an organization with {AGENTS_PER_TEAM} agents in a team");
    let mut table = Table::new(title, &labels, &[]);
    type Work = fn(&OpenOrganization) -> Result;
    let rows: [(&str, Work); 5] = [
        ("read the records", |organization| {
            Config::read(organization.config.file())?;
            Ok(())
        }),
        ("open a member's stead", |organization| organization.open(MEMBER).map(drop)),
        ("open a leader's stead", |organization| organization.open(LEADER).map(drop)),
        ("the map of a member", |organization| map(&organization.callers[1])),
        ("the map of a leader", |organization| map(&organization.callers[2])),
    ];
    for (name, work) in rows {
        eprintln!("  {name}");
        let measured = in_turns(organizations, effort.rounds(), |organization, _| {
            // About as long for each size.
            let times = (20_000 / organization.agents).clamp(1, 20);
            timed(times, || (0..times).try_for_each(|_| work(organization))).map(Some)
        })?;
        table.row(name, &measured, Unit::Time);
    }
    Ok(table)
}

fn map(caller: &Caller) -> Result {
    std::hint::black_box(filesystem_map::filesystem_map(&caller.stead.toolbox()));
    Ok(())
}

fn calls(organizations: &[OpenOrganization], effort: Effort) -> Result<Table> {
    let columns = ["without an organization", "a member", "a leader"];
    let pairs = [(columns[1], columns[0]), (columns[2], columns[0])];
    let mut table = Table::new("4 KiB files, Virtual, with the audit", &columns, &pairs);
    type Call = fn(&Caller) -> Result;
    let rows: [(&str, Call); 3] = [("read", read), ("write", write), ("list 200", list)];
    for (name, call) in rows {
        for organization in organizations {
            let agents = count(organization.agents);
            eprintln!("  {name}, {agents} agents");
            let measured = in_turns(&organization.callers, effort.rounds(), |caller, _| {
                let sample = timed(CALLS, || (0..CALLS).try_for_each(|_| call(caller)))?;
                Ok(Some(sample))
            })?;
            table.row(format!("{name}, {agents} agents"), &measured, Unit::Time);
        }
    }
    Ok(table)
}

fn random_path(caller: &Caller) -> String {
    format!("{}/{}.md", caller.folder, fastrand::usize(..FILES))
}

fn read(caller: &Caller) -> Result {
    caller.stead.vfs().read(&*random_path(caller))?;
    Ok(())
}

fn write(caller: &Caller) -> Result {
    let mut content = text(0, SMALL);
    renumber(&mut content, fastrand::usize(..1_000_000_000_000));
    caller.stead.vfs().write(&*random_path(caller), content)?;
    Ok(())
}

fn list(caller: &Caller) -> Result {
    caller.stead.vfs().list(&*caller.folder, &stead::vfs::ListPage::all())?;
    Ok(())
}
