//! The errors of a Store.
//!
//! They don't hold the path of the call: a Store knows only its own paths, which agents must not see. The door
//! ([`crate::Vfs`]) adds the logical path.

use std::borrow::Cow;
use std::fmt;

use crate::edit::EditMismatch;
use crate::error::ErrorKind;
use crate::store::QuotaResource;

/// The result of a call to a Store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why a Store didn't do what a call asked for. The call has changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing is at the path, or a parent is missing.
    #[error("not found")]
    NotFound,
    /// Something is at the path already.
    #[error("it already exists")]
    AlreadyExists,
    /// The call needs a directory, and something else is there.
    #[error("it is not a directory")]
    NotADirectory,
    /// The call needs a file, and a directory is there.
    #[error("it is a directory")]
    IsADirectory,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The node doesn't meet the precondition, or it changed during the call.
    #[error("it has changed since it was read")]
    Conflict,
    /// The caller cancelled the change, or it timed out. It has been rolled back.
    #[error("{0}")]
    Stopped(crate::monitor::StopReason),
    /// The path leads through a symlink. The door has to resolve it.
    #[error("the path goes through a symlink")]
    Link(LinkHit),
    /// A named pipe, a socket or a device.
    #[error("it is a {0}, which can't be read or written")]
    Special(crate::store::NodeKind),
    /// An edit doesn't fit the file.
    #[error("{}it {_0}", _0.prefix())]
    EditMismatch(Box<EditMismatch>),
    /// A directory can't be moved or copied into itself.
    #[error("a directory can't be moved or copied into itself")]
    IntoItself,
    /// The step would touch a protected name.
    #[error("`{path}` in it is protected")]
    Protected {
        /// The protected name, relative to the path of the step, escaped for display.
        path: String,
    },
    /// The subtree of a step contains a name that [`crate::store::ProtectedNames::hidden`] doesn't let it touch.
    #[error("it contains hidden names")]
    ContainsHidden,
    /// A path that [`crate::store::Change::expect_free`] names is taken.
    #[error("`{path}` also exists")]
    NameTaken {
        /// The path in the Store, escaped for display.
        path: String,
    },
    /// The file is, or would become, larger than the caller allowed.
    #[error("it has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// The file's size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The change would exceed a quota.
    #[error(
        "this would use {wanted} {on}, but only {allowed} are allowed{}. {}, or ask for a higher quota",
        usage_suffix(*used),
        if *on == QuotaResource::FileBytes { "Split the file" } else { "Delete something" }
    )]
    OverQuota {
        /// The resource that would be exceeded.
        on: QuotaResource,
        /// How much is in use.
        used: u64,
        /// How much would be in use after the change.
        wanted: u64,
        /// The limit.
        allowed: u64,
    },
    /// The change would exceed a quota, and the caller may not know how much is in use.
    #[error("at most {allowed} {on} are allowed. Delete something, or ask for a higher quota")]
    OverQuotaUndisclosed {
        /// The resource that would be exceeded.
        on: QuotaResource,
        /// The limit.
        allowed: u64,
    },
    /// The Store can't hold a file with this name.
    #[error("the name isn't allowed in this Store: {0}")]
    InvalidName(Cow<'static, str>),
    /// The arguments of the call are invalid.
    #[error("{0}")]
    Invalid(String),
    /// This Store doesn't offer that.
    #[error("{0}")]
    Unsupported(Cow<'static, str>),
    /// The host refuses that to Stead's own process.
    #[error("the host doesn't allow this for the user that Stead runs as")]
    HostDenied,
    /// No space is left, or the host's quota is used up.
    #[error("no space is left on the host")]
    NoSpace,
    /// A temporary failure: the call may succeed later.
    #[error("{what}")]
    Unavailable {
        /// What is unavailable, without a host path.
        what: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The lease of the change's thread is gone or has expired. The caller has to renew it first.
    #[error(
        "this process has not renewed its lease of the thread in time, so nothing was written; try again"
    )]
    LeaseExpired,
    /// What was asked for existed, but is no longer retained.
    #[error("{0}")]
    Expired(String),
    /// Stored data is damaged.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Something that the Store doesn't offer. The text is a whole sentence for the caller.
    pub fn unsupported(reason: impl Into<Cow<'static, str>>) -> Self {
        StoreError::Unsupported(reason.into())
    }

    /// A name that the Store can't hold. The text says why.
    pub fn invalid_name(reason: impl Into<Cow<'static, str>>) -> Self {
        StoreError::InvalidName(reason.into())
    }

    /// A temporary failure without a cause.
    pub fn unavailable(what: impl fmt::Display) -> Self {
        StoreError::Unavailable { what: what.to_string(), source: None }
    }

    /// The kind of this error, one of the few that every edge matches.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StoreError::NotFound => ErrorKind::NotFound,
            StoreError::AlreadyExists | StoreError::NotEmpty => ErrorKind::AlreadyExists,
            StoreError::NotADirectory
            | StoreError::IsADirectory
            | StoreError::EditMismatch(_)
            | StoreError::IntoItself
            | StoreError::InvalidName(_)
            | StoreError::Link(_)
            | StoreError::Invalid(_) => ErrorKind::Invalid,
            StoreError::Conflict => ErrorKind::Conflict,
            StoreError::Special(_) | StoreError::Unsupported(_) => ErrorKind::Unsupported,
            StoreError::Protected { .. }
            | StoreError::ContainsHidden
            | StoreError::NameTaken { .. }
            | StoreError::HostDenied => ErrorKind::Denied,
            StoreError::TooLarge { .. } => ErrorKind::TooLarge,
            StoreError::NoSpace | StoreError::OverQuota { .. } | StoreError::OverQuotaUndisclosed { .. } => {
                ErrorKind::Quota
            }
            StoreError::Unavailable { .. } | StoreError::Stopped(_) | StoreError::LeaseExpired => {
                ErrorKind::Unavailable
            }
            StoreError::Expired(_) => ErrorKind::Expired,
            StoreError::Corrupt(_) => ErrorKind::Corrupt,
        }
    }
}

fn usage_suffix(used: u64) -> String {
    if used == 0 { String::new() } else { format!("; {used} are in use") }
}

/// Where a Store met a symlink, and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkHit {
    /// The index of the step in the change; 0 for a call without steps.
    pub step: usize,
    /// Which of the step's two paths leads through the symlink.
    pub side: Side,
    /// How many components of that path lead to the symlink, itself included.
    pub depth: usize,
    /// The symlink's target, as written.
    pub target: Vec<u8>,
}

/// Which path of a step is meant. A step with one path has only `From`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The only path, or the source.
    From,
    /// The destination.
    To,
}

impl LinkHit {
    /// The error of a call with one path.
    pub fn error_at(depth: usize, target: Vec<u8>) -> StoreError {
        StoreError::Link(LinkHit { step: 0, side: Side::From, depth, target })
    }
}

impl StoreError {
    /// The same error, attributed to a step and a side. Only [`StoreError::Link`] changes.
    pub fn in_step(self, step: usize, side: Side) -> Self {
        match self {
            StoreError::Link(hit) => StoreError::Link(LinkHit { step, side, ..hit }),
            other => other,
        }
    }
}
