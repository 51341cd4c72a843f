//! Creating, removing and renaming, and reading symlinks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fuser::{Errno, INodeNo, RenameFlags};
use stead_core::store::{NodeKind, Replace, SpecialKind};
use stead_core::{Error, ErrorKind};

use super::{EntryReply, FuseAdapter, FuseResult, parse_name};
use crate::linux::errno::errno;
use crate::linux::{host_programs, symlinks};

/// How often a rename is tried if a host program keeps replacing the file that it overwrites.
const RENAME_ATTEMPTS: usize = 16;

impl FuseAdapter {
    pub(crate) fn readlink(&self, ino: INodeNo) -> FuseResult<Vec<u8>> {
        let _names = self.names_lock.read();
        let node_ref = self.node_ref(ino)?;
        let target = self.node_api.link_target(&node_ref.path).map_err(|error| errno(&error))?;
        let Some(shown) = symlinks::kernel_target(&self.router, &node_ref.path, &target) else {
            // The kernel then leaves the mount, and outside, the program's own permissions apply.
            return if host_programs::is_program(&target) { Ok(target) } else { Err(Errno::EACCES) };
        };
        if symlinks::leading_parents(&shown) > self.inodes.max_climb(ino.0) {
            return Err(Errno::EACCES);
        }
        Ok(shown)
    }

    pub(crate) fn mkdir(&self, parent: INodeNo, name: &OsStr, mode: u32) -> FuseResult<EntryReply> {
        let (_names, _change_guard) = (self.names_lock.read(), self.begin_change());
        let (directory, name) = (self.node_ref(parent)?, self::parse_name(name)?);
        let lookup = self.node_api.mkdir(&directory, &name, mode & 0o7777).map_err(|error| errno(&error))?;
        Ok(self.record_entry(parent.0, &name, &lookup))
    }

    pub(crate) fn make_special(
        &self,
        (parent, name): (INodeNo, &OsStr),
        kind: SpecialKind,
        mode: u32,
    ) -> FuseResult<EntryReply> {
        let (_names, _change_guard) = (self.names_lock.read(), self.begin_change());
        let (directory, name) = (self.node_ref(parent)?, self::parse_name(name)?);
        let lookup = self
            .node_api
            .make_special(&directory, &name, kind, mode & 0o7777)
            .map_err(|error| errno(&error))?;
        Ok(self.record_entry(parent.0, &name, &lookup))
    }

    pub(crate) fn symlink(&self, parent: INodeNo, name: &OsStr, target: &Path) -> FuseResult<EntryReply> {
        let (_names, _change_guard) = (self.names_lock.read(), self.begin_change());
        let (directory, name) = (self.node_ref(parent)?, self::parse_name(name)?);
        let target = symlinks::stored_target(&self.mount_point, target.as_os_str().as_bytes());
        let lookup = self.node_api.symlink(&directory, &name, &target).map_err(|error| errno(&error))?;
        Ok(self.record_entry(parent.0, &name, &lookup))
    }

    pub(crate) fn remove(&self, parent: INodeNo, name: &OsStr, kind: NodeKind) -> FuseResult<()> {
        let (_names, _change_guard) = (self.names_lock.write(), self.begin_change());
        let (directory, name) = (self.node_ref(parent)?, self::parse_name(name)?);
        let removed = match kind {
            NodeKind::Directory => self.node_api.rmdir(&directory, &name),
            _ => self.node_api.unlink(&directory, &name),
        };
        removed.map_err(|error| errno(&error))?;
        self.inodes.remove(parent.0, &name);
        Ok(())
    }

    pub(crate) fn rename(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> FuseResult<()> {
        let replace = match flags {
            RenameFlags::RENAME_EXCHANGE => Replace::Exchange,
            RenameFlags::RENAME_NOREPLACE => Replace::Refuse,
            flags if flags.is_empty() => Replace::Overwrite,
            _ => return Err(Errno::EINVAL),
        };
        let (_names, _change_guard) = (self.names_lock.write(), self.begin_change());
        let (from_directory, from_name) = (self.node_ref(from.0)?, self::parse_name(from.1)?);
        let (to_directory, to_name) = (self.node_ref(to.0)?, self::parse_name(to.1)?);
        let rename =
            || self.node_api.rename((&from_directory, &from_name), (&to_directory, &to_name), replace);
        // A host program may replace the file at the new name at the same time: then the rename overwrites the new
        // file.
        let should_retry = |renamed: &Result<(), Error>| {
            matches!(renamed, Err(error) if error.kind() == ErrorKind::Conflict)
                && replace == Replace::Overwrite
        };
        let renamed = (1..RENAME_ATTEMPTS).map(|_| rename()).find(|renamed| !should_retry(renamed));
        renamed.unwrap_or_else(rename).map_err(|error| errno(&error))?;
        let (from, to) = ((from.0.0, &from_name), (to.0.0, &to_name));
        if replace == Replace::Exchange {
            self.inodes.exchange(from, to);
        } else if from != to {
            self.inodes.rename(from, to);
        }
        Ok(())
    }
}
