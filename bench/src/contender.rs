//! What is compared: Stead's Stores, and what people use instead, behind one trait.
//!
//! All contenders do the same work: a listing has names, sizes and times, sorted by name, and a write is atomic. Only
//! plain files are written in place: they show what atomic writes cost.

mod agentfs;
mod disk;
mod flat_sqlite;
mod stead_store;

use std::path::Path;

use crate::Result;

pub use agentfs::AgentFs;
pub use disk::{Disk, WriteMethod};
pub use flat_sqlite::FlatSqlite;
pub use stead_store::SteadStore;

/// Something that stores files. Paths are relative and canonical.
pub trait Contender: Send + Sync {
    /// Creates many files and their directories, as fast as it can. Not measured.
    fn fill(&self, files: &mut dyn Iterator<Item = (String, Vec<u8>)>) -> Result;

    /// Makes a directory whose parent exists.
    fn make_directory(&self, path: &str) -> Result;

    /// Creates a new file in an existing directory.
    fn create(&self, path: &str, content: &[u8]) -> Result;

    /// Replaces a file.
    fn overwrite(&self, path: &str, content: &[u8]) -> Result;

    /// Reads a whole file.
    fn read(&self, path: &str) -> Result<Vec<u8>>;

    /// The size of a file.
    fn size(&self, path: &str) -> Result<u64>;

    /// Lists a directory, and returns how many entries it has.
    fn list(&self, path: &str) -> Result<usize>;

    /// Renames a directory.
    fn rename(&self, from: &str, to: &str) -> Result;

    /// Writes a large file, in pieces of [`PIECE`] if the contender can.
    fn write_large(&self, path: &str, content: &[u8]) -> Result;

    /// Reads a large file, in pieces of [`PIECE`] if the contender can, and returns its size.
    fn read_large(&self, path: &str) -> Result<u64>;

    /// A handle of the same files for another thread.
    fn for_thread(&self) -> Result<Box<dyn Contender>>;
}

/// How many bytes of a large file are read or written at once.
pub const PIECE: usize = 1 << 20;

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A power cut.
    Full,
    /// The end of the process.
    Fast,
}

/// A contender and its name in tables.
pub struct NamedContender {
    /// The name.
    pub label: &'static str,
    /// The contender.
    pub contender: Box<dyn Contender>,
}

/// The pairs that tables compare.
pub const PAIRS: [(&str, &str); 3] = [("Virtual", "flat SQLite"), ("Virtual", "AgentFS"), ("Physical", SAFE)];

/// The label of files that are written under a temporary name and then renamed.
const SAFE: &str = "disk, safe";

/// All contenders, each in a new directory below `data`.
pub fn open_contenders(data: &Path, durability: Durability) -> Result<Vec<NamedContender>> {
    let mut contenders: Vec<NamedContender> = Vec::new();
    let mut add = |label, contender: Box<dyn Contender>| contenders.push(NamedContender { label, contender });
    add("Virtual", Box::new(SteadStore::in_database(&new_directory(data, "virtual")?, durability)?));
    add("Physical", Box::new(SteadStore::on_disk(&new_directory(data, "physical")?, durability)?));
    add("flat SQLite", Box::new(FlatSqlite::open(&new_directory(data, "flat")?, durability)?));
    add(SAFE, Box::new(Disk::open(&new_directory(data, "safe")?, WriteMethod::Safe(durability))));
    if durability == Durability::Fast {
        add("disk, plain", Box::new(Disk::open(&new_directory(data, "plain")?, WriteMethod::Plain)));
    }
    add("AgentFS", Box::new(AgentFs::open(&new_directory(data, "agentfs")?, durability)?));
    Ok(contenders)
}

/// The labels of contenders, for a table.
pub fn labels(contenders: &[NamedContender]) -> Vec<&'static str> {
    contenders.iter().map(|entry| entry.label).collect()
}

/// A new directory below `data`.
pub fn new_directory(data: &Path, name: &str) -> Result<std::path::PathBuf> {
    let path = data.join(name);
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// The parent directory of a path; empty at the top level.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_holds_files_in_the_same_way() {
        for durability in [Durability::Full, Durability::Fast] {
            let data = tempfile::tempdir().unwrap();
            for NamedContender { label, contender } in open_contenders(data.path(), durability).unwrap() {
                let files = (0..3).map(|i| (format!("deep/down/f{i}"), vec![b'a'; 10 + i]));
                contender.fill(&mut { files }).unwrap();
                contender.make_directory("made").unwrap();
                contender.create("made/file", b"one").unwrap();
                contender.overwrite("made/file", b"two").unwrap();
                assert_eq!(contender.read("made/file").unwrap(), b"two", "{label}");
                assert_eq!(contender.size("deep/down/f2").unwrap(), 12, "{label}");
                assert_eq!(contender.list("deep/down").unwrap(), 3, "{label}");
                contender.rename("deep/down", "deep/up").unwrap();
                assert_eq!(
                    contender.for_thread().unwrap().read("deep/up/f0").unwrap(),
                    [b'a'; 10],
                    "{label}"
                );
                assert!(contender.read("deep/down/f0").is_err(), "{label}");
                let large = crate::content::noise(1, 3 * PIECE + 5);
                contender.write_large("made/large", &large).unwrap();
                assert_eq!(contender.read_large("made/large").unwrap(), large.len() as u64, "{label}");
                assert!(contender.read("made/large").unwrap() == large, "{label}");
            }
        }
    }
}
