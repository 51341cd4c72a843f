//! A Store during whose changes something else happens, so that a race can be shown every time.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::search::{FileHits, Grep, Walk};
use crate::store::{
    About, Applied, Attr, Change, Draft, DraftOf, Feed, Found, Listing, OpenContent, Page, Place, Store,
    StoreResult, Verified, Version, Whole,
};

/// A Store around another: `meddle` is called after every change, before the caller has its answer.
pub struct Meddling {
    /// The Store that does the work.
    pub store: Arc<dyn Store>,
    /// What happens meanwhile.
    pub meddle: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Meddling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meddling").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Store for Meddling {
    fn about(&self) -> About {
        self.store.about()
    }
    fn stat(&self, at: &Place) -> StoreResult<Attr> {
        self.store.stat(at)
    }
    fn read(&self, at: &Place, limit: u64) -> StoreResult<Whole> {
        self.store.read(at, limit)
    }
    fn open(&self, at: &Place) -> StoreResult<Box<dyn OpenContent>> {
        self.store.open(at)
    }
    fn read_link(&self, at: &Place) -> StoreResult<Vec<u8>> {
        self.store.read_link(at)
    }
    fn list(&self, at: &Place, page: &Page) -> StoreResult<Listing> {
        self.store.list(at, page)
    }
    fn walk(
        &self,
        at: &Place,
        walk: &Walk,
        visit: &mut dyn FnMut(Found) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.store.walk(at, walk, visit)
    }
    fn grep(
        &self,
        at: &Place,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.store.grep(at, grep, visit)
    }
    fn draft(&self, of: DraftOf<'_>) -> StoreResult<Box<dyn Draft>> {
        self.store.draft(of)
    }
    fn apply(&self, change: Change) -> StoreResult<Applied> {
        let applied = self.store.apply(change);
        (self.meddle)();
        applied
    }
    fn changes_since(&self, cursor: Option<Version>, limit: usize) -> StoreResult<Feed> {
        self.store.changes_since(cursor, limit)
    }
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Verified> {
        self.store.verify(progress)
    }
}
