//! The kernel's requests, one method each: a translation, and nothing else.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, Notifier, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use parking_lot::RwLock;
use stead_core::router::Router;
use stead_core::store::{Attr, Expect, Kind, Lasts, NodeId, Replace, VersionTag};
use stead_core::vfs::mounted::{Looked, Mounted, Seat};
use stead_core::vfs::{OpenFile, OpenOptions, Vfs};
use stead_core::{AccessScope, Name, Timestamp};

use crate::Options;
use crate::attributes::{LINKS, file_attr, file_type, timestamp};
use crate::errno::{errno, of_store};
use crate::handles::{Directory, File, Handles, Read, Users};
use crate::inodes::Inodes;
use crate::links;

/// How long the kernel may believe what it was told: for good, where nothing changes any more.
const FOR_GOOD: Duration = Duration::from_secs(1 << 30);
/// Where it is told of what others change.
const LONG: Duration = Duration::from_secs(60);
/// Where it can't be told.
const SHORT: Duration = Duration::from_secs(1);
/// How many entries are read of a directory at once.
const PAGE: usize = 4096;
/// The most that is read or written at once.
const MOST: u32 = 1 << 20;

// As in <fcntl.h> and <sys/stat.h>, which are the kernel's own for all programs.
const O_TRUNC: i32 = 0o1000;
const O_APPEND: i32 = 0o2000;
const O_EXCL: i32 = 0o200;
const TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const KEEP_SIZE: i32 = 1;

type Answer<T> = Result<T, Errno>;

/// A stead that is mounted: what the kernel asks, and what keeps what it knows true.
#[derive(Debug)]
pub(crate) struct Mounting {
    pub(crate) door: Mounted,
    router: Router,
    pub(crate) inodes: Inodes,
    pub(crate) handles: Handles,
    pub(crate) notifier: OnceLock<Notifier>,
    /// Held by whoever takes a name away, and shared by whoever goes by one: a path is where it was when it was asked for.
    names: RwLock<()>,
    /// How long the kernel may believe what it was told, for each Workspace.
    believed: Vec<Duration>,
    options: Options,
    at: PathBuf,
}

/// What is handed to the kernel's side.
#[derive(Debug, Clone)]
pub(crate) struct Served(pub(crate) Arc<Mounting>);

thread_local! {
    /// What was read last, on its way to the kernel.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Mounting {
    pub(crate) fn new(vfs: &Vfs, at: &Path, options: Options) -> Result<Self, stead_core::Error> {
        let door = Mounted::new(vfs);
        let believed =
            (0..door.workspaces().len()).map(|workspace| match door.store(workspace).about().feed {
                _ if options.past => FOR_GOOD,
                true => LONG,
                false => SHORT,
            });
        Ok(Mounting {
            believed: believed.collect(),
            inodes: Inodes::new(&door.look_at(&stead_core::path::VfsPath::root())?),
            handles: Handles::default(),
            notifier: OnceLock::new(),
            names: RwLock::new(()),
            router: vfs.router().clone(),
            options,
            at: at.to_owned(),
            door,
        })
    }

    fn ttl(&self, looked: &Looked) -> Duration {
        looked.workspace.map_or(LONG, |workspace| self.believed[workspace])
    }

    fn seat(&self, ino: INodeNo) -> Answer<Seat> {
        // What another has moved the kernel has to look for; what was removed is gone.
        let missing = || if self.inodes.is_lost(ino.0) { Errno::ESTALE } else { Errno::ENOENT };
        self.inodes.seat(ino.0).ok_or_else(missing)
    }

    fn attr(&self, ino: u64, looked: &Looked) -> FileAttr {
        file_attr(ino, &looked.attr, LINKS, self.options.owner)
    }

    /// What has a name now.
    fn look_again(&self, parent: INodeNo, name: &Name) -> Answer<Looked> {
        let _names = self.names.read();
        self.door.look(&self.seat(parent)?, name).map_err(|error| errno(&error))
    }

    /// What `.` and `..` are: directories.
    fn dot(&self, ino: u64) -> FileAttr {
        let (node, modified, tag) = (NodeId::ROOT, Timestamp(0), VersionTag(0));
        let (kind, size, mode, created) = (Kind::Directory, 0, 0o755, None);
        let attr = Attr { node, kind, size, mode, created, modified, changed: modified, tag };
        file_attr(ino, &attr, LINKS, self.options.owner)
    }

    /// Something was found under a name, and the kernel is told.
    fn entry(&self, parent: u64, name: &Name, looked: &Looked) -> (Duration, FileAttr) {
        let ino = self.inodes.found(parent, name, looked, true);
        (self.ttl(looked), self.attr(ino, looked))
    }

    fn lookup(&self, parent: INodeNo, name: &OsStr) -> Answer<(Duration, FileAttr)> {
        let _names = self.names.read();
        let (seat, name) = (self.seat(parent)?, self::name(name)?);
        let looked = self.door.look(&seat, &name).map_err(|error| match error {
            // Where there is no Workspace there is nothing.
            stead_core::Error::Outside { .. } => Errno::ENOENT,
            error => errno(&error),
        })?;
        Ok(self.entry(parent.0, &name, &looked))
    }

    fn getattr(&self, ino: INodeNo, handle: Option<FileHandle>) -> Answer<(Duration, FileAttr)> {
        let names = self.names.read();
        let found = self.seat(ino).and_then(|seat| {
            let looked = self.door.look_at(&seat.path).map_err(|error| errno(&error))?;
            match self.inodes.node(ino.0) {
                Some((_, node)) if looked.node != Some(node) => Err(Errno::ESTALE),
                _ => Ok(looked),
            }
        });
        drop(names);
        match found {
            Ok(looked) => {
                self.inodes.tell(ino.0, looked.attr.tag);
                Ok((self.ttl(&looked), self.attr(ino.0, &looked)))
            }
            // Its name is gone, and someone has it open.
            Err(error) => {
                let open = handle.and_then(|handle| self.handles.file(handle.0));
                let open = open.or_else(|| self.handles.file_of(ino.0)).ok_or(error)?;
                let attr = file_attr(ino.0, &open.file.attr(), 0, self.options.owner);
                Ok((Duration::ZERO, attr))
            }
        }
    }

    fn setattr(
        &self,
        ino: INodeNo,
        wanted: Wanted,
        handle: Option<FileHandle>,
    ) -> Answer<(Duration, FileAttr)> {
        let (uid, gid) = self.options.owner;
        if wanted.uid.is_some_and(|wanted| wanted != uid) || wanted.gid.is_some_and(|wanted| wanted != gid) {
            return Err(Errno::EPERM);
        }
        if let Some(size) = wanted.size {
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
        self.getattr(ino, handle)
    }

    fn set_size(&self, ino: INodeNo, size: u64, handle: Option<FileHandle>) -> Answer<()> {
        if let Some(open) = handle.and_then(|handle| self.handles.file(handle.0)) {
            return open.file.set_size(size).map_err(|error| errno(&error));
        }
        let names = self.names.read();
        let (seat, node) = (self.seat(ino)?, self.file_node(ino)?);
        let file = self.door.open(&seat.path, node, OpenOptions::write()).map_err(|error| errno(&error))?;
        drop(names);
        file.set_size(size).map_err(|error| errno(&error))?;
        self.put(ino.0, &file, Lasts::Soon).map(drop)
    }

    fn set_attributes(&self, ino: INodeNo, mode: Option<u32>, modified: Option<Timestamp>) -> Answer<()> {
        let _names = self.names.read();
        let mode = mode.map(|mode| mode & 0o7777);
        let Some(seat) = self.inodes.seat(ino.0) else {
            // It has no name any more, so nobody will ever see.
            return self.handles.file_of(ino.0).map(drop).ok_or(Errno::ESTALE);
        };
        let node = seat.node.ok_or(Errno::EPERM)?;
        let looked =
            self.door.set_attributes((&seat.path, node), mode, modified).map_err(|error| errno(&error))?;
        // The content is what it was.
        if self.inodes.caches(ino.0, looked.attr.tag) || looked.attr.kind != Kind::File {
            self.inodes.tell(ino.0, looked.attr.tag);
        }
        Ok(())
    }

    fn readlink(&self, ino: INodeNo) -> Answer<Vec<u8>> {
        let _names = self.names.read();
        let seat = self.seat(ino)?;
        let target = self.door.link_target(&seat.path).map_err(|error| errno(&error))?;
        let shown = links::shown(&self.router, &seat.path, &target).ok_or(Errno::EACCES)?;
        if links::climb(&shown) > self.inodes.climbs(ino.0) {
            return Err(Errno::EACCES);
        }
        Ok(shown)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, kind: Kind) -> Answer<()> {
        let _names = self.names.write();
        let (seat, name) = (self.seat(parent)?, self::name(name)?);
        let removed = match kind {
            Kind::Directory => self.door.rmdir(&seat, &name),
            _ => self.door.unlink(&seat, &name),
        };
        removed.map_err(|error| errno(&error))?;
        self.inodes.ended(parent.0, &name);
        Ok(())
    }

    fn rename(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr), flags: RenameFlags) -> Answer<()> {
        let replace = match flags {
            RenameFlags::RENAME_EXCHANGE => Replace::Exchange,
            RenameFlags::RENAME_NOREPLACE => Replace::Refuse,
            flags if flags.is_empty() => Replace::Over,
            _ => return Err(Errno::EINVAL),
        };
        let _names = self.names.write();
        let (from_seat, from_name) = (self.seat(from.0)?, self::name(from.1)?);
        let (to_seat, to_name) = (self.seat(to.0)?, self::name(to.1)?);
        let renamed = self.door.rename((&from_seat, &from_name), (&to_seat, &to_name), replace);
        renamed.map_err(|error| errno(&error))?;
        let (from, to) = ((from.0.0, &from_name), (to.0.0, &to_name));
        if replace == Replace::Exchange {
            self.inodes.exchanged(from, to);
        } else if from != to {
            self.inodes.moved(from, to);
        }
        Ok(())
    }

    fn file_node(&self, ino: INodeNo) -> Answer<NodeId> {
        self.inodes.node(ino.0).map(|(_, node)| node).ok_or(Errno::EISDIR)
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags) -> Answer<(u64, FopenFlags)> {
        let _names = self.names.read();
        let (seat, node) = (self.seat(ino)?, self.file_node(ino)?);
        let file = self.door.open(&seat.path, node, open_options(flags)).map_err(|error| errno(&error))?;
        let mut reply = FopenFlags::empty();
        if self.is_blind(ino) {
            reply |= FopenFlags::FOPEN_DIRECT_IO;
        } else if self.inodes.caches(ino.0, file.tag()) {
            reply |= FopenFlags::FOPEN_KEEP_CACHE;
        } else if let Some(notifier) = self.notifier.get() {
            // The kernel drops what it has of the content; the size that it knows may be of another state as well.
            let _ = notifier.inval_inode(ino, -1, 0);
        }
        let appends = flags.0 & O_APPEND != 0;
        let users = Users::new(request.pid());
        Ok((self.handles.add_file(File { ino: ino.0, file, appends, users }), reply))
    }

    fn create(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        flags: i32,
    ) -> Answer<(Duration, FileAttr, u64, FopenFlags)> {
        let _names = self.names.read();
        let (seat, name) = (self.seat(parent)?, self::name(name)?);
        let expect = if flags & O_EXCL == 0 { Expect::Any } else { Expect::Absent };
        let options = open_options(OpenFlags(flags));
        let made = self.door.create(&seat, &name, mode & 0o7777, expect, options);
        let (file, looked) = made.map_err(|error| errno(&error))?;
        let (ttl, attr) = self.entry(parent.0, &name, &looked);
        let mut reply = FopenFlags::empty();
        if self.is_blind(attr.ino) {
            reply |= FopenFlags::FOPEN_DIRECT_IO;
        } else {
            self.inodes.caches(attr.ino.0, file.tag());
        }
        let appends = flags & O_APPEND != 0;
        let users = Users::new(request.pid());
        let handle = self.handles.add_file(File { ino: attr.ino.0, file, appends, users });
        Ok((ttl, attr, handle, reply))
    }

    /// Whether a file lies where nothing may be looked at: then the kernel keeps nothing of it.
    fn is_blind(&self, ino: INodeNo) -> bool {
        let scope = |workspace: usize| self.door.workspaces()[workspace].scope();
        self.inodes.node(ino.0).is_some_and(|(workspace, _)| scope(workspace) == AccessScope::WriteOnly)
    }

    fn write(&self, request: &Request, handle: FileHandle, offset: u64, data: &[u8]) -> Answer<u32> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        open.users.add(request.pid());
        let written = if open.appends { open.file.append(data) } else { open.file.write_at(offset, data) };
        written.map_err(|error| errno(&error))?;
        Ok(u32::try_from(data.len()).expect("the kernel writes less at once"))
    }

    /// Makes what was written a change. The kernel has the content of that already. Whether there was something.
    fn put(&self, ino: u64, file: &OpenFile, lasts: Lasts) -> Answer<bool> {
        let before = file.tag();
        let put = match lasts {
            Lasts::Now => file.sync(),
            Lasts::Soon => file.flush(),
        };
        put.map_err(|error| errno(&error))?;
        let changed = file.tag() != before;
        if changed {
            self.inodes.caches(ino, file.tag());
        }
        Ok(changed)
    }

    /// Someone has closed it: what was written is a change when that returns.
    fn flush(&self, request: &Request, handle: FileHandle) -> Answer<()> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        if !open.file.is_written() || !open.users.include(request.pid()) {
            return Ok(());
        }
        self.put(open.ino, &open.file, Lasts::Soon).map(drop)
    }

    /// What was written is on the disk, and so is all that was done before.
    fn fsync(&self, handle: FileHandle) -> Answer<()> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        if self.put(open.ino, &open.file, Lasts::Now)? {
            return Ok(());
        }
        open.file.settle().map_err(|error| errno(&error))
    }

    /// What was done to a directory is on the disk.
    fn fsync_directory(&self, ino: INodeNo) -> Answer<()> {
        let Some(workspace) = self.workspace_of(ino) else { return Ok(()) };
        self.door.store(workspace).settle().map_err(|cause| of_store(&cause))
    }

    fn workspace_of(&self, ino: INodeNo) -> Option<usize> {
        let path = self.inodes.seat(ino.0)?.path;
        let prefix = self.router.route(&path)?.workspace.prefix();
        self.door.workspaces().iter().position(|workspace| workspace.prefix() == prefix)
    }

    /// Makes all that was written a change, and closes everything: the mount is about to end.
    pub(crate) fn close_all(&self) {
        for open in self.handles.take_files() {
            let _ = open.file.sync();
        }
    }

    fn fallocate(&self, handle: FileHandle, offset: u64, length: u64, mode: i32) -> Answer<()> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        match mode {
            // Room is not set aside; only the size is what it is asked to be.
            KEEP_SIZE => Ok(()),
            0 if end <= open.file.size() => Ok(()),
            0 => open.file.set_size(end).map_err(|error| errno(&error)),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn opendir(&self, ino: INodeNo) -> Answer<u64> {
        let read = self.first_page(ino)?;
        Ok(self.handles.add_directory(Directory { read: read.into() }))
    }

    fn first_page(&self, ino: INodeNo) -> Answer<Read> {
        let _names = self.names.read();
        let listed = self.door.list(&self.seat(ino)?, PAGE).map_err(|error| errno(&error))?;
        Ok(Read { entries: listed.entries, next: listed.next })
    }

    /// Hands out the entries of a directory from an offset on, until `give` wants no more.
    fn read_directory(
        &self,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut give: impl FnMut(u64, u64, &OsStr, Option<(&Name, &Looked)>) -> bool,
    ) -> Answer<()> {
        let directory = self.handles.directory(handle.0).ok_or(Errno::EBADF)?;
        let mut read = directory.read.lock();
        // Whoever begins again sees what is there now.
        if offset == 0 && read.entries.is_empty() && read.next.is_none() {
            *read = self.first_page(ino)?;
        }
        for at in offset.. {
            let full = match at {
                0 => give(ino.0, 1, OsStr::new("."), None),
                1 => give(self.inodes.parent(ino.0), 2, OsStr::new(".."), None),
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
                    give(0, at + 1, OsStr::from_bytes(name.as_bytes()), Some((name, looked)))
                }
            };
            if full {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self, ino: INodeNo) -> Answer<Space> {
        const BLOCK: u64 = 4096;
        let mut space = Space { blocks: 1 << 40, free: 1 << 39, files: 1 << 40, files_free: 1 << 39 };
        let host = self.options.room.as_deref().and_then(|room| rustix::fs::statvfs(room).ok());
        if let Some(host) = host {
            let scale = |blocks: u64| blocks.saturating_mul(host.f_frsize) / BLOCK;
            space = Space {
                blocks: scale(host.f_blocks),
                free: scale(host.f_bavail),
                files: host.f_files,
                files_free: host.f_favail,
            };
        }
        let seat = self.seat(ino)?;
        if let Some((limits, usage)) = self.door.allowance(&seat.path).map_err(|error| errno(&error))? {
            if let Some(bytes) = limits.bytes {
                space.blocks = bytes / BLOCK;
                space.free = space.free.min(bytes.saturating_sub(usage.bytes) / BLOCK);
            }
            if let Some(files) = limits.files {
                space.files = files;
                space.files_free = space.files_free.min(files.saturating_sub(usage.files));
            }
        }
        Ok(space)
    }
}

/// Attributes that a program wants to be different.
struct Wanted {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    modified: Option<TimeOrNow>,
}

/// How much room there is, in blocks and files.
struct Space {
    blocks: u64,
    free: u64,
    files: u64,
    files_free: u64,
}

fn name(name: &OsStr) -> Answer<Name> {
    if name.len() > stead_core::path::MAX_COMPONENT {
        return Err(Errno::ENAMETOOLONG);
    }
    Name::new(name.as_bytes()).ok_or(Errno::EINVAL)
}

fn open_options(flags: OpenFlags) -> OpenOptions {
    let options = match flags.acc_mode() {
        OpenAccMode::O_RDONLY => OpenOptions::read(),
        OpenAccMode::O_WRONLY => OpenOptions::write(),
        OpenAccMode::O_RDWR => OpenOptions::read_write(),
    };
    let truncates = flags.0 & O_TRUNC != 0 && options.write;
    OpenOptions { truncate: truncates, ..options }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = [
            // One change where a file is opened to be written anew, not two.
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
        ];
        for flag in wanted {
            // A kernel that does not know one does without.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(MOST);
        if let Err(most) = config.set_max_readahead(MOST) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn destroy(&mut self) {
        self.0.close_all();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.0.lookup(parent, name) {
            Ok((ttl, attr)) => reply.entry(&ttl, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        if let Some((workspace, node)) = self.0.inodes.forget(ino.0, times) {
            self.0.door.store(workspace).forget(node);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.getattr(ino, handle) {
            Ok((ttl, attr)) => reply.attr(&ttl, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.0.setattr(ino, Wanted { mode, uid, gid, size, modified }, handle) {
            Ok((ttl, attr)) => reply.attr(&ttl, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.0.readlink(ino) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        if !matches!(mode & TYPE, REGULAR | 0) {
            return reply.error(Errno::EPERM);
        }
        match self.0.create(request, (parent, name), mode, O_EXCL | 1) {
            Ok((ttl, attr, handle, _)) => {
                self.0.handles.remove_file(handle);
                reply.entry(&ttl, &attr, Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let _names = self.0.names.read();
        let made = self.0.seat(parent).and_then(|seat| {
            let name = self::name(name)?;
            let looked = self.0.door.mkdir(&seat, &name, mode & 0o7777).map_err(|error| errno(&error))?;
            Ok(self.0.entry(parent.0, &name, &looked))
        });
        match made {
            Ok((ttl, attr)) => reply.entry(&ttl, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.0.remove(parent, name, Kind::File), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.0.remove(parent, name, Kind::Directory), reply);
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _names = self.0.names.read();
        let made = self.0.seat(parent).and_then(|seat| {
            let name = self::name(name)?;
            let target = links::kept(&self.0.at, target.as_os_str().as_bytes());
            let looked = self.0.door.symlink(&seat, &name, &target).map_err(|error| errno(&error))?;
            Ok(self.0.entry(parent.0, &name, &looked))
        });
        match made {
            Ok((ttl, attr)) => reply.entry(&ttl, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer(self.0.rename((parent, name), (new_parent, new_name), flags), reply);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EOPNOTSUPP);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.0.open(request, ino, flags) {
            Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.0.create(request, (parent, name), mode, flags) {
            Ok((ttl, attr, handle, flags)) => {
                reply.created(&ttl, &attr, Generation(0), FileHandle(handle), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(open) = self.0.handles.file(handle.0) else { return reply.error(Errno::EBADF) };
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match open.file.read_at(offset, &mut buffer[..size]) {
                Ok(count) => reply.data(&buffer[..count]),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.write(request, handle, offset, data) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, request: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        answer(self.0.flush(request, handle), reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if let Some(open) = self.0.handles.remove_file(handle.0) {
            // What a mapping wrote after the last close comes to its change here.
            let _ = self.0.put(open.ino, &open.file, Lasts::Soon);
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.0.fsync(handle), reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.opendir(ino) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let read = self.0.read_directory(ino, handle, offset, |number, next, name, found| {
            let (number, kind) = match found {
                Some((name, looked)) => {
                    (self.0.inodes.found(ino.0, name, looked, false), file_type(looked.attr.kind))
                }
                None => (number, file_type(Kind::Directory)),
            };
            reply.add(INodeNo(number), next, kind, name)
        });
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let read = self.0.read_directory(ino, handle, offset, |number, next, name, found| {
            let Some((plain, _)) = found else {
                // The kernel takes these two for names alone, and reads no more than the kind.
                return reply.add(
                    INodeNo(number),
                    next,
                    name,
                    &Duration::ZERO,
                    &self.0.dot(number),
                    Generation(0),
                );
            };
            // Much may have happened since the directory was read, and the kernel would take an older size for the
            // newest, and a name that is gone for one that is there.
            let Ok(looked) = &self.0.look_again(ino, plain) else { return false };
            let number = self.0.inodes.found(ino.0, plain, looked, true);
            let (ttl, attr) = (self.0.ttl(looked), self.0.attr(number, looked));
            let full = reply.add(INodeNo(number), next, name, &ttl, &attr, Generation(0));
            if full {
                self.0.inodes.forget(number, 1);
            }
            full
        });
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.handles.remove_directory(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.0.fsync_directory(ino), reply);
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        match self.0.statfs(ino) {
            Ok(Space { blocks, free, files, files_free }) => {
                let longest = stead_core::path::MAX_COMPONENT as u32;
                reply.statfs(blocks, free, free, files, files_free, 4096, longest, 4096);
            }
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        // To the kernel this means that it need not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(self.0.fallocate(handle, offset, length, mode), reply);
    }
}

fn answer(result: Answer<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
