//! Which revisions in a Store's feed are echoes: changes that were made through this `Vfs`.
//!
//! A reader of a Store's feed also gets the changes made through its own `Vfs`, which it knows already. It can't tell
//! them from the content of the feed, since a name may have changed again since. So the revisions are tracked, from
//! when a reader (a mount's `FeedFollower`) starts to follow until the feed has reported them. A `Vfs` has one reader at most.

use std::collections::{BTreeSet, HashMap};

use parking_lot::{Condvar, Mutex};

use crate::store::{RevisionId, RevisionNumber, StoreId};

/// The revisions made through one `Vfs`; empty until `start_tracking`.
#[derive(Debug, Default)]
pub(super) struct FeedEchoes {
    state: Mutex<Option<TrackedRevisions>>,
    change_ended: Condvar,
}

#[derive(Debug, Default)]
struct TrackedRevisions {
    last_change: u64,
    pending: BTreeSet<u64>,
    revisions: HashMap<StoreId, BTreeSet<RevisionNumber>>,
}

/// A change in progress. Dropping it ends the change.
pub(super) struct PendingChange<'o> {
    revisions: &'o FeedEchoes,
    number: u64,
}

impl FeedEchoes {
    /// Tracks revisions from now on.
    pub(super) fn start_tracking(&self) {
        self.state.lock().get_or_insert_default();
    }

    /// Notes that a change begins; `None` if revisions are not tracked.
    pub(super) fn begin_change(&self) -> Option<PendingChange<'_>> {
        let mut state = self.state.lock();
        let state = state.as_mut()?;
        state.last_change += 1;
        state.pending.insert(state.last_change);
        Some(PendingChange { revisions: self, number: state.last_change })
    }

    /// Waits until every change that has begun by now has ended. After that, `contains` is right for every revision
    /// that the feed reported before this call.
    pub(super) fn wait_for_pending(&self) {
        let mut state = self.state.lock();
        let Some(last) = state.as_ref().map(|state| state.last_change) else { return };
        let is_pending = |state: &mut Option<TrackedRevisions>| {
            state.as_ref().and_then(|state| state.pending.first()).is_some_and(|first| *first <= last)
        };
        self.change_ended.wait_while(&mut state, is_pending);
    }

    /// Whether a revision that the feed reports now was made through this `Vfs`. Only right while revisions are tracked, and
    /// before [`FeedEchoes::forget_up_to`].
    pub(super) fn contains(&self, revision: RevisionId) -> bool {
        let state = self.state.lock();
        let numbers = state.as_ref().and_then(|state| state.revisions.get(&revision.store));
        numbers.is_some_and(|numbers| numbers.contains(&revision.number))
    }

    /// Forgets all revisions of the Store up to this one: the feed has reported them.
    pub(super) fn forget_up_to(&self, reported: RevisionId) {
        if let Some(numbers) =
            self.state.lock().as_mut().and_then(|state| state.revisions.get_mut(&reported.store))
        {
            *numbers = numbers.split_off(&RevisionNumber(reported.number.0 + 1));
        }
    }
}

impl PendingChange<'_> {
    /// Records the revision that the change has made.
    pub(super) fn record_revision(&self, revision: RevisionId) {
        if let Some(state) = self.revisions.state.lock().as_mut() {
            state.revisions.entry(revision.store).or_default().insert(revision.number);
        }
    }
}

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.revisions.state.lock().as_mut() {
            state.pending.remove(&self.number);
        }
        self.revisions.change_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn revisions_are_known_until_the_feed_has_reported_them() {
        let (own_revisions, one, other) = (FeedEchoes::default(), StoreId::fresh(), StoreId::fresh());
        let revision = |store, number| RevisionId { store, number: RevisionNumber(number) };
        assert!(own_revisions.begin_change().is_none(), "nobody follows");
        own_revisions.start_tracking();
        let change = own_revisions.begin_change().unwrap();
        change.record_revision(revision(one, 1));
        change.record_revision(revision(one, 3));
        drop(change);
        assert!(own_revisions.contains(revision(one, 1)) && own_revisions.contains(revision(one, 3)));
        assert!(!own_revisions.contains(revision(one, 2)) && !own_revisions.contains(revision(other, 1)));
        own_revisions.forget_up_to(revision(one, 2));
        assert!(!own_revisions.contains(revision(one, 1)) && own_revisions.contains(revision(one, 3)));
    }

    #[test]
    fn the_check_waits_for_changes_that_have_begun_and_not_for_later_ones() {
        let own_revisions = FeedEchoes::default();
        own_revisions.start_tracking();
        let first = own_revisions.begin_change().unwrap();
        let (is_waiting, has_returned) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                is_waiting.store(true, Ordering::SeqCst);
                own_revisions.wait_for_pending();
                has_returned.store(true, Ordering::SeqCst);
            });
            while !is_waiting.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            // The call takes a moment to see which changes have begun.
            std::thread::sleep(Duration::from_millis(500));
            let _later = own_revisions.begin_change().unwrap();
            assert!(!has_returned.load(Ordering::SeqCst));
            drop(first);
            let deadline = Instant::now() + Duration::from_secs(30);
            while !has_returned.load(Ordering::SeqCst) {
                assert!(Instant::now() < deadline, "it waits for the later change");
                std::thread::yield_now();
            }
        });
    }
}
