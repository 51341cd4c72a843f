//! The entries of a directory that was moved into one of the query's paths, or out of one. The ledger has no rows for
//! them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use stead_core::search::WalkOptions;
use stead_core::store::{NodeKind, NodePath, NodeState, PathFilter, StorePath};

use super::super::super::mask::{join, split};
use super::tracked_node::{TracedLocation, TrackedNode};
use super::{LedgerReplay, NodeChanges};

/// An entry at or below a moved directory, with its path in that directory and its state after the move.
pub(super) struct MovedEntry {
    path: Vec<u8>,
    track: TrackedNode,
    after: NodeState,
}

impl LedgerReplay<'_> {
    /// What a directory that was moved from `from` to `to` contains, at the replay's current time: just after the move.
    /// Empty if the move doesn't concern the query's paths.
    pub(super) fn entries_moved_along(&mut self, from: &[u8], to: &[u8]) -> Vec<MovedEntry> {
        let filter = PathFilter::new(&self.query.paths);
        if !filter.is_crossed_by(&StorePath::from_checked(from), &StorePath::from_checked(to)) {
            return Vec::new();
        }
        let below = [to, b"/"].concat()..[to, b"0"].concat();
        let mut paths: BTreeSet<Vec<u8>> =
            self.tracked.range(below).map(|(path, _)| path[to.len() + 1..].to_vec()).collect();
        if let TracedLocation::InTree(current_path) = self.trace(to) {
            let directory = NodePath::from_root(StorePath::from_checked(current_path));
            // What can't be read isn't known, as everywhere in the replay.
            let _ = self.store.walk_below(&directory, &WalkOptions::default(), &mut |entry| {
                paths.insert(entry.path.as_bytes().to_vec());
                ControlFlow::Continue(())
            });
        }
        let mut entries: Vec<MovedEntry> = Vec::new();
        let mut directories = BTreeSet::from([Vec::new()]);
        // A parent sorts before its entries. What is in a directory that arrived later wasn't here yet.
        for path in paths {
            let full_path = join(to, &path);
            if directories.contains(split(&path).0)
                && let Some(track) = self.tracked_at(&full_path)
                && !matches!(track.fingerprint.kind, NodeKind::Special(_))
            {
                let after = self.state_of(&track, &full_path);
                if after.kind == NodeKind::Directory {
                    directories.insert(path.clone());
                }
                entries.push(MovedEntry { path, track, after });
            }
        }
        entries
    }

    /// Adds a change for each of these entries, at the replay's current time: just before the move.
    pub(super) fn add_moved_along(
        &mut self,
        entries: Vec<MovedEntry>,
        from: &[u8],
        changes: &mut NodeChanges,
    ) {
        for MovedEntry { path, track, after } in entries {
            let path = join(from, &path);
            if self.wants(&path) {
                let before = self.state_of(&track, &path);
                changes.add(track.node, Some(before), Some(after));
            }
        }
    }
}
