//! The steps that remove, rename and copy.

use rusqlite::params;
use stead_core::StoreError;
use stead_core::store::{
    ChangeKind, DisplacedContent, IfMissing, NodePath, Parents, Precondition, ProtectedNames, RenameEnds,
    Replace, Side, StepOutcome, Subtree,
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
        if_missing: IfMissing,
        protected: Option<&ProtectedNames>,
        displaced: DisplacedContent,
    ) -> Result<StepOutcome> {
        let slot = match self.slot(at, Parents::Required, Side::From) {
            Ok(slot) => Some(slot),
            Err(DatabaseError::Store(StoreError::NotFound)) => None,
            Err(error) => return Err(error),
        };
        let Some((slot, row)) = slot.and_then(|slot| slot.row.map(|row| (slot, row))) else {
            return Ok(if_missing.outcome()?);
        };
        self.refuse_root(&row)?;
        subtree.check(row.kind.to_kind())?;
        self.check_expected(expect, Some(&row))?;
        if row.is_directory() && self.has_children(row.node)? {
            if subtree == Subtree::EmptyDirectory {
                return Err(StoreError::NotEmpty.into());
            }
            self.check_protected(row.node, protected)?;
            self.delete_below(row.node, displaced)?;
        }
        self.delete(&row, &slot.name, displaced)?;
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
    ) -> Result<StepOutcome> {
        let from = self.slot(from, Parents::Required, Side::From)?;
        let row = from.row.ok_or(StoreError::NotFound)?;
        self.refuse_root(&row)?;
        self.check_expected(expect, Some(&row))?;
        let to = self.slot(to, parents, Side::To)?;
        if let Some(other) = &to.row {
            self.refuse_root(other)?;
        }
        if to.row.is_some_and(|other| other.node == row.node) {
            return Ok(outcome_of(&row, false));
        }
        let ends = RenameEnds {
            from: row.kind.to_kind(),
            to: to.row.map(|other| other.kind.to_kind()),
            to_is_inside: self.is_inside(to.parent, &row)?,
            from_is_inside: match &to.row {
                Some(other) => self.is_inside(from.parent, other)?,
                None => false,
            },
        };
        ends.check(replace, || match &to.row {
            Some(other) => Ok(!self.has_children(other.node)?),
            None => Ok::<_, DatabaseError>(true),
        })?;
        if let (Replace::Exchange, Some(other)) = (replace, &to.row) {
            for protected in protected.iter().flatten() {
                self.check_protected_in(&row, protected)?;
                self.check_protected_in(other, protected)?;
            }
            return self.exchange(&from, &row, &to, other);
        }
        for protected in protected.iter().flatten() {
            self.check_protected_in(&row, protected)?;
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
        protected: Option<&ProtectedNames>,
        displaced: DisplacedContent,
    ) -> Result<StepOutcome> {
        let from = self.slot(from, Parents::Required, Side::From)?;
        let row = from.row.ok_or(StoreError::NotFound)?;
        let to = self.slot(to, parents, Side::To)?;
        if to.row.is_some_and(|other| other.node == row.node) {
            return Err(replace.copy_to_itself_error().into());
        }
        replace.check_copy(row.kind.to_kind(), to.row.map(|other| other.kind.to_kind()))?;
        match &to.row {
            Some(other) if other.kind == row.kind => {
                let new = EntryRow { content: row.content, size: row.size, modified: row.modified, ..*other };
                return Ok(outcome_of(
                    &self.update(other, new, ChangeKind::Written, &to.name, displaced)?,
                    false,
                ));
            }
            Some(other) => self.delete(other, &to.name, displaced)?,
            None => {}
        }
        if self.is_inside(to.parent, &row)? {
            return Err(StoreError::IntoItself.into());
        }
        if row.is_directory() {
            self.check_protected(row.node, protected)?;
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
        let (row_amount, other_amount) = (self.amount_of(row)?, self.amount_of(other)?);
        self.subtract_usage(from.parent, row_amount)?;
        self.subtract_usage(to.parent, other_amount)?;
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
        self.add_usage_from(Some(from.parent), to.parent, row_amount)?;
        self.add_usage_from(Some(to.parent), from.parent, other_amount)?;
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

    /// Whether a node is a directory, and `parent` is that directory or lies in it.
    fn is_inside(&self, parent: i64, row: &EntryRow) -> Result<bool> {
        Ok(row.is_directory() && self.tree().is_at_or_below(parent, row.node)?)
    }

    fn check_protected_in(&self, row: &EntryRow, protected: &ProtectedNames) -> Result<()> {
        if row.is_directory() { self.check_protected(row.node, Some(protected)) } else { Ok(()) }
    }
}
