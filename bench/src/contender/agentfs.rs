//! AgentFS: an agent's files in one SQLite file, through its Rust library.

use std::path::Path;
use std::sync::Arc;

use agentfs_sdk::filesystem::FileSystem;
use agentfs_sdk::{AgentFS, AgentFSOptions};
use tokio::runtime::Runtime;

use super::{Contender, Durability, PIECE, parent};
use crate::Result;

const ROOT: i64 = 1;
const MODE: u32 = 0o644;

/// An open AgentFS. It has one connection, which all threads share.
#[derive(Clone)]
pub struct AgentFs {
    agent: Arc<AgentFS>,
    runtime: Arc<Runtime>,
    durability: Durability,
}

impl AgentFs {
    /// A database in this directory.
    ///
    /// AgentFS commits with `synchronous = OFF`. For [`Durability::Full`] this changes the setting of its
    /// connection, as a user would have to who wants a write to survive a power cut. The setting has to be `ON`: its
    /// engine treats `FULL` as `OFF`.
    pub fn open(directory: &Path, durability: Durability) -> Result<Self> {
        let runtime =
            Arc::new(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?);
        let path = directory.join("agent.db").to_string_lossy().into_owned();
        let agent = Arc::new(runtime.block_on(AgentFS::open(AgentFSOptions::with_path(path)))?);
        let agent = AgentFs { agent, runtime, durability };
        agent.set_durability(durability)?;
        Ok(agent)
    }

    fn set_durability(&self, durability: Durability) -> Result {
        let pragma = match durability {
            Durability::Full => "PRAGMA synchronous = ON",
            Durability::Fast => "PRAGMA synchronous = OFF",
        };
        self.runtime.block_on(async {
            self.agent.get_connection().await?.execute(pragma, ()).await?;
            Ok(())
        })
    }

    fn make_directories(&self, path: &str) -> Result {
        let mut directory = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            directory = format!("{directory}/{name}");
            if self.runtime.block_on(self.agent.fs.stat(&directory))?.is_none() {
                self.make_directory(&directory)?;
            }
        }
        Ok(())
    }

    /// The inode of a path.
    async fn inode(&self, path: &str) -> Result<i64> {
        if path.is_empty() {
            return Ok(ROOT);
        }
        Ok(self.agent.fs.stat(&absolute(path)).await?.ok_or("not found")?.ino)
    }
}

fn absolute(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

impl Contender for AgentFs {
    fn fill(&self, files: &mut dyn Iterator<Item = (String, Vec<u8>)>) -> Result {
        self.set_durability(Durability::Fast)?;
        let mut last_directory = String::new();
        for (path, content) in files {
            if parent(&path) != last_directory {
                last_directory = parent(&path).to_owned();
                self.make_directories(&last_directory)?;
            }
            self.create(&path, &content)?;
        }
        self.set_durability(self.durability)
    }

    fn make_directory(&self, path: &str) -> Result {
        Ok(self.runtime.block_on(self.agent.fs.mkdir(&absolute(path), 0, 0))?)
    }

    fn create(&self, path: &str, content: &[u8]) -> Result {
        self.runtime.block_on(async {
            let (_, file) = self.agent.fs.create_file(&absolute(path), MODE, 0, 0).await?;
            Ok(file.pwrite(0, content).await?)
        })
    }

    /// Writes over the existing bytes: AgentFS has no call that replaces a whole file, and this is its cheapest one.
    fn overwrite(&self, path: &str, content: &[u8]) -> Result {
        Ok(self.runtime.block_on(self.agent.fs.pwrite(&absolute(path), 0, content))?)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        let content = self.runtime.block_on(self.agent.fs.read_file(&absolute(path)))?;
        content.ok_or_else(|| "not found".into())
    }

    fn size(&self, path: &str) -> Result<u64> {
        let stats = self.runtime.block_on(self.agent.fs.lstat(&absolute(path)))?;
        Ok(u64::try_from(stats.ok_or("not found")?.size)?)
    }

    fn list(&self, path: &str) -> Result<usize> {
        self.runtime.block_on(async {
            let entries = FileSystem::readdir_plus(&self.agent.fs, self.inode(path).await?).await?;
            Ok(entries.ok_or("not found")?.len())
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result {
        Ok(self.runtime.block_on(self.agent.fs.rename(&absolute(from), &absolute(to)))?)
    }

    fn write_large(&self, path: &str, content: &[u8]) -> Result {
        self.runtime.block_on(async {
            let (_, file) = self.agent.fs.create_file(&absolute(path), MODE, 0, 0).await?;
            for (index, piece) in content.chunks(PIECE).enumerate() {
                file.pwrite((index * PIECE) as u64, piece).await?;
            }
            Ok(())
        })
    }

    fn read_large(&self, path: &str) -> Result<u64> {
        self.runtime.block_on(async {
            let file = self.agent.fs.open(&absolute(path)).await?;
            let mut size = 0;
            loop {
                match file.pread(size, PIECE as u64).await?.len() {
                    0 => return Ok(size),
                    count => size += count as u64,
                }
            }
        })
    }

    fn for_thread(&self) -> Result<Box<dyn Contender>> {
        Ok(Box::new(self.clone()))
    }
}
