//! Files and directories that are open.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use stead_core::Name;
use stead_core::vfs::OpenFile;
use stead_core::vfs::node_api::Lookup;

use crate::linux::page_cache::PageCache;

/// A file that a program has open.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) ino: u64,
    pub(crate) file: OpenFile,
    /// Whether it was opened for writing.
    pub(crate) is_writable: bool,
    /// Whether everything is written at the end.
    pub(crate) is_append: bool,
    /// Whether it is read and written past the kernel's pages.
    pub(crate) is_direct: bool,
    /// What the kernel may have of its content.
    pub(crate) pages: Arc<PageCache>,
    pub(crate) using_threads: UsingThreads,
    /// Whether something was written through it that it has not made a change of.
    pub(crate) is_unfinished: AtomicBool,
}

/// The threads that have opened a file or written to it.
///
/// The kernel tells of every close, also by a child that was born with the file and never used it. That is no close to
/// whoever uses it.
#[derive(Debug)]
pub(crate) struct UsingThreads(Mutex<Vec<u32>>);

impl UsingThreads {
    pub(crate) fn new(thread: u32) -> Self {
        UsingThreads(Mutex::new(vec![thread]))
    }

    /// A thread writes.
    pub(crate) fn add(&self, thread: u32) {
        let mut users = self.0.lock();
        if !users.contains(&thread) {
            users.push(thread);
        }
    }

    /// Whether a thread belongs to a process that has used the file. Where that can't be known, it does.
    pub(crate) fn includes_process_of(&self, thread: u32) -> bool {
        let users = self.0.lock();
        if users.contains(&thread) {
            return true;
        }
        let Some(process) = process_of(thread) else { return true };
        users.iter().any(|user| process_of(*user) == Some(process))
    }
}

/// Threads that were asked to look a removed file's name up again.
///
/// A program that opens a removed file by `/proc/self/fd/N` means that file. A program that opens it by a name means
/// whatever has the name now: the kernel has not heard yet that the name leads to another file. The kernel does not say
/// which of the two it is. On ESTALE it goes the same way once more and looks every name up again: a program that went by a
/// name finds the other file, and only one that means the removed file comes back for it.
#[derive(Debug, Default)]
pub(crate) struct Retries(Mutex<VecDeque<(u32, u64)>>);

impl Retries {
    /// As many as there are threads that open removed files at the same moment.
    const REMEMBERED: usize = 64;

    /// Whether this thread comes back for a file. If not, it is expected to.
    pub(crate) fn comes_back(&self, thread: u32, ino: u64) -> bool {
        let mut retries = self.0.lock();
        if let Some(place) = retries.iter().position(|retry| *retry == (thread, ino)) {
            retries.remove(place);
            return true;
        }
        if retries.len() == Self::REMEMBERED {
            retries.pop_front();
        }
        retries.push_back((thread, ino));
        false
    }
}

/// The process that a thread belongs to.
fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// A directory that a program reads.
#[derive(Debug, Default)]
pub(crate) struct OpenedDirectory {
    pub(crate) buffer: Mutex<DirectoryBuffer>,
}

/// What was read of a directory. A program may go back to any entry that it has seen.
#[derive(Debug, Default)]
pub(crate) struct DirectoryBuffer {
    pub(crate) entries: Vec<(Name, Lookup)>,
    /// Where to go on, if there is more.
    pub(crate) next: Option<Name>,
    /// How much had changed when it was read, and when that was.
    pub(crate) change_count: u64,
    pub(crate) read_at: Option<Instant>,
}

/// All that is open.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    last_handle: AtomicU64,
    files: RwLock<HashMap<u64, Arc<OpenedFile>>>,
    directories: RwLock<HashMap<u64, Arc<OpenedDirectory>>>,
}

impl Handles {
    fn next_handle(&self) -> u64 {
        self.last_handle.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn add_file(&self, file: OpenedFile) -> u64 {
        let handle = self.next_handle();
        self.files.write().insert(handle, Arc::new(file));
        handle
    }

    pub(crate) fn file(&self, handle: u64) -> Option<Arc<OpenedFile>> {
        self.files.read().get(&handle).cloned()
    }

    /// Some file of that number that is open.
    pub(crate) fn any_file_of(&self, ino: u64) -> Option<Arc<OpenedFile>> {
        self.files.read().values().find(|file| file.ino == ino).cloned()
    }

    /// Files are few and looked through seldom: only where a name is gone, or a size or a time is set.
    pub(crate) fn files_of(&self, ino: u64) -> Vec<Arc<OpenedFile>> {
        self.files.read().values().filter(|file| file.ino == ino).cloned().collect()
    }

    pub(crate) fn remove_file(&self, handle: u64) -> Option<Arc<OpenedFile>> {
        self.files.write().remove(&handle)
    }

    /// Everything that is open, at the end.
    pub(crate) fn take_files(&self) -> Vec<Arc<OpenedFile>> {
        self.files.write().drain().map(|(_, file)| file).collect()
    }

    pub(crate) fn add_directory(&self, directory: OpenedDirectory) -> u64 {
        let handle = self.next_handle();
        self.directories.write().insert(handle, Arc::new(directory));
        handle
    }

    pub(crate) fn directory(&self, handle: u64) -> Option<Arc<OpenedDirectory>> {
        self.directories.read().get(&handle).cloned()
    }

    pub(crate) fn remove_directory(&self, handle: u64) {
        self.directories.write().remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_opens_a_removed_file_at_its_second_attempt() {
        let retries = Retries::default();
        assert!(!retries.comes_back(1, 10));
        assert!(!retries.comes_back(2, 10), "another thread");
        assert!(!retries.comes_back(1, 11), "another file");
        assert!(retries.comes_back(1, 10));
        assert!(!retries.comes_back(1, 10), "the next time it may go by a name");
        for thread in 100..200 {
            assert!(!retries.comes_back(thread, 10));
        }
        assert_eq!(retries.0.lock().len(), Retries::REMEMBERED);
    }

    #[test]
    fn threads_of_one_process_are_one_user() {
        let (own, other) = (std::process::id(), std::os::unix::process::parent_id());
        let users = UsingThreads::new(own);
        assert!(users.includes_process_of(own));
        assert!(!users.includes_process_of(other));
        let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let thread = thread.join().unwrap();
        users.add(thread);
        assert!(users.includes_process_of(thread));
        assert!(users.includes_process_of(u32::MAX), "one that nobody knows any more");
    }
}
