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
        change: AttrChange,
        handle: Option<FileHandle>,
    ) -> FuseResult<EntryReply> {
        let (uid, gid) = self.options.owner;
        let changes_owner =
            change.uid.is_some_and(|new| new != uid) || change.gid.is_some_and(|new| new != gid);
        // Everything belongs to one user. Unless `strict_owner` is set, root's `chown` is accepted and ignored, so that
        // programs that restore owners, such as tar, go on without them.
        if changes_owner && (self.options.strict_owner || request.uid() != 0) {
            return Err(Errno::EPERM);
        }
        let change_guard = self.begin_change();
        if let Some(size) = change.size {
            if let Some(pages) = self.inodes.pages(ino.0) {
                pages.note_writers_blocked();
            }
            self.set_size(ino, size, handle)?;
        }
        let mut modified = change.modified.map(timestamp);
        if let Some(time) = modified
            && self.handles.files_of(ino.0).iter().any(|open| open.file.set_modified(time))
        {
            modified = None;
        }
        if change.mode.is_some() || modified.is_some() {
            self.set_attributes(ino, change.mode, modified)?;
        }
        drop(change_guard);
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
        let (node_ref, node) = (self.node_ref(ino)?, self.file_node(ino)?);
        let file =
            self.node_api.open(&node_ref.path, node, OpenOptions::write()).map_err(|error| errno(&error))?;
        drop(names);
        file.cut_under_readers(size).map_err(|error| errno(&error))?;
        self.commit(ino.0, &file, SyncPolicy::Deferred).map(drop)
    }

    fn set_attributes(&self, ino: INodeNo, mode: Option<u32>, modified: Option<Timestamp>) -> FuseResult<()> {
        let _names = self.names_lock.read();
        let mode = mode.map(|mode| mode & 0o7777);
        let Some(node_ref) = self.inodes.node_ref(ino.0) else {
            // It has no name any more: only programs that have it open see the change.
            let open = self.handles.any_file_of(ino.0).ok_or(Errno::ESTALE)?;
            open.file.set_unlinked_attributes(mode, modified);
            return Ok(());
        };
        let node = node_ref.node.ok_or(Errno::EPERM)?;
        let (lookup, before) = self
            .node_api
            .set_attributes((&node_ref.path, node), mode, modified)
            .map_err(|error| errno(&error))?;
        if lookup.attr.kind == NodeKind::File {
            // The content stays the same, so the kernel's pages stay valid.
            self.inodes.advance_cached_tag(ino.0, Some(before), lookup.attr.tag);
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
