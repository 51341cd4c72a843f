//! The history of a Store: the port, and its values: queries for revisions, the revisions with their node changes, and
//! references to content.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Debug};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use crate::clock::Timestamp;
use crate::identity::{Operation, OperationId};
use crate::store::{
    CaptureScopes, Captured, NodeId, NodeKind, NodePath, OpenContent, RevisionNumber, Store, StorePath,
    StoreResult, VersionTag,
};

/// The past of a Store: every change makes a revision, and revisions can be listed, read and undone.
pub trait History: Debug + Send + Sync {
    /// Whether the content that changes replace or remove can be read later.
    fn retains_content(&self) -> bool;

    /// Whether this is also true of a file of this size, where a change doesn't say otherwise ([`DisplacedContent`]).
    ///
    /// [`DisplacedContent`]: crate::store::DisplacedContent
    fn retains_file(&self, size: u64) -> bool;

    /// The Store as of a revision, for reading. A revision that the Store never had is [`StoreError::NotFound`].
    ///
    /// [`StoreError::NotFound`]: crate::StoreError::NotFound
    fn as_of(&self, revision: RevisionNumber) -> StoreResult<Arc<dyn Store>>;

    /// The newest revision: the present state.
    fn latest_revision(&self) -> StoreResult<RevisionNumber>;

    /// The revision that was the newest at that time.
    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber>;

    /// The revisions that meet the query, newest first, with the states before and after.
    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet>;

    /// The agent's operations that began at `since` or later, changed this Store, are not undone, and don't undo
    /// anything themselves. The newest ones come first, at most `limit` of them.
    ///
    /// Each comes with its newest revision here. Revisions decide which operation is newer, since a clock may go back.
    /// An operation that had no effect in the end may be among them.
    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        let query =
            RevisionQuery { agent: Some(agent.to_owned()), since: Some(since), ..RevisionQuery::all() };
        let mut revisions = self.revisions(&query)?.revisions;
        revisions.retain(|revision| !revision.undone && revision.undoes.is_empty());
        revisions.sort_by_key(|revision| std::cmp::Reverse(revision.number));
        let mut seen = HashSet::new();
        revisions.retain(|revision| seen.insert(revision.operation.id));
        let newest = revisions.into_iter().map(|revision| (revision.number, revision.operation));
        Ok(newest.take(limit).collect())
    }

    /// The changes at and below `paths` that turn the state at `older` into the state at `newer`, by any agent or
    /// program. [`RevisionNumber::NOW`] as `newer` means the present state.
    ///
    /// It may return more changes than asked for. A Store that doesn't see every change returns the ones that it knows.
    fn changes_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        paths: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.revisions(&RevisionQuery { paths: paths.to_vec(), ..RevisionQuery::between(older, newer) })
    }

    /// Copies what has to be copied so that the present state can be read later, as of the revision that a snapshot is
    /// about to name.
    ///
    /// Returns `None` where every revision can be read anyway. `progress` gets the number of names so far, also now and
    /// then within a large file. An error from it ends the capture.
    fn capture(
        &self,
        scopes: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>>;

    /// Opens content that [`History::revisions`] referred to.
    fn open_content(&self, content: &ContentRef) -> StoreResult<Box<dyn OpenContent>>;
}

/// Which revisions a Store returns. A revision has to meet all conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionQuery {
    /// Only revisions after this one.
    pub after: RevisionNumber,
    /// Only revisions up to and including this one.
    pub up_to: RevisionNumber,
    /// Only revisions by this agent.
    pub agent: Option<String>,
    /// Only revisions of these operations; `None` means all. Revisions without node changes are returned only if this
    /// is `Some`.
    pub operations: Option<Vec<OperationId>>,
    /// Only revisions of operations that began at this time or later.
    pub since: Option<Timestamp>,
    /// Only changes to the node that is at this path now, or to nodes that were below it at the time. The node's former
    /// names don't matter.
    pub at: Option<NodePath>,
    /// Only changes to nodes that are or were at or below one of these paths, and to the directories that those nodes
    /// need to be restored; empty means all nodes. For such a node, all changes up to the newest one that meets the
    /// condition are returned, and later ones perhaps. That is enough to restore the node.
    ///
    /// If a directory was moved into one of the paths or out of one, everything in it has a change in that revision too,
    /// whose states differ only in their paths.
    pub paths: Vec<StorePath>,
    /// The maximum number of revisions. The newest ones are returned.
    pub limit: usize,
}

impl RevisionQuery {
    /// All revisions.
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

    /// The revisions that turn the state at `after` into the state at `up_to`.
    pub fn between(after: RevisionNumber, up_to: RevisionNumber) -> Self {
        RevisionQuery { after, up_to, ..RevisionQuery::all() }
    }

    /// Whether revisions of this operation meet the conditions on agent, operation and time.
    pub fn matches(&self, operation: &Operation) -> bool {
        self.agent.as_ref().is_none_or(|agent| *agent == operation.identity.agent)
            && self.operations.as_ref().is_none_or(|ids| ids.contains(&operation.id))
            && self.since.is_none_or(|since| operation.at >= since)
    }
}

/// Revisions, and the current state of the nodes that they changed.
#[derive(Debug, Clone, Default)]
pub struct RevisionSet {
    /// The revisions, newest first.
    pub revisions: Vec<Revision>,
    /// Every node that a node change names, as the changed node or as a parent, if the node exists now.
    pub current: HashMap<NodeId, CurrentNode>,
}

/// One change that was applied.
#[derive(Debug, Clone)]
pub struct Revision {
    /// The revision's number.
    pub number: RevisionNumber,
    /// The operation that the change belongs to.
    pub operation: Operation,
    /// One entry per node, in no particular order; empty if nothing changed.
    pub changes: Vec<NodeChange>,
    /// The path that the change was about, if it changed nothing ([`crate::store::Change::blind_at`]).
    pub blind_at: Option<StorePath>,
    /// The operations that this change undid.
    pub undoes: Vec<OperationId>,
    /// Whether this revision's operation has been undone, and that undo hasn't been undone itself.
    pub undone: bool,
}

/// What a change did to one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeChange {
    /// The node's id.
    pub node: NodeId,
    /// The node's state just before; `None` if it didn't exist.
    pub before: Option<NodeState>,
    /// The node's state just after; `None` if it was removed.
    pub after: Option<NodeState>,
}

/// The state of a node at one revision. Clones share it, because a merge or an undo of many nodes names each state several
/// times; a clone that is changed becomes a state of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeState(Arc<NodeStateFields>);

/// What a [`NodeState`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStateFields {
    /// The directory that the node was in.
    pub parent: NodeId,
    /// The node's name in that directory.
    pub name: Vec<u8>,
    /// The node's path at that revision, from the Store's root.
    pub path: StorePath,
    /// The node's kind.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// The time of the last modification.
    pub modified: Timestamp,
    /// Bytes of a file, or of a symlink's target.
    pub size: u64,
    /// A file's bytes, or a symlink's target. `None` for a directory, or if the content is no longer known.
    pub content: Option<ContentRef>,
}

impl From<NodeStateFields> for NodeState {
    fn from(fields: NodeStateFields) -> Self {
        NodeState(Arc::new(fields))
    }
}

impl Deref for NodeState {
    type Target = NodeStateFields;

    fn deref(&self) -> &NodeStateFields {
        &self.0
    }
}

impl DerefMut for NodeState {
    fn deref_mut(&mut self) -> &mut NodeStateFields {
        Arc::make_mut(&mut self.0)
    }
}

impl fmt::Debug for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The current state of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentNode {
    /// The node's path, from the Store's root.
    pub path: StorePath,
    /// The node's state; `None` for the root.
    pub state: Option<NodeState>,
    /// The tag of this state.
    pub tag: VersionTag,
}

/// A reference to content that a Store holds. Two references are equal if the contents are, as far as the Store can
/// tell.
#[derive(Clone)]
pub struct ContentRef {
    id: RefId,
    size: u64,
    inner: Arc<dyn Any + Send + Sync>,
}

/// The id of a content, in as little memory as possible: a merge holds some references for each changed file.
#[derive(Clone)]
enum RefId {
    Empty,
    Number(i64),
    Other(Arc<LazyContentId>),
}

/// Identifies content within one Store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentId {
    /// The empty content.
    Empty,
    /// The Store's own number for the content.
    Number(i64),
    /// The BLAKE3 hash of the content.
    Hash([u8; 32]),
    /// A hash of where the content lies, for content that can't be read. The same location counts as the same content.
    Location([u8; 32]),
}

/// A content id, or a function that computes it: hashing may have to read the whole content.
struct LazyContentId {
    cached: OnceLock<Option<ContentId>>,
    compute: Option<Box<dyn Fn() -> Option<ContentId> + Send + Sync>>,
}

impl ContentRef {
    /// A reference to content with a known id. The Store finds the content by `inner`.
    pub fn new(id: ContentId, size: u64, inner: impl Any + Send + Sync) -> Self {
        ContentRef::with_shared(id, size, Arc::new(inner))
    }

    /// The same with an `inner` that many references share. The Store finds the content by it and the id.
    pub fn with_shared(id: ContentId, size: u64, inner: Arc<dyn Any + Send + Sync>) -> Self {
        let id = match id {
            ContentId::Empty => RefId::Empty,
            ContentId::Number(number) => RefId::Number(number),
            id @ (ContentId::Hash(_) | ContentId::Location(_)) => {
                RefId::Other(Arc::new(LazyContentId { cached: OnceLock::from(Some(id)), compute: None }))
            }
        };
        ContentRef { id, size, inner }
    }

    /// A reference to content whose id is computed when it is first needed, such as for comparing it with other content
    /// of the same size. If `compute` returns `None`, the id is unknown, and the reference equals only its own clones.
    pub fn with_lazy_id(
        size: u64,
        inner: impl Any + Send + Sync,
        compute: impl Fn() -> Option<ContentId> + Send + Sync + 'static,
    ) -> Self {
        let id = LazyContentId { cached: OnceLock::new(), compute: Some(Box::new(compute)) };
        ContentRef { id: RefId::Other(Arc::new(id)), size, inner: Arc::new(inner) }
    }

    /// The content's size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The content's id, if the Store can tell. The first call may read the whole content.
    pub fn id(&self) -> Option<ContentId> {
        match &self.id {
            RefId::Empty => Some(ContentId::Empty),
            RefId::Number(number) => Some(ContentId::Number(*number)),
            RefId::Other(id) => *id.cached.get_or_init(|| id.compute.as_ref().and_then(|compute| compute())),
        }
    }

    /// What the Store passed as `inner`, if it has this type.
    pub fn inner<T: Any>(&self) -> Option<&T> {
        self.inner.downcast_ref()
    }

    /// What the Store passed as a shared `inner`, if it has this type.
    pub fn shared_inner<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.inner).downcast().ok()
    }

    /// Whether both have the same id because one is a clone of the other.
    fn shares_id(&self, other: &ContentRef) -> bool {
        matches!((&self.id, &other.id), (RefId::Other(one), RefId::Other(other)) if Arc::ptr_eq(one, other))
    }
}

impl PartialEq for ContentRef {
    fn eq(&self, other: &Self) -> bool {
        self.size == other.size
            && (self.shares_id(other) || self.id().is_some_and(|id| other.id() == Some(id)))
    }
}

impl Eq for ContentRef {}

impl fmt::Debug for ContentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known_id = match &self.id {
            RefId::Other(id) => id.cached.get().copied().flatten(),
            RefId::Empty | RefId::Number(_) => self.id(),
        };
        match known_id {
            Some(id) => write!(f, "ContentRef({id:?}, {} bytes)", self.size),
            None => write!(f, "ContentRef({} bytes)", self.size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_hashed_only_when_needed_and_only_once() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let computed = Arc::new(AtomicUsize::new(0));
        let lazy = |size, hash: Option<u8>| {
            let computed = Arc::clone(&computed);
            ContentRef::with_lazy_id(size, (), move || {
                computed.fetch_add(1, Ordering::Relaxed);
                hash.map(|byte| ContentId::Hash([byte; 32]))
            })
        };
        let one = lazy(3, Some(1));
        assert_ne!(one, lazy(4, Some(1)));
        assert_eq!(one, one.clone());
        assert_eq!(computed.load(Ordering::Relaxed), 0, "sizes and sameness need no hash");
        assert_eq!(one, lazy(3, Some(1)));
        assert_ne!(one, lazy(3, Some(2)));
        assert_eq!(computed.load(Ordering::Relaxed), 3);
        let unknown = lazy(3, None);
        assert_ne!(unknown, lazy(3, None));
        assert_eq!(unknown, unknown.clone());
    }
}
