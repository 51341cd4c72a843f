//! The end of an instance's chain, kept outside the database in a mapped file. The file survives the end of the
//! process, and recovery compares the database with it.
//!
//! The file has two slots. The chain's new end is written into the first slot just before a commit, and into the second
//! one just after it. So the database holds what both slots say or, if the process was killed during a commit, what one
//! of them says. The file also holds the number of records that were put into the spool, the public key that signs, and
//! the boot id of the machine. After another boot the file may be older or newer than the database, and only signed
//! heads count.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::audit::chain::{CHAIN_START, Chain, RecordHash};
use crate::audit::mapped_file::MappedFile;
use crate::boot;
use crate::sync::{self, SyncPoint};

const FILE_NAME: &str = "tail";
const FILE_SIZE: usize = 4_096;
const BOOT_OFFSET: usize = 0;
const BOOT_LENGTH: usize = boot::ID_LENGTH;
const KEY_OFFSET: usize = 64;
const SLOT_OFFSETS: [usize; 2] = [128, 256];
const SLOT_LENGTH: usize = 8 + 8 + 32;
const COUNT_OFFSET: usize = 512;

/// The last record of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    pub(crate) seq: i64,
    pub(crate) hash: RecordHash,
    /// How many entries of the spool are in the chain.
    pub(crate) spooled: i64,
}

impl ChainEnd {
    /// The end of an empty chain.
    pub(crate) const START: ChainEnd = ChainEnd { seq: 0, hash: CHAIN_START, spooled: 0 };

    pub(crate) fn of(chain: &Chain) -> Self {
        ChainEnd { seq: chain.seq, hash: chain.hash, spooled: chain.spooled }
    }

    /// Whether both name the same record. The spool counts may differ.
    pub(crate) fn is_same_record(&self, other: &ChainEnd) -> bool {
        (self.seq, self.hash) == (other.seq, other.hash)
    }

    fn bytes(&self) -> [u8; SLOT_LENGTH] {
        let mut bytes = [0; SLOT_LENGTH];
        bytes[..8].copy_from_slice(&self.seq.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.spooled.to_le_bytes());
        bytes[16..].copy_from_slice(&self.hash);
        bytes
    }

    fn from_bytes(bytes: &[u8; SLOT_LENGTH]) -> Self {
        let number =
            |offset: usize| i64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"));
        let hash = bytes[16..].try_into().expect("the rest is a hash");
        ChainEnd { seq: number(0), spooled: number(8), hash }
    }
}

/// The two slots of a running instance's file.
#[derive(Debug)]
pub(crate) struct ChainEndFile(MappedFile);

/// The counter of spooled records in the same file.
#[derive(Debug)]
pub(crate) struct SpooledCount(MappedFile);

/// Makes the file of an instance that starts, and syncs it. `key` is the public key that signs.
pub(crate) fn create_file(directory: &Path, key: &[u8; 32]) -> io::Result<(ChainEndFile, SpooledCount)> {
    let path = directory.join(FILE_NAME);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    // Two mappings of one file. Each side writes only its own bytes.
    let (chain_end_file, spooled_count) =
        (ChainEndFile(MappedFile::new(&file, FILE_SIZE)?), SpooledCount(MappedFile::new(&file, FILE_SIZE)?));
    let mut initial = [0; SLOT_OFFSETS[1] + SLOT_LENGTH + 4];
    if let Some(boot) = boot::id() {
        initial[BOOT_OFFSET..BOOT_OFFSET + BOOT_LENGTH].copy_from_slice(&boot);
    }
    initial[KEY_OFFSET..KEY_OFFSET + key.len()].copy_from_slice(key);
    SLOT_OFFSETS.into_iter().for_each(|offset| write_slot(&mut initial, offset, &ChainEnd::START));
    file.write_all_at(&initial, 0)?;
    sync::sync_all(SyncPoint::AuditInstance, &file)?;
    Ok((chain_end_file, spooled_count))
}

impl ChainEndFile {
    /// Opens the file of an instance that no longer runs, so that recovery can update it.
    pub(crate) fn reopen(directory: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(directory.join(FILE_NAME))?;
        Ok(ChainEndFile(MappedFile::new(&file, FILE_SIZE)?))
    }

    /// Writes the first slot: a transaction that ends the chain here commits next.
    pub(crate) fn announce(&mut self, chain: &Chain) {
        write_slot(&mut self.0, SLOT_OFFSETS[0], &ChainEnd::of(chain));
    }

    /// Writes the second slot: the transaction has committed.
    pub(crate) fn confirm(&mut self, chain: &Chain) {
        write_slot(&mut self.0, SLOT_OFFSETS[1], &ChainEnd::of(chain));
    }
}

fn write_slot(bytes: &mut [u8], offset: usize, end: &ChainEnd) {
    let end = end.bytes();
    bytes[offset..offset + SLOT_LENGTH].copy_from_slice(&end);
    bytes[offset + SLOT_LENGTH..offset + SLOT_LENGTH + 4]
        .copy_from_slice(&crc32fast::hash(&end).to_le_bytes());
}

impl SpooledCount {
    /// Publishes how many records were put into the spool.
    pub(crate) fn set(&mut self, count: i64) {
        self.0[COUNT_OFFSET..COUNT_OFFSET + 8].copy_from_slice(&count.to_le_bytes());
    }
}

/// What an instance's file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChainEndState {
    /// Whether the machine is still in the boot in which the file was written. Only then the file is exact.
    pub(crate) same_boot: bool,
    /// The public key that signs.
    pub(crate) key: [u8; 32],
    /// The end that was committed.
    pub(crate) confirmed: ChainEnd,
    /// The end that was about to be committed; equal to `confirmed` between two commits.
    pub(crate) announced: ChainEnd,
    /// How many records were put into the spool.
    pub(crate) spooled_count: i64,
}

/// Reads an instance's file; `None` if there is none, or if it isn't a valid one.
pub(crate) fn read_state(directory: &Path) -> io::Result<Option<ChainEndState>> {
    match fs::read(directory.join(FILE_NAME)) {
        Ok(bytes) => Ok(parse(&bytes, boot::id())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(bytes: &[u8], boot: Option<[u8; BOOT_LENGTH]>) -> Option<ChainEndState> {
    let bytes: &[u8; FILE_SIZE] = bytes.try_into().ok()?;
    let read_slot = |offset: usize| {
        let slot: &[u8; SLOT_LENGTH] = bytes[offset..].first_chunk()?;
        let checksum: &[u8; 4] = bytes[offset + SLOT_LENGTH..].first_chunk()?;
        (crc32fast::hash(slot).to_le_bytes() == *checksum).then(|| ChainEnd::from_bytes(slot))
    };
    // A slot that is torn because the process was killed does not count; the other one does.
    let (first, second) = (read_slot(SLOT_OFFSETS[0]), read_slot(SLOT_OFFSETS[1]));
    let (slot_a, slot_b) = (first.or(second)?, second.or(first)?);
    let (confirmed, announced) = if slot_a.seq < slot_b.seq { (slot_a, slot_b) } else { (slot_b, slot_a) };
    Some(ChainEndState {
        same_boot: boot.is_some_and(|boot| bytes[BOOT_OFFSET..BOOT_OFFSET + BOOT_LENGTH] == boot),
        key: *bytes[KEY_OFFSET..].first_chunk()?,
        confirmed,
        announced,
        spooled_count: i64::from_le_bytes(*bytes[COUNT_OFFSET..].first_chunk()?),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use uuid::Uuid;

    use super::*;

    fn chain(seq: i64) -> Chain {
        Chain { seq, hash: [seq as u8; 32], spooled: seq / 2, ..Chain::new(Uuid::nil()) }
    }

    fn state_of(directory: &Path) -> ChainEndState {
        read_state(directory).unwrap().unwrap()
    }

    #[test]
    fn both_slots_are_equal_between_commits_and_differ_during_one() {
        let directory = tempfile::tempdir().unwrap();
        let (mut chain_end_file, mut spooled_count) = create_file(directory.path(), &[7; 32]).unwrap();
        let state = state_of(directory.path());
        assert_eq!(
            (state.confirmed, state.announced, state.spooled_count),
            (ChainEnd::START, ChainEnd::START, 0)
        );
        assert_eq!((state.key, state.same_boot), ([7; 32], boot::id().is_some()));
        for seq in [3, 8, 200] {
            let before = state_of(directory.path()).confirmed;
            chain_end_file.announce(&chain(seq));
            spooled_count.set(seq);
            let state = state_of(directory.path());
            let end = ChainEnd::of(&chain(seq));
            assert_eq!((state.confirmed, state.announced, state.spooled_count), (before, end, seq));
            chain_end_file.confirm(&chain(seq));
            let state = state_of(directory.path());
            assert_eq!((state.confirmed, state.announced), (end, end));
        }
    }

    #[test]
    fn if_one_slot_is_torn_the_other_one_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let (mut chain_end_file, _) = create_file(directory.path(), &[7; 32]).unwrap();
        chain_end_file.announce(&chain(5));
        let intact = fs::read(directory.path().join(FILE_NAME)).unwrap();
        for (slot, expected) in
            [(SLOT_OFFSETS[0], ChainEnd::START), (SLOT_OFFSETS[1], ChainEnd::of(&chain(5)))]
        {
            let mut torn = intact.clone();
            torn[slot + 20] ^= 1;
            let state = parse(&torn, None).unwrap();
            assert_eq!((state.confirmed, state.announced, state.same_boot), (expected, expected, false));
        }
        assert_eq!(parse(&intact[1..], None), None);
        assert_eq!(parse(&[0; FILE_SIZE], None), None, "a file that was never filled says nothing");
    }

    #[test]
    fn a_file_of_another_boot_is_recognized() {
        let directory = tempfile::tempdir().unwrap();
        create_file(directory.path(), &[7; 32]).unwrap();
        let bytes = fs::read(directory.path().join(FILE_NAME)).unwrap();
        assert!(!parse(&bytes, Some([b'x'; BOOT_LENGTH])).unwrap().same_boot);
    }
}
