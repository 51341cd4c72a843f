//! What a host directory held at its snapshots: a volume beside its books, which is brought up to date before a snapshot
//! names the version.
//!
//! A Physical Store compares the directory with the shadow and puts into it what differs, batch by batch (`put`). The
//! snapshot then writes down that the shadow holds the directory as of its version (`hold`). Other versions of the shadow
//! are on the way from one snapshot to the next, and nobody may look at them.

mod hold;
mod put;

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use stead_core::store::{
    Content, Kind, NodeId, OpenContent, Past, PastIdentity, Place, StoreError, StoreResult, Version,
    VersionTag,
};
use stead_core::{Clock, Store, SystemClock, Timestamp};

use super::VirtualStore;
use super::books::Books;
use super::content;
use super::database::{Database, Shared};
use super::fault::{Fault, Result};
use super::history::Kept;
use super::queue::Weight;
use super::row::{EntryKind, entries};

pub(crate) use super::content::{CHUNK, ContentHasher};
pub(crate) use hold::Parts;
pub(super) use hold::{TakenInShadow, forget_unheld, hold, let_go};
pub(crate) use put::{Note, Turn};

/// The shadow of a directory, as it is now or as of a version.
#[derive(Debug, Clone)]
pub(crate) struct Shadow {
    store: VirtualStore,
    vol: i64,
}

/// What the shadow knows of a name.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) name: Vec<u8>,
    pub(crate) node: NodeId,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
    content: Option<i64>,
    /// What the host told of it when it was read.
    pub(crate) tag: Option<VersionTag>,
}

impl Known {
    /// Whether its content is there, and not only its size.
    pub(crate) fn is_kept(&self) -> bool {
        self.content.is_some() || self.size == 0
    }
}

impl Books {
    /// The shadow of the directory, if it has one.
    pub(crate) fn shadow(&self) -> StoreResult<Option<Shadow>> {
        let find = || -> Result<Option<i64>> {
            let reader = self.shared().reader()?;
            let found = reader
                .prepare_cached("SELECT vol FROM shadow WHERE ledger = ?1")?
                .query_row([self.volume()], |row| row.get(0));
            Ok(found.optional()?)
        };
        let Some(vol) = find()? else { return Ok(None) };
        let mut store = self.shadow_volume()?;
        if store.volume.id != vol {
            // Another process has made it anew.
            self.shared().forget_volumes();
            store = self.shadow_volume()?;
        }
        Ok(Some(Shadow { store, vol }))
    }

    /// The shadow of the directory, which is made if it has none.
    pub(crate) fn begin_shadow(&self) -> StoreResult<Shadow> {
        let store = self.shadow_volume()?;
        let (ledger, vol) = (self.volume(), store.volume.id);
        self.shared().write(Weight::Staging, move |writing| {
            writing
                .conn
                .prepare_cached("INSERT OR IGNORE INTO shadow(ledger, vol, turn, at) VALUES (?1, ?2, 0, ?3)")?
                .execute(params![ledger, vol, SystemClock.now().0])?;
            Ok(())
        })?;
        Ok(Shadow { store, vol })
    }

    fn shadow_volume(&self) -> StoreResult<VirtualStore> {
        Database(Arc::clone(self.shared())).volume(format!("{{\"shadow\":{}}}", self.volume()))
    }
}

impl Shadow {
    /// The shadow as of a version.
    pub(crate) fn at(&self, version: Version) -> Self {
        Shadow { store: self.store.at(version), vol: self.vol }
    }

    /// It as a Store.
    pub(crate) fn store(&self) -> &VirtualStore {
        &self.store
    }

    fn shared(&self) -> &Arc<Shared> {
        self.store.shared()
    }

    /// What is in a directory, sorted by name; nothing where there is no directory.
    pub(crate) fn children(&self, place: &Place) -> StoreResult<Vec<Known>> {
        const SQL: [&str; 2] = entries!(
            "SELECT e.name, e.node, e.kind, e.mode, e.size, e.modified, e.content,
               (SELECT s.tag FROM seen s WHERE s.vol = ?1 AND s.node = e.node AND s.since = e.since)",
            "e.parent = ?3 ORDER BY e.name"
        );
        let known = self.store.snapshot(|snapshot| {
            let directory = match snapshot.directory(place) {
                Err(Fault::Store(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_))) => {
                    return Ok(Vec::new());
                }
                found => found?,
            };
            let tree = snapshot.tree;
            let mut statement = tree.conn.prepare_cached(tree.pick(SQL))?;
            let mut rows = statement.query(params![tree.vol, tree.as_of, directory])?;
            let mut known = Vec::new();
            while let Some(row) = rows.next()? {
                let tag: Option<[u8; 16]> = row.get(7)?;
                known.push(Known {
                    name: row.get(0)?,
                    node: NodeId(row.get::<_, i64>(1)?.cast_unsigned()),
                    kind: EntryKind::of(row.get(2)?)?.port(),
                    mode: row.get(3)?,
                    size: row.get::<_, i64>(4)?.cast_unsigned(),
                    modified: Timestamp(row.get(5)?),
                    content: row.get(6)?,
                    tag: tag.map(|tag| VersionTag(u128::from_le_bytes(tag))),
                });
            }
            Ok(known)
        });
        Ok(known?)
    }

    /// The hash of what it holds, if it is kept.
    pub(crate) fn hash(&self, known: &Known) -> StoreResult<Option<[u8; 32]>> {
        match known.content {
            Some(content) => Ok(Some(hash_of(self.shared(), content)?)),
            None => Ok(None),
        }
    }

    /// What it holds, as the port names it.
    pub(crate) fn past(&self, known: &Known) -> Option<Past> {
        let (shared, size) = (Arc::clone(self.shared()), known.size.cast_signed());
        let kept = Kept { shared, content: known.content, size };
        match known.content {
            _ if known.size == 0 => Some(Past::new(PastIdentity::Empty, 0, kept)),
            None => None,
            Some(content) => {
                let shared = Arc::clone(self.shared());
                let find = move || hash_of(&shared, content).ok().map(PastIdentity::Hash);
                Some(Past::unhashed(known.size, kept, find))
            }
        }
    }

    /// Opens content that a shadow holds.
    pub(crate) fn open(&self, past: &Past) -> StoreResult<Box<dyn OpenContent>> {
        self.store.open_past(past)
    }

    /// Content of which only the size is known.
    pub(crate) fn unkept(&self, size: u64) -> Content {
        let kept = Kept { shared: Arc::clone(self.shared()), content: None, size: size.cast_signed() };
        Content::Past(Past::new(PastIdentity::Empty, size, kept))
    }
}

fn hash_of(shared: &Shared, content: i64) -> Result<[u8; 32]> {
    let reader = shared.reader()?;
    let mut statement = reader.prepare_cached("SELECT hash FROM content WHERE id = ?1")?;
    let hash = statement.query_row([content], |row| row.get(0)).optional()?;
    hash.ok_or_else(content::missing)
}
