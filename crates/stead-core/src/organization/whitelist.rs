//! Which tools an agent of an organization has: the tools that the organization, its team and its own record all allow.

use std::collections::{BTreeSet, HashMap};

use crate::organization::{AgentIndex, Organization, OrganizationRecords, RecordRef, ToolRule};

impl ToolRule {
    /// Only these tools.
    pub fn only<T: Into<String>>(tools: impl IntoIterator<Item = T>) -> Self {
        let whitelist = Some(tools.into_iter().map(Into::into).collect());
        ToolRule { whitelist, ..ToolRule::default() }
    }

    /// All tools of the level above but these.
    pub fn all_but<T: Into<String>>(tools: impl IntoIterator<Item = T>) -> Self {
        ToolRule { blacklist: tools.into_iter().map(Into::into).collect(), ..ToolRule::default() }
    }

    /// Whether the rule allows a tool.
    pub fn allows(&self, tool: &str) -> bool {
        let is_listed = self.whitelist.as_ref().is_none_or(|whitelist| whitelist.contains(tool));
        is_listed && !self.blacklist.contains(tool)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.whitelist.iter().flatten().chain(&self.blacklist).map(String::as_str)
    }
}

/// A level of an organization. The rule of each can take tools away from an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ToolLevel {
    /// The organization.
    Organization,
    /// The agent's team.
    Team,
    /// The agent itself.
    Agent,
}

impl Organization {
    /// Whether an agent has a tool.
    pub fn allows_tool(&self, agent: AgentIndex, tool: &str) -> bool {
        let team = self.team_of(agent).is_none_or(|team| team.tools.allows(tool));
        self.tools.whitelist.is_some()
            && self.tools.allows(tool)
            && team
            && self.agent(agent).tools.allows(tool)
    }

    /// The tools that an agent has. A level can only take tools away; an organization without a whitelist has none.
    pub fn allowed_tools(&self, agent: AgentIndex) -> BTreeSet<String> {
        let of_organization = self.tools.whitelist.iter().flatten();
        of_organization.filter(|tool| self.tool_withheld_by(agent, tool).is_none()).cloned().collect()
    }

    /// The highest level whose rule takes a tool away from an agent; `None` if the agent has the tool.
    pub fn tool_withheld_by(&self, agent: AgentIndex, tool: &str) -> Option<ToolLevel> {
        let team = self.team_of(agent).map(|team| &team.tools);
        if self.tools.whitelist.is_none() || !self.tools.allows(tool) {
            Some(ToolLevel::Organization)
        } else if team.is_some_and(|rule| !rule.allows(tool)) {
            Some(ToolLevel::Team)
        } else if !self.agent(agent).tools.allows(tool) {
            Some(ToolLevel::Agent)
        } else {
            None
        }
    }
}

impl OrganizationRecords {
    /// The tools in the rules that don't exist, with the record that names each.
    pub fn unknown_tools(&self, is_known: impl Fn(&str) -> bool) -> Vec<(RecordRef, String)> {
        let organization = [(RecordRef::Organization, &self.tools)];
        let teams = self.teams.iter().enumerate().map(|(index, team)| (RecordRef::Team(index), &team.tools));
        let agents =
            self.agents.iter().enumerate().map(|(index, agent)| (RecordRef::Agent(index), &agent.tools));
        let rules = organization.into_iter().chain(teams).chain(agents);
        let named = rules.flat_map(|(record, rule)| rule.names().map(move |tool| (record, tool)));
        named.filter(|(_, tool)| !is_known(tool)).map(|(record, tool)| (record, tool.to_owned())).collect()
    }
    /// The records that leave no tool that exists: the organization's alone, or else those of teams, and of agents whose
    /// teams have tools.
    pub fn records_without_tools(&self, is_known: impl Fn(&str) -> bool) -> Vec<RecordRef> {
        let listed = self.tools.whitelist.iter().flatten().map(String::as_str);
        let of_organization: Vec<_> =
            listed.filter(|tool| self.tools.allows(tool) && is_known(tool)).collect();
        if of_organization.is_empty() {
            return vec![RecordRef::Organization];
        }
        let mut records = Vec::new();
        let mut of_teams = HashMap::new();
        for (index, team) in self.teams.iter().enumerate().filter(|(_, team)| self.lists_team(&team.id)) {
            let tools: Vec<_> =
                of_organization.iter().filter(|tool| team.tools.allows(tool)).copied().collect();
            if tools.is_empty() {
                records.push(RecordRef::Team(index));
            }
            of_teams.insert(&*team.id, tools);
        }
        for (index, agent) in self.agents.iter().enumerate() {
            let of_team =
                agent.team_id.as_deref().and_then(|id| of_teams.get(id)).unwrap_or(&of_organization);
            if !of_team.is_empty() && !of_team.iter().any(|tool| agent.tools.allows(tool)) {
                records.push(RecordRef::Agent(index));
            }
        }
        records
    }
}
