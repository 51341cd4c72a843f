//! Ending threads: destroying one, and sweeping those that are idle or whose removal was not finished.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use stead_core::store::{NodeKind, NodePath, StorePath};
use stead_core::vfs::{ListPage, RemoveOptions, SymlinkRule};
use stead_core::{AccessScope, ErrorKind, Identity, Mount, StoreError, Vfs, VfsPath, Workspace};
use stead_stores::{EndWhen, Ending, EndingThread, ThreadKey};

use crate::config::{FilesPer, StoreConfig, thread_directory};
use crate::error::{Error, Result};
use crate::stead::SYSTEM_IDENTITY;
use crate::threads::{MEMORY_CHECK_INTERVAL, Threads, thread_record};

/// What was removed with a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DestroyedThread {
    /// How many files, those of forks included.
    pub files: u64,
    /// How many bytes these files had.
    pub bytes: u64,
    /// How many forks.
    pub forks: u64,
    /// How many snapshots.
    pub snapshots: u64,
    /// How many keys of its State, with those that had expired and were not removed yet.
    pub keys: u64,
}

/// What [`Threads::sweep`] did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// The threads that ended, each with what was removed.
    pub ended: Vec<(ThreadKey, DestroyedThread)>,
    /// The threads that should have ended and could not, each with the reason. The next sweep tries again.
    pub failed: Vec<(ThreadKey, Error)>,
}

/// Whether a thread has ended.
enum EndAttempt {
    Ended(DestroyedThread),
    Missing,
    InUse,
    NotIdle,
}

impl Threads<'_> {
    /// Ends a thread, and removes its files, forks, snapshots and State. The audit stays. Returns `None` if there is no such
    /// thread: it may have ended before.
    ///
    /// Fails with [`Error::ThreadInUse`] while a call runs in it, or while another process has it open.
    pub fn destroy(&self, key: &ThreadKey) -> Result<Option<DestroyedThread>> {
        self.destroy_when(key, EndWhen::Now)
    }

    pub(super) fn destroy_when(&self, key: &ThreadKey, when: EndWhen) -> Result<Option<DestroyedThread>> {
        if self.stores.database_source().existing_database()?.is_none() {
            return Ok(None);
        }
        match self.try_end(key, when, "thread.destroy")? {
            EndAttempt::Ended(removed) => Ok(Some(removed)),
            EndAttempt::Missing => Ok(None),
            EndAttempt::InUse | EndAttempt::NotIdle => {
                let ThreadKey { agent, thread } = key;
                let until = self.record(key).ok().and_then(|record| record.leased_until);
                let until =
                    until.map(|until| format!(", whose lease holds until {until} unless it is renewed"));
                Err(Error::ThreadInUse(format!(
                    "the thread `{thread}` of the agent `{agent}` is in use, by a call that runs or by another process{}; \
                     try again when it isn't",
                    until.unwrap_or_default()
                )))
            }
        }
    }

    /// Ends the threads whose idle time-out has passed, and finishes what a process that died had begun to remove. A thread
    /// in which a call runs, or that another process has open, stays.
    ///
    /// It is cheap when nothing is due: call it every few seconds. Does nothing if the database can only be read.
    pub fn sweep(&self) -> Result<Swept> {
        let mut swept = Swept::default();
        let Some(database) = self.stores.database_source().existing_database()? else { return Ok(swept) };
        if database.is_read_only() {
            return Ok(swept);
        }
        for key in self.registry().holder()?.sweepable()? {
            match self.try_end(&key, EndWhen::Idle, "thread.sweep") {
                Ok(EndAttempt::Ended(removed)) => swept.ended.push((key, removed)),
                Ok(_) => {}
                Err(error) => swept.failed.push((key, error)),
            }
        }
        self.sweep_memory(&database)?;
        Ok(swept)
    }

    /// Ends a thread if it is due.
    pub(super) fn end(&self, key: &ThreadKey, when: EndWhen, call: &'static str) -> Result<()> {
        self.try_end(key, when, call).map(drop)
    }

    fn try_end(&self, key: &ThreadKey, when: EndWhen, call: &'static str) -> Result<EndAttempt> {
        let registry = self.registry();
        registry.opener.audit()?;
        let holder = registry.holder()?;
        let ending = match holder.begin_ending(key, when)? {
            Ending::Begun(ending) => ending,
            Ending::Missing => return Ok(EndAttempt::Missing),
            Ending::InUse => return Ok(EndAttempt::InUse),
            Ending::NotIdle => return Ok(EndAttempt::NotIdle),
        };
        registry.heartbeat.ensure_running(&holder);
        let mut removed = self.remove_directories(&ending)?;
        self.remove_from_memory(ending.thread(), key, &mut removed)?;
        let mut record = thread_record(key, call);
        (record.file_count, record.bytes) = (Some(removed.files), Some(removed.bytes));
        let in_database = holder.finish_ending(ending, record)?;
        removed.files += in_database.files;
        removed.bytes += in_database.bytes;
        removed.forks += in_database.forks;
        removed.snapshots += in_database.snapshots;
        removed.keys += in_database.keys;
        registry.heartbeat.end_if_done(&holder);
        Ok(EndAttempt::Ended(removed))
    }

    /// Removes the thread's directories in Physical Stores, and keeps nothing of them for undo.
    fn remove_directories(&self, ending: &EndingThread) -> Result<DestroyedThread> {
        let (key, mut removed) = (ending.key(), DestroyedThread::default());
        let mut directories: Vec<(String, VfsPath)> = Vec::new();
        for (agent, workspace) in self.stores.config().physical_thread_workspaces() {
            if *agent == key.agent
                && let Some(path) = thread_directory(&workspace.path, &key.agent, &key.thread)
                && !directories.contains(&(workspace.store.clone(), path.clone()))
            {
                directories.push((workspace.store.clone(), path));
            }
        }
        for (store, path) in &directories {
            // Another process may have finished the removal meanwhile, and a new thread may have the directory.
            ending.check()?;
            let (name, store) = (store, self.stores.get(store)?);
            let at = StorePath::from_checked(&path.as_str()[1..]);
            let kind = match store.stat(&NodePath::from_root(at.clone())) {
                // A symlink on the way was not followed when the thread wrote, so the thread has nothing there.
                Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => None,
                attr => Some(attr?.kind),
            };
            let Some(kind) = kind else {
                self.registry().opener.forget_directory(name, &at)?;
                continue;
            };
            let usage = store.usage(&at).unwrap_or_default();
            let same_store = Arc::clone(&store);
            let workspace = Workspace::new(VfsPath::root(), AccessScope::ReadWrite, Mount::new(store));
            let unrestricted =
                workspace.with_protect::<&str>([]).and_then(|workspace| workspace.with_hide::<&str>([]));
            let workspace = unrestricted.map_err(stead_core::Error::from)?;
            let mut builder = Vfs::builder(Identity::agent(SYSTEM_IDENTITY)).workspace(workspace);
            if let Some(log) = self.stores.audit() {
                builder = builder.audit(log);
            }
            let vfs = builder.build()?.with_symlinks(SymlinkRule::Refuse).operation("thread.destroy");
            let options = RemoveOptions { recursive: true, force: true, ..RemoveOptions::default() };
            let result = match kind {
                NodeKind::Directory => vfs.remove_directory(path, options),
                // Another program has put something in its place.
                _ => vfs.remove_file(path, options),
            };
            match result {
                Err(error) if error.kind() == ErrorKind::Denied => remove_unreserved(&vfs, path)?,
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            // The removal displaced what it removed.
            same_store.sync()?;
            self.registry().opener.forget_directory(name, &at)?;
            removed.files += usage.files;
            removed.bytes += usage.bytes;
        }
        // The process that had begun may have died after it forgot the events, and before it removed their content.
        let stores: HashSet<&String> = directories.iter().map(|(store, _)| store).collect();
        for store in stores.into_iter().filter(|_| ending.is_taken_over()) {
            self.registry().opener.remove_orphaned_content(store)?;
        }
        Ok(removed)
    }

    fn remove_from_memory(&self, thread: i64, key: &ThreadKey, removed: &mut DestroyedThread) -> Result<()> {
        if self.registry().in_memory.lock().remove(&thread).is_none() {
            return Ok(());
        }
        let config = self.stores.config();
        for (name, store) in &config.stores {
            if let (StoreConfig::Memory, Some(memory)) = (store, self.stores.lazy_store(name)?.memory()) {
                let in_memory = memory.remove_thread(thread, key)?;
                removed.files += in_memory.files;
                removed.bytes += in_memory.bytes;
                removed.forks += in_memory.forks;
                removed.snapshots += in_memory.snapshots;
            }
        }
        Ok(())
    }

    /// Removes from Memory Stores what they have of threads that other processes have removed.
    fn sweep_memory(&self, database: &stead_stores::Database) -> Result<()> {
        let registry = self.registry();
        if registry.in_memory.lock().is_empty() {
            return Ok(());
        }
        let mut checked = registry.memory_checked.lock();
        if checked.is_some_and(|checked| checked.elapsed() < MEMORY_CHECK_INTERVAL) {
            return Ok(());
        }
        *checked = Some(Instant::now());
        let existing: HashSet<i64> = database.threads(None)?.iter().map(|thread| thread.id).collect();
        let in_memory = registry.in_memory.lock().clone();
        for (thread, key) in in_memory.into_iter().filter(|(thread, _)| !existing.contains(thread)) {
            self.remove_from_memory(thread, &key, &mut DestroyedThread::default())?;
        }
        Ok(())
    }

    /// Whether a Workspace's files are a thread's own.
    pub(super) fn is_own(workspace: &crate::config::WorkspaceConfig) -> bool {
        workspace.per == FilesPer::Thread
    }
}

/// Removes what is in a directory, except for names that Stead reserves for itself. Another program has put such a file there;
/// it stays, with the directories above it.
fn remove_unreserved(vfs: &Vfs, directory: &VfsPath) -> Result<()> {
    let options = RemoveOptions { recursive: true, force: true, ..RemoveOptions::default() };
    for entry in vfs.list(directory, &ListPage::all())?.entries {
        // A name that no path can have stays as well.
        let Some(name) = entry.name.as_path_component() else { continue };
        let path = directory.join(name).map_err(stead_core::Error::from)?;
        let removed = match entry.kind {
            NodeKind::Directory => vfs.remove_directory(&path, options),
            _ => vfs.remove_file(&path, options),
        };
        match removed {
            Err(error) if error.kind() == ErrorKind::Denied && entry.kind == NodeKind::Directory => {
                remove_unreserved(vfs, &path)?;
            }
            Err(error) if !matches!(error.kind(), ErrorKind::Denied | ErrorKind::NotFound) => {
                return Err(error.into());
            }
            _ => {}
        }
    }
    // It isn't empty if something in it stays.
    let _ = vfs.remove_directory(directory, RemoveOptions { force: true, ..RemoveOptions::default() });
    Ok(())
}
