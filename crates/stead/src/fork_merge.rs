//! Merging forks: of the agent itself, and of others over the Workspaces that it may write.

use std::sync::Arc;

use stead_core::store::{Fork, ForkPart, Store, StoreError, StoreId, StorePath};
use stead_core::vfs::{DiffOptions, Difference, MergeOptions, MergeResult};
use stead_core::{Access, VfsPath, Workspace};
use stead_stores::{Database, ForkRecord, OverlayStore};

use crate::error::{Error, Result};
use crate::fork_entry::{ForkEntry, PartEntry};
use crate::forks::error_kind;
use crate::stead::Stead;
use crate::stores::DatabaseSource;

/// A fork that the agent may merge.
#[derive(Debug, Clone)]
pub(crate) struct FoundFork {
    pub(crate) entry: ForkEntry,
    /// Whether the fork belongs to this stead, so that its parts are Workspaces of it.
    pub(crate) is_own: bool,
}

/// Where the paths that the result of a merge names are in the fork. Rules name paths by where they are there.
#[derive(Debug, Clone)]
pub struct MergePlaces {
    /// The prefixes at which this agent sees the parts of the fork and what they were made from, each with the part's place.
    places: Vec<(VfsPath, VfsPath)>,
}

impl MergePlaces {
    /// The prefix of the Workspace that the fork itself is merged into.
    pub fn target(&self) -> &VfsPath {
        &self.places[0].0
    }

    /// A path as rules know it, relative to the top of the fork; `None` for a path that isn't in what the fork was made from.
    pub fn rule_path(&self, path: &VfsPath) -> Option<String> {
        let containing = self.places.iter().filter(|(prefix, _)| path.strip_prefix(prefix).is_some());
        let (prefix, place) = containing.max_by_key(|(prefix, _)| prefix.depth())?;
        let in_fork = place.join(path.strip_prefix(prefix)?).ok()?;
        Some(in_fork.as_str()[1..].to_owned())
    }
}

impl Stead {
    /// Where the paths of a merge's result are in the fork.
    pub fn merge_places(&self, name: &str) -> Result<MergePlaces> {
        let found = self.find_any_fork(name)?;
        let whole = &found.entry.whole;
        let mut places = vec![(self.target_of(whole)?, whole.fork.place.clone())];
        for part in found.entry.writable_parts() {
            let target = self.base_of(part, Access::Restore).ok().flatten();
            let prefixes = target.into_iter().chain(self.shown_at(&found, part));
            places.extend(prefixes.map(|prefix| (prefix, part.fork.place.clone())));
        }
        Ok(MergePlaces { places })
    }

    /// Merges a fork into the Workspace that it was made from.
    ///
    /// `name` is a fork of this agent, or `OWNER/FORK` for a fork of another one of a Workspace that this agent may write.
    /// A merge with a conflict, or with a path that the agent may not change, changes nothing; the result says why. After a
    /// merge the fork goes on from what the Workspace has then.
    ///
    /// The READ_WRITE parts of the fork ([`Fork::parts`]) are merged with it, as one operation: each into the Workspace that it was
    /// made from.
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
        self.with_fork_fact(name).single_record("merge", Some(&path), error_kind, |stead| {
            let found = stead.find_any_fork(name)?;
            let target = stead.target_of(&found.entry.whole)?;
            match found.entry.writable_parts().next() {
                Some(_) => stead.merge_parts(&found, &target, options),
                None => Ok(stead.vfs.merge_fork(&target, found.entry.whole.handle(), options)?),
            }
        })
    }

    /// Brings the changes of the Workspace that a fork was made from into the fork, and those of nested Workspaces into its READ_WRITE
    /// parts.
    ///
    /// Conflicts in text are written into the fork's files, between markers; a merge is refused until they are gone.
    pub fn update_fork(&self, name: &str, options: &MergeOptions) -> Result<MergeResult> {
        let path = format!("/forks/{name}");
        self.with_fork_fact(name).single_record("update", Some(&path), error_kind, |stead| {
            let entry = stead.fork_entry(name)?;
            match entry.writable_parts().next() {
                Some(_) => stead.update_parts(entry, options),
                None => Ok(stead.vfs.update_fork(&entry.whole.prefix(), entry.whole.handle(), options)?),
            }
        })
    }

    /// The differences between a fork and its base: the Workspace that it was made from, as it was when the fork took in its
    /// changes the last time. The parts of the fork are compared in the same way. For a fork of another agent, the paths are those of
    /// the Workspaces, and a part is left out if this agent can't read what it was made from.
    pub fn diff_fork(&self, name: &str, options: DiffOptions) -> Result<Vec<Difference>> {
        let path = format!("/forks/{name}");
        self.with_fork_fact(name).single_record("diff", Some(&path), error_kind, |stead| {
            let found = stead.find_any_fork(name)?;
            let mut parts = Vec::new();
            for part in found.entry.writable_parts() {
                // Nobody is asked about a part that has no differences.
                let prefix = stead.shown_at(&found, part);
                if let Some(prefix) = prefix
                    && (!stead.asks_at(&prefix) || stead.vfs.has_fork_changes(part.handle())?)
                {
                    parts.push((prefix, part));
                }
            }
            // The fork itself comes last, because the record of the call is that of the last comparison.
            let prefix = match found.is_own {
                true => found.entry.whole.prefix(),
                false => stead.target_of(&found.entry.whole)?,
            };
            parts.push((prefix, &found.entry.whole));
            if parts.len() > 1 {
                // A person is asked about all of them at once.
                let prefixes: Vec<VfsPath> = parts.iter().map(|(prefix, _)| prefix.clone()).collect();
                stead.vfs.authorize_all(&prefixes, Access::History)?;
            }
            let mut differences = Vec::new();
            for (prefix, part) in parts {
                differences.extend(stead.vfs.diff_fork(&prefix, part.handle(), options)?);
            }
            differences.sort_by(|one, other| one.path.cmp(&other.path));
            Ok(differences)
        })
    }

    /// This stead for a call about a fork: its audit records have the fork's name.
    pub(crate) fn with_fork_fact(&self, fork: &str) -> Stead {
        self.with_facts(self.vfs.facts().clone().with_if_room("fork", fork))
    }

    /// The forks of other agents that this one may merge: those of what its READ_WRITE Workspaces show, sorted by owner and
    /// name. In a thread there are none, and forks of threads are never among them. An agent of an organization sees only
    /// forks of agents that it can discover. Of the parts, only those are listed whose bases this agent can read.
    pub fn forks_of_others(&self) -> Result<Vec<Fork>> {
        let found = self.all_forks_of_others()?.into_iter();
        Ok(found.map(|found| self.without_unseen_parts(&found)).collect())
    }

    /// The record of another agent's fork as this agent may see it, with the prefixes that the bases of its parts have here.
    fn without_unseen_parts(&self, found: &FoundFork) -> Fork {
        let mut fork = found.entry.fork().clone();
        fork.parts.clear();
        for (part, listed) in found.entry.parts.iter().zip(&found.entry.fork().parts) {
            match self.shown_at(found, part) {
                Some(base_prefix) => fork.parts.push(ForkPart { base_prefix, ..listed.clone() }),
                None => fork.excluded.retain(|path| path.strip_prefix(&listed.place).is_none()),
            }
        }
        fork
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
            .filter(|owner| *owner != own && self.vfs.may_know_owner(owner) && !self.is_thread(owner))
        {
            for mut record in database.fork_records(&owner)? {
                let records = std::mem::take(&mut record.parts);
                let Some(whole) = self.open_part(&database, source, record)? else { continue };
                if self.target_of(&whole).is_err() {
                    continue;
                }
                let mut parts = Vec::new();
                for record in records {
                    parts.extend(self.open_part(&database, source, record)?);
                }
                found.push(FoundFork { entry: ForkEntry::new(whole, parts), is_own: false });
            }
        }
        Ok(found)
    }

    /// The fork, or part of one, that a record is about; `None` if it was discarded meanwhile.
    fn open_part(
        &self,
        database: &Database,
        source: &DatabaseSource,
        record: ForkRecord,
    ) -> Result<Option<PartEntry>> {
        let store = match database.open_fork(&record) {
            Ok(store) => store,
            Err(StoreError::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let store: Arc<dyn Store> = match &record.directory {
            None => Arc::new(store),
            Some(location) => match self.directory_store(source.directory_id_at(location)) {
                Some(lower) => Arc::new(OverlayStore::open(store, lower)?),
                // The fork of a host directory of which this agent has no Workspace can't be one that it may merge. A part of
                // one may be: its changes are in the database.
                None if record.fork.is_whole() => return Ok(None),
                None => Arc::new(store),
            },
        };
        Ok(Some(PartEntry { fork: record.fork, store, origin: record.origin }))
    }

    /// Whether an owner of forks is a thread. Its forks are among the files that no one else sees.
    fn is_thread(&self, owner: &str) -> bool {
        let config = self.forks.current_config().map(|config| config.get());
        owner.rsplit_once('/').is_some_and(|(agent, _)| config.is_some_and(|config| config.has_agent(agent)))
    }

    /// The Store with this id, if a Workspace of this stead is over it.
    fn directory_store(&self, id: Option<StoreId>) -> Option<Arc<dyn Store>> {
        let mut stores = self.vfs.workspaces().map(|workspace| workspace.mount().store());
        stores.find(|store| Some(store.id()) == id).cloned()
    }

    /// The fork of this name: `FORK` of this stead, or `OWNER/FORK` of another one.
    pub(crate) fn find_any_fork(&self, name: &str) -> Result<FoundFork> {
        match self.fork_entry(name) {
            Ok(entry) => return Ok(FoundFork { entry: entry.clone(), is_own: true }),
            Err(error) if !name.contains('/') => return Err(error),
            Err(_) => {}
        }
        let full_name =
            |found: &FoundFork| format!("{}/{}", found.entry.fork().owner, found.entry.fork().name);
        let mut others = self.all_forks_of_others()?;
        match others.iter().position(|found| full_name(found) == name) {
            Some(index) => Ok(others.swap_remove(index)),
            None => Err(Error::UnknownFork {
                name: name.to_owned(),
                known: others.iter().map(full_name).collect(),
            }),
        }
    }

    /// The prefix of the READ_WRITE Workspace that a part of a fork can be merged into: it is over the Store that the part was made
    /// from, and shows everything that the part shows.
    pub(crate) fn target_of(&self, part: &PartEntry) -> Result<VfsPath> {
        match self.base_of(part, Access::Restore)? {
            Some(prefix) => Ok(prefix),
            None if self.was_moved_since(part) => Err(Error::Vfs(stead_core::Error::Invalid(format!(
                "the directory of `{}` was moved since the fork `{}` was made, so the fork can't be merged or updated; copy \
                 what you need from it",
                part.fork.base_prefix, part.fork.name
            )))),
            None => Err(Error::Vfs(stead_core::Error::Invalid(format!(
                "the fork `{}` was made from `{}`; to merge it you need a READ_WRITE Workspace there",
                part.fork.name, part.fork.base_prefix
            )))),
        }
    }

    /// Whether the Workspace that a part of a fork was made from is still there, and shows another directory of the same Store.
    fn was_moved_since(&self, part: &PartEntry) -> bool {
        let Ok(target) = part.store.require_forks().and_then(|forks| forks.target()) else { return false };
        self.vfs.workspaces().any(|workspace| {
            *workspace.prefix() == part.fork.base_prefix
                && workspace.mount().store().id() == target
                && workspace.scope().allows(Access::Restore)
        })
    }

    /// The prefix of a Workspace that allows this access, is over the Store that a part of a fork was made from, and shows everything
    /// that the part shows.
    pub(crate) fn base_of(&self, part: &PartEntry, access: Access) -> Result<Option<VfsPath>> {
        let target = part.store.require_forks().and_then(|forks| forks.target())?;
        let shown = StorePath::from_checked(&part.fork.path.as_str()[1..]);
        let is_base = |workspace: &&Workspace| {
            let mount = workspace.mount();
            mount.store().id() == target
                && workspace.scope().allows(access)
                && shown.is_at_or_below(mount.path())
        };
        let candidates: Vec<&Workspace> = self.vfs.workspaces().filter(is_base).collect();
        let original =
            candidates.iter().find(|workspace| *workspace.prefix() == part.fork.base_prefix).copied();
        // The one that shows the least beside the fork.
        let nearest = || candidates.iter().copied().max_by_key(|workspace| workspace.mount().path().depth());
        Ok(original.or_else(nearest).map(|workspace| workspace.prefix().clone()))
    }

    /// The prefix at which this agent sees a part of a fork: its own prefix, or what it was made from. `None` if the agent can't see
    /// it.
    pub(crate) fn shown_at(&self, found: &FoundFork, part: &PartEntry) -> Option<VfsPath> {
        match found.is_own {
            true => Some(part.prefix()),
            false => self
                .base_of(part, Access::Restore)
                .ok()
                .flatten()
                .or_else(|| self.base_of(part, Access::History).ok().flatten()),
        }
    }
}
