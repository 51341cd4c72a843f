//! The mount on Linux, by FUSE.
//!
//! ```text
//! requests     the kernel's requests, one method each
//! mounting     what they come to at the door
//! inodes       which number the kernel has for what, and where that is
//! cache        what the kernel has of a file's content while programs write
//! handles      files and directories that are open
//! later        what has to wait for the kernel, in a thread of its own
//! links        what a symlink's target means on the mount
//! programs     programs of the host that a symlink may lead to
//! follow       tells the kernel what others have changed
//! mount_table  what the kernel says is mounted where
//! session      mounting, unmounting, and what a killed process has left
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
mod symlinks;
mod worker_thread;

pub use mount::{FuseMount, OrphanedMount, clear_stale};
