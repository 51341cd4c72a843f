//! Moving, deleting and tagging managed files.

use crate::error::{Error, Result};
use crate::managed::{Category, ManifestEdit, TagMode, Tags, category_of};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{CompanionRecord, NodeKind, StoreError};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::managed::{ManagedFiles, OpenManifest};
use crate::vfs::resolve::ResolvedPath;
use crate::vfs::{CopyResult, IntoPath, Overwrite, RemoveOptions, RemoveResult, SymlinkRule, Vfs};

/// How often a change of tags is tried again because another caller has changed them meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// Where a managed file is moved to. What isn't given stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MoveTarget<'a> {
    /// The new category.
    pub category: Option<Category>,
    /// The new name.
    pub name: Option<&'a str>,
}

/// What a deletion did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeletedFile {
    /// The file and its row are gone.
    Deleted(RemoveResult),
    /// The file was gone already; its row is gone now, too.
    WasGone,
}

impl ManagedFiles {
    /// Moves a file into another category, or gives it another name. Its day, its row and its tags stay. Fails if something is
    /// at the new path.
    pub fn move_file(&self, path: impl IntoPath, target: MoveTarget<'_>) -> Result<CopyResult> {
        let from = path.into_path()?;
        self.check_tracked(&from)?;
        let relative_path = from.strip_prefix(&self.prefix).unwrap_or_default();
        let (first, rest) = relative_path.split_once('/').unwrap_or((relative_path, ""));
        let first = match target.category {
            Some(category) => category.as_str(),
            None => first,
        };
        let (directory, name) =
            rest.rsplit_once('/').map_or((None, rest), |(parent, name)| (Some(parent), name));
        let name = target.name.unwrap_or(name);
        if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
            return Err(Error::Invalid("`new_name` has to be a plain name, without `/`".to_owned()));
        }
        let directory = directory.map(|directory| format!("{directory}/")).unwrap_or_default();
        let to = self.prefix.join(&format!("{first}/{directory}{name}"))?;
        if to == from {
            return Err(Error::Invalid(format!("`{from}` is there already, so nothing was moved")));
        }
        // A directory has no row of its own, and its files have a row each.
        self.vfs.subcall("move", [Ok(from.clone())], |call, [from]| {
            let resolved = call.authorize(from, Access::Write)?;
            match resolved.store().stat(&resolved.node_path) {
                Ok(attr) if attr.kind == NodeKind::Directory => {
                    Err(resolved.store_error(StoreError::IsADirectory))
                }
                // Another error is that of the move itself.
                _ => Ok(()),
            }
        })?;
        self.vfs_without_symlinks().rename(&from, &to, Overwrite::Refuse)
    }

    /// The `Vfs` for a change of a managed file. A path is checked as it is written, so a symlink on it isn't followed: it could
    /// lead to a file that isn't managed.
    fn vfs_without_symlinks(&self) -> Vfs {
        self.vfs.with_symlinks(SymlinkRule::Refuse)
    }

    /// Deletes a file and its row. If the file is gone already, only the row is deleted.
    pub fn delete(&self, path: impl IntoPath) -> Result<DeletedFile> {
        let path = path.into_path()?;
        self.check_tracked(&path)?;
        match self.vfs_without_symlinks().remove_file(&path, RemoveOptions::default()) {
            Err(Error::Store { cause: StoreError::NotFound, visibility, path: missing }) => {
                let forgotten = self.vfs.call("managed_delete", [Ok(path)], |call, [path]| {
                    let resolved = call.authorize(path, Access::Write)?;
                    let (root, path) = (resolved.root().clone(), resolved.relative_path().to_owned());
                    call.edit_manifest(&resolved, ManifestEdit::Forget { root, path })
                        .map_err(|cause| resolved.store_error(cause))
                });
                match forgotten {
                    Ok(()) => Ok(DeletedFile::WasGone),
                    Err(_) => Err(Error::Store { cause: StoreError::NotFound, visibility, path: missing }),
                }
            }
            removed => removed.map(DeletedFile::Deleted),
        }
    }

    /// Adds tags to a file, removes them, or replaces those that it has. Returns the tags that it has then.
    pub fn tag(&self, path: impl IntoPath, mode: TagMode, tags: &Tags) -> Result<Tags> {
        self.vfs.call("managed_tag", [path.into_path()], |call, [path]| {
            self.check_tracked(path)?;
            let resolved = call.authorize(path, Access::Write)?;
            let failed = |cause| resolved.store_error(cause);
            let manifest = self.open_manifest(call, Access::Read)?;
            let OpenManifest { manifest, .. } = manifest.ok_or_else(|| failed(StoreError::NotFound))?;
            for _ in 0..MAX_ATTEMPTS {
                let before = self.row_of(call, &resolved, &*manifest)?.tags;
                let invalid = |error| Error::Invalid(format!("{error}"));
                let after = before.changed(mode, tags).map_err(invalid)?;
                if after == before {
                    return Ok(after);
                }
                let (root, path) = (resolved.root().clone(), resolved.relative_path().to_owned());
                let edit = ManifestEdit::SetTags { root, path, before, after: after.clone() };
                match call.edit_manifest(&resolved, edit) {
                    Err(StoreError::Conflict) => {}
                    result => return result.map(|()| after).map_err(failed),
                }
            }
            Err(failed(StoreError::Conflict))
        })
    }

    /// Refuses a path that isn't inside the directory of a category of this Workspace.
    pub(super) fn check_tracked(&self, path: &VfsPath) -> Result<()> {
        self.check_own(path)?;
        if path.strip_prefix(&self.prefix).and_then(category_of).is_some() {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "`{path}` isn't a managed file: those are in the directories {} of `{}`",
            Category::NAMES.join(", "),
            self.prefix
        )))
    }
}

impl Call<'_> {
    /// Changes a row alone, as a change without steps. It makes a revision, so that earlier versions still show the row as it was.
    fn edit_manifest(&self, resolved: &ResolvedPath<'_>, edit: ManifestEdit) -> Result<(), StoreError> {
        self.apply_with(resolved.store(), Vec::new(), ChangeStage::Final, |change| {
            change.quotas.clear();
            change.blind_at = Some(resolved.node_path.path.clone());
            change.records.push(CompanionRecord::Manifest(Box::new(edit)));
        })?;
        Ok(())
    }
}
