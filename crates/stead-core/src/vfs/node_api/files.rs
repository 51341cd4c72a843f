//! Opening and creating files through the node API.

use crate::error::{Error, Result, Visibility};
use crate::name::Name;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Content, NodeId, Precondition, PutOptions, Step, StoreError, SyncPolicy};
use crate::vfs::call::Call;
use crate::vfs::node_api::{DirectoryRef, Lookup, NodeApi, child_path, expected_nodes, symlink_as_conflict};
use crate::vfs::open_file::HostRights;
use crate::vfs::own_files::PriorContent;
use crate::vfs::resolve::ResolvedPath;
use crate::vfs::{OpenFile, OpenOptions};

impl NodeApi {
    /// Opens a file that a lookup has found. If another node is at the path by now, this is a conflict.
    pub fn open(&self, path: &VfsPath, node: NodeId, options: OpenOptions) -> Result<OpenFile> {
        let (file, _) = self.vfs.subcall("open", [Ok(path.clone())], |call, [path]| {
            let spot = call.authorize_open(path, options)?;
            let rights = if options.read { HostRights::Read } else { HostRights::Write };
            call.open_resolved(&spot, Some(node), rights, options)
        })?;
        if options.truncate {
            file.set_size(0)?;
        }
        Ok(file)
    }

    /// Opens an already open file again, with other options, after its name was removed.
    pub fn reopen(&self, file: &OpenFile, options: OpenOptions) -> Result<OpenFile> {
        let (again, _) = self.vfs.subcall("open", [Ok(file.path().clone())], |call, [path]| {
            let spot = call.authorize_open(path, options)?;
            call.open_file(file.open_node(), &spot, options)
        })?;
        if options.truncate {
            again.set_size(0)?;
        }
        Ok(again)
    }

    /// Creates a file and opens it. With [`Precondition::Any`], an existing file is opened instead; with
    /// [`Precondition::Absent`], it is an error.
    pub fn create(
        &self,
        seat: &DirectoryRef,
        name: &Name,
        mode: u32,
        expect: Precondition,
        options: OpenOptions,
    ) -> Result<(OpenFile, Lookup)> {
        let ((file, looked), changed) =
            self.vfs.subcall("open", [child_path(seat, name)], |call, [path]| {
                let spot = call.authorize_open(path, options)?;
                spot.check_not_protected_ancestor()?;
                let put = PutOptions {
                    expect: Precondition::Absent,
                    parents: call.parents_policy(seat),
                    mode: Some(mode),
                    displaced: spot.displaced_content(),
                    ..PutOptions::default()
                };
                self.special_files.check_free(seat.node, &spot)?;
                let is_new = options.truncate || expect == Precondition::Absent;
                call.note_prior_content(
                    &spot,
                    if is_new { PriorContent::Replaced } else { PriorContent::MayRemain },
                );
                let write = |put| Step::Write {
                    at: spot.node_path.clone(),
                    content: Content::Bytes(Vec::new()),
                    options: put,
                };
                let change = |put| call.change_at(&spot, vec![write(put)], expected_nodes(&[(&spot, seat)]));
                let over = PutOptions { expect: Precondition::Any, mode: None, ..put.clone() };
                let (made, rights) = match change(put) {
                    // In a WRITE_ONLY Workspace, opening an existing file makes as many revisions as creating one, in
                    // the same operation: the caller must not learn which of the two happened.
                    Err(Error::Store { cause: StoreError::AlreadyExists, .. })
                        if expect == Precondition::Any && spot.visibility() == Visibility::Hidden =>
                    {
                        if options.truncate {
                            change(over)?;
                        } else {
                            call.apply_nothing(SyncPolicy::Deferred)
                                .map_err(|cause| spot.store_error(cause))?;
                        }
                        let there = spot
                            .store()
                            .stat(&spot.node_path)
                            .map_err(|cause| spot.store_error(symlink_as_conflict(cause)))?;
                        (Some(there.node), HostRights::Write)
                    }
                    Err(Error::Store { cause: StoreError::AlreadyExists, .. })
                        if expect == Precondition::Any && options.read =>
                    {
                        (None, HostRights::Read)
                    }
                    Err(Error::Store { cause: StoreError::AlreadyExists, .. })
                        if expect == Precondition::Any =>
                    {
                        (None, HostRights::Write)
                    }
                    // The program that creates a file may read and write it, whatever mode it gives the file.
                    made => (Some(made?.node), HostRights::Write),
                };
                let file = call.open_resolved(&spot, None, rights, options)?;
                if made == Some(file.node()) {
                    file.mark_created_by(call);
                }
                let looked = self.created_lookup(&spot, file.attr());
                Ok((file, looked))
            })?;
        if changed {
            file.mark_recorded();
        } else if options.truncate {
            file.set_size(0)?;
        }
        Ok((file, looked))
    }
}

impl<'v> Call<'v> {
    /// Authorizes every access that the file is opened for.
    fn authorize_open(&self, path: &VfsPath, options: OpenOptions) -> Result<ResolvedPath<'v>> {
        let spot = self.authorize(path, if options.read { Access::Read } else { Access::Write })?;
        if options.read && options.write {
            return self.authorize(path, Access::Write);
        }
        Ok(spot)
    }

    fn open_resolved(
        &self,
        spot: &ResolvedPath<'_>,
        meant: Option<NodeId>,
        rights: HostRights,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        let node =
            self.open_node(spot, rights).map_err(|cause| spot.store_error(symlink_as_conflict(cause)))?;
        if meant.is_some_and(|meant| meant != node.node()) {
            return Err(spot.store_error(StoreError::Conflict));
        }
        self.open_file(node, spot, options)
    }
}
