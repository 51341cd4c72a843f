//! Which version of each file a caller has read, so that a whole-file write over a newer one can be refused.
//!
//! It is bounded and best effort: a file that was evicted may be overwritten. The guarantee is `if_match`.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::path::VfsPath;
use crate::store::VersionTag;

/// How many files are remembered.
const CAPACITY: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct ReadSet(Mutex<ReadSetEntries>);

#[derive(Debug, Default)]
struct ReadSetEntries {
    tags: HashMap<VfsPath, VersionTag>,
    /// Oldest first. A path that was read again is here once, where it was first added.
    order: VecDeque<VfsPath>,
}

impl ReadSet {
    /// Notes that the caller has seen this version of a file.
    pub(super) fn record(&self, path: &VfsPath, tag: VersionTag) {
        let mut memory = self.0.lock();
        if let Some(known) = memory.tags.get_mut(path) {
            *known = tag;
            return;
        }
        if memory.tags.len() >= CAPACITY
            && let Some(oldest) = memory.order.pop_front()
        {
            memory.tags.remove(&oldest);
        }
        memory.tags.insert(path.clone(), tag);
        memory.order.push_back(path.clone());
    }

    /// Notes that the caller itself changed a file. It counts as having seen the new version only if it had seen the
    /// one before.
    pub(super) fn advance(&self, path: &VfsPath, before: Option<VersionTag>, after: VersionTag) {
        let mut memory = self.0.lock();
        if let Some(known) = memory.tags.get_mut(path)
            && Some(*known) == before
        {
            *known = after;
        }
    }

    /// Forgets a file: the caller put something else there, so the version that it had seen no longer counts.
    pub(super) fn forget(&self, path: &VfsPath) {
        let mut memory = self.0.lock();
        if memory.tags.remove(path).is_some() {
            memory.order.retain(|known| known != path);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().tags.is_empty()
    }

    /// The version that the caller last saw.
    pub(super) fn last_read_tag(&self, path: &VfsPath) -> Option<VersionTag> {
        self.0.lock().tags.get(path).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_bounded_and_forgets_the_oldest() {
        let seen = ReadSet::default();
        let path = |n: usize| VfsPath::parse(&n.to_string()).unwrap();
        for n in 0..=CAPACITY {
            seen.record(&path(n), VersionTag(n as u128));
        }
        assert_eq!(seen.last_read_tag(&path(0)), None);
        assert_eq!(seen.last_read_tag(&path(1)), Some(VersionTag(1)));
        assert_eq!(seen.0.lock().tags.len(), CAPACITY);
        assert_eq!(seen.0.lock().order.len(), CAPACITY);
    }

    #[test]
    fn what_is_forgotten_takes_no_place() {
        let seen = ReadSet::default();
        let path = VfsPath::parse("/a").unwrap();
        seen.record(&path, VersionTag(1));
        seen.forget(&path);
        assert_eq!(seen.last_read_tag(&path), None);
        assert!(seen.0.lock().order.is_empty());
    }

    #[test]
    fn a_change_of_ones_own_is_known_only_on_top_of_what_was_known() {
        let seen = ReadSet::default();
        let path = VfsPath::parse("/a").unwrap();
        seen.record(&path, VersionTag(1));
        seen.advance(&path, Some(VersionTag(1)), VersionTag(2));
        assert_eq!(seen.last_read_tag(&path), Some(VersionTag(2)));
        seen.advance(&path, Some(VersionTag(7)), VersionTag(8));
        assert_eq!(seen.last_read_tag(&path), Some(VersionTag(2)));
    }
}
