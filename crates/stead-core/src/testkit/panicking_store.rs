//! A Store that must not be called: a refusal has to happen before it.

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

/// Panics whatever is asked of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct PanickingStore;

#[deny(clippy::missing_trait_methods)]
impl Store for PanickingStore {
    fn info(&self) -> StoreInfo {
        panic!("the Store was touched: info")
    }
    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        panic!("the Store was touched: stat {at:?}")
    }
    fn read(&self, at: &NodePath, _: u64) -> StoreResult<FileContent> {
        panic!("the Store was touched: read {at:?}")
    }
    fn open(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>> {
        panic!("the Store was touched: open {at:?}")
    }
    fn open_to_write(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>> {
        panic!("the Store was touched: open_to_write {at:?}")
    }
    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        panic!("the Store was touched: read_link {at:?}")
    }
    fn list(&self, at: &NodePath, _: &Page) -> StoreResult<Listing> {
        panic!("the Store was touched: list {at:?}")
    }
    fn walk(
        &self,
        at: &NodePath,
        _: &WalkOptions,
        _: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        panic!("the Store was touched: walk {at:?}")
    }
    fn grep(
        &self,
        at: &NodePath,
        _: &Grep,
        _: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        panic!("the Store was touched: grep {at:?}")
    }
    fn draft(&self, of: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        panic!("the Store was touched: draft {of:?}")
    }
    fn apply(&self, change: Change) -> StoreResult<Applied> {
        panic!("the Store was touched: apply {change:?}")
    }
    fn changes_since(&self, _: Option<RevisionNumber>, _: usize) -> StoreResult<Feed> {
        panic!("the Store was touched: changes_since")
    }
    fn as_of(&self, _: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        panic!("the Store was touched: as_of")
    }
    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        panic!("the Store was touched: latest_revision")
    }
    fn revision_at(&self, _: Timestamp) -> StoreResult<RevisionNumber> {
        panic!("the Store was touched: revision_at")
    }
    fn revision_sequence(&self) -> Option<RevisionSequence> {
        panic!("the Store was touched: revision_sequence")
    }
    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        panic!("the Store was touched: revisions {query:?}")
    }
    fn undoable_operations(
        &self,
        _: &str,
        _: Timestamp,
        _: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        panic!("the Store was touched: undoable_operations")
    }
    fn capture(
        &self,
        _: &CaptureScopes,
        _: &Operation,
        _: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        panic!("the Store was touched: capture")
    }
    fn open_content(&self, past: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        panic!("the Store was touched: open_content {past:?}")
    }
    fn fork(&self, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        panic!("the Store was touched: fork {fork:?}")
    }
    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        panic!("the Store was touched: usage {at}")
    }
    fn destroy(&self) -> StoreResult<()> {
        panic!("the Store was touched: destroy")
    }
    fn stat_many(&self, at: &[NodePath]) -> Vec<StoreResult<Attr>> {
        panic!("the Store was touched: stat_many {at:?}")
    }
    fn read_many(&self, at: &[NodePath], _: u64) -> Vec<StoreResult<FileContent>> {
        panic!("the Store was touched: read_many {at:?}")
    }
    fn sync(&self) -> StoreResult<()> {
        panic!("the Store was touched: sync")
    }
    fn changes_between(
        &self,
        _: RevisionNumber,
        _: RevisionNumber,
        _: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        panic!("the Store was touched: changes_between")
    }
    /// A caller that lets go of a node touches nothing.
    fn forget_node(&self, _: NodeId) {}
    /// It says so of itself, and is not asked for anything.
    fn is_gone(&self) -> bool {
        false
    }
    fn verify(&self, _: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        panic!("the Store was touched: verify")
    }
}
