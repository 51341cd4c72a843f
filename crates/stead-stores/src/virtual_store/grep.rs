//! Searches content: first the files are found, then each distinct content is read once, in the order in which the
//! database stores them, and its hits are delivered for every file with that content.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use blake3::Hash;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use stead_core::StoreError;
use stead_core::glob::PathGlobs;
use stead_core::search::{FileHits, Grep, GrepSearcher, Hits};
use stead_core::store::{NodePath, StorePath};

use crate::database::error::{DatabaseError, Result, corrupt};
use crate::virtual_store::VirtualStore;
use crate::virtual_store::content;
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
use crate::virtual_store::walk::{LoadedTree, Visited, WalkBounds};

/// How many contents are searched before the connection is returned, so that a long search doesn't block other readers
/// or the checkpoint of the write-ahead log.
const CONTENTS_PER_PIECE: usize = 256;
/// With fewer contents than this, a second thread isn't worth starting.
const MIN_CONTENTS_FOR_THREAD: usize = 2 * CONTENTS_PER_PIECE;

/// A file to be searched.
struct Candidate {
    content: i64,
    path: StorePath,
    row: EntryRow,
}

/// A running search, shared by its threads.
struct GrepScan<'a> {
    store: &'a VirtualStore,
    grep: &'a Grep,
    /// Sorted by content.
    candidates: &'a [Candidate],
    /// One range of candidates for each distinct content.
    contents: &'a [Range<usize>],
    next: AtomicUsize,
    stop: AtomicBool,
}

impl VirtualStore {
    pub(super) fn grep_at(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut candidates = self.candidates(at, grep)?;
        candidates.sort_unstable_by_key(|candidate| candidate.content);
        let mut start = 0;
        let contents: Vec<_> = candidates
            .chunk_by(|first, second| first.content == second.content)
            .map(|group| {
                let range = start..start + group.len();
                start = range.end;
                range
            })
            .collect();
        let scan = GrepScan {
            store: self,
            grep,
            candidates: &candidates,
            contents: &contents,
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        };
        let (sender, receiver) = channel();
        thread::scope(|threads| {
            if contents.len() >= MIN_CONTENTS_FOR_THREAD && !self.database_inner().is_in_memory() {
                let (scan, sender) = (&scan, sender.clone());
                threads.spawn(move || scan.run_helper(&sender));
            }
            drop(sender);
            let result = scan.run_on_caller(&mut || receiver.try_recv().ok(), visit);
            let result = result.and_then(|()| {
                // Hits of the helper thread that are still to come.
                receiver.iter().try_for_each(|hits| scan.deliver(hits?, visit))
            });
            scan.stop.store(true, Ordering::Relaxed);
            result
        })
    }

    /// Finds the files to be searched, in one snapshot. Files whose content isn't stored are added to `unreadable`.
    fn candidates(&self, at: &NodePath, grep: &Grep) -> Result<Vec<Candidate>> {
        let ending = grep.include.as_ref().map_or(&b""[..], PathGlobs::name_suffix);
        let bounds = WalkBounds {
            depth: usize::MAX,
            skip: &grep.skip,
            ending,
            ignore: grep.ignore.as_ref(),
            deadline: Some(grep.deadline),
        };
        let mut candidates = Vec::new();
        let loaded = self.read_transaction(|snapshot| {
            let row = snapshot.find_followed(at)?;
            if row.is_directory() {
                return LoadedTree::load(snapshot, row.node, &bounds).map(Some);
            }
            if row.content.is_none() && row.size > 0 {
                grep.unreadable.add(StorePath::empty(), content::content_not_kept_error());
            }
            let is_searched = grep.accepts_size(&StorePath::empty(), row.size.cast_unsigned());
            let content = row.content.filter(|_| is_searched).into_iter();
            candidates.extend(content.map(|content| Candidate { content, path: StorePath::empty(), row }));
            Ok(None)
        })?;
        if let Some(loaded) = loaded {
            loaded.visit(grep.hide.as_ref(), &mut |path, visited| {
                let row = match visited {
                    Visited::Entry(row) => row,
                    Visited::LeftOut(row, reason) => {
                        grep.note_left_out(&StorePath::from_checked(path), row.kind.to_kind(), reason);
                        return ControlFlow::Continue(());
                    }
                };
                if row.kind == EntryKind::File && row.size > 0 {
                    let path = StorePath::from_checked(path);
                    match row.content {
                        _ if !grep.matches(&path) || !grep.accepts_size(&path, row.size.cast_unsigned()) => {}
                        Some(content) => candidates.push(Candidate { content, path, row: *row }),
                        None => grep.unreadable.add(path, content::content_not_kept_error()),
                    }
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(candidates)
    }
}

type PieceHits = Result<Vec<(usize, Hits)>>;

impl GrepScan<'_> {
    /// Searches piece by piece on the caller's thread, and delivers the hits of both threads.
    fn run_on_caller(
        &self,
        next_helper_hits: &mut dyn FnMut() -> Option<PieceHits>,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut searcher = self.grep.searcher();
        while let Some(piece) = self.next_piece() {
            let hits = self.search(piece, &mut searcher)?;
            self.deliver(hits, visit)?;
            while let Some(hits) = next_helper_hits() {
                self.deliver(hits?, visit)?;
            }
        }
        Ok(())
    }

    /// Searches piece by piece on the helper thread.
    fn run_helper(&self, sender: &Sender<PieceHits>) {
        let mut searcher = self.grep.searcher();
        while let Some(piece) = self.next_piece() {
            let hits = self.search(piece, &mut searcher);
            let failed = hits.is_err();
            if sender.send(hits).is_err() || failed {
                break;
            }
        }
    }

    fn next_piece(&self) -> Option<Range<usize>> {
        let begin = self.next.fetch_add(1, Ordering::Relaxed) * CONTENTS_PER_PIECE;
        let end = (begin + CONTENTS_PER_PIECE).min(self.contents.len());
        (begin < end && !self.stop.load(Ordering::Relaxed)).then_some(begin..end)
    }

    /// Passes hits to the visitor, once for every file with that content.
    fn deliver(
        &self,
        hits: Vec<(usize, Hits)>,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> Result<()> {
        for (content, hits) in hits {
            for candidate in &self.candidates[self.contents[content].clone()] {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let attr = Some(candidate.row.attr());
                let hits = FileHits { path: candidate.path.clone(), attr, hits: hits.clone() };
                if visit(hits).is_break() {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Adds the files with a damaged content to `unreadable`. The search continues with the other files.
    fn note_damaged(&self, content: usize, message: &str) {
        for candidate in &self.candidates[self.contents[content].clone()] {
            self.grep.unreadable.add(candidate.path.clone(), StoreError::Corrupt(message.to_owned()));
        }
    }

    fn content_id(&self, content: usize) -> i64 {
        self.candidates[self.contents[content].start].content
    }

    /// Searches a range of contents in one read transaction.
    fn search(&self, piece: Range<usize>, searcher: &mut GrepSearcher<'_>) -> PieceHits {
        let reader = self.store.database_inner().reader()?;
        let _transaction = reader.unchecked_transaction()?;
        let (first, last) = (self.content_id(piece.start), self.content_id(piece.end - 1));
        let mut hits = Vec::new();
        let mut search_content = |content: usize, row: &rusqlite::Row<'_>| -> Result<()> {
            if self.grep.should_stop() {
                self.stop.store(true, Ordering::Relaxed);
                return Err(StoreError::unavailable(
                    "the search took too long; use a narrower path or pattern",
                )
                .into());
            }
            let size = self.candidates[self.contents[content].start].row.size;
            match search_row(&reader, row, size, searcher) {
                Ok(found) => hits.extend(found.map(|found| (content, found))),
                Err(DatabaseError::Store(StoreError::Corrupt(message))) => {
                    self.note_damaged(content, &message)
                }
                Err(error) => return Err(error),
            }
            Ok(())
        };
        // Contents that were written together have adjacent ids: one scan over all of them is faster than a look-up for
        // each.
        if last - first < 2 * piece.len() as i64 {
            let mut statement = reader.prepare_cached(
                "SELECT id, parts, hash, data FROM content WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
            )?;
            let mut rows = statement.query([first, last])?;
            let mut remaining = piece.peekable();
            while let Some(row) = rows.next()? {
                let id: i64 = row.get(0)?;
                if let Some(content) = remaining.next_if(|&content| self.content_id(content) == id) {
                    search_content(content, row)?;
                }
            }
            if remaining.peek().is_some() {
                return Err(corrupt("the content of a file is missing"));
            }
        } else {
            let mut statement =
                reader.prepare_cached("SELECT id, parts, hash, data FROM content WHERE id = ?1")?;
            for content in piece {
                let mut rows = statement.query([self.content_id(content)])?;
                let row = rows.next()?.ok_or_else(|| corrupt("the content of a file is missing"))?;
                search_content(content, row)?;
            }
        }
        Ok(hits)
    }
}

/// Searches a content: in place if it is one blob, and otherwise as a stream of its chunks.
fn search_row(
    conn: &Connection,
    row: &rusqlite::Row<'_>,
    size: i64,
    searcher: &mut GrepSearcher<'_>,
) -> Result<Option<Hits>> {
    match row.get_ref(3)? {
        ValueRef::Blob(bytes) => {
            content::check_hash(row.get_ref(2)?, bytes)?;
            Ok(searcher.search(bytes))
        }
        _ => {
            let layout = content::chunk_layout(row.get_ref(1)?, row.get_ref(2)?, size)?;
            let mut chunks = ChunkReader {
                conn,
                hashes: Vec::with_capacity(layout.chunk_ids.len()),
                remaining: layout.chunk_ids.into_iter(),
                chunk: Vec::new(),
                read: 0,
                failure: None,
            };
            let hits = searcher.search_reader(&mut chunks);
            if let Some(error) = chunks.failure {
                return Err(error);
            }
            // A search that ended early has not read all chunks.
            if let (Some(list), true) = (layout.list_hash, chunks.remaining.len() == 0) {
                content::check_list(list, chunks.hashes.into_iter())?;
            }
            Ok(hits)
        }
    }
}

/// Reads content in chunks as a stream.
struct ChunkReader<'c> {
    conn: &'c Connection,
    remaining: std::vec::IntoIter<i64>,
    hashes: Vec<Hash>,
    chunk: Vec<u8>,
    read: usize,
    failure: Option<DatabaseError>,
}

impl io::Read for ChunkReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.chunk.len() {
            let Some(id) = self.remaining.next() else { return Ok(0) };
            let (chunk, hashes) = (&mut self.chunk, &mut self.hashes);
            let loaded = content::with_hashed(self.conn, id, |bytes, hash| {
                chunk.clear();
                chunk.extend_from_slice(bytes);
                hashes.push(hash);
            });
            if let Err(error) = loaded {
                self.failure = Some(error);
                return Err(io::ErrorKind::Other.into());
            }
            self.read = 0;
        }
        let length = buffer.len().min(self.chunk.len() - self.read);
        buffer[..length].copy_from_slice(&self.chunk[self.read..self.read + length]);
        self.read += length;
        Ok(length)
    }
}
