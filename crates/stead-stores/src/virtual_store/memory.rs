//! The Memory Store: a Virtual Store whose database lives in memory.

use std::ops::{ControlFlow, Deref};
use std::sync::Arc;

use stead_core::search::{FileHits, Grep, Walk};
use stead_core::store::{
    About, Applied, Attr, Change, DeedQuery, Deeds, Draft, DraftOf, Extents, Feed, Fork, Found, Listing,
    NodeId, OpenContent, Page, Past, Place, StorePath, TakenIn, Usage, Verified, Version, VersionCount,
    Whole,
};
use stead_core::{Operation, Store, StoreResult, Timestamp};

use super::{Database, VirtualStore};

/// A Virtual Store in memory, for tests and for what need not outlive the process. Clones are the same Store.
#[derive(Debug, Clone)]
pub struct MemoryStore(VirtualStore);

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        MemoryStore(Database::in_memory().store(["memory"]).expect("a new database takes a volume"))
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
    fn about(&self) -> About {
        self.0.about()
    }

    fn stat(&self, at: &Place) -> StoreResult<Attr> {
        self.0.stat(at)
    }

    fn stat_many(&self, at: &[Place]) -> Vec<StoreResult<Attr>> {
        self.0.stat_many(at)
    }

    fn read(&self, at: &Place, limit: u64) -> StoreResult<Whole> {
        self.0.read(at, limit)
    }

    fn read_many(&self, at: &[Place], limit: u64) -> Vec<StoreResult<Whole>> {
        self.0.read_many(at, limit)
    }

    fn open(&self, at: &Place) -> StoreResult<Box<dyn OpenContent>> {
        self.0.open(at)
    }

    fn open_to_write(&self, at: &Place) -> StoreResult<Box<dyn OpenContent>> {
        self.0.open_to_write(at)
    }

    fn read_link(&self, at: &Place) -> StoreResult<Vec<u8>> {
        self.0.read_link(at)
    }

    fn list(&self, at: &Place, page: &Page) -> StoreResult<Listing> {
        self.0.list(at, page)
    }

    fn walk(
        &self,
        at: &Place,
        walk: &Walk,
        visit: &mut dyn FnMut(Found) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.0.walk(at, walk, visit)
    }

    fn grep(
        &self,
        at: &Place,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.0.grep(at, grep, visit)
    }

    fn draft(&self, of: DraftOf<'_>) -> StoreResult<Box<dyn Draft>> {
        self.0.draft(of)
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        self.0.apply(change)
    }

    fn settle(&self) -> StoreResult<()> {
        self.0.settle()
    }

    fn changes_since(&self, cursor: Option<Version>, limit: usize) -> StoreResult<Feed> {
        self.0.changes_since(cursor, limit)
    }

    fn version_count(&self) -> Option<VersionCount> {
        self.0.version_count()
    }

    fn as_of(&self, version: Version) -> StoreResult<Arc<dyn Store>> {
        (**self).as_of(version)
    }

    fn version(&self) -> StoreResult<Version> {
        self.0.version()
    }

    fn version_at(&self, time: Timestamp) -> StoreResult<Version> {
        self.0.version_at(time)
    }

    fn deeds(&self, query: &DeedQuery) -> StoreResult<Deeds> {
        self.0.deeds(query)
    }

    fn standing(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(Version, Operation)>> {
        self.0.standing(agent, since, limit)
    }

    fn between(&self, older: Version, newer: Version, below: &[StorePath]) -> StoreResult<Deeds> {
        self.0.between(older, newer, below)
    }

    fn take_in(
        &self,
        extents: &Extents,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<TakenIn>> {
        self.0.take_in(extents, operation, progress)
    }

    fn open_past(&self, past: &Past) -> StoreResult<Box<dyn OpenContent>> {
        self.0.open_past(past)
    }

    fn fork(&self, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        self.0.fork(fork)
    }

    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        self.0.usage(at)
    }

    fn destroy(&self) -> StoreResult<()> {
        self.0.destroy()
    }

    fn forget(&self, node: NodeId) {
        self.0.forget(node);
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Verified> {
        self.0.verify(progress)
    }
}
