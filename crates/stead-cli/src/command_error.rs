//! The errors of a command, and the exit codes of the binary.

use std::io;
use std::process::ExitCode;

use stead::config::ConfigError;
use stead::{ErrorKind, StoreError, Vfs, VfsError};

/// The exit code. The larger of two is the worse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exit(u8);

impl Exit {
    /// Success.
    pub(crate) const OK: Exit = Exit(0);
    /// The command ran, and the answer is no.
    pub(crate) const NEGATIVE: Exit = Exit(1);
    /// The arguments or the configuration are wrong.
    pub(crate) const USAGE: Exit = Exit(2);
    /// Something is broken.
    pub(crate) const INTERNAL: Exit = Exit(70);
    /// The command may work later.
    pub(crate) const TEMPORARY: Exit = Exit(75);

    /// The exit code of a child process; `INTERNAL` if a signal killed it.
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

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// An error of the library.
    Stead(stead::Error),
    /// An error of the library, with a message that fits the command better than the library's own.
    Explained(stead::Error, String),
    /// An error of the command itself.
    Message(ErrorKind, String),
    /// The reader of the output has closed it, so there is nobody to report to.
    ReaderGone,
}

/// The result of a command.
pub(crate) type CommandResult = Result<Exit, CommandError>;

impl CommandError {
    /// An error of kind `Invalid`: the arguments make no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        CommandError::Message(ErrorKind::Invalid, message.into())
    }

    /// An error of the host, about something that the user named or about the output.
    pub(crate) fn host(message: impl Into<String>, cause: io::Error) -> Self {
        stead::Error::Host { what: message.into(), cause }.into()
    }

    /// The error for output that can't be written. Its kind is never `Quota`, even if the disk is full: that is no
    /// quota of Stead's.
    pub(crate) fn output_error(cause: io::Error) -> Self {
        match CommandError::host("the output can't be written", cause) {
            CommandError::Stead(error) => CommandError::Message(ErrorKind::Unavailable, error.to_string()),
            other => other,
        }
    }

    /// The kind; `None` if the reader is gone.
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        match self {
            CommandError::Stead(error) | CommandError::Explained(error, _) => Some(error.kind()),
            CommandError::Message(kind, _) => Some(*kind),
            CommandError::ReaderGone => None,
        }
    }

    /// The same error. If a path doesn't exist, its message names the one that the caller perhaps meant.
    pub(crate) fn with_suggestion(self, vfs: &Vfs) -> Self {
        let message = match &self {
            CommandError::Stead(stead::Error::Vfs(error)) => vfs.message_with_suggestion(error),
            _ => None,
        };
        message.map_or(self, |message| CommandError::Message(ErrorKind::NotFound, message))
    }

    /// The exit code.
    ///
    /// An error that depends on what is stored is a negative answer. An error that would occur whatever is stored is
    /// wrong usage.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            CommandError::Stead(error) | CommandError::Explained(error, _) if is_negative_answer(error) => {
                Exit::NEGATIVE
            }
            _ => self.kind().map_or(Exit::OK, Exit::from),
        }
    }

    /// The message for the user.
    pub(crate) fn message(&self) -> String {
        match self {
            CommandError::Stead(error) => error.to_string(),
            CommandError::Explained(_, message) | CommandError::Message(_, message) => message.clone(),
            CommandError::ReaderGone => String::new(),
        }
    }

    /// Whether a Store or the audit failed, so that the user has to know which one it is.
    pub(crate) fn concerns_store(&self) -> bool {
        match self {
            CommandError::Stead(error) | CommandError::Explained(error, _) => {
                let is_store = matches!(
                    error,
                    stead::Error::OpenStore { .. } | stead::Error::OpenAudit { .. } | stead::Error::Store(_)
                );
                is_store || error.kind() == ErrorKind::Corrupt
            }
            CommandError::Message(..) | CommandError::ReaderGone => false,
        }
    }

    /// Whether the message begins with the place of the error: `stead.toml:3:1: …`.
    pub(crate) fn has_location(&self) -> bool {
        matches!(self, CommandError::Stead(stead::Error::Config(ConfigError::Invalid(_))))
    }
}

/// Whether the error is a negative answer to a valid call, although its kind maps to another exit code.
fn is_negative_answer(error: &stead::Error) -> bool {
    let error = match error {
        stead::Error::AmbiguousOperation { .. } => return true,
        stead::Error::Vfs(error) => error,
        _ => return false,
    };
    match error {
        VfsError::TooManySymlinks { .. } | VfsError::LineOutOfRange { .. } | VfsError::Binary { .. } => true,
        VfsError::Store { cause, .. } => matches!(
            cause,
            StoreError::EditMismatch(_)
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
            // The reader of the pipe has closed it.
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
    fn error_kinds_map_to_exit_codes() {
        assert_eq!(Exit::from(ErrorKind::Denied), Exit::NEGATIVE);
        assert_eq!(Exit::from(ErrorKind::Unsupported), Exit::USAGE);
        assert_eq!(Exit::from(ErrorKind::Unavailable), Exit::TEMPORARY);
        assert_eq!(Exit::from(ErrorKind::Corrupt), Exit::INTERNAL);
    }
}
