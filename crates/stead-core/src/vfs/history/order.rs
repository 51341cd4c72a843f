//! What is newer, where several Stores tell of their versions.
//!
//! Within one count of versions the number tells. Between two counts only the time can, which is as right as the clocks
//! were; it never changes the order within a count.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::clock::Timestamp;
use crate::store::{RevisionNumber, Store};
use crate::vfs::as_of::share_sequence;

/// Makes one list, newest first, of what several Stores told. `key` tells the version and the time of an item.
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
        // Of two that began at once, the one of the first Store comes first.
        let Some((index, _)) = heads.max_by_key(|(index, at)| (*at, Reverse(*index))) else { return merged };
        merged.extend(queues[index].pop_front());
    }
}
