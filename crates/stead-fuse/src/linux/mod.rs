//! The mount on Linux, over FUSE.
//!
//! ```text
//! requests       the kernel's requests, one method each
//! fuse_adapter   the same requests as calls of the door
//! inodes         the inode numbers that the kernel knows, and the path and node of each
//! page_cache     what the kernel has cached of a file's content while programs write
//! handles        open files and directories
//! worker_thread  a thread for what has to wait for the kernel
//! symlinks       what a symlink's target means on the mount
//! host_programs  host programs that a symlink may lead to
//! feed_follower  invalidates the kernel's caches after changes by others
//! mount_table    what is mounted where
//! session_end    waiting until a mount has ended
//! mount          mounting, unmounting, and removing the mount of a killed process
//! attributes     attributes as the kernel has them
//! errno          the error number of each error
//! ```

mod attributes;
mod errno;
mod feed_follower;
mod fuse_adapter;
mod handles;
mod host_programs;
mod inodes;
mod mount;
mod mount_table;
mod page_cache;
mod requests;
mod session_end;
mod symlinks;
mod worker_thread;

pub use mount::{FuseMount, OrphanedMount, clear_stale};
pub use session_end::SessionEnd;
