//! SQLite's log of transactions (`-wal`), synced for changes that were committed without waiting for the disk.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::sync::{self, SyncPoint};

/// The log of transactions of a database file.
///
/// Every commit is in this file until a checkpoint has brought it into the database, and a checkpoint syncs both. So a
/// sync of this one file covers all commits so far, of every process, and needs no transaction of its own. The file's
/// name is on the disk before the first commit is in it: SQLite syncs the header of a new log, and with it the
/// directory, at every durability that Stead offers.
///
/// It is synced through a descriptor that is opened and closed for that. Closing one drops the locks that this process
/// holds on the same file, but SQLite locks the database and its shared memory, never the log.
#[derive(Debug, Default)]
pub(super) struct WalFile {
    path: OnceLock<PathBuf>,
}

impl WalFile {
    /// Waits until all that has been committed to the database at `database` is on the disk.
    pub(super) fn sync(&self, database: &Path) -> io::Result<()> {
        let path = self.path.get_or_init(|| {
            // SQLite keeps its files beside the database itself, also where its name is a symlink.
            let mut name = OsString::from(database.canonicalize().unwrap_or_else(|_| database.into()));
            name.push("-wal");
            name.into()
        });
        match File::open(path) {
            Ok(file) => Ok(sync::sync_data(SyncPoint::DeferredCommits, file)?),
            // Nobody has committed anything since the last process brought all of it into the database.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}
