//! Walks: everything below a directory is loaded in one transaction, and visited afterwards.
//!
//! The visitor may call the Store again, so no connection or transaction is held while it runs.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::time::Instant;

use stead_core::StoreError;
use stead_core::hide::HiddenNames;
use stead_core::search::{DirectoryRules, IgnoreRules, LeftOutReason, MAX_IGNORE_FILE, WalkOptions};
use stead_core::store::{NodeId, NodePath, StorePath, WalkEntry};

use crate::database::error::Result;
use crate::virtual_store::VirtualStore;
use crate::virtual_store::content;
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
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
    pub(super) ignore: Option<&'a IgnoreRules>,
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
    /// The nodes that ignore rules leave out. What is below them may be missing from `rows`.
    left_out: HashMap<i64, LeftOutReason>,
}

/// What a visitor of a tree is shown.
pub(super) enum Visited<'a> {
    Entry(&'a EntryRow),
    /// An entry that ignore rules leave out, with everything below it.
    LeftOut(&'a EntryRow, LeftOutReason),
}

impl VirtualStore {
    pub(super) fn walk_at(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<()> {
        let bounds = WalkBounds {
            depth: walk.depth,
            skip: &walk.skip,
            ending: walk.name_suffix(),
            ignore: walk.ignore.as_ref(),
            deadline: walk.deadline,
        };
        let loaded = self.read_transaction(|snapshot| {
            let top = snapshot.directory(at)?;
            LoadedTree::load(snapshot, top, &bounds)
        })?;
        loaded.visit(walk.hide.as_ref(), &mut |path, visited| {
            let row = match visited {
                Visited::Entry(row) => row,
                Visited::LeftOut(row, reason) => {
                    walk.note_left_out(&StorePath::from_checked(path), row.kind.to_kind(), reason);
                    return ControlFlow::Continue(());
                }
            };
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
            left_out: HashMap::new(),
        };
        let tree = snapshot.tree;
        if top == tree.root && bounds.depth > 2 {
            loaded.load_all(&tree, bounds.ending)?;
            if let Some(ignore) = bounds.ignore {
                loaded.mark_all_left_out(&tree, ignore)?;
            }
        } else {
            loaded.load_below(&tree, bounds)?
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
    fn load_below(&mut self, tree: &VolumeTree<'_>, bounds: &WalkBounds<'_>) -> Result<()> {
        let mut level = vec![EnteredDirectory::top(self.top, bounds.ignore)];
        for _ in 0..self.depth {
            let mut next = Vec::new();
            for directory in level {
                let begin = self.rows.len();
                tree.children_ending(directory.node, bounds.ending, &mut |row, name| {
                    self.push(row, name)?;
                    Ok(ControlFlow::Continue(()))
                })?;
                self.children.insert(directory.node, begin..self.rows.len());
                next.extend(self.enter(tree, &directory, bounds.ignore)?);
            }
            if next.is_empty() {
                break;
            }
            level = next;
        }
        Ok(())
    }

    /// Applies ignore rules to rows that are loaded already.
    fn mark_all_left_out(&mut self, tree: &VolumeTree<'_>, ignore: &IgnoreRules) -> Result<()> {
        let mut waiting = vec![EnteredDirectory::top(self.top, Some(ignore))];
        while let Some(directory) = waiting.pop() {
            self.check_deadline()?;
            let depth = directory.path.depth() + 1;
            let entered = self.enter(tree, &directory, Some(ignore))?;
            if depth < self.depth {
                waiting.extend(entered);
            }
        }
        Ok(())
    }

    /// Applies ignore rules to the rows of a directory, and returns the directories in it that the walk enters.
    fn enter(
        &mut self,
        tree: &VolumeTree<'_>,
        directory: &EnteredDirectory,
        ignore: Option<&IgnoreRules>,
    ) -> Result<Vec<EnteredDirectory>> {
        let rows = self.children.get(&directory.node).cloned().unwrap_or(0..0);
        let rows = &self.rows[rows];
        let name_of = |range: &Range<usize>| &self.names[range.clone()];
        let rules = ignore.map_or_else(DirectoryRules::default, |ignore| {
            let entries = rows.iter().map(|(row, name)| (name_of(name), row.kind.to_kind()));
            ignore.enter(&directory.above, &directory.path, entries, |path| {
                Ok(read_ignore_file(tree, directory, path)?)
            })
        });
        let mut entered = Vec::new();
        for (row, name) in rows {
            let name = name_of(name);
            let may_be_left_out = ignore.is_some() && rules.may_leave_out(name);
            if self.skipped.contains(&row.node) || !(row.is_directory() || may_be_left_out) {
                continue;
            }
            let path = directory.path.child(name);
            match ignore.and_then(|ignore| ignore.decide(&rules, &path, row.kind.to_kind())) {
                Some(reason) => {
                    self.left_out.insert(row.node, reason);
                }
                None if row.is_directory() => {
                    entered.push(EnteredDirectory { node: row.node, path, above: rules.clone() });
                }
                None => {}
            }
        }
        Ok(entered)
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
        visit: &mut dyn FnMut(&[u8], Visited<'_>) -> ControlFlow<()>,
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
            let left_out = self.left_out.get(&row.node);
            let entry = left_out.map_or(Visited::Entry(row), |&reason| Visited::LeftOut(row, reason));
            if visit(&path, entry).is_break() {
                return Ok(());
            }
            visited += 1;
            if visited.is_multiple_of(ROWS_PER_DEADLINE_CHECK) {
                self.check_deadline()?;
            }
            if row.is_directory() && left_out.is_none() && stack.len() < self.depth {
                stack.push((children_of(row.node), path.len()));
            }
        }
        Ok(())
    }
}

/// A directory that a walk enters.
struct EnteredDirectory {
    node: i64,
    /// The path from the start of the walk.
    path: StorePath,
    /// The ignore rules of its parent.
    above: DirectoryRules,
}

impl EnteredDirectory {
    fn top(node: i64, ignore: Option<&IgnoreRules>) -> Self {
        let above = ignore.map(|ignore| ignore.above().clone()).unwrap_or_default();
        EnteredDirectory { node, path: StorePath::empty(), above }
    }
}

/// Reads an ignore file of a directory in the walk's own snapshot. Like git, it follows no symlink.
fn read_ignore_file(
    tree: &VolumeTree<'_>,
    directory: &EnteredDirectory,
    path: &StorePath,
) -> Result<Vec<u8>> {
    let relative_path = path.strip_prefix(&directory.path).ok_or(StoreError::NotFound)?;
    let mut parent = directory.node;
    let mut found = None;
    for name in relative_path.split(|&byte| byte == b'/') {
        let row = tree.child(parent, name)?.ok_or(StoreError::NotFound)?;
        parent = row.node;
        found = Some(row);
    }
    let row = found.filter(|row| row.kind == EntryKind::File).ok_or(StoreError::NotFound)?;
    let size = row.size.cast_unsigned();
    if size > MAX_IGNORE_FILE {
        return Err(StoreError::TooLarge { size, limit: MAX_IGNORE_FILE }.into());
    }
    if row.content.is_none() && row.size > 0 {
        return Err(content::content_not_kept_error().into());
    }
    content::read_whole(tree.conn, row.content, row.size)
}
