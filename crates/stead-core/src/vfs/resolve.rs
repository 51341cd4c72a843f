//! From a path to a path in a Store: route, authorize, and call the Store. `redirect.rs` follows what leads elsewhere.

use std::sync::Arc;

use crate::error::{Error, Result, Visibility};
use crate::path::{PathError, VfsPath};
use crate::router::Route;
use crate::scope::Access;
use crate::store::{Attr, LinkHit, NodeKind, NodePath, Store, StoreError, StorePath, StoreResult};
use crate::vfs::VfsShared;
use crate::vfs::call::Call;
use crate::vfs::git_repository::{GitName, RepositoryVerdict};
use crate::vfs::redirect::HiddenRedirect;
use crate::workspace::{Barrier, Workspace};

/// What can be passed as a path: text, which is checked, or a [`VfsPath`].
pub trait IntoPath {
    /// Checks the path.
    fn into_path(self) -> Result<VfsPath, PathError>;
}

impl<T: TryInto<VfsPath, Error = PathError>> IntoPath for T {
    fn into_path(self) -> Result<VfsPath, PathError> {
        self.try_into()
    }
}

/// A path that the caller may access as requested: its scope has been checked.
#[derive(Debug, Clone)]
pub(super) struct ResolvedPath<'a> {
    pub(super) workspace: &'a Workspace,
    /// The path, as far as redirects have been followed.
    pub(super) path: VfsPath,
    /// The access that was authorized.
    pub(super) access: Access,
    pub(super) node_path: NodePath,
    /// The redirect that led here and that the caller may not know of, if there is one.
    pub(super) hidden: Option<HiddenRedirect>,
}

impl<'a> ResolvedPath<'a> {
    pub(super) fn store(&self) -> &'a dyn Store {
        &**self.workspace.mount().store()
    }

    /// The path below the Workspace's prefix.
    pub(super) fn relative_path(&self) -> &str {
        self.path.strip_prefix(self.workspace.prefix()).expect("a resolved path lies in its Workspace")
    }

    /// The path in the Store, if the Mount isn't the Store's root: globs have to see the directories above the Mount,
    /// too.
    pub(super) fn path_in_store(&self) -> Option<&str> {
        if self.workspace.mount().path().is_empty() { None } else { self.node_path.path.as_str() }
    }

    fn stat_or_symlink_hit(&self) -> StoreResult<Option<Attr>> {
        stat_or_symlink_hit(self.store(), &self.node_path)
    }

    /// Whether this is the root of the Workspace.
    pub(super) fn is_workspace(&self) -> bool {
        self.path == *self.workspace.prefix()
    }

    /// Whether the caller may read here.
    pub(super) fn visibility(&self) -> Visibility {
        if self.hidden.is_some() { Visibility::Hidden } else { Visibility::of(self.workspace.scope()) }
    }

    /// The path as the caller may know it: without the target of a redirect that it may not read.
    pub(super) fn reported_path(&self) -> &VfsPath {
        self.hidden.as_ref().map_or(&self.path, |hidden| &hidden.path)
    }

    /// The Workspace that the reported path is in.
    pub(super) fn reported_workspace(&self) -> &VfsPath {
        self.hidden.as_ref().map_or(self.workspace.prefix(), |hidden| &hidden.workspace)
    }

    /// The error for a refusal at this path. Where a redirect led here that the caller may not know of, it discloses
    /// neither the target nor why the target is refused.
    pub(super) fn refusal(&self, error: Error) -> Error {
        if self.hidden.is_some() { self.store_error(StoreError::HostDenied) } else { error }
    }

    /// A Store's error, for this path.
    pub(super) fn store_error(&self, cause: StoreError) -> Error {
        Error::Store { path: self.reported_path().clone(), visibility: self.visibility(), cause }
    }
}

/// Why a call at a resolved path failed.
pub(super) enum ResolvedCallError {
    /// The Store returned an error.
    Store(StoreError),
    /// The `Vfs` refused the call.
    Vfs(Error),
}

impl ResolvedCallError {
    /// The error for the caller, for a failure at this path.
    pub(super) fn into_error(self, resolved: &ResolvedPath<'_>) -> Error {
        match self {
            ResolvedCallError::Store(cause) => resolved.store_error(cause),
            ResolvedCallError::Vfs(error) => error,
        }
    }

    /// The same error for the requested path: the resolved one may disclose a path of the host. A symlink stays what
    /// it is, to be followed.
    fn for_requested(self, requested: &VfsPath, resolved: &ResolvedPath<'_>) -> Self {
        match (self, &resolved.hidden) {
            (ResolvedCallError::Store(cause @ StoreError::Link(_)), _) => cause.into(),
            (ResolvedCallError::Store(cause), _) => {
                Error::Store { path: requested.clone(), visibility: resolved.visibility(), cause }.into()
            }
            (ResolvedCallError::Vfs(error), Some(hidden)) => hidden.mask(error).into(),
            (error, None) => error,
        }
    }
}

impl From<StoreError> for ResolvedCallError {
    fn from(cause: StoreError) -> Self {
        ResolvedCallError::Store(cause)
    }
}

impl From<Error> for ResolvedCallError {
    fn from(error: Error) -> Self {
        ResolvedCallError::Vfs(error)
    }
}

/// Where an authorized path is, before symlinks are followed.
pub(super) enum Authorized<'a> {
    /// In a Workspace.
    InWorkspace(ResolvedPath<'a>),
    /// At a directory outside every Workspace, with Workspaces below it.
    AboveWorkspaces,
}

impl VfsShared {
    /// Whether the caller may use this Workspace so now: its scope allows it, and the caller's rights haven't changed.
    pub(super) fn allows(&self, workspace: &Workspace, access: Access) -> bool {
        workspace.scope().allows(access) && self.is_current(workspace, access)
    }

    /// Whether the caller still has the right that the Workspace's scope gives.
    pub(super) fn is_current(&self, workspace: &Workspace, access: Access) -> bool {
        let Some(rights) = &self.current_rights else { return true };
        !workspace.scope().allows(access) || rights.allow(workspace, access)
    }

    /// Whether the caller may read in the Workspace, by its scope and by the rights as they are now.
    pub(super) fn is_still_readable(&self, workspace: &Workspace) -> bool {
        workspace.scope().allows(Access::Read) && self.is_current(workspace, Access::Read)
    }
}

impl<'v> Call<'v> {
    /// Routes a path and authorizes the access. Calls no Store, except to look for the few names that git looks for in
    /// a repository.
    pub(super) fn route_and_authorize(&self, path: &VfsPath, access: Access) -> Result<Authorized<'v>> {
        let router = &self.shared().router;
        let Some(route @ Route { workspace, relative_path }) = router.route(path) else {
            if router.is_synthetic(path) && router.workspaces().next().is_some() {
                // The Workspaces below are authorized on their own, but a tool that asks for every path asks for this
                // one, too.
                if self.vfs.approval.needs_approval(path, access, None) {
                    return Err(Error::ApprovalRequired { path: path.clone(), workspace: path.clone() });
                }
                return Ok(Authorized::AboveWorkspaces);
            }
            // Where no Workspace can be shown as of the past, one of them says why.
            let unshown =
                || router.nested(path).find_map(|nested| Some((nested.prefix(), nested.barrier()?)));
            if router.workspaces().next().is_none()
                && let Some((prefix, barrier @ Barrier::NotInPast(_))) = unshown()
            {
                let (path, workspace) = (prefix.clone(), prefix.clone());
                return Err(Error::BehindBarrier { path, workspace, barrier: barrier.clone() });
            }
            let workspaces = router.workspaces().map(|workspace| workspace.prefix()).collect();
            return Err(Error::OutsideWorkspaces { path: path.clone(), workspaces });
        };
        if self.scope.get().is_none() {
            self.scope.set(Some(workspace.scope()));
        }
        let behind_barrier = |barrier: &Barrier| {
            let workspace = workspace.prefix().clone();
            Error::BehindBarrier { path: path.clone(), workspace, barrier: barrier.clone() }
        };
        if let Some(barrier) = workspace.barrier().filter(|barrier| barrier.hides_scope()) {
            return Err(behind_barrier(barrier));
        }
        if !self.shared().is_current(workspace, access) {
            let is_readable = self.shared().is_still_readable(workspace);
            return Err(Error::AccessWithdrawn { path: path.clone(), is_readable });
        }
        if !workspace.scope().allows(access)
            && let (Some(folder), Some(note)) = (workspace.title(), &self.shared().denial_note)
        {
            return Err(Error::FolderDenied { folder: Arc::clone(folder), access, note: Arc::clone(note) });
        }
        if !workspace.scope().allows(access) {
            return Err(Error::ScopeDenied {
                path: path.clone(),
                workspace: workspace.prefix().clone(),
                scope: workspace.scope(),
                access,
                allowed: router.allowing(access),
            });
        }
        if let Some(barrier) = workspace.barrier() {
            return Err(behind_barrier(barrier));
        }
        self.check_not_hidden(path, route, access)?;
        let resolved = ResolvedPath {
            workspace,
            path: path.clone(),
            access,
            node_path: workspace.mount().node_path(relative_path),
            hidden: None,
        };
        let is_change = access.is_change();
        if is_change && !workspace.protect().is_empty() {
            let is_protected = |path: &str| workspace.protect().matches_path_or_ancestor(path);
            if is_protected(relative_path) || resolved.path_in_store().is_some_and(is_protected) {
                return Err(Error::Protected { path: path.clone(), workspace: workspace.prefix().clone() });
            }
            for git_name in GitName::all_in(&resolved) {
                self.check_repository(&resolved, &git_name)?;
            }
        }
        if is_change && resolved.visibility() == Visibility::Hidden {
            let store = workspace.mount().store();
            let location = || (Arc::clone(store), resolved.node_path.path.clone());
            self.blind_at.borrow_mut().get_or_insert_with(location);
        }
        // Last, so that a person isn't asked about what is refused anyway.
        if self.vfs.approval.needs_approval(path, access, Some(workspace)) {
            return Err(Error::ApprovalRequired {
                path: path.clone(),
                workspace: workspace.prefix().clone(),
            });
        }
        Ok(Authorized::InWorkspace(resolved))
    }

    /// Refuses a change that would make git obey the agent.
    fn check_repository(&self, resolved: &ResolvedPath<'_>, git_name: &GitName) -> Result<()> {
        let mut created = self.created_git_names.borrow_mut();
        let exists = |path: StorePath| {
            created.contains(&path) || resolved.store().stat(&NodePath::from_root(path)).is_ok()
        };
        match git_name.verdict(exists) {
            RepositoryVerdict::Refused => Err(Error::GitRepository {
                path: resolved.path.clone(),
                workspace: resolved.workspace.prefix().clone(),
            }),
            RepositoryVerdict::Allowed(free) => {
                created.insert(git_name.path());
                let store = resolved.workspace.mount().store();
                self.expect_free.borrow_mut().extend(free.into_iter().map(|path| (Arc::clone(store), path)));
                Ok(())
            }
        }
    }

    /// The root of a nested Workspace, for a walk or search from above that has checked its access already.
    pub(super) fn workspace_root(&self, workspace: &'v Workspace) -> ResolvedPath<'v> {
        let (path, node_path) = (workspace.prefix().clone(), workspace.mount().node_path(""));
        ResolvedPath { workspace, path, access: Access::Read, node_path, hidden: None }
    }

    /// Routes a path into a Workspace and authorizes the access.
    pub(super) fn authorize(&self, path: &VfsPath, access: Access) -> Result<ResolvedPath<'v>> {
        match self.route_and_authorize(path, access)? {
            Authorized::InWorkspace(resolved) => Ok(resolved),
            Authorized::AboveWorkspaces if access == Access::Read => {
                let cause = StoreError::IsADirectory;
                Err(Error::Store { path: path.clone(), visibility: Visibility::Visible, cause })
            }
            Authorized::AboveWorkspaces => Err(Error::SyntheticDirectory { path: path.clone() }),
        }
    }

    /// Calls a Store at a path, and follows redirects.
    pub(super) fn resolve_and_call<T, S: Into<ResolvedCallError>>(
        &self,
        path: &VfsPath,
        access: Access,
        mut call: impl FnMut(&ResolvedPath<'v>) -> Result<T, S>,
    ) -> Result<(T, ResolvedPath<'v>)> {
        let (value, [resolved]) = self.follow_redirects(
            [path],
            |[path]| [self.authorize(path, access)],
            |[resolved]| call(resolved).map_err(|error| self.as_requested(error.into(), path, resolved)),
        )?;
        Ok((value, resolved))
    }

    /// An error for the requested path or, if that was routed, for the path where the caller finds the file.
    fn as_requested(
        &self,
        error: ResolvedCallError,
        requested: &VfsPath,
        resolved: &ResolvedPath<'_>,
    ) -> ResolvedCallError {
        let routed = self.routed_path.borrow();
        error.for_requested(routed.as_ref().unwrap_or(requested), resolved)
    }

    /// Like [`Call::resolve_and_call`] with read access, for calls that also work on directories above Workspaces:
    /// those are passed to `synthetic`.
    pub(super) fn resolve_any_and_call<T>(
        &self,
        path: &VfsPath,
        mut call: impl FnMut(&ResolvedPath<'v>) -> StoreResult<T>,
        synthetic: impl FnOnce(&VfsPath) -> T,
    ) -> Result<(T, VfsPath)> {
        let authorize = |path: &VfsPath| match self.route_and_authorize(path, Access::Read)? {
            Authorized::InWorkspace(resolved) => Ok(resolved),
            Authorized::AboveWorkspaces => Err(Error::SyntheticDirectory { path: path.clone() }),
        };
        let answer = self.follow_redirects(
            [path],
            |[path]| [authorize(path)],
            |[resolved]| call(resolved).map_err(|cause| self.as_requested(cause.into(), path, resolved)),
        );
        match answer {
            Ok((value, [resolved])) => Ok((value, resolved.path)),
            // Only `authorize` returns this error.
            Err(Error::SyntheticDirectory { path }) => Ok((synthetic(&path), path)),
            Err(error) => Err(error),
        }
    }

    /// The attributes of what a path leads to, and its resolved path; `None` for a directory that exists only because
    /// of Workspaces. Follows every symlink.
    pub(super) fn resolve_existing(
        &self,
        path: &VfsPath,
    ) -> Result<(Option<(Attr, ResolvedPath<'v>)>, VfsPath)> {
        let stat_existing = |resolved: &ResolvedPath<'v>| match resolved.stat_or_symlink_hit()? {
            Some(attr) => Ok(Some((attr, resolved.clone()))),
            None if self.is_synthetic_directory(resolved) => Ok(None),
            None => Err(StoreError::NotFound),
        };
        self.resolve_any_and_call(path, stat_existing, |_| None)
    }

    /// Follows every symlink of a path, including one in the last component. Nothing needs to exist there.
    pub(super) fn resolve(&self, path: &VfsPath, access: Access) -> Result<(Option<Attr>, ResolvedPath<'v>)> {
        self.resolve_and_call(path, access, ResolvedPath::stat_or_symlink_hit)
    }

    /// Like [`Call::resolve`], for a file or a symlink that is about to be put there: what each path on the way refuses
    /// is refused in the same order as by a call that follows symlinks only as the Store reports them.
    pub(super) fn resolve_to_put(&self, path: &VfsPath) -> Result<ResolvedPath<'v>> {
        let (_, resolved) =
            self.resolve_and_call(path, Access::Write, |resolved| -> Result<_, ResolvedCallError> {
                resolved.check_not_protected_ancestor()?;
                Ok(resolved.stat_or_symlink_hit()?)
            })?;
        Ok(resolved)
    }
}

/// The attributes of what is at a path, if something is. A symlink is an error, for the caller to follow it.
pub(super) fn stat_or_symlink_hit(store: &dyn Store, node_path: &NodePath) -> StoreResult<Option<Attr>> {
    match store.stat(node_path) {
        // The error that a Store would report if it had to follow the symlink.
        Ok(attr) if attr.kind == NodeKind::Symlink => {
            Err(LinkHit::error_at(node_path.path.depth(), store.read_link(node_path)?))
        }
        Ok(attr) => Ok(Some(attr)),
        Err(StoreError::NotFound) => Ok(None),
        Err(other) => Err(other),
    }
}
