//! Merges the histories of several Stores into one order.
//!
//! Stores that share a sequence are ordered by revision number. Between two sequences only the time can decide, which
//! is as accurate as the clocks were. Time never changes the order within a sequence.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::clock::Timestamp;
use crate::store::{RevisionNumber, Store};
use crate::vfs::as_of::share_sequence;

/// Merges the items of several Stores into one list, newest first. `key` returns the revision and the time of an item.
pub(super) fn newest_first<T>(
    told: Vec<(&dyn Store, Vec<T>)>,
    key: impl Fn(&T) -> (RevisionNumber, Timestamp),
) -> Vec<T> {
    let mut counts: Vec<(&dyn Store, Vec<T>)> = Vec::new();
    for (store, items) in told.into_iter().filter(|(_, items)| !items.is_empty()) {
        match counts.iter_mut().find(|(other, _)| share_sequence(*other, store)) {
            Some((_, together)) => together.extend(items),
            None => counts.push((store, items)),
        }
    }
    let mut queues: Vec<VecDeque<T>> = Vec::with_capacity(counts.len());
    for (_, mut items) in counts {
        items.sort_by_key(|item| Reverse(key(item).0));
        queues.push(items.into());
    }
    let mut merged = Vec::new();
    loop {
        let heads =
            queues.iter().enumerate().filter_map(|(index, queue)| Some((index, key(queue.front()?).1)));
        // At equal times, the item of the Store listed first comes first.
        let Some((index, _)) = heads.max_by_key(|(index, at)| (*at, Reverse(*index))) else { return merged };
        merged.extend(queues[index].pop_front());
    }
}
