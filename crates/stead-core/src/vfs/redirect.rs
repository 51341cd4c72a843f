//! Redirects: where a path leads elsewhere, and the one loop that follows it.
//!
//! A redirect is a symlink, which a Store reports, or a rule of the stead ([`Redirects`]). Every path on the way is
//! routed and authorized like the requested one. The target of a redirect that the caller may not read is disclosed
//! neither by answers nor by errors.

use std::fmt;

use crate::error::{Error, Result, Visibility};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{LinkHit, Side, StoreError};
use crate::vfs::call::Call;
use crate::vfs::resolve::{ResolvedCallError, ResolvedPath};
use crate::workspace::Workspace;

/// How many redirects may be followed for one path, of all kinds together.
const MAX_REDIRECTS: usize = 40;

/// The rules of a stead by which paths lead elsewhere, besides symlinks.
///
/// They apply to the paths that a call is made with, wherever symlinks are followed too. They don't apply to what a
/// walk or a search finds below its path, to logs and undo, nor to the node API.
pub trait Redirects: fmt::Debug + Send + Sync {
    /// Where an access to `path` leads instead, or `None`. The path is in `workspace`, and the access to it is
    /// authorized. The target is routed, authorized and passed to this method, too.
    fn redirect(&self, path: &VfsPath, workspace: &Workspace, access: Access) -> Option<VfsPath>;
}

/// What leads a path elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectKind {
    /// A symlink in a Store.
    Symlink,
    /// A rule of the stead ([`Redirects`]).
    Rule,
}

impl fmt::Display for RedirectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RedirectKind::Symlink => "symlink",
            RedirectKind::Rule => "redirect",
        })
    }
}

/// What symlinks are for the calls through a `Vfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SymlinkRule {
    /// They are followed.
    #[default]
    Follow,
    /// They aren't followed: for a call that reads, nothing is at a path that is or goes through one, and a call that
    /// changes something there is refused. A symlink in the last component can still be removed, moved and copied.
    Refuse,
}

/// A path that leads elsewhere.
struct Redirect {
    kind: RedirectKind,
    from: VfsPath,
    /// Where it leads; `None` if no Workspace can contain the target.
    to: Option<VfsPath>,
    /// The Workspace of `from`, if the caller may not read there and so may not know of the redirect.
    hidden_in: Option<VfsPath>,
    /// Whether it is the routing of a managed Workspace. Its target follows from the name and the day, or is a file that the caller
    /// may read: it discloses nothing.
    is_routing: bool,
}

impl Redirect {
    fn new(kind: RedirectKind, from: &ResolvedPath<'_>, to: Option<VfsPath>) -> Self {
        let is_hidden = from.visibility() == Visibility::Hidden;
        let hidden_in = is_hidden.then(|| from.workspace.prefix().clone());
        Redirect { kind, from: from.path.clone(), to, hidden_in, is_routing: false }
    }

    /// The symlink that a Store reported on the way to `from`.
    fn symlink(from: &ResolvedPath<'_>, hit: &LinkHit) -> Self {
        let target = || {
            // A symlink in the Mount's own path is not followed: it would lead out of the Mount.
            let depth = hit.depth.checked_sub(from.workspace.mount().path().depth())?;
            let link = (depth > 0).then(|| from.path.ancestor(from.workspace.prefix().depth() + depth))?;
            let target = std::str::from_utf8(&hit.target).ok()?;
            let target = link.parent()?.resolve_symlink_target(target).ok()?;
            target.join(from.path.strip_prefix(&link)?).ok()
        };
        Redirect::new(RedirectKind::Symlink, from, target())
    }
}

/// The first redirect on the way that the caller may not know of. The caller is answered as if the path ended there.
#[derive(Debug, Clone)]
pub(super) struct HiddenRedirect {
    requested: VfsPath,
    /// The path that was resolved so far.
    pub(super) path: VfsPath,
    /// The Workspace it is in.
    pub(super) workspace: VfsPath,
}

impl HiddenRedirect {
    /// Turns a refusal at the target into one that discloses neither the target nor that there is a redirect.
    pub(super) fn mask(&self, error: Error) -> Error {
        match error {
            Error::ApprovalRequired { .. } => {
                Error::ApprovalRequired { path: self.path.clone(), workspace: self.workspace.clone() }
            }
            Error::OutsideWorkspaces { .. }
            | Error::RedirectOutside { .. }
            | Error::TooManySymlinks { .. }
            | Error::SymlinkRefused { .. }
            | Error::ScopeDenied { .. }
            | Error::FolderDenied { .. }
            | Error::AccessWithdrawn { .. }
            | Error::Protected { .. }
            | Error::HiddenName { .. }
            | Error::GitRepository { .. }
            | Error::BehindBarrier { .. }
            | Error::ContainsWorkspace { .. }
            | Error::ContainsExcluded { .. }
            | Error::IsWorkspace { .. }
            | Error::FixedRootMode { .. }
            | Error::SyntheticDirectory { .. } => Error::Store {
                path: self.requested.clone(),
                visibility: Visibility::Hidden,
                cause: StoreError::HostDenied,
            },
            error => error,
        }
    }
}

/// A path while its redirects are followed.
struct RedirectResolver {
    requested: VfsPath,
    path: VfsPath,
    /// How many redirects were followed.
    count: usize,
    last: Option<RedirectKind>,
    hidden: Option<HiddenRedirect>,
}

impl RedirectResolver {
    fn new(path: &VfsPath) -> Self {
        RedirectResolver { requested: path.clone(), path: path.clone(), count: 0, last: None, hidden: None }
    }

    fn follow(&mut self, redirect: Redirect) -> Result<()> {
        self.count += 1;
        self.last = Some(redirect.kind);
        if let (None, Some(workspace)) = (&self.hidden, redirect.hidden_in) {
            let (requested, path) = (self.requested.clone(), redirect.from);
            self.hidden = Some(HiddenRedirect { requested, path, workspace });
        }
        if self.count > MAX_REDIRECTS {
            return Err(self.mask(Error::TooManySymlinks { path: self.requested.clone() }));
        }
        self.path = redirect.to.ok_or_else(|| self.outside(redirect.kind))?;
        Ok(())
    }

    fn outside(&self, kind: RedirectKind) -> Error {
        self.mask(Error::RedirectOutside { path: self.requested.clone(), kind })
    }

    fn mask(&self, error: Error) -> Error {
        match &self.hidden {
            Some(hidden) => hidden.mask(error),
            None => error,
        }
    }

    /// A resolved path or a refusal, as the caller may know it.
    fn authorized<'a>(&self, result: Result<ResolvedPath<'a>>) -> Result<ResolvedPath<'a>> {
        match (result, self.last) {
            (Ok(resolved), _) => Ok(ResolvedPath { hidden: self.hidden.clone(), ..resolved }),
            // The target is not disclosed: it may be a path of the host.
            (Err(Error::OutsideWorkspaces { .. }), Some(kind)) => Err(self.outside(kind)),
            // Nor is it if it has a hidden name.
            (Err(Error::HiddenName { workspace, .. }), Some(_)) => {
                Err(self.mask(Error::HiddenName { path: self.requested.clone(), workspace }))
            }
            (Err(Error::Store { visibility, cause: cause @ StoreError::NotFound, .. }), Some(_)) => {
                Err(Error::Store { path: self.requested.clone(), visibility, cause })
            }
            (Err(error), _) => Err(self.mask(error)),
        }
    }
}

impl<'v> Call<'v> {
    /// Authorizes paths and calls Stores with them, again for every redirect on the way.
    ///
    /// `call` gets the authorized paths. If it returns [`StoreError::Link`], the symlink is followed; any other error
    /// ends the loop.
    pub(super) fn follow_redirects<T, const N: usize>(
        &self,
        requested: [&VfsPath; N],
        authorize: impl Fn([&VfsPath; N]) -> [Result<ResolvedPath<'v>>; N],
        mut call: impl FnMut(&[ResolvedPath<'v>; N]) -> Result<T, ResolvedCallError>,
    ) -> Result<(T, [ResolvedPath<'v>; N])> {
        let mut resolvers = requested.map(RedirectResolver::new);
        loop {
            let paths = resolvers.each_ref().map(|resolver| &resolver.path);
            if resolvers.iter().any(|resolver| resolver.count > 0) {
                self.set_resolved_paths(paths);
            }
            let results = resolvers.iter().zip(authorize(paths));
            let resolved = all_authorized(results.map(|(resolver, result)| resolver.authorized(result)))?;
            let mut by_rule = None;
            for (end, path) in resolved.iter().enumerate() {
                by_rule = self.rule(path)?.map(|redirect| (end, redirect));
                if by_rule.is_some() {
                    break;
                }
            }
            let (end, redirect) = match by_rule {
                Some((end, redirect)) => {
                    if redirect.is_routing && resolvers[end].count == 0 {
                        *self.routed_path.borrow_mut() = redirect.to.clone();
                    }
                    (end, redirect)
                }
                None => match call(&resolved) {
                    Ok(value) => return Ok((value, resolved)),
                    Err(ResolvedCallError::Store(StoreError::Link(hit))) => {
                        let end = if hit.side == Side::To { N - 1 } else { 0 };
                        if self.vfs.symlinks == SymlinkRule::Refuse {
                            return Err(symlink_refusal(&resolved[end], requested[end]));
                        }
                        let redirect = Redirect::symlink(&resolved[end], &hit);
                        if self.leaves_managed(&resolved[end], redirect.to.as_ref()) {
                            return Err(resolvers[end].outside(RedirectKind::Symlink));
                        }
                        (end, redirect)
                    }
                    Err(error) => return Err(error.into_error(&resolved[0])),
                },
            };
            resolvers[end].follow(redirect)?;
        }
    }

    /// Where a rule of the stead leads this path.
    fn rule(&self, path: &ResolvedPath<'_>) -> Result<Option<Redirect>> {
        if let Some(to) = self.managed_redirect(path)? {
            let redirect = Redirect::new(RedirectKind::Rule, path, Some(to));
            return Ok(Some(Redirect { hidden_in: None, is_routing: true, ..redirect }));
        }
        let rules = self.shared().redirects.as_ref();
        let to = rules.and_then(|rules| rules.redirect(&path.path, path.workspace, path.access));
        Ok(to.map(|to| Redirect::new(RedirectKind::Rule, path, Some(to))))
    }
}

/// The error for a path that is or goes through a symlink, where symlinks aren't followed.
fn symlink_refusal(resolved: &ResolvedPath<'_>, requested: &VfsPath) -> Error {
    let not_found = || Error::Store {
        path: requested.clone(),
        visibility: resolved.visibility(),
        cause: StoreError::NotFound,
    };
    match (resolved.access.is_change(), resolved.visibility()) {
        (true, Visibility::Visible) => Error::SymlinkRefused { path: requested.clone() },
        _ => not_found(),
    }
}

/// All of the paths, or the first refusal. A person is asked only if no path is refused.
fn all_authorized<'a, const N: usize>(
    results: impl Iterator<Item = Result<ResolvedPath<'a>>>,
) -> Result<[ResolvedPath<'a>; N]> {
    let (mut resolved, mut approval) = (Vec::with_capacity(N), None);
    for result in results {
        match result {
            Ok(path) => resolved.push(path),
            Err(error @ Error::ApprovalRequired { .. }) => approval = approval.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    approval.map_or_else(|| Ok(resolved.try_into().expect("one result for each path")), Err)
}
