//! Edits of one file that wait for their turn together are made together.
//!
//! An edit has to be on the disk before its file may be edited again, so with many callers at one file each would wait
//! for the syncs of all before it. Instead, the first of a process's callers waits for the name, and those who come
//! meanwhile leave their edits with it: it makes them one after the other, and the disk is waited for once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use stead_core::Edit;
use stead_core::store::{Outcome, StoreResult, VersionTag};

/// A name in a directory.
pub(super) type Key = (u64, Vec<u8>);

/// The edits that wait, by the file's name.
#[derive(Debug, Default)]
pub(super) struct Together(Mutex<HashMap<Key, Vec<Left>>>);

/// An edit left with whoever waits for the name.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) edit: Edit,
    answer: SyncSender<StoreResult<Outcome>>,
}

impl Left {
    /// Tells how it went. One that is dropped without an answer was not made; its caller tries on its own.
    pub(super) fn answer(self, result: StoreResult<Outcome>) {
        // Nobody listens any more if the caller's thread is gone.
        let _ = self.answer.send(result);
    }
}

/// What a caller does with its edit.
pub(super) enum Part<'a> {
    /// It waits for the name, and makes the others' edits after its own.
    Leads(Leader<'a>),
    /// Someone else makes it. Nothing is received if that one could not.
    Waits(Receiver<StoreResult<Outcome>>),
}

impl Together {
    pub(super) fn join(&self, key: Key, edit: &Edit) -> Part<'_> {
        match self.0.lock().entry(key) {
            Entry::Vacant(vacant) => {
                let key = vacant.key().clone();
                vacant.insert(Vec::new());
                Part::Leads(Leader { together: self, key: Some(key) })
            }
            Entry::Occupied(mut line) => {
                let (answer, receiver) = sync_channel(1);
                line.get_mut().push(Left { edit: edit.clone(), answer });
                Part::Waits(receiver)
            }
        }
    }

    fn close(&self, key: &Key) -> Vec<Left> {
        self.0.lock().remove(key).unwrap_or_default()
    }
}

/// Whoever waits for a name on behalf of others. Dropped before it has its turn, it leaves them to themselves.
#[derive(Debug)]
pub(super) struct Leader<'a> {
    together: &'a Together,
    key: Option<Key>,
}

impl Leader<'_> {
    /// Takes what was left until now; whoever comes later leads or waits anew.
    pub(super) fn close(mut self) -> Vec<Left> {
        let key = self.key.take().expect("closed once");
        self.together.close(&key)
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            drop(self.together.close(&key));
        }
    }
}

/// A file's content while edits are made, one after the other.
pub(super) struct Edited {
    pub(super) content: Vec<u8>,
    pub(super) tag: VersionTag,
    pub(super) changed: bool,
}

/// What one edit did.
pub(super) struct Made {
    pub(super) before: VersionTag,
    pub(super) after: VersionTag,
    pub(super) size: u64,
    pub(super) replaced: usize,
}

impl Edited {
    pub(super) fn new(content: Vec<u8>, tag: VersionTag) -> Self {
        Edited { content, tag, changed: false }
    }

    /// One that fails leaves the content to the next as it was.
    pub(super) fn make(&mut self, edit: &Edit) -> StoreResult<Made> {
        let (content, replaced) = edit.apply(&self.content)?;
        let before = self.tag;
        // No file is ever seen in the states between two edits. Their tags match nothing: whoever builds on one of them
        // has not seen the edits that followed, and is told so.
        self.tag = VersionTag(fastrand::u128(..));
        self.content = content;
        self.changed = true;
        Ok(Made { before, after: self.tag, size: self.content.len() as u64, replaced })
    }
}

#[cfg(test)]
mod tests {
    use stead_core::Occurrences;

    use super::*;

    fn edit() -> Edit {
        Edit::new("a", "b", Occurrences::One).unwrap()
    }

    #[test]
    fn the_first_leads_and_answers_the_others() {
        let together = Together::default();
        let key = || (7, b"file".to_vec());
        let Part::Leads(leader) = together.join(key(), &edit()) else { panic!("nobody else was there") };
        let Part::Waits(answer) = together.join(key(), &edit()) else { panic!("someone leads") };
        assert!(matches!(together.join((8, b"file".to_vec()), &edit()), Part::Leads(_)));
        let left = leader.close();
        assert!(matches!(together.join(key(), &edit()), Part::Leads(_)), "those who come later start anew");
        assert_eq!(left.len(), 1);
        left.into_iter().for_each(|left| left.answer(Ok(Outcome { replaced: 3, ..Outcome::default() })));
        assert_eq!(answer.recv().unwrap().unwrap().replaced, 3);
    }

    #[test]
    fn nobody_waits_for_a_leader_that_failed() {
        let together = Together::default();
        let key = || (7, b"file".to_vec());
        let leader = together.join(key(), &edit());
        let Part::Waits(answer) = together.join(key(), &edit()) else { panic!("someone leads") };
        drop(leader);
        assert!(answer.recv().is_err());
        assert!(matches!(together.join(key(), &edit()), Part::Leads(_)));
    }

    #[test]
    fn edits_build_on_each_other_and_a_failed_one_changes_nothing() {
        let edit = |old: &str, new: &str| Edit::new(old, new, Occurrences::One).unwrap();
        let mut edited = Edited::new(b"one two".to_vec(), VersionTag(1));
        let first = edited.make(&edit("one", "three")).unwrap();
        assert!(edited.make(&edit("one", "four")).is_err());
        let second = edited.make(&edit("three two", "done")).unwrap();
        assert_eq!(edited.content, b"done");
        assert_eq!((first.before, first.size), (VersionTag(1), 9));
        assert_eq!((second.before, second.size), (first.after, 4));
        assert_ne!(first.after, second.after);
    }
}
