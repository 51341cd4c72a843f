//! The steps that remove, rename and copy.

use rusqlite::params;
use stead_core::StoreError;
use stead_core::store::{
    ChangeKind, DisplacedContent, IfMissing, NodePath, Parents, Precondition, ProtectedNames, Replace, Side,
    StepOutcome, Subtree,
};

use crate::database::error::{DatabaseError, Result};
use crate::virtual_store::change::quota::UsageAmount;
use crate::virtual_store::change::{CatalogSlot, VirtualChange, outcome_of};
use crate::virtual_store::entry_row::EntryRow;

impl VirtualChange<'_, '_> {
    pub(super) fn remove(
        &mut self,
        at: &NodePath,
        subtree: Subtree,
        expect: Precondition,
        missing: IfMissing,
        spare: Option<&ProtectedNames>,
        keep: DisplacedContent,
    ) -> Result<StepOutcome> {
        let spot = match self.slot(at, Parents::Required, Side::From) {
            Ok(spot) => Some(spot),
            Err(DatabaseError::Store(StoreError::NotFound)) => None,
            Err(fault) => return Err(fault),
        };
        let Some((spot, row)) = spot.and_then(|spot| spot.row.map(|row| (spot, row))) else {
            return match missing {
                IfMissing::Ignore => Ok(StepOutcome::default()),
                IfMissing::Fail => Err(StoreError::NotFound.into()),
            };
        };
        self.refuse_root(&row)?;
        match (subtree, row.is_directory()) {
            (Subtree::File, true) => return Err(StoreError::IsADirectory.into()),
            (Subtree::EmptyDirectory | Subtree::Directory, false) => {
                return Err(StoreError::NotADirectory.into());
            }
            (Subtree::File | Subtree::Any, false)
            | (Subtree::EmptyDirectory | Subtree::Directory | Subtree::Any, true) => {}
        }
        expect.check(Some(row.tag()))?;
        if row.is_directory() && self.has_children(row.node)? {
            if subtree == Subtree::EmptyDirectory {
                return Err(StoreError::NotEmpty.into());
            }
            self.check_protected(row.node, spare)?;
            self.delete_below(row.node, keep)?;
        }
        self.delete(&row, &spot.name, keep)?;
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
    ) -> Result<StepOutcome> {
        let from = self.slot(from, Parents::Required, Side::From)?;
        let row = from.row.ok_or(StoreError::NotFound)?;
        self.refuse_root(&row)?;
        expect.check(Some(row.tag()))?;
        let to = self.slot(to, parents, Side::To)?;
        if let Some(other) = &to.row {
            self.refuse_root(other)?;
        }
        if to.row.is_some_and(|other| other.node == row.node) {
            return Ok(outcome_of(&row, false));
        }
        self.refuse_into_itself(&row, to.parent)?;
        match (replace, &to.row) {
            (Replace::Refuse, Some(_)) => return Err(StoreError::AlreadyExists.into()),
            (Replace::Exchange, None) => return Err(StoreError::NotFound.into()),
            (Replace::Exchange, Some(other)) => {
                self.refuse_into_itself(other, from.parent)?;
                for spare in spare.iter().flatten() {
                    self.check_protected_in(&row, spare)?;
                    self.check_protected_in(other, spare)?;
                }
                return self.exchange(&from, &row, &to, other);
            }
            (Replace::Overwrite, Some(other)) => self.refuse_replace(&row, other)?,
            (Replace::Refuse | Replace::Overwrite, None) => {}
        }
        for spare in spare.iter().flatten() {
            self.check_protected_in(&row, spare)?;
        }
        if let Some(other) = &to.row {
            self.delete(other, &to.name, DisplacedContent::Keep)?;
        }
        let moved = self.relocate(&row, &from, &to)?;
        Ok(outcome_of(&moved, false))
    }

    pub(super) fn copy(
        &mut self,
        from: &NodePath,
        to: &NodePath,
        replace: Replace,
        parents: Parents,
        spare: Option<&ProtectedNames>,
        keep: DisplacedContent,
    ) -> Result<StepOutcome> {
        if replace == Replace::Exchange {
            return Err(StoreError::Invalid("a copy can't exchange two paths; rename can".into()).into());
        }
        let from = self.slot(from, Parents::Required, Side::From)?;
        let row = from.row.ok_or(StoreError::NotFound)?;
        let to = self.slot(to, parents, Side::To)?;
        match (replace, &to.row) {
            (Replace::Refuse, Some(_)) => return Err(StoreError::AlreadyExists.into()),
            (_, Some(other)) if other.node == row.node => {
                return Err(StoreError::Invalid("it can't be copied to its own path".into()).into());
            }
            (_, Some(_)) if row.is_directory() => return Err(StoreError::AlreadyExists.into()),
            (_, Some(other)) if other.is_directory() => return Err(StoreError::IsADirectory.into()),
            (_, Some(other)) if other.kind == row.kind => {
                let new = EntryRow { content: row.content, size: row.size, modified: row.modified, ..*other };
                return Ok(outcome_of(&self.update(other, new, ChangeKind::Written, &to.name, keep)?, false));
            }
            (_, Some(other)) => self.delete(other, &to.name, keep)?,
            (_, None) => {}
        }
        self.refuse_into_itself(&row, to.parent)?;
        if row.is_directory() {
            self.check_protected(row.node, spare)?;
        }
        let new = self.new_row(row.kind, row.mode)?;
        let new = EntryRow { size: row.size, content: row.content, modified: row.modified, ..new };
        let mut amount = UsageAmount::default();
        if row.is_directory() {
            amount = self.amount_of(&row)?;
            self.copy_below(row.node, new.node)?;
        }
        let new = self.create(to.parent, &to.name, new)?;
        self.add_usage(to.parent, amount)?;
        Ok(outcome_of(&new, true))
    }

    /// Moves a node to another name.
    fn relocate(&mut self, row: &EntryRow, from: &CatalogSlot<'_>, to: &CatalogSlot<'_>) -> Result<EntryRow> {
        self.move_to_history(row, &from.name, DisplacedContent::Keep)?;
        let amount = self.amount_of(row)?;
        self.subtract_usage(from.parent, amount)?;
        if row.is_directory() {
            self.invalidate_directories()?;
        }
        self.copy_up(row, &from.name)?;
        self.remove_whiteout(to.parent, &to.name)?;
        let moved = self.put_at(row, to)?;
        self.remove_or_hide(from.parent, &from.name)?;
        self.add_usage_from(Some(from.parent), to.parent, amount)?;
        self.log_change(ChangeKind::MovedFrom, row.node, from.parent, &from.name)?;
        self.log_change(ChangeKind::MovedTo, row.node, to.parent, &to.name)?;
        self.touch_directory(from.parent)?;
        self.touch_directory(to.parent)?;
        Ok(moved)
    }

    /// Exchanges two nodes.
    fn exchange(
        &mut self,
        from: &CatalogSlot<'_>,
        row: &EntryRow,
        to: &CatalogSlot<'_>,
        other: &EntryRow,
    ) -> Result<StepOutcome> {
        self.move_to_history(row, &from.name, DisplacedContent::Keep)?;
        self.move_to_history(other, &to.name, DisplacedContent::Keep)?;
        let (ours, theirs) = (self.amount_of(row)?, self.amount_of(other)?);
        self.subtract_usage(from.parent, ours)?;
        self.subtract_usage(to.parent, theirs)?;
        if row.is_directory() || other.is_directory() {
            self.invalidate_directories()?;
        }
        self.copy_up(row, &from.name)?;
        self.copy_up(other, &to.name)?;
        // One has to be out of the way for a moment: no two entries can have the same name.
        self.conn()
            .prepare_cached("UPDATE entry SET parent = -1 WHERE volume = ?1 AND node = ?2")?
            .execute([self.volume.id, row.node])?;
        self.put_at(other, from)?;
        let moved = self.put_at(row, to)?;
        self.add_usage_from(Some(from.parent), to.parent, ours)?;
        self.add_usage_from(Some(to.parent), from.parent, theirs)?;
        for (node, old, new) in [(row.node, from, to), (other.node, to, from)] {
            self.log_change(ChangeKind::MovedFrom, node, old.parent, &old.name)?;
            self.log_change(ChangeKind::MovedTo, node, new.parent, &new.name)?;
        }
        self.touch_directory(from.parent)?;
        self.touch_directory(to.parent)?;
        Ok(outcome_of(&moved, false))
    }

    /// Gives a node a name that is free.
    fn put_at(&mut self, row: &EntryRow, to: &CatalogSlot<'_>) -> Result<EntryRow> {
        let moved = EntryRow { parent: to.parent, changed: self.now(), since: self.revision()?, ..*row };
        self.conn()
            .prepare_cached(
                "UPDATE entry SET parent = ?3, name = ?4, changed = ?5, since = ?6 WHERE volume = ?1 AND node = ?2",
            )?
            .execute(params![self.volume.id, moved.node, moved.parent, to.name, moved.changed, moved.since])?;
        Ok(moved)
    }

    fn refuse_root(&self, row: &EntryRow) -> Result<()> {
        if row.node == self.volume.root {
            return Err(
                StoreError::Invalid("the root directory can't be moved, replaced or removed".into()).into()
            );
        }
        Ok(())
    }

    fn refuse_into_itself(&self, row: &EntryRow, parent: i64) -> Result<()> {
        if row.is_directory() && self.tree().is_at_or_below(parent, row.node)? {
            return Err(StoreError::IntoItself.into());
        }
        Ok(())
    }

    /// Fails if one node can't replace the other.
    fn refuse_replace(&self, row: &EntryRow, other: &EntryRow) -> Result<()> {
        match (row.is_directory(), other.is_directory()) {
            (false, true) => Err(StoreError::IsADirectory.into()),
            (true, false) => Err(StoreError::NotADirectory.into()),
            (true, true) if self.has_children(other.node)? => Err(StoreError::NotEmpty.into()),
            (true, true) | (false, false) => Ok(()),
        }
    }

    fn check_protected_in(&self, row: &EntryRow, spare: &ProtectedNames) -> Result<()> {
        if row.is_directory() { self.check_protected(row.node, Some(spare)) } else { Ok(()) }
    }
}
