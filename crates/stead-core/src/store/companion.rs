//! Companion records: what is committed together with a change, and read again by a kind and a key.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::str::FromStr;
use std::time::Instant;

use crate::audit::AuditRecord;
use crate::identity::OperationId;
use crate::managed::ManifestEdit;
use crate::name::is_plain_identifier;
use crate::store::{LeaseId, NewForkSync, NodeId, RevisionNumber, StorePath, StoreResult, VersionTag};

/// The longest key of a record, in bytes.
const MAX_KEY: usize = 4_096;
/// The longest data of a record, in bytes.
const MAX_DATA: usize = 64 << 10;

/// A record that is committed together with a change. A Store that can't commit it refuses the change with
/// [`crate::StoreError::Unsupported`].
#[derive(Debug, Clone)]
pub enum CompanionRecord {
    /// An audit record.
    Audit {
        /// The record, except the fields that are known only when the change is applied.
        record: Box<AuditRecord>,
        /// When the call began.
        began: Instant,
    },
    /// The operations that the change undoes.
    Undoes(Vec<OperationId>),
    /// A row that replaces the one with the same kind and key.
    Row(CompanionRow),
    /// That the Store, a fork, takes in changes of the Store that it was made from.
    ForkSync(Box<NewForkSync>),
    /// That the change puts files of the Store, a fork, back to their states at a revision. If the fork has taken in changes of its
    /// target since, these files get back the base that they had then: what the target has changed meanwhile isn't reverted by
    /// the next merge.
    RestoresFork(RevisionNumber),
    /// The lease under which the change is made. Nothing is written: if the lease is gone or has expired by the database's
    /// clock, the Store refuses the change with [`crate::StoreError::LeaseExpired`].
    Lease(LeaseId),
    /// The directories of the Store that are managed. From this change on, the Store keeps their manifests; the rows of what the
    /// change does to files there are committed with it. A Store that keeps no manifests ignores it.
    Managed(Vec<StorePath>),
    /// A change of a manifest alone.
    Manifest(Box<ManifestEdit>),
    /// Which earlier rows of manifests come back with the files that the change brings back. A Store that keeps no manifests
    /// ignores it.
    Returning(ReturningRows),
}

/// Earlier rows of manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReturningRows {
    /// Those that these operations have ended: the change undoes them, or a part of them.
    EndedBy(Vec<OperationId>),
    /// Those of this revision, to which the change restores files.
    AsOf(RevisionNumber),
}

/// A row about a file or about the Store, such as one of a manifest or a lease. No path leads to it, and history and undo
/// don't cover it: a change that undoes another one carries the rows that belong to its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanionRow {
    kind: RecordKind,
    key: String,
    action: RowAction,
}

/// What a [`CompanionRow`] does to the row with its kind and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowAction {
    /// Writes it.
    Put {
        /// JSON that the Store keeps as it is.
        data: String,
        /// The step, by its index, whose outcome the Store fills into the row: path, node, size and tag.
        step: Option<usize>,
    },
    /// Removes it, if there is one.
    Remove,
}

impl CompanionRow {
    /// A row that is written. Fails if the key or the data is too long, or if the data isn't JSON.
    pub fn put(
        kind: RecordKind,
        key: impl Into<String>,
        data: impl Into<String>,
    ) -> Result<Self, InvalidRecord> {
        let data = data.into();
        let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(&data).is_ok();
        if data.len() > MAX_DATA || !is_json() {
            return Err(InvalidRecord::Data);
        }
        let action = RowAction::Put { data, step: None };
        Ok(CompanionRow { kind, key: checked_key(key.into())?, action })
    }

    /// A row that is removed.
    pub fn remove(kind: RecordKind, key: impl Into<String>) -> Result<Self, InvalidRecord> {
        Ok(CompanionRow { kind, key: checked_key(key.into())?, action: RowAction::Remove })
    }

    /// This row, filled from the outcome of a step of its change. A row that is removed stays as it is.
    pub fn filled_from(mut self, index: usize) -> Self {
        if let RowAction::Put { step, .. } = &mut self.action {
            *step = Some(index);
        }
        self
    }

    /// Its kind.
    pub fn kind(&self) -> &RecordKind {
        &self.kind
    }

    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What happens to the row.
    pub fn action(&self) -> &RowAction {
        &self.action
    }

    /// The step that it is filled from.
    pub fn step(&self) -> Option<usize> {
        match &self.action {
            RowAction::Put { step, .. } => *step,
            RowAction::Remove => None,
        }
    }
}

fn checked_key(key: String) -> Result<String, InvalidRecord> {
    if key.is_empty() || key.len() > MAX_KEY { Err(InvalidRecord::Key) } else { Ok(key) }
}

/// The kind of a row, such as `manifest`: 1 to 64 lower-case letters, digits, `_` and `.`; the first one is a letter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKind(Cow<'static, str>);

impl RecordKind {
    /// Checks a kind.
    pub fn new(kind: impl Into<Cow<'static, str>>) -> Result<Self, InvalidRecord> {
        let kind = kind.into();
        if is_plain_identifier(&kind) { Ok(RecordKind(kind)) } else { Err(InvalidRecord::Kind) }
    }

    /// The kind as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RecordKind {
    type Err = InvalidRecord;

    fn from_str(text: &str) -> Result<Self, InvalidRecord> {
        RecordKind::new(text.to_owned())
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why something can't be a companion row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRecord {
    /// The kind has other characters or a wrong length.
    #[error(
        "this can't be a kind of records; use 1 to 64 lower-case letters, digits, `_` and `.`, the first one a letter"
    )]
    Kind,
    /// The key is empty or too long.
    #[error("the key of a record needs 1 to {MAX_KEY} bytes")]
    Key,
    /// The data isn't JSON, or is too long.
    #[error("the data of a record has to be JSON of at most {MAX_DATA} bytes")]
    Data,
}

/// A row as a Store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRecord {
    /// Its key.
    pub key: String,
    /// Its data, as JSON.
    pub data: String,
    /// The path after the step that filled it. Later changes that move the file don't update it.
    pub path: Option<StorePath>,
    /// The node that the step left there; `None` if it removed the node.
    pub node: Option<NodeId>,
    /// The node's size.
    pub size: Option<u64>,
    /// The node's tag.
    pub tag: Option<VersionTag>,
    /// The revision that the change made, if it made one.
    pub revision: Option<RevisionNumber>,
}

impl StoredRecord {
    /// A record that no step has filled.
    pub fn new(key: String, data: String) -> Self {
        StoredRecord { key, data, path: None, node: None, size: None, tag: None, revision: None }
    }
}

/// Which rows are wanted, sorted by key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordQuery {
    /// Only rows whose path is this one or below it.
    pub below: Option<StorePath>,
    /// Only rows after this key.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

impl RecordQuery {
    /// The first rows of a kind, at most `limit` of them.
    pub fn first(limit: usize) -> Self {
        RecordQuery { below: None, after: None, limit }
    }
}

/// Reads the rows that changes of a Store have written.
pub trait CompanionRecords: Debug + Send + Sync {
    /// The row with this kind and key.
    fn record(&self, kind: &RecordKind, key: &str) -> StoreResult<Option<StoredRecord>>;

    /// The rows of a kind, sorted by the bytes of their keys.
    fn records(&self, kind: &RecordKind, query: &RecordQuery) -> StoreResult<Vec<StoredRecord>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_checked_when_it_is_made() {
        let kind = || RecordKind::new("manifest").unwrap();
        assert_eq!("No such".parse::<RecordKind>(), Err(InvalidRecord::Kind));
        assert_eq!(CompanionRow::put(kind(), "", "{}"), Err(InvalidRecord::Key));
        assert_eq!(CompanionRow::remove(kind(), "x".repeat(MAX_KEY + 1)), Err(InvalidRecord::Key));
        assert_eq!(CompanionRow::put(kind(), "k", "{"), Err(InvalidRecord::Data));
        let long = format!("\"{}\"", "x".repeat(MAX_DATA));
        assert_eq!(CompanionRow::put(kind(), "k", long), Err(InvalidRecord::Data));
        assert_eq!(CompanionRow::put(kind(), "k", "{}").unwrap().filled_from(3).step(), Some(3));
        assert_eq!(CompanionRow::remove(kind(), "k").unwrap().filled_from(3).step(), None);
    }
}
