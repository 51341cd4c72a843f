//! The optional ports of a fork of a host directory. Feed, companion records and maintenance are those of the fork's own volume.

use std::collections::BTreeSet;
use std::sync::Arc;

use stead_core::store::{
    CaptureScopes, Captured, ContentRef, Fork, ForkSides, Forks, History, MergeDrafts, NodeId, OpenContent,
    RevisionNumber, RevisionQuery, RevisionSet, SidesQuery, StoreId, StorePath,
};
use stead_core::{Operation, Store, StoreResult, Timestamp};

use crate::overlay::OverlayStore;
use crate::overlay::place::Place;

#[deny(clippy::missing_trait_methods)]
impl History for OverlayStore {
    fn retains_content(&self) -> bool {
        self.upper.retains_content()
    }

    fn retains_file(&self, size: u64) -> bool {
        self.upper.retains_file(size)
    }

    /// The fork's own files as of a revision, over the host directory as a snapshot of this revision has it, or else as it is.
    fn as_of(&self, revision: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        let upper = self.upper.view_of(revision)?;
        let lower = match revision {
            RevisionNumber::NOW => self.lower.clone(),
            revision => self.lower.as_of(revision),
        };
        Ok(Arc::new(OverlayStore { upper, layer: Arc::clone(&self.layer), lower }))
    }

    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        self.upper.latest_revision()
    }

    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        self.upper.revision_at(time)
    }

    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        if let Some(at) = &query.at
            && let Place::Live(live) = self.place(at)?
        {
            // The fork has never changed it. If it exists, it has no revisions here.
            self.call_lower(&live, |lower, at| lower.stat(at))?;
            return Ok(RevisionSet::default());
        }
        self.upper.revisions(query)
    }

    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        self.upper.undoable_operations(agent, since, limit)
    }

    fn changes_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        paths: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.upper.changes_between(older, newer, paths)
    }

    /// Nothing to do for the fork's own files. The host directory is captured by the snapshots of its own Workspaces.
    fn capture(
        &self,
        _: &CaptureScopes,
        _: &Operation,
        _: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        Ok(None)
    }

    fn open_content(&self, content: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        self.upper.open_content(content)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Forks for OverlayStore {
    /// A fork of the fork's own volume. Both stand on the same base layer: what one of them takes over, the other has taken over too.
    fn fork(&self, _: Arc<dyn Store>, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        let upper = self.upper.fork_for(fork)?;
        Ok(Arc::new(OverlayStore { upper, layer: Arc::clone(&self.layer), lower: self.lower.clone() }))
    }

    /// Changes of this fork don't show in a fork of it. Changes of the host directory do, in both, unless the first fork is
    /// pinned.
    fn shows_later_changes(&self) -> bool {
        !self.lower.is_pinned()
    }

    /// The Store of the host directory; for a fork of another fork, that fork.
    fn target(&self) -> StoreResult<StoreId> {
        if self.upper.is_fork_of_base_layer()? {
            return Ok(self.lower.directory_id());
        }
        Ok(self.upper.fork_target()?)
    }

    fn sides(
        &self,
        query: SidesQuery,
        also: &BTreeSet<NodeId>,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<ForkSides> {
        if self.upper.is_fork_of_base_layer()? {
            return self.directory_sides(query, also, progress);
        }
        Ok(self.upper.fork_sides(query, also, progress)?)
    }

    /// In the database of the fork: from there a change of the host directory takes contents too.
    fn merge_drafts(&self) -> StoreResult<Box<dyn MergeDrafts>> {
        self.upper.merge_drafts()
    }
}
