//! Cleanup: removes files whose time to live is over, as the system's identity.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::identity::{Identity, SYSTEM_AGENT};
use crate::managed::{Category, CleanupRun, ManagedFile, Manifest, ManifestRepair, ManifestRow, PIN_TAG};
use crate::path::VfsPath;
use crate::scope::{Access, AccessScope};
use crate::store::{Attr, IfMissing, Precondition, Step, StoreError, StoreResult, Subtree, VersionTag};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::list::Unreadable;
use crate::vfs::managed::routing::is_day;
use crate::vfs::managed::sync::found_file;
use crate::vfs::managed::{ManagedFiles, SyncReport, has_other_programs, is_no_file, shows_host_directory};
use crate::vfs::resolve::ResolvedPath;
use crate::vfs::{Vfs, VfsShared};
use crate::workspace::{ApprovalPolicy, Workspace};

/// How many rows are looked at, and how many files are removed, at once.
const FILES_AT_ONCE: usize = 128;
/// How many errors of a run are kept.
const MAX_ERRORS: usize = 10;
/// How many paths of a run are kept.
const MAX_KEPT_PATHS: usize = 10;
/// How many paths a report has at most.
const MAX_REPORTED: usize = 1_000;

/// The tool name of cleanup's operations. An agent may undo them although they are the system's.
#[derive(Debug, Clone, Copy)]
pub struct CleanupTool;

impl CleanupTool {
    /// The tool name.
    pub const NAME: &'static str = "cleanup";
}

/// How a cleanup is made.
#[derive(Debug, Clone, Default)]
pub struct CleanupOptions {
    /// Only report what would be removed.
    pub dry_run: bool,
}

/// What a cleanup did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanupReport {
    /// How it went. With `dry_run`, the numbers say what would be done.
    pub run: CleanupRun,
    /// The paths of the removed files; the first 1,000 of them.
    pub paths: Vec<VfsPath>,
}

/// A file that has expired, as it was found.
struct Expired {
    file: ManagedFile,
    path: VfsPath,
    attr: Attr,
}

impl ManagedFiles {
    /// Removes the files whose time to live is over, as one operation of the system's identity, which can be undone as far as the
    /// content of the files is kept ([`CleanupRun::not_kept`]).
    ///
    /// Files that are tagged `pin`, files of threads that are in use, what a Workspace on the directory hides or protects, and what
    /// lies behind another Workspace of the caller are left alone.
    /// A file that can't be removed is reported, and the others are still removed. The caller needs write access.
    pub fn cleanup(&self, options: &CleanupOptions) -> Result<CleanupReport> {
        let prefix = || [Ok(self.prefix.clone())];
        self.vfs.call("managed_cleanup", prefix(), |call, _| {
            call.set_dry_run(options.dry_run);
            call.authorize(&self.prefix, Access::Write).map(drop)
        })?;
        let system = ManagedFiles { vfs: self.system_vfs()?, prefix: self.prefix.clone() };
        // The report is kept for every agent that shares the directory.
        let sharing = self.workspace().sharing();
        let is_visible = |path: &str| {
            self.is_visible(path) && !sharing.iter().any(|workspace| workspace.hide().hides(path))
        };
        system.cleanup_as_system(options, &sharing, &is_visible)
    }

    /// A `Vfs` of the system's identity with this Workspace alone. A dry run and the run itself use the same one.
    fn system_vfs(&self) -> Result<Vfs> {
        let VfsShared { stead, clock, audit, .. } = &*self.vfs.shared;
        let workspace = self.workspace().clone().with_approval_policy(ApprovalPolicy::Never);
        let workspace = workspace.with_scope(AccessScope::ReadWrite);
        let mut builder =
            Vfs::builder(Identity::agent(SYSTEM_AGENT)).clock(Arc::clone(clock)).workspace(workspace);
        builder.stead.clone_from(stead);
        builder.audit.clone_from(audit);
        let vfs = builder.build().expect("there is one Workspace");
        let vfs = match &self.vfs.monitor {
            Some(monitor) => vfs.with_monitor(Arc::clone(monitor)),
            None => vfs,
        };
        Ok(vfs.operation(CleanupTool::NAME))
    }

    /// `sharing` are the Workspaces of all agents on the directory, and `is_visible` says of which files the caller may know.
    fn cleanup_as_system(
        &self,
        options: &CleanupOptions,
        sharing: &[Arc<Workspace>],
        is_visible: &dyn Fn(&str) -> bool,
    ) -> Result<CleanupReport> {
        let now = self.vfs.shared.clock.now();
        let mut report = CleanupReport { run: CleanupRun::begun(now), paths: Vec::new() };
        let synced =
            self.vfs.unaudited_call("managed_sync", [Ok(self.prefix.clone())], |call, [prefix]| {
                let root = call.authorize(prefix, Access::Write)?;
                let Some(manifest) = root.store().manifest().map_err(|cause| root.store_error(cause))? else {
                    return Ok(None);
                };
                let is_unsynced = manifest.manage(root.root()).map_err(|cause| root.store_error(cause))?;
                // A walk of all files would find nothing where only Stead changes them. A dry run of a host directory has the rows
                // of all files that may have expired: what another program has made counts as new.
                let may_lack_rows = is_unsynced || shows_host_directory(root.store());
                let synced = match may_lack_rows || !options.dry_run && has_other_programs(root.store()) {
                    true => call.sync_manifest(&root, &*manifest, is_visible)?,
                    false => SyncReport::default(),
                };
                Ok(Some((manifest, synced)))
            })?;
        let Some((manifest, synced)) = synced else { return Ok(report) };
        report.run.synced = synced.counts;
        for Unreadable { path, reason } in synced.unreadable.into_iter().take(MAX_ERRORS) {
            report.run.unread.push(format!("{path}: {reason}"));
        }
        let ttl = self.workspace().managed().unwrap_or_default();
        let mut emptied = BTreeSet::new();
        if !self.is_in_use(&*manifest)? {
            let active = manifest.active_sessions().map_err(|cause| self.store_error(cause))?;
            for category in Category::ALL {
                let Some(cutoff) = ttl.cutoff(category, now) else { continue };
                let manifest = &*manifest;
                let round =
                    Round { files: self, manifest, options, sharing, is_visible, active: &active, now };
                round.clean_category(category, cutoff, &mut report, &mut emptied)?;
            }
        }
        if !options.dry_run {
            for directory in emptied {
                self.remove_if_empty(&directory);
            }
            let root = self.workspace().mount().path();
            if report.run.operation.is_none() {
                let earlier = manifest.last_cleanup(root).map_err(|cause| self.store_error(cause))?;
                report.run.last_removal = earlier.and_then(|run| run.newest_removal());
            }
            manifest.record_cleanup(root, &report.run).map_err(|cause| self.store_error(cause))?;
        }
        Ok(report)
    }

    fn is_in_use(&self, manifest: &dyn Manifest) -> Result<bool> {
        manifest.is_of_active_thread().map_err(|cause| self.store_error(cause))
    }

    fn store_error(&self, cause: StoreError) -> Error {
        let visibility = crate::error::Visibility::Visible;
        Error::Store { path: self.prefix.clone(), visibility, cause }
    }

    /// Removes the directory of a day that cleanup has taken a file from, if nothing is left in it.
    fn remove_if_empty(&self, directory: &VfsPath) {
        // It isn't empty, or another caller has removed it.
        let _ = self.vfs.unaudited_call("managed_cleanup", [Ok(directory.clone())], |call, [path]| {
            let resolved = call.authorize(path, Access::Write)?;
            let step = Step::Remove {
                at: resolved.node_path.clone(),
                subtree: Subtree::EmptyDirectory,
                expect: Precondition::Any,
                if_missing: IfMissing::Fail,
                protected: None,
                displaced: resolved.displaced_content(),
            };
            call.apply(resolved.store(), vec![step], ChangeStage::Final)
                .map_err(|cause| resolved.store_error(cause))
        });
    }
}

/// One pass over the rows of a category.
struct Round<'a> {
    files: &'a ManagedFiles,
    manifest: &'a dyn Manifest,
    options: &'a CleanupOptions,
    /// The Workspaces of all agents on the directory.
    sharing: &'a [Arc<Workspace>],
    /// Whether the caller of the cleanup may know of a file.
    is_visible: &'a dyn Fn(&str) -> bool,
    active: &'a HashSet<String>,
    now: Timestamp,
}

impl Round<'_> {
    fn clean_category(
        &self,
        category: Category,
        cutoff: Timestamp,
        report: &mut CleanupReport,
        emptied: &mut BTreeSet<VfsPath>,
    ) -> Result<()> {
        let root = self.files.workspace().mount().path().clone();
        let mut after = None;
        loop {
            let rows = self.manifest.written_until(&root, category, cutoff, after, FILES_AT_ONCE);
            let rows = rows.map_err(|cause| self.files.store_error(cause))?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = Some((last.modified_at, last.id));
            let rows = rows.into_iter().filter(|file| !self.is_left_alone(file));
            let (mut expired, mut gone) = (Vec::new(), Vec::new());
            for file in rows {
                match self.find(&file) {
                    // A dry run has made no sync, and another program may have written it since the sync.
                    Ok(Some((_, attr))) if self.was_written_since(&file, &attr) => {}
                    Ok(Some((path, attr))) => expired.push(Expired { file, path, attr }),
                    Ok(None) => gone.push(file),
                    Err(error) => add_error(report, format!("{error}")),
                }
            }
            if self.options.dry_run {
                report.run.stale += gone.len() as u64;
                expired.iter().for_each(|expired| self.count(report, expired));
                continue;
            }
            report.run.stale += self.remove_rows(gone)?;
            for removed in self.remove(expired, report) {
                self.count(report, &removed);
                if let Some(parent) = removed.path.parent()
                    && parent.strip_prefix(&self.files.prefix).is_some_and(is_day_directory)
                {
                    emptied.insert(parent);
                }
            }
        }
    }

    /// Whether cleanup must not touch a file whose time is over.
    fn is_left_alone(&self, file: &ManagedFile) -> bool {
        let is_active = file.session_key.as_ref().is_some_and(|session| self.active.contains(session));
        let is_withheld = |workspace: &Workspace| {
            workspace.hide().hides(&file.path) || workspace.protect().matches_path_or_ancestor(&file.path)
        };
        is_active
            || file.tags.contains(PIN_TAG)
            || !(self.is_visible)(&file.path)
            || is_withheld(self.files.workspace())
            || self.sharing.iter().any(|workspace| is_withheld(workspace))
    }

    /// The path and the attributes of an expired file; `None` if the file is gone. A symlink or a directory has taken its place then.
    fn find(&self, file: &ManagedFile) -> Result<Option<(VfsPath, Attr)>> {
        let mount = self.files.workspace().mount();
        let Some(path) = self.files.path_of(&file.path) else { return Ok(None) };
        match mount.store().stat(&mount.node_path(&file.path)) {
            found if is_no_file(&found) => Ok(None),
            Ok(attr) => Ok(Some((path, attr))),
            Err(cause) => Err(Error::Store { path, visibility: crate::error::Visibility::Visible, cause }),
        }
    }

    /// Whether another program has written a file after its row, so that its time isn't over.
    fn was_written_since(&self, file: &ManagedFile, attr: &Attr) -> bool {
        let found = found_file(&**self.files.workspace().mount().store(), file.path.clone(), attr);
        ManifestRow::from(file.clone()).is_outdated_by(&found, self.files.vfs.shared.clock.now())
    }

    fn count(&self, report: &mut CleanupReport, expired: &Expired) {
        let workspace = self.files.workspace();
        let history = workspace.mount().store().history();
        let is_kept = !workspace.scratch().matches(&expired.file.path)
            && history.is_some_and(|history| history.retains_file(expired.attr.size));
        report.run.removed += 1;
        report.run.not_kept += u64::from(!is_kept);
        report.run.bytes += expired.file.size;
        if report.run.paths.len() < MAX_KEPT_PATHS {
            report.run.paths.push(expired.file.path.clone());
            report.run.path_bytes.push(expired.file.size);
        }
        if report.paths.len() < MAX_REPORTED {
            report.paths.push(expired.path.clone());
        }
    }

    /// Removes rows whose files are gone. Returns how many.
    fn remove_rows(&self, gone: Vec<ManagedFile>) -> Result<u64> {
        if gone.is_empty() {
            return Ok(0);
        }
        let repairs = gone.into_iter().map(|file| ManifestRepair::Remove { row: file.into() }).collect();
        let root = self.files.workspace().mount().path();
        let counts = self.manifest.repair(root, repairs, self.now, false);
        Ok(counts.map_err(|cause| self.files.store_error(cause))?.removed)
    }

    /// Removes expired files together or, if that fails, one by one. Returns those that were removed.
    fn remove(&self, expired: Vec<Expired>, report: &mut CleanupReport) -> Vec<Expired> {
        if expired.is_empty() {
            return expired;
        }
        match self.remove_at_once(&expired, report) {
            Ok(()) => return expired,
            Err(error) if expired.len() == 1 => {
                add_failure(report, &expired[0], &error);
                return Vec::new();
            }
            Err(_) => {}
        }
        let mut removed = Vec::new();
        for file in expired {
            let file = match self.find_again(file) {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                Err(error) => {
                    add_error(report, format!("{error}"));
                    continue;
                }
            };
            match self.remove_at_once(std::slice::from_ref(&file), report) {
                Ok(()) => removed.push(file),
                Err(error) => add_failure(report, &file, &error),
            }
        }
        removed
    }

    /// The file as it is now, after a change that was to remove it with others was rolled back: on a host's disk it has another tag
    /// then. `None` if anybody has written it since it was found, or it is gone.
    fn find_again(&self, expired: Expired) -> Result<Option<Expired>> {
        let Some((path, attr)) = self.find(&expired.file)? else { return Ok(None) };
        if attr.tag == expired.attr.tag {
            return Ok(Some(expired));
        }
        let content = |attr: &Attr| (attr.node, attr.size, attr.mode, attr.modified);
        let root = self.files.workspace().mount().path();
        let row = self.manifest.file(root, &expired.file.path);
        let row = row.map_err(|cause| self.files.store_error(cause))?;
        let is_same = content(&attr) == content(&expired.attr)
            && row
                .is_some_and(|row| (row.id, row.modified_at) == (expired.file.id, expired.file.modified_at));
        Ok(is_same.then_some(Expired { path, attr, ..expired }))
    }

    /// Removes files in one change: all of them, or none. A file that was written since it was found isn't removed.
    fn remove_at_once(&self, expired: &[Expired], report: &mut CleanupReport) -> Result<()> {
        let operation = self.files.vfs.call(CleanupTool::NAME, [], |call, []| {
            call.set_paths(expired.iter().map(|expired| expired.path.clone()).collect());
            let mut resolved = Vec::with_capacity(expired.len());
            for expired in expired {
                resolved.push(call.authorize(&expired.path, Access::Write)?);
            }
            let steps =
                resolved.iter().zip(expired).map(|(path, expired)| removal(path, expired.attr.tag)).collect();
            let root = &resolved[0];
            apply_removal(call, root, steps).map_err(|cause| root.store_error(cause))?;
            Ok(call.operation())
        })?;
        report.run.operation = Some(operation.to_string());
        Ok(())
    }
}

fn apply_removal(call: &Call<'_>, root: &ResolvedPath<'_>, steps: Vec<Step>) -> StoreResult<()> {
    call.apply(root.store(), steps, ChangeStage::Final).map(drop)
}

fn removal(path: &ResolvedPath<'_>, tag: VersionTag) -> Step {
    Step::Remove {
        at: path.node_path.clone(),
        subtree: Subtree::File,
        expect: Precondition::Tag(tag),
        if_missing: IfMissing::Fail,
        protected: None,
        displaced: path.displaced_content(),
    }
}

fn add_failure(report: &mut CleanupReport, expired: &Expired, error: &Error) {
    match error {
        // The file was written, moved or removed since it was found: it isn't the one that has expired.
        Error::Store { cause: StoreError::Conflict | StoreError::NotFound, .. } => {}
        error => add_error(report, format!("{}: {error}", expired.path)),
    }
}

fn add_error(report: &mut CleanupReport, error: String) {
    if report.run.errors.len() < MAX_ERRORS {
        report.run.errors.push(error);
    }
}

/// Whether a path is that of a day's directory in the directory of a category.
fn is_day_directory(relative_path: &str) -> bool {
    let parts: Vec<_> = relative_path.split('/').collect();
    matches!(parts.as_slice(), [category, day] if category.parse::<Category>().is_ok() && is_day(day))
}
