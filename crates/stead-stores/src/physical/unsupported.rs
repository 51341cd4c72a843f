//! On hosts other than Linux there is no Physical Store yet: opening one says so.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::Path;

use stead_core::Timestamp;
use stead_core::search::{FileHits, Grep, Walk};
use stead_core::store::{
    About, Applied, Attr, Change, Draft, DraftOf, Feed, Found, Listing, OpenContent, Page, Place, Store,
    StoreError, StoreResult, Verified, Version, Whole,
};

use super::{PhysicalOptions, Pruned};

/// A directory of the host. None can be opened here.
#[derive(Debug)]
pub struct PhysicalStore(Infallible);

impl PhysicalStore {
    /// Says that it can't.
    pub fn open(_root: impl AsRef<Path>, _options: PhysicalOptions) -> StoreResult<Self> {
        Err(StoreError::Unsupported("a Physical Store needs Linux"))
    }

    /// There is nothing to let go of.
    pub fn prune(&self, _now: Timestamp) -> StoreResult<Pruned> {
        match self.0 {}
    }
}

impl Store for PhysicalStore {
    fn about(&self) -> About {
        match self.0 {}
    }
    fn stat(&self, _: &Place) -> StoreResult<Attr> {
        match self.0 {}
    }
    fn read(&self, _: &Place, _: u64) -> StoreResult<Whole> {
        match self.0 {}
    }
    fn open(&self, _: &Place) -> StoreResult<Box<dyn OpenContent>> {
        match self.0 {}
    }
    fn read_link(&self, _: &Place) -> StoreResult<Vec<u8>> {
        match self.0 {}
    }
    fn list(&self, _: &Place, _: &Page) -> StoreResult<Listing> {
        match self.0 {}
    }
    fn walk(&self, _: &Place, _: &Walk, _: &mut dyn FnMut(Found) -> ControlFlow<()>) -> StoreResult<()> {
        match self.0 {}
    }
    fn grep(&self, _: &Place, _: &Grep, _: &mut dyn FnMut(FileHits) -> ControlFlow<()>) -> StoreResult<()> {
        match self.0 {}
    }
    fn draft(&self, _: DraftOf<'_>) -> StoreResult<Box<dyn Draft>> {
        match self.0 {}
    }
    fn apply(&self, _: Change) -> StoreResult<Applied> {
        match self.0 {}
    }
    fn settle(&self) -> StoreResult<()> {
        match self.0 {}
    }
    fn changes_since(&self, _: Option<Version>, _: usize) -> StoreResult<Feed> {
        match self.0 {}
    }
    fn verify(&self, _: &mut dyn FnMut(u64)) -> StoreResult<Verified> {
        match self.0 {}
    }
}
