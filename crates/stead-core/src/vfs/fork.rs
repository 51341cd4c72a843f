//! Forking a Workspace.

use std::sync::Arc;

use crate::error::{Error, Result, Visibility};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Fork, ForkName, RevisionNumber, Store};
use crate::vfs::call::Call;
use crate::vfs::{IntoPath, Vfs};

impl Vfs {
    /// Forks a Workspace, for this agent or for another one.
    ///
    /// It needs the access that reading the Workspace's history needs. The returned Store holds everything that the
    /// Workspace's Store holds; the [`Fork`] says which directory of it to show, which paths in it to exclude because
    /// they are Workspaces of their own, and the rules that apply.
    pub fn fork(
        &self,
        prefix: impl IntoPath,
        name: ForkName,
        owner: impl Into<String>,
    ) -> Result<(Fork, Arc<dyn Store>)> {
        self.fork_at(prefix, name, owner, None)
    }

    /// Like [`Vfs::fork`]. With `pinned_at`, the fork shows this revision of the Workspace's Store where it has changed
    /// nothing.
    pub fn fork_at(
        &self,
        prefix: impl IntoPath,
        name: ForkName,
        owner: impl Into<String>,
        pinned_at: Option<RevisionNumber>,
    ) -> Result<(Fork, Arc<dyn Store>)> {
        self.call("fork", [prefix.into_path()], |call, [prefix]| {
            call.fork(prefix, name, owner.into(), pinned_at)
        })
    }

    /// Whether the caller may discard a fork: `prefix` is the fork's own Workspace, or the one that it was made from. Fails
    /// as a restore there would, and asks where a restore asks.
    pub fn authorize_discard(&self, prefix: impl IntoPath) -> Result<()> {
        self.call("discard", [prefix.into_path()], |call, [prefix]| {
            call.authorize(prefix, Access::Restore).map(drop)
        })
    }
}

impl Call<'_> {
    /// The Workspaces inside a Workspace, barriers included, relative to its prefix. One inside another is left out,
    /// since the outer one covers it.
    fn nested_workspaces(&self, prefix: &VfsPath) -> Result<Vec<VfsPath>> {
        let mut paths: Vec<VfsPath> = Vec::new();
        for nested in self.shared().router.nested(prefix) {
            let relative_path = nested.prefix().strip_prefix(prefix).expect("it lies below the prefix");
            let path = VfsPath::root().join(relative_path)?;
            if !paths.iter().any(|outer| path.strip_prefix(outer).is_some()) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    fn fork(
        &self,
        prefix: &VfsPath,
        name: ForkName,
        owner: String,
        pinned_at: Option<RevisionNumber>,
    ) -> Result<(Fork, Arc<dyn Store>)> {
        let resolved = self.authorize(prefix, Access::History)?;
        if !resolved.is_workspace() {
            let workspace = resolved.workspace.prefix();
            return Err(Error::Invalid(format!(
                "`{prefix}` isn't a Workspace; fork the whole Workspace `{workspace}` instead"
            )));
        }
        let (workspace, mount) = (resolved.workspace, resolved.workspace.mount());
        let path = mount.path().as_str().map(|path| VfsPath::root().join(path)).transpose()?;
        let fork = Fork {
            owner,
            name,
            created_by: self.shared().identity.agent.clone(),
            base_prefix: prefix.clone(),
            path: path.unwrap_or_else(VfsPath::root),
            protect: workspace.protect().patterns().to_vec(),
            hide: workspace.hide().patterns().to_vec(),
            scratch: workspace.scratch().patterns().to_vec(),
            quota: workspace.quota(),
            approval_policy: workspace.approval_policy(),
            excluded: self.nested_workspaces(prefix)?,
            created: self.shared().clock.now(),
            pinned_at,
            lease: self.lease_in(&**mount.store()),
        };
        let base = Arc::clone(mount.store());
        let result = mount.store().require_forks().and_then(|forks| forks.fork(base, &fork));
        let store = result.map_err(|cause| Error::Store {
            path: prefix.clone(),
            visibility: Visibility::Visible,
            cause,
        })?;
        Ok((fork, store))
    }
}
