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
    pub fn begin_list(&self, seat: &DirectoryRef) -> Result<Lookup> {
        self.vfs.call("list", [Ok(seat.path.clone())], |call, [path]| {
            call.route_and_authorize(path, Access::Read)?;
            let looked = self.lookup_in_call(call, path);
            call.check_directory(seat)?;
            looked
        })
    }

    /// The first page of a directory. Not audited: see [`NodeApi::begin_list`].
    pub fn list(&self, seat: &DirectoryRef, limit: usize) -> Result<DirectoryPage> {
        self.vfs.unaudited_call("list", [Ok(seat.path.clone())], |call, _| {
            let mut listed = self.page(call, seat, None, limit)?;
            let mut levels = Vec::new();
            for name in call.shared().router.child_names(&seat.path) {
                let name = Name::new(name.as_bytes()).expect("a component of a path is a name");
                levels.push((name.clone(), self.lookup(seat, &name)?));
            }
            let special = match call.route_and_authorize(&seat.path, Access::Read)? {
                Authorized::InWorkspace(spot) => self.special_files.names_in(&spot, seat.node),
                Authorized::AboveWorkspaces => Vec::new(),
            };
            for name in special {
                // A node of the Store with the same name takes precedence.
                let looked = self.lookup(seat, &name).ok();
                levels.extend(
                    looked
                        .filter(|looked| matches!(looked.attr.kind, NodeKind::Special(_)))
                        .map(|looked| (name, looked)),
                );
            }
            levels.append(&mut listed.entries);
            Ok(DirectoryPage { entries: levels, ..listed })
        })
    }

    /// The page after the name `after`.
    pub fn list_next(&self, seat: &DirectoryRef, after: &Name, limit: usize) -> Result<DirectoryPage> {
        let path = [Ok(seat.path.clone())];
        self.vfs.unaudited_call("list", path, |call, _| self.page(call, seat, Some(after.clone()), limit))
    }

    fn page(
        &self,
        call: &Call<'_>,
        seat: &DirectoryRef,
        after: Option<Name>,
        limit: usize,
    ) -> Result<DirectoryPage> {
        let Authorized::InWorkspace(spot) = call.route_and_authorize(&seat.path, Access::Read)? else {
            return Ok(DirectoryPage { entries: Vec::new(), next: None });
        };
        let page = Page { after, limit: limit.max(1) };
        let since = self.vfs.shared.open_nodes.commit_mark();
        let listing = match spot.store().list(&spot.node_path, &page) {
            Err(StoreError::NotFound) if call.is_synthetic_directory(&spot) => {
                Listing { entries: Vec::new(), total: 0, more: false }
            }
            listing => listing.map_err(|cause| spot.store_error(symlink_as_conflict(cause)))?,
        };
        call.check_directory(seat)?;
        let next = listing.entries.last().filter(|_| listing.more).map(|entry| entry.name.clone());
        let levels = call.shared().router.child_names(&seat.path);
        let mut entries = Vec::with_capacity(listing.entries.len());
        for entry in listing.entries {
            // A name that isn't valid in a path can't be looked up either, and a name that leads to a Workspace has its
            // own entry.
            let Ok(path) = child_path(seat, &entry.name) else { continue };
            if entry.name.as_path_component().is_some_and(|name| levels.contains(name)) {
                continue;
            }
            entries.push((entry.name, Lookup { path, ..self.visible_lookup(&spot, entry.attr, since) }));
        }
        Ok(DirectoryPage { entries, next })
    }
}
