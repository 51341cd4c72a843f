//! The forks of an agent: Workspaces at `/forks/NAME`, each a copy-on-write copy of another Workspace.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::RwLock;
use stead_core::managed::Ttl;
use stead_core::store::{Fork, ForkName, Store, StoreError};
use stead_core::vfs::IntoPath;
use stead_core::{Access, AccessScope, Barrier, ErrorKind, ForkOrigin, Mount, VfsPath, Workspace};
use stead_stores::database::Snapshot;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::fork_access::shown_fork;
use crate::fork_merge::FoundFork;
use crate::stead::{Stead, SteadBuilder};
use crate::stores::Stores;

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

#[derive(Debug, Clone)]
struct ForkEntry {
    fork: Fork,
    store: Arc<dyn Store>,
    /// The agent whose Workspace the content comes from.
    origin: String,
}

impl Forks {
    /// Loads the forks of an owner, which is an agent or a thread. If they can't be read, the stead opens without them, and only the methods about
    /// forks fail.
    pub(crate) fn load(config: &Arc<Config>, owner: &str, stores: &Stores) -> Self {
        let current = CurrentConfig(RwLock::new(Arc::clone(config)));
        let mut forks = Forks { config: Some(Arc::new(current)), ..Forks::default() };
        match stores.forks(owner) {
            Ok(stored) => {
                for (record, store) in stored {
                    let shown = shown_fork(config, &record);
                    let (fork, origin) = (record.fork, record.origin);
                    forks.makers.extend([fork.created_by.clone(), origin.clone()]);
                    match shown {
                        Some(fork) => forks.entries.push(ForkEntry { fork, store, origin }),
                        None => forks.withheld.push(ForkEntry { fork, store, origin }),
                    }
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
            let prefix = fork_prefix(&entry.fork.name);
            let is_taken = |builder: &SteadBuilder, prefix: &VfsPath| {
                builder.workspaces.iter().any(|workspace| workspace.prefix() == prefix)
            };
            if is_taken(&builder, &prefix) {
                continue;
            }
            for workspace in entry.workspaces(self.managed(&entry.fork))? {
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

/// The logical path of a fork.
pub(crate) fn fork_prefix(name: &ForkName) -> VfsPath {
    VfsPath::parse(&format!("/forks/{name}")).expect("the name of a fork is a valid path component")
}

impl ForkEntry {
    /// The Workspaces of a fork: the fork itself, and a barrier for every path that was excluded from it.
    ///
    /// `managed` is how long files live if the Workspace that the fork was made from is managed.
    fn workspaces(&self, managed: Option<Ttl>) -> Result<Vec<Workspace>> {
        let ForkEntry { fork, store, origin } = self;
        let (created_by, agent, path) = (fork.created_by.clone(), origin.clone(), fork.path.clone());
        let mut workspace = fork_workspace(fork, Arc::clone(store))?;
        if let Some(ttl) = managed {
            workspace = workspace.with_managed(ttl);
        }
        let mut workspaces = vec![workspace.with_fork_origin(ForkOrigin { created_by, agent, path })];
        for prefix in excluded_prefixes(fork) {
            let mount = Mount::at(Arc::clone(store), &fork.path);
            let nested = Workspace::new(prefix, AccessScope::ReadOnly, mount);
            workspaces.push(nested.as_barrier(Barrier::ExcludedFromFork));
        }
        Ok(workspaces)
    }
}

/// The logical paths that were excluded from a fork.
fn excluded_prefixes(fork: &Fork) -> impl Iterator<Item = VfsPath> {
    let prefix = fork_prefix(&fork.name);
    fork.excluded.iter().filter_map(move |excluded| prefix.join(&excluded.as_str()[1..]).ok())
}

/// The Workspace of a fork, with the rules (`protect`, `hide`, scratch, quota, approval policy) of the Workspace it was
/// made from.
fn fork_workspace(fork: &Fork, store: Arc<dyn Store>) -> Result<Workspace> {
    let mount = Mount::at(store, &fork.path);
    let workspace = Workspace::new(fork_prefix(&fork.name), AccessScope::ReadWrite, mount)
        .with_description(format!("a fork of {}", fork.base_prefix))
        .with_quota(fork.quota)
        .with_approval_policy(fork.approval_policy)
        .with_protect(&fork.protect)
        .and_then(|workspace| workspace.with_hide(&fork.hide))
        .map_err(stead_core::Error::from)?;
    Ok(workspace.with_scratch(&fork.scratch).map_err(stead_core::Error::from)?)
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
    /// [`Stead::fork_pinned`] avoids that. A fork costs one write, whatever the size of the tree. Workspaces nested in the
    /// forked one are excluded: [`Fork::excluded`] names them, and nothing at those paths shows in the fork.
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
        let (fork, store) = created?;
        let base = self.vfs.router().route(&fork.base_prefix).and_then(|route| route.workspace.fork_origin());
        let origin = base.map_or(&fork.created_by, |base| &base.agent).clone();
        let entry = ForkEntry { fork, store, origin };
        let mut workspaces: Vec<_> = self.vfs.router().workspaces_and_barriers().cloned().collect();
        let managed =
            self.vfs.router().route(&entry.fork.base_prefix).and_then(|route| route.workspace.managed());
        workspaces.extend(entry.workspaces(managed)?.into_iter().map(Arc::new));
        let mut forks = self.forks.clone();
        forks.entries.push(entry);
        forks.entries.sort_by(|one, other| one.fork.name.cmp(&other.fork.name));
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
            Ok(stead.make_fork(base?, name, agent, view)?.0)
        })
    }

    fn make_fork(
        &self,
        base: VfsPath,
        name: &str,
        owner: &str,
        view: BaseView,
    ) -> Result<(Fork, Arc<dyn Store>)> {
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
        let forked = self.vfs.fork_at(&base, name.clone(), owner, pinned_at);
        if let Some(snapshot) = snapshot {
            // The fork keeps the revision itself. A snapshot that can't be removed is listed, and does no harm.
            let _ = self.database()?.forget_snapshot(&self.owner().to_string(), snapshot.id);
        }
        match forked {
            Err(stead_core::Error::Store { cause: StoreError::AlreadyExists, .. }) => Err(name_taken()),
            result => Ok(result?),
        }
    }

    /// Takes the snapshot that a pinned fork shows, if forks of this Workspace would show later changes otherwise.
    fn snapshot_to_pin(&self, base: &VfsPath) -> Result<Option<Snapshot>> {
        let Some(route) = self.vfs.router().route(base) else { return Ok(None) };
        let workspace = route.workspace;
        let is_live = workspace.mount().store().forks().is_some_and(|forks| forks.shows_later_changes());
        // What can't be forked is refused when the fork is made.
        if !is_live || workspace.prefix() != base || !workspace.scope().allows(Access::History) {
            return Ok(None);
        }
        if workspace.fork_origin().is_some() {
            return Err(Error::Invalid(format!(
                "`{base}` is a fork that isn't pinned, so a fork of it can't be pinned; pin a fork of the Workspace that \
                 it was made from"
            )));
        }
        self.make_snapshot(Some(base.as_str()), None, &mut |_| ()).map(Some)
    }

    /// The agent's forks that are withheld, by name: their makers can't read the bases any more. They have no Workspaces.
    pub fn withheld_forks(&self) -> Result<impl Iterator<Item = &Fork>> {
        let _ = self.forks()?;
        Ok(self.forks.withheld.iter().map(|entry| &entry.fork))
    }

    /// The agent's forks, by name, without those that are withheld.
    pub fn forks(&self) -> Result<impl Iterator<Item = &Fork>> {
        match &self.forks.load_error {
            Some(error) => Err(Error::Store(StoreError::unavailable(error))),
            None => Ok(self.forks.entries.iter().map(|entry| &entry.fork)),
        }
    }

    /// Deletes a fork, which may be a withheld one or `OWNER/FORK` of another agent ([`Stead::forks_of_others`]), and returns
    /// this stead without it. Content that something else refers
    /// to is kept.
    pub fn discard(&self, name: &str) -> Result<Stead> {
        let path = format!("/forks/{name}");
        let discarded = self.single_record("discard", Some(&path), error_kind, |stead| {
            let withheld = stead.forks.withheld.iter().find(|entry| entry.fork.name.as_str() == name);
            let found = match withheld {
                Some(ForkEntry { fork, store, .. }) => {
                    FoundFork { fork: fork.clone(), store: Arc::clone(store), is_own: true }
                }
                None => stead.find_any_fork(name)?,
            };
            let own_prefix = fork_prefix(&found.fork.name);
            let prefix = match found.is_own {
                // A fork that is withheld has no Workspace.
                true => stead
                    .vfs
                    .workspaces()
                    .find(|workspace| *workspace.prefix() == own_prefix)
                    .map(|_| own_prefix),
                false => Some(stead.target_of(&found)?),
            };
            if let Some(prefix) = prefix {
                stead.vfs.authorize_discard(&prefix)?;
            }
            let FoundFork { fork, store, .. } = found;
            stead.audited("discard", Some(&fork_prefix(&fork.name)), || {
                store.require_maintenance()?.destroy()
            })?;
            Ok((fork.owner, fork.name, store.id()))
        });
        let own = self.owner().to_string();
        let (owner, name, store) = &discarded.map_err(|error| match &error {
            Error::Vfs(vfs_error) => match vfs_error.store_error() {
                Some(StoreError::Invalid(message)) => {
                    Error::AlreadyExists(format!("the fork `{name}` can't be discarded: {message}"))
                }
                _ => error,
            },
            _ => error,
        })?;
        // A Workspace that is configured at the fork's prefix isn't part of the fork.
        let remains = |workspace: &&Arc<Workspace>| workspace.mount().store().id() != *store;
        let workspaces = self.vfs.router().workspaces_and_barriers().filter(remains).cloned().collect();
        let mut forks = self.forks.clone();
        for entries in [&mut forks.entries, &mut forks.withheld] {
            entries.retain(|other| *owner != own || other.fork.name != *name);
        }
        self.with_forks(workspaces, forks)
    }

    /// The fork of this name.
    pub fn find_fork(&self, name: &str) -> Result<&Fork> {
        self.fork_entry(name).map(|entry| &entry.fork)
    }

    /// The Store of the fork of this name.
    pub(crate) fn fork_store(&self, name: &str) -> Result<Arc<dyn Store>> {
        self.fork_entry(name).map(|entry| Arc::clone(&entry.store))
    }

    fn fork_entry(&self, name: &str) -> Result<&ForkEntry> {
        let _ = self.forks()?;
        let found = self.forks.entries.iter().find(|entry| entry.fork.name.as_str() == name);
        found.ok_or_else(|| Error::UnknownFork {
            name: name.to_owned(),
            known: self.forks.entries.iter().map(|entry| entry.fork.name.to_string()).collect(),
        })
    }
}
