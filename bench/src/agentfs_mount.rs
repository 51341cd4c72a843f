//! AgentFS on a mount.
//!
//! Its own mount is in no registry. Its library is, and has a trait made for FUSE, call for call: what is here hands
//! the kernel's requests to that and adds nothing. The kernel may remember all it is told for long, since nobody else
//! changes anything, and need not tell of a close.

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

const LONG: Duration = Duration::from_secs(60);
const MOST: u32 = 1 << 20;
const O_TRUNC: i32 = 0o1000;
const THREADS: usize = 8;

/// A mounted AgentFS, as long as this is there.
pub struct Mounted {
    _session: BackgroundSession,
}

/// Mounts a database in a directory at another one.
pub fn mount(database: &Path, at: &Path) -> Result<Mounted> {
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
    Ok(Mounted { _session: Session::new(adapter, at, &config)?.spawn()? })
}

struct Adapter {
    agent: AgentFS,
    runtime: Runtime,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last: u64,
    files: HashMap<u64, BoxedFile>,
    directories: HashMap<u64, Arc<Vec<DirEntry>>>,
}

type Answer<T> = std::result::Result<T, Errno>;

fn errno(error: &Error) -> Errno {
    match error {
        Error::Fs(error) => Errno::from_i32(error.to_errno()),
        _ => Errno::EIO,
    }
}

fn text(name: &OsStr) -> Answer<&str> {
    name.to_str().ok_or(Errno::EINVAL)
}

fn number(ino: INodeNo) -> i64 {
    ino.0.cast_signed()
}

fn kind(mode: u32) -> FileType {
    match mode & S_IFMT {
        0o040_000 => FileType::Directory,
        0o120_000 => FileType::Symlink,
        _ => FileType::RegularFile,
    }
}

fn attr(stats: &Stats) -> FileAttr {
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
        kind: kind(stats.mode),
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
    fn wait<T>(&self, answer: impl Future<Output = std::result::Result<T, Error>>) -> Answer<T> {
        self.runtime.block_on(answer).map_err(|error| errno(&error))
    }

    /// As the kernel needs it: by number, not by path.
    fn fs(&self) -> &dyn FileSystem {
        &self.agent.fs
    }

    fn with_open<T>(&self, use_it: impl FnOnce(&mut Open) -> T) -> T {
        use_it(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, file: BoxedFile) -> FileHandle {
        self.with_open(|open| {
            open.last += 1;
            open.files.insert(open.last, file);
            FileHandle(open.last)
        })
    }

    fn file(&self, handle: FileHandle) -> Answer<BoxedFile> {
        self.with_open(|open| open.files.get(&handle.0).cloned()).ok_or(Errno::EBADF)
    }

    fn stats(&self, ino: INodeNo) -> Answer<Stats> {
        self.wait(self.fs().getattr(number(ino)))?.ok_or(Errno::ENOENT)
    }

    fn opened(&self, ino: INodeNo, flags: i32) -> Answer<FileHandle> {
        let file = self.wait(self.fs().open(number(ino), flags))?;
        if flags & O_TRUNC != 0 {
            self.wait(file.truncate(0))?;
        }
        Ok(self.keep(file))
    }

    fn changed(
        &self,
        ino: INodeNo,
        mode: Option<u32>,
        size: Option<u64>,
        modified: Option<TimeOrNow>,
        handle: Option<FileHandle>,
    ) -> Answer<Stats> {
        if let Some(mode) = mode {
            self.wait(self.fs().chmod(number(ino), mode))?;
        }
        if let Some(size) = size {
            let file = match handle {
                Some(handle) => self.file(handle)?,
                None => self.wait(self.fs().open(number(ino), 2))?,
            };
            self.wait(file.truncate(size))?;
        }
        if let Some(modified) = modified {
            let modified = match modified {
                TimeOrNow::Now => TimeChange::Now,
                TimeOrNow::SpecificTime(time) => {
                    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                    TimeChange::Set(since.as_secs().cast_signed(), since.subsec_nanos())
                }
            };
            self.wait(self.fs().utimens(number(ino), TimeChange::Omit, modified))?;
        }
        self.stats(ino)
    }

    fn listed(&self, ino: INodeNo) -> Answer<FileHandle> {
        let entries = self.wait(self.fs().readdir_plus(number(ino)))?.ok_or(Errno::ENOENT)?;
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

fn answer(result: Answer<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn answer_entry(result: Answer<Stats>, reply: ReplyEntry) {
    match result {
        Ok(stats) => reply.entry(&LONG, &attr(&stats), Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn answer_attr(result: Answer<Stats>, reply: ReplyAttr) {
    match result {
        Ok(stats) => reply.attr(&LONG, &attr(&stats)),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
        ];
        for flag in wanted {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(MOST);
        let _ = config.set_max_readahead(MOST);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = text(name)
            .and_then(|name| self.wait(self.fs().lookup(number(parent), name))?.ok_or(Errno::ENOENT));
        answer_entry(found, reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer_attr(self.stats(ino), reply);
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
        answer_attr(self.changed(ino, mode, size, modified, handle), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.wait(self.fs().readlink(number(ino))) {
            Ok(Some(target)) => reply.data(target.as_bytes()),
            Ok(None) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let made = text(name).and_then(|name| self.wait(self.fs().mkdir(number(parent), name, mode, 0, 0)));
        answer_entry(made, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = text(name).and_then(|name| self.wait(self.fs().unlink(number(parent), name)));
        answer(removed, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = text(name).and_then(|name| self.wait(self.fs().rmdir(number(parent), name)));
        answer(removed, reply);
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = text(name).and_then(|name| {
            let target = text(target.as_os_str())?;
            self.wait(self.fs().symlink(number(parent), name, target, 0, 0))
        });
        answer_entry(made, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = text(name).and_then(|name| self.wait(self.fs().link(number(ino), number(parent), name)));
        answer_entry(made, reply);
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
        let renamed = text(name).and_then(|name| {
            let (from, to) = (number(parent), number(new_parent));
            self.wait(self.fs().rename(from, name, to, text(new_name)?))
        });
        answer(renamed, reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.opened(ino, flags.0) {
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
        let made = text(name).and_then(|name| {
            self.wait(self.fs().create_file(number(parent), name, S_IFREG | mode & 0o7777, 0, 0))
        });
        match made {
            Ok((stats, file)) => {
                let handle = self.keep(file);
                reply.created(&LONG, &attr(&stats), Generation(0), handle, FopenFlags::FOPEN_NOFLUSH);
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
        answer(self.file(handle).and_then(|file| self.wait(file.fsync())), reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.listed(ino) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = self.entries(handle);
        for (at, entry) in entries.iter().enumerate().skip(offset as usize) {
            let ino = INodeNo(entry.stats.ino.cast_unsigned());
            if reply.add(ino, at as u64 + 1, kind(entry.stats.mode), &entry.name) {
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
        for (at, entry) in entries.iter().enumerate().skip(offset as usize) {
            let attr = attr(&entry.stats);
            if reply.add(attr.ino, at as u64 + 1, &entry.name, &LONG, &attr, Generation(0)) {
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
