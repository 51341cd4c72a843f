//! Merges the histories of several Stores into one order.
//!
//! The revisions of Stores of one database are ordered by their numbers. Between two databases only the time can decide,
//! which is as accurate as the clocks were. Time never changes the order within a database.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::clock::Timestamp;
use crate::store::{RevisionNumber, Store};

/// Merges the items of several Stores into one list, newest first. `key` returns the revision and the time of an item.
pub(super) fn newest_first<T>(
    by_store: Vec<(&dyn Store, Vec<T>)>,
    key: impl Fn(&T) -> (RevisionNumber, Timestamp),
) -> Vec<T> {
    let mut by_database: Vec<(&dyn Store, Vec<T>)> = Vec::new();
    for (store, items) in by_store.into_iter().filter(|(_, items)| !items.is_empty()) {
        match by_database.iter_mut().find(|(other, _)| other.shares_revisions_with(store)) {
            Some((_, merged_items)) => merged_items.extend(items),
            None => by_database.push((store, items)),
        }
    }
    let mut queues: Vec<VecDeque<T>> = Vec::with_capacity(by_database.len());
    for (_, mut items) in by_database {
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
