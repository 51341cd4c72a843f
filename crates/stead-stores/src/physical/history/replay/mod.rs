//! Finds the revisions of a directory: replays the ledger from the newest row to the oldest, starting from what is on
//! disk now.
//!
//! A `TrackedNode` follows one node through its writes and its names. Going back in time, its content is known from the
//! row after, or from the disk. If another program changed it in between, the fingerprints differ, and its content is
//! unknown.

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
        let keeping = &*self.history;
        let Some(ledger) = keeping.ledger()? else {
            return match &query.at {
                Some(place) => self.stat_at(place).map(|_| RevisionSet::default()),
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
            let deeds = LedgerReplay::new(self, keeping, &*ledger, query).revisions();
            if ledger.last_revision()? == last {
                return deeds;
            }
        }
        let _alone = self.lock_tree_if_staged()?;
        LedgerReplay::new(self, keeping, &*ledger, query).revisions()
    }

    /// Locks the whole tree, if this process has a staging area: without one it can't wait for other processes.
    fn lock_tree_if_staged(&self) -> StoreResult<Option<TreeLock<'_>>> {
        self.staging_if_open().map_or(Ok(None), |shop| shop.locks.lock_tree())
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
        if let Some(place) = &self.query.at {
            self.subject = self.find_subject(place)?;
        }
        let mut found = RevisionSet::default();
        let Some(oldest) = self.ledger.oldest_revision(self.query)? else { return Ok(found) };
        let mut sieve = PathFilter::new(&self.query.paths);
        let mut rows = LedgerRows::new(self.ledger);
        let mut next = rows.next()?;
        while let Some(told) = next {
            let version = told.revision;
            if version < oldest || found.revisions.len() >= self.query.limit {
                break;
            }
            let operation = match version <= self.query.up_to.0 {
                true => self.ledger.operation(version)?.filter(|operation| self.query.matches(operation)),
                false => None,
            };
            let mut lines = NodeChanges::default();
            let mut row = Some(told);
            while let Some(told) = row.take_if(|told| told.revision == version) {
                self.rewind_row(&told, operation.is_some().then_some(&mut lines))?;
                row = rows.next()?;
            }
            next = row;
            let mut lines = lines.changes;
            // What the change both created and removed was never visible.
            lines.retain(|line| line.before.is_some() || line.after.is_some());
            lines.retain(|line| {
                sieve
                    .matches(line, || Ok::<_, Infallible>(self.path_now(line.node)))
                    .unwrap_or_else(|never| match never {})
            });
            if let Some(operation) = operation.filter(|_| !lines.is_empty()) {
                let (undoes, undone) = self.ledger.undo_links(&operation)?;
                let version = RevisionNumber(version);
                found.revisions.push(Revision {
                    number: version,
                    operation,
                    changes: lines,
                    blind_at: None,
                    undoes,
                    undone,
                });
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

    /// Goes back over one row. Adds what it changed to `lines`, if that is asked for.
    fn rewind_row(&mut self, told: &StoredLedgerRow, lines: Option<&mut NodeChanges>) -> StoreResult<()> {
        let said = LedgerEvent::from_row(told)?;
        let row = (told.revision, told.row.seq);
        if let QuerySubject::Removed(at, path) = &self.subject
            && *at == row
        {
            self.subject = QuerySubject::At(path.clone());
        }
        let mut ignored = NodeChanges::default();
        let lines = lines.unwrap_or(&mut ignored);
        match said.kind {
            LedgerEventKind::Placed => self.rewind_placed(&said, row, lines),
            LedgerEventKind::Removed => self.rewind_removed(&said, row, told.content_hash, lines),
            LedgerEventKind::Moved => self.rewind_moved(&said, row, lines),
            LedgerEventKind::Exchanged => self.rewind_exchanged(&said, row, lines),
            LedgerEventKind::Replaced | LedgerEventKind::Patched | LedgerEventKind::AttributesSet => {
                self.rewind_written(&said, row, told.content_hash, lines);
            }
        }
        Ok(())
    }

    fn rewind_placed(&mut self, said: &LedgerEvent, row: (i64, i64), lines: &mut NodeChanges) {
        let track = self.tracked_after(said, row);
        let after = self.state_of(&track, &said.path);
        if let Some(node) = said.detail.revived_node.filter(|node| *node >= FIRST_REMOVED_NODE) {
            self.revived.insert(NodeId(node), track.node);
        }
        if self.wants(&said.path) {
            lines.add(track.node, None, Some(after));
        }
        if let QuerySubject::At(top) = &self.subject
            && is_at_or_below(top, &said.path)
        {
            self.subject = QuerySubject::NotYetCreated;
        }
        self.take_subtree(&said.path);
        self.tracked.insert(said.path.clone(), None);
        if track.fingerprint.kind == NodeKind::Directory {
            self.passed_moves.push(PassedMove::Placed(said.path.clone()));
        }
    }

    fn rewind_removed(
        &mut self,
        said: &LedgerEvent,
        row: (i64, i64),
        hash: Option<[u8; 32]>,
        lines: &mut NodeChanges,
    ) {
        self.take_subtree(&said.path);
        let stash = self.history.stat_displaced(row, b"").filter(|_| said.displaced_kept);
        if said.detail.before.is_none_or(|before| before.kind == NodeKind::Directory) {
            let stashed = stash.is_some();
            self.passed_moves.push(PassedMove::Removed { path: said.path.clone(), row, stashed });
        }
        let mut paths = vec![said.path.clone()];
        if stash.is_some_and(|stat| stat.is_dir()) {
            let name = displaced_name(row.0, row.1);
            // Pruning may be removing it right now.
            let past = self.history.displaced_dir_of(row);
            let found = past.and_then(|past| entries_below(past, name.as_bytes())).unwrap_or_default();
            paths.extend(found.iter().skip(1).map(|(path, _)| join(&said.path, path)));
        }
        if let Some(before) = said.detail.before {
            let same =
                stash.is_some_and(|stat| stat.is_dir() || Fingerprint::of(&stat).has_same_content(&before));
            let content = same.then(|| ContentSource::displaced(row, Vec::new(), &before));
            let track =
                TrackedNode { node: self.removed_node(row, b""), fingerprint: before, source: content, hash };
            self.tracked.insert(said.path.clone(), Some(track));
        }
        for path in paths {
            if self.wants(&path)
                && let Some(track) = self.tracked_at(&path)
            {
                let before = self.state_of(&track, &path);
                lines.add(track.node, Some(before), None);
            }
        }
    }

    fn rewind_moved(&mut self, said: &LedgerEvent, row: (i64, i64), lines: &mut NodeChanges) {
        let (from, to) = (said.path.clone(), said.other_path.clone().unwrap_or_default());
        let track = self.tracked_left_at(&to, said.detail.before, row);
        let after = self.state_of(&track, &to);
        let mut wanted = self.wants(&to);
        let below_to = self.take_subtree(&to);
        self.take_subtree(&from);
        self.put_subtree(&from, below_to);
        if let QuerySubject::At(top) = &mut self.subject
            && is_at_or_below(top, &to)
        {
            *top = [&from, &top[to.len()..]].concat();
        }
        self.tracked.insert(to.clone(), None);
        if track.fingerprint.kind == NodeKind::Directory {
            self.passed_moves.push(PassedMove::Moved(from.clone(), to));
        }
        wanted |= self.wants(&from);
        if wanted {
            let before = self.state_of(&track, &from);
            lines.add(track.node, Some(before), Some(after));
        }
    }

    fn rewind_exchanged(&mut self, said: &LedgerEvent, row: (i64, i64), lines: &mut NodeChanges) {
        let (from, to) = (said.path.clone(), said.other_path.clone().unwrap_or_default());
        // What was at `from` is at `to` after the exchange, and the other way round.
        let one = self.tracked_left_at(&to, said.detail.before, row);
        let other = self.tracked_left_at(&from, said.detail.after, (row.0, !row.1));
        let after = [self.state_of(&one, &to), self.state_of(&other, &from)];
        let mut wanted = [self.wants(&to), self.wants(&from)];
        let (below_to, below_from) = (self.take_subtree(&to), self.take_subtree(&from));
        self.put_subtree(&from, below_to);
        self.put_subtree(&to, below_from);
        if let QuerySubject::At(top) = &mut self.subject {
            if is_at_or_below(top, &to) {
                *top = [&from, &top[to.len()..]].concat();
            } else if is_at_or_below(top, &from) {
                *top = [&to, &top[from.len()..]].concat();
            }
        }
        if one.fingerprint.kind == NodeKind::Directory || other.fingerprint.kind == NodeKind::Directory {
            self.passed_moves.push(PassedMove::Exchanged(from.clone(), to.clone()));
        }
        wanted[0] |= self.wants(&from);
        wanted[1] |= self.wants(&to);
        for ((track, path), (after, wanted)) in
            [(one, from), (other, to)].into_iter().zip(after.into_iter().zip(wanted))
        {
            if wanted {
                let before = self.state_of(&track, &path);
                lines.add(track.node, Some(before), Some(after));
            }
        }
    }

    fn rewind_written(
        &mut self,
        said: &LedgerEvent,
        row: (i64, i64),
        hash: Option<[u8; 32]>,
        lines: &mut NodeChanges,
    ) {
        let mut track = self.tracked_after(said, row);
        let after = self.state_of(&track, &said.path);
        let Some(before) = said.detail.before else { return };
        let another = before.kind != track.fingerprint.kind;
        if another {
            // A symlink replaced a file, or a file a symlink: two nodes.
            if self.wants(&said.path) {
                lines.add(track.node, None, Some(after.clone()));
            }
            track.node = self.removed_node(row, b"");
        }
        match (said.kind, &said.detail.patch) {
            (LedgerEventKind::Replaced, _) => {
                let stash = self.history.stat_displaced(row, b"").filter(|_| said.displaced_kept);
                let same = stash.is_some_and(|stat| Fingerprint::of(&stat).has_same_content(&before));
                track.source = same.then(|| ContentSource::displaced(row, Vec::new(), &before));
                track.hash = hash;
            }
            (LedgerEventKind::Patched, Some(replaced)) => {
                let known = replaced.pieces.is_empty()
                    || (said.displaced_kept && self.history.stat_displaced(row, b"").is_some());
                track.source =
                    track.source.filter(|_| known).map(|content| content.before_patch(row, replaced));
                track.hash = None;
            }
            _ => {}
        }
        track.fingerprint = before;
        self.tracked.insert(said.path.clone(), Some(track.clone()));
        if self.wants(&said.path) {
            let before = self.state_of(&track, &said.path);
            lines.add(track.node, Some(before), (!another).then_some(after));
        }
    }

    /// Adds the current state of all nodes that the revisions name.
    fn describe_now(&self, found: &mut RevisionSet) {
        let mut named: Vec<NodeId> = Vec::new();
        for line in found.revisions.iter().flat_map(|deed| &deed.changes) {
            named.push(line.node);
            named.extend([&line.before, &line.after].into_iter().flatten().map(|state| state.parent));
        }
        for node in named {
            if found.current.contains_key(&node) {
                continue;
            }
            if node == NodeId::ROOT {
                if let Ok(stat) = host::stat(&self.store.root.dir) {
                    let now = CurrentNode { path: StorePath::empty(), state: None, tag: stat.tag() };
                    found.current.insert(node, now);
                }
                continue;
            }
            let Some(path) = self.present_nodes.get(&node) else { continue };
            let Some(stat) = self.stat_now(path) else { continue };
            let face = Fingerprint::of(&stat);
            let parent = match split(path).0 {
                b"" => NodeId::ROOT,
                parent => self.stat_now(parent).map_or(NodeId::ROOT, |stat| NodeId(stat.ino)),
            };
            let content = Some(ContentSource::in_tree(path.clone(), face));
            let state = self.state_in_parent(
                &TrackedNode { node, fingerprint: face, source: content, hash: None },
                parent,
                path,
            );
            let path = StorePath::from_checked(path.clone());
            found.current.insert(node, CurrentNode { path, state: Some(state), tag: stat.tag() });
        }
    }
}
