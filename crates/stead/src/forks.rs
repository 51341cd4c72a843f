//! The forks of an agent: Workspaces at `/forks/NAME`, each a copy-on-write copy of another Workspace.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::RwLock;
use stead_core::managed::Ttl;
use stead_core::store::{Fork, ForkName, Store, StoreError, StoreId};
use stead_core::vfs::{ForkedWorkspaces, IntoPath};
use stead_core::{Access, ErrorKind, VfsPath, Workspace};
use stead_stores::ForkRecord;
use stead_stores::database::Snapshot;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::fork_access::shown_fork;
use crate::fork_entry::{ForkEntry, PartEntry, fork_prefix};
use crate::fork_merge::FoundFork;
use crate::stead::{Stead, SteadBuilder};
use crate::stores::{StoredFork, Stores};

/// The forks of a stead.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forks {
    entries: Vec<ForkEntry>,
    /// The forks that may not be shown now. They can only be listed and discarded.
    withheld: Vec<ForkEntry>,
    makers: BTreeSet<String>,
    /// Has the agents that a fork can be made for; `None` allows any.
    config: Option<Arc<CurrentConfig>>,
    /// Why the list of forks could not be read.
    load_error: Option<Arc<Error>>,
}

/// The configuration that a stead agrees with. A stead that stays open under a new one gets it here, so that it doesn't keep the
/// older one in memory.
#[derive(Debug)]
pub(crate) struct CurrentConfig(RwLock<Arc<Config>>);

impl CurrentConfig {
    /// The configuration as it is now.
    pub(crate) fn get(&self) -> Arc<Config> {
        Arc::clone(&self.0.read())
    }

    /// Uses this configuration from now on.
    pub(crate) fn replace(&self, config: &Arc<Config>) {
        *self.0.write() = Arc::clone(config);
    }
}

impl Forks {
    /// Loads the forks of an owner, which is an agent or a thread. If they can't be read, the stead opens without them, and only the methods about
    /// forks fail.
    pub(crate) fn load(config: &Arc<Config>, owner: &str, stores: &Stores) -> Self {
        let current = CurrentConfig(RwLock::new(Arc::clone(config)));
        let mut forks = Forks { config: Some(Arc::new(current)), ..Forks::default() };
        match stores.forks(owner) {
            Ok(stored) => {
                for StoredFork { record, store, parts } in stored {
                    let makers = std::iter::once(&record).chain(parts.iter().map(|(part, _)| part));
                    for record in makers {
                        forks.makers.extend([record.fork.created_by.clone(), record.origin.clone()]);
                    }
                    let shown_part = |(part, store): (ForkRecord, Arc<dyn Store>)| {
                        let fork = shown_fork(config, &part)?;
                        Some(PartEntry { fork, store, origin: part.origin })
                    };
                    let parts = parts.into_iter().filter_map(shown_part).collect();
                    let shown = shown_fork(config, &record);
                    let entries = if shown.is_some() { &mut forks.entries } else { &mut forks.withheld };
                    let (fork, origin) = (shown.unwrap_or(record.fork), record.origin);
                    entries.push(ForkEntry::new(PartEntry { fork, store, origin }, parts));
                }
            }
            Err(error) => forks.load_error = Some(Arc::new(error)),
        }
        forks
    }

    /// How long files of a fork live, if the Workspace that it was made from is managed.
    fn managed(&self, fork: &Fork) -> Option<Ttl> {
        let config = self.config.as_ref()?.get();
        let agent = config.agent(&fork.created_by)?;
        let base = agent.workspaces.iter().find(|workspace| workspace.prefix == fork.base_prefix)?;
        base.managed
    }

    /// The configuration that these forks were loaded with, to be replaced; `None` if they have none.
    pub(crate) fn current_config(&self) -> Option<&Arc<CurrentConfig>> {
        self.config.as_ref()
    }

    /// The agents whose access to the bases decides what these forks show.
    pub(crate) fn makers(&self) -> &BTreeSet<String> {
        &self.makers
    }

    /// Adds a Workspace for each fork to the builder. A configured Workspace with the same prefix takes precedence.
    pub(crate) fn add_workspaces_to(&self, mut builder: SteadBuilder) -> Result<SteadBuilder> {
        for entry in &self.entries {
            let prefix = fork_prefix(&entry.fork().name);
            let is_taken = |builder: &SteadBuilder, prefix: &VfsPath| {
                builder.workspaces.iter().any(|workspace| workspace.prefix() == prefix)
            };
            if is_taken(&builder, &prefix) {
                continue;
            }
            for workspace in entry.workspaces(|fork| self.managed(fork))? {
                if !is_taken(&builder, workspace.prefix()) {
                    builder = builder.add_workspace(workspace);
                }
            }
        }
        Ok(builder)
    }
}

/// What a fork shows of its base where it has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BaseView {
    /// What the Store's forks show: a Virtual Store as it was, a host directory as it is.
    Default,
    /// The base as it was when the fork was made.
    Pinned,
}

/// The kind of an error, for the audit record.
pub(crate) fn error_kind(error: &Error) -> Option<ErrorKind> {
    Some(error.kind())
}

impl Stead {
    /// Forks a Workspace, and returns this stead with the fork: a READ_WRITE Workspace at `/forks/NAME`.
    ///
    /// A fork starts with the Workspace's present content. Changes in the fork never reach its base. Later changes of the base
    /// don't show in the fork, with one exception: of a host directory, what the fork has not changed itself is shown as it is.
    /// [`Stead::fork_pinned`] avoids that. A fork costs one write, whatever the size of the tree.
    ///
    /// READ_ONLY and READ_WRITE Workspaces nested in the forked one are forked with it, and keep their scopes and rules in the
    /// fork: [`Fork::parts`] names them. Each costs one more write. The others are excluded: [`Fork::excluded`] names them, and
    /// nothing at those paths shows in the fork.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use stead::{AccessScope, MemoryStore, Stead};
    ///
    /// let notes = Arc::new(MemoryStore::new());
    /// let stead = Stead::builder("coder").workspace("/notes", AccessScope::ReadWrite, &notes).build()?;
    /// stead.vfs().write("/notes/plan.md", "1. ...")?;
    /// let stead = stead.fork("/notes", "draft")?;
    /// stead.vfs().write("/forks/draft/plan.md", "2. ...")?;
    /// assert_eq!(stead.vfs().read("/notes/plan.md")?.bytes, b"1. ...");
    /// # Ok::<(), stead::Error>(())
    /// ```
    pub fn fork(&self, base: impl IntoPath, name: &str) -> Result<Stead> {
        self.fork_own(base, name, BaseView::Default)
    }

    /// Like [`Stead::fork`], but nothing in the fork is live: of a host directory, a snapshot is taken first. That takes longer
    /// the more of the directory has changed since its last snapshot.
    pub fn fork_pinned(&self, base: impl IntoPath, name: &str) -> Result<Stead> {
        self.fork_own(base, name, BaseView::Pinned)
    }

    fn fork_own(&self, base: impl IntoPath, name: &str, view: BaseView) -> Result<Stead> {
        let base = base.into_path();
        let path = base.as_ref().ok().map(VfsPath::to_string);
        let created = self.single_record("fork", path.as_deref(), error_kind, |stead| {
            let owner = stead.owner().to_string();
            stead.make_fork(base?, name, &owner, view)
        });
        let ForkedWorkspaces { whole, parts } = created?;
        let entry = |(fork, store): (Fork, Arc<dyn Store>)| {
            let base = self.vfs.router().route(&fork.base_prefix);
            let base = base.and_then(|route| route.workspace.fork_origin());
            let origin = base.map_or(&fork.created_by, |base| &base.agent).clone();
            PartEntry { fork, store, origin }
        };
        let entry = ForkEntry::new(entry(whole), parts.into_iter().map(entry).collect());
        let mut workspaces: Vec<_> = self.vfs.router().workspaces_and_barriers().cloned().collect();
        let managed = |fork: &Fork| {
            self.vfs.router().route(&fork.base_prefix).and_then(|route| route.workspace.managed())
        };
        workspaces.extend(entry.workspaces(managed)?.into_iter().map(Arc::new));
        let mut forks = self.forks.clone();
        forks.entries.push(entry);
        forks.entries.sort_by(|one, other| one.fork().name.cmp(&other.fork().name));
        self.with_forks(workspaces, forks)
    }

    /// Forks a Workspace for another agent, which sees the fork the next time its stead is opened.
    pub fn fork_to(&self, base: impl IntoPath, name: &str, agent: &str) -> Result<Fork> {
        self.fork_for(base, name, agent, BaseView::Default)
    }

    /// [`Stead::fork_pinned`] for another agent.
    pub fn fork_pinned_to(&self, base: impl IntoPath, name: &str, agent: &str) -> Result<Fork> {
        self.fork_for(base, name, agent, BaseView::Pinned)
    }

    fn fork_for(&self, base: impl IntoPath, name: &str, agent: &str, view: BaseView) -> Result<Fork> {
        let base = base.into_path();
        let path = base.as_ref().ok().map(VfsPath::to_string);
        self.single_record("fork", path.as_deref(), error_kind, |stead| {
            let config = stead.forks.config.as_ref().map(|config| config.get());
            if let Some(config) = &config
                && !config.has_agent(agent)
            {
                return Err(Error::unknown_agent(config, agent));
            }
            if stead.owner().thread.is_some() {
                return Err(Error::Invalid(
                    "a fork that is made in a thread belongs to the thread, so it can't be given to another agent".into(),
                ));
            }
            let receiver = config.as_ref().and_then(|config| config.agents.get(agent));
            if receiver.is_some_and(|agent| agent.scope.has_threads()) {
                return Err(Error::Invalid(format!(
                    "the forks of the agent `{}` belong to its threads, so it can't be given one",
                    agent.escape_debug()
                )));
            }
            let ForkedWorkspaces { whole: (fork, store), parts } = stead.make_fork(base?, name, agent, view)?;
            let entry = |(fork, store)| PartEntry { fork, store, origin: String::new() };
            let parts = parts.into_iter().map(entry).collect();
            Ok(ForkEntry::new(entry((fork, store)), parts).whole.fork)
        })
    }

    fn make_fork(&self, base: VfsPath, name: &str, owner: &str, view: BaseView) -> Result<ForkedWorkspaces> {
        let name: ForkName = name
            .parse()
            .map_err(|error: stead_core::store::InvalidForkName| Error::Invalid(error.to_string()))?;
        let is_own = owner == self.owner().to_string();
        let name_taken =
            || Error::AlreadyExists(format!("a fork `{name}` exists already; choose another name"));
        if is_own && self.vfs.workspaces().any(|workspace| *workspace.prefix() == fork_prefix(&name)) {
            return Err(name_taken());
        }
        let snapshot = match view {
            BaseView::Pinned => self.snapshot_to_pin(&base)?,
            BaseView::Default => None,
        };
        let pinned_at = snapshot.as_ref().map(|snapshot| snapshot.revision);
        let forked = self.vfs.fork_with_nested(&base, name.clone(), owner, pinned_at);
        if let Some(snapshot) = snapshot {
            // The fork keeps the revision itself. A snapshot that can't be removed is listed, and does no harm.
            let _ = self.database()?.forget_snapshot(&self.owner().to_string(), snapshot.id);
        }
        match forked {
            Err(stead_core::Error::Store { cause: StoreError::AlreadyExists, .. }) => Err(name_taken()),
            result => Ok(result?),
        }
    }

    /// Takes the snapshot that a pinned fork shows, if forks of this Workspace, or of those that are forked with it, would show later
    /// changes otherwise.
    fn snapshot_to_pin(&self, base: &VfsPath) -> Result<Option<Snapshot>> {
        let Some(route) = self.vfs.router().route(base) else { return Ok(None) };
        // What can't be forked is refused when the fork is made.
        if route.workspace.prefix() != base || !route.workspace.scope().allows(Access::History) {
            return Ok(None);
        }
        let is_live = |workspace: &&Workspace| {
            workspace.mount().store().forks().is_some_and(|forks| forks.shows_later_changes())
        };
        let forked = std::iter::once(route.workspace).chain(self.vfs.workspaces_forked_with(base));
        let live: Vec<&Workspace> = forked.filter(is_live).collect();
        if live.is_empty() {
            return Ok(None);
        }
        if let Some(fork) = live.iter().find(|workspace| workspace.fork_origin().is_some()) {
            return Err(Error::Invalid(format!(
                "`{}` is a fork that isn't pinned, so a fork of it can't be pinned; pin a fork of the Workspace that \
                 it was made from",
                fork.prefix()
            )));
        }
        self.make_snapshot(Some(base.as_str()), None, &mut |_| ()).map(Some)
    }

    /// The agent's forks that are withheld, by name: their makers can't read the bases any more. They have no Workspaces.
    pub fn withheld_forks(&self) -> Result<impl Iterator<Item = &Fork>> {
        let _ = self.forks()?;
        Ok(self.forks.withheld.iter().map(ForkEntry::fork))
    }

    /// The agent's forks, by name, without those that are withheld.
    pub fn forks(&self) -> Result<impl Iterator<Item = &Fork>> {
        match &self.forks.load_error {
            Some(error) => Err(Error::Store(StoreError::unavailable(error))),
            None => Ok(self.forks.entries.iter().map(ForkEntry::fork)),
        }
    }

    /// Deletes a fork, which may be a withheld one or `OWNER/FORK` of another agent ([`Stead::forks_of_others`]), and returns
    /// this stead without it. Content that something else refers
    /// to is kept.
    pub fn discard(&self, name: &str) -> Result<Stead> {
        let path = format!("/forks/{name}");
        let discarded =
            self.with_fork_fact(name).single_record("discard", Some(&path), error_kind, |stead| {
                let withheld = stead.forks.withheld.iter().find(|entry| entry.fork().name.as_str() == name);
                let found = match withheld {
                    Some(entry) => FoundFork { entry: entry.clone(), is_own: true },
                    None => stead.find_any_fork(name)?,
                };
                let own_prefix = found.entry.whole.prefix();
                let prefix = match found.is_own {
                    // A fork that is withheld has no Workspace.
                    true => stead
                        .vfs
                        .workspaces()
                        .find(|workspace| *workspace.prefix() == own_prefix)
                        .map(|_| own_prefix),
                    false => Some(stead.target_of(&found.entry.whole)?),
                };
                if let Some(prefix) = prefix {
                    // A person is asked about all parts at once.
                    let parts = found.entry.writable_parts();
                    let parts = parts.filter_map(|part| match found.is_own {
                        true => Some(part.prefix()),
                        false => stead.target_of(part).ok(),
                    });
                    let mut prefixes: Vec<VfsPath> = parts.collect();
                    prefixes.push(prefix.clone());
                    stead.vfs.authorize_all(&prefixes, Access::Restore)?;
                    stead.vfs.authorize_discard(&prefix)?;
                }
                let PartEntry { fork, store, .. } = &found.entry.whole;
                stead.audited("discard", Some(&fork_prefix(&fork.name)), || {
                    // The parts that are in the same database are removed with it.
                    store.require_maintenance()?.destroy()?;
                    let database = store.info().database;
                    let is_elsewhere = |part: &&PartEntry| part.store.info().database != database;
                    found
                        .entry
                        .parts
                        .iter()
                        .filter(is_elsewhere)
                        .try_for_each(|part| part.store.require_maintenance()?.destroy())
                })?;
                let stores: Vec<StoreId> = found.entry.all_parts().map(|part| part.store.id()).collect();
                Ok((fork.owner.clone(), fork.name.clone(), stores))
            });
        let own = self.owner().to_string();
        let (owner, name, stores) = &discarded.map_err(|error| match &error {
            Error::Vfs(vfs_error) => match vfs_error.store_error() {
                Some(StoreError::Invalid(message)) => {
                    Error::AlreadyExists(format!("the fork `{name}` can't be discarded: {message}"))
                }
                _ => error,
            },
            _ => error,
        })?;
        // A Workspace that is configured at the fork's prefix isn't part of the fork.
        let remains = |workspace: &&Arc<Workspace>| !stores.contains(&workspace.mount().store().id());
        let workspaces = self.vfs.router().workspaces_and_barriers().filter(remains).cloned().collect();
        let mut forks = self.forks.clone();
        for entries in [&mut forks.entries, &mut forks.withheld] {
            entries.retain(|other| *owner != own || other.fork().name != *name);
        }
        self.with_forks(workspaces, forks)
    }

    /// The fork of this name.
    pub fn find_fork(&self, name: &str) -> Result<&Fork> {
        self.fork_entry(name).map(ForkEntry::fork)
    }

    /// The fork of this name, with all its parts.
    pub(crate) fn fork_entry(&self, name: &str) -> Result<&ForkEntry> {
        let _ = self.forks()?;
        let found = self.forks.entries.iter().find(|entry| entry.fork().name.as_str() == name);
        found.ok_or_else(|| Error::UnknownFork {
            name: name.to_owned(),
            known: self.forks.entries.iter().map(|entry| entry.fork().name.to_string()).collect(),
        })
    }
}
