//! The same API for hosts without Linux's FUSE: mounting always fails.

use std::path::Path;

use stead_core::Vfs;

use crate::{MountError, MountOptions};

/// A mount, which can't exist on this host.
#[derive(Debug)]
pub struct FuseMount(std::convert::Infallible);

impl FuseMount {
    /// Fails: this host doesn't support mounting.
    pub fn new(_: &Vfs, _: &Path, _: MountOptions) -> Result<Self, MountError> {
        Err(MountError::Unsupported("mounting needs Linux with FUSE".into()))
    }

    /// The directory where it is mounted.
    pub fn mount_point(&self) -> &Path {
        match self.0 {}
    }

    /// The device, which identifies the mount.
    pub fn device(&self) -> Option<&str> {
        match self.0 {}
    }

    /// The end of the mount.
    pub fn session_end(&self) -> SessionEnd {
        match self.0 {}
    }

    /// Unmounts it.
    pub fn unmount(self) -> Result<(), MountError> {
        match self.0 {}
    }
}

/// Does nothing: no mount can be left behind here.
pub fn clear_stale(_: &Path) -> Result<(), MountError> {
    Ok(())
}

/// A mount to remove, which can't exist on this host.
#[derive(Debug)]
pub struct OrphanedMount(std::convert::Infallible);

impl OrphanedMount {
    /// Always `None`: nothing is mounted.
    pub fn new(_: &str) -> Option<Self> {
        None
    }

    /// Removes the mount.
    pub fn remove(&self) {
        match self.0 {}
    }
}

/// The end of a mount, which can't exist on this host.
#[derive(Debug, Clone)]
pub struct SessionEnd(std::convert::Infallible);

impl SessionEnd {
    /// Waits for it.
    pub fn wait(&self) {
        match self.0 {}
    }
}
