//! The memory that processes share through SQLite's `-shm` file, allocated on the disk before it is used.
//!
//! SQLite extends that file by writing one byte into every 4 KiB of it. On a file system with smaller blocks the rest
//! stays a hole, and on a full disk the kernel kills the process (SIGBUS) when it writes there. So connections use the
//! host's VFS (SQLite's interface to the file system) with one addition: every mapped region is populated at once, and
//! a disk without space for it is an ordinary error.

#![allow(unsafe_code, reason = "SQLite's interface to the host is C, and so is the region that it maps")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use rusqlite::{Connection, ffi};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::database::error::{DatabaseError, Result};

/// The name of the VFS that connections are opened with.
pub(crate) const VFS_NAME: &CStr = c"stead";

type ShmMap = unsafe extern "C" fn(*mut ffi::sqlite3_file, c_int, c_int, c_int, *mut *mut c_void) -> c_int;

/// The host's own VFS. It is static in SQLite, and never changes.
struct HostVfs(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite itself uses it from every thread.
unsafe impl Send for HostVfs {}
// SAFETY: the same.
unsafe impl Sync for HostVfs {}

/// A table of SQLite's I/O methods, and a copy of it that populates what is mapped.
struct IoMethods {
    original: *const ffi::sqlite3_io_methods,
    copy: &'static ffi::sqlite3_io_methods,
}

// SAFETY: both tables are static, and nothing writes to them.
unsafe impl Send for IoMethods {}

static HOST_VFS: OnceLock<Option<HostVfs>> = OnceLock::new();
static IO_METHODS: Mutex<Vec<IoMethods>> = Mutex::new(Vec::new());
static HOST_SHM_MAP: OnceLock<ShmMap> = OnceLock::new();

/// Registers [`VFS_NAME`] with SQLite. Returns `false` if that failed: then the host's own VFS has to be used.
pub(crate) fn register() -> bool {
    let host = HOST_VFS.get_or_init(|| {
        // SAFETY: the default VFS is found without a name, is static, and outlives the program's use of SQLite. The
        // copy is leaked, because SQLite keeps it forever.
        unsafe {
            let host = ffi::sqlite3_vfs_find(std::ptr::null());
            if host.is_null() || (*host).xOpen.is_none() {
                return None;
            }
            let mut ours = *host;
            (ours.zName, ours.pNext) = (VFS_NAME.as_ptr(), std::ptr::null_mut());
            ours.xOpen = Some(open);
            let ours = Box::into_raw(Box::new(ours));
            (ffi::sqlite3_vfs_register(ours, 0) == ffi::SQLITE_OK).then_some(HostVfs(host))
        }
    });
    host.is_some()
}

/// Opens a file as the host's VFS does, and replaces the I/O methods of a database file.
unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    opened: *mut c_int,
) -> c_int {
    // `register` has not returned, or has failed: nothing is opened with this VFS.
    let Some(Some(HostVfs(host))) = HOST_VFS.get() else { return ffi::SQLITE_CANTOPEN };
    // SAFETY: the arguments come from SQLite and are passed on unchanged, but for the VFS. An opened file has a table
    // of methods, which is static.
    unsafe {
        let Some(open) = (**host).xOpen else { return ffi::SQLITE_CANTOPEN };
        let answer = open(*host, name, file, flags, opened);
        if answer == ffi::SQLITE_OK && flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            (*file).pMethods = populating_methods((*file).pMethods);
        }
        answer
    }
}

/// The same methods, except for the one that maps shared memory.
///
/// # Safety
///
/// The table must be one of SQLite's, which are static.
unsafe fn populating_methods(original: *const ffi::sqlite3_io_methods) -> *const ffi::sqlite3_io_methods {
    let mut tables = IO_METHODS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(table) = tables.iter().find(|table| std::ptr::eq(table.original, original)) {
        return table.copy;
    }
    // SAFETY: the caller guarantees it.
    let mut copy = unsafe { *original };
    match (copy.iVersion, copy.xShmMap) {
        // All of the host's tables map with the same function.
        (2.., Some(map)) if std::ptr::fn_addr_eq(*HOST_SHM_MAP.get_or_init(|| map), map) => {}
        _ => return original,
    }
    copy.xShmMap = Some(map_populated);
    let copy: &'static _ = Box::leak(Box::new(copy));
    tables.push(IoMethods { original, copy });
    copy
}

/// Maps a region of the shared memory, and makes sure that all of it is allocated on the disk.
unsafe extern "C" fn map_populated(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    mapped: *mut *mut c_void,
) -> c_int {
    let Some(map) = HOST_SHM_MAP.get() else { return ffi::SQLITE_IOERR };
    // SAFETY: the arguments come from SQLite. If the call succeeds, `mapped` points to `size` bytes that stay mapped as
    // long as the file is open, or is null. Populating them doesn't change them.
    unsafe {
        let answer = map(file, region, size, extend, mapped);
        if answer != ffi::SQLITE_OK || (*mapped).is_null() {
            return answer;
        }
        let length = usize::try_from(size).unwrap_or(0);
        match madvise(*mapped, length, Advice::LinuxPopulateWrite) {
            // A write there would have raised SIGBUS.
            Err(Errno::FAULT | Errno::NOSPC | Errno::DQUOT) => {
                // SQLite uses the pointer again, whatever the result is.
                *mapped = std::ptr::null_mut();
                ffi::SQLITE_FULL
            }
            // Older kernels don't support it, and memory that is only read needs no blocks.
            _ => answer,
        }
    }
}

/// Keeps the `-wal` and `-shm` files when the last connection closes: a process that may only read finds them there,
/// and a full disk doesn't have to create them again.
pub(crate) fn keep_wal_files(conn: &Connection) -> Result<()> {
    let mut on: c_int = 1;
    // SAFETY: the connection is open while it is borrowed, and the argument is an int, as this operation requires.
    let answer = unsafe {
        ffi::sqlite3_file_control(
            conn.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_PERSIST_WAL,
            (&raw mut on).cast(),
        )
    };
    match answer {
        // A database in memory has no such files.
        ffi::SQLITE_OK | ffi::SQLITE_NOTFOUND => Ok(()),
        code => Err(DatabaseError::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))),
    }
}
