//! Listings.

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

/// How many entries are read of a directory at once.
const PAGE_SIZE: usize = 4096;
/// How long the kernel may answer from the names that it has. It asks for each name again that it was told longer ago,
/// and a listing tells it all of them at once.
const LISTING_TTL: Duration = Duration::from_secs(30);

/// What a listing tells of one name.
pub(crate) struct ListedEntry<'a> {
    pub(crate) name: &'a OsStr,
    /// Where the next one is.
    pub(crate) next: u64,
    source: EntrySource<'a>,
}

enum EntrySource<'a> {
    /// The directory itself, or the one above: this number.
    Dot(u64),
    /// What has the name, as it was read, and whether that may be old by now.
    Named { name: &'a Name, looked: &'a Lookup, is_old: bool },
}

impl FuseAdapter {
    pub(crate) fn opendir(&self, ino: INodeNo) -> FuseResult<(u64, FopenFlags)> {
        let _names = self.names_lock.read();
        let begun = self.node_api.begin_list(&self.directory_ref(ino)?).map_err(|error| errno(&error))?;
        let mut reply = FopenFlags::empty();
        if let Some(now) = self.cacheable_state(&begun) {
            reply |= FopenFlags::FOPEN_CACHE_DIR;
            if self
                .inodes
                .listed(ino.0)
                .is_some_and(|(listed, at)| listed == now && at.elapsed() < LISTING_TTL)
            {
                reply |= FopenFlags::FOPEN_KEEP_CACHE;
            }
        }
        Ok((self.handles.add_directory(OpenedDirectory::default()), reply))
    }

    /// What a directory is, where the kernel may keep its names. Where the kernel can't be told what others change, it
    /// would have to ask for each of them again soon, and one listing tells all.
    fn cacheable_state(&self, directory: &Lookup) -> Option<DirectoryState> {
        let Attr { modified, changed, .. } = directory.attr;
        let node = directory.node.filter(|_| self.ttl(directory) > TTL_WITHOUT_FEED)?;
        Some(DirectoryState { node, modified, changed })
    }

    fn first_page(&self, ino: INodeNo) -> FuseResult<DirectoryBuffer> {
        let (changes, since) = (self.change_count.load(Ordering::SeqCst), Some(Instant::now()));
        let _names = self.names_lock.read();
        let seat = self.directory_ref(ino)?;
        let before = self.node_api.lookup_path(&seat.path).map_err(|error| errno(&error))?;
        let listed = self.node_api.list(&seat, PAGE_SIZE).map_err(|error| errno(&error))?;
        self.inodes.set_listed(ino.0, self.cacheable_state(&before));
        Ok(DirectoryBuffer {
            entries: listed.entries,
            next: listed.next,
            change_count: changes,
            read_at: since,
        })
    }

    /// Hands out the entries of a directory from an offset on, until `give` wants no more.
    pub(crate) fn read_directory(
        &self,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut give: impl FnMut(&ListedEntry<'_>) -> bool,
    ) -> FuseResult<()> {
        let directory = self.handles.directory(handle.0).ok_or(Errno::EBADF)?;
        let mut read = directory.buffer.lock();
        // Read only now, while the kernel lets nobody change it: it may keep the names until somebody does. Whoever
        // begins again sees what is there then.
        if offset == 0 {
            *read = self.first_page(ino)?;
        }
        // The kernel heeds what changes from here on: it takes the answer for no newer than its question.
        let old = read.change_count != self.change_count.load(Ordering::SeqCst)
            || read.read_at.is_none_or(|since| since.elapsed() >= TTL_WITHOUT_FEED);
        for at in offset.. {
            let dot = |name, number| ListedEntry {
                name: OsStr::new(name),
                next: at + 1,
                source: EntrySource::Dot(number),
            };
            let entry = match at {
                0 => dot(".", ino.0),
                1 => dot("..", self.inodes.parent(ino.0)),
                _ => {
                    let index = usize::try_from(at - 2).expect("as many as fit into memory");
                    if index >= read.entries.len() {
                        let Some(next) = read.next.take() else { break };
                        let _names = self.names_lock.read();
                        let more = self.node_api.list_next(&self.directory_ref(ino)?, &next, PAGE_SIZE);
                        let more = more.map_err(|error| errno(&error))?;
                        read.entries.extend(more.entries);
                        read.next = more.next;
                        if index >= read.entries.len() {
                            break;
                        }
                    }
                    let (name, looked) = &read.entries[index];
                    let found = EntrySource::Named { name, looked, is_old: old };
                    ListedEntry { name: OsStr::from_bytes(name.as_bytes()), next: at + 1, source: found }
                }
            };
            if give(&entry) {
                break;
            }
        }
        Ok(())
    }

    /// The number and the kind of an entry. The kernel learns no more, so it remembers nothing.
    pub(crate) fn entry_ino_and_kind(&self, directory: INodeNo, entry: &ListedEntry<'_>) -> (u64, NodeKind) {
        match entry.source {
            EntrySource::Dot(number) => (number, NodeKind::Directory),
            EntrySource::Named { name, looked, .. } => {
                (self.inodes.record_found(directory.0, name, looked, false), looked.attr.kind)
            }
        }
    }

    /// All that is to be known of an entry: the kernel remembers it. Nothing, if it is gone meanwhile.
    pub(crate) fn listed_entry_reply(
        &self,
        directory: INodeNo,
        entry: &ListedEntry<'_>,
    ) -> Option<EntryReply> {
        match entry.source {
            // The kernel takes these two for names alone, and reads no more than the kind.
            EntrySource::Dot(number) => {
                Some(EntryReply { ttl: Duration::ZERO, attr: self.dot_attr(number), stale_for: None })
            }
            EntrySource::Named { name, looked, is_old: false } => {
                Some(self.record_entry(directory.0, name, looked))
            }
            // The kernel would take an older size for the newest, and a name that is gone for one that is there.
            EntrySource::Named { name, is_old: true, .. } => {
                let _names = self.names_lock.read();
                let looked = self.node_api.lookup(&self.directory_ref(directory).ok()?, name).ok()?;
                Some(self.record_entry(directory.0, name, &looked))
            }
        }
    }

    /// What `.` and `..` are: directories.
    fn dot_attr(&self, ino: u64) -> FileAttr {
        let (node, modified, tag) = (NodeId::ROOT, Timestamp(0), VersionTag(0));
        let (kind, size, mode, created) = (NodeKind::Directory, 0, 0o755, None);
        let attr = Attr { node, kind, size, mode, created, modified, changed: modified, tag };
        file_attr(ino, &attr, LINK_COUNT, self.options.owner)
    }

    /// The kernel was told of an entry, and had no room for it.
    pub(crate) fn undo_lookup(&self, entry: &ListedEntry<'_>, told: &EntryReply) {
        if let EntrySource::Named { .. } = entry.source {
            self.inodes.forget(told.attr.ino.0, 1);
        }
    }

    /// What was done to a directory is on the disk.
    pub(crate) fn fsync_directory(&self, ino: INodeNo) -> FuseResult<()> {
        let Some(workspace) = self.workspace_of(ino) else { return Ok(()) };
        self.node_api.store(workspace).sync().map_err(|cause| store_errno(&cause))
    }

    fn workspace_of(&self, ino: INodeNo) -> Option<usize> {
        let path = self.inodes.directory_ref(ino.0)?.path;
        let prefix = self.router.route(&path)?.workspace.prefix();
        self.node_api.workspaces().iter().position(|workspace| workspace.prefix() == prefix)
    }
}
