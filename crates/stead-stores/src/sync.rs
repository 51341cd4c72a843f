//! Every wait for the disk (fsync and the like) that Stead itself makes, each with a name.
//!
//! A test build can skip a sync by its name, and the power-cut tests have to notice each one that is missing
//! (`crates/stead/tests/powercut`). SQLite makes its own syncs; those that a durable commit waits for have names here
//! too.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::io::Errno;

macro_rules! sync_points {
    ($($(#[$doc:meta])* $point:ident,)*) => {
        /// What a sync is for. A point that ends in `Name` syncs the directory that contains the file, and so the
        /// file's name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SyncPoint {
            $($(#[$doc])* $point,)*
        }

        impl SyncPoint {
            /// All sync points.
            pub const ALL: &[SyncPoint] = &[$(SyncPoint::$point),*];
        }
    };
}

sync_points! {
    /// The parent of the state directory, after the state directory was made.
    StateDirectory,
    /// SQLite's write-ahead log, for a commit that must be durable before it is acknowledged.
    Commit,
    /// SQLite's write-ahead log, for commits whose sync was deferred until now.
    DeferredCommits,
    /// The name of a backup.
    BackupName,
    /// The backup that replaces a lost database, before it gets the database's name.
    RestoredDatabase,
    /// The name of the restored database.
    RestoredDatabaseName,
    /// The file beside the database that holds the number of its newest revision, when the file is created.
    NewestRevision,
    /// The name of the file with the newest revision.
    NewestRevisionName,
    /// The parent of the audit's directory, after that directory was made.
    AuditDirectory,
    /// The audit's key, before it gets its name.
    AuditKey,
    /// The name of the audit's key.
    AuditKeyName,
    /// The file that holds the end of an instance's audit chain, and the name of that file, when the instance starts.
    AuditInstance,
    /// The name of the directory of an audit instance.
    AuditInstanceName,
    /// The newest signed head of a running instance, before it gets its name.
    AuditHead,
    /// The last signed head of an instance that ends.
    AuditLastHead,
    /// The name of the file with the last heads.
    AuditLastHeadName,
    /// The file with the last heads that have not been archived, before it gets its name.
    AuditRemainingHeads,
    /// The name of the file with the last heads that have not been archived.
    AuditRemainingHeadsName,
    /// An archive of audit records, before it gets its name.
    AuditArchive,
    /// The name of an archive of audit records.
    AuditArchiveName,
    /// The file of access tokens, before it gets its name.
    Tokens,
    /// The name of the file of access tokens.
    TokensName,
    /// The directories of a Physical Store's staging area, when they are made.
    StagingArea,
    /// The name of the staging directory of one process, before its first change.
    StagingDirectory,
    /// New content of a Physical Store, before it gets its name.
    NewContent,
    /// A new tree of a Physical Store, before it gets its name.
    NewTree,
    /// New parent directories of a Physical Store, before they get their name.
    NewParents,
    /// A directory of a Physical Store in which a change added, removed or replaced a name.
    ChangedDirectory,
    /// A file of a Physical Store that a change wrote into.
    WrittenFile,
    /// A copy of the old bytes that a change is about to overwrite.
    ReplacedBytes,
    /// The name of the copy of the old bytes, by which recovery finds it.
    ReplacedBytesName,
    /// The names of displaced content, before the ledger drops the intents that mention it.
    DisplacedContent,
    /// All actions of a change that has several.
    MultipleActions,
    /// All changes of a Physical Store whose sync was deferred until now.
    DeferredChanges,
    /// The name of an intent log.
    IntentLogName,
    /// A record in an intent log.
    Intent,
    /// A file to which recovery has restored the old content.
    RevertedFile,
    /// A report about a case that recovery could not decide.
    RecoveryReport,
    /// Everything that recovery has undone.
    Recovered,
    /// An intent log that recovery has cleared.
    RecoveredIntentLog,
}

/// Waits until the content and attributes of a file, or the entries of a directory, are on the disk (fsync).
pub fn sync_all(point: SyncPoint, file: impl AsFd) -> Result<(), Errno> {
    if is_left_out(point) { Ok(()) } else { rustix::fs::fsync(file) }
}

/// Like [`sync_all`], but without the attributes that are not needed to read the content (fdatasync).
pub fn sync_data(point: SyncPoint, file: impl AsFd) -> Result<(), Errno> {
    if is_left_out(point) { Ok(()) } else { rustix::fs::fdatasync(file) }
}

/// Waits until everything that was written to the file system of `file` is on the disk (syncfs).
#[cfg(target_os = "linux")]
pub fn sync_file_system(point: SyncPoint, file: impl AsFd) -> Result<(), Errno> {
    if is_left_out(point) { Ok(()) } else { rustix::fs::syncfs(file) }
}

/// Waits until the entries of the directory at `path` are on the disk. An empty path means the current directory.
pub fn sync_directory(point: SyncPoint, path: &Path) -> io::Result<()> {
    // `Path::parent` of a bare file name is empty.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match File::open(path) {
        Ok(directory) => match sync_all(point, directory) {
            // Some file systems can't sync directories: there, names are as durable as they get.
            Err(Errno::INVAL) => Ok(()),
            synced => Ok(synced?),
        },
        // A directory that may be entered but not listed can't be opened, so everything is synced instead.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            rustix::fs::sync();
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Makes a directory with mode 0700, and its missing parents, and waits until the names of the new directories are on
/// the disk. If the directory exists already, nothing is synced.
pub fn make_private_dir(point: SyncPoint, path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for directory in missing {
        sync_directory(point, directory.parent().unwrap_or(Path::new("")))?;
    }
    Ok(())
}

/// Whether a power-cut test skips this sync. Always false in a release build.
#[cfg(all(feature = "leave-out-syncs", debug_assertions))]
pub(crate) fn is_left_out(point: SyncPoint) -> bool {
    static LEFT_OUT: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("STEAD_LEAVE_OUT_SYNC").ok());
    LEFT_OUT.as_ref().is_some_and(|name| *name == format!("{point:?}"))
}

#[cfg(not(all(feature = "leave-out-syncs", debug_assertions)))]
pub(crate) const fn is_left_out(_: SyncPoint) -> bool {
    false
}
