//! Edits of one file, or appends to it, that wait for their turn together are made together.
//!
//! Whoever has a file's name waits for the disk before it lets go, so with many callers at one file each would wait for
//! the disk as often as there are others before it. Instead, the first of a process's callers waits for the name, and
//! those who come meanwhile leave what they want with it: it does that one after the other, and waits for the disk once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use stead_core::store::{Attr, Outcome, StoreResult, VersionTag};

/// A name in a directory.
pub(super) type Key = (u64, Vec<u8>);

/// What waits, by the file's name.
#[derive(Debug)]
pub(super) struct Together<T>(Mutex<HashMap<Key, Vec<Left<T>>>>);

impl<T> Default for Together<T> {
    fn default() -> Self {
        Together(Mutex::default())
    }
}

/// What a caller has left with whoever waits for the name.
#[derive(Debug)]
pub(super) struct Left<T> {
    pub(super) wanted: T,
    answer: SyncSender<StoreResult<Outcome>>,
}

impl<T> Left<T> {
    /// Tells how it went. Without an answer nothing was done, and the caller tries on its own.
    pub(super) fn answer(self, result: StoreResult<Outcome>) {
        // Nobody listens any more if the caller's thread is gone.
        let _ = self.answer.send(result);
    }
}

/// What a caller does.
pub(super) enum Part<'a, T> {
    /// It waits for the name, and does what the others want after its own.
    Leads(Leader<'a, T>),
    /// Someone else does it. Nothing is received if that one could not.
    Waits(Receiver<StoreResult<Outcome>>),
}

impl<T> Together<T> {
    pub(super) fn join(&self, key: Key, wanted: &T) -> Part<'_, T>
    where
        T: Clone,
    {
        match self.0.lock().entry(key) {
            Entry::Vacant(vacant) => {
                let key = vacant.key().clone();
                vacant.insert(Vec::new());
                Part::Leads(Leader { together: self, key: Some(key) })
            }
            Entry::Occupied(mut line) => {
                let (answer, receiver) = sync_channel(1);
                line.get_mut().push(Left { wanted: wanted.clone(), answer });
                Part::Waits(receiver)
            }
        }
    }

    fn close(&self, key: &Key) -> Vec<Left<T>> {
        self.0.lock().remove(key).unwrap_or_default()
    }
}

/// Whoever waits for a name on behalf of others. Dropped before it has its turn, it leaves them to themselves.
#[derive(Debug)]
pub(super) struct Leader<'a, T> {
    together: &'a Together<T>,
    key: Option<Key>,
}

impl<T> Leader<'_, T> {
    /// Takes what was left until now; whoever comes later leads or waits anew.
    pub(super) fn close(mut self) -> Vec<Left<T>> {
        let key = self.key.take().expect("closed once");
        self.together.close(&key)
    }
}

impl<T> Drop for Leader<'_, T> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            drop(self.together.close(&key));
        }
    }
}

/// A file's states while one thing after the other is done to it.
pub(super) struct States {
    first: VersionTag,
    last: VersionTag,
}

/// What one of them did.
#[derive(Debug)]
pub(super) struct Made {
    before: VersionTag,
    after: VersionTag,
    size: u64,
    replaced: usize,
}

impl States {
    pub(super) fn new(tag: VersionTag) -> Self {
        States { first: tag, last: tag }
    }

    pub(super) fn is_changed(&self) -> bool {
        self.first != self.last
    }

    /// From the last state to the next.
    pub(super) fn next(&mut self, size: u64, replaced: usize) -> Made {
        // No file is ever seen in a state between two of these. Its tag matches nothing: whoever builds on it has not
        // seen what followed, and is told so.
        let after = VersionTag(fastrand::u128(..));
        Made { before: std::mem::replace(&mut self.last, after), after, size, replaced }
    }

    /// What the caller is told, given how the file was left in the end.
    pub(super) fn outcome(&self, made: Made, left: Option<Attr>) -> Outcome {
        let Made { before, after, size, replaced } = made;
        let attr =
            left.map(|attr| Attr { size, tag: if after == self.last { attr.tag } else { after }, ..attr });
        Outcome { attr, before: Some(before), created: false, replaced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        (7, b"file".to_vec())
    }

    #[test]
    fn the_first_leads_and_answers_the_others() {
        let together = Together::default();
        let Part::Leads(leader) = together.join(key(), &1) else { panic!("nobody else was there") };
        let Part::Waits(answer) = together.join(key(), &2) else { panic!("someone leads") };
        assert!(matches!(together.join((8, b"file".to_vec()), &3), Part::Leads(_)));
        let left = leader.close();
        assert!(matches!(together.join(key(), &4), Part::Leads(_)), "those who come later start anew");
        assert_eq!(left.iter().map(|left| left.wanted).collect::<Vec<_>>(), [2]);
        left.into_iter().for_each(|left| left.answer(Ok(Outcome { replaced: 3, ..Outcome::default() })));
        assert_eq!(answer.recv().unwrap().unwrap().replaced, 3);
    }

    #[test]
    fn nobody_waits_for_a_leader_that_failed() {
        let together = Together::default();
        let leader = together.join(key(), &1);
        let Part::Waits(answer) = together.join(key(), &2) else { panic!("someone leads") };
        drop(leader);
        assert!(answer.recv().is_err());
        assert!(matches!(together.join(key(), &3), Part::Leads(_)));
    }

    #[test]
    fn states_follow_one_another() {
        let mut states = States::new(VersionTag(1));
        assert!(!states.is_changed());
        let (first, second) = (states.next(9, 1), states.next(4, 2));
        assert!(states.is_changed());
        assert_eq!((first.before, second.before), (VersionTag(1), first.after));
        assert_ne!(first.after, second.after);
        let between = states.outcome(first, None);
        assert_eq!((between.before, between.replaced), (Some(VersionTag(1)), 1));
    }
}
