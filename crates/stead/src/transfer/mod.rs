//! Import and export: a host directory or a tar archive into and out of a stead.
//!
//! Everything goes through the door, so a transfer can do only what the agent could. Modes, times and symlinks are
//! transferred; what can't be is left out and reported. An interrupted transfer can be repeated: files that have
//! arrived are left as they are. Memory use is bounded, however large the tree or a file is.
//!
//! ```
//! use std::sync::Arc;
//! use stead::transfer::{CompareBy, ImportSource, NoObserver};
//! use stead::{AccessScope, MemoryStore, Stead};
//!
//! let project = std::env::temp_dir().join(format!("stead-import-{}", std::process::id()));
//! std::fs::create_dir(&project)?;
//! std::fs::write(project.join("plan.md"), "1. read")?;
//!
//! let store = Arc::new(MemoryStore::new());
//! let stead = Stead::builder("coder").workspace("/notes", AccessScope::ReadWrite, &store).build()?;
//! let source = ImportSource::Directory { path: project.clone(), name: "project".to_owned() };
//! let totals = stead.import(source, "/notes", CompareBy::default(), &mut NoObserver)?;
//! assert_eq!(totals.files, 1);
//! # std::fs::remove_dir_all(&project)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive_sink;
mod archive_source;
mod directory_sink;
mod directory_source;
mod export;
mod host_directory;
mod import;
mod source;

use std::io::{self, Read};
use std::sync::Arc;

use stead_core::Vfs;

use crate::error::Result;

pub(crate) use export::write_archive_file;
pub use export::{ExportDestination, OnExisting, export};
pub use import::import;
pub use source::ImportSource;

/// The directory of an archive that describes the archive. An import leaves it out.
pub(crate) const ARCHIVE_FACTS_DIRECTORY: &str = ".stead-archive";

/// How to decide that a file has been transferred already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompareBy {
    /// By size, modification time and mode.
    #[default]
    Attributes,
    /// By content.
    Content,
}

/// What a transfer has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferTotals {
    /// Files that were written.
    pub files: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Directories that were created.
    pub directories: u64,
    /// Symlinks that were created.
    pub symlinks: u64,
    /// Files and symlinks that were at the destination already, and the same.
    pub unchanged: u64,
    /// Entries that were left out because they can't be transferred at all, such as named pipes, sockets and devices.
    pub skipped: u64,
    /// Entries that were left out because a `protect` glob keeps agents from changing them.
    pub protected: u64,
    /// Entries that were left out because their names are hidden from agents. A hidden directory counts once.
    pub hidden: u64,
    /// Entries that should have been transferred but could not be.
    pub refused: u64,
}

/// An entry that was not transferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedEntry {
    /// Its path in the transfer, escaped.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// Receives the progress of a transfer.
pub trait TransferObserver {
    /// The totals have changed.
    fn progressed(&mut self, totals: &TransferTotals);
    /// An entry was left out.
    fn omitted(&mut self, entry: &OmittedEntry);
}

/// Ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl TransferObserver for NoObserver {
    fn progressed(&mut self, _: &TransferTotals) {}
    fn omitted(&mut self, _: &OmittedEntry) {}
}

/// The totals of a transfer, and the observer that is told about them.
struct TransferTally<'w> {
    totals: TransferTotals,
    observer: &'w mut dyn TransferObserver,
    /// The call's monitor, which may want the transfer to stop.
    monitor: Option<Arc<dyn stead_core::CallMonitor>>,
}

impl<'w> TransferTally<'w> {
    fn new(vfs: &Vfs, observer: &'w mut dyn TransferObserver) -> Self {
        TransferTally { totals: TransferTotals::default(), observer, monitor: vfs.watch().cloned() }
    }

    /// Fails if the call's monitor wants the transfer to stop.
    fn check_not_stopped(&self) -> Result<()> {
        let reason = self.monitor.as_ref().and_then(|monitor| monitor.stop_reason());
        reason.map_or(Ok(()), |reason| Err(stead_core::Error::Stopped(reason).into()))
    }

    fn count(&mut self, change: impl FnOnce(&mut TransferTotals)) {
        change(&mut self.totals);
        self.observer.progressed(&self.totals);
    }

    /// Counts and reports an entry that can't be transferred at all.
    fn skip(&mut self, path: impl ToString, reason: impl ToString) {
        self.totals.skipped += 1;
        self.observer.omitted(&OmittedEntry { path: path.to_string(), reason: reason.to_string() });
    }

    /// Counts and reports an entry that agents may not change.
    fn protect(&mut self, path: impl ToString) {
        self.totals.protected += 1;
        let reason = "it is protected from agents".to_owned();
        self.observer.omitted(&OmittedEntry { path: path.to_string(), reason });
    }

    /// Counts and reports an entry that should have been transferred.
    fn refuse(&mut self, path: impl ToString, reason: impl ToString) {
        self.totals.refused += 1;
        self.observer.omitted(&OmittedEntry { path: path.to_string(), reason: reason.to_string() });
    }
}

/// The buffer size for a file of this size.
fn buffer_size(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX).clamp(1, 256 << 10)
}

/// The hash of a stream's content.
fn content_hash(stream: &mut dyn Read) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
    }
}

/// A stream that counts the bytes read from it, and fails if the transfer is to stop.
struct CountingReader<'a, 'w> {
    source: &'a mut dyn Read,
    tally: &'a mut TransferTally<'w>,
}

impl Read for CountingReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tally.check_not_stopped().map_err(io::Error::other)?;
        let count = self.source.read(buffer)?;
        self.tally.count(|totals| totals.bytes += count as u64);
        Ok(count)
    }
}
