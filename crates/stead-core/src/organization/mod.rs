//! Organizations: teams and agents whose records decide what each agent can reach.
//!
//! Everything here is a function of the records. An agent's rights compile into Workspaces with Access Scopes; the
//! folder tools and the path tools are two views of these Workspaces.
//!
//! ```
//! use stead_core::AccessScope;
//! use stead_core::organization::{AgentRecord, Folder, Organization, OrganizationRecords, TeamRecord, Visibility};
//!
//! let records = OrganizationRecords {
//!     id: "acme".into(),
//!     teams: vec![TeamRecord::new("team-hr", "HR")],
//!     agents: vec![
//!         AgentRecord::new("agent-marcus", "Marcus").in_team("team-hr"),
//!         AgentRecord::new("agent-bob", "Bob"),
//!     ],
//!     ..OrganizationRecords::default()
//! };
//! let acme = Organization::new(records).expect("the records are valid");
//! let (marcus, bob) = (acme.agent_index("agent-marcus").unwrap(), acme.agent_index("agent-bob").unwrap());
//! let hr = Folder::of_team(acme.team_index("team-hr").unwrap(), Visibility::Shared);
//! assert_eq!(acme.folder_name(hr), "HR Team - Shared");
//! assert_eq!(acme.access(marcus, hr), Some(AccessScope::ReadWrite));
//! assert_eq!(acme.access(bob, hr), Some(AccessScope::ReadOnly));
//! ```

mod discovery;
mod folder_ids;
mod folders;
mod records;
mod rights;
mod whitelist;

pub use discovery::{FolderScope, InvalidFolderScope};
pub use folder_ids::{FolderIds, FolderLookup, IdHolder, IssuedFolder, MemoryFolderIds};
pub use folders::{Folders, Membership};
pub use records::{
    AgentRecord, OrganizationRecords, OrganizationSettings, RecordField, RecordProblem, RecordRef,
    TeamRecord, ToolRule,
};
pub use rights::{Folder, FolderOwner, Grant, GrantReason, Visibility};
pub use whitelist::ToolLevel;

use std::collections::HashMap;

use crate::path::VfsPath;
use crate::store::QuotaLimits;

/// The directory, from the root of a stead and from an organization's directory in its Store, that has the folders of all
/// its agents and teams.
pub const WORKSPACES_DIRECTORY: &str = "workspaces";

/// An organization with valid records: ids are unique, and an agent's team exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organization {
    id: String,
    name: String,
    tools: ToolRule,
    settings: OrganizationSettings,
    /// Sorted by name, then by id.
    teams: Vec<Team>,
    /// Sorted by name, then by id.
    agents: Vec<OrganizationAgent>,
    team_by_id: HashMap<String, TeamIndex>,
    agent_by_id: HashMap<String, AgentIndex>,
}

/// A team of an [`Organization`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TeamIndex(usize);

/// An agent of an [`Organization`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentIndex(usize);

impl TeamIndex {
    /// The position among the organization's teams, which are sorted by name.
    pub fn position(self) -> usize {
        self.0
    }
}

impl AgentIndex {
    /// The position among the organization's agents, which are sorted by name.
    pub fn position(self) -> usize {
        self.0
    }
}

/// A team.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Team {
    /// Its id, which is also the name of its directory.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Whether its members may read every agent's shared folder.
    pub leadership: bool,
    /// Which of the organization's tools its members have.
    pub tools: ToolRule,
    /// Sorted by name, then by id.
    members: Vec<AgentIndex>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrganizationAgent {
    /// Its id, which is also the name of its directory.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its team, if it is in one.
    pub team: Option<TeamIndex>,
    /// Which of its team's tools it has.
    pub tools: ToolRule,
}

impl Team {
    /// The name without a last word "Team": `HR` for `HR Team`.
    pub fn short_name(&self) -> &str {
        let without = self.name.strip_suffix("Team").or_else(|| self.name.strip_suffix("team"));
        match without.map(|name| (name, name.trim_end())) {
            Some((name, short)) if !short.is_empty() && short.len() < name.len() => short,
            _ => &self.name,
        }
    }

    /// Whether another record of a team says the same, apart from its members.
    fn is_same_record(&self, other: &Team) -> bool {
        (&self.id, &self.name, self.leadership, &self.tools)
            == (&other.id, &other.name, other.leadership, &other.tools)
    }

    /// The members, sorted by name.
    pub fn members(&self) -> &[AgentIndex] {
        &self.members
    }
}

impl Organization {
    /// The id, which is also the name of its directory.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The settings.
    pub fn settings(&self) -> &OrganizationSettings {
        &self.settings
    }

    /// The same organization with other settings.
    pub fn with_settings(self, settings: OrganizationSettings) -> Self {
        Organization { settings, ..self }
    }

    /// The same organization without teams and agents, so that nobody has rights by it.
    pub fn without_members(&self) -> Self {
        Organization {
            id: self.id.clone(),
            name: self.name.clone(),
            tools: self.tools.clone(),
            settings: self.settings.clone(),
            teams: Vec::new(),
            agents: Vec::new(),
            team_by_id: HashMap::new(),
            agent_by_id: HashMap::new(),
        }
    }

    /// Which tools its agents may have.
    pub fn tools(&self) -> &ToolRule {
        &self.tools
    }

    /// All teams, sorted by name.
    pub fn teams(&self) -> impl ExactSizeIterator<Item = (TeamIndex, &Team)> {
        self.teams.iter().enumerate().map(|(index, team)| (TeamIndex(index), team))
    }

    /// All agents, sorted by name.
    pub fn agents(&self) -> impl ExactSizeIterator<Item = (AgentIndex, &OrganizationAgent)> {
        self.agents.iter().enumerate().map(|(index, agent)| (AgentIndex(index), agent))
    }

    /// A team.
    pub fn team(&self, team: TeamIndex) -> &Team {
        &self.teams[team.0]
    }

    /// An agent.
    pub fn agent(&self, agent: AgentIndex) -> &OrganizationAgent {
        &self.agents[agent.0]
    }

    /// The team with this id.
    pub fn team_index(&self, id: &str) -> Option<TeamIndex> {
        self.team_by_id.get(id).copied()
    }

    /// The agent with this id.
    pub fn agent_index(&self, id: &str) -> Option<AgentIndex> {
        self.agent_by_id.get(id).copied()
    }

    /// The team of an agent, if it is in one.
    pub fn team_of(&self, agent: AgentIndex) -> Option<&Team> {
        self.agent(agent).team.map(|team| self.team(team))
    }

    /// Whether an agent is in a leadership team.
    pub fn is_leadership(&self, agent: AgentIndex) -> bool {
        self.team_of(agent).is_some_and(|team| team.leadership)
    }

    /// The name of an agent on a server: `ORGANIZATION/AGENT`.
    pub fn qualified_name(&self, agent: AgentIndex) -> String {
        format!("{}/{}", self.id, self.agent(agent).id)
    }

    /// The id of the agent or team that a folder belongs to.
    pub fn owner_id(&self, folder: Folder) -> &str {
        match folder.owner {
            FolderOwner::Agent(agent) => &self.agent(agent).id,
            FolderOwner::Team(team) => &self.team(team).id,
        }
    }

    /// The folder of the agent or team with this id.
    pub fn folder(&self, owner_id: &str, visibility: Visibility) -> Option<Folder> {
        let agent = self.agent_index(owner_id).map(|agent| Folder::of_agent(agent, visibility));
        agent.or_else(|| Some(Folder::of_team(self.team_index(owner_id)?, visibility)))
    }

    /// The name of a folder for people: `Library Team - Shared`, `Catalyst (HR) - Private`.
    pub fn folder_name(&self, folder: Folder) -> String {
        let half = folder.visibility.title();
        match folder.owner {
            FolderOwner::Team(team) => format!("{} Team - {half}", self.team(team).short_name()),
            FolderOwner::Agent(agent) => match self.team_of(agent) {
                Some(team) => format!("{} ({}) - {half}", self.agent(agent).name, team.short_name()),
                None => format!("{} - {half}", self.agent(agent).name),
            },
        }
    }

    /// The logical path of a folder: the prefix of its Workspace.
    pub fn folder_path(&self, folder: Folder) -> VfsPath {
        let path =
            format!("/{WORKSPACES_DIRECTORY}/{}/{}", self.owner_id(folder), folder.visibility.as_str());
        VfsPath::parse(&path).expect("ids were checked")
    }

    /// The directory of a folder's owner in the Store, which has both halves.
    pub fn owner_directory(&self, folder: Folder) -> VfsPath {
        let path = format!("/organizations/{}/{WORKSPACES_DIRECTORY}/{}", self.id, self.owner_id(folder));
        VfsPath::parse(&path).expect("ids were checked")
    }

    /// The limits on both folders of a folder's owner together.
    pub fn quota(&self, folder: Folder) -> QuotaLimits {
        match folder.owner {
            FolderOwner::Agent(_) => self.settings.agent_quota,
            FolderOwner::Team(_) => self.settings.team_quota,
        }
    }

    /// The directory of a folder in the Store.
    pub fn folder_directory(&self, folder: Folder) -> VfsPath {
        let directory = self.owner_directory(folder).join(folder.visibility.as_str());
        directory.expect("ids were checked")
    }

    /// The folder whose directory in the Store is this one, or contains it. Its directory in the older layout,
    /// `agents/{id}` or `teams/{id}`, counts too.
    pub fn folder_at(&self, directory: &VfsPath) -> Option<Folder> {
        self.folder_and_rest(directory).map(|(folder, _)| folder)
    }

    /// Where something in a folder is in the present layout, if this is its path in the older one; the same path otherwise.
    pub fn in_present_layout(&self, path: &VfsPath) -> VfsPath {
        let present =
            self.folder_and_rest(path).map(|(folder, rest)| self.folder_directory(folder).join(rest));
        present.and_then(Result::ok).unwrap_or_else(|| path.clone())
    }

    /// The folder that has a path in the Store, in either layout, and the path in it.
    fn folder_and_rest<'p>(&self, path: &'p VfsPath) -> Option<(Folder, &'p str)> {
        let below = path.as_str().strip_prefix(&format!("/organizations/{}/", self.id))?;
        let (directory, below) = below.split_once('/')?;
        let (owner_id, below) = below.split_once('/')?;
        let (half, rest) = below.split_once('/').unwrap_or((below, ""));
        let visibility = Visibility::ALL.into_iter().find(|visibility| visibility.as_str() == half)?;
        let is_its_kind = match directory {
            WORKSPACES_DIRECTORY => true,
            "agents" => self.agent_index(owner_id).is_some(),
            "teams" => self.agent_index(owner_id).is_none(),
            _ => false,
        };
        is_its_kind.then(|| self.folder(owner_id, visibility)).flatten().map(|folder| (folder, rest))
    }
}

#[cfg(test)]
mod tests;
