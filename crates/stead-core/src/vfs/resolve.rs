//! From a path to a place in a Store: route, guard, call, and again for every symlink on the way.

use std::sync::Arc;

use crate::error::{Error, Result, Visibility};
use crate::path::{PathError, VfsPath};
use crate::router::Route;
use crate::scope::Access;
use crate::store::{Attr, LinkHit, NodeKind, NodePath, Store, StoreError, StorePath, StoreResult};
use crate::vfs::call::Call;
use crate::vfs::git_repository::{GitName, RepositoryVerdict};
use crate::workspace::{Barrier, Workspace};

/// How many symlinks one path may lead through.
const MAX_LINKS: usize = 40;

/// What can be handed in as a path: text, checked at the door, or a path that has been.
pub trait IntoPath {
    /// Checks it.
    fn into_path(self) -> Result<VfsPath, PathError>;
}

impl<T: TryInto<VfsPath, Error = PathError>> IntoPath for T {
    fn into_path(self) -> Result<VfsPath, PathError> {
        self.try_into()
    }
}

/// A path that may be used as asked: the scope has been judged.
#[derive(Debug, Clone)]
pub(super) struct ResolvedPath<'a> {
    pub(super) workspace: &'a Workspace,
    /// The path, as far as symlinks have been resolved.
    pub(super) path: VfsPath,
    /// The path as the caller may know it: where a symlink of a WRITE_ONLY Workspace leads is not told.
    pub(super) reported_path: VfsPath,
    pub(super) node_path: NodePath,
    /// Whether a symlink has led here that the caller may not read.
    pub(super) via_hidden_symlink: bool,
}

impl<'a> ResolvedPath<'a> {
    pub(super) fn store(&self) -> &'a dyn Store {
        &**self.workspace.mount().store()
    }

    /// The path below the Workspace's prefix.
    pub(super) fn relative_path(&self) -> &str {
        self.path.strip_prefix(self.workspace.prefix()).expect("a spot lies in its Workspace")
    }

    /// The path in the Store, where the Mount begins further in: globs have to see what leads there, too.
    pub(super) fn path_in_store(&self) -> Option<&str> {
        if self.workspace.mount().path().is_empty() { None } else { self.node_path.path.as_str() }
    }

    /// Whether this is the Workspace's own directory.
    pub(super) fn is_workspace(&self) -> bool {
        self.path == *self.workspace.prefix()
    }

    /// Whether the caller may look at what is here.
    pub(super) fn visibility(&self) -> Visibility {
        if self.via_hidden_symlink { Visibility::Hidden } else { Visibility::of(self.workspace.scope()) }
    }

    /// A Store's answer, about this path.
    pub(super) fn store_error(&self, cause: StoreError) -> Error {
        Error::Store { path: self.reported_path.clone(), visibility: self.visibility(), cause }
    }
}

/// Why a call at a spot went no further.
pub(super) enum ResolvedCallError {
    /// The Store said so.
    Store(StoreError),
    /// The door did.
    Vfs(Error),
}

impl ResolvedCallError {
    /// The error that a caller gets, for a stop at this spot.
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

/// Where a path leads.
pub(super) enum Resolution<'a> {
    /// Into a Workspace.
    Path(ResolvedPath<'a>),
    /// To a level that is there only because Workspaces lie below it.
    Synthetic,
}

impl<'v> Call<'v> {
    /// Routes a path and judges it. No Store is touched, but for the few names that git looks for in a repository.
    pub(super) fn route_and_authorize(&self, path: &VfsPath, access: Access) -> Result<Resolution<'v>> {
        let router = &self.shared().router;
        let Some(Route { workspace, relative_path: below }) = router.route(path) else {
            if router.is_synthetic(path) && router.workspaces().next().is_some() {
                // What lies below it is judged by itself, but a tool that asks asks here, too.
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
            via_hidden_symlink: false,
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
        // Last, so that nobody is asked about what may not be done anyway.
        if self.vfs.approval.needs_approval(path, access, Some(workspace)) {
            return Err(Error::ApprovalRequired {
                path: path.clone(),
                workspace: workspace.prefix().clone(),
            });
        }
        Ok(Resolution::Path(spot))
    }

    /// Refuses a change after which git would obey an agent.
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

    /// The Workspace's own place, where one above it is looked through and this one has been judged.
    pub(super) fn workspace_root(&self, workspace: &'v Workspace) -> ResolvedPath<'v> {
        let (path, place) = (workspace.prefix().clone(), workspace.mount().node_path(""));
        ResolvedPath {
            workspace,
            reported_path: path.clone(),
            path,
            node_path: place,
            via_hidden_symlink: false,
        }
    }

    /// Routes a path into a Workspace and judges it.
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

    /// Calls a Store where a path leads, following symlinks as it reports them.
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

    /// Like [`Call::at`], for calls that also mean something on the levels between Workspaces.
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

    /// Resolves every symlink of a path, the last component's included, without needing anything to be there.
    pub(super) fn resolve(&self, path: &VfsPath, access: Access) -> Result<(Option<Attr>, ResolvedPath<'v>)> {
        self.resolve_and_call(path, access, |spot| match spot.store().stat(&spot.node_path) {
            Ok(attr) if attr.kind == NodeKind::Symlink => Err(symlink_hit(spot)?),
            Ok(attr) => Ok(Some(attr)),
            Err(StoreError::NotFound) => Ok(None),
            Err(other) => Err(other),
        })
    }
}

/// The hit that a Store would report if it had to follow the symlink at this spot.
pub(super) fn symlink_hit(spot: &ResolvedPath<'_>) -> StoreResult<StoreError> {
    let target = spot.store().read_link(&spot.node_path)?;
    Ok(LinkHit::error_at(spot.node_path.path.depth(), target))
}

/// A path on its way through symlinks.
pub(super) struct SymlinkResolver {
    requested: VfsPath,
    pub(super) path: VfsPath,
    hops: usize,
    /// Whether it has led through a symlink that the caller may not read.
    via_hidden_symlink: bool,
}

impl SymlinkResolver {
    pub(super) fn new(path: &VfsPath) -> Self {
        SymlinkResolver { requested: path.clone(), path: path.clone(), hops: 0, via_hidden_symlink: false }
    }

    /// A refusal to go where a symlink leads says that, and not where it leads. Of a symlink that the caller may not read
    /// it does not even say that there is one.
    pub(super) fn mask_refusal<T>(&self, judged: Result<T>) -> Result<T> {
        match judged {
            Err(Error::ApprovalRequired { workspace, .. }) if self.via_hidden_symlink => {
                Err(Error::ApprovalRequired { path: self.requested.clone(), workspace })
            }
            Err(
                Error::OutsideWorkspaces { .. }
                | Error::ScopeDenied { .. }
                | Error::Protected { .. }
                | Error::BehindBarrier { .. }
                | Error::ContainsWorkspace { .. }
                | Error::IsWorkspace { .. }
                | Error::SyntheticDirectory { .. },
            ) if self.via_hidden_symlink => Err(self.hidden_error()),
            Err(Error::OutsideWorkspaces { .. }) if self.hops > 0 => Err(self.outside_error()),
            judged => judged,
        }
    }

    /// A spot that this has led to, as the caller may know it.
    pub(super) fn mask_path<'a>(&self, spot: ResolvedPath<'a>) -> ResolvedPath<'a> {
        match self.via_hidden_symlink {
            true => ResolvedPath { reported_path: self.requested.clone(), via_hidden_symlink: true, ..spot },
            false => spot,
        }
    }

    /// Something stands in the way where the caller may not look.
    fn hidden_error(&self) -> Error {
        Error::Store {
            path: self.requested.clone(),
            visibility: Visibility::Hidden,
            cause: StoreError::HostDenied,
        }
    }

    /// A Store's answer, about the path that was asked for: where a symlink on the way leads may be a path of the host.
    pub(super) fn store_error(&self, spot: &ResolvedPath<'_>, cause: StoreError) -> Error {
        let sight = if self.via_hidden_symlink { Visibility::Hidden } else { spot.visibility() };
        Error::Store { path: self.requested.clone(), visibility: sight, cause }
    }

    fn outside_error(&self) -> Error {
        if self.via_hidden_symlink {
            self.hidden_error()
        } else {
            Error::SymlinkOutside { path: self.requested.clone() }
        }
    }

    /// Goes on where the symlink leads that a Store met on the way to `spot`.
    pub(super) fn follow(&mut self, spot: &ResolvedPath<'_>, hit: &LinkHit) -> Result<()> {
        self.hops += 1;
        self.via_hidden_symlink |= !spot.workspace.scope().allows(Access::Read);
        if self.hops > MAX_LINKS && self.via_hidden_symlink {
            return Err(self.hidden_error());
        }
        if self.hops > MAX_LINKS {
            return Err(Error::TooManySymlinks { path: self.requested.clone() });
        }
        // A symlink in the Mount's own path is not the agent's to follow: it would leave the Mount.
        let mount = spot.workspace.mount().path().depth();
        let below =
            hit.depth.checked_sub(mount).filter(|&below| below > 0).ok_or_else(|| self.outside_error())?;
        let link = spot.path.ancestor(spot.workspace.prefix().depth() + below);
        let directory = link.parent().expect("a symlink has a name, so it is in a directory");
        let target = std::str::from_utf8(&hit.target).map_err(|_| self.outside_error())?;
        let resolved = directory.resolve_symlink_target(target).map_err(|_| self.outside_error())?;
        let rest = spot.path.strip_prefix(&link).expect("the symlink is on the way");
        self.path = resolved.join(rest).map_err(|_| self.outside_error())?;
        Ok(())
    }
}
