//! What goes wrong inside, and what a caller is told of it.
//!
//! SQLite's own messages stay inside: some name the database's file, and a caller could do nothing with the rest.

use rusqlite::{ErrorCode, ffi};
use stead_core::StoreError;

/// A refusal of ours, or a failure of SQLite's.
#[derive(Debug)]
pub(super) enum DatabaseError {
    Store(StoreError),
    Sqlite(rusqlite::Error),
}

/// The result of everything that talks to the database.
pub(super) type Result<T, E = DatabaseError> = std::result::Result<T, E>;

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
    fn from(fault: DatabaseError) -> Self {
        match fault {
            DatabaseError::Store(error) => error,
            DatabaseError::Sqlite(error) => from_sqlite(&error),
        }
    }
}

/// What a caller is told of a failure of SQLite's.
pub(super) fn from_sqlite(error: &rusqlite::Error) -> StoreError {
    let rusqlite::Error::SqliteFailure(failure, _) = error else {
        // A row that does not have the shape our own schema gives it.
        return StoreError::Corrupt("a row of the database has an unexpected shape".into());
    };
    let unavailable =
        |what: &str| StoreError::Unavailable { what: what.into(), source: Some((*failure).into()) };
    match failure.code {
        ErrorCode::DiskFull => StoreError::NoSpace,
        // The file of the shared memory could not be made longer.
        _ if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => StoreError::NoSpace,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            unavailable("another program holds the database; it was waited for in vain")
        }
        ErrorCode::DatabaseCorrupt => StoreError::Corrupt("the database's structure is broken".into()),
        ErrorCode::NotADatabase => StoreError::Corrupt("the file is no database".into()),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::HostDenied,
        ErrorCode::CannotOpen => unavailable("the database can't be opened"),
        ErrorCode::TooBig => StoreError::Invalid("it is too large for the database".into()),
        _ => unavailable("the database failed"),
    }
}

/// A failure of the host's on one of the files beside the database.
pub(super) fn from_io(error: &std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::HostDenied
        }
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreError::NoSpace,
        kind => StoreError::Unavailable {
            what: "the files beside the database can't be opened".into(),
            // The kind alone: the error itself may name a path.
            source: Some(std::io::Error::from(kind).into()),
        },
    }
}

/// What is stored contradicts itself.
pub(super) fn corrupt(what: &str) -> DatabaseError {
    DatabaseError::Store(StoreError::Corrupt(what.into()))
}
