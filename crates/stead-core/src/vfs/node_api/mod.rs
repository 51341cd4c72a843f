//! The node API: the door as a mounted file system uses it.
//!
//! A program looks things up one name at a time, and refers to the node it has found even if names change. So a call
//! here takes a name in a directory that was looked up before ([`DirectoryRef`]), or a node with the path that it had.
//! The path is routed, authorized and audited; the node says which one is meant. If another node is at the path by now,
//! the call fails with a conflict, and the caller has to look it up again.
//!
//! No redirect is followed. The kernel follows symlinks, and looks up every name on the way. A rule of the stead
//! ([`Redirects`](crate::vfs::Redirects)) doesn't apply: a node that was looked up has its own path, and a rule that
//! leads that path elsewhere would make one node two, so a mount shows each Workspace as it is. Missing parents aren't created,
//! no approval is requested, and the lost-update guard is off. Lookups aren't audited. An open file is, from its
//! opening to its closing, and so is every change of a name.
//!
//! Hidden names are listed and can be created, and existing ones can't be opened: see `vfs/hiding.rs`.

mod files;
mod list;
mod lookup;
mod names;
mod special_files;
#[cfg(test)]
mod tests;

pub use list::DirectoryPage;
pub use lookup::Lookup;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::name::Name;
use crate::path::{PathError, VfsPath};
use crate::store::{Feed, FeedEntry, NodeId, Parents, QuotaLimits, Store, StoreError, StorePath, Usage};
use crate::vfs::Vfs;
use crate::vfs::call::{Call, ParsedPath};
use crate::vfs::hiding::HiddenFiles;
use crate::vfs::resolve::ResolvedPath;
use crate::workspace::Workspace;

/// A directory that was looked up before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryRef {
    /// The path that the directory had.
    pub path: VfsPath,
    /// The directory's node; `None` if it is shown only because of the Workspaces.
    pub node: Option<NodeId>,
}

/// A [`Vfs`] for a mounted file system.
#[derive(Debug)]
pub struct NodeApi {
    vfs: Vfs,
    workspaces: Vec<Arc<Workspace>>,
    /// The nodes that were created through this API in WRITE_ONLY Workspaces, each with the index of its Workspace.
    created_hidden: Mutex<HashSet<(usize, NodeId)>>,
    special_files: special_files::SpecialFiles,
    mounted_at: Timestamp,
}

impl NodeApi {
    /// The node API of a file system that is mounted now.
    pub fn new(vfs: &Vfs) -> Self {
        let (workspaces, mounted_at) = (vfs.router().workspaces().cloned().collect(), vfs.shared.clock.now());
        NodeApi {
            vfs: Vfs { hidden_files: HiddenFiles::Listed, ..vfs.clone() },
            workspaces,
            created_hidden: Mutex::default(),
            special_files: special_files::SpecialFiles::default(),
            mounted_at,
        }
    }

    /// The Workspaces, in the order of the indexes that [`Lookup::workspace`] holds.
    pub fn workspaces(&self) -> &[Arc<Workspace>] {
        &self.workspaces
    }

    /// The Store of a Workspace, by the Workspace's index.
    pub fn store(&self, workspace: usize) -> &Arc<dyn Store> {
        self.workspaces[workspace].mount().store()
    }

    /// The path in its Store that a Workspace shows.
    pub fn mount_path(&self, workspace: usize) -> &StorePath {
        self.workspaces[workspace].mount().path()
    }

    /// Whether the rights in a Workspace may be taken away while the file system is mounted.
    pub fn may_lose_rights(&self, workspace: usize) -> bool {
        let rights = self.vfs.shared.current_rights.as_ref();
        rights.is_some_and(|rights| rights.may_withdraw(&self.workspaces[workspace]))
    }

    /// Makes open files of a node show changes that weren't made through them.
    pub fn refresh(&self, workspace: usize, node: NodeId) {
        let limit = self.vfs.shared.limits.max_file_size;
        self.vfs.shared.open_nodes.refresh(self.store(workspace), node, limit);
    }

    /// Starts to record which revisions are made through this API, for [`NodeApi::foreign_changes`].
    pub fn track_feed_echoes(&self) {
        self.vfs.shared.feed_echoes.start_tracking();
    }

    /// The changes in a Store's feed that weren't made through this API. The pages of the feed must be passed in order.
    pub fn foreign_changes(&self, store: &dyn Store, feed: Feed) -> Vec<FeedEntry> {
        let own_revisions = &self.vfs.shared.feed_echoes;
        // The feed may report a change before the call that makes it has recorded its revision.
        own_revisions.wait_for_pending();
        let mut changes = feed.changes;
        changes.retain(|entry| !own_revisions.contains(store.revision(entry.revision)));
        own_revisions.forget_up_to(store.revision(feed.cursor));
        changes
    }

    /// The quota with the fewest bytes left among those that a path counts against, and its usage; `None` if there is
    /// none.
    pub fn tightest_quota(&self, path: &VfsPath) -> Result<Option<(QuotaLimits, Usage)>> {
        let remaining_bytes = |(limits, usage): &(QuotaLimits, Usage)| {
            limits.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(usage.bytes))
        };
        Ok(self.vfs.quota_usage(path)?.into_iter().min_by_key(remaining_bytes))
    }

    fn workspace_index(&self, workspace: &Workspace) -> usize {
        let found = self.workspaces.iter().position(|known| known.prefix() == workspace.prefix());
        found.expect("the Workspaces of a Vfs never change")
    }
}

/// The path of a name in a directory.
fn child_path(directory: &DirectoryRef, name: &Name) -> ParsedPath {
    let text = std::str::from_utf8(name.as_bytes()).map_err(|_| PathError::NotUtf8(name.to_string()))?;
    VfsPath::parse(text)?;
    directory.path.join(text)
}

impl Call<'_> {
    /// An error of a Store about a path.
    fn store_error(&self, path: &VfsPath, workspace: &Workspace, cause: StoreError) -> Error {
        Error::Store {
            path: path.clone(),
            visibility: crate::error::Visibility::of(workspace.scope()),
            cause,
        }
    }

    /// Checks that a directory is still at its path. If it is, what was looked up by that path before is in this
    /// directory.
    fn check_directory(&self, directory: &DirectoryRef) -> Result<()> {
        let Some(route) = self.shared().router.route(&directory.path) else { return Ok(()) };
        let Some(node) = directory.node.filter(|_| !route.relative_path.is_empty()) else { return Ok(()) };
        let mount = route.workspace.mount();
        match mount.store().stat(&mount.node_path(route.relative_path)) {
            Ok(attr) if attr.node == node => Ok(()),
            Ok(_) | Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => {
                Err(self.store_error(&directory.path, route.workspace, StoreError::Conflict))
            }
            Err(cause) => Err(self.store_error(&directory.path, route.workspace, cause)),
        }
    }

    /// Whether missing parents are created: only if the directory is shown although no Store holds it.
    fn parents_policy(&self, directory: &DirectoryRef) -> Parents {
        if directory.node.is_none() { Parents::Create } else { Parents::Required }
    }
}

/// The directories of a change, as its precondition (`Change::expect_nodes`).
fn expected_nodes(entries: &[(&ResolvedPath<'_>, &DirectoryRef)]) -> Vec<(StorePath, NodeId)> {
    let expected = |(resolved, directory): &(&ResolvedPath<'_>, &DirectoryRef)| {
        let (parent, _) = resolved.node_path.path.parent_and_name()?;
        Some((StorePath::from_checked(parent), directory.node?))
    };
    entries.iter().filter_map(expected).collect()
}

/// Turns a symlink on the path into a conflict: the directory that the caller refers to has been replaced.
fn symlink_as_conflict(cause: StoreError) -> StoreError {
    if let StoreError::Link(_) = cause { StoreError::Conflict } else { cause }
}
