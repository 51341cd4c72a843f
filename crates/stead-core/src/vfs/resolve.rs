//! From a path to a path in a Store: route, authorize, call the Store, and again for every symlink on the way.

use std::sync::Arc;

use crate::error::{Error, Result, Visibility};
use crate::path::{PathError, VfsPath};
use crate::router::Route;
use crate::scope::Access;
use crate::store::{Attr, LinkHit, NodeKind, NodePath, Store, StoreError, StorePath, StoreResult};
use crate::vfs::call::Call;
use crate::vfs::git_repository::{GitName, RepositoryVerdict};
use crate::workspace::{Barrier, Workspace};

/// How many symlinks may be followed for one path.
const MAX_LINKS: usize = 40;

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
    /// The path, as far as symlinks have been followed.
    pub(super) path: VfsPath,
    /// The path as the caller may know it: the target of a symlink in a WRITE_ONLY Workspace is not disclosed.
    pub(super) reported_path: VfsPath,
    pub(super) node_path: NodePath,
    /// The Workspace of the symlink that the caller may not read and that led here, if one did.
    pub(super) via_hidden_symlink: Option<VfsPath>,
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

    /// Whether this is the root of the Workspace.
    pub(super) fn is_workspace(&self) -> bool {
        self.path == *self.workspace.prefix()
    }

    /// Whether the caller may read here.
    pub(super) fn visibility(&self) -> Visibility {
        if self.via_hidden_symlink.is_some() {
            Visibility::Hidden
        } else {
            Visibility::of(self.workspace.scope())
        }
    }

    /// The Workspace as the caller may know it: the one that `reported_path` is in.
    pub(super) fn reported_workspace(&self) -> &VfsPath {
        self.via_hidden_symlink.as_ref().unwrap_or(self.workspace.prefix())
    }

    /// The error for a refusal at this path. Where a symlink led here that the caller may not read, it discloses
    /// neither the target nor why the target is refused.
    pub(super) fn refusal(&self, error: Error) -> Error {
        if self.via_hidden_symlink.is_some() { self.store_error(StoreError::HostDenied) } else { error }
    }

    /// A Store's error, for this path.
    pub(super) fn store_error(&self, cause: StoreError) -> Error {
        Error::Store { path: self.reported_path.clone(), visibility: self.visibility(), cause }
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
    pub(super) fn into_error(self, spot: &ResolvedPath<'_>) -> Error {
        match self {
            ResolvedCallError::Store(cause) => spot.store_error(cause),
            ResolvedCallError::Vfs(error) => error,
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

/// What a path is after routing.
pub(super) enum Resolution<'a> {
    /// A path in a Workspace.
    Path(ResolvedPath<'a>),
    /// A directory that exists only because Workspaces lie below it.
    Synthetic,
}

impl<'v> Call<'v> {
    /// Routes a path and authorizes the access. Calls no Store, except to look for the few names that git looks for in
    /// a repository.
    pub(super) fn route_and_authorize(&self, path: &VfsPath, access: Access) -> Result<Resolution<'v>> {
        let router = &self.shared().router;
        let Some(Route { workspace, relative_path: below }) = router.route(path) else {
            if router.is_synthetic(path) && router.workspaces().next().is_some() {
                // The Workspaces below are authorized on their own, but a tool that asks for every path asks for this
                // one, too.
                if self.vfs.approval.needs_approval(path, access, None) {
                    return Err(Error::ApprovalRequired { path: path.clone(), workspace: path.clone() });
                }
                return Ok(Resolution::Synthetic);
            }
            let workspaces = router.workspaces().map(|workspace| workspace.prefix().clone()).collect();
            return Err(Error::OutsideWorkspaces { path: path.clone(), workspaces });
        };
        if self.scope.get().is_none() {
            self.scope.set(Some(workspace.scope()));
        }
        let withheld = |barrier| {
            let workspace = workspace.prefix().clone();
            Error::BehindBarrier { path: path.clone(), workspace, barrier }
        };
        if let Some(barrier @ Barrier::ExcludedFromFork) = workspace.barrier() {
            return Err(withheld(barrier));
        }
        if !workspace.scope().allows(access) {
            return Err(Error::ScopeDenied {
                path: path.clone(),
                workspace: workspace.prefix().clone(),
                scope: workspace.scope(),
                access,
                allowed: router.prefixes_allowing(access),
            });
        }
        if let Some(barrier) = workspace.barrier() {
            return Err(withheld(barrier));
        }
        let spot = ResolvedPath {
            workspace,
            path: path.clone(),
            reported_path: path.clone(),
            node_path: workspace.mount().node_path(below),
            via_hidden_symlink: None,
        };
        let changes = matches!(access, Access::Write | Access::MoveOut | Access::Restore);
        if changes && !workspace.protect().is_empty() {
            let is_protected = |path: &str| workspace.protect().matches_path_or_ancestor(path);
            if is_protected(below) || spot.path_in_store().is_some_and(is_protected) {
                return Err(Error::Protected { path: path.clone(), workspace: workspace.prefix().clone() });
            }
            for part in GitName::all_in(&spot) {
                self.check_repository(&spot, &part)?;
            }
        }
        if changes && spot.visibility() == Visibility::Hidden {
            let store = workspace.mount().store();
            let place = || (Arc::clone(store), spot.node_path.path.clone());
            self.blind_at.borrow_mut().get_or_insert_with(place);
        }
        // Last, so that a person isn't asked about what is refused anyway.
        if self.vfs.approval.needs_approval(path, access, Some(workspace)) {
            return Err(Error::ApprovalRequired {
                path: path.clone(),
                workspace: workspace.prefix().clone(),
            });
        }
        Ok(Resolution::Path(spot))
    }

    /// Refuses a change that would make git obey the agent.
    fn check_repository(&self, spot: &ResolvedPath<'_>, part: &GitName) -> Result<()> {
        let mut made = self.created_git_names.borrow_mut();
        let there =
            |path: StorePath| made.contains(&path) || spot.store().stat(&NodePath::from_root(path)).is_ok();
        match part.verdict(there) {
            RepositoryVerdict::Refused => Err(Error::GitRepository {
                path: spot.path.clone(),
                workspace: spot.workspace.prefix().clone(),
            }),
            RepositoryVerdict::Allowed(free) => {
                made.insert(part.path());
                let store = spot.workspace.mount().store();
                self.expect_free.borrow_mut().extend(free.into_iter().map(|path| (Arc::clone(store), path)));
                Ok(())
            }
        }
    }

    /// The root of a nested Workspace, for a walk or search from above that has checked its access already.
    pub(super) fn workspace_root(&self, workspace: &'v Workspace) -> ResolvedPath<'v> {
        let (path, place) = (workspace.prefix().clone(), workspace.mount().node_path(""));
        ResolvedPath {
            workspace,
            reported_path: path.clone(),
            path,
            node_path: place,
            via_hidden_symlink: None,
        }
    }

    /// Routes a path into a Workspace and authorizes the access.
    pub(super) fn authorize(&self, path: &VfsPath, access: Access) -> Result<ResolvedPath<'v>> {
        match self.route_and_authorize(path, access)? {
            Resolution::Path(spot) => Ok(spot),
            Resolution::Synthetic if access == Access::Read => {
                let cause = StoreError::IsADirectory;
                Err(Error::Store { path: path.clone(), visibility: Visibility::Visible, cause })
            }
            Resolution::Synthetic => Err(Error::SyntheticDirectory { path: path.clone() }),
        }
    }

    /// Calls a Store at a path, and follows symlinks as the Store reports them.
    pub(super) fn resolve_and_call<T, S: Into<ResolvedCallError>>(
        &self,
        path: &VfsPath,
        access: Access,
        mut call: impl FnMut(&ResolvedPath<'_>) -> Result<T, S>,
    ) -> Result<(T, ResolvedPath<'v>)> {
        let mut links = SymlinkResolver::new(path);
        loop {
            if links.hops > 0 {
                self.set_resolved_paths([&links.path]);
            }
            let spot = links.mask_path(links.mask_refusal(self.authorize(&links.path, access))?);
            match call(&spot).map_err(Into::into) {
                Ok(value) => return Ok((value, spot)),
                Err(ResolvedCallError::Store(StoreError::Link(hit))) => links.follow(&spot, &hit)?,
                Err(ResolvedCallError::Store(cause)) => return Err(links.store_error(&spot, cause)),
                Err(ResolvedCallError::Vfs(error)) => return links.mask_refusal(Err(error)),
            }
        }
    }

    /// Like [`Call::resolve_and_call`] with read access, for calls that also work on directories above Workspaces:
    /// those are passed to `synthetic`.
    pub(super) fn resolve_any_and_call<T>(
        &self,
        path: &VfsPath,
        mut call: impl FnMut(&ResolvedPath<'_>) -> StoreResult<T>,
        synthetic: impl FnOnce(&VfsPath) -> T,
    ) -> Result<(T, VfsPath)> {
        let mut links = SymlinkResolver::new(path);
        loop {
            if links.hops > 0 {
                self.set_resolved_paths([&links.path]);
            }
            let spot = match links.mask_refusal(self.route_and_authorize(&links.path, Access::Read))? {
                Resolution::Path(spot) => spot,
                Resolution::Synthetic => return Ok((synthetic(&links.path), links.path)),
            };
            match call(&spot) {
                Ok(value) => return Ok((value, spot.path)),
                Err(StoreError::Link(hit)) => links.follow(&spot, &hit)?,
                Err(cause) => return Err(links.store_error(&spot, cause)),
            }
        }
    }

    /// Follows every symlink of a path, including one in the last component. Nothing needs to exist there.
    pub(super) fn resolve(&self, path: &VfsPath, access: Access) -> Result<(Option<Attr>, ResolvedPath<'v>)> {
        self.resolve_and_call(path, access, stat_or_symlink_hit)
    }

    /// Like [`Call::resolve`], for a file or a symlink that is about to be put there: what each path on the way refuses
    /// is refused in the same order as by a call that follows symlinks only as the Store reports them.
    pub(super) fn resolve_to_put(&self, path: &VfsPath) -> Result<ResolvedPath<'v>> {
        let (_, spot) =
            self.resolve_and_call(path, Access::Write, |spot| -> Result<_, ResolvedCallError> {
                spot.check_not_protected_ancestor()?;
                Ok(stat_or_symlink_hit(spot)?)
            })?;
        Ok(spot)
    }
}

/// The attributes of what is at this path, if something is. A symlink is an error, for the caller to follow it.
fn stat_or_symlink_hit(spot: &ResolvedPath<'_>) -> StoreResult<Option<Attr>> {
    match spot.store().stat(&spot.node_path) {
        Ok(attr) if attr.kind == NodeKind::Symlink => Err(symlink_hit(spot)?),
        Ok(attr) => Ok(Some(attr)),
        Err(StoreError::NotFound) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The error that a Store would report if it had to follow the symlink at this path.
pub(super) fn symlink_hit(spot: &ResolvedPath<'_>) -> StoreResult<StoreError> {
    let target = spot.store().read_link(&spot.node_path)?;
    Ok(LinkHit::error_at(spot.node_path.path.depth(), target))
}

/// A path while its symlinks are followed.
pub(super) struct SymlinkResolver {
    requested: VfsPath,
    pub(super) path: VfsPath,
    hops: usize,
    /// The first symlink on the way that the caller may not read.
    hidden_symlink: Option<HiddenSymlink>,
}

/// A symlink that the caller may not read. The caller is answered as if the path ended there.
struct HiddenSymlink {
    /// The path that was resolved so far: to the symlink, or through it.
    path: VfsPath,
    /// The Workspace it is in.
    workspace: VfsPath,
}

impl SymlinkResolver {
    pub(super) fn new(path: &VfsPath) -> Self {
        SymlinkResolver { requested: path.clone(), path: path.clone(), hops: 0, hidden_symlink: None }
    }

    /// Turns a refusal at a symlink's target into one that doesn't disclose the target. For a symlink that the caller
    /// may not read, it doesn't even disclose that there is one.
    pub(super) fn mask_refusal<T>(&self, judged: Result<T>) -> Result<T> {
        match (judged, &self.hidden_symlink) {
            (Err(Error::ApprovalRequired { .. }), Some(HiddenSymlink { path, workspace })) => {
                Err(Error::ApprovalRequired { path: path.clone(), workspace: workspace.clone() })
            }
            (
                Err(
                    Error::OutsideWorkspaces { .. }
                    | Error::ScopeDenied { .. }
                    | Error::Protected { .. }
                    | Error::GitRepository { .. }
                    | Error::BehindBarrier { .. }
                    | Error::ContainsWorkspace { .. }
                    | Error::IsWorkspace { .. }
                    | Error::SyntheticDirectory { .. },
                ),
                Some(_),
            ) => Err(self.hidden_error()),
            (Err(Error::OutsideWorkspaces { .. }), None) if self.hops > 0 => Err(self.outside_error()),
            (judged, _) => judged,
        }
    }

    /// A resolved path as the caller may know it.
    pub(super) fn mask_path<'a>(&self, spot: ResolvedPath<'a>) -> ResolvedPath<'a> {
        match &self.hidden_symlink {
            Some(HiddenSymlink { path, workspace }) => ResolvedPath {
                reported_path: path.clone(),
                via_hidden_symlink: Some(workspace.clone()),
                ..spot
            },
            None => spot,
        }
    }

    /// The error for anything that fails where the caller may not read.
    fn hidden_error(&self) -> Error {
        Error::Store {
            path: self.requested.clone(),
            visibility: Visibility::Hidden,
            cause: StoreError::HostDenied,
        }
    }

    /// A Store's error, for the requested path: the resolved one may disclose a path of the host.
    pub(super) fn store_error(&self, spot: &ResolvedPath<'_>, cause: StoreError) -> Error {
        let sight = if self.hidden_symlink.is_some() { Visibility::Hidden } else { spot.visibility() };
        Error::Store { path: self.requested.clone(), visibility: sight, cause }
    }

    fn outside_error(&self) -> Error {
        if self.hidden_symlink.is_some() {
            self.hidden_error()
        } else {
            Error::SymlinkOutside { path: self.requested.clone() }
        }
    }

    /// Follows the symlink that a Store reported on the way to `spot`.
    pub(super) fn follow(&mut self, spot: &ResolvedPath<'_>, hit: &LinkHit) -> Result<()> {
        self.hops += 1;
        if self.hidden_symlink.is_none() && !spot.workspace.scope().allows(Access::Read) {
            let workspace = spot.workspace.prefix().clone();
            self.hidden_symlink = Some(HiddenSymlink { path: spot.path.clone(), workspace });
        }
        if self.hops > MAX_LINKS && self.hidden_symlink.is_some() {
            return Err(self.hidden_error());
        }
        if self.hops > MAX_LINKS {
            return Err(Error::TooManySymlinks { path: self.requested.clone() });
        }
        // A symlink in the Mount's own path is not followed: it would lead out of the Mount.
        let mount = spot.workspace.mount().path().depth();
        let below =
            hit.depth.checked_sub(mount).filter(|&below| below > 0).ok_or_else(|| self.outside_error())?;
        let link = spot.path.ancestor(spot.workspace.prefix().depth() + below);
        let directory = link.parent().expect("a symlink has a name, so it is in a directory");
        let target = std::str::from_utf8(&hit.target).map_err(|_| self.outside_error())?;
        let resolved = directory.resolve_symlink_target(target).map_err(|_| self.outside_error())?;
        let rest = spot.path.strip_prefix(&link).expect("the symlink is a part of the path");
        self.path = resolved.join(rest).map_err(|_| self.outside_error())?;
        Ok(())
    }
}
