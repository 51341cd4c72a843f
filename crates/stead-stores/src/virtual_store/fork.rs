//! Forks: volumes that are layered over another volume, as that was at a revision.
//!
//! Making a fork writes a row of `volume`, however large the base is. Reads go through all layers, so their number is
//! bounded: if it would grow too large, the changes of the forks in between are merged into one layer.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use stead_core::store::{DatabaseId, Fork, ForkName, ForkPart, QuotaLimits, RevisionNumber, StoreId};
use stead_core::{AccessScope, OperationId};
use stead_core::{ApprovalPolicy, StoreError, StoreResult, Timestamp, VfsPath};

use crate::database::Database;
use crate::database::batch::WriteTransaction;
use crate::database::error::{Result, corrupt};
use crate::database::group_commit::CommitSync;
use crate::database::{Volume, find_volume, namespace_text, newest_revision, remove_volume, volume_store_id};
use crate::threads::{configured_namespace, rows};
use crate::virtual_store::VirtualStore;
use crate::virtual_store::entry_row::{EntryRow, entries};
use crate::virtual_store::fork_part::{self, namespace_of};
use crate::virtual_store::fork_sync;
use crate::virtual_store::layers::{Layer, ROOT_PARENT, find_overlay};
use crate::virtual_store::tree::VolumeTree;

/// How many layers a fork has below it at most.
pub(super) const MAX_LAYERS: usize = 4;

/// The namespace prefix of a layer without an owner, such as a merged one, which no one can open: `Database::store` refuses the empty part.
pub(crate) const UNNAMED_LAYER_PREFIX: &str = "[\"\",";

/// A fork with what the database knows of where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkRecord {
    /// The fork.
    pub fork: Fork,
    /// The id of its volume. An id is never used again, so another fork of the same name has another one.
    pub volume: i64,
    /// The agent whose Workspace the fork's content comes from: its maker or, for a fork of a fork, the first one's.
    pub origin: String,
    /// The namespace of the Store that the fork's content comes from. For a thread's own files, that of the Store that they
    /// stand for. Empty for a fork of a host directory.
    pub namespace: Vec<String>,
    /// The location of the host directory that the fork's content comes from, as
    /// [`PhysicalStore::location_in`](crate::PhysicalStore::location_in) returns it.
    pub directory: Option<String>,
    /// The thread that the fork belongs to, if it was made in one.
    pub thread: Option<i64>,
    /// The other parts of the fork, by place. A part has none.
    pub parts: Vec<ForkRecord>,
}

impl VirtualStore {
    /// Forks this volume, as this Store sees it, into a new namespace.
    ///
    /// The fork shares everything with its base until one of the two changes it, so it costs one write, whatever the
    /// size of the tree. A namespace that is in use is [`StoreError::AlreadyExists`].
    pub fn fork_as<P: AsRef<str>>(
        &self,
        namespace: impl IntoIterator<Item = P>,
    ) -> StoreResult<VirtualStore> {
        self.create_fork(namespace_text(namespace)?, None)
    }

    /// Like `fork_as`, for an agent.
    pub(crate) fn fork_for(&self, fork: &Fork) -> StoreResult<VirtualStore> {
        let namespace = namespace_of(fork)?;
        match fork.pinned_at {
            Some(revision) => self.view_of(revision)?.create_fork(namespace, Some(fork.clone())),
            None => self.create_fork(namespace, Some(fork.clone())),
        }
    }

    /// Whether this is a fork that was discarded. Asks the database.
    pub fn is_discarded(&self) -> StoreResult<bool> {
        let reader = self.database_inner().reader()?;
        match self.volume.check_exists(&reader).map_err(StoreError::from) {
            Err(StoreError::Expired(_)) => Ok(true),
            checked => checked.map(|()| false),
        }
    }

    fn create_fork(&self, namespace: String, fork: Option<Fork>) -> StoreResult<VirtualStore> {
        let (base, as_of, name) = (Arc::clone(&self.volume), self.as_of, namespace.clone());
        let lease = fork.as_ref().and_then(|fork| fork.lease);
        let volume = self.database_inner().write(CommitSync::AsConfigured, move |transaction| {
            if let Some(lease) = lease {
                rows::check_lease(transaction.conn, lease)?;
            }
            let volume = make_fork_volume(transaction, &base, as_of, &name)?;
            if let Some(lease) = lease {
                set_thread(transaction.conn, volume.id, lease.thread)?;
            }
            if let Some(fork) = &fork {
                insert_fork(transaction.conn, volume.id, base.id, fork)?;
            }
            let revision = as_of.map_or_else(|| newest_revision(transaction.conn), Ok)?;
            fork_sync::insert_first(transaction.conn, volume.id, base.id, revision)?;
            Ok(volume)
        })?;
        let (volume, id) = (Arc::new(volume), volume_store_id(self.database.id(), &namespace));
        self.database_inner().volumes.lock().insert(namespace, Arc::clone(&volume));
        Ok(VirtualStore::new(self.database.clone(), volume, id))
    }
}

impl Database {
    /// The forks of an agent, sorted by name.
    pub fn forks(&self, owner: &str) -> StoreResult<Vec<Fork>> {
        Ok(self.fork_records(owner)?.into_iter().map(|record| record.fork).collect())
    }

    /// The forks of an agent with where they come from, sorted by name.
    pub fn fork_records(&self, owner: &str) -> StoreResult<Vec<ForkRecord>> {
        let reader = self.0.reader()?;
        Ok(load_forks(&reader, owner)?)
    }

    /// The ids of the volumes of all forks, by owner. An id is never used again, so an owner's list changes whenever a
    /// fork is made or discarded.
    pub fn fork_volumes(&self) -> StoreResult<BTreeMap<String, Vec<i64>>> {
        let reader = self.0.reader()?;
        Ok(load_fork_volumes(&reader)?)
    }

    /// The id of the Store of an agent's fork in a database.
    pub fn fork_id_in(database: DatabaseId, owner: &str, name: &ForkName) -> StoreResult<StoreId> {
        Ok(volume_store_id(database, &namespace_text(["forks", owner, name.as_str()])?))
    }

    /// The id of the Store of a fork, or of a part of one, in a database.
    pub fn store_id_of(database: DatabaseId, record: &ForkRecord) -> StoreResult<StoreId> {
        Ok(volume_store_id(database, &namespace_of(&record.fork)?))
    }

    /// The Store of an agent's fork; [`StoreError::NotFound`] if there is none.
    pub fn fork_store(&self, owner: &str, name: &ForkName) -> StoreResult<VirtualStore> {
        self.existing_store(&namespace_text(["forks", owner, name.as_str()])?)
    }

    /// The Store of this very fork, or part of one; [`StoreError::NotFound`] if it was discarded, also if its owner has made
    /// another one of the same name since.
    pub fn open_fork(&self, record: &ForkRecord) -> StoreResult<VirtualStore> {
        let store = self.existing_store(&namespace_of(&record.fork)?)?;
        if store.volume.id == record.volume { Ok(store) } else { Err(StoreError::NotFound) }
    }

    /// The Store of a volume that exists.
    fn existing_store(&self, namespace: &str) -> StoreResult<VirtualStore> {
        let Some((id, _)) = find_volume(&*self.0.reader()?, namespace)? else {
            return Err(StoreError::NotFound);
        };
        // Another process may have discarded the fork that is cached here, and made one of the same name.
        self.0
            .volumes
            .lock()
            .retain(|cached_namespace, volume| *cached_namespace != namespace || volume.id == id);
        let parts: Vec<String> =
            serde_json::from_str(namespace).map_err(|_| corrupt("a fork's namespace"))?;
        self.store(parts)
    }
}

/// The newest revision of a volume at which it was forked.
pub(crate) fn newest_fork_revision(conn: &Connection, vol: i64) -> Result<Option<i64>> {
    let mut statement = conn.prepare_cached(
        "SELECT max(revision) FROM (SELECT max(base_revision) AS revision FROM volume WHERE base IS NOT NULL AND base = ?1
         UNION ALL SELECT max(target_revision) FROM fork_sync WHERE target = ?1)",
    )?;
    Ok(statement.query_row([vol], |row| row.get(0))?)
}

/// Refuses to destroy a volume that has forks, unless it is a fork itself.
pub(crate) fn refuse_if_forked(conn: &Connection, vol: i64) -> Result<()> {
    let is_fork = conn
        .prepare_cached(
            "SELECT 1 FROM fork WHERE volume = ?1 UNION SELECT 1 FROM fork_part WHERE volume = ?1",
        )?
        .exists([vol])?;
    if is_fork || forks_of(conn, vol)?.is_empty() {
        return Ok(());
    }
    Err(StoreError::Invalid("it has forks; discard them first".into()).into())
}

/// The volumes that stand directly on a volume, and the forks that were made from it. A fork of an unchanged fork stands on what
/// that one stands on.
pub(crate) fn forks_of(conn: &Connection, vol: i64) -> Result<Vec<i64>> {
    let mut statement = conn.prepare_cached(
        "SELECT id FROM volume WHERE base IS NOT NULL AND base = ?1
         UNION SELECT volume FROM fork_sync WHERE target = ?1",
    )?;
    let forks = statement.query_map([vol], |row| row.get(0))?;
    Ok(forks.collect::<rusqlite::Result<_>>()?)
}

/// Removes volumes. What forks of them need stays as layers without an owner, which no one can open.
pub(crate) fn remove_volumes(conn: &Connection, volumes: &[i64]) -> Result<()> {
    for volume in volumes {
        let has_forks = forks_of(conn, *volume)?.iter().any(|fork| !volumes.contains(fork));
        if has_forks { make_unnamed(conn, *volume)? } else { remove_volume(conn, *volume)? }
    }
    if volumes.is_empty() { Ok(()) } else { remove_unused_layers(conn) }
}

/// Makes a volume that only forks need into a layer without an owner. It is removed with the last of them.
pub(crate) fn make_unnamed(conn: &Connection, vol: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM fork WHERE volume = ?1")?.execute([vol])?;
    conn.prepare_cached("DELETE FROM fork_part WHERE volume = ?1")?.execute([vol])?;
    conn.prepare_cached("UPDATE volume SET namespace = ?2, thread = NULL WHERE id = ?1")?
        .execute(params![vol, format!("{UNNAMED_LAYER_PREFIX}\"{vol}\"]")])?;
    Ok(())
}

/// Notes that a volume belongs to a thread, and is removed with it.
pub(crate) fn set_thread(conn: &Connection, vol: i64, thread: i64) -> Result<()> {
    conn.prepare_cached("UPDATE volume SET thread = ?2 WHERE id = ?1")?.execute([vol, thread])?;
    Ok(())
}

/// Removes the layers without an owner that no fork uses any more, and the mirrors of host directories that have no fork any more.
pub(crate) fn remove_unused_layers(conn: &Connection) -> Result<()> {
    let mut mirrors = conn.prepare_cached(
        "SELECT m.id FROM overlay o JOIN volume m ON m.namespace = '{\"mirror\":' || o.volume || '}'
         WHERE NOT EXISTS (SELECT 1 FROM volume f WHERE f.base = o.volume AND f.id <> m.id)",
    )?;
    let unused: Vec<i64> = mirrors.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    unused.into_iter().try_for_each(|vol| remove_volume(conn, vol))?;
    let mut statement = conn.prepare_cached(
        "SELECT id FROM volume v
         WHERE (substr(namespace, 1, length(?1)) = ?1 OR id IN (SELECT volume FROM overlay))
           AND NOT EXISTS (SELECT 1 FROM volume f WHERE f.base = v.id)
           AND NOT EXISTS (SELECT 1 FROM fork_sync s WHERE s.target = v.id)",
    )?;
    loop {
        let unused = statement.query_map([UNNAMED_LAYER_PREFIX], |row| row.get(0))?;
        let unused: Vec<i64> = unused.collect::<rusqlite::Result<_>>()?;
        if unused.is_empty() {
            return Ok(());
        }
        // A removed layer may have been the last one over another.
        unused.into_iter().try_for_each(|vol| remove_volume(conn, vol))?;
    }
}

/// Creates the volume of a fork.
pub(crate) fn make_fork_volume(
    transaction: &mut WriteTransaction<'_>,
    base: &Volume,
    as_of: Option<i64>,
    namespace: &str,
) -> Result<Volume> {
    let conn = transaction.conn;
    if !conn.prepare_cached("SELECT 1 FROM volume WHERE id = ?1")?.exists([base.id])? {
        return Err(StoreError::NotFound.into());
    }
    if find_volume(conn, namespace)?.is_some() {
        return Err(StoreError::AlreadyExists.into());
    }
    let revision = match as_of {
        Some(revision) => revision,
        None => newest_revision(conn)?,
    };
    let mut layers = vec![Layer { vol: base.id, as_of: revision }];
    layers.extend_from_slice(&base.base_layers);
    while layers.len() > 1 && is_unchanged(conn, layers[0].vol)? {
        layers.remove(0);
    }
    if layers.len() > MAX_LAYERS {
        layers = vec![merge_layers(transaction, base.root, &layers)?, layers[layers.len() - 1]];
    }
    let id = insert_volume(transaction, Some(namespace), base.root, layers[0])?;
    if as_of.is_none() {
        // A fork of the live volume has the same usage as its base.
        conn.prepare_cached(
            "INSERT INTO usage(volume, node, bytes, files) SELECT ?2, node, bytes, files FROM usage WHERE volume = ?1",
        )?
        .execute([base.id, id])?;
    }
    let overlay = find_overlay(conn, &layers)?;
    Ok(Volume { id, root: base.root, dirs: Arc::default(), base_layers: layers, overlay })
}

/// Inserts the row of a volume over a base. Without a namespace, it is a merged layer.
pub(crate) fn insert_volume(
    transaction: &mut WriteTransaction<'_>,
    namespace: Option<&str>,
    root: i64,
    base: Layer,
) -> Result<i64> {
    let id = transaction.fresh_node()?;
    let namespace = namespace.map_or_else(|| format!("{UNNAMED_LAYER_PREFIX}\"{id}\"]"), str::to_owned);
    transaction
        .conn
        .prepare_cached(
            "INSERT INTO volume(id, namespace, root, base, base_revision) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![id, namespace, root, base.vol, base.as_of])?;
    Ok(id)
}

/// Whether a fork has changed nothing: every change leaves a row.
fn is_unchanged(conn: &Connection, vol: i64) -> Result<bool> {
    Ok(!conn.prepare_cached("SELECT 1 FROM entry WHERE volume = ?1")?.exists([vol])?)
}

/// Merges all layers but the last one into a new layer. The rows keep their revisions.
fn merge_layers(transaction: &mut WriteTransaction<'_>, root: i64, layers: &[Layer]) -> Result<Layer> {
    const SQL: [&str; 2] = entries!(
        "SELECT e.node, e.parent, e.kind, e.mode, e.size, e.created, e.modified, e.changed, e.content, e.since, e.name",
        "e.parent >= ?3 ORDER BY e.parent, e.name"
    );
    let conn = transaction.conn;
    let (Some((last, upper_layers)), Some(first)) = (layers.split_last(), layers.first()) else {
        return Err(corrupt("a fork has no base"));
    };
    let upper = VolumeTree {
        conn,
        vol: first.vol,
        root,
        as_of: Some(first.as_of),
        base_layers: upper_layers.get(1..).unwrap_or(&[]),
        overlay: None,
    };
    let as_of = Some(last.as_of);
    let bottom = VolumeTree { conn, vol: last.vol, root, as_of, base_layers: &[], overlay: None };
    // The rows of the merged layers, and the names that they hide from the last layer.
    let mut rows: Vec<(Option<EntryRow>, i64, Vec<u8>)> = Vec::new();
    upper.merged(SQL, &[&ROOT_PARENT], &mut |row, parent, name| {
        rows.push((row, parent, name.to_vec()));
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    let vol = insert_volume(transaction, None, root, *last)?;
    for (row, parent, name) in rows {
        match row {
            Some(row) => row.insert(conn, vol, &name)?,
            // A name that only the merged layers had needs no whiteout.
            None => {
                if let Some(hidden) = bottom.child(parent, &name)? {
                    hidden.insert_whiteout(conn, vol, &name, first.as_of)?;
                }
            }
        }
    }
    Ok(Layer { vol, as_of: first.as_of })
}

/// The settings of a fork as columns.
pub(crate) struct StoredRules {
    pub(crate) protect: String,
    pub(crate) hide: String,
    pub(crate) scratch: String,
    pub(crate) quota: String,
    pub(crate) omitted: String,
}

pub(crate) fn stored_rules(fork: &Fork) -> StoredRules {
    let json = |texts: &[String]| serde_json::to_string(texts).expect("texts can be written as JSON");
    let QuotaLimits { bytes, files, file_bytes } = fork.quota;
    StoredRules {
        protect: json(&fork.protect),
        hide: json(&fork.hide),
        scratch: json(&fork.scratch),
        quota: serde_json::to_string(&[bytes, files, file_bytes]).expect("numbers can be written as JSON"),
        omitted: json(&fork.excluded.iter().map(VfsPath::to_string).collect::<Vec<_>>()),
    }
}

/// Inserts the row that says whose fork a volume is, or of which fork it is a part. `base` is the volume that it was made from.
pub(crate) fn insert_fork(conn: &Connection, vol: i64, base: i64, fork: &Fork) -> Result<()> {
    if !fork.is_whole() {
        return fork_part::insert_part(conn, vol, base, fork);
    }
    let rules = stored_rules(fork);
    conn.prepare_cached(
        "INSERT INTO fork(owner, name, volume, created_by, prefix, path, protect, scratch, quota, at, ask, omitted, origin,
                          hide)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
                 coalesce((SELECT origin FROM fork WHERE volume = ?13), (SELECT origin FROM fork_part WHERE volume = ?13), ?4), ?14)",
    )?
    .execute(params![
        fork.owner,
        fork.name.as_str(),
        vol,
        fork.created_by,
        fork.base_prefix.as_str(),
        fork.path.as_str(),
        rules.protect,
        rules.scratch,
        rules.quota,
        fork.created.0,
        fork.approval_policy.as_str(),
        rules.omitted,
        base,
        rules.hide
    ])?;
    fork_part::claim(conn, vol, fork)
}

fn load_fork_volumes(conn: &Connection) -> Result<BTreeMap<String, Vec<i64>>> {
    let mut statement = conn.prepare_cached("SELECT owner, volume FROM fork ORDER BY owner, name")?;
    let mut rows = statement.query([])?;
    let mut volumes = BTreeMap::<String, Vec<i64>>::new();
    while let Some(row) = rows.next()? {
        volumes.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(volumes)
}

/// The volume at the bottom of a fork, and its namespace.
fn bottom_volume(conn: &Connection, vol: i64) -> Result<(i64, String)> {
    let mut statement = conn.prepare_cached("SELECT id, base, namespace FROM volume WHERE id = ?1")?;
    let mut vol = vol;
    loop {
        let (id, base, namespace): (_, Option<i64>, _) =
            statement.query_row([vol], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        match base {
            Some(base) => vol = base,
            None => return Ok((id, namespace)),
        }
    }
}

fn load_forks(conn: &Connection, owner: &str) -> Result<Vec<ForkRecord>> {
    let mut statement = conn.prepare_cached(
        "SELECT name, created_by, prefix, path, protect, scratch, quota, at, ask, omitted, volume, origin, hide, '/', 'rw', NULL
         FROM fork WHERE owner = ?1 ORDER BY name",
    )?;
    let mut rows = statement.query([owner])?;
    let mut forks = Vec::new();
    while let Some(row) = rows.next()? {
        let mut record = load_row(conn, owner, row)?;
        record.parts = fork_part::load_parts(conn, owner, record.volume)?;
        let part = |ForkRecord { fork, .. }: &ForkRecord| ForkPart {
            place: fork.place.clone(),
            scope: fork.scope,
            base_prefix: fork.base_prefix.clone(),
        };
        record.fork.parts = record.parts.iter().map(part).collect();
        forks.push(record);
    }
    Ok(forks)
}

/// A row of `fork` or `fork_part`, without the parts of the fork.
pub(crate) fn load_row(conn: &Connection, owner: &str, row: &Row<'_>) -> Result<ForkRecord> {
    let damaged = || corrupt("the row of a fork can't be read");
    let text = |column: usize| row.get_ref(column)?.as_str().map_err(|_| damaged());
    let path = |column| VfsPath::parse(text(column)?).map_err(|_| damaged());
    let texts = |column| serde_json::from_str(text(column)?).map_err(|_| damaged());
    let excluded: Vec<String> = texts(9)?;
    let excluded = excluded.iter().map(|path| VfsPath::parse(path).map_err(|_| damaged()));
    let [bytes, files, file_bytes] = serde_json::from_str(text(6)?).map_err(|_| damaged())?;
    let fork = Fork {
        owner: owner.to_owned(),
        name: text(0)?.parse().map_err(|_| damaged())?,
        created_by: row.get(1)?,
        base_prefix: path(2)?,
        path: path(3)?,
        protect: texts(4)?,
        hide: texts(12)?,
        scratch: texts(5)?,
        quota: QuotaLimits { bytes, files, file_bytes },
        approval_policy: ApprovalPolicy::parse(text(8)?).ok_or_else(damaged)?,
        place: path(13)?,
        scope: text(14)?.parse::<AccessScope>().map_err(|_| damaged())?,
        excluded: excluded.collect::<Result<_>>()?,
        parts: Vec::new(),
        created: Timestamp(row.get(7)?),
        pinned_at: None,
        lease: None,
        made_by: row.get::<_, Option<[u8; 16]>>(15)?.map(OperationId::from_bytes),
    };
    let (volume, origin) = (row.get(10)?, row.get(11)?);
    let thread = conn
        .prepare_cached("SELECT thread FROM volume WHERE id = ?1")?
        .query_row([volume], |row| row.get(0))?;
    let (bottom, namespace) = bottom_volume(conn, volume)?;
    let overlay = conn
        .prepare_cached("SELECT location, pinned FROM overlay WHERE volume = ?1")?
        .query_row([bottom], |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?)))
        .optional()?;
    let (directory, namespace, pinned_at) = match overlay {
        Some((location, pinned)) => (Some(location), Vec::new(), pinned.map(RevisionNumber)),
        None => (None, configured_namespace(&namespace)?, None),
    };
    let fork = Fork { pinned_at, ..fork };
    Ok(ForkRecord { fork, volume, origin, namespace, directory, thread, parts: Vec::new() })
}
