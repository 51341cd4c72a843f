//! Open files and directories.

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
    /// Whether it is open for writing.
    pub(crate) is_writable: bool,
    /// Whether all writes go to the end of the file.
    pub(crate) is_append: bool,
    /// Whether reads and writes bypass the kernel's page cache (direct I/O).
    pub(crate) is_direct: bool,
    /// What the kernel may have cached of its content.
    pub(crate) pages: Arc<PageCache>,
    pub(crate) using_threads: UsingThreads,
    /// Whether something was written through this handle that no close or fsync of it has committed.
    pub(crate) has_unfinished_write: AtomicBool,
}

/// The threads that have opened a file or written to it.
///
/// The kernel reports every close, also by a child process that inherited the file and never used it. Such a close must
/// not commit what the processes that use the file have written so far.
#[derive(Debug)]
pub(crate) struct UsingThreads(Mutex<Vec<u32>>);

impl UsingThreads {
    pub(crate) fn new(thread: u32) -> Self {
        UsingThreads(Mutex::new(vec![thread]))
    }

    /// Adds a thread that writes.
    pub(crate) fn add(&self, thread: u32) {
        let mut users = self.0.lock();
        if !users.contains(&thread) {
            users.push(thread);
        }
    }

    /// Whether a thread belongs to a process that has used the file. Returns true if that can't be found out.
    pub(crate) fn includes_process_of(&self, thread: u32) -> bool {
        let users = self.0.lock();
        if users.contains(&thread) {
            return true;
        }
        let Some(process) = process_of(thread) else { return true };
        users.iter().any(|user| process_of(*user) == Some(process))
    }
}

/// Threads that were told with ESTALE to look up the name of a removed file again.
///
/// A program that opens a removed file through `/proc/self/fd/N` means that file. A program that opens it by name means
/// the file that has the name now; the kernel only doesn't know yet that the name leads to another file. The kernel
/// doesn't say which of the two it is. On ESTALE, it resolves the same path again and looks up every name: a program
/// that used a name finds the other file, and only a program that means the removed file requests it again, with no
/// other lookup or open in between. Whatever else the thread requests therefore ends the retry: the number of the removed
/// file may later belong to another one.
#[derive(Debug, Default)]
pub(crate) struct Retries(Mutex<VecDeque<(u32, u64)>>);

impl Retries {
    /// Enough for the threads that open removed files at the same time.
    const MAX_RETRIES: usize = 64;

    /// Whether the mount has asked this thread to retry for this file, and it now does. If not, it is asked to.
    pub(crate) fn take_or_add(&self, thread: u32, ino: u64) -> bool {
        let mut retries = self.0.lock();
        if Self::take(&mut retries, thread) == Some(ino) {
            return true;
        }
        if retries.len() == Self::MAX_RETRIES {
            retries.pop_front();
        }
        retries.push_back((thread, ino));
        false
    }

    /// Call it when the thread looks up a name or opens a file that has one.
    pub(crate) fn end(&self, thread: u32) {
        Self::take(&mut self.0.lock(), thread);
    }

    fn take(retries: &mut VecDeque<(u32, u64)>, thread: u32) -> Option<u64> {
        let index = retries.iter().position(|retry| retry.0 == thread)?;
        retries.remove(index).map(|retry| retry.1)
    }
}

/// The process that a thread belongs to.
fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// An open directory.
#[derive(Debug, Default)]
pub(crate) struct OpenedDirectory {
    pub(crate) buffer: Mutex<DirectoryBuffer>,
}

/// The entries read from a directory so far. A program may go back to any entry that it has seen.
#[derive(Debug, Default)]
pub(crate) struct DirectoryBuffer {
    pub(crate) entries: Vec<(Name, Lookup)>,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<Name>,
    /// The adapter's change count when the first page was read; `read_at` is the time of that.
    pub(crate) change_count: u64,
    pub(crate) read_at: Option<Instant>,
}

/// All open files and directories.
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

    /// Any open file with this inode number.
    pub(crate) fn any_file_of(&self, ino: u64) -> Option<Arc<OpenedFile>> {
        self.files.read().values().find(|file| file.ino == ino).cloned()
    }

    /// All open files with this inode number. It is a linear search, but files are few, and it is needed only after a
    /// removal, on close, or when a size or time is set.
    pub(crate) fn files_of(&self, ino: u64) -> Vec<Arc<OpenedFile>> {
        self.files.read().values().filter(|file| file.ino == ino).cloned().collect()
    }

    pub(crate) fn remove_file(&self, handle: u64) -> Option<Arc<OpenedFile>> {
        self.files.write().remove(&handle)
    }

    /// Removes all open files from the table, at the end of the mount.
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
        assert!(!retries.take_or_add(1, 10));
        assert!(!retries.take_or_add(2, 10), "another thread");
        assert!(retries.take_or_add(1, 10));
        assert!(!retries.take_or_add(1, 10), "the next attempt may use a name");
        assert!(!retries.take_or_add(1, 11), "another file");
        assert!(!retries.take_or_add(1, 10), "it has asked for another file since");
        retries.end(1);
        assert!(!retries.take_or_add(1, 10), "it has looked up a name since");
        assert!(retries.take_or_add(2, 10), "another thread has looked up a name");
        for thread in 100..200 {
            assert!(!retries.take_or_add(thread, 10));
        }
        assert_eq!(retries.0.lock().len(), Retries::MAX_RETRIES);
    }

    #[test]
    fn threads_of_one_process_are_one_user() {
        let (own_process, parent_process) = (std::process::id(), std::os::unix::process::parent_id());
        let users = UsingThreads::new(own_process);
        assert!(users.includes_process_of(own_process));
        assert!(!users.includes_process_of(parent_process));
        let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let thread = thread.join().unwrap();
        users.add(thread);
        assert!(users.includes_process_of(thread));
        assert!(
            users.includes_process_of(u32::MAX),
            "a thread that doesn't exist any more has to count as included"
        );
    }
}
