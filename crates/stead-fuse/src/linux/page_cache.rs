//! Tracks what the kernel's page cache holds of a file's content, to find the race between a program's write and an
//! invalidation.
//!
//! The kernel copies what a program writes into its page before it sends the write request. If the page is invalidated
//! between the two, the kernel reads it again from here, and the page then lacks what is being written, for good. The
//! kernel sends one write request at a time for one file, so after an invalidation only the first write can have been
//! copied before it. Therefore pages that were read between the invalidation and that write are invalidated again
//! before the write is answered.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The smallest size of the kernel's pages, in bytes.
const PAGE_SIZE: u64 = 4096;
/// How many ranges are tracked apart; more are merged into one.
const MAX_RANGES: usize = 64;

/// What is known about the kernel's pages of one file.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    /// Whether the kernel may have pages of the file.
    has_pages: AtomicBool,
    /// How many direct writes (past the kernel's pages) are in progress.
    direct_writes: AtomicUsize,
    /// Whether `tracker` has something to check, so that its lock can be skipped otherwise.
    is_tracking: AtomicBool,
    tracker: Mutex<ReadTracker>,
}

#[derive(Debug, Default)]
struct ReadTracker {
    /// How many invalidations are in progress.
    invalidations: usize,
    /// The ranges that were read since the last invalidation began; `None` from the first write after its end.
    reads: Option<Vec<Range<u64>>>,
}

impl PageCache {
    /// Call it before a range is read into the kernel's pages.
    pub(crate) fn note_read(&self, range: Range<u64>) {
        self.has_pages.store(true, Ordering::SeqCst);
        if self.is_tracking.load(Ordering::SeqCst)
            && let Some(reads) = &mut self.tracker.lock().reads
        {
            merge_range(reads, range);
        }
    }

    /// Call it before something is read through a handle for direct I/O: the file may be mapped through it, and the
    /// kernel doesn't say which reads fill its pages.
    pub(crate) fn note_direct_read(&self) {
        self.has_pages.store(true, Ordering::SeqCst);
    }

    /// Call it after a range was written that the kernel has in its pages. Returns whether the kernel has to drop them
    /// again.
    pub(crate) fn note_write(&self, range: &Range<u64>) -> bool {
        self.has_pages.store(true, Ordering::SeqCst);
        if !self.is_tracking.load(Ordering::SeqCst) {
            return false;
        }
        let mut tracker = self.tracker.lock();
        let touches = |read: &Range<u64>| {
            read.start < range.end.next_multiple_of(PAGE_SIZE)
                && range.start / PAGE_SIZE * PAGE_SIZE < read.end
        };
        let is_stale = tracker.reads.iter().flatten().any(touches);
        self.stop_tracking(&mut tracker);
        is_stale
    }

    /// Call it while the kernel lets no program write: all later writes are copied after every invalidation that has
    /// ended.
    pub(crate) fn note_writers_blocked(&self) {
        if self.is_tracking.load(Ordering::SeqCst) {
            self.stop_tracking(&mut self.tracker.lock());
        }
    }

    fn stop_tracking(&self, tracker: &mut ReadTracker) {
        if tracker.invalidations == 0 {
            tracker.reads = None;
            self.is_tracking.store(false, Ordering::SeqCst);
        }
    }

    /// Call it before the kernel is made to drop pages, and hold the guard until it has.
    pub(crate) fn begin_invalidation(&self, writes: ConcurrentWrites) -> InvalidationGuard<'_> {
        let mut tracker = self.tracker.lock();
        tracker.invalidations += 1;
        if writes == ConcurrentWrites::Possible {
            tracker.reads.get_or_insert_default();
            self.is_tracking.store(true, Ordering::SeqCst);
        }
        // Pages that are read from here on count again.
        self.has_pages.store(false, Ordering::SeqCst);
        InvalidationGuard(self)
    }

    /// Call it before a direct write, and hold the guard until the kernel has dropped its pages.
    pub(crate) fn begin_direct_write(self: &Arc<Self>) -> DirectWriteGuard {
        self.direct_writes.fetch_add(1, Ordering::SeqCst);
        DirectWriteGuard(Arc::clone(self))
    }

    /// Whether the kernel may have pages that lack a direct write in progress.
    pub(crate) fn lacks_direct_writes(&self) -> bool {
        self.direct_writes.load(Ordering::SeqCst) > 0 && self.has_pages()
    }

    /// Whether the kernel may have pages of the file.
    pub(crate) fn has_pages(&self) -> bool {
        self.has_pages.load(Ordering::SeqCst) || self.tracker.lock().invalidations > 0
    }
}

/// Whether programs may write into the pages while they are invalidated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConcurrentWrites {
    /// They may.
    Possible,
    /// The kernel lets no program write meanwhile.
    Blocked,
}

/// Held while the kernel drops pages.
#[derive(Debug)]
pub(crate) struct InvalidationGuard<'a>(&'a PageCache);

impl Drop for InvalidationGuard<'_> {
    fn drop(&mut self) {
        self.0.tracker.lock().invalidations -= 1;
    }
}

/// Held during a direct write.
#[derive(Debug)]
pub(crate) struct DirectWriteGuard(Arc<PageCache>);

impl Drop for DirectWriteGuard {
    fn drop(&mut self) {
        self.0.direct_writes.fetch_sub(1, Ordering::SeqCst);
    }
}

fn merge_range(ranges: &mut Vec<Range<u64>>, mut added: Range<u64>) {
    ranges.retain(|range| {
        let is_apart = range.end < added.start || added.end < range.start;
        if !is_apart {
            added = range.start.min(added.start)..range.end.max(added.end);
        }
        is_apart
    });
    ranges.push(added);
    if ranges.len() > MAX_RANGES {
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(0);
        ranges.clear();
        ranges.push(start..end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_read_between_an_invalidation_and_the_next_write_is_invalidated_again() {
        let cache = PageCache::default();
        cache.note_read(0..4096);
        assert!(!cache.note_write(&(100..200)), "nothing was dropped");
        drop(cache.begin_invalidation(ConcurrentWrites::Possible));
        assert!(!cache.has_pages());
        cache.note_read(0..4096);
        cache.note_read(40_960..45_056);
        assert!(cache.has_pages());
        assert!(cache.note_write(&(4_000..5_000)));
        assert!(!cache.note_write(&(100..200)), "the page was copied after it was dropped");
        drop(cache.begin_invalidation(ConcurrentWrites::Possible));
        cache.note_read(0..4096);
        assert!(!cache.note_write(&(4_096..5_000)), "another page");
    }

    #[test]
    fn a_direct_read_may_fill_pages() {
        let cache = PageCache::default();
        drop(cache.begin_invalidation(ConcurrentWrites::Possible));
        assert!(!cache.has_pages());
        cache.note_direct_read();
        assert!(cache.has_pages());
    }

    #[test]
    fn a_write_during_an_invalidation_ends_no_tracking() {
        let cache = PageCache::default();
        let invalidation = cache.begin_invalidation(ConcurrentWrites::Possible);
        cache.note_read(0..4096);
        assert!(cache.note_write(&(0..10)));
        assert!(cache.note_write(&(0..10)), "the bytes may have been copied before the page was dropped");
        drop(invalidation);
        assert!(cache.note_write(&(0..10)));
        assert!(!cache.note_write(&(0..10)));
    }

    #[test]
    fn no_page_is_stale_if_the_kernel_blocks_writers() {
        let cache = PageCache::default();
        drop(cache.begin_invalidation(ConcurrentWrites::Blocked));
        cache.note_read(0..4096);
        assert!(!cache.note_write(&(0..10)));
        drop(cache.begin_invalidation(ConcurrentWrites::Possible));
        cache.note_read(0..4096);
        cache.note_writers_blocked();
        assert!(!cache.note_write(&(0..10)));
    }

    #[test]
    fn many_ranges_are_merged_into_one() {
        let cache = PageCache::default();
        drop(cache.begin_invalidation(ConcurrentWrites::Possible));
        for page in (0..1_000).step_by(2) {
            cache.note_read(page * PAGE_SIZE..(page + 1) * PAGE_SIZE);
        }
        assert!(cache.tracker.lock().reads.as_ref().unwrap().len() <= MAX_RANGES);
        assert!(cache.note_write(&(998 * PAGE_SIZE..998 * PAGE_SIZE + 1)));
    }
}
