//! The directory as a snapshot holds it.

use std::ops::ControlFlow;
use std::sync::Arc;

use stead_core::search::{FileHits, Grep, Walk};
use stead_core::store::{
    About, Applied, Attr, Change, Draft, DraftOf, Feed, Found, Listing, NodeId, OpenContent, Page, Place,
    Store, StoreError, StoreResult, Verified, Version, Whole,
};

use crate::VirtualStore;
use crate::virtual_store::shadow::{Parts, Shadow};

/// A shadow as of a snapshot, as far as the snapshot holds the directory.
#[derive(Debug)]
pub(super) struct View {
    store: VirtualStore,
    parts: Parts,
}

impl View {
    pub(super) fn new(shadow: &Shadow, parts: Parts) -> Self {
        View { store: shadow.store().clone(), parts }
    }

    /// The Store, if the place is one that the snapshot holds: beside it is what earlier snapshots have left.
    fn at(&self, place: &Place) -> StoreResult<&VirtualStore> {
        // Whoever has a node has come by it in here.
        if place.from != NodeId::ROOT || self.parts.extents.hold(&place.path) {
            return Ok(&self.store);
        }
        Err(StoreError::Unsupported("the snapshot does not hold this part of the directory"))
    }
}

/// Says what it means that the content is not there.
fn told<T>(result: StoreResult<T>) -> StoreResult<T> {
    result.map_err(|error| match error {
        StoreError::Expired(_) => StoreError::Expired(
            "the snapshot knows that the file was there, and its size, but not its content: it was larger than \
             `keep.file_bytes`, or could not be read"
                .into(),
        ),
        other => other,
    })
}

const PAST: StoreError = StoreError::Unsupported("this is a view of a past version, which can't be changed");

impl Store for View {
    fn about(&self) -> About {
        About { kind: "physical", history: false, keeps_content: false, feed: false, records: None }
    }

    fn stat(&self, at: &Place) -> StoreResult<Attr> {
        self.at(at)?.stat(at)
    }

    fn read(&self, at: &Place, limit: u64) -> StoreResult<Whole> {
        told(self.at(at)?.read(at, limit))
    }

    fn open(&self, at: &Place) -> StoreResult<Box<dyn OpenContent>> {
        told(self.at(at)?.open(at))
    }

    fn read_link(&self, at: &Place) -> StoreResult<Vec<u8>> {
        self.at(at)?.read_link(at)
    }

    fn list(&self, at: &Place, page: &Page) -> StoreResult<Listing> {
        self.at(at)?.list(at, page)
    }

    fn walk(
        &self,
        at: &Place,
        walk: &Walk,
        visit: &mut dyn FnMut(Found) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.at(at)?.walk(at, walk, visit)
    }

    fn grep(
        &self,
        at: &Place,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.at(at)?.grep(at, grep, visit)
    }

    fn draft(&self, _: DraftOf<'_>) -> StoreResult<Box<dyn Draft>> {
        Err(PAST)
    }

    fn apply(&self, _: Change) -> StoreResult<Applied> {
        Err(PAST)
    }

    /// Nothing changes here, so there is nothing to wait for.
    fn settle(&self) -> StoreResult<()> {
        Ok(())
    }

    fn changes_since(&self, _: Option<Version>, _: usize) -> StoreResult<Feed> {
        Err(StoreError::Unsupported("nothing changes in a view of a past version"))
    }

    fn as_of(&self, _: Version) -> StoreResult<Arc<dyn Store>> {
        Err(StoreError::Unsupported("this is a view of a past version already"))
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Verified> {
        self.store.verify(progress)
    }
}
