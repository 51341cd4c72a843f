//! Review forks: what an agent or a thread changes in a Workspace with `fork` goes to a fork of it, which a person reviews.
//!
//! The agent has the fork at the Workspace's own prefix. The fork belongs to no agent and to no thread: its owner is
//! `review:AGENT` or `review:AGENT/THREAD`, so it stays when a thread ends, and no stead lists it among its own forks.

use std::sync::Arc;

use parking_lot::Mutex;
use stead_core::store::{Fork, ForkName, Store, StoreError, StoreKind};
use stead_core::{AuditLog, Identity, Mount, Vfs, VfsPath, Workspace};
use stead_stores::{Database, ForkRecord, OverlayStore, VirtualStore};

use crate::config::{FilesPer, SteadScope, WorkspaceConfig};
use crate::error::{Error, Result};
use crate::fork_access::is_over_base;
use crate::lazy_store::{Abilities, LazyStore};
use crate::stead::Stead;
use crate::stores::Stores;
use crate::threads::SteadLease;

pub(crate) use stead_core::vfs::REVIEW_OWNER_PREFIX;

/// The longest part of a fork's name that is taken from the prefix of the Workspace.
const MAX_READABLE_NAME: usize = 32;

/// Whether the owner of a fork is the owner of review forks.
pub(crate) fn is_review_owner(owner: &str) -> bool {
    owner.starts_with(REVIEW_OWNER_PREFIX)
}

impl Stores {
    /// Where a Workspace with `fork` keeps its files: in the review fork of the agent or of the thread, which is made at its
    /// first use. `base` has the agent's Workspaces as they are without forks.
    pub(crate) fn review_mount(
        &self,
        workspace: &WorkspaceConfig,
        base: &Vfs,
        lease: Option<&SteadLease>,
    ) -> Result<Mount> {
        let lower = self.get(&workspace.store)?;
        let is_physical = lower.info().kind == StoreKind::Physical;
        let agent = &base.identity().agent;
        let thread = lease.filter(|_| workspace.fork == Some(FilesPer::Thread)).map(SteadLease::thread);
        let owner = match thread {
            Some(thread) => format!("{REVIEW_OWNER_PREFIX}{agent}/{}", thread.key().thread),
            None => format!("{REVIEW_OWNER_PREFIX}{agent}"),
        };
        let records = match self.database_source().existing_database()? {
            Some(database) => database.fork_records(&owner)?,
            None => Vec::new(),
        };
        let is_base = |record: &ForkRecord| {
            is_over_base(self.config(), workspace, record) && record.fork.path == workspace.path
        };
        let name =
            free_or_own_name(&workspace.prefix, thread.map(|thread| thread.thread()), &records, is_base);
        let id = Database::fork_id_in(self.database_id(), &owner, &name)?;
        let abilities = Abilities { feed: !is_physical, live_forks: is_physical, ..Abilities::ALL };
        let opened: Arc<Mutex<Option<VirtualStore>>> = Arc::default();
        let (base, prefix, source) = (base.clone(), workspace.prefix.clone(), self.database_source());
        let last_opened = Arc::clone(&opened);
        let open = move || {
            let fork = ReviewFork { owner: &owner, name: &name, prefix: &prefix, base: &base };
            let store = fork.open_or_make(&source.database()?)?;
            *last_opened.lock() = Some(store.clone());
            Ok(match is_physical {
                true => Arc::new(OverlayStore::open(store, Arc::clone(&lower))?) as Arc<dyn Store>,
                false => Arc::new(store),
            })
        };
        let store = LazyStore::new(&workspace.store, id, self.info_of(StoreKind::Virtual), abilities, open);
        // A fork that was discarded is made again.
        let store = store.while_current(move || {
            opened.lock().as_ref().is_none_or(|store| !store.is_discarded().unwrap_or(false))
        });
        Ok(Mount::at(Arc::new(store) as Arc<dyn Store>, &workspace.path))
    }
}

/// The fork that a Workspace shows.
struct ReviewFork<'a> {
    owner: &'a str,
    name: &'a ForkName,
    prefix: &'a VfsPath,
    base: &'a Vfs,
}

impl ReviewFork<'_> {
    /// The fork's volume, which is made if there is none.
    fn open_or_make(&self, database: &Database) -> Result<VirtualStore> {
        loop {
            match database.fork_store(self.owner, self.name) {
                Err(StoreError::NotFound) => {}
                store => return Ok(store?),
            }
            match self.base.fork(self.prefix, self.name.clone(), self.owner) {
                // Another process was faster.
                Err(stead_core::Error::Store { cause: StoreError::AlreadyExists, .. }) => {}
                made => drop(made?),
            }
        }
    }
}

/// The name of the review fork of a Workspace: that of the fork that it has, or else a name that is free. A fork that was made
/// when the Workspace showed other files keeps its name.
fn free_or_own_name(
    prefix: &VfsPath,
    thread: Option<i64>,
    records: &[ForkRecord],
    is_base: impl Fn(&ForkRecord) -> bool,
) -> ForkName {
    let readable = readable_name(prefix);
    // A thread of the same name that comes later is another one.
    let thread = thread.map(|thread| format!(".{thread}")).unwrap_or_default();
    let mut number = 1;
    loop {
        let again = if number == 1 { String::new() } else { format!("-{number}") };
        let name = format!("{readable}{thread}{again}").parse::<ForkName>();
        let name = name.expect("it has only characters that a name can have");
        match records.iter().find(|record| record.fork.name == name) {
            Some(record) if !is_base(record) => number += 1,
            _ => return name,
        }
    }
}

/// A prefix as part of a fork's name. Different prefixes have different names.
fn readable_name(prefix: &VfsPath) -> String {
    let text = &prefix.as_str()[1..];
    let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    if !text.is_empty() && text.len() <= MAX_READABLE_NAME && text.chars().all(is_plain) {
        let starts_well = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        if starts_well {
            return text.to_owned();
        }
    }
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let shown: String =
        text.chars().map(|character| if is_plain(character) { character } else { '-' }).collect();
    let shown: String = shown.trim_start_matches(['-', '_']).chars().take(MAX_READABLE_NAME).collect();
    match shown.is_empty() {
        true => format!("root-{}", &hash[..8]),
        false => format!("{shown}-{}", &hash[..8]),
    }
}

/// The base of a stead with review forks: its Workspaces as they are without them.
pub(crate) fn base_vfs(
    identity: &Identity,
    workspaces: Vec<Workspace>,
    audit: Option<Arc<dyn AuditLog>>,
) -> Result<Vfs> {
    let builder = Vfs::builder(identity.clone());
    let builder = workspaces.into_iter().fold(builder, |builder, workspace| builder.workspace(workspace));
    let builder = audit.into_iter().fold(builder, |builder, log| builder.audit(log));
    // Making the fork is no access that a person is asked about: the changes in it are what is reviewed.
    Ok(builder.build()?.with_approval())
}

impl Stead {
    /// Opens the stead of an agent as a person reviews what it has changed: with its Workspaces themselves in place of its
    /// review forks, and outside of its threads.
    ///
    /// [`Stead::review_forks`] lists what there is to review, [`Stead::merge_fork`] takes it over.
    pub fn open_for_review(stores: &Stores, identity: &Identity) -> Result<Stead> {
        let identity = Identity { thread: None, ..identity.clone() };
        Stead::open_adjusted(stores, &identity, |agent| {
            agent.scope = SteadScope::Agent;
            agent.workspaces.retain(|workspace| workspace.per == FilesPer::Agent);
            for workspace in &mut agent.workspaces {
                workspace.fork = None;
            }
        })
    }

    /// The review forks that this stead may merge, sorted by owner and name. The owner of each is `review:AGENT` or
    /// `review:AGENT/THREAD`.
    pub fn review_forks(&self) -> Result<Vec<Fork>> {
        let mut forks = self.forks_of_others()?;
        forks.retain(|fork| is_review_owner(&fork.owner));
        Ok(forks)
    }

    /// A fork that this stead may review: one of its own, `OWNER/FORK` of another agent, or a review fork, of which
    /// `AGENT/FORK` is enough. Returns its name as [`Stead::merge_fork`] takes it, and the prefix of the Workspace that it is
    /// merged into.
    pub fn find_reviewable(&self, name: &str) -> Result<(String, VfsPath)> {
        let review_name = format!("{REVIEW_OWNER_PREFIX}{name}");
        let (name, found) = match self.find_any_fork(name) {
            Err(error @ Error::UnknownFork { .. }) if !is_review_owner(name) => {
                (review_name.clone(), self.find_any_fork(&review_name).map_err(|_| error)?)
            }
            found => (name.to_owned(), found?),
        };
        Ok((name, self.target_of(&found.entry.whole)?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_readable_valid_and_different_for_different_prefixes() {
        let prefixes = ["/", "/code", "/a/b", "/a-b", "/a b", "/ä", "/_x", "/x", "/a.b", "/-x", "/ab"];
        let long = format!("/{}", "x".repeat(200));
        let longer = format!("/{}", "x".repeat(201));
        let all: Vec<VfsPath> = prefixes
            .into_iter()
            .chain([&*long, &*longer])
            .map(|prefix| VfsPath::parse(prefix).unwrap())
            .collect();
        let names: BTreeSet<String> = all
            .iter()
            .map(|prefix| free_or_own_name(prefix, Some(i64::MAX), &[], |_| true).to_string())
            .collect();
        assert_eq!(names.len(), all.len());
        assert_eq!(free_or_own_name(&all[1], None, &[], |_| true).as_str(), "code");
        assert_eq!(free_or_own_name(&all[1], Some(17), &[], |_| true).as_str(), "code.17");
    }
}
