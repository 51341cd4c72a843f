//! The undo of changes of tags, such as those that a merge has made.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use stead_core::OperationId;
use stead_core::managed::{TagMode, Tags};

use crate::database::error::Result;
use crate::database::manifest::returning::revisions_of;
use crate::database::manifest::rows::keep_history;
use crate::database::manifest::{ManagedRoots, ManifestChange};

impl ManifestChange<'_> {
    /// Takes back what the undone operations did to the tags of rows that still exist. Tags that were changed since stay so.
    pub(crate) fn take_back_tags(&self, conn: &Connection, operations: &[OperationId]) -> Result<()> {
        let roots = ManagedRoots::load(conn, self.volume)?;
        let undone = revisions_of(conn, operations)?;
        if roots.is_empty() || undone.is_empty() {
            return Ok(());
        }
        let (since, undone) = (self.since(conn)?, format!("{:?}", Vec::from_iter(undone)));
        for root in roots.iter() {
            // The newest change comes first, as with any undo.
            let mut statement = conn.prepare_cached(
                "SELECT h.tags, f.id, f.path, f.tags,
                   CASE WHEN f.since = h.until THEN f.tags ELSE (SELECT n.tags FROM workspace_file_history n
                     WHERE n.workspace = h.workspace AND n.path IN (h.path, f.path) AND n.id = h.id AND n.since = h.until) END AS after
                 FROM workspace_file_history h JOIN workspace_files f ON f.id = h.id AND f.workspace = h.workspace
                 WHERE h.workspace = ?1 AND h.until IN (SELECT value FROM json_each(?2)) AND after <> h.tags ORDER BY h.until DESC",
            )?;
            let rows = statement.query_map(params![root.workspace, undone], |row| {
                let tags = |column| row.get::<_, String>(column).map(|text| Tags::from_stored(&text));
                let (id, path): (i64, String) = (row.get(1)?, row.get(2)?);
                Ok((tags(0)?, id, path, tags(3)?, tags(4)?))
            })?;
            let mut changed: BTreeMap<i64, (String, Tags)> = BTreeMap::new();
            for row in rows {
                let (before, id, path, now, after) = row?;
                let (_, tags) = changed.entry(id).or_insert((path, now));
                let kept = tags.without(&after.without(&before));
                *tags = kept.changed(TagMode::Add, &before.without(&after)).unwrap_or(kept);
            }
            for (id, (path, tags)) in changed {
                keep_history(conn, &root.workspace, &path, since)?;
                conn.prepare_cached("UPDATE workspace_files SET tags = ?2, since = ?3 WHERE id = ?1")?
                    .execute(params![id, tags.to_string(), since])?;
            }
        }
        Ok(())
    }
}
