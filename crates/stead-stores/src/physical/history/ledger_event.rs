//! What a ledger row says: which name, what happened to it, and what was there before and after.

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use stead_core::store::{Attr, NodeKind, StoreError, StoreResult};

use super::super::host::HostStat;
use super::super::patch::FilePatch;
use crate::ledger::{LedgerRow, StoredLedgerRow};

/// What an entry of the directory looked like. A file with the same inode, size and modification time has the same
/// content, because Stead sets modification times to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    pub(super) kind: NodeKind,
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: Timestamp,
}

impl Fingerprint {
    pub(super) fn of(stat: &HostStat) -> Self {
        let size = match stat.kind {
            NodeKind::File | NodeKind::Symlink => stat.size,
            NodeKind::Directory | NodeKind::Special(_) => 0,
        };
        Fingerprint {
            kind: stat.kind,
            ino: stat.ino,
            size,
            mode: stat.mode & 0o7777,
            modified: stat.modified,
        }
    }

    /// The fingerprint of an entry that a walk through the Store found.
    pub(super) fn of_attr(attr: &Attr) -> Self {
        let size = match attr.kind {
            NodeKind::File | NodeKind::Symlink => attr.size,
            NodeKind::Directory | NodeKind::Special(_) => 0,
        };
        let (kind, ino, mode, modified) = (attr.kind, attr.node.0, attr.mode & 0o7777, attr.modified);
        Fingerprint { kind, ino, size, mode, modified }
    }

    /// Whether it is the same node with the same content. The mode may differ.
    pub(super) fn has_same_content(&self, other: &Fingerprint) -> bool {
        (self.kind, self.ino, self.size, self.modified) == (other.kind, other.ino, other.size, other.modified)
    }
}

/// What happened to a name. The numbers are those in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LedgerEventKind {
    Placed = 1,
    Replaced = 2,
    Removed = 3,
    Moved = 4,
    Exchanged = 5,
    Patched = 6,
    AttributesSet = 7,
}

/// The part of a row that is stored as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LedgerEventDetail {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Fingerprint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Fingerprint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<ReplacedBytes>,
    /// The removed node that this event revived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revived_node: Option<u64>,
}

/// What a patch of a file replaced: the file's length before it, and the start and length of each piece. The displaced
/// file holds the pieces one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReplacedBytes {
    pub(super) length: u64,
    pub(super) pieces: Vec<(u64, u64)>,
}

impl From<&FilePatch> for ReplacedBytes {
    fn from(patch: &FilePatch) -> Self {
        ReplacedBytes { length: patch.old_length, pieces: patch.replaced.clone() }
    }
}

/// A ledger row without its `seq`.
#[derive(Debug, Clone)]
pub(super) struct LedgerEvent {
    pub(super) kind: LedgerEventKind,
    pub(super) path: Vec<u8>,
    pub(super) other_path: Option<Vec<u8>>,
    pub(super) detail: LedgerEventDetail,
    pub(super) displaced_kept: bool,
}

impl LedgerEvent {
    pub(super) fn to_row(&self, seq: i64) -> LedgerRow {
        let mut detail_json = serde_json::to_string(&self.detail).expect("plain data can be written as JSON");
        // A change may have a row for each of very many files.
        detail_json.shrink_to_fit();
        LedgerRow {
            seq,
            kind: self.kind as i64,
            path: self.path.clone(),
            other_path: self.other_path.clone(),
            detail_json,
            displaced_kept: self.displaced_kept,
        }
    }

    /// Parses a stored row; `Corrupt` if that fails.
    pub(super) fn from_row(stored_row: &StoredLedgerRow) -> StoreResult<Self> {
        let LedgerRow { kind, path, other_path, detail_json: detail, displaced_kept, .. } = &stored_row.row;
        let kind = match kind {
            1 => LedgerEventKind::Placed,
            2 => LedgerEventKind::Replaced,
            3 => LedgerEventKind::Removed,
            4 => LedgerEventKind::Moved,
            5 => LedgerEventKind::Exchanged,
            6 => LedgerEventKind::Patched,
            7 => LedgerEventKind::AttributesSet,
            _ => return Err(damaged_row()),
        };
        let detail = serde_json::from_str(detail).map_err(|_| damaged_row())?;
        let (path, other_path) = (path.clone(), other_path.clone());
        if matches!(kind, LedgerEventKind::Moved | LedgerEventKind::Exchanged) && other_path.is_none() {
            return Err(damaged_row());
        }
        Ok(LedgerEvent { kind, path, other_path, detail, displaced_kept: *displaced_kept })
    }
}

fn damaged_row() -> StoreError {
    StoreError::Corrupt("a row of the ledger can't be read".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_as_it_was_written() {
        let fingerprint = Fingerprint {
            kind: NodeKind::File,
            ino: u64::MAX,
            size: 7,
            mode: 0o644,
            modified: Timestamp(1_700_000_000_123_456_789),
        };
        let patch = Some(ReplacedBytes { length: 9, pieces: vec![(1, 2), (5, 4)] });
        let detail =
            LedgerEventDetail { before: Some(fingerprint), after: None, patch, revived_node: Some(1 << 63) };
        let (path, other_path) = (b"a/b".to_vec(), Some(b"c".to_vec()));
        let event =
            LedgerEvent { kind: LedgerEventKind::Exchanged, path, other_path, detail, displaced_kept: true };
        let stored_row = StoredLedgerRow { revision: 3, row: event.to_row(4), content_hash: None };
        let read = LedgerEvent::from_row(&stored_row).unwrap();
        assert_eq!((read.kind, &read.detail, read.displaced_kept), (event.kind, &event.detail, true));
        let broken = LedgerRow { kind: 99, ..stored_row.row.clone() };
        assert!(LedgerEvent::from_row(&StoredLedgerRow { row: broken, ..stored_row }).is_err());
    }
}
