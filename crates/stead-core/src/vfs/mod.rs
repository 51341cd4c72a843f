//! The one door: every file operation of every surface goes through a [`Vfs`].
//!
//! A `Vfs` resolves a path, routes it to a Workspace and authorizes it by the Workspace's Access Scope before it calls
//! any Store. Where a symlink or a rule of the stead leads a path elsewhere, the target is routed and authorized again.
//! Every call gets a record in the audit log, if there is one.
//!
//! ```
//! use stead_core::{AccessScope, ErrorKind, Identity, Mount, Occurrences, Vfs, VfsPath, Workspace};
//! # use std::sync::Arc;
//! # use stead_core::testkit::ModelStore;
//! # let store = Arc::new(ModelStore::default());
//!
//! let notes = Workspace::new(VfsPath::parse("/notes")?, AccessScope::ReadWrite, Mount::new(store));
//! let vfs = Vfs::builder(Identity::agent("coder")).workspace(notes).build()?;
//! vfs.write("/notes/plan.md", "1. read")?;
//! vfs.edit("/notes/plan.md", "read", "review", Occurrences::One)?;
//! assert_eq!(vfs.read("/notes/plan.md")?.bytes, b"1. review");
//! assert_eq!(vfs.read("/etc/passwd").unwrap_err().kind(), ErrorKind::Denied);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod append;
mod approval;
mod as_of;
mod batch;
mod call;
mod compound;
mod copy;
mod cut_off;
mod draft_edits;
mod draft_reservations;
mod edit;
mod feed_echoes;
mod follow;
mod fork;
mod git_repository;
mod hiding;
mod history;
mod ignore;
mod list;
pub mod managed;
pub mod node_api;
mod open_file;
mod own_files;
mod path_limits;
mod quota;
mod read;
mod read_set;
mod redirect;
mod resolve;
mod search;
mod single_record;
pub mod state;
mod suggest;
#[cfg(test)]
mod tests;
mod thread_lease;
mod write;

pub use crate::history::diff::ContentDiff;
pub use crate::lines::{Continuation, LineRange};
pub use append::AppendedText;
pub use approval::ApprovalItem;
pub(crate) use approval::{ApprovalRefusal, ApprovalRequest};
pub use as_of::PointInTime;
pub use batch::Batch;
pub use copy::{CopyResult, Overwrite};
pub use edit::{EditResult, Replacement};
pub use follow::{FileWaker, FollowedFile};
pub use fork::ForkedWorkspaces;
pub use history::{
    BlameLine, ChangedContent, DiffOptions, Difference, DifferenceKind, ForkHandle, ForkState,
    IncompleteUndo, LogAction, LogChange, LogEntry, LogQuery, MergeAction, MergeChange, MergeChoice,
    MergeConflict, MergeConflictKind, MergeHunk, MergeOptions, MergeResult, MergeRule, OnConflict,
    PathChange, PathConflict, REVIEW_OWNER_PREFIX, RestOfPart, RestoreOptions, RetaggedFile, RevertResult,
    RulePaths, SideState, UndoOptions, UndoTarget, UnmergedChanges, check_exists,
};
pub use list::{DirEntry, DirectoryListing, ListPage, PathEntry, Unreadable, WalkQuery, WalkResult};
pub use managed::ManagedFiles;
pub use open_file::{CommittedDraft, OpenFile, OpenOptions};
pub use read::{ByteRange, BytesRead, FileReader, Stat, TextRangeRead, TextRead, media_type};
pub use redirect::{RedirectKind, Redirects, SymlinkRule};
pub use resolve::IntoPath;
pub use search::{FileMatch, GlobQuery, GlobResult, GrepResult};
pub use single_record::CallEnd;
pub use state::State;
pub use thread_lease::{InUse, ThreadLease};
pub use write::{RemoveOptions, RemoveResult, WriteOptions, WriteResult};

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::audit::AuditLog;
use crate::audit_facts::AuditFacts;
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::error::Result;
use crate::identity::{Identity, OperationId};
use crate::monitor::CallMonitor;
use crate::router::{DuplicatePrefix, Router};
use crate::scope::Access;
use crate::store::QuotaLimits;
use crate::vfs::approval::Approval;
use crate::vfs::compound::CompoundOperation;
use crate::vfs::hiding::HiddenFiles;
use crate::vfs::single_record::SingleRecord;
use crate::workspace::{Mount, Workspace};

/// Rights that may change while a `Vfs` is in use, such as those of an organization's agent.
pub trait CurrentRights: fmt::Debug + Send + Sync {
    /// Whether the caller may still do this in a Workspace, whose scope allows it.
    fn allow(&self, workspace: &Workspace, access: Access) -> bool;

    /// Whether the rights in a Workspace may be taken away while the `Vfs` is in use.
    fn may_withdraw(&self, workspace: &Workspace) -> bool;

    /// Whether the caller may still use a tool that it is offered.
    fn allow_tool(&self, tool: &str) -> bool;
}

/// Size limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The largest file, in bytes, that is read whole.
    pub max_read_size: u64,
    /// The largest file, in bytes, that may be written.
    pub max_file_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_read_size: 256 << 20, max_file_size: u64::MAX }
    }
}

/// Whether a whole-file write is refused if the file has changed since the caller last read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LostUpdates {
    /// Refuses the write, with a Conflict that says to read the file again.
    #[default]
    Refuse,
    /// Allows the write: the last writer wins.
    Allow,
}

/// The Workspaces of one identity, and every operation that the identity may do with them.
///
/// Cloning is cheap. Clones share the read set, the open files and the draft reservations.
#[derive(Debug, Clone)]
pub struct Vfs {
    shared: Arc<VfsShared>,
    tool: Option<Cow<'static, str>>,
    operation: Option<OperationId>,
    approval: Approval,
    monitor: Option<Arc<dyn CallMonitor>>,
    /// The compound operation that calls through this `Vfs` are parts of, if any.
    compound: Option<Arc<CompoundOperation>>,
    /// The audit record that all calls through this `Vfs` share, if they are made for one call of a surface.
    single_record: Option<Arc<SingleRecord>>,
    /// Facts that every audit record gets.
    facts: AuditFacts,
    /// What hidden names are for calls through this `Vfs`.
    hidden_files: HiddenFiles,
    /// What symlinks are for calls through this `Vfs`.
    symlinks: SymlinkRule,
}

#[derive(Debug)]
struct VfsShared {
    router: Router,
    stead: Option<Arc<str>>,
    identity: Arc<Identity>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    lost_updates: LostUpdates,
    quota: QuotaLimits,
    quotas: quota::QuotaTable,
    /// The managed directories, by their Stores.
    managed_roots: managed::ManagedRoots,
    audit: Option<Arc<dyn AuditLog>>,
    redirects: Option<Arc<dyn Redirects>>,
    denial_note: Option<Arc<str>>,
    current_rights: Option<Arc<dyn CurrentRights>>,
    lease: Option<Arc<dyn ThreadLease>>,
    read_set: read_set::ReadSet,
    open_nodes: open_file::OpenNodes,
    draft_reservations: Arc<draft_reservations::DraftReservations>,
    feed_echoes: feed_echoes::FeedEchoes,
    state_sweeps: state::NamespaceSweeps,
    /// The time by which keys of the State have expired, in a view of the past; `None` for the present time.
    state_time: Option<Timestamp>,
}

/// Builds a [`Vfs`].
#[derive(Debug)]
pub struct VfsBuilder {
    stead: Option<Arc<str>>,
    identity: Identity,
    workspaces: Vec<Arc<Workspace>>,
    state: Option<Arc<Workspace>>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    lost_updates: LostUpdates,
    quota: QuotaLimits,
    audit: Option<Arc<dyn AuditLog>>,
    redirects: Option<Arc<dyn Redirects>>,
    denial_note: Option<Arc<str>>,
    current_rights: Option<Arc<dyn CurrentRights>>,
    lease: Option<Arc<dyn ThreadLease>>,
}

impl VfsBuilder {
    /// Adds a Workspace.
    pub fn workspace(mut self, workspace: impl Into<Arc<Workspace>>) -> Self {
        self.workspaces.push(workspace.into());
        self
    }

    /// Gives the stead a State, which is kept in this Mount: see [`State`]. No other Workspace may show the Mount.
    pub fn state(self, mount: impl Into<Mount>) -> Self {
        VfsBuilder { state: Some(Arc::new(state::workspace(mount.into()))), ..self }
    }

    /// Sets the id of the stead that this `Vfs` belongs to. Audit records name it.
    pub fn stead(self, id: impl Into<Arc<str>>) -> Self {
        VfsBuilder { stead: Some(id.into()), ..self }
    }

    /// Sets the clock that timestamps are taken from.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        VfsBuilder { clock, ..self }
    }

    /// Sets the size limits of one call.
    pub fn limits(self, limits: Limits) -> Self {
        VfsBuilder { limits, ..self }
    }

    /// Sets whether a whole-file write is refused if the file has changed since the caller last read it.
    pub fn lost_updates(self, lost_updates: LostUpdates) -> Self {
        VfsBuilder { lost_updates, ..self }
    }

    /// Sets a quota for all Workspaces together.
    pub fn quota(self, quota: QuotaLimits) -> Self {
        VfsBuilder { quota, ..self }
    }

    /// Records every call in this log, including calls that are refused or fail. If the log can't take the record, the
    /// call fails before it changes anything.
    pub fn audit(self, log: Arc<dyn AuditLog>) -> Self {
        VfsBuilder { audit: Some(log), ..self }
    }

    /// Sets the rules by which paths lead elsewhere, besides symlinks.
    pub fn redirects(self, rules: Arc<dyn Redirects>) -> Self {
        VfsBuilder { redirects: Some(rules), ..self }
    }

    /// Sets the end of a refusal in a Workspace with a title: who is asking, and where it may do this.
    pub fn denial_note(self, note: impl Into<Arc<str>>) -> Self {
        VfsBuilder { denial_note: Some(note.into()), ..self }
    }

    /// Sets rights that are asked at each access, beside the scopes of the Workspaces.
    pub fn current_rights(self, rights: Arc<dyn CurrentRights>) -> Self {
        VfsBuilder { current_rights: Some(rights), ..self }
    }

    /// Sets the lease of the thread whose files these are. Every call begins with it, and every change is made under it.
    pub fn lease(self, lease: Arc<dyn ThreadLease>) -> Self {
        VfsBuilder { lease: Some(lease), ..self }
    }

    /// Builds the `Vfs`. Fails if two Workspaces have the same prefix.
    pub fn build(self) -> Result<Vfs, DuplicatePrefix> {
        let router = Router::new(self.workspaces)?.with_state(self.state);
        let shared = VfsShared {
            quotas: quota::QuotaTable::new(&router, self.quota),
            managed_roots: managed::ManagedRoots::of(&router),
            router,
            stead: self.stead,
            identity: Arc::new(self.identity),
            clock: self.clock,
            limits: self.limits,
            lost_updates: self.lost_updates,
            quota: self.quota,
            audit: self.audit,
            redirects: self.redirects,
            denial_note: self.denial_note,
            current_rights: self.current_rights,
            lease: self.lease,
            read_set: read_set::ReadSet::default(),
            open_nodes: open_file::OpenNodes::default(),
            draft_reservations: Arc::default(),
            feed_echoes: feed_echoes::FeedEchoes::default(),
            state_sweeps: state::NamespaceSweeps::default(),
            state_time: None,
        };
        Ok(Vfs {
            shared: Arc::new(shared),
            tool: None,
            operation: None,
            approval: Approval::None,
            monitor: None,
            compound: None,
            single_record: None,
            facts: AuditFacts::default(),
            hidden_files: HiddenFiles::default(),
            symlinks: SymlinkRule::default(),
        })
    }
}

impl Vfs {
    /// Starts to build a `Vfs` for this identity, with no Workspaces yet.
    pub fn builder(identity: Identity) -> VfsBuilder {
        VfsBuilder {
            stead: None,
            identity,
            workspaces: Vec::new(),
            state: None,
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            lost_updates: LostUpdates::default(),
            quota: QuotaLimits::default(),
            audit: None,
            redirects: None,
            denial_note: None,
            current_rights: None,
            lease: None,
        }
    }

    /// The identity that calls through this `Vfs` act for.
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// The lease of the thread whose files these are, if they are a thread's.
    pub fn lease(&self) -> Option<&Arc<dyn ThreadLease>> {
        self.shared.lease.as_ref()
    }

    /// Whether the lost-update guard knows of a file that was read through this `Vfs`.
    pub fn has_read_files(&self) -> bool {
        !self.shared.read_set.is_empty()
    }

    /// The Workspaces, sorted by prefix.
    pub fn workspaces(&self) -> impl Iterator<Item = &Workspace> {
        self.shared.router.workspaces().map(|workspace| &**workspace)
    }

    /// Whether the caller may use this Workspace so now: its scope allows it, and the caller's rights haven't changed.
    pub(crate) fn allows(&self, workspace: &Workspace, access: Access) -> bool {
        self.shared.allows(workspace, access)
    }

    /// Whether the caller may still use a tool that it is offered.
    pub(crate) fn allows_tool(&self, tool: &str) -> bool {
        self.shared.current_rights.as_ref().is_none_or(|rights| rights.allow_tool(tool))
    }

    /// The router from paths to Workspaces.
    pub fn router(&self) -> &Router {
        &self.shared.router
    }

    /// Returns this `Vfs` for one new operation of a tool: all changes made through it belong to that operation.
    pub fn operation(&self, tool: impl Into<Cow<'static, str>>) -> Vfs {
        // The calls of a compound operation keep its operation id and its tool.
        if self.compound.is_some() {
            return self.clone();
        }
        let operation = Some(OperationId::fresh(self.shared.clock.now()));
        Vfs { operation, tool: Some(tool.into()), ..self.clone() }
    }

    /// Returns this `Vfs` with a monitor, which its calls report progress to and which can stop them.
    pub fn with_monitor(&self, monitor: Arc<dyn CallMonitor>) -> Vfs {
        Vfs { monitor: Some(monitor), ..self.clone() }
    }

    /// Returns this `Vfs` with facts that the audit records of its calls get, in place of those that it has.
    pub fn with_facts(&self, facts: AuditFacts) -> Vfs {
        Vfs { facts, ..self.clone() }
    }

    /// Returns this `Vfs` with this rule for symlinks.
    pub fn with_symlinks(&self, symlinks: SymlinkRule) -> Vfs {
        Vfs { symlinks, ..self.clone() }
    }

    /// The facts that the audit records of its calls get.
    pub fn facts(&self) -> &AuditFacts {
        &self.facts
    }

    /// The monitor of this `Vfs`, if it has one: for long work outside of the `Vfs`.
    pub fn watch(&self) -> Option<&Arc<dyn CallMonitor>> {
        self.monitor.as_ref()
    }
}

impl Vfs {
    /// Returns a `Vfs` with these Workspaces instead. Its read set, open files and draft reservations start empty.
    pub fn with_workspaces(&self, workspaces: Vec<Arc<Workspace>>) -> Result<Vfs, DuplicatePrefix> {
        let router = Router::new(workspaces)?.with_state(self.shared.router.state().cloned());
        Ok(self.with_router(router, self.shared.state_time))
    }

    /// Like `with_workspaces`, with a router that is built already. `state_time` is the time by which keys of the State
    /// have expired; `None` for the present time.
    fn with_router(&self, router: Router, state_time: Option<Timestamp>) -> Vfs {
        let VfsShared {
            stead,
            identity,
            clock,
            limits,
            lost_updates,
            quota,
            audit,
            redirects,
            denial_note,
            current_rights,
            lease,
            ..
        } = &*self.shared;
        let shared = VfsShared {
            quotas: quota::QuotaTable::new(&router, *quota),
            managed_roots: managed::ManagedRoots::of(&router),
            router,
            stead: stead.clone(),
            identity: Arc::clone(identity),
            clock: Arc::clone(clock),
            limits: *limits,
            lost_updates: *lost_updates,
            quota: *quota,
            audit: audit.clone(),
            redirects: redirects.clone(),
            denial_note: denial_note.clone(),
            current_rights: current_rights.clone(),
            lease: lease.clone(),
            read_set: read_set::ReadSet::default(),
            open_nodes: open_file::OpenNodes::default(),
            draft_reservations: Arc::default(),
            feed_echoes: feed_echoes::FeedEchoes::default(),
            state_sweeps: state::NamespaceSweeps::default(),
            state_time,
        };
        Vfs { shared: Arc::new(shared), ..self.clone() }
    }
}
