//! Actors: a program that works below a directory, or an agent's tools.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use stead::vfs::{OpenFile, Overwrite};
use stead::{Config, Stead};

/// Something that changes and reads files.
pub(super) enum Actor {
    /// A program that works below a directory.
    Program(PathBuf),
    /// An agent's tools, and the Workspace that they are used in.
    Tool(Box<Stead>, String),
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Actor::Program(directory) => write!(f, "a program in {}", directory.display()),
            Actor::Tool(_, workspace) => write!(f, "a tool in {workspace}"),
        }
    }
}

/// A file that stays open for writing.
pub(super) enum OpenHandle {
    Program(File),
    Tool(Box<OpenFile>),
}

impl Actor {
    pub(super) fn tool(config: &Path, workspace: &str) -> Self {
        let stead = Stead::open(&Config::load(config).unwrap(), "coder").unwrap();
        Actor::Tool(Box::new(stead), format!("/{workspace}"))
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        match self {
            Actor::Program(directory) => Some(directory.join(name)),
            Actor::Tool(..) => None,
        }
    }

    /// Creates a file with this content, or replaces its content.
    pub(super) fn write(&self, name: &str, content: &[u8]) {
        match self {
            Actor::Program(directory) => fs::write(directory.join(name), content).unwrap(),
            Actor::Tool(stead, prefix) => {
                stead.vfs().write(format!("{prefix}/{name}"), content).unwrap();
            }
        }
    }

    /// Replaces a file in one step.
    pub(super) fn replace(&self, name: &str, temporary_name: &str, content: &[u8]) {
        match self {
            Actor::Program(directory) => {
                fs::write(directory.join(temporary_name), content).unwrap();
                retry_if_stale(|| fs::rename(directory.join(temporary_name), directory.join(name)));
            }
            Actor::Tool(stead, prefix) => {
                self.write(temporary_name, content);
                let (from, to) = (format!("{prefix}/{temporary_name}"), format!("{prefix}/{name}"));
                stead.vfs().rename(from, to, Overwrite::Replace).unwrap();
            }
        }
    }

    /// Opens a file for appending, appends and closes it.
    pub(super) fn append(&self, name: &str, line: &[u8]) {
        match self {
            Actor::Program(directory) => {
                let mut file = OpenOptions::new().append(true).open(directory.join(name)).unwrap();
                file.write_all(line).unwrap();
            }
            Actor::Tool(stead, prefix) => {
                stead.vfs().append(format!("{prefix}/{name}"), line).unwrap();
            }
        }
    }

    /// Opens a file for reading and writing.
    pub(super) fn open(&self, name: &str) -> OpenHandle {
        match self {
            Actor::Program(directory) => {
                let path = directory.join(name);
                OpenHandle::Program(retry_if_stale(|| OpenOptions::new().read(true).write(true).open(&path)))
            }
            Actor::Tool(stead, prefix) => {
                let path = format!("{prefix}/{name}");
                let options = stead::vfs::OpenOptions::read_write();
                OpenHandle::Tool(Box::new(stead.vfs().open(path, options).unwrap()))
            }
        }
    }

    /// Opens a file and reads all of it.
    pub(super) fn read(&self, name: &str) -> Vec<u8> {
        match self {
            Actor::Program(directory) => {
                let mut content = Vec::new();
                let mut file = retry_if_stale(|| File::open(directory.join(name)));
                file.read_to_end(&mut content).unwrap();
                content
            }
            Actor::Tool(stead, prefix) => {
                let path = format!("{prefix}/{name}");
                let file = stead.vfs().open(path, stead::vfs::OpenOptions::read()).unwrap();
                let mut content = vec![0; usize::try_from(file.size()).unwrap()];
                let count = file.read_at(0, &mut content).unwrap();
                content.truncate(count);
                content
            }
        }
    }
}

impl OpenHandle {
    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) {
        match self {
            OpenHandle::Program(file) => file.write_all_at(bytes, offset).unwrap(),
            OpenHandle::Tool(file) => file.write_at(offset, bytes).unwrap(),
        }
    }

    pub(super) fn set_size(&self, size: u64) {
        match self {
            OpenHandle::Program(file) => file.set_len(size).unwrap(),
            OpenHandle::Tool(file) => file.set_size(size).unwrap(),
        }
    }

    pub(super) fn sync(&self) {
        match self {
            OpenHandle::Program(file) => file.sync_all().unwrap(),
            OpenHandle::Tool(file) => file.sync().unwrap(),
        }
    }
}

/// Repeats an operation on a file that is replaced again and again: an operation that loses the race twice fails with
/// `ESTALE` and can be tried again.
fn retry_if_stale<T>(mut operation: impl FnMut() -> std::io::Result<T>) -> T {
    loop {
        match operation() {
            Err(error) if error.raw_os_error() == Some(Errno::STALE.raw_os_error()) => {}
            result => return result.unwrap(),
        }
    }
}
