//! Opening files.

use crate::error::{Error, Result, Visibility};
use crate::name::Name;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Content, NodeId, Precondition, PutOptions, Step, StoreError, SyncPolicy};
use crate::vfs::call::Call;
use crate::vfs::mounted::{DirectoryRef, Lookup, NodeApi, path_in, stale, still};
use crate::vfs::open::HostRights;
use crate::vfs::own_files::PriorContent;
use crate::vfs::resolve::ResolvedPath;
use crate::vfs::{OpenFile, OpenOptions};

impl NodeApi {
    /// Opens a file that was found before.
    pub fn open(&self, path: &VfsPath, node: NodeId, options: OpenOptions) -> Result<OpenFile> {
        let (file, _) = self.vfs.part("open", [Ok(path.clone())], |call, [path]| {
            let spot = call.to_open(path, options)?;
            let rights = if options.read { HostRights::Read } else { HostRights::Write };
            call.open_here(&spot, Some(node), rights, options)
        })?;
        if options.truncate {
            file.set_size(0)?;
        }
        Ok(file)
    }

    /// Opens a file once more that has no name any more: the same file, for what is asked now.
    pub fn reopen(&self, file: &OpenFile, options: OpenOptions) -> Result<OpenFile> {
        let (again, _) = self.vfs.part("open", [Ok(file.path().clone())], |call, [path]| {
            let spot = call.to_open(path, options)?;
            call.opened(file.open_node(), &spot, options)
        })?;
        if options.truncate {
            again.set_size(0)?;
        }
        Ok(again)
    }

    /// Makes a file and opens it; one that is there is opened, unless it has to be new. Says whether it is.
    pub fn create(
        &self,
        seat: &DirectoryRef,
        name: &Name,
        mode: u32,
        expect: Precondition,
        options: OpenOptions,
    ) -> Result<(OpenFile, Lookup)> {
        let ((file, looked), changed) = self.vfs.part("open", [path_in(seat, name)], |call, [path]| {
            let spot = call.to_open(path, options)?;
            spot.check_not_leading()?;
            let put = PutOptions {
                expect: Precondition::Absent,
                parents: call.parents_of(seat),
                mode: Some(mode),
                keep: spot.keep(),
                ..PutOptions::default()
            };
            self.specials.check_free(seat.node, &spot)?;
            let is_new = options.truncate || expect == Precondition::Absent;
            call.leaves(&spot, if is_new { PriorContent::Nothing } else { PriorContent::Something });
            let write =
                |put| Step::Write { at: spot.place.clone(), content: Content::Bytes(Vec::new()), put };
            let change = |put| call.change_at(&spot, vec![write(put)], still(&[(&spot, seat)]));
            let over = PutOptions { expect: Precondition::Any, mode: None, ..put.clone() };
            let (made, rights) = match change(put) {
                // Where the caller may not look, opening a file that is there makes as many versions as making one does, in the
                // same operation.
                Err(Error::Store { cause: StoreError::AlreadyExists, .. })
                    if expect == Precondition::Any && spot.sight() == Visibility::Blind =>
                {
                    if options.truncate {
                        change(over)?;
                    } else {
                        call.apply_nothing(SyncPolicy::Soon).map_err(|cause| spot.failed(cause))?;
                    }
                    let there = spot.store().stat(&spot.place).map_err(|cause| spot.failed(stale(cause)))?;
                    (Some(there.node), HostRights::Write)
                }
                Err(Error::Store { cause: StoreError::AlreadyExists, .. })
                    if expect == Precondition::Any && options.read =>
                {
                    (None, HostRights::Read)
                }
                Err(Error::Store { cause: StoreError::AlreadyExists, .. }) if expect == Precondition::Any => {
                    (None, HostRights::Write)
                }
                // The program that makes a file may read and write it, whatever mode it gives the file.
                made => (Some(made?.node), HostRights::Write),
            };
            let file = call.open_here(&spot, None, rights, options)?;
            if made == Some(file.node()) {
                file.was_created_by(call);
            }
            let looked = self.made(&spot, file.attr());
            Ok((file, looked))
        })?;
        if changed {
            file.is_recorded();
        } else if options.truncate {
            file.set_size(0)?;
        }
        Ok((file, looked))
    }
}

impl<'v> Call<'v> {
    /// Judges a path for all that it is opened for.
    fn to_open(&self, path: &VfsPath, options: OpenOptions) -> Result<ResolvedPath<'v>> {
        let spot = self.enter(path, if options.read { Access::Read } else { Access::Write })?;
        if options.read && options.write {
            return self.enter(path, Access::Write);
        }
        Ok(spot)
    }

    fn open_here(
        &self,
        spot: &ResolvedPath<'_>,
        meant: Option<NodeId>,
        rights: HostRights,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        let node = self.open_node(spot, rights).map_err(|cause| spot.failed(stale(cause)))?;
        if meant.is_some_and(|meant| meant != node.node()) {
            return Err(spot.failed(StoreError::Conflict));
        }
        self.opened(node, spot, options)
    }
}
