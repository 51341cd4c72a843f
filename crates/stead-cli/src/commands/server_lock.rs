//! The lock of a long-running command, which keeps `stead org migrate` from moving files under it.

use stead::{Config, ErrorKind, ServerLock};

use crate::command_error::CommandError;

/// Takes the lock for as long as the result lives.
pub(super) fn take(config: &Config) -> Result<Option<ServerLock>, CommandError> {
    ServerLock::share(config).map_err(|_| {
        let message =
            "`stead org migrate` is moving the files of an organization; try again when it has ended";
        CommandError::Message(ErrorKind::Unavailable, message.to_owned())
    })
}
