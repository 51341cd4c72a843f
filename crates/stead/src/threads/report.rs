//! What there is of a thread.

use stead_core::VfsPath;
use stead_core::store::{Store, StoreError, StorePath, Usage};
use stead_stores::{StateOwner, ThreadKey, ThreadRecord};

use crate::config::{StoreConfig, WorkspaceConfig, thread_directory};
use crate::error::Result;
use crate::threads::Threads;

/// What there is of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadDetails {
    /// When it was made and last used, and by how many processes it is used.
    pub record: ThreadRecord,
    /// The Workspaces whose files are the thread's own.
    pub workspaces: Vec<ThreadWorkspace>,
    /// How many forks it has.
    pub forks: u64,
    /// How many snapshots it has.
    pub snapshots: u64,
    /// What its State has; `None` if it has none. The files are keys, with those that have expired and are not removed yet.
    pub state: Option<Usage>,
}

/// A Workspace whose files are a thread's own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadWorkspace {
    /// Its logical path.
    pub prefix: VfsPath,
    /// What it has. `None` if that can't be seen from here: a Memory Store is in the memory of another process, or a Store
    /// can't be read.
    pub usage: Option<Usage>,
}

impl Threads<'_> {
    /// What there is of a thread. That doesn't count as a use of it.
    pub fn show(&self, key: &ThreadKey) -> Result<ThreadDetails> {
        let record = self.record(key)?;
        let database = self.stores.database()?;
        let config = self.stores.config();
        let agent = config.agent(&key.agent);
        let own =
            agent.iter().flat_map(|agent| &agent.workspaces).filter(|workspace| Self::is_own(workspace));
        let workspaces = own.map(|workspace| ThreadWorkspace {
            prefix: workspace.prefix.clone(),
            usage: self.usage(&record, workspace).ok().flatten(),
        });
        let owner = key.to_string();
        Ok(ThreadDetails {
            workspaces: workspaces.collect(),
            forks: database.fork_records(&owner)?.len() as u64,
            snapshots: database.snapshots(&owner)?.len() as u64,
            state: self.state_usage(&record)?,
            record,
        })
    }

    /// How much a thread has in its State.
    fn state_usage(&self, thread: &ThreadRecord) -> Result<Option<Usage>> {
        let owner = StateOwner::thread(&thread.key, thread.id);
        match self.stores.database()?.state_store(&owner) {
            Err(StoreError::NotFound) => Ok(None),
            store => Ok(Some(store?.usage(&StorePath::empty())?)),
        }
    }

    /// How much a thread has in a Workspace.
    fn usage(&self, thread: &ThreadRecord, workspace: &WorkspaceConfig) -> Result<Option<Usage>> {
        let (id, key) = (thread.id, &thread.key);
        let in_store = |store: &dyn Store, path: &VfsPath| -> Result<Option<Usage>> {
            match store.usage(&StorePath::from_checked(&path.as_str()[1..])) {
                Err(StoreError::NotFound) => Ok(Some(Usage::default())),
                usage => Ok(Some(usage?)),
            }
        };
        match self.stores.config().stores.get(&workspace.store) {
            Some(StoreConfig::Virtual { namespace }) => {
                let database = self.stores.database()?;
                match database.existing_thread_volume((id, key), namespace)? {
                    Some(store) => in_store(&store, &workspace.path),
                    None => Ok(Some(Usage::default())),
                }
            }
            Some(StoreConfig::Memory) => {
                let is_here = self.registry().in_memory.lock().contains_key(&id);
                match self.stores.lazy_store(&workspace.store)?.memory().filter(|_| is_here) {
                    Some(memory) => in_store(&memory.thread_volume(id, key)?, &workspace.path),
                    None => Ok(None),
                }
            }
            Some(StoreConfig::Physical { .. }) => {
                match thread_directory(&workspace.path, &key.agent, &key.thread) {
                    Some(path) => in_store(&*self.stores.get(&workspace.store)?, &path),
                    None => Ok(None),
                }
            }
            None => Ok(None),
        }
    }
}
