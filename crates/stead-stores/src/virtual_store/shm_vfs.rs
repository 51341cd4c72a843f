//! The memory that processes share through the `-shm` file, set aside on the disk before it is used.
//!
//! SQLite makes that file longer by writing one byte into every 4 KiB of it. On a file system with smaller blocks the rest
//! stays a hole, and on a full disk the kernel ends the process (SIGBUS) when it writes there. So the host's own way of
//! opening files is used with one addition: every mapped region is populated at once, and a disk without room for it is
//! an ordinary error.

#![allow(unsafe_code, reason = "SQLite's interface to the host is C, and so is the region that it maps")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use rusqlite::{Connection, ffi};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use super::error::{DatabaseError, Result};

/// The name that connections are opened with.
pub(super) const VFS_NAME: &CStr = c"stead";

type ShmMap = unsafe extern "C" fn(*mut ffi::sqlite3_file, c_int, c_int, c_int, *mut *mut c_void) -> c_int;

/// The host's own way of opening files. It is static in SQLite, and never changes.
struct HostVfs(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite itself uses it from every thread.
unsafe impl Send for HostVfs {}
// SAFETY: the same.
unsafe impl Sync for HostVfs {}

/// A table of methods of SQLite's, and the copy of it that populates what is mapped.
struct IoMethods {
    original: *const ffi::sqlite3_io_methods,
    copy: &'static ffi::sqlite3_io_methods,
}

// SAFETY: both tables are static, and nobody writes to them.
unsafe impl Send for IoMethods {}

static HOST_VFS: OnceLock<Option<HostVfs>> = OnceLock::new();
static IO_METHODS: Mutex<Vec<IoMethods>> = Mutex::new(Vec::new());
static HOST_SHM_MAP: OnceLock<ShmMap> = OnceLock::new();

/// Makes [`NAME`] known to SQLite. Whether that worked: otherwise the host's own way has to do.
pub(super) fn register() -> bool {
    let host = HOST_VFS.get_or_init(|| {
        // SAFETY: the default is found without a name, is static, and outlives the program's use of SQLite. The copy is
        // leaked, since SQLite keeps it for good.
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

/// Opens a file as the host does.
unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    opened: *mut c_int,
) -> c_int {
    // `register` has not returned, or has failed: nobody opens anything with this.
    let Some(Some(HostVfs(host))) = HOST_VFS.get() else { return ffi::SQLITE_CANTOPEN };
    // SAFETY: the arguments are SQLite's own and are handed on as they came, but for the table that they are asked of. An
    // opened file has a table of methods, which is static.
    unsafe {
        let Some(open) = (**host).xOpen else { return ffi::SQLITE_CANTOPEN };
        let answer = open(*host, name, file, flags, opened);
        if answer == ffi::SQLITE_OK && flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            (*file).pMethods = populating_methods((*file).pMethods);
        }
        answer
    }
}

/// The same methods, but for the one that maps shared memory.
///
/// # Safety
/// The table is one of SQLite's, which are static.
unsafe fn populating_methods(original: *const ffi::sqlite3_io_methods) -> *const ffi::sqlite3_io_methods {
    let mut known = IO_METHODS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.iter().find(|known| std::ptr::eq(known.original, original)) {
        return known.copy;
    }
    // SAFETY: as the caller says.
    let mut copy = unsafe { *original };
    match (copy.iVersion, copy.xShmMap) {
        // All of the host's tables map with one function.
        (2.., Some(map)) if std::ptr::fn_addr_eq(*HOST_SHM_MAP.get_or_init(|| map), map) => {}
        _ => return original,
    }
    copy.xShmMap = Some(map_populated);
    let copy: &'static _ = Box::leak(Box::new(copy));
    known.push(IoMethods { original, copy });
    copy
}

/// Maps a region of the shared memory, and makes sure that all of it has a place on the disk.
unsafe extern "C" fn map_populated(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    mapped: *mut *mut c_void,
) -> c_int {
    let Some(map) = HOST_SHM_MAP.get() else { return ffi::SQLITE_IOERR };
    // SAFETY: the arguments are SQLite's own. Where it succeeds, `mapped` is the start of `size` bytes that stay mapped as
    // long as the file is open, or null. Populating changes nothing that is in them.
    unsafe {
        let answer = map(file, region, size, extend, mapped);
        if answer != ffi::SQLITE_OK || (*mapped).is_null() {
            return answer;
        }
        let length = usize::try_from(size).unwrap_or(0);
        match madvise(*mapped, length, Advice::LinuxPopulateWrite) {
            // Where it would have been SIGBUS.
            Err(Errno::FAULT | Errno::NOSPC | Errno::DQUOT) => {
                // SQLite looks at the pointer again, whatever the answer is.
                *mapped = std::ptr::null_mut();
                ffi::SQLITE_FULL
            }
            // Older kernels can't, and memory that is only read needs no place.
            _ => answer,
        }
    }
}

/// Has the `-wal` and `-shm` files stay when the last connection closes: who may only read finds them there, and a full
/// disk need not make them again.
pub(super) fn keep_wal_files(conn: &Connection) -> Result<()> {
    let mut on: c_int = 1;
    // SAFETY: the connection is open while it is borrowed, and the argument is an int, as this operation takes one.
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
