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

    fn sync(&self) -> StoreResult<()> {
        self.0.sync()
    }

    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed> {
        self.0.changes_since(cursor, limit)
    }

    fn revision_sequence(&self) -> Option<RevisionSequence> {
        self.0.revision_sequence()
    }

    fn as_of(&self, version: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        (**self).as_of(version)
    }

    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        self.0.latest_revision()
    }

    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        self.0.revision_at(time)
    }

    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        self.0.revisions(query)
    }

    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        self.0.undoable_operations(agent, since, limit)
    }

    fn changes_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.0.changes_between(older, newer, below)
    }

    fn capture(
        &self,
        extents: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        self.0.capture(extents, operation, progress)
    }

    fn open_content(&self, past: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        self.0.open_content(past)
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

    fn forget_node(&self, node: NodeId) {
        self.0.forget_node(node);
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        self.0.verify(progress)
    }
}
