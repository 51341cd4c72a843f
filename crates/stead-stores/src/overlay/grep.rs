//! Searches the fork's own files and the host directory together, with several threads.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{SyncSender, sync_channel};

use stead_core::search::{DirectoryRules, FileHits, Grep, GrepSearcher, Hits, IgnoreRules};
use stead_core::store::{Attr, NodeId, NodeKind, NodePath, OpenContent, OpenPurpose, Page, StorePath};
use stead_core::{Store, StoreError, StoreResult};

use crate::overlay::OverlayStore;
use crate::overlay::directory::{DirectoryRef, MergedEntry};
use crate::overlay::place::Place;
use crate::overlay::walk::search_timeout_error;
use crate::work_queue::WorkQueue;

/// Files up to this size in bytes are searched in memory.
const MAX_IN_MEMORY: u64 = 8 << 20;
/// How many files are read together at most.
const MAX_BATCH_FILES: usize = 32;
/// How many threads search at most.
const THREADS: usize = 8;
/// How many directories and other names the fork has taken over at most where the host directory searches itself.
const MAX_TAKEN: usize = 256;

/// A directory below the start of a search.
struct SearchedDirectory {
    directory: DirectoryRef,
    path: StorePath,
    /// The ignore rules of its parent.
    above: DirectoryRules,
}

/// Which entries a search of the fork's directories looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchedEntries {
    /// Those of the fork and those of the host directory.
    All,
    /// Those of the fork. The host directory searches its own.
    Upper,
}

/// How the host directory can search everything that the fork has not taken over, which is faster than to list it first.
struct LowerSearch {
    /// The path in the host directory where the search starts.
    start: StorePath,
    /// What the fork has taken over, relative to the start.
    skip: Vec<StorePath>,
    /// Where the host directory has no files that the search reports, relative to the start: the directories of the fork that it has
    /// a part of, and the fork's files that were reported.
    not_reported: HashSet<StorePath>,
}

/// Files of the host directory that are read together.
#[derive(Default)]
struct LiveBatch {
    /// Their paths in the host directory.
    paths: Vec<NodePath>,
    /// Their paths below the start of the search, and their entries.
    files: Vec<(StorePath, MergedEntry)>,
    bytes: u64,
}

impl LiveBatch {
    fn add(&mut self, path: StorePath, entry: MergedEntry) {
        if let Some(live_path) = &entry.live_path {
            self.paths.push(NodePath::from_root(live_path.clone()));
            self.bytes += entry.attr.size;
            self.files.push((path, entry));
        }
    }

    fn is_full(&self) -> bool {
        self.files.len() >= MAX_BATCH_FILES || self.bytes >= MAX_IN_MEMORY
    }
}

/// Sends the hits of a file, or notes that the file can't be read. Breaks if nobody wants more.
fn report(
    path: StorePath,
    attr: Attr,
    hits: StoreResult<Option<Hits>>,
    grep: &Grep,
    sender: &SyncSender<FileHits>,
) -> ControlFlow<()> {
    match hits {
        Ok(Some(hits)) => match sender.send(FileHits { path, attr: Some(attr), hits }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        },
        Err(error @ (StoreError::HostDenied | StoreError::Corrupt(_) | StoreError::Unavailable { .. })) => {
            grep.unreadable.add(path, error);
            ControlFlow::Continue(())
        }
        // It has no hits, or was removed or replaced meanwhile.
        Ok(None) | Err(_) => ControlFlow::Continue(()),
    }
}

impl OverlayStore {
    pub(super) fn grep_both(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        if let Place::Live(live) = self.place(at)? {
            return self.call_lower(&live, |lower, start| {
                lower.grep(start, grep, &mut |hits| {
                    let attr = hits.attr.map(|attr| self.live_attr(&live.path.join(&hits.path), attr));
                    visit(FileHits { attr, ..hits })
                })
            });
        }
        let top = match self.upper_directory(at) {
            Err(StoreError::NotADirectory) => {
                return self.upper.grep(at, grep, &mut |hits| {
                    let attr = hits.attr.map(|attr| self.upper_attr(attr));
                    visit(FileHits { attr, ..hits })
                });
            }
            top => top?,
        };
        let search = match self.lower_search(top) {
            // A directory was removed meanwhile.
            Err(StoreError::NotFound | StoreError::NotADirectory) => None,
            search => search?,
        };
        let Some(mut search) = search else {
            return self.grep_directories(at, top, SearchedEntries::All, grep, visit);
        };
        let mut is_ended = false;
        self.grep_directories(at, top, SearchedEntries::Upper, grep, &mut |hits| {
            // The fork may have taken it over only now.
            search.not_reported.insert(hits.path.clone());
            let next = visit(hits);
            is_ended |= next.is_break();
            next
        })?;
        if is_ended { Ok(()) } else { self.grep_lower(search, grep, visit) }
    }

    /// How the host directory can search its part of a directory of the fork. `None` if the paths there differ, if the fork decides
    /// about ignore files, or if it has taken over so much that skipping it would cost more.
    fn lower_search(&self, top: NodeId) -> StoreResult<Option<LowerSearch>> {
        let live_part = |node: NodeId| match self.place(&NodePath::of_node(node))? {
            Place::Upper { directory } => {
                StoreResult::Ok(directory.and_then(|directory| self.live_part(directory)))
            }
            Place::Live(_) => Ok(None),
        };
        let Some(start) = live_part(top)?.map(|live| live.path) else { return Ok(None) };
        let mut search = LowerSearch { start, skip: Vec::new(), not_reported: HashSet::new() };
        let is_about_ignoring = |name: &[u8]| IgnoreRules::NAMES.contains(&name);
        // Each with whether the host directory has a part of its parent.
        let mut waiting = vec![(top, StorePath::empty(), true)];
        while let Some((node, path, is_parent_shared)) = waiting.pop() {
            let live = live_part(node)?;
            if live.as_ref().is_some_and(|live| !is_parent_shared || live.path != search.start.join(&path)) {
                return Ok(None);
            }
            let page = Page { limit: MAX_TAKEN, ..Page::ALL };
            let listing = self.upper.list(&NodePath::of_node(node), &page)?;
            if listing.more || live.as_ref().is_some_and(|live| live.taken.len() > MAX_TAKEN) {
                return Ok(None);
            }
            let entries = listing.entries;
            for entry in &entries {
                let path = path.child(entry.name.as_bytes());
                if is_about_ignoring(entry.name.as_bytes()) {
                    return Ok(None);
                } else if entry.attr.kind == NodeKind::Directory {
                    waiting.push((entry.attr.node, path, live.is_some()));
                } else if live.is_some() {
                    search.skip.push(path);
                }
            }
            if let Some(live) = live {
                let has = |name: &[u8]| entries.iter().any(|entry| entry.name.as_bytes() == name);
                for name in live.taken.iter().filter(|name| !has(name)) {
                    if is_about_ignoring(name) {
                        return Ok(None);
                    }
                    search.skip.push(path.child(name));
                }
                search.not_reported.insert(path);
            } else if is_parent_shared {
                search.skip.push(path);
            }
            if search.skip.len() + search.not_reported.len() + waiting.len() > MAX_TAKEN {
                return Ok(None);
            }
        }
        Ok(Some(search))
    }

    /// Searches what the fork has not taken over.
    fn grep_lower(
        &self,
        search: LowerSearch,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let LowerSearch { start, mut skip, not_reported } = search;
        skip.extend_from_slice(&grep.skip);
        let mut grep = grep.clone();
        grep.skip = skip;
        let lower = match self.lower.get() {
            Ok(lower) => lower,
            Err(error) => {
                grep.unreadable.add(StorePath::empty(), error);
                return Ok(());
            }
        };
        let searched = lower.grep(&NodePath::from_root(start.clone()), &grep, &mut |hits| {
            // The host may have a file now where the fork has a directory.
            if not_reported.contains(&hits.path) {
                return ControlFlow::Continue(());
            }
            let attr = hits.attr.map(|attr| self.live_attr(&start.join(&hits.path), attr));
            visit(FileHits { attr, ..hits })
        });
        match searched {
            // The host has no such directory any more.
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Ok(()),
            Err(error @ StoreError::HostDenied) => {
                grep.unreadable.add(StorePath::empty(), error);
                Ok(())
            }
            searched => searched,
        }
    }

    /// Searches a directory of the fork with several threads.
    fn grep_directories(
        &self,
        at: &NodePath,
        top: NodeId,
        searched: SearchedEntries,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let above = grep.ignore.as_ref().map(|ignore| ignore.above().clone()).unwrap_or_default();
        let (directory, path) = (DirectoryRef::Upper(top), StorePath::empty());
        let work = WorkQueue::new(SearchedDirectory { directory, path, above });
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, THREADS);
        let (sender, receiver) = sync_channel(256);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (work, sender) = (&work, sender.clone());
                scope.spawn(move || self.search_worker(work, at, searched, grep, &sender));
            }
            drop(sender);
            while let Ok(hits) = receiver.recv() {
                if visit(hits).is_break() {
                    work.stop();
                    break;
                }
            }
            // Without a receiver, a thread that waits to send its hits stops waiting.
            drop(receiver);
        });
        work.into_result()
    }

    /// The work of one search thread: takes directories from the queue until there are none.
    fn search_worker(
        &self,
        work: &WorkQueue<SearchedDirectory>,
        start: &NodePath,
        searched: SearchedEntries,
        grep: &Grep,
        sender: &SyncSender<FileHits>,
    ) {
        let mut searcher = grep.searcher();
        while let Some(directory) = work.next() {
            let next = (&directory, searched);
            if let Err(error) = self.search_directory(work, start, next, grep, &mut searcher, sender) {
                work.fail(error);
            }
            work.finish_directory();
        }
    }

    fn search_directory(
        &self,
        work: &WorkQueue<SearchedDirectory>,
        start: &NodePath,
        (directory, searched): (&SearchedDirectory, SearchedEntries),
        grep: &Grep,
        searcher: &mut GrepSearcher<'_>,
        sender: &SyncSender<FileHits>,
    ) -> StoreResult<()> {
        let SearchedDirectory { directory, path, above } = directory;
        let entries = match self.entries(directory) {
            // It was removed meanwhile.
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => return Ok(()),
            Err(error @ StoreError::Expired(_)) => return Err(error),
            Err(error) => {
                grep.unreadable.add(path.clone(), error);
                return Ok(());
            }
            Ok((entries, failure)) => {
                // Where the host directory searches itself, it says so itself.
                let failure = failure.filter(|_| searched == SearchedEntries::All);
                failure.into_iter().for_each(|error| grep.unreadable.add(path.clone(), error));
                entries
            }
        };
        let rules = self.directory_rules(start, grep.ignore.as_ref(), path, &entries, above);
        let mut batch = LiveBatch::default();
        let is_searched = |entry: &MergedEntry| searched == SearchedEntries::All || entry.live_path.is_none();
        for entry in entries.into_iter().filter(is_searched) {
            if work.is_stopped() {
                return Ok(());
            }
            if grep.should_stop() {
                return Err(search_timeout_error());
            }
            let path = path.child(entry.name.as_bytes());
            if grep.skips(&path) || grep.leaves_out(&rules, &path, entry.attr.kind) {
                continue;
            }
            if let Some(directory) = entry.directory() {
                work.add(SearchedDirectory { directory, path, above: rules.clone() });
            } else if entry.attr.kind == NodeKind::File
                && grep.matches(&path)
                && grep.accepts_size(&path, entry.attr.size)
            {
                if entry.live_path.is_some() && entry.attr.size <= MAX_IN_MEMORY {
                    batch.add(path, entry);
                    if batch.is_full() && self.search_batch(&mut batch, grep, searcher, sender).is_break() {
                        return Ok(());
                    }
                    continue;
                }
                let hits = self.search_file(&entry, searcher);
                if report(path, entry.attr, hits, grep, sender).is_break() {
                    return Ok(());
                }
            }
        }
        let _ = self.search_batch(&mut batch, grep, searcher, sender);
        Ok(())
    }

    /// Searches the files of a batch, which the host directory reads together.
    fn search_batch(
        &self,
        batch: &mut LiveBatch,
        grep: &Grep,
        searcher: &mut GrepSearcher<'_>,
        sender: &SyncSender<FileHits>,
    ) -> ControlFlow<()> {
        let LiveBatch { paths, files, .. } = std::mem::take(batch);
        if files.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut contents = match self.lower.get() {
            Ok(lower) => lower.read_many(&paths, MAX_IN_MEMORY).into_iter(),
            // Each of the files says why it can't be read.
            Err(_) => Vec::new().into_iter(),
        };
        for (path, entry) in files {
            let hits = match contents.next() {
                Some(Ok(content)) => Ok(searcher.search(&content.bytes)),
                Some(Err(error)) if !matches!(error, StoreError::TooLarge { .. }) => Err(error),
                // It has grown, or the directory can't be reached.
                _ => self.search_file(&entry, searcher),
            };
            report(path, entry.attr, hits, grep, sender)?;
        }
        ControlFlow::Continue(())
    }

    fn search_file(&self, entry: &MergedEntry, searcher: &mut GrepSearcher<'_>) -> StoreResult<Option<Hits>> {
        let lower;
        let (store, at): (&dyn Store, _) = match &entry.live_path {
            Some(path) => {
                lower = self.lower.get()?;
                (&*lower, NodePath::from_root(path.clone()))
            }
            None => (&self.upper, NodePath::of_node(entry.attr.node)),
        };
        match store.read(&at, MAX_IN_MEMORY) {
            Err(StoreError::TooLarge { .. }) => {
                let content = store.open(&at, OpenPurpose::Read)?;
                Ok(searcher.search_reader(ContentReader { content, at: 0 }))
            }
            content => Ok(searcher.search(&content?.bytes)),
        }
    }
}

/// An open file as a stream.
struct ContentReader {
    content: Box<dyn OpenContent>,
    at: u64,
}

impl io::Read for ContentReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read_at(self.at, buffer).map_err(io::Error::other)?;
        self.at += count as u64;
        Ok(count)
    }
}
