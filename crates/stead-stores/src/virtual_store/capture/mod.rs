//! The capture volume: what snapshots captured of a host directory, in the database of its ledger.
//!
//! A Physical Store compares the directory with the volume, and writes the differences into it in batches (`update`).
//! The snapshot then records that the volume has the directory's state as of its revision (`record`). Other revisions
//! of the volume lie between two captures and must not be read.

mod record;
mod update;

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use stead_core::store::{
    Content, ContentId, ContentRef, NodeId, NodeKind, NodePath, RevisionNumber, StoreError, StoreResult,
    VersionTag,
};
use stead_core::{Clock, SystemClock, Timestamp};

use crate::database::error::{DatabaseError, Result};
use crate::database::group_commit::CommitSync;
use crate::database::{Database, DatabaseInner};
use crate::ledger::SqliteLedger;
use crate::virtual_store::VirtualStore;
use crate::virtual_store::content;
use crate::virtual_store::entry_row::{EntryKind, entries};
use crate::virtual_store::history::VirtualContentRef;

pub(crate) use crate::virtual_store::content::{CHUNK_SIZE, ContentHasher};
pub(crate) use record::CapturedParts;
pub(crate) use record::{
    FinishedCapture, forget_unreadable_captures, record_capture, revert_unfinished_capture,
};
pub(crate) use update::{CaptureNote, CaptureTurn};

/// The capture volume of a directory, as it is now or as of a revision.
#[derive(Debug, Clone)]
pub(crate) struct CaptureVolume {
    store: VirtualStore,
    vol: i64,
}

/// An entry of the capture volume.
#[derive(Debug, Clone)]
pub(crate) struct CapturedEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) node: NodeId,
    pub(crate) kind: NodeKind,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
    content: Option<i64>,
    /// The host file's version tag when it was captured.
    pub(crate) host_tag: Option<VersionTag>,
}

impl CapturedEntry {
    /// Whether the volume has the content, and not only its size.
    pub(crate) fn has_content(&self) -> bool {
        self.content.is_some() || self.size == 0
    }
}

/// The capture volume that belongs to a ledger.
pub(crate) trait CaptureVolumes {
    /// The directory's capture volume, if it has one.
    fn capture_volume(&self) -> StoreResult<Option<CaptureVolume>>;

    /// The directory's capture volume, which is created if it has none.
    fn begin_capture_volume(&self) -> StoreResult<CaptureVolume>;
}

impl CaptureVolumes for SqliteLedger {
    fn capture_volume(&self) -> StoreResult<Option<CaptureVolume>> {
        let find = || -> Result<Option<i64>> {
            let reader = self.database.reader()?;
            let found = reader
                .prepare_cached("SELECT volume FROM capture_volume WHERE ledger = ?1")?
                .query_row([self.volume], |row| row.get(0));
            Ok(found.optional()?)
        };
        let Some(vol) = find()? else { return Ok(None) };
        let mut store = self.open_capture_store()?;
        if store.volume.id != vol {
            // Another process has recreated it.
            self.database.forget_volumes();
            store = self.open_capture_store()?;
        }
        Ok(Some(CaptureVolume { store, vol }))
    }

    fn begin_capture_volume(&self) -> StoreResult<CaptureVolume> {
        let store = self.open_capture_store()?;
        let (ledger, vol) = (self.volume, store.volume.id);
        self.database.write(CommitSync::Deferred, move |transaction| {
            transaction
                .conn
                .prepare_cached(
                    "INSERT OR IGNORE INTO capture_volume(ledger, volume, turn, at) VALUES (?1, ?2, 0, ?3)",
                )?
                .execute(params![ledger, vol, SystemClock.now().0])?;
            Ok(())
        })?;
        Ok(CaptureVolume { store, vol })
    }
}

impl SqliteLedger {
    fn open_capture_store(&self) -> StoreResult<VirtualStore> {
        Database(Arc::clone(&self.database)).volume(format!("{{\"capture\":{}}}", self.volume))
    }
}

impl CaptureVolume {
    /// The volume as of a revision.
    pub(crate) fn at(&self, revision: RevisionNumber) -> Self {
        CaptureVolume { store: self.store.at(revision), vol: self.vol }
    }

    /// The volume as a Store.
    pub(crate) fn store(&self) -> &VirtualStore {
        &self.store
    }

    fn database(&self) -> &Arc<DatabaseInner> {
        self.store.database_inner()
    }

    /// The entries of a directory, sorted by name; none if there is no directory.
    pub(crate) fn children(&self, at: &NodePath) -> StoreResult<Vec<CapturedEntry>> {
        const SQL: [&str; 2] = entries!(
            "SELECT e.name, e.node, e.kind, e.mode, e.size, e.modified, e.content,
               (SELECT s.tag FROM fingerprint s WHERE s.volume = ?1 AND s.node = e.node AND s.since = e.since)",
            "e.parent = ?3 ORDER BY e.name"
        );
        let entries = self.store.read_transaction(|snapshot| {
            let directory = match snapshot.directory(at) {
                Err(DatabaseError::Store(
                    StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_),
                )) => {
                    return Ok(Vec::new());
                }
                found => found?,
            };
            let tree = snapshot.tree;
            let mut statement = tree.conn.prepare_cached(tree.select_sql(SQL))?;
            let mut rows = statement.query(params![tree.vol, tree.as_of, directory])?;
            let mut entries = Vec::new();
            while let Some(row) = rows.next()? {
                let tag: Option<[u8; 16]> = row.get(7)?;
                entries.push(CapturedEntry {
                    name: row.get(0)?,
                    node: NodeId(row.get::<_, i64>(1)?.cast_unsigned()),
                    kind: EntryKind::from_code(row.get(2)?)?.to_kind(),
                    mode: row.get(3)?,
                    size: row.get::<_, i64>(4)?.cast_unsigned(),
                    modified: Timestamp(row.get(5)?),
                    content: row.get(6)?,
                    host_tag: tag.map(|tag| VersionTag(u128::from_le_bytes(tag))),
                });
            }
            Ok(entries)
        });
        Ok(entries?)
    }

    /// The hash of an entry's content, if the content was captured.
    pub(crate) fn hash(&self, entry: &CapturedEntry) -> StoreResult<Option<[u8; 32]>> {
        match entry.content {
            Some(content) => Ok(Some(hash_of(self.database(), content)?)),
            None => Ok(None),
        }
    }

    /// The content of an entry, if it was captured.
    pub(crate) fn content_ref(&self, entry: &CapturedEntry) -> Option<ContentRef> {
        let (database, size) = (Arc::clone(self.database()), entry.size.cast_signed());
        let content_ref = VirtualContentRef { database, content: entry.content, size };
        match entry.content {
            _ if entry.size == 0 => Some(ContentRef::new(ContentId::Empty, 0, content_ref)),
            None => None,
            Some(content) => {
                let database = Arc::clone(self.database());
                let find = move || hash_of(&database, content).ok().map(ContentId::Hash);
                Some(ContentRef::with_lazy_id(entry.size, content_ref, find))
            }
        }
    }

    /// Content of which only the size is known.
    pub(crate) fn size_only_content(&self, size: u64) -> Content {
        let content_ref = VirtualContentRef {
            database: Arc::clone(self.database()),
            content: None,
            size: size.cast_signed(),
        };
        Content::Stored(ContentRef::new(ContentId::Empty, size, content_ref))
    }
}

fn hash_of(database: &DatabaseInner, content: i64) -> Result<[u8; 32]> {
    let reader = database.reader()?;
    let mut statement = reader.prepare_cached("SELECT hash FROM content WHERE id = ?1")?;
    let hash = statement.query_row([content], |row| row.get(0)).optional()?;
    hash.ok_or_else(content::missing_content_error)
}
