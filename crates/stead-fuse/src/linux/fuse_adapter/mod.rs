//! The kernel's requests as calls of the door, and what keeps the kernel's caches valid.
//!
//! ```text
//! attributes    setting sizes, modes and times
//! directories   listings
//! files         opening, writing and closing files
//! names         creating, removing and renaming; reading symlinks
//! space         the space that `df` shows
//! ```

mod attributes;
mod directories;
mod files;
mod names;
mod space;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileHandle, INodeNo, Notifier, Request};
use parking_lot::{RwLock, RwLockWriteGuard};
use stead_core::path::{MAX_COMPONENT, VfsPath};
use stead_core::router::Router;
use stead_core::store::{Attr, NodeId, VersionTag};
use stead_core::vfs::node_api::{DirectoryRef, Lookup, NodeApi};
use stead_core::vfs::{OpenFile, Vfs};
use stead_core::{AccessScope, Name, Timestamp};

pub(super) use self::attributes::AttrChange;
pub(super) use self::files::{CREATE_NEW, WriteReply};
pub(super) use self::space::Space;
use crate::MountOptions;
use crate::linux::attributes::{LINK_COUNT, file_attr};
use crate::linux::errno::errno;
use crate::linux::handles::{Handles, Retries};
use crate::linux::inodes::{FirstSight, Inodes, ROOT_INO, SHARED_WINDOW};
use crate::linux::page_cache::ConcurrentWrites;
use crate::linux::worker_thread::WorkerThread;

/// How long the kernel may cache a reply if the mount is immutable.
const TTL_IMMUTABLE: Duration = Duration::from_secs(1 << 30);
/// How long the kernel may cache a reply about a Store with a feed, whose changes invalidate the kernel's cache.
const TTL_WITH_FEED: Duration = Duration::from_secs(60);
/// How long the kernel may cache a reply about a Store without a feed.
const TTL_WITHOUT_FEED: Duration = Duration::from_secs(1);
/// How long the kernel may cache a reply about a Workspace whose rights may be taken away. From its cache, the kernel answers
/// without asking whether the caller may still look.
const TTL_OF_RIGHTS: Duration = Duration::from_millis(20);

pub(super) type FuseResult<T> = Result<T, Errno>;

/// A stead that is mounted.
#[derive(Debug)]
pub(super) struct FuseAdapter {
    pub(super) node_api: NodeApi,
    router: Router,
    pub(super) inodes: Inodes,
    pub(super) handles: Handles,
    retries: Retries,
    pub(super) notifier: OnceLock<Notifier>,
    pub(super) invalidation_worker: WorkerThread,
    /// Answers direct writes, after the kernel has dropped its pages.
    pub(super) write_reply_worker: WorkerThread,
    /// Write-locked while a name is removed or moved, and read-locked while a request uses a path, so that the path
    /// stays valid during the request.
    names_lock: RwLock<()>,
    /// Counts the changes made through this mount or reported by a feed.
    change_count: AtomicU64,
    /// Whether the kernel can map files that are open for direct I/O.
    pub(super) direct_io_mmap: AtomicBool,
    /// How long the kernel may cache a reply, for each Workspace.
    ttls: Vec<Duration>,
    options: MountOptions,
    mount_point: PathBuf,
}

/// A reply about one node.
pub(super) struct EntryReply {
    pub(super) ttl: Duration,
    pub(super) attr: FileAttr,
    /// The version tag of the attributes, if the kernel may have content of another version. It has to drop that
    /// content before it gets the reply: otherwise it would show the old content with the new size.
    pub(super) stale_for: Option<VersionTag>,
}

impl EntryReply {
    /// The inode whose content the kernel has to drop before it gets the reply, if any.
    pub(super) fn stale_inodes(&self) -> Vec<(INodeNo, VersionTag)> {
        self.stale_for.map(|tag| (self.attr.ino, tag)).into_iter().collect()
    }
}

/// Whether a file existed before it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileAge {
    Existing,
    /// This mount has just created it.
    New,
}

/// Counts a change when it is dropped: after the change is made, and before the kernel gets the reply.
struct ChangeCountGuard<'a>(&'a AtomicU64);

impl Drop for ChangeCountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl FuseAdapter {
    pub(super) fn new(
        vfs: &Vfs,
        mount_point: &Path,
        options: MountOptions,
    ) -> Result<Self, stead_core::Error> {
        let node_api = NodeApi::new(vfs);
        let ttls = (0..node_api.workspaces().len()).map(|workspace| {
            match node_api.store(workspace).feed().is_some() {
                _ if node_api.may_lose_rights(workspace) => TTL_OF_RIGHTS,
                _ if options.immutable => TTL_IMMUTABLE,
                true => TTL_WITH_FEED,
                false => TTL_WITHOUT_FEED,
            }
        });
        Ok(FuseAdapter {
            ttls: ttls.collect(),
            inodes: Inodes::new(&node_api.lookup_path(&VfsPath::root())?),
            handles: Handles::default(),
            retries: Retries::default(),
            notifier: OnceLock::new(),
            invalidation_worker: WorkerThread::default(),
            write_reply_worker: WorkerThread::default(),
            names_lock: RwLock::new(()),
            change_count: AtomicU64::new(0),
            direct_io_mmap: AtomicBool::new(false),
            router: vfs.router().clone(),
            options,
            mount_point: mount_point.to_owned(),
            node_api,
        })
    }

    /// Hold the guard while something is changed.
    fn begin_change(&self) -> ChangeCountGuard<'_> {
        ChangeCountGuard(&self.change_count)
    }

    /// Counts a change by others: what was read before may be out of date.
    pub(super) fn note_foreign_change(&self) {
        drop(self.begin_change());
    }

    /// Locks the names, to remove or move one. Don't hold the lock while notifying the kernel, which may wait for
    /// replies that need the lock.
    pub(super) fn lock_names(&self) -> RwLockWriteGuard<'_, ()> {
        self.names_lock.write()
    }

    fn ttl(&self, lookup: &Lookup) -> Duration {
        lookup.workspace.map_or(TTL_WITH_FEED, |workspace| self.ttls[workspace])
    }

    fn node_ref(&self, ino: INodeNo) -> FuseResult<DirectoryRef> {
        // On ESTALE, the kernel looks the node up again and retries.
        let missing = || if self.inodes.should_look_up_again(ino.0) { Errno::ESTALE } else { Errno::ENOENT };
        let node_ref = self.inodes.node_ref(ino.0).ok_or_else(missing)?;
        if node_ref.node.is_some() || ino.0 == ROOT_INO {
            return Ok(node_ref);
        }
        // A synthetic directory may have been created in the Store since. From then on it needs its node, because a
        // feed reports the changes in it by that node.
        let node = self.node_api.lookup_path(&node_ref.path).ok().and_then(|lookup| lookup.node);
        if let Some(node) = node {
            self.inodes.set_node(ino.0, node);
        }
        Ok(DirectoryRef { node, ..node_ref })
    }

    fn entry_reply(&self, ino: u64, lookup: &Lookup) -> EntryReply {
        EntryReply {
            ttl: self.ttl(lookup),
            attr: file_attr(ino, &lookup.attr, LINK_COUNT, self.options.owner),
            stale_for: Some(lookup.attr.tag).filter(|tag| self.inodes.is_stale(ino, *tag)),
        }
    }

    /// Records a node that was found at a name, and returns the reply that makes it known to the kernel.
    fn record_entry(&self, parent: u64, name: &Name, lookup: &Lookup) -> EntryReply {
        let ino = self.inodes.record_found(parent, name, lookup, true);
        self.entry_reply(ino, lookup)
    }

    /// Makes the kernel drop its cached content of a file, whose version is now `tag`.
    ///
    /// It waits for reads in progress, so a thread that has to answer those must not call it.
    pub(super) fn invalidate_content(&self, ino: INodeNo, tag: VersionTag) {
        if let Some((workspace, node)) = self.inodes.node(ino.0) {
            self.node_api.refresh(workspace, node);
        }
        self.invalidate_pages(ino, 0, ConcurrentWrites::Possible);
        self.inodes.note_dropped(ino.0, tag);
    }

    /// Makes the kernel drop its cached content of a file from an offset on. It waits like
    /// [`FuseAdapter::invalidate_content`].
    pub(super) fn invalidate_pages(&self, ino: INodeNo, from: u64, writes: ConcurrentWrites) {
        let pages = self.inodes.pages(ino.0);
        let _invalidation = pages.as_ref().map(|pages| pages.begin_invalidation(writes));
        if let Some(notifier) = self.notifier.get() {
            // It fails if the kernel doesn't know the file any more.
            let _ = notifier.inval_inode(ino, from.cast_signed(), 0);
        }
    }

    /// Records that a file was opened in this version. Returns the version if the kernel may have content of another
    /// one, which it has to drop before it gets the reply.
    fn note_opened(&self, ino: INodeNo, file: &OpenFile, age: FileAge) -> Option<VersionTag> {
        let tag = file.tag();
        let has_pages = self.inodes.pages(ino.0).is_some_and(|pages| pages.has_pages());
        if has_pages {
            return Some(tag)
                .filter(|tag| self.inodes.is_stale(ino.0, *tag) || self.inodes.must_settle(ino.0));
        }
        let first_sight = match age {
            FileAge::Existing if self.may_be_in_progress(ino, file.attr().changed) => FirstSight::Unsettled,
            FileAge::Existing | FileAge::New => FirstSight::Settled,
        };
        if !self.inodes.set_cached_tag(ino.0, tag, first_sight)
            && let Some(notifier) = self.notifier.get()
        {
            // The size that the kernel knows may be that of another version.
            let _ = notifier.inval_inode(ino, -1, 0);
        }
        None
    }

    /// Whether a program of the host may still be copying what it writes, in a file that was changed then. Only a Store
    /// without a feed is changed by such programs.
    fn may_be_in_progress(&self, ino: INodeNo, changed: Timestamp) -> bool {
        let has_feed = |(workspace, _)| self.node_api.store(workspace).feed().is_some();
        !self.inodes.node(ino.0).is_none_or(has_feed)
            && Timestamp::from(SystemTime::now()).duration_since(changed) < SHARED_WINDOW
    }

    pub(super) fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr) -> FuseResult<EntryReply> {
        self.retries.end(request.pid());
        let _names = self.names_lock.read();
        let (directory, name) = (self.node_ref(parent)?, self::parse_name(name)?);
        let lookup = self.node_api.lookup(&directory, &name).map_err(|error| match error {
            // Outside the Workspaces nothing exists.
            stead_core::Error::OutsideWorkspaces { .. } => Errno::ENOENT,
            error => errno(&error),
        })?;
        Ok(self.record_entry(parent.0, &name, &lookup))
    }

    pub(super) fn getattr(&self, ino: INodeNo, handle: Option<FileHandle>) -> FuseResult<EntryReply> {
        let names = self.names_lock.read();
        let found = self.node_ref(ino).and_then(|node_ref| {
            let node = self.inodes.node(ino.0).map(|(_, node)| node);
            if let Some(special) = node.and_then(|node| self.node_api.lookup_special(&node_ref.path, node)) {
                return Ok(special);
            }
            let lookup = self.node_api.lookup_path(&node_ref.path).map_err(|error| errno(&error))?;
            match node {
                Some(node) if lookup.node != Some(node) => Err(Errno::ESTALE),
                _ => Ok(lookup),
            }
        });
        drop(names);
        match found {
            Ok(lookup) => Ok(self.entry_reply(ino.0, &lookup)),
            // It has no name any more, but may still be open.
            Err(error) => {
                let open = handle.and_then(|handle| self.handles.file(handle.0));
                let open = open.or_else(|| self.handles.any_file_of(ino.0)).ok_or(error)?;
                open.file.check_still_allowed().map_err(|error| errno(&error))?;
                let mut attr = open.file.attr();
                if self.is_write_only(ino) {
                    // The same attributes as for a file with a name in a WRITE_ONLY Workspace.
                    let modified = Timestamp(0);
                    attr = Attr { size: 0, mode: 0o200, created: None, modified, changed: modified, ..attr };
                }
                let attr = file_attr(ino.0, &attr, 0, self.options.owner);
                Ok(EntryReply { ttl: Duration::ZERO, attr, stale_for: None })
            }
        }
    }

    /// The reply to send once the kernel has dropped its stale content: with the attributes as they are by then.
    pub(super) fn refreshed_reply(&self, reply: EntryReply) -> EntryReply {
        if reply.stale_for.is_none() {
            return reply;
        }
        self.getattr(reply.attr.ino, None).map_or(reply, |fresh| EntryReply { stale_for: None, ..fresh })
    }

    fn file_node(&self, ino: INodeNo) -> FuseResult<NodeId> {
        self.inodes.node(ino.0).map(|(_, node)| node).ok_or(Errno::EISDIR)
    }

    /// Whether a file is in a WRITE_ONLY Workspace: then the kernel caches nothing of it.
    fn is_write_only(&self, ino: INodeNo) -> bool {
        let scope = |workspace: usize| self.node_api.workspaces()[workspace].scope();
        self.inodes.node(ino.0).is_some_and(|(workspace, _)| scope(workspace) == AccessScope::WriteOnly)
    }
}

fn parse_name(name: &OsStr) -> FuseResult<Name> {
    if name.len() > MAX_COMPONENT {
        return Err(Errno::ENAMETOOLONG);
    }
    Name::new(name.as_bytes()).ok_or(Errno::EINVAL)
}
