//! Files on disk, through the standard library.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Contender, Durability, PIECE, parent};
use crate::Result;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMethod {
    /// In place: a reader may see a half-written file.
    Plain,
    /// Under a temporary name, then renamed. With [`Durability::Full`] the file and its directory are synced.
    Safe(Durability),
}

/// A directory.
#[derive(Debug, Clone)]
pub struct Disk {
    root: PathBuf,
    method: WriteMethod,
    next_temporary: Arc<AtomicU64>,
}

impl Disk {
    /// The files below `root`.
    pub fn open(root: &Path, method: WriteMethod) -> Self {
        Disk { root: root.to_owned(), method, next_temporary: Arc::default() }
    }

    fn put(&self, path: &str, content: &[u8], must_be_absent: bool) -> Result {
        let target = self.root.join(path);
        let WriteMethod::Safe(durability) = self.method else {
            let mut options = OpenOptions::new();
            options.write(true).truncate(true).create(true).create_new(must_be_absent);
            return Ok(options.open(target)?.write_all(content)?);
        };
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let directory = self.root.join(parent(path));
        let temporary_path = directory.join(format!(".{number}"));
        let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary_path)?;
        for piece in content.chunks(PIECE) {
            file.write_all(piece)?;
        }
        if durability == Durability::Full {
            file.sync_all()?;
        }
        fs::rename(&temporary_path, &target)?;
        if durability == Durability::Full {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }
}

/// Writes files in place, directory by directory.
pub(super) fn fill(root: &Path, files: &mut dyn Iterator<Item = (String, Vec<u8>)>) -> Result {
    let mut last_directory = String::new();
    for (path, content) in files {
        if parent(&path) != last_directory {
            last_directory = parent(&path).to_owned();
            fs::create_dir_all(root.join(&last_directory))?;
        }
        fs::write(root.join(path), content)?;
    }
    Ok(())
}

impl Contender for Disk {
    fn fill(&self, files: &mut dyn Iterator<Item = (String, Vec<u8>)>) -> Result {
        fill(&self.root, files)
    }

    fn make_directory(&self, path: &str) -> Result {
        Ok(fs::create_dir(self.root.join(path))?)
    }

    fn create(&self, path: &str, content: &[u8]) -> Result {
        self.put(path, content, true)
    }

    fn overwrite(&self, path: &str, content: &[u8]) -> Result {
        self.put(path, content, false)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        Ok(fs::read(self.root.join(path))?)
    }

    fn size(&self, path: &str) -> Result<u64> {
        Ok(fs::metadata(self.root.join(path))?.len())
    }

    fn list(&self, path: &str) -> Result<usize> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.root.join(path))? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            entries.push((entry.file_name(), metadata.len(), metadata.modified()?));
        }
        entries.sort();
        Ok(entries.len())
    }

    fn rename(&self, from: &str, to: &str) -> Result {
        Ok(fs::rename(self.root.join(from), self.root.join(to))?)
    }

    fn write_large(&self, path: &str, content: &[u8]) -> Result {
        self.put(path, content, false)
    }

    fn read_large(&self, path: &str) -> Result<u64> {
        let mut file = File::open(self.root.join(path))?;
        let mut piece = vec![0; PIECE];
        let mut size = 0;
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(size),
                count => size += count as u64,
            }
        }
    }

    fn for_thread(&self) -> Result<Box<dyn Contender>> {
        Ok(Box::new(self.clone()))
    }
}
