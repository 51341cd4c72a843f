//! Workspaces of all agents that show one directory, of which some are managed.
//!
//! What counts is the directory, not the names of the Stores: a host directory has several paths, and two Virtual Stores can have one
//! namespace.

use std::collections::HashMap;

use super::workspace_location::{LocationKey, WorkspaceLocation};
use super::{Config, ConfigDiagnostic, FilesPer, WorkspaceConfig};

impl Config {
    /// The Workspaces that show the directory of an earlier one but disagree with it about `managed`. Touches the host only if some
    /// Workspaces are managed and others aren't.
    pub(super) fn contradicting_management(&self) -> Vec<ConfigDiagnostic> {
        let mut all = self.agents.values().flat_map(|agent| &agent.workspaces);
        let is_first_managed = all.next().is_some_and(|workspace| workspace.managed.is_some());
        if all.all(|workspace| workspace.managed.is_some() == is_first_managed) {
            return Vec::new();
        }
        let positions: HashMap<_, _> = self.workspace_positions().collect();
        let mut known: HashMap<LocationKey, (bool, usize)> = HashMap::new();
        let mut problems = Vec::new();
        for (name, agent) in &self.agents {
            for (workspace, location) in WorkspaceLocation::of_each(&agent.workspaces, &self.stores) {
                let position = positions.get(&(name, &workspace.prefix)).copied().unwrap_or((1, 1));
                let is_managed = workspace.managed.is_some();
                let keys = location.keys();
                let first = keys.iter().find_map(|key| known.get(key)).copied();
                if let Some((_, line)) = first.filter(|(first, _)| *first != is_managed) {
                    problems.push(ConfigDiagnostic::at(position, &disagreement(line)));
                }
                for key in keys {
                    known.entry(key).or_insert((is_managed, position.0));
                }
            }
        }
        problems
    }

    /// The Workspaces that show the same directory as this one, in any agent. It is among them.
    pub(crate) fn workspaces_sharing(&self, workspace: &WorkspaceConfig) -> Vec<WorkspaceConfig> {
        // The directory of a thread is also its agent's alone.
        let is_same_kind = |other: &&WorkspaceConfig| other.per == workspace.per;
        let mount = |workspace: &WorkspaceConfig| {
            (workspace.prefix.clone(), workspace.store.clone(), workspace.path.clone())
        };
        let is_same = |other: &WorkspaceConfig| mount(other) == mount(workspace);
        let agents = self
            .agents
            .values()
            .filter(|agent| workspace.per == FilesPer::Agent || agent.workspaces.iter().any(is_same));
        let mut all = vec![workspace.clone()];
        all.extend(agents.flat_map(|agent| agent.workspaces.iter().filter(is_same_kind).cloned()));
        let locations = WorkspaceLocation::of_each(&all, &self.stores);
        let Some((_, own)) = locations.first().filter(|(first, _)| *first == workspace) else { return all };
        let own = own.keys();
        let shares = |location: &WorkspaceLocation| location.keys().iter().any(|key| own.contains(key));
        let sharing = locations.iter().skip(1).filter(|(_, location)| shares(location));
        sharing.map(|(other, _)| (*other).clone()).collect()
    }
}

/// The message about a Workspace that disagrees with the one in this line.
pub(super) fn disagreement(line: usize) -> String {
    format!(
        "this Workspace and the one in line {line} show the same files, and only one of them is managed; set `managed` to the same \
         value in both"
    )
}
