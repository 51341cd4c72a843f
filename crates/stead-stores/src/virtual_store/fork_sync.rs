//! Which changes of its target a fork has taken in, and what the fork and its target have changed since.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::{
    CurrentNode, ForkSides, ForkSync, NewForkSync, NodeId, NodeState, RevisionNumber, SidesQuery, StoreId,
    StorePath,
};
use stead_core::{Operation, OperationId, StoreError, StoreResult};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::maintenance::{check_readable, is_readable};
use crate::database::{Volume, newest_revision, volume_store_id};
use crate::virtual_store::VirtualStore;
use crate::virtual_store::entry_row::EntryRow;
use crate::virtual_store::fork::UNNAMED_LAYER_PREFIX;
use crate::virtual_store::history::{MAX_UNDO_DEPTH, is_undone, node_id, node_state};
use crate::virtual_store::layers::{find_overlay, load_layers};
use crate::virtual_store::tree::VolumeTree;

/// The volume that a fork was made from, and which of its changes the fork has.
pub(crate) struct LoadedSync {
    pub(crate) target: i64,
    pub(crate) sync: ForkSync,
    /// The revision up to which the fork has the rows of its target's manifest.
    pub(crate) manifest_revision: i64,
}

/// Inserts the first sync of a fork: it has everything that its target has at this revision.
pub(crate) fn insert_first(conn: &Connection, fork: i64, target: i64, revision: i64) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO fork_sync(volume, number, based_on, target, target_revision, manifest_revision, operation, merge_operation)
         VALUES (?1, 0, NULL, ?2, ?3, ?3, NULL, NULL)",
    )?
    .execute([fork, target, revision])?;
    Ok(())
}

/// Loads the sync that counts: the newest one whose operation has not been undone, and which was planned while a sync counted that
/// still does. If a merge was undone since, and the fork still has what it took in with it, the files of this merge have the base that
/// they have without it.
pub(crate) fn load(conn: &Connection, fork: i64) -> Result<LoadedSync> {
    load_as_of(conn, fork, None)
}

/// The same for the sync that counted at a revision of the fork. A merge that was undone since counts as undone then, too: the target has
/// what it had before.
fn load_as_of(conn: &Connection, fork: i64, as_of: Option<i64>) -> Result<LoadedSync> {
    let mut statement = conn.prepare_cached(
        "SELECT number, target, target_revision, operation, merge_operation, based_on, manifest_revision, before_merge
         FROM fork_sync WHERE volume = ?1 ORDER BY number",
    )?;
    let mut rows = statement.query([fork])?;
    let mut loaded: Option<LoadedSync> = None;
    let (mut newest, mut valid) = (0, BTreeSet::new());
    let (mut marked, mut merges) = (BTreeSet::new(), BTreeSet::new());
    let mut undone_merges = Vec::new();
    while let Some(row) = rows.next()? {
        let (number, target): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (operation, merge): (Option<[u8; 16]>, Option<[u8; 16]>) = (row.get(3)?, row.get(4)?);
        let target_revision: i64 = row.get(2)?;
        if let Some(as_of) = as_of {
            // A sync without a change of the fork happened after the revision of the target that it took in.
            let made = operation.as_ref().map(|operation| revision_of(conn, fork, operation)).transpose()?;
            if made.flatten().unwrap_or(target_revision) > as_of {
                break;
            }
        }
        newest = number;
        merges.extend(merge.map(OperationId::from_bytes));
        let is_undone_in = |volume, operation: &Option<[u8; 16]>, as_of| match operation {
            Some(operation) => is_undone_as_of(conn, volume, operation, as_of, 0),
            None => Ok(false),
        };
        let based_on: Option<i64> = row.get(5)?;
        let mut is_valid =
            based_on.is_none_or(|number| valid.contains(&number)) && !is_undone_in(fork, &operation, as_of)?;
        if let Some(merge) = merge.filter(|_| is_valid)
            && let Some(undone_at) = undone_at(conn, target, &merge)?
        {
            match row.get::<_, Option<i64>>(7)? {
                Some(before) => {
                    undone_merges.push(UndoneMerge { number, before, taken_in: target_revision, undone_at });
                    // If the fork has got nothing with the merge, only later syncs need this one.
                    if operation.is_none() {
                        valid.insert(number);
                        is_valid = false;
                    }
                }
                None => is_valid = false,
            }
        }
        if is_valid {
            valid.insert(number);
            let SyncNodes { behind, absent, out_of_sight, marked: newly_marked } =
                load_nodes(conn, fork, number)?;
            marked.extend(newly_marked);
            let target_revision = RevisionNumber(target_revision);
            let sync = ForkSync {
                number,
                counting: number,
                target_revision,
                behind,
                absent,
                out_of_sight,
                marked: BTreeSet::new(),
                merges: BTreeSet::new(),
            };
            loaded = Some(LoadedSync { target, sync, manifest_revision: row.get(6)? });
        }
    }
    let mut loaded = loaded.ok_or_else(not_a_fork)?;
    set_bases_of_undone(conn, &mut loaded, &undone_merges)?;
    loaded.sync = ForkSync { number: newest, marked, merges, ..loaded.sync };
    Ok(loaded)
}

/// A merge of a fork that was undone in its target, while the fork still has what it took in with the merge.
struct UndoneMerge {
    /// The sync that belongs to it.
    number: i64,
    /// The revision before the merge.
    before: i64,
    /// The revision of the target that the fork has taken in with it.
    taken_in: i64,
    /// The revision of the undo.
    undone_at: i64,
}

/// Gives the files that undone merges have changed the base that they have without these merges, unless the fork has taken in the
/// undo: what the undo left of them or, if others have changed them between the fork's last sync and the undo, what they were before
/// the first of these merges.
fn set_bases_of_undone(conn: &Connection, loaded: &mut LoadedSync, merges: &[UndoneMerge]) -> Result<()> {
    let (synced, number) = (loaded.sync.target_revision.0, loaded.sync.counting);
    let counts = |merge: &&UndoneMerge| synced < merge.undone_at && merge.number <= number;
    let merges: Vec<&UndoneMerge> = merges.iter().filter(counts).collect();
    let Some(last_undo) = merges.iter().map(|merge| merge.undone_at).max() else { return Ok(()) };
    let undos = serde_json::to_string(&merges.iter().map(|merge| merge.undone_at).collect::<Vec<_>>());
    let undos = undos.expect("numbers can be written as JSON");
    // The mirror of a host directory has the undo with a later revision, of which nothing says whose changes it has.
    let is_volume = merged_volumes(conn, loaded.target)? == [loaded.target];
    let knows_undo = is_volume && is_readable(conn, last_undo)?;
    let mut changed = conn.prepare_cached(
        "SELECT DISTINCT node FROM node_change WHERE volume = ?1 AND revision > ?2 AND revision <= ?3",
    )?;
    let mut changed_by_others = HashSet::<i64>::new();
    if knows_undo {
        let mut statement = conn.prepare_cached(
            "SELECT DISTINCT node FROM node_change WHERE volume = ?1 AND revision > ?2 AND revision <= ?3
               AND revision NOT IN (SELECT value FROM json_each(?4))",
        )?;
        let values = params![loaded.target, synced, last_undo, undos];
        for node in statement.query_map(values, |row| row.get(0))? {
            changed_by_others.insert(node?);
        }
    }
    let mut bases = BTreeMap::<i64, i64>::new();
    for merge in merges {
        let values = [loaded.target, merge.before, merge.taken_in];
        for node in changed.query_map(values, |row| row.get::<_, i64>(0))? {
            let base = bases.entry(node?).or_insert(merge.before);
            *base = merge.before.min(*base);
        }
        loaded.manifest_revision = loaded.manifest_revision.min(merge.before);
    }
    for (node, before) in bases {
        let is_left_by_undo = knows_undo && !changed_by_others.contains(&node);
        let base = RevisionNumber(if is_left_by_undo { last_undo } else { before });
        let node = node_id(node);
        loaded.sync.absent.remove(&node);
        let behind = loaded.sync.behind.entry(node).or_insert(base);
        // What the last sync has left out still has an older base.
        *behind = base.min(*behind);
    }
    Ok(())
}

/// Whether revision `r` changed a file of the volume `?1`, which may be the ledger of a host directory.
const CHANGES_VOLUME: &str = "(EXISTS (SELECT 1 FROM node_change c WHERE c.volume = ?1 AND c.revision = r.id)
   OR EXISTS (SELECT 1 FROM ledger_event e WHERE e.volume = ?1 AND e.revision = r.id))";

/// The revision at which a merge into the target of a fork was undone; `None` if it isn't undone.
fn undone_at(conn: &Connection, target: i64, merge: &[u8; 16]) -> Result<Option<i64>> {
    let mut first: Option<i64> = None;
    for volume in merged_volumes(conn, target)? {
        if !is_undone(conn, volume, merge, 0)? {
            continue;
        }
        // An undo makes a revision in each Store. If it had nothing to change in this one, the others tell when it was.
        let mut statement = conn.prepare_cached(&format!(
            "SELECT u.undone_by, coalesce(max(r.id) FILTER (WHERE {CHANGES_VOLUME}), max(r.id))
             FROM undone u LEFT JOIN revision r ON r.operation = u.undone_by
             WHERE u.volume = ?1 AND u.operation = ?2 GROUP BY u.undone_by"
        ))?;
        let mut rows = statement.query(params![volume, merge])?;
        while let Some(row) = rows.next()? {
            let (undo, revision): ([u8; 16], Option<i64>) = (row.get(0)?, row.get(1)?);
            if !is_undone(conn, volume, &undo, 0)? {
                // Without its revision, the undo is older than the history.
                first = first.into_iter().chain([revision.unwrap_or(0)]).min();
            }
        }
    }
    Ok(first)
}

/// The revision of a volume that an operation made.
fn revision_of(conn: &Connection, volume: i64, operation: &[u8; 16]) -> Result<Option<i64>> {
    let revision = conn
        .prepare_cached(
            "SELECT max(r.id) FROM revision r WHERE r.operation = ?2
               AND EXISTS (SELECT 1 FROM node_change c WHERE c.volume = ?1 AND c.revision = r.id)",
        )?
        .query_row(params![volume, operation], |row| row.get(0))?;
    Ok(revision)
}

/// The revision before a merge into the target of a fork; `None` if the merge has changed no file there.
fn revision_before(conn: &Connection, target: i64, merge: &[u8; 16]) -> Result<Option<i64>> {
    let mut before: Option<i64> = None;
    for volume in merged_volumes(conn, target)? {
        let first: Option<i64> = conn
            .prepare_cached(&format!(
                "SELECT min(r.id) - 1 FROM revision r WHERE r.operation = ?2 AND {CHANGES_VOLUME}"
            ))?
            .query_row(params![volume, merge], |row| row.get(0))?;
        before = before.into_iter().chain(first).min();
    }
    Ok(before)
}

/// Whether an operation was undone at a revision of the volume; without one, whether it is undone now.
fn is_undone_as_of(
    conn: &Connection,
    volume: i64,
    operation: &[u8; 16],
    as_of: Option<i64>,
    depth: usize,
) -> Result<bool> {
    let Some(revision) = as_of else { return is_undone(conn, volume, operation, depth) };
    let mut statement =
        conn.prepare_cached("SELECT undone_by FROM undone WHERE volume = ?1 AND operation = ?2")?;
    let undone_by: Vec<[u8; 16]> = statement
        .query_map(params![volume, operation], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for undo in undone_by {
        let was_made = revision_of(conn, volume, &undo)?.is_some_and(|made| made <= revision);
        let is_too_deep = depth > MAX_UNDO_DEPTH;
        if was_made && (is_too_deep || !is_undone_as_of(conn, volume, &undo, as_of, depth + 1)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Up to which revision of the mirror of a host directory the fork of the directory has its changes.
pub(crate) fn mirror_sync(conn: &Connection, mirror: i64) -> Result<Option<ForkSync>> {
    let fork: Option<i64> = conn
        .prepare_cached("SELECT volume FROM fork_sync WHERE target = ?1 LIMIT 1")?
        .query_row([mirror], |row| row.get(0))
        .optional()?;
    fork.map(|fork| Ok(load(conn, fork)?.sync)).transpose()
}

/// Whether a fork has taken in something.
pub(crate) fn has_syncs(conn: &Connection) -> Result<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM fork_sync WHERE number > 0 LIMIT 1")?.exists([])?)
}

/// The volumes whose history has the merges of forks of a volume: the volume itself or, if it is the mirror of a host directory,
/// the ledgers of the directory.
pub(crate) fn merged_volumes(conn: &Connection, target: i64) -> Result<Vec<i64>> {
    let mut statement = conn.prepare_cached(
        "SELECT d.volume FROM volume m JOIN overlay o ON o.volume = m.base AND m.namespace = '{\"mirror\":' || o.volume || '}'
         JOIN ledger_directory d ON d.location = o.location WHERE m.id = ?1",
    )?;
    let ledgers = statement.query_map([target], |row| row.get(0))?;
    let mut volumes: Vec<i64> = ledgers.collect::<rusqlite::Result<_>>()?;
    volumes.push(target);
    Ok(volumes)
}

fn not_a_fork() -> StoreError {
    StoreError::unsupported("this Store isn't a fork that can be merged")
}

/// The nodes that differ from the rest of a sync, as in [`ForkSync`].
#[derive(Default)]
struct SyncNodes {
    behind: BTreeMap<NodeId, RevisionNumber>,
    absent: BTreeSet<NodeId>,
    out_of_sight: BTreeSet<NodeId>,
    marked: BTreeSet<NodeId>,
}

/// The values of `fork_sync_node.is_marked`.
const NOT_MARKED: i64 = 0;
const WITH_MARKERS: i64 = 1;
const OUT_OF_SIGHT: i64 = 2;

fn load_nodes(conn: &Connection, fork: i64, number: i64) -> Result<SyncNodes> {
    let mut statement = conn.prepare_cached(
        "SELECT node, base_revision, is_marked FROM fork_sync_node WHERE volume = ?1 AND number = ?2",
    )?;
    let mut rows = statement.query([fork, number])?;
    let mut nodes = SyncNodes::default();
    while let Some(row) = rows.next()? {
        let node = node_id(row.get(0)?);
        let (base_revision, mark): (Option<i64>, i64) = (row.get(1)?, row.get(2)?);
        match base_revision {
            Some(revision) => drop(nodes.behind.insert(node, RevisionNumber(revision))),
            None if mark == NOT_MARKED => drop(nodes.absent.insert(node)),
            None => {}
        }
        match mark {
            WITH_MARKERS => drop(nodes.marked.insert(node)),
            OUT_OF_SIGHT => drop(nodes.out_of_sight.insert(node)),
            _ => {}
        }
    }
    Ok(nodes)
}

impl WriteTransaction<'_> {
    /// Writes a sync of a fork, unless another one came first.
    pub(crate) fn write_fork_sync(
        &mut self,
        fork: i64,
        operation: &Operation,
        has_revision: bool,
        new: &NewForkSync,
    ) -> Result<()> {
        let last: Option<(i64, i64)> = self
            .conn
            .prepare_cached(
                "SELECT number, target FROM fork_sync WHERE volume = ?1 ORDER BY number DESC LIMIT 1",
            )?
            .query_row([fork], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (number, target) = last.ok_or_else(not_a_fork)?;
        if number != new.after {
            return Err(StoreError::Conflict.into());
        }
        // A fork of a host directory finds directories there where they were at its last sync.
        self.invalidate_directories()?;
        let number = number + 1;
        // An operation that changed nothing in the fork can't be undone there.
        let operation = has_revision.then(|| operation.id.as_bytes().to_vec());
        let target_manifest = match new.keeps_manifest {
            true => self
                .conn
                .prepare_cached("SELECT manifest_revision FROM fork_sync WHERE volume = ?1 AND number = ?2")?
                .query_row([fork, new.based_on], |row| row.get(0))?,
            false => new.manifest_revision.unwrap_or(new.target_revision).0,
        };
        let before_merge = match &new.merge {
            Some(merge) => revision_before(self.conn, target, merge.as_bytes())?,
            None => None,
        };
        self.conn
            .prepare_cached(
                "INSERT INTO fork_sync(volume, number, based_on, target, target_revision, manifest_revision, operation,
                                       merge_operation, before_merge)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                fork,
                number,
                new.based_on,
                target,
                new.target_revision.0,
                target_manifest,
                operation,
                new.merge.map(|merge| merge.as_bytes().to_vec()),
                before_merge
            ])?;
        let mut statement = self.conn.prepare_cached(
            "INSERT INTO fork_sync_node(volume, number, node, base_revision, is_marked) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let nodes: BTreeSet<NodeId> =
            new.behind.keys().chain(&new.absent).chain(&new.marked).copied().collect();
        for node in nodes {
            let base_revision = new.behind.get(&node).map(|revision| revision.0);
            let mark = match (new.marked.contains(&node), new.out_of_sight.contains(&node)) {
                (true, _) => WITH_MARKERS,
                (false, true) => OUT_OF_SIGHT,
                (false, false) => NOT_MARKED,
            };
            statement.execute(params![fork, number, node.0.cast_signed(), base_revision, mark])?;
        }
        Ok(())
    }
}

impl WriteTransaction<'_> {
    /// A change of a fork, the revision `made`, has put files back to their states at another revision. Where the fork has taken in
    /// changes of its target since, these files get back the base that they had then.
    ///
    /// With the present base they would count as changed by the fork: a merge would take back what others have changed in the target.
    pub(crate) fn restore_fork_bases(
        &mut self,
        fork: i64,
        operation: &Operation,
        made: i64,
        restored: RevisionNumber,
    ) -> Result<()> {
        let conn = self.conn;
        let LoadedSync { target, sync, manifest_revision } = load(conn, fork)?;
        let then = load_as_of(conn, fork, Some(restored.0)).map_or_else(|_| load_first(conn, fork), Ok)?.sync;
        if then.counting == sync.counting {
            return Ok(());
        }
        let root = target_volume(conn, target)?.1;
        let (target_layers, fork_layers) = (load_layers(conn, target)?, load_layers(conn, fork)?);
        let tree = |vol, layers, revision| VolumeTree {
            conn,
            vol,
            root,
            as_of: Some(revision),
            base_layers: layers,
            overlay: None,
        };
        let (before, after) = (tree(fork, &fork_layers, made - 1), tree(fork, &fork_layers, made));
        let base_now = tree(target, &target_layers, sync.target_revision.0);
        let base_then = tree(target, &target_layers, then.target_revision.0);
        let place = |row: &EntryRow, name: &[u8]| (row.parent, name.to_vec());
        let state = |found: Option<(EntryRow, Vec<u8>)>| {
            found.map(|(row, name)| (row.parent, name, row.kind, row.mode, row.size, row.content))
        };
        let mut nodes: BTreeSet<i64> = BTreeSet::new();
        for node in changed_nodes(conn, fork, made - 1)? {
            let is_behind = sync.behind.contains_key(&node_id(node)) || sync.absent.contains(&node_id(node));
            if !is_behind && state(after.node_with_name(node)?) == state(base_now.node_with_name(node)?) {
                continue;
            }
            nodes.insert(node);
            // What one of the two sides has there under another id is the same file for a merge.
            for tree in [&before, &after] {
                let Some((row, name)) = tree.node_with_name(node)? else { continue };
                let (parent, name) = place(&row, &name);
                for base in [&base_now, &base_then] {
                    nodes.extend(base.child(parent, &name)?.map(|row| row.node));
                }
            }
        }
        let ForkSync { number, counting, target_revision, mut behind, mut absent, mut out_of_sight, .. } =
            sync;
        for node in nodes {
            let node = node_id(node);
            behind.remove(&node);
            absent.remove(&node);
            out_of_sight.remove(&node);
            if then.absent.contains(&node) {
                absent.insert(node);
                continue;
            }
            behind.insert(node, then.behind.get(&node).copied().unwrap_or(then.target_revision));
            if then.out_of_sight.contains(&node) {
                out_of_sight.insert(node);
            }
        }
        let new = NewForkSync {
            after: number,
            based_on: counting,
            target_revision,
            manifest_revision: Some(RevisionNumber(manifest_revision)),
            keeps_manifest: false,
            merge: None,
            behind,
            absent,
            out_of_sight,
            marked: BTreeSet::new(),
        };
        self.write_fork_sync(fork, operation, true, &new)
    }
}

/// The sync with which a fork was made.
fn load_first(conn: &Connection, fork: i64) -> Result<LoadedSync> {
    load_as_of(conn, fork, Some(first_revision(conn, fork)?))
}

impl VirtualStore {
    pub(crate) fn fork_target(&self) -> Result<StoreId> {
        self.read_transaction(|snapshot| {
            let conn = snapshot.tree.conn;
            let (namespace, _) = target_volume(conn, load(conn, self.volume.id)?.target)?;
            if namespace.starts_with(UNNAMED_LAYER_PREFIX) {
                return Err(target_gone().into());
            }
            Ok(volume_store_id(self.database.id(), &namespace))
        })
    }

    /// Whether this is a fork of a host directory itself, and not of another fork.
    pub(crate) fn is_fork_of_base_layer(&self) -> Result<bool> {
        self.read_transaction(|snapshot| {
            let conn = snapshot.tree.conn;
            let LoadedSync { target, .. } = load(conn, self.volume.id)?;
            let mut statement = conn.prepare_cached(
                "SELECT 1 FROM overlay o LEFT JOIN volume m ON m.namespace = '{\"mirror\":' || o.volume || '}'
                 WHERE ?1 IN (o.volume, m.id) AND o.volume = ?2",
            )?;
            Ok(statement.exists(params![target, self.volume.overlay])?)
        })
    }

    pub(crate) fn fork_sides(
        &self,
        query: SidesQuery,
        also: &BTreeSet<NodeId>,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> Result<ForkSides> {
        self.read_transaction(|snapshot| {
            let conn = snapshot.tree.conn;
            let LoadedSync { target, sync, .. } = load(conn, self.volume.id)?;
            let revision = newest_revision(conn)?;
            let (namespace, root) = target_volume(conn, target)?;
            let target_store = volume_store_id(self.database.id(), &namespace);
            let base_layers = load_layers(conn, target)?;
            let overlay = find_overlay(conn, &base_layers)?;
            let target_tree = Volume { id: target, root, dirs: Arc::default(), base_layers, overlay };
            let synced = sync.target_revision.0;
            let (fork_then, target_at) = match query {
                SidesQuery::SinceSync | SidesQuery::BaseAndFork => (None, None),
                SidesQuery::AfterMerge { fork_revision, target_revision } => {
                    check_readable(conn, fork_revision.0)?;
                    check_readable(conn, target_revision.0)?;
                    (Some(fork_revision.0), Some(target_revision.0))
                }
            };
            let mut nodes = changed_nodes(conn, self.volume.id, 0)?;
            // Also what the fork has taken in: a node that the fork has under another id is found by its place.
            nodes.extend(changed_nodes(conn, target, first_revision(conn, self.volume.id)?)?);
            let more = sync.behind.keys().chain(&sync.absent).chain(also);
            nodes.extend(more.map(|node| node.0.cast_signed()));
            let tree = |volume, as_of| VolumeTree::new(conn, volume, as_of);
            let mut fork = TreeReader::new(self, tree(&self.volume, None));
            let mut target = TreeReader::new(self, tree(&target_tree, target_at));
            let mut base = match fork_then {
                Some(revision) => TreeReader::new(self, tree(&self.volume, Some(revision))),
                None => TreeReader::new(self, tree(&target_tree, Some(synced))),
            };
            let mut sides = ForkSides::new(target_store, sync, RevisionNumber(revision));
            sides.target_revision = RevisionNumber(target_at.unwrap_or(revision));
            for node in nodes {
                progress()?;
                // Each node with an older base is rare, so its tree is read without a cache.
                let older = sides.sync.behind.get(&node_id(node)).filter(|_| fork_then.is_none()).copied();
                let is_absent = fork_then.is_none() && sides.sync.absent.contains(&node_id(node));
                let base_state = match older {
                    _ if is_absent => None,
                    Some(revision) => {
                        TreeReader::new(self, tree(&target_tree, Some(revision.0))).state(node)?
                    }
                    None => base.state(node)?,
                };
                let (mut in_target, mut in_fork) = (target.current(node)?, fork.current(node)?);
                for current in [&mut in_target, &mut in_fork].into_iter().flatten() {
                    share(current, base_state.as_ref());
                }
                let state =
                    |current: &Option<CurrentNode>| current.as_ref().and_then(|node| node.state.clone());
                let (target_state, fork_state) = (state(&in_target), state(&in_fork));
                let is_root = node == self.volume.root;
                let is_unchanged = base_state == target_state && base_state == fork_state;
                if is_root || is_unchanged {
                    continue;
                }
                for state in [&base_state, &target_state, &fork_state].into_iter().flatten() {
                    let parent = state.parent;
                    for (reader, known) in
                        [(&mut target, &mut sides.in_target), (&mut fork, &mut sides.in_fork)]
                    {
                        if !known.contains_key(&parent)
                            && let Some(current) = reader.current(parent.0.cast_signed())?
                        {
                            known.insert(parent, current);
                        }
                    }
                }
                sides.in_target.extend(in_target.map(|current| (node_id(node), current)));
                sides.in_fork.extend(in_fork.map(|current| (node_id(node), current)));
                sides.nodes.insert(node_id(node), base_state);
            }
            Ok(sides)
        })
    }
}

/// Makes a node's state share its memory with its state in the base: mostly it is the same, or at the same path.
fn share(current: &mut CurrentNode, base: Option<&NodeState>) {
    let (Some(state), Some(base)) = (&mut current.state, base) else { return };
    if *state == *base {
        *state = base.clone();
    } else if state.path == base.path {
        state.path = base.path.clone();
    }
    current.path = state.path.clone();
}

/// The namespace and the root of the volume that a fork was made from.
fn target_volume(conn: &Connection, target: i64) -> Result<(String, i64)> {
    let found = conn
        .prepare_cached("SELECT namespace, root FROM volume WHERE id = ?1")?
        .query_row([target], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.ok_or_else(target_gone)?)
}

fn target_gone() -> StoreError {
    StoreError::Expired("what the fork was made from is gone, so the fork can't be merged or updated".into())
}

/// The revision of the target at which a fork was made.
fn first_revision(conn: &Connection, fork: i64) -> Result<i64> {
    let revision = conn
        .prepare_cached("SELECT target_revision FROM fork_sync WHERE volume = ?1 AND number = 0")?
        .query_row([fork], |row| row.get(0))?;
    Ok(revision)
}

/// The nodes that a volume has changed after a revision.
fn changed_nodes(conn: &Connection, volume: i64, after: i64) -> Result<BTreeSet<i64>> {
    let mut statement =
        conn.prepare_cached("SELECT DISTINCT node FROM node_change WHERE volume = ?1 AND revision > ?2")?;
    let nodes = statement.query_map([volume, after], |row| row.get(0))?;
    Ok(nodes.collect::<rusqlite::Result<_>>()?)
}

/// Reads states of nodes from one tree, and keeps the paths of directories.
struct TreeReader<'a> {
    store: &'a VirtualStore,
    tree: VolumeTree<'a>,
    directories: HashMap<i64, Option<StorePath>>,
}

impl<'a> TreeReader<'a> {
    fn new(store: &'a VirtualStore, tree: VolumeTree<'a>) -> Self {
        TreeReader { store, tree, directories: HashMap::from([(tree.root, Some(StorePath::empty()))]) }
    }

    /// A node's row and its path; `None` if the node or a directory above it doesn't exist.
    fn find(&mut self, node: i64) -> Result<Option<(EntryRow, StorePath)>> {
        let Some((row, name)) = self.tree.node_with_name(node)? else { return Ok(None) };
        if node == self.tree.root {
            return Ok(Some((row, StorePath::empty())));
        }
        let path = self.directory_path(row.parent, 0)?.map(|directory| directory.child(&name));
        Ok(path.map(|path| (row, path)))
    }

    fn directory_path(&mut self, directory: i64, depth: usize) -> Result<Option<StorePath>> {
        if let Some(path) = self.directories.get(&directory) {
            return Ok(path.clone());
        }
        let path = match self.tree.node_with_name(directory)? {
            Some((row, name)) if depth <= stead_core::path::MAX_DEPTH => {
                self.directory_path(row.parent, depth + 1)?.map(|parent| parent.child(&name))
            }
            _ => None,
        };
        self.directories.insert(directory, path.clone());
        Ok(path)
    }

    fn state(&mut self, node: i64) -> Result<Option<NodeState>> {
        Ok(self.find(node)?.map(|(row, path)| node_state(self.store, &row, path)))
    }

    fn current(&mut self, node: i64) -> Result<Option<CurrentNode>> {
        let is_root = node == self.tree.root;
        Ok(self.find(node)?.map(|(row, path)| CurrentNode {
            state: (!is_root).then(|| node_state(self.store, &row, path.clone())),
            path,
            tag: row.tag(),
        }))
    }
}
