//! The mirror of a host directory that has been forked: what the directory has now at the names that the fork has taken over.
//!
//! The mirror is a volume over the base layer, beside the fork's own volume. Its rows are what has changed in the directory since
//! the fork took the names over, so the base layer and the mirror together are the directory as a volume with revisions, and the
//! fork is merged with the mirror as a fork of a Virtual Store is merged with its target. The mirror is brought up to date each
//! time that the sides of the fork are needed. It decides nothing: if it is older than the directory, then a merge fails at the
//! version tags that it expects, and is planned again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::{
    Attr, Change, Content, DisplacedContent, ForkSides, IfMissing, NodeId, NodeKind, NodePath, Parents,
    Precondition, PutOptions, Replace, RevisionNumber, SidesQuery, Step, StorePath, Subtree, VersionTag,
};
use stead_core::{Clock, Identity, Operation, OperationId, Store, StoreError, StoreResult, SystemClock};

use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::database::{Volume, find_volume, volume_store_id};
use crate::overlay::OverlayStore;
use crate::overlay::base_layer::{FoundNode, NewName, ParentOf};
use crate::overlay::mirror_scan::{MirrorMoment, MirrorScan, MirroredNode, PlacedNode, stored_host_file};
use crate::overlay::take_over::{MAX_BATCH_BYTES, MAX_BATCH_NAMES};
use crate::virtual_store::VirtualStore;
use crate::virtual_store::content::{self, PreparedContent};
use crate::virtual_store::entry_row::EntryRow;
use crate::virtual_store::fork::insert_volume;
use crate::virtual_store::history::path_of;
use crate::virtual_store::layers::Layer;

/// How often the directory is compared again because it or the mirror has changed meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// The namespace of the mirror that belongs to a base layer. No configuration can name it.
pub(super) fn mirror_namespace(layer: i64) -> String {
    format!("{{\"mirror\":{layer}}}")
}

impl OverlayStore {
    /// The sides of a fork of a host directory itself.
    pub(super) fn directory_sides(
        &self,
        query: SidesQuery,
        also: &BTreeSet<NodeId>,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<ForkSides> {
        let moment = match query {
            SidesQuery::BaseAndFork => {
                let mut sides = self.upper.fork_sides(query, also, progress)?;
                sides.target = self.lower.directory_id();
                return Ok(sides);
            }
            SidesQuery::SinceSync => MirrorMoment::Any,
            SidesQuery::AfterMerge { .. } => MirrorMoment::AfterMerge,
        };
        let mirror = self.mirror()?;
        let own_ids = self.update_mirror(&mirror, moment, progress)?;
        let query = match query {
            SidesQuery::AfterMerge { fork_revision, .. } => {
                let target_revision = stead_core::store::History::latest_revision(&self.upper)?;
                SidesQuery::AfterMerge { fork_revision, target_revision }
            }
            query => query,
        };
        let mut sides = self.upper.fork_sides(query, also, progress)?;
        sides.target = self.lower.directory_id();
        let reader = self.upper.database_inner().reader()?;
        for (node, current) in &mut sides.in_target {
            let is_file = current.state.as_ref().is_some_and(|state| state.kind != NodeKind::Directory);
            if is_file && let Some(tag) = self.host_tag_of(&reader, &mirror, *node, current.tag)? {
                current.tag = tag;
            }
        }
        sides.target_ids = Some(own_ids);
        sides.shown_twice = self.paths_of_moved_names()?;
        Ok(sides)
    }

    /// The host's tag of a node of the mirror whose row has this tag.
    fn host_tag_of(
        &self,
        conn: &Connection,
        mirror: &VirtualStore,
        node: NodeId,
        row_tag: VersionTag,
    ) -> Result<Option<VersionTag>> {
        // The lower half of a row's tag is the revision since which the row holds.
        let (node, since) = (node.0.cast_signed(), (row_tag.0 as u64).cast_signed());
        let mut statement = conn.prepare_cached(
            "SELECT substr(tag, 1, 16) FROM fingerprint WHERE volume = ?1 AND node = ?2 AND since = ?3",
        )?;
        for volume in [mirror.volume().id, self.layer.volume] {
            let tag: Option<[u8; 16]> =
                statement.query_row([volume, node, since], |row| row.get(0)).optional()?;
            if let Some(tag) = tag {
                return Ok(Some(VersionTag(u128::from_le_bytes(tag))));
            }
        }
        Ok(None)
    }

    /// The mirror, which is made when it is first needed.
    fn mirror(&self) -> StoreResult<VirtualStore> {
        let (layer, root, since) = (self.layer.volume, self.layer.root, self.layer.since);
        let namespace = mirror_namespace(layer);
        let found = find_volume(&*self.upper.database_inner().reader()?, &namespace)?;
        let base = Layer { vol: layer, as_of: since };
        let id = match found {
            Some((id, _)) => id,
            None => {
                let (fork, name) = (Arc::clone(self.upper.volume()), namespace.clone());
                self.upper.database_inner().write(CommitSync::Deferred, move |transaction| {
                    fork.check_exists(transaction.conn)?;
                    if let Some((id, _)) = find_volume(transaction.conn, &name)? {
                        return Ok(id);
                    }
                    let id = insert_volume(transaction, Some(&name), root, base)?;
                    // Until now the fork was compared with the base layer.
                    transaction
                        .conn
                        .prepare_cached("UPDATE fork_sync SET target = ?2 WHERE target = ?1")?
                        .execute([layer, id])?;
                    Ok(id)
                })?
            }
        };
        let volume = Volume { id, root, dirs: Arc::default(), base_layers: vec![base], overlay: None };
        let database = self.upper.database();
        let store_id = volume_store_id(database.id(), &namespace);
        Ok(VirtualStore::new(database.clone(), Arc::new(volume), store_id))
    }

    /// Brings the mirror up to date with the directory. Returns the directory's own ids of directories.
    fn update_mirror(
        &self,
        mirror: &VirtualStore,
        moment: MirrorMoment,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<HashMap<NodeId, NodeId>> {
        let directory = self.lower.directory()?;
        if let (Some(pinned_at), MirrorMoment::Any) = (self.lower.pinned_at(), moment) {
            self.take_over_changes_since(pinned_at, &*directory, progress)?;
        }
        let mut takes_over = !self.lower.is_pinned();
        for _ in 0..MAX_ATTEMPTS {
            let scan = self.scan_directory(&*directory, mirror, moment, progress)?;
            if takes_over && !scan.not_taken_over.is_empty() {
                for path in &scan.not_taken_over {
                    let part = self.layer.with_index(|index| index.taken_part(self.layer.root, path));
                    self.take_over_part(part, None)?;
                }
                takes_over = false;
                continue;
            }
            let update = MirrorUpdate::new(self, &*directory, mirror);
            match update.run(scan, progress) {
                // The directory or the mirror has changed since it was looked at.
                Err(
                    StoreError::Conflict
                    | StoreError::NotFound
                    | StoreError::AlreadyExists
                    | StoreError::NotEmpty
                    | StoreError::NotADirectory
                    | StoreError::IsADirectory
                    | StoreError::Link(_),
                ) => {}
                updated => return updated,
            }
        }
        Err(StoreError::unavailable("the directory that the fork was made from keeps changing; try again"))
    }
}

impl OverlayStore {
    /// Takes over, from the snapshot of a pinned fork, the names that have something else in the directory by now. Below a fork that
    /// isn't pinned, these are live.
    fn take_over_changes_since(
        &self,
        pinned_at: RevisionNumber,
        directory: &dyn Store,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<()> {
        let history = directory.require_history()?;
        let changes = history.changes_between(pinned_at, RevisionNumber::NOW, &[StorePath::empty()])?;
        let changes = changes.revisions.iter().flat_map(|revision| &revision.changes);
        let states = changes.flat_map(|change| [&change.before, &change.after]).flatten();
        // Each directory comes before what is in it.
        let paths: BTreeSet<&StorePath> = states.map(|state| &state.path).collect();
        for path in paths {
            progress()?;
            let part = self.layer.with_index(|index| {
                let part = index.taken_part(self.layer.root, path);
                let directory = index.directory(part.directory, index.newest());
                let is_taken =
                    |name: &Vec<u8>| directory.is_some_and(|found| found.is_taken(name, index.newest()));
                // A name that was taken over decides about everything below it.
                part.rest.first().is_some_and(|name| !is_taken(name)).then_some(part)
            });
            if let Some(part) = part {
                self.take_over_part(part, None)?;
                self.layer.refresh(&*self.upper.database_inner().reader()?)?;
            }
        }
        Ok(())
    }
}

impl OverlayStore {
    /// Takes over the names to which nodes were moved in the directory, as names that nothing had: the fork is about to get these
    /// nodes there.
    pub(super) fn take_over_mirrored_names(&self) -> StoreResult<()> {
        if self.lower.is_pinned() || !self.upper.is_fork_of_base_layer()? {
            return Ok(());
        }
        let names = self.upper.read_transaction(|snapshot| self.moved_names(snapshot.tree.conn))?;
        let to_name = |(parent, name)| NewName { parent: ParentOf::Node(parent), name, found: None };
        let names: Vec<NewName> = names.into_iter().map(to_name).collect();
        if names.is_empty() { Ok(()) } else { self.layer.insert_names(&self.upper, names) }
    }

    /// The names, with their directories, to which nodes were moved in the directory and which the fork has not taken over.
    fn moved_names(&self, conn: &Connection) -> Result<Vec<(i64, Vec<u8>)>> {
        let seq = self.layer.refresh(conn)?;
        let Some((mirror, _)) = find_volume(conn, &mirror_namespace(self.layer.volume))? else {
            return Ok(Vec::new());
        };
        let mut statement =
            conn.prepare_cached("SELECT parent, name FROM entry WHERE volume = ?1 AND kind <> 0")?;
        let mut rows = statement.query([mirror])?;
        let mut names = Vec::new();
        while let Some(row) = rows.next()? {
            let (parent, name): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            let is_live = self.layer.with_index(|index| {
                index.directory(parent, seq).is_some_and(|directory| !directory.is_taken(&name, seq))
            });
            if is_live {
                names.push((parent, name));
            }
        }
        Ok(names)
    }

    /// The paths of the fork at which it shows nodes that were moved there in the directory and that it has elsewhere.
    fn paths_of_moved_names(&self) -> StoreResult<HashSet<StorePath>> {
        if self.lower.is_pinned() {
            return Ok(HashSet::new());
        }
        let paths = self.upper.read_transaction(|snapshot| {
            let mut paths = HashSet::new();
            for (parent, name) in self.moved_names(snapshot.tree.conn)? {
                paths.extend(path_of(&snapshot.tree, parent)?.map(|parent| parent.child(&name)));
            }
            Ok(paths)
        });
        Ok(paths?)
    }
}

/// Writes what has changed in a directory to its mirror, in batches.
struct MirrorUpdate<'a> {
    store: &'a OverlayStore,
    directory: &'a dyn Store,
    mirror: &'a VirtualStore,
    operation: Operation,
    batch: Batch,
    own_ids: HashMap<NodeId, NodeId>,
}

#[derive(Default)]
struct Batch {
    steps: Vec<Step>,
    contents: Vec<(usize, PreparedContent)>,
    revive: std::collections::BTreeMap<usize, NodeId>,
    host_files: Vec<(FileRef, Attr)>,
    bytes: usize,
}

/// The node whose host's file is stored.
#[derive(Debug, Clone, Copy)]
enum FileRef {
    Node(i64),
    /// The node that a step of the batch leaves at its path.
    Step(usize),
}

impl Batch {
    fn is_full(&self) -> bool {
        self.host_files.len() >= MAX_BATCH_NAMES || self.bytes >= MAX_BATCH_BYTES
    }

    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }
}

impl<'a> MirrorUpdate<'a> {
    fn new(store: &'a OverlayStore, directory: &'a dyn Store, mirror: &'a VirtualStore) -> Self {
        let at = SystemClock.now();
        let identity = Arc::new(Identity::agent("(anyone)"));
        let operation = Operation { id: OperationId::fresh(at), identity, tool: "mirror".into(), at };
        let own_ids = HashMap::from([(NodeId(store.layer.root.cast_unsigned()), NodeId::ROOT)]);
        MirrorUpdate { store, directory, mirror, operation, batch: Batch::default(), own_ids }
    }

    fn run(
        mut self,
        scan: MirrorScan,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<HashMap<NodeId, NodeId>> {
        let MirrorScan { placed, mirrored, gone, .. } = scan;
        let known = |placed: &PlacedNode| placed.node.and_then(|node| mirrored.get(&node));
        let is_moved = |placed: &PlacedNode| {
            known(placed)
                .is_some_and(|known| (Some(known.row.parent), &known.name) != (placed.parent, &placed.name))
        };
        // Nothing that moves is in the way of anything else then.
        for (number, placed) in placed.iter().enumerate().filter(|(_, placed)| is_moved(placed)) {
            if let Some(known) = known(placed) {
                self.batch.push(rename(place_of(known), aside(number)));
            }
        }
        for node in &gone {
            if let Some(known) = mirrored.get(node) {
                let subtree = if known.row.is_directory() { Subtree::EmptyDirectory } else { Subtree::File };
                self.batch.push(remove(place_of(known), subtree));
            }
        }
        for (number, placed) in placed.iter().enumerate() {
            if is_moved(placed) {
                self.batch.push(rename(aside(number), NodePath::from_root(placed.path.clone())));
            }
            if placed.attr.kind == NodeKind::Directory {
                self.add_directory(placed, known(placed));
            }
        }
        self.flush()?;
        for placed in placed.iter().filter(|placed| placed.attr.kind != NodeKind::Directory) {
            progress()?;
            self.add_file(placed, known(placed))?;
            if self.batch.is_full() {
                self.flush()?;
            }
        }
        self.flush()?;
        Ok(self.own_ids)
    }

    fn add_directory(&mut self, placed: &PlacedNode, known: Option<&MirroredNode>) {
        let at = NodePath::from_root(placed.path.clone());
        let mode = Some(placed.attr.mode);
        match known {
            Some(known) => {
                let node = known.row.node;
                self.own_ids.insert(NodeId(node.cast_unsigned()), placed.attr.node);
                if known.row.mode != placed.attr.mode {
                    self.batch.push(Step::SetAttr { at, mode, modified: None });
                }
                if !placed.is_same_file {
                    self.batch.host_files.push((FileRef::Node(node), placed.attr));
                }
            }
            None => {
                let index = self.batch.push(Step::Mkdir { at, parents: Parents::Required, mode });
                self.revive(index, placed);
                self.batch.host_files.push((FileRef::Step(index), placed.attr));
            }
        }
    }

    fn revive(&mut self, index: usize, placed: &PlacedNode) {
        if let Some(node) = placed.node {
            self.batch.revive.insert(index, NodeId(node.cast_unsigned()));
        }
    }

    fn add_file(&mut self, placed: &PlacedNode, known: Option<&MirroredNode>) -> StoreResult<()> {
        if known
            .is_some_and(|known| known.tag() == Some(placed.attr.tag) && known.row.mode == placed.attr.mode)
        {
            return Ok(());
        }
        let found = self.store.find_node(self.directory, &placed.path, None, |_| Ok(()))?;
        let Some(FoundNode { attr, content, .. }) = found.filter(|found| found.attr.kind == placed.attr.kind)
        else {
            return Err(StoreError::Conflict);
        };
        let at = NodePath::from_root(placed.path.clone());
        let file = match known {
            Some(known) if self.is_same_content(&known.row, &content)? => {
                if known.row.mode != attr.mode && attr.kind == NodeKind::File {
                    self.batch.push(Step::SetAttr { at, mode: Some(attr.mode), modified: None });
                }
                FileRef::Node(known.row.node)
            }
            known => {
                if let PreparedContent::Single { bytes, .. } = &content {
                    self.batch.bytes += bytes.len();
                }
                // The step gets its content when it is prepared.
                let step = match attr.kind {
                    NodeKind::Symlink => Step::Symlink {
                        at,
                        target: b"-".to_vec(),
                        parents: Parents::Required,
                        expect: Precondition::Any,
                    },
                    _ => {
                        let mode = Some(attr.mode);
                        let options = PutOptions {
                            parents: Parents::Required,
                            mode,
                            modified: Some(attr.modified),
                            ..PutOptions::default()
                        };
                        Step::Write { at, content: Content::Bytes(Vec::new()), options }
                    }
                };
                let index = self.batch.push(step);
                self.batch.contents.push((index, content));
                if known.is_none() {
                    self.revive(index, placed);
                }
                FileRef::Step(index)
            }
        };
        self.batch.host_files.push((file, attr));
        Ok(())
    }

    fn is_same_content(&self, row: &EntryRow, content: &PreparedContent) -> Result<bool> {
        if row.size != content.size() {
            return Ok(false);
        }
        let reader = self.mirror.database_inner().reader()?;
        let stored = content::chunks(&reader, row.content, row.size)?;
        Ok(match content {
            PreparedContent::Empty => true,
            PreparedContent::Single { hash, .. } => stored.iter().map(|chunk| chunk.hash).eq([*hash]),
            PreparedContent::Chunked { chunks, .. } => stored == *chunks,
            PreparedContent::Stored { id, .. } => *id == row.content,
        })
    }

    /// Writes the batch.
    fn flush(&mut self) -> StoreResult<()> {
        let Batch { steps, contents, revive, host_files, .. } = std::mem::take(&mut self.batch);
        if steps.is_empty() && host_files.is_empty() {
            return Ok(());
        }
        let volume = self.mirror.volume().id;
        let mut change = Change::new(self.operation.clone(), steps);
        change.revive = revive;
        let files = host_files.clone();
        let applied = self.mirror.apply_with_contents(
            CommitSync::Deferred,
            change,
            contents,
            move |transaction, applied| {
                for (file, attr) in files {
                    let node = match file {
                        FileRef::Node(node) => Some(node),
                        FileRef::Step(index) => applied
                            .outcomes
                            .get(index)
                            .and_then(|outcome| outcome.attr)
                            .map(|attr| attr.node.0.cast_signed()),
                    };
                    if let Some(node) = node {
                        store_host_file(transaction.conn, volume, node, &attr)?;
                    }
                }
                Ok(())
            },
        )?;
        for (file, attr) in host_files {
            if let (FileRef::Step(index), NodeKind::Directory) = (file, attr.kind)
                && let Some(made) = applied.outcomes.get(index).and_then(|outcome| outcome.attr)
            {
                self.own_ids.insert(made.node, attr.node);
            }
        }
        Ok(())
    }
}

/// Stores what the host's file behind a node of the mirror is now. A row of the mirror itself gets the file's time of creation. A
/// node that the mirror has from the base layer keeps its row.
fn store_host_file(conn: &Connection, volume: i64, node: i64, attr: &Attr) -> Result<()> {
    let since: Option<i64> = conn
        .prepare_cached("UPDATE entry SET created = ?3 WHERE volume = ?1 AND node = ?2 RETURNING since")?
        .query_row(params![volume, node, attr.created.unwrap_or(attr.changed).0], |row| row.get(0))
        .optional()?;
    conn.prepare_cached(
        "INSERT OR REPLACE INTO fingerprint(volume, node, since, tag)
         SELECT ?1, ?2, coalesce(?3, (SELECT e.since FROM volume m JOIN entry e ON e.volume = m.base AND e.node = ?2
                                      WHERE m.id = ?1), 0), ?4",
    )?
    .execute(params![volume, node, since, stored_host_file(attr)])?;
    Ok(())
}

/// A node's place in the mirror.
fn place_of(known: &MirroredNode) -> NodePath {
    NodePath { base: NodeId(known.row.parent.cast_unsigned()), path: StorePath::empty().child(&known.name) }
}

/// Where a node lies while others are moved.
fn aside(number: usize) -> NodePath {
    NodePath::from_root(StorePath::from_checked(format!(".stead-aside-{number}")))
}

fn rename(from: NodePath, to: NodePath) -> Step {
    Step::Rename {
        from,
        to,
        replace: Replace::Refuse,
        parents: Parents::Required,
        expect: Precondition::Any,
        protected: [None, None],
    }
}

fn remove(at: NodePath, subtree: Subtree) -> Step {
    Step::Remove {
        at,
        subtree,
        expect: Precondition::Any,
        if_missing: IfMissing::Ignore,
        protected: None,
        displaced: DisplacedContent::Keep,
    }
}
