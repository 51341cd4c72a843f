//! Searches the fork's own files and the host directory together, with several threads.

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{SyncSender, sync_channel};

use stead_core::search::{DirectoryRules, FileHits, Grep, GrepSearcher, Hits};
use stead_core::store::{Attr, NodeKind, NodePath, OpenContent, OpenPurpose, StorePath};
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

/// A directory below the start of a search.
struct SearchedDirectory {
    directory: DirectoryRef,
    path: StorePath,
    /// The ignore rules of its parent.
    above: DirectoryRules,
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
        let above = grep.ignore.as_ref().map(|ignore| ignore.above().clone()).unwrap_or_default();
        let (directory, path) = (DirectoryRef::Upper(top), StorePath::empty());
        let work = WorkQueue::new(SearchedDirectory { directory, path, above });
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, THREADS);
        let (sender, receiver) = sync_channel(256);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (work, sender) = (&work, sender.clone());
                scope.spawn(move || self.search_worker(work, at, grep, &sender));
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
        grep: &Grep,
        sender: &SyncSender<FileHits>,
    ) {
        let mut searcher = grep.searcher();
        while let Some(directory) = work.next() {
            if let Err(error) = self.search_directory(work, start, &directory, grep, &mut searcher, sender) {
                work.fail(error);
            }
            work.finish_directory();
        }
    }

    fn search_directory(
        &self,
        work: &WorkQueue<SearchedDirectory>,
        start: &NodePath,
        searched: &SearchedDirectory,
        grep: &Grep,
        searcher: &mut GrepSearcher<'_>,
        sender: &SyncSender<FileHits>,
    ) -> StoreResult<()> {
        let SearchedDirectory { directory, path, above } = searched;
        let entries = match self.entries(directory) {
            // It was removed meanwhile.
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => return Ok(()),
            Err(error @ StoreError::Expired(_)) => return Err(error),
            Err(error) => {
                grep.unreadable.add(path.clone(), error);
                return Ok(());
            }
            Ok((entries, failure)) => {
                failure.into_iter().for_each(|error| grep.unreadable.add(path.clone(), error));
                entries
            }
        };
        let rules = self.directory_rules(start, grep.ignore.as_ref(), path, &entries, above);
        let mut batch = LiveBatch::default();
        for entry in entries {
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
