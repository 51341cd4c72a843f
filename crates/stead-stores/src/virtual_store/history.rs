//! The revisions of a volume: who did what, read from the table `change` and the rows of history.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::{
    ChangeKind, ContentId, ContentRef, CurrentNode, NodeChange, NodeId, NodeKind, NodePath, NodeState,
    NodeStateFields, OpenContent, PathFilter, Revision, RevisionNumber, RevisionQuery, RevisionSet,
    StorePath,
};
use stead_core::{Identity, Operation, OperationId, StoreError, StoreResult, Timestamp};

use crate::database::DatabaseInner;
use crate::database::error::{Result, corrupt};
use crate::database::maintenance::{check_none_lost_after, is_readable};
use crate::virtual_store::VirtualStore;
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
use crate::virtual_store::feed;
use crate::virtual_store::open_file::open_content_by_id;
use crate::virtual_store::read::ReadTransaction;
use crate::virtual_store::tree::VolumeTree;
use crate::virtual_store::unchanged;

/// How many revisions one query for their numbers returns.
const REVISIONS_PER_PAGE: usize = 256;

/// How deep undos of undos are followed.
pub(crate) const MAX_UNDO_DEPTH: usize = 1_000;

/// An agent's revisions, newest first, sorted by number and not by time, since a clock may be set back.
const REVISIONS_OF_AGENT: &str =
    "SELECT id, operation FROM revision WHERE agent = ?1 AND at >= ?2 ORDER BY id DESC";

const REVISIONS_OF_OPERATION: &str = "SELECT id FROM revision WHERE operation = ?1";

/// What a [`ContentRef`] to content of a database says. Most references share the database and have the content's number as
/// their id; those of captures hold this.
#[derive(Clone)]
pub(crate) struct VirtualContentRef {
    pub(crate) database: Arc<DatabaseInner>,
    pub(crate) content: Option<i64>,
    pub(crate) size: i64,
}

impl VirtualContentRef {
    /// A reference to content by its number; `None` for no bytes.
    pub(crate) fn by_number(database: &Arc<DatabaseInner>, content: Option<i64>, size: u64) -> ContentRef {
        let id = content.map_or(ContentId::Empty, ContentId::Number);
        ContentRef::with_shared(id, size, Arc::<DatabaseInner>::clone(database))
    }

    /// What a reference says, if it is one to content of a database.
    pub(crate) fn of(content_ref: &ContentRef) -> Option<VirtualContentRef> {
        if let Some(stored) = content_ref.inner::<VirtualContentRef>() {
            return Some(stored.clone());
        }
        let database = content_ref.shared_inner::<DatabaseInner>()?;
        let content = match content_ref.id()? {
            ContentId::Number(number) => Some(number),
            ContentId::Empty | ContentId::Hash(_) | ContentId::Location(_) => None,
        };
        Some(VirtualContentRef { database, content, size: content_ref.size().cast_signed() })
    }

    /// Opens the content.
    pub(crate) fn open(&self) -> StoreResult<Box<dyn OpenContent>> {
        Ok(Box::new(open_content_by_id(&self.database, self.content, self.size)?))
    }
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
    pub(crate) fn newest_revision_at(&self, time: Timestamp) -> Result<RevisionNumber> {
        let reader = self.database_inner().reader()?;
        let revision = newest_revision_at(&reader, time)?;
        if !is_readable(&reader, revision.0)? {
            return Err(StoreError::Expired("the history doesn't reach back that far any more".into()).into());
        }
        check_none_lost_after(&reader, revision.0)?;
        Ok(revision)
    }

    pub(crate) fn revisions_of(&self, query: &RevisionQuery) -> Result<RevisionSet> {
        self.read_transaction(|snapshot| {
            let subject = match &query.at {
                Some(at) => Some(snapshot.find_now_or_last(at)?),
                None => None,
            };
            let reader = RevisionReader { store: self, tree: snapshot.tree, query, subject };
            reader.revisions()
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
        let up_to = self.as_of.unwrap_or(i64::MAX);
        let has_change_sql = "SELECT 1 FROM node_change WHERE volume = ?1 AND revision = ?2 LIMIT 1";
        let vol = self.volume.id;
        undoable_operations(&*self.database_inner().reader()?, vol, agent, since, limit, |conn, revision| {
            let is_own = revision > after && revision <= up_to;
            Ok(is_own
                && (conn.prepare_cached(has_change_sql)?.exists([vol, revision])?
                    || unchanged::is_unchanged_revision(conn, vol, revision)?))
        })
    }

    pub(crate) fn open_content_ref(&self, content_ref: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        let stored = VirtualContentRef::of(content_ref)
            .filter(|stored| stored.database.id == self.database.id())
            .ok_or_else(|| StoreError::Invalid("the content belongs to another Store".into()))?;
        stored.open()
    }
}

/// The newest revision at that time.
pub(crate) fn newest_revision_at(conn: &Connection, time: Timestamp) -> Result<RevisionNumber> {
    let revision = conn
        .prepare_cached("SELECT id FROM revision WHERE at <= ?1 ORDER BY id DESC LIMIT 1")?
        .query_row([time.0], |row| row.get(0))
        .optional()?;
    Ok(RevisionNumber(revision.unwrap_or(0)))
}

/// The operation that made a revision.
pub(crate) fn operation_of(conn: &Connection, revision: i64) -> Result<Option<Operation>> {
    let operation = conn
        .prepare_cached(
            "SELECT operation, agent, thread, organization, team, tool, at FROM revision WHERE id = ?1",
        )?
        .query_row([revision], |row| {
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

/// The operations of an agent that can be undone, each with its newest revision for which `has_change` returns true,
/// newest first. Undos, and operations that were undone, are left out.
pub(crate) fn undoable_operations(
    conn: &Connection,
    volume: i64,
    agent: &str,
    since: Timestamp,
    limit: usize,
    has_change: impl Fn(&Connection, i64) -> Result<bool>,
) -> Result<Vec<(RevisionNumber, Operation)>> {
    let mut statement = conn.prepare_cached(REVISIONS_OF_AGENT)?;
    let mut rows = statement.query(params![agent, since.0])?;
    let (mut operations, mut seen) = (Vec::new(), HashSet::new());
    while let Some(row) = rows.next()?
        && operations.len() < limit
    {
        let (revision, id): (i64, [u8; 16]) = (row.get(0)?, row.get(1)?);
        if seen.contains(&id) || !has_change(conn, revision)? {
            continue;
        }
        seen.insert(id);
        let Some(operation) = operation_of(conn, revision)? else { continue };
        let (undoes, undone) = undo_links(conn, volume, &operation)?;
        if undoes.is_empty() && !undone {
            operations.push((RevisionNumber(revision), operation));
        }
    }
    Ok(operations)
}

/// The revisions that these operations made, newest first.
pub(crate) fn revision_numbers_of(conn: &Connection, operations: &[OperationId]) -> Result<Vec<i64>> {
    let mut statement = conn.prepare_cached(REVISIONS_OF_OPERATION)?;
    let mut revisions = Vec::new();
    for operation in operations {
        let found = statement.query_map([operation.as_bytes()], |row| row.get(0))?;
        revisions.extend(found.collect::<rusqlite::Result<Vec<i64>>>()?);
    }
    revisions.sort_unstable_by_key(|revision| std::cmp::Reverse(*revision));
    revisions.dedup();
    Ok(revisions)
}

impl ReadTransaction<'_> {
    /// The node at a path or, for every name that isn't there now, the node that had the name last.
    fn find_now_or_last(&mut self, at: &NodePath) -> Result<i64> {
        let tree = self.tree;
        let mut node = tree.node_number(at.base);
        for name in at.path.components() {
            let current = tree.child(node, name)?.map(|row| row.node);
            node = match current {
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
        let mut path_filter = PathFilter::new(&self.query.paths);
        let up_to = self.query.up_to.0.min(self.tree.as_of.unwrap_or(i64::MAX));
        // Older revisions belong to the fork's base.
        let after = self.query.after.0.max(self.store.volume.forked_at().unwrap_or(0));
        let mut bounds = (after, up_to);
        loop {
            let (revisions, more) = match &self.query.operations {
                Some(operations) => {
                    let mut revisions = revision_numbers_of(self.tree.conn, operations)?;
                    revisions.retain(|revision| *revision > bounds.0 && *revision <= bounds.1);
                    (revisions, false)
                }
                None => {
                    let revisions = self.revision_numbers(bounds)?;
                    let more = revisions.len() == REVISIONS_PER_PAGE;
                    (revisions, more)
                }
            };
            for &revision in &revisions {
                if found.revisions.len() >= self.query.limit {
                    break;
                }
                found.revisions.extend(self.revision(revision, &mut path_filter)?);
            }
            match revisions.last() {
                Some(&last) if more && found.revisions.len() < self.query.limit => bounds.1 = last - 1,
                _ => break,
            }
        }
        let query = RevisionQuery {
            after: RevisionNumber(after),
            up_to: RevisionNumber(up_to),
            ..self.query.clone()
        };
        unchanged::add_unchanged_revisions(self.tree.conn, self.tree.vol, &query, &mut found.revisions)?;
        self.describe_now(&mut found)?;
        Ok(found)
    }

    /// What a revision did, as far as the query asks for it; `None` if nothing matches.
    fn revision(&self, revision: i64, path_filter: &mut PathFilter<'_>) -> Result<Option<Revision>> {
        let Some(operation) = operation_of(self.tree.conn, revision)? else { return Ok(None) };
        if !self.query.matches(&operation) {
            return Ok(None);
        }
        let logged = self.logged_changes(revision)?;
        let mut all = Vec::with_capacity(logged.len());
        for logged in &logged {
            all.push(self.node_change(revision, logged)?);
        }
        self.add_moved_along(revision, path_filter, &mut all)?;
        let mut changes = Vec::new();
        for change in all {
            if self.matches_subject(revision, &change)?
                && path_filter.matches(&change, || path_of(&self.tree, self.tree.node_number(change.node)))?
            {
                changes.push(change);
            }
        }
        if changes.is_empty() {
            return Ok(None);
        }
        let (undoes, undone) = undo_links(self.tree.conn, self.tree.vol, &operation)?;
        Ok(Some(Revision {
            number: RevisionNumber(revision),
            operation,
            changes,
            blind_at: None,
            undoes,
            undone,
        }))
    }

    /// Adds a change for each node that a moved directory took into one of the query's paths, or out of one.
    fn add_moved_along(
        &self,
        revision: i64,
        path_filter: &PathFilter<'_>,
        changes: &mut Vec<NodeChange>,
    ) -> Result<()> {
        let mut moved: Vec<(i64, StorePath, StorePath)> = Vec::new();
        for change in &*changes {
            if let (Some(before), Some(after)) = (&change.before, &change.after)
                && after.kind == NodeKind::Directory
                && before.path != after.path
                && path_filter.is_crossed_by(&before.path, &after.path)
            {
                let node = self.tree.node_number(change.node);
                moved.push((node, before.path.clone(), after.path.clone()));
            }
        }
        if moved.is_empty() {
            return Ok(());
        }
        // A node with a change of its own has its paths there. If it is a directory, it is in `moved` itself.
        let changed: HashSet<NodeId> = changes.iter().map(|change| change.node).collect();
        let tree = self.tree_at(Some(revision));
        while let Some((directory, path_before, path_after)) = moved.pop() {
            tree.children(directory, b"", -1, &mut |row, name| {
                let paths = [path_before.child(name), path_after.child(name)];
                let is_near = paths.iter().any(|path| path_filter.may_match_below(path));
                if changed.contains(&node_id(row.node)) || !is_near {
                    return Ok(ControlFlow::Continue(()));
                }
                let [before, after] = paths.clone().map(|path| Some(self.to_state(&row, path)));
                changes.push(NodeChange { node: node_id(row.node), before, after });
                if row.is_directory() {
                    let [before, after] = paths;
                    moved.push((row.node, before, after));
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(())
    }

    /// Returns some revisions that may contain a wanted change, newest first: after the first bound, up to the second.
    fn revision_numbers(&self, (after, up_to): (i64, i64)) -> Result<Vec<i64>> {
        let query = self.query;
        let by_node = match self.subject {
            Some(subject) => !self.was_ever_directory(subject)?,
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
            params![self.tree.vol, after, up_to, self.subject, query.agent, since, REVISIONS_PER_PAGE as i64];
        let revisions = statement.query_map(bounds, |row| row.get(0))?;
        Ok(revisions.collect::<rusqlite::Result<_>>()?)
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
    fn logged_changes(&self, revision: i64) -> Result<Vec<LoggedChange>> {
        let mut statement = self.tree.conn.prepare_cached(
            "SELECT kind, node, parent, name FROM node_change WHERE volume = ?1 AND revision = ?2 ORDER BY seq",
        )?;
        let mut rows = statement.query([self.tree.vol, revision])?;
        let mut logged: Vec<LoggedChange> = Vec::new();
        let mut index_by_node: HashMap<i64, usize> = HashMap::new();
        while let Some(row) = rows.next()? {
            let (kind, node) = (feed::kind_of_code(row.get(0)?)?, row.get(1)?);
            let (parent, name) = (row.get(2)?, row.get(3)?);
            match index_by_node.get(&node) {
                Some(&index) => {
                    logged[index] = LoggedChange {
                        kind,
                        parent,
                        name,
                        ..LoggedChange { name: Vec::new(), ..logged[index] }
                    }
                }
                None => {
                    index_by_node.insert(node, logged.len());
                    logged.push(LoggedChange {
                        node,
                        kind,
                        created: kind == ChangeKind::Created,
                        parent,
                        name,
                    });
                }
            }
        }
        Ok(logged)
    }

    fn node_change(&self, revision: i64, logged: &LoggedChange) -> Result<NodeChange> {
        let before = match self.state(logged.node, Some(revision - 1))? {
            None if !logged.created => Some(self.unknown_state(logged, revision - 1)?),
            before => before,
        };
        let after = match self.state(logged.node, Some(revision))? {
            None if logged.kind != ChangeKind::Removed => Some(self.unknown_state(logged, revision)?),
            after => after,
        };
        Ok(NodeChange { node: node_id(logged.node), before, after })
    }

    /// The state of a node without a history row: it existed then, and nothing more is known.
    fn unknown_state(&self, logged: &LoggedChange, revision: i64) -> Result<NodeState> {
        let parent_path = path_of(&self.tree_at(Some(revision)), logged.parent)?.unwrap_or_default();
        let fields = NodeStateFields {
            parent: node_id(logged.parent),
            name: logged.name.clone(),
            path: parent_path.child(&logged.name),
            kind: NodeKind::File,
            mode: 0,
            modified: Timestamp(0),
            size: 0,
            content: None,
        };
        Ok(fields.into())
    }

    fn tree_at(&self, revision: Option<i64>) -> VolumeTree<'_> {
        VolumeTree { as_of: revision, ..self.tree }
    }

    fn state(&self, node: i64, revision: Option<i64>) -> Result<Option<NodeState>> {
        let tree = self.tree_at(revision);
        let Some((row, path)) = node_and_path(&tree, node)? else { return Ok(None) };
        Ok(Some(self.to_state(&row, path.unwrap_or_default())))
    }

    fn to_state(&self, row: &EntryRow, path: StorePath) -> NodeState {
        node_state(self.store, row, path)
    }

    /// Whether a change is about the node that the query asks for, or about one below it.
    fn matches_subject(&self, revision: i64, change: &NodeChange) -> Result<bool> {
        let Some(subject) = self.subject else { return Ok(true) };
        if change.node == node_id(subject) {
            return Ok(true);
        }
        for (state, revision) in [(&change.before, revision - 1), (&change.after, revision)] {
            if let Some(state) = state
                && self.was_below(state.parent, revision, subject)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn was_below(&self, parent: NodeId, revision: i64, subject: i64) -> Result<bool> {
        let tree = self.tree_at(Some(revision));
        let mut node = tree.node_number(parent);
        while node != subject {
            match tree.node(node)? {
                Some(row) if node != tree.root => node = row.parent,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Adds the present state of every node that the revisions name.
    fn describe_now(&self, found: &mut RevisionSet) -> Result<()> {
        let changes = found.revisions.iter().flat_map(|revision| &revision.changes);
        let mut nodes: BTreeSet<NodeId> = BTreeSet::new();
        for change in changes {
            nodes.insert(change.node);
            nodes.extend([&change.before, &change.after].into_iter().flatten().map(|state| state.parent));
        }
        for id in nodes {
            let node = self.tree.node_number(id);
            let Some((row, Some(path))) = node_and_path(&self.tree, node)? else { continue };
            let state = if node == self.tree.root { None } else { Some(self.to_state(&row, path.clone())) };
            found.current.insert(id, CurrentNode { path, state, tag: row.tag() });
        }
        Ok(())
    }
}

/// Whether an operation has been undone in a volume, and that undo has not been undone itself.
pub(crate) fn is_undone(conn: &Connection, volume: i64, operation: &[u8; 16], depth: usize) -> Result<bool> {
    let undone_by: Vec<[u8; 16]> = conn
        .prepare_cached("SELECT undone_by FROM undone WHERE volume = ?1 AND operation = ?2")?
        .query_map(params![volume, operation], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for undo in undone_by {
        // No one undoes an undo that often, so the recursion ends here.
        if depth > MAX_UNDO_DEPTH || !is_undone(conn, volume, &undo, depth + 1)? {
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
        false => path_of(tree, row.parent)?.map(|parent_path| parent_path.child(&name)),
    };
    Ok(Some((row, path)))
}

/// The path of a node from the root; `None` if the node or a directory above it is missing.
pub(crate) fn path_of(tree: &VolumeTree<'_>, mut node: i64) -> Result<Option<StorePath>> {
    let mut names = Vec::new();
    let mut visited = HashSet::new();
    while node != tree.root {
        if !visited.insert(node) {
            return Err(corrupt("a directory contains itself"));
        }
        let Some((row, name)) = tree.node_with_name(node)? else { return Ok(None) };
        names.push(name);
        node = row.parent;
    }
    names.reverse();
    Ok(Some(StorePath::from_checked(names.join(&b'/'))))
}

/// The state that a row and its path describe.
pub(crate) fn node_state(store: &VirtualStore, row: &EntryRow, path: StorePath) -> NodeState {
    let has_content = row.content.is_some() || row.size == 0;
    let content = (!row.is_directory() && has_content)
        .then(|| VirtualContentRef::by_number(store.database_inner(), row.content, row.size.cast_unsigned()));
    let fields = NodeStateFields {
        parent: node_id(row.parent),
        name: path.parent_and_name().map(|(_, name)| name.to_vec()).unwrap_or_default(),
        path,
        kind: row.kind.to_kind(),
        mode: row.mode,
        modified: Timestamp(row.modified),
        size: row.size.cast_unsigned(),
        content,
    };
    fields.into()
}

pub(crate) fn node_id(node: i64) -> NodeId {
    NodeId(node.cast_unsigned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Database;

    #[test]
    fn operations_are_found_with_one_index_search() {
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
