//! Listings.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fuser::{Errno, FileAttr, FileHandle, FopenFlags, INodeNo};
use stead_core::store::{Attr, Kind, NodeId, VersionTag};
use stead_core::vfs::mounted::Looked;
use stead_core::{Name, Timestamp};

use super::{Answer, Mounting, SHORT, Told};
use crate::linux::attributes::{LINKS, file_attr};
use crate::linux::errno::{errno, of_store};
use crate::linux::handles::{Directory, Read};
use crate::linux::inodes::Listed;

/// How many entries are read of a directory at once.
const PAGE: usize = 4096;
/// How long the kernel may answer from the names that it has. It asks for each name again that it was told longer ago,
/// and a listing tells it all of them at once.
const LISTED: Duration = Duration::from_secs(30);

/// What a listing tells of one name.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a OsStr,
    /// Where the next one is.
    pub(crate) next: u64,
    found: Found<'a>,
}

enum Found<'a> {
    /// The directory itself, or the one above: this number.
    Dot(u64),
    /// What has the name, as it was read, and whether that may be old by now.
    Named { name: &'a Name, looked: &'a Looked, old: bool },
}

impl Mounting {
    pub(crate) fn opendir(&self, ino: INodeNo) -> Answer<(u64, FopenFlags)> {
        let _names = self.names.read();
        let begun = self.door.begin_list(&self.seat(ino)?).map_err(|error| errno(&error))?;
        let mut reply = FopenFlags::empty();
        if let Some(now) = self.lasting(&begun) {
            reply |= FopenFlags::FOPEN_CACHE_DIR;
            if self.inodes.listed(ino.0).is_some_and(|(listed, at)| listed == now && at.elapsed() < LISTED) {
                reply |= FopenFlags::FOPEN_KEEP_CACHE;
            }
        }
        Ok((self.handles.add_directory(Directory::default()), reply))
    }

    /// What a directory is, where the kernel may keep its names. Where the kernel can't be told what others change, it
    /// would have to ask for each of them again soon, and one listing tells all.
    fn lasting(&self, directory: &Looked) -> Option<Listed> {
        let Attr { modified, changed, .. } = directory.attr;
        let node = directory.node.filter(|_| self.ttl(directory) > SHORT)?;
        Some(Listed { node, modified, changed })
    }

    fn first_page(&self, ino: INodeNo) -> Answer<Read> {
        let (changes, since) = (self.changes.load(Ordering::SeqCst), Some(Instant::now()));
        let _names = self.names.read();
        let seat = self.seat(ino)?;
        let before = self.door.look_at(&seat.path).map_err(|error| errno(&error))?;
        let listed = self.door.list(&seat, PAGE).map_err(|error| errno(&error))?;
        self.inodes.list(ino.0, self.lasting(&before));
        Ok(Read { entries: listed.entries, next: listed.next, changes, since })
    }

    /// Hands out the entries of a directory from an offset on, until `give` wants no more.
    pub(crate) fn read_directory(
        &self,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut give: impl FnMut(&Entry<'_>) -> bool,
    ) -> Answer<()> {
        let directory = self.handles.directory(handle.0).ok_or(Errno::EBADF)?;
        let mut read = directory.read.lock();
        // Read only now, while the kernel lets nobody change it: it may keep the names until somebody does. Whoever
        // begins again sees what is there then.
        if offset == 0 {
            *read = self.first_page(ino)?;
        }
        // The kernel heeds what changes from here on: it takes the answer for no newer than its question.
        let old = read.changes != self.changes.load(Ordering::SeqCst)
            || read.since.is_none_or(|since| since.elapsed() >= SHORT);
        for at in offset.. {
            let dot =
                |name, number| Entry { name: OsStr::new(name), next: at + 1, found: Found::Dot(number) };
            let entry = match at {
                0 => dot(".", ino.0),
                1 => dot("..", self.inodes.parent(ino.0)),
                _ => {
                    let index = usize::try_from(at - 2).expect("as many as fit into memory");
                    if index >= read.entries.len() {
                        let Some(next) = read.next.take() else { break };
                        let _names = self.names.read();
                        let more = self.door.list_on(&self.seat(ino)?, &next, PAGE);
                        let more = more.map_err(|error| errno(&error))?;
                        read.entries.extend(more.entries);
                        read.next = more.next;
                        if index >= read.entries.len() {
                            break;
                        }
                    }
                    let (name, looked) = &read.entries[index];
                    let found = Found::Named { name, looked, old };
                    Entry { name: OsStr::from_bytes(name.as_bytes()), next: at + 1, found }
                }
            };
            if give(&entry) {
                break;
            }
        }
        Ok(())
    }

    /// The number and the kind of an entry. The kernel learns no more, so it remembers nothing.
    pub(crate) fn told_of(&self, directory: INodeNo, entry: &Entry<'_>) -> (u64, Kind) {
        match entry.found {
            Found::Dot(number) => (number, Kind::Directory),
            Found::Named { name, looked, .. } => {
                (self.inodes.found(directory.0, name, looked, false), looked.attr.kind)
            }
        }
    }

    /// All that is to be known of an entry: the kernel remembers it. Nothing, if it is gone meanwhile.
    pub(crate) fn told_all_of(&self, directory: INodeNo, entry: &Entry<'_>) -> Option<Told> {
        match entry.found {
            // The kernel takes these two for names alone, and reads no more than the kind.
            Found::Dot(number) => Some(Told { ttl: Duration::ZERO, attr: self.dot(number), outdated: None }),
            Found::Named { name, looked, old: false } => Some(self.entry(directory.0, name, looked)),
            // The kernel would take an older size for the newest, and a name that is gone for one that is there.
            Found::Named { name, old: true, .. } => {
                let _names = self.names.read();
                let looked = self.door.look(&self.seat(directory).ok()?, name).ok()?;
                Some(self.entry(directory.0, name, &looked))
            }
        }
    }

    /// What `.` and `..` are: directories.
    fn dot(&self, ino: u64) -> FileAttr {
        let (node, modified, tag) = (NodeId::ROOT, Timestamp(0), VersionTag(0));
        let (kind, size, mode, created) = (Kind::Directory, 0, 0o755, None);
        let attr = Attr { node, kind, size, mode, created, modified, changed: modified, tag };
        file_attr(ino, &attr, LINKS, self.options.owner)
    }

    /// The kernel was told of an entry, and had no room for it.
    pub(crate) fn told_in_vain(&self, entry: &Entry<'_>, told: &Told) {
        if let Found::Named { .. } = entry.found {
            self.inodes.forget(told.attr.ino.0, 1);
        }
    }

    /// What was done to a directory is on the disk.
    pub(crate) fn fsync_directory(&self, ino: INodeNo) -> Answer<()> {
        let Some(workspace) = self.workspace_of(ino) else { return Ok(()) };
        self.door.store(workspace).settle().map_err(|cause| of_store(&cause))
    }

    fn workspace_of(&self, ino: INodeNo) -> Option<usize> {
        let path = self.inodes.seat(ino.0)?.path;
        let prefix = self.router.route(&path)?.workspace.prefix();
        self.door.workspaces().iter().position(|workspace| workspace.prefix() == prefix)
    }
}
