//! Managed Workspaces: routing, and the calls about their files ([`ManagedFiles`]).
//!
//! The rules are in [`crate::managed`]. Routing is a redirect: a bare name that is written directly below a managed prefix leads
//! to a path in the directory of a category, which is authorized like any other. The rows of the manifest are written by the
//! Store, with every change of any caller; these calls only read them, except for tags.

mod change;
mod cleanup;
mod list;
mod routing;
mod sync;
#[cfg(test)]
mod tests;
mod tree;

pub use change::{DeletedFile, MoveTarget};
pub use cleanup::{CleanupOptions, CleanupReport, CleanupTool};
pub use list::{FilePage, FileTotal, ListedFile, ListedFiles};
pub use routing::routed_parts;
pub(super) use routing::{FileUse, ManagedRoots};
pub use sync::{ChangedFiles, SyncReport};
pub use tree::{CategoryTree, DateDirectory};

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::managed::{ManagedFile, Manifest, ManifestRepair};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Attr, NodeKind, Store, StoreError, StoreKind, StorePath, StoreResult};
use crate::vfs::call::Call;
use crate::vfs::list::Unreadable;
use crate::vfs::resolve::ResolvedPath;
use crate::vfs::{IntoPath, Vfs};
use crate::workspace::Workspace;

/// The files of one managed Workspace.
#[derive(Debug, Clone)]
pub struct ManagedFiles {
    vfs: Vfs,
    prefix: VfsPath,
}

/// An open manifest.
struct OpenManifest<'v> {
    /// The prefix of the Workspace.
    root: ResolvedPath<'v>,
    manifest: Arc<dyn Manifest>,
    /// What the sync that completed it could not read.
    unreadable: Vec<Unreadable>,
}

impl Vfs {
    /// The managed Workspaces that the caller may read, sorted by prefix.
    pub fn managed_workspaces(&self) -> impl Iterator<Item = &Workspace> {
        let managed = self.shared.router.managed().map(|workspace| &**workspace);
        managed.filter(|workspace| self.shared.is_still_readable(workspace))
    }

    /// The files of a managed Workspace. `path` is its prefix or a path in it; it may be left out if there is only one.
    pub fn managed(&self, path: Option<&str>) -> Result<ManagedFiles> {
        let prefix = match path {
            Some(path) => {
                let path = path.into_path()?;
                let route = self.shared.router.route(&path);
                let managed = route.filter(|route| route.workspace.managed().is_some());
                let managed = managed.filter(|route| self.shared.is_still_readable(route.workspace));
                managed
                    .map(|route| route.workspace.prefix().clone())
                    .ok_or_else(|| self.not_managed(Some(&path)))?
            }
            None => {
                let mut managed = self.managed_workspaces();
                match (managed.next(), managed.next()) {
                    (Some(only), None) => only.prefix().clone(),
                    (None, _) => return Err(self.not_managed(None)),
                    (Some(_), Some(_)) => {
                        return Err(Error::Invalid(format!(
                            "there are several managed Workspaces; say which `workspace` you mean: {}",
                            self.managed_names()
                        )));
                    }
                }
            }
        };
        Ok(ManagedFiles { vfs: self.clone(), prefix })
    }

    fn managed_names(&self) -> String {
        let names: Vec<_> =
            self.managed_workspaces().map(|workspace| format!("`{}`", workspace.prefix())).collect();
        names.join(", ")
    }

    fn not_managed(&self, path: Option<&VfsPath>) -> Error {
        let names = self.managed_names();
        Error::Invalid(match (path, names.is_empty()) {
            (_, true) => "you have no managed Workspace that you may read".to_owned(),
            (Some(path), false) => format!("`{path}` isn't in a managed Workspace; there are {names}"),
            (None, false) => unreachable!("one of them would have been chosen"),
        })
    }
}

impl ManagedFiles {
    /// The prefix of the Workspace.
    pub fn prefix(&self) -> &VfsPath {
        &self.prefix
    }

    /// The Workspace.
    pub fn workspace(&self) -> &Workspace {
        let route = self.vfs.shared.router.route(&self.prefix);
        route.expect("the Workspace was found when this was made").workspace
    }

    /// The path of a file, from its path in the manifest.
    fn path_of(&self, relative_path: &str) -> Option<VfsPath> {
        self.prefix.join(relative_path).ok()
    }

    /// Authorizes the prefix, and opens the manifest. A manifest that sync has to complete first is completed. In a fork that shows
    /// later changes of its base this is always so: those are no changes of the fork, so nothing else tells its manifest of them.
    ///
    /// `None` if the Store keeps no manifest: then there are no managed files.
    fn open_manifest<'v>(&self, call: &Call<'v>, access: Access) -> Result<Option<OpenManifest<'v>>> {
        let resolved = call.authorize(&self.prefix, access)?;
        let failed = |cause| resolved.store_error(cause);
        let Some(manifest) = resolved.store().manifest().map_err(failed)? else { return Ok(None) };
        let is_incomplete = manifest.manage(resolved.root()).map_err(failed)?;
        let mut unreadable = Vec::new();
        if is_incomplete || shows_host_directory(resolved.store()) {
            unreadable = self.sync_rows(call, &resolved, &*manifest)?.unreadable;
        }
        Ok(Some(OpenManifest { root: resolved, manifest, unreadable }))
    }

    /// Syncs the manifest. What the caller may not know of isn't reported.
    fn sync_rows(
        &self,
        call: &Call<'_>,
        root: &ResolvedPath<'_>,
        manifest: &dyn Manifest,
    ) -> Result<SyncReport> {
        call.sync_manifest(root, manifest, &|path| self.is_visible(path))
    }

    /// The row of a file that the caller may read. A file that another program has made since the last sync gets one.
    fn row_of(
        &self,
        call: &Call<'_>,
        resolved: &ResolvedPath<'_>,
        manifest: &dyn Manifest,
    ) -> Result<ManagedFile> {
        let failed = |cause| resolved.store_error(cause);
        let (root, path) = (resolved.root(), resolved.relative_path());
        let row = || manifest.file(root, path).map_err(failed);
        if let Some(row) = row()? {
            return Ok(row);
        }
        let attr = resolved.store().stat(&resolved.node_path).map_err(failed)?;
        if attr.kind != NodeKind::File {
            return Err(failed(StoreError::NotFound));
        }
        if !manifest.is_past() {
            let repair = ManifestRepair::Add { path: path.to_owned(), size: attr.size };
            manifest.repair(root, vec![repair], call.shared().clock.now(), false).map_err(failed)?;
        }
        row()?.ok_or_else(|| {
            Error::Invalid(format!(
                "`{}` is a file, but the Workspace `{}` has no entry for it",
                resolved.path, self.prefix
            ))
        })
    }

    /// Whether the caller may know of a file: its name isn't hidden, and no other Workspace is at its path.
    fn is_visible(&self, relative_path: &str) -> bool {
        let workspace = self.workspace();
        let Some(path) = self.path_of(relative_path) else { return false };
        !workspace.hide().hides(relative_path)
            && self
                .vfs
                .shared
                .router
                .route(&path)
                .is_some_and(|route| route.workspace.prefix() == &self.prefix)
    }
}

/// Whether there is certainly no file where one was looked for. Of what the host doesn't let Stead look at, nothing is known.
fn is_no_file(found: &StoreResult<Attr>) -> bool {
    match found {
        Ok(attr) => attr.kind != NodeKind::File,
        Err(cause) => {
            matches!(cause, StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_))
        }
    }
}

/// Whether other programs may change the files of a Store: a host directory, and a fork that shows one as it is.
fn has_other_programs(store: &dyn Store) -> bool {
    store.info().kind == StoreKind::Physical || shows_host_directory(store)
}

/// Whether a Store is a fork that shows a host directory as it is.
fn shows_host_directory(store: &dyn Store) -> bool {
    store.info().kind != StoreKind::Physical && store.forks().is_some_and(|forks| forks.shows_later_changes())
}

impl ResolvedPath<'_> {
    /// The managed directory: the root of the Workspace's Mount.
    fn root(&self) -> &StorePath {
        self.workspace.mount().path()
    }
}
