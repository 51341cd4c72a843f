//! A Store that must not be called: a refusal has to happen before it.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::identity::Operation;
use crate::search::{FileHits, Grep, Walk};
use crate::store::{
    About, Applied, Attr, Change, DeedQuery, Deeds, Draft, DraftOf, Extents, Feed, Fork, Found, Listing,
    NodeId, OpenContent, Page, Past, Place, Store, StorePath, StoreResult, TakenIn, Usage, Verified, Version,
    VersionCount, Whole,
};

/// Panics whatever is asked of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Untouchable;

#[deny(clippy::missing_trait_methods)]
impl Store for Untouchable {
    fn about(&self) -> About {
        panic!("the Store was touched: about")
    }
    fn stat(&self, at: &Place) -> StoreResult<Attr> {
        panic!("the Store was touched: stat {at:?}")
    }
    fn read(&self, at: &Place, _: u64) -> StoreResult<Whole> {
        panic!("the Store was touched: read {at:?}")
    }
    fn open(&self, at: &Place) -> StoreResult<Box<dyn OpenContent>> {
        panic!("the Store was touched: open {at:?}")
    }
    fn open_to_write(&self, at: &Place) -> StoreResult<Box<dyn OpenContent>> {
        panic!("the Store was touched: open_to_write {at:?}")
    }
    fn read_link(&self, at: &Place) -> StoreResult<Vec<u8>> {
        panic!("the Store was touched: read_link {at:?}")
    }
    fn list(&self, at: &Place, _: &Page) -> StoreResult<Listing> {
        panic!("the Store was touched: list {at:?}")
    }
    fn walk(&self, at: &Place, _: &Walk, _: &mut dyn FnMut(Found) -> ControlFlow<()>) -> StoreResult<()> {
        panic!("the Store was touched: walk {at:?}")
    }
    fn grep(&self, at: &Place, _: &Grep, _: &mut dyn FnMut(FileHits) -> ControlFlow<()>) -> StoreResult<()> {
        panic!("the Store was touched: grep {at:?}")
    }
    fn draft(&self, of: DraftOf<'_>) -> StoreResult<Box<dyn Draft>> {
        panic!("the Store was touched: draft {of:?}")
    }
    fn apply(&self, change: Change) -> StoreResult<Applied> {
        panic!("the Store was touched: apply {change:?}")
    }
    fn changes_since(&self, _: Option<Version>, _: usize) -> StoreResult<Feed> {
        panic!("the Store was touched: changes_since")
    }
    fn as_of(&self, _: Version) -> StoreResult<Arc<dyn Store>> {
        panic!("the Store was touched: as_of")
    }
    fn version(&self) -> StoreResult<Version> {
        panic!("the Store was touched: version")
    }
    fn version_at(&self, _: Timestamp) -> StoreResult<Version> {
        panic!("the Store was touched: version_at")
    }
    fn version_count(&self) -> Option<VersionCount> {
        panic!("the Store was touched: version_count")
    }
    fn deeds(&self, query: &DeedQuery) -> StoreResult<Deeds> {
        panic!("the Store was touched: deeds {query:?}")
    }
    fn standing(&self, _: &str, _: Timestamp, _: usize) -> StoreResult<Vec<(Version, Operation)>> {
        panic!("the Store was touched: standing")
    }
    fn take_in(
        &self,
        _: &Extents,
        _: &Operation,
        _: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<TakenIn>> {
        panic!("the Store was touched: take_in")
    }
    fn open_past(&self, past: &Past) -> StoreResult<Box<dyn OpenContent>> {
        panic!("the Store was touched: open_past {past:?}")
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
    fn stat_many(&self, at: &[Place]) -> Vec<StoreResult<Attr>> {
        panic!("the Store was touched: stat_many {at:?}")
    }
    fn read_many(&self, at: &[Place], _: u64) -> Vec<StoreResult<Whole>> {
        panic!("the Store was touched: read_many {at:?}")
    }
    fn settle(&self) -> StoreResult<()> {
        panic!("the Store was touched: settle")
    }
    fn between(&self, _: Version, _: Version, _: &[StorePath]) -> StoreResult<Deeds> {
        panic!("the Store was touched: between")
    }
    /// A caller that lets go of a node touches nothing.
    fn forget(&self, _: NodeId) {}
    /// It says so of itself, and is not asked for anything.
    fn is_gone(&self) -> bool {
        false
    }
    fn verify(&self, _: &mut dyn FnMut(u64)) -> StoreResult<Verified> {
        panic!("the Store was touched: verify")
    }
}
