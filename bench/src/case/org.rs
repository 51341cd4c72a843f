//! What an organization costs as it grows: reading its records, opening an agent's stead, discovering folders, and an
//! agent's calls compared with those of an agent without an organization.

use std::path::Path;

use serde_json::{Value, json};
use stead::tools::ApprovalAnswer;
use stead::{Config, Identity, Stead, Stores, Toolbox, filesystem_map};

use crate::Result;
use crate::case::Effort;
use crate::content::{SMALL, renumber, text};
use crate::measure::{CpuTimeScope, cpu_timed, in_turns, timed};
use crate::table::{Table, Unit, count, with_unit};

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

/// Tables of how the work for a whole organization grows, of calls, and of the memory that folder ids take.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    // First, while the process has little memory.
    let discoveries = discoveries(data)?;
    let organizations =
        SIZES.iter().map(|&agents| OpenOrganization::new(data, agents)).collect::<Result<Vec<_>>>()?;
    let (growth, calls) = (growth(&organizations, effort)?, calls(&organizations, effort)?);
    Ok(vec![growth, calls, reads(&organizations, effort)?, discoveries])
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
    toolbox: Toolbox,
    folder: String,
}

impl Caller {
    fn new(stead: Stead, folder: String) -> Self {
        Caller { toolbox: stead.toolbox(), stead, folder }
    }
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
            Ok(Caller::new(stead, folder))
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
    let tools = json!(["read_file", "write_file", "list_directory", "list_folders"]);
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
    let rows: [(&str, Work); 7] = [
        ("read the records", |organization| {
            Config::read(organization.config.file())?;
            Ok(())
        }),
        ("open a member's stead", |organization| organization.open(MEMBER).map(drop)),
        ("open a leader's stead", |organization| organization.open(LEADER).map(drop)),
        ("the map of a member", |organization| map(&organization.callers[1])),
        ("the map of a leader", |organization| map(&organization.callers[2])),
        ("`list_folders` of a member, org_shared", |organization| {
            list_folders(&organization.callers[1], "org_shared")
        }),
        ("`list_folders` of a leader, org_shared", |organization| {
            list_folders(&organization.callers[2], "org_shared")
        }),
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
    let rows: [(&str, Call); 1] = [("write", write)];
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

/// Calls that wait for nothing, by the processor time of their thread: other work of the machine doesn't count.
fn reads(organizations: &[OpenOrganization], effort: Effort) -> Result<Table> {
    let columns = ["without an organization", "a member", "a leader"];
    let pairs = [(columns[1], columns[0]), (columns[2], columns[0])];
    let mut table = Table::new("the same, processor time", &columns, &pairs);
    type Call = fn(&Caller) -> Result;
    let rows: [(&str, Call); 4] = [
        ("read", read),
        ("`read_file` by path", read_file),
        ("list 200", list),
        ("`list_folders`, my_private with 200 files", |caller| list_folders(caller, "my_private")),
    ];
    for (name, call) in rows {
        for organization in organizations {
            let agents = count(organization.agents);
            eprintln!("  {name}, {agents} agents");
            let measured = in_turns(&organization.callers, effort.rounds(), |caller, _| {
                if name.starts_with("`list_folders`") && caller.folder.contains(PLAIN) {
                    return Ok(None);
                }
                let scope = CpuTimeScope::Caller;
                let sample = cpu_timed(scope, CALLS, || (0..CALLS).try_for_each(|_| call(caller)))?;
                Ok(Some(sample))
            })?;
            table.row(format!("{name}, {agents} agents"), &measured, Unit::Time);
        }
    }
    Ok(table)
}

/// How much memory the process has after many discoveries, each of which issues a new folder id.
fn discoveries(data: &Path) -> Result<Table> {
    const COUNTS: [usize; 5] = [1_000, 100_000, 200_000, 500_000, 1_000_000];
    const FILES_SEEN: usize = 10;
    let directory = data.join("discoveries");
    std::fs::create_dir(&directory)?;
    let file = directory.join("stead.toml");
    let config = CONFIG.replace("kind = \"virtual\"", "kind = \"memory\"");
    std::fs::write(&file, format!("[audit]\nenabled = false\n{config}"))?;
    write_records(&directory, SIZES[0])?;
    let config = Config::read(&file)?;
    let stead = Stead::open_in(&Stores::of(&config), &config.identity(format!("acme/{MEMBER}")))?;
    let folder = format!("/workspaces/{MEMBER}/private");
    for number in 0..FILES_SEEN {
        stead.vfs().write(&*format!("{folder}/{number}.md"), text(number, SMALL))?;
    }
    let caller = Caller::new(stead, folder);
    let labels: Vec<_> = COUNTS.iter().map(|discoveries| count(*discoveries)).collect();
    let labels: Vec<_> = labels.iter().map(String::as_str).collect();
    let mut table = Table::new(format!("discoveries of a folder with {FILES_SEEN} files"), &labels, &[]);
    let (mut done, mut cells) = (0, Vec::new());
    for discoveries in COUNTS {
        eprintln!("  {discoveries} discoveries");
        for _ in done..discoveries {
            list_folders(&caller, "my_private")?;
        }
        done = discoveries;
        cells.push(with_unit(resident_memory()?, Unit::Memory));
    }
    table.texts("memory of the process", cells);
    Ok(table)
}

/// The memory of this process, in bytes.
fn resident_memory() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes =
        line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("the kernel reports no memory")?;
    Ok(kibibytes.parse::<f64>()? * 1024.0)
}

/// Calls a tool, which has to succeed.
fn call_tool(caller: &Caller, tool: &str, arguments: &Value) -> Result {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let reply = caller.toolbox.call(tool, arguments, ApprovalAnswer::NobodyToAsk);
    let reply = reply.map_err(|_| "a person would have to be asked")?;
    match &reply.failure {
        Some(failure) => Err(failure.to_string().into()),
        None => Ok(()),
    }
}

fn list_folders(caller: &Caller, scope: &str) -> Result {
    call_tool(caller, "list_folders", &json!({ "scope": scope }))
}

fn read_file(caller: &Caller) -> Result {
    call_tool(caller, "read_file", &json!({ "path": random_path(caller) }))
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
