//! What was, and who made it what it is: the deeds of a Store.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::clock::Timestamp;
use crate::identity::{Operation, OperationId};
use crate::store::{NodeId, NodeKind, NodePath, RevisionNumber, StorePath, VersionTag};

/// Which deeds are wanted. All conditions hold together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionQuery {
    /// Only versions after this one.
    pub after: RevisionNumber,
    /// Only versions up to this one.
    pub up_to: RevisionNumber,
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only of these operations; of all, where it is `None`. Versions that changed nothing are told only where operations are
    /// asked for.
    pub operations: Option<Vec<OperationId>>,
    /// Only those that began at this moment or later.
    pub since: Option<Timestamp>,
    /// Only what happened to this, or below it: by what it is now, not by the names it had.
    pub at: Option<NodePath>,
    /// Only what was at one of these paths or below, or is now, and the directories that it needs to come back;
    /// everything, where it is empty. Of such a node, what was done before it first counted is always told, what was
    /// done later perhaps: enough to put it back.
    pub paths: Vec<StorePath>,
    /// At most so many deeds, the newest ones.
    pub limit: usize,
}

impl RevisionQuery {
    /// Everything.
    pub fn all() -> Self {
        RevisionQuery {
            after: RevisionNumber(0),
            up_to: RevisionNumber(i64::MAX),
            agent: None,
            operations: None,
            since: None,
            at: None,
            paths: Vec::new(),
            limit: usize::MAX,
        }
    }

    /// Everything between two versions: what made the second out of the first.
    pub fn between(after: RevisionNumber, up_to: RevisionNumber) -> Self {
        RevisionQuery { after, up_to, ..RevisionQuery::all() }
    }

    /// Whether deeds of this operation are wanted.
    pub fn matches(&self, operation: &Operation) -> bool {
        self.agent.as_ref().is_none_or(|agent| *agent == operation.identity.agent)
            && self.operations.as_ref().is_none_or(|ids| ids.contains(&operation.id))
            && self.since.is_none_or(|since| operation.at >= since)
    }
}

/// Deeds, and what has become of what they were done to.
#[derive(Debug, Clone, Default)]
pub struct RevisionSet {
    /// The deeds, newest first.
    pub revisions: Vec<Revision>,
    /// Every node that a line names, itself or as a parent, as far as it is there now.
    pub current: HashMap<NodeId, CurrentNode>,
}

/// One change that was made.
#[derive(Debug, Clone)]
pub struct Revision {
    /// The version it made.
    pub number: RevisionNumber,
    /// The operation it belongs to.
    pub operation: Operation,
    /// What it did: one line per node, in no particular order. None, where it changed nothing.
    pub changes: Vec<NodeChange>,
    /// The path that it was about, where it changed nothing ([`crate::store::Change::blind_at`]).
    pub blind_at: Option<StorePath>,
    /// The operations that it took back.
    pub undoes: Vec<OperationId>,
    /// Whether its operation has been taken back, and that has not been taken back itself.
    pub undone: bool,
}

/// What a change did to one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeChange {
    /// Which node.
    pub node: NodeId,
    /// What it was just before; `None` where it was not there.
    pub before: Option<NodeState>,
    /// What it was just after; `None` where it was gone.
    pub after: Option<NodeState>,
}

/// What a node was at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// The directory it was in.
    pub parent: NodeId,
    /// Its name there.
    pub name: Vec<u8>,
    /// Its path then, from the Store's root.
    pub path: StorePath,
    /// What it was.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// When it was last modified.
    pub modified: Timestamp,
    /// Bytes in a file, or of a symlink's target.
    pub size: u64,
    /// What it held: a file's bytes, or a symlink's target. `None` where that is no longer known.
    pub content: Option<ContentRef>,
}

/// What a node is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentNode {
    /// Its path from the Store's root.
    pub path: StorePath,
    /// Its state; `None` for the root.
    pub state: Option<NodeState>,
    /// Tells this state from every other.
    pub tag: VersionTag,
}

/// Content that a Store has kept. Two are equal if their bytes are, as far as the Store can tell.
#[derive(Clone)]
pub struct ContentRef {
    id: Arc<LazyContentId>,
    size: u64,
    inner: Arc<dyn Any + Send + Sync>,
}

/// What tells one content from another within a Store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentId {
    /// No bytes.
    Empty,
    /// The Store's own number for these bytes.
    Number(i64),
    /// Their BLAKE3 hash.
    Hash([u8; 32]),
    /// A hash of where they are, for bytes that can't be read: what is in the same place is the same.
    Location([u8; 32]),
}

/// An identity, or a way to find it: hashing may mean to read all of it.
struct LazyContentId {
    cached: OnceLock<Option<ContentId>>,
    compute: Option<Box<dyn Fn() -> Option<ContentId> + Send + Sync>>,
}

impl ContentRef {
    /// Content that the Store finds again by `inner`.
    pub fn new(identity: ContentId, size: u64, inner: impl Any + Send + Sync) -> Self {
        let identity = LazyContentId { cached: OnceLock::from(Some(identity)), compute: None };
        ContentRef { id: Arc::new(identity), size, inner: Arc::new(inner) }
    }

    /// Content whose identity is asked for when it is compared with other content of the same size. `None` means that
    /// it can't be told, and then it equals nothing but itself.
    pub fn with_lazy_id(
        size: u64,
        inner: impl Any + Send + Sync,
        find: impl Fn() -> Option<ContentId> + Send + Sync + 'static,
    ) -> Self {
        let identity = LazyContentId { cached: OnceLock::new(), compute: Some(Box::new(find)) };
        ContentRef { id: Arc::new(identity), size, inner: Arc::new(inner) }
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What tells it from other content, where the Store can tell.
    pub fn id(&self) -> Option<ContentId> {
        *self.id.cached.get_or_init(|| self.id.compute.as_ref().and_then(|find| find()))
    }

    /// What the Store gave, if it is this Store's.
    pub fn inner<T: Any>(&self) -> Option<&T> {
        self.inner.downcast_ref()
    }
}

impl PartialEq for ContentRef {
    fn eq(&self, other: &Self) -> bool {
        self.size == other.size
            && (Arc::ptr_eq(&self.id, &other.id)
                || self.id().is_some_and(|identity| other.id() == Some(identity)))
    }
}

impl Eq for ContentRef {}

impl fmt::Debug for ContentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id.cached.get() {
            Some(Some(identity)) => write!(f, "Past({identity:?}, {} bytes)", self.size),
            Some(None) | None => write!(f, "Past({} bytes)", self.size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_hashed_when_it_has_to_be_and_once() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let asked = Arc::new(AtomicUsize::new(0));
        let unhashed = |size, hash: Option<u8>| {
            let asked = Arc::clone(&asked);
            ContentRef::with_lazy_id(size, (), move || {
                asked.fetch_add(1, Ordering::Relaxed);
                hash.map(|byte| ContentId::Hash([byte; 32]))
            })
        };
        let one = unhashed(3, Some(1));
        assert_ne!(one, unhashed(4, Some(1)));
        assert_eq!(one, one.clone());
        assert_eq!(asked.load(Ordering::Relaxed), 0, "sizes and sameness need no hash");
        assert_eq!(one, unhashed(3, Some(1)));
        assert_ne!(one, unhashed(3, Some(2)));
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        let unknown = unhashed(3, None);
        assert_ne!(unknown, unhashed(3, None));
        assert_eq!(unknown, unknown.clone());
    }
}
