//! The errors of the facade.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use stead_core::name::{Escaped, escape_name, escape_text};
use stead_core::router::DuplicatePrefix;
use stead_core::{ErrorKind, OperationIdPrefix, PathError, StoreError};

use crate::config::{Config, ConfigError};
use crate::time_text::TIME_EXAMPLES;

/// The result of the facade's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call of the facade failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The door denied the call, or the call failed behind it.
    #[error(transparent)]
    Vfs(#[from] stead_core::Error),
    /// The configuration can't be read, or has mistakes.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Two Workspaces have the same prefix.
    #[error(transparent)]
    DuplicatePrefix(#[from] DuplicatePrefix),
    /// The configuration has no agent of this name.
    #[error("there is no agent `{}`{}", escape_name(.name.as_bytes()), agents_hint(.known, *.is_near))]
    UnknownAgent {
        /// The name that was requested.
        name: String,
        /// The agents that exist, or the first of very many; only the one that was probably meant, if there is one.
        known: Vec<String>,
        /// Whether `known` is the agent that was probably meant.
        is_near: bool,
    },
    /// The agent works in threads, and no thread was named.
    #[error(
        "the agent `{}` works in threads, so a thread has to be named: with `--thread NAME` at the command line, or with \
         a token that has a thread",
        escape_name(.agent.as_bytes())
    )]
    ThreadNeeded {
        /// The agent.
        agent: String,
    },
    /// There is no thread of this name.
    #[error("the agent `{}` has no thread `{}`", escape_name(.agent.as_bytes()), escape_name(.thread.as_bytes()))]
    UnknownThread {
        /// The agent.
        agent: String,
        /// The thread.
        thread: String,
    },
    /// The thread can't be ended now, because it is in use.
    #[error("{0}")]
    ThreadInUse(String),
    /// The agent has no fork of this name.
    #[error("you have no fork `{}`{}", escape_name(.name.as_bytes()), forks_hint(.known))]
    UnknownFork {
        /// The name that was requested.
        name: String,
        /// The forks that exist.
        known: Vec<String>,
    },
    /// A text names no snapshot, version or time.
    #[error(
        "there is no snapshot, version or time `{}` in the history; write a time as {TIME_EXAMPLES}",
        escape_text(.text)
    )]
    UnknownPoint {
        /// The text.
        text: String,
    },
    /// Several operations have an id that begins like this.
    #[error(
        "{} operations have an id that begins with `{prefix}`; give more of it: {}",
        candidates.len(),
        first_few(candidates)
    )]
    AmbiguousOperation {
        /// The beginning of the id.
        prefix: OperationIdPrefix,
        /// The operations, each with its id and what it did.
        candidates: Vec<String>,
    },
    /// There is no token with this id.
    #[error("there is no token `{}`; `stead token list` shows all tokens", escape_name(.id.as_bytes()))]
    UnknownToken {
        /// The id that was requested.
        id: String,
    },
    /// A Store can't be opened.
    #[error("the Store `{}` can't be opened: {}", escape_name(.store.as_bytes()), open_error_text(.cause))]
    OpenStore {
        /// Its name in the configuration.
        store: String,
        /// Why.
        #[source]
        cause: StoreError,
    },
    /// The audit log can't be opened, so the call is not made.
    #[error(
        "every call needs an audit record, and the audit can't be opened: {cause}{}",
        audit_hint(.cause)
    )]
    OpenAudit {
        /// Why.
        #[source]
        cause: Box<Error>,
    },
    /// A Store failed in a call that doesn't go through the door.
    #[error("{cause}{hint}", cause = .0, hint = damage_hint(.0))]
    Store(#[from] StoreError),
    /// The host failed on something that the caller named.
    #[error("{what}: {}", host_error_text(.cause))]
    Host {
        /// What was attempted, with the path as the caller wrote it.
        what: String,
        /// The host's error.
        #[source]
        cause: io::Error,
    },
    /// An argument isn't valid.
    #[error("{0}")]
    Invalid(String),
    /// Something exists already that would have to be overwritten.
    #[error("{0}")]
    AlreadyExists(String),
}

impl Error {
    /// The configuration has no agent of this name.
    pub fn unknown_agent(config: &Config, name: &str) -> Error {
        const MAX_KNOWN: usize = 50;
        let near = config.nearest_agent(name);
        let is_near = near.is_some();
        let known = match near {
            Some(near) => vec![near],
            None => config.agent_names().take(MAX_KNOWN).map(Cow::into_owned).collect(),
        };
        Error::UnknownAgent { name: name.to_owned(), known, is_near }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Vfs(error) => error.kind(),
            Error::Config(_) | Error::DuplicatePrefix(_) | Error::UnknownAgent { .. } | Error::Invalid(_) => {
                ErrorKind::Invalid
            }
            Error::AmbiguousOperation { .. } | Error::ThreadNeeded { .. } => ErrorKind::Invalid,
            Error::UnknownThread { .. } => ErrorKind::NotFound,
            // A conflict, not a state that waiting alone would end.
            Error::ThreadInUse(_) => ErrorKind::Conflict,
            Error::UnknownFork { .. } | Error::UnknownPoint { .. } | Error::UnknownToken { .. } => {
                ErrorKind::NotFound
            }
            // A Store that isn't where the configuration says is a mistake in the configuration.
            Error::OpenStore { cause: StoreError::NotFound | StoreError::NotADirectory, .. } => {
                ErrorKind::Invalid
            }
            Error::OpenStore { cause, .. } | Error::Store(cause) => cause.kind(),
            Error::OpenAudit { cause } => cause.kind(),
            Error::Host { cause, .. } => host_kind(cause),
            Error::AlreadyExists(_) => ErrorKind::AlreadyExists,
        }
    }

    /// An error of the host about something that the caller named.
    pub(crate) fn host(what: impl Into<String>, cause: io::Error) -> Self {
        Error::Host { what: what.into(), cause }
    }
}

/// What to do if the audit log can't be opened, after a semicolon. Empty if the cause says it.
fn audit_hint(cause: &Error) -> &'static str {
    match cause {
        // A database of another format, of another program, a damaged one, or one in the wrong place.
        Error::Store(StoreError::Unsupported(_) | StoreError::Invalid(_) | StoreError::Corrupt(_))
        | Error::Invalid(_) => "",
        cause if cause.kind() == ErrorKind::Quota => {
            "; free space on the disk of the state directory `.stead`: delete files there that aren't Stead's, or run \
             `stead gc`"
        }
        _ => {
            "; make the state directory `.stead` and the database writable, or turn the audit off: `enabled = false` \
             under [audit]"
        }
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Error::Vfs(error.into())
    }
}

fn host_kind(cause: &io::Error) -> ErrorKind {
    // The error may come from the door, through a reader.
    if let Some(vfs_error) = cause.get_ref().and_then(|inner| inner.downcast_ref::<stead_core::Error>()) {
        return vfs_error.kind();
    }
    match cause.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Denied,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Quota,
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => {
            ErrorKind::Invalid
        }
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    }
}

/// The text of a Store's error when it is opened, in the terms of the configuration.
fn open_error_text(cause: &StoreError) -> String {
    match cause {
        StoreError::NotFound => "its directory doesn't exist; create it, or correct its `path`".into(),
        StoreError::NotADirectory => "its `path` isn't a directory".into(),
        other => format!("{other}{}", damage_hint(other)),
    }
}

/// What to do if stored data is damaged, after a semicolon. Empty if it isn't, or if the error says it.
fn damage_hint(cause: &StoreError) -> &'static str {
    match cause {
        StoreError::Corrupt(detail) if !detail.contains("restore-backup") => {
            "; `stead verify` lists all damage, and `stead restore-backup` restores a backup"
        }
        _ => "",
    }
}

/// The text of a host error, without its error number.
fn host_error_text(cause: &io::Error) -> String {
    match cause.get_ref() {
        Some(inner) => inner.to_string(),
        None => io_error_text(cause.kind()),
    }
}

/// The text of a kind of host error.
pub(crate) fn io_error_text(kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::NotFound => "there is no such file or directory".into(),
        other => other.to_string(),
    }
}

/// A host path for messages: as the caller wrote it, with unprintable bytes escaped.
pub(crate) fn escaped_path(path: &Path) -> Escaped<'_> {
    escape_name(path.as_os_str().as_encoded_bytes())
}

fn agents_hint(known: &[String], is_near: bool) -> String {
    match known {
        [] => "; no agent is configured".into(),
        near if is_near => format!("; did you mean {}?", quoted(near)),
        known => format!("; there are {}", quoted(known)),
    }
}

fn forks_hint(known: &[String]) -> String {
    match known {
        [] => "; make one with `stead fork` or `fork_workspace`".into(),
        known => format!("; you have {}", quoted(known)),
    }
}

/// The first of several things, and how many more there are.
fn first_few(things: &[String]) -> String {
    const MAX_SHOWN: usize = 8;
    let shown = things[..things.len().min(MAX_SHOWN)].join(", ");
    match things.len().saturating_sub(MAX_SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{}`", escape_name(name.as_bytes()))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_the_disk_is_full_the_hint_is_to_free_space_not_to_turn_the_audit_off() {
        let message = |cause: StoreError| Error::OpenAudit { cause: Box::new(cause.into()) }.to_string();
        let text = message(StoreError::NoSpace);
        assert!(text.contains("free space on the disk") && !text.contains("turn the audit off"), "{text}");
        assert!(message(StoreError::HostDenied).contains("turn the audit off"));
    }

    #[test]
    fn if_the_database_cannot_be_used_the_hint_is_not_to_make_it_writable() {
        let message = |cause: StoreError| Error::OpenAudit { cause: Box::new(cause.into()) }.to_string();
        let text = message(StoreError::unsupported("update Stead to open it"));
        assert!(text.ends_with("the audit can't be opened: update Stead to open it"), "{text}");
        let text = message(StoreError::Invalid("name another file".into()));
        assert!(text.ends_with("name another file"), "{text}");
        let text = message(StoreError::Corrupt("x".into()));
        assert!(text.contains("restore-backup") && !text.contains("writable"), "{text}");
    }
}
