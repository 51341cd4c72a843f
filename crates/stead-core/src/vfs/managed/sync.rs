//! Sync: makes a manifest agree with the files that are there.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::error::Result;
use crate::managed::{
    Category, FoundFile, Manifest, ManifestRepair, ManifestRow, RepairCounts, category_of, reconcile,
};
use crate::scope::Access;
use crate::search::WalkOptions;
use crate::store::{Attr, NodeKind, Store, StoreError};
use crate::vfs::call::Call;
use crate::vfs::list::Unreadable;
use crate::vfs::managed::{ManagedFiles, has_other_programs, is_no_file};
use crate::vfs::resolve::ResolvedPath;

/// How many repairs are made in one transaction.
const REPAIRS_AT_ONCE: usize = 4_096;

/// What other programs may have changed in a managed directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedFiles {
    /// What is at these paths, relative to the directory.
    Paths(BTreeSet<String>),
    /// Anything.
    Any,
}

/// What a sync did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SyncReport {
    /// How many rows it has changed, of files that the caller may know of.
    pub counts: RepairCounts,
    /// What it could not read, as far as the caller may know of it. The rows of files there stay as they are.
    pub unreadable: Vec<Unreadable>,
}

/// The files that a walk of all categories found, and what it could not read.
#[derive(Debug, Default)]
struct WalkedFiles {
    files: Vec<FoundFile>,
    /// By the path in the Workspace, with the reason.
    unreadable: Vec<(String, StoreError)>,
}

impl ManagedFiles {
    /// Makes the manifest agree with the files: adds rows of files that have none, removes rows whose files are gone, and
    /// corrects those of files that another program has written since. What it finds counts as written now. What the host doesn't
    /// let Stead read is reported, and the rest is synced.
    pub fn sync(&self) -> Result<SyncReport> {
        self.vfs.call("managed_sync", [Ok(self.prefix.clone())], |call, _| {
            let resolved = call.authorize(&self.prefix, Access::Read)?;
            let failed = |cause| resolved.store_error(cause);
            let Some(manifest) = resolved.store().manifest().map_err(failed)? else {
                return Ok(SyncReport::default());
            };
            manifest.manage(resolved.root()).map_err(failed)?;
            call.sync_manifest(&resolved, &*manifest, &|path| self.is_visible(path))
        })
    }

    /// The same for what other programs have changed. It has no audit record: a watcher calls it often, and mostly it finds that a
    /// change of Stead itself is registered already.
    ///
    /// If one of the changed paths is a directory, or was one, everything is synced.
    pub fn sync_changed(&self, changed: &ChangedFiles) -> Result<RepairCounts> {
        self.vfs.unaudited_call("managed_sync", [Ok(self.prefix.clone())], |call, _| {
            let resolved = call.authorize(&self.prefix, Access::Read)?;
            let failed = |cause| resolved.store_error(cause);
            let Some(manifest) = resolved.store().manifest().map_err(failed)? else {
                return Ok(RepairCounts::default());
            };
            let now = call.shared().clock.now();
            let mut needs_all = manifest.manage(resolved.root()).map_err(failed)?;
            let mut repairs = Vec::new();
            let paths = match changed {
                ChangedFiles::Paths(paths) => paths,
                ChangedFiles::Any => return Ok(call.sync_manifest(&resolved, &*manifest, &|_| true)?.counts),
            };
            for path in paths.iter().filter(|path| category_of(path).is_some()) {
                // The row is read before the file, as in a sync of everything.
                let row = manifest.file(resolved.root(), path).map_err(failed)?.map(ManifestRow::from);
                let at = resolved.workspace.mount().node_path(path);
                match (resolved.store().stat(&at), row) {
                    (Ok(attr), row) if attr.kind == NodeKind::File => {
                        let file = found_file(resolved.store(), path.clone(), &attr);
                        repairs.extend(reconcile(row, [file], now).repairs);
                    }
                    (Ok(attr), None) if attr.kind == NodeKind::Directory => needs_all = true,
                    (found, Some(row)) if is_no_file(&found) => repairs.push(ManifestRepair::Remove { row }),
                    // The host doesn't let Stead look at it.
                    (_, Some(_)) => {}
                    (Err(_), None) => {
                        let below = manifest.has_rows_below(resolved.root(), path).map_err(failed)?;
                        needs_all |= below;
                    }
                    (Ok(_), None) => {}
                }
            }
            if needs_all {
                return Ok(call.sync_manifest(&resolved, &*manifest, &|_| true)?.counts);
            }
            if repairs.is_empty() {
                return Ok(RepairCounts::default());
            }
            manifest.repair(resolved.root(), repairs, now, false).map_err(failed)
        })
    }
}

/// A file as a comparison with its row needs it.
pub(super) fn found_file(store: &dyn Store, path: String, attr: &Attr) -> FoundFile {
    FoundFile { path, size: attr.size, modified: has_other_programs(store).then_some(attr.modified) }
}

impl Call<'_> {
    /// Syncs the manifest of the Workspace that a path is in. All files are synced, and those that are visible are counted.
    pub(super) fn sync_manifest(
        &self,
        root: &ResolvedPath<'_>,
        manifest: &dyn Manifest,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> Result<SyncReport> {
        let failed = |cause| root.store_error(cause);
        // The rows are read before the files: a file that is written meanwhile is found as well, and its row is left alone.
        let rows = manifest.rows(root.root()).map_err(failed)?;
        let WalkedFiles { files, unreadable } = self.managed_files_on_store(root)?;
        // Read after the files: nothing that was found was written later.
        let now = self.shared().clock.now();
        let mut repairs = reconcile(rows, files, now).repairs;
        repairs.retain(|repair| match repair {
            ManifestRepair::Remove { row } => {
                // The file may have been made after its directory was read, or be in a directory that can't be read.
                is_no_file(&root.store().stat(&root.workspace.mount().node_path(&row.path)))
            }
            ManifestRepair::Add { .. } | ManifestRepair::Resize { .. } => true,
        });
        // A row that a fork loses may come back at another path, so the rows that have no file come first.
        repairs.sort_by_key(|repair| !matches!(repair, ManifestRepair::Remove { .. }));
        let (visible, hidden): (Vec<_>, Vec<_>) =
            repairs.into_iter().partition(|repair| is_visible(repair.path()));
        let hidden = batches(hidden).map(|batch| (batch, false));
        let mut batches = hidden.chain(batches(visible).map(|batch| (batch, true))).peekable();
        let mut counts = RepairCounts::default();
        loop {
            let (batch, is_counted) = batches.next().unwrap_or_default();
            let is_last = batches.peek().is_none();
            let made = manifest.repair(root.root(), batch, now, is_last).map_err(failed)?;
            if is_counted {
                counts = counts.plus(made);
            }
            if is_last {
                break;
            }
            self.check_not_stopped()?;
        }
        let unreadable = unreadable.into_iter().filter(|(path, _)| is_visible(path));
        let unreadable = unreadable.map(|(path, cause)| unreadable_path(root, &path, &cause)).collect();
        Ok(SyncReport { counts, unreadable })
    }

    /// The files in the directories of all categories, sorted by the bytes of their paths. Symlinks aren't followed.
    fn managed_files_on_store(&self, root: &ResolvedPath<'_>) -> Result<WalkedFiles> {
        let (WalkedFiles { mut files, mut unreadable }, mut stopped) = (WalkedFiles::default(), None);
        for category in Category::ALL {
            let at = root.workspace.mount().node_path(category.as_str());
            let walk = WalkOptions::default();
            let walked = root.store().walk(&at, &walk, &mut |entry| {
                if let Err(error) = self.check_not_stopped() {
                    stopped = Some(error);
                    return ControlFlow::Break(());
                }
                if entry.attr.kind == NodeKind::File
                    && let Some(path) = entry.path.as_str()
                {
                    files.push(found_file(root.store(), format!("{category}/{path}"), &entry.attr));
                }
                ControlFlow::Continue(())
            });
            if let Some(error) = stopped {
                return Err(error);
            }
            match walked {
                // A symlink at the place of the directory isn't followed.
                Ok(()) | Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => {}
                Err(cause) if is_unreadable(&cause) => unreadable.push((category.to_string(), cause)),
                Err(cause) => return Err(root.store_error(cause)),
            }
            unreadable.extend(unreadable_below(category, &walk));
        }
        files.sort_unstable_by(|one, other| one.path.as_bytes().cmp(other.path.as_bytes()));
        Ok(WalkedFiles { files, unreadable })
    }
}

/// Repairs in the parts that are made in one transaction each.
fn batches(repairs: Vec<ManifestRepair>) -> impl Iterator<Item = Vec<ManifestRepair>> {
    let mut repairs = repairs.into_iter();
    std::iter::from_fn(move || {
        let batch: Vec<_> = repairs.by_ref().take(REPAIRS_AT_ONCE).collect();
        (!batch.is_empty()).then_some(batch)
    })
}

/// Whether a directory that fails to be read with this error is left out, while the others are still read: the host doesn't let
/// Stead into it, or it is on another file system.
pub(super) fn is_unreadable(cause: &StoreError) -> bool {
    matches!(cause, StoreError::HostDenied | StoreError::Unsupported(_))
}

/// What a walk of a category's directory could not read, by the paths in the Workspace.
pub(super) fn unreadable_below(
    category: Category,
    walk: &WalkOptions,
) -> impl Iterator<Item = (String, StoreError)> {
    let mut unreadable = walk.unreadable.take();
    unreadable.sort_by(|(one, _), (other, _)| one.cmp(other));
    unreadable.into_iter().map(move |(path, cause)| match path.is_empty() {
        true => (category.to_string(), cause),
        false => (format!("{category}/{path}"), cause),
    })
}

/// Something that could not be read, by its path in the Workspace of `root`.
pub(super) fn unreadable_path(root: &ResolvedPath<'_>, path: &str, cause: &StoreError) -> Unreadable {
    let prefix = root.workspace.prefix();
    let separator = if prefix.is_root() { "" } else { "/" };
    Unreadable { path: format!("{prefix}{separator}{path}"), reason: cause.to_string() }
}
