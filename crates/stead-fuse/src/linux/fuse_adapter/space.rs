//! The space that `df` shows.

use fuser::INodeNo;

use super::{FuseAdapter, FuseResult};
use crate::linux::errno::errno;

impl FuseAdapter {
    pub(crate) fn statfs(&self, ino: INodeNo) -> FuseResult<Space> {
        const BLOCK: u64 = 4096;
        let mut space = Space { blocks: 1 << 40, free: 1 << 39, files: 1 << 40, files_free: 1 << 39 };
        let host =
            self.options.space_directory.as_deref().and_then(|directory| rustix::fs::statvfs(directory).ok());
        if let Some(host) = host {
            let scale = |blocks: u64| blocks.saturating_mul(host.f_frsize) / BLOCK;
            space = Space {
                blocks: scale(host.f_blocks),
                free: scale(host.f_bavail),
                files: host.f_files,
                files_free: host.f_favail,
            };
        }
        let node_ref = self.node_ref(ino)?;
        if let Some((limits, usage)) =
            self.node_api.tightest_quota(&node_ref.path).map_err(|error| errno(&error))?
        {
            if let Some(bytes) = limits.bytes {
                space.blocks = bytes / BLOCK;
                space.free = space.free.min(bytes.saturating_sub(usage.bytes) / BLOCK);
            }
            if let Some(files) = limits.files {
                space.files = files;
                space.files_free = space.files_free.min(files.saturating_sub(usage.files));
            }
        }
        Ok(space)
    }
}

/// Total and free space, in blocks of 4096 bytes and in files.
pub(crate) struct Space {
    pub(crate) blocks: u64,
    pub(crate) free: u64,
    pub(crate) files: u64,
    pub(crate) files_free: u64,
}
