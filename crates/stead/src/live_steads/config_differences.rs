//! What a new configuration changes for the agents that the old one has.

use std::collections::{BTreeSet, HashMap};

use stead_core::VfsPath;

use crate::config::{AgentConfig, Config, OrganizationConfig, StoreConfig, WorkspaceConfig};

/// Whether two configurations give the same agents the same.
pub(super) fn gives_the_same(a: &Config, b: &Config) -> bool {
    a.agents == b.agents
        && a.stores == b.stores
        && a.database == b.database
        && a.organizations == b.organizations
}

/// Whether two configurations give the same, except for records that steads follow while they are in use.
pub(super) fn differs_only_in_records(a: &Config, b: &Config) -> bool {
    a.agents == b.agents
        && a.organizations.len() == b.organizations.len()
        && changed_organizations(a, b).is_empty()
        && changed_organizations(b, a).is_empty()
        && a.stores == b.stores
        && a.database == b.database
}

/// The organizations of `old` that `new` doesn't have as they are. Other records don't count: what they take away is refused
/// at each access already.
pub(super) fn changed_organizations(old: &Config, new: &Config) -> BTreeSet<String> {
    let stores_changed = old.stores != new.stores || old.database != new.database;
    let is_changed = |config: &&OrganizationConfig| {
        // Comparing all records takes longest, so it comes last.
        stores_changed || !(old.follows_records_of(config, new) || new.organizations.contains(config))
    };
    let changed = old.organizations.iter().filter(is_changed);
    changed.map(|config| config.organization.id().to_owned()).collect()
}

fn by_prefix(agent: &AgentConfig) -> HashMap<&VfsPath, &WorkspaceConfig> {
    agent.workspaces.iter().map(|workspace| (&workspace.prefix, workspace)).collect()
}

/// The agents that may do something with `old` that they may not do with `new`.
pub(super) fn agents_that_lose_access(old: &Config, new: &Config) -> BTreeSet<String> {
    let is_same_store = |name: &String| match (old.stores.get(name), new.stores.get(name)) {
        (Some(StoreConfig::Virtual { .. }), _) if old.database.path != new.database.path => false,
        (old, new) => old == new,
    };
    let loses_access = |name: &String, agent: &AgentConfig| {
        let Some(new_agent) = new.agents.get(name) else { return true };
        let [old_workspaces, new_workspaces] = [agent, new_agent].map(by_prefix);
        let stays = |workspace: &WorkspaceConfig| {
            new_workspaces.get(&workspace.prefix) == Some(&workspace) && is_same_store(&workspace.store)
        };
        // A new Workspace inside one that stays may withhold what that one allows.
        let is_nested = |added: &WorkspaceConfig| {
            old_workspaces.get(&added.prefix) != Some(&added)
                && added.prefix.ancestors().any(|outer| old_workspaces.contains_key(&outer))
        };
        agent.quota != new_agent.quota
            || agent.scope != new_agent.scope
            || agent.tools != new_agent.tools
            || !agent.workspaces.iter().all(stays)
            || new_agent.workspaces.iter().any(is_nested)
    };
    let losing = old.agents.iter().filter(|(name, agent)| loses_access(name, agent));
    losing.map(|(name, _)| name.clone()).collect()
}
