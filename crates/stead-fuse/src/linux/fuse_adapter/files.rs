//! Opening, writing, committing and closing files.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::{Errno, FileHandle, FopenFlags, INodeNo, OpenAccMode, OpenFlags, Request, WriteFlags};
use stead_core::store::{Precondition, SyncPolicy, VersionTag};
use stead_core::vfs::{OpenFile, OpenOptions};
use stead_core::{Error, ErrorKind};

use super::{EntryReply, FileAge, FuseAdapter, FuseResult, parse_name};
use crate::linux::errno::errno;
use crate::linux::handles::{OpenedFile, UsingThreads};
use crate::linux::page_cache::DirectWriteGuard;

// The values in <fcntl.h>, and KEEP_SIZE from <linux/falloc.h>.
const O_WRONLY: i32 = 1;
const O_TRUNC: i32 = 0o1000;
const O_APPEND: i32 = 0o2000;
const O_EXCL: i32 = 0o200;
const KEEP_SIZE: i32 = 1;

/// The flags for a file that must not exist yet.
pub(crate) const CREATE_NEW: i32 = O_EXCL | O_WRONLY;

/// A file that was opened.
pub(crate) struct OpenReply {
    pub(crate) handle: FileHandle,
    pub(crate) flags: FopenFlags,
    /// The inodes whose content the kernel has to drop before it gets the reply, each with its present version.
    pub(crate) stale_inodes: Vec<(INodeNo, VersionTag)>,
}

/// What the kernel has to drop from its page cache because of a write, and when.
pub(crate) enum WriteReply {
    /// Nothing: reply at once.
    Done,
    /// Pages from an offset on, before the reply: they lack the direct write.
    DirectWrite { ino: INodeNo, from: u64, guard: DirectWriteGuard },
    /// Pages from an offset on, after the reply: their stale bytes lie behind the end of the file.
    BehindEnd { ino: INodeNo, from: u64 },
    /// Pages from an offset on, before the reply: they may lack what was written, because they were invalidated after
    /// the kernel had copied it into them, or they may hold bytes that were truncated.
    StalePages { ino: INodeNo, from: u64 },
}

impl FuseAdapter {
    pub(crate) fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags) -> FuseResult<OpenReply> {
        let (_names, _change_guard) = (self.names_lock.read(), self.begin_change());
        let options = open_options(flags);
        // The file was removed but is still open, and is opened again, for example through `/proc/self/fd/N`.
        if let Some(open) = self.handles.any_file_of(ino.0).filter(|_| self.inodes.is_removed(ino.0)) {
            if !self.retries.take_or_add(request.pid(), ino.0) {
                return Err(Errno::ESTALE);
            }
            let file = self.node_api.reopen(&open.file, options).map_err(|error| errno(&error))?;
            return Ok(self.add_file(request, ino, file, flags, FileAge::Existing));
        }
        self.retries.end(request.pid());
        let (node_ref, node) = (self.node_ref(ino)?, self.file_node(ino)?);
        // The kernel knew the name, and another process has removed it since. On ESTALE, the kernel looks the name up
        // again: then a program that may create the file does, instead of getting an error that the file doesn't exist.
        let is_missing = |error: &Error| error.kind() == ErrorKind::NotFound;
        let opened = self.node_api.open(&node_ref.path, node, options);
        let file = opened.map_err(|error| if is_missing(&error) { Errno::ESTALE } else { errno(&error) })?;
        Ok(self.add_file(request, ino, file, flags, FileAge::Existing))
    }

    /// Adds a file that was opened to the handles, and chooses between buffered and direct I/O.
    fn add_file(
        &self,
        request: &Request,
        ino: INodeNo,
        file: OpenFile,
        flags: OpenFlags,
        age: FileAge,
    ) -> OpenReply {
        let is_write_only = self.is_write_only(ino);
        let is_writable = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let is_append = flags.0 & O_APPEND != 0;
        let stale = if is_write_only { None } else { self.note_opened(ino, &file, age) };
        // The kernel splits buffered writes at page boundaries. A direct write arrives in one piece, so that another
        // program's append can't get into the middle of it.
        let must_arrive_in_one_piece = is_writable && is_append;
        // A buffered read ends where the kernel believes that the file ends, and the kernel ignores a new size that it
        // gets while something changes. Also, a program that waits for a page gets that page even if it was dropped
        // because a direct write made the file longer, and sees zeros up to the new end.
        let may_have_stale_size =
            !is_writable && (stale.is_some() || self.inodes.was_changed_elsewhere(ino.0));
        let is_mappable =
            flags.acc_mode() == OpenAccMode::O_WRONLY || self.direct_io_mmap.load(Ordering::Relaxed);
        let is_direct = is_write_only || is_mappable && (must_arrive_in_one_piece || may_have_stale_size);
        if is_direct && is_writable {
            self.inodes.note_direct_write(ino.0);
        }
        // The kernel must not drop pages by itself when a file is opened: `PageCache` has to know of each invalidation
        // while a program writes.
        let mut reply_flags = FopenFlags::FOPEN_KEEP_CACHE;
        reply_flags.set(FopenFlags::FOPEN_DIRECT_IO, is_direct);
        // There is nothing to commit when it is closed, so the kernel need not ask for that.
        reply_flags.set(FopenFlags::FOPEN_NOFLUSH, !is_writable);
        let (using_threads, pages) =
            (UsingThreads::new(request.pid()), self.inodes.pages(ino.0).unwrap_or_default());
        let has_unfinished_write = AtomicBool::new(false);
        let file = OpenedFile {
            ino: ino.0,
            file,
            is_writable,
            is_append,
            is_direct,
            pages,
            using_threads,
            has_unfinished_write,
        };
        let handle = FileHandle(self.handles.add_file(file));
        OpenReply {
            handle,
            flags: reply_flags,
            stale_inodes: stale.map(|tag| (ino, tag)).into_iter().collect(),
        }
    }

    pub(crate) fn create(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        flags: i32,
    ) -> FuseResult<(EntryReply, OpenReply)> {
        let (_names, _change_guard) = (self.names_lock.read(), self.begin_change());
        let (node_ref, name) = (self.node_ref(parent)?, self::parse_name(name)?);
        let precondition = if flags & O_EXCL == 0 { Precondition::Any } else { Precondition::Absent };
        let options = open_options(OpenFlags(flags));
        let created = self.node_api.create(&node_ref, &name, mode & 0o7777, precondition, options);
        let (file, lookup) = created.map_err(|error| errno(&error))?;
        let entry = self.record_entry(parent.0, &name, &lookup);
        let opened = self.add_file(request, entry.attr.ino, file, OpenFlags(flags), FileAge::New);
        Ok((entry, opened))
    }

    pub(crate) fn write(
        &self,
        request: &Request,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
    ) -> FuseResult<(u32, WriteReply)> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        let _change_guard = self.begin_change();
        open.using_threads.add(request.pid());
        open.has_unfinished_write.store(true, Ordering::SeqCst);
        let ino = INodeNo(open.ino);
        if flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            // Writeback of a memory mapping, through any open handle. It goes to its own offset, even if that handle
            // appends.
            let count = open.file.write_some_at(offset, data).map_err(|error| errno(&error))?;
            return Ok((reply_count(count), WriteReply::Done));
        }
        // The kernel sends a write only after it knows of every truncation. If it read truncated bytes since, it may
        // have done so after it knew, and has to drop them.
        let stale_from = open.file.forget_cut_off();
        let guard = open.is_direct.then(|| open.pages.begin_direct_write());
        if guard.is_some() {
            self.inodes.note_direct_write(open.ino);
        }
        let written = if open.is_append {
            open.file.append(data).map(|start| (start, data.len()))
        } else {
            open.file.write_some_at(offset, data).map(|count| (offset, count))
        };
        let (start, count) = written.map_err(|error| errno(&error))?;
        let (from, length) = (start.min(offset), count as u64);
        let written_range = from..offset.max(from) + length;
        // If the write continues from where the file was truncated, the kernel's pages have the new bytes, and their
        // stale bytes lie behind the end of the file.
        let is_stale_behind_end = stale_from.is_some_and(|stale| written_range.start <= stale);
        let from = stale_from.map_or(from, |stale| stale.min(from));
        let write_reply = match guard {
            Some(guard) if open.pages.has_pages() => WriteReply::DirectWrite { ino, from, guard },
            Some(_) => WriteReply::Done,
            None if open.pages.note_write(&written_range) || stale_from.is_some() && !is_stale_behind_end => {
                WriteReply::StalePages { ino, from }
            }
            None if is_stale_behind_end => WriteReply::BehindEnd { ino, from: written_range.end },
            None => WriteReply::Done,
        };
        Ok((reply_count(count), write_reply))
    }

    /// Forgets the bytes that were truncated from a file, because the kernel knows of every truncation by now. Returns
    /// the offset from which the kernel has to drop its pages, if it has read such bytes.
    pub(crate) fn forget_cut_off(&self, ino: INodeNo) -> Option<u64> {
        self.handles.any_file_of(ino.0)?.file.forget_cut_off()
    }

    /// Commits what was written as a change. Returns whether there was anything to commit. The kernel has the new
    /// content already, unless that includes the writes of others.
    pub(super) fn commit(&self, ino: u64, file: &OpenFile, sync_policy: SyncPolicy) -> FuseResult<bool> {
        let _change_guard = self.begin_change();
        let mut changed = false;
        let result = file.commit_draft(sync_policy, |committed| {
            changed = true;
            self.inodes.advance_cached_tag(ino, committed.base, committed.tag);
        });
        result.map_err(|error| errno(&error))?;
        Ok(changed)
    }

    /// Commits what was written, because the program that wrote through this handle has closed or synced it.
    fn finish(&self, open: &OpenedFile, sync_policy: SyncPolicy) -> FuseResult<bool> {
        open.has_unfinished_write.store(false, Ordering::SeqCst);
        let result = self.commit(open.ino, &open.file, sync_policy);
        result.inspect_err(|_| open.has_unfinished_write.store(true, Ordering::SeqCst))
    }

    /// The inode whose content the kernel has to drop after a change, if any.
    fn stale_inodes(&self, ino: u64, file: &OpenFile) -> Vec<(INodeNo, VersionTag)> {
        let tag = Some(file.tag()).filter(|tag| self.inodes.is_stale(ino, *tag));
        tag.map(|tag| (INodeNo(ino), tag)).into_iter().collect()
    }

    /// Ends a handle that no program has open any more. Returns what the kernel has to drop.
    pub(crate) fn release(&self, handle: FileHandle) -> Vec<(INodeNo, VersionTag)> {
        let Some(open) = self.handles.remove_file(handle.0) else { return Vec::new() };
        // The kernel releases a handle some time after its last close. What another program has written through its own
        // handle by then isn't finished: it is committed when that program closes the file.
        let has_unfinished_write = open.has_unfinished_write.load(Ordering::SeqCst);
        if has_unfinished_write || !self.handles.files_of(open.ino).iter().any(|other| other.is_writable) {
            // This also commits what a memory mapping wrote after the last close.
            if let Ok(true) = self.commit(open.ino, &open.file, SyncPolicy::Deferred) {
                return self.stale_inodes(open.ino, &open.file);
            }
        }
        Vec::new()
    }

    /// Commits what was written, because a program has closed the file. Returns what the kernel has to drop.
    pub(crate) fn flush(
        &self,
        request: &Request,
        handle: FileHandle,
    ) -> FuseResult<Vec<(INodeNo, VersionTag)>> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        if !open.file.has_uncommitted_writes() || !open.using_threads.includes_process_of(request.pid()) {
            return Ok(Vec::new());
        }
        // A shell opens a file with O_TRUNC, passes it to a child and closes its own descriptor before anything is
        // written. So a file that is still empty is committed only when no program has it open any more.
        if open.file.size() == 0 {
            return Ok(Vec::new());
        }
        self.finish(&open, SyncPolicy::Deferred)?;
        Ok(self.stale_inodes(open.ino, &open.file))
    }

    /// Commits what was written and syncs it to disk, with all earlier changes. Returns what the kernel has to drop.
    pub(crate) fn fsync(&self, handle: FileHandle) -> FuseResult<Vec<(INodeNo, VersionTag)>> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        if !self.finish(&open, SyncPolicy::Now)? {
            open.file.sync_store().map_err(|error| errno(&error))?;
        }
        Ok(self.stale_inodes(open.ino, &open.file))
    }

    /// Commits everything that was written, and closes all files: the mount is about to end.
    pub(crate) fn close_all(&self) {
        for open in self.handles.take_files() {
            let _ = open.file.sync();
        }
    }

    pub(crate) fn fallocate(
        &self,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> FuseResult<()> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        match mode {
            // Space is not reserved. Only the size grows, if that is requested.
            KEEP_SIZE => Ok(()),
            0 if end <= open.file.size() => Ok(()),
            0 => {
                let _change_guard = self.begin_change();
                open.file.set_size(end).map_err(|error| errno(&error))
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}

fn open_options(flags: OpenFlags) -> OpenOptions {
    let options = match flags.acc_mode() {
        OpenAccMode::O_RDONLY => OpenOptions::read(),
        OpenAccMode::O_WRONLY => OpenOptions::write(),
        OpenAccMode::O_RDWR => OpenOptions::read_write(),
    };
    let truncate = flags.0 & O_TRUNC != 0 && options.write;
    OpenOptions { truncate, ..options }
}

/// The number of bytes written, in the kernel's type.
fn reply_count(count: usize) -> u32 {
    u32::try_from(count).expect("the kernel writes less than 4 GiB at once")
}
