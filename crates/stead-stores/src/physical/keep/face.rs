//! What the ledger says of a name before and after an action.

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use stead_core::store::{Attr, NodeKind, StoreError, StoreResult};

use super::super::host::HostStat;
use super::super::patch::FilePatch;
use crate::virtual_store::books::{LedgerRow, StoredLedgerRow};

/// What something looked like. Two looks at a file with the same face found the same content: Stead sets the time of
/// modification to the nanosecond.
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

    /// What something looked like that was found below a directory of the Store.
    pub(super) fn of_attr(attr: &Attr) -> Self {
        let size = match attr.kind {
            NodeKind::File | NodeKind::Symlink => attr.size,
            NodeKind::Directory | NodeKind::Special(_) => 0,
        };
        let (kind, ino, mode, modified) = (attr.kind, attr.node.0, attr.mode & 0o7777, attr.modified);
        Fingerprint { kind, ino, size, mode, modified }
    }

    /// Whether it is the same thing with the same content.
    pub(super) fn has_same_content(&self, other: &Fingerprint) -> bool {
        (self.kind, self.ino, self.size, self.modified) == (other.kind, other.ino, other.size, other.modified)
    }
}

/// What happened to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LedgerEventKind {
    Placed = 1,
    Replaced = 2,
    Removed = 3,
    Moved = 4,
    Crossed = 5,
    Patched = 6,
    Dressed = 7,
}

/// The rest of a row, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LedgerEventDetail {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Fingerprint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Fingerprint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<ReplacedBytes>,
    /// The node of something that was gone and came back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) returns: Option<u64>,
}

/// What a write into a file replaced: how long it was, and where the stashed bytes belong, one after the other.
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

/// A row as the ledger takes it, without its number.
#[derive(Debug, Clone)]
pub(super) struct LedgerEvent {
    pub(super) what: LedgerEventKind,
    pub(super) path: Vec<u8>,
    pub(super) other: Option<Vec<u8>>,
    pub(super) detail: LedgerEventDetail,
    pub(super) stashed: bool,
}

impl LedgerEvent {
    pub(super) fn to_row(&self, seq: i64) -> LedgerRow {
        LedgerRow {
            seq,
            what: self.what as i64,
            path: self.path.clone(),
            other: self.other.clone(),
            detail: serde_json::to_string(&self.detail).expect("numbers and words can be written as JSON"),
            stashed: self.stashed,
        }
    }

    /// Understands a row that was written earlier.
    pub(super) fn from_row(told: &StoredLedgerRow) -> StoreResult<Self> {
        let LedgerRow { what, path, other, detail, stashed, .. } = &told.row;
        let what = match what {
            1 => LedgerEventKind::Placed,
            2 => LedgerEventKind::Replaced,
            3 => LedgerEventKind::Removed,
            4 => LedgerEventKind::Moved,
            5 => LedgerEventKind::Crossed,
            6 => LedgerEventKind::Patched,
            7 => LedgerEventKind::Dressed,
            _ => return Err(damaged_row()),
        };
        let detail = serde_json::from_str(detail).map_err(|_| damaged_row())?;
        let (path, other) = (path.clone(), other.clone());
        if matches!(what, LedgerEventKind::Moved | LedgerEventKind::Crossed) && other.is_none() {
            return Err(damaged_row());
        }
        Ok(LedgerEvent { what, path, other, detail, stashed: *stashed })
    }
}

fn damaged_row() -> StoreError {
    StoreError::Corrupt("an entry of the ledger can't be understood".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_as_it_was_written() {
        let face = Fingerprint {
            kind: NodeKind::File,
            ino: u64::MAX,
            size: 7,
            mode: 0o644,
            modified: Timestamp(1_700_000_000_123_456_789),
        };
        let patch = Some(ReplacedBytes { length: 9, pieces: vec![(1, 2), (5, 4)] });
        let detail = LedgerEventDetail { before: Some(face), after: None, patch, returns: Some(1 << 63) };
        let (path, other) = (b"a/b".to_vec(), Some(b"c".to_vec()));
        let said = LedgerEvent { what: LedgerEventKind::Crossed, path, other, detail, stashed: true };
        let told = StoredLedgerRow { version: 3, row: said.to_row(4), hash: None };
        let read = LedgerEvent::from_row(&told).unwrap();
        assert_eq!((read.what, &read.detail, read.stashed), (said.what, &said.detail, true));
        let broken = LedgerRow { what: 99, ..told.row.clone() };
        assert!(LedgerEvent::from_row(&StoredLedgerRow { row: broken, ..told }).is_err());
    }
}
