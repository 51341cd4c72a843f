//! Where a path in a managed Workspace leads.

use crate::error::{Error, Result, Visibility};
use crate::managed::{Category, Place, category_of, is_routable, routed_path};
use crate::path::VfsPath;
use crate::router::Router;
use crate::store::{CompanionRecord, NodeKind, Precondition, Store, StoreError, StoreId, StorePath};
use crate::vfs::WriteOptions;
use crate::vfs::call::Call;
use crate::vfs::resolve::ResolvedPath;

/// What a call does with the file that its path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vfs) enum FileUse {
    /// Something that isn't about one file's content, such as making a directory. Such a path is never routed.
    Other,
    /// Uses a file that exists.
    Find,
    /// Changes a file that exists, or else makes one.
    FindOrPut(Option<Category>),
    /// Writes a whole file.
    Put(Option<Category>),
}

impl FileUse {
    /// The use of a call that appends with these options.
    pub(in crate::vfs) fn add_to(options: &WriteOptions) -> FileUse {
        FileUse::FindOrPut(options.category)
    }
}

/// The managed directories of a `Vfs`, by their Stores.
#[derive(Debug, Default)]
pub(in crate::vfs) struct ManagedRoots(Vec<(StoreId, Vec<StorePath>)>);

impl ManagedRoots {
    pub(in crate::vfs) fn of(router: &Router) -> Self {
        let mut roots: Vec<(StoreId, Vec<StorePath>)> = Vec::new();
        for workspace in router.managed() {
            let (store, path) = (workspace.mount().store().id(), workspace.mount().path().clone());
            match roots.iter_mut().find(|(known, _)| *known == store) {
                Some((_, paths)) => paths.push(path),
                None => roots.push((store, vec![path])),
            }
        }
        ManagedRoots(roots)
    }

    /// The companion record by which a Store knows its managed directories; `None` if it has none.
    pub(in crate::vfs) fn record_for(&self, store: &dyn Store) -> Option<CompanionRecord> {
        if self.0.is_empty() {
            return None;
        }
        let id = store.id();
        let (_, paths) = self.0.iter().find(|(known, _)| *known == id)?;
        Some(CompanionRecord::Managed(paths.clone()))
    }
}

/// How many components of a path in a managed Workspace are the directories that routing makes: the category's, and the day's
/// if there is one. Limits of depth count below them.
pub fn routed_parts(relative_path: &str) -> usize {
    let mut parts = relative_path.split('/');
    let is_category = parts.next().is_some_and(|first| first.parse::<Category>().is_ok());
    match (is_category, parts.next()) {
        (false, _) | (true, None) => 0,
        (true, Some(second)) => 1 + usize::from(is_day(second)),
    }
}

/// Whether a name is that of a day's directory.
pub(super) fn is_day(name: &str) -> bool {
    name.len() == 10 && name.parse::<crate::clock::Timestamp>().is_ok()
}

/// The refusal of a category for a path that isn't routed.
fn no_category(path: &VfsPath) -> Error {
    Error::Invalid(format!(
        "`category` is for a new name directly below a managed Workspace, which `{path}` isn't; leave it out"
    ))
}

impl ResolvedPath<'_> {
    /// The category of the path, if a managed Workspace tracks files there.
    pub(in crate::vfs) fn managed_category(&self) -> Option<Category> {
        self.workspace.managed()?;
        category_of(self.relative_path())
    }
}

impl Call<'_> {
    /// Starts to write a whole file: says how its path is routed, and refuses a category where none can be chosen.
    pub(in crate::vfs) fn begin_put(&self, path: &VfsPath, options: &WriteOptions) -> Result<()> {
        let route = self.shared().router.route(path);
        let is_bare = route
            .is_some_and(|route| route.workspace.managed().is_some() && is_routable(route.relative_path));
        if options.category.is_some() && !is_bare {
            return Err(no_category(path));
        }
        self.file_use.set(match options.expect {
            // The caller has read the file that it means.
            Precondition::Tag(_) | Precondition::ShortTag(_) => FileUse::FindOrPut(options.category),
            _ => FileUse::Put(options.category),
        });
        Ok(())
    }

    /// Where a path directly below a managed Workspace leads; `None` if it stays as it is.
    ///
    /// Where the caller may not read, the answer depends on the name and the day alone.
    pub(in crate::vfs) fn managed_redirect(&self, path: &ResolvedPath<'_>) -> Result<Option<VfsPath>> {
        let file_use = self.file_use.get();
        if file_use == FileUse::Other || path.workspace.managed().is_none() {
            return Ok(None);
        }
        // What a compound operation copies keeps its paths. Only the path that it is made with may be a bare name.
        if let Some(compound) = &self.vfs.compound
            && !(file_use == FileUse::Find && compound.is_at(&path.path))
        {
            return Ok(None);
        }
        let name = path.relative_path();
        if Place::of(name) != Place::Root || !is_routable(name) {
            return Ok(None);
        }
        let is_visible = path.visibility() == Visibility::Visible;
        if is_visible && !matches!(path.store().stat(&path.node_path), Err(StoreError::NotFound)) {
            return match file_use {
                FileUse::Put(Some(_)) | FileUse::FindOrPut(Some(_)) => Err(no_category(&path.path)),
                _ => Ok(None),
            };
        }
        let existing = || if is_visible { self.existing_file(path, name) } else { Ok(None) };
        let routed =
            |hint| path.workspace.prefix().join(&routed_path(name, hint, self.shared().clock.now())).ok();
        Ok(match file_use {
            FileUse::Other => None,
            FileUse::Find => existing()?,
            FileUse::FindOrPut(hint) => existing()?.or_else(|| routed(hint)),
            FileUse::Put(hint) => routed(hint),
        })
    }

    /// The newest file that was first written with this name, and that the caller may see.
    ///
    /// A manifest that sync has to complete first is completed: that of a new fork has no rows yet.
    fn existing_file(&self, path: &ResolvedPath<'_>, name: &str) -> Result<Option<VfsPath>> {
        let Ok(Some(manifest)) = path.store().manifest() else { return Ok(None) };
        let failed = |cause| path.store_error(cause);
        if manifest.manage(path.root()).map_err(failed)? {
            self.sync_manifest(path, &*manifest, &|_| true)?;
        }
        let workspace = path.workspace;
        let named = manifest.named(path.root(), name).map_err(failed)?;
        Ok(named.into_iter().find_map(|file| {
            let found = workspace.prefix().join(&file.path).ok()?;
            let is_own = self.shared().router.route(&found)?.workspace.prefix() == workspace.prefix();
            let at = workspace.mount().node_path(&file.path);
            let is_file = || path.store().stat(&at).is_ok_and(|attr| attr.kind == NodeKind::File);
            (is_own && !workspace.hide().hides(&file.path) && is_file()).then_some(found)
        }))
    }

    /// Whether a symlink in the directory of a category leads out of its Workspace. Such a symlink isn't followed: cleanup, sync
    /// and the manifest are about the files of one Workspace.
    pub(in crate::vfs) fn leaves_managed(&self, from: &ResolvedPath<'_>, to: Option<&VfsPath>) -> bool {
        let prefix = from.workspace.prefix();
        let stays = |to: &VfsPath| {
            self.shared().router.route(to).is_some_and(|route| route.workspace.prefix() == prefix)
        };
        from.managed_category().is_some() && !to.is_some_and(stays)
    }

    /// Notes in the manifest that a file was read.
    pub(in crate::vfs) fn touch(&self, path: &ResolvedPath<'_>) {
        if path.managed_category().is_some()
            && let Ok(Some(manifest)) = path.store().manifest()
        {
            manifest.touch(path.workspace.mount().path(), path.relative_path(), self.shared().clock.now());
        }
    }
}
