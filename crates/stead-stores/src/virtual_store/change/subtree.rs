//! What steps do to whole directories: a few statements, whatever their size. In forks it is a few statements per
//! entry.

use std::collections::HashMap;
use std::ops::ControlFlow;

use rusqlite::params;
use stead_core::store::{ChangeKind, DisplacedContent, NodeId, ProtectedNames, StorePath};

use crate::database::error::Result;
use crate::database::manifest::{FileEffect, ManagedRoots};
use crate::virtual_store::change::{VirtualChange, quota};
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
use crate::virtual_store::feed;

/// Selects from the entries below node `?2`, a directory before its entries. `CROSS JOIN` fixes the order: from the top
/// down.
macro_rules! below {
    ($($select:literal),*) => {
        concat!(
            "WITH RECURSIVE below(node, parent, name, kind) AS (
               SELECT node, parent, name, kind FROM entry WHERE volume = ?1 AND parent = ?2
               UNION ALL
               SELECT e.node, e.parent, e.name, e.kind
               FROM below b CROSS JOIN entry e ON e.volume = ?1 AND e.parent = b.node
               WHERE b.kind = 2
             ) ",
            $($select),*
        )
    };
}

/// The temporary table that holds a subtree while a step works on it.
pub(crate) const SUBTREE_TABLE: &str =
    "CREATE TEMP TABLE subtree(seq INTEGER PRIMARY KEY, node INTEGER NOT NULL UNIQUE, parent INTEGER NOT NULL,
                               name BLOB NOT NULL) STRICT;";

impl VirtualChange<'_, '_> {
    pub(crate) fn has_children(&self, directory: i64) -> Result<bool> {
        let mut found = false;
        self.tree().children(directory, b"", 1, &mut |_, _| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found || self.has_live_children(directory)?)
    }

    /// Fails if an entry below `top` is protected.
    pub(crate) fn check_protected(&self, top: i64, protected: Option<&ProtectedNames>) -> Result<()> {
        let Some(protected) = protected.filter(|protected| !protected.is_empty()) else {
            return Ok(());
        };
        let mut directories: HashMap<i64, Vec<u8>> = HashMap::new();
        let mut check = |node: i64, parent: i64, name: &[u8], kind: EntryKind| -> Result<()> {
            let mut path = directories.get(&parent).cloned().unwrap_or_default();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            protected.check(&path, kind.to_kind())?;
            if kind == EntryKind::Directory {
                directories.insert(node, path);
            }
            Ok(())
        };
        if self.is_fork() {
            let below = self.tree().below(top)?;
            below.iter().try_for_each(|(row, name)| check(row.node, row.parent, name, row.kind))?;
            return self.check_live_protected(top, protected);
        }
        let mut statement =
            self.conn().prepare_cached(below!("SELECT node, parent, name, kind FROM below"))?;
        let mut rows = statement.query([self.volume.id, top])?;
        while let Some(row) = rows.next()? {
            let name = row.get_ref(2)?.as_blob().unwrap_or_default();
            check(row.get(0)?, row.get(1)?, name, EntryKind::from_code(row.get(3)?)?)?;
        }
        Ok(())
    }

    /// Removes everything below a directory.
    pub(crate) fn delete_below(&mut self, top: i64, displaced: DisplacedContent) -> Result<()> {
        if self.is_fork() {
            return self.delete_each_below(top, displaced);
        }
        let (conn, vol, revision) = (self.conn(), self.volume.id, self.revision()?);
        let count = self.collect_subtree(top)?;
        self.check_cancelled()?;
        self.subtract_collected(top)?;
        let history_limit = self.history_limit(displaced)?;
        conn.prepare_cached(
            "INSERT INTO entry_history
             SELECT volume, e.parent, e.name, e.node, kind, mode, size, created, modified, changed, content, since, ?2
             FROM temp.subtree s CROSS JOIN entry e ON e.volume = ?1 AND e.parent = s.parent AND e.name = s.name
             WHERE since <= ?3",
        )?
        .execute([vol, revision, history_limit])?;
        self.check_cancelled()?;
        // From the leaves upwards, as if removed one by one.
        conn.prepare_cached(
            "INSERT INTO node_change(volume, revision, seq, kind, node, parent, name)
             SELECT ?1, ?2, ?3 + ?4 - seq, ?5, node, parent, name FROM temp.subtree ORDER BY seq DESC",
        )?
        .execute([vol, revision, self.log_rows, count, feed::kind_code(ChangeKind::Removed)])?;
        self.log_rows += count;
        self.check_cancelled()?;
        conn.prepare_cached(
            "DELETE FROM entry WHERE volume = ?1 AND node IN (SELECT node FROM temp.subtree)",
        )?
        .execute([vol])?;
        self.clear_subtree()
    }

    /// Subtracts the usage of the collected subtree, and removes the counters in it.
    fn subtract_collected(&mut self, top: i64) -> Result<()> {
        let roots = self.counted_roots();
        if roots.is_empty() {
            return Ok(());
        }
        let amount = quota::count_usage(&self.tree(), top)?;
        self.subtract_usage(top, amount)?;
        for root in roots {
            let is_inside =
                self.conn().prepare_cached("SELECT 1 FROM temp.subtree WHERE node = ?1")?.exists([root])?;
            if is_inside {
                self.forget_root(root)?;
            }
        }
        Ok(())
    }

    /// Copies everything below one directory into another, which has to be new.
    pub(crate) fn copy_below(&mut self, top: i64, copy: i64) -> Result<()> {
        if self.is_fork() {
            return self.copy_each_below(top, copy);
        }
        let (conn, vol, revision) = (self.conn(), self.volume.id, self.revision()?);
        let count = self.collect_subtree(top)?;
        self.check_cancelled()?;
        // Entry n gets the n-th of these nodes, counted from 1.
        let before_first = self.transaction.fresh_nodes(count)?.start - 1;
        conn.prepare_cached(
            "INSERT INTO entry(volume, parent, name, node, kind, mode, size, created, modified, changed, content, since)
             SELECT volume, coalesce(?3 + p.seq, ?4), e.name, ?3 + s.seq, kind, mode, size, ?5, modified, ?5, content, ?2
             FROM temp.subtree s CROSS JOIN entry e ON e.volume = ?1 AND e.parent = s.parent AND e.name = s.name
             LEFT JOIN temp.subtree p ON p.node = s.parent",
        )?
        .execute(params![vol, revision, before_first, copy, self.now()])?;
        self.check_cancelled()?;
        conn.prepare_cached(
            "INSERT INTO node_change(volume, revision, seq, kind, node, parent, name)
             SELECT ?1, ?2, ?3 + s.seq - 1, ?4, ?5 + s.seq, coalesce(?5 + p.seq, ?6), s.name
             FROM temp.subtree s LEFT JOIN temp.subtree p ON p.node = s.parent ORDER BY s.seq",
        )?
        .execute([
            vol,
            revision,
            self.log_rows,
            feed::kind_code(ChangeKind::Created),
            before_first,
            copy,
        ])?;
        self.log_rows += count;
        self.clear_subtree()
    }

    /// Adds the files of a new directory, which a step has copied, to the effects of the change.
    pub(super) fn add_copied_files(
        &self,
        directory: NodeId,
        path: &StorePath,
        roots: &ManagedRoots,
        effects: &mut Vec<FileEffect>,
    ) -> Result<()> {
        if !roots.may_track_below(path) {
            return Ok(());
        }
        let tree = self.tree();
        let top = tree.node_number(directory);
        let mut directories = HashMap::from([(top, path.clone())]);
        // A directory comes before its entries.
        for (row, name) in tree.below(top)? {
            let Some(path) = directories.get(&row.parent).map(|parent| parent.child(&name)) else { continue };
            match row.kind {
                EntryKind::Directory => drop(directories.insert(row.node, path)),
                EntryKind::File => {
                    let (path, size) = (path.as_bytes().to_vec(), row.size.cast_unsigned());
                    effects.push(FileEffect::Put { path, size, is_new: true });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes everything below a directory of a fork, from the leaves upwards.
    fn delete_each_below(&mut self, top: i64, displaced: DisplacedContent) -> Result<()> {
        self.require_whole(top)?;
        for (row, name) in self.tree().below(top)?.into_iter().rev() {
            self.check_cancelled()?;
            self.move_to_history(&row, &name, displaced)?;
            self.subtract_usage(row.parent, quota::UsageAmount::of(&row))?;
            self.forget_root(row.node)?;
            self.remove_or_hide(row.parent, &name)?;
            self.log_change(ChangeKind::Removed, row.node, row.parent, &name)?;
        }
        Ok(())
    }

    /// Copies everything below one directory of a fork into another, which has to be new.
    fn copy_each_below(&mut self, top: i64, copy: i64) -> Result<()> {
        self.require_whole(top)?;
        let below = self.tree().below(top)?;
        let (now, since) = (self.now(), self.revision()?);
        let nodes = self.transaction.fresh_nodes(below.len() as i64)?;
        let mut copies = HashMap::from([(top, copy)]);
        for ((row, name), node) in below.iter().zip(nodes) {
            self.check_cancelled()?;
            copies.insert(row.node, node);
            let parent = copies.get(&row.parent).copied().unwrap_or(copy);
            let new = EntryRow { node, parent, created: now, changed: now, since, ..*row };
            self.insert(&new, name)?;
            self.log_change(ChangeKind::Created, node, parent, name)?;
        }
        Ok(())
    }

    /// Collects the entries below a directory in `temp.subtree`, numbered from 1. Returns how many there are.
    fn collect_subtree(&mut self, top: i64) -> Result<i64> {
        self.clear_subtree()?;
        let count = self
            .conn()
            .prepare_cached(concat!(
                "INSERT INTO temp.subtree(node, parent, name) ",
                below!("SELECT node, parent, name FROM below")
            ))?
            .execute([self.volume.id, top])?;
        Ok(count as i64)
    }

    /// Empties `temp.subtree`.
    fn clear_subtree(&mut self) -> Result<()> {
        self.conn().prepare_cached("DELETE FROM temp.subtree")?.execute([])?;
        Ok(())
    }
}
