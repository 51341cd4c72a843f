//! The Store port: what stands behind a Workspace.
//!
//! A Store reads, lists and searches, and changes things through one call, [`Store::apply`]. It knows nothing of
//! agents, scopes or Workspaces; the door ([`crate::Vfs`]) has decided all of that before a Store is called. It never
//! follows a symlink: it answers [`StoreError::Link`], and the door routes and guards the target.

mod attr;
mod capture;
mod change;
mod draft;
mod error;
mod fork;
mod history;
mod path_filter;
mod quota;
mod store_path;

pub use attr::{
    Attr, Entry, FileContent, InvalidVersionTag, Listing, NodeId, NodeKind, Page, RevisionNumber, ShortTag,
    SpecialKind, TagRef, VersionTag, WalkEntry,
};
pub use capture::{CaptureScope, CaptureScopes, Captured, Coverage};
pub use change::{
    Applied, Change, CompanionRecord, Content, DisplacedContent, IfMissing, Parents, Precondition,
    ProtectedNames, PutOptions, Replace, Step, StepOutcome, Subtree, SyncPolicy,
};
pub use draft::{Draft, DraftBase, OpenContent, SealedContent};
pub use error::{LinkHit, Side, StoreError, StoreResult};
pub use fork::{Fork, ForkName, InvalidForkName};
pub use history::{
    ContentId, ContentRef, CurrentNode, NodeChange, NodeState, Revision, RevisionQuery, RevisionSet,
};
pub use path_filter::PathFilter;
pub use quota::{QuotaLimits, QuotaResource, QuotaRoot, Usage};
pub use store_path::{NodePath, StorePath};

use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::audit::AuditLogId;
use crate::clock::Timestamp;
use crate::identity::Operation;
use crate::search::{FileHits, Grep, WalkOptions};

/// A place that holds files.
///
/// Every method may be called from any number of threads at once. Reads see whole changes only. What each method
/// promises is held by the behaviour suite in [`crate::testkit`].
pub trait Store: Debug + Send + Sync {
    /// What kind of Store this is, and what it can do.
    fn info(&self) -> StoreInfo;

    /// Attributes of what lies at `at`; of a symlink itself where the last component is one.
    fn stat(&self, at: &NodePath) -> StoreResult<Attr>;

    /// [`Store::stat`] for many places. A Store over a network answers all of them in few round trips.
    fn stat_many(&self, at: &[NodePath]) -> Vec<StoreResult<Attr>> {
        at.iter().map(|place| self.stat(place)).collect()
    }

    /// A whole file. One over `limit` bytes is [`StoreError::TooLarge`], before memory is taken for it.
    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent>;

    /// [`Store::read`] for many places.
    fn read_many(&self, at: &[NodePath], limit: u64) -> Vec<StoreResult<FileContent>> {
        at.iter().map(|place| self.read(place, limit)).collect()
    }

    /// Opens a file for reading. What it returns stays readable after the file is removed, replaced or renamed.
    fn open(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>>;

    /// Opens a file for somebody who may write it and need not read it, or who has just made it. So its mode does not
    /// matter: a caller that reads opens it with [`Store::open`].
    fn open_to_write(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>> {
        self.open(at)
    }

    /// The target of a symlink, as it was written.
    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>>;

    /// The entries of a directory, sorted by the bytes of their names.
    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing>;

    /// Everything below a directory, sorted by path (component by component); the directory itself is not visited.
    ///
    /// Symlinks are visited, never followed. A directory that can't be looked into is visited, noted in `walk.unread`
    /// and passed by.
    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()>;

    /// Searches the content of the files below `at`, or of the one file there. Files come in any order. What can't be
    /// looked into is noted in `grep.unread` and passed by.
    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()>;

    /// Starts writing content that no one sees until a change puts it somewhere.
    ///
    /// Content of any size passes through a draft in constant memory. A draft that is dropped leaves nothing behind.
    fn draft(&self, of: DraftBase<'_>) -> StoreResult<Box<dyn Draft>>;

    /// Makes a change: all of its steps, in order, or none.
    ///
    /// When it returns `Ok`, the change is as durable as the Store was opened to be.
    fn apply(&self, change: Change) -> StoreResult<Applied>;

    /// Waits until every change that was acknowledged so far is on the disk, also those that could wait
    /// (`SyncPolicy::Deferred`), as far as the Store was opened to be durable.
    fn sync(&self) -> StoreResult<()>;

    /// What has changed after `cursor`, oldest first, whoever changed it; `None` as cursor means "from now on".
    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed>;

    /// This Store as it was at a version, for reading.
    ///
    /// A Store without history answers [`StoreError::Unsupported`], a version that it never had is not found.
    fn as_of(&self, _version: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        Err(StoreError::Unsupported("this Store keeps no history"))
    }

    /// The newest version: what the Store holds now.
    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        Err(StoreError::Unsupported("this Store keeps no history"))
    }

    /// The version that was the newest at that time.
    fn revision_at(&self, _time: Timestamp) -> StoreResult<RevisionNumber> {
        Err(StoreError::Unsupported("this Store keeps no history"))
    }

    /// Who counts the versions. A number names the same moment in all Stores that are counted together; `None` where
    /// this one counts for itself.
    fn revision_sequence(&self) -> Option<RevisionSequence> {
        None
    }

    /// What has been done to this Store, newest first, with what was there before and after.
    fn revisions(&self, _query: &RevisionQuery) -> StoreResult<RevisionSet> {
        Err(StoreError::Unsupported("this Store keeps no history"))
    }

    /// The operations of an agent that have changed this Store, began at `since` or later, and stand: they have not been
    /// taken back, and take nothing back themselves. The newest ones come first, and at most `limit` of them.
    ///
    /// Each comes with the newest version that it made here, and versions tell which one is newer: a clock may go back.
    ///
    /// One that came to nothing in the end may be among them.
    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        let query =
            RevisionQuery { agent: Some(agent.to_owned()), since: Some(since), ..RevisionQuery::all() };
        let mut deeds = self.revisions(&query)?.revisions;
        deeds.retain(|deed| !deed.undone && deed.undoes.is_empty());
        deeds.sort_by_key(|deed| std::cmp::Reverse(deed.number));
        let mut seen = HashSet::new();
        deeds.retain(|deed| seen.insert(deed.operation.id));
        Ok(deeds.into_iter().map(|deed| (deed.number, deed.operation)).take(limit).collect())
    }

    /// What makes the newer version out of the older one at and below some paths, whoever did it; up to
    /// [`RevisionNumber::NOW`] it is what makes what is there now.
    ///
    /// There may be more than was asked for. A Store that does not see every change tells those that it knows.
    fn changes_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.revisions(&RevisionQuery { paths: below.to_vec(), ..RevisionQuery::between(older, newer) })
    }

    /// Makes sure that what is there now can be looked at later, as of the version that a snapshot is about to name.
    ///
    /// Where every version can be looked at, there is nothing to do, and nothing is returned. `progress` gets the number
    /// of names that were looked at so far, also now and then within a large file; its error ends the capture.
    fn capture(
        &self,
        _extents: &CaptureScopes,
        _operation: &Operation,
        _progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        Ok(None)
    }

    /// Opens content that [`Store::revisions`] told of.
    fn open_content(&self, _past: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        Err(StoreError::Unsupported("this Store keeps no history"))
    }

    /// Makes a fork of this Store as it is now, and writes down whose it is.
    ///
    /// A fork begins with what the Store holds, under the same nodes and in the same states, and goes its own way: it
    /// never changes its base, and never sees what happens to it. Its history begins with it, and the Store can't be
    /// destroyed while it is there. A name that its owner has given to another fork is
    /// [`StoreError::AlreadyExists`].
    fn fork(&self, _fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        Err(StoreError::Unsupported("this Store can't be forked"))
    }

    /// How much lies below a directory; 0 where nothing is there.
    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        let mut usage = Usage::default();
        let count = &mut |found: WalkEntry| {
            usage.count(&found.attr);
            ControlFlow::Continue(())
        };
        match self.walk(&NodePath::from_root(at.clone()), &WalkOptions::default(), count) {
            Err(StoreError::NotFound) => Ok(Usage::default()),
            walked => walked.map(|()| usage),
        }
    }

    /// Ends the Store: removes all that Stead keeps for it. Files that are the host's own stay.
    fn destroy(&self) -> StoreResult<()> {
        Err(StoreError::Unsupported("this Store can't be destroyed"))
    }

    /// Says that the caller holds no [`NodeId`] of this node any more. A Store that remembers nodes may forget it.
    fn forget_node(&self, _node: NodeId) {}

    /// Whether what it stands on was found to be gone, so that it is of use only if it is opened again.
    fn is_gone(&self) -> bool {
        false
    }

    /// Checks everything that can be checked, and says what is wrong.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport>;
}

/// What a Store says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreInfo {
    /// `physical`, `virtual`, `memory`.
    pub kind: &'static str,
    /// Whether every change makes a version that can be told of later.
    pub history: bool,
    /// Whether the content that changes replace or remove can be read later; without a history it can't.
    pub retains_content: bool,
    /// Whether [`Store::changes_since`] answers.
    pub feed: bool,
    /// The log that it writes the records of its changes into; a change with a record is refused where there is none.
    pub audit_log: Option<AuditLogId>,
}

impl StoreInfo {
    /// Whether what the Store holds is still there when the process has ended.
    pub fn is_persistent(&self) -> bool {
        self.kind != "memory"
    }
}

/// Tells who counts versions, for as long as the Store is open: those of one database are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RevisionSequence(usize);

impl RevisionSequence {
    /// Counted by something that Stores share.
    pub fn shared_by<T>(by: &Arc<T>) -> Self {
        RevisionSequence(Arc::as_ptr(by).cast::<()>() as usize)
    }

    /// Counted by one Store for itself.
    pub(crate) fn of_store(store: &dyn Store) -> Self {
        RevisionSequence(std::ptr::from_ref(store).cast::<()>() as usize)
    }
}

/// A stretch of a Store's changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// The changes, oldest first.
    pub changes: Vec<FeedEntry>,
    /// Where to go on.
    pub cursor: RevisionNumber,
    /// Whether the Store had more than was asked for.
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

/// What [`Store::verify`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Entries looked at.
    pub entries: u64,
    /// Pieces of content whose hash was checked.
    pub contents: u64,
    /// Bytes that nothing refers to; they are not an error.
    pub unreferenced: u64,
    /// What is wrong, a sentence each.
    pub problems: Vec<String>,
}
