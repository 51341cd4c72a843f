//! Merging forks: of the agent itself, and of others over the Workspaces that it may write.

use std::sync::Arc;

use stead_core::store::{Fork, Store, StoreError, StoreId, StorePath};
use stead_core::vfs::{DiffOptions, Difference, ForkHandle, MergeOptions, MergeResult};
use stead_core::{Access, VfsPath, Workspace};
use stead_stores::OverlayStore;

use crate::error::{Error, Result};
use crate::forks::{error_kind, fork_prefix};
use crate::old_layout::folder_parts;
use crate::stead::Stead;

/// A fork that the agent may merge, and where its paths are.
#[derive(Debug, Clone)]
pub(crate) struct FoundFork {
    pub(crate) fork: Fork,
    pub(crate) store: Arc<dyn Store>,
    /// Whether the fork belongs to this stead, so that it is a Workspace of it.
    pub(crate) is_own: bool,
}

impl FoundFork {
    fn handle(&self) -> ForkHandle<'_> {
        ForkHandle { fork: &self.fork, store: &self.store }
    }
}

impl Stead {
    /// Merges a fork into the Workspace that it was made from.
    ///
    /// `name` is a fork of this agent, or `OWNER/FORK` for a fork of another one of a Workspace that this agent may write.
    /// A merge with a conflict, or with a path that the agent may not change, changes nothing; the result says why. After a
    /// merge the fork goes on from what the Workspace has then.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use stead::vfs::MergeOptions;
    /// use stead::{AccessScope, MemoryStore, Stead};
    ///
    /// let notes = Arc::new(MemoryStore::new());
    /// let stead = Stead::builder("coder").workspace("/notes", AccessScope::ReadWrite, &notes).build()?;
    /// stead.vfs().write("/notes/plan.md", "1. ...")?;
    /// let stead = stead.fork("/notes", "draft")?;
    /// stead.vfs().write("/forks/draft/plan.md", "2. ...")?;
    /// assert!(stead.merge_fork("draft", &MergeOptions::default())?.done);
    /// assert_eq!(stead.vfs().read("/notes/plan.md")?.bytes, b"2. ...");
    /// # Ok::<(), stead::Error>(())
    /// ```
    pub fn merge_fork(&self, name: &str, options: &MergeOptions) -> Result<MergeResult> {
        let path = format!("/forks/{name}");
        self.single_record("merge", Some(&path), error_kind, |stead| {
            let found = stead.find_any_fork(name)?;
            let target = stead.target_of(&found)?;
            Ok(stead.vfs.merge_fork(&target, found.handle(), options)?)
        })
    }

    /// Brings the changes of the Workspace that a fork was made from into the fork.
    ///
    /// Conflicts in text are written into the fork's files, between markers; a merge is refused until they are gone.
    pub fn update_fork(&self, name: &str, options: &MergeOptions) -> Result<MergeResult> {
        let path = format!("/forks/{name}");
        self.single_record("update", Some(&path), error_kind, |stead| {
            let fork = stead.find_fork(name)?.clone();
            let found = FoundFork { store: stead.fork_store(name)?, fork, is_own: true };
            Ok(stead.vfs.update_fork(&fork_prefix(&found.fork.name), found.handle(), options)?)
        })
    }

    /// The differences between a fork and its base: the Workspace that it was made from, as it was when the fork took in its
    /// changes the last time. For a fork of another agent, the paths are those of the Workspace.
    pub fn diff_fork(&self, name: &str, options: DiffOptions) -> Result<Vec<Difference>> {
        self.single_record("diff", Some(&format!("/forks/{name}")), error_kind, |stead| {
            let found = stead.find_any_fork(name)?;
            let prefix = match found.is_own {
                true => fork_prefix(&found.fork.name),
                false => stead.target_of(&found)?,
            };
            Ok(stead.vfs.diff_fork(&prefix, found.handle(), options)?)
        })
    }

    /// The forks of other agents that this one may merge: those of what its READ_WRITE Workspaces show, sorted by owner and
    /// name. In a thread there are none, and forks of threads are never among them. An agent of an organization sees only forks of agents that it can discover.
    pub fn forks_of_others(&self) -> Result<Vec<Fork>> {
        Ok(self.all_forks_of_others()?.into_iter().map(|found| found.fork).collect())
    }

    pub(crate) fn all_forks_of_others(&self) -> Result<Vec<FoundFork>> {
        let Some(source) = self.database_source.as_ref().filter(|_| self.owner().thread.is_none()) else {
            return Ok(Vec::new());
        };
        let Some(database) = source.existing_database()? else { return Ok(Vec::new()) };
        let own = self.owner().to_string();
        let mut found = Vec::new();
        for owner in database
            .fork_volumes()?
            .into_keys()
            .filter(|owner| *owner != own && self.may_know(owner) && !self.is_thread(owner))
        {
            for record in database.fork_records(&owner)? {
                let store = match database.open_fork(&record) {
                    Ok(store) => store,
                    // It was discarded meanwhile.
                    Err(StoreError::NotFound) => continue,
                    Err(error) => return Err(error.into()),
                };
                let store: Arc<dyn Store> = match &record.directory {
                    None => Arc::new(store),
                    // A fork of a host directory of which this agent has no Workspace can't be one that it may merge.
                    Some(location) => match self.directory_store(source.directory_id_at(location)) {
                        Some(lower) => Arc::new(OverlayStore::open(store, lower)?),
                        None => continue,
                    },
                };
                let candidate = FoundFork { fork: record.fork, store, is_own: false };
                if self.target_of(&candidate).is_ok() {
                    found.push(candidate);
                }
            }
        }
        Ok(found)
    }

    /// Whether an owner of forks is a thread. Its forks are among the files that no one else sees.
    fn is_thread(&self, owner: &str) -> bool {
        let config = self.forks.current_config().map(|config| config.get());
        owner.rsplit_once('/').is_some_and(|(agent, _)| config.is_some_and(|config| config.has_agent(agent)))
    }

    /// Whether this agent may learn that an owner of forks exists: in an organization, if one of the owner's folders is among
    /// its Workspaces.
    fn may_know(&self, owner: &str) -> bool {
        let Some(folders) = &self.folders else { return true };
        let membership = folders.membership();
        let organization = membership.organization.id();
        let Some(id) = owner.strip_prefix(organization).and_then(|rest| rest.strip_prefix('/')) else {
            return false;
        };
        let id = id.split('/').next().unwrap_or(id);
        let is_owners =
            |workspace: &Workspace| folder_parts(workspace.prefix()).is_some_and(|(owner, _)| owner == id);
        self.vfs.workspaces().any(is_owners)
    }

    /// The Store with this id, if a Workspace of this stead is over it.
    fn directory_store(&self, id: Option<StoreId>) -> Option<Arc<dyn Store>> {
        let mut stores = self.vfs.workspaces().map(|workspace| workspace.mount().store());
        stores.find(|store| Some(store.id()) == id).cloned()
    }

    /// The fork of this name: `FORK` of this stead, or `OWNER/FORK` of another one.
    pub(crate) fn find_any_fork(&self, name: &str) -> Result<FoundFork> {
        match self.find_fork(name) {
            Ok(fork) => {
                return Ok(FoundFork { fork: fork.clone(), store: self.fork_store(name)?, is_own: true });
            }
            Err(error) if !name.contains('/') => return Err(error),
            Err(_) => {}
        }
        let mut others = self.all_forks_of_others()?;
        let is_wanted = |found: &FoundFork| format!("{}/{}", found.fork.owner, found.fork.name) == name;
        match others.iter().position(is_wanted) {
            Some(index) => Ok(others.swap_remove(index)),
            None => Err(Error::UnknownFork {
                name: name.to_owned(),
                known: others
                    .iter()
                    .map(|found| format!("{}/{}", found.fork.owner, found.fork.name))
                    .collect(),
            }),
        }
    }

    /// The prefix of the READ_WRITE Workspace that a fork can be merged into: it is over the Store that the fork was made from,
    /// and shows everything that the fork shows.
    pub(crate) fn target_of(&self, found: &FoundFork) -> Result<VfsPath> {
        let target = found.store.require_forks().and_then(|forks| forks.target())?;
        let shown = StorePath::from_checked(&found.fork.path.as_str()[1..]);
        let is_target = |workspace: &&Workspace| {
            let mount = workspace.mount();
            mount.store().id() == target
                && workspace.scope().allows(Access::Restore)
                && shown.is_at_or_below(mount.path())
        };
        let candidates: Vec<&Workspace> = self.vfs.workspaces().filter(is_target).collect();
        let is_base = |workspace: &&&Workspace| *workspace.prefix() == found.fork.base_prefix;
        let base = candidates.iter().find(is_base).copied();
        // The one that shows the least beside the fork.
        let nearest = || candidates.iter().copied().max_by_key(|workspace| workspace.mount().path().depth());
        match base.or_else(nearest) {
            Some(workspace) => Ok(workspace.prefix().clone()),
            None => Err(Error::Vfs(stead_core::Error::Invalid(format!(
                "the fork `{}` was made from `{}`; to merge it you need a READ_WRITE Workspace there",
                found.fork.name, found.fork.base_prefix
            )))),
        }
    }
}
