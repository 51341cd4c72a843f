//! A stead as a mounted file system: an agent's Workspaces as an ordinary directory, for any program.
//!
//! Every call goes through the same door as a tool's ([`stead_core::vfs::node_api::NodeApi`]), which decides about
//! scopes, protected names, quotas, history and the audit. This crate translates between the kernel's requests and the
//! door, and keeps the kernel's caches valid.
//!
//! ```no_run
//! use std::path::Path;
//! use stead_core::Vfs;
//! use stead_fuse::{FuseMount, MountError, MountOptions};
//!
//! /// Shows an agent's Workspaces below `/mnt/agent` until the mount is dropped or unmounted.
//! fn mount(vfs: &Vfs) -> Result<FuseMount, MountError> {
//!     let options = MountOptions {
//!         immutable: false,
//!         allow_other: false,
//!         owner: (1000, 1000),
//!         strict_owner: false,
//!         name: "coder".to_owned(),
//!         space_directory: None,
//!     };
//!     FuseMount::new(vfs, Path::new("/mnt/agent"), options)
//! }
//! ```

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

use std::path::PathBuf;

#[cfg(target_os = "linux")]
pub use linux::{FuseMount, OrphanedMount, SessionEnd, clear_stale};
#[cfg(not(target_os = "linux"))]
pub use unsupported::{FuseMount, OrphanedMount, SessionEnd, clear_stale};

/// How a stead is mounted.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// Whether the mount shows a past version: it is read-only and never changes.
    pub immutable: bool,
    /// Whether other users of the host may use the mount, as far as the permission bits allow.
    pub allow_other: bool,
    /// The user id and group id that own everything on the mount.
    pub owner: (u32, u32),
    /// Whether root's `chown` to another owner fails, instead of being accepted and ignored.
    pub strict_owner: bool,
    /// The name that `mount` and `df` show as its source, after `stead:`.
    pub name: String,
    /// A host directory whose file system has to have space for what is written; `df` on the mount shows that space.
    pub space_directory: Option<PathBuf>,
}

/// Why a stead can't be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// This host doesn't support FUSE.
    #[error("mounting is not supported here: {0}")]
    Unsupported(String),
    /// The mount point can't be used.
    #[error("the stead can't be mounted there: {0}")]
    MountPoint(String),
    /// The host refused to mount or unmount.
    #[error("the host refused to mount or unmount the stead: {0}")]
    Refused(String),
}
