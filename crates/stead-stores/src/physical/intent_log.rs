//! The intent log of a change with several actions: each action is written here before it happens. A change with one
//! action has its intent in the ledger instead.
//!
//! An intent log is a file of records: length, epoch, checksum, and as JSON how to undo one action. The file is reused
//! for many changes. Each use has a random epoch, and reading stops at a record of another epoch. A cleared log begins
//! with zeros.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use stead_core::store::{StoreError, StoreResult};

use super::host::{self, OpenMode, errno_to_store_error, io_to_store_error};
use super::root::{Dir, Root};
use super::undo::{UndoContext, UndoRecord, UndoTime, undo};
use crate::Durability;
use crate::sync;

const HEADER_LENGTH: usize = 4 + 8 + 8;
/// The longest valid record. A longer length means that the log is torn there.
const MAX_RECORD_LENGTH: usize = 64 << 20;

/// The size that a log is created with. Records that fit in it change only content, so a sync waits for these bytes
/// alone, and not for whatever metadata the file system has pending.
const INITIAL_SIZE: usize = 8 << 10;

/// One record of an intent log.
#[derive(Debug, Serialize, Deserialize)]
enum IntentRecord {
    /// An action that may have happened, and how to undo it.
    Undo(Box<UndoRecord>),
    /// All actions of the change have happened.
    Done,
}

/// An intent log that records are appended to.
#[derive(Debug)]
pub(super) struct IntentLog {
    file: File,
    name: String,
    epoch: u64,
    end: u64,
}

impl IntentLog {
    /// An intent log on a file that is empty or has been cleared.
    pub(super) fn new(file: File, name: String) -> Self {
        IntentLog { file, name, epoch: 0, end: 0 }
    }

    /// Creates an empty log in a staging directory. With full durability the log's name is on the disk afterwards, so
    /// that later only the records have to be synced.
    pub(super) fn create(
        staging_dir: BorrowedFd<'_>,
        name: String,
        durability: Durability,
    ) -> StoreResult<Self> {
        let file = host::create(staging_dir, name.as_bytes()).map_err(errno_to_store_error)?;
        if durability == Durability::Full {
            file.write_all_at(&[0; INITIAL_SIZE], 0).map_err(io_to_store_error)?;
            sync::sync_all(sync::SyncPoint::IntentLogName, staging_dir).map_err(errno_to_store_error)?;
        }
        Ok(IntentLog::new(file, name))
    }

    /// Identifies this use of the log; `None` before the first record.
    pub(super) fn epoch(&self) -> Option<u64> {
        (self.end > 0).then_some(self.epoch)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Appends how to undo the next action, and returns the record.
    pub(super) fn append_intent(
        &mut self,
        undo: UndoRecord,
        durability: Durability,
    ) -> StoreResult<UndoRecord> {
        let record = IntentRecord::Undo(Box::new(undo));
        self.append(&record, durability)?;
        match record {
            IntentRecord::Undo(undo) => Ok(*undo),
            IntentRecord::Done => unreachable!("made above"),
        }
    }

    /// Appends how to undo several actions, with one write and one sync.
    pub(super) fn append_intents<'u>(
        &mut self,
        undo_records: impl Iterator<Item = &'u UndoRecord>,
        durability: Durability,
    ) -> StoreResult<()> {
        let payloads = undo_records.map(|undo| {
            let record = IntentRecord::Undo(Box::new(undo.clone()));
            serde_json::to_vec(&record).expect("records hold numbers, text and bytes")
        });
        self.append_payloads(payloads, durability)
    }

    /// How to undo the actions that were announced so far, in their order.
    pub(super) fn undo_records(&self) -> StoreResult<Vec<UndoRecord>> {
        if self.end == 0 {
            return Ok(Vec::new());
        }
        let records = records(&self.file)?.into_iter();
        let undo = |record| match record {
            IntentRecord::Undo(undo) => Some(*undo),
            IntentRecord::Done => None,
        };
        Ok(records.filter_map(undo).collect())
    }

    /// Appends that all actions have happened: from now on recovery undoes none of them.
    pub(super) fn append_done(&mut self, durability: Durability) -> StoreResult<()> {
        self.append(&IntentRecord::Done, durability)
    }

    fn append(&mut self, record: &IntentRecord, durability: Durability) -> StoreResult<()> {
        let payload = serde_json::to_vec(record).expect("records hold numbers, text and bytes");
        self.append_payloads([payload].into_iter(), durability)
    }

    fn append_payloads(
        &mut self,
        payloads: impl Iterator<Item = Vec<u8>>,
        durability: Durability,
    ) -> StoreResult<()> {
        if self.end == 0 {
            self.epoch = fastrand::u64(1..);
        }
        let mut bytes = Vec::new();
        for payload in payloads {
            bytes.extend_from_slice(&u32::try_from(payload.len()).expect("records are short").to_le_bytes());
            bytes.extend_from_slice(&self.epoch.to_le_bytes());
            bytes.extend_from_slice(&checksum(self.epoch, &payload));
            bytes.extend_from_slice(&payload);
        }
        self.file.write_all_at(&bytes, self.end).map_err(io_to_store_error)?;
        self.end += bytes.len() as u64;
        match durability {
            Durability::Full => {
                sync::sync_data(sync::SyncPoint::Intent, &self.file).map_err(errno_to_store_error)
            }
            Durability::Fast => Ok(()),
        }
    }

    /// Clears the log. Not synced: if a power cut restores the records, recovery reads them again and comes to the same
    /// result.
    pub(super) fn clear(&mut self) -> StoreResult<()> {
        self.end = 0;
        self.file.write_all_at(&[0; HEADER_LENGTH], 0).map_err(io_to_store_error)
    }
}

fn checksum(epoch: u64, payload: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&epoch.to_le_bytes()).update(payload);
    *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes")
}

/// Creates an empty log whose blocks are allocated, for use when the disk is full.
pub(super) fn make_spare_intent_log(staging_dir: BorrowedFd<'_>, name: &[u8]) -> StoreResult<()> {
    let file = host::create(staging_dir, name).map_err(errno_to_store_error)?;
    file.write_all_at(&[0; 4 * INITIAL_SIZE], 0).map_err(io_to_store_error)
}

/// How the changes in the intent logs of a staging directory ended, by their epochs: `true` if all actions have
/// happened.
pub(super) type IntentLogOutcomes = HashMap<u64, bool>;

/// Reads how the changes in the intent logs of a staging directory ended.
pub(super) fn outcomes(staging_dir: &Dir) -> StoreResult<IntentLogOutcomes> {
    let mut outcomes = IntentLogOutcomes::new();
    for intent_log in open_intent_logs(staging_dir)? {
        let (epoch, records) = read_records(&intent_log.file)?;
        if let Some(last) = records.last() {
            outcomes.insert(epoch, matches!(last, IntentRecord::Done));
        }
    }
    Ok(outcomes)
}

/// Reads the records of a log up to the first that is torn or from another use.
fn records(file: &File) -> StoreResult<Vec<IntentRecord>> {
    Ok(read_records(file)?.1)
}

/// Reads the epoch of the current use of a log, and its records. `Corrupt` if a complete record can't be understood:
/// another version of Stead may have written it, and without it the change can't be rolled back.
fn read_records(file: &File) -> StoreResult<(u64, Vec<IntentRecord>)> {
    let mut records = Vec::new();
    let (mut at, mut first_epoch) = (0, None);
    loop {
        let mut head = [0; HEADER_LENGTH];
        if file.read_exact_at(&mut head, at).is_err() {
            break;
        }
        let length = u32::from_le_bytes(*head.first_chunk().expect("4 bytes")) as usize;
        let epoch = u64::from_le_bytes(head[4..12].try_into().expect("8 bytes"));
        if length == 0 || length > MAX_RECORD_LENGTH || *first_epoch.get_or_insert(epoch) != epoch {
            break;
        }
        let mut payload = vec![0; length];
        if file.read_exact_at(&mut payload, at + HEADER_LENGTH as u64).is_err()
            || head[12..] != checksum(epoch, &payload)
        {
            break;
        }
        records.push(serde_json::from_slice(&payload).map_err(|_| unknown_record_error())?);
        at += (HEADER_LENGTH + length) as u64;
    }
    Ok((first_epoch.unwrap_or(0), records))
}

fn unknown_record_error() -> StoreError {
    StoreError::Corrupt(
        "a process died in the middle of a change, and this version of Stead can't read how to roll the change back; \
         open the directory once with the version that made the change"
            .into(),
    )
}

fn open_intent_logs(staging_dir: &Dir) -> StoreResult<Vec<IntentLog>> {
    let mut names = Vec::new();
    let view = staging_dir.open(b"", OpenMode::Directory).map_err(errno_to_store_error)?;
    host::entries(view, |name, _| {
        if name.starts_with(b"j") {
            names.extend(String::from_utf8(name.to_vec()));
        }
    })
    .map_err(errno_to_store_error)?;
    let open = |name: String| {
        let file = staging_dir.open(name.as_bytes(), OpenMode::ReadWrite).map_err(errno_to_store_error)?;
        Ok(IntentLog::new(file.into(), name))
    };
    names.into_iter().map(open).collect()
}

/// Whether a staging directory holds a change that was neither finished nor undone. `false` if its logs can't be read.
pub(super) fn has_unfinished_change(staging_dir: &Dir) -> bool {
    open_intent_logs(staging_dir).is_ok_and(|intent_logs| {
        intent_logs.iter().any(|intent_log| {
            records(&intent_log.file).is_ok_and(|records| {
                !records.is_empty() && !matches!(records.last(), Some(IntentRecord::Done))
            })
        })
    })
}

/// Undoes the unfinished changes of a dead process, the last action first, and clears its intent logs.
pub(super) fn undo_unfinished(root: &Root, staging_dir: &Dir, rescued: &Dir) -> StoreResult<()> {
    for mut intent_log in open_intent_logs(staging_dir)? {
        let records = records(&intent_log.file)?;
        if !matches!(records.last(), Some(IntentRecord::Done)) {
            let context = UndoContext {
                root,
                staging_dir: staging_dir.as_fd(),
                rescued,
                when: UndoTime::AfterCrash,
                is_performed: false,
            };
            for record in records.iter().rev() {
                if let IntentRecord::Undo(action) = record {
                    undo(&context, action)?;
                }
            }
            sync::sync_file_system(sync::SyncPoint::Recovered, &root.dir).map_err(errno_to_store_error)?;
        }
        intent_log.clear()?;
        sync::sync_data(sync::SyncPoint::RecoveredIntentLog, &intent_log.file)
            .map_err(errno_to_store_error)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use stead_core::Timestamp;

    use super::*;

    fn removed(name: &str) -> UndoRecord {
        UndoRecord::Removed { at: name.into(), staged_name: "t1".into(), ino: 7, changed: Timestamp(7) }
    }

    #[test]
    fn a_complete_record_of_an_unknown_kind_is_an_error_and_not_taken_for_a_torn_one() {
        let mut log = IntentLog::new(tempfile::tempfile().unwrap(), "j".into());
        log.append_intent(removed("a"), Durability::Fast).unwrap();
        let unknown = br#"{"Undo":{"FromTheFuture":{}}}"#.to_vec();
        log.append_payloads([unknown].into_iter(), Durability::Fast).unwrap();
        assert!(matches!(records(&log.file), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn torn_records_and_records_of_an_earlier_use_are_not_read() {
        let mut log = IntentLog::new(tempfile::tempfile().unwrap(), "j".into());
        for name in ["a", "b", "c"] {
            log.append_intent(removed(name), Durability::Fast).unwrap();
        }
        assert_eq!(records(&log.file).unwrap().len(), 3);
        log.clear().unwrap();
        assert!(records(&log.file).unwrap().is_empty());
        log.append_intent(removed("d"), Durability::Fast).unwrap();
        assert_eq!(records(&log.file).unwrap().len(), 1);
        log.append_done(Durability::Fast).unwrap();
        assert!(matches!(&*records(&log.file).unwrap(), [IntentRecord::Undo(_), IntentRecord::Done]));
        let length = log.end;
        log.file.set_len(length - 1).unwrap();
        assert_eq!(records(&log.file).unwrap().len(), 1);
    }
}
