//! The one door: every file operation of every surface goes through a [`Vfs`].
//!
//! A path is resolved, routed to a Workspace and judged by its Access Scope before any Store is called. A symlink that
//! a Store reports is resolved here, and routed and judged again. Every call is written down in the audit, where there
//! is one.

mod approval;
mod as_of;
mod batch;
mod call;
mod compound;
mod copy;
mod cut_off;
mod draft_edits;
mod draft_reservations;
mod follow;
mod fork;
mod git_repository;
mod history;
mod list;
pub mod node_api;
mod open_file;
mod own_files;
mod own_revisions;
mod path_limits;
mod quota;
mod read;
mod read_set;
mod resolve;
mod search;
mod single_record;
#[cfg(test)]
mod tests;
mod write;

pub use crate::history::diff::ContentDiff;
pub use crate::lines::{Continuation, LineRange};
pub use approval::ApprovalItem;
pub(crate) use approval::{ApprovalRefusal, ApprovalRequest};
pub use as_of::PointInTime;
pub use batch::Batch;
pub use copy::{CopyResult, Overwrite};
pub use follow::FollowedFile;
pub use history::{
    BlameLine, DiffOptions, Difference, DifferenceKind, LogAction, LogChange, LogEntry, LogQuery, OnConflict,
    PathChange, PathConflict, RestoreOptions, RevertResult, UndoOptions, UndoTarget,
};
pub use list::{DirEntry, DirectoryListing, ListPage, PathEntry, Unreadable, WalkQuery, WalkResult};
pub use open_file::{CommittedDraft, OpenFile, OpenOptions};
pub use read::{ByteRange, BytesRead, FileReader, Stat, TextRead, media_type};
pub use resolve::IntoPath;
pub use search::{FileMatch, GlobResult, GrepResult};
pub use single_record::CallEnd;
pub use write::{EditResult, RemoveOptions, RemoveResult, WriteOptions, WriteResult};

use std::borrow::Cow;
use std::sync::Arc;

use crate::audit::AuditLog;
use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use crate::identity::{Identity, OperationId};
use crate::monitor::CallMonitor;
use crate::router::{DuplicatePrefix, Router};
use crate::store::QuotaLimits;
use crate::vfs::approval::Approval;
use crate::vfs::compound::CompoundOperation;
use crate::vfs::single_record::SingleRecord;
use crate::workspace::Workspace;

/// How much one call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest file that is read whole.
    pub max_read_size: u64,
    /// The largest file that may be written.
    pub max_file_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_read_size: 256 << 20, max_file_size: u64::MAX }
    }
}

/// Whether a whole-file write by someone who read an older version is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LostUpdates {
    /// Yes, with a Conflict that says to read again.
    #[default]
    Refuse,
    /// No: the last writer wins.
    Allow,
}

/// The Workspaces of one identity, and everything it may do with them.
///
/// Cloning is cheap, and clones share what they remember.
#[derive(Debug, Clone)]
pub struct Vfs {
    shared: Arc<VfsShared>,
    tool: Option<Cow<'static, str>>,
    operation: Option<OperationId>,
    approval: Approval,
    monitor: Option<Arc<dyn CallMonitor>>,
    /// The act that its calls are parts of, where they are.
    compound: Option<Arc<CompoundOperation>>,
    /// The record of the surface's call that its calls are made for, where there is one for all of them.
    single_record: Option<Arc<SingleRecord>>,
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
    audit: Option<Arc<dyn AuditLog>>,
    read_set: read_set::ReadSet,
    open_nodes: open_file::OpenNodes,
    draft_reservations: Arc<draft_reservations::DraftReservations>,
    own_revisions: own_revisions::OwnRevisions,
}

/// Puts a [`Vfs`] together.
#[derive(Debug)]
pub struct VfsBuilder {
    stead: Option<Arc<str>>,
    identity: Identity,
    workspaces: Vec<Workspace>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    lost_updates: LostUpdates,
    quota: QuotaLimits,
    audit: Option<Arc<dyn AuditLog>>,
}

impl VfsBuilder {
    /// Adds a Workspace.
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspaces.push(workspace);
        self
    }

    /// Says which stead it is the door of: records tell.
    pub fn stead(self, id: impl Into<Arc<str>>) -> Self {
        VfsBuilder { stead: Some(id.into()), ..self }
    }

    /// Tells the time by this clock.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        VfsBuilder { clock, ..self }
    }

    /// Sets how much one call may take.
    pub fn limits(self, limits: Limits) -> Self {
        VfsBuilder { limits, ..self }
    }

    /// Sets whether a write over a version that the caller has not seen is refused.
    pub fn lost_updates(self, lost_updates: LostUpdates) -> Self {
        VfsBuilder { lost_updates, ..self }
    }

    /// Limits all of its Workspaces together.
    pub fn quota(self, quota: QuotaLimits) -> Self {
        VfsBuilder { quota, ..self }
    }

    /// Writes every call down in this log: also what is refused, and what fails. A call that can't be written down is
    /// not made.
    pub fn audit(self, log: Arc<dyn AuditLog>) -> Self {
        VfsBuilder { audit: Some(log), ..self }
    }

    /// Opens the door. Two Workspaces with one prefix are refused.
    pub fn build(self) -> Result<Vfs, DuplicatePrefix> {
        let shared = VfsShared {
            router: Router::new(self.workspaces)?,
            stead: self.stead,
            identity: Arc::new(self.identity),
            clock: self.clock,
            limits: self.limits,
            lost_updates: self.lost_updates,
            quota: self.quota,
            audit: self.audit,
            read_set: read_set::ReadSet::default(),
            open_nodes: open_file::OpenNodes::default(),
            draft_reservations: Arc::default(),
            own_revisions: own_revisions::OwnRevisions::default(),
        };
        Ok(Vfs {
            shared: Arc::new(shared),
            tool: None,
            operation: None,
            approval: Approval::None,
            monitor: None,
            compound: None,
            single_record: None,
        })
    }
}

impl Vfs {
    /// Starts a door for this identity, with no Workspaces yet.
    pub fn builder(identity: Identity) -> VfsBuilder {
        VfsBuilder {
            stead: None,
            identity,
            workspaces: Vec::new(),
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            lost_updates: LostUpdates::default(),
            quota: QuotaLimits::default(),
            audit: None,
        }
    }

    /// Who goes through this door.
    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// The Workspaces, sorted by prefix.
    pub fn workspaces(&self) -> impl Iterator<Item = &Workspace> {
        self.shared.router.workspaces()
    }

    /// How paths are routed.
    pub fn router(&self) -> &Router {
        &self.shared.router
    }

    /// The same door for one operation of that tool: all that is changed through it belongs together.
    pub fn operation(&self, tool: impl Into<Cow<'static, str>>) -> Vfs {
        // A part of an act belongs to that one.
        if self.compound.is_some() {
            return self.clone();
        }
        let operation = Some(OperationId::fresh(self.shared.clock.now()));
        Vfs { operation, tool: Some(tool.into()), ..self.clone() }
    }

    /// The same door for a call that someone waits for.
    pub fn with_monitor(&self, watch: Arc<dyn CallMonitor>) -> Vfs {
        Vfs { monitor: Some(watch), ..self.clone() }
    }

    /// Who waits for the call, if someone does: for what is done beside the door and takes long.
    pub fn watch(&self) -> Option<&Arc<dyn CallMonitor>> {
        self.monitor.as_ref()
    }
}

impl Vfs {
    /// The same door with these Workspaces instead. What was read through it before is forgotten.
    pub fn with_workspaces(&self, workspaces: Vec<Workspace>) -> Result<Vfs, DuplicatePrefix> {
        Ok(self.with_router(Router::new(workspaces)?))
    }

    /// The same door over other ways.
    fn with_router(&self, router: Router) -> Vfs {
        let VfsShared { stead, identity, clock, limits, lost_updates, quota, audit, .. } = &*self.shared;
        let shared = VfsShared {
            router,
            stead: stead.clone(),
            identity: Arc::clone(identity),
            clock: Arc::clone(clock),
            limits: *limits,
            lost_updates: *lost_updates,
            quota: *quota,
            audit: audit.clone(),
            read_set: read_set::ReadSet::default(),
            open_nodes: open_file::OpenNodes::default(),
            draft_reservations: Arc::default(),
            own_revisions: own_revisions::OwnRevisions::default(),
        };
        Vfs { shared: Arc::new(shared), ..self.clone() }
    }
}
