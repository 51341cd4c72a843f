//! Makes new directories in the staging area, places entries together with their missing parents, and decides the owner
//! of new entries.

use std::os::fd::AsFd;

use stead_core::store::StoreResult;

use super::change::PhysicalChange;
use super::host::{self, GRANTABLE_MODE_BITS, HostStat, SETGID, errno_to_store_error};
use super::root::Dir;
use super::slot::HostSlot;
use super::staging_area::TempEntry;
use crate::Durability;
use crate::sync;

impl PhysicalChange<'_> {
    /// Makes the missing parents of a slot in the staging directory, and moves `entry` into the innermost one.
    fn stage_missing_parents(&self, entry: &TempEntry, slot: &HostSlot) -> StoreResult<StagedParents> {
        let mut names: Vec<&[u8]> = slot.names().skip(1).collect();
        let last = names.pop().expect("called for a slot with missing parents");
        let (top, mut dir) = self.new_dir(None, slot)?;
        let mut chain = vec![dir.clone()];
        for name in names {
            dir = self.new_dir_in(&dir, name, None, slot)?;
            chain.push(dir.clone());
        }
        host::rename_new((self.staging.staging_dir_fd(), entry.name().as_bytes()), (dir.as_fd(), last))
            .map_err(errno_to_store_error)?;
        if self.durability() == Durability::Full {
            for dir in chain.iter().rev() {
                sync::sync_all(sync::SyncPoint::NewParents, dir).map_err(errno_to_store_error)?;
            }
        }
        let ino = host::stat(&chain[0]).map_err(errno_to_store_error)?.ino;
        Ok(StagedParents { top, ino, dir })
    }

    /// Moves an entry of the staging area to a free slot, together with the missing parents, in one rename.
    pub(super) fn place_with_parents(
        &mut self,
        entry: &mut TempEntry,
        ino: u64,
        slot: &HostSlot,
    ) -> StoreResult<()> {
        if slot.has_parent() {
            return self.move_into_place(entry, ino, slot);
        }
        let mut parents = self.stage_missing_parents(entry, slot)?;
        let placed = self.move_into_place(&mut parents.top, parents.ino, slot);
        match &placed {
            Ok(()) => entry.mark_placed(),
            // Another program has made the parents: the entry is moved out of the staged ones again.
            Err(_) => {
                let staged = (self.staging.staging_dir_fd(), entry.name().as_bytes());
                let _ = host::rename_new((parents.dir.as_fd(), slot.name()), staged);
            }
        }
        placed
    }

    /// Makes a new directory in the staging directory.
    pub(super) fn new_dir(&self, mode: Option<u32>, slot: &HostSlot) -> StoreResult<(TempEntry, Dir)> {
        let entry = TempEntry::new(self.staging, self.staging.fresh_name());
        let dir = self.new_dir_in(self.staging.staging_dir(), entry.name().as_bytes(), mode, slot)?;
        Ok((entry, dir))
    }

    fn new_dir_in(&self, parent: &Dir, name: &[u8], mode: Option<u32>, slot: &HostSlot) -> StoreResult<Dir> {
        host::make_dir(parent.as_fd(), name).map_err(errno_to_store_error)?;
        let dir = parent.enter(name, host::OpenMode::Directory).map_err(errno_to_store_error)?;
        let stat = host::stat(&dir).map_err(errno_to_store_error)?;
        self.set_new_owner(&dir, &stat, None, slot)?;
        // Like the host, a new directory inherits the set-group-id bit.
        let inherited = slot.dir_stat.mode & SETGID;
        host::set_mode(&dir, mode.unwrap_or(0o755) & GRANTABLE_MODE_BITS | inherited)
            .map_err(errno_to_store_error)?;
        host::set_modified(&dir, self.now()).map_err(errno_to_store_error)?;
        Ok(dir)
    }

    /// Sets the owner of a new entry: that of the file it replaces, or else of its directory.
    ///
    /// The user id is only set if this process runs as root. The group id is set if the entry replaces something, if
    /// this process runs as root, or if the directory has its set-group-id bit.
    pub(super) fn set_new_owner(
        &self,
        fd: impl AsFd,
        stat: &HostStat,
        replaced: Option<&HostStat>,
        slot: &HostSlot,
    ) -> StoreResult<()> {
        let model = replaced.unwrap_or(&slot.dir_stat);
        let inherits_group = replaced.is_some() || self.staging.uid == 0 || slot.dir_stat.mode & 0o2000 != 0;
        let uid = (self.staging.uid == 0 && stat.uid != model.uid).then_some(model.uid);
        let gid = (inherits_group && stat.gid != model.gid).then_some(model.gid);
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        host::set_owner(fd, uid, gid).map_err(errno_to_store_error)
    }
}

/// An entry inside its new parents, which are still in the staging area.
struct StagedParents {
    top: TempEntry,
    ino: u64,
    dir: Dir,
}
