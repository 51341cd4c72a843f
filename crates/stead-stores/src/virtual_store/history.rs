//! The revisions of a volume: who did what, read from the table `change` and the rows of history.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::{
    ChangeKind, ContentId, ContentRef, CurrentNode, NodeChange, NodeId, NodeKind, NodePath, NodeState,
    OpenContent, PathFilter, Revision, RevisionNumber, RevisionQuery, RevisionSet, StorePath,
};
use stead_core::{Identity, Operation, OperationId, StoreError, StoreResult, Timestamp};

use crate::database::DatabaseInner;
use crate::database::error::{Result, corrupt};
use crate::virtual_store::VirtualStore;
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
use crate::virtual_store::feed;
use crate::virtual_store::read::ReadTransaction;
use crate::virtual_store::tree::VolumeTree;
use crate::virtual_store::unchanged;

/// How many revisions one query for their numbers returns.
const REVISIONS_PER_PAGE: usize = 256;

/// How deep undos of undos are followed.
const MAX_UNDO_DEPTH: usize = 1_000;

/// An agent's revisions, newest first, sorted by number and not by time, since a clock may be set back.
const REVISIONS_OF_AGENT: &str =
    "SELECT id, operation FROM revision WHERE agent = ?1 AND at >= ?2 ORDER BY id DESC";

const REVISIONS_OF_OPERATION: &str = "SELECT id FROM revision WHERE operation = ?1";

/// What a [`ContentRef`] of a Virtual Store holds.
pub(crate) struct VirtualContentRef {
    pub(crate) database: Arc<DatabaseInner>,
    pub(crate) content: Option<i64>,
    pub(crate) size: i64,
}

/// What a revision did to one node, according to the table `change`.
struct LoggedChange {
    node: i64,
    /// The last thing that the revision did to the node.
    kind: ChangeKind,
    /// Whether the revision created the node.
    created: bool,
    parent: i64,
    name: Vec<u8>,
}

impl VirtualStore {
    pub(crate) fn revision_before(&self, time: Timestamp) -> Result<RevisionNumber> {
        revision_before(&*self.database_inner().reader()?, time)
    }

    pub(crate) fn revisions_of(&self, query: &RevisionQuery) -> Result<RevisionSet> {
        self.read_transaction(|snapshot| {
            let top = match &query.at {
                Some(place) => Some(snapshot.find_now_or_last(place)?),
                None => None,
            };
            let looking = RevisionReader { store: self, tree: snapshot.tree, query, subject: top };
            looking.revisions()
        })
    }

    pub(crate) fn undoable_operations_of(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<(RevisionNumber, Operation)>> {
        // Older revisions belong to the fork's base.
        let after = self.volume.forked_at().unwrap_or(0);
        let upto = self.as_of.unwrap_or(i64::MAX);
        let did = "SELECT 1 FROM node_change WHERE volume = ?1 AND revision = ?2 LIMIT 1";
        let vol = self.volume.id;
        undoable_operations(&*self.database_inner().reader()?, vol, agent, since, limit, |conn, version| {
            let here = version > after && version <= upto;
            Ok(here
                && (conn.prepare_cached(did)?.exists([vol, version])?
                    || unchanged::is_one(conn, vol, version)?))
        })
    }

    pub(crate) fn open_content_ref(&self, past: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        let kept = past
            .inner::<VirtualContentRef>()
            .filter(|kept| kept.database.id == self.database.id())
            .ok_or_else(|| StoreError::Invalid("the content belongs to another Store".into()))?;
        Ok(Box::new(self.open_content_by_id(kept.content, kept.size)?))
    }
}

/// The newest revision at that time.
pub(crate) fn revision_before(conn: &Connection, time: Timestamp) -> Result<RevisionNumber> {
    let version = conn
        .prepare_cached("SELECT id FROM revision WHERE at <= ?1 ORDER BY id DESC LIMIT 1")?
        .query_row([time.0], |row| row.get(0))
        .optional()?;
    Ok(RevisionNumber(version.unwrap_or(0)))
}

/// The operation that made a revision.
pub(crate) fn operation_of(conn: &Connection, version: i64) -> Result<Option<Operation>> {
    let operation = conn
        .prepare_cached(
            "SELECT operation, agent, thread, organization, team, tool, at FROM revision WHERE id = ?1",
        )?
        .query_row([version], |row| {
            let identity = Identity {
                agent: row.get(1)?,
                thread: row.get(2)?,
                organization: row.get(3)?,
                team: row.get(4)?,
            };
            Ok(Operation {
                id: OperationId::from_bytes(row.get(0)?),
                identity: Arc::new(identity),
                tool: Cow::Owned(row.get(5)?),
                at: Timestamp(row.get(6)?),
            })
        })
        .optional()?;
    Ok(operation)
}

/// The operations that an operation undid in a volume, and whether it has been undone there itself.
pub(crate) fn undo_links(
    conn: &Connection,
    volume: i64,
    operation: &Operation,
) -> Result<(Vec<OperationId>, bool)> {
    let mut statement =
        conn.prepare_cached("SELECT operation FROM undone WHERE volume = ?1 AND undone_by = ?2")?;
    let undoes = statement
        .query_map(params![volume, operation.id.as_bytes()], |row| row.get(0).map(OperationId::from_bytes))?;
    let undoes = undoes.collect::<rusqlite::Result<_>>()?;
    Ok((undoes, is_undone(conn, volume, operation.id.as_bytes(), 0)?))
}

/// The operations of an agent that can be undone, each with its newest revision for which `did` returns true, newest
/// first. Undos, and operations that were undone, are left out.
pub(crate) fn undoable_operations(
    conn: &Connection,
    volume: i64,
    agent: &str,
    since: Timestamp,
    limit: usize,
    did: impl Fn(&Connection, i64) -> Result<bool>,
) -> Result<Vec<(RevisionNumber, Operation)>> {
    let mut statement = conn.prepare_cached(REVISIONS_OF_AGENT)?;
    let mut rows = statement.query(params![agent, since.0])?;
    let (mut operations, mut seen) = (Vec::new(), HashSet::new());
    while let Some(row) = rows.next()?
        && operations.len() < limit
    {
        let (version, id): (i64, [u8; 16]) = (row.get(0)?, row.get(1)?);
        if seen.contains(&id) || !did(conn, version)? {
            continue;
        }
        seen.insert(id);
        let Some(operation) = operation_of(conn, version)? else { continue };
        let (undoes, undone) = undo_links(conn, volume, &operation)?;
        if undoes.is_empty() && !undone {
            operations.push((RevisionNumber(version), operation));
        }
    }
    Ok(operations)
}

/// The revisions that these operations made, newest first.
pub(crate) fn revision_numbers_of(conn: &Connection, operations: &[OperationId]) -> Result<Vec<i64>> {
    let mut statement = conn.prepare_cached(REVISIONS_OF_OPERATION)?;
    let mut versions = Vec::new();
    for operation in operations {
        let found = statement.query_map([operation.as_bytes()], |row| row.get(0))?;
        versions.extend(found.collect::<rusqlite::Result<Vec<i64>>>()?);
    }
    versions.sort_unstable_by_key(|version| std::cmp::Reverse(*version));
    versions.dedup();
    Ok(versions)
}

impl ReadTransaction<'_> {
    /// The node at a path or, for every name that isn't there now, the node that had the name last.
    fn find_now_or_last(&mut self, place: &NodePath) -> Result<i64> {
        let tree = self.tree;
        let mut node = tree.node_number(place.base);
        for name in place.path.components() {
            let live = tree.child(node, name)?.map(|row| row.node);
            node = match live {
                Some(node) => node,
                None => tree.last_named(node, name)?.ok_or(StoreError::NotFound)?,
            };
        }
        Ok(node)
    }
}

impl VolumeTree<'_> {
    /// The node that last had a name which nothing has now.
    fn last_named(&self, parent: i64, name: &[u8]) -> Result<Option<i64>> {
        let last = self
            .conn
            .prepare_cached(
                "SELECT node FROM entry_history WHERE volume = ?1 AND parent = ?2 AND name = ?3 AND kind <> 0
                 ORDER BY since DESC LIMIT 1",
            )?
            .query_row(params![self.vol, parent, name], |row| row.get(0))
            .optional()?;
        match (last, self.base()) {
            (None, Some(base)) => Ok(base.child(parent, name)?.map(|row| row.node)),
            (last, _) => Ok(last),
        }
    }
}

struct RevisionReader<'a> {
    store: &'a VirtualStore,
    tree: VolumeTree<'a>,
    query: &'a RevisionQuery,
    subject: Option<i64>,
}

impl RevisionReader<'_> {
    fn revisions(&self) -> Result<RevisionSet> {
        let mut found = RevisionSet::default();
        let mut sieve = PathFilter::new(&self.query.paths);
        let upto = self.query.up_to.0.min(self.tree.as_of.unwrap_or(i64::MAX));
        // Older revisions belong to the fork's base.
        let after = self.query.after.0.max(self.store.volume.forked_at().unwrap_or(0));
        let mut bounds = (after, upto);
        loop {
            let (versions, more) = match &self.query.operations {
                Some(operations) => {
                    let mut versions = revision_numbers_of(self.tree.conn, operations)?;
                    versions.retain(|version| *version > bounds.0 && *version <= bounds.1);
                    (versions, false)
                }
                None => {
                    let versions = self.revision_numbers(bounds)?;
                    let more = versions.len() == REVISIONS_PER_PAGE;
                    (versions, more)
                }
            };
            for &version in &versions {
                if found.revisions.len() >= self.query.limit {
                    break;
                }
                found.revisions.extend(self.revision(version, &mut sieve)?);
            }
            match versions.last() {
                Some(&last) if more && found.revisions.len() < self.query.limit => bounds.1 = last - 1,
                _ => break,
            }
        }
        let query =
            RevisionQuery { after: RevisionNumber(after), up_to: RevisionNumber(upto), ..self.query.clone() };
        unchanged::add_to(self.tree.conn, self.tree.vol, &query, &mut found.revisions)?;
        self.describe_now(&mut found)?;
        Ok(found)
    }

    /// What a revision did, as far as the query asks for it; `None` if nothing matches.
    fn revision(&self, version: i64, sieve: &mut PathFilter<'_>) -> Result<Option<Revision>> {
        let Some(operation) = operation_of(self.tree.conn, version)? else { return Ok(None) };
        if !self.query.matches(&operation) {
            return Ok(None);
        }
        let mut lines = Vec::new();
        for logged in self.logged_changes(version)? {
            let line = self.node_change(version, &logged)?;
            if self.is_wanted(version, &line)? && sieve.matches(&line, || path_of(&self.tree, logged.node))? {
                lines.push(line);
            }
        }
        if lines.is_empty() {
            return Ok(None);
        }
        let (undoes, undone) = undo_links(self.tree.conn, self.tree.vol, &operation)?;
        Ok(Some(Revision {
            number: RevisionNumber(version),
            operation,
            changes: lines,
            blind_at: None,
            undoes,
            undone,
        }))
    }

    /// Returns some revisions that may contain a wanted change, newest first: after the first bound, up to the second.
    fn revision_numbers(&self, (after, upto): (i64, i64)) -> Result<Vec<i64>> {
        let query = self.query;
        let by_node = match self.subject {
            Some(top) => !self.was_ever_directory(top)?,
            None => false,
        };
        // A file's own rows name the revisions that changed it, so the table `change` isn't searched. In a fork, these
        // rows may belong to the base.
        let by_node = by_node && self.tree.base_layers.is_empty();
        let source = if by_node {
            "SELECT since AS revision FROM entry_history WHERE volume = ?1 AND node = ?4
             UNION SELECT until FROM entry_history WHERE volume = ?1 AND node = ?4
             UNION SELECT since FROM entry WHERE volume = ?1 AND node = ?4"
        } else {
            "SELECT DISTINCT revision FROM node_change WHERE volume = ?1 AND revision > ?2 AND revision <= ?3 AND ?4 IS ?4 ORDER BY revision DESC"
        };
        let sql = format!(
            "SELECT revision FROM ({source}) s JOIN revision v ON v.id = s.revision
             WHERE revision > ?2 AND revision <= ?3 AND (?5 IS NULL OR v.agent = ?5) AND (?6 IS NULL OR v.at >= ?6)
             ORDER BY revision DESC LIMIT ?7"
        );
        let since = query.since.map(|time| time.0);
        let mut statement = self.tree.conn.prepare_cached(&sql)?;
        let bounds =
            params![self.tree.vol, after, upto, self.subject, query.agent, since, REVISIONS_PER_PAGE as i64];
        let versions = statement.query_map(bounds, |row| row.get(0))?;
        Ok(versions.collect::<rusqlite::Result<_>>()?)
    }

    fn was_ever_directory(&self, node: i64) -> Result<bool> {
        if let Some(row) = self.tree.node(node)? {
            return Ok(row.is_directory());
        }
        let kind = self
            .tree
            .conn
            .prepare_cached("SELECT kind FROM entry_history WHERE volume = ?1 AND node = ?2 LIMIT 1")?
            .query_row([self.tree.vol, node], |row| row.get::<_, i64>(0))
            .optional()?;
        match (kind, self.tree.base()) {
            (None, Some(base)) => Ok(base.node(node)?.is_some_and(|row| row.is_directory())),
            (kind, _) => Ok(kind == Some(EntryKind::Directory as i64)),
        }
    }

    /// What a revision did, one entry per node.
    fn logged_changes(&self, version: i64) -> Result<Vec<LoggedChange>> {
        let mut statement = self.tree.conn.prepare_cached(
            "SELECT kind, node, parent, name FROM node_change WHERE volume = ?1 AND revision = ?2 ORDER BY seq",
        )?;
        let mut rows = statement.query([self.tree.vol, version])?;
        let mut logged: Vec<LoggedChange> = Vec::new();
        let mut place: HashMap<i64, usize> = HashMap::new();
        while let Some(row) = rows.next()? {
            let (what, node) = (feed::kind_of_code(row.get(0)?)?, row.get(1)?);
            let (parent, name) = (row.get(2)?, row.get(3)?);
            match place.get(&node) {
                Some(&at) => {
                    logged[at] = LoggedChange {
                        kind: what,
                        parent,
                        name,
                        ..LoggedChange { name: Vec::new(), ..logged[at] }
                    }
                }
                None => {
                    place.insert(node, logged.len());
                    logged.push(LoggedChange {
                        node,
                        kind: what,
                        created: what == ChangeKind::Created,
                        parent,
                        name,
                    });
                }
            }
        }
        Ok(logged)
    }

    fn node_change(&self, version: i64, logged: &LoggedChange) -> Result<NodeChange> {
        let before = match self.state(logged.node, Some(version - 1))? {
            None if !logged.created => Some(self.unknown_state(logged, version - 1)?),
            before => before,
        };
        let after = match self.state(logged.node, Some(version))? {
            None if logged.kind != ChangeKind::Removed => Some(self.unknown_state(logged, version)?),
            after => after,
        };
        Ok(NodeChange { node: node_id(logged.node), before, after })
    }

    /// The state of a node without a history row: it existed then, and nothing more is known.
    fn unknown_state(&self, logged: &LoggedChange, version: i64) -> Result<NodeState> {
        let above = path_of(&self.tree_at(Some(version)), logged.parent)?.unwrap_or_default();
        Ok(NodeState {
            parent: node_id(logged.parent),
            name: logged.name.clone(),
            path: above.child(&logged.name),
            kind: NodeKind::File,
            mode: 0,
            modified: Timestamp(0),
            size: 0,
            content: None,
        })
    }

    fn tree_at(&self, version: Option<i64>) -> VolumeTree<'_> {
        VolumeTree { as_of: version, ..self.tree }
    }

    fn state(&self, node: i64, version: Option<i64>) -> Result<Option<NodeState>> {
        let tree = self.tree_at(version);
        let Some((row, path)) = node_and_path(&tree, node)? else { return Ok(None) };
        Ok(Some(self.to_state(&row, path.unwrap_or_default())))
    }

    fn to_state(&self, row: &EntryRow, path: StorePath) -> NodeState {
        let is_kept = row.content.is_some() || row.size == 0;
        let content = (!row.is_directory() && is_kept).then(|| {
            let identity = row.content.map_or(ContentId::Empty, ContentId::Number);
            let kept = VirtualContentRef {
                database: Arc::clone(self.store.database_inner()),
                content: row.content,
                size: row.size,
            };
            ContentRef::new(identity, row.size.cast_unsigned(), kept)
        });
        NodeState {
            parent: node_id(row.parent),
            name: path.parent_and_name().map(|(_, name)| name.to_vec()).unwrap_or_default(),
            path,
            kind: row.kind.to_kind(),
            mode: row.mode,
            modified: Timestamp(row.modified),
            size: row.size.cast_unsigned(),
            content,
        }
    }

    /// Whether a change is about the node that the query asks for, or about one below it.
    fn is_wanted(&self, version: i64, line: &NodeChange) -> Result<bool> {
        let Some(top) = self.subject else { return Ok(true) };
        if line.node == node_id(top) {
            return Ok(true);
        }
        for (state, version) in [(&line.before, version - 1), (&line.after, version)] {
            if let Some(state) = state
                && self.lay_below(state.parent, version, top)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn lay_below(&self, parent: NodeId, version: i64, top: i64) -> Result<bool> {
        let tree = self.tree_at(Some(version));
        let mut node = tree.node_number(parent);
        while node != top {
            match tree.node(node)? {
                Some(row) if node != tree.root => node = row.parent,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Adds the present state of every node that the revisions name.
    fn describe_now(&self, told: &mut RevisionSet) -> Result<()> {
        let lines = told.revisions.iter().flat_map(|deed| &deed.changes);
        let mut named: BTreeSet<NodeId> = BTreeSet::new();
        for line in lines {
            named.insert(line.node);
            named.extend([&line.before, &line.after].into_iter().flatten().map(|state| state.parent));
        }
        for id in named {
            let node = self.tree.node_number(id);
            let Some((row, Some(path))) = node_and_path(&self.tree, node)? else { continue };
            let state = if node == self.tree.root { None } else { Some(self.to_state(&row, path.clone())) };
            told.current.insert(id, CurrentNode { path, state, tag: row.tag() });
        }
        Ok(())
    }
}

/// Whether an operation has been undone in a volume, and that undo has not been undone itself.
pub(crate) fn is_undone(conn: &Connection, volume: i64, operation: &[u8; 16], depth: usize) -> Result<bool> {
    let by: Vec<[u8; 16]> = conn
        .prepare_cached("SELECT undone_by FROM undone WHERE volume = ?1 AND operation = ?2")?
        .query_map(params![volume, operation], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for by in by {
        // No one undoes an undo that often, so the recursion ends here.
        if depth > MAX_UNDO_DEPTH || !is_undone(conn, volume, &by, depth + 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A node's row, and its path from the root; no path if a directory above it is missing.
fn node_and_path(tree: &VolumeTree<'_>, node: i64) -> Result<Option<(EntryRow, Option<StorePath>)>> {
    let Some((row, name)) = tree.node_with_name(node)? else { return Ok(None) };
    let path = match node == tree.root {
        true => Some(StorePath::empty()),
        false => path_of(tree, row.parent)?.map(|above| above.child(&name)),
    };
    Ok(Some((row, path)))
}

/// The path of a node from the root; `None` if the node or a directory above it is missing.
pub(crate) fn path_of(tree: &VolumeTree<'_>, mut node: i64) -> Result<Option<StorePath>> {
    let mut names = Vec::new();
    let mut passed = HashSet::new();
    while node != tree.root {
        if !passed.insert(node) {
            return Err(corrupt("a directory contains itself"));
        }
        let Some((row, name)) = tree.node_with_name(node)? else { return Ok(None) };
        names.push(name);
        node = row.parent;
    }
    names.reverse();
    Ok(Some(StorePath::from_checked(names.join(&b'/'))))
}

fn node_id(node: i64) -> NodeId {
    NodeId(node.cast_unsigned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Database;

    #[test]
    fn operations_are_found_without_looking_at_all_versions() {
        let database = Database::in_memory();
        let store = database.store(["test"]).unwrap();
        let reader = store.database_inner().reader().unwrap();
        for (sql, index) in
            [(REVISIONS_OF_AGENT, "revision_agent (agent=?)"), (REVISIONS_OF_OPERATION, "revision_operation")]
        {
            let mut statement = reader.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut plan = Vec::new();
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().unwrap() {
                plan.push(row.get::<_, String>(3).unwrap());
            }
            // One index search, without sorting.
            assert!(plan.len() == 1 && plan[0].contains(index), "{plan:?}");
        }
    }
}
