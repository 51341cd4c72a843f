//! Audit records: who did what, where, and with which outcome. A record never holds file content or a secret.
//!
//! ```
//! use std::sync::Arc;
//! use stead_core::audit::{AuditLog, AuditOutcome};
//! use stead_core::testkit::{MemoryAuditLog, ModelStore};
//! use stead_core::{AccessScope, Identity, Mount, Vfs, VfsPath, Workspace};
//!
//! let log = Arc::new(MemoryAuditLog::default());
//! let mount = Mount::new(Arc::new(ModelStore::default()));
//! let notes = Workspace::new(VfsPath::parse("/notes")?, AccessScope::ReadOnly, mount);
//! let vfs = Vfs::builder(Identity::agent("coder")).workspace(notes).audit(Arc::clone(&log) as Arc<dyn AuditLog>).build()?;
//! vfs.write("/notes/a", "1").unwrap_err();
//! assert_eq!(log.take()[0].outcome, AuditOutcome::Denied);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::audit_facts::AuditFacts;
use crate::clock::Timestamp;
use crate::error::ErrorKind;
use crate::identity::{Identity, OperationId};
use crate::path::VfsPath;
use crate::scope::AccessScope;
use crate::store::{DatabaseId, RevisionNumber, StoreResult};

/// One record of the audit log.
///
/// A call that takes time may have two records: one when it begins and one with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditRecord {
    /// When the call began.
    pub at: Timestamp,
    /// The name of the stead that the call was made in, if it has one.
    pub stead: Option<Arc<str>>,
    /// The identity that made the call.
    pub identity: Arc<Identity>,
    /// The tool's name, or the name of the library call.
    pub call: Cow<'static, str>,
    /// The path that was asked for and, if symlinks were followed, the path they led to. For a copy or a move, both
    /// ends after following symlinks. Empty if the text wasn't a valid path. A batch names the common directory of all
    /// its paths.
    pub paths: Vec<VfsPath>,
    /// The scope of the first path's Workspace; `None` if the path is in no Workspace.
    pub scope: Option<AccessScope>,
    /// The outcome.
    pub outcome: AuditOutcome,
    /// Whether the call was a dry run: nothing was changed.
    pub dry_run: bool,
    /// How many bytes were read or written, where that is known.
    pub bytes: Option<u64>,
    /// The number of files, for a call about many of them (an import, an export).
    pub file_count: Option<u64>,
    /// How long the call took.
    pub duration: Duration,
    /// The operation that the call belongs to, if the call changed something or a tool began an operation.
    pub operation: Option<OperationId>,
    /// The revision that the change made.
    pub revision: Option<RevisionNumber>,
    /// What the fixed fields have no place for.
    pub facts: AuditFacts,
}

impl AuditRecord {
    /// A record without paths, scope, operation or facts, of a call that took no time.
    pub fn new(
        at: Timestamp,
        identity: Arc<Identity>,
        call: impl Into<Cow<'static, str>>,
        outcome: AuditOutcome,
    ) -> Self {
        AuditRecord {
            at,
            stead: None,
            identity,
            call: call.into(),
            paths: Vec::new(),
            scope: None,
            outcome,
            dry_run: false,
            bytes: None,
            file_count: None,
            duration: Duration::ZERO,
            operation: None,
            revision: None,
            facts: AuditFacts::default(),
        }
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditOutcome {
    /// The call succeeded.
    Ok,
    /// The rules denied the call.
    Denied,
    /// The call failed with an error of this kind.
    Failed(ErrorKind),
    /// The call is about to happen; a second record has the outcome. Used for a change in a Store that can't record its
    /// own changes, for all but the last change of a call, for the changes of a compound operation, and for a file that
    /// is opened for reading.
    Begun,
}

impl AuditOutcome {
    /// The outcome of a call that ended with an error of this kind.
    pub fn from_error_kind(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Denied => AuditOutcome::Denied,
            other => AuditOutcome::Failed(other),
        }
    }

    /// The outcome as one word: `ok`, `denied`, `failed`, `begun`.
    pub fn as_str(self) -> &'static str {
        match self {
            AuditOutcome::Ok => "ok",
            AuditOutcome::Denied => "denied",
            AuditOutcome::Failed(_) => "failed",
            AuditOutcome::Begun => "begun",
        }
    }

    /// The error code; `None` if there was no error.
    pub fn code(self) -> Option<&'static str> {
        match self {
            AuditOutcome::Ok | AuditOutcome::Begun => None,
            AuditOutcome::Denied => Some(ErrorKind::Denied.code()),
            AuditOutcome::Failed(kind) => Some(kind.code()),
        }
    }
}

/// Where audit records go.
///
/// If the Store writes into this log, the record of a change is committed with the change, as a
/// [`crate::store::CompanionRecord`]. All other records come through here. A call that can't be recorded isn't made: an
/// error here fails the call.
pub trait AuditLog: Debug + Send + Sync {
    /// The database that the log is part of.
    fn database(&self) -> DatabaseId;

    /// Appends the record of a call that changed nothing, or the outcome of an announced change. When this returns, the
    /// record survives the end of the process. The log may drop a `Begun` record once the record with its outcome is
    /// appended.
    fn append(&self, record: &AuditRecord) -> StoreResult<()>;

    /// Appends the record of a change that is about to be made in a Store that can't record it itself. When this
    /// returns, the record is as durable as a change in this log's own database.
    fn announce(&self, record: &AuditRecord) -> StoreResult<()>;
}
