//! The feed: what changed in a Store since a reader last asked.

use std::fmt::Debug;

use crate::store::subscription::{ChangeListener, Subscription};
use crate::store::{NodeId, RevisionNumber, StoreResult};

/// A Store that sees and reports every change to its files.
pub trait ChangeFeed: Debug + Send + Sync {
    /// The changes after `cursor`, oldest first, by any process. With `None` as cursor it returns no changes, only the
    /// cursor that stands for now.
    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed>;

    /// Calls the listener after changes by any process, until the subscription is dropped.
    ///
    /// After every change that is made once this has returned, there is a call, and by then `changes_since` returns the
    /// change. One call may stand for many changes, and a call may come without any change.
    fn subscribe(&self, listener: ChangeListener) -> StoreResult<Subscription>;
}

/// A part of a Store's changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// The changes, oldest first.
    pub changes: Vec<FeedEntry>,
    /// The cursor to continue with.
    pub cursor: RevisionNumber,
    /// Whether there are more changes after these.
    pub more: bool,
}

/// One name that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEntry {
    /// The version that the change made.
    pub revision: RevisionNumber,
    /// What happened.
    pub kind: ChangeKind,
    /// To which node.
    pub node: NodeId,
    /// In which directory.
    pub parent: NodeId,
    /// Under which name.
    pub name: Vec<u8>,
}

/// What happened to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Something new is there.
    Created,
    /// The content changed.
    Written,
    /// Mode or time changed.
    Attributes,
    /// It is gone from here.
    Removed,
    /// It came here from another name; a `MovedFrom` with the same node tells which.
    MovedTo,
    /// It left this name for another.
    MovedFrom,
}
