//! A fork as a stead has it: the fork itself and the nested Workspaces that were forked with it, each with its Store.

use std::collections::BTreeSet;
use std::sync::Arc;

use stead_core::managed::Ttl;
use stead_core::store::{Fork, ForkName, ForkPart, Store};
use stead_core::vfs::ForkHandle;
use stead_core::{AccessScope, Barrier, ForkOrigin, Mount, VfsPath, Workspace};

use crate::error::Result;

/// One part of a fork: the fork itself, or the fork of a nested Workspace.
#[derive(Debug, Clone)]
pub(crate) struct PartEntry {
    pub(crate) fork: Fork,
    pub(crate) store: Arc<dyn Store>,
    /// The agent whose Workspace the content comes from.
    pub(crate) origin: String,
}

/// A fork with all its parts.
#[derive(Debug, Clone)]
pub(crate) struct ForkEntry {
    /// The fork itself. Its `excluded` are the paths at which no part shows anything, and its `parts` are the shown ones.
    pub(crate) whole: PartEntry,
    /// The other parts, by place.
    pub(crate) parts: Vec<PartEntry>,
}

impl PartEntry {
    pub(crate) fn handle(&self) -> ForkHandle<'_> {
        ForkHandle { fork: &self.fork, store: &self.store }
    }

    /// The logical path at which the fork's owner has this part.
    pub(crate) fn prefix(&self) -> VfsPath {
        let place = &self.fork.place.as_str()[1..];
        let prefix = fork_prefix(&self.fork.name);
        prefix.join(place).expect("it was a valid path when the Workspaces were put together")
    }

    /// The Workspace of this part, with the rules (`protect`, `hide`, scratch, quota, approval policy) of the Workspace that it was
    /// made from.
    fn workspace(&self, managed: Option<Ttl>) -> Result<Workspace> {
        let PartEntry { fork, store, origin } = self;
        let mount = Mount::at(Arc::clone(store), &fork.path);
        let workspace = Workspace::new(self.prefix(), fork.scope, mount)
            .with_description(format!("a fork of {}", fork.base_prefix))
            .with_quota(fork.quota)
            .with_approval_policy(fork.approval_policy)
            .with_protect(&fork.protect)
            .and_then(|workspace| workspace.with_hide(&fork.hide))
            .and_then(|workspace| workspace.with_scratch(&fork.scratch))
            .map_err(stead_core::Error::from)?;
        let (created_by, agent, path) = (fork.created_by.clone(), origin.clone(), fork.path.clone());
        let workspace = workspace.with_fork_origin(ForkOrigin { created_by, agent, path });
        Ok(managed.into_iter().fold(workspace, Workspace::with_managed))
    }
}

impl ForkEntry {
    /// Puts a fork together. Where a nested Workspace was, and none of these parts is, it shows nothing. A part whose path would be
    /// too long in the fork isn't shown either.
    pub(crate) fn new(mut whole: PartEntry, mut parts: Vec<PartEntry>) -> Self {
        let prefix = fork_prefix(&whole.fork.name);
        parts.retain(|part| prefix.join(&part.fork.place.as_str()[1..]).is_ok());
        let all = std::iter::once(&whole).chain(&parts);
        let mut excluded: BTreeSet<VfsPath> = all
            .flat_map(|part| part.fork.excluded.iter().map(|path| part.fork.path_in_whole(path)))
            .collect();
        for part in &parts {
            excluded.remove(&part.fork.place);
        }
        whole.fork.excluded = excluded.into_iter().collect();
        let shown = |PartEntry { fork, .. }: &PartEntry| ForkPart {
            place: fork.place.clone(),
            scope: fork.scope,
            base_prefix: fork.base_prefix.clone(),
        };
        whole.fork.parts = parts.iter().map(shown).collect();
        ForkEntry { whole, parts }
    }

    /// The fork itself.
    pub(crate) fn fork(&self) -> &Fork {
        &self.whole.fork
    }

    /// The fork itself and all other parts.
    pub(crate) fn all_parts(&self) -> impl Iterator<Item = &PartEntry> {
        std::iter::once(&self.whole).chain(&self.parts)
    }

    /// The parts that the fork's owner may change, without the fork itself.
    pub(crate) fn writable_parts(&self) -> impl Iterator<Item = &PartEntry> {
        self.parts.iter().filter(|part| part.fork.scope == AccessScope::ReadWrite)
    }

    /// The Workspaces of a fork: one for each part, and a barrier for every path that is excluded from the fork.
    ///
    /// `managed` is how long files of a part live, if the Workspace that it was made from is managed.
    pub(crate) fn workspaces(&self, managed: impl Fn(&Fork) -> Option<Ttl>) -> Result<Vec<Workspace>> {
        let parts = self.all_parts().map(|part| part.workspace(managed(&part.fork)));
        let mut workspaces = parts.collect::<Result<Vec<_>>>()?;
        let PartEntry { fork, store, .. } = &self.whole;
        let prefix = fork_prefix(&fork.name);
        for excluded in &fork.excluded {
            let Ok(prefix) = prefix.join(&excluded.as_str()[1..]) else { continue };
            let mount = Mount::at(Arc::clone(store), &fork.path);
            let nested = Workspace::new(prefix, AccessScope::ReadOnly, mount);
            workspaces.push(nested.as_barrier(Barrier::ExcludedFromFork));
        }
        Ok(workspaces)
    }
}

/// The logical path of a fork.
pub(crate) fn fork_prefix(name: &ForkName) -> VfsPath {
    VfsPath::parse(&format!("/forks/{name}")).expect("the name of a fork is a valid path component")
}
