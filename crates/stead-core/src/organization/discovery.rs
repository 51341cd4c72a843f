//! The five scopes in which an agent discovers folders.

use std::str::FromStr;

use crate::organization::{AgentIndex, Folder, Organization, Visibility};

/// Where an agent looks for folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FolderScope {
    /// The caller's private folder.
    MyPrivate,
    /// The caller's shared folder.
    MyShared,
    /// The private folder of the caller's team.
    TeamPrivate,
    /// The shared folder of the caller's team.
    TeamShared,
    /// The shared folders of all teams, and of the other agents whose shared folders the caller may read.
    OrgShared,
}

/// The text isn't the name of a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid scope '{}'. Available scopes: {}", .0.escape_debug(), FolderScope::NAMES.join(", "))]
pub struct InvalidFolderScope(String);

impl FolderScope {
    /// All scopes.
    pub const ALL: [FolderScope; 5] = [
        FolderScope::MyPrivate,
        FolderScope::MyShared,
        FolderScope::TeamPrivate,
        FolderScope::TeamShared,
        FolderScope::OrgShared,
    ];

    /// The names of all scopes, in the same order.
    pub const NAMES: [&str; 5] = ["my_private", "my_shared", "team_private", "team_shared", "org_shared"];

    /// The scope's name.
    pub fn as_str(self) -> &'static str {
        FolderScope::NAMES[self as usize]
    }
}

impl FromStr for FolderScope {
    type Err = InvalidFolderScope;

    fn from_str(text: &str) -> Result<Self, InvalidFolderScope> {
        let scope = FolderScope::ALL.into_iter().find(|scope| scope.as_str() == text);
        scope.ok_or_else(|| InvalidFolderScope(text.chars().take(64).collect()))
    }
}

impl Organization {
    /// The folders that an agent discovers in a scope: teams by name, then agents by name, each folder once.
    pub fn discover(&self, caller: AgentIndex, scope: FolderScope) -> Vec<Folder> {
        let of_team = |visibility| self.agent(caller).team.map(|team| Folder::of_team(team, visibility));
        match scope {
            FolderScope::MyPrivate => vec![Folder::of_agent(caller, Visibility::Private)],
            FolderScope::MyShared => vec![Folder::of_agent(caller, Visibility::Shared)],
            FolderScope::TeamPrivate => of_team(Visibility::Private).into_iter().collect(),
            FolderScope::TeamShared => of_team(Visibility::Shared).into_iter().collect(),
            FolderScope::OrgShared => {
                let teams = self.teams().map(|(team, _)| Folder::of_team(team, Visibility::Shared));
                let agents = self.colleagues(caller);
                teams.chain(agents.map(|agent| Folder::of_agent(agent, Visibility::Shared))).collect()
            }
        }
    }

    /// The scopes whose folders an agent may write to.
    pub fn writable_scopes(&self, caller: AgentIndex) -> &'static [FolderScope] {
        match self.agent(caller).team {
            Some(_) => &FolderScope::ALL[..4],
            None => &FolderScope::ALL[..2],
        }
    }
}
