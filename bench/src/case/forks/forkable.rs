//! What is compared: a tree that can be forked, changed on both sides, and merged.

use crate::Result;

/// A change of one file.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// Where the file is before.
    pub path: String,
    /// Where it is moved to.
    pub moved_to: Option<String>,
    /// What it has afterwards.
    pub content: Vec<u8>,
}

impl FileChange {
    /// Where the file is afterwards.
    pub fn new_path(&self) -> &str {
        self.moved_to.as_deref().unwrap_or(&self.path)
    }
}

/// A tree of files that can be forked.
pub trait Forkable {
    /// Makes a fork of the tree.
    fn fork(&mut self, name: &str) -> Result;

    /// Changes files of a fork.
    fn change_fork(&mut self, name: &str, changes: &[FileChange]) -> Result;

    /// Changes files of the tree itself.
    fn change_base(&mut self, changes: &[FileChange]) -> Result;

    /// Does what has to be done on both sides before they can be merged. Returns whether there is such a thing.
    fn commit(&mut self, name: &str) -> Result<bool>;

    /// Merges a fork into the tree. A conflict is an error.
    fn merge(&mut self, name: &str) -> Result;

    /// Removes a fork.
    fn discard(&mut self, name: &str) -> Result;

    /// The content of a file of the tree itself; `None` if there is none.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>>;
}
