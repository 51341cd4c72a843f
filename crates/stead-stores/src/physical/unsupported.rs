//! The Physical Store on hosts other than Linux: it can't be opened there yet.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use stead_core::Timestamp;
use stead_core::managed::Manifest;
use stead_core::search::{FileHits, Grep, WalkOptions};
use stead_core::store::{
    Applied, Attr, Change, ChangeFeed, CompanionRecords, DatabaseId, Draft, DraftBase, FileContent, Forks,
    History, Listing, Maintenance, NodeId, NodePath, OpenContent, OpenPurpose, Page, Store, StoreError,
    StoreId, StoreInfo, StoreResult, WalkEntry,
};

use super::{PhysicalOptions, Pruned};

/// A directory of the host. It can't be opened on this host.
#[derive(Debug)]
pub struct PhysicalStore(Infallible);

impl PhysicalStore {
    /// Returns [`StoreError::Unsupported`].
    pub fn open(_root: impl AsRef<Path>, _options: PhysicalOptions) -> StoreResult<Self> {
        Err(StoreError::unsupported("a Physical Store needs Linux for now"))
    }

    /// The id that the Store of a directory would have.
    pub fn id_in(database: DatabaseId, directory: &Path) -> StoreId {
        StoreId::in_database(database, directory.as_os_str().as_encoded_bytes())
    }

    /// Removes displaced content that is past its retention.
    pub fn prune(&self, _now: Timestamp) -> StoreResult<Pruned> {
        match self.0 {}
    }
}

impl Store for PhysicalStore {
    fn id(&self) -> StoreId {
        match self.0 {}
    }
    fn info(&self) -> StoreInfo {
        match self.0 {}
    }
    fn stat(&self, _: &NodePath) -> StoreResult<Attr> {
        match self.0 {}
    }
    fn read(&self, _: &NodePath, _: u64) -> StoreResult<FileContent> {
        match self.0 {}
    }
    fn open(&self, _: &NodePath, _: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        match self.0 {}
    }
    fn read_link(&self, _: &NodePath) -> StoreResult<Vec<u8>> {
        match self.0 {}
    }
    fn list(&self, _: &NodePath, _: &Page) -> StoreResult<Listing> {
        match self.0 {}
    }
    fn walk(
        &self,
        _: &NodePath,
        _: &WalkOptions,
        _: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        match self.0 {}
    }
    fn grep(
        &self,
        _: &NodePath,
        _: &Grep,
        _: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        match self.0 {}
    }
    fn draft(&self, _: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        match self.0 {}
    }
    fn apply(&self, _: Change) -> StoreResult<Applied> {
        match self.0 {}
    }
    fn sync(&self) -> StoreResult<()> {
        match self.0 {}
    }
    fn forget_node(&self, _: NodeId) {
        match self.0 {}
    }
    fn history(&self) -> Option<&dyn History> {
        match self.0 {}
    }
    fn forks(&self) -> Option<&dyn Forks> {
        match self.0 {}
    }
    fn feed(&self) -> Option<&dyn ChangeFeed> {
        match self.0 {}
    }
    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        match self.0 {}
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        match self.0 {}
    }
    fn maintenance(&self) -> Option<&dyn Maintenance> {
        match self.0 {}
    }
}
