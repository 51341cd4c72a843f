//! When files were read: collected in memory, and written with the audit of reads or with the next transaction about a manifest.

use std::collections::HashMap;

use parking_lot::Mutex;
use rusqlite::Connection;
use stead_core::Timestamp;

use crate::database::error::Result;

/// How many files are remembered at most. The times of further ones are lost: they are information only.
const MAX_PENDING: usize = 10_000;

/// The reads that aren't in the database yet: the newest of each file, by `workspace` and path.
#[derive(Debug, Default)]
pub(crate) struct PendingTouches(Mutex<HashMap<(String, String), Timestamp>>);

impl PendingTouches {
    pub(super) fn add(&self, workspace: String, path: &str, at: Timestamp) {
        let mut pending = self.0.lock();
        if pending.len() < MAX_PENDING {
            pending.insert((workspace, path.to_owned()), at);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Takes all of them, to be written.
    pub(crate) fn take(&self) -> Vec<((String, String), Timestamp)> {
        std::mem::take(&mut *self.0.lock()).into_iter().collect()
    }

    /// Writes them. A file without a row gets none.
    pub(crate) fn write(conn: &Connection, touches: &[((String, String), Timestamp)]) -> Result<()> {
        for ((workspace, path), at) in touches {
            conn.prepare_cached(
                "UPDATE workspace_files SET accessed_at = ?3 WHERE workspace = ?1 AND path = ?2",
            )?
            .execute([workspace, path, &at.to_string()])?;
        }
        Ok(())
    }
}
