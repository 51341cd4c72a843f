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
    pub(crate) fn put(&self, record: &RecordBody) -> StoreResult<()> {
        let bytes = record.0.as_bytes();
        let size = HEADER_LENGTH + bytes.len();
        if size > FILE_SIZE {
            return Err(StoreError::Invalid("the record is too long for the audit".into()));
        }
        let mut state = self.state.lock();
        let mut deadline = None;
        while state.files.last().is_none_or(|file| file.used + size > file.map.len()) {
            if state.files_made < FILE_NAMES.len() {
                let file = self.open_file(state.files_made).map_err(|error| unwritable_error(&error))?;
                state.files_made += 1;
                // After a full file, which is drained first.
                state.files.push(file);
                continue;
            }
            if let Some(index) = state.files.iter().position(|file| file.used == 0 && size <= file.map.len())
            {
                let file = state.files.remove(index);
                state.files.push(file);
                continue;
            }
            if state.files.len() == FILE_NAMES.len() && state.files.iter().all(|file| size > file.map.len()) {
                // Both files were made on a full disk, and are too small for this entry.
                return Err(StoreError::NoSpace);
            }
            self.filled.notify_one();
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.wait_timeout);
            if self.emptied.wait_until(&mut state, deadline).timed_out() {
                return Err(StoreError::unavailable("too many audit records wait for the database"));
            }
        }
        let SpoolState { files, next_number, count, oldest_since, .. } = &mut *state;
        let file = files.last_mut().expect("a file with room was just found");
        file.append(*next_number, bytes);
        *next_number += 1;
        count.set(*next_number);
        let threshold = file.hurry_threshold();
        let is_first = oldest_since.is_none();
        let passes_threshold = file.used > threshold && file.used - size <= threshold;
        if is_first {
            *oldest_since = Some(Instant::now());
        }
        drop(state);
        if is_first || passes_threshold {
            self.filled.notify_one();
        }
        Ok(())
    }

    fn open_file(&self, index: usize) -> io::Result<SpoolFile> {
        let path = self.directory.join(FILE_NAMES[index]);
        // A full disk can have left a file that could not be given its full size. Nothing was ever put into it, since
        // only this instance uses the directory.
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let map_with_size = |size| {
            file.set_len(0)?;
            Ok(SpoolFile { map: MappedFile::new(&file, size)?, used: 0, first: 0, count: 0 })
        };
        map_with_size(FILE_SIZE).or_else(|_: io::Error| map_with_size(SMALL_FILE_SIZE)).or_else(|error| {
            match &self.reserve {
                Some(reserve) if error.kind() == io::ErrorKind::StorageFull && reserve.release_to_host() => {
                    let opened = map_with_size(SMALL_FILE_SIZE);
                    reserve.reclaim();
                    opened
                }
                _ => Err(error),
            }
        })
    }

    /// Waits until entries have waited for `pause` or fill much of a file, until the spool closes, or for `longest`.
    pub(crate) fn wait(&self, pause: Duration, max_wait: Duration) -> WakeReason {
        let mut state = self.state.lock();
        let deadline = Instant::now() + max_wait;
        loop {
            if state.is_closing {
                return WakeReason::Closing;
            }
            let is_filling = state.files.iter().any(|file| file.used > file.hurry_threshold());
            let due = state.oldest_since.map(|since| since + pause);
            if is_filling || due.is_some_and(|due| due <= Instant::now()) {
                return WakeReason::Due;
            }
            if Instant::now() >= deadline {
                return WakeReason::Idle;
            }
            self.filled.wait_until(&mut state, due.map_or(deadline, |due| due.min(deadline)));
        }
    }

    /// Takes the file with the oldest entries out of the spool, to be drained. Give it back with `return_file`.
    pub(crate) fn take_oldest(&self) -> Option<SpoolFile> {
        let mut state = self.state.lock();
        let oldest = state.files.iter().enumerate().filter(|(_, file)| file.used > 0);
        let (index, _) = oldest.min_by_key(|(_, file)| file.first)?;
        let file = state.files.remove(index);
        state.oldest_since = state.files.iter().any(|file| file.used > 0).then(Instant::now);
        Some(file)
    }

    /// Gives a file back. If its entries are in the database, it is emptied first.
    pub(crate) fn return_file(&self, mut file: SpoolFile, result: DrainResult) {
        if result == DrainResult::InDatabase {
            file.clear();
        }
        let mut state = self.state.lock();
        if result == DrainResult::NotYet {
            state.oldest_since.get_or_insert_with(Instant::now);
        }
        // Before the file that is being filled, if there is one.
        state.files.insert(0, file);
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
    while let Some((header, rest)) = bytes.split_at_checked(HEADER_LENGTH) {
        let word =
            |offset: usize| u32::from_le_bytes(header[offset..offset + 4].try_into().expect("four bytes"));
        let number: [u8; 8] = header[8..].try_into().expect("eight bytes");
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

    fn body(number: usize) -> RecordBody {
        RecordBody(format!("{{\"number\":{number}}}"))
    }

    fn spool(directory: &Path) -> Spool {
        let (_, count) = crate::audit::chain_end_file::create_file(directory, &[0; 32]).unwrap();
        Spool::new(directory, count, Duration::from_millis(20), None)
    }

    #[test]
    fn records_are_taken_out_once_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool(directory.path());
        let mut fetched = Vec::new();
        for number in 0..100_000 {
            spool.put(&body(number)).unwrap();
            if number % 7_000 == 0 {
                let file = spool.take_oldest().unwrap();
                fetched.extend(file.entries());
                spool.return_file(file, DrainResult::InDatabase);
            }
        }
        while let Some(file) = spool.take_oldest() {
            fetched.extend(file.entries());
            spool.return_file(file, DrainResult::InDatabase);
        }
        let expected: Vec<_> = (0..100_000).map(|number| (number as i64, body(number))).collect();
        assert!(fetched == expected);
    }

    #[test]
    fn records_that_were_not_drained_can_be_read_by_another_process() {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool(directory.path());
        (0..10).for_each(|number| spool.put(&body(number)).unwrap());
        let file = spool.take_oldest().unwrap();
        spool.put(&body(10)).unwrap();
        // One file is being drained and the other filled: the entries of both are read.
        assert_eq!(read_abandoned(directory.path()).unwrap().len(), 11);
        spool.return_file(file, DrainResult::InDatabase);
        assert_eq!(read_abandoned(directory.path()).unwrap(), [(10, body(10))]);
    }

    #[test]
    fn an_incomplete_spool_file_is_created_again() {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool(directory.path());
        // What a full disk leaves of the first attempt.
        fs::write(directory.path().join(FILE_NAMES[0]), "").unwrap();
        spool.put(&body(0)).unwrap();
        assert_eq!(read_abandoned(directory.path()).unwrap(), [(0, body(0))]);
    }

    #[test]
    fn reading_a_spool_file_ends_at_a_torn_entry() {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool(directory.path());
        (0..3).for_each(|number| spool.put(&body(number)).unwrap());
        let path = directory.path().join(FILE_NAMES[0]);
        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        bytes[end] ^= 1;
        assert_eq!(read_entries(&bytes), [(0, body(0)), (1, body(1))]);
        bytes.truncate(end - 2);
        assert_eq!(read_entries(&bytes), [(0, body(0)), (1, body(1))]);
    }

    #[test]
    fn a_record_waits_for_a_full_spool_but_not_forever() {
        let directory = tempfile::tempdir().unwrap();
        let spool = spool(directory.path());
        let long = RecordBody("x".repeat(FILE_SIZE / 3));
        let mut put_count = 0;
        let error = loop {
            match spool.put(&long) {
                Ok(()) => put_count += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert_eq!(put_count, 4);
        let file = spool.take_oldest().unwrap();
        assert_eq!(file.entries()[0].0, 0);
        spool.return_file(file, DrainResult::InDatabase);
        spool.put(&long).unwrap();
    }
}
