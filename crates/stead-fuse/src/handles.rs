//! Files and directories that are open.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use stead_core::Name;
use stead_core::vfs::OpenFile;
use stead_core::vfs::mounted::Looked;

/// A file that a program has open.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) ino: u64,
    pub(crate) file: OpenFile,
    /// Whether everything is written at the end.
    pub(crate) appends: bool,
}

/// A directory that a program reads.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) read: Mutex<Read>,
}

/// What was read of a directory. A program may go back to any entry that it has seen.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) entries: Vec<(Name, Looked)>,
    /// Where to go on, if there is more.
    pub(crate) next: Option<Name>,
}

/// All that is open.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    last: AtomicU64,
    files: RwLock<HashMap<u64, Arc<File>>>,
    directories: RwLock<HashMap<u64, Arc<Directory>>>,
}

impl Handles {
    fn fresh(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn add_file(&self, file: File) -> u64 {
        let handle = self.fresh();
        self.files.write().insert(handle, Arc::new(file));
        handle
    }

    pub(crate) fn file(&self, handle: u64) -> Option<Arc<File>> {
        self.files.read().get(&handle).cloned()
    }

    /// Some file of that number that is open.
    pub(crate) fn file_of(&self, ino: u64) -> Option<Arc<File>> {
        self.files.read().values().find(|file| file.ino == ino).cloned()
    }

    /// Files are few and looked through seldom: only where a name is gone, or a time is set.
    pub(crate) fn files_of(&self, ino: u64) -> Vec<Arc<File>> {
        self.files.read().values().filter(|file| file.ino == ino).cloned().collect()
    }

    pub(crate) fn remove_file(&self, handle: u64) -> Option<Arc<File>> {
        self.files.write().remove(&handle)
    }

    /// Everything that is open, at the end.
    pub(crate) fn take_files(&self) -> Vec<Arc<File>> {
        self.files.write().drain().map(|(_, file)| file).collect()
    }

    pub(crate) fn add_directory(&self, directory: Directory) -> u64 {
        let handle = self.fresh();
        self.directories.write().insert(handle, Arc::new(directory));
        handle
    }

    pub(crate) fn directory(&self, handle: u64) -> Option<Arc<Directory>> {
        self.directories.read().get(&handle).cloned()
    }

    pub(crate) fn remove_directory(&self, handle: u64) {
        self.directories.write().remove(&handle);
    }
}
