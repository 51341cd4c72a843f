//! Waiting for the disk: every sync that Stead makes itself has a name here.
//!
//! A test build can leave one out by its name, and the power-cut tests have to notice each (`crates/stead/tests/powercut`).
//! SQLite makes its own syncs; those that a durable commit waits for have names here as well.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::io::Errno;

macro_rules! sites {
    ($($(#[$doc:meta])* $site:ident,)*) => {
        /// What a sync is for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SyncPoint {
            $($(#[$doc])* $site,)*
        }

        impl SyncPoint {
            /// All of them.
            pub const ALL: &[SyncPoint] = &[$(SyncPoint::$site),*];
        }
    };
}

sites! {
    /// The state directory, in the directory that it lies in.
    StateDirectory,
    /// SQLite's log of transactions, when a commit has to last.
    Commit,
    /// SQLite's log of transactions, for changes that could wait until now.
    DeferredCommits,
    /// The name of a backup.
    BackupName,
    /// A backup that takes the place of a database that is lost, before it gets the database's name.
    RestoredDatabase,
    /// The name of that database.
    RestoredDatabaseName,
    /// The file beside the database that tells its newest version, when it is made.
    NewestRevision,
    /// The name of that file.
    NewestRevisionName,
    /// The audit's own directory, in the directory that it lies in.
    AuditDirectory,
    /// The audit's key, before it gets its name.
    AuditKey,
    /// The name of the audit's key.
    AuditKeyName,
    /// What an instance that begins keeps outside the database: the file in which its chain's end stands, and its name.
    AuditInstance,
    /// The name of the directory of that instance.
    AuditInstanceName,
    /// The newest signed head of an instance that runs, before it gets its name.
    AuditHead,
    /// The last signed head of an instance that ends.
    AuditLastHead,
    /// The name of the file with the last heads.
    AuditLastHeadName,
    /// The file with the last heads without those that are archived, before it gets its name.
    AuditRemainingHeads,
    /// The name of that file.
    AuditRemainingHeadsName,
    /// An archive of audit records, before it gets its name.
    AuditArchive,
    /// The name of an archive.
    AuditArchiveName,
    /// The tokens, before they get their name.
    Tokens,
    /// The name of the tokens' file.
    TokensName,
    /// The directories of a Physical Store's staging area, when they are made.
    StagingArea,
    /// The directory in which one process prepares its changes, before the first of them.
    StagingDirectory,
    /// New content of a Physical Store, before it gets its name.
    NewContent,
    /// A new tree of a Physical Store, before it gets its name.
    NewTree,
    /// New parent directories of a Physical Store, before they get their name.
    NewParents,
    /// A directory of a Physical Store in which a name has changed.
    ChangedDirectory,
    /// A file of a Physical Store that was written into.
    WrittenFile,
    /// Old bytes that are about to be overwritten.
    ReplacedBytes,
    /// The name of the file with them, by which recovery finds them.
    ReplacedBytesName,
    /// The names of displaced content, before the intents that tell of it are forgotten.
    DisplacedContent,
    /// All actions of a change that has several.
    MultipleActions,
    /// What a Physical Store has done that could wait until now.
    DeferredChanges,
    /// The name of an intent log.
    IntentLogName,
    /// A record in an intent log.
    Intent,
    /// A file that recovery has put back.
    RevertedFile,
    /// What recovery could not decide.
    RecoveryReport,
    /// All that recovery has put back.
    Recovered,
    /// An intent log that recovery has emptied.
    RecoveredIntentLog,
}

/// Waits until what was written to a file, or what was named in a directory, is on the disk.
pub fn sync_all(site: SyncPoint, file: impl AsFd) -> Result<(), Errno> {
    if is_left_out(site) { Ok(()) } else { rustix::fs::fsync(file) }
}

/// As [`all`], without attributes that reading does not need.
pub fn sync_data(site: SyncPoint, file: impl AsFd) -> Result<(), Errno> {
    if is_left_out(site) { Ok(()) } else { rustix::fs::fdatasync(file) }
}

/// Waits until everything that was written to a file's file system is on the disk.
#[cfg(target_os = "linux")]
pub fn sync_file_system(site: SyncPoint, file: impl AsFd) -> Result<(), Errno> {
    if is_left_out(site) { Ok(()) } else { rustix::fs::syncfs(file) }
}

/// Waits until the names in the directory at a path are on the disk.
pub fn sync_directory(site: SyncPoint, path: &Path) -> io::Result<()> {
    // The path of a file without a directory lies in the current one.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    match File::open(path) {
        Ok(directory) => match sync_all(site, directory) {
            // Some file systems have no such thing: there, names are as durable as they get.
            Err(Errno::INVAL) => Ok(()),
            synced => Ok(synced?),
        },
        // A directory that may be entered but not listed can't be opened: then everything is synced.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            rustix::fs::sync();
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Makes a directory for its owner alone, with the parents that are missing, and waits until its name is on the disk.
/// Where it is there already, nothing is waited for.
pub fn make_private_dir(site: SyncPoint, path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for made in missing {
        sync_directory(site, made.parent().unwrap_or(Path::new("")))?;
    }
    Ok(())
}

/// Whether a test leaves this sync out, to see that it is missed. A release build can't.
#[cfg(all(feature = "leave-out-syncs", debug_assertions))]
pub(crate) fn is_left_out(site: SyncPoint) -> bool {
    static LEFT_OUT: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("STEAD_LEAVE_OUT_SYNC").ok());
    LEFT_OUT.as_ref().is_some_and(|name| *name == format!("{site:?}"))
}

#[cfg(not(all(feature = "leave-out-syncs", debug_assertions)))]
pub(crate) const fn is_left_out(_: SyncPoint) -> bool {
    false
}
