//! Garbage collection: deletes content that nothing refers to any more.
//!
//! Content is condemned first and deleted later. A transaction that uses condemned content clears the mark, so content
//! that is still condemned when it is to be deleted has not been used since. No transaction takes longer than a few
//! hundred rows do.

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::params;
use stead_core::{StoreResult, Timestamp};

use crate::database::Database;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::virtual_store::content::part_ids;

/// How many rows one transaction touches.
const ROWS_PER_TRANSACTION: usize = 250;
/// The same on a full disk: each row takes its content's size in the WAL, and all of them have to fit into the reserve.
const ROWS_PER_TRANSACTION_IF_FULL: usize = 4;

/// Options of a garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcOptions {
    /// How long content stays condemned before it is deleted: longer than any reader keeps a file open.
    pub grace: Duration,
    /// Whether to shrink the file. That rewrites the database, and other callers wait.
    pub vacuum: bool,
}

impl Default for GcOptions {
    fn default() -> Self {
        GcOptions { grace: Duration::from_secs(24 * 3600), vacuum: false }
    }
}

/// What garbage collection deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Collected {
    /// How many contents were deleted.
    pub contents: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that are condemned, and will be deleted after the grace time.
    pub condemned: u64,
}

/// Content that nothing refers to.
struct UnusedContent {
    id: i64,
    size: i64,
    condemned_at: Option<i64>,
}

impl Database {
    /// Deletes content that nothing refers to. `progress` gets the number of contents deleted so far.
    pub fn gc(
        &self,
        options: GcOptions,
        now: Timestamp,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<Collected> {
        self.drop_expired_pins(now)?;
        self.remove_unclaimed_parts(now)?;
        let mut unused = self.unused_contents()?;
        let newly_unused: Vec<i64> = unused
            .iter()
            .filter(|content| content.condemned_at.is_none())
            .map(|content| content.id)
            .collect();
        for ids in newly_unused.chunks(self.rows_per_transaction()) {
            let ids = ids.to_vec();
            self.0.write_reserved(CommitSync::Deferred, move |transaction| {
                let mut condemn = transaction.conn.prepare_cached(
                    "UPDATE content SET unreferenced_at = ?2 WHERE id = ?1 AND unreferenced_at IS NULL",
                )?;
                ids.iter().try_for_each(|id| condemn.execute([*id, now.0]).map(|_| ()))?;
                Ok(())
            })?;
        }
        if options.grace.is_zero() && !newly_unused.is_empty() {
            // Only content that was condemned before its references were looked up may be deleted.
            unused = self.unused_contents()?;
        }
        let grace = i64::try_from(options.grace.as_nanos()).unwrap_or(i64::MAX);
        let due_before = now.0.saturating_sub(grace);
        let (due, waiting): (Vec<UnusedContent>, Vec<UnusedContent>) =
            unused.into_iter().partition(|content| content.condemned_at.is_some_and(|at| at <= due_before));
        let mut collected = Collected {
            condemned: waiting.iter().map(|content| content.size.cast_unsigned()).sum(),
            ..Collected::default()
        };
        for batch in due.chunks(self.rows_per_transaction()) {
            let ids: Vec<(i64, i64)> = batch.iter().map(|content| (content.id, content.size)).collect();
            let (count, bytes) = self.0.write_reserved(CommitSync::Deferred, move |transaction| {
                let (mut count, mut bytes) = (0, 0);
                let mut delete = transaction
                    .conn
                    .prepare_cached("DELETE FROM content WHERE id = ?1 AND unreferenced_at <= ?2")?;
                for (id, size) in ids {
                    let removed = delete.execute(params![id, grace_limit(now, grace)])? as u64;
                    count += removed;
                    bytes += removed * size.cast_unsigned();
                }
                Ok((count, bytes))
            })?;
            collected.contents += count;
            collected.bytes += bytes;
            progress(collected.contents);
        }
        if options.vacuum {
            self.vacuum()?;
        }
        Ok(collected)
    }

    fn rows_per_transaction(&self) -> usize {
        let is_full = self.0.reserve.as_ref().is_some_and(|reserve| reserve.is_needed());
        if is_full { ROWS_PER_TRANSACTION_IF_FULL } else { ROWS_PER_TRANSACTION }
    }

    /// Removes the pins of drafts that no change has used within a day.
    fn drop_expired_pins(&self, now: Timestamp) -> StoreResult<()> {
        let day = 24 * 3600 * 1_000_000_000;
        self.0.write_reserved(CommitSync::Deferred, move |transaction| {
            transaction.conn.prepare_cached("DELETE FROM pin WHERE at < ?1")?.execute([now.0 - day])?;
            Ok(())
        })
    }

    /// Content that nothing refers to, at one point in time. A chunk list that is used keeps its chunks. The size of a
    /// list is 0, because its chunks are counted.
    fn unused_contents(&self) -> StoreResult<Vec<UnusedContent>> {
        let find_unused = || -> Result<Vec<UnusedContent>> {
            let reader = self.0.reader()?;
            let _transaction = reader.unchecked_transaction()?;
            let mut used: HashSet<i64> = HashSet::new();
            let mut statement = reader.prepare(
                "SELECT content FROM entry WHERE content IS NOT NULL
                 UNION ALL SELECT content FROM entry_history WHERE content IS NOT NULL
                 UNION ALL SELECT content FROM pin",
            )?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                used.insert(row.get(0)?);
            }
            let mut statement = reader.prepare("SELECT id, parts FROM content WHERE parts IS NOT NULL")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if used.contains(&row.get(0)?) {
                    used.extend(part_ids(row.get_ref(1)?.as_str().unwrap_or(""))?);
                }
            }
            let mut statement =
                reader.prepare("SELECT id, iif(parts IS NULL, size, 0), unreferenced_at FROM content")?;
            let mut rows = statement.query([])?;
            let mut unused = Vec::new();
            while let Some(row) = rows.next()? {
                let id = row.get(0)?;
                if !used.contains(&id) {
                    unused.push(UnusedContent { id, size: row.get(1)?, condemned_at: row.get(2)? });
                }
            }
            Ok(unused)
        };
        Ok(find_unused()?)
    }

    /// Rewrites the file without free pages.
    fn vacuum(&self) -> StoreResult<()> {
        self.with_exclusive_access(|conn| Ok(conn.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")?))
    }
}

fn grace_limit(now: Timestamp, grace: i64) -> i64 {
    now.0.saturating_sub(grace)
}
