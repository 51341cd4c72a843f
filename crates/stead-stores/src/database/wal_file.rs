//! SQLite's write-ahead log (`-wal`), synced for changes whose sync was deferred.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::host_path::beside;
use crate::sync::{self, SyncPoint};

/// The write-ahead log of a database file.
///
/// Every commit is in this file until a checkpoint has copied it into the database, and a checkpoint syncs both. So a
/// sync of this one file covers all commits so far, of every process, and needs no transaction. The file's name is on
/// the disk before the first commit is in it: SQLite syncs the header of a new log, and with it the directory, at every
/// durability that Stead offers.
///
/// The file is opened and closed for each sync. Closing a descriptor drops the locks that this process holds on the
/// same file, but SQLite locks the database and its shared memory, never the log.
#[derive(Debug, Default)]
pub(crate) struct WalFile {
    path: OnceLock<PathBuf>,
}

/// Where SQLite puts the write-ahead log of a database: beside the real file, also if `database` is a symlink.
pub(super) fn path_of(database: &Path) -> PathBuf {
    beside(database, "-wal")
}

/// The length of the write-ahead log of a database; 0 if there is none.
pub(super) fn length_of(database: &Path) -> u64 {
    length(&path_of(database))
}

/// The length of the write-ahead log at this path; 0 if there is none.
pub(super) fn length(log: &Path) -> u64 {
    log.metadata().map_or(0, |log| log.len())
}

impl WalFile {
    /// Waits until everything that has been committed to the database at `database` is on the disk.
    pub(crate) fn sync(&self, database: &Path) -> io::Result<()> {
        let path = self.path.get_or_init(|| path_of(database));
        match File::open(path) {
            Ok(file) => Ok(sync::sync_data(SyncPoint::DeferredCommits, file)?),
            // Nothing was committed since the log was checkpointed and removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::{Database, DatabaseOptions};
    use super::*;

    #[test]
    fn the_log_of_a_database_behind_a_symlink_is_found() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("disk")).unwrap();
        let link = directory.path().join("stead.db");
        symlink("disk/real.db", &link).unwrap();
        let database = Database::open(&link, DatabaseOptions::default()).unwrap();
        database.store(["files"]).unwrap();
        assert!(length_of(&link) > 0, "the database is open, and its log holds what was committed");
        assert_eq!(length_of(&link), length_of(&directory.path().join("disk/real.db")));
        drop(database);
        assert_eq!(length_of(&link), 0);
    }
}
