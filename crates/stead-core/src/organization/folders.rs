//! The folders of an organization as one agent sees them.

use std::fmt;
use std::sync::{Arc, Once};

use parking_lot::RwLock;

use crate::name::escape_text;
use crate::organization::{AgentIndex, FolderIds, FolderScope, IdHolder, Organization};

/// An agent of an organization, as one version of the records has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Membership {
    /// The organization.
    pub organization: Arc<Organization>,
    /// The agent in it.
    pub agent: AgentIndex,
}

impl Membership {
    /// This agent of this organization.
    pub fn new(organization: Arc<Organization>, agent: AgentIndex) -> Self {
        Membership { organization, agent }
    }
}

/// What the folder tools of one agent work with.
pub struct Folders {
    membership: RwLock<Membership>,
    ids: Arc<dyn FolderIds>,
    holder: IdHolder,
    first_use: Once,
    create_directories: Option<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Folders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folders").field("holder", &self.holder).finish_non_exhaustive()
    }
}

impl Folders {
    /// The folders of this agent. The ids may be shared with other agents and organizations.
    pub fn new(organization: Arc<Organization>, agent: AgentIndex, ids: Arc<dyn FolderIds>) -> Self {
        let agent_id = organization.agent(agent).id.as_str().into();
        let holder = IdHolder { organization: organization.id().into(), agent: agent_id };
        let membership = RwLock::new(Membership::new(organization, agent));
        Folders { membership, ids, holder, first_use: Once::new(), create_directories: None }
    }

    /// Calls `create` at the agent's first use, to create the directories of its own and its team's folders.
    pub fn with_directories(self, create: impl Fn() + Send + Sync + 'static) -> Self {
        Folders { create_directories: Some(Box::new(create)), ..self }
    }

    /// Creates the directories of the agent's and its team's folders, unless this was called before.
    pub fn prepare(&self) {
        self.first_use.call_once(|| self.create_directories.iter().for_each(|create| create()));
    }

    /// The agent and its organization. A call asks once, so that it has the same records from its start to its end.
    pub fn membership(&self) -> Membership {
        self.membership.read().clone()
    }

    /// Uses other records of the same agent from the next call on. They have to give the agent exactly what it has:
    /// see [`Organization::looks_the_same_to`]. The older records are no longer kept in memory then.
    pub fn update(&self, membership: Membership) {
        *self.membership.write() = membership;
    }

    /// The ids.
    pub fn ids(&self) -> &dyn FolderIds {
        &*self.ids
    }

    /// The agent, as the holder of ids.
    pub fn holder(&self) -> &IdHolder {
        &self.holder
    }
}

impl Organization {
    /// The end of a refusal: the agent's team, and the scopes that it may write to.
    pub fn denial_note(&self, agent: AgentIndex) -> String {
        let team = self.team_of(agent).map_or("none", |team| team.short_name());
        let scopes: Vec<_> = self.writable_scopes(agent).iter().copied().map(FolderScope::as_str).collect();
        format!("Your team: {}. Scopes you can write to: {}", escape_text(team), scopes.join(", "))
    }
}
