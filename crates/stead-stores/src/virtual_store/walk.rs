//! Walks: everything below a directory is loaded in one transaction, and visited afterwards.
//!
//! The visitor may call the Store again, so no connection or transaction is held while it runs.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::time::Instant;

use stead_core::StoreError;
use stead_core::hide::HiddenNames;
use stead_core::search::WalkOptions;
use stead_core::store::{NodeId, NodePath, StorePath, WalkEntry};

use crate::database::error::Result;
use crate::virtual_store::VirtualStore;
use crate::virtual_store::entry_row::EntryRow;
use crate::virtual_store::read::ReadTransaction;
use crate::virtual_store::tree::VolumeTree;

/// How many rows are read between two looks at the clock.
const ROWS_PER_DEADLINE_CHECK: usize = 1_024;

/// The bounds of a walk.
pub(super) struct WalkBounds<'a> {
    pub(super) depth: usize,
    pub(super) skip: &'a [StorePath],
    /// The ending of the names of wanted files.
    pub(super) ending: &'a [u8],
    pub(super) deadline: Option<Instant>,
}

/// The entries below a directory. Files whose names don't have the wanted ending may be left out.
pub(super) struct LoadedTree {
    top: i64,
    depth: usize,
    deadline: Option<Instant>,
    rows: Vec<(EntryRow, Range<usize>)>,
    /// All names, one after the other.
    names: Vec<u8>,
    /// The rows of each directory, sorted by name.
    children: HashMap<i64, Range<usize>>,
    skipped: HashSet<i64>,
}

impl VirtualStore {
    pub(super) fn walk_at(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<()> {
        let (depth, skip) = (walk.depth, &*walk.skip);
        let bounds = WalkBounds { depth, skip, ending: walk.name_suffix(), deadline: walk.deadline };
        let loaded = self.read_transaction(|snapshot| {
            let top = snapshot.directory(at)?;
            LoadedTree::load(snapshot, top, &bounds)
        })?;
        loaded.visit(walk.hide.as_ref(), &mut |path, row| {
            if walk.include.as_ref().is_some_and(|globs| !globs.matches_bytes(path)) {
                return ControlFlow::Continue(());
            }
            visit(WalkEntry { path: StorePath::from_checked(path), attr: row.attr() })
        })
    }
}

impl LoadedTree {
    /// Loads everything below a directory.
    pub(super) fn load(
        snapshot: &mut ReadTransaction<'_>,
        top: i64,
        bounds: &WalkBounds<'_>,
    ) -> Result<Self> {
        let mut skipped = HashSet::new();
        for path in bounds.skip {
            let at = NodePath { base: NodeId(top.cast_unsigned()), path: path.clone() };
            // A missing path needs no skipping.
            if let Ok(row) = snapshot.find(&at) {
                skipped.insert(row.node);
            }
        }
        let mut loaded = LoadedTree {
            top,
            depth: bounds.depth,
            deadline: bounds.deadline,
            rows: Vec::new(),
            names: Vec::new(),
            children: HashMap::new(),
            skipped,
        };
        let tree = snapshot.tree;
        if top == tree.root && bounds.depth > 2 {
            loaded.load_all(&tree, bounds.ending)?
        } else {
            loaded.load_below(&tree, bounds.ending)?
        }
        Ok(loaded)
    }

    /// Loads all rows of the volume with one scan, sorted by directory and name.
    fn load_all(&mut self, tree: &VolumeTree<'_>, ending: &[u8]) -> Result<()> {
        tree.all_entries(ending, &mut |row, name| {
            self.push(row, name)?;
            let end = self.rows.len();
            self.children.entry(row.parent).or_insert(end - 1..end).end = end;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Loads the rows with one query for each directory.
    fn load_below(&mut self, tree: &VolumeTree<'_>, ending: &[u8]) -> Result<()> {
        let mut level = vec![self.top];
        for _ in 0..self.depth {
            let mut next = Vec::new();
            for directory in level {
                let begin = self.rows.len();
                tree.children_ending(directory, ending, &mut |row, name| {
                    self.push(row, name)?;
                    Ok(ControlFlow::Continue(()))
                })?;
                let found = begin..self.rows.len();
                let is_entered = |row: &EntryRow| row.is_directory() && !self.skipped.contains(&row.node);
                next.extend(
                    self.rows[found.clone()]
                        .iter()
                        .map(|(row, _)| row)
                        .filter(|row| is_entered(row))
                        .map(|row| row.node),
                );
                self.children.insert(directory, found);
            }
            if next.is_empty() {
                break;
            }
            level = next;
        }
        Ok(())
    }

    fn push(&mut self, row: EntryRow, name: &[u8]) -> Result<()> {
        if self.rows.len().is_multiple_of(ROWS_PER_DEADLINE_CHECK) {
            self.check_deadline()?;
        }
        let begin = self.names.len();
        self.names.extend_from_slice(name);
        self.rows.push((row, begin..self.names.len()));
        Ok(())
    }

    fn check_deadline(&self) -> Result<()> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                Err(StoreError::unavailable("the search took too long; use a narrower path or pattern")
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// Visits every entry with its path, a directory before its content. Leaves out what is hidden.
    pub(super) fn visit(
        &self,
        hide: Option<&HiddenNames>,
        visit: &mut dyn FnMut(&[u8], &EntryRow) -> ControlFlow<()>,
    ) -> Result<()> {
        let children_of = |node: i64| self.children.get(&node).cloned().unwrap_or(0..0);
        let mut path = Vec::new();
        // The directories on the way: the rows left in each, and the length of its path.
        let mut stack = vec![(children_of(self.top), 0)];
        let mut visited = 0_usize;
        while let Some((remaining, length)) = stack.last_mut() {
            let Some(next) = remaining.next() else {
                stack.pop();
                continue;
            };
            let (row, name) = &self.rows[next];
            if self.skipped.contains(&row.node) {
                continue;
            }
            path.truncate(*length);
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&self.names[name.clone()]);
            if hide.is_some_and(|hidden| hidden.hides_entry(&path)) {
                continue;
            }
            if visit(&path, row).is_break() {
                return Ok(());
            }
            visited += 1;
            if visited.is_multiple_of(ROWS_PER_DEADLINE_CHECK) {
                self.check_deadline()?;
            }
            if row.is_directory() && stack.len() < self.depth {
                stack.push((children_of(row.node), path.len()));
            }
        }
        Ok(())
    }
}
