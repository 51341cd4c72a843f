//! Forking a Workspace.

use std::sync::Arc;

use crate::error::{Error, Result, Visibility};
use crate::identity::OperationId;
use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::store::{Fork, ForkName, RevisionNumber, Store, StoreError};
use crate::vfs::call::Call;
use crate::vfs::{IntoPath, Vfs};
use crate::workspace::Workspace;

/// A fork that was made of a Workspace and those nested in it, each part with its Store.
#[derive(Debug, Clone)]
pub struct ForkedWorkspaces {
    /// The fork itself.
    pub whole: (Fork, Arc<dyn Store>),
    /// The forks of the nested Workspaces, by place.
    pub parts: Vec<(Fork, Arc<dyn Store>)>,
}

/// What a new fork is called, whose it is, and what it shows of a live base.
struct NewFork {
    name: ForkName,
    owner: String,
    pinned_at: Option<RevisionNumber>,
}

/// What becomes of nested Workspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nested {
    Excluded,
    Parts,
}

impl Vfs {
    /// Forks a Workspace alone, for this agent or for another one: the Workspaces nested in it are excluded.
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
        let forked = self.call("fork", [prefix.into_path()], |call, [prefix]| {
            call.fork(prefix, NewFork { name, owner: owner.into(), pinned_at: None }, Nested::Excluded)
        });
        forked.map(|forked| forked.whole)
    }

    /// Forks a Workspace together with those nested in it that may be read and whose Stores can be forked
    /// ([`Vfs::workspaces_forked_with`]). Like [`Vfs::fork`] otherwise. With `pinned_at`, Stores whose forks would show later
    /// changes are shown as of this revision.
    pub fn fork_with_nested(
        &self,
        prefix: impl IntoPath,
        name: ForkName,
        owner: impl Into<String>,
        pinned_at: Option<RevisionNumber>,
    ) -> Result<ForkedWorkspaces> {
        self.call("fork", [prefix.into_path()], |call, [prefix]| {
            call.fork(prefix, NewFork { name, owner: owner.into(), pinned_at }, Nested::Parts)
        })
    }

    /// The nested Workspaces that a fork of the Workspace at a prefix is made with, sorted by prefix.
    ///
    /// Those are the READ_ONLY and READ_WRITE ones whose Stores can be forked, at any depth. A fork that appears below the
    /// prefix, because the Workspace is at `/`, is none of them: it is a fork of its own.
    pub fn workspaces_forked_with(&self, prefix: &VfsPath) -> impl Iterator<Item = &Workspace> {
        let base = self.shared.router.route(prefix).map(|route| route.workspace);
        let is_in_fork = base.is_some_and(|base| base.fork_origin().is_some());
        self.shared.router.nested(prefix).filter(move |nested| {
            nested.barrier().is_none()
                && (is_in_fork || nested.fork_origin().is_none())
                && self.shared.allows(nested, Access::History)
                && nested.mount().store().forks().is_some()
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

    fn fork(&self, prefix: &VfsPath, new: NewFork, nested: Nested) -> Result<ForkedWorkspaces> {
        let resolved = self.authorize(prefix, Access::History)?;
        if !resolved.is_workspace() {
            let workspace = resolved.workspace.prefix();
            return Err(Error::Invalid(format!(
                "`{prefix}` isn't a Workspace; fork the whole Workspace `{workspace}` instead"
            )));
        }
        let workspace = resolved.workspace;
        let nested: Vec<&Workspace> = match nested {
            Nested::Excluded => Vec::new(),
            Nested::Parts => self.vfs.workspaces_forked_with(prefix).collect(),
        };
        let made_by = (!nested.is_empty()).then(|| OperationId::fresh(self.shared().clock.now()));
        let mut parts: Vec<(Fork, Arc<dyn Store>)> = Vec::new();
        let make_all = |parts: &mut Vec<(Fork, Arc<dyn Store>)>| -> Result<(Fork, Arc<dyn Store>)> {
            for nested in nested {
                let relative_path = nested.prefix().strip_prefix(prefix).expect("it lies below the prefix");
                let place = VfsPath::root().join(relative_path)?;
                let fork = self.new_fork(nested, &new)?;
                let fork = Fork { place, scope: nested.scope(), made_by, ..fork };
                parts.push(make_part(nested, fork)?);
            }
            // The parts are seen from this moment on.
            make_part(workspace, Fork { made_by, ..self.new_fork(workspace, &new)? })
        };
        match make_all(&mut parts) {
            Ok(whole) => Ok(ForkedWorkspaces { whole, parts }),
            Err(error) => {
                for (_, store) in parts {
                    // A part that can't be removed now is never shown, and is removed later.
                    let _ = store.require_maintenance().and_then(|maintenance| maintenance.destroy());
                }
                Err(error)
            }
        }
    }

    /// The record of a fork of one Workspace, as that of the whole.
    fn new_fork(&self, workspace: &Workspace, new: &NewFork) -> Result<Fork> {
        let mount = workspace.mount();
        let path = mount.path().as_str().map(|path| VfsPath::root().join(path)).transpose()?;
        let forks = mount.store().forks();
        let is_live = forks.is_some_and(|forks| forks.shows_later_changes());
        Ok(Fork {
            owner: new.owner.clone(),
            name: new.name.clone(),
            created_by: self.shared().identity.agent.clone(),
            base_prefix: workspace.prefix().clone(),
            path: path.unwrap_or_else(VfsPath::root),
            protect: workspace.protect().patterns().to_vec(),
            hide: workspace.hide().patterns().to_vec(),
            scratch: workspace.scratch().patterns().to_vec(),
            quota: workspace.quota(),
            approval_policy: workspace.approval_policy(),
            place: VfsPath::root(),
            scope: AccessScope::ReadWrite,
            excluded: self.nested_workspaces(workspace.prefix())?,
            parts: Vec::new(),
            created: self.shared().clock.now(),
            pinned_at: new.pinned_at.filter(|_| is_live),
            lease: self.lease_in(&**mount.store()),
            made_by: None,
        })
    }
}

/// Forks the Store of a Workspace.
fn make_part(workspace: &Workspace, fork: Fork) -> Result<(Fork, Arc<dyn Store>)> {
    let base = workspace.mount().store();
    let made = base.require_forks().and_then(|forks| forks.fork(Arc::clone(base), &fork));
    let path = workspace.prefix().clone();
    let failed = |cause: StoreError| Error::Store { path, visibility: Visibility::Visible, cause };
    let store = made.map_err(failed)?;
    Ok((fork, store))
}
