//! Open files: what is read, written and put down.

use std::ffi::OsStr;

use fuser::{Errno, FileHandle, FopenFlags, INodeNo, OpenAccMode, OpenFlags, Request};
use stead_core::store::{Expect, Lasts};
use stead_core::vfs::{OpenFile, OpenOptions};
use stead_core::{Error, ErrorKind};

use super::{Answer, Mounting, Told, name};
use crate::linux::errno::errno;
use crate::linux::handles::{File, Users};

// As in <fcntl.h>, which are the kernel's own for all programs.
const O_WRONLY: i32 = 1;
const O_TRUNC: i32 = 0o1000;
const O_APPEND: i32 = 0o2000;
const O_EXCL: i32 = 0o200;
const KEEP_SIZE: i32 = 1;

/// How a file is opened that must not be there yet.
pub(crate) const CREATE_NEW: i32 = O_EXCL | O_WRONLY;

impl Mounting {
    pub(crate) fn open(
        &self,
        request: &Request,
        ino: INodeNo,
        flags: OpenFlags,
    ) -> Answer<(u64, FopenFlags)> {
        let (_names, _changing) = (self.names.read(), self.changing());
        let options = open_options(flags);
        // By `/proc/self/fd/N`, say.
        if let Some(open) = self.handles.file_of(ino.0).filter(|_| self.inodes.has_ended(ino.0)) {
            let file = self.door.reopen(&open.file, options).map_err(|error| errno(&error))?;
            // Nobody else can change it: what the kernel has of it is all there is.
            let reply =
                if self.is_blind(ino) { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
            return Ok((self.opened(request, ino, flags, file), reply));
        }
        let (seat, node) = (self.seat(ino)?, self.file_node(ino)?);
        // The kernel knew the name, and another process has removed it since. On ESTALE the kernel looks the name up again:
        // then a program that may create the file does, instead of being told that what it creates is missing.
        let gone = |error: &Error| error.kind() == ErrorKind::NotFound;
        let opened = self.door.open(&seat.path, node, options);
        let file = opened.map_err(|error| if gone(&error) { Errno::ESTALE } else { errno(&error) })?;
        let mut reply = FopenFlags::empty();
        if self.is_blind(ino) {
            reply |= FopenFlags::FOPEN_DIRECT_IO;
        } else if self.inodes.caches(ino.0, file.tag()) {
            reply |= FopenFlags::FOPEN_KEEP_CACHE;
        } else if let Some(notifier) = self.notifier.get() {
            // The kernel drops what it has of the content; the size that it knows may be of another state as well.
            let _ = notifier.inval_inode(ino, -1, 0);
        }
        if !options.write {
            // There is nothing to put down when it is closed, so the kernel need not wait for that.
            reply |= FopenFlags::FOPEN_NOFLUSH;
        }
        Ok((self.opened(request, ino, flags, file), reply))
    }

    /// The handle of a file that was opened.
    fn opened(&self, request: &Request, ino: INodeNo, flags: OpenFlags, file: OpenFile) -> u64 {
        let (writes, appends) = (open_options(flags).write, flags.0 & O_APPEND != 0);
        let users = Users::new(request.pid());
        self.handles.add_file(File { ino: ino.0, file, writes, appends, users })
    }

    pub(crate) fn create(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        flags: i32,
    ) -> Answer<(Told, FileHandle, FopenFlags)> {
        let (_names, _changing) = (self.names.read(), self.changing());
        let (seat, name) = (self.seat(parent)?, self::name(name)?);
        let expect = if flags & O_EXCL == 0 { Expect::Any } else { Expect::Absent };
        let options = open_options(OpenFlags(flags));
        let made = self.door.create(&seat, &name, mode & 0o7777, expect, options);
        let (file, looked) = made.map_err(|error| errno(&error))?;
        let told = self.entry(parent.0, &name, &looked);
        let ino = told.attr.ino;
        let mut reply = FopenFlags::empty();
        if self.is_blind(ino) {
            reply |= FopenFlags::FOPEN_DIRECT_IO;
        } else {
            self.inodes.caches(ino.0, file.tag());
        }
        let appends = flags & O_APPEND != 0;
        let users = Users::new(request.pid());
        let handle = self.handles.add_file(File { ino: ino.0, file, writes: options.write, appends, users });
        Ok((told, FileHandle(handle), reply))
    }

    pub(crate) fn write(
        &self,
        request: &Request,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
    ) -> Answer<u32> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        let _changing = self.changing();
        open.users.add(request.pid());
        let written = if open.appends {
            open.file.append(data).map(|()| data.len())
        } else {
            open.file.write_some_at(offset, data)
        };
        let written = written.map_err(|error| errno(&error))?;
        Ok(u32::try_from(written).expect("the kernel writes less at once"))
    }

    /// Makes what was written a change. The kernel has the content of that already. Whether there was something.
    pub(super) fn put(&self, ino: u64, file: &OpenFile, lasts: Lasts) -> Answer<bool> {
        let _changing = self.changing();
        let (before, merges) = (file.tag(), file.merges());
        let put = match lasts {
            Lasts::Now => file.sync(),
            Lasts::Soon => file.flush(),
        };
        put.map_err(|error| errno(&error))?;
        let changed = file.tag() != before;
        if file.merges() != merges {
            // It holds what others wrote as well, and the kernel does not have that.
            if let Some(notifier) = self.notifier.get() {
                let _ = notifier.inval_inode(INodeNo(ino), -1, 0);
            }
        } else if changed {
            self.inodes.caches(ino, file.tag());
        }
        Ok(changed)
    }

    /// Nobody has it open any more.
    pub(crate) fn release(&self, handle: FileHandle) {
        let Some(open) = self.handles.remove_file(handle.0) else { return };
        // Who reads does not decide when another's work is done.
        if open.writes || !self.handles.files_of(open.ino).iter().any(|other| other.writes) {
            // What a mapping wrote after the last close comes to its change here.
            let _ = self.put(open.ino, &open.file, Lasts::Soon);
        }
    }

    /// Someone has closed it: what was written is a change when that returns.
    pub(crate) fn flush(&self, request: &Request, handle: FileHandle) -> Answer<()> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        if !open.file.is_written() || !open.users.include(request.pid()) {
            return Ok(());
        }
        // A shell opens a file anew, passes it on and closes its own before anything is written. A file that stays
        // empty is a change when nobody has it open any more.
        if open.file.size() == 0 {
            return Ok(());
        }
        self.put(open.ino, &open.file, Lasts::Soon).map(drop)
    }

    /// What was written is on the disk, and so is all that was done before.
    pub(crate) fn fsync(&self, handle: FileHandle) -> Answer<()> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        if self.put(open.ino, &open.file, Lasts::Now)? {
            return Ok(());
        }
        open.file.settle().map_err(|error| errno(&error))
    }

    /// Makes all that was written a change, and closes everything: the mount is about to end.
    pub(crate) fn close_all(&self) {
        for open in self.handles.take_files() {
            let _ = open.file.sync();
        }
    }

    pub(crate) fn fallocate(&self, handle: FileHandle, offset: u64, length: u64, mode: i32) -> Answer<()> {
        let open = self.handles.file(handle.0).ok_or(Errno::EBADF)?;
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        match mode {
            // Room is not set aside; only the size is what it is asked to be.
            KEEP_SIZE => Ok(()),
            0 if end <= open.file.size() => Ok(()),
            0 => {
                let _changing = self.changing();
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
    let truncates = flags.0 & O_TRUNC != 0 && options.write;
    OpenOptions { truncate: truncates, ..options }
}
