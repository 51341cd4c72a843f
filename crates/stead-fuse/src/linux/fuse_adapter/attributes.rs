//! Setting sizes, modes and times.

use fuser::{Errno, FileHandle, INodeNo, Request, TimeOrNow};
use stead_core::Timestamp;
use stead_core::store::{NodeKind, SyncPolicy};
use stead_core::vfs::OpenOptions;

use super::{EntryReply, FuseAdapter, FuseResult};
use crate::linux::attributes::timestamp;
use crate::linux::errno::errno;

impl FuseAdapter {
    pub(crate) fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        wanted: AttrChange,
        handle: Option<FileHandle>,
    ) -> FuseResult<EntryReply> {
        let (uid, gid) = self.options.owner;
        let is_other =
            wanted.uid.is_some_and(|wanted| wanted != uid) || wanted.gid.is_some_and(|wanted| wanted != gid);
        // Everything belongs to one user. Unless `strict_owner` is set, root's `chown` is accepted and ignored, so that
        // programs that restore owners, such as tar, go on without them.
        if is_other && (self.options.strict_owner || request.uid() != 0) {
            return Err(Errno::EPERM);
        }
        let changing = self.begin_change();
        if let Some(size) = wanted.size {
            if let Some(pages) = self.inodes.pages(ino.0) {
                pages.note_no_writers();
            }
            self.set_size(ino, size, handle)?;
        }
        let mut modified = wanted.modified.map(timestamp);
        if let Some(at) = modified
            && self.handles.files_of(ino.0).iter().any(|open| open.file.set_modified(at))
        {
            modified = None;
        }
        if wanted.mode.is_some() || modified.is_some() {
            self.set_attributes(ino, wanted.mode, modified)?;
        }
        drop(changing);
        self.getattr(ino, handle)
    }

    fn set_size(&self, ino: INodeNo, size: u64, handle: Option<FileHandle>) -> FuseResult<()> {
        if let Some(open) = handle.and_then(|handle| self.handles.file(handle.0)) {
            return open.file.cut_under_readers(size).map_err(|error| errno(&error));
        }
        // When a file is opened with O_TRUNC, the kernel truncates it without saying for which handle. That isn't a
        // change of its own: the program that has opened the file is about to make one.
        if self
            .handles
            .files_of(ino.0)
            .iter()
            .any(|open| open.is_writable && open.file.cut_under_readers(size).is_ok())
        {
            return Ok(());
        }
        let names = self.names_lock.read();
        let (seat, node) = (self.directory_ref(ino)?, self.file_node(ino)?);
        let file =
            self.node_api.open(&seat.path, node, OpenOptions::write()).map_err(|error| errno(&error))?;
        drop(names);
        file.cut_under_readers(size).map_err(|error| errno(&error))?;
        self.commit(ino.0, &file, SyncPolicy::Deferred).map(drop)
    }

    fn set_attributes(&self, ino: INodeNo, mode: Option<u32>, modified: Option<Timestamp>) -> FuseResult<()> {
        let _names = self.names_lock.read();
        let mode = mode.map(|mode| mode & 0o7777);
        let Some(seat) = self.inodes.directory_ref(ino.0) else {
            // It has no name any more: only programs that have it open see the change.
            let open = self.handles.any_file_of(ino.0).ok_or(Errno::ESTALE)?;
            open.file.set_unlinked_attributes(mode, modified);
            return Ok(());
        };
        let node = seat.node.ok_or(Errno::EPERM)?;
        let (looked, before) = self
            .node_api
            .set_attributes((&seat.path, node), mode, modified)
            .map_err(|error| errno(&error))?;
        if looked.attr.kind == NodeKind::File {
            // The content stays the same, so the kernel's pages stay valid.
            self.inodes.advance_cached_tag(ino.0, Some(before), looked.attr.tag);
        }
        Ok(())
    }
}

/// The attributes that a program wants to change.
pub(crate) struct AttrChange {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) modified: Option<TimeOrNow>,
}
