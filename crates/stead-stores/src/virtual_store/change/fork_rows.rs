//! What a change does in forks and their bases. A fork copies a row up before it changes it, and hides the base's rows
//! that it removes. A base keeps the states that its forks need.

use rusqlite::params;
use stead_core::store::DisplacedContent;

use crate::database::error::Result;
use crate::virtual_store::change::VirtualChange;
use crate::virtual_store::entry_row::{EntryRow, WHITEOUT};
use crate::virtual_store::fork;
use crate::virtual_store::layers::LayerLookup;

impl VirtualChange<'_, '_> {
    pub(super) fn is_fork(&self) -> bool {
        self.volume.forked_at().is_some()
    }

    /// Copies a row up from the base, if the fork doesn't have it yet, so that it can be changed. Its state stays the
    /// same.
    pub(super) fn copy_up(&self, row: &EntryRow, name: &[u8]) -> Result<()> {
        if self.is_fork() && matches!(self.tree().lookup_own(row.parent, name)?, LayerLookup::NotHere) {
            self.insert(row, name)?;
        }
        Ok(())
    }

    /// Removes the whiteout at a free name, if there is one, and keeps it in history.
    pub(super) fn remove_whiteout(&mut self, parent: i64, name: &[u8]) -> Result<()> {
        if !self.is_fork() {
            return Ok(());
        }
        let (vol, revision) = (self.volume.id, self.revision()?);
        self.conn()
            .prepare_cached(
                "INSERT INTO entry_history
                 SELECT volume, parent, name, node, kind, mode, size, created, modified, changed, content, since, ?4
                 FROM entry WHERE volume = ?1 AND parent = ?2 AND name = ?3 AND kind = 0 AND since < ?4",
            )?
            .execute(params![vol, parent, name, revision])?;
        self.conn()
            .prepare_cached("DELETE FROM entry WHERE volume = ?1 AND parent = ?2 AND name = ?3 AND kind = 0")?
            .execute(params![vol, parent, name])?;
        Ok(())
    }

    /// Removes the row at a name. If the base has one there, a whiteout hides it.
    pub(super) fn remove_or_hide(&mut self, parent: i64, name: &[u8]) -> Result<()> {
        self.conn()
            .prepare_cached("DELETE FROM entry WHERE volume = ?1 AND parent = ?2 AND name = ?3")?
            .execute(params![self.volume.id, parent, name])?;
        if let Some(base) = self.tree().base()
            && let Some(hidden) = base.child(parent, name)?
        {
            let since = self.revision()?;
            hidden.insert_whiteout(self.conn(), self.volume.id, name, since)?;
        }
        Ok(())
    }

    /// For a row that is removed and not kept: if the base has a row there, writes a whiteout into history. Without it,
    /// the base's row would show through in earlier revisions.
    pub(super) fn write_history_whiteout(&mut self, row: &EntryRow, name: &[u8]) -> Result<()> {
        let (Some(base), Some(forked_at)) = (self.tree().base(), self.volume.forked_at()) else {
            return Ok(());
        };
        if row.since <= forked_at {
            return Ok(());
        }
        if let Some(hidden) = base.child(row.parent, name)? {
            let until = self.revision()?;
            self.conn()
                .prepare_cached(
                    "INSERT INTO entry_history
                     SELECT volume, parent, name, -?4, ?5, 0, 0, created, modified, changed, NULL, since, ?6
                     FROM entry WHERE volume = ?1 AND parent = ?2 AND name = ?3",
                )?
                .execute(params![self.volume.id, row.parent, name, hidden.node, WHITEOUT, until])?;
        }
        Ok(())
    }

    /// Whether a node exists or existed in a fork of this volume, or in the volume that this one was forked from.
    pub(super) fn exists_in_relative(&mut self, node: i64) -> Result<bool> {
        const SQL: &str = "SELECT 1 FROM entry WHERE volume = ?1 AND node = ?2
             UNION ALL SELECT 1 FROM entry_history WHERE volume = ?1 AND node = ?2 LIMIT 1";
        let conn = self.conn();
        let exists_in =
            |volume: i64| -> Result<bool> { Ok(conn.prepare_cached(SQL)?.exists([volume, node])?) };
        // A change that takes nodes over takes them from one volume, so the last one is tried first.
        if let Some(volume) = self.relative
            && exists_in(volume)?
        {
            return Ok(true);
        }
        let mut statement = conn.prepare_cached(
            "SELECT target FROM fork_sync WHERE volume = ?1 UNION SELECT volume FROM fork_sync WHERE target = ?1",
        )?;
        let relatives = statement.query_map([self.volume.id], |row| row.get(0))?;
        for volume in relatives.collect::<rusqlite::Result<Vec<i64>>>()? {
            if exists_in(volume)? {
                self.relative = Some(volume);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The revision that the newest fork is based on, or -1. States up to it go into history, even if the change
    /// doesn't keep what it displaces.
    pub(super) fn newest_fork_revision(&mut self) -> Result<i64> {
        if let Some(known) = self.newest_fork_revision {
            return Ok(known);
        }
        let newest = fork::newest_fork_revision(self.conn(), self.volume.id)?.unwrap_or(-1);
        self.newest_fork_revision = Some(newest);
        Ok(newest)
    }

    /// States whose `since` is at most this revision go into history when they are displaced.
    pub(super) fn history_limit(&mut self, displaced: DisplacedContent) -> Result<i64> {
        match displaced {
            DisplacedContent::Keep => Ok(self.revision()? - 1),
            DisplacedContent::Discard => self.newest_fork_revision(),
        }
    }

    /// Saves a directory's times before they change, if a fork needs them and they are not saved since.
    pub(super) fn keep_directory_times(&mut self, directory: i64) -> Result<()> {
        let (forked_at, until) = (self.newest_fork_revision()?, self.revision()?);
        if forked_at < 0 {
            return Ok(());
        }
        self.conn()
            .prepare_cached(
                "INSERT INTO directory_time(volume, node, until, modified, changed)
                 SELECT volume, node, ?4, modified, changed FROM entry
                 WHERE volume = ?1 AND node = ?2 AND since <= ?3
                   AND NOT EXISTS (SELECT 1 FROM directory_time t WHERE t.volume = ?1 AND t.node = ?2 AND t.until > ?3)",
            )?
            .execute([self.volume.id, directory, forked_at, until])?;
        Ok(())
    }
}
