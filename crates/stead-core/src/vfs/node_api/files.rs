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
            let resolved = call.authorize_open(path, options)?;
            resolved.check_openable()?;
            let rights = if options.read { HostRights::Read } else { HostRights::Write };
            call.open_resolved(&resolved, Some(node), rights, options)
        })?;
        if options.truncate {
            file.set_size(0)?;
        }
        Ok(file)
    }

    /// Opens an already open file again, with other options, after its name was removed.
    pub fn reopen(&self, file: &OpenFile, options: OpenOptions) -> Result<OpenFile> {
        let (reopened, _) = self.vfs.subcall("open", [Ok(file.path().clone())], |call, [path]| {
            let resolved = call.authorize_open(path, options)?;
            call.open_file(file.open_node(), &resolved, options)
        })?;
        if options.truncate {
            reopened.set_size(0)?;
        }
        Ok(reopened)
    }

    /// Creates a file and opens it. With [`Precondition::Any`], an existing file is opened instead; with
    /// [`Precondition::Absent`], it is an error.
    pub fn create(
        &self,
        directory: &DirectoryRef,
        name: &Name,
        mode: u32,
        expect: Precondition,
        options: OpenOptions,
    ) -> Result<(OpenFile, Lookup)> {
        let ((file, lookup), changed) =
            self.vfs.subcall("open", [child_path(directory, name)], |call, [path]| {
                let resolved = call.authorize_open(path, options)?;
                resolved.check_not_protected_ancestor()?;
                let put_options = PutOptions {
                    expect: Precondition::Absent,
                    parents: call.parents_policy(directory),
                    mode: Some(mode),
                    displaced: resolved.displaced_content(),
                    ..PutOptions::default()
                };
                self.special_files.check_free(directory.node, &resolved)?;
                let is_new = options.truncate || expect == Precondition::Absent;
                call.note_prior_content(
                    &resolved,
                    if is_new { PriorContent::Replaced } else { PriorContent::MayRemain },
                );
                let write_step = |put_options| Step::Write {
                    at: resolved.node_path.clone(),
                    content: Content::Bytes(Vec::new()),
                    options: put_options,
                };
                let change = |put_options| {
                    call.change_at(
                        &resolved,
                        vec![write_step(put_options)],
                        expected_nodes(&[(&resolved, directory)]),
                    )
                };
                let overwrite = PutOptions { expect: Precondition::Any, mode: None, ..put_options.clone() };
                let (created, rights) = match change(put_options) {
                    // In a WRITE_ONLY Workspace, opening an existing file makes as many revisions as creating one, in
                    // the same operation: the caller must not learn which of the two happened.
                    Err(Error::Store { cause: StoreError::AlreadyExists, .. })
                        if expect == Precondition::Any && resolved.visibility() == Visibility::Hidden =>
                    {
                        if options.truncate {
                            change(overwrite)?;
                        } else {
                            call.apply_empty_change(SyncPolicy::Deferred)
                                .map_err(|cause| resolved.store_error(cause))?;
                        }
                        let existing = resolved
                            .store()
                            .stat(&resolved.node_path)
                            .map_err(|cause| resolved.store_error(symlink_as_conflict(cause)))?;
                        (Some(existing.node), HostRights::Write)
                    }
                    Err(Error::Store { cause: StoreError::AlreadyExists, .. })
                        if expect == Precondition::Any =>
                    {
                        resolved.check_openable()?;
                        (None, if options.read { HostRights::Read } else { HostRights::Write })
                    }
                    // The program that creates a file may read and write it, whatever mode it gives the file.
                    created => (Some(created?.node), HostRights::Write),
                };
                // A hidden file that another program has put in its place meanwhile can't be opened.
                let expected_node = created.filter(|_| resolved.check_openable().is_err());
                let file = call.open_resolved(&resolved, expected_node, rights, options)?;
                if created == Some(file.node()) {
                    file.mark_created_by(call);
                }
                let lookup = self.created_lookup(&resolved, file.attr());
                Ok((file, lookup))
            })?;
        if changed {
            file.mark_change_recorded();
        } else if options.truncate {
            file.set_size(0)?;
        }
        Ok((file, lookup))
    }
}

impl<'v> Call<'v> {
    /// Authorizes every access that the file is opened for.
    fn authorize_open(&self, path: &VfsPath, options: OpenOptions) -> Result<ResolvedPath<'v>> {
        let resolved = self.authorize(path, if options.read { Access::Read } else { Access::Write })?;
        if options.read && options.write {
            return self.authorize(path, Access::Write);
        }
        Ok(resolved)
    }

    fn open_resolved(
        &self,
        resolved: &ResolvedPath<'_>,
        expected_node: Option<NodeId>,
        rights: HostRights,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        let node = self
            .open_node(resolved, rights)
            .map_err(|cause| resolved.store_error(symlink_as_conflict(cause)))?;
        if expected_node.is_some_and(|expected_node| expected_node != node.node()) {
            return Err(resolved.store_error(StoreError::Conflict));
        }
        self.open_file(node, resolved, options)
    }
}
