//! Snapshots of a host directory, whichever program has written to it.
//!
//! `update` brings the capture volume, which is in the ledger's database, up to date with the disk. `snapshot_view`
//! shows the volume as of a snapshot, and `compare` finds what has changed since then.

mod compare;
mod snapshot_view;
mod update;

use std::sync::Arc;

use stead_core::Operation;
use stead_core::store::{
    Attr, CaptureScopes, Captured, Coverage, Entry, History, NodeChange, NodeKind, NodeState, RevisionNumber,
    RevisionQuery, RevisionSet, Store, StoreError, StorePath, StoreResult,
};

use super::super::PhysicalStore;
use crate::virtual_store::capture::{CaptureVolume, CapturedEntry, CapturedParts};
use compare::CaptureComparison;
use snapshot_view::SnapshotView;
use update::CaptureUpdate;

impl PhysicalStore {
    /// Captures what the scopes cover now, for the snapshot that is made next.
    pub(in super::super) fn capture_directory(
        &self,
        scopes: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        let history = &self.history;
        let volume = history.ledger_or_create()?.begin_capture_volume()?;
        // One at a time: a second capture would only end the first one's turn. Where the disk can't be written there is
        // no lock.
        let _lock = self.staging_if_open().map(|staging| staging.lock_snapshots()).transpose()?;
        let turn = volume.begin_capture()?;
        let mut update = CaptureUpdate::new(self, &volume, turn, operation, scopes, progress);
        let unread = update.run(history.max_file_bytes())?;
        Ok(Some(volume.finish_capture(turn, CapturedParts { extents: scopes.clone(), unread })))
    }

    /// The directory as a snapshot captured it; `Unsupported` if no snapshot captured it at this revision.
    pub(in super::super) fn as_of_snapshot(&self, revision: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        match self.captured_at(revision)? {
            Some((volume, parts)) => {
                let manifest = self.history.ledger_or_create()?.manifest(Some(revision));
                Ok(Arc::new(SnapshotView::new(&volume.at(revision), parts, manifest)))
            }
            None => Err(StoreError::unsupported(
                "a host directory can only be read as of a snapshot that includes it; for other versions use log, \
                 diff or undo",
            )),
        }
    }

    /// What changed between two revisions: by any program if snapshots captured both, otherwise only by Stead. `newer`
    /// may also be `RevisionNumber::NOW`.
    pub(in super::super) fn revisions_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        // A path below another one only says that moves into it or out of it matter.
        let is_top = |path: &&StorePath| !below.iter().any(|top| top != *path && path.is_at_or_below(top));
        let covers_all =
            |parts: &CapturedParts| below.iter().filter(is_top).all(|path| parts.extents.contains(path));
        let ledger = || {
            let query = RevisionQuery { paths: below.to_vec(), ..RevisionQuery::between(older, newer) };
            self.revisions_of(&query)
        };
        if older == newer {
            return Ok(RevisionSet::default());
        }
        let Some((volume, before)) = self.captured_at(older)?.filter(|(_, parts)| covers_all(parts)) else {
            return ledger();
        };
        if newer == RevisionNumber::NOW {
            return CaptureComparison::new(self, &volume.at(older), &before).revisions(older, below);
        }
        match self.captured_at(newer)?.filter(|(_, parts)| covers_all(parts)) {
            Some((volume, after)) => {
                let mut revision_set = volume.store().revisions(&RevisionQuery::between(older, newer))?;
                for revision in &mut revision_set.revisions {
                    revision
                        .changes
                        .retain(|change| is_captured(change, &before) && is_captured(change, &after));
                }
                Ok(revision_set)
            }
            None => ledger(),
        }
    }

    /// The capture volume, and which parts it has at a revision; `None` if no snapshot captured that.
    fn captured_at(&self, revision: RevisionNumber) -> StoreResult<Option<(CaptureVolume, CapturedParts)>> {
        let Some(volume) = self.history.capture_volume()? else { return Ok(None) };
        Ok(volume.parts_at(revision)?.map(|parts| (volume, parts)))
    }
}

/// Whether both states of a node change belong to these parts.
fn is_captured(change: &NodeChange, parts: &CapturedParts) -> bool {
    let is_covered = |state: &NodeState| coverage_of(parts, &state.path, state.kind) != Coverage::Excluded;
    [&change.before, &change.after].into_iter().flatten().all(is_covered)
}

/// Whether a path belongs to these parts. Of a directory that could not be read, the directory itself does, and nothing
/// in it.
fn coverage_of(parts: &CapturedParts, path: &StorePath, kind: NodeKind) -> Coverage {
    match parts.unread.iter().find(|unread| path.is_at_or_below(unread)) {
        Some(unread) if path == unread => parts.extents.coverage(path, kind).min(Coverage::DirectoryOnly),
        Some(_) => Coverage::Excluded,
        None => parts.extents.coverage(path, kind),
    }
}

/// Pairs entries with the same name on both sides. Both sides have to be sorted by name.
fn pair_by_name(
    captured: Vec<CapturedEntry>,
    present: Vec<Entry>,
) -> impl Iterator<Item = (Vec<u8>, Option<CapturedEntry>, Option<Attr>)> {
    let (mut captured, mut present) = (captured.into_iter().peekable(), present.into_iter().peekable());
    std::iter::from_fn(move || {
        let first = match (captured.peek(), present.peek()) {
            (None, None) => return None,
            (Some(captured), None) => captured.name.clone(),
            (None, Some(present)) => present.name.as_bytes().to_vec(),
            (Some(captured), Some(present)) => captured.name.as_slice().min(present.name.as_bytes()).to_vec(),
        };
        let captured = captured.next_if(|captured| captured.name == first);
        let present = present.next_if(|present| present.name.as_bytes() == first).map(|present| present.attr);
        Some((first, captured, present))
    })
}

#[cfg(test)]
mod tests {
    use stead_core::glob::PathGlobs;
    use stead_core::store::CaptureScope;

    use super::*;

    #[test]
    fn nothing_below_an_unreadable_directory_is_covered() {
        let path = |text: &str| StorePath::from_checked(text);
        let scope = CaptureScope::new(path("w"), path("w"), PathGlobs::none());
        let parts = CapturedParts { extents: [scope].into_iter().collect(), unread: vec![path("w/locked")] };
        for (name, kind, expected) in [
            ("w/open", NodeKind::Directory, Coverage::Included),
            ("w/locked", NodeKind::Directory, Coverage::DirectoryOnly),
            ("w/locked/x", NodeKind::File, Coverage::Excluded),
            ("w/locked/in", NodeKind::Directory, Coverage::Excluded),
            ("w/lockedin", NodeKind::File, Coverage::Included),
            ("x", NodeKind::File, Coverage::Excluded),
        ] {
            assert_eq!(coverage_of(&parts, &path(name), kind), expected, "{name}");
        }
    }
}
