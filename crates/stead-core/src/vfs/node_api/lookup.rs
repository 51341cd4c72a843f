//! Looking up what has a name or a path. Lookups aren't audited.

use crate::error::{Error, Result, Visibility};
use crate::name::Name;
use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::store::{Attr, NodeId, NodeKind, StoreError, VersionTag};
use crate::vfs::call::Call;
use crate::vfs::node_api::{DirectoryRef, NodeApi, child_path, symlink_as_conflict};
use crate::vfs::open_file::CommitMark;
use crate::vfs::resolve::{Authorized, ResolvedPath};
use crate::workspace::Workspace;

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The logical path.
    pub path: VfsPath,
    /// The index of the Workspace that the path lies in; `None` for a directory above all Workspaces.
    pub workspace: Option<usize>,
    /// Whether the directory is shown because of the Workspaces: it is the top of one, or one lies below it.
    pub is_synthetic: bool,
    /// Whether the caller may not look at it. Then its node id must not be shown: it would reveal whether the node is
    /// new or existed before.
    pub is_hidden: bool,
    /// The node; `None` if no Store holds the directory.
    pub node: Option<NodeId>,
    /// The attributes, including what was written through this API and isn't a change yet.
    pub attr: Attr,
}

fn not_found(path: &VfsPath) -> Error {
    Error::Store { path: path.clone(), visibility: Visibility::Hidden, cause: StoreError::NotFound }
}

impl NodeApi {
    /// Looks up a name in a directory.
    pub fn lookup(&self, directory: &DirectoryRef, name: &Name) -> Result<Lookup> {
        // Nothing can have a name that isn't valid in a path.
        let missing = |_| Error::Store {
            path: directory.path.clone(),
            visibility: Visibility::Visible,
            cause: StoreError::NotFound,
        };
        let path = child_path(directory, name).map_err(missing)?;
        self.vfs.unaudited_call("lookup", [Ok(path)], |call, [path]| {
            let result = self.lookup_in_call(call, path);
            call.check_directory(directory)?;
            match result {
                Err(Error::Store { cause: StoreError::NotFound, .. }) => {
                    self.find_special(call, directory, path).map_or(result, Ok)
                }
                result => result,
            }
        })
    }

    /// Looks up a path.
    pub fn lookup_path(&self, path: &VfsPath) -> Result<Lookup> {
        self.vfs.unaudited_call("lookup", [Ok(path.clone())], |call, [path]| self.lookup_in_call(call, path))
    }

    /// The target of the symlink at a path, as written.
    pub fn link_target(&self, path: &VfsPath) -> Result<Vec<u8>> {
        self.vfs.unaudited_call("read_link", [Ok(path.clone())], |call, [path]| {
            let resolved = call.authorize(path, Access::Read)?;
            resolved.check_openable()?;
            resolved
                .store()
                .read_link(&resolved.node_path)
                .map_err(|cause| resolved.store_error(symlink_as_conflict(cause)))
        })
    }

    pub(super) fn lookup_in_call(&self, call: &Call<'_>, path: &VfsPath) -> Result<Lookup> {
        let router = &call.shared().router;
        let Some(route) = router.route(path) else {
            call.route_and_authorize(path, Access::Read)?;
            return Ok(self.synthetic_lookup(path, None));
        };
        let is_top = route.relative_path.is_empty() && !route.workspace.is_absent();
        let leads_to_workspace = is_top || router.leads_to_workspace(path);
        if route.workspace.barrier().is_some() {
            // Only the Workspace's own directory and the directories that lead to Workspaces inside it are shown.
            return if leads_to_workspace {
                Ok(self.synthetic_lookup(path, None))
            } else {
                call.route_and_authorize(path, Access::Read).and(Err(not_found(path)))
            };
        }
        let found = match route.workspace.scope() {
            AccessScope::WriteOnly if !call.shared().is_current(route.workspace, Access::Write) => {
                Err(Error::AccessWithdrawn { path: path.clone(), is_readable: false })
            }
            AccessScope::WriteOnly => self.lookup_write_only(path, route.workspace, route.relative_path),
            _ => self.lookup_visible(call, path),
        };
        match found {
            Ok(lookup) => Ok(Lookup {
                is_synthetic: lookup.attr.kind == NodeKind::Directory && leads_to_workspace,
                ..lookup
            }),
            // The top of a Workspace is shown even if its Store has nothing there yet, or can't be read.
            Err(_) if route.relative_path.is_empty() => {
                Ok(self.synthetic_lookup(path, Some(route.workspace)))
            }
            Err(Error::Store { cause: StoreError::NotFound, .. }) if leads_to_workspace => {
                Ok(self.synthetic_lookup(path, Some(route.workspace)))
            }
            Err(error) => Err(error),
        }
    }

    fn lookup_visible(&self, call: &Call<'_>, path: &VfsPath) -> Result<Lookup> {
        let Authorized::InWorkspace(resolved) = call.route_and_authorize(path, Access::Read)? else {
            unreachable!("the path was routed into a Workspace")
        };
        let since = self.vfs.shared.open_nodes.commit_mark();
        let attr = resolved
            .store()
            .stat(&resolved.node_path)
            .map_err(|cause| resolved.store_error(symlink_as_conflict(cause)))?;
        Ok(self.visible_lookup(&resolved, attr, since))
    }

    /// The lookup of a node that the caller may see. `attr` was read after `since`.
    pub(super) fn visible_lookup(
        &self,
        resolved: &ResolvedPath<'_>,
        attr: Attr,
        since: CommitMark,
    ) -> Lookup {
        let attr = self.vfs.shared.open_nodes.overlay_attr(resolved.workspace.mount().store(), attr, since);
        Lookup {
            path: resolved.path.clone(),
            workspace: Some(self.workspace_index(resolved.workspace)),
            is_synthetic: false,
            is_hidden: false,
            node: Some(attr.node),
            attr,
        }
    }

    /// In a WRITE_ONLY Workspace, only the kind of a node is shown, and only if the node was created through this API.
    fn lookup_write_only(
        &self,
        path: &VfsPath,
        workspace: &Workspace,
        relative_path: &str,
    ) -> Result<Lookup> {
        let failed = |cause| Error::Store { path: path.clone(), visibility: Visibility::Visible, cause };
        let mount = workspace.mount();
        let attr = mount.store().stat(&mount.node_path(relative_path)).map_err(|cause| match cause {
            cause @ (StoreError::Unavailable { .. } | StoreError::Corrupt(_)) => failed(cause),
            // Whether something else is there makes no difference: it wasn't created through this API.
            _ => failed(StoreError::NotFound),
        })?;
        let workspace_index = self.workspace_index(workspace);
        if !relative_path.is_empty() && !self.created_hidden.lock().contains(&(workspace_index, attr.node)) {
            return Err(failed(StoreError::NotFound));
        }
        Ok(self.hidden_lookup(path, workspace_index, attr))
    }

    /// The lookup of a node that was just created or changed. In a WRITE_ONLY Workspace, this makes the node visible to
    /// later lookups.
    pub(super) fn created_lookup(&self, resolved: &ResolvedPath<'_>, attr: Attr) -> Lookup {
        if resolved.visibility() == Visibility::Visible {
            return self.visible_lookup(resolved, attr, self.vfs.shared.open_nodes.commit_mark());
        }
        let workspace_index = self.workspace_index(resolved.workspace);
        self.created_hidden.lock().insert((workspace_index, attr.node));
        self.hidden_lookup(&resolved.path, workspace_index, attr)
    }

    fn hidden_lookup(&self, path: &VfsPath, workspace: usize, attr: Attr) -> Lookup {
        let mode = if attr.kind == NodeKind::Directory { 0o300 } else { 0o200 };
        let node = attr.node;
        let attr = Attr { node, mode, ..self.placeholder_attr(attr.kind) };
        let (path, workspace) = (path.clone(), Some(workspace));
        Lookup { path, workspace, is_synthetic: false, is_hidden: true, node: Some(node), attr }
    }

    fn synthetic_lookup(&self, path: &VfsPath, workspace: Option<&Workspace>) -> Lookup {
        let attr = self.placeholder_attr(NodeKind::Directory);
        let workspace = workspace.map(|workspace| self.workspace_index(workspace));
        Lookup { path: path.clone(), workspace, is_synthetic: true, is_hidden: false, node: None, attr }
    }

    /// Attributes that show only the kind.
    fn placeholder_attr(&self, kind: NodeKind) -> Attr {
        let (node, modified, tag) = (NodeId::ROOT, self.mounted_at, VersionTag(0));
        Attr { node, kind, size: 0, mode: 0o755, created: None, modified, changed: modified, tag }
    }
}
