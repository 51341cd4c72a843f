//! Who may do what in which folder. This is the only place that decides it.

use crate::organization::{AgentIndex, Organization, TeamIndex};
use crate::scope::AccessScope;

/// One of the two folders of an agent or a team.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Folder {
    /// Whose folder it is.
    pub owner: FolderOwner,
    /// Which of the owner's two folders it is.
    pub visibility: Visibility,
}

/// An agent or a team.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FolderOwner {
    /// A team.
    Team(TeamIndex),
    /// An agent.
    Agent(AgentIndex),
}

/// Which of an owner's two folders is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Visibility {
    /// For the owner alone.
    Private,
    /// Others may read it.
    Shared,
}

impl Visibility {
    /// Both folders of an owner.
    pub const ALL: [Visibility; 2] = [Visibility::Private, Visibility::Shared];

    /// The name of the folder's directory.
    pub fn as_str(self) -> &'static str {
        match self {
            Visibility::Private => "private",
            Visibility::Shared => "shared",
        }
    }

    /// The word for people.
    pub fn title(self) -> &'static str {
        match self {
            Visibility::Private => "Private",
            Visibility::Shared => "Shared",
        }
    }
}

impl FolderOwner {
    /// The kind of the owner: `agent` or `team`.
    pub fn kind(self) -> &'static str {
        match self {
            FolderOwner::Agent(_) => "agent",
            FolderOwner::Team(_) => "team",
        }
    }
}

impl Folder {
    /// A folder of an agent.
    pub fn of_agent(agent: AgentIndex, visibility: Visibility) -> Self {
        Folder { owner: FolderOwner::Agent(agent), visibility }
    }

    /// A folder of a team.
    pub fn of_team(team: TeamIndex, visibility: Visibility) -> Self {
        Folder { owner: FolderOwner::Team(team), visibility }
    }
}

/// What an agent may do in a folder, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The folder.
    pub folder: Folder,
    /// What is allowed there.
    pub scope: AccessScope,
    /// Why.
    pub reason: GrantReason,
}

/// Why an agent may use a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GrantReason {
    /// The folder is its own.
    Owner,
    /// The folder is its team's.
    Member,
    /// The folder is a team's shared one, which every agent of the organization may read.
    SameOrganization,
    /// The folder is the shared one of an agent in its team.
    TeamMate,
    /// The folder is an agent's shared one, and its team is a leadership team.
    Leadership,
}

impl Organization {
    /// What an agent may do in a folder, and why; `None` if nothing.
    pub fn grant(&self, caller: AgentIndex, folder: Folder) -> Option<Grant> {
        let own_team = self.agent(caller).team;
        let (scope, reason) = match (folder.owner, folder.visibility) {
            (FolderOwner::Agent(owner), _) if owner == caller => (AccessScope::ReadWrite, GrantReason::Owner),
            (FolderOwner::Team(team), _) if own_team == Some(team) => {
                (AccessScope::ReadWrite, GrantReason::Member)
            }
            (_, Visibility::Private) => return None,
            (FolderOwner::Team(_), Visibility::Shared) => {
                (AccessScope::ReadOnly, GrantReason::SameOrganization)
            }
            (FolderOwner::Agent(owner), Visibility::Shared) => {
                let is_mate = own_team.is_some() && self.agent(owner).team == own_team;
                match (is_mate, self.is_leadership(caller)) {
                    (true, _) => (AccessScope::ReadOnly, GrantReason::TeamMate),
                    (false, true) => (AccessScope::ReadOnly, GrantReason::Leadership),
                    (false, false) => return None,
                }
            }
        };
        Some(Grant { folder, scope, reason })
    }

    /// Whether another version of the organization's records gives an agent the same: the same folders with the same names and
    /// rights, the same tools and the same limits.
    pub fn looks_the_same_to(&self, agent: AgentIndex, other: &Organization) -> bool {
        let record = self.agent(agent);
        let Some(other_agent) = other.agent_index(&record.id) else { return false };
        let same_teams = self.teams.len() == other.teams.len()
            && self.teams.iter().zip(&other.teams).all(|(one, two)| one.is_same_record(two));
        let same_settings =
            self.id == other.id && self.tools == other.tools && self.settings == other.settings;
        // Teams are in the same order, so an index means the same team.
        let same_record = *record == *other.agent(other_agent);
        same_teams
            && same_settings
            && same_record
            && self.colleague_names(agent).eq(other.colleague_names(other_agent))
    }

    /// What is shown to an agent of the agents whose shared folder it may read.
    fn colleague_names(&self, caller: AgentIndex) -> impl Iterator<Item = (&str, &str, Option<TeamIndex>)> {
        let colleagues = self.colleagues(caller).map(|agent| self.agent(agent));
        colleagues.map(|agent| (&*agent.id, &*agent.name, agent.team))
    }

    /// What an agent may do in a folder; `None` if nothing.
    pub fn access(&self, caller: AgentIndex, folder: Folder) -> Option<AccessScope> {
        self.grant(caller, folder).map(|grant| grant.scope)
    }

    /// Every folder that an agent may use, each once. Visits no folder of another agent that it may not use.
    pub fn grants(&self, caller: AgentIndex) -> impl Iterator<Item = Grant> {
        let own = Visibility::ALL.map(|visibility| Folder::of_agent(caller, visibility));
        let own_team = self.agent(caller).team;
        let team_private = own_team.map(|team| Folder::of_team(team, Visibility::Private));
        let teams = self.teams().map(|(team, _)| Folder::of_team(team, Visibility::Shared));
        let agents = self.colleagues(caller).map(|agent| Folder::of_agent(agent, Visibility::Shared));
        let folders = own.into_iter().chain(team_private).chain(teams).chain(agents);
        folders.filter_map(move |folder| self.grant(caller, folder))
    }

    /// The other agents whose shared folder an agent may read, sorted by name.
    pub(super) fn colleagues(&self, caller: AgentIndex) -> impl Iterator<Item = AgentIndex> {
        let everyone = self.is_leadership(caller).then(|| self.agents().map(|(agent, _)| agent));
        let mates = match (&everyone, self.team_of(caller)) {
            (None, Some(team)) => team.members(),
            _ => &[],
        };
        let all = everyone.into_iter().flatten().chain(mates.iter().copied());
        all.filter(move |agent| *agent != caller)
    }
}
