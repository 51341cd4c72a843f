//! Directory listings.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fuser::{Errno, FileAttr, FileHandle, FopenFlags, INodeNo};
use stead_core::store::{Attr, NodeId, NodeKind, VersionTag};
use stead_core::vfs::node_api::Lookup;
use stead_core::{Name, Timestamp};

use super::{EntryReply, FuseAdapter, FuseResult, TTL_WITHOUT_FEED};
use crate::linux::attributes::{LINK_COUNT, file_attr};
use crate::linux::errno::{errno, store_errno};
use crate::linux::handles::{DirectoryBuffer, OpenedDirectory};
use crate::linux::inodes::DirectoryState;

/// How many entries of a directory are read from the Store at once.
const PAGE_SIZE: usize = 4096;
/// How long the kernel may serve a listing from its cache. The entries themselves expire and would then be looked up
/// one by one; a new listing renews all of them at once.
const LISTING_TTL: Duration = Duration::from_secs(30);

/// One entry of a listing.
pub(crate) struct ListedEntry<'a> {
    pub(crate) name: &'a OsStr,
    /// The offset of the next entry.
    pub(crate) next: u64,
    source: EntrySource<'a>,
}

enum EntrySource<'a> {
    /// `.` or `..`, with its inode number.
    Dot(u64),
    /// What was found at the name, and whether that may be out of date by now.
    Named { name: &'a Name, lookup: &'a Lookup, is_old: bool },
}

impl FuseAdapter {
    pub(crate) fn opendir(&self, ino: INodeNo) -> FuseResult<(u64, FopenFlags)> {
        let _names = self.names_lock.read();
        let directory = self.node_api.begin_list(&self.node_ref(ino)?).map_err(|error| errno(&error))?;
        let mut flags = FopenFlags::empty();
        if let Some(state) = self.cacheable_state(&directory) {
            flags |= FopenFlags::FOPEN_CACHE_DIR;
            if self
                .inodes
                .listed(ino.0)
                .is_some_and(|(listed, listed_at)| listed == state && listed_at.elapsed() < LISTING_TTL)
            {
                flags |= FopenFlags::FOPEN_KEEP_CACHE;
            }
        }
        Ok((self.handles.add_directory(OpenedDirectory::default()), flags))
    }

    /// The state of a directory, if the kernel may cache its listing. Without a feed, the cached entries would expire
    /// soon and be looked up one by one, while a new listing renews all of them at once.
    fn cacheable_state(&self, directory: &Lookup) -> Option<DirectoryState> {
        let Attr { modified, changed, .. } = directory.attr;
        let node = directory.node.filter(|_| self.ttl(directory) > TTL_WITHOUT_FEED)?;
        Some(DirectoryState { node, modified, changed })
    }

    fn first_page(&self, ino: INodeNo) -> FuseResult<DirectoryBuffer> {
        let (change_count, read_at) = (self.change_count.load(Ordering::SeqCst), Some(Instant::now()));
        let _names = self.names_lock.read();
        let node_ref = self.node_ref(ino)?;
        let before = self.node_api.lookup_path(&node_ref.path).map_err(|error| errno(&error))?;
        let page = self.node_api.list(&node_ref, PAGE_SIZE).map_err(|error| errno(&error))?;
        self.inodes.set_listed(ino.0, self.cacheable_state(&before));
        Ok(DirectoryBuffer { entries: page.entries, next: page.next, change_count, read_at })
    }

    /// Passes the entries of a directory, from an offset on, to `emit` until it returns true.
    pub(crate) fn read_directory(
        &self,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut emit: impl FnMut(&ListedEntry<'_>) -> bool,
    ) -> FuseResult<()> {
        let directory = self.handles.directory(handle.0).ok_or(Errno::EBADF)?;
        let mut buffer = directory.buffer.lock();
        // The first page is read here rather than in `opendir`, because the kernel lets no program change the directory
        // now: it may cache the names until one does. A program that begins again gets the entries that exist then.
        if offset == 0 {
            *buffer = self.first_page(ino)?;
        }
        // Changes from here on are handled by the kernel itself: it takes the reply for no newer than its request.
        let is_old = buffer.change_count != self.change_count.load(Ordering::SeqCst)
            || buffer.read_at.is_none_or(|since| since.elapsed() >= TTL_WITHOUT_FEED);
        for position in offset.. {
            let dot = |name, dot_ino| ListedEntry {
                name: OsStr::new(name),
                next: position + 1,
                source: EntrySource::Dot(dot_ino),
            };
            let entry = match position {
                0 => dot(".", ino.0),
                1 => dot("..", self.inodes.parent(ino.0)),
                _ => {
                    let index = usize::try_from(position - 2).expect("an index of entries in memory");
                    if index >= buffer.entries.len() {
                        let Some(next) = buffer.next.take() else { break };
                        let _names = self.names_lock.read();
                        let page = self.node_api.list_next(&self.node_ref(ino)?, &next, PAGE_SIZE);
                        let page = page.map_err(|error| errno(&error))?;
                        buffer.entries.extend(page.entries);
                        buffer.next = page.next;
                        if index >= buffer.entries.len() {
                            break;
                        }
                    }
                    let (name, lookup) = &buffer.entries[index];
                    let source = EntrySource::Named { name, lookup, is_old };
                    ListedEntry { name: OsStr::from_bytes(name.as_bytes()), next: position + 1, source }
                }
            };
            if emit(&entry) {
                break;
            }
        }
        Ok(())
    }

    /// The inode number and kind of an entry. The kernel learns nothing else about it, so no lookup is counted.
    pub(crate) fn entry_ino_and_kind(&self, directory: INodeNo, entry: &ListedEntry<'_>) -> (u64, NodeKind) {
        match entry.source {
            EntrySource::Dot(ino) => (ino, NodeKind::Directory),
            EntrySource::Named { name, lookup, .. } => {
                (self.inodes.record_found(directory.0, name, lookup, false), lookup.attr.kind)
            }
        }
    }

    /// The full reply about an entry, which counts as a lookup; `None` if the entry is gone by now.
    pub(crate) fn listed_entry_reply(
        &self,
        directory: INodeNo,
        entry: &ListedEntry<'_>,
    ) -> Option<EntryReply> {
        match entry.source {
            // The kernel ignores the attributes of these two, except for the kind.
            EntrySource::Dot(ino) => {
                Some(EntryReply { ttl: Duration::ZERO, attr: self.dot_attr(ino), stale_for: None })
            }
            EntrySource::Named { name, lookup, is_old: false } => {
                Some(self.record_entry(directory.0, name, lookup))
            }
            // An entry that is out of date is looked up again: the kernel would take an old size for the current one,
            // and a removed name for an existing one.
            EntrySource::Named { name, is_old: true, .. } => {
                let _names = self.names_lock.read();
                let lookup = self.node_api.lookup(&self.node_ref(directory).ok()?, name).ok()?;
                Some(self.record_entry(directory.0, name, &lookup))
            }
        }
    }

    /// The attributes of `.` and `..`, of which the kernel uses only the kind.
    fn dot_attr(&self, ino: u64) -> FileAttr {
        let (node, modified, tag) = (NodeId::ROOT, Timestamp(0), VersionTag(0));
        let (kind, size, mode, created) = (NodeKind::Directory, 0, 0o755, None);
        let attr = Attr { node, kind, size, mode, created, modified, changed: modified, tag };
        file_attr(ino, &attr, LINK_COUNT, self.options.owner)
    }

    /// Undoes the lookup of an entry that didn't fit into the reply.
    pub(crate) fn undo_lookup(&self, entry: &ListedEntry<'_>, reply: &EntryReply) {
        if let EntrySource::Named { .. } = entry.source {
            self.forget(reply.attr.ino.0, 1);
        }
    }

    /// Lowers an inode's lookup count, and tells the Stores which nodes the kernel doesn't know any more.
    pub(crate) fn forget(&self, ino: u64, times: u64) {
        for (workspace, node) in self.inodes.forget(ino, times) {
            self.node_api.store(workspace).forget_node(node);
        }
    }

    /// Syncs the changes in a directory to disk, with everything else in its Store.
    pub(crate) fn fsync_directory(&self, ino: INodeNo) -> FuseResult<()> {
        let Some(workspace) = self.workspace_of(ino) else { return Ok(()) };
        self.node_api.store(workspace).sync().map_err(|cause| store_errno(&cause))
    }

    fn workspace_of(&self, ino: INodeNo) -> Option<usize> {
        let path = self.inodes.node_ref(ino.0)?.path;
        let prefix = self.router.route(&path)?.workspace.prefix();
        self.node_api.workspaces().iter().position(|workspace| workspace.prefix() == prefix)
    }
}
