//! SQLite's write-ahead log (`-wal`), synced for changes whose sync was deferred.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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

impl WalFile {
    /// Waits until everything that has been committed to the database at `database` is on the disk.
    pub(crate) fn sync(&self, database: &Path) -> io::Result<()> {
        let path = self.path.get_or_init(|| {
            // SQLite puts its files beside the real database file, also if the given path is a symlink.
            let mut name = OsString::from(database.canonicalize().unwrap_or_else(|_| database.into()));
            name.push("-wal");
            name.into()
        });
        match File::open(path) {
            Ok(file) => Ok(sync::sync_data(SyncPoint::DeferredCommits, file)?),
            // Nothing was committed since the log was checkpointed and removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}
