//! The base layer of a fork: the volume that holds what was taken over from the host directory. Creating it with the first fork, and
//! adding to it.

use std::sync::Arc;

use parking_lot::RwLock;
use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::{Attr, Fork, NodeId, NodeKind, RevisionNumber, StorePath, VersionTag};
use stead_core::{Store, StoreError, StoreResult, Timestamp};

use crate::database::batch::WriteTransaction;
use crate::database::error::{Result, corrupt};
use crate::database::group_commit::CommitSync;
use crate::database::{Database, Volume, find_volume, newest_revision, volume_store_id};
use crate::node_path_table::NodePathTable;
use crate::overlay::live_node::unused_id;
use crate::overlay::mirror::mirror_namespace;
use crate::overlay::taken_index::{Seq, TakenIndex};
use crate::overlay::{Lower, OverlayStore};
use crate::threads::rows;
use crate::virtual_store::VirtualStore;
use crate::virtual_store::change::quota::UsageAmount;
use crate::virtual_store::content::PreparedContent;
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
use crate::virtual_store::fork::{insert_fork, make_fork_volume, set_thread};
use crate::virtual_store::fork_part::namespace_of;
use crate::virtual_store::fork_sync;
use crate::virtual_store::history::path_of;
use crate::virtual_store::layers::{self, Layer};
use crate::virtual_store::tree::VolumeTree;

/// A base layer, shared by the forks that stand on it and are open in this process.
#[derive(Debug)]
pub(super) struct BaseLayer {
    pub(super) volume: i64,
    pub(super) root: i64,
    /// The revision since which the rows of the layer hold.
    pub(super) since: i64,
    /// Whether the forks read a snapshot of the directory.
    is_pinned: bool,
    index: RwLock<TakenIndex>,
    /// Where files of the host directory were last seen, by the node ids that callers have.
    pub(super) paths: NodePathTable,
}

/// The host directory that a fork is made of.
#[derive(Debug)]
pub(crate) struct ForkedDirectory {
    pub(crate) location: String,
    pub(crate) root: Attr,
}

/// What a fork has taken over from the host directory at a path: the base of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenOver {
    /// The path in the host directory.
    pub path: StorePath,
    /// The version tag of the host's file when it was taken over.
    pub tag: VersionTag,
    /// The attributes of the host's file when it was taken over, with the node id that the fork has for it.
    pub attr: Attr,
}

/// A name to be taken over.
pub(super) struct NewName {
    pub(super) parent: ParentOf,
    /// Empty to say that every name of `parent` is taken over.
    pub(super) name: Vec<u8>,
    /// What has the name; `None` if nothing has.
    pub(super) found: Option<FoundNode>,
}

/// The directory of a name to be taken over.
#[derive(Debug, Clone, Copy)]
pub(super) enum ParentOf {
    /// A directory that the layer has.
    Node(i64),
    /// The directory of an earlier name of the same batch.
    Batch(usize),
}

/// What the host directory has at a name.
pub(super) struct FoundNode {
    pub(super) kind: EntryKind,
    pub(super) attr: Attr,
    /// A file's bytes, or a symlink's target.
    pub(super) content: PreparedContent,
}

impl OverlayStore {
    /// Makes a fork of a host directory, with a base layer of its own. It costs a few rows, whatever the size of the directory.
    pub(crate) fn create(
        database: &Database,
        base: Arc<dyn Store>,
        directory: ForkedDirectory,
        fork: &Fork,
    ) -> StoreResult<Self> {
        let lower = Lower::new(base, directory.root.created, fork.pinned_at);
        if fork.pinned_at.is_some() {
            // Fails now if there is no such snapshot.
            lower.get()?;
        }
        let namespace = namespace_of(fork)?;
        let id = volume_store_id(database.id(), &namespace);
        let (fork, name) = (fork.clone(), namespace.clone());
        let (volume, since) = database.0.write(CommitSync::AsConfigured, move |transaction| {
            if let Some(lease) = fork.lease {
                rows::check_lease(transaction.conn, lease)?;
            }
            let since = newest_revision(transaction.conn)?;
            let layer = insert_layer(transaction, &directory, since, fork.pinned_at)?;
            let volume = make_fork_volume(transaction, &layer, None, &name)?;
            if let Some(lease) = fork.lease {
                set_thread(transaction.conn, volume.id, lease.thread)?;
            }
            insert_fork(transaction.conn, volume.id, layer.id, &fork)?;
            fork_sync::insert_first(transaction.conn, volume.id, layer.id, since)?;
            Ok((volume, since))
        })?;
        let volume = Arc::new(volume);
        database.0.volumes.lock().insert(namespace, Arc::clone(&volume));
        let layer = volume.overlay.ok_or_else(missing_layer_error)?;
        let upper = VirtualStore::new(database.clone(), volume, id);
        let layer = Arc::new(BaseLayer::new(layer, upper.volume().root, since, lower.is_pinned()));
        Ok(OverlayStore { upper, layer, lower })
    }

    /// The Store of an existing fork of a host directory. `lower` is the Store of the directory; it is used when it is needed.
    pub fn open(upper: VirtualStore, lower: Arc<dyn Store>) -> StoreResult<Self> {
        let volume = upper.volume().overlay.ok_or_else(missing_layer_error)?;
        let (since, created, pinned): (i64, Option<i64>, Option<i64>) =
            load_layer(&*upper.database_inner().reader()?, volume)?.ok_or_else(missing_layer_error)?;
        let layer = Arc::new(BaseLayer::new(volume, upper.volume().root, since, pinned.is_some()));
        let lower = Lower::new(lower, created.map(Timestamp), pinned.map(RevisionNumber));
        Ok(OverlayStore { upper, layer, lower })
    }
}

impl Database {
    /// Whether there are pinned forks of the host directory at a location.
    pub(crate) fn has_pinned_forks(&self, location: &str) -> StoreResult<bool> {
        let find = || -> Result<bool> {
            let reader = self.0.reader()?;
            let sql = "SELECT 1 FROM overlay WHERE location = ?1 AND pinned IS NOT NULL";
            Ok(reader.prepare_cached(sql)?.exists([location])?)
        };
        Ok(find()?)
    }
}

fn missing_layer_error() -> StoreError {
    StoreError::Invalid("this isn't a fork of a host directory".into())
}

type LayerRow = (i64, Option<i64>, Option<i64>);

fn load_layer(conn: &Connection, volume: i64) -> Result<Option<LayerRow>> {
    let row = conn
        .prepare_cached("SELECT since, created, pinned FROM overlay WHERE volume = ?1")?
        .query_row([volume], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    Ok(row)
}

/// Inserts a base layer that has taken over nothing but the directory itself.
fn insert_layer(
    transaction: &mut WriteTransaction<'_>,
    directory: &ForkedDirectory,
    since: i64,
    pinned: Option<RevisionNumber>,
) -> Result<Volume> {
    let (id, root) = (transaction.fresh_node()?, transaction.fresh_node()?);
    let ForkedDirectory { location, root: attr } = directory;
    let conn = transaction.conn;
    conn.prepare_cached("INSERT INTO volume(id, namespace, root) VALUES (?1, ?2, ?3)")?.execute(params![
        id,
        format!("{{\"overlay\":{id}}}"),
        root
    ])?;
    conn.prepare_cached(
        "INSERT INTO overlay(volume, location, since, created, pinned) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        id,
        location,
        since,
        attr.created.map(|time| time.0),
        pinned.map(|revision| revision.0)
    ])?;
    row_of(attr, EntryKind::Directory, (root, layers::ROOT_PARENT, since), None).insert(conn, id, b"")?;
    Ok(Volume { id, root, dirs: Arc::default(), base_layers: Vec::new(), overlay: None })
}

/// The row of a node with the host's attributes.
fn row_of(
    attr: &Attr,
    kind: EntryKind,
    (node, parent, since): (i64, i64, i64),
    content: Option<i64>,
) -> EntryRow {
    let size = if kind == EntryKind::Directory { 0 } else { attr.size.cast_signed() };
    let created = attr.created.unwrap_or(attr.changed).0;
    let (mode, modified, changed) = (attr.mode, attr.modified.0, attr.changed.0);
    EntryRow { node, parent, kind, mode, size, created, modified, changed, content, since }
}

impl BaseLayer {
    fn new(volume: i64, root: i64, since: i64, is_pinned: bool) -> Self {
        let index = RwLock::new(TakenIndex::new(root));
        BaseLayer { volume, root, since, is_pinned, index, paths: NodePathTable::default() }
    }

    /// Brings the index up to date with a transaction. Returns the newest number that the transaction sees.
    pub(super) fn refresh(&self, conn: &Connection) -> Result<Seq> {
        let seq = TakenIndex::newest_in(conn, self.volume)?;
        if seq > self.index.read().newest() {
            self.index.write().update(conn, self.volume)?;
        }
        let epoch = TakenIndex::epoch_in(conn)?;
        if epoch > self.index.read().epoch() {
            self.refresh_paths(conn, epoch)?;
        }
        Ok(seq)
    }

    /// Brings the paths of directories up to date: those of the host directory as the fork has last taken it in. A merge of the
    /// fork may have moved directories there. A pinned fork reads a snapshot, in which nothing moves.
    fn refresh_paths(&self, conn: &Connection, epoch: i64) -> Result<()> {
        let mirror = if self.is_pinned { None } else { find_volume(conn, &mirror_namespace(self.volume))? };
        let Some((vol, root)) = mirror else {
            self.index.write().keep_paths(epoch);
            return Ok(());
        };
        let sync = fork_sync::mirror_sync(conn, vol)?;
        let base_layers = [Layer { vol: self.volume, as_of: self.since }];
        let tree = |as_of| VolumeTree { conn, vol, root, as_of, base_layers: &base_layers, overlay: None };
        let synced = tree(sync.as_ref().map(|sync| sync.target_revision.0));
        self.index.write().update_paths(epoch, |node| {
            // Where the directory is by now is out of the sight of the fork's owner.
            let id = NodeId(node.cast_unsigned());
            let sync = sync.as_ref().filter(|sync| sync.out_of_sight.contains(&id));
            match sync.and_then(|sync| sync.behind.get(&id)) {
                Some(revision) => path_of(&tree(Some(revision.0)), node),
                None => path_of(&synced, node),
            }
        })
    }

    /// Calls `use_index` with the index as it is.
    pub(super) fn with_index<T>(&self, use_index: impl FnOnce(&TakenIndex) -> T) -> T {
        use_index(&self.index.read())
    }

    /// The node id that callers see for a node of the host directory.
    pub(super) fn live_node(&self, inode: NodeId) -> NodeId {
        let index = self.index.read();
        let is_used = |id| Ok::<_, std::convert::Infallible>(index.has_node(id));
        // Without a free id, the file has the last of its inode's ids in common with another one.
        unused_id(inode, is_used).ok().flatten().map_or(inode, |id| NodeId(id.cast_unsigned()))
    }

    /// The host's tag of a node that was taken over and not changed since.
    pub(super) fn host_tag(&self, attr: &Attr) -> Option<VersionTag> {
        let row_tag = u128::from(attr.node.0) << 64 | u128::from(self.since.cast_unsigned());
        if attr.tag.0 == row_tag { self.index.read().host_tag(attr.node.0.cast_signed()) } else { None }
    }

    /// Takes names over, in one transaction. A name that was taken over meanwhile stays as it is.
    pub(super) fn insert_names(&self, upper: &VirtualStore, names: Vec<NewName>) -> StoreResult<()> {
        let (volume, since) = (self.volume, self.since);
        let fork = Arc::clone(upper.volume());
        upper.database_inner().write(CommitSync::Deferred, move |transaction| {
            fork.check_exists(transaction.conn)?;
            LayerUpdate { transaction, volume, since, taken: Vec::new(), counted: Vec::new() }.run(names)
        })
    }
}

/// Adds names to a layer.
struct LayerUpdate<'a, 'c> {
    transaction: &'a mut WriteTransaction<'c>,
    volume: i64,
    since: i64,
    /// For each name so far, the directory that the layer has there.
    taken: Vec<Option<i64>>,
    /// The usage that each file adds to its directory.
    counted: Vec<(i64, UsageAmount)>,
}

impl LayerUpdate<'_, '_> {
    fn run(mut self, names: Vec<NewName>) -> Result<()> {
        let mut seq = TakenIndex::newest_in(self.transaction.conn, self.volume)?;
        for NewName { parent, name, found } in names {
            let parent = match parent {
                ParentOf::Node(node) => Some(node),
                ParentOf::Batch(index) => self.taken.get(index).copied().flatten(),
            };
            // Without a directory, something else has taken its name meanwhile.
            let directory = match parent {
                Some(parent) => self.insert(parent, &name, found, &mut seq)?,
                None => None,
            };
            self.taken.push(directory);
        }
        self.count_usage()
    }

    /// Takes one name over. Returns the directory that the layer has there now.
    fn insert(
        &mut self,
        parent: i64,
        name: &[u8],
        found: Option<FoundNode>,
        seq: &mut Seq,
    ) -> Result<Option<i64>> {
        let conn = self.transaction.conn;
        let known: Option<Option<i64>> = conn
            .prepare_cached(
                "SELECT node FROM taken_name WHERE volume = ?1 AND parent = ?2 AND name IN (?3, x'')
                 ORDER BY name DESC LIMIT 1",
            )?
            .query_row(params![self.volume, parent, name], |row| row.get(0))
            .optional()?;
        if let Some(node) = known {
            return self.directory_of(node);
        }
        let mut taken_node = None;
        if let Some(FoundNode { kind, attr, content }) = found {
            let node = self.new_node(attr.node)?;
            let content = content.store(conn)?;
            let row = row_of(&attr, kind, (node, parent, self.since), content);
            row.insert(conn, self.volume, name)?;
            conn.prepare_cached("INSERT INTO fingerprint(volume, node, since, tag) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![self.volume, node, self.since, attr.tag.0.to_le_bytes()])?;
            self.counted.push((parent, UsageAmount::of(&row)));
            taken_node = Some((node, kind));
        }
        *seq += 1;
        conn.prepare_cached(
            "INSERT INTO taken_name(volume, seq, parent, name, node) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![self.volume, *seq, parent, name, taken_node.map(|(node, _)| node)])?;
        Ok(taken_node.filter(|(_, kind)| *kind == EntryKind::Directory).map(|(node, _)| node))
    }

    fn directory_of(&self, node: Option<i64>) -> Result<Option<i64>> {
        let Some(node) = node else { return Ok(None) };
        let is_directory = self
            .transaction
            .conn
            .prepare_cached("SELECT 1 FROM entry WHERE volume = ?1 AND node = ?2 AND kind = 2")?
            .exists([self.volume, node])?;
        Ok(is_directory.then_some(node))
    }

    /// The id of a node of the host directory, which it has had for callers already.
    fn new_node(&mut self, inode: NodeId) -> Result<i64> {
        let (conn, volume) = (self.transaction.conn, self.volume);
        let is_used = |id: i64| -> Result<bool> {
            let mut statement = conn.prepare_cached("SELECT 1 FROM entry WHERE volume = ?1 AND node = ?2")?;
            Ok(statement.exists([volume, id])?)
        };
        match unused_id(inode, is_used)? {
            Some(id) => Ok(id),
            None => self.transaction.fresh_node(),
        }
    }

    /// Adds the files to the usage of the quota roots above them, in every fork over the layer. What a fork has taken over
    /// counts as its own, because it is stored for the fork.
    fn count_usage(&mut self) -> Result<()> {
        let conn = self.transaction.conn;
        let amount_of = |amount: &UsageAmount| (amount.bytes, amount.files) != (0, 0);
        if !self.counted.iter().any(|(_, amount)| amount_of(amount)) {
            return Ok(());
        }
        let mut statement = conn.prepare_cached(
            "WITH RECURSIVE over(id) AS (
               SELECT id FROM volume WHERE base = ?1
               UNION SELECT v.id FROM over o CROSS JOIN volume v ON v.base = o.id)
             SELECT v.id, v.root FROM over o JOIN volume v ON v.id = o.id
             WHERE EXISTS (SELECT 1 FROM usage u WHERE u.volume = v.id)",
        )?;
        let forks = statement.query_map([self.volume], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let forks: Vec<(i64, i64)> = forks.collect::<rusqlite::Result<_>>()?;
        for (vol, root) in forks {
            let layers: Vec<Layer> = layers::load_layers(conn, vol)?;
            let tree = VolumeTree { conn, vol, root, as_of: None, base_layers: &layers, overlay: None };
            for (directory, amount) in &self.counted {
                add_usage(&tree, *directory, *amount)?;
            }
        }
        Ok(())
    }
}

/// Adds to the usage of the quota roots at and above a directory, if the fork shows it.
fn add_usage(tree: &VolumeTree<'_>, directory: i64, amount: UsageAmount) -> Result<()> {
    let mut above = vec![directory];
    let mut node = directory;
    while node != tree.root {
        let Some(row) = tree.node(node)? else { return Ok(()) };
        node = row.parent;
        above.push(node);
    }
    let mut statement = tree.conn.prepare_cached(
        "UPDATE usage SET bytes = bytes + ?3, files = files + ?4 WHERE volume = ?1 AND node = ?2",
    )?;
    for node in above {
        statement.execute([tree.vol, node, amount.bytes, amount.files])?;
    }
    Ok(())
}

impl OverlayStore {
    /// What the fork has taken over, by the node ids that its history has: for a merge, the base's content is that of
    /// [`OverlayStore::base_view`] at [`TakenOver::path`].
    pub fn taken_over(&self, node: NodeId) -> StoreResult<Option<TakenOver>> {
        let find = || -> Result<Option<TakenOver>> {
            let reader = self.upper.database_inner().reader()?;
            let tree = self.layer_tree(&reader);
            let number = node.0.cast_signed();
            let Some(row) = tree.node(number)? else { return Ok(None) };
            let tag: Option<[u8; 16]> = reader
                .prepare_cached("SELECT tag FROM fingerprint WHERE volume = ?1 AND node = ?2")?
                .query_row([self.layer.volume, number], |row| row.get(0))
                .optional()?;
            let tag = tag.ok_or_else(|| corrupt("a name was taken over without its version tag"))?;
            let tag = VersionTag(u128::from_le_bytes(tag));
            let path = path_of(&tree, number)?;
            let path = path.ok_or_else(|| corrupt("a name was taken over without its directory"))?;
            Ok(Some(TakenOver { path, tag, attr: Attr { tag, ..row.attr() } }))
        };
        Ok(find()?)
    }

    /// The base layer as a Store for reading: what the fork's base had at the names that the fork has taken over, at the paths of
    /// the host directory. A name that it doesn't have was not taken over, or was absent then.
    pub fn base_view(&self) -> Arc<dyn Store> {
        let (id, root) = (self.layer.volume, self.layer.root);
        let volume =
            Arc::new(Volume { id, root, dirs: Arc::default(), base_layers: Vec::new(), overlay: None });
        let store_id = volume_store_id(self.upper.database().id(), &format!("{{\"overlay\":{id}}}"));
        let store = VirtualStore::new(self.upper.database().clone(), volume, store_id);
        Arc::new(store.at(RevisionNumber(self.layer.since)))
    }

    pub(super) fn layer_tree<'c>(&self, conn: &'c Connection) -> VolumeTree<'c> {
        let (vol, root) = (self.layer.volume, self.layer.root);
        VolumeTree { conn, vol, root, as_of: None, base_layers: &[], overlay: None }
    }
}

/// The kind of a row for a node of the host directory; `None` for a special file, which a fork can't hold.
pub(super) fn entry_kind(kind: NodeKind) -> Option<EntryKind> {
    match kind {
        NodeKind::File => Some(EntryKind::File),
        NodeKind::Directory => Some(EntryKind::Directory),
        NodeKind::Symlink => Some(EntryKind::Symlink),
        NodeKind::Special(_) => None,
    }
}
