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
    pub(crate) fn note_read(&self, stretch: Range<u64>) {
        self.has_pages.store(true, Ordering::SeqCst);
        if self.is_tracking.load(Ordering::SeqCst)
            && let Some(read) = &mut self.tracker.lock().reads
        {
            merge_range(read, stretch);
        }
    }

    /// Call it after a range was written that the kernel has in its pages. Returns whether the kernel has to drop them
    /// again.
    pub(crate) fn note_write(&self, stretch: &Range<u64>) -> bool {
        self.has_pages.store(true, Ordering::SeqCst);
        if !self.is_tracking.load(Ordering::SeqCst) {
            return false;
        }
        let mut doubt = self.tracker.lock();
        let touches = |read: &Range<u64>| {
            read.start < stretch.end.next_multiple_of(PAGE_SIZE)
                && stretch.start / PAGE_SIZE * PAGE_SIZE < read.end
        };
        let is_stale = doubt.reads.iter().flatten().any(touches);
        self.stop_tracking(&mut doubt);
        is_stale
    }

    /// Call it while the kernel lets no program write: all later writes are copied after every invalidation that has
    /// ended.
    pub(crate) fn note_no_writers(&self) {
        if self.is_tracking.load(Ordering::SeqCst) {
            self.stop_tracking(&mut self.tracker.lock());
        }
    }

    fn stop_tracking(&self, doubt: &mut ReadTracker) {
        if doubt.invalidations == 0 {
            doubt.reads = None;
            self.is_tracking.store(false, Ordering::SeqCst);
        }
    }

    /// Call it before the kernel is made to drop pages, and hold the guard until it has.
    pub(crate) fn begin_invalidation(&self, writes: ConcurrentWrites) -> InvalidationGuard<'_> {
        let mut doubt = self.tracker.lock();
        doubt.invalidations += 1;
        if writes == ConcurrentWrites::Possible {
            doubt.reads.get_or_insert_default();
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

fn merge_range(read: &mut Vec<Range<u64>>, mut new: Range<u64>) {
    read.retain(|old| {
        let apart = old.end < new.start || new.end < old.start;
        if !apart {
            new = old.start.min(new.start)..old.end.max(new.end);
        }
        apart
    });
    read.push(new);
    if read.len() > MAX_RANGES {
        let start = read.iter().map(|read| read.start).min().unwrap_or(0);
        let end = read.iter().map(|read| read.end).max().unwrap_or(0);
        read.clear();
        read.push(start..end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_read_between_its_dropping_and_the_next_write_is_dropped_again() {
        let cache = PageCache::default();
        cache.note_read(0..4096);
        assert!(!cache.note_write(&(100..200)), "nothing was dropped");
        drop(cache.begin_invalidation(ConcurrentWrites::Possible));
        assert!(!cache.has_pages());
        cache.note_read(0..4096);
        cache.note_read(40_960..45_056);
        assert!(cache.has_pages());
        assert!(cache.note_write(&(4_000..5_000)));
        assert!(!cache.note_write(&(100..200)), "it was copied after the dropping");
        drop(cache.begin_invalidation(ConcurrentWrites::Possible));
        cache.note_read(0..4096);
        assert!(!cache.note_write(&(4_096..5_000)), "another page");
    }

    #[test]
    fn writes_during_a_dropping_settle_nothing() {
        let cache = PageCache::default();
        let dropping = cache.begin_invalidation(ConcurrentWrites::Possible);
        cache.note_read(0..4096);
        assert!(cache.note_write(&(0..10)));
        assert!(cache.note_write(&(0..10)), "it may have been copied before the page went");
        drop(dropping);
        assert!(cache.note_write(&(0..10)));
        assert!(!cache.note_write(&(0..10)));
    }

    #[test]
    fn nothing_is_in_doubt_where_the_kernel_lets_nobody_write() {
        let cache = PageCache::default();
        drop(cache.begin_invalidation(ConcurrentWrites::Blocked));
        cache.note_read(0..4096);
        assert!(!cache.note_write(&(0..10)));
        drop(cache.begin_invalidation(ConcurrentWrites::Possible));
        cache.note_read(0..4096);
        cache.note_no_writers();
        assert!(!cache.note_write(&(0..10)));
    }

    #[test]
    fn many_stretches_become_one() {
        let cache = PageCache::default();
        drop(cache.begin_invalidation(ConcurrentWrites::Possible));
        for page in (0..1_000).step_by(2) {
            cache.note_read(page * PAGE_SIZE..(page + 1) * PAGE_SIZE);
        }
        assert!(cache.tracker.lock().reads.as_ref().unwrap().len() <= MAX_RANGES);
        assert!(cache.note_write(&(998 * PAGE_SIZE..998 * PAGE_SIZE + 1)));
    }
}
