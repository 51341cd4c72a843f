//! Sync: makes a manifest agree with the files that are there.

use std::ops::ControlFlow;

use crate::error::Result;
use crate::managed::{Category, FoundFile, Manifest, ManifestRepair, RepairCounts, reconcile};
use crate::scope::Access;
use crate::search::WalkOptions;
use crate::store::{NodeKind, StoreError};
use crate::vfs::call::Call;
use crate::vfs::managed::ManagedFiles;
use crate::vfs::resolve::ResolvedPath;

/// How many repairs are made in one transaction.
const REPAIRS_AT_ONCE: usize = 4_096;

impl ManagedFiles {
    /// Makes the manifest agree with the files: adds rows of files that have none, removes rows whose files are gone, and
    /// corrects sizes. Files that it finds count as new.
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
        let mut repairs = reconcile(rows, files).repairs;
        repairs.retain(|repair| match repair {
            ManifestRepair::Remove { row } => {
                // The file may have been made after its directory was read.
                let found = root.store().stat(&root.workspace.mount().node_path(&row.path));
                !found.is_ok_and(|attr| attr.kind == NodeKind::File)
            }
            ManifestRepair::Add { .. } | ManifestRepair::Resize { .. } => true,
        });
        let (mut counts, now) = (RepairCounts::default(), self.shared().clock.now());
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
                    files.push(FoundFile { path: format!("{category}/{path}"), size: entry.attr.size });
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
