//! What the ledger says of a name before and after an action.

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use stead_core::store::{Attr, Kind, StoreError, StoreResult};

use super::super::host::Stat;
use super::super::patch::Patch;
use crate::virtual_store::books::{Row, Told};

/// What something looked like. Two looks at a file with the same face found the same content: Stead sets the time of
/// modification to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Face {
    pub(super) kind: Kind,
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: Timestamp,
}

impl Face {
    pub(super) fn of(stat: &Stat) -> Self {
        let size = match stat.kind {
            Kind::File | Kind::Symlink => stat.size,
            Kind::Directory | Kind::Special(_) => 0,
        };
        Face { kind: stat.kind, ino: stat.ino, size, mode: stat.mode & 0o7777, modified: stat.modified }
    }

    /// What something looked like that was found below a directory of the Store.
    pub(super) fn found(attr: &Attr) -> Self {
        let size = match attr.kind {
            Kind::File | Kind::Symlink => attr.size,
            Kind::Directory | Kind::Special(_) => 0,
        };
        let (kind, ino, mode, modified) = (attr.kind, attr.node.0, attr.mode & 0o7777, attr.modified);
        Face { kind, ino, size, mode, modified }
    }

    /// Whether it is the same thing with the same content.
    pub(super) fn holds_same(&self, other: &Face) -> bool {
        (self.kind, self.ino, self.size, self.modified) == (other.kind, other.ino, other.size, other.modified)
    }
}

/// What happened to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
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
pub(super) struct Detail {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Face>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Face>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<Replaced>,
    /// The node of something that was gone and came back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) returns: Option<u64>,
}

/// What a write into a file replaced: how long it was, and where the stashed bytes belong, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Replaced {
    pub(super) length: u64,
    pub(super) pieces: Vec<(u64, u64)>,
}

impl From<&Patch> for Replaced {
    fn from(patch: &Patch) -> Self {
        Replaced { length: patch.old_length, pieces: patch.replaced.clone() }
    }
}

/// A row as the ledger takes it, without its number.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) what: What,
    pub(super) path: Vec<u8>,
    pub(super) other: Option<Vec<u8>>,
    pub(super) detail: Detail,
    pub(super) stashed: bool,
}

impl Said {
    pub(super) fn row(&self, seq: i64) -> Row {
        Row {
            seq,
            what: self.what as i64,
            path: self.path.clone(),
            other: self.other.clone(),
            detail: serde_json::to_string(&self.detail).expect("numbers and words can be written as JSON"),
            stashed: self.stashed,
        }
    }

    /// Understands a row that was written earlier.
    pub(super) fn of(told: &Told) -> StoreResult<Self> {
        let Row { what, path, other, detail, stashed, .. } = &told.row;
        let what = match what {
            1 => What::Placed,
            2 => What::Replaced,
            3 => What::Removed,
            4 => What::Moved,
            5 => What::Crossed,
            6 => What::Patched,
            7 => What::Dressed,
            _ => return Err(damaged()),
        };
        let detail = serde_json::from_str(detail).map_err(|_| damaged())?;
        let (path, other) = (path.clone(), other.clone());
        if matches!(what, What::Moved | What::Crossed) && other.is_none() {
            return Err(damaged());
        }
        Ok(Said { what, path, other, detail, stashed: *stashed })
    }
}

fn damaged() -> StoreError {
    StoreError::Corrupt("an entry of the ledger can't be understood".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_as_it_was_written() {
        let face = Face {
            kind: Kind::File,
            ino: u64::MAX,
            size: 7,
            mode: 0o644,
            modified: Timestamp(1_700_000_000_123_456_789),
        };
        let patch = Some(Replaced { length: 9, pieces: vec![(1, 2), (5, 4)] });
        let detail = Detail { before: Some(face), after: None, patch, returns: Some(1 << 63) };
        let (path, other) = (b"a/b".to_vec(), Some(b"c".to_vec()));
        let said = Said { what: What::Crossed, path, other, detail, stashed: true };
        let told = Told { version: 3, row: said.row(4), hash: None };
        let read = Said::of(&told).unwrap();
        assert_eq!((read.what, &read.detail, read.stashed), (said.what, &said.detail, true));
        let broken = Row { what: 99, ..told.row.clone() };
        assert!(Said::of(&Told { row: broken, ..told }).is_err());
    }
}
