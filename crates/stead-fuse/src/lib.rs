//! A stead as a mounted file system: the Workspaces of an agent as an ordinary directory, for any program.
//!
//! Everything goes through the same door as a tool's calls ([`stead_core::vfs::mounted::Mounted`]): scopes, protected
//! names, quotas, history and the audit are decided there. What is here translates between the kernel's requests and
//! the door, and keeps what the kernel remembers true.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

use std::path::PathBuf;

#[cfg(target_os = "linux")]
pub use linux::{FuseMount, OrphanedMount, clear_stale};
#[cfg(not(target_os = "linux"))]
pub use unsupported::{Mount, Watched, clear_stale};

/// How a stead is mounted.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// Nothing can be changed through it: it shows a time that has passed, so it never changes either.
    pub immutable: bool,
    /// Other users of the host may use it, too, as far as the permission bits say.
    pub allow_other: bool,
    /// Whom everything belongs to.
    pub owner: (u32, u32),
    /// Whether root's `chown` to another owner fails, instead of being accepted and ignored.
    pub strict_owner: bool,
    /// Whose it is: `mount` and `df` show that as its source.
    pub name: String,
    /// A directory of the host on whose file system there has to be room for what is written, for `df`.
    pub space_directory: Option<PathBuf>,
}

/// Why a stead can't be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// This host has no FUSE.
    #[error("mounting is not supported here: {0}")]
    Unsupported(String),
    /// The place where it should go can't be used.
    #[error("it can't be mounted there: {0}")]
    MountPoint(String),
    /// The host refused.
    #[error("the host refuses to mount it: {0}")]
    Refused(String),
}
