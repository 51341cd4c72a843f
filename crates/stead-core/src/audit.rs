//! What is written down of every operation: who did what, where, and how it went. Never content, never a secret.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::ErrorKind;
use crate::identity::{Identity, OperationId};
use crate::path::VfsPath;
use crate::scope::AccessScope;
use crate::store::{RevisionNumber, StoreResult};

/// One line of the audit.
///
/// What takes time may have two: one as it begins, and one that tells how it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// When it began.
    pub at: Timestamp,
    /// The stead it was done in, where that has a name.
    pub stead: Option<Arc<str>>,
    /// Who asked for it.
    pub identity: Arc<Identity>,
    /// The tool, or the call.
    pub call: Cow<'static, str>,
    /// The path that was asked for, and where symlinks led from there if they did; or the two ends of a copy or a move,
    /// as they turned out to be; none where the text was no path. A batch names the directory that holds all of its
    /// paths.
    pub paths: Vec<VfsPath>,
    /// What the Workspace of the first path allows; `None` where it lies in none.
    pub scope: Option<AccessScope>,
    /// How it went.
    pub outcome: AuditOutcome,
    /// Whether it only asked what would be done: nothing was changed.
    pub dry_run: bool,
    /// How many bytes were read or written, where that is known.
    pub bytes: Option<u64>,
    /// How many files it was about, where it was about many: an import, an export.
    pub file_count: Option<u64>,
    /// How long it took.
    pub duration: Duration,
    /// The operation that it belongs to, where it changed something or a tool has begun one.
    pub operation: Option<OperationId>,
    /// The version that a change made.
    pub revision: Option<RevisionNumber>,
}

/// How an operation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditOutcome {
    /// It happened.
    Ok,
    /// It was refused by the rules.
    Denied,
    /// It could not be done.
    Failed(ErrorKind),
    /// It is about to happen; another record tells how it went. So it is with a change in a Store that can't write
    /// down its own, with all but the last of the changes of one call, with those of an act of many calls, and with a
    /// file that is opened to be read.
    Begun,
}

impl AuditOutcome {
    /// How an operation went that ended with an error of this kind.
    pub fn from_error_kind(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Denied => AuditOutcome::Denied,
            other => AuditOutcome::Failed(other),
        }
    }

    /// The outcome in a word: `ok`, `denied`, `failed`, `begun`.
    pub fn as_str(self) -> &'static str {
        match self {
            AuditOutcome::Ok => "ok",
            AuditOutcome::Denied => "denied",
            AuditOutcome::Failed(_) => "failed",
            AuditOutcome::Begun => "begun",
        }
    }

    /// The error's code, where there was one.
    pub fn code(self) -> Option<&'static str> {
        match self {
            AuditOutcome::Ok | AuditOutcome::Begun => None,
            AuditOutcome::Denied => Some(ErrorKind::Denied.code()),
            AuditOutcome::Failed(kind) => Some(kind.code()),
        }
    }
}

/// Names a log, so that a Store can say whether it writes into the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AuditLogId(pub u64);

/// Where records go.
///
/// A record of a change goes with the change ([`crate::store::Record`]) where the Store writes into this log; all
/// others come through here. What can't be written down is not done: a failure here is the failure of the call.
pub trait AuditLog: Debug + Send + Sync {
    /// Which log it is.
    fn id(&self) -> AuditLogId;

    /// Writes down what changed nothing, or how a change went that was announced. When it returns, the record survives
    /// the end of the process. What has begun may be left out again once its end is told.
    fn append(&self, record: &AuditRecord) -> StoreResult<()>;

    /// Writes down a change that is about to be made in a Store that can't write it down itself. When it returns, the
    /// record is as lasting as a change in this log's own database would be.
    fn announce(&self, record: &AuditRecord) -> StoreResult<()>;
}
