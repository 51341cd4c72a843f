//! Steps on names: remove, rename, copy, and setting attributes.

use std::fs::File;
use std::os::fd::AsFd;

use stead_core::Timestamp;
use stead_core::store::{
    IfMissing, NodeKind, NodePath, Parents, Precondition, ProtectedNames, PutOptions, Replace, Side,
    StepOutcome, StoreError, StorePath, StoreResult, Subtree,
};

use super::change::PhysicalChange;
use super::host::{self, Errno, GRANTABLE_MODE_BITS, HostStat, OpenMode, SETGID, errno_to_store_error};
use super::mask::is_at_or_below;
use super::owner_access;
use super::read::{is_empty, is_file_like};
use super::root::Dir;
use super::slot::{HostSlot, LookupPurpose, open_regular};
use super::tree::{self, Inspection, InspectionPurpose};
use super::undo::UndoRecord;
use crate::Durability;
use crate::sync;

impl PhysicalChange<'_> {
    pub(super) fn remove(
        &mut self,
        at: &NodePath,
        subtree: Subtree,
        expect: Precondition,
        missing: IfMissing,
        spare: Option<&ProtectedNames>,
    ) -> StoreResult<StepOutcome> {
        let gone = |missing| match missing {
            IfMissing::Fail => Err(StoreError::NotFound),
            IfMissing::Ignore => Ok(StepOutcome::default()),
        };
        let spot = match self.store.slot(at, LookupPurpose::Find, Parents::Required) {
            Err(StoreError::NotFound) => return gone(missing),
            result => result?,
        };
        let found = match self.store.stat_slot(&spot) {
            Ok(None) | Err(StoreError::NotFound) => return gone(missing),
            result => result?.expect("matched above"),
        };
        self.check_may_leave(&spot)?;
        match (subtree, found.is_dir()) {
            (Subtree::File, true) => return Err(StoreError::IsADirectory),
            (Subtree::EmptyDirectory | Subtree::Directory, false) => return Err(StoreError::NotADirectory),
            _ => {}
        }
        if found.is_dir() {
            return self.remove_dir(&spot, &found, subtree, expect, spare);
        }
        self.lock_names(&[&spot])?;
        let Some(there) = self.store.stat_slot(&spot)? else { return gone(missing) };
        if there.is_dir() {
            return Err(StoreError::Conflict);
        }
        expect.check(Some(there.tag()))?;
        self.move_to_staging(&spot, &there)?;
        Ok(StepOutcome::default())
    }

    fn remove_dir(
        &mut self,
        spot: &HostSlot,
        found: &HostStat,
        subtree: Subtree,
        expect: Precondition,
        spare: Option<&ProtectedNames>,
    ) -> StoreResult<StepOutcome> {
        let dir = owner_access::enter(&spot.dir, spot.name()).map_err(errno_to_store_error)?.into_dir();
        if subtree == Subtree::EmptyDirectory {
            if !is_empty(&dir)? {
                return Err(StoreError::NotEmpty);
            }
        } else {
            // Before the tree is locked, because inspecting a large tree takes long.
            self.inspect_tree(&dir, spot, [spare, None], InspectionPurpose::MoveOrRemove)?;
        }
        self.lock_tree()?;
        let there = self.store.stat_slot(spot)?.ok_or(StoreError::NotFound)?;
        if there.ino != found.ino {
            return Err(StoreError::Conflict);
        }
        expect.check(Some(there.tag()))?;
        self.move_to_staging(spot, &there)?;
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
        spare: &[Option<ProtectedNames>; 2],
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
        let mut sink = self.store.slot(to, LookupPurpose::Create, parents).map_err(at_to)?;
        let inside = found.is_dir() && is_at_or_below(sink.path(), source.path());
        let around = replace == Replace::Exchange && is_at_or_below(source.path(), sink.path());
        if inside || around {
            return Err(StoreError::IntoItself);
        }
        let there = self.store.stat_slot(&sink)?;
        self.check_may_leave(&source)?;
        if there.is_some() {
            self.check_may_leave(&sink)?;
        }
        if found.is_dir() {
            let dir = owner_access::enter(&source.dir, source.name()).map_err(errno_to_store_error)?;
            self.inspect_tree(
                &dir,
                &source,
                [spare[0].as_ref(), spare[1].as_ref()],
                InspectionPurpose::MoveOrRemove,
            )?;
        }
        if replace == Replace::Exchange && there.is_some_and(|there| there.is_dir()) {
            let dir = owner_access::enter(&sink.dir, sink.name()).map_err(errno_to_store_error)?;
            self.inspect_tree(&dir, &sink, [None, None], InspectionPurpose::MoveOrRemove)?;
        }
        if !sink.has_parent() {
            self.make_multi_action()?;
        } else if found.is_dir() || there.is_some_and(|there| there.is_dir()) {
            self.lock_tree()?;
        }
        self.lock_names(&[&source, &sink])?;
        let now = self.store.stat_slot(&source)?.ok_or(StoreError::NotFound)?;
        let there = self.store.stat_slot(&sink)?;
        if now.ino != found.ino {
            return Err(StoreError::Conflict);
        }
        expect.check(Some(now.tag()))?;
        if !sink.has_parent() {
            let parent =
                StorePath::from_checked(to.path.parent_and_name().map_or(&b""[..], |(parent, _)| parent));
            self.mkdir(&NodePath { base: to.base, path: parent }, Parents::Create, None).map_err(at_to)?;
            sink = self.store.slot(to, LookupPurpose::Create, Parents::Required).map_err(at_to)?;
        }
        match (replace, there) {
            (Replace::Refuse, Some(_)) => return Err(StoreError::AlreadyExists),
            (Replace::Exchange, None) => return Err(StoreError::NotFound),
            (Replace::Exchange, Some(there)) => self.exchange(&source, &now, &sink, &there)?,
            (Replace::Overwrite, Some(there)) => self.rename_over(&source, &now, &sink, &there)?,
            (Replace::Refuse | Replace::Overwrite, None) => self.rename_new(&source, &now, &sink)?,
        }
        self.schedule_dir_sync(&source.dir)?;
        self.schedule_dir_sync(&sink.dir)?;
        self.outcome(&sink, false)
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
        match (is_file_like(moved.kind), is_file_like(there.kind)) {
            (true, false) => return Err(StoreError::IsADirectory),
            (false, true) => return Err(StoreError::NotADirectory),
            (true, true) => {}
            (false, false) => {
                let dir = owner_access::enter(&sink.dir, sink.name()).map_err(errno_to_store_error)?;
                if !is_empty(&dir)? {
                    return Err(StoreError::NotEmpty);
                }
            }
        }
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
        spare: Option<&ProtectedNames>,
    ) -> StoreResult<StepOutcome> {
        let at_to = |error: StoreError| error.in_step(0, Side::To);
        if replace == Replace::Exchange {
            return Err(StoreError::Invalid("a copy can't exchange two paths; rename can".to_owned()));
        }
        let source = self.store.slot(from, LookupPurpose::Find, Parents::Required)?;
        let found = self.store.stat_slot(&source)?.ok_or(StoreError::NotFound)?;
        let target = self.store.locate(to, LookupPurpose::Create).map_err(at_to)?;
        if target.is_root() {
            return Err(StoreError::AlreadyExists);
        }
        if target.full_path == source.path() {
            return Err(match replace {
                Replace::Refuse => StoreError::AlreadyExists,
                _ => StoreError::Invalid("it can't be copied to its own path".to_owned()),
            });
        }
        let sink = self.store.slot(to, LookupPurpose::Create, parents).map_err(at_to)?;
        if found.is_dir() && is_at_or_below(sink.path(), source.path()) {
            return Err(StoreError::IntoItself);
        }
        self.check_replace(&found, self.store.stat_slot(&sink)?, replace)?;
        match found.kind {
            NodeKind::Directory => self.copy_dir(&source, &sink, spare),
            NodeKind::File => {
                let (file, _) = open_regular(&source.dir, source.name(), OpenMode::Read)?;
                let mut temp = self.staging.new_temp_file()?;
                let stat = tree::copy_file(&file, &temp.file)?;
                self.sync_new(&temp.file)?;
                self.lock_names(&[&sink])?;
                let there = self.store.stat_slot(&sink)?;
                self.check_replace(&found, there, replace)?;
                let kept = there.filter(|there| there.kind == NodeKind::File).map(|there| there.mode);
                let mode = Some(kept.unwrap_or(stat.mode));
                let put = PutOptions { mode, modified: Some(stat.modified), ..PutOptions::default() };
                self.put_file(&sink, &mut temp, there.as_ref(), &put)
            }
            NodeKind::Symlink => {
                let target =
                    host::read_link(source.dir.as_fd(), source.name()).map_err(errno_to_store_error)?;
                self.lock_names(&[&sink])?;
                let there = self.store.stat_slot(&sink)?;
                self.check_replace(&found, there, replace)?;
                let mut scrap = self.stage_symlink(&target, found.modified, &sink)?;
                self.put_entry(&sink, &mut scrap, there.as_ref())?;
                self.outcome(&sink, there.is_none())
            }
            NodeKind::Special(_) => Err(StoreError::Special(found.kind)),
        }
    }

    /// Copies a directory. Nothing is locked while the content is copied, only while the copy gets its name.
    fn copy_dir(
        &mut self,
        source: &HostSlot,
        sink: &HostSlot,
        spare: Option<&ProtectedNames>,
    ) -> StoreResult<StepOutcome> {
        let dir = source.dir.enter(source.name(), OpenMode::Directory).map_err(errno_to_store_error)?;
        self.inspect_tree(&dir, source, [spare, None], InspectionPurpose::Copy)?;
        let (mut scrap, made) = self.new_dir(None, sink)?;
        let dir = source.dir.enter(source.name(), OpenMode::Directory).map_err(errno_to_store_error)?;
        tree::copy(&dir, source.path(), &self.store.mask, &made, || self.check_cancelled())?;
        self.check_cancelled()?;
        self.sync_new_tree()?;
        self.lock_names(&[sink])?;
        let ino = host::stat(&made).map_err(errno_to_store_error)?.ino;
        self.place_with_parents(&mut scrap, ino, sink)?;
        self.outcome(sink, true)
    }

    fn check_replace(&self, found: &HostStat, there: Option<HostStat>, replace: Replace) -> StoreResult<()> {
        let Some(there) = there else { return Ok(()) };
        match (replace, there.kind) {
            _ if found.is_dir() => Err(StoreError::AlreadyExists),
            (Replace::Overwrite, NodeKind::Directory) => Err(StoreError::IsADirectory),
            (Replace::Overwrite, NodeKind::Special(_)) => Err(StoreError::Special(there.kind)),
            (Replace::Overwrite, NodeKind::File | NodeKind::Symlink) => Ok(()),
            (Replace::Refuse | Replace::Exchange, _) => Err(StoreError::AlreadyExists),
        }
    }

    fn inspect_tree(
        &self,
        dir: &Dir,
        spot: &HostSlot,
        spare: [Option<&ProtectedNames>; 2],
        leaving: InspectionPurpose,
    ) -> StoreResult<()> {
        tree::inspect(
            dir,
            &Inspection { mask: &self.store.mask, at: spot.path(), protected: spare, purpose: leaving },
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
