//! Where records wait for the database: two mapped files, one of which is filled while the other is drained.
//!
//! An entry is its length, a checksum, its number and its text. Reading stops at a length of 0, and at an incomplete
//! entry, which a power cut can leave.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use stead_core::{StoreError, StoreResult};

use crate::audit::body::RecordBody;
use crate::audit::chain_end_file::SpooledCount;
use crate::audit::mapped_file::MappedFile;
use crate::database::reserve::DiskReserve;

/// The size of one file: enough for about three thousand records.
const FILE_SIZE: usize = 1 << 20;
/// The size of one file on a disk that has no room for `FILE_SIZE`.
const SMALL_FILE_SIZE: usize = 64 << 10;
const HEADER_LENGTH: usize = 4 + 4 + 8;
pub(crate) const FILE_NAMES: [&str; 2] = ["spool-0", "spool-1"];

/// The spool of a running instance.
#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    state: Mutex<SpoolState>,
    /// Signalled when there are entries to drain, or when the spool closes.
    filled: Condvar,
    /// Signalled when a file was returned, so that it can be filled.
    emptied: Condvar,
    /// How long `put` waits when the spool is full.
    wait_timeout: Duration,
    /// Disk space for a new spool file when the disk is full.
    reserve: Option<Arc<DiskReserve>>,
}

#[derive(Debug)]
struct SpoolState {
    /// The files that aren't being drained; the last one is being filled.
    files: Vec<SpoolFile>,
    files_made: usize,
    next_number: i64,
    /// Where the number of entries is published outside the spool.
    count: SpooledCount,
    /// Since when entries have waited. Taking a file out restarts the time for the entries that are left.
    oldest_since: Option<Instant>,
    is_closing: bool,
}

/// One file of the spool.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    map: MappedFile,
    used: usize,
    first: i64,
    count: i64,
}

/// Why `Spool::wait` returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// Entries have waited long enough, or fill much of a file.
    Due,
    /// The longest wait has passed without entries that are due.
    Idle,
    /// No more entries will come.
    Closing,
}

impl Spool {
    /// An empty spool in a directory that no other instance uses. The files are made when they are needed.
    pub(crate) fn new(
        directory: &Path,
        count: SpooledCount,
        wait_timeout: Duration,
        reserve: Option<Arc<DiskReserve>>,
    ) -> Self {
        let state = SpoolState {
            files: Vec::new(),
            files_made: 0,
            next_number: 0,
            count,
            oldest_since: None,
            is_closing: false,
        };
        Spool {
            directory: directory.to_owned(),
            state: Mutex::new(state),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            wait_timeout,
            reserve,
        }
    }

    /// Appends an entry. Once this returns, the entry survives the end of the process, but not a power cut.
    ///
    /// If both files are full, waits for the drain, and returns `Unavailable` when `wait_timeout` has passed.
    pub(crate) fn put(&self, facts: &RecordBody) -> StoreResult<()> {
        let body = facts.0.as_bytes();
        let size = HEADER_LENGTH + body.len();
        if size > FILE_SIZE {
            return Err(StoreError::Invalid("the record is too long for the audit".into()));
        }
        let mut state = self.state.lock();
        let mut until = None;
        while state.files.last().is_none_or(|bin| bin.used + size > bin.map.len()) {
            if state.files_made < FILE_NAMES.len() {
                let bin = self.open_file(state.files_made).map_err(|error| unwritable_error(&error))?;
                state.files_made += 1;
                // After a full file, which is drained first.
                state.files.push(bin);
                continue;
            }
            if let Some(empty) = state.files.iter().position(|bin| bin.used == 0 && size <= bin.map.len()) {
                let bin = state.files.remove(empty);
                state.files.push(bin);
                continue;
            }
            if state.files.len() == FILE_NAMES.len() && state.files.iter().all(|bin| size > bin.map.len()) {
                // Both files were made on a full disk, and are too small for this entry.
                return Err(StoreError::NoSpace);
            }
            self.filled.notify_one();
            let until = *until.get_or_insert_with(|| Instant::now() + self.wait_timeout);
            if self.emptied.wait_until(&mut state, until).timed_out() {
                return Err(StoreError::unavailable("too many audit records wait for the database"));
            }
        }
        let SpoolState { files, next_number: next, count, oldest_since: since, .. } = &mut *state;
        let bin = files.last_mut().expect("a file with room was just found");
        bin.append(*next, body);
        *next += 1;
        count.set(*next);
        let plenty = bin.hurry_threshold();
        let (first, plenty) = (since.is_none(), bin.used > plenty && bin.used - size <= plenty);
        if first {
            *since = Some(Instant::now());
        }
        drop(state);
        if first || plenty {
            self.filled.notify_one();
        }
        Ok(())
    }

    fn open_file(&self, index: usize) -> io::Result<SpoolFile> {
        let path = self.directory.join(FILE_NAMES[index]);
        // A full disk can have left a file that could not be given its full size. Nothing was ever put into it, since
        // only this instance uses the directory.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let made = |size| {
            file.set_len(0)?;
            Ok(SpoolFile { map: MappedFile::new(&file, size)?, used: 0, first: 0, count: 0 })
        };
        made(FILE_SIZE).or_else(|_: io::Error| made(SMALL_FILE_SIZE)).or_else(|error| match &self.reserve {
            Some(reserve) if error.kind() == io::ErrorKind::StorageFull && reserve.release_to_host() => {
                let bin = made(SMALL_FILE_SIZE);
                reserve.reclaim();
                bin
            }
            _ => Err(error),
        })
    }

    /// Waits until entries have waited for `pause` or fill much of a file, until the spool closes, or for `longest`.
    pub(crate) fn wait(&self, pause: Duration, longest: Duration) -> WakeReason {
        let mut state = self.state.lock();
        let until = Instant::now() + longest;
        loop {
            if state.is_closing {
                return WakeReason::Closing;
            }
            let plenty = state.files.iter().any(|bin| bin.used > bin.hurry_threshold());
            let due = state.oldest_since.map(|since| since + pause);
            if plenty || due.is_some_and(|due| due <= Instant::now()) {
                return WakeReason::Due;
            }
            if Instant::now() >= until {
                return WakeReason::Idle;
            }
            self.filled.wait_until(&mut state, due.map_or(until, |due| due.min(until)));
        }
    }

    /// Takes the file with the oldest entries out of the spool, to be drained. Give it back with `return_file`.
    pub(crate) fn take_oldest(&self) -> Option<SpoolFile> {
        let mut state = self.state.lock();
        let oldest = state.files.iter().enumerate().filter(|(_, bin)| bin.used > 0);
        let (index, _) = oldest.min_by_key(|(_, bin)| bin.first)?;
        let bin = state.files.remove(index);
        state.oldest_since = state.files.iter().any(|bin| bin.used > 0).then(Instant::now);
        Some(bin)
    }

    /// Gives a file back. If its entries are in the database, it is emptied first.
    pub(crate) fn return_file(&self, mut bin: SpoolFile, emptied: DrainResult) {
        if emptied == DrainResult::InDatabase {
            bin.clear();
        }
        let mut state = self.state.lock();
        if emptied == DrainResult::NotYet {
            state.oldest_since.get_or_insert_with(Instant::now);
        }
        // Before the file that is being filled, if there is one.
        state.files.insert(0, bin);
        drop(state);
        self.emptied.notify_all();
    }

    /// Tells the worker that no more entries will come.
    pub(crate) fn close(&self) {
        self.state.lock().is_closing = true;
        self.filled.notify_all();
    }
}

/// Whether the entries of a file are in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainResult {
    InDatabase,
    NotYet,
}

impl SpoolFile {
    fn append(&mut self, number: i64, body: &[u8]) {
        if self.count == 0 {
            self.first = number;
        }
        let number = number.to_le_bytes();
        let entry = &mut self.map[self.used..self.used + HEADER_LENGTH + body.len()];
        entry[HEADER_LENGTH..].copy_from_slice(body);
        entry[8..HEADER_LENGTH].copy_from_slice(&number);
        entry[4..8].copy_from_slice(&checksum(&number, body).to_le_bytes());
        // The length last: it makes the entry valid.
        let length = u32::try_from(body.len()).expect("an entry is shorter than a file");
        entry[..4].copy_from_slice(&length.to_le_bytes());
        self.used += HEADER_LENGTH + body.len();
        self.count += 1;
    }

    /// A file with more bytes than this is drained without waiting for `pause`.
    fn hurry_threshold(&self) -> usize {
        self.map.len() / 3
    }

    /// The entries in the file, oldest first.
    pub(crate) fn entries(&self) -> Vec<(i64, RecordBody)> {
        read_entries(&self.map[..self.used])
    }

    fn clear(&mut self) {
        self.map[..self.used].fill(0);
        (self.used, self.first, self.count) = (0, 0, 0);
    }
}

fn checksum(number: &[u8; 8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(number);
    hasher.update(body);
    hasher.finalize()
}

/// Reads the entries of a file up to the first incomplete one.
fn read_entries(mut bytes: &[u8]) -> Vec<(i64, RecordBody)> {
    let mut entries = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(HEADER_LENGTH) {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let number: [u8; 8] = head[8..].try_into().expect("eight bytes");
        let length = word(0) as usize;
        let Some((body, rest)) = rest.split_at_checked(length).filter(|_| length > 0) else { break };
        if checksum(&number, body) != word(4) {
            break;
        }
        let Ok(text) = std::str::from_utf8(body) else { break };
        entries.push((i64::from_le_bytes(number), RecordBody(text.into())));
        bytes = rest;
    }
    entries
}

/// The entries that an instance that no longer runs has left in its spool, oldest first.
pub(crate) fn read_abandoned(directory: &Path) -> io::Result<Vec<(i64, RecordBody)>> {
    let mut entries = Vec::new();
    for name in FILE_NAMES {
        match fs::read(directory.join(name)) {
            Ok(bytes) => entries.extend(read_entries(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    entries.sort_by_key(|(number, _)| *number);
    Ok(entries)
}

pub(crate) fn unwritable_error(error: &io::Error) -> StoreError {
    match crate::database::error::from_io(error) {
        StoreError::Unavailable { source, .. } => {
            StoreError::Unavailable { what: "the files of the audit can't be written".into(), source }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn facts(number: usize) -> RecordBody {
        RecordBody(format!("{{\"number\":{number}}}"))
    }

    fn spool(directory: &Path) -> Spool {
        let (_, count) = crate::audit::chain_end_file::create_file(directory, &[0; 32]).unwrap();
        Spool::new(directory, count, Duration::from_millis(20), None)
    }

    #[test]
    fn what_is_put_in_comes_out_in_order_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let spool = spool(dir.path());
        let mut fetched = Vec::new();
        for number in 0..100_000 {
            spool.put(&facts(number)).unwrap();
            if number % 7_000 == 0 {
                let bin = spool.take_oldest().unwrap();
                fetched.extend(bin.entries());
                spool.return_file(bin, DrainResult::InDatabase);
            }
        }
        while let Some(bin) = spool.take_oldest() {
            fetched.extend(bin.entries());
            spool.return_file(bin, DrainResult::InDatabase);
        }
        let expected: Vec<_> = (0..100_000).map(|number| (number as i64, facts(number))).collect();
        assert!(fetched == expected);
    }

    #[test]
    fn what_nobody_fetched_is_still_there_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let spool = spool(dir.path());
        (0..10).for_each(|number| spool.put(&facts(number)).unwrap());
        let bin = spool.take_oldest().unwrap();
        spool.put(&facts(10)).unwrap();
        // One file is being drained and the other filled: the entries of both are read.
        assert_eq!(read_abandoned(dir.path()).unwrap().len(), 11);
        spool.return_file(bin, DrainResult::InDatabase);
        assert_eq!(read_abandoned(dir.path()).unwrap(), [(10, facts(10))]);
    }

    #[test]
    fn a_file_that_could_not_be_made_whole_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let spool = spool(dir.path());
        // What a full disk leaves of the first attempt.
        fs::write(dir.path().join(FILE_NAMES[0]), "").unwrap();
        spool.put(&facts(0)).unwrap();
        assert_eq!(read_abandoned(dir.path()).unwrap(), [(0, facts(0))]);
    }

    #[test]
    fn a_torn_entry_ends_the_reading() {
        let dir = tempfile::tempdir().unwrap();
        let spool = spool(dir.path());
        (0..3).for_each(|number| spool.put(&facts(number)).unwrap());
        let path = dir.path().join(FILE_NAMES[0]);
        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        bytes[end] ^= 1;
        assert_eq!(read_entries(&bytes), [(0, facts(0)), (1, facts(1))]);
        bytes.truncate(end - 2);
        assert_eq!(read_entries(&bytes), [(0, facts(0)), (1, facts(1))]);
    }

    #[test]
    fn a_full_spool_is_waited_for_and_not_forever() {
        let dir = tempfile::tempdir().unwrap();
        let spool = spool(dir.path());
        let long = RecordBody("x".repeat(FILE_SIZE / 3));
        let mut put = 0;
        let full = loop {
            match spool.put(&long) {
                Ok(()) => put += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, StoreError::Unavailable { .. }), "{full}");
        assert_eq!(put, 4);
        let bin = spool.take_oldest().unwrap();
        assert_eq!(bin.entries()[0].0, 0);
        spool.return_file(bin, DrainResult::InDatabase);
        spool.put(&long).unwrap();
    }
}
