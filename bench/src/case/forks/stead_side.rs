//! A stead with one Workspace, over a Virtual or a Physical Store.

use std::path::{Path, PathBuf};

use stead::vfs::{ListPage, MergeOptions, Overwrite, WriteOptions};
use stead::{Config, Identity, Stead, Stores};

use super::code_base::SourceFile;
use super::forkable::{FileChange, Forkable};
use super::git;
use crate::Result;
use crate::contender::Durability;

/// How many files one change writes while a Virtual Store is filled.
const BATCH: usize = 1_000;

/// The kind of Store that the Workspace is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// Files in a database.
    Virtual,
    /// A host directory. Its base is changed by a host program.
    Physical,
}

/// A stead whose Workspace is `/code`.
pub struct SteadSide {
    directory: PathBuf,
    kind: StoreKind,
    stores: Stores,
    stead: Stead,
}

impl SteadSide {
    /// A new stead in this directory, with these files.
    pub fn create(
        directory: &Path,
        kind: StoreKind,
        durability: Durability,
        files: impl IntoIterator<Item = SourceFile>,
    ) -> Result<Self> {
        let root = directory.join("root");
        std::fs::create_dir_all(&root)?;
        let store = match kind {
            StoreKind::Virtual => "kind = \"virtual\"",
            StoreKind::Physical => "kind = \"physical\"\npath = \"root\"",
        };
        let durability = match durability {
            Durability::Full => "full",
            Durability::Fast => "fast",
        };
        let text = format!(
            "[database]\ndurability = \"{durability}\"\n[stores.code]\n{store}\n[[agents.coder.workspaces]]\n\
             prefix = \"/code\"\nscope = \"rw\"\nstore = \"code\"\n"
        );
        let config = Config::parse(&text, &directory.join("stead.toml"))?;
        let stores = Stores::of(&config);
        let stead = Stead::open_in(&stores, &Identity::agent("coder"))?;
        let side = SteadSide { directory: directory.to_owned(), kind, stores, stead };
        side.fill(files)?;
        Ok(side)
    }

    fn fill(&self, files: impl IntoIterator<Item = SourceFile>) -> Result {
        let mut files = files.into_iter();
        if self.kind == StoreKind::Physical {
            return files.try_for_each(|(path, content)| git::write(&self.root().join(path), &content));
        }
        loop {
            let mut batch = self.stead.vfs().batch();
            for (path, content) in files.by_ref().take(BATCH) {
                batch.write(&*format!("/code/{path}"), content, &WriteOptions::new())?;
            }
            if batch.is_empty() {
                return Ok(());
            }
            batch.apply()?;
        }
    }

    fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// The stead itself.
    pub fn stead(&self) -> &Stead {
        &self.stead
    }

    /// What it shares with other steads of the same configuration.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Makes a fork of the Workspace at this prefix.
    pub fn fork_of(&mut self, prefix: &str, name: &str) -> Result {
        self.stead = self.stead.fork(prefix, name)?;
        Ok(())
    }

    fn change(&self, prefix: &str, changes: &[FileChange]) -> Result {
        let vfs = self.stead.vfs();
        for change in changes {
            let path = format!("{prefix}/{}", change.new_path());
            if change.moved_to.is_some() {
                vfs.rename(&*format!("{prefix}/{}", change.path), &*path, Overwrite::Refuse)?;
            }
            vfs.write(&*path, change.content.clone())?;
        }
        Ok(())
    }

    /// How many bytes Stead has on disk, without the files of a Physical Store.
    pub fn stored_bytes(&self) -> Result<u64> {
        let mut total = 0;
        let mut directories = vec![self.directory.clone()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory)? {
                let (entry, path) = entry.map(|entry| (entry.metadata(), entry.path()))?;
                match entry {
                    Ok(metadata) if metadata.is_dir() && path != self.root() => directories.push(path),
                    Ok(metadata) if metadata.is_file() => total += metadata.len(),
                    _ => {}
                }
            }
        }
        Ok(total)
    }

    /// How many entries a directory has.
    pub fn list(&self, path: &str) -> Result<usize> {
        Ok(self.stead.vfs().list(path, &ListPage::all())?.entries.len())
    }
}

impl Forkable for SteadSide {
    fn fork(&mut self, name: &str) -> Result {
        self.fork_of("/code", name)
    }

    fn change_fork(&mut self, name: &str, changes: &[FileChange]) -> Result {
        self.change(&format!("/forks/{name}"), changes)
    }

    fn change_base(&mut self, changes: &[FileChange]) -> Result {
        match self.kind {
            StoreKind::Virtual => self.change("/code", changes),
            StoreKind::Physical => git::change_files(&self.root(), changes),
        }
    }

    fn commit(&mut self, _: &str) -> Result<bool> {
        Ok(false)
    }

    fn merge(&mut self, name: &str) -> Result {
        let result = self.stead.merge_fork(name, &MergeOptions::default())?;
        match result.done {
            true => Ok(()),
            false => {
                Err(format!("the merge is not done: {:?} {:?}", result.conflicts, result.refused).into())
            }
        }
    }

    fn discard(&mut self, name: &str) -> Result {
        self.stead = self.stead.discard(name)?;
        Ok(())
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        match self.stead.vfs().read(&*format!("/code/{path}")) {
            Ok(read) => Ok(Some(read.bytes)),
            Err(error) if error.kind() == stead::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
