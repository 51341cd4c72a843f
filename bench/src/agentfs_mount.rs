//! AgentFS on a mount.
//!
//! AgentFS's own mount program is in no package registry. Its library is, and has a trait with one method per FUSE
//! request. This adapter passes the kernel's requests on to that trait and adds nothing. No other program changes the
//! files, so the kernel may cache everything for a minute, and doesn't have to report a close (`FOPEN_NOFLUSH`).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentfs_sdk::error::Error;
use agentfs_sdk::filesystem::{BoxedFile, DirEntry, FileSystem, S_IFMT, S_IFREG, Stats, TimeChange};
use agentfs_sdk::{AgentFS, AgentFSOptions};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};
use tokio::runtime::Runtime;

use crate::Result;

const TTL: Duration = Duration::from_secs(60);
const MAX_IO_SIZE: u32 = 1 << 20;
const O_TRUNC: i32 = 0o1000;
const THREADS: usize = 8;

/// A mounted AgentFS. Dropping it unmounts it.
pub struct AgentFsMount {
    _session: BackgroundSession,
}

/// Mounts the database `agent.db` in the directory `database` at `mount_point`.
pub fn mount(database: &Path, mount_point: &Path) -> Result<AgentFsMount> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let path = database.join("agent.db").to_string_lossy().into_owned();
    let agent = runtime.block_on(AgentFS::open(AgentFSOptions::with_path(path)))?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("agentfs".into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let adapter = Adapter { agent, runtime, open: Mutex::default() };
    Ok(AgentFsMount { _session: Session::new(adapter, mount_point, &config)?.spawn()? })
}

struct Adapter {
    agent: AgentFS,
    runtime: Runtime,
    open: Mutex<OpenHandles>,
}

#[derive(Default)]
struct OpenHandles {
    last: u64,
    files: HashMap<u64, BoxedFile>,
    directories: HashMap<u64, Arc<Vec<DirEntry>>>,
}

type FuseResult<T> = std::result::Result<T, Errno>;

fn errno(error: &Error) -> Errno {
    match error {
        Error::Fs(error) => Errno::from_i32(error.to_errno()),
        _ => Errno::EIO,
    }
}

fn utf8_name(name: &OsStr) -> FuseResult<&str> {
    name.to_str().ok_or(Errno::EINVAL)
}

fn ino_number(ino: INodeNo) -> i64 {
    ino.0.cast_signed()
}

fn file_type(mode: u32) -> FileType {
    match mode & S_IFMT {
        0o040_000 => FileType::Directory,
        0o120_000 => FileType::Symlink,
        _ => FileType::RegularFile,
    }
}

fn file_attr(stats: &Stats) -> FileAttr {
    let time = |seconds: i64, nanos| UNIX_EPOCH + Duration::new(seconds.max(0).cast_unsigned(), nanos);
    let size = stats.size.cast_unsigned();
    FileAttr {
        ino: INodeNo(stats.ino.cast_unsigned()),
        size,
        blocks: size.div_ceil(512),
        atime: time(stats.atime, stats.atime_nsec),
        mtime: time(stats.mtime, stats.mtime_nsec),
        ctime: time(stats.ctime, stats.ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: file_type(stats.mode),
        perm: (stats.mode & 0o7777) as u16,
        nlink: stats.nlink,
        uid: stats.uid,
        gid: stats.gid,
        rdev: 0,
        blksize: 128 << 10,
        flags: 0,
    }
}

impl Adapter {
    fn wait<T>(&self, future: impl Future<Output = std::result::Result<T, Error>>) -> FuseResult<T> {
        self.runtime.block_on(future).map_err(|error| errno(&error))
    }

    /// The file system addressed by inode numbers, as the kernel needs it, instead of by paths.
    fn fs(&self) -> &dyn FileSystem {
        &self.agent.fs
    }

    fn with_open<T>(&self, action: impl FnOnce(&mut OpenHandles) -> T) -> T {
        action(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add_file(&self, file: BoxedFile) -> FileHandle {
        self.with_open(|open| {
            open.last += 1;
            open.files.insert(open.last, file);
            FileHandle(open.last)
        })
    }

    fn file(&self, handle: FileHandle) -> FuseResult<BoxedFile> {
        self.with_open(|open| open.files.get(&handle.0).cloned()).ok_or(Errno::EBADF)
    }

    fn stats(&self, ino: INodeNo) -> FuseResult<Stats> {
        self.wait(self.fs().getattr(ino_number(ino)))?.ok_or(Errno::ENOENT)
    }

    fn open_file(&self, ino: INodeNo, flags: i32) -> FuseResult<FileHandle> {
        let file = self.wait(self.fs().open(ino_number(ino), flags))?;
        if flags & O_TRUNC != 0 {
            self.wait(file.truncate(0))?;
        }
        Ok(self.add_file(file))
    }

    fn set_attributes(
        &self,
        ino: INodeNo,
        mode: Option<u32>,
        size: Option<u64>,
        modified: Option<TimeOrNow>,
        handle: Option<FileHandle>,
    ) -> FuseResult<Stats> {
        if let Some(mode) = mode {
            self.wait(self.fs().chmod(ino_number(ino), mode))?;
        }
        if let Some(size) = size {
            let file = match handle {
                Some(handle) => self.file(handle)?,
                None => self.wait(self.fs().open(ino_number(ino), 2))?,
            };
            self.wait(file.truncate(size))?;
        }
        if let Some(modified) = modified {
            let modified = match modified {
                TimeOrNow::Now => TimeChange::Now,
                TimeOrNow::SpecificTime(time) => {
                    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                    TimeChange::Set(since_epoch.as_secs().cast_signed(), since_epoch.subsec_nanos())
                }
            };
            self.wait(self.fs().utimens(ino_number(ino), TimeChange::Omit, modified))?;
        }
        self.stats(ino)
    }

    fn open_directory(&self, ino: INodeNo) -> FuseResult<FileHandle> {
        let entries = self.wait(self.fs().readdir_plus(ino_number(ino)))?.ok_or(Errno::ENOENT)?;
        Ok(self.with_open(|open| {
            open.last += 1;
            open.directories.insert(open.last, Arc::new(entries));
            FileHandle(open.last)
        }))
    }

    fn entries(&self, handle: FileHandle) -> Arc<Vec<DirEntry>> {
        self.with_open(|open| open.directories.get(&handle.0).cloned()).unwrap_or_default()
    }
}

fn reply_empty(result: FuseResult<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn reply_entry(result: FuseResult<Stats>, reply: ReplyEntry) {
    match result {
        Ok(stats) => reply.entry(&TTL, &file_attr(&stats), Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn reply_attr(result: FuseResult<Stats>, reply: ReplyAttr) {
    match result {
        Ok(stats) => reply.attr(&TTL, &file_attr(&stats)),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let capabilities = [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
        ];
        for flag in capabilities {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(MAX_IO_SIZE);
        let _ = config.set_max_readahead(MAX_IO_SIZE);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = utf8_name(name)
            .and_then(|name| self.wait(self.fs().lookup(ino_number(parent), name))?.ok_or(Errno::ENOENT));
        reply_entry(found, reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply_attr(self.stats(ino), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
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
        reply_attr(self.set_attributes(ino, mode, size, modified, handle), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.wait(self.fs().readlink(ino_number(ino))) {
            Ok(Some(target)) => reply.data(target.as_bytes()),
            Ok(None) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let created =
            utf8_name(name).and_then(|name| self.wait(self.fs().mkdir(ino_number(parent), name, mode, 0, 0)));
        reply_entry(created, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = utf8_name(name).and_then(|name| self.wait(self.fs().unlink(ino_number(parent), name)));
        reply_empty(removed, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = utf8_name(name).and_then(|name| self.wait(self.fs().rmdir(ino_number(parent), name)));
        reply_empty(removed, reply);
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let created = utf8_name(name).and_then(|name| {
            let target = utf8_name(target.as_os_str())?;
            self.wait(self.fs().symlink(ino_number(parent), name, target, 0, 0))
        });
        reply_entry(created, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let created = utf8_name(name)
            .and_then(|name| self.wait(self.fs().link(ino_number(ino), ino_number(parent), name)));
        reply_entry(created, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = utf8_name(name).and_then(|name| {
            let (from, to) = (ino_number(parent), ino_number(new_parent));
            self.wait(self.fs().rename(from, name, to, utf8_name(new_name)?))
        });
        reply_empty(renamed, reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(ino, flags.0) {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let created = utf8_name(name).and_then(|name| {
            self.wait(self.fs().create_file(ino_number(parent), name, S_IFREG | mode & 0o7777, 0, 0))
        });
        match created {
            Ok((stats, file)) => {
                let handle = self.add_file(file);
                reply.created(&TTL, &file_attr(&stats), Generation(0), handle, FopenFlags::FOPEN_NOFLUSH);
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
        match self.file(handle).and_then(|file| self.wait(file.pread(offset, size.into()))) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file(handle).and_then(|file| self.wait(file.pwrite(offset, data))) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
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
        self.with_open(|open| open.files.remove(&handle.0));
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(self.file(handle).and_then(|file| self.wait(file.fsync())), reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_directory(ino) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = self.entries(handle);
        for (index, entry) in entries.iter().enumerate().skip(offset as usize) {
            let ino = INodeNo(entry.stats.ino.cast_unsigned());
            if reply.add(ino, index as u64 + 1, file_type(entry.stats.mode), &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let entries = self.entries(handle);
        for (index, entry) in entries.iter().enumerate().skip(offset as usize) {
            let attr = file_attr(&entry.stats);
            if reply.add(attr.ino, index as u64 + 1, &entry.name, &TTL, &attr, Generation(0)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.with_open(|open| open.directories.remove(&handle.0));
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 30, 1 << 29, 1 << 29, 1 << 30, 1 << 29, 4096, 255, 4096);
    }
}
