//! The undo of changes of tags, such as those that a merge has made.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, params};
use stead_core::OperationId;
use stead_core::managed::{TagMode, Tags};

use crate::database::error::Result;
use crate::database::manifest::returning::revisions_of;
use crate::database::manifest::rows::keep_history;
use crate::database::manifest::{ManagedRoots, ManifestChange};

/// The tags that a row had from one revision until just before another one.
struct EarlierTags {
    tags: Tags,
    since: i64,
    until: i64,
}

/// The tags that the row has now, and where its file is.
struct CurrentTags {
    path: String,
    tags: Tags,
    since: i64,
}

impl ManifestChange<'_> {
    /// Takes back what the undone operations did to the tags of rows that still exist. Tags that were changed since stay so.
    pub(crate) fn take_back_tags(&self, conn: &Connection, operations: &[OperationId]) -> Result<()> {
        let roots = ManagedRoots::load(conn, self.volume)?;
        let undone = revisions_of(conn, operations)?;
        if roots.is_empty() || undone.is_empty() {
            return Ok(());
        }
        let (since, undone_json) = (self.since(conn)?, format!("{:?}", Vec::from_iter(&undone)));
        for root in roots.iter() {
            // The newest change comes first, as with any undo.
            let mut statement = conn.prepare_cached(
                "SELECT h.id, h.tags, h.since, h.until, f.path, f.tags, f.since
                 FROM workspace_file_history h JOIN workspace_files f ON f.id = h.id AND f.workspace = h.workspace
                 WHERE h.workspace = ?1 AND (h.until IN (SELECT value FROM json_each(?2))
                   OR h.since IN (SELECT value FROM json_each(?2))) ORDER BY h.until DESC",
            )?;
            let rows = statement.query_map(params![root.workspace, undone_json], |row| {
                let tags = |column| row.get::<_, String>(column).map(|text| Tags::from_stored(&text));
                let earlier = EarlierTags { tags: tags(1)?, since: row.get(2)?, until: row.get(3)? };
                let now = CurrentTags { path: row.get(4)?, tags: tags(5)?, since: row.get(6)? };
                Ok((row.get::<_, i64>(0)?, earlier, now))
            })?;
            let rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
            // By the row and its revision: the file may have been elsewhere then.
            let made: HashMap<(i64, i64), &Tags> =
                rows.iter().map(|(id, earlier, _)| ((*id, earlier.since), &earlier.tags)).collect();
            let mut changed: BTreeMap<i64, (&str, Tags)> = BTreeMap::new();
            for (id, EarlierTags { tags: before, until, .. }, now) in &rows {
                let after = match now.since == *until {
                    true => Some(&now.tags),
                    false => made.get(&(*id, *until)).copied(),
                };
                let Some(after) = after.filter(|after| undone.contains(until) && *after != before) else {
                    continue;
                };
                let (_, tags) = changed.entry(*id).or_insert_with(|| (&now.path, now.tags.clone()));
                let kept = tags.without(&after.without(before));
                *tags = kept.changed(TagMode::Add, &before.without(after)).unwrap_or(kept);
            }
            for (id, (path, tags)) in changed {
                keep_history(conn, &root.workspace, path, since)?;
                conn.prepare_cached("UPDATE workspace_files SET tags = ?2, since = ?3 WHERE id = ?1")?
                    .execute(params![id, tags.to_string(), since])?;
            }
        }
        Ok(())
    }
}
