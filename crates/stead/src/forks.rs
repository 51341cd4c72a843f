//! The forks of an agent: Workspaces at `/forks/NAME`, each a copy of another one that goes its own way.

use std::sync::Arc;

use stead_core::store::{Fork, ForkName, RevisionNumber, Store, StoreError};
use stead_core::vfs::{DiffOptions, Difference, IntoPath};
use stead_core::{AccessScope, Barrier, ErrorKind, Mount, VfsPath, Workspace};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::stead::{Stead, SteadBuilder};
use crate::stores::Stores;

/// The forks that a stead has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forks {
    entries: Vec<(Fork, Arc<dyn Store>)>,
    /// The agents that a fork can be given to; any, where nothing is configured.
    known_agents: Option<Arc<[String]>>,
    /// Why it is not known which forks there are.
    load_error: Option<Arc<Error>>,
}

impl Forks {
    /// The forks of an agent. That they can't be read is no one else's trouble: it is told to whoever asks for them.
    pub(crate) fn load(config: &Config, agent: &str, stores: &Stores) -> Self {
        let agents = Some(config.agents.keys().cloned().collect());
        match stores.forks(agent) {
            Ok(known) => Forks { entries: known, known_agents: agents, load_error: None },
            Err(error) => {
                Forks { entries: Vec::new(), known_agents: agents, load_error: Some(Arc::new(error)) }
            }
        }
    }

    /// The Workspaces, and one for each fork. What is configured comes first where both claim one prefix.
    pub(crate) fn add_workspaces_to(&self, mut builder: SteadBuilder) -> Result<SteadBuilder> {
        for (fork, store) in &self.entries {
            let prefix = fork_prefix(&fork.name);
            let is_taken = |builder: &SteadBuilder, prefix: &VfsPath| {
                builder.workspaces.iter().any(|workspace| workspace.prefix() == prefix)
            };
            if is_taken(&builder, &prefix) {
                continue;
            }
            for workspace in fork_workspaces(fork, store)? {
                if !is_taken(&builder, workspace.prefix()) {
                    builder = builder.add_workspace(workspace);
                }
            }
        }
        Ok(builder)
    }
}

/// Where a fork appears.
fn fork_prefix(name: &ForkName) -> VfsPath {
    VfsPath::parse(&format!("/forks/{name}")).expect("the name of a fork is a component")
}

/// A fork as Workspaces: its own, and a barrier for every place that was left out of it.
fn fork_workspaces(fork: &Fork, store: &Arc<dyn Store>) -> Result<Vec<Workspace>> {
    let mut workspaces = vec![fork_workspace(fork, Arc::clone(store))?];
    for prefix in excluded_prefixes(fork) {
        let mount = Mount::at(Arc::clone(store), &fork.path);
        let nested = Workspace::new(prefix, AccessScope::ReadOnly, mount);
        workspaces.push(nested.as_barrier(Barrier::ExcludedFromFork));
    }
    Ok(workspaces)
}

/// The places that were left out of a fork, as its owner sees them.
fn excluded_prefixes(fork: &Fork) -> impl Iterator<Item = VfsPath> {
    let prefix = fork_prefix(&fork.name);
    fork.excluded.iter().filter_map(move |place| prefix.join(&place.as_str()[1..]).ok())
}

/// A fork as a Workspace, under the rules of the one that it was made of.
fn fork_workspace(fork: &Fork, store: Arc<dyn Store>) -> Result<Workspace> {
    let mount = Mount::at(store, &fork.path);
    let workspace = Workspace::new(fork_prefix(&fork.name), AccessScope::ReadWrite, mount)
        .with_description(format!("a fork of {}", fork.base_prefix))
        .with_quota(fork.quota)
        .with_approval_policy(fork.approval_policy)
        .with_protect(&fork.protect)
        .map_err(stead_core::Error::from)?;
    Ok(workspace.with_scratch(&fork.scratch).map_err(stead_core::Error::from)?)
}

/// The kind of a failure, for its record.
fn error_kind(error: &Error) -> Option<ErrorKind> {
    Some(error.kind())
}

impl Stead {
    /// Makes a fork of a Workspace, and returns this stead with it: READ_WRITE, at `/forks/NAME`.
    ///
    /// A fork begins with what the Workspace holds and goes its own way: it never changes its base, and never sees what
    /// happens there. It costs one write, whatever the size of the tree. Workspaces inside the one that is forked are
    /// left out of it: [`Fork::left_out`] names them, and nothing of what lies there shows in the fork.
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
    pub fn fork(&self, of: impl IntoPath, name: &str) -> Result<Stead> {
        let of = of.into_path();
        let path = of.as_ref().ok().map(VfsPath::to_string);
        let made = self.single_record("fork", path.as_deref(), error_kind, |stead| {
            let owner = stead.vfs.identity().agent.clone();
            stead.make_fork(&of?, name, &owner)
        });
        let (fork, store) = made?;
        let mut all: Vec<_> = self.vfs.router().workspaces_and_barriers().cloned().collect();
        all.extend(fork_workspaces(&fork, &store)?);
        let mut forks = self.forks.clone();
        forks.entries.push((fork, store));
        forks.entries.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        self.with_forks(all, forks)
    }

    /// Makes a fork of a Workspace for another agent, who finds it when its stead is next opened.
    pub fn fork_to(&self, of: impl IntoPath, name: &str, agent: &str) -> Result<Fork> {
        let of = of.into_path();
        let path = of.as_ref().ok().map(VfsPath::to_string);
        self.single_record("fork", path.as_deref(), error_kind, |stead| {
            if let Some(known) = &stead.forks.known_agents
                && !known.iter().any(|known| known == agent)
            {
                return Err(Error::UnknownAgent { name: agent.to_owned(), known: known.to_vec() });
            }
            Ok(stead.make_fork(&of?, name, agent)?.0)
        })
    }

    fn make_fork(&self, of: impl IntoPath, name: &str, owner: &str) -> Result<(Fork, Arc<dyn Store>)> {
        let name: ForkName = name
            .parse()
            .map_err(|error: stead_core::store::InvalidForkName| Error::Invalid(error.to_string()))?;
        let own = owner == self.vfs.identity().agent;
        let taken = || Error::AlreadyExists(format!("there is a fork `{name}` already; choose another name"));
        if own && self.vfs.workspaces().any(|workspace| *workspace.prefix() == fork_prefix(&name)) {
            return Err(taken());
        }
        match self.vfs.fork(of, name.clone(), owner) {
            Err(stead_core::Error::Store { cause: StoreError::AlreadyExists, .. }) => Err(taken()),
            made => Ok(made?),
        }
    }

    /// The forks that the agent has, by name.
    pub fn forks(&self) -> Result<impl Iterator<Item = &Fork>> {
        match &self.forks.load_error {
            Some(error) => Err(Error::Store(StoreError::unavailable(error))),
            None => Ok(self.forks.entries.iter().map(|(fork, _)| fork)),
        }
    }

    /// What differs between a fork and its base, as that was when the fork was made.
    pub fn diff_fork(&self, name: &str, options: DiffOptions) -> Result<Vec<Difference>> {
        self.single_record("diff", Some(&format!("/forks/{name}")), error_kind, |stead| {
            let fork = stead.find_fork(name)?;
            // All that a fork has done is what makes it differ.
            Ok(stead.vfs.diff(
                &fork_prefix(&fork.name),
                RevisionNumber(0),
                RevisionNumber(i64::MAX),
                options,
            )?)
        })
    }

    /// Discards a fork, and returns this stead without it. What others still refer to stays.
    pub fn discard(&self, name: &str) -> Result<Stead> {
        let path = format!("/forks/{name}");
        let discarded = self.single_record("discard", Some(&path), error_kind, |stead| {
            let (fork, store) = stead.fork_entry(name)?;
            stead.audited("discard", Some(&fork_prefix(&fork.name)), || store.destroy())?;
            Ok(fork.clone())
        });
        let fork = &discarded.map_err(|error| match &error {
            Error::Vfs(door) => match door.store_error() {
                Some(StoreError::Invalid(what)) => {
                    Error::AlreadyExists(format!("the fork `{name}` stays: {what}"))
                }
                _ => error,
            },
            _ => error,
        })?;
        let name = &fork.name;
        let places: Vec<VfsPath> = excluded_prefixes(fork).chain([fork_prefix(name)]).collect();
        let kept = |workspace: &&Workspace| {
            // A Workspace that is configured there is no part of the fork.
            let is_fork = workspace.barrier().is_some() || *workspace.prefix() == fork_prefix(name);
            !(is_fork && places.contains(workspace.prefix()))
        };
        let workspaces = self.vfs.router().workspaces_and_barriers().filter(kept).cloned().collect();
        let mut forks = self.forks.clone();
        forks.entries.retain(|(known, _)| known.name != *name);
        self.with_forks(workspaces, forks)
    }

    /// The fork of this name.
    pub fn find_fork(&self, name: &str) -> Result<&Fork> {
        self.fork_entry(name).map(|(fork, _)| fork)
    }

    fn fork_entry(&self, name: &str) -> Result<&(Fork, Arc<dyn Store>)> {
        let _ = self.forks()?;
        let found = self.forks.entries.iter().find(|(fork, _)| fork.name.as_str() == name);
        found.ok_or_else(|| Error::UnknownFork {
            name: name.to_owned(),
            known: self.forks.entries.iter().map(|(fork, _)| fork.name.to_string()).collect(),
        })
    }
}
