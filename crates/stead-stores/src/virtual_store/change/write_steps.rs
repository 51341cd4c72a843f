//! The steps that write at one path.

use rusqlite::Connection;
use stead_core::store::{
    ChangeKind, DisplacedContent, NodePath, Parents, Precondition, PutOptions, Side, StepOutcome,
};
use stead_core::{Edit, MAX_EDIT_SIZE, StoreError, Timestamp};

use crate::database::error::Result;
use crate::virtual_store::change::{CatalogSlot, VirtualChange, outcome_of};
use crate::virtual_store::content::{self, CHUNK_SIZE, PreparedContent};
use crate::virtual_store::entry_row::{DIRECTORY_MODE, EntryKind, EntryRow, FILE_MODE, SYMLINK_MODE};

/// The bits that a mode can have.
const MODE_BITS: u32 = 0o7777;

impl VirtualChange<'_, '_> {
    pub(super) fn write(
        &mut self,
        at: &NodePath,
        content: &PreparedContent,
        options: &PutOptions,
    ) -> Result<StepOutcome> {
        let slot = self.slot(at, options.parents, Side::From)?;
        let existing = self.file_at(&slot)?;
        self.check_expected(options.expect, existing.as_ref())?;
        self.usage_tally.is_restoring_content = matches!(content, PreparedContent::Stored { .. });
        let outcome = self.put_content(&slot, existing, content, options);
        self.usage_tally.is_restoring_content = false;
        outcome
    }

    pub(super) fn append(
        &mut self,
        at: &NodePath,
        content: &PreparedContent,
        options: &PutOptions,
    ) -> Result<StepOutcome> {
        let slot = self.slot(at, options.parents, Side::From)?;
        let existing = self.file_at(&slot)?;
        self.check_expected(options.expect, existing.as_ref())?;
        let Some(row) = &existing else { return self.put_content(&slot, existing, content, options) };
        options.check_append(row.size.cast_unsigned(), content.size().cast_unsigned())?;
        let combined = append_content(self.conn(), row, content)?;
        self.put_content(&slot, existing, &combined, options)
    }

    pub(super) fn edit(
        &mut self,
        at: &NodePath,
        edit: &Edit,
        expect: Precondition,
        displaced: DisplacedContent,
    ) -> Result<StepOutcome> {
        let slot = self.slot(at, Parents::Required, Side::From)?;
        let row = self.file_at(&slot)?.ok_or(StoreError::NotFound)?;
        self.check_expected(expect, Some(&row))?;
        let size = row.size.cast_unsigned();
        if size > MAX_EDIT_SIZE {
            return Err(StoreError::TooLarge { size, limit: MAX_EDIT_SIZE }.into());
        }
        let (edited, replaced) = edit.apply(&content::read_whole(self.conn(), row.content, row.size)?)?;
        let content = PreparedContent::from_bytes(self.conn(), edited)?;
        let outcome =
            self.put_content(&slot, Some(row), &content, &PutOptions { displaced, ..PutOptions::default() })?;
        Ok(StepOutcome { replaced, ..outcome })
    }

    pub(super) fn mkdir(
        &mut self,
        at: &NodePath,
        parents: Parents,
        mode: Option<u32>,
    ) -> Result<StepOutcome> {
        let slot = self.slot(at, parents, Side::From)?;
        match &slot.row {
            Some(row) if row.kind == EntryKind::Symlink && parents == Parents::Create => {
                self.symlink_hit(row, &slot)
            }
            Some(row) => {
                parents.check_mkdir(row.kind.to_kind())?;
                Ok(outcome_of(row, false))
            }
            None => {
                let row = self.new_row(EntryKind::Directory, mode.unwrap_or(DIRECTORY_MODE) & MODE_BITS)?;
                Ok(outcome_of(&self.create(slot.parent, &slot.name, row)?, true))
            }
        }
    }

    pub(super) fn symlink(
        &mut self,
        at: &NodePath,
        target: &PreparedContent,
        parents: Parents,
        expect: Precondition,
    ) -> Result<StepOutcome> {
        let slot = self.slot(at, parents, Side::From)?;
        if slot.row.is_some_and(|row| row.kind != EntryKind::Symlink) {
            return Err(StoreError::AlreadyExists.into());
        }
        self.check_expected(expect, slot.row.as_ref())?;
        let (content, size) = (target.store(self.conn())?, target.size());
        match &slot.row {
            Some(old) => {
                let new = EntryRow { content, size, modified: self.now(), ..*old };
                Ok(outcome_of(
                    &self.update(old, new, ChangeKind::Written, &slot.name, DisplacedContent::Keep)?,
                    false,
                ))
            }
            None => {
                let row = EntryRow { content, size, ..self.new_row(EntryKind::Symlink, SYMLINK_MODE)? };
                Ok(outcome_of(&self.create(slot.parent, &slot.name, row)?, true))
            }
        }
    }

    pub(super) fn set_attr(
        &mut self,
        at: &NodePath,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> Result<StepOutcome> {
        let slot = self.slot(at, Parents::Required, Side::From)?;
        let old = slot.row.ok_or(StoreError::NotFound)?;
        let new = EntryRow {
            mode: mode.map_or(old.mode, |mode| mode & MODE_BITS),
            modified: modified.map_or(old.modified, |time| time.0),
            ..old
        };
        if (new.mode, new.modified) == (old.mode, old.modified) {
            return Ok(StepOutcome { before: Some(self.shown_tag(&old)?), ..outcome_of(&old, false) });
        }
        let updated = self.update(&old, new, ChangeKind::Attributes, &slot.name, DisplacedContent::Keep)?;
        Ok(StepOutcome { before: Some(self.shown_tag(&old)?), ..outcome_of(&updated, false) })
    }

    /// The file at a slot, if something is there. Fails for a directory, and for a symlink with `Link`.
    fn file_at(&self, slot: &CatalogSlot<'_>) -> Result<Option<EntryRow>> {
        match slot.row {
            Some(row) if row.kind == EntryKind::Symlink => self.symlink_hit(&row, slot),
            Some(row) if row.is_directory() => Err(StoreError::IsADirectory.into()),
            row => Ok(row),
        }
    }

    /// Writes content to a file, which is created if it is missing.
    fn put_content(
        &mut self,
        slot: &CatalogSlot<'_>,
        old: Option<EntryRow>,
        content: &PreparedContent,
        options: &PutOptions,
    ) -> Result<StepOutcome> {
        let size = content.size();
        let content = content.store(self.conn())?;
        let modified = options.modified.map_or(self.now(), |time| time.0);
        let mode = options.mode.map(|mode| mode & MODE_BITS);
        match old {
            Some(old) => {
                let new = EntryRow { content, size, modified, mode: mode.unwrap_or(old.mode), ..old };
                let updated = self.update(&old, new, ChangeKind::Written, &slot.name, options.displaced)?;
                Ok(StepOutcome { before: Some(self.shown_tag(&old)?), ..outcome_of(&updated, false) })
            }
            None => {
                let new = self.new_row(EntryKind::File, mode.unwrap_or(FILE_MODE))?;
                let new =
                    self.create(slot.parent, &slot.name, EntryRow { content, size, modified, ..new })?;
                Ok(outcome_of(&new, true))
            }
        }
    }
}

/// A file's content with more appended. Only the last chunk is written again.
fn append_content(conn: &Connection, row: &EntryRow, addition: &PreparedContent) -> Result<PreparedContent> {
    let mut chunks = content::chunks(conn, row.content, row.size)?;
    let size = row.size + addition.size();
    let mut tail = Vec::new();
    if row.size % CHUNK_SIZE as i64 != 0
        && let Some(last) = chunks.pop()
    {
        content::with_bytes(conn, last.id, |bytes| tail.extend_from_slice(bytes))?;
    }
    let mut append = |piece: &[u8]| -> Result<()> {
        tail.extend_from_slice(piece);
        while tail.len() >= CHUNK_SIZE {
            chunks.push(content::store_bytes(conn, &tail[..CHUNK_SIZE])?);
            tail.drain(..CHUNK_SIZE);
        }
        Ok(())
    };
    match addition {
        PreparedContent::Empty => {}
        PreparedContent::Single { bytes, .. } => append(bytes)?,
        PreparedContent::Chunked { chunks, .. } => {
            chunks.iter().try_for_each(|chunk| content::with_bytes(conn, chunk.id, &mut append)?)?;
        }
        PreparedContent::Stored { id, size } => {
            content::layout(conn, *id, *size)?
                .chunk_ids
                .into_iter()
                .try_for_each(|id| content::with_bytes(conn, id, &mut append)?)?;
        }
    }
    if chunks.is_empty() {
        return Ok(PreparedContent::single(tail));
    }
    if !tail.is_empty() {
        chunks.push(content::store_bytes(conn, &tail)?);
    }
    Ok(PreparedContent::Chunked { chunks, size, _pins: None })
}
