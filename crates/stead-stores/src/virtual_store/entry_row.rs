//! A row of the catalog: an entry, now or as of a revision.

use rusqlite::{Connection, Row as SqlRow, params};
use stead_core::Timestamp;
use stead_core::store::{Attr, NodeId, NodeKind, VersionTag};

use crate::database::error::{Result, corrupt};

/// The permission bits of entries that are made without any.
pub(crate) const FILE_MODE: u32 = 0o644;
pub(crate) const DIRECTORY_MODE: u32 = 0o755;
pub(crate) const SYMLINK_MODE: u32 = 0o777;

/// The kind of a row that hides a name of a fork's base.
pub(crate) const WHITEOUT: i64 = 0;

/// A query over the live entries `e`, and the same query over the entries as of revision `?2`.
///
/// `?1` is the volume in both. At any revision, at most one row holds for a name, and at most one for a node.
macro_rules! entries {
    ($select:literal, $rest:literal) => {
        [
            concat!($select, " FROM entry e WHERE e.volume = ?1 AND ", $rest),
            concat!(
                $select,
                " FROM (SELECT volume, parent, name, node, kind, mode, size, created, modified, changed, content, since
                        FROM entry WHERE volume = ?1 AND since <= ?2
                        UNION ALL
                        SELECT volume, parent, name, node, kind, mode, size, created, modified, changed, content, since
                        FROM entry_history WHERE volume = ?1 AND since <= ?2 AND until > ?2) e
                  WHERE ",
                $rest
            ),
        ]
    };
}
pub(crate) use entries;

/// What the catalog holds of an entry besides its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryRow {
    pub(crate) node: i64,
    pub(crate) parent: i64,
    pub(crate) kind: EntryKind,
    pub(crate) mode: u32,
    pub(crate) size: i64,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) changed: i64,
    pub(crate) content: Option<i64>,
    pub(crate) since: i64,
}

/// The kinds of entries in a Virtual Store, with their codes in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File = 1,
    Directory = 2,
    Symlink = 3,
}

impl EntryKind {
    pub(crate) fn from_code(code: i64) -> Result<Self> {
        match code {
            1 => Ok(EntryKind::File),
            2 => Ok(EntryKind::Directory),
            3 => Ok(EntryKind::Symlink),
            _ => Err(corrupt("an entry has an unknown kind")),
        }
    }
}

impl EntryKind {
    /// The kind as the Store port names it.
    pub(crate) fn to_kind(self) -> NodeKind {
        match self {
            EntryKind::File => NodeKind::File,
            EntryKind::Directory => NodeKind::Directory,
            EntryKind::Symlink => NodeKind::Symlink,
        }
    }
}

impl EntryRow {
    /// Reads the columns `node, parent, kind, mode, size, created, modified, changed, content, since`, beginning at
    /// column `first`.
    pub(crate) fn from_columns(row: &SqlRow<'_>, first: usize) -> Result<Self> {
        Ok(EntryRow {
            node: row.get(first)?,
            parent: row.get(first + 1)?,
            kind: EntryKind::from_code(row.get(first + 2)?)?,
            mode: row.get(first + 3)?,
            size: row.get(first + 4)?,
            created: row.get(first + 5)?,
            modified: row.get(first + 6)?,
            changed: row.get(first + 7)?,
            content: row.get(first + 8)?,
            since: row.get(first + 9)?,
        })
    }

    /// The version tag: unique per node and the revision that last changed it.
    pub(crate) fn tag(&self) -> VersionTag {
        VersionTag(u128::from(self.node.cast_unsigned()) << 64 | u128::from(self.since.cast_unsigned()))
    }

    /// The attributes that a caller of the Store sees.
    pub(crate) fn attr(&self) -> Attr {
        Attr {
            node: NodeId(self.node.cast_unsigned()),
            kind: self.kind.to_kind(),
            size: self.size.cast_unsigned(),
            mode: self.mode,
            created: Some(Timestamp(self.created)),
            modified: Timestamp(self.modified),
            changed: Timestamp(self.changed),
            tag: self.tag(),
        }
    }

    /// Inserts the row into a volume, in which no entry may have this name.
    pub(crate) fn insert(&self, conn: &Connection, vol: i64, name: &[u8]) -> Result<()> {
        conn.prepare_cached(
            "INSERT INTO entry(volume, parent, name, node, kind, mode, size, created, modified, changed, content, since)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            vol,
            self.parent,
            name,
            self.node,
            self.kind as i64,
            self.mode,
            self.size,
            self.created,
            self.modified,
            self.changed,
            self.content,
            self.since
        ])?;
        Ok(())
    }

    /// Inserts a whiteout that hides this row of the base from a volume, since that revision.
    pub(crate) fn insert_whiteout(&self, conn: &Connection, vol: i64, name: &[u8], since: i64) -> Result<()> {
        conn.prepare_cached(
            "INSERT INTO entry(volume, parent, name, node, kind, mode, size, created, modified, changed, since)
             VALUES (?1, ?2, ?3, -?4, ?5, 0, 0, 0, 0, 0, ?6)",
        )?
        .execute(params![vol, self.parent, name, self.node, WHITEOUT, since])?;
        Ok(())
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::database::Database;

    /// At any revision, an entry is found by its key: neither the live entries nor the history is scanned.
    #[test]
    fn no_lookup_scans_a_table() {
        let database = Database::in_memory();
        let reader = database.0.reader().unwrap();
        let by_name = entries!("SELECT e.node", "e.parent = ?3 AND e.name = ?4");
        let by_node = entries!("SELECT e.node", "e.node = ?3");
        let by_directory =
            entries!("SELECT e.node", "e.parent = ?3 AND e.name > ?4 ORDER BY e.name LIMIT ?5");
        for sql in [by_name, by_node, by_directory].concat() {
            let mut statement = reader.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan: Vec<String> =
                statement.raw_query().mapped(|row| row.get(3)).map(Result::unwrap).collect();
            let searches: Vec<_> = plan.iter().filter(|line| line.starts_with("SEARCH")).collect();
            assert!(
                !searches.is_empty()
                    && searches.iter().all(|line| line.contains("parent=?") || line.contains("node=?")),
                "{plan:?}"
            );
            assert!(!plan.iter().any(|line| line.starts_with("SCAN entry")), "{plan:?}");
        }
    }
}
