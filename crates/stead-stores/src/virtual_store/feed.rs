//! The feed: what has changed in a volume, read from the table `change`.

use rusqlite::params;
use stead_core::store::{ChangeKind, Feed, FeedEntry, NodeId, RevisionNumber};

use crate::database::error::{Result, corrupt};
use crate::database::newest_revision;
use crate::virtual_store::VirtualStore;

/// The code of a kind of change in the table `change`.
pub(super) fn kind_code(kind: ChangeKind) -> i64 {
    match kind {
        ChangeKind::Created => 1,
        ChangeKind::Written => 2,
        ChangeKind::Attributes => 3,
        ChangeKind::Removed => 4,
        ChangeKind::MovedTo => 5,
        ChangeKind::MovedFrom => 6,
    }
}

/// The kind of change for a code in the table `change`.
pub(super) fn kind_of_code(code: i64) -> Result<ChangeKind> {
    Ok(match code {
        1 => ChangeKind::Created,
        2 => ChangeKind::Written,
        3 => ChangeKind::Attributes,
        4 => ChangeKind::Removed,
        5 => ChangeKind::MovedTo,
        6 => ChangeKind::MovedFrom,
        _ => return Err(corrupt("a change in the history has an unknown kind")),
    })
}

impl VirtualStore {
    /// Returns the changes after `cursor`; without one, no changes and the cursor of now.
    ///
    /// A revision is returned whole or not at all, so that a cursor, which is a revision, skips nothing. So one
    /// revision may exceed the limit.
    pub(super) fn feed_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> Result<Feed> {
        self.read_transaction(|snapshot| {
            let conn = snapshot.tree.conn;
            let last = self.as_of.unwrap_or(i64::MAX).min(newest_revision(conn)?);
            let Some(cursor) = cursor else {
                return Ok(Feed { changes: Vec::new(), cursor: RevisionNumber(last), more: false });
            };
            let mut statement = conn.prepare_cached(
                "SELECT revision, kind, node, parent, name FROM node_change WHERE volume = ?1 AND revision > ?2 AND revision <= ?3
                 ORDER BY revision, seq",
            )?;
            let mut rows = statement.query(params![self.volume.id, cursor.0, last])?;
            let mut changes: Vec<FeedEntry> = Vec::new();
            // The index of the first change of the revision that is being read.
            let mut revision_start = 0;
            while let Some(row) = rows.next()? {
                let revision = RevisionNumber(row.get(0)?);
                if changes.last().is_some_and(|previous| previous.revision != revision) {
                    revision_start = changes.len();
                }
                if changes.len() >= limit && revision_start > 0 {
                    changes.truncate(revision_start);
                    let cursor = changes[revision_start - 1].revision;
                    return Ok(Feed { changes, cursor, more: true });
                }
                changes.push(FeedEntry {
                    revision,
                    kind: kind_of_code(row.get(1)?)?,
                    node: NodeId(row.get::<_, i64>(2)?.cast_unsigned()),
                    parent: NodeId(row.get::<_, i64>(3)?.cast_unsigned()),
                    name: row.get(4)?,
                });
            }
            Ok(Feed { changes, cursor: RevisionNumber(last.max(cursor.0)), more: false })
        })
    }
}
