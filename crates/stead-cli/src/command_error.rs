//! How a command ends, and what it says if it can't do what it was asked for.

use std::io;
use std::process::ExitCode;

use stead::config::ConfigError;
use stead::{ErrorKind, StoreError, VfsError};

/// The exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exit(u8);

impl Exit {
    /// It is done.
    pub(crate) const OK: Exit = Exit(0);
    /// The answer is no.
    pub(crate) const NEGATIVE: Exit = Exit(1);
    /// The call or the configuration is wrong.
    pub(crate) const USAGE: Exit = Exit(2);
    /// Something is broken.
    pub(crate) const INTERNAL: Exit = Exit(70);
    /// It may work later.
    pub(crate) const TEMPORARY: Exit = Exit(75);

    /// As another process of ours ended; one that was killed has not said why.
    pub(crate) fn from_child(code: Option<i32>) -> Exit {
        code.and_then(|code| u8::try_from(code).ok()).map_or(Exit::INTERNAL, Exit)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        exit.0.into()
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Exit {
        match kind {
            ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::Denied
            | ErrorKind::Conflict
            | ErrorKind::TooLarge
            | ErrorKind::Quota
            | ErrorKind::Expired => Exit::NEGATIVE,
            ErrorKind::Invalid | ErrorKind::Unsupported => Exit::USAGE,
            ErrorKind::Unavailable => Exit::TEMPORARY,
            ErrorKind::Corrupt => Exit::INTERNAL,
        }
    }
}

/// Why a command went no further.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The library said so.
    Stead(stead::Error),
    /// The command itself did.
    Message(ErrorKind, String),
    /// Whoever read the output has gone: nothing is left to say.
    ReaderGone,
}

/// How a command went.
pub(crate) type CommandResult = Result<Exit, CommandError>;

impl CommandError {
    /// The call makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        CommandError::Message(ErrorKind::Invalid, message.into())
    }

    /// What the host said of something that the user named, or of the output.
    pub(crate) fn host(what: impl Into<String>, cause: io::Error) -> Self {
        stead::Error::Host { what: what.into(), cause }.into()
    }

    /// Why the output can't be written. That is nobody's quota, also where the disk is full that it goes to.
    pub(crate) fn output_error(cause: io::Error) -> Self {
        match CommandError::host("the output can't be written", cause) {
            CommandError::Stead(error) => CommandError::Message(ErrorKind::Unavailable, error.to_string()),
            other => other,
        }
    }

    /// The kind, unless there is no one to tell.
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        match self {
            CommandError::Stead(error) => Some(error.kind()),
            CommandError::Message(kind, _) => Some(*kind),
            CommandError::ReaderGone => None,
        }
    }

    /// How the command ends that it stops.
    ///
    /// What depends on what is stored is an answer; what is wrong whatever is stored is wrong usage.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            CommandError::Stead(stead::Error::Vfs(error)) if is_negative_answer(error) => Exit::NEGATIVE,
            _ => self.kind().map_or(Exit::OK, Exit::from),
        }
    }

    /// What is said about it.
    pub(crate) fn message(&self) -> String {
        match self {
            CommandError::Stead(error) => error.to_string(),
            CommandError::Message(_, message) => message.clone(),
            CommandError::ReaderGone => String::new(),
        }
    }

    /// Whether the message says by itself where it comes from: `stead.toml:3:1: …`.
    pub(crate) fn has_location(&self) -> bool {
        matches!(self, CommandError::Stead(stead::Error::Config(ConfigError::Invalid(_))))
    }
}

/// Whether a call that makes sense got no for an answer, although its kind alone would not tell.
fn is_negative_answer(error: &VfsError) -> bool {
    match error {
        VfsError::TooManySymlinks { .. } | VfsError::LineOutOfRange { .. } | VfsError::Binary { .. } => true,
        VfsError::Store { cause, .. } => matches!(
            cause,
            StoreError::NoMatch
                | StoreError::Ambiguous(_)
                | StoreError::Special(_)
                | StoreError::NotADirectory
                | StoreError::IsADirectory
        ),
        _ => false,
    }
}

impl From<stead::Error> for CommandError {
    fn from(error: stead::Error) -> Self {
        match error {
            // Whoever read from the pipe has gone.
            stead::Error::Host { cause, .. } if cause.kind() == io::ErrorKind::BrokenPipe => {
                CommandError::ReaderGone
            }
            error => CommandError::Stead(error),
        }
    }
}

impl From<VfsError> for CommandError {
    fn from(error: VfsError) -> Self {
        CommandError::Stead(error.into())
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        CommandError::Stead(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_may_repeat_is_told_from_what_is_broken() {
        assert_eq!(Exit::from(ErrorKind::Denied), Exit::NEGATIVE);
        assert_eq!(Exit::from(ErrorKind::Unsupported), Exit::USAGE);
        assert_eq!(Exit::from(ErrorKind::Unavailable), Exit::TEMPORARY);
        assert_eq!(Exit::from(ErrorKind::Corrupt), Exit::INTERNAL);
    }
}
