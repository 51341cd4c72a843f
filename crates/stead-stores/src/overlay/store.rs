//! The Store port of a fork of a host directory, call by call.

use std::ops::ControlFlow;
use std::sync::Arc;

use stead_core::managed::Manifest;
use stead_core::search::{FileHits, Grep, WalkOptions};
use stead_core::store::{
    Applied, Attr, Change, ChangeFeed, CompanionRecords, Draft, DraftBase, FileContent, Forks, History,
    Listing, Maintenance, NodeId, NodePath, OpenContent, OpenPurpose, Page, StoreId, StoreInfo, StorePath,
    Usage, WalkEntry,
};
use stead_core::{Store, StoreResult};

use crate::overlay::OverlayStore;
use crate::overlay::place::Place;

#[deny(clippy::missing_trait_methods)]
impl Store for OverlayStore {
    fn id(&self) -> StoreId {
        self.upper.id()
    }

    fn info(&self) -> StoreInfo {
        self.upper.info()
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        match self.place(at)? {
            Place::Upper { .. } => Ok(self.upper_attr(self.upper.stat(at)?)),
            Place::Live(live) => {
                let attr = self.call_lower(&live, |lower, at| lower.stat(at))?;
                Ok(self.live_attr(&live.path, attr))
            }
        }
    }

    fn stat_many(&self, at: &[NodePath]) -> Vec<StoreResult<Attr>> {
        at.iter().map(|path| self.stat(path)).collect()
    }

    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        match self.place(at)? {
            Place::Upper { .. } => {
                let content = self.upper.read(at, limit)?;
                Ok(FileContent { attr: self.upper_attr(content.attr), ..content })
            }
            Place::Live(live) => {
                let content = self.call_lower(&live, |lower, at| lower.read(at, limit))?;
                Ok(FileContent { attr: self.live_attr(&live.path, content.attr), ..content })
            }
        }
    }

    fn read_many(&self, at: &[NodePath], limit: u64) -> Vec<StoreResult<FileContent>> {
        at.iter().map(|path| self.read(path, limit)).collect()
    }

    fn open(&self, at: &NodePath, purpose: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        let (attr, content) = match self.place(at)? {
            Place::Upper { .. } => {
                let content = self.upper.open(at, purpose)?;
                (self.upper_attr(content.attr()), content)
            }
            Place::Live(live) => {
                let content = self.call_lower(&live, |lower, at| lower.open(at, purpose))?;
                (self.live_attr(&live.path, content.attr()), content)
            }
        };
        Ok(Box::new(OpenForkFile { attr, content }))
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        match self.place(at)? {
            Place::Upper { .. } => self.upper.read_link(at),
            Place::Live(live) => self.call_lower(&live, |lower, at| lower.read_link(at)),
        }
    }

    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        self.list_both(at, page)
    }

    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.walk_both(at, walk, visit)
    }

    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.grep_both(at, grep, visit)
    }

    /// A draft of a file of the host directory takes the file over.
    fn draft(&self, base: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        self.upper.check_changeable()?;
        if let DraftBase::File(at) = base {
            self.take_over_path(at, None)?;
        }
        self.upper.draft(base)
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        self.upper.check_changeable()?;
        self.apply_change(change)
    }

    fn sync(&self) -> StoreResult<()> {
        self.upper.sync()
    }

    /// What the fork stores: the files that it has made, changed or taken over. The rest of the host directory changes without
    /// the fork, and counts where it belongs.
    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        self.upper.usage(at)
    }

    fn forget_node(&self, node: NodeId) {
        self.layer.paths.forget(node.0);
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }

    fn forks(&self) -> Option<&dyn Forks> {
        Some(self)
    }

    /// Changes of host programs are reported by no one, so only a pinned fork sees all changes.
    fn feed(&self) -> Option<&dyn ChangeFeed> {
        if self.lower.is_pinned() { self.upper.feed() } else { None }
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        self.upper.companion_records()
    }

    /// The rows of the fork's own files.
    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        self.upper.manifest()
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.upper.maintenance()
    }
}

/// An open file of a fork.
struct OpenForkFile {
    attr: Attr,
    content: Box<dyn OpenContent>,
}

#[deny(clippy::missing_trait_methods)]
impl OpenContent for OpenForkFile {
    fn attr(&self) -> Attr {
        self.attr
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        self.content.read_at(offset, buffer)
    }

    fn is_removed(&self) -> bool {
        self.content.is_removed()
    }

    /// The fork may have changed the file since, so it has to be opened through the fork again.
    fn reopen(&self) -> StoreResult<Option<Box<dyn OpenContent>>> {
        Ok(None)
    }

    /// A draft of the host's file itself would change the base.
    fn draft(&self) -> StoreResult<Option<Box<dyn Draft>>> {
        Ok(None)
    }
}
