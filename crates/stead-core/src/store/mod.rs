//! The Store port: what holds the files behind a Workspace.
//!
//! [`Store`] is small: it reads, lists and searches files, and changes them through one call, [`Store::apply`]. What only
//! some Stores can do is a trait of its own, which [`Store`] hands out: [`History`], [`Forks`], [`ChangeFeed`],
//! [`CompanionRecords`] and [`Maintenance`].
//!
//! A Store knows nothing of agents, scopes or Workspaces: [`crate::Vfs`] has decided about access before it calls a Store.
//! A Store never follows a symlink. It returns [`StoreError::Link`], and [`crate::Vfs`] resolves and authorizes the target.
//!
//! ```
//! use stead_core::store::{Change, Content, NodePath, PutOptions, Step, Store, StorePath};
//! use stead_core::testkit::ModelStore;
//! use stead_core::{Identity, Operation, OperationId, Timestamp};
//!
//! let store = ModelStore::default();
//! let at = NodePath::from_root(StorePath::from_checked("plan.md"));
//! let operation = Operation {
//!     id: OperationId::fresh(Timestamp::from_secs(0)),
//!     identity: Identity::agent("coder").into(),
//!     tool: "write_file".into(),
//!     at: Timestamp::from_secs(0),
//! };
//! let content = Content::Bytes(b"1. read".to_vec());
//! store.apply(Change::new(operation, vec![Step::Write { at: at.clone(), content, options: PutOptions::default() }]))?;
//! assert_eq!(store.read(&at, 100)?.bytes, b"1. read");
//! # Ok::<(), stead_core::StoreError>(())
//! ```

mod attr;
mod capture;
mod change;
mod companion;
mod draft;
mod error;
mod feed;
mod fork;
mod history;
mod id;
mod lease;
mod maintenance;
mod path_filter;
mod quota;
mod step_rules;
mod store_path;
mod subscription;

pub use attr::{
    Attr, Entry, FileContent, InvalidVersionTag, Listing, NodeId, NodeKind, Page, RevisionNumber, ShortTag,
    SpecialKind, TagRef, VersionTag, WalkEntry,
};
pub use capture::{CaptureScope, CaptureScopes, Captured, Coverage};
pub use change::{
    Applied, Change, Content, DisplacedContent, HiddenRule, IfMissing, Parents, Precondition, ProtectedNames,
    PutOptions, Replace, Step, StepOutcome, Subtree, SyncPolicy,
};
pub use companion::{
    CompanionRecord, CompanionRecords, CompanionRow, InvalidRecord, RecordKind, RecordQuery, ReturningRows,
    RowAction, StoredRecord,
};
pub use draft::{Draft, DraftBase, OpenContent, SealedContent};
pub use error::{LinkHit, Side, StoreError, StoreResult};
pub use feed::{ChangeFeed, ChangeKind, Feed, FeedEntry};
pub use fork::{
    Fork, ForkName, ForkPart, ForkSides, ForkSync, Forks, InvalidForkName, MergeDrafts, NewForkSync,
    SidesQuery,
};
pub use history::{
    ContentId, ContentRef, CurrentNode, History, NodeChange, NodeState, NodeStateFields, Revision,
    RevisionQuery, RevisionSet,
};
pub use id::{DatabaseId, RevisionId, StoreId, StoreRevisions};
pub use lease::LeaseId;
pub use maintenance::{Maintenance, VerifyReport};
pub use path_filter::PathFilter;
pub use quota::{QuotaLimits, QuotaResource, QuotaRoot, Usage};
pub use step_rules::{RenameEnds, check_symlink_target};
pub use store_path::{NodePath, StorePath};
pub use subscription::{ChangeListener, ChangeListeners, ChangeSignal, ListenerGuard, Subscription};

use std::fmt;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::managed::Manifest;
use crate::search::{FileHits, Grep, WalkOptions};

/// What holds files.
///
/// Every method may be called by any number of threads at once. A read sees either all of a change or nothing of it. The
/// behaviour suite in [`crate::testkit`] tests what each method promises.
pub trait Store: Debug + Send + Sync {
    /// The Store's identity. It never changes, and finding it opens and reads nothing. A wrapper has the id of the Store
    /// that it wraps.
    fn id(&self) -> StoreId;

    /// The kind of this Store, and the database that it commits to.
    fn info(&self) -> StoreInfo;

    /// The attributes of the node at `at`. If the last component is a symlink, they are the symlink's own.
    fn stat(&self, at: &NodePath) -> StoreResult<Attr>;

    /// [`Store::stat`] for many paths, in few round trips where the Store is behind a network.
    fn stat_many(&self, at: &[NodePath]) -> Vec<StoreResult<Attr>> {
        at.iter().map(|path| self.stat(path)).collect()
    }

    /// The content of a file. For a file of more than `limit` bytes it returns [`StoreError::TooLarge`] before it
    /// allocates memory.
    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent>;

    /// [`Store::read`] for many paths.
    fn read_many(&self, at: &[NodePath], limit: u64) -> Vec<StoreResult<FileContent>> {
        at.iter().map(|path| self.read(path, limit)).collect()
    }

    /// Opens a file. The content stays readable after the file is removed, replaced or renamed.
    fn open(&self, at: &NodePath, purpose: OpenPurpose) -> StoreResult<Box<dyn OpenContent>>;

    /// The target of a symlink, as it was written.
    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>>;

    /// The entries of a directory, sorted by the bytes of their names, without those that the page hides.
    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing>;

    /// Visits everything below a directory, sorted by path, component by component. The directory itself isn't visited.
    ///
    /// What `walk` skips, hides or ignores is neither visited nor descended into. Symlinks are visited and never followed. A
    /// directory that can't be read is visited, added to `walk.unreadable`, and not descended into.
    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()>;

    /// Searches the content of the file at `at`, or of the files below it. Files come in any order. What can't be read is
    /// added to `grep.unreadable` and skipped. What `grep.ignore` leaves out is skipped, unless it is `at` itself.
    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()>;

    /// Starts to write content that nobody sees until a change puts it in place.
    ///
    /// Content of any size passes through a draft in constant memory. A dropped draft leaves nothing behind.
    fn draft(&self, base: DraftBase<'_>) -> StoreResult<Box<dyn Draft>>;

    /// Makes a change: all of its steps, in order, or none.
    ///
    /// After `Ok`, the change is as durable as the Store was opened to be.
    fn apply(&self, change: Change) -> StoreResult<Applied>;

    /// Waits until every acknowledged change is on stable storage, as far as the Store was opened to be durable. That
    /// includes changes with [`SyncPolicy::Deferred`].
    fn sync(&self) -> StoreResult<()>;

    /// How much lies below a directory; 0 if it doesn't exist.
    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        let mut usage = Usage::default();
        let count = &mut |entry: WalkEntry| {
            usage.count(&entry.attr);
            ControlFlow::Continue(())
        };
        match self.walk(&NodePath::from_root(at.clone()), &WalkOptions::default(), count) {
            Err(StoreError::NotFound) => Ok(Usage::default()),
            walked => walked.map(|()| usage),
        }
    }

    /// Says that the caller doesn't use the [`NodeId`] of this node any more, so that the Store may forget it.
    fn forget_node(&self, node: NodeId);

    /// The Store's past, if it has one.
    fn history(&self) -> Option<&dyn History>;

    /// Makes forks of the Store, if that is possible.
    fn forks(&self) -> Option<&dyn Forks>;

    /// Reports the Store's changes, if the Store sees all of them.
    fn feed(&self) -> Option<&dyn ChangeFeed>;

    /// Reads the rows that changes have written beside their files, if the Store commits such rows.
    fn companion_records(&self) -> Option<&dyn CompanionRecords>;

    /// The manifests of the Store's managed directories; `None` if it can't keep any. It opens the database that has them.
    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>>;

    /// Checks and removes the Store, if it keeps anything of its own.
    fn maintenance(&self) -> Option<&dyn Maintenance>;
}

impl dyn Store + '_ {
    /// The revision of this Store that has a number.
    pub fn revision(&self, number: RevisionNumber) -> RevisionId {
        RevisionId { store: self.id(), number }
    }

    /// Whether a revision number means the same point in time in both Stores.
    pub fn shares_revisions_with(&self, other: &dyn Store) -> bool {
        self.id() == other.id() || {
            let database = self.info().database;
            database.is_some() && database == other.info().database
        }
    }
}

/// What callers of an optional part ask for, with the error that all of them report where it is missing.
impl dyn Store + '_ {
    /// [`Store::history`], or [`StoreError::Unsupported`].
    pub fn require_history(&self) -> StoreResult<&dyn History> {
        self.history().ok_or(StoreError::unsupported("this Store keeps no history"))
    }

    /// [`Store::forks`], or [`StoreError::Unsupported`].
    pub fn require_forks(&self) -> StoreResult<&dyn Forks> {
        self.forks().ok_or(StoreError::unsupported("this Store can't be forked"))
    }

    /// [`Store::feed`], or [`StoreError::Unsupported`].
    pub fn require_feed(&self) -> StoreResult<&dyn ChangeFeed> {
        self.feed().ok_or(StoreError::unsupported("this Store doesn't report changes"))
    }

    /// [`Store::companion_records`], or [`StoreError::Unsupported`].
    pub fn require_companion_records(&self) -> StoreResult<&dyn CompanionRecords> {
        self.companion_records().ok_or(StoreError::unsupported("this Store keeps no companion records"))
    }

    /// [`Store::maintenance`], or [`StoreError::Unsupported`].
    pub fn require_maintenance(&self) -> StoreResult<&dyn Maintenance> {
        self.maintenance().ok_or(StoreError::unsupported("this Store has nothing to check or remove"))
    }
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenPurpose {
    /// To read it. The file's mode has to allow that.
    Read,
    /// To write it, by a caller that may write it and doesn't read it, or that has just created it. The file's mode
    /// doesn't matter.
    Write,
}

/// What a Store says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreInfo {
    /// What the Store keeps its files in.
    pub kind: StoreKind,
    /// The database that the Store commits its changes to. Stores of one database share their revision numbers.
    pub database: Option<DatabaseId>,
    /// Whether the database's audit log is open, so that a change can carry its audit record. Otherwise a change that
    /// carries one is refused.
    pub commits_audit: bool,
}

impl StoreInfo {
    /// Whether the Store's files outlive the process.
    pub fn is_persistent(&self) -> bool {
        self.kind != StoreKind::Memory
    }
}

/// What a Store keeps its files in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreKind {
    /// A directory of the host.
    Physical,
    /// A database.
    Virtual,
    /// The memory of the process.
    Memory,
}

impl StoreKind {
    /// The kind in `stead.toml`: `physical`, `virtual` or `memory`.
    pub fn as_str(self) -> &'static str {
        match self {
            StoreKind::Physical => "physical",
            StoreKind::Virtual => "virtual",
            StoreKind::Memory => "memory",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
