//! Hosts without FUSE as Linux has it.

use std::path::Path;

use stead_core::Vfs;

use crate::{MountError, MountOptions};

/// What can't be had here.
#[derive(Debug)]
pub struct FuseMount(std::convert::Infallible);

impl FuseMount {
    /// Says that it can't be done.
    pub fn new(_: &Vfs, _: &Path, _: MountOptions) -> Result<Self, MountError> {
        Err(MountError::Unsupported("it needs Linux with FUSE".into()))
    }

    /// Where it is.
    pub fn mount_point(&self) -> &Path {
        match self.0 {}
    }

    /// What tells it from all others.
    pub fn device(&self) -> Option<&str> {
        match self.0 {}
    }

    /// Whether it has ended.
    pub fn is_unmounted(&self) -> bool {
        match self.0 {}
    }

    /// Unmounts it.
    pub fn unmount(self) -> Result<(), MountError> {
        match self.0 {}
    }
}

/// There is nothing to clear.
pub fn clear_stale(_: &Path) -> Result<(), MountError> {
    Ok(())
}

/// What can't be had here.
#[derive(Debug)]
pub struct OrphanedMount(std::convert::Infallible);

impl OrphanedMount {
    /// Nothing is mounted.
    pub fn new(_: &str) -> Option<Self> {
        None
    }

    /// Takes it away.
    pub fn remove(&self) {
        match self.0 {}
    }
}
