//! Usage below quota roots: counted while a change is applied, checked at its end.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::StoreError;
use stead_core::store::{QuotaRoot, StorePath, Usage};

use crate::database::error::{DatabaseError, Result, corrupt};
use crate::virtual_store::change::VirtualChange;
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
use crate::virtual_store::tree::{DirLookup, VolumeTree};

/// The usage below node `?2` of volume `?1`: bytes, files, and the largest file.
const COUNT_USAGE_SQL: &str = "WITH RECURSIVE below(node, kind, size) AS (
       SELECT node, kind, size FROM entry WHERE volume = ?1 AND parent = ?2
       UNION ALL
       SELECT e.node, e.kind, e.size FROM below b CROSS JOIN entry e ON e.volume = ?1 AND e.parent = b.node
       WHERE b.kind = 2
     )
     SELECT ifnull(sum(iif(kind = 1, size, 0)), 0), count(*) FILTER (WHERE kind <> 2),
            ifnull(max(iif(kind = 1, size, 0)), 0)
     FROM below";

/// The usage of an entry, or of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct UsageAmount {
    pub(crate) bytes: i64,
    pub(crate) files: i64,
    /// The size of the largest file.
    pub(crate) largest: i64,
}

impl UsageAmount {
    /// The usage of one entry.
    pub(crate) fn of(row: &EntryRow) -> Self {
        match row.kind {
            EntryKind::File => UsageAmount { bytes: row.size, files: 1, largest: row.size },
            EntryKind::Symlink => UsageAmount { files: 1, ..UsageAmount::default() },
            EntryKind::Directory => UsageAmount::default(),
        }
    }

    /// The sum of both.
    fn plus(self, other: UsageAmount) -> Self {
        UsageAmount {
            bytes: self.bytes + other.bytes,
            files: self.files + other.files,
            largest: self.largest.max(other.largest),
        }
    }

    pub(crate) fn usage(self) -> Usage {
        let positive = |count: i64| u64::try_from(count).unwrap_or(0);
        Usage { bytes: positive(self.bytes), files: positive(self.files) }
    }
}

/// What is counted during a change.
#[derive(Debug, Default)]
pub(crate) struct UsageTally {
    /// For each quota root of the volume, the usage before the change and now.
    roots: HashMap<i64, (UsageAmount, UsageAmount)>,
    /// For a directory, the quota roots at or above it.
    roots_above: HashMap<i64, Vec<i64>>,
    /// Files that were created or grew; `None` if no quota limits the size of a file.
    grown_files: Option<Vec<GrownFile>>,
    /// Whether the current step restores stored content, whose size isn't checked.
    pub(crate) is_restoring_content: bool,
}

/// A file that was created, grew or was moved, in a directory. For a subtree, its largest file.
#[derive(Debug, Clone, Copy)]
struct GrownFile {
    directory: i64,
    size: i64,
    /// The directory that it was moved from, if it was moved.
    moved_from: Option<i64>,
}

/// A directory cache that holds nothing.
struct NoDirCache;

impl DirLookup for NoDirCache {
    fn node_at(&self, _: &[u8]) -> Option<i64> {
        None
    }

    fn remember(&mut self, _: &[u8], _: i64) {}
}

/// The directory of a quota root, if there is one at its path.
pub(crate) fn root_node(tree: &VolumeTree<'_>, path: &StorePath) -> Result<Option<i64>> {
    match tree.follow(&mut NoDirCache, tree.root, path.as_bytes()) {
        Ok(reached) => Ok((reached.path_length == path.as_bytes().len()).then_some(reached.node)),
        Err(DatabaseError::Store(StoreError::NotADirectory | StoreError::Link(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The usage of a quota root by its counter, if it has one.
pub(crate) fn counted_usage(conn: &Connection, vol: i64, node: i64) -> Result<Option<Usage>> {
    let counted = conn
        .prepare_cached("SELECT bytes, files FROM usage WHERE volume = ?1 AND node = ?2")?
        .query_row([vol, node], |row| Ok(UsageAmount { bytes: row.get(0)?, files: row.get(1)?, largest: 0 }))
        .optional()?;
    Ok(counted.map(UsageAmount::usage))
}

/// Counts the usage below a directory.
pub(crate) fn count_usage(tree: &VolumeTree<'_>, node: i64) -> Result<UsageAmount> {
    if !tree.base_layers.is_empty() {
        let below = tree.below(node)?;
        return Ok(below.iter().fold(UsageAmount::default(), |sum, (row, _)| sum.plus(UsageAmount::of(row))));
    }
    let total = tree.conn.prepare_cached(COUNT_USAGE_SQL)?.query_row([tree.vol, node], |row| {
        Ok(UsageAmount { bytes: row.get(0)?, files: row.get(1)?, largest: row.get(2)? })
    })?;
    Ok(total)
}

impl VirtualChange<'_, '_> {
    /// Starts to count: loads the counters of the volume's quota roots, and adds those that this change names for the
    /// first time.
    pub(crate) fn begin_counting(&mut self, quotas: &[QuotaRoot]) -> Result<()> {
        let vol = self.volume.id;
        let mut statement =
            self.conn().prepare_cached("SELECT node, bytes, files FROM usage WHERE volume = ?1")?;
        let mut rows = statement.query([vol])?;
        while let Some(row) = rows.next()? {
            let usage = UsageAmount { bytes: row.get(1)?, files: row.get(2)?, largest: 0 };
            self.usage_tally.roots.insert(row.get(0)?, (usage, usage));
        }
        for quota in quotas {
            for root in quota.roots() {
                if let Some(node) = root_node(&self.tree(), root)? {
                    self.begin_root(node)?;
                }
            }
        }
        if quotas.iter().any(|quota| quota.limits.file_bytes.is_some()) {
            self.usage_tally.grown_files = Some(Vec::new());
        }
        Ok(())
    }

    fn begin_root(&mut self, node: i64) -> Result<()> {
        if self.usage_tally.roots.contains_key(&node) {
            return Ok(());
        }
        let usage = count_usage(&self.tree(), node)?;
        self.conn()
            .prepare_cached("INSERT INTO usage(volume, node, bytes, files) VALUES (?1, ?2, ?3, ?4)")?
            .execute([self.volume.id, node, usage.bytes, usage.files])?;
        self.usage_tally.roots.insert(node, (usage, usage));
        self.usage_tally.roots_above.clear();
        Ok(())
    }

    /// Adds to the usage of a directory.
    pub(crate) fn add_usage(&mut self, parent: i64, amount: UsageAmount) -> Result<()> {
        self.add_usage_from(None, parent, amount)
    }

    /// `add_usage` for what was in another directory before.
    pub(crate) fn add_usage_from(
        &mut self,
        moved_from: Option<i64>,
        parent: i64,
        amount: UsageAmount,
    ) -> Result<()> {
        let UsageTally { grown_files, is_restoring_content, .. } = &mut self.usage_tally;
        if let Some(grown_files) = grown_files
            && amount.largest > 0
            && !*is_restoring_content
        {
            grown_files.push(GrownFile { directory: parent, size: amount.largest, moved_from });
        }
        self.change_usage(parent, amount.bytes, amount.files)
    }

    /// Subtracts from the usage of a directory.
    pub(crate) fn subtract_usage(&mut self, parent: i64, amount: UsageAmount) -> Result<()> {
        self.change_usage(parent, -amount.bytes, -amount.files)
    }

    fn change_usage(&mut self, parent: i64, bytes: i64, files: i64) -> Result<()> {
        if self.usage_tally.roots.is_empty() || (bytes, files) == (0, 0) {
            return Ok(());
        }
        for root in self.roots_above(parent)? {
            if let Some((_, current)) = self.usage_tally.roots.get_mut(&root) {
                current.bytes += bytes;
                current.files += files;
            }
        }
        Ok(())
    }

    /// The usage of an entry with everything below it. Zero for a directory if nothing is counted.
    pub(crate) fn amount_of(&self, row: &EntryRow) -> Result<UsageAmount> {
        if !row.is_directory() {
            return Ok(UsageAmount::of(row));
        }
        if self.usage_tally.roots.is_empty() && self.usage_tally.grown_files.is_none() {
            return Ok(UsageAmount::default());
        }
        count_usage(&self.tree(), row.node)
    }

    /// Removes the counter of a directory that is removed, if it has one.
    pub(crate) fn forget_root(&mut self, node: i64) -> Result<()> {
        if self.usage_tally.roots.remove(&node).is_some() {
            self.conn()
                .prepare_cached("DELETE FROM usage WHERE volume = ?1 AND node = ?2")?
                .execute([self.volume.id, node])?;
        }
        Ok(())
    }

    /// The quota roots that the change counts, for steps that remove many directories at once.
    pub(crate) fn counted_roots(&self) -> Vec<i64> {
        self.usage_tally.roots.keys().copied().collect()
    }

    /// Forgets which roots are above which directories, because directories have moved.
    pub(crate) fn forget_roots_above(&mut self) {
        self.usage_tally.roots_above.clear();
    }

    fn roots_above(&mut self, directory: i64) -> Result<Vec<i64>> {
        if let Some(known) = self.usage_tally.roots_above.get(&directory) {
            return Ok(known.clone());
        }
        let tree = self.tree();
        let (mut roots, mut node) = (Vec::new(), directory);
        loop {
            if self.usage_tally.roots.contains_key(&node) {
                roots.push(node);
            }
            if node == tree.root {
                break;
            }
            node = tree.node(node)?.ok_or_else(|| corrupt("a directory has no parent"))?.parent;
        }
        self.usage_tally.roots_above.insert(directory, roots.clone());
        Ok(roots)
    }

    /// Checks the quotas, and writes the counters.
    pub(crate) fn finish_counting(&mut self, quotas: &[QuotaRoot]) -> Result<()> {
        for quota in quotas {
            let (mut before, mut after, mut nodes) = (Usage::default(), Usage::default(), Vec::new());
            for root in quota.roots() {
                let Some(node) = root_node(&self.tree(), root)? else { continue };
                let root_usage = match self.usage_tally.roots.get(&node) {
                    Some(&counted) => counted,
                    // It was created by this change.
                    None => {
                        self.begin_root(node)?;
                        (UsageAmount::default(), self.usage_tally.roots[&node].1)
                    }
                };
                (before, after) = (before.plus(root_usage.0.usage()), after.plus(root_usage.1.usage()));
                nodes.push(node);
            }
            quota.check(before, after)?;
            let tree = self.tree();
            // A directory that was removed since contains nothing.
            let is_inside =
                |directory| nodes.iter().any(|&node| tree.is_at_or_below(directory, node).unwrap_or(false));
            for &GrownFile { directory, size, moved_from } in self.usage_tally.grown_files.iter().flatten() {
                if is_inside(directory) && !moved_from.is_some_and(is_inside) {
                    quota.limits.check_file_size(size.cast_unsigned())?;
                }
            }
        }
        for (node, (before, after)) in &self.usage_tally.roots {
            if before != after {
                self.conn()
                    .prepare_cached(
                        "UPDATE usage SET bytes = ?3, files = ?4 WHERE volume = ?1 AND node = ?2",
                    )?
                    .execute(params![self.volume.id, node, after.bytes, after.files])?;
            }
        }
        Ok(())
    }
}

impl crate::virtual_store::VirtualStore {
    /// The usage below a directory, from its counter if there is one.
    pub(crate) fn usage_at(&self, at: &StorePath) -> Result<Usage> {
        self.read_transaction(|snapshot| {
            let tree = snapshot.tree;
            let Some(node) = root_node(&tree, at)? else { return Ok(Usage::default()) };
            match counted_usage(tree.conn, tree.vol, node)? {
                Some(usage) => Ok(usage),
                None => Ok(count_usage(&tree, node)?.usage()),
            }
        })
    }
}
