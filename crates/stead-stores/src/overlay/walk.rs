//! Walks of the fork's own files and the host directory together, directory by directory.

use std::ops::ControlFlow;
use std::time::Instant;

use stead_core::search::{DirectoryRules, IgnoreRules, MAX_IGNORE_FILE, WalkOptions};
use stead_core::store::{NodeId, NodeKind, NodePath, StorePath, WalkEntry};
use stead_core::{Store, StoreError, StoreResult};

use crate::overlay::OverlayStore;
use crate::overlay::directory::{DirectoryRef, MergedEntry};
use crate::overlay::place::Place;

pub(super) fn search_timeout_error() -> StoreError {
    StoreError::unavailable("the search took too long; use a narrower path or pattern")
}

/// An entry that is still to be visited.
struct WaitingEntry {
    entry: WalkEntry,
    directory: Option<DirectoryRef>,
    /// The ignore rules of the directory that it is in.
    rules: DirectoryRules,
}

impl OverlayStore {
    pub(super) fn walk_both(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        if let Place::Live(live) = self.place(at)? {
            return self.call_lower(&live, |lower, start| {
                lower.walk(start, walk, &mut |entry| {
                    let attr = self.live_attr(&live.path.join(&entry.path), entry.attr);
                    visit(WalkEntry { attr, ..entry })
                })
            });
        }
        let top = self.upper_directory(at)?;
        let above = walk.ignore.as_ref().map(|ignore| ignore.above().clone()).unwrap_or_default();
        // The next entry comes last.
        let mut waiting = Vec::new();
        if walk.depth > 0 {
            self.add_entries(at, &DirectoryRef::Upper(top), &StorePath::empty(), walk, &above, &mut waiting)?;
        }
        while let Some(WaitingEntry { entry, directory, rules }) = waiting.pop() {
            if walk.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(search_timeout_error());
            }
            let path = entry.path.clone();
            if walk.matches(&path) && visit(entry).is_break() {
                return Ok(());
            }
            if let Some(directory) = directory.filter(|_| walk.enters(&path)) {
                self.add_entries(at, &directory, &path, walk, &rules, &mut waiting)?;
            }
        }
        Ok(())
    }

    /// The node of a directory of the fork; an error of the fork's own volume if there is none.
    pub(super) fn upper_directory(&self, at: &NodePath) -> StoreResult<NodeId> {
        // Listing nothing of it finds out whether it is a directory, and reports symlinks.
        self.upper.list(at, &stead_core::store::Page { limit: 0, ..stead_core::store::Page::ALL })?;
        Ok(self.upper.stat(at)?.node)
    }

    /// Adds the entries of a directory that the walk visits or enters, the first one last.
    fn add_entries(
        &self,
        start: &NodePath,
        directory: &DirectoryRef,
        path: &StorePath,
        walk: &WalkOptions,
        above: &DirectoryRules,
        waiting: &mut Vec<WaitingEntry>,
    ) -> StoreResult<()> {
        let entries = match self.entries(directory) {
            // It was removed meanwhile.
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => return Ok(()),
            Err(error @ StoreError::Expired(_)) => return Err(error),
            Err(error) => {
                walk.unreadable.add(path.clone(), error);
                return Ok(());
            }
            Ok((entries, failure)) => {
                failure.into_iter().for_each(|error| walk.unreadable.add(path.clone(), error));
                entries
            }
        };
        let rules = self.directory_rules(start, walk.ignore.as_ref(), path, &entries, above);
        for entry in entries.into_iter().rev() {
            let name = entry.name.as_bytes();
            if entry.attr.kind == NodeKind::File && !walk.loads_name(name) {
                continue;
            }
            let path = path.child(name);
            let is_visited = entry.attr.kind == NodeKind::Directory || walk.matches(&path);
            if walk.skips(&path) || !is_visited || walk.leaves_out(&rules, &path, entry.attr.kind) {
                continue;
            }
            let directory = entry.directory();
            let entry = WalkEntry { path, attr: entry.attr };
            waiting.push(WaitingEntry { entry, directory, rules: rules.clone() });
        }
        Ok(())
    }

    /// The ignore rules in a directory below the start of a walk, `above` being those of its parent.
    pub(super) fn directory_rules(
        &self,
        start: &NodePath,
        ignore: Option<&IgnoreRules>,
        path: &StorePath,
        entries: &[MergedEntry],
        above: &DirectoryRules,
    ) -> DirectoryRules {
        let Some(ignore) = ignore else { return DirectoryRules::default() };
        let names = entries.iter().map(|entry| (entry.name.as_bytes(), entry.attr.kind));
        ignore.enter(above, path, names, |path| self.read_ignore_file(start, path))
    }

    /// Reads an ignore file below the start of a walk. Like git, it follows no symlink.
    fn read_ignore_file(&self, start: &NodePath, path: &StorePath) -> StoreResult<Vec<u8>> {
        let at = NodePath { base: start.base, path: start.path.join(path) };
        let kind = match self.stat(&at) {
            Err(StoreError::Link(_)) => return Err(StoreError::NotFound),
            attr => attr?.kind,
        };
        if kind != NodeKind::File {
            return Err(StoreError::NotFound);
        }
        Ok(self.read(&at, MAX_IGNORE_FILE)?.bytes)
    }
}
