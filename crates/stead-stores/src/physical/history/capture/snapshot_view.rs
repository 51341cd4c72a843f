//! A read-only Store that shows a host directory as a snapshot captured it.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use stead_core::managed::Manifest;
use stead_core::search::{FileHits, Grep, WalkOptions};
use stead_core::store::{
    Applied, Attr, Change, ChangeFeed, CompanionRecords, Draft, DraftBase, FileContent, Forks, History,
    Listing, Maintenance, NodeId, NodePath, OpenContent, OpenPurpose, Page, Store, StoreError, StoreId,
    StoreInfo, StoreKind, StoreResult, WalkEntry,
};

use crate::VirtualStore;
use crate::virtual_store::capture::{CaptureVolume, CapturedParts};

/// The capture volume as of a snapshot, limited to the parts that the snapshot captured.
#[derive(Debug)]
pub(super) struct SnapshotView {
    store: VirtualStore,
    parts: CapturedParts,
    manifest: Arc<dyn Manifest>,
}

impl SnapshotView {
    pub(super) fn new(volume: &CaptureVolume, parts: CapturedParts, manifest: Arc<dyn Manifest>) -> Self {
        SnapshotView { store: volume.store().clone(), parts, manifest }
    }

    /// The volume as a Store, if the snapshot captured this path. Elsewhere the volume may have what earlier snapshots
    /// captured.
    fn store_for(&self, at: &NodePath) -> StoreResult<&VirtualStore> {
        // A caller has a node only from an earlier call, which was checked.
        if at.base != NodeId::ROOT || self.parts.extents.contains(&at.path) {
            return Ok(&self.store);
        }
        Err(StoreError::unsupported("the snapshot doesn't include this part of the directory"))
    }
}

/// Replaces an `Expired` error by one that says why a snapshot can lack content.
fn explain_missing_content<T>(result: StoreResult<T>) -> StoreResult<T> {
    result.map_err(explain_cause)
}

fn explain_cause(error: StoreError) -> StoreError {
    match error {
        StoreError::Expired(_) => StoreError::Expired(
            "the snapshot has the name and the size of this file, but not its content: the file was larger than \
             `keep.file_bytes`, or could not be read"
                .into(),
        ),
        other => other,
    }
}

const READ_ONLY_VIEW: StoreError =
    StoreError::Unsupported(Cow::Borrowed("this is an earlier version, which can't be changed"));

impl Store for SnapshotView {
    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn info(&self) -> StoreInfo {
        StoreInfo { kind: StoreKind::Physical, commits_audit: false, ..self.store.info() }
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        self.store_for(at)?.stat(at)
    }

    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        explain_missing_content(self.store_for(at)?.read(at, limit))
    }

    fn open(&self, at: &NodePath, purpose: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        explain_missing_content(self.store_for(at)?.open(at, purpose))
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        self.store_for(at)?.read_link(at)
    }

    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        self.store_for(at)?.list(at, page)
    }

    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.store_for(at)?.walk(at, walk, visit)
    }

    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        // Clones share one list, so what other parts of a search could not read is taken out first.
        let earlier = grep.unreadable.take();
        let searched = self.store_for(at)?.grep(at, grep, visit);
        let found = grep.unreadable.take().into_iter().map(|(path, cause)| (path, explain_cause(cause)));
        earlier.into_iter().chain(found).for_each(|(path, cause)| grep.unreadable.add(path, cause));
        searched
    }

    fn draft(&self, _: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        Err(READ_ONLY_VIEW)
    }

    fn apply(&self, _: Change) -> StoreResult<Applied> {
        Err(READ_ONLY_VIEW)
    }

    /// Nothing changes here, so there is nothing to sync.
    fn sync(&self) -> StoreResult<()> {
        Ok(())
    }

    fn forget_node(&self, _: NodeId) {}

    fn history(&self) -> Option<&dyn History> {
        None
    }

    fn forks(&self) -> Option<&dyn Forks> {
        None
    }

    fn feed(&self) -> Option<&dyn ChangeFeed> {
        None
    }

    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        Ok(Some(Arc::clone(&self.manifest)))
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        None
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        None
    }
}
