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
mod cache;
mod errno;
mod follow;
mod handles;
mod inodes;
mod later;
mod links;
mod mount_table;
mod mounting;
mod programs;
mod requests;
mod session;

pub use session::{FuseMount, OrphanedMount, clear_stale};
