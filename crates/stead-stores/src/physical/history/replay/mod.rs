//! Finds the revisions of a directory: replays the ledger from the newest row to the oldest, starting from what is on
//! disk now.
//!
//! A `TrackedNode` follows one node through its writes and its names. Going back in time, its content is known from the
//! row after, or from the disk. If another program changed it in between, the fingerprints differ, and its content is
//! unknown.

mod moved_along;
mod subject;
mod tracked_node;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use stead_core::store::{
    CurrentNode, NodeChange, NodeId, NodeKind, NodeState, PathFilter, Revision, RevisionNumber,
    RevisionQuery, RevisionSet, StorePath, StoreResult,
};
use stead_core::{Operation, Timestamp};

use super::super::PhysicalStore;
use super::super::host;
use super::super::lock::TreeLock;
use super::super::mask::{is_at_or_below, join, split};
use super::displaced::entries_below;
use super::ledger_event::{Fingerprint, LedgerEvent, LedgerEventKind};
use super::ledger_rows::LedgerRows;
use super::old_content::ContentSource;
use super::{PhysicalHistory, displaced_name};
use crate::ledger::{Ledger, StoredLedgerRow};
use subject::QuerySubject;
use tracked_node::{PassedMove, TrackedNode};

pub(super) use tracked_node::FIRST_REMOVED_NODE;

/// How often the ledger is replayed at most, if it changes meanwhile. The last time, the tree is locked.
const MAX_TRIES: usize = 4;

impl PhysicalStore {
    pub(in super::super) fn revisions_of(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        let history = &*self.history;
        let Some(ledger) = history.ledger()? else {
            return match &query.at {
                Some(at) => self.stat_at(at).map(|_| RevisionSet::default()),
                None => Ok(RevisionSet::default()),
            };
        };
        ledger.write_finished()?;
        for _ in 1..MAX_TRIES {
            let last = ledger.last_revision()?;
            if !ledger.pending_intents()?.is_empty() {
                // Recorded actions may not have happened yet. Locking the tree waits for them.
                drop(self.lock_tree_if_staged()?);
            }
            let revisions = LedgerReplay::new(self, history, &*ledger, query).revisions();
            if ledger.last_revision()? == last {
                return revisions;
            }
        }
        let _tree_lock = self.lock_tree_if_staged()?;
        LedgerReplay::new(self, history, &*ledger, query).revisions()
    }

    /// Locks the whole tree, if this process has a staging area: without one it can't wait for other processes.
    fn lock_tree_if_staged(&self) -> StoreResult<Option<TreeLock<'_>>> {
        self.staging_if_open().map_or(Ok(None), |staging| staging.locks.lock_tree())
    }
}

impl PhysicalStore {
    pub(in super::super) fn undoable_operations_of(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        match self.ledger()? {
            Some(ledger) => {
                ledger.write_finished()?;
                ledger.undoable_operations(agent, since, limit)
            }
            None => Ok(Vec::new()),
        }
    }
}

struct LedgerReplay<'a> {
    store: &'a PhysicalStore,
    history: &'a PhysicalHistory,
    ledger: &'a dyn Ledger,
    query: &'a RevisionQuery,
    /// What is known of paths, at the replay's current time; `None` if nothing was there.
    tracked: BTreeMap<Vec<u8>, Option<TrackedNode>>,
    /// The rows passed so far that gave directories a path or took one from them, newest first.
    passed_moves: Vec<PassedMove>,
    /// Nodes that exist now, with their paths.
    present_nodes: HashMap<NodeId, Vec<u8>>,
    /// Nodes that were removed and revived: the id that a removed node gets, and the id since it was revived.
    revived: HashMap<NodeId, NodeId>,
    /// What the query asks for, at the replay's current time.
    subject: QuerySubject,
}

/// The node changes of a revision, one per node.
#[derive(Default)]
struct NodeChanges {
    changes: Vec<NodeChange>,
    by_node: HashMap<NodeId, usize>,
}

impl NodeChanges {
    /// Adds a row's change of a node. Rows of a revision come newest first: the node's first row has the state after
    /// the revision, its last row the state before.
    fn add(&mut self, node: NodeId, before: Option<NodeState>, after: Option<NodeState>) {
        match self.by_node.get(&node) {
            Some(&index) => self.changes[index].before = before,
            None => {
                self.by_node.insert(node, self.changes.len());
                self.changes.push(NodeChange { node, before, after });
            }
        }
    }
}

impl<'a> LedgerReplay<'a> {
    fn new(
        store: &'a PhysicalStore,
        history: &'a PhysicalHistory,
        ledger: &'a dyn Ledger,
        query: &'a RevisionQuery,
    ) -> Self {
        let (tracked, passed_moves, present_nodes) = (BTreeMap::new(), Vec::new(), HashMap::new());
        let revived = HashMap::new();
        LedgerReplay {
            store,
            history,
            ledger,
            query,
            tracked,
            passed_moves,
            present_nodes,
            revived,
            subject: QuerySubject::Everything,
        }
    }

    fn revisions(mut self) -> StoreResult<RevisionSet> {
        if let Some(at) = &self.query.at {
            self.subject = self.find_subject(at)?;
        }
        let mut found = RevisionSet::default();
        let Some(oldest) = self.ledger.oldest_revision(self.query)? else { return Ok(found) };
        let mut filter = PathFilter::new(&self.query.paths);
        let mut rows = LedgerRows::new(self.ledger);
        let mut next = rows.next()?;
        while let Some(stored_row) = next {
            let revision = stored_row.revision;
            if revision < oldest || found.revisions.len() >= self.query.limit {
                break;
            }
            let operation = match revision <= self.query.up_to.0 {
                true => self.ledger.operation(revision)?.filter(|operation| self.query.matches(operation)),
                false => None,
            };
            let mut changes = NodeChanges::default();
            let mut row = Some(stored_row);
            while let Some(stored_row) = row.take_if(|stored_row| stored_row.revision == revision) {
                self.rewind_row(&stored_row, operation.is_some().then_some(&mut changes))?;
                row = rows.next()?;
            }
            next = row;
            let mut changes = changes.changes;
            // What the change both created and removed was never visible.
            changes.retain(|change| change.before.is_some() || change.after.is_some());
            changes.retain(|change| {
                filter
                    .matches(change, || Ok::<_, Infallible>(self.path_now(change.node)))
                    .unwrap_or_else(|never| match never {})
            });
            if let Some(operation) = operation.filter(|_| !changes.is_empty()) {
                let (undoes, undone) = self.ledger.undo_links(&operation)?;
                let number = RevisionNumber(revision);
                found.revisions.push(Revision { number, operation, changes, blind_at: None, undoes, undone });
            }
        }
        self.ledger.add_unchanged(self.query, &mut found.revisions)?;
        self.describe_now(&mut found);
        Ok(found)
    }

    /// The path that a node has now, if it exists.
    fn path_now(&self, node: NodeId) -> Option<StorePath> {
        let path = self.present_nodes.get(&node)?;
        self.stat_now(path)?;
        Some(StorePath::from_checked(path.clone()))
    }

    /// Goes back over one row. Adds what it changed to `changes`, if that is asked for.
    fn rewind_row(
        &mut self,
        stored_row: &StoredLedgerRow,
        changes: Option<&mut NodeChanges>,
    ) -> StoreResult<()> {
        let event = LedgerEvent::from_row(stored_row)?;
        let row = (stored_row.revision, stored_row.row.seq);
        if let QuerySubject::Removed(at, path) = &self.subject
            && *at == row
        {
            self.subject = QuerySubject::At(path.clone());
        }
        let mut ignored = NodeChanges::default();
        let changes = changes.unwrap_or(&mut ignored);
        match event.kind {
            LedgerEventKind::Placed => self.rewind_placed(&event, row, changes),
            LedgerEventKind::Removed => self.rewind_removed(&event, row, stored_row.content_hash, changes),
            LedgerEventKind::Moved => self.rewind_moved(&event, row, changes),
            LedgerEventKind::Exchanged => self.rewind_exchanged(&event, row, changes),
            LedgerEventKind::Replaced | LedgerEventKind::Patched | LedgerEventKind::AttributesSet => {
                self.rewind_written(&event, row, stored_row.content_hash, changes);
            }
        }
        Ok(())
    }

    fn rewind_placed(&mut self, event: &LedgerEvent, row: (i64, i64), changes: &mut NodeChanges) {
        let track = self.tracked_after(event, row);
        let after = self.state_of(&track, &event.path);
        if let Some(node) = event.detail.revived_node.filter(|node| *node >= FIRST_REMOVED_NODE) {
            self.revived.insert(NodeId(node), track.node);
        }
        if self.wants(&event.path) {
            changes.add(track.node, None, Some(after));
        }
        if let QuerySubject::At(subject_path) = &self.subject
            && is_at_or_below(subject_path, &event.path)
        {
            self.subject = QuerySubject::NotYetCreated;
        }
        self.take_subtree(&event.path);
        self.tracked.insert(event.path.clone(), None);
        if track.fingerprint.kind == NodeKind::Directory {
            self.passed_moves.push(PassedMove::Placed(event.path.clone()));
        }
    }

    fn rewind_removed(
        &mut self,
        event: &LedgerEvent,
        row: (i64, i64),
        hash: Option<[u8; 32]>,
        changes: &mut NodeChanges,
    ) {
        self.take_subtree(&event.path);
        let displaced_stat = self.history.stat_displaced(row, b"").filter(|_| event.displaced_kept);
        if event.detail.before.is_none_or(|before| before.kind == NodeKind::Directory) {
            let content_kept = displaced_stat.is_some();
            self.passed_moves.push(PassedMove::Removed { path: event.path.clone(), row, content_kept });
        }
        let mut paths = vec![event.path.clone()];
        if displaced_stat.is_some_and(|stat| stat.is_dir()) {
            let name = displaced_name(row.0, row.1);
            // Pruning may be removing it right now.
            let displaced_dir = self.history.displaced_dir_of(row);
            let found = displaced_dir
                .and_then(|displaced_dir| entries_below(displaced_dir, name.as_bytes()))
                .unwrap_or_default();
            paths.extend(found.iter().skip(1).map(|(path, _)| join(&event.path, path)));
        }
        if let Some(before) = event.detail.before {
            let is_same = displaced_stat
                .is_some_and(|stat| stat.is_dir() || Fingerprint::of(&stat).has_same_content(&before));
            let content = is_same.then(|| ContentSource::displaced(row, Vec::new(), &before));
            let track =
                TrackedNode { node: self.removed_node(row, b""), fingerprint: before, source: content, hash };
            self.tracked.insert(event.path.clone(), Some(track));
        }
        for path in paths {
            if self.wants(&path)
                && let Some(track) = self.tracked_at(&path)
            {
                let before = self.state_of(&track, &path);
                changes.add(track.node, Some(before), None);
            }
        }
    }

    fn rewind_moved(&mut self, event: &LedgerEvent, row: (i64, i64), changes: &mut NodeChanges) {
        let (from, to) = (event.path.clone(), event.other_path.clone().unwrap_or_default());
        let track = self.tracked_left_at(&to, event.detail.before, row);
        let after = self.state_of(&track, &to);
        let mut is_wanted = self.wants(&to);
        let entries = match track.fingerprint.kind {
            NodeKind::Directory => self.entries_moved_along(&from, &to),
            _ => Vec::new(),
        };
        let below_to = self.take_subtree(&to);
        self.take_subtree(&from);
        self.put_subtree(&from, below_to);
        if let QuerySubject::At(subject_path) = &mut self.subject
            && is_at_or_below(subject_path, &to)
        {
            *subject_path = [&from, &subject_path[to.len()..]].concat();
        }
        self.tracked.insert(to.clone(), None);
        if track.fingerprint.kind == NodeKind::Directory {
            self.passed_moves.push(PassedMove::Moved(from.clone(), to));
        }
        self.add_moved_along(entries, &from, changes);
        is_wanted |= self.wants(&from);
        if is_wanted {
            let before = self.state_of(&track, &from);
            changes.add(track.node, Some(before), Some(after));
        }
    }

    fn rewind_exchanged(&mut self, event: &LedgerEvent, row: (i64, i64), changes: &mut NodeChanges) {
        let (from, to) = (event.path.clone(), event.other_path.clone().unwrap_or_default());
        // What was at `from` is at `to` after the exchange, and the other way round.
        let first = self.tracked_left_at(&to, event.detail.before, row);
        let second = self.tracked_left_at(&from, event.detail.after, (row.0, !row.1));
        let after = [self.state_of(&first, &to), self.state_of(&second, &from)];
        let mut is_wanted = [self.wants(&to), self.wants(&from)];
        let entries = [(&first, &from, &to), (&second, &to, &from)].map(|(track, from, to)| {
            let is_directory = track.fingerprint.kind == NodeKind::Directory;
            if is_directory { self.entries_moved_along(from, to) } else { Vec::new() }
        });
        let (below_to, below_from) = (self.take_subtree(&to), self.take_subtree(&from));
        self.put_subtree(&from, below_to);
        self.put_subtree(&to, below_from);
        if let QuerySubject::At(subject_path) = &mut self.subject {
            if is_at_or_below(subject_path, &to) {
                *subject_path = [&from, &subject_path[to.len()..]].concat();
            } else if is_at_or_below(subject_path, &from) {
                *subject_path = [&to, &subject_path[from.len()..]].concat();
            }
        }
        if first.fingerprint.kind == NodeKind::Directory || second.fingerprint.kind == NodeKind::Directory {
            self.passed_moves.push(PassedMove::Exchanged(from.clone(), to.clone()));
        }
        for (entries, path) in entries.into_iter().zip([&from, &to]) {
            self.add_moved_along(entries, path, changes);
        }
        is_wanted[0] |= self.wants(&from);
        is_wanted[1] |= self.wants(&to);
        for ((track, path), (after, is_wanted)) in
            [(first, from), (second, to)].into_iter().zip(after.into_iter().zip(is_wanted))
        {
            if is_wanted {
                let before = self.state_of(&track, &path);
                changes.add(track.node, Some(before), Some(after));
            }
        }
    }

    fn rewind_written(
        &mut self,
        event: &LedgerEvent,
        row: (i64, i64),
        hash: Option<[u8; 32]>,
        changes: &mut NodeChanges,
    ) {
        let mut track = self.tracked_after(event, row);
        let after = self.state_of(&track, &event.path);
        let Some(before) = event.detail.before else { return };
        let kind_changed = before.kind != track.fingerprint.kind;
        if kind_changed {
            // A symlink replaced a file, or a file a symlink: two nodes.
            if self.wants(&event.path) {
                changes.add(track.node, None, Some(after.clone()));
            }
            track.node = self.removed_node(row, b"");
        }
        match (event.kind, &event.detail.patch) {
            (LedgerEventKind::Replaced, _) => {
                let displaced_stat = self.history.stat_displaced(row, b"").filter(|_| event.displaced_kept);
                let is_same =
                    displaced_stat.is_some_and(|stat| Fingerprint::of(&stat).has_same_content(&before));
                track.source = is_same.then(|| ContentSource::displaced(row, Vec::new(), &before));
                track.hash = hash;
            }
            (LedgerEventKind::Patched, Some(replaced)) => {
                let is_known = replaced.pieces.is_empty()
                    || (event.displaced_kept && self.history.stat_displaced(row, b"").is_some());
                track.source =
                    track.source.filter(|_| is_known).map(|content| content.before_patch(row, replaced));
                track.hash = None;
            }
            _ => {}
        }
        track.fingerprint = before;
        self.tracked.insert(event.path.clone(), Some(track.clone()));
        if self.wants(&event.path) {
            let before = self.state_of(&track, &event.path);
            changes.add(track.node, Some(before), (!kind_changed).then_some(after));
        }
    }

    /// Adds the current state of all nodes that the revisions name.
    fn describe_now(&self, found: &mut RevisionSet) {
        let mut nodes: Vec<NodeId> = Vec::new();
        for change in found.revisions.iter().flat_map(|revision| &revision.changes) {
            nodes.push(change.node);
            nodes.extend([&change.before, &change.after].into_iter().flatten().map(|state| state.parent));
        }
        for node in nodes {
            if found.current.contains_key(&node) {
                continue;
            }
            if node == NodeId::ROOT {
                if let Ok(stat) = host::stat(&self.store.root.dir) {
                    let current = CurrentNode { path: StorePath::empty(), state: None, tag: stat.tag() };
                    found.current.insert(node, current);
                }
                continue;
            }
            let Some(path) = self.present_nodes.get(&node) else { continue };
            let Some(stat) = self.stat_now(path) else { continue };
            let fingerprint = Fingerprint::of(&stat);
            let parent = match split(path).0 {
                b"" => NodeId::ROOT,
                parent => self.stat_now(parent).map_or(NodeId::ROOT, |stat| NodeId(stat.ino)),
            };
            let content = Some(ContentSource::in_tree(path.clone(), fingerprint));
            let state = self.state_in_parent(
                &TrackedNode { node, fingerprint, source: content, hash: None },
                parent,
                path,
            );
            let path = StorePath::from_checked(path.clone());
            found.current.insert(node, CurrentNode { path, state: Some(state), tag: stat.tag() });
        }
    }
}
