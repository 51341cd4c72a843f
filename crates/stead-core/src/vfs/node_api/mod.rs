//! The door as a mounted file system uses it.
//!
//! A program finds things one name at a time, and means what it has found whatever happens to the names. So a call
//! here is about a name in a directory that was found before ([`Seat`]), or about a node at the path that it had. The
//! path is what is routed, judged and written down; the node says what is meant. Where another is there by now, the
//! answer is Conflict, and whoever asked has to look again.
//!
//! Symlinks are not followed: the host does that, and asks for every name on the way. Parents that are missing are not
//! made, nobody is asked, and a write over a version that was not read is a write. A lookup is not written down; an
//! open file is, from its opening to its end, and so is every change of a name.

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
use crate::vfs::quota::DraftCounting;
use crate::vfs::resolve::ResolvedPath;
use crate::workspace::Workspace;

/// A directory that was found before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryRef {
    /// The path that it had.
    pub path: VfsPath,
    /// The node that it is; `None` for a level that is there only because of the Workspaces.
    pub node: Option<NodeId>,
}

/// The door of a mounted file system.
#[derive(Debug)]
pub struct NodeApi {
    vfs: Vfs,
    workspaces: Vec<Workspace>,
    /// What was made through it where it may not look: the Workspace and the node.
    created_hidden: Mutex<HashSet<(usize, NodeId)>>,
    special_files: special_files::SpecialFiles,
    mounted_at: Timestamp,
}

impl NodeApi {
    /// The door of a file system that is mounted now.
    pub fn new(vfs: &Vfs) -> Self {
        let (workspaces, mounted_at) = (vfs.workspaces().cloned().collect(), vfs.shared.clock.now());
        NodeApi {
            vfs: vfs.clone(),
            workspaces,
            created_hidden: Mutex::default(),
            special_files: special_files::SpecialFiles::default(),
            mounted_at,
        }
    }

    /// The Workspaces, by the numbers that [`Looked`] names.
    pub fn workspaces(&self) -> &[Workspace] {
        &self.workspaces
    }

    /// The Store behind a Workspace.
    pub fn store(&self, workspace: usize) -> &Arc<dyn Store> {
        self.workspaces[workspace].mount().store()
    }

    /// Where a Workspace begins in its Store.
    pub fn mount_path(&self, workspace: usize) -> &StorePath {
        self.workspaces[workspace].mount().path()
    }

    /// Has whoever reads a node see what another has changed.
    pub fn refresh(&self, workspace: usize, node: NodeId) {
        let limit = self.vfs.shared.limits.max_file_size;
        self.vfs.shared.open_nodes.refresh(self.store(workspace), node, limit);
    }

    /// Remembers from now on which versions are made through this door, for [`Mounted::others`].
    pub fn track_own_revisions(&self) {
        self.vfs.shared.own_revisions.start_tracking();
    }

    /// What others have changed, of all that a Store's feed tells. It has to be asked in the feed's order.
    pub fn foreign_changes(&self, store: &dyn Store, feed: Feed) -> Vec<FeedEntry> {
        let own = &self.vfs.shared.own_revisions;
        // The feed may tell of a change before whoever makes it knows.
        own.wait_for_pending();
        let mut changes = feed.changes;
        changes.retain(|changed| !own.contains(store, changed.revision));
        own.forget_up_to(store, feed.cursor);
        changes
    }

    /// The allowance that a path counts against and how much of it is used: the one of which least is left.
    pub fn tightest_quota(&self, path: &VfsPath) -> Result<Option<(QuotaLimits, Usage)>> {
        self.vfs.unaudited_call("statfs", [Ok(path.clone())], |call, [path]| {
            let Some(route) = call.shared().router.route(path) else { return Ok(None) };
            if route.workspace.barrier().is_some() {
                return Ok(None);
            }
            let store = &**route.workspace.mount().store();
            let place = route.workspace.mount().node_path(route.relative_path);
            let failed = |cause| call.store_error(path, route.workspace, cause);
            let mut tightest: Option<(QuotaLimits, Usage)> = None;
            let quotas = call.quotas_for(store, DraftCounting::Counted).map_err(failed)?;
            let withheld = call.undisclosed_limits(store, &quotas);
            for quota in quotas {
                if !quota.roots().any(|root| place.path.is_at_or_below(root)) {
                    continue;
                }
                let mut usage = quota.usage_elsewhere;
                for root in quota.roots() {
                    usage = usage.plus(store.usage(root).map_err(failed)?);
                }
                // Where something counts that may not be looked at, the limit alone is told.
                if withheld.contains(&quota.limits) {
                    usage = Usage::default();
                }
                let left = |limits: &QuotaLimits, usage: &Usage| {
                    limits.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(usage.bytes))
                };
                let is_tighter = tightest
                    .as_ref()
                    .is_none_or(|(limits, used)| left(&quota.limits, &usage) < left(limits, used));
                if is_tighter {
                    tightest = Some((quota.limits, usage));
                }
            }
            Ok(tightest)
        })
    }

    fn workspace_index(&self, workspace: &Workspace) -> usize {
        let found = self.workspaces.iter().position(|known| known.prefix() == workspace.prefix());
        found.expect("a door has the same Workspaces as long as it is there")
    }
}

/// The path of a name in a directory.
fn child_path(seat: &DirectoryRef, name: &Name) -> ParsedPath {
    let text = std::str::from_utf8(name.as_bytes()).map_err(|_| PathError::NotUtf8(name.to_string()))?;
    VfsPath::parse(text)?;
    seat.path.join(text)
}

impl Call<'_> {
    /// A Store's answer about a path.
    fn store_error(&self, path: &VfsPath, workspace: &Workspace, cause: StoreError) -> Error {
        Error::Store {
            path: path.clone(),
            visibility: crate::error::Visibility::of(workspace.scope()),
            cause,
        }
    }

    /// Makes sure that a directory is still where the caller takes it to be. What was found by its path is in it then.
    fn check_directory(&self, seat: &DirectoryRef) -> Result<()> {
        let Some(route) = self.shared().router.route(&seat.path) else { return Ok(()) };
        let Some(node) = seat.node.filter(|_| !route.relative_path.is_empty()) else { return Ok(()) };
        let mount = route.workspace.mount();
        match mount.store().stat(&mount.node_path(route.relative_path)) {
            Ok(attr) if attr.node == node => Ok(()),
            Ok(_) | Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => {
                Err(self.store_error(&seat.path, route.workspace, StoreError::Conflict))
            }
            Err(cause) => Err(self.store_error(&seat.path, route.workspace, cause)),
        }
    }

    /// Whether missing parents of a spot are made: only those that are shown although they are not there.
    fn parents_policy(&self, seat: &DirectoryRef) -> Parents {
        if seat.node.is_none() { Parents::Create } else { Parents::Required }
    }
}

/// The directories that a change is meant for.
fn expected_nodes(spots: &[(&ResolvedPath<'_>, &DirectoryRef)]) -> Vec<(StorePath, NodeId)> {
    let held = |(spot, seat): &(&ResolvedPath<'_>, &DirectoryRef)| {
        let (parent, _) = spot.node_path.path.parent_and_name()?;
        Some((StorePath::from_checked(parent), seat.node?))
    };
    spots.iter().filter_map(held).collect()
}

/// A symlink where a directory was: it is another one by now.
fn symlink_as_conflict(cause: StoreError) -> StoreError {
    if let StoreError::Link(_) = cause { StoreError::Conflict } else { cause }
}
