//! Errors inside the Virtual Store, and which [`StoreError`] a caller gets for them.
//!
//! SQLite's own messages are not passed on: some name the database file, and a caller could do nothing with the rest.

use rusqlite::{ErrorCode, ffi};
use stead_core::StoreError;

use crate::overlay::NotTakenOver;

/// A refusal of the Store, or a failure of SQLite.
#[derive(Debug)]
pub(crate) enum DatabaseError {
    Store(StoreError),
    Sqlite(rusqlite::Error),
    /// A change of a fork of a host directory needs something that the fork has not taken over yet. The Store takes it over,
    /// and makes the change again.
    NotTakenOver(NotTakenOver),
}

/// The result of functions that use the database.
pub(crate) type Result<T, E = DatabaseError> = std::result::Result<T, E>;

impl From<StoreError> for DatabaseError {
    fn from(error: StoreError) -> Self {
        DatabaseError::Store(error)
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        DatabaseError::Sqlite(error)
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Store(error) => error,
            DatabaseError::Sqlite(error) => from_sqlite(&error),
            DatabaseError::NotTakenOver(_) => {
                StoreError::unavailable("the directory that the fork was made from keeps changing; try again")
            }
        }
    }
}

/// The error that a caller gets for a failure of SQLite.
pub(crate) fn from_sqlite(error: &rusqlite::Error) -> StoreError {
    let rusqlite::Error::SqliteFailure(failure, _) = error else {
        // A row doesn't have the shape that the schema gives it.
        return StoreError::Corrupt("a row of the database has an unexpected shape".into());
    };
    let unavailable =
        |what: &str| StoreError::Unavailable { what: what.into(), source: Some((*failure).into()) };
    match failure.code {
        ErrorCode::DiskFull => StoreError::NoSpace,
        // The file of the shared memory could not be extended.
        _ if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => StoreError::NoSpace,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            unavailable("another process is using the database and did not finish in time")
        }
        ErrorCode::DatabaseCorrupt => StoreError::Corrupt("the database's structure is broken".into()),
        ErrorCode::NotADatabase => StoreError::Corrupt("the file isn't an SQLite database".into()),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::HostDenied,
        ErrorCode::CannotOpen => unavailable("the database can't be opened"),
        ErrorCode::TooBig => StoreError::Invalid("it is too large for the database".into()),
        _ => unavailable("the database failed"),
    }
}

/// The error that a caller gets for an I/O failure on a file beside the database.
pub(crate) fn from_io(error: &std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::HostDenied
        }
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreError::NoSpace,
        kind => StoreError::Unavailable {
            what: "the files beside the database can't be read or written".into(),
            // Only the kind: the error itself may name a path.
            source: Some(std::io::Error::from(kind).into()),
        },
    }
}

/// The error for stored data that contradicts itself.
pub(crate) fn corrupt(message: &str) -> DatabaseError {
    DatabaseError::Store(StoreError::Corrupt(message.into()))
}
