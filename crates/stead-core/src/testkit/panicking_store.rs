//! A Store that panics when it is called, for tests that a call is refused before it reaches a Store.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::managed::Manifest;
use crate::search::{FileHits, Grep, WalkOptions};
use crate::store::{
    Applied, Attr, Change, ChangeFeed, CompanionRecords, DatabaseId, Draft, DraftBase, FileContent, Forks,
    History, Listing, Maintenance, NodeId, NodePath, OpenContent, OpenPurpose, Page, Store, StoreId,
    StoreInfo, StorePath, StoreResult, Usage, WalkEntry,
};

/// Panics on every call, except that it has an id.
#[derive(Debug, Clone, Copy, Default)]
pub struct PanickingStore;

#[deny(clippy::missing_trait_methods)]
impl Store for PanickingStore {
    /// An id is no access: the door compares ids before it decides.
    fn id(&self) -> StoreId {
        StoreId::in_database(DatabaseId::at_location(b"nowhere"), b"panicking")
    }

    fn info(&self) -> StoreInfo {
        panic!("the Store was called: info")
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        panic!("the Store was called: stat {at:?}")
    }

    fn read(&self, at: &NodePath, _: u64) -> StoreResult<FileContent> {
        panic!("the Store was called: read {at:?}")
    }

    fn open(&self, at: &NodePath, _: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        panic!("the Store was called: open {at:?}")
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        panic!("the Store was called: read_link {at:?}")
    }

    fn list(&self, at: &NodePath, _: &Page) -> StoreResult<Listing> {
        panic!("the Store was called: list {at:?}")
    }

    fn walk(
        &self,
        at: &NodePath,
        _: &WalkOptions,
        _: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        panic!("the Store was called: walk {at:?}")
    }

    fn grep(
        &self,
        at: &NodePath,
        _: &Grep,
        _: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        panic!("the Store was called: grep {at:?}")
    }

    fn draft(&self, base: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        panic!("the Store was called: draft {base:?}")
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        panic!("the Store was called: apply {change:?}")
    }

    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        panic!("the Store was called: usage {at}")
    }

    fn stat_many(&self, at: &[NodePath]) -> Vec<StoreResult<Attr>> {
        panic!("the Store was called: stat_many {at:?}")
    }

    fn read_many(&self, at: &[NodePath], _: u64) -> Vec<StoreResult<FileContent>> {
        panic!("the Store was called: read_many {at:?}")
    }

    fn sync(&self) -> StoreResult<()> {
        panic!("the Store was called: sync")
    }

    /// Allowed: forgetting a node makes no call to a real Store either.
    fn forget_node(&self, _: NodeId) {}

    fn history(&self) -> Option<&dyn History> {
        panic!("the Store was called: history")
    }

    fn forks(&self) -> Option<&dyn Forks> {
        panic!("the Store was called: forks")
    }

    fn feed(&self) -> Option<&dyn ChangeFeed> {
        panic!("the Store was called: feed")
    }

    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        panic!("the Store was touched: manifest")
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        panic!("the Store was touched: companion_records")
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        panic!("the Store was called: maintenance")
    }
}
