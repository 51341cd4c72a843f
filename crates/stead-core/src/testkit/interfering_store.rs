//! A Store that runs a callback after every change, so that a test can reproduce a race.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::managed::Manifest;
use crate::search::{FileHits, Grep, WalkOptions};
use crate::store::{
    Applied, Attr, Change, ChangeFeed, CompanionRecords, Draft, DraftBase, FileContent, Forks, History,
    Listing, Maintenance, NodeId, NodePath, OpenContent, OpenPurpose, Page, Store, StoreId, StoreInfo,
    StorePath, StoreResult, Usage, WalkEntry,
};

/// Wraps a Store and calls `interfere` after every [`Store::apply`], also a failed one, before the caller gets its result.
pub struct InterferingStore {
    /// The Store that does the work.
    pub store: Arc<dyn Store>,
    /// What is called. It must not apply a change through this Store, but through the wrapped one or another.
    pub interfere: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for InterferingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterferingStore").field("store", &self.store).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for InterferingStore {
    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn info(&self) -> StoreInfo {
        self.store.info()
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        self.store.stat(at)
    }

    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        self.store.read(at, limit)
    }

    fn open(&self, at: &NodePath, purpose: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        self.store.open(at, purpose)
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        self.store.read_link(at)
    }

    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        self.store.list(at, page)
    }

    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.store.walk(at, walk, visit)
    }

    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.store.grep(at, grep, visit)
    }

    fn draft(&self, base: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        self.store.draft(base)
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        let applied = self.store.apply(change);
        (self.interfere)();
        applied
    }

    fn stat_many(&self, at: &[NodePath]) -> Vec<StoreResult<Attr>> {
        self.store.stat_many(at)
    }

    fn read_many(&self, at: &[NodePath], limit: u64) -> Vec<StoreResult<FileContent>> {
        self.store.read_many(at, limit)
    }

    fn sync(&self) -> StoreResult<()> {
        self.store.sync()
    }

    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        self.store.usage(at)
    }

    fn forget_node(&self, node: NodeId) {
        self.store.forget_node(node);
    }

    fn history(&self) -> Option<&dyn History> {
        self.store.history()
    }

    fn forks(&self) -> Option<&dyn Forks> {
        self.store.forks()
    }

    fn feed(&self) -> Option<&dyn ChangeFeed> {
        self.store.feed()
    }

    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        self.store.manifest()
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        self.store.companion_records()
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.store.maintenance()
    }
}
