//! Tests of the folder tools, with the numbers of the lines of the specification that each proves.

mod audit;
mod batches;
mod deleting;
mod discovery;
mod ids;
mod info;
mod paging;
mod parameters;
mod permissions;
mod reading;
mod subfolders;
mod symlinks;
mod transfers;
mod writing;

use crate::clock::{FixedClock, Timestamp};
use crate::organization::{
    AgentRecord, FolderOwner, Folders, MemoryFolderIds, Organization, OrganizationRecords, TeamRecord,
};
use crate::store::Store;

use super::*;

/// The tools of organizations.
fn folder_tools() -> impl Iterator<Item = &'static Tool> {
    TOOLS.into_iter().filter(|tool| tool.offered == OfferedWhen::InOrganization)
}

/// HR (Marcus, Catalyst), Finance (Fiona), Library, Leadership (Elena), and Solo, who has no team.
fn records() -> OrganizationRecords {
    let leadership = TeamRecord { leadership: true, ..TeamRecord::new("team-lead", "Leadership") };
    OrganizationRecords {
        id: "acme".into(),
        teams: vec![
            TeamRecord::new("team-hr", "HR"),
            TeamRecord::new("team-fin", "Finance Team"),
            TeamRecord::new("team-lib", "Library"),
            leadership,
        ],
        agents: vec![
            AgentRecord::new("marcus", "Marcus").in_team("team-hr"),
            AgentRecord::new("catalyst", "Catalyst").in_team("team-hr"),
            AgentRecord::new("fiona", "Fiona").in_team("team-fin"),
            AgentRecord::new("elena", "Elena").in_team("team-lead"),
            AgentRecord::new("solo", "Solo"),
        ],
        ..OrganizationRecords::default()
    }
}

/// An organization with one Store for all its folders.
struct Office {
    organization: Arc<Organization>,
    store: Arc<ModelStore>,
    ids: Arc<MemoryFolderIds>,
    clock: Arc<FixedClock>,
    audit_log: Arc<MemoryAuditLog>,
}

impl Office {
    fn new() -> Self {
        Office::with_records(records())
    }

    fn with_records(records: OrganizationRecords) -> Self {
        let clock = Arc::new(FixedClock::at(Timestamp::from_secs(1_790_000_000)));
        let audit_log = Arc::new(MemoryAuditLog::new());
        Office {
            organization: Arc::new(Organization::new(records).unwrap()),
            store: Arc::new(ModelStore::recording(Arc::clone(&audit_log))),
            ids: Arc::new(MemoryFolderIds::new(clock.clone())),
            clock,
            audit_log,
        }
    }

    /// The same Store and ids after the records have changed.
    fn changed(&self, records: OrganizationRecords) -> Office {
        let organization = Arc::new(Organization::new(records).unwrap());
        let (store, ids) = (Arc::clone(&self.store), Arc::clone(&self.ids));
        let (clock, audit_log) = (Arc::clone(&self.clock), Arc::clone(&self.audit_log));
        Office { organization, store, ids, clock, audit_log }
    }

    /// All tools of an agent.
    fn tools(&self, agent: &str) -> Toolbox {
        self.tools_of(agent, TOOLS.into_iter().map(|tool| tool.name))
    }

    /// These tools of an agent.
    fn tools_of(&self, agent: &str, names: impl IntoIterator<Item = &'static str>) -> Toolbox {
        self.tools_over(self.store.clone(), agent, names)
    }

    /// These tools of an agent, over another Store.
    fn tools_over(
        &self,
        store: Arc<dyn Store>,
        agent: &str,
        names: impl IntoIterator<Item = &'static str>,
    ) -> Toolbox {
        let organization = &self.organization;
        let agent = organization.agent_index(agent).unwrap();
        let mut builder = Vfs::builder(Identity::agent(organization.agent(agent).id.as_str()))
            .clock(self.clock.clone())
            .audit(self.audit_log.clone())
            .denial_note(organization.denial_note(agent));
        for grant in organization.grants(agent) {
            let mount = Mount::at(Arc::clone(&store), &organization.folder_directory(grant.folder));
            let settings = organization.settings();
            let quota = match grant.folder.owner {
                FolderOwner::Agent(_) => settings.agent_quota,
                FolderOwner::Team(_) => settings.team_quota,
            };
            let workspace = Workspace::new(organization.folder_path(grant.folder), grant.scope, mount)
                .with_title(organization.folder_name(grant.folder))
                .with_quota_at(&organization.owner_directory(grant.folder), quota);
            builder = builder.workspace(workspace);
        }
        let only = Some(names.into_iter().map(str::to_owned).collect());
        Toolbox::new(builder.build().unwrap())
            .with_choice(ToolChoice { only, ..ToolChoice::default() })
            .with_folders(Arc::new(Folders::new(Arc::clone(organization), agent, self.ids.clone())))
    }

    /// Everything in the Store, for a person who runs it.
    fn store_vfs(&self) -> Vfs {
        let whole = Workspace::new(VfsPath::root(), ReadWrite, Mount::new(self.store.clone()));
        let whole = whole.with_hide::<&str>([]).unwrap();
        Vfs::builder(Identity::agent("operator")).workspace(whole).build().unwrap()
    }

    /// Writes a file into a folder, such as `team-hr/shared`.
    fn put(&self, folder: &str, name: &str, content: impl Into<Vec<u8>>) {
        self.store_vfs().write(&*store_path(folder, name), content).unwrap();
    }

    /// The content of a file of a folder.
    fn content(&self, folder: &str, name: &str) -> Option<Vec<u8>> {
        self.store_vfs().read(&*store_path(folder, name)).ok().map(|read| read.bytes)
    }
}

fn store_path(folder: &str, name: &str) -> String {
    format!("/organizations/acme/workspaces/{folder}/{name}")
}

/// What `list_folders` answers.
fn list(tools: &Toolbox, scope: &str) -> Value {
    call_json(tools, "list_folders", json!({ "scope": scope }))
}

/// Calls a tool that has to answer with an object: the text is the facts as JSON, and they match the schema.
fn call_json(tools: &Toolbox, name: &str, arguments: Value) -> Value {
    let reply = call(tools, name, arguments);
    assert_eq!(reply.failure, None, "{name}");
    assert_eq!(reply.blocks.len(), 1, "{name}");
    let facts = Value::Object(reply.facts.clone());
    super::schemas::assert_matches_schema(&facts, &tool(name).unwrap().output_schema().into(), name);
    let text = reply.joined_text();
    assert_eq!(reply.for_model(), [Block::Text(text.clone())], "{name}");
    let mut object: Value = serde_json::from_str(&text).unwrap();
    let shown = object.clone();
    object.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    assert_eq!(object, facts, "{name}");
    shown
}

/// The id of the first folder whose path is this one, such as `team-hr/shared`, found in a scope.
fn folder_id(tools: &Toolbox, scope: &str, folder: &str) -> String {
    let listing = list(tools, scope);
    let path = format!("/workspaces/{folder}/");
    let found = listing["folders"].as_array().unwrap().iter().find(|found| found["path"] == *path);
    let found = found.unwrap_or_else(|| panic!("{scope} has no {folder}: {listing}"));
    found["folderId"].as_str().unwrap().to_owned()
}

/// The names of the files of the first folder of a scope.
fn file_names(tools: &Toolbox, scope: &str) -> Vec<String> {
    let listing = list(tools, scope);
    let files = listing["folders"][0]["files"].as_array().unwrap();
    files.iter().map(|file| file["filename"].as_str().unwrap().to_owned()).collect()
}

/// Reads a file, which has to succeed; returns the text for a model and the facts.
fn read(tools: &Toolbox, id: &str, name: &str) -> (String, Value) {
    let reply = call(tools, "read_file_by_id", json!({ "folderId": id, "filename": name }));
    assert_eq!(reply.failure, None, "{name}");
    let facts = Value::Object(reply.facts.clone());
    let schema = tool("read_file_by_id").unwrap().output_schema().into();
    super::schemas::assert_matches_schema(&facts, &schema, name);
    match reply.for_model().as_slice() {
        [Block::Text(text)] => (text.clone(), facts),
        blocks => panic!("{blocks:?}"),
    }
}

fn write(tools: &Toolbox, id: &str, name: &str, content: &str) -> Value {
    call_json(tools, "write_file_by_id", json!({ "folderId": id, "filename": name, "content": content }))
}
