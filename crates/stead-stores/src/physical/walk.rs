//! Visits everything below a directory: in order, or with several threads for a content search.
//!
//! Each directory is open only while it is read, and is opened by its path below the start of the walk. So a deep tree
//! needs no more file descriptors than a flat one.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use stead_core::search::{
    DirectoryRules, FileHits, Grep, GrepSearcher, IgnoreRules, MAX_IGNORE_FILE, UnreadablePaths, WalkOptions,
};
use stead_core::store::{NodeKind, NodePath, StoreError, StorePath, StoreResult, WalkEntry};

use super::PhysicalStore;
use super::draft::read_full;
use super::host::{Errno, HostStat, OpenMode, errno_to_store_error};
use super::mask::join;
use super::root::Dir;
use super::slot::{LookupPurpose, open_regular};
use super::tree;
use crate::work_queue::WorkQueue;

/// Files up to this size in bytes are searched in memory.
const MAX_IN_MEMORY: u64 = 8 << 20;
/// How many threads search at most.
const THREADS: usize = 8;

/// A directory below the start of a search, and the ignore rules of its parent.
type SearchedDirectory = (StorePath, DirectoryRules);

fn search_timeout_error() -> StoreError {
    StoreError::unavailable("the search took too long; use a narrower path or pattern")
}

/// Opens a directory below the start of a walk. `None` if the walk goes on without it: it vanished, became something
/// else, lies on another mount, or the host denies access. The last two are added to `unreadable`.
fn enter(top: &Dir, path: &[u8], unreadable: &UnreadablePaths) -> StoreResult<Option<Dir>> {
    match top.enter(path, OpenMode::Directory) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error @ (Errno::XDEV | Errno::ACCESS | Errno::PERM)) => {
            unreadable.add(StorePath::from_checked(path), errno_to_store_error(error));
            Ok(None)
        }
        Err(error) => Err(errno_to_store_error(error)),
    }
}

/// The ignore rules in a directory below the start of a walk, `above` being those of its parent.
fn directory_rules(
    ignore: Option<&IgnoreRules>,
    above: &DirectoryRules,
    top: &Dir,
    directory: &StorePath,
    names: &[(Box<[u8]>, NodeKind)],
) -> DirectoryRules {
    let Some(ignore) = ignore else { return DirectoryRules::default() };
    let names = names.iter().map(|(name, kind)| (&**name, *kind));
    ignore.enter(above, directory, names, |path| read_ignore_file(top, path))
}

/// Reads an ignore file below the start of a walk. Like git, it follows no symlink.
fn read_ignore_file(top: &Dir, path: &StorePath) -> StoreResult<Vec<u8>> {
    let (parent, name) = path.parent_and_name().ok_or(StoreError::NotFound)?;
    let dir = match top.enter(parent, OpenMode::Directory) {
        Err(Errno::LOOP) => return Err(StoreError::NotFound),
        dir => dir.map_err(errno_to_store_error)?,
    };
    if dir.stat_at(name).map_err(errno_to_store_error)?.kind != NodeKind::File {
        return Err(StoreError::NotFound);
    }
    let (file, stat) = open_regular(&dir, name, OpenMode::Read)?;
    if stat.size > MAX_IGNORE_FILE {
        return Err(StoreError::TooLarge { size: stat.size, limit: MAX_IGNORE_FILE });
    }
    let mut content = vec![0; usize::try_from(stat.size).unwrap_or(0)];
    let length = read_full(&file, 0, &mut content)?;
    content.truncate(length);
    Ok(content)
}

impl PhysicalStore {
    pub(super) fn walk_below(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let located = self.locate(at, LookupPurpose::Find)?;
        let top = self.open_directory(&located)?;
        let above = walk.ignore.as_ref().map(|ignore| ignore.above().clone()).unwrap_or_default();
        // The entries that are still to be visited, the next one last, each with the ignore rules of its directory.
        let mut waiting = Vec::new();
        let add_directory = |waiting: &mut Vec<_>, dir: &Dir, path: &StorePath, above: &DirectoryRules| {
            let (entries, rules) = self.read_directory(&top, dir, &located.full_path, path, walk, above)?;
            waiting.extend(entries.into_iter().rev().map(|entry| (entry, rules.clone())));
            Ok::<_, StoreError>(())
        };
        if walk.depth > 0 {
            add_directory(&mut waiting, &top, &StorePath::empty(), &above)?;
        }
        while let Some((found, rules)) = waiting.pop() {
            if walk.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(search_timeout_error());
            }
            let path = found.path.clone();
            let should_enter = found.attr.kind == NodeKind::Directory && walk.enters(&path);
            if walk.matches(&path) && visit(found).is_break() {
                return Ok(());
            }
            if should_enter {
                let Some(dir) = enter(&top, path.as_bytes(), &walk.unreadable)? else { continue };
                add_directory(&mut waiting, &dir, &path, &rules)?;
            }
        }
        Ok(())
    }

    /// Returns the entries of one directory, sorted: those that the walk matches or enters. Also returns the ignore rules
    /// that hold in it, `above` being those of its parent.
    fn read_directory(
        &self,
        top: &Dir,
        dir: &Dir,
        base: &[u8],
        directory: &StorePath,
        walk: &WalkOptions,
        above: &DirectoryRules,
    ) -> StoreResult<(Vec<WalkEntry>, DirectoryRules)> {
        let mut names = tree::names_where(dir, |name| walk.loads_name(name)).map_err(errno_to_store_error)?;
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let rules = directory_rules(walk.ignore.as_ref(), above, top, directory, &names);
        let path = directory.as_bytes();
        let dir_path = join(base, path);
        let mut entries = Vec::with_capacity(names.len());
        for (name, kind) in names {
            if self.mask.hides_entry(&dir_path, &name) {
                if walk.report_hidden && self.mask.is_other_steads_state(&dir_path, &name) {
                    let path = StorePath::from_checked(join(path, &name));
                    let protected_error = StoreError::Protected { path: path.to_string() };
                    walk.unreadable.add(path, protected_error);
                }
                continue;
            }
            let path = StorePath::from_checked(join(path, &name));
            let is_visited = || kind == NodeKind::Directory || walk.matches(&path);
            if walk.skips(&path) || !is_visited() || walk.leaves_out(&rules, &path, kind) {
                continue;
            }
            match dir.stat_at(&name) {
                Ok(stat) => {
                    self.node_path_table.remember(stat.ino, &join(&dir_path, &name));
                    entries.push(WalkEntry { path, attr: stat.attr() });
                }
                // The directory may be listed, but its entries may not be reached.
                Err(Errno::ACCESS) => walk.unreadable.add(path, StoreError::HostDenied),
                // An entry that vanished meanwhile is left out.
                Err(_) => {}
            }
        }
        Ok((entries, rules))
    }

    pub(super) fn grep_below(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let located = self.locate(at, LookupPurpose::Find)?;
        let top = match self.open_directory(&located) {
            Ok(dir) => dir,
            Err(StoreError::NotADirectory) => {
                let (file, stat) = self.open_file(&located)?;
                let path = StorePath::empty();
                if grep.accepts_size(&path, stat.size)
                    && let Some(hits) =
                        search_file(&file, &stat, &path, &mut grep.searcher(), &mut Vec::new())
                {
                    let _ = visit(hits);
                }
                return if grep.should_stop() { Err(search_timeout_error()) } else { Ok(()) };
            }
            Err(error) => return Err(error),
        };
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, THREADS);
        let above = grep.ignore.as_ref().map(|ignore| ignore.above().clone()).unwrap_or_default();
        let work = WorkQueue::new((StorePath::empty(), above));
        let (sender, receiver) = sync_channel(256);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (work, top, sender, full_path) = (&work, &top, sender.clone(), &located.full_path);
                scope.spawn(move || self.search_worker(work, top, full_path, grep, &sender));
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
        top: &Dir,
        base: &[u8],
        grep: &Grep,
        sender: &SyncSender<FileHits>,
    ) {
        let mut searcher = grep.searcher();
        let mut buffer = Vec::new();
        while let Some(directory) = work.next() {
            let searched =
                self.search_dir(work, top, base, &directory, grep, &mut searcher, &mut buffer, sender);
            if let Err(error) = searched {
                work.fail(error);
            }
            work.finish_directory();
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one thread's state, passed on in one place")]
    fn search_dir(
        &self,
        work: &WorkQueue<SearchedDirectory>,
        top: &Dir,
        base: &[u8],
        (directory, above): &SearchedDirectory,
        grep: &Grep,
        searcher: &mut GrepSearcher<'_>,
        buffer: &mut Vec<u8>,
        sender: &SyncSender<FileHits>,
    ) -> StoreResult<()> {
        let path = directory.as_bytes();
        let Some(dir) = enter(top, path, &grep.unreadable)? else { return Ok(()) };
        let dir_path = join(base, path);
        let names = tree::names(&dir).map_err(errno_to_store_error)?;
        let rules = directory_rules(grep.ignore.as_ref(), above, top, directory, &names);
        for (name, kind) in names {
            if work.is_stopped() {
                return Ok(());
            }
            if grep.should_stop() {
                return Err(search_timeout_error());
            }
            if self.mask.hides_entry(&dir_path, &name) {
                continue;
            }
            let path = StorePath::from_checked(join(path, &name));
            if grep.skips(&path) || grep.leaves_out(&rules, &path, kind) {
                continue;
            }
            match kind {
                NodeKind::Directory => work.add((path, rules.clone())),
                NodeKind::File if grep.matches(&path) => {
                    let (file, stat) = match open_regular(&dir, &name, OpenMode::Read) {
                        Ok(opened) => opened,
                        Err(StoreError::HostDenied) => {
                            grep.unreadable.add(path, StoreError::HostDenied);
                            continue;
                        }
                        Err(_) => continue,
                    };
                    if grep.accepts_size(&path, stat.size)
                        && let Some(hits) = search_file(&file, &stat, &path, searcher, buffer)
                        && sender.send(hits).is_err()
                    {
                        return Ok(());
                    }
                }
                NodeKind::File | NodeKind::Symlink | NodeKind::Special(_) => {}
            }
        }
        Ok(())
    }
}

/// Searches one open file.
fn search_file(
    file: &File,
    stat: &HostStat,
    path: &StorePath,
    searcher: &mut GrepSearcher<'_>,
    buffer: &mut Vec<u8>,
) -> Option<FileHits> {
    let hits = if stat.size > MAX_IN_MEMORY {
        searcher.search_reader(FileSlice { file, at: 0, end: stat.size })
    } else {
        let size = usize::try_from(stat.size).ok()?;
        buffer.resize(buffer.len().max(size), 0);
        let filled = read_full(file, 0, &mut buffer[..size]).ok()?;
        searcher.search(&buffer[..filled])
    }?;
    Some(FileHits { path: path.clone(), attr: Some(stat.attr()), hits })
}

/// A large file, up to the length that it had when it was opened.
struct FileSlice<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for FileSlice<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..length], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
