//! The kernel's requests, one method each. It translates them into calls of `FuseAdapter`, and delays replies until the
//! kernel has dropped stale content.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use stead_core::path::MAX_COMPONENT;
use stead_core::store::{NodeKind, SpecialKind, VersionTag};

use crate::linux::attributes::file_type;
use crate::linux::errno::errno;
use crate::linux::fuse_adapter::{
    AttrChange, CREATE_NEW, EntryReply, FuseAdapter, FuseResult, Space, WriteReply,
};
use crate::linux::page_cache::ConcurrentWrites;
use crate::linux::session_end::EndOnDrop;

/// The most bytes that are read or written at once.
const MAX_IO_SIZE: u32 = 1 << 20;

/// How long the kernel may take to drop pages that no request has locked.
const INVALIDATION_TIMEOUT: Duration = Duration::from_millis(200);

// The values in <sys/stat.h>, which are the same on every Linux.
const FILE_TYPE_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FIFO: u32 = 0o010_000;
const SOCKET: u32 = 0o140_000;

/// The file system that fuser calls.
#[derive(Debug)]
pub(crate) struct FuseServer {
    pub(crate) adapter: Arc<FuseAdapter>,
    /// fuser drops the file system when the session has ended.
    pub(crate) _end_on_drop: EndOnDrop,
}

thread_local! {
    /// The buffer of this thread's reads.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl FuseServer {
    fn reply_entry(&self, result: FuseResult<EntryReply>, reply: ReplyEntry) {
        match result {
            Ok(entry) => {
                let adapter = Arc::clone(&self.adapter);
                self.after_invalidation(entry.stale_inodes(), move || {
                    let entry = adapter.refreshed_reply(entry);
                    reply.entry(&entry.ttl, &entry.attr, Generation(0));
                });
            }
            Err(error) => reply.error(error),
        }
    }

    fn reply_attr(&self, result: FuseResult<EntryReply>, reply: ReplyAttr) {
        match result {
            Ok(entry) => {
                let adapter = Arc::clone(&self.adapter);
                self.after_invalidation(entry.stale_inodes(), move || {
                    let entry = adapter.refreshed_reply(entry);
                    reply.attr(&entry.ttl, &entry.attr);
                });
            }
            Err(error) => reply.error(error),
        }
    }

    fn reply_after_invalidation(&self, stale: FuseResult<Vec<(INodeNo, VersionTag)>>, reply: ReplyEmpty) {
        match stale {
            Ok(stale) => self.after_invalidation(stale, || reply.ok()),
            Err(error) => reply.error(error),
        }
    }

    /// Makes the kernel drop pages before a write into them is answered. The kernel may have locked one of them for
    /// that very write. It reads that page again by itself, so this waits no longer than the timeout.
    fn invalidate_before_reply(&self, ino: INodeNo, from: u64) {
        let (adapter, (done, dropped)) = (Arc::clone(&self.adapter), channel());
        let invalidate = move || {
            adapter.invalidate_pages(ino, from, ConcurrentWrites::Blocked);
            let _ = done.send(());
        };
        if Builder::new().name("stead-drop".into()).spawn(invalidate).is_ok() {
            let _ = dropped.recv_timeout(INVALIDATION_TIMEOUT);
        }
    }

    /// Call it before the kernel changes a file's size: by then, it knows of the last truncation.
    fn drop_truncated_pages(&self, ino: INodeNo) {
        if let Some(from) = self.adapter.forget_cut_off(ino) {
            self.invalidate_before_reply(ino, from);
        }
    }

    /// Answers after the kernel has dropped the content of these inodes. If there are any, the worker thread does both.
    fn after_invalidation(&self, stale: Vec<(INodeNo, VersionTag)>, answer: impl FnOnce() + Send + 'static) {
        if stale.is_empty() {
            return answer();
        }
        let adapter = Arc::clone(&self.adapter);
        self.adapter.invalidation_worker.submit(Box::new(move || {
            for (ino, tag) in stale {
                adapter.invalidate_content(ino, tag);
            }
            answer();
        }));
    }
}

impl Filesystem for FuseServer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Without FUSE_ATOMIC_O_TRUNC: with it, the kernel would treat the file of a running program as truncated
        // before it finds that the file must not be written, and the program would crash.
        let capabilities = [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            // The kernel must not drop pages by itself when it gets another size: a program may be writing into them.
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        ];
        for flag in capabilities {
            // A kernel that doesn't know a capability works without it.
            let _ = config.add_capabilities(flag);
        }
        let can_map_direct_io = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        self.adapter.direct_io_mmap.store(can_map_direct_io, Ordering::Relaxed);
        let _ = config.set_max_write(MAX_IO_SIZE);
        if let Err(max) = config.set_max_readahead(MAX_IO_SIZE) {
            let _ = config.set_max_readahead(max);
        }
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn destroy(&mut self) {
        self.adapter.close_all();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reply_entry(self.adapter.lookup(request, parent, name), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.adapter.forget(ino.0, times);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attr(self.adapter.getattr(ino, handle), reply);
    }

    fn setattr(
        &self,
        request: &Request,
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
        if size.is_some() {
            self.drop_truncated_pages(ino);
        }
        let change = AttrChange { mode, uid, gid, size, modified };
        self.reply_attr(self.adapter.setattr(request, ino, change, handle), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.adapter.readlink(ino) {
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
        let special = match mode & FILE_TYPE_MASK {
            REGULAR | 0 => None,
            FIFO => Some(SpecialKind::Fifo),
            SOCKET => Some(SpecialKind::Socket),
            _ => return reply.error(Errno::EPERM),
        };
        if let Some(kind) = special {
            return self.reply_entry(self.adapter.make_special((parent, name), kind, mode), reply);
        }
        let created =
            self.adapter.create(request, (parent, name), mode, CREATE_NEW).map(|(entry, opened)| {
                self.adapter.release(opened.handle);
                entry
            });
        self.reply_entry(created, reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.reply_entry(self.adapter.mkdir(parent, name, mode), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.adapter.remove(parent, name, NodeKind::File), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.adapter.remove(parent, name, NodeKind::Directory), reply);
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.reply_entry(self.adapter.symlink(parent, name, target), reply);
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
        reply_empty(self.adapter.rename((parent, name), (new_parent, new_name), flags), reply);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EOPNOTSUPP);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.adapter.open(request, ino, flags) {
            Ok(opened) => {
                self.after_invalidation(opened.stale_inodes, move || {
                    reply.opened(opened.handle, opened.flags)
                });
            }
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
        match self.adapter.create(request, (parent, name), mode, flags) {
            Ok((entry, opened)) => self.after_invalidation(opened.stale_inodes, move || {
                reply.created(&entry.ttl, &entry.attr, Generation(0), opened.handle, opened.flags);
            }),
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
        let Some(open) = self.adapter.handles.file(handle.0) else { return reply.error(Errno::EBADF) };
        if open.is_direct {
            open.pages.note_direct_read();
        } else {
            open.pages.note_read(offset..offset.saturating_add(size.into()));
        }
        READ_BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let read = if open.is_direct {
                open.file.read_at(offset, &mut buffer[..size])
            } else {
                open.file.read_with_cut_off(offset, &mut buffer[..size])
            };
            match read {
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
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.adapter.write(request, handle, offset, data, flags) {
            Ok((count, WriteReply::Done)) => reply.written(count),
            Ok((count, WriteReply::DirectWrite { ino, from, guard })) => {
                let adapter = Arc::clone(&self.adapter);
                self.adapter.write_reply_worker.submit(Box::new(move || {
                    adapter.invalidate_pages(ino, from, ConcurrentWrites::Blocked);
                    drop(guard);
                    reply.written(count);
                }));
            }
            Ok((count, WriteReply::BehindEnd { ino, from })) => {
                reply.written(count);
                let adapter = Arc::clone(&self.adapter);
                self.adapter.invalidation_worker.submit(Box::new(move || {
                    adapter.invalidate_pages(ino, from, ConcurrentWrites::Possible)
                }));
            }
            Ok((count, WriteReply::StalePages { ino, from })) => {
                self.invalidate_before_reply(ino, from);
                reply.written(count);
            }
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, request: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.reply_after_invalidation(self.adapter.flush(request, handle), reply);
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
        self.reply_after_invalidation(Ok(self.adapter.release(handle)), reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.reply_after_invalidation(self.adapter.fsync(handle), reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.adapter.opendir(ino) {
            Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let read = self.adapter.read_directory(ino, handle, offset, |entry| {
            let (entry_ino, kind) = self.adapter.entry_ino_and_kind(ino, entry);
            reply.add(INodeNo(entry_ino), entry.next, file_type(kind), entry.name)
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
        let mut stale = Vec::new();
        let read = self.adapter.read_directory(ino, handle, offset, |entry| {
            let Some(entry_reply) = self.adapter.listed_entry_reply(ino, entry) else { return false };
            let EntryReply { ttl, attr, stale_for } = &entry_reply;
            let is_full = reply.add(attr.ino, entry.next, entry.name, ttl, attr, Generation(0));
            if is_full {
                self.adapter.undo_lookup(entry, &entry_reply);
            } else {
                stale.extend(stale_for.map(|tag| (attr.ino, tag)));
            }
            is_full
        });
        match read {
            Ok(()) => self.after_invalidation(stale, || reply.ok()),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.adapter.handles.remove_directory(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(self.adapter.fsync_directory(ino), reply);
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        match self.adapter.statfs(ino) {
            Ok(Space { blocks, free, files, files_free }) => {
                let max_name_length = MAX_COMPONENT as u32;
                reply.statfs(blocks, free, free, files, files_free, 4096, max_name_length, 4096);
            }
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        // ENOSYS tells the kernel not to send this request again.
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
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.drop_truncated_pages(ino);
        reply_empty(self.adapter.fallocate(handle, offset, length, mode), reply);
    }
}

fn reply_empty(result: FuseResult<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
