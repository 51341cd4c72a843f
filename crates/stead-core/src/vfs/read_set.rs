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
        let mut entries = self.0.lock();
        if let Some(last_tag) = entries.tags.get_mut(path) {
            *last_tag = tag;
            return;
        }
        if entries.tags.len() >= CAPACITY
            && let Some(oldest) = entries.order.pop_front()
        {
            entries.tags.remove(&oldest);
        }
        entries.tags.insert(path.clone(), tag);
        entries.order.push_back(path.clone());
    }

    /// Notes that the caller itself changed a file. It counts as having seen the new version only if it had seen the
    /// one before.
    pub(super) fn advance(&self, path: &VfsPath, before: Option<VersionTag>, after: VersionTag) {
        let mut entries = self.0.lock();
        if let Some(last_tag) = entries.tags.get_mut(path)
            && Some(*last_tag) == before
        {
            *last_tag = after;
        }
    }

    /// Forgets a file: the caller put something else there, so the version that it had seen no longer counts.
    pub(super) fn forget(&self, path: &VfsPath) {
        let mut entries = self.0.lock();
        if entries.tags.remove(path).is_some() {
            entries.order.retain(|other| other != path);
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
    fn the_read_set_is_bounded_and_forgets_the_oldest_file() {
        let read_set = ReadSet::default();
        let path = |n: usize| VfsPath::parse(&n.to_string()).unwrap();
        for n in 0..=CAPACITY {
            read_set.record(&path(n), VersionTag(n as u128));
        }
        assert_eq!(read_set.last_read_tag(&path(0)), None);
        assert_eq!(read_set.last_read_tag(&path(1)), Some(VersionTag(1)));
        assert_eq!(read_set.0.lock().tags.len(), CAPACITY);
        assert_eq!(read_set.0.lock().order.len(), CAPACITY);
    }

    #[test]
    fn a_forgotten_file_takes_no_space() {
        let read_set = ReadSet::default();
        let path = VfsPath::parse("/a").unwrap();
        read_set.record(&path, VersionTag(1));
        read_set.forget(&path);
        assert_eq!(read_set.last_read_tag(&path), None);
        assert!(read_set.0.lock().order.is_empty());
    }

    #[test]
    fn the_callers_change_counts_as_read_only_if_the_version_before_was_read() {
        let read_set = ReadSet::default();
        let path = VfsPath::parse("/a").unwrap();
        read_set.record(&path, VersionTag(1));
        read_set.advance(&path, Some(VersionTag(1)), VersionTag(2));
        assert_eq!(read_set.last_read_tag(&path), Some(VersionTag(2)));
        read_set.advance(&path, Some(VersionTag(7)), VersionTag(8));
        assert_eq!(read_set.last_read_tag(&path), Some(VersionTag(2)));
    }
}
