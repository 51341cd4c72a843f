//! The records of an organization as they were read, and the checks that make an [`Organization`] of them.

use std::collections::{BTreeSet, HashMap};

use crate::identity::is_valid_id;
use crate::organization::{AgentIndex, Organization, OrganizationAgent, Team, TeamIndex};
use crate::store::QuotaLimits;

/// The records of an organization, unchecked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrganizationRecords {
    /// The organization's id.
    pub id: String,
    /// Its name; the id if absent.
    pub name: Option<String>,
    /// Which tools its agents may have.
    pub tools: ToolRule,
    /// Limits the teams to those with these ids, if present.
    pub listed_teams: Option<Vec<String>>,
    /// The teams.
    pub teams: Vec<TeamRecord>,
    /// The agents.
    pub agents: Vec<AgentRecord>,
    /// The settings.
    pub settings: OrganizationSettings,
}

/// The record of a team.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TeamRecord {
    /// Its id.
    pub id: String,
    /// Its name; the id if absent.
    pub name: Option<String>,
    /// Whether its members may read every agent's shared folder.
    pub leadership: bool,
    /// Which of the organization's tools its members have.
    pub tools: ToolRule,
}

/// The record of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentRecord {
    /// Its id.
    pub id: String,
    /// Its name; the id if absent.
    pub name: Option<String>,
    /// The id of its team. One that no team has counts as absent.
    pub team_id: Option<String>,
    /// Which of its team's tools it has.
    pub tools: ToolRule,
}

impl TeamRecord {
    /// A team without any rule of its own.
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        TeamRecord { id: id.into(), name: Some(name.into()), ..TeamRecord::default() }
    }
}

impl AgentRecord {
    /// An agent without a team and without any rule of its own.
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        AgentRecord { id: id.into(), name: Some(name.into()), ..AgentRecord::default() }
    }

    /// The same agent in a team.
    pub fn in_team(self, team_id: impl Into<String>) -> Self {
        AgentRecord { team_id: Some(team_id.into()), ..self }
    }
}

/// Which tools one level of an organization allows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolRule {
    /// Only these; if absent, those of the level above. At the level of the organization, absent means none.
    pub whitelist: Option<BTreeSet<String>>,
    /// None of these: the older form of a rule.
    pub blacklist: BTreeSet<String>,
}

/// The limits on the folders of an organization.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrganizationSettings {
    /// How many parts the name of a file may have that a folder tool creates, counting the file's own name.
    pub max_depth: usize,
    /// The largest file that a folder tool writes, in bytes.
    pub max_file_bytes: u64,
    /// The limits on both folders of an agent together.
    pub agent_quota: QuotaLimits,
    /// The limits on both folders of a team together.
    pub team_quota: QuotaLimits,
}

impl Default for OrganizationSettings {
    fn default() -> Self {
        let quota =
            |files, bytes| QuotaLimits { bytes: Some(bytes), files: Some(files), ..QuotaLimits::default() };
        OrganizationSettings {
            max_depth: 3,
            max_file_bytes: 5 << 20,
            agent_quota: quota(1_000, 100_000_000),
            team_quota: quota(2_000, 1_000_000_000),
        }
    }
}

impl OrganizationSettings {
    /// The settings with another depth.
    pub fn with_max_depth(self, max_depth: usize) -> Self {
        OrganizationSettings { max_depth, ..self }
    }

    /// The settings with another size of the largest file.
    pub fn with_max_file_bytes(self, max_file_bytes: u64) -> Self {
        OrganizationSettings { max_file_bytes, ..self }
    }

    /// The settings with other limits on an agent's folders.
    pub fn with_agent_quota(self, agent_quota: QuotaLimits) -> Self {
        OrganizationSettings { agent_quota, ..self }
    }

    /// The settings with other limits on a team's folders.
    pub fn with_team_quota(self, team_quota: QuotaLimits) -> Self {
        OrganizationSettings { team_quota, ..self }
    }
}

/// A record, by its position among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordRef {
    /// The organization's own record.
    Organization,
    /// A team's record.
    Team(usize),
    /// An agent's record.
    Agent(usize),
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordField {
    /// `id`
    Id,
    /// `teamId`
    TeamId,
    /// `teams`
    Teams,
    /// `toolWhitelist`, or the older form of a rule.
    Tools,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordProblem {
    /// The record.
    pub record: RecordRef,
    /// The field.
    pub field: RecordField,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Organization {
    /// Checks the records and makes an organization of them. Reports everything that is wrong.
    pub fn new(records: OrganizationRecords) -> Result<Organization, Vec<RecordProblem>> {
        let problems = records.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let OrganizationRecords { id, name, tools, listed_teams, teams, agents, settings } = records;
        let is_listed = |team: &TeamRecord| is_listed(listed_teams.as_deref(), &team.id);
        let teams = teams.into_iter().filter(is_listed).map(|team| Team {
            name: team.name.unwrap_or_else(|| team.id.clone()),
            id: team.id,
            leadership: team.leadership,
            tools: team.tools,
            members: Vec::new(),
        });
        let mut teams: Vec<_> = teams.collect();
        teams.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        let team_by_id: HashMap<_, _> =
            teams.iter().enumerate().map(|(index, team)| (team.id.clone(), TeamIndex(index))).collect();
        let agents = agents.into_iter().map(|agent| OrganizationAgent {
            name: agent.name.unwrap_or_else(|| agent.id.clone()),
            id: agent.id,
            team: agent.team_id.and_then(|id| team_by_id.get(&id).copied()),
            tools: agent.tools,
        });
        let mut agents: Vec<_> = agents.collect();
        agents.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        let mut agent_by_id = HashMap::new();
        for (index, agent) in agents.iter().enumerate() {
            agent_by_id.insert(agent.id.clone(), AgentIndex(index));
            if let Some(TeamIndex(team)) = agent.team {
                teams[team].members.push(AgentIndex(index));
            }
        }
        let name = name.unwrap_or_else(|| id.clone());
        Ok(Organization { id, name, tools, settings, teams, agents, team_by_id, agent_by_id })
    }
}

/// Whether a team counts: there is no list, or the team is in it.
fn is_listed(listed_teams: Option<&[String]>, id: &str) -> bool {
    listed_teams.is_none_or(|ids| ids.iter().any(|listed| listed == id))
}

impl OrganizationRecords {
    /// Whether a team counts as one of the organization's.
    pub(super) fn lists_team(&self, id: &str) -> bool {
        is_listed(self.listed_teams.as_deref(), id)
    }

    fn problems(&self) -> Vec<RecordProblem> {
        let mut problems = Vec::new();
        let mut add = |record, field, message| problems.push(RecordProblem { record, field, message });
        let teams = self.teams.iter().enumerate().map(|(index, team)| (RecordRef::Team(index), &team.id));
        let agents =
            self.agents.iter().enumerate().map(|(index, agent)| (RecordRef::Agent(index), &agent.id));
        // On some hosts, names that differ only in case are one directory.
        let mut by_folded_id = HashMap::new();
        for (record, id) in [(RecordRef::Organization, &self.id)].into_iter().chain(teams).chain(agents) {
            if !is_valid_id(id) {
                let message = format!(
                    "`{}` can't be used as an id, because an id is also the name of a directory; use 1 to 128 bytes \
                     without `/`, `\\` or invisible characters, and not `.`, `..`, `.stead` or `stead.toml`",
                    id.escape_debug()
                );
                add(record, RecordField::Id, message);
            } else if record != RecordRef::Organization
                && let Some(first) = by_folded_id.insert(id.to_lowercase(), id)
            {
                let message = match first == id {
                    true => format!("two records have the id `{id}`; an id belongs to one agent or one team"),
                    false => format!("the ids `{first}` and `{id}` differ only in case; choose others"),
                };
                add(record, RecordField::Id, message);
            }
        }
        problems
    }

    /// What is valid but probably not intended: teams that don't exist.
    pub fn warnings(&self) -> Vec<RecordProblem> {
        let ids: BTreeSet<_> = self.teams.iter().map(|team| &*team.id).collect();
        let listed = self.listed_teams.iter().flatten();
        let missing = listed.filter(|id| !ids.contains(&***id)).map(|id| RecordProblem {
            record: RecordRef::Organization,
            field: RecordField::Teams,
            message: format!("there is no team `{}`", id.escape_debug()),
        });
        let is_team = |id: &String| ids.contains(&**id) && self.lists_team(id);
        let agents = self.agents.iter().enumerate().filter_map(|(index, agent)| {
            let id = agent.team_id.as_ref().filter(|id| !is_team(id))?;
            let message = format!(
                "there is no team `{}`, so the agent counts as one without a team",
                id.escape_debug()
            );
            Some(RecordProblem { record: RecordRef::Agent(index), field: RecordField::TeamId, message })
        });
        missing.chain(agents).collect()
    }
}
