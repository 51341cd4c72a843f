//! Import and export: a directory of the host, or a tar archive, into and out of a stead.
//!
//! Everything passes the door, so a transfer can do what the agent could, and nothing else. Modes, times and symlinks
//! travel along; what can't is left out and told. A transfer that was interrupted is repeated: what arrived is left
//! as it is. Memory stays bounded however large the tree or a file is.

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

pub use export::{ExportDestination, OnExisting, export};
pub use import::import;
pub use source::ImportSource;

/// How to tell that a file has arrived already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompareBy {
    /// By size, time of modification and mode.
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
    /// Bytes in them.
    pub bytes: u64,
    /// Directories that were made.
    pub directories: u64,
    /// Symlinks that were made.
    pub symlinks: u64,
    /// Files and symlinks that were there already, as they are.
    pub unchanged: u64,
    /// What was left out since it can't travel: named pipes, sockets, devices.
    pub skipped: u64,
    /// What was left out since agents may not change it, as a `protect` glob says.
    pub protected: u64,
    /// What should have travelled and could not.
    pub refused: u64,
}

/// Something that did not travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedEntry {
    /// Its path within the transfer, escaped.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// Is told how a transfer goes on.
pub trait TransferObserver {
    /// Something was moved.
    fn progressed(&mut self, totals: &TransferTotals);
    /// Something was left out.
    fn omitted(&mut self, left_out: &OmittedEntry);
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl TransferObserver for NoObserver {
    fn progressed(&mut self, _: &TransferTotals) {}
    fn omitted(&mut self, _: &OmittedEntry) {}
}

/// The count of a transfer, and who is told about it.
struct TransferTally<'w> {
    totals: TransferTotals,
    observer: &'w mut dyn TransferObserver,
    /// Who may want it to stop.
    waiting: Option<Arc<dyn stead_core::CallMonitor>>,
}

impl<'w> TransferTally<'w> {
    fn new(vfs: &Vfs, observer: &'w mut dyn TransferObserver) -> Self {
        TransferTally { totals: TransferTotals::default(), observer, waiting: vfs.watch().cloned() }
    }

    /// Fails if the caller that waits for the transfer wants it to stop.
    fn go_on(&self) -> Result<()> {
        let stop = self.waiting.as_ref().and_then(|waiting| waiting.stop_reason());
        stop.map_or(Ok(()), |stop| Err(stead_core::Error::Stopped(stop).into()))
    }

    fn count(&mut self, change: impl FnOnce(&mut TransferTotals)) {
        change(&mut self.totals);
        self.observer.progressed(&self.totals);
    }

    /// Something that can't travel, whoever asks.
    fn skip(&mut self, path: impl ToString, reason: impl ToString) {
        self.totals.skipped += 1;
        self.observer.omitted(&OmittedEntry { path: path.to_string(), reason: reason.to_string() });
    }

    /// Something that is not for an agent to bring along.
    fn protect(&mut self, path: impl ToString) {
        self.totals.protected += 1;
        let reason = "it is protected from agents".to_owned();
        self.observer.omitted(&OmittedEntry { path: path.to_string(), reason });
    }

    /// Something that should have travelled.
    fn refuse(&mut self, path: impl ToString, reason: impl ToString) {
        self.totals.refused += 1;
        self.observer.omitted(&OmittedEntry { path: path.to_string(), reason: reason.to_string() });
    }
}

/// How much of a file of this size is read at once.
fn buffer_size(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX).clamp(1, 256 << 10)
}

/// The hash of all that a stream holds.
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

/// A stream whose bytes are counted as they pass.
struct CountingReader<'a, 'w> {
    from: &'a mut dyn Read,
    tally: &'a mut TransferTally<'w>,
}

impl Read for CountingReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.tally.go_on().map_err(io::Error::other)?;
        let count = self.from.read(buffer)?;
        self.tally.count(|totals| totals.bytes += count as u64);
        Ok(count)
    }
}
