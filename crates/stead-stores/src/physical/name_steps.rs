//! Steps on names: remove, rename, copy, and setting attributes.

use std::fs::File;
use std::os::fd::AsFd;

use stead_core::Timestamp;
use stead_core::store::{
    IfMissing, NodeKind, NodePath, Parents, Precondition, ProtectedNames, PutOptions, RenameEnds, Replace,
    Side, StepOutcome, StoreError, StorePath, StoreResult, Subtree,
};

use super::change::PhysicalChange;
use super::host::{self, Errno, GRANTABLE_MODE_BITS, HostStat, OpenMode, SETGID, errno_to_store_error};
use super::mask::is_at_or_below;
use super::owner_access;
use super::read::is_empty;
use super::root::Dir;
use super::slot::{HostSlot, LookupPurpose, open_regular};
use super::tree::{self, SubtreeCheck, SubtreeUse};
use super::undo::UndoRecord;
use crate::Durability;
use crate::sync;

impl PhysicalChange<'_> {
    pub(super) fn remove(
        &mut self,
        at: &NodePath,
        subtree: Subtree,
        expect: Precondition,
        if_missing: IfMissing,
        protected: Option<&ProtectedNames>,
    ) -> StoreResult<StepOutcome> {
        let slot = match self.store.slot(at, LookupPurpose::Find, Parents::Required) {
            Err(StoreError::NotFound) => return if_missing.outcome(),
            result => result?,
        };
        let found = match self.store.stat_slot(&slot) {
            Ok(None) | Err(StoreError::NotFound) => return if_missing.outcome(),
            result => result?.expect("matched above"),
        };
        self.check_may_leave(&slot)?;
        subtree.check(found.kind)?;
        if found.is_dir() {
            return self.remove_dir(&slot, &found, subtree, expect, protected);
        }
        self.lock_names(&[&slot])?;
        let Some(there) = self.store.stat_slot(&slot)? else { return if_missing.outcome() };
        if there.is_dir() {
            return Err(StoreError::Conflict);
        }
        expect.check(Some(there.tag()))?;
        self.move_to_staging(&slot, &there)?;
        Ok(StepOutcome::default())
    }

    fn remove_dir(
        &mut self,
        slot: &HostSlot,
        found: &HostStat,
        subtree: Subtree,
        expect: Precondition,
        protected: Option<&ProtectedNames>,
    ) -> StoreResult<StepOutcome> {
        let dir = owner_access::enter(&slot.dir, slot.name()).map_err(errno_to_store_error)?.into_dir();
        if subtree == Subtree::EmptyDirectory {
            if !is_empty(&dir)? {
                return Err(StoreError::NotEmpty);
            }
        } else {
            // Before the tree is locked, because inspecting a large tree takes long.
            self.inspect_tree(&dir, slot, [protected, None], SubtreeUse::MoveOrRemove)?;
        }
        self.lock_tree()?;
        let there = self.store.stat_slot(slot)?.ok_or(StoreError::NotFound)?;
        if there.ino != found.ino {
            return Err(StoreError::Conflict);
        }
        expect.check(Some(there.tag()))?;
        self.move_to_staging(slot, &there)?;
        // The directory is in the staging area now, where no program can add to it, so this check is final.
        if subtree == Subtree::EmptyDirectory {
            host::rewind(dir.as_fd()).map_err(errno_to_store_error)?;
            if !is_empty(&dir)? {
                return Err(StoreError::NotEmpty);
            }
        }
        Ok(StepOutcome::default())
    }

    pub(super) fn rename(
        &mut self,
        from: &NodePath,
        to: &NodePath,
        replace: Replace,
        parents: Parents,
        expect: Precondition,
        protected: &[Option<ProtectedNames>; 2],
    ) -> StoreResult<StepOutcome> {
        let at_to = |error: StoreError| error.in_step(0, Side::To);
        let source = self.store.slot(from, LookupPurpose::Find, Parents::Required)?;
        let found = self.store.stat_slot(&source)?.ok_or(StoreError::NotFound)?;
        let target = self.store.locate(to, LookupPurpose::Create).map_err(at_to)?;
        if target.full_path == source.path() {
            expect.check(Some(found.tag()))?;
            return self.outcome(&source, false);
        }
        // The parents are resolved first: a symlink on the way may lead somewhere else altogether.
        let parents = if replace == Replace::Exchange { Parents::Required } else { parents };
        let mut destination = self.store.slot(to, LookupPurpose::Create, parents).map_err(at_to)?;
        let there = self.store.stat_slot(&destination)?;
        self.check_may_leave(&source)?;
        if there.is_some() {
            self.check_may_leave(&destination)?;
        }
        // Before the trees are inspected, because that may take long, and again when the names are locked.
        check_rename(&source, &found, &destination, there.as_ref(), replace)?;
        if found.is_dir() {
            let dir = owner_access::enter(&source.dir, source.name()).map_err(errno_to_store_error)?;
            self.inspect_tree(
                &dir,
                &source,
                [protected[0].as_ref(), protected[1].as_ref()],
                SubtreeUse::MoveOrRemove,
            )?;
        }
        if replace == Replace::Exchange && there.is_some_and(|there| there.is_dir()) {
            let dir =
                owner_access::enter(&destination.dir, destination.name()).map_err(errno_to_store_error)?;
            self.inspect_tree(
                &dir,
                &destination,
                [protected[0].as_ref(), protected[1].as_ref()],
                SubtreeUse::MoveOrRemove,
            )?;
        }
        if !destination.has_parent() {
            self.make_multi_action()?;
        } else if found.is_dir() || there.is_some_and(|there| there.is_dir()) {
            self.lock_tree()?;
        }
        self.lock_names(&[&source, &destination])?;
        let now = self.store.stat_slot(&source)?.ok_or(StoreError::NotFound)?;
        let there = self.store.stat_slot(&destination)?;
        if now.ino != found.ino {
            return Err(StoreError::Conflict);
        }
        expect.check(Some(now.tag()))?;
        check_rename(&source, &now, &destination, there.as_ref(), replace)?;
        if !destination.has_parent() {
            let parent =
                StorePath::from_checked(to.path.parent_and_name().map_or(&b""[..], |(parent, _)| parent));
            self.mkdir(&NodePath { base: to.base, path: parent }, Parents::Create, None).map_err(at_to)?;
            destination = self.store.slot(to, LookupPurpose::Create, Parents::Required).map_err(at_to)?;
        }
        match there {
            Some(there) if replace == Replace::Exchange => {
                self.exchange(&source, &now, &destination, &there)?
            }
            Some(there) => self.rename_over(&source, &now, &destination, &there)?,
            None => self.rename_new(&source, &now, &destination)?,
        }
        self.schedule_dir_sync(&source.dir)?;
        self.schedule_dir_sync(&destination.dir)?;
        self.outcome(&destination, false)
    }

    fn rename_new(&mut self, source: &HostSlot, moved: &HostStat, sink: &HostSlot) -> StoreResult<()> {
        let (from, to) = (source.path().to_vec(), sink.path().to_vec());
        let how = UndoRecord::Moved { from, to, ino: moved.ino, changed: moved.changed };
        self.perform("rename", how, || owner_access::rename_new(source.at(), sink.at()))?;
        self.track_moved(source, moved, sink);
        Ok(())
    }

    fn rename_over(
        &mut self,
        source: &HostSlot,
        moved: &HostStat,
        sink: &HostSlot,
        there: &HostStat,
    ) -> StoreResult<()> {
        self.track_previous_path(there.ino, sink.path());
        // Two names of one file: the host would report success for the rename and leave both.
        let same_file = (moved.dev, moved.ino) == (there.dev, there.ino);
        let (from, to) = (source.path().to_vec(), sink.path().to_vec());
        // A hard link keeps the displaced file, and the rename stays atomic: at any time the name leads to one file or
        // the other.
        let stash = if there.is_dir() || same_file { None } else { self.link_into_staging(sink, there)? };
        let is_empty_directory = there.is_dir() && !self.is_multi_action();
        if stash.is_none() && !is_empty_directory {
            self.move_to_staging(sink, there)?;
            return self.rename_new(source, moved, sink);
        }
        let how = UndoRecord::MovedOver { from, to, ino: moved.ino, changed: moved.changed, stash };
        self.perform("rename", how, || owner_access::rename_over(source.at(), sink.at()))?;
        self.track_moved(source, moved, sink);
        Ok(())
    }

    /// Creates a hard link in the staging directory to what is at a slot; returns its name, or `None` if the host can't
    /// link it.
    fn link_into_staging(&mut self, spot: &HostSlot, seen: &HostStat) -> StoreResult<Option<String>> {
        let stash = self.staging.fresh_name();
        match host::link(spot.at(), (self.staging.staging_dir_fd(), stash.as_bytes())) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::MLINK) => return Ok(None),
            // It existed when it was checked, so another program has replaced or removed it.
            Err(Errno::NOENT) => return Err(StoreError::Conflict),
            Err(error) => return Err(errno_to_store_error(error)),
        }
        self.add_displaced(stash.clone());
        if self.is_multi_action() && self.durability() == Durability::Full {
            // After a power cut recovery undoes the change, and needs the old content for that.
            sync::sync_all(sync::SyncPoint::ReplacedBytesName, self.staging.staging_dir_fd())
                .map_err(errno_to_store_error)?;
        }
        let linked =
            host::stat_at(self.staging.staging_dir_fd(), stash.as_bytes()).map_err(errno_to_store_error)?;
        if linked.has_same_content(seen) { Ok(Some(stash)) } else { Err(StoreError::Conflict) }
    }

    fn exchange(
        &mut self,
        source: &HostSlot,
        moved: &HostStat,
        sink: &HostSlot,
        there: &HostStat,
    ) -> StoreResult<()> {
        let how = UndoRecord::Exchanged {
            from: source.path().to_vec(),
            to: sink.path().to_vec(),
            from_ino: moved.ino,
            to_ino: there.ino,
            changed: moved.changed,
        };
        self.perform("exchange", how, || host::exchange(source.at(), sink.at()))?;
        if moved.is_dir() || there.is_dir() {
            self.track_exchange(source.path(), sink.path());
        } else {
            self.track_previous_path(moved.ino, source.path());
            self.track_previous_path(there.ino, sink.path());
            self.store.node_path_table.remember(moved.ino, sink.path());
            self.store.node_path_table.remember(there.ino, source.path());
        }
        Ok(())
    }

    fn track_moved(&mut self, source: &HostSlot, moved: &HostStat, sink: &HostSlot) {
        if moved.is_dir() {
            self.track_rename(source.path(), sink.path());
        } else {
            self.track_previous_path(moved.ino, source.path());
            self.store.node_path_table.remember(moved.ino, sink.path());
        }
    }

    pub(super) fn copy(
        &mut self,
        from: &NodePath,
        to: &NodePath,
        replace: Replace,
        parents: Parents,
        protected: Option<&ProtectedNames>,
    ) -> StoreResult<StepOutcome> {
        let at_to = |error: StoreError| error.in_step(0, Side::To);
        let source = self.store.slot(from, LookupPurpose::Find, Parents::Required)?;
        let found = self.store.stat_slot(&source)?.ok_or(StoreError::NotFound)?;
        let target = self.store.locate(to, LookupPurpose::Create).map_err(at_to)?;
        if target.is_root() {
            return Err(StoreError::AlreadyExists);
        }
        if target.full_path == source.path() {
            return Err(replace.copy_to_itself_error());
        }
        let destination = self.store.slot(to, LookupPurpose::Create, parents).map_err(at_to)?;
        if found.is_dir() && is_at_or_below(destination.path(), source.path()) {
            return Err(StoreError::IntoItself);
        }
        replace.check_copy(found.kind, self.store.stat_slot(&destination)?.map(|there| there.kind))?;
        match found.kind {
            NodeKind::Directory => self.copy_dir(&source, &destination, protected),
            NodeKind::File => {
                let (file, _) = open_regular(&source.dir, source.name(), OpenMode::Read)?;
                let mut temp = self.staging.new_temp_file()?;
                let stat = tree::copy_file(&file, &temp.file)?;
                self.sync_new(&temp.file)?;
                self.lock_names(&[&destination])?;
                let there = self.store.stat_slot(&destination)?;
                replace.check_copy(found.kind, there.map(|there| there.kind))?;
                let kept = there.filter(|there| there.kind == NodeKind::File).map(|there| there.mode);
                let mode = Some(kept.unwrap_or(stat.mode));
                let put = PutOptions { mode, modified: Some(stat.modified), ..PutOptions::default() };
                self.put_file(&destination, &mut temp, there.as_ref(), &put)
            }
            NodeKind::Symlink => {
                let target =
                    host::read_link(source.dir.as_fd(), source.name()).map_err(errno_to_store_error)?;
                self.lock_names(&[&destination])?;
                let there = self.store.stat_slot(&destination)?;
                replace.check_copy(found.kind, there.map(|there| there.kind))?;
                let mut staged = self.stage_symlink(&target, found.modified, &destination)?;
                self.put_entry(&destination, &mut staged, there.as_ref())?;
                self.outcome(&destination, there.is_none())
            }
            NodeKind::Special(_) => Err(StoreError::Special(found.kind)),
        }
    }

    /// Copies a directory. Nothing is locked while the content is copied, only while the copy gets its name.
    fn copy_dir(
        &mut self,
        source: &HostSlot,
        destination: &HostSlot,
        protected: Option<&ProtectedNames>,
    ) -> StoreResult<StepOutcome> {
        let dir = source.dir.enter(source.name(), OpenMode::Directory).map_err(errno_to_store_error)?;
        self.inspect_tree(&dir, source, [protected, None], SubtreeUse::Copy)?;
        let (mut staged, made) = self.new_dir(None, destination)?;
        let dir = source.dir.enter(source.name(), OpenMode::Directory).map_err(errno_to_store_error)?;
        tree::copy(&dir, source.path(), &self.store.mask, &made, || self.check_cancelled())?;
        self.check_cancelled()?;
        self.sync_new_tree()?;
        self.lock_names(&[destination])?;
        let ino = host::stat(&made).map_err(errno_to_store_error)?.ino;
        self.place_with_parents(&mut staged, ino, destination)?;
        self.outcome(destination, true)
    }

    fn inspect_tree(
        &self,
        dir: &Dir,
        slot: &HostSlot,
        protected: [Option<&ProtectedNames>; 2],
        purpose: SubtreeUse,
    ) -> StoreResult<()> {
        tree::check_subtree(
            dir,
            &SubtreeCheck { mask: &self.store.mask, at: slot.path(), protected, purpose },
        )
    }

    pub(super) fn set_attr(
        &mut self,
        at: &NodePath,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> StoreResult<StepOutcome> {
        if self.store.locate(at, LookupPurpose::Find)?.is_root() {
            return Err(StoreError::Invalid("the root directory of a Store can't be changed".to_owned()));
        }
        let spot = self.store.slot(at, LookupPurpose::Find, Parents::Required)?;
        self.lock_names(&[&spot])?;
        let there = self.store.stat_slot(&spot)?.ok_or(StoreError::NotFound)?;
        let mode = mode.map(|mode| match there.kind {
            // A directory keeps its set-group-id bit if the caller asks for it.
            NodeKind::Directory => mode & (GRANTABLE_MODE_BITS | there.mode & SETGID),
            _ => mode & GRANTABLE_MODE_BITS,
        });
        let file: File = match there.kind {
            NodeKind::File => match open_regular(&spot.dir, spot.name(), OpenMode::Read) {
                // The owner may set mode and time even where the file may not be read.
                Err(StoreError::HostDenied) => open_regular(&spot.dir, spot.name(), OpenMode::Handle)?.0,
                opened => opened?.0,
            },
            NodeKind::Directory => match spot.dir.open(spot.name(), OpenMode::Directory) {
                Err(Errno::ACCESS) => {
                    spot.dir.open(spot.name(), OpenMode::Traverse).map_err(errno_to_store_error)?.into()
                }
                opened => opened.map_err(errno_to_store_error)?.into(),
            },
            NodeKind::Symlink => {
                // The host ignores the mode of a symlink.
                if let Some(modified) = modified {
                    let looks = super::patch::ModeAndTime { mode: there.mode, modified: there.modified };
                    let how = UndoRecord::AttributesSet {
                        at: spot.path().to_vec(),
                        ino: there.ino,
                        before: looks,
                        after: super::patch::ModeAndTime { modified, ..looks },
                        alone: !self.is_multi_action(),
                    };
                    let (dir, name) = spot.at();
                    self.perform("time", how, || host::set_modified_at(dir, name, modified))?;
                }
                return self.outcome(&spot, false);
            }
            NodeKind::Special(_) => return Err(StoreError::Special(there.kind)),
        };
        if host::stat(&file).map_err(errno_to_store_error)?.ino != there.ino {
            return Err(StoreError::Conflict);
        }
        self.set_attributes(&file, &there, &spot, mode, modified)?;
        self.schedule_file_sync(file)?;
        Ok(StepOutcome { before: Some(there.tag()), ..self.outcome(&spot, false)? })
    }
}

/// Checks that the node at `source` may be renamed to `sink`, where `there` is, or nothing.
fn check_rename(
    source: &HostSlot,
    found: &HostStat,
    sink: &HostSlot,
    there: Option<&HostStat>,
    replace: Replace,
) -> StoreResult<()> {
    let ends = RenameEnds {
        from: found.kind,
        to: there.map(|there| there.kind),
        to_is_inside: found.is_dir() && is_at_or_below(sink.path(), source.path()),
        from_is_inside: is_at_or_below(source.path(), sink.path()),
    };
    ends.check(replace, || {
        let dir = owner_access::enter(&sink.dir, sink.name()).map_err(errno_to_store_error)?;
        is_empty(&dir)
    })
}
