//! Listing a directory through the node API, page by page.

use crate::error::Result;
use crate::name::Name;
use crate::scope::Access;
use crate::store::{Listing, NodeKind, Page, StoreError};
use crate::vfs::call::Call;
use crate::vfs::node_api::{DirectoryRef, Lookup, NodeApi, child_path, symlink_as_conflict};
use crate::vfs::resolve::Authorized;

/// One page of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryPage {
    /// The entries. The first page begins with the names that lead to Workspaces and the special files; the entries of
    /// the Store follow, sorted by name.
    pub entries: Vec<(Name, Lookup)>,
    /// Where the next page starts; `None` if this is the last page.
    pub next: Option<Name>,
}

impl NodeApi {
    /// Audits that a directory is about to be listed, and looks it up. As long as its times stay the same, it holds the
    /// same names.
    pub fn begin_list(&self, directory: &DirectoryRef) -> Result<Lookup> {
        self.vfs.call("list", [Ok(directory.path.clone())], |call, [path]| {
            call.route_and_authorize(path, Access::Read)?;
            let lookup = self.lookup_in_call(call, path);
            call.check_directory(directory)?;
            lookup
        })
    }

    /// The first page of a directory. Not audited: see [`NodeApi::begin_list`].
    pub fn list(&self, directory: &DirectoryRef, limit: usize) -> Result<DirectoryPage> {
        self.vfs.unaudited_call("list", [Ok(directory.path.clone())], |call, _| {
            let mut page = self.page(call, directory, None, limit)?;
            let mut entries = Vec::new();
            for name in call.shared().router.child_names(&directory.path) {
                let name = Name::new(name.as_bytes()).expect("a component of a path is a name");
                entries.push((name.clone(), self.lookup(directory, &name)?));
            }
            let special = match call.route_and_authorize(&directory.path, Access::Read)? {
                Authorized::InWorkspace(resolved) => self.special_files.names_in(&resolved, directory.node),
                Authorized::AboveWorkspaces => Vec::new(),
            };
            for name in special {
                // A node of the Store with the same name takes precedence.
                let lookup = self.lookup(directory, &name).ok();
                entries.extend(
                    lookup
                        .filter(|lookup| matches!(lookup.attr.kind, NodeKind::Special(_)))
                        .map(|lookup| (name, lookup)),
                );
            }
            entries.append(&mut page.entries);
            Ok(DirectoryPage { entries, ..page })
        })
    }

    /// The page after the name `after`.
    pub fn list_next(&self, directory: &DirectoryRef, after: &Name, limit: usize) -> Result<DirectoryPage> {
        let path = [Ok(directory.path.clone())];
        self.vfs
            .unaudited_call("list", path, |call, _| self.page(call, directory, Some(after.clone()), limit))
    }

    fn page(
        &self,
        call: &Call<'_>,
        directory: &DirectoryRef,
        after: Option<Name>,
        limit: usize,
    ) -> Result<DirectoryPage> {
        let Authorized::InWorkspace(resolved) = call.route_and_authorize(&directory.path, Access::Read)?
        else {
            return Ok(DirectoryPage { entries: Vec::new(), next: None });
        };
        let page = Page { after, limit: limit.max(1), hide: None };
        let since = self.vfs.shared.open_nodes.commit_mark();
        let listing = match resolved.store().list(&resolved.node_path, &page) {
            Err(StoreError::NotFound) if call.is_synthetic_directory(&resolved) => {
                Listing { entries: Vec::new(), total: 0, more: false }
            }
            listing => listing.map_err(|cause| resolved.store_error(symlink_as_conflict(cause)))?,
        };
        call.check_directory(directory)?;
        let next = listing.entries.last().filter(|_| listing.more).map(|entry| entry.name.clone());
        // Also the names that aren't shown at all.
        let mut workspace_names = call.shared().router.child_names(&directory.path);
        workspace_names.extend(call.shared().router.absent_names(&directory.path));
        let mut entries = Vec::with_capacity(listing.entries.len());
        for entry in listing.entries {
            // A name that isn't valid in a path can't be looked up either, and a name that leads to a Workspace has its
            // own entry.
            let Ok(path) = child_path(directory, &entry.name) else { continue };
            if entry.name.as_path_component().is_some_and(|name| workspace_names.contains(name)) {
                continue;
            }
            entries.push((entry.name, Lookup { path, ..self.visible_lookup(&resolved, entry.attr, since) }));
        }
        Ok(DirectoryPage { entries, next })
    }
}
