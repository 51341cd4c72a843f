//! The Memory Store: a Virtual Store whose database lives in memory.

use std::ops::{ControlFlow, Deref};
use std::sync::Arc;

use stead_core::search::{FileHits, Grep, WalkOptions};
use stead_core::store::{
    Applied, Attr, CaptureScopes, Captured, Change, ContentRef, Draft, DraftBase, Feed, FileContent, Fork,
    Listing, NodeId, NodePath, OpenContent, Page, RevisionNumber, RevisionQuery, RevisionSequence,
    RevisionSet, StoreInfo, StorePath, Usage, VerifyReport, WalkEntry,
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
    fn about(&self) -> StoreInfo {
        self.0.about()
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

    fn open(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>> {
        self.0.open(at)
    }

    fn open_to_write(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>> {
        self.0.open_to_write(at)
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

    fn settle(&self) -> StoreResult<()> {
        self.0.settle()
    }

    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed> {
        self.0.changes_since(cursor, limit)
    }

    fn version_count(&self) -> Option<RevisionSequence> {
        self.0.version_count()
    }

    fn as_of(&self, version: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        (**self).as_of(version)
    }

    fn version(&self) -> StoreResult<RevisionNumber> {
        self.0.version()
    }

    fn version_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        self.0.version_at(time)
    }

    fn deeds(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        self.0.deeds(query)
    }

    fn standing(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        self.0.standing(agent, since, limit)
    }

    fn between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.0.between(older, newer, below)
    }

    fn take_in(
        &self,
        extents: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        self.0.take_in(extents, operation, progress)
    }

    fn open_past(&self, past: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
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

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        self.0.verify(progress)
    }
}
