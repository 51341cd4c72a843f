//! What a Store answers when it can't.
//!
//! No path stands in these errors: a Store knows only its own, which no agent may see. The door adds the logical one.

use std::fmt;

use crate::error::ErrorKind;
use crate::store::QuotaResource;

/// A Store's result.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why a Store did not do what it was asked for. It has changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing is there, or a parent is missing.
    #[error("there is nothing")]
    NotFound,
    /// Something is there already.
    #[error("something is there already")]
    AlreadyExists,
    /// A directory was needed.
    #[error("it is not a directory")]
    NotADirectory,
    /// A file was needed.
    #[error("it is a directory")]
    IsADirectory,
    /// The directory holds something.
    #[error("the directory is not empty")]
    NotEmpty,
    /// It is not in the state that the caller expected, or someone changed it in between.
    #[error("it has changed since it was read")]
    Conflict,
    /// The one who waits for the change wants it no more. What was done of it has been rolled back.
    #[error("{0}")]
    Stopped(crate::monitor::StopReason),
    /// A symlink lies on the way: the door has to resolve it.
    #[error("a symlink lies on the way")]
    Link(LinkHit),
    /// A named pipe, a socket or a device.
    #[error("it is a {0}, which can be neither read nor written")]
    Special(crate::store::NodeKind),
    /// The text to be replaced is not there.
    #[error("the text to be replaced does not occur in it")]
    NoMatch,
    /// The text to be replaced is there more than once.
    #[error("the text to be replaced occurs {0} times in it")]
    Ambiguous(usize),
    /// A directory can't be put into itself.
    #[error("a directory can't be moved or copied into itself")]
    IntoItself,
    /// The step would touch a name that has to be left alone, `path` below the place.
    #[error("`{path}` in it is protected")]
    Protected {
        /// The name, below the place of the step, shown escaped.
        path: String,
    },
    /// A name that had to be free is taken ([`crate::store::Change::expect_free`]).
    #[error("`{path}` is there as well")]
    NameTaken {
        /// The name, in the Store, shown escaped.
        path: String,
    },
    /// It is larger than the caller allowed.
    #[error("it has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// A quota does not allow it.
    #[error(
        "it would take {wanted} {on}, and {allowed} are allowed{}. Remove something, or ask for more",
        usage_suffix(*used)
    )]
    OverQuota {
        /// What there would be too much of.
        on: QuotaResource,
        /// How much is in use.
        used: u64,
        /// How much would be.
        wanted: u64,
        /// How much may be.
        allowed: u64,
    },
    /// A quota does not allow it, and how much is in use is not for the caller to know.
    #[error("at most {allowed} {on} are allowed. Remove something, or ask for more")]
    OverQuotaUndisclosed {
        /// What there would be too much of.
        on: QuotaResource,
        /// How much may be.
        allowed: u64,
    },
    /// The Store can't hold that name.
    #[error("this Store can't hold such a name: {0}")]
    Name(&'static str),
    /// The call makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// This Store can't do that.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The host doesn't let Stead's own process do that.
    #[error("the host refuses it to Stead's own process")]
    HostDenied,
    /// No space is left, or the host's quota is used up.
    #[error("no space is left on the host")]
    NoSpace,
    /// Something is in the way for now.
    #[error("{what}")]
    Unavailable {
        /// What, without a host path.
        what: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// It was there, and its time is over.
    #[error("{0}")]
    Expired(String),
    /// What is stored is damaged.
    #[error("what is stored is damaged: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Something that may work later.
    pub fn unavailable(what: impl fmt::Display) -> Self {
        StoreError::Unavailable { what: what.to_string(), source: None }
    }

    /// The few kinds that every edge knows.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StoreError::NotFound => ErrorKind::NotFound,
            StoreError::AlreadyExists | StoreError::NotEmpty => ErrorKind::AlreadyExists,
            StoreError::NotADirectory
            | StoreError::IsADirectory
            | StoreError::NoMatch
            | StoreError::Ambiguous(_)
            | StoreError::IntoItself
            | StoreError::Name(_)
            | StoreError::Link(_)
            | StoreError::Invalid(_) => ErrorKind::Invalid,
            StoreError::Conflict => ErrorKind::Conflict,
            StoreError::Special(_) | StoreError::Unsupported(_) => ErrorKind::Unsupported,
            StoreError::Protected { .. } | StoreError::NameTaken { .. } | StoreError::HostDenied => {
                ErrorKind::Denied
            }
            StoreError::TooLarge { .. } => ErrorKind::TooLarge,
            StoreError::NoSpace | StoreError::OverQuota { .. } | StoreError::OverQuotaUndisclosed { .. } => {
                ErrorKind::Quota
            }
            StoreError::Unavailable { .. } | StoreError::Stopped(_) => ErrorKind::Unavailable,
            StoreError::Expired(_) => ErrorKind::Expired,
            StoreError::Corrupt(_) => ErrorKind::Corrupt,
        }
    }
}

fn usage_suffix(used: u64) -> String {
    if used == 0 { String::new() } else { format!("; {used} are in use") }
}

/// Where a Store met a symlink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkHit {
    /// In which step of a change.
    pub step: usize,
    /// On which side of a step with two places.
    pub side: Side,
    /// How many components of the place's path lead to the symlink, itself included.
    pub depth: usize,
    /// Where it leads, as written.
    pub target: Vec<u8>,
}

/// The two places of a step; a step with one place has only the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The only place, or the source.
    From,
    /// The destination.
    To,
}

impl LinkHit {
    /// The answer of a call with one place.
    pub fn error_at(depth: usize, target: Vec<u8>) -> StoreError {
        StoreError::Link(LinkHit { step: 0, side: Side::From, depth, target })
    }
}

impl StoreError {
    /// The same error as met in that step, on that side.
    pub fn in_step(self, step: usize, side: Side) -> Self {
        match self {
            StoreError::Link(hit) => StoreError::Link(LinkHit { step, side, ..hit }),
            other => other,
        }
    }
}
