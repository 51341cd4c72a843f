//! Listing and searching managed files, and what is known about one of them.

use std::ops::ControlFlow;

use crate::error::{Error, Result};
use crate::managed::{Category, CleanupRun, FileFilter, ManagedFile, Manifest};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{NodeKind, StoreError};
use crate::vfs::IntoPath;
use crate::vfs::call::Call;
use crate::vfs::list::Unreadable;
use crate::vfs::managed::{ManagedFiles, OpenManifest, has_other_programs, is_no_file};
use crate::vfs::resolve::ResolvedPath;
use crate::workspace::Workspace;

/// Up to which number managed files are counted.
const MAX_COUNTED: u64 = 10_000;

/// Which part of a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePage {
    /// How many files come before it.
    pub offset: u64,
    /// The most files of a page.
    pub limit: u64,
}

impl Default for FilePage {
    fn default() -> Self {
        FilePage { offset: 0, limit: 50 }
    }
}

impl FilePage {
    /// The most files of a page.
    pub const MAX_LIMIT: u64 = 200;
}

/// How many files there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTotal {
    /// How many were counted.
    pub count: u64,
    /// Whether there are more.
    pub is_more: bool,
}

/// A managed file with its path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedFile {
    /// The path.
    pub path: VfsPath,
    /// What the manifest says about it.
    pub file: ManagedFile,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedFiles {
    /// The files of this page, those that were written last first.
    pub files: Vec<ListedFile>,
    /// How many come before it.
    pub offset: u64,
    /// How many there are in all.
    pub total: FileTotal,
    /// What could not be read, if the list needed a sync. Files that have no row yet may be there.
    pub unreadable: Vec<Unreadable>,
}

impl ListedFiles {
    /// A page without files.
    fn none(page: FilePage) -> Self {
        let total = FileTotal { count: 0, is_more: false };
        ListedFiles { files: Vec::new(), offset: page.offset, total, unreadable: Vec::new() }
    }
}

impl ManagedFiles {
    /// A page of the files that pass a filter, those that were written last first.
    pub fn list(&self, filter: &FileFilter, page: FilePage) -> Result<ListedFiles> {
        self.vfs.call("managed_list", [Ok(self.prefix.clone())], |call, _| {
            let Some(opened) = self.open_manifest(call, Access::Read)? else {
                return Ok(ListedFiles::none(page));
            };
            let OpenManifest { root: resolved, manifest, mut unreadable } = opened;
            let may_differ = has_other_programs(resolved.store()) && !manifest.is_past();
            // The directories of threads aren't watched.
            if may_differ && resolved.workspace.is_of_thread() {
                unreadable = self.sync_rows(call, &resolved, &*manifest)?.unreadable;
            }
            let mut listed = self.list_rows(call, &resolved, &*manifest, (filter, page))?;
            // Another program may have removed a file since the last sync.
            let may_be_file = |listed: &ListedFile| {
                let at = resolved.workspace.mount().node_path(&listed.file.path);
                !is_no_file(&resolved.store().stat(&at))
            };
            if has_other_programs(resolved.store()) && !listed.files.iter().all(may_be_file) {
                // Left out of this page alone, it would still be counted, and move the files of every other page.
                if may_differ {
                    unreadable = self.sync_rows(call, &resolved, &*manifest)?.unreadable;
                }
                listed = self.list_rows(call, &resolved, &*manifest, (filter, page))?;
                let before = listed.files.len();
                listed.files.retain(may_be_file);
                listed.total.count -= (before - listed.files.len()) as u64;
            }
            Ok(ListedFiles { unreadable, ..listed })
        })
    }

    /// A page of the rows that pass a filter.
    fn list_rows(
        &self,
        call: &Call<'_>,
        resolved: &ResolvedPath<'_>,
        manifest: &dyn Manifest,
        (filter, page): (&FileFilter, FilePage),
    ) -> Result<ListedFiles> {
        let mut listed = ListedFiles::none(page);
        let end = page.offset.saturating_add(page.limit);
        let counted_to = end.max(MAX_COUNTED);
        let mut stopped = None;
        let scanned = manifest.scan(resolved.root(), filter, &mut |row| {
            let mut visit = || -> Result<ControlFlow<()>> {
                call.check_not_stopped()?;
                let failed = |cause| resolved.store_error(cause);
                let relative_path = row.path().map_err(failed)?;
                if !self.is_visible(relative_path) {
                    return Ok(ControlFlow::Continue(()));
                }
                if let Some(search) = filter.search.as_ref().filter(|search| !search.finds(relative_path)) {
                    let file = row.file().map_err(failed)?;
                    let has_name = file.original_name.is_some();
                    let file = self.visible_part(file);
                    let is_hidden = has_name && file.original_name.is_none();
                    // It must not be found by a name that the caller may not know of.
                    if is_hidden && !file.tags.iter().any(|tag| search.finds(tag)) {
                        return Ok(ControlFlow::Continue(()));
                    }
                }
                if listed.total.count == counted_to {
                    listed.total.is_more = true;
                    return Ok(ControlFlow::Break(()));
                }
                if (page.offset..end).contains(&listed.total.count)
                    && let Some(path) = self.path_of(relative_path)
                {
                    let file = self.visible_part(row.file().map_err(failed)?);
                    listed.files.push(ListedFile { path, file });
                }
                listed.total.count += 1;
                Ok(ControlFlow::Continue(()))
            };
            visit().unwrap_or_else(|error| {
                stopped = Some(error);
                ControlFlow::Break(())
            })
        });
        if let Some(error) = stopped {
            return Err(error);
        }
        scanned.map_err(|cause| resolved.store_error(cause))?;
        Ok(listed)
    }

    /// What the manifest says about a file. Fails with `NotFound` if it has no row, or the file is gone.
    pub fn info(&self, path: impl IntoPath) -> Result<ListedFile> {
        self.vfs.call("managed_info", [path.into_path()], |call, [path]| {
            let resolved = call.authorize(path, Access::Read)?;
            if let Err(error) = self.check_tracked(path) {
                self.check_own(path)?;
                return Err(match resolved.store().stat(&resolved.node_path) {
                    Ok(attr) if attr.kind == NodeKind::File => error,
                    Ok(_) => resolved.store_error(StoreError::NotFound),
                    Err(cause) => resolved.store_error(cause),
                });
            }
            let not_found = || resolved.store_error(StoreError::NotFound);
            let OpenManifest { manifest, .. } =
                self.open_manifest(call, Access::Read)?.ok_or_else(not_found)?;
            let failed = |cause| resolved.store_error(cause);
            let file = self.row_of(call, &resolved, &*manifest)?;
            match resolved.store().stat(&resolved.node_path) {
                Ok(attr) if attr.kind == NodeKind::File => {
                    Ok(ListedFile { path: path.clone(), file: self.visible_part(file) })
                }
                Ok(_) => Err(not_found()),
                Err(cause) => Err(failed(cause)),
            }
        })
    }

    /// A row as the caller may know of it: without a first name that is hidden from it.
    fn visible_part(&self, mut file: ManagedFile) -> ManagedFile {
        let hide = self.workspace().hide();
        let directory = file.path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let is_hidden = |name: &String| hide.hides(name) || hide.hides(&format!("{directory}/{name}"));
        file.original_name = file.original_name.filter(|name| !is_hidden(name));
        file
    }

    /// How the last cleanup of this Workspace went, as far as the caller may know of its files; `None` if there was none.
    pub fn last_cleanup(&self) -> Result<Option<CleanupRun>> {
        self.vfs.call("managed_status", [Ok(self.prefix.clone())], |call, _| {
            let Some(OpenManifest { root, manifest, .. }) = self.open_manifest(call, Access::Read)? else {
                return Ok(None);
            };
            let run = manifest.last_cleanup(root.root()).map_err(|cause| root.store_error(cause))?;
            // Another Workspace of the caller may stand in front of the directory of a category, or of a part of it.
            let is_in_front = |nested: &Workspace| {
                nested.prefix().strip_prefix(&self.prefix).is_some_and(|path| {
                    path.split('/').next().is_some_and(|first| first.parse::<Category>().is_ok())
                })
            };
            let sees_all = !call.shared().router.nested(&self.prefix).any(is_in_front);
            Ok(run.map(|run| run.visible_part(&|path| self.is_visible(path), sees_all)))
        })
    }

    /// Refuses a path of another Workspace.
    pub(super) fn check_own(&self, path: &VfsPath) -> Result<()> {
        let route = self.vfs.shared.router.route(path);
        match route.is_some_and(|route| route.workspace.prefix() == &self.prefix) {
            true => Ok(()),
            false => {
                Err(Error::Invalid(format!("`{path}` isn't in the managed Workspace `{}`", self.prefix)))
            }
        }
    }
}
