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
    /// Makes the missing parents of a slot in the staging directory, and moves `scrap` into the innermost one.
    fn stage_missing_parents(&self, scrap: &TempEntry, spot: &HostSlot) -> StoreResult<StagedParents> {
        let mut names: Vec<&[u8]> = spot.names().skip(1).collect();
        let last = names.pop().expect("called for a slot with missing parents");
        let (top, mut dir) = self.new_dir(None, spot)?;
        let mut chain = vec![dir.clone()];
        for name in names {
            dir = self.new_dir_in(&dir, name, None, spot)?;
            chain.push(dir.clone());
        }
        host::rename_new((self.staging.staging_dir_fd(), scrap.name().as_bytes()), (dir.as_fd(), last))
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
        scrap: &mut TempEntry,
        ino: u64,
        spot: &HostSlot,
    ) -> StoreResult<()> {
        if spot.has_parent() {
            return self.move_into_place(scrap, ino, spot);
        }
        let mut wrapped = self.stage_missing_parents(scrap, spot)?;
        let placed = self.move_into_place(&mut wrapped.top, wrapped.ino, spot);
        match &placed {
            Ok(()) => scrap.mark_placed(),
            // Another program has made the parents: the entry is moved out of the staged ones again.
            Err(_) => {
                let room = (self.staging.staging_dir_fd(), scrap.name().as_bytes());
                let _ = host::rename_new((wrapped.dir.as_fd(), spot.name()), room);
            }
        }
        placed
    }

    /// Makes a new directory in the staging directory.
    pub(super) fn new_dir(&self, mode: Option<u32>, spot: &HostSlot) -> StoreResult<(TempEntry, Dir)> {
        let scrap = TempEntry::new(self.staging, self.staging.fresh_name());
        let dir = self.new_dir_in(self.staging.staging_dir(), scrap.name().as_bytes(), mode, spot)?;
        Ok((scrap, dir))
    }

    fn new_dir_in(&self, parent: &Dir, name: &[u8], mode: Option<u32>, spot: &HostSlot) -> StoreResult<Dir> {
        host::make_dir(parent.as_fd(), name).map_err(errno_to_store_error)?;
        let dir = parent.enter(name, host::OpenMode::Directory).map_err(errno_to_store_error)?;
        let made = host::stat(&dir).map_err(errno_to_store_error)?;
        self.set_new_owner(&dir, &made, None, spot)?;
        // Like the host, a new directory inherits the set-group-id bit.
        let inherited = spot.dir_stat.mode & SETGID;
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
        made: &HostStat,
        replaced: Option<&HostStat>,
        spot: &HostSlot,
    ) -> StoreResult<()> {
        let model = replaced.unwrap_or(&spot.dir_stat);
        let hands_down = replaced.is_some() || self.staging.uid == 0 || spot.dir_stat.mode & 0o2000 != 0;
        let uid = (self.staging.uid == 0 && made.uid != model.uid).then_some(model.uid);
        let gid = (hands_down && made.gid != model.gid).then_some(model.gid);
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
