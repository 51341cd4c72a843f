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
        self.check_not_protected(&slot)?;
        subtree.check(found.kind)?;
        if found.is_dir() {
            return self.remove_dir(&slot, &found, subtree, expect, protected);
        }
        self.lock_names(&[&slot])?;
        let Some(existing) = self.store.stat_slot(&slot)? else { return if_missing.outcome() };
        if existing.is_dir() {
            return Err(StoreError::Conflict);
        }
        expect.check(Some(existing.tag()))?;
        self.move_to_staging(&slot, &existing)?;
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
        let existing = self.store.stat_slot(slot)?.ok_or(StoreError::NotFound)?;
        if existing.ino != found.ino {
            return Err(StoreError::Conflict);
        }
        expect.check(Some(existing.tag()))?;
        self.move_to_staging(slot, &existing)?;
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
        let existing = self.store.stat_slot(&destination)?;
        self.check_not_protected(&source)?;
        if existing.is_some() {
            self.check_not_protected(&destination)?;
        }
        // Before the trees are inspected, because that may take long, and again when the names are locked.
        check_rename(&source, &found, &destination, existing.as_ref(), replace)?;
        if found.is_dir() {
            let dir = owner_access::enter(&source.dir, source.name()).map_err(errno_to_store_error)?;
            self.inspect_tree(
                &dir,
                &source,
                [protected[0].as_ref(), protected[1].as_ref()],
                SubtreeUse::MoveOrRemove,
            )?;
        }
        if replace == Replace::Exchange && existing.is_some_and(|existing| existing.is_dir()) {
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
        } else if found.is_dir() || existing.is_some_and(|existing| existing.is_dir()) {
            self.lock_tree()?;
        }
        self.lock_names(&[&source, &destination])?;
        let current = self.store.stat_slot(&source)?.ok_or(StoreError::NotFound)?;
        let existing = self.store.stat_slot(&destination)?;
        if current.ino != found.ino {
            return Err(StoreError::Conflict);
        }
        expect.check(Some(current.tag()))?;
        check_rename(&source, &current, &destination, existing.as_ref(), replace)?;
        if !destination.has_parent() {
            let parent =
                StorePath::from_checked(to.path.parent_and_name().map_or(&b""[..], |(parent, _)| parent));
            self.mkdir(&NodePath { base: to.base, path: parent }, Parents::Create, None).map_err(at_to)?;
            destination = self.store.slot(to, LookupPurpose::Create, Parents::Required).map_err(at_to)?;
        }
        match existing {
            Some(existing) if replace == Replace::Exchange => {
                self.exchange(&source, &current, &destination, &existing)?
            }
            Some(existing) => self.rename_over(&source, &current, &destination, &existing)?,
            None => self.rename_new(&source, &current, &destination)?,
        }
        self.schedule_dir_sync(&source.dir)?;
        self.schedule_dir_sync(&destination.dir)?;
        self.outcome(&destination, false)
    }

    fn rename_new(&mut self, source: &HostSlot, moved: &HostStat, destination: &HostSlot) -> StoreResult<()> {
        let (from, to) = (source.path().to_vec(), destination.path().to_vec());
        let undo_record = UndoRecord::Moved { from, to, ino: moved.ino, changed: moved.changed };
        self.perform("rename", undo_record, || owner_access::rename_new(source.at(), destination.at()))?;
        self.track_moved(source, moved, destination);
        Ok(())
    }

    fn rename_over(
        &mut self,
        source: &HostSlot,
        moved: &HostStat,
        destination: &HostSlot,
        existing: &HostStat,
    ) -> StoreResult<()> {
        self.track_previous_path(existing.ino, destination.path());
        // Two names of one file: the host would report success for the rename and leave both.
        let same_file = (moved.dev, moved.ino) == (existing.dev, existing.ino);
        let (from, to) = (source.path().to_vec(), destination.path().to_vec());
        // A hard link keeps the displaced file, and the rename stays atomic: at any time the name leads to one file or
        // the other.
        let staged_name = if existing.is_dir() || same_file {
            None
        } else {
            self.link_into_staging(destination, existing)?
        };
        let is_empty_directory = existing.is_dir() && !self.is_multi_action();
        if staged_name.is_none() && !is_empty_directory {
            self.move_to_staging(destination, existing)?;
            return self.rename_new(source, moved, destination);
        }
        let undo_record =
            UndoRecord::MovedOver { from, to, ino: moved.ino, changed: moved.changed, staged_name };
        self.perform("rename", undo_record, || owner_access::rename_over(source.at(), destination.at()))?;
        self.track_moved(source, moved, destination);
        Ok(())
    }

    /// Creates a hard link in the staging directory to what is at a slot; returns its name, or `None` if the host can't
    /// link it.
    fn link_into_staging(&mut self, slot: &HostSlot, seen: &HostStat) -> StoreResult<Option<String>> {
        let staged_name = self.staging.fresh_name();
        match host::link(slot.at(), (self.staging.staging_dir_fd(), staged_name.as_bytes())) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::MLINK) => return Ok(None),
            // It existed when it was checked, so another program has replaced or removed it.
            Err(Errno::NOENT) => return Err(StoreError::Conflict),
            Err(error) => return Err(errno_to_store_error(error)),
        }
        self.add_displaced(staged_name.clone());
        if self.is_multi_action() && self.durability() == Durability::Full {
            // After a power cut recovery undoes the change, and needs the old content for that.
            sync::sync_all(sync::SyncPoint::ReplacedBytesName, self.staging.staging_dir_fd())
                .map_err(errno_to_store_error)?;
        }
        let linked = host::stat_at(self.staging.staging_dir_fd(), staged_name.as_bytes())
            .map_err(errno_to_store_error)?;
        if linked.has_same_content(seen) { Ok(Some(staged_name)) } else { Err(StoreError::Conflict) }
    }

    fn exchange(
        &mut self,
        source: &HostSlot,
        moved: &HostStat,
        destination: &HostSlot,
        existing: &HostStat,
    ) -> StoreResult<()> {
        let undo_record = UndoRecord::Exchanged {
            from: source.path().to_vec(),
            to: destination.path().to_vec(),
            from_ino: moved.ino,
            to_ino: existing.ino,
            changed: moved.changed,
        };
        self.perform("exchange", undo_record, || host::exchange(source.at(), destination.at()))?;
        if moved.is_dir() || existing.is_dir() {
            self.track_exchange(source.path(), destination.path());
        } else {
            self.track_previous_path(moved.ino, source.path());
            self.track_previous_path(existing.ino, destination.path());
            self.store.node_path_table.remember(moved.ino, destination.path());
            self.store.node_path_table.remember(existing.ino, source.path());
        }
        Ok(())
    }

    fn track_moved(&mut self, source: &HostSlot, moved: &HostStat, destination: &HostSlot) {
        if moved.is_dir() {
            self.track_rename(source.path(), destination.path());
        } else {
            self.track_previous_path(moved.ino, source.path());
            self.store.node_path_table.remember(moved.ino, destination.path());
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
        replace.check_copy(found.kind, self.store.stat_slot(&destination)?.map(|existing| existing.kind))?;
        match found.kind {
            NodeKind::Directory => self.copy_dir(&source, &destination, protected),
            NodeKind::File => {
                let (file, _) = open_regular(&source.dir, source.name(), OpenMode::Read)?;
                let mut temp = self.staging.new_temp_file()?;
                let stat = tree::copy_file(&file, &temp.file)?;
                self.sync_new(&temp.file)?;
                self.lock_names(&[&destination])?;
                let existing = self.store.stat_slot(&destination)?;
                replace.check_copy(found.kind, existing.map(|existing| existing.kind))?;
                let existing_mode =
                    existing.filter(|existing| existing.kind == NodeKind::File).map(|existing| existing.mode);
                let mode = Some(existing_mode.unwrap_or(stat.mode));
                let options = PutOptions { mode, modified: Some(stat.modified), ..PutOptions::default() };
                self.put_file(&destination, &mut temp, existing.as_ref(), &options)
            }
            NodeKind::Symlink => {
                let target =
                    host::read_link(source.dir.as_fd(), source.name()).map_err(errno_to_store_error)?;
                self.lock_names(&[&destination])?;
                let existing = self.store.stat_slot(&destination)?;
                replace.check_copy(found.kind, existing.map(|existing| existing.kind))?;
                let mut staged = self.stage_symlink(&target, found.modified, &destination)?;
                self.put_entry(&destination, &mut staged, existing.as_ref())?;
                self.outcome(&destination, existing.is_none())
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
        let (mut staged, new_dir) = self.new_dir(None, destination)?;
        let dir = source.dir.enter(source.name(), OpenMode::Directory).map_err(errno_to_store_error)?;
        tree::copy(&dir, source.path(), &self.store.mask, &new_dir, || self.check_cancelled())?;
        self.check_cancelled()?;
        self.sync_new_tree()?;
        self.lock_names(&[destination])?;
        let ino = host::stat(&new_dir).map_err(errno_to_store_error)?.ino;
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
        let slot = self.store.slot(at, LookupPurpose::Find, Parents::Required)?;
        self.lock_names(&[&slot])?;
        let existing = self.store.stat_slot(&slot)?.ok_or(StoreError::NotFound)?;
        let mode = mode.map(|mode| match existing.kind {
            // A directory keeps its set-group-id bit if the caller asks for it.
            NodeKind::Directory => mode & (GRANTABLE_MODE_BITS | existing.mode & SETGID),
            _ => mode & GRANTABLE_MODE_BITS,
        });
        let file: File = match existing.kind {
            NodeKind::File => match open_regular(&slot.dir, slot.name(), OpenMode::Read) {
                // The owner may set mode and time even where the file may not be read.
                Err(StoreError::HostDenied) => open_regular(&slot.dir, slot.name(), OpenMode::Handle)?.0,
                opened => opened?.0,
            },
            NodeKind::Directory => match slot.dir.open(slot.name(), OpenMode::Directory) {
                Err(Errno::ACCESS) => {
                    slot.dir.open(slot.name(), OpenMode::Traverse).map_err(errno_to_store_error)?.into()
                }
                opened => opened.map_err(errno_to_store_error)?.into(),
            },
            NodeKind::Symlink => {
                // The host ignores the mode of a symlink.
                if let Some(modified) = modified {
                    let before =
                        super::patch::ModeAndTime { mode: existing.mode, modified: existing.modified };
                    let undo_record = UndoRecord::AttributesSet {
                        at: slot.path().to_vec(),
                        ino: existing.ino,
                        before,
                        after: super::patch::ModeAndTime { modified, ..before },
                        is_only_action: !self.is_multi_action(),
                    };
                    let (dir, name) = slot.at();
                    self.perform("time", undo_record, || host::set_modified_at(dir, name, modified))?;
                }
                return self.outcome(&slot, false);
            }
            NodeKind::Special(_) => return Err(StoreError::Special(existing.kind)),
        };
        if host::stat(&file).map_err(errno_to_store_error)?.ino != existing.ino {
            return Err(StoreError::Conflict);
        }
        let foreign_writes = self.set_attributes(&file, &existing, &slot, mode, modified)?;
        self.schedule_file_sync(file)?;
        let outcome = StepOutcome { before: Some(existing.tag()), ..self.outcome(&slot, false)? };
        // The times of a directory change with its entries, which are not its content.
        let attr = if existing.is_dir() { outcome.attr } else { Some(foreign_writes.attr()) };
        Ok(StepOutcome { attr, ..outcome })
    }
}

/// Checks that the node at `source` may be renamed to `destination`, where `existing` is, or nothing.
fn check_rename(
    source: &HostSlot,
    found: &HostStat,
    destination: &HostSlot,
    existing: Option<&HostStat>,
    replace: Replace,
) -> StoreResult<()> {
    let ends = RenameEnds {
        from: found.kind,
        to: existing.map(|existing| existing.kind),
        to_is_inside: found.is_dir() && is_at_or_below(destination.path(), source.path()),
        from_is_inside: is_at_or_below(source.path(), destination.path()),
    };
    ends.check(replace, || {
        let dir = owner_access::enter(&destination.dir, destination.name()).map_err(errno_to_store_error)?;
        is_empty(&dir)
    })
}
