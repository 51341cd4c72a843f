//! The steps that create or write: write, edit, append, symlink, mkdir.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use stead_core::store::{
    Content, NodeKind, NodePath, Parents, Precondition, PutOptions, StepOutcome, StoreError, StoreResult,
    check_symlink_target,
};
use stead_core::{Edit, MAX_EDIT_SIZE};

use super::change::PhysicalChange;
use super::draft::DraftContent;
use super::foreign_writes::ForeignWrites;
use super::host::{self, GRANTABLE_MODE_BITS, HostStat, OpenMode, errno_to_store_error, io_to_store_error};
use super::owner_access;
use super::patch::{ModeAndTime, WriteExtent, WritePlan, WriteSource};
use super::read::read_all;
use super::slot::{HostSlot, LookupPurpose, open_regular};
use super::staging_area::{TempEntry, TempFile};
use super::undo::UndoRecord;
use crate::Durability;

/// With `Durability::Fast`, up to this many bytes are staged before the precondition is checked.
const EAGER_WRITE_LIMIT: usize = 64 << 10;
/// How often a step starts again because another program took or freed the name.
const MAX_TRIES: usize = 32;

impl PhysicalChange<'_> {
    pub(super) fn write(
        &mut self,
        at: &NodePath,
        content: Content,
        options: &PutOptions,
    ) -> StoreResult<StepOutcome> {
        let mut slot = self.file_slot(at, LookupPurpose::Create, options.parents)?;
        // The precondition is checked before the content is staged, so that a refusal comes early. For little content
        // that needs no sync, the check under the lock is enough.
        let is_small = matches!(&content, Content::Bytes(bytes) if bytes.len() <= EAGER_WRITE_LIMIT)
            && self.durability() == Durability::Fast;
        let existing = if is_small { None } else { self.file_at(&slot, options.expect)? };
        let mut temp = match content {
            Content::Bytes(bytes) => self.stage_bytes(&bytes)?,
            Content::Stored(_) => return Err(uncopied_content_error()),
            Content::Sealed(sealed) => match draft_content(sealed)? {
                DraftContent::Complete(temp) => temp,
                DraftContent::Closed(entry) => self.staging.reopen_temp_file(entry)?,
                DraftContent::Overlay(draft) => {
                    if existing.is_some_and(|existing| {
                        (existing.dev, existing.ino) == (draft.stat.dev, draft.stat.ino)
                    }) {
                        self.lock_names(&[&slot])?;
                        let current = self.file_at(&slot, options.expect)?;
                        if current.is_some_and(|current| current.ino == draft.stat.ino) {
                            return self.patch_file(&slot, OpenMode::ReadWrite, options, |current| {
                                Ok(draft.write_plan(current))
                            });
                        }
                        self.unlock_names();
                    }
                    draft.to_temp_file()?
                }
            },
        };
        self.sync_new(&temp.file)?;
        for _ in 0..MAX_TRIES {
            self.lock_names(&[&slot])?;
            let existing = self.file_at(&slot, options.expect)?;
            match self.put_file(&slot, &mut temp, existing.as_ref(), options) {
                Err(StoreError::AlreadyExists)
                    if existing.is_none() && options.expect != Precondition::Absent => {}
                // The file, or its directory, was removed meanwhile.
                Err(StoreError::NotFound) => {}
                result => return result,
            }
            self.unlock_names();
            slot = self.file_slot(at, LookupPurpose::Create, options.parents)?;
        }
        Err(StoreError::Conflict)
    }

    pub(super) fn edit(
        &mut self,
        at: &NodePath,
        edit: &Edit,
        expect: Precondition,
    ) -> StoreResult<StepOutcome> {
        let slot = self.file_slot(at, LookupPurpose::Find, Parents::Required)?;
        self.lock_names(&[&slot])?;
        self.file_at(&slot, Precondition::Any)?.ok_or(StoreError::NotFound)?;
        let (file, stat) = open_regular(&slot.dir, slot.name(), OpenMode::Read)?;
        expect.check(Some(stat.tag()))?;
        let (content, replaced) = edit.apply(&read_all(&file, &stat, MAX_EDIT_SIZE)?)?;
        let mut temp = self.stage_bytes(&content)?;
        self.sync_new(&temp.file)?;
        let outcome = self.put_file(&slot, &mut temp, Some(&stat), &PutOptions::default())?;
        Ok(StepOutcome { replaced, ..outcome })
    }

    pub(super) fn append(
        &mut self,
        at: &NodePath,
        content: Content,
        options: &PutOptions,
    ) -> StoreResult<StepOutcome> {
        let content = match content {
            Content::Bytes(bytes) => AppendContent::Bytes(bytes),
            Content::Stored(_) => return Err(uncopied_content_error()),
            Content::Sealed(sealed) => AppendContent::File(match draft_content(sealed)? {
                DraftContent::Complete(temp) => temp,
                DraftContent::Closed(entry) => self.staging.reopen_temp_file(entry)?,
                DraftContent::Overlay(draft) => draft.to_temp_file()?,
            }),
        };
        for _ in 0..MAX_TRIES {
            self.unlock_names();
            let slot = self.file_slot(at, LookupPurpose::Create, options.parents)?;
            self.lock_names(&[&slot])?;
            if self.file_at(&slot, options.expect)?.is_some() {
                return self.append_to(&slot, &content, options);
            }
            let mut temp = content.to_temp_file(self)?;
            match self.put_file(&slot, &mut temp, None, options) {
                Err(StoreError::AlreadyExists) if options.expect != Precondition::Absent => {}
                result => return result,
            }
        }
        Err(StoreError::Conflict)
    }

    /// Appends to the file at a slot.
    fn append_to(
        &mut self,
        slot: &HostSlot,
        content: &AppendContent,
        options: &PutOptions,
    ) -> StoreResult<StepOutcome> {
        let length = content.size()?;
        self.patch_file(slot, OpenMode::Write, options, |current| {
            options.check_append(current.size, length)?;
            Ok((length > 0).then(|| WritePlan {
                kept_length: current.size,
                extents: vec![WriteExtent { from: 0, to: current.size, length }],
                length: current.size + length,
                source: content.source(),
            }))
        })
    }

    pub(super) fn symlink(
        &mut self,
        at: &NodePath,
        target: &[u8],
        parents: Parents,
        expect: Precondition,
    ) -> StoreResult<StepOutcome> {
        check_symlink_target(target)?;
        if self.store.locate(at, LookupPurpose::Create)?.is_root() {
            return Err(StoreError::AlreadyExists);
        }
        for _ in 0..MAX_TRIES {
            let slot = self.store.slot(at, LookupPurpose::Create, parents)?;
            self.lock_names(&[&slot])?;
            let existing = self.store.stat_slot(&slot)?;
            if existing.is_some_and(|existing| existing.kind != NodeKind::Symlink) {
                return Err(StoreError::AlreadyExists);
            }
            expect.check(existing.map(|existing| existing.tag()))?;
            let mut staged = self.stage_symlink(target, self.now(), &slot)?;
            match self.put_entry(&slot, &mut staged, existing.as_ref()) {
                Err(StoreError::AlreadyExists) if existing.is_none() && expect != Precondition::Absent => {}
                Err(error) => return Err(error),
                Ok(()) => return self.outcome(&slot, existing.is_none()),
            }
        }
        Err(StoreError::Conflict)
    }

    /// Makes a symlink in the staging directory.
    pub(super) fn stage_symlink(
        &self,
        target: &[u8],
        modified: stead_core::Timestamp,
        slot: &HostSlot,
    ) -> StoreResult<TempEntry> {
        let entry = TempEntry::new(self.staging, self.staging.fresh_name());
        let (staging_dir, name) = (self.staging.staging_dir_fd(), entry.name().as_bytes());
        host::make_symlink(staging_dir, name, target).map_err(errno_to_store_error)?;
        if self.staging.uid == 0 && slot.dir_stat.uid != 0 {
            host::set_link_owner(staging_dir, name, slot.dir_stat.uid, slot.dir_stat.gid)
                .map_err(errno_to_store_error)?;
        }
        host::set_modified_at(staging_dir, name, modified).map_err(errno_to_store_error)?;
        Ok(entry)
    }

    pub(super) fn mkdir(
        &mut self,
        at: &NodePath,
        parents: Parents,
        mode: Option<u32>,
    ) -> StoreResult<StepOutcome> {
        let located = self.store.locate(at, LookupPurpose::Create)?;
        if located.is_root() {
            parents.check_mkdir(NodeKind::Directory)?;
            return Ok(StepOutcome { attr: Some(self.store.stat_at(at)?), ..StepOutcome::default() });
        }
        for _ in 0..MAX_TRIES {
            let slot = self.store.slot(at, LookupPurpose::Create, parents)?;
            self.lock_names(&[&slot])?;
            match self.store.stat_slot(&slot)? {
                Some(existing) if existing.kind == NodeKind::Symlink && parents == Parents::Create => {
                    return Err(slot.symlink_error());
                }
                Some(existing) => {
                    parents.check_mkdir(existing.kind)?;
                    return self.outcome(&slot, false);
                }
                None => {}
            }
            let (mut staged, dir) = self.new_dir(mode, &slot)?;
            let ino = host::stat(&dir).map_err(errno_to_store_error)?.ino;
            match self.place_with_parents(&mut staged, ino, &slot) {
                Err(StoreError::AlreadyExists) => {}
                Err(error) => return Err(error),
                Ok(()) => return self.outcome(&slot, true),
            }
        }
        Err(StoreError::Conflict)
    }
}

/// What several steps share.
impl PhysicalChange<'_> {
    /// Finds the slot of a step that needs a file. `IsADirectory` for the root.
    fn file_slot(&self, at: &NodePath, purpose: LookupPurpose, parents: Parents) -> StoreResult<HostSlot> {
        if self.store.locate(at, purpose)?.is_root() {
            return Err(StoreError::IsADirectory);
        }
        self.store.slot(at, purpose, parents)
    }

    /// Returns the file at a slot, after its precondition was checked; `None` if nothing is there. Fails if something
    /// other than a file is there.
    pub(super) fn file_at(&self, slot: &HostSlot, expect: Precondition) -> StoreResult<Option<HostStat>> {
        let existing = self.store.stat_slot(slot)?;
        match existing.map(|existing| existing.kind) {
            None | Some(NodeKind::File) => expect.check(existing.map(|existing| existing.tag()))?,
            Some(NodeKind::Directory) => return Err(StoreError::IsADirectory),
            Some(NodeKind::Symlink) => return Err(slot.symlink_error()),
            Some(special @ NodeKind::Special(_)) => return Err(StoreError::Special(special)),
        }
        Ok(existing)
    }

    /// Makes a file with this content in the staging directory.
    pub(super) fn stage_bytes(&self, bytes: &[u8]) -> StoreResult<TempFile> {
        let temp = self.staging.new_temp_file()?;
        temp.file.write_all_at(bytes, 0).map_err(io_to_store_error)?;
        Ok(temp)
    }

    /// Moves a file from the staging directory to a slot, with the owner and mode of the file that it replaces.
    pub(super) fn put_file(
        &mut self,
        slot: &HostSlot,
        temp: &mut TempFile,
        existing: Option<&HostStat>,
        options: &PutOptions,
    ) -> StoreResult<StepOutcome> {
        let temp_stat = host::stat(&temp.file).map_err(errno_to_store_error)?;
        self.set_new_owner(&temp.file, &temp_stat, existing, slot)?;
        // New content never inherits the set-user-id and set-group-id bits.
        let mode =
            options.mode.or(existing.map(|existing| existing.mode)).unwrap_or(0o644) & GRANTABLE_MODE_BITS;
        if mode != temp_stat.mode {
            host::set_mode(&temp.file, mode).map_err(errno_to_store_error)?;
        }
        host::set_modified(&temp.file, options.modified.unwrap_or_else(|| self.now()))
            .map_err(errno_to_store_error)?;
        match existing {
            Some(existing) => self.replace_in_place(&mut temp.entry, temp_stat.ino, slot, existing)?,
            None => self.place_with_parents(&mut temp.entry, temp_stat.ino, slot)?,
        }
        let current = host::stat(&temp.file).map_err(errno_to_store_error)?;
        self.store.node_path_table.remember(current.ino, slot.path());
        let (attr, before) = (Some(current.attr()), existing.map(HostStat::tag));
        Ok(StepOutcome { attr, before, created: existing.is_none(), replaced: 0 })
    }

    /// Moves an entry that isn't a regular file from the staging directory to a slot.
    pub(super) fn put_entry(
        &mut self,
        slot: &HostSlot,
        entry: &mut TempEntry,
        existing: Option<&HostStat>,
    ) -> StoreResult<()> {
        let ino = host::stat_at(self.staging.staging_dir_fd(), entry.name().as_bytes())
            .map_err(errno_to_store_error)?
            .ino;
        match existing {
            Some(existing) => self.replace_in_place(entry, ino, slot, existing),
            None => self.place_with_parents(entry, ino, slot),
        }
    }

    /// Returns the outcome of a step: the attributes of what is at the slot now.
    pub(super) fn outcome(&self, slot: &HostSlot, created: bool) -> StoreResult<StepOutcome> {
        let (dir, name) = self.store.open_parent(&slot.located)?;
        let stat = host::stat_at(dir.as_fd(), name).map_err(errno_to_store_error)?;
        self.store.node_path_table.remember(stat.ino, slot.path());
        Ok(StepOutcome { attr: Some(stat.attr()), created, ..StepOutcome::default() })
    }

    /// Writes into the file at a slot. `plan` gets the file's current attributes; if it returns `None`, only mode and
    /// time are set.
    fn patch_file<'p>(
        &mut self,
        slot: &HostSlot,
        open_mode: OpenMode,
        options: &PutOptions,
        plan: impl FnOnce(&HostStat) -> StoreResult<Option<WritePlan<'p>>>,
    ) -> StoreResult<StepOutcome> {
        let (file, stat) = open_to_write(slot, open_mode)?;
        options.expect.check(Some(stat.tag()))?;
        let foreign_writes = match plan(&stat)? {
            None => {
                let mode = options.mode.map(|mode| mode & GRANTABLE_MODE_BITS);
                self.set_attributes(&file, &stat, slot, mode, options.modified)?
            }
            Some(plan) => {
                // New content never inherits the set-user-id and set-group-id bits.
                let mode = options.mode.unwrap_or(stat.mode) & GRANTABLE_MODE_BITS;
                let attributes =
                    ModeAndTime { mode, modified: options.modified.unwrap_or_else(|| self.now()) };
                let is_only_action = !self.is_multi_action();
                let (patch, old_bytes_file) =
                    plan.prepare(&file, &stat, attributes, self.staging, self.durability(), is_only_action)?;
                if let Some(mut old_bytes_file) = old_bytes_file {
                    // The old bytes are needed longer than this call: a later step may fail.
                    old_bytes_file.entry.mark_placed();
                    self.add_displaced(old_bytes_file.entry.name().to_owned());
                }
                // An append finds the end by itself. Any other write is planned for the content that was there: if
                // another program has changed it since, that program's content stays, and the caller plans again.
                if !plan.is_append(&stat)
                    && options.expect != Precondition::Any
                    && !host::stat(&file).map_err(errno_to_store_error)?.has_same_content(&stat)
                {
                    return Err(StoreError::Conflict);
                }
                let mut foreign_writes = ForeignWrites::since(&stat);
                self.perform_non_atomic(UndoRecord::Patched { at: slot.path().to_vec(), patch }, |change| {
                    let fault_point = &change.staging.fault_point;
                    plan.write(&file, &stat, attributes, fault_point, &mut foreign_writes)
                })?;
                if foreign_writes.size() != plan.length {
                    foreign_writes.notice();
                }
                foreign_writes
            }
        };
        self.schedule_file_sync(file)?;
        self.store.node_path_table.remember(stat.ino, slot.path());
        let (attr, before) = (Some(foreign_writes.attr()), Some(stat.tag()));
        Ok(StepOutcome { attr, before, ..StepOutcome::default() })
    }

    /// Sets the mode and modification time of an open file or directory. Returns what other programs wrote meanwhile.
    pub(super) fn set_attributes(
        &mut self,
        fd: impl AsFd,
        stat: &HostStat,
        slot: &HostSlot,
        mode: Option<u32>,
        modified: Option<stead_core::Timestamp>,
    ) -> StoreResult<ForeignWrites> {
        let mut foreign_writes = ForeignWrites::since(stat);
        let after =
            ModeAndTime { mode: mode.unwrap_or(stat.mode), modified: modified.unwrap_or(stat.modified) };
        let undo_record = UndoRecord::AttributesSet {
            at: slot.path().to_vec(),
            ino: stat.ino,
            before: ModeAndTime { mode: stat.mode, modified: stat.modified },
            after,
            is_only_action: !self.is_multi_action(),
        };
        let fd = fd.as_fd();
        let set_mode = |mode: u32, foreign_writes: &mut ForeignWrites| {
            foreign_writes.before_action(fd)?;
            host::set_mode(fd, mode)?;
            foreign_writes.after_mode(fd)
        };
        let set_modified = |modified: stead_core::Timestamp, foreign_writes: &mut ForeignWrites| {
            foreign_writes.before_action(fd)?;
            host::set_modified(fd, modified)?;
            foreign_writes.after_time(fd, modified)
        };
        match (mode, modified) {
            (None, None) => Ok(()),
            (Some(mode), None) => self.perform("mode", undo_record, || set_mode(mode, &mut foreign_writes)),
            (None, Some(modified)) => {
                self.perform("time", undo_record, || set_modified(modified, &mut foreign_writes))
            }
            (Some(mode), Some(modified)) => self.perform_non_atomic(undo_record, |change| {
                change.staging.fault_point.pass("mode")?;
                set_mode(mode, &mut foreign_writes).map_err(errno_to_store_error)?;
                change.staging.fault_point.pass("time")?;
                set_modified(modified, &mut foreign_writes).map_err(errno_to_store_error)
            }),
        }?;
        Ok(foreign_writes)
    }
}

/// Opens the file at a slot to write into it, even if its mode forbids it and this user owns it. Access was decided
/// when the caller opened the file: a mode that was set later, or that the file was created with, doesn't bind the
/// caller.
fn open_to_write(slot: &HostSlot, open_mode: OpenMode) -> StoreResult<(File, HostStat)> {
    let (fd, stat) = owner_access::open(&slot.dir, slot.name(), open_mode).map_err(errno_to_store_error)?;
    match stat.kind {
        _ if slot.dir.hides(&stat) => Err(StoreError::NotFound),
        // Another file may have got the name since the check.
        NodeKind::File => slot.located.check_node(&stat).map(|()| (fd.into(), stat)),
        NodeKind::Directory => Err(StoreError::IsADirectory),
        NodeKind::Symlink | NodeKind::Special(_) => Err(StoreError::Special(stat.kind)),
    }
}

/// The content of an append.
enum AppendContent {
    Bytes(Vec<u8>),
    File(TempFile),
}

impl AppendContent {
    fn size(&self) -> StoreResult<u64> {
        match self {
            AppendContent::Bytes(bytes) => Ok(bytes.len() as u64),
            AppendContent::File(temp) => Ok(host::stat(&temp.file).map_err(errno_to_store_error)?.size),
        }
    }

    fn source(&self) -> WriteSource<'_> {
        match self {
            AppendContent::Bytes(bytes) => WriteSource::Bytes(bytes),
            AppendContent::File(temp) => WriteSource::File(&temp.file),
        }
    }

    /// Makes a new file of the content in the staging directory, for a name that doesn't exist yet.
    fn to_temp_file(&self, change: &PhysicalChange<'_>) -> StoreResult<TempFile> {
        let temp = match self {
            AppendContent::Bytes(bytes) => change.stage_bytes(bytes)?,
            AppendContent::File(content) => {
                let temp = change.staging.new_temp_file()?;
                host::copy_range(&content.file, 0, &temp.file, 0, self.size()?).map_err(io_to_store_error)?;
                temp
            }
        };
        change.sync_new(&temp.file)?;
        Ok(temp)
    }
}

/// The error for stored content that is not staged. `stage_restored_content` stages it before the first step.
fn uncopied_content_error() -> StoreError {
    StoreError::unsupported("this step can't use earlier content")
}

fn draft_content(sealed: stead_core::store::SealedContent) -> StoreResult<DraftContent> {
    sealed.into_inner().ok_or_else(|| StoreError::Invalid("the draft belongs to another Store".to_owned()))
}
