//! What a change does in a fork of a host directory: it may use only what the fork has taken over from the directory, and a
//! file that the fork has not changed still has the host's version tag.

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::StoreError;
use stead_core::store::{Precondition, ProtectedNames, VersionTag};

use crate::database::error::{DatabaseError, Result};
use crate::overlay::NotTakenOver;
use crate::virtual_store::change::VirtualChange;
use crate::virtual_store::entry_row::EntryRow;
use crate::virtual_store::tree::VolumeTree;

impl VolumeTree<'_> {
    /// Fails for a name about which the host directory decides, because the fork has not taken it over.
    pub(crate) fn check_taken_over(&self, parent: i64, name: &[u8]) -> Result<()> {
        let Some(overlay) = self.overlay else { return Ok(()) };
        let is_taken = self
            .conn
            .prepare_cached(
                "SELECT 1 FROM taken_name WHERE volume = ?1 AND parent = ?2 AND name IN (?3, x'') LIMIT 1",
            )?
            .exists(params![overlay, parent, name])?;
        if is_taken || !has_live_names(self.conn, overlay, parent)? {
            return Ok(());
        }
        let missing = NotTakenOver::Name { directory: parent, name: name.to_vec() };
        Err(DatabaseError::NotTakenOver(missing))
    }
}

/// Whether the host directory decides about some names of a directory: the layer has the directory, and has not taken over
/// every name of it.
fn has_live_names(conn: &Connection, overlay: i64, directory: i64) -> Result<bool> {
    let has_names = conn
        .prepare_cached(
            "SELECT 1 FROM entry WHERE volume = ?1 AND node = ?2 AND kind = 2
               AND NOT EXISTS (SELECT 1 FROM taken_name WHERE volume = ?1 AND parent = ?2 AND name = x'')",
        )?
        .exists([overlay, directory])?;
    Ok(has_names)
}

impl VirtualChange<'_, '_> {
    /// Whether the host directory has entries in a directory that the fork has not taken over.
    pub(super) fn has_live_children(&self, directory: i64) -> Result<bool> {
        let Some(overlay) = self.volume.overlay else { return Ok(false) };
        if !has_live_names(self.conn(), overlay, directory)? {
            return Ok(false);
        }
        let known = self.live_facts.has_children.get(&directory).copied();
        known.ok_or(DatabaseError::NotTakenOver(NotTakenOver::Children(directory)))
    }

    /// Fails if an entry of the host directory below `top` that the fork has not taken over is protected.
    pub(super) fn check_live_protected(&self, top: i64, protected: &ProtectedNames) -> Result<()> {
        if !self.has_live_names_below(top)? {
            return Ok(());
        }
        let names = self.live_facts.names_below.get(&top);
        let names = names.ok_or(DatabaseError::NotTakenOver(NotTakenOver::NamesBelow(top)))?;
        names.iter().try_for_each(|(path, kind)| Ok(protected.check(path.as_bytes(), *kind)?))
    }

    /// Fails unless the fork has taken over everything below a directory.
    pub(super) fn require_whole(&self, top: i64) -> Result<()> {
        match self.has_live_names_below(top)? {
            true => Err(DatabaseError::NotTakenOver(NotTakenOver::Subtree(top))),
            false => Ok(()),
        }
    }

    fn has_live_names_below(&self, top: i64) -> Result<bool> {
        let Some(overlay) = self.volume.overlay else { return Ok(false) };
        if has_live_names(self.conn(), overlay, top)? {
            return Ok(true);
        }
        for (row, _) in self.tree().below(top)? {
            if row.is_directory() && has_live_names(self.conn(), overlay, row.node)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks a precondition on the row at a path. A file that was taken over and not changed since has two tags: the host's,
    /// which callers know, and that of its row, which the history of the fork has.
    pub(super) fn check_expected(&self, expect: Precondition, row: Option<&EntryRow>) -> Result<()> {
        match expect.check(row.map(EntryRow::tag)) {
            Err(StoreError::Conflict) => {}
            checked => return Ok(checked?),
        }
        let host_tag = match row {
            Some(row) => self.host_tag(row)?,
            None => None,
        };
        Ok(host_tag.map_or(Err(StoreError::Conflict), |tag| expect.check(Some(tag)))?)
    }

    /// The tag under which callers know the state of a row.
    pub(super) fn shown_tag(&self, row: &EntryRow) -> Result<VersionTag> {
        Ok(self.host_tag(row)?.unwrap_or_else(|| row.tag()))
    }

    /// The host's tag of a row that was taken over and not changed since.
    fn host_tag(&self, row: &EntryRow) -> Result<Option<VersionTag>> {
        let Some(overlay) = self.volume.overlay else { return Ok(None) };
        let tag: Option<[u8; 16]> = self
            .conn()
            .prepare_cached("SELECT tag FROM fingerprint WHERE volume = ?1 AND node = ?2 AND since = ?3")?
            .query_row([overlay, row.node, row.since], |row| row.get(0))
            .optional()?;
        Ok(tag.map(|tag| VersionTag(u128::from_le_bytes(tag))))
    }
}
