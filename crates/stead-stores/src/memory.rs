//! The Memory Store: a Virtual Store whose database lives in memory.

use std::ops::{ControlFlow, Deref};
use std::sync::Arc;

use stead_core::managed::Manifest;
use stead_core::search::{FileHits, Grep, WalkOptions};
use stead_core::store::{
    Applied, Attr, Change, ChangeFeed, CompanionRecords, Draft, DraftBase, FileContent, Forks, History,
    Listing, Maintenance, NodeId, NodePath, OpenContent, OpenPurpose, Page, StoreId, StoreInfo, StorePath,
    Usage, WalkEntry,
};
use stead_core::{Store, StoreResult};

use crate::database::group_commit::CommitSync;
use crate::database::{Database, make_volume};
use crate::threads::{RemovedThread, ThreadKey, remove_thread, thread_namespace, threads_with_volumes};
use crate::virtual_store::VirtualStore;

/// A Virtual Store in memory, for tests and for what need not outlive the process. Clones are the same Store.
#[derive(Debug, Clone)]
pub struct MemoryStore(VirtualStore);

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        MemoryStore(Database::in_memory().store(["memory"]).expect("a new database takes a volume"))
    }
}

/// The volumes of threads. A thread and its leases are in another database, which this Store's transactions can't see: it
/// checks no lease. A `Vfs` that has a lease checks it in the process, just before each change
/// ([`stead_core::vfs::ThreadLease::check`]). For the same reason another process that removes a thread can't remove its volume
/// here: the process that has this Store compares [`MemoryStore::threads`] with the threads that exist.
impl MemoryStore {
    /// A thread's own volume in this Store's database. It is made at the first use.
    pub fn thread_volume(&self, thread: i64, key: &ThreadKey) -> StoreResult<MemoryStore> {
        let database = self.0.database();
        let namespace = thread_namespace((thread, key), ["memory"])?;
        let name = namespace.clone();
        database.0.write(CommitSync::Deferred, move |transaction| {
            make_volume(transaction, &name, Some(thread)).map(|_| ())
        })?;
        Ok(MemoryStore(database.volume(namespace)?))
    }

    /// The threads that have a volume here, by their numbers.
    pub fn threads(&self) -> StoreResult<Vec<i64>> {
        Ok(threads_with_volumes(&*self.0.database().0.reader()?)?)
    }

    /// Removes a thread's volume, its forks and its snapshots from this Store's database, and returns what that was.
    pub fn remove_thread(&self, thread: i64, key: &ThreadKey) -> StoreResult<RemovedThread> {
        let (database, key) = (self.0.database(), key.clone());
        let (removed, volumes) = database
            .0
            .write(CommitSync::Deferred, move |transaction| remove_thread(transaction, thread, &key))?;
        database.0.forget_volumes_in(&volumes);
        Ok(removed)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl Deref for MemoryStore {
    type Target = VirtualStore;

    fn deref(&self) -> &VirtualStore {
        &self.0
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for MemoryStore {
    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn info(&self) -> StoreInfo {
        self.0.info()
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        self.0.stat(at)
    }

    fn stat_many(&self, at: &[NodePath]) -> Vec<StoreResult<Attr>> {
        self.0.stat_many(at)
    }

    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        self.0.read(at, limit)
    }

    fn read_many(&self, at: &[NodePath], limit: u64) -> Vec<StoreResult<FileContent>> {
        self.0.read_many(at, limit)
    }

    fn open(&self, at: &NodePath, purpose: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        self.0.open(at, purpose)
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        self.0.read_link(at)
    }

    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        self.0.list(at, page)
    }

    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.0.walk(at, walk, visit)
    }

    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.0.grep(at, grep, visit)
    }

    fn draft(&self, of: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        self.0.draft(of)
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        self.0.apply(change)
    }

    fn sync(&self) -> StoreResult<()> {
        self.0.sync()
    }

    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        self.0.usage(at)
    }

    fn forget_node(&self, node: NodeId) {
        self.0.forget_node(node);
    }

    fn history(&self) -> Option<&dyn History> {
        self.0.history()
    }

    fn forks(&self) -> Option<&dyn Forks> {
        self.0.forks()
    }

    fn feed(&self) -> Option<&dyn ChangeFeed> {
        self.0.feed()
    }

    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        self.0.manifest()
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        self.0.companion_records()
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.0.maintenance()
    }
}
