//! The hygiene cycle of managed Workspaces: sync and cleanup of every managed directory of a configuration, by the system.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stead_core::identity::SYSTEM_AGENT;
use stead_core::managed::{CleanupRun, RepairCounts};
use stead_core::vfs::managed::{ChangedFiles, CleanupOptions};
use stead_core::vfs::{ManagedFiles, VfsBuilder};
use stead_core::{AccessScope, Clock, Identity, Mount, Timestamp, Vfs, VfsPath};

use crate::config::{FilesPer, OrganizationConfig, StoreConfig, WorkspaceConfig};
use crate::error::Result;
use crate::sharing::ConfiguredSharing;
use crate::stead::build_workspace;
use crate::stores::Stores;

/// How long after a cycle the next one begins.
pub const HYGIENE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// When the next hygiene cycle is due: at once, and again [`HYGIENE_INTERVAL`] after each.
#[derive(Debug, Clone, Copy, Default)]
pub struct HygieneSchedule {
    last: Option<Timestamp>,
}

impl HygieneSchedule {
    /// Whether a cycle is due now. If so, this counts as its begin. A clock that was set back makes one due as well.
    pub fn begin_if_due(&mut self, now: Timestamp) -> bool {
        let is_due = self.last.is_none_or(|last| now < last || now.duration_since(last) >= HYGIENE_INTERVAL);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

/// A managed directory of a configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ManagedDirectory {
    /// The name of its Store.
    pub store: String,
    /// Its path in the Store.
    pub path: VfsPath,
    /// Where it is on the host, if it is in a Physical Store.
    pub host_path: Option<PathBuf>,
    /// The first of its Workspaces. The others are found by it.
    workspace: WorkspaceConfig,
}

impl Stores {
    /// The managed directories of the configuration. Those of threads aren't among them: the files of a thread are removed with
    /// the thread.
    pub fn managed_directories(&self) -> Vec<ManagedDirectory> {
        let config = self.config();
        let mut directories: Vec<ManagedDirectory> = Vec::new();
        let configured = config.agents.values().flat_map(|agent| &agent.workspaces);
        let configured = configured
            .filter(|workspace| workspace.managed.is_some() && workspace.per != FilesPer::Thread)
            .cloned();
        let folders = config.organizations.iter().flat_map(OrganizationConfig::managed_folders);
        let mut known = HashSet::new();
        for workspace in configured.chain(folders) {
            if !known.insert((workspace.store.clone(), workspace.path.clone())) {
                continue;
            }
            let host_path = match config.stores.get(&workspace.store) {
                Some(StoreConfig::Physical { path, .. }) => Some(path.join(&workspace.path.as_str()[1..])),
                _ => None,
            };
            directories.push(ManagedDirectory {
                store: workspace.store.clone(),
                path: workspace.path.clone(),
                host_path,
                workspace,
            });
        }
        directories
    }

    /// Syncs and cleans up a managed directory. What one of its Workspaces hides or protects is left alone.
    pub fn clean_managed(&self, directory: &ManagedDirectory, clock: &Arc<dyn Clock>) -> Result<CleanupRun> {
        Ok(self.managed_files(directory, clock)?.cleanup(&CleanupOptions::default())?.run)
    }

    /// Makes the manifest of a managed directory agree with the files that other programs may have changed.
    pub fn sync_managed(
        &self,
        directory: &ManagedDirectory,
        changed: &ChangedFiles,
        clock: &Arc<dyn Clock>,
    ) -> Result<RepairCounts> {
        Ok(self.managed_files(directory, clock)?.sync_changed(changed)?)
    }

    /// The files of a managed directory for the system's identity.
    fn managed_files(&self, directory: &ManagedDirectory, clock: &Arc<dyn Clock>) -> Result<ManagedFiles> {
        let workspace = WorkspaceConfig { scope: AccessScope::ReadWrite, ..directory.workspace.clone() };
        let mount = Mount::at(self.get(&workspace.store)?, &workspace.path);
        let built = build_workspace(&workspace, mount, &[])?;
        let prefix = built.prefix().to_string();
        let built =
            built.with_sharing(Arc::new(ConfiguredSharing { config: Arc::clone(self.config()), workspace }));
        let builder = Vfs::builder(Identity::agent(SYSTEM_AGENT)).clock(Arc::clone(clock)).workspace(built);
        let builder = self.audit().into_iter().fold(builder, VfsBuilder::audit);
        Ok(builder.build()?.managed(Some(&prefix))?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use stead_core::clock::FixedClock;

    use super::*;
    use crate::{Config, Stead};

    fn config(host: &tempfile::TempDir, ttl: &str, second: &str) -> Result<Config, String> {
        let text = format!(
            r#"
            [ttl]
            {ttl}
            [stores.notes]
            kind = "virtual"
            [stores.disk]
            kind = "physical"
            path = "disk"
            [[agents.a.workspaces]]
            prefix = "/notes"
            scope = "rw"
            store = "notes"
            managed = true
            [[agents.a.workspaces]]
            prefix = "/disk"
            scope = "rw"
            store = "disk"
            managed = true
            [[agents.b.workspaces]]
            prefix = "/shared"
            scope = "ro"
            store = "notes"
            {second}
            "#
        );
        Config::parse(&text, &host.path().join("stead.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn w86_a_cycle_runs_at_the_start_and_again_after_a_day() {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir(host.path().join("disk")).unwrap();
        let config = config(&host, "temp = 2", "managed = true").unwrap();
        let stores = Stores::of(&config);
        let stead = Stead::open_in(&stores, &Identity::agent("a")).unwrap();
        for path in ["/notes/x", "/disk/x"] {
            stead.vfs().write(path, "x").unwrap();
        }
        let directories = stores.managed_directories();
        assert_eq!(directories.len(), 2, "two agents on one Mount share it");
        let fixed = Arc::new(FixedClock::at(stead_core::SystemClock.now()));
        let clock: Arc<dyn Clock> = Arc::clone(&fixed) as Arc<dyn Clock>;
        let (mut schedule, mut removed) = (HygieneSchedule::default(), Vec::new());
        for _ in 0..8 {
            if schedule.begin_if_due(fixed.now()) {
                let run = |directory| stores.clean_managed(directory, &clock).unwrap().removed;
                removed.push(directories.iter().map(run).sum::<u64>());
            }
            fixed.advance(Duration::from_secs(12 * 60 * 60));
        }
        assert_eq!(
            removed,
            [0, 0, 2, 0],
            "one cycle at the start and one each day; files of two days are gone"
        );
        for prefix in ["/notes", "/disk"] {
            let left = stead.vfs().managed(Some(prefix)).unwrap().tree().unwrap();
            assert!(left.iter().all(|category| category.directories.is_empty()), "{prefix}: {left:?}");
            assert!(stead.vfs().exists(format!("{prefix}/temp")).unwrap(), "only the days go");
        }
    }

    #[test]
    fn w44a_each_cycle_syncs_before_it_cleans_up() {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(host.path().join("disk/code")).unwrap();
        let stores = Stores::of(&config(&host, "", "managed = true").unwrap());
        let clock: Arc<dyn Clock> = Arc::new(stead_core::SystemClock);
        let cycle = || -> RepairCounts {
            let directories = stores.managed_directories();
            let run = |directory| stores.clean_managed(directory, &clock).unwrap().synced;
            directories.iter().map(run).fold(RepairCounts::default(), RepairCounts::plus)
        };
        assert!(cycle().is_empty());
        std::fs::write(host.path().join("disk/code/x.py"), "x").unwrap();
        assert_eq!(cycle(), RepairCounts { added: 1, removed: 0, resized: 0 });
        std::fs::remove_file(host.path().join("disk/code/x.py")).unwrap();
        assert_eq!(cycle(), RepairCounts { added: 0, removed: 1, resized: 0 });
        assert!(cycle().is_empty());
    }

    #[test]
    fn w83_a_partial_table_keeps_the_other_defaults_and_never_is_accepted() {
        use stead_core::managed::Category;
        let host = tempfile::tempdir().unwrap();
        let parsed = config(&host, "temp = 1\nimages = \"never\"", "managed = true").unwrap();
        let ttl = parsed.agents["a"].workspaces[0].managed.unwrap();
        let days = Category::ALL.map(|category| ttl.days(category));
        assert_eq!(days, [None, None, None, None, Some(30), Some(1)]);
    }

    #[test]
    fn w89_days_out_of_range_and_unknown_categories_are_configuration_errors() {
        let host = tempfile::tempdir().unwrap();
        for ttl in [
            "temp = 0",
            "temp = -1",
            "temp = 36501",
            "temp = 99999999999999999999",
            "temp = \"soon\"",
            "temps = 1",
        ] {
            let error = config(&host, ttl, "managed = true").unwrap_err();
            assert!(error.contains("temp"), "{ttl}: {error}");
        }
    }

    #[test]
    fn w28_workspaces_on_one_mount_that_disagree_about_managed_are_a_configuration_error() {
        let host = tempfile::tempdir().unwrap();
        let error = config(&host, "", "").unwrap_err();
        assert!(error.contains("only one of them is managed"), "{error}");
    }
}
