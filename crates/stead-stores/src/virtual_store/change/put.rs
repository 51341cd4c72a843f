//! The steps that write at one place.

use rusqlite::Connection;
use stead_core::store::{ChangeKind, Expect, Keep, Outcome, Parents, Place, Put, Side};
use stead_core::{Edit, LARGEST_EDIT, StoreError, Timestamp};

use super::super::content::{self, CHUNK, Prepared};
use super::super::fault::Result;
use super::super::row::{DIRECTORY_MODE, EntryKind, FILE_MODE, Row, SYMLINK_MODE};
use super::{Changing, Spot, there};

/// What a mode can hold.
const MODE_BITS: u32 = 0o7777;

impl Changing<'_, '_> {
    pub(super) fn write(&mut self, at: &Place, content: &Prepared, put: &Put) -> Result<Outcome> {
        let spot = self.spot(at, put.parents, Side::From)?;
        let there = self.file_at(&spot)?;
        put.expect.check(there.map(|row| row.tag()))?;
        self.tally.returns = matches!(content, Prepared::Known { .. });
        let outcome = self.put(&spot, there, content, put);
        self.tally.returns = false;
        outcome
    }

    pub(super) fn append(&mut self, at: &Place, content: Prepared, put: &Put) -> Result<Outcome> {
        let spot = self.spot(at, put.parents, Side::From)?;
        let there = self.file_at(&spot)?;
        put.expect.check(there.map(|row| row.tag()))?;
        let whole = match &there {
            Some(row) => {
                put.check_append(row.size.cast_unsigned(), content.size().cast_unsigned())?;
                joined(self.conn(), row, content)?
            }
            None => content,
        };
        self.put(&spot, there, &whole, put)
    }

    pub(super) fn edit(&mut self, at: &Place, edit: &Edit, expect: Expect, keep: Keep) -> Result<Outcome> {
        let spot = self.spot(at, Parents::Required, Side::From)?;
        let row = self.file_at(&spot)?.ok_or(StoreError::NotFound)?;
        expect.check(Some(row.tag()))?;
        let size = row.size.cast_unsigned();
        if size > LARGEST_EDIT {
            return Err(StoreError::TooLarge { size, limit: LARGEST_EDIT }.into());
        }
        let (edited, replaced) = edit.apply(&content::read_whole(self.conn(), row.content, row.size)?)?;
        let content = Prepared::stored(self.conn(), edited)?;
        let outcome = self.put(&spot, Some(row), &content, &Put { keep, ..Put::default() })?;
        Ok(Outcome { replaced, ..outcome })
    }

    pub(super) fn mkdir(&mut self, at: &Place, parents: Parents, mode: Option<u32>) -> Result<Outcome> {
        let spot = self.spot(at, parents, Side::From)?;
        match &spot.row {
            Some(row) if row.is_directory() && parents == Parents::Create => Ok(there(row, false)),
            Some(_) => Err(StoreError::AlreadyExists.into()),
            None => {
                let row = self.new_row(EntryKind::Directory, mode.unwrap_or(DIRECTORY_MODE) & MODE_BITS)?;
                Ok(there(&self.create(spot.parent, &spot.name, row)?, true))
            }
        }
    }

    pub(super) fn symlink(
        &mut self,
        at: &Place,
        target: &Prepared,
        parents: Parents,
        expect: Expect,
    ) -> Result<Outcome> {
        let spot = self.spot(at, parents, Side::From)?;
        if spot.row.is_some_and(|row| row.kind != EntryKind::Symlink) {
            return Err(StoreError::AlreadyExists.into());
        }
        expect.check(spot.row.map(|row| row.tag()))?;
        let (content, size) = (target.put(self.conn())?, target.size());
        match &spot.row {
            Some(old) => {
                let new = Row { content, size, modified: self.now(), ..*old };
                Ok(there(&self.update(old, new, ChangeKind::Written, &spot.name, Keep::History)?, false))
            }
            None => {
                let row = Row { content, size, ..self.new_row(EntryKind::Symlink, SYMLINK_MODE)? };
                Ok(there(&self.create(spot.parent, &spot.name, row)?, true))
            }
        }
    }

    pub(super) fn set_attr(
        &mut self,
        at: &Place,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> Result<Outcome> {
        let spot = self.spot(at, Parents::Required, Side::From)?;
        let old = spot.row.ok_or(StoreError::NotFound)?;
        let new = Row {
            mode: mode.map_or(old.mode, |mode| mode & MODE_BITS),
            modified: modified.map_or(old.modified, |time| time.0),
            ..old
        };
        if (new.mode, new.modified) == (old.mode, old.modified) {
            return Ok(Outcome { before: Some(old.tag()), ..there(&old, false) });
        }
        let now = self.update(&old, new, ChangeKind::Attributes, &spot.name, Keep::History)?;
        Ok(Outcome { before: Some(old.tag()), ..there(&now, false) })
    }

    /// The file at a spot, if something is there.
    fn file_at(&self, spot: &Spot<'_>) -> Result<Option<Row>> {
        match spot.row {
            Some(row) if row.kind == EntryKind::Symlink => self.link_hit(&row, spot),
            Some(row) if row.is_directory() => Err(StoreError::IsADirectory.into()),
            row => Ok(row),
        }
    }

    /// Puts content into a file, which is made if it is missing.
    fn put(&mut self, spot: &Spot<'_>, old: Option<Row>, content: &Prepared, put: &Put) -> Result<Outcome> {
        let size = content.size();
        let content = content.put(self.conn())?;
        let modified = put.modified.map_or(self.now(), |time| time.0);
        let mode = put.mode.map(|mode| mode & MODE_BITS);
        match old {
            Some(old) => {
                let new = Row { content, size, modified, mode: mode.unwrap_or(old.mode), ..old };
                let now = self.update(&old, new, ChangeKind::Written, &spot.name, put.keep)?;
                Ok(Outcome { before: Some(old.tag()), ..there(&now, false) })
            }
            None => {
                let new = self.new_row(EntryKind::File, mode.unwrap_or(FILE_MODE))?;
                let new = self.create(spot.parent, &spot.name, Row { content, size, modified, ..new })?;
                Ok(there(&new, true))
            }
        }
    }
}

/// A file's content and then more. Only its last chunk is touched.
fn joined(conn: &Connection, row: &Row, more: Prepared) -> Result<Prepared> {
    let mut chunks = content::chunks(conn, row.content, row.size)?;
    let size = row.size + more.size();
    let mut tail = Vec::new();
    if row.size % CHUNK as i64 != 0
        && let Some(last) = chunks.pop()
    {
        content::with_bytes(conn, last.id, |bytes| tail.extend_from_slice(bytes))?;
    }
    let mut append = |piece: &[u8]| -> Result<()> {
        tail.extend_from_slice(piece);
        while tail.len() >= CHUNK {
            chunks.push(content::put_bytes(conn, &tail[..CHUNK])?);
            tail.drain(..CHUNK);
        }
        Ok(())
    };
    match &more {
        Prepared::Empty => {}
        Prepared::Plain { bytes, .. } => append(bytes)?,
        Prepared::Listed { chunks, .. } => {
            chunks.iter().try_for_each(|chunk| content::with_bytes(conn, chunk.id, &mut append)?)?;
        }
        Prepared::Known { id, size } => {
            content::layout(conn, *id, *size)?
                .ids
                .into_iter()
                .try_for_each(|id| content::with_bytes(conn, id, &mut append)?)?;
        }
    }
    if chunks.is_empty() {
        return Ok(Prepared::plain(tail));
    }
    if !tail.is_empty() {
        chunks.push(content::put_bytes(conn, &tail)?);
    }
    Ok(Prepared::Listed { chunks, size, _pins: None })
}
