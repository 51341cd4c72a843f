//! The Workspaces of all agents that show one managed directory, as they are configured.

use std::sync::Arc;

use stead_core::workspace::SharingWorkspaces;
use stead_core::{Mount, Workspace};

use crate::config::{Config, WorkspaceConfig};
use crate::stead::build_workspace;

/// Finds the Workspaces on the directory of one of them.
#[derive(Debug)]
pub(crate) struct ConfiguredSharing {
    pub(crate) config: Arc<Config>,
    pub(crate) workspace: WorkspaceConfig,
}

impl SharingWorkspaces for ConfiguredSharing {
    fn find(&self, mount: &Mount) -> Vec<Arc<Workspace>> {
        let sharing = self.config.workspaces_sharing(&self.workspace);
        let built = sharing.iter().map(|workspace| build_workspace(workspace, mount.clone(), &[]));
        // The globs were checked when the configuration was read.
        built.filter_map(Result::ok).map(Arc::new).collect()
    }
}
