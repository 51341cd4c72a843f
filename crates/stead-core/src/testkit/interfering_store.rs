//! A Store during whose changes something else happens, so that a race can be shown every time.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::identity::Operation;
use crate::search::{FileHits, Grep, WalkOptions};
use crate::store::{
    Applied, Attr, CaptureScopes, Captured, Change, ContentRef, Draft, DraftBase, Feed, FileContent, Fork,
    Listing, NodeId, NodePath, OpenContent, Page, RevisionNumber, RevisionQuery, RevisionSequence,
    RevisionSet, Store, StoreInfo, StorePath, StoreResult, Usage, VerifyReport, WalkEntry,
};

/// A Store around another: `meddle` is called after every change, before the caller has its answer.
pub struct InterferingStore {
    /// The Store that does the work.
    pub store: Arc<dyn Store>,
    /// What happens meanwhile.
    pub interfere: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for InterferingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterferingStore").field("store", &self.store).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for InterferingStore {
    fn info(&self) -> StoreInfo {
        self.store.info()
    }
    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        self.store.stat(at)
    }
    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        self.store.read(at, limit)
    }
    fn open(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>> {
        self.store.open(at)
    }
    fn open_to_write(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>> {
        self.store.open_to_write(at)
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
    fn draft(&self, of: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        self.store.draft(of)
    }
    fn apply(&self, change: Change) -> StoreResult<Applied> {
        let applied = self.store.apply(change);
        (self.interfere)();
        applied
    }
    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed> {
        self.store.changes_since(cursor, limit)
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
    fn as_of(&self, version: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        self.store.as_of(version)
    }
    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        self.store.latest_revision()
    }
    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        self.store.revision_at(time)
    }
    fn revision_sequence(&self) -> Option<RevisionSequence> {
        self.store.revision_sequence()
    }
    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        self.store.revisions(query)
    }
    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        self.store.undoable_operations(agent, since, limit)
    }
    fn changes_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.store.changes_between(older, newer, below)
    }
    fn capture(
        &self,
        extents: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        self.store.capture(extents, operation, progress)
    }
    fn open_content(&self, past: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        self.store.open_content(past)
    }
    fn fork(&self, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        self.store.fork(fork)
    }
    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        self.store.usage(at)
    }
    fn destroy(&self) -> StoreResult<()> {
        self.store.destroy()
    }
    fn forget_node(&self, node: NodeId) {
        self.store.forget_node(node);
    }
    fn is_gone(&self) -> bool {
        self.store.is_gone()
    }
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        self.store.verify(progress)
    }
}
