//! The Store itself: the port, call by call, and opening.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use stead_core::managed::Manifest;
use stead_core::search::{FileHits, Grep, WalkOptions};
use stead_core::store::{
    Applied, Attr, CaptureScopes, Captured, Change, ChangeFeed, CompanionRecords, ContentRef, DatabaseId,
    Draft, DraftBase, FileContent, Fork, ForkSides, Forks, History, Listing, Maintenance, MergeDrafts,
    NodeId, NodePath, OpenContent, OpenPurpose, Page, RecordKind, RecordQuery, RevisionNumber, RevisionQuery,
    RevisionSet, SidesQuery, Store, StoreError, StoreId, StoreInfo, StoreKind, StorePath, StoreResult,
    StoredRecord, Usage, VerifyReport, WalkEntry,
};
use stead_core::{Operation, Timestamp};

use super::PhysicalOptions;
use super::draft::{NewDraft, OverlayDraft};
use super::fault_point::FaultPoint;
use super::history::{DirectoryIdentity, PhysicalHistory, location_key};
use super::host::{self, OpenMode, errno_to_store_error, io_to_store_error};
use super::mask::Mask;
use super::root::Root;
use super::slot::LookupPurpose;
use super::staging_area::{self, StagingArea};
use crate::host_path::{location, resolve_existing_prefix};
use crate::node_path_table::NodePathTable;
use crate::overlay::{ForkedDirectory, OverlayStore};
use crate::reserved_names::STATE_DIR_NAME;
use crate::sync;
use crate::{Durability, state_folder_of};

/// A directory of the host as a Store.
#[derive(Debug)]
pub struct PhysicalStore {
    id: StoreId,
    /// The database of the ledger.
    pub(super) database: DatabaseId,
    pub(super) root: Root,
    pub(super) mask: Mask,
    pub(super) node_path_table: NodePathTable,
    pub(super) durability: Durability,
    /// The ledger, and where displaced things lie: what it takes to tell the history.
    pub(super) history: Arc<PhysicalHistory>,
    fault_point: Arc<FaultPoint>,
    /// Whether the root was found to be removed.
    root_removed: AtomicBool,
    /// Empty for as long as the host lets nothing be written on the root's mount: the Store can be read all the same.
    staging: OnceLock<Arc<StagingArea>>,
    /// Held while the staging area is opened.
    staging_open_lock: Mutex<()>,
    state: PathBuf,
    options: PhysicalOptions,
}

impl PhysicalStore {
    /// Opens the directory at `root`, and repairs what a crash may have left half done.
    pub fn open(root: impl AsRef<Path>, options: PhysicalOptions) -> StoreResult<Self> {
        let resolved = std::fs::canonicalize(root).map_err(io_to_store_error)?;
        let state_path = match &options.state {
            Some(state) => state.clone(),
            None => state_folder_of(&[&resolved]).ok_or_else(no_state_dir_error)?.join(STATE_DIR_NAME),
        };
        let state = resolve_existing_prefix(&state_path);
        if resolved.starts_with(&state) {
            return Err(StoreError::Invalid(
                "the directory is inside Stead's own state directory; use another one".to_owned(),
            ));
        }
        let root = Root::open(&resolved, options.confinement)?;
        if !root.stat.is_dir() {
            return Err(StoreError::NotADirectory);
        }
        // A symlink on the way to Stead's own files is as much to be kept from agents as where it leads.
        let masked =
            options.mask.iter().flat_map(|path| [resolve_existing_prefix(path), resolve_parent(path)]);
        let masked: Vec<_> = masked.chain([state.clone(), resolve_parent(&state_path)]).collect();
        let pinned =
            options.pinned.iter().flat_map(|path| [resolve_existing_prefix(path), resolve_parent(path)]);
        let mask = Mask::new(&resolved, masked.iter().cloned()).with_pinned(&resolved, pinned);
        let root = root.with_masked(&mask, masked);
        let fault_point = Arc::new(FaultPoint::new(options.faults.clone()));
        let database = options.ledger.database_id(&state);
        let id = PhysicalStore::id_in(database, &resolved);
        let identity = DirectoryIdentity::new(&root, &resolved, &state, &options.pinned);
        let ledger_source = (options.ledger.clone(), options.durability);
        let displaced_dirs = staging_area::find_displaced_dirs(&root, &state, options.confinement);
        let history = Arc::new(PhysicalHistory::new(
            ledger_source,
            identity,
            options.displaced_retention,
            displaced_dirs,
        ));
        let (node_path_table, root_removed, durability) =
            (NodePathTable::default(), AtomicBool::new(false), options.durability);
        let (staging, staging_open_lock) = (OnceLock::new(), Mutex::new(()));
        let store = PhysicalStore {
            id,
            database,
            root,
            mask,
            node_path_table,
            durability,
            history,
            fault_point,
            root_removed,
            staging,
            staging_open_lock,
            state,
            options,
        };
        match store.staging() {
            // A disk that is full or can't be written can be read. The next change tries again.
            Ok(_) | Err(StoreError::HostDenied | StoreError::NoSpace) => Ok(store),
            Err(error) => Err(error),
        }
    }

    /// The id of the Store of a directory, with its ledger in this database. The directory need not exist.
    pub fn id_in(database: DatabaseId, directory: &Path) -> StoreId {
        let mut name = b"directory ".to_vec();
        name.extend(location(directory));
        StoreId::in_database(database, &name)
    }

    /// What tells where a directory is to the forks of it, in [`ForkRecord::directory`](crate::ForkRecord::directory): the same
    /// after the directory was moved together with the state directory.
    pub fn location_in(state: &Path, directory: &Path) -> String {
        location_key(&resolve_existing_prefix(directory), &resolve_existing_prefix(state))
    }

    /// Refuses everything where there is nothing left to work on. A directory that was removed can still be listed by
    /// whoever has it open, and looks empty.
    fn check_usable(&self) -> StoreResult<()> {
        self.fault_point.check()?;
        if host::is_removed(&self.root.dir) {
            self.root_removed.store(true, Ordering::Relaxed);
            return Err(StoreError::unavailable(
                "its directory was removed; the Store works again when the directory is back",
            ));
        }
        Ok(())
    }

    /// [`PhysicalStore::check_usable`], and recovers what a process has left that died in the middle of a change: for calls that
    /// tell what happened, or build on it.
    fn check_and_recover(&self) -> StoreResult<()> {
        self.check_usable()?;
        self.staging_if_open().map_or(Ok(()), |staging| staging.recover_if_needed(&self.root))
    }

    /// The staging area, if it is open.
    pub(super) fn staging_if_open(&self) -> Option<&Arc<StagingArea>> {
        self.staging.get()
    }

    /// The staging area, for a change: opened now if that was not possible before.
    pub(super) fn staging(&self) -> StoreResult<&Arc<StagingArea>> {
        if let Some(staging) = self.staging.get() {
            return Ok(staging);
        }
        let _lock = self.staging_open_lock.lock();
        if let Some(staging) = self.staging.get() {
            return Ok(staging);
        }
        let staging = StagingArea::open(
            &self.root,
            &self.state,
            &self.options,
            self.fault_point.clone(),
            self.history.clone(),
        )?;
        Ok(self.staging.get_or_init(|| staging))
    }
}

fn no_state_dir_error() -> StoreError {
    let message =
        "there is no home directory for Stead's state; set XDG_STATE_HOME, or name a state directory";
    StoreError::Invalid(message.to_owned())
}

/// The path with its symlinks resolved, but for the last name.
fn resolve_parent(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve_existing_prefix(parent).join(name),
        _ => path,
    }
}

impl Store for PhysicalStore {
    fn id(&self) -> StoreId {
        self.id
    }

    fn info(&self) -> StoreInfo {
        let database = Some(self.database);
        StoreInfo { kind: StoreKind::Physical, database, commits_audit: self.commits_audit() }
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        self.check_usable()?;
        self.stat_at(at)
    }

    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        self.check_usable()?;
        self.read_file(at, limit)
    }

    fn read_many(&self, at: &[NodePath], limit: u64) -> Vec<StoreResult<FileContent>> {
        match self.check_usable() {
            Ok(()) => self.read_files(at, limit),
            // Each of them says why.
            Err(_) => at.iter().map(|at| self.read(at, limit)).collect(),
        }
    }

    fn open(&self, at: &NodePath, purpose: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        self.check_usable()?;
        Ok(match purpose {
            OpenPurpose::Read => Box::new(self.open_file_content(at)?),
            OpenPurpose::Write => Box::new(self.open_for_writing(at)?),
        })
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        self.check_usable()?;
        self.link_target(at)
    }

    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        self.check_usable()?;
        self.list_page(at, page)
    }

    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.check_usable()?;
        self.walk_below(at, walk, visit)
    }

    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.check_usable()?;
        self.grep_below(at, grep, visit)
    }

    fn draft(&self, of: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        self.check_and_recover()?;
        let staging = self.staging()?;
        Ok(match of {
            DraftBase::Empty => Box::new(NewDraft::new(staging)?),
            DraftBase::File(at) => {
                let located = self.locate(at, LookupPurpose::Find)?;
                let (base, stat) = self.open_file(&located)?;
                if stat.uid != staging.uid {
                    // Another user's: whether it may be written to is told now, and not when it is put into place.
                    let (dir, name) = self.open_parent(&located)?;
                    dir.open(name, OpenMode::Write).map_err(errno_to_store_error)?;
                }
                Box::new(OverlayDraft::new(staging, base, stat))
            }
        })
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        self.check_usable()?;
        self.apply_change(change)
    }

    fn sync(&self) -> StoreResult<()> {
        self.check_usable()?;
        if self.durability == Durability::Full {
            sync::sync_file_system(sync::SyncPoint::DeferredChanges, &self.root.dir)
                .map_err(errno_to_store_error)?;
            // Without a staging area nothing was changed.
            if let Some(staging) = self.staging_if_open()
                && let Some(ledger) = staging.history.ledger()?
            {
                ledger.sync()?;
            }
        }
        Ok(())
    }

    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        self.check_usable()?;
        self.counted_usage(at)
    }

    fn forget_node(&self, node: NodeId) {
        self.node_path_table.forget(node.0);
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }

    fn forks(&self) -> Option<&dyn Forks> {
        Some(self)
    }

    fn feed(&self) -> Option<&dyn ChangeFeed> {
        None
    }

    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        let ledger = self.history.ledger_or_create()?;
        // A change that is made but not noted yet would look like one that may be rolled back.
        ledger.write_finished()?;
        Ok(Some(ledger.manifest(None)))
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        Some(self)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

impl History for PhysicalStore {
    fn retains_content(&self) -> bool {
        self.history.keeps_displaced()
    }

    fn retains_file(&self, size: u64) -> bool {
        self.history.keeps_displaced() && size <= self.history.max_file_bytes()
    }

    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        let ledger = self.ledger()?;
        ledger.map_or(Ok(RevisionNumber(0)), |ledger| ledger.latest_revision())
    }

    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        let ledger = self.ledger()?;
        ledger.map_or(Ok(RevisionNumber(0)), |ledger| ledger.revision_at(time))
    }

    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        self.check_and_recover()?;
        self.revisions_of(query)
    }

    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        self.check_and_recover()?;
        self.undoable_operations_of(agent, since, limit)
    }

    fn changes_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.check_and_recover()?;
        self.revisions_between(older, newer, below)
    }

    fn capture(
        &self,
        scopes: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        self.check_and_recover()?;
        self.capture_directory(scopes, operation, progress)
    }

    /// The directory as a snapshot holds it.
    fn as_of(&self, revision: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        self.check_usable()?;
        self.as_of_snapshot(revision)
    }

    fn open_content(&self, content: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        self.check_usable()?;
        self.open_content_ref(content)
    }
}

impl Forks for PhysicalStore {
    fn fork(&self, base: Arc<dyn Store>, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        self.check_usable()?;
        let directory = ForkedDirectory {
            location: self.history.location().to_owned(),
            root: self.stat_at(&NodePath::root())?,
        };
        let database = self.history.database_or_create()?;
        Ok(Arc::new(OverlayStore::create(&database, base, directory, fork)?))
    }

    fn shows_later_changes(&self) -> bool {
        true
    }

    fn target(&self) -> StoreResult<StoreId> {
        Err(StoreError::unsupported("a host directory isn't a fork"))
    }

    fn sides(
        &self,
        _: SidesQuery,
        _: &BTreeSet<NodeId>,
        _: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<ForkSides> {
        Err(StoreError::unsupported("a host directory isn't a fork"))
    }

    fn merge_drafts(&self) -> StoreResult<Box<dyn MergeDrafts>> {
        Err(StoreError::unsupported("a host directory isn't a fork"))
    }
}

impl CompanionRecords for PhysicalStore {
    fn record(&self, kind: &RecordKind, key: &str) -> StoreResult<Option<StoredRecord>> {
        self.check_and_recover()?;
        self.ledger()?.map_or(Ok(None), |ledger| ledger.record(kind, key))
    }

    fn records(&self, kind: &RecordKind, query: &RecordQuery) -> StoreResult<Vec<StoredRecord>> {
        self.check_and_recover()?;
        self.ledger()?.map_or_else(|| Ok(Vec::new()), |ledger| ledger.records(kind, query))
    }
}

impl Maintenance for PhysicalStore {
    /// Forgets the deeds and what was kept for them. The directory itself stays as it is.
    fn destroy(&self) -> StoreResult<()> {
        self.check_usable()?;
        if self.history.has_pinned_forks()? {
            return Err(StoreError::Invalid("it has pinned forks; discard them first".to_owned()));
        }
        self.forget_history()
    }

    fn is_gone(&self) -> bool {
        self.root_removed.load(Ordering::Relaxed)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        self.check_and_recover()?;
        if let Some(staging) = self.staging_if_open()
            && staging.count_unfinished().map_err(errno_to_store_error)? > 0
        {
            staging.recover(&self.root)?;
        }
        let mut report = VerifyReport::default();
        self.walk_below(&NodePath::root(), &WalkOptions::default(), &mut |_| {
            report.entries += 1;
            if report.entries % 1_024 == 0 {
                progress(report.entries);
            }
            ControlFlow::Continue(())
        })?;
        if let Some(staging) = self.staging_if_open() {
            report.unreferenced = staging.rescued_bytes();
            let unfinished = staging.count_unfinished().map_err(errno_to_store_error)?;
            if unfinished > 0 {
                report.problems.push(format!(
                    "{unfinished} process(es) ended in the middle of a change; open the Store again to roll the \
                     change back"
                ));
            }
        }
        if let Some(staging) = self.staging_if_open() {
            report.problems.extend(staging.recovery_reports()?);
        }
        self.verify_displaced(&mut report, progress)?;
        progress(report.entries);
        Ok(report)
    }
}
