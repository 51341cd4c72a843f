//! The Virtual Store: files in a database, with every version of them.
//!
//! A [`Database`] holds volumes, one per namespace, and each of them is a [`VirtualStore`]. An entry is a row that names its
//! parent and its content. Content is stored once, by its hash. A change is one transaction and makes one revision of the
//! database. What a change displaces stays readable as of the revisions before it. `docs/format.md` describes the tables.
//!
//! | modules | what they do |
//! |---|---|
//! | `read`, `walk`, `grep`, `open_file`, `feed`, `history` | answer calls that change nothing |
//! | `draft`, `change`, `content`, `chunk_patches` | write content, and make changes |
//! | `tree`, `dir_cache`, `entry_row`, `layers` | resolve paths to rows; `layers` shows a fork and its bases as one tree |
//! | `fork`, `capture`, `unchanged` | volumes over other volumes, what snapshots hold of host directories, revisions without changes |
//!
//! Connections, group commit and the schema are in [`crate::database`].
//!
//! ```
//! use stead_core::store::{NodePath, Page, Store, StorePath};
//! use stead_stores::Database;
//!
//! let store = Database::in_memory().store(["workspaces", "coder"])?;
//! let root = NodePath::from_root(StorePath::empty());
//! assert!(store.list(&root, &Page::ALL)?.entries.is_empty());
//! assert!(store.history().is_some() && store.forks().is_some() && store.feed().is_some());
//! # Ok::<(), stead_core::StoreError>(())
//! ```

pub(crate) mod capture;
pub(crate) mod change;
mod chunk_patches;
pub(crate) mod content;
pub(crate) mod dir_cache;
mod draft;
pub(crate) mod entry_row;
mod feed;
pub(crate) mod fork;
pub(crate) mod fork_part;
pub(crate) mod fork_sync;
mod grep;
pub(crate) mod history;
mod layered_lookup;
pub(crate) mod layers;
mod merge_drafts;
mod open_file;
pub(crate) mod read;
pub(crate) mod tree;
pub(crate) mod unchanged;
mod walk;

pub use fork::ForkRecord;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use stead_core::managed::Manifest;
use stead_core::search::{FileHits, Grep, WalkOptions};
use stead_core::store::{
    Applied, Attr, CaptureScopes, Captured, Change, ChangeFeed, ChangeListener, CompanionRecords, ContentRef,
    DatabaseId, Draft, DraftBase, Feed, FileContent, Fork, ForkSides, Forks, History, Listing, Maintenance,
    MergeDrafts, NodeId, NodePath, OpenContent, OpenPurpose, Page, RecordKind, RecordQuery, RevisionNumber,
    RevisionQuery, RevisionSet, SidesQuery, StoreId, StoreInfo, StoreKind, StorePath, StoredRecord,
    Subscription, Usage, VerifyReport, WalkEntry,
};
use stead_core::{Operation, Store, StoreError, StoreResult, Timestamp};

use crate::database::companion;
use crate::database::maintenance;
use crate::database::manifest::SqlManifest;
use crate::database::{Database, DatabaseInner, Volume, namespace_text, volume_store_id};
use dir_cache::DirCache;
use merge_drafts::VirtualMergeDrafts;

/// A Store on a volume of a database, as it is now or as it was at a version.
#[derive(Debug, Clone)]
pub struct VirtualStore {
    /// The id of the volume as it is now.
    id: StoreId,
    database: Database,
    volume: Arc<Volume>,
    as_of: Option<i64>,
    /// Directories at the version that is looked at.
    dirs: Arc<DirCache>,
}

impl VirtualStore {
    pub(crate) fn new(database: Database, volume: Arc<Volume>, id: StoreId) -> Self {
        let dirs = Arc::clone(&volume.dirs);
        VirtualStore { id, database, volume, as_of: None, dirs }
    }

    /// The id of the Store of a namespace in a database, neither of which need exist yet.
    pub fn id_in<P: AsRef<str>>(
        database: DatabaseId,
        namespace: impl IntoIterator<Item = P>,
    ) -> StoreResult<StoreId> {
        Ok(volume_store_id(database, &namespace_text(namespace)?))
    }

    /// This volume as it was at a version, for reading.
    pub fn at(&self, revision: RevisionNumber) -> Self {
        VirtualStore { as_of: Some(revision.0), dirs: Arc::default(), ..self.clone() }
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn database_inner(&self) -> &Arc<DatabaseInner> {
        &self.database.0
    }
}

impl Store for VirtualStore {
    fn id(&self) -> StoreId {
        self.as_of.map_or(self.id, |revision| self.id.as_of(RevisionNumber(revision)))
    }

    fn info(&self) -> StoreInfo {
        let database = self.database_inner();
        let kind = if database.is_in_memory() { StoreKind::Memory } else { StoreKind::Virtual };
        StoreInfo { kind, database: Some(database.id), commits_audit: database.has_audit_log() }
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        Ok(self.stat_at(at)?)
    }

    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        Ok(self.read_at(at, limit)?)
    }

    fn open(&self, at: &NodePath, _: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        Ok(Box::new(self.open_at(at)?))
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        Ok(self.read_link_at(at)?)
    }

    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        Ok(self.list_at(at, page)?)
    }

    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        Ok(self.walk_at(at, walk, visit)?)
    }

    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        Ok(self.grep_at(at, grep, visit)?)
    }

    fn draft(&self, base: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        self.check_changeable()?;
        Ok(Box::new(self.draft_of(base)?))
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        self.check_changeable()?;
        self.apply_change(change)
    }

    fn sync(&self) -> StoreResult<()> {
        self.database_inner().sync()
    }

    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        Ok(self.usage_at(at)?)
    }

    /// Nodes are found in the database, so there is nothing to forget.
    fn forget_node(&self, _: NodeId) {}

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }

    fn forks(&self) -> Option<&dyn Forks> {
        Some(self)
    }

    fn feed(&self) -> Option<&dyn ChangeFeed> {
        Some(self)
    }

    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        let (database, volume) = (Arc::clone(self.database_inner()), self.volume.id);
        Ok(Some(Arc::new(SqlManifest::new(database, volume, self.as_of))))
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        // Records have no history: an earlier version shows none.
        self.as_of.is_none().then_some(self)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

impl History for VirtualStore {
    fn retains_content(&self) -> bool {
        true
    }

    fn retains_file(&self, _: u64) -> bool {
        true
    }

    fn as_of(&self, revision: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        Ok(Arc::new(self.view_of(revision)?))
    }

    /// The newest version of the database: what this volume and every other one holds now.
    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        self.database.latest_revision()
    }

    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        Ok(self.newest_revision_at(time)?)
    }

    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        Ok(self.revisions_of(query)?)
    }

    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        Ok(self.undoable_operations_of(agent, since, limit)?)
    }

    /// Nothing to do: every revision can be read.
    fn capture(
        &self,
        _: &CaptureScopes,
        _: &Operation,
        _: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        Ok(None)
    }

    fn open_content(&self, content: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        self.open_content_ref(content)
    }
}

impl Forks for VirtualStore {
    /// The fork needs no other Store: everything that it shows is in the database.
    fn fork(&self, _: Arc<dyn Store>, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        Ok(Arc::new(self.fork_for(fork)?))
    }

    fn shows_later_changes(&self) -> bool {
        false
    }

    fn target(&self) -> StoreResult<StoreId> {
        Ok(self.fork_target()?)
    }

    fn sides(
        &self,
        query: SidesQuery,
        also: &BTreeSet<NodeId>,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<ForkSides> {
        Ok(self.fork_sides(query, also, progress)?)
    }

    fn merge_drafts(&self) -> StoreResult<Box<dyn MergeDrafts>> {
        self.check_changeable()?;
        Ok(Box::new(VirtualMergeDrafts::new(self)))
    }
}

impl ChangeFeed for VirtualStore {
    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed> {
        Ok(self.feed_since(cursor, limit)?)
    }

    fn subscribe(&self, listener: ChangeListener) -> StoreResult<Subscription> {
        match self.as_of {
            Some(_) => Ok(Subscription::never()),
            None => self.database_inner().subscribe(listener),
        }
    }
}

impl CompanionRecords for VirtualStore {
    fn record(&self, kind: &RecordKind, key: &str) -> StoreResult<Option<StoredRecord>> {
        Ok(companion::find_record(&*self.database_inner().reader()?, self.volume.id, kind, key)?)
    }

    fn records(&self, kind: &RecordKind, query: &RecordQuery) -> StoreResult<Vec<StoredRecord>> {
        Ok(companion::list_records(&*self.database_inner().reader()?, self.volume.id, kind, query)?)
    }
}

impl Maintenance for VirtualStore {
    fn is_gone(&self) -> bool {
        false
    }

    /// Removes the volume with all that it holds and ever held, and nothing else. Its namespace is free again.
    ///
    /// Whoever still has it open finds nothing there.
    fn destroy(&self) -> StoreResult<()> {
        self.check_changeable()?;
        self.database.destroy(&self.volume)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        self.database.verify(progress)
    }
}

impl VirtualStore {
    /// This volume as of a revision that it has and that can be read.
    pub(crate) fn view_of(&self, revision: RevisionNumber) -> StoreResult<VirtualStore> {
        let revision = if revision == RevisionNumber::NOW { self.latest_revision()? } else { revision };
        if revision.0 < self.volume.forked_at().unwrap_or(0) || revision > self.latest_revision()? {
            return Err(StoreError::NotFound);
        }
        let reader = self.database_inner().reader()?;
        maintenance::check_readable(&reader, revision.0)?;
        Ok(self.at(revision))
    }

    /// The directories below a directory.
    pub(crate) fn directories_below(&self, top: i64) -> StoreResult<Vec<i64>> {
        let below = self.read_transaction(|snapshot| snapshot.tree.below(top))?;
        Ok(below.into_iter().filter(|(row, _)| row.is_directory()).map(|(row, _)| row.node).collect())
    }

    pub(crate) fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Refuses to change the past.
    pub(crate) fn check_changeable(&self) -> StoreResult<()> {
        match self.as_of {
            Some(_) => Err(StoreError::unsupported("this is an earlier version, which can't be changed")),
            None => Ok(()),
        }
    }
}
