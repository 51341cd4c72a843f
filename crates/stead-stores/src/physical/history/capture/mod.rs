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
        extents: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        let keeping = &self.history;
        let shadow = keeping.ledger_or_begin()?.begin_capture_volume()?;
        // One at a time: a second capture would only end the first one's turn. Where the disk can't be written there is
        // no lock.
        let _lock = self.staging_if_open().map(|shop| shop.lock_snapshots()).transpose()?;
        let turn = shadow.begin_capture()?;
        let mut syncing = CaptureUpdate::new(self, &shadow, turn, operation, extents, progress);
        let unread = syncing.run(keeping.max_file_bytes())?;
        Ok(Some(shadow.finish_capture(turn, CapturedParts { extents: extents.clone(), unread })))
    }

    /// The directory as a snapshot captured it; `Unsupported` if no snapshot captured it at this revision.
    pub(in super::super) fn as_of_snapshot(&self, version: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        match self.captured_at(version)? {
            Some((shadow, parts)) => Ok(Arc::new(SnapshotView::new(&shadow.at(version), parts))),
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
        let holds = |parts: &CapturedParts| below.iter().all(|path| parts.extents.contains(path));
        let ledger = || self.revisions_of(&RevisionQuery::between(older, newer));
        if older == newer {
            return Ok(RevisionSet::default());
        }
        let Some((shadow, before)) = self.captured_at(older)?.filter(|(_, parts)| holds(parts)) else {
            return ledger();
        };
        if newer == RevisionNumber::NOW {
            return CaptureComparison::new(self, &shadow.at(older), &before).revisions(older, below);
        }
        match self.captured_at(newer)?.filter(|(_, parts)| holds(parts)) {
            Some((shadow, after)) => {
                let mut deeds = shadow.store().revisions(&RevisionQuery::between(older, newer))?;
                for deed in &mut deeds.revisions {
                    deed.changes.retain(|line| is_captured(line, &before) && is_captured(line, &after));
                }
                Ok(deeds)
            }
            None => ledger(),
        }
    }

    /// The capture volume, and which parts it has at a revision; `None` if no snapshot captured that.
    fn captured_at(&self, version: RevisionNumber) -> StoreResult<Option<(CaptureVolume, CapturedParts)>> {
        let Some(shadow) = self.history.capture_volume()? else { return Ok(None) };
        Ok(shadow.parts_at(version)?.map(|parts| (shadow, parts)))
    }
}

/// Whether both states of a node change belong to these parts.
fn is_captured(line: &NodeChange, parts: &CapturedParts) -> bool {
    let is_held = |state: &NodeState| coverage_of(parts, &state.path, state.kind) != Coverage::Excluded;
    [&line.before, &line.after].into_iter().flatten().all(is_held)
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
    known: Vec<CapturedEntry>,
    there: Vec<Entry>,
) -> impl Iterator<Item = (Vec<u8>, Option<CapturedEntry>, Option<Attr>)> {
    let (mut known, mut there) = (known.into_iter().peekable(), there.into_iter().peekable());
    std::iter::from_fn(move || {
        let first = match (known.peek(), there.peek()) {
            (None, None) => return None,
            (Some(known), None) => known.name.clone(),
            (None, Some(there)) => there.name.as_bytes().to_vec(),
            (Some(known), Some(there)) => known.name.as_slice().min(there.name.as_bytes()).to_vec(),
        };
        let known = known.next_if(|known| known.name == first);
        let there = there.next_if(|there| there.name.as_bytes() == first).map(|there| there.attr);
        Some((first, known, there))
    })
}

#[cfg(test)]
mod tests {
    use stead_core::glob::PathGlobs;
    use stead_core::store::CaptureScope;

    use super::*;

    #[test]
    fn nothing_is_concluded_from_what_could_not_be_looked_into() {
        let path = |text: &str| StorePath::from_checked(text);
        let all = CaptureScope::new(path("w"), path("w"), PathGlobs::none());
        let parts = CapturedParts { extents: [all].into_iter().collect(), unread: vec![path("w/locked")] };
        for (name, kind, covered) in [
            ("w/open", NodeKind::Directory, Coverage::Included),
            ("w/locked", NodeKind::Directory, Coverage::DirectoryOnly),
            ("w/locked/x", NodeKind::File, Coverage::Excluded),
            ("w/locked/in", NodeKind::Directory, Coverage::Excluded),
            ("w/lockedin", NodeKind::File, Coverage::Included),
            ("x", NodeKind::File, Coverage::Excluded),
        ] {
            assert_eq!(coverage_of(&parts, &path(name), kind), covered, "{name}");
        }
    }
}
