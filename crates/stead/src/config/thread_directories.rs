//! The directories of Physical Stores that have the files of threads, and where other Workspaces would show them.
//!
//! The files of a thread are at `threads/AGENT/THREAD` in the directory that its Workspace has in the configuration. Every
//! other Workspace that shows that directory, or one around it, gets a barrier at `threads`.

use stead_core::{Identity, VfsPath, parse_thread_name};

use super::workspace_location::{WorkspaceLocation, threads_directory};
use super::{Config, FilesPer, StoreConfig, WorkspaceConfig};

/// The directory with the files of a thread, for a Workspace with this `path` in a Physical Store. `None` if a name can't
/// be that of a directory, or if the path would be too long.
pub(crate) fn thread_directory(path: &VfsPath, agent: &str, thread: &str) -> Option<VfsPath> {
    let names = [parse_thread_name(agent).ok()?, parse_thread_name(thread).ok()?];
    names.iter().try_fold(threads_directory(path)?, |path, name| path.join(name).ok())
}

/// A place where a Workspace would show the files of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadBarrier {
    /// The logical path of the directory `threads`.
    pub(crate) prefix: VfsPath,
    /// The prefix of the Workspace around it.
    pub(crate) workspace: VfsPath,
}

impl Config {
    /// The owner of the forks and snapshots that an identity makes: `AGENT`, or `AGENT/THREAD` if the agent works in threads.
    pub(crate) fn owner_of(&self, identity: &Identity) -> String {
        // Agents of organizations have no threads. Their Workspaces aren't compiled here: this is asked for every live stead.
        let has_threads = self.agents.get(&identity.agent).is_some_and(|agent| agent.scope.has_threads());
        match identity.thread.as_deref().filter(|_| has_threads) {
            Some(thread) => format!("{}/{thread}", identity.agent),
            None => identity.agent.clone(),
        }
    }

    /// The Workspaces of all agents whose files are a thread's own, in a Physical Store.
    pub(crate) fn physical_thread_workspaces(&self) -> impl Iterator<Item = (&String, &WorkspaceConfig)> {
        let is_physical = |workspace: &WorkspaceConfig| {
            matches!(self.stores.get(&workspace.store), Some(StoreConfig::Physical { .. }))
        };
        let all = self.agents.iter();
        let all =
            all.flat_map(|(name, agent)| agent.workspaces.iter().map(move |workspace| (name, workspace)));
        all.filter(move |(_, workspace)| workspace.per == FilesPer::Thread && is_physical(workspace))
    }

    /// Where these Workspaces of one agent would show the files of threads. Fails with the prefix of a Workspace and a
    /// message if its files are those of threads.
    pub(crate) fn thread_barriers(
        &self,
        workspaces: &[WorkspaceConfig],
    ) -> Result<Vec<ThreadBarrier>, (VfsPath, String)> {
        let mut directories: Vec<WorkspaceConfig> = Vec::new();
        for (_, workspace) in self.physical_thread_workspaces() {
            let is_same =
                |other: &WorkspaceConfig| other.store == workspace.store && other.path == workspace.path;
            if !directories.iter().any(is_same) {
                directories.push(workspace.clone());
            }
        }
        if directories.is_empty() {
            return Ok(Vec::new());
        }
        let directories = WorkspaceLocation::of_each(&directories, &self.stores);
        let mut barriers = Vec::new();
        for (workspace, location) in WorkspaceLocation::of_each(workspaces, &self.stores) {
            if workspace.per == FilesPer::Thread {
                continue;
            }
            for (_, directory) in &directories {
                let message = || {
                    let message = format!(
                        "`{}` shows the directory `threads`, which has the files of threads; choose another directory",
                        workspace.prefix
                    );
                    (workspace.prefix.clone(), message)
                };
                if location.below(directory).is_some() {
                    return Err(message());
                }
                let Some(below) = directory.below(&location) else { continue };
                let names = below.as_deref().map(|below| below.split('/').filter(|name| !name.is_empty()));
                let prefix = names.and_then(|mut names| {
                    names.try_fold(workspace.prefix.clone(), |path, name| path.join(name).ok())
                });
                let prefix = prefix.ok_or_else(message)?;
                let inside = workspaces.iter().filter(|other| prefix.strip_prefix(&other.prefix).is_some());
                let nearest = inside.max_by_key(|other| other.prefix.depth());
                // A nested Workspace is in front of it.
                if nearest.is_none_or(|nearest| nearest.prefix == workspace.prefix)
                    && !barriers.iter().any(|other: &ThreadBarrier| other.prefix == prefix)
                {
                    barriers.push(ThreadBarrier { prefix, workspace: workspace.prefix.clone() });
                }
            }
        }
        Ok(barriers)
    }
}
