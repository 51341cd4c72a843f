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
use crate::vfs::managed::{ManagedFiles, has_other_programs};
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

impl ManagedFiles {
    /// Makes the manifest agree with the files: adds rows of files that have none, removes rows whose files are gone, and
    /// corrects those of files that another program has written since. What it finds counts as written now.
    pub fn sync(&self) -> Result<RepairCounts> {
        self.vfs.call("managed_sync", [Ok(self.prefix.clone())], |call, _| {
            let resolved = call.authorize(&self.prefix, Access::Read)?;
            let failed = |cause| resolved.store_error(cause);
            let Some(manifest) = resolved.store().manifest().map_err(failed)? else {
                return Ok(RepairCounts::default());
            };
            manifest.manage(resolved.root()).map_err(failed)?;
            call.sync_manifest(&resolved, &*manifest)
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
                ChangedFiles::Any => return call.sync_manifest(&resolved, &*manifest),
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
                    (_, Some(row)) => repairs.push(ManifestRepair::Remove { row }),
                    (Err(_), None) => {
                        let below = manifest.has_rows_below(resolved.root(), path).map_err(failed)?;
                        needs_all |= below;
                    }
                    (Ok(_), None) => {}
                }
            }
            if needs_all {
                return call.sync_manifest(&resolved, &*manifest);
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
    /// Syncs the manifest of the Workspace whose root this is.
    pub(super) fn sync_manifest(
        &self,
        root: &ResolvedPath<'_>,
        manifest: &dyn Manifest,
    ) -> Result<RepairCounts> {
        let failed = |cause| root.store_error(cause);
        // The rows are read before the files: a file that is written meanwhile is found as well, and its row is left alone.
        let rows = manifest.rows(root.root()).map_err(failed)?;
        let files = self.managed_files_on_store(root)?;
        // Read after the files: nothing that was found was written later.
        let now = self.shared().clock.now();
        let mut repairs = reconcile(rows, files, now).repairs;
        repairs.retain(|repair| match repair {
            ManifestRepair::Remove { row } => {
                // The file may have been made after its directory was read.
                let found = root.store().stat(&root.workspace.mount().node_path(&row.path));
                !found.is_ok_and(|attr| attr.kind == NodeKind::File)
            }
            ManifestRepair::Add { .. } | ManifestRepair::Resize { .. } => true,
        });
        let mut counts = RepairCounts::default();
        loop {
            let rest = repairs.split_off(repairs.len().min(REPAIRS_AT_ONCE));
            let is_last = rest.is_empty();
            counts = counts.plus(manifest.repair(root.root(), repairs, now, is_last).map_err(failed)?);
            if is_last {
                return Ok(counts);
            }
            self.check_not_stopped()?;
            repairs = rest;
        }
    }

    /// The files in the directories of all categories, sorted by the bytes of their paths. Symlinks aren't followed.
    fn managed_files_on_store(&self, root: &ResolvedPath<'_>) -> Result<Vec<FoundFile>> {
        let (mut files, mut stopped) = (Vec::new(), None);
        for category in Category::ALL {
            let at = root.workspace.mount().node_path(category.as_str());
            // A directory that can't be read might have any of the rows below it, so the whole sync fails.
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
                Err(cause) => return Err(root.store_error(cause)),
            }
            if let Some((path, _)) = walk.unreadable.take().into_iter().next() {
                let _ = path;
                return Err(root.store_error(StoreError::HostDenied));
            }
        }
        files.sort_unstable_by(|one, other| one.path.as_bytes().cmp(other.path.as_bytes()));
        Ok(files)
    }
}
