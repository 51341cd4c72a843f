//! A stead that is mounted: what the kernel asks, and what keeps what it knows true.
//!
//! ```text
//! attributes    sizes, modes and times that a program sets
//! directories   listings
//! files         open files: what is read, written and put down
//! names         names that come, go and move; where symlinks lead
//! space         how much room there is
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
use std::time::Duration;

use fuser::{Errno, FileAttr, FileHandle, INodeNo, Notifier};
use parking_lot::{RwLock, RwLockWriteGuard};
use stead_core::path::{MAX_COMPONENT, VfsPath};
use stead_core::router::Router;
use stead_core::store::{Attr, NodeId, VersionTag};
use stead_core::vfs::Vfs;
use stead_core::vfs::node_api::{DirectoryRef, Lookup, NodeApi};
use stead_core::{AccessScope, Name, Timestamp};

pub(super) use self::attributes::AttrChange;
pub(super) use self::files::{CREATE_NEW, WriteReply};
pub(super) use self::space::Space;
use crate::MountOptions;
use crate::linux::attributes::{LINK_COUNT, file_attr};
use crate::linux::errno::errno;
use crate::linux::handles::{Handles, Retries};
use crate::linux::inodes::{Inodes, ROOT_INO};
use crate::linux::page_cache::ConcurrentWrites;
use crate::linux::worker_thread::WorkerThread;

/// How long the kernel may believe what it was told: for good, where nothing changes any more.
const TTL_IMMUTABLE: Duration = Duration::from_secs(1 << 30);
/// Where it is told of what others change.
const TTL_WITH_FEED: Duration = Duration::from_secs(60);
/// Where it can't be told.
const TTL_WITHOUT_FEED: Duration = Duration::from_secs(1);

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
    /// Answers writes that went past the kernel's pages.
    pub(super) write_reply_worker: WorkerThread,
    /// Held by whoever takes a name away, and shared by whoever goes by one: a path is where it was when it was asked for.
    names_lock: RwLock<()>,
    /// How often something has changed, through this mount or as it was told.
    change_count: AtomicU64,
    /// Whether the kernel maps files that are read and written past its pages.
    pub(super) direct_io_mmap: AtomicBool,
    /// How long the kernel may believe what it was told, for each Workspace.
    ttls: Vec<Duration>,
    options: MountOptions,
    mount_point: PathBuf,
}

/// What the kernel is told of something.
pub(super) struct EntryReply {
    pub(super) ttl: Duration,
    pub(super) attr: FileAttr,
    /// The state that is told, where the kernel may have content of another and has to drop that first: it would show it
    /// in a size that is not its.
    pub(super) stale_for: Option<VersionTag>,
}

impl EntryReply {
    /// What the kernel has to drop, if anything.
    pub(super) fn stale_inodes(&self) -> Vec<(INodeNo, VersionTag)> {
        self.stale_for.map(|now| (self.attr.ino, now)).into_iter().collect()
    }
}

/// Something is being changed. Counted when that is over, and before the kernel hears of it.
struct ChangeCountGuard<'a>(&'a AtomicU64);

impl Drop for ChangeCountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl FuseAdapter {
    pub(super) fn new(vfs: &Vfs, at: &Path, options: MountOptions) -> Result<Self, stead_core::Error> {
        let door = NodeApi::new(vfs);
        let believed =
            (0..door.workspaces().len()).map(|workspace| match door.store(workspace).info().feed {
                _ if options.immutable => TTL_IMMUTABLE,
                true => TTL_WITH_FEED,
                false => TTL_WITHOUT_FEED,
            });
        Ok(FuseAdapter {
            ttls: believed.collect(),
            inodes: Inodes::new(&door.lookup_path(&VfsPath::root())?),
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
            mount_point: at.to_owned(),
            node_api: door,
        })
    }

    /// To be held while something is changed.
    fn begin_change(&self) -> ChangeCountGuard<'_> {
        ChangeCountGuard(&self.change_count)
    }

    /// Another has changed something: what was read before may be old.
    pub(super) fn note_foreign_change(&self) {
        drop(self.begin_change());
    }

    /// To be held while names are taken away, and never while the kernel is told: it waits for answers that go by names.
    pub(super) fn lock_names(&self) -> RwLockWriteGuard<'_, ()> {
        self.names_lock.write()
    }

    fn ttl(&self, looked: &Lookup) -> Duration {
        looked.workspace.map_or(TTL_WITH_FEED, |workspace| self.ttls[workspace])
    }

    fn directory_ref(&self, ino: INodeNo) -> FuseResult<DirectoryRef> {
        // On the first the kernel looks for it again, and asks again.
        let missing = || if self.inodes.should_look_up_again(ino.0) { Errno::ESTALE } else { Errno::ENOENT };
        let seat = self.inodes.directory_ref(ino.0).ok_or_else(missing)?;
        if seat.node.is_some() || ino.0 == ROOT_INO {
            return Ok(seat);
        }
        // A directory that is shown because of the Workspaces may have been made since: from then on it is known by its
        // node, which is what others' changes in it are told by.
        let node = self.node_api.lookup_path(&seat.path).ok().and_then(|looked| looked.node);
        if let Some(node) = node {
            self.inodes.set_node(ino.0, node);
        }
        Ok(DirectoryRef { node, ..seat })
    }

    fn entry_reply(&self, ino: u64, looked: &Lookup) -> EntryReply {
        EntryReply {
            ttl: self.ttl(looked),
            attr: file_attr(ino, &looked.attr, LINK_COUNT, self.options.owner),
            stale_for: Some(looked.attr.tag).filter(|now| self.inodes.is_stale(ino, *now)),
        }
    }

    /// Something was found under a name, and the kernel is told.
    fn record_entry(&self, parent: u64, name: &Name, looked: &Lookup) -> EntryReply {
        let ino = self.inodes.record_found(parent, name, looked, true);
        self.entry_reply(ino, looked)
    }

    /// Makes the kernel drop what it has of a file's content: it is of another state than this one.
    ///
    /// It waits for reads that are under way, so this must not be asked by who has to answer those.
    pub(super) fn invalidate_content(&self, ino: INodeNo, now: VersionTag) {
        if let Some((workspace, node)) = self.inodes.node(ino.0) {
            self.node_api.refresh(workspace, node);
        }
        self.invalidate_pages(ino, 0, ConcurrentWrites::Possible);
        self.inodes.note_changed_elsewhere(ino.0, now);
    }

    /// Makes the kernel drop what it has of a file's content from an offset on. It waits, as [`Mounting::drop_content`].
    pub(super) fn invalidate_pages(&self, ino: INodeNo, from: u64, writes: ConcurrentWrites) {
        let pages = self.inodes.pages(ino.0);
        let _dropping = pages.as_ref().map(|pages| pages.begin_invalidation(writes));
        if let Some(notifier) = self.notifier.get() {
            // Where it refuses, it knows the file no longer.
            let _ = notifier.inval_inode(ino, from.cast_signed(), 0);
        }
    }

    /// A file is open, and in this state. Which state the kernel has to be told of before it goes on, if it has content of
    /// another.
    fn note_opened(&self, ino: INodeNo, tag: VersionTag) -> Option<VersionTag> {
        let has_pages = self.inodes.pages(ino.0).is_some_and(|pages| pages.has_pages());
        if has_pages {
            return Some(tag).filter(|now| self.inodes.is_stale(ino.0, *now));
        }
        if !self.inodes.set_cached_tag(ino.0, tag)
            && let Some(notifier) = self.notifier.get()
        {
            // The size that the kernel knows may be of another state.
            let _ = notifier.inval_inode(ino, -1, 0);
        }
        None
    }

    pub(super) fn lookup(&self, parent: INodeNo, name: &OsStr) -> FuseResult<EntryReply> {
        let _names = self.names_lock.read();
        let (seat, name) = (self.directory_ref(parent)?, self::parse_name(name)?);
        let looked = self.node_api.lookup(&seat, &name).map_err(|error| match error {
            // Where there is no Workspace there is nothing.
            stead_core::Error::OutsideWorkspaces { .. } => Errno::ENOENT,
            error => errno(&error),
        })?;
        Ok(self.record_entry(parent.0, &name, &looked))
    }

    pub(super) fn getattr(&self, ino: INodeNo, handle: Option<FileHandle>) -> FuseResult<EntryReply> {
        let names = self.names_lock.read();
        let found = self.directory_ref(ino).and_then(|seat| {
            let node = self.inodes.node(ino.0).map(|(_, node)| node);
            if let Some(special) = node.and_then(|node| self.node_api.lookup_special(&seat.path, node)) {
                return Ok(special);
            }
            let looked = self.node_api.lookup_path(&seat.path).map_err(|error| errno(&error))?;
            match node {
                Some(node) if looked.node != Some(node) => Err(Errno::ESTALE),
                _ => Ok(looked),
            }
        });
        drop(names);
        match found {
            Ok(looked) => Ok(self.entry_reply(ino.0, &looked)),
            // Its name is gone, and someone has it open.
            Err(error) => {
                let open = handle.and_then(|handle| self.handles.file(handle.0));
                let open = open.or_else(|| self.handles.any_file_of(ino.0)).ok_or(error)?;
                let mut attr = open.file.attr();
                if self.is_write_only(ino) {
                    // As it would be told of a file that has its name.
                    let modified = Timestamp(0);
                    attr = Attr { size: 0, mode: 0o200, created: None, modified, changed: modified, ..attr };
                }
                let attr = file_attr(ino.0, &attr, 0, self.options.owner);
                Ok(EntryReply { ttl: Duration::ZERO, attr, stale_for: None })
            }
        }
    }

    /// What is told of something once the kernel has dropped what it had: with all that was written by then.
    pub(super) fn refreshed_reply(&self, told: EntryReply) -> EntryReply {
        if told.stale_for.is_none() {
            return told;
        }
        self.getattr(told.attr.ino, None).map_or(told, |now| EntryReply { stale_for: None, ..now })
    }

    fn file_node(&self, ino: INodeNo) -> FuseResult<NodeId> {
        self.inodes.node(ino.0).map(|(_, node)| node).ok_or(Errno::EISDIR)
    }

    /// Whether a file lies where nothing may be looked at: then the kernel keeps nothing of it.
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
